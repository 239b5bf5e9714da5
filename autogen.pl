#!/usr/bin/env perl
#
# Prepares this source tree for configure, or lends its components to an Open MPI source tree.
#
#   ./autogen.pl                 find the components under opal/mca, write the list that configure.ac
#                                includes, and run autoreconf
#   ./autogen.pl --graft DIR     copy the component folders into the Open MPI source tree DIR and keep
#                                what was there; DIR's own autogen.pl then finds and builds them
#   ./autogen.pl --ungraft DIR   put back what --graft kept
#   ./autogen.pl --list          print the components, one per line, and do nothing else
#
# A folder opal/mca/FRAMEWORK/COMPONENT is a component when it holds a configure.m4 or a
# Makefile.am and no .opal_ignore: the rule of Open MPI's own autogen.pl.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(basename dirname);
use File::Copy qw(copy);
use File::Path qw(make_path remove_tree);
use Getopt::Long;

my $list_file = "config/oot_components.m4";
my $kept_dir  = ".kept-by-graft";

# What each tool has to be able to do; older ones fail later with messages that do not name the cause.
my @tools = (["autoconf", "2.69"], ["automake", "1.13.4"], ["libtoolize", "2.4.2"], ["m4", "1.4.13"]);

sub fail
{
    print STDERR "autogen.pl: @_\n";
    exit(1);
}

sub find_components
{
    my ($top) = @_;
    my @found;

    foreach my $dir (sort(glob("$top/opal/mca/*/*"))) {
        next if (!-d $dir || -e "$dir/.opal_ignore");
        next if (!-e "$dir/configure.m4" && !-e "$dir/Makefile.am");
        push(@found, {framework => basename(dirname($dir)), name => basename($dir)});
    }
    return @found;
}

# Folders of tests and tools that bring a Makefile.am of their own take part in the build.
sub find_subdirs
{
    my ($top, $parent) = @_;

    return map { dirname($_) } map { substr($_, length("$top/")) }
        sort(glob("$top/$parent/*/Makefile.am"));
}

sub version_less
{
    my @have = split(/\./, $_[0]);
    my @want = split(/\./, $_[1]);

    while (@want) {
        my ($h, $w) = (shift(@have) // 0, shift(@want));
        return $h < $w if ($h != $w);
    }
    return 0;
}

sub check_tools
{
    foreach my $tool (@tools) {
        my ($name, $least) = @{$tool};
        my $text = `$name --version 2>/dev/null` // "";
        if ($text !~ /(\d+(?:\.\d+)+)/) {
            fail("$name is missing; on Debian and Ubuntu: apt-get install autoconf automake libtool m4");
        }
        fail("$name $1 is too old, $least or newer is needed") if (version_less($1, $least));
    }
}

sub write_list
{
    my ($top, @components) = @_;
    my @test    = find_subdirs($top, "test");
    my @contrib = find_subdirs($top, "contrib");
    my $text    = "dnl Written by autogen.pl; do not edit.\n\n";

    foreach my $c (@components) {
        my $dir = "opal/mca/$c->{framework}/$c->{name}";
        $text .= "m4_include([$dir/configure.m4])\n" if (-e "$top/$dir/configure.m4");
    }
    $text .= "\nAC_DEFUN([OOT_MCA_ALL_COMPONENTS], [\n";
    foreach my $c (@components) {
        my $macro = -e "$top/opal/mca/$c->{framework}/$c->{name}/configure.m4"
            ? "OOT_MCA_COMPONENT" : "OOT_MCA_COMPONENT_NO_CONFIG";
        $text .= "    $macro([opal], [$c->{framework}], [$c->{name}])\n";
    }
    $text .= "])\n\nAC_DEFUN([OOT_OTHER_SUBDIRS], [\n";
    $text .= "    AC_CONFIG_FILES([$_/Makefile])\n" foreach (@test, @contrib);
    $text .= "    OOT_TEST_SUBDIRS=\"" . join(" ", map { basename($_) } @test) . "\"\n";
    $text .= "    OOT_CONTRIB_SUBDIRS=\"@contrib\"\n";
    $text .= "    AC_SUBST([OOT_TEST_SUBDIRS])\n    AC_SUBST([OOT_CONTRIB_SUBDIRS])\n])\n";

    # An unchanged file keeps its time, so that make does not run the autotools again for nothing.
    my $old = "";
    if (open(my $in, "<", "$top/$list_file")) {
        local $/;
        $old = <$in> // "";
        close($in);
    }
    return if ($old eq $text);
    open(my $out, ">", "$top/$list_file") or fail("cannot write $list_file: $!");
    print {$out} $text;
    close($out) or fail("cannot write $list_file: $!");
}

# Plain files only, without editor leftovers and build output: a component folder holds nothing else.
sub copy_folder
{
    my ($from, $to) = @_;

    make_path($to);
    foreach my $file (sort(glob("$from/* $from/.opal_*"))) {
        my $name = basename($file);
        next if (!-f $file || $name =~ /(?:~|\.(?:l?o|la|so|gcda|gcno))$/ || $name =~ /^Makefile(?:\.in)?$/);
        copy($file, "$to/$name") or fail("cannot copy $file to $to: $!");
        chmod((stat($file))[2] & 07777, "$to/$name");
    }
}

sub check_ompi_tree
{
    my ($dir) = @_;

    fail("$dir: no such folder") if (!defined($dir) || !-d $dir);
    if (!-f "$dir/VERSION" || !-f "$dir/autogen.pl" || !-d "$dir/opal/mca/btl") {
        fail("$dir is not an Open MPI source tree (no VERSION, autogen.pl or opal/mca/btl in it)");
    }
    open(my $in, "<", "$dir/VERSION") or fail("cannot read $dir/VERSION: $!");
    my ($major) = map { /^major=(\d+)/ ? $1 : () } <$in>;
    close($in);
    if (!defined($major) || 5 > $major || 6 < $major) {
        fail("$dir is Open MPI " . ($major // "of unknown version") . "; 5.0 to 6.x is needed");
    }
    fail("$dir is not writable") if (!-w "$dir/opal/mca");
    return abs_path($dir);
}

sub graft
{
    my ($top, $dir, @components) = @_;

    $dir = check_ompi_tree($dir);
    fail("$dir/$kept_dir exists: components are grafted already; --ungraft first") if (-e "$dir/$kept_dir");
    foreach my $c (@components) {
        fail("$dir has no framework $c->{framework}") if (!-d "$dir/opal/mca/$c->{framework}");
    }
    make_path("$dir/$kept_dir");
    open(my $log, ">", "$dir/$kept_dir/list") or fail("cannot write $dir/$kept_dir/list: $!");
    foreach my $c (@components) {
        my $sub  = "opal/mca/$c->{framework}/$c->{name}";
        my $kept = -d "$dir/$sub" ? "kept" : "new";
        if ("kept" eq $kept) {
            make_path("$dir/$kept_dir/" . dirname($sub));
            rename("$dir/$sub", "$dir/$kept_dir/$sub") or fail("cannot move $dir/$sub away: $!");
        }
        copy_folder("$top/$sub", "$dir/$sub");
        print {$log} "$kept $sub\n";
        print "$sub: copied", ("kept" eq $kept ? ", the former one is in $kept_dir" : ""), "\n";
    }
    close($log) or fail("cannot write $dir/$kept_dir/list: $!");
    print "Now in $dir: ./autogen.pl --force && ./configure ... && make\n";
}

sub ungraft
{
    my ($dir) = @_;

    $dir = check_ompi_tree($dir);
    open(my $log, "<", "$dir/$kept_dir/list") or fail("$dir: nothing is grafted there");
    my @lines = <$log>;
    close($log);
    foreach my $line (@lines) {
        chomp($line);
        my ($kept, $sub) = split(/ /, $line, 2);
        fail("$dir/$kept_dir/list: bad line '$line'") if (($sub // "") !~ m{^opal/mca/\w+/\w+$});
        remove_tree("$dir/$sub");
        if ("kept" eq $kept) {
            rename("$dir/$kept_dir/$sub", "$dir/$sub") or fail("cannot put back $dir/$sub: $!");
        }
        print "$sub: ", ("kept" eq $kept ? "put back" : "removed"), "\n";
    }
    remove_tree("$dir/$kept_dir");
}

my $top = dirname(abs_path($0));
my ($graft_dir, $ungraft_dir, $list, $help, $force);
GetOptions("graft=s" => \$graft_dir, "ungraft=s" => \$ungraft_dir, "list" => \$list,
           "force" => \$force, "help" => \$help)
    or fail("unknown option; --help lists them");
fail("unexpected argument '$ARGV[0]'; --help lists the options") if (@ARGV);
if ($help) {
    print "Usage: autogen.pl [--force] | --list | --graft OMPI_SOURCE_DIR | --ungraft OMPI_SOURCE_DIR\n";
    exit(0);
}

my @components = find_components($top);
fail("no component found under opal/mca") if (!@components);
if ($list) {
    print "$_->{framework}/$_->{name}\n" foreach (@components);
} elsif (defined($graft_dir)) {
    graft($top, $graft_dir, @components);
} elsif (defined($ungraft_dir)) {
    ungraft($ungraft_dir);
} else {
    check_tools();
    write_list($top, @components);
    print "Components: ", join(" ", map { "$_->{framework}/$_->{name}" } @components), "\n";
    chdir($top) or fail("cannot change to $top: $!");
    my @command = ("autoreconf", "--install", "--warnings=all", ($force ? ("--force") : ()));
    system(@command) == 0 or fail("@command failed");
}

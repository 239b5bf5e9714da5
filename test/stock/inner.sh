#!/usr/bin/env bash
#
# inner.sh: runs inside the Debian 13 root of test/stock/run, as root, with the checkout in /src. Prints TAP.
#
# What it shows: ompi_info and the ranks of a plain mpirun of the packaged Open MPI use our files, in a shell
# prepared by --print-env and in a login shell after make install, with nothing on standard error; and the
# built-in components work, with one line saying so, where a plugin is missing, broken or of another series.
# The files in use are read from the ranks' own map lists (contrib/loaded.c), never from a parameter.

set -u -o pipefail
export LC_ALL=C
. /src/test/support/tap.sh
T=/tmp/stock
mkdir -p $T
cd $T || exit 1
readonly PLUGINS="mca_smsc_cma.so mca_btl_sm.so"

# run COMMAND...: output to $T/out, errors to $T/err.
run() { timeout 300 "$@" >$T/out 2>$T/err </dev/null; }

# in_shell prepared|login COMMAND: COMMAND in a new shell that has been made ready in one of the two ways.
in_shell() {
    case $1 in
        prepared) run env -i HOME=/root PATH="$PATH" bash -c "eval \"\$(cat $T/env)\"; $2" ;;
        login) run env -i HOME=/root OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 bash -lc "$2" ;;
    esac
}

# The number of ranks (of 2) that have FILE mapped.
ranks_with() { grep -cF "/$1" $T/out; }
is_silent() { [ ! -s $T/err ]; }

# ours_everywhere HOW DIR: the proof that the files in DIR are in use.
ours_everywhere() {
    local how=$1 dir=$2 name
    in_shell "$how" "ompi_info --parsable --all --level 9" || true
    is_silent
    result $? "$how shell: ompi_info prints nothing on standard error" $T/err
    grep -q '^mca:smsc:cma:param:smsc_cma_copy_limit:' $T/out
    result $? "$how shell: ompi_info shows our smsc/cma" $T/err
    grep -q '^mca:btl:sm:param:btl_sm_single_copy_limit:' $T/out
    result $? "$how shell: ompi_info shows our btl/sm" $T/err
    in_shell "$how" "mpirun -n 2 --map-by :OVERSUBSCRIBE $T/loaded"
    result $? "$how shell: a plain mpirun ends well" $T/err
    for name in $PLUGINS; do
        same "$(grep -cF "$dir/$name" $T/out)" 2 "$how shell: both ranks have our $name mapped" || sed 's/^/# /' $T/out
    done
    is_silent
    result $? "$how shell: mpirun prints nothing on standard error" $T/err
}

# built_in WHAT OURS LINES [ARGUMENTS]: a job runs; of our two files it has only those named in OURS; standard
# error holds exactly LINES lines.
built_in() {
    local what=$1 ours=$2 lines=$3 arguments=${4:-} name want
    in_shell prepared "mpirun -n 2 --map-by :OVERSUBSCRIBE $arguments $T/loaded"
    result $? "$what: the job runs" $T/err
    for name in $PLUGINS; do
        case " $ours " in *" $name "*) want=2 ;; *) want=0 ;; esac
        same "$(ranks_with "$name")" $want "$what: $want of 2 ranks use our $name" || sed 's/^/# /' $T/out
    done
    same "$(grep -c . $T/err)" "$lines" "$what: $lines line(s) on standard error" || sed 's/^/# /' $T/err
    if [ "$lines" = 1 ]; then
        grep -q 'mca_smsc_cma' $T/err
        result $? "$what: the line names the plugin" $T/err
    fi
}

# A copy of a plugin that says it was made for series 9.9: the bytes of its mca_*_built_for symbol changed.
of_another_series() {
    local file=$1 address
    address=$(nm -D "$file" | sed -n 's/^\([0-9a-f]*\) . mca_[a-z_]*_built_for$/\1/p')
    [ -n "$address" ] && printf '9.9' | dd of="$file" bs=1 seek=$((16#$address)) conv=notrunc 2>/dev/null
}

# --- a shell prepared by contrib/setup ---
run /src/contrib/setup --groups none
if ! result $? "contrib/setup ends well" $T/err; then
    tail -n 30 /root/.cache/smx/log/plugins*.log | cut -c1-300 | sed 's/^/# /'
    finish
fi
same "$(grep -c . $T/out)" 1 "contrib/setup prints one line on standard output"
grep -qE '^setup: Open MPI 5\.0\.[0-9]+ in /usr; plugins in ' $T/out
result $? "it took the packaged Open MPI and says where the plugins are" $T/out
run /src/contrib/setup --groups none --print-env
result $? "contrib/setup --print-env ends well" $T/err
cp $T/out $T/env
run bash -n $T/env && ! grep -qvE '^export ' $T/env
result $? "it prints shell code only" $T/env
eval "$(grep '^export SMX_' $T/env)"
ldd -r "$SMX_PLUGIN_DIR/mca_smsc_cma.so" 2>/dev/null | grep -q 'libopen-pal'
result $? "the plugins are linked with the packaged libopen-pal"
in_shell prepared "mpicc -O1 -o $T/loaded /src/contrib/loaded.c"
result $? "mpicc of that shell works" $T/err
ours_everywhere prepared "$SMX_PLUGIN_DIR"

# --- not wanted, missing, broken, of another series ---
built_in "dsofirst switched off" "" 0 "--mca allocator ^dsofirst"
mv "$SMX_PLUGIN_DIR/mca_smsc_cma.so" $T/keep.so
built_in "plugin missing" "mca_btl_sm.so" 1
head -c 4000 $T/keep.so >"$SMX_PLUGIN_DIR/mca_smsc_cma.so"
chmod 755 "$SMX_PLUGIN_DIR/mca_smsc_cma.so"
built_in "plugin cut short" "mca_btl_sm.so" 1
cp $T/keep.so "$SMX_PLUGIN_DIR/mca_smsc_cma.so"
of_another_series "$SMX_PLUGIN_DIR/mca_smsc_cma.so"
result $? "a plugin of another series can be made"
built_in "plugin of another series" "mca_btl_sm.so" 1
cp $T/keep.so "$SMX_PLUGIN_DIR/mca_smsc_cma.so"
for name in $PLUGINS; do mv "$SMX_PLUGIN_DIR/$name" $T/; done
in_shell prepared "mpirun -n 2 --map-by :OVERSUBSCRIBE --mca btl sm,self $T/loaded"
result $? "both plugins missing: the built-in sm still takes the job" $T/err
same "$(grep -cE "/mca_(smsc_cma|btl_sm)\.so" $T/out)" 0 "both plugins missing: none of ours is mapped"
for name in $PLUGINS; do mv "$T/$name" "$SMX_PLUGIN_DIR/"; done

# --- a login shell after make install ---
mkdir -p $T/build && cd $T/build || exit 1
run bash -c '/src/configure --with-ompi=/usr && make -j"$(nproc)" && make install'
result $? "configure, make and make install into the package's own folder" $T/err
cd $T || exit 1
pkglibdir=$(ompi_info --parsable --path pkglibdir 2>/dev/null | sed -n 's/^path:pkglibdir://p')
[ -e "$pkglibdir/mca_btl_sm.so" ]
result $? "the plugins are in $pkglibdir"
ours_everywhere login "$pkglibdir"
cd $T/build && run make uninstall
result $? "make uninstall" $T/err
cd $T || exit 1
in_shell login "mpirun -n 2 --map-by :OVERSUBSCRIBE $T/loaded"
result $? "after make uninstall a login shell's mpirun works" $T/err
same "$(grep -cE '/mca_(smsc_cma|btl_sm)\.so' $T/out)" 0 "after make uninstall nothing of ours is in use"
is_silent
result $? "after make uninstall standard error is empty" $T/err

# --- a user without root ---
useradd -m plain 2>/dev/null || adduser --disabled-password --gecos "" plain >/dev/null 2>&1
as_user() { run setpriv --reuid plain --regid plain --clear-groups env -i HOME=/home/plain PATH=/usr/bin:/bin bash -lc "$1"; }
as_user 'mkdir -p ~/b && cd ~/b && /src/configure --with-ompi=/usr --enable-user-install && make -j2 && make install'
result $? "a plain user configures, makes and installs to ~/.openmpi/components" $T/err
as_user ". ~/.openmpi/components/single-copy/single-copy.sh; mpirun -n 2 --map-by :OVERSUBSCRIBE $T/loaded"
result $? "and runs a job after the line that make install prints" $T/err
for name in $PLUGINS; do
    same "$(grep -cF "/home/plain/.openmpi/components/$name" $T/out)" 2 "both ranks have the user's $name mapped" || sed 's/^/# /' $T/out $T/err
done
is_silent
result $? "with nothing on standard error" $T/err
finish

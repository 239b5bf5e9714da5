#!/bin/sh
#
# Looks after the folder that make install puts the plugins into; called by the top Makefile.
#
#   plugin-dir.sh check DIR           one line and status 1 if DIR can be neither written nor made
#   plugin-dir.sh keep DIR PLUGIN..   set plugin files of these names aside that are not this project's
#   plugin-dir.sh restore DIR         bring back what keep set aside (make uninstall)
#
# Where Open MPI itself was built with its components as plugins, its files have the names of ours. The
# first folder searched wins, so ours have to take their place; the kept ones sit in a folder of their own,
# because MCA takes each plain file beside the plugins for one more plugin.

set -eu

kept_name=single-copy/replaced

fail()
{
    echo "make install: $*" >&2
    exit 1
}

# Each plugin of this project carries its series as a symbol of this name (config/smx_series.h).
is_ours()
{
    grep -q "$(basename "$1" .so)_built_for" "$1"
}

check()
{
    dir=$1
    while [ ! -d "$dir" ]; do
        [ -e "$dir" ] && fail "$dir is in the way of $1"
        dir=$(dirname "$dir")
    done
    [ -w "$dir" ] && return 0
    fail "$1 cannot be written by $(id -un); configure with --enable-user-install (to ~/.openmpi/components) or --with-plugin-dir=DIR, or install as root"
}

keep()
{
    dir=$1
    shift
    for plugin; do
        if [ ! -f "$dir/$plugin.so" ] || is_ours "$dir/$plugin.so"; then
            continue
        fi
        mkdir -p "$dir/$kept_name"
        for file in "$dir/$plugin.so" "$dir/$plugin.la"; do
            [ ! -f "$file" ] || mv -f "$file" "$dir/$kept_name/"
        done
        echo "kept $dir/$plugin.so in $dir/$kept_name"
    done
}

restore()
{
    dir=$1
    if [ -d "$dir/$kept_name" ]; then
        for file in "$dir/$kept_name"/*; do
            [ -f "$file" ] || continue
            mv -f "$file" "$dir/"
            echo "put back $dir/$(basename "$file")"
        done
    fi
    # Empty folders of ours go, anything else stays.
    rmdir "$dir/$kept_name" "$dir/single-copy" 2>/dev/null || true
}

action=$1
shift
"$action" "$@"

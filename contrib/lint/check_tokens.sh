#!/usr/bin/env bash
#
# check_tokens.sh [TOP]: words that must not stand in the sources, and words that must.
#
# Called by contrib/lint/run; prints one line per fault and ends with status 1 if there is any.

set -u
export LC_ALL=C
TOP=${1:-$(dirname "${BASH_SOURCE[0]}")/../..}
cd "$TOP" || exit 2
SELF=contrib/lint/check_tokens.sh
status=0

files() {
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files -co --exclude-standard
    else
        find . -type f ! -path '*/.*' | sed 's|^\./||'
    fi | while read -r name; do
        if [ -f "$name" ] && [ "$name" != $SELF ]; then printf '%s\n' "$name"; fi
    done
}

# forbid WHY PATTERN FILE...: reports each line that matches.
forbid() {
    local why=$1 pattern=$2 hits
    shift 2
    [ $# -gt 0 ] || return 0
    hits=$(grep -nHIE -e "$pattern" -- "$@")
    if [ -n "$hits" ]; then
        sed "s|\$|  <- $why|" <<<"$hits" | cut -c1-240
        status=1
    fi
}

# The C text without comments and strings, one file, with its line numbers kept.
strip_comments() {
    perl -0777 -pe 's{(/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*")}{my $t = $1; $t =~ s/[^\n]//g; $t}gse' "$1"
}

forbid_code() {
    local why=$1 pattern=$2 file hits
    shift 2
    for file in "$@"; do
        hits=$(strip_comments "$file" | grep -nE -e "$pattern")
        if [ -n "$hits" ]; then
            sed "s|^|$file:|; s|\$|  <- $why|" <<<"$hits" | cut -c1-240
            status=1
        fi
    done
}

mapfile -t ALL < <(files)
mapfile -t PRODUCT < <(printf '%s\n' "${ALL[@]}" | grep -E '^opal/.*\.[ch]$')
mapfile -t ORDERED < <(printf '%s\n' "${PRODUCT[@]}" | grep -vE '_atomic\.h$')
mapfile -t SHARED < <(printf '%s\n' "${ORDERED[@]}" | grep '/btl/sm/')
mapfile -t CODE < <(printf '%s\n' "${ALL[@]}" | grep -E '\.([ch]|cpp|py)$')
if [ ${#PRODUCT[@]} = 0 ] || [ -z "${PRODUCT[0]}" ]; then
    echo "no source of a component found"
    exit 1
fi

forbid_code "shared state is atomic, never volatile" '\bvolatile\b' "${PRODUCT[@]}"
forbid_code "no stand-alone fence outside *_atomic.h: ThreadSanitizer does not see them" \
    '\b(atomic_(thread|signal)_fence|__sync_synchronize|opal_atomic_[rw]?mb)\b' "${ORDERED[@]}"
forbid_code "atomics only by the wrappers of *_atomic.h" \
    '\b(memory_order_[a-z_]+|atomic_[a-z_]+_explicit|__atomic_[a-z_]+|__sync_[a-z_]+)\b' \
    "${SHARED[@]}"
forbid_code "dangerous function" '\b(strcpy|strcat|sprintf|vsprintf|gets|tmpnam|mktemp|alloca)[ ]*\(' "${PRODUCT[@]}"

forbid "an open point needs an issue number" '\b(TODO|FIXME|XXX|HACK) *[:(]([^#]*$|[^0-9]*$)' "${CODE[@]}"
forbid "path of one machine" '(/work/(main|shared)|/tmp/(hand|b-[a-z])|/opt/ompi[0-9])' "${ALL[@]}"
forbid "name of a mirror or registry" \
    '(deb|ftp|snapshot|security|archive|salsa)\.(debian|ubuntu)\.(org|com)|registry\.npmjs|pypi\.org|proxy\.golang' "${ALL[@]}"
forbid "conflict marker" '^(<{7}|>{7}|={7})( |$)' "${ALL[@]}"

for file in "${PRODUCT[@]}"; do
    case $(head -c 2 "$file") in
        '/*') ;;
        *)
            echo "$file: no head comment"
            status=1
            ;;
    esac
done
if ! grep -q 'Redistribution and use in source and binary forms' LICENSE 2>/dev/null; then
    echo "LICENSE: is not the BSD licence"
    status=1
fi
exit $status

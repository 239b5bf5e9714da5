# shellcheck shell=bash
# tap.sh: TAP results for test scripts in bash; source it. Used by test/setup, test/stock and whoever wants it.
#
#   result STATUS NAME [FILE]   one result, good if STATUS is 0; FILE is shown when it is not
#   same GOT WANT NAME          good if the two texts are equal
#   skip NAME REASON            one result that was not tried
#   skip_all REASON             ends the script, everything skipped
#   finish                      the plan; the script's status is that of the results
#
# Nothing here may hide a failure: a status that is not a number counts as one.

TAP_COUNT=0
TAP_FAILED=0

result() {
    TAP_COUNT=$((TAP_COUNT + 1))
    if [ "$1" = 0 ]; then
        printf 'ok %d - %s\n' "$TAP_COUNT" "$2"
        return 0
    fi
    TAP_FAILED=$((TAP_FAILED + 1))
    printf 'not ok %d - %s\n' "$TAP_COUNT" "$2"
    if [ -n "${3:-}" ] && [ -f "$3" ]; then
        tail -n 40 "$3" | cut -c1-400 | sed 's/^/# /'
    fi
    return 1
}

same() {
    if [ "$1" = "$2" ]; then
        result 0 "$3"
    else
        result 1 "$3"
        printf '# got:    %s\n# wanted: %s\n' "$1" "$2"
    fi
}

skip() {
    TAP_COUNT=$((TAP_COUNT + 1))
    printf 'ok %d - %s # SKIP %s\n' "$TAP_COUNT" "$1" "$2"
}

skip_all() {
    printf '1..0 # SKIP %s\n' "$1"
    exit 0
}

finish() {
    printf '1..%d\n' "$TAP_COUNT"
    [ "$TAP_FAILED" = 0 ]
    exit
}

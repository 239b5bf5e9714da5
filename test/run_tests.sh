#!/usr/bin/env bash
#
# test/run_tests.sh [LEVEL] [--only GLOB] [--list]: finds the tests, runs each with a timeout, reads the TAP
# that they print, and ends with the line "N passed, N failed[, N skipped]".
#
# Called by test/run and by the targets check, check-long, check-faults and soak of the top Makefile.
# It builds nothing and installs nothing. It must never count a test as passed that printed no plan, printed
# fewer or more results than planned, ended with another status than 0 or 77, or left a process behind.
#
# LEVEL  check   what needs no MPI job, in its short form (make check)
#        all     everything but the long forms (test/run)
#        long    everything, in its long form
#        faults  test/faults and test/hosts, in full
#        soak    test/soak, for SMX_SOAK_SECONDS (20 s of it belong to "all")
#
# A test is a TAP program in test/GROUP: see contrib/HACKING.md, "Adding a test". Environment for each:
# SMX_LEVEL (check, long, faults, soak), SMX_SEED, SMX_BUILD_DIR, SMX_SOURCE_DIR, TMPDIR (an empty folder).

set -u
export LC_ALL=C

readonly GROUPS_CHECK="lint driver unit proc stress model fuzz"
readonly GROUPS_REST="mpi external plugins faults hosts soak setup stock graft"
readonly SCALE=${SMX_TIME_SCALE:-1} # multiplies every timeout, for slow machines and valgrind

SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P) || exit 2
BUILD=${SMX_BUILD_DIR:-$PWD}
LEVEL=check ONLY="*" LIST=0

while [ $# -gt 0 ]; do
    case $1 in
        check | all | long | faults | soak) LEVEL=$1 ;;
        --only)
            [ $# -ge 2 ] || { echo "run_tests.sh: --only needs a pattern" >&2; exit 2; }
            ONLY=$2
            shift
            ;;
        --only=*) ONLY=${1#*=} ;;
        --list) LIST=1 ;;
        *)
            echo "run_tests.sh: unknown argument $1 (check, all, long, faults, soak, --only GLOB, --list)" >&2
            exit 2
            ;;
    esac
    shift
done

export SMX_SOURCE_DIR=$SOURCE SMX_BUILD_DIR=$BUILD
export SMX_SEED=${SMX_SEED:-$((($(date +%s) * 32768 + RANDOM) % 4294967296))}
case $LEVEL in
    all) export SMX_LEVEL=check ;;
    *) export SMX_LEVEL=$LEVEL ;;
esac

# ---------------------------------------------------------------------------------------------------
# What there is to run

group_dir() { if [ "$1" = lint ]; then echo "$SOURCE/contrib/lint"; else echo "$SOURCE/test/$1"; fi; }

all_groups() {
    local known=" $GROUPS_CHECK $GROUPS_REST support " dir name
    printf '%s\n' $GROUPS_CHECK $GROUPS_REST
    for dir in "$SOURCE"/test/*/; do
        name=$(basename "$dir")
        case $known in
            *" $name "*) ;;
            *) printf '%s\n' "$name" ;;
        esac
    done
}

level_groups() {
    case $LEVEL in
        check) printf '%s\n' $GROUPS_CHECK ;;
        all | long) all_groups ;;
        faults) printf '%s\n' faults hosts ;;
        *) echo "$LEVEL" ;;
    esac
}

# The tests of one group, as lines "GROUP/NAME PROGRAM": the script `run`, which then speaks for the whole
# folder, or else every executable *.t in the source and every built program whose source has its name.
tests_of() {
    local group=$1 dir file name
    dir=$(group_dir "$group")
    [ -d "$dir" ] || return 0
    if [ -x "$dir/run" ]; then
        printf '%s/run %s\n' "$group" "$dir/run"
        return 0
    fi
    for file in "$dir"/*.t; do
        if [ -x "$file" ]; then
            printf '%s/%s %s\n' "$group" "$(basename "$file" .t)" "$file"
        fi
    done
    for file in "$dir"/[a-z]_*.c "$dir"/[a-z]_*.cpp; do
        [ -e "$file" ] || continue
        name=$(basename "${file%.*}")
        if [ -x "$BUILD/test/$group/$name" ]; then
            printf '%s/%s %s\n' "$group" "$name" "$BUILD/test/$group/$name"
        fi
    done
}

# Seconds that a test may take: the marker "smx-timeout: LEVEL=SECONDS ..." in its source, or a default.
timeout_of() {
    local program=$1 group=$2 source=$1 seconds
    case $program in
        "$BUILD"/*)
            source=$(find "$(group_dir "$group")" -maxdepth 1 -name "$(basename "$program").c*" | head -n 1)
            ;;
    esac
    seconds=$(sed -n "s/.*smx-timeout:.*[ :]$SMX_LEVEL=\([0-9]*\).*/\1/p" "$source" 2>/dev/null | head -n 1)
    if [ -z "$seconds" ]; then
        case $SMX_LEVEL in
            check) seconds=120 ;;
            long) seconds=1800 ;;
            faults) seconds=900 ;;
            soak) seconds=$((${SMX_SOAK_SECONDS:-1800} + 600)) ;;
        esac
    fi
    echo $((seconds * SCALE))
}

# ---------------------------------------------------------------------------------------------------
# Running one

# The processes of the session SID and all their descendants in other sessions.
session_pids() {
    ps -e -o pid=,ppid=,sid= | awk -v sid="$1" '
        { parent[$1] = $2; if ($3 == sid) { take[$1] = 1 } }
        END {
            do {
                more = 0
                for (p in parent) {
                    if (!(p in take) && (parent[p] in take)) { take[p] = 1; more = 1 }
                }
            } while (more)
            for (p in take) { print p }
        }'
}

dump_stacks() {
    local pid
    echo "# timed out; what its processes were doing:"
    for pid in $(session_pids "$1" | sort -n | head -n 24); do
        echo "# --- $pid: $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | cut -c1-120)"
        if command -v gdb >/dev/null 2>&1; then
            timeout -k 2 15 gdb -p "$pid" -batch -nx -ex 'thread apply all bt 24' 2>/dev/null </dev/null |
                grep -E '^(Thread|#)' | sed 's/^/#   /'
        else
            sed 's/^/#   /' "/proc/$pid/wchan" 2>/dev/null
            echo
        fi
    done
}

kill_session() {
    local pids
    pids=$(session_pids "$1")
    # shellcheck disable=SC2086
    [ -z "$pids" ] || kill -TERM $pids 2>/dev/null
    sleep 1
    pids=$(session_pids "$1")
    # shellcheck disable=SC2086
    [ -z "$pids" ] || kill -KILL $pids 2>/dev/null
}

# run_one PROGRAM SECONDS LOG: the program's output goes to LOG; sets RC and LEFT (processes that outlived it).
run_one() {
    local program=$1 seconds=$2 log=$3 sid guard scratch
    case $program in
        "$BUILD"/*)
            cp "$program" "$TOOLS/" && program=$TOOLS/$(basename "$program")
            ;;
    esac
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/smx-test.XXXXXX") && chmod 1777 "$scratch"
    TMPDIR=$scratch setsid --wait bash -c '
        cd "$TMPDIR" && "$0"; rc=$?; cd / && rm -rf -- "$TMPDIR"; exit $rc' "$program" \
        >"$log" 2>&1 </dev/null &
    sid=$!
    CURRENT=$sid
    (
        sleep "$seconds" &
        trap 'kill $! 2>/dev/null; exit 0' TERM
        wait $!
        dump_stacks "$sid" >>"$log" 2>&1
        echo "# killed after $seconds s" >>"$log"
        kill_session "$sid"
    ) &
    guard=$!
    wait "$sid"
    RC=$?
    CURRENT=""
    kill -TERM "$guard" 2>/dev/null
    wait "$guard" 2>/dev/null
    LEFT=$(ps -e -o pid=,sid=,stat= | awk -v sid="$sid" '$2 == sid && $3 !~ /^Z/ { n++ } END { print n + 0 }')
    if [ "$LEFT" -gt 0 ]; then
        # A launcher's last helper may still be on its way out.
        sleep 1
        LEFT=$(session_pids "$sid" | grep -c .)
        [ "$LEFT" = 0 ] || kill_session "$sid"
    fi
}

# Reads the TAP in a log: prints "PASSED FAILED SKIPPED" and, on further lines, what failed or was skipped.
judge() {
    awk -v rc="$1" -v left="$2" '
        function fault(text) { failed++; note[++notes] = "not ok: " text }
        /^1\.\.[0-9]+/ {
            plans++
            planned = substr($1, 4) + 0
            if (planned == 0 && toupper($0) ~ /# *SKIP/) {
                sub(/^[^#]*#[ ]*[Ss][Kk][Ii][Pp][A-Za-z]*:? */, "")
                skip_all = $0 == "" ? "no reason given" : $0
            }
            next
        }
        /^Bail out!/ { fault($0); next }
        /^ok($|[ \t])/ {
            seen++
            if (toupper($0) ~ /# *SKIP/) {
                skipped++
                note[++notes] = "skip: " $0
            } else {
                passed++
            }
            next
        }
        /^not ok($|[ \t])/ {
            seen++
            if (toupper($0) ~ /# *TODO/) {
                skipped++
                note[++notes] = "todo: " $0
            } else {
                failed++
                note[++notes] = $0
            }
            next
        }
        /^# killed after/ { killed = $0 }
        END {
            if (killed != "") {
                fault(substr(killed, 3))
            } else if (rc == 77 || skip_all != "") {
                if (seen) { fault("said that it skips everything after results") }
                if (rc != 77 && rc != 0) { fault("ended with status " rc) }
                skipped++
                note[++notes] = "skip: " (skip_all == "" ? "status 77" : skip_all)
            } else {
                if (plans != 1) { fault(plans ? "more than one plan" : "printed no plan") }
                else if (planned != seen) { fault("planned " planned " results and gave " seen + 0) }
                if (rc != 0 && !failed) { fault("ended with status " rc) }
            }
            if (left > 0) { fault("left " left " processes behind") }
            print passed + 0, failed + 0, skipped + 0
            for (i = 1; i <= notes; i++) { print note[i] }
        }' "$3"
}

# ---------------------------------------------------------------------------------------------------

CURRENT="" PASSED=0 FAILED=0 SKIPPED=0 BROKEN=()
on_signal() {
    trap '' INT TERM HUP
    [ -z "$CURRENT" ] || kill_session "$CURRENT"
    echo "interrupted: $PASSED passed, $FAILED failed so far" >&2
    exit 130
}
trap on_signal INT TERM HUP

TESTS=$(for group in $(level_groups); do tests_of "$group"; done)
LOGS=$BUILD/test-logs
if [ $LIST = 1 ]; then
    printf '%s\n' "$TESTS"
    exit 0
fi
mkdir -p "$LOGS" || exit 2
# Tests that become a plain user must still reach their programs, which a build tree below root's home forbids.
TOOLS=$(mktemp -d "${TMPDIR:-/tmp}/smx-tools.XXXXXX") || exit 2
trap 'rm -rf "$TOOLS"' EXIT
chmod 755 "$TOOLS"
if [ -x "$BUILD/test/support/deny" ] && [ -z "${SMX_DENY:-}" ]; then
    cp "$BUILD/test/support/deny" "$TOOLS/deny" && export SMX_DENY=$TOOLS/deny
fi
echo "level $LEVEL, seed $SMX_SEED, logs in $LOGS"
# The list comes in on its own descriptor; the tests themselves read from /dev/null.
while read -r name program <&3; do
    # shellcheck disable=SC2254
    case $name in
        $ONLY) ;;
        *) continue ;;
    esac
    log=$LOGS/${name//\//.}.log
    begin=$(date +%s%N)
    run_one "$program" "$(timeout_of "$program" "${name%%/*}")" "$log" 3<&-
    verdict=$(judge "$RC" "$LEFT" "$log")
    read -r ok bad skip <<<"$verdict"
    PASSED=$((PASSED + ok)) FAILED=$((FAILED + bad)) SKIPPED=$((SKIPPED + skip))
    tenths=$((($(date +%s%N) - begin) / 100000000))
    printf '%-28s %4d ok %3d failed %3d skipped %5d.%d s\n' "$name" "$ok" "$bad" "$skip" \
        $((tenths / 10)) $((tenths % 10))
    if [ "$bad" -gt 0 ]; then
        BROKEN+=("$name")
        tail -n +2 <<<"$verdict" | sed 's/^/    /'
        echo "    end of $log:"
        tail -n 40 "$log" | sed 's/^/    | /'
    elif [ "$skip" -gt 0 ]; then
        tail -n +2 <<<"$verdict" | sed 's/^/    /'
    fi
done 3<<<"$TESTS"

if [ $((PASSED + FAILED + SKIPPED)) = 0 ]; then
    echo "run_tests.sh: no test matches $ONLY at level $LEVEL in $BUILD" >&2
    FAILED=1
fi
[ ${#BROKEN[@]} = 0 ] || echo "failed: ${BROKEN[*]} (again with: test/run --only NAME; seed $SMX_SEED)"
if [ "$SKIPPED" -gt 0 ]; then
    echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
else
    echo "$PASSED passed, $FAILED failed"
fi
[ "$FAILED" = 0 ]

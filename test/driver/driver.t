#!/usr/bin/env bash
#
# driver.t: the driver test/run_tests.sh against made-up tests that pass, fail, lie, crash, hang and leave
# processes behind. It must never report a count that the made-up tests do not justify.
# smx-timeout: check=120

set -u
unset SMX_TIME_SCALE
TOP=$SMX_SOURCE_DIR
FAKE=$(mktemp -d) || exit 1
trap 'rm -rf "$FAKE"' EXIT
mkdir -p "$FAKE/test/unit" "$FAKE/build"
cp "$TOP/test/run_tests.sh" "$FAKE/test/"
COUNT=0

# result GOOD NAME: one TAP result.
result() {
    COUNT=$((COUNT + 1))
    if [ "$1" = yes ]; then
        echo "ok $COUNT - $2"
    else
        echo "not ok $COUNT - $2"
        sed 's/^/# /' "$FAKE/out"
    fi
}

# expect NAME STATUS LASTLINE [PATTERN]: runs the fake test whose text comes on standard input.
expect() {
    local name=$1 status=$2 last=$3 pattern=${4:-} rc good=yes
    { echo '#!/usr/bin/env bash'; cat; } >"$FAKE/test/unit/case.t"
    chmod +x "$FAKE/test/unit/case.t"
    SMX_BUILD_DIR=$FAKE/build "$FAKE/test/run_tests.sh" check >"$FAKE/out" 2>&1
    rc=$?
    [ $rc = "$status" ] || good="no"
    [ "$(tail -n 1 "$FAKE/out")" = "$last" ] || good="no"
    [ -z "$pattern" ] || grep -qE "$pattern" "$FAKE/out" || good="no"
    result $good "$name"
}

expect "counts passed results" 0 "2 passed, 0 failed" <<'T'
echo 1..2; echo "ok 1 - a"; echo "ok 2"
T
expect "accepts a plan at the end" 0 "1 passed, 0 failed" <<'T'
echo "ok 1 - a"; echo 1..1
T
expect "counts a failed result and shows it" 1 "1 passed, 1 failed" "not ok 2 - broken thing" <<'T'
echo 1..2; echo "ok 1 - a"; echo "not ok 2 - broken thing"; exit 1
T
expect "a failed result fails even with status 0" 1 "0 passed, 1 failed" <<'T'
echo 1..1; echo "not ok 1 - a"
T
expect "counts skips with their reason" 0 "1 passed, 0 failed, 1 skipped" "no such device" <<'T'
echo 1..2; echo "ok 1"; echo "ok 2 - b # SKIP no such device"
T
expect "a whole file skipped by its plan" 0 "0 passed, 0 failed, 1 skipped" "needs root" <<'T'
echo "1..0 # SKIP needs root"
T
expect "a whole file skipped by status 77" 0 "0 passed, 0 failed, 1 skipped" <<'T'
exit 77
T
expect "no output at all is a failure" 1 "0 passed, 1 failed" "printed no plan" <<'T'
exit 0
T
expect "results without a plan are a failure" 1 "1 passed, 1 failed" "printed no plan" <<'T'
echo "ok 1 - a"
T
expect "fewer results than planned are a failure" 1 "1 passed, 1 failed" "planned 3 results and gave 1" <<'T'
echo 1..3; echo "ok 1 - a"
T
expect "a crash after the last result is a failure" 1 "1 passed, 1 failed" "status 139" <<'T'
echo 1..1; echo "ok 1 - a"; kill -SEGV $$
T
expect "a bail-out is a failure" 1 "1 passed, 2 failed" "Bail out! no memory" <<'T'
echo 1..2; echo "ok 1 - a"; echo "Bail out! no memory"; exit 1
T
expect "a process left behind is a failure and is ended" 1 "1 passed, 1 failed" "left 1 processes behind" <<'T'
echo 1..1; echo "ok 1 - a"; sleep 987 >/dev/null 2>&1 & disown
T
left=$(pgrep -fx "sleep 987" | wc -l)
result "$([ "$left" = 0 ] && echo yes || echo no)" "nothing of it runs afterwards"
begin=$SECONDS
expect "a hang is a failure, with the processes named" 1 "1 passed, 1 failed" "killed after 2 s" <<'T'
# smx-timeout: check=2
echo 1..2; echo "ok 1 - a"; sleep 986
T
result "$([ $((SECONDS - begin)) -lt 40 ] && grep -q 'sleep 986' "$FAKE/out" && echo yes || echo no)" \
    "the hang is cut short and the process that hung is named"
expect "what a test prints on standard error stays in its log" 0 "1 passed, 0 failed" <<'T'
echo 1..1; echo "ok 1 - a"; echo noise >&2
T
result "$(grep -q noise "$FAKE/build/test-logs/unit.case.log" && ! grep -q noise "$FAKE/out" && echo yes || echo no)" \
    "and it is there"
SMX_BUILD_DIR=$FAKE/build "$FAKE/test/run_tests.sh" check --only 'mpi/*' >"$FAKE/out" 2>&1
result "$([ $? = 1 ] && [ "$(tail -n 1 "$FAKE/out")" = "0 passed, 1 failed" ] && echo yes || echo no)" \
    "a pattern that matches nothing is a failure"
SMX_BUILD_DIR=$FAKE/build "$FAKE/test/run_tests.sh" nonsense >"$FAKE/out" 2>&1
result "$([ $? = 2 ] && echo yes || echo no)" "an unknown argument is refused"
echo "1..$COUNT"

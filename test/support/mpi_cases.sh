# shellcheck shell=bash disable=SC2034
#
# mpi_cases.sh: runs MPI programs as TAP cases. Sourced, with the arguments of the caller and its folder in HERE, by
# test/mpi/run, test/faults/run and their like, which define usage() first. Every case proves four things apart from
# what its program checks: the exit status, an empty stderr, no process left, and that /dev/shm and the folder for
# temporary files hold what they held before. It must never pass a case that did not run.
#
# A script that made more than files defines at_exit, which is called at its end, however that comes.
# Offers run_case, settings, mca, expect, skip_case, emit, matches, provenance, as_plain_user, finish_plan; LEVEL, FULL, SUBJECT, NPS;
# the paths OMPI, PLUGINS, BIN, DENY, TEST_PLUGINS, MPI_TESTS, WORK, JOB_TMP.

LEVEL=${SMX_LEVEL:-check} SUBJECT=ours ONLY="*" LIST=0 BIN="" NPS=""
ARGS=("$@")
while [ $# -gt 0 ]; do
    case $1 in
        --subject | --level | --only | --bin | --np)
            [ $# -ge 2 ] || { echo "$HERE/run: $1 needs a value" >&2; exit 2; }
            case $1 in
                --subject) SUBJECT=$2 ;;
                --level) LEVEL=$2 ;;
                --only) ONLY=$2 ;;
                --bin) BIN=$2 ;;
                --np) NPS=${2//,/ } ;;
            esac
            shift
            ;;
        --list) LIST=1 ;;
        --help | -h)
            usage
            exit 0
            ;;
        *)
            echo "$HERE/run: unknown argument $1" >&2
            usage >&2
            exit 2
            ;;
    esac
    shift
done
case $SUBJECT in ours | built-in | our-smsc) ;; *) echo "$HERE/run: no such subject: $SUBJECT" >&2; exit 2 ;; esac
case $LEVEL in quick) LEVEL=check ;; esac
FULL=0
[ "$LEVEL" = check ] || FULL=1
MPI_TESTS=$(cd "$HERE/../mpi" && pwd -P) || exit 2

# ---------------------------------------------------------------------------------------------------
# Where things are

skip_all() {
    echo "1..0 # SKIP $*"
    exit 77
}

OMPI=${SMX_OMPI_DIR:-}
if [ -z "$OMPI" ]; then
    for dir in /usr/lib/x86_64-linux-gnu/openmpi /usr; do
        if "$dir/bin/ompi_info" --version 2>/dev/null | grep -q 'Open MPI v[5-9]'; then
            OMPI=$dir
            break
        fi
    done
fi
[ -x "$OMPI/bin/mpirun" ] || skip_all "no Open MPI 5 (SMX_OMPI_DIR is not set)"
PATH=$OMPI/bin:$PATH
[ -n "$BIN" ] || BIN=${SMX_BUILD_DIR:-$HERE}/test/mpi
[ -x "$BIN/m_sizes" ] || skip_all "the test programs are not built in $BIN"
PLUGINS=${SMX_PLUGIN_DIR:-}
if [ "$SUBJECT" != built-in ] && [ ! -e "$PLUGINS/mca_btl_sm.so" ]; then
    echo "1..1"
    echo "not ok 1 - the plugins under test are in SMX_PLUGIN_DIR ($PLUGINS)"
    exit 1
fi
DENY=${SMX_DENY:-${SMX_BUILD_DIR:-$HERE/../..}/test/support/deny}
TEST_PLUGINS=${SMX_TEST_PLUGINS:-${SMX_BUILD_DIR:-$HERE/../..}/test/plugins/.libs}

# A view of /dev/shm of our own: what other jobs of this machine do there is none of our business, and
# "nothing left" becomes "empty".
if [ $LIST = 0 ] && [ "$(id -u)" = 0 ] && [ -z "${SMX_MPI_PRIVATE:-}" ] &&
    unshare -m --propagation private sh -c 'mount -t tmpfs tmpfs /dev/shm' 2>/dev/null; then
    # shellcheck disable=SC2016
    SMX_MPI_PRIVATE=1 exec unshare -m --propagation private sh -c '
        mount -t tmpfs -o mode=1777 tmpfs /dev/shm || exit 2
        exec "$0" "$@"' "$HERE/run" ${ARGS[@]+"${ARGS[@]}"}
fi

WORK=$(mktemp -d "${TMPDIR:-/tmp}/smx-mpi.XXXXXX") || exit 2
JOB_TMP=$WORK/t
mkdir "$JOB_TMP"
chmod 711 "$WORK"
chmod 1777 "$JOB_TMP"
JOB=""
finish() {
    local rc=$?
    # Interrupted within a case: its job gets a moment to end by itself.
    if [ -n "$JOB" ]; then
        kill -TERM "$JOB" 2>/dev/null
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            [ -n "$(strays "$$-$CASES")" ] || break
            sleep 0.2
        done
        # shellcheck disable=SC2046
        kill -KILL $(strays "$$-$CASES") 2>/dev/null
    fi
    ! declare -F at_exit >/dev/null || at_exit
    [ -n "${KEEP:-}" ] || rm -rf -- "$WORK"
    exit $rc
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

export SMX_LEVEL=$LEVEL
[ "$LEVEL" = long ] || export SMX_LEVEL=quick
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1

ompi_path() { "$OMPI/bin/ompi_info" --path "$1" --parsable 2>/dev/null | sed -n "s/^path:$1://p"; }

# ---------------------------------------------------------------------------------------------------
# TAP

SCALE=${SMX_TIME_SCALE:-1} # multiplies every limit, for slow or busy machines
TESTS=0 FAILED=0
emit() { # emit ok|not NAME [SKIP REASON]
    TESTS=$((TESTS + 1))
    if [ "$1" = ok ]; then
        echo "ok $TESTS - $2${3:+ # SKIP $3}"
    else
        FAILED=$((FAILED + 1))
        echo "not ok $TESTS - $2"
    fi
}

emit_todo() { # a result that is known to be bad, and why, in the program's own words
    TESTS=$((TESTS + 1))
    echo "not ok $TESTS - $1"
}

# ---------------------------------------------------------------------------------------------------
# One case

# mpirun refuses a parameter that is given twice, so the cases set values by name and run_case writes them.
declare -A PARAM=()
mca() { PARAM[$1]=$2; } # mca NAME VALUE
default_params() {
    PARAM=([pml]=ob1 [osc]="^ucx" [smsc]=cma [btl]="sm,self")
    case $SUBJECT in
        built-in) [ -z "$PLUGINS" ] || mca allocator "^dsofirst" ;;
        our-smsc) mca allocator_dsofirst_components smsc:cma ;;
    esac
}
mpirun_args() { # sets ARGV to what goes between "-np N" and the program
    local name
    ARGV=(--map-by :OVERSUBSCRIBE --bind-to none)
    for name in "${!PARAM[@]}"; do
        ARGV+=(--mca "$name" "${PARAM[$name]}")
    done
    ARGV+=(${MCA[@]+"${MCA[@]}"})
}

PREFIX_CMD=()      # goes before mpirun
MCA=()             # further mpirun arguments of the next cases, other than --mca
PLUGIN_PATH=""     # where ranks look for plugins, if not where the environment says
WRAP=()            # goes between mpirun and the program
LABEL=""           # names the mechanism in the output
STDERR=empty       # empty | lines:N | any
IGNORE=""          # lines on stderr that are another layer's and do not count, as a regular expression
STATUS=0           # expected exit status, or "any"
LIMIT=120          # seconds
FOREIGN=0          # 1: the program prints no TAP
WITHIN_MS=0        # if not 0, the time in which a job must end after a rank was killed
LEFTOVERS=all      # "ours": Open MPI's launcher was killed and could not remove its own folders, or a rank with a
                   # window of osc/rdma, which has a named file of its own

listing() {
    find /dev/shm "$JOB_TMP" -mindepth 1 2>/dev/null | sort |
        if [ "$LEFTOVERS" = all ]; then cat; else grep -Ev "^($JOB_TMP/(ompi|prte|pmix|openmpi)|/dev/shm/osc_rdma\.)"; fi
    [ "$LEFTOVERS" = all ] || return 0
    # Without a /dev/shm of our own there are others' files too; theirs may change at any time.
    find /tmp -mindepth 1 -maxdepth 1 \( -name 'ompi.*' -o -name 'prte.*' -o -name 'pmix*' -o -name 'vader*' \
        -o -name 'sm_segment*' \) -newer "$WORK/stamp" -user "$(id -un)" 2>/dev/null | sort
}

strays() { # processes that still carry this case's mark
    grep -lsz "^SMX_CASE=$1$" /proc/[0-9]*/environ 2>/dev/null | while IFS=/ read -r _ _ pid _; do
        case $(awk '{ print $3 }' "/proc/$pid/stat" 2>/dev/null) in Z | "") ;; *) echo "$pid" ;; esac
    done
}

matches() {
    # shellcheck disable=SC2254
    case $1 in $ONLY) return 0 ;; *) return 1 ;; esac
}

CASES=0
# run_case NP PROGRAM ARGS...: run under the current settings, pass its TAP on, add the case's own line. PROGRAM is
# one of BIN, or a path.
run_case() {
    local np=$1 path=$2 prog
    shift 2
    prog=$(basename "$path")
    case $path in /*) ;; *) path=$BIN/$path ;; esac
    local name="$prog${*:+ $*} np=$np [$LABEL]" mark rc begin ended seconds why=() n stray
    matches "$name" || return 0
    if [ $LIST = 1 ]; then
        echo "$name"
        return 0
    fi
    CASES=$((CASES + 1))
    mark=$$-$CASES
    mpirun_args
    : >"$WORK/stamp"
    listing >"$WORK/before"
    echo "# ---- $name"
    begin=$(date +%s)
    (
        cd "$JOB_TMP" || exit 99
        export TMPDIR=$JOB_TMP SMX_CASE=$mark HOME=$WORK
        if [ -n "$PLUGIN_PATH" ]; then
            # PMIx takes the first variable for itself too, unless the second names its own folder.
            export OMPI_MCA_mca_base_component_path=$PLUGIN_PATH
            export PMIX_MCA_mca_base_component_path=${PMIX_MCA_mca_base_component_path:-$(ompi_path libdir)/pmix}
        fi
        exec timeout -k 10 "$((LIMIT * SCALE))" ${PREFIX_CMD[@]+"${PREFIX_CMD[@]}"} "$OMPI/bin/mpirun" -np "$np" \
            "${ARGV[@]}" ${WRAP[@]+"${WRAP[@]}"} "$path" "$@"
    ) >"$WORK/out" 2>"$WORK/err" </dev/null &
    # In the background, because a signal is taken at once only while the shell waits.
    JOB=$!
    wait "$JOB"
    rc=$?
    JOB=""
    [ -z "$IGNORE" ] || sed -i "/$IGNORE/d" "$WORK/err"
    ended=$(date +%s%3N)
    seconds=$((ended / 1000 - begin))
    while IFS= read -r line; do
        case $line in
            "ok "*) line=${line#ok }
                if [ "${line#*# SKIP }" != "$line" ]; then
                    line=${line#* - }
                    emit ok "$prog np=$np [$LABEL]: ${line% # SKIP *}" "${line#*# SKIP }"
                else
                    emit ok "$prog np=$np [$LABEL]: ${line#* - }"
                fi ;;
            "not ok "*"# TODO "*) emit_todo "$prog np=$np [$LABEL]: ${line#not ok * - }" ;;
            "not ok "*) emit not "$prog np=$np [$LABEL]: ${line#not ok * - }" ;;
            1..0*)
                emit ok "$name" "${line#*SKIP }"
                return 0 ;;
            1..*) ;;
            "Bail out!"*) why+=("${line#Bail out! }") ;;
            "#"*) echo "$line" ;;
            *) echo "# | $line" ;;
        esac
    done <"$WORK/out"
    # From the victim's last word to the end of the launcher.
    local killed
    killed=$(sed -n 's/^# killed at \([0-9]*\)$/\1/p' "$WORK/out" | head -n 1)
    if [ -n "$killed" ] && [ "$STDERR" = any ] && [ "$WITHIN_MS" -gt 0 ]; then
        killed=$((ended - killed))
        echo "# ended $killed ms after the kill"
        [ $killed -le $((WITHIN_MS * SCALE)) ] || why+=("ended $killed ms after the kill, at most $((WITHIN_MS * SCALE)) expected")
    fi
    if [ "$STATUS" != any ] && [ $rc != "$STATUS" ]; then
        if [ $rc = 124 ] || [ $rc = 137 ]; then
            why+=("no end within $((LIMIT * SCALE)) s")
        else
            why+=("exit status $rc, expected $STATUS")
        fi
    fi
    # A victim that never came to its deed proves nothing.
    if [ "$WITHIN_MS" -gt 0 ] && [ -z "$killed" ]; then
        why+=("no rank was killed")
    fi
    if [ "$STATUS" = 0 ] && [ "$FOREIGN" = 0 ] && ! grep -q '^1\.\.' "$WORK/out"; then
        why+=("the program printed no plan")
    fi
    n=$(grep -c . "$WORK/err")
    case $STDERR in
        empty) [ "$n" = 0 ] || why+=("$n lines on stderr") ;;
        lines:*) [ "$n" -le "${STDERR#lines:}" ] || why+=("$n lines on stderr, at most ${STDERR#lines:} expected") ;;
    esac
    stray=$(strays "$mark")
    if [ -n "$stray" ]; then
        sleep 1
        stray=$(strays "$mark")
    fi
    if [ -n "$stray" ]; then
        why+=("processes left: $(for p in $stray; do printf '%s(%s) ' "$p" "$(cat "/proc/$p/comm" 2>/dev/null)"; done)")
        # shellcheck disable=SC2086
        kill -KILL $stray 2>/dev/null
    fi
    listing >"$WORK/after"
    if ! cmp -s "$WORK/before" "$WORK/after"; then
        why+=("files left: $(comm -13 "$WORK/before" "$WORK/after" | head -n 5 | tr '\n' ' ')")
        comm -13 "$WORK/before" "$WORK/after" | grep -E "^(/dev/shm|$JOB_TMP)/" | sort -r |
            while IFS= read -r f; do rm -rf -- "$f"; done
    fi
    [ "$LEFTOVERS" = all ] || rm -rf -- "${JOB_TMP:?}"/*
    [ -z "${SMX_MPI_PRIVATE:-}" ] || rm -f -- /dev/shm/osc_rdma.*
    local what="end, exit status"
    [ "$STDERR" != empty ] || what+=", empty stderr"
    what+=", no process and no file left"
    if [ ${#why[@]} = 0 ]; then
        emit ok "$name: $what ($seconds s)"
    else
        emit not "$name: $what ($seconds s)"
        printf '#   %s\n' "${why[@]}"
        head -n 12 "$WORK/err" | sed 's/^/#   stderr: /'
    fi
}

settings() { # back to plain: no refusal, no further parameters
    MCA=() WRAP=() PREFIX_CMD=() PLUGIN_PATH="" LABEL=$1 STDERR=empty IGNORE="" STATUS=0 LIMIT=120
    FOREIGN=0 WITHIN_MS=0 LEFTOVERS=all
    [ "$LEVEL" != long ] || LIMIT=1500
    unset SMX_TEST_MEMFD SMX_EXPECT_PVAR
    default_params
}

# Counters of our own btl/sm that must lie in a range at the end; others have none.
expect() {
    [ "$SUBJECT" != ours ] || export SMX_EXPECT_PVAR=$1
}

skip_case() {
    matches "$1" || return 0
    [ $LIST = 0 ] || return 0
    emit ok "$1" "$2"
}

# Sets PREFIX_CMD to what starts a job as a plain user: root's capability hides every permission check. False, with
# the case NAME skipped, if the programs cannot be reached so. PLAIN_USER then says which kind of user it is.
as_plain_user() { # NAME
    local cmd=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    PLAIN_USER="plain user"
    PREFIX_CMD=()
    [ "$(id -u)" = 0 ] || return 0
    chmod 777 "$WORK"
    if "${cmd[@]}" test -x "$BIN/m_sizes" -a -x "$MPI_TESTS/on_ranks" -a -x "$OMPI/bin/mpirun" \
        -a -r "${PLUGINS:-/}" 2>/dev/null; then
        PREFIX_CMD=("${cmd[@]}" --bounding-set -all --inh-caps -all)
    else
        # Paths in root's closed home: root without any capability is a user like others, who owns them.
        PLAIN_USER="root without capabilities"
        PREFIX_CMD=(setpriv --bounding-set -all --inh-caps -all)
    fi
    "${PREFIX_CMD[@]}" test -x "$BIN/m_sizes" -a -x "$MPI_TESTS/on_ranks" -a -x "$OMPI/bin/mpirun" && return 0
    skip_case "$1" "cannot reach $BIN as another user"
    return 1
}

# The first case of each subject reads from the ranks' own map lists which files they run.
provenance() {
    settings "$SUBJECT"
    case $SUBJECT in
        ours) run_case 2 m_provenance --expect=ours ;;
        our-smsc) run_case 2 m_provenance --want=mca_smsc_cma --not=mca_btl_sm ;;
        *)
            if [ -n "$PLUGINS" ]; then
                run_case 2 m_provenance --expect=built-in
            else
                run_case 2 m_provenance
            fi
            ;;
    esac
}

# The end of every script: the plan, and a status that says whether anything failed.
finish_plan() {
    [ $LIST = 0 ] || exit 0
    if [ $TESTS = 0 ]; then
        echo "1..1"
        echo "not ok 1 - a case matches $ONLY"
        exit 1
    fi
    echo "1..$TESTS"
    [ $FAILED = 0 ]
}

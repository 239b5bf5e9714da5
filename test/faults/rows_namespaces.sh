# shellcheck shell=bash disable=SC2034
#
# rows_namespaces.sh: rows about ranks in user, pid, ipc, net, mount and uts namespaces. Sourced by test/faults/run.

namespace_rows() {
    row B05 "ranks in user namespaces of their own" row_user_namespaces
    row B06 "ranks in pid namespaces, all of them pid 1" row_pid_namespaces
    row B07 "one peer without single copy costs the others nothing" row_one_bad_peer
    row B12 "a rank in a container of its own" row_isolated
    row R2 "every combination of six namespaces" row_combinations
}

have_unshare() { # have_unshare NAME FLAGS: else the case is skipped
    unshare ${2:--m} true 2>/dev/null && return 0
    skip_case "$1" "namespaces cannot be made here"
    return 1
}

# Attach rights are judged in the target's user namespace: whoever made it may reach in, nobody out or across. Namespaces
# are made with the rights that this script has; the ranks have none.
row_user_namespaces() {
    local ranks bare=()
    if ! unshare -U -c true 2>/dev/null; then
        skip_case "user namespaces" "this user cannot make one here"
        return
    fi
    [ "$(id -u)" != 0 ] || bare=(setpriv --bounding-set -all --inh-caps -all)
    for ranks in 0 last; do
        LABEL="rank $ranks in a user namespace"
        expect smsc_cma_endpoints:4:4,btl_sm_single_copy_bytes
        WRAP=("$MPI_TESTS/on_ranks" "$ranks" unshare -U -c -- ${bare[@]+"${bare[@]}"})
        job 3 m_sizes --max=90000 --only=modes
    done
    LABEL="each rank in a user namespace"
    expect smsc_cma_endpoints:0:0,btl_sm_single_copy_bytes:0:0,btl_sm_streamed_bytes
    WRAP=(unshare -U -c ${bare[@]+"${bare[@]}"})
    job 3 m_sizes --max=90000 --only=modes
    unset SMX_EXPECT_PVAR
    job 3 m_coll --rounds=2
    elsewhere proc/p_cma_namespaces "into a user namespace" "out of a user namespace" "between user namespaces"
}

# A pid means another process, nobody or oneself in another pid namespace.
row_pid_namespaces() {
    have_unshare "pid namespaces" "-p -f" || return 0
    local np
    for np in 2 3; do
        LABEL="each rank is pid 1"
        expect smsc_cma_endpoints:0:0,btl_sm_single_copy_bytes:0:0,btl_sm_streamed_bytes
        WRAP=(unshare -p -f --kill-child --mount-proc)
        job $np m_sizes --max=90000 --only=modes
    done
    # Whoever lives above sees the pid, translated by the kernel.
    LABEL="last rank is pid 1"
    expect smsc_cma_endpoints:4:4,smsc_cma_translated_endpoints:2:2,btl_sm_single_copy_bytes
    WRAP=("$MPI_TESTS/on_ranks" last unshare -p -f --kill-child --mount-proc --)
    job 3 m_sizes --max=90000 --only=modes
    elsewhere proc/p_cma_namespaces "into a pid namespace" "out of a pid namespace" "between pid namespaces"
}

row_one_bad_peer() {
    LABEL="all calls refused on rank 1"
    WRAP=("$DENY" --errno EPERM --ranks 1 "$CALLS")
    expect smsc_cma_endpoints:9:9,smsc_cma_refused_denied:3:3,btl_sm_single_copy_bytes
    job 4 m_sizes --max=90000 --only=sendrecv
    # Peers that come one by one: the parent may not copy, its children may.
    LABEL="parent without single copy"
    unset SMX_EXPECT_PVAR
    WRAP=("$DENY" --errno EPERM "$CALLS")
    job 1 m_spawn --mode=spawn --rounds=$((FULL ? 40 : 8))
}

# What is needed to put a rank into these namespaces: sets WRAP. Words: user pid ipc net mnt uts.
# shellcheck disable=SC2016
wrap_namespaces() { # RANKS WORD...
    local ranks=$1 word flags=() inside=()
    shift
    for word in "$@"; do
        case $word in
            user) flags+=(-U -c) ;;
            pid) flags+=(-p -f --kill-child) ;;
            ipc) flags+=(-i) ;;
            uts) flags+=(-u) ;;
            mnt)
                flags+=(-m)
                inside=(sh -c 'mount -t tmpfs -o mode=1777 tmpfs /dev/shm && exec "$0" "$@"' ${inside[@]+"${inside[@]}"})
                ;;
            net) inside+=(env LD_PRELOAD="$RANK_FAULT" SMX_FAULT=net) ;;
        esac
    done
    WRAP=("$MPI_TESTS/on_ranks" "$ranks")
    [ ${#flags[@]} = 0 ] || WRAP+=(unshare "${flags[@]}")
    WRAP+=(${inside[@]+"${inside[@]}"} --)
}

# combination NP RANKS WORD...: the ranks in RANKS have namespaces of their own of these kinds. Best road for each pair:
#   memory   by the descriptor table in one user and pid namespace, else by a name in a common /dev/shm
#   copying  not out of or across user namespaces; into a pid namespace by its abstract socket, if the net is one
# Without a common memory tcp serves the pair; if it has not even a common net, then the job ends with a message.
combination() {
    local np=$1 ranks=$2 inner outer kinds endpoints memory=yes copying=yes
    shift 2
    kinds=" $* "
    inner=$(echo "$ranks" | tr , '\n' | grep -c .)
    outer=$((np - inner))
    settings "$np ranks, $ranks in${kinds}namespaces"
    LIMIT=60
    mca btl sm,self,tcp
    wrap_namespaces "$ranks" "$@"
    case $kinds in *" user "* | *" pid "*) case $kinds in *" mnt "*) memory=no ;; esac ;; esac
    case $kinds in *" pid "*) case $kinds in *" net "*) copying=no ;; esac ;; esac
    if [ $memory = no ]; then
        endpoints=$((outer * (outer - 1)))
    elif [ "${kinds/ user /}${kinds/ pid /}" = "$kinds$kinds" ]; then
        endpoints=$((np * (np - 1)))
    elif [ $copying = no ]; then
        endpoints=$((outer * (outer - 1)))
    else
        endpoints=$((outer * (outer - 1) + outer * inner))
    fi
    if [ $memory = no ] && [ "${kinds/ net /}" != "$kinds" ]; then
        cut_off "$np"
        return
    fi
    expect smsc_cma_endpoints:$endpoints:$endpoints
    job "$np" m_sizes --max=70000 --only=modes
}

# What sm, or tcp as the last one asked, says then. Two nets of the same addresses make tcp connect to a stranger.
CUT_OFF_SAYS="unable to reach\\|unable to connect to the peer\\|an error occurred in\\|cannot find a corresponding process"

# No road at all between some ranks: the job ends, soon, and says which peer it cannot reach.
cut_off() {
    STATUS=any STDERR=any LIMIT=40
    job "$1" m_sizes --max=5000 --only=modes
    holds "the job that has no road ends with a message" grep -qi "$CUT_OFF_SAYS" "$WORK/err"
}

row_isolated() {
    have_unshare "isolated rank" "-p -f -m" || return 0
    local kinds="user pid ipc mnt uts"
    # shellcheck disable=SC2086
    combination 2 1 $kinds
    # shellcheck disable=SC2086
    combination 3 0,2 $kinds
    settings "isolated rank, no transport but sm"
    # shellcheck disable=SC2086
    wrap_namespaces 1 $kinds
    cut_off 2
    note "tcp serves it; without tcp one message"
}

row_combinations() {
    local words mask bit kinds where count=0
    have_unshare "namespaces" "-p -f -m -u -i" || return 0
    [ -e "$RANK_FAULT" ] || { skip_case "namespaces" "test/faults/librank_fault is not built" && return; }
    words=(user pid ipc net mnt uts)
    for ((mask = 1; mask < 64; mask++)); do
        kinds=()
        for ((bit = 0; bit < 6; bit++)); do
            [ $((mask >> bit & 1)) = 0 ] || kinds+=("${words[bit]}")
        done
        for where in "2 1" "3 0" "2 0,1" "3 2" "3 0,1,2" "2 0" "3 0,2" "3 1" "3 0,1" "3 1,2"; do
            case $LEVEL:$where in
                faults:"2 0" | faults:"3 0,2" | faults:"3 1" | faults:"3 0,1" | faults:"3 1,2") continue ;;
            esac
            its_turn 97 || continue
            count=$((count + 1))
            # shellcheck disable=SC2086
            combination $where "${kinds[@]}"
        done
    done
    note "$count of 630 combinations of namespaces and ranks"
}

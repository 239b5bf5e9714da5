# shellcheck shell=bash disable=SC2034
#
# rows_memory.sh: rows about memory, files and descriptors that are not to be had. Sourced by test/faults/run.

memory_rows() {
    row B14 "few descriptors" row_descriptors
    row B36 "little or no room for shared memory" row_small_memory
    row R3 "every allocation of the plugins fails, in turn" row_allocations
    row B38 "files of another user under our names" row_planted
}

# 64 descriptors and 16 ranks started together; 32 leave hardly enough for the launcher's own connections.
row_descriptors() {
    local i
    for ((i = 0; i < (FULL ? 20 : 1); i++)); do
        settings "64 descriptors"
        mca btl sm,self,tcp
        WRAP=(prlimit --nofile=64 --)
        job 16 m_sizes --max=5000 --only=sendrecv
    done
    settings "32 descriptors"
    mca btl sm,self,tcp
    WRAP=(prlimit --nofile=32 --)
    job 3 m_sizes --max=90000 --only=modes
    elsewhere proc/p_cma_peers "without a free descriptor the endpoint is made"
}

row_small_memory() {
    local size filled np
    if unshare -m true 2>/dev/null; then
        for size in 1m 2m 8m 64m; do
            for filled in 0 "$size"; do
                settings "/dev/shm of $size, $filled of it taken"
                np=3
                [ $size != 1m ] || np=8
                PREFIX_CMD=("$HERE/in_shm" "$size" "$filled")
                # Where the directory has no room, anonymous memory takes its place.
                expect smsc_cma_endpoints:$((np * (np - 1))):$((np * (np - 1)))
                job $np m_sizes --max=$((FULL ? 1048577 : 20000)) --only=modes
                [ $FULL = 0 ] || { unset SMX_EXPECT_PVAR && job 4 m_stress --messages=3000; }
            done
            settings "/dev/shm of $size, full again and again while the job runs"
            PREFIX_CMD=("$HERE/in_shm" "$size" later)
            expect smsc_cma_endpoints:12:12
            job 4 m_stress --seconds=$((FULL ? 5 : 1))
        done
    else
        skip_case "small /dev/shm" "a file system cannot be mounted here"
    fi
    no_memory_at_all
    address_space
    memory_group
}

# Neither the directory nor anonymous memory: one message, and tcp serves; without tcp the job ends with a message.
no_memory_at_all() {
    [ -x "$DENY" ] || return 0
    settings "no shared memory to be had"
    mca btl sm,self,tcp
    WRAP=("$DENY" --errno ENOSPC fallocate)
    STDERR=lines:12
    job 3 m_sizes --max=20000 --only=modes
    holds "the message names what is needed and where" grep -q "btl/sm: cannot get [0-9]* bytes of shared memory: in /dev/shm: No space left" "$WORK/err"
    settings "no shared memory on rank 1"
    mca btl sm,self,tcp
    WRAP=("$DENY" --errno ENOSPC --ranks 1 fallocate)
    STDERR=lines:12
    expect btl_sm_single_copy_bytes
    job 3 m_sizes --max=20000 --only=modes
    settings "no shared memory and no tcp"
    WRAP=("$DENY" --errno ENOSPC fallocate)
    cut_off 2
}

# A segment of 1 GiB in address spaces that hold all, two or none of them beside the program.
address_space() {
    local mib
    for mib in 4600 2600 900; do
        its_turn 2 || continue
        settings "address space of $mib MiB"
        mca btl sm,self,tcp
        mca btl_sm_segment_size 1073741824
        WRAP=(prlimit --as=$((mib * 1048576)) --)
        STDERR=lines:12
        job 3 m_sizes --max=20000 --only=modes
    done
}

# The kernel ends a process whose group has no memory left: then the job ends, and nothing is left.
memory_group() {
    local top=/sys/fs/cgroup/memory group mib
    group=$top/smx-faults-$$
    if ! mkdir "$group" 2>/dev/null; then
        skip_case "memory group" "no memory group can be made here"
        return
    fi
    for mib in 400 24; do
        settings "memory group of $mib MiB"
        echo $((mib * 1048576)) >"$group/memory.limit_in_bytes"
        # shellcheck disable=SC2016
        PREFIX_CMD=(sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group")
        LIMIT=60
        [ $mib = 400 ] || STATUS=any STDERR=any
        job 3 m_sizes --max=$((FULL ? 1048577 : 90000)) --only=modes
    done
    PREFIX_CMD=()
    rmdir "$group" 2>/dev/null || { sleep 1 && rmdir "$group"; }
    holds "the memory group can be removed" test ! -d "$group"
}

# The Nth request of a plugin for memory, blocks or a descriptor fails on one rank, for all N that there are. Two ranks
# that have a core each ask for more than three that have not.
row_allocations() {
    local count n np
    [ -e "$RANK_FAULT" ] || { skip_case "allocations" "test/faults/librank_fault is not built" && return; }
    for np in 2 3; do
        settings "allocations are counted"
        rm -f "$WORK/count"
        WRAP=("$MPI_TESTS/on_ranks" 1 env LD_PRELOAD="$RANK_FAULT" SMX_FAULT_COUNT="$WORK/count" --)
        job $np m_sizes --max=90000 --only=modes
        count=$(sort -n "$WORK/count" | tail -n 1)
        holds "the plugins ask for memory (${count:-0} times)" test "${count:-0}" -ge 20
        for ((n = 1; n <= ${count:-0}; n++)); do
            its_turn 19 || continue
            settings "allocation $n fails on rank 1"
            mca btl sm,self,tcp
            WRAP=("$MPI_TESTS/on_ranks" 1 env LD_PRELOAD="$RANK_FAULT" SMX_FAULT="fail:$n" --)
            STDERR=lines:12
            job $np m_sizes --max=90000 --only=modes
        done
        note "$count allocations in one of $np ranks"
    done
    spawn_without_memory
}

# The same in a process that spawns: the jobs go on, by another road if need be, or end with a message. None waits.
spawn_without_memory() {
    local count n
    settings "allocations of a parent are counted"
    mca btl sm,self,tcp
    rm -f "$WORK/count"
    WRAP=("$MPI_TESTS/on_ranks" 0 env LD_PRELOAD="$RANK_FAULT" SMX_FAULT_COUNT="$WORK/count" --)
    job 1 m_spawn --mode=spawn --children=2 --rounds=1 --max=5000
    count=$(sort -n "$WORK/count" | tail -n 1)
    holds "a parent asks for memory (${count:-0} times)" test "${count:-0}" -ge 20
    for ((n = 1; n <= ${count:-0}; n++)); do
        its_turn 7 || continue
        settings "allocation $n of a parent fails"
        mca btl sm,self,tcp
        WRAP=("$MPI_TESTS/on_ranks" 0 env LD_PRELOAD="$RANK_FAULT" SMX_FAULT="fail:$n" --)
        STDERR=any STATUS=any LIMIT=30
        job 1 m_spawn --mode=spawn --children=2 --rounds=1 --max=5000 --watchdog=25
    done
}

# Another user has filled the directory with files, links, sockets and folders of our kind of name, and while the job runs
# he tries to open, move and replace what we make. Rank 1's namespace makes us publish names.
row_planted() {
    if [ "$(id -u)" != 0 ] || [ ! -e "$RANK_FAULT" ]; then
        skip_case "files of another user" "needs a second user and test/faults/librank_fault"
        return
    fi
    local modes left
    setpriv --reuid 65533 --regid 65533 --clear-groups "$HERE/planter" before /dev/shm
    setpriv --reuid 65533 --regid 65533 --clear-groups "$HERE/planter" during /dev/shm >"$WORK/planter" 2>/dev/null &
    local planter=$!
    find /dev/shm -user 65533 -printf '%p %y %s %l\n' | sort >"$WORK/planted"
    holds "there are files, folders, links, pipes and sockets" \
        test "$(awk '{ printf "%s", $2 }' "$WORK/planted" | fold -w 1 | sort -u | tr -d '\n')" = dflps
    LABEL="beside planted files"
    job 3 m_sizes --max=90000 --only=modes
    # Names are there for as long as rank 1 takes to open them.
    LABEL="beside planted files, rank 1 in a pid namespace and slow"
    WRAP=("$MPI_TESTS/on_ranks" 1 unshare -p -f --kill-child env LD_PRELOAD="$RANK_FAULT" SMX_FAULT=slow:500 --)
    expect smsc_cma_endpoints:4:4
    job 3 m_sizes --max=90000 --only=modes
    kill "$planter" 2>/dev/null
    wait "$planter" 2>/dev/null
    find /dev/shm -user 65533 -printf '%p %y %s %l\n' | sort | comm -23 "$WORK/planted" - >"$WORK/changed"
    holds "planted files are as they were" test ! -s "$WORK/changed"
    holds "the other user saw our files ($(grep -c '^saw' "$WORK/planter"))" grep -q '^saw' "$WORK/planter"
    modes=$(awk '/^saw/ { print $2 }' "$WORK/planter" | sort -u | paste -sd,)
    holds "whose permissions are 0600 ($modes)" test "$modes" = 600
    holds "and could do nothing to them" not_in '^did' "$WORK/planter"
    find /dev/shm -mindepth 1 -user 65533 -delete
    left=$(find /dev/shm -mindepth 1 | wc -l)
    holds "nothing of ours is left beside them" test "$left" = 0
}

# shellcheck shell=bash disable=SC2034
#
# rows_death.sh: rows about processes that end, or stop, before their time. Sourced by test/faults/run.

death_rows() {
    row B23 "a pid that is used again" row_pid_reuse
    row B34 "starts with random delays" row_start
    row B37 "kills at random moments leave nothing" row_kills
    row B39 "peers that leave early, in order and not" row_endings
    row B41 "a killed or stopped rank does not hang the others" row_survivors
    row B42 "fork and exec in a rank" row_fork
}

# How often each deed is done: in all about 15, 150 and 1000 kills.
KILLS=1
[ "$LEVEL" != faults ] || KILLS=14
[ "$LEVEL" != long ] || KILLS=94

row_pid_reuse() {
    elsewhere proc/p_cma_namespaces "a pid used again"
    elsewhere proc/p_cma_peers "a killed peer" "after exec the peer is gone"
}

row_start() {
    local i times=1
    [ "$LEVEL" != faults ] || times=20
    [ "$LEVEL" != long ] || times=200
    for ((i = 0; i < times; i++)); do
        settings "random delays, start $i"
        job 16 m_finalize --mode=start
    done
}

deadly() { # settings for a job that is to die: any status, any message, an end within 10 s, nothing left
    settings "$1"
    STDERR=any STATUS=any LIMIT=60 WITHIN_MS=10000
}

KILLED=0
count_kill() { # if the last job's victim was still there
    ! grep -q '^# killed at' "$WORK/out" || { KILLED=$((KILLED + 1)) && ALL_KILLS=$((ALL_KILLS + 1)); }
}

# A name whose owner was killed goes with the next job that needs names; one whose owner lives stays.
sweep_names() {
    local dead=/dev/shm/openmpi-sm.$UID.dead alive=/dev/shm/openmpi-sm.$UID.alive owner
    settings "beside names of the dead"
    have_unshare "names of the dead" "-p -f" || return 0
    (flock -x 9 && exec sleep 100) 9>"$alive" &
    owner=$!
    sleep 0.2
    # shellcheck disable=SC2016
    PREFIX_CMD=(sh -c ': >"$0" && exec "$@"' "$dead")
    WRAP=(unshare -p -f --kill-child)
    job 2 m_sizes --max=5000 --only=sendrecv
    holds "the name of a dead owner is gone" test ! -e "$dead"
    holds "the name of a living one is not" test -e "$alive"
    kill "$owner" 2>/dev/null
    wait "$owner" 2>/dev/null
    rm -f "$alive" "$dead"
}

row_kills() {
    local traffic deed i
    KILLED=0
    for ((i = 1; i <= KILLS; i++)); do
        for traffic in small large mixed barrier rma; do
            its_turn 2 || continue
            deadly "kill $i"
            [ $traffic != rma ] || LEFTOVERS=ours
            job 3 m_peerkill --traffic=$traffic --victim=$((i % 3))
            count_kill
        done
        for deed in kill-launcher kill-all kill-ranks kill-one; do
            deadly "$deed $i"
            LEFTOVERS=ours
            PREFIX_CMD=("$HERE/meddle" "$deed" $((RANDOM % 700)))
            job 3 m_stress --seconds=60 --max=2000000
            count_kill
        done
        # Those who have the library's word that a peer is lost must not leave worse than those who have not.
        deed=$(shuf -n 1 -e kill-launcher kill-all kill-ranks)
        deadly "$deed $i, fault tolerance"
        LEFTOVERS=ours
        MCA=(--with-ft ulfm)
        PREFIX_CMD=("$HERE/meddle" "$deed" $((RANDOM % 700)))
        job 3 m_stress --seconds=60 --max=2000000
        count_kill
        # A short job: one rank dies in MPI_Init, in MPI_Finalize or between them. It may have ended before.
        deadly "kill-one $i of a short job"
        LEFTOVERS=ours LIMIT=20 WITHIN_MS=0
        PREFIX_CMD=("$HERE/meddle" kill-one $((RANDOM % 700)))
        job 3 m_finalize --mode=delays
        count_kill
    done
    # With names in the directory, which other pid namespaces need.
    if have_unshare "kills with names" "-p -f"; then
        for deed in kill-all kill-ranks; do
            deadly "$deed, ranks in pid namespaces"
            LEFTOVERS=ours
            WRAP=(unshare -p -f --kill-child)
            PREFIX_CMD=("$HERE/meddle" "$deed" $((1000 + RANDOM % 500)))
            job 2 m_stress --seconds=60 --max=2000000
            count_kill
        done
    fi
    sweep_names
    [ "$LEVEL" != long ] || holds "at least 1000 kills (there were $KILLED)" test $KILLED -ge 1000
    note "$KILLED kills"
}

row_endings() {
    local mode np
    for np in 2 4; do
        for mode in delays unfinished; do
            settings "endings"
            job $np m_finalize --mode=$mode
        done
    done
    settings "endings"
    STDERR=any STATUS=7 LIMIT=20
    job 3 m_finalize --mode=abort
    STATUS=any
    job 3 m_finalize --mode=early
}

# With fault tolerance the survivors go on; a rank that only stands still is nobody's death.
row_survivors() {
    local traffic i seconds=2 mode
    KILLED=0
    [ "$LEVEL" != long ] || seconds=30
    for ((i = 1; i <= (FULL ? 10 : 1); i++)); do
        for traffic in small large mixed; do
            its_turn 3 || continue
            settings "kill, fault tolerance"
            STDERR=any STATUS=any LIMIT=60
            MCA=(--with-ft ulfm)
            job 4 m_peerkill --ulfm --traffic=$traffic --victim=$((i % 4))
            count_kill
        done
    done
    # Spinning as if every rank had a core, so that none counts its idle calls by the time slice.
    if [ "$SUBJECT" = ours ]; then
        settings "kill beside steady traffic, fault tolerance"
        STDERR=any STATUS=any LIMIT=60
        MCA=(--with-ft ulfm)
        mca btl_sm_idle_spin 1073741824
        job 3 m_peerkill --ulfm --traffic=beside --victim=2
        count_kill
    fi
    note "$KILLED survived kills"
    for mode in plain ulfm; do
        settings "a rank stands still for $seconds s, $mode"
        [ $mode = plain ] || MCA=(--with-ft ulfm)
        PREFIX_CMD=("$HERE/meddle" "stop:$seconds" 300)
        job 3 m_stress --seconds=$((seconds + 2)) --max=500000
        note "stopped for $seconds s and back, $mode"
    done
    elsewhere stress/s_crash "dies at each of"
}

row_fork() {
    local np
    for np in 2 3; do
        LABEL="children"
        job $np m_finalize --mode=fork
    done
}

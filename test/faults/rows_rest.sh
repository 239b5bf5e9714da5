# shellcheck shell=bash disable=SC2034
#
# rows_rest.sh: rows about the protocol, and about time. Sourced by test/faults/run.

rest_rows() {
    row B24 "many to one, 80 KiB messages, more senders than fragments" row_many_to_one
    row B28 "rings: wrap, order, torn records" row_rings
    row B29 "machines with a weak order of memory" row_weak_order
    row B30 "all threads may call" row_threads
    row B31 "odd values of every limit" row_limits
    row B32 "another component of the same name in one rank" row_mixed
    row B33 "nothing grows, no descriptor gets lost" row_growth
    row B40 "spawned and connected jobs" row_spawn
    row B46 "many more ranks than cores start and finish" row_oversubscribed
    row B49 "many readers of one rank" row_readers
}

row_many_to_one() {
    local np=8
    [ $FULL = 0 ] || np=64
    LIMIT=600
    LABEL="many to one"
    job $np m_flood --count=$((FULL ? 20 : 6))
    LABEL="many to one, no large boxes, few descriptors"
    mca btl_sm_fbox_max 0
    mca btl_sm_free_list_max 16
    job $((FULL ? 8 : 4)) m_flood --count=$((FULL ? 100 : 10))
}

row_rings() {
    elsewhere stress/s_fbox.h "messages per pair"
    elsewhere unit/t_fbox "random records arrive in order and whole" "counters pass 2^64"
}

row_weak_order() {
    elsewhere model/m_fbox "the counters pass 2^64 and the sequence number 2^16" "a publish before the payload is found"
}

row_threads() {
    elsewhere mpi/run "m_threads" -- --only 'm_threads*np=2*cma?'
}

row_limits() {
    elsewhere mpi/run "btl_sm_" -- --only '*btl_sm_*'
}

# The records of Open MPI's own btl/sm mean something else: the pair is served by tcp. What its component says about ours
# (it opens a file of a name that it takes from our record) is none of our doing; ours says nothing.
row_mixed() {
    [ "$SUBJECT" = ours ] || { skip_case "mixed components" "about ours" && return; }
    LABEL="rank 1 with Open MPI's own components"
    mca btl sm,self,tcp
    WRAP=("$MPI_TESTS/on_ranks" 1 env OMPI_MCA_allocator=^dsofirst --)
    STDERR=lines:12
    job 3 m_sizes --max=90000 --only=modes
    holds "our component says nothing" not_in "btl/sm" "$WORK/err"
}

row_growth() {
    elsewhere mpi/run "m_memory" -- --only 'm_memory*'
}

row_spawn() {
    elsewhere mpi/run "m_spawn" -- --only '*m_spawn*'
}

row_oversubscribed() {
    local np=16
    [ $FULL = 0 ] || np=64
    LIMIT=600
    LABEL="$np ranks on $(nproc) cores"
    job $np m_sizes --max=5000 --only=sendrecv
    job $np m_coll --rounds=1 --max=5000
    note "$np ranks on $(nproc) cores"
}

row_readers() {
    local readers
    for readers in 1 4; do
        LABEL="$readers readers at a time"
        mca btl_sm_max_readers $readers
        job 6 m_coll --rounds=2 --max=$((FULL ? 1000000 : 300000))
    done
}

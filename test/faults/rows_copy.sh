# shellcheck shell=bash disable=SC2034
#
# rows_copy.sh: rows about single copy that is refused, breaks off, or must not be asked for. Sourced by test/faults/run.

copy_rows() {
    row B01 "single copy refused by a container's filter (EPERM)" row_refused_eperm
    row B02 "kcmp refused, single copy allowed" row_kcmp
    row B03 "system calls missing or answering oddly (ENOSYS, EINVAL, ESRCH)" row_refused_oddly
    row B04 "permission that only a trial shows: a peer that is not dumpable" row_undumpable
    row B08 "permission lost in mid-run, and programs that nobody may read" row_permission_lost
    row B09 "five container profiles" row_profiles
    row B10 "refused by a security module (EACCES)" row_refused_eacces
    row B11 "copies to oneself while all calls are refused" row_self
    row B13 "one side may, the other may not" row_one_sided_permission
    row B15 "messages around 2^31 and 2^32 bytes" row_huge
    row B16 "calls that return 0" row_zero
    row B17 "short counts in the middle of a range" row_short
    row B18 "memory that the kernel cannot copy (EFAULT)" row_efault
    row B19 "more than 1024 elements" row_elements
    row B20 "receives of another length than the message, MPI_BOTTOM" row_lengths
    row B21 "interrupted and starved copies" row_interrupted
    row B22 "emulated copies of any size" row_emulated
    row B25 "a single-copy provider that fails now and then" row_inject
    row B26 "several gets for one message" row_get_limit
    row B27 "one-sided traffic while all calls are refused" row_one_sided
    row B35 "users of the single-copy framework other than btl/sm" row_framework
    row R1 "random messages over the whole refusal matrix" row_matrix_total
}

# One cell of the matrix: ERRNO CALLS RANKS WHEN. RANKS is all, odd or 0; WHEN is start or mid-run.
# Reaching a peer takes both calls, hence all of a denied rank's pairs are lost, and none of the others'.
refused() {
    local errno=$1 calls=$2 ranks=$3 when=$4 np denied
    [ -x "$DENY" ] || { skip_case "refused system calls" "test/support/deny is not built" && return; }
    MATRIX_CELLS=$((MATRIX_CELLS + 1))
    for np in 3 4; do
        settings "$calls $errno, ranks $ranks, $when"
        LIMIT=$((FULL ? 300 : 90))
        WRAP=("$DENY" --errno "$errno")
        [ "$ranks" = all ] || WRAP+=(--ranks "$ranks")
        if [ $np = 3 ] && [ "$when" != start ]; then
            refused_later "$calls" "$ranks"
            continue
        fi
        # The trial of a peer takes three calls; after some more the filter closes.
        [ "$when" = start ] || WRAP+=(--after-calls 20)
        WRAP+=("$calls")
        case $ranks in all) denied=$np ;; odd) denied=$((np / 2)) ;; *) denied=1 ;; esac
        if [ "$when" != start ]; then
            expect "smsc_cma_endpoints:$((np * (np - 1))):$((np * (np - 1)))"
        elif [ "$ranks" = all ]; then
            expect smsc_cma_endpoints:0:0,btl_sm_single_copy_bytes:0:0,btl_sm_streamed_bytes
        else
            expect "smsc_cma_endpoints:$(((np - denied) * (np - 1))):$(((np - denied) * (np - 1))),btl_sm_single_copy_bytes"
        fi
        if [ $np = 3 ]; then
            job 3 m_sizes --max=$((FULL ? 300001 : 90000)) --only=modes
        elif [ $FULL = 1 ]; then
            job 4 m_stress --messages="$MATRIX_MESSAGES"
            MATRIX_DONE=$((MATRIX_DONE + JOB_MESSAGES))
        fi
    done
}

# The filter closes in mid-run, which must have been met (failed copies are counted) and must cost the denied ranks' own
# transfers only. A message is read by its receiver: of 19 MB that are copied otherwise two ranks of three keep theirs, and
# of a few calls no megabyte can come. Writing is what a helper does for its peer, which takes a core for each of both.
refused_later() { # CALLS RANKS
    local calls=$1 ranks=$2 least=6000000 most=3000000
    mca btl_sm_learn 0
    if [ "$calls" != process_vm_writev ]; then
        WRAP+=(--after-calls 20 "$calls")
        [ "$ranks" != all ] || least=0
        [ "$ranks" = all ] || most=""
        expect "smsc_cma_endpoints:6:6,btl_sm_single_copy_failed,btl_sm_single_copy_bytes:$least${most:+:$most}"
        job 3 m_sizes --max=90000 --only=modes
    elif [ "$(nproc)" -ge 2 ]; then
        WRAP+=(--after-calls 2 "$calls")
        mca btl_sm_cooperate_chunk 16384
        expect smsc_cma_endpoints:2:2,btl_sm_single_copy_failed,btl_sm_single_copy_bytes,btl_sm_streamed_bytes
        job 2 m_sizes --max=300001 --only=modes
    else
        skip_case "$calls, $ranks, in mid-run" "one core: nobody writes for another"
    fi
}

# 126 cells; at level long two million random messages over all of them.
MATRIX_DONE=0 MATRIX_CELLS=0 MATRIX_MESSAGES=1500
[ "$LEVEL" != long ] || MATRIX_MESSAGES=16000

matrix() { # matrix ERRNO...: all cells of these
    local errno calls ranks when
    for errno in "$@"; do
        for calls in $CALLS process_vm_readv process_vm_writev; do
            for ranks in all odd 0; do
                for when in start mid-run; do
                    its_turn 7 || continue
                    refused "$errno" "$calls" "$ranks" "$when"
                done
            done
        done
    done
    note "pairs that may still copy do"
}

row_refused_eperm() { matrix EPERM; }
row_refused_oddly() { matrix ENOSYS EINVAL ESRCH; }
row_refused_eacces() { matrix EACCES; }
row_zero() { matrix 0; }

row_efault() {
    matrix EFAULT
    elsewhere proc/p_cma_peers "the next message is copied" "gives EFAULT for this message"
}

row_matrix_total() {
    local least=2500
    if [ $FULL = 0 ] || [ "$ROW_ONLY" != "*" ]; then
        settings "every 3rd call refused"
        LIMIT=300
        WRAP=("$DENY" --errno EPERM --ranks odd --after-calls 30 --every 3 "$CALLS")
        job 4 m_stress --messages=2500
        MATRIX_DONE=$JOB_MESSAGES
    fi
    [ "$LEVEL" != long ] || [ "$ROW_ONLY" != "*" ] || least=2000000
    holds "at least $least random messages were sent" test $MATRIX_DONE -ge $least
    note "$MATRIX_DONE random messages in $MATRIX_CELLS cells without a wrong byte"
}

row_kcmp() {
    as_plain_user "kcmp refused" || return 0
    LABEL="$PLAIN_USER, kcmp gives EPERM"
    WRAP=("$DENY" --errno EPERM kcmp)
    expect smsc_cma_endpoints:2:2,btl_sm_single_copy_bytes
    job 2 m_sizes --max=300000 --only=modes
    note "single copy in use as $PLAIN_USER"
}

# Copying from or to an undumpable process is refused; it may copy itself.
row_undumpable() {
    as_plain_user "a peer that is not dumpable" || return 0
    [ -e "$RANK_FAULT" ] || { skip_case "not dumpable" "test/faults/librank_fault is not built" && return; }
    LABEL="$PLAIN_USER, no Yama or what it allows"
    expect smsc_cma_endpoints:6:6,btl_sm_single_copy_bytes
    job 3 m_sizes --max=90000 --only=modes
    LABEL="$PLAIN_USER, rank 1 is not dumpable"
    expect smsc_cma_endpoints:4:4,btl_sm_single_copy_bytes
    WRAP=("$MPI_TESTS/on_ranks" 1 env LD_PRELOAD="$RANK_FAULT" SMX_FAULT=undumpable --)
    job 3 m_sizes --max=90000 --only=modes
    elsewhere proc/p_cma_peers "and the line says so"
}

row_permission_lost() {
    local closed=$WORK/closed
    as_plain_user "permission lost in mid-run" || return 0
    [ -e "$RANK_FAULT" ] || { skip_case "not dumpable" "test/faults/librank_fault is not built" && return; }
    LABEL="$PLAIN_USER, rank 1 becomes undumpable"
    expect smsc_cma_endpoints:6:6,btl_sm_single_copy_bytes,btl_sm_single_copy_failed
    WRAP=("$MPI_TESTS/on_ranks" 1 env LD_PRELOAD="$RANK_FAULT" SMX_FAULT=undumpable:250 --)
    job 3 m_sizes --max=$((FULL ? 1048577 : 300000))
    LABEL="$PLAIN_USER, a program that may be run but not read"
    cp "$BIN/m_sizes" "$closed" && chmod 111 "$closed"
    WRAP=()
    expect smsc_cma_endpoints:0:0,btl_sm_single_copy_bytes:0:0
    job 3 "$closed" --max=90000 --only=modes
}

# The default filters of the runtimes, as far as they touch us: calls that are refused with EPERM, calls that are missing.
# From section 4 of the table of faults.
profile() { # profile NAME: sets WRAP and SINGLE_COPY
    local policy=mbind,set_mempolicy,get_mempolicy,move_pages,userfaultfd denied missing=""
    case $1 in
        docker-2018) SINGLE_COPY=no denied=$CALLS,ptrace,kcmp,pidfd_getfd,$policy ;;
        docker-now) SINGLE_COPY=yes denied=kcmp,pidfd_getfd,$policy ;;
        podman-old) SINGLE_COPY=no denied=$CALLS,kcmp,mbind,move_pages ;;
        podman-now) SINGLE_COPY=yes denied=kcmp,mbind missing=userfaultfd,move_pages ;;
        containerd-2022) SINGLE_COPY=no denied=$CALLS,kcmp,pidfd_getfd,$policy ;;
    esac
    WRAP=("$DENY" --errno EPERM "$denied")
    [ -z "$missing" ] || WRAP+=("$DENY" --errno ENOSYS "$missing")
}

row_profiles() {
    local name
    [ -x "$DENY" ] || { skip_case "container profiles" "test/support/deny is not built" && return; }
    for name in docker-2018 docker-now podman-old podman-now containerd-2022; do
        as_plain_user "profile $name" || return 0
        LABEL="$PLAIN_USER, profile $name"
        profile $name
        if [ $SINGLE_COPY = yes ]; then
            expect smsc_cma_endpoints:6:6,btl_sm_single_copy_bytes,btl_sm_single_copy_failed:0:0
        else
            expect smsc_cma_endpoints:0:0,smsc_cma_refused_denied:6:6,btl_sm_single_copy_bytes:0:0,btl_sm_streamed_bytes
        fi
        job 3 m_sizes --max=$((FULL ? 1048577 : 90000)) --only=modes
        [ $FULL = 0 ] || { unset SMX_EXPECT_PVAR && job 4 m_stress --messages=3000; }
        note "$name: single copy $SINGLE_COPY"
    done
}

row_self() {
    WRAP=("$DENY" --errno EPERM "$CALLS")
    mca osc rdma
    LABEL="one rank, all calls refused"
    job 1 m_rma --windows=create,allocate,dynamic --max=70000 --rounds=20
    LABEL="messages to oneself, all calls refused"
    job 2 m_sizes --max=300000 --only=self
}

row_one_sided_permission() {
    WRAP=("$DENY" --errno EPERM --ranks odd "$CALLS")
    LABEL="calls refused on odd ranks"
    expect smsc_cma_endpoints:6:6,btl_sm_single_copy_bytes
    job 4 m_coll --rounds=$((FULL ? 10 : 3))
    job 4 m_sizes --max=$((FULL ? 300000 : 90000)) --only=sendrecv
}

row_huge() {
    elsewhere unit/t_cma_copy "sizes around 2^31 and 2^32"
    # The jobs take minutes: test/mpi has them at level long.
    [ "$LEVEL" = faults ] || return 0
    LABEL="cma"
    LIMIT=900
    job 2 m_huge --small --sizes=2147479552,2147483649,4294967299
}

row_short() {
    elsewhere unit/t_cma_copy "short counts are resumed in the middle of an element"
    elsewhere proc/p_cma_peers "reading brings every byte and no other" "a source whose last page is PROT_NONE"
}

row_elements() {
    elsewhere unit/t_cma_copy "elements on both sides or one"
    LABEL="datatypes around 1024 blocks"
    job 2 m_types --max=$((FULL ? 300000 : 70000))
}

row_lengths() {
    local section
    for section in truncate bigger bottom; do
        LABEL="cma"
        job 2 m_sizes --max=$((FULL ? 1048577 : 90000)) --only=$section
    done
}

# Answers that mean "again": they must neither end single copy for good nor lose a byte.
row_interrupted() {
    local errno
    for errno in EINTR EAGAIN ENOMEM; do
        its_turn 3 || continue
        settings "every 3rd call gives $errno"
        WRAP=("$DENY" --errno "$errno" --after-calls 9 --every 3 "$CALLS")
        expect smsc_cma_endpoints:6:6,btl_sm_single_copy_bytes
        job 3 m_sizes --max=$((FULL ? 1048577 : 90000)) --only=modes
    done
    settings "a signal each millisecond"
    job 2 m_finalize --mode=signals
}

row_emulated() {
    WRAP=("$DENY" --errno EPERM "$CALLS")
    LABEL="all calls refused"
    LIMIT=300
    expect btl_sm_single_copy_bytes:0:0,btl_sm_streamed_bytes
    job 2 m_sizes --max=19145881 --limits=19145880 --only=sendrecv
    [ $FULL = 0 ] || job 2 m_sizes --max=19145881 --limits=19145880 --only=modes
}

row_inject() {
    elsewhere mpi/run ". copy fails" ". registration fails" ". mapping fails" -- --only '*every*fails*'
}

# ob1 cannot undo one get of several: the limit that would make several is refused, with a line.
row_get_limit() {
    if [ ! -e "$TEST_PLUGINS/mca_smsc_regcma.so" ]; then
        skip_case "get limit" "the test plugins are not built"
        return
    fi
    mkdir -p "$WORK/plugins"
    cp "$TEST_PLUGINS"/mca_smsc_*.so "$PLUGINS"/*.so "$WORK/plugins/"
    chmod -R a+rX "$WORK/plugins"
    LABEL="get limit of 64 KiB, every 2nd copy fails"
    PLUGIN_PATH=$WORK/plugins:${OMPI_MCA_mca_base_component_path:-$(ompi_path pkglibdir)}
    mca smsc regcma
    mca smsc_regcma_fail_copy_every 2
    mca btl_sm_get_limit 65536
    STDERR=lines:2
    job 2 m_sizes --max=300000 --only=modes
}

row_one_sided() {
    WRAP=("$DENY" --errno EPERM "$CALLS")
    mca osc rdma
    LABEL="osc/rdma, all calls refused"
    job 2 m_rma --windows=create,dynamic --max=$((FULL ? 1048576 : 70000)) --rounds=20
    [ $FULL = 1 ] || return 0
    LABEL="osc/rdma, calls refused on odd ranks"
    WRAP=("$DENY" --errno EPERM --ranks odd "$CALLS")
    job 3 m_rma --windows=create,allocate --max=300000 --rounds=50
}

row_framework() {
    elsewhere smsc/c_smsc "two endpoints to one peer" "there is no registration data"
}

/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * The rarer roads of point-to-point: partitioned messages, matched and plain probes, cancelled
 * receives, many persistent requests started at once, requests freed while active.
 *
 * Options: --rounds=N, --max=SIZE.
 */
#include "mpi_check.h"

#define TAG 200

static int right;
static int left;
static size_t max_size;
static const size_t *sizes;
static size_t nsizes;

static chk_msg_t msg(int src, int tag, uint64_t seq, size_t size)
{
    return (chk_msg_t) {src, tag, seq, size};
}

/* Many persistent pairs of different sizes, started together and in pieces, again and again. */
static void test_startall(int rounds)
{
    enum { N = 24 };
    MPI_Request req[2 * N];
    const size_t slot = max_size / 8 + 4 * CHK_GUARD;
    chk_buf_t out = chk_buf_new(N * slot);
    chk_buf_t in = chk_buf_new(N * slot);
    size_t size[N];
    for (int i = 0; i < N; i++) {
        unsigned char *s = out.p + (size_t) i * slot + CHK_GUARD;
        unsigned char *r = in.p + (size_t) i * slot + CHK_GUARD;
        size[i] = sizes[(size_t) i * 7919 % nsizes];
        size[i] = size[i] > max_size / 8 ? max_size / 8 : size[i];
        CHK(MPI_Recv_init(r, (int) size[i], MPI_BYTE, left, TAG + i, MPI_COMM_WORLD, &req[i]));
        if (0 == i % 4) {
            CHK(MPI_Ssend_init(s, (int) size[i], MPI_BYTE, right, TAG + i, MPI_COMM_WORLD,
                               &req[N + i]));
        } else {
            CHK(MPI_Send_init(s, (int) size[i], MPI_BYTE, right, TAG + i, MPI_COMM_WORLD,
                              &req[N + i]));
        }
    }
    for (int round = 0; round < rounds; round++) {
        chk_phase("Startall round %d", round);
        for (int i = 0; i < N; i++) {
            const chk_msg_t m = msg(chk_rank, TAG + i, (uint64_t) round, size[i]);
            chk_fill(&m, 0, out.p + (size_t) i * slot + CHK_GUARD, size[i]);
            chk_arm(in.p + (size_t) i * slot + CHK_GUARD, size[i]);
        }
        if (0 == round % 2) {
            CHK(MPI_Startall(2 * N, req));
        } else {
            for (int i = N - 1; i >= 0; i--) {
                CHK(MPI_Start(&req[N + i]));
                CHK(MPI_Start(&req[i]));
            }
        }
        CHK(MPI_Waitall(2 * N, req, MPI_STATUSES_IGNORE));
        for (int i = 0; i < N; i++) {
            const chk_msg_t m = msg(left, TAG + i, (uint64_t) round, size[i]);
            chk_received(&m, in.p + (size_t) i * slot + CHK_GUARD, size[i], size[i]);
        }
    }
    for (int i = 0; i < 2 * N; i++) {
        CHK(MPI_Request_free(&req[i]));
    }
    chk_buf_free(&out);
    chk_buf_free(&in);
    chk_result("%d persistent pairs, started together and one by one, %d rounds", N, rounds);
}

#if CHK_MPI4
/* Partitions made ready in random order and late; the receiver looks at them as they come. */
static void test_partitioned(int rounds)
{
    chk_rng_t rng = chk_rng(51, 0, 0);
    for (int round = 0; round < rounds; round++) {
        const int parts = 1 + (int) chk_below(&rng, 16);
        const size_t each = chk_rand_size(&rng, max_size / 16);
        const size_t total = each * (size_t) parts;
        chk_buf_t out = chk_buf_new(total);
        chk_buf_t in = chk_buf_new(total);
        MPI_Request req[2];
        chk_phase("partitioned round %d: %d of %zu", round, parts, each);
        CHK(MPI_Precv_init(in.p, parts, (MPI_Count) each, MPI_BYTE, left, TAG, MPI_COMM_WORLD,
                           MPI_INFO_NULL, &req[0]));
        CHK(MPI_Psend_init(out.p, parts, (MPI_Count) each, MPI_BYTE, right, TAG, MPI_COMM_WORLD,
                           MPI_INFO_NULL, &req[1]));
        for (int again = 0; again < 3; again++) {
            const uint64_t seq = (uint64_t) round * 3 + (uint64_t) again;
            const chk_msg_t mine = msg(chk_rank, TAG, seq, total);
            const chk_msg_t theirs = msg(left, TAG, seq, total);
            int arrived = 0;
            chk_arm(in.p, total);
            CHK(MPI_Startall(2, req));
            const int first = (int) chk_below(&rng, (uint64_t) parts);
            for (int k = 0; k < parts; k++) {
                const int p = (first + k) % parts;
                chk_fill(&mine, (size_t) p * each, out.p + (size_t) p * each, each);
                CHK(MPI_Pready(p, req[1]));
            }
            CHK(MPI_Parrived(req[0], parts - 1, &arrived));
            if (arrived) {
                chk_verify(&theirs, (size_t) (parts - 1) * each, in.p + (size_t) (parts - 1) * each,
                           each);
            }
            CHK(MPI_Waitall(2, req, MPI_STATUSES_IGNORE));
            chk_received(&theirs, in.p, total, total);
        }
        CHK(MPI_Request_free(&req[0]));
        CHK(MPI_Request_free(&req[1]));
        chk_buf_free(&out);
        chk_buf_free(&in);
    }
    chk_result("partitioned messages arrive whole whatever the order of the partitions");
}
#endif

enum { PROBE, IPROBE, MPROBE, IMPROBE, PROBES };

/* The size is learnt from the message itself; the probe may come before or after the message. */
static void test_probe(void)
{
    static const char *const name[PROBES] = {"Probe", "Iprobe", "Mprobe", "Improbe"};
    for (int kind = 0; kind < PROBES; kind++) {
        for (size_t i = 0; i < nsizes; i++) {
            const chk_msg_t mine = msg(chk_rank, TAG + kind, i, sizes[i]);
            const chk_msg_t theirs = msg(left, TAG + kind, i, sizes[i]);
            chk_buf_t out = chk_buf_new(sizes[i]);
            MPI_Request req;
            MPI_Status st;
            MPI_Message handle = MPI_MESSAGE_NULL;
            int flag = 0;
            int n = -1;
            chk_phase("%s of %zu", name[kind], sizes[i]);
            chk_fill(&mine, 0, out.p, sizes[i]);
            CHK(MPI_Isend(out.p, (int) sizes[i], MPI_BYTE, right, TAG + kind, MPI_COMM_WORLD,
                          &req));
            switch (kind) {
            case PROBE:
                CHK(MPI_Probe(MPI_ANY_SOURCE, TAG + kind, MPI_COMM_WORLD, &st));
                break;
            case IPROBE:
                while (!flag) {
                    CHK(MPI_Iprobe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &st));
                }
                break;
            case MPROBE:
                CHK(MPI_Mprobe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &handle, &st));
                break;
            default:
                while (!flag) {
                    CHK(MPI_Improbe(MPI_ANY_SOURCE, TAG + kind, MPI_COMM_WORLD, &flag, &handle,
                                    &st));
                }
                break;
            }
            chk_status(&theirs, &st, sizes[i]);
            CHK(MPI_Get_count(&st, MPI_BYTE, &n));
            chk_buf_t in = chk_buf_new((size_t) n);
            chk_arm(in.p, (size_t) n);
            if (MPI_MESSAGE_NULL == handle) {
                CHK(MPI_Recv(in.p, n, MPI_BYTE, left, TAG + kind, MPI_COMM_WORLD, &st));
            } else if (0 == i % 2) {
                CHK(MPI_Mrecv(in.p, n, MPI_BYTE, &handle, &st));
            } else {
                MPI_Request mreq;
                CHK(MPI_Imrecv(in.p, n, MPI_BYTE, &handle, &mreq));
                CHK(MPI_Wait(&mreq, &st));
            }
            chk_status(&theirs, &st, sizes[i]);
            chk_received(&theirs, in.p, (size_t) n, sizes[i]);
            CHK(MPI_Wait(&req, MPI_STATUS_IGNORE));
            chk_buf_free(&out);
            chk_buf_free(&in);
        }
        chk_result("%s tells source, tag and size of %zu messages, which then arrive", name[kind],
                   nsizes);
    }
}

/* Matched probe out of order: the second message is taken first. */
static void test_mprobe_order(void)
{
    const size_t n = 5000;
    MPI_Request req[3];
    chk_buf_t out[3];
    chk_phase("Mprobe order");
    for (uint64_t i = 0; i < 3; i++) {
        const chk_msg_t m = msg(chk_rank, TAG, i, n * (i + 1) * 10);
        out[i] = chk_buf_new(m.size);
        chk_fill(&m, 0, out[i].p, m.size);
        CHK(MPI_Isend(out[i].p, (int) m.size, MPI_BYTE, right, TAG, MPI_COMM_WORLD, &req[i]));
    }
    MPI_Message handle[3];
    for (int i = 0; i < 3; i++) {
        CHK(MPI_Mprobe(left, TAG, MPI_COMM_WORLD, &handle[i], MPI_STATUS_IGNORE));
    }
    for (int i = 2; i >= 0; i--) {
        const chk_msg_t m = msg(left, TAG, (uint64_t) i, n * (size_t) (i + 1) * 10);
        chk_buf_t in = chk_buf_new(m.size);
        chk_arm(in.p, m.size);
        CHK(MPI_Mrecv(in.p, (int) m.size, MPI_BYTE, &handle[i], MPI_STATUS_IGNORE));
        chk_received(&m, in.p, m.size, m.size);
        chk_buf_free(&in);
    }
    CHK(MPI_Waitall(3, req, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 3; i++) {
        chk_buf_free(&out[i]);
    }
    chk_result("matched messages may be received in any order");
}

/* A cancelled receive takes nothing: its buffer stays, and the message goes to the next receive. */
static void test_cancel(int rounds)
{
    int cancelled_all = 0;
    for (int round = 0; round < rounds; round++) {
        const size_t size = sizes[(size_t) round * 104729 % nsizes];
        const chk_msg_t mine = msg(chk_rank, TAG + 9, (uint64_t) round, size);
        const chk_msg_t theirs = msg(left, TAG + 9, (uint64_t) round, size);
        chk_buf_t out = chk_buf_new(size);
        chk_buf_t dead = chk_buf_new(size);
        chk_buf_t in = chk_buf_new(size);
        MPI_Request req;
        MPI_Request sreq;
        MPI_Status st;
        int cancelled = 0;
        chk_phase("Cancel round %d size %zu", round, size);
        chk_arm(dead.p, size);
        chk_arm(in.p, size);
        chk_fill(&mine, 0, out.p, size);
        CHK(MPI_Irecv(dead.p, (int) size, MPI_BYTE, left, TAG + 9, MPI_COMM_WORLD, &req));
        if (0 == round % 2) {
            /* sure to be in time */
            CHK(MPI_Cancel(&req));
            CHK(MPI_Barrier(MPI_COMM_WORLD));
            CHK(MPI_Isend(out.p, (int) size, MPI_BYTE, right, TAG + 9, MPI_COMM_WORLD, &sreq));
        } else {
            /* a race with the message: either outcome is right, but only one of them */
            CHK(MPI_Isend(out.p, (int) size, MPI_BYTE, right, TAG + 9, MPI_COMM_WORLD, &sreq));
            CHK(MPI_Cancel(&req));
        }
        CHK(MPI_Wait(&req, &st));
        CHK(MPI_Test_cancelled(&st, &cancelled));
        cancelled_all += cancelled;
        if (cancelled) {
            chk_received(&theirs, dead.p, size, 0);
            CHK(MPI_Recv(in.p, (int) size, MPI_BYTE, left, TAG + 9, MPI_COMM_WORLD, &st));
            chk_received(&theirs, in.p, size, size);
        } else {
            chk_received(&theirs, dead.p, size, size);
            if (0 == round % 2) {
                chk_fail("a receive without a message could not be cancelled, size %zu", size);
            }
        }
        CHK(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
        chk_buf_free(&out);
        chk_buf_free(&dead);
        chk_buf_free(&in);
    }
    chk_result("cancelled receives take nothing and lose nothing (%d of %d cancelled on rank 0)",
               cancelled_all, rounds);
}

/* The request is given up while the message is on its way; the message must still arrive. */
static void test_request_free(void)
{
    for (size_t i = 0; i < nsizes; i++) {
        const chk_msg_t mine = msg(chk_rank, TAG + 20, i, sizes[i]);
        const chk_msg_t theirs = msg(left, TAG + 20, i, sizes[i]);
        chk_buf_t out = chk_buf_new(sizes[i]);
        chk_buf_t in = chk_buf_new(sizes[i]);
        MPI_Request req;
        chk_phase("Request_free size %zu", sizes[i]);
        chk_fill(&mine, 0, out.p, sizes[i]);
        chk_arm(in.p, sizes[i]);
        CHK(MPI_Isend(out.p, (int) sizes[i], MPI_BYTE, right, TAG + 20, MPI_COMM_WORLD, &req));
        CHK(MPI_Request_free(&req));
        CHK(MPI_Recv(in.p, (int) sizes[i], MPI_BYTE, left, TAG + 20, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE));
        chk_received(&theirs, in.p, sizes[i], sizes[i]);
        /* only the receiver's word tells that the buffer may go */
        CHK(MPI_Barrier(MPI_COMM_WORLD));
        chk_buf_free(&out);
        chk_buf_free(&in);
    }
    chk_result("messages arrive whose requests were freed at once");
}

int main(int argc, char **argv)
{
    chk_init(argc, argv, MPI_THREAD_SINGLE);
    const int rounds = (int) chk_opt_u64("rounds", chk_long ? 500 : 30);
    max_size = chk_opt_u64("max", chk_long ? 4u << 20 : 300000);
    sizes = chk_sizes(max_size, &nsizes);
    right = (chk_rank + 1) % chk_np;
    left = (chk_rank + chk_np - 1) % chk_np;
    test_startall(rounds);
#if CHK_MPI4
    test_partitioned(rounds);
#else
    chk_skip("partitioned messages", "the library is older than MPI 4");
#endif
    test_probe();
    test_mprobe_order();
    test_cancel(2 * rounds);
    test_request_free();
    return chk_done();
}

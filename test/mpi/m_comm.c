/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * Communicators made and freed in storms, with messages on each, so that nothing of one is left
 * when the next comes: dup, idup, split, create_group, intercommunicators and their merging.
 *
 * Options: --rounds=N.
 */
#include "mpi_check.h"

#define TAG 300

static uint64_t seq;

/* A ring on any communicator; the pattern's source is the rank there. */
static void ring(MPI_Comm c, size_t size)
{
    int me;
    int np;
    CHK(MPI_Comm_rank(c, &me));
    CHK(MPI_Comm_size(c, &np));
    const chk_msg_t mine = {me, TAG, seq, size};
    const chk_msg_t theirs = {(me + np - 1) % np, TAG, seq, size};
    chk_buf_t out = chk_buf_new(size);
    chk_buf_t in = chk_buf_new(size);
    MPI_Status st;
    chk_fill(&mine, 0, out.p, size);
    chk_arm(in.p, size);
    CHK(MPI_Sendrecv(out.p, (int) size, MPI_BYTE, (me + 1) % np, TAG, in.p, (int) size, MPI_BYTE,
                     theirs.src, TAG, c, &st));
    chk_received(&theirs, in.p, size, size);
    chk_status(&theirs, &st, size);
    chk_buf_free(&out);
    chk_buf_free(&in);
}

static size_t draw(uint64_t a, uint64_t b)
{
    chk_rng_t rng = chk_rng(61, a, b);
    return chk_rand_size(&rng, 20000);
}

static void test_dup(int rounds)
{
    enum { WIDE = 32 };
    MPI_Comm c[WIDE];
    for (int round = 0; round < rounds; round++) {
        chk_phase("dup round %d", round);
        for (int i = 0; i < WIDE; i++) {
            if (0 == i % 3) {
                MPI_Request req;
                CHK(MPI_Comm_idup(0 == i ? MPI_COMM_WORLD : c[i - 1], &c[i], &req));
                CHK(MPI_Wait(&req, MPI_STATUS_IGNORE));
            } else {
                CHK(MPI_Comm_dup(c[i - 1], &c[i]));
            }
        }
        for (int i = 0; i < WIDE; i++) {
            ring(c[(i * 7) % WIDE], draw((uint64_t) round, (uint64_t) i));
            seq++;
        }
        for (int i = 0; i < WIDE; i++) {
            CHK(MPI_Comm_free(&c[(i * 5) % WIDE]));
        }
    }
    chk_result("%d rounds of %d dups and idups, messages on each, freed in another order", rounds,
               WIDE);
}

/* A message that waits unexpected on one communicator while others come and go. */
static void test_waiting(int rounds)
{
    const int right = (chk_rank + 1) % chk_np;
    const int left = (chk_rank + chk_np - 1) % chk_np;
    for (int round = 0; round < rounds; round++) {
        const size_t size = draw(1000, (uint64_t) round) + 1;
        const chk_msg_t mine = {chk_rank, TAG + 1, seq, size};
        const chk_msg_t theirs = {left, TAG + 1, seq, size};
        chk_buf_t out = chk_buf_new(size);
        chk_buf_t in = chk_buf_new(size);
        MPI_Comm keep;
        MPI_Comm other;
        MPI_Request req;
        chk_phase("waiting message, round %d", round);
        CHK(MPI_Comm_dup(MPI_COMM_WORLD, &keep));
        chk_fill(&mine, 0, out.p, size);
        chk_arm(in.p, size);
        CHK(MPI_Isend(out.p, (int) size, MPI_BYTE, right, TAG + 1, keep, &req));
        CHK(MPI_Comm_split(MPI_COMM_WORLD, 0, chk_rank, &other));
        ring(other, size);
        CHK(MPI_Comm_free(&other));
        CHK(MPI_Recv(in.p, (int) size, MPI_BYTE, left, TAG + 1, keep, MPI_STATUS_IGNORE));
        chk_received(&theirs, in.p, size, size);
        CHK(MPI_Wait(&req, MPI_STATUS_IGNORE));
        CHK(MPI_Comm_free(&keep));
        chk_buf_free(&out);
        chk_buf_free(&in);
        seq++;
    }
    chk_result("messages wait on their communicator while others are made and freed");
}

static void test_split(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        chk_rng_t shared = chk_rng(62, (uint64_t) round, 0);
        const int colours = 1 + (int) chk_below(&shared, (uint64_t) chk_np);
        chk_rng_t own = chk_rng(63, (uint64_t) round, (uint64_t) chk_rank);
        const int colour = (int) chk_below(&own, (uint64_t) colours);
        const bool out = 0 == chk_below(&own, 7);
        MPI_Comm c;
        chk_phase("split round %d into %d", round, colours);
        CHK(MPI_Comm_split(MPI_COMM_WORLD, out ? MPI_UNDEFINED : colour, (int) chk_below(&own, 100),
                           &c));
        if (MPI_COMM_NULL != c) {
            int sum = 0;
            int one = 1;
            int np;
            ring(c, draw(2000 + (uint64_t) round, 0));
            CHK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, c));
            CHK(MPI_Comm_size(c, &np));
            if (sum != np) {
                chk_fail("split round %d: %d ranks answered, the communicator has %d", round, sum,
                         np);
            }
            CHK(MPI_Comm_free(&c));
        }
        seq++;
    }
    chk_result("%d random splits, some ranks outside", rounds);
}

static void test_groups(int rounds)
{
    MPI_Group world;
    CHK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int round = 0; round < rounds; round++) {
        int member[2] = {round % chk_np, (round + 1 + round / chk_np % (chk_np - 1)) % chk_np};
        MPI_Group g;
        MPI_Comm c;
        chk_phase("create_group round %d: %d and %d", round, member[0], member[1]);
        if (chk_rank != member[0] && chk_rank != member[1]) {
            continue;
        }
        CHK(MPI_Group_incl(world, 2, member, &g));
        CHK(MPI_Comm_create_group(MPI_COMM_WORLD, g, 400 + round % 100, &c));
        seq = 1000000 + (uint64_t) round;
        ring(c, draw(3000, (uint64_t) round));
        CHK(MPI_Comm_free(&c));
        CHK(MPI_Group_free(&g));
    }
    CHK(MPI_Group_free(&world));
    seq = 2000000;
    chk_result("pairs of ranks make communicators without the others");
}

static void test_inter(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        const int cut = 1 + round % (chk_np - 1);
        const int high = chk_rank >= cut;
        MPI_Comm half;
        MPI_Comm inter;
        MPI_Comm merged;
        int np;
        int remote;
        int me;
        chk_phase("intercommunicator round %d", round);
        CHK(MPI_Comm_split(MPI_COMM_WORLD, high, chk_rank, &half));
        CHK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, high ? 0 : cut, 500, &inter));
        CHK(MPI_Comm_rank(half, &me));
        CHK(MPI_Comm_remote_size(inter, &remote));
        /* everyone to everyone on the other side */
        for (int peer = 0; peer < remote; peer++) {
            const size_t size = draw(4000, (uint64_t) round);
            const int world_of_peer = high ? peer : peer + cut;
            const chk_msg_t mine = {chk_rank, TAG + 2, seq, size};
            const chk_msg_t theirs = {world_of_peer, TAG + 2, seq, size};
            chk_buf_t out = chk_buf_new(size);
            chk_buf_t in = chk_buf_new(size);
            MPI_Request req;
            chk_fill(&mine, 0, out.p, size);
            chk_arm(in.p, size);
            CHK(MPI_Isend(out.p, (int) size, MPI_BYTE, peer, TAG + 2, inter, &req));
            CHK(MPI_Recv(in.p, (int) size, MPI_BYTE, peer, TAG + 2, inter, MPI_STATUS_IGNORE));
            CHK(MPI_Wait(&req, MPI_STATUS_IGNORE));
            chk_received(&theirs, in.p, size, size);
            chk_buf_free(&out);
            chk_buf_free(&in);
        }
        CHK(MPI_Intercomm_merge(inter, high, &merged));
        CHK(MPI_Comm_size(merged, &np));
        if (np != chk_np) {
            chk_fail("merged communicator has %d ranks, expected %d", np, chk_np);
        }
        ring(merged, draw(5000, (uint64_t) round));
        CHK(MPI_Comm_free(&merged));
        CHK(MPI_Comm_free(&inter));
        CHK(MPI_Comm_free(&half));
        seq++;
    }
    chk_result("%d intercommunicators made, used and merged", rounds);
}

int main(int argc, char **argv)
{
    chk_init(argc, argv, MPI_THREAD_SINGLE);
    const int rounds = (int) chk_opt_u64("rounds", chk_long ? 500 : 20);
    if (chk_np < 2) {
        chk_skip_all("needs two ranks");
    }
    const size_t before = chk_rss_kib();
    test_dup(rounds);
    test_waiting(rounds);
    test_split(5 * rounds);
    test_groups(5 * rounds);
    test_inter(rounds);
    chk_diag("resident set on rank 0: %zu KiB before, %zu KiB after", before, chk_rss_kib());
    return chk_done();
}

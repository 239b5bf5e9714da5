/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * More messages than any ring, list or segment holds: many senders to one receiver, receivers that
 * come late, windows both ways, and tiny messages among large ones. Nothing may hang, get lost,
 * come twice or overtake within its source and tag. The many-to-one part with 80 KiB messages is
 * the case where control packets that find no fragment make a job hang (facts.md B24).
 *
 * Options: --count=N messages per sender and section, --size=SIZE of the many-to-one part.
 */
#include "mpi_check.h"

#define TAG_MANY   31
#define TAG_LATE   40
#define TAG_WINDOW 60
#define TAG_MIX    70
#define TAGS       4

static size_t count;

/* Sizes that a sequence number alone decides, so that a receiver knows what must come next. */
static size_t size_of(int src, int tag, uint64_t seq, size_t max)
{
    chk_rng_t rng = chk_rng(77 + (uint64_t) src, (uint64_t) tag, seq);
    return chk_rand_size(&rng, max);
}

/* Receive from anyone; the order within each source is checked by the pattern's number. */
static void many_to_one(size_t size, int root, bool wildcard)
{
    const size_t window = 8;
    if (chk_rank == root) {
        const size_t total = count * (size_t) (chk_np - 1);
        uint64_t *next = calloc((size_t) chk_np, sizeof(*next));
        chk_buf_t buf = chk_buf_new(size);
        for (size_t i = 0; i < total; i++) {
            MPI_Status st;
            const int from = wildcard ? MPI_ANY_SOURCE
                                      : (root + 1 + (int) (i % (size_t) (chk_np - 1))) % chk_np;
            if (i < 512 || 0 == i % 16) {
                chk_arm(buf.p, size);
            }
            CHK(MPI_Recv(buf.p, (int) size, MPI_BYTE, from, TAG_MANY, MPI_COMM_WORLD, &st));
            const chk_msg_t m = {st.MPI_SOURCE, TAG_MANY, next[st.MPI_SOURCE]++, size};
            chk_verify(&m, 0, buf.p, size);
            chk_guards(&m, buf.p, size);
            chk_status(&m, &st, size);
        }
        chk_buf_free(&buf);
        free(next);
    } else {
        chk_buf_t buf = chk_buf_new(window * (size + 64));
        MPI_Request req[8];
        for (size_t i = 0; i < window; i++) {
            req[i] = MPI_REQUEST_NULL;
        }
        for (size_t i = 0; i < count; i++) {
            const size_t slot = i % window;
            const chk_msg_t m = {chk_rank, TAG_MANY, i, size};
            unsigned char *p = buf.p + slot * (size + 64);
            CHK(MPI_Wait(&req[slot], MPI_STATUS_IGNORE));
            chk_fill(&m, 0, p, size);
            CHK(MPI_Isend(p, (int) size, MPI_BYTE, root, TAG_MANY, MPI_COMM_WORLD, &req[slot]));
        }
        CHK(MPI_Waitall((int) window, req, MPI_STATUSES_IGNORE));
        chk_buf_free(&buf);
    }
}

/* Everything is sent before anything is received; tags are then taken in the reverse order. */
static void late_receiver(size_t max)
{
    const size_t per_tag = count / TAGS / 4 + 8;
    const int right = (chk_rank + 1) % chk_np;
    const int left = (chk_rank + chk_np - 1) % chk_np;
    const size_t n = per_tag * TAGS;
    chk_buf_t *out = calloc(n, sizeof(*out));
    MPI_Request *req = calloc(n, sizeof(*req));
    for (size_t i = 0; i < n; i++) {
        const int tag = TAG_LATE + (int) (i % TAGS);
        const uint64_t seq = i / TAGS;
        const size_t size = size_of(chk_rank, tag, seq, max);
        const chk_msg_t m = {chk_rank, tag, seq, size};
        out[i] = chk_buf_new(size);
        chk_fill(&m, 0, out[i].p, size);
        CHK(MPI_Isend(out[i].p, (int) size, MPI_BYTE, right, tag, MPI_COMM_WORLD, &req[i]));
    }
    CHK(MPI_Barrier(MPI_COMM_WORLD));
    chk_sleep_ms(20);
    chk_buf_t in = chk_buf_new(max);
    for (int t = TAGS - 1; t >= 0; t--) {
        for (uint64_t seq = 0; seq < per_tag; seq++) {
            const size_t size = size_of(left, TAG_LATE + t, seq, max);
            const chk_msg_t m = {left, TAG_LATE + t, seq, size};
            MPI_Status st;
            chk_arm(in.p, size);
            /* room for more than must come: a wrong order shows as a wrong count or pattern */
            CHK(MPI_Recv(in.p, (int) max, MPI_BYTE, left, TAG_LATE + t, MPI_COMM_WORLD, &st));
            chk_status(&m, &st, size);
            chk_received(&m, in.p, size, size);
        }
    }
    CHK(MPI_Waitall((int) n, req, MPI_STATUSES_IGNORE));
    for (size_t i = 0; i < n; i++) {
        chk_buf_free(&out[i]);
    }
    chk_buf_free(&in);
    free(out);
    free(req);
}

/* Windows from everyone to everyone at once. */
static void all_to_all_windows(size_t size, size_t window, int rounds)
{
    const size_t peers = (size_t) chk_np - 1;
    const size_t n = peers * window;
    const size_t slot = size + 2 * CHK_GUARD;
    chk_buf_t out = chk_buf_new(n * slot);
    chk_buf_t in = chk_buf_new(n * slot);
    MPI_Request *req = calloc(2 * n, sizeof(*req));
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < n; i++) {
            const int peer = (chk_rank + 1 + (int) (i % peers)) % chk_np;
            const uint64_t seq = (uint64_t) round * window + i / peers;
            const chk_msg_t m = {chk_rank, TAG_WINDOW, seq, size};
            unsigned char *p = out.p + i * slot + CHK_GUARD;
            unsigned char *q = in.p + i * slot + CHK_GUARD;
            chk_arm(q, size);
            CHK(MPI_Irecv(q, (int) size, MPI_BYTE, peer, TAG_WINDOW, MPI_COMM_WORLD, &req[i]));
            chk_fill(&m, 0, p, size);
            CHK(MPI_Isend(p, (int) size, MPI_BYTE, peer, TAG_WINDOW, MPI_COMM_WORLD, &req[n + i]));
        }
        CHK(MPI_Waitall((int) (2 * n), req, MPI_STATUSES_IGNORE));
        for (size_t i = 0; i < n; i++) {
            const int peer = (chk_rank + 1 + (int) (i % peers)) % chk_np;
            const uint64_t seq = (uint64_t) round * window + i / peers;
            const chk_msg_t m = {peer, TAG_WINDOW, seq, size};
            chk_received(&m, in.p + i * slot + CHK_GUARD, size, size);
        }
    }
    free(req);
    chk_buf_free(&out);
    chk_buf_free(&in);
}

/*
 * Large transfers in flight in both directions while 8-byte messages, synchronous ones among them,
 * pass between the same ranks: the small ones must neither starve nor overtake within their tag.
 */
static void small_among_large(size_t large, size_t nlarge)
{
    const int right = (chk_rank + 1) % chk_np;
    const int left = (chk_rank + chk_np - 1) % chk_np;
    chk_buf_t out = chk_buf_new(nlarge * (large + 64));
    chk_buf_t in = chk_buf_new(nlarge * (large + 64));
    MPI_Request *req = calloc(2 * nlarge, sizeof(*req));
    for (size_t i = 0; i < nlarge; i++) {
        const chk_msg_t m = {chk_rank, TAG_MIX, i, large};
        chk_fill(&m, 0, out.p + i * (large + 64), large);
        CHK(MPI_Irecv(in.p + i * (large + 64), (int) large, MPI_BYTE, left, TAG_MIX, MPI_COMM_WORLD,
                      &req[i]));
    }
    CHK(MPI_Barrier(MPI_COMM_WORLD));
    for (size_t i = 0; i < nlarge; i++) {
        CHK(MPI_Isend(out.p + i * (large + 64), (int) large, MPI_BYTE, right, TAG_MIX,
                      MPI_COMM_WORLD, &req[nlarge + i]));
    }
    for (uint64_t seq = 0; seq < count; seq++) {
        const chk_msg_t mine = {chk_rank, TAG_MIX + 1, seq, 8};
        const chk_msg_t theirs = {left, TAG_MIX + 1, seq, 8};
        unsigned char s[8];
        unsigned char r[8];
        MPI_Request small[2];
        chk_fill(&mine, 0, s, 8);
        CHK(MPI_Irecv(r, 8, MPI_BYTE, left, TAG_MIX + 1, MPI_COMM_WORLD, &small[0]));
        if (0 == seq % 3) {
            CHK(MPI_Issend(s, 8, MPI_BYTE, right, TAG_MIX + 1, MPI_COMM_WORLD, &small[1]));
        } else {
            CHK(MPI_Isend(s, 8, MPI_BYTE, right, TAG_MIX + 1, MPI_COMM_WORLD, &small[1]));
        }
        CHK(MPI_Waitall(2, small, MPI_STATUSES_IGNORE));
        chk_verify(&theirs, 0, r, 8);
    }
    CHK(MPI_Waitall((int) (2 * nlarge), req, MPI_STATUSES_IGNORE));
    for (size_t i = 0; i < nlarge; i++) {
        const chk_msg_t m = {left, TAG_MIX, i, large};
        chk_verify(&m, 0, in.p + i * (large + 64), large);
    }
    free(req);
    chk_buf_free(&out);
    chk_buf_free(&in);
}

int main(int argc, char **argv)
{
    static const size_t windows[] = {0, 8, 200, 1024, 3900, 4096, 16384, 40000, 81920};
    chk_init(argc, argv, MPI_THREAD_SINGLE);
    const size_t size = chk_opt_u64("size", 81920);
    count = chk_opt_u64("count", chk_long ? 5000 : 400);

    chk_phase("many to one, %zu bytes", size);
    many_to_one(size, 0, true);
    chk_result("%d senders to one receiver, %zu messages of %zu bytes each, ANY_SOURCE", chk_np - 1,
               count, size);
    many_to_one(size, chk_np - 1, false);
    chk_result("the same to the last rank, sources in turn");
    for (size_t s = 8; s <= 32768; s *= 16) {
        chk_phase("many to one, %zu bytes", s);
        many_to_one(s, 0, true);
        chk_result("many to one with %zu bytes keeps the order of each source", s);
    }
    chk_phase("late receiver, small");
    late_receiver(3000);
    chk_result("unexpected small messages wait and keep their order per tag");
    chk_phase("late receiver, mixed");
    late_receiver(150000);
    chk_result("unexpected messages of all sizes wait and keep their order per tag");
    for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
        chk_phase("window flood, %zu bytes", windows[i]);
        all_to_all_windows(windows[i], 64, chk_long ? 50 : 4);
        chk_result("windows of 64 messages of %zu bytes between all pairs", windows[i]);
    }
    chk_phase("small among large");
    small_among_large(8u << 20, 2);
    chk_result("8 byte and synchronous messages pass beside 8 MiB transfers both ways");
    small_among_large(81920, 40);
    chk_result("8 byte and synchronous messages pass beside many 80 KiB ones");
    return chk_done();
}

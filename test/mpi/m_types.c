/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * Derived datatypes on either side, both sides or none, against layouts that this program knows by
 * itself: each byte of the stream must land where the layout says, each gap must stay untouched.
 * Block counts lie around 1024, the most elements one vectored system call takes.
 *
 * Options: --max=SIZE largest message.
 */
#include "mpi_check.h"

#define TAG 23

static int right;
static int left;
static uint64_t seq;

static unsigned char *area(chk_buf_t *buf, size_t off)
{
    return buf->p + off;
}

typedef enum { EXPECTED, UNEXPECTED, BLOCKING, SYNCHRONOUS, MODES } how_t;

/* Send with one layout, receive with another of the same or a larger number of bytes. */
static void exchange(const chk_layout_t *sl, const chk_layout_t *rl, how_t how)
{
    const chk_msg_t mine = {.src = chk_rank, .tag = TAG, .seq = seq, .size = sl->total};
    const chk_msg_t theirs = {.src = left, .tag = TAG, .seq = seq, .size = sl->total};
    chk_buf_t s = chk_buf_new(chk_layout_span(sl) + 64);
    chk_buf_t r = chk_buf_new(chk_layout_span(rl) + 64);
    unsigned char *sp = area(&s, seq % 9);
    unsigned char *rp = area(&r, seq % 5);
    MPI_Request req[2];
    MPI_Status st[2];

    chk_phase("send %s, receive %s, way %d", sl->name, rl->name, (int) how);
    chk_arm(sp, chk_layout_span(sl));
    chk_arm(rp, chk_layout_span(rl));
    chk_layout_fill(sl, sp, &mine);
    void *sbase = chk_layout_base(sl, sp);
    void *rbase = chk_layout_base(rl, rp);
    switch (how) {
    case EXPECTED:
        CHK(MPI_Irecv(rbase, rl->count, rl->type, left, TAG, MPI_COMM_WORLD, &req[0]));
        CHK(MPI_Barrier(MPI_COMM_WORLD));
        CHK(MPI_Isend(sbase, sl->count, sl->type, right, TAG, MPI_COMM_WORLD, &req[1]));
        break;
    case UNEXPECTED:
        CHK(MPI_Isend(sbase, sl->count, sl->type, right, TAG, MPI_COMM_WORLD, &req[1]));
        CHK(MPI_Barrier(MPI_COMM_WORLD));
        CHK(MPI_Irecv(rbase, rl->count, rl->type, left, TAG, MPI_COMM_WORLD, &req[0]));
        break;
    case SYNCHRONOUS:
        CHK(MPI_Issend(sbase, sl->count, sl->type, right, TAG, MPI_COMM_WORLD, &req[1]));
        CHK(MPI_Irecv(rbase, rl->count, rl->type, left, TAG, MPI_COMM_WORLD, &req[0]));
        break;
    default:
        CHK(MPI_Irecv(rbase, rl->count, rl->type, left, TAG, MPI_COMM_WORLD, &req[0]));
        CHK(MPI_Send(sbase, sl->count, sl->type, right, TAG, MPI_COMM_WORLD));
        req[1] = MPI_REQUEST_NULL;
        break;
    }
    CHK(MPI_Waitall(2, req, st));
    chk_layout_verify(rl, rp, &theirs, sl->total);
    chk_status(&theirs, &st[0], sl->total);
    chk_layout_verify(sl, sp, &mine, sl->total);
    seq++;
    chk_buf_free(&s);
    chk_buf_free(&r);
}

/* The layout against itself and against plain bytes in both directions, in every way. */
static void all_pairs(chk_layout_t *l)
{
    chk_layout_t plain = chk_layout_bytes(l->total);
    /* every way at level long; else one way for each pair, another one each time */
    const int ways = chk_long ? MODES : 1;
    for (int k = 0; k < ways; k++) {
        exchange(l, l, (how_t) ((seq + (uint64_t) k) % MODES));
        exchange(l, &plain, (how_t) ((seq + (uint64_t) k + 1) % MODES));
        exchange(&plain, l, (how_t) ((seq + (uint64_t) k + 2) % MODES));
    }
    chk_layout_free(&plain);
}

static void once(chk_layout_t l)
{
    all_pairs(&l);
    chk_layout_free(&l);
}

static void test_vectors(const size_t *sizes, size_t n)
{
    static const size_t blocks[] = {1, 3, 8, 64, 1000, 4096};
    for (size_t i = 0; i < n; i++) {
        const size_t b = blocks[i % 6];
        /* a block of one byte costs the convertor one step per byte: keep those short */
        if (sizes[i] / b < 100000) {
            once(chk_layout_vector(sizes[i], b, b + 1 + i % 13));
        }
    }
    chk_result("vectors of %zu sizes, either side or both, keep bytes and gaps", n);
}

static void test_indexed(size_t max)
{
    static const size_t counts[] = {1, 2, 1023, 1024, 1025, 2048, 2049, 5000};
    chk_rng_t rng = chk_rng(2, 0, 0);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for (size_t bytes = 1; bytes <= 200; bytes *= 14) {
            if (counts[i] * bytes <= max) {
                once(chk_layout_indexed(&rng, counts[i] * bytes, counts[i], false));
                once(chk_layout_indexed(&rng, counts[i] * bytes, counts[i], true));
            }
        }
        chk_result("indexed types of %zu blocks, in order and shuffled", counts[i]);
    }
}

static void test_records(size_t max)
{
    for (size_t count = 1; count * sizeof(double) * 4 < max; count = count * 3 + 1) {
        once(chk_layout_struct(count));
        once(chk_layout_resized(count, 5, 3));
        once(chk_layout_resized(count, 16, 48));
    }
    chk_result("structs with padding and resized types with a negative lower bound");
}

static void test_empty(void)
{
    MPI_Datatype empty;
    MPI_Status st;
    char guard[64];
    memset(guard, CHK_GUARD_BYTE, sizeof(guard));
    CHK(MPI_Type_contiguous(0, MPI_DOUBLE, &empty));
    CHK(MPI_Type_commit(&empty));
    chk_phase("empty types");
    for (int count = 0; count < 1000; count = 3 * count + 1) {
        const chk_msg_t m = {.src = left, .tag = TAG + 1};
        CHK(MPI_Sendrecv(guard, count, empty, right, TAG + 1, guard + 32, count, empty, left,
                         TAG + 1, MPI_COMM_WORLD, &st));
        chk_status(&m, &st, SIZE_MAX);
        int elements = -1;
        CHK(MPI_Get_elements(&st, MPI_DOUBLE, &elements));
        if (0 != elements) {
            chk_fail("empty type from peer %d: expected 0 elements got %d", left, elements);
        }
        CHK(MPI_Sendrecv(NULL, 0, MPI_BYTE, right, TAG + 1, NULL, 0, MPI_BYTE, left, TAG + 1,
                         MPI_COMM_WORLD, &st));
    }
    for (size_t i = 0; i < sizeof(guard); i++) {
        if (CHK_GUARD_BYTE != guard[i]) {
            chk_fail("empty type from peer %d wrote offset %zu: got 0x%02x", left, i, guard[i]);
        }
    }
    CHK(MPI_Type_free(&empty));
    chk_result("types of no bytes and NULL buffers of no elements");
}

/* Fewer bytes than the receiver's type names, ending inside a block: the rest stays as it was. */
static void test_partial(const size_t *sizes, size_t n)
{
    chk_rng_t rng = chk_rng(3, 0, 0);
    for (size_t i = 0; i < n; i++) {
        chk_layout_t small = chk_layout_bytes(sizes[i]);
        chk_layout_t big = chk_layout_vector(sizes[i] + 1 + chk_below(&rng, 100), 7, 11);
        exchange(&small, &big, (how_t) (i % MODES));
        chk_layout_free(&small);
        chk_layout_free(&big);
    }
    chk_result("messages shorter than the receiver's datatype leave the rest untouched");
}

static void test_random(size_t max, int rounds)
{
    for (int k = 0; k < rounds; k++) {
        /* both neighbours must agree on the size: drawn from a generator that all share */
        chk_rng_t shared = chk_rng(4, (uint64_t) k, 0);
        const size_t total = chk_rand_size(&shared, max);
        chk_rng_t own = chk_rng(5, (uint64_t) k, (uint64_t) chk_rank);
        chk_layout_t sl = chk_layout_random(&own, total);
        chk_layout_t rl = chk_layout_random(&own, total);
        exchange(&sl, &rl, (how_t) chk_below(&shared, MODES));
        chk_layout_free(&sl);
        chk_layout_free(&rl);
    }
    chk_result("%d random pairs of layouts", rounds);
}

int main(int argc, char **argv)
{
    chk_init(argc, argv, MPI_THREAD_SINGLE);
    const size_t max = chk_opt_u64("max", chk_long ? 4u << 20 : 300000);
    size_t n;
    const size_t *sizes = chk_sizes(max, &n);
    right = (chk_rank + 1) % chk_np;
    left = (chk_rank + chk_np - 1) % chk_np;
    test_vectors(sizes, n);
    test_indexed(max);
    test_records(max);
    test_empty();
    test_partial(sizes, n);
    test_random(max, chk_long ? 5000 : 200);
    return chk_done();
}

/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * put, get, accumulate, fop: rank 0 works on a window of rank 1 under a passive lock; one
 * iteration is one call and one flush, the time is that of both. The window lies in ordinary
 * memory (MPI_Win_create), because allocated windows bypass the transport under test.
 *
 * Rank 1 waits in a receive meanwhile and so makes progress, which emulated atomics need.
 *
 * Layer: MPI patterns, called by bench_mpi.c.
 */
#include <string.h>

#include "bench_mpi.h"

enum { TAG_DONE = 31 };

typedef enum { OP_PUT, OP_GET, OP_ACCUMULATE, OP_FETCH } op_t;

static double one(const bench_run_t *r)
{
    (void) r;
    return 1.0;
}

static void open_window(bench_run_t *r)
{
    size_t bytes = r->recv.bytes;
    MPI_Win_create(r->recv.base, (MPI_Aint) bytes, 1, MPI_INFO_NULL, r->comm, &r->win);
    MPI_Win_lock_all(0, r->win);
}

static void close_window(bench_run_t *r)
{
    MPI_Win_unlock_all(r->win);
    MPI_Win_free(&r->win);
}

static void one_call(bench_run_t *r, op_t op, char *local, MPI_Aint where, size_t size)
{
    long long add = 1;
    int count = (int) size;
    switch (op) {
    case OP_PUT:
        MPI_Put(local, count, MPI_BYTE, 1, where, count, MPI_BYTE, r->win);
        break;
    case OP_GET:
        MPI_Get(local, count, MPI_BYTE, 1, where, count, MPI_BYTE, r->win);
        break;
    case OP_ACCUMULATE:
        MPI_Accumulate(local, count / 8, MPI_LONG_LONG, 1, where, count / 8, MPI_LONG_LONG, MPI_SUM,
                       r->win);
        break;
    case OP_FETCH:
        MPI_Fetch_and_op(&add, local, MPI_LONG_LONG, 1, where, MPI_SUM, r->win);
        break;
    }
    MPI_Win_flush(1, r->win);
}

static void wait_done(bench_run_t *r)
{
    if (0 == r->rank) {
        MPI_Send(NULL, 0, MPI_BYTE, 1, TAG_DONE, r->comm);
    } else if (1 == r->rank) {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG_DONE, r->comm, MPI_STATUS_IGNORE);
    }
}

static void iterate(bench_run_t *r, size_t size, long n, op_t op)
{
    if (0 == r->rank) {
        for (long i = 0; i < n; i++) {
            char *local = bench_buf_next(&r->send);
            MPI_Aint where = (MPI_Aint) (bench_buf_next(&r->recv) - r->recv.base);
            one_call(r, op, local, where, size);
        }
    }
    wait_done(r);
}

static bool verify(bench_run_t *r, size_t size, op_t op)
{
    bool wrong = false;
    char *target = r->recv.base;
    char *local = r->send.base;
    const uint64_t mine = (uint64_t) r->rank + 5;
    if (OP_FETCH == op || OP_ACCUMULATE == op) {
        memset(target, 0, size < 8 ? 8 : size);
        long long v = 3;
        for (size_t i = 0; i + 8 <= size; i += 8) {
            memcpy(local + i, &v, 8);
        }
    } else {
        bench_fill(target, size, mine);
        bench_fill(local, size, mine + 100);
    }
    MPI_Win_sync(r->win);
    MPI_Barrier(r->comm);
    if (0 == r->rank) {
        one_call(r, op, local, 0, size);
        if (OP_ACCUMULATE == op || OP_FETCH == op) {
            one_call(r, op, local, 0, size);
        }
        if (OP_GET == op) {
            wrong = SIZE_MAX != bench_check(local, size, 1 + 5);
        } else if (OP_FETCH == op) {
            long long before;
            memcpy(&before, local, 8);
            wrong = 1 != before;
        }
    }
    MPI_Barrier(r->comm);
    MPI_Win_sync(r->win);
    if (1 == r->rank) {
        if (OP_PUT == op) {
            wrong = SIZE_MAX != bench_check(target, size, 0 + 5 + 100);
        } else if (OP_ACCUMULATE == op || OP_FETCH == op) {
            long long expected = OP_FETCH == op ? 2 : 6;
            for (size_t i = 0; i + 8 <= size && !(OP_FETCH == op && 0 < i); i += 8) {
                wrong |= 0 != memcmp(target + i, &expected, 8);
            }
        }
    }
    return wrong;
}

#define ONESIDED_PATTERN(ID, WHAT, SIZES, OP, FACTOR)             \
    static void iterate_##ID(bench_run_t *r, size_t size, long n) \
    {                                                             \
        iterate(r, size, n, OP);                                  \
    }                                                             \
    static bool verify_##ID(bench_run_t *r, size_t size)          \
    {                                                             \
        return verify(r, size, OP);                               \
    }                                                             \
    const bench_pattern_t bench_pattern_##ID = {                  \
        .name = #ID,                                              \
        .what = WHAT,                                             \
        .sizes = SIZES,                                           \
        .np_min = 2,                                              \
        .timing = BENCH_TIME_ROOT,                                \
        .messages = one,                                          \
        .bytes_factor = FACTOR,                                   \
        .open = open_window,                                      \
        .close = close_window,                                    \
        .iterate = iterate_##ID,                                  \
        .verify = verify_##ID,                                    \
    }

ONESIDED_PATTERN(put, "MPI_Put and flush", "8-4M", OP_PUT, 1.0);
ONESIDED_PATTERN(get, "MPI_Get and flush", "8-4M", OP_GET, 1.0);
ONESIDED_PATTERN(accumulate, "MPI_Accumulate of 64-bit sums and flush", "8-256K", OP_ACCUMULATE,
                 1.0);
ONESIDED_PATTERN(fop, "MPI_Fetch_and_op of one 64-bit sum and flush", "8", OP_FETCH, 0.0);

/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The nine classic patterns with the conventions of the Intel MPI Benchmarks, so that a result
 * here and one of an IMB-MPI1 binary can stand in one table: PingPong counts half a round trip,
 * Sendrecv two and Exchange four messages per call for bandwidth, collectives give a time only;
 * sizes are bytes per rank (per pair for Alltoall, Gather, Scatter); Bcast, Gather and Scatter
 * move the root on with each call.
 *
 * Layer: MPI patterns, called by bench_mpi.c. Source of the conventions: the IMB user guide.
 */
#include <string.h>

#include "bench_mpi.h"

enum { TAG = 41 };

static double one(const bench_run_t *r)
{
    (void) r;
    return 1.0;
}

static double two(const bench_run_t *r)
{
    (void) r;
    return 2.0;
}

static size_t np_places(const bench_run_t *r)
{
    return (size_t) r->np;
}

static size_t two_places(const bench_run_t *r)
{
    (void) r;
    return 2;
}

/* Blocks for all ranks lie without gaps, as the collective calls want them. */
static char *block(bench_buf_t *b, size_t size, int i)
{
    return b->base + (size_t) i * size;
}

static uint64_t seed_of(int from, int to)
{
    return (uint64_t) from * 1000 + (uint64_t) to + 7;
}

/* ------------------------------------------------- between two ranks */

static void pingpong(bench_run_t *r, size_t size, long n)
{
    bench_pattern_lat.iterate(r, size, n);
}

static bool pingpong_verify(bench_run_t *r, size_t size)
{
    return bench_pattern_lat.verify(r, size);
}

static void pingping_once(bench_run_t *r, char *out, char *in, size_t size)
{
    MPI_Request q;
    int other = 1 - r->rank;
    MPI_Isend(out, (int) size, MPI_BYTE, other, TAG, r->comm, &q);
    MPI_Recv(in, (int) size, MPI_BYTE, other, TAG, r->comm, MPI_STATUS_IGNORE);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
}

static void pingping(bench_run_t *r, size_t size, long n)
{
    if (r->rank > 1) {
        return;
    }
    for (long i = 0; i < n; i++) {
        pingping_once(r, bench_buf_next(&r->send), bench_buf_next(&r->recv), size);
    }
}

static bool pingping_verify(bench_run_t *r, size_t size)
{
    if (r->rank > 1) {
        return false;
    }
    bench_fill(r->send.base, size, seed_of(r->rank, 1 - r->rank));
    bench_fill(r->recv.base, size, UINT64_MAX);
    pingping_once(r, r->send.base, r->recv.base, size);
    return SIZE_MAX != bench_check(r->recv.base, size, seed_of(1 - r->rank, r->rank));
}

/* ------------------------------------------------------ between neighbours */

static int left_of(const bench_run_t *r)
{
    return (r->rank + r->np - 1) % r->np;
}

static int right_of(const bench_run_t *r)
{
    return (r->rank + 1) % r->np;
}

static void sendrecv_once(bench_run_t *r, char *out, char *in, size_t size)
{
    MPI_Sendrecv(out, (int) size, MPI_BYTE, right_of(r), TAG, in, (int) size, MPI_BYTE, left_of(r),
                 TAG, r->comm, MPI_STATUS_IGNORE);
}

static void sendrecv(bench_run_t *r, size_t size, long n)
{
    for (long i = 0; i < n; i++) {
        sendrecv_once(r, bench_buf_next(&r->send), bench_buf_next(&r->recv), size);
    }
}

static bool sendrecv_verify(bench_run_t *r, size_t size)
{
    bench_fill(r->send.base, size, seed_of(r->rank, right_of(r)));
    bench_fill(r->recv.base, size, UINT64_MAX);
    sendrecv_once(r, r->send.base, r->recv.base, size);
    return SIZE_MAX != bench_check(r->recv.base, size, seed_of(left_of(r), r->rank));
}

static void exchange_once(bench_run_t *r, char *out, char *from_left, char *from_right, size_t size)
{
    MPI_Request q[2];
    /* Two tags, because with two ranks both neighbours are the same process. */
    MPI_Isend(out, (int) size, MPI_BYTE, right_of(r), TAG, r->comm, &q[0]);
    MPI_Isend(out, (int) size, MPI_BYTE, left_of(r), TAG + 1, r->comm, &q[1]);
    MPI_Recv(from_left, (int) size, MPI_BYTE, left_of(r), TAG, r->comm, MPI_STATUS_IGNORE);
    MPI_Recv(from_right, (int) size, MPI_BYTE, right_of(r), TAG + 1, r->comm, MPI_STATUS_IGNORE);
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
}

static void exchange(bench_run_t *r, size_t size, long n)
{
    for (long i = 0; i < n; i++) {
        char *from_left = bench_buf_next(&r->recv);
        char *from_right = 1 < r->recv.places ? bench_buf_next(&r->recv)
                                              : r->recv.base + r->recv.stride;
        exchange_once(r, bench_buf_next(&r->send), from_left, from_right, size);
    }
}

static bool exchange_verify(bench_run_t *r, size_t size)
{
    char *from_left = r->recv.base;
    char *from_right = r->recv.base + r->recv.stride;
    bench_fill(r->send.base, size, seed_of(r->rank, 0));
    bench_fill(from_left, size, UINT64_MAX);
    bench_fill(from_right, size, UINT64_MAX);
    exchange_once(r, r->send.base, from_left, from_right, size);
    return SIZE_MAX != bench_check(from_left, size, seed_of(left_of(r), 0))
           || SIZE_MAX != bench_check(from_right, size, seed_of(right_of(r), 0));
}

/* ------------------------------------------------------------- collectives */

static void allreduce(bench_run_t *r, size_t size, long n)
{
    for (long i = 0; i < n; i++) {
        MPI_Allreduce(bench_buf_next(&r->send), bench_buf_next(&r->recv), (int) (size / 4),
                      MPI_FLOAT, MPI_SUM, r->comm);
    }
}

static bool allreduce_verify(bench_run_t *r, size_t size)
{
    size_t n = size / 4;
    float *out = (float *) r->send.base;
    float *in = (float *) r->recv.base;
    /* Small whole numbers: the sum is exact in any order. */
    for (size_t i = 0; i < n; i++) {
        out[i] = (float) (r->rank + 1 + (int) (i % 13));
        in[i] = -1.0f;
    }
    MPI_Allreduce(out, in, (int) n, MPI_FLOAT, MPI_SUM, r->comm);
    bool wrong = false;
    for (size_t i = 0; i < n; i++) {
        float expected = (float) (r->np * (r->np + 1) / 2 + r->np * (int) (i % 13));
        wrong |= expected != in[i];
    }
    memset(out, 0, size); /* so that repeated sums stay finite while timed */
    return wrong;
}

static void alltoall(bench_run_t *r, size_t size, long n)
{
    for (long i = 0; i < n; i++) {
        MPI_Alltoall(r->send.base, (int) size, MPI_BYTE, r->recv.base, (int) size, MPI_BYTE,
                     r->comm);
    }
}

static bool alltoall_verify(bench_run_t *r, size_t size)
{
    bool wrong = false;
    for (int i = 0; i < r->np; i++) {
        bench_fill(block(&r->send, size, i), size, seed_of(r->rank, i));
        bench_fill(block(&r->recv, size, i), size, UINT64_MAX);
    }
    alltoall(r, size, 1);
    for (int i = 0; i < r->np; i++) {
        wrong |= SIZE_MAX != bench_check(block(&r->recv, size, i), size, seed_of(i, r->rank));
    }
    return wrong;
}

static void bcast(bench_run_t *r, size_t size, long n)
{
    for (long i = 0; i < n; i++) {
        MPI_Bcast(bench_buf_next(&r->send), (int) size, MPI_BYTE, (int) (i % r->np), r->comm);
    }
}

static bool bcast_verify(bench_run_t *r, size_t size)
{
    bool wrong = false;
    for (int root = 0; root < r->np; root++) {
        bench_fill(r->send.base, size, root == r->rank ? seed_of(root, 0) : UINT64_MAX);
        MPI_Bcast(r->send.base, (int) size, MPI_BYTE, root, r->comm);
        wrong |= SIZE_MAX != bench_check(r->send.base, size, seed_of(root, 0));
    }
    return wrong;
}

static void gather(bench_run_t *r, size_t size, long n)
{
    for (long i = 0; i < n; i++) {
        MPI_Gather(bench_buf_next(&r->send), (int) size, MPI_BYTE, r->recv.base, (int) size,
                   MPI_BYTE, (int) (i % r->np), r->comm);
    }
}

static bool gather_verify(bench_run_t *r, size_t size)
{
    bool wrong = false;
    for (int root = 0; root < r->np; root++) {
        bench_fill(r->send.base, size, seed_of(r->rank, root));
        MPI_Gather(r->send.base, (int) size, MPI_BYTE, r->recv.base, (int) size, MPI_BYTE, root,
                   r->comm);
        for (int i = 0; root == r->rank && i < r->np; i++) {
            wrong |= SIZE_MAX != bench_check(block(&r->recv, size, i), size, seed_of(i, root));
        }
    }
    return wrong;
}

static void scatter(bench_run_t *r, size_t size, long n)
{
    for (long i = 0; i < n; i++) {
        MPI_Scatter(r->send.base, (int) size, MPI_BYTE, bench_buf_next(&r->recv), (int) size,
                    MPI_BYTE, (int) (i % r->np), r->comm);
    }
}

static bool scatter_verify(bench_run_t *r, size_t size)
{
    bool wrong = false;
    for (int root = 0; root < r->np; root++) {
        for (int i = 0; i < r->np; i++) {
            bench_fill(block(&r->send, size, i), size, seed_of(r->rank, i));
        }
        bench_fill(r->recv.base, size, UINT64_MAX);
        MPI_Scatter(r->send.base, (int) size, MPI_BYTE, r->recv.base, (int) size, MPI_BYTE, root,
                    r->comm);
        wrong |= SIZE_MAX != bench_check(r->recv.base, size, seed_of(root, r->rank));
    }
    return wrong;
}

#define IMB_PATTERN(ID, WHAT, SIZES, MESSAGES, FACTOR, SEND_PLACES, RECV_PLACES) \
    const bench_pattern_t bench_pattern_##ID = {                                 \
        .name = #ID,                                                             \
        .what = WHAT,                                                            \
        .sizes = SIZES,                                                          \
        .np_min = 2,                                                             \
        .timing = BENCH_TIME_ALL,                                                \
        .send_places = SEND_PLACES,                                              \
        .recv_places = RECV_PLACES,                                              \
        .messages = MESSAGES,                                                    \
        .bytes_factor = FACTOR,                                                  \
        .iterate = ID,                                                           \
        .verify = ID##_verify,                                                   \
    }

IMB_PATTERN(pingpong, "IMB-like PingPong", "0-4M", two, 1.0, NULL, NULL);
IMB_PATTERN(pingping, "IMB-like PingPing", "0-4M", one, 1.0, NULL, NULL);
IMB_PATTERN(sendrecv, "IMB-like Sendrecv", "0-4M", one, 2.0, NULL, NULL);
IMB_PATTERN(exchange, "IMB-like Exchange", "0-4M", one, 4.0, NULL, two_places);
IMB_PATTERN(allreduce, "IMB-like Allreduce of floats", "4-4M", one, 0.0, NULL, NULL);
IMB_PATTERN(alltoall, "IMB-like Alltoall", "1-4M", one, 0.0, np_places, np_places);
IMB_PATTERN(bcast, "IMB-like Bcast", "1-4M", one, 0.0, NULL, NULL);
IMB_PATTERN(gather, "IMB-like Gather", "1-4M", one, 0.0, NULL, np_places);
IMB_PATTERN(scatter, "IMB-like Scatter", "1-4M", one, 0.0, np_places, NULL);

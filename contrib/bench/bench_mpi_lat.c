/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * lat: ping-pong of ranks 0 and 1 with blocking calls. The time is one way, half a round trip.
 * Layer: MPI pattern, called by bench_mpi.c. Further ranks stay in the closing barrier.
 */
#include "bench_mpi.h"

enum { TAG = 11 };

static double messages(const bench_run_t *r)
{
    (void) r;
    return 2.0;
}

static void iterate(bench_run_t *r, size_t size, long n)
{
    int count = (int) size;
    if (0 == r->rank) {
        for (long i = 0; i < n; i++) {
            MPI_Send(bench_buf_next(&r->send), count, MPI_BYTE, 1, TAG, r->comm);
            MPI_Recv(bench_buf_next(&r->recv), count, MPI_BYTE, 1, TAG, r->comm, MPI_STATUS_IGNORE);
        }
    } else if (1 == r->rank) {
        for (long i = 0; i < n; i++) {
            MPI_Recv(bench_buf_next(&r->recv), count, MPI_BYTE, 0, TAG, r->comm, MPI_STATUS_IGNORE);
            MPI_Send(bench_buf_next(&r->send), count, MPI_BYTE, 0, TAG, r->comm);
        }
    }
}

static bool verify(bench_run_t *r, size_t size)
{
    if (r->rank > 1) {
        return false;
    }
    /* Every place twice would be too long for large ones; a few turns visit what matters. */
    size_t turns = r->send.places < 3 ? r->send.places : 3;
    bool wrong = false;
    for (size_t i = 0; i < turns; i++) {
        char *out = bench_buf_next(&r->send);
        char *in = bench_buf_next(&r->recv);
        bench_fill(out, size, (uint64_t) r->rank + 2 * i + size);
        bench_fill(in, size, UINT64_MAX);
        if (0 == r->rank) {
            MPI_Send(out, (int) size, MPI_BYTE, 1, TAG, r->comm);
            MPI_Recv(in, (int) size, MPI_BYTE, 1, TAG, r->comm, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, (int) size, MPI_BYTE, 0, TAG, r->comm, MPI_STATUS_IGNORE);
            MPI_Send(out, (int) size, MPI_BYTE, 0, TAG, r->comm);
        }
        wrong |= SIZE_MAX != bench_check(in, size, (uint64_t) (1 - r->rank) + 2 * i + size);
    }
    return wrong;
}

const bench_pattern_t bench_pattern_lat = {
    .name = "lat",
    .what = "ping-pong of two ranks, one-way time",
    .sizes = "0-64M",
    .np_min = 2,
    .timing = BENCH_TIME_ROOT,
    .messages = messages,
    .bytes_factor = 1.0,
    .iterate = iterate,
    .verify = verify,
};

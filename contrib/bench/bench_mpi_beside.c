/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * beside: ping-pong of ranks 0 and 1 while a transfer of 64 MiB from 0 to 1 is under way on another
 * communicator; whenever one has ended the next begins. What counts is the tail: a transport that
 * copies a large message in one go makes the small ones wait for all of it.
 *
 * An iteration after a quick one also looks after the large transfer (MPI_Test on either side, or the
 * start of the next one), which is part of the time.
 *
 * Layer: MPI pattern, called by bench_mpi.c. Further ranks stay in the closing barrier.
 */
#include "bench_mpi.h"

enum { TAG_BESIDE = 41, TAG_BULK = 42 };

#define BULK_BYTES ((size_t) 64 << 20)

/** A round trip below this shows that no large transfer is under way. */
#define QUIET_NS 8000u

/** The large transfer of this rank. */
static struct {
    MPI_Comm comm;
    MPI_Request req;
    bench_buf_t buf;
    long started;
    uint64_t trip_ns; /**< the last round trip */
} bulk = {.comm = MPI_COMM_NULL, .req = MPI_REQUEST_NULL};

static double messages(const bench_run_t *r)
{
    (void) r;
    return 2.0;
}

static void start_bulk(int rank)
{
    char *bytes = bench_buf_next(&bulk.buf);
    if (0 == rank) {
        MPI_Isend(bytes, (int) BULK_BYTES, MPI_BYTE, 1, TAG_BULK, bulk.comm, &bulk.req);
    } else {
        MPI_Irecv(bytes, (int) BULK_BYTES, MPI_BYTE, 0, TAG_BULK, bulk.comm, &bulk.req);
    }
    bulk.started++;
}

/* Only where the last round trip was short, as it is when nothing large is under way: MPI_Test would go
 * on with the copy, and its time would count as the small message's. */
static void look_after_bulk(int rank)
{
    int done = 1;
    if (bulk.trip_ns > QUIET_NS) {
        return;
    }
    if (MPI_REQUEST_NULL != bulk.req) {
        MPI_Test(&bulk.req, &done, MPI_STATUS_IGNORE);
    }
    if (done) {
        start_bulk(rank);
    }
}

static void open_bulk(bench_run_t *r)
{
    MPI_Comm_dup(r->comm, &bulk.comm);
    bulk.started = 0;
    bulk.trip_ns = 0;
    if (r->rank > 1) {
        return;
    }
    int rc = bench_buf_open(&bulk.buf, BULK_BYTES + 4096, r->opt->huge);
    if (0 != rc) {
        bench_die("no memory for a transfer of %zu bytes: error %d", BULK_BYTES, rc);
    }
    bench_buf_shape(&bulk.buf, BULK_BYTES, false);
}

/* End all transfers on both ranks; one of them may have begun one more than the other. */
static void drain_bulk(bench_run_t *r)
{
    long theirs = 0;
    MPI_Sendrecv(&bulk.started, 1, MPI_LONG, 1 - r->rank, TAG_BESIDE, &theirs, 1, MPI_LONG,
                 1 - r->rank, TAG_BESIDE, r->comm, MPI_STATUS_IGNORE);
    MPI_Wait(&bulk.req, MPI_STATUS_IGNORE);
    if (bulk.started < theirs) {
        start_bulk(r->rank);
        MPI_Wait(&bulk.req, MPI_STATUS_IGNORE);
    }
}

static void close_bulk(bench_run_t *r)
{
    if (r->rank < 2) {
        drain_bulk(r);
        bench_buf_close(&bulk.buf);
    }
    MPI_Comm_free(&bulk.comm);
}

static void iterate(bench_run_t *r, size_t size, long n)
{
    int count = (int) size;
    if (r->rank > 1) {
        return;
    }
    for (long i = 0; i < n; i++) {
        uint64_t start = bench_now_ns();
        look_after_bulk(r->rank);
        if (0 == r->rank) {
            MPI_Send(bench_buf_next(&r->send), count, MPI_BYTE, 1, TAG_BESIDE, r->comm);
            MPI_Recv(bench_buf_next(&r->recv), count, MPI_BYTE, 1, TAG_BESIDE, r->comm,
                     MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(bench_buf_next(&r->recv), count, MPI_BYTE, 0, TAG_BESIDE, r->comm,
                     MPI_STATUS_IGNORE);
            MPI_Send(bench_buf_next(&r->send), count, MPI_BYTE, 0, TAG_BESIDE, r->comm);
        }
        bulk.trip_ns = bench_now_ns() - start;
    }
}

/* The small message while one large one is under way, and then both. */
static bool verify(bench_run_t *r, size_t size)
{
    if (r->rank > 1) {
        return false;
    }
    drain_bulk(r);
    char *bytes = bench_buf_next(&bulk.buf);
    bench_fill(bytes, BULK_BYTES, 0 == r->rank ? size + 1 : UINT64_MAX);
    start_bulk(r->rank);
    bool wrong = bench_pattern_lat.verify(r, size);
    drain_bulk(r);
    return wrong || SIZE_MAX != bench_check(bytes, BULK_BYTES, size + 1);
}

const bench_pattern_t bench_pattern_beside = {
    .name = "beside",
    .what = "ping-pong of two ranks beside transfers of 64 MiB between them, one-way time",
    .sizes = "8",
    .np_min = 2,
    .timing = BENCH_TIME_ROOT,
    .iterations = 400, /* times vary with what the large transfer does: no time per iteration */
    .messages = messages,
    .open = open_bulk,
    .close = close_bulk,
    .iterate = iterate,
    .verify = verify,
};

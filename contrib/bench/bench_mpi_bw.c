/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * bw, bibw, rate, manyto1, 1tomany: windows of non-blocking messages, each window closed by one
 * empty acknowledgement. The time is per message: window time / number of messages.
 *
 * The five patterns are one engine: a set of flows from senders to receivers. bw has one flow
 * (0 to 1), bibw two (0 to 1 and 1 to 0), rate one for each pair (i to i + np/2), manyto1 np - 1
 * that end at rank 0, 1tomany np - 1 that start there.
 *
 * Layer: MPI patterns, called by bench_mpi.c.
 */
#include "bench_mpi.h"

enum { TAG_DATA = 21, TAG_ACK = 22 };

typedef enum { FLOW_ONE, FLOW_BOTH, FLOW_PAIRS, FLOW_TO_ROOT, FLOW_FROM_ROOT } flows_t;

/* Peers that this rank sends to and receives from: first, first + 1 ... first + count - 1. */
typedef struct {
    int to_first;
    int to_count;
    int from_first;
    int from_count;
} role_t;

static role_t role_of(const bench_run_t *r, flows_t flows)
{
    role_t role = {0};
    int half = r->np / 2;
    switch (flows) {
    case FLOW_ONE:
        role = (role_t) {.to_first = 1, .to_count = 0 == r->rank, .from_count = 1 == r->rank};
        break;
    case FLOW_BOTH:
        if (r->rank < 2) {
            role = (role_t) {1 - r->rank, 1, 1 - r->rank, 1};
        }
        break;
    case FLOW_PAIRS:
        if (r->rank < half) {
            role = (role_t) {.to_first = r->rank + half, .to_count = 1};
        } else if (r->rank < 2 * half) {
            role = (role_t) {.from_first = r->rank - half, .from_count = 1};
        }
        break;
    case FLOW_TO_ROOT:
        if (0 == r->rank) {
            role = (role_t) {.from_first = 1, .from_count = r->np - 1};
        } else {
            role = (role_t) {.to_count = 1};
        }
        break;
    case FLOW_FROM_ROOT:
        if (0 == r->rank) {
            role = (role_t) {.to_first = 1, .to_count = r->np - 1};
        } else {
            role = (role_t) {.from_count = 1};
        }
        break;
    }
    return role;
}

/* Place of message w from the k-th peer: MPI forbids two receives into one place at a time. */
static char *recv_place(const bench_run_t *r, int k, int w)
{
    return r->recv.base + ((size_t) k * (size_t) r->window + (size_t) w) * r->recv.stride;
}

static void window_once(bench_run_t *r, const role_t *role, size_t size)
{
    const int window = r->window;
    const int count = (int) size;
    int n = 0;
    for (int k = 0; k < role->from_count; k++) {
        for (int w = 0; w < window; w++) {
            MPI_Irecv(recv_place(r, k, w), count, MPI_BYTE, role->from_first + k, TAG_DATA, r->comm,
                      &r->req[n++]);
        }
    }
    for (int w = 0; w < window; w++) {
        for (int k = 0; k < role->to_count; k++) {
            MPI_Isend(bench_buf_next(&r->send), count, MPI_BYTE, role->to_first + k, TAG_DATA,
                      r->comm, &r->req[n++]);
        }
    }
    MPI_Waitall(n, r->req, MPI_STATUSES_IGNORE);
    n = 0;
    for (int k = 0; k < role->to_count; k++) {
        MPI_Irecv(NULL, 0, MPI_BYTE, role->to_first + k, TAG_ACK, r->comm, &r->req[n++]);
    }
    for (int k = 0; k < role->from_count; k++) {
        MPI_Isend(NULL, 0, MPI_BYTE, role->from_first + k, TAG_ACK, r->comm, &r->req[n++]);
    }
    MPI_Waitall(n, r->req, MPI_STATUSES_IGNORE);
}

static void iterate(bench_run_t *r, size_t size, long n, flows_t flows)
{
    role_t role = role_of(r, flows);
    if (0 == role.to_count + role.from_count) {
        return;
    }
    for (long i = 0; i < n; i++) {
        window_once(r, &role, size);
    }
}

static bool verify(bench_run_t *r, size_t size, flows_t flows)
{
    role_t role = role_of(r, flows);
    const int window = r->window;
    bool wrong = false;
    for (size_t p = 0; p < r->send.places; p++) {
        bench_fill(r->send.base + p * r->send.stride, size, (uint64_t) r->rank + 1);
    }
    for (int k = 0; k < role.from_count; k++) {
        for (int w = 0; w < window; w++) {
            bench_fill(recv_place(r, k, w), size, UINT64_MAX);
        }
    }
    if (0 == role.to_count + role.from_count) {
        return false;
    }
    window_once(r, &role, size);
    for (int k = 0; k < role.from_count; k++) {
        for (int w = 0; w < window; w++) {
            wrong |= SIZE_MAX
                     != bench_check(recv_place(r, k, w), size,
                                    (uint64_t) (role.from_first + k) + 1);
        }
    }
    return wrong;
}

static size_t recv_places(const bench_run_t *r)
{
    return (size_t) r->window * (size_t) (r->np - 1);
}

static double per_window(const bench_run_t *r)
{
    return (double) r->window;
}

static double per_window_all(const bench_run_t *r)
{
    return (double) r->window * (double) (r->np - 1);
}

static double per_window_pairs(const bench_run_t *r)
{
    return (double) r->window * (double) (r->np / 2);
}

#define FLOW_PATTERN(ID, NAME, WHAT, SIZES, FLOWS, MESSAGES, FACTOR, TIMING) \
    static void iterate_##ID(bench_run_t *r, size_t size, long n)            \
    {                                                                        \
        iterate(r, size, n, FLOWS);                                          \
    }                                                                        \
    static bool verify_##ID(bench_run_t *r, size_t size)                     \
    {                                                                        \
        return verify(r, size, FLOWS);                                       \
    }                                                                        \
    const bench_pattern_t bench_pattern_##ID = {                             \
        .name = NAME,                                                        \
        .what = WHAT,                                                        \
        .sizes = SIZES,                                                      \
        .np_min = 2,                                                         \
        .np_even = BENCH_TIME_ALL == (TIMING),                               \
        .timing = TIMING,                                                    \
        .windowed = true,                                                    \
        .recv_places = recv_places,                                          \
        .messages = MESSAGES,                                                \
        .bytes_factor = FACTOR,                                              \
        .iterate = iterate_##ID,                                             \
        .verify = verify_##ID,                                               \
    }

FLOW_PATTERN(bw, "bw", "windows from rank 0 to rank 1, time per message", "1-64M", FLOW_ONE,
             per_window, 1.0, BENCH_TIME_ROOT);
FLOW_PATTERN(bibw, "bibw", "windows both ways at once, time per message of one direction", "1-64M",
             FLOW_BOTH, per_window, 2.0, BENCH_TIME_ROOT);
FLOW_PATTERN(rate, "rate", "windows of small messages in np/2 pairs, time per message", "0-4K",
             FLOW_PAIRS, per_window_pairs, 1.0, BENCH_TIME_ALL);
FLOW_PATTERN(manyto1, "manyto1", "windows from all ranks to rank 0, time per message", "1-4M",
             FLOW_TO_ROOT, per_window_all, 1.0, BENCH_TIME_ROOT);
FLOW_PATTERN(1tomany, "1tomany", "windows from rank 0 to all ranks, time per message", "1-4M",
             FLOW_FROM_ROOT, per_window_all, 1.0, BENCH_TIME_ROOT);

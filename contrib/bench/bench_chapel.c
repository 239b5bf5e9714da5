/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * bench_chapel PATTERN [options]: five patterns by which a parallel language was measured on a
 * shared-memory transport: STREAM, a star stencil, a weak-scaling bucket sort (ISx), index gather
 * (aggregated and fine-grained) and RandomAccess (one-sided and two-sided). Each rank runs several
 * threads, all of which call MPI and therefore poll: what serialised polling is about. The first
 * pass is reported beside the later ones, since it pays for page faults: what prefaulting is about.
 *
 * Every pattern verifies its result exactly in an untimed pass or after the timed ones.
 *
 * Layer: MPI program on bench_common.h. The patterns are written from their published definitions
 * (STREAM triad; Parallel Research Kernels' star stencil of radius 2; ISx's uniform keys; bale's
 * index gather; HPCC's RandomAccess recurrence), not from their code.
 */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif
#include <mpi.h>

#include "bench_common.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MOST_THREADS 32
#define BATCH        1024 /* requests per destination and exchange of the aggregated patterns */
#define FINE_BATCH   64   /* one-sided calls between two flushes */
#define RADIUS       2

/** What all threads of a rank share. */
typedef struct {
    int rank;
    int np;
    int threads;
    size_t n; /* elements of work per rank */
    int passes;
    MPI_Comm comm; /* for the rank as a whole */
    MPI_Win win;
    pthread_barrier_t together;
    /* memory of the pattern, by its own use */
    void *a;
    void *b;
    void *c;
    size_t length;
    long iteration;
    bool wrong;
} rank_t;

/** One thread of a rank. */
typedef struct {
    rank_t *r;
    int id;
    MPI_Comm comm; /* the threads of that id on all ranks */
    uint64_t random;
} thread_t;

typedef struct {
    const char *name;
    const char *metric;
    const char *unit;
    size_t n;                        /* default work per rank */
    double unit_scale;               /* value = work units per second x this */
    double (*work)(const rank_t *r); /* work units of one pass over all ranks */
    void (*open)(rank_t *r);
    void (*pass)(thread_t *t);
    void (*verify)(rank_t *r); /* after the last pass; sets r->wrong */
} pattern_t;

static void die(const char *text)
{
    fprintf(stderr, "bench_chapel: %s\n", text);
    MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
}

static void *memory(size_t bytes)
{
    void *p = NULL;
    if (0 != posix_memalign(&p, 4096, bytes + 4096)) {
        die("no memory");
    }
    return p;
}

/* xorshift64*: good enough to spread indices, one state per thread. */
static inline uint64_t next_random(thread_t *t)
{
    uint64_t x = t->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    t->random = x;
    return x * UINT64_C(2685821657736338717);
}

/* This thread's share [from, to) of total. */
static void share(const thread_t *t, size_t total, size_t *from, size_t *to)
{
    *from = total * (size_t) t->id / (size_t) t->r->threads;
    *to = total * ((size_t) t->id + 1) / (size_t) t->r->threads;
}

/* -------------------------------------------------------------------- STREAM */

static void stream_open(rank_t *r)
{
    r->a = memory(r->n * sizeof(double));
    r->b = memory(r->n * sizeof(double));
    r->c = memory(r->n * sizeof(double));
}

static void stream_pass(thread_t *t)
{
    rank_t *r = t->r;
    double *a = r->a;
    double *b = r->b;
    double *c = r->c;
    size_t from;
    size_t to;
    share(t, r->n, &from, &to);
    if (0 == r->iteration) {
        for (size_t i = from; i < to; i++) {
            b[i] = (double) (i % 1000);
            c[i] = 2.0;
        }
    }
    for (size_t i = from; i < to; i++) {
        a[i] = b[i] + 3.0 * c[i];
    }
    MPI_Barrier(t->comm);
}

static void stream_verify(rank_t *r)
{
    const double *a = r->a;
    for (size_t i = 0; i < r->n; i++) {
        r->wrong |= (double) (i % 1000) + 6.0 != a[i];
    }
}

static double stream_work(const rank_t *r)
{
    return 3.0 * sizeof(double) * (double) r->n * r->np;
}

/* ------------------------------------------------------------------- stencil */

/* The grid has `length` rows; each rank owns as many columns, plus RADIUS on both sides. Threads
 * share out the rows, and each exchanges the halo of its own rows, so that all of them poll. */
static size_t stencil_stride(const rank_t *r)
{
    return r->length + 2 * RADIUS;
}

static void stencil_open(rank_t *r)
{
    r->length = (size_t) sqrt((double) r->n);
    r->a = memory(r->length * stencil_stride(r) * sizeof(double)); /* in */
    r->b = memory(r->length * stencil_stride(r) * sizeof(double)); /* out */
    r->c = NULL;
}

static void stencil_halo(thread_t *t, size_t from, size_t to)
{
    rank_t *r = t->r;
    double *in = r->a;
    const size_t stride = stencil_stride(r);
    const size_t rows = to - from;
    const int left = 0 == r->rank ? MPI_PROC_NULL : r->rank - 1;
    const int right = r->rank == r->np - 1 ? MPI_PROC_NULL : r->rank + 1;
    double *buffer = malloc(4 * RADIUS * rows * sizeof(double) + 1);
    if (NULL == buffer) {
        die("no memory");
    }
    double *send_left = buffer;
    double *send_right = buffer + RADIUS * rows;
    double *recv_left = buffer + 2 * RADIUS * rows;
    double *recv_right = buffer + 3 * RADIUS * rows;
    const int count = (int) (RADIUS * rows);
    MPI_Request q[4];
    MPI_Irecv(recv_left, count, MPI_DOUBLE, left, 1, t->comm, &q[0]);
    MPI_Irecv(recv_right, count, MPI_DOUBLE, right, 2, t->comm, &q[1]);
    for (size_t i = 0; i < rows; i++) {
        const double *row = in + (from + i) * stride;
        for (size_t k = 0; k < RADIUS; k++) {
            send_left[i * RADIUS + k] = row[RADIUS + k];
            send_right[i * RADIUS + k] = row[r->length + k];
        }
    }
    MPI_Isend(send_right, count, MPI_DOUBLE, right, 1, t->comm, &q[2]);
    MPI_Isend(send_left, count, MPI_DOUBLE, left, 2, t->comm, &q[3]);
    MPI_Waitall(4, q, MPI_STATUSES_IGNORE);
    for (size_t i = 0; i < rows; i++) {
        double *row = in + (from + i) * stride;
        for (size_t k = 0; k < RADIUS; k++) {
            if (MPI_PROC_NULL != left) {
                row[k] = recv_left[i * RADIUS + k];
            }
            if (MPI_PROC_NULL != right) {
                row[r->length + RADIUS + k] = recv_right[i * RADIUS + k];
            }
        }
    }
    free(buffer);
}

/* Columns that have RADIUS neighbours on both sides in the whole grid, as local indices. */
static void stencil_columns(const rank_t *r, size_t *first, size_t *last)
{
    *first = RADIUS + (0 == r->rank ? RADIUS : 0);
    *last = RADIUS + r->length - (r->rank == r->np - 1 ? RADIUS : 0);
}

static void stencil_pass(thread_t *t)
{
    rank_t *r = t->r;
    double *in = r->a;
    double *out = r->b;
    const size_t stride = stencil_stride(r);
    size_t from;
    size_t to;
    size_t first;
    size_t last;
    share(t, r->length, &from, &to);
    stencil_columns(r, &first, &last);
    if (0 == r->iteration) {
        for (size_t i = from; i < to; i++) {
            for (size_t j = 0; j < stride; j++) {
                double column = (double) (r->rank * (long) r->length + (long) j - RADIUS);
                in[i * stride + j] = (double) i + column;
                out[i * stride + j] = 0.0;
            }
        }
    }
    pthread_barrier_wait(&r->together);
    stencil_halo(t, from, to);
    pthread_barrier_wait(&r->together);
    size_t low = from < RADIUS ? RADIUS : from;
    size_t high = to > r->length - RADIUS ? r->length - RADIUS : to;
    for (size_t i = low; i < high; i++) {
        for (size_t j = first; j < last; j++) {
            const double *p = in + i * stride + j;
            double sum = 0.0;
            for (size_t k = 1; k <= RADIUS; k++) {
                double weight = 1.0 / (2.0 * (double) k * RADIUS);
                sum += weight * (p[k] - *(p - k)) + weight * (p[k * stride] - *(p - k * stride));
            }
            out[i * stride + j] += sum;
        }
    }
    pthread_barrier_wait(&r->together);
    for (size_t i = from; i < to; i++) {
        for (size_t j = RADIUS; j < RADIUS + r->length; j++) {
            in[i * stride + j] += 1.0;
        }
    }
}

static void stencil_verify(rank_t *r)
{
    /* Each pass adds the sum of both slopes of a plane, which is 2. */
    const double *out = r->b;
    size_t first;
    size_t last;
    stencil_columns(r, &first, &last);
    for (size_t i = RADIUS; i < r->length - RADIUS; i++) {
        for (size_t j = first; j < last; j++) {
            r->wrong |= fabs(out[i * stencil_stride(r) + j] - 2.0 * (double) r->iteration) > 1e-6;
        }
    }
}

static double stencil_work(const rank_t *r)
{
    return (2.0 * (4 * RADIUS + 1) + 1.0) * (double) r->length * (double) r->length * r->np;
}

/* ----------------------------------------------------------------------- ISx */

/* Uniform keys; rank p owns the p-th part of the key space. Each thread sorts its own share. */
#define KEYS_PER_RANK ((uint32_t) 1 << 27)

static void isx_open(rank_t *r)
{
    r->a = memory(r->n * sizeof(uint32_t));
    r->c = calloc((size_t) r->threads, sizeof(uint64_t)); /* keys received by each thread */
    if (NULL == r->c) {
        die("no memory");
    }
}

typedef struct {
    int *send_count;
    int *recv_count;
    int *send_at;
    int *recv_at;
} layout_t;

static layout_t layout_new(int np)
{
    int *p = calloc((size_t) np * 4 + 4, sizeof(int));
    if (NULL == p) {
        die("no memory");
    }
    return (layout_t) {p, p + np, p + 2 * np, p + 3 * np};
}

/* Tell everybody how much comes; returns the number of elements that arrive here. */
static int layout_exchange(layout_t *l, int np, MPI_Comm comm)
{
    MPI_Alltoall(l->send_count, 1, MPI_INT, l->recv_count, 1, MPI_INT, comm);
    int in = 0;
    for (int p = 0, out = 0; p < np; p++) {
        l->send_at[p] = out;
        l->recv_at[p] = in;
        out += l->send_count[p];
        in += l->recv_count[p];
    }
    return in;
}

static void isx_pass(thread_t *t)
{
    rank_t *r = t->r;
    size_t from;
    size_t to;
    share(t, r->n, &from, &to);
    const size_t n = to - from;
    uint32_t *keys = (uint32_t *) r->a + from;
    uint32_t *sorted = memory(n * sizeof(uint32_t));
    layout_t l = layout_new(r->np);
    for (size_t i = 0; i < n; i++) {
        keys[i] = (uint32_t) (next_random(t) >> 16) % (KEYS_PER_RANK * (uint32_t) r->np);
        l.send_count[keys[i] / KEYS_PER_RANK]++;
    }
    int *place = calloc((size_t) r->np, sizeof(int));
    int in = layout_exchange(&l, r->np, t->comm);
    uint32_t *mine = memory(((size_t) in + 1) * sizeof(uint32_t));
    if (NULL == place) {
        die("no memory");
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t p = keys[i] / KEYS_PER_RANK;
        sorted[l.send_at[p] + place[p]++] = keys[i];
    }
    MPI_Alltoallv(sorted, l.send_count, l.send_at, MPI_UINT32_T, mine, l.recv_count, l.recv_at,
                  MPI_UINT32_T, t->comm);
    /* Counting sort on the high bits, as far as the check needs it. */
    uint32_t base = KEYS_PER_RANK * (uint32_t) r->rank;
    bool wrong = false;
    uint64_t counted = 0;
    uint32_t *count = calloc(1 << 12, sizeof(uint32_t));
    for (int i = 0; NULL != count && i < in; i++) {
        wrong |= mine[i] - base >= KEYS_PER_RANK;
        count[((mine[i] - base) >> 15) & 4095]++;
    }
    for (int i = 0; NULL != count && i < 1 << 12; i++) {
        counted += count[i];
    }
    ((uint64_t *) r->c)[t->id] = counted;
    if (wrong) {
        r->wrong = true;
    }
    free(count);
    free(place);
    free(l.send_count);
    free(mine);
    free(sorted);
}

static void isx_verify(rank_t *r)
{
    uint64_t here = 0;
    uint64_t all = 0;
    for (int i = 0; i < r->threads; i++) {
        here += ((uint64_t *) r->c)[i];
    }
    MPI_Allreduce(&here, &all, 1, MPI_UINT64_T, MPI_SUM, r->comm);
    r->wrong |= all != (uint64_t) r->n * (uint64_t) r->np;
}

static double isx_work(const rank_t *r)
{
    return sizeof(uint32_t) * (double) r->n * r->np;
}

/* -------------------------------------------------------------- index gather */

static uint64_t table_value(uint64_t index)
{
    return index * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

static void gather_open(rank_t *r)
{
    r->length = (size_t) 1 << 16; /* table entries per rank */
    r->a = memory(r->length * sizeof(uint64_t));
    for (size_t i = 0; i < r->length; i++) {
        ((uint64_t *) r->a)[i] = table_value((uint64_t) r->rank * r->length + i);
    }
    MPI_Win_create(r->a, (MPI_Aint) (r->length * sizeof(uint64_t)), sizeof(uint64_t), MPI_INFO_NULL,
                   r->comm, &r->win);
    MPI_Win_lock_all(0, r->win);
}

/* Requests for one exchange: an index for each, grouped by owner. */
static void gather_exchange(thread_t *t, const uint64_t *index, int n)
{
    rank_t *r = t->r;
    const uint64_t *table = r->a;
    layout_t l = layout_new(r->np);
    uint64_t *out = memory((size_t) n * sizeof(uint64_t));
    uint64_t *answers = memory((size_t) n * sizeof(uint64_t));
    int *place = calloc((size_t) r->np, sizeof(int));
    if (NULL == place) {
        die("no memory");
    }
    for (int i = 0; i < n; i++) {
        l.send_count[index[i] / r->length]++;
    }
    int in = layout_exchange(&l, r->np, t->comm);
    uint64_t *asked = memory(((size_t) in + 1) * sizeof(uint64_t));
    for (int i = 0; i < n; i++) {
        uint64_t p = index[i] / r->length;
        out[l.send_at[p] + place[p]++] = index[i];
    }
    MPI_Alltoallv(out, l.send_count, l.send_at, MPI_UINT64_T, asked, l.recv_count, l.recv_at,
                  MPI_UINT64_T, t->comm);
    for (int i = 0; i < in; i++) {
        asked[i] = table[asked[i] % r->length];
    }
    MPI_Alltoallv(asked, l.recv_count, l.recv_at, MPI_UINT64_T, answers, l.send_count, l.send_at,
                  MPI_UINT64_T, t->comm);
    bool wrong = false;
    for (int i = 0; i < n; i++) {
        wrong |= answers[i] != table_value(out[i]);
    }
    if (wrong) {
        r->wrong = true;
    }
    free(asked);
    free(place);
    free(answers);
    free(out);
    free(l.send_count);
}

static void gather_pass(thread_t *t)
{
    rank_t *r = t->r;
    size_t from;
    size_t to;
    share(t, r->n, &from, &to);
    const size_t batch = (size_t) BATCH * (size_t) r->np;
    uint64_t *index = memory(batch * sizeof(uint64_t));
    /* All ranks make the same number of exchanges; only the last may be short. */
    size_t most = (r->n / (size_t) r->threads + 1 + batch - 1) / batch;
    for (size_t round = 0; round < most; round++) {
        size_t done = round * batch;
        size_t n = done >= to - from ? 0 : to - from - done;
        n = n > batch ? batch : n;
        for (size_t i = 0; i < n; i++) {
            index[i] = next_random(t) % (r->length * (uint64_t) r->np);
        }
        gather_exchange(t, index, (int) n);
    }
    free(index);
}

static void fine_pass(thread_t *t)
{
    rank_t *r = t->r;
    size_t from;
    size_t to;
    share(t, r->n, &from, &to);
    uint64_t value[FINE_BATCH];
    uint64_t index[FINE_BATCH];
    bool wrong = false;
    for (size_t i = from; i < to;) {
        int n = 0;
        for (; n < FINE_BATCH && i < to; n++, i++) {
            index[n] = next_random(t) % (r->length * (uint64_t) r->np);
            MPI_Get(&value[n], 1, MPI_UINT64_T, (int) (index[n] / r->length),
                    (MPI_Aint) (index[n] % r->length), 1, MPI_UINT64_T, r->win);
        }
        MPI_Win_flush_all(r->win);
        for (int k = 0; k < n; k++) {
            wrong |= value[k] != table_value(index[k]);
        }
    }
    if (wrong) {
        r->wrong = true;
    }
    MPI_Barrier(t->comm);
}

static void window_close(rank_t *r)
{
    MPI_Win_unlock_all(r->win);
    MPI_Win_free(&r->win);
}

static double gather_work(const rank_t *r)
{
    return sizeof(uint64_t) * (double) r->n * r->np;
}

/* -------------------------------------------------------------- RandomAccess */

/* All passes apply the same updates, and exclusive or undoes itself: after an even number of
 * passes the table must be as it was. */
static void ra_open(rank_t *r)
{
    r->length = (size_t) 1 << 16;
    r->a = memory(r->length * sizeof(uint64_t));
    for (size_t i = 0; i < r->length; i++) {
        ((uint64_t *) r->a)[i] = (uint64_t) r->rank * r->length + i;
    }
    MPI_Win_create(r->a, (MPI_Aint) (r->length * sizeof(uint64_t)), sizeof(uint64_t), MPI_INFO_NULL,
                   r->comm, &r->win);
    MPI_Win_lock_all(0, r->win);
}

static uint64_t ra_next(uint64_t x)
{
    return x << 1 ^ ((int64_t) x < 0 ? 7u : 0u);
}

static uint64_t ra_start(const thread_t *t)
{
    return (uint64_t) (t->r->rank * t->r->threads + t->id + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static void ra_onesided_pass(thread_t *t)
{
    rank_t *r = t->r;
    size_t from;
    size_t to;
    share(t, r->n, &from, &to);
    uint64_t update[FINE_BATCH];
    uint64_t x = ra_start(t);
    for (size_t i = from; i < to;) {
        for (int n = 0; n < FINE_BATCH && i < to; n++, i++) {
            x = ra_next(x);
            update[n] = x;
            uint64_t place = x % (r->length * (uint64_t) r->np);
            MPI_Accumulate(&update[n], 1, MPI_UINT64_T, (int) (place / r->length),
                           (MPI_Aint) (place % r->length), 1, MPI_UINT64_T, MPI_BXOR, r->win);
        }
        MPI_Win_flush_all(r->win);
    }
    MPI_Barrier(t->comm);
}

static void ra_twosided_pass(thread_t *t)
{
    rank_t *r = t->r;
    uint64_t *table = r->a;
    size_t from;
    size_t to;
    share(t, r->n, &from, &to);
    const size_t batch = (size_t) BATCH * (size_t) r->np;
    uint64_t *updates = memory(batch * sizeof(uint64_t));
    uint64_t *out = memory(batch * sizeof(uint64_t));
    uint64_t x = ra_start(t);
    size_t most = (r->n / (size_t) r->threads + 1 + batch - 1) / batch;
    for (size_t round = 0; round < most; round++) {
        size_t done = round * batch;
        size_t n = done >= to - from ? 0 : to - from - done;
        n = n > batch ? batch : n;
        layout_t l = layout_new(r->np);
        int *place = calloc((size_t) r->np, sizeof(int));
        if (NULL == place) {
            die("no memory");
        }
        for (size_t i = 0; i < n; i++) {
            x = ra_next(x);
            updates[i] = x;
            l.send_count[x % (r->length * (uint64_t) r->np) / r->length]++;
        }
        int in = layout_exchange(&l, r->np, t->comm);
        uint64_t *mine = memory(((size_t) in + 1) * sizeof(uint64_t));
        for (size_t i = 0; i < n; i++) {
            uint64_t p = updates[i] % (r->length * (uint64_t) r->np) / r->length;
            out[l.send_at[p] + place[p]++] = updates[i];
        }
        MPI_Alltoallv(out, l.send_count, l.send_at, MPI_UINT64_T, mine, l.recv_count, l.recv_at,
                      MPI_UINT64_T, t->comm);
        for (int i = 0; i < in; i++) {
            uint64_t at = mine[i] % (r->length * (uint64_t) r->np) % r->length;
            __atomic_fetch_xor(&table[at], mine[i], __ATOMIC_RELAXED);
        }
        free(mine);
        free(place);
        free(l.send_count);
    }
    free(out);
    free(updates);
}

static void ra_verify(rank_t *r)
{
    const uint64_t *table = r->a;
    MPI_Win_flush_all(r->win);
    MPI_Barrier(r->comm);
    MPI_Win_sync(r->win);
    for (size_t i = 0; i < r->length; i++) {
        r->wrong |= table[i] != (uint64_t) r->rank * r->length + i;
    }
}

static double ra_work(const rank_t *r)
{
    return (double) r->n * r->np;
}

/* ------------------------------------------------------------------- running */

static const pattern_t patterns[] = {
    {"stream", "MBps", "MBps", 2000000, 1e-6, stream_work, stream_open, stream_pass, stream_verify},
    {"stencil", "GFLOPS", "GFLOPS", 1000000, 1e-9, stencil_work, stencil_open, stencil_pass,
     stencil_verify},
    {"isx", "MBps", "MBps", 2000000, 1e-6, isx_work, isx_open, isx_pass, isx_verify},
    {"indexgather", "MBps", "MBps", 200000, 1e-6, gather_work, gather_open, gather_pass, NULL},
    {"indexgather_fine", "MBps", "MBps", 20000, 1e-6, gather_work, gather_open, fine_pass, NULL},
    {"ra_onesided", "GUPS", "GUPS", 10000, 1e-9, ra_work, ra_open, ra_onesided_pass, ra_verify},
    {"ra_twosided", "GUPS", "GUPS", 200000, 1e-9, ra_work, ra_open, ra_twosided_pass, ra_verify},
};
enum { PATTERN_COUNT = sizeof(patterns) / sizeof(patterns[0]) };

typedef struct {
    thread_t t;
    void (*pass)(thread_t *t);
} job_t;

static void *run_thread(void *argument)
{
    job_t *job = argument;
    job->pass(&job->t);
    return NULL;
}

/* One pass by all threads. @return seconds between the barriers of all ranks */
static double one_pass(rank_t *r, job_t *jobs)
{
    pthread_t handle[MOST_THREADS];
    MPI_Barrier(r->comm);
    uint64_t start = bench_now_ns();
    for (int i = 1; i < r->threads; i++) {
        if (0 != pthread_create(&handle[i], NULL, run_thread, &jobs[i])) {
            die("cannot start a thread");
        }
    }
    run_thread(&jobs[0]);
    for (int i = 1; i < r->threads; i++) {
        pthread_join(handle[i], NULL);
    }
    MPI_Barrier(r->comm);
    r->iteration++;
    return (double) (bench_now_ns() - start) * 1e-9;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *) a;
    double y = *(const double *) b;
    return (x > y) - (x < y);
}

static void value_record(bool json, const char *pattern, const char *metric, const char *unit,
                         double value, bool wrong)
{
    char name[64];
    snprintf(name, sizeof(name), "%s_%s", pattern, metric);
    if (!json) {
        printf("%-28s %14.6g %s%s\n", name, value, unit, wrong ? "  WRONG" : "");
        return;
    }
    bench_json_t j;
    bench_json_begin(&j, stdout);
    bench_json_str(&j, "kind", "value");
    bench_json_str(&j, "metric", name);
    bench_json_str(&j, "unit", unit);
    bench_json_num(&j, "value", value);
    bench_json_str(&j, "verified", wrong ? "wrong" : "yes");
    bench_json_end(&j);
}

int main(int argc, char **argv)
{
    rank_t rank = {.threads = 4, .passes = 6};
    rank_t *r = &rank;
    const pattern_t *pattern = NULL;
    bool json = false;
    size_t n = 0;
    for (int i = 1; i < argc; i++) {
        const char *v = i + 1 < argc ? argv[i + 1] : "";
        if (0 == strcmp(argv[i], "--threads")) {
            r->threads = atoi(v);
            i++;
        } else if (0 == strcmp(argv[i], "--passes")) {
            r->passes = atoi(v);
            i++;
        } else if (0 == strcmp(argv[i], "--work") && bench_size_parse(v, &n)) {
            i++;
        } else if (0 == strcmp(argv[i], "--json")) {
            json = true;
        } else {
            for (int p = 0; p < PATTERN_COUNT; p++) {
                pattern = 0 == strcmp(argv[i], patterns[p].name) ? &patterns[p] : pattern;
            }
            if (NULL == pattern || 0 != strcmp(argv[i], pattern->name)) {
                fprintf(stderr, "bench_chapel: %s is not understood\n", argv[i]);
                return 2;
            }
        }
    }
    if (NULL == pattern || r->threads < 1 || r->threads > MOST_THREADS || r->passes < 2) {
        fputs("usage: mpirun ... bench_chapel stream|stencil|isx|indexgather|indexgather_fine|"
              "ra_onesided|ra_twosided\n"
              "       [--threads T (1 to 32)] [--passes N (2 or more)] [--work N] [--json]\n",
              stderr);
        return 2;
    }
    bench_pin(bench_env_local_rank());
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (MPI_THREAD_MULTIPLE != provided) {
        die("this MPI has no MPI_THREAD_MULTIPLE");
    }
    r->comm = MPI_COMM_WORLD;
    r->win = MPI_WIN_NULL;
    MPI_Comm_rank(r->comm, &r->rank);
    MPI_Comm_size(r->comm, &r->np);
    r->n = 0 != n ? n : pattern->n;
    pthread_barrier_init(&r->together, NULL, (unsigned) r->threads);
    job_t jobs[MOST_THREADS];
    for (int i = 0; i < r->threads; i++) {
        jobs[i] = (job_t) {.t = {.r = r, .id = i}, .pass = pattern->pass};
        jobs[i].t.random = UINT64_C(88172645463325252) + (uint64_t) (r->rank * 64 + i);
        MPI_Comm_dup(r->comm, &jobs[i].t.comm);
    }
    pattern->open(r);
    double *seconds = calloc((size_t) r->passes, sizeof(double));
    if (NULL == seconds) {
        die("no memory");
    }
    for (int i = 0; i < r->passes; i++) {
        seconds[i] = one_pass(r, jobs);
    }
    if (0 != r->passes % 2) {
        (void) one_pass(r, jobs); /* RandomAccess is undone by an even number of passes */
    }
    if (NULL != pattern->verify) {
        pattern->verify(r);
    }
    int wrong = r->wrong;
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_LOR, r->comm);

    /* The files: rank 0 collects them, as bench_mpi does. */
    enum { CAP = 65536 };
    char *mine = calloc(1, CAP);
    char *all = 0 == r->rank ? calloc((size_t) r->np, CAP) : NULL;
    if (NULL == mine || (0 == r->rank && NULL == all)) {
        die("no memory");
    }
    bench_maps(mine, CAP);
    MPI_Gather(mine, CAP, MPI_CHAR, all, CAP, MPI_CHAR, 0, r->comm);
    if (0 == r->rank) {
        double first = pattern->work(r) / seconds[0] * pattern->unit_scale;
        qsort(seconds + 1, (size_t) r->passes - 1, sizeof(double), compare_double);
        double later = pattern->work(r) / seconds[1 + (r->passes - 1) / 2] * pattern->unit_scale;
        if (json) {
            bench_json_t j;
            bench_clock_t clock;
            bench_clock_measure(&clock);
            bench_json_begin(&j, stdout);
            bench_json_str(&j, "kind", "context");
            bench_json_str(&j, "pattern", pattern->name);
            bench_json_int(&j, "np", r->np);
            bench_json_int(&j, "threads", r->threads);
            bench_json_int(&j, "work", (long long) r->n);
            bench_context_json(&j, &clock);
            bench_files_json(&j, all, r->np, CAP);
            bench_json_end(&j);
        }
        value_record(json, pattern->name, pattern->metric, pattern->unit, later, 0 != wrong);
        char metric[32];
        snprintf(metric, sizeof(metric), "first_%s", pattern->metric);
        value_record(json, pattern->name, metric, pattern->unit, first, 0 != wrong);
    }
    if (MPI_WIN_NULL != r->win) {
        window_close(r);
    }
    free(seconds);
    free(mine);
    free(all);
    MPI_Finalize();
    return 0 != wrong ? 3 : 0;
}

/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * Mixed traffic for a given time: a cycle is one section, drawn from a seed that all ranks share, so
 * that any section follows any other. Every byte is checked, and after a quarter of the time
 * neither memory nor the number of descriptors may grow.
 *
 * Open MPI 5.0.7 itself keeps some memory for each spawned job, each window and each one-sided
 * transfer in parts, with btl/tcp and its own btl/sm as much as with ours. What the heap has grown by
 * is therefore booked to the section that made it grow: these three have a bound for each use,
 * all others together have none to spend, and what is no heap must not grow either.
 *
 * The program spawns itself; a child is recognised by its parent communicator.
 * Options: --seconds=N, --max=SIZE of a message, --threads=N in the threads' section, --spawn=0 to
 * leave that section out, --only=SECTION, --toggle: now and then switch the refusals of the program
 * "deny" around this rank on and off.
 */
#define _GNU_SOURCE
#include "mpi_check.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#define TAG         300
#define MAX_THREADS 16
#define WIN_SLOT    131072
/** Free lists and caches that are not full after a quarter of the time, and memory that one section
 *  takes and another gives back. */
#define HEAP_NOISE    (2 * 1024 * 1024)
#define RSS_NOISE_KIB 2048

static size_t max_size;
static uint64_t max_threads;
static int right;
static int left;
static uint64_t cycle;
static char *self_path;

/** Checked on arrival, by threads as well. */
static _Atomic uint64_t messages;
static _Atomic uint64_t bytes;
static uint64_t spawned;
static uint64_t cancelled;
static uint64_t toggles;

static MPI_Comm thread_comm[MAX_THREADS];

/** A window that lives as long as the job. */
typedef struct win_t {
    MPI_Win win;
    unsigned char *base; /* chk_np slots for Put, then one that others Get, then a counter */
    bool ours;           /* the memory is not MPI's */
} win_t;

static win_t created;   /* over memory of ours: goes through put and get of the transport */
static win_t allocated; /* over memory of MPI's: may be shared directly */

static void arrived(size_t size)
{
    atomic_fetch_add_explicit(&messages, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&bytes, size, memory_order_relaxed);
}

/* Mostly small, sometimes anything: the same on all ranks that ask with the same numbers. */
static size_t draw_size(uint64_t a, uint64_t b, size_t limit)
{
    chk_rng_t rng = chk_rng(41 + a, cycle, b);
    const size_t small = limit < 16384 ? limit : 16384;
    return chk_rand_size(&rng, 0 == chk_below(&rng, 4) ? limit : small);
}

/* ---- sections ---------------------------------------------------------------------------- */

/* Everyone to everyone, several at once, receives posted before or after the sends. */
static void burst(void)
{
    enum { N = 6 };
    const int n = N * (chk_np - 1);
    chk_buf_t *out = calloc((size_t) n, sizeof(*out));
    chk_buf_t *in = calloc((size_t) n, sizeof(*in));
    MPI_Request *req = calloc(2 * (size_t) n, sizeof(MPI_Request));
    const bool late = 0 == (cycle + (uint64_t) chk_rank) % 3;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < n; i++) {
            const int d = 1 + i / N;
            const int to = (chk_rank + d) % chk_np;
            const int from = (chk_rank + chk_np - d) % chk_np;
            const uint64_t pair = (uint64_t) i % N;
            const size_t size_in = draw_size((uint64_t) from * 64 + pair, (uint64_t) chk_rank,
                                             max_size);
            const size_t size_out = draw_size((uint64_t) chk_rank * 64 + pair, (uint64_t) to,
                                              max_size);
            const chk_msg_t m = {chk_rank, TAG + i % N, cycle * 4096 + (uint64_t) to, size_out};
            if ((0 == pass) == late) {
                out[i] = chk_buf_new(size_out);
                chk_fill(&m, 0, out[i].p, size_out);
                CHK((0 == pair ? MPI_Issend : MPI_Isend)(out[i].p, (int) size_out, MPI_BYTE, to,
                                                         TAG + i % N, MPI_COMM_WORLD, &req[n + i]));
            } else {
                in[i] = chk_buf_new(size_in);
                chk_arm(in[i].p, size_in);
                CHK(MPI_Irecv(in[i].p, (int) size_in, MPI_BYTE, from, TAG + i % N, MPI_COMM_WORLD,
                              &req[i]));
            }
        }
    }
    CHK(MPI_Waitall(2 * n, req, MPI_STATUSES_IGNORE));
    for (int i = 0; i < n; i++) {
        const int from = (chk_rank + chk_np - (1 + i / N)) % chk_np;
        const chk_msg_t m = {from, TAG + i % N, cycle * 4096 + (uint64_t) chk_rank, in[i].cap};
        chk_received(&m, in[i].p, in[i].cap, in[i].cap);
        arrived(in[i].cap);
        chk_buf_free(&in[i]);
        chk_buf_free(&out[i]);
    }
    free(out);
    free(in);
    free(req);
}

/* One large message each way with derived datatypes, different ones at both ends. */
static void layouts(void)
{
    const size_t size_out = draw_size((uint64_t) chk_rank, 1, max_size);
    const size_t size_in = draw_size((uint64_t) left, 1, max_size);
    const chk_msg_t mine = {chk_rank, TAG, cycle, size_out};
    const chk_msg_t theirs = {left, TAG, cycle, size_in};
    chk_rng_t rng = chk_rng(43, cycle, (uint64_t) chk_rank);
    chk_layout_t lo = chk_layout_random(&rng, size_out);
    chk_layout_t li = chk_layout_random(&rng, size_in);
    chk_buf_t out = chk_buf_new(chk_layout_span(&lo));
    chk_buf_t in = chk_buf_new(chk_layout_span(&li));
    chk_layout_fill(&lo, out.p, &mine);
    chk_arm(in.p, chk_layout_span(&li));
    CHK(MPI_Sendrecv(chk_layout_base(&lo, out.p), lo.count, lo.type, right, TAG,
                     chk_layout_base(&li, in.p), li.count, li.type, left, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE));
    chk_layout_verify(&li, in.p, &theirs, size_in);
    arrived(size_in);
    chk_layout_free(&lo);
    chk_layout_free(&li);
    chk_buf_free(&out);
    chk_buf_free(&in);
}

/* Persistent requests, made, started a few times and freed. */
static void persistent(void)
{
    const size_t size = draw_size(0, 2, max_size / 4);
    chk_buf_t out = chk_buf_new(size);
    chk_buf_t in = chk_buf_new(size);
    MPI_Request req[2];
    CHK(MPI_Recv_init(in.p, (int) size, MPI_BYTE, left, TAG, MPI_COMM_WORLD, &req[0]));
    CHK(MPI_Send_init(out.p, (int) size, MPI_BYTE, right, TAG, MPI_COMM_WORLD, &req[1]));
    for (uint64_t i = 0; i < 6; i++) {
        const chk_msg_t mine = {chk_rank, TAG, cycle * 8 + i, size};
        const chk_msg_t theirs = {left, TAG, cycle * 8 + i, size};
        chk_fill(&mine, 0, out.p, size);
        chk_arm(in.p, size);
        CHK(MPI_Startall(2, req));
        CHK(MPI_Waitall(2, req, MPI_STATUSES_IGNORE));
        chk_received(&theirs, in.p, size, size);
        arrived(size);
    }
    CHK(MPI_Request_free(&req[0]));
    CHK(MPI_Request_free(&req[1]));
    chk_buf_free(&out);
    chk_buf_free(&in);
}

/* Receives that nobody serves are taken back; the message behind them must not be touched. */
static void cancel(void)
{
    enum { N = 4 };
    MPI_Request req[N];
    MPI_Status st;
    unsigned char nothing[N][64];
    int flag;
    for (int i = 0; i < N; i++) {
        CHK(MPI_Irecv(nothing[i], 64, MPI_BYTE, left, TAG + 50 + i, MPI_COMM_WORLD, &req[i]));
    }
    layouts();
    for (int i = 0; i < N; i++) {
        CHK(MPI_Cancel(&req[i]));
        CHK(MPI_Wait(&req[i], &st));
        CHK(MPI_Test_cancelled(&st, &flag));
        if (!flag) {
            chk_fail("a receive that nobody served was not cancelled");
        }
        cancelled++;
    }
    persistent();
}

/* ---- one-sided --------------------------------------------------------------------------- */

static void window_open(win_t *w, bool allocate)
{
    const MPI_Aint size = (MPI_Aint) WIN_SLOT * (chk_np + 1) + 64;
    w->ours = !allocate;
    if (allocate) {
        CHK(MPI_Win_allocate(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w->base, &w->win));
    } else {
        CHK(MPI_Alloc_mem(size, MPI_INFO_NULL, &w->base));
        CHK(MPI_Win_create(w->base, size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w->win));
    }
    memset(w->base, 0, (size_t) size);
    CHK(MPI_Barrier(MPI_COMM_WORLD));
}

static void window_close(win_t *w)
{
    CHK(MPI_Win_free(&w->win));
    if (w->ours) {
        CHK(MPI_Free_mem(w->base));
    }
}

/* Everyone puts into a slot of everyone, gets everyone's last slot and draws tickets. */
static void one_sided(const win_t *w)
{
    const size_t limit = WIN_SLOT < max_size ? WIN_SLOT : max_size;
    const size_t got_size = draw_size(5000, 0, limit);
    const MPI_Aint own = (MPI_Aint) WIN_SLOT * chk_np;
    const MPI_Aint counter = (MPI_Aint) WIN_SLOT * (chk_np + 1);
    const chk_msg_t shown = {chk_rank, TAG, cycle, got_size};
    chk_buf_t *out = calloc((size_t) chk_np, sizeof(*out));
    chk_buf_t *in = calloc((size_t) chk_np, sizeof(*in));
    uint64_t one = 1;
    uint64_t ticket;
    uint64_t before = 0;
    uint64_t after = 0;
    CHK(MPI_Win_fence(0, w->win));
    chk_fill(&shown, 0, w->base + own, got_size);
    memcpy(&before, w->base + counter, sizeof(before));
    CHK(MPI_Win_fence(0, w->win));
    for (int t = 0; t < chk_np; t++) {
        const size_t size = draw_size(6000 + (uint64_t) chk_rank, (uint64_t) t, limit);
        const chk_msg_t m = {chk_rank, TAG + 1 + t, cycle, size};
        out[t] = chk_buf_new(size);
        in[t] = chk_buf_new(got_size);
        chk_fill(&m, 0, out[t].p, size);
        chk_arm(in[t].p, got_size);
        CHK(MPI_Put(out[t].p, (int) size, MPI_BYTE, t, (MPI_Aint) WIN_SLOT * chk_rank, (int) size,
                    MPI_BYTE, w->win));
        CHK(MPI_Get(in[t].p, (int) got_size, MPI_BYTE, t, own, (int) got_size, MPI_BYTE, w->win));
    }
    CHK(MPI_Win_fence(0, w->win));
    for (int t = 0; t < chk_np; t++) {
        const size_t size = draw_size(6000 + (uint64_t) t, (uint64_t) chk_rank, limit);
        const chk_msg_t put = {t, TAG + 1 + chk_rank, cycle, size};
        const chk_msg_t got = {t, TAG, cycle, got_size};
        chk_verify(&put, 0, w->base + (size_t) t * WIN_SLOT, size);
        chk_received(&got, in[t].p, got_size, got_size);
        arrived(size);
        arrived(got_size);
        chk_buf_free(&out[t]);
        chk_buf_free(&in[t]);
    }
    CHK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
    CHK(MPI_Win_lock_all(0, w->win));
    for (int i = 0; i < 8; i++) {
        CHK(MPI_Fetch_and_op(&one, &ticket, MPI_UINT64_T, right, counter, MPI_SUM, w->win));
        CHK(MPI_Win_flush(right, w->win));
        arrived(sizeof(ticket));
    }
    CHK(MPI_Win_unlock_all(w->win));
    CHK(MPI_Win_fence(0, w->win));
    memcpy(&after, w->base + counter, sizeof(after));
    CHK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
    if (after != before + 8) {
        chk_fail("8 tickets were drawn here, expected counter %llu got %llu",
                 (unsigned long long) before + 8, (unsigned long long) after);
    }
    free(out);
    free(in);
}

static void put_and_get(void)
{
    one_sided(0 == cycle % 2 ? &created : &allocated);
}

static void fresh_window(void)
{
    win_t w;
    window_open(&w, 0 == cycle % 2);
    one_sided(&w);
    window_close(&w);
}

/* ---- threads ----------------------------------------------------------------------------- */

static void *thread_main(void *arg)
{
    const int id = (int) (intptr_t) arg;
    const size_t limit = max_size < 100000 ? max_size : 100000;
    for (uint64_t i = 0; i < 24; i++) {
        const size_t size = draw_size(9000 + (uint64_t) id, i, limit);
        const chk_msg_t mine = {chk_rank, TAG + id, cycle * 64 + i, size};
        const chk_msg_t theirs = {left, TAG + id, cycle * 64 + i, size};
        chk_buf_t out = chk_buf_new(size);
        chk_buf_t in = chk_buf_new(size);
        chk_fill(&mine, 0, out.p, size);
        chk_arm(in.p, size);
        CHK(MPI_Sendrecv(out.p, (int) size, MPI_BYTE, right, TAG + id, in.p, (int) size, MPI_BYTE,
                         left, TAG + id, thread_comm[id], MPI_STATUS_IGNORE));
        chk_received(&theirs, in.p, size, size);
        arrived(size);
        chk_buf_free(&out);
        chk_buf_free(&in);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[MAX_THREADS];
    int n = 0;
    while (n < (int) max_threads
           && 0 == pthread_create(&thread[n], NULL, thread_main, (void *) (intptr_t) n)) {
        n++;
    }
    if (n < (int) max_threads) {
        chk_fail("cannot start thread %d", n);
        chk_mpi_error("pthread_create", MPI_ERR_OTHER, __FILE__, __LINE__);
    }
    while (n-- > 0) {
        pthread_join(thread[n], NULL);
    }
}

/* ---- collectives, communicators ---------------------------------------------------------- */

static void collectives_on(MPI_Comm comm)
{
    int me;
    int np;
    CHK(MPI_Comm_rank(comm, &me));
    CHK(MPI_Comm_size(comm, &np));
    const int root = (int) (cycle % (uint64_t) np);
    const size_t size = draw_size(7000, 0, max_size / 4);
    const size_t each = draw_size(7000, 1, 32768);
    const chk_msg_t m = {root, TAG, cycle, size};
    chk_buf_t buf = chk_buf_new(size);
    chk_buf_t out = chk_buf_new(each * (size_t) np);
    chk_buf_t in = chk_buf_new(each * (size_t) np);
    uint64_t sum = 0;
    const uint64_t mine = (uint64_t) me + cycle;
    chk_arm(buf.p, size);
    if (me == root) {
        chk_fill(&m, 0, buf.p, size);
    }
    CHK(MPI_Bcast(buf.p, (int) size, MPI_BYTE, root, comm));
    chk_received(&m, buf.p, size, size);
    arrived(size);
    for (int i = 0; i < np; i++) {
        const chk_msg_t o = {me, TAG + i, cycle, each};
        chk_fill(&o, 0, out.p + (size_t) i * each, each);
    }
    chk_arm(in.p, each * (size_t) np);
    CHK(MPI_Alltoall(out.p, (int) each, MPI_BYTE, in.p, (int) each, MPI_BYTE, comm));
    for (int i = 0; i < np; i++) {
        const chk_msg_t o = {i, TAG + me, cycle, each};
        chk_verify(&o, 0, in.p + (size_t) i * each, each);
        arrived(each);
    }
    CHK(MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, comm));
    if (sum != (uint64_t) np * cycle + (uint64_t) np * ((uint64_t) np - 1) / 2) {
        chk_fail("Allreduce: got %llu in cycle %llu", (unsigned long long) sum,
                 (unsigned long long) cycle);
    }
    arrived(sizeof(sum));
    chk_buf_free(&buf);
    chk_buf_free(&out);
    chk_buf_free(&in);
}

static void collectives(void)
{
    collectives_on(MPI_COMM_WORLD);
}

static void communicators(void)
{
    MPI_Comm dup;
    MPI_Comm reversed;
    CHK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    CHK(MPI_Comm_split(dup, 0, -chk_rank, &reversed));
    collectives_on(reversed);
    CHK(MPI_Comm_free(&reversed));
    CHK(MPI_Comm_free(&dup));
}

/* ---- spawned jobs ------------------------------------------------------------------------ */

/* Everyone on this side exchanges with everyone on the other; side keeps the directions apart. */
static void across(MPI_Comm inter, int side)
{
    int me;
    int peers;
    CHK(MPI_Comm_rank(inter, &me));
    CHK(MPI_Comm_remote_size(inter, &peers));
    for (int i = 0; i < 6 * peers; i++) {
        const int p = i % peers;
        const size_t size = draw_size(8000, (uint64_t) (i / peers), max_size);
        const chk_msg_t mine = {me, TAG + i / peers, cycle * 2 + (uint64_t) side, size};
        const chk_msg_t theirs = {p, TAG + i / peers, cycle * 2 + (uint64_t) (1 - side), size};
        chk_buf_t out = chk_buf_new(size);
        chk_buf_t in = chk_buf_new(size);
        chk_fill(&mine, 0, out.p, size);
        chk_arm(in.p, size);
        CHK(MPI_Sendrecv(out.p, (int) size, MPI_BYTE, p, TAG + i / peers, in.p, (int) size,
                         MPI_BYTE, p, TAG + i / peers, inter, MPI_STATUS_IGNORE));
        chk_received(&theirs, in.p, size, size);
        arrived(size);
        chk_buf_free(&out);
        chk_buf_free(&in);
    }
}

static void spawn(void)
{
    MPI_Comm inter;
    uint64_t order[3] = {cycle, max_size, chk_seed};
    uint64_t counts[3] = {0};
    char *args[] = {"--child", NULL};
    const int root = 0 == chk_rank ? MPI_ROOT : MPI_PROC_NULL;
    CHK(MPI_Comm_spawn(self_path, args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                       MPI_ERRCODES_IGNORE));
    CHK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    CHK(MPI_Bcast(order, 3, MPI_UINT64_T, root, inter));
    across(inter, 0);
    CHK(MPI_Reduce(NULL, counts, 3, MPI_UINT64_T, MPI_SUM, root, inter));
    if (0 == chk_rank) {
        atomic_fetch_add(&messages, counts[0]);
        atomic_fetch_add(&bytes, counts[1]);
        if (0 != counts[2]) {
            chk_fail("spawned ranks saw %llu failures", (unsigned long long) counts[2]);
        }
    }
    CHK(MPI_Comm_disconnect(&inter));
    spawned++;
}

static int child(MPI_Comm parent)
{
    uint64_t order[3];
    CHK(MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN));
    CHK(MPI_Bcast(order, 3, MPI_UINT64_T, 0, parent));
    cycle = order[0];
    max_size = (size_t) order[1];
    chk_seed = order[2];
    across(parent, 1);
    uint64_t counts[3] = {atomic_load(&messages), atomic_load(&bytes), chk_failures()};
    CHK(MPI_Reduce(counts, NULL, 3, MPI_UINT64_T, MPI_SUM, 0, parent));
    CHK(MPI_Comm_disconnect(&parent));
    MPI_Finalize();
    return 0;
}

/* ---- the mix ----------------------------------------------------------------------------- */

/** Sections; those with a bound (bytes of heap for each use) pay for what Open MPI keeps. */
static struct {
    const char *name;
    void (*run)(void);
    unsigned weight;
    int64_t bound;
    uint64_t times;      /* since the start */
    uint64_t times_warm; /* since the first quarter of the time was over */
    int64_t kept;        /* bytes of heap, since then */
} sections[] = {
    {.name = "burst", .run = burst, .weight = 30},
    {.name = "layouts", .run = layouts, .weight = 15},
    {.name = "persistent", .run = persistent, .weight = 15},
    {.name = "cancel", .run = cancel, .weight = 10},
    {.name = "put-and-get", .run = put_and_get, .weight = 20, .bound = 1024},
    {.name = "fresh-window", .run = fresh_window, .weight = 2, .bound = 24576},
    {.name = "threads", .run = threads, .weight = 10},
    {.name = "collectives", .run = collectives, .weight = 20},
    {.name = "communicators", .run = communicators, .weight = 4},
    {.name = "spawn", .run = spawn, .weight = 1, .bound = 196608},
};

#define NSECTIONS (sizeof(sections) / sizeof(sections[0]))

static void choose_sections(void)
{
    const char *only = chk_opt("only", NULL);
    for (size_t i = 0; i < NSECTIONS; i++) {
        if (NULL != only && 0 != strcmp(only, sections[i].name)) {
            sections[i].weight = 0;
        }
        if (spawn == sections[i].run && 0 == chk_opt_u64("spawn", 1)) {
            sections[i].weight = 0;
        }
    }
}

/* Bytes that the program has from malloc and not given back. */
static int64_t heap_bytes(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    const struct mallinfo2 info = mallinfo2();
    return (int64_t) (info.uordblks + info.hblkhd);
#else
    return 0;
#endif
}

static void run_section(bool warm)
{
    chk_rng_t rng = chk_rng(40, cycle, 0);
    unsigned sum = 0;
    for (size_t i = 0; i < NSECTIONS; i++) {
        sum += sections[i].weight;
    }
    uint64_t at = chk_below(&rng, sum);
    for (size_t i = 0; i < NSECTIONS; i++) {
        if (at < sections[i].weight) {
            chk_phase("cycle %llu, %s", (unsigned long long) cycle, sections[i].name);
            const int64_t before = heap_bytes();
            sections[i].run();
            sections[i].times++;
            sections[i].times_warm += warm;
            sections[i].kept += warm ? heap_bytes() - before : 0;
            return;
        }
        at -= sections[i].weight;
    }
}

/* Each rank by itself: its system calls may be refused from now on, or no longer. */
static void maybe_toggle(void)
{
    chk_rng_t rng = chk_rng(42, cycle, (uint64_t) chk_rank);
    const char *pid = getenv("DENY_PID");
    if (NULL != pid && 0 == chk_below(&rng, 6)) {
        kill((pid_t) atoi(pid), 0 == chk_below(&rng, 2) ? SIGUSR1 : SIGUSR2);
        toggles++;
    }
}

typedef struct state_t {
    size_t rss;
    unsigned fds;
    int64_t heap;
} state_t;

/*
 * Processes of a spawned job may end some time after they have disconnected, seconds on a busy machine;
 * until then they cost descriptors. Waits for that: a second, longer while there are more than most.
 */
static state_t state_now(unsigned most)
{
    const double start = chk_now();
    double spent = 0;
    while (spent < 1 || (spent < 15 && chk_open_fds() > most)) {
        for (int i = 0; i < 100; i++) {
            int flag;
            CHK(MPI_Iprobe(MPI_ANY_SOURCE, TAG + 99, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
        }
        spent = chk_now() - start;
    }
    malloc_trim(0); /* what was freed is no growth */
    return (state_t) {chk_rss_kib(), chk_open_fds(), heap_bytes()};
}

/* Until the time is up; the state after a quarter of it goes to warm_out. */
static void soak(double seconds, bool toggle, state_t *warm_out)
{
    const double start = chk_now();
    double told = start;
    bool warm = false;
    for (cycle = 1;; cycle++) {
        double spent = chk_now() - start;
        CHK(MPI_Bcast(&spent, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD));
        chk_watchdog(120);
        if (!warm && spent > seconds / 4) {
            *warm_out = state_now(UINT32_MAX);
            warm = true;
        }
        if (spent > seconds) {
            break;
        }
        if (chk_now() - told > 60) {
            told = chk_now();
            chk_diag("%.0f s, %llu cycles, resident set %zu KiB, %u descriptors", spent,
                     (unsigned long long) cycle, chk_rss_kib(), chk_open_fds());
        }
        if (toggle) {
            maybe_toggle();
        }
        run_section(warm);
    }
}

static void report_counts(double seconds)
{
    uint64_t mine[4] = {atomic_load(&messages), atomic_load(&bytes), cancelled, toggles};
    uint64_t all[4];
    char times[512] = "";
    size_t n = 0;
    CHK(MPI_Allreduce(mine, all, 4, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
    for (size_t i = 0; i < NSECTIONS; i++) {
        n += (size_t) snprintf(times + n, sizeof(times) - n, "%s%llu %s", 0 == i ? "" : ", ",
                               (unsigned long long) sections[i].times, sections[i].name);
    }
    chk_diag("sections: %s", times);
    chk_diag("counts: messages %llu bytes %llu cancelled %llu spawned %llu toggles %llu",
             (unsigned long long) all[0], (unsigned long long) all[1], (unsigned long long) all[2],
             (unsigned long long) spawned, (unsigned long long) all[3]);
    chk_result("%.0f s of mixed traffic, %llu cycles, %llu messages, %llu MiB, every byte right",
               seconds, (unsigned long long) cycle - 1, (unsigned long long) all[0],
               (unsigned long long) (all[1] >> 20));
}

/* Each rank looks at its own memory; rank 0 prints what it saw of itself. */
static void check_heap(void)
{
    int64_t others = 0;
    uint64_t cycles = 0;
    for (size_t i = 0; i < NSECTIONS; i++) {
        const int64_t uses = (int64_t) sections[i].times_warm;
        if (0 == sections[i].bound) {
            others += sections[i].kept;
            cycles += sections[i].times_warm;
            continue;
        }
        chk_diag("%s: %lld times, the heap grew by %lld bytes each", sections[i].name,
                 (long long) uses, (long long) (0 == uses ? 0 : sections[i].kept / uses));
        if (sections[i].kept > uses * sections[i].bound + HEAP_NOISE) {
            chk_fail("%lld times %s: the heap grew by %lld bytes, expected at most %lld each",
                     (long long) uses, sections[i].name, (long long) sections[i].kept,
                     (long long) sections[i].bound);
        }
    }
    chk_diag("all other sections: %llu times, the heap grew by %lld bytes in all",
             (unsigned long long) cycles, (long long) others);
    if (others > HEAP_NOISE) {
        chk_fail("in %llu cycles the heap grew by %lld bytes, expected at most %d",
                 (unsigned long long) cycles, (long long) others, HEAP_NOISE);
    }
    chk_result("the heap does not grow, but for what Open MPI keeps");
}

static void report_state(const state_t *warm)
{
    const state_t end = state_now(warm->fds);
    const int64_t heap = end.heap > warm->heap ? (end.heap - warm->heap) / 1024 : 0;
    const int64_t grown = (int64_t) end.rss - (int64_t) warm->rss;
    uint64_t mine[6] = {warm->rss,
                        end.rss,
                        warm->fds,
                        end.fds,
                        (uint64_t) warm->heap / 1024,
                        (uint64_t) end.heap / 1024};
    uint64_t *all = calloc(6 * (size_t) chk_np, sizeof(*all));
    CHK(MPI_Gather(mine, 6, MPI_UINT64_T, all, 6, MPI_UINT64_T, 0, MPI_COMM_WORLD));
    for (int r = 0; 0 == chk_rank && r < chk_np; r++) {
        const uint64_t *a = all + 6 * (size_t) r;
        chk_diag("rank %d after a quarter and at the end: resident set %llu and %llu KiB, of it "
                 "heap %llu and %llu KiB, descriptors %llu and %llu",
                 r, (unsigned long long) a[0], (unsigned long long) a[1], (unsigned long long) a[4],
                 (unsigned long long) a[5], (unsigned long long) a[2], (unsigned long long) a[3]);
    }
    free(all);
    check_heap();
    if (grown > heap + heap / 4 + RSS_NOISE_KIB) {
        chk_fail("the resident set grew by %lld KiB, the heap by %lld", (long long) grown,
                 (long long) heap);
    }
    chk_result("apart from the heap the resident set does not grow");
    if (end.fds > warm->fds) {
        chk_fail("descriptors: expected %u got %u", warm->fds, end.fds);
    }
    chk_result("the number of descriptors does not grow");
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    state_t warm = {0};
    /* Threads come and go; each arena that glibc makes for one would look like a leak. */
    mallopt(M_ARENA_MAX, 2);
    chk_init(argc, argv, MPI_THREAD_MULTIPLE);
    self_path = argv[0];
    CHK(MPI_Comm_get_parent(&parent));
    if (MPI_COMM_NULL != parent) {
        return child(parent);
    }
    if (chk_np < 2) {
        chk_skip_all("needs two ranks");
    }
    const double seconds = (double) chk_opt_u64("seconds", chk_long ? 120 : 10);
    max_size = chk_opt_u64("max", 4u << 20);
    max_threads = chk_opt_u64("threads", 3);
    max_threads = max_threads > MAX_THREADS ? MAX_THREADS : max_threads;
    right = (chk_rank + 1) % chk_np;
    left = (chk_rank + chk_np - 1) % chk_np;
    choose_sections();
    for (uint64_t i = 0; i < max_threads; i++) {
        CHK(MPI_Comm_dup(MPI_COMM_WORLD, &thread_comm[i]));
    }
    window_open(&created, false);
    window_open(&allocated, true);
    /* Each section once, so that what is made at first use is there before anything is measured. */
    for (size_t i = 0; i < NSECTIONS; i++) {
        cycle = UINT32_MAX + i;
        chk_phase("first %s", sections[i].name);
        if (0 != sections[i].weight) {
            sections[i].run();
        }
    }
    soak(seconds, NULL != chk_opt("toggle", NULL), &warm);
    report_counts(seconds);
    report_state(&warm);
    window_close(&created);
    window_close(&allocated);
    for (uint64_t i = 0; i < max_threads; i++) {
        CHK(MPI_Comm_free(&thread_comm[i]));
    }
    return chk_done();
}

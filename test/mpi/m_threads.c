/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * MPI_THREAD_MULTIPLE: on every rank several threads send and receive at once, on communicators of
 * their own and on a shared one with a tag per thread, in windows completed by Testsome and
 * Waitany, with a synchronous message among each few. The first traffic of a pair comes from all
 * threads together, so that setting up an endpoint is raced as well.
 *
 * Options: --threads=N (8), --messages=N per thread, --seconds=N instead, --max=SIZE.
 */
#include "mpi_check.h"

#include <pthread.h>

#define MAX_THREADS 64
#define WINDOW      12

typedef struct worker_t {
    pthread_t thread;
    int id;
    MPI_Comm comm;
    int peer_right;
    int peer_left;
    uint64_t messages; /* how many it moved */
    bool windowed;     /* Testsome or Waitany over a window, else blocking */
} worker_t;

static int nthreads;
static uint64_t per_thread;
static double deadline;
static size_t max_size;
static const size_t *sizes;
static size_t nsizes;
static pthread_barrier_t start_line;

/* Both ends of a thread's traffic draw the same size for the same number. */
static size_t size_of(int src, int id, uint64_t seq)
{
    chk_rng_t rng = chk_rng(31, (uint64_t) src * MAX_THREADS + (uint64_t) id, seq);
    if (0 == chk_below(&rng, 3)) {
        return sizes[chk_below(&rng, nsizes)];
    }
    return chk_rand_size(&rng, max_size < 8192 ? max_size : 8192);
}

static int tag_of(int id)
{
    return 500 + id;
}

static void send_one(const worker_t *w, uint64_t seq, unsigned char *p, MPI_Request *req)
{
    const size_t size = size_of(chk_rank, w->id, seq);
    const chk_msg_t m = {chk_rank, tag_of(w->id), seq, size};
    chk_fill(&m, 0, p, size);
    if (0 == seq % 7) {
        CHK(MPI_Issend(p, (int) size, MPI_BYTE, w->peer_right, m.tag, w->comm, req));
    } else {
        CHK(MPI_Isend(p, (int) size, MPI_BYTE, w->peer_right, m.tag, w->comm, req));
    }
}

static void check_one(const worker_t *w, uint64_t seq, const unsigned char *p, const MPI_Status *st)
{
    const size_t size = size_of(w->peer_left, w->id, seq);
    const chk_msg_t m = {w->peer_left, tag_of(w->id), seq, size};
    chk_status(&m, st, size);
    chk_received(&m, p, size, size);
}

static void window_round(worker_t *w, uint64_t base, unsigned char *out, unsigned char *in,
                         size_t slot)
{
    MPI_Request req[2 * WINDOW];
    const bool some = 0 == base / WINDOW % 2;
    for (int i = 0; i < WINDOW; i++) {
        const size_t size = size_of(w->peer_left, w->id, base + (uint64_t) i);
        unsigned char *p = in + (size_t) i * slot;
        chk_arm(p, size);
        /* from a named source or from anyone: with a tag per thread both mean the same message */
        CHK(MPI_Irecv(p, (int) size, MPI_BYTE, 0 == i % 3 ? MPI_ANY_SOURCE : w->peer_left,
                      tag_of(w->id), w->comm, &req[i]));
    }
    for (int i = 0; i < WINDOW; i++) {
        send_one(w, base + (uint64_t) i, out + (size_t) i * slot, &req[WINDOW + i]);
    }
    for (int left = 2 * WINDOW; left > 0;) {
        int idx[2 * WINDOW];
        MPI_Status st[2 * WINDOW];
        int done = 1;
        if (some) {
            CHK(MPI_Testsome(2 * WINDOW, req, &done, idx, st));
        } else {
            CHK(MPI_Waitany(2 * WINDOW, req, &idx[0], &st[0]));
        }
        for (int d = 0; d < done; d++) {
            if (idx[d] < WINDOW) {
                check_one(w, base + (uint64_t) idx[d], in + (size_t) idx[d] * slot, &st[d]);
            }
        }
        left -= done;
    }
}

static void blocking_round(worker_t *w, uint64_t seq, unsigned char *out, unsigned char *in)
{
    MPI_Request req;
    MPI_Status st;
    const size_t size = size_of(w->peer_left, w->id, seq);
    chk_arm(in, size);
    send_one(w, seq, out, &req);
    CHK(MPI_Recv(in, (int) size, MPI_BYTE, w->peer_left, tag_of(w->id), w->comm, &st));
    check_one(w, seq, in, &st);
    CHK(MPI_Wait(&req, MPI_STATUS_IGNORE));
}

static void *work(void *arg)
{
    worker_t *w = arg;
    const size_t slot = (max_size + 2 * CHK_GUARD + 127) / 64 * 64;
    chk_buf_t out = chk_buf_new(WINDOW * slot);
    chk_buf_t in = chk_buf_new(WINDOW * slot);
    const uint64_t step = w->windowed ? WINDOW : 1;
    pthread_barrier_wait(&start_line);
    for (uint64_t seq = 0;; seq += step) {
        /* A timed run ends where both neighbours agree: an own message says whether to go on. */
        if (deadline > 0 && 0 == seq % (64 * WINDOW)) {
            int more = chk_now() < deadline;
            int all = 0;
            CHK(MPI_Allreduce(&more, &all, 1, MPI_INT, MPI_MIN, w->comm));
            if (!all) {
                break;
            }
            chk_watchdog(120);
        } else if (!(deadline > 0) && seq >= per_thread) {
            break;
        }
        if (w->windowed) {
            window_round(w, seq, out.p + CHK_GUARD, in.p + CHK_GUARD, slot);
        } else {
            blocking_round(w, seq, out.p + CHK_GUARD, in.p + CHK_GUARD);
        }
        w->messages += step;
    }
    chk_buf_free(&out);
    chk_buf_free(&in);
    return NULL;
}

static void run(const char *name, MPI_Comm *comms, bool own_comm, bool windowed)
{
    static worker_t workers[MAX_THREADS];
    uint64_t moved = 0;
    chk_phase("%s", name);
    memset(workers, 0, sizeof(workers));
    pthread_barrier_init(&start_line, NULL, (unsigned) nthreads);
    for (int i = 0; i < nthreads; i++) {
        worker_t *w = &workers[i];
        w->id = i;
        w->comm = own_comm ? comms[i] : MPI_COMM_WORLD;
        w->windowed = windowed;
        /* thread by thread another distance: all pairs are busy at once */
        const int d = chk_np > 1 ? 1 + i % (chk_np - 1) : 0;
        w->peer_right = (chk_rank + d) % chk_np;
        w->peer_left = (chk_rank + chk_np - d) % chk_np;
        if (0 != pthread_create(&w->thread, NULL, work, w)) {
            chk_fail("cannot start thread %d", i);
            nthreads = i;
        }
    }
    for (int i = 0; i < nthreads; i++) {
        pthread_join(workers[i].thread, NULL);
        moved += workers[i].messages;
    }
    pthread_barrier_destroy(&start_line);
    uint64_t all = 0;
    CHK(MPI_Allreduce(&moved, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
    chk_result("%d threads on each rank, %s: %llu messages", nthreads, name,
               (unsigned long long) all);
}

int main(int argc, char **argv)
{
    MPI_Comm comms[MAX_THREADS];
    chk_init(argc, argv, MPI_THREAD_MULTIPLE);
    nthreads = (int) chk_opt_u64("threads", 8);
    if (nthreads > MAX_THREADS || nthreads < 1) {
        chk_skip_all("--threads must lie between 1 and 64");
    }
    per_thread = chk_opt_u64("messages", chk_long ? 60000 : 480);
    max_size = chk_opt_u64("max", 65537);
    sizes = chk_sizes(max_size, &nsizes);
    for (int i = 0; i < nthreads; i++) {
        CHK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        CHK(MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN));
    }
    const double seconds = (double) chk_opt_u64("seconds", 0);
    run("one communicator, a tag for each, windows", comms, false, true);
    run("a communicator for each, windows", comms, true, true);
    run("a communicator for each, blocking", comms, true, false);
    if (seconds > 0) {
        deadline = chk_now() + seconds;
        run("a communicator for each, timed", comms, true, true);
    }
    for (int i = 0; i < nthreads; i++) {
        CHK(MPI_Comm_free(&comms[i]));
    }
    return chk_done();
}

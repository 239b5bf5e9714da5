/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * A rank dies by SIGKILL in the middle of traffic. Without fault tolerance the job must end soon
 * and leave nothing (the runner looks at the clock, the processes and the files); with --ulfm the
 * survivors must learn of it within ten seconds, shrink and go on with every byte right.
 *
 * Traffic "beside", with --ulfm: the survivors never stop talking to each other and none of them is ever
 * idle for long, while one waits for the dead one. The transport must notice the death all the same;
 * whoever else may tell of it, its counter of lost peers says that it has.
 *
 * Options: --victim=R, --after=MS, --traffic=small|large|mixed|barrier|rma|beside, --ulfm.
 */
#include "mpi_check.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#if defined(OPEN_MPI)
#    include <mpi-ext.h>
#endif

#define TAG          900
#define DETECT_LIMIT 10.0

static unsigned after_ms;

/* The moment is drawn without regard to what the rank does: any instruction may be its last. */
static void *executioner(void *arg)
{
    (void) arg;
    struct timespec ts;
    char line[64];
    chk_sleep_ms(after_ms);
    clock_gettime(CLOCK_REALTIME, &ts);
    const int n = snprintf(line, sizeof(line), "# killed at %lld%03ld\n", (long long) ts.tv_sec,
                           ts.tv_nsec / 1000000);
    /* the runner counts from here; the line must be out before the end */
    if (n == write(STDOUT_FILENO, line, (size_t) n)) {
        chk_sleep_ms(5);
    }
    kill(getpid(), SIGKILL);
    return NULL;
}

static size_t size_of(const char *traffic, uint64_t i)
{
    if (0 == strcmp(traffic, "small")) {
        return 8 + i % 200;
    }
    if (0 == strcmp(traffic, "large")) {
        return (1u << 20) + i % 4096;
    }
    return 0 == i % 16 ? 300000 : 0 == i % 4 ? 20000 : 64;
}

/* Exchange with every other rank; returns the first error. */
static int traffic_round(MPI_Comm c, const char *traffic, uint64_t i, unsigned char *out,
                         unsigned char *in)
{
    int me;
    int np;
    MPI_Comm_rank(c, &me);
    MPI_Comm_size(c, &np);
    if (0 == strcmp(traffic, "barrier")) {
        return MPI_Barrier(c);
    }
    for (int d = 1; d < np; d++) {
        const size_t size = size_of(traffic, i);
        const int to = (me + d) % np;
        const int from = (me + np - d) % np;
        const chk_msg_t mine = {me, TAG, i, size};
        const chk_msg_t theirs = {from, TAG, i, size};
        chk_fill(&mine, 0, out, size);
        const int rc = MPI_Sendrecv(out, (int) size, MPI_BYTE, to, TAG, in, (int) size, MPI_BYTE,
                                    from, TAG, c, MPI_STATUS_IGNORE);
        if (MPI_SUCCESS != rc) {
            return rc;
        }
        /* what was delivered before the death was heard of must still be right */
        chk_verify(&theirs, 0, in, size);
    }
    return MPI_SUCCESS;
}

#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && OMPI_HAVE_MPI_EXT_FTMPI
/* The bytes are judged by then. Whether MPI_Finalize ends after a death is the runtime's affair: the
 * fence inside it may wait for the dead process for ever. */
static void finalize_is_late(int sig)
{
    static const char text[] = "# MPI_Finalize does not end after the death; left without it\n";
    (void) sig;
    _exit(sizeof(text) - 1 == (size_t) write(STDOUT_FILENO, text, sizeof(text) - 1) ? 0 : 1);
}

/* Ranks 0 and 1 talk on; rank 2 is to die. */
static int talk_on(void)
{
    MPI_Request never;
    uint64_t lost = 0;
    int more = 1;
    char byte;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Irecv(&byte, 1, MPI_CHAR, 2, TAG + 1, MPI_COMM_WORLD, &never);
    const double start = chk_now();
    for (uint64_t i = 0; 0 != more; i++) {
        const int peer = 1 - chk_rank;
        int theirs = 0;
        if (0 == i % 1000 && chk_pvar("btl_sm_lost_peers", &lost)) {
            more = 0 == lost && chk_now() - start < after_ms / 1000.0 + DETECT_LIMIT;
        }
        MPI_Sendrecv(&more, 1, MPI_INT, peer, TAG, &theirs, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        more = more || theirs; /* until both have noticed */
    }
    (void) chk_pvar("btl_sm_lost_peers", &lost);
    printf("%sok 1 - rank %d talks without a pause and notices the death of another\n1..1\n",
           1 == lost ? "" : "not ", chk_rank);
    fflush(stdout);
    _exit(1 == lost ? 0 : 1);
}

static int survive(const char *traffic, unsigned char *out, unsigned char *in)
{
    MPI_Comm world;
    MPI_Comm rest;
    int class = MPI_SUCCESS;
    int np;
    double heard;
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    for (uint64_t i = 0; MPI_SUCCESS == class; i++) {
        const int rc = traffic_round(world, traffic, i, out, in);
        MPI_Error_class(rc, &class);
    }
    heard = chk_now();
    if (MPIX_ERR_PROC_FAILED != class && MPIX_ERR_REVOKED != class) {
        chk_fail("the survivors got error class %d", class);
    }
    MPIX_Comm_revoke(world);
    if (MPI_SUCCESS != MPIX_Comm_shrink(world, &rest)) {
        chk_fail("shrink failed");
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Comm_set_errhandler(rest, MPI_ERRORS_RETURN);
    MPI_Comm_size(rest, &np);
    if (np != chk_np - 1) {
        chk_fail("%d ranks are left of %d", np, chk_np);
    }
    for (uint64_t i = 0; i < 200; i++) {
        if (MPI_SUCCESS != traffic_round(rest, traffic, i, out, in)) {
            chk_fail("an error among the survivors in round %llu", (unsigned long long) i);
            break;
        }
    }
    int bad = (int) chk_failures();
    int all = 0;
    MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, rest);
    if (0 == chk_rank) {
        const double late = chk_now() - heard;
        printf("# error class %d; the survivors went on %.1f s later\n", class, late);
        printf("%sok 1 - survivors hear of the death, shrink and go on with every byte right\n",
               0 == all ? "" : "not ");
        printf("1..1\n");
        fflush(stdout);
    }
    MPI_Barrier(rest);
    signal(SIGALRM, finalize_is_late);
    alarm(10);
    MPI_Finalize();
    return 0 == all ? 0 : 1;
}
#endif

int main(int argc, char **argv)
{
    chk_init(argc, argv, MPI_THREAD_SINGLE);
    const int victim = (int) chk_opt_u64("victim", (uint64_t) chk_np - 1);
    const char *traffic = chk_opt("traffic", "mixed");
    const bool ulfm = NULL != chk_opt("ulfm", NULL);
    chk_rng_t rng = chk_rng(71, (uint64_t) victim, 0);
    after_ms = (unsigned) chk_opt_u64("after", 20 + chk_below(&rng, 300));
    chk_buf_t out = chk_buf_new(2u << 20);
    chk_buf_t in = chk_buf_new(2u << 20);
    chk_diag("victim %d dies %u ms from now under %s traffic", victim, after_ms, traffic);
    traffic_round(MPI_COMM_WORLD, "mixed", 0, out.p, in.p);
    if (chk_rank == victim) {
        pthread_t thread;
        pthread_create(&thread, NULL, executioner, NULL);
    }
    chk_phase("waiting for the death of rank %d", victim);
    chk_watchdog(after_ms / 1000 + (unsigned) DETECT_LIMIT + 5);
    if (ulfm) {
#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && OMPI_HAVE_MPI_EXT_FTMPI
        if (0 == strcmp(traffic, "beside") && chk_rank < 2) {
            return talk_on();
        }
        return survive(traffic, out.p, in.p);
#else
        chk_skip_all("the library has no fault tolerance");
#endif
    }
    chk_expect_end();
    if (0 == strcmp(traffic, "rma")) {
        MPI_Win win;
        CHK(MPI_Win_create(in.p, 2 << 20, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        for (uint64_t i = 0;; i++) {
            const int to = (int) (i % (uint64_t) chk_np);
            CHK(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
            CHK(MPI_Put(out.p, 100000, MPI_BYTE, to, 0, 100000, MPI_BYTE, win));
            CHK(MPI_Win_unlock(to, win));
        }
    }
    for (uint64_t i = 0;; i++) {
        CHK(traffic_round(MPI_COMM_WORLD, traffic, i, out.p, in.p));
    }
}

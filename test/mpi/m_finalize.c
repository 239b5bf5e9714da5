/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * The end of a job, and what else a process may do during it. The runner sees to it that every mode
 * ends in time with the status named here and leaves no process and no file.
 *
 * Options: --mode=
 *   delays      ranks reach MPI_Finalize at different times; the first ones leave at once
 *   unfinished  MPI_Finalize while receives are open and messages on their way
 *   early       one rank leaves by exit() without MPI_Finalize (status: not 0)
 *   abort       one rank calls MPI_Abort(7) during traffic (status: 7)
 *   fork        system(), fork and fork+exec in every rank during traffic
 *   start       random delays before MPI_Init
 *   signals     a timer signal a thousand times a second during large transfers
 */
#include "mpi_check.h"

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAG 950

static chk_buf_t out;
static chk_buf_t in;
static uint64_t seq;

static void exchange(size_t size)
{
    for (int d = 1; d < chk_np; d++) {
        const int to = (chk_rank + d) % chk_np;
        const int from = (chk_rank + chk_np - d) % chk_np;
        const chk_msg_t mine = {chk_rank, TAG, seq, size};
        const chk_msg_t theirs = {from, TAG, seq, size};
        chk_fill(&mine, 0, out.p, size);
        chk_arm(in.p, size);
        CHK(MPI_Sendrecv(out.p, (int) size, MPI_BYTE, to, TAG, in.p, (int) size, MPI_BYTE, from,
                         TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        chk_received(&theirs, in.p, size, size);
        seq++;
    }
}

static void some_traffic(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        exchange(0 == i % 8 ? 1u << 20 : 0 == i % 3 ? 20000 : 64);
    }
}

static unsigned random_ms(uint64_t what, unsigned max)
{
    chk_rng_t rng = chk_rng(81, what, (uint64_t) chk_rank);
    return (unsigned) chk_below(&rng, max + 1);
}

static int mode_delays(void)
{
    some_traffic(10);
    chk_result("traffic before the end");
    const int status = chk_report();
    const int first = (int) (chk_seed % (uint64_t) chk_np);
    if (chk_rank != first) {
        chk_sleep_ms(50 + random_ms(1, 400));
    }
    chk_phase("finalize after a delay");
    MPI_Finalize();
    /* and some processes stay for a while after it */
    if (0 == chk_rank % 2) {
        chk_sleep_ms(random_ms(2, 200));
    }
    return status;
}

/* Erroneous by the standard, but no reason to hang or to crash. */
static int mode_unfinished(void)
{
    MPI_Request req;
    const int right = (chk_rank + 1) % chk_np;
    static unsigned char never[64];
    some_traffic(5);
    chk_result("traffic before the end");
    const int status = chk_report();
    CHK(MPI_Irecv(never, sizeof(never), MPI_BYTE, MPI_ANY_SOURCE, TAG + 1, MPI_COMM_WORLD, &req));
    for (int i = 0; i < 100; i++) {
        CHK(MPI_Isend(out.p, 64, MPI_BYTE, right, TAG + 2, MPI_COMM_WORLD, &req));
        CHK(MPI_Request_free(&req));
    }
    CHK(MPI_Isend(out.p, 1 << 20, MPI_BYTE, right, TAG + 3, MPI_COMM_WORLD, &req));
    chk_phase("finalize with messages on their way");
    MPI_Finalize();
    return status;
}

static void __attribute__((noreturn)) mode_early(void)
{
    some_traffic(5);
    chk_expect_end();
    if (chk_rank == chk_np - 1) {
        exit(0);
    }
    chk_phase("waiting for the launcher to end the job");
    for (;;) {
        exchange(20000);
    }
}

static void __attribute__((noreturn)) mode_abort(void)
{
    const int who = (int) (chk_seed % (uint64_t) chk_np);
    chk_expect_end();
    for (int i = 0;; i++) {
        if (i == 20 && chk_rank == who) {
            MPI_Abort(MPI_COMM_WORLD, 7);
        }
        exchange(0 == i % 2 ? 1u << 20 : 64);
    }
}

/* A child that never calls MPI: it may run anything, and its end must not touch what it inherited.
 * */
static void fork_once(int i)
{
    const pid_t pid = fork();
    int status = -1;
    if (0 == pid) {
        if (0 == i % 2) {
            execl("/bin/true", "true", (char *) NULL);
            _exit(9);
        }
        /* a child that reads and writes memory of its own and goes */
        if (in.fd < 0) {
            memset(in.p, i, 4096);
        }
        _exit(0);
    }
    if (pid < 0 || pid != waitpid(pid, &status, 0) || 0 != status) {
        chk_fail("child %d ended with status %d", i, status);
    }
}

/* A helper that outlives many exchanges: the segment must not depend on it, nor it on the segment.
 * */
static pid_t sleeper(void)
{
    const pid_t pid = fork();
    if (0 == pid) {
        execl("/bin/sleep", "sleep", "30", (char *) NULL);
        _exit(9);
    }
    return pid;
}

static int mode_fork(void)
{
    const int n = (int) chk_opt_u64("count", chk_long ? 1000 : 60);
    MPI_Request req[2];
    const int right = (chk_rank + 1) % chk_np;
    const int left = (chk_rank + chk_np - 1) % chk_np;
    chk_buf_t big_out = chk_buf_new(8u << 20);
    chk_buf_t big_in = chk_buf_new(8u << 20);
    const pid_t helper = sleeper();
    for (int i = 0; i < n; i++) {
        const chk_msg_t mine = {chk_rank, TAG + 5, (uint64_t) i, 8u << 20};
        const chk_msg_t theirs = {left, TAG + 5, (uint64_t) i, 8u << 20};
        const bool big = 0 == i % 10;
        chk_phase("fork round %d", i);
        if (big) {
            /* pages of buffers in flight become copy-on-write by the fork */
            chk_fill(&mine, 0, big_out.p, mine.size);
            chk_arm(big_in.p, theirs.size);
            CHK(MPI_Irecv(big_in.p, 8 << 20, MPI_BYTE, left, TAG + 5, MPI_COMM_WORLD, &req[0]));
            CHK(MPI_Isend(big_out.p, 8 << 20, MPI_BYTE, right, TAG + 5, MPI_COMM_WORLD, &req[1]));
        }
        if (0 == i % 3) {
            if (0 != system("true")) {
                chk_fail("system(\"true\") failed");
            }
        } else {
            fork_once(i);
        }
        exchange(0 == i % 2 ? 64 : 40000);
        if (big) {
            CHK(MPI_Waitall(2, req, MPI_STATUSES_IGNORE));
            chk_received(&theirs, big_in.p, theirs.size, theirs.size);
        }
    }
    kill(helper, SIGKILL);
    waitpid(helper, NULL, 0);
    chk_result("%d children by system, fork and exec on each rank during traffic", n);
    chk_buf_free(&big_out);
    chk_buf_free(&big_in);
    return chk_done();
}

static volatile sig_atomic_t ticks;

static void on_tick(int sig)
{
    (void) sig;
    ticks++;
}

static int mode_signals(void)
{
    struct sigaction sa = {.sa_handler = on_tick}; /* no SA_RESTART: system calls see EINTR */
    struct itimerval every = {{0, 1000}, {0, 1000}};
    const struct itimerval off = {{0, 0}, {0, 0}};
    const int rounds = chk_long ? 60 : 6;
    chk_buf_t big_out = chk_buf_new(64u << 20);
    chk_buf_t big_in = chk_buf_new(64u << 20);
    sigaction(SIGVTALRM, &sa, NULL);
    sigaction(SIGPROF, &sa, NULL);
    setitimer(ITIMER_PROF, &every, NULL);
    for (int i = 0; i < rounds; i++) {
        const int to = (chk_rank + 1) % chk_np;
        const int from = (chk_rank + chk_np - 1) % chk_np;
        const chk_msg_t mine = {chk_rank, TAG + 6, (uint64_t) i, 64u << 20};
        const chk_msg_t theirs = {from, TAG + 6, (uint64_t) i, 64u << 20};
        chk_phase("signals round %d", i);
        chk_fill(&mine, 0, big_out.p, mine.size);
        CHK(MPI_Sendrecv(big_out.p, 64 << 20, MPI_BYTE, to, TAG + 6, big_in.p, 64 << 20, MPI_BYTE,
                         from, TAG + 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        chk_verify(&theirs, 0, big_in.p, theirs.size);
        some_traffic(10);
    }
    setitimer(ITIMER_PROF, &off, NULL);
    if (0 == ticks) {
        chk_fail("no signal was delivered: the test tested nothing");
    }
    chk_result("%d rounds with a signal each millisecond of processor time", rounds);
    chk_buf_free(&big_out);
    chk_buf_free(&big_in);
    return chk_done();
}

int main(int argc, char **argv)
{
    chk_options(argc, argv);
    const char *mode = chk_opt("mode", "delays");
    if (0 == strcmp(mode, "start")) {
        /* before MPI_Init nobody knows its rank: the process id decides */
        chk_rng_t rng = chk_rng(82, (uint64_t) getpid(), 0);
        chk_sleep_ms((unsigned) chk_below(&rng, 51));
    }
    if (MPI_SUCCESS != MPI_Init(&argc, &argv)) {
        return 3;
    }
    chk_started();
    out = chk_buf_new(1u << 20);
    in = chk_buf_new(1u << 20);
    if (0 == strcmp(mode, "delays")) {
        return mode_delays();
    }
    if (0 == strcmp(mode, "unfinished")) {
        return mode_unfinished();
    }
    if (0 == strcmp(mode, "early")) {
        mode_early();
    }
    if (0 == strcmp(mode, "abort")) {
        mode_abort();
    }
    if (0 == strcmp(mode, "fork")) {
        return mode_fork();
    }
    if (0 == strcmp(mode, "signals")) {
        return mode_signals();
    }
    some_traffic(10);
    chk_result("traffic after a start with random delays");
    return chk_done();
}

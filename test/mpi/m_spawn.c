/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * Jobs that meet at run time: MPI_Comm_spawn, MPI_Comm_connect/accept, MPI_Comm_join, each with
 * messages of all sizes over the new communicator, then disconnect, again and again. Resident set,
 * descriptors and files in /dev/shm must not grow with the rounds.
 *
 * Mode "meet": two jobs that were spawned apart get to know each other through a bridge of their
 * parents, so that nobody has told Open MPI to add the one's processes to the other's.
 *
 * The program spawns itself; a child is recognised by its parent communicator.
 * Options: --mode=spawn|connect|join|meet, --rounds=N, --children=N, --max=SIZE, --slack=KIB per round
 * that the runtime (not the transport) is allowed to keep, --helps: two ranks that had a core each before
 * the spawned ones came share out large copies again once these have gone.
 */
#define _GNU_SOURCE
#include "mpi_check.h"

#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#define TAG 800

static size_t max_size;

static size_t size_of(int round, int step)
{
    static const size_t fixed[] = {1, 8, 100, 4000, 4097, 33000, 81920, 1u << 20};
    const size_t n = sizeof(fixed) / sizeof(fixed[0]);
    const size_t size = (size_t) step < n ? fixed[step] : max_size;
    return size > max_size ? max_size : (0 == round % 2 ? size : size - size / 3);
}

/*
 * Everyone on this side exchanges with everyone on the other. side 0 and 1 keep the patterns of
 * both directions apart; ranks are those within the groups.
 */
static void exchange(MPI_Comm inter, int side, int round)
{
    int me;
    int peers;
    CHK(MPI_Comm_rank(inter, &me));
    CHK(MPI_Comm_remote_size(inter, &peers));
    for (int step = 0; step < 9; step++) {
        const size_t size = size_of(round, step);
        for (int p = 0; p < peers; p++) {
            const uint64_t seq = ((uint64_t) round * 16 + (uint64_t) step) * 2;
            const chk_msg_t mine = {me, TAG + step, seq + (uint64_t) side, size};
            const chk_msg_t theirs = {p, TAG + step, seq + (uint64_t) (1 - side), size};
            chk_buf_t out = chk_buf_new(size);
            chk_buf_t in = chk_buf_new(size);
            MPI_Request req[2];
            MPI_Status st[2];
            chk_fill(&mine, 0, out.p, size);
            chk_arm(in.p, size);
            CHK(MPI_Irecv(in.p, (int) size, MPI_BYTE, p, TAG + step, inter, &req[0]));
            CHK(MPI_Isend(out.p, (int) size, MPI_BYTE, p, TAG + step, inter, &req[1]));
            CHK(MPI_Waitall(2, req, st));
            chk_received(&theirs, in.p, size, size);
            chk_status(&theirs, &st[0], size);
            chk_buf_free(&out);
            chk_buf_free(&in);
        }
    }
}

/* Both sides as one: a collective over parents and children. */
static void merged(MPI_Comm inter, int side)
{
    MPI_Comm all;
    int np;
    int one = 1;
    int sum = 0;
    CHK(MPI_Intercomm_merge(inter, side, &all));
    CHK(MPI_Comm_size(all, &np));
    CHK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all));
    if (sum != np) {
        chk_fail("%d ranks answered on the merged communicator of %d", sum, np);
    }
    CHK(MPI_Comm_free(&all));
}

/*
 * A bridge between two spawned jobs. `local` holds one parent, its leader, and all of one job;
 * group 0 is parent 0 with the first job, group 1 is parent 1 with the second. Parents 0 and 1 know
 * each other through `parents`; the jobs do not. Everyone of one job exchanges with everyone of the
 * other.
 */
static void bridge(MPI_Comm local, int group, MPI_Comm parents, int round)
{
    MPI_Comm inter;
    MPI_Comm far;
    int me;
    CHK(MPI_Intercomm_create(local, 0, parents, 1 - group, TAG, &inter));
    /* Without the parents: only processes that have never met. */
    CHK(MPI_Comm_rank(local, &me));
    CHK(MPI_Comm_split(inter, 0 == me ? MPI_UNDEFINED : 1, me, &far));
    if (0 != me) {
        CHK(MPI_Comm_set_errhandler(far, MPI_ERRORS_RETURN));
        exchange(far, group, round);
        CHK(MPI_Comm_free(&far));
    }
    CHK(MPI_Comm_free(&inter));
    CHK(MPI_Comm_free(&local));
}

static void meet_round(char *self, int children, int round)
{
    uint64_t bad = 0;
    MPI_Comm inter[2];
    MPI_Comm with[2];
    MPI_Comm local[2];
    for (int job = 0; job < 2; job++) {
        uint64_t order[4] = {(uint64_t) round, max_size, chk_seed, 1u + (uint64_t) job};
        char *args[] = {"--child", NULL};
        chk_phase("meet round %d, job %d", round, job);
        CHK(MPI_Comm_spawn(self, args, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter[job],
                           MPI_ERRCODES_IGNORE));
        CHK(MPI_Bcast(order, 4, MPI_UINT64_T, 0 == chk_rank ? MPI_ROOT : MPI_PROC_NULL,
                      inter[job]));
        CHK(MPI_Intercomm_merge(inter[job], 0, &with[job]));
    }
    chk_phase("meet round %d", round);
    for (int job = 0; job < 2; job++) {
        CHK(MPI_Comm_split(with[job], job == chk_rank ? 0 : MPI_UNDEFINED, chk_rank, &local[job]));
    }
    if (chk_rank < 2) {
        bridge(local[chk_rank], chk_rank, MPI_COMM_WORLD, round);
    }
    for (int job = 0; job < 2; job++) {
        CHK(MPI_Comm_free(&with[job]));
        CHK(MPI_Reduce(NULL, &bad, 1, MPI_UINT64_T, MPI_SUM,
                       0 == chk_rank ? MPI_ROOT : MPI_PROC_NULL, inter[job]));
        if (0 == chk_rank && 0 != bad) {
            chk_fail("job %d of round %d saw %llu failures", job, round, (unsigned long long) bad);
        }
        CHK(MPI_Comm_disconnect(&inter[job]));
    }
}

/* A child checks as hard as its parents; its failures travel to them as a number. */
static int child(MPI_Comm parent)
{
    uint64_t order[4];
    uint64_t bad;
    CHK(MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN));
    CHK(MPI_Bcast(order, 4, MPI_UINT64_T, 0, parent));
    max_size = order[1];
    chk_seed = order[2];
    if (0 != order[3]) {
        MPI_Comm with;
        MPI_Comm local;
        int me;
        CHK(MPI_Intercomm_merge(parent, 1, &with));
        CHK(MPI_Comm_rank(with, &me));
        CHK(MPI_Comm_split(with, 0, me, &local));
        bridge(local, (int) order[3] - 1, MPI_COMM_NULL, (int) order[0]);
        CHK(MPI_Comm_free(&with));
    } else {
        exchange(parent, 1, (int) order[0]);
        merged(parent, 1);
    }
    bad = chk_failures();
    CHK(MPI_Reduce(&bad, NULL, 1, MPI_UINT64_T, MPI_SUM, 0, parent));
    CHK(MPI_Comm_disconnect(&parent));
    MPI_Finalize();
    return 0;
}

static void spawn_round(char *self, int children, int round)
{
    MPI_Comm inter;
    uint64_t order[4] = {(uint64_t) round, max_size, chk_seed, 0};
    uint64_t bad = 0;
    char *args[] = {"--child", NULL};
    chk_phase("spawn round %d", round);
    CHK(MPI_Comm_spawn(self, args, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                       MPI_ERRCODES_IGNORE));
    CHK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    CHK(MPI_Bcast(order, 4, MPI_UINT64_T, 0 == chk_rank ? MPI_ROOT : MPI_PROC_NULL, inter));
    exchange(inter, 0, round);
    merged(inter, 0);
    CHK(MPI_Reduce(NULL, &bad, 1, MPI_UINT64_T, MPI_SUM, 0 == chk_rank ? MPI_ROOT : MPI_PROC_NULL,
                   inter));
    if (0 == chk_rank && 0 != bad) {
        chk_fail("children of round %d saw %llu failures", round, (unsigned long long) bad);
    }
    CHK(MPI_Comm_disconnect(&inter));
}

/* Two halves of the job meet through a port, as two jobs would. */
static void connect_round(MPI_Comm half, int side, int round)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter;
    chk_phase("connect round %d", round);
    if (0 == chk_rank) {
        CHK(MPI_Open_port(MPI_INFO_NULL, port));
    }
    CHK(MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD));
    if (0 == side) {
        CHK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter));
    } else {
        CHK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter));
    }
    CHK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    exchange(inter, side, round);
    merged(inter, side);
    CHK(MPI_Comm_disconnect(&inter));
    if (0 == chk_rank) {
        CHK(MPI_Close_port(port));
    }
}

/* Pairs of ranks join over a socket that they have for other reasons: here an abstract one. */
static int make_socket(int round)
{
    struct {
        sa_family_t family;
        char path[80];
    } addr = {.family = AF_UNIX};
    socklen_t len = (socklen_t) (offsetof(__typeof__(addr), path) + 1
                                 + (size_t) snprintf(addr.path + 1, sizeof(addr.path) - 1,
                                                     "smx-join-%llu-%d-%d",
                                                     (unsigned long long) chk_seed, chk_rank / 2,
                                                     round));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (0 == chk_rank % 2) {
        int conn;
        if (0 != bind(fd, (struct sockaddr *) &addr, len) || 0 != listen(fd, 1)) {
            chk_fail("cannot listen");
        }
        CHK(MPI_Barrier(MPI_COMM_WORLD));
        conn = accept(fd, NULL, NULL);
        close(fd);
        return conn;
    }
    CHK(MPI_Barrier(MPI_COMM_WORLD));
    if (0 != connect(fd, (struct sockaddr *) &addr, len)) {
        chk_fail("cannot connect");
    }
    return fd;
}

static void join_round(int round)
{
    MPI_Comm inter;
    chk_phase("join round %d", round);
    if ((chk_rank ^ 1) >= chk_np) {
        CHK(MPI_Barrier(MPI_COMM_WORLD));
        return;
    }
    int fd = make_socket(round);
    CHK(MPI_Comm_join(fd, &inter));
    close(fd);
    if (MPI_COMM_NULL == inter) {
        chk_fail("MPI_Comm_join gave no communicator");
        return;
    }
    CHK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    exchange(inter, chk_rank % 2, round);
    CHK(MPI_Comm_disconnect(&inter));
}

/* Rank 0 sends to rank 1 and helps with the copy, which it leaves be while ranks outnumber cores. */
static void help_again(void)
{
    const size_t size = 8u << 20;
    const double start = chk_now();
    uint64_t before = 0;
    uint64_t after = 0;
    int more = 1;
    cpu_set_t set;
    chk_phase("two ranks alone again");
    if (0 != sched_getaffinity(0, sizeof(set), &set) || CPU_COUNT(&set) < chk_np || 2 != chk_np) {
        chk_diag("needs two ranks and a core for each");
        return;
    }
    chk_buf_t buf = chk_buf_new(size);
    (void) chk_pvar("btl_sm_helped_bytes", &before);
    for (uint64_t i = 0; 0 != more; i++) {
        const chk_msg_t msg = {0, TAG, i, size};
        if (0 == chk_rank) {
            chk_fill(&msg, 0, buf.p, size);
            CHK(MPI_Send(buf.p, (int) size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD));
            (void) chk_pvar("btl_sm_helped_bytes", &after);
            more = after == before && chk_now() - start < 20.0;
        } else {
            chk_arm(buf.p, size);
            CHK(MPI_Recv(buf.p, (int) size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            chk_received(&msg, buf.p, size, size);
        }
        CHK(MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD));
    }
    chk_buf_free(&buf);
    if (0 == chk_rank && after == before) {
        chk_fail("rank 0 has not helped with one copy in 20 s");
    }
    chk_result("once the spawned ranks have gone, a sender helps with large copies again");
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    chk_init(argc, argv, MPI_THREAD_SINGLE);
    CHK(MPI_Comm_get_parent(&parent));
    if (MPI_COMM_NULL != parent) {
        return child(parent);
    }
    const char *mode = chk_opt("mode", "spawn");
    const int rounds = (int) chk_opt_u64("rounds", chk_long ? 200 : 8);
    const int children = (int) chk_opt_u64("children", 3);
    /* Open MPI 5.0.7 keeps about 100 KiB for each round of three children, with btl tcp,self as well. */
    const size_t slack = chk_opt_u64("slack", chk_long ? 128 : 512);
    max_size = chk_opt_u64("max", 8u << 20);
    MPI_Comm half;
    const int side = chk_rank % 2;
    if (chk_np < 2 && 0 != strcmp(mode, "spawn")) {
        chk_skip_all("needs two ranks");
    }
    CHK(MPI_Comm_split(MPI_COMM_WORLD, side, chk_rank, &half));

    const int warm = rounds / 4 + 1;
    size_t rss = 0;
    unsigned fds = 0;
    unsigned files = 0;
    for (int round = 0; round < rounds; round++) {
        if (0 == strcmp(mode, "spawn")) {
            spawn_round(argv[0], children, round);
        } else if (0 == strcmp(mode, "meet")) {
            meet_round(argv[0], children, round);
        } else if (0 == strcmp(mode, "connect")) {
            connect_round(half, side, round);
        } else {
            join_round(round);
        }
        chk_watchdog(120);
        if (round + 1 == warm) {
            rss = chk_rss_kib();
            fds = chk_open_fds();
            files = chk_count_files("/dev/shm");
        }
    }
    chk_result("%d rounds of %s, every byte right", rounds, mode);
    if (NULL != chk_opt("helps", NULL)) {
        help_again();
    }
    const size_t grown = chk_rss_kib() > rss ? chk_rss_kib() - rss : 0;
    chk_diag("rank 0 after %d and %d rounds: resident set %zu and %zu KiB, descriptors %u and %u, "
             "files %u and %u",
             warm, rounds, rss, chk_rss_kib(), fds, chk_open_fds(), files,
             chk_count_files("/dev/shm"));
    if (grown > slack * (size_t) (rounds - warm) + 1024) {
        chk_fail("resident set grew by %zu KiB in %d rounds", grown, rounds - warm);
    }
    chk_result("resident set grows by at most %zu KiB a round", slack);
    if (chk_open_fds() > fds + 1) {
        chk_fail("descriptors: %u after %d rounds, %u after %d", fds, warm, chk_open_fds(), rounds);
    }
    if (chk_count_files("/dev/shm") > files) {
        chk_fail("files in /dev/shm: %u after %d rounds, %u after %d", files, warm,
                 chk_count_files("/dev/shm"), rounds);
    }
    chk_result("no descriptor and no file in /dev/shm is left by a round");
    CHK(MPI_Comm_free(&half));
    return chk_done();
}

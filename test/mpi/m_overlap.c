/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * Small messages beside a large one: between the same two ranks an 8-byte ping-pong runs on one
 * communicator while 64 MiB travel on another. All bytes are checked; the latencies are printed and
 * never judged, because the machines that run tests are shared.
 *
 * Options: --size=SIZE of the large message, --rounds=N large messages.
 */
#include "mpi_check.h"

#define MAX_SAMPLES 200000

static double samples[MAX_SAMPLES];

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *) a;
    const double y = *(const double *) b;
    return x < y ? -1 : x > y;
}

static void show(const char *what, size_t n)
{
    if (0 == chk_rank && n > 0) {
        qsort(samples, n, sizeof(*samples), by_value);
        chk_diag("%s: %zu round trips, p50 %.2f us, p99 %.2f us, max %.2f us", what, n,
                 1e6 * samples[n / 2], 1e6 * samples[n * 99 / 100], 1e6 * samples[n - 1]);
    }
}

/* One ping; the first byte of the pattern's place says whether another follows. */
static bool ping(MPI_Comm c, int peer, uint64_t seq, bool more)
{
    const chk_msg_t mine = {chk_rank, 2, seq, 7};
    const chk_msg_t theirs = {peer, 2, seq, 7};
    unsigned char out[8];
    unsigned char in[8];
    out[0] = more;
    chk_fill(&mine, 0, out + 1, 7);
    if (0 == chk_rank % 2) {
        CHK(MPI_Send(out, 8, MPI_BYTE, peer, 2, c));
        CHK(MPI_Recv(in, 8, MPI_BYTE, peer, 2, c, MPI_STATUS_IGNORE));
    } else {
        CHK(MPI_Recv(in, 8, MPI_BYTE, peer, 2, c, MPI_STATUS_IGNORE));
        more = 0 != in[0];
        out[0] = more;
        CHK(MPI_Send(out, 8, MPI_BYTE, peer, 2, c));
    }
    chk_verify(&theirs, 0, in + 1, 7);
    return more;
}

int main(int argc, char **argv)
{
    MPI_Comm small;
    MPI_Comm large;
    chk_init(argc, argv, MPI_THREAD_SINGLE);
    const size_t size = chk_opt_u64("size", 64u << 20);
    const int rounds = (int) chk_opt_u64("rounds", chk_long ? 50 : 4);
    const int peer = chk_rank ^ 1;
    const bool alone = peer >= chk_np;
    if (chk_np < 2) {
        chk_skip_all("needs two ranks");
    }
    CHK(MPI_Comm_dup(MPI_COMM_WORLD, &small));
    CHK(MPI_Comm_dup(MPI_COMM_WORLD, &large));
    chk_buf_t out = chk_buf_new(size);
    chk_buf_t in = chk_buf_new(size);
    uint64_t seq = 0;
    size_t n = 0;

    chk_phase("ping-pong alone");
    for (int i = 0; i < 5000 && !alone; i++) {
        const double t = chk_now();
        ping(small, peer, seq++, true);
        if (i >= 1000) {
            samples[n++] = chk_now() - t;
        }
    }
    show("8 B alone", n);
    chk_result("8 byte ping-pong alone");

    n = 0;
    for (int round = 0; round < rounds && !alone; round++) {
        /* one way, the other way, both ways */
        const bool sends = 2 == round % 3 || chk_rank % 2 == round % 3;
        const bool receives = 2 == round % 3 || chk_rank % 2 != round % 3;
        const chk_msg_t mine = {chk_rank, 1, (uint64_t) round, size};
        const chk_msg_t theirs = {peer, 1, (uint64_t) round, size};
        MPI_Request req[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        chk_phase("beside a large message, round %d", round);
        if (receives) {
            chk_arm(in.p, size);
            CHK(MPI_Irecv(in.p, (int) size, MPI_BYTE, peer, 1, large, &req[0]));
        }
        if (sends) {
            chk_fill(&mine, 0, out.p, size);
        }
        ping(small, peer, seq++, true);
        if (sends) {
            CHK(MPI_Isend(out.p, (int) size, MPI_BYTE, peer, 1, large, &req[1]));
        }
        /* the even rank looks whether its side is done and says so with the next ping */
        for (bool more = true; more;) {
            int done = 0;
            const double t = chk_now();
            CHK(MPI_Testall(2, req, &done, MPI_STATUSES_IGNORE));
            more = ping(small, peer, seq++, !done);
            if (n < MAX_SAMPLES) {
                samples[n++] = chk_now() - t;
            }
        }
        CHK(MPI_Waitall(2, req, MPI_STATUSES_IGNORE));
        if (receives) {
            chk_received(&theirs, in.p, size, size);
        }
    }
    show("8 B beside the large message", n);
    chk_result("%d messages of %zu MiB beside the ping-pong, every byte of both right", rounds,
               size >> 20);
    CHK(MPI_Comm_free(&small));
    CHK(MPI_Comm_free(&large));
    chk_buf_free(&out);
    chk_buf_free(&in);
    return chk_done();
}

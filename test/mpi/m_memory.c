/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * A long run must not grow: after a warm-up that has touched every road, a million messages of the
 * same mix (ten million at level long) leave resident set, mappings and descriptors where they
 * were.
 *
 * Options: --messages=N per rank, --slack=KIB growth that is still called none.
 */
#include "mpi_check.h"

#define TAG    600
#define WINDOW 64
#define SLOT   4096

static int right;
static int left;
static unsigned char *out;
static unsigned char *in;

/* The mix: mostly tiny, some up to the rings' limits, now and then a rendezvous and a large one. */
static size_t size_of(uint64_t i)
{
    if (0 == i % 5000) {
        return 1u << 20;
    }
    if (0 == i % 500) {
        return 81920;
    }
    if (0 == i % 50) {
        return 4041;
    }
    return 0 == i % 3 ? 200 : 8;
}

/* Small messages have a slot each; of the large ones a window never holds two. */
static unsigned char *place(unsigned char *base, int i, size_t size)
{
    return size > SLOT ? base + (size_t) WINDOW * SLOT : base + (size_t) i * SLOT;
}

/* One window: receives are posted before the sends or after them, so both queues are used. */
static void traffic(uint64_t base, bool late, bool check)
{
    MPI_Request req[2 * WINDOW];
    const int recv_from = late ? WINDOW : 0;
    const int send_from = late ? 0 : WINDOW;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < WINDOW; i++) {
            const size_t size = size_of(base + (uint64_t) i);
            if ((0 == pass) != late) {
                CHK(MPI_Irecv(place(in, i, size), (int) size, MPI_BYTE, left, TAG + i % 4,
                              MPI_COMM_WORLD, &req[recv_from + i]));
            } else {
                const chk_msg_t m = {chk_rank, TAG + i % 4, base + (uint64_t) i, size};
                if (check) {
                    chk_fill(&m, 0, place(out, i, size), size);
                }
                CHK(MPI_Isend(place(out, i, size), (int) size, MPI_BYTE, right, TAG + i % 4,
                              MPI_COMM_WORLD, &req[send_from + i]));
            }
        }
    }
    CHK(MPI_Waitall(2 * WINDOW, req, MPI_STATUSES_IGNORE));
    for (int i = 0; check && i < WINDOW; i++) {
        const size_t size = size_of(base + (uint64_t) i);
        const chk_msg_t m = {left, TAG + i % 4, base + (uint64_t) i, size};
        chk_verify(&m, 0, place(in, i, size), size);
    }
}

static unsigned count_maps(void)
{
    unsigned n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    if (NULL == f) {
        return 0;
    }
    for (int c; EOF != (c = fgetc(f));) {
        n += '\n' == c;
    }
    fclose(f);
    return n;
}

int main(int argc, char **argv)
{
    chk_init(argc, argv, MPI_THREAD_SINGLE);
    const uint64_t messages = chk_opt_u64("messages", chk_long ? 10000000 : 1000000);
    const size_t slack = chk_opt_u64("slack", 512);
    const uint64_t warm_up = messages / 5;
    right = (chk_rank + 1) % chk_np;
    left = (chk_rank + chk_np - 1) % chk_np;
    chk_buf_t obuf = chk_buf_new((1u << 20) + SLOT * WINDOW);
    chk_buf_t ibuf = chk_buf_new((1u << 20) + SLOT * WINDOW);
    out = obuf.p;
    in = ibuf.p;
    memset(out, 1, obuf.cap);
    memset(in, 2, ibuf.cap);

    size_t rss = 0;
    size_t highest = 0;
    unsigned fds = 0;
    unsigned maps = 0;
    for (uint64_t i = 0; i < messages; i += WINDOW) {
        if (0 == rss && i >= warm_up) {
            CHK(MPI_Barrier(MPI_COMM_WORLD));
            rss = chk_rss_kib();
            highest = rss;
            fds = chk_open_fds();
            maps = count_maps();
        }
        chk_phase("message %llu", (unsigned long long) i);
        traffic(i, 0 == i / WINDOW % 3, 0 == i / WINDOW % 8);
        if (0 != rss && 0 == i / WINDOW % 1000) {
            const size_t now = chk_rss_kib();
            highest = now > highest ? now : highest;
            chk_watchdog(300);
        }
    }
    CHK(MPI_Barrier(MPI_COMM_WORLD));
    const size_t last = chk_rss_kib();
    chk_diag("rank 0: resident set %zu KiB after warm-up, %zu at the end, %zu highest", rss, last,
             highest);
    if (last > rss + slack) {
        chk_fail("resident set grew from %zu to %zu KiB over %llu messages", rss, last,
                 (unsigned long long) (messages - warm_up));
    }
    chk_result("resident set stays within %zu KiB over %llu messages per rank", slack,
               (unsigned long long) (messages - warm_up));
    if (chk_open_fds() != fds) {
        chk_fail("descriptors: %u after warm-up, %u at the end", fds, chk_open_fds());
    }
    if (count_maps() > maps + 2) {
        chk_fail("mappings: %u after warm-up, %u at the end", maps, count_maps());
    }
    chk_result("descriptors and mappings stay as they were");
    chk_buf_free(&obuf);
    chk_buf_free(&ibuf);
    return chk_done();
}

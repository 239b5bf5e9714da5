/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * Looking is not waiting. A program that calls MPI_Test or MPI_Iprobe has work of its own to go
 * back to, so these calls must never put the process to sleep, however often nothing has arrived;
 * a process in MPI_Recv may sleep where ranks outnumber cores. Both are read off the transport's
 * counter of sleeps. hpcc's RandomAccess on more ranks than cores is such a program.
 *
 * Options: --ms=N how long to look in each way.
 */
#include "mpi_check.h"

#define TAG  1000
#define NAPS "btl_sm_naps"

static MPI_Request request;

/* The ways to look; each says whether the message is there. */
static int by_test(void)
{
    int flag = 0;
    CHK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    return flag;
}

static int by_testany(void)
{
    int flag = 0;
    int index;
    CHK(MPI_Testany(1, &request, &index, &flag, MPI_STATUS_IGNORE));
    return flag;
}

static int by_testall(void)
{
    int flag = 0;
    CHK(MPI_Testall(1, &request, &flag, MPI_STATUSES_IGNORE));
    return flag;
}

static int by_testsome(void)
{
    int count = 0;
    int index;
    CHK(MPI_Testsome(1, &request, &count, &index, MPI_STATUSES_IGNORE));
    return count > 0;
}

static int by_status(void)
{
    int flag = 0;
    CHK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
    return flag;
}

static int by_iprobe(void)
{
    int flag = 0;
    CHK(MPI_Iprobe(MPI_ANY_SOURCE, TAG + 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    return flag;
}

static int by_improbe(void)
{
    int flag = 0;
    MPI_Message message;
    CHK(MPI_Improbe(MPI_ANY_SOURCE, TAG + 1, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE));
    return flag;
}

static const struct {
    const char *name;
    int (*look)(void);
} ways[] = {
    {"MPI_Test", by_test},
    {"MPI_Testany", by_testany},
    {"MPI_Testall", by_testall},
    {"MPI_Testsome", by_testsome},
    {"MPI_Request_get_status", by_status},
    {"MPI_Iprobe", by_iprobe},
    {"MPI_Improbe", by_improbe},
};

/* Nobody sends anything while all ranks look. */
static void looking(int (*look)(void), const char *name, double seconds)
{
    uint64_t before = 0;
    uint64_t after = 0;
    bool counted = chk_pvar(NAPS, &before);
    const double end = chk_now() + seconds;
    chk_phase("%s", name);
    while (chk_now() < end) {
        if (look()) {
            chk_fail("%s found a message that nobody has sent", name);
        }
    }
    counted = counted && chk_pvar(NAPS, &after);
    if (after != before) {
        chk_fail("%llu sleeps inside %s", (unsigned long long) (after - before), name);
    }
    chk_result("%s does not sleep%s", name, counted ? "" : " (the transport counts no sleeps)");
}

int main(int argc, char **argv)
{
    int sent = 0;
    int got = 0;
    uint64_t before;
    uint64_t after;
    chk_init(argc, argv, MPI_THREAD_SINGLE);
    const double seconds = (double) chk_opt_u64("ms", chk_long ? 500 : 30) / 1e3;
    const int right = (chk_rank + 1) % chk_np;
    const int left = (chk_rank + chk_np - 1) % chk_np;

    CHK(MPI_Irecv(&got, 1, MPI_INT, left, TAG, MPI_COMM_WORLD, &request));
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        CHK(MPI_Barrier(MPI_COMM_WORLD));
        looking(ways[i].look, ways[i].name, seconds);
    }
    sent = chk_rank + 1;
    CHK(MPI_Send(&sent, 1, MPI_INT, right, TAG, MPI_COMM_WORLD));
    CHK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (left + 1 != got) {
        chk_fail("expected %d, got %d", left + 1, got);
    }
    chk_result("what was looked for arrives in the end");

    /* The counter can move at all: everybody waits for the first rank, which is busy elsewhere. */
    const bool counts = chk_pvar_sum(NAPS, &before);
    if (0 == chk_rank) {
        chk_sleep_ms(200);
    }
    CHK(MPI_Barrier(MPI_COMM_WORLD));
    if (counts && chk_pvar_sum(NAPS, &after)) {
        chk_diag("sleeps while waiting: %llu", (unsigned long long) (after - before));
        if (NULL != chk_opt("sleeps", NULL) && after == before) {
            chk_fail("nobody slept in MPI_Barrier");
        }
        chk_result("who waits %s", NULL != chk_opt("sleeps", NULL) ? "sleeps" : "returns");
    }
    return chk_done();
}

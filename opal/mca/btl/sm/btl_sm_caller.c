/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Does the program wait, or did it only come to look?
 *
 * Layer 1. Called by progress before it puts the process to sleep, some thousand times a second
 * at most. Must never be called where time matters: unwinding the stack takes microseconds.
 *
 * A program that calls MPI_Test or MPI_Iprobe has work of its own to go back to. hpcc's
 * RandomAccess, four ranks on two cores, took 55 s instead of 0.5 s while looking could mean
 * sleeping: all slept, each with updates it had not sent yet. Open MPI 5.0 says who waits with
 * threads only (its list of waiters); without, a wait for one request is a loop around progress
 * like any other, and the stack is the only thing that tells.
 */
#include "opal_config.h"

#include <dlfcn.h>
#include <string.h>
#if MCA_BTL_SM_BACKTRACE
#    include <execinfo.h>
#endif

#include "opal/mca/threads/thread_usage.h"
#include "opal/mca/threads/wait_sync.h"

#include "btl_sm.h"

#if MCA_BTL_SM_BACKTRACE
/** Frames to look at: from here to the MPI call there are ten or so, in collectives some more. */
#    define FRAMES 40

/** Calls that return whether or not anything has arrived; and the start, where it is not messages
 *  that are waited for. Each stands for all names that begin so. */
static const char *const looks[] = {"Test",     "Iprobe",   "Improbe", "Request_get_status",
                                    "Parrived", "Win_test", "Init",    "Session_init"};

/** Is this the name of an MPI call, as the profiling interface has it? What follows the prefix, or NULL. */
static const char *mpi_call(const char *name)
{
    return NULL == name                             ? NULL
           : 0 == strncmp(name, "PMPI_", 5)         ? name + 5
           : 0 == strncmp(name, "MPI_", 4)          ? name + 4
           : 0 == strcmp(name, "ompi_mpi_finalize") ? "Finalize" /* MPI_Finalize only jumps there */
                                                    : NULL;
}

/** The innermost MPI call on the stack is one that waits. No call found: nobody knows, so no. */
static bool stack_waits(void)
{
    void *frames[FRAMES];
    const int count = backtrace(frames, FRAMES);

    for (int i = 0; i < count; ++i) {
        Dl_info info;
        const char *call;

        if (0 == dladdr(frames[i], &info) || NULL == (call = mpi_call(info.dli_sname))) {
            continue;
        }
        for (size_t k = 0; k < sizeof(looks) / sizeof(looks[0]); ++k) {
            if (0 == strncmp(call, looks[k], strlen(looks[k]))) {
                return false;
            }
        }
        return true;
    }
    return false;
}
#else
static bool stack_waits(void)
{
    return false;
}
#endif

bool mca_btl_sm_caller_waits(void)
{
    if (NULL != opal_threads_base_wait_sync_list) {
        return true;
    }
    return !opal_using_threads() && stack_waits();
}

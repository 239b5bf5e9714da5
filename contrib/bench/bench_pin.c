/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * bench_pin [--maps LIBRARY] PROGRAM [ARGUMENTS]: start a program that does not pin itself (hpcc,
 * IMB, applications) with rank r of this node on the r-th core that it may use, as the project's
 * own programs do, and with LIBRARY (bench_maps.c) preloaded so that it can be proved which
 * component files it used.
 *
 * Layer: pure C11 + Linux. Called by the driver between mpirun and the program.
 */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif
#include "bench_common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int first = 1;
    if (first + 1 < argc && 0 == strcmp(argv[first], "--maps")) {
        setenv("LD_PRELOAD", argv[first + 1], 1);
        first += 2;
    }
    if (first >= argc) {
        fputs("usage: bench_pin [--maps LIBRARY] PROGRAM [ARGUMENTS]\n", stderr);
        return 2;
    }
    int rank = bench_env_local_rank();
    if (0 > rank || 0 > bench_pin(rank)) {
        fputs("bench_pin: not pinned, because the launcher does not tell the local rank\n", stderr);
    }
    execvp(argv[first], argv + first);
    fprintf(stderr, "bench_pin: %s: %s\n", argv[first], strerror(errno));
    return 127;
}

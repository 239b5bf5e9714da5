/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A library to preload into programs that are not ours: when they finalize MPI it writes the
 * component files that the process has mapped to $BENCH_MAPS_DIR/maps.RANK. Later would be too
 * late, since MPI unmaps its plugins in finalize; earlier, since some are opened at first use.
 *
 * Layer: pure C + Linux; needs no mpi.h, so that one build serves every MPI.
 */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif
#include "bench_common.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>

static void write_maps(void)
{
    static char text[65536];
    char path[PATH_MAX];
    const char *folder = getenv("BENCH_MAPS_DIR");
    if (NULL == folder) {
        return;
    }
    snprintf(path, sizeof(path), "%s/maps.%d", folder, bench_env_local_rank());
    FILE *f = fopen(path, "w");
    if (NULL != f) {
        bench_maps(text, sizeof(text));
        fputs(text, f);
        fclose(f);
    }
}

__attribute__((visibility("default"))) int MPI_Finalize(void);
__attribute__((visibility("default"))) void mpi_finalize_(int *code);

/** Stands before the MPI library's function of that name and goes on to it. */
int MPI_Finalize(void)
{
    int (*next)(void) = (int (*)(void)) dlsym(RTLD_NEXT, "MPI_Finalize");
    write_maps();
    return NULL != next ? next() : 1;
}

/** The same for Fortran programs, whose binding need not pass through the C function. */
void mpi_finalize_(int *code)
{
    void (*next)(int *) = (void (*)(int *)) dlsym(RTLD_NEXT, "mpi_finalize_");
    write_maps();
    if (NULL != next) {
        next(code);
    }
}

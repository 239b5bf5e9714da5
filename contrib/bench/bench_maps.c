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
#include <string.h>

static void write_maps(const char *text)
{
    char path[PATH_MAX];
    const char *folder = getenv("BENCH_MAPS_DIR");
    if (NULL == folder) {
        return;
    }
    snprintf(path, sizeof(path), "%s/maps.%d", folder, bench_env_local_rank());
    FILE *f = fopen(path, "w");
    if (NULL != f) {
        fputs(text, f);
        fclose(f);
    }
}

/* The MPI library's own function. Where an interpreter has loaded the library for itself alone,
 * the next object in search order does not have it; its file does. */
static void *original(const char *name, char *maps)
{
    void *found = dlsym(RTLD_NEXT, name);
    char *save = NULL;
    for (char *line = strtok_r(maps, "\n", &save); NULL == found && NULL != line;
         line = strtok_r(NULL, "\n", &save)) {
        const char *base = strrchr(line, '/');
        if (NULL != base && 0 == strncmp(base, "/libmpi", 7)) {
            void *library = dlopen(line, RTLD_NOLOAD | RTLD_LAZY);
            found = NULL != library ? dlsym(library, name) : NULL;
        }
    }
    return found;
}

__attribute__((visibility("default"))) int MPI_Finalize(void);
__attribute__((visibility("default"))) void mpi_finalize_(int *code);

static char maps[65536];

/** Stands before the MPI library's function of that name and goes on to it. */
int MPI_Finalize(void)
{
    bench_maps(maps, sizeof(maps));
    write_maps(maps);
    int (*next)(void) = (int (*)(void)) original("MPI_Finalize", maps);
    return NULL != next ? next() : 1;
}

/** The same for Fortran programs, whose binding need not pass through the C function. */
void mpi_finalize_(int *code)
{
    bench_maps(maps, sizeof(maps));
    write_maps(maps);
    void (*next)(int *) = (void (*)(int *)) original("mpi_finalize_", maps);
    if (NULL != next) {
        next(code);
    }
}

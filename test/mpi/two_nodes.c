/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * Makes a machine with one memory node look as if it had several, and writes down what is asked of
 * hwloc. Preloaded by the runner; SMX_ONLINE names the file that is read in place of the kernel's list
 * of nodes.
 *
 * Writes to the file SMX_NODES.PID one line per hwloc_set_area_membind: bytes, number of nodes,
 * pages of the area that have memory already (the order matters: a policy does not move pages).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <hwloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int open(const char *path, int flags, ...)
{
    static int (*next)(const char *, int, ...);
    va_list rest;
    mode_t mode = 0;

    if (NULL == next) {
        *(void **) &next = dlsym(RTLD_NEXT, "open");
    }
    va_start(rest, flags);
    if (0 != (flags & (O_CREAT | __O_TMPFILE))) {
        mode = va_arg(rest, mode_t);
    }
    va_end(rest);
    if (0 == strcmp("/sys/devices/system/node/online", path)) {
        const char *fake = getenv("SMX_ONLINE");
        if (NULL != fake) {
            path = fake;
        }
    }
    return next(path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int hwloc_set_area_membind(hwloc_topology_t topology, const void *addr, size_t len,
                           hwloc_const_bitmap_t set, hwloc_membind_policy_t policy, int flags)
{
    const char *to = getenv("SMX_NODES");
    unsigned char *there = malloc(len / 4096 + 1);
    size_t pages = 0;
    char path[512];

    (void) topology;
    (void) policy;
    (void) flags;
    if (NULL != to && NULL != there && 0 == mincore((void *) (size_t) addr, len, there)) {
        FILE *f;
        for (size_t i = 0; i < len / 4096; ++i) {
            pages += there[i] & 1;
        }
        (void) snprintf(path, sizeof(path), "%s.%d", to, (int) getpid());
        f = fopen(path, "a");
        if (NULL != f) {
            fprintf(f, "bytes %zu nodes %d pages %zu\n", len, hwloc_bitmap_weight(set), pages);
            fclose(f);
        }
    }
    free(there);
    return 0;
}

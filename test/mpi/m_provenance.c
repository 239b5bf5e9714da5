/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * Which files does a rank really run? Read from the process's own map list, never from what a
 * parameter asked for. The runner starts it before anything else: a test of the wrong component
 * proves nothing.
 *
 * Options: --expect=ours|built-in|none, what the plugin folder SMX_PLUGIN_DIR must contribute to
 * each rank: ours = both mca_smsc_cma.so and mca_btl_sm.so are mapped from there, built-in =
 * neither; --want=name[,name...] plugin files that must be mapped from there, --not=name[,...]
 * that must not.
 */
#include "mpi_check.h"

#include <stdlib.h>

#define MAX_FILES 256

static char *files[MAX_FILES];
static size_t nfiles;

/* Every mapped file whose name looks like an MCA plugin, plus the library that carries the others.
 * */
static void read_maps(void)
{
    char line[4400];
    FILE *f = fopen("/proc/self/maps", "r");
    if (NULL == f) {
        chk_fail("cannot read /proc/self/maps");
        return;
    }
    while (NULL != fgets(line, sizeof(line), f)) {
        char *path = strchr(line, '/');
        if (NULL == path) {
            continue;
        }
        path[strcspn(path, "\n")] = '\0';
        const char *base = strrchr(path, '/') + 1;
        if (0 != strncmp(base, "mca_", 4) && 0 != strncmp(base, "libopen-pal", 11)) {
            continue;
        }
        bool known = false;
        for (size_t i = 0; i < nfiles; i++) {
            known = known || 0 == strcmp(files[i], path);
        }
        if (!known && nfiles < MAX_FILES) {
            files[nfiles++] = strdup(path);
        }
    }
    fclose(f);
}

/* The path a plugin of that name was mapped from, NULL when none was. */
static const char *mapped(const char *name)
{
    for (size_t i = 0; i < nfiles; i++) {
        const char *base = strrchr(files[i], '/') + 1;
        const size_t len = strlen(name);
        if (0 == strncmp(base, name, len)
            && (0 == strcmp(base + len, ".so") || '\0' == base[len])) {
            return files[i];
        }
    }
    return NULL;
}

static bool is_ours(const char *path, const char *dir)
{
    return NULL != path && NULL != dir && 0 == strncmp(path, dir, strlen(dir))
           && '/' == path[strlen(dir)];
}

static void expect(const char *name, const char *dir, bool ours)
{
    const char *path = mapped(name);
    if (is_ours(path, dir) != ours) {
        chk_fail("%s is %s, expected %s%s", name, NULL == path ? "not a mapped plugin" : path,
                 ours ? "a file in " : "anything but a file in ", dir);
    }
    chk_result("%s of every rank is %s", name,
               ours ? "the plugin under test" : "not the plugin under test");
}

static void expect_list(const char *list, const char *dir, bool ours)
{
    char name[128];
    while (NULL != list && '\0' != *list) {
        const size_t len = strcspn(list, ",");
        snprintf(name, sizeof(name), "%.*s", (int) len, list);
        expect(name, dir, ours);
        list += len + (',' == list[len] ? 1 : 0);
    }
}

int main(int argc, char **argv)
{
    char real_dir[4096] = "";
    chk_init(argc, argv, MPI_THREAD_SINGLE);
    const char *want = chk_opt("expect", "none");
    const char *dir = chk_opt("dir", getenv("SMX_PLUGIN_DIR"));
    if (NULL != dir && NULL != realpath(dir, real_dir)) {
        dir = real_dir;
    }
    read_maps();
    for (size_t i = 0; i < nfiles; i++) {
        if (0 == chk_rank && NULL == strstr(files[i], "libopen-pal")
            && (is_ours(files[i], dir) || NULL != strstr(files[i], "mca_btl")
                || NULL != strstr(files[i], "mca_smsc"))) {
            chk_diag("mapped: %s", files[i]);
        }
    }

    /* A message between each pair, so that a transport that only loads but cannot work shows. */
    int token = chk_rank;
    int got = -1;
    for (int d = 1; d < chk_np; d++) {
        const int to = (chk_rank + d) % chk_np;
        const int from = (chk_rank + chk_np - d) % chk_np;
        CHK(MPI_Sendrecv(&token, 1, MPI_INT, to, 1, &got, 1, MPI_INT, from, 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE));
        if (got != from) {
            chk_fail("token from peer %d: expected %d got %d", from, from, got);
        }
    }
    chk_result("every pair of ranks can talk");

    if (NULL == mapped("libopen-pal") && NULL == mapped("libopen-pal.so.80")) {
        chk_diag("libopen-pal is not mapped: a static build or another MPI");
    }
    if (0 == strcmp(want, "ours") || 0 == strcmp(want, "built-in")) {
        const bool ours = 0 == strcmp(want, "ours");
        if (NULL == dir) {
            chk_fail("SMX_PLUGIN_DIR is not set");
            chk_result("the plugin folder is known");
        } else {
            expect("mca_smsc_cma", dir, ours);
            expect("mca_btl_sm", dir, ours);
        }
    }
    expect_list(chk_opt("want", NULL), dir, true);
    expect_list(chk_opt("not", NULL), dir, false);
    return chk_done();
}

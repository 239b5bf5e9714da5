/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * Preloaded into a rank, does to it from inside what nobody can do from outside. SMX_FAULT is a list of:
 *
 *   undumpable        the process is not dumpable from its start, as a setgid program is not
 *   undumpable:MS     it becomes so MS milliseconds after its PMIx_Init, in the middle of traffic
 *   net               it enters a network namespace of its own after PMIx_Init. An earlier moment
 *                     would cut it off from its launcher, whose socket stays open this way
 *   slow:MS           it takes MS milliseconds to open a segment by its name, which stays for so long
 *   fail:N            the Nth allocation (memory, file blocks, descriptor) that one of our plugins
 *                     asks for fails, no other one
 *
 * With SMX_FAULT_COUNT=FILE each process adds a line to that file at its end: how many allocations
 * the plugins asked for.
 *
 * Layer: test, preloaded by test/faults/run and by nobody else.
 */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE 1
#endif

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* glibc's own names of what is replaced here: no search for them is needed before main. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

/* Where the code of our plugins lies. Written while dlopen holds its lock, read without it: entries
 * only ever come, and the number is published last. */
static struct {
    uintptr_t start;
    uintptr_t end;
} plugins[8];
static atomic_uint plugin_count;

static atomic_long seen;
static long victim = -1;

/** The text that follows "word:" in SMX_FAULT, "" if the word stands alone, NULL if it is missing. */
static const char *asked(const char *word)
{
    const char *at = getenv("SMX_FAULT");
    const size_t len = strlen(word);

    for (; NULL != at && '\0' != *at; at += strcspn(at, " "), at += strspn(at, " ")) {
        if (0 == strncmp(at, word, len)) {
            if (':' == at[len]) {
                return at + len + 1;
            }
            if (' ' == at[len] || '\0' == at[len]) {
                return "";
            }
        }
    }
    return NULL;
}

static int note_plugin(struct dl_phdr_info *info, size_t size, void *arg)
{
    const unsigned n = atomic_load(&plugin_count);

    (void) size;
    (void) arg;
    if (NULL == info->dlpi_name
        || (NULL == strstr(info->dlpi_name, "mca_btl_sm.so")
            && NULL == strstr(info->dlpi_name, "mca_smsc_cma.so"))) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

        if (PT_LOAD == segment->p_type && 0 != (segment->p_flags & PF_X) && 8 > n) {
            const uintptr_t start = info->dlpi_addr + segment->p_vaddr;

            for (unsigned k = 0; k < n; ++k) {
                if (plugins[k].start == start) {
                    return 0;
                }
            }
            plugins[n].start = start;
            plugins[n].end = start + segment->p_memsz;
            atomic_store(&plugin_count, n + 1);
            return 0;
        }
    }
    return 0;
}

/** Is this call, which returns to `caller`, the one that must fail? */
static int fails(const void *caller)
{
    const uintptr_t at = (uintptr_t) caller;
    const unsigned n = atomic_load(&plugin_count);

    for (unsigned i = 0; i < n; ++i) {
        if (at >= plugins[i].start && at < plugins[i].end) {
            return atomic_fetch_add(&seen, 1) == victim;
        }
    }
    return 0;
}

#define FAILS()    fails(__builtin_return_address(0))
#define NEXT(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

void *dlopen(const char *file, int mode)
{
    void *handle = NEXT(dlopen)(file, mode);

    if (NULL != handle && NULL != file) {
        (void) dl_iterate_phdr(note_plugin, NULL);
    }
    return handle;
}

void *malloc(size_t size)
{
    if (FAILS()) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    if (FAILS()) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    if (FAILS()) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(old, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    if (FAILS()) {
        return ENOMEM;
    }
    *out = __libc_memalign(alignment, size);
    return NULL == *out ? ENOMEM : 0;
}

void *mmap(void *start, size_t len, int protection, int flags, int fd, off_t offset)
{
    if (FAILS()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return NEXT(mmap)(start, len, protection, flags, fd, offset);
}

int ftruncate(int fd, off_t len)
{
    if (FAILS()) {
        errno = ENOSPC;
        return -1;
    }
    return NEXT(ftruncate)(fd, len);
}

int fallocate(int fd, int mode, off_t offset, off_t len)
{
    if (FAILS()) {
        errno = ENOSPC;
        return -1;
    }
    return NEXT(fallocate)(fd, mode, offset, len);
}

static void nap_ms(long ms)
{
    struct timespec nap = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    while (0 != nanosleep(&nap, &nap)) {
    }
}

int open(const char *path, int flags, ...)
{
    const char *slow = NULL == strstr(path, "/openmpi-sm.") ? NULL : asked("slow");
    mode_t mode = 0;

    if (0 != (flags & (O_CREAT | O_TMPFILE))) {
        va_list values;

        va_start(values, flags);
        mode = va_arg(values, mode_t);
        va_end(values);
    }
    if (FAILS()) {
        errno = EMFILE;
        return -1;
    }
    if (NULL != slow) {
        nap_ms(atol(slow));
    }
    return NEXT(open)(path, flags, mode);
}

int epoll_create1(int flags);
int epoll_create1(int flags)
{
    if (FAILS()) {
        errno = EMFILE;
        return -1;
    }
    return (int) syscall(SYS_epoll_create1, flags);
}

/* memfd_create and pidfd_open come this way, and the futex calls and copies, which allocate nothing. */
long syscall(long number, ...)
{
    long value[6];
    va_list values;

    va_start(values, number);
    for (int i = 0; i < 6; ++i) {
        value[i] = va_arg(values, long);
    }
    va_end(values);
    if ((SYS_memfd_create == number || SYS_pidfd_open == number) && FAILS()) {
        errno = EMFILE;
        return -1;
    }
    return NEXT(syscall)(number, value[0], value[1], value[2], value[3], value[4], value[5]);
}

static void *becomes_undumpable(void *arg)
{
    nap_ms((long) (intptr_t) arg);
    (void) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return NULL;
}

/* The types of pmix.h do not matter here, the arguments only pass through. */
int PMIx_Init(void *process, void *info, size_t count);
int PMIx_Init(void *process, void *info, size_t count)
{
    static atomic_int once;
    const int rc = NEXT(PMIx_Init)(process, info, count);
    const char *delay = asked("undumpable");
    pthread_t thread;

    if (0 != rc || 0 != atomic_fetch_add(&once, 1)) {
        return rc;
    }
    if (NULL != asked("net") && 0 != unshare(CLONE_NEWNET)) {
        fprintf(stderr, "rank_fault: no network namespace: %s\n", strerror(errno));
    }
    if (NULL != delay && '\0' != *delay
        && 0
               == pthread_create(&thread, NULL, becomes_undumpable,
                                 (void *) (intptr_t) atol(delay))) {
        pthread_detach(thread);
    }
    return rc;
}

static void __attribute__((constructor)) start(void)
{
    const char *number = asked("fail");
    const char *delay = asked("undumpable");

    if (NULL != number) {
        victim = atol(number) - 1;
    }
    if (NULL != delay && '\0' == *delay) {
        (void) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
}

static void __attribute__((destructor)) end(void)
{
    const char *path = getenv("SMX_FAULT_COUNT");
    char line[32];
    int fd;

    if (NULL == path || 0 == atomic_load(&plugin_count)) {
        return;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (0 <= fd) {
        const int n = snprintf(line, sizeof(line), "%ld\n", atomic_load(&seen));

        if (n != write(fd, line, (size_t) n)) {
            (void) unlink(path); /* half a number must not be taken for one */
        }
        close(fd);
    }
}

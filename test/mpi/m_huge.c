/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * Messages around the limits of 31 and 32 bits: 2^31 - 1, 2^31, 2^31 + 1, 2^32 + 3 bytes and those
 * around 0x7ffff000, the most that one system call moves, at offsets 0, 1 and 4095.
 *
 * The source costs little memory: its pages repeat. The period is a prime number of pages, so that
 * a chunk delivered to a place that is off by any power of two is noticed. The destination is real
 * memory where the machine has it; else its pages repeat too, and then a chunk that is missing as a
 * whole can hide, which the output says.
 *
 * Options: --sizes=A,B,... instead of the list, --small destination with repeated pages.
 */
#define _GNU_SOURCE
#include "mpi_check.h"

#include <sys/mman.h>
#include <unistd.h>

#define PERIOD_PAGES 16381u /* prime, just below 64 MiB of 4 KiB pages */
#define UNIT         (1u << 20)
#define TAG          700

static size_t page;
static size_t period;

/* Address space of len bytes and a page in front and behind whose pages repeat after one period. */
static unsigned char *map_repeated(size_t len)
{
    int fd = memfd_create("smx-huge", MFD_CLOEXEC);
    const size_t whole = (len + period - 1) / period * period;
    if (fd < 0 || 0 != ftruncate(fd, (off_t) period)) {
        return NULL;
    }
    unsigned char *p = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                            0);
    for (size_t at = 0; MAP_FAILED != p && at < whole; at += period) {
        if (MAP_FAILED
            == mmap(p + at, period, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0)) {
            return NULL;
        }
    }
    close(fd);
    return MAP_FAILED == p ? NULL : p;
}

static size_t available_bytes(void)
{
    char line[128];
    size_t kib = 0;
    FILE *f = fopen("/proc/meminfo", "r");
    while (NULL != f && NULL != fgets(line, sizeof(line), f)) {
        if (1 == sscanf(line, "MemAvailable: %zu kB", &kib)) {
            break;
        }
    }
    if (NULL != f) {
        fclose(f);
    }
    return kib << 10;
}

/* A contiguous type of any number of bytes: counts are ints. */
static MPI_Datatype type_of(size_t bytes)
{
    MPI_Datatype unit;
    MPI_Datatype type;
    int lens[2] = {(int) (bytes / UNIT), (int) (bytes % UNIT)};
    MPI_Aint disps[2] = {0, (MPI_Aint) (bytes / UNIT * UNIT)};
    CHK(MPI_Type_contiguous(UNIT, MPI_BYTE, &unit));
    MPI_Datatype types[2] = {unit, MPI_BYTE};
    CHK(MPI_Type_create_struct(2, lens, disps, types, &type));
    CHK(MPI_Type_commit(&type));
    CHK(MPI_Type_free(&unit));
    return type;
}

/* Compare with the source's period; the destination starts at another offset than the source. */
static void verify(const unsigned char *got, const unsigned char *pattern, size_t start, size_t len,
                   size_t size)
{
    for (size_t off = 0; off < len;) {
        const size_t in_period = (start + off) % period;
        size_t n = period - in_period;
        n = n > len - off ? len - off : n;
        if (0 != memcmp(got + off, pattern + in_period, n)) {
            for (size_t i = 0; i < n; i++) {
                if (got[off + i] != pattern[in_period + i]) {
                    chk_fail("message from peer 0 size %zu: offset %zu expected 0x%02x got 0x%02x",
                             size, off + i, pattern[in_period + i], got[off + i]);
                    return;
                }
            }
        }
        off += n;
    }
}

static bool small_memory;

static void transfer(size_t size, size_t off, bool window)
{
    const size_t span = size + 2 * page + CHK_GUARD;
    const chk_msg_t m = {0, TAG, 0, period};
    MPI_Datatype type = type_of(size);
    MPI_Status st;
    unsigned char *src = NULL;
    unsigned char *dst = NULL;
    unsigned char *expected = NULL;
    size_t len = span;
    chk_phase("%s of %zu bytes at offset %zu", window ? "Put" : "message", size, off);
    if (0 == chk_rank) {
        src = map_repeated(span);
        if (NULL == src) {
            chk_fail("no address space for %zu bytes", span);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
        chk_fill(&m, 0, src, period);
    } else {
        /* private pages, so that each byte has a place of its own */
        dst = small_memory ? map_repeated(span)
                           : mmap(NULL, span, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        expected = malloc(period);
        if (NULL == dst || MAP_FAILED == (void *) dst || NULL == expected) {
            chk_fail("no memory for %zu bytes", span);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
        chk_fill(&m, 0, expected, period);
        len = small_memory ? (span + period - 1) / period * period : span;
    }
    if (window) {
        MPI_Win win;
        CHK(MPI_Win_create(0 == chk_rank ? NULL : dst, 0 == chk_rank ? 0 : (MPI_Aint) span, 1,
                           MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        CHK(MPI_Win_fence(0, win));
        if (0 == chk_rank) {
            CHK(MPI_Put(src + 17, 1, type, 1, (MPI_Aint) (page + off), 1, type, win));
        }
        CHK(MPI_Win_fence(0, win));
        CHK(MPI_Win_free(&win));
    } else if (0 == chk_rank) {
        CHK(MPI_Send(src + 17, 1, type, 1, TAG, MPI_COMM_WORLD));
    } else {
        CHK(MPI_Recv(dst + page + off, 1, type, 0, TAG, MPI_COMM_WORLD, &st));
        chk_status(&m, &st, SIZE_MAX);
        MPI_Count n = -1;
        CHK(MPI_Get_elements_x(&st, MPI_BYTE, &n));
        if (n != (MPI_Count) size) {
            chk_fail("message from peer 0: expected %zu bytes got %lld", size, (long long) n);
        }
    }
    if (0 == chk_rank) {
        munmap(src, (span + period - 1) / period * period);
    } else {
        unsigned char *first = dst + page + off;
        if (!small_memory) {
            verify(first, expected, 17, size, size);
            for (size_t i = 1; i <= CHK_GUARD; i++) {
                if (0 != first[-(ptrdiff_t) i] || 0 != first[size + i - 1]) {
                    chk_fail("message from peer 0 size %zu: byte %zu outside was written", size, i);
                    break;
                }
            }
        } else {
            /* the last period is what remains of all that fell on the same pages */
            verify(first + size - period, expected, 17 + size - period, period, size);
        }
        munmap(dst, len);
        free(expected);
    }
    CHK(MPI_Type_free(&type));
    chk_result("%s of %zu bytes at offset %zu%s", window ? "Put" : "message", size, off,
               small_memory ? " (destination pages repeat)" : "");
}

int main(int argc, char **argv)
{
    static const size_t cap = 0x7ffff000u;
    static const size_t two31 = (size_t) 1 << 31;
    const size_t sizes[] = {
        two31 - 1, two31, two31 + 1, cap - 1, cap, cap + 1, 2 * two31 + 4096 + 3, 2 * two31 + 3};
    static const size_t offs[] = {0, 1, 4095};
    chk_init(argc, argv, MPI_THREAD_SINGLE);
    if (2 != chk_np) {
        chk_skip_all("made for two ranks");
    }
    page = (size_t) sysconf(_SC_PAGESIZE);
    period = PERIOD_PAGES * page;
    small_memory = NULL != chk_opt("small", NULL);
    if (!small_memory) {
        int small = available_bytes() < ((size_t) 6 << 30);
        CHK(MPI_Bcast(&small, 1, MPI_INT, 1, MPI_COMM_WORLD));
        small_memory = small;
    }
    const char *list = chk_opt("sizes", NULL);
    if (NULL != list) {
        for (char *end; '\0' != *list; list = ',' == *end ? end + 1 : end) {
            transfer(strtoull(list, &end, 0), 1, false);
            if (end == list) {
                break;
            }
        }
        return chk_done();
    }
    const size_t n = chk_long ? sizeof(sizes) / sizeof(sizes[0]) : 2;
    for (size_t i = 0; i < n; i++) {
        transfer(sizes[i], offs[i % 3], false);
        chk_watchdog(300);
    }
    if (chk_long) {
        for (size_t i = 0; i < 3; i++) {
            transfer(2 * two31 + 3, offs[i], false);
        }
        transfer(two31 + 1, 1, true);
        transfer(2 * two31 + 3, 4095, true);
    }
    return chk_done();
}

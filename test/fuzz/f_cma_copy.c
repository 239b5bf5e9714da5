/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target: the copy loop of smsc/cma with any lists of ranges, any limit, and a kernel that moves
 * less than it is asked for, fails, lies, or has another process under the pid from some call on.
 *
 * Must hold: only bytes of the two lists move, no call asks for more than the limit, it ends, success
 * means that all bytes are in place, and no bytes of a stranger are taken for the peer's.
 */
#include "opal_config.h"

#include "fuzz.h"

#include "smsc_cma_copy.h"

#include <errno.h>
#include <stdbool.h>

enum { BYTES = 1024, PIECES = 40, PID = 777 };

static fuzz_input_t in;
static unsigned char here[BYTES], there[BYTES];
static uint64_t nonce;
static _Atomic uint32_t life;
static size_t limit;
static bool replaced; /* the pid is a stranger's from now on */
static unsigned long calls;

static const int errors[] = {EFAULT, EINTR, EAGAIN, ENOMEM, EPERM, ENOSYS, EINVAL, ESRCH, EIO};

static void inside(const struct iovec *iov, const unsigned char *buffer)
{
    const unsigned char *at = iov->iov_base;

    fuzz_check(at >= buffer && iov->iov_len <= BYTES && at + iov->iov_len <= buffer + BYTES,
               "only bytes of the lists are asked for");
}

/** smsc_cma_copy_limit is anything that a user writes; numbers that cut the lists up are of most use. */
static size_t parameter(uint64_t word)
{
    return 0 == word >> 63 ? word % 4096 : word;
}

static bool is_nonce(const struct iovec *iov)
{
    return (void *) &nonce == iov->iov_base;
}

/** Move up to most bytes; the lists have equal totals. */
static size_t move(const struct iovec *local, const struct iovec *remote, size_t most, bool reading)
{
    size_t done = 0, l = 0, r = 0;

    while (most > done) {
        const size_t a = local->iov_len - l, b = remote->iov_len - r;
        size_t len = a < b ? a : b;
        char *mine = (char *) local->iov_base + l, *theirs = (char *) remote->iov_base + r;

        len = len < most - done ? len : most - done;
        if (reading) {
            memcpy(mine, theirs, len);
            for (size_t i = 0; replaced && i < len; ++i) {
                mine[i] = (char) ~mine[i];
            }
        } else if (!replaced) {
            memcpy(theirs, mine, len);
        }
        done += len;
        l += len;
        r += len;
        if (l == local->iov_len) {
            ++local;
            l = 0;
        }
        if (r == remote->iov_len) {
            ++remote;
            r = 0;
        }
    }
    return done;
}

static ssize_t call(pid_t pid, const struct iovec *local, unsigned long local_count,
                    const struct iovec *remote, unsigned long remote_count, bool reading)
{
    const uint8_t what = fuzz_byte(&in);
    size_t asked = 0, there_asked = 0, data = 0;

    fuzz_check(PID == pid && ++calls < 20000, "it ends");
    fuzz_check(0 < local_count && 1024 >= local_count && 0 < remote_count && 1024 >= remote_count,
               "no more elements than the kernel takes");
    for (unsigned long i = 0; i < remote_count; ++i) {
        there_asked += remote[i].iov_len;
        if (!is_nonce(&remote[i])) {
            inside(&remote[i], there);
            data += remote[i].iov_len;
        }
    }
    for (unsigned long i = 0; i < local_count; ++i) {
        asked += local[i].iov_len;
        if (0 != i || !is_nonce(&remote[0])) {
            inside(&local[i], here);
        }
    }
    fuzz_check(asked == there_asked && 0 < asked, "both sides of a call have the same length");
    fuzz_check(0 == limit || data <= limit, "no call asks for more than the limit");
    if (0x40 == (what & 0xf0)) {
        replaced = true; /* before this call; the kernel has marked the word by then */
        life = 99;
    }
    if (0x10 == (what & 0xf0)) {
        errno = errors[what % (sizeof(errors) / sizeof(*errors))];
        return -1;
    }
    if (0x20 == (what & 0xf0)) {
        return what & 1 ? 0 : (ssize_t) asked + 1 + (what & 0xf);
    }
    return (ssize_t) move(local, remote, 0x30 == (what & 0xf0) ? 1 + what % asked : asked, reading);
}

static ssize_t fake_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                          const struct iovec *remote, unsigned long remote_count,
                          unsigned long flags)
{
    fuzz_check(0 == flags, "no flags");
    return call(pid, local, local_count, remote, remote_count, true);
}

static ssize_t fake_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
                           const struct iovec *remote, unsigned long remote_count,
                           unsigned long flags)
{
    fuzz_check(0 == flags && !is_nonce(&remote[0]), "the nonce is never written");
    return call(pid, local, local_count, remote, remote_count, false);
}

static void fake_wait(unsigned int attempt)
{
    (void) attempt;
}

/** Cut a buffer into ranges, empty ones among them. */
static size_t cut(unsigned char *buffer, size_t total, struct iovec *iov)
{
    size_t count = 0, at = 0;

    while (at < total && PIECES - 1 > count) {
        size_t len = fuzz_byte(&in) * (size_t) (1 + fuzz_byte(&in) % 4);

        len = len < total - at ? len : total - at;
        iov[count++] = (struct iovec) {.iov_base = buffer + at, .iov_len = len};
        at += len;
        if (in.at == in.end) {
            break;
        }
    }
    iov[count++] = (struct iovec) {.iov_base = buffer + at, .iov_len = total - at};
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const smsc_cma_sys_t sys = {fake_readv, fake_writev, fake_wait};
    const uint8_t how = data != NULL && 0 < len ? data[0] : 0;
    const smsc_cma_direction_t direction = 0 != (how & 1) ? SMSC_CMA_READ : SMSC_CMA_WRITE;
    struct iovec mine[PIECES], theirs[PIECES];
    smsc_cma_target_t target = {.pid = PID, .nonce_address = (uint64_t) (uintptr_t) &nonce};
    smsc_cma_result_t result;
    size_t total, mine_count, theirs_count;

    in = (fuzz_input_t) {data, data + len};
    (void) fuzz_byte(&in);
    total = fuzz_word(&in) % (BYTES + 1);
    limit = 0 != (how & 2) ? parameter(fuzz_word(&in)) : 0;
    nonce = target.nonce = UINT64_C(0x123456789abcdef1);
    replaced = false;
    calls = 0;
    life = target.life_value = 5;
    target.life = 0 != (how & 4) ? &life : NULL;
    for (size_t i = 0; i < BYTES; ++i) {
        here[i] = (unsigned char) (i * 31 + 7);
        there[i] = (unsigned char) (i * 13 + 1);
    }
    if (0 != (how & 8)) {
        mine_count = cut(here, total, mine);
        theirs_count = cut(there, total, theirs);
        smsc_cma_copyv(&sys, &target, direction, mine, mine_count, theirs, theirs_count, limit,
                       &result);
    } else {
        smsc_cma_copy(&sys, &target, direction, here, (uint64_t) (uintptr_t) there, total, limit,
                      &result);
    }
    fuzz_check(result.done <= total && (SMSC_CMA_OK != result.status || total == result.done),
               "what is done is no more than was asked for");
    for (size_t i = 0; i < result.done; ++i) {
        const unsigned char want = (unsigned char) (SMSC_CMA_READ == direction ? i * 13 + 1
                                                                               : i * 31 + 7);

        fuzz_check(want == (SMSC_CMA_READ == direction ? here : there)[i],
                   "what is said to be done is done, with the peer");
    }
    for (size_t i = total; i < BYTES; ++i) {
        fuzz_check((unsigned char) (i * 31 + 7) == here[i]
                       && (unsigned char) (i * 13 + 1) == there[i],
                   "nothing behind the ranges is touched");
    }
    return 0;
}

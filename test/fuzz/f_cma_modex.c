/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target: a peer's record for smsc/cma made of any bytes, and the trial of a peer that such a
 * record describes, with a kernel that answers as the input says.
 *
 * Must hold: no byte behind the record is read; what is accepted is what a sender of ours could have
 * written; nobody is written to who has not shown the nonce, and nowhere but in the scratch area of
 * the page; our own pid is never a peer's.
 */
#include "opal_config.h"

#include "fuzz.h"

#include "smsc_cma_probe.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

static fuzz_input_t in;
static smsc_cma_identity_t own;
static smsc_cma_modex_t record;
static bool proved;
static void *mapped; /* the page of a peer whose end is still to come */

static const int errors[] = {EPERM, ENOSYS, EINVAL, ESRCH, EFAULT, ENOMEM, EAGAIN, EINTR, EIO, 0};

/** What the kernel answers; true if it does its work. */
static bool works(ssize_t *answer)
{
    const uint8_t what = fuzz_byte(&in);

    if (NULL != mapped && 0 == what % 13) {
        memset((char *) mapped + record.life_offset, what, 4); /* the peer ends */
    }
    if (0 == (what & 3) && 0 != what) {
        errno = errors[what / 4 % (sizeof(errors) / sizeof(*errors))];
        *answer = 0 == errno ? (ssize_t) (what % 17) : -1;
        return false;
    }
    return true;
}

/** A word, or what is left of one after a short call, at or behind `from` in the peer's page. */
static bool in_page(const struct iovec *here, const struct iovec *there, uint64_t from)
{
    const uint64_t at = (uint64_t) (uintptr_t) there->iov_base;

    return sizeof(uint64_t) >= there->iov_len && here->iov_len == there->iov_len
           && at >= record.page_address + from
           && at - record.page_address <= SMSC_CMA_PAGE_BYTES - there->iov_len;
}

static ssize_t fake_readv(pid_t pid, const struct iovec *here, unsigned long here_count,
                          const struct iovec *there, unsigned long there_count, unsigned long flags)
{
    size_t done = 0;
    ssize_t answer;

    fuzz_check(0 < pid && getpid() != pid && 0 == flags, "a call goes to somebody else");
    fuzz_check(2 >= here_count && here_count == there_count, "the nonce and a word at most");
    if (!works(&answer)) {
        return answer;
    }
    for (unsigned long i = 0; i < here_count; ++i) {
        const uint64_t at = (uint64_t) (uintptr_t) there[i].iov_base;
        uint64_t word = 0 == fuzz_byte(&in) % 4 ? fuzz_word(&in) : own.modex.nonce;

        fuzz_check(in_page(&here[i], &there[i], 0), "only the page is read");
        if (at == record.page_address) {
            word = 0 == fuzz_byte(&in) % 8 ? fuzz_word(&in) : record.nonce;
            proved = word == record.nonce;
        }
        memcpy(here[i].iov_base, &word, here[i].iov_len);
        done += here[i].iov_len;
    }
    return (ssize_t) done;
}

static ssize_t fake_writev(pid_t pid, const struct iovec *here, unsigned long here_count,
                           const struct iovec *there, unsigned long there_count,
                           unsigned long flags)
{
    ssize_t answer;

    fuzz_check(0 < pid && getpid() != pid && 0 == flags, "a call goes to somebody else");
    fuzz_check(proved, "nobody is written to who has not just shown the nonce");
    fuzz_check(1 == here_count && 1 == there_count && in_page(here, there, SMSC_CMA_PAGE_SCRATCH),
               "only a scratch word is written");
    return works(&answer) ? (ssize_t) here->iov_len : answer;
}

static void fake_wait(unsigned int attempt)
{
    (void) attempt;
}

static pid_t fake_translate(uint64_t name)
{
    fuzz_check(name == record.socket_name, "the name is the record's");
    return 0 == fuzz_byte(&in) % 3 ? getpid() : (pid_t) (fuzz_word(&in) % 5 * 1000);
}

static void *fake_map(pid_t pid, const smsc_cma_modex_t *from)
{
    void *page = mmap(NULL, SMSC_CMA_PAGE_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void) pid;
    if (MAP_FAILED == page) {
        return NULL;
    }
    if (0 != fuzz_byte(&in) % 8) {
        memcpy(page, &from->nonce, sizeof(from->nonce));
        memcpy((char *) page + from->life_offset, &from->life_value, sizeof(from->life_value));
        mapped = page; /* who maps anything else gives it back at once */
    }
    return page;
}

/** A record out of the input: anything, or with some fields as they should be. */
static size_t make(unsigned char *bytes, uint8_t how)
{
    const size_t size = 0 != (how & 1) ? sizeof(record) : fuzz_word(&in) % 128;
    smsc_cma_modex_t made;

    memset(&made, 0, sizeof(made));
    for (size_t at = 0; sizeof(made) > at; at += 8) {
        const uint64_t word = fuzz_word(&in);

        memcpy((char *) &made + at, &word, 8);
    }
    if (0 != (how & 2)) {
        made.magic = SMSC_CMA_MODEX_MAGIC;
        made.version = SMSC_CMA_MODEX_VERSION;
        made.length = (uint16_t) size;
    }
    if (0 != (how & 4)) {
        made.reserved = 0;
        made.flags &= SMSC_CMA_MODEX_FLAGS;
        made.page_address &= ~UINT64_C(7);
        made.life_offset = SMSC_CMA_PAGE_MUTEX + made.life_offset % 256 / 4 * 4;
        made.page_fd &= INT32_MAX;
    }
    if (0 != (how & 8)) {
        made.pid = 1 + made.pid % 65536;
        made.pid_namespace = own.modex.pid_namespace;
    }
    memcpy(bytes, &made, size < sizeof(made) ? size : sizeof(made));
    return size;
}

static void try_peer(void)
{
    const smsc_cma_probe_sys_t sys = {.copy = {fake_readv, fake_writev, fake_wait},
                                      .translate = fake_translate,
                                      .map = fake_map};
    smsc_cma_peer_t peer;

    proved = false;
    mapped = NULL;
    smsc_cma_probe_peer(&sys, &own, &record, (unsigned int) fuzz_word(&in), &peer);
    fuzz_check(SMSC_CMA_REASON_NONE != peer.reason || proved, "a peer is one that has shown it");
    fuzz_check(NULL == peer.target.life
                   || (NULL != peer.page
                       && (const char *) peer.target.life
                              >= (char *) peer.page + SMSC_CMA_PAGE_MUTEX
                       && (const char *) peer.target.life
                              <= (char *) peer.page + SMSC_CMA_PAGE_SCRATCH - 4),
               "the life word lies in the page's mutex");
    fuzz_check(SMSC_CMA_REASON_NONE == peer.reason || NULL == peer.page,
               "nothing stays mapped of a peer that is refused");
    smsc_cma_probe_release(&peer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    smsc_cma_modex_status_t status;
    unsigned char raw[128] = {0}, *bytes;
    uint8_t how;
    size_t size;

    in = (fuzz_input_t) {data, data + len};
    if (NULL == own.page && 0 != smsc_cma_identity_create(&own)) {
        return 0;
    }
    how = fuzz_byte(&in);
    size = make(raw, how);
    bytes = malloc(0 < size ? size : 1); /* its end is seen by a sanitizer */
    if (NULL == bytes) {
        return 0;
    }
    memcpy(bytes, raw, size);
    status = smsc_cma_modex_accept(0 == size ? NULL : bytes, size, &record);
    free(bytes);
    if (SMSC_CMA_MODEX_OK != status) {
        return 0;
    }
    fuzz_check(sizeof(record) == size && 0 < (int32_t) record.pid && 0 != record.nonce
                   && record.page_address <= UINT64_MAX - SMSC_CMA_PAGE_BYTES
                   && 0 == (record.flags & ~SMSC_CMA_MODEX_FLAGS),
               "an accepted record could be one of ours");
    try_peer();
    return 0;
}

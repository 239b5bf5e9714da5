/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The trial of a peer; contract in smsc_cma_probe.h.
 *
 * Layer: L0. Called by smsc_cma_module.c, contrib/doctor.
 * Must never: open anything of the peer but the file that its record describes by inode.
 */
#include "opal_config.h"

#include "smsc_cma_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Trials of the scratch word before a wrong answer counts as one; more than one is only ever needed
 * where two processes share a word. */
#define SCRATCH_TRIALS 8

static smsc_cma_reason_t reason_of(smsc_cma_status_t status, int error)
{
    switch (status) {
    case SMSC_CMA_OK:
        return SMSC_CMA_REASON_NONE;
    case SMSC_CMA_DENIED:
        return SMSC_CMA_REASON_DENIED;
    case SMSC_CMA_UNSUPPORTED:
        return SMSC_CMA_REASON_MISSING;
    case SMSC_CMA_INVALID:
        return SMSC_CMA_REASON_INVALID;
    case SMSC_CMA_GONE:
        return ESRCH == error ? SMSC_CMA_REASON_EXITED : SMSC_CMA_REASON_STRANGER;
    case SMSC_CMA_NO_MEMORY:
    case SMSC_CMA_BUSY:
    case SMSC_CMA_INTERRUPTED:
        return SMSC_CMA_REASON_SCARCE;
    default:
        return SMSC_CMA_REASON_FAILED;
    }
}

void *smsc_cma_probe_map(pid_t pid, const smsc_cma_modex_t *record)
{
    char path[64];
    struct stat info;
    void *page = MAP_FAILED;
    int handle, fd;

    /* A handle first: opening for real what may be a stranger's terminal or pipe has effects. */
    snprintf(path, sizeof(path), "/proc/%ld/fd/%u", (long) pid, record->page_fd);
    handle = open(path, O_PATH | O_CLOEXEC);
    if (0 > handle) {
        return NULL;
    }
    if (0 == fstat(handle, &info) && record->page_device == (uint64_t) info.st_dev
        && record->page_inode == (uint64_t) info.st_ino && SMSC_CMA_PAGE_BYTES == info.st_size) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", handle);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (0 <= fd) {
            page = mmap(NULL, SMSC_CMA_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
            close(fd);
        }
    }
    close(handle);
    return MAP_FAILED == page ? NULL : page;
}

void smsc_cma_probe_release(smsc_cma_peer_t *peer)
{
    if (NULL != peer->page) {
        munmap(peer->page, SMSC_CMA_PAGE_BYTES);
        peer->page = NULL;
    }
    peer->target.life = NULL;
}

/** Map the life word if the record has one and it says "alive"; without it copies cost more. */
static void attach_life(const smsc_cma_probe_sys_t *sys, const smsc_cma_modex_t *record,
                        smsc_cma_peer_t *peer)
{
    uint64_t nonce;

    if (0 == (record->flags & SMSC_CMA_MODEX_LIFE)) {
        return;
    }
    peer->page = sys->map(peer->target.pid, record);
    if (NULL == peer->page) {
        return;
    }
    memcpy(&nonce, peer->page, sizeof(nonce));
    peer->target.life_value = record->life_value;
    peer->target.life = (const _Atomic uint32_t *) ((char *) peer->page + record->life_offset);
    if (nonce != record->nonce
        || record->life_value != atomic_load_explicit(peer->target.life, memory_order_acquire)) {
        smsc_cma_probe_release(peer);
    }
}

/** Where the peer's pid is known under which number here; 0 if it is not. */
static pid_t locate(const smsc_cma_probe_sys_t *sys, const smsc_cma_identity_t *own,
                    const smsc_cma_modex_t *record)
{
    const uint64_t here = own->modex.pid_namespace, there = record->pid_namespace;

    if (here == there || 0 == here || 0 == there) {
        return (pid_t) record->pid;
    }
    return 0 != (record->flags & SMSC_CMA_MODEX_SOCKET) ? sys->translate(record->socket_name) : 0;
}

/** Write a word into the peer's scratch area and fetch it back. */
static smsc_cma_status_t try_writing(const smsc_cma_probe_sys_t *sys,
                                     const smsc_cma_identity_t *own, const smsc_cma_modex_t *record,
                                     unsigned int scratch, smsc_cma_peer_t *peer)
{
    const uint64_t word = record->page_address + SMSC_CMA_PAGE_SCRATCH
                          + scratch % SMSC_CMA_SCRATCH_COUNT * sizeof(uint64_t);
    smsc_cma_result_t result;

    for (int trial = 0; SCRATCH_TRIALS > trial; ++trial) {
        uint64_t sent = own->modex.nonce, seen = ~sent;

        peer->direction = SMSC_CMA_WRITE;
        if (SMSC_CMA_OK
            == smsc_cma_copy(&sys->copy, &peer->target, SMSC_CMA_WRITE, &sent, word, sizeof(sent),
                             0, &result)) {
            peer->direction = SMSC_CMA_READ;
            smsc_cma_copy(&sys->copy, &peer->target, SMSC_CMA_READ, &seen, word, sizeof(seen), 0,
                          &result);
        }
        peer->error = result.error;
        if (SMSC_CMA_OK != result.status) {
            return result.status;
        }
        if (sent == seen) {
            return SMSC_CMA_OK;
        }
        peer->direction = SMSC_CMA_WRITE;
    }
    return SMSC_CMA_STUCK;
}

smsc_cma_reason_t smsc_cma_probe_peer(const smsc_cma_probe_sys_t *sys,
                                      const smsc_cma_identity_t *own,
                                      const smsc_cma_modex_t *record, unsigned int scratch,
                                      smsc_cma_peer_t *peer)
{
    smsc_cma_status_t status;

    *peer = (smsc_cma_peer_t) {
        .target = {.nonce = record->nonce, .nonce_address = record->page_address},
        .direction = SMSC_CMA_READ,
    };
    if (!smsc_cma_identity_is_mine(own)) {
        return peer->reason = SMSC_CMA_REASON_FORKED;
    }
    peer->target.pid = locate(sys, own, record);
    if (0 == peer->target.pid) {
        return peer->reason = SMSC_CMA_REASON_NAMESPACE;
    }
    if (own->owner == peer->target.pid) {
        return peer->reason = SMSC_CMA_REASON_OWN_PID;
    }

    /* The order matters: the word is mapped before the nonce is read, so that a word which still
     * says "alive" afterwards belongs to the process that was read. */
    attach_life(sys, record, peer);
    status = smsc_cma_verify(&sys->copy, &peer->target, &peer->error);
    if (SMSC_CMA_OK == status) {
        status = try_writing(sys, own, record, scratch, peer);
    }
    peer->reason = reason_of(status, peer->error);
    if (SMSC_CMA_REASON_NONE != peer->reason) {
        smsc_cma_probe_release(peer);
    }
    return peer->reason;
}

/** "May I?", without effect: the last page of the address space is the kernel's in every process. */
static smsc_cma_status_t ask(smsc_cma_vm_fn_t call, pid_t pid, int *error)
{
    char byte = 0;
    const struct iovec here = {.iov_base = &byte, .iov_len = 1};
    const struct iovec there = {.iov_base = (void *) (UINTPTR_MAX - 4095), .iov_len = 1};
    const ssize_t moved = call(pid, &here, 1, &there, 1, 0);

    *error = 0 > moved ? errno : 0;
    if (0 > moved && EFAULT == *error) {
        return SMSC_CMA_OK;
    }
    return 0 > moved ? smsc_cma_status_of(*error) : SMSC_CMA_STUCK;
}

smsc_cma_reason_t smsc_cma_probe_permission(const smsc_cma_sys_t *sys, pid_t pid,
                                            smsc_cma_peer_t *peer)
{
    smsc_cma_status_t status;

    *peer = (smsc_cma_peer_t) {.target = {.pid = pid}, .direction = SMSC_CMA_READ};
    status = ask(sys->readv, pid, &peer->error);
    if (SMSC_CMA_OK == status) {
        peer->direction = SMSC_CMA_WRITE;
        status = ask(sys->writev, pid, &peer->error);
    }
    return peer->reason = reason_of(status, peer->error);
}

void smsc_cma_probe_explain(const smsc_cma_peer_t *peer, const smsc_cma_modex_t *record, char *text,
                            size_t cap)
{
    smsc_cma_diagnosis_t diagnosis;

    smsc_cma_diagnose(peer->reason, peer->direction, peer->error, peer->target.pid,
                      NULL != record ? record->start_time : 0, &diagnosis);
    smsc_cma_diagnosis_text(&diagnosis, text, cap);
}

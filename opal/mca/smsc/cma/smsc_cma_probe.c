/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The trial of a peer and the words for its outcome; contract in smsc_cma_probe.h.
 *
 * Layer: L0. Called by smsc_cma_module.c.
 * Must never: open anything of the peer but the file that its record describes by inode.
 */
#include "opal_config.h"

#include "smsc_cma_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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

static const struct {
    const char *name;
    const char *text;
} reasons[SMSC_CMA_REASON_COUNT] = {
    [SMSC_CMA_REASON_NONE] = {"none", "single copy works"},
    [SMSC_CMA_REASON_NO_RECORD] = {"no_record", "the peer sent no record for smsc/cma"},
    [SMSC_CMA_REASON_RECORD] = {"bad_record", "the peer's record is not one of this version"},
    [SMSC_CMA_REASON_FORKED] = {"forked", "this process is a forked child of the MPI process"},
    [SMSC_CMA_REASON_OWN_PID] = {"own_pid", "the peer's pid means this process here"},
    [SMSC_CMA_REASON_NAMESPACE] = {"pid_namespace", "the peer's pid namespace is not visible"},
    [SMSC_CMA_REASON_DENIED] = {"denied", "permission denied"},
    [SMSC_CMA_REASON_MISSING] = {"missing", "the system call is not available"},
    [SMSC_CMA_REASON_INVALID] = {"invalid", "the system call is rejected as invalid"},
    [SMSC_CMA_REASON_EXITED] = {"exited", "there is no process with the peer's pid"},
    [SMSC_CMA_REASON_STRANGER] = {"stranger", "the process with the peer's pid is not the peer"},
    [SMSC_CMA_REASON_SCARCE] = {"scarce",
                                "the kernel is short of memory or keeps being interrupted"},
    [SMSC_CMA_REASON_FAILED] = {"failed", "the system call does not do its work"},
};

const char *smsc_cma_reason_name(smsc_cma_reason_t reason)
{
    return (unsigned int) reason < SMSC_CMA_REASON_COUNT ? reasons[reason].name : "unknown";
}

const char *smsc_cma_reason_text(smsc_cma_reason_t reason)
{
    return (unsigned int) reason < SMSC_CMA_REASON_COUNT ? reasons[reason].text : "unknown reason";
}

/** @return the number after a label such as "Seccomp:" in a text file, or missing */
static long number_in(const char *path, const char *label, long missing)
{
    char line[256];
    long value = missing;
    FILE *file = fopen(path, "re");

    if (NULL == file) {
        return missing;
    }
    while (missing == value && NULL != fgets(line, sizeof(line), file)) {
        if (0 == strncmp(line, label, strlen(label))) {
            value = strtol(line + strlen(label), NULL, 10);
        }
    }
    fclose(file);
    return value;
}

/** Why may the kernel, or something before it, have refused? What procfs shows narrows it down. */
static const char *cause_of_denial(pid_t pid)
{
    char path[64];
    struct stat theirs, mine;

    /* The files of a process belong to root while it is not dumpable; its folder does not. */
    snprintf(path, sizeof(path), "/proc/%ld/status", (long) pid);
    if (0 == stat(path, &theirs) && geteuid() != theirs.st_uid) {
        return 0 == theirs.st_uid
                   ? "the peer is not dumpable (set-uid or set-gid program, file capabilities, "
                     "unreadable executable, prctl) or runs as root; "
                     "run all ranks as one user from a plain, readable program"
                   : "the peer runs as another user; run all ranks as one user";
    }
    snprintf(path, sizeof(path), "/proc/%ld/ns/user", (long) pid);
    if (0 != stat(path, &theirs)) {
        return "the peer is in another user namespace, holds more privileges, or a security module "
               "keeps them apart; start the ranks of a node in one container";
    }
    if (0 == stat("/proc/self/ns/user", &mine) && mine.st_ino != theirs.st_ino) {
        return "the peer is in another user namespace; start the ranks of a node in one container";
    }
    if (1 < number_in("/proc/sys/kernel/yama/ptrace_scope", "", 0)) {
        return "kernel.yama.ptrace_scope is above 1; set it to 0 or 1, or give CAP_SYS_PTRACE";
    }
    if (2 == number_in("/proc/self/status", "Seccomp:", 0)) {
        return "a seccomp filter refuses the call, as container profiles do; use a profile that "
               "allows process_vm_readv and process_vm_writev, or add CAP_SYS_PTRACE";
    }
    return "a security module (Yama, AppArmor, SELinux) may forbid it; see the kernel's log";
}

static const char *cause_of_strangeness(const smsc_cma_modex_t *record, pid_t pid)
{
    const uint64_t start = smsc_cma_identity_start_time(pid);

    if (0 == start || 0 == record->start_time) {
        return "it has ended, or the two are in different pid namespaces";
    }
    return start == record->start_time
               ? "it has called exec or MPI_Finalize"
               : "it has ended and its pid was given to another, or pid namespaces differ";
}

void smsc_cma_probe_explain(const smsc_cma_peer_t *peer, const smsc_cma_modex_t *record, char *text,
                            size_t cap)
{
    const char *cause = "", *call;

    switch (peer->reason) {
    case SMSC_CMA_REASON_NO_RECORD:
        cause =
            "it did not load this component; give all ranks the same MCA parameters and plugins";
        break;
    case SMSC_CMA_REASON_RECORD:
        cause = "it runs another smsc/cma; install the same plugin for all ranks";
        break;
    case SMSC_CMA_REASON_FORKED:
        cause = "use MPI in the parent only";
        break;
    case SMSC_CMA_REASON_OWN_PID:
    case SMSC_CMA_REASON_NAMESPACE:
        cause =
            "each is in a pid namespace of its own; start the ranks of a node in one container, "
            "or let containers share it (--pid=host)";
        break;
    case SMSC_CMA_REASON_DENIED:
        cause = cause_of_denial(peer->target.pid);
        break;
    case SMSC_CMA_REASON_MISSING:
        cause = "the kernel lacks CONFIG_CROSS_MEMORY_ATTACH or a seccomp filter hides the call; "
                "use a container profile that allows it";
        break;
    case SMSC_CMA_REASON_INVALID:
        cause = "a seccomp filter or an emulated kernel answers in its place";
        break;
    case SMSC_CMA_REASON_EXITED:
        cause = "it has ended, or the two are in different pid namespaces";
        break;
    case SMSC_CMA_REASON_STRANGER:
        cause = NULL != record ? cause_of_strangeness(record, peer->target.pid) : "it has ended";
        break;
    case SMSC_CMA_REASON_SCARCE:
        cause = "raise the memory limit of the job";
        break;
    case SMSC_CMA_REASON_FAILED:
        cause = "a seccomp filter or an emulated kernel answers in its place";
        break;
    default:
        break;
    }
    if (SMSC_CMA_REASON_DENIED > peer->reason) {
        snprintf(text, cap, "%s: %s", smsc_cma_reason_text(peer->reason), cause);
        return;
    }
    call = SMSC_CMA_READ == peer->direction ? "process_vm_readv" : "process_vm_writev";
    if (0 != peer->error) {
        snprintf(text, cap, "%s (%s, errno %d): %s", smsc_cma_reason_text(peer->reason), call,
                 peer->error, cause);
    } else {
        snprintf(text, cap, "%s (%s): %s", smsc_cma_reason_text(peer->reason), call, cause);
    }
}

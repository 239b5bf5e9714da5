/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reasons, causes and cures in words; contract in smsc_cma_reason.h.
 *
 * Layer: L0. Called by smsc_cma_probe.c, smsc_cma_component.c, contrib/doctor.
 * Must never: touch the memory of another process.
 *
 * Source of the order in which causes are looked for: the order in which a call meets them, which is
 * the filter first, then the tests of ptrace(2), "Ptrace access mode checking".
 */
#include "opal_config.h"

#include "smsc_cma_reason.h"

#include "smsc_cma_identity.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

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

static const struct {
    const char *name;
    const char *text;
    const char *cure;
} causes[SMSC_CMA_CAUSE_COUNT] = {
    [SMSC_CMA_CAUSE_NONE] = {"none", "nothing stands in the way", ""},
    [SMSC_CMA_CAUSE_PLUGIN] = {"plugin", "it did not load this component",
                               "give all ranks the same MCA parameters and plugins"},
    [SMSC_CMA_CAUSE_VERSION] = {"version", "it runs another smsc/cma",
                                "install the same plugin for all ranks"},
    [SMSC_CMA_CAUSE_FORK] = {"fork", "MPI is used in a forked child", "use MPI in the parent only"},
    [SMSC_CMA_CAUSE_PID_NAMESPACE] = {"pid_namespace", "each is in a pid namespace of its own",
                                      "start the ranks of a node in one container, or let "
                                      "containers share it (--pid=host)"},
    [SMSC_CMA_CAUSE_SECCOMP] = {"seccomp",
                                "a seccomp filter refuses the call, as container profiles do",
                                "use a profile that allows process_vm_readv and "
                                "process_vm_writev, or add CAP_SYS_PTRACE to the container"},
    [SMSC_CMA_CAUSE_KERNEL] = {"kernel", "the kernel does not have the call, or only in name",
                               "use a kernel with CONFIG_CROSS_MEMORY_ATTACH; emulated kernels "
                               "(sandboxes) may not offer it"},
    [SMSC_CMA_CAUSE_OTHER_USER] = {"other_user", "the peer runs as another user or group",
                                   "run all ranks as one user"},
    [SMSC_CMA_CAUSE_NOT_DUMPABLE] = {"not_dumpable",
                                     "the peer is not dumpable (set-uid or set-gid program, file "
                                     "capabilities, unreadable executable, prctl)",
                                     "run all ranks from a plain, readable program"},
    [SMSC_CMA_CAUSE_USER_NAMESPACE] = {"user_namespace", "the peer is in another user namespace",
                                       "start the ranks of a node in one container"},
    [SMSC_CMA_CAUSE_CAPABILITY] = {"capability",
                                   "the peer holds capabilities that this process lacks",
                                   "start all ranks with the same ones, or give them "
                                   "CAP_SYS_PTRACE"},
    [SMSC_CMA_CAUSE_YAMA] = {"yama", "Yama guards it (kernel.yama.ptrace_scope)",
                             "set kernel.yama.ptrace_scope to 0 or 1, or give CAP_SYS_PTRACE"},
    [SMSC_CMA_CAUSE_LSM] = {"lsm", "a security module (AppArmor, SELinux, Yama) may forbid it",
                            "see the kernel's log and allow ptrace within the profile"},
    [SMSC_CMA_CAUSE_ENDED] = {"ended", "it has ended, or the two are in different pid namespaces",
                              ""},
    [SMSC_CMA_CAUSE_EXEC] = {"exec", "it has called exec or MPI_Finalize", ""},
    [SMSC_CMA_CAUSE_MEMORY] = {"memory", "memory is short", "raise the memory limit of the job"},
};

const char *smsc_cma_reason_name(smsc_cma_reason_t reason)
{
    return (unsigned int) reason < SMSC_CMA_REASON_COUNT ? reasons[reason].name : "unknown";
}

const char *smsc_cma_reason_text(smsc_cma_reason_t reason)
{
    return (unsigned int) reason < SMSC_CMA_REASON_COUNT ? reasons[reason].text : "unknown reason";
}

const char *smsc_cma_cause_name(smsc_cma_cause_t cause)
{
    return (unsigned int) cause < SMSC_CMA_CAUSE_COUNT ? causes[cause].name : "unknown";
}

const char *smsc_cma_cause_text(smsc_cma_cause_t cause)
{
    return (unsigned int) cause < SMSC_CMA_CAUSE_COUNT ? causes[cause].text : "unknown cause";
}

const char *smsc_cma_cause_cure(smsc_cma_cause_t cause)
{
    return (unsigned int) cause < SMSC_CMA_CAUSE_COUNT ? causes[cause].cure : "";
}

const char *smsc_cma_call_name(smsc_cma_direction_t direction)
{
    return SMSC_CMA_READ == direction ? "process_vm_readv" : "process_vm_writev";
}

/** Up to four numbers after a label such as "Uid:" in the status file of a process; pid 0 is this one
 *  (by its own number it need not be known to the /proc that is mounted). */
static bool status_of(pid_t pid, const char *label, int base, unsigned long long value[4])
{
    char path[64], line[512];
    bool found = false;
    FILE *file;

    if (0 == pid) {
        snprintf(path, sizeof(path), "/proc/self/status");
    } else {
        snprintf(path, sizeof(path), "/proc/%ld/status", (long) pid);
    }
    file = fopen(path, "re");
    if (NULL == file) {
        return false;
    }
    while (!found && NULL != fgets(line, sizeof(line), file)) {
        char *at = line + strlen(label);

        if (0 != strncmp(line, label, strlen(label))) {
            continue;
        }
        found = true;
        for (int i = 0; 4 > i; ++i) {
            value[i] = strtoull(at, &at, base);
        }
    }
    fclose(file);
    return found;
}

/** The start of a file; how many bytes. */
static size_t head_of(const char *path, char text[1024])
{
    FILE *file = fopen(path, "re");
    size_t len = 0;

    memset(text, 0, 1024);
    if (NULL != file) {
        len = fread(text, 1, 1024, file);
        fclose(file);
    }
    return len;
}

/** Does the mapping of user ids look from here as our own does? Who is in another user namespace is
 *  shown another one. */
static bool same_uid_map(pid_t pid)
{
    char path[64], mine[1024], theirs[1024];
    size_t len, their_len;

    snprintf(path, sizeof(path), "/proc/%ld/uid_map", (long) pid);
    len = head_of("/proc/self/uid_map", mine);
    their_len = head_of(path, theirs);
    return 0 == len || 0 == their_len || (len == their_len && 0 == memcmp(mine, theirs, len));
}

static bool same_user_namespace(pid_t pid)
{
    struct stat mine, theirs;
    char path[64];

    snprintf(path, sizeof(path), "/proc/%ld/ns/user", (long) pid);
    if (0 == stat("/proc/self/ns/user", &mine) && 0 == stat(path, &theirs)) {
        return mine.st_ino == theirs.st_ino;
    }
    return same_uid_map(pid); /* the link is closed to whoever may not attach */
}

/** The kernel lets every process reach itself. Who is refused even that meets something in front of
 *  the kernel. */
static bool refused_on_itself(smsc_cma_direction_t direction)
{
    char from = 1, to = 0;
    const struct iovec here = {.iov_base = &to, .iov_len = 1};
    const struct iovec there = {.iov_base = &from, .iov_len = 1};
    const ssize_t moved = SMSC_CMA_READ == direction
                              ? process_vm_readv(getpid(), &here, 1, &there, 1, 0)
                              : process_vm_writev(getpid(), &here, 1, &there, 1, 0);

    return 1 != moved;
}

/** A filter, or the kernel itself? Both answer alike; only that there is a filter can be seen. */
static smsc_cma_cause_t filter_or_kernel(void)
{
    unsigned long long mode[4];

    return status_of(0, "Seccomp:", 10, mode) && 2 == mode[0] ? SMSC_CMA_CAUSE_SECCOMP
                                                              : SMSC_CMA_CAUSE_KERNEL;
}

/** Are all of real, effective and saved id of the peer our real one? */
static bool same_ids(pid_t pid, const char *label, unsigned long long mine)
{
    unsigned long long id[4];

    return !status_of(pid, label, 10, id) || (mine == id[0] && mine == id[1] && mine == id[2]);
}

static bool holds_more(pid_t pid)
{
    unsigned long long mine[4], theirs[4];

    return status_of(0, "CapPrm:", 16, mine) && status_of(pid, "CapPrm:", 16, theirs)
           && 0 != (theirs[0] & ~mine[0]);
}

/** Does a security module confine this process? */
static bool is_confined(void)
{
    char label[1024];

    return 0 < head_of("/proc/self/attr/current", label)
           && 0 != strncmp("unconfined", label, strlen("unconfined")) && '\0' != label[0];
}

/** The files of a process belong to root while it is not dumpable (proc(5)). Of root's processes that
 *  does not show; but reading is refused as well then, which Yama for one does not do. */
static bool is_closed(pid_t pid)
{
    unsigned long long id[4];
    struct stat info;
    char path[64];

    snprintf(path, sizeof(path), "/proc/%ld/status", (long) pid);
    if (status_of(pid, "Uid:", 10, id) && 0 == stat(path, &info) && info.st_uid != id[1]) {
        return true;
    }
    snprintf(path, sizeof(path), "/proc/%ld/ns/user", (long) pid);
    return 0 != stat(path, &info) && EACCES == errno && !is_confined();
}

static bool yama_is_on(void)
{
    int scope = 0;
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");

    if (NULL != file) {
        if (1 != fscanf(file, "%d", &scope)) {
            scope = 0;
        }
        fclose(file);
    }
    return 0 < scope;
}

static smsc_cma_cause_t cause_of_denial(pid_t pid, smsc_cma_direction_t direction)
{
    if (refused_on_itself(direction)) {
        return filter_or_kernel();
    }
    if (!same_ids(pid, "Uid:", getuid()) || !same_ids(pid, "Gid:", getgid())) {
        return SMSC_CMA_CAUSE_OTHER_USER;
    }
    if (!same_user_namespace(pid)) {
        return SMSC_CMA_CAUSE_USER_NAMESPACE;
    }
    if (holds_more(pid)) {
        return SMSC_CMA_CAUSE_CAPABILITY;
    }
    if (is_closed(pid)) {
        return SMSC_CMA_CAUSE_NOT_DUMPABLE;
    }
    return yama_is_on() ? SMSC_CMA_CAUSE_YAMA : SMSC_CMA_CAUSE_LSM;
}

static smsc_cma_cause_t cause_of_strangeness(pid_t pid, uint64_t start_time)
{
    const uint64_t start = smsc_cma_identity_start_time(pid);

    return 0 != start && start == start_time ? SMSC_CMA_CAUSE_EXEC : SMSC_CMA_CAUSE_ENDED;
}

void smsc_cma_diagnose(smsc_cma_reason_t reason, smsc_cma_direction_t direction, int error,
                       pid_t pid, uint64_t start_time, smsc_cma_diagnosis_t *diagnosis)
{
    static const smsc_cma_cause_t fixed[SMSC_CMA_REASON_COUNT] = {
        [SMSC_CMA_REASON_NO_RECORD] = SMSC_CMA_CAUSE_PLUGIN,
        [SMSC_CMA_REASON_RECORD] = SMSC_CMA_CAUSE_VERSION,
        [SMSC_CMA_REASON_FORKED] = SMSC_CMA_CAUSE_FORK,
        [SMSC_CMA_REASON_OWN_PID] = SMSC_CMA_CAUSE_PID_NAMESPACE,
        [SMSC_CMA_REASON_NAMESPACE] = SMSC_CMA_CAUSE_PID_NAMESPACE,
        [SMSC_CMA_REASON_EXITED] = SMSC_CMA_CAUSE_ENDED,
        [SMSC_CMA_REASON_SCARCE] = SMSC_CMA_CAUSE_MEMORY,
    };

    *diagnosis = (smsc_cma_diagnosis_t) {.reason = reason, .direction = direction, .error = error};
    switch (reason) {
    case SMSC_CMA_REASON_DENIED:
        diagnosis->cause = cause_of_denial(pid, direction);
        break;
    case SMSC_CMA_REASON_MISSING:
    case SMSC_CMA_REASON_INVALID:
    case SMSC_CMA_REASON_FAILED:
        diagnosis->cause = filter_or_kernel();
        break;
    case SMSC_CMA_REASON_STRANGER:
        diagnosis->cause = cause_of_strangeness(pid, start_time);
        break;
    default:
        diagnosis->cause = (unsigned int) reason < SMSC_CMA_REASON_COUNT ? fixed[reason]
                                                                         : SMSC_CMA_CAUSE_NONE;
        break;
    }
}

void smsc_cma_diagnosis_text(const smsc_cma_diagnosis_t *diagnosis, char *text, size_t cap)
{
    const char *cure = smsc_cma_cause_cure(diagnosis->cause);
    char call[64] = "";

    if (SMSC_CMA_REASON_NONE == diagnosis->reason) {
        snprintf(text, cap, "%s", smsc_cma_reason_text(diagnosis->reason));
        return;
    }
    if (SMSC_CMA_REASON_DENIED <= diagnosis->reason) {
        const char *name = smsc_cma_call_name(diagnosis->direction);

        if (0 != diagnosis->error) {
            snprintf(call, sizeof(call), " (%s, errno %d)", name, diagnosis->error);
        } else {
            snprintf(call, sizeof(call), " (%s)", name);
        }
    }
    snprintf(text, cap, "%s%s: %s%s%s", smsc_cma_reason_text(diagnosis->reason), call,
             smsc_cma_cause_text(diagnosis->cause), '\0' != cure[0] ? "; " : "", cure);
}

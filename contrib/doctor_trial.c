/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * doctor: trials of single copy, each in processes of their own that give up privileges, enter
 * namespaces and end. What is tried and how a refusal is put into words is smsc/cma's own code.
 *
 * Called by doctor.c. Must never: write into a process that it did not start.
 */
#include "opal_config.h"

#include "doctor.h"

#include "smsc_cma_copy.h"
#include "smsc_cma_identity.h"
#include "smsc_cma_modex.h"
#include "smsc_cma_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOBODY      65534
#define SAMPLE      ((size_t) 1 << 20)
#define PATIENCE_MS 5000
#define NS_PARENT   _IO(0xb7, 0x2) /* NS_GET_PARENT of linux/nsfs.h */

static void rest(unsigned int attempt)
{
    const struct timespec pause = {.tv_nsec = attempt * 1000000L};

    nanosleep(&pause, NULL);
}

static const smsc_cma_probe_sys_t sys = {
    .copy = {.readv = process_vm_readv, .writev = process_vm_writev, .wait = rest},
    .translate = smsc_cma_identity_translate,
    .map = smsc_cma_probe_map,
};

int doctor_status(pid_t pid, const char *label, int base, unsigned long long *value, int cap)
{
    char path[64], line[1024];
    int count = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%ld/status", (long) pid);
    file = fopen(path, "re");
    while (NULL != file && 0 == count && NULL != fgets(line, sizeof(line), file)) {
        char *at = line + strlen(label), *end;

        if (0 != strncmp(line, label, strlen(label))) {
            continue;
        }
        while (cap > count) {
            value[count] = strtoull(at, &end, base);
            if (end == at) {
                break;
            }
            ++count;
            at = end;
        }
    }
    if (NULL != file) {
        fclose(file);
    }
    return count;
}

static void conclude(const smsc_cma_peer_t *peer, uint64_t start_time, doctor_trial_t *trial)
{
    trial->tried = true;
    trial->works = SMSC_CMA_REASON_NONE == peer->reason;
    smsc_cma_diagnose(peer->reason, peer->direction, peer->error, peer->target.pid, start_time,
                      &trial->diagnosis);
    smsc_cma_diagnosis_text(&trial->diagnosis, trial->text, sizeof(trial->text));
}

/** Run a trial in a child and fetch what it found; a child that dies has not tried. */
static void in_child(void (*body)(void *, doctor_trial_t *), void *arg, doctor_trial_t *trial)
{
    doctor_trial_t *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child;
    int status = 0;

    if (MAP_FAILED == (void *) shared) {
        snprintf(trial->note, sizeof(trial->note), "no memory for a trial");
        return;
    }
    *shared = *trial;
    snprintf(shared->note, sizeof(shared->note), "the process that was to try it ended early");
    child = fork();
    if (0 == child) {
        doctor_trial_t mine = *trial;

        body(arg, &mine);
        *shared = mine;
        _exit(0);
    }
    if (0 < child) {
        while (child != waitpid(child, &status, 0) && EINTR == errno) {
        }
        *trial = *shared;
    } else {
        snprintf(trial->note, sizeof(trial->note), "no process for a trial: %s", strerror(errno));
    }
    munmap(shared, sizeof(*shared));
}

/** Keep these capabilities (those of them that we have) and no others. */
static bool set_capabilities(unsigned long long keep)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    for (int i = 0; 2 > i; ++i) {
        const uint32_t word = (uint32_t) (keep >> (32 * i));

        data[i] = (struct __user_cap_data_struct) {.effective = word, .permitted = word};
    }
    return 0 == syscall(SYS_capset, &head, data);
}

static bool become(uid_t uid, gid_t gid, unsigned long long keep)
{
    bool good = true;

    if (uid != getuid() || gid != getgid()) {
        (void) prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
        (void) setgroups(0, NULL);
        good = 0 == setresgid(gid, gid, gid) && 0 == setresuid(uid, uid, uid);
    }
    good = set_capabilities(keep) && good;
    /* A change of user closes a process to others of that user; so it would not be the one that was
     * to be tried. */
    (void) prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    return good;
}

/** What all trials between processes of ours are made of: one publishes, the other tries. */
static void __attribute__((noreturn)) be_peer(int out, int in, void *sample)
{
    smsc_cma_identity_t identity;
    uint64_t address = (uint64_t) (uintptr_t) sample;
    char end;

#if defined(PR_SET_PTRACER) && defined(PR_SET_PTRACER_ANY)
    (void) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* as the component does */
#endif
    if (0 != smsc_cma_identity_create(&identity)
        || (ssize_t) sizeof(identity.modex) != write(out, &identity.modex, sizeof(identity.modex))
        || (ssize_t) sizeof(address) != write(out, &address, sizeof(address))) {
        _exit(1);
    }
    close(out);
    while (0 < read(in, &end, 1)) {
    }
    _exit(0);
}

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec * 1e6 + (double) now.tv_nsec * 1e-3;
}

/** Real bytes, both ways: a permission that moves nothing is none. */
static void copy_sample(smsc_cma_peer_t *peer, uint64_t there, doctor_trial_t *trial)
{
    unsigned char *buffer = malloc(SAMPLE);
    smsc_cma_result_t result = {.status = SMSC_CMA_OK};
    double begin;

    if (NULL == buffer) {
        return;
    }
    memset(buffer, 0, SAMPLE);
    for (int round = 0; 3 > round && SMSC_CMA_OK == result.status; ++round) {
        begin = now_us();
        peer->direction = SMSC_CMA_READ;
        smsc_cma_copy(&sys.copy, &peer->target, SMSC_CMA_READ, buffer, there, SAMPLE, 0, &result);
        begin = now_us() - begin;
        if (0 == round || begin < trial->mib_us) {
            trial->mib_us = begin;
        }
    }
    for (size_t i = 0; SMSC_CMA_OK == result.status && SAMPLE > i; ++i) {
        if ((unsigned char) (i * 7 % 251) != buffer[i]) {
            result.status = SMSC_CMA_STUCK;
        }
    }
    if (SMSC_CMA_OK == result.status) {
        peer->direction = SMSC_CMA_WRITE;
        smsc_cma_copy(&sys.copy, &peer->target, SMSC_CMA_WRITE, buffer, there, SAMPLE, 0, &result);
    }
    if (SMSC_CMA_OK != result.status) {
        peer->reason = SMSC_CMA_REASON_FAILED;
        peer->error = result.error;
    }
    free(buffer);
}

static void try_peer(const smsc_cma_identity_t *own, int in, doctor_trial_t *trial)
{
    unsigned char bytes[sizeof(smsc_cma_modex_t)];
    smsc_cma_modex_t record;
    smsc_cma_peer_t peer;
    uint64_t address;

    if ((ssize_t) sizeof(bytes) != read(in, bytes, sizeof(bytes))
        || (ssize_t) sizeof(address) != read(in, &address, sizeof(address))
        || SMSC_CMA_MODEX_OK != smsc_cma_modex_accept(bytes, sizeof(bytes), &record)) {
        snprintf(trial->note, sizeof(trial->note), "no memory for the trial");
        return;
    }
    if (SMSC_CMA_REASON_NONE == smsc_cma_probe_peer(&sys, own, &record, 0, &peer)) {
        trial->life_word = NULL != peer.target.life;
        copy_sample(&peer, address, trial);
    }
    conclude(&peer, record.start_time, trial);
    smsc_cma_probe_release(&peer);
}

static void here_body(void *arg, doctor_trial_t *trial)
{
    const bool *plain = arg;
    unsigned char *sample = malloc(SAMPLE);
    smsc_cma_identity_t own;
    int out[2], in[2];
    pid_t child;

    if (*plain && (0 != geteuid() || !become(NOBODY, NOBODY, 0))) {
        /* A user namespace may not know that user. */
        (void) set_capabilities(0);
        snprintf(trial->who, sizeof(trial->who), "you without capabilities");
    }
    if (NULL == sample || 0 != pipe2(out, O_CLOEXEC) || 0 != pipe2(in, O_CLOEXEC)) {
        snprintf(trial->note, sizeof(trial->note), "no memory or descriptor for the trial");
        return;
    }
    for (size_t i = 0; SAMPLE > i; ++i) {
        sample[i] = (unsigned char) (i * 7 % 251);
    }
    child = fork();
    if (0 == child) {
        close(in[1]);
        be_peer(out[1], in[0], sample);
    }
    close(out[1]);
    close(in[0]);
    if (0 > child || 0 != smsc_cma_identity_create(&own)) {
        snprintf(trial->note, sizeof(trial->note), "no memory or process for the trial");
    } else {
        try_peer(&own, out[0], trial);
        smsc_cma_identity_retire(&own);
    }
    close(in[1]);
    if (0 < child) {
        (void) waitpid(child, NULL, 0);
    }
    free(sample);
}

void doctor_try_here(bool plain, doctor_trial_t *trial)
{
    *trial = (doctor_trial_t) {.tried = false};
    if (plain) {
        snprintf(trial->who, sizeof(trial->who), "a plain user (uid %d)", NOBODY);
    } else {
        snprintf(trial->who, sizeof(trial->who), "you (uid %ld)", (long) geteuid());
    }
    in_child(here_body, &plain, trial);
}

/** May this process copy with a stranger? `number` is the pid for the call, `pid` that of our /proc. */
static void ask_permission(pid_t number, pid_t pid, doctor_trial_t *trial)
{
    smsc_cma_peer_t peer;

    smsc_cma_probe_permission(&sys.copy, number, &peer);
    peer.target.pid = pid;
    conclude(&peer, 0, trial);
}

typedef struct from_to_t {
    pid_t from, to;
    pid_t number;             /* of `to` in the pid namespace of `from` */
    struct filter_t *filters; /* of `from`, the newest first */
    int filter_count;
} from_to_t;

static void process_body(void *arg, doctor_trial_t *trial)
{
    const from_to_t *who = arg;
    unsigned long long uid[4] = {0}, gid[4] = {0};

    /* Root's processes have root's capabilities, others none. */
    if (0 == geteuid() && 4 == doctor_status(who->to, "Uid:", 10, uid, 4) && 0 != uid[0]
        && 4 == doctor_status(who->to, "Gid:", 10, gid, 4)) {
        if (!become((uid_t) uid[0], (gid_t) gid[0], 0)) {
            snprintf(trial->note, sizeof(trial->note), "cannot become uid %llu", uid[0]);
            return;
        }
    }
    ask_permission(who->to, who->to, trial);
}

void doctor_try_process(pid_t pid, doctor_trial_t *trial)
{
    from_to_t who = {.to = pid};
    unsigned long long uid[4] = {0};

    *trial = (doctor_trial_t) {.tried = false};
    (void) doctor_status(pid, "Uid:", 10, uid, 4);
    snprintf(trial->who, sizeof(trial->who), "a process of uid %llu started here, with %ld", uid[0],
             (long) pid);
    in_child(process_body, &who, trial);
}

static unsigned long long namespace_of(pid_t pid, const char *name)
{
    char path[64];
    struct stat info;

    snprintf(path, sizeof(path), "/proc/%ld/ns/%s", (long) pid, name);
    return 0 == stat(path, &info) ? (unsigned long long) info.st_ino : 0;
}

static int open_namespace(pid_t pid, const char *name)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%ld/ns/%s", (long) pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/** The number that `to` has in the pid namespace of `from`; 0 if it has none there. */
static pid_t number_in_namespace(pid_t from, pid_t to)
{
    const unsigned long long there = namespace_of(from, "pid");
    unsigned long long mine[32], theirs[32];
    const int depth = doctor_status(from, "NSpid:", 10, mine, 32);
    const int count = doctor_status(to, "NSpid:", 10, theirs, 32);
    struct stat info;
    int fd = open_namespace(to, "pid");

    if (0 == depth || 0 == count || 0 > fd) {
        if (0 <= fd) {
            close(fd);
        }
        return to; /* cannot be told: the numbers of this namespace */
    }
    while (0 <= fd && (0 != fstat(fd, &info) || there != (unsigned long long) info.st_ino)) {
        const int up = ioctl(fd, NS_PARENT);

        close(fd);
        fd = up;
    }
    if (0 > fd) {
        return 0;
    }
    close(fd);
    return depth <= count ? (pid_t) theirs[depth - 1] : 0;
}

/* ------------------------------------------------------------------------------------------------
 * The filters of a process */

#define FILTERS_MAX 16

typedef struct filter_t {
    struct sock_filter code[BPF_MAXINSNS];
    unsigned short len;
} filter_t;

/** Does this process have filters that we do not have? Their number tells (Linux 5.9). */
static bool filtered_unlike_us(pid_t pid)
{
    unsigned long long mode[2] = {0, 0}, count[2] = {0, 0};

    (void) doctor_status(pid, "Seccomp:", 10, &mode[0], 1);
    (void) doctor_status(getpid(), "Seccomp:", 10, &mode[1], 1);
    (void) doctor_status(pid, "Seccomp_filters:", 10, &count[0], 1);
    (void) doctor_status(getpid(), "Seccomp_filters:", 10, &count[1], 1);
    return 0 != mode[0] && (mode[0] != mode[1] || count[0] != count[1]);
}

/** Copy the filters of a process, which is stopped for that moment. Needs CAP_SYS_ADMIN and to be
 *  without a filter. Returns how many, or -1. */
static int fetch_filters(pid_t pid, filter_t *filters)
{
    int status, count = -1;

    if (0 != ptrace(PTRACE_SEIZE, pid, NULL, NULL)) {
        return -1;
    }
    if (0 == ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) && pid == waitpid(pid, &status, __WALL)
        && WIFSTOPPED(status)) {
        for (count = 0; FILTERS_MAX > count; ++count) {
            const long len = ptrace(PTRACE_SECCOMP_GET_FILTER, pid, (void *) (long) count,
                                    filters[count].code);

            if (0 > len) {
                count = ENOENT == errno ? count : -1;
                break;
            }
            filters[count].len = (unsigned short) len;
        }
    }
    (void) ptrace(PTRACE_DETACH, pid, NULL, NULL);
    return count;
}

/** Put the filters on this process, the oldest first. */
static bool put_filters_on(filter_t *filters, int count)
{
    bool good = 0 == prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);

    while (good && 0 < count--) {
        const struct sock_fprog program = {.len = filters[count].len,
                                           .filter = filters[count].code};

        good = 0 == syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    }
    return good;
}

/* ------------------------------------------------------------------------------------------------ */

/** The last step of taking a process's place, and the question. */
static void pair_inner(void *arg, doctor_trial_t *trial)
{
    const from_to_t *who = arg;
    unsigned long long uid[4], gid[4], caps = 0;

    if (4 != doctor_status(who->from, "Uid:", 10, uid, 4)
        || 4 != doctor_status(who->from, "Gid:", 10, gid, 4)
        || 1 != doctor_status(who->from, "CapPrm:", 16, &caps, 1)
        || !become((uid_t) uid[0], (gid_t) gid[0], caps)) {
        snprintf(trial->note, sizeof(trial->note),
                 "cannot take the place of process %ld; root can, or run contrib/doctor in it",
                 (long) who->from);
        return;
    }
    if (!put_filters_on(who->filters, who->filter_count)) {
        snprintf(trial->note, sizeof(trial->note),
                 "the seccomp filter of process %ld cannot be tried", (long) who->from);
        return;
    }
    ask_permission(who->number, who->to, trial);
}

/** Enter the namespaces of `from` that are not ours; false if that is not permitted. */
static bool enter(pid_t from)
{
    static const struct {
        const char *name;
        int type;
    } kind[] = {{"pid", CLONE_NEWPID}, {"user", CLONE_NEWUSER}};

    for (size_t i = 0; sizeof(kind) / sizeof(kind[0]) > i; ++i) {
        const unsigned long long there = namespace_of(from, kind[i].name);
        bool entered;
        int fd;

        if (0 != there && there == namespace_of(getpid(), kind[i].name)) {
            continue;
        }
        fd = open_namespace(from, kind[i].name);
        entered = 0 <= fd && 0 == setns(fd, kind[i].type);
        if (0 <= fd) {
            close(fd);
        }
        if (!entered) {
            return false;
        }
    }
    return true;
}

static void pair_body(void *arg, doctor_trial_t *trial)
{
    from_to_t *who = arg;

    who->number = number_in_namespace(who->from, who->to);
    if (0 == who->number) {
        const smsc_cma_peer_t peer = {.reason = SMSC_CMA_REASON_NAMESPACE};

        conclude(&peer, 0, trial);
        return;
    }
    if (filtered_unlike_us(who->from)) {
        who->filters = malloc(FILTERS_MAX * sizeof(*who->filters));
        who->filter_count = NULL == who->filters ? -1 : fetch_filters(who->from, who->filters);
        if (0 > who->filter_count) {
            snprintf(trial->note, sizeof(trial->note),
                     "process %ld has a seccomp filter of its own, which cannot be read from here; "
                     "run contrib/doctor as root, or in its container",
                     (long) who->from);
            free(who->filters);
            return;
        }
    }
    if (!enter(who->from)) {
        snprintf(trial->note, sizeof(trial->note),
                 "cannot enter the namespaces of process %ld; root can", (long) who->from);
        return;
    }
    in_child(pair_inner, who, trial); /* a pid namespace is entered by the next child */
    free(who->filters);
}

void doctor_try_pair(pid_t from, pid_t to, doctor_trial_t *trial)
{
    from_to_t who = {.from = from, .to = to};

    *trial = (doctor_trial_t) {.tried = false};
    snprintf(trial->who, sizeof(trial->who), "process %ld with process %ld", (long) from,
             (long) to);
    in_child(pair_body, &who, trial);
}

/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Real processes for tests; contract in proc.h.
 */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE 1
#endif

#include "proc.h"
#include "tap.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Far from where the kernel puts mappings by itself, and far from one another. */
#define SEGMENT_HINT   UINT64_C(0x200000000000)
#define SEGMENT_STRIDE UINT64_C(0x1000000000)

struct proc_control_t {
    _Atomic uint32_t event[PROC_EVENTS];
    _Atomic uint32_t barrier_arrived;
    _Atomic uint32_t barrier_round;
    _Atomic uint64_t word[PROC_EVENTS];
    _Atomic uint64_t address[PROC_MAX];
};

static int own_index = -1;

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    const struct timespec slice = {.tv_nsec = 50000000};

    syscall(SYS_futex, word, FUTEX_WAIT, value, &slice, NULL, 0);
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

void proc_post(proc_group_t *group, int event)
{
    atomic_fetch_add(&group->control->event[event], 1);
    futex_wake(&group->control->event[event]);
}

bool proc_await(proc_group_t *group, int event, uint32_t value)
{
    const uint64_t end = now_ms() + group->seconds * UINT64_C(1000);
    uint32_t seen;

    while (value > (seen = atomic_load(&group->control->event[event]))) {
        if (now_ms() > end) {
            return false;
        }
        futex_wait(&group->control->event[event], seen);
    }
    return true;
}

uint32_t proc_count(proc_group_t *group, int event)
{
    return atomic_load(&group->control->event[event]);
}

bool proc_running(proc_group_t *group, int index)
{
    int status;

    if (-1 == group->status[index]
        && group->pid[index] == waitpid(group->pid[index], &status, WNOHANG)) {
        group->status[index] = status;
    }
    return -1 == group->status[index];
}

bool proc_barrier(proc_group_t *group)
{
    struct proc_control_t *control = group->control;
    const uint64_t end = now_ms() + group->seconds * UINT64_C(1000);
    const uint32_t round = atomic_load(&control->barrier_round);

    if ((uint32_t) group->count == atomic_fetch_add(&control->barrier_arrived, 1) + 1) {
        atomic_store(&control->barrier_arrived, 0);
        atomic_fetch_add(&control->barrier_round, 1);
        futex_wake(&control->barrier_round);
        return true;
    }
    while (round == atomic_load(&control->barrier_round)) {
        if (now_ms() > end) {
            return false;
        }
        futex_wait(&control->barrier_round, round);
    }
    return true;
}

_Atomic uint64_t *proc_word(proc_group_t *group, int index)
{
    return &group->control->word[index];
}

void proc_note(proc_group_t *group, const char *text, ...)
{
    char body[400];
    va_list values;

    (void) group;
    va_start(values, text);
    vsnprintf(body, sizeof(body), text, values);
    va_end(values);
    dprintf(STDERR_FILENO, "# process %d: %s\n", own_index, body);
}

const char *proc_status_text(int status)
{
    static char text[32];

    if (-1 == status) {
        return "still running";
    }
    if (WIFSIGNALED(status)) {
        snprintf(text, sizeof(text), "signal %d", WTERMSIG(status));
    } else {
        snprintf(text, sizeof(text), "exit %d", WEXITSTATUS(status));
    }
    return text;
}

static void *map_segment(const proc_group_t *group, int index)
{
    const uint64_t hint = SEGMENT_HINT + (uint64_t) (index + 1) * SEGMENT_STRIDE;

    if (0 == group->bytes) {
        return NULL;
    }
    return mmap((void *) (uintptr_t) hint, group->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                group->segment_fd, 0);
}

/** All addresses differ, or the test proves nothing about them. */
static bool addresses_differ(const proc_group_t *group)
{
    for (int i = 0; i < group->count && 0 < group->bytes; ++i) {
        for (int j = 0; j < i; ++j) {
            if (atomic_load(&group->control->address[i])
                == atomic_load(&group->control->address[j])) {
                return false;
            }
        }
    }
    return true;
}

static void __attribute__((noreturn))
run_child(proc_group_t *group, int index, proc_body_t body, void *argument)
{
    own_index = index;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGALRM, SIG_DFL);
    alarm(group->seconds);
    if (NULL != group->segment) {
        munmap(group->segment, group->bytes);
    }
    group->segment = map_segment(group, index);
    if (MAP_FAILED == group->segment) {
        proc_note(group, "cannot map the segment: %s", strerror(errno));
        _exit(98);
    }
    atomic_store(&group->control->address[index], (uint64_t) (uintptr_t) group->segment);
    if (!proc_barrier(group) || !addresses_differ(group)) {
        proc_note(group, "the segment is not at different addresses");
        _exit(97);
    }
    exit(body(group, index, argument));
}

bool proc_start(proc_group_t *group, int count, size_t bytes, unsigned int seconds,
                proc_body_t body, void *argument)
{
    const char *scale = getenv("SMX_TIME_SCALE");

    memset(group, 0, sizeof(*group));
    group->segment_fd = -1;
    group->count = count;
    group->bytes = bytes;
    group->seconds = seconds * (NULL != scale && 0 < atoi(scale) ? (unsigned int) atoi(scale) : 1);
    group->control = mmap(NULL, sizeof(*group->control), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == group->control) {
        tap_note("no memory for the control block");
        return false;
    }
    if (0 < bytes) {
        group->segment_fd = memfd_create("test-segment", MFD_CLOEXEC);
        if (0 > group->segment_fd || 0 != ftruncate(group->segment_fd, (off_t) bytes)
            || MAP_FAILED == (group->segment = map_segment(group, -1))) {
            tap_note("no segment of %zu bytes: %s", bytes, strerror(errno));
            return false;
        }
    }
    fflush(stdout);
    for (int i = 0; i < count; ++i) {
        group->status[i] = -1;
        group->pid[i] = fork();
        if (0 == group->pid[i]) {
            run_child(group, i, body, argument);
        }
        if (0 > group->pid[i]) {
            tap_note("fork: %s", strerror(errno));
            return false;
        }
    }
    return true;
}

int proc_join(proc_group_t *group, int index)
{
    if (-1 == group->status[index] && 0 < group->pid[index]) {
        while (0 > waitpid(group->pid[index], &group->status[index], 0) && EINTR == errno) {
        }
    }
    return group->status[index];
}

bool proc_finish(proc_group_t *group)
{
    bool good = true;

    for (int i = 0; i < group->count; ++i) {
        const int status = proc_join(group, i);

        if (0 != status) {
            tap_note("process %d ended with %s", i, proc_status_text(status));
            good = false;
        }
    }
    if (NULL != group->segment) {
        munmap(group->segment, group->bytes);
    }
    if (0 <= group->segment_fd) {
        close(group->segment_fd);
    }
    munmap(group->control, sizeof(*group->control));
    return good;
}

void proc_kill(proc_group_t *group, int index, int signal)
{
    if (0 < group->pid[index]) {
        kill(group->pid[index], signal);
    }
}

bool proc_become_plain(uid_t uid)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    const gid_t gid = (gid_t) uid;

    if (0 == geteuid()) {
        for (int capability = 0; capability < 64; ++capability) {
            (void) prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
        if (0 != setgroups(0, NULL) || 0 != setresgid(gid, gid, gid)
            || 0 != setresuid(uid, uid, uid)) {
            return false;
        }
        /* Changing the user has made the process non-dumpable, as a set-uid program would be. */
        (void) prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        if (0 <= own_index) {
            (void) prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten with the old user */
        }
    }
    return 0 == syscall(SYS_capget, &header, sets) && 0 == sets[0].effective
           && 0 == sets[0].permitted && 0 == sets[1].effective && 0 == sets[1].permitted;
}

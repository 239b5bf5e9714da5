/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * smsc/cma across user and pid namespaces and users, and a pid that is given to another process.
 * Each test runs in a process of its own, since namespaces cannot be left again.
 * smx-timeout: check=120 long=120
 */
#include "opal_config.h"

#include "cma_peer.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>

static unsigned char local[65536];

/* Results of a test process, told to the one that prints. */
typedef struct told_t {
    int count;
    struct {
        int good;
        char name[520];
    } result[24];
    char impossible[200];
} told_t;

static told_t *told;

static void tell(bool good, const char *text)
{
    told->result[told->count].good = good;
    snprintf(told->result[told->count++].name, sizeof(told->result->name), "%s", text);
}

static int impossible(const char *why)
{
    snprintf(told->impossible, sizeof(told->impossible), "%s", why);
    return 0;
}

static void run(const char *name, int (*test)(void))
{
    int status = -1;
    pid_t child;

    memset(told, 0, sizeof(*told));
    fflush(stdout);
    child = fork();
    if (0 == child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(50);
        _exit(test());
    }
    waitpid(child, &status, 0);
    if ('\0' != told->impossible[0]) {
        tap_skip(told->impossible, "%s", name);
        return;
    }
    for (int i = 0; i < told->count; ++i) {
        tap_ok(told->result[i].good, "%s: %s", name, told->result[i].name);
    }
    tap_ok(0 == status && 0 < told->count, "%s: came to its end (%s)", name,
           proc_status_text(status));
}

/* ---- who is who
 * -------------------------------------------------------------------------------- */

static bool write_text(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const bool good = 0 <= fd && (ssize_t) strlen(text) == write(fd, text, strlen(text));

    if (0 <= fd) {
        close(fd);
    }
    return good;
}

/** Enter a user namespace of one's own, mapped to the same numbers. */
static bool enter_user_namespace(int flags)
{
    char text[64];
    const uid_t uid = getuid();
    const gid_t gid = getgid();

    if (0 != unshare(CLONE_NEWUSER | flags)) {
        return false;
    }
    (void) write_text("/proc/self/setgroups", "deny");
    snprintf(text, sizeof(text), "%u %u 1", (unsigned int) uid, (unsigned int) uid);
    if (!write_text("/proc/self/uid_map", text)) {
        return false;
    }
    snprintf(text, sizeof(text), "%u %u 1", (unsigned int) gid, (unsigned int) gid);
    return write_text("/proc/self/gid_map", text);
}

/** A process that has an identity and waits; its record comes through a pipe. */
static pid_t start_holder(smsc_cma_modex_t *record, bool (*become)(void), int *stop)
{
    int channel[2], hold[2], status;
    pid_t child;
    bool good;

    if (0 != pipe2(channel, O_CLOEXEC) || 0 != pipe2(hold, O_CLOEXEC)) {
        return -1;
    }
    child = fork();
    if (0 == child) {
        smsc_cma_identity_t identity;
        char byte;

        close(hold[1]);
        alarm(50);
        if ((NULL != become && !become()) || !peer_buffer_map()
            || 0 != smsc_cma_identity_create(&identity)
            || sizeof(identity.modex)
                   != write(channel[1], &identity.modex, sizeof(identity.modex))) {
            _exit(1);
        }
        while (0 > read(hold[0], &byte, 1)) {
        }
        _exit(PEER_BYTES == pattern_good(PEER_BUFFER, PEER_BYTES, PEER_SEED, 0) ? 0 : 3);
    }
    close(channel[1]);
    close(hold[0]);
    good = sizeof(*record) == read(channel[0], record, sizeof(*record));
    close(channel[0]);
    if (!good) {
        close(hold[1]);
        waitpid(child, &status, 0);
        return -1;
    }
    *stop = hold[1];
    return child;
}

/** Let it go; true if its memory is as it was. */
static bool stop_holder(pid_t child, int stop)
{
    int status = -1;

    /* Not the end of the pipe, but a byte: later children have the other end, too. */
    if (1 != write(stop, "x", 1)) {
        return false;
    }
    close(stop);
    waitpid(child, &status, 0);
    return 0 == status;
}

static smsc_cma_reason_t try_peer(const smsc_cma_modex_t *record, smsc_cma_peer_t *peer)
{
    static smsc_cma_identity_t own;

    if (!smsc_cma_identity_is_mine(&own)) {
        smsc_cma_identity_create(&own);
    }
    return smsc_cma_probe_peer(&peer_sys_word, &own, record, 0, peer);
}

static bool copies_well(const smsc_cma_peer_t *peer)
{
    const smsc_cma_result_t result = peer_copy(peer, SMSC_CMA_READ, local, PEER_BUFFER,
                                               sizeof(local));

    return SMSC_CMA_OK == result.status
           && sizeof(local) == pattern_good(local, sizeof(local), PEER_SEED, 0)
           && SMSC_CMA_OK
                  == peer_copy(peer, SMSC_CMA_WRITE, local, PEER_BUFFER, sizeof(local)).status;
}

/* ---- user namespaces
 * --------------------------------------------------------------------------- */

static bool become_own_user_namespace(void)
{
    return enter_user_namespace(0);
}

static int into_user_namespace(void)
{
    smsc_cma_modex_t record;
    smsc_cma_peer_t peer;
    smsc_cma_reason_t reason;
    pid_t child;
    int stop;

    if (!proc_become_plain(65534)) {
        return impossible("privileges cannot be dropped");
    }
    child = start_holder(&record, become_own_user_namespace, &stop);
    if (0 > child) {
        return impossible("user namespaces are not allowed here");
    }
    /* We own the namespace that the child made, which gives us every right in it. */
    reason = try_peer(&record, &peer);
    tell(SMSC_CMA_REASON_NONE == reason && copies_well(&peer),
         "its creator can copy with a process in a namespace below");
    smsc_cma_probe_release(&peer);
    tell(stop_holder(child, stop), "whose memory is as it was");
    return 0;
}

static int out_of_user_namespace(void)
{
    smsc_cma_modex_t record;
    smsc_cma_peer_t peer;
    smsc_cma_reason_t reason;
    char text[512];
    pid_t child;
    int stop;

    if (!proc_become_plain(65534)) {
        return impossible("privileges cannot be dropped");
    }
    child = start_holder(&record, NULL, &stop);
    if (0 > child || !enter_user_namespace(0)) {
        return impossible("user namespaces are not allowed here");
    }
    reason = try_peer(&record, &peer);
    tell(SMSC_CMA_REASON_DENIED == reason && EPERM == peer.error,
         "from inside, a process outside is refused");
    smsc_cma_probe_explain(&peer, &record, text, sizeof(text));
    tell(NULL != strstr(text, "user namespace"), text);
    tell(stop_holder(child, stop), "and was not written to");
    return 0;
}

static int between_user_namespaces(void)
{
    smsc_cma_modex_t record;
    smsc_cma_peer_t peer;
    pid_t child;
    int stop;

    if (!proc_become_plain(65534)) {
        return impossible("privileges cannot be dropped");
    }
    child = start_holder(&record, become_own_user_namespace, &stop);
    if (0 > child || !enter_user_namespace(0)) {
        return impossible("user namespaces are not allowed here");
    }
    tell(SMSC_CMA_REASON_DENIED == try_peer(&record, &peer), "a sibling namespace is refused");
    tell(stop_holder(child, stop), "and was not written to");
    return 0;
}

/* ---- users
 * ------------------------------------------------------------------------------------- */

static bool become_other_user(void)
{
    return proc_become_plain(65533);
}

static int between_users(void)
{
    smsc_cma_modex_t record;
    smsc_cma_peer_t peer;
    char text[512];
    pid_t child;
    int stop;

    if (0 != geteuid()) {
        return impossible("needs root to become two users");
    }
    child = start_holder(&record, become_other_user, &stop);
    if (0 > child || !proc_become_plain(65534)) {
        return impossible("privileges cannot be dropped");
    }
    tell(SMSC_CMA_REASON_DENIED == try_peer(&record, &peer), "another user's process is refused");
    smsc_cma_probe_explain(&peer, &record, text, sizeof(text));
    tell(NULL != strstr(text, "another user"), text);
    tell(stop_holder(child, stop), "and was not written to");
    return 0;
}

/* ---- pid namespaces
 * ---------------------------------------------------------------------------- */

/** As root directly; else with a user namespace around it, in which all of the test happens. */
static bool may_unshare_pids(void)
{
    return 0 == geteuid() || enter_user_namespace(0);
}

static int into_pid_namespace(void)
{
    smsc_cma_modex_t record;
    smsc_cma_peer_t peer;
    smsc_cma_reason_t reason;
    pid_t child;
    int stop;

    if (!may_unshare_pids() || 0 != unshare(CLONE_NEWPID)) {
        return impossible("pid namespaces are not allowed here");
    }
    child = start_holder(&record, NULL, &stop);
    if (0 > child) {
        return impossible("no process in the pid namespace");
    }
    (void) proc_become_plain(getuid()); /* same user on both sides, with or without privileges */
    tell(1 == record.pid && 0 != (record.flags & SMSC_CMA_MODEX_SOCKET),
         "the peer believes that it is process 1 and offers a translation");
    reason = try_peer(&record, &peer);
    tell(SMSC_CMA_REASON_NONE == reason && child == peer.target.pid && NULL != peer.target.life,
         "its pid is found as it is numbered here");
    tell(SMSC_CMA_REASON_NONE == reason && copies_well(&peer), "and it is copied with");
    smsc_cma_probe_release(&peer);
    tell(stop_holder(child, stop), "its memory is as it was");
    return 0;
}

/* Runs in the child of a forked pid namespace and tells by exit status. */
static int look_out(const smsc_cma_modex_t *record)
{
    smsc_cma_peer_t peer;
    const smsc_cma_reason_t reason = try_peer(record, &peer);

    return SMSC_CMA_REASON_NAMESPACE == reason ? 0 : 10 + (int) reason;
}

static int out_of_pid_namespace(void)
{
    smsc_cma_modex_t record, sibling;
    pid_t child, other, inside;
    int stop, other_stop, status = -1;

    if (!may_unshare_pids()) {
        return impossible("pid namespaces are not allowed here");
    }
    child = start_holder(&record, NULL, &stop);
    if (0 > child || 0 != unshare(CLONE_NEWPID)) {
        return impossible("pid namespaces are not allowed here");
    }
    other = start_holder(&sibling, NULL, &other_stop); /* process 1 of a first namespace */
    inside = fork();
    if (0 == inside) {
        _exit(look_out(&record));
    }
    waitpid(inside, &status, 0);
    tell(0 == status, "from inside, a process outside is not visible: refused without a guess");
    tell(stop_holder(child, stop), "it was not written to");
    if (0 > other) {
        return 1;
    }
    stop_holder(other, other_stop);
    return 0;
}

/* Two processes that are each process 1 of a namespace: the pid means oneself. */
static int between_pid_namespaces(void)
{
    smsc_cma_modex_t record;
    pid_t child, middle, inside;
    int stop, status = -1;

    if (!may_unshare_pids()) {
        return impossible("pid namespaces are not allowed here");
    }
    {
        int channel[2];

        /* The first namespace, made by a process between so that we can make another. */
        if (0 != pipe2(channel, O_CLOEXEC)) {
            return 1;
        }
        middle = fork();
        if (0 == middle) {
            if (0 != unshare(CLONE_NEWPID)) {
                _exit(1);
            }
            child = start_holder(&record, NULL, &stop);
            if (0 > child || sizeof(record) != write(channel[1], &record, sizeof(record))) {
                _exit(1);
            }
            raise(SIGSTOP);
            _exit(stop_holder(child, stop) ? 0 : 3);
        }
        close(channel[1]);
        if (sizeof(record) != read(channel[0], &record, sizeof(record))) {
            return impossible("pid namespaces are not allowed here");
        }
        close(channel[0]);
    }
    if (0 != unshare(CLONE_NEWPID)) {
        return impossible("a second pid namespace is not allowed here");
    }
    inside = fork();
    if (0 == inside) {
        const bool one = 1 == getpid() && 1 == record.pid;

        _exit(one ? look_out(&record) : 2);
    }
    waitpid(inside, &status, 0);
    tell(0 == status,
         "two processes that are both process 1 do not take each other for themselves");
    waitpid(middle, &status, WUNTRACED);
    kill(middle, SIGCONT);
    waitpid(middle, &status, 0);
    tell(0 == status, "neither was written to");
    return 0;
}

/* ---- a pid that is used again
 * ------------------------------------------------------------------ */

/** Fork until the child has this pid. */
static pid_t fork_with_pid(pid_t wanted)
{
    for (int trial = 0; trial < 50; ++trial) {
        char text[32];
        pid_t child;

        snprintf(text, sizeof(text), "%d", (int) wanted - 1);
        if (!write_text("/proc/sys/kernel/ns_last_pid", text)) {
            return -1;
        }
        child = fork();
        if (0 == child) {
            if (wanted != getpid()) {
                _exit(0);
            }
            return 0;
        }
        if (wanted == child) {
            return child;
        }
        waitpid(child, NULL, 0);
    }
    return -1;
}

/** The stranger: same pid, same user, memory at the same address, perhaps an identity of its
 * own. */
static pid_t start_stranger(pid_t pid, bool identified, int *stop)
{
    int ready[2], hold[2];
    char byte;
    pid_t child;

    if (0 != pipe2(ready, O_CLOEXEC) || 0 != pipe2(hold, O_CLOEXEC)) {
        return -1;
    }
    child = fork_with_pid(pid);
    if (0 == child) {
        smsc_cma_identity_t identity;

        close(hold[1]);
        alarm(50);
        if (!peer_buffer_map() || (identified && 0 != smsc_cma_identity_create(&identity))
            || 1 != write(ready[1], "r", 1)) {
            _exit(1);
        }
        while (0 > read(hold[0], &byte, 1)) {
        }
        _exit(PEER_BYTES == pattern_good(PEER_BUFFER, PEER_BYTES, PEER_SEED, 0) ? 0 : 3);
    }
    close(ready[1]);
    close(hold[0]);
    if (0 < child && 1 != read(ready[0], &byte, 1)) {
        child = -1;
    }
    close(ready[0]);
    *stop = hold[1];
    return child;
}

/* In a pid namespace of its own, where it may choose pids. */
static int reuse_inside(void)
{
    if (0 != mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)
        || 0 != mount("proc", "/proc", "proc", 0, NULL)) {
        return impossible("/proc cannot be mounted here");
    }
    for (int variant = 0; variant < 4; ++variant) {
        const int proof = variant % 2;
        const bool identified = 2 <= variant;
        static smsc_cma_identity_t own;
        smsc_cma_modex_t record;
        smsc_cma_peer_t peer;
        struct iovec here = {local, 16}, there = {PEER_BUFFER, 16};
        pid_t first, second;
        int stop, status;
        bool good;

        if (!smsc_cma_identity_is_mine(&own)) {
            smsc_cma_identity_create(&own);
        }
        first = start_holder(&record, NULL, &stop);
        if (0 > first
            || SMSC_CMA_REASON_NONE
                   != smsc_cma_probe_peer(peer_sys(proof), &own, &record, 0, &peer)) {
            return 1;
        }
        tell(copies_well(&peer), "the first process is copied with");
        kill(first, SIGKILL);
        waitpid(first, &status, 0);
        close(stop);
        second = start_stranger(first, identified, &stop);
        if (second != first) {
            return impossible("pids cannot be chosen here");
        }
        memset(local, 0, sizeof(local));
        good = 16 == process_vm_readv(peer.target.pid, &here, 1, &there, 1, 0)
               && 16 == pattern_good(local, 16, PEER_SEED, 0);
        tell(good, "its pid is another's now, whom the kernel would let us read and write");
        memset(local, 0, sizeof(local));
        good = SMSC_CMA_GONE == peer_copy(&peer, SMSC_CMA_READ, local, PEER_BUFFER, 4096).status;
        good &= SMSC_CMA_GONE == peer_copy(&peer, SMSC_CMA_WRITE, local, PEER_BUFFER, 4096).status;
        smsc_cma_probe_release(&peer);
        good &= SMSC_CMA_REASON_STRANGER
                == smsc_cma_probe_peer(peer_sys(proof), &own, &record, 0, &peer);
        tell(good, "no copy, no new endpoint");
        tell(stop_holder(second, stop), "the stranger was not written to");
    }
    return 0;
}

static int pid_reuse(void)
{
    int status = -1;
    pid_t inside;

    if (0 == geteuid() ? 0 != unshare(CLONE_NEWPID | CLONE_NEWNS)
                       : !enter_user_namespace(CLONE_NEWPID | CLONE_NEWNS)) {
        return impossible("pid namespaces are not allowed here");
    }
    inside = fork();
    if (0 == inside) {
        _exit(reuse_inside());
    }
    waitpid(inside, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void)
{
    tap_deadline(110);
    told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == told) {
        tap_skip_all("no memory");
    }
    run("into a user namespace", into_user_namespace);
    run("out of a user namespace", out_of_user_namespace);
    run("between user namespaces", between_user_namespaces);
    run("between users", between_users);
    run("into a pid namespace", into_pid_namespace);
    run("out of a pid namespace", out_of_pid_namespace);
    run("between pid namespaces", between_pid_namespaces);
    run("a pid used again", pid_reuse);
    return tap_done();
}

/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * smsc/cma between real processes of one ordinary user: sizes, pages that cannot be had, peers
 * that go. Started as root it becomes an ordinary user, since root may do what is to be refused.
 * smx-timeout: check=120 long=300
 */
#include "opal_config.h"

#include "cma_peer.h"
#include "rng.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>

static smsc_cma_identity_t own;
static unsigned char *local; /* PEER_BYTES */

static smsc_cma_reason_t probe(int proof, proc_group_t *group, smsc_cma_peer_t *peer)
{
    const peer_shared_t *shared = group->segment;

    return smsc_cma_probe_peer(peer_sys(proof), &own, &shared->record, 0, peer);
}

static void test_sizes(int proof)
{
    static const size_t sizes[] = {0,    1,     8,     63,      4095,          4096,
                                   4097, 16384, 65537, 1 << 20, PEER_BYTES - 8};
    peer_plan_t plan = {0};
    proc_group_t group;
    smsc_cma_peer_t peer;
    bool good = true;

    if (!tap_ok(peer_start(&group, &plan), "a peer starts")) {
        return;
    }
    tap_same(probe(proof, &group, &peer), SMSC_CMA_REASON_NONE, "proof by %s: the peer passes",
             peer_proof[proof]);
    tap_ok((0 == proof) == (NULL != peer.target.life), "proof by %s is what is used",
           peer_proof[proof]);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); ++i) {
        for (size_t offset = 0; offset < 8; offset += 7) {
            const size_t len = sizes[i];
            smsc_cma_result_t result;

            memset(local, PATTERN_GUARD, PEER_BYTES);
            result = peer_copy(&peer, SMSC_CMA_READ, local + 3, PEER_BUFFER + offset, len);
            good &= SMSC_CMA_OK == result.status && len == result.done
                    && len == pattern_good(local + 3, len, PEER_SEED, offset)
                    && 3 == pattern_run(local, 3, PATTERN_GUARD) && PATTERN_GUARD == local[3 + len];
        }
    }
    tap_ok(good, "proof by %s: reading brings every byte and no other", peer_proof[proof]);

    /* Write other bytes, look by another way (a raw call), write the old ones back. */
    good = true;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); ++i) {
        const size_t len = sizes[i];
        smsc_cma_result_t result;
        struct iovec here = {local, len + 2}, there = {PEER_BUFFER + 4, len + 2};

        pattern_fill(local, len, 1234, 0);
        result = peer_copy(&peer, SMSC_CMA_WRITE, local, PEER_BUFFER + 5, len);
        good &= SMSC_CMA_OK == result.status && len == result.done;
        memset(local, 0, len + 2);
        good &= (ssize_t) len + 2 == process_vm_readv(peer.target.pid, &here, 1, &there, 1, 0)
                && len == pattern_good(local + 1, len, 1234, 0)
                && 1 == pattern_good(local, 1, PEER_SEED, 4)
                && 1 == pattern_good(local + 1 + len, 1, PEER_SEED, 5 + len);
        pattern_fill(local, len, PEER_SEED, 5);
        good &= SMSC_CMA_OK == peer_copy(&peer, SMSC_CMA_WRITE, local, PEER_BUFFER + 5, len).status;
    }
    tap_ok(good, "proof by %s: writing changes every byte and no other", peer_proof[proof]);
    tap_same(peer_touched(&group), 0, "proof by %s: the peer agrees", peer_proof[proof]);
    smsc_cma_probe_release(&peer);
    tap_ok(peer_stop(&group), "the peer ends well");
}

/* What the peer does to its memory once the endpoint exists. */
static void protect_tail(peer_shared_t *shared, void *argument)
{
    static bool off = true;

    (void) shared;
    (void) argument;
    mprotect(PEER_BUFFER + PEER_BYTES - 4096, 4096, off ? PROT_NONE : PROT_READ | PROT_WRITE);
    off = !off;
}

static void test_bad_pages(int proof)
{
    peer_plan_t plan = {.act = protect_tail};
    proc_group_t group;
    smsc_cma_peer_t peer;

    if (!peer_start(&group, &plan)) {
        tap_ok(false, "a peer starts");
        return;
    }
    probe(proof, &group, &peer);
    peer_act(&group);
    for (int direction = SMSC_CMA_READ; direction <= SMSC_CMA_WRITE; ++direction) {
        smsc_cma_result_t result;

        pattern_fill(local, PEER_BYTES, PEER_SEED, 0);
        result = peer_copy(&peer, (smsc_cma_direction_t) direction, local, PEER_BUFFER, PEER_BYTES);
        tap_ok(
            SMSC_CMA_BAD_ADDRESS == result.status && EFAULT == result.error
                && PEER_BYTES - 4096 == result.done,
            "proof by %s, direction %d: a source whose last page is PROT_NONE gives EFAULT behind "
            "the pages before it",
            peer_proof[proof], direction);
        tap_note("status %s, %zu done", smsc_cma_status_name(result.status), result.done);
    }
    peer_act(&group);
    tap_same(peer_copy(&peer, SMSC_CMA_READ, local, PEER_BUFFER, PEER_BYTES).status, SMSC_CMA_OK,
             "proof by %s: the next message, from good pages, is copied", peer_proof[proof]);

    tap_same(peer_copy(&peer, SMSC_CMA_READ, local, (void *) 8, 64).status, SMSC_CMA_BAD_ADDRESS,
             "proof by %s: unmapped memory there", peer_proof[proof]);
    tap_same(peer_copy(&peer, SMSC_CMA_READ, (void *) 8, PEER_BUFFER, 64).status,
             SMSC_CMA_BAD_ADDRESS, "proof by %s: unmapped memory here, reading", peer_proof[proof]);
    tap_same(peer_copy(&peer, SMSC_CMA_WRITE, (void *) 8, PEER_BUFFER, 64).status,
             SMSC_CMA_BAD_ADDRESS, "proof by %s: unmapped memory here, writing", peer_proof[proof]);
    tap_same(peer_copy(&peer, SMSC_CMA_READ, (void *) (UINTPTR_MAX - 8191), PEER_BUFFER, 64).status,
             SMSC_CMA_BAD_ADDRESS, "proof by %s: a kernel address here", peer_proof[proof]);
    tap_same(peer_touched(&group), 0, "proof by %s: nothing was written by all this",
             peer_proof[proof]);
    smsc_cma_probe_release(&peer);
    peer_stop(&group);
}

static bool secret_memory(peer_shared_t *shared, void *argument)
{
    void *page = MAP_FAILED;
    long fd = -1;

    (void) argument;
#ifdef SYS_memfd_secret
    fd = syscall(SYS_memfd_secret, FD_CLOEXEC);
#endif
    if (0 <= fd && 0 == ftruncate((int) fd, 65536)) {
        page = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, (int) fd, 0);
    }
    if (MAP_FAILED == page) {
        return false;
    }
    memset(page, 1, 65536);
    shared->address = (uint64_t) (uintptr_t) page;
    return true;
}

static bool beyond_the_end(peer_shared_t *shared, void *argument)
{
    const int fd = memfd_create("short", MFD_CLOEXEC);
    void *page;

    (void) argument;
    if (0 > fd || 0 != ftruncate(fd, 4096)) {
        return false;
    }
    page = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    shared->address = (uint64_t) (uintptr_t) page;
    return MAP_FAILED != page;
}

static void test_odd_memory(const char *what, bool (*ready)(peer_shared_t *, void *), size_t done)
{
    peer_plan_t plan = {.ready = ready};
    proc_group_t group;
    smsc_cma_peer_t peer;
    smsc_cma_result_t result;

    if (!peer_start(&group, &plan)) {
        tap_skip("this kernel does not offer it", "%s", what);
        return;
    }
    probe(0, &group, &peer);
    result = peer_copy(&peer, SMSC_CMA_READ, local,
                       (void *) (uintptr_t) ((peer_shared_t *) group.segment)->address, 65536);
    tap_ok(SMSC_CMA_BAD_ADDRESS == result.status && done == result.done
               && !smsc_cma_status_is_final(result.status),
           "%s gives EFAULT for this message", what);
    tap_same(peer_copy(&peer, SMSC_CMA_READ, local, PEER_BUFFER, 65536).status, SMSC_CMA_OK,
             "%s: the next message is copied", what);
    smsc_cma_probe_release(&peer);
    peer_stop(&group);
}

static bool not_dumpable(void *argument)
{
    (void) argument;
    return 0 == prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static void become_not_dumpable(peer_shared_t *shared, void *argument)
{
    (void) shared;
    (void) not_dumpable(argument);
}

static void test_dumpable(int proof)
{
    peer_plan_t before = {.before = not_dumpable}, later = {.act = become_not_dumpable};
    proc_group_t group;
    smsc_cma_peer_t peer;
    char text[512];

    if (!peer_start(&group, &before)) {
        tap_ok(false, "a peer starts");
        return;
    }
    tap_same(probe(proof, &group, &peer), SMSC_CMA_REASON_DENIED,
             "a peer that is not dumpable is refused");
    smsc_cma_probe_explain(&peer, &((peer_shared_t *) group.segment)->record, text, sizeof(text));
    tap_ok(NULL != strstr(text, "not dumpable"), "and the line says so: %s", text);
    tap_same(peer_touched(&group), 0, "it was not written to");
    peer_stop(&group);

    if (!peer_start(&group, &later)) {
        tap_ok(false, "a peer starts");
        return;
    }
    tap_same(probe(proof, &group, &peer), SMSC_CMA_REASON_NONE, "a peer passes");
    tap_same(peer_copy(&peer, SMSC_CMA_READ, local, PEER_BUFFER, 4096).status, SMSC_CMA_OK,
             "it is copied from");
    peer_act(&group);
    for (int direction = SMSC_CMA_READ; direction <= SMSC_CMA_WRITE; ++direction) {
        const smsc_cma_result_t result = peer_copy(&peer, (smsc_cma_direction_t) direction, local,
                                                   PEER_BUFFER, 4096);

        tap_ok(SMSC_CMA_DENIED == result.status && EPERM == result.error
                   && smsc_cma_status_is_final(result.status),
               "proof by %s, direction %d: permission lost in mid-run is told, and for good",
               peer_proof[proof], direction);
    }
    smsc_cma_probe_release(&peer);
    peer_stop(&group);
}

static void test_killed(int proof)
{
    peer_plan_t plan = {0};

    for (int reaped = 0; reaped < 2; ++reaped) {
        proc_group_t group;
        smsc_cma_peer_t peer;
        bool good = true;

        if (!peer_start(&group, &plan)) {
            tap_ok(false, "a peer starts");
            return;
        }
        probe(proof, &group, &peer);
        good &= SMSC_CMA_OK == peer_copy(&peer, SMSC_CMA_READ, local, PEER_BUFFER, 4096).status;
        proc_kill(&group, 0, SIGKILL);
        if (reaped) {
            proc_join(&group, 0);
        } else {
            siginfo_t info;

            waitid(P_PID, (id_t) group.pid[0], &info, WEXITED | WNOWAIT);
        }
        good &= SMSC_CMA_GONE == peer_copy(&peer, SMSC_CMA_READ, local, PEER_BUFFER, 4096).status;
        good &= SMSC_CMA_GONE == peer_copy(&peer, SMSC_CMA_WRITE, local, PEER_BUFFER, 4096).status;
        smsc_cma_probe_release(&peer);
        good &= SMSC_CMA_REASON_EXITED == probe(proof, &group, &peer);
        tap_ok(good, "proof by %s: a killed peer, %s, is gone for copies and for a new probe",
               peer_proof[proof], reaped ? "buried" : "a zombie");
        proc_join(&group, 0);
        group.status[0] = 0;
        proc_finish(&group);
    }
}

/* exec: same pid, same user, same address of the buffer, another program. */
static int stranger_pipe[2];

static void call_exec(peer_shared_t *shared, void *argument)
{
    char fd[16];

    (void) argument;
    (void) shared;
    fcntl(stranger_pipe[1], F_SETFD, 0);
    snprintf(fd, sizeof(fd), "%d", stranger_pipe[1]);
    execl("/proc/self/exe", "p_cma_peers", "--stranger", fd, (char *) NULL);
}

/* The new program: the same buffer, and a byte through the pipe when it is there. */
static int stranger(int fd)
{
    const pid_t parent = getppid();

    if (!peer_buffer_map() || 1 != write(fd, "r", 1)) {
        return 1;
    }
    signal(SIGUSR1, SIG_IGN);
    for (int i = 0; i < 10000 && parent == getppid(); ++i) {
        sigset_t set;
        struct timespec slice = {.tv_nsec = 5000000};

        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigprocmask(SIG_BLOCK, &set, NULL);
        if (SIGUSR1 == sigtimedwait(&set, NULL, &slice)) {
            return PEER_BYTES == pattern_good(PEER_BUFFER, PEER_BYTES, PEER_SEED, 0) ? 0 : 3;
        }
    }
    return 2;
}

static void test_exec(int proof)
{
    peer_plan_t plan = {.act = call_exec};
    proc_group_t group;
    smsc_cma_peer_t peer;
    smsc_cma_result_t reading, writing;
    struct iovec here = {local, 16}, there = {PEER_BUFFER, 16};
    char byte;

    if (0 != pipe2(stranger_pipe, O_CLOEXEC) || !peer_start(&group, &plan)) {
        tap_ok(false, "a peer starts");
        return;
    }
    probe(proof, &group, &peer);
    proc_post(&group, PEER_ACT);
    close(stranger_pipe[1]);
    tap_ok(1 == read(stranger_pipe[0], &byte, 1), "the peer becomes another program");
    close(stranger_pipe[0]);
    memset(local, 0, 4096);
    /* The test has teeth only if the kernel itself would let us. */
    tap_ok(16 == process_vm_readv(peer.target.pid, &here, 1, &there, 1, 0),
           "the kernel would let us read the new program");
    memset(local, 0, 4096);
    reading = peer_copy(&peer, SMSC_CMA_READ, local, PEER_BUFFER, 4096);
    writing = peer_copy(&peer, SMSC_CMA_WRITE, local, PEER_BUFFER, 4096);
    tap_ok(SMSC_CMA_GONE == reading.status && SMSC_CMA_GONE == writing.status && 0 == writing.done,
           "proof by %s: after exec the peer is gone", peer_proof[proof]);
    smsc_cma_probe_release(&peer);
    tap_same(probe(proof, &group, &peer), SMSC_CMA_REASON_STRANGER, "a new probe meets a stranger");
    usleep(20000);
    proc_kill(&group, 0, SIGUSR1);
    tap_same(proc_join(&group, 0), 0, "proof by %s: the new program's memory was not written to",
             peer_proof[proof]);
    proc_finish(&group);
}

/* More than 4 GiB, as two lists that name the same pages again and again: the kernel's cap on a
 * call falls inside an element, and nothing has to be mapped for it. */
static void test_long_lists(void)
{
    enum { ELEMENTS = 1600 };
    peer_plan_t plan = {0};
    proc_group_t group;
    smsc_cma_peer_t peer;
    struct iovec *here = calloc(ELEMENTS, sizeof(*here)), *there = calloc(ELEMENTS, sizeof(*there));

    if (!peer_start(&group, &plan)) {
        tap_ok(false, "a peer starts");
        return;
    }
    probe(0, &group, &peer);
    for (int direction = SMSC_CMA_READ; direction <= SMSC_CMA_WRITE; ++direction) {
        const bool reading = SMSC_CMA_READ == direction;
        size_t total = 0;
        smsc_cma_result_t result;

        /* What goes to the peer is what it has; what comes is looked at. */
        pattern_fill(local, PEER_BYTES, PEER_SEED + (reading ? 1 : 0), 0);
        for (int i = 0; i < ELEMENTS; ++i) {
            const size_t offset = (size_t) i % 4000, len = PEER_BYTES - 4000 - (size_t) i;

            here[i] = (struct iovec) {local + offset, len};
            there[i] = (struct iovec) {PEER_BUFFER + offset, len};
            total += len;
        }
        smsc_cma_copyv(&peer_sys_word.copy, &peer.target, (smsc_cma_direction_t) direction, here,
                       ELEMENTS, there, ELEMENTS, 0, &result);
        tap_ok(SMSC_CMA_OK == result.status && total == result.done && ((size_t) 4 << 30) < total,
               "%zu bytes in %d elements, direction %d", total, ELEMENTS, direction);
        tap_ok(PEER_BYTES - 4000 == pattern_good(local, PEER_BYTES - 4000, PEER_SEED, 0),
               "and every one of them");
    }
    tap_same(peer_touched(&group), 0, "the peer agrees");
    smsc_cma_probe_release(&peer);
    free(here);
    free(there);
    peer_stop(&group);
}

/* The same as one range: a few pages mapped again and again, which costs a page fault for each. */
#define PERIOD     ((size_t) 8 << 20)
#define HUGE_BYTES (((size_t) 4 << 30) + 2 * PERIOD)

static unsigned char *map_periodically(uint64_t seed)
{
    const int fd = memfd_create("period", MFD_CLOEXEC);
    unsigned char *base;

    if (0 > fd || 0 != ftruncate(fd, (off_t) PERIOD)) {
        return NULL;
    }
    base = mmap(NULL, HUGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (MAP_FAILED == base) {
        close(fd);
        return NULL;
    }
    for (size_t at = 0; at < HUGE_BYTES; at += PERIOD) {
        if (MAP_FAILED
            == mmap(base + at, PERIOD, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0)) {
            close(fd);
            return NULL;
        }
    }
    close(fd);
    pattern_fill(base, PERIOD, seed, 0);
    return base;
}

static bool map_huge(peer_shared_t *shared, void *argument)
{
    (void) argument;
    shared->address = (uint64_t) (uintptr_t) map_periodically(77);
    return 0 != shared->address;
}

static _Atomic unsigned long signals;

static void count_signal(int number)
{
    (void) number;
    atomic_fetch_add_explicit(&signals, 1, memory_order_relaxed);
}

static void set_timer(bool on)
{
    const struct itimerval timer = {.it_interval = {.tv_usec = on ? 1000 : 0},
                                    .it_value = {.tv_usec = on ? 1000 : 0}};
    const struct sigaction action = {.sa_handler = count_signal}; /* no SA_RESTART */

    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &timer, NULL);
}

static void interrupt_self(peer_shared_t *shared, void *argument)
{
    (void) shared;
    (void) argument;
    set_timer(true);
}

static void test_interrupted(void)
{
    peer_plan_t plan = {.act = interrupt_self};
    proc_group_t group;
    smsc_cma_peer_t peer;
    bool good = true;

    if (!peer_start(&group, &plan)) {
        tap_ok(false, "a peer starts");
        return;
    }
    probe(0, &group, &peer);
    peer_act(&group);
    set_timer(true);
    for (int i = 0; i < 100; ++i) {
        good &= SMSC_CMA_OK
                == peer_copy(&peer, SMSC_CMA_READ, local, PEER_BUFFER, PEER_BYTES).status;
        good &= SMSC_CMA_OK
                == peer_copy(&peer, SMSC_CMA_WRITE, local, PEER_BUFFER, PEER_BYTES).status;
    }
    set_timer(false);
    tap_ok(good && 0 < atomic_load(&signals) && 0 == peer_touched(&group),
           "copies while signals arrive on both sides (%lu here)", atomic_load(&signals));
    smsc_cma_probe_release(&peer);
    peer_stop(&group);
}

/* Position i of the remote range went to position i of the local one, over and over. */
static bool periodic(const unsigned char *base, uint64_t seed, size_t base_offset,
                     size_t seed_offset)
{
    size_t bad = 0;

    for (size_t i = 0; i < PERIOD; i += 61) {
        bad += base[(i + base_offset) % PERIOD] != pattern_byte(seed, (i + seed_offset) % PERIOD);
    }
    return 0 == bad;
}

static void test_long_ranges(void)
{
    static const struct {
        size_t len;
        size_t here, there;
        smsc_cma_direction_t direction;
    } table[] = {
        {((size_t) 4 << 30) + 4096 + 3, 1, 4095, SMSC_CMA_READ},
        {((size_t) 2 << 30) + 1, 0, 1, SMSC_CMA_READ},
        {((size_t) 4 << 30) + 3, 4095, 0, SMSC_CMA_WRITE},
    };
    peer_plan_t plan = {.ready = map_huge};
    proc_group_t group;
    smsc_cma_peer_t peer;
    unsigned char *base = map_periodically(88);
    const peer_shared_t *shared;

    if (NULL == base || !peer_start(&group, &plan)) {
        tap_skip("no address space", "one range of more than 4 GiB");
        return;
    }
    shared = group.segment;
    probe(0, &group, &peer);
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); ++i) {
        const bool reading = SMSC_CMA_READ == table[i].direction;
        unsigned char *there = (unsigned char *) (uintptr_t) shared->address + table[i].there;
        smsc_cma_result_t result;

        if (!reading) {
            pattern_fill(base, PERIOD, 88, 0);
        }
        smsc_cma_copy(&peer_sys_word.copy, &peer.target, table[i].direction, base + table[i].here,
                      (uint64_t) (uintptr_t) there, table[i].len, 0 == i ? 0 : (size_t) 64 << 20,
                      &result);
        if (reading) {
            tap_ok(SMSC_CMA_OK == result.status && table[i].len == result.done
                       && periodic(base, 77, table[i].here, table[i].there),
                   "%zu bytes are read in %lu calls", table[i].len, result.calls);
        } else {
            unsigned char *back = malloc(PERIOD);

            smsc_cma_copy(&peer_sys_word.copy, &peer.target, SMSC_CMA_READ, back, shared->address,
                          PERIOD, 0, &result);
            tap_ok(SMSC_CMA_OK == result.status
                       && periodic(back, 88, table[i].there, table[i].here),
                   "%zu bytes are written", table[i].len);
            free(back);
        }
    }
    smsc_cma_probe_release(&peer);
    munmap(base, HUGE_BYTES);
    peer_stop(&group);
}

/* Many threads, an endpoint for each, both directions, one peer. */
typedef struct worker_t {
    proc_group_t *group;
    uint64_t seed;
    int failures;
    int copies;
} worker_t;

static void *work(void *argument)
{
    worker_t *worker = argument;
    rng_t rng = rng_split(tap_seed(), worker->seed);
    unsigned char *buffer = malloc(PEER_BYTES / 8);

    for (int round = 0; round < 40; ++round) {
        smsc_cma_peer_t peer;

        if (SMSC_CMA_REASON_NONE != probe((int) (rng_next(&rng) & 1), worker->group, &peer)) {
            ++worker->failures;
            continue;
        }
        for (int i = 0; i < 20; ++i, ++worker->copies) {
            const size_t at = rng_below(&rng, PEER_BYTES / 2);
            const size_t len = 1 + rng_below(&rng, PEER_BYTES / 8 - 1);

            /* All write what is there already, so that all may do so at once. */
            pattern_fill(buffer, len, PEER_SEED, at);
            worker->failures +=
                SMSC_CMA_OK
                != peer_copy(&peer, SMSC_CMA_WRITE, buffer, PEER_BUFFER + at, len).status;
            memset(buffer, 0, len);
            worker->failures +=
                SMSC_CMA_OK
                != peer_copy(&peer, SMSC_CMA_READ, buffer, PEER_BUFFER + at, len).status;
            worker->failures += len != pattern_good(buffer, len, PEER_SEED, at);
        }
        smsc_cma_probe_release(&peer);
    }
    free(buffer);
    return NULL;
}

static void test_threads(void)
{
    peer_plan_t plan = {0};
    proc_group_t group;
    pthread_t thread[4];
    worker_t worker[4];
    int failures = 0, copies = 0;

    if (!peer_start(&group, &plan)) {
        tap_ok(false, "a peer starts");
        return;
    }
    for (int i = 0; i < 4; ++i) {
        worker[i] = (worker_t) {.group = &group, .seed = (uint64_t) i};
        pthread_create(&thread[i], NULL, work, &worker[i]);
    }
    for (int i = 0; i < 4; ++i) {
        pthread_join(thread[i], NULL);
        failures += worker[i].failures;
        copies += worker[i].copies;
    }
    tap_ok(0 == failures && 4 * 40 * 20 == copies,
           "four threads, 160 endpoints to one peer, %d copies each way at once", copies);
    tap_same(peer_touched(&group), 0, "the peer's memory is as it was");
    peer_stop(&group);
}

static void test_few_descriptors(void)
{
    struct rlimit before, few;
    peer_plan_t plan = {0};
    proc_group_t group;
    smsc_cma_peer_t peer;

    if (!peer_start(&group, &plan)) {
        tap_ok(false, "a peer starts");
        return;
    }
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &few);
    tap_ok(SMSC_CMA_REASON_NONE == probe(0, &group, &peer) && NULL == peer.target.life,
           "without a free descriptor the endpoint is made, without a life word");
    setrlimit(RLIMIT_NOFILE, &before);
    tap_same(peer_copy(&peer, SMSC_CMA_READ, local, PEER_BUFFER, 4096).status, SMSC_CMA_OK,
             "and copies");
    smsc_cma_probe_release(&peer);
    peer_stop(&group);
}

int main(int argc, char **argv)
{
    if (3 == argc && 0 == strcmp("--stranger", argv[1])) {
        return stranger(atoi(argv[2]));
    }
    tap_deadline(110);
    (void) tap_seed();
    if (!proc_become_plain(65534)) {
        tap_skip_all("this process cannot get rid of its privileges");
    }
    local = mmap(NULL, PEER_BYTES + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                 0);
    if (MAP_FAILED == local || 0 != smsc_cma_identity_create(&own)) {
        tap_ok(false, "an identity and a buffer");
        return tap_done();
    }
    for (int proof = 0; proof < 2; ++proof) {
        test_sizes(proof);
        test_bad_pages(proof);
        test_dumpable(proof);
        test_killed(proof);
        test_exec(proof);
    }
    test_odd_memory("memory that only its owner can read (memfd_secret)", secret_memory, 0);
    test_odd_memory("a file mapping beyond its end", beyond_the_end, 4096);
    test_few_descriptors();
    test_threads();
    test_long_lists();
    test_interrupted();
    if (tap_long()) {
        test_long_ranges();
    }
    smsc_cma_identity_retire(&own);
    return tap_done();
}

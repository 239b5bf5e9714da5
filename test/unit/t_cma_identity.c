/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit tests of smsc_cma_identity.c: what one process can see of its own identity, and what a fork
 * leaves.
 */
#include "opal_config.h"

#include "smsc_cma_identity.h"
#include "smsc_cma_probe.h"
#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (NULL != readdir(dir)) {
        ++count;
    }
    closedir(dir);
    return count;
}

static uint32_t life_word(const smsc_cma_identity_t *identity)
{
    return atomic_load(
        (_Atomic uint32_t *) ((char *) identity->page + identity->modex.life_offset));
}

static void test_create(void)
{
    smsc_cma_identity_t identity, again;
    smsc_cma_modex_t out;
    uint64_t nonce;
    const int before = open_descriptors();

    tap_same(smsc_cma_identity_create(&identity), 0, "an identity can be made");
    tap_same(smsc_cma_modex_accept(&identity.modex, sizeof(identity.modex), &out),
             SMSC_CMA_MODEX_OK, "its record is one that peers accept");
    memcpy(&nonce, (void *) (uintptr_t) identity.modex.page_address, sizeof(nonce));
    tap_ok(nonce == identity.modex.nonce && 0 != nonce, "the nonce stands where the record says");
    tap_same(identity.modex.pid, getpid(), "the pid is ours");
    tap_ok(0 != identity.modex.start_time
               && identity.modex.start_time == smsc_cma_identity_start_time(getpid()),
           "the start time is found by both ways");
    tap_ok(smsc_cma_identity_is_mine(&identity), "it is ours");
    tap_ok(0 != (identity.modex.flags & SMSC_CMA_MODEX_LIFE)
               && life_word(&identity) == identity.modex.life_value,
           "the life word holds the value of a living process");

    tap_same(smsc_cma_identity_create(&again), 0, "a second one can be made beside it");
    tap_ok(again.modex.nonce != identity.modex.nonce, "nonces differ");
    smsc_cma_identity_retire(&again);
    smsc_cma_identity_retire(&identity);
    tap_ok(!smsc_cma_identity_is_mine(&identity) && NULL == identity.page,
           "a retired identity is nobody's");
    smsc_cma_identity_retire(&identity);
    tap_same(open_descriptors(), before,
             "retiring gives every descriptor back, twice does no harm");
}

static void test_leaks(void)
{
    const int before = open_descriptors();
    smsc_cma_identity_t identity;
    struct rusage start, end;

    smsc_cma_identity_create(&identity);
    smsc_cma_identity_retire(&identity);
    getrusage(RUSAGE_SELF, &start);
    for (int i = 0; i < 500; ++i) {
        if (0 != smsc_cma_identity_create(&identity)) {
            break;
        }
        smsc_cma_identity_retire(&identity);
    }
    getrusage(RUSAGE_SELF, &end);
    tap_same(open_descriptors(), before, "500 identities leave no descriptor");
    tap_ok(end.ru_maxrss - start.ru_maxrss < 4096, "500 identities leave no memory");
}

static void *create_in_thread(void *identity)
{
    smsc_cma_identity_create((smsc_cma_identity_t *) identity);
    return NULL;
}

static void test_threads(void)
{
    smsc_cma_identity_t identity;
    pthread_t thread;
    void *page;
    uint64_t nonce;

    pthread_create(&thread, NULL, create_in_thread, &identity);
    pthread_join(thread, NULL);
    page = identity.page;
    tap_ok(life_word(&identity) != identity.modex.life_value,
           "when the thread that made it ends, the life word changes");
    smsc_cma_identity_retire(&identity);
    memcpy(&nonce, page, sizeof(nonce));
    tap_ok(0 == nonce, "retired from another thread, the page stays but has no nonce");
}

static int in_child(const smsc_cma_identity_t *identity)
{
    smsc_cma_identity_t mine = *identity, fresh;
    unsigned char resident;

    if (smsc_cma_identity_is_mine(identity)) {
        return 1;
    }
    errno = 0;
    if (0 == mincore(identity->page, 1, &resident) || ENOMEM != errno) {
        return 2; /* the page is there */
    }
    if (0 != smsc_cma_identity_create(&fresh) || fresh.modex.nonce == identity->modex.nonce) {
        return 3;
    }
    smsc_cma_identity_retire(&mine);
    if (!smsc_cma_identity_is_mine(&fresh)) {
        return 4; /* giving the inherited one up must not touch ours */
    }
    return 0;
}

static void test_fork(void)
{
    smsc_cma_identity_t identity;
    uint64_t nonce;
    int status = -1;
    pid_t child;

    smsc_cma_identity_create(&identity);
    child = fork();
    if (0 == child) {
        _exit(in_child(&identity));
    }
    waitpid(child, &status, 0);
    tap_same(status, 0, "a forked child has no page, is not taken for us, and can have its own");
    memcpy(&nonce, identity.page, sizeof(nonce));
    tap_ok(nonce == identity.modex.nonce && life_word(&identity) == identity.modex.life_value,
           "the child's end does not touch the parent's identity");
    smsc_cma_identity_retire(&identity);
}

/* The bit that peers look for is set by the kernel, however the process ends. */
static void test_end(void)
{
    static const char *const how[] = {"exit", "SIGKILL", "exec"};

    for (int way = 0; way < 3; ++way) {
        int channel[2], status;
        smsc_cma_modex_t record;
        char path[64];
        pid_t child;
        void *page;
        int fd;
        uint32_t alive, ended;
        smsc_cma_target_t target;

        if (0 != pipe(channel)) {
            abort();
        }
        child = fork();
        if (0 == child) {
            smsc_cma_identity_t identity;

            smsc_cma_identity_create(&identity);
            if (sizeof(identity.modex)
                != write(channel[1], &identity.modex, sizeof(identity.modex))) {
                _exit(1);
            }
            usleep(100000);
            if (0 == way) {
                _exit(0);
            } else if (1 == way) {
                raise(SIGKILL);
            }
            execlp("sleep", "sleep", "5", (char *) NULL);
            _exit(1);
        }
        if (sizeof(record) != read(channel[0], &record, sizeof(record))) {
            abort();
        }
        close(channel[0]);
        close(channel[1]);
        snprintf(path, sizeof(path), "/proc/%ld/fd/%u", (long) child, record.page_fd);
        page = smsc_cma_probe_map(child, &record);
        tap_ok(NULL != page, "%s: a peer can map the page", how[way]);
        if (NULL == page) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            continue;
        }
        target.life = (const _Atomic uint32_t *) ((char *) page + record.life_offset);
        alive = atomic_load(target.life);
        for (int i = 0; i < 500 && alive == atomic_load(target.life); ++i) {
            usleep(2000);
        }
        ended = atomic_load(target.life);
        tap_ok(record.life_value == alive && ended != alive,
               "%s: the life word says alive before and not afterwards", how[way]);
        fd = open(path, O_PATH);
        /* Exec clears the life word when it lets go of the old memory, and closes the
         * close-on-exec descriptors after that: for a moment the file is still there. Nothing in
         * the component relies on the order. */
        for (int i = 0; 2 == way && 0 <= fd && i < 1000; ++i) {
            close(fd);
            usleep(2000);
            fd = open(path, O_PATH);
        }
        if (2 == way) {
            tap_ok(0 > fd && 0 == kill(child, 0),
                   "exec: the new program runs and has not inherited the page");
        }
        if (0 <= fd) {
            close(fd);
        }
        munmap(page, SMSC_CMA_PAGE_BYTES);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
}

static void test_scarcity(void)
{
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = 0};
    int status = -1;
    pid_t child = fork();

    if (0 == child) {
        smsc_cma_identity_t identity;

        setrlimit(RLIMIT_NOFILE, &none);
        if (0 != smsc_cma_identity_create(&identity)) {
            _exit(1);
        }
        _exit(0 == identity.modex.flags && NULL != identity.page && 0 != identity.modex.nonce
                      && -1 == identity.page_fd
                  ? 0
                  : 2);
    }
    waitpid(child, &status, 0);
    tap_same(status, 0,
             "without descriptors there is still a page with a nonce, and no promise more");
}

/* A descriptor number means nothing by itself: only the file that the record describes is
 * opened. */
static void test_map(void)
{
    smsc_cma_identity_t identity, other;
    smsc_cma_modex_t record;
    void *page;

    smsc_cma_identity_create(&identity);
    smsc_cma_identity_create(&other);
    page = smsc_cma_probe_map(getpid(), &identity.modex);
    tap_ok(NULL != page && 0 == memcmp(page, &identity.modex.nonce, sizeof(uint64_t)),
           "the page is found by its record");
    if (NULL != page) {
        munmap(page, SMSC_CMA_PAGE_BYTES);
    }
    record = identity.modex;
    record.page_fd = other.modex.page_fd;
    tap_ok(NULL == smsc_cma_probe_map(getpid(), &record),
           "another file of the same kind is not taken");
    record = identity.modex;
    record.page_device ^= 1;
    tap_ok(NULL == smsc_cma_probe_map(getpid(), &record), "nor one of another device");
    record = identity.modex;
    record.page_fd = 9999;
    tap_ok(NULL == smsc_cma_probe_map(getpid(), &record), "nor none");
    smsc_cma_identity_retire(&other);
    smsc_cma_identity_retire(&identity);
}

static void test_translate(void)
{
    tap_same(smsc_cma_identity_translate(UINT64_C(0x123456789)), 0,
             "a name that nobody listens under translates to nobody");
    tap_same(smsc_cma_identity_start_time(0x7ffffffe) == 0, 1,
             "a process that does not exist has no start time");
}

int main(void)
{
    tap_deadline(60);
    test_create();
    test_leaks();
    test_threads();
    test_fork();
    test_end();
    test_scarcity();
    test_map();
    test_translate();
    return tap_done();
}

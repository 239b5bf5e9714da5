/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Identity page, life word and pid translation; contract in smsc_cma_identity.h.
 *
 * Layer: L0. Called by smsc_cma_component.c, smsc_cma_probe.c.
 * Must never: fail the caller for want of anything but the page itself.
 */
#include "opal_config.h"

#include "smsc_cma_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* The initial pid namespace has a fixed inode (PROC_PID_INIT_INO in the kernel's proc_ns.h). Nobody
 * outside sees into it, so a process that lives there need not offer a translation. */
#define INITIAL_PID_NAMESPACE UINT64_C(0xeffffffc)

/* MFD_NOEXEC_SEAL of Linux 6.3, which older headers lack. */
#define NOEXEC_SEAL 8u

/* Connections that may wait to be thrown away; the kernel cuts it to net.core.somaxconn. */
#define SOCKET_BACKLOG 4096

_Static_assert(SMSC_CMA_PAGE_SCRATCH - SMSC_CMA_PAGE_MUTEX >= 2 * sizeof(pthread_mutex_t),
               "two mutexes fit: one for life, one to try what the kernel does");

static pthread_mutex_t *mutex_in(void *page, size_t index)
{
    return (pthread_mutex_t *) ((char *) page + SMSC_CMA_PAGE_MUTEX) + index;
}

/** Random and not zero, whatever the system lacks. */
static uint64_t random_word(void)
{
    uint64_t word = 0;
    struct timespec now;
    const unsigned char *seed = (const unsigned char *) getauxval(AT_RANDOM);

    if ((ssize_t) sizeof(word) == getrandom(&word, sizeof(word), GRND_NONBLOCK) && 0 != word) {
        return word;
    }
    /* The kernel gave each program 16 random bytes when it started; what is added tells words of
     * one process apart. */
    if (NULL != seed) {
        memcpy(&word, seed, sizeof(word));
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    word ^= ((uint64_t) now.tv_nsec << 32) ^ (uint64_t) now.tv_sec ^ ((uint64_t) getpid() << 16)
            ^ (uint64_t) (uintptr_t) &word;
    return 0 != word ? word : 1;
}

static uint64_t pid_namespace_inode(void)
{
    struct stat info;

    return 0 == stat("/proc/self/ns/pid", &info) ? (uint64_t) info.st_ino : 0;
}

uint64_t smsc_cma_identity_start_time(pid_t pid)
{
    char path[64], text[1024];
    const char *at;
    ssize_t len;
    int fd;

    if (0 == pid) {
        snprintf(path, sizeof(path), "/proc/self/stat");
    } else {
        snprintf(path, sizeof(path), "/proc/%ld/stat", (long) pid);
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (0 > fd) {
        return 0;
    }
    len = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (0 >= len) {
        return 0;
    }
    text[len] = '\0';
    /* The name in parentheses may hold anything; fields count from its end, which is field 2. */
    at = strrchr(text, ')');
    for (int field = 2; NULL != at && 22 > field; ++field) {
        at = strchr(at + 1, ' ');
    }
    return NULL != at ? strtoull(at + 1, NULL, 10) : 0;
}

/** Shared memory without a name that cannot shrink under a peer that mapped it; -1 if
 * impossible. */
static int page_file(void)
{
    const unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    /* Newer kernels want to be told, and may insist, that nothing in it is to be executed. */
    int fd = memfd_create("smsc_cma_identity", flags | NOEXEC_SEAL);

    if (0 > fd && EINVAL == errno) {
        fd = memfd_create("smsc_cma_identity", flags);
    }
    if (0 > fd) {
        return -1;
    }
    if (0 != ftruncate(fd, SMSC_CMA_PAGE_BYTES)
        || 0 != fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void *hold_and_end(void *mutex)
{
    return (void *) (intptr_t) pthread_mutex_lock((pthread_mutex_t *) mutex);
}

static int robust_mutex_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attr;
    int rc = pthread_mutexattr_init(&attr);

    if (0 != rc) {
        return rc;
    }
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    rc = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    if (0 == rc) {
        rc = pthread_mutex_init(mutex, &attr);
    }
    pthread_mutexattr_destroy(&attr);
    return rc;
}

/**
 * Let a thread end with a robust mutex and see which of the mutex's words is marked. The layout of
 * a mutex is the C library's affair, and a kernel that does not do its part would make the
 * dead look alive: both are found out rather than assumed.
 * @return offset of the word in the mutex, or -1
 */
static int find_life_word(pthread_mutex_t *trial)
{
    pthread_t thread;
    sigset_t all, before;
    void *locked = (void *) (intptr_t) -1;
    int rc, offset = -1;

    if (0 != robust_mutex_init(trial)) {
        return -1;
    }
    /* The program's signal handlers must not run on a thread that it knows nothing of. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, NULL, hold_and_end, trial);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (0 != rc || 0 != pthread_join(thread, &locked) || 0 != (int) (intptr_t) locked) {
        return -1;
    }
    for (size_t at = 0; at < sizeof(*trial); at += sizeof(uint32_t)) {
        uint32_t word;

        memcpy(&word, (const char *) trial + at, sizeof(word));
        if (FUTEX_OWNER_DIED == (word & (FUTEX_OWNER_DIED | FUTEX_TID_MASK))) {
            offset = (int) at;
            break;
        }
    }
    if (EOWNERDEAD == pthread_mutex_trylock(trial)) {
        pthread_mutex_unlock(trial);
    }
    pthread_mutex_destroy(trial);
    return offset;
}

/** Take the life mutex for good; true if the record may speak of a life word. */
static bool begin_life(smsc_cma_identity_t *identity)
{
    pthread_mutex_t *life = mutex_in(identity->page, 0);
    const int offset = find_life_word(mutex_in(identity->page, 1));
    struct stat info;
    uint32_t value;

    if (0 > offset || 0 != fstat(identity->page_fd, &info) || 0 != robust_mutex_init(life)) {
        return false;
    }
    if (0 != pthread_mutex_lock(life)) {
        return false;
    }
    memcpy(&value, (const char *) life + offset, sizeof(value));
    if (0 == (value & FUTEX_TID_MASK)) {
        pthread_mutex_unlock(life);
        return false;
    }
    identity->modex.page_device = (uint64_t) info.st_dev;
    identity->modex.page_inode = (uint64_t) info.st_ino;
    identity->modex.page_fd = (uint32_t) identity->page_fd;
    identity->modex.life_offset = (uint32_t) (SMSC_CMA_PAGE_MUTEX + offset);
    identity->modex.life_value = value;
    identity->modex.flags |= SMSC_CMA_MODEX_LIFE;
    return true;
}

/** The abstract name belonging to a number; returns the length of the address. */
static socklen_t socket_address(uint64_t name, struct sockaddr_un *address)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    /* A leading zero byte means: no file. */
    return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1
                        + (size_t) snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
                                            "smsc-cma-%016llx", (unsigned long long) name));
}

static void begin_listening(smsc_cma_identity_t *identity)
{
    struct sockaddr_un address;
    const uint64_t name = random_word();
    const socklen_t len = socket_address(name, &address);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (0 > fd) {
        return;
    }
    if (0 != bind(fd, (struct sockaddr *) &address, len) || 0 != listen(fd, SOCKET_BACKLOG)) {
        close(fd);
        return;
    }
    identity->socket_fd = fd;
    identity->modex.socket_name = name;
    identity->modex.flags |= SMSC_CMA_MODEX_SOCKET;
}

int smsc_cma_identity_create(smsc_cma_identity_t *identity)
{
    int share = MAP_SHARED;
    void *page;

    *identity = SMSC_CMA_IDENTITY_NONE;
    identity->page_fd = page_file();
    if (0 > identity->page_fd) {
        share = MAP_PRIVATE | MAP_ANONYMOUS;
    }
    page = mmap(NULL, SMSC_CMA_PAGE_BYTES, PROT_READ | PROT_WRITE, share, identity->page_fd, 0);
    /* A child made by fork() must not have the page: it could come to carry our pid after our
     * end. */
    if (MAP_FAILED == page || 0 != madvise(page, SMSC_CMA_PAGE_BYTES, MADV_DONTFORK)) {
        const int error = errno;

        if (MAP_FAILED != page) {
            munmap(page, SMSC_CMA_PAGE_BYTES);
        }
        if (0 <= identity->page_fd) {
            close(identity->page_fd);
        }
        *identity = SMSC_CMA_IDENTITY_NONE;
        return error;
    }
    identity->page = page;
    identity->owner = getpid();
    smsc_cma_modex_init(&identity->modex);
    identity->modex.pid = (uint32_t) identity->owner;
    identity->modex.pid_namespace = pid_namespace_inode();
    identity->modex.start_time = smsc_cma_identity_start_time(0);
    identity->modex.nonce = random_word();
    identity->modex.page_address = (uint64_t) (uintptr_t) page;
    if (0 <= identity->page_fd && !begin_life(identity)) {
        close(identity->page_fd);
        identity->page_fd = -1;
    }
    if (INITIAL_PID_NAMESPACE != identity->modex.pid_namespace) {
        begin_listening(identity);
    }
    memcpy(page, &identity->modex.nonce, sizeof(identity->modex.nonce));
    return 0;
}

bool smsc_cma_identity_is_mine(const smsc_cma_identity_t *identity)
{
    return NULL != identity->page && getpid() == identity->owner;
}

void smsc_cma_identity_retire(smsc_cma_identity_t *identity)
{
    if (smsc_cma_identity_is_mine(identity)) {
        memset(identity->page, 0, sizeof(identity->modex.nonce));
        /* While the mutex is held, the C library and the kernel keep a list that leads through the
         * page; only the thread that took it can let go. */
        if (0 == (identity->modex.flags & SMSC_CMA_MODEX_LIFE)
            || 0 == pthread_mutex_unlock(mutex_in(identity->page, 0))) {
            munmap(identity->page, SMSC_CMA_PAGE_BYTES);
        }
    }
    if (0 <= identity->page_fd) {
        close(identity->page_fd);
    }
    if (0 <= identity->socket_fd) {
        close(identity->socket_fd);
    }
    *identity = SMSC_CMA_IDENTITY_NONE;
}

pid_t smsc_cma_identity_translate(uint64_t name)
{
    struct sockaddr_un address;
    struct ucred peer = {.pid = 0};
    socklen_t size = sizeof(peer);
    const socklen_t len = socket_address(name, &address);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (0 > fd) {
        return 0;
    }
    if (0 != connect(fd, (struct sockaddr *) &address, len)
        || 0 != getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size)) {
        peer.pid = 0;
    }
    close(fd);
    return peer.pid;
}

void smsc_cma_identity_drain(const smsc_cma_identity_t *identity)
{
    int fd;

    if (0 > identity->socket_fd || !smsc_cma_identity_is_mine(identity)) {
        return;
    }
    while (0 <= (fd = accept4(identity->socket_fd, NULL, NULL, SOCK_CLOEXEC))) {
        close(fd);
    }
}

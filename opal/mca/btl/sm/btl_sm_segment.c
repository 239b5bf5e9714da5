/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The own segment and the mappings of the peers' segments (see btl_sm_segment.h).
 *
 * Layer 1. Never leaves a name behind that a kill could orphan for longer than the start of a job,
 * never trusts a file that was there before, never touches a page whose block is not reserved.
 *
 * Roads to a peer's segment: its descriptor table in procfs (no name needed, so nothing can be left
 * behind), or a name in the backing directory for peers in other pid or user namespaces and for
 * owners whose table is closed (not dumpable).
 */
#include "opal_config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "opal/constants.h"
#if MCA_BTL_SM_HWLOC
#    include "opal/mca/hwloc/base/base.h"
#    include "opal/mca/hwloc/hwloc-internal.h"
#endif
#include "opal/util/output.h"
#include "opal/util/proc.h"
#include "opal/util/show_help.h"

#include "btl_sm_segment.h"

#if !defined(MFD_CLOEXEC)
#    define MFD_CLOEXEC 1u
#endif
#if !defined(MFD_ALLOW_SEALING)
#    define MFD_ALLOW_SEALING 2u
#endif
#if !defined(F_ADD_SEALS)
#    define F_ADD_SEALS   1033
#    define F_SEAL_SEAL   1
#    define F_SEAL_SHRINK 2
#    define F_SEAL_GROW   4
#endif
#if !defined(MADV_POPULATE_WRITE)
#    define MADV_POPULATE_WRITE 23
#endif

#define TMPFS_MAGIC 0x01021994ul /* linux/magic.h, which old systems do not install */

#define SMALL_PAGE 4096ul

/** How long to wait for a name that the owner publishes during the same start, nanoseconds. */
#define NAME_WAIT_NS (5ull * 1000 * 1000 * 1000)

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/** Inode of a namespace of this process, 0 if it cannot be read. */
static uint64_t namespace_inode(const char *name)
{
    char path[64];
    struct stat st;

    (void) snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
    return 0 == stat(path, &st) ? (uint64_t) st.st_ino : 0;
}

/** Start time of this process in clock ticks since boot (field 22 of its stat file), 0 if unknown. */
static uint64_t own_start_time(void)
{
    char text[1024];
    char *at;
    ssize_t got;
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    unsigned long long start = 0;

    if (0 > fd) {
        return 0;
    }
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (0 >= got) {
        return 0;
    }
    text[got] = '\0';
    at = strrchr(text, ')'); /* the name may contain anything */
    if (NULL == at) {
        return 0;
    }
    for (int field = 2; field < 22 && NULL != at; ++field) {
        at = strchr(at + 1, ' ');
    }
    if (NULL == at || 1 != sscanf(at, " %llu", &start)) {
        return 0;
    }
    return start;
}

static void random_bytes(void *bytes, size_t len)
{
    static uint64_t counter;
    struct timespec now;

    if ((ssize_t) len == getrandom(bytes, len, GRND_NONBLOCK)) {
        return;
    }
    /* A filter may refuse it. Uniqueness is what matters here, not secrecy. */
    clock_gettime(CLOCK_REALTIME, &now);
    for (size_t i = 0; i < len; ++i) {
        uint64_t mix = (uint64_t) now.tv_nsec * 0x9e3779b97f4a7c15u + (uint64_t) getpid()
                       + ++counter * 0xbf58476d1ce4e5b9u;
        ((unsigned char *) bytes)[i] = (unsigned char) (mix >> 56);
    }
}

/** Path of the name of the segment with this nonce. */
static char *name_of(const char *directory, uint32_t uid, const uint64_t nonce[2])
{
    char *path = NULL;

    if (0 > asprintf(&path, "%s/openmpi-sm.%u.%016llx%016llx", directory, uid,
                     (unsigned long long) nonce[0], (unsigned long long) nonce[1])) {
        return NULL;
    }
    return path;
}

/** Reserve blocks; returns 0 or an errno. */
static int reserve(int fd, size_t offset, size_t len)
{
    int rc;

    do {
        rc = 0 == fallocate(fd, 0, (off_t) offset, (off_t) len) ? 0 : errno;
    } while (EINTR == rc);
    return rc;
}

/** The parts of a new segment that get memory at once: [0, head) and [tail, end). Between them lie
 *  the cells for peers of other jobs, which most jobs never need. */
typedef struct plan_t {
    size_t head;
    size_t tail;
    size_t end;
    size_t size; /* of the file */
} plan_t;

#if MCA_BTL_SM_HWLOC
/** Does this machine have several memory nodes? A look at one file spares most machines the topology,
 *  which takes milliseconds. */
static bool several_nodes(void)
{
    char text[64];
    ssize_t got = 0;
    int fd = open("/sys/devices/system/node/online", O_RDONLY | O_CLOEXEC);

    if (0 <= fd) {
        got = read(fd, text, sizeof(text));
        close(fd);
    }
    /* a list of ranges: "0" or "0-1" or "0,8" */
    return 0 < got
           && (NULL != memchr(text, '-', (size_t) got) || NULL != memchr(text, ',', (size_t) got));
}
#endif

/**
 * Where there are several memory nodes and this process is bound to one, keep the segment there,
 * whatever the policy of the process says (numactl --interleave, say). Preferred, not enforced: a
 * full node must not become an error. Without a binding, memory comes from where it is first used.
 */
static void prefer_own_node(void *start, size_t len)
{
#if MCA_BTL_SM_HWLOC
    hwloc_topology_t topology;
    hwloc_bitmap_t cpus, nodes;

    if (!several_nodes() || OPAL_SUCCESS != opal_hwloc_base_get_topology()) {
        return;
    }
    topology = opal_hwloc_topology;
    cpus = hwloc_bitmap_alloc();
    nodes = hwloc_bitmap_alloc();
    if (NULL != cpus && NULL != nodes
        && 0 == hwloc_get_cpubind(topology, cpus, HWLOC_CPUBIND_PROCESS)) {
        hwloc_cpuset_to_nodeset(topology, cpus, nodes);
        if (1 == hwloc_bitmap_weight(nodes)) {
            (void) hwloc_set_area_membind(topology, start, len, nodes, HWLOC_MEMBIND_BIND,
                                          HWLOC_MEMBIND_BYNODESET);
        }
    }
    hwloc_bitmap_free(nodes);
    hwloc_bitmap_free(cpus);
#else
    (void) start;
    (void) len;
#endif
}

/** Map a new file and give it its size and its blocks. Returns NULL with errno. */
static void *furnish(int fd, const plan_t *plan)
{
    void *start = MAP_FAILED;
    int rc = 0 == ftruncate(fd, (off_t) plan->size) ? 0 : errno;

    if (0 == rc) {
        start = mmap(NULL, plan->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        rc = MAP_FAILED == start ? errno : 0;
    }
    if (0 == rc) {
        prefer_own_node(start, plan->size);
        rc = reserve(fd, 0, plan->head);
    }
    if (0 == rc && plan->end > plan->tail) {
        rc = reserve(fd, plan->tail, plan->end - plan->tail);
    }
    if (0 != rc) {
        if (MAP_FAILED != start) {
            (void) munmap(start, plan->size);
        }
        close(fd);
        errno = rc;
        return NULL;
    }
    return start;
}

/** Make the segment an unnamed file in the backing directory. Returns its descriptor, -1 with errno. */
static int open_unnamed(const char *directory, const plan_t *plan, size_t want_free, void **start)
{
    struct statvfs fs;
    int fd;

    if (NULL == directory || '\0' == directory[0]) {
        errno = ENOENT;
        return -1;
    }
    /* Only a hint for choosing the better kind of memory: what counts is the reservation below. */
    if (0 == statvfs(directory, &fs) && (uint64_t) fs.f_bavail * fs.f_frsize < want_free) {
        errno = ENOSPC;
        return -1;
    }
    fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (0 > fd) {
        return -1;
    }
    *start = furnish(fd, plan);
    return NULL != *start ? fd : -1;
}

/** Make the segment anonymous shared memory. Returns its descriptor, -1 with errno. */
static int open_memfd(const plan_t *plan, void **start)
{
    int fd = (int) syscall(SYS_memfd_create, "openmpi-sm", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (0 > fd) {
        return -1;
    }
    *start = furnish(fd, plan);
    if (NULL == *start) {
        return -1;
    }
    /* Nobody can shrink it under us: no SIGBUS. Not every kernel can seal; then we go without. */
    (void) fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return fd;
}

static void fill_cpus(mca_btl_sm_modex_t *modex)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    if (0 != sched_getaffinity(0, sizeof(set), &set)) {
        return;
    }
    for (unsigned cpu = 0; cpu < 64 * MCA_BTL_SM_CPU_WORDS && cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &set)) {
            modex->cpus[cpu / 64] |= UINT64_C(1) << (cpu % 64);
        }
    }
}

/** One slice of the segment for one prefaulting thread. */
struct prefault_slice {
    void *start;
    size_t len;
};

static void *prefault_thread(void *arg)
{
    struct prefault_slice *slice = arg;

    /* Fails on kernels before 5.14; then the pages come with the first touch, which is what the
     * user had without asking. */
    (void) madvise(slice->start, slice->len, MADV_POPULATE_WRITE);
    return NULL;
}

/** Fault pages in by several threads at once, as the parameter asks. */
static void prefault(mca_btl_sm_component_t *component, void *start, size_t len)
{
    unsigned count = component->prefault_threads;
    size_t share = round_up(len / (count > 0 ? count : 1) + 1, SMALL_PAGE);
    struct prefault_slice slice[64];
    pthread_t thread[64];
    unsigned started = 0;

    for (size_t at = 0; at < len && started < 64; at += share, ++started) {
        slice[started].start = (char *) start + at;
        slice[started].len = len - at < share ? len - at : share;
        if (0 != pthread_create(&thread[started], NULL, prefault_thread, &slice[started])) {
            (void) prefault_thread(&slice[started]);
            break;
        }
    }
    while (started > 0) {
        (void) pthread_join(thread[--started], NULL);
    }
}

/** What peers are told about the segment: fills the modex. */
static void describe(mca_btl_sm_component_t *component, int fd, const struct stat *st, size_t size,
                     uint32_t cells, bool named)
{
    mca_btl_sm_modex_t *modex = &component->modex;

    memset(modex, 0, sizeof(*modex));
    modex->magic = BTL_SM_MAGIC;
    modex->layout_version = BTL_SM_LAYOUT_VERSION;
    modex->size = sizeof(*modex);
    modex->segment_size = size;
    random_bytes(modex->nonce, sizeof(modex->nonce));
    modex->nonce[0] |= 1; /* 0 means a free cell */
    modex->device = (uint64_t) st->st_dev;
    modex->inode = (uint64_t) st->st_ino;
    modex->pid_ns = namespace_inode("pid");
    modex->user_ns = namespace_inode("user");
    modex->start_time = own_start_time();
    modex->pid = (int32_t) getpid();
    modex->fd = fd;
    modex->uid = (uint32_t) geteuid();
    modex->local_rank = opal_process_info.my_local_rank;
    modex->cell_count = cells;
    modex->jobid = OPAL_PROC_MY_NAME.jobid;
    modex->vpid = OPAL_PROC_MY_NAME.vpid;
    if (named && strlen(component->backing_directory) < sizeof(modex->directory)) {
        modex->flags |= MCA_BTL_SM_OFFER_NAMED;
        memcpy(modex->directory, component->backing_directory,
               strlen(component->backing_directory) + 1);
    }
    if (1 != prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)) {
        modex->flags |= MCA_BTL_SM_OFFER_UNDUMPABLE;
    }
    fill_cpus(modex);
}

int mca_btl_sm_segment_create(mca_btl_sm_component_t *component, uint32_t local_count)
{
    mca_btl_sm_modex_t *modex = &component->modex;
    uint32_t cells = local_count + 1 + BTL_SM_FOREIGN_CELLS;
    struct btl_sm_segment_hdr *hdr;
    void *start = NULL;
    size_t need, size;
    plan_t plan;
    struct stat st;
    bool named = true;
    int fd;

    if (cells > BTL_SM_MAX_CELLS) {
        cells = BTL_SM_MAX_CELLS;
    }
    if (local_count >= cells) {
        opal_show_help("help-mpi-btl-sm.txt", "too-many-ranks", true, local_count, cells);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    plan.head = round_up(sizeof(*hdr) + local_count * sizeof(struct btl_sm_cell), SMALL_PAGE);
    plan.tail = round_up(sizeof(*hdr) + cells * sizeof(struct btl_sm_cell), SMALL_PAGE);
    /* One small box for each rank of the job is promised: without it a peer could not be reached. */
    plan.end = round_up(plan.tail + (size_t) (local_count - 1) * component->small_box_size,
                        SMALL_PAGE);
    need = plan.head + plan.end - plan.tail;
    size = round_up(component->segment_size, SMALL_PAGE);
    if (size < plan.end) {
        size = plan.end;
    }
    component->large_end = size;
    /* Room for the small boxes of peers of other jobs, whatever large ones take; no memory before. */
    size += round_up((size_t) (cells - local_count - 1) * component->small_box_size, SMALL_PAGE);
    plan.size = size;

    fd = open_unnamed(component->backing_directory, &plan,
                      local_count * (need + (size_t) component->fbox_size * 8), &start);
    if (0 > fd) {
        int file_error = errno;

        named = false;
        fd = open_memfd(&plan, &start);
        if (0 > fd) {
            opal_show_help("help-mpi-btl-sm.txt", "no-segment", true, (unsigned long) need,
                           component->backing_directory, strerror(file_error), strerror(errno));
            return OPAL_ERR_OUT_OF_RESOURCE;
        }
    }
    hdr = start;
    if (0 != fstat(fd, &st)) {
        opal_show_help("help-mpi-btl-sm.txt", "no-segment", true, (unsigned long) need,
                       component->backing_directory, "looking at it failed", strerror(errno));
        (void) munmap(start, size);
        close(fd);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    /* A child that the user forks must not write into the conversation of its parent. */
    (void) madvise(hdr, size, MADV_DONTFORK);
    if (component->huge_pages) {
        (void) madvise(hdr, size, MADV_HUGEPAGE); /* granted only where the system is set up so */
    }

    describe(component, fd, &st, size, cells, named);

    hdr->layout_version = BTL_SM_LAYOUT_VERSION;
    hdr->hdr_size = sizeof(*hdr);
    hdr->segment_size = size;
    hdr->nonce[0] = modex->nonce[0];
    hdr->nonce[1] = modex->nonce[1];
    hdr->cell_count = cells;
    hdr->cell_size = sizeof(struct btl_sm_cell);
    hdr->cell_offset = sizeof(*hdr);
    hdr->pid = (uint32_t) getpid();
    hdr->local_cells = local_count;
    hdr->magic = BTL_SM_MAGIC;
    btl_sm_store_relaxed(&hdr->cells_ready, local_count);
    btl_sm_store_release(BTL_SM_EDGE_STATE, &hdr->state, BTL_SM_STATE_LIVE);

    component->segment_fd = fd;
    component->my_segment = hdr;
    component->small_next = plan.tail;
    component->small_end = plan.end;
    component->arena_used = plan.end;
    component->arena_reserved = plan.end;
    component->local_count = local_count;
    component->door_words = (local_count + 1 + 63) / 64;
    if (component->prefault_threads > 0) {
        prefault(component, hdr, plan.head);
        prefault(component, (char *) hdr + plan.tail, plan.end - plan.tail);
    }
    return OPAL_SUCCESS;
}

int mca_btl_sm_segment_furnish_cells(mca_btl_sm_component_t *component, uint32_t cell)
{
    const uint32_t first = component->local_count + 1;
    uint32_t cells = first + round_up(cell + 1 - first, BTL_SM_FOREIGN_STEP);

    if (cell < btl_sm_load_relaxed(&component->my_segment->cells_ready)) {
        return OPAL_SUCCESS;
    }
    if (cells > component->modex.cell_count) {
        cells = component->modex.cell_count;
    }
    if (0
        != reserve(component->segment_fd, 0,
                   round_up(sizeof(*component->my_segment) + cells * sizeof(struct btl_sm_cell),
                            SMALL_PAGE))) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    component->door_words = (cells + 63) / 64;
    btl_sm_store_release(BTL_SM_EDGE_CELL, &component->my_segment->cells_ready, cells);
    return OPAL_SUCCESS;
}

void mca_btl_sm_segment_destroy(mca_btl_sm_component_t *component)
{
    mca_btl_sm_segment_withdraw_name(component);
    if (NULL != component->my_segment) {
        btl_sm_store_release(BTL_SM_EDGE_STATE, &component->my_segment->state, BTL_SM_STATE_LEFT);
        (void) munmap(component->my_segment, component->modex.segment_size);
        component->my_segment = NULL;
    }
    if (0 <= component->segment_fd) {
        close(component->segment_fd);
        component->segment_fd = -1;
    }
}

int mca_btl_sm_segment_alloc(mca_btl_sm_component_t *component, size_t size, size_t bound,
                             uint64_t *offset_out)
{
    size_t end = component->arena_used + size;

    if (end > bound) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    if (end > component->arena_reserved) {
        if (0
            != reserve(component->segment_fd, component->arena_reserved,
                       end - component->arena_reserved)) {
            return OPAL_ERR_OUT_OF_RESOURCE;
        }
        if (component->prefault_threads > 0) {
            prefault(component, (char *) component->my_segment + component->arena_used, size);
        }
        component->arena_reserved = end;
    }
    *offset_out = component->arena_used;
    component->arena_used = end;
    return OPAL_SUCCESS;
}

/**
 * Remove names of this user whose owners were killed while they were published, which is during a
 * part of MPI_Init. An owner holds a lock on its file; the kernel lets go of it with the process.
 */
static void sweep(const char *directory, uint32_t uid)
{
    char prefix[32];
    struct dirent *entry;
    DIR *dir = opendir(directory);

    if (NULL == dir) {
        return;
    }
    (void) snprintf(prefix, sizeof(prefix), "openmpi-sm.%u.", uid);
    while (NULL != (entry = readdir(dir))) {
        struct stat st;
        int fd;

        if (0 != strncmp(entry->d_name, prefix, strlen(prefix))) {
            continue;
        }
        fd = openat(dirfd(dir), entry->d_name,
                    O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
        if (0 > fd) {
            continue;
        }
        if (0 == fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid()
            && 0 == flock(fd, LOCK_EX | LOCK_NB)) {
            (void) unlinkat(dirfd(dir), entry->d_name, 0);
        }
        close(fd);
    }
    (void) closedir(dir);
}

void mca_btl_sm_segment_publish_name(mca_btl_sm_component_t *component)
{
    char from[32];
    char *path;

    if (component->named || !(component->modex.flags & MCA_BTL_SM_OFFER_NAMED)) {
        return;
    }
    path = name_of(component->modex.directory, component->modex.uid, component->modex.nonce);
    if (NULL == path) {
        return;
    }
    sweep(component->modex.directory, component->modex.uid);
    (void) flock(component->segment_fd, LOCK_EX | LOCK_NB);
    (void) snprintf(from, sizeof(from), "/proc/self/fd/%d", component->segment_fd);
    /* linkat fails if the name exists, so a planted file is never taken for ours. */
    if (0 != linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW)) {
        free(path);
        return;
    }
    component->name = path;
    component->named = true;
}

void mca_btl_sm_segment_withdraw_name(mca_btl_sm_component_t *component)
{
    if (component->named) {
        (void) unlink(component->name);
        free(component->name);
        component->name = NULL;
        component->named = false;
    }
}

bool mca_btl_sm_segment_needs_name(const mca_btl_sm_modex_t *a, const mca_btl_sm_modex_t *b)
{
    return (a->flags & MCA_BTL_SM_OFFER_UNDUMPABLE) || a->pid_ns != b->pid_ns
           || a->user_ns != b->user_ns;
}

/** Is this descriptor the file that the modex describes? Another mount may show it under another
 *  device number, but nobody can make a second file of this inode number while the first is there. */
static bool same_file(int fd, const mca_btl_sm_modex_t *modex, bool by_name)
{
    struct stat st;

    return 0 == fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid()
           && (by_name || (uint64_t) st.st_dev == modex->device)
           && (uint64_t) st.st_ino == modex->inode && (uint64_t) st.st_size >= modex->segment_size;
}

/** A handle first: opening for real what may be a stranger's terminal or pipe by now has effects. */
static int open_by_descriptor(const mca_btl_sm_modex_t *modex)
{
    char path[64];
    int handle, fd = -1;

    (void) snprintf(path, sizeof(path), "/proc/%d/fd/%d", modex->pid, modex->fd);
    handle = open(path, O_PATH | O_CLOEXEC);
    if (0 > handle) {
        return -1;
    }
    if (same_file(handle, modex, false)) {
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", handle);
        fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    }
    close(handle);
    return fd;
}

/** Is the owner's directory another one than that of the same path here? Only tmpfs is known to show a
 *  file and its directory under one device number; elsewhere the name is waited for. */
static bool other_directory(const mca_btl_sm_modex_t *modex)
{
    struct statfs fs;
    struct stat st;

    return 0 == statfs(modex->directory, &fs) && TMPFS_MAGIC == (unsigned long) fs.f_type
           && 0 == stat(modex->directory, &st) && (uint64_t) st.st_dev != modex->device;
}

static int open_by_name(const mca_btl_sm_modex_t *modex)
{
    const struct timespec nap = {.tv_sec = 0, .tv_nsec = 200 * 1000};
    uint64_t start, waited = 0;
    char *path;
    int fd;

    if (!(modex->flags & MCA_BTL_SM_OFFER_NAMED) || other_directory(modex)) {
        return -1;
    }
    path = name_of(modex->directory, modex->uid, modex->nonce);
    if (NULL == path) {
        return -1;
    }
    start = mca_btl_sm_now_ns();
    for (;;) {
        fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
        if (0 <= fd || (ENOENT != errno && EINTR != errno) || waited > NAME_WAIT_NS) {
            break;
        }
        nanosleep(&nap, NULL);
        waited = mca_btl_sm_now_ns() - start;
    }
    free(path);
    return fd;
}

int mca_btl_sm_segment_attach(const mca_btl_sm_modex_t *own, const mca_btl_sm_modex_t *modex,
                              struct btl_sm_segment_hdr **map_out, uint32_t *local_out)
{
    const bool by_name = mca_btl_sm_segment_needs_name(modex, own);
    struct btl_sm_segment_hdr *hdr;
    int fd = by_name ? open_by_name(modex) : open_by_descriptor(modex);

    if (0 <= fd && !same_file(fd, modex, by_name)) {
        close(fd);
        fd = -1;
    }
    if (0 > fd) {
        return OPAL_ERR_UNREACH;
    }
    hdr = mmap(NULL, modex->segment_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (MAP_FAILED == (void *) hdr) {
        return OPAL_ERR_UNREACH;
    }
    if (!btl_sm_segment_check(hdr, modex, local_out)) {
        (void) munmap(hdr, modex->segment_size);
        return OPAL_ERR_UNREACH;
    }
    (void) madvise(hdr, modex->segment_size, MADV_DONTFORK);
    *map_out = hdr;
    return OPAL_SUCCESS;
}

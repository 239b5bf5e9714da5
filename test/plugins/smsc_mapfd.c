/*
 * smsc_mapfd.c: a single-copy component that maps its peers' memory, in xpmem's way, without a
 * kernel module.
 *
 * Layer: test plugin (smsc framework). Memory that lies in a shared file mapping of the peer
 * (memfd, /dev/shm, MAP_SHARED|MAP_ANONYMOUS) is really mapped here: its file is found among the
 * peer's descriptors or in its map_files folder. Any other memory cannot be mapped without a
 * kernel module; such a region is handed out as a copy, and what the holder changed in it is
 * written back when the mapping is given up. Test programs take their buffers from memfd
 * (SMX_TEST_MEMFD=1) to have the first kind.
 *
 * Nothing is cached: the peer may have unmapped a region a moment ago, and a stale mapping would
 * hide that btl/sm kept one for too long.
 *
 * Must never be installed beside real components: it trusts pids and searches /proc at each call.
 */

#include "opal_config.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "smsc_test_peer.h"

typedef struct map_endpoint_t {
    mca_smsc_endpoint_t super;
    smsc_test_modex_t peer;
} map_endpoint_t;

OBJ_CLASS_DECLARATION(map_endpoint_t);
/* 5.0.x declares the class of the base struct and defines it nowhere. */
OBJ_CLASS_INSTANCE(map_endpoint_t, opal_object_t, NULL, NULL);

/* A mapping that somebody holds. */
typedef struct map_region_t {
    void *base;    /* of the mapping or of the copy */
    size_t length; /* of the mapping */
    bool shared;   /* true: really mapped */
    pid_t pid;     /* for copies: where the changes go */
    char *remote;
    size_t size;
    unsigned char *before; /* for copies: what was there */
} map_region_t;

/* One line of a peer's maps file. */
typedef struct map_line_t {
    uintptr_t start;
    uintptr_t end;
    uint64_t offset;
    dev_t device;
    ino_t inode;
    bool shared;
} map_line_t;

static struct {
    smsc_test_fault_t fail_map;
    smsc_test_fault_t fail_copy;
    smsc_test_counter_t mapped;
    smsc_test_counter_t copied;
    smsc_test_counter_t written_back;
    smsc_test_counter_t unmapped;
    smsc_test_counter_t copies;
    smsc_test_counter_t failed;
} mapfd;

static int map_register(void);
static int map_query(void);
static mca_smsc_module_t *map_enable(void);

OPAL_DECLSPEC extern mca_smsc_component_t mca_smsc_mapfd_component;

mca_smsc_component_t mca_smsc_mapfd_component = {
    .smsc_version =
        {
            MCA_SMSC_DEFAULT_VERSION("mapfd"),
            .mca_register_component_params = map_register,
        },
    .priority = 1,
    .query = map_query,
    .enable = map_enable,
};

static int map_register(void)
{
    const mca_base_component_t *c = &mca_smsc_mapfd_component.smsc_version;

    mca_smsc_base_register_default_params(&mca_smsc_mapfd_component, 1);
    smsc_test_register_unsigned(c, "fail_map_every",
                                "Every n-th mapping gives NULL (0 = none, default)",
                                &mapfd.fail_map.every);
    smsc_test_register_unsigned(c, "fail_copy_every",
                                "Every n-th copy gives an error (0 = none, default)",
                                &mapfd.fail_copy.every);
    smsc_test_register_counter(c, "mapped", "Regions really mapped", &mapfd.mapped);
    smsc_test_register_counter(c, "copied", "Regions handed out as a copy", &mapfd.copied);
    smsc_test_register_counter(c, "written_back", "Bytes of copies written back",
                               &mapfd.written_back);
    smsc_test_register_counter(c, "unmapped", "Regions given up", &mapfd.unmapped);
    smsc_test_register_counter(c, "copies", "Calls of copy_to and copy_from", &mapfd.copies);
    smsc_test_register_counter(c, "failed", "Calls that failed on demand or by the kernel",
                               &mapfd.failed);
    return OPAL_SUCCESS;
}

/* The one mapping of the peer that holds the whole region; false when there is none. */
static bool find_line(pid_t pid, uintptr_t start, size_t size, map_line_t *line_out)
{
    char name[64];
    char text[8192];
    bool found = false;
    FILE *maps;

    snprintf(name, sizeof(name), "/proc/%d/maps", (int) pid);
    maps = fopen(name, "re");
    if (NULL == maps) {
        return false;
    }
    while (!found && NULL != fgets(text, sizeof(text), maps)) {
        unsigned long from;
        unsigned long to;
        unsigned long inode;
        unsigned long long offset;
        unsigned major_nr;
        unsigned minor_nr;
        char perms[8];

        if (7
                == sscanf(text, "%lx-%lx %7s %llx %x:%x %lu", &from, &to, perms, &offset, &major_nr,
                          &minor_nr, &inode)
            && from <= start && start < to) {
            line_out->start = from;
            line_out->end = to;
            line_out->offset = offset;
            line_out->device = makedev(major_nr, minor_nr);
            line_out->inode = (ino_t) inode;
            line_out->shared = 's' == perms[3] && 0 != inode;
            found = true;
        }
    }
    fclose(maps);
    return found && size <= line_out->end - start;
}

static int try_open(const char *path, const map_line_t *line)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC);

    if (fd >= 0 && (0 != fstat(fd, &st) || st.st_ino != line->inode)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* The file behind the mapping: map_files needs privileges, a descriptor only the right to trace. */
static int open_file(pid_t pid, const map_line_t *line)
{
    char path[320];
    struct dirent *entry;
    int fd;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", (int) pid,
             (unsigned long) line->start, (unsigned long) line->end);
    fd = try_open(path, line);
    if (fd >= 0) {
        return fd;
    }
    snprintf(path, sizeof(path), "/proc/%d/fd", (int) pid);
    dir = opendir(path);
    if (NULL == dir) {
        return -1;
    }
    while (fd < 0 && NULL != (entry = readdir(dir))) {
        struct stat st;

        if ('.' == entry->d_name[0]) {
            continue;
        }
        snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int) pid, entry->d_name);
        if (0 == stat(path, &st) && S_ISREG(st.st_mode) && st.st_ino == line->inode) {
            fd = try_open(path, line);
        }
    }
    closedir(dir);
    return fd;
}

static bool map_shared(map_region_t *region)
{
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    const uintptr_t start = (uintptr_t) region->remote;
    const uintptr_t first = start / page * page;
    map_line_t line;
    void *base;
    int fd;

    if (!find_line(region->pid, start, region->size, &line) || !line.shared) {
        return false;
    }
    fd = open_file(region->pid, &line);
    if (fd < 0) {
        return false;
    }
    region->length = start - first + region->size;
    base = mmap(NULL, region->length, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                (off_t) (line.offset + (first - line.start)));
    close(fd);
    if (MAP_FAILED == base) {
        return false;
    }
    region->base = base;
    region->shared = true;
    return true;
}

static bool map_copy(map_region_t *region)
{
    unsigned char *both = malloc(2 * region->size);

    if (NULL == both) {
        return false;
    }
    if (OPAL_SUCCESS
        != smsc_test_transfer(region->pid, both, region->remote, region->size, false)) {
        free(both);
        return false;
    }
    memcpy(both + region->size, both, region->size);
    region->base = both;
    region->before = both + region->size;
    return true;
}

static void *map_peer_region(mca_smsc_endpoint_t *endpoint, uint64_t flags, void *remote_address,
                             size_t size, void **local_mapping)
{
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    map_endpoint_t *ep = (map_endpoint_t *) endpoint;
    map_region_t *region;

    (void) flags;
    if (NULL == ep || 0 == size || smsc_test_fails(&mapfd.fail_map)) {
        smsc_test_count(&mapfd.failed, 1);
        return NULL;
    }
    region = calloc(1, sizeof(*region));
    if (NULL == region) {
        return NULL;
    }
    region->pid = (pid_t) ep->peer.pid;
    region->remote = remote_address;
    region->size = size;
    if (map_shared(region)) {
        *local_mapping = (char *) region->base + (uintptr_t) remote_address % page;
        smsc_test_count(&mapfd.mapped, 1);
    } else if (map_copy(region)) {
        *local_mapping = region->base;
        smsc_test_count(&mapfd.copied, 1);
    } else {
        smsc_test_count(&mapfd.failed, 1);
        free(region);
        return NULL;
    }
    return region;
}

/* Only what the holder changed: the peer may have written to the rest meanwhile. */
static void write_back(map_region_t *region)
{
    unsigned char *now = region->base;
    size_t at = 0;

    while (at < region->size) {
        size_t n = 0;

        while (at < region->size && now[at] == region->before[at]) {
            at++;
        }
        while (at + n < region->size && now[at + n] != region->before[at + n]) {
            n++;
        }
        if (n > 0) {
            (void) smsc_test_transfer(region->pid, now + at, region->remote + at, n, true);
            smsc_test_count(&mapfd.written_back, n);
        }
        at += n;
    }
}

static void unmap_peer_region(void *ctx)
{
    map_region_t *region = ctx;

    if (NULL == region) {
        return;
    }
    if (region->shared) {
        munmap(region->base, region->length);
    } else {
        write_back(region);
        free(region->base);
    }
    smsc_test_count(&mapfd.unmapped, 1);
    free(region);
}

static int map_copy_bytes(mca_smsc_endpoint_t *endpoint, void *local, void *remote, size_t size,
                          bool write)
{
    map_endpoint_t *ep = (map_endpoint_t *) endpoint;

    smsc_test_count(&mapfd.copies, 1);
    if (NULL == ep || smsc_test_fails(&mapfd.fail_copy)
        || OPAL_SUCCESS != smsc_test_transfer((pid_t) ep->peer.pid, local, remote, size, write)) {
        smsc_test_count(&mapfd.failed, 1);
        return OPAL_ERROR;
    }
    return OPAL_SUCCESS;
}

static int map_copy_to(mca_smsc_endpoint_t *endpoint, void *local_address, void *remote_address,
                       size_t size, void *reg_data)
{
    (void) reg_data;
    return map_copy_bytes(endpoint, local_address, remote_address, size, true);
}

static int map_copy_from(mca_smsc_endpoint_t *endpoint, void *local_address, void *remote_address,
                         size_t size, void *reg_data)
{
    (void) reg_data;
    return map_copy_bytes(endpoint, local_address, remote_address, size, false);
}

static mca_smsc_endpoint_t *map_get_endpoint(opal_proc_t *peer_proc)
{
    smsc_test_modex_t peer;
    map_endpoint_t *ep;

    if (OPAL_SUCCESS
        != smsc_test_look_up(&mca_smsc_mapfd_component.smsc_version, peer_proc, &peer)) {
        return NULL;
    }
    ep = OBJ_NEW(map_endpoint_t);
    if (NULL != ep) {
        ep->super.proc = peer_proc;
        ep->peer = peer;
    }
    return &ep->super;
}

static void map_return_endpoint(mca_smsc_endpoint_t *endpoint)
{
    OBJ_RELEASE(endpoint);
}

static mca_smsc_module_t map_module = {
    .features = MCA_SMSC_FEATURE_CAN_MAP,
    .get_endpoint = map_get_endpoint,
    .return_endpoint = map_return_endpoint,
    .copy_to = map_copy_to,
    .copy_from = map_copy_from,
    .map_peer_region = map_peer_region,
    .unmap_peer_region = unmap_peer_region,
};

static int map_query(void)
{
    return smsc_test_publish(&mca_smsc_mapfd_component.smsc_version, NULL);
}

static mca_smsc_module_t *map_enable(void)
{
    return &map_module;
}

#ifdef MCA_BASE_COMPONENT_INIT
MCA_BASE_COMPONENT_INIT(opal, smsc, mapfd)
#endif

/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * One job on several hosts, which are network namespaces of one machine: shared memory inside a
 * host and only there, the network between hosts and only there. The road is read from what the
 * kernel says, not from what the library tells: the map list of each rank (whose segments does it
 * have?) and the byte counters of the host's network interfaces.
 *
 * The kernel would let ranks of different hosts share memory here, so a transport that took two
 * hosts for one node would work, and show in the map lists.
 *
 * Options: --hosts=N, how many there must be; --same-names, --same-pids: the hosts must have one
 * name, resp. some of their ranks equal process numbers, or the test has not tried what it claims.
 * With equal names PMIx 5.0 tells the ranks of one host that those of another are their
 * neighbours: then all that counts is that no rank has another host's memory.
 * --max=SIZE, --volume=BYTES that a measured pair exchanges each way, --segments=any where the
 * component under test is not ours.
 */
#define _GNU_SOURCE
#include "mpi_check.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define TAG     700
#define HOST    64
#define FILES   64
#define LO      0
#define OUTSIDE 1

/** What the ranks tell each other about where they are. */
typedef struct where_t {
    uint64_t net;     /* inode of the network namespace: the host */
    uint64_t device;  /* the segment of this rank */
    uint64_t segment; /* its inode, 0 if none was found */
    int64_t pid;
    char name[HOST];
} where_t;

/** A shared mapping of a file without a name. */
typedef struct file_t {
    uint64_t device;
    uint64_t inode;
} file_t;

static where_t *all;
static bool ours;       /* the component under test is ours, whose segments we know */
static bool same_names; /* the runtime is misled */

/* ---- who is where ------------------------------------------------------------------------ */

static bool same_host(int a, int b)
{
    return all[a].net == all[b].net;
}

/* Nameless shared files in the map list: segments of ranks, among others. */
static size_t mapped_files(file_t *files)
{
    char line[4400];
    size_t n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    while (NULL != f && n < FILES && NULL != fgets(line, sizeof(line), f)) {
        char perms[8];
        unsigned major_no;
        unsigned minor_no;
        unsigned long long inode;
        if (4 != sscanf(line, "%*s %7s %*s %x:%x %llu", perms, &major_no, &minor_no, &inode)
            || 's' != perms[3]
            || (NULL == strstr(line, "/#") && NULL == strstr(line, "/memfd:openmpi-sm"))) {
            continue;
        }
        files[n].device = (uint64_t) makedev(major_no, minor_no);
        files[n++].inode = inode;
    }
    if (NULL != f) {
        fclose(f);
    }
    return n;
}

/* The segment of this rank is the one that it also holds open. */
static void find_own_segment(where_t *me)
{
    file_t files[FILES];
    const size_t n = mapped_files(files);
    for (int fd = 3; fd < 1024; fd++) {
        struct stat st;
        for (size_t i = 0; 0 == fstat(fd, &st) && i < n; i++) {
            if (files[i].device == (uint64_t) st.st_dev && files[i].inode == st.st_ino) {
                me->device = files[i].device;
                me->segment = files[i].inode;
            }
        }
    }
}

static void tell_where(void)
{
    where_t me = {0};
    struct stat st;
    if (0 != stat("/proc/self/ns/net", &st)) {
        chk_fail("cannot look at /proc/self/ns/net");
    }
    me.net = (uint64_t) st.st_ino;
    me.pid = (int64_t) getpid();
    gethostname(me.name, sizeof(me.name) - 1);
    find_own_segment(&me);
    if (ours && 0 == me.segment) {
        chk_fail("no mapped file is the segment of this rank");
    }
    all = calloc((size_t) chk_np, sizeof(*all));
    CHK(MPI_Allgather(&me, (int) sizeof(me), MPI_BYTE, all, (int) sizeof(me), MPI_BYTE,
                      MPI_COMM_WORLD));
}

/* The set-up is what it was meant to be: otherwise everything below proves nothing. */
static void check_setting(int hosts, bool same_pids)
{
    int found = 0;
    int twins = 0;
    for (int a = 0; a < chk_np; a++) {
        bool first = true;
        for (int b = 0; b < a; b++) {
            first = first && !same_host(a, b);
            twins += !same_host(a, b) && all[a].pid == all[b].pid;
            if (same_names && 0 != strcmp(all[a].name, all[b].name)) {
                chk_fail("hosts have the names %s and %s, expected one", all[a].name, all[b].name);
            }
        }
        found += first;
    }
    if (found != hosts) {
        chk_fail("the ranks run on %d hosts, expected %d", found, hosts);
    }
    if (same_pids && 0 == twins) {
        chk_fail("no two ranks of different hosts have one pid");
    }
    chk_result("%d ranks on %d hosts, names %s, %d pairs with one pid", chk_np, found,
               same_names ? "equal" : "as they are", twins);
}

/* Upper layers (windows, collectives) take these ranks for those that can share memory. */
static void check_node(void)
{
    MPI_Comm node;
    int size;
    int here = 0;
    CHK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    CHK(MPI_Comm_size(node, &size));
    int *members = calloc((size_t) size, sizeof(*members));
    CHK(MPI_Allgather(&chk_rank, 1, MPI_INT, members, 1, MPI_INT, node));
    for (int r = 0; r < chk_np; r++) {
        here += same_host(r, chk_rank);
    }
    for (int i = 0; i < size; i++) {
        if (!same_host(members[i], chk_rank)) {
            chk_fail("rank %d of another host counts as one of this node", members[i]);
        }
    }
    if (size != here) {
        chk_fail("MPI_COMM_TYPE_SHARED has %d ranks, this host %d", size, here);
    }
    free(members);
    CHK(MPI_Comm_free(&node));
    chk_result("the ranks of a node are those of a host");
}

/* The ranks of this host, whatever the library thinks. */
static MPI_Comm make_host_comm(void)
{
    MPI_Comm host;
    int first = 0;
    while (!same_host(first, chk_rank)) {
        first++;
    }
    CHK(MPI_Comm_split(MPI_COMM_WORLD, first, chk_rank, &host));
    return host;
}

/* ---- traffic ----------------------------------------------------------------------------- */

/* A message of this size each way between this rank and every rank that is (not) on its host. */
static uint64_t exchange(size_t size, bool inside, uint64_t round)
{
    uint64_t bytes = 0;
    chk_buf_t out = chk_buf_new(size);
    chk_buf_t in = chk_buf_new(size);
    for (int step = 1; step < chk_np; step++) {
        const int to = (chk_rank + step) % chk_np;
        const int from = (chk_rank + chk_np - step) % chk_np;
        const uint64_t seq = round * (uint64_t) chk_np;
        const chk_msg_t mine = {chk_rank, TAG, seq + (uint64_t) to, size};
        const chk_msg_t theirs = {from, TAG, seq + (uint64_t) chk_rank, size};
        MPI_Request req[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        MPI_Status st[2];
        chk_fill(&mine, 0, out.p, size);
        chk_arm(in.p, size);
        if (same_host(from, chk_rank) == inside) {
            CHK(MPI_Irecv(in.p, (int) size, MPI_BYTE, from, TAG, MPI_COMM_WORLD, &req[0]));
            bytes += size;
        }
        if (same_host(to, chk_rank) == inside) {
            CHK(MPI_Isend(out.p, (int) size, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &req[1]));
            bytes += size;
        }
        CHK(MPI_Waitall(2, req, st));
        if (same_host(from, chk_rank) == inside) {
            chk_received(&theirs, in.p, size, size);
            chk_status(&theirs, &st[0], size);
        }
    }
    chk_buf_free(&out);
    chk_buf_free(&in);
    return bytes;
}

static void check_sizes(size_t max)
{
    size_t n;
    const size_t *sizes = chk_sizes(max, &n);
    for (size_t i = 0; i < n; i++) {
        chk_phase("size %zu", sizes[i]);
        exchange(sizes[i], true, 2 * i);
        exchange(sizes[i], false, 2 * i + 1);
    }
    chk_result("%zu sizes up to %zu bytes between all pairs, every byte right", n, max);
}

/* Bytes that the interfaces of this host have taken in and given out: loopback, all others. */
static void interface_bytes(uint64_t bytes_out[2])
{
    char line[512];
    FILE *f = fopen("/proc/self/net/dev", "r");
    bytes_out[LO] = bytes_out[OUTSIDE] = 0;
    while (NULL != f && NULL != fgets(line, sizeof(line), f)) {
        char name[32];
        unsigned long long in;
        unsigned long long out;
        if (3 == sscanf(line, " %31[^:]: %llu %*u %*u %*u %*u %*u %*u %*u %llu", name, &in, &out)) {
            bytes_out[0 == strcmp(name, "lo") ? LO : OUTSIDE] += in + out;
        }
    }
    if (NULL != f) {
        fclose(f);
    }
}

/* What went over the interfaces of this host while its ranks, all together, exchanged `*moved`. */
static void measure(MPI_Comm host, bool inside, size_t volume, uint64_t *moved,
                    uint64_t delta_out[2])
{
    uint64_t before[2];
    uint64_t after[2];
    uint64_t mine = 0;
    const size_t size = volume / 8;
    CHK(MPI_Barrier(host));
    interface_bytes(before);
    CHK(MPI_Barrier(host));
    for (uint64_t round = 0; round < 8; round++) {
        mine += exchange(size, inside, 10000 + 2 * round + inside);
    }
    CHK(MPI_Allreduce(&mine, moved, 1, MPI_UINT64_T, MPI_SUM, host));
    interface_bytes(after);
    CHK(MPI_Barrier(host));
    delta_out[LO] = after[LO] - before[LO];
    delta_out[OUTSIDE] = after[OUTSIDE] - before[OUTSIDE];
}

static void check_road(MPI_Comm host, size_t volume)
{
    uint64_t moved;
    uint64_t delta[2];
    chk_phase("road inside");
    measure(host, true, volume, &moved, delta);
    if (!same_names && 0 != moved && delta[LO] + delta[OUTSIDE] > volume / 2) {
        chk_fail("%llu bytes inside the host put %llu on its interfaces, expected next to none",
                 (unsigned long long) moved, (unsigned long long) (delta[LO] + delta[OUTSIDE]));
    }
    chk_diag("inside host 1: %llu KiB moved, %llu KiB on interfaces",
             (unsigned long long) (moved >> 10),
             (unsigned long long) ((delta[LO] + delta[OUTSIDE]) >> 10));
    if (same_names) {
        chk_skip("inside a host nothing goes over its network interfaces",
                 "ranks that PMIx takes for another host's use tcp");
    } else {
        chk_result("inside a host nothing goes over its network interfaces");
    }
    CHK(MPI_Barrier(MPI_COMM_WORLD));
    chk_phase("road between");
    measure(host, false, volume, &moved, delta);
    if (delta[OUTSIDE] < moved) {
        chk_fail("%llu bytes between hosts put %llu on the interface, expected more",
                 (unsigned long long) moved, (unsigned long long) delta[OUTSIDE]);
    }
    chk_diag("host 1 and others: %llu KiB moved, %llu KiB on interfaces",
             (unsigned long long) (moved >> 10), (unsigned long long) (delta[OUTSIDE] >> 10));
    chk_result("between hosts every byte goes over the network");
}

/* After all pairs have talked: whose segments does this rank have? */
static void check_segments(void)
{
    file_t files[FILES];
    const size_t n = mapped_files(files);
    for (int r = 0; r < chk_np; r++) {
        bool have = false;
        for (size_t i = 0; i < n; i++) {
            have = have || (files[i].device == all[r].device && files[i].inode == all[r].segment);
        }
        if (have != same_host(r, chk_rank) && (have || !same_names)) {
            chk_fail("the segment of rank %d, which is on %s host, is %smapped", r,
                     have ? "another" : "this", have ? "" : "not ");
        }
    }
    chk_result("%s the segments of the own host's ranks and no other",
               same_names ? "mapped are at most" : "mapped are");
}

int main(int argc, char **argv)
{
    chk_init(argc, argv, MPI_THREAD_SINGLE);
    const int hosts = (int) chk_opt_u64("hosts", 1);
    const size_t max = chk_opt_u64("max", chk_long ? 1u << 20 : 140000);
    const size_t volume = chk_opt_u64("volume", 4u << 20);
    same_names = NULL != chk_opt("same-names", NULL);
    ours = 0 != strcmp("any", chk_opt("segments", "ours"));
    if (chk_np > FILES) {
        chk_skip_all("made for at most 64 ranks");
    }
    tell_where();
    check_setting(hosts, NULL != chk_opt("same-pids", NULL));
    if (same_names) {
        chk_skip("the ranks of a node are those of a host", "PMIx goes by the name of the host");
    } else {
        check_node();
    }
    MPI_Comm host = make_host_comm();
    check_sizes(max);
    check_road(host, volume);
    if (ours) {
        check_segments();
    }
    CHK(MPI_Comm_free(&host));
    free(all);
    return chk_done();
}

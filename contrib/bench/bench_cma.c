/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * bench_cma [options]: what smsc/cma's copy engine costs on top of the bare system call, and what
 * it costs to make an endpoint. Two processes on two cores, no MPI: the figures "copy engine" and
 * "endpoint creation".
 *
 * For each size the ways take turns in short batches, in changing order, within one run:
 *
 *   bare    a loop around process_vm_readv (or _writev) that checks the count
 *   word    the engine, the peer watched through its life word: what btl/sm gets
 *   nonce   the engine without life word: identity by nonce
 *   poll    bare, and poll() on a pidfd after each call: what liveness costs without a life word
 *
 * A round takes one batch of each way. The clock is the thread's processor time: a copy is work of
 * this core from start to end, and time in which the core was somebody else's is not its cost. Each
 * way's time is the lower quartile over the rounds, the ratio that of the quartiles; the difference
 * is the median of those within a round, so that what disturbs a round disturbs both.
 *
 * Layer: layer-0 files of opal/mca/smsc/cma on bench_common.h. Called by hand and by run.
 */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif
#include "bench_common.h"
#include "smsc_cma_probe.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum { WAY_BARE, WAY_WORD, WAY_NONCE, WAY_POLL, WAYS } way_t;

static const char *const way_names[WAYS] = {"bare", "word", "nonce", "poll"};

/** What both processes share. */
typedef struct {
    _Atomic int ready;
    smsc_cma_modex_t record;
    uint64_t address;
} shared_t;

typedef struct {
    const char *sizes;
    double batch_ns; /* one batch of one way */
    int rounds;
    int endpoints;
    bool write;
    bool json;
    bool huge;
    bool check; /* exit status tells whether the figures are met */
} options_t;

static options_t options = {
    .sizes = "8,64,512,4K,16K,64K,256K,1M,4M,16M,64M",
    .batch_ns = 2e5, /* well below a time slice: what is interrupted is few rounds */
    .rounds = 201,
    .endpoints = 2000,
};

static shared_t *shared;
static smsc_cma_identity_t own;
static smsc_cma_peer_t peers[2]; /* with and without a life word */
static int pidfd = -1;
static bench_buf_t buffer;

static void die(const char *what)
{
    fprintf(stderr, "bench_cma: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void yield(unsigned int attempt)
{
    (void) attempt;
    sched_yield();
}

static void *no_map(pid_t pid, const smsc_cma_modex_t *record)
{
    (void) pid;
    (void) record;
    return NULL;
}

static const smsc_cma_probe_sys_t sys[2] = {
    {{process_vm_readv, process_vm_writev, yield}, smsc_cma_identity_translate, smsc_cma_probe_map},
    {{process_vm_readv, process_vm_writev, yield}, smsc_cma_identity_translate, no_map},
};

/** The other process: memory to copy from and to, on the second core. */
static void __attribute__((noreturn)) be_peer(size_t bytes)
{
    smsc_cma_identity_t identity;
    bench_buf_t memory;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bench_pin(1);
    if (0 != smsc_cma_identity_create(&identity)
        || 0 != bench_buf_open(&memory, bytes, options.huge)) {
        _exit(1);
    }
    bench_buf_shape(&memory, bytes, false);
    memset(bench_buf_next(&memory), 1, bytes);
    shared->record = identity.modex;
    shared->address = (uint64_t) (uintptr_t) bench_buf_next(&memory);
    atomic_store(&shared->ready, 1);
    for (;;) {
        pause();
    }
}

static void copy_bare(size_t size, long count, bool polls)
{
    char *here = bench_buf_next(&buffer);
    const pid_t pid = peers[0].target.pid;

    for (long i = 0; i < count; ++i) {
        const struct iovec local = {here, size},
                           remote = {(void *) (uintptr_t) shared->address, size};
        const ssize_t moved = options.write ? process_vm_writev(pid, &local, 1, &remote, 1, 0)
                                            : process_vm_readv(pid, &local, 1, &remote, 1, 0);

        if ((ssize_t) size != moved) {
            die("the bare call");
        }
        if (polls) {
            struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};

            if (0 != poll(&poll_fd, 1, 0)) {
                die("poll");
            }
        }
    }
}

static void copy_engine(size_t size, long count, const smsc_cma_peer_t *peer)
{
    char *here = bench_buf_next(&buffer);

    for (long i = 0; i < count; ++i) {
        smsc_cma_result_t result;

        if (SMSC_CMA_OK
            != smsc_cma_copy(&sys[0].copy, &peer->target,
                             options.write ? SMSC_CMA_WRITE : SMSC_CMA_READ, here, shared->address,
                             size, (size_t) 64 << 20, &result)) {
            errno = result.error;
            die(smsc_cma_status_name(result.status));
        }
    }
}

static uint64_t cpu_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

static double batch(way_t way, size_t size, long count)
{
    const uint64_t start = cpu_now_ns();

    switch (way) {
    case WAY_BARE:
    case WAY_POLL:
        copy_bare(size, count, WAY_POLL == way);
        break;
    default:
        copy_engine(size, count, &peers[WAY_WORD == way ? 0 : 1]);
        break;
    }
    return (double) (cpu_now_ns() - start) / (double) count;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

/** Value below which that share of the sorted values lies. */
static double share_of(double *values, int count, double share)
{
    const double at = share * (count - 1);
    const int below = (int) at;

    qsort(values, (size_t) count, sizeof(*values), by_value);
    if (below + 1 >= count) {
        return values[count - 1];
    }
    return values[below] + (at - below) * (values[below + 1] - values[below]);
}

/** Measure one size. @return whether the figure for it is met */
static bool measure(size_t size)
{
    static double time[WAYS][1001], extra[WAYS][1001];
    double ns[WAYS], times[WAYS], above[WAYS];
    double guess;
    long count = 1;
    int rounds = options.rounds;
    bool met;

    bench_buf_shape(&buffer, size, false);
    guess = batch(WAY_BARE, size, 3);
    guess = batch(WAY_BARE, size, 3);
    count = (long) (options.batch_ns / guess) + 1;
    while (25 < rounds && 5e9 < rounds * WAYS * guess * (double) count) {
        --rounds;
    }
    for (int round = -2; round < rounds; ++round) {
        double now[WAYS];

        /* Each way comes first, second, .. equally often. */
        for (int i = 0; i < WAYS; ++i) {
            const int way = (i + round + 2) % WAYS;

            now[way] = batch((way_t) way, size, count);
        }
        for (int way = 0; 0 <= round && way < WAYS; ++way) {
            time[way][round] = now[way];
            extra[way][round] = now[way] - now[WAY_BARE];
        }
    }
    for (int way = 0; way < WAYS; ++way) {
        ns[way] = share_of(time[way], rounds, 0.25);
        times[way] = ns[way] / ns[WAY_BARE];
        above[way] = share_of(extra[way], rounds, 0.5);
    }
    met = size < 16384 ? (8 != size || 30 >= above[WAY_WORD]) : 1.02 >= times[WAY_WORD];
    if (options.json) {
        for (int way = 0; way < WAYS; ++way) {
            bench_json_t j;

            bench_json_begin(&j, stdout);
            bench_json_str(&j, "kind", "copy");
            bench_json_str(&j, "way", way_names[way]);
            bench_json_str(&j, "direction", options.write ? "write" : "read");
            bench_json_int(&j, "size_bytes", (long long) size);
            bench_json_num(&j, "copy_ns_p25", ns[way]);
            bench_json_num(&j, "above_bare_ns_p50", above[way]);
            bench_json_num(&j, "ratio_to_bare_p25", times[way]);
            bench_json_end(&j);
        }
    } else {
        printf("%9zu %12.1f %12.1f %+8.1f %7.3f %12.1f %+8.1f %7.3f %12.1f %+8.1f%s\n", size,
               ns[WAY_BARE], ns[WAY_WORD], above[WAY_WORD], times[WAY_WORD], ns[WAY_NONCE],
               above[WAY_NONCE], times[WAY_NONCE], ns[WAY_POLL], above[WAY_POLL],
               met ? "" : "  missed");
        fflush(stdout);
    }
    return met;
}

/** Time to make one endpoint with both proofs, and an identity. @return whether 50 us are met */
static bool measure_endpoints(void)
{
    double *us = calloc((size_t) options.endpoints, sizeof(*us));
    double result[2], tail[2], identity;

    for (int kind = 0; kind < 2; ++kind) {
        for (int i = 0; i < options.endpoints; ++i) {
            smsc_cma_peer_t peer;
            const uint64_t start = bench_now_ns();

            if (SMSC_CMA_REASON_NONE
                != smsc_cma_probe_peer(&sys[kind], &own, &shared->record, 1, &peer)) {
                die("an endpoint");
            }
            us[i] = (double) (bench_now_ns() - start) * 1e-3;
            smsc_cma_probe_release(&peer);
        }
        result[kind] = share_of(us, options.endpoints, 0.5);
        tail[kind] = us[options.endpoints * 99 / 100];
    }
    for (int i = 0; i < 200 && i < options.endpoints; ++i) {
        smsc_cma_identity_t another;
        const uint64_t start = bench_now_ns();

        if (0 != smsc_cma_identity_create(&another)) {
            die("an identity");
        }
        us[i] = (double) (bench_now_ns() - start) * 1e-3;
        smsc_cma_identity_retire(&another);
    }
    identity = share_of(us, options.endpoints < 200 ? options.endpoints : 200, 0.5);
    if (options.json) {
        bench_json_t j;

        bench_json_begin(&j, stdout);
        bench_json_str(&j, "kind", "endpoint");
        bench_json_num(&j, "word_us_p50", result[0]);
        bench_json_num(&j, "word_us_p99", tail[0]);
        bench_json_num(&j, "nonce_us_p50", result[1]);
        bench_json_num(&j, "nonce_us_p99", tail[1]);
        bench_json_num(&j, "identity_us_p50", identity);
        bench_json_end(&j);
    } else {
        printf("endpoint, with life word: %.1f us (p99 %.1f); without: %.1f us (p99 %.1f); "
               "own identity: %.1f us, once%s\n",
               result[0], tail[0], result[1], tail[1], identity, 50 >= result[0] ? "" : "  missed");
    }
    free(us);
    return 50 >= result[0];
}

static void usage(void)
{
    fputs(
        "usage: bench_cma [--write] [--sizes LIST] [--rounds N] [--batch-ms X] [--endpoints N]\n"
        "                 [--huge] [--json] [--check]\n"
        "  --write   process_vm_writev instead of process_vm_readv\n"
        "  --sizes   as in bench_mpi: 8,64K or 1-64M\n"
        "  --rounds  1 to 1000, default 201; fewer where a size would take over 5 s\n"
        "  --huge    on transparent huge pages\n"
        "  --check   exit status 3 if a figure is missed: 8 B at most 30 ns above the bare call,\n"
        "            16 KiB and more at most 1.02 of its time, an endpoint at most 50 us\n",
        stderr);
    exit(2);
}

static void parse(int argc, char **argv)
{
    for (int i = 1; i < argc; ++i) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (0 == strcmp("--write", argv[i])) {
            options.write = true;
        } else if (0 == strcmp("--json", argv[i])) {
            options.json = true;
        } else if (0 == strcmp("--huge", argv[i])) {
            options.huge = true;
        } else if (0 == strcmp("--check", argv[i])) {
            options.check = true;
        } else if (NULL == value) {
            usage();
        } else if (0 == strcmp("--sizes", argv[i])) {
            options.sizes = argv[++i];
        } else if (0 == strcmp("--rounds", argv[i])) {
            options.rounds = atoi(argv[++i]);
        } else if (0 == strcmp("--batch-ms", argv[i])) {
            options.batch_ns = strtod(argv[++i], NULL) * 1e6;
        } else if (0 == strcmp("--endpoints", argv[i])) {
            options.endpoints = atoi(argv[++i]);
        } else {
            usage();
        }
    }
    if (1 > options.rounds || 1000 < options.rounds || 1 > options.endpoints
        || 0 >= options.batch_ns) {
        usage();
    }
}

int main(int argc, char **argv)
{
    size_t *sizes, count;
    const char *problem;
    bool met = true;
    pid_t child;
    int status;

    parse(argc, argv);
    problem = bench_sizes_parse(options.sizes, &sizes, &count);
    if (NULL != problem || 0 == count || 0 == sizes[0]) {
        fprintf(stderr, "bench_cma: --sizes: %s\n", NULL != problem ? problem : "must be above 0");
        return 2;
    }
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == shared) {
        die("mmap");
    }
    (void) bench_core_count();
    child = fork();
    if (0 > child) {
        die("fork");
    }
    if (0 == child) {
        be_peer(sizes[count - 1]);
    }
    bench_pin(0);
    if (0 != smsc_cma_identity_create(&own)
        || 0 != bench_buf_open(&buffer, sizes[count - 1], options.huge)) {
        die("memory");
    }
    bench_buf_shape(&buffer, sizes[count - 1], false);
    memset(bench_buf_next(&buffer), 2, sizes[count - 1]);
    while (0 == atomic_load(&shared->ready)) {
        if (child == waitpid(child, &status, WNOHANG)) {
            fprintf(stderr, "bench_cma: the other process did not start\n");
            return 1;
        }
        sched_yield();
    }
    pidfd = (int) syscall(SYS_pidfd_open, child, 0);
    for (int kind = 0; kind < 2; ++kind) {
        if (SMSC_CMA_REASON_NONE
            != smsc_cma_probe_peer(&sys[kind], &own, &shared->record, 0, &peers[kind])) {
            char text[512];

            smsc_cma_probe_explain(&peers[kind], &shared->record, text, sizeof(text));
            fprintf(stderr, "bench_cma: %s\n", text);
            return 77;
        }
    }
    if (0 > pidfd || NULL == peers[0].target.life) {
        fprintf(stderr, "bench_cma: this kernel has no pidfd, or the life word cannot be mapped\n");
        return 77;
    }
    if (!options.json) {
        printf("# %s; processor time in ns per copy, lower quartile of %d rounds; \"+\" is the "
               "median difference to bare\n"
               "#   bytes         bare         word        +   ratio        nonce        +   ratio"
               "         poll        +\n",
               options.write ? "process_vm_writev" : "process_vm_readv", options.rounds);
    }
    for (size_t i = 0; i < count; ++i) {
        met &= measure(sizes[i]);
    }
    met &= measure_endpoints();
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return options.check && !met ? 3 : 0;
}

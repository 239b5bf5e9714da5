/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * bench_ceiling N [--json]: the rings and the ping-pong of hpcc by N bare processes whose send
 * buffers all lie in shared memory, so that every message is copied once, in user space, by its
 * receiver. The 2010 measurements called an hpcc changed in that way the theoretical maximum; a
 * transport in which both sides copy can pass it.
 *
 * Conventions as hpcc's: messages of 2,000,000 bytes, one to each neighbour per step, bandwidth =
 * message / (time of a step / 2) of the slowest process, best of the repetitions, geometric mean
 * over random rings; ping-pong one way between processes 0 and 1; latencies with 8 bytes.
 *
 * Layer: pure C11 + Linux on bench_common.h. Called by the hpcc suite and by hand.
 */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif
#include "bench_common.h"

#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE         128
#define MOST         256
#define MESSAGE      ((size_t) 2000000)
#define SHORT        ((size_t) 8)
#define REPETITIONS  3
#define RANDOM_RINGS 10

enum { LEFT, RIGHT };

/** What one process shares: counters that only it writes, and its two outgoing messages. */
typedef struct {
    _Alignas(LINE) _Atomic uint64_t posted;   /* steps whose messages are ready */
    _Alignas(LINE) _Atomic uint64_t taken[2]; /* steps whose message from that side was copied */
    _Alignas(LINE) double spent_ns;
    bool wrong;
} process_t;

typedef struct {
    _Alignas(LINE) _Atomic uint64_t arrived; /* barrier */
    process_t process[MOST];
    int ring[MOST]; /* ring[i]: process at place i */
} shared_t;

static shared_t *S;
static char *messages; /* [process][LEFT or RIGHT] of MESSAGE bytes */
static int count;
static int me;
static bool crowded; /* more processes than cores: waiting must let others run */
static uint64_t barriers;
static uint64_t steps;

static void wait_for(const _Atomic uint64_t *word, uint64_t value)
{
    for (unsigned spins = 0; atomic_load_explicit(word, memory_order_acquire) < value; spins++) {
        if (crowded && 0 == (spins & 63)) {
            sched_yield();
        }
    }
}

static void barrier(void)
{
    barriers++;
    atomic_fetch_add_explicit(&S->arrived, 1, memory_order_acq_rel);
    wait_for(&S->arrived, barriers * (uint64_t) count);
}

static char *outgoing(int process, int side)
{
    return messages + ((size_t) process * 2 + (size_t) side) * ((MESSAGE + 4095) & ~(size_t) 4095);
}

/* One step: what I send to my left neighbour it receives from its right. Before I may post again,
 * both neighbours must have copied the last messages. */
static void ring_step(int left, int right, char *from_left, char *from_right, size_t len)
{
    process_t *mine = &S->process[me];
    steps++;
    atomic_store_explicit(&mine->posted, steps, memory_order_release);
    wait_for(&S->process[left].posted, steps);
    memcpy(from_left, outgoing(left, RIGHT), len);
    atomic_store_explicit(&mine->taken[LEFT], steps, memory_order_release);
    wait_for(&S->process[right].posted, steps);
    memcpy(from_right, outgoing(right, LEFT), len);
    atomic_store_explicit(&mine->taken[RIGHT], steps, memory_order_release);
    wait_for(&S->process[left].taken[RIGHT], steps);
    wait_for(&S->process[right].taken[LEFT], steps);
}

/* Time per message of the slowest process for one ring, best of the repetitions. */
static double ring_ns(char *from_left, char *from_right, size_t len, long loops)
{
    int place = 0;
    while (me != S->ring[place]) {
        place++;
    }
    int left = S->ring[(place + count - 1) % count];
    int right = S->ring[(place + 1) % count];
    double best = INFINITY;
    /* Untimed: every byte arrives where it should. */
    bench_fill(outgoing(me, LEFT), len, 2 * (uint64_t) me + LEFT);
    bench_fill(outgoing(me, RIGHT), len, 2 * (uint64_t) me + RIGHT);
    barrier();
    ring_step(left, right, from_left, from_right, len);
    S->process[me].wrong |= SIZE_MAX != bench_check(from_left, len, 2 * (uint64_t) left + RIGHT)
                            || SIZE_MAX
                                   != bench_check(from_right, len, 2 * (uint64_t) right + LEFT);
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
        barrier();
        uint64_t start = bench_now_ns();
        for (long i = 0; i < loops; i++) {
            ring_step(left, right, from_left, from_right, len);
        }
        S->process[me].spent_ns = (double) (bench_now_ns() - start) / (2.0 * (double) loops);
        barrier();
        double slowest = 0.0;
        for (int p = 0; p < count; p++) {
            slowest = S->process[p].spent_ns > slowest ? S->process[p].spent_ns : slowest;
        }
        best = slowest < best ? slowest : best;
        barrier();
    }
    return best;
}

static void shuffle(uint64_t *state)
{
    for (int i = count - 1; i > 0; i--) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        int j = (int) ((*state >> 33) % (uint64_t) (i + 1));
        int kept = S->ring[i];
        S->ring[i] = S->ring[j];
        S->ring[j] = kept;
    }
}

/* One way between processes 0 and 1; the others wait in the barrier. */
static double pingpong_ns(char *in, size_t len, long loops)
{
    double best = INFINITY;
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
        barrier();
        uint64_t start = bench_now_ns();
        uint64_t base = atomic_load(&S->process[0].posted);
        barrier();
        for (long i = 1; me < 2 && i <= loops; i++) {
            uint64_t number = base + (uint64_t) i;
            if (0 == me) {
                atomic_store_explicit(&S->process[0].posted, number, memory_order_release);
                wait_for(&S->process[1].posted, number);
                memcpy(in, outgoing(1, LEFT), len);
            } else {
                wait_for(&S->process[0].posted, number);
                memcpy(in, outgoing(0, LEFT), len);
                atomic_store_explicit(&S->process[1].posted, number, memory_order_release);
            }
        }
        double ns = (double) (bench_now_ns() - start) / (2.0 * (double) loops);
        barrier();
        best = ns < best ? ns : best;
        if (me >= 2) {
            atomic_store(&S->process[me].posted, base + (uint64_t) loops);
        }
        steps = base + (uint64_t) loops;
        barrier();
    }
    return best;
}

static void report(bool json, const char *metric, const char *unit, double value, bool wrong)
{
    if (!json) {
        printf("%-24s %12.3f %s%s\n", metric, value, unit, wrong ? "  WRONG BYTES" : "");
        return;
    }
    bench_json_t j;
    bench_json_begin(&j, stdout);
    bench_json_str(&j, "kind", "value");
    bench_json_str(&j, "metric", metric);
    bench_json_str(&j, "unit", unit);
    bench_json_num(&j, "value", value);
    bench_json_str(&j, "verified", wrong ? "wrong" : "yes");
    bench_json_end(&j);
}

static void all_rings(char *from_left, char *from_right, size_t len, long loops, double *natural,
                      double *random)
{
    uint64_t state = 2010;
    double logs = 0.0;
    for (int i = 0; 0 == me && i < count; i++) {
        S->ring[i] = i;
    }
    barrier();
    *natural = ring_ns(from_left, from_right, len, loops);
    for (int r = 0; r < RANDOM_RINGS; r++) {
        barrier();
        if (0 == me) {
            shuffle(&state);
        }
        barrier();
        logs += log(ring_ns(from_left, from_right, len, loops));
    }
    *random = exp(logs / RANDOM_RINGS);
}

static void work(bool json)
{
    bench_buf_t left;
    bench_buf_t right;
    double natural[2];
    double random[2];
    double pingpong[2];
    bench_pin(me);
    if (0 != bench_buf_open(&left, MESSAGE, false) || 0 != bench_buf_open(&right, MESSAGE, false)) {
        fputs("bench_ceiling: no memory\n", stderr);
        exit(2);
    }
    memset(outgoing(me, LEFT), 1, MESSAGE);
    memset(outgoing(me, RIGHT), 1, MESSAGE);
    long loops = 40 / count < 4 ? 4 : 40 / count;
    all_rings(left.base, right.base, MESSAGE, loops, &natural[0], &random[0]);
    all_rings(left.base, right.base, SHORT, crowded ? 50 : 2000, &natural[1], &random[1]);
    pingpong[0] = pingpong_ns(left.base, MESSAGE, 60);
    pingpong[1] = pingpong_ns(left.base, SHORT, 20000);
    if (0 == me) {
        bool wrong = false;
        for (int p = 0; p < count; p++) {
            wrong |= S->process[p].wrong;
        }
        const double MB = (double) MESSAGE * 1e3;
        report(json, "nat_ring_bw_MBps", "MBps", MB / natural[0], wrong);
        report(json, "rand_ring_bw_MBps", "MBps", MB / random[0], wrong);
        report(json, "max_pingpong_bw_MBps", "MBps", MB / pingpong[0], wrong);
        report(json, "min_pingpong_lat_us", "us", pingpong[1] * 1e-3, wrong);
        report(json, "nat_ring_lat_us", "us", natural[1] * 1e-3, wrong);
        report(json, "rand_ring_lat_us", "us", random[1] * 1e-3, wrong);
        exit(wrong ? 3 : 0);
    }
    exit(0);
}

int main(int argc, char **argv)
{
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (0 == strcmp(argv[i], "--json")) {
            json = true;
        } else {
            count = atoi(argv[i]);
        }
    }
    if (count < 2 || count > MOST) {
        fprintf(stderr, "usage: bench_ceiling N [--json]   with N from 2 to %d processes\n", MOST);
        return 2;
    }
    size_t bytes = (size_t) count * 2 * ((MESSAGE + 4095) & ~(size_t) 4095);
    S = mmap(NULL, sizeof(*S), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    messages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == (void *) S || MAP_FAILED == (void *) messages) {
        fputs("bench_ceiling: no memory\n", stderr);
        return 2;
    }
    crowded = count > bench_core_count();
    pid_t parent = getpid();
    for (me = 1; me < count; me++) {
        pid_t child = fork();
        if (0 == child) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) {
                return 2;
            }
            work(json);
        }
        if (0 > child) {
            fputs("bench_ceiling: cannot fork\n", stderr);
            return 2; /* the children die with us */
        }
    }
    me = 0;
    work(json);
}

/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * bench_floor WAY [options]: what two bare processes reach without MPI, as ping-pong, so that the
 * figures can stand in one plot with those of bench_mpi lat. The ways:
 *
 *   line    header and payload in one cache line (up to 48 bytes)
 *   ring    byte ring in shared memory, copied in and out
 *   cma     flag, then the receiver's process_vm_readv
 *   coop    flag, then both sides share out one copy in chunks: the receiver reads, the sender
 *           writes (process_vm_readv and process_vm_writev)
 *   shm     the message lies in shared memory and the receiver copies it once in user space: what
 *           the 2010 measurements called the theoretical maximum
 *   shm2    as shm, both sides share out the copy
 *   memcpy  one process copies from one private buffer to another
 *
 * Layer: pure C11 + Linux on bench_common.h; shares no code with the components, because it is
 * their yardstick. Called by the suites of run and by hand.
 */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif
#include "bench_common.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE       128 /* two cache lines: the neighbour is prefetched with the one used */
#define RING_BYTES ((size_t) 256 << 10)
#define LINE_BYTES 48

typedef enum { WAY_LINE, WAY_RING, WAY_CMA, WAY_COOP, WAY_SHM, WAY_SHM2, WAY_MEMCPY, WAYS } way_t;

static const char *const way_names[WAYS] = {"line", "ring", "cma", "coop", "shm", "shm2", "memcpy"};
static const char *const way_sizes[WAYS] = {"0-32,48", "0-32K",   "1-64M", "64K-64M",
                                            "1-64M",   "64K-64M", "1-64M"};

/** One direction of traffic. Only the sender writes `post`, both write `board`. */
typedef struct {
    struct {
        _Alignas(LINE) _Atomic uint64_t seq; /* messages posted so far */
        char payload[LINE_BYTES];
    } post;
    struct {
        _Alignas(LINE) _Atomic uint64_t next; /* chunks handed out, in the message's number space */
        _Alignas(LINE) _Atomic uint64_t done; /* bytes copied by both, over all messages */
    } board;
    _Alignas(LINE) _Atomic uint64_t read; /* ring positions taken by the reader */
    _Alignas(LINE) char ring[RING_BYTES];
} lane_t;

/** Shared by both processes. */
typedef struct {
    _Alignas(LINE) _Atomic uint64_t command; /* number of the command that process 1 shall run */
    size_t size;
    long n;
    bool check;
    bool quit;
    _Alignas(LINE) _Atomic uint64_t finished; /* last command that process 1 has run */
    bool wrong;
    pid_t pid[2];
    char *src[2];
    char *dst[2];
    lane_t lane[2]; /* lane[i]: from process i to the other */
} shared_t;

static shared_t *S;
static int me;
static way_t way;
static size_t chunk_bytes; /* 0: a quarter of the message, within limits */
static bool demote;
static uint64_t sent; /* messages this process has sent */
static uint64_t received;
static uint64_t base;     /* both counters when the current size began */
static uint64_t ring_out; /* positions written / read on this side */
static uint64_t ring_in;
static bool wrong_bytes;

static void fail(const char *what)
{
    fprintf(stderr, "bench_floor: %s: %s\n", what, strerror(errno));
    exit(2);
}

static inline void pause_once(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static inline void wait_for(const _Atomic uint64_t *word, uint64_t value)
{
    while (atomic_load_explicit(word, memory_order_acquire) < value) {
        pause_once();
    }
}

/* --------------------------------------------------------------- the ways */

#if defined(__x86_64__)
__attribute__((target("cldemote"))) static void demote_lines(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i += 64) {
        __builtin_ia32_cldemote(p + i);
    }
}
#else
static void demote_lines(const char *p, size_t len)
{
    (void) p;
    (void) len;
}
#endif

/* Record: 8-byte word {message number, length}, payload, padded to 64. The reader clears nothing:
 * the number, which never starts again, tells a new record from an old one. */
static size_t ring_need(size_t size)
{
    return (size + 8 + 63) & ~(size_t) 63;
}

static char *ring_place(lane_t *l, uint64_t *position, size_t need)
{
    size_t at = *position % RING_BYTES;
    if (at + need > RING_BYTES) {
        *position += RING_BYTES - at;
        at = 0;
    }
    return l->ring + at;
}

static void ring_send(lane_t *l, const char *buf, size_t size)
{
    size_t need = ring_need(size);
    char *p = ring_place(l, &ring_out, need);
    /* Ping-pong keeps at most one message in the ring, so there is always space. */
    memcpy(p + 8, buf, size);
    atomic_store_explicit((_Atomic uint64_t *) (void *) p, sent << 32 | size, memory_order_release);
    if (demote) {
        demote_lines(p, need);
    }
    ring_out += need;
}

static void ring_receive(lane_t *l, char *buf, size_t size)
{
    size_t need = ring_need(size);
    char *p = ring_place(l, &ring_in, need);
    uint64_t word = (received & UINT32_MAX) << 32 | size;
    while (atomic_load_explicit((_Atomic uint64_t *) (void *) p, memory_order_acquire) != word) {
        pause_once();
    }
    memcpy(buf, p + 8, size);
    ring_in += need;
}

static size_t chunk_for(size_t size)
{
    if (0 != chunk_bytes) {
        return chunk_bytes;
    }
    size_t chunk = size / 4;
    chunk = chunk > ((size_t) 256 << 10) ? (size_t) 256 << 10 : chunk;
    return chunk < 16384 ? 16384 : (chunk + 4095) & ~(size_t) 4095;
}

static void copy_all(bool push, char *local, char *remote, pid_t pid, size_t len)
{
    while (0 < len) {
        struct iovec here = {local, len};
        struct iovec there = {remote, len};
        ssize_t n = push ? process_vm_writev(pid, &here, 1, &there, 1, 0)
                         : process_vm_readv(pid, &here, 1, &there, 1, 0);
        if (0 >= n) {
            fail(push ? "process_vm_writev" : "process_vm_readv");
        }
        local += n;
        remote += n;
        len -= (size_t) n;
    }
}

/* Share out message number `message` of a lane until no chunk is left. Chunk numbers go on from
 * message to message, from 0 when a size begins. A helper that comes
 * late finds only numbers beyond its message and must give them back by not using them, so the
 * counter is advanced by compare and exchange. */
static void share_out(lane_t *l, uint64_t message, size_t size, bool sender)
{
    const size_t chunk = chunk_for(size);
    const uint64_t chunks = (size + chunk - 1) / chunk;
    const uint64_t first = (message - base - 1) * chunks;
    const int from = sender ? me : 1 - me;
    uint64_t i = atomic_load_explicit(&l->board.next, memory_order_relaxed);
    for (;;) {
        if (i >= first + chunks) {
            return;
        }
        if (!atomic_compare_exchange_weak_explicit(&l->board.next, &i, i + 1, memory_order_acquire,
                                                   memory_order_relaxed)) {
            continue;
        }
        size_t offset = (size_t) (i - first) * chunk;
        size_t len = size - offset < chunk ? size - offset : chunk;
        char *src = S->src[from] + offset;
        char *dst = S->dst[1 - from] + offset;
        if (WAY_SHM2 == way) {
            memcpy(dst, src, len);
        } else if (sender) {
            copy_all(true, src, dst, S->pid[1 - me], len);
        } else {
            copy_all(false, dst, src, S->pid[1 - me], len);
        }
        atomic_fetch_add_explicit(&l->board.done, len, memory_order_release);
        i = atomic_load_explicit(&l->board.next, memory_order_relaxed);
    }
}

static void send_one(size_t size)
{
    lane_t *l = &S->lane[me];
    sent++;
    switch (way) {
    case WAY_LINE:
        memcpy(l->post.payload, S->src[me], size);
        atomic_store_explicit(&l->post.seq, sent, memory_order_release);
        break;
    case WAY_RING:
        ring_send(l, S->src[me], size);
        break;
    case WAY_COOP:
    case WAY_SHM2:
        atomic_store_explicit(&l->post.seq, sent, memory_order_release);
        share_out(l, sent, size, true);
        break;
    default:
        atomic_store_explicit(&l->post.seq, sent, memory_order_release);
        break;
    }
}

static void receive_one(size_t size)
{
    lane_t *l = &S->lane[1 - me];
    char *dst = S->dst[me];
    received++;
    if (WAY_RING == way) {
        ring_receive(l, dst, size);
        return;
    }
    wait_for(&l->post.seq, received);
    switch (way) {
    case WAY_LINE:
        memcpy(dst, l->post.payload, size);
        break;
    case WAY_CMA:
        copy_all(false, dst, S->src[1 - me], S->pid[1 - me], size);
        break;
    case WAY_SHM:
        memcpy(dst, S->src[1 - me], size);
        break;
    default: {
        share_out(l, received, size, false);
        wait_for(&l->board.done, (received - base) * (uint64_t) size);
        break;
    }
    }
}

/* Make the compiler believe that the copy is used. */
static inline void keep(void *p)
{
    __asm__ volatile("" : : "r"(p) : "memory");
}

static void iterate(size_t size, long n)
{
    if (WAY_MEMCPY == way) {
        for (long i = 0; i < n; i++) {
            memcpy(S->dst[me], S->src[me], size);
            keep(S->dst[me]);
        }
        return;
    }
    for (long i = 0; i < n; i++) {
        if (0 == me) {
            send_one(size);
            receive_one(size);
        } else {
            receive_one(size);
            send_one(size);
        }
    }
}

static void fill(size_t size)
{
    bench_fill(S->src[me], size, (uint64_t) me + 3);
    bench_fill(S->dst[me], size, UINT64_MAX);
}

static bool check(size_t size)
{
    int from = WAY_MEMCPY == way ? me : 1 - me;
    return SIZE_MAX != bench_check(S->dst[me], size, (uint64_t) from + 3);
}

/* ------------------------------------------------------------- two processes */

/* The board counts chunks and bytes from the start of a size; both are idle here. */
static void fresh_boards(void)
{
    for (int i = 0; i < 2; i++) {
        atomic_store(&S->lane[i].board.next, 0);
        atomic_store(&S->lane[i].board.done, 0);
    }
}

static void run_here(size_t size, long n, bool verify)
{
    iterate(size, n);
    if (verify) {
        wrong_bytes = check(size);
    }
}

/* Process 0: have both run n iterations. Process 1 spins on the command word, which costs one
 * line transfer before the first iteration; batches make that negligible. */
static void run_both(size_t size, long n, bool verify)
{
    if (WAY_MEMCPY == way) {
        run_here(size, n, verify);
        return;
    }
    S->size = size;
    S->n = n;
    S->check = verify;
    uint64_t number = atomic_fetch_add_explicit(&S->command, 1, memory_order_release) + 1;
    run_here(size, n, verify);
    if (verify) {
        wait_for(&S->finished, number);
    }
}

/* Process 1 must have counted to the end of the last command before counters are reset. */
static void settle(void)
{
    wait_for(&S->finished, atomic_load(&S->command));
}

static void follower(void)
{
    for (uint64_t number = 1;; number++) {
        wait_for(&S->command, number);
        if (S->quit) {
            _exit(0);
        }
        if (0 == S->n) { /* a new size begins */
            base = sent;
            if (S->check) {
                fill(S->size);
            }
        } else {
            run_here(S->size, S->n, S->check);
            S->wrong = S->check && wrong_bytes;
        }
        atomic_store_explicit(&S->finished, number, memory_order_release);
    }
}

static void begin_size(size_t size, bool prepare)
{
    settle();
    fresh_boards();
    base = sent;
    if (prepare) {
        fill(size);
    }
    if (WAY_MEMCPY == way) {
        return;
    }
    S->size = size;
    S->n = 0;
    S->check = prepare;
    atomic_fetch_add_explicit(&S->command, 1, memory_order_release);
    settle();
}

/* --------------------------------------------------------------- measuring */

typedef struct {
    size_t size;
    long batch;
    long batches;
    long iterations;
    bool wrong;
    bench_noise_t noise;
    bench_hist_t *hist;
} cell_t;

static double per_iteration_ns(size_t size, long n)
{
    uint64_t start = bench_now_ns();
    run_both(size, n, false);
    double ns = (double) (bench_now_ns() - start) / (double) n;
    settle();
    return ns;
}

static void calibrate(cell_t *c, double time_s, int rounds, double clock_ns)
{
    double per_ns = INFINITY;
    begin_size(c->size, false);
    for (long stage = 0, n = 1;; stage++, n = stage < 3 ? 1 : n * 4) {
        double ns = per_iteration_ns(c->size, n);
        per_ns = ns < per_ns ? ns : per_ns;
        if ((1 < stage && per_ns * (double) n > 2e6) || (0 < stage && per_ns > 1e7)) {
            break;
        }
    }
    per_ns = per_ns < 0.5 ? 0.5 : per_ns;
    c->batch = (long) ceil(100.0 * clock_ns / per_ns);
    c->batches = (long) (time_s * 1e9 / rounds / (per_ns * (double) c->batch));
    c->batches = c->batches < 1 ? 1 : c->batches;
}

static void measure(cell_t *c)
{
    bench_noise_t before;
    bench_noise_t after;
    bench_noise_t diff;
    double messages = WAY_MEMCPY == way ? 1.0 : 2.0;
    begin_size(c->size, false);
    per_iteration_ns(c->size, c->batch);
    bench_noise_read(&before);
    /* One command for all batches: process 1 must not go back to its command loop in between. */
    if (WAY_MEMCPY != way) {
        S->size = c->size;
        S->n = c->batch * c->batches;
        S->check = false;
        atomic_fetch_add_explicit(&S->command, 1, memory_order_release);
    }
    for (long b = 0; b < c->batches; b++) {
        uint64_t start = bench_now_ns();
        iterate(c->size, c->batch);
        uint64_t ns = bench_now_ns() - start;
        bench_hist_add(c->hist, (uint64_t) ((double) ns * 1000.0 / (double) c->batch / messages));
    }
    bench_noise_read(&after);
    c->iterations += c->batch * c->batches;
    bench_noise_diff(&before, &after, &diff);
    bench_noise_add(&c->noise, &diff);
}

static void *map_shared(size_t bytes, bool huge)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == p) {
        fail("mmap");
    }
    if (huge) {
        (void) madvise(p, bytes, MADV_HUGEPAGE);
    }
    return p;
}

static void usage(FILE *f)
{
    fputs("usage: bench_floor line|ring|cma|coop|shm|shm2|memcpy [options]\n"
          "  --sizes LIST --time S --rounds N --huge --no-verify --json --hist   as in bench_mpi\n"
          "  --chunk BYTES  unit that both sides share out (coop, shm2)\n"
          "  --demote       cldemote the lines just written (ring)\n",
          f);
}

int main(int argc, char **argv)
{
    const char *sizes_text = NULL;
    double time_s = 0.06;
    int rounds = 3;
    bool huge = false;
    bool verify = true;
    bool json = false;
    bool histogram = false;
    bool known = false;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        const char *v = i + 1 < argc ? argv[i + 1] : "";
        if (0 == strcmp(a, "--help")) {
            usage(stdout);
            return 0;
        }
        if (0 == strcmp(a, "--sizes")) {
            sizes_text = v;
            i++;
        } else if (0 == strcmp(a, "--time")) {
            time_s = atof(v);
            i++;
        } else if (0 == strcmp(a, "--rounds")) {
            rounds = atoi(v);
            i++;
        } else if (0 == strcmp(a, "--chunk")) {
            if (!bench_size_parse(v, &chunk_bytes)) {
                fprintf(stderr, "bench_floor: --chunk %s: not a number of bytes\n", v);
                return 2;
            }
            i++;
        } else if (0 == strcmp(a, "--huge")) {
            huge = true;
        } else if (0 == strcmp(a, "--demote")) {
            demote = true;
        } else if (0 == strcmp(a, "--no-verify")) {
            verify = false;
        } else if (0 == strcmp(a, "--json")) {
            json = true;
        } else if (0 == strcmp(a, "--hist")) {
            histogram = true;
        } else {
            bool found = false;
            for (int w = 0; w < WAYS; w++) {
                if (0 == strcmp(a, way_names[w])) {
                    way = (way_t) w;
                    found = true;
                }
            }
            if (!found || known) {
                fprintf(stderr, "bench_floor: %s is not understood\n", a);
                usage(stderr);
                return 2;
            }
            known = true;
        }
    }
    if (!known || !(time_s > 0.0) || rounds < 1) {
        usage(stderr);
        return 2;
    }
    size_t *sizes;
    size_t count;
    const char *problem = bench_sizes_parse(NULL != sizes_text ? sizes_text : way_sizes[way],
                                            &sizes, &count);
    if (NULL != problem) {
        fprintf(stderr, "bench_floor: --sizes: %s\n", problem);
        return 2;
    }
    size_t largest = sizes[count - 1];
    if ((WAY_LINE == way && largest > LINE_BYTES)
        || (WAY_RING == way && ring_need(largest) > RING_BYTES / 4)) {
        fprintf(stderr, "bench_floor: %s carries at most %zu bytes\n", way_names[way],
                WAY_LINE == way ? (size_t) LINE_BYTES : RING_BYTES / 4 - 64);
        return 2;
    }

    S = map_shared(sizeof(*S), false);
    bool in_shared = WAY_SHM == way || WAY_SHM2 == way;
    size_t room = ((largest + 4096) + ((size_t) 2 << 20)) & ~(((size_t) 2 << 20) - 1);
    if (in_shared) {
        char *all = map_shared(4 * room, huge);
        memset(all, 1, 4 * room);
        for (int i = 0; i < 2; i++) {
            S->src[i] = all + (size_t) i * room;
            S->dst[i] = all + (size_t) (2 + i) * room;
        }
    }
    S->pid[0] = getpid();
    pid_t child = fork();
    if (0 > child) {
        fail("fork");
    }
    me = 0 == child;
    if (0 == child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    /* Where Yama restricts attaching, a sibling or a parent needs to be named. */
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    int core = bench_pin(me);
    bench_buf_t out = {0};
    bench_buf_t in = {0};
    if (!in_shared) {
        if (0 != bench_buf_open(&out, largest + 4096, huge)
            || 0 != bench_buf_open(&in, largest + 4096, huge)) {
            fail("buffers");
        }
        S->src[me] = out.base;
        S->dst[me] = in.base;
    }
    if (0 == child) {
        S->pid[1] = getpid();
        atomic_store_explicit(&S->finished, UINT64_MAX, memory_order_release); /* I am here */
        follower();
    }
    wait_for(&S->finished, UINT64_MAX);
    atomic_store(&S->finished, 0);

    bench_clock_t clock;
    bench_clock_measure(&clock);
    bench_json_t j;
    char pattern[32];
    snprintf(pattern, sizeof(pattern), "floor_%s", way_names[way]);
    if (json) {
        bench_json_begin(&j, stdout);
        bench_json_str(&j, "kind", "context");
        bench_json_str(&j, "pattern", pattern);
        bench_json_int(&j, "np", WAY_MEMCPY == way ? 1 : 2);
        bench_json_str(&j, "pages", huge ? "huge" : "4k");
        bench_json_int(&j, "huge_kB", in_shared ? -1 : bench_buf_huge_kB(&in));
        bench_json_int(&j, "chunk", (long long) chunk_bytes);
        bench_json_bool(&j, "demote", demote);
        bench_json_array(&j, "pinning");
        bench_json_int(&j, NULL, core);
        bench_json_close(&j, ']');
        bench_context_json(&j, &clock);
        bench_json_end(&j);
    } else {
        printf("# %s, us one way\n", pattern);
        bench_cell_text(NULL);
    }

    cell_t *cells = calloc(count, sizeof(*cells));
    bool bad = false;
    for (size_t i = 0; i < count; i++) {
        cells[i].size = sizes[i];
        cells[i].hist = malloc(sizeof(*cells[i].hist));
        if (NULL == cells[i].hist) {
            fail("histograms");
        }
        bench_hist_reset(cells[i].hist);
        if (verify) {
            begin_size(sizes[i], true);
            run_both(sizes[i], 1, true);
            settle();
            cells[i].wrong = wrong_bytes || (WAY_MEMCPY != way && S->wrong);
            bad |= cells[i].wrong;
        }
        calibrate(&cells[i], time_s, rounds, clock.read_ns);
    }
    /* As in bench_mpi: later rounds are given up on a machine that others keep busy. */
    const uint64_t start = bench_now_ns();
    const double most_ns = 2e9 + 3e9 * time_s * (double) count;
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < count; i++) {
            if (0 < round && (double) (bench_now_ns() - start) > most_ns) {
                break;
            }
            measure(&cells[0 == round % 2 ? i : count - 1 - i]);
        }
    }
    settle();
    for (size_t i = 0; i < count; i++) {
        bench_cell_t cell = {
            .pattern = pattern,
            .size = cells[i].size,
            .np = WAY_MEMCPY == way ? 1 : 2,
            .window = 1,
            .iterations = cells[i].iterations,
            .batch = cells[i].batch,
            .bytes_factor = 1.0,
            .verified = !verify          ? "no"
                        : cells[i].wrong ? "wrong"
                                         : "yes",
            .hist = cells[i].hist,
            .noise = &cells[i].noise,
            .histogram = histogram,
        };
        if (json) {
            bench_cell_begin(&j, stdout, &cell);
            bench_json_end(&j);
        } else {
            bench_cell_text(&cell);
        }
        free(cells[i].hist);
    }
    S->quit = true;
    atomic_fetch_add(&S->command, 1);
    waitpid(child, NULL, 0);
    free(cells);
    free(sizes);
    return bad ? 3 : 0;
}

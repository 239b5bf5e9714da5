/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * One-sided communication over every kind of window and every way to synchronise. Put and Get carry
 * byte patterns at all sizes around the limits; the atomics are judged by invariants that hold in
 * any order: sums, tickets that are unique and complete, counters that lose no step.
 *
 * Options: --max=SIZE largest Put and Get, --rounds=N steps of each atomic, --windows=LIST of
 * create,allocate,shared,dynamic.
 */
#include "mpi_check.h"

typedef enum { CREATE, ALLOCATE, SHARED, DYNAMIC, KINDS } kind_t;

static const char *const kind_name[KINDS] = {"Win_create", "Win_allocate", "Win_allocate_shared",
                                             "dynamic window"};

/* A window of bytes of any kind, so that the tests need not know which. */
typedef struct window_t {
    kind_t kind;
    MPI_Win win;
    unsigned char *base;
    chk_buf_t buf;    /* the memory where we bring it ourselves */
    MPI_Aint *origin; /* displacement of byte 0 of each rank's window */
    size_t size;
} window_t;

static size_t max_size;
static int rounds;
static int right;
static int left;
static uint64_t seq;

static window_t window_new(kind_t kind, size_t size)
{
    window_t w = {.kind = kind, .size = size};
    MPI_Aint mine = 0;
    w.origin = calloc((size_t) chk_np, sizeof(*w.origin));
    chk_phase("%s of %zu bytes", kind_name[kind], size);
    switch (kind) {
    case CREATE:
        w.buf = chk_buf_new(size);
        w.base = w.buf.p;
        CHK(MPI_Win_create(w.base, (MPI_Aint) size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w.win));
        break;
    case ALLOCATE:
        CHK(MPI_Win_allocate((MPI_Aint) size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w.base, &w.win));
        break;
    case SHARED:
        CHK(MPI_Win_allocate_shared((MPI_Aint) size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w.base,
                                    &w.win));
        break;
    default:
        w.buf = chk_buf_new(size);
        w.base = w.buf.p;
        CHK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w.win));
        CHK(MPI_Win_attach(w.win, w.base, (MPI_Aint) size));
        CHK(MPI_Get_address(w.base, &mine));
        break;
    }
    CHK(MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN));
    CHK(MPI_Allgather(&mine, 1, MPI_AINT, w.origin, 1, MPI_AINT, MPI_COMM_WORLD));
    memset(w.base, 0, size);
    CHK(MPI_Barrier(MPI_COMM_WORLD));
    return w;
}

static void window_free(window_t *w)
{
    chk_phase("free of %s", kind_name[w->kind]);
    if (DYNAMIC == w->kind) {
        CHK(MPI_Barrier(MPI_COMM_WORLD));
        CHK(MPI_Win_detach(w->win, w->base));
    }
    CHK(MPI_Win_free(&w->win));
    if (NULL != w->buf.map) {
        chk_buf_free(&w->buf);
    }
    free(w->origin);
}

static MPI_Aint at(const window_t *w, int target, size_t off)
{
    return MPI_Aint_add(w->origin[target], (MPI_Aint) off);
}

static int64_t *word(const window_t *w, size_t i)
{
    return (int64_t *) (void *) (w->base + 8 * i);
}

/* Local reads and writes of window memory, in the separate memory model too. */
static void own_begin(const window_t *w)
{
    CHK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, chk_rank, 0, w->win));
}

static void own_end(const window_t *w)
{
    CHK(MPI_Win_unlock(chk_rank, w->win));
}

typedef enum { FENCE, PSCW, LOCK, LOCK_ALL, SYNCS } sync_t;

static const char *const sync_name[SYNCS] = {"fence", "post-start-complete-wait", "lock",
                                             "lock_all and flush"};

/* One epoch in which each rank accesses its right neighbour (and its left one accesses us). */
static void epoch_begin(const window_t *w, sync_t sync, MPI_Group from, MPI_Group to)
{
    switch (sync) {
    case FENCE:
        CHK(MPI_Win_fence(MPI_MODE_NOPRECEDE, w->win));
        break;
    case PSCW:
        CHK(MPI_Win_post(from, 0, w->win));
        CHK(MPI_Win_start(to, 0, w->win));
        break;
    case LOCK:
        CHK(MPI_Win_lock(0 == seq % 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, right, 0, w->win));
        break;
    default:
        CHK(MPI_Win_lock_all(0, w->win));
        break;
    }
}

static void epoch_end(const window_t *w, sync_t sync)
{
    switch (sync) {
    case FENCE:
        CHK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
        return;
    case PSCW:
        CHK(MPI_Win_complete(w->win));
        CHK(MPI_Win_wait(w->win));
        return;
    case LOCK:
        CHK(MPI_Win_unlock(right, w->win));
        break;
    default:
        CHK(MPI_Win_flush(right, w->win));
        CHK(MPI_Win_unlock_all(w->win));
        break;
    }
    CHK(MPI_Barrier(MPI_COMM_WORLD));
}

/*
 * Put a pattern into the right neighbour at an odd offset, then get it back from there by the same
 * synchronisation. Guards lie around it in the window and around the local buffers.
 */
static void put_get(const window_t *w, sync_t sync, size_t size, MPI_Group from, MPI_Group to,
                    chk_buf_t *src, chk_buf_t *dst)
{
    const size_t off = CHK_GUARD + seq % 61;
    const chk_msg_t mine = {chk_rank, 900, seq, size};
    const chk_msg_t theirs = {left, 900, seq, size};
    unsigned char *s = src->p + seq % 7;
    unsigned char *d = dst->p + seq % 11;

    own_begin(w);
    chk_arm(w->base + off, size);
    own_end(w);
    chk_arm(s, size);
    chk_arm(d, size);
    chk_fill(&mine, 0, s, size);
    CHK(MPI_Barrier(MPI_COMM_WORLD));

    chk_phase("%s, %s, Put of %zu", kind_name[w->kind], sync_name[sync], size);
    epoch_begin(w, sync, from, to);
    if ((LOCK == sync || LOCK_ALL == sync) && 0 == seq % 3) {
        MPI_Request req;
        CHK(MPI_Rput(s, (int) size, MPI_BYTE, right, at(w, right, off), (int) size, MPI_BYTE,
                     w->win, &req));
        CHK(MPI_Wait(&req, MPI_STATUS_IGNORE));
    } else {
        CHK(MPI_Put(s, (int) size, MPI_BYTE, right, at(w, right, off), (int) size, MPI_BYTE,
                    w->win));
    }
    epoch_end(w, sync);

    own_begin(w);
    chk_received(&theirs, w->base + off, size, size);
    own_end(w);
    if (!chk_received(&mine, s, size, size)) {
        chk_fail("Put of %zu to peer %d changed its source", size, right);
    }
    CHK(MPI_Barrier(MPI_COMM_WORLD));

    chk_phase("%s, %s, Get of %zu", kind_name[w->kind], sync_name[sync], size);
    epoch_begin(w, sync, from, to);
    if ((LOCK == sync || LOCK_ALL == sync) && 0 == seq % 3) {
        MPI_Request req;
        CHK(MPI_Rget(d, (int) size, MPI_BYTE, right, at(w, right, off), (int) size, MPI_BYTE,
                     w->win, &req));
        CHK(MPI_Wait(&req, MPI_STATUS_IGNORE));
    } else {
        CHK(MPI_Get(d, (int) size, MPI_BYTE, right, at(w, right, off), (int) size, MPI_BYTE,
                    w->win));
    }
    epoch_end(w, sync);
    chk_received(&mine, d, size, size);
    seq++;
}

static void test_put_get(kind_t kind, const size_t *sizes, size_t n)
{
    MPI_Group world;
    MPI_Group from;
    MPI_Group to;
    window_t w = window_new(kind, max_size + 4 * CHK_GUARD);
    chk_buf_t src = chk_buf_new(max_size + 64);
    chk_buf_t dst = chk_buf_new(max_size + 64);
    CHK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    CHK(MPI_Group_incl(world, 1, &left, &from));
    CHK(MPI_Group_incl(world, 1, &right, &to));
    for (int sync = 0; sync < SYNCS; sync++) {
        for (size_t i = 0; i < n; i++) {
            put_get(&w, (sync_t) sync, sizes[i], from, to, &src, &dst);
        }
        chk_result("%s: Put and Get of %zu sizes up to %zu by %s", kind_name[kind], n, sizes[n - 1],
                   sync_name[sync]);
    }
    CHK(MPI_Group_free(&from));
    CHK(MPI_Group_free(&to));
    CHK(MPI_Group_free(&world));
    chk_buf_free(&src);
    chk_buf_free(&dst);
    window_free(&w);
}

/* Many small and some large Puts and Gets to all ranks, oneself included, within one epoch. */
static void test_many(kind_t kind)
{
    const size_t block = 3000;
    const size_t per = 8;
    window_t w = window_new(kind, block * per * (size_t) chk_np);
    chk_buf_t src = chk_buf_new(block * per * (size_t) chk_np);
    for (int round = 0; round < 3; round++) {
        const uint64_t base = seq;
        chk_phase("%s: many puts, round %d", kind_name[kind], round);
        CHK(MPI_Win_fence(0, w.win));
        for (int t = 0; t < chk_np; t++) {
            for (size_t k = 0; k < per; k++) {
                const size_t size = block - 13 * k;
                const chk_msg_t m = {chk_rank, t, base + k, size};
                const size_t slot = (size_t) chk_rank * per + k;
                unsigned char *s = src.p + ((size_t) t * per + k) * block;
                chk_fill(&m, 0, s, size);
                CHK(MPI_Put(s, (int) size, MPI_BYTE, t, at(&w, t, slot * block), (int) size,
                            MPI_BYTE, w.win));
            }
        }
        CHK(MPI_Win_fence(0, w.win));
        for (int o = 0; o < chk_np; o++) {
            for (size_t k = 0; k < per; k++) {
                const chk_msg_t m = {o, chk_rank, base + k, block - 13 * k};
                chk_verify(&m, 0, w.base + ((size_t) o * per + k) * block, m.size);
            }
        }
        seq += per;
    }
    CHK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    chk_result("%s: many Puts to all ranks and to oneself in one epoch", kind_name[kind]);
    chk_buf_free(&src);
    window_free(&w);
}

static void test_types(kind_t kind)
{
    chk_rng_t rng = chk_rng(41, 0, 0);
    const size_t total = 40000;
    window_t w = window_new(kind, 20 * total);
    chk_buf_t s = chk_buf_new(20 * total);
    for (int k = 0; k < 12; k++) {
        /* Not 0: Open MPI 5.0.7's osc/rdma waits for ever for the end of an access of no bytes by a
         * datatype with gaps, with every btl (seed 46297544). */
        const size_t n = 1 + chk_rand_size(&rng, total - 1);
        chk_layout_t target = chk_layout_random(&rng, n);
        chk_rng_t own = chk_rng(42, (uint64_t) k, (uint64_t) chk_rank);
        chk_layout_t origin = chk_layout_random(&own, n);
        const chk_msg_t mine = {chk_rank, 901, seq, n};
        const chk_msg_t theirs = {left, 901, seq, n};
        /* A layout may start far behind its origin; displacements cannot be negative. */
        const size_t off = CHK_GUARD + (target.lo > 0 ? (size_t) target.lo : 0);
        chk_phase("%s: Put of %s as %s", kind_name[kind], origin.name, target.name);
        chk_layout_fill(&origin, s.p, &mine);
        CHK(MPI_Win_fence(0, w.win));
        chk_arm(w.base + off, chk_layout_span(&target));
        CHK(MPI_Win_fence(0, w.win));
        CHK(MPI_Put(chk_layout_base(&origin, s.p), origin.count, origin.type, right,
                    at(&w, right, off) - target.lo, target.count, target.type, w.win));
        CHK(MPI_Win_fence(0, w.win));
        chk_layout_verify(&target, w.base + off, &theirs, n);
        chk_arm(s.p, chk_layout_span(&origin));
        CHK(MPI_Win_fence(0, w.win));
        CHK(MPI_Get(chk_layout_base(&origin, s.p), origin.count, origin.type, right,
                    at(&w, right, off) - target.lo, target.count, target.type, w.win));
        CHK(MPI_Win_fence(0, w.win));
        chk_layout_verify(&origin, s.p, &mine, n);
        chk_layout_free(&origin);
        chk_layout_free(&target);
        seq++;
    }
    CHK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    chk_result("%s: derived datatypes at origin and target", kind_name[kind]);
    chk_buf_free(&s);
    window_free(&w);
}

/* Everyone adds to everyone; sums do not depend on the order. */
static void test_accumulate(kind_t kind)
{
    static const size_t counts[] = {1, 7, 512, 5000};
    window_t w = window_new(kind, 8 * 5000);
    int64_t *src = calloc(5000, sizeof(*src));
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        const size_t n = counts[c];
        chk_phase("%s: Accumulate of %zu words", kind_name[kind], n);
        CHK(MPI_Win_fence(0, w.win));
        memset(w.base, 0, 8 * n);
        CHK(MPI_Win_fence(0, w.win));
        for (size_t i = 0; i < n; i++) {
            src[i] = (int64_t) (i * 3 + (size_t) chk_rank);
        }
        for (int t = 0; t < chk_np; t++) {
            CHK(MPI_Accumulate(src, (int) n, MPI_INT64_T, (chk_rank + t) % chk_np,
                               at(&w, (chk_rank + t) % chk_np, 0), (int) n, MPI_INT64_T, MPI_SUM,
                               w.win));
        }
        CHK(MPI_Win_fence(0, w.win));
        for (size_t i = 0; i < n; i++) {
            const int64_t want = (int64_t) (i * 3) * chk_np + (int64_t) chk_np * (chk_np - 1) / 2;
            if (want != *word(&w, i)) {
                chk_fail("Accumulate of %zu words over %d ranks: word %zu expected %lld got %lld",
                         n, chk_np, i, (long long) want, (long long) *word(&w, i));
                break;
            }
        }
    }
    CHK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    chk_result("%s: Accumulate from all to all adds up", kind_name[kind]);
    free(src);
    window_free(&w);
}

/* Tickets drawn by all ranks from each rank's counter: every number exactly once. */
static void test_tickets(kind_t kind, bool get_accumulate)
{
    window_t w = window_new(kind, 64);
    const size_t n = (size_t) rounds;
    int64_t *mine = calloc(n, sizeof(*mine));
    int64_t *all = calloc(n * (size_t) chk_np, sizeof(*all));
    const int64_t one = 1;
    for (int t = 0; t < chk_np; t++) {
        chk_phase("%s: tickets from rank %d", kind_name[kind], t);
        CHK(MPI_Win_lock_all(0, w.win));
        for (size_t i = 0; i < n; i++) {
            if (get_accumulate) {
                CHK(MPI_Get_accumulate(&one, 1, MPI_INT64_T, &mine[i], 1, MPI_INT64_T, t,
                                       at(&w, t, 8), 1, MPI_INT64_T, MPI_SUM, w.win));
            } else {
                CHK(MPI_Fetch_and_op(&one, &mine[i], MPI_INT64_T, t, at(&w, t, 0), MPI_SUM, w.win));
            }
            CHK(MPI_Win_flush(t, w.win));
        }
        CHK(MPI_Win_unlock_all(w.win));
        CHK(MPI_Allgather(mine, rounds, MPI_INT64_T, all, rounds, MPI_INT64_T, MPI_COMM_WORLD));
        if (t == chk_rank) {
            const size_t total = n * (size_t) chk_np;
            unsigned char *seen = calloc(total, 1);
            for (size_t i = 0; i < total; i++) {
                if (all[i] < 0 || (size_t) all[i] >= total || 0 != seen[all[i]]++) {
                    chk_fail("ticket %lld drawn by peer %zu from rank %d is %s", (long long) all[i],
                             i / n, t,
                             all[i] < 0 || (size_t) all[i] >= total ? "out of range" : "a double");
                    break;
                }
            }
            free(seen);
        }
    }
    chk_result("%s: %s hands each ticket out once", kind_name[kind],
               get_accumulate ? "Get_accumulate" : "Fetch_and_op");
    free(mine);
    free(all);
    window_free(&w);
}

/* Increments by compare-and-swap loops, and the same by Get and Put under an exclusive lock. */
static void test_counters(kind_t kind)
{
    window_t w = window_new(kind, 64);
    const int target = chk_np - 1;
    const int steps = rounds / 4 + 1;
    chk_phase("%s: compare and swap", kind_name[kind]);
    CHK(MPI_Win_lock_all(0, w.win));
    for (int i = 0; i < steps; i++) {
        int64_t old = 0;
        int64_t seen = 0;
        do {
            const int64_t next = seen + 1;
            old = seen;
            CHK(MPI_Compare_and_swap(&next, &old, &seen, MPI_INT64_T, target, at(&w, target, 0),
                                     w.win));
            CHK(MPI_Win_flush(target, w.win));
        } while (seen != old);
    }
    CHK(MPI_Win_unlock_all(w.win));
    CHK(MPI_Barrier(MPI_COMM_WORLD));

    chk_phase("%s: exclusive lock", kind_name[kind]);
    for (int i = 0; i < steps; i++) {
        int64_t v = -1;
        CHK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w.win));
        CHK(MPI_Get(&v, 1, MPI_INT64_T, target, at(&w, target, 16), 1, MPI_INT64_T, w.win));
        CHK(MPI_Win_flush(target, w.win));
        v++;
        CHK(MPI_Put(&v, 1, MPI_INT64_T, target, at(&w, target, 16), 1, MPI_INT64_T, w.win));
        CHK(MPI_Win_unlock(target, w.win));
    }
    CHK(MPI_Barrier(MPI_COMM_WORLD));
    if (chk_rank == target) {
        own_begin(&w);
        for (size_t i = 0; i <= 2; i += 2) {
            if (*word(&w, i) != (int64_t) steps * chk_np) {
                chk_fail("counter %zu (%s): expected %lld got %lld", i,
                         0 == i ? "Compare_and_swap" : "exclusive lock", (long long) steps * chk_np,
                         (long long) *word(&w, i));
            }
        }
        own_end(&w);
    }
    CHK(MPI_Barrier(MPI_COMM_WORLD));
    chk_result("%s: Compare_and_swap and exclusive locks lose no step", kind_name[kind]);
    window_free(&w);
}

/* Fetch and replace: what is read is either the first value or what another rank wrote, whole. */
static void test_replace(kind_t kind)
{
    enum { N = 200 };
    window_t w = window_new(kind, 8 * N);
    int64_t in[N];
    int64_t out[N];
    chk_phase("%s: Get_accumulate", kind_name[kind]);
    for (int round = 0; round < rounds / 8 + 1; round++) {
        for (int i = 0; i < N; i++) {
            in[i] = (int64_t) (chk_rank + 1) * 1000000 + round;
        }
        CHK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win));
        CHK(MPI_Get_accumulate(in, N, MPI_INT64_T, out, N, MPI_INT64_T, 0, at(&w, 0, 0), N,
                               MPI_INT64_T, MPI_REPLACE, w.win));
        CHK(MPI_Win_unlock(0, w.win));
        for (int i = 1; i < N; i++) {
            if (out[i] != out[0]) {
                chk_fail("Get_accumulate under an exclusive lock: word %d is %lld, word 0 is %lld",
                         i, (long long) out[i], (long long) out[0]);
                break;
            }
        }
        CHK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win));
        CHK(MPI_Get_accumulate(NULL, 0, MPI_INT64_T, out, N, MPI_INT64_T, 0, at(&w, 0, 0), N,
                               MPI_INT64_T, MPI_NO_OP, w.win));
        CHK(MPI_Win_unlock(0, w.win));
        if (out[0] < 1000000 || out[0] >= (int64_t) (chk_np + 1) * 1000000) {
            chk_fail("Get_accumulate with NO_OP read %lld that nobody wrote", (long long) out[0]);
        }
    }
    CHK(MPI_Barrier(MPI_COMM_WORLD));
    chk_result("%s: Get_accumulate with REPLACE and NO_OP sees whole values", kind_name[kind]);
    window_free(&w);
}

static void test_shared_query(void)
{
    window_t w = window_new(SHARED, 4096);
    const chk_msg_t mine = {chk_rank, 902, 1, 4096};
    chk_phase("shared query");
    CHK(MPI_Win_lock_all(MPI_MODE_NOCHECK, w.win));
    chk_fill(&mine, 0, w.base, 4096);
    CHK(MPI_Win_sync(w.win));
    CHK(MPI_Barrier(MPI_COMM_WORLD));
    CHK(MPI_Win_sync(w.win));
    for (int t = 0; t < chk_np; t++) {
        MPI_Aint size;
        int unit;
        unsigned char *p;
        const chk_msg_t m = {t, 902, 1, 4096};
        CHK(MPI_Win_shared_query(w.win, t, &size, &unit, &p));
        chk_verify(&m, 0, p, 4096);
    }
    CHK(MPI_Win_unlock_all(w.win));
    CHK(MPI_Barrier(MPI_COMM_WORLD));
    chk_result("Win_allocate_shared: every rank reads every other's memory");
    window_free(&w);
}

int main(int argc, char **argv)
{
    chk_init(argc, argv, MPI_THREAD_SINGLE);
    const char *list = chk_opt("windows", "create,allocate,shared,dynamic");
    static const char *const word_of[KINDS] = {"create", "allocate", "shared", "dynamic"};
    size_t n;
    max_size = chk_opt_u64("max", chk_long ? 4u << 20 : 300000);
    rounds = (int) chk_opt_u64("rounds", chk_long ? 2000 : 100);
    const size_t *sizes = chk_sizes(max_size, &n);
    right = (chk_rank + 1) % chk_np;
    left = (chk_rank + chk_np - 1) % chk_np;
    for (int k = 0; k < KINDS; k++) {
        const kind_t kind = (kind_t) k;
        if (NULL == strstr(list, word_of[k])) {
            continue;
        }
        test_put_get(kind, sizes, n);
        test_many(kind);
        test_types(kind);
        test_accumulate(kind);
        test_tickets(kind, false);
        test_tickets(kind, true);
        test_counters(kind);
        test_replace(kind);
    }
    if (NULL != strstr(list, "shared")) {
        test_shared_query();
    }
    return chk_done();
}

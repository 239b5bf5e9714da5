/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * Collectives, blocking, nonblocking and persistent, with the v-variants, random counts and roots,
 * on the whole job, on parts of it and in place. Data movers carry byte patterns; reductions carry
 * integers whose result is computed here.
 *
 * Options: --rounds=N, --max=SIZE largest block in bytes.
 */
#include "mpi_check.h"

static MPI_Comm comm;
static int me;
static int np;
static chk_rng_t shared; /* drawn alike on all ranks of the communicator */
static uint64_t seq;
static size_t max_block;

/* The pattern of the block that a sends to b in this collective. */
static chk_msg_t block(int a, int b, size_t size)
{
    return (chk_msg_t) {.src = a, .tag = 1000 + b, .seq = seq, .size = size};
}

static void fill(unsigned char *p, int a, int b, size_t size)
{
    const chk_msg_t m = block(a, b, size);
    chk_fill(&m, 0, p, size);
}

static void want(const unsigned char *p, int a, int b, size_t size)
{
    const chk_msg_t m = block(a, b, size);
    chk_verify(&m, 0, p, size);
}

static size_t draw_block(void)
{
    return chk_rand_size(&shared, max_block);
}

/* Run a collective as a call (form 0, by its name) or as a request (form 1, by its I-name). */
#define RUN(form, name, iname, ...)                  \
    do {                                             \
        if (1 == (form)) {                           \
            MPI_Request req_;                        \
            CHK(MPI_I##iname(__VA_ARGS__, &req_));   \
            CHK(MPI_Wait(&req_, MPI_STATUS_IGNORE)); \
        } else {                                     \
            CHK(MPI_##name(__VA_ARGS__));            \
        }                                            \
    } while (0)

static void test_bcast(int form)
{
    const size_t n = draw_block();
    const int root = (int) chk_below(&shared, (uint64_t) np);
    chk_buf_t b = chk_buf_new(n);
    chk_arm(b.p, n);
    if (me == root) {
        fill(b.p, root, -1, n);
    }
    RUN(form, Bcast, bcast, b.p, (int) n, MPI_BYTE, root, comm);
    const chk_msg_t m = block(root, -1, n);
    chk_received(&m, b.p, n, n);
    chk_buf_free(&b);
}

/* Counts for the v-variants: a different block for each rank, some empty, with gaps between. */
static size_t draw_counts(int *counts, int *displs, bool equal)
{
    size_t at = 0;
    const size_t same = draw_block();
    for (int i = 0; i < np; i++) {
        const size_t n = equal ? same : (0 == chk_below(&shared, 4) ? 0 : draw_block());
        counts[i] = (int) n;
        displs[i] = (int) at;
        at += n + (equal ? 0 : chk_below(&shared, 9));
    }
    return at;
}

static void test_gather_scatter(int form, bool v)
{
    int *counts = calloc((size_t) np, sizeof(int));
    int *displs = calloc((size_t) np, sizeof(int));
    const size_t span = draw_counts(counts, displs, !v);
    const int root = (int) chk_below(&shared, (uint64_t) np);
    const size_t mine = (size_t) counts[me];
    chk_buf_t all = chk_buf_new(span);
    chk_buf_t one = chk_buf_new(mine);

    fill(one.p, me, 0, mine);
    chk_arm(all.p, span);
    if (v) {
        RUN(form, Gatherv, gatherv, one.p, (int) mine, MPI_BYTE, all.p, counts, displs, MPI_BYTE,
            root, comm);
    } else {
        RUN(form, Gather, gather, one.p, (int) mine, MPI_BYTE, all.p, (int) mine, MPI_BYTE, root,
            comm);
    }
    for (int i = 0; me == root && i < np; i++) {
        want(all.p + displs[i], i, 0, (size_t) counts[i]);
    }

    if (v) {
        RUN(form, Allgatherv, allgatherv, one.p, (int) mine, MPI_BYTE, all.p, counts, displs,
            MPI_BYTE, comm);
    } else {
        RUN(form, Allgather, allgather, one.p, (int) mine, MPI_BYTE, all.p, (int) mine, MPI_BYTE,
            comm);
    }
    for (int i = 0; i < np; i++) {
        want(all.p + displs[i], i, 0, (size_t) counts[i]);
    }
    const chk_msg_t m = block(-1, 0, span);
    chk_guards(&m, all.p, span);

    /* back again: the root's array holds a pattern for each rank */
    for (int i = 0; me == root && i < np; i++) {
        fill(all.p + displs[i], root, 100 + i, (size_t) counts[i]);
    }
    chk_arm(one.p, mine);
    if (v) {
        RUN(form, Scatterv, scatterv, all.p, counts, displs, MPI_BYTE, one.p, (int) mine, MPI_BYTE,
            root, comm);
    } else {
        RUN(form, Scatter, scatter, all.p, (int) mine, MPI_BYTE, one.p, (int) mine, MPI_BYTE, root,
            comm);
    }
    want(one.p, root, 100 + me, mine);

    /* in place: my block is already where it must be */
    chk_arm(all.p, span);
    fill(all.p + displs[me], me, 0, mine);
    if (v) {
        RUN(form, Allgatherv, allgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.p, counts, displs,
            MPI_BYTE, comm);
    } else {
        RUN(form, Allgather, allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.p, (int) mine,
            MPI_BYTE, comm);
    }
    for (int i = 0; i < np; i++) {
        want(all.p + displs[i], i, 0, (size_t) counts[i]);
    }
    chk_buf_free(&all);
    chk_buf_free(&one);
    free(counts);
    free(displs);
}

/* A matrix of counts that all ranks know; kind 0 Alltoall, 1 Alltoallv, 2 Alltoallw. */
static void test_alltoall(int form, int kind)
{
    const size_t same = draw_block();
    int *sc = calloc((size_t) np, sizeof(int));
    int *rc = calloc((size_t) np, sizeof(int));
    int *sd = calloc((size_t) np, sizeof(int));
    int *rd = calloc((size_t) np, sizeof(int));
    MPI_Datatype *types = calloc((size_t) np, sizeof(*types));
    size_t sspan = 0;
    size_t rspan = 0;
    for (int a = 0; a < np; a++) {
        for (int b = 0; b < np; b++) {
            const size_t n = 0 == kind ? same : (0 == chk_below(&shared, 5) ? 0 : draw_block());
            if (a == me) {
                sc[b] = (int) n;
                sd[b] = (int) sspan;
                sspan += n + (0 == kind ? 0 : 3);
            }
            if (b == me) {
                rc[a] = (int) n;
                rd[a] = (int) rspan;
                rspan += n + (0 == kind ? 0 : 5);
            }
        }
        types[a] = MPI_BYTE;
    }
    chk_buf_t s = chk_buf_new(sspan);
    chk_buf_t r = chk_buf_new(rspan);
    chk_arm(r.p, rspan);
    for (int b = 0; b < np; b++) {
        fill(s.p + sd[b], me, b, (size_t) sc[b]);
    }
    if (0 == kind) {
        RUN(form, Alltoall, alltoall, s.p, (int) same, MPI_BYTE, r.p, (int) same, MPI_BYTE, comm);
    } else if (1 == kind) {
        RUN(form, Alltoallv, alltoallv, s.p, sc, sd, MPI_BYTE, r.p, rc, rd, MPI_BYTE, comm);
    } else {
        RUN(form, Alltoallw, alltoallw, s.p, sc, sd, types, r.p, rc, rd, types, comm);
    }
    for (int a = 0; a < np; a++) {
        want(r.p + rd[a], a, me, (size_t) rc[a]);
    }
    const chk_msg_t m = block(-1, me, rspan);
    chk_guards(&m, r.p, rspan);
    if (0 == kind && 0 == form) {
        for (int b = 0; b < np; b++) {
            fill(r.p + (size_t) b * same, me, b, same);
        }
        CHK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, r.p, (int) same, MPI_BYTE, comm));
        for (int a = 0; a < np; a++) {
            want(r.p + (size_t) a * same, a, me, same);
        }
    }
    chk_buf_free(&s);
    chk_buf_free(&r);
    free(sc);
    free(rc);
    free(sd);
    free(rd);
    free(types);
}

/* ---- reductions --------------------------------------------------------------------------- */

static int64_t value(int rank, size_t i)
{
    return (int64_t) ((seq * 1000003 + (uint64_t) rank * 7919 + i * 31) % 1000000);
}

/* A product that does not commute: x then y is x*3 + y*5 modulo a prime would lose order; affine
 * maps (a, b) composed left to right do not. Two 32-bit halves in one 64-bit word, modulo 65521. */
static uint64_t compose(uint64_t x, uint64_t y)
{
    const uint64_t p = 65521;
    const uint64_t a = (x >> 32) * (y >> 32) % p;
    const uint64_t b = ((x & 0xffffffff) * (y >> 32) + (y & 0xffffffff)) % p;
    return a << 32 | b;
}

static void compose_op(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void) type;
    for (int i = 0; i < *len; i++) {
        uint64_t x;
        uint64_t y;
        memcpy(&x, (char *) in + 8 * i, 8);
        memcpy(&y, (char *) inout + 8 * i, 8);
        y = compose(x, y);
        memcpy((char *) inout + 8 * i, &y, 8);
    }
}

static uint64_t affine(int rank, size_t i)
{
    const uint64_t v = (uint64_t) value(rank, i);
    return (1 + v % 65520) << 32 | v / 7 % 65521;
}

enum { SUM, MAX, BXOR, COMPOSE, OPS };

static uint64_t operand(int op, int rank, size_t i)
{
    return COMPOSE == op ? affine(rank, i) : (uint64_t) value(rank, i);
}

static uint64_t combined(int op, int first, int last, size_t i)
{
    uint64_t r = operand(op, first, i);
    for (int k = first + 1; k <= last; k++) {
        const uint64_t v = operand(op, k, i);
        switch (op) {
        case SUM:
            r += v;
            break;
        case MAX:
            r = (int64_t) v > (int64_t) r ? v : r;
            break;
        case BXOR:
            r ^= v;
            break;
        default:
            r = compose(r, v);
            break;
        }
    }
    return r;
}

static void check_words(const char *what, const uint64_t *got, size_t n, int op, int first,
                        int last, size_t offset)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t w = combined(op, first, last, offset + i);
        if (w != got[i]) {
            chk_fail("%s of ranks %d to %d, %zu words: word %zu expected %llu got %llu", what,
                     first, last, n, i, (unsigned long long) w, (unsigned long long) got[i]);
            return;
        }
    }
}

static void test_reductions(int form, int op)
{
    static MPI_Op user = MPI_OP_NULL;
    if (MPI_OP_NULL == user) {
        CHK(MPI_Op_create(compose_op, 0, &user));
    }
    const MPI_Op ops[OPS] = {MPI_SUM, MPI_MAX, MPI_BXOR, user};
    const size_t n = draw_block() / 8;
    const int root = (int) chk_below(&shared, (uint64_t) np);
    int *counts = calloc((size_t) np, sizeof(int));
    size_t at = 0;
    size_t before = 0;
    for (int i = 0; i < np; i++) {
        counts[i] = i + 1 < np ? (int) chk_below(&shared, n - at + 1) : (int) (n - at);
        before += i < me ? (size_t) counts[i] : 0;
        at += (size_t) counts[i];
    }
    chk_buf_t s = chk_buf_new(8 * n);
    chk_buf_t r = chk_buf_new(8 * n);
    uint64_t *sw = (uint64_t *) s.p;
    uint64_t *rw = (uint64_t *) r.p;
    for (size_t i = 0; i < n; i++) {
        sw[i] = operand(op, me, i);
    }
    const int words = (int) n;
    RUN(form, Reduce, reduce, sw, rw, words, MPI_INT64_T, ops[op], root, comm);
    if (me == root) {
        check_words("reduce", rw, n, op, 0, np - 1, 0);
    }
    RUN(form, Allreduce, allreduce, sw, rw, words, MPI_INT64_T, ops[op], comm);
    check_words("allreduce", rw, n, op, 0, np - 1, 0);
    memcpy(rw, sw, 8 * n);
    RUN(form, Allreduce, allreduce, MPI_IN_PLACE, rw, words, MPI_INT64_T, ops[op], comm);
    check_words("allreduce in place", rw, n, op, 0, np - 1, 0);
    RUN(form, Scan, scan, sw, rw, words, MPI_INT64_T, ops[op], comm);
    check_words("scan", rw, n, op, 0, me, 0);
    RUN(form, Exscan, exscan, sw, rw, words, MPI_INT64_T, ops[op], comm);
    if (me > 0) {
        check_words("exscan", rw, n, op, 0, me - 1, 0);
    }
    RUN(form, Reduce_scatter, reduce_scatter, sw, rw, counts, MPI_INT64_T, ops[op], comm);
    check_words("reduce_scatter", rw, (size_t) counts[me], op, 0, np - 1, before);
    const size_t share = n / (size_t) np;
    RUN(form, Reduce_scatter_block, reduce_scatter_block, sw, rw, (int) share, MPI_INT64_T, ops[op],
        comm);
    check_words("reduce_scatter_block", rw, share, op, 0, np - 1, (size_t) me * share);
    chk_buf_free(&s);
    chk_buf_free(&r);
    free(counts);
}

static void test_barrier(int form)
{
    /* Nobody leaves before the last has come: the late rank's clock tells. */
    const int late = (int) chk_below(&shared, (uint64_t) np);
    double came = 0;
    if (me == late) {
        chk_sleep_ms(5);
        came = chk_now();
    }
    if (1 == form) {
        MPI_Request req;
        CHK(MPI_Ibarrier(comm, &req));
        CHK(MPI_Wait(&req, MPI_STATUS_IGNORE));
    } else {
        CHK(MPI_Barrier(comm));
    }
    const double left = chk_now();
    CHK(MPI_Bcast(&came, 1, MPI_DOUBLE, late, comm));
    if (left < came) {
        chk_fail("rank %d left the barrier %g s before rank %d came", me, came - left, late);
    }
}

/* Several nonblocking collectives of different kinds in flight at once, completed in any order. */
static void test_outstanding(void)
{
    enum { N = 6 };
    MPI_Request req[N];
    chk_buf_t b[N];
    chk_buf_t all[N];
    size_t n[N];
    uint64_t first = seq;
    for (int k = 0; k < N; k++) {
        n[k] = draw_block() / 4;
        seq = first + (uint64_t) k;
        b[k] = chk_buf_new(n[k]);
        all[k] = chk_buf_new(n[k] * (size_t) np);
        fill(b[k].p, 0 == k % 2 ? k % np : me, 0, n[k]);
        if (0 == k % 2) {
            if (me != k % np) {
                chk_arm(b[k].p, n[k]);
            }
            CHK(MPI_Ibcast(b[k].p, (int) n[k], MPI_BYTE, k % np, comm, &req[k]));
        } else {
            chk_arm(all[k].p, n[k] * (size_t) np);
            CHK(MPI_Iallgather(b[k].p, (int) n[k], MPI_BYTE, all[k].p, (int) n[k], MPI_BYTE, comm,
                               &req[k]));
        }
    }
    for (int left = N; left > 0; left--) {
        int k;
        CHK(MPI_Waitany(N, req, &k, MPI_STATUS_IGNORE));
        seq = first + (uint64_t) k;
        if (0 == k % 2) {
            want(b[k].p, k % np, 0, n[k]);
        } else {
            for (int i = 0; i < np; i++) {
                want(all[k].p + (size_t) i * n[k], i, 0, n[k]);
            }
        }
    }
    for (int k = 0; k < N; k++) {
        chk_buf_free(&b[k]);
        chk_buf_free(&all[k]);
    }
    seq = first + N;
}

static void test_neighbors(int form)
{
    MPI_Comm ring;
    if (np < 3) {
        /* Both neighbours are one rank then, and which block is which is told differently by the
         * blocking and the nonblocking form of the library: no matter of the transport. */
        return;
    }
    int dims = np;
    int periods = 1;
    const size_t n = draw_block();
    chk_buf_t s = chk_buf_new(2 * n);
    chk_buf_t r = chk_buf_new(2 * n);
    const int next = (me + 1) % np;
    const int prev = (me + np - 1) % np;
    CHK(MPI_Cart_create(comm, 1, &dims, &periods, 0, &ring));
    fill(s.p, me, 10, n);
    fill(s.p + n, me, 11, n);
    chk_arm(r.p, 2 * n);
    RUN(form, Neighbor_alltoall, neighbor_alltoall, s.p, (int) n, MPI_BYTE, r.p, (int) n, MPI_BYTE,
        ring);
    /* first what the previous rank sent to its right, then what the next one sent to its left */
    want(r.p, prev, 11, n);
    want(r.p + n, next, 10, n);
    CHK(MPI_Comm_free(&ring));
    chk_buf_free(&s);
    chk_buf_free(&r);
}

#if CHK_MPI4
static void test_persistent(void)
{
    const size_t n = draw_block() / 8;
    chk_buf_t s = chk_buf_new(8 * n);
    chk_buf_t r = chk_buf_new(8 * n);
    MPI_Request req;
    CHK(MPI_Allreduce_init(s.p, r.p, (int) n, MPI_INT64_T, MPI_SUM, comm, MPI_INFO_NULL, &req));
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < n; i++) {
            ((uint64_t *) s.p)[i] = operand(SUM, me, i);
        }
        CHK(MPI_Start(&req));
        CHK(MPI_Wait(&req, MPI_STATUS_IGNORE));
        check_words("persistent allreduce", (uint64_t *) r.p, n, SUM, 0, np - 1, 0);
        seq++;
    }
    CHK(MPI_Request_free(&req));
    chk_buf_free(&s);
    chk_buf_free(&r);
}
#endif

static void all_kinds(const char *where, int rounds)
{
    for (int k = 0; k < rounds; k++) {
        const int form = k % 2;
        /* every fifth round large, else small: latency-bound and bandwidth-bound algorithms */
        const size_t keep = max_block;
        max_block = 0 == k % 5 ? keep : (keep < 6000 ? keep : 6000);
        chk_phase("%s: round %d", where, k);
        test_barrier(form);
        seq++;
        chk_phase("%s: bcast round %d", where, k);
        test_bcast(form);
        seq++;
        chk_phase("%s: gather, allgather, scatter round %d", where, k);
        test_gather_scatter(form, false);
        seq++;
        chk_phase("%s: gatherv, allgatherv, scatterv round %d", where, k);
        test_gather_scatter(form, true);
        seq++;
        for (int kind = 0; kind < 3; kind++) {
            chk_phase("%s: alltoall kind %d round %d", where, kind, k);
            test_alltoall(form, kind);
            seq++;
        }
        for (int op = 0; op < OPS; op++) {
            chk_phase("%s: reductions op %d round %d", where, op, k);
            test_reductions(form, op);
            seq++;
        }
        chk_phase("%s: nonblocking in flight, round %d", where, k);
        test_outstanding();
        seq++;
        chk_phase("%s: neighbours round %d", where, k);
        test_neighbors(form);
        seq++;
#if CHK_MPI4
        test_persistent();
#endif
        max_block = keep;
    }
    chk_result("%s: barrier to alltoallw, reductions, blocking and nonblocking, %d rounds", where,
               rounds);
}

static void on(MPI_Comm c, const char *where, int rounds, uint64_t salt)
{
    comm = c;
    CHK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    CHK(MPI_Comm_rank(comm, &me));
    CHK(MPI_Comm_size(comm, &np));
    shared = chk_rng(21, salt, 0);
    seq = salt << 32;
    all_kinds(where, rounds);
}

int main(int argc, char **argv)
{
    MPI_Comm c;
    chk_init(argc, argv, MPI_THREAD_SINGLE);
    const int rounds = (int) chk_opt_u64("rounds", chk_long ? 200 : 10);
    max_block = chk_opt_u64("max", chk_long ? 1u << 20 : 200000);
    on(MPI_COMM_WORLD, "all ranks", rounds, 1);
    CHK(MPI_Comm_split(MPI_COMM_WORLD, 0, -chk_rank, &c));
    on(c, "ranks reversed", rounds / 2, 2);
    CHK(MPI_Comm_free(&c));
    CHK(MPI_Comm_split(MPI_COMM_WORLD, chk_rank % 2, 0, &c));
    on(c, "odd and even halves at once", rounds / 2, 3 + (uint64_t) (chk_rank % 2));
    CHK(MPI_Comm_free(&c));
    on(MPI_COMM_SELF, "one rank alone", 2, 5);
    return chk_done();
}

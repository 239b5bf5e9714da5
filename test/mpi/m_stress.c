/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * Random messages: sizes, tags, sources, communicators, datatypes, ways to send, to receive and to
 * complete. All ranks draw the same plan of a round from the shared seed, so each knows what must
 * arrive; the bytes tell which message came. Matching order is checked for wildcards too: the
 * receives of one (communicator, receiver), taken in the order in which they were posted, must get
 * the messages of each (source, tag) in the order in which they were sent.
 *
 * Options: --messages=N over all ranks, --max=SIZE, --seconds=N instead of a number.
 */
#include "mpi_check.h"

#define COMMS 4
#define TAGS  5
#define ROUND 64

typedef enum { EXACT, ANY_SRC, ANY_TAG, ANY_BOTH, PROBE, POLICIES } policy_t;

/* One planned message; ranks are those of MPI_COMM_WORLD, all communicators have its members. */
typedef struct plan_t {
    int src;
    int dst;
    int tag;
    int comm;
    int mode;
    size_t size;
    uint64_t layout; /* seeds of both sides' layouts */
} plan_t;

/* One receive of this rank. */
typedef struct recv_t {
    chk_layout_t layout;
    chk_buf_t buf;
    MPI_Request req;
    MPI_Status st;
    int comm;
} recv_t;

static MPI_Comm comms[COMMS];
static int to_comm[COMMS][1024];  /* world rank -> rank there */
static int to_world[COMMS][1024]; /* and back */
static uint64_t total_messages;
static uint64_t total_bytes;

static void make_comms(void)
{
    int *world = malloc((size_t) chk_np * sizeof(*world));
    CHK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]));
    CHK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
    CHK(MPI_Comm_split(MPI_COMM_WORLD, 0, -chk_rank, &comms[2])); /* ranks reversed */
    CHK(MPI_Comm_split(MPI_COMM_WORLD, 0, (chk_rank + 1) % chk_np, &comms[3]));
    for (int c = 0; c < COMMS; c++) {
        int mine = chk_rank;
        CHK(MPI_Comm_set_errhandler(comms[c], MPI_ERRORS_RETURN));
        CHK(MPI_Allgather(&mine, 1, MPI_INT, world, 1, MPI_INT, comms[c]));
        for (int i = 0; i < chk_np; i++) {
            to_world[c][i] = world[i];
            to_comm[c][world[i]] = i;
        }
    }
    free(world);
}

static size_t draw_size(chk_rng_t *rng, size_t max)
{
    /* mostly small, as in real programs and as the rings like least; sometimes everything */
    switch (chk_below(rng, 8)) {
    case 0:
        return chk_rand_size(rng, max);
    case 1:
    case 2:
        return chk_rand_size(rng, max < 131072 ? max : 131072);
    default:
        return chk_rand_size(rng, max < 8192 ? max : 8192);
    }
}

static void draw_plan(uint64_t round, plan_t *plan, policy_t policy[COMMS][1024], size_t max)
{
    chk_rng_t rng = chk_rng(11, round, 0);
    for (int c = 0; c < COMMS; c++) {
        for (int r = 0; r < chk_np; r++) {
            policy[c][r] = (policy_t) chk_below(&rng, POLICIES);
        }
    }
    for (int i = 0; i < ROUND; i++) {
        plan_t *p = &plan[i];
        p->src = (int) chk_below(&rng, (uint64_t) chk_np);
        p->dst = (int) chk_below(&rng, (uint64_t) chk_np);
        p->tag = 100 + (int) chk_below(&rng, TAGS);
        p->comm = (int) chk_below(&rng, COMMS);
        p->mode = (int) chk_below(&rng, 4);
        p->size = draw_size(&rng, max);
        p->layout = chk_next(&rng);
    }
}

/* The number that makes the pattern of plan[i] unique. */
static uint64_t seq_of(uint64_t round, int i)
{
    return round * ROUND + (uint64_t) i;
}

static void post_send(const plan_t *p, uint64_t seq, chk_layout_t *l, chk_buf_t *buf,
                      MPI_Request *req)
{
    const chk_msg_t m = {p->src, p->tag, seq, p->size};
    const int dst = to_comm[p->comm][p->dst];
    chk_rng_t rng = {p->layout};
    *l = chk_layout_random(&rng, p->size);
    *buf = chk_buf_new(chk_layout_span(l));
    chk_layout_fill(l, buf->p, &m);
    void *base = chk_layout_base(l, buf->p);
    if (0 == p->mode) {
        CHK(MPI_Issend(base, l->count, l->type, dst, p->tag, comms[p->comm], req));
    } else {
        CHK(MPI_Isend(base, l->count, l->type, dst, p->tag, comms[p->comm], req));
    }
}

/* A receive that can take any message its wildcards may bring: largest of the round, in bytes. */
static void post_recv(const plan_t *p, policy_t policy, size_t largest, recv_t *r)
{
    const bool any_src = ANY_SRC == policy || ANY_BOTH == policy;
    const bool any_tag = ANY_TAG == policy || ANY_BOTH == policy;
    chk_rng_t rng = {p->layout ^ 0x5555};
    r->layout = EXACT == policy ? chk_layout_random(&rng, p->size) : chk_layout_bytes(largest);
    r->buf = chk_buf_new(chk_layout_span(&r->layout));
    r->comm = p->comm;
    chk_arm(r->buf.p, chk_layout_span(&r->layout));
    CHK(MPI_Irecv(chk_layout_base(&r->layout, r->buf.p), r->layout.count, r->layout.type,
                  any_src ? MPI_ANY_SOURCE : to_comm[p->comm][p->src],
                  any_tag ? MPI_ANY_TAG : p->tag, comms[p->comm], &r->req));
}

/* Matched probe with both wildcards: size the buffer by what is there, then take it. */
static bool probe_recv(int c, recv_t *r)
{
    MPI_Message msg;
    MPI_Status st;
    MPI_Count n = 0;
    int flag = 0;
    CHK(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[c], &flag, &msg, &st));
    if (!flag) {
        return false;
    }
    CHK(MPI_Get_elements_x(&st, MPI_BYTE, &n));
    r->layout = chk_layout_bytes((size_t) n);
    r->buf = chk_buf_new((size_t) n);
    r->comm = c;
    chk_arm(r->buf.p, (size_t) n);
    CHK(MPI_Imrecv(r->buf.p, (int) n, MPI_BYTE, &msg, &r->req));
    return true;
}

/* Find the plan's message that this receive must have got: the first unclaimed of source and tag.
 * */
static int claim(const plan_t *plan, bool *claimed, const recv_t *r)
{
    if (r->st.MPI_SOURCE < 0 || r->st.MPI_SOURCE >= chk_np) {
        return -1;
    }
    const int src = to_world[r->comm][r->st.MPI_SOURCE];
    for (int i = 0; i < ROUND; i++) {
        const plan_t *p = &plan[i];
        if (!claimed[i] && p->dst == chk_rank && p->comm == r->comm && p->src == src
            && p->tag == r->st.MPI_TAG) {
            claimed[i] = true;
            return i;
        }
    }
    return -1;
}

static void verify_round(uint64_t round, const plan_t *plan, recv_t *recvs, int n)
{
    bool claimed[ROUND] = {false};
    for (int k = 0; k < n; k++) {
        recv_t *r = &recvs[k];
        const int i = claim(plan, claimed, r);
        if (i < 0) {
            chk_fail("round %llu: a message from peer %d tag %d that nobody sent",
                     (unsigned long long) round, r->st.MPI_SOURCE, r->st.MPI_TAG);
            continue;
        }
        const plan_t *p = &plan[i];
        const chk_msg_t m = {p->src, p->tag, seq_of(round, i), p->size};
        MPI_Count got = -1;
        CHK(MPI_Get_elements_x(&r->st, MPI_BYTE, &got));
        if (got != (MPI_Count) p->size) {
            chk_fail("round %llu message %d from peer %d tag %d: expected %zu bytes got %lld",
                     (unsigned long long) round, i, p->src, p->tag, p->size, (long long) got);
            continue;
        }
        chk_layout_verify(&r->layout, r->buf.p, &m, p->size);
        total_messages++;
        total_bytes += p->size;
    }
}

/* Complete everything in a random way; probes run in between, since nobody else serves them. */
static void complete(MPI_Request *sreq, int nsend, recv_t *recvs, int *nrecv,
                     const int *probes_left_in, chk_rng_t *rng)
{
    int probes_left[COMMS];
    int open = 0;
    memcpy(probes_left, probes_left_in, sizeof(probes_left));
    for (int c = 0; c < COMMS; c++) {
        open += probes_left[c];
    }
    while (open > 0) {
        for (int c = 0; c < COMMS; c++) {
            if (probes_left[c] > 0 && probe_recv(c, &recvs[*nrecv])) {
                (*nrecv)++;
                probes_left[c]--;
                open--;
            }
        }
    }
    const bool slow = 0 == chk_below(rng, 4);
    for (int k = 0; k < *nrecv; k++) {
        if (slow) {
            int flag = 0;
            while (!flag) {
                CHK(MPI_Test(&recvs[k].req, &flag, &recvs[k].st));
            }
        } else {
            CHK(MPI_Wait(&recvs[k].req, &recvs[k].st));
        }
    }
    int remaining = nsend;
    while (remaining > 0) {
        int idx[ROUND];
        int done = 0;
        if (slow) {
            CHK(MPI_Testsome(nsend, sreq, &done, idx, MPI_STATUSES_IGNORE));
        } else {
            CHK(MPI_Waitsome(nsend, sreq, &done, idx, MPI_STATUSES_IGNORE));
        }
        if (MPI_UNDEFINED == done) {
            break;
        }
        remaining -= done;
    }
}

static void run_round(uint64_t round, size_t max)
{
    static plan_t plan[ROUND];
    static policy_t policy[COMMS][1024];
    static chk_layout_t slayout[ROUND];
    static chk_buf_t sbuf[ROUND];
    static recv_t recvs[ROUND];
    MPI_Request sreq[ROUND];
    int nsend = 0;
    int nrecv = 0;
    int probes[COMMS] = {0};
    size_t largest = 0;
    chk_rng_t own = chk_rng(12, round, (uint64_t) chk_rank);

    /* Without this a wildcard of a slow rank could take a message of a fast rank's next round. */
    chk_phase("barrier before round %llu", (unsigned long long) round);
    CHK(MPI_Barrier(MPI_COMM_WORLD));
    chk_phase("round %llu", (unsigned long long) round);
    /* most rounds are small so that wildcards need no large buffers */
    draw_plan(round, plan, policy, 0 == round % 4 ? max : (max < 65536 ? max : 65536));
    for (int i = 0; i < ROUND; i++) {
        largest = plan[i].size > largest ? plan[i].size : largest;
    }
    /* Sends and receives each keep the plan's order; which goes first is drawn per rank. */
    int s = 0;
    int r = 0;
    while (s < ROUND || r < ROUND) {
        const bool send_now = r >= ROUND || (s < ROUND && 0 == chk_below(&own, 2));
        if (send_now) {
            const plan_t *p = &plan[s];
            if (p->src == chk_rank) {
                post_send(p, seq_of(round, s), &slayout[nsend], &sbuf[nsend], &sreq[nsend]);
                nsend++;
            }
            s++;
        } else {
            const plan_t *p = &plan[r];
            if (p->dst == chk_rank) {
                if (PROBE == policy[p->comm][chk_rank]) {
                    probes[p->comm]++;
                } else {
                    post_recv(p, policy[p->comm][chk_rank], largest, &recvs[nrecv++]);
                }
            }
            r++;
        }
    }
    complete(sreq, nsend, recvs, &nrecv, probes, &own);
    verify_round(round, plan, recvs, nrecv);
    for (int k = 0; k < nsend; k++) {
        chk_layout_free(&slayout[k]);
        chk_buf_free(&sbuf[k]);
    }
    for (int k = 0; k < nrecv; k++) {
        chk_layout_free(&recvs[k].layout);
        chk_buf_free(&recvs[k].buf);
    }
}

int main(int argc, char **argv)
{
    chk_init(argc, argv, MPI_THREAD_SINGLE);
    const size_t max = chk_opt_u64("max", chk_long ? 8u << 20 : 2u << 20);
    const uint64_t messages = chk_opt_u64("messages", chk_long ? 500000 : 3200);
    const double seconds = (double) chk_opt_u64("seconds", 0);
    const double start = chk_now();
    uint64_t rounds = messages / ROUND + 1;
    if (chk_np > 1024) {
        chk_skip_all("made for at most 1024 ranks");
    }
    make_comms();
    for (uint64_t round = 0; seconds > 0 || round < rounds; round++) {
        run_round(round, max);
        if (0 == (round + 1) % 100 || round + 1 == rounds) {
            int stop = seconds > 0 && chk_now() - start > seconds;
            CHK(MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD));
            if (seconds > 0) {
                chk_watchdog(120);
            }
            if (stop) {
                break;
            }
        }
    }
    uint64_t mine[2] = {total_messages, total_bytes};
    uint64_t all[2];
    CHK(MPI_Allreduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
    chk_result("%llu random messages, %llu MiB, every byte right and in order",
               (unsigned long long) all[0], (unsigned long long) (all[1] >> 20));
    for (int c = 0; c < COMMS; c++) {
        CHK(MPI_Comm_free(&comms[c]));
    }
    return chk_done();
}

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Stress of fast box, reference, doorbell and wake-up together: every actor sends to every other as
 * the transport does it, through a box that is handed out with the first message, moves to a larger
 * one after some, and lies in memory full of old bytes.
 *
 * Template; s_fbox_proc.c runs it with processes, s_fbox_thread.c with threads. Checked: each
 * message arrives once, in order, untorn; the counters begin next to the wrap of 64 bits; a record
 * was skipped at every line of the small ring at which that can happen; nobody sleeps through a
 * message.
 */
#include "s_actors.h"

#include "btl_sm_doorbell.h"
#include "btl_sm_fbox.h"
#include "btl_sm_wake.h"

enum {
    SMALL = 4096,
    LARGE = 16384,
    CELLS_AT = sizeof(struct btl_sm_segment_hdr),
    MAX_ACTORS = 8,
    BOXES_AT = (CELLS_AT + MAX_ACTORS * (int) sizeof(struct btl_sm_cell) + 4095) & ~4095,
    BOX_PAIR = SMALL + LARGE,
    SEGMENT_SIZE = BOXES_AT + MAX_ACTORS * BOX_PAIR,
    LEAST = 50,       /* messages of each pair, however slow the machine is */
    IDLE_SLEEP = 200, /* empty rounds before an actor sleeps */
};

typedef struct fbox_plan {
    uint64_t messages;     /* that each actor sends to each other */
    uint64_t switch_after; /* move to the large box after so many, 0 = stay */
    uint64_t start_lines;  /* lines before the wrap of the counters at which they begin */
} fbox_plan_t;

static struct btl_sm_segment_hdr *header_of(const actor_t *actor, int owner)
{
    return (struct btl_sm_segment_hdr *) (void *) (actor->segment + (size_t) owner * SEGMENT_SIZE);
}

static struct btl_sm_cell *cell_of(const actor_t *actor, int owner, int peer)
{
    return (struct btl_sm_cell *) (void *) ((unsigned char *) header_of(actor, owner) + CELLS_AT)
           + peer;
}

/** One direction, as its sender sees it. */
typedef struct outgoing {
    btl_sm_fbox_tx_t tx;
    uint64_t sent;
    bool over; /* the last record is sent */
} outgoing_t;

/** One direction, as its receiver sees it. */
typedef struct incoming {
    btl_sm_fbox_rx_t rx;
    uint64_t got;
    bool open, over;
    uint64_t
        skipped_at; /* bit n: a skip of n lines before the end of the small ring; bit 0: of half a line */
} incoming_t;

/** Lengths at and around every limit, and all others now and then. */
static size_t some_length(rng_t *rng, uint32_t size)
{
    const size_t most = btl_sm_fbox_max_payload(size);

    switch (rng_below(rng, 8)) {
    case 0:
        return rng_below(rng, most + 1);
    case 1:
        return most - rng_below(rng, 2);
    case 2:
        return rng_below(rng, most / BTL_SM_LINE) * BTL_SM_LINE + 55 + rng_below(rng, 3);
    case 3:
        return 0;
    default:
        return rng_below(rng, 160);
    }
}

static uint64_t name_of(int from, int to, uint64_t number)
{
    return ((uint64_t) from << 56) ^ ((uint64_t) to << 48) ^ number;
}

static uint64_t start_of(const fbox_plan_t *plan)
{
    return (uint64_t) 0 - plan->start_lines * BTL_SM_LINE;
}

static void open_box(actor_t *actor, int peer, outgoing_t *out)
{
    struct btl_sm_cell *cell = cell_of(actor, actor->index, peer);
    uint64_t offset = BOXES_AT + (uint64_t) peer * BOX_PAIR;
    unsigned char *own = (unsigned char *) header_of(actor, actor->index);
    uint64_t start = start_of(actor->plan);

    btl_sm_store_relaxed(&cell->tail, start);
    btl_sm_fbox_tx_init(&out->tx, own + offset, SMALL, &cell->tail, start, 0xfff0);
    btl_sm_store_relaxed(btl_sm_fbox_word(out->tx.base, 0), 0);
    btl_sm_store_release(BTL_SM_EDGE_CELL, &cell->box, btl_sm_ref_make(offset, 12));
    btl_sm_doorbell_ring(header_of(actor, peer)->door, (uint32_t) actor->index);
}

static void wake(actor_t *actor, int peer)
{
    btl_sm_fence_sleep();
    btl_sm_wake_peer(header_of(actor, peer));
}

/** Returns 1 if something was sent, 0 if there was no room, -1 for a fault. With `last` it is the
 *  record that says that no more will come. */
static int send_one(actor_t *actor, int peer, outgoing_t *out, bool last)
{
    const fbox_plan_t *plan = actor->plan;
    unsigned char *payload;
    enum btl_sm_fbox_rc rc;
    size_t len;

    if (NULL == out->tx.base) {
        open_box(actor, peer, out);
    }
    if (0 != plan->switch_after && out->sent == plan->switch_after && SMALL == out->tx.size) {
        struct btl_sm_rec_switch where;
        uint64_t offset = BOXES_AT + (uint64_t) peer * BOX_PAIR + SMALL;

        rc = btl_sm_fbox_reserve(&out->tx, sizeof(where), &payload);
        if (BTL_SM_FBOX_OK != rc) {
            return BTL_SM_FBOX_EMPTY == rc ? 0 : -1;
        }
        where.box = btl_sm_ref_make(offset, 14);
        memcpy(payload, &where, sizeof(where));
        unsigned char *base = (unsigned char *) header_of(actor, actor->index) + offset;
        btl_sm_store_relaxed(btl_sm_fbox_word(base, 0), 0);
        btl_sm_fbox_publish(&out->tx, sizeof(where), BTL_SM_REC_SWITCH, 0);
        btl_sm_fbox_tx_init(&out->tx, base, LARGE, out->tx.tail, out->tx.head, out->tx.seq);
        wake(actor, peer);
    }
    len = some_length(&actor->rng, out->tx.size);
    rc = btl_sm_fbox_reserve(&out->tx, len, &payload);
    if (BTL_SM_FBOX_OK != rc) {
        return BTL_SM_FBOX_EMPTY == rc ? 0 : -1;
    }
    pattern_fill(payload, len, name_of(actor->index, peer, out->sent), 0);
    btl_sm_fbox_publish(&out->tx, len, last ? BTL_SM_REC_LAST : BTL_SM_REC_DATA,
                        (uint32_t) out->sent & 0xff);
    wake(actor, peer);
    out->sent++;
    out->over = last;
    return 1;
}

static void answer_doorbell(actor_t *actor, incoming_t *in)
{
    uint64_t bits = btl_sm_doorbell_take(header_of(actor, actor->index)->door, 0);

    for (; 0 != bits; bits &= bits - 1) {
        int peer = __builtin_ctzll(bits);
        struct btl_sm_cell *cell = cell_of(actor, peer, actor->index);
        uint64_t ref = btl_sm_load_acquire(BTL_SM_EDGE_CELL, &cell->box), offset;
        uint32_t size;

        if (peer < actor->count && !in[peer].open
            && btl_sm_ref_check(ref, BOXES_AT, SEGMENT_SIZE, &offset, &size)) {
            btl_sm_fbox_rx_init(&in[peer].rx, (unsigned char *) header_of(actor, peer) + offset,
                                size, &cell->tail, start_of(actor->plan), 0xfff0);
            in[peer].open = true;
        }
    }
}

/** Returns 1 if something was received, 0 if not, -1 for a fault. */
static int receive_one(actor_t *actor, int peer, incoming_t *in)
{
    unsigned char *payload;
    enum btl_sm_fbox_rc rc;
    uint64_t rec;
    size_t len;

    rc = btl_sm_fbox_peek(&in->rx, &rec, &payload);
    if (BTL_SM_FBOX_EMPTY == rc) {
        return 0;
    }
    if (BTL_SM_FBOX_OK != rc) {
        actor_fault(actor, "message %llu of %d: impossible header", (unsigned long long) in->got,
                    peer);
        return -1;
    }
    len = btl_sm_rec_len(rec);
    if (BTL_SM_REC_SKIP == btl_sm_rec_kind(rec)) {
        if (SMALL == in->rx.size) {
            in->skipped_at |= UINT64_C(1) << ((len + BTL_SM_FBOX_HDR) / BTL_SM_LINE);
        }
        btl_sm_fbox_release(&in->rx, rec);
        return 1;
    }
    if (BTL_SM_REC_SWITCH == btl_sm_rec_kind(rec)) {
        struct btl_sm_rec_switch where;
        uint64_t offset;
        uint32_t size;

        memcpy(&where, payload, sizeof(where));
        btl_sm_fbox_release(&in->rx, rec);
        if (!btl_sm_ref_check(where.box, BOXES_AT, SEGMENT_SIZE, &offset, &size)) {
            actor_fault(actor, "%d: impossible box", peer);
            return -1;
        }
        btl_sm_fbox_rx_init(&in->rx, (unsigned char *) header_of(actor, peer) + offset, size,
                            in->rx.tail, in->rx.consumed, in->rx.seq);
        return 1;
    }
    if (btl_sm_rec_tag(rec) != (in->got & 0xff)
        || len != pattern_good(payload, len, name_of(peer, actor->index, in->got), 0)) {
        actor_fault(actor, "message %llu of %d is wrong (%zu bytes)", (unsigned long long) in->got,
                    peer, len);
        return -1;
    }
    in->got++;
    in->over = BTL_SM_REC_LAST == btl_sm_rec_kind(rec);
    btl_sm_fbox_release(&in->rx, rec);
    return 1;
}

/** Is there anything to take? The last look before sleeping. */
static bool anything(actor_t *actor, incoming_t *in)
{
    unsigned char *payload;
    uint64_t rec;

    for (int peer = 0; peer < actor->count; ++peer) {
        if (in[peer].open && BTL_SM_FBOX_EMPTY != btl_sm_fbox_peek(&in[peer].rx, &rec, &payload)) {
            return true;
        }
    }
    return 0 != btl_sm_load_relaxed(&header_of(actor, actor->index)->door[0]);
}

static void idle(actor_t *actor, incoming_t *in, uint64_t *rounds, bool may_sleep)
{
    struct btl_sm_segment_hdr *own = header_of(actor, actor->index);

    if (++*rounds < IDLE_SLEEP || !may_sleep) {
        if (0 == *rounds % 16) {
            sched_yield();
        }
        return;
    }
    btl_sm_wake_announce(own);
    if (anything(actor, in)) {
        btl_sm_wake_cancel(own);
    } else {
        btl_sm_wake_sleep(own, 100000000);
    }
    *rounds = 0;
}

#if !defined(S_FBOX_PARTS) /* s_ranks_thread.c has actors of its own */

static int fbox_body(actor_t *actor)
{
    const fbox_plan_t *plan = actor->plan;
    outgoing_t out[MAX_ACTORS] = {0};
    incoming_t in[MAX_ACTORS] = {0};
    int to_send = actor->count - 1, to_get = actor->count - 1; /* peers */
    uint64_t rounds = 0, end = case_end();
    bool late = false;

    /* memory that was used before */
    memset((unsigned char *) header_of(actor, actor->index) + BOXES_AT, 0x5a,
           SEGMENT_SIZE - BOXES_AT);
    if (!actor_barrier(actor)) {
        return actor_fault(actor, "the others did not come");
    }
    while (0 != to_send || 0 != to_get) {
        bool moved = false;
        int peer = (int) rng_below(&actor->rng, (uint64_t) actor->count);

        if (peer != actor->index && !out[peer].over) {
            bool last = out[peer].sent + 1 >= plan->messages || (late && out[peer].sent >= LEAST);
            int rc = send_one(actor, peer, &out[peer], last);

            if (0 > rc) {
                return actor_fault(actor, "sending to %d failed", peer);
            }
            to_send -= out[peer].over;
            moved = 0 != rc;
        }
        answer_doorbell(actor, in);
        for (peer = 0; peer < actor->count; ++peer) {
            int rc = in[peer].open && !in[peer].over ? receive_one(actor, peer, &in[peer]) : 0;

            if (0 > rc) {
                return 1;
            }
            moved = moved || 0 != rc;
            to_get -= 0 != rc && in[peer].over;
        }
        if (moved) {
            rounds = 0;
        } else {
            /* who has something to send waits for room, which wakes nobody */
            idle(actor, in, &rounds, 0 == to_send);
        }
        late = now_ms() > end;
    }
    for (int peer = 0; peer < actor->count; ++peer) {
        *actor_word(actor, 0) |= in[peer].skipped_at;
    }
    if (late) {
        *actor_word(actor, 1) = 1;
    }
    return 0;
}

/** Where a record can be skipped: fewer lines before the end of the small ring than it needs. */
static uint64_t all_skips(void)
{
    uint64_t lines = btl_sm_fbox_need(btl_sm_fbox_max_payload(SMALL)) / BTL_SM_LINE;

    return (UINT64_C(1) << lines) - 2;
}

static int fbox_and_count(actor_t *actor)
{
    int rc = fbox_body(actor);

    if (!actor_barrier(actor)) {
        return 1;
    }
    /* a short run, or one that was cut short, need not have seen everything */
    if (0 == rc && 0 == actor->index && 0 == *actor_word(actor, 1)
        && 5000 <= ((const fbox_plan_t *) actor->plan)->messages
        && 0 == ((const fbox_plan_t *) actor->plan)->switch_after
        && all_skips() != (*actor_word(actor, 0) & all_skips())) {
        return actor_fault(actor, "not every skip was seen: %llx",
                           (unsigned long long) *actor_word(actor, 0));
    }
    return rc;
}

static void fbox_case(int count, fbox_plan_t plan, uint64_t disturb, const char *what)
{
    tap_ok(actors_run(count, (size_t) count * SEGMENT_SIZE, 280, fbox_and_count, &plan, disturb),
           "%d " S_KIND ", up to %llu messages per pair, %s", count,
           (unsigned long long) plan.messages, what);
}

int main(void)
{
    tap_deadline(tap_long() ? 1500 : 290);
    fbox_case(2, (fbox_plan_t) {effort(150000, 5000000), 0, 3}, 0, "no disturbance, small box");
    fbox_case(2, (fbox_plan_t) {effort(40000, 1000000), 0, 100000}, 7,
              "disturbed at one point in seven");
    fbox_case(3, (fbox_plan_t) {effort(20000, 500000), 100, 1}, 50,
              "with a move to a larger box, disturbed");
    fbox_case(4, (fbox_plan_t) {effort(20000, 500000), 0, 64}, 0, "more than there are cores");
    fbox_case(8, (fbox_plan_t) {effort(3000, 100000), 0, 7}, 100, "many more, disturbed");
    uint64_t line = 0, lines = effort(20, 300);
    while (line < lines
           && actors_run(2, 2 * SEGMENT_SIZE, 60, fbox_body, &(fbox_plan_t) {300, 20 + line, line},
                         20)) {
        ++line;
    }
    tap_same((long long) line, (long long) lines,
             "counters that begin at each of so many lines before the wrap, with a move");
    return tap_done();
}

#endif /* S_FBOX_PARTS */

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Stress of the cooperation board: each actor posts transfers on the board of its peer and helps
 * with what the peer posts, both at once and both ways, as two ranks in a ping-pong of large
 * messages do.
 *
 * Template; s_coop_proc.c runs it with processes, s_coop_thread.c with threads. Copying is memcpy
 * within the shared segment, a page standing for STAND_IN bytes. Checked: every page is written
 * once (guarded by a counter per page), the destination is whole at completion, and nothing is
 * written after it: the initiator then fills it with something else and finds that untouched.
 */
#include "s_actors.h"

#include "btl_sm_coop.h"
#include "btl_sm_doorbell.h"

enum {
    STAND_IN = 64, /* bytes that stand for one page */
    MAX_PAGES = 256,
    AREA = MAX_PAGES * STAND_IN,
    LEAST = 20, /* transfers, however slow the machine is */
};
#define PAGE ((uint64_t) BTL_SM_COOP_PAGE)

/** What one actor has in shared memory. */
typedef struct place {
    btl_sm_atomic64_t help[BTL_SM_DOOR_WORDS];
    struct btl_sm_board board;           /* on which the peer posts */
    btl_sm_atomic32_t copies[MAX_PAGES]; /* of the peer's transfer, counted by both */
    btl_sm_atomic64_t finished;          /* this actor has posted its last */
    uint8_t pad[BTL_SM_LINE_PAIR - 8];
    unsigned char source[AREA];      /* of transfers by the peer */
    unsigned char destination[AREA]; /* of the own transfers */
} place_t;

typedef struct coop_plan {
    uint64_t transfers;
    uint64_t refuse; /* a helper refuses one claim in so many, 0 = never */
} coop_plan_t;

/** The initiator's side of one transfer. */
typedef struct transfer {
    uint32_t generation, own, total;
    uint64_t length, chunk;
    bool refused_seen, open;
    uint64_t number;
} transfer_t;

/** Copy claimed pages from the helper's source to the initiator's destination. */
static bool copy(place_t *helper, place_t *initiator, const btl_sm_coop_range_t *range)
{
    uint64_t first = range->offset / PAGE, pages = btl_sm_coop_pages(range->length);
    bool once = true;

    for (uint64_t i = first; i < first + pages; ++i) {
        memcpy(initiator->destination + i * STAND_IN, helper->source + i * STAND_IN, STAND_IN);
        once = once && 0 == btl_sm_fetch_add_relaxed(&helper->copies[i], 1);
    }
    return once;
}

static void start_transfer(actor_t *actor, place_t *own, place_t *peer, transfer_t *t)
{
    uint64_t pages = 1 + rng_below(&actor->rng, 0 != rng_below(&actor->rng, 4) ? 24 : MAX_PAGES);

    t->length = pages * PAGE - rng_below(&actor->rng, PAGE);
    t->total = btl_sm_coop_pages(t->length);
    t->chunk = (1 + rng_below(&actor->rng, 40)) * PAGE;
    t->own = 0;
    t->refused_seen = false;
    t->open = true;
    t->generation++;
    t->number++;
    for (uint64_t i = 0; i < t->total; ++i) {
        btl_sm_store_relaxed(&peer->copies[i], 0);
    }
    pattern_fill(peer->source, (size_t) t->total * STAND_IN, t->number, 0);
    memset(own->destination, 0, (size_t) t->total * STAND_IN);
    /* the addresses tell the helper nothing here; they carry the number so that mixtures show */
    btl_sm_coop_post(&peer->board, t->generation, 1 + (uint32_t) (t->number % 2), t->number,
                     ~t->number, t->length, t->chunk, &t->number, 8);
    btl_sm_doorbell_ring(peer->help, 0);
    if (0 == rng_below(&actor->rng, 8)) {
        sched_yield(); /* let the peer run where both share a core */
    }
}

/** One step of the own transfer. Returns 1 if it moved, 0 if not, -1 for a fault. */
static int step(actor_t *actor, place_t *own, place_t *peer, transfer_t *t)
{
    btl_sm_coop_range_t range;
    uint32_t pages, done;

    pages = 0 == rng_below(&actor->rng, 200)
                ? btl_sm_coop_claim_rest(&peer->board, t->generation, t->length, &range)
                : btl_sm_coop_claim(&peer->board, t->generation, t->length, t->chunk, &range);
    if (0 == pages) {
        done = btl_sm_coop_done(&peer->board, t->generation);
        if (t->own + done == t->total) {
            size_t bytes = (size_t) t->total * STAND_IN;

            if (bytes != pattern_good(own->destination, bytes, t->number, 0)) {
                return -actor_fault(actor, "transfer %llu is complete but not whole",
                                    (unsigned long long) t->number);
            }
            memset(own->destination, 0xee, bytes);
            sched_yield();
            if (bytes != pattern_run(own->destination, bytes, 0xee)) {
                return -actor_fault(actor, "a page was written after completion");
            }
            t->open = false;
            return 1;
        }
        if (t->own + done > t->total) {
            return -actor_fault(actor, "more pages than there are");
        }
        pages = t->refused_seen
                    ? 0
                    : btl_sm_coop_failed(&peer->board, t->generation, t->length, &range);
        if (0 == pages) {
            return 0;
        }
        t->refused_seen = true;
    }
    t->own += pages;
    if (!copy(peer, own, &range)) {
        return -actor_fault(actor, "a page was copied twice");
    }
    return 1;
}

/** Help with one claim of the peer's transfer. Returns as step(). */
static int help(actor_t *actor, place_t *own, place_t *peer, btl_sm_coop_view_t *view, bool *rung)
{
    const coop_plan_t *plan = actor->plan;
    btl_sm_coop_range_t range;
    uint32_t pages;

    /* once rung, look until nothing is left: the next transfer may be found before its ring */
    *rung = *rung || 0 != btl_sm_doorbell_take(own->help, 0);
    if (!*rung) {
        return 0;
    }
    pages = btl_sm_coop_look(&own->board, view)
                ? btl_sm_coop_claim(&own->board, view->generation, view->length, view->chunk,
                                    &range)
                : 0;
    if (0 == pages) {
        *rung = false;
        return 0;
    }
    if (view->initiator_addr != ~view->helper_addr || view->handle[0] != view->helper_addr
        || view->op != 1 + view->helper_addr % 2 || 8 != view->handle_size) {
        return -actor_fault(actor, "a claim with the description of two transfers");
    }
    if (0 != plan->refuse && 0 == rng_below(&actor->rng, plan->refuse)) {
        btl_sm_coop_refuse(&own->board, view, &range, pages);
        return 1;
    }
    if (!copy(own, peer, &range)) {
        return -actor_fault(actor, "the helper copied a page twice");
    }
    btl_sm_coop_finish(&own->board, view, pages);
    /* relaxed: an edge of the test itself would hide a missing one */
    (void) atomic_fetch_add_explicit(actor_word(actor, 1), pages, memory_order_relaxed);
    return 1;
}

static int coop_body(actor_t *actor)
{
    const coop_plan_t *plan = actor->plan;
    place_t *places = (place_t *) (void *) actor->segment;
    place_t *own = &places[actor->index], *peer = &places[actor->index ^ 1];
    transfer_t t = {.generation = UINT32_MAX - 5};
    btl_sm_coop_view_t view = {0};
    bool rung = false, told = false, over = false;
    uint64_t rounds = 0, end = case_end();

    if (!actor_barrier(actor)) {
        return actor_fault(actor, "the others did not come");
    }
    while (t.open || !over || 0 == btl_sm_load_acquire(BTL_SM_EDGE_STATE, &peer->finished)) {
        int moved = 0, rc;

        over = t.number == plan->transfers || (t.number >= LEAST && now_ms() > end);
        if (!t.open && !over) {
            if (UINT32_MAX == t.generation) {
                t.generation = 0; /* 0 is no generation */
            }
            start_transfer(actor, own, peer, &t);
        }
        if (t.open && 0 > (moved = step(actor, own, peer, &t))) {
            return 1;
        }
        if (!t.open && over && !told) {
            told = true;
            btl_sm_store_release(BTL_SM_EDGE_STATE, &own->finished, 1);
        }
        /* as the transport: help when there is nothing to do, and now and then in between */
        if (0 == moved || 0 == rng_below(&actor->rng, 3)) {
            rc = help(actor, own, peer, &view, &rung);
            if (0 > rc) {
                return 1;
            }
            moved |= rc;
        }
        if (0 == moved && 0 == ++rounds % 16) {
            sched_yield();
        }
    }
    if (!actor_barrier(actor)) {
        return 1;
    }
    if (0 == actor->index && 0 == *actor_word(actor, 1)) {
        return actor_fault(actor, "nobody ever helped");
    }
    return 0;
}

static void coop_case(int count, coop_plan_t plan, uint64_t disturb, const char *what)
{
    tap_ok(actors_run(count, (size_t) count * sizeof(place_t), 280, coop_body, &plan, disturb),
           "%d " S_KIND " in pairs, up to %llu transfers each, %s", count,
           (unsigned long long) plan.transfers, what);
}

int main(void)
{
    tap_deadline(tap_long() ? 1500 : 290);
    coop_case(2, (coop_plan_t) {effort(20000, 1000000), 0}, 0, "no disturbance");
    coop_case(2, (coop_plan_t) {effort(10000, 300000), 0}, 9, "disturbed");
    coop_case(2, (coop_plan_t) {effort(10000, 300000), 20}, 30, "some claims given back");
    coop_case(6, (coop_plan_t) {effort(2000, 50000), 50}, 100, "more than there are cores");
    return tap_done();
}

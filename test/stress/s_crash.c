/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Death between any two atomic accesses: one process kills itself with SIGKILL at its n-th test
 * point (s_points.h), for every n and every role; the survivors must get on.
 *
 * Roles and what must be true:
 *   producer   what the consumer finds is a complete prefix of what was published, then nothing
 *   consumer   the producer is never told of corruption, its other consumer gets everything
 *   ringer     the other ringers are heard, no bit stays unanswered
 *   helper     the initiator either sees its pages done or learns of the death and does the claimed
 *              pages itself; the next helper of another board is not disturbed
 *   initiator  the helper ends its claim, takes no further one for ever, and helps somebody else
 */
#include "s_actors.h"

#include <poll.h>
#include <sys/syscall.h>

#include "btl_sm_coop.h"
#include "btl_sm_doorbell.h"
#include "btl_sm_fbox.h"

#ifndef SYS_pidfd_open
#    define SYS_pidfd_open 434
#endif

enum { VICTIM = 0, SURVIVOR = 1, OTHER = 2, WORD_PID = 0, WORD_SENT = 1, WORD_OVER = 2 };

/** Shared memory of a case. */
typedef struct place {
    struct btl_sm_segment_hdr hdr;
    struct btl_sm_cell cell[2];
    struct btl_sm_board board; /* of the third process */
    unsigned char ring[2][4096];
    uint64_t page[8];
    btl_sm_atomic64_t copies[8];
} place_t;

typedef struct crash_plan {
    uint64_t die_at;
    int (*role[3])(actor_t *actor, place_t *place);
} crash_plan_t;

static place_t *place_of(actor_t *actor)
{
    return (place_t *) (void *) actor->segment;
}

/** Has the victim ended? By its pidfd, as the transport finds out; a zombie has. */
static bool victim_gone(actor_t *actor)
{
    static _Thread_local int fd = -1;
    struct pollfd pfd = {.events = POLLIN};

    if (0 > fd) {
        pid_t pid = (pid_t) atomic_load(actor_word(actor, WORD_PID));

        fd = (int) syscall(SYS_pidfd_open, pid, 0);
        if (0 > fd) {
            return true;
        }
    }
    pfd.fd = fd;
    return 0 < poll(&pfd, 1, 0);
}

/* ---- fast box -------------------------------------------------------------------------------- */

static size_t length_of(uint64_t number)
{
    return number * 397 % (btl_sm_fbox_max_payload(4096) + 1);
}

static void send_all(actor_t *actor, place_t *place, int lane, uint64_t count, bool until_gone)
{
    btl_sm_fbox_tx_t tx;
    unsigned char *payload;

    btl_sm_fbox_tx_init(&tx, place->ring[lane], 4096, &place->cell[lane].tail, 0, 0);
    for (uint64_t n = 0; n < count; ++n) {
        enum btl_sm_fbox_rc rc;

        while (BTL_SM_FBOX_EMPTY == (rc = btl_sm_fbox_reserve(&tx, length_of(n), &payload))) {
            if (until_gone && victim_gone(actor)) {
                return;
            }
            sched_yield();
        }
        if (BTL_SM_FBOX_OK != rc) {
            _exit(actor_fault(actor, "the dead consumer left an impossible tail"));
        }
        pattern_fill(payload, length_of(n), n, 0);
        btl_sm_fbox_publish(&tx, length_of(n), BTL_SM_REC_DATA, 0);
        if (VICTIM == actor->index) {
            atomic_store(actor_word(actor, WORD_SENT), n + 1);
        }
    }
}

static int receive_all(actor_t *actor, place_t *place, int lane, uint64_t count, bool until_gone,
                       uint64_t *got_out)
{
    btl_sm_fbox_rx_t rx;
    uint64_t got = 0;
    bool gone = false;

    btl_sm_fbox_rx_init(&rx, place->ring[lane], 4096, &place->cell[lane].tail, 0, 0);
    while (got < count) {
        unsigned char *payload;
        uint64_t rec;
        enum btl_sm_fbox_rc rc = btl_sm_fbox_peek(&rx, &rec, &payload);

        if (BTL_SM_FBOX_CORRUPT == rc) {
            return actor_fault(actor, "record %llu is impossible", (unsigned long long) got);
        }
        if (BTL_SM_FBOX_EMPTY == rc) {
            if (gone) {
                break;
            }
            gone = until_gone && victim_gone(actor); /* and one more look at the box */
            sched_yield();
            continue;
        }
        if (BTL_SM_REC_SKIP != btl_sm_rec_kind(rec)) {
            if (btl_sm_rec_len(rec) != length_of(got)
                || length_of(got) != pattern_good(payload, length_of(got), got, 0)) {
                return actor_fault(actor, "record %llu is wrong", (unsigned long long) got);
            }
            ++got;
        }
        btl_sm_fbox_release(&rx, rec);
    }
    *got_out = got;
    return 0;
}

static int dying_producer(actor_t *actor, place_t *place)
{
    send_all(actor, place, 0, 60, false);
    return 0;
}
static int its_consumer(actor_t *actor, place_t *place)
{
    uint64_t got = 0, sent;

    if (0 != receive_all(actor, place, 0, 1000, true, &got)) {
        return 1;
    }
    sent = atomic_load(actor_word(actor, WORD_SENT));
    if (got != sent && got != sent + 1) {
        return actor_fault(actor, "%llu records, %llu were published", (unsigned long long) got,
                           (unsigned long long) sent);
    }
    return 0;
}

static int dying_consumer(actor_t *actor, place_t *place)
{
    uint64_t got;

    return receive_all(actor, place, 0, 60, false, &got);
}
static int its_producer(actor_t *actor, place_t *place)
{
    send_all(actor, place, 0, 1000, true);
    send_all(actor, place, 1, 200, false); /* the other one is still served */
    return 0;
}
static int other_consumer(actor_t *actor, place_t *place)
{
    uint64_t got = 0;

    return receive_all(actor, place, 1, 200, false, &got) || 200 != got;
}

/* ---- doorbell -------------------------------------------------------------------------------- */

static int dying_ringer(actor_t *actor, place_t *place)
{
    for (int i = 0; i < 20; ++i) {
        btl_sm_doorbell_ring(place->hdr.door, 7);
        atomic_store(actor_word(actor, WORD_SENT), (uint64_t) i + 1);
    }
    return 0;
}
static int its_taker(actor_t *actor, place_t *place)
{
    uint64_t heard = 0, others = 0;

    while (others < 50 || !victim_gone(actor)) {
        uint64_t bits = btl_sm_doorbell_take(place->hdr.door, 0);

        heard += bits >> 7 & 1;
        if (0 != (bits >> 9 & 1)) {
            ++others;
            atomic_store(actor_word(actor, WORD_OVER), others);
        }
        if (0 != (bits & ~((UINT64_C(1) << 7) | (UINT64_C(1) << 9)))) {
            return actor_fault(actor, "a bit that nobody rang");
        }
        sched_yield();
    }
    heard += btl_sm_doorbell_take(place->hdr.door, 0) >> 7 & 1;
    if (0 == heard && 0 != atomic_load(actor_word(actor, WORD_SENT))) {
        return actor_fault(actor, "it rang before it died and was not heard");
    }
    return 0;
}
static int other_ringer(actor_t *actor, place_t *place)
{
    for (uint64_t i = 0; i < 50; ++i) {
        btl_sm_doorbell_ring(place->hdr.door, 9);
        while (atomic_load(actor_word(actor, WORD_OVER)) <= i) {
            sched_yield();
        }
    }
    return 0;
}

/* ---- cooperation ----------------------------------------------------------------------------- */

enum { PAGES = 8 };

static void copy_pages(place_t *place, uint64_t generation, const btl_sm_coop_range_t *range)
{
    uint64_t first = range->offset / BTL_SM_COOP_PAGE;

    for (uint64_t i = first; i < first + btl_sm_coop_pages(range->length) && i < PAGES; ++i) {
        place->page[i] = 100 * generation + i;
        (void) btl_sm_fetch_add_relaxed(&place->copies[i], 1);
    }
}

static void help_until(actor_t *actor, place_t *place, struct btl_sm_board *board, bool dying)
{
    btl_sm_coop_view_t view = {0};
    btl_sm_coop_range_t range;
    uint32_t pages;

    while (0 == atomic_load(actor_word(actor, WORD_OVER))) {
        if (btl_sm_coop_look(board, &view)
            && 0
                   != (pages = btl_sm_coop_claim(board, view.generation, view.length, view.chunk,
                                                 &range))) {
            copy_pages(place, view.generation, &range);
            btl_sm_coop_finish(board, &view, pages);
        } else if (!dying && victim_gone(actor)) {
            return;
        }
    }
}

static int dying_helper(actor_t *actor, place_t *place)
{
    /* looks at an empty board are no points of interest */
    while (0 == atomic_load_explicit(&place->cell[0].board.generation, memory_order_relaxed)) {
        sched_yield();
    }
    s_points.passed = 0;
    help_until(actor, place, &place->cell[0].board, true);
    return 0;
}

/** Posts transfers until told by the death of its helper or by their number. */
static int its_initiator(actor_t *actor, place_t *place)
{
    struct btl_sm_board *board = &place->cell[0].board;
    const uint64_t length = PAGES * BTL_SM_COOP_PAGE;
    bool gone = false;

    for (uint32_t g = 1; g <= 200 && !gone; ++g) {
        btl_sm_coop_range_t range;
        uint32_t own = 0, pages, done = 0;

        for (int i = 0; i < PAGES; ++i) {
            place->page[i] = 0;
            btl_sm_store_relaxed(&place->copies[i], 0);
        }
        btl_sm_coop_post(board, g, BTL_SM_BOARD_GET, 1, 2, length, BTL_SM_COOP_PAGE, NULL, 0);
        while (0 != (pages = btl_sm_coop_claim(board, g, length, BTL_SM_COOP_PAGE, &range))) {
            copy_pages(place, g, &range);
            own += pages;
            sched_yield();
        }
        while (own + (done = btl_sm_coop_done(board, g)) < PAGES && !gone) {
            gone = victim_gone(actor);
            sched_yield();
        }
        /* a dead helper may have reported between the last look and its death */
        done = btl_sm_coop_done(board, g);
        if (own + done > PAGES) {
            return actor_fault(actor, "more pages than there are");
        }
        for (int i = 0; i < PAGES; ++i) {
            uint64_t copies = btl_sm_load_relaxed(&place->copies[i]);

            if (1 < copies || (own + done == PAGES && place->page[i] != 100u * g + (uint64_t) i)) {
                return actor_fault(actor, "page %d of transfer %u: %llu copies, %llu", i, g,
                                   (unsigned long long) copies,
                                   (unsigned long long) place->page[i]);
            }
        }
    }
    atomic_store(actor_word(actor, WORD_OVER), 1);
    return 0;
}

static int dying_initiator(actor_t *actor, place_t *place)
{
    return its_initiator(actor, place);
}

/** Helps the dying one, then the third process, which posts one transfer and waits for help. */
static int its_helper(actor_t *actor, place_t *place)
{
    btl_sm_coop_view_t view = {0};
    btl_sm_coop_range_t range;
    uint32_t pages;

    help_until(actor, place, &place->cell[0].board, false);
    atomic_store(actor_word(actor, WORD_SENT), 1);
    while (1 == atomic_load(actor_word(actor, WORD_SENT))) {
        if (btl_sm_coop_look(&place->board, &view)
            && 0
                   != (pages = btl_sm_coop_claim(&place->board, view.generation, view.length,
                                                 view.chunk, &range))) {
            btl_sm_coop_finish(&place->board, &view, pages);
        }
        sched_yield();
    }
    return 0;
}
static int other_initiator(actor_t *actor, place_t *place)
{
    while (0 == atomic_load(actor_word(actor, WORD_SENT))) {
        sched_yield();
    }
    btl_sm_coop_post(&place->board, 1, BTL_SM_BOARD_PUT, 1, 2, 5 * BTL_SM_COOP_PAGE,
                     BTL_SM_COOP_PAGE, NULL, 0);
    while (5 > btl_sm_coop_done(&place->board, 1)) {
        sched_yield();
    }
    atomic_store(actor_word(actor, WORD_SENT), 2);
    return 0;
}

/* ---- the matrix ------------------------------------------------------------------------------ */

static int nobody(actor_t *actor, place_t *place)
{
    (void) actor;
    (void) place;
    return 0;
}

static int crash_body(actor_t *actor)
{
    const crash_plan_t *plan = actor->plan;
    place_t *place = place_of(actor);

    if (VICTIM == actor->index) {
        atomic_store(actor_word(actor, WORD_PID), (uint64_t) getpid());
        memset(place->ring, 0x77, sizeof(place->ring));
        btl_sm_store_relaxed(btl_sm_fbox_word(place->ring[0], 0), 0);
        btl_sm_store_relaxed(btl_sm_fbox_word(place->ring[1], 0), 0);
    }
    if (!actor_barrier(actor)) {
        return actor_fault(actor, "the others did not come");
    }
    if (VICTIM == actor->index) {
        s_points.passed = 0;
        s_points.die_at = plan->die_at;
    }
    return plan->role[actor->index](actor, place);
}

/** One death. Returns -1 for a fault, 0 if the victim lived to its end, 1 if it died. */
static int crash_once(const crash_plan_t *plan)
{
    static actor_team_t team;
    proc_group_t group;
    int status;

    team.body = crash_body;
    team.plan = plan;
    team.seed = tap_seed();
    team.disturb = 0;
    if (!proc_start(&group, 3, sizeof(place_t), 20, actor_process, &team)) {
        return -1;
    }
    /* the victim stays a zombie until the others are done: its pid must not be used again */
    if (0 != proc_join(&group, SURVIVOR) || 0 != proc_join(&group, OTHER)) {
        proc_kill(&group, VICTIM, SIGKILL);
        (void) proc_join(&group, VICTIM);
        group.status[VICTIM] = 0;
        (void) proc_finish(&group);
        return -1;
    }
    status = proc_join(&group, VICTIM);
    if (WIFSIGNALED(status) && SIGKILL == WTERMSIG(status)) {
        group.status[VICTIM] = 0;
        (void) proc_finish(&group);
        return 1;
    }
    return proc_finish(&group) ? 0 : -1;
}

static void crash_case(const char *name, crash_plan_t plan, uint64_t most)
{
    uint64_t end = now_ms() + (tap_long() ? 250000 : 15000);
    uint64_t deaths = 0, points = effort(most, most * 20), survived = 0;

    for (plan.die_at = 1; plan.die_at <= points && (now_ms() < end || deaths < 10); ++plan.die_at) {
        int rc = crash_once(&plan);

        if (0 > rc) {
            tap_ok(false, "%s dies at point %llu", name, (unsigned long long) plan.die_at);
            return;
        }
        deaths += (uint64_t) rc;
        survived = 0 == rc ? survived + 1 : 0;
        if (8 == survived) {
            break; /* it has no more points than that */
        }
    }
    tap_ok(5 <= deaths, "%s dies at each of %llu points and the survivors get on", name,
           (unsigned long long) deaths);
}

int main(void)
{
    tap_deadline(tap_long() ? 1500 : 290);
    crash_case("a producer", (crash_plan_t) {0, {dying_producer, its_consumer, nobody}}, 100);
    crash_case("a consumer", (crash_plan_t) {0, {dying_consumer, its_producer, other_consumer}},
               80);
    crash_case("a ringer", (crash_plan_t) {0, {dying_ringer, its_taker, other_ringer}}, 30);
    crash_case("a helper", (crash_plan_t) {0, {dying_helper, its_initiator, nobody}}, 100);
    crash_case("an initiator", (crash_plan_t) {0, {dying_initiator, its_helper, other_initiator}},
               100);
    return tap_done();
}

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Stress of the doorbell: many ring, one takes. A ringer writes plain words, rings and waits until
 * it was heard; the taker finds exactly the words that belong to the ring.
 *
 * Template; s_doorbell_proc.c runs it with processes, s_doorbell_thread.c with threads.
 */
#include "s_actors.h"

#include "btl_sm_doorbell.h"

/** One ringer's place; a pair of lines apart. */
typedef struct place {
    uint64_t words[4]; /* plain */
    uint8_t pad[BTL_SM_LINE_PAIR - 32];
    btl_sm_atomic64_t heard; /* rings that the taker has answered */
    uint8_t pad2[BTL_SM_LINE_PAIR - 8];
} place_t;

/** Cells with this bit turned are rung too, for nothing but more traffic on the same words. */
enum { PLACES_AT = sizeof(struct btl_sm_segment_hdr), MAX_RINGERS = 8, NOISE = 8, LEAST = 50 };

/** Cells far apart and close together, in several words. */
static const uint32_t cell_of_ringer[MAX_RINGERS] = {0, 63, 64, 65, 127, 500, 1022, 1023};

static bool is_noise(uint32_t cell)
{
    for (int i = 0; i < MAX_RINGERS; ++i) {
        if (cell == (cell_of_ringer[i] ^ NOISE)) {
            return true;
        }
    }
    return false;
}

static int ringer(actor_t *actor, place_t *place, btl_sm_atomic64_t *door, uint64_t rings)
{
    int number = actor->index - 1;
    uint64_t n, end = case_end();

    for (n = 1; n <= rings && (n <= LEAST || now_ms() < end); ++n) {
        for (int i = 0; i < 4; ++i) {
            place->words[i] = pattern_word((uint64_t) number, n + (uint64_t) i);
        }
        btl_sm_doorbell_ring(door, cell_of_ringer[number]);
        if (0 == rng_below(&actor->rng, 8)) {
            btl_sm_doorbell_ring(door, cell_of_ringer[number] ^ NOISE);
        }
        for (uint64_t spins = 0; btl_sm_load_acquire(BTL_SM_EDGE_STATE, &place->heard) < n;) {
            if (0 == ++spins % 64) {
                sched_yield();
            }
        }
    }
    atomic_store(actor_word(actor, 1 + number), n - 1);
    (void) atomic_fetch_add(actor_word(actor, 0), 1);
    return 0;
}

static int take_word(actor_t *actor, place_t *places, uint64_t *heard, uint32_t word, uint64_t bits)
{
    for (; 0 != bits; bits &= bits - 1) {
        uint32_t cell = 64 * word + (uint32_t) __builtin_ctzll(bits);
        int number = 0;

        while (number < actor->count - 1 && cell_of_ringer[number] != cell) {
            ++number;
        }
        if (number == actor->count - 1 && is_noise(cell)) {
            continue;
        }
        if (number == actor->count - 1) {
            return actor_fault(actor, "cell %u was never rung", cell);
        }
        for (int i = 0; i < 4; ++i) {
            if (places[number].words[i]
                != pattern_word((uint64_t) number, heard[number] + 1 + (uint64_t) i)) {
                return actor_fault(actor, "ringer %d: words of another ring", number);
            }
        }
        btl_sm_store_release(BTL_SM_EDGE_STATE, &places[number].heard, ++heard[number]);
    }
    return 0;
}

static int taker(actor_t *actor, place_t *places, btl_sm_atomic64_t *door)
{
    uint64_t heard[MAX_RINGERS] = {0}, ringers = (uint64_t) actor->count - 1, rounds = 0;

    while (atomic_load(actor_word(actor, 0)) < ringers) {
        for (uint32_t word = 0; word < BTL_SM_DOOR_WORDS; ++word) {
            uint64_t bits = btl_sm_doorbell_take(door, word);

            if (0 != take_word(actor, places, heard, word, bits)) {
                return 1;
            }
        }
        if (0 == ++rounds % 64) {
            sched_yield();
        }
    }
    for (uint64_t i = 0; i < ringers; ++i) {
        if (heard[i] != atomic_load(actor_word(actor, 1 + (int) i))) {
            return actor_fault(actor, "ringer %d was heard %llu times", (int) i,
                               (unsigned long long) heard[i]);
        }
    }
    return 0;
}

static int doorbell_body(actor_t *actor)
{
    struct btl_sm_segment_hdr *hdr = (struct btl_sm_segment_hdr *) (void *) actor->segment;
    place_t *places = (place_t *) (void *) (actor->segment + PLACES_AT);
    uint64_t rings = *(const uint64_t *) actor->plan;

    if (!actor_barrier(actor)) {
        return actor_fault(actor, "the others did not come");
    }
    if (0 == actor->index) {
        /* a taker that fails leaves the ringers waiting: their time limit ends them */
        return taker(actor, places, hdr->door);
    }
    return ringer(actor, &places[actor->index - 1], hdr->door, rings);
}

static void doorbell_case(int ringers, uint64_t rings, uint64_t disturb)
{
    tap_ok(actors_run(ringers + 1, PLACES_AT + MAX_RINGERS * sizeof(place_t), 120, doorbell_body,
                      &rings, disturb),
           "%d ringers and a taker, " S_KIND ", up to %llu rings each%s", ringers,
           (unsigned long long) rings, 0 != disturb ? ", disturbed" : "");
}

int main(void)
{
    tap_deadline(tap_long() ? 1500 : 290);
    doorbell_case(1, effort(100000, 3000000), 0);
    doorbell_case(1, effort(20000, 300000), 5);
    doorbell_case(3, effort(10000, 300000), 20);
    doorbell_case(8, effort(3000, 100000), 0);
    doorbell_case(8, effort(2000, 50000), 50);
    return tap_done();
}

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit test of btl_sm_doorbell.h: every bit of every word, alone and together, in one process.
 */
#include "btl_sm_doorbell.h"

#include <string.h>

#include "tap.h"

/* The cells' bits and the one of the visitors' book. */
#define ALL_BITS (64 * BTL_SM_DOOR_WORDS)

static btl_sm_atomic64_t door[BTL_SM_DOOR_WORDS + 1];

static uint64_t take_all(void)
{
    uint64_t count = 0;

    for (uint32_t word = 0; word < BTL_SM_DOOR_WORDS; ++word) {
        count += (uint64_t) __builtin_popcountll(btl_sm_doorbell_take(door, word));
    }
    return count;
}

int main(void)
{
    bool alone = true, kept = true;

    tap_deadline(60);
    tap_same((long long) take_all(), 0, "a new doorbell is silent");
    for (uint32_t cell = 0; cell < ALL_BITS; ++cell) {
        btl_sm_doorbell_ring(door, cell);
        for (uint32_t word = 0; word < BTL_SM_DOOR_WORDS; ++word) {
            uint64_t bits = btl_sm_doorbell_take(door, word);
            alone = alone && bits == (word == cell / 64 ? UINT64_C(1) << (cell % 64) : 0);
        }
    }
    tap_ok(alone, "each cell has a bit of its own");
    tap_same((long long) take_all(), 0, "what was taken is gone");

    btl_sm_doorbell_ring(door, 5);
    btl_sm_doorbell_ring(door, 5);
    tap_same((long long) btl_sm_doorbell_take(door, 0), 32, "ringing twice is ringing once");

    for (uint32_t cell = 0; cell < ALL_BITS; ++cell) {
        btl_sm_doorbell_ring(door, cell);
    }
    tap_ok(UINT64_MAX == btl_sm_doorbell_take(door, 3), "all bits of a word come at once");
    for (uint32_t word = 0; word < BTL_SM_DOOR_WORDS; ++word) {
        kept = kept && (3 == word || UINT64_MAX == btl_sm_load_relaxed(&door[word]));
    }
    tap_ok(kept, "taking one word leaves the others");
    tap_same((long long) take_all(), ALL_BITS - 64, "all others are still there");
    tap_same((long long) btl_sm_load_relaxed(&door[BTL_SM_DOOR_WORDS]), 0,
             "nothing is written behind the last word");
    return tap_done();
}

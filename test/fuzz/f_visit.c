/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target: the visitors' book, the doorbell and the word that stops a stream, in memory that
 * others write as they like.
 *
 * Must hold: nothing outside is touched, a name is in the book when entering says so, taking empties
 * a place, bits that are taken are gone, and a stream is stopped only by its own number or a later
 * one.
 */
#include "fuzz.h"

#include "btl_sm_doorbell.h"
#include "btl_sm_visit.h"

enum { STEPS = 200 };

struct shared {
    btl_sm_atomic64_t book[BTL_SM_VISITORS];
    btl_sm_atomic64_t door[BTL_SM_DOOR_WORDS];
};

static int in_book(struct shared *shared, uint64_t name)
{
    for (uint32_t i = 0; i < BTL_SM_VISITORS; ++i) {
        if (name == btl_sm_load_relaxed(&shared->book[i])) {
            return 1;
        }
    }
    return 0;
}

static void stop_word(uint64_t word, uint64_t number)
{
    const uint64_t limit = btl_sm_stop_limit(word, number);
    const uint64_t pages = word % (UINT64_C(1) << 39);

    fuzz_check(UINT64_MAX == limit || 0 == limit || limit == (word & (BTL_SM_STOP_SET - 1)) * 4096,
               "a limit is nothing, everything or what the word says");
    fuzz_check(pages * 4096 == btl_sm_stop_limit(btl_sm_stop_pack(number, pages), number),
               "what was packed for a stream comes out for it");
    fuzz_check(UINT64_MAX == btl_sm_stop_limit(btl_sm_stop_pack(number, pages), number + 1),
               "an older stream's word does not stop a later one");
    fuzz_check(0 == btl_sm_stop_limit(btl_sm_stop_pack(number + 1, pages), number),
               "a later stream's word ends an older one");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fuzz_input_t in = {data, data + len};
    struct shared *shared = calloc(1, sizeof(*shared)); /* its end is seen by a sanitizer */

    if (NULL == shared) {
        return 0;
    }
    for (int step = 0; step < STEPS && in.at < in.end; ++step) {
        const uint8_t what = fuzz_byte(&in);
        const uint64_t word = fuzz_word(&in);
        const uint32_t place = (uint32_t) (word % BTL_SM_VISITORS);
        const uint32_t cell = (uint32_t) (word % (BTL_SM_MAX_CELLS + 1));
        uint64_t taken;

        switch (what % 7) {
        case 0: /* a peer writes anything */
            btl_sm_store_relaxed(&shared->book[place], 0 != (what & 0x80) ? fuzz_word(&in) : 0);
            break;
        case 1:
            btl_sm_store_relaxed(&shared->door[word % BTL_SM_DOOR_WORDS], fuzz_word(&in));
            break;
        case 2:
        case 3:
            if (0 != word) {
                const int entered = btl_sm_visit_enter(shared->book, word);

                fuzz_check(entered == in_book(shared, word), "who has entered is in the book");
                fuzz_check(entered || !in_book(shared, 0), "only a full book turns away");
            }
            break;
        case 4:
            taken = btl_sm_load_relaxed(&shared->book[place]);
            fuzz_check(taken == btl_sm_visit_take(shared->book, place)
                           && 0 == btl_sm_load_relaxed(&shared->book[place]),
                       "what was there is taken, once");
            break;
        case 5:
            btl_sm_doorbell_ring(shared->door, cell);
            taken = btl_sm_doorbell_take(shared->door, cell / 64);
            fuzz_check(0 != (taken >> (cell % 64) & 1)
                           && 0 == btl_sm_doorbell_take(shared->door, cell / 64),
                       "a bell that was rung is heard once");
            break;
        default:
            stop_word(word, fuzz_word(&in));
        }
    }
    free(shared);
    return 0;
}

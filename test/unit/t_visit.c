/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit test of btl_sm_visit.h: names in the visitors' book, alone, twice, to the last place, and
 * from many threads at once beside an owner that takes them out.
 */
#include "btl_sm_doorbell.h"
#include "btl_sm_visit.h"

#include <pthread.h>
#include <string.h>

#include "tap.h"

#define THREADS 4
#define NAMES   20000

static btl_sm_atomic64_t book[BTL_SM_VISITORS + 1];
static btl_sm_atomic64_t door[BTL_SM_DOOR_WORDS];
static unsigned char seen[THREADS * NAMES];

static unsigned count_all(void)
{
    unsigned count = 0;

    for (uint32_t place = 0; place < BTL_SM_VISITORS; ++place) {
        count += 0 != btl_sm_visit_take(book, place);
    }
    return count;
}

static void *visitor(void *arg)
{
    uint64_t first = 1 + (uint64_t) (uintptr_t) arg * NAMES;

    for (uint64_t name = first; name < first + NAMES; ++name) {
        while (!btl_sm_visit_enter(book, name)) {
            btl_sm_pause();
        }
        btl_sm_doorbell_ring(door, 64 * BTL_SM_DOOR_WORDS - 1);
    }
    return NULL;
}

static void together(void)
{
    pthread_t thread[THREADS];
    unsigned taken = 0;
    bool once = true;

    for (uintptr_t i = 0; i < THREADS; ++i) {
        (void) pthread_create(&thread[i], NULL, visitor, (void *) i);
    }
    while (taken < THREADS * NAMES) {
        if (0 == btl_sm_doorbell_take(door, BTL_SM_DOOR_WORDS - 1)) {
            btl_sm_pause();
            continue;
        }
        for (uint32_t place = 0; place < BTL_SM_VISITORS; ++place) {
            uint64_t name = btl_sm_visit_take(book, place);

            if (0 != name) {
                once = once && name <= THREADS * NAMES && 0 == seen[name - 1]++;
                ++taken;
            }
        }
    }
    for (int i = 0; i < THREADS; ++i) {
        (void) pthread_join(thread[i], NULL);
    }
    tap_ok(once, "%d threads: each of %d names arrives once", THREADS, THREADS * NAMES);
    tap_same((long long) count_all(), 0, "nothing is left");
}

int main(void)
{
    bool right = true;

    tap_deadline(120);
    tap_same((long long) count_all(), 0, "a new book is empty");
    tap_ok(btl_sm_visit_enter(book, 77), "a name is taken in");
    tap_ok(btl_sm_visit_enter(book, 77), "the same name again is no error");
    tap_same((long long) btl_sm_visit_take(book, 0), 77, "it is in the first place");
    tap_same((long long) count_all(), 0, "and only there");

    for (uint64_t name = 1; name <= BTL_SM_VISITORS; ++name) {
        right = right && btl_sm_visit_enter(book, name);
    }
    tap_ok(right, "there is room for %d names", BTL_SM_VISITORS);
    tap_ok(!btl_sm_visit_enter(book, UINT64_MAX), "a full book says so");
    tap_ok(btl_sm_visit_enter(book, BTL_SM_VISITORS), "who is in it is told so all the same");
    tap_same((long long) btl_sm_visit_take(book, 9), 10, "places are taken one by one");
    tap_ok(btl_sm_visit_enter(book, UINT64_MAX), "a free place is used again");
    tap_ok(UINT64_MAX == btl_sm_visit_take(book, 9), "any name but 0 will do");
    tap_same((long long) count_all(), BTL_SM_VISITORS - 1, "all others are still there");
    tap_same((long long) btl_sm_load_relaxed(&book[BTL_SM_VISITORS]), 0,
             "nothing is written behind the last place");
    together();
    return tap_done();
}

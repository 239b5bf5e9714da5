/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Test points: between any two atomic accesses of the L0 headers a test may yield, sleep or die.
 *
 * Included by test/stress and test/fuzz before any header of btl/sm. The verbs of btl_sm_atomic.h
 * are defined anew with a call of s_point() in front; their orders stay as they are (BTL_SM_ORDER),
 * so that a build with BTL_SM_MUTANT is weakened here too.
 */
#ifndef TEST_STRESS_S_POINTS_H
#define TEST_STRESS_S_POINTS_H

#include "btl_sm_atomic.h"

#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "rng.h"

/** What happens at the points of this process or thread. */
typedef struct s_points {
    uint64_t passed;  /* points so far */
    uint64_t die_at;  /* number of the point to die at, 0 = never */
    uint64_t disturb; /* one in so many points is disturbed, 0 = none */
    rng_t rng;
} s_points_t;

static _Thread_local s_points_t s_points;

static inline void s_point(void)
{
    ++s_points.passed;
    if (s_points.passed == s_points.die_at) {
        kill(getpid(), SIGKILL);
    }
    if (0 != s_points.disturb && 0 == rng_below(&s_points.rng, s_points.disturb)) {
        uint64_t what = rng_below(&s_points.rng, 64);

        if (0 == what) {
            const struct timespec nap = {.tv_nsec = (long) rng_below(&s_points.rng, 50000)};
            nanosleep(&nap, NULL);
        } else if (what < 16) {
            sched_yield();
        } else {
            for (uint64_t i = rng_below(&s_points.rng, 200); 0 < i; --i) {
                btl_sm_pause();
            }
        }
    }
}

#undef btl_sm_load_relaxed
#define btl_sm_load_relaxed(p) (s_point(), atomic_load_explicit((p), memory_order_relaxed))
#undef btl_sm_store_relaxed
#define btl_sm_store_relaxed(p, v) \
    (s_point(), atomic_store_explicit((p), (v), memory_order_relaxed))
#undef btl_sm_load_acquire
#define btl_sm_load_acquire(edge, p) \
    (s_point(), atomic_load_explicit((p), BTL_SM_ORDER(edge, memory_order_acquire)))
#undef btl_sm_store_release
#define btl_sm_store_release(edge, p, v) \
    (s_point(), atomic_store_explicit((p), (v), BTL_SM_ORDER(edge, memory_order_release)))
#undef btl_sm_fetch_or_release
#define btl_sm_fetch_or_release(edge, p, v) \
    (s_point(), atomic_fetch_or_explicit((p), (v), BTL_SM_ORDER(edge, memory_order_release)))
#undef btl_sm_exchange_acquire
#define btl_sm_exchange_acquire(edge, p, v) \
    (s_point(), atomic_exchange_explicit((p), (v), BTL_SM_ORDER(edge, memory_order_acquire)))
#undef btl_sm_cas_relaxed
#define btl_sm_cas_relaxed(p, expected, desired)                                               \
    (s_point(),                                                                                \
     atomic_compare_exchange_strong_explicit((p), (expected), (desired), memory_order_relaxed, \
                                             memory_order_relaxed))

#endif /* TEST_STRESS_S_POINTS_H */

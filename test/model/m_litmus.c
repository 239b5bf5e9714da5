/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Checks of the explorer itself: classic litmus tests, whose outcomes under C11 are known.
 *
 * A scenario that forbids an outcome which the memory model allows has to be found out
 * (expect_error); one that forbids an impossible outcome has to pass. Run by m_main before anything
 * is believed. Names follow the litmus literature: SB store buffering, MP message passing, CoRR
 * coherence of two reads, 2+2W two writes twice, IRIW independent reads of independent writes, WRC
 * write-read causality, RS release sequence.
 */
#include "m_scenarios.h"

#include "btl_sm_atomic.h"

static btl_sm_atomic64_t x, y;
static uint64_t r[8]; /* results, one writer each */

#define RESULT(i, v) sm_plain_write(&r[i], (v))
#define GOT(i)       sm_final(&r[i])

static void store_x_load_y(void)
{
    btl_sm_store_relaxed(&x, 1);
    RESULT(0, btl_sm_load_relaxed(&y));
}
static void store_y_load_x(void)
{
    btl_sm_store_relaxed(&y, 1);
    RESULT(1, btl_sm_load_relaxed(&x));
}
static void store_x_fence_load_y(void)
{
    btl_sm_store_relaxed(&x, 1);
    btl_sm_fence_sleep();
    RESULT(0, btl_sm_load_relaxed(&y));
}
static void store_y_fence_load_x(void)
{
    btl_sm_store_relaxed(&y, 1);
    btl_sm_fence_sleep();
    RESULT(1, btl_sm_load_relaxed(&x));
}
static void not_both_zero(void)
{
    sm_check(0 != GOT(0) || 0 != GOT(1), "both loads missed both stores");
}

static void mp_write_relaxed(void)
{
    btl_sm_store_relaxed(&x, 1);
    btl_sm_store_relaxed(&y, 1);
}
static void mp_write_release(void)
{
    btl_sm_store_relaxed(&x, 1);
    btl_sm_store_release(BTL_SM_EDGE_STATE, &y, 1);
}
static void mp_write_plain(void)
{
    sm_plain_write(&x, 1);
    btl_sm_store_release(BTL_SM_EDGE_STATE, &y, 1);
}
static void mp_write_plain_relaxed(void)
{
    sm_plain_write(&x, 1);
    btl_sm_store_relaxed(&y, 1);
}
static void mp_write_fence(void)
{
    btl_sm_store_relaxed(&x, 1);
    btl_sm_fence_sleep();
    btl_sm_store_relaxed(&y, 1);
}
static void mp_read_relaxed(void)
{
    RESULT(0, btl_sm_load_relaxed(&y));
    RESULT(1, btl_sm_load_relaxed(&x));
}
static void mp_read_acquire(void)
{
    RESULT(0, btl_sm_load_acquire(BTL_SM_EDGE_STATE, &y));
    RESULT(1, btl_sm_load_relaxed(&x));
}
static void mp_read_fence(void)
{
    RESULT(0, btl_sm_load_relaxed(&y));
    btl_sm_fence_sleep();
    RESULT(1, btl_sm_load_relaxed(&x));
}
static void mp_read_plain(void)
{
    if (1 == btl_sm_load_acquire(BTL_SM_EDGE_STATE, &y)) {
        RESULT(1, sm_plain_read(&x));
    }
}
static void mp_final(void)
{
    sm_check(0 == GOT(0) || 1 == GOT(1), "the flag was seen, the message not");
}

static void corr_writer(void)
{
    btl_sm_store_relaxed(&x, 1);
    btl_sm_store_relaxed(&x, 2);
}
static void corr_reader(void)
{
    RESULT(0, btl_sm_load_relaxed(&x));
    RESULT(1, btl_sm_load_relaxed(&x));
}
static void corr_final(void)
{
    sm_check(GOT(0) <= GOT(1), "one word went backwards");
}

static void w22_a(void)
{
    btl_sm_store_relaxed(&x, 1);
    btl_sm_store_relaxed(&y, 2);
}
static void w22_b(void)
{
    btl_sm_store_relaxed(&y, 1);
    btl_sm_store_relaxed(&x, 2);
}
static void w22_a_release(void)
{
    btl_sm_store_release(BTL_SM_EDGE_STATE, &x, 1);
    btl_sm_store_release(BTL_SM_EDGE_STATE, &y, 2);
}
static void w22_final(void)
{
    sm_check(1 != sm_final(&x) || 1 != sm_final(&y), "both first stores came last");
}

static void store_x(void)
{
    btl_sm_store_relaxed(&x, 1);
}
static void store_y(void)
{
    btl_sm_store_relaxed(&y, 1);
}
static void iriw_a(void)
{
    RESULT(0, btl_sm_load_acquire(BTL_SM_EDGE_STATE, &x));
    RESULT(1, btl_sm_load_acquire(BTL_SM_EDGE_STATE, &y));
}
static void iriw_b(void)
{
    RESULT(2, btl_sm_load_acquire(BTL_SM_EDGE_STATE, &y));
    RESULT(3, btl_sm_load_acquire(BTL_SM_EDGE_STATE, &x));
}
static void iriw_a_fence(void)
{
    RESULT(0, btl_sm_load_relaxed(&x));
    btl_sm_fence_sleep();
    RESULT(1, btl_sm_load_relaxed(&y));
}
static void iriw_b_fence(void)
{
    RESULT(2, btl_sm_load_relaxed(&y));
    btl_sm_fence_sleep();
    RESULT(3, btl_sm_load_relaxed(&x));
}
static void iriw_final(void)
{
    sm_check(!(1 == GOT(0) && 0 == GOT(1) && 1 == GOT(2) && 0 == GOT(3)),
             "two readers saw two stores in different orders");
}

static void wrc_middle(void)
{
    RESULT(2, btl_sm_load_acquire(BTL_SM_EDGE_STATE, &x));
    btl_sm_store_release(BTL_SM_EDGE_STATE, &y, 1);
}
static void wrc_reader(void)
{
    RESULT(0, btl_sm_load_acquire(BTL_SM_EDGE_STATE, &y));
    RESULT(1, btl_sm_load_relaxed(&x));
}
static void wrc_middle_relaxed(void)
{
    RESULT(2, btl_sm_load_relaxed(&x));
    btl_sm_store_relaxed(&y, 1);
}
static void wrc_final(void)
{
    sm_check(!(1 == GOT(2) && 1 == GOT(0) && 0 == GOT(1)), "a cause came after its effect");
}

static void add_y(void)
{
    (void) btl_sm_fetch_add_relaxed(&y, 1);
}
static void rs_reader(void)
{
    if (2 == btl_sm_load_acquire(BTL_SM_EDGE_STATE, &y)) {
        RESULT(0, sm_plain_read(&x));
    }
}
static void overwrite_y(void)
{
    btl_sm_store_relaxed(&y, 2);
}
static void adds_final(void)
{
    sm_check(3 == sm_final(&y), "an addition was lost");
}
static void cas_y(void)
{
    uint64_t seen = 0;
    RESULT(0, (uint64_t) btl_sm_cas_relaxed(&y, &seen, 1));
}
static void cas_y_too(void)
{
    uint64_t seen = 0;
    RESULT(1, (uint64_t) btl_sm_cas_relaxed(&y, &seen, 2));
}
static void cas_final(void)
{
    sm_check(1 == GOT(0) + GOT(1), "not exactly one compare and swap won");
}

static void wait_y(void)
{
    sm_attempt();
    if (0 == btl_sm_load_relaxed(&y)) {
        sm_block();
    }
}

const sm_scenario_t m_litmus[] = {
    {"SB",
     "relaxed store buffering shows",
     2,
     {store_x_load_y, store_y_load_x},
     NULL,
     not_both_zero,
     1,
     0},
    {"SB+fences",
     "fences forbid store buffering",
     2,
     {store_x_fence_load_y, store_y_fence_load_x},
     NULL,
     not_both_zero,
     0,
     0},
    {"SB+one fence",
     "one fence does not",
     2,
     {store_x_fence_load_y, store_y_load_x},
     NULL,
     not_both_zero,
     1,
     0},
    {"MP",
     "relaxed message passing fails",
     2,
     {mp_write_relaxed, mp_read_relaxed},
     NULL,
     mp_final,
     1,
     0},
    {"MP+rel",
     "a release alone is not enough",
     2,
     {mp_write_release, mp_read_relaxed},
     NULL,
     mp_final,
     1,
     0},
    {"MP+acq",
     "an acquire alone is not enough",
     2,
     {mp_write_relaxed, mp_read_acquire},
     NULL,
     mp_final,
     1,
     0},
    {"MP+rel+acq",
     "release and acquire pass messages",
     2,
     {mp_write_release, mp_read_acquire},
     NULL,
     mp_final,
     0,
     0},
    {"MP+fences", "fences pass messages", 2, {mp_write_fence, mp_read_fence}, NULL, mp_final, 0, 0},
    {"MP+fence+acq",
     "a fence pairs with an acquire",
     2,
     {mp_write_fence, mp_read_acquire},
     NULL,
     mp_final,
     0,
     0},
    {"MP+plain",
     "a plain message is no race",
     2,
     {mp_write_plain, mp_read_plain},
     NULL,
     NULL,
     0,
     0},
    {"MP+plain+rlx",
     "without release it is",
     2,
     {mp_write_plain_relaxed, mp_read_plain},
     NULL,
     NULL,
     1,
     0},
    {"CoRR",
     "reads of one word do not go back",
     2,
     {corr_writer, corr_reader},
     NULL,
     corr_final,
     0,
     0},
    {"2+2W", "relaxed stores to two words may cross", 2, {w22_a, w22_b}, NULL, w22_final, 1, 0},
    {"2+2W+rel", "releases do not forbid it", 2, {w22_a_release, w22_b}, NULL, w22_final, 1, 0},
    {"IRIW+acq",
     "acquires do not order independent writes",
     4,
     {store_x, store_y, iriw_a, iriw_b},
     NULL,
     iriw_final,
     1,
     0},
    {"IRIW+fences",
     "fences do",
     4,
     {store_x, store_y, iriw_a_fence, iriw_b_fence},
     NULL,
     iriw_final,
     0,
     0},
    {"WRC",
     "causality needs release and acquire",
     3,
     {store_x, wrc_middle_relaxed, wrc_reader},
     NULL,
     wrc_final,
     1,
     0},
    {"WRC+rel+acq",
     "with them it holds",
     3,
     {store_x, wrc_middle, wrc_reader},
     NULL,
     wrc_final,
     0,
     0},
    {"RS",
     "a relaxed addition keeps the release before it",
     3,
     {mp_write_plain, add_y, rs_reader},
     NULL,
     NULL,
     0,
     0},
    {"RS+store",
     "a relaxed store of another thread does not",
     3,
     {mp_write_plain, overwrite_y, rs_reader},
     NULL,
     NULL,
     1,
     0},
    {"ADD", "no addition is lost", 3, {add_y, add_y, add_y}, NULL, adds_final, 0, 0},
    {"CAS", "one compare and swap wins", 2, {cas_y, cas_y_too}, NULL, cas_final, 0, 0},
    {"WAIT", "a wait for what comes ends", 2, {store_y, wait_y}, NULL, NULL, 0, 0},
    {"WAIT+never", "a wait for what never comes is found", 2, {store_x, wait_y}, NULL, NULL, 1, 0},
    {NULL, NULL, 0, {NULL}, NULL, NULL, 0, 0},
};

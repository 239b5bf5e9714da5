/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit test of btl_sm_learn.h: only roads that may be used are chosen, the fastest one is found and
 * kept, another one is taken when it becomes faster, and exploring costs no more than its share.
 */
#include "btl_sm_learn.h"

#include <string.h>

#include "rng.h"
#include "tap.h"

static btl_sm_learn_t learn;

/** Transfers of `size` bytes over roads that take `ns`; returns how many went over `road`. */
static unsigned run(uint64_t size, unsigned mask, const uint64_t ns[BTL_SM_ROADS], unsigned count,
                    unsigned road)
{
    unsigned hits = 0;

    for (unsigned i = 0; i < count; ++i) {
        unsigned chosen = btl_sm_learn_choose(&learn, size, mask);

        if (BTL_SM_ROADS <= chosen || 0 == (mask & (1u << chosen))) {
            tap_ok(false, "a road is chosen that may not be used (%u of mask %u)", chosen, mask);
            return 0;
        }
        hits += road == chosen;
        btl_sm_learn_report(&learn, size, chosen, ns[chosen]);
    }
    return hits;
}

static void classes(void)
{
    bool in_range = true;

    for (unsigned bit = 0; bit < 64; ++bit) {
        in_range = in_range && btl_sm_learn_class_of(UINT64_C(1) << bit) < BTL_SM_LEARN_CLASSES;
    }
    tap_ok(in_range && btl_sm_learn_class_of(UINT64_MAX) == BTL_SM_LEARN_CLASSES - 1
               && 0 == btl_sm_learn_class_of(0) && 0 == btl_sm_learn_class_of(1),
           "every size has a class");
    tap_same(btl_sm_learn_class_of(8191), 0, "8191 bytes are in the first");
    tap_same(btl_sm_learn_class_of(8192), 1, "8192 in the second");
}

static void finds(void)
{
    static const uint64_t cost[6][BTL_SM_ROADS] = {
        {100000, 150000, 200000}, {150000, 100000, 200000}, {200000, 150000, 100000},
        {100000, 101000, 300000}, {300000, 100000, 101000}, {101000, 300000, 100000}};
    unsigned least = UINT32_MAX;

    for (unsigned c = 0; c < 6; ++c) {
        unsigned best = 0;

        for (unsigned road = 1; road < BTL_SM_ROADS; ++road) {
            best = cost[c][road] < cost[c][best] ? road : best;
        }
        memset(&learn, 0, sizeof(learn));
        (void) run(1 << 20, 7, cost[c], BTL_SM_ROADS * BTL_SM_LEARN_FIRST, best);
        unsigned hits = run(1 << 20, 7, cost[c], 10000, best);
        least = hits < least ? hits : least;
    }
    tap_ok(least >= 10000 - 10000 / BTL_SM_LEARN_EXPLORE * BTL_SM_LEARN_BURST - 2,
           "the fastest road is used but for the share of exploring (%u of 10000)", least);
    tap_ok(least < 10000, "and there is exploring");
}

static void changes(void)
{
    static const uint64_t before[BTL_SM_ROADS] = {100000, 200000, 300000};
    static const uint64_t after[BTL_SM_ROADS] = {400000, 200000, 300000};

    memset(&learn, 0, sizeof(learn));
    (void) run(1 << 20, 7, before, 5000, 0);
    (void) run(1 << 20, 7, after, 500, 1);
    tap_ok(run(1 << 20, 7, after, 1000, 1) > 950, "a road that became slow is left");
    (void) run(1 << 20, 7, before, 5000, 0);
    tap_ok(run(1 << 20, 7, before, 1000, 0) > 950, "and found again when it is fast");
}

static void outliers(void)
{
    static const uint64_t cost[BTL_SM_ROADS] = {100000, 150000, 200000};

    memset(&learn, 0, sizeof(learn));
    (void) run(1 << 20, 7, cost, 100, 0);
    btl_sm_learn_report(&learn, 1 << 20, 0, UINT64_C(1000000000));
    tap_same(btl_sm_learn_choose(&learn, 1 << 20, 3), 0, "one interruption does not spoil a road");
}

static void masks(void)
{
    static const uint64_t cost[BTL_SM_ROADS] = {100000, 150000, 200000};
    bool obeyed = true;

    memset(&learn, 0, sizeof(learn));
    for (unsigned mask = 1; mask < 8; ++mask) {
        for (uint64_t size = 1; size < (UINT64_C(1) << 40); size *= 3) {
            unsigned hits = 0;

            for (unsigned road = 0; road < BTL_SM_ROADS; ++road) {
                hits += run(size, mask, cost, 600, road);
            }
            obeyed = obeyed && 0 != hits;
        }
    }
    tap_ok(obeyed, "every set of roads is obeyed for every size");
}

static void borrows(void)
{
    static const uint64_t slow[BTL_SM_ROADS] = {9000000, 1000000, 9000000};

    memset(&learn, 0, sizeof(learn));
    (void) run(UINT64_C(1) << 20, 7, slow, 100, 1);
    tap_same(btl_sm_learn_choose(&learn, UINT64_C(1) << 23, 7), 1,
             "8 MiB start with what the next smaller size that was in use has learned");
    memset(&learn, 0, sizeof(learn));
    tap_same(btl_sm_learn_choose(&learn, UINT64_C(1) << 23, 4), 2,
             "and with what may be used where nothing was");
}

/** Few transfers are very large: none is spent on trying before there were many. */
static void very_large(void)
{
    static const uint64_t cost[BTL_SM_ROADS] = {300000, 100000, 200000};
    const uint64_t size = UINT64_C(1) << 26;

    memset(&learn, 0, sizeof(learn));
    tap_same(run(size, 7, cost, 100, BTL_SM_ROAD_TOGETHER), 100,
             "very large transfers are shared by both at first");
    tap_ok(run(size, 7, cost, 20000, BTL_SM_ROAD_STREAM) > 15000,
           "and take a faster road once bursts have found it");
    memset(&learn, 0, sizeof(learn));
    tap_same(run(size, 6, cost, 100, BTL_SM_ROAD_STREAM), 100,
             "where both cannot, by the next road there is");
}

int main(void)
{
    tap_deadline(60);
    classes();
    finds();
    changes();
    outliers();
    masks();
    borrows();
    very_large();
    return tap_done();
}

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Which road is fastest for large transfers here and now? Learned from the transfers themselves.
 *
 * Layer 0: plain arithmetic on caller-owned memory. Fixed thresholds are wrong on some machine each
 * time, and on a virtual machine even from minute to minute: between near cores of a Zen 5 the stream
 * takes 0.65 of the time of a shared single copy at 1 MiB, between distant ones 1.45.
 *
 * For each power-of-two class of sizes and each road a smoothed time per byte. The best one is used;
 * now and then a short burst tries one of the others, which bounds what exploring can cost. A class
 * of large sizes that has seen nothing yet borrows from the next smaller one that has. Very large
 * ones begin with the copy by both, and try others in bursts only: of a few transfers of 64 MiB
 * each trial would be felt (16 MiB took 0.92 of the built-in component's time with trials first,
 * 0.50 without).
 */
#ifndef MCA_BTL_SM_LEARN_H
#define MCA_BTL_SM_LEARN_H

#include <stddef.h>
#include <stdint.h>

/** Roads. */
#define BTL_SM_ROAD_TOGETHER 0 /* single copy, shared out between both processes */
#define BTL_SM_ROAD_STREAM   1 /* through shared memory */
#define BTL_SM_ROAD_ALONE    2 /* single copy by the process that asked */
#define BTL_SM_ROADS         3

#define BTL_SM_LEARN_LOG2_MIN 12
#define BTL_SM_LEARN_CLASSES  20  /* 4 KiB .. 2 GiB and above */
#define BTL_SM_LEARN_FIRST    4   /* samples of each road before one is preferred */
#define BTL_SM_LEARN_EXPLORE  256 /* after so many transfers another road is tried ... */
#define BTL_SM_LEARN_BURST \
    4 /* ... so many times: the first ones pay for cold lines on both sides */
#define BTL_SM_LEARN_BORROW 11 /* in this class (8 MiB) what a class below has learned serves */
#define BTL_SM_LEARN_TOGETHER \
    12 /* from this class (16 MiB) up both copy until a burst knows better */

struct btl_sm_learn_class {
    uint64_t cost[BTL_SM_ROADS];    /* picoseconds per byte, smoothed; valid if samples > 0 */
    uint32_t samples[BTL_SM_ROADS]; /* saturates at BTL_SM_LEARN_FIRST + 1 */
    uint32_t turn;                  /* transfers since the last exploration */
    uint32_t next;                  /* road to explore next */
    uint32_t burst;                 /* explorations left of the current burst */
};

typedef struct btl_sm_learn {
    struct btl_sm_learn_class of[BTL_SM_LEARN_CLASSES];
} btl_sm_learn_t;

static inline unsigned btl_sm_learn_class_of(uint64_t size)
{
    unsigned log2 = size > 1 ? 63u - (unsigned) __builtin_clzll(size) : 0;

    if (log2 < BTL_SM_LEARN_LOG2_MIN) {
        return 0;
    }
    log2 -= BTL_SM_LEARN_LOG2_MIN;
    return log2 < BTL_SM_LEARN_CLASSES ? log2 : BTL_SM_LEARN_CLASSES - 1;
}

/** Take over what the next smaller class that has tried a road knows about it. */
static inline void btl_sm_learn_borrow(btl_sm_learn_t *learn, unsigned at)
{
    for (unsigned road = 0; road < BTL_SM_ROADS; ++road) {
        for (unsigned from = at; 0 == learn->of[at].samples[road] && from-- > 0;) {
            if (learn->of[from].samples[road] >= BTL_SM_LEARN_FIRST) {
                learn->of[at].cost[road] = learn->of[from].cost[road];
                learn->of[at].samples[road] = BTL_SM_LEARN_FIRST;
            }
        }
    }
}

/**
 * @brief Choose a road.
 * @param[in,out] learn  memory of this process, zero at first
 * @param[in]     size   bytes of the transfer
 * @param[in]     mask   bit r set: road r may be used now; at least one
 * @return BTL_SM_ROAD_*
 */
static inline unsigned btl_sm_learn_choose(btl_sm_learn_t *learn, uint64_t size, unsigned mask)
{
    unsigned at = btl_sm_learn_class_of(size);
    struct btl_sm_learn_class *class = &learn->of[at];
    unsigned best = BTL_SM_ROADS;

    if (BTL_SM_LEARN_BORROW == at) {
        btl_sm_learn_borrow(learn, at);
    }
    for (unsigned road = 0; road < BTL_SM_ROADS; ++road) {
        if (0 == (mask & (1u << road))) {
            continue;
        }
        if (at >= BTL_SM_LEARN_TOGETHER && 0 == class->samples[road]) {
            continue;
        }
        if (class->samples[road] < BTL_SM_LEARN_FIRST) {
            return road;
        }
        if (BTL_SM_ROADS == best || class->cost[road] < class->cost[best]) {
            best = road;
        }
    }
    if (BTL_SM_ROADS == best) { /* a very large one, the first: both, or the first road there is */
        best = (unsigned) __builtin_ctz(mask);
    }
    if (class->burst > 0 && 0 != (mask & (1u << class->next))) {
        class->burst--;
        return class->next;
    }
    if (++class->turn >= BTL_SM_LEARN_EXPLORE) {
        class->turn = 0;
        class->burst = 0;
        for (unsigned i = 0; i < BTL_SM_ROADS; ++i) {
            class->next = (class->next + 1) % BTL_SM_ROADS;
            if (class->next != best && 0 != (mask & (1u << class->next))) {
                class->burst = BTL_SM_LEARN_BURST - 1;
                return class->next;
            }
        }
    }
    return best;
}

/**
 * @brief Tell how long a transfer took.
 * @param[in] size  bytes, > 0
 * @param[in] road  BTL_SM_ROAD_* that was used
 * @param[in] ns    nanoseconds from start to completion, with nothing else under way
 *
 * Falls fast and rises slowly: one interruption does not spoil a road that is not tried again soon.
 */
static inline void btl_sm_learn_report(btl_sm_learn_t *learn, uint64_t size, unsigned road,
                                       uint64_t ns)
{
    struct btl_sm_learn_class *class = &learn->of[btl_sm_learn_class_of(size)];
    uint64_t cost = ns * 1000 / size + 1;

    if (0 == class->samples[road]) {
        class->cost[road] = cost;
    } else if (class->samples[road] < BTL_SM_LEARN_FIRST) {
        /* Of the first ones the best: they pay for untouched pages and cold caches. */
        class->cost[road] = cost < class->cost[road] ? cost : class->cost[road];
    } else if (cost < class->cost[road]) {
        class->cost[road] = (class->cost[road] + cost) / 2;
    } else {
        if (cost > 2 * class->cost[road]) {
            cost = 2 * class->cost[road];
        }
        class->cost[road] += (cost - class->cost[road]) / 16;
    }
    if (class->samples[road] <= BTL_SM_LEARN_FIRST) {
        class->samples[road]++;
    }
}

#endif /* MCA_BTL_SM_LEARN_H */

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Doorbell: many producers, one consumer; a set of cell numbers, one bit each.
 *
 * Layer 0. This is what takes the place of a multi-producer queue: every writer owns its bit, so a
 * writer that dies between any two of its stores cannot block the others, nothing has to be
 * allocated, and posting twice is harmless. It rings once per pair (first message) and once per
 * large transfer, not per message.
 *
 * Any ring may run beside any ring and beside take; take is for the owner only.
 * Linearization points: ring = the fetch-or; take = the exchange.
 */
#ifndef MCA_BTL_SM_DOORBELL_H
#define MCA_BTL_SM_DOORBELL_H

#include "btl_sm_layout.h"

/**
 * @brief Tell the owner of `door` to look at a cell.
 * @param[in] door  words of the owner's segment header
 * @param[in] cell  0 .. BTL_SM_MAX_CELLS - 1
 *
 * Ordering: releases DOORBELL: what the caller wrote before is visible to the owner after take.
 * Cost: one locked operation on a line that the owner reads in every poll.
 */
static inline void btl_sm_doorbell_ring(btl_sm_atomic64_t *door, uint32_t cell)
{
    (void) btl_sm_fetch_or_release(BTL_SM_EDGE_DOORBELL, &door[cell / 64],
                                   UINT64_C(1) << (cell % 64));
}

/**
 * @brief Take all bits of one word.
 * @param[in] door  words of the own segment header
 * @param[in] word  0 .. BTL_SM_DOOR_WORDS - 1
 * @return bits that were set; 0 is found with one relaxed load and no locked operation
 *
 * Ordering: acquires DOORBELL if not 0.
 */
static inline uint64_t btl_sm_doorbell_take(btl_sm_atomic64_t *door, uint32_t word)
{
    if (0 == btl_sm_load_relaxed(&door[word])) {
        return 0;
    }
    return btl_sm_exchange_acquire(BTL_SM_EDGE_DOORBELL, &door[word], 0);
}

#endif /* MCA_BTL_SM_DOORBELL_H */

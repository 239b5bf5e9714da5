/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Visitors' book: how a process of another job (spawned, connected) makes itself known to the owner
 * of a segment that has not added it.
 *
 * Layer 0. Jobs that meet at run time number their ranks independently, so a sender cannot know
 * which cell the receiver has for it, or whether it has one: upper layers add a peer with the first
 * message to it, and the receiver may have no message to send. The visitor writes its name into a
 * free place of the receiver's book and rings; the receiver looks the name up, attaches the
 * visitor's segment, gives it a cell and writes the visitor's nonce there, for which the visitor
 * looks.
 *
 * Any enter may run beside any other and beside take; take is for the owner only.
 * Linearization points: enter = the compare and swap; take = the exchange. The order between name
 * and bell is the DOORBELL edge: enter before btl_sm_doorbell_ring(), take after
 * btl_sm_doorbell_take().
 */
#ifndef MCA_BTL_SM_VISIT_H
#define MCA_BTL_SM_VISIT_H

#include "btl_sm_layout.h"

/**
 * @brief Write a name into the book.
 * @param[in] book  `visitors` of the receiver's segment
 * @param[in] name  name of this process, not 0
 * @return 1 if it is there now, 0 if the book is full at the moment (try again later)
 *
 * A name that is there already is not written twice. Cost: a scan of 8 lines, one locked operation.
 */
static inline int btl_sm_visit_enter(btl_sm_atomic64_t *book, uint64_t name)
{
    for (uint32_t i = 0; i < BTL_SM_VISITORS; ++i) {
        uint64_t found = btl_sm_load_relaxed(&book[i]);

        if (name == found) {
            return 1;
        }
        if (0 == found && (btl_sm_cas_relaxed(&book[i], &found, name) || name == found)) {
            return 1;
        }
    }
    return 0;
}

/**
 * @brief Take the name from one place of the book.
 * @param[in] book   `visitors` of the own segment
 * @param[in] place  0 .. BTL_SM_VISITORS - 1
 * @return the name, 0 if nobody is there
 */
static inline uint64_t btl_sm_visit_take(btl_sm_atomic64_t *book, uint32_t place)
{
    if (0 == btl_sm_load_relaxed(&book[place])) {
        return 0;
    }
    return btl_sm_exchange_acquire(BTL_SM_EDGE_DOORBELL, &book[place], 0);
}

#endif /* MCA_BTL_SM_VISIT_H */

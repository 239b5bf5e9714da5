/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Handing out fast boxes: a small one with the first message to a peer, a larger one once the pair
 * has proved to be busy.
 *
 * Layer 1. Boxes lie in the sender's own segment, so that nobody else allocates there. One small
 * box per rank of the job is part of the fixed reservation and cannot fail; a peer of another job
 * gets its small box together with its cell or not at all. Larger ones come while the bound
 * (btl_sm_fbox_max, btl_sm_segment_size) and the system allow, else the pair stays with its small
 * box and is slower, nothing more. They never take what is promised to small ones.
 */
#include "opal_config.h"

#include <stdlib.h>

#include "opal/constants.h"

#include "btl_sm.h"
#include "btl_sm_endpoint.h"
#include "btl_sm_segment.h"

enum { SMALL, LARGE };

static unsigned log2_of(size_t size)
{
    unsigned log2 = 0;

    while (((size_t) 1 << log2) < size) {
        ++log2;
    }
    return log2;
}

static size_t box_size(int which)
{
    return SMALL == which ? mca_btl_sm_component.small_box_size : mca_btl_sm_component.fbox_size;
}

/** A small box of the fixed reservation, which has one for each peer of the own job. 0 = none. */
static uint64_t promised_box(void)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    uint64_t offset = component->small_next;

    if (component->small_next + component->small_box_size > component->small_end) {
        return 0;
    }
    component->small_next += component->small_box_size;
    return offset;
}

/** Take a box from the ones given back or from the segment; under component->lock. 0 = none. */
static uint64_t take_box(const mca_btl_sm_endpoint_t *ep, int which)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    struct mca_btl_sm_box_stack_t *stack = &component->free_boxes[which];
    uint64_t offset = 0;

    if (LARGE == which && component->big_boxes >= component->fbox_max) {
        return 0;
    }
    if (stack->count > 0) {
        offset = stack->offset[--stack->count];
    } else if (SMALL == which && !ep->foreign) {
        return promised_box();
    } else if (OPAL_SUCCESS
               != mca_btl_sm_segment_alloc(component, box_size(which),
                                           SMALL == which ? component->modex.segment_size
                                                          : component->large_end,
                                           &offset)) {
        return 0;
    }
    if (LARGE == which) {
        component->big_boxes++;
    }
    return offset;
}

/** Put a box back; under component->lock. If there is no memory to remember it, it is lost. */
static void put_box(int which, uint64_t offset)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    struct mca_btl_sm_box_stack_t *stack = &component->free_boxes[which];

    if (0 == offset) {
        return;
    }
    if (LARGE == which) {
        component->big_boxes--;
    }
    if (stack->count == stack->capacity) {
        uint32_t capacity = 0 == stack->capacity ? 16 : 2 * stack->capacity;
        uint64_t *grown = realloc(stack->offset, capacity * sizeof(*grown));

        if (NULL == grown) {
            return;
        }
        stack->offset = grown;
        stack->capacity = capacity;
    }
    stack->offset[stack->count++] = offset;
}

/** @brief Set a small box aside for a peer of another job; under component->lock. false: no memory. */
bool mca_btl_sm_box_promise(mca_btl_sm_endpoint_t *ep)
{
    ep->small_box = take_box(ep, SMALL);
    return 0 != ep->small_box;
}

/**
 * @brief Open the sending half; under ep->lock.
 * @return true if the endpoint can send now. false: the peer is lost, or (a peer of another job)
 *         has not added us yet; then the message waits and progress tries again.
 */
bool mca_btl_sm_box_open(mca_btl_sm_endpoint_t *ep)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    int which = 0 == component->fbox_threshold ? LARGE : SMALL;
    struct btl_sm_cell *cell;
    uint64_t offset;

    if (NULL != ep->tx.base) {
        return !ep->failed;
    }
    if (ep->failed || !mca_btl_sm_endpoint_find_cell(ep)) {
        return false;
    }
    OPAL_THREAD_LOCK(&component->lock);
    offset = LARGE == which ? take_box(ep, which) : 0;
    if (0 == offset) {
        which = SMALL;
        offset = 0 != ep->small_box ? ep->small_box : take_box(ep, which);
    }
    OPAL_THREAD_UNLOCK(&component->lock);
    if (0 == offset) {
        return false;
    }
    if (SMALL == which) {
        ep->small_box = offset;
    } else {
        ep->big_box = offset;
    }
    cell = (struct btl_sm_cell *) (void *) ((char *) component->my_segment
                                            + sizeof(*component->my_segment))
           + ep->my_cell;
    btl_sm_fbox_tx_init(&ep->tx, (unsigned char *) component->my_segment + offset,
                        (uint32_t) box_size(which), &cell->tail, 0, 0);
    btl_sm_store_relaxed(btl_sm_fbox_word(ep->tx.base, 0), 0);
    btl_sm_store_release(BTL_SM_EDGE_CELL, &cell->box,
                         btl_sm_ref_make(offset, log2_of(box_size(which))));
    btl_sm_doorbell_ring(ep->peer->door, ep->peer_cell);
    ep->fast_max = btl_sm_fbox_max_payload(ep->tx.size);
    ep->sends = LARGE == which ? UINT32_MAX : component->fbox_threshold;
    return true;
}

/**
 * @brief Move a busy pair to a larger box; under ep->lock, with nothing pending.
 *
 * A SWITCH record in the old box tells the consumer where to go on; the counters carry on, so the
 * consumer's tail never has to be reset.
 */
void mca_btl_sm_box_enlarge(mca_btl_sm_endpoint_t *ep)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    struct btl_sm_rec_switch where;
    unsigned char *payload;
    uint64_t offset;

    ep->sends = UINT32_MAX;
    if (0 != ep->big_box || component->fbox_size <= ep->tx.size) {
        return;
    }
    if (BTL_SM_FBOX_OK != btl_sm_fbox_reserve(&ep->tx, sizeof(where), &payload)) {
        ep->sends = 1; /* full at the moment: with the next message */
        return;
    }
    OPAL_THREAD_LOCK(&component->lock);
    offset = take_box(ep, LARGE);
    OPAL_THREAD_UNLOCK(&component->lock);
    if (0 == offset) {
        return;
    }
    ep->big_box = offset;
    where.box = btl_sm_ref_make(offset, log2_of(component->fbox_size));
    memcpy(payload, &where, sizeof(where));
    btl_sm_store_relaxed(btl_sm_fbox_word((unsigned char *) component->my_segment + offset, 0), 0);
    btl_sm_fbox_publish(&ep->tx, sizeof(where), BTL_SM_REC_SWITCH, 0);
    btl_sm_fbox_tx_init(&ep->tx, (unsigned char *) component->my_segment + offset,
                        component->fbox_size, ep->tx.tail, ep->tx.head, ep->tx.seq);
    ep->fast_max = btl_sm_fbox_max_payload(ep->tx.size);
}

/** @brief Take the boxes of a peer that goes away; under component->lock. */
void mca_btl_sm_box_give_back(mca_btl_sm_endpoint_t *ep)
{
    put_box(SMALL, ep->small_box);
    put_box(LARGE, ep->big_box);
    ep->small_box = 0;
    ep->big_box = 0;
    ep->tx.base = NULL;
    ep->fast_max = 0;
}

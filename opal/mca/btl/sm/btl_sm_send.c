/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sending with a descriptor, and the queue of what found no room.
 *
 * Layer 1. A message is never refused here: it goes into the box, or it waits in the endpoint's
 * queue, in order, and progress moves it. While the queue is not empty everything for that peer
 * goes through it, so that order is kept.
 */
#include "opal_config.h"

#include "opal/constants.h"

#include "btl_sm.h"
#include "btl_sm_fault.h"
#include "btl_sm_frag.h"
#include "btl_sm_push.h"

/** Copy `len` bytes of the message, from byte `at` on, to `to`. */
static void gather(unsigned char *to, const mca_btl_sm_frag_t *frag, size_t at, size_t len)
{
    for (size_t i = 0; i < frag->base.des_segment_count && len > 0; ++i) {
        const mca_btl_base_segment_t *segment = &frag->segments[i];

        if (at < segment->seg_len) {
            size_t part = segment->seg_len - at < len ? segment->seg_len - at : len;

            memcpy(to, (const unsigned char *) segment->seg_addr.pval + at, part);
            to += part;
            len -= part;
            at = 0;
        } else {
            at -= segment->seg_len;
        }
    }
}

/** Move a message, or as much of it as there is room for; under ep->lock. */
static enum btl_sm_fbox_rc push(mca_btl_sm_endpoint_t *ep, mca_btl_sm_frag_t *frag)
{
    const size_t most = btl_sm_fbox_max_payload(ep->tx.size);
    size_t total = frag->segments[0].seg_len;
    unsigned char *payload;

    if (frag->base.des_segment_count > 1) {
        total += frag->segments[1].seg_len;
    }
    do {
        size_t left = total - frag->sent;
        size_t len = left < most ? left : most;
        uint32_t kind = frag->kind;
        enum btl_sm_fbox_rc rc = btl_sm_fbox_reserve(&ep->tx, len, &payload);

        if (BTL_SM_FBOX_OK != rc) {
            return rc;
        }
        if (len < total) {
            kind = len < left ? BTL_SM_REC_PART : BTL_SM_REC_LAST;
        }
        gather(payload, frag, frag->sent, len);
        mca_btl_sm_push_publish(ep, payload, len, kind, frag->tag);
        frag->sent += len;
    } while (frag->sent < total);
    return BTL_SM_FBOX_OK;
}

/** Put the endpoint on the list that progress works through; under ep->lock. */
void mca_btl_sm_pending_list(mca_btl_sm_endpoint_t *ep)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;

    ep->fast_max = 0;
    if (!ep->pending_listed) {
        ep->pending_listed = true;
        OPAL_THREAD_LOCK(&component->lock);
        opal_list_append(&component->pending_endpoints, &ep->pending_link);
        (void) btl_sm_fetch_add_relaxed(&component->pending_count, 1);
        OPAL_THREAD_UNLOCK(&component->lock);
    }
}

/** Push or queue; under ep->lock. Returns true if the message is in the box. */
static bool push_or_queue(mca_btl_sm_endpoint_t *ep, mca_btl_sm_frag_t *frag)
{
    if (mca_btl_sm_box_open(ep) && opal_list_is_empty(&ep->pending)) {
        if (0 == --ep->sends) {
            mca_btl_sm_box_enlarge(ep);
        }
        if (BTL_SM_FBOX_OK == push(ep, frag)) {
            return true;
        }
        /* No room, or a counter that cannot be: progress finds out which. */
    }
    mca_btl_sm_count(&mca_btl_sm_component.stats.waited, 1);
    opal_list_append(&ep->pending, (opal_list_item_t *) frag);
    mca_btl_sm_pending_list(ep);
    return false;
}

/**
 * The caller wants a callback and may hold a lock of its own that the callback takes as well:
 * am_rdma of Open MPI 5.0 sends the next piece of a long put or get under the lock that its
 * completion needs. Locks are real only with threads; then the callback comes from progress.
 */
static bool complete_later(mca_btl_sm_frag_t *frag)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;

    if (!opal_using_threads() || NULL == frag->base.des_cbfunc
        || 0 == (frag->base.des_flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK)) {
        return false;
    }
    OPAL_THREAD_LOCK(&component->lock);
    if (opal_list_is_empty(&component->sent_late)) {
        (void) btl_sm_fetch_add_relaxed(&component->pending_count, 1);
    }
    opal_list_append(&component->sent_late, (opal_list_item_t *) frag);
    OPAL_THREAD_UNLOCK(&component->lock);
    return true;
}

/** Complete all messages of a list, which is empty then. No lock may be held: the upper layer may send
 *  again from its callback. Returns how many there were. */
static int complete_all(opal_list_t *list, int status)
{
    opal_list_item_t *item;
    int count = 0;

    while (NULL != (item = opal_list_remove_first(list))) {
        mca_btl_sm_frag_complete((mca_btl_sm_frag_t *) item, status);
        ++count;
    }
    return count;
}

/** @brief Complete the messages whose callbacks were put off. Returns events. No lock may be held. */
int mca_btl_sm_complete_late(void)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    opal_list_t done;
    int events;

    OBJ_CONSTRUCT(&done, opal_list_t);
    OPAL_THREAD_LOCK(&component->lock);
    if (!opal_list_is_empty(&component->sent_late)) {
        opal_list_join(&done, opal_list_get_end(&done), &component->sent_late);
        (void) btl_sm_fetch_add_relaxed(&component->pending_count, (uint32_t) -1);
    }
    OPAL_THREAD_UNLOCK(&component->lock);
    events = complete_all(&done, OPAL_SUCCESS);
    OBJ_DESTRUCT(&done);
    return events;
}

int mca_btl_sm_send(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *ep,
                    struct mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag)
{
    mca_btl_sm_frag_t *frag = (mca_btl_sm_frag_t *) descriptor;
    bool sent;

    (void) btl;
    frag->tag = tag;
    frag->endpoint = ep;
    frag->sent = 0; /* a descriptor may be sent again */
    OPAL_THREAD_LOCK(&ep->lock);
    if (OPAL_UNLIKELY(ep->failed)) { /* with the lock: what is queued after the loss stays there */
        OPAL_THREAD_UNLOCK(&ep->lock);
        return OPAL_ERR_UNREACH;
    }
    sent = push_or_queue(ep, frag);
    if (!sent) {
        /* "0" promises a callback; ob1 relies on it to go on. */
        frag->base.des_flags |= MCA_BTL_DES_SEND_ALWAYS_CALLBACK;
    }
    OPAL_THREAD_UNLOCK(&ep->lock);
    if (!sent || complete_later(frag)) {
        return OPAL_SUCCESS;
    }
    mca_btl_sm_frag_complete(frag, OPAL_SUCCESS);
    return 1;
}

/**
 * @brief Send a small record of the transport itself; never refused.
 * @param[in] len  bytes, <= MCA_BTL_SM_CONTROL_SIZE
 * @return OPAL_SUCCESS, OPAL_ERR_UNREACH if the peer is lost, or OPAL_ERR_OUT_OF_RESOURCE if there is
 *         no memory at all
 */
int mca_btl_sm_send_record(mca_btl_sm_endpoint_t *ep, uint32_t kind, const void *bytes, size_t len)
{
    mca_btl_sm_frag_t *frag = mca_btl_sm_frag_get(ep, len);
    bool sent, lost;

    if (NULL == frag) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    memcpy(frag->segments[0].seg_addr.pval, bytes, len);
    frag->kind = kind;
    frag->tag = 0;
    frag->base.des_flags = MCA_BTL_DES_FLAGS_BTL_OWNERSHIP;
    OPAL_THREAD_LOCK(&ep->lock);
    lost = ep->failed;
    sent = lost || push_or_queue(ep, frag);
    OPAL_THREAD_UNLOCK(&ep->lock);
    if (sent) {
        mca_btl_sm_frag_return(frag);
    }
    return lost ? OPAL_ERR_UNREACH : OPAL_SUCCESS;
}

/** Move what waits for one endpoint. Returns events. */
static int endpoint_progress(mca_btl_sm_endpoint_t *ep)
{
    enum btl_sm_fbox_rc rc = BTL_SM_FBOX_OK;
    opal_list_t done;
    opal_list_item_t *item;
    int events = 0;

    OBJ_CONSTRUCT(&done, opal_list_t);
    OPAL_THREAD_LOCK(&ep->lock);
    if (mca_btl_sm_box_open(ep)) {
        while (NULL != (item = opal_list_remove_first(&ep->pending))) {
            size_t before = ((mca_btl_sm_frag_t *) item)->sent;

            rc = push(ep, (mca_btl_sm_frag_t *) item);
            if (BTL_SM_FBOX_OK != rc) {
                events += before != ((mca_btl_sm_frag_t *) item)->sent;
                opal_list_prepend(&ep->pending, item);
                break;
            }
            opal_list_append(&done, item);
            ++events;
        }
        if (BTL_SM_FBOX_OK == rc) {
            events += mca_btl_sm_stream_jobs(ep);
        }
        if (opal_list_is_empty(&ep->pending)) {
            ep->fast_max = btl_sm_fbox_max_payload(ep->tx.size);
            if (opal_list_is_empty(&ep->jobs)) {
                OPAL_THREAD_LOCK(&mca_btl_sm_component.lock);
                opal_list_remove_item(&mca_btl_sm_component.pending_endpoints, &ep->pending_link);
                ep->pending_listed = false;
                (void) btl_sm_fetch_add_relaxed(&mca_btl_sm_component.pending_count, (uint32_t) -1);
                OPAL_THREAD_UNLOCK(&mca_btl_sm_component.lock);
            }
        }
    }
    OPAL_THREAD_UNLOCK(&ep->lock);
    (void) complete_all(&done, OPAL_SUCCESS);
    OBJ_DESTRUCT(&done);
    if (OPAL_UNLIKELY(BTL_SM_FBOX_CORRUPT == rc)) {
        mca_btl_sm_fault_lost(ep, "it wrote an impossible counter");
    } else if (OPAL_UNLIKELY(ep->turned_away)) {
        mca_btl_sm_fault_lost(ep, "it has no memory or no place for this process");
    }
    return events;
}

/** @brief Move what waits, for all endpoints once. Returns events. */
int mca_btl_sm_pending_progress(void)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    int events = opal_using_threads() ? mca_btl_sm_complete_late() : 0;
    uint32_t count = btl_sm_load_relaxed(&component->pending_count);

    while (count-- > 0) {
        opal_list_item_t *item;

        /* Rotate, so that each gets its turn even if one keeps coming back. */
        OPAL_THREAD_LOCK(&component->lock);
        item = opal_list_remove_first(&component->pending_endpoints);
        if (NULL != item) {
            opal_list_append(&component->pending_endpoints, item);
        }
        OPAL_THREAD_UNLOCK(&component->lock);
        if (NULL == item) {
            break;
        }
        events += endpoint_progress(
            (mca_btl_sm_endpoint_t *) (void *) ((char *) item
                                                - offsetof(mca_btl_sm_endpoint_t, pending_link)));
    }
    return events;
}

/** @brief The peer is lost or goes away: drop what waits for it, completing with an error. */
void mca_btl_sm_pending_drop(mca_btl_sm_endpoint_t *ep)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    opal_list_t dropped;
    opal_list_item_t *item;

    OBJ_CONSTRUCT(&dropped, opal_list_t);
    OPAL_THREAD_LOCK(&ep->lock);
    while (NULL != (item = opal_list_remove_first(&ep->pending))) {
        opal_list_append(&dropped, item);
    }
    while (NULL != (item = opal_list_remove_first(&ep->jobs))) {
        OBJ_RELEASE(item);
    }
    if (ep->pending_listed) {
        OPAL_THREAD_LOCK(&component->lock);
        opal_list_remove_item(&component->pending_endpoints, &ep->pending_link);
        ep->pending_listed = false;
        (void) btl_sm_fetch_add_relaxed(&component->pending_count, (uint32_t) -1);
        OPAL_THREAD_UNLOCK(&component->lock);
    }
    OPAL_THREAD_UNLOCK(&ep->lock);
    (void) complete_all(&dropped, OPAL_ERR_UNREACH);
    OBJ_DESTRUCT(&dropped);
}

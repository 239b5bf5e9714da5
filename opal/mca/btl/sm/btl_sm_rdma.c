/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Get and put.
 *
 * Layer 1. Upper layers never see one of them fail while the peer lives. Roads, best first:
 *
 *   own memory   memmove
 *   at once      one single copy inside the call, for what is short
 *   in chunks    single copy from progress, one chunk per call, so that small messages get through
 *   together     the same, with the chunks shared out between both processes (btl_sm_coop.h)
 *   streamed     through shared memory by the owner of the bytes (btl_sm_stream.c): where single
 *                copy is not available or not worth it, and for what it failed to copy
 *
 * Single copy is reached through smsc.h only, so any provider will do.
 */
#include "opal_config.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "opal/constants.h"

#include "btl_sm.h"
#include "btl_sm_endpoint.h"
#include "btl_sm_fault.h"

/** Failed single copies in a row after which a peer is not asked again. A single failure may come
 *  from one buffer (device memory, say); many mean that the permission is gone. */
#define REFUSED_AFTER 8

/** While a peer never helps, every so many transfers it is offered one all the same: waiting in vain for
 *  it costs as much as a copy of 32 KiB, hence the difference. */
#define OFFER_EVERY       16
#define OFFER_EVERY_SMALL 128
#define OFFER_SMALL       65536 /* bytes */

/** How long the piece that a peer is copying is waited for when a transfer is given up, and the pause
 *  between two looks, nanoseconds. */
#define ABANDON_WAIT_NS  (1000ull * 1000 * 1000)
#define ABANDON_PAUSE_NS (20l * 1000)

static struct btl_sm_board *board_in(struct btl_sm_segment_hdr *hdr, uint32_t cell)
{
    struct btl_sm_cell *first = (struct btl_sm_cell *) (void *) ((char *) hdr + sizeof(*hdr));

    return &first[cell].board;
}

/** One single copy of this process. `remote` is in the peer. */
int mca_btl_sm_copy_range(mca_btl_sm_endpoint_t *ep, uint32_t op, void *local, uint64_t remote,
                          size_t len, void *handle)
{
    int rc;

    if (BTL_SM_BOARD_GET == op) {
        rc = MCA_SMSC_CALL(copy_from, ep->smsc, local, (void *) (uintptr_t) remote, len, handle);
    } else {
        rc = MCA_SMSC_CALL(copy_to, ep->smsc, local, (void *) (uintptr_t) remote, len, handle);
    }
    if (OPAL_LIKELY(OPAL_SUCCESS == rc)) {
        ep->smsc_failures = 0;
        return rc;
    }
    mca_btl_sm_count(&mca_btl_sm_component.stats.single_copy_failed, 1);
    if (++ep->smsc_failures >= REFUSED_AFTER) {
        if (!ep->smsc_refused) {
            mca_btl_sm_tell("peer %u (pid %d): large messages: streamed through shared memory from "
                            "now on: %d single copies in a row have failed",
                            ep->proc->proc_name.vpid, ep->pid, (int) ep->smsc_failures);
        }
        ep->smsc_refused = true;
    }
    return rc;
}

/**
 * Take the source's token for one of its few concurrent readers, so that many readers do not fight
 * for its memory map. Counted loosely: two that come at the same moment may both get in.
 * Returns false if it is taken; then the transfer waits for a later call.
 */
static bool reader_enter(mca_btl_sm_xfer_t *xfer)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    mca_btl_sm_endpoint_t *ep = xfer->endpoint;
    uint32_t others = 0;

    if (xfer->reading || 0 == component->max_readers
        || component->local_count <= component->max_readers + 1) {
        return true;
    }
    if (0 == ep->reading) {
        for (uint32_t i = 0; i < (ep->peer_cells + 63) / 64; ++i) {
            others += (uint32_t) __builtin_popcountll(btl_sm_load_relaxed(&ep->peer->readers[i]));
        }
        if (others >= component->max_readers) {
            return false;
        }
        (void) btl_sm_fetch_or_relaxed(&ep->peer->readers[ep->peer_cell / 64],
                                       UINT64_C(1) << (ep->peer_cell % 64));
    }
    ep->reading++;
    xfer->reading = true;
    return true;
}

static void reader_leave(mca_btl_sm_xfer_t *xfer)
{
    mca_btl_sm_endpoint_t *ep = xfer->endpoint;

    if (xfer->reading) {
        xfer->reading = false;
        if (0 == --ep->reading) {
            (void) btl_sm_fetch_and_relaxed(&ep->peer->readers[ep->peer_cell / 64],
                                            ~(UINT64_C(1) << (ep->peer_cell % 64)));
        }
    }
}

static void report(unsigned road, uint64_t size, uint64_t start_ns)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    uint64_t ns = mca_btl_sm_now_ns() - start_ns;

    OPAL_THREAD_LOCK(&component->lock);
    btl_sm_learn_report(&component->learn, size, road, ns);
    OPAL_THREAD_UNLOCK(&component->lock);
}

/** Finish a transfer: off the lists, callback, back to the free list. No lock is held. */
void mca_btl_sm_xfer_complete(mca_btl_sm_xfer_t *xfer, int status)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    mca_btl_sm_endpoint_t *ep = xfer->endpoint;

    reader_leave(xfer);
    if (0 != xfer->start_ns && OPAL_SUCCESS == status) {
        report(xfer->road, xfer->size, xfer->start_ns);
    }
    OPAL_THREAD_LOCK(&component->lock);
    if (xfer->plain) {
        xfer->plain = false;
        ep->plain_streams--;
    }
    if (ep->posted == xfer) {
        ep->posted = NULL;
    }
    if (xfer->listed) {
        opal_list_remove_item(&component->xfers_active, (opal_list_item_t *) xfer);
        xfer->listed = false;
        (void) btl_sm_fetch_add_relaxed(&component->xfer_count, (uint32_t) -1);
    }
    if (0 <= xfer->id) {
        (void) opal_pointer_array_set_item(&component->xfers, xfer->id, NULL);
        xfer->id = -1;
    }
    OPAL_THREAD_UNLOCK(&component->lock);
    if (NULL != xfer->cbfunc) {
        xfer->cbfunc(&mca_btl_sm.super, ep, xfer->local, xfer->local_handle, xfer->cbcontext,
                     xfer->cbdata, status);
    }
    opal_free_list_return(&component->xfer_list, (opal_free_list_item_t *) xfer);
}

static void add_range(mca_btl_sm_xfer_t *xfer, uint64_t offset, uint64_t length)
{
    /* At most three ever occur: our failed claim, the rest after it, the helper's returned claim. */
    xfer->ranges[xfer->range_count].offset = offset;
    xfer->ranges[xfer->range_count].length = length;
    xfer->range_count++;
}

/** Nothing is left to copy by single copy: stream what failed, or finish. */
static void settle(mca_btl_sm_xfer_t *xfer)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;

    if (0 == xfer->range_count) {
        mca_btl_sm_xfer_complete(xfer, OPAL_SUCCESS);
        return;
    }
    reader_leave(xfer);
    OPAL_THREAD_LOCK(&component->lock);
    if (xfer->endpoint->posted == xfer) {
        xfer->endpoint->posted = NULL;
    }
    if (xfer->listed) {
        opal_list_remove_item(&component->xfers_active, (opal_list_item_t *) xfer);
        xfer->listed = false;
        (void) btl_sm_fetch_add_relaxed(&component->xfer_count, (uint32_t) -1);
    }
    xfer->number = ++xfer->endpoint->streams;
    OPAL_THREAD_UNLOCK(&component->lock);
    mca_btl_sm_stream_start(xfer);
}

/** Has the peer taken part in one of the last transfers? If not, it is asked now and then. */
static bool responsive(mca_btl_sm_endpoint_t *ep, uint64_t size)
{
    return 0 != (ep->helped & 0xff)
           || 0 == ++ep->unhelped % (size < OFFER_SMALL ? OFFER_EVERY_SMALL : OFFER_EVERY);
}

/** Would the peer help with this one? */
static bool offer(mca_btl_sm_endpoint_t *ep, uint64_t size, void *local_handle)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;

    if (0 == component->cooperate_limit || size < component->cooperate_limit
        || size > BTL_SM_COOP_MAX_LENGTH || component->oversubscribed) {
        return false;
    }
    if (NULL == local_handle && mca_smsc_base_has_feature(MCA_SMSC_FEATURE_REQUIRE_REGISTRATION)) {
        return false; /* the helper could not reach our side */
    }
    return responsive(ep, size);
}

/** Put a transfer on the peer's board; under component->lock. */
static void post(mca_btl_sm_xfer_t *xfer)
{
    mca_btl_sm_endpoint_t *ep = xfer->endpoint;
    uint64_t handle[BTL_SM_HANDLE_MAX / 8];
    uint32_t handle_size = 0;

    if (NULL != xfer->local_handle && 0 < mca_smsc_base_registration_data_size()) {
        handle_size = (uint32_t) mca_smsc_base_registration_data_size();
        if (handle_size > sizeof(handle)) {
            return;
        }
        memcpy(handle, xfer->local_handle, handle_size);
    }
    if (0 == ++ep->generation) {
        ++ep->generation;
    }
    xfer->generation = ep->generation;
    ep->posted = xfer;
    btl_sm_coop_post(board_in(ep->peer, ep->peer_cell), xfer->generation, xfer->op,
                     xfer->remote + xfer->next, (uint64_t) (uintptr_t) xfer->local + xfer->next,
                     xfer->size - xfer->next, mca_btl_sm_component.cooperate_chunk, handle,
                     handle_size);
    btl_sm_doorbell_ring(ep->peer->help, ep->peer_cell);
}

/**
 * Which road for a get or put? Small ones by the fixed limit; large ones by what has proved fastest,
 * as far as the user's limits leave a choice.
 */
static unsigned choose_road(mca_btl_sm_endpoint_t *ep, uint32_t op, uint64_t size,
                            void *local_handle)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    unsigned mask = 1u << BTL_SM_ROAD_ALONE;
    unsigned road;

    if (size < component->single_copy_limit) {
        /* Streaming needs the peer inside the library. A put, an overcommitted node and a peer that
         * has not answered lately are better served without it, unless the user drew the line. */
        if (component->strict_limit) {
            return BTL_SM_ROAD_STREAM;
        }
        if (BTL_SM_BOARD_GET == op && !component->oversubscribed && responsive(ep, size)) {
            return BTL_SM_ROAD_STREAM;
        }
        return BTL_SM_ROAD_ALONE;
    }
    if (!offer(ep, size, local_handle)) {
        return BTL_SM_ROAD_ALONE;
    }
    if (!component->learn_roads) {
        return BTL_SM_ROAD_TOGETHER;
    }
    mask |= 1u << BTL_SM_ROAD_TOGETHER;
    if (BTL_SM_BOARD_GET == op) {
        mask |= 1u << BTL_SM_ROAD_STREAM;
    }
    OPAL_THREAD_LOCK(&component->lock);
    road = btl_sm_learn_choose(&component->learn, size, mask);
    OPAL_THREAD_UNLOCK(&component->lock);
    return road;
}

/** Put a transfer into the table and, where progress has to look after it, on the list; under
 *  component->lock. `direct`: it is not streamed. `key_out`: what names it in records. */
static int enter(mca_btl_sm_xfer_t *xfer, bool direct, uint64_t *key_out)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    mca_btl_sm_endpoint_t *ep = xfer->endpoint;

    if (OPAL_UNLIKELY(ep->failed)) { /* lost since the caller looked */
        return OPAL_ERR_UNREACH;
    }
    xfer->id = opal_pointer_array_add(&component->xfers, xfer);
    if (OPAL_UNLIKELY(0 > xfer->id)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    xfer->number = direct ? 0 : ++ep->streams;
    *key_out = mca_btl_sm_stream_key(xfer);
    if (!direct && !xfer->rescuable) {
        xfer->plain = true;
        ep->plain_streams++;
        return OPAL_SUCCESS;
    }
    opal_list_append(&component->xfers_active, (opal_list_item_t *) xfer);
    xfer->listed = true;
    (void) btl_sm_fetch_add_relaxed(&component->xfer_count, 1);
    if (xfer->together && NULL == ep->posted) {
        post(xfer);
    }
    return OPAL_SUCCESS;
}

static int start(mca_btl_sm_endpoint_t *ep, uint32_t op, void *local, uint64_t remote,
                 void *local_handle, void *remote_handle, size_t size,
                 mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    bool usable, direct, together, rescuable;
    uint64_t start_ns = 0, key;
    unsigned road;
    mca_btl_sm_xfer_t *xfer;
    int rc;

    if (OPAL_UNLIKELY(ep->peer == component->my_segment || 0 == size)) {
        if (BTL_SM_BOARD_GET == op) {
            memmove(local, (void *) (uintptr_t) remote, size);
        } else {
            memmove((void *) (uintptr_t) remote, local, size);
        }
        cbfunc(&mca_btl_sm.super, ep, local, local_handle, cbcontext, cbdata, OPAL_SUCCESS);
        return OPAL_SUCCESS;
    }
    if (OPAL_UNLIKELY(ep->failed)) {
        return OPAL_ERR_UNREACH;
    }
    usable = NULL != ep->smsc && !ep->smsc_refused && mca_btl_sm_endpoint_find_cell(ep);
    road = usable ? choose_road(ep, op, size, local_handle) : BTL_SM_ROAD_STREAM;
    direct = BTL_SM_ROAD_STREAM != road;
    together = BTL_SM_ROAD_TOGETHER == road;
    rescuable = usable && !direct
                && !(component->strict_limit && size < component->single_copy_limit);
    /* Only a transfer that has the stage for itself says something about its road. */
    if (usable && size >= component->single_copy_limit && component->learn_roads
        && 0 == btl_sm_load_relaxed(&component->xfer_count)) {
        start_ns = mca_btl_sm_now_ns();
    }
    if (direct && !together && size <= component->alone_chunk) {
        if (OPAL_LIKELY(OPAL_SUCCESS
                        == mca_btl_sm_copy_range(ep, op, local, remote, size, remote_handle))) {
            mca_btl_sm_count(&component->stats.single_copy_bytes, size);
            if (0 != start_ns) {
                report(road, size, start_ns);
            }
            cbfunc(&mca_btl_sm.super, ep, local, local_handle, cbcontext, cbdata, OPAL_SUCCESS);
            return OPAL_SUCCESS;
        }
        direct = false;
    }

    xfer = (mca_btl_sm_xfer_t *) opal_free_list_get(&component->xfer_list);
    if (NULL == xfer) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    xfer->endpoint = ep;
    xfer->op = op;
    xfer->local = local;
    xfer->remote = remote;
    xfer->size = size;
    xfer->local_handle = local_handle;
    xfer->remote_handle = remote_handle;
    xfer->cbfunc = cbfunc;
    xfer->cbcontext = cbcontext;
    xfer->cbdata = cbdata;
    xfer->next = 0;
    xfer->together = together;
    xfer->road = (uint8_t) road;
    xfer->start_ns = start_ns;
    xfer->reading = false;
    xfer->generation = 0;
    xfer->own_pages = 0;
    xfer->refused_seen = false;
    xfer->range_count = 0;
    xfer->range_at = 0;
    xfer->range_done = 0;
    xfer->listed = false;
    xfer->rescuable = rescuable;
    xfer->plain = false;
    xfer->limit = size;
    xfer->seen = 0;
    xfer->since_ns = 0;
    if (!direct) {
        add_range(xfer, 0, size);
    }

    OPAL_THREAD_LOCK(&component->lock);
    rc = enter(xfer, direct, &key);
    OPAL_THREAD_UNLOCK(&component->lock);
    if (OPAL_UNLIKELY(OPAL_SUCCESS != rc)) {
        opal_free_list_return(&component->xfer_list, (opal_free_list_item_t *) xfer);
        return rc;
    }
    /* From here on another thread may finish the transfer, and its memory may serve the next one. */
    if (!direct) {
        mca_btl_sm_stream_ask(ep, op, key, local, remote, size);
    }
    return OPAL_SUCCESS;
}

int mca_btl_sm_get(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                   void *local_address, uint64_t remote_address,
                   struct mca_btl_base_registration_handle_t *local_handle,
                   struct mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                   int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                   void *cbdata)
{
    (void) btl;
    (void) flags;
    (void) order;
    return start(endpoint, BTL_SM_BOARD_GET, local_address, remote_address, local_handle,
                 remote_handle, size, cbfunc, cbcontext, cbdata);
}

int mca_btl_sm_put(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                   void *local_address, uint64_t remote_address,
                   struct mca_btl_base_registration_handle_t *local_handle,
                   struct mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                   int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                   void *cbdata)
{
    (void) btl;
    (void) flags;
    (void) order;
    return start(endpoint, BTL_SM_BOARD_PUT, local_address, remote_address, local_handle,
                 remote_handle, size, cbfunc, cbcontext, cbdata);
}

/** Copy one range of a transfer; what fails is noted for the stream. */
static bool copy_or_note(mca_btl_sm_xfer_t *xfer, uint64_t offset, uint64_t length)
{
    if (OPAL_LIKELY(!xfer->endpoint->smsc_refused
                    && OPAL_SUCCESS
                           == mca_btl_sm_copy_range(xfer->endpoint, xfer->op, xfer->local + offset,
                                                    xfer->remote + offset, length,
                                                    xfer->remote_handle))) {
        mca_btl_sm_count(&mca_btl_sm_component.stats.single_copy_bytes, length);
        return true;
    }
    add_range(xfer, offset, length);
    return false;
}

/** One step of a transfer that is on the board. Returns events; the transfer may be gone then. */
static int step_together(mca_btl_sm_xfer_t *xfer)
{
    mca_btl_sm_endpoint_t *ep = xfer->endpoint;
    struct btl_sm_board *board = board_in(ep->peer, ep->peer_cell);
    const uint64_t base = xfer->next; /* the board counts from here */
    const uint64_t length = xfer->size - base;
    uint32_t total = btl_sm_coop_pages(length);
    btl_sm_coop_range_t range;
    uint32_t pages, done;

    pages = btl_sm_coop_claim(board, xfer->generation, length, mca_btl_sm_component.cooperate_chunk,
                              &range);
    if (0 != pages) {
        xfer->own_pages += pages;
        if (OPAL_UNLIKELY(!copy_or_note(xfer, base + range.offset, range.length))) {
            pages = btl_sm_coop_claim_rest(board, xfer->generation, length, &range);
            if (0 != pages) {
                xfer->own_pages += pages;
                add_range(xfer, base + range.offset, range.length);
            }
        }
        return 1;
    }
    done = btl_sm_coop_done(board, xfer->generation);
    if (xfer->own_pages + done < total && !xfer->refused_seen) {
        pages = btl_sm_coop_failed(board, xfer->generation, length, &range);
        if (0 != pages) {
            xfer->refused_seen = true;
            xfer->own_pages += pages;
            (void) copy_or_note(xfer, base + range.offset, range.length);
            return 1;
        }
    }
    if (xfer->own_pages + (uint64_t) done < total) {
        return 0; /* the helper is in the middle of a chunk; its death is noticed by the idle poll */
    }
    if (OPAL_UNLIKELY(xfer->own_pages + (uint64_t) done > total)) {
        mca_btl_sm_fault_lost(ep, "it claims to have copied more than there was");
        return 1;
    }
    ep->helped = (ep->helped << 1) | (done > 0);
    if (done > 0) {
        mca_btl_sm_count(&mca_btl_sm_component.stats.cooperated_bytes,
                         (uint64_t) done * BTL_SM_COOP_PAGE);
    }
    settle(xfer);
    return 1;
}

/** One step of a transfer that this process does alone. */
static int step_alone(mca_btl_sm_xfer_t *xfer)
{
    uint64_t left = xfer->size - xfer->next;
    uint64_t len = left < mca_btl_sm_component.alone_chunk ? left
                                                           : mca_btl_sm_component.alone_chunk;

    if (OPAL_UNLIKELY(!copy_or_note(xfer, xfer->next, len))) {
        xfer->ranges[xfer->range_count - 1].length = left;
        len = left;
    }
    xfer->next += len;
    if (xfer->next == xfer->size) {
        settle(xfer);
    }
    return 1;
}

/**
 * @brief Copy one chunk of the oldest transfer that can move.
 * @return events. Context: the thread that holds the progress flag.
 */
int mca_btl_sm_xfer_progress(void)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    opal_list_item_t *item, *next;
    int events = 0;

    component->pass++;
    OPAL_THREAD_LOCK(&component->lock);
    item = opal_list_get_first(&component->xfers_active);
    while (0 == events && item != opal_list_get_end(&component->xfers_active)) {
        mca_btl_sm_xfer_t *xfer = (mca_btl_sm_xfer_t *) item;

        next = opal_list_get_next(item);
        if (xfer->together && 0 == xfer->generation && 0 == xfer->range_count
            && NULL == xfer->endpoint->posted
            && xfer->size - xfer->next >= component->cooperate_limit) {
            post(xfer);
        }
        /* Only this thread takes items off the list, so both stay valid without the lock. */
        OPAL_THREAD_UNLOCK(&component->lock);
        if (xfer->range_count > 0 && 0 == xfer->generation && 0 == xfer->next) {
            /* A stream from the start. Of those from one peer, only the oldest is looked after. */
            if (xfer->rescuable && xfer->endpoint->pass != component->pass) {
                events = mca_btl_sm_stream_rescue(xfer);
            }
            xfer->endpoint->pass = component->pass;
        } else if (BTL_SM_BOARD_GET != xfer->op || reader_enter(xfer)) {
            events = 0 != xfer->generation ? step_together(xfer) : step_alone(xfer);
        }
        OPAL_THREAD_LOCK(&component->lock);
        item = next;
    }
    OPAL_THREAD_UNLOCK(&component->lock);
    return events;
}

/** Help one peer with one chunk. Returns events; 0 means that there is nothing left for us. */
static int help(mca_btl_sm_endpoint_t *ep)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    struct btl_sm_board *board = board_in(component->my_segment, ep->my_cell);
    btl_sm_coop_range_t range;
    uint32_t pages;
    uint64_t chunk;
    int rc;

    if (NULL == ep->view) {
        ep->view = calloc(1, sizeof(*ep->view));
        if (NULL == ep->view) {
            return 0;
        }
    }
    if (ep->failed || NULL == ep->smsc || ep->smsc_refused || !btl_sm_coop_look(board, ep->view)) {
        return 0;
    }
    /* The peer's idea of a chunk, but no more than ours: it bounds how long messages wait here. */
    chunk = ep->view->chunk < component->cooperate_chunk ? ep->view->chunk
                                                         : component->cooperate_chunk;
    pages = btl_sm_coop_claim(board, ep->view->generation, ep->view->length, chunk, &range);
    if (0 == pages) {
        return 0;
    }
    /* The peer pulls what we push and the other way round. */
    rc = mca_btl_sm_copy_range(ep,
                               BTL_SM_BOARD_GET == ep->view->op ? BTL_SM_BOARD_PUT
                                                                : BTL_SM_BOARD_GET,
                               (void *) (uintptr_t) (ep->view->helper_addr + range.offset),
                               ep->view->initiator_addr + range.offset, range.length,
                               0 != ep->view->handle_size ? ep->view->handle : NULL);
    if (OPAL_LIKELY(OPAL_SUCCESS == rc)) {
        btl_sm_coop_finish(board, ep->view, pages);
        mca_btl_sm_count(&component->stats.helped_bytes, range.length);
        return 1;
    }
    btl_sm_coop_refuse(board, ep->view, &range, pages);
    return 0;
}

/**
 * @brief Copy one chunk for a peer, if there is nothing of our own to do.
 * @return events. Context: the thread that holds the progress flag, after all else was idle.
 */
int mca_btl_sm_help_progress(void)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;

    for (uint32_t word = 0; word < component->door_words; ++word) {
        uint64_t bits;

        if (OPAL_LIKELY(0 == btl_sm_load_relaxed(&component->my_segment->help[word])
                        && 0 == component->helping[word])) {
            continue;
        }
        if (component->oversubscribed || 0 != btl_sm_load_relaxed(&component->xfer_count)) {
            return 0;
        }
        component->helping[word] |= btl_sm_doorbell_take(component->my_segment->help, word);
        for (bits = component->helping[word]; 0 != bits; bits &= bits - 1) {
            uint32_t cell = 64 * word + (uint32_t) __builtin_ctzll(bits);
            mca_btl_sm_endpoint_t *ep = NULL;

            if (cell < component->modex.cell_count) {
                OPAL_THREAD_LOCK(&component->lock);
                ep = component->by_cell[cell];
                OPAL_THREAD_UNLOCK(&component->lock);
            }
            if (NULL != ep && 0 != help(ep)) {
                return 1;
            }
            component->helping[word] &= ~(UINT64_C(1) << (cell % 64));
        }
    }
    return 0;
}

/**
 * Take a transfer off the board for good: the peer may be alive, and what it has claimed it still
 * writes into (or reads from) memory that its owner is about to get back.
 */
static void abandon(mca_btl_sm_xfer_t *xfer)
{
    const struct timespec pause = {.tv_sec = 0, .tv_nsec = ABANDON_PAUSE_NS};
    mca_btl_sm_endpoint_t *ep = xfer->endpoint;
    struct btl_sm_board *board = board_in(ep->peer, ep->peer_cell);
    const uint64_t length = xfer->size - xfer->next, start_ns = mca_btl_sm_now_ns();
    const uint32_t total = btl_sm_coop_pages(length);
    uint64_t own = xfer->own_pages;
    btl_sm_coop_range_t range;

    own += btl_sm_coop_claim_rest(board, xfer->generation, length, &range);
    while (own + btl_sm_coop_done(board, xfer->generation)
                   + (xfer->refused_seen
                          ? 0
                          : btl_sm_coop_failed(board, xfer->generation, length, &range))
               < total
           && !mca_btl_sm_fault_gone(ep) && mca_btl_sm_now_ns() - start_ns < ABANDON_WAIT_NS) {
        (void) nanosleep(&pause, NULL);
    }
}

/** @brief The peer is lost or goes away: complete its transfers with an error. */
void mca_btl_sm_xfer_fail(mca_btl_sm_endpoint_t *ep)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    int size;

    OPAL_THREAD_LOCK(&component->lock);
    size = opal_pointer_array_get_size(&component->xfers);
    OPAL_THREAD_UNLOCK(&component->lock);
    for (int i = 0; i < size; ++i) {
        mca_btl_sm_xfer_t *xfer;

        OPAL_THREAD_LOCK(&component->lock);
        xfer = opal_pointer_array_get_item(&component->xfers, i);
        OPAL_THREAD_UNLOCK(&component->lock);
        if (NULL != xfer && xfer->endpoint == ep) {
            if (0 != xfer->generation && ep->posted == xfer) {
                abandon(xfer);
            }
            mca_btl_sm_xfer_complete(xfer, OPAL_ERR_UNREACH);
        }
    }
}

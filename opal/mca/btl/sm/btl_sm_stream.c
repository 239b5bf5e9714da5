/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Get and put through shared memory: the owner of the bytes streams them, the other side stores
 * them, both cores work at the same time on different pieces.
 *
 * Layer 1. Pieces travel in the fast box like messages do, so that they need no memory of their own
 * and cannot starve anything: a piece goes in when there is room, messages come first.
 *
 *   get:  initiator --PULL--> owner;  owner --STREAM, STREAM, ...--> initiator (last one: remain 0)
 *   put:  initiator --PUSH, PUSH, ...--> target;  target --PUSHED--> initiator
 */
#include "opal_config.h"

#include <string.h>
#include <unistd.h>

#include "opal/constants.h"

#include "btl_sm.h"
#include "btl_sm_fault.h"
#include "btl_sm_push.h"

/** Queue a range to be streamed to the peer. */
static int add_job(mca_btl_sm_endpoint_t *ep, uint32_t kind, uint64_t id, uint64_t address,
                   uint64_t target, uint64_t length)
{
    mca_btl_sm_job_t *job = OBJ_NEW(mca_btl_sm_job_t);
    bool lost;

    for (int tries = 1; NULL == job && tries < MCA_BTL_SM_MEMORY_TRIES; ++tries) {
        (void) usleep(MCA_BTL_SM_MEMORY_PAUSE_US);
        job = OBJ_NEW(mca_btl_sm_job_t);
    }
    if (NULL == job) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    job->kind = kind;
    job->id = id;
    job->address = address;
    job->target = target;
    job->length = length;
    job->offset = 0;
    OPAL_THREAD_LOCK(&ep->lock);
    lost = ep->failed;
    if (OPAL_LIKELY(!lost)) {
        opal_list_append(&ep->jobs, &job->super);
        mca_btl_sm_pending_list(ep);
    }
    OPAL_THREAD_UNLOCK(&ep->lock);
    if (OPAL_UNLIKELY(lost)) {
        OBJ_RELEASE(job);
        return OPAL_ERR_UNREACH;
    }
    return OPAL_SUCCESS;
}

/** What names a stream in records: place in the table of transfers, and a number that is never
 *  repeated, so that a late piece is not taken for one of a later transfer. */
uint64_t mca_btl_sm_stream_key(const mca_btl_sm_xfer_t *xfer)
{
    return (xfer->number << 32) | (uint32_t) xfer->id;
}

/** The transfer that a key in a record names, or NULL if it is over. */
static mca_btl_sm_xfer_t *find(mca_btl_sm_endpoint_t *ep, uint64_t key, uint32_t op)
{
    mca_btl_sm_xfer_t *xfer = NULL;

    if ((uint32_t) key <= INT32_MAX) {
        OPAL_THREAD_LOCK(&mca_btl_sm_component.lock);
        xfer = opal_pointer_array_get_item(&mca_btl_sm_component.xfers, (int) (uint32_t) key);
        OPAL_THREAD_UNLOCK(&mca_btl_sm_component.lock);
    }
    if (NULL == xfer || xfer->endpoint != ep || xfer->op != op || mca_btl_sm_stream_key(xfer) != key
        || xfer->range_at >= xfer->range_count) {
        return NULL;
    }
    return xfer;
}

/**
 * @brief Set a stream going.
 * @param[in] key  of a transfer that is in the table; another thread may finish it meanwhile (by
 *                 single copy, or because the peer is lost), so nothing of it is looked at here
 *
 * A request for a transfer that is over does no harm: the stop word came before it.
 */
void mca_btl_sm_stream_ask(mca_btl_sm_endpoint_t *ep, uint32_t op, uint64_t key, const void *local,
                           uint64_t remote, uint64_t length)
{
    int rc;

    if (BTL_SM_BOARD_GET == op) {
        struct btl_sm_rec_pull pull = {.id = key, .address = remote, .length = length};

        rc = mca_btl_sm_send_record(ep, BTL_SM_REC_PULL, &pull, sizeof(pull));
    } else {
        rc = add_job(ep, BTL_SM_REC_PUSH, key, (uint64_t) (uintptr_t) local, remote, length);
    }
    if (OPAL_UNLIKELY(OPAL_SUCCESS != rc)) {
        bool held = mca_btl_sm_progress_hold();
        mca_btl_sm_xfer_t *xfer = find(ep, key, op);

        if (NULL != xfer) {
            mca_btl_sm_xfer_complete(xfer, rc);
        }
        mca_btl_sm_progress_resume(held);
    }
}

/** @brief Start (or go on with) streaming the ranges of a transfer; its number is set. Context: the
 *  thread that holds the progress flag. */
void mca_btl_sm_stream_start(mca_btl_sm_xfer_t *xfer)
{
    const mca_btl_sm_range_t *range = &xfer->ranges[xfer->range_at];
    mca_btl_sm_endpoint_t *ep = xfer->endpoint;

    xfer->range_done = 0;
    xfer->limit = range->length;
    if (!xfer->rescuable && !xfer->plain) {
        OPAL_THREAD_LOCK(&mca_btl_sm_component.lock);
        xfer->plain = true;
        ep->plain_streams++;
        OPAL_THREAD_UNLOCK(&mca_btl_sm_component.lock);
    }
    mca_btl_sm_stream_ask(ep, xfer->op, mca_btl_sm_stream_key(xfer), xfer->local + range->offset,
                          xfer->remote + range->offset, range->length);
}

/** Bytes of pieces written per call, or a box full if that is more: where the other side takes them as
 *  fast as they come, the box has room for ever, and its messages would wait here for that long. */
#define JOBS_MOST (64u * 1024)

/**
 * @brief Put pieces of the endpoint's jobs into the box while there is room; under ep->lock.
 * @return pieces written
 */
int mca_btl_sm_stream_jobs(mca_btl_sm_endpoint_t *ep)
{
    struct btl_sm_cell *cell =
        (struct btl_sm_cell *) (void *) ((char *) mca_btl_sm_component.my_segment
                                         + sizeof(struct btl_sm_segment_hdr))
        + ep->my_cell;
    const size_t bound = ep->tx.size > JOBS_MOST ? ep->tx.size : JOBS_MOST;
    size_t written = 0;
    int pieces = 0;

    while (!opal_list_is_empty(&ep->jobs) && written < bound) {
        mca_btl_sm_job_t *job = (mca_btl_sm_job_t *) opal_list_get_first(&ep->jobs);
        /* Eight pieces to a box: the other side starts early and the box never runs empty. */
        size_t most = ep->tx.size / 8 - BTL_SM_FBOX_HDR - sizeof(struct btl_sm_rec_piece);
        uint64_t left = job->length - job->offset;
        size_t len = left < most ? (size_t) left : most;
        struct btl_sm_rec_piece piece;
        unsigned char *payload;

        /* The asker may have copied the rest itself and finished; then the memory may be gone. */
        if (BTL_SM_REC_STREAM == job->kind
            && job->offset
                   >= btl_sm_stop_limit(btl_sm_load_relaxed(&cell->board.stop), job->id >> 32)) {
            (void) opal_list_remove_first(&ep->jobs);
            OBJ_RELEASE(job);
            continue;
        }
        if (BTL_SM_FBOX_OK != btl_sm_fbox_reserve(&ep->tx, sizeof(piece) + len, &payload)) {
            break;
        }
        piece.id = job->id;
        piece.address = BTL_SM_REC_PUSH == job->kind ? job->target + job->offset : job->offset;
        piece.remain = left - len;
        memcpy(payload, &piece, sizeof(piece));
        memcpy(payload + sizeof(piece), (const void *) (uintptr_t) (job->address + job->offset),
               len);
        mca_btl_sm_push_publish(ep, payload, sizeof(piece) + len, job->kind, 0);
        job->offset += len;
        written += len;
        ++pieces;
        if (job->offset == job->length) {
            (void) opal_list_remove_first(&ep->jobs);
            OBJ_RELEASE(job);
        }
    }
    return pieces;
}

/** @brief A peer asks for a range of our memory. Returns false if the request makes no sense. */
bool mca_btl_sm_stream_pulled(mca_btl_sm_endpoint_t *ep, const unsigned char *bytes, size_t len)
{
    struct btl_sm_rec_pull pull;

    if (sizeof(pull) != len) {
        return false;
    }
    memcpy(&pull, bytes, sizeof(pull));
    if (0 == pull.length || pull.length > UINT64_MAX - pull.address) {
        return false;
    }
    if (OPAL_SUCCESS != add_job(ep, BTL_SM_REC_STREAM, pull.id, pull.address, 0, pull.length)) {
        mca_btl_sm_fault_lost(ep, "there is no memory here for its transfer");
        return false;
    }
    return true;
}

/** Write the stop word of our cell in the peer's segment. */
static void stop_word(mca_btl_sm_endpoint_t *ep, uint64_t number, uint64_t pages)
{
    struct btl_sm_cell *cell = (struct btl_sm_cell *) (void *) ((char *) ep->peer
                                                                + sizeof(struct btl_sm_segment_hdr))
                               + ep->peer_cell;

    ep->stopped = number;
    btl_sm_store_relaxed(&cell->board.stop, btl_sm_stop_pack(number, pages));
}

/** Tell the owner how much of the oldest stream is still wanted. Nothing comes with the word: that
 *  the memory is given back is told by a later message, and who has seen that sees this. */
static void stop_at(mca_btl_sm_xfer_t *xfer, uint64_t bytes)
{
    stop_word(xfer->endpoint, xfer->number, bytes / 4096);
}

/** The number in the stop word has 24 bits. Before one of long ago could be taken for one to come, it
 *  is replaced by one of not so long ago, whose stream and all before it are over. */
static void stop_renew(const mca_btl_sm_xfer_t *xfer)
{
    const uint64_t renewed = btl_sm_stop_renew(xfer->endpoint->stopped, xfer->number);

    if (OPAL_UNLIKELY(0 != renewed)) {
        stop_word(xfer->endpoint, renewed, 0);
    }
}

/** A range is through: the next one, or the end. */
static void range_over(mca_btl_sm_xfer_t *xfer)
{
    mca_btl_sm_count(&mca_btl_sm_component.stats.streamed_bytes,
                     xfer->ranges[xfer->range_at].length);
    stop_renew(xfer);
    if (xfer->rescuable) {
        xfer->endpoint->helped = (xfer->endpoint->helped << 1)
                                 | (xfer->limit > xfer->ranges[0].length / 2);
        xfer->endpoint->unhelped = 0;
        if (xfer->limit < xfer->ranges[0].length) {
            /* The memory is the sender's again from here on: it must not be read any more. */
            stop_at(xfer, 0);
        }
    }
    if (++xfer->range_at < xfer->range_count) {
        OPAL_THREAD_LOCK(&mca_btl_sm_component.lock);
        xfer->number = ++xfer->endpoint->streams;
        OPAL_THREAD_UNLOCK(&mca_btl_sm_component.lock);
        mca_btl_sm_stream_start(xfer);
    } else {
        mca_btl_sm_xfer_complete(xfer, OPAL_SUCCESS);
    }
}

/** @brief A piece of a range that we asked for. Returns false if it is none of ours. */
bool mca_btl_sm_stream_piece(mca_btl_sm_endpoint_t *ep, const unsigned char *bytes, size_t len)
{
    struct btl_sm_rec_piece piece;
    mca_btl_sm_xfer_t *xfer;
    const mca_btl_sm_range_t *range;

    if (sizeof(piece) >= len) {
        return false;
    }
    memcpy(&piece, bytes, sizeof(piece));
    len -= sizeof(piece);
    xfer = find(ep, piece.id, BTL_SM_BOARD_GET);
    if (NULL == xfer) {
        return true; /* we copied the rest ourselves and are through with it */
    }
    range = &xfer->ranges[xfer->range_at];
    if (piece.address != xfer->range_done || len > range->length - xfer->range_done
        || piece.remain != range->length - xfer->range_done - len) {
        return false;
    }
    memcpy(xfer->local + range->offset + xfer->range_done, bytes + sizeof(piece), len);
    xfer->range_done += len;
    if (xfer->range_done >= xfer->limit) {
        range_over(xfer);
    }
    return true;
}

/** How long to wait for the owner to stream before copying without it, in nanoseconds: several times
 *  what an owner needs that is in the library; what a busy owner costs is this, once in
 *  OFFER_EVERY transfers (btl_sm_rdma.c). */
#define PATIENCE_NS 6000

/**
 * @brief Look after a stream whose owner may be busy: copy the end of the range by single copy.
 * @return events; the transfer may be gone then
 *
 * Only for the oldest stream from a peer. Owner and asker work towards each other; what both copy
 * is the same bytes, and pieces are stored by this process only, so nothing is written late.
 */
int mca_btl_sm_stream_rescue(mca_btl_sm_xfer_t *xfer)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    const mca_btl_sm_range_t *range = &xfer->ranges[xfer->range_at];
    uint64_t len, from, now_ns;

    if (0 != xfer->endpoint->plain_streams) {
        return 0;
    }
    now_ns = mca_btl_sm_now_ns();
    if (xfer->range_done != xfer->seen || 0 == xfer->since_ns) {
        xfer->seen = xfer->range_done;
        xfer->since_ns = now_ns;
        return 0;
    }
    if (now_ns - xfer->since_ns < PATIENCE_NS) {
        return 0;
    }
    len = xfer->limit - xfer->range_done;
    if (len > component->cooperate_chunk) {
        len = component->cooperate_chunk;
    }
    from = (xfer->limit - len) / 4096 * 4096;
    if (from < xfer->range_done) {
        from = xfer->range_done;
    }
    stop_at(xfer, from);
    if (OPAL_SUCCESS
        != mca_btl_sm_copy_range(xfer->endpoint, BTL_SM_BOARD_GET,
                                 xfer->local + range->offset + from,
                                 xfer->remote + range->offset + from, xfer->limit - from,
                                 xfer->remote_handle)) {
        /* Then by the stream after all: whatever the owner leaves out now follows as a range. */
        xfer->ranges[xfer->range_count].offset = range->offset + from;
        xfer->ranges[xfer->range_count].length = xfer->limit - from;
        xfer->range_count++;
        xfer->rescuable = false;
    } else {
        mca_btl_sm_count(&component->stats.single_copy_bytes, xfer->limit - from);
    }
    xfer->limit = from;
    if (xfer->range_done >= xfer->limit) {
        range_over(xfer);
    }
    return 1;
}

/** @brief A piece that a peer puts into our memory. Returns false if it makes no sense. */
bool mca_btl_sm_stream_push(mca_btl_sm_endpoint_t *ep, const unsigned char *bytes, size_t len)
{
    struct btl_sm_rec_piece piece;

    if (sizeof(piece) >= len) {
        return false;
    }
    memcpy(&piece, bytes, sizeof(piece));
    len -= sizeof(piece);
    memcpy((void *) (uintptr_t) piece.address, bytes + sizeof(piece), len);
    if (0 == piece.remain) {
        return OPAL_SUCCESS
               == mca_btl_sm_send_record(ep, BTL_SM_REC_PUSHED, &piece.id, sizeof(piece.id));
    }
    return true;
}

/** @brief All pieces of one of our ranges are written. Returns false if it is none of ours. */
bool mca_btl_sm_stream_pushed(mca_btl_sm_endpoint_t *ep, const unsigned char *bytes, size_t len)
{
    mca_btl_sm_xfer_t *xfer;
    uint64_t id;

    if (sizeof(id) != len) {
        return false;
    }
    memcpy(&id, bytes, sizeof(id));
    xfer = find(ep, id, BTL_SM_BOARD_PUT);
    if (NULL == xfer) {
        return false;
    }
    range_over(xfer);
    return true;
}

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Cooperative copy: initiator and helper of one transfer share out its pages.
 *
 * Layer 0. The board lies in the helper's segment (btl_sm_layout.h). The initiator is the process
 * that called get or put and that owns the request; the helper is its peer, which joins in only if
 * it has nothing else to do. All traffic of one board is between these two.
 *
 *   initiator                                    helper
 *   post: description, claim := {g, 0}
 *         generation := g            --POST-->   look: generation g, description
 *   claim: {g, n} -> {g, n + k}     <-claim->    claim: the same word, by compare and swap
 *   copies [n, n + k)                            copies its own [n, n + k)
 *                                   <--DONE--    finish: done := {g, pages so far}
 *   closed when its own pages + done pages = all pages
 *
 * Why no byte is written late: every page is claimed by exactly one side, because the claim word
 * only moves by compare and swap and carries the generation; a helper that still holds an old
 * description fails its next claim, since the generation in the claim word has changed. The
 * initiator completes the request only when all pages that the helper claimed are accounted for in
 * `done`, or given up in `failed`, or when the helper is known to be dead.
 *
 * Pages are BTL_SM_COOP_PAGE bytes counted from the start of the range; 32 bits of pages bound one
 * posting to BTL_SM_COOP_MAX_LENGTH (16 TiB).
 */
#ifndef MCA_BTL_SM_COOP_H
#define MCA_BTL_SM_COOP_H

#include "btl_sm_layout.h"

#define BTL_SM_COOP_PAGE       4096u
#define BTL_SM_COOP_CLOSED     UINT32_C(0xffffffff) /* pages of a claim word nobody may claim from */
#define BTL_SM_COOP_MAX_LENGTH ((uint64_t) BTL_SM_COOP_PAGE * UINT64_C(0xfffffffe))

/** One range that was claimed, in bytes from the start of the transfer. */
typedef struct btl_sm_coop_range {
    uint64_t offset;
    uint64_t length;
} btl_sm_coop_range_t;

/** What a helper read from the board. */
typedef struct btl_sm_coop_view {
    uint32_t generation;
    uint32_t pages_done; /* by this helper in this generation */
    uint64_t helper_addr;
    uint64_t initiator_addr;
    uint64_t length;
    uint64_t chunk;
    uint32_t op;
    uint32_t handle_size;
    uint64_t handle[BTL_SM_HANDLE_MAX / 8];
} btl_sm_coop_view_t;

static inline uint64_t btl_sm_coop_pack(uint32_t generation, uint32_t pages)
{
    return ((uint64_t) generation << 32) | pages;
}

static inline uint32_t btl_sm_coop_pages(uint64_t length)
{
    return (uint32_t) ((length + BTL_SM_COOP_PAGE - 1) / BTL_SM_COOP_PAGE);
}

/**
 * @brief Size of the next claim: half of what is left, within bounds.
 * @param[in] left   pages not claimed yet, > 0
 * @param[in] chunk  most bytes of one claim
 * @return pages, 1 .. left
 *
 * Halves let two sides that start together finish together after one claim each; the lower bound
 * (1/8 of a chunk) keeps the number of system calls small.
 */
static inline uint32_t btl_sm_coop_take(uint32_t left, uint64_t chunk)
{
    uint32_t most = (uint32_t) (chunk / BTL_SM_COOP_PAGE);
    uint32_t least;
    uint32_t take = (left + 1) / 2;

    if (0 == most) {
        most = 1;
    }
    least = most / 8 > 4 ? most / 8 : 4;
    if (least > most) {
        least = most;
    }
    if (take > most) {
        take = most;
    }
    if (take < least) {
        take = least;
    }
    return take < left ? take : left;
}

/**
 * @brief Describe a transfer to the helper.
 * @param[in] board       in the helper's segment; no transfer of this initiator is open on it
 * @param[in] generation  != 0, one more than that of the last posting
 * @param[in] op          BTL_SM_BOARD_GET or _PUT
 * @param[in] helper_addr, initiator_addr  start of the range in each process
 * @param[in] length      bytes, 1 .. BTL_SM_COOP_MAX_LENGTH
 * @param[in] chunk       most bytes of one claim
 * @param[in] handle      the initiator's registration or NULL
 * @param[in] handle_size its size in bytes, <= BTL_SM_HANDLE_MAX, multiple of 8 is read
 *
 * Ordering: the claim word is closed first, the description follows, the claim word opens, the
 * generation comes last. Two stores are releases (BOARD_POST): the generation carries the
 * description to a helper that sees it; the length takes the closing store along. A helper that
 * still has the old generation could claim from the old claim word only with a length larger than
 * the old one, hence the new one, and having acquired that it sees the claim word closed.
 */
static inline void btl_sm_coop_post(struct btl_sm_board *board, uint32_t generation, uint32_t op,
                                    uint64_t helper_addr, uint64_t initiator_addr, uint64_t length,
                                    uint64_t chunk, const uint64_t *handle, uint32_t handle_size)
{
    btl_sm_store_relaxed(&board->claim, btl_sm_coop_pack(generation, BTL_SM_COOP_CLOSED));
    btl_sm_store_relaxed(&board->helper_addr, helper_addr);
    btl_sm_store_relaxed(&board->initiator_addr, initiator_addr);
    btl_sm_store_release(BTL_SM_EDGE_BOARD_POST, &board->length, length);
    btl_sm_store_relaxed(&board->op, (uint64_t) op);
    btl_sm_store_relaxed(&board->chunk, chunk);
    btl_sm_store_relaxed(&board->handle_size, (uint64_t) handle_size);
    for (uint32_t i = 0; i < (handle_size + 7) / 8; ++i) {
        btl_sm_store_relaxed(&board->handle[i], handle[i]);
    }
    btl_sm_store_relaxed(&board->claim, btl_sm_coop_pack(generation, 0));
    btl_sm_store_release(BTL_SM_EDGE_BOARD_POST, &board->generation, (uint64_t) generation);
}

/**
 * @brief Read the description of the open transfer, if there is a new one.
 * @param[in]     board  in the own segment
 * @param[in,out] view   description; view->generation is the last one seen
 * @return 1 if view describes an open transfer, else 0
 *
 * The description may be torn if the initiator posts again meanwhile; then the first claim fails.
 * Ordering: acquires BOARD_POST.
 */
static inline int btl_sm_coop_look(struct btl_sm_board *board, btl_sm_coop_view_t *view)
{
    uint64_t generation = btl_sm_load_acquire(BTL_SM_EDGE_BOARD_POST, &board->generation);

    if (0 == generation) {
        return 0;
    }
    if (view->generation != (uint32_t) generation) {
        view->generation = (uint32_t) generation;
        view->pages_done = 0;
        view->helper_addr = btl_sm_load_relaxed(&board->helper_addr);
        view->initiator_addr = btl_sm_load_relaxed(&board->initiator_addr);
        view->length = btl_sm_load_acquire(BTL_SM_EDGE_BOARD_POST, &board->length);
        view->chunk = btl_sm_load_relaxed(&board->chunk);
        view->op = (uint32_t) btl_sm_load_relaxed(&board->op);
        view->handle_size = (uint32_t) btl_sm_load_relaxed(&board->handle_size);
        if (view->handle_size > BTL_SM_HANDLE_MAX) {
            view->handle_size = 0;
        }
        for (uint32_t i = 0; i < (view->handle_size + 7) / 8; ++i) {
            view->handle[i] = btl_sm_load_relaxed(&board->handle[i]);
        }
    }
    return view->length > 0 && view->length <= BTL_SM_COOP_MAX_LENGTH;
}

/**
 * @brief Claim the next pages of a transfer; both sides use it.
 * @param[in]  board       the board
 * @param[in]  generation  of the transfer
 * @param[in]  length      bytes of the transfer
 * @param[in]  chunk       most bytes to claim
 * @param[out] range_out   what was claimed
 * @return pages claimed; 0 if nothing is left or the transfer is no longer open
 *
 * Ordering: none. The word hands out pages and nothing else; the description came with BOARD_POST,
 * the bytes go back with BOARD_DONE. Cost: one locked operation.
 */
static inline uint32_t btl_sm_coop_claim(struct btl_sm_board *board, uint32_t generation,
                                         uint64_t length, uint64_t chunk,
                                         btl_sm_coop_range_t *range_out)
{
    uint32_t total = btl_sm_coop_pages(length);
    uint64_t seen = btl_sm_load_relaxed(&board->claim);

    for (;;) {
        uint32_t first = (uint32_t) seen;
        uint32_t take;

        if ((uint32_t) (seen >> 32) != generation || first >= total) {
            return 0;
        }
        take = btl_sm_coop_take(total - first, chunk);
        if (btl_sm_cas_relaxed(&board->claim, &seen, btl_sm_coop_pack(generation, first + take))) {
            range_out->offset = (uint64_t) first * BTL_SM_COOP_PAGE;
            range_out->length = (uint64_t) take * BTL_SM_COOP_PAGE;
            if (range_out->length > length - range_out->offset) {
                range_out->length = length - range_out->offset;
            }
            return take;
        }
    }
}

/**
 * @brief Initiator: claim everything that is left, so that nobody else takes part any more.
 * @param[out] range_out  what was claimed
 * @return pages claimed, 0 if nothing was left
 */
static inline uint32_t btl_sm_coop_claim_rest(struct btl_sm_board *board, uint32_t generation,
                                              uint64_t length, btl_sm_coop_range_t *range_out)
{
    uint32_t total = btl_sm_coop_pages(length);
    uint64_t seen = btl_sm_load_relaxed(&board->claim);

    for (;;) {
        uint32_t first = (uint32_t) seen;

        if ((uint32_t) (seen >> 32) != generation || first >= total) {
            return 0;
        }
        if (btl_sm_cas_relaxed(&board->claim, &seen, btl_sm_coop_pack(generation, total))) {
            range_out->offset = (uint64_t) first * BTL_SM_COOP_PAGE;
            range_out->length = length - range_out->offset;
            return total - first;
        }
    }
}

/**
 * @brief Helper: account for pages that are copied.
 *
 * Ordering: releases BOARD_DONE, so that the initiator sees the bytes it read from them.
 */
static inline void btl_sm_coop_finish(struct btl_sm_board *board, btl_sm_coop_view_t *view,
                                      uint32_t pages)
{
    view->pages_done += pages;
    btl_sm_store_release(BTL_SM_EDGE_BOARD_DONE, &board->done,
                         btl_sm_coop_pack(view->generation, view->pages_done));
}

/**
 * @brief Helper: give a claim back undone and take no more part in this transfer.
 * @param[in] range  what was claimed; the initiator does it instead
 * @param[in] pages  its length in pages
 */
static inline void btl_sm_coop_refuse(struct btl_sm_board *board, btl_sm_coop_view_t *view,
                                      const btl_sm_coop_range_t *range, uint32_t pages)
{
    view->length =
        0; /* btl_sm_coop_look() is done with this generation, however often it is rung */
    btl_sm_store_relaxed(&board->failed_first, range->offset / BTL_SM_COOP_PAGE);
    btl_sm_store_release(BTL_SM_EDGE_BOARD_DONE, &board->failed,
                         btl_sm_coop_pack(view->generation, pages));
}

/**
 * @brief Initiator: how many pages the helper has copied in this generation.
 *
 * Ordering: acquires BOARD_DONE.
 */
static inline uint32_t btl_sm_coop_done(struct btl_sm_board *board, uint32_t generation)
{
    uint64_t done = btl_sm_load_acquire(BTL_SM_EDGE_BOARD_DONE, &board->done);

    return (uint32_t) (done >> 32) == generation ? (uint32_t) done : 0;
}

/**
 * @brief Initiator: the claim that the helper gave back in this generation.
 * @param[out] range_out  what is to be copied instead
 * @return its pages, or 0. A helper refuses at most once per generation and claims nothing after.
 *
 * The numbers come from the peer and are checked against the transfer. Ordering: acquires
 * BOARD_DONE.
 */
static inline uint32_t btl_sm_coop_failed(struct btl_sm_board *board, uint32_t generation,
                                          uint64_t length, btl_sm_coop_range_t *range_out)
{
    uint64_t failed = btl_sm_load_acquire(BTL_SM_EDGE_BOARD_DONE, &board->failed);
    uint64_t first = btl_sm_load_relaxed(&board->failed_first);
    uint32_t pages = (uint32_t) failed;
    uint32_t total = btl_sm_coop_pages(length);

    if ((uint32_t) (failed >> 32) != generation || 0 == pages || first >= total
        || pages > total - first) {
        return 0;
    }
    range_out->offset = first * BTL_SM_COOP_PAGE;
    range_out->length = (uint64_t) pages * BTL_SM_COOP_PAGE;
    if (range_out->length > length - range_out->offset) {
        range_out->length = length - range_out->offset;
    }
    return pages;
}

#endif /* MCA_BTL_SM_COOP_H */

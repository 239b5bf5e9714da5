/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The hot path's functions, one each, to be compiled for arm64 and disassembled by test/stress/run:
 * x86 gives every load and store the order that the protocols need, so that nothing that runs on
 * our machines shows whether the compiler was told.
 */
#include "btl_sm_coop.h"
#include "btl_sm_doorbell.h"
#include "btl_sm_fbox.h"
#include "btl_sm_wake.h"

enum btl_sm_fbox_rc arm_reserve(btl_sm_fbox_tx_t *tx, size_t len, unsigned char **payload_out);
void arm_publish(btl_sm_fbox_tx_t *tx, size_t len);
enum btl_sm_fbox_rc arm_peek(const btl_sm_fbox_rx_t *rx, uint64_t *rec_out, unsigned char **out);
void arm_release(btl_sm_fbox_rx_t *rx, uint64_t rec);
void arm_ring(btl_sm_atomic64_t *door, uint32_t cell);
uint64_t arm_take(btl_sm_atomic64_t *door);
uint32_t arm_claim(struct btl_sm_board *board, btl_sm_coop_range_t *range_out);
void arm_announce(struct btl_sm_segment_hdr *own);

enum btl_sm_fbox_rc arm_reserve(btl_sm_fbox_tx_t *tx, size_t len, unsigned char **payload_out)
{
    return btl_sm_fbox_reserve(tx, len, payload_out);
}

void arm_publish(btl_sm_fbox_tx_t *tx, size_t len)
{
    btl_sm_fbox_publish(tx, len, BTL_SM_REC_DATA, 1);
}

enum btl_sm_fbox_rc arm_peek(const btl_sm_fbox_rx_t *rx, uint64_t *rec_out, unsigned char **out)
{
    return btl_sm_fbox_peek(rx, rec_out, out);
}

void arm_release(btl_sm_fbox_rx_t *rx, uint64_t rec)
{
    btl_sm_fbox_release(rx, rec);
}

void arm_ring(btl_sm_atomic64_t *door, uint32_t cell)
{
    btl_sm_doorbell_ring(door, cell);
}

uint64_t arm_take(btl_sm_atomic64_t *door)
{
    return btl_sm_doorbell_take(door, 0);
}

uint32_t arm_claim(struct btl_sm_board *board, btl_sm_coop_range_t *range_out)
{
    return btl_sm_coop_claim(board, 1, 1 << 20, 1 << 16, range_out);
}

void arm_announce(struct btl_sm_segment_hdr *own)
{
    btl_sm_wake_announce(own);
}

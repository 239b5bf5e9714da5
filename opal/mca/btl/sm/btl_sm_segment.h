/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The own segment: create, hand out memory, give a name to, take down; and a peer's: attach, detach.
 *
 * Layer 1.
 */
#ifndef MCA_BTL_SM_SEGMENT_H
#define MCA_BTL_SM_SEGMENT_H

#include "btl_sm.h"

/**
 * @brief Create the own segment and fill in the modex.
 * @param[in] component    parameters are final
 * @param[in] local_count  ranks of this job on this node, >= 1
 * @return OPAL_SUCCESS, or OPAL_ERR_OUT_OF_RESOURCE after one line that says what was needed and
 *         what was found; nothing is left behind then
 *
 * No name exists afterwards: the memory is an unnamed file in the backing directory, or a memfd
 * where that has no room. The header, the cells and one small box per local peer are reserved, so
 * that touching them cannot raise SIGBUS.
 */
int mca_btl_sm_segment_create(mca_btl_sm_component_t *component, uint32_t local_count);

/** @brief Take the own segment down. Peers keep what they have mapped. */
void mca_btl_sm_segment_destroy(mca_btl_sm_component_t *component);

/**
 * @brief Hand out memory of the own segment; under component->lock.
 * @param[in]  size        bytes, a power of two >= 2048
 * @param[in]  bound       where it must end: component->large_end, or the end of the segment for what
 *                         is promised to a peer of another job
 * @param[out] offset_out  offset in the segment, aligned to 2048
 * @return OPAL_SUCCESS, or OPAL_ERR_OUT_OF_RESOURCE if the bound is reached or the system grants no
 *         more blocks
 */
int mca_btl_sm_segment_alloc(mca_btl_sm_component_t *component, size_t size, size_t bound,
                             uint64_t *offset_out);

/**
 * @brief Get memory for the cell of a peer of another job, if it has none; under component->lock.
 * @return OPAL_SUCCESS, or OPAL_ERR_OUT_OF_RESOURCE if the system grants none
 *
 * 64 cells at a time: 56 KiB that most jobs never need.
 */
int mca_btl_sm_segment_furnish_cells(mca_btl_sm_component_t *component, uint32_t cell);

/**
 * @brief Give the file of the own segment a name for peers that cannot use our descriptor table.
 *
 * Called when the modex of a local peer says so. The name is random and travels as the nonce.
 */
void mca_btl_sm_segment_publish_name(mca_btl_sm_component_t *component);

/** @brief Remove that name again (all peers that need it have attached, or we leave). */
void mca_btl_sm_segment_withdraw_name(mca_btl_sm_component_t *component);

/** @brief Does the owner of `a` have to publish a name for the process of `b`? */
bool mca_btl_sm_segment_needs_name(const mca_btl_sm_modex_t *a, const mca_btl_sm_modex_t *b);

/**
 * @brief Map a peer's segment and check that it is the right one.
 * @param[in]  own    our modex
 * @param[in]  modex  the peer's, accepted
 * @param[out] map_out    start of the mapping
 * @param[out] local_out  cells of the peer's own job
 * @return OPAL_SUCCESS, OPAL_ERR_UNREACH (no road to it: another transport has to serve that peer)
 */
int mca_btl_sm_segment_attach(const mca_btl_sm_modex_t *own, const mca_btl_sm_modex_t *modex,
                              struct btl_sm_segment_hdr **map_out, uint32_t *local_out);

#endif /* MCA_BTL_SM_SEGMENT_H */

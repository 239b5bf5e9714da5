/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Set-up and tear-down of the state kept per peer.
 *
 * Layer 1.
 */
#ifndef MCA_BTL_SM_ENDPOINT_H
#define MCA_BTL_SM_ENDPOINT_H

#include "btl_sm.h"

/**
 * @brief Make an endpoint for a process of this node.
 * @param[in]  proc    the process; may be ourselves
 * @param[out] ep_out  the endpoint, untouched on failure
 * @return OPAL_SUCCESS, OPAL_ERR_UNREACH (another transport has to serve this peer) or
 *         OPAL_ERR_OUT_OF_RESOURCE; a failure leaves nothing behind
 *
 * May be called for all peers at once, one at a time, and for peers of other jobs.
 */
int mca_btl_sm_endpoint_create(opal_proc_t *proc, mca_btl_sm_endpoint_t **ep_out);

/** @brief Undo mca_btl_sm_endpoint_create(). Unfinished traffic is dropped. */
void mca_btl_sm_endpoint_destroy(mca_btl_sm_endpoint_t *ep);

/**
 * @brief Find our cell in the peer's segment, if it is not known yet.
 * @return true once it is known. A peer of another job writes it when it adds us.
 */
bool mca_btl_sm_endpoint_find_cell(mca_btl_sm_endpoint_t *ep);

#endif /* MCA_BTL_SM_ENDPOINT_H */

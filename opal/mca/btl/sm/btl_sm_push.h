/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What all sending roads do once a record is in the box.
 *
 * Layer 1.
 */
#ifndef MCA_BTL_SM_PUSH_H
#define MCA_BTL_SM_PUSH_H

#include "btl_sm.h"

/** Records up to this many bytes are demoted: above, the consumer streams them anyway and the
 *  instruction costs more than it brings (10 % lost at 512 B-1 KiB on Sapphire Rapids). */
#define MCA_BTL_SM_DEMOTE_MAX 512

/** @brief Publish a reserved record, hurry its lines towards the peer and wake the peer. */
static inline void mca_btl_sm_push_publish(mca_btl_sm_endpoint_t *ep, const unsigned char *payload,
                                           size_t len, uint32_t kind, uint32_t tag)
{
    btl_sm_fbox_publish(&ep->tx, len, kind, tag);
    if (mca_btl_sm_component.demote && len <= MCA_BTL_SM_DEMOTE_MAX) {
        const unsigned char *line = payload - BTL_SM_FBOX_HDR;

        for (size_t at = 0; at < len + BTL_SM_FBOX_HDR; at += BTL_SM_LINE) {
            btl_sm_line_demote(line + at);
        }
    }
    if (OPAL_UNLIKELY(mca_btl_sm_component.oversubscribed)) {
        btl_sm_wake_order(mca_btl_sm_component.fenced_by_sleepers);
    }
    /* Preparing the box for the next record takes a line away from the peer; a record that follows at
     * once would wait for it. So at once only where messages go out one by one (8 B Sendrecv takes 0.43
     * instead of 0.52 us between distant cores), else when idle. */
    if (!opal_using_threads()) {
        if (1 == ++mca_btl_sm_component.row && mca_btl_sm_component.last_row <= 1) {
            btl_sm_fbox_preclear(&ep->tx);
        } else {
            btl_sm_fbox_claim_ahead(&ep->tx);
            mca_btl_sm_component.sent_last = ep;
        }
    }
    btl_sm_wake_peer(ep->peer);
}

#endif /* MCA_BTL_SM_PUSH_H */

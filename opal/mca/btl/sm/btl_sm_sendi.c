/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Immediate send: header and payload straight into the fast box, no descriptor.
 *
 * Layer 1; the hottest function of the component. Called by ob1 for every message up to the eager
 * limit that is not synchronous, and for its control messages.
 */
#include "opal_config.h"

#include "opal/constants.h"

#include "btl_sm.h"
#include "btl_sm_copy.h"
#include "btl_sm_frag.h"
#include "btl_sm_push.h"

/** Length of ob1's match header, which nearly every call carries; a constant copies faster. */
#define OB1_MATCH_HEADER 14

/** Write header and payload to `to`. Returns the bytes written, less than asked if the convertor
 *  had less. */
static inline size_t gather(unsigned char *to, struct opal_convertor_t *convertor,
                            const void *header, size_t header_size, size_t payload_size)
{
    if (0 == payload_size) {
        /* the convertor may be uninitialized */
        if (OPAL_LIKELY(OB1_MATCH_HEADER == header_size)) {
            btl_sm_copy_small(to, header, OB1_MATCH_HEADER);
        } else {
            btl_sm_copy_small(to, header, header_size);
        }
        return header_size;
    }
    if (OPAL_LIKELY(!opal_convertor_need_buffers(convertor)
                    && !opal_convertor_on_device(convertor))) {
        void *from;

        opal_convertor_get_current_pointer(convertor, &from);
        if (OPAL_LIKELY(OB1_MATCH_HEADER == header_size)) {
            btl_sm_copy_record(to, header, OB1_MATCH_HEADER, from, payload_size);
        } else if (header_size <= BTL_SM_COPY_FIRST) {
            btl_sm_copy_record(to, header, header_size, from, payload_size);
        } else {
            memcpy(to, header, header_size);
            memcpy(to + header_size, from, payload_size);
        }
    } else {
        struct iovec iov = {.iov_base = to + header_size, .iov_len = payload_size};
        uint32_t count = 1;

        btl_sm_copy_small(to, header, header_size);
        (void) opal_convertor_pack(convertor, &iov, &count, &payload_size);
    }
    return header_size + payload_size;
}

/** Everything that is not "the box is open and has room". Returns true if the fast road may be
 *  tried (again). */
static __opal_attribute_noinline__ bool prepare(mca_btl_sm_endpoint_t *ep)
{
    bool open;

    OPAL_THREAD_LOCK(&ep->lock);
    open = mca_btl_sm_box_open(ep) && opal_list_is_empty(&ep->pending);
    OPAL_THREAD_UNLOCK(&ep->lock);
    return open;
}

int mca_btl_sm_sendi(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *ep,
                     struct opal_convertor_t *convertor, void *header, size_t header_size,
                     size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                     mca_btl_base_descriptor_t **descriptor)
{
    const size_t total = header_size + payload_size;

    if (OPAL_LIKELY(total <= ep->fast_max || prepare(ep))) {
        unsigned char *payload;

        OPAL_THREAD_LOCK(&ep->lock);
        if (OPAL_UNLIKELY(0 == --ep->sends && 0 != ep->fast_max)) {
            mca_btl_sm_box_enlarge(ep);
        }
        if (OPAL_LIKELY(total <= ep->fast_max
                        && BTL_SM_FBOX_OK == btl_sm_fbox_reserve(&ep->tx, total, &payload))) {
            size_t len = gather(payload, convertor, header, header_size, payload_size);

            mca_btl_sm_push_publish(ep, payload, len, BTL_SM_REC_DATA, tag);
            OPAL_THREAD_UNLOCK(&ep->lock);
            return OPAL_SUCCESS;
        }
        OPAL_THREAD_UNLOCK(&ep->lock);
    }
    /* ob1 reads this even where it never set it. */
    if (NULL != descriptor) {
        *descriptor = mca_btl_sm_alloc(btl, ep, order, total, flags);
    }
    return OPAL_ERR_OUT_OF_RESOURCE;
}

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Descriptors (see btl_sm_frag.h).
 *
 * Layer 1.
 */
#include "opal_config.h"

#include "opal/constants.h"
#include "opal/mca/mpool/base/base.h"

#include "btl_sm_frag.h"

/** Alignment of the bytes of a descriptor. */
#define FRAG_ALIGNMENT 64

static void frag_construct(mca_btl_sm_frag_t *frag)
{
    frag->base.des_segments = frag->segments;
    frag->base.des_segment_count = 1;
    frag->base.order = MCA_BTL_NO_ORDER;
}

OBJ_CLASS_INSTANCE(mca_btl_sm_frag_t, mca_btl_base_descriptor_t, frag_construct, NULL);
OBJ_CLASS_INSTANCE(mca_btl_sm_xfer_t, opal_free_list_item_t, NULL, NULL);
OBJ_CLASS_INSTANCE(mca_btl_sm_job_t, opal_list_item_t, NULL, NULL);

static int frag_list(opal_free_list_t *list, size_t payload, int max)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;

    return opal_free_list_init(list, sizeof(mca_btl_sm_frag_t), FRAG_ALIGNMENT,
                               OBJ_CLASS(mca_btl_sm_frag_t), payload, FRAG_ALIGNMENT,
                               component->free_list_num, max, component->free_list_inc, NULL, 0,
                               NULL, NULL, NULL);
}

int mca_btl_sm_frag_init(mca_btl_sm_component_t *component)
{
    int rc = frag_list(&component->frags_control, MCA_BTL_SM_CONTROL_SIZE, -1);

    if (OPAL_SUCCESS == rc) {
        rc = frag_list(&component->frags_eager, mca_btl_sm.super.btl_eager_limit,
                       component->free_list_max);
    }
    if (OPAL_SUCCESS == rc) {
        rc = frag_list(&component->frags_max, component->largest_frag, component->free_list_max);
    }
    if (OPAL_SUCCESS == rc) {
        rc = opal_free_list_init(&component->xfer_list, sizeof(mca_btl_sm_xfer_t), 64,
                                 OBJ_CLASS(mca_btl_sm_xfer_t), 0, 0, 0, -1, 64, NULL, 0, NULL, NULL,
                                 NULL);
    }
    return rc;
}

mca_btl_sm_frag_t *mca_btl_sm_frag_get(mca_btl_sm_endpoint_t *ep, size_t size)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    opal_free_list_t *home;
    mca_btl_sm_frag_t *frag;

    if (size <= MCA_BTL_SM_CONTROL_SIZE) {
        home = &component->frags_control;
    } else if (size <= mca_btl_sm.super.btl_eager_limit) {
        home = &component->frags_eager;
    } else if (size <= component->largest_frag) {
        home = &component->frags_max;
    } else {
        return NULL;
    }
    frag = (mca_btl_sm_frag_t *) opal_free_list_get(home);
    if (OPAL_UNLIKELY(NULL == frag)) {
        return NULL;
    }
    frag->home = home;
    frag->endpoint = ep;
    frag->kind = BTL_SM_REC_DATA;
    frag->sent = 0;
    frag->base.des_segments = frag->segments;
    frag->base.des_segment_count = 1;
    frag->base.des_cbfunc = NULL;
    frag->segments[0].seg_addr.pval = frag->base.super.ptr;
    frag->segments[0].seg_len = size;
    return frag;
}

mca_btl_base_descriptor_t *mca_btl_sm_alloc(struct mca_btl_base_module_t *btl,
                                            struct mca_btl_base_endpoint_t *endpoint, uint8_t order,
                                            size_t size, uint32_t flags)
{
    mca_btl_sm_frag_t *frag = mca_btl_sm_frag_get(endpoint, size);

    (void) btl;
    if (OPAL_LIKELY(NULL != frag)) {
        frag->base.des_flags = flags;
        frag->base.order = order;
    }
    return (mca_btl_base_descriptor_t *) frag;
}

int mca_btl_sm_free(struct mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor)
{
    (void) btl;
    mca_btl_sm_frag_return((mca_btl_sm_frag_t *) descriptor);
    return OPAL_SUCCESS;
}

struct mca_btl_base_descriptor_t *mca_btl_sm_prepare_src(struct mca_btl_base_module_t *btl,
                                                         struct mca_btl_base_endpoint_t *endpoint,
                                                         struct opal_convertor_t *convertor,
                                                         uint8_t order, size_t reserve,
                                                         size_t *size, uint32_t flags)
{
    const size_t most = mca_btl_sm.super.btl_max_send_size > mca_btl_sm.super.btl_eager_limit
                            ? mca_btl_sm.super.btl_max_send_size
                            : mca_btl_sm.super.btl_eager_limit;
    bool packed = opal_convertor_need_buffers(convertor) || opal_convertor_on_device(convertor);
    mca_btl_sm_frag_t *frag;

    (void) btl;
    if (OPAL_UNLIKELY(reserve > most)) {
        return NULL;
    }
    if (*size > most - reserve) {
        *size = most - reserve;
    }
    frag = mca_btl_sm_frag_get(endpoint, packed ? reserve + *size : reserve);
    if (OPAL_UNLIKELY(NULL == frag)) {
        return NULL;
    }
    frag->base.order = order;
    frag->base.des_flags = flags;
    if (packed) {
        struct iovec iov = {.iov_base = (char *) frag->segments[0].seg_addr.pval + reserve,
                            .iov_len = *size};
        uint32_t count = 1;

        if (OPAL_UNLIKELY(0 > opal_convertor_pack(convertor, &iov, &count, size))) {
            mca_btl_sm_frag_return(frag);
            return NULL;
        }
        frag->segments[0].seg_len = reserve + *size;
    } else {
        /* In place: the user's memory stays untouched until completion. */
        frag->segments[0].seg_len = reserve;
        opal_convertor_get_current_pointer(convertor, &frag->segments[1].seg_addr.pval);
        frag->segments[1].seg_len = *size;
        frag->base.des_segment_count = 2;
    }
    return &frag->base;
}

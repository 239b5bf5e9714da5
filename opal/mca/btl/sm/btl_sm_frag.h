/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Descriptors.
 *
 * Layer 1. The bytes of a descriptor are private memory, so that a flood of them cannot use up the
 * segment and a slow receiver cannot make a control message fail. Three classes: control (never
 * refused), eager and max (bounded by btl_sm_free_list_max; refused only while others of the class
 * are on their way, whose completion makes the upper layer try again).
 */
#ifndef MCA_BTL_SM_FRAG_H
#define MCA_BTL_SM_FRAG_H

#include "btl_sm.h"

/** @brief Set up the free lists. Returns OPAL_SUCCESS or OPAL_ERR_OUT_OF_RESOURCE. */
int mca_btl_sm_frag_init(mca_btl_sm_component_t *component);

/** @brief A descriptor with room for `size` bytes in segments[0], or NULL. */
mca_btl_sm_frag_t *mca_btl_sm_frag_get(mca_btl_sm_endpoint_t *ep, size_t size);

/** @brief Give a descriptor back to its class. */
static inline void mca_btl_sm_frag_return(mca_btl_sm_frag_t *frag)
{
    opal_free_list_return(frag->home, (opal_free_list_item_t *) frag);
}

/** @brief A message is in the box or dropped: tell the upper layer and free it, as its flags say. */
static inline void mca_btl_sm_frag_complete(mca_btl_sm_frag_t *frag, int status)
{
    bool owned = 0 != (frag->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);

    if (NULL != frag->base.des_cbfunc
        && 0 != (frag->base.des_flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK)) {
        frag->base.des_cbfunc(&mca_btl_sm.super, frag->endpoint, &frag->base, status);
    }
    if (owned) {
        mca_btl_sm_frag_return(frag);
    }
}

/* The verbs of the module (btl.h). */
mca_btl_base_descriptor_t *mca_btl_sm_alloc(struct mca_btl_base_module_t *btl,
                                            struct mca_btl_base_endpoint_t *endpoint, uint8_t order,
                                            size_t size, uint32_t flags);
int mca_btl_sm_free(struct mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor);
struct mca_btl_base_descriptor_t *mca_btl_sm_prepare_src(struct mca_btl_base_module_t *btl,
                                                         struct mca_btl_base_endpoint_t *endpoint,
                                                         struct opal_convertor_t *convertor,
                                                         uint8_t order, size_t reserve,
                                                         size_t *size, uint32_t flags);

#endif /* MCA_BTL_SM_FRAG_H */

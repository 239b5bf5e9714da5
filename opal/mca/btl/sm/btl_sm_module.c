/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The module: adding and removing peers, and the function table.
 *
 * Layer 2. Flags and pointers are decided once, in component_init, and never change: the BML keeps
 * copies of them.
 */
#include "opal_config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "opal/class/opal_bitmap.h"
#include "opal/constants.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"

#include "btl_sm.h"
#include "btl_sm_endpoint.h"
#include "btl_sm_fault.h"
#include "btl_sm_frag.h"
#include "btl_sm_segment.h"

/** Of the peers just added keep those that have added us, too. */
static int keep_mutual(size_t nprocs, struct opal_proc_t **procs,
                       struct mca_btl_base_endpoint_t **peers, opal_bitmap_t *reachability)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    bool own_job = false, all_decided = true;

    for (size_t i = 0; i < nprocs; ++i) {
        bool decided;
        int rc;

        if (procs[i] == opal_proc_local_get()) {
            continue;
        }
        own_job = own_job || procs[i]->proc_name.jobid == OPAL_PROC_MY_NAME.jobid;
        if (NULL == peers[i]) {
            continue;
        }
        /* One peer alone is added by whoever has just met it; the other side may never do that. */
        if (!mca_btl_sm_endpoint_mutual(peers[i], nprocs > 1, &decided)) {
            mca_btl_sm_endpoint_destroy(peers[i]);
            peers[i] = NULL;
            continue;
        }
        all_decided = all_decided && decided;
        rc = NULL == reachability ? OPAL_SUCCESS : opal_bitmap_set_bit(reachability, (int) i);
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
    }
    /* Whoever of our job needed the name has used it: from here on a kill leaves nothing behind. What
     * peers of other jobs need stays, for nobody tells us when they have used it. */
    if (own_job && all_decided) {
        OPAL_THREAD_LOCK(&component->admission);
        mca_btl_sm_segment_withdraw_name(component);
        OPAL_THREAD_UNLOCK(&component->admission);
    }
    return OPAL_SUCCESS;
}

static int add_procs(struct mca_btl_base_module_t *btl, size_t nprocs, struct opal_proc_t **procs,
                     struct mca_btl_base_endpoint_t **peers, opal_bitmap_t *reachability)
{
    int rc;

    (void) btl;
    if (!mca_btl_sm_component.agreed) {
        mca_btl_sm_component.agreed = true;
        mca_btl_sm_endpoint_agree(nprocs, procs);
        if (OPAL_SUCCESS != mca_btl_sm_frag_init(&mca_btl_sm_component)) {
            return OPAL_ERR_OUT_OF_RESOURCE;
        }
    }
    for (size_t i = 0; i < nprocs; ++i) {
        peers[i] = NULL;
        /* Where processes of other jobs (spawned, connected) run is not always known to Open MPI;
         * the attempt shows. */
        if (procs[i] != opal_proc_local_get() && !mca_btl_sm_endpoint_known_local(procs[i])
            && procs[i]->proc_name.jobid == OPAL_PROC_MY_NAME.jobid) {
            continue;
        }
        /* A peer without a road is no error: another transport serves it. */
        (void) mca_btl_sm_endpoint_admit(procs[i], &peers[i]);
    }
    rc = keep_mutual(nprocs, procs, peers, reachability);
    for (size_t i = 0; i < nprocs; ++i) {
        if (NULL == peers[i] && procs[i] != opal_proc_local_get()) {
            mca_btl_sm_component.beyond = true;
        }
    }
    return rc;
}

static int del_procs(struct mca_btl_base_module_t *btl, size_t nprocs, struct opal_proc_t **procs,
                     struct mca_btl_base_endpoint_t **peers)
{
    (void) btl;
    (void) procs;
    for (size_t i = 0; i < nprocs; ++i) {
        /* The BML takes a peer away once for each of its lists, and again after finalize: only an
         * endpoint that we still know is still there. */
        for (int at = 0; at < opal_pointer_array_get_size(&mca_btl_sm_component.endpoints); ++at) {
            if (NULL != peers[i]
                && peers[i] == opal_pointer_array_get_item(&mca_btl_sm_component.endpoints, at)) {
                mca_btl_sm_endpoint_destroy(peers[i]);
                break;
            }
        }
        peers[i] = NULL;
    }
    return OPAL_SUCCESS;
}

static int register_error(struct mca_btl_base_module_t *btl, mca_btl_base_module_error_cb_fn_t cb)
{
    ((mca_btl_sm_t *) btl)->error_cb = cb;
    return OPAL_SUCCESS;
}

static void dump(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *only,
                 int verbose)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;

    (void) btl;
    (void) verbose;
    opal_output(0, "btl/sm: %u active, %u parked peers, %u waiting, %u transfers, %zu of %zu bytes",
                component->active_count, component->parked_count,
                btl_sm_load_relaxed(&component->pending_count),
                btl_sm_load_relaxed(&component->xfer_count), component->arena_used,
                (size_t) component->modex.segment_size);
    for (int i = 0; i < opal_pointer_array_get_size(&component->endpoints); ++i) {
        mca_btl_sm_endpoint_t *ep = opal_pointer_array_get_item(&component->endpoints, i);

        if (NULL == ep || (NULL != only && only != ep)) {
            continue;
        }
        opal_output(0,
                    "btl/sm: peer %u: box %u bytes, %" PRIu64 " out, %" PRIu64
                    " in, %zu waiting, single copy %s%s",
                    NULL == ep->proc ? UINT32_MAX : ep->proc->proc_name.vpid, ep->tx.size,
                    ep->tx.head, ep->rx.consumed, opal_list_get_size(&ep->pending),
                    NULL == ep->smsc ? "not available" : (ep->smsc_refused ? "given up" : "in use"),
                    ep->failed ? ", lost" : "");
    }
}

/** Registration functions of the single-copy provider, in the BTL's clothes. */
static mca_btl_base_registration_handle_t *register_mem(struct mca_btl_base_module_t *btl,
                                                        struct mca_btl_base_endpoint_t *endpoint,
                                                        void *base, size_t size, uint32_t flags)
{
    (void) btl;
    (void) endpoint;
    (void) flags;
    return (mca_btl_base_registration_handle_t *) MCA_SMSC_CALL(register_region, base, size);
}

static int deregister_mem(struct mca_btl_base_module_t *btl,
                          struct mca_btl_base_registration_handle_t *handle)
{
    (void) btl;
    MCA_SMSC_CALL(deregister_region, (void *) handle);
    return OPAL_SUCCESS;
}

/** @brief Offer registration if the single-copy provider needs it. */
void mca_btl_sm_module_register_needed(void)
{
    ssize_t size = mca_smsc_base_registration_data_size();

    if (0 < size && MCA_BTL_REG_HANDLE_MAX_SIZE >= size) {
        mca_btl_sm.super.btl_registration_handle_size = (size_t) size;
        mca_btl_sm.super.btl_register_mem = register_mem;
        mca_btl_sm.super.btl_deregister_mem = deregister_mem;
    }
}

static int finalize(struct mca_btl_base_module_t *btl)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;

    (void) btl;
    for (int i = 0; i < opal_pointer_array_get_size(&component->endpoints); ++i) {
        mca_btl_sm_endpoint_t *ep = opal_pointer_array_get_item(&component->endpoints, i);

        if (NULL != ep) {
            mca_btl_sm_endpoint_destroy(ep);
        }
    }
    mca_btl_sm_segment_destroy(component);
    return OPAL_SUCCESS;
}

mca_btl_sm_t mca_btl_sm = {
    .super =
        {
            .btl_component = &mca_btl_sm_component.super,
            .btl_add_procs = add_procs,
            .btl_del_procs = del_procs,
            .btl_finalize = finalize,
            .btl_alloc = mca_btl_sm_alloc,
            .btl_free = mca_btl_sm_free,
            .btl_prepare_src = mca_btl_sm_prepare_src,
            .btl_send = mca_btl_sm_send,
            .btl_sendi = mca_btl_sm_sendi,
            .btl_put = mca_btl_sm_put,
            .btl_get = mca_btl_sm_get,
            .btl_dump = dump,
            .btl_register_error = register_error,
        },
};

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Endpoints (see btl_sm_endpoint.h).
 *
 * Layer 1. States of an endpoint:
 *
 *   (none) --create--> known --first message out--> sending half open
 *                        |   --doorbell in-------> receiving half open
 *                        +--process ended / bytes impossible--> lost (reported once)
 *   any state --destroy--> (none)
 */
#include "opal_config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "opal/constants.h"
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"

#include "btl_sm_endpoint.h"
#include "btl_sm_fault.h"
#include "btl_sm_segment.h"

#define NO_CELL UINT32_MAX

static struct btl_sm_cell *cell_at(struct btl_sm_segment_hdr *hdr, uint32_t cell)
{
    return (struct btl_sm_cell *) (void *) ((char *) hdr + sizeof(*hdr)) + cell;
}

/** Fetch and check the modex of a peer. */
static int receive_modex(opal_proc_t *proc, mca_btl_sm_modex_t *modex_out)
{
    mca_btl_sm_modex_t *modex = NULL;
    size_t size = 0;
    int rc;

    OPAL_MODEX_RECV(rc, &mca_btl_sm_component.super.btl_version, &proc->proc_name, (void **) &modex,
                    &size);
    if (OPAL_SUCCESS != rc || NULL == modex) {
        free(modex);
        return OPAL_ERR_UNREACH;
    }
    /* Another component of the same name may run in the peer: its bytes mean something else. */
    if (sizeof(*modex) != size || BTL_SM_MAGIC != modex->magic || sizeof(*modex) != modex->size
        || BTL_SM_LAYOUT_VERSION != modex->layout_version || modex->uid != (uint32_t) geteuid()
        || modex->cell_count > BTL_SM_MAX_CELLS || modex->segment_size > (UINT64_C(1) << 44)
        || modex->segment_size
               < sizeof(struct btl_sm_segment_hdr) + modex->cell_count * sizeof(struct btl_sm_cell)
        || 0 == modex->nonce[0] || 0 >= modex->pid) {
        opal_output_verbose(1, opal_btl_base_framework.framework_output,
                            "btl/sm: rank %u speaks another sm protocol (%zu bytes)",
                            proc->proc_name.vpid, size);
        free(modex);
        return OPAL_ERR_UNREACH;
    }
    modex->directory[sizeof(modex->directory) - 1] = '\0';
    *modex_out = *modex;
    free(modex);
    return OPAL_SUCCESS;
}

/** Cell of our segment for a peer: fixed for our own job, first free one for others. */
static uint32_t assign_cell(mca_btl_sm_component_t *component, opal_proc_t *proc,
                            const mca_btl_sm_modex_t *modex)
{
    uint32_t cell = NO_CELL;

    if (proc->proc_name.jobid == OPAL_PROC_MY_NAME.jobid
        && modex->local_rank < component->local_count
        && NULL == component->by_cell[modex->local_rank]) {
        cell = modex->local_rank;
    } else {
        for (uint32_t i = component->local_count; i < component->modex.cell_count; ++i) {
            if (NULL == component->by_cell[i]) {
                cell = i;
                break;
            }
        }
    }
    if (NO_CELL != cell) {
        struct btl_sm_cell *own = cell_at(component->my_segment, cell);

        btl_sm_store_relaxed(&own->box, 0);
        btl_sm_store_relaxed(&own->tail, 0);
        btl_sm_store_relaxed(&own->board.generation, 0);
        btl_sm_store_relaxed(&own->board.done, 0);
        btl_sm_store_relaxed(&own->board.failed, 0);
        btl_sm_store_relaxed(&own->board.stop, 0);
        btl_sm_store_release(BTL_SM_EDGE_CELL, &own->peer_nonce, modex->nonce[0]);
    }
    return cell;
}

bool mca_btl_sm_endpoint_find_cell(mca_btl_sm_endpoint_t *ep)
{
    uint64_t own = mca_btl_sm_component.modex.nonce[0];

    if (NO_CELL != ep->peer_cell) {
        return true;
    }
    for (uint32_t i = 0; i < ep->peer_cells; ++i) {
        if (own == btl_sm_load_acquire(BTL_SM_EDGE_CELL, &cell_at(ep->peer, i)->peer_nonce)) {
            ep->peer_cell = i;
            return true;
        }
    }
    return false;
}

int mca_btl_sm_endpoint_create(opal_proc_t *proc, mca_btl_sm_endpoint_t **ep_out)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    bool self = proc == opal_proc_local_get();
    mca_btl_sm_modex_t modex;
    mca_btl_sm_endpoint_t *ep;
    int rc;

    if (self) {
        modex = component->modex;
    } else {
        rc = receive_modex(proc, &modex);
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
    }
    if (0 != posix_memalign((void **) &ep, 128, (sizeof(*ep) + 127) & ~(size_t) 127)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    memset(ep, 0, sizeof(*ep));
    OBJ_CONSTRUCT(&ep->lock, opal_mutex_t);
    OBJ_CONSTRUCT(&ep->pending, opal_list_t);
    OBJ_CONSTRUCT(&ep->jobs, opal_list_t);
    OBJ_CONSTRUCT(&ep->pending_link, opal_list_item_t);
    ep->proc = proc;
    ep->pid = modex.pid;
    ep->nonce = modex.nonce[0];
    ep->pidfd = -1;
    ep->helped = 0xff; /* until it shows otherwise */
    ep->my_cell = NO_CELL;
    ep->peer_cell = NO_CELL;

    if (self) {
        /* Messages to ourselves are served by btl/self; this endpoint is for get and put only. */
        ep->peer = component->my_segment;
        ep->index = (uint32_t) opal_pointer_array_add(&component->endpoints, ep);
        *ep_out = ep;
        return OPAL_SUCCESS;
    }

    /* Before attaching: the peer may be waiting for our name at this very moment. */
    if (mca_btl_sm_segment_needs_name(&component->modex, &modex)) {
        mca_btl_sm_segment_publish_name(component);
    }
    rc = mca_btl_sm_segment_attach(&component->modex, &modex, &ep->map);
    if (OPAL_SUCCESS != rc) {
        opal_output_verbose(1, opal_btl_base_framework.framework_output,
                            "btl/sm: no road to the memory of rank %u (pid %d)",
                            proc->proc_name.vpid, modex.pid);
        mca_btl_sm_endpoint_destroy(ep);
        return rc;
    }
    ep->peer = ep->map;
    ep->map_size = modex.segment_size;
    ep->peer_cells = modex.cell_count;

    OPAL_THREAD_LOCK(&component->lock);
    ep->my_cell = assign_cell(component, proc, &modex);
    if (NO_CELL != ep->my_cell) {
        component->by_cell[ep->my_cell] = ep;
        ep->index = (uint32_t) opal_pointer_array_add(&component->endpoints, ep);
    }
    OPAL_THREAD_UNLOCK(&component->lock);
    if (NO_CELL == ep->my_cell) {
        mca_btl_sm_endpoint_destroy(ep);
        return OPAL_ERR_UNREACH;
    }
    if (proc->proc_name.jobid == OPAL_PROC_MY_NAME.jobid
        && component->modex.local_rank < modex.cell_count) {
        ep->peer_cell = component->modex.local_rank;
    } else {
        (void) mca_btl_sm_endpoint_find_cell(ep);
    }
    if (NULL != mca_smsc) {
        ep->smsc = MCA_SMSC_CALL(get_endpoint, proc);
    }
    /* A pid of another namespace would name a stranger. */
    if (modex.pid_ns == component->modex.pid_ns) {
        mca_btl_sm_fault_watch(ep);
    }
    for (unsigned i = 0; i < MCA_BTL_SM_CPU_WORDS; ++i) {
        ep->cpus[i] = modex.cpus[i];
        component->cpus_of_all[i] |= modex.cpus[i];
    }
    mca_btl_sm_count_cpus();
    mca_btl_sm_rx_unknown(ep);
    *ep_out = ep;
    return OPAL_SUCCESS;
}

void mca_btl_sm_endpoint_destroy(mca_btl_sm_endpoint_t *ep)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;

    bool held = mca_btl_sm_progress_hold();

    mca_btl_sm_rx_close(ep);
    mca_btl_sm_progress_resume(held);
    mca_btl_sm_fault_unwatch(ep);
    if (NO_CELL != ep->my_cell) {
        mca_btl_sm_pending_drop(ep);
        mca_btl_sm_xfer_fail(ep);
        OPAL_THREAD_LOCK(&component->lock);
        component->by_cell[ep->my_cell] = NULL;
        if (NULL != component->my_segment) {
            btl_sm_store_release(BTL_SM_EDGE_CELL,
                                 &cell_at(component->my_segment, ep->my_cell)->peer_nonce, 0);
        }
        mca_btl_sm_box_give_back(ep);
        OPAL_THREAD_UNLOCK(&component->lock);
    }
    if (NO_CELL != ep->my_cell || ep->peer == component->my_segment) {
        (void) opal_pointer_array_set_item(&component->endpoints, (int) ep->index, NULL);
    }
    if (NULL != ep->smsc) {
        MCA_SMSC_CALL(return_endpoint, ep->smsc);
        ep->smsc = NULL;
    }
    if (NULL != ep->map) {
        (void) munmap(ep->map, ep->map_size);
    }
    free(ep->parts);
    free(ep->view);
    OBJ_DESTRUCT(&ep->pending_link);
    OBJ_DESTRUCT(&ep->jobs);
    OBJ_DESTRUCT(&ep->pending);
    OBJ_DESTRUCT(&ep->lock);
    free(ep);
}

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The component: what MCA calls.
 *
 * Layer 2.
 */
#include "opal_config.h"

#if defined(__x86_64__)
#    include <cpuid.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opal/constants.h"
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"
#include "opal/util/show_help.h"

#include "btl_sm.h"
#include "btl_sm_endpoint.h"
#include "btl_sm_frag.h"
#include "btl_sm_segment.h"

#ifdef SMX_OUT_OF_TREE
#    include "smx_series.h"
SMX_DECLARE_SERIES(btl_sm);
#endif

void mca_btl_sm_module_register_needed(void);

static int component_register(void)
{
#ifdef SMX_OUT_OF_TREE
    if (!smx_series_accept("btl/sm")) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
#endif
    return mca_btl_sm_params_register();
}

static int component_open(void)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;

    component->segment_fd = -1;
    component->epoll_fd = -1;
    component->agreed = false;
    OBJ_CONSTRUCT(&component->admission, opal_mutex_t);
    OBJ_CONSTRUCT(&component->lock, opal_mutex_t);
    OBJ_CONSTRUCT(&component->pending_endpoints, opal_list_t);
    OBJ_CONSTRUCT(&component->sent_late, opal_list_t);
    OBJ_CONSTRUCT(&component->xfers_active, opal_list_t);
    OBJ_CONSTRUCT(&component->xfers, opal_pointer_array_t);
    OBJ_CONSTRUCT(&component->endpoints, opal_pointer_array_t);
    OBJ_CONSTRUCT(&component->frags_control, opal_free_list_t);
    OBJ_CONSTRUCT(&component->frags_eager, opal_free_list_t);
    OBJ_CONSTRUCT(&component->frags_max, opal_free_list_t);
    OBJ_CONSTRUCT(&component->xfer_list, opal_free_list_t);
    return OPAL_SUCCESS;
}

static int component_close(void)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;

    /* Also after an init that was not followed by finalize. */
    mca_btl_sm_segment_destroy(component);
    if (0 <= component->epoll_fd) {
        close(component->epoll_fd);
        component->epoll_fd = -1;
    }
    OBJ_DESTRUCT(&component->xfer_list);
    OBJ_DESTRUCT(&component->frags_max);
    OBJ_DESTRUCT(&component->frags_eager);
    OBJ_DESTRUCT(&component->frags_control);
    OBJ_DESTRUCT(&component->endpoints);
    OBJ_DESTRUCT(&component->xfers);
    OBJ_DESTRUCT(&component->xfers_active);
    OBJ_DESTRUCT(&component->sent_late);
    OBJ_DESTRUCT(&component->pending_endpoints);
    OBJ_DESTRUCT(&component->lock);
    OBJ_DESTRUCT(&component->admission);
    free(component->active);
    free(component->parked);
    free(component->by_cell);
    free(component->free_boxes[0].offset);
    free(component->free_boxes[1].offset);
    component->active = NULL;
    component->parked = NULL;
    component->by_cell = NULL;
    memset(component->free_boxes, 0, sizeof(component->free_boxes));
    return OPAL_SUCCESS;
}

/** Does this CPU do something for cldemote? (CPUID leaf 7, ECX bit 25) */
static bool cpu_has_demote(void)
{
#if defined(__x86_64__)
    unsigned a, b, c = 0, d;

    return 0 != __get_cpuid_count(7, 0, &a, &b, &c, &d) && 0 != (c & (1u << 25));
#else
    return false;
#endif
}

static mca_btl_base_module_t **component_init(int *count_out, bool progress_threads,
                                              bool mpi_threads)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    uint32_t local_count = 1 + opal_process_info.num_local_peers;
    mca_btl_base_module_t **modules;
    uint32_t single_copy_ns;
    int rc;

    (void) progress_threads;
    (void) mpi_threads;
    *count_out = 0;
    component->beyond = opal_process_info.num_procs > local_count;
    single_copy_ns = mca_btl_sm_params_settle(local_count);
    component->demote = cpu_has_demote();
    if (NULL != mca_smsc) {
        mca_btl_sm_module_register_needed();
    }

    modules = calloc(1, sizeof(*modules));
    if (NULL == modules) {
        return NULL;
    }
    if (OPAL_SUCCESS != mca_btl_sm_segment_create(component, local_count)) {
        goto out_segment;
    }
    component->modex.single_copy_ns = single_copy_ns;
    mca_btl_sm_endpoint_locate(component);
    component->active = calloc(component->modex.cell_count, sizeof(*component->active));
    component->parked = calloc(component->modex.cell_count, sizeof(*component->parked));
    component->by_cell = calloc(component->modex.cell_count, sizeof(*component->by_cell));
    if (NULL == component->active || NULL == component->parked || NULL == component->by_cell) {
        goto out_segment;
    }
    /* Of use on this node only, but PMIx keeps what is sent as PMIX_LOCAL from other jobs of the
     * node: a get for it never returns. */
    OPAL_MODEX_SEND(rc, PMIX_GLOBAL, &component->super.btl_version, &component->modex,
                    sizeof(component->modex));
    if (OPAL_SUCCESS != rc) {
        goto out_segment;
    }
    modules[0] = &mca_btl_sm.super;
    *count_out = 1;
    return modules;

out_segment:
    mca_btl_sm_segment_destroy(component);
    free(modules);
    return NULL;
}

mca_btl_sm_component_t mca_btl_sm_component = {
    .super =
        {
            .btl_version =
                {
                    MCA_BTL_DEFAULT_VERSION("sm"),
                    .mca_open_component = component_open,
                    .mca_close_component = component_close,
                    .mca_register_component_params = component_register,
                },
            .btl_data =
                {
                    .param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT,
                },
            .btl_init = component_init,
            .btl_progress = mca_btl_sm_component_progress,
        },
    .segment_fd = -1,
    .epoll_fd = -1,
};
#if defined(MCA_BASE_COMPONENT_INIT)
MCA_BASE_COMPONENT_INIT(opal, btl, sm)
#endif

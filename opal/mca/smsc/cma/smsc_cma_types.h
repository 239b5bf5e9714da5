/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the module and the component of smsc/cma share: the component's data, the endpoint, the
 * counters.
 *
 * Layer: L1, private to this component.
 * Called by smsc_cma_module.c, smsc_cma_component.c.
 */
#ifndef OPAL_MCA_SMSC_CMA_SMSC_CMA_TYPES_H
#define OPAL_MCA_SMSC_CMA_SMSC_CMA_TYPES_H

#include "opal_config.h"

#include "opal/mca/smsc/cma/smsc_cma.h"
#include "opal/mca/smsc/cma/smsc_cma_probe.h"
#include "opal/mca/threads/thread_usage.h"

/** smsc_base_verbose from which refusals are told: any that the user asks for. */
#define MCA_SMSC_CMA_VERBOSE 1

/** What is counted; names and texts in smsc_cma_component.c, same order. */
enum {
    MCA_SMSC_CMA_COPY_FROM_CALLS,
    MCA_SMSC_CMA_COPY_FROM_BYTES,
    MCA_SMSC_CMA_COPY_TO_CALLS,
    MCA_SMSC_CMA_COPY_TO_BYTES,
    MCA_SMSC_CMA_SELF_BYTES,
    MCA_SMSC_CMA_EXTRA_CALLS,
    MCA_SMSC_CMA_SHORT_COPIES,
    MCA_SMSC_CMA_FAILED_COPIES,
    MCA_SMSC_CMA_ENDPOINTS, /**< from here on states, before it counts of copies */
    MCA_SMSC_CMA_WATCHED,
    MCA_SMSC_CMA_TRANSLATED,
    MCA_SMSC_CMA_LOST_PEERS,
    MCA_SMSC_CMA_REFUSED, /**< first of SMSC_CMA_REASON_COUNT - 1, one per reason but "none" */
    MCA_SMSC_CMA_COUNTERS = MCA_SMSC_CMA_REFUSED + SMSC_CMA_REASON_COUNT - 1
};

/** The component: its MCA part and everything that exists once per process. */
typedef struct mca_smsc_cma_component_t {
    mca_smsc_component_t super;
    size_t copy_limit; /**< most bytes for one system call */
    smsc_cma_identity_t identity;
    opal_atomic_size_t counter[MCA_SMSC_CMA_COUNTERS];
} mca_smsc_cma_component_t;

OPAL_DECLSPEC extern mca_smsc_cma_component_t mca_smsc_cma_component;
extern mca_smsc_module_t mca_smsc_cma_module;

typedef struct mca_smsc_cma_endpoint_t {
    mca_smsc_endpoint_t super;
    bool self;                /**< the peer is this process */
    opal_atomic_int32_t lost; /**< OPAL_SUCCESS, or the code that ended this endpoint */
    smsc_cma_peer_t peer;
} mca_smsc_cma_endpoint_t;

OBJ_CLASS_DECLARATION(mca_smsc_cma_endpoint_t);

/** @brief Count; a locked instruction only where Open MPI runs with threads. */
static inline void mca_smsc_cma_count(int counter, size_t amount)
{
    (void) OPAL_THREAD_ADD_FETCH_SIZE_T(&mca_smsc_cma_component.counter[counter], amount);
}

#endif /* OPAL_MCA_SMSC_CMA_SMSC_CMA_TYPES_H */

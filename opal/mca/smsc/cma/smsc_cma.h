/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The functions of the smsc framework as smsc/cma provides them.
 *
 * Layer: L1. Also the direct-call header: in an Open MPI built with this as its only smsc
 * component, smsc.h includes it and MCA_SMSC_CALL(x) becomes mca_smsc_cma_x, so every name of the
 * module structure must be here, those for features that we lack included.
 * Called by whoever uses the framework, in the first place btl/sm.
 */
#ifndef OPAL_MCA_SMSC_CMA_SMSC_CMA_H
#define OPAL_MCA_SMSC_CMA_SMSC_CMA_H

#include "opal_config.h"

#include "opal/mca/smsc/smsc.h"

/**
 * @brief Try a peer in both directions and make an endpoint if that works.
 *
 * @param[in] peer_proc  a process of this node, not necessarily of this job; may be oneself
 * @return a new endpoint, independent of others to the same peer, or NULL: no single copy with this
 *         peer. That is a normal state and silent, but for one line at smsc_base_verbose >= 1.
 * **Context** any thread. **Cost** the modex look-up and about a dozen system calls.
 */
mca_smsc_endpoint_t *mca_smsc_cma_get_endpoint(opal_proc_t *peer_proc);

/** @brief Give an endpoint back. @param[in] endpoint may be NULL; no copy may be under way on it */
void mca_smsc_cma_return_endpoint(mca_smsc_endpoint_t *endpoint);

/**
 * @brief Copy size bytes from local_address into the peer at remote_address.
 *
 * @param[in] reg_data  ignored, may be anything
 * @return OPAL_SUCCESS: all bytes are in the peer that the endpoint was made for; else see
 *         README.md, "Errors". Which bytes of the destination changed is then undefined.
 * **Context** any thread, any number at once; blocks while the kernel copies. **Cost** one system
 * call for each smsc_cma_copy_limit bytes; to oneself a memmove.
 */
int mca_smsc_cma_copy_to(mca_smsc_endpoint_t *endpoint, void *local_address, void *remote_address,
                         size_t size, void *reg_data);

/** @brief Copy size bytes from the peer's remote_address to local_address; else as copy_to. */
int mca_smsc_cma_copy_from(mca_smsc_endpoint_t *endpoint, void *local_address, void *remote_address,
                           size_t size, void *reg_data);

/** @brief The component cannot map peer memory. @return NULL; *local_mapping becomes NULL */
void *mca_smsc_cma_map_peer_region(mca_smsc_endpoint_t *endpoint, uint64_t flags,
                                   void *remote_address, size_t size, void **local_mapping);

/** @brief Nothing to undo. */
void mca_smsc_cma_unmap_peer_region(void *ctx);

/** @brief Memory needs no registration. @return NULL */
void *mca_smsc_cma_register_region(void *local_address, size_t size);

/** @brief Nothing to undo. */
void mca_smsc_cma_deregister_region(void *reg_data);

#endif /* OPAL_MCA_SMSC_CMA_SMSC_CMA_H */

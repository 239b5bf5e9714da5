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
 * @brief The endpoint of a process of this node, made now if there is none yet.
 * @param[in]  proc    the process; may be ourselves
 * @param[out] ep_out  the endpoint, NULL on failure
 * @return OPAL_SUCCESS, OPAL_ERR_UNREACH (another transport has to serve this peer) or
 *         OPAL_ERR_OUT_OF_RESOURCE; a failure leaves nothing behind
 *
 * May be called for all peers at once, one at a time, for peers of other jobs, by several threads,
 * and beside mca_btl_sm_endpoint_greet(), which may have added the process before.
 */
int mca_btl_sm_endpoint_admit(opal_proc_t *proc, mca_btl_sm_endpoint_t **ep_out);

/**
 * @brief Can the peer read what we write? It must have mapped our segment, as we have its.
 * @param[in]  ep           what mca_btl_sm_endpoint_admit() gave, not ourselves
 * @param[in]  wait         the peer does the same at this moment, so wait for its answer
 * @param[out] decided_out  false if the peer has not answered within ten seconds, or has ended
 * @return false: it has tried and failed; another transport has to serve it, on both sides
 *
 * A mapping can fail on one side alone (address space, memory, descriptors), and a message to a peer that
 * does not know us would wait for ever. Waits for peers of the own job only, which do the same at
 * this moment, in MPI_Init; a peer of another job answers in its own time, see "visitors".
 */
bool mca_btl_sm_endpoint_mutual(mca_btl_sm_endpoint_t *ep, bool wait, bool *decided_out);

/**
 * @brief Add the processes of other jobs that have written themselves into our visitors' book.
 *
 * Context: the thread that holds the progress flag. Never waits for another thread.
 */
void mca_btl_sm_endpoint_greet(void);

/**
 * @brief Let go of everything shared with a process of another job that has ended.
 *
 * Jobs come and go while we live, and nobody calls del_procs for them. The endpoint itself stays:
 * upper layers keep pointers to it; from now on it refuses everything.
 * Context: the thread that holds the progress flag.
 */
void mca_btl_sm_endpoint_retire(mca_btl_sm_endpoint_t *ep);

/**
 * @brief Fill in where this process runs, and find out whether what the runtime says about this node
 * is meant for it. Called at start, once there is a segment.
 *
 * PMIx 5.0 keeps the list of a node's ranks under the node's name. Where two nodes have one name,
 * the ranks of the one are given the list of the other and take its ranks for their neighbours, but
 * not the other way round: messages would go out by a road on which nobody listens.
 * A rank that its own list does not name therefore has no neighbours of its job at all.
 */
void mca_btl_sm_endpoint_locate(mca_btl_sm_component_t *component);

/**
 * @brief Agree on limits with the other ranks of this job and node: those of the first of them hold.
 * Called with the first peers that are added, which the upper layers do all at once.
 */
void mca_btl_sm_endpoint_agree(size_t count, opal_proc_t **procs);

/** @brief Is this process known to run on this node? Both ends come to the same answer. */
bool mca_btl_sm_endpoint_known_local(const opal_proc_t *proc);

/** @brief Undo mca_btl_sm_endpoint_admit(). Unfinished traffic is dropped. */
void mca_btl_sm_endpoint_destroy(mca_btl_sm_endpoint_t *ep);

/**
 * @brief Find our cell in the peer's segment, if it is not known yet.
 * @return true once it is known. A peer of another job writes it when it adds us; until then we
 *         are in its visitors' book.
 */
bool mca_btl_sm_endpoint_find_cell(mca_btl_sm_endpoint_t *ep);

#endif /* MCA_BTL_SM_ENDPOINT_H */

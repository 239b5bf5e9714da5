/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Loss of peers: who is gone, and what follows from it.
 *
 * Layer 1. A peer is lost when its process has ended without saying goodbye, or when it wrote
 * something impossible into shared memory. Each loss is reported once, through the error callback
 * that the upper layer registered; after that nothing is sent to that peer or taken from it, and
 * whatever waited for it is completed with an error.
 */
#ifndef MCA_BTL_SM_FAULT_H
#define MCA_BTL_SM_FAULT_H

#include "btl_sm.h"

/** @brief Start watching a peer's process. Failing to is no error: then loss shows itself late. */
void mca_btl_sm_fault_watch(mca_btl_sm_endpoint_t *ep);

/** @brief Stop watching a peer. */
void mca_btl_sm_fault_unwatch(mca_btl_sm_endpoint_t *ep);

/**
 * @brief Look whether watched peers have ended; at most every 20 ms, from an idle poll.
 * @return number of peers that were found lost
 */
int mca_btl_sm_fault_poll(void);

/** @brief Has the process of this peer ended? Asks the kernel. */
bool mca_btl_sm_fault_gone(mca_btl_sm_endpoint_t *ep);

/**
 * @brief Give a peer up.
 * @param[in] why  one line for the user, static text
 *
 * Only from a thread that holds the progress flag and no other lock.
 */
void mca_btl_sm_fault_lost(mca_btl_sm_endpoint_t *ep, const char *why);

/**
 * @brief One line for whoever asked for it by btl_sm_verbose or btl_base_verbose.
 * @param[in] format  of printf, without the component's name and without an end of line
 */
void mca_btl_sm_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Attempts to get memory that a peer's message needs here, and the pause between them in microseconds.
 *  A message cannot be refused any more; a process that is short of memory may get some when others
 *  have gone on. After 0.2 s the peer is given up, with the cause. */
#define MCA_BTL_SM_MEMORY_TRIES    100
#define MCA_BTL_SM_MEMORY_PAUSE_US 2000

#endif /* MCA_BTL_SM_FAULT_H */

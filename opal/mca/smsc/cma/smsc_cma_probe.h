/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Can this peer be copied with? Tried, not inferred: find its pid, read its nonce with the call
 * that will move the data, write a word that is there for the purpose and read it back.
 *
 * Layer: L0. System calls by argument where a test wants to answer them.
 * Called by smsc_cma_module.c when an endpoint is made and when it is returned.
 * Must never: write to a process that has not just shown the nonce; print; parse a sysctl to decide
 * (the explanation of a refusal may look at one).
 */
#ifndef OPAL_MCA_SMSC_CMA_SMSC_CMA_PROBE_H
#define OPAL_MCA_SMSC_CMA_SMSC_CMA_PROBE_H

#include "smsc_cma_copy.h"
#include "smsc_cma_identity.h"
#include "smsc_cma_modex.h"
#include "smsc_cma_reason.h"

/** What the probe needs from outside. */
typedef struct smsc_cma_probe_sys_t {
    smsc_cma_sys_t copy;
    pid_t (*translate)(uint64_t socket_name); /**< smsc_cma_identity_translate */
    /** Map the identity page of pid read-only; NULL if it cannot be done: smsc_cma_probe_map */
    void *(*map)(pid_t pid, const smsc_cma_modex_t *record);
} smsc_cma_probe_sys_t;

/** A peer that passed, or why one did not. */
typedef struct smsc_cma_peer_t {
    smsc_cma_target_t target;
    void *page;                     /**< the peer's identity page mapped here, or NULL */
    smsc_cma_reason_t reason;       /**< SMSC_CMA_REASON_NONE if it passed */
    smsc_cma_direction_t direction; /**< which call was the last tried */
    int error;                      /**< errno of that call, 0 if none */
} smsc_cma_peer_t;

/**
 * @brief Try a peer in both directions.
 *
 * @param[in]  sys      system calls
 * @param[in]  own      identity of the caller
 * @param[in]  record   checked record of the peer
 * @param[in]  scratch  which scratch word of the peer is ours, any number (a rank on this node);
 *                      two users of one word do not disturb the data, only each other's trial,
 *                      which is repeated
 * @param[out] peer     always filled; to be released whatever the result
 * @return peer->reason
 * **Context** any thread. **Cost** about a dozen system calls if the peer passes, one if it is
 * refused.
 */
smsc_cma_reason_t smsc_cma_probe_peer(const smsc_cma_probe_sys_t *sys,
                                      const smsc_cma_identity_t *own,
                                      const smsc_cma_modex_t *record, unsigned int scratch,
                                      smsc_cma_peer_t *peer);

/** @brief Unmap what the probe mapped. */
void smsc_cma_probe_release(smsc_cma_peer_t *peer);

/** @brief The real map function: through the peer's descriptor table in procfs, nothing is
 * created. */
void *smsc_cma_probe_map(pid_t pid, const smsc_cma_modex_t *record);

/**
 * @brief May this process copy with another one, whoever that is?
 *
 * For diagnosis, where there is no record and so no proof of identity: one byte is asked for at an
 * address where no process has memory of its own. The kernel judges the right first and answers
 * EFAULT to who has it; nothing is read or written.
 *
 * @param[in]  sys   system calls
 * @param[in]  pid   any process, as numbered here
 * @param[out] peer  filled as by smsc_cma_probe_peer(), nothing to release
 * @return peer->reason
 */
smsc_cma_reason_t smsc_cma_probe_permission(const smsc_cma_sys_t *sys, pid_t pid,
                                            smsc_cma_peer_t *peer);

/**
 * @brief One line on a refusal: what was tried, what came of it, the likely cause, the cure.
 *
 * @param[in]  peer    as the probe left it
 * @param[in]  record  the peer's record, or NULL if there was none
 * @param[out] text    no newline, always terminated
 * @param[in]  cap     bytes of text; 512 is enough
 * **Cost** some files of /proc are read: for verbose output only.
 */
void smsc_cma_probe_explain(const smsc_cma_peer_t *peer, const smsc_cma_modex_t *record, char *text,
                            size_t cap);

#endif /* OPAL_MCA_SMSC_CMA_SMSC_CMA_PROBE_H */

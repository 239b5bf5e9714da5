/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Why there is no single copy with a peer, in words: what was seen (reason), what is behind it
 * (cause), and what to change (cure).
 *
 * Layer: L0. Reads files of /proc, makes one call on this process itself; no state.
 * Called by smsc_cma_probe.c (verbose output), smsc_cma_component.c (names of counters),
 * contrib/doctor. One text for all of them.
 * Must never: take part in the decision whether a peer is copied with. That is tried; here it is
 * explained.
 */
#ifndef OPAL_MCA_SMSC_CMA_SMSC_CMA_REASON_H
#define OPAL_MCA_SMSC_CMA_SMSC_CMA_REASON_H

#include "smsc_cma_copy.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** What the trial of a peer ended with. The order is that of the table in smsc_cma_reason.c. */
typedef enum smsc_cma_reason_t {
    SMSC_CMA_REASON_NONE,      /**< there is */
    SMSC_CMA_REASON_NO_RECORD, /**< the peer has sent nothing for this component */
    SMSC_CMA_REASON_RECORD,    /**< what it sent is not a record of this version */
    SMSC_CMA_REASON_FORKED,    /**< we are a forked child of the process that belongs to the job */
    SMSC_CMA_REASON_OWN_PID,   /**< the peer's pid means ourselves here */
    SMSC_CMA_REASON_NAMESPACE, /**< its pid namespace cannot be seen from ours */
    SMSC_CMA_REASON_DENIED,    /**< EPERM, EACCES */
    SMSC_CMA_REASON_MISSING,   /**< ENOSYS */
    SMSC_CMA_REASON_INVALID,   /**< EINVAL */
    SMSC_CMA_REASON_EXITED,    /**< ESRCH */
    SMSC_CMA_REASON_STRANGER,  /**< someone has this pid, but not the nonce */
    SMSC_CMA_REASON_SCARCE,    /**< no memory, or interrupted again and again */
    SMSC_CMA_REASON_FAILED,    /**< anything else, for instance a call that moves nothing */
    SMSC_CMA_REASON_COUNT
} smsc_cma_reason_t;

/** What is most likely behind it. The order is that of the table in smsc_cma_reason.c. */
typedef enum smsc_cma_cause_t {
    SMSC_CMA_CAUSE_NONE,
    SMSC_CMA_CAUSE_PLUGIN,         /**< the peer did not load this component */
    SMSC_CMA_CAUSE_VERSION,        /**< it loaded another version */
    SMSC_CMA_CAUSE_FORK,           /**< MPI is used in a forked child */
    SMSC_CMA_CAUSE_PID_NAMESPACE,  /**< the pid means nobody, or somebody else, here */
    SMSC_CMA_CAUSE_SECCOMP,        /**< a filter answers in the kernel's place */
    SMSC_CMA_CAUSE_KERNEL,         /**< the kernel does not have the call */
    SMSC_CMA_CAUSE_OTHER_USER,     /**< the peer's user or group is not ours */
    SMSC_CMA_CAUSE_NOT_DUMPABLE,   /**< the peer is closed to others of its user */
    SMSC_CMA_CAUSE_USER_NAMESPACE, /**< rights are judged in the peer's, where we have none */
    SMSC_CMA_CAUSE_CAPABILITY,     /**< the peer has capabilities that we lack */
    SMSC_CMA_CAUSE_YAMA,           /**< kernel.yama.ptrace_scope */
    SMSC_CMA_CAUSE_LSM,            /**< what is left: another security module */
    SMSC_CMA_CAUSE_ENDED,          /**< the peer is gone */
    SMSC_CMA_CAUSE_EXEC,           /**< it is another program now, or has left MPI */
    SMSC_CMA_CAUSE_MEMORY,         /**< the job's memory limit */
    SMSC_CMA_CAUSE_COUNT
} smsc_cma_cause_t;

/** What diagnose found. */
typedef struct smsc_cma_diagnosis_t {
    smsc_cma_reason_t reason;
    smsc_cma_cause_t cause;
    smsc_cma_direction_t direction; /**< of the call that was refused, if there was one */
    int error;                      /**< its errno, 0 if none */
} smsc_cma_diagnosis_t;

/** @return a word for counters and lists, for instance "denied" */
const char *smsc_cma_reason_name(smsc_cma_reason_t reason);

/** @return what the reason is, in one clause */
const char *smsc_cma_reason_text(smsc_cma_reason_t reason);

/** @return a word for lists, for instance "seccomp" */
const char *smsc_cma_cause_name(smsc_cma_cause_t cause);

/** @return what the cause is, in one clause */
const char *smsc_cma_cause_text(smsc_cma_cause_t cause);

/** @return what to change, in one clause; empty if nothing can be */
const char *smsc_cma_cause_cure(smsc_cma_cause_t cause);

/** @return the name of the system call of this direction */
const char *smsc_cma_call_name(smsc_cma_direction_t direction);

/**
 * @brief Find the likely cause of a refusal.
 *
 * @param[in]  reason      what the trial ended with
 * @param[in]  direction   which call was the last tried
 * @param[in]  error       errno of that call, 0 if none
 * @param[in]  pid         the peer as numbered here
 * @param[in]  start_time  of the peer as it told us itself, 0 if it did not
 * @param[out] diagnosis   always filled
 * **Context** the refused process itself: its own rights and filter are looked at. **Cost** some
 * files of /proc are read: for verbose output only.
 */
void smsc_cma_diagnose(smsc_cma_reason_t reason, smsc_cma_direction_t direction, int error,
                       pid_t pid, uint64_t start_time, smsc_cma_diagnosis_t *diagnosis);

/**
 * @brief The diagnosis as one line: what was tried, what came of it, the likely cause, the cure.
 *
 * @param[out] text  no newline, always terminated
 * @param[in]  cap   bytes of text; 512 is enough
 */
void smsc_cma_diagnosis_text(const smsc_cma_diagnosis_t *diagnosis, char *text, size_t cap);

#endif /* OPAL_MCA_SMSC_CMA_SMSC_CMA_REASON_H */

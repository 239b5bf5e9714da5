/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The copy engine of smsc/cma: moves bytes between this process and one other with
 * process_vm_readv and process_vm_writev.
 *
 * Layer: L0. C11 and libc only; the system calls and the target come in by argument, so the same
 * code runs over a table of false answers in a unit test.
 * Called by smsc_cma_module.c (every copy) and smsc_cma_probe.c (the trial of a new peer).
 * Must never: allocate, log, wait without bound, or report bytes as moved that another process
 * than the target may have delivered or received.
 *
 * Numbers: the kernel moves at most 0x7ffff000 bytes in one call and takes at most 1024 elements
 * on either side (Linux, fs/read_write.c and include/uapi/linux/uio.h); retry bounds are ours.
 */
#ifndef OPAL_MCA_SMSC_CMA_SMSC_CMA_COPY_H
#define OPAL_MCA_SMSC_CMA_SMSC_CMA_COPY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/** Most bytes that Linux moves in one call; more is silently cut. */
#define SMSC_CMA_CALL_MAX ((size_t) 0x7ffff000)

/** Most elements of one side that are handed to one call (the kernel would take 1024; 256 keep the
 * two lists of a call within 8 KiB of stack, and the entry costs nothing next to 256 elements). */
#define SMSC_CMA_IOV_MAX 256

/** Calls in a row that may be interrupted, or find no memory, before a copy gives up. */
#define SMSC_CMA_EINTR_MAX  1000
#define SMSC_CMA_SCARCE_MAX 10

/** Same shape as process_vm_readv and process_vm_writev. */
typedef ssize_t (*smsc_cma_vm_fn_t)(pid_t pid, const struct iovec *local, unsigned long local_count,
                                    const struct iovec *remote, unsigned long remote_count,
                                    unsigned long flags);

/** The system calls of the engine. */
typedef struct smsc_cma_sys_t {
    smsc_cma_vm_fn_t readv;
    smsc_cma_vm_fn_t writev;
    void (*wait)(unsigned int attempt); /**< let time pass between two tries, attempt = 1, 2, .. */
} smsc_cma_sys_t;

typedef enum smsc_cma_direction_t {
    SMSC_CMA_READ,  /**< target to caller */
    SMSC_CMA_WRITE, /**< caller to target */
} smsc_cma_direction_t;

/** How a copy ended. The order is the order of the names in smsc_cma_copy.c. */
typedef enum smsc_cma_status_t {
    SMSC_CMA_OK,          /**< all bytes moved, between the right two processes */
    SMSC_CMA_BAD_ADDRESS, /**< EFAULT: some page of either side cannot be had */
    SMSC_CMA_NO_MEMORY,   /**< ENOMEM, again and again */
    SMSC_CMA_BUSY,        /**< EAGAIN, again and again */
    SMSC_CMA_INTERRUPTED, /**< EINTR, again and again */
    SMSC_CMA_STUCK,       /**< a call moved nothing, or claims more than it was asked for */
    SMSC_CMA_BAD_REQUEST, /**< sides of different length, or a range that wraps; not tried */
    SMSC_CMA_UNKNOWN,     /**< an errno that the calls do not document */
    /* From here on the target is lost for good: see smsc_cma_status_is_final(). */
    SMSC_CMA_DENIED,      /**< EPERM, EACCES */
    SMSC_CMA_UNSUPPORTED, /**< ENOSYS */
    SMSC_CMA_INVALID,     /**< EINVAL although the request was sound */
    SMSC_CMA_GONE,        /**< the target has exited, has called exec, or its pid is another's */
    SMSC_CMA_STATUS_COUNT
} smsc_cma_status_t;

/**
 * Whom to copy with, and how to know that it is still the one.
 *
 * life is a word in memory shared with the target in which the kernel itself sets a bit when the
 * target exits or calls exec, before its address space or its pid can become another's
 * (smsc_cma_identity.h). Where it is NULL, or no longer holds life_value, the nonce in the target's
 * memory is read instead: in the same call for a read, around the call for a write.
 */
typedef struct smsc_cma_target_t {
    pid_t pid;                    /**< as numbered in the caller's pid namespace */
    uint32_t life_value;          /**< what *life holds while the target lives */
    const _Atomic uint32_t *life; /**< or NULL */
    uint64_t nonce;               /**< what is stored at nonce_address */
    uint64_t nonce_address;       /**< in the target's address space */
} smsc_cma_target_t;

/** What a copy did, also when it failed. */
typedef struct smsc_cma_result_t {
    smsc_cma_status_t status;
    int error;           /**< errno behind the status, 0 if there was none */
    size_t done;         /**< bytes from the start of the request that are known to have moved */
    unsigned long calls; /**< system calls for data */
    unsigned long cut;   /**< calls that moved less than they were asked for, but something */
} smsc_cma_result_t;

/**
 * @brief Copy one contiguous range.
 *
 * @param[in]  sys        system calls
 * @param[in]  target     the other process, not the caller itself
 * @param[in]  direction  which way
 * @param[in]  local      address here
 * @param[in]  remote     address in the target
 * @param[in]  len        bytes, any number
 * @param[in]  limit      most data bytes for one call; 0 or too large means SMSC_CMA_CALL_MAX
 * @param[out] result     always filled
 * @return result->status
 *
 * **Context** any thread, any number at once, also on one target. Blocks as long as the kernel
 * copies. **Errors** after a failure result->done bytes are in place and what lies behind them in
 * the destination is undefined. **Cost** two loads of *life (a line that nobody writes) on top of
 * the bare call when len <= limit.
 */
smsc_cma_status_t smsc_cma_copy(const smsc_cma_sys_t *sys, const smsc_cma_target_t *target,
                                smsc_cma_direction_t direction, void *local, uint64_t remote,
                                size_t len, size_t limit, smsc_cma_result_t *result);

/**
 * @brief Copy between two lists of ranges of the same total length.
 *
 * Lists may have any number of elements, empty ones included, cut at different places.
 * Otherwise as smsc_cma_copy().
 */
smsc_cma_status_t smsc_cma_copyv(const smsc_cma_sys_t *sys, const smsc_cma_target_t *target,
                                 smsc_cma_direction_t direction, const struct iovec *local,
                                 size_t local_count, const struct iovec *remote,
                                 size_t remote_count, size_t limit, smsc_cma_result_t *result);

/**
 * @brief Ask, by reading the nonce, whether the pid still belongs to the target.
 *
 * @param[out] error  errno behind the answer, 0 if there was none
 * @return SMSC_CMA_OK, SMSC_CMA_GONE, or why it cannot be told
 * **Cost** one system call.
 */
smsc_cma_status_t smsc_cma_verify(const smsc_cma_sys_t *sys, const smsc_cma_target_t *target,
                                  int *error);

/** @return the status for an errno of process_vm_readv or process_vm_writev */
smsc_cma_status_t smsc_cma_status_of(int error);

/** @return short English text, never NULL */
const char *smsc_cma_status_name(smsc_cma_status_t status);

/** @return true if no later copy with this target can succeed either */
static inline bool smsc_cma_status_is_final(smsc_cma_status_t status)
{
    return SMSC_CMA_DENIED <= status;
}

#endif /* OPAL_MCA_SMSC_CMA_SMSC_CMA_COPY_H */

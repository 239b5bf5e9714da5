/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The copy loop of smsc/cma; contract in smsc_cma_copy.h.
 *
 * Layer: L0. Called by smsc_cma_module.c, smsc_cma_probe.c.
 * Must never: trust a return value beyond what was asked for, or go round without progress.
 *
 * Why the identity checks are enough. A call takes hold of the target's address space once, at its
 * start, and works on that one to its end. If the life word still says "alive" after the call, then
 * the kernel had not begun to take the target's address space away when the call looked it up,
 * because it marks the word first; so the call worked on the target. Without the word, a read
 * fetches the nonce in the same call, from the same address space. A write is preceded by
 * a check, so that a stranger is not written to, and followed by one, so that it is not reported as
 * delivered. Between check and write the target could still call exec; it takes the kernel longer
 * to build a new address space than us to enter the call, but nothing forbids it.
 */
#include "opal_config.h"

#include "smsc_cma_copy.h"

#include <errno.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)

/** Position in a list of ranges. */
typedef struct cursor_t {
    const struct iovec *iov;
    size_t count;  /* elements from iov on */
    size_t offset; /* bytes of iov[0] that are done */
} cursor_t;

/** The elements of one call. One more than the data needs, for the nonce. */
typedef struct window_t {
    struct iovec iov[SMSC_CMA_IOV_MAX + 1];
    unsigned long count;
    size_t bytes; /* of data */
} window_t;

/** Consecutive calls without progress, by cause. */
typedef struct patience_t {
    unsigned int interrupted;
    unsigned int scarce;
} patience_t;

static inline bool alive(const smsc_cma_target_t *target)
{
    /* Acquire: the call before this load looked the address space up under a lock that its removal
     * takes after marking the word; the load must not move ahead of the call. */
    return NULL != target->life
           && target->life_value == atomic_load_explicit(target->life, memory_order_acquire);
}

smsc_cma_status_t smsc_cma_status_of(int error)
{
    switch (error) {
    case EFAULT:
        return SMSC_CMA_BAD_ADDRESS;
    case ENOMEM:
        return SMSC_CMA_NO_MEMORY;
    case EAGAIN:
        return SMSC_CMA_BUSY;
    case EINTR:
        return SMSC_CMA_INTERRUPTED;
    case EPERM:
    case EACCES:
        return SMSC_CMA_DENIED;
    case ENOSYS:
        return SMSC_CMA_UNSUPPORTED;
    case EINVAL:
        return SMSC_CMA_INVALID;
    case ESRCH:
        return SMSC_CMA_GONE;
    default:
        return SMSC_CMA_UNKNOWN;
    }
}

const char *smsc_cma_status_name(smsc_cma_status_t status)
{
    static const char *const names[SMSC_CMA_STATUS_COUNT] = {
        [SMSC_CMA_OK] = "done",
        [SMSC_CMA_BAD_ADDRESS] = "memory that cannot be reached",
        [SMSC_CMA_NO_MEMORY] = "kernel out of memory",
        [SMSC_CMA_BUSY] = "kernel resource busy",
        [SMSC_CMA_INTERRUPTED] = "interrupted too often",
        [SMSC_CMA_STUCK] = "call without progress",
        [SMSC_CMA_BAD_REQUEST] = "malformed request",
        [SMSC_CMA_UNKNOWN] = "unexpected error",
        [SMSC_CMA_DENIED] = "permission denied",
        [SMSC_CMA_UNSUPPORTED] = "system call not available",
        [SMSC_CMA_INVALID] = "call rejected as invalid",
        [SMSC_CMA_GONE] = "process is gone",
    };

    return (unsigned int) status < SMSC_CMA_STATUS_COUNT ? names[status] : "unknown status";
}

/** Whether to try once more after error; counts and, where time may help, lets some pass. */
static bool may_retry(const smsc_cma_sys_t *sys, patience_t *patience, int error)
{
    if (EINTR == error) {
        return SMSC_CMA_EINTR_MAX > patience->interrupted++;
    }
    if ((ENOMEM == error || EAGAIN == error) && SMSC_CMA_SCARCE_MAX > patience->scarce) {
        sys->wait(++patience->scarce);
        return true;
    }
    return false;
}

smsc_cma_status_t smsc_cma_verify(const smsc_cma_sys_t *sys, const smsc_cma_target_t *target,
                                  int *error)
{
    patience_t patience = {0};
    uint64_t seen = ~target->nonce;
    const struct iovec here = {.iov_base = &seen, .iov_len = sizeof(seen)};
    const struct iovec there = {.iov_base = (void *) (uintptr_t) target->nonce_address,
                                .iov_len = sizeof(seen)};
    ssize_t moved;

    do {
        moved = sys->readv(target->pid, &here, 1, &there, 1, 0);
        *error = 0 > moved ? errno : 0;
    } while (0 > moved && may_retry(sys, &patience, *error));

    if ((ssize_t) sizeof(seen) == moved) {
        return target->nonce == seen ? SMSC_CMA_OK : SMSC_CMA_GONE;
    }
    if (0 <= moved) {
        return SMSC_CMA_STUCK;
    }
    /* Whoever has this pid has no page there: not the process that told us of it. */
    return EFAULT == *error ? SMSC_CMA_GONE : smsc_cma_status_of(*error);
}

/** Append the next elements of from, at most room bytes of them. */
static void window_fill(window_t *window, const cursor_t *from, size_t room)
{
    const unsigned long end = window->count + SMSC_CMA_IOV_MAX;
    size_t offset = from->offset;

    window->bytes = 0;
    for (size_t i = 0; from->count > i && end > window->count && window->bytes < room; ++i) {
        const size_t left = from->iov[i].iov_len - offset;
        const size_t len = left < room - window->bytes ? left : room - window->bytes;

        if (0 < len) {
            window->iov[window->count].iov_base = (char *) from->iov[i].iov_base + offset;
            window->iov[window->count++].iov_len = len;
            window->bytes += len;
        }
        offset = 0;
    }
}

/** Drop what lies behind the first bytes bytes of data; the window holds at least that much. */
static void window_trim(window_t *window, size_t bytes)
{
    while (window->bytes > bytes) {
        struct iovec *last = &window->iov[window->count - 1];
        const size_t excess = window->bytes - bytes;

        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): filled below count */
        if (last->iov_len > excess) {
            last->iov_len -= excess;
            window->bytes = bytes;
        } else {
            window->bytes -= last->iov_len;
            --window->count;
        }
    }
}

static void cursor_advance(cursor_t *cursor, size_t bytes)
{
    cursor->offset += bytes;
    while (0 < cursor->count && cursor->offset >= cursor->iov->iov_len) {
        cursor->offset -= cursor->iov->iov_len;
        ++cursor->iov;
        --cursor->count;
    }
}

/** Sum of a list, or false if it cannot be a list of ranges. */
static bool total_of(const struct iovec *iov, size_t count, size_t *total_out)
{
    size_t total = 0;

    for (size_t i = 0; i < count; ++i) {
        if (UINTPTR_MAX - (uintptr_t) iov[i].iov_base < iov[i].iov_len
            || SIZE_MAX - total < iov[i].iov_len) {
            return false;
        }
        total += iov[i].iov_len;
    }
    *total_out = total;
    return true;
}

/** One call for data, with what happened to it. */
typedef struct round_t {
    smsc_cma_status_t status;
    int error;
    size_t moved; /* data bytes, between the right processes */
} round_t;

/** Turn what a call returned into a round; skip bytes in front of the data do not count. */
static round_t round_of(ssize_t returned, size_t skip, size_t asked)
{
    if (0 > returned) {
        return (round_t) {.status = smsc_cma_status_of(errno), .error = errno};
    }
    if ((size_t) returned > asked + skip || (size_t) returned < skip || 0 == returned) {
        return (round_t) {.status = SMSC_CMA_STUCK};
    }
    if ((size_t) returned == skip) {
        /* The nonce came and the data did not: only a page that cannot be had does that. */
        return (round_t) {.status = SMSC_CMA_BAD_ADDRESS, .error = EFAULT};
    }
    return (round_t) {.status = SMSC_CMA_OK, .moved = (size_t) returned - skip};
}

/** A failed call whose cause may be that the target is no longer there: ask. */
static round_t settle(const smsc_cma_sys_t *sys, const smsc_cma_target_t *target, round_t round)
{
    int error;
    const smsc_cma_status_t status = smsc_cma_verify(sys, target, &error);

    if (SMSC_CMA_OK == status) {
        return round;
    }
    return (round_t) {.status = status, .error = error};
}

/** Read with the nonce in front; windows have their data from element 1 on. */
static round_t read_with_nonce(const smsc_cma_sys_t *sys, const smsc_cma_target_t *target,
                               window_t *here, window_t *there)
{
    uint64_t seen = ~target->nonce;
    round_t round;

    here->iov[0] = (struct iovec) {.iov_base = &seen, .iov_len = sizeof(seen)};
    there->iov[0] = (struct iovec) {.iov_base = (void *) (uintptr_t) target->nonce_address,
                                    .iov_len = sizeof(seen)};
    round = round_of(sys->readv(target->pid, here->iov, here->count, there->iov, there->count, 0),
                     sizeof(seen), here->bytes);
    if (target->nonce == seen
        || (SMSC_CMA_OK != round.status && SMSC_CMA_BAD_ADDRESS != round.status)) {
        return round;
    }
    if (SMSC_CMA_OK == round.status) {
        return (round_t) {.status = SMSC_CMA_GONE};
    }
    /* Either a stranger, or an address here that the kernel rejects before it looks there. */
    return settle(sys, target, round);
}

/** Write between two looks at the nonce; the one before was made by the caller. */
static round_t write_then_verify(const smsc_cma_sys_t *sys, const smsc_cma_target_t *target,
                                 const window_t *here, const window_t *there)
{
    const round_t round = round_of(sys->writev(target->pid, here->iov + 1, here->count - 1,
                                               there->iov + 1, there->count - 1, 0),
                                   0, here->bytes);

    if (SMSC_CMA_OK != round.status && SMSC_CMA_BAD_ADDRESS != round.status) {
        return round;
    }
    return settle(sys, target, round);
}

/** One round of the loop: at most one call that moves data. *verified: the nonce was just seen. */
static round_t one_round(const smsc_cma_sys_t *sys, const smsc_cma_target_t *target,
                         smsc_cma_direction_t direction, window_t *here, window_t *there,
                         bool *verified)
{
    const smsc_cma_vm_fn_t call = SMSC_CMA_READ == direction ? sys->readv : sys->writev;
    round_t round;

    if (alive(target)) {
        round = round_of(call(target->pid, here->iov + 1, here->count - 1, there->iov + 1,
                              there->count - 1, 0),
                         0, here->bytes);
        if (LIKELY(alive(target))) {
            return round;
        }
        if (SMSC_CMA_WRITE == direction) {
            return settle(sys, target, round);
        }
        /* The word changed during a read: what came may be a stranger's. Once more, with proof. */
    }
    if (SMSC_CMA_READ == direction) {
        return read_with_nonce(sys, target, here, there);
    }
    if (!*verified) {
        int error;
        const smsc_cma_status_t status = smsc_cma_verify(sys, target, &error);

        if (SMSC_CMA_OK != status) {
            return (round_t) {.status = status, .error = error};
        }
    }
    round = write_then_verify(sys, target, here, there);
    *verified = SMSC_CMA_OK == round.status;
    return round;
}

/** The general loop: any lists, any answers. Starts where result->done says. */
static smsc_cma_status_t copy_loop(const smsc_cma_sys_t *sys, const smsc_cma_target_t *target,
                                   smsc_cma_direction_t direction, cursor_t local, cursor_t remote,
                                   size_t total, size_t limit, smsc_cma_result_t *result)
{
    patience_t patience = {0};
    bool verified = false;
    window_t here, there;

    cursor_advance(&local, result->done);
    cursor_advance(&remote, result->done);
    while (total > result->done) {
        round_t round;

        /* Element 0 stays free for the nonce. */
        here.count = there.count = 1;
        window_fill(&here, &local, limit);
        window_fill(&there, &remote, here.bytes);
        window_trim(&here, there.bytes);

        round = one_round(sys, target, direction, &here, &there, &verified);
        ++result->calls;
        if (SMSC_CMA_OK != round.status) {
            if (may_retry(sys, &patience, round.error)) {
                continue;
            }
            result->error = round.error;
            return result->status = round.status;
        }
        if (round.moved < here.bytes) {
            ++result->cut;
        }
        patience = (patience_t) {0};
        result->done += round.moved;
        cursor_advance(&local, round.moved);
        cursor_advance(&remote, round.moved);
    }
    result->error = 0;
    return result->status = SMSC_CMA_OK;
}

/** Room must remain for the nonce in what the kernel moves at most. */
static inline size_t sane_limit(size_t limit)
{
    const size_t most = SMSC_CMA_CALL_MAX - sizeof(uint64_t);

    return 0 == limit || most < limit ? most : limit;
}

smsc_cma_status_t smsc_cma_copyv(const smsc_cma_sys_t *sys, const smsc_cma_target_t *target,
                                 smsc_cma_direction_t direction, const struct iovec *local,
                                 size_t local_count, const struct iovec *remote,
                                 size_t remote_count, size_t limit, smsc_cma_result_t *result)
{
    size_t local_total, remote_total;

    *result = (smsc_cma_result_t) {.status = SMSC_CMA_BAD_REQUEST};
    if (!total_of(local, local_count, &local_total)
        || !total_of(remote, remote_count, &remote_total) || local_total != remote_total) {
        return SMSC_CMA_BAD_REQUEST;
    }
    return copy_loop(sys, target, direction, (cursor_t) {.iov = local, .count = local_count},
                     (cursor_t) {.iov = remote, .count = remote_count}, local_total,
                     sane_limit(limit), result);
}

smsc_cma_status_t smsc_cma_copy(const smsc_cma_sys_t *sys, const smsc_cma_target_t *target,
                                smsc_cma_direction_t direction, void *local, uint64_t remote,
                                size_t len, size_t limit, smsc_cma_result_t *result)
{
    const struct iovec here = {.iov_base = local, .iov_len = len};
    const struct iovec there = {.iov_base = (void *) (uintptr_t) remote, .iov_len = len};

    *result = (smsc_cma_result_t) {.status = SMSC_CMA_BAD_REQUEST};
    if (UINTPTR_MAX - (uintptr_t) local < len || UINTPTR_MAX < remote
        || UINTPTR_MAX - (uintptr_t) remote < len) {
        return SMSC_CMA_BAD_REQUEST;
    }
    limit = sane_limit(limit);

    /* Nearly every copy: one call, all bytes, target alive before and after. */
    if (LIKELY(len <= limit && 0 < len && alive(target))) {
        const smsc_cma_vm_fn_t call = SMSC_CMA_READ == direction ? sys->readv : sys->writev;
        const ssize_t moved = call(target->pid, &here, 1, &there, 1, 0);

        result->calls = 1;
        if (LIKELY(alive(target))) {
            if (LIKELY((ssize_t) len == moved)) {
                result->done = len;
                return result->status = SMSC_CMA_OK;
            }
            if (0 < moved && (size_t) moved < len) {
                result->done = (size_t) moved;
                result->cut = 1;
            }
        }
        /* What is missing, and what went wrong, is for the general loop to find out. */
    }
    return copy_loop(sys, target, direction, (cursor_t) {.iov = &here, .count = 1},
                     (cursor_t) {.iov = &there, .count = 1}, len, limit, result);
}

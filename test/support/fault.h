/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A process_vm_readv and process_vm_writev that obey a script: for the copy engine's unit tests.
 *
 * The "other process" is this one, so a scripted success moves real bytes. The rules that the
 * kernel has for everybody are kept: at most 1024 elements, at most 0x7ffff000 bytes, a stop at
 * the first byte of a hole. One script at a time; not for threads.
 */
#ifndef SMX_TEST_FAULT_H
#define SMX_TEST_FAULT_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>

#define FAULT_CALL_MAX ((size_t) 0x7ffff000)

/** What one call answers. */
typedef struct fault_answer_t {
    int error;    /**< not 0: fail with this errno */
    bool lie;     /**< return moved without moving anything */
    ssize_t most; /**< move at most this many bytes; with lie: return this */
} fault_answer_t;

#define FAULT_ALL       ((fault_answer_t) {.most = SSIZE_MAX})
#define FAULT_SHORT(n)  ((fault_answer_t) {.most = (n)})
#define FAULT_ERROR(e)  ((fault_answer_t) {.error = (e)})
#define FAULT_RETURN(n) ((fault_answer_t) {.lie = true, .most = (n)})

typedef struct fault_state_t {
    const fault_answer_t *script; /**< answers of the first calls */
    size_t script_len;
    fault_answer_t after;               /**< of all later ones */
    void (*before)(unsigned long call); /**< run before call number 0, 1, ..; may be NULL */
    void (*behind)(unsigned long call); /**< run after it */
    uintptr_t hole, hole_end;           /**< remote addresses that cannot be had */
    bool ghost; /**< move nothing, but require that calls follow one another */

    unsigned long calls, reads, writes, waits;
    size_t largest; /**< most bytes that a call was asked for */
    unsigned long most_elements;
    pid_t pid;                           /**< of the last call */
    uintptr_t ghost_local, ghost_remote; /**< where the next call of a ghost run has to start */
    uint64_t ghost_total;
    bool broken; /**< the engine did something that it must not */
} fault_state_t;

static fault_state_t fault;

/** @brief Start a run: everything succeeds until a script is set. */
static inline void fault_reset(void)
{
    fault = (fault_state_t) {.after = FAULT_ALL};
}

static inline size_t fault_total(const struct iovec *iov, unsigned long count)
{
    size_t total = 0;

    for (unsigned long i = 0; i < count; ++i) {
        total += iov[i].iov_len;
    }
    return total;
}

/** Move up to most bytes; stops at the hole. */
static inline size_t fault_move(const struct iovec *local, unsigned long nlocal,
                                const struct iovec *remote, unsigned long nremote, size_t most,
                                bool reading)
{
    size_t done = 0, at_local = 0, at_remote = 0;
    unsigned long l = 0, r = 0;

    while (done < most && l < nlocal && r < nremote) {
        size_t len = local[l].iov_len - at_local;
        char *here = (char *) local[l].iov_base + at_local;
        char *there = (char *) remote[r].iov_base + at_remote;

        len = len < remote[r].iov_len - at_remote ? len : remote[r].iov_len - at_remote;
        len = len < most - done ? len : most - done;
        if (fault.hole <= (uintptr_t) there && fault.hole_end > (uintptr_t) there) {
            break;
        }
        if (fault.hole > (uintptr_t) there && fault.hole < (uintptr_t) there + len) {
            len = fault.hole - (uintptr_t) there;
        }
        if (fault.ghost) {
            /* The nonce, if there is one, is real memory and no part of the run. */
            if (8 == len && 0 == done && 1 < nremote) {
                memcpy(here, there, len);
            } else {
                fault.broken |= (0 != fault.ghost_total
                                 && (fault.ghost_local != (uintptr_t) here
                                     || fault.ghost_remote != (uintptr_t) there));
                fault.ghost_local = (uintptr_t) here + len;
                fault.ghost_remote = (uintptr_t) there + len;
                fault.ghost_total += len;
            }
        } else {
            memmove(reading ? here : there, reading ? there : here, len);
        }
        done += len;
        at_local += len;
        at_remote += len;
        if (at_local == local[l].iov_len) {
            at_local = 0;
            ++l;
        }
        if (at_remote == remote[r].iov_len) {
            at_remote = 0;
            ++r;
        }
    }
    return done;
}

static inline ssize_t fault_call(pid_t pid, const struct iovec *local, unsigned long nlocal,
                                 const struct iovec *remote, unsigned long nremote, bool reading)
{
    const unsigned long call = fault.calls++;
    const size_t asked = fault_total(local, nlocal);
    const fault_answer_t answer = call < fault.script_len ? fault.script[call] : fault.after;
    size_t most, moved;

    if (NULL != fault.before) {
        fault.before(call);
    }
    fault.pid = pid;
    *(reading ? &fault.reads : &fault.writes) += 1;
    fault.largest = fault.largest < asked ? asked : fault.largest;
    fault.most_elements = fault.most_elements < nlocal ? nlocal : fault.most_elements;
    fault.most_elements = fault.most_elements < nremote ? nremote : fault.most_elements;
    fault.broken |= 0 == asked || asked != fault_total(remote, nremote);
    if (1024 < nlocal || 1024 < nremote) {
        errno = EINVAL;
        return -1;
    }
    if (0 != answer.error) {
        errno = answer.error;
        return -1;
    }
    if (answer.lie) {
        return answer.most;
    }
    most = (size_t) answer.most < FAULT_CALL_MAX ? (size_t) answer.most : FAULT_CALL_MAX;
    moved = fault_move(local, nlocal, remote, nremote, most, reading);
    if (NULL != fault.behind) {
        fault.behind(call);
    }
    if (0 == moved && 0 != most) {
        errno = EFAULT;
        return -1;
    }
    return (ssize_t) moved;
}

static inline ssize_t fault_readv(pid_t pid, const struct iovec *local, unsigned long nlocal,
                                  const struct iovec *remote, unsigned long nremote,
                                  unsigned long flags)
{
    fault.broken |= 0 != flags;
    return fault_call(pid, local, nlocal, remote, nremote, true);
}

static inline ssize_t fault_writev(pid_t pid, const struct iovec *local, unsigned long nlocal,
                                   const struct iovec *remote, unsigned long nremote,
                                   unsigned long flags)
{
    fault.broken |= 0 != flags;
    return fault_call(pid, local, nlocal, remote, nremote, false);
}

static inline void fault_wait(unsigned int attempt)
{
    (void) attempt;
    ++fault.waits;
}

#endif /* SMX_TEST_FAULT_H */

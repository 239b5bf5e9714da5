/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The identity of this process: a page that its peers read to recognise it, with a word in it that
 * changes by itself when the process ends; and the way to find a peer of another pid namespace.
 *
 * Layer: L0. Linux and libc only; one object, owned by the caller.
 * Called by smsc_cma_component.c (create at start, retire at the end), smsc_cma_probe.c
 * (translate).
 * Must never: leave a name in a file system, or let a child made by fork() answer in our name.
 *
 * The life word. A robust mutex lies in the page, which is memory shared with whoever maps it. The
 * process takes the mutex and keeps it. When the holder exits or calls exec, Linux marks the
 * mutex's word (futex(2), set_robust_list(2)) before it takes the address space apart and long
 * before the pid is free. So one load of that word tells whether the process that was
 * recognised once is still the one behind its pid: no system call per copy.
 */
#ifndef OPAL_MCA_SMSC_CMA_SMSC_CMA_IDENTITY_H
#define OPAL_MCA_SMSC_CMA_SMSC_CMA_IDENTITY_H

#include "smsc_cma_modex.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct smsc_cma_identity_t {
    smsc_cma_modex_t modex; /**< what peers are to be told */
    void *page;             /**< SMSC_CMA_PAGE_BYTES, or NULL: not created */
    pid_t owner;            /**< who created it; in a child made by fork() this is not getpid() */
    int page_fd;            /**< memory file behind the page, -1 if none */
    int socket_fd;          /**< listening socket, -1 if none */
} smsc_cma_identity_t;

/** State of an object that was not created, for static storage. */
#define SMSC_CMA_IDENTITY_NONE ((smsc_cma_identity_t) {.page_fd = -1, .socket_fd = -1})

/**
 * @brief Make an identity for the calling process.
 *
 * @param[out] identity  as SMSC_CMA_IDENTITY_NONE if this fails
 * @return 0 or an errno; only memory for the page is indispensable. Without a memory file there is
 *         no life word, without a socket no translation: the flags in the record say so.
 * **Context** from a thread that lives as long as the process, best the main one: the life word is
 * tied to it. When it ends earlier, peers fall back to reading the nonce. **Cost** once, ~0.1 ms.
 */
int smsc_cma_identity_create(smsc_cma_identity_t *identity);

/**
 * @brief Stop being recognisable and give everything back; harmless on an identity not created.
 *
 * Peers see the word change and find no nonce. From a thread other than the creator's, the
 * page has to stay mapped, zeroed; in a forked child nothing is done but forget it.
 */
void smsc_cma_identity_retire(smsc_cma_identity_t *identity);

/** @return true if the caller is the process that created it, false also in its forked children */
bool smsc_cma_identity_is_mine(const smsc_cma_identity_t *identity);

/**
 * @brief Ask the kernel for the pid, as numbered here, of the process that listens under this name.
 *
 * Sockets of the abstract namespace have no file; the kernel gives the connecting side the pid
 * of whoever called listen(), translated to the caller's pid namespace (unix(7), SO_PEERCRED).
 *
 * @param[in] name  socket_name of a record
 * @return the pid, or 0: nobody listens, or the listener is not visible from this pid namespace
 * **Cost** three system calls; never blocks and needs nothing from the peer.
 */
pid_t smsc_cma_identity_translate(uint64_t name);

/** @brief Throw away the connections that peers left behind by asking for the pid. Never blocks. */
void smsc_cma_identity_drain(const smsc_cma_identity_t *identity);

/**
 * @brief Start time of a process.
 * @param[in] pid  0 for the caller
 * @return clock ticks after boot, 0 if it cannot be told
 */
uint64_t smsc_cma_identity_start_time(pid_t pid);

#endif /* OPAL_MCA_SMSC_CMA_SMSC_CMA_IDENTITY_H */

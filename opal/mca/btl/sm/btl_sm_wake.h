/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Waiting when ranks outnumber cores: spin, yield, sleep until a sender wakes us.
 *
 * Layer 0. The sleeper announces itself in its segment's `sleeping` word, looks at everything once
 * more and sleeps on that word. A sender that has published something loads the word (a line that
 * stays in its cache while nobody sleeps) and wakes the sleeper. The two sides form a store/load
 * pair (edge SLEEP): each stores first and loads second, with a full fence between.
 *
 * The sender's fence would wait until the line it has just written has come to it, which is most of
 * what a short message costs (8 B ping-pong of two ranks of 16 on two cores of a Zen 3: 0.49 us one
 * way with it, 0.29 without). So the sleeper pays for both: by membarrier(2) it has the kernel run a
 * fence on every core that runs a process registered for it, and a registered sender needs none of its
 * own. If a sender's store came too late for the sleeper's last look, then its load comes after the
 * kernel's fence and sees the announcement.
 *
 * Senders leave the fence out, too, when the node has a core for every rank, because then nobody
 * sleeps; should their views of that differ, a lost wake-up costs no more than the sleeper's time-out.
 */
#ifndef MCA_BTL_SM_WAKE_H
#define MCA_BTL_SM_WAKE_H

#include "btl_sm_layout.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* linux/membarrier.h lacks these before Linux 4.16. */
#define BTL_SM_MEMBARRIER_GLOBAL_EXPEDITED          (1 << 1)
#define BTL_SM_MEMBARRIER_REGISTER_GLOBAL_EXPEDITED (1 << 2)

/**
 * @brief Sender: ask to be included in the fences of sleepers. Once per process.
 * @return whether the sender may leave its own fence out; false where the kernel does not know this or
 *         a filter refuses it
 */
static inline bool btl_sm_wake_register(void)
{
    return 0 == syscall(SYS_membarrier, BTL_SM_MEMBARRIER_REGISTER_GLOBAL_EXPEDITED, 0, 0);
}

/**
 * @brief Announce that this process is about to sleep. The caller must look at all its sources between
 *        this call and btl_sm_wake_sleep().
 * @return whether senders that are registered are fenced too; if not, a wake-up can be lost
 *
 * Cost: a system call that interrupts the cores on which registered processes run, some microseconds.
 */
static inline bool btl_sm_wake_announce(struct btl_sm_segment_hdr *own)
{
    btl_sm_store_relaxed(&own->sleeping, 1);
    btl_sm_fence_sleep();
    return 0 == syscall(SYS_membarrier, BTL_SM_MEMBARRIER_GLOBAL_EXPEDITED, 0, 0);
}

/** Take the announcement back. */
static inline void btl_sm_wake_cancel(struct btl_sm_segment_hdr *own)
{
    btl_sm_store_relaxed(&own->sleeping, 0);
}

/**
 * @brief Sleep until a sender wakes this process or the time is over; takes the announcement back.
 * @param[in] own         the own segment
 * @param[in] timeout_ns  most nanoseconds to sleep, < 10^9
 *
 * Any return of the system call is a reason to look again, so its result does not matter; a filter
 * that refuses futex turns this into a yield.
 */
static inline void btl_sm_wake_sleep(struct btl_sm_segment_hdr *own, long timeout_ns)
{
    struct timespec timeout = {.tv_sec = 0, .tv_nsec = timeout_ns};

    if (0 > syscall(SYS_futex, (void *) &own->sleeping, FUTEX_WAIT, 1, &timeout, NULL, 0)) {
        sched_yield();
    }
    btl_sm_wake_cancel(own);
}

/**
 * @brief Sender: between "published" and btl_sm_wake_peer().
 * @param[in] registered  what btl_sm_wake_register() returned
 */
static inline void btl_sm_wake_order(bool registered)
{
    if (registered) {
        btl_sm_fence_compiler();
    } else {
        btl_sm_fence_sleep();
    }
}

/**
 * @brief Sender: wake a peer that sleeps.
 * @param[in] peer  segment of the peer
 *
 * Call after something was published to it. Cost: one load; a system call only if it sleeps.
 */
static inline void btl_sm_wake_peer(struct btl_sm_segment_hdr *peer)
{
    if (__builtin_expect(0 != btl_sm_load_relaxed(&peer->sleeping), 0)) {
        btl_sm_store_relaxed(&peer->sleeping, 0);
        (void) syscall(SYS_futex, (void *) &peer->sleeping, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

#endif /* MCA_BTL_SM_WAKE_H */

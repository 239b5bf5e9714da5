/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Waiting when ranks outnumber cores: spin, yield, sleep until a sender wakes us.
 *
 * Layer 0. The sleeper announces itself in its segment's `sleeping` word, looks at everything once
 * more and sleeps on that word. A sender that has published something loads the word (a line that
 * stays in its cache while nobody sleeps) and wakes the sleeper. The two sides form a store/load
 * pair (edge SLEEP): each stores first and loads second, with a full fence between. Senders leave
 * the fence out when the node has a core for every rank, because then nobody sleeps; should their
 * views of that differ, a lost wake-up costs no more than the sleeper's time-out.
 */
#ifndef MCA_BTL_SM_WAKE_H
#define MCA_BTL_SM_WAKE_H

#include "btl_sm_layout.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/** Announce that this process is about to sleep. The caller must look at all its sources between
 *  this call and btl_sm_wake_sleep(). */
static inline void btl_sm_wake_announce(struct btl_sm_segment_hdr *own)
{
    btl_sm_store_relaxed(&own->sleeping, 1);
    btl_sm_fence_sleep();
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

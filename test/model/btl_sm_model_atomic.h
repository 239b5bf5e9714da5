/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The atomic verbs of btl_sm_atomic.h on top of the explorer (explore.h).
 *
 * Included by btl_sm_atomic.h when BTL_SM_MODEL is defined, in place of <stdatomic.h>. The types
 * keep their size, so that every layout assertion of the L0 headers still holds. Each use of a verb
 * is a "site" of its own, which the mutant runs weaken one at a time.
 */
#ifndef TEST_MODEL_BTL_SM_MODEL_ATOMIC_H
#define TEST_MODEL_BTL_SM_MODEL_ATOMIC_H

#include "explore.h"

typedef uint64_t btl_sm_atomic64_t;
typedef uint32_t btl_sm_atomic32_t;

#define SM_SITE(edge, verb)                                                            \
    ({                                                                                 \
        static unsigned sm_site_;                                                      \
        if (0 == sm_site_) {                                                           \
            sm_site_ = sm_site_register(__FILE__, __func__, __LINE__, (edge), (verb)); \
        }                                                                              \
        sm_site_;                                                                      \
    })
#define SM_TYPE(p) __typeof__(*(p) + 0)

#define btl_sm_load_relaxed(p)     ((SM_TYPE(p)) sm_load(SM_SITE(0, "load"), (p), SM_RELAXED))
#define btl_sm_store_relaxed(p, v) sm_store(SM_SITE(0, "store"), (p), (v), SM_RELAXED)
#define btl_sm_load_acquire(edge, p) \
    ((SM_TYPE(p)) sm_load(SM_SITE(edge, "load_acquire"), (p), SM_ACQUIRE))
#define btl_sm_store_release(edge, p, v) \
    sm_store(SM_SITE(edge, "store_release"), (p), (v), SM_RELEASE)
#define btl_sm_fetch_or_release(edge, p, v) \
    ((SM_TYPE(p)) sm_rmw(SM_SITE(edge, "or_release"), (p), SM_RMW_OR, (v), SM_RELEASE))
#define btl_sm_exchange_acquire(edge, p, v) \
    ((SM_TYPE(p)) sm_rmw(SM_SITE(edge, "exchange_acquire"), (p), SM_RMW_XCHG, (v), SM_ACQUIRE))
#define btl_sm_fetch_and_relaxed(p, v) \
    ((SM_TYPE(p)) sm_rmw(SM_SITE(0, "and"), (p), SM_RMW_AND, (v), SM_RELAXED))
#define btl_sm_fetch_or_relaxed(p, v) \
    ((SM_TYPE(p)) sm_rmw(SM_SITE(0, "or"), (p), SM_RMW_OR, (v), SM_RELAXED))
#define btl_sm_fetch_add_relaxed(p, v) \
    ((SM_TYPE(p)) sm_rmw(SM_SITE(0, "add"), (p), SM_RMW_ADD, (v), SM_RELAXED))
#define btl_sm_cas_relaxed(p, expected, desired) \
    sm_cas(SM_SITE(0, "cas"), (p), (expected), (desired), SM_RELAXED)
#define btl_sm_fence_sleep() sm_fence(SM_SITE(0, "fence"))
/* The kernel runs it, for the sleeper (membarrier): at some place in between, so a fence here. */
#define btl_sm_fence_compiler() sm_fence(SM_SITE(0, "fence of the kernel"))

#endif /* TEST_MODEL_BTL_SM_MODEL_ATOMIC_H */

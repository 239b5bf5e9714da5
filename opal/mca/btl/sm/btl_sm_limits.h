/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What values parameters may have, and what becomes of those that the user has not set.
 *
 * Layer 0: arithmetic on the caller's numbers, which may be anything that a user can write. Called by
 * btl_sm_params.c, which registers the parameters and speaks about the refused ones; nothing is
 * printed or looked up here.
 */
#ifndef MCA_BTL_SM_LIMITS_H
#define MCA_BTL_SM_LIMITS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "btl_sm_fbox.h"

#define BTL_SM_EAGER_LIMIT       4352 /* 4 KiB with ob1's header */
#define BTL_SM_MAX_SEND_SIZE     16384
#define BTL_SM_SINGLE_COPY_LIMIT 4096
#define BTL_SM_COOPERATE_CHUNK   (512 * 1024)
#define BTL_SM_ALONE_CHUNK       (1024 * 1024) /* 8 MiB both ways: 0.90, with half as much 1.06 */
#define BTL_SM_FBOX_SIZE         (64 * 1024)

/* Where a single copy costs more than this (nanoseconds), shared memory is faster at every size. */
#define BTL_SM_SLOW_SINGLE_COPY_NS  2200
#define BTL_SM_SLOW_EAGER_LIMIT     (32 * 1024 + 192) /* 32 KiB with ob1's header */
#define BTL_SM_SLOW_MAX_SEND_SIZE   32768
#define BTL_SM_SLOW_FBOX_SIZE       (256 * 1024)
#define BTL_SM_SLOW_COOPERATE_CHUNK (1024 * 1024)
#define BTL_SM_SLOW_ALONE_CHUNK     (2 * 1024 * 1024) /* a copy costs 4 % of a MiB before it begins */
#define BTL_SM_CROWDED_FBOX_SIZE    16384             /* more ranks than cores, or more than 32 */
#define BTL_SM_MANY_RANKS           32
#define BTL_SM_MANY_FBOX_MAX        8

/* What ob1 and the free lists survive. */
#define BTL_SM_LOWEST_LIMIT  256
#define BTL_SM_HIGHEST_LIMIT ((size_t) 1 << 28)

/** The values as the user, or else a default, has set them; or as they are used. */
typedef struct btl_sm_limits {
    size_t eager_limit;
    size_t rndv_eager_limit;
    size_t max_send_size;
    size_t get_limit;
    size_t put_limit;
    size_t min_rdma_pipeline_size;
    size_t rdma_pipeline_send_length;
    size_t single_copy_limit;
    size_t cooperate_chunk;
    size_t fbox_size;
    size_t fbox_max;
    /* Only of those that are used: */
    size_t alone_chunk;  /* most bytes of one single copy without help, >= cooperate_chunk */
    size_t largest_frag; /* longest message that any peer may expect us to send in one piece */
    bool slow;           /* shared memory is faster than a single copy */
} btl_sm_limits_t;

/* Names of values in a mask: those that the user has set, or those that were refused. */
#define BTL_SM_LIMIT_EAGER           (1u << 0)
#define BTL_SM_LIMIT_RNDV_EAGER      (1u << 1)
#define BTL_SM_LIMIT_MAX_SEND        (1u << 2)
#define BTL_SM_LIMIT_GET_PUT         (1u << 3)
#define BTL_SM_LIMIT_SINGLE_COPY     (1u << 4)
#define BTL_SM_LIMIT_COOPERATE_CHUNK (1u << 5)
#define BTL_SM_LIMIT_FBOX_SIZE       (1u << 6)
#define BTL_SM_LIMIT_FBOX_MAX        (1u << 7)

/** @brief Take the fallback for a value outside its range, both ends of which are allowed.
 *  @return whether the value was in its range */
static inline bool btl_sm_limits_bound(size_t *value, size_t fallback, size_t lowest,
                                       size_t highest)
{
    if (*value >= lowest && *value <= highest) {
        return true;
    }
    *value = fallback;
    return false;
}

/** @return whether a bound of a free list is one: -1 for none, else 16 to INT_MAX elements */
static inline bool btl_sm_limits_list_max(long value)
{
    return -1 == value || (16 <= value && value <= INT_MAX);
}

/** @return the least power of two that is not below the value, which is at most 2^63 */
static inline size_t btl_sm_limits_power_of_two(size_t value)
{
    size_t power = 1;

    while (power < value) {
        power <<= 1;
    }
    return power;
}

/**
 * @brief Replace what ob1 does not survive. The generic registration lets it through.
 *
 * @param[in,out] limits any values
 * @return mask of those that were refused; get_limit and put_limit go together
 */
static inline unsigned btl_sm_limits_check(btl_sm_limits_t *limits)
{
    const size_t most = BTL_SM_HIGHEST_LIMIT;
    unsigned refused = 0;
    size_t least;

    if (!btl_sm_limits_bound(&limits->eager_limit, BTL_SM_EAGER_LIMIT, BTL_SM_LOWEST_LIMIT, most)) {
        refused |= BTL_SM_LIMIT_EAGER;
    }
    if (!btl_sm_limits_bound(&limits->rndv_eager_limit, limits->eager_limit, 0, most)) {
        refused |= BTL_SM_LIMIT_RNDV_EAGER;
    }
    if (!btl_sm_limits_bound(&limits->max_send_size, BTL_SM_MAX_SEND_SIZE, BTL_SM_LOWEST_LIMIT,
                             most)) {
        refused |= BTL_SM_LIMIT_MAX_SEND;
    }
    /* One get per message: ob1 of 5.0.x cannot recover from a later one of several. */
    if (SIZE_MAX != limits->get_limit || SIZE_MAX != limits->put_limit) {
        refused |= BTL_SM_LIMIT_GET_PUT;
        limits->get_limit = SIZE_MAX;
        limits->put_limit = SIZE_MAX;
    }
    least = limits->rdma_pipeline_send_length < SIZE_MAX - limits->eager_limit
                ? limits->rdma_pipeline_send_length + limits->eager_limit
                : SIZE_MAX;
    if (limits->min_rdma_pipeline_size < least) {
        limits->min_rdma_pipeline_size = least;
    }
    return refused;
}

static inline void btl_sm_limits_settle_fbox(btl_sm_limits_t *limits, unsigned set,
                                             uint32_t local_count, bool crowded)
{
    if (0 == (set & BTL_SM_LIMIT_FBOX_SIZE)) {
        limits->fbox_size = limits->slow ? BTL_SM_SLOW_FBOX_SIZE : BTL_SM_FBOX_SIZE;
        for (uint32_t ranks = 8; ranks <= 32 && local_count > ranks; ranks *= 2) {
            limits->fbox_size /= 2;
        }
        if ((local_count > BTL_SM_MANY_RANKS || crowded)
            && limits->fbox_size > BTL_SM_CROWDED_FBOX_SIZE) {
            limits->fbox_size = BTL_SM_CROWDED_FBOX_SIZE;
        }
    }
    limits->fbox_size = btl_sm_limits_power_of_two(limits->fbox_size);
    if (local_count > BTL_SM_MANY_RANKS && 0 == (set & BTL_SM_LIMIT_FBOX_MAX)) {
        limits->fbox_max = BTL_SM_MANY_FBOX_MAX;
    }
}

/** Sizes of the roads that the user has not set. */
static inline void btl_sm_limits_settle_roads(btl_sm_limits_t *limits, unsigned set)
{
    const bool slow = limits->slow;

    if (0 == (set & BTL_SM_LIMIT_SINGLE_COPY)) {
        /* Where learning begins; what is not eager is longer than that in any case. */
        limits->single_copy_limit = slow ? BTL_SM_SLOW_EAGER_LIMIT : BTL_SM_SINGLE_COPY_LIMIT;
    }
    if (0 == (set & BTL_SM_LIMIT_COOPERATE_CHUNK)) {
        limits->cooperate_chunk = slow ? BTL_SM_SLOW_COOPERATE_CHUNK : BTL_SM_COOPERATE_CHUNK;
    }
    if (0 == (set & BTL_SM_LIMIT_MAX_SEND)) {
        limits->max_send_size = slow ? BTL_SM_SLOW_MAX_SEND_SIZE : BTL_SM_MAX_SEND_SIZE;
    }
    if (0 == (set & BTL_SM_LIMIT_EAGER)) {
        const size_t most = btl_sm_fbox_max_payload((uint32_t) limits->fbox_size);

        limits->eager_limit = BTL_SM_EAGER_LIMIT;
        if (slow && most > BTL_SM_EAGER_LIMIT) {
            limits->eager_limit = BTL_SM_SLOW_EAGER_LIMIT < most + 128 ? BTL_SM_SLOW_EAGER_LIMIT
                                                                       : most;
        }
        if (0 == (set & BTL_SM_LIMIT_RNDV_EAGER)) {
            limits->rndv_eager_limit = limits->eager_limit;
        }
    }
}

/**
 * @brief Defaults that the user has not set follow from the machine and the number of ranks.
 *
 * The outcome depends on the arguments only, not on what was settled before, since all ranks of a
 * node must come to the same one.
 *
 * @param[in] asked       values within their ranges, as set by the user or by default
 * @param[in] set         mask of those that the user has set
 * @param[in] local_count ranks on this node
 * @param[in] cpus        cores, 0 or less if that is not known
 * @param[in] cost        what a single copy costs, nanoseconds; 0 if there is none
 * @return the values to use
 */
static inline btl_sm_limits_t btl_sm_limits_settle(const btl_sm_limits_t *asked, unsigned set,
                                                   uint32_t local_count, long cpus, uint32_t cost)
{
    /* With more ranks than cores the peer seldom runs at the same time; then one copy by whoever runs
     * beats two, and small boxes stay in the cache. */
    const bool crowded = cpus > 0 && (long) local_count > cpus;
    btl_sm_limits_t limits = *asked;

    limits.slow = 0 == cost || (cost > BTL_SM_SLOW_SINGLE_COPY_NS && !crowded);
    btl_sm_limits_settle_fbox(&limits, set, local_count, crowded);
    btl_sm_limits_settle_roads(&limits, set);
    limits.alone_chunk = limits.cooperate_chunk;
    if (0 == (set & BTL_SM_LIMIT_COOPERATE_CHUNK)) {
        limits.alone_chunk = cost > BTL_SM_SLOW_SINGLE_COPY_NS ? BTL_SM_SLOW_ALONE_CHUNK
                                                               : BTL_SM_ALONE_CHUNK;
    }
    (void) btl_sm_limits_check(&limits);
    /* Open MPI's emulation of get has the answer as long as the asker's btl_max_send_size allows, and
     * jobs that meet agree on nothing: a peer may have come to the other result. */
    limits.largest_frag = limits.max_send_size > BTL_SM_SLOW_MAX_SEND_SIZE
                              ? limits.max_send_size
                              : BTL_SM_SLOW_MAX_SEND_SIZE;
    return limits;
}

#endif /* MCA_BTL_SM_LIMITS_H */

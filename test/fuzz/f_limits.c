/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target: parameters of btl/sm with any values and in any combination, set by the user or not,
 * on any machine.
 *
 * Must hold: what is used lies within its range; what the user has set within the range stays as it
 * is; messages fit where they are said to fit; the outcome does not depend on what was settled
 * before; sums do not wrap.
 */
#include "fuzz.h"

#include "btl_sm_limits.h"

/* Numbers that people and scripts write: small ones, powers of two and their neighbours, all ones. */
static size_t number(fuzz_input_t *in)
{
    const uint64_t word = fuzz_word(in);
    const size_t power = (size_t) 1 << (word >> 8) % 64;

    switch (word % 8) {
    case 0:
        return (word >> 8) % 5000;
    case 1:
        return power;
    case 2:
        return power - 1;
    case 3:
        return power + 1;
    case 4:
        return SIZE_MAX - (word >> 8) % 5000;
    case 5:
        return (word >> 8) % ((size_t) 1 << 20);
    default:
        return word;
    }
}

static size_t pick(fuzz_input_t *in, bool set, size_t fallback)
{
    const size_t value = number(in);

    return set ? value : fallback;
}

/* The ranges of these three are in the table of btl_sm_params.c. */
static void bound(size_t *value, size_t fallback, size_t lowest, size_t highest)
{
    const size_t asked = *value;
    const bool kept = btl_sm_limits_bound(value, fallback, lowest, highest);

    fuzz_check(*value >= lowest && *value <= highest, "a value lies within its range");
    fuzz_check(kept == (asked >= lowest && asked <= highest), "what is refused lies outside");
    fuzz_check(*value == (kept ? asked : fallback), "it is the user's or the default");
}

static void registered(fuzz_input_t *in, unsigned set, btl_sm_limits_t *out)
{
    memset(out, 0, sizeof(*out));
    out->eager_limit = pick(in, set & BTL_SM_LIMIT_EAGER, BTL_SM_EAGER_LIMIT);
    out->rndv_eager_limit = pick(in, set & BTL_SM_LIMIT_RNDV_EAGER, BTL_SM_EAGER_LIMIT);
    out->max_send_size = pick(in, set & BTL_SM_LIMIT_MAX_SEND, BTL_SM_MAX_SEND_SIZE);
    out->get_limit = pick(in, set & BTL_SM_LIMIT_GET_PUT, SIZE_MAX);
    out->put_limit = 0 == fuzz_byte(in) % 4 ? number(in) : SIZE_MAX;
    out->min_rdma_pipeline_size = number(in);
    out->rdma_pipeline_send_length = number(in);
    out->single_copy_limit = pick(in, set & BTL_SM_LIMIT_SINGLE_COPY, BTL_SM_SINGLE_COPY_LIMIT);
    out->cooperate_chunk = pick(in, set & BTL_SM_LIMIT_COOPERATE_CHUNK, BTL_SM_COOPERATE_CHUNK);
    out->fbox_size = pick(in, set & BTL_SM_LIMIT_FBOX_SIZE, BTL_SM_FBOX_SIZE);
    out->fbox_max = pick(in, set & BTL_SM_LIMIT_FBOX_MAX, 32);
    bound(&out->cooperate_chunk, BTL_SM_COOPERATE_CHUNK, 4096, (size_t) 1 << 30);
    bound(&out->fbox_size, BTL_SM_FBOX_SIZE, 4096, 64 << 20);
    bound(&out->fbox_max, 32, 0, 1 << 16);
}

static bool same(const btl_sm_limits_t *a, const btl_sm_limits_t *b)
{
    return a->eager_limit == b->eager_limit && a->rndv_eager_limit == b->rndv_eager_limit
           && a->max_send_size == b->max_send_size && a->get_limit == b->get_limit
           && a->put_limit == b->put_limit && a->min_rdma_pipeline_size == b->min_rdma_pipeline_size
           && a->single_copy_limit == b->single_copy_limit
           && a->cooperate_chunk == b->cooperate_chunk && a->fbox_size == b->fbox_size
           && a->fbox_max == b->fbox_max && a->alone_chunk == b->alone_chunk
           && a->largest_frag == b->largest_frag && a->slow == b->slow;
}

static bool generic_range(size_t value)
{
    return value >= 256 && value <= (1 << 28);
}

static void check_registered(const btl_sm_limits_t *user, const btl_sm_limits_t *asked,
                             unsigned refused)
{
    btl_sm_limits_t again = *asked;

    fuzz_check((0 == (refused & BTL_SM_LIMIT_EAGER)) == generic_range(user->eager_limit)
                   && (0 == (refused & BTL_SM_LIMIT_MAX_SEND)) == generic_range(user->max_send_size)
                   && (0 == (refused & BTL_SM_LIMIT_RNDV_EAGER))
                          == (user->rndv_eager_limit <= (1 << 28)),
               "what is outside of its range is told, and no other");
    fuzz_check(asked->eager_limit
                       == (refused & BTL_SM_LIMIT_EAGER ? BTL_SM_EAGER_LIMIT : user->eager_limit)
                   && asked->rndv_eager_limit
                          == (refused & BTL_SM_LIMIT_RNDV_EAGER ? asked->eager_limit
                                                                : user->rndv_eager_limit)
                   && asked->max_send_size
                          == (refused & BTL_SM_LIMIT_MAX_SEND ? BTL_SM_MAX_SEND_SIZE
                                                              : user->max_send_size),
               "each is the user's or the default");
    fuzz_check((0 == (refused & BTL_SM_LIMIT_GET_PUT))
                   == (SIZE_MAX == user->get_limit && SIZE_MAX == user->put_limit),
               "a limit for gets is told");
    fuzz_check(0 == btl_sm_limits_check(&again) && same(&again, asked),
               "what has been checked once is sound");
}

static void check_used(const btl_sm_limits_t *used)
{
    fuzz_check(generic_range(used->eager_limit) && generic_range(used->max_send_size)
                   && used->rndv_eager_limit <= (1 << 28),
               "ob1's limits are within their ranges");
    fuzz_check(SIZE_MAX == used->get_limit && SIZE_MAX == used->put_limit, "a message is one get");
    fuzz_check(used->min_rdma_pipeline_size >= used->eager_limit
                   && used->min_rdma_pipeline_size >= used->rdma_pipeline_send_length,
               "a pipeline is longer than what goes ahead of it");
    fuzz_check(4096 <= used->fbox_size && used->fbox_size <= (64 << 20)
                   && 0 == (used->fbox_size & (used->fbox_size - 1)),
               "a box is a power of two");
    fuzz_check(used->alone_chunk >= used->cooperate_chunk && 4096 <= used->cooperate_chunk,
               "who copies alone copies as much at a time as two");
    fuzz_check(used->largest_frag >= used->max_send_size
                   && used->largest_frag >= BTL_SM_SLOW_MAX_SEND_SIZE
                   && used->largest_frag <= (1 << 28),
               "a fragment holds what any peer may expect");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fuzz_input_t in = {data, data + len};
    const unsigned set = fuzz_byte(&in);
    const uint32_t local_count = 1 + fuzz_byte(&in) * (0 == fuzz_byte(&in) % 2 ? 1u : 17u);
    const long cpus = (long) fuzz_byte(&in) - 2;
    const uint32_t cost = (uint32_t) fuzz_word(&in) % 8 * 1100, other = (uint32_t) fuzz_word(&in);
    const long list_max = (long) number(&in);
    btl_sm_limits_t user, asked, used, before;
    unsigned refused;

    fuzz_check(!btl_sm_limits_list_max(list_max) || -1 == list_max
                   || (16 <= list_max && (int) list_max == list_max),
               "a bound of a free list is an int");
    registered(&in, set, &user);
    asked = user;
    refused = btl_sm_limits_check(&asked);
    check_registered(&user, &asked, refused);

    used = btl_sm_limits_settle(&asked, set, local_count, cpus, cost);
    check_used(&used);
    fuzz_check((0 == (set & BTL_SM_LIMIT_EAGER) || used.eager_limit == asked.eager_limit)
                   && (0 == (set & BTL_SM_LIMIT_RNDV_EAGER)
                       || used.rndv_eager_limit == asked.rndv_eager_limit)
                   && (0 == (set & BTL_SM_LIMIT_MAX_SEND)
                       || used.max_send_size == asked.max_send_size)
                   && (0 == (set & BTL_SM_LIMIT_SINGLE_COPY)
                       || used.single_copy_limit == asked.single_copy_limit)
                   && (0 == (set & BTL_SM_LIMIT_COOPERATE_CHUNK)
                       || used.cooperate_chunk == asked.cooperate_chunk)
                   && (0 == (set & BTL_SM_LIMIT_FBOX_MAX) || used.fbox_max == asked.fbox_max),
               "what the user has set is used");
    fuzz_check(0 == (set & BTL_SM_LIMIT_FBOX_SIZE)
                   || (used.fbox_size >= asked.fbox_size && used.fbox_size / 2 < asked.fbox_size),
               "a box has at least the size that the user has set, and less than twice that");
    fuzz_check(0 != (set & BTL_SM_LIMIT_EAGER)
                   || used.eager_limit <= btl_sm_fbox_max_payload((uint32_t) used.fbox_size) + 128
                   || BTL_SM_EAGER_LIMIT == used.eager_limit,
               "what is eager by default fits into a box");

    before = btl_sm_limits_settle(&asked, set, local_count, cpus, other);
    check_used(&before);
    before = btl_sm_limits_settle(&asked, set, local_count, cpus, cost);
    fuzz_check(same(&before, &used), "all ranks come to the same");
    return 0;
}

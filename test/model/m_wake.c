/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sleep and wake-up under the explorer: no published record is slept through.
 *
 * The system call of btl_sm_wake.h is replaced by what the kernel promises: FUTEX_WAIT compares the
 * word and sleeps only if it is still 1, FUTEX_WAKE after a store of 0 ends the sleep. A sleeper is
 * thus a thread that waits for the word to become other than 1; its time-out is left out, so that a
 * lost wake-up shows as a dead end. The fence that membarrier runs on the sender's core stands where the
 * sender would have its own (btl_sm_wake_order).
 */
#include "m_scenarios.h"

#include <stdarg.h>
#include <unistd.h>

static long model_futex(long number, ...);
#define syscall model_futex
#include "btl_sm_doorbell.h"
#include "btl_sm_fbox.h"
#include "btl_sm_wake.h"
#undef syscall

static struct btl_sm_segment_hdr segment;
static unsigned char ring[4096] __attribute__((aligned(4096)));
static btl_sm_atomic64_t tail;

static long model_futex(long number, ...)
{
    va_list args;
    const btl_sm_atomic32_t *word;
    int op;

    if (SYS_futex != number) {
        return 0;
    }
    va_start(args, number);
    word = va_arg(args, void *);
    op = va_arg(args, int);
    va_end(args);
    if (FUTEX_WAIT == op) {
        sm_attempt();
        if (1 == btl_sm_load_relaxed(word)) {
            sm_block();
        }
    }
    return 0;
}

/* as the transport does it: publish, fence (where ranks outnumber cores), wake */
static void sender(void)
{
    btl_sm_fbox_tx_t tx;
    unsigned char *payload;

    btl_sm_fbox_tx_init(&tx, ring, 256, &tail, 0, 0);
    for (int i = 0; i < 2; ++i) {
        if (BTL_SM_FBOX_OK != btl_sm_fbox_reserve(&tx, 8, &payload)) {
            sm_check(0, "an empty box has no room");
            return;
        }
        sm_plain_write(payload, 5);
        btl_sm_fbox_publish(&tx, 8, BTL_SM_REC_DATA, 0);
        btl_sm_fence_sleep();
        btl_sm_wake_peer(&segment);
    }
}

static void sleeper(void)
{
    btl_sm_fbox_rx_t rx;
    unsigned char *payload;
    uint64_t rec;

    btl_sm_fbox_rx_init(&rx, ring, 256, &tail, 0, 0);
    for (int got = 0; got < 2;) {
        if (BTL_SM_FBOX_OK != btl_sm_fbox_peek(&rx, &rec, &payload)) {
            btl_sm_wake_announce(&segment);
            if (BTL_SM_FBOX_OK != btl_sm_fbox_peek(&rx, &rec, &payload)) {
                btl_sm_wake_sleep(&segment, 1);
                sm_attempt();
                if (BTL_SM_FBOX_OK != btl_sm_fbox_peek(&rx, &rec, &payload)) {
                    /* woken by the store of an earlier message; the next sleep is like this one */
                    sm_block();
                }
            } else {
                btl_sm_wake_cancel(&segment);
            }
        }
        sm_check(5 == sm_plain_read(payload), "payload is torn");
        btl_sm_fbox_release(&rx, rec);
        ++got;
    }
}

/* the same with a doorbell in place of a box that is known */
static void ringer(void)
{
    btl_sm_doorbell_ring(segment.door, 70);
    btl_sm_fence_sleep();
    btl_sm_wake_peer(&segment);
}
static void door_sleeper(void)
{
    uint64_t bits = btl_sm_doorbell_take(segment.door, 1);

    if (0 == bits) {
        btl_sm_wake_announce(&segment);
        if (0 == btl_sm_load_relaxed(&segment.door[1])) {
            btl_sm_wake_sleep(&segment, 1);
        } else {
            btl_sm_wake_cancel(&segment);
        }
        sm_attempt();
        bits = btl_sm_doorbell_take(segment.door, 1);
        if (0 == bits) {
            sm_block();
        }
    }
    sm_check(UINT64_C(1) << 6 == bits, "another bit than was rung");
}

const sm_scenario_t m_wake[] = {
    {"wake/box", "no record in a box is slept through", 2, {sender, sleeper}, NULL, NULL, 0, 0},
    {"wake/door", "no doorbell is slept through", 2, {ringer, door_sleeper}, NULL, NULL, 0, 0},
    {"wake/two senders",
     "nor with two who ring",
     3,
     {ringer, door_sleeper, ringer},
     NULL,
     NULL,
     0,
     0},
    {NULL, NULL, 0, {NULL}, NULL, NULL, 0, 0},
};

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Instructions of the hot path, to be counted by callgrind: test/stress/run compares them with
 * their budget. Not a test by itself: prints how many messages went through.
 *
 * The two functions are what a sender and a receiver of 8 bytes do, without anything around them:
 * reserve, copy, publish; peek, copy, release.
 */
#include "btl_sm_fbox.h"

#include <stdio.h>

enum { SIZE = 4096, MESSAGES = 10000 };

static unsigned char ring[SIZE] __attribute__((aligned(4096)));
static btl_sm_atomic64_t tail;

__attribute__((noinline)) int budget_send(btl_sm_fbox_tx_t *tx, uint64_t word);
__attribute__((noinline)) int budget_receive(btl_sm_fbox_rx_t *rx, uint64_t *word_out);

int budget_send(btl_sm_fbox_tx_t *tx, uint64_t word)
{
    unsigned char *payload;

    if (BTL_SM_FBOX_OK != btl_sm_fbox_reserve(tx, sizeof(word), &payload)) {
        return 0;
    }
    memcpy(payload, &word, sizeof(word));
    btl_sm_fbox_publish(tx, sizeof(word), BTL_SM_REC_DATA, 1);
    return 1;
}

int budget_receive(btl_sm_fbox_rx_t *rx, uint64_t *word_out)
{
    unsigned char *payload;
    uint64_t rec;

    if (BTL_SM_FBOX_OK != btl_sm_fbox_peek(rx, &rec, &payload)) {
        return 0;
    }
    memcpy(word_out, payload, sizeof(*word_out));
    btl_sm_fbox_release(rx, rec);
    return 1;
}

int main(void)
{
    btl_sm_fbox_tx_t tx;
    btl_sm_fbox_rx_t rx;
    uint64_t good = 0;

    btl_sm_fbox_tx_init(&tx, ring, SIZE, &tail, 0, 0);
    btl_sm_fbox_rx_init(&rx, ring, SIZE, &tail, 0, 0);
    for (uint64_t i = 0; i < MESSAGES; ++i) {
        uint64_t word = 0;

        good += 1 == budget_send(&tx, i) && 1 == budget_receive(&rx, &word) && word == i;
    }
    printf("%llu\n", (unsigned long long) good);
    return MESSAGES == good ? 0 : 1;
}

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fast box under the explorer: btl_sm_fbox.h itself, one producer and one consumer, rings of four
 * to eight lines so that a few messages wrap, fill and reuse them.
 *
 * Payload words are plain accesses: reading one that is not published, or writing one that is not
 * given back, is a data race and found as such. All payload words look like header words with the
 * sequence number that comes next, so that a consumer that mistakes old bytes for a record takes
 * them for a good one.
 */
#include "m_scenarios.h"

#include "btl_sm_fbox.h"

static unsigned char ring[4096] __attribute__((aligned(4096)));
static unsigned char ring2[4096] __attribute__((aligned(4096)));
static btl_sm_atomic64_t tail;

static uint64_t word_of(uint16_t seq, size_t i)
{
    return btl_sm_rec_make(8, BTL_SM_REC_DATA, (uint32_t) i, (uint16_t) (seq + 1));
}

/** The payload words that are looked at: the first, the last, and each that begins a line. */
static int is_probed(size_t i, size_t len)
{
    return 0 == i || len / 8 - 1 == i || (7 == i % 8 && (len < 1000 || 0 == i / 8 % 8));
}

/** Send one record; waits for room. */
static void put(btl_sm_fbox_tx_t *tx, size_t len, uint32_t kind)
{
    unsigned char *payload;
    enum btl_sm_fbox_rc rc;

    sm_attempt();
    rc = btl_sm_fbox_reserve(tx, len, &payload);
    if (BTL_SM_FBOX_EMPTY == rc) {
        sm_block();
    }
    sm_check(BTL_SM_FBOX_OK == rc, "the producer found the tail impossible");
    for (size_t i = 0; i < len / 8; ++i) {
        if (is_probed(i, len)) {
            sm_plain_write(payload + 8 * i, word_of(tx->seq, i));
        }
    }
    btl_sm_fbox_publish(tx, len, kind, 7);
}

/** Receive one record that is no SKIP; waits for it. */
static void get(btl_sm_fbox_rx_t *rx, size_t len, uint32_t kind)
{
    for (;;) {
        unsigned char *payload;
        uint64_t rec;
        enum btl_sm_fbox_rc rc;

        sm_attempt();
        rc = btl_sm_fbox_peek(rx, &rec, &payload);
        if (BTL_SM_FBOX_EMPTY == rc) {
            sm_block();
        }
        if (BTL_SM_FBOX_OK != rc) {
            sm_check(0, "the consumer found a record impossible");
            sm_block();
        }
        if (BTL_SM_REC_SKIP == btl_sm_rec_kind(rec)) {
            btl_sm_fbox_release(rx, rec);
            continue;
        }
        sm_check(btl_sm_rec_len(rec) == len && btl_sm_rec_kind(rec) == kind
                     && 7 == btl_sm_rec_tag(rec),
                 "the consumer took another record than was sent");
        if (btl_sm_rec_len(rec) != len) {
            sm_block();
        }
        for (size_t i = 0; i < len / 8; ++i) {
            if (is_probed(i, len)) {
                sm_check(sm_plain_read(payload + 8 * i) == word_of(rx->seq, i), "payload is torn");
            }
        }
        btl_sm_fbox_release(rx, rec);
        return;
    }
}

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void produce(const size_t *len, size_t count, uint32_t size, uint64_t start, uint16_t seq)
{
    btl_sm_fbox_tx_t tx;

    btl_sm_fbox_tx_init(&tx, ring, size, &tail, start, seq);
    for (size_t i = 0; i < count; ++i) {
        put(&tx, len[i], BTL_SM_REC_DATA);
    }
}

static void consume(const size_t *len, size_t count, uint32_t size, uint64_t start, uint16_t seq)
{
    btl_sm_fbox_rx_t rx;

    btl_sm_fbox_rx_init(&rx, ring, size, &tail, start, seq);
    for (size_t i = 0; i < count; ++i) {
        get(&rx, len[i], BTL_SM_REC_DATA);
    }
}

static const size_t one_line[] = {56, 32, 56, 56, 32, 56, 56};
static void one_line_tx(void)
{
    produce(one_line, COUNT(one_line), 256, 0, 0);
}
static void one_line_rx(void)
{
    consume(one_line, COUNT(one_line), 256, 0, 0);
}

/* two records to a line, and longer ones that begin behind half a line */
static const size_t half_line[] = {8, 24, 0, 56, 8, 8, 32, 24, 8};
static void half_line_tx(void)
{
    produce(half_line, COUNT(half_line), 256, 0, 0);
}
static void half_line_rx(void)
{
    consume(half_line, COUNT(half_line), 256, 0, 0);
}

/* 512 bytes: records of one to three lines, two of them do not fit before the end of the ring */
static const size_t mixed[] = {8, 120, 56, 184, 8, 120, 184, 0, 184, 56};
static void mixed_tx(void)
{
    produce(mixed, COUNT(mixed), 512, 0, 0);
}
static void mixed_rx(void)
{
    consume(mixed, COUNT(mixed), 512, 0, 0);
}

/* the counters pass 2^64 and the sequence number 2^16 */
static void counter_init(void)
{
    sm_init(&tail, (uint64_t) 0 - 192);
}
static void counter_tx(void)
{
    produce(mixed, 7, 512, (uint64_t) 0 - 192, 0xfffe);
}
static void counter_rx(void)
{
    consume(mixed, 7, 512, (uint64_t) 0 - 192, 0xfffe);
}

/* a large ring: short records after the first page go back to the start if little is under way */
static const size_t rewound[] = {4000, 56, 8, 8, 4000, 8, 8};
static void rewind_tx(void)
{
    produce(rewound, COUNT(rewound), 16384, 0, 0);
}
static void rewind_rx(void)
{
    consume(rewound, COUNT(rewound), 16384, 0, 0);
}

/* the first ring holds old bytes, as a box that was given back does */
static void dirty_init(void)
{
    for (unsigned i = 1; i < 64; ++i) {
        sm_init(ring2 + 8 * i, btl_sm_rec_make(8, BTL_SM_REC_DATA, 7, 2));
    }
    sm_init(ring2, btl_sm_rec_make(8, BTL_SM_REC_DATA, 7, 3));
}

/* two messages in a small ring, then the pair moves to a larger one */
static void switch_tx(void)
{
    btl_sm_fbox_tx_t tx;
    unsigned char *payload;

    btl_sm_fbox_tx_init(&tx, ring, 256, &tail, 0, 0);
    put(&tx, 8, BTL_SM_REC_DATA);
    put(&tx, 56, BTL_SM_REC_DATA);
    sm_attempt();
    if (BTL_SM_FBOX_OK != btl_sm_fbox_reserve(&tx, sizeof(struct btl_sm_rec_switch), &payload)) {
        sm_block();
    }
    sm_plain_write(payload, 1);
    btl_sm_store_relaxed(btl_sm_fbox_word(ring2, 0), 0);
    btl_sm_fbox_publish(&tx, sizeof(struct btl_sm_rec_switch), BTL_SM_REC_SWITCH, 7);
    btl_sm_fbox_tx_init(&tx, ring2, 512, &tail, tx.head, tx.seq);
    put(&tx, 120, BTL_SM_REC_DATA);
    put(&tx, 8, BTL_SM_REC_DATA);
    put(&tx, 120, BTL_SM_REC_DATA);
    put(&tx, 56, BTL_SM_REC_DATA);
}
static void switch_rx(void)
{
    btl_sm_fbox_rx_t rx;
    unsigned char *payload;
    uint64_t rec;

    btl_sm_fbox_rx_init(&rx, ring, 256, &tail, 0, 0);
    get(&rx, 8, BTL_SM_REC_DATA);
    get(&rx, 56, BTL_SM_REC_DATA);
    sm_attempt();
    if (BTL_SM_FBOX_OK != btl_sm_fbox_peek(&rx, &rec, &payload)) {
        sm_block();
    }
    sm_check(BTL_SM_REC_SWITCH == btl_sm_rec_kind(rec), "the SWITCH record is lost");
    sm_check(1 == sm_plain_read(payload), "the new box is not known");
    rx.consumed += btl_sm_fbox_need(btl_sm_rec_len(rec));
    btl_sm_fbox_rx_init(&rx, ring2, 512, &tail, rx.consumed, (uint16_t) (rx.seq + 1));
    get(&rx, 120, BTL_SM_REC_DATA);
    get(&rx, 8, BTL_SM_REC_DATA);
    get(&rx, 120, BTL_SM_REC_DATA);
    get(&rx, 56, BTL_SM_REC_DATA);
}

/* traps: what the explorer must find */
static void trap_tx(void)
{
    btl_sm_fbox_tx_t tx;
    unsigned char *payload;

    btl_sm_fbox_tx_init(&tx, ring, 256, &tail, 0, 0);
    (void) btl_sm_fbox_reserve(&tx, 8, &payload);
    btl_sm_fbox_publish(&tx, 8, BTL_SM_REC_DATA, 7); /* before the payload */
    sm_plain_write(payload, word_of(0, 0));
}
static void trap_rx(void)
{
    btl_sm_fbox_rx_t rx;

    btl_sm_fbox_rx_init(&rx, ring, 256, &tail, 0, 0);
    get(&rx, 8, BTL_SM_REC_DATA);
}
static void trap_late_rx(void)
{
    btl_sm_fbox_rx_t rx;
    unsigned char *payload[4];
    uint64_t rec;

    btl_sm_fbox_rx_init(&rx, ring, 256, &tail, 0, 0);
    for (size_t i = 0; i < COUNT(payload); ++i) {
        sm_attempt();
        if (BTL_SM_FBOX_OK != btl_sm_fbox_peek(&rx, &rec, &payload[i])) {
            sm_block();
        }
        btl_sm_fbox_release(&rx, rec);
        /* too late by one record; less is covered by the line that publish keeps free */
        if (0 < i) {
            (void) sm_plain_read(payload[i - 1]);
        }
    }
}

const sm_scenario_t m_fbox[] = {
    {"fbox/one line",
     "seven records of one line pass a ring of four lines",
     2,
     {one_line_tx, one_line_rx},
     NULL,
     NULL,
     0,
     0},
    {"fbox/half line",
     "short records share lines, longer ones skip half a line",
     2,
     {half_line_tx, half_line_rx},
     NULL,
     NULL,
     0,
     0},
    {"fbox/mixed",
     "records of one to three lines with two wraps and skips",
     2,
     {mixed_tx, mixed_rx},
     NULL,
     NULL,
     0,
     0},
    {"fbox/counter",
     "the counters pass 2^64 and the sequence number 2^16",
     2,
     {counter_tx, counter_rx},
     counter_init,
     NULL,
     0,
     0},
    {"fbox/rewind",
     "short records go back to the first page of a large ring",
     2,
     {rewind_tx, rewind_rx},
     NULL,
     NULL,
     0,
     0},
    {"fbox/switch",
     "a pair moves to a larger box that holds old bytes",
     2,
     {switch_tx, switch_rx},
     dirty_init,
     NULL,
     0,
     0},
    {"fbox/trap publish",
     "a publish before the payload is found",
     2,
     {trap_tx, trap_rx},
     NULL,
     NULL,
     1,
     0},
    {"fbox/trap release",
     "a release before the payload is read is found",
     2,
     {one_line_tx, trap_late_rx},
     NULL,
     NULL,
     1,
     0},
    {NULL, NULL, 0, {NULL}, NULL, NULL, 0, 0},
};

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Doorbell and hand-out of the first box under the explorer: the steps that the transport takes
 * around btl_sm_doorbell.h and the cell, with the headers' own verbs.
 */
#include "m_scenarios.h"

#include "btl_sm_doorbell.h"
#include "btl_sm_fbox.h"

static btl_sm_atomic64_t door[BTL_SM_DOOR_WORDS];
static struct btl_sm_cell cell; /* in the writer's segment, of the reader */
static unsigned char ring[4096] __attribute__((aligned(4096)));
static uint64_t plain[2];

enum { READER_CELL = 3, OTHER_CELL = 5, OLD_BOX = 99 };
#define NONCE UINT64_C(0x1122334455667788)

static void old_bytes(void)
{
    for (unsigned i = 0; i < 64; ++i) {
        sm_init(ring + 8 * i, btl_sm_rec_make(8, BTL_SM_REC_DATA, 7, 0));
    }
}

/* --- many ring, one takes --------------------------------------------------------------------- */

static void ring_0(void)
{
    sm_plain_write(&plain[0], 11);
    btl_sm_doorbell_ring(door, READER_CELL);
}
static void ring_1(void)
{
    sm_plain_write(&plain[1], 12);
    btl_sm_doorbell_ring(door, OTHER_CELL);
}
static void take_both(void)
{
    uint64_t got = 0;

    while (((UINT64_C(1) << READER_CELL) | (UINT64_C(1) << OTHER_CELL)) != got) {
        uint64_t bits;

        sm_attempt();
        bits = btl_sm_doorbell_take(door, 0);
        if (0 == bits) {
            sm_block();
        }
        sm_check(0 == (got & bits), "one ring was heard twice");
        got |= bits;
        if (0 != (bits & (UINT64_C(1) << READER_CELL))) {
            sm_check(11 == sm_plain_read(&plain[0]), "the bytes of the first ringer");
        }
        if (0 != (bits & (UINT64_C(1) << OTHER_CELL))) {
            sm_check(12 == sm_plain_read(&plain[1]), "the bytes of the second ringer");
        }
    }
}

/* --- the first message of a pair ------------------------------------------------------------ */

static void open_and_send(btl_sm_fbox_tx_t *tx)
{
    unsigned char *payload;

    btl_sm_fbox_tx_init(tx, ring, 256, &cell.tail, 0, 0);
    btl_sm_store_relaxed(btl_sm_fbox_word(ring, 0), 0);
    btl_sm_store_release(BTL_SM_EDGE_CELL, &cell.box, btl_sm_ref_make(4096, 12));
    btl_sm_doorbell_ring(door, READER_CELL);
    if (BTL_SM_FBOX_OK == btl_sm_fbox_reserve(tx, 8, &payload)) {
        sm_plain_write(payload, 77);
        btl_sm_fbox_publish(tx, 8, BTL_SM_REC_DATA, 7);
    }
}

static void first_message(void)
{
    btl_sm_fbox_tx_t tx;

    open_and_send(&tx);
}

static void read_box(uint64_t box)
{
    btl_sm_fbox_rx_t rx;
    unsigned char *payload;
    uint64_t rec;
    enum btl_sm_fbox_rc rc;

    sm_check(btl_sm_ref_make(4096, 12) == box, "another box than was handed out");
    btl_sm_fbox_rx_init(&rx, ring, 256, &cell.tail, 0, 0);
    sm_attempt();
    rc = btl_sm_fbox_peek(&rx, &rec, &payload);
    if (BTL_SM_FBOX_EMPTY == rc) {
        sm_block();
    }
    sm_check(BTL_SM_FBOX_OK == rc && 77 == sm_plain_read(payload),
             "the first record is not the one that was sent");
}

static void first_reader(void)
{
    uint64_t box;

    sm_attempt();
    if (0 == btl_sm_doorbell_take(door, 0)) {
        sm_block();
    }
    box = btl_sm_load_relaxed(&cell.box); /* the bell alone is enough */
    sm_check(0 != box, "rung, but no box yet");
    read_box(box);
}

/* A reader that rings for itself (a peer may have rung before it was known) and finds no box must
 * still hear the peer's own ring. */
static void self_ringer(void)
{
    btl_sm_doorbell_ring(door, READER_CELL);
    for (int i = 0; i < 2; ++i) {
        uint64_t box;

        sm_attempt();
        if (0 == btl_sm_doorbell_take(door, 0)) {
            sm_block();
        }
        box = btl_sm_load_acquire(BTL_SM_EDGE_CELL, &cell.box);
        if (0 != box) {
            read_box(box);
            return;
        }
        sm_check(0 == i, "the peer's ring says nothing");
    }
}

/* --- a cell that belonged to another peer before --------------------------------------------- */

static void old_cell(void)
{
    old_bytes();
    sm_init(&cell.box, OLD_BOX);
    sm_init(&cell.peer_nonce, 1);
    sm_init(&cell.tail, 4711);
}
static void new_owner(void)
{
    btl_sm_fbox_tx_t tx;
    unsigned char *payload;

    btl_sm_store_relaxed(&cell.box, 0);
    btl_sm_store_relaxed(&cell.tail, 0);
    btl_sm_store_release(BTL_SM_EDGE_CELL, &cell.peer_nonce, NONCE);
    open_and_send(&tx);
    /* a record as large as this needs a look at the tail */
    sm_check(BTL_SM_FBOX_CORRUPT
                 != btl_sm_fbox_reserve(&tx, btl_sm_fbox_max_payload(256), &payload),
             "the tail of the peer before is taken for the new one's");
}
static void cell_finder(void)
{
    uint64_t box;

    btl_sm_doorbell_ring(door, READER_CELL); /* for itself */
    sm_attempt();
    if (0 == btl_sm_doorbell_take(door, 0)
        || NONCE != btl_sm_load_acquire(BTL_SM_EDGE_CELL, &cell.peer_nonce)) {
        sm_block();
    }
    box = btl_sm_load_acquire(BTL_SM_EDGE_CELL, &cell.box);
    if (0 != box) {
        read_box(box);
    }
}

const sm_scenario_t m_doorbell[] = {
    {"doorbell/two",
     "two ring, one takes: each ring is heard once with its bytes",
     3,
     {ring_0, take_both, ring_1},
     NULL,
     NULL,
     0,
     0},
    {"cell/first",
     "the first message arrives in a box that holds old bytes",
     2,
     {first_message, first_reader},
     old_bytes,
     NULL,
     0,
     0},
    {"cell/self",
     "a reader that rings for itself misses nothing",
     2,
     {first_message, self_ringer},
     old_bytes,
     NULL,
     0,
     0},
    {"cell/reuse",
     "a cell of another peer shows nothing of the time before",
     2,
     {new_owner, cell_finder},
     old_cell,
     NULL,
     0,
     0},
    {NULL, NULL, 0, {NULL}, NULL, NULL, 0, 0},
};

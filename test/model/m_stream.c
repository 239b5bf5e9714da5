/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A stream that ends early, under the explorer: the asker copies the end of a range itself, says so
 * in the board's stop word, and gives the memory back to its owner by a message. The owner must not
 * read the memory for the stream after that.
 *
 * The steps are those of btl_sm_stream.c, on the headers' own fast boxes. One page of the range is
 * one plain word; the owner overwrites it when the message says that it may.
 */
#include "m_scenarios.h"

#include "btl_sm_fbox.h"

enum { PAGES = 3, NUMBER = 5 };

static unsigned char pieces[4096] __attribute__((aligned(4096)));
static unsigned char messages[4096] __attribute__((aligned(4096)));
static btl_sm_atomic64_t pieces_tail, messages_tail;
static btl_sm_atomic64_t stop; /* btl_sm_board.stop in the owner's segment */
static uint64_t memory[PAGES];

static uint64_t content(unsigned page)
{
    return 40 + page;
}

static void stream_init(void)
{
    for (unsigned i = 0; i < PAGES; ++i) {
        sm_init(&memory[i], content(i));
    }
    sm_init(&stop, btl_sm_stop_pack(NUMBER - 1, 0)); /* of an earlier stream that was stopped */
}

/** Send the next piece unless nothing more is wanted. Returns the number of the next one. */
static unsigned stream_piece(btl_sm_fbox_tx_t *tx, unsigned page)
{
    unsigned char *payload;
    uint64_t word;

    if (PAGES <= page
        || (uint64_t) page * 4096 >= btl_sm_stop_limit(btl_sm_load_relaxed(&stop), NUMBER)) {
        return PAGES;
    }
    if (BTL_SM_FBOX_OK != btl_sm_fbox_reserve(tx, 8, &payload)) {
        return page;
    }
    word = sm_plain_read(&memory[page]);
    sm_check(content(page) == word, "memory is read after it was given back");
    sm_plain_write(payload, word);
    btl_sm_fbox_publish(tx, 8, BTL_SM_REC_STREAM, 0);
    return page + 1;
}

static void owner(void)
{
    btl_sm_fbox_tx_t tx;
    btl_sm_fbox_rx_t rx;
    unsigned char *payload;
    uint64_t rec;
    unsigned page = 0;

    btl_sm_fbox_tx_init(&tx, pieces, 256, &pieces_tail, 0, 0);
    btl_sm_fbox_rx_init(&rx, messages, 256, &messages_tail, 0, 0);
    for (unsigned look = 0; look < PAGES + 1; ++look) {
        sm_attempt();
        if (BTL_SM_FBOX_OK == btl_sm_fbox_peek(&rx, &rec, &payload)) {
            btl_sm_fbox_release(&rx, rec);
            for (unsigned i = 0; i < PAGES; ++i) {
                sm_plain_write(&memory[i], 0xdead);
            }
            (void) stream_piece(&tx, page);
            return;
        }
        page = stream_piece(&tx, page);
    }
    sm_block(); /* the message is still to come */
}

static void tell(unsigned pages)
{
    btl_sm_store_relaxed(&stop, btl_sm_stop_pack(NUMBER, pages));
}

/** Takes `patience` pieces, copies the last page (or two) itself, takes the rest. */
static void ask(unsigned patience, unsigned own)
{
    btl_sm_fbox_rx_t rx;
    btl_sm_fbox_tx_t tx;
    unsigned char *payload;
    unsigned done = 0, limit = PAGES;
    uint64_t rec;

    btl_sm_fbox_rx_init(&rx, pieces, 256, &pieces_tail, 0, 0);
    btl_sm_fbox_tx_init(&tx, messages, 256, &messages_tail, 0, 0);
    while (done < limit) {
        if (done == patience && PAGES == limit) {
            limit -= own;
            tell(limit);
            for (unsigned i = limit; i < PAGES; ++i) {
                sm_check(content(i) == sm_plain_read(&memory[i]), "a page of somebody else");
            }
            continue;
        }
        sm_attempt();
        if (BTL_SM_FBOX_OK != btl_sm_fbox_peek(&rx, &rec, &payload)) {
            sm_block();
        }
        sm_check(content(done) == sm_plain_read(payload), "a piece is wrong");
        btl_sm_fbox_release(&rx, rec);
        ++done;
    }
    tell(0);
    if (BTL_SM_FBOX_OK == btl_sm_fbox_reserve(&tx, 8, &payload)) {
        sm_plain_write(payload, 1);
        btl_sm_fbox_publish(&tx, 8, BTL_SM_REC_DATA, 0);
    }
}

static void impatient(void)
{
    ask(0, 2);
}
static void asker(void)
{
    ask(1, 1);
}

const sm_scenario_t m_stream[] = {
    {"stream/stop",
     "after the asker is through, the memory is not read any more",
     2,
     {owner, asker},
     stream_init,
     NULL,
     0,
     0},
    {"stream/impatient",
     "nor if it copies most of the range itself",
     2,
     {owner, impatient},
     stream_init,
     NULL,
     0,
     0},
    {NULL, NULL, 0, {NULL}, NULL, NULL, 0, 0},
};

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fast box: single-producer single-consumer byte ring of one ordered pair of processes.
 *
 * Layer 0. The ring holds records: one header word, then the payload in place. A record of up to
 * half a cache line takes half a line, longer ones start on a line. What fits in one line costs one
 * line transfer, because the header word is both the length and the "it is there" flag, published by
 * one release store.
 *
 * How the consumer knows that nothing is there yet: before a record is published, the producer
 * clears the header word that will follow it. The consumer reaches a header word only after it has
 * acquired the record before it, so it sees either that zero or the next record, never bytes of an
 * earlier lap. Measured on a bare ring the extra store is not visible (prefetched line, no fence).
 *
 * Who may run beside whom:
 *
 *     |                 | reserve, publish | peek, release |
 *     |-----------------|------------------|---------------|
 *     | reserve, publish| no (one producer)| yes           |
 *     | peek, release   | yes              | no            |
 *
 * Linearization points: publish = the release store of the header word; release = the release store
 * of the tail (lazy, see BTL_SM_FBOX_LAZY). A producer that dies between reserve and publish leaves
 * nothing visible but, at most, a complete SKIP record.
 *
 * Counters run freely in 64 bits. `head` and `tail` count bytes including skipped ones.
 */
#ifndef MCA_BTL_SM_FBOX_H
#define MCA_BTL_SM_FBOX_H

#include "btl_sm_ref.h"

#include <string.h>

/** Bytes of the header word. */
#define BTL_SM_FBOX_HDR 8

/** Records of up to this many bytes share a line with another one: two short messages of MPI in a
 *  row cost one line transfer. Longer records start on a line; half a line before them is skipped. */
#define BTL_SM_FBOX_HALF (BTL_SM_LINE / 2)

/** The consumer gives space back once this fraction (1/n) of the ring is unreturned. Together with
 *  btl_sm_fbox_max_payload() it guarantees that a producer that waits gets its space: after all
 *  records are consumed less than 1/4 is missing, and a record plus the rest of the ring that it
 *  may have to skip needs less than 3/4. */
#define BTL_SM_FBOX_LAZY 4
/** ... or this many bytes, if that is less: the producer must see that a box is nearly empty. */
#define BTL_SM_FBOX_RETURN 1024

/** Short records stay in the first BTL_SM_FBOX_WINDOW bytes of a large ring: a producer that comes
 *  there and sees that no more than BTL_SM_FBOX_RETURN * 2 bytes are under way goes back to the
 *  start instead of on to cold lines. Worth a factor of two in latency where several pairs share a
 *  second-level cache (four ranks on two cores of a Zen 5, rings of 256 KiB). */
#define BTL_SM_FBOX_WINDOW 4096

/** What each end answers. */
enum btl_sm_fbox_rc {
    BTL_SM_FBOX_OK = 0,
    BTL_SM_FBOX_EMPTY,   /* nothing to consume */
    BTL_SM_FBOX_CORRUPT, /* the other side wrote something impossible: give that peer up */
};

/** Producer's private state. */
typedef struct btl_sm_fbox_tx {
    unsigned char *base;     /* start of the ring in this process, or NULL */
    btl_sm_atomic64_t *tail; /* written by the consumer */
    uint64_t head;           /* bytes published */
    uint64_t start;          /* value of head where this ring begins */
    uint64_t tail_seen;      /* last value read from *tail */
    uint64_t cleared;        /* the header word there is 0 already; see btl_sm_fbox_preclear() */
    uint64_t rewind_at;      /* value of head at which to think about going back */
    uint32_t size;           /* bytes, power of two */
    uint32_t last_need;      /* bytes that the last record took */
    uint16_t seq;            /* of the next record */
} btl_sm_fbox_tx_t;

/** Consumer's private state. */
typedef struct btl_sm_fbox_rx {
    unsigned char *base;
    btl_sm_atomic64_t *tail;
    uint64_t consumed; /* bytes taken */
    uint64_t start;    /* value of consumed where this ring begins */
    uint64_t returned; /* last value stored to *tail */
    uint32_t size;
    uint32_t lazy; /* bytes to take before the tail is stored */
    uint16_t seq;
} btl_sm_fbox_rx_t;

/** Largest payload in bytes of one record in a ring of `size` bytes (power of two >= 2048). */
static inline size_t btl_sm_fbox_max_payload(uint32_t size)
{
    return size / 4 + 2 * BTL_SM_LINE - BTL_SM_FBOX_HDR;
}

/** Bytes that a record with `len` bytes of payload takes: half a line, or whole ones. */
static inline uint64_t btl_sm_fbox_need(size_t len)
{
    uint64_t total = (uint64_t) len + BTL_SM_FBOX_HDR;

    return total <= BTL_SM_FBOX_HALF ? BTL_SM_FBOX_HALF
                                     : (total + BTL_SM_LINE - 1) & ~(uint64_t) (BTL_SM_LINE - 1);
}

static inline btl_sm_atomic64_t *btl_sm_fbox_word(unsigned char *base, uint64_t offset)
{
    return (btl_sm_atomic64_t *) (void *) (base + offset);
}

/**
 * @brief Start producing into a ring.
 * @param[out] tx    private state
 * @param[in]  base  ring, BTL_SM_LINE-aligned; its first word must be 0 before the consumer can
 *                   look at it
 * @param[in]  size  bytes, power of two >= 2048
 * @param[in]  tail  the consumer's counter; may carry on from an earlier ring of the same pair
 * @param[in]  start counter value to start from: 0, or head after the SWITCH record
 * @param[in]  seq   sequence number of the first record
 */
static inline void btl_sm_fbox_tx_init(btl_sm_fbox_tx_t *tx, unsigned char *base, uint32_t size,
                                       btl_sm_atomic64_t *tail, uint64_t start, uint16_t seq)
{
    tx->base = base;
    tx->size = size;
    tx->tail = tail;
    tx->head = start;
    tx->start = start;
    tx->tail_seen = start;
    tx->cleared = start;
    tx->last_need = 0;
    tx->rewind_at = start + BTL_SM_FBOX_WINDOW;
    tx->seq = seq;
}

/** @brief Start consuming from a ring; arguments as btl_sm_fbox_tx_init(). */
static inline void btl_sm_fbox_rx_init(btl_sm_fbox_rx_t *rx, unsigned char *base, uint32_t size,
                                       btl_sm_atomic64_t *tail, uint64_t start, uint16_t seq)
{
    rx->base = base;
    rx->size = size;
    rx->lazy = size / BTL_SM_FBOX_LAZY < BTL_SM_FBOX_RETURN ? size / BTL_SM_FBOX_LAZY
                                                            : BTL_SM_FBOX_RETURN;
    rx->tail = tail;
    rx->consumed = start;
    rx->start = start;
    rx->returned = start;
    rx->seq = seq;
}

/** Cold half of reserve: re-read the consumer's counter. Returns free bytes, or UINT64_MAX if the
 *  counter is impossible. */
static inline uint64_t btl_sm_fbox_refresh(btl_sm_fbox_tx_t *tx)
{
    uint64_t tail = btl_sm_load_acquire(BTL_SM_EDGE_FBOX_SPACE, tx->tail);

    if ((int64_t) (tail - tx->tail_seen) > 0) {
        if (tail - tx->tail_seen > tx->head - tx->tail_seen) {
            return UINT64_MAX;
        }
        tx->tail_seen = tail;
    }
    return tx->size - (tx->head - tx->tail_seen);
}

/** Cold part of reserve, once per window: go back to the start of the ring? Only if what is under
 *  way leaves room for that, so that it never makes a producer wait. */
static inline int btl_sm_fbox_rewind(btl_sm_fbox_tx_t *tx, uint64_t offset, uint64_t need)
{
    uint64_t rest = tx->size - offset;
    uint64_t space;

    if (offset < BTL_SM_FBOX_WINDOW) { /* the last record ended at the end of the ring */
        tx->rewind_at = tx->head + BTL_SM_FBOX_WINDOW - offset;
        return 0;
    }
    tx->rewind_at = tx->head + BTL_SM_FBOX_WINDOW;
    space = btl_sm_fbox_refresh(tx);
    return UINT64_MAX != space && need <= BTL_SM_FBOX_RETURN
           && tx->head - tx->tail_seen <= 2 * BTL_SM_FBOX_RETURN
           && rest + need + BTL_SM_LINE <= space;
}

/** Publish one SKIP record at `offset`; returns the offset behind it. */
static inline uint64_t btl_sm_fbox_skip_one(btl_sm_fbox_tx_t *tx, uint64_t offset, uint64_t len)
{
    uint64_t next = (offset + len) & (tx->size - 1);

    btl_sm_store_relaxed(btl_sm_fbox_word(tx->base, next), 0);
    btl_sm_store_release(BTL_SM_EDGE_FBOX_DATA, btl_sm_fbox_word(tx->base, offset),
                         btl_sm_rec_make((uint32_t) (len - BTL_SM_FBOX_HDR), BTL_SM_REC_SKIP, 0,
                                         tx->seq));
    tx->seq++;
    tx->head += len;
    return next;
}

/** Rare part of reserve: half a line, or the rest of the ring (of which half a line goes by itself, since
 *  what is longer starts on a line). The room has been found. Returns the offset behind it. */
static inline uint64_t btl_sm_fbox_skip(btl_sm_fbox_tx_t *tx, uint64_t offset, uint64_t skip)
{
    if (skip > BTL_SM_FBOX_HALF && 0 != (offset & BTL_SM_FBOX_HALF)) {
        offset = btl_sm_fbox_skip_one(tx, offset, BTL_SM_FBOX_HALF);
        skip -= BTL_SM_FBOX_HALF;
    }
    offset = btl_sm_fbox_skip_one(tx, offset, skip);
    if (0 == offset) {
        tx->rewind_at = tx->head + BTL_SM_FBOX_WINDOW;
    }
    return offset;
}

/**
 * @brief Get room for one record.
 * @param[in,out] tx           producer state
 * @param[in]     len          payload bytes, <= btl_sm_fbox_max_payload(tx->size)
 * @param[out]    payload_out  where to write the payload, valid until publish
 * @return BTL_SM_FBOX_OK, BTL_SM_FBOX_EMPTY (no room now) or BTL_SM_FBOX_CORRUPT
 *
 * Nothing is claimed: not calling publish afterwards is the abort. May publish one SKIP record.
 *
 * Ordering: acquires FBOX_SPACE. Cost: no shared access unless the cached space is used up or the
 * end of the ring is reached.
 */
static inline enum btl_sm_fbox_rc btl_sm_fbox_reserve(btl_sm_fbox_tx_t *tx, size_t len,
                                                      unsigned char **payload_out)
{
    uint64_t offset = (tx->head - tx->start) & (tx->size - 1);
    uint64_t need = btl_sm_fbox_need(len);
    uint64_t rest = tx->size - offset;
    uint64_t skip = need > BTL_SM_FBOX_HALF ? offset & BTL_SM_FBOX_HALF : 0;
    uint64_t total;

    if (need + skip > rest
        || ((int64_t) (tx->head - tx->rewind_at) >= 0 && btl_sm_fbox_rewind(tx, offset, need))) {
        skip = rest;
    }
    /* one more line: the header word that publish clears must not be in use either */
    total = skip + need + BTL_SM_LINE;
    if (total > tx->size - (tx->head - tx->tail_seen)) {
        uint64_t space = btl_sm_fbox_refresh(tx);
        if (UINT64_MAX == space) {
            return BTL_SM_FBOX_CORRUPT;
        }
        if (total > space) {
            return BTL_SM_FBOX_EMPTY;
        }
    }
    if (0 != skip) {
        offset = btl_sm_fbox_skip(tx, offset, skip);
    }
    *payload_out = tx->base + offset + BTL_SM_FBOX_HDR;
    return BTL_SM_FBOX_OK;
}

/**
 * @brief Make the record that was reserved visible.
 * @param[in,out] tx    producer state
 * @param[in]     len   payload bytes, <= what was reserved
 * @param[in]     kind  BTL_SM_REC_*
 * @param[in]     tag   tag of the upper layer
 *
 * Ordering: releases FBOX_DATA. Cost: two stores to the ring.
 */
static inline void btl_sm_fbox_publish(btl_sm_fbox_tx_t *tx, size_t len, uint32_t kind,
                                       uint32_t tag)
{
    uint64_t offset = (tx->head - tx->start) & (tx->size - 1);
    uint64_t need = btl_sm_fbox_need(len);

    if (tx->cleared != tx->head + need) {
        btl_sm_store_relaxed(btl_sm_fbox_word(tx->base, (offset + need) & (tx->size - 1)), 0);
    }
    btl_sm_store_release(BTL_SM_EDGE_FBOX_DATA, btl_sm_fbox_word(tx->base, offset),
                         btl_sm_rec_make((uint32_t) len, kind, tag, tx->seq));
    tx->seq++;
    tx->head += need;
    tx->last_need = (uint32_t) need;
}

/**
 * @brief Clear the header word after the next record ahead of time, while there is nothing to do.
 *
 * The line with that word is the consumer's at that moment, and the store that publishes the next
 * record has to wait behind the one that clears it. Guesses that the next record will be as long as
 * the last one; if not, publish clears as ever. Orders nothing: the next publish does.
 * Cost: one store to the ring, or nothing where space is short or the end of the ring near.
 */
static inline void btl_sm_fbox_preclear(btl_sm_fbox_tx_t *tx)
{
    uint64_t offset = (tx->head - tx->start) & (tx->size - 1);

    /* The word may lie in the very line that the consumer is waiting for. */
    if (0 != ((offset + tx->last_need) & (BTL_SM_LINE - 1))) {
        return;
    }
    if (offset + 2 * (uint64_t) tx->last_need <= tx->size
        && tx->head + tx->last_need + BTL_SM_LINE - tx->tail_seen <= tx->size) {
        tx->cleared = tx->head + tx->last_need;
        btl_sm_store_relaxed(btl_sm_fbox_word(tx->base, (offset + tx->last_need) & (tx->size - 1)),
                             0);
    }
}

/**
 * @brief Within a row of messages: get the lines of the record after the next one for writing.
 *
 * They are still the consumer's from the last lap. Upper layers have locked instructions on their
 * way, which wait for all earlier stores; ob1's sender spent half its time so (Zen 3, 8 B, window of
 * 64). Not for single messages: the consumer waits on one of these lines.
 */
static inline void btl_sm_fbox_claim_ahead(const btl_sm_fbox_tx_t *tx)
{
    uint64_t offset = tx->head - tx->start + BTL_SM_LINE;

    btl_sm_line_claim(tx->base + (offset & (tx->size - 1)));
    if (tx->last_need > BTL_SM_LINE) {
        btl_sm_line_claim(tx->base + ((offset + BTL_SM_LINE) & (tx->size - 1)));
    }
}

/**
 * @brief Look at the next record.
 * @param[in]  rx           consumer state
 * @param[out] rec_out      header word, read once and checked; SKIP records are returned too
 * @param[out] payload_out  its payload inside the ring, valid until release
 * @return BTL_SM_FBOX_OK, BTL_SM_FBOX_EMPTY or BTL_SM_FBOX_CORRUPT
 *
 * Ordering: acquires FBOX_DATA. Cost: one load of a line that nobody else writes while it is empty.
 */
static inline enum btl_sm_fbox_rc btl_sm_fbox_peek(const btl_sm_fbox_rx_t *rx, uint64_t *rec_out,
                                                   unsigned char **payload_out)
{
    uint64_t offset = (rx->consumed - rx->start) & (rx->size - 1);
    uint64_t rec = btl_sm_load_acquire(BTL_SM_EDGE_FBOX_DATA, btl_sm_fbox_word(rx->base, offset));
    uint64_t total;

    if (0 == rec) {
        return BTL_SM_FBOX_EMPTY;
    }
    total = (uint64_t) btl_sm_rec_len(rec) + BTL_SM_FBOX_HDR;
    /* Inside of the ring; rounding up does not lead out of it, because what is longer than half a line
     * must start on one. */
    if (btl_sm_rec_seq(rec) != rx->seq || 0 == btl_sm_rec_kind(rec)
        || btl_sm_rec_kind(rec) >= BTL_SM_REC_KINDS || total > rx->size - offset
        || (total > BTL_SM_FBOX_HALF && 0 != (offset & BTL_SM_FBOX_HALF))) {
        return BTL_SM_FBOX_CORRUPT;
    }
    *rec_out = rec;
    *payload_out = rx->base + offset + BTL_SM_FBOX_HDR;
    return BTL_SM_FBOX_OK;
}

/** @brief Is there nothing to peek? For a waiting loop; orders nothing, so peek must follow. */
static inline int btl_sm_fbox_empty(const btl_sm_fbox_rx_t *rx)
{
    uint64_t offset = (rx->consumed - rx->start) & (rx->size - 1);

    return 0 == btl_sm_load_relaxed(btl_sm_fbox_word(rx->base, offset));
}

/**
 * @brief Fetch lines ahead that the next record will probably take, while waiting for it.
 * @param[in] lines  after the one with the header word
 *
 * Without it the second line of a record costs a transfer of its own after the first (115 ns between
 * distant cores of a Zen 5), because nothing announces it. A hint, orders nothing.
 */
static inline void btl_sm_fbox_ahead(const btl_sm_fbox_rx_t *rx, unsigned lines)
{
    uint64_t offset = rx->consumed - rx->start;

    for (unsigned i = 1; i <= lines; ++i) {
        __builtin_prefetch(rx->base + ((offset + BTL_SM_LINE * i) & (rx->size - 1)));
    }
}

/**
 * @brief Give the record that was peeked back to the producer.
 * @param[in,out] rx   consumer state
 * @param[in]     rec  the header word that peek returned
 *
 * Ordering: releases FBOX_SPACE, now or with a later record. Cost: one store to the tail per
 * 1/BTL_SM_FBOX_LAZY of the ring.
 */
static inline void btl_sm_fbox_release(btl_sm_fbox_rx_t *rx, uint64_t rec)
{
    rx->consumed += btl_sm_fbox_need(btl_sm_rec_len(rec));
    rx->seq++;
    if (rx->consumed - rx->returned >= rx->lazy) {
        rx->returned = rx->consumed;
        btl_sm_store_release(BTL_SM_EDGE_FBOX_SPACE, rx->tail, rx->consumed);
    }
}

#endif /* MCA_BTL_SM_FBOX_H */

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit test of btl_sm_fbox.h, one process: each call on a state that was set up for it. Positions
 * at and around the end of the ring, counters at the wrap of 64 bits, sequence numbers at that of
 * 16, everything that a hostile or broken peer can leave in a header word or a tail.
 */
#include "btl_sm_fbox.h"

#include <string.h>

#include "pattern.h"
#include "rng.h"
#include "tap.h"

enum { SIZE = 4096, LINES = SIZE / BTL_SM_LINE, HALVES = SIZE / BTL_SM_FBOX_HALF, GUARD = 256 };

static struct {
    unsigned char before[GUARD];
    unsigned char ring[SIZE];
    unsigned char after[GUARD];
} memory __attribute__((aligned(4096)));
static btl_sm_atomic64_t tail;
static btl_sm_fbox_tx_t tx;
static btl_sm_fbox_rx_t rx;

/** Both ends at counter `at`, `unreturned` bytes consumed but not given back, garbage elsewhere. */
static void set_up(uint64_t start, uint64_t at, uint64_t unreturned, uint16_t seq)
{
    memset(&memory, PATTERN_GUARD, sizeof(memory));
    btl_sm_fbox_tx_init(&tx, memory.ring, SIZE, &tail, start, seq);
    btl_sm_fbox_rx_init(&rx, memory.ring, SIZE, &tail, start, seq);
    tx.head = at;
    tx.tail_seen = at - unreturned;
    rx.consumed = at;
    rx.returned = at - unreturned;
    btl_sm_store_relaxed(&tail, at - unreturned);
    btl_sm_store_relaxed(btl_sm_fbox_word(memory.ring, (at - start) & (SIZE - 1)), 0);
}

static bool guards_good(void)
{
    return GUARD == pattern_run(memory.before, GUARD, PATTERN_GUARD)
           && GUARD == pattern_run(memory.after, GUARD, PATTERN_GUARD);
}

/** One record through the ring; true if it arrives whole. */
static bool pass(size_t len, uint64_t name)
{
    unsigned char *payload;
    uint64_t rec;

    if (BTL_SM_FBOX_OK != btl_sm_fbox_reserve(&tx, len, &payload)) {
        return false;
    }
    pattern_fill(payload, len, name, 0);
    btl_sm_fbox_publish(&tx, len, BTL_SM_REC_DATA, (uint32_t) name & 0xff);
    for (;;) {
        if (BTL_SM_FBOX_OK != btl_sm_fbox_peek(&rx, &rec, &payload)) {
            return false;
        }
        if (BTL_SM_REC_SKIP != btl_sm_rec_kind(rec)) {
            break;
        }
        btl_sm_fbox_release(&rx, rec);
    }
    if (btl_sm_rec_len(rec) != len || btl_sm_rec_kind(rec) != BTL_SM_REC_DATA
        || btl_sm_rec_tag(rec) != (name & 0xff) || len != pattern_good(payload, len, name, 0)) {
        return false;
    }
    btl_sm_fbox_release(&rx, rec);
    return BTL_SM_FBOX_EMPTY == btl_sm_fbox_peek(&rx, &rec, &payload);
}

static void sizes(void)
{
    bool fits = true, aligned = true, enough = true;

    for (uint32_t size = 4096; size <= (1u << BTL_SM_BOX_MAX_LOG2); size *= 2) {
        size_t most = btl_sm_fbox_max_payload(size);
        uint64_t need = btl_sm_fbox_need(most);

        /* the worst case: the end of the ring is half a line too short for the record */
        fits = fits && 2 * need - BTL_SM_FBOX_HALF + BTL_SM_LINE <= size - size / BTL_SM_FBOX_LAZY;
        enough = enough && most >= size / 4;
    }
    for (size_t len = 0; len < 3000; ++len) {
        uint64_t need = btl_sm_fbox_need(len);

        aligned = aligned && (0 == need % BTL_SM_LINE || BTL_SM_FBOX_HALF == need)
                  && need >= len + BTL_SM_FBOX_HDR && need < len + BTL_SM_FBOX_HDR + BTL_SM_LINE;
    }
    tap_ok(fits, "the largest record, what it skips and a lazy tail fit into every ring");
    tap_ok(enough, "a record holds at least a quarter of its ring");
    tap_ok(aligned, "a record takes half a line or whole ones, and no line too many");
    tap_same((long long) btl_sm_fbox_need(56), 64, "56 bytes travel in one line");
    tap_same((long long) btl_sm_fbox_need(57), 128, "57 bytes do not");
    tap_same((long long) btl_sm_fbox_need(0), 32, "an empty record takes half a line");
    tap_same((long long) btl_sm_fbox_need(24), 32, "24 bytes, 8 of MPI, take half a line");
    tap_same((long long) btl_sm_fbox_need(25), 64, "25 bytes do not");
    tap_ok(btl_sm_fbox_need(UINT32_MAX) > UINT32_MAX, "the need of an absurd length does not wrap");
}

/** After everything is consumed any record gets its room, wherever the ring stands. */
static void progress(void)
{
    const size_t most = btl_sm_fbox_max_payload(SIZE);
    bool room = true, whole = true, inside = true;
    unsigned long tried = 0;

    for (uint64_t half = 0; half < HALVES; ++half) {
        for (uint64_t lazy = 0; lazy < LINES / BTL_SM_FBOX_LAZY; ++lazy) {
            for (size_t len = 0; len <= most; len += 0 == lazy ? 8 : 56) {
                set_up(0, SIZE + half * BTL_SM_FBOX_HALF, lazy * BTL_SM_LINE, 9);
                whole = whole && pass(len, len);
                inside = inside && guards_good();
                ++tried;
            }
        }
        set_up(0, SIZE + half * BTL_SM_FBOX_HALF, SIZE / BTL_SM_FBOX_LAZY - BTL_SM_LINE, 9);
        unsigned char *payload;
        room = room && BTL_SM_FBOX_OK == btl_sm_fbox_reserve(&tx, most, &payload);
    }
    tap_ok(room, "the largest record has room at every position with the laziest tail");
    tap_ok(whole, "records of all lengths arrive whole at every position (%lu)", tried);
    tap_ok(inside, "nothing is written beside the ring");
}

static void every_length(void)
{
    const size_t most = btl_sm_fbox_max_payload(SIZE);
    bool whole = true, inside = true;

    for (uint64_t half = 0; half < HALVES; half += 11) {
        for (size_t len = 0; len <= most; ++len) {
            set_up(0, half * BTL_SM_FBOX_HALF, 0, 0);
            whole = whole && pass(len, len + half);
            inside = inside && guards_good();
        }
    }
    tap_ok(whole && inside, "every single length from 0 to %zu arrives whole", most);
}

static void wraps(void)
{
    bool whole = true;

    for (int64_t from = -80; from <= 16; ++from) {
        uint64_t at = (uint64_t) from * BTL_SM_FBOX_HALF;

        set_up(at, at, 0, (uint16_t) (0xfff0 + from));
        for (size_t i = 0; i < 200; ++i) {
            whole = whole && pass(i * 37 % btl_sm_fbox_max_payload(SIZE), i);
        }
    }
    tap_ok(whole, "counters pass 2^64 and sequence numbers 2^16 at every half line of the ring");
}

static void full(void)
{
    unsigned char *payload = NULL;
    btl_sm_fbox_tx_t before;
    uint64_t rec;
    int sent = 0;

    set_up(0, 0, 0, 0);
    while (BTL_SM_FBOX_OK == btl_sm_fbox_reserve(&tx, 8, &payload)) {
        btl_sm_fbox_publish(&tx, 8, BTL_SM_REC_DATA, 0);
        ++sent;
    }
    tap_same(sent, HALVES - 2, "a ring is full when one line is left");
    before = tx;
    payload = NULL;
    tap_same(btl_sm_fbox_reserve(&tx, 8, &payload), BTL_SM_FBOX_EMPTY, "then it has no room");
    tap_ok(0 == memcmp(&before, &tx, sizeof(tx)) && NULL == payload,
           "and refusing changes nothing");

    for (int i = 0; i < HALVES / BTL_SM_FBOX_LAZY - 1; ++i) {
        if (BTL_SM_FBOX_OK == btl_sm_fbox_peek(&rx, &rec, &payload)) {
            btl_sm_fbox_release(&rx, rec);
        }
    }
    tap_same((long long) btl_sm_load_relaxed(&tail), 0, "space is given back lazily");
    if (BTL_SM_FBOX_OK == btl_sm_fbox_peek(&rx, &rec, &payload)) {
        btl_sm_fbox_release(&rx, rec);
    }
    tap_same((long long) btl_sm_load_relaxed(&tail), SIZE / BTL_SM_FBOX_LAZY,
             "a quarter of the ring at a time");
    tap_same(btl_sm_fbox_reserve(&tx, 8, &payload), BTL_SM_FBOX_OK, "then there is room again");
}

/** Publish a record of `len` bytes; returns where in the ring it lies, or SIZE if there is no room. */
static size_t put_at(size_t len)
{
    unsigned char *payload;

    if (BTL_SM_FBOX_OK != btl_sm_fbox_reserve(&tx, len, &payload)) {
        return SIZE;
    }
    memset(payload, 0x5a, len);
    btl_sm_fbox_publish(&tx, len, BTL_SM_REC_DATA, 0);
    return (size_t) (payload - memory.ring) - BTL_SM_FBOX_HDR;
}

/** The next record's length if it has this kind, else -1. */
static long long take_kind(uint32_t kind)
{
    unsigned char *payload;
    uint64_t rec;

    if (BTL_SM_FBOX_OK != btl_sm_fbox_peek(&rx, &rec, &payload) || kind != btl_sm_rec_kind(rec)) {
        return -1;
    }
    btl_sm_fbox_release(&rx, rec);
    return btl_sm_rec_len(rec);
}

static void halves(void)
{
    set_up(0, 0, 0, 0);
    tap_ok(0 == put_at(24) && 32 == put_at(24) && 64 == put_at(0) && 96 == put_at(8),
           "two records of up to 24 bytes share a line");
    tap_ok(128 == put_at(56) && 192 == put_at(1) && 256 == put_at(25),
           "a longer one starts on a line");
    tap_ok(24 == take_kind(BTL_SM_REC_DATA) && 24 == take_kind(BTL_SM_REC_DATA)
               && 0 == take_kind(BTL_SM_REC_DATA) && 8 == take_kind(BTL_SM_REC_DATA)
               && 56 == take_kind(BTL_SM_REC_DATA) && 1 == take_kind(BTL_SM_REC_DATA),
           "and all are taken in order");
    tap_same(take_kind(BTL_SM_REC_SKIP), 24, "the half line before it is skipped");
    tap_ok(25 == take_kind(BTL_SM_REC_DATA) && -1 == take_kind(BTL_SM_REC_DATA),
           "nothing is behind the last one");

    set_up(0, SIZE - 96, 0, 0);
    tap_same((long long) put_at(100), 0,
             "from half a line before the last the ring is left as a whole");
    tap_ok(24 == take_kind(BTL_SM_REC_SKIP) && 56 == take_kind(BTL_SM_REC_SKIP)
               && 100 == take_kind(BTL_SM_REC_DATA),
           "with one SKIP of half a line and one of the rest");
    set_up(0, SIZE - 32, 0, 0);
    tap_ok(SIZE - 32 == put_at(24) && 0 == put_at(24) && 24 == take_kind(BTL_SM_REC_DATA)
               && 24 == take_kind(BTL_SM_REC_DATA),
           "the last half line is used");

    set_up(0, 0, 0, 0);
    (void) put_at(8);
    btl_sm_fbox_preclear(&tx);
    tap_same((long long) tx.cleared, 64, "the line after the next record is cleared ahead of time");
    (void) put_at(8);
    btl_sm_fbox_preclear(&tx);
    tap_same((long long) tx.cleared, 64, "the second half of the next record's line is not");
    tap_ok(64 == put_at(8) && 96 == put_at(8) && -1 != take_kind(BTL_SM_REC_DATA),
           "and the ring goes on");
}

/** A refused reserve must not publish a SKIP that it has no room behind. */
static void full_at_the_end(void)
{
    bool kept = true;
    unsigned char *payload;

    for (uint64_t used = 0; used < LINES; ++used) {
        for (size_t len = 100; len <= btl_sm_fbox_max_payload(SIZE); len += 100) {
            btl_sm_fbox_tx_t before;
            uint64_t at = 2 * SIZE - 64;

            set_up(0, at, used * BTL_SM_LINE, 3);
            before = tx;
            if (BTL_SM_FBOX_EMPTY == btl_sm_fbox_reserve(&tx, len, &payload)) {
                kept = kept && 0 == memcmp(&before, &tx, sizeof(tx))
                       && 0 == btl_sm_load_relaxed(btl_sm_fbox_word(memory.ring, SIZE - 64));
            }
        }
    }
    tap_ok(kept, "a record without room skips nothing");
}

/** What reserve hands out, and the word behind it, is never in use by the consumer. */
static void no_overlap(void)
{
    bool apart = true;
    unsigned long granted = 0;

    for (uint64_t half = 0; half < HALVES; ++half) {
        for (uint64_t used = 0; used < LINES; ++used) {
            for (size_t len = 0; len <= btl_sm_fbox_max_payload(SIZE); len += 40) {
                unsigned char *payload;
                uint64_t at = 3 * SIZE + half * BTL_SM_FBOX_HALF, first, end, used_from;

                set_up(0, at, used * BTL_SM_LINE, 3);
                if (BTL_SM_FBOX_OK != btl_sm_fbox_reserve(&tx, len, &payload)) {
                    continue;
                }
                ++granted;
                /* in counters: [at - used, at) is in use, and so is that plus one ring */
                first = tx.head;
                end = first + btl_sm_fbox_need(len) + BTL_SM_LINE;
                used_from = at - used * BTL_SM_LINE + SIZE;
                apart = apart && end <= used_from
                        && payload == memory.ring + (first & (SIZE - 1)) + BTL_SM_FBOX_HDR
                        && payload + len <= memory.ring + SIZE;
            }
        }
    }
    tap_ok(apart, "what is handed out is nobody else's (%lu cases)", granted);
}

static void aborts(void)
{
    unsigned char *payload, *again;
    uint64_t rec;

    set_up(0, 0, 0, 5);
    (void) btl_sm_fbox_reserve(&tx, 500, &payload);
    memset(payload, 0xff, 500);
    tap_same(btl_sm_fbox_peek(&rx, &rec, &again), BTL_SM_FBOX_EMPTY,
             "what is only reserved cannot be seen");
    tap_ok(pass(40, 1), "after an abort the next record takes the same place");

    set_up(0, SIZE - 64, 0, 5);
    (void) btl_sm_fbox_reserve(&tx, 500, &payload); /* skips to the start of the ring */
    memset(payload, 0xff, 500);
    tap_ok(BTL_SM_FBOX_OK == btl_sm_fbox_peek(&rx, &rec, &again)
               && BTL_SM_REC_SKIP == btl_sm_rec_kind(rec),
           "an abort behind a wrap leaves one SKIP");
    btl_sm_fbox_release(&rx, rec);
    tap_same(btl_sm_fbox_peek(&rx, &rec, &again), BTL_SM_FBOX_EMPTY, "and nothing after it");
    tap_ok(pass(300, 2), "and the ring goes on");

    set_up(0, 0, 0, 5);
    (void) btl_sm_fbox_reserve(&tx, 500, &payload);
    pattern_fill(payload, 20, 3, 0);
    btl_sm_fbox_publish(&tx, 20, BTL_SM_REC_LAST, 4);
    tap_ok(BTL_SM_FBOX_OK == btl_sm_fbox_peek(&rx, &rec, &again) && 20 == btl_sm_rec_len(rec)
               && 20 == pattern_good(again, 20, 3, 0),
           "less may be published than was reserved");
    btl_sm_fbox_release(&rx, rec);
    tap_ok(pass(8, 9), "and the next record follows it closely");
}

static enum btl_sm_fbox_rc peek_at(uint64_t at, uint64_t word)
{
    unsigned char *payload = NULL;
    uint64_t rec = 77;
    enum btl_sm_fbox_rc rc;

    set_up(0, at, 0, 6);
    btl_sm_store_relaxed(btl_sm_fbox_word(memory.ring, at & (SIZE - 1)), word);
    rc = btl_sm_fbox_peek(&rx, &rec, &payload);
    if (BTL_SM_FBOX_OK != rc && (77 != rec || NULL != payload)) {
        tap_ok(false, "outputs of a refused record are untouched");
    }
    return rc;
}

static void hostile_headers(void)
{
    const uint32_t last = SIZE - 64;

    tap_same(peek_at(0, btl_sm_rec_make(8, BTL_SM_REC_DATA, 0, 6)), BTL_SM_FBOX_OK,
             "a good record is taken");
    tap_same(peek_at(0, btl_sm_rec_make(8, BTL_SM_REC_DATA, 0, 7)), BTL_SM_FBOX_CORRUPT,
             "one with the next sequence number is not");
    tap_same(peek_at(0, btl_sm_rec_make(8, BTL_SM_REC_DATA, 0, 5)), BTL_SM_FBOX_CORRUPT,
             "nor one with the last");
    tap_same(peek_at(0, btl_sm_rec_make(8, 0, 0, 6)), BTL_SM_FBOX_CORRUPT, "nor one without kind");
    tap_same(peek_at(0, btl_sm_rec_make(8, BTL_SM_REC_KINDS, 0, 6)), BTL_SM_FBOX_CORRUPT,
             "nor one of unknown kind");
    tap_same(peek_at(0, btl_sm_rec_make(8, 255, 0, 6)), BTL_SM_FBOX_CORRUPT, "nor of kind 255");
    tap_same(peek_at(0, btl_sm_rec_make(SIZE - 8, BTL_SM_REC_SKIP, 0, 6)), BTL_SM_FBOX_OK,
             "a record as long as the ring is possible");
    tap_same(peek_at(0, btl_sm_rec_make(SIZE - 7, BTL_SM_REC_DATA, 0, 6)), BTL_SM_FBOX_CORRUPT,
             "a longer one is not");
    tap_same(peek_at(last, btl_sm_rec_make(56, BTL_SM_REC_DATA, 0, 6)), BTL_SM_FBOX_OK,
             "in the last line 56 bytes are possible");
    tap_same(peek_at(last, btl_sm_rec_make(57, BTL_SM_REC_DATA, 0, 6)), BTL_SM_FBOX_CORRUPT,
             "57 would leave the ring");
    tap_same(peek_at(last, btl_sm_rec_make(UINT32_MAX, BTL_SM_REC_DATA, 0, 6)), BTL_SM_FBOX_CORRUPT,
             "so would 2^32 - 1");
    tap_same(peek_at(32, btl_sm_rec_make(24, BTL_SM_REC_DATA, 0, 6)), BTL_SM_FBOX_OK,
             "in the second half of a line 24 bytes are possible");
    tap_same(peek_at(32, btl_sm_rec_make(25, BTL_SM_REC_DATA, 0, 6)), BTL_SM_FBOX_CORRUPT,
             "25 bytes are not");
    tap_same(peek_at(32, btl_sm_rec_make(56, BTL_SM_REC_SKIP, 0, 6)), BTL_SM_FBOX_CORRUPT,
             "nor is skipping more than that");
    tap_same(peek_at(last, btl_sm_rec_make(88, BTL_SM_REC_SKIP, 0, 6)), BTL_SM_FBOX_CORRUPT,
             "and not beyond the ring");
    tap_same(peek_at(0, UINT64_MAX), BTL_SM_FBOX_CORRUPT, "all bits set is no record");
    tap_same(peek_at(0, 1), BTL_SM_FBOX_CORRUPT, "one bit set is no record");
}

static void hostile_tails(void)
{
    unsigned char *payload;
    const uint64_t at = 10 * SIZE;

    set_up(0, at, SIZE - 64, 0);
    btl_sm_store_relaxed(&tail, at + 64);
    tap_same(btl_sm_fbox_reserve(&tx, 8, &payload), BTL_SM_FBOX_CORRUPT,
             "a tail beyond the head is impossible");
    btl_sm_store_relaxed(&tail, at);
    tap_same(btl_sm_fbox_reserve(&tx, 8, &payload), BTL_SM_FBOX_OK, "a tail at the head is not");
    set_up(0, at, SIZE - 64, 0);
    btl_sm_store_relaxed(&tail, 0);
    tap_same(btl_sm_fbox_reserve(&tx, 8, &payload), BTL_SM_FBOX_EMPTY,
             "a tail that goes back gives no room");
    btl_sm_store_relaxed(&tail, at + (UINT64_C(1) << 63));
    tap_same(btl_sm_fbox_reserve(&tx, 8, &payload), BTL_SM_FBOX_EMPTY, "nor does one far ahead");
}

/** A pair moves to a larger ring: counters carry on, the old tail says nothing of the new. */
static void switches(void)
{
    static unsigned char large[4 * SIZE] __attribute__((aligned(64)));
    unsigned char *payload;
    bool whole = true;
    uint64_t rec = 0;

    set_up(0, 5 * SIZE + 128, 256, 77);
    whole = pass(100, 1);
    (void) btl_sm_fbox_reserve(&tx, sizeof(struct btl_sm_rec_switch), &payload);
    memset(large, 0x11, sizeof(large));
    btl_sm_store_relaxed(btl_sm_fbox_word(large, 0), 0);
    btl_sm_fbox_publish(&tx, sizeof(struct btl_sm_rec_switch), BTL_SM_REC_SWITCH, 0);
    btl_sm_fbox_tx_init(&tx, large, sizeof(large), &tail, tx.head, tx.seq);
    if (BTL_SM_FBOX_OK == btl_sm_fbox_reserve(&tx, 8, &payload)) {
        btl_sm_fbox_publish(&tx, 8, BTL_SM_REC_DATA, 0); /* before the consumer has moved */
    }
    whole = whole && BTL_SM_FBOX_OK == btl_sm_fbox_peek(&rx, &rec, &payload)
            && BTL_SM_REC_SWITCH == btl_sm_rec_kind(rec);
    btl_sm_fbox_release(&rx, rec);
    btl_sm_fbox_rx_init(&rx, large, sizeof(large), &tail, rx.consumed, rx.seq);
    whole = whole && BTL_SM_FBOX_OK == btl_sm_fbox_peek(&rx, &rec, &payload);
    btl_sm_fbox_release(&rx, rec);
    for (size_t i = 0; i < 500; ++i) {
        whole = whole && pass(i * 61 % btl_sm_fbox_max_payload(sizeof(large)), i);
    }
    tap_ok(whole, "a pair moves to a larger ring in mid-stream");
}

enum { LARGE = 65536 };
static unsigned char large_ring[LARGE] __attribute__((aligned(4096)));

/** Both ends on the large ring at counter `at`. */
static void set_up_large(uint64_t at, uint64_t unreturned)
{
    set_up(0, 0, 0, 0);
    btl_sm_fbox_tx_init(&tx, large_ring, LARGE, &tail, 0, 0);
    btl_sm_fbox_rx_init(&rx, large_ring, LARGE, &tail, 0, 0);
    tx.head = rx.consumed = at;
    tx.tail_seen = rx.returned = at - unreturned;
    btl_sm_store_relaxed(&tail, at - unreturned);
    btl_sm_store_relaxed(btl_sm_fbox_word(large_ring, at & (LARGE - 1)), 0);
}

/** The furthest line that `count` records of `len` bytes, one at a time, come to. */
static uint64_t furthest(size_t len, int count, bool *good)
{
    uint64_t most = 0;

    for (int i = 0; i < count; ++i) {
        *good = *good && pass(len, (uint64_t) i);
        uint64_t end = (tx.head - tx.start) & (LARGE - 1);
        most = end > most ? end : most;
    }
    return most;
}

static void window(void)
{
    bool good = true, near = true, room = true;

    for (size_t len = 8; len <= BTL_SM_FBOX_RETURN - BTL_SM_FBOX_HDR; len += 48) {
        set_up_large(0, 0);
        near = near && furthest(len, 2000, &good) <= BTL_SM_FBOX_WINDOW + btl_sm_fbox_need(len);
    }
    tap_ok(near, "short records, one at a time, stay in the first page of a large ring");

    /* a burst goes round the ring: each record ends where the next begins, also at the end */
    for (uint64_t round = 0; round < 3; ++round) {
        unsigned char *payload;
        uint64_t rec;

        set_up_large(0, 0);
        for (uint64_t i = 0; i < (LARGE / BTL_SM_LINE) * (round + 1) + 5; ++i) {
            for (int under_way = 0; 0 == i && under_way < 100; ++under_way) {
                good = good && BTL_SM_FBOX_OK == btl_sm_fbox_reserve(&tx, 8, &payload);
                pattern_fill(payload, 8, 0, 0);
                btl_sm_fbox_publish(&tx, 8, BTL_SM_REC_DATA, 0);
            }
            good = good && BTL_SM_FBOX_OK == btl_sm_fbox_reserve(&tx, 8, &payload);
            btl_sm_fbox_publish(&tx, 8, BTL_SM_REC_DATA, 0);
            if (BTL_SM_FBOX_OK == btl_sm_fbox_peek(&rx, &rec, &payload)) {
                btl_sm_fbox_release(&rx, rec);
            }
        }
        while (BTL_SM_FBOX_OK == btl_sm_fbox_peek(&rx, &rec, &payload)) {
            btl_sm_fbox_release(&rx, rec);
        }
        (void) furthest(8, BTL_SM_FBOX_WINDOW / BTL_SM_LINE + 1, &good);
        near = near && furthest(8, 500, &good) <= BTL_SM_FBOX_WINDOW + BTL_SM_LINE;
    }
    tap_ok(near && good, "and they find back to it after a burst that went round the ring");

    for (uint64_t line = 0; line < LARGE / BTL_SM_LINE; ++line) {
        unsigned char *payload;

        for (uint64_t lazy = 0; lazy < BTL_SM_FBOX_RETURN / BTL_SM_LINE; ++lazy) {
            set_up_large(LARGE + line * BTL_SM_LINE, lazy * BTL_SM_LINE);
            room = room
                   && BTL_SM_FBOX_OK
                          == btl_sm_fbox_reserve(&tx, btl_sm_fbox_max_payload(LARGE), &payload);
            set_up_large(LARGE + line * BTL_SM_LINE, lazy * BTL_SM_LINE);
            room = room && pass(line % 900, line);
        }
    }
    tap_ok(room, "going back never takes the room of a record away");
}

/** Random traffic with both ends at their own pace, against a queue of what is under way. */
static void traffic(void)
{
    enum { QUEUE = 256 };
    rng_t rng = rng_split(tap_seed(), 3);
    unsigned long messages = tap_long() ? 5000000 : 200000, sent = 0, got = 0, refused = 0;
    size_t queue[QUEUE];
    bool good = true;

    set_up((uint64_t) 0 - 3 * SIZE, (uint64_t) 0 - 3 * SIZE, 0, 0xff00);
    while (good && got < messages) {
        unsigned char *payload;
        uint64_t rec;

        if (0 != rng_below(&rng, 2) && sent < messages && sent - got < QUEUE) {
            size_t len = 0 != rng_below(&rng, 8)
                             ? rng_below(&rng, 200)
                             : rng_below(&rng, btl_sm_fbox_max_payload(SIZE) + 1);
            enum btl_sm_fbox_rc rc = btl_sm_fbox_reserve(&tx, len, &payload);

            good = good && BTL_SM_FBOX_CORRUPT != rc;
            refused += BTL_SM_FBOX_EMPTY == rc;
            if (BTL_SM_FBOX_OK == rc && 0 != rng_below(&rng, 16)) { /* else an abort */
                pattern_fill(payload, len, sent, 0);
                btl_sm_fbox_publish(&tx, len, BTL_SM_REC_DATA, (uint32_t) sent & 0xff);
                queue[sent++ % QUEUE] = len;
            }
        } else {
            enum btl_sm_fbox_rc rc = btl_sm_fbox_peek(&rx, &rec, &payload);

            good = good && BTL_SM_FBOX_CORRUPT != rc;
            if (BTL_SM_FBOX_OK == rc) {
                if (BTL_SM_REC_SKIP != btl_sm_rec_kind(rec)) {
                    size_t len = queue[got % QUEUE];

                    good = good && sent > got && btl_sm_rec_len(rec) == len
                           && btl_sm_rec_tag(rec) == (got & 0xff)
                           && len == pattern_good(payload, len, got, 0);
                    ++got;
                }
                btl_sm_fbox_release(&rx, rec);
            }
        }
    }
    tap_ok(good && guards_good(), "%lu random records arrive in order and whole", got);
    tap_ok(refused > 100, "and the ring was full now and then (%lu times)", refused);
}

/** Header words that are cleared ahead of time: the guess may be right, too short, or too long, the
 *  ring full of what looks like headers, and the end of the ring near. */
static void precleared(void)
{
    unsigned char *payload;
    rng_t rng = rng_split(tap_seed(), 4);
    uint64_t rec, skipped = 0;
    bool whole = true, silent = true, once = true;

    set_up(0, 0, 0, 0);
    for (uint64_t i = 0; i < LINES; ++i) { /* valid in the next lap, were they not cleared */
        btl_sm_store_relaxed(btl_sm_fbox_word(memory.ring, i * BTL_SM_LINE),
                             btl_sm_rec_make(8, BTL_SM_REC_DATA, 1, (uint16_t) (i + 1)));
    }
    btl_sm_store_relaxed(btl_sm_fbox_word(memory.ring, 0), 0);
    for (uint64_t i = 0; i < 20000 && whole; ++i) {
        size_t len = 0 != rng_below(&rng, 3) ? 20
                                             : rng_below(&rng, btl_sm_fbox_max_payload(SIZE) + 1);

        if (0 != rng_below(&rng, 4)) {
            uint64_t at = tx.head + tx.last_need;

            btl_sm_fbox_preclear(&tx);
            once = once
                   && (tx.cleared != at || at == tx.head
                       || 0
                              == btl_sm_load_relaxed(
                                  btl_sm_fbox_word(memory.ring, (at - tx.start) & (SIZE - 1))));
            skipped += tx.cleared == at;
        }
        whole = pass(len, i);
        silent = silent && BTL_SM_FBOX_EMPTY == btl_sm_fbox_peek(&rx, &rec, &payload);
    }
    tap_ok(whole, "cleared ahead or not, each record arrives whole");
    tap_ok(silent, "and nothing else looks like one");
    tap_ok(once, "what is said to be cleared is");
    tap_ok(skipped > 1000 && guards_good(), "it happens, and only within the ring");

    set_up(0, 0, 0, 0);
    while (BTL_SM_FBOX_OK == btl_sm_fbox_reserve(&tx, 56, &payload)) {
        btl_sm_fbox_publish(&tx, 56, BTL_SM_REC_DATA, 0);
        btl_sm_fbox_preclear(&tx);
    }
    for (whole = true, rec = 0; BTL_SM_FBOX_OK == btl_sm_fbox_peek(&rx, &rec, &payload);) {
        btl_sm_fbox_release(&rx, rec);
    }
    tap_same((long long) rx.consumed, (long long) tx.head,
             "in a full ring nothing is cleared that the consumer still needs");
}

int main(void)
{
    tap_deadline(600);
    sizes();
    progress();
    every_length();
    wraps();
    full();
    halves();
    full_at_the_end();
    no_overlap();
    aborts();
    hostile_headers();
    hostile_tails();
    switches();
    window();
    precleared();
    traffic();
    return tap_done();
}

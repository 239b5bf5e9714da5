/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target: a consumer of a fast box whose bytes are all hostile and change under its hands, and
 * a producer whose tail is.
 *
 * Must hold: no access outside of the ring (it is a heap block of its own, so AddressSanitizer sees
 * one byte too many), every record inside, an end after a bounded number of steps.
 */
#include "fuzz.h"

#include "btl_sm_fbox.h"

enum { STEPS = 400 };

static void consume(fuzz_input_t *in, unsigned char *ring, uint32_t size)
{
    btl_sm_atomic64_t tail = 0;
    btl_sm_fbox_rx_t rx;
    uint64_t start = fuzz_word(in);
    uint16_t seq = (uint16_t) fuzz_word(in);
    uint64_t sum = 0;

    btl_sm_fbox_rx_init(&rx, ring, size, &tail, start, seq);
    rx.consumed = start + (fuzz_byte(in) % (size / BTL_SM_LINE)) * (uint64_t) BTL_SM_LINE;
    rx.returned = rx.consumed;
    for (int step = 0; step < STEPS; ++step) {
        unsigned char *payload = NULL;
        uint64_t rec = 0, before = rx.consumed;

        /* the peer writes whatever it likes, as often as not a good header */
        uint8_t what = fuzz_byte(in);
        uint64_t offset = (rx.consumed - rx.start) & (size - 1), word = fuzz_word(in);
        if (0 != (what & 1)) {
            word = btl_sm_rec_make((uint32_t) word % (2 * size), (uint32_t) (word >> 32) % 12, 1,
                                   (uint16_t) (rx.seq + (0 == (what & 0x70) ? 1 : 0)));
        }
        if (0 != (what & 2)) {
            offset = word % size & ~UINT64_C(7);
        }
        btl_sm_store_relaxed(btl_sm_fbox_word(ring, offset), word);

        enum btl_sm_fbox_rc rc = btl_sm_fbox_peek(&rx, &rec, &payload);
        if (BTL_SM_FBOX_OK != rc) {
            fuzz_check(NULL == payload && 0 == rec, "outputs of a refused record are untouched");
            if (BTL_SM_FBOX_CORRUPT == rc || in->at == in->end) {
                break;
            }
            continue;
        }
        fuzz_check(payload >= ring && payload + btl_sm_rec_len(rec) <= ring + size,
                   "a record lies inside of the ring");
        /* the header changes once more; what was read counts */
        btl_sm_store_relaxed(btl_sm_fbox_word(ring, (rx.consumed - rx.start) & (size - 1)), ~word);
        for (uint32_t i = 0; i < btl_sm_rec_len(rec); ++i) {
            sum += payload[i];
        }
        btl_sm_fbox_release(&rx, rec);
        fuzz_check(rx.consumed != before && rx.consumed - before <= size, "every record moves on");
        fuzz_check(rx.consumed - rx.returned < size / BTL_SM_FBOX_LAZY
                       || rx.returned == rx.consumed,
                   "space is given back");
    }
    fuzz_check(sum < UINT64_MAX, "never");
}

static void produce(fuzz_input_t *in, unsigned char *ring, uint32_t size)
{
    btl_sm_atomic64_t tail = 0;
    btl_sm_fbox_tx_t tx;
    uint64_t start = fuzz_word(in);

    btl_sm_fbox_tx_init(&tx, ring, size, &tail, start, (uint16_t) start);
    btl_sm_store_relaxed(&tail, start);
    for (int step = 0; step < STEPS && in->at < in->end; ++step) {
        size_t len = fuzz_word(in) % (btl_sm_fbox_max_payload(size) + 1);
        uint8_t what = fuzz_byte(in);
        unsigned char *payload = NULL;
        enum btl_sm_fbox_rc rc;

        switch (what % 4) {
        case 0:
            btl_sm_store_relaxed(&tail, fuzz_word(in));
            break;
        case 1:
            btl_sm_store_relaxed(&tail, tx.head - fuzz_word(in) % (2 * size));
            break;
        case 2:
            btl_sm_store_relaxed(&tail, tx.head);
            break;
        default:
            break;
        }
        rc = btl_sm_fbox_reserve(&tx, len, &payload);
        if (BTL_SM_FBOX_CORRUPT == rc) {
            break;
        }
        if (BTL_SM_FBOX_OK == rc) {
            fuzz_check(payload >= ring && payload + len <= ring + size,
                       "what is handed out lies inside of the ring");
            memset(payload, what, len);
            btl_sm_fbox_publish(&tx, len, BTL_SM_REC_DATA, what);
        }
        fuzz_check(tx.head - tx.tail_seen <= size, "no more is under way than the ring holds");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fuzz_input_t in = {data, data + len};
    uint8_t how = fuzz_byte(&in);
    uint32_t size = UINT32_C(4096) << (how % 3);
    unsigned char *ring = NULL;

    if (0 != posix_memalign((void **) &ring, BTL_SM_LINE, size)) {
        return 0;
    }
    memset(ring, how, size);
    if (0 != (how & 0x80)) {
        consume(&in, ring, size);
    } else {
        produce(&in, ring, size);
    }
    free(ring);
    return 0;
}

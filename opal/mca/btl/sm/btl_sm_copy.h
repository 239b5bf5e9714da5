/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Small copies of the send path.
 *
 * Layer 0.
 */
#ifndef MCA_BTL_SM_COPY_H
#define MCA_BTL_SM_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** @brief memcpy by a call: knowing an upper bound, GCC would write a string instruction instead,
 *  which takes a third longer at 1 KiB. */
static inline void btl_sm_copy_bulk(void *restrict to, const void *restrict from, size_t len)
{
    __asm__("" : "+r"(len)); /* forget the bound */
    memcpy(to, from, len);
}

/**
 * @brief Copy a few bytes without a call.
 *
 * Up to 32 bytes by two overlapping moves of a fixed size (which the compiler turns into single
 * instructions), above that memcpy. Ranges do not overlap each other.
 */
static inline void btl_sm_copy_small(void *restrict to, const void *restrict from, size_t len)
{
    unsigned char *t = to;
    const unsigned char *f = from;

    if (len > 32) {
        btl_sm_copy_bulk(t, f, len);
    } else if (len >= 16) {
        unsigned char a[16], b[16];
        memcpy(a, f, 16);
        memcpy(b, f + len - 16, 16);
        memcpy(t, a, 16);
        memcpy(t + len - 16, b, 16);
    } else if (len >= 8) {
        uint64_t a, b;
        memcpy(&a, f, 8);
        memcpy(&b, f + len - 8, 8);
        memcpy(t, &a, 8);
        memcpy(t + len - 8, &b, 8);
    } else if (len >= 4) {
        uint32_t a, b;
        memcpy(&a, f, 4);
        memcpy(&b, f + len - 4, 4);
        memcpy(t, &a, 4);
        memcpy(t + len - 4, &b, 4);
    } else {
        for (size_t i = 0; i < len; ++i) {
            t[i] = f[i];
        }
    }
}

/** Bytes of a record's payload in its first line. */
#define BTL_SM_COPY_FIRST 56
/** Longest record that is written backwards: above, the order costs more than it saves (measured:
 *  25 % less time at 1 KiB, 8 % more at 4 KiB). */
#define BTL_SM_COPY_BACKWARDS 2300
/** Lines that are written backwards, the rest before them. */
#define BTL_SM_COPY_LINES 8

/**
 * @brief Write header and payload of a record, its first lines last.
 * @param[out] to           payload of a reserved record: byte 8 of a line
 * @param[in]  header       header_size bytes, <= BTL_SM_COPY_FIRST
 * @param[in]  from         payload_size bytes
 *
 * The consumer waits on the first line and may fetch the next few ahead. Writing those just before
 * the header word keeps it from taking a line away half written, for which this core would have to
 * ask again.
 */
static inline void btl_sm_copy_record(unsigned char *to, const void *header, size_t header_size,
                                      const void *from, size_t payload_size)
{
    const unsigned char *f = (const unsigned char *) from;
    const size_t total = header_size + payload_size;
    const size_t shift = header_size;

    if (total > BTL_SM_COPY_BACKWARDS) {
        btl_sm_copy_small(to, header, header_size);
        btl_sm_copy_bulk(to + header_size, f, payload_size);
        return;
    }
    if (total > BTL_SM_COPY_FIRST) {
        size_t end = total;

        if (total > BTL_SM_COPY_FIRST + 64 * BTL_SM_COPY_LINES) {
            end = BTL_SM_COPY_FIRST + 64 * BTL_SM_COPY_LINES;
            btl_sm_copy_bulk(to + end, f + end - shift, total - end);
        }
        for (size_t line = (end - BTL_SM_COPY_FIRST - 1) / 64 + 1; line-- > 0;) {
            size_t at = BTL_SM_COPY_FIRST + 64 * line;

            if (end - at >= 64) {
                memcpy(to + at, f + at - shift, 64);
            } else {
                btl_sm_copy_small(to + at, f + at - shift, end - at);
            }
        }
        payload_size = BTL_SM_COPY_FIRST - shift;
    }
    btl_sm_copy_small(to, header, header_size);
    btl_sm_copy_small(to + header_size, f, payload_size);
}

#endif /* MCA_BTL_SM_COPY_H */

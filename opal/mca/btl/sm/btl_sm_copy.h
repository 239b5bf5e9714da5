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
        memcpy(t, f, len);
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

#endif /* MCA_BTL_SM_COPY_H */

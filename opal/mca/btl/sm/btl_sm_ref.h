/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Bounded references to memory of a segment.
 *
 * Layer 0. A reference packs {offset, log2 size} in one 64-bit word, so that it can be handed over
 * by a single store. Whatever comes out of shared memory is checked against the size of the mapping
 * before it becomes a pointer; nothing here dereferences anything.
 */
#ifndef MCA_BTL_SM_REF_H
#define MCA_BTL_SM_REF_H

#include "btl_sm_layout.h"

#define BTL_SM_REF_LOG2_SHIFT 56
#define BTL_SM_BOX_MIN_LOG2   11 /* 2 KiB */
#define BTL_SM_BOX_MAX_LOG2   26 /* 64 MiB */

/**
 * @brief Make a reference.
 * @param[in] offset  bytes from the start of the segment, multiple of BTL_SM_LINE, > 0, < 2^56
 * @param[in] log2    log2 of the size in bytes, BTL_SM_BOX_MIN_LOG2 .. BTL_SM_BOX_MAX_LOG2
 * @return the packed word, never 0
 */
static inline uint64_t btl_sm_ref_make(uint64_t offset, unsigned log2)
{
    return offset | ((uint64_t) log2 << BTL_SM_REF_LOG2_SHIFT);
}

/**
 * @brief Check a reference that came from a peer and take it apart.
 * @param[in]  ref           word as read, once, from shared memory
 * @param[in]  lowest        first offset that may be referenced (end of the fixed part)
 * @param[in]  segment_size  bytes that are mapped
 * @param[out] offset_out    offset in bytes
 * @param[out] size_out      size in bytes, a power of two
 * @return 1 if the referenced bytes lie inside the mapping, else 0 and the outputs are untouched
 */
static inline int btl_sm_ref_check(uint64_t ref, uint64_t lowest, uint64_t segment_size,
                                   uint64_t *offset_out, uint32_t *size_out)
{
    uint64_t log2 = ref >> BTL_SM_REF_LOG2_SHIFT;
    uint64_t offset = ref & ((UINT64_C(1) << BTL_SM_REF_LOG2_SHIFT) - 1);
    uint64_t size;

    if (log2 < BTL_SM_BOX_MIN_LOG2 || log2 > BTL_SM_BOX_MAX_LOG2) {
        return 0;
    }
    size = UINT64_C(1) << log2;
    if (0 != offset % BTL_SM_LINE || offset < lowest || offset > segment_size
        || size > segment_size - offset) {
        return 0;
    }
    *offset_out = offset;
    *size_out = (uint32_t) size;
    return 1;
}

#endif /* MCA_BTL_SM_REF_H */

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target: any word as a reference into a segment of any size.
 *
 * Must hold: what is accepted lies inside, aligned, with a size that is a power of two within
 * bounds; what is refused leaves the outputs untouched; a reference that make has packed is
 * accepted exactly when it lies inside.
 */
#include "fuzz.h"

#include "btl_sm_ref.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fuzz_input_t in = {data, data + len};

    while (in.at < in.end) {
        uint64_t ref = fuzz_word(&in), lowest = fuzz_word(&in), segment = fuzz_word(&in);
        uint64_t offset = 5;
        uint32_t size = 6;
        int accepted = btl_sm_ref_check(ref, lowest, segment, &offset, &size);

        if (!accepted) {
            fuzz_check(5 == offset && 6 == size, "outputs of a refused reference are untouched");
        } else {
            fuzz_check(offset >= lowest && offset <= segment && size <= segment - offset,
                       "an accepted reference lies inside");
            fuzz_check(size >= (1u << BTL_SM_BOX_MIN_LOG2) && size <= (1u << BTL_SM_BOX_MAX_LOG2)
                           && 0 == (size & (size - 1)) && 0 == offset % BTL_SM_LINE,
                       "an accepted reference has a possible size and place");
        }
        unsigned log2 = BTL_SM_BOX_MIN_LOG2
                        + (unsigned) (ref >> 56) % (BTL_SM_BOX_MAX_LOG2 - BTL_SM_BOX_MIN_LOG2 + 1);
        uint64_t at = (ref & ((UINT64_C(1) << 50) - 1)) & ~UINT64_C(63);
        uint64_t bytes = UINT64_C(1) << log2;
        accepted = btl_sm_ref_check(btl_sm_ref_make(at, log2), lowest, segment, &offset, &size);
        fuzz_check(accepted == (at >= lowest && bytes <= segment && at <= segment - bytes),
                   "a packed reference is accepted if it lies inside");
        fuzz_check(!accepted || (offset == at && size == bytes), "and means what was packed");
    }
    return 0;
}

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit test of btl_sm_ref.h: references are packed without loss, and no reference that comes from a
 * peer leads outside of the mapping.
 */
#include "btl_sm_ref.h"

#include "rng.h"
#include "tap.h"

#define LOWEST  8192u
#define SEGMENT (UINT64_C(1) << 20)

static bool accepted(uint64_t ref)
{
    uint64_t offset = 77;
    uint32_t size = 77;
    int rc = btl_sm_ref_check(ref, LOWEST, SEGMENT, &offset, &size);

    if (0 == rc && (77 != offset || 77 != size)) {
        tap_ok(false, "outputs of a refused reference are untouched");
    }
    return 1 == rc;
}

static void packs(void)
{
    bool good = true, never_zero = true;

    for (unsigned log2 = BTL_SM_BOX_MIN_LOG2; log2 <= BTL_SM_BOX_MAX_LOG2; ++log2) {
        for (uint64_t offset = LOWEST; offset < (UINT64_C(1) << 50); offset = offset * 3 + 64) {
            uint64_t got = 0, at = offset & ~UINT64_C(63);
            uint32_t size = 0;
            uint64_t ref = btl_sm_ref_make(at, log2);

            never_zero = never_zero && 0 != ref;
            good = good && 1 == btl_sm_ref_check(ref, LOWEST, UINT64_MAX, &got, &size);
            good = good && got == at && size == (UINT32_C(1) << log2);
        }
    }
    tap_ok(good, "what make packs check unpacks, for every size and offsets up to 2^50");
    tap_ok(never_zero, "a packed reference is never 0");
}

static void bounds(void)
{
    tap_ok(!accepted(0), "0 is no reference");
    tap_ok(accepted(btl_sm_ref_make(LOWEST, 12)), "the lowest offset is accepted");
    tap_ok(!accepted(btl_sm_ref_make(LOWEST - 64, 12)), "one line below it is refused");
    tap_ok(accepted(btl_sm_ref_make(SEGMENT - 4096, 12)), "the last box is accepted");
    tap_ok(!accepted(btl_sm_ref_make(SEGMENT - 4096 + 64, 12)), "one line further is refused");
    tap_ok(!accepted(btl_sm_ref_make(SEGMENT - 4096, 13)), "twice its size is refused");
    tap_ok(!accepted(btl_sm_ref_make(SEGMENT, 12)), "the end of the segment is refused");
    tap_ok(!accepted(btl_sm_ref_make(SEGMENT + 4096, 12)), "beyond the end is refused");
    tap_ok(!accepted(btl_sm_ref_make((UINT64_C(1) << 56) - 64, 12)),
           "the largest offset is refused: nothing overflows");
    tap_ok(!accepted(btl_sm_ref_make(LOWEST, BTL_SM_BOX_MIN_LOG2 - 1)),
           "a box too small is refused");
    tap_ok(!accepted(btl_sm_ref_make(LOWEST, BTL_SM_BOX_MAX_LOG2 + 1)),
           "a box too large is refused");
    tap_ok(!accepted(btl_sm_ref_make(LOWEST, 255)), "an absurd size is refused");
    tap_ok(!accepted(btl_sm_ref_make(LOWEST + 8, 12)), "an offset inside a line is refused");
    tap_ok(accepted(btl_sm_ref_make(LOWEST, 19)), "a box of half the segment is accepted");
    tap_ok(!accepted(btl_sm_ref_make(LOWEST, 20)), "a box of the whole segment does not fit");
}

static void tiny_segments(void)
{
    uint64_t offset;
    uint32_t size;

    tap_ok(!btl_sm_ref_check(btl_sm_ref_make(0, 12), 0, 4095, &offset, &size),
           "a segment shorter than the box is refused");
    tap_ok(1 == btl_sm_ref_check(btl_sm_ref_make(0, 12), 0, 4096, &offset, &size),
           "a box as large as the segment is accepted");
    tap_ok(!btl_sm_ref_check(btl_sm_ref_make(64, 12), 0, 0, &offset, &size),
           "an empty segment holds no box");
}

/** Random words: what is accepted lies inside. */
static void anything(void)
{
    rng_t rng = rng_split(tap_seed(), 1);
    unsigned long good = 0, count = tap_long() ? 50000000 : 2000000;
    bool inside = true;

    for (unsigned long i = 0; i < count; ++i) {
        uint64_t ref = rng_next(&rng), offset = 0;
        uint32_t size = 0;

        if (0 != i % 2) { /* near what is allowed, else nothing is ever accepted */
            ref = btl_sm_ref_make(rng_below(&rng, SEGMENT / 32 + 64) * 64,
                                  (unsigned) rng_below(&rng, 32));
        }
        if (btl_sm_ref_check(ref, LOWEST, SEGMENT, &offset, &size)) {
            ++good;
            inside = inside && offset >= LOWEST && offset + size <= SEGMENT && 0 != size
                     && 0 == (size & (size - 1)) && 0 == offset % BTL_SM_LINE;
        }
    }
    tap_ok(inside, "of %lu random words each accepted one lies inside", count);
    tap_ok(good > count / 100, "and enough of them are accepted (%lu)", good);
}

int main(void)
{
    tap_deadline(120);
    packs();
    bounds();
    tiny_segments();
    anything();
    return tap_done();
}

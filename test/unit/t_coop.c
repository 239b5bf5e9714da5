/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit test of btl_sm_coop.h, one process playing both sides: claims share out every page exactly
 * once for all lengths, old generations get nothing, and what a hostile peer may write on the board
 * is noticed or harmless.
 */
#include "btl_sm_coop.h"

#include <string.h>

#include "rng.h"
#include "tap.h"

#define PAGE ((uint64_t) BTL_SM_COOP_PAGE)

static struct btl_sm_board board;

static void post(uint32_t generation, uint64_t length, uint64_t chunk)
{
    btl_sm_coop_post(&board, generation, BTL_SM_BOARD_GET, 0x1000, 0x2000, length, chunk, NULL, 0);
}

static void takes(void)
{
    bool some = true, bounded = true, halves = true;
    static const uint64_t chunks[] = {0,     1,     4095,   4096,   8192,      12288,
                                      16384, 65536, 131072, 262144, UINT64_MAX};

    for (size_t c = 0; c < sizeof(chunks) / sizeof(chunks[0]); ++c) {
        uint32_t most = (uint32_t) (chunks[c] / PAGE);

        for (uint32_t left = 1; left < 3000; ++left) {
            uint32_t take = btl_sm_coop_take(left, chunks[c]);

            some = some && take > 0 && take <= left;
            bounded = bounded && take <= (0 == most ? 1 : most);
            halves = halves && (take <= (left + 1) / 2 || take <= 4 || take <= most / 8);
        }
    }
    tap_ok(some, "a claim takes at least one page and no more than there are");
    tap_ok(bounded, "and never more than the chunk");
    tap_ok(halves, "and never more than half of what is left, but for the small rest");
    tap_same(btl_sm_coop_take(UINT32_C(0xfffffffe), UINT64_C(1) << 40), 1 << 28,
             "a claim of the largest transfer is computed without overflow");
    tap_same(btl_sm_coop_pages(1), 1, "one byte is one page");
    tap_same(btl_sm_coop_pages(PAGE), 1, "a page is one page");
    tap_same(btl_sm_coop_pages(PAGE + 1), 2, "one byte more is two");
    tap_same(btl_sm_coop_pages(BTL_SM_COOP_MAX_LENGTH), UINT32_C(0xfffffffe),
             "the largest transfer has less pages than a closed claim word");
}

/** Both sides claim in random order; every byte belongs to exactly one claim. */
static void shares(void)
{
    rng_t rng = rng_split(tap_seed(), 4);
    bool covered = true, done_right = true;
    unsigned long rounds = tap_long() ? 200000 : 10000;
    btl_sm_coop_view_t view = {0};

    memset(&board, 0, sizeof(board));
    for (uint32_t g = 1; g <= rounds; ++g) {
        uint64_t length = 1 + rng_below(&rng, 0 != g % 8 ? 64 * PAGE : 4096 * PAGE);
        uint64_t chunk = rng_below(&rng, 80) * PAGE, next = 0;
        uint32_t own = 0, pages;
        btl_sm_coop_range_t range;

        post(g, length, chunk);
        for (;;) {
            bool helper = 0 != rng_below(&rng, 2) && btl_sm_coop_look(&board, &view);

            pages = helper ? btl_sm_coop_claim(&board, view.generation, view.length, view.chunk,
                                               &range)
                           : btl_sm_coop_claim(&board, g, length, chunk, &range);
            if (0 == pages) {
                break;
            }
            covered = covered && range.offset == next && range.length > 0
                      && range.offset + range.length <= length
                      && btl_sm_coop_pages(range.length) == pages;
            next += range.length;
            if (helper) {
                btl_sm_coop_finish(&board, &view, pages);
            } else {
                own += pages;
            }
        }
        covered = covered && next == length;
        done_right = done_right && own + btl_sm_coop_done(&board, g) == btl_sm_coop_pages(length)
                     && 0 == btl_sm_coop_done(&board, g + 1);
    }
    tap_ok(covered, "%lu transfers: each byte belongs to exactly one claim", rounds);
    tap_ok(done_right, "and the pages of both sides add up");
}

static void generations(void)
{
    btl_sm_coop_view_t view = {0}, old;
    btl_sm_coop_range_t range;

    memset(&board, 0, sizeof(board));
    tap_ok(!btl_sm_coop_look(&board, &view), "a new board shows nothing");
    post(7, 10 * PAGE, PAGE);
    tap_ok(btl_sm_coop_look(&board, &view) && 7 == view.generation && 10 * PAGE == view.length
               && 0x1000 == view.helper_addr && 0x2000 == view.initiator_addr && PAGE == view.chunk
               && BTL_SM_BOARD_GET == view.op && 0 == view.handle_size,
           "a posted transfer can be read");
    tap_same(btl_sm_coop_claim(&board, 6, 10 * PAGE, PAGE, &range), 0,
             "an earlier generation claims nothing");
    tap_same(btl_sm_coop_claim(&board, 8, 10 * PAGE, PAGE, &range), 0, "nor does a later one");
    old = view;
    (void) btl_sm_coop_claim_rest(&board, 7, 10 * PAGE, &range);
    tap_ok(0 == range.offset && 10 * PAGE == range.length,
           "the rest of an untouched transfer is all");
    tap_same(btl_sm_coop_claim_rest(&board, 7, 10 * PAGE, &range), 0, "and then nothing is left");
    tap_same(btl_sm_coop_claim(&board, 7, 10 * PAGE, PAGE, &range), 0, "for nobody");
    post(8, 20 * PAGE, PAGE);
    tap_same(btl_sm_coop_claim(&board, old.generation, old.length, old.chunk, &range), 0,
             "a helper with an old view claims nothing of the next transfer");
    tap_same(btl_sm_coop_claim_rest(&board, 7, 20 * PAGE, &range), 0, "nor does the rest of it");
    tap_ok(btl_sm_coop_look(&board, &view) && 8 == view.generation && 20 * PAGE == view.length
               && 0 == view.pages_done,
           "it reads the next description");
    btl_sm_coop_finish(&board, &view, 3);
    tap_same(btl_sm_coop_done(&board, 8), 3, "pages are reported for their generation");
    tap_same(btl_sm_coop_done(&board, 7), 0, "and for no other");
    post(UINT32_MAX, 5 * PAGE - 1, PAGE);
    tap_ok(btl_sm_coop_look(&board, &view)
               && 0 != btl_sm_coop_claim(&board, UINT32_MAX, view.length, view.chunk, &range),
           "the last generation before the wrap works");
    post(1, PAGE, PAGE);
    tap_ok(btl_sm_coop_look(&board, &view) && 1 == view.generation
               && 1 == btl_sm_coop_claim(&board, 1, view.length, view.chunk, &range),
           "and the first after it");
}

/** The board while a new description is half written: nothing can be claimed. */
static void torn(void)
{
    btl_sm_coop_view_t view = {0};
    btl_sm_coop_range_t range;

    memset(&board, 0, sizeof(board));
    post(1, 4 * PAGE, PAGE);
    (void) btl_sm_coop_claim_rest(&board, 1, 4 * PAGE, &range);
    /* as post() leaves it after the length */
    btl_sm_store_relaxed(&board.claim, btl_sm_coop_pack(2, BTL_SM_COOP_CLOSED));
    btl_sm_store_relaxed(&board.length, 100 * PAGE);
    (void) btl_sm_coop_look(&board, &view);
    tap_same(btl_sm_coop_claim(&board, view.generation, view.length, view.chunk, &range), 0,
             "nothing is claimed with half a description");
    tap_same(btl_sm_coop_claim(&board, 2, 100 * PAGE, PAGE, &range), 0, "while the word is closed");
}

static void registrations(void)
{
    uint64_t handle[BTL_SM_HANDLE_MAX / 8];
    btl_sm_coop_view_t view = {0};
    bool same = true;

    for (uint32_t i = 0; i < BTL_SM_HANDLE_MAX / 8; ++i) {
        handle[i] = 1000 + i;
    }
    memset(&board, 0, sizeof(board));
    for (uint32_t size = 0; size <= BTL_SM_HANDLE_MAX; ++size) {
        btl_sm_coop_post(&board, size + 1, BTL_SM_BOARD_PUT, 1, 2, PAGE, PAGE, handle, size);
        same = same && btl_sm_coop_look(&board, &view) && size == view.handle_size
               && 0 == memcmp(view.handle, handle, size);
    }
    tap_ok(same, "registrations of 0 to %d bytes are handed over", BTL_SM_HANDLE_MAX);
    tap_ok(BTL_SM_BOARD_PUT == view.op, "and so is the direction");
}

static void refusals(void)
{
    btl_sm_coop_view_t view = {0};
    btl_sm_coop_range_t range, failed = {0, 0};
    const uint64_t length = 10 * PAGE - 5;
    uint32_t pages;

    memset(&board, 0, sizeof(board));
    tap_same(btl_sm_coop_failed(&board, 1, length, &failed), 0, "at first nothing is given back");
    post(1, length, 3 * PAGE);
    (void) btl_sm_coop_look(&board, &view);
    (void) btl_sm_coop_claim(&board, 1, length, 3 * PAGE, &range);
    (void) btl_sm_coop_claim(&board, 1, length, 3 * PAGE, &range);
    pages = btl_sm_coop_claim(&board, 1, length, 3 * PAGE, &range);
    btl_sm_coop_refuse(&board, &view, &range, pages);
    tap_same(btl_sm_coop_failed(&board, 1, length, &failed), pages, "a claim is given back whole");
    tap_ok(failed.offset == range.offset && failed.length == range.length, "with its range");
    tap_ok(!btl_sm_coop_look(&board, &view), "who has refused does not look at the transfer again");
    tap_same(btl_sm_coop_failed(&board, 2, length, &failed), 0, "the next generation has none");
    post(2, length, PAGE);
    tap_ok(btl_sm_coop_look(&board, &view) && length == view.length,
           "but it may help with the next transfer");

    post(3, length, 10 * PAGE);
    (void) btl_sm_coop_look(&board, &view);
    pages = btl_sm_coop_claim_rest(&board, 3, length, &range);
    btl_sm_coop_refuse(&board, &view, &range, pages);
    (void) btl_sm_coop_failed(&board, 3, length, &failed);
    tap_ok(0 == failed.offset && length == failed.length,
           "a range with the last page ends with it");
}

static uint32_t failed_with(uint64_t word, uint64_t first)
{
    btl_sm_coop_range_t range = {0, 0};
    uint32_t pages;

    btl_sm_store_relaxed(&board.failed, word);
    btl_sm_store_relaxed(&board.failed_first, first);
    pages = btl_sm_coop_failed(&board, 5, 10 * PAGE, &range);
    if (range.offset + range.length > 10 * PAGE || (0 != pages && 0 == range.length)) {
        tap_ok(false, "no range reaches past the end");
    }
    return pages;
}

static void hostile(void)
{
    btl_sm_coop_view_t view = {0};
    btl_sm_coop_range_t range;

    memset(&board, 0, sizeof(board));
    tap_same(failed_with(btl_sm_coop_pack(5, 10), 0), 10, "ten pages of ten may be given back");
    tap_same(failed_with(btl_sm_coop_pack(5, 11), 0), 0, "eleven may not");
    tap_same(failed_with(btl_sm_coop_pack(5, 1), 9), 1, "the last page may");
    tap_same(failed_with(btl_sm_coop_pack(5, 1), 10), 0, "the one behind it may not");
    tap_same(failed_with(btl_sm_coop_pack(5, 2), 9), 0, "nor a range that begins with the last");
    tap_same(failed_with(btl_sm_coop_pack(5, UINT32_MAX), 5), 0, "nor 2^32 - 1 pages");
    tap_same(failed_with(btl_sm_coop_pack(5, 1), UINT64_MAX), 0, "nor a page at 2^64");
    tap_same(failed_with(btl_sm_coop_pack(5, 1), UINT64_C(1) << 32), 0, "nor one at 2^32");
    tap_same(failed_with(btl_sm_coop_pack(5, 0), 0), 0, "no pages are nothing");

    post(1, 0, PAGE);
    tap_ok(!btl_sm_coop_look(&board, &view), "a transfer of no bytes is none");
    post(2, BTL_SM_COOP_MAX_LENGTH + 1, PAGE);
    tap_ok(!btl_sm_coop_look(&board, &view), "one that is too long is none");
    post(3, UINT64_MAX, PAGE);
    tap_ok(!btl_sm_coop_look(&board, &view), "nor one of 2^64 - 1 bytes");
    post(4, PAGE, PAGE);
    btl_sm_store_relaxed(&board.handle_size, UINT64_C(0xffffffff));
    (void) btl_sm_coop_look(&board, &view);
    tap_same(view.handle_size, 0, "a registration that is too long is not read");
    post(6, 5 * PAGE, PAGE);
    btl_sm_store_relaxed(&board.claim, btl_sm_coop_pack(6, UINT32_MAX - 1));
    tap_same(btl_sm_coop_claim(&board, 6, 5 * PAGE, PAGE, &range), 0,
             "a claim word beyond the end hands out nothing");
}

int main(void)
{
    tap_deadline(120);
    takes();
    shares();
    generations();
    torn();
    registrations();
    refusals();
    hostile();
    return tap_done();
}

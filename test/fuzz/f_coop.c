/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target: both sides of a cooperation board whose words the other side writes as it likes.
 *
 * Must hold: whatever is claimed or given back lies within the transfer, a claim moves the word on,
 * and every loop ends. What a lying peer can do is spoil its own transfer.
 */
#include "fuzz.h"

#include "btl_sm_coop.h"

enum { STEPS = 200 };

static void spoil(fuzz_input_t *in, struct btl_sm_board *board, uint32_t generation)
{
    uint8_t what = fuzz_byte(in);
    uint64_t word = fuzz_word(in);

    switch (what % 12) {
    case 0:
        btl_sm_store_relaxed(&board->claim, word);
        break;
    case 1:
        btl_sm_store_relaxed(&board->claim, btl_sm_coop_pack(generation, (uint32_t) word));
        break;
    case 2:
        btl_sm_store_relaxed(&board->done, btl_sm_coop_pack(generation, (uint32_t) word));
        break;
    case 3:
        btl_sm_store_relaxed(&board->failed, btl_sm_coop_pack(generation, (uint32_t) word));
        break;
    case 4:
        btl_sm_store_relaxed(&board->failed_first, what & 0x80 ? word : word % 64);
        break;
    case 5:
        btl_sm_store_relaxed(&board->generation, what & 0x80 ? word : word % 4);
        break;
    case 6:
        btl_sm_store_relaxed(&board->length, what & 0x80 ? word : word % (1 << 20));
        break;
    case 7:
        btl_sm_store_relaxed(&board->chunk, word);
        break;
    case 8:
        btl_sm_store_relaxed(&board->handle_size, word);
        break;
    case 9:
        btl_sm_store_relaxed(&board->op, word);
        break;
    case 10:
        btl_sm_store_relaxed(&board->handle[word % (BTL_SM_HANDLE_MAX / 8)], word);
        break;
    default:
        btl_sm_store_relaxed(&board->helper_addr, word);
        break;
    }
}

static void check_range(const btl_sm_coop_range_t *range, uint32_t pages, uint64_t length)
{
    fuzz_check(0 < range->length && range->offset < length
                   && range->length <= length - range->offset,
               "a range lies within the transfer");
    fuzz_check(0 == range->offset % BTL_SM_COOP_PAGE && btl_sm_coop_pages(range->length) == pages,
               "a range has the pages that were counted");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fuzz_input_t in = {data, data + len};
    struct btl_sm_board *board = calloc(1, sizeof(*board)); /* its end is seen by a sanitizer */
    btl_sm_coop_view_t view = {0};
    btl_sm_coop_range_t range;
    uint64_t length = 1 + fuzz_word(&in) % BTL_SM_COOP_MAX_LENGTH, chunk = fuzz_word(&in);
    uint32_t generation = 1 + (uint32_t) (fuzz_byte(&in) % 4);
    uint64_t handle[BTL_SM_HANDLE_MAX / 8] = {1, 2, 3};

    if (NULL == board) {
        return 0;
    }
    btl_sm_coop_post(board, generation, BTL_SM_BOARD_GET, 0, 0, length, chunk, handle,
                     (uint32_t) (fuzz_word(&in) % (BTL_SM_HANDLE_MAX + 1)));
    for (int step = 0; step < STEPS && in.at < in.end; ++step) {
        uint8_t what = fuzz_byte(&in);
        uint64_t before;
        uint32_t pages;

        switch (what % 6) {
        case 0: /* the helper */
            if (btl_sm_coop_look(board, &view)) {
                fuzz_check(view.handle_size <= BTL_SM_HANDLE_MAX && 0 < view.length
                               && view.length <= BTL_SM_COOP_MAX_LENGTH,
                           "a description that is used is within bounds");
                pages = btl_sm_coop_claim(board, view.generation, view.length, view.chunk, &range);
                if (0 != pages) {
                    check_range(&range, pages, view.length);
                    if (0 != (what & 0x80)) {
                        btl_sm_coop_refuse(board, &view, &range, pages);
                        fuzz_check(!btl_sm_coop_look(board, &view)
                                       || view.generation
                                              != (uint32_t) btl_sm_load_relaxed(&board->generation),
                                   "who has refused is out");
                    } else {
                        btl_sm_coop_finish(board, &view, pages);
                    }
                }
            }
            break;
        case 1: /* the initiator */
            before = btl_sm_load_relaxed(&board->claim);
            pages = btl_sm_coop_claim(board, generation, length, chunk, &range);
            if (0 != pages) {
                check_range(&range, pages, length);
                fuzz_check(btl_sm_load_relaxed(&board->claim) == before + pages,
                           "a claim moves the word by what was claimed");
            }
            break;
        case 2:
            pages = btl_sm_coop_claim_rest(board, generation, length, &range);
            if (0 != pages) {
                check_range(&range, pages, length);
                fuzz_check(0 == btl_sm_coop_claim_rest(board, generation, length, &range),
                           "nothing is left after the rest");
            }
            break;
        case 3:
            (void) btl_sm_coop_done(board, generation);
            pages = btl_sm_coop_failed(board, generation, length, &range);
            if (0 != pages) {
                check_range(&range, pages, length);
            }
            break;
        default:
            spoil(&in, board, generation);
        }
    }
    free(board);
    return 0;
}

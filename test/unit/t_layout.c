/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit test of btl_sm_layout.h: what lies in shared memory has the places that are published, and
 * no two kinds of writers share a pair of cache lines.
 *
 * The numbers below are the layout of this version. If one changes, BTL_SM_LAYOUT_VERSION must too.
 */
#include "btl_sm_layout.h"

#include "rng.h"
#include "tap.h"

#define PAIR(type, field) (offsetof(type, field) / BTL_SM_LINE_PAIR)
#define END_PAIR(type, field) \
    ((offsetof(type, field) + sizeof(((type *) 0)->field) - 1) / BTL_SM_LINE_PAIR)

typedef struct btl_sm_segment_hdr hdr_t;
typedef struct btl_sm_board board_t;
typedef struct btl_sm_cell cell_t;

static void places(void)
{
    tap_same(BTL_SM_LAYOUT_VERSION, 4, "the numbers below belong to this layout version");
    tap_same(sizeof(hdr_t), 4096, "a segment header is one page");
    tap_same(sizeof(board_t), 640, "a board takes five line pairs");
    tap_same(sizeof(cell_t), 896, "a cell takes seven line pairs");
    tap_same(offsetof(hdr_t, magic), 0, "magic comes first");
    tap_same(offsetof(hdr_t, layout_version), 8, "then the version, at 8");
    tap_same(offsetof(hdr_t, hdr_size), 12, "hdr_size at 12");
    tap_same(offsetof(hdr_t, segment_size), 16, "segment_size at 16");
    tap_same(offsetof(hdr_t, nonce), 24, "nonce at 24");
    tap_same(offsetof(hdr_t, cell_count), 40, "cell_count at 40");
    tap_same(offsetof(hdr_t, cell_size), 44, "cell_size at 44");
    tap_same(offsetof(hdr_t, cell_offset), 48, "cell_offset at 48");
    tap_same(offsetof(hdr_t, pid), 56, "pid at 56");
    tap_same(offsetof(hdr_t, local_cells), 60, "local_cells at 60");
    tap_same(offsetof(hdr_t, sleeping), 128, "sleeping at 128");
    tap_same(offsetof(hdr_t, state), 132, "state at 132");
    tap_same(offsetof(hdr_t, door), 256, "door at 256");
    tap_same(offsetof(hdr_t, help), 512, "help at 512");
    tap_same(offsetof(hdr_t, readers), 768, "readers at 768");
    tap_same(offsetof(hdr_t, cells_ready), 136, "cells_ready at 136");
    tap_same(offsetof(hdr_t, visitors), 1024, "visitors at 1024");
    tap_same(offsetof(hdr_t, refused), 1536, "refused at 1536");
    tap_same(offsetof(board_t, stop), 56, "board: stop at 56");
    tap_same(offsetof(board_t, handle), 128, "board: handle at 128");
    tap_same(offsetof(board_t, claim), 384, "board: claim at 384");
    tap_same(offsetof(board_t, done), 512, "board: done at 512");
    tap_same(offsetof(cell_t, peer_nonce), 0, "cell: peer_nonce at 0");
    tap_same(offsetof(cell_t, box), 8, "cell: box at 8");
    tap_same(offsetof(cell_t, tail), 128, "cell: tail at 128");
    tap_same(offsetof(cell_t, board), 256, "cell: board at 256");
}

static void writers(void)
{
    tap_ok(END_PAIR(hdr_t, local_cells) < PAIR(hdr_t, sleeping),
           "what never changes is apart from what the owner writes");
    tap_ok(END_PAIR(hdr_t, state) < PAIR(hdr_t, door),
           "doorbells are apart from the owner's words");
    tap_ok(END_PAIR(hdr_t, door) < PAIR(hdr_t, help)
               && END_PAIR(hdr_t, help) < PAIR(hdr_t, readers),
           "each kind of doorbell has pairs of its own");
    tap_ok(END_PAIR(cell_t, box) < PAIR(cell_t, tail),
           "the peer's tail is apart from the owner's words");
    tap_ok(END_PAIR(cell_t, tail) < PAIR(cell_t, board), "the board is apart from the tail");
    tap_ok(END_PAIR(board_t, handle) < PAIR(board_t, claim), "claim is apart from the description");
    tap_ok(END_PAIR(board_t, claim) < PAIR(board_t, done),
           "the helper's words are apart from claim");
    tap_same(sizeof(cell_t) % BTL_SM_LINE_PAIR, 0, "the next cell starts on a pair of its own");
    tap_same(sizeof(((hdr_t *) 0)->door) * 8, BTL_SM_MAX_CELLS + 1,
             "one doorbell bit per cell and one for the visitors' book");
    tap_same(sizeof(((board_t *) 0)->handle), BTL_SM_HANDLE_MAX,
             "a registration fits on the board");
}

static void records(void)
{
    rng_t rng = rng_split(tap_seed(), 2);
    bool same = true, nonzero = true;

    for (int i = 0; i < 200000; ++i) {
        uint32_t len = (uint32_t) rng_next(&rng), kind = 1 + (uint32_t) rng_below(&rng, 255);
        uint32_t tag = (uint32_t) rng_below(&rng, 256);
        uint16_t seq = (uint16_t) rng_next(&rng);
        uint64_t rec = btl_sm_rec_make(len, kind, tag, seq);

        same = same && btl_sm_rec_len(rec) == len && btl_sm_rec_kind(rec) == kind
               && btl_sm_rec_tag(rec) == tag && btl_sm_rec_seq(rec) == seq;
        nonzero = nonzero && 0 != rec;
    }
    tap_ok(same, "a header word gives back length, kind, tag and sequence number");
    tap_ok(nonzero, "a header word with a kind is never 0");
    tap_ok(0 != btl_sm_rec_make(0, BTL_SM_REC_SKIP, 0, 0), "not even that of an empty record");
    tap_same(btl_sm_rec_tag(btl_sm_rec_make(0, 1, 0x1ff, 0)), 0xff, "a tag takes eight bits");
    tap_same(btl_sm_rec_kind(btl_sm_rec_make(0, 1, 0x100, 0)), 1, "and spoils nothing beside it");
    tap_ok(BTL_SM_REC_PUSHED < BTL_SM_REC_KINDS, "every kind is below BTL_SM_REC_KINDS");
}

static void stops(void)
{
    bool exact = true, older = true, newer = true;

    tap_ok(UINT64_MAX == btl_sm_stop_limit(0, 7),
           "a stop word that was never written stops nothing");
    for (uint64_t number = 0; number < (UINT64_C(1) << 26); number += 4093) {
        uint64_t stop = btl_sm_stop_pack(number, number % 1000);

        exact = exact && btl_sm_stop_limit(stop, number) == number % 1000 * 4096;
        older = older && 0 == btl_sm_stop_limit(stop, number - 1)
                && 0 == btl_sm_stop_limit(stop, number - 8000000);
        newer = newer && UINT64_MAX == btl_sm_stop_limit(stop, number + 1)
                && UINT64_MAX == btl_sm_stop_limit(stop, number + 8000000);
    }
    tap_ok(exact, "a stop word says how many bytes its stream still has");
    tap_ok(older, "and that all streams before it are over");
    tap_ok(newer, "and nothing about those after it");
    tap_same((long long) btl_sm_stop_limit(btl_sm_stop_pack(UINT64_C(1) << 24, 0), 1 << 24), 0,
             "stream 2^24 can be stopped at once, too");
    tap_ok((UINT64_C(1) << 39) - 4096
               == btl_sm_stop_limit(btl_sm_stop_pack(3, (UINT64_C(1) << 27) - 1), 3),
           "half a terabyte less a page is a possible place");
}

/* One stream after the other for longer than the number lasts, one stop at the start. */
static void renewals(void)
{
    uint64_t last = 5, stop = btl_sm_stop_pack(last, 0), count = 0;
    bool live = true, ahead = true;

    tap_same((long long) btl_sm_stop_renew(0, UINT64_C(1) << 40), 0,
             "a stop word that was never written is not renewed");
    for (uint64_t number = last + 1; number < (UINT64_C(1) << 25); ++number) {
        uint64_t renewed = btl_sm_stop_renew(last, number);

        live = live && UINT64_MAX == btl_sm_stop_limit(stop, number);
        if (0 != renewed) {
            ahead = ahead && renewed > last && renewed + 1000 < number;
            last = renewed;
            stop = btl_sm_stop_pack(last, 0);
            live = live && UINT64_MAX == btl_sm_stop_limit(stop, number - 1000);
            ++count;
        }
    }
    tap_ok(live, "a stop of long ago never stops a stream, however many follow it");
    tap_ok(ahead, "a renewed stop is ahead of the old one and behind all streams under way");
    tap_ok(count >= 4 && count < 16, "renewing is rare");
}

int main(void)
{
    tap_deadline(60);
    renewals();
    places();
    writers();
    records();
    stops();
    return tap_done();
}

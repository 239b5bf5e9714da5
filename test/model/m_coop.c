/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Cooperation board under the explorer: btl_sm_coop.h itself, an initiator that posts one transfer
 * after the other on one board, and a helper that joins in when it likes.
 *
 * A page of a transfer is one plain word. Copying is reading the word at the source and writing it
 * at the destination, both with plain accesses: two copies of one page, a copy that is not seen at
 * completion, and a copy after completion are all data races. Each word of a description names its
 * transfer, so that a claim made with a mixture of two is seen.
 */
#include "m_scenarios.h"

#include "btl_sm_coop.h"
#include "btl_sm_doorbell.h"

#define PAGE ((uint64_t) BTL_SM_COOP_PAGE)

static struct btl_sm_board board;
static btl_sm_atomic64_t help[BTL_SM_DOOR_WORDS];
static uint64_t source[8], destination[8]; /* one word per page, the same for every transfer */

enum { CELL = 2 };

/** What each transfer looks like: pages, chunk in pages, bytes of registration. */
typedef struct plan {
    uint32_t pages, chunk, handle_size;
} plan_t;

static uint64_t bytes_of(const plan_t *p)
{
    return p->pages * PAGE - 100;
}

static uint64_t content(uint32_t generation, uint32_t page)
{
    return 100 * generation + page + 1;
}

static void copy(uint32_t generation, const btl_sm_coop_range_t *range, uint64_t length)
{
    uint32_t first = (uint32_t) (range->offset / PAGE);
    uint32_t pages = btl_sm_coop_pages(range->length);

    sm_check(range->offset + range->length <= length, "a claim reaches past the end");
    for (uint32_t i = first; i < first + pages && i < 8; ++i) {
        uint64_t word = sm_plain_read(&source[i]);

        sm_check(content(generation, i) == word, "bytes of another transfer are copied");
        sm_plain_write(&destination[i], word);
    }
}

/** Post transfer g, take part, wait until all pages are there, look at them. */
static void transfer(uint32_t g, const plan_t *p)
{
    const uint64_t handle[2] = {300 + g, 400 + g};
    btl_sm_coop_range_t range;
    uint32_t own = 0, pages;
    int refused_seen = 0;

    for (uint32_t i = 0; i < p->pages; ++i) {
        sm_plain_write(&destination[i], 0);
        sm_plain_write(&source[i], content(g, i));
    }
    btl_sm_coop_post(&board, g, 1 + g % 2, 1000 + g, 2000 + g, bytes_of(p), p->chunk * PAGE, handle,
                     p->handle_size);
    btl_sm_doorbell_ring(help, CELL);
    while (0 != (pages = btl_sm_coop_claim(&board, g, bytes_of(p), p->chunk * PAGE, &range))) {
        copy(g, &range, bytes_of(p));
        own += pages;
    }
    for (;;) {
        uint32_t done;

        sm_attempt();
        done = btl_sm_coop_done(&board, g);
        if (own + done >= p->pages) {
            sm_check(own + done == p->pages, "more pages are copied than there are");
            break;
        }
        pages = refused_seen ? 0 : btl_sm_coop_failed(&board, g, bytes_of(p), &range);
        if (0 == pages) {
            sm_block();
        }
        refused_seen = 1;
        copy(g, &range, bytes_of(p));
        own += pages;
    }
    for (uint32_t i = 0; i < p->pages; ++i) {
        sm_check(content(g, i) == sm_plain_read(&destination[i]), "complete, but a page is not");
    }
}

/** Look at the board and copy what can be claimed; `budget` claims are copied, the next refused. */
static int take_part(btl_sm_coop_view_t *view, const plan_t *plan, int budget)
{
    btl_sm_coop_range_t range;
    uint32_t pages;

    if (!btl_sm_coop_look(&board, view)) {
        return budget;
    }
    while (0
           != (pages = btl_sm_coop_claim(&board, view->generation, view->length, view->chunk,
                                         &range))) {
        uint32_t g = view->generation;
        const plan_t *p = &plan[g - 1];

        sm_check(1000 + g == view->helper_addr && 2000 + g == view->initiator_addr
                     && bytes_of(p) == view->length && p->chunk * PAGE == view->chunk
                     && 1 + g % 2 == view->op && p->handle_size == view->handle_size,
                 "a page is claimed with the description of another transfer");
        for (uint32_t i = 0; i < view->handle_size / 8 && i < 2; ++i) {
            sm_check(300 + 100 * i + g == view->handle[i],
                     "a page is claimed with the registration of another transfer");
        }
        if (0 == budget) {
            btl_sm_coop_refuse(&board, view, &range, pages);
            return 0;
        }
        --budget;
        copy(g, &range, view->length);
        btl_sm_coop_finish(&board, view, pages);
    }
    return budget;
}

static void help_with(const plan_t *plan, int looks, int budget)
{
    btl_sm_coop_view_t view = {0};

    for (int i = 0; i < looks; ++i) {
        budget = take_part(&view, plan, budget);
    }
}

/* two transfers, the second longer */
static const plan_t longer[] = {{1, 1, 0}, {2, 1, 0}};
static void longer_initiator(void)
{
    transfer(1, &longer[0]);
    transfer(2, &longer[1]);
}
static void brief_helper(void)
{
    help_with(longer, 1, 9);
}
static void longer_helper(void)
{
    help_with(longer, 2, 9);
}

/* the same with more pages */
static const plan_t large[] = {{2, 1, 0}, {3, 1, 0}};
static void large_initiator(void)
{
    transfer(1, &large[0]);
    transfer(2, &large[1]);
}
static void large_helper(void)
{
    help_with(large, 2, 9);
}

/* the second shorter, with a registration; all words of the description differ */
static const plan_t shorter[] = {{2, 1, 16}, {1, 2, 8}};
static void shorter_initiator(void)
{
    transfer(1, &shorter[0]);
    transfer(2, &shorter[1]);
}
static void shorter_helper(void)
{
    help_with(shorter, 2, 9);
}

/* three short ones */
static const plan_t three[] = {{1, 1, 0}, {1, 1, 0}, {1, 1, 0}};
static void three_initiator(void)
{
    transfer(1, &three[0]);
    transfer(2, &three[1]);
    transfer(3, &three[2]);
}
static void three_helper(void)
{
    help_with(three, 2, 9);
}

/* the helper can copy one page, then no more; it looks again all the same */
static const plan_t refused[] = {{3, 1, 0}};
static void refused_initiator(void)
{
    transfer(1, &refused[0]);
}
static void refusing_helper(void)
{
    help_with(refused, 2, 0);
}
static void large_refusing_helper(void)
{
    help_with(large, 3, 1);
}

/* the helper waits for the bell; what it takes off the bell it may look at */
static const plan_t rung[] = {{2, 1, 8}};
static void rung_initiator(void)
{
    transfer(1, &rung[0]);
}
static void rung_helper(void)
{
    btl_sm_coop_view_t view = {0};

    sm_attempt();
    if (UINT64_C(1) << CELL != btl_sm_doorbell_take(help, 0)) {
        sm_block();
    }
    sm_check(btl_sm_coop_look(&board, &view), "rung, but nothing on the board");
    (void) take_part(&view, rung, 9);
}

/* The initiator's last claim takes everything (its own copy failed): nobody copies after it. */
static void rest_initiator(void)
{
    btl_sm_coop_range_t range;
    uint32_t own, done;

    for (uint32_t i = 0; i < 3; ++i) {
        sm_plain_write(&source[i], content(1, i));
    }
    btl_sm_coop_post(&board, 1, 2, 1001, 2001, 3 * PAGE - 100, PAGE, NULL, 0);
    own = btl_sm_coop_claim_rest(&board, 1, 3 * PAGE - 100, &range);
    if (0 != own) {
        sm_check(range.offset + range.length == 3 * PAGE - 100, "the rest ends at the end");
        copy(1, &range, 3 * PAGE - 100);
    }
    sm_check(0 == btl_sm_coop_claim_rest(&board, 1, 3 * PAGE - 100, &range), "rest after the rest");
    sm_attempt();
    done = btl_sm_coop_done(&board, 1);
    if (own + done != 3) {
        sm_block();
    }
    for (uint32_t i = 0; i < 3; ++i) {
        sm_check(content(1, i) == sm_plain_read(&destination[i]), "complete, but a page is not");
    }
}
static const plan_t rest[] = {{3, 1, 0}};
static void rest_helper(void)
{
    help_with(rest, 2, 9);
}

/* traps */
static void forgetful_helper(void)
{
    btl_sm_coop_view_t view = {0};
    btl_sm_coop_range_t range;
    uint32_t pages;

    if (btl_sm_coop_look(&board, &view)) {
        pages = btl_sm_coop_claim(&board, view.generation, view.length, view.chunk, &range);
        if (0 != pages) {
            btl_sm_coop_finish(&board, &view, pages); /* before the copy */
            copy(view.generation, &range, view.length);
        }
    }
}
static void silent_helper(void)
{
    btl_sm_coop_view_t view = {0};
    btl_sm_coop_range_t range;

    if (btl_sm_coop_look(&board, &view)) {
        (void) btl_sm_coop_claim(&board, view.generation, view.length, view.chunk, &range);
    }
}

const sm_scenario_t m_coop[] = {
    {"coop/rung",
     "the bell comes after the description",
     2,
     {rung_initiator, rung_helper},
     NULL,
     NULL,
     0,
     0},
    {"coop/rest",
     "who claims the rest is alone with it",
     2,
     {rest_initiator, rest_helper},
     NULL,
     NULL,
     0,
     0},
    {"coop/refuse",
     "a helper that fails gives its claim back once",
     2,
     {refused_initiator, refusing_helper},
     NULL,
     NULL,
     0,
     0},
    {"coop/brief",
     "two transfers, a helper that looks once",
     2,
     {longer_initiator, brief_helper},
     NULL,
     NULL,
     0,
     0},
    {"coop/longer",
     "two transfers, the second longer: each page once, nothing late",
     2,
     {longer_initiator, longer_helper},
     NULL,
     NULL,
     0,
     0},
    {"coop/shorter",
     "two transfers with registrations, the second shorter",
     2,
     {shorter_initiator, shorter_helper},
     NULL,
     NULL,
     0,
     0},
    {"coop/large",
     "two transfers of several pages",
     2,
     {large_initiator, large_helper},
     NULL,
     NULL,
     0,
     1},
    {"coop/large refuse",
     "the same, and the helper gives up",
     2,
     {large_initiator, large_refusing_helper},
     NULL,
     NULL,
     0,
     1},
    {"coop/three",
     "three transfers follow one another",
     2,
     {three_initiator, three_helper},
     NULL,
     NULL,
     0,
     1},
    {"coop/trap finish",
     "a page reported before it is copied is found",
     2,
     {longer_initiator, forgetful_helper},
     NULL,
     NULL,
     1,
     0},
    {"coop/trap silence",
     "a claim that is never reported is found",
     2,
     {longer_initiator, silent_helper},
     NULL,
     NULL,
     1,
     0},
    {NULL, NULL, 0, {NULL}, NULL, NULL, 0, 0},
};

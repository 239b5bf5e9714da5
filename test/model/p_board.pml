/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Protocol of the cooperation board with deaths and refusals, for spin. Run by test/model/run.
 *
 * What the explorer (m_coop.c) shows for every order of memory accesses is not asked again here:
 * every step is seen by the other side at once. Asked is what happens when a process dies between
 * any two steps, when a copy fails on either side, when the helper is rung too often, and whether
 * each transfer ends.
 *
 * -DTRAP_REFUSE_TWICE  a helper that has refused looks at the transfer again: must be found wrong
 * -DTRAP_NO_CLOSE      the claim word is not closed before a new description: must be found wrong
 * -DTRAP_EARLY         the initiator is content once everything is claimed: must be found wrong
 */
#define GENERATIONS 2
#define PAGES(g)    (g + 1) /* of transfer g: 2, 3 */
#define MAX_PAGES   3
#define CLOSED      9

/* the board; each line is one word, written in one step */
byte claim_gen, claim_page;
byte board_gen, board_pages;
byte done_gen, done_pages;
byte failed_gen, failed_first, failed_count;
bool bell;

bool initiator_lives = true, helper_lives = true, initiator_done;
bool loss_reported;

/* what is true of the memory */
byte copied[(GENERATIONS + 1) * 4]; /* times that page p of transfer g was written, at 4 g + p */
bool complete[GENERATIONS + 1];    /* the user owns the buffer of transfer g again */

#define copy_begins(g) assert(!complete[g])
#define copy_ends(g, p)                 \
    assert(!complete[g]);               \
    copied[4 * (g) + (p)]++;            \
    assert(1 == copied[4 * (g) + (p)])

proctype initiator() provided (initiator_lives)
{
    byte g = 1, page, own, i;
    bool mine, refused_seen;

    do
    :: g > GENERATIONS -> break
    :: else ->
#ifndef TRAP_NO_CLOSE
        d_step { claim_gen = g; claim_page = CLOSED };
#endif
        board_pages = PAGES(g);
        d_step { claim_gen = g; claim_page = 0 };
        board_gen = g;
        bell = true;
        own = 0;
        refused_seen = false;
        do
        :: true ->
            d_step {
                mine = (claim_gen == g && claim_page < PAGES(g));
                if
                :: mine -> page = claim_page; claim_page++
                :: else
                fi
            };
            if
            :: mine ->
                /* our own copy cannot fail here: what fails is streamed, which is another road */
                copy_begins(g);
                copy_ends(g, page);
                own++
            :: else ->
#ifdef TRAP_EARLY
                break
#else
                if
                :: (own + (done_gen == g -> done_pages : 0) == PAGES(g)) -> break
                :: (own + (done_gen == g -> done_pages : 0) != PAGES(g) && failed_gen == g
                    && !refused_seen) ->
                    refused_seen = true;
                    i = failed_first;
                    copy_begins(g);
                    copy_ends(g, i);
                    own++
                :: (own + (done_gen == g -> done_pages : 0) != PAGES(g) && !helper_lives
                    && (failed_gen != g || refused_seen)) ->
                    /* reported by the idle poll: this transfer and all others end with an error */
                    loss_reported = true;
                    goto ended
                fi
#endif
            fi
        od;
        for (i : 0 .. PAGES(g) - 1) {
            assert(1 == copied[4 * g + i])
        }
        complete[g] = true;
        g++
    od;
ended:
    initiator_done = true
}

proctype helper() provided (helper_lives)
{
    byte seen_gen, view_pages, page, done;
    bool mine;
    byte looks;

    do
    :: looks < 6 ->
        looks++;
        /* rung, or looking again without having been rung */
        bell = false;
        if
        :: seen_gen != board_gen ->
            seen_gen = board_gen;
            done = 0;
            view_pages = board_pages /* may be of a newer transfer already */
        :: else
        fi;
        if
        :: (0 == seen_gen || 0 == view_pages) -> skip
        :: else ->
            d_step {
                mine = (claim_gen == seen_gen && claim_page < view_pages);
                if
                :: mine -> page = claim_page; claim_page++
                :: else
                fi
            };
            if
            :: mine ->
                assert(view_pages == PAGES(seen_gen));
                if
                :: initiator_lives ->
                    copy_begins(seen_gen);
                    /* the kernel refuses to write into a process that has gone meanwhile */
                    if
                    :: initiator_lives ->
                        copy_ends(seen_gen, page)
                    :: else
                    fi;
                    done++;
                    d_step { done_gen = seen_gen; done_pages = done }
                :: true -> /* the copy fails */
#ifndef TRAP_REFUSE_TWICE
                    view_pages = 0;
#endif
                    failed_first = page;
                    d_step { failed_gen = seen_gen; failed_count = 1 }
                fi
            :: else
            fi
        fi
    :: break /* busy with other things from now on */
    od
}

proctype death()
{
    if
    :: helper_lives = false
    :: initiator_lives = false
    :: skip
    fi
}

init
{
    atomic {
        run initiator();
        run helper();
        run death()
    }
}

/* Every transfer ends, well or with an error, unless its initiator itself dies. */
ltl transfers_end { <> (initiator_done || !initiator_lives) }
/* Nobody is reported lost who lives. */
ltl no_false_loss { [] (loss_reported -> !helper_lives) }

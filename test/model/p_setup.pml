/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Protocol of meeting, first message, leaving and loss of a peer, for spin. Run by test/model/run.
 *
 * A sends three messages to B through a box for two. Either adds the other at its own time, which
 * the cell's nonce shows to the other side (jobs that meet late; -DSAME_JOB: the cell is known
 * beforehand). A leaves in order after its last message or is killed between any two steps; B
 * takes its peer away at the end. Sleeping has its own explorer scenario (m_wake.c); here a
 * process that has nothing to do waits until something changes.
 *
 * -DTRAP_RING_FIRST   the doorbell is rung before the box is in the cell: must be found wrong
 * -DTRAP_NO_SELF_RING a peer that is added does not look for a ring that came before: found wrong
 * -DTRAP_NO_GOODBYE   leaving does not say so: must be found wrong
 */
#define MESSAGES 3
#define ROOM     2

/* A's segment: the cell of B */
bool a_nonce, a_box;
byte a_tail;
bool a_left;
/* B's segment: the cell of A, the doorbell bit of A */
bool b_nonce, b_door;
/* the box */
byte published;

bool a_lives = true, a_sent_all, a_killed;
bool b_added, b_active, b_detached, b_done;
byte received, losses;

proctype sender() provided (a_lives)
{
    byte sent, seen;

    /* add the peer: the cell is cleared first */
    a_box = false;
    a_tail = 0;
    a_nonce = true;
#ifndef SAME_JOB
    b_nonce; /* the first message waits for the peer's cell */
#endif
#ifdef TRAP_RING_FIRST
    b_door = true;
    a_box = true;
#else
    a_box = true;
    b_door = true;
#endif
    do
    :: sent == MESSAGES -> break
    :: sent < MESSAGES && sent - seen < ROOM ->
        published++;
        sent++
    :: sent < MESSAGES && sent - seen >= ROOM ->
        a_tail > seen;
        seen = a_tail
    od;
    a_sent_all = true;
#ifndef TRAP_NO_GOODBYE
    a_left = true;
#endif
    a_lives = false /* the process ends */
}

proctype killer()
{
    if
    :: d_step { a_lives -> a_killed = !a_left; a_lives = false }
    :: skip
    fi
}

/* B's last look at its own doorbell, cell and box */
#define box_has_news (b_active && received < published)

proctype receiver()
{
    bool death_seen;

    /* add the peer */
    b_nonce = true;
    b_added = true;
#ifndef TRAP_NO_SELF_RING
    b_door = true;
#endif
    do
    :: b_door ->
        b_door = false; /* take */
        assert(!b_detached);
        if
#ifndef SAME_JOB
        :: !b_active && a_nonce && a_box -> b_active = true
        :: !b_active && !(a_nonce && a_box) -> skip
#else
        :: !b_active && a_box -> b_active = true
        :: !b_active && !a_box -> skip
#endif
        :: b_active -> skip
        fi
    :: box_has_news ->
        assert(!b_detached);
        received++;
        a_tail = received
    :: !a_lives && !death_seen && !b_door && !box_has_news ->
        /* the idle poll sees the pidfd once */
        death_seen = true;
        if
        :: a_left -> skip
        :: else -> losses++
        fi
    :: death_seen && !b_door && !box_has_news ->
        break
    od;
    b_active = false;
    b_added = false;
    b_detached = true;
    b_done = true
}

/* the ring of a peer that is not added yet is taken and thrown away */
proctype earlier_poll()
{
    if
    :: atomic { b_door && !b_added -> b_door = false }
    :: skip
    fi
}

init
{
    atomic {
        run sender();
        run receiver();
        run killer();
        run earlier_poll()
    }
}

/* Unless it is killed, everything that A sent arrives. */
ltl all_arrives { [] (a_sent_all -> <> (received == MESSAGES || a_killed)) }
/* B comes to its end: it waits for nobody who is gone. */
ltl receiver_ends { <> b_done }
/* A loss is reported once, for a killed peer, and never for one that said goodbye. */
ltl losses_are_true { [] (losses <= 1 && (losses == 1 -> a_killed)) }
ltl losses_are_told { [] (a_killed -> <> (losses == 1)) }

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two ranks with eight threads each, as MPI_THREAD_MULTIPLE has them, for ThreadSanitizer: the
 * structures of s_fbox.h under the transport's two locks. All threads of a rank send to the other
 * rank, under the lock of that endpoint; one at a time polls, the others do not wait for it, and
 * who finds nothing for long sleeps as a rank does. Ten minutes at level long.
 *
 * Checked: each message arrives once, in the order in which the lock let it be sent, untorn; no
 * access is unordered. With S_NO_SEND_LOCK the senders have no lock, which has to be found.
 */
#define S_THREADS    1
#define S_FBOX_PARTS 1
#include "s_fbox.h"

enum { RANKS = 2, THREADS = 8, BURST = 16, LONG_SECONDS = 600, SHORT_SECONDS = 3 };

typedef struct rank {
    actor_t as; /* as an actor of s_fbox.h; its random numbers are the sender's */
    pthread_mutex_t sending, polling;
    outgoing_t out;       /* under sending */
    incoming_t in[RANKS]; /* under polling */
    uint64_t rounds;      /* likewise */
    atomic_bool sent_all; /* there will be no further message to the other rank */
    atomic_bool got_all;  /* nor from it */
} rank_t;

static rank_t ranks[RANKS];
static uint64_t end;
static atomic_int broken;

static void send_some(rank_t *rank, actor_t *thread)
{
    const int peer = 1 - rank->as.index;

#if !defined(S_NO_SEND_LOCK)
    (void) pthread_mutex_lock(&rank->sending);
#endif
    for (uint64_t n = 1 + rng_below(&thread->rng, 4); 0 < n && !rank->out.over; --n) {
        const int rc = send_one(&rank->as, peer, &rank->out, now_ms() > end);

        if (0 > rc) {
            atomic_store(&broken, actor_fault(thread, "sending failed"));
        }
        if (0 >= rc) {
            break;
        }
    }
    if (rank->out.over) {
        atomic_store(&rank->sent_all, true);
    }
#if !defined(S_NO_SEND_LOCK)
    (void) pthread_mutex_unlock(&rank->sending);
#endif
}

static void poll_once(rank_t *rank)
{
    incoming_t *in = &rank->in[1 - rank->as.index];
    bool moved = false;

    if (0 != pthread_mutex_trylock(&rank->polling)) {
        return;
    }
    answer_doorbell(&rank->as, rank->in);
    for (int n = 0; n < BURST && in->open && !in->over; ++n) {
        const int rc = receive_one(&rank->as, 1 - rank->as.index, in);

        if (0 > rc) {
            atomic_store(&broken, 1);
        }
        if (0 >= rc) {
            break;
        }
        moved = true;
    }
    if (in->over) {
        atomic_store(&rank->got_all, true);
    } else if (moved) {
        rank->rounds = 0;
    } else {
        idle(&rank->as, rank->in, &rank->rounds, true); /* the others go on sending meanwhile */
    }
    (void) pthread_mutex_unlock(&rank->polling);
}

static int thread_body(actor_t *thread)
{
    rank_t *rank = &ranks[thread->index / THREADS];

    if (0 == thread->index % THREADS) {
        rank->as.segment = thread->segment;
        /* memory that was used before */
        memset((unsigned char *) header_of(&rank->as, rank->as.index) + BOXES_AT, 0x5a,
               SEGMENT_SIZE - BOXES_AT);
    }
    (void) actor_barrier(thread);
    while ((!atomic_load(&rank->sent_all) || !atomic_load(&rank->got_all))
           && 0 == atomic_load(&broken)) {
        if (!atomic_load(&rank->sent_all) && 0 != rng_below(&thread->rng, 3)) {
            send_some(rank, thread);
        } else {
            poll_once(rank);
        }
    }
    return atomic_load(&broken);
}

int main(void)
{
    static const fbox_plan_t plan = {.messages = UINT64_MAX, .switch_after = 100, .start_lines = 3};
    const uint64_t seconds = tap_long() ? LONG_SECONDS : SHORT_SECONDS;
    bool good;

    tap_deadline((unsigned) seconds + 240);
    end = now_ms() + seconds * 1000;
    for (int i = 0; i < RANKS; ++i) {
        ranks[i].as = (actor_t) {.index = i, .count = RANKS, .plan = &plan};
        ranks[i].as.rng = rng_split(tap_seed(), (uint64_t) i);
        (void) pthread_mutex_init(&ranks[i].sending, NULL);
        (void) pthread_mutex_init(&ranks[i].polling, NULL);
    }
    good = actors_run(RANKS * THREADS, RANKS * SEGMENT_SIZE, 0, thread_body, NULL, 200);
    for (int i = 0; i < RANKS; ++i) {
        tap_note("rank %d: %llu messages sent", i, (unsigned long long) ranks[i].out.sent);
    }
    tap_ok(good && LEAST <= ranks[0].out.sent && LEAST <= ranks[1].out.sent
               && ranks[0].out.sent == ranks[1].in[0].got
               && ranks[1].out.sent == ranks[0].in[1].got,
           "%d ranks with %d threads each for %llu s: every message once, in order, whole", RANKS,
           THREADS, (unsigned long long) seconds);
    return tap_done();
}

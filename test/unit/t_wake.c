/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit test of btl_sm_wake.h: a sleep ends by time-out, by wake-up and by a wake-up that came
 * before; senders make a system call only for a sleeper. Two processes for the wake-up itself, with the
 * sender's own fence and with the one that the sleeper has the kernel run.
 */
#include "btl_sm_wake.h"

#include <string.h>
#include <sys/mman.h>

#include "proc.h"
#include "tap.h"

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

static void alone(void)
{
    static struct btl_sm_segment_hdr segment;
    int64_t begin;

    (void) btl_sm_wake_announce(&segment);
    tap_same(btl_sm_load_relaxed(&segment.sleeping), 1, "an announcement can be seen");
    btl_sm_wake_cancel(&segment);
    tap_same(btl_sm_load_relaxed(&segment.sleeping), 0, "and be taken back");

    (void) btl_sm_wake_announce(&segment);
    begin = now_ns();
    btl_sm_wake_sleep(&segment, 30000000);
    tap_ok(now_ns() - begin >= 29000000, "a sleep that nobody ends lasts until its time is over");
    tap_same(btl_sm_load_relaxed(&segment.sleeping), 0,
             "a sleeper that wakes takes it back itself");

    (void) btl_sm_wake_announce(&segment);
    btl_sm_wake_peer(&segment);
    tap_same(btl_sm_load_relaxed(&segment.sleeping), 0, "a wake-up takes the announcement back");
    begin = now_ns();
    btl_sm_wake_sleep(&segment, 900000000);
    tap_ok(now_ns() - begin < 500000000, "a wake-up before the sleep is not lost");

    btl_sm_wake_peer(&segment);
    tap_same(btl_sm_load_relaxed(&segment.sleeping), 0, "waking one who is awake changes nothing");
}

enum { ROUNDS = 200, SENT = 0, SEEN = 1, WHEN = 2, LATE = 3 };

/* child 0 sleeps, child 1 wakes; a wake-up that is lost shows as a sleep that goes on for its whole
 * second although the word was sent long before */
static int sleep_or_wake(proc_group_t *group, int index, void *argument)
{
    struct btl_sm_segment_hdr *segment = group->segment;
    _Atomic uint64_t *sent = proc_word(group, SENT), *seen = proc_word(group, SEEN);
    _Atomic uint64_t *when = proc_word(group, WHEN), *late = proc_word(group, LATE);

    const bool registered = NULL != argument && btl_sm_wake_register();

    if (!proc_barrier(group)) {
        return 2;
    }
    for (uint64_t round = 1; round <= ROUNDS; ++round) {
        if (0 == index) {
            while (atomic_load(sent) < round) {
                (void) btl_sm_wake_announce(segment);
                if (atomic_load_explicit(sent, memory_order_relaxed) >= round) {
                    btl_sm_wake_cancel(segment);
                    break;
                }
                btl_sm_wake_sleep(segment, 999999999);
            }
            if (now_ns() - (int64_t) atomic_load(when) > 900000000) {
                atomic_fetch_add(late, 1);
            }
            atomic_store(seen, round);
        } else {
            while (atomic_load(seen) < round - 1) {
                sched_yield();
            }
            if (0 == round % 4) {
                usleep(500); /* let the other one fall asleep */
            }
            atomic_store(when, (uint64_t) now_ns());
            /* no stronger than what publishes a record */
            atomic_store_explicit(sent, round, memory_order_release);
            btl_sm_wake_order(registered);
            btl_sm_wake_peer(segment);
        }
    }
    /* a machine that is overloaded may keep a process from running for a second once */
    return atomic_load(late) <= 2 ? 0 : 1;
}

static void together(bool registered)
{
    const char *how = registered ? "the sleeper's fence" : "its own fence";
    proc_group_t group;
    bool started;

    if (registered && !btl_sm_wake_register()) {
        tap_skip("this kernel runs no fences for others", "two processes share a segment (%s)",
                 how);
        tap_skip("this kernel runs no fences for others", "no wake-up is lost (%s)", how);
        return;
    }
    started = proc_start(&group, 2, 4096, 100, sleep_or_wake, registered ? &group : NULL);
    tap_ok(started, "two processes share a segment (%s)", how);
    tap_ok(started && proc_finish(&group), "in %d rounds no wake-up is lost between processes (%s)",
           ROUNDS, how);
}

int main(void)
{
    tap_deadline(110);
    alone();
    together(false);
    together(true);
    return tap_done();
}

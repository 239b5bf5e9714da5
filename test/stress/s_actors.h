/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Actors of a stress test: real processes that map one memory object at different addresses, or
 * (with S_THREADS) threads on one mapping for ThreadSanitizer, which sees neither races nor
 * synchronisation across processes or mappings.
 *
 * Included once by each program of test/stress; the same bodies run both ways.
 */
#ifndef TEST_STRESS_S_ACTORS_H
#define TEST_STRESS_S_ACTORS_H

#include "s_points.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pattern.h"
#include "proc.h"
#include "tap.h"

/** One actor's view of the test. */
typedef struct actor {
    int index, count;
    unsigned char *segment; /* where this actor has it */
    const void *plan;       /* the same for all */
    rng_t rng;
    void *team;
} actor_t;

/** What an actor runs. @return 0 if everything was as it should be */
typedef int (*actor_body_t)(actor_t *actor);

/** @brief One line about what went wrong. @return 1, for `return actor_fault(...)` */
static inline int actor_fault(const actor_t *actor, const char *text, ...)
    __attribute__((format(printf, 2, 3)));
static inline int actor_fault(const actor_t *actor, const char *text, ...)
{
    char body[400];
    va_list values;

    va_start(values, text);
    vsnprintf(body, sizeof(body), text, values);
    va_end(values);
    dprintf(STDERR_FILENO, "# actor %d of %d: %s\n", actor->index, actor->count, body);
    return 1;
}

static inline void actor_begin(actor_t *actor, uint64_t seed, uint64_t disturb)
{
    actor->rng = rng_split(seed, 1000 + (uint64_t) actor->index);
    s_points = (s_points_t) {.disturb = disturb, .rng = rng_split(seed, (uint64_t) actor->index)};
}

typedef struct actor_team {
    actor_body_t body;
    const void *plan;
    uint64_t seed, disturb;
    int count;
    unsigned char *segment;
    pthread_barrier_t barrier;
    _Atomic uint64_t word[PROC_EVENTS];
    int rc[PROC_MAX];
    atomic_int next;
} actor_team_t;

#if defined(S_THREADS)

#    define S_KIND "threads"

static inline _Atomic uint64_t *actor_word(actor_t *actor, int index)
{
    return &((actor_team_t *) actor->team)->word[index];
}

static inline bool actor_barrier(actor_t *actor)
{
    (void) pthread_barrier_wait(&((actor_team_t *) actor->team)->barrier);
    return true;
}

static inline void *actor_thread(void *argument)
{
    actor_team_t *team = argument;
    actor_t actor = {.index = atomic_fetch_add(&team->next, 1),
                     .count = team->count,
                     .segment = team->segment,
                     .plan = team->plan,
                     .team = team};

    actor_begin(&actor, team->seed, team->disturb);
    team->rc[actor.index] = team->body(&actor);
    return NULL;
}

static inline bool actors_run(int count, size_t bytes, unsigned seconds, actor_body_t body,
                              const void *plan, uint64_t disturb)
{
    static actor_team_t team; /* not on the stack: threads of a failed run may outlive it */
    pthread_t thread[PROC_MAX];
    bool good = true;

    (void) seconds; /* the program's own deadline */
    memset(&team, 0, sizeof(team));
    team.body = body;
    team.plan = plan;
    team.seed = tap_seed();
    team.disturb = disturb;
    team.count = count;
    team.segment = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == (void *) team.segment) {
        tap_note("no memory for the segment");
        return false;
    }
    (void) pthread_barrier_init(&team.barrier, NULL, (unsigned) count);
    for (int i = 0; i < count; ++i) {
        if (0 != pthread_create(&thread[i], NULL, actor_thread, &team)) {
            tap_note("no thread");
            exit(1);
        }
    }
    for (int i = 0; i < count; ++i) {
        (void) pthread_join(thread[i], NULL);
    }
    for (int i = 0; i < count; ++i) {
        good = good && 0 == team.rc[i];
    }
    (void) pthread_barrier_destroy(&team.barrier);
    (void) munmap(team.segment, bytes);
    return good;
}

#else

#    define S_KIND "processes"

static inline _Atomic uint64_t *actor_word(actor_t *actor, int index)
{
    return proc_word(actor->team, index);
}

static inline bool actor_barrier(actor_t *actor)
{
    return proc_barrier(actor->team);
}

static int actor_process(proc_group_t *group, int index, void *argument)
{
    const actor_team_t *team = argument;
    actor_t actor = {.index = index,
                     .count = group->count,
                     .segment = group->segment,
                     .plan = team->plan,
                     .team = group};

    actor_begin(&actor, team->seed, team->disturb);
    return team->body(&actor);
}

static inline bool actors_run(int count, size_t bytes, unsigned seconds, actor_body_t body,
                              const void *plan, uint64_t disturb)
{
    static actor_team_t team;
    proc_group_t group;

    team.body = body;
    team.plan = plan;
    team.seed = tap_seed();
    team.disturb = disturb;
    return proc_start(&group, count, bytes, seconds, actor_process, &team) && proc_finish(&group);
}

#endif /* S_THREADS */

/** @return the effort of this run: `quick` or, at level long, `thorough`; S_SCALE divides both for
 *  slow builds such as ThreadSanitizer's */
static inline uint64_t effort(uint64_t quick, uint64_t thorough)
{
    const char *scale = getenv("S_SCALE");
    uint64_t divisor = NULL != scale && 0 < atoi(scale) ? (uint64_t) atoi(scale) : 1;
    uint64_t wanted = (tap_long() ? thorough : quick) / divisor;

    return 0 < wanted ? wanted : 1;
}

/** @return milliseconds of a clock that never goes back */
static inline uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

/** @return when a case that began now has to come to its end, whatever it has done by then: on a
 *  crowded machine every hand-over may take a scheduler's time slice */
static inline uint64_t case_end(void)
{
    const char *scale = getenv("S_SCALE");
    bool slow_build = NULL != scale && 1 < atoi(scale);

    return now_ms() + (tap_long() ? 60000 : 4000) / (slow_build ? 3 : 1);
}

#endif /* TEST_STRESS_S_ACTORS_H */

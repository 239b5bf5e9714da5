/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Explorer of all executions that C11's relaxed atomics allow to a small program of 2 to 4 threads.
 *
 * Test support of test/model; called by the verbs of btl_sm_model_atomic.h (the L0 headers then run
 * unchanged on top of it) and by the scenarios m_*.c. Never part of a plugin.
 *
 * The memory model is RC11 ("Repairing sequential consistency in C/C++11", PLDI 2017) with the
 * release sequences of C++20: an execution is a graph of events with reads-from and coherence
 * order; happens-before, coherence, atomicity and the order of seq_cst fences decide which graphs
 * exist. Cycles of program order and reads-from are left out, as in RC11. Plain accesses that are
 * not ordered by happens-before are reported as data races.
 *
 * All graphs are reached by adding one event of any thread at a time with every possible choice;
 * graphs seen before are cut off by a table. That is slower than a clever reduction and easy to
 * believe; m_litmus.c checks it against the known outcomes of the classic litmus tests.
 */
#ifndef TEST_MODEL_EXPLORE_H
#define TEST_MODEL_EXPLORE_H

#include <stddef.h>
#include <stdint.h>

#define SM_MAX_THREADS 4

enum sm_order { SM_RELAXED, SM_ACQUIRE, SM_RELEASE, SM_ACQ_REL };

enum sm_rmw { SM_RMW_ADD, SM_RMW_OR, SM_RMW_AND, SM_RMW_XCHG };

/** One program to explore. Thread functions keep their state in locals only: they are run again
 *  from the start for each step. */
typedef struct sm_scenario {
    const char *name;
    const char *what; /* the property, as a sentence */
    int threads;
    void (*thread[SM_MAX_THREADS])(void);
    void (*init)(void);  /* calls sm_init() for words that do not start as 0; may be NULL */
    void (*final)(void); /* calls sm_check() over sm_final(); may be NULL */
    int expect_error;    /* 1: the scenario is a trap that the explorer has to find */
    int is_long;         /* 1: at level long only */
} sm_scenario_t;

/** How a build is weakened; see sm_mutant_t.kind. */
enum sm_mutation {
    SM_MUTANT_NONE,
    SM_MUTANT_ACQUIRE, /* the acquire of one place becomes relaxed */
    SM_MUTANT_RELEASE, /* the release of one place becomes relaxed */
    SM_MUTANT_DROP,    /* one relaxed store or fence is left out */
    SM_MUTANT_EDGE,    /* all acquires and releases of one edge become relaxed */
};

typedef struct sm_mutant {
    enum sm_mutation kind;
    unsigned site; /* for _ACQUIRE, _RELEASE, _DROP */
    int edge;      /* for _EDGE */
} sm_mutant_t;

/** A place in the source that uses an atomic verb. */
typedef struct sm_site {
    const char *file, *func, *verb;
    int line, edge;
    int acquires, releases, drops; /* what may be weakened here */
} sm_site_t;

/** What an exploration found. */
typedef struct sm_result {
    int error;         /* 1: a check failed, a race, a dead end or a lost wake-up */
    char text[512];    /* what */
    uint64_t graphs;   /* different (partial) executions */
    uint64_t complete; /* of these, with all threads at their end */
    uint64_t blocked;  /* of these, with a thread that waits for a store that it may yet see */
} sm_result_t;

/** Explore; with `trace` the first faulty execution is printed to stdout. */
void sm_explore(const sm_scenario_t *scenario, sm_mutant_t mutant, int trace, sm_result_t *result);

unsigned sm_site_count(void);
const sm_site_t *sm_site_at(unsigned site);

/* For scenarios. */
void sm_init(const void *address, uint64_t value);
uint64_t sm_final(const void *address);
void sm_plain_write(const void *address, uint64_t value);
uint64_t sm_plain_read(const void *address);
/** The execution is wrong unless `condition`. */
void sm_check(int condition, const char *text);
/** Start of one look at everything that this thread waits for. */
void sm_attempt(void);
/** The thread found nothing since sm_attempt() and would look again for ever. Executions in which
 *  that is all it can do, with every other thread at its end, are lost wake-ups: an error. */
void sm_block(void) __attribute__((noreturn));

/* For btl_sm_model_atomic.h. */
unsigned sm_site_register(const char *file, const char *func, int line, int edge, const char *verb);
uint64_t sm_load(unsigned site, const void *address, enum sm_order order);
void sm_store(unsigned site, const void *address, uint64_t value, enum sm_order order);
uint64_t sm_rmw(unsigned site, const void *address, enum sm_rmw kind, uint64_t operand,
                enum sm_order order);
int sm_cas(unsigned site, const void *address, uint64_t *expected, uint64_t desired,
           enum sm_order order);
void sm_fence(unsigned site);

#endif /* TEST_MODEL_EXPLORE_H */

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Runs the explorer's scenarios and the order mutants, and prints TAP.
 *
 *   m_main litmus         the checks of the explorer itself
 *   m_main scenarios      every scenario of the protocols
 *   m_main mutants        every acquire, release, relaxed store and fence weakened alone: each
 *                         mutant has to be found by at least one scenario
 *   m_main edges          every edge weakened at both ends
 *   m_main trace NAME     print the faulty execution of one scenario
 *   m_main trace NAME acquire|release|drop FILE:LINE   the same of a mutant
 *
 * Called by test/model/run. SMX_LEVEL=long adds the long scenarios. Places whose weakening no
 * scenario can tell from the original are listed in `unneeded`, each with the reason.
 */
#include "m_scenarios.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_sm_atomic.h"

static const sm_scenario_t *const protocol[] = {m_fbox, m_doorbell, m_coop, m_wake, m_stream};
#define PROTOCOLS (sizeof(protocol) / sizeof(protocol[0]))

static int is_long;
static int test_number;
static int failures;

static void result_line(int ok, const char *text)
{
    printf("%sok %d - %s\n", ok ? "" : "not ", ++test_number, text);
    failures += !ok;
    fflush(stdout);
}

/** Accepted mutants: function, verb, and why the weaker order is kept strong all the same. */
static const struct {
    const char *func, *verb, *why;
} unneeded[] = {
    {"btl_sm_wake_announce", "store", "a sleeper that is not announced does not sleep: costs time"},
    {"btl_sm_wake_cancel", "store", "an announcement that stays costs senders a system call"},
    {NULL, NULL, NULL},
};

static const char *reason(const sm_site_t *site)
{
    for (size_t i = 0; NULL != unneeded[i].func; ++i) {
        if (0 == strcmp(unneeded[i].func, site->func)
            && 0 == strcmp(unneeded[i].verb, site->verb)) {
            return unneeded[i].why;
        }
    }
    return NULL;
}

static void run_table(const sm_scenario_t *table)
{
    static const sm_mutant_t none = {SM_MUTANT_NONE, 0, 0};

    for (const sm_scenario_t *s = table; NULL != s->name; ++s) {
        sm_result_t result;
        char text[768];

        if (s->is_long && !is_long) {
            continue;
        }
        sm_explore(s, none, !s->expect_error, &result);
        snprintf(text, sizeof(text), "%s: %s (%llu graphs, %llu complete%s%s)", s->name, s->what,
                 (unsigned long long) result.graphs, (unsigned long long) result.complete,
                 result.error ? "; found: " : "", result.text);
        /* a scenario in which nothing ever ends proves nothing */
        result_line(result.error == s->expect_error && (result.error || 0 < result.complete), text);
    }
}

/** Does any scenario find this mutant? */
static int killed(sm_mutant_t mutant, char *by, size_t by_size)
{
    for (size_t p = 0; p < PROTOCOLS; ++p) {
        for (const sm_scenario_t *s = protocol[p]; NULL != s->name; ++s) {
            sm_result_t result;

            if (s->expect_error || s->is_long) {
                continue;
            }
            sm_explore(s, mutant, 0, &result);
            if (result.error) {
                snprintf(by, by_size, "%s: %s", s->name, result.text);
                return 1;
            }
        }
    }
    return 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return NULL == slash ? path : slash + 1;
}

static void run_mutant(sm_mutant_t mutant, const char *how)
{
    const sm_site_t *site = sm_site_at(mutant.site);
    const char *why = reason(site);
    char by[640] = "nothing", text[1024];
    int found = killed(mutant, by, sizeof(by));

    snprintf(text, sizeof(text), "%s:%d %s: %s %s is found by %s", base_name(site->file),
             site->line, site->func, how, site->verb, by);
    if (NULL != why) {
        printf("# accepted: %s\n", why);
        found = !found; /* a reason that is no longer true has to go */
    }
    result_line(found, text);
}

/** Every scenario once, so that all places in the source are known. */
static void find_sites(void)
{
    for (size_t p = 0; p < PROTOCOLS; ++p) {
        for (const sm_scenario_t *s = protocol[p]; NULL != s->name; ++s) {
            static const sm_mutant_t none = {SM_MUTANT_NONE, 0, 0};
            sm_result_t result;

            if (!s->expect_error && !s->is_long) {
                sm_explore(s, none, 0, &result);
            }
        }
    }
}

static void run_mutants(void)
{
    unsigned count;

    find_sites();
    count = sm_site_count();
    for (unsigned i = 1; i < count; ++i) {
        const sm_site_t *site = sm_site_at(i);

        if (site->acquires) {
            run_mutant((sm_mutant_t) {SM_MUTANT_ACQUIRE, i, 0}, "without acquire,");
        }
        if (site->releases) {
            run_mutant((sm_mutant_t) {SM_MUTANT_RELEASE, i, 0}, "without release,");
        }
        if (site->drops) {
            run_mutant((sm_mutant_t) {SM_MUTANT_DROP, i, 0}, "left out,");
        }
    }
}

static void run_edges(void)
{
    static const struct {
        int edge;
        const char *name;
    } edges[] = {
        {BTL_SM_EDGE_FBOX_DATA, "FBOX_DATA"},
        {BTL_SM_EDGE_FBOX_SPACE, "FBOX_SPACE"},
        {BTL_SM_EDGE_CELL, "CELL"},
        {BTL_SM_EDGE_DOORBELL, "DOORBELL"},
        {BTL_SM_EDGE_BOARD_POST, "BOARD_POST"},
        {BTL_SM_EDGE_BOARD_DONE, "BOARD_DONE"},
    };

    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); ++i) {
        char by[640] = "nothing", text[768];
        int found = killed((sm_mutant_t) {SM_MUTANT_EDGE, 0, edges[i].edge}, by, sizeof(by));

        snprintf(text, sizeof(text), "edge %s relaxed is found by %s", edges[i].name, by);
        result_line(found, text);
    }
}

static int run_trace(int argc, char **argv)
{
    sm_mutant_t mutant = {SM_MUTANT_NONE, 0, 0};

    if (5 == argc) {
        char *colon = strchr(argv[4], ':');

        find_sites();
        mutant.kind = 0 == strcmp(argv[3], "acquire")   ? SM_MUTANT_ACQUIRE
                      : 0 == strcmp(argv[3], "release") ? SM_MUTANT_RELEASE
                                                        : SM_MUTANT_DROP;
        for (unsigned i = 1; NULL != colon && i < sm_site_count(); ++i) {
            const sm_site_t *site = sm_site_at(i);
            if (site->line == atoi(colon + 1)
                && 0 == strncmp(base_name(site->file), argv[4], (size_t) (colon - argv[4]))) {
                mutant.site = i;
            }
        }
    }
    for (size_t p = 0; p <= PROTOCOLS; ++p) {
        for (const sm_scenario_t *s = p < PROTOCOLS ? protocol[p] : m_litmus; NULL != s->name;
             ++s) {
            if (0 == strcmp(s->name, argv[2])) {
                sm_result_t result;

                sm_explore(s, mutant, 1, &result);
                printf("# %s: %s, %llu graphs, %llu complete, %llu blocked\n", s->name,
                       result.error ? result.text : "nothing found",
                       (unsigned long long) result.graphs, (unsigned long long) result.complete,
                       (unsigned long long) result.blocked);
                return 0;
            }
        }
    }
    fprintf(stderr, "m_main: no scenario %s\n", argv[2]);
    return 2;
}

int main(int argc, char **argv)
{
    const char *level = getenv("SMX_LEVEL");

    is_long = NULL != level && 0 == strcmp(level, "long");
    if (3 <= argc && 0 == strcmp(argv[1], "trace")) {
        return run_trace(argc, argv);
    }
    if (2 == argc && 0 == strcmp(argv[1], "litmus")) {
        run_table(m_litmus);
    } else if (2 == argc && 0 == strcmp(argv[1], "scenarios")) {
        for (size_t p = 0; p < PROTOCOLS; ++p) {
            run_table(protocol[p]);
        }
    } else if (2 == argc && 0 == strcmp(argv[1], "mutants")) {
        run_mutants();
    } else if (2 == argc && 0 == strcmp(argv[1], "edges")) {
        run_edges();
    } else {
        fprintf(stderr,
                "usage: m_main litmus|scenarios|mutants|edges|trace NAME [HOW FILE:LINE]\n");
        return 2;
    }
    printf("1..%d\n", test_number);
    return 0 == failures ? 0 : 1;
}

/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Test Anything Protocol; contract in tap.h.
 */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE 1
#endif

#include "tap.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int results, failures;

/* Printed at once: a program that is killed later has told what it knew, and a fork does not
 * repeat it. */
static void line(const char *head, const char *text, va_list values, const char *tail)
{
    char body[512];

    vsnprintf(body, sizeof(body), text, values);
    printf("%s%s%s\n", head, body, tail);
    fflush(stdout);
}

bool tap_ok(bool condition, const char *name, ...)
{
    char head[32];
    va_list values;

    snprintf(head, sizeof(head), "%sok %d - ", condition ? "" : "not ", ++results);
    failures += condition ? 0 : 1;
    va_start(values, name);
    line(head, name, values, "");
    va_end(values);
    return condition;
}

bool tap_same(long long got, long long wanted, const char *name, ...)
{
    char head[32];
    va_list values;

    snprintf(head, sizeof(head), "%sok %d - ", got == wanted ? "" : "not ", ++results);
    failures += got == wanted ? 0 : 1;
    va_start(values, name);
    line(head, name, values, "");
    va_end(values);
    if (got != wanted) {
        tap_note("got %lld (0x%llx), wanted %lld (0x%llx)", got, (unsigned long long) got, wanted,
                 (unsigned long long) wanted);
    }
    return got == wanted;
}

void tap_skip(const char *reason, const char *name, ...)
{
    char head[32], tail[256];
    va_list values;

    snprintf(head, sizeof(head), "ok %d - ", ++results);
    snprintf(tail, sizeof(tail), " # SKIP %s", reason);
    va_start(values, name);
    line(head, name, values, tail);
    va_end(values);
}

void tap_skip_all(const char *reason, ...)
{
    va_list values;

    va_start(values, reason);
    line("1..0 # SKIP ", reason, values, "");
    va_end(values);
    exit(77);
}

void tap_note(const char *text, ...)
{
    va_list values;

    va_start(values, text);
    line("# ", text, values, "");
    va_end(values);
}

int tap_done(void)
{
    printf("1..%d\n", results);
    if (0 != failures) {
        printf("# %d of %d failed\n", failures, results);
    }
    fflush(stdout);
    return 0 == failures && 0 < results ? 0 : 1;
}

uint64_t tap_seed(void)
{
    static bool known;
    static uint64_t seed = UINT64_C(20240229);

    if (!known) {
        const char *text = getenv("SMX_SEED");

        if (NULL != text && '\0' != *text) {
            seed = strtoull(text, NULL, 0);
        }
        known = true;
        tap_note("seed %" PRIu64, seed);
    }
    return seed;
}

bool tap_long(void)
{
    const char *level = getenv("SMX_LEVEL");

    return NULL != level && 0 == strcmp("long", level);
}

void tap_deadline(unsigned int seconds)
{
    const char *scale = getenv("SMX_TIME_SCALE");

    signal(SIGALRM, SIG_DFL);
    alarm(seconds * (NULL != scale && 0 < atoi(scale) ? (unsigned int) atoi(scale) : 1));
}

/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Test Anything Protocol for C programs: results on stdout, the plan at the end.
 *
 * Used by the programs of test/unit, test/proc, test/stress. Single-threaded: worker threads and
 * forked processes report to the one that prints.
 */
#ifndef SMX_TEST_TAP_H
#define SMX_TEST_TAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** @brief One result. The name is a sentence of the specification. @return condition */
bool tap_ok(bool condition, const char *name, ...) __attribute__((format(printf, 2, 3)));

/** @brief One result: two numbers are equal; both are shown if not. @return whether they are */
bool tap_same(long long got, long long wanted, const char *name, ...)
    __attribute__((format(printf, 3, 4)));

/** @brief One result that could not be tried here. */
void tap_skip(const char *reason, const char *name, ...) __attribute__((format(printf, 2, 3)));

/** @brief End the program, everything skipped. Does not return. */
void tap_skip_all(const char *reason, ...) __attribute__((format(printf, 1, 2), noreturn));

/** @brief A remark, one line. */
void tap_note(const char *text, ...) __attribute__((format(printf, 1, 2)));

/**
 * @brief Print the plan.
 * @return exit status: 0 if all results were good
 */
int tap_done(void);

/** @return the seed for this run: SMX_SEED or a fixed number; printed at the first call */
uint64_t tap_seed(void);

/** @return true in the long form of the tests (SMX_LEVEL=long) */
bool tap_long(void);

/** @brief End the program with SIGALRM's default action if it takes longer than this. */
void tap_deadline(unsigned int seconds);

#endif /* SMX_TEST_TAP_H */

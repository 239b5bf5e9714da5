/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit tests of smsc_cma_copy.c over a table of scripted system calls.
 * smx-timeout: check=60 long=600
 */
#include "opal_config.h"

#include "fault.h"
#include "pattern.h"
#include "rng.h"
#include "smsc_cma_copy.h"
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>

#define PID 4711
#define GIB ((size_t) 1 << 30)

static const smsc_cma_sys_t sys = {fault_readv, fault_writev, fault_wait};

static uint64_t nonce;
static _Atomic uint32_t life;

/* How a target is known to be there: by the word, or by the nonce alone. */
typedef enum { WORD, NONCE } proof_t;
static const char *const proof_name[] = {"word", "nonce"};

static smsc_cma_target_t target_with(proof_t proof)
{
    nonce = UINT64_C(0x1122334455667788);
    atomic_store(&life, 4711);
    return (smsc_cma_target_t) {
        .pid = PID,
        .life = WORD == proof ? &life : NULL,
        .life_value = 4711,
        .nonce = nonce,
        .nonce_address = (uint64_t) (uintptr_t) &nonce,
    };
}

static unsigned char theirs[1 << 20], ours[1 << 20];

static void fill(smsc_cma_direction_t direction)
{
    memset(theirs, 0x11, sizeof(theirs));
    memset(ours, 0x22, sizeof(ours));
    pattern_fill(SMSC_CMA_READ == direction ? theirs : ours, sizeof(ours), 7, 0);
}

/* Where the bytes had to arrive. */
static unsigned char *sink(smsc_cma_direction_t direction)
{
    return SMSC_CMA_READ == direction ? ours : theirs;
}

static smsc_cma_result_t run(const smsc_cma_target_t *target, smsc_cma_direction_t direction,
                             size_t len, size_t limit)
{
    smsc_cma_result_t result;

    smsc_cma_copy(&sys, target, direction, ours, (uint64_t) (uintptr_t) theirs, len, limit,
                  &result);
    return result;
}

/* The bytes arrived, no more than those, and the engine kept its own rules. */
static bool arrived(smsc_cma_direction_t direction, const smsc_cma_result_t *result, size_t len)
{
    const unsigned char before = SMSC_CMA_READ == direction ? 0x22 : 0x11;

    return SMSC_CMA_OK == result->status && len == result->done && !fault.broken
           && len == pattern_good(sink(direction), len, 7, 0)
           && sizeof(ours) - len == pattern_run(sink(direction) + len, sizeof(ours) - len, before);
}

static void set_script(const fault_answer_t *script, size_t len)
{
    fault.script = script;
    fault.script_len = len;
}

#define SCRIPT(...)                                    \
    set_script((const fault_answer_t[]) {__VA_ARGS__}, \
               sizeof((const fault_answer_t[]) {__VA_ARGS__}) / sizeof(fault_answer_t))

static void test_sizes(proof_t proof, smsc_cma_direction_t direction)
{
    static const size_t sizes[] = {0, 1, 7, 8, 9, 4095, 4096, 4097, 65536, 1000003};
    const char *way = SMSC_CMA_READ == direction ? "read" : "write";
    const smsc_cma_target_t target = target_with(proof);
    bool good = true;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); ++i) {
        static const size_t limits[] = {0, 1u << 30, 4096, 4095, 1001};

        for (size_t l = 0; l < sizeof(limits) / sizeof(*limits); ++l) {
            smsc_cma_result_t result;

            fault_reset();
            fill(direction);
            result = run(&target, direction, sizes[i], limits[l]);
            good &= arrived(direction, &result, sizes[i]);
            good &= 0 == limits[l]
                    || fault.largest <= limits[l] + (NONCE == proof ? sizeof(nonce) : 0)
                    || fault.largest == sizeof(nonce);
            good &= 0 == result.cut && 0 == fault.waits;
        }
    }
    tap_ok(good, "%s, proof by %s: every size arrives whole at every limit", way,
           proof_name[proof]);

    fault_reset();
    fill(direction);
    for (size_t len = 1, limit = 1; 70 > limit; ++limit, len = len * 3 % 997) {
        const smsc_cma_result_t result = run(&target, direction, len, limit);

        good &= SMSC_CMA_OK == result.status && (len + limit - 1) / limit == result.calls;
    }
    tap_ok(good, "%s, proof by %s: as many data calls as the limit asks for", way,
           proof_name[proof]);

    fault_reset();
    good = SMSC_CMA_OK == run(&target, direction, 0, 0).status && 0 == fault.calls;
    tap_ok(good, "%s, proof by %s: no bytes, no call", way, proof_name[proof]);
}

static void test_cost(void)
{
    const smsc_cma_target_t target = target_with(WORD);

    fault_reset();
    (void) run(&target, SMSC_CMA_READ, 8, 1 << 20);
    (void) run(&target, SMSC_CMA_WRITE, 8, 1 << 20);
    tap_same((long long) fault.calls, 2, "with a life word a copy is exactly one system call");
    tap_same((long long) fault.most_elements, 1, "with a life word the call has one element");
    tap_same(fault.pid, PID, "the call names the target");

    fault_reset();
    atomic_store(&life, 0);
    (void) run(&target, SMSC_CMA_READ, 8, 1 << 20);
    tap_same((long long) fault.calls, 1, "proof by nonce costs a read no further call");
    (void) run(&target, SMSC_CMA_WRITE, 8, 1 << 20);
    tap_same((long long) fault.calls, 4, "proof by nonce costs a write two further calls");
}

static void test_short(proof_t proof, smsc_cma_direction_t direction)
{
    const char *way = SMSC_CMA_READ == direction ? "read" : "write";
    const smsc_cma_target_t target = target_with(proof);
    rng_t rng = rng_split(tap_seed(), 1);
    bool good = true;

    for (int trial = 0; trial < 200; ++trial) {
        fault_answer_t script[64];
        const size_t len = 1 + rng_below(&rng, 20000);
        smsc_cma_result_t result;

        /* Each answer short by some amount, in the middle of the element. A call that carries the
         * nonce has to have moved that at least. */
        for (size_t i = 0; i < 64; ++i) {
            script[i] = FAULT_SHORT(9 + (ssize_t) rng_below(&rng, 3000));
        }
        fault_reset();
        fill(direction);
        set_script(script, 64);
        result = run(&target, direction, len, 0 == trial % 3 ? 777 : 0);
        good &= arrived(direction, &result, len);
    }
    tap_ok(good, "%s, proof by %s: short counts are resumed in the middle of an element", way,
           proof_name[proof]);

    fault_reset();
    fill(direction);
    if (WORD == proof) {
        smsc_cma_result_t result;

        SCRIPT(FAULT_SHORT(1), FAULT_SHORT(4095));
        result = run(&target, direction, 10000, 0);
        tap_ok(arrived(direction, &result, 10000) && 2 == result.cut && 3 == result.calls,
               "%s: short calls are counted", way);
    }
}

static void test_no_progress(void)
{
    for (int direction = SMSC_CMA_READ; direction <= SMSC_CMA_WRITE; ++direction) {
        for (int proof = WORD; proof <= NONCE; ++proof) {
            const smsc_cma_target_t target = target_with((proof_t) proof);
            smsc_cma_result_t result;

            fault_reset();
            fault.after = FAULT_RETURN(0);
            result = run(&target, (smsc_cma_direction_t) direction, 5000, 0);
            tap_ok(SMSC_CMA_STUCK == result.status && 0 == result.done && 5 > fault.calls,
                   "direction %d, proof by %s: calls that return 0 end the copy", direction,
                   proof_name[proof]);
        }
    }
    {
        const smsc_cma_target_t target = target_with(WORD);
        smsc_cma_result_t result;

        fault_reset();
        SCRIPT(FAULT_SHORT(1000), FAULT_RETURN(0), FAULT_RETURN(0));
        result = run(&target, SMSC_CMA_READ, 5000, 0);
        tap_ok(SMSC_CMA_STUCK == result.status && 1000 == result.done,
               "a 0 in the middle ends the copy and says how far it came");

        fault_reset();
        fault.after = FAULT_RETURN(6000);
        result = run(&target, SMSC_CMA_READ, 5000, 0);
        tap_ok(SMSC_CMA_STUCK == result.status && 0 == result.done,
               "a count above what was asked for is not believed");
    }
}

static void test_retries(void)
{
    static fault_answer_t storm[1200];
    const smsc_cma_target_t target = target_with(WORD);
    smsc_cma_result_t result;

    for (size_t i = 0; i < 1200; ++i) {
        storm[i] = 299 == i % 300 ? FAULT_SHORT(100) : FAULT_ERROR(EINTR);
    }
    fault_reset();
    fill(SMSC_CMA_READ);
    set_script(storm, 1200);
    result = run(&target, SMSC_CMA_READ, 1000, 0);
    tap_ok(arrived(SMSC_CMA_READ, &result, 1000) && 1200 < fault.calls,
           "a storm of EINTR between short counts is survived");

    fault_reset();
    fault.after = FAULT_ERROR(EINTR);
    result = run(&target, SMSC_CMA_READ, 1000, 0);
    tap_ok(SMSC_CMA_INTERRUPTED == result.status && EINTR == result.error
               && fault.calls <= SMSC_CMA_EINTR_MAX + 2,
           "an endless storm of EINTR ends the copy");

    fault_reset();
    fill(SMSC_CMA_WRITE);
    SCRIPT(FAULT_ERROR(ENOMEM), FAULT_ERROR(EAGAIN), FAULT_ERROR(ENOMEM), FAULT_ERROR(ENOMEM));
    result = run(&target, SMSC_CMA_WRITE, 1000, 0);
    tap_ok(arrived(SMSC_CMA_WRITE, &result, 1000) && 0 < fault.waits,
           "ENOMEM and EAGAIN that pass are waited for");

    for (int i = 0; i < 2; ++i) {
        const int error = 0 == i ? ENOMEM : EAGAIN;

        fault_reset();
        SCRIPT(FAULT_SHORT(300));
        fault.after = FAULT_ERROR(error);
        result = run(&target, SMSC_CMA_READ, 1000, 0);
        tap_ok((0 == i ? SMSC_CMA_NO_MEMORY : SMSC_CMA_BUSY) == result.status
                   && error == result.error && 300 == result.done
                   && SMSC_CMA_SCARCE_MAX == fault.waits,
               "errno %d that stays ends the copy after a bounded number of tries", error);
    }
}

static void test_codes(void)
{
    static const struct {
        int error;
        smsc_cma_status_t status;
        bool final;
    } table[] = {
        {EFAULT, SMSC_CMA_BAD_ADDRESS, false}, {EPERM, SMSC_CMA_DENIED, true},
        {EACCES, SMSC_CMA_DENIED, true},       {ENOSYS, SMSC_CMA_UNSUPPORTED, true},
        {EINVAL, SMSC_CMA_INVALID, true},      {ESRCH, SMSC_CMA_GONE, true},
        {EIO, SMSC_CMA_UNKNOWN, false},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); ++i) {
        bool good = true;

        for (int direction = SMSC_CMA_READ; direction <= SMSC_CMA_WRITE; ++direction) {
            const smsc_cma_target_t target = target_with(WORD);
            smsc_cma_result_t result;

            fault_reset();
            fault.after = FAULT_ERROR(table[i].error);
            result = run(&target, (smsc_cma_direction_t) direction, 4096, 0);
            good &= table[i].status == result.status && table[i].error == result.error
                    && 0 == result.done && 3 > fault.calls
                    && table[i].final == smsc_cma_status_is_final(result.status);
            good &= table[i].status == smsc_cma_status_of(table[i].error);
        }
        tap_ok(good, "errno %d becomes \"%s\", %s", table[i].error,
               smsc_cma_status_name(table[i].status), table[i].final ? "for good" : "this time");
    }
    {
        bool good = true;

        for (int a = 0; a < SMSC_CMA_STATUS_COUNT; ++a) {
            for (int b = 0; b < a; ++b) {
                good &= 0
                        != strcmp(smsc_cma_status_name((smsc_cma_status_t) a),
                                  smsc_cma_status_name((smsc_cma_status_t) b));
            }
        }
        tap_ok(good && NULL != smsc_cma_status_name(SMSC_CMA_STATUS_COUNT),
               "every status has a text of its own");
    }
}

static void test_holes(proof_t proof)
{
    for (int direction = SMSC_CMA_READ; direction <= SMSC_CMA_WRITE; ++direction) {
        const smsc_cma_target_t target = target_with(proof);
        smsc_cma_result_t result;

        fault_reset();
        fill((smsc_cma_direction_t) direction);
        fault.hole = (uintptr_t) theirs + 12288;
        fault.hole_end = fault.hole + 4096;
        result = run(&target, (smsc_cma_direction_t) direction, 20000, 0);
        tap_ok(SMSC_CMA_BAD_ADDRESS == result.status && EFAULT == result.error
                   && 12288 == result.done
                   && 12288 == pattern_good(sink((smsc_cma_direction_t) direction), 12288, 7, 0),
               "direction %d, proof by %s: a bad page in mid-element gives EFAULT after what lies "
               "before it",
               direction, proof_name[proof]);

        fault_reset();
        fault.hole = (uintptr_t) theirs;
        fault.hole_end = fault.hole + 4096;
        result = run(&target, (smsc_cma_direction_t) direction, 20000, 0);
        tap_ok(SMSC_CMA_BAD_ADDRESS == result.status && 0 == result.done && 5 > fault.calls,
               "direction %d, proof by %s: a bad first page gives EFAULT at once", direction,
               proof_name[proof]);
    }
}

/* A target that is replaced: the word dies, the nonce is another's. */
static void lose_word(unsigned long call)
{
    (void) call;
    atomic_store(&life, 4711u | 0x40000000u);
}

static void lose_all(unsigned long call)
{
    lose_word(call);
    nonce = 99;
}

static void lose_all_later(unsigned long call)
{
    if (1 == call) {
        lose_all(call);
    }
}

static void test_replaced(void)
{
    smsc_cma_target_t target = target_with(WORD);
    smsc_cma_result_t result;

    lose_all(0);
    fault_reset();
    fill(SMSC_CMA_READ);
    result = run(&target, SMSC_CMA_READ, 4096, 0);
    tap_ok(SMSC_CMA_GONE == result.status && 0 == result.done,
           "a read from a pid that is another's now is not reported as done");
    fault_reset();
    fill(SMSC_CMA_WRITE);
    result = run(&target, SMSC_CMA_WRITE, 4096, 0);
    tap_ok(SMSC_CMA_GONE == result.status && 0 == fault.writes
               && sizeof(theirs) == pattern_run(theirs, sizeof(theirs), 0x11),
           "a pid that is another's now is never written to");

    target = target_with(WORD);
    fault_reset();
    fault.before = lose_all;
    fill(SMSC_CMA_READ);
    result = run(&target, SMSC_CMA_READ, 4096, 0);
    tap_ok(SMSC_CMA_GONE == result.status && 0 == result.done,
           "a target replaced just before the call: a read is refused");
    target = target_with(WORD);
    fault_reset();
    fault.behind = lose_all;
    result = run(&target, SMSC_CMA_WRITE, 4096, 0);
    tap_ok(SMSC_CMA_GONE == result.status && 0 == result.done && 1 == fault.writes,
           "a target lost during a write: not reported as delivered, not written again");

    for (int direction = SMSC_CMA_READ; direction <= SMSC_CMA_WRITE; ++direction) {
        target = target_with(WORD);
        fault_reset();
        fault.behind = lose_word;
        fill((smsc_cma_direction_t) direction);
        result = run(&target, (smsc_cma_direction_t) direction, 50000, 7000);
        tap_ok(arrived((smsc_cma_direction_t) direction, &result, 50000)
                   && (SMSC_CMA_READ == direction || 8 == fault.writes),
               "direction %d: when only the word is lost the nonce proves the rest", direction);
    }

    for (int direction = SMSC_CMA_READ; direction <= SMSC_CMA_WRITE; ++direction) {
        target = target_with(WORD);
        fault_reset();
        fault.behind = lose_all_later;
        result = run(&target, (smsc_cma_direction_t) direction, 50000, 7000);
        tap_ok(SMSC_CMA_GONE == result.status && 7000 == result.done,
               "direction %d: a target lost during the second of many calls: only the first counts",
               direction);
    }

    target = target_with(NONCE);
    fault_reset();
    fault.behind = lose_all_later;
    result = run(&target, SMSC_CMA_READ, 50000, 7000);
    tap_ok(SMSC_CMA_GONE == result.status && 14000 == result.done,
           "a target replaced between two reads: what came before counts, nothing after");
    target = target_with(NONCE);
    fault_reset();
    fault.behind = lose_all_later;
    result = run(&target, SMSC_CMA_WRITE, 50000, 7000);
    tap_ok(SMSC_CMA_GONE == result.status && 0 == result.done && 1 == fault.writes,
           "a target replaced behind a write: that write does not count");

    target = target_with(NONCE);
    target.nonce_address = 0;
    fault_reset();
    fault.hole = 0;
    fault.hole_end = 4096;
    result = run(&target, SMSC_CMA_READ, 4096, 0);
    tap_ok(SMSC_CMA_GONE == result.status, "no memory where the nonce should be: gone, not EFAULT");
}

static void test_vectors(proof_t proof)
{
    static const size_t counts[] = {1, 2, 255, 256, 257, 1023, 1024, 1025, 5000};
    const smsc_cma_target_t target = target_with(proof);
    struct iovec *local = calloc(5001, sizeof(*local));
    struct iovec *remote = calloc(5001, sizeof(*remote));

    for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); ++c) {
        const size_t count = counts[c];
        bool good = true;

        for (int shape = 0; shape < 6; ++shape) {
            const bool reading = 0 == shape % 2;
            const size_t total = count * 37;
            size_t nlocal = 0, nremote = 0;
            smsc_cma_result_t result;

            /* Both sides cut alike; one side whole; the other whole. */
            fault_reset();
            fill(reading ? SMSC_CMA_READ : SMSC_CMA_WRITE);
            for (size_t i = 0; i < count; ++i) {
                if (4 > shape) {
                    local[nlocal++] = (struct iovec) {ours + i * 37, 37};
                }
                if (2 > shape || 4 <= shape) {
                    remote[nremote++] = (struct iovec) {theirs + i * 37, 37};
                }
            }
            if (0 == nlocal) {
                local[nlocal++] = (struct iovec) {ours, total};
            }
            if (0 == nremote) {
                remote[nremote++] = (struct iovec) {theirs, total};
            }
            smsc_cma_copyv(&sys, &target, reading ? SMSC_CMA_READ : SMSC_CMA_WRITE, local, nlocal,
                           remote, nremote, 0, &result);
            good &= arrived(reading ? SMSC_CMA_READ : SMSC_CMA_WRITE, &result, total);
            good &= 1024 >= fault.most_elements;
        }
        tap_ok(good, "proof by %s: %zu elements on both sides or one", proof_name[proof], count);
    }
    free(local);
    free(remote);
}

static void test_random_vectors(proof_t proof)
{
    const smsc_cma_target_t target = target_with(proof);
    const int trials = tap_long() ? 20000 : 600;
    rng_t rng = rng_split(tap_seed(), 2 + proof);
    struct iovec local[600], remote[600];
    fault_answer_t script[40];
    int bad = 0;

    for (int trial = 0; trial < trials; ++trial) {
        const bool reading = 0 != (rng_next(&rng) & 1);
        const size_t total = rng_below(&rng, 30000);
        struct iovec *sides[2] = {local, remote};
        unsigned char *bases[2] = {ours, theirs};
        size_t counts[2];
        smsc_cma_result_t result;

        for (int side = 0; side < 2; ++side) {
            const size_t grain = 1 + rng_below(&rng, 400);
            size_t at = 0, n = 0;

            while (at < total && n < 599) {
                size_t len = rng_below(&rng, grain + 1); /* now and then empty */

                len = len > total - at ? total - at : len;
                sides[side][n++] = (struct iovec) {bases[side] + at, len};
                at += len;
            }
            sides[side][n++] = (struct iovec) {bases[side] + at, total - at};
            counts[side] = n;
        }
        for (int i = 0; i < 40; ++i) {
            const uint64_t dice = rng_below(&rng, 10);

            script[i] = 0 == dice   ? FAULT_ERROR(EINTR)
                        : 1 == dice ? FAULT_ERROR(ENOMEM)
                        : 5 > dice  ? FAULT_SHORT(9 + (ssize_t) rng_below(&rng, 2000))
                                    : FAULT_ALL;
        }
        fault_reset();
        set_script(script, 40);
        fill(reading ? SMSC_CMA_READ : SMSC_CMA_WRITE);
        smsc_cma_copyv(&sys, &target, reading ? SMSC_CMA_READ : SMSC_CMA_WRITE, local, counts[0],
                       remote, counts[1], 1 + rng_below(&rng, 5000), &result);
        bad += arrived(reading ? SMSC_CMA_READ : SMSC_CMA_WRITE, &result, total) ? 0 : 1;
        if (0 == trial % 100) {
            atomic_store(&life, 0 == trial % 200 && WORD == proof ? 4711 : 0);
        }
    }
    tap_same(bad, 0, "proof by %s: %d random pairs of lists under random answers",
             proof_name[proof], trials);
}

static void test_huge(proof_t proof)
{
    static const size_t sizes[] = {
        0x7ffff000 - 1, 0x7ffff000,  0x7ffff001, 2 * GIB - 1, 2 * GIB,
        2 * GIB + 1,    4 * GIB - 1, 4 * GIB,    4 * GIB + 3, 64 * GIB + 4099,
    };
    static const size_t limits[] = {0, 0x7ffff000, SIZE_MAX, (size_t) 64 << 20, 1000000007};
    const smsc_cma_target_t target = target_with(proof);
    bool good = true;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); ++i) {
        for (size_t l = 0; l < sizeof(limits) / sizeof(*limits); ++l) {
            for (int direction = SMSC_CMA_READ; direction <= SMSC_CMA_WRITE; ++direction) {
                smsc_cma_result_t result;

                fault_reset();
                fault.ghost = true;
                if (SMSC_CMA_WRITE == direction && NONCE == proof) {
                    continue; /* the checks around a write need a real read */
                }
                smsc_cma_copy(&sys, &target, (smsc_cma_direction_t) direction,
                              (void *) (uintptr_t) 0x100000001001, 0x200000000fff, sizes[i],
                              limits[l], &result);
                good &= SMSC_CMA_OK == result.status && sizes[i] == result.done && !fault.broken
                        && sizes[i] == fault.ghost_total && 0 == result.cut;
            }
        }
    }
    tap_ok(good, "proof by %s: sizes around 2^31 and 2^32 and far beyond, without a gap",
           proof_name[proof]);

    /* A kernel that moves less per call than we think it does. */
    if (WORD == proof) {
        smsc_cma_result_t result;

        fault_reset();
        fault.ghost = true;
        fault.after = FAULT_SHORT(0x3fffffff);
        smsc_cma_copy(&sys, &target, SMSC_CMA_READ, (void *) (uintptr_t) 0x100000001001,
                      0x200000000fff, 4 * GIB + 3, 0, &result);
        tap_ok(SMSC_CMA_OK == result.status && 4 * GIB + 3 == fault.ghost_total && !fault.broken
                   && 4 == result.cut,
               "2^32 + 3 bytes through a kernel with a smaller cap");
    }
}

static void test_requests(void)
{
    const smsc_cma_target_t target = target_with(WORD);
    struct iovec two[2] = {{ours, 10}, {ours + 10, 10}}, one[1] = {{theirs, 19}};
    smsc_cma_result_t result;

    fault_reset();
    smsc_cma_copyv(&sys, &target, SMSC_CMA_READ, two, 2, one, 1, 0, &result);
    tap_ok(SMSC_CMA_BAD_REQUEST == result.status && 0 == fault.calls,
           "sides of different length are refused before any call");
    two[0].iov_len = SIZE_MAX - 5;
    two[1].iov_len = SIZE_MAX - 5;
    smsc_cma_copyv(&sys, &target, SMSC_CMA_READ, two, 2, two, 2, 0, &result);
    tap_ok(SMSC_CMA_BAD_REQUEST == result.status && 0 == fault.calls,
           "a list with an element that wraps is refused");
    two[0] = two[1] = (struct iovec) {NULL, SIZE_MAX - 5};
    smsc_cma_copyv(&sys, &target, SMSC_CMA_READ, two, 2, two, 2, 0, &result);
    tap_ok(SMSC_CMA_BAD_REQUEST == result.status && 0 == fault.calls,
           "lists whose total overflows are refused");
    smsc_cma_copy(&sys, &target, SMSC_CMA_READ, ours, UINT64_MAX - 10, 4096, 0, &result);
    tap_ok(SMSC_CMA_BAD_REQUEST == result.status && 0 == fault.calls,
           "a remote range that wraps is refused");
    smsc_cma_copy(&sys, &target, SMSC_CMA_WRITE, (void *) UINTPTR_MAX, 0, 2, 0, &result);
    tap_ok(SMSC_CMA_BAD_REQUEST == result.status && 0 == fault.calls,
           "a local range that wraps is refused");
    smsc_cma_copyv(&sys, &target, SMSC_CMA_READ, NULL, 0, NULL, 0, 0, &result);
    tap_ok(SMSC_CMA_OK == result.status && 0 == fault.calls, "empty lists are a copy of nothing");
    two[0] = (struct iovec) {NULL, 0};
    two[1] = (struct iovec) {ours, 19};
    smsc_cma_copyv(&sys, &target, SMSC_CMA_READ, two, 2, one, 1, 0, &result);
    tap_ok(SMSC_CMA_OK == result.status && 19 == result.done && !fault.broken,
           "an empty element in front is passed over");
}

static void test_verify(void)
{
    const smsc_cma_target_t target = target_with(NONCE);
    int error;

    fault_reset();
    tap_same(smsc_cma_verify(&sys, &target, &error), SMSC_CMA_OK, "verify: the nonce is there");
    nonce ^= 1;
    tap_same(smsc_cma_verify(&sys, &target, &error), SMSC_CMA_GONE, "verify: one bit differs");
    (void) target_with(NONCE);
    fault_reset();
    fault.after = FAULT_SHORT(4);
    tap_same(smsc_cma_verify(&sys, &target, &error), SMSC_CMA_STUCK,
             "verify: half a nonce is none");
    fault_reset();
    SCRIPT(FAULT_ERROR(EINTR), FAULT_ERROR(ENOMEM));
    tap_same(smsc_cma_verify(&sys, &target, &error), SMSC_CMA_OK,
             "verify: passing trouble is passed");
    fault.after = FAULT_ERROR(EPERM);
    fault.script_len = 0;
    tap_ok(SMSC_CMA_DENIED == smsc_cma_verify(&sys, &target, &error) && EPERM == error,
           "verify: a refusal is told from an absence");
}

int main(void)
{
    tap_deadline(60);
    for (int proof = WORD; proof <= NONCE; ++proof) {
        test_sizes((proof_t) proof, SMSC_CMA_READ);
        test_sizes((proof_t) proof, SMSC_CMA_WRITE);
        if (WORD == proof) {
            test_short(WORD, SMSC_CMA_WRITE);
        }
        test_short((proof_t) proof, SMSC_CMA_READ);
        test_holes((proof_t) proof);
        test_vectors((proof_t) proof);
        test_random_vectors((proof_t) proof);
        test_huge((proof_t) proof);
    }
    test_cost();
    test_no_progress();
    test_retries();
    test_codes();
    test_replaced();
    test_requests();
    test_verify();
    return tap_done();
}

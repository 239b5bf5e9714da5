/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Seeded pseudo-random numbers for tests: the same seed gives the same run on every machine.
 *
 * The generator is splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014): one word of state, any seed is good.
 */
#ifndef SMX_TEST_RNG_H
#define SMX_TEST_RNG_H

#include <stdint.h>

typedef struct rng_t {
    uint64_t state;
} rng_t;

/** @return the next 64 random bits */
static inline uint64_t rng_next(rng_t *rng)
{
    uint64_t z = (rng->state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/** @return a number below bound, bound > 0; the bias is below bound / 2^64 */
static inline uint64_t rng_below(rng_t *rng, uint64_t bound)
{
    return rng_next(rng) % bound;
}

/** @return an independent generator for part number part of a test */
static inline rng_t rng_split(uint64_t seed, uint64_t part)
{
    rng_t rng = {seed ^ (part * UINT64_C(0xd1342543de82ef95))};

    (void) rng_next(&rng);
    return rng;
}

#endif /* SMX_TEST_RNG_H */

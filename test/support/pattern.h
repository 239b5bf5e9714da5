/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Payloads whose every byte depends on who sent them and where they are: a byte that is lost,
 * doubled, shifted or from another message is seen.
 */
#ifndef SMX_TEST_PATTERN_H
#define SMX_TEST_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** What guard bytes around a buffer hold. */
#define PATTERN_GUARD 0xa5

/** @return the word at 8-byte position index of the payload named seed */
static inline uint64_t pattern_word(uint64_t seed, uint64_t index)
{
    uint64_t z = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + index * UINT64_C(0xd1342543de82ef95);

    z = (z ^ (z >> 32)) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ (z >> 29);
}

/** @return byte number at of the payload named seed */
static inline unsigned char pattern_byte(uint64_t seed, uint64_t at)
{
    return (unsigned char) (pattern_word(seed, at / 8) >> (at % 8 * 8));
}

/** @return eight bytes of the payload from position 8 * index on, as they lie in memory */
static inline uint64_t pattern_bytes(uint64_t seed, uint64_t index)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return pattern_word(seed, index);
#else
    return __builtin_bswap64(pattern_word(seed, index));
#endif
}

/** @brief Fill buffer with bytes first .. first + len - 1 of the payload. */
static inline void pattern_fill(void *buffer, size_t len, uint64_t seed, uint64_t first)
{
    unsigned char *bytes = (unsigned char *) buffer;
    size_t i = 0;

    while (i < len) {
        if (0 == (first + i) % 8 && 8 <= len - i) {
            const uint64_t word = pattern_bytes(seed, (first + i) / 8);

            memcpy(bytes + i, &word, sizeof(word));
            i += sizeof(word);
        } else {
            bytes[i] = pattern_byte(seed, first + i);
            ++i;
        }
    }
}

/** @return how many bytes from the start are as pattern_fill leaves them; len if all are */
static inline size_t pattern_good(const void *buffer, size_t len, uint64_t seed, uint64_t first)
{
    const unsigned char *bytes = (const unsigned char *) buffer;
    size_t i = 0;

    while (i < len) {
        const uint64_t word = pattern_bytes(seed, (first + i) / 8);

        if (0 == (first + i) % 8 && 8 <= len - i && 0 == memcmp(bytes + i, &word, sizeof(word))) {
            i += sizeof(word);
        } else if (bytes[i] == pattern_byte(seed, first + i)) {
            ++i;
        } else {
            break;
        }
    }
    return i;
}

/** @return how many bytes from the start hold value */
static inline size_t pattern_run(const void *buffer, size_t len, unsigned char value)
{
    const unsigned char *bytes = (const unsigned char *) buffer;
    size_t i = 0;

    if (0 < len && value == bytes[0] && 0 == memcmp(bytes, bytes + 1, len - 1)) {
        return len;
    }
    while (i < len && bytes[i] == value) {
        ++i;
    }
    return i;
}

#endif /* SMX_TEST_PATTERN_H */

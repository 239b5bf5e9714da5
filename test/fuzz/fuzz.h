/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the fuzz targets share: taking values off the input, and the one way to fail.
 *
 * A target is a function LLVMFuzzerTestOneInput. With clang it is driven by libFuzzer, with any
 * compiler by f_main.c, which runs the stored corpus and random inputs.
 */
#ifndef TEST_FUZZ_FUZZ_H
#define TEST_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct fuzz_input {
    const uint8_t *at, *end;
} fuzz_input_t;

/** @return the next word of the input; 0 once it is used up */
static inline uint64_t fuzz_word(fuzz_input_t *in)
{
    size_t len = (size_t) (in->end - in->at) < 8 ? (size_t) (in->end - in->at) : 8;
    uint64_t word = 0;

    memcpy(&word, in->at, len);
    in->at += len;
    return word;
}

static inline uint8_t fuzz_byte(fuzz_input_t *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static inline void fuzz_check(int condition, const char *text)
{
    if (!condition) {
        fprintf(stderr, "property broken: %s\n", text);
        abort();
    }
}

#endif /* TEST_FUZZ_FUZZ_H */

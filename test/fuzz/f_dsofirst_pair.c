/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target: a word of the parameter allocator_dsofirst_components, of any bytes.
 *
 * Must hold: nothing outside of the text is touched; a pair is two texts that are not empty and make
 * the word again with a colon between them; what is no pair stays as it was.
 */
#include "fuzz.h"

#include "allocator_dsofirst_pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *word = malloc(len + 1), *old = malloc(len + 1); /* their ends are seen by a sanitizer */
    const char *name;

    if (NULL != word && NULL != old) {
        if (0 < len) {
            memcpy(word, data, len);
        }
        word[len] = '\0';
        memcpy(old, word, len + 1);
        name = allocator_dsofirst_pair(word);
        if (NULL != name) {
            const size_t first = strlen(word);

            fuzz_check(0 < first && '\0' != name[0], "neither the framework nor the name is empty");
            fuzz_check(name == word + first + 1 && NULL == memchr(old, ':', first),
                       "the name begins behind the first colon");
            word[first] = ':';
        }
        fuzz_check(0 == memcmp(word, old, len + 1), "no other byte was changed");
    }
    free(word);
    free(old);
    return 0;
}

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target: a plugin file that may be anything, read without being loaded: either the input
 * itself, or a sound file over which the input writes.
 *
 * Must hold: no byte outside of the file is read, the text ends, and is empty unless the file is
 * sound.
 */
#include "opal_config.h"

#include "elf_image.h"
#include "fuzz.h"

#include "allocator_dsofirst_elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fuzz_input_t in = {data, data + len};
    const uint8_t how = fuzz_byte(&in);
    size_t size = (size_t) (in.end - in.at);
    allocator_dsofirst_elf_result_t rc;
    unsigned char *file = NULL; /* its end is seen by a sanitizer */
    struct image image;
    char text[16];

    if (0 != (how & 1)) {
        make_image(&image);
        size = sizeof(image);
        for (int i = 0; (how >> 2) > i && in.at < in.end; ++i) {
            const size_t at = fuzz_word(&in) % size, width = 1u << fuzz_byte(&in) % 4;
            const uint64_t word = fuzz_word(&in);

            memcpy((char *) &image + at, &word, width < size - at ? width : size - at);
        }
        size = 0 != (how & 2) ? fuzz_word(&in) % (size + 1) : size;
        in.at = (const uint8_t *) &image;
    }
    if (0 != posix_memalign((void **) &file, 16, 0 < size ? size : 1)) {
        return 0;
    }
    if (0 < size) {
        memcpy(file, in.at, size);
    }
    memset(text, 'x', sizeof(text));
    rc = allocator_dsofirst_elf_text(file, size, SYMBOL, text, 1 + (size_t) (how % sizeof(text)));
    free(file);
    fuzz_check(NULL != memchr(text, '\0', 1 + (size_t) (how % sizeof(text))), "the text ends");
    fuzz_check(ALLOCATOR_DSOFIRST_ELF_OK == rc || '\0' == text[0],
               "there is no text of a file that is not sound");
    return 0;
}

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Drives a fuzz target without libFuzzer: the files of a folder, then random inputs made of them.
 *
 *   TARGET FOLDER ROUNDS     the seed is SMX_SEED
 */
#include "fuzz.h"

#include <dirent.h>

#include "rng.h"

enum { MOST_FILES = 256, MOST_BYTES = 8192 };

static struct {
    uint8_t bytes[MOST_BYTES];
    size_t len;
} file[MOST_FILES];

static int read_folder(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    int count = 0;

    while (NULL != dir && count < MOST_FILES && NULL != (entry = readdir(dir))) {
        char name[1024];
        FILE *in;

        snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        in = '.' == entry->d_name[0] ? NULL : fopen(name, "rb");
        if (NULL != in) {
            file[count].len = fread(file[count].bytes, 1, MOST_BYTES, in);
            ++count;
            fclose(in);
        }
    }
    if (NULL != dir) {
        closedir(dir);
    }
    return count;
}

int main(int argc, char **argv)
{
    const char *seed = getenv("SMX_SEED");
    rng_t rng = rng_split(NULL != seed ? strtoull(seed, NULL, 0) : 1, 77);
    static uint8_t input[MOST_BYTES];
    long rounds;
    int count;

    if (3 != argc) {
        fprintf(stderr, "usage: %s FOLDER ROUNDS\n", argv[0]);
        return 2;
    }
    count = read_folder(argv[1]);
    if (0 == count) {
        fprintf(stderr, "no corpus in %s\n", argv[1]);
        return 2;
    }
    for (int i = 0; i < count; ++i) {
        (void) LLVMFuzzerTestOneInput(file[i].bytes, file[i].len);
    }
    rounds = atol(argv[2]);
    for (long i = 0; i < rounds; ++i) {
        int from = (int) rng_below(&rng, (uint64_t) count);
        size_t len = file[from].len;

        memcpy(input, file[from].bytes, len);
        for (uint64_t n = rng_below(&rng, 8); 0 < n && 0 < len; --n) {
            size_t at = rng_below(&rng, len);

            input[at] = (uint8_t) (0 == rng_below(&rng, 2)
                                       ? rng_next(&rng)
                                       : input[at] ^ (1u << rng_below(&rng, 8)));
        }
        if (0 == rng_below(&rng, 4) && 8 <= len) {
            uint64_t word = UINT64_C(1) << rng_below(&rng, 64);

            memcpy(input + rng_below(&rng, len - 7), &word, 8);
        }
        (void) LLVMFuzzerTestOneInput(input, len);
    }
    printf("%d files, %ld rounds\n", count, rounds);
    return 0;
}

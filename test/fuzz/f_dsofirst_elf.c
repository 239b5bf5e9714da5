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

#include "fuzz.h"

#include "allocator_dsofirst_elf.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>

#define SYMBOL "mca_smsc_cma_built_for"
#define BASE   0x10000u

/* All that a shared object needs for this, in the order of the file. */
struct image {
    ElfW(Ehdr) head;
    ElfW(Phdr) segment[2];
    ElfW(Sym) symbol[2];
    ElfW(Shdr) section[3];
    char names[32];
    char series[8];
};

static void make(struct image *image)
{
    const uint16_t one = 1;

    memset(image, 0, sizeof(*image));
    memcpy(image->head.e_ident, ELFMAG, SELFMAG);
    image->head.e_ident[EI_CLASS] = 8 == sizeof(void *) ? ELFCLASS64 : ELFCLASS32;
    image->head.e_ident[EI_DATA] = 1 == *(const unsigned char *) &one ? ELFDATA2LSB : ELFDATA2MSB;
    image->head.e_type = ET_DYN;
    image->head.e_phoff = offsetof(struct image, segment);
    image->head.e_phentsize = sizeof(image->segment[0]);
    image->head.e_phnum = 2;
    image->head.e_shoff = offsetof(struct image, section);
    image->head.e_shentsize = sizeof(image->section[0]);
    image->head.e_shnum = 3;
    image->segment[0].p_type = PT_LOAD;
    image->segment[0].p_vaddr = BASE;
    image->segment[0].p_filesz = sizeof(*image);
    image->section[1].sh_type = SHT_DYNSYM;
    image->section[1].sh_link = 2;
    image->section[1].sh_offset = offsetof(struct image, symbol);
    image->section[1].sh_size = sizeof(image->symbol);
    image->section[2].sh_type = SHT_STRTAB;
    image->section[2].sh_offset = offsetof(struct image, names);
    image->section[2].sh_size = sizeof(image->names);
    image->symbol[1].st_name = 1;
    image->symbol[1].st_shndx = 1;
    image->symbol[1].st_value = BASE + offsetof(struct image, series);
    memcpy(image->names + 1, SYMBOL, sizeof(SYMBOL));
    memcpy(image->series, "5.0", 4);
}

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
        make(&image);
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

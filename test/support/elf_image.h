/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A plugin file in memory: as little of a shared object as the reader of allocator/dsofirst needs, made byte
 * by byte. For its unit test and its fuzz target, which then damage it.
 */
#ifndef TEST_SUPPORT_ELF_IMAGE_H
#define TEST_SUPPORT_ELF_IMAGE_H

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SYMBOL "mca_smsc_cma_built_for"
#define OTHER  "mca_smsc_cma_component"
#define SERIES "5.0"
#define BASE   0x10000u /* the address that the segment is linked for */

/* All that a shared object needs for this, in the order of the file. */
struct image {
    ElfW(Ehdr) head;
    ElfW(Phdr) segment[2];
    ElfW(Sym) symbol[3];
    ElfW(Shdr) section[3];
    char names[64];
    char series[8];
};

/** A sound file: the second symbol is SYMBOL, its text SERIES. */
static inline void make_image(struct image *image)
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
    image->segment[0].p_memsz = sizeof(*image) + 100;
    image->segment[1].p_type = PT_GNU_STACK;
    image->section[1].sh_type = SHT_DYNSYM;
    image->section[1].sh_link = 2;
    image->section[1].sh_offset = offsetof(struct image, symbol);
    image->section[1].sh_size = sizeof(image->symbol);
    image->section[2].sh_type = SHT_STRTAB;
    image->section[2].sh_offset = offsetof(struct image, names);
    image->section[2].sh_size = sizeof(image->names);
    memcpy(image->names + 1, OTHER, sizeof(OTHER));
    memcpy(image->names + 1 + sizeof(OTHER), SYMBOL, sizeof(SYMBOL));
    image->symbol[1].st_name = 1;
    image->symbol[1].st_shndx = 1;
    image->symbol[2].st_name = 1 + sizeof(OTHER);
    image->symbol[2].st_shndx = 1;
    image->symbol[2].st_value = BASE + offsetof(struct image, series);
    memcpy(image->series, SERIES, sizeof(SERIES));
}

#endif /* TEST_SUPPORT_ELF_IMAGE_H */

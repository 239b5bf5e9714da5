/*
 * allocator_dsofirst_elf.c: read a text out of a plugin file without loading it.
 *
 * Layer: L0; see allocator_dsofirst_elf.h.
 */

#include "opal_config.h"

#include "allocator_dsofirst_elf.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Whether [offset, offset + length) lies in the file and starts where a structure of this
 * alignment may. */
static bool inside(uint64_t offset, uint64_t length, size_t size, size_t alignment)
{
    return offset <= size && length <= size - offset && 0 == offset % alignment;
}

static bool headers_are_sound(const char *image, size_t size)
{
    const ElfW(Ehdr) *head = (const ElfW(Ehdr) *) image;
    const uint16_t one = 1;
    const unsigned char byte_order = 1 == *(const unsigned char *) &one ? ELFDATA2LSB : ELFDATA2MSB;

    return sizeof(*head) <= size && 0 == memcmp(head->e_ident, ELFMAG, SELFMAG)
           && (8 == sizeof(void *) ? ELFCLASS64 : ELFCLASS32) == head->e_ident[EI_CLASS]
           && byte_order == head->e_ident[EI_DATA] && ET_DYN == head->e_type;
}

/* The loader maps each of these; one that reaches beyond the end of the file would be a SIGBUS
 * in the middle of loading. */
static bool segments_are_inside(const char *image, size_t size)
{
    const ElfW(Ehdr) *head = (const ElfW(Ehdr) *) image;
    const ElfW(Phdr) * segment;
    bool loads = false;

    if (sizeof(*segment) != head->e_phentsize
        || !inside(head->e_phoff, (uint64_t) head->e_phnum * sizeof(*segment), size,
                   _Alignof(ElfW(Phdr)))) {
        return false;
    }
    segment = (const ElfW(Phdr) *) (image + head->e_phoff);
    for (unsigned i = 0; i < head->e_phnum; i++) {
        if (PT_LOAD != segment[i].p_type && PT_DYNAMIC != segment[i].p_type) {
            continue;
        }
        if (!inside(segment[i].p_offset, segment[i].p_filesz, size, 1)) {
            return false;
        }
        loads = true;
    }
    return loads;
}

/* Where in the file an address of the loaded object comes from; NULL if from nowhere. length
 * is what is left of the segment from there on. */
static const char *at_address(const char *image, uint64_t address, uint64_t *length)
{
    const ElfW(Ehdr) *head = (const ElfW(Ehdr) *) image;
    const ElfW(Phdr) *segment = (const ElfW(Phdr) *) (image + head->e_phoff);

    for (unsigned i = 0; i < head->e_phnum; i++) {
        if (PT_LOAD == segment[i].p_type && address >= segment[i].p_vaddr
            && address - segment[i].p_vaddr < segment[i].p_filesz) {
            uint64_t skip = address - segment[i].p_vaddr;
            *length = segment[i].p_filesz - skip;
            return image + segment[i].p_offset + skip;
        }
    }
    return NULL;
}

/* The section table names the dynamic symbols; strip leaves it alone. NULL if there is none
 * that is sound. */
static const ElfW(Shdr)
    * dynamic_symbols(const char *image, size_t size, const ElfW(Shdr) * *names_out)
{
    const ElfW(Ehdr) *head = (const ElfW(Ehdr) *) image;
    const ElfW(Shdr) * section;

    if (sizeof(*section) != head->e_shentsize
        || !inside(head->e_shoff, (uint64_t) head->e_shnum * sizeof(*section), size,
                   _Alignof(ElfW(Shdr)))) {
        return NULL;
    }
    section = (const ElfW(Shdr) *) (image + head->e_shoff);
    for (unsigned i = 0; i < head->e_shnum; i++) {
        if (SHT_DYNSYM != section[i].sh_type || section[i].sh_link >= head->e_shnum) {
            continue;
        }
        *names_out = &section[section[i].sh_link];
        return inside(section[i].sh_offset, section[i].sh_size, size, _Alignof(ElfW(Sym)))
                       && inside((*names_out)->sh_offset, (*names_out)->sh_size, size, 1)
                   ? &section[i]
                   : NULL;
    }
    return NULL;
}

allocator_dsofirst_elf_result_t allocator_dsofirst_elf_text(const void *image, size_t size,
                                                            const char *symbol, char *text,
                                                            size_t text_size)
{
    const char *bytes = image;
    const size_t symbol_len = strlen(symbol) + 1;
    const ElfW(Shdr) * table, *names;

    text[0] = '\0';
    if (!headers_are_sound(bytes, size)) {
        return ALLOCATOR_DSOFIRST_ELF_NOT_ELF;
    }
    if (!segments_are_inside(bytes, size)
        || NULL == (table = dynamic_symbols(bytes, size, &names))) {
        return ALLOCATOR_DSOFIRST_ELF_TRUNCATED;
    }
    const ElfW(Sym) *entry = (const ElfW(Sym) *) (bytes + table->sh_offset);
    for (size_t i = 0; i < table->sh_size / sizeof(*entry); i++) {
        uint64_t left;
        const char *from;

        if (SHN_UNDEF == entry[i].st_shndx || entry[i].st_name > names->sh_size
            || symbol_len > names->sh_size - entry[i].st_name
            || 0 != memcmp(symbol, bytes + names->sh_offset + entry[i].st_name, symbol_len)) {
            continue;
        }
        from = at_address(bytes, entry[i].st_value, &left);
        if (NULL == from) {
            return ALLOCATOR_DSOFIRST_ELF_TRUNCATED;
        }
        size_t len = strnlen(from, left < text_size - 1 ? (size_t) left : text_size - 1);
        memcpy(text, from, len);
        text[len] = '\0';
        return ALLOCATOR_DSOFIRST_ELF_OK;
    }
    return ALLOCATOR_DSOFIRST_ELF_NO_SYMBOL;
}

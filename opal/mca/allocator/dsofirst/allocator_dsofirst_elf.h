/*
 * allocator_dsofirst_elf.h: read a text out of a plugin file without loading it.
 *
 * Layer: L0, plain memory; no OPAL, no system call, no allocation.
 * Called by allocator_dsofirst_plugin.c with the mapped file; the file may be anything at all, so
 * nothing in it is believed before it has been checked against the size of the file. Must never
 * run code of the plugin: one made for another Open MPI series may not survive being loaded.
 * Source: the ELF gABI (file header, program headers, dynamic symbol table) by way of <elf.h>.
 */

#ifndef ALLOCATOR_DSOFIRST_ELF_H
#define ALLOCATOR_DSOFIRST_ELF_H

#include <stddef.h>

typedef enum {
    ALLOCATOR_DSOFIRST_ELF_OK = 0,
    ALLOCATOR_DSOFIRST_ELF_NOT_ELF,   /* no shared object for this kind of machine */
    ALLOCATOR_DSOFIRST_ELF_TRUNCATED, /* a part that its headers promise is not in the file */
    ALLOCATOR_DSOFIRST_ELF_NO_SYMBOL  /* sound, but it does not export that symbol */
} allocator_dsofirst_elf_result_t;

/**
 * @brief Copy the text that an exported symbol of a shared object names.
 *
 * @param[in]  image     the file's bytes, aligned as mmap aligns
 * @param[in]  size      bytes, any
 * @param[in]  symbol    name of a char array
 * @param[out] text      text_size bytes, terminated; empty unless the result is OK
 * @param[in]  text_size bytes, at least 1; a longer text is cut
 * @return one of allocator_dsofirst_elf_result_t. All loadable segments have been seen to lie
 * inside the
 *         file when the result is OK or NO_SYMBOL.
 *
 * **Cost** linear in the number of dynamic symbols.
 */
allocator_dsofirst_elf_result_t allocator_dsofirst_elf_text(const void *image, size_t size,
                                                            const char *symbol, char *text,
                                                            size_t text_size);

#endif /* ALLOCATOR_DSOFIRST_ELF_H */

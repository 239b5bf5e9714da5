/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a process tells its local peers so that they can find it, recognise it, and notice its end;
 * and the check of what was received.
 *
 * Layer: L0. No system calls, no state.
 * Called by smsc_cma_identity.c (fills it), smsc_cma_component.c (sends it), smsc_cma_module.c
 * (receives and checks it), smsc_cma_probe.c (acts on it).
 * Must never: be believed. The record says where to look; only what is found there counts.
 *
 * A change of any field, size or meaning is a new SMSC_CMA_MODEX_VERSION.
 */
#ifndef OPAL_MCA_SMSC_CMA_SMSC_CMA_MODEX_H
#define OPAL_MCA_SMSC_CMA_SMSC_CMA_MODEX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** No pid can have this value, so a component that takes the first word for one fails cleanly. */
#define SMSC_CMA_MODEX_MAGIC   UINT32_C(0xc3a5c0de)
#define SMSC_CMA_MODEX_VERSION 2

/** life_* fields are valid: the identity page can be mapped and has a life word. */
#define SMSC_CMA_MODEX_LIFE UINT32_C(1)
/** socket_name is valid: a peer in another pid namespace may ask there for the pid. */
#define SMSC_CMA_MODEX_SOCKET UINT32_C(2)
#define SMSC_CMA_MODEX_FLAGS  (SMSC_CMA_MODEX_LIFE | SMSC_CMA_MODEX_SOCKET)

/**
 * The page in the owner's memory that proves its identity. Only offsets below matter to others.
 *
 * | bytes | what | written by |
 * |---|---|---|
 * | 0 - 7 | nonce | owner, before the modex; zeroed when it retires |
 * | 64 - 255 | robust mutex with the life word somewhere in it | owner's C library; the kernel |
 * | 256 - end | scratch words | peers, each its own: the trial of writing |
 *
 * The life word is what every copy looks at; nothing else in its line is written while it lives.
 */
#define SMSC_CMA_PAGE_BYTES    8192
#define SMSC_CMA_PAGE_MUTEX    64
#define SMSC_CMA_PAGE_SCRATCH  256
#define SMSC_CMA_SCRATCH_COUNT ((SMSC_CMA_PAGE_BYTES - SMSC_CMA_PAGE_SCRATCH) / sizeof(uint64_t))

typedef struct smsc_cma_modex_t {
    uint32_t magic;
    uint16_t version;
    uint16_t length; /**< of this record, bytes */
    uint32_t pid;    /**< as numbered in the owner's pid namespace */
    uint32_t flags;
    uint64_t pid_namespace; /**< inode of the owner's pid namespace, 0 if unknown */
    uint64_t start_time;    /**< of the process, clock ticks after boot, 0 if unknown */
    uint64_t nonce;         /**< random, not 0; stored at page_address */
    uint64_t page_address;  /**< of the identity page in the owner's address space */
    uint64_t page_device;   /**< the page's memory file, as fstat tells it */
    uint64_t page_inode;
    uint32_t page_fd;     /**< its descriptor in the owner */
    uint32_t life_offset; /**< of the life word, from the start of the page */
    uint32_t life_value;  /**< what the word holds while the owner lives */
    uint32_t reserved;    /**< 0 */
    uint64_t socket_name; /**< see smsc_cma_identity.h */
    uint32_t job;         /**< the owner's process name: PMIx has been seen to deliver the record */
    uint32_t rank;        /**< of another process than the one that was asked for */
} smsc_cma_modex_t;

_Static_assert(96 == sizeof(smsc_cma_modex_t), "the record has no holes and a known size");
_Static_assert(48 == offsetof(smsc_cma_modex_t, page_device), "no padding before the page fields");
_Static_assert(80 == offsetof(smsc_cma_modex_t, socket_name), "no padding after them");

typedef enum smsc_cma_modex_status_t {
    SMSC_CMA_MODEX_OK,
    SMSC_CMA_MODEX_FOREIGN, /**< not a record of this component, or cut off */
    SMSC_CMA_MODEX_OTHER,   /**< a record of another version of this component */
    SMSC_CMA_MODEX_BROKEN,  /**< a field that no sender of ours would write */
} smsc_cma_modex_status_t;

/** @brief Start a record: everything zero except what says that it is one. */
static inline void smsc_cma_modex_init(smsc_cma_modex_t *modex)
{
    memset(modex, 0, sizeof(*modex));
    modex->magic = SMSC_CMA_MODEX_MAGIC;
    modex->version = SMSC_CMA_MODEX_VERSION;
    modex->length = sizeof(*modex);
}

/**
 * @brief Take a received record over after checking it.
 *
 * @param[in]  bytes  what arrived, any alignment, may be NULL
 * @param[in]  size   how much
 * @param[out] modex  a copy; undefined unless SMSC_CMA_MODEX_OK is returned
 */
static inline smsc_cma_modex_status_t smsc_cma_modex_accept(const void *bytes, size_t size,
                                                            smsc_cma_modex_t *modex)
{
    const size_t head = offsetof(smsc_cma_modex_t, pid);

    if (NULL == bytes || head > size) {
        return SMSC_CMA_MODEX_FOREIGN;
    }
    memcpy(modex, bytes, head);
    if (SMSC_CMA_MODEX_MAGIC != modex->magic || size != modex->length) {
        return SMSC_CMA_MODEX_FOREIGN;
    }
    if (SMSC_CMA_MODEX_VERSION != modex->version || sizeof(*modex) != size) {
        return SMSC_CMA_MODEX_OTHER;
    }
    memcpy(modex, bytes, sizeof(*modex));
    if (0 == modex->pid || INT32_MAX < modex->pid || 0 != (modex->flags & ~SMSC_CMA_MODEX_FLAGS)
        || 0 == modex->nonce || 0 == modex->page_address
        || 0 != modex->page_address % sizeof(uint64_t)
        || UINT64_MAX - SMSC_CMA_PAGE_BYTES < modex->page_address || 0 != modex->reserved) {
        return SMSC_CMA_MODEX_BROKEN;
    }
    if (0 != (modex->flags & SMSC_CMA_MODEX_LIFE)
        && (SMSC_CMA_PAGE_MUTEX > modex->life_offset
            || SMSC_CMA_PAGE_SCRATCH - sizeof(uint32_t) < modex->life_offset
            || 0 != modex->life_offset % sizeof(uint32_t) || INT32_MAX < modex->page_fd
            || 0 == modex->life_value)) {
        return SMSC_CMA_MODEX_BROKEN;
    }
    return SMSC_CMA_MODEX_OK;
}

#endif /* OPAL_MCA_SMSC_CMA_SMSC_CMA_MODEX_H */

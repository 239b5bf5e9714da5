/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a process tells its peers about its segment, and the checks of what was received: of the
 * record, and of the head of the segment that it led to.
 *
 * Layer 0. The record comes from the runtime's server, which may mix processes up, and from a peer
 * that may run something else under our name; the head lies in memory that the peer can change at
 * any time. So both are copied once, then checked, and only the copy is used.
 */
#ifndef MCA_BTL_SM_MODEX_H
#define MCA_BTL_SM_MODEX_H

#include <stddef.h>
#include <string.h>

#include "btl_sm_layout.h"

/** CPUs that the oversubscription test can tell apart. */
#define MCA_BTL_SM_CPU_WORDS 16

/** Most bytes of a segment, well above what the parameter lets anybody have. */
#define BTL_SM_MODEX_MAX_SEGMENT (UINT64_C(1) << 44)

/** How a process offers its segment to its peers. */
enum {
    MCA_BTL_SM_OFFER_NAMED = 1,      /* the file can be given a name for peers that need one */
    MCA_BTL_SM_OFFER_UNDUMPABLE = 2, /* its descriptor table is closed to peers */
};

/** What a process tells its peers through the modex. Fixed width; checked on receipt. */
typedef struct mca_btl_sm_modex_t {
    uint64_t magic;
    uint32_t layout_version;
    uint32_t size;
    uint64_t segment_size;
    uint64_t nonce[2];
    uint64_t device;
    uint64_t inode;
    uint64_t pid_ns;
    uint64_t user_ns;
    uint64_t start_time; /* of the process, in clock ticks since boot */
    int32_t pid;
    int32_t fd;
    uint32_t uid;
    uint32_t flags;
    uint32_t local_rank;
    uint32_t cell_count;
    uint32_t jobid; /* whose record this is: PMIx has been seen to mix them up */
    uint32_t vpid;
    uint32_t node;      /* the launcher's number of the node, UINT32_MAX if unknown */
    uint32_t node_name; /* hash of the node's name */
    uint32_t
        single_copy_ns; /* what a single copy costs, as this process has measured it; 0 refused */
    uint32_t padding;
    uint64_t cpus[MCA_BTL_SM_CPU_WORDS];
    char directory[128];
} mca_btl_sm_modex_t;

_Static_assert(128 + 8 * MCA_BTL_SM_CPU_WORDS + 128 == sizeof(mca_btl_sm_modex_t), "no holes");

enum btl_sm_modex_rc {
    BTL_SM_MODEX_OK,
    BTL_SM_MODEX_FOREIGN,  /* no record of this component and version, or of another user */
    BTL_SM_MODEX_STRANGER, /* a sound record, but of another process than the one asked for */
};

/**
 * @brief Take a received record over after checking it.
 * @param[in]  bytes      what arrived, any alignment
 * @param[in]  size       how much
 * @param[in]  uid        effective user of this process
 * @param[in]  jobid,vpid the process that was asked for
 * @param[out] modex      a copy, its text terminated; undefined unless BTL_SM_MODEX_OK
 */
static inline enum btl_sm_modex_rc btl_sm_modex_accept(const void *bytes, size_t size, uint32_t uid,
                                                       uint32_t jobid, uint32_t vpid,
                                                       mca_btl_sm_modex_t *modex)
{
    /* Another component of the same name may run in the peer: its bytes mean something else. */
    if (NULL == bytes || sizeof(*modex) != size) {
        return BTL_SM_MODEX_FOREIGN;
    }
    memcpy(modex, bytes, sizeof(*modex));
    modex->directory[sizeof(modex->directory) - 1] = '\0';
    if (BTL_SM_MAGIC != modex->magic || sizeof(*modex) != modex->size
        || BTL_SM_LAYOUT_VERSION != modex->layout_version || modex->uid != uid
        || modex->cell_count > BTL_SM_MAX_CELLS || modex->segment_size > BTL_SM_MODEX_MAX_SEGMENT
        || modex->segment_size
               < sizeof(struct btl_sm_segment_hdr) + modex->cell_count * sizeof(struct btl_sm_cell)
        || 0 == modex->nonce[0] || 0 >= modex->pid) {
        return BTL_SM_MODEX_FOREIGN;
    }
    return modex->jobid == jobid && modex->vpid == vpid ? BTL_SM_MODEX_OK : BTL_SM_MODEX_STRANGER;
}

/**
 * @brief Is this mapping the segment that the record describes?
 * @param[in]  hdr        mapped, modex->segment_size bytes
 * @param[in]  modex      an accepted record
 * @param[out] local_out  cells of the owner's own job, at most modex->cell_count; the field itself
 *                        is not to be read again
 * @return 1 if it is, else 0
 */
static inline int btl_sm_segment_check(const struct btl_sm_segment_hdr *hdr,
                                       const mca_btl_sm_modex_t *modex, uint32_t *local_out)
{
    const uint32_t local = hdr->local_cells;

    if (BTL_SM_MAGIC != hdr->magic || BTL_SM_LAYOUT_VERSION != hdr->layout_version
        || hdr->nonce[0] != modex->nonce[0] || hdr->nonce[1] != modex->nonce[1]
        || hdr->segment_size != modex->segment_size || sizeof(*hdr) != hdr->hdr_size
        || sizeof(struct btl_sm_cell) != hdr->cell_size || sizeof(*hdr) != hdr->cell_offset
        || hdr->cell_count != modex->cell_count || local > modex->cell_count) {
        return 0;
    }
    *local_out = local;
    return 1;
}

#endif /* MCA_BTL_SM_MODEX_H */

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target: a peer's record for btl/sm made of any bytes, and a segment whose head is any bytes.
 *
 * Must hold: no byte behind the record is read; what is accepted is the asked process's, describes
 * a segment that its cells fit in, and its text ends; a head is accepted only if it is the one that
 * the record describes, and its numbers keep within.
 */
#include "fuzz.h"

#include "btl_sm_modex.h"

/* Names without ambiguity in the middle of the input's words. */
enum { UID = 1000, JOB = 7, RANK = 3 };

static void sound(mca_btl_sm_modex_t *made, uint8_t how)
{
    made->magic = BTL_SM_MAGIC;
    made->layout_version = BTL_SM_LAYOUT_VERSION;
    made->size = sizeof(*made);
    made->uid = UID;
    if (0 != (how & 4)) {
        made->jobid = JOB;
        made->vpid = RANK;
    }
    if (0 != (how & 8)) {
        made->cell_count %= BTL_SM_MAX_CELLS + 2;
        made->segment_size %= UINT64_C(1) << 24;
        made->pid &= INT32_MAX;
    }
}

static void check_head(fuzz_input_t *in, uint8_t how, const mca_btl_sm_modex_t *modex)
{
    struct btl_sm_segment_hdr *hdr = calloc(1, sizeof(*hdr));
    unsigned char *raw = (unsigned char *) hdr;
    uint32_t local = UINT32_MAX;

    if (NULL == hdr) {
        return;
    }
    for (size_t at = 0; 64 > at; at += 8) {
        const uint64_t word = fuzz_word(in);

        memcpy(raw + at, &word, 8);
    }
    if (0 != (how & 16)) {
        hdr->magic = BTL_SM_MAGIC;
        hdr->layout_version = BTL_SM_LAYOUT_VERSION;
        hdr->hdr_size = sizeof(*hdr);
        hdr->cell_size = sizeof(struct btl_sm_cell);
        hdr->cell_offset = sizeof(*hdr);
        memcpy(hdr->nonce, modex->nonce, sizeof(hdr->nonce));
        hdr->segment_size = modex->segment_size;
        hdr->cell_count = modex->cell_count;
        raw[(how >> 5) * 8 + fuzz_byte(in) % 8] ^= (unsigned char) (fuzz_byte(in) % 4);
    }
    if (btl_sm_segment_check(hdr, modex, &local)) {
        fuzz_check(local <= modex->cell_count && hdr->cell_count == modex->cell_count
                       && hdr->nonce[0] == modex->nonce[0] && hdr->nonce[1] == modex->nonce[1]
                       && hdr->segment_size == modex->segment_size,
                   "an accepted head is the record's");
    } else {
        fuzz_check(UINT32_MAX == local, "outputs of a refused head are untouched");
    }
    free(hdr);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fuzz_input_t in = {data, data + len};
    const uint8_t how = fuzz_byte(&in);
    const size_t size = 0 != (how & 1) ? sizeof(mca_btl_sm_modex_t) : fuzz_word(&in) % 512;
    mca_btl_sm_modex_t made, modex;
    enum btl_sm_modex_rc rc;
    unsigned char *bytes = malloc(0 < size ? size : 1); /* its end is seen by a sanitizer */

    if (NULL == bytes) {
        return 0;
    }
    memset(&made, 'x', sizeof(made)); /* text without an end */
    for (size_t at = 0; 128 > at; at += 8) {
        const uint64_t word = fuzz_word(&in);

        memcpy((char *) &made + at, &word, 8);
    }
    if (0 != (how & 2)) {
        sound(&made, how);
    }
    memset(bytes, how, size);
    memcpy(bytes, &made, size < sizeof(made) ? size : sizeof(made));
    rc = btl_sm_modex_accept(bytes, size, UID, JOB, RANK, &modex);
    free(bytes);
    if (BTL_SM_MODEX_OK == rc) {
        fuzz_check(sizeof(modex) == size && UID == modex.uid && JOB == modex.jobid
                       && RANK == modex.vpid && 0 < modex.pid && 0 != modex.nonce[0],
                   "an accepted record is the asked process's");
        fuzz_check(modex.cell_count <= BTL_SM_MAX_CELLS
                       && modex.cell_count
                              <= (modex.segment_size - sizeof(struct btl_sm_segment_hdr))
                                     / sizeof(struct btl_sm_cell)
                       && modex.segment_size >= sizeof(struct btl_sm_segment_hdr),
                   "its cells lie in its segment");
        fuzz_check(NULL != memchr(modex.directory, '\0', sizeof(modex.directory)), "its text ends");
        check_head(&in, how, &modex);
    } else if (BTL_SM_MODEX_STRANGER == rc) {
        fuzz_check(JOB != made.jobid || RANK != made.vpid, "a stranger has another name");
    }
    return 0;
}

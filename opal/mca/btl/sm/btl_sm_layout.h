/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Everything of the transport that lies in memory shared by processes.
 *
 * Layer 0. Fixed-width types, explicit padding, no pointers, no enum fields, no bool; the size and
 * the place of each field that another process touches is asserted. A change here raises
 * BTL_SM_LAYOUT_VERSION; a peer with another version is declined at attach.
 *
 * One segment per process. From its start:
 *
 *     struct btl_sm_segment_hdr   identity, life cycle, doorbells
 *     struct btl_sm_cell [n]      one per peer: our fast box towards it, its board of transfers;
 *                                 first the own job's, then those for peers of other jobs, whose
 *                                 memory is only there once `cells_ready` says so
 *     fast boxes                  handed out by the owner, at most one at a time per cell
 *
 * Only the owner gives out memory of its segment. Offsets read from a peer's segment are checked by
 * btl_sm_ref.h before use.
 */
#ifndef MCA_BTL_SM_LAYOUT_H
#define MCA_BTL_SM_LAYOUT_H

#include "btl_sm_atomic.h"

#define BTL_SM_MAGIC          UINT64_C(0x534d584254503031)
#define BTL_SM_LAYOUT_VERSION 4u

/** Doorbell bits of a segment: one per cell. The number after the last cell of the own job is that of
 *  no cell; its bit is the bell of the visitors' book. */
#define BTL_SM_DOOR_WORDS 32
/** Most cells of a segment. */
#define BTL_SM_MAX_CELLS (64 * BTL_SM_DOOR_WORDS - 1)
/** Most cells for peers of other jobs (spawned, connected), after the ones of the own job. */
#define BTL_SM_FOREIGN_CELLS 512
/** Cells of these that get memory at a time. */
#define BTL_SM_FOREIGN_STEP 64
/** Places in the visitors' book, see btl_sm_visit.h. */
#define BTL_SM_VISITORS 64
/** Names of visitors that could not be added, the latest ones. */
#define BTL_SM_REFUSALS 16

/** Life cycle of a segment's owner (field `state`). */
#define BTL_SM_STATE_LIVE 1u /* in use */
#define BTL_SM_STATE_LEFT 2u /* finalized: silence is no fault, nothing more will come */

/**
 * Head of a segment.
 *
 * | field | line | written by | read by | kind | edge |
 * |---|---|---|---|---|---|
 * | magic ... local_cells | 0-1 | owner, before the modex | peers, at attach | plain | the modex |
 * | sleeping | 2 | owner, around a wait | peers, after a publish | atomic | SLEEP (fence) |
 * | state | 2 | owner, at start and end | peers, when they miss it | atomic | STATE |
 * | cells_ready | 2 | owner | peers of other jobs, to find their cell | atomic | CELL |
 * | door | 4.. | peers set, owner takes | owner | atomic | DOORBELL |
 * | help | .. | initiators set, owner takes | owner | atomic | BOARD_POST |
 * | readers | .. | single-copy initiators | single-copy initiators | atomic | none (a count) |
 * | visitors | .. | peers of other jobs enter, owner takes | owner | atomic | DOORBELL |
 * | refused | .. | owner | peers of other jobs, while they wait for a cell | atomic | none (a name) |
 */
struct btl_sm_segment_hdr {
    uint64_t magic;
    uint32_t layout_version;
    uint32_t hdr_size;
    uint64_t segment_size; /* bytes that peers map */
    uint64_t nonce[2];     /* random; also in the modex: proves that this is the right segment */
    uint32_t cell_count;
    uint32_t cell_size;
    uint64_t cell_offset;
    uint32_t pid;         /* in the owner's pid namespace; for messages only */
    uint32_t local_cells; /* cells [0, local_cells) belong to the owner's job, by local rank */
    uint8_t pad0[BTL_SM_LINE_PAIR - 64];

    btl_sm_atomic32_t sleeping; /* futex word: 1 while the owner sleeps or is about to */
    btl_sm_atomic32_t state;
    btl_sm_atomic32_t cells_ready; /* cells whose memory is there, >= local_cells */
    uint8_t pad1[BTL_SM_LINE_PAIR - 12];

    btl_sm_atomic64_t door[BTL_SM_DOOR_WORDS];
    btl_sm_atomic64_t help[BTL_SM_DOOR_WORDS];
    btl_sm_atomic64_t readers[BTL_SM_DOOR_WORDS];
    btl_sm_atomic64_t visitors[BTL_SM_VISITORS];
    btl_sm_atomic64_t refused[BTL_SM_REFUSALS];
    uint8_t pad2[4096 - 2 * BTL_SM_LINE_PAIR - 3 * 8 * BTL_SM_DOOR_WORDS - 8 * BTL_SM_VISITORS
                 - 8 * BTL_SM_REFUSALS];
};

_Static_assert(4096 == sizeof(struct btl_sm_segment_hdr), "header is one small page");
_Static_assert(128 == offsetof(struct btl_sm_segment_hdr, sleeping), "line pair 1");
_Static_assert(256 == offsetof(struct btl_sm_segment_hdr, door), "line pair 2");
_Static_assert(0 == (8 * BTL_SM_DOOR_WORDS) % BTL_SM_LINE_PAIR, "doorbells do not share lines");

/**
 * Board of one ordered pair: the initiator of a get or put describes the transfer, then both
 * processes claim pages of it. Lies in the segment of the process that is asked to help.
 *
 * | field | line | written by | read by | kind | edge |
 * |---|---|---|---|---|---|
 * | generation ... handle | 0-5 | initiator, between transfers | helper | generation atomic | BOARD_POST |
 * | claim | own pair | both, by compare and swap | both | atomic | none |
 * | done, failed | own pair | helper | initiator | atomic | BOARD_DONE |
 *
 * Words that pack {generation, pages} use btl_sm_coop_pack().
 */
#define BTL_SM_HANDLE_MAX 256 /* bytes of registration data, as MCA_BTL_REG_HANDLE_MAX_SIZE */

struct btl_sm_board {
    /* All words are atomics, because a helper may read them while the next transfer is being
     * described; it then notices by its claim and throws away what it read. */
    btl_sm_atomic64_t generation;     /* 0 = never used */
    btl_sm_atomic64_t helper_addr;    /* the helper's own memory */
    btl_sm_atomic64_t initiator_addr; /* the initiator's memory */
    btl_sm_atomic64_t length;         /* bytes */
    btl_sm_atomic64_t op;             /* BTL_SM_BOARD_* */
    btl_sm_atomic64_t chunk;          /* most bytes of one claim */
    btl_sm_atomic64_t handle_size;    /* bytes of the initiator's registration in handle[] */
    btl_sm_atomic64_t stop;           /* where a stream may end early, see btl_sm_stop_pack() */
    uint8_t pad0[BTL_SM_LINE_PAIR - 64];
    btl_sm_atomic64_t handle[BTL_SM_HANDLE_MAX / 8];

    btl_sm_atomic64_t claim;
    uint8_t pad1[BTL_SM_LINE_PAIR - 8];

    btl_sm_atomic64_t done;         /* {generation, pages copied} */
    btl_sm_atomic64_t failed;       /* {generation, pages} of the one claim the helper gave back */
    btl_sm_atomic64_t failed_first; /* first page of that claim */
    uint8_t pad2[BTL_SM_LINE_PAIR - 24];
};

/**
 * Where the owner of bytes may stop streaming them, because the asker has copied the rest itself:
 * the asker's running number of the stream (low 24 bits) and pages from the start of the range.
 * Numbers of one pair grow, and only the oldest stream is stopped, so a number that is behind the
 * one in the word belongs to a stream that is over.
 */
#define BTL_SM_STOP_PAGES_BITS 40
/** Set in every word that was packed: number 0 (mod 2^24) with no pages must not look unwritten. */
#define BTL_SM_STOP_SET (UINT64_C(1) << 39)
static inline uint64_t btl_sm_stop_pack(uint64_t number, uint64_t pages)
{
    return (number << BTL_SM_STOP_PAGES_BITS) | BTL_SM_STOP_SET | pages;
}
/** Bytes of stream `number` that are still wanted, going by the word `stop`. */
static inline uint64_t btl_sm_stop_limit(uint64_t stop, uint64_t number)
{
    uint32_t ahead = (uint32_t) (stop >> BTL_SM_STOP_PAGES_BITS) - (uint32_t) number;
    int32_t behind = (int32_t) (ahead << 8); /* the sign of a difference of 24 bits */

    if (0 == stop || behind < 0) {
        return UINT64_MAX;
    }
    return behind > 0 ? 0 : (stop & (BTL_SM_STOP_SET - 1)) * 4096;
}

/**
 * The number for a new stop word (with no pages) that takes the place of one grown old, or 0 if none is
 * needed yet. `last` is the number in the word, 0 if there is none; `number` a stream that is over now.
 * Streams under way at a time are far fewer than 2^20, so those up to the new number are over, too.
 */
static inline uint64_t btl_sm_stop_renew(uint64_t last, uint64_t number)
{
    return 0 != last && number > last && number - last > (UINT64_C(1) << 22)
               ? number - (UINT64_C(1) << 20)
               : 0;
}

#define BTL_SM_BOARD_GET 1u /* bytes move from the helper to the initiator */
#define BTL_SM_BOARD_PUT 2u /* bytes move from the initiator to the helper */

_Static_assert(128 + 256 + 128 + 128 == sizeof(struct btl_sm_board), "board");
_Static_assert(384 == offsetof(struct btl_sm_board, claim), "claim has a pair of its own");
_Static_assert(512 == offsetof(struct btl_sm_board, done), "the helper has a pair of its own");

/** In place of a nonce, which is odd: the peer's segment cannot be mapped. */
#define BTL_SM_PEER_REFUSED UINT64_C(2)

/**
 * Cell of one peer in the segment of its owner.
 *
 * | field | line | written by | read by | kind | edge |
 * |---|---|---|---|---|---|
 * | peer_nonce | 0-1 | owner, when it adds the peer | peer, when it adds the owner | atomic | CELL |
 * | box | 0-1 | owner, with its first message | peer, after the doorbell | atomic | CELL |
 * | tail | 2-3 | peer, in release | owner | atomic | FBOX_SPACE |
 * | board | .. | see there | | | |
 */
struct btl_sm_cell {
    btl_sm_atomic64_t peer_nonce; /* nonce[0] of the peer's segment, 0 = free or not tried yet */
    btl_sm_atomic64_t box;        /* packed reference of the first fast box, 0 = none yet */
    uint8_t pad0[BTL_SM_LINE_PAIR - 16];
    btl_sm_atomic64_t tail; /* running count of bytes that the peer has given back */
    uint8_t pad1[BTL_SM_LINE_PAIR - 8];
    struct btl_sm_board board;
};

_Static_assert(256 + sizeof(struct btl_sm_board) == sizeof(struct btl_sm_cell), "cell");
_Static_assert(128 == offsetof(struct btl_sm_cell, tail), "the peer has a pair of its own");

/** Header word of one record in a fast box. 0 = nothing there yet. */
#define BTL_SM_REC_LEN_BITS 32
#define BTL_SM_REC_SKIP     1u /* nothing: go on at the start of the box */
#define BTL_SM_REC_DATA     2u /* a whole message for an upper layer */
#define BTL_SM_REC_PART     3u /* a piece of a message that does not fit in one record */
#define BTL_SM_REC_LAST     4u /* the last such piece */
#define BTL_SM_REC_SWITCH   5u /* go on in another fast box (payload: struct btl_sm_rec_switch) */
#define BTL_SM_REC_PULL     6u /* please stream a range of your memory to me */
#define BTL_SM_REC_STREAM   7u /* a piece of such a range */
#define BTL_SM_REC_PUSH     8u /* a piece of memory to be written at the given address */
#define BTL_SM_REC_PUSHED   9u /* all pieces up to here are written (answer to the last PUSH) */
#define BTL_SM_REC_KINDS    10u

static inline uint64_t btl_sm_rec_make(uint32_t len, uint32_t kind, uint32_t tag, uint16_t seq)
{
    return (uint64_t) len | ((uint64_t) (tag & 0xff) << 32) | ((uint64_t) (kind & 0xff) << 40)
           | ((uint64_t) seq << 48);
}
static inline uint32_t btl_sm_rec_len(uint64_t rec)
{
    return (uint32_t) rec;
}
static inline uint32_t btl_sm_rec_tag(uint64_t rec)
{
    return (uint32_t) (rec >> 32) & 0xff;
}
static inline uint32_t btl_sm_rec_kind(uint64_t rec)
{
    return (uint32_t) (rec >> 40) & 0xff;
}
static inline uint16_t btl_sm_rec_seq(uint64_t rec)
{
    return (uint16_t) (rec >> 48);
}

/** Payload of BTL_SM_REC_SWITCH. */
struct btl_sm_rec_switch {
    uint64_t box; /* packed reference, as in btl_sm_cell.box */
};

/** Payload of BTL_SM_REC_PULL: `id` and `check` come back with each piece. */
struct btl_sm_rec_pull {
    uint64_t id;
    uint64_t address; /* in the receiver of this record */
    uint64_t length;  /* bytes, > 0 */
};

/** Head of BTL_SM_REC_STREAM and BTL_SM_REC_PUSH; the bytes follow. */
struct btl_sm_rec_piece {
    uint64_t id;
    uint64_t address; /* STREAM: offset within the range; PUSH: address in the receiver */
    uint64_t remain;  /* bytes of the range that follow after this piece */
};

_Static_assert(24 == sizeof(struct btl_sm_rec_pull), "no padding");
_Static_assert(24 == sizeof(struct btl_sm_rec_piece), "no padding");

#endif /* MCA_BTL_SM_LAYOUT_H */

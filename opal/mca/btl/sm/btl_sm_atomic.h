/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Atomic accesses of the shared-memory transport and the names of their ordering edges.
 *
 * Layer 0: C11 and libc only. Every other L0 header includes this one; no other file of the
 * component names <stdatomic.h>. Each acquire and each release carries the name of the edge it
 * belongs to, so that contrib/lint/check_edges.py can pair them, the table in README.md can explain
 * them and test/model can weaken exactly one of them (an "order mutant").
 *
 * There are no standalone fences in the protocols but one: BTL_SM_EDGE_SLEEP is a store/load
 * (Dekker) pair and needs a full fence on both sides; see btl_sm_wake.h.
 */
#ifndef MCA_BTL_SM_ATOMIC_H
#define MCA_BTL_SM_ATOMIC_H

#include <stddef.h>
#include <stdint.h>

/*
 * Edges. Data edges carry bytes from the writer to the reader; space edges give bytes back, which
 * makes the reader's loads happen before the next writer's stores.
 *
 * A build with -DBTL_SM_MUTANT=BTL_SM_EDGE_x weakens the edge x to relaxed on both ends.
 */
#define BTL_SM_EDGE_FBOX_DATA  1 /* fast box: header word, producer to consumer */
#define BTL_SM_EDGE_FBOX_SPACE 2 /* fast box: tail, consumer to producer */
#define BTL_SM_EDGE_CELL       3 /* cell: first fast box of a pair handed out */
#define BTL_SM_EDGE_DOORBELL   4 /* doorbell bit: "look at my cell" */
#define BTL_SM_EDGE_BOARD_POST 5 /* board: description of one transfer, initiator to helper */
#define BTL_SM_EDGE_BOARD_DONE 6 /* board: pages copied by the helper, helper to initiator */
#define BTL_SM_EDGE_STATE      7 /* segment: life-cycle word of the owner */
#define BTL_SM_EDGE_PROGRESS   8 /* progress flag: the next poller sees what the last one did */

#if defined(BTL_SM_MODEL)

/* test/model supplies the types and the four verbs on top of its memory-model explorer. */
#    include "btl_sm_model_atomic.h"

#else

#    include <stdatomic.h>

typedef _Atomic uint64_t btl_sm_atomic64_t;
typedef _Atomic uint32_t btl_sm_atomic32_t;

/* Sharing between processes at different addresses needs lock-free (hence address-free) objects. */
_Static_assert(2 == ATOMIC_LLONG_LOCK_FREE && 2 == ATOMIC_INT_LOCK_FREE,
               "64-bit and 32-bit atomics must be lock-free");
_Static_assert(8 == sizeof(btl_sm_atomic64_t) && 4 == sizeof(btl_sm_atomic32_t),
               "atomics must have the size of the plain type");

#    if defined(BTL_SM_MUTANT)
#        define BTL_SM_ORDER(edge, order) \
            ((BTL_SM_MUTANT) == (edge) ? memory_order_relaxed : (order))
#    else
#        define BTL_SM_ORDER(edge, order) (order)
#    endif

/** Load without ordering: private hints, own counters, words that are re-read under an edge. */
#    define btl_sm_load_relaxed(p)     atomic_load_explicit((p), memory_order_relaxed)
/** Store without ordering: words that a later release of the same thread publishes. */
#    define btl_sm_store_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
/** Acquire end of `edge`. */
#    define btl_sm_load_acquire(edge, p) \
        atomic_load_explicit((p), BTL_SM_ORDER(edge, memory_order_acquire))
/** Release end of `edge`. */
#    define btl_sm_store_release(edge, p, v) \
        atomic_store_explicit((p), (v), BTL_SM_ORDER(edge, memory_order_release))
/** Set bits; release end of `edge`. Returns the old value. */
#    define btl_sm_fetch_or_release(edge, p, v) \
        atomic_fetch_or_explicit((p), (v), BTL_SM_ORDER(edge, memory_order_release))
/** Take all bits; acquire end of `edge`. Returns the old value. */
#    define btl_sm_exchange_acquire(edge, p, v) \
        atomic_exchange_explicit((p), (v), BTL_SM_ORDER(edge, memory_order_acquire))
/** Clear bits without ordering. Returns the old value. */
#    define btl_sm_fetch_and_relaxed(p, v) atomic_fetch_and_explicit((p), (v), memory_order_relaxed)
/** Set bits without ordering. Returns the old value. */
#    define btl_sm_fetch_or_relaxed(p, v)  atomic_fetch_or_explicit((p), (v), memory_order_relaxed)
/** Add without ordering: statistics and counts that nothing is published by. */
#    define btl_sm_fetch_add_relaxed(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
/** Compare and swap without ordering: words that nothing is published by. On failure `expected`
 *  holds the value found. */
#    define btl_sm_cas_relaxed(p, expected, desired)                                              \
        atomic_compare_exchange_strong_explicit((p), (expected), (desired), memory_order_relaxed, \
                                                memory_order_relaxed)
/** The one full fence: between "published" and "is the peer asleep?" and its mirror image. */
#    define btl_sm_fence_sleep()    atomic_thread_fence(memory_order_seq_cst)
/** The same where another process has the kernel run the fence: only the compiler is told. */
#    define btl_sm_fence_compiler() atomic_signal_fence(memory_order_seq_cst)

#endif /* BTL_SM_MODEL */

/** Distance in bytes that keeps what two processes write apart: a pair of 64-byte lines, because
 *  adjacent lines are fetched together by the prefetchers of current x86 and some arm64 cores. */
#define BTL_SM_LINE_PAIR 128
/** Unit of a cache line, in bytes. */
#define BTL_SM_LINE 64

/** Tell the core that this is a waiting loop. */
static inline void btl_sm_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#elif defined(__powerpc64__)
    __asm__ __volatile__("or 27,27,27" ::: "memory");
#else
    __asm__ __volatile__("" ::: "memory");
#endif
}

/**
 * @brief Push a line that was just written towards the shared cache level.
 *
 * A hint; encoded in the NOP space, so that x86 cores without it ignore it. Worth 25-30 % of a
 * 128-512 B transfer on cores that have it (shared/limits/ringlat measured on Sapphire Rapids).
 */
static inline void btl_sm_line_demote(const void *line)
{
#if defined(__x86_64__)
    __asm__ __volatile__(".byte 0x0f, 0x1c, 0x00" : : "a"(line) : "memory"); /* cldemote (%rax) */
#else
    (void) line;
#endif
}

/**
 * @brief Start to get a line for writing that will be written soon.
 *
 * A hint. Spelt out because compilers turn a prefetch for writing into one for reading unless told
 * otherwise; prefetchw is a NOP on the x86-64 cores that lack it.
 */
static inline void btl_sm_line_claim(const void *line)
{
#if defined(__x86_64__)
    __asm__ __volatile__("prefetchw (%0)" : : "r"(line));
#else
    __builtin_prefetch(line, 1);
#endif
}

#endif /* MCA_BTL_SM_ATOMIC_H */

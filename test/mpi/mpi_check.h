/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * What every MPI-level test program shares: start and end, TAP lines that speak for all ranks,
 * a watchdog, patterns that name their message, guard bytes, datatypes with a known layout,
 * and the protocol limits that the library under test tells about itself.
 *
 * Layer: test, MPI programs only. It includes mpi.h and the C library, never a project header,
 * so that the same binaries judge the components that Open MPI carries itself.
 * It never decides what is right by asking the library under test: expected bytes come from the
 * pattern function, expected layouts from the segment lists built here.
 */
#ifndef SMX_TEST_MPI_CHECK_H
#define SMX_TEST_MPI_CHECK_H

#include <mpi.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** Partitioned messages and persistent collectives: Open MPI 5 has them while it says 3.1. */
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#    define CHK_MPI4 1
#else
#    define CHK_MPI4 0
#endif

/** Guard bytes on each side of an armed buffer; more than any cache line or vector store. */
#define CHK_GUARD 192

/** Bytes that nobody may write, and bytes that must be overwritten. */
#define CHK_GUARD_BYTE  0x5c
#define CHK_POISON_BYTE 0xa7

#define CHK_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/** Call an MPI function; an error code is a failed test that names the call and ends the job. */
#define CHK(call)                                              \
    do {                                                       \
        int chk_rc_ = (call);                                  \
        if (MPI_SUCCESS != chk_rc_) {                          \
            chk_mpi_error(#call, chk_rc_, __FILE__, __LINE__); \
        }                                                      \
    } while (0)

extern int chk_rank;      /**< rank in MPI_COMM_WORLD */
extern int chk_np;        /**< size of MPI_COMM_WORLD */
extern bool chk_long;     /**< effort: false quick, true long */
extern uint64_t chk_seed; /**< the same on all ranks; printed, settable by --seed=N */

/* ---- start, end, results --------------------------------------------------------------- */

/**
 * @brief Start MPI and the test: options, watchdog, seed, error handler.
 *
 * Understands --level=quick|long (or SMX_LEVEL), --seed=N (or SMX_SEED), --watchdog=SECONDS and
 * keeps all other --name=value arguments for chk_opt().
 * @param required thread level asked from MPI_Init_thread; less than that skips the program.
 *                 --multiple raises it to MPI_THREAD_MULTIPLE.
 */
void chk_init(int argc, char **argv, int required);

/** @brief As chk_init() for a program that calls MPI_Init itself, later. Parses options only. */
void chk_options(int argc, char **argv);

/** @brief The part of chk_init() that comes after MPI_Init. */
void chk_started(void);

/**
 * @brief Print the plan, check the counters that --expect-pvar names, finalize MPI.
 * @return exit status of the program: 0 when all ranks saw only passes
 */
int chk_done(void);

/** @brief As chk_done() without the MPI_Finalize (the caller does or leaves it). */
int chk_report(void);

/** @brief Print a skip plan on rank 0 and leave with status 77 on all ranks. Collective. */
void chk_skip_all(const char *reason);

/** @brief Value of option --name=value, or dflt. */
const char *chk_opt(const char *name, const char *dflt);

/** @brief Number given as --name=value with k, m, g suffix (powers of 1024), or dflt. */
uint64_t chk_opt_u64(const char *name, uint64_t dflt);

/** @brief Note a failure on this rank; prints one line, at most 20 lines per process. */
void chk_fail(const char *fmt, ...) CHK_PRINTF(1, 2);

/** @brief Diagnostic line on rank 0. */
void chk_diag(const char *fmt, ...) CHK_PRINTF(1, 2);

/** @brief Name what is being done now, for the watchdog's report. */
void chk_phase(const char *fmt, ...) CHK_PRINTF(1, 2);

/**
 * @brief One TAP line for everything since the last one, all ranks together. Collective over
 * MPI_COMM_WORLD (uses a communicator of its own).
 */
void chk_result(const char *fmt, ...) CHK_PRINTF(1, 2);

/**
 * @brief A TAP line for a fault that is known to lie in another layer than the one under test: found
 * is how often this rank saw it. The line is marked TODO when any rank did. Collective.
 */
void chk_todo(const char *name, uint64_t found, const char *reason);

/** @brief As chk_result() for a check that this library cannot do here. Rank 0 prints. */
void chk_skip(const char *name, const char *reason);

/** @brief Failures noted on this rank so far; thread-safe. */
uint64_t chk_failures(void);

void chk_mpi_error(const char *call, int rc, const char *file, int line) __attribute__((noreturn));

/** @brief Set the watchdog anew, in seconds from now; 0 switches it off. */
void chk_watchdog(unsigned seconds);

/** @brief From here on to be ended by the launcher is expected: no stack is printed for SIGTERM. */
void chk_expect_end(void);

double chk_now(void); /**< seconds, monotonic */
void chk_sleep_ms(unsigned ms);

/* ---- random numbers -------------------------------------------------------------------- */

typedef struct chk_rng_t {
    uint64_t s;
} chk_rng_t;

/** @brief A generator for one purpose, reproducible from the seed and three numbers. */
chk_rng_t chk_rng(uint64_t a, uint64_t b, uint64_t c);
uint64_t chk_next(chk_rng_t *rng);
/** @brief Uniform in [0, n), n > 0. */
uint64_t chk_below(chk_rng_t *rng, uint64_t n);
/** @brief A size in [0, max], each power of two equally likely, limits +-1 preferred. */
size_t chk_rand_size(chk_rng_t *rng, size_t max);

/* ---- messages and patterns ------------------------------------------------------------- */

/** What a message is, for its pattern and for the failure line. */
typedef struct chk_msg_t {
    int src; /**< sending rank (of MPI_COMM_WORLD) */
    int tag;
    uint64_t seq; /**< number within (src, tag) or any other that both sides know */
    size_t size;  /**< bytes */
} chk_msg_t;

/** @brief Write bytes [off, off + len) of the message's pattern to p. */
void chk_fill(const chk_msg_t *m, size_t off, void *p, size_t len);

/** @brief Compare; a difference is reported with rank, peer, size, offset, expected and got. */
bool chk_verify(const chk_msg_t *m, size_t off, const void *p, size_t len);

/** @brief One byte of the pattern. */
unsigned char chk_byte(const chk_msg_t *m, size_t off);

/** @brief Poison [p, p + len) and write guards on both sides (CHK_GUARD bytes must be there). */
void chk_arm(void *p, size_t len);

/** @brief Check the guards written by chk_arm(). */
bool chk_guards(const chk_msg_t *m, const void *p, size_t len);

/** @brief As chk_guards() without a failure. */
bool chk_guards_quiet(const void *p, size_t len);

/** @brief Guards, the first got bytes against the pattern, the rest still poison. */
bool chk_received(const chk_msg_t *m, const void *p, size_t cap, size_t got);

/** @brief Check source, tag and byte count of a status; bytes SIZE_MAX = do not look. */
bool chk_status(const chk_msg_t *m, const MPI_Status *st, size_t bytes);

/* ---- memory ---------------------------------------------------------------------------- */

/** A buffer with guard room around it; from memfd when SMX_TEST_MEMFD=1, else anonymous. */
typedef struct chk_buf_t {
    unsigned char *map;
    size_t map_len;
    unsigned char *p; /**< page-aligned, CHK_GUARD + 4096 bytes are usable before and after */
    size_t cap;
    int fd;
} chk_buf_t;

chk_buf_t chk_buf_new(size_t cap);
void chk_buf_free(chk_buf_t *buf);

/** @brief Memory whose byte p[len] cannot be touched: the end lies on a PROT_NONE page. */
void *chk_edge_new(size_t len);
void chk_edge_free(void *p, size_t len);

/* ---- sizes ----------------------------------------------------------------------------- */

/** @brief Read an integer control variable of the library; false when there is none. */
bool chk_cvar(const char *name, uint64_t *value_out);

/** @brief A performance variable of this rank, counted from the first reading on; false when there
 *  is none. */
bool chk_pvar(const char *name, uint64_t *value_out);

/** @brief Sum over all ranks of a performance variable; false when there is none. Collective. */
bool chk_pvar_sum(const char *name, uint64_t *sum_out);

/**
 * @brief Sizes -1/0/+1 around every protocol limit not above max: those that the library tells,
 * those given by --limits=a,b,c and the usual powers of two. Sorted, unique, same on all ranks.
 * @return array that lives until the program ends
 */
const size_t *chk_sizes(size_t max, size_t *n_out);

/* ---- datatypes with known layout -------------------------------------------------------- */

typedef struct chk_seg_t {
    ptrdiff_t disp; /**< from the address given to MPI */
    size_t len;
} chk_seg_t;

/** A datatype, a count, and independently of MPI the bytes it names, in order. */
typedef struct chk_layout_t {
    char name[64];
    MPI_Datatype type;
    int count;
    chk_seg_t *seg;
    size_t nseg;
    size_t total; /**< bytes of data */
    ptrdiff_t lo; /**< lowest byte named */
    ptrdiff_t hi; /**< one past the highest */
    bool predefined;
} chk_layout_t;

chk_layout_t chk_layout_bytes(size_t n);
/** @brief MPI_BYTE vector: as many blocks of block bytes as total needs, then the rest. */
chk_layout_t chk_layout_vector(size_t total, size_t block, size_t stride);
/** @brief nblocks blocks, random gaps, in random order of address when shuffled. */
chk_layout_t chk_layout_indexed(chk_rng_t *rng, size_t total, size_t nblocks, bool shuffled);
/** @brief Struct of a char, a double, an int and bytes, with the padding of a compiler. */
chk_layout_t chk_layout_struct(size_t count);
/** @brief Blocks in a resized type, lower bound below zero, extent above the data. */
chk_layout_t chk_layout_resized(size_t count, size_t block, size_t gap);
/** @brief Any of the above with this many bytes. */
chk_layout_t chk_layout_random(chk_rng_t *rng, size_t total);
void chk_layout_free(chk_layout_t *l);
/** @brief Address for MPI so that the lowest byte falls on p. */
void *chk_layout_base(const chk_layout_t *l, void *p);
/** @brief Bytes from lowest to highest. */
size_t chk_layout_span(const chk_layout_t *l);
/** @brief Write the message's bytes where the layout has them, p as for chk_layout_base(). */
void chk_layout_fill(const chk_layout_t *l, void *p, const chk_msg_t *m);
/** @brief First got bytes arrived, everything else in the armed span and guards untouched. */
bool chk_layout_verify(const chk_layout_t *l, const void *p, const chk_msg_t *m, size_t got);

/* ---- process --------------------------------------------------------------------------- */

size_t chk_rss_kib(void);
unsigned chk_open_fds(void);
unsigned chk_count_files(const char *dir);

#endif /* SMX_TEST_MPI_CHECK_H */

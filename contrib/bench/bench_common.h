/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What every timed program of contrib/bench needs and no MPI: clock, pinning, log-scaled
 * histogram, JSON lines, message sizes, user buffers, payload patterns, noise record and the list
 * of component files mapped into this process.
 *
 * Layer: pure C11 + Linux; knows neither MPI nor Open MPI's internals.
 * Called by bench_mpi_*.c, bench_floor.c and the application patterns.
 * Must never: allocate, print or read /proc inside a timed section.
 */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* ---------------------------------------------------------------- clock */

/** What reading the clock costs on this machine; a timed interval must be long against it. */
typedef struct {
    double read_ns;       /**< median cost of one reading */
    double resolution_ns; /**< smallest positive difference seen between two readings */
} bench_clock_t;

/**
 * @brief Read CLOCK_MONOTONIC_RAW: not slewed by time synchronisation.
 * @return nanoseconds since an arbitrary start
 */
static inline uint64_t bench_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

/**
 * @brief Measure the clock itself (about 1 ms).
 * @param[out] out cost and resolution
 */
void bench_clock_measure(bench_clock_t *out);

/* -------------------------------------------------------------- pinning */

/**
 * @brief Pin the calling thread to the index-th core that it may use, counted modulo their number.
 * @param[in] index  usually the rank's number on this node; negative: do not pin
 * @return the core's number, or -1 if not pinned
 */
int bench_pin(int index);

/** @return number of cores that this process was allowed to use when first asked */
int bench_core_count(void);

/** @return rank on this node as the launcher's environment tells it, or -1 if it does not */
int bench_env_local_rank(void);

/* ------------------------------------------------------------ histogram */

/** 256 steps per octave: a bucket is at most 0.4 % wide, interpolation inside it does the rest. */
#define BENCH_HIST_SUB_LOG2 8
#define BENCH_HIST_BUCKETS  ((64 - BENCH_HIST_SUB_LOG2 + 1) << BENCH_HIST_SUB_LOG2)

/** Log-scaled histogram of times in picoseconds. */
typedef struct {
    uint64_t count;
    uint64_t min_ps;
    uint64_t max_ps;
    double sum_ps;
    uint64_t bucket[BENCH_HIST_BUCKETS];
} bench_hist_t;

/** @brief Empty a histogram. */
void bench_hist_reset(bench_hist_t *h);

/** @brief Add one value. @param[in] ps picoseconds. Cost: two cache lines, no branch miss. */
void bench_hist_add(bench_hist_t *h, uint64_t ps);

/**
 * @brief Value below which a share p of the samples lies, interpolated inside its bucket.
 * @param[in] p 0..1
 * @return picoseconds, within [min, max]; 0 if the histogram is empty
 */
double bench_hist_quantile(const bench_hist_t *h, double p);

/* ----------------------------------------------------------------- JSON */

/** Writer of one JSON value per line; only what the records need. */
typedef struct {
    FILE *f;
    int depth;
    bool comma[8];
} bench_json_t;

void bench_json_begin(bench_json_t *j, FILE *f);
/** @brief Close all open objects and end the line. */
void bench_json_end(bench_json_t *j);
void bench_json_object(bench_json_t *j, const char *key);
void bench_json_array(bench_json_t *j, const char *key);
void bench_json_close(bench_json_t *j, char bracket);
void bench_json_str(bench_json_t *j, const char *key, const char *value);
void bench_json_int(bench_json_t *j, const char *key, long long value);
void bench_json_num(bench_json_t *j, const char *key, double value);
void bench_json_bool(bench_json_t *j, const char *key, bool value);

/* ---------------------------------------------------------------- sizes */

/**
 * @brief Parse a list of message sizes.
 *
 * Comma-separated items: `N`; `A-B` powers of two from A to B; `A-B/8` that many steps per octave;
 * `A~D` the three sizes A-D, A, A+D. Suffixes K, M, G are powers of 1024.
 *
 * @param[in]  text   the list
 * @param[out] out    ascending, no duplicates; malloc'ed, the caller frees
 * @param[out] count  number of sizes
 * @return NULL, or a static text that says what is wrong
 */
const char *bench_sizes_parse(const char *text, size_t **out, size_t *count);

/** @brief Parse one number with an optional K, M, G suffix. @return false if it is not one */
bool bench_size_parse(const char *text, size_t *out);

/* -------------------------------------------------------------- buffers */

/** User memory for messages: one place, or several that take turns so that caches stay cold. */
typedef struct {
    char *base;
    size_t bytes;  /**< usable bytes */
    size_t stride; /**< distance of two places for the current size */
    size_t places; /**< how many places the current size has */
    size_t next;   /**< next place */
    char *map;
    size_t map_bytes;
} bench_buf_t;

/**
 * @brief Map and touch memory for messages.
 * @param[in] bytes  at least one message
 * @param[in] huge   ask for transparent huge pages; otherwise forbid them
 * @return 0, or an errno
 */
int bench_buf_open(bench_buf_t *b, size_t bytes, bool huge);
void bench_buf_close(bench_buf_t *b);

/** @brief Set the message size. @param[in] rotate false: the same place each time */
void bench_buf_shape(bench_buf_t *b, size_t size, bool rotate);

/** @return the place for the next message */
static inline char *bench_buf_next(bench_buf_t *b)
{
    char *p = b->base + b->next * b->stride;
    b->next = (b->next + 1 < b->places) ? b->next + 1 : 0;
    return p;
}

/** @return kB of the mapping that sit on huge pages now (from smaps), or -1 if unknown */
long bench_buf_huge_kB(const bench_buf_t *b);

/* -------------------------------------------------------------- payload */

/** @brief Fill with a sequence that depends on seed and position. */
void bench_fill(void *buf, size_t len, uint64_t seed);

/** @return position of the first wrong byte, or SIZE_MAX if all len bytes are right */
size_t bench_check(const void *buf, size_t len, uint64_t seed);

/* ---------------------------------------------------------------- noise */

/** What disturbed this process between two points of time. */
typedef struct {
    double wall_s;
    double cpu_s; /**< processor time of the process */
    long nivcsw;  /**< involuntary context switches */
    long nvcsw;
    long minflt;
    long majflt;
    long migrations; /**< -1: the kernel does not tell */
    double steal_s;  /**< stolen by the hypervisor, all cores */
    double load1;    /**< load average at the end */
} bench_noise_t;

/** @brief Take a reading (absolute counters). Cost: three files of /proc. */
void bench_noise_read(bench_noise_t *n);
/** @brief later - earlier, field by field. */
void bench_noise_diff(const bench_noise_t *earlier, const bench_noise_t *later, bench_noise_t *out);
/** @brief Sum up: add b to a. */
void bench_noise_add(bench_noise_t *a, const bench_noise_t *b);
void bench_noise_json(bench_json_t *j, const char *key, const bench_noise_t *n);

/* ---------------------------------------------------------------- records */

/** Result of one message size, as every program reports it. */
typedef struct {
    const char *pattern;
    size_t size;
    int np;
    int window;               /**< messages in flight */
    long iterations;          /**< timed */
    long batch;               /**< iterations per timed interval */
    double bytes_factor;      /**< bytes that count for bandwidth, as a multiple of size; 0: none */
    const char *verified;     /**< "yes", "no" (not asked for) or "wrong" */
    const bench_hist_t *hist; /**< times per message */
    const bench_noise_t *noise;
    bool histogram; /**< write the histogram too */
} bench_cell_t;

/** @brief Begin the record of a cell; the caller may add members and ends it. */
void bench_cell_begin(bench_json_t *j, FILE *f, const bench_cell_t *c);

/** @brief Print a cell as one row of a table on stdout, or with NULL the head of the table. */
void bench_cell_text(const bench_cell_t *c);

/* -------------------------------------------------------------- context */

/**
 * @brief Paths of the MPI-related files mapped into this process, one per line, sorted, unique:
 *        components (mca_*.so), libmpi*, libopen-*, libuc*, libprrte*, libpmix*.
 * @param[out] out  text, always terminated
 * @param[in]  cap  bytes of out
 */
void bench_maps(char *out, size_t cap);

/**
 * @brief Write the component files of all ranks as member "files" of the open object: each distinct
 *        list once, with the ranks that have it.
 * @param[in] all  the texts of bench_maps of all ranks, `cap` bytes apart
 */
void bench_files_json(bench_json_t *j, const char *all, int np, size_t cap);

/** @brief Write what the program knows of machine and build as members of the open object. */
void bench_context_json(bench_json_t *j, const bench_clock_t *clock);

#endif

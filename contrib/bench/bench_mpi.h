/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The frame that every MPI measurement hangs in: a pattern says what one iteration is and how it
 * is verified; bench_mpi.c does the rest (options, calibration, rounds, histograms, records).
 *
 * Layer: MPI programs; includes mpi.h and bench_common.h only, so that the same sources are built
 * for any MPI.
 * Source of conventions: OSU-like for windows (one acknowledgement per window), IMB-like for
 * bench_mpi_sendrecv.c.
 */
#ifndef BENCH_MPI_H
#define BENCH_MPI_H

#include <mpi.h>

#include "bench_common.h"

/** Options of a run, the same on all ranks. */
typedef struct {
    size_t *sizes;
    size_t size_count;
    size_t rotate_bytes; /**< 0: same buffer each time, else bytes that the places cover */
    bool huge;
    double time_s; /**< timed seconds per size, over all rounds */
    int rounds;
    long max_iterations; /**< per size and round; 0: no limit */
    bool imb_counts;     /**< repetitions by IMB's rule instead of by time */
    int window;
    int threads;
    bool verify;
    bool json;
    bool histogram;
    bool pin;
    const char *label;
} bench_options_t;

/** What a pattern gets handed. */
typedef struct {
    const bench_options_t *opt;
    MPI_Comm comm;
    int rank;
    int np;
    int window;       /**< messages in flight for the current size */
    bench_buf_t send; /**< shaped for the current size */
    bench_buf_t recv;
    MPI_Request *req; /**< room for 2 x window x np requests */
    MPI_Win win;
} bench_run_t;

/** How times are taken. */
typedef enum {
    BENCH_TIME_ROOT, /**< rank 0 times batches of back-to-back iterations */
    BENCH_TIME_ALL   /**< IMB: barrier, n iterations on every rank, the slowest rank counts */
} bench_timing_t;

/** One thing to measure. */
typedef struct {
    const char *name;
    const char *what;
    const char *sizes; /**< default size list */
    int np_min;
    bool np_even;
    bench_timing_t timing;
    long iterations; /**< timed one by one in each round; 0: as many as fill the time */
    bool windowed;   /**< r->window messages belong to one iteration */
    /** Messages that must lie side by side in the send / receive buffer; NULL: one. */
    size_t (*send_places)(const bench_run_t *r);
    size_t (*recv_places)(const bench_run_t *r);
    /** Messages in one iteration; the time reported is iteration time / messages. */
    double (*messages)(const bench_run_t *r);
    /** Bytes that count for bandwidth, as a multiple of size, per message. 0: none is reported. */
    double bytes_factor;
    /** Collective over all ranks, before the first cell; NULL: nothing to do. */
    void (*open)(bench_run_t *r);
    void (*close)(bench_run_t *r);
    /** Timed: n iterations on every rank. */
    void (*iterate)(bench_run_t *r, size_t size, long n);
    /** Untimed: the same communication once with every byte checked. @return wrong on this rank */
    bool (*verify)(bench_run_t *r, size_t size);
} bench_pattern_t;

extern const bench_pattern_t bench_pattern_lat;
extern const bench_pattern_t bench_pattern_beside;
extern const bench_pattern_t bench_pattern_bw;
extern const bench_pattern_t bench_pattern_bibw;
extern const bench_pattern_t bench_pattern_rate;
extern const bench_pattern_t bench_pattern_manyto1;
extern const bench_pattern_t bench_pattern_1tomany;
extern const bench_pattern_t bench_pattern_put;
extern const bench_pattern_t bench_pattern_get;
extern const bench_pattern_t bench_pattern_accumulate;
extern const bench_pattern_t bench_pattern_fop;
extern const bench_pattern_t bench_pattern_pingpong;
extern const bench_pattern_t bench_pattern_pingping;
extern const bench_pattern_t bench_pattern_sendrecv;
extern const bench_pattern_t bench_pattern_exchange;
extern const bench_pattern_t bench_pattern_allreduce;
extern const bench_pattern_t bench_pattern_alltoall;
extern const bench_pattern_t bench_pattern_bcast;
extern const bench_pattern_t bench_pattern_gather;
extern const bench_pattern_t bench_pattern_scatter;

/** @brief Print one line to stderr and MPI_Abort. Never returns. */
void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif

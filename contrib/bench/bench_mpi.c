/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * bench_mpi PATTERN [options]: one measurement program for all MPI patterns. It pins its ranks,
 * verifies every size in an untimed pass, calibrates, measures the sizes in several rounds (so
 * that a short disturbance does not hit one size alone) and writes JSON lines or a table.
 *
 * It also proves what it measured: the first record holds the component files that each rank has
 * mapped. The driver refuses a run in which the expected file is not among them.
 *
 * Layer: MPI program; everything timed is in the patterns' iterate functions.
 * Must never: use a time that was taken while payload was verified.
 */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif
#include "bench_mpi.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const bench_pattern_t *const patterns[] = {
    &bench_pattern_lat,      &bench_pattern_bw,       &bench_pattern_bibw,
    &bench_pattern_rate,     &bench_pattern_manyto1,  &bench_pattern_1tomany,
    &bench_pattern_put,      &bench_pattern_get,      &bench_pattern_accumulate,
    &bench_pattern_fop,      &bench_pattern_pingpong, &bench_pattern_pingping,
    &bench_pattern_sendrecv, &bench_pattern_exchange, &bench_pattern_allreduce,
    &bench_pattern_alltoall, &bench_pattern_bcast,    &bench_pattern_gather,
    &bench_pattern_scatter,  &bench_pattern_beside,
};
enum { PATTERN_COUNT = sizeof(patterns) / sizeof(patterns[0]) };

/** Windows hold at most this many bytes, so that large messages do not need gigabytes. */
#define WINDOW_BYTES ((size_t) 8 << 20)
/** A timed interval must be this many times the cost of reading the clock. */
#define CLOCK_FACTOR 100.0
/** IMB's rule: at most this many repetitions and bytes per sample. */
#define IMB_REPETITIONS 1000
#define IMB_BYTES       ((size_t) 40 << 20)

/** Plan and results of one size. */
typedef struct {
    size_t size;
    long batch;      /**< iterations per timed interval */
    long batches;    /**< timed intervals per round */
    long iterations; /**< timed so far */
    bool wrong;      /**< the untimed pass found a wrong byte on some rank */
    double slow_ns;  /**< BENCH_TIME_ALL: sums over samples of the slowest, mean, fastest rank */
    double mean_ns;
    double fast_ns;
    bench_noise_t noise;
    bench_hist_t *hist; /**< rank 0 only */
} cell_t;

void bench_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench_mpi: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    int ready = 0;
    MPI_Initialized(&ready);
    if (ready) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    exit(2);
}

static void usage(FILE *f)
{
    fputs("usage: mpirun ... bench_mpi PATTERN [options]\n"
          "  --sizes LIST    0,8,1K-64M (powers of two), 1-4K/8 (8 steps per octave), 4096~1\n"
          "  --time S        timed seconds per size (0.06)\n"
          "  --rounds N      passes over all sizes (3)\n"
          "  --max-iters N   most iterations per size and round\n"
          "  --imb           repetitions by IMB's rule instead of --time\n"
          "  --window N      messages in flight (64), fewer above 8 MiB in sum\n"
          "  --rotate BYTES  take turns through that much memory instead of the same buffer\n"
          "  --huge          transparent huge pages for the buffers (default: 4 KiB pages)\n"
          "  --no-verify     skip the untimed check of every byte\n"
          "  --no-pin        leave placement to the launcher\n"
          "  --json          JSON lines instead of a table\n"
          "  --hist          histograms in the JSON records\n"
          "  --label TEXT    copied into the records\n"
          "patterns:\n",
          f);
    for (int i = 0; i < PATTERN_COUNT; i++) {
        fprintf(f, "  %-11s %s (sizes %s)\n", patterns[i]->name, patterns[i]->what,
                patterns[i]->sizes);
    }
}

/* ------------------------------------------------------------- options */

static const char *value_of(int argc, char **argv, int *i)
{
    if (*i + 1 >= argc) {
        bench_die("option %s needs a value", argv[*i]);
    }
    return argv[++*i];
}

static long long_of(int argc, char **argv, int *i, long low, long high)
{
    const char *name = argv[*i];
    const char *text = value_of(argc, argv, i);
    char *end;
    long v = strtol(text, &end, 10);
    if (end == text || '\0' != *end || v < low || v > high) {
        bench_die("%s %s: a whole number from %ld to %ld is needed", name, text, low, high);
    }
    return v;
}

static const bench_pattern_t *parse_options(int argc, char **argv, bench_options_t *o)
{
    const bench_pattern_t *pattern = NULL;
    const char *sizes = NULL;
    *o = (bench_options_t) {
        .time_s = 0.06, .rounds = 3, .window = 64, .verify = true, .pin = true, .label = ""};
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (0 == strcmp(a, "--sizes")) {
            sizes = value_of(argc, argv, &i);
        } else if (0 == strcmp(a, "--time")) {
            const char *text = value_of(argc, argv, &i);
            char *end;
            o->time_s = strtod(text, &end);
            if (end == text || '\0' != *end || !(o->time_s > 0.0 && o->time_s <= 3600.0)) {
                bench_die("--time %s: seconds above 0 and up to 3600 are needed", text);
            }
        } else if (0 == strcmp(a, "--rounds")) {
            o->rounds = (int) long_of(argc, argv, &i, 1, 1000);
        } else if (0 == strcmp(a, "--max-iters")) {
            o->max_iterations = long_of(argc, argv, &i, 1, LONG_MAX);
        } else if (0 == strcmp(a, "--imb")) {
            o->imb_counts = true;
        } else if (0 == strcmp(a, "--window")) {
            o->window = (int) long_of(argc, argv, &i, 1, 65536);
        } else if (0 == strcmp(a, "--rotate")) {
            const char *text = value_of(argc, argv, &i);
            if (!bench_size_parse(text, &o->rotate_bytes)) {
                bench_die("--rotate %s: not a number of bytes", text);
            }
        } else if (0 == strcmp(a, "--huge")) {
            o->huge = true;
        } else if (0 == strcmp(a, "--no-verify")) {
            o->verify = false;
        } else if (0 == strcmp(a, "--no-pin")) {
            o->pin = false;
        } else if (0 == strcmp(a, "--json")) {
            o->json = true;
        } else if (0 == strcmp(a, "--hist")) {
            o->histogram = true;
        } else if (0 == strcmp(a, "--label")) {
            o->label = value_of(argc, argv, &i);
        } else if ('-' == a[0]) {
            bench_die("unknown option %s (--help lists them)", a);
        } else if (NULL == pattern) {
            for (int p = 0; p < PATTERN_COUNT; p++) {
                pattern = 0 == strcmp(a, patterns[p]->name) ? patterns[p] : pattern;
            }
            if (NULL == pattern) {
                bench_die("unknown pattern %s (--help lists them)", a);
            }
        } else {
            bench_die("one pattern at a time, not also %s", a);
        }
    }
    if (NULL == pattern) {
        bench_die("no pattern named (--help lists them)");
    }
    const char *problem = bench_sizes_parse(NULL != sizes ? sizes : pattern->sizes, &o->sizes,
                                            &o->size_count);
    if (NULL != problem) {
        bench_die("--sizes %s: %s", NULL != sizes ? sizes : pattern->sizes, problem);
    }
    if (o->sizes[o->size_count - 1] > INT_MAX) {
        bench_die("message sizes end at 2147483647 bytes");
    }
    return pattern;
}

/* ---------------------------------------------------------------- running */

static int window_for(const bench_options_t *o, size_t size)
{
    size_t fit = 0 == size ? (size_t) o->window : WINDOW_BYTES / size;
    fit = fit < 2 ? 2 : fit;
    return fit < (size_t) o->window ? (int) fit : o->window;
}

/* Prepare buffers and window for one size. */
static void shape(bench_run_t *r, const bench_pattern_t *p, size_t size)
{
    bool rotate = 0 != r->opt->rotate_bytes;
    r->window = p->windowed ? window_for(r->opt, size) : 1;
    bench_buf_shape(&r->send, size, rotate && NULL == p->send_places);
    bench_buf_shape(&r->recv, size, rotate && NULL == p->recv_places);
}

static void open_buffers(bench_run_t *r, const bench_pattern_t *p)
{
    size_t send = r->opt->rotate_bytes;
    size_t recv = r->opt->rotate_bytes;
    for (size_t i = 0; i < r->opt->size_count; i++) {
        size_t size = r->opt->sizes[i];
        size_t page = (size + 4095) & ~(size_t) 4095;
        r->window = p->windowed ? window_for(r->opt, size) : 1;
        size_t s = page * (NULL != p->send_places ? p->send_places(r) : 1);
        size_t v = page * (NULL != p->recv_places ? p->recv_places(r) : 1);
        send = s > send ? s : send;
        recv = v > recv ? v : recv;
    }
    int rc = bench_buf_open(&r->send, send + 4096, r->opt->huge);
    if (0 == rc) {
        rc = bench_buf_open(&r->recv, recv + 4096, r->opt->huge);
    }
    if (0 != rc) {
        bench_die("no memory for buffers of %zu + %zu bytes: %s", send, recv, strerror(rc));
    }
    size_t requests = 2 * (size_t) r->opt->window * (size_t) r->np + 8;
    r->req = malloc(requests * sizeof(*r->req));
    if (NULL == r->req) {
        bench_die("no memory for %zu requests", requests);
    }
}

/* Find how many iterations fill the time of a cell; the same answer on all ranks. */
static void calibrate(bench_run_t *r, const bench_pattern_t *p, cell_t *c, double clock_ns)
{
    const double warm_ns = 2e6;
    double per_ns = INFINITY;
    shape(r, p, c->size);
    if (0 < p->iterations) {
        c->batch = 1;
        c->batches = p->iterations;
        return;
    }
    /* The fastest stage counts: on a busy machine any single one may have lost its core. The first
     * stages run one iteration, since they also pay for connections and first touches. */
    for (long stage = 0, n = 1;; stage++, n = stage < 3 ? 1 : n * 4) {
        MPI_Barrier(r->comm);
        uint64_t start = bench_now_ns();
        p->iterate(r, c->size, n);
        double spent[2];
        spent[0] = (double) (bench_now_ns() - start) / (double) n;
        MPI_Allreduce(&spent[0], &spent[1], 1, MPI_DOUBLE, MPI_MAX, r->comm);
        per_ns = spent[1] < per_ns ? spent[1] : per_ns;
        if ((1 < stage && per_ns * (double) n > warm_ns) || (0 < stage && per_ns > 5 * warm_ns)) {
            break;
        }
    }
    const bench_options_t *o = r->opt;
    if (o->imb_counts) {
        size_t by_bytes = 0 == c->size ? IMB_REPETITIONS : IMB_BYTES / c->size;
        c->batch = by_bytes < IMB_REPETITIONS ? (long) by_bytes : IMB_REPETITIONS;
        c->batch = c->batch < 1 ? 1 : c->batch;
        c->batches = 1;
        return;
    }
    double round_ns = o->time_s * 1e9 / o->rounds;
    /* With a barrier around it, an interval must also be long against the barrier's skew. */
    double least_ns = CLOCK_FACTOR * clock_ns;
    least_ns = BENCH_TIME_ALL == p->timing && least_ns < 100e3 ? 100e3 : least_ns;
    c->batch = (long) ceil(least_ns / per_ns);
    c->batch = c->batch < 1 ? 1 : c->batch;
    if (0 < o->max_iterations && c->batch > o->max_iterations) {
        c->batch = o->max_iterations;
    }
    c->batches = (long) (round_ns / (per_ns * (double) c->batch));
    if (0 < o->max_iterations && c->batches > o->max_iterations / c->batch) {
        c->batches = o->max_iterations / c->batch;
    }
    c->batches = c->batches < 1 ? 1 : c->batches;
}

static void time_root(bench_run_t *r, const bench_pattern_t *p, cell_t *c)
{
    double scale = 1000.0 / ((double) c->batch * p->messages(r));
    /* Sizes before this one left other lines in the caches. */
    p->iterate(r, c->size, c->batch);
    if (0 != r->rank) {
        for (long b = 0; b < c->batches; b++) {
            p->iterate(r, c->size, c->batch);
        }
        return;
    }
    uint64_t last = bench_now_ns();
    for (long b = 0; b < c->batches; b++) {
        p->iterate(r, c->size, c->batch);
        uint64_t now = bench_now_ns();
        bench_hist_add(c->hist, (uint64_t) ((double) (now - last) * scale + 0.5));
        last = bench_now_ns();
    }
}

static void time_all(bench_run_t *r, const bench_pattern_t *p, cell_t *c)
{
    double scale = 1.0 / ((double) c->batch * p->messages(r));
    p->iterate(r, c->size, 1);
    for (long b = 0; b < c->batches; b++) {
        double own;
        double slow = 0.0;
        double fast = 0.0;
        double sum = 0.0;
        MPI_Barrier(r->comm);
        uint64_t start = bench_now_ns();
        p->iterate(r, c->size, c->batch);
        own = (double) (bench_now_ns() - start) * scale;
        MPI_Reduce(&own, &slow, 1, MPI_DOUBLE, MPI_MAX, 0, r->comm);
        MPI_Reduce(&own, &fast, 1, MPI_DOUBLE, MPI_MIN, 0, r->comm);
        MPI_Reduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, r->comm);
        if (0 == r->rank) {
            bench_hist_add(c->hist, (uint64_t) (slow * 1000.0 + 0.5));
            c->slow_ns += slow;
            c->fast_ns += fast;
            c->mean_ns += sum / r->np;
        }
    }
}

static void measure(bench_run_t *r, const bench_pattern_t *p, cell_t *c)
{
    bench_noise_t before;
    bench_noise_t after;
    bench_noise_t diff;
    shape(r, p, c->size);
    MPI_Barrier(r->comm);
    bench_noise_read(&before);
    MPI_Barrier(r->comm);
    if (BENCH_TIME_ROOT == p->timing) {
        time_root(r, p, c);
        MPI_Barrier(r->comm); /* where ranks that have no part wait */
    } else {
        time_all(r, p, c);
    }
    bench_noise_read(&after);
    c->iterations += c->batch * c->batches;
    bench_noise_diff(&before, &after, &diff);
    bench_noise_add(&c->noise, &diff);
}

/* Add up what the ranks suffered: the most disturbed rank decides for times, counts are sums. */
static void reduce_noise(bench_run_t *r, bench_noise_t *n)
{
    double low[1] = {n->wall_s > 0.0 ? n->cpu_s / n->wall_s : 1.0};
    double share[1];
    long counts[5] = {n->nivcsw, n->nvcsw, n->minflt, n->majflt, n->migrations};
    long sums[5];
    int root = 0 == r->rank;
    MPI_Reduce(low, share, 1, MPI_DOUBLE, MPI_MIN, 0, r->comm);
    MPI_Reduce(counts, sums, 5, MPI_LONG, MPI_SUM, 0, r->comm);
    if (root) {
        n->cpu_s = share[0] * n->wall_s;
        n->nivcsw = sums[0];
        n->nvcsw = sums[1];
        n->minflt = sums[2];
        n->majflt = sums[3];
        n->migrations = n->migrations < 0 ? -1 : sums[4];
    }
}

/* ---------------------------------------------------------------- output */

/* The component files of all ranks: each distinct list once, with the ranks that have it. */
static void files_json(bench_run_t *r, bench_json_t *j)
{
    enum { CAP = 65536 };
    char *mine = calloc(1, CAP);
    char *all = 0 == r->rank ? calloc((size_t) r->np, CAP) : NULL;
    if (NULL == mine || (0 == r->rank && NULL == all)) {
        bench_die("no memory for the list of files");
    }
    bench_maps(mine, CAP);
    MPI_Gather(mine, CAP, MPI_CHAR, all, CAP, MPI_CHAR, 0, r->comm);
    if (0 == r->rank && r->opt->json) {
        bench_files_json(j, all, r->np, CAP);
    }
    free(all);
    free(mine);
}

static void context_record(bench_run_t *r, const bench_pattern_t *p, const bench_clock_t *clock,
                           int core, double init_ns)
{
    const bench_options_t *o = r->opt;
    bench_json_t j;
    int *cores = malloc((size_t) r->np * sizeof(int));
    double slowest_init = 0.0;
    if (NULL == cores) {
        bench_die("no memory for the context record");
    }
    MPI_Gather(&core, 1, MPI_INT, cores, 1, MPI_INT, 0, r->comm);
    MPI_Reduce(&init_ns, &slowest_init, 1, MPI_DOUBLE, MPI_MAX, 0, r->comm);
    if (0 == r->rank && o->json) {
        char version[MPI_MAX_LIBRARY_VERSION_STRING];
        int len;
        MPI_Get_library_version(version, &len);
        version[strcspn(version, "\n")] = '\0';
        bench_json_begin(&j, stdout);
        bench_json_str(&j, "kind", "context");
        bench_json_str(&j, "pattern", p->name);
        bench_json_str(&j, "label", o->label);
        bench_json_int(&j, "np", r->np);
        bench_json_str(&j, "mpi_version", version);
        bench_json_num(&j, "mpi_init_ns", slowest_init);
        bench_json_str(&j, "timing", BENCH_TIME_ROOT == p->timing ? "root" : "all");
        bench_json_num(&j, "time_s", o->time_s);
        bench_json_int(&j, "rounds", o->rounds);
        bench_json_int(&j, "rotate_bytes", (long long) o->rotate_bytes);
        bench_json_str(&j, "pages", o->huge ? "huge" : "4k");
        bench_json_int(&j, "huge_kB", bench_buf_huge_kB(&r->recv));
        bench_json_bool(&j, "verify", o->verify);
        bench_json_array(&j, "pinning");
        for (int i = 0; i < r->np; i++) {
            bench_json_int(&j, NULL, cores[i]);
        }
        bench_json_close(&j, ']');
        bench_context_json(&j, clock);
    }
    files_json(r, &j);
    if (0 == r->rank && o->json) {
        bench_json_end(&j);
    }
    free(cores);
}

static void cell_record(const bench_run_t *r, const bench_pattern_t *p, const cell_t *c)
{
    const bench_options_t *o = r->opt;
    const double n = 0 < c->hist->count ? (double) c->hist->count : 1.0;
    bench_cell_t cell = {
        .pattern = p->name,
        .size = c->size,
        .np = r->np,
        .window = r->window,
        .iterations = c->iterations,
        .batch = c->batch,
        .bytes_factor = p->bytes_factor,
        .verified = !o->verify ? "no"
                    : c->wrong ? "wrong"
                               : "yes",
        .hist = c->hist,
        .noise = &c->noise,
        .histogram = o->histogram,
    };
    if (!o->json) {
        bench_cell_text(&cell);
        return;
    }
    bench_json_t j;
    bench_cell_begin(&j, stdout, &cell);
    if (BENCH_TIME_ALL == p->timing) {
        bench_json_num(&j, "t_max_us", c->slow_ns / n * 1e-3);
        bench_json_num(&j, "t_avg_us", c->mean_ns / n * 1e-3);
        bench_json_num(&j, "t_min_us", c->fast_ns / n * 1e-3);
    }
    bench_json_end(&j);
}

/* ------------------------------------------------------------------ main */

/* Whether time is up, as rank 0 sees it, the same on all ranks. */
static bool late(const bench_run_t *r, uint64_t start, double most_ns)
{
    int answer = (double) (bench_now_ns() - start) > most_ns;
    MPI_Bcast(&answer, 1, MPI_INT, 0, r->comm);
    return 0 != answer;
}

static bool run(bench_run_t *r, const bench_pattern_t *p, const bench_clock_t *clock)
{
    const bench_options_t *o = r->opt;
    cell_t *cells = calloc(o->size_count, sizeof(*cells));
    if (NULL == cells) {
        bench_die("no memory for %zu sizes", o->size_count);
    }
    bool bad = false;
    for (size_t i = 0; i < o->size_count; i++) {
        cell_t *c = &cells[i];
        c->size = o->sizes[i];
        c->noise.load1 = 0.0;
        if (0 == r->rank) {
            c->hist = malloc(sizeof(*c->hist));
            if (NULL == c->hist) {
                bench_die("no memory for histograms");
            }
            bench_hist_reset(c->hist);
        }
        if (o->verify) {
            shape(r, p, c->size);
            int wrong = p->verify(r, c->size);
            MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_LOR, r->comm);
            c->wrong = 0 != wrong;
            bad |= c->wrong;
        }
        calibrate(r, p, c, clock->read_ns);
    }
    /* On a machine that others keep busy, pinned ranks that poll may run ten times as long; each
     * size then has its first round and loses the later ones. */
    const uint64_t start = bench_now_ns();
    const double most_ns = 2e9 + 3e9 * o->time_s * (double) o->size_count;
    for (int round = 0; round < o->rounds; round++) {
        for (size_t i = 0; i < o->size_count; i++) {
            if (0 < round && late(r, start, most_ns)) {
                break;
            }
            /* Up and down in turn, so that no size always follows the same one. */
            measure(r, p, &cells[0 == round % 2 ? i : o->size_count - 1 - i]);
        }
    }
    for (size_t i = 0; i < o->size_count; i++) {
        reduce_noise(r, &cells[i].noise);
        if (0 == r->rank) {
            r->window = p->windowed ? window_for(o, cells[i].size) : 1;
            cell_record(r, p, &cells[i]);
            free(cells[i].hist);
        }
    }
    free(cells);
    return bad;
}

int main(int argc, char **argv)
{
    bench_options_t options;
    for (int i = 1; i < argc; i++) {
        if (0 == strcmp(argv[i], "--help")) {
            usage(stdout);
            return 0;
        }
    }
    const bench_pattern_t *pattern = parse_options(argc, argv, &options);
    /* Before MPI_Init, so that what the library allocates is touched from the right core. */
    int local = bench_env_local_rank();
    int core = options.pin && 0 <= local ? bench_pin(local) : -1;
    uint64_t start = bench_now_ns();
    MPI_Init(&argc, &argv);
    double init_ns = (double) (bench_now_ns() - start);

    bench_run_t run_state = {.opt = &options, .comm = MPI_COMM_WORLD};
    bench_run_t *r = &run_state;
    MPI_Comm_rank(r->comm, &r->rank);
    MPI_Comm_size(r->comm, &r->np);
    if (options.pin && 0 > local) {
        core = bench_pin(r->rank);
    }
    if (r->np < pattern->np_min || (pattern->np_even && 0 != r->np % 2)) {
        bench_die("pattern %s needs %sat least %d ranks, not %d", pattern->name,
                  pattern->np_even ? "an even number and " : "", pattern->np_min, r->np);
    }
    bench_clock_t clock;
    bench_clock_measure(&clock);
    MPI_Bcast(&clock, sizeof(clock), MPI_BYTE, 0, r->comm);
    open_buffers(r, pattern);
    if (NULL != pattern->open) {
        pattern->open(r);
    }
    if (0 == r->rank && !options.json) {
        printf("# %s, %d ranks, times in us per message\n", pattern->what, r->np);
        bench_cell_text(NULL);
    }
    /* Connections are made at first use; only then are all components mapped. */
    shape(r, pattern, options.sizes[0]);
    pattern->iterate(r, options.sizes[0], 1);
    context_record(r, pattern, &clock, core, init_ns);
    bool bad = run(r, pattern, &clock);
    if (NULL != pattern->close) {
        pattern->close(r);
    }
    free(r->req);
    bench_buf_close(&r->send);
    bench_buf_close(&r->recv);
    free(options.sizes);
    MPI_Finalize();
    return bad ? 3 : 0;
}

/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Implementation of bench_common.h: everything that the timed programs share and that is not MPI.
 * Layer: pure C11 + Linux. Nothing here runs inside a timed section except bench_now_ns,
 * bench_buf_next (both inline) and bench_hist_add between two timed intervals.
 */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif
#include "bench_common.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef BENCH_CFLAGS
#    define BENCH_CFLAGS "unknown"
#endif

/* ---------------------------------------------------------------- clock */

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a;
    uint64_t y = *(const uint64_t *) b;
    return (x > y) - (x < y);
}

void bench_clock_measure(bench_clock_t *out)
{
    enum { RUNS = 101, READS = 200 };
    uint64_t cost[RUNS];
    uint64_t smallest = UINT64_MAX;
    for (int r = 0; r < RUNS; r++) {
        uint64_t start = bench_now_ns();
        uint64_t last = start;
        for (int i = 0; i < READS; i++) {
            uint64_t t = bench_now_ns();
            if (t > last && t - last < smallest) {
                smallest = t - last;
            }
            last = t;
        }
        cost[r] = last - start;
    }
    qsort(cost, RUNS, sizeof(cost[0]), compare_u64);
    out->read_ns = (double) cost[RUNS / 2] / READS;
    out->resolution_ns = UINT64_MAX == smallest ? 0.0 : (double) smallest;
}

/* -------------------------------------------------------------- pinning */

/* The set at the first call: pinning shrinks what sched_getaffinity tells afterwards. */
static const cpu_set_t *allowed_cores(void)
{
    static cpu_set_t set;
    static bool known;
    if (!known) {
        CPU_ZERO(&set);
        if (0 != sched_getaffinity(0, sizeof(set), &set)) {
            CPU_SET(0, &set);
        }
        known = true;
    }
    return &set;
}

int bench_core_count(void)
{
    return CPU_COUNT(allowed_cores());
}

int bench_pin(int index)
{
    const cpu_set_t *set = allowed_cores();
    int count = CPU_COUNT(set);
    if (index < 0 || 0 == count) {
        return -1;
    }
    int want = index % count;
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, set) && 0 == want--) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            return 0 == sched_setaffinity(0, sizeof(one), &one) ? core : -1;
        }
    }
    return -1;
}

int bench_env_local_rank(void)
{
    /* Open MPI, Hydra (MPICH) and Slurm; hydra on one node: the global rank is the local one. */
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                        "SLURM_LOCALID", "PMI_RANK"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text = getenv(names[i]);
        if (NULL != text && '\0' != *text) {
            return atoi(text);
        }
    }
    return -1;
}

/* ------------------------------------------------------------ histogram */

void bench_hist_reset(bench_hist_t *h)
{
    memset(h, 0, sizeof(*h));
    h->min_ps = UINT64_MAX;
}

static size_t bucket_of(uint64_t v)
{
    const unsigned sub = BENCH_HIST_SUB_LOG2;
    if (v < (1u << sub)) {
        return (size_t) v;
    }
    unsigned exponent = 63u - (unsigned) __builtin_clzll(v);
    size_t mantissa = (size_t) (v >> (exponent - sub)) & ((1u << sub) - 1u);
    return ((size_t) (exponent - sub + 1) << sub) + mantissa;
}

static double bucket_low(size_t b)
{
    const unsigned sub = BENCH_HIST_SUB_LOG2;
    if (b < (1u << sub)) {
        return (double) b;
    }
    unsigned exponent = (unsigned) (b >> sub) + sub - 1;
    return ldexp(1.0 + (double) (b & ((1u << sub) - 1u)) / (double) (1u << sub), (int) exponent);
}

void bench_hist_add(bench_hist_t *h, uint64_t ps)
{
    h->count++;
    h->sum_ps += (double) ps;
    h->min_ps = ps < h->min_ps ? ps : h->min_ps;
    h->max_ps = ps > h->max_ps ? ps : h->max_ps;
    h->bucket[bucket_of(ps)]++;
}

double bench_hist_quantile(const bench_hist_t *h, double p)
{
    if (0 == h->count) {
        return 0.0;
    }
    double want = p * (double) h->count;
    double below = 0.0;
    for (size_t b = 0; b < BENCH_HIST_BUCKETS; b++) {
        double here = (double) h->bucket[b];
        if (0.0 < here && below + here >= want) {
            double low = bucket_low(b);
            double high = bucket_low(b + 1);
            double value = low + (high - low) * ((want - below) / here);
            value = value < (double) h->min_ps ? (double) h->min_ps : value;
            return value > (double) h->max_ps ? (double) h->max_ps : value;
        }
        below += here;
    }
    return (double) h->max_ps;
}

/* ----------------------------------------------------------------- JSON */

static void json_text(FILE *f, const char *s)
{
    fputc('"', f);
    for (; '\0' != *s; s++) {
        unsigned char c = (unsigned char) *s;
        if ('"' == c || '\\' == c) {
            fputc('\\', f);
            fputc(c, f);
        } else if (c < 0x20) {
            fprintf(f, "\\u%04x", c);
        } else {
            fputc(c, f);
        }
    }
    fputc('"', f);
}

static void json_key(bench_json_t *j, const char *key)
{
    if (j->comma[j->depth]) {
        fputc(',', j->f);
    }
    j->comma[j->depth] = true;
    if (NULL != key) {
        json_text(j->f, key);
        fputc(':', j->f);
    }
}

static void json_open(bench_json_t *j, const char *key, char bracket)
{
    json_key(j, key);
    fputc(bracket, j->f);
    j->depth++;
    j->comma[j->depth] = false;
}

void bench_json_begin(bench_json_t *j, FILE *f)
{
    memset(j, 0, sizeof(*j));
    j->f = f;
    json_open(j, NULL, '{');
}

void bench_json_end(bench_json_t *j)
{
    fputs("}\n", j->f);
    fflush(j->f);
}

void bench_json_object(bench_json_t *j, const char *key)
{
    json_open(j, key, '{');
}

void bench_json_array(bench_json_t *j, const char *key)
{
    json_open(j, key, '[');
}

void bench_json_close(bench_json_t *j, char bracket)
{
    fputc(bracket, j->f);
    j->depth--;
}

void bench_json_str(bench_json_t *j, const char *key, const char *value)
{
    json_key(j, key);
    json_text(j->f, value);
}

void bench_json_int(bench_json_t *j, const char *key, long long value)
{
    json_key(j, key);
    fprintf(j->f, "%lld", value);
}

void bench_json_num(bench_json_t *j, const char *key, double value)
{
    json_key(j, key);
    if (isfinite(value)) {
        fprintf(j->f, "%.10g", value);
    } else {
        fputs("null", j->f);
    }
}

void bench_json_bool(bench_json_t *j, const char *key, bool value)
{
    json_key(j, key);
    fputs(value ? "true" : "false", j->f);
}

/* ---------------------------------------------------------------- sizes */

static const char *number(const char *s, size_t *out)
{
    if (*s < '0' || *s > '9') {
        return NULL;
    }
    char *end;
    errno = 0;
    unsigned long long v = strtoull(s, &end, 10);
    unsigned shift = 0;
    switch (*end) {
    case 'k':
    case 'K':
        shift = 10;
        break;
    case 'm':
    case 'M':
        shift = 20;
        break;
    case 'g':
    case 'G':
        shift = 30;
        break;
    default:
        break;
    }
    if (0 != errno || v > ((unsigned long long) SIZE_MAX >> 1 >> shift)) {
        return NULL;
    }
    *out = (size_t) v << shift;
    return end + (0 != shift);
}

bool bench_size_parse(const char *text, size_t *out)
{
    const char *end = number(text, out);
    return NULL != end && '\0' == *end;
}

typedef struct {
    size_t *v;
    size_t n;
    size_t cap;
} size_list_t;

static bool size_push(size_list_t *l, size_t v)
{
    if (l->n == l->cap) {
        size_t cap = 0 == l->cap ? 64 : 2 * l->cap;
        size_t *grown = realloc(l->v, cap * sizeof(*grown));
        if (NULL == grown) {
            return false;
        }
        l->v = grown;
        l->cap = cap;
    }
    l->v[l->n++] = v;
    return true;
}

static bool size_range(size_list_t *l, size_t from, size_t to, size_t per_octave)
{
    if (0 == from) {
        if (!size_push(l, 0)) {
            return false;
        }
        from = 1;
    }
    double start = (double) from;
    for (size_t i = 0;; i++) {
        double v = start * exp2((double) i / (double) per_octave);
        if (v > (double) to + 0.5) {
            return true;
        }
        if (!size_push(l, (size_t) (v + 0.5))) {
            return false;
        }
    }
}

static int compare_size(const void *a, const void *b)
{
    size_t x = *(const size_t *) a;
    size_t y = *(const size_t *) b;
    return (x > y) - (x < y);
}

const char *bench_sizes_parse(const char *text, size_t **out, size_t *count)
{
    static const char malformed[] = "a size list looks like 0,8,1K-64M,1-4K/8,4096~1";
    size_list_t list = {0};
    const char *s = text;
    bool ok = true;
    while (ok) {
        size_t a;
        s = number(s, &a);
        if (NULL == s) {
            break;
        }
        if ('-' == *s) {
            size_t b;
            size_t steps = 1;
            s = number(s + 1, &b);
            if (NULL != s && '/' == *s) {
                s = number(s + 1, &steps);
            }
            ok = NULL != s && a <= b && 1 <= steps && steps <= 64 && size_range(&list, a, b, steps);
        } else if ('~' == *s) {
            size_t d;
            s = number(s + 1, &d);
            ok = NULL != s && d <= a && size_push(&list, a - d) && size_push(&list, a)
                 && size_push(&list, a + d);
        } else {
            ok = size_push(&list, a);
        }
        if (!ok || ',' != *s) {
            break;
        }
        s++;
    }
    if (!ok || NULL == s || '\0' != *s || 0 == list.n) {
        free(list.v);
        return malformed;
    }
    qsort(list.v, list.n, sizeof(list.v[0]), compare_size);
    size_t n = 0;
    for (size_t i = 0; i < list.n; i++) {
        if (0 == n || list.v[n - 1] != list.v[i]) {
            list.v[n++] = list.v[i];
        }
    }
    *out = list.v;
    *count = n;
    return NULL;
}

/* -------------------------------------------------------------- buffers */

int bench_buf_open(bench_buf_t *b, size_t bytes, bool huge)
{
    const size_t huge_page = (size_t) 2 << 20;
    memset(b, 0, sizeof(*b));
    bytes = 0 == bytes ? 1 : bytes;
    b->map_bytes = ((bytes + huge_page - 1) & ~(huge_page - 1)) + huge_page;
    b->map = mmap(NULL, b->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == b->map) {
        b->map = NULL;
        return errno;
    }
    uintptr_t start = ((uintptr_t) b->map + huge_page - 1) & ~(uintptr_t) (huge_page - 1);
    b->base = (char *) start;
    b->bytes = bytes;
    /* Advice only: the record says what the kernel really gave (bench_buf_huge_kB). */
    (void) madvise(b->map, b->map_bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(b->base, 1, bytes);
    bench_buf_shape(b, bytes, false);
    return 0;
}

void bench_buf_close(bench_buf_t *b)
{
    if (NULL != b->map) {
        munmap(b->map, b->map_bytes);
    }
    memset(b, 0, sizeof(*b));
}

void bench_buf_shape(bench_buf_t *b, size_t size, bool rotate)
{
    /* A page of its own for each large place, a line of its own for each small one. */
    size_t grain = size >= 4096 ? 4096 : 64;
    b->stride = (size + grain - 1) / grain * grain;
    b->stride = 0 == b->stride ? grain : b->stride;
    b->places = rotate ? b->bytes / b->stride : 1;
    b->places = 0 == b->places ? 1 : b->places;
    b->next = 0;
}

long bench_buf_huge_kB(const bench_buf_t *b)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    if (NULL == f) {
        return -1;
    }
    uintptr_t start = (uintptr_t) b->map;
    uintptr_t end = start + b->map_bytes;
    char line[512];
    bool inside = false;
    long total = 0;
    while (NULL != fgets(line, sizeof(line), f)) {
        uintptr_t low;
        uintptr_t high;
        long kB;
        if (2 == sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &low, &high)) {
            inside = low < end && high > start;
        } else if (inside && 1 == sscanf(line, "AnonHugePages: %ld kB", &kB)) {
            total += kB;
        }
    }
    fclose(f);
    return total;
}

/* -------------------------------------------------------------- payload */

static inline uint64_t payload_word(uint64_t seed, uint64_t index)
{
    uint64_t x = (index + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ seed * UINT64_C(0xd6e8feb86659fd93);
    return x ^ (x >> 29);
}

void bench_fill(void *buf, size_t len, uint64_t seed)
{
    char *p = buf;
    size_t words = len / 8;
    for (size_t i = 0; i < words; i++) {
        uint64_t w = payload_word(seed, i);
        memcpy(p + 8 * i, &w, 8);
    }
    if (0 != len % 8) {
        uint64_t w = payload_word(seed, words);
        memcpy(p + 8 * words, &w, len % 8);
    }
}

size_t bench_check(const void *buf, size_t len, uint64_t seed)
{
    const char *p = buf;
    for (size_t i = 0; i < len; i += 8) {
        uint64_t w = payload_word(seed, i / 8);
        size_t n = len - i < 8 ? len - i : 8;
        if (0 != memcmp(p + i, &w, n)) {
            const char *expected = (const char *) &w;
            size_t k = 0;
            while (p[i + k] == expected[k]) {
                k++;
            }
            return i + k;
        }
    }
    return SIZE_MAX;
}

/* ---------------------------------------------------------------- noise */

static long read_migrations(void)
{
    FILE *f = fopen("/proc/self/sched", "r");
    if (NULL == f) {
        return -1;
    }
    char line[256];
    long value = -1;
    while (NULL != fgets(line, sizeof(line), f)) {
        if (NULL != strstr(line, "nr_migrations")) {
            char *colon = strchr(line, ':');
            value = NULL != colon ? atol(colon + 1) : -1;
            break;
        }
    }
    fclose(f);
    return value;
}

static double read_steal_s(void)
{
    FILE *f = fopen("/proc/stat", "r");
    if (NULL == f) {
        return 0.0;
    }
    long long v[8] = {0};
    int n = fscanf(f, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &v[0], &v[1], &v[2], &v[3],
                   &v[4], &v[5], &v[6], &v[7]);
    fclose(f);
    return 8 == n ? (double) v[7] / (double) sysconf(_SC_CLK_TCK) : 0.0;
}

void bench_noise_read(bench_noise_t *n)
{
    struct rusage u;
    struct timespec cpu;
    getrusage(RUSAGE_SELF, &u);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    n->wall_s = (double) bench_now_ns() * 1e-9;
    n->cpu_s = (double) cpu.tv_sec + (double) cpu.tv_nsec * 1e-9;
    n->nivcsw = u.ru_nivcsw;
    n->nvcsw = u.ru_nvcsw;
    n->minflt = u.ru_minflt;
    n->majflt = u.ru_majflt;
    n->migrations = read_migrations();
    n->steal_s = read_steal_s();
    if (1 != getloadavg(&n->load1, 1)) {
        n->load1 = -1.0;
    }
}

void bench_noise_diff(const bench_noise_t *earlier, const bench_noise_t *later, bench_noise_t *out)
{
    out->wall_s = later->wall_s - earlier->wall_s;
    out->cpu_s = later->cpu_s - earlier->cpu_s;
    out->nivcsw = later->nivcsw - earlier->nivcsw;
    out->nvcsw = later->nvcsw - earlier->nvcsw;
    out->minflt = later->minflt - earlier->minflt;
    out->majflt = later->majflt - earlier->majflt;
    out->migrations = later->migrations < 0 || earlier->migrations < 0
                          ? -1
                          : later->migrations - earlier->migrations;
    out->steal_s = later->steal_s - earlier->steal_s;
    out->load1 = later->load1;
}

void bench_noise_add(bench_noise_t *a, const bench_noise_t *b)
{
    a->wall_s += b->wall_s;
    a->cpu_s += b->cpu_s;
    a->nivcsw += b->nivcsw;
    a->nvcsw += b->nvcsw;
    a->minflt += b->minflt;
    a->majflt += b->majflt;
    a->migrations = a->migrations < 0 || b->migrations < 0 ? -1 : a->migrations + b->migrations;
    a->steal_s += b->steal_s;
    a->load1 = b->load1;
}

void bench_noise_json(bench_json_t *j, const char *key, const bench_noise_t *n)
{
    bench_json_object(j, key);
    bench_json_num(j, "wall_s", n->wall_s);
    bench_json_num(j, "cpu_share", n->wall_s > 0.0 ? n->cpu_s / n->wall_s : 0.0);
    bench_json_int(j, "nivcsw", n->nivcsw);
    bench_json_int(j, "nvcsw", n->nvcsw);
    bench_json_int(j, "minflt", n->minflt);
    bench_json_int(j, "majflt", n->majflt);
    bench_json_int(j, "migrations", n->migrations);
    bench_json_num(j, "steal_s", n->steal_s);
    bench_json_num(j, "load1", n->load1);
    bench_json_close(j, '}');
}

/* ---------------------------------------------------------------- records */

static void histogram_json(bench_json_t *j, const bench_hist_t *h)
{
    /* Sixteen buckets of ours make one of the file: 6 % wide, enough for a drawn curve. */
    const size_t merge = 16;
    bench_json_array(j, "hist_ps_count");
    for (size_t b = 0; b < BENCH_HIST_BUCKETS; b += merge) {
        uint64_t n = 0;
        size_t first = 0;
        for (size_t k = merge; k-- > 0;) {
            n += h->bucket[b + k];
            first = 0 != h->bucket[b + k] ? b + k : first;
        }
        if (0 != n) {
            bench_json_array(j, NULL);
            bench_json_num(j, NULL, bucket_low(first));
            bench_json_int(j, NULL, (long long) n);
            bench_json_close(j, ']');
        }
    }
    bench_json_close(j, ']');
}

static double cell_MBps(const bench_cell_t *c, double p50_ns)
{
    return p50_ns > 0.0 ? c->bytes_factor * (double) c->size / p50_ns * 1e3 : 0.0;
}

void bench_cell_begin(bench_json_t *j, FILE *f, const bench_cell_t *c)
{
    const bench_hist_t *h = c->hist;
    double p50_ns = bench_hist_quantile(h, 0.5) * 1e-3;
    bench_json_begin(j, f);
    bench_json_str(j, "kind", "cell");
    bench_json_str(j, "pattern", c->pattern);
    bench_json_int(j, "size_bytes", (long long) c->size);
    bench_json_int(j, "np", c->np);
    bench_json_int(j, "window", c->window);
    bench_json_int(j, "iterations", c->iterations);
    bench_json_int(j, "batch", c->batch);
    bench_json_int(j, "samples", (long long) h->count);
    bench_json_num(j, "lat_ns_min", 0 < h->count ? (double) h->min_ps * 1e-3 : 0.0);
    bench_json_num(j, "lat_ns_p10", bench_hist_quantile(h, 0.1) * 1e-3);
    bench_json_num(j, "lat_ns_p50", p50_ns);
    bench_json_num(j, "lat_ns_p90", bench_hist_quantile(h, 0.9) * 1e-3);
    bench_json_num(j, "lat_ns_p99", bench_hist_quantile(h, 0.99) * 1e-3);
    bench_json_num(j, "lat_ns_p999", bench_hist_quantile(h, 0.999) * 1e-3);
    bench_json_num(j, "lat_ns_max", (double) h->max_ps * 1e-3);
    bench_json_num(j, "lat_ns_mean", 0 < h->count ? h->sum_ps / (double) h->count * 1e-3 : 0.0);
    if (0.0 < c->bytes_factor) {
        bench_json_num(j, "bw_MBps", cell_MBps(c, p50_ns));
    }
    bench_json_num(j, "rate_msgps", p50_ns > 0.0 ? 1e9 / p50_ns : 0.0);
    bench_json_str(j, "verified", c->verified);
    bench_noise_json(j, "noise", c->noise);
    if (c->histogram) {
        histogram_json(j, h);
    }
}

void bench_cell_text(const bench_cell_t *c)
{
    if (NULL == c) {
        printf("%10s %12s %12s %12s %12s %12s %9s\n", "bytes", "p50", "min", "p90", "p99", "MB/s",
               "iters");
        return;
    }
    const bench_hist_t *h = c->hist;
    double p50_ns = bench_hist_quantile(h, 0.5) * 1e-3;
    printf("%10zu %12.3f %12.3f %12.3f %12.3f %12.1f %9ld%s\n", c->size, p50_ns * 1e-3,
           0 < h->count ? (double) h->min_ps * 1e-6 : 0.0, bench_hist_quantile(h, 0.9) * 1e-6,
           bench_hist_quantile(h, 0.99) * 1e-6, cell_MBps(c, p50_ns), c->iterations,
           'w' == c->verified[0] ? " WRONG BYTES" : "");
    fflush(stdout);
}

/* -------------------------------------------------------------- context */

static bool interesting(const char *base)
{
    static const char *const starts[] = {"mca_",  "libmpi",   "libopen-",
                                         "libuc", "libprrte", "libpmix"};
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        if (0 == strncmp(base, starts[i], strlen(starts[i]))) {
            return NULL != strstr(base, ".so");
        }
    }
    return false;
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

void bench_maps(char *out, size_t cap)
{
    enum { MAX = 512 };
    char *list[MAX];
    int count = 0;
    char line[PATH_MAX + 128];
    FILE *f = fopen("/proc/self/maps", "r");
    out[0] = '\0';
    if (NULL == f) {
        return;
    }
    while (count < MAX && NULL != fgets(line, sizeof(line), f)) {
        char *path = strchr(line, '/');
        if (NULL == path) {
            continue;
        }
        path[strcspn(path, "\n")] = '\0';
        if (interesting(strrchr(path, '/') + 1)
            && (0 == count || 0 != strcmp(list[count - 1], path))) {
            list[count] = strdup(path);
            count += NULL != list[count];
        }
    }
    fclose(f);
    qsort(list, (size_t) count, sizeof(list[0]), compare_text);
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        size_t len = strlen(list[i]);
        if ((0 == i || 0 != strcmp(list[i - 1], list[i])) && used + len + 2 <= cap) {
            memcpy(out + used, list[i], len);
            used += len;
            out[used++] = '\n';
        }
    }
    out[used] = '\0';
    for (int i = 0; i < count; i++) {
        free(list[i]);
    }
}

void bench_files_json(bench_json_t *j, const char *all, int np, size_t cap)
{
    bench_json_array(j, "files");
    for (int i = 0; i < np; i++) {
        const char *mine = all + (size_t) i * cap;
        bool seen = false;
        for (int k = 0; k < i && !seen; k++) {
            seen = 0 == strcmp(all + (size_t) k * cap, mine);
        }
        if (seen) {
            continue;
        }
        bench_json_object(j, NULL);
        bench_json_array(j, "ranks");
        for (int k = i; k < np; k++) {
            if (0 == strcmp(all + (size_t) k * cap, mine)) {
                bench_json_int(j, NULL, k);
            }
        }
        bench_json_close(j, ']');
        bench_json_array(j, "paths");
        char *save = NULL;
        char *copy = strdup(mine);
        for (char *line = NULL != copy ? strtok_r(copy, "\n", &save) : NULL; NULL != line;
             line = strtok_r(NULL, "\n", &save)) {
            bench_json_str(j, NULL, line);
        }
        free(copy);
        bench_json_close(j, ']');
        bench_json_close(j, '}');
    }
    bench_json_close(j, ']');
}

/* First line of a small file, or of the line that starts with key; "" if there is none. */
static void first_line(const char *path, const char *key, char *out, size_t cap)
{
    out[0] = '\0';
    FILE *f = fopen(path, "r");
    if (NULL == f) {
        return;
    }
    char line[512];
    while (NULL != fgets(line, sizeof(line), f)) {
        if (NULL == key || 0 == strncmp(line, key, strlen(key))) {
            char *start = line;
            if (NULL != key) {
                start = strchr(line, ':');
                start = NULL == start ? line : start + 1;
            }
            start += strspn(start, " \t");
            start[strcspn(start, "\n")] = '\0';
            snprintf(out, cap, "%s", start);
            break;
        }
    }
    fclose(f);
}

static void caches_json(bench_json_t *j)
{
    bench_json_array(j, "caches");
    for (int i = 0; i < 8; i++) {
        char path[128];
        char level[16];
        char type[32];
        char size[32];
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        first_line(path, NULL, level, sizeof(level));
        if ('\0' == level[0]) {
            break;
        }
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        first_line(path, NULL, type, sizeof(type));
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        first_line(path, NULL, size, sizeof(size));
        char text[96];
        snprintf(text, sizeof(text), "L%s %s %s", level, type, size);
        bench_json_str(j, NULL, text);
    }
    bench_json_close(j, ']');
}

void bench_context_json(bench_json_t *j, const bench_clock_t *clock)
{
    char text[512];
    struct utsname u;
    first_line("/proc/cpuinfo", "model name", text, sizeof(text));
    bench_json_str(j, "host_cpu", text);
    bench_json_int(j, "cores", bench_core_count());
    caches_json(j);
    if (0 == uname(&u)) {
        snprintf(text, sizeof(text), "%s %s %s", u.sysname, u.release, u.machine);
        bench_json_str(j, "kernel", text);
    }
    bench_json_str(j, "libc", gnu_get_libc_version());
#if defined(__clang__)
    bench_json_str(j, "compiler", "clang " __VERSION__);
#else
    bench_json_str(j, "compiler", "gcc " __VERSION__);
#endif
    bench_json_str(j, "flags", BENCH_CFLAGS);
    first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", NULL, text, sizeof(text));
    bench_json_str(j, "governor", text);
    first_line("/sys/kernel/mm/transparent_hugepage/enabled", NULL, text, sizeof(text));
    bench_json_str(j, "transparent_hugepage", text);
    bench_json_object(j, "clock");
    bench_json_str(j, "name", "CLOCK_MONOTONIC_RAW");
    bench_json_num(j, "read_ns", clock->read_ns);
    bench_json_num(j, "resolution_ns", clock->resolution_ns);
    bench_json_close(j, '}');
}

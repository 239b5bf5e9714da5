/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * Implementation of mpi_check.h: options, watchdog, TAP for a whole job, patterns, buffers,
 * limits of the library under test.
 *
 * Layer: test, MPI programs only. Called by every m_*.c. All output goes to stdout, because a
 * correct run of the components must leave stderr empty and the runner checks that.
 * Source of the mixing constants: the finaliser known as splitmix64.
 */
#define _GNU_SOURCE
#include "mpi_check.h"

#include <dirent.h>
#include <execinfo.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MAX_FAIL_LINES 20
/* Buffers up to here come from the heap, where their addresses are soon used again. */
#define HEAP_LIMIT 65536
#define GOLDEN     UINT64_C(0x9e3779b97f4a7c15)

int chk_rank = -1;
int chk_np = 0;
bool chk_long = false;
uint64_t chk_seed = 0;

static const char *prog = "?";
static int opt_argc;
static char **opt_argv;
static MPI_Comm report_comm = MPI_COMM_NULL;
static int tests_done;
static int tests_failed;
static _Atomic uint64_t failures;
static uint64_t failures_reported;
static _Atomic uint64_t checked_pieces; /* buffers compared with what had to be in them */
static _Atomic uint64_t checked_bytes;
static _Atomic int fail_lines;
static char phase[160] = "start";
static unsigned watchdog_s = 120;
static bool tool_open;

/* A counter's handle counts from the moment it was bound, so handles are made right after
 * MPI_Init. */
typedef struct watch_t {
    char name[128];
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    MPI_Datatype type;
    bool bound;
} watch_t;

static watch_t watches[32];
static size_t nwatches;
static void watch_asked(const char *list);

/* ---- small helpers ----------------------------------------------------------------------- */

double chk_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double) ts.tv_sec + 1e-9 * (double) ts.tv_nsec;
}

void chk_sleep_ms(unsigned ms)
{
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long) (ms % 1000) * 1000000L};
    while (0 != nanosleep(&ts, &ts)) {
    }
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* One write per line, so that lines of several ranks do not mix within the launcher's pipes. */
static void say(const char *prefix, const char *fmt, va_list ap)
{
    char line[1024];
    int n = snprintf(line, sizeof(line), "%s", prefix);
    n += vsnprintf(line + n, sizeof(line) - (size_t) n - 1, fmt, ap);
    if (n > (int) sizeof(line) - 2) {
        n = (int) sizeof(line) - 2;
    }
    line[n++] = '\n';
    fflush(stdout);
    for (int done = 0; done < n;) {
        ssize_t w = write(STDOUT_FILENO, line + done, (size_t) (n - done));
        if (w <= 0) {
            break;
        }
        done += (int) w;
    }
}

CHK_PRINTF(1, 2) static void print_line(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("", fmt, ap);
    va_end(ap);
}

void chk_diag(const char *fmt, ...)
{
    if (0 != chk_rank) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    say("# ", fmt, ap);
    va_end(ap);
}

void chk_fail(const char *fmt, ...)
{
    char prefix[64];
    va_list ap;
    atomic_fetch_add(&failures, 1);
    if (atomic_fetch_add(&fail_lines, 1) >= MAX_FAIL_LINES) {
        return;
    }
    snprintf(prefix, sizeof(prefix), "# rank %d: ", chk_rank);
    va_start(ap, fmt);
    say(prefix, fmt, ap);
    va_end(ap);
}

uint64_t chk_failures(void)
{
    return atomic_load(&failures);
}

void chk_phase(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(phase, sizeof(phase), fmt, ap);
    va_end(ap);
}

void chk_mpi_error(const char *call, int rc, const char *file, int line)
{
    char text[MPI_MAX_ERROR_STRING] = "?";
    int len = 0;
    MPI_Error_string(rc, text, &len);
    chk_fail("%s:%d: %.200s returned %d (%s) in phase \"%s\"", file, line, call, rc, text, phase);
    print_line("Bail out! rank %d of %s: an MPI call failed", chk_rank, prog);
    MPI_Abort(MPI_COMM_WORLD, 3);
    _exit(3);
}

/* ---- watchdog ----------------------------------------------------------------------------- */

/* The formatting functions are not async-signal-safe; a process that hangs has little to lose, and
 * the stacks are what the reader needs. */
static void watchdog_fired(int sig)
{
    void *frames[48];
    char line[320];
    int n = snprintf(line, sizeof(line),
                     "# rank %d: %s in %s, phase \"%s\" (seed %llu); stack follows\n", chk_rank,
                     SIGALRM == sig ? "WATCHDOG: no end" : "ended by SIGTERM", prog, phase,
                     (unsigned long long) chk_seed);
    if (write(STDOUT_FILENO, line, (size_t) n) < 0) {
        _exit(124);
    }
    int depth = backtrace(frames, 48);
    backtrace_symbols_fd(frames, depth, STDOUT_FILENO);
    if (SIGALRM == sig) {
        /* The other ranks' watchdogs fire about now: let them speak before the launcher ends us. */
        struct timespec ts = {.tv_sec = 1};
        nanosleep(&ts, NULL);
    }
    _exit(124);
}

void chk_expect_end(void)
{
    signal(SIGTERM, SIG_DFL);
}

void chk_watchdog(unsigned seconds)
{
    const char *scale = getenv("SMX_TIME_SCALE");
    alarm(NULL == scale ? seconds : seconds * (unsigned) strtoul(scale, NULL, 0));
}

/* ---- options ------------------------------------------------------------------------------ */

const char *chk_opt(const char *name, const char *dflt)
{
    const char *value = dflt;
    const size_t len = strlen(name);
    for (int i = 1; i < opt_argc; i++) {
        if (0 != strncmp(opt_argv[i], "--", 2) || 0 != strncmp(opt_argv[i] + 2, name, len)) {
            continue;
        }
        if ('=' == opt_argv[i][2 + len]) {
            value = opt_argv[i] + 3 + len;
        } else if ('\0' == opt_argv[i][2 + len]) {
            value = "1";
        }
    }
    return value;
}

static uint64_t parse_u64(const char *text, const char **end_out)
{
    char *end;
    uint64_t v = strtoull(text, &end, 0);
    switch (*end) {
    case 'k':
    case 'K':
        v <<= 10;
        end++;
        break;
    case 'm':
    case 'M':
        v <<= 20;
        end++;
        break;
    case 'g':
    case 'G':
        v <<= 30;
        end++;
        break;
    default:
        break;
    }
    if (NULL != end_out) {
        *end_out = end;
    }
    return v;
}

uint64_t chk_opt_u64(const char *name, uint64_t dflt)
{
    const char *text = chk_opt(name, NULL);
    return NULL == text ? dflt : parse_u64(text, NULL);
}

void chk_options(int argc, char **argv)
{
    const char *level;
    const char *env;
    opt_argc = argc;
    opt_argv = argv;
    prog = NULL == strrchr(argv[0], '/') ? argv[0] : strrchr(argv[0], '/') + 1;

    env = getenv("SMX_LEVEL");
    level = chk_opt("level", NULL == env ? "quick" : env);
    chk_long = 0 == strcmp(level, "long");

    env = getenv("SMX_SEED");
    chk_seed = NULL != chk_opt("seed", NULL) ? chk_opt_u64("seed", 0)
               : NULL != env                 ? strtoull(env, NULL, 0)
                                             : 0;

    watchdog_s = (unsigned) chk_opt_u64("watchdog", chk_long ? 1200 : 120);
    struct sigaction sa = {.sa_handler = watchdog_fired};
    void *frames[2];
    backtrace(frames, 2); /* loads the unwinder now rather than inside the handler */
    sigemptyset(&sa.sa_mask);
    sigaction(SIGALRM, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    chk_watchdog(watchdog_s);
}

void chk_started(void)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &chk_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &chk_np);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHK(MPI_Comm_dup(MPI_COMM_WORLD, &report_comm));
    if (0 == chk_seed && 0 == chk_rank) {
        struct timespec ts;
        clock_gettime(CLOCK_REALTIME, &ts);
        chk_seed = mix((uint64_t) ts.tv_nsec + GOLDEN * (uint64_t) ts.tv_sec) % 1000000007 + 1;
    }
    CHK(MPI_Bcast(&chk_seed, 1, MPI_UINT64_T, 0, report_comm));
    watch_asked(chk_opt("expect-pvar", getenv("SMX_EXPECT_PVAR")));
    watch_asked(chk_opt("show-pvar", NULL));
    chk_diag("%s np=%d level=%s seed=%llu", prog, chk_np, chk_long ? "long" : "quick",
             (unsigned long long) chk_seed);
}

void chk_init(int argc, char **argv, int required)
{
    int provided = 0;
    chk_options(argc, argv);
    if (NULL != chk_opt("multiple", NULL)) {
        required = MPI_THREAD_MULTIPLE; /* locks become real, which one thread can find held, too */
    }
    if (MPI_SUCCESS != MPI_Init_thread(&argc, &argv, required, &provided)) {
        print_line("Bail out! %s: MPI_Init_thread failed", prog);
        _exit(3);
    }
    chk_started();
    if (provided < required) {
        chk_skip_all("the library does not give the thread level");
    }
}

/* ---- results ------------------------------------------------------------------------------ */

void chk_result(const char *fmt, ...)
{
    char name[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);

    const uint64_t now = atomic_load(&failures);
    uint64_t mine = now - failures_reported;
    uint64_t all = 0;
    failures_reported = now;
    CHK(MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, report_comm));
    tests_done++;
    if (0 != all) {
        tests_failed++;
    }
    if (0 == chk_rank) {
        print_line("%sok %d - %s", 0 == all ? "" : "not ", tests_done, name);
        if (0 != all) {
            print_line("#   %llu failed checks over all ranks; again with --seed=%llu",
                       (unsigned long long) all, (unsigned long long) chk_seed);
        }
    }
    atomic_store(&fail_lines, 0);
}

void chk_todo(const char *name, uint64_t found, const char *reason)
{
    uint64_t all = 0;
    CHK(MPI_Allreduce(&found, &all, 1, MPI_UINT64_T, MPI_SUM, report_comm));
    tests_done++;
    if (0 == chk_rank && 0 == all) {
        print_line("ok %d - %s", tests_done, name);
    } else if (0 == chk_rank) {
        print_line("not ok %d - %s # TODO %s (%llu times)", tests_done, name, reason,
                   (unsigned long long) all);
    }
}

void chk_skip(const char *name, const char *reason)
{
    tests_done++;
    if (0 == chk_rank) {
        print_line("ok %d - %s # SKIP %s", tests_done, name, reason);
    }
}

void chk_skip_all(const char *reason)
{
    if (0 == chk_rank) {
        print_line("1..0 # SKIP %s", reason);
    }
    MPI_Finalize();
    exit(0 == chk_rank ? 77 : 0);
}

/* --expect-pvar=NAME:MIN[:MAX][,NAME...]: a test about a mechanism proves that it was in use. */
static void check_expected_pvars(void)
{
    for (size_t i = 0; i < nwatches; i++) {
        uint64_t sum = 0;
        if (chk_pvar_sum(watches[i].name, &sum)) {
            chk_diag("counter %s = %llu over all ranks", watches[i].name, (unsigned long long) sum);
        }
    }

    const char *list = chk_opt("expect-pvar", getenv("SMX_EXPECT_PVAR"));
    while (NULL != list && '\0' != *list) {
        char name[128];
        size_t len = strcspn(list, ":,");
        uint64_t min = 1;
        uint64_t max = UINT64_MAX;
        uint64_t sum = 0;
        snprintf(name, sizeof(name), "%.*s", (int) len, list);
        list += len;
        if (':' == *list) {
            min = parse_u64(list + 1, &list);
        }
        if (':' == *list) {
            max = parse_u64(list + 1, &list);
        }
        if (',' == *list) {
            list++;
        }
        if (!chk_pvar_sum(name, &sum)) {
            if (0 == chk_rank) {
                chk_fail("the library has no performance variable %s", name);
            }
        } else if ((sum < min || sum > max) && 0 == chk_rank) {
            chk_fail("%s is %llu over all ranks, expected %llu to %llu", name,
                     (unsigned long long) sum, (unsigned long long) min, (unsigned long long) max);
        }
        chk_result("counter %s = %llu lies in the expected range", name, (unsigned long long) sum);
    }
}

/* How much a run has looked at: a fault that stopped all traffic would leave nothing wrong either. */
static void report_checked(void)
{
    uint64_t mine[2] = {atomic_load(&checked_pieces), atomic_load(&checked_bytes)};
    uint64_t all[2] = {0, 0};
    CHK(MPI_Reduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, 0, report_comm));
    if (0 == chk_rank) {
        print_line("# checked %llu bytes in %llu messages", (unsigned long long) all[1],
                   (unsigned long long) all[0]);
    }
}

int chk_report(void)
{
    check_expected_pvars();
    report_checked();
    if (chk_failures() != failures_reported) {
        chk_result("no failure outside a named check");
    }
    if (0 == chk_rank) {
        print_line("1..%d", tests_done);
    }
    return 0 == tests_failed ? 0 : 1;
}

int chk_done(void)
{
    chk_phase("end");
    int status = chk_report();
    if (MPI_COMM_NULL != report_comm) {
        MPI_Comm_free(&report_comm);
    }
    if (tool_open) {
        MPI_T_finalize();
    }
    MPI_Finalize();
    return status;
}

/* ---- random numbers ----------------------------------------------------------------------- */

chk_rng_t chk_rng(uint64_t a, uint64_t b, uint64_t c)
{
    chk_rng_t rng = {mix(chk_seed * GOLDEN ^ mix(a + GOLDEN) ^ mix(b * 3 + 1) ^ mix(c * 5 + 2))};
    return rng;
}

uint64_t chk_next(chk_rng_t *rng)
{
    rng->s += GOLDEN;
    return mix(rng->s);
}

uint64_t chk_below(chk_rng_t *rng, uint64_t n)
{
    return chk_next(rng) % n;
}

size_t chk_rand_size(chk_rng_t *rng, size_t max)
{
    unsigned bits = 0;
    while (bits < 63 && (UINT64_C(1) << bits) <= max) {
        bits++;
    }
    const unsigned pick = (unsigned) chk_below(rng, bits + 1);
    size_t size = 0 == pick ? 0 : (size_t) 1 << (pick - 1);
    switch (chk_below(rng, 4)) {
    case 0:
        break;
    case 1:
        size += 1;
        break;
    case 2:
        size -= 0 == size ? 0 : 1;
        break;
    default:
        size += 0 == size ? 0 : chk_below(rng, size);
        break;
    }
    return size > max ? max : size;
}

/* ---- patterns ----------------------------------------------------------------------------- */

static uint64_t key_of(const chk_msg_t *m)
{
    return mix(mix(chk_seed + (uint64_t) (uint32_t) m->src * GOLDEN)
               + (uint64_t) (uint32_t) m->tag * UINT64_C(0xd6e8feb86659fd93) + m->seq);
}

static inline uint64_t word_of(uint64_t key, uint64_t i)
{
    return mix(key + (i + 1) * GOLDEN);
}

static inline unsigned char byte_of(uint64_t key, uint64_t off)
{
    return (unsigned char) (word_of(key, off >> 3) >> (8 * (off & 7)));
}

unsigned char chk_byte(const chk_msg_t *m, size_t off)
{
    return byte_of(key_of(m), off);
}

void chk_fill(const chk_msg_t *m, size_t off, void *p, size_t len)
{
    const uint64_t key = key_of(m);
    unsigned char *out = p;
    const size_t end = off + len;
    for (; off < end && 0 != (off & 7); off++) {
        *out++ = byte_of(key, off);
    }
    for (; off + 8 <= end; off += 8) {
        const uint64_t w = word_of(key, off >> 3);
        memcpy(out, &w, 8);
        out += 8;
    }
    for (; off < end; off++) {
        *out++ = byte_of(key, off);
    }
}

/* The slow path: find the first wrong byte, count all, and say what the bytes look like. */
static void count_checked(size_t len)
{
    atomic_fetch_add_explicit(&checked_pieces, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&checked_bytes, len, memory_order_relaxed);
}

static void report_difference(const chk_msg_t *m, size_t off, const unsigned char *p, size_t len)
{
    const uint64_t key = key_of(m);
    size_t first = SIZE_MAX;
    size_t last = 0;
    size_t wrong = 0;
    size_t poison = 0;
    for (size_t i = 0; i < len; i++) {
        if (p[i] != byte_of(key, off + i)) {
            first = SIZE_MAX == first ? i : first;
            last = i;
            wrong++;
            poison += CHK_POISON_BYTE == p[i];
        }
    }
    if (SIZE_MAX == first) {
        return;
    }
    chk_fail(
        "message from peer %d tag %d seq %llu size %zu: offset %zu expected 0x%02x got 0x%02x; "
        "%zu wrong bytes up to offset %zu%s (phase %s)",
        m->src, m->tag, (unsigned long long) m->seq, m->size, off + first,
        byte_of(key, off + first), p[first], wrong, off + last,
        poison == wrong ? ", never written" : "", phase);
}

bool chk_verify(const chk_msg_t *m, size_t off, const void *p, size_t len)
{
    const uint64_t key = key_of(m);
    const unsigned char *in = p;
    const size_t start = off;
    const size_t end = off + len;
    bool same = true;
    count_checked(len);
    for (; off < end && 0 != (off & 7); off++) {
        same = same && *in++ == byte_of(key, off);
    }
    for (; same && off + 8 <= end; off += 8) {
        uint64_t w;
        memcpy(&w, in, 8);
        in += 8;
        same = w == word_of(key, off >> 3);
    }
    for (; same && off < end; off++) {
        same = *in++ == byte_of(key, off);
    }
    if (!same) {
        report_difference(m, start, p, len);
    }
    return same;
}

void chk_arm(void *p, size_t len)
{
    unsigned char *b = p;
    memset(b - CHK_GUARD, CHK_GUARD_BYTE, CHK_GUARD);
    memset(b, CHK_POISON_BYTE, len);
    memset(b + len, CHK_GUARD_BYTE, CHK_GUARD);
}

static bool all_bytes(const unsigned char *p, size_t len, unsigned char want, size_t *at_out)
{
    /* equal to its first byte and to itself shifted by one: the fast way to see one value */
    if (0 == len || (want == p[0] && 0 == memcmp(p, p + 1, len - 1))) {
        return true;
    }
    for (size_t i = 0; i < len; i++) {
        if (want != p[i]) {
            *at_out = i;
            return false;
        }
    }
    return true;
}

bool chk_guards_quiet(const void *p, size_t len)
{
    const unsigned char *b = p;
    size_t at;
    return all_bytes(b - CHK_GUARD, CHK_GUARD, CHK_GUARD_BYTE, &at)
           && all_bytes(b + len, CHK_GUARD, CHK_GUARD_BYTE, &at);
}

bool chk_guards(const chk_msg_t *m, const void *p, size_t len)
{
    const unsigned char *b = p;
    size_t at = 0;
    if (!all_bytes(b - CHK_GUARD, CHK_GUARD, CHK_GUARD_BYTE, &at)) {
        chk_fail("message from peer %d tag %d seq %llu size %zu: byte %zu before the buffer was "
                 "overwritten: expected 0x%02x got 0x%02x",
                 m->src, m->tag, (unsigned long long) m->seq, m->size, CHK_GUARD - at,
                 CHK_GUARD_BYTE, b[(ptrdiff_t) at - CHK_GUARD]);
        return false;
    }
    if (!all_bytes(b + len, CHK_GUARD, CHK_GUARD_BYTE, &at)) {
        chk_fail(
            "message from peer %d tag %d seq %llu size %zu: overrun, offset %zu of a buffer of "
            "%zu bytes: expected 0x%02x got 0x%02x",
            m->src, m->tag, (unsigned long long) m->seq, m->size, len + at, len, CHK_GUARD_BYTE,
            b[len + at]);
        return false;
    }
    return true;
}

bool chk_received(const chk_msg_t *m, const void *p, size_t cap, size_t got)
{
    const unsigned char *b = p;
    size_t at = 0;
    bool ok = chk_verify(m, 0, p, got);
    ok = chk_guards(m, p, cap) && ok;
    if (!all_bytes(b + got, cap - got, CHK_POISON_BYTE, &at)) {
        chk_fail("message from peer %d tag %d seq %llu size %zu: offset %zu behind the message was "
                 "written: expected 0x%02x got 0x%02x",
                 m->src, m->tag, (unsigned long long) m->seq, m->size, got + at, CHK_POISON_BYTE,
                 b[got + at]);
        ok = false;
    }
    return ok;
}

bool chk_status(const chk_msg_t *m, const MPI_Status *st, size_t bytes)
{
    MPI_Count count = -1;
    bool ok = true;
    if (st->MPI_SOURCE != m->src || st->MPI_TAG != m->tag) {
        chk_fail("status of message from peer %d tag %d size %zu says source %d tag %d", m->src,
                 m->tag, m->size, st->MPI_SOURCE, st->MPI_TAG);
        ok = false;
    }
    if (SIZE_MAX != bytes) {
        MPI_Get_elements_x(st, MPI_BYTE, &count);
        if ((MPI_Count) bytes != count) {
            chk_fail("status of message from peer %d tag %d size %zu: expected count %zu got %lld",
                     m->src, m->tag, m->size, bytes, (long long) count);
            ok = false;
        }
    }
    return ok;
}

/* ---- memory ------------------------------------------------------------------------------- */

static void out_of_memory(size_t len)
{
    print_line("Bail out! rank %d of %s: no memory for %zu bytes", chk_rank, prog, len);
    _exit(3);
}

chk_buf_t chk_buf_new(size_t cap)
{
    const char *env = getenv("SMX_TEST_MEMFD");
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    const size_t margin = page + ((CHK_GUARD + page - 1) / page) * page;
    chk_buf_t buf = {.cap = cap, .fd = -1};
    buf.map_len = 2 * margin + (cap + page - 1) / page * page;
    if (cap <= HEAP_LIMIT && (NULL == env || '1' != *env)) {
        buf.map = aligned_alloc(page, buf.map_len);
        if (NULL == buf.map) {
            out_of_memory(buf.map_len);
        }
        buf.p = buf.map + margin;
        return buf;
    }
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    if (NULL != env && '1' == *env) {
        flags = MAP_SHARED;
        buf.fd = memfd_create("smx-test", MFD_CLOEXEC);
        if (buf.fd < 0 || 0 != ftruncate(buf.fd, (off_t) buf.map_len)) {
            out_of_memory(buf.map_len);
        }
    }
    buf.map = mmap(NULL, buf.map_len, PROT_READ | PROT_WRITE, flags, buf.fd, 0);
    if (MAP_FAILED == buf.map) {
        out_of_memory(buf.map_len);
    }
    buf.p = buf.map + margin;
    return buf;
}

void chk_buf_free(chk_buf_t *buf)
{
    if (buf->fd < 0 && buf->cap <= HEAP_LIMIT) {
        free(buf->map);
        buf->map = NULL;
        return;
    }
    munmap(buf->map, buf->map_len);
    if (buf->fd >= 0) {
        close(buf->fd);
    }
    buf->map = NULL;
    buf->fd = -1;
}

static size_t edge_map_len(size_t len, size_t page)
{
    return (len + page - 1) / page * page + 2 * page;
}

void *chk_edge_new(size_t len)
{
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    const size_t map_len = edge_map_len(len, page);
    unsigned char *map = mmap(NULL, map_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                              -1, 0);
    if (MAP_FAILED == map || 0 != mprotect(map + map_len - page, page, PROT_NONE)) {
        out_of_memory(map_len);
    }
    return map + map_len - page - len;
}

void chk_edge_free(void *p, size_t len)
{
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    const size_t map_len = edge_map_len(len, page);
    munmap((unsigned char *) p + len + page - map_len, map_len);
}

/* ---- what the library tells --------------------------------------------------------------- */

static bool tool_start(void)
{
    int level = MPI_THREAD_SINGLE;
    int provided;
    /* The level is asked for anew: Open MPI 5.0.7 takes the one given here for that of MPI itself. With
     * a lower one ob1 goes on as if there was one thread, and hands one receive request to two. */
    MPI_Query_thread(&level);
    if (!tool_open && MPI_SUCCESS == MPI_T_init_thread(level, &provided)) {
        tool_open = true;
    }
    return tool_open;
}

/* Integer of any of the types that MPI_T may name; count is 1 for all that interest us. */
static bool widen(MPI_Datatype type, const void *value, uint64_t *out)
{
    if (MPI_INT == type) {
        int v;
        memcpy(&v, value, sizeof(v));
        *out = v < 0 ? UINT64_MAX : (uint64_t) v;
    } else if (MPI_UNSIGNED == type) {
        unsigned v;
        memcpy(&v, value, sizeof(v));
        *out = v;
    } else if (MPI_UNSIGNED_LONG == type) {
        unsigned long v;
        memcpy(&v, value, sizeof(v));
        *out = v;
    } else if (MPI_UNSIGNED_LONG_LONG == type || MPI_UINT64_T == type || MPI_COUNT == type) {
        memcpy(out, value, sizeof(*out));
    } else {
        return false;
    }
    return true;
}

bool chk_cvar(const char *name, uint64_t *value_out)
{
    int index;
    int count = 0;
    MPI_T_cvar_handle handle;
    bool ok = false;
    if (!tool_start() || MPI_SUCCESS != MPI_T_cvar_get_index(name, &index)) {
        return false;
    }
    char cvar[256];
    char desc[8];
    int len = sizeof(cvar);
    int desc_len = sizeof(desc);
    int verbosity;
    int bind;
    int scope;
    MPI_Datatype type;
    if (MPI_SUCCESS
        != MPI_T_cvar_get_info(index, cvar, &len, &verbosity, &type, NULL, desc, &desc_len, &bind,
                               &scope)) {
        return false;
    }
    if (MPI_SUCCESS == MPI_T_cvar_handle_alloc(index, NULL, &handle, &count)) {
        uint64_t raw[64];
        if (count <= 1 && MPI_SUCCESS == MPI_T_cvar_read(handle, raw)) {
            ok = widen(type, raw, value_out);
        }
        MPI_T_cvar_handle_free(&handle);
    }
    return ok;
}

static void watch_bind(watch_t *w)
{
    int total = 0;
    if (!tool_start() || MPI_SUCCESS != MPI_T_pvar_get_num(&total)) {
        return;
    }
    for (int i = 0; i < total && !w->bound; i++) {
        char pvar[256];
        char desc[8];
        int len = sizeof(pvar);
        int desc_len = sizeof(desc);
        int verbosity;
        int class;
        int bind;
        int readonly;
        int continuous;
        int atomic;
        int count = 0;
        if (MPI_SUCCESS
                != MPI_T_pvar_get_info(i, pvar, &len, &verbosity, &class, &w->type, NULL, desc,
                                       &desc_len, &bind, &readonly, &continuous, &atomic)
            || 0 != strcmp(w->name, pvar)
            || MPI_SUCCESS != MPI_T_pvar_session_create(&w->session)) {
            continue;
        }
        if (MPI_SUCCESS == MPI_T_pvar_handle_alloc(w->session, i, NULL, &w->handle, &count)
            && count <= 1) {
            if (!continuous) {
                MPI_T_pvar_start(w->session, w->handle);
            }
            w->bound = true;
        }
    }
}

static watch_t *watch(const char *name)
{
    for (size_t i = 0; i < nwatches; i++) {
        if (0 == strcmp(watches[i].name, name)) {
            return &watches[i];
        }
    }
    if (nwatches == sizeof(watches) / sizeof(watches[0])) {
        return NULL;
    }
    watch_t *w = &watches[nwatches++];
    snprintf(w->name, sizeof(w->name), "%s", name);
    watch_bind(w);
    return w;
}

bool chk_pvar(const char *name, uint64_t *value_out)
{
    uint64_t raw[64] = {0};
    watch_t *w = watch(name);
    return NULL != w && w->bound && MPI_SUCCESS == MPI_T_pvar_read(w->session, w->handle, raw)
           && widen(w->type, raw, value_out);
}

/* The names in --expect-pvar and --show-pvar, bound before the first message. */
static void watch_asked(const char *list)
{
    while (NULL != list && '\0' != *list) {
        char name[128];
        snprintf(name, sizeof(name), "%.*s", (int) strcspn(list, ":,"), list);
        watch(name);
        list += strcspn(list, ",");
        list += ',' == *list ? 1 : 0;
    }
}

bool chk_pvar_sum(const char *name, uint64_t *sum_out)
{
    uint64_t mine[2] = {0, 0};
    uint64_t all[2] = {0, 0};
    mine[1] = chk_pvar(name, &mine[0]) ? 1 : 0;
    CHK(MPI_Allreduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, report_comm));
    *sum_out = all[0];
    return 0 != all[1];
}

/* ---- sizes -------------------------------------------------------------------------------- */

static int compare_sizes(const void *a, const void *b)
{
    const size_t x = *(const size_t *) a;
    const size_t y = *(const size_t *) b;
    return x < y ? -1 : x > y;
}

struct size_list {
    size_t n;
    size_t cap;
    size_t *v;
};

static void add_size(struct size_list *list, size_t size)
{
    if (list->n == list->cap) {
        list->cap = 0 == list->cap ? 256 : 2 * list->cap;
        list->v = realloc(list->v, list->cap * sizeof(*list->v));
        if (NULL == list->v) {
            out_of_memory(list->cap * sizeof(*list->v));
        }
    }
    list->v[list->n++] = size;
}

/* A limit counts payload with or without the headers of the layers above: 14 to 72 bytes there. The
 * quick list has the limit itself, the two headers of plain messages and one for each other step. */
static void add_limit(struct size_list *list, uint64_t limit, uint64_t max)
{
    static const int header[] = {0, 14, 32, 64, 8, 16, 24, 40, 48, 56, 72};
    const size_t n = chk_long ? sizeof(header) / sizeof(header[0]) : 4;
    if (limit > max + 128) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        for (int d = -1; d <= (i > 1 && !chk_long ? -1 : 1); d++) {
            const int64_t size = (int64_t) limit - header[i] + d;
            if (0 <= size && (uint64_t) size <= max) {
                add_size(list, (size_t) size);
            }
        }
    }
}

const size_t *chk_sizes(size_t max, size_t *n_out)
{
    static const char *const names[] = {
        "btl_sm_eager_limit",     "btl_sm_rndv_eager_limit",
        "btl_sm_max_send_size",   "btl_sm_max_inline_send",
        "btl_sm_fbox_size",       "btl_sm_single_copy_limit",
        "btl_sm_cooperate_limit", "btl_sm_cooperate_chunk",
        "btl_sm_memcpy_limit",    "btl_sm_min_rdma_pipeline_size",
        "smsc_cma_copy_limit",
    };
    struct size_list list = {0};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        uint64_t value = UINT64_MAX;
        if (!chk_cvar(names[i], &value)) {
            value = UINT64_MAX;
        }
        /* all ranks must walk the same list even if one of them was given other parameters */
        CHK(MPI_Bcast(&value, 1, MPI_UINT64_T, 0, report_comm));
        if (value <= max) {
            chk_diag("limit %s = %llu", names[i], (unsigned long long) value);
        }
        add_limit(&list, value, max);
        if (NULL != strstr(names[i], "fbox") && UINT64_MAX != value) {
            add_limit(&list, value / 2, max);
            add_limit(&list, value / 4, max);
            add_limit(&list, value / 8, max);
        }
        if (NULL != strstr(names[i], "chunk") && value < max / 3) {
            add_limit(&list, 2 * value, max);
            add_limit(&list, 3 * value, max);
        }
    }
    for (const char *text = chk_opt("limits", NULL); NULL != text && '\0' != *text;) {
        add_limit(&list, parse_u64(text, &text), max);
        text += ',' == *text ? 1 : 0;
        if ('\0' != *text && (*text < '0' || *text > '9')) {
            break;
        }
    }
    for (size_t p = 1; p <= max; p *= 2) {
        for (int d = -1; d <= 1; d++) {
            if (p + (size_t) d <= max) {
                add_size(&list, p + (size_t) d);
            }
        }
        if (0 == (p << 1)) {
            break;
        }
    }
    /* 44..52 lie around one cache line with a header; 4041 and 19145880 were faults elsewhere */
    static const size_t extra[] = {0,  3,  5,   7,   11,   13,   40,   44,    47,    48,
                                   49, 52, 100, 192, 1000, 3000, 4041, 12345, 81920, 19145880};
    for (size_t i = 0; i < sizeof(extra) / sizeof(extra[0]); i++) {
        if (extra[i] <= max) {
            add_size(&list, extra[i]);
        }
    }
    qsort(list.v, list.n, sizeof(*list.v), compare_sizes);
    size_t n = 0;
    for (size_t i = 0; i < list.n; i++) {
        if (0 == n || list.v[n - 1] != list.v[i]) {
            list.v[n++] = list.v[i];
        }
    }
    *n_out = n;
    return list.v;
}

/* ---- datatypes ---------------------------------------------------------------------------- */

static void layout_reserve(chk_layout_t *l, size_t nseg)
{
    l->seg = calloc(0 == nseg ? 1 : nseg, sizeof(*l->seg));
    if (NULL == l->seg) {
        out_of_memory(nseg * sizeof(*l->seg));
    }
    l->nseg = nseg;
}

static void layout_finish(chk_layout_t *l)
{
    l->total = 0;
    l->lo = PTRDIFF_MAX;
    l->hi = PTRDIFF_MIN;
    for (size_t i = 0; i < l->nseg; i++) {
        const chk_seg_t *s = &l->seg[i];
        if (0 == s->len) {
            continue;
        }
        l->total += s->len;
        l->lo = s->disp < l->lo ? s->disp : l->lo;
        l->hi = s->disp + (ptrdiff_t) s->len > l->hi ? s->disp + (ptrdiff_t) s->len : l->hi;
    }
    if (l->lo > l->hi) {
        l->lo = 0;
        l->hi = 0;
    }
}

static void layout_commit(chk_layout_t *l)
{
    CHK(MPI_Type_commit(&l->type));
    layout_finish(l);
}

chk_layout_t chk_layout_bytes(size_t n)
{
    chk_layout_t l = {.type = MPI_BYTE, .count = (int) n, .predefined = true};
    snprintf(l.name, sizeof(l.name), "bytes(%zu)", n);
    layout_reserve(&l, 1);
    l.seg[0].len = n;
    layout_finish(&l);
    return l;
}

chk_layout_t chk_layout_vector(size_t total, size_t block, size_t stride)
{
    const size_t full = total / block;
    const size_t rest = total % block;
    MPI_Datatype vec;
    chk_layout_t l = {.count = 1};
    snprintf(l.name, sizeof(l.name), "vector(%zu of %zu every %zu)", full, block, stride);
    CHK(MPI_Type_vector((int) full, (int) block, (int) stride, MPI_BYTE, &vec));
    int lens[2] = {1, (int) rest};
    MPI_Aint disps[2] = {0, (MPI_Aint) (full * stride)};
    MPI_Datatype types[2] = {vec, MPI_BYTE};
    CHK(MPI_Type_create_struct(0 == rest ? 1 : 2, lens, disps, types, &l.type));
    CHK(MPI_Type_free(&vec));
    layout_reserve(&l, full + (0 == rest ? 0 : 1));
    for (size_t i = 0; i < l.nseg; i++) {
        l.seg[i].disp = (ptrdiff_t) (i * stride);
        l.seg[i].len = i < full ? block : rest;
    }
    layout_commit(&l);
    return l;
}

chk_layout_t chk_layout_indexed(chk_rng_t *rng, size_t total, size_t nblocks, bool shuffled)
{
    chk_layout_t l = {.count = 1};
    int *lens = calloc(nblocks + 1, sizeof(*lens));
    MPI_Aint *disps = calloc(nblocks + 1, sizeof(*disps));
    size_t *order = calloc(nblocks + 1, sizeof(*order));
    if (NULL == lens || NULL == disps || NULL == order) {
        out_of_memory(nblocks);
    }
    snprintf(l.name, sizeof(l.name), "%sindexed(%zu bytes in %zu)", shuffled ? "shuffled " : "",
             total, nblocks);
    /* Even shares, varied by moving bytes between neighbours; a block may become empty. */
    for (size_t i = 0; i < nblocks; i++) {
        lens[i] = (int) (total / nblocks + (i < total % nblocks ? 1 : 0));
        order[i] = i;
    }
    for (size_t i = 0; i + 1 < nblocks; i += 2) {
        const int move = lens[i] > 0 ? (int) chk_below(rng, (uint64_t) lens[i] + 1) : 0;
        lens[i] -= move;
        lens[i + 1] += move;
    }
    if (shuffled) {
        for (size_t i = nblocks; i > 1; i--) {
            const size_t j = chk_below(rng, i);
            const size_t keep = order[i - 1];
            order[i - 1] = order[j];
            order[j] = keep;
        }
    }
    MPI_Aint at = 0;
    for (size_t i = 0; i < nblocks; i++) {
        disps[order[i]] = at;
        at += lens[order[i]] + (MPI_Aint) chk_below(rng, 20);
    }
    CHK(MPI_Type_create_hindexed((int) nblocks, lens, disps, MPI_BYTE, &l.type));
    layout_reserve(&l, nblocks);
    for (size_t i = 0; i < nblocks; i++) {
        l.seg[i].disp = disps[i];
        l.seg[i].len = (size_t) lens[i];
    }
    free(lens);
    free(disps);
    free(order);
    layout_commit(&l);
    return l;
}

struct record {
    char c;
    double d;
    int i;
    char tail[3];
};

chk_layout_t chk_layout_struct(size_t count)
{
    static const int lens[4] = {1, 1, 1, 3};
    static const MPI_Aint disps[4] = {offsetof(struct record, c), offsetof(struct record, d),
                                      offsetof(struct record, i), offsetof(struct record, tail)};
    MPI_Datatype types[4] = {MPI_CHAR, MPI_DOUBLE, MPI_INT, MPI_CHAR};
    static const size_t bytes[4] = {1, sizeof(double), sizeof(int), 3};
    MPI_Datatype rec;
    chk_layout_t l = {.count = (int) count};
    snprintf(l.name, sizeof(l.name), "struct(%zu records)", count);
    CHK(MPI_Type_create_struct(4, lens, disps, types, &rec));
    CHK(MPI_Type_create_resized(rec, 0, sizeof(struct record), &l.type));
    CHK(MPI_Type_free(&rec));
    layout_reserve(&l, 4 * count);
    for (size_t i = 0; i < l.nseg; i++) {
        l.seg[i].disp = (ptrdiff_t) (i / 4 * sizeof(struct record)) + disps[i % 4];
        l.seg[i].len = bytes[i % 4];
    }
    layout_commit(&l);
    return l;
}

chk_layout_t chk_layout_resized(size_t count, size_t block, size_t gap)
{
    MPI_Datatype cont;
    chk_layout_t l = {.count = (int) count};
    snprintf(l.name, sizeof(l.name), "resized(%zu of %zu)", count, block);
    CHK(MPI_Type_contiguous((int) block, MPI_BYTE, &cont));
    CHK(MPI_Type_create_resized(cont, -8, (MPI_Aint) (block + gap), &l.type));
    CHK(MPI_Type_free(&cont));
    layout_reserve(&l, count);
    for (size_t i = 0; i < count; i++) {
        l.seg[i].disp = (ptrdiff_t) (i * (block + gap));
        l.seg[i].len = block;
    }
    layout_commit(&l);
    return l;
}

chk_layout_t chk_layout_random(chk_rng_t *rng, size_t total)
{
    const size_t block = 1 + chk_below(rng, 1 + total / 3);
    size_t blocks = 1 + chk_below(rng, 40);
    switch (chk_below(rng, 5)) {
    case 0:
        return chk_layout_vector(total, block, block + 1 + chk_below(rng, 30));
    case 1:
        return chk_layout_indexed(rng, total, blocks, false);
    case 2:
        return chk_layout_indexed(rng, total, blocks, true);
    default:
        return chk_layout_bytes(total);
    }
}

void chk_layout_free(chk_layout_t *l)
{
    if (!l->predefined && MPI_DATATYPE_NULL != l->type) {
        CHK(MPI_Type_free(&l->type));
    }
    free(l->seg);
    l->seg = NULL;
}

void *chk_layout_base(const chk_layout_t *l, void *p)
{
    return (unsigned char *) p - l->lo;
}

size_t chk_layout_span(const chk_layout_t *l)
{
    return (size_t) (l->hi - l->lo);
}

static void layout_write(const chk_layout_t *l, unsigned char *p, const chk_msg_t *m, size_t limit)
{
    size_t off = 0;
    for (size_t i = 0; i < l->nseg && off < limit; i++) {
        const size_t len = l->seg[i].len < limit - off ? l->seg[i].len : limit - off;
        chk_fill(m, off, p + (l->seg[i].disp - l->lo), len);
        off += len;
    }
}

void chk_layout_fill(const chk_layout_t *l, void *p, const chk_msg_t *m)
{
    layout_write(l, p, m, l->total);
}

bool chk_layout_verify(const chk_layout_t *l, const void *p, const chk_msg_t *m, size_t got)
{
    const size_t span = chk_layout_span(l);
    const unsigned char *b = p;
    if (!chk_guards(m, p, span)) {
        return false;
    }
    if (1 >= l->nseg) {
        return chk_received(m, p, span, got);
    }
    unsigned char *want = malloc(span + 1);
    if (NULL == want) {
        out_of_memory(span);
    }
    memset(want, CHK_POISON_BYTE, span);
    count_checked(got);
    layout_write(l, want, m, got);
    bool same = 0 == memcmp(want, p, span);
    if (!same) {
        size_t at = 0;
        size_t wrong = 0;
        while (want[at] == b[at]) {
            at++;
        }
        for (size_t i = at; i < span; i++) {
            wrong += want[i] != b[i];
        }
        chk_fail("message from peer %d tag %d seq %llu size %zu, %s: byte %zu of the span of %zu "
                 "expected 0x%02x got 0x%02x, %zu wrong bytes (phase %s)",
                 m->src, m->tag, (unsigned long long) m->seq, m->size, l->name, at, span, want[at],
                 b[at], wrong, phase);
    }
    free(want);
    return same;
}

/* ---- process ------------------------------------------------------------------------------ */

size_t chk_rss_kib(void)
{
    unsigned long total = 0;
    unsigned long resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (NULL == f) {
        return 0;
    }
    if (2 != fscanf(f, "%lu %lu", &total, &resident)) {
        resident = 0;
    }
    fclose(f);
    return resident * ((size_t) sysconf(_SC_PAGESIZE) / 1024);
}

unsigned chk_count_files(const char *dir)
{
    unsigned n = 0;
    DIR *d = opendir(dir);
    if (NULL == d) {
        return 0;
    }
    for (struct dirent *e; NULL != (e = readdir(d));) {
        n += '.' != e->d_name[0];
    }
    closedir(d);
    return n;
}

unsigned chk_open_fds(void)
{
    return chk_count_files("/proc/self/fd") - 1;
}

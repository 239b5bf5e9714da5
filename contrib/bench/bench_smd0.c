/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * bench_smd0 send|isend|overlap [options]: one producer (rank 0) that feeds event builders (all
 * other ranks), after the pattern of an experiment's data reader. The producer's tasks, each with
 * its total time and number:
 *
 *   GOTCHUNK     read the next chunk of a generated file of events of uneven size
 *   GOTEB        an event builder has asked for work
 *   GOTREPACK    the next batch of events is packed into a message of its own
 *   DONEWITHEB   the message is handed over (send) or an earlier one to that builder is complete
 *   GOTSTEPHIST  the step records that this builder has not seen yet are added
 *   GOTSTEP      a step record is taken from the file
 *
 * send:    blocking receive of the request, blocking send
 * isend:   non-blocking send, completed before the next one to the same builder
 * overlap: as isend, with requests received ahead and the next batch packed before one arrives
 *
 * A message's buffer is freed as soon as it is complete; builders receive into fresh memory, check
 * every byte and free it. --huge-every N makes each N-th message larger than 2^31 bytes.
 *
 * Layer: MPI program on bench_common.h, called by the smd0 suite.
 */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif
#include <mpi.h>

#include "bench_common.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG_ASK = 51, TAG_WORK = 52 };
enum { GOTCHUNK, GOTEB, GOTREPACK, DONEWITHEB, GOTSTEPHIST, GOTSTEP, TASKS };
static const char *const task_names[TASKS] = {"GOTCHUNK",   "GOTEB",       "GOTREPACK",
                                              "DONEWITHEB", "GOTSTEPHIST", "GOTSTEP"};

typedef enum { MODE_SEND, MODE_ISEND, MODE_OVERLAP } way_t;

#define CHUNK_BYTES ((size_t) 8 << 20)
#define MOST_EVENT  ((size_t) 64 << 10)

/** Before each event in the file and in the messages. */
typedef struct {
    uint64_t number; /* seed of the payload */
    uint32_t length; /* payload bytes */
    uint32_t kind;   /* 0 event, 1 step record */
} event_t;

/** A message on its way to a builder. */
typedef struct {
    char *data;
    MPI_Request request;
} parcel_t;

typedef struct {
    double ns[TASKS];
    long count[TASKS];
    long events;
    double bytes;
    double total_ns;
} account_t;

static struct {
    way_t mode;
    long batch;      /* events per message */
    long step_every; /* events between two steps */
    size_t file_bytes;
    long rounds;     /* times that the file is gone through */
    long huge_every; /* 0: never */
    bool json;
} opt = {MODE_SEND, 64, 16, (size_t) 32 << 20, 2, 0, false};

static void die(const char *text)
{
    fprintf(stderr, "bench_smd0: %s\n", text);
    MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
}

static void *memory(size_t bytes)
{
    void *p = malloc(0 == bytes ? 1 : bytes);
    if (NULL == p) {
        die("no memory");
    }
    return p;
}

/* ------------------------------------------------------------ any number of bytes */

/* MPI counts are int; above that a message is whole megabytes and a rest in one datatype. */
static MPI_Datatype large_type(size_t bytes)
{
    const size_t unit = (size_t) 1 << 20;
    MPI_Datatype megabyte;
    MPI_Datatype type;
    MPI_Type_contiguous((int) unit, MPI_BYTE, &megabyte);
    int lengths[2] = {(int) (bytes / unit), (int) (bytes % unit)};
    MPI_Aint places[2] = {0, (MPI_Aint) (bytes - bytes % unit)};
    MPI_Datatype types[2] = {megabyte, MPI_BYTE};
    MPI_Type_create_struct(2, lengths, places, types, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&megabyte);
    return type;
}

static void send_any(char *data, size_t bytes, int to, MPI_Request *request)
{
    if (bytes <= INT_MAX) {
        if (NULL == request) {
            MPI_Send(data, (int) bytes, MPI_BYTE, to, TAG_WORK, MPI_COMM_WORLD);
        } else {
            MPI_Isend(data, (int) bytes, MPI_BYTE, to, TAG_WORK, MPI_COMM_WORLD, request);
        }
        return;
    }
    MPI_Datatype type = large_type(bytes);
    if (NULL == request) {
        MPI_Send(data, 1, type, to, TAG_WORK, MPI_COMM_WORLD);
    } else {
        MPI_Isend(data, 1, type, to, TAG_WORK, MPI_COMM_WORLD, request);
    }
    MPI_Type_free(&type);
}

static char *receive_any(size_t *bytes_out)
{
    MPI_Message message;
    MPI_Status status;
    MPI_Count count;
    MPI_Mprobe(0, TAG_WORK, MPI_COMM_WORLD, &message, &status);
    MPI_Get_elements_x(&status, MPI_BYTE, &count);
    size_t bytes = (size_t) count;
    char *data = memory(bytes);
    if (bytes <= INT_MAX) {
        MPI_Mrecv(data, (int) bytes, MPI_BYTE, &message, &status);
    } else {
        MPI_Datatype type = large_type(bytes);
        MPI_Mrecv(data, 1, type, &message, &status);
        MPI_Type_free(&type);
    }
    *bytes_out = bytes;
    return data;
}

/* ---------------------------------------------------------------------- the file */

/* Sizes with a long tail: most events are small, one in sixteen may be as large as allowed. */
static size_t event_length(uint64_t number)
{
    uint64_t x = number * UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 31;
    size_t most = 0 == x % 16 ? MOST_EVENT : 2048;
    return 16 + (size_t) (x >> 8) % (most - 16);
}

/* The file holds whole events; none crosses the end of a chunk. */
static FILE *make_file(long *chunks_out)
{
    FILE *f = tmpfile();
    char *chunk = memory(CHUNK_BYTES);
    uint64_t number = 1;
    long since_step = 0;
    long chunks = 0;
    if (NULL == f) {
        die("no temporary file");
    }
    for (size_t done = 0; done < opt.file_bytes; done += CHUNK_BYTES, chunks++) {
        size_t at = 0;
        memset(chunk, 0, CHUNK_BYTES);
        for (;;) {
            bool step = since_step >= opt.step_every;
            event_t e = {number, (uint32_t) (step ? 128 : event_length(number)), step};
            if (at + sizeof(e) + e.length + sizeof(e) > CHUNK_BYTES) {
                break; /* what is left is zero: an event of length 0 ends the chunk */
            }
            memcpy(chunk + at, &e, sizeof(e));
            bench_fill(chunk + at + sizeof(e), e.length, number);
            at += sizeof(e) + e.length;
            since_step = step ? 0 : since_step + 1;
            number++;
        }
        if (CHUNK_BYTES != fwrite(chunk, 1, CHUNK_BYTES, f)) {
            die("cannot write the temporary file");
        }
    }
    free(chunk);
    fflush(f);
    *chunks_out = chunks;
    return f;
}

/* ------------------------------------------------------------------ event builder */

static bool check_parcel(const char *data, size_t bytes, long *events)
{
    size_t at = 0;
    while (at + sizeof(event_t) <= bytes) {
        event_t e;
        memcpy(&e, data + at, sizeof(e));
        at += sizeof(e);
        if (e.length > bytes - at || SIZE_MAX != bench_check(data + at, e.length, e.number)) {
            return false;
        }
        at += e.length;
        *events += 0 == e.kind;
    }
    return at == bytes;
}

static void builder(long *events, bool *wrong)
{
    for (;;) {
        size_t bytes;
        MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_ASK, MPI_COMM_WORLD);
        char *data = receive_any(&bytes);
        if (0 == bytes) {
            free(data);
            return;
        }
        *wrong |= !check_parcel(data, bytes, events);
        free(data);
    }
}

/* ------------------------------------------------------------------------ producer */

typedef struct {
    account_t account;
    FILE *file;
    long chunks;
    long chunk_no; /* chunks read so far, over all rounds */
    char *chunk;
    size_t at;     /* place in the chunk */
    size_t filled; /* bytes of the chunk; 0: none read yet */
    int builders;
    long messages;
    /* step records so far, and how much of them each builder has */
    char *history;
    size_t history_bytes;
    size_t history_room;
    size_t *seen;
    parcel_t *parcel; /* per builder */
    MPI_Request *ask; /* per builder, overlap only */
} producer_t;

static uint64_t book(producer_t *p, int task, uint64_t since)
{
    uint64_t now = bench_now_ns();
    p->account.ns[task] += (double) (now - since);
    p->account.count[task]++;
    return now;
}

/* Make the next event available in the chunk; false at the end of all rounds. */
static bool next_event(producer_t *p, event_t *e)
{
    for (;;) {
        if (0 != p->filled && p->at + sizeof(*e) <= p->filled) {
            memcpy(e, p->chunk + p->at, sizeof(*e));
            if (0 != e->length) {
                return true;
            }
        }
        if (p->chunk_no >= p->chunks * opt.rounds) {
            return false;
        }
        uint64_t start = bench_now_ns();
        off_t place = (off_t) (p->chunk_no % p->chunks) * (off_t) CHUNK_BYTES;
        if ((ssize_t) CHUNK_BYTES != pread(fileno(p->file), p->chunk, CHUNK_BYTES, place)) {
            die("cannot read the temporary file");
        }
        p->chunk_no++;
        p->at = 0;
        p->filled = CHUNK_BYTES;
        book(p, GOTCHUNK, start);
    }
}

static void take_step(producer_t *p, const event_t *e)
{
    uint64_t start = bench_now_ns();
    size_t bytes = sizeof(*e) + e->length;
    if (p->history_bytes + bytes > p->history_room) {
        p->history_room = 2 * (p->history_bytes + bytes);
        p->history = realloc(p->history, p->history_room);
        if (NULL == p->history) {
            die("no memory");
        }
    }
    memcpy(p->history + p->history_bytes, p->chunk + p->at, bytes);
    p->history_bytes += bytes;
    p->at += bytes;
    book(p, GOTSTEP, start);
}

/** A batch that has been packed but not yet given to anybody. */
typedef struct {
    char *data;
    size_t bytes;
    size_t room;
} batch_t;

/* Pack the next batch into memory of its own; an empty batch is the end. */
static batch_t repack(producer_t *p)
{
    batch_t b = {.room = 64 << 10};
    event_t e;
    bool huge = 0 != opt.huge_every && 0 == (p->messages + 1) % opt.huge_every;
    const size_t huge_bytes = ((size_t) 1 << 31) + 4099;
    b.data = memory(b.room);
    uint64_t start = bench_now_ns();
    double chunk_ns = p->account.ns[GOTCHUNK] + p->account.ns[GOTSTEP];
    for (long n = 0; n < opt.batch && next_event(p, &e);) {
        if (0 != e.kind) {
            take_step(p, &e);
            continue;
        }
        size_t bytes = sizeof(e) + e.length;
        if (b.bytes + bytes > b.room) {
            b.room = 2 * (b.bytes + bytes);
            b.data = realloc(b.data, b.room);
            if (NULL == b.data) {
                die("no memory");
            }
        }
        memcpy(b.data + b.bytes, p->chunk + p->at, bytes);
        b.bytes += bytes;
        p->at += bytes;
        p->account.events++;
        n++;
    }
    if (huge && 0 < b.bytes) {
        /* One event of more than 2^31 bytes in sum, as copies of a large one. */
        b.data = realloc(b.data, huge_bytes + 2 * MOST_EVENT);
        if (NULL == b.data) {
            die("no memory for a message above 2^31 bytes");
        }
        e = (event_t) {.number = 77, .length = (uint32_t) MOST_EVENT, .kind = 1};
        for (size_t first = b.bytes; b.bytes < huge_bytes; b.bytes += sizeof(e) + e.length) {
            memcpy(b.data + b.bytes, &e, sizeof(e));
            if (b.bytes == first) {
                bench_fill(b.data + b.bytes + sizeof(e), e.length, e.number);
            } else {
                memcpy(b.data + b.bytes + sizeof(e), b.data + first + sizeof(e), e.length);
            }
        }
    }
    /* Reading and steps have accounts of their own. */
    chunk_ns = p->account.ns[GOTCHUNK] + p->account.ns[GOTSTEP] - chunk_ns;
    p->account.ns[GOTREPACK] += (double) (bench_now_ns() - start) - chunk_ns;
    p->account.count[GOTREPACK]++;
    return b;
}

/* Wait for a builder that wants work. */
static int next_builder(producer_t *p)
{
    MPI_Status status;
    uint64_t start = bench_now_ns();
    int which;
    if (MODE_OVERLAP == opt.mode) {
        MPI_Waitany(p->builders, p->ask, &which, &status);
    } else {
        MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, TAG_ASK, MPI_COMM_WORLD, &status);
        which = status.MPI_SOURCE - 1;
    }
    book(p, GOTEB, start);
    return which;
}

static void finish_parcel(parcel_t *parcel)
{
    MPI_Wait(&parcel->request, MPI_STATUS_IGNORE);
    free(parcel->data);
    parcel->data = NULL;
}

static void give(producer_t *p, int which, batch_t b)
{
    uint64_t start = bench_now_ns();
    if (p->seen[which] < p->history_bytes) {
        size_t news = p->history_bytes - p->seen[which];
        b.data = realloc(b.data, b.bytes + news);
        if (NULL == b.data) {
            die("no memory");
        }
        memcpy(b.data + b.bytes, p->history + p->seen[which], news);
        b.bytes += news;
        p->seen[which] = p->history_bytes;
        start = book(p, GOTSTEPHIST, start);
    }
    p->account.bytes += (double) b.bytes;
    p->messages++;
    if (MODE_SEND == opt.mode) {
        send_any(b.data, b.bytes, which + 1, NULL);
        free(b.data);
    } else {
        if (NULL != p->parcel[which].data) {
            finish_parcel(&p->parcel[which]);
        }
        p->parcel[which].data = b.data;
        send_any(b.data, b.bytes, which + 1, &p->parcel[which].request);
        if (MODE_OVERLAP == opt.mode) {
            MPI_Irecv(NULL, 0, MPI_BYTE, which + 1, TAG_ASK, MPI_COMM_WORLD, &p->ask[which]);
        }
    }
    book(p, DONEWITHEB, start);
}

static void produce(producer_t *p)
{
    uint64_t start = bench_now_ns();
    for (int i = 0; MODE_OVERLAP == opt.mode && i < p->builders; i++) {
        MPI_Irecv(NULL, 0, MPI_BYTE, i + 1, TAG_ASK, MPI_COMM_WORLD, &p->ask[i]);
    }
    for (;;) {
        int which = MODE_OVERLAP == opt.mode ? -1 : next_builder(p);
        batch_t b = repack(p);
        if (0 == b.bytes) {
            free(b.data);
            /* Nothing left: everybody who asks gets an empty message. */
            for (int told = 0; told < p->builders; told++) {
                which = 0 > which ? next_builder(p) : which;
                MPI_Send(NULL, 0, MPI_BYTE, which + 1, TAG_WORK, MPI_COMM_WORLD);
                which = -1;
            }
            break;
        }
        which = 0 > which ? next_builder(p) : which;
        give(p, which, b);
    }
    for (int i = 0; i < p->builders; i++) {
        if (NULL != p->parcel[i].data) {
            finish_parcel(&p->parcel[i]);
        }
    }
    p->account.total_ns = (double) (bench_now_ns() - start);
}

/* -------------------------------------------------------------------------- output */

static void value_record(const char *metric, const char *unit, double value, long count, bool wrong)
{
    if (!opt.json) {
        printf("%-16s %14.4f %-4s %10ld%s\n", metric, value, unit, count, wrong ? "  WRONG" : "");
        return;
    }
    bench_json_t j;
    bench_json_begin(&j, stdout);
    bench_json_str(&j, "kind", "value");
    bench_json_str(&j, "metric", metric);
    bench_json_str(&j, "unit", unit);
    bench_json_num(&j, "value", value);
    bench_json_int(&j, "count", count);
    bench_json_str(&j, "verified", wrong ? "wrong" : "yes");
    bench_json_end(&j);
}

static void parse(int argc, char **argv)
{
    bool known = false;
    for (int i = 1; i < argc; i++) {
        const char *v = i + 1 < argc ? argv[i + 1] : "";
        size_t n = 0;
        if (0 == strcmp(argv[i], "--json")) {
            opt.json = true;
        } else if (0 == strcmp(argv[i], "send") || 0 == strcmp(argv[i], "isend")
                   || 0 == strcmp(argv[i], "overlap")) {
            opt.mode = 's' == argv[i][0]   ? MODE_SEND
                       : 'i' == argv[i][0] ? MODE_ISEND
                                           : MODE_OVERLAP;
            known = true;
        } else if (bench_size_parse(v, &n) && (0 == strcmp(argv[i], "--huge-every") || 0 < n)) {
            if (0 == strcmp(argv[i], "--batch")) {
                opt.batch = (long) n;
            } else if (0 == strcmp(argv[i], "--step-every")) {
                opt.step_every = (long) n;
            } else if (0 == strcmp(argv[i], "--file")) {
                opt.file_bytes = n;
            } else if (0 == strcmp(argv[i], "--rounds")) {
                opt.rounds = (long) n;
            } else if (0 == strcmp(argv[i], "--huge-every")) {
                opt.huge_every = (long) n;
            } else {
                known = false;
                break;
            }
            i++;
        } else {
            known = false;
            break;
        }
    }
    if (!known) {
        fputs("usage: mpirun ... bench_smd0 send|isend|overlap [--batch EVENTS] [--step-every N]\n"
              "       [--file BYTES] [--rounds N] [--huge-every N] [--json]\n",
              stderr);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    int rank;
    int np;
    parse(argc, argv);
    bench_pin(bench_env_local_rank());
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    if (np < 2) {
        die("a producer and at least one event builder are needed");
    }
    producer_t p = {.builders = np - 1};
    if (0 == rank) {
        p.file = make_file(&p.chunks);
        p.chunk = memory(CHUNK_BYTES);
        p.seen = calloc((size_t) np, sizeof(*p.seen));
        p.parcel = calloc((size_t) np, sizeof(*p.parcel));
        p.ask = calloc((size_t) np, sizeof(*p.ask));
        if (NULL == p.seen || NULL == p.parcel || NULL == p.ask) {
            die("no memory");
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    long events = 0;
    bool wrong = false;
    if (0 == rank) {
        produce(&p);
    } else {
        builder(&events, &wrong);
    }
    long all = 0;
    int any = wrong;
    MPI_Reduce(&events, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);

    enum { CAP = 65536 };
    char *mine = calloc(1, CAP);
    char *maps = 0 == rank ? calloc((size_t) np, CAP) : NULL;
    if (NULL == mine || (0 == rank && NULL == maps)) {
        die("no memory");
    }
    bench_maps(mine, CAP);
    MPI_Gather(mine, CAP, MPI_CHAR, maps, CAP, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (0 == rank) {
        any |= all != p.account.events; /* every event arrived exactly once */
        if (opt.json) {
            bench_json_t j;
            bench_clock_t clock;
            bench_clock_measure(&clock);
            bench_json_begin(&j, stdout);
            bench_json_str(&j, "kind", "context");
            bench_json_str(&j, "pattern", "smd0");
            bench_json_int(&j, "np", np);
            bench_json_int(&j, "messages", p.messages);
            bench_context_json(&j, &clock);
            bench_files_json(&j, maps, np, CAP);
            bench_json_end(&j);
        }
        const account_t *a = &p.account;
        value_record("events_MHz", "MHz", (double) a->events / a->total_ns * 1e3, a->events,
                     0 != any);
        value_record("bw_MBps", "MBps", a->bytes / a->total_ns * 1e3, p.messages, 0 != any);
        value_record("total_ms", "ms", a->total_ns * 1e-6, 1, 0 != any);
        for (int t = 0; t < TASKS; t++) {
            char metric[32];
            snprintf(metric, sizeof(metric), "%s_ms", task_names[t]);
            value_record(metric, "ms", a->ns[t] * 1e-6, a->count[t], 0 != any);
        }
        fclose(p.file);
        free(p.chunk);
        free(p.seen);
        free(p.parcel);
        free(p.ask);
        free(p.history);
    }
    free(mine);
    free(maps);
    MPI_Bcast(&any, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0 != any ? 3 : 0;
}

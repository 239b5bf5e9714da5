/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Explorer of relaxed-memory executions; see explore.h for what it does and for its memory model.
 *
 * Test support of test/model. A state is an execution graph. Thread functions are run again from
 * their start for each step: the operations already in the graph give back what they gave before,
 * the next one ends the run by longjmp and becomes the thread's pending operation.
 */
#include "explore.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EVENTS    250 /* of one thread; a clock is one byte */
#define MAX_LOCATIONS 192 /* 8-byte words that a scenario touches */
#define MAX_WRITES    48  /* of one word, with its first value */
#define MAX_SITES     512
#define MAX_GRAPHS    UINT64_C(60000000)
#define NO_EVENT      0xffff /* the write that gave a word its first value */

enum op { OP_LOAD, OP_STORE, OP_RMW, OP_CAS, OP_FENCE, OP_PLAIN_LOAD, OP_PLAIN_STORE };

enum status { RUNNING, DONE, BLOCKED };

typedef struct event {
    uint8_t op, order, reads, writes;
    uint16_t site, loc, rf, spare;
    uint64_t rval, wval;
    uint8_t vc[SM_MAX_THREADS];  /* happens-before: events of each thread, this one included */
    uint8_t rel[SM_MAX_THREADS]; /* what an acquire that reads this write gets */
} event_t;

typedef struct pending {
    uint8_t op, order, rmw, status;
    uint16_t site, loc, attempt; /* attempt: first event after the last sm_attempt() */
    uint64_t operand, expected;
} pending_t;

typedef struct graph {
    uint64_t key[2];
    uint8_t n[SM_MAX_THREADS];
    uint8_t vc[SM_MAX_THREADS][SM_MAX_THREADS];
    uint8_t unacquired[SM_MAX_THREADS][SM_MAX_THREADS]; /* by relaxed loads, for a later fence */
    uint8_t fenced[SM_MAX_THREADS][SM_MAX_THREADS];     /* clock at the last fence */
    uint8_t fences;
    pending_t pending[SM_MAX_THREADS];
    uint8_t co_count[MAX_LOCATIONS];
    uint16_t co[MAX_LOCATIONS][MAX_WRITES];
    event_t ev[SM_MAX_THREADS][MAX_EVENTS];
} graph_t;

static sm_site_t sites[MAX_SITES];
static unsigned site_count = 1; /* 0 means "not registered yet" */

static const void *loc_address[MAX_LOCATIONS];
static uint64_t loc_init[MAX_LOCATIONS];
static unsigned loc_count;

static const sm_scenario_t *scenario;
static sm_mutant_t mutant;
static sm_result_t *result;
static int want_trace;
static graph_t **pool;
static unsigned pool_count;
static uint64_t (*visited)[2];
static uint64_t visited_size, visited_used;

/* The thread that is being run again. */
static graph_t *run_graph;
static int run_thread;
static unsigned run_pos, run_attempt;
static jmp_buf run_end;

static void die(const char *text)
{
    printf("Bail out! explorer: %s (scenario %s)\n", text, NULL == scenario ? "?" : scenario->name);
    exit(99);
}

/* ---- places in the source ------------------------------------------------------------------- */

unsigned sm_site_register(const char *file, const char *func, int line, int edge, const char *verb)
{
    unsigned i;

    for (i = 1; i < site_count; ++i) {
        if (sites[i].line == line && 0 == strcmp(sites[i].file, file)
            && 0 == strcmp(sites[i].verb, verb)) {
            return i;
        }
    }
    if (MAX_SITES == site_count) {
        die("too many sites");
    }
    sites[i].file = file;
    sites[i].func = func;
    sites[i].line = line;
    sites[i].edge = edge;
    sites[i].verb = verb;
    sites[i].acquires = NULL != strstr(verb, "acq");
    sites[i].releases = NULL != strstr(verb, "rel") && NULL == strstr(verb, "relaxed");
    sites[i].drops = 0 == strcmp(verb, "store") || 0 == strcmp(verb, "fence");
    return site_count++;
}

unsigned sm_site_count(void)
{
    return site_count;
}

const sm_site_t *sm_site_at(unsigned site)
{
    return &sites[site];
}

static int acquires(unsigned site, unsigned order)
{
    if ((SM_MUTANT_ACQUIRE == mutant.kind && site == mutant.site)
        || (SM_MUTANT_EDGE == mutant.kind && sites[site].edge == mutant.edge)) {
        return 0;
    }
    return SM_ACQUIRE == order || SM_ACQ_REL == order;
}

static int releases(unsigned site, unsigned order)
{
    if ((SM_MUTANT_RELEASE == mutant.kind && site == mutant.site)
        || (SM_MUTANT_EDGE == mutant.kind && sites[site].edge == mutant.edge)) {
        return 0;
    }
    return SM_RELEASE == order || SM_ACQ_REL == order;
}

static unsigned location(const void *address)
{
    unsigned i;

    for (i = 0; i < loc_count; ++i) {
        if (address == loc_address[i]) {
            return i;
        }
    }
    if (MAX_LOCATIONS == loc_count) {
        die("too many locations");
    }
    loc_address[i] = address;
    loc_init[i] = 0;
    return loc_count++;
}

/* ---- the table of graphs --------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/** The key of a graph is a sum over its parts, so that adding one costs the same in any graph. */
static void key_change(graph_t *g, uint64_t part, int sign)
{
    g->key[0] += (uint64_t) sign * mix(part);
    g->key[1] += (uint64_t) sign * mix(~part * 3);
}

static uint64_t key_event(unsigned id)
{
    return (UINT64_C(1) << 48) | id;
}

static uint64_t key_reads_from(unsigned id, unsigned rf)
{
    return (UINT64_C(2) << 48) | ((uint64_t) id << 16) | rf;
}

static uint64_t key_coherence(unsigned loc, unsigned before, unsigned after)
{
    return (UINT64_C(3) << 48) | ((uint64_t) loc << 32) | ((uint64_t) before << 16) | after;
}

static int visit(const uint64_t key[2])
{
    uint64_t i;

    if (2 * visited_used >= visited_size) {
        uint64_t old_size = visited_size;
        uint64_t(*old)[2] = visited;

        visited_size = 0 == old_size ? 1024 : 2 * old_size;
        visited = calloc(visited_size, sizeof(*visited));
        if (NULL == visited) {
            die("no memory for the table of graphs");
        }
        for (uint64_t k = 0; k < old_size; ++k) {
            if (0 != old[k][0] || 0 != old[k][1]) {
                for (i = old[k][0] & (visited_size - 1);
                     0 != visited[i][0] || 0 != visited[i][1];) {
                    i = (i + 1) & (visited_size - 1);
                }
                memcpy(visited[i], old[k], sizeof(visited[i]));
            }
        }
        free(old);
    }
    for (i = key[0] & (visited_size - 1); 0 != visited[i][0] || 0 != visited[i][1];) {
        if (visited[i][0] == key[0] && visited[i][1] == key[1]) {
            return 0;
        }
        i = (i + 1) & (visited_size - 1);
    }
    memcpy(visited[i], key, sizeof(visited[i]));
    if (++visited_used > MAX_GRAPHS) {
        die("too many executions: make the scenario smaller");
    }
    return 1;
}

/* ---- reports --------------------------------------------------------------------------------- */

static void trace(const graph_t *g)
{
    static const char *op_name[] = {"load", "store", "rmw", "cas", "fence", "read", "write"};

    printf("#   %s: %s\n", scenario->name, result->text);
    for (int t = 0; t < scenario->threads; ++t) {
        printf("#   thread %d\n", t);
        for (unsigned i = 0; i < g->n[t]; ++i) {
            const event_t *e = &g->ev[t][i];
            printf("#     %d.%u %-5s word %-3u", t, i, op_name[e->op], e->loc);
            if (e->reads && NO_EVENT == e->rf) {
                printf(" reads  %llx from the start", (unsigned long long) e->rval);
            } else if (e->reads) {
                printf(" reads  %llx from %d.%d", (unsigned long long) e->rval, e->rf / MAX_EVENTS,
                       e->rf % MAX_EVENTS);
            }
            if (e->writes) {
                printf(" writes %llx", (unsigned long long) e->wval);
            }
            if (0 != e->site) {
                const char *base = strrchr(sites[e->site].file, '/');
                printf("  (%s:%d)", NULL == base ? sites[e->site].file : base + 1,
                       sites[e->site].line);
            }
            printf("\n");
        }
    }
}

static void report(const graph_t *g, const char *text)
{
    if (result->error) {
        return;
    }
    result->error = 1;
    snprintf(result->text, sizeof(result->text), "%s", text);
    if (want_trace) {
        trace(g);
    }
}

/* ---- running a thread again ------------------------------------------------------------------ */

static const event_t *replay(unsigned op, unsigned order, unsigned site, const void *address,
                             uint64_t operand, uint64_t expected, unsigned rmw)
{
    unsigned loc = NULL == address ? 0 : location(address);

    if (run_pos < run_graph->n[run_thread]) {
        const event_t *e = &run_graph->ev[run_thread][run_pos++];
        if (e->op != op || e->loc != loc || e->site != site) {
            die("a thread function is not deterministic");
        }
        return e;
    }
    pending_t *p = &run_graph->pending[run_thread];
    p->op = (uint8_t) op;
    p->order = (uint8_t) order;
    p->site = (uint16_t) site;
    p->loc = (uint16_t) loc;
    p->operand = operand;
    p->expected = expected;
    p->rmw = (uint8_t) rmw;
    p->status = RUNNING;
    longjmp(run_end, 1);
}

uint64_t sm_load(unsigned site, const void *address, enum sm_order order)
{
    return replay(OP_LOAD, order, site, address, 0, 0, 0)->rval;
}

static int dropped(unsigned site)
{
    return SM_MUTANT_DROP == mutant.kind && site == mutant.site;
}

void sm_store(unsigned site, const void *address, uint64_t value, enum sm_order order)
{
    if (!dropped(site)) {
        (void) replay(OP_STORE, order, site, address, value, 0, 0);
    }
}

uint64_t sm_rmw(unsigned site, const void *address, enum sm_rmw kind, uint64_t operand,
                enum sm_order order)
{
    return replay(OP_RMW, order, site, address, operand, 0, kind)->rval;
}

int sm_cas(unsigned site, const void *address, uint64_t *expected, uint64_t desired,
           enum sm_order order)
{
    const event_t *e = replay(OP_CAS, order, site, address, desired, *expected, 0);

    if (e->writes) {
        return 1;
    }
    *expected = e->rval;
    return 0;
}

void sm_fence(unsigned site)
{
    if (!dropped(site)) {
        (void) replay(OP_FENCE, SM_ACQ_REL, site, NULL, 0, 0, 0);
    }
}

void sm_plain_write(const void *address, uint64_t value)
{
    (void) replay(OP_PLAIN_STORE, SM_RELAXED, 0, address, value, 0, 0);
}

uint64_t sm_plain_read(const void *address)
{
    return replay(OP_PLAIN_LOAD, SM_RELAXED, 0, address, 0, 0, 0)->rval;
}

void sm_check(int condition, const char *text)
{
    if (!condition) {
        report(run_graph, text);
    }
}

void sm_attempt(void)
{
    run_attempt = run_pos;
}

void sm_block(void)
{
    run_graph->pending[run_thread].status = BLOCKED;
    run_graph->pending[run_thread].attempt = (uint16_t) run_attempt;
    longjmp(run_end, 1);
}

static void run(graph_t *g, int thread)
{
    run_graph = g;
    run_thread = thread;
    run_pos = 0;
    run_attempt = 0;
    if (0 == setjmp(run_end)) {
        scenario->thread[thread]();
        g->pending[thread].status = DONE;
    }
    if (run_pos != g->n[thread] && !result->error) {
        die("a thread function ended before its recorded events");
    }
}

/* ---- consistency ----------------------------------------------------------------------------- */

static const event_t *event_at(const graph_t *g, uint16_t id)
{
    return &g->ev[id / MAX_EVENTS][id % MAX_EVENTS];
}

static uint64_t value_of(const graph_t *g, unsigned loc, uint16_t id)
{
    return NO_EVENT == id ? loc_init[loc] : event_at(g, id)->wval;
}

static unsigned co_index(const graph_t *g, unsigned loc, uint16_t id)
{
    unsigned i = 0;

    while (g->co[loc][i] != id) {
        ++i;
    }
    return i;
}

/** Place in coherence order of the last write of `loc` that `thread` must know. */
static unsigned co_known(const graph_t *g, int thread, unsigned loc)
{
    unsigned known = 0;

    for (int t = 0; t < scenario->threads; ++t) {
        for (unsigned i = 0; i < g->vc[thread][t]; ++i) {
            const event_t *e = &g->ev[t][i];
            unsigned at;

            if (e->loc != loc || !(e->reads || e->writes)) {
                continue;
            }
            at = co_index(g, loc, e->writes ? (uint16_t) (t * MAX_EVENTS + (int) i) : e->rf);
            known = at > known ? at : known;
        }
    }
    return known;
}

/** Does the write at place `i` of coherence order belong to a read-modify-write? Then nothing may
 *  come between it and the place before. */
static int co_is_rmw(const graph_t *g, unsigned loc, unsigned i)
{
    return i < g->co_count[loc] && NO_EVENT != g->co[loc][i] && event_at(g, g->co[loc][i])->reads;
}

static int clock_has(const uint8_t *vc, int thread, unsigned index)
{
    return vc[thread] > index;
}

static void clock_join(uint8_t *to, const uint8_t *from)
{
    for (int t = 0; t < SM_MAX_THREADS; ++t) {
        to[t] = to[t] > from[t] ? to[t] : from[t];
    }
}

/** Extended coherence order between two events of one location. */
static int eco(const graph_t *g, const event_t *a, uint16_t a_id, const event_t *b, uint16_t b_id)
{
    unsigned loc = a->loc;
    unsigned from = 2 * co_index(g, loc, a->writes ? a_id : a->rf) + (a->writes ? 0 : 1);
    unsigned to_write = b->writes ? 2 * co_index(g, loc, b_id) : 0;
    unsigned to_read = b->reads ? 2 * co_index(g, loc, b->rf) + 1 : 0;

    if (a->reads && a->writes) { /* its read half comes first */
        unsigned read_half = 2 * co_index(g, loc, a->rf) + 1;
        from = read_half < from ? read_half : from;
    }
    return to_write > from || to_read > from;
}

/** Are the seq_cst fences of this graph in an order that nothing contradicts? */
static int fences_agree(const graph_t *g)
{
    uint16_t fence[32];
    uint8_t before[32][32] = {{0}};
    unsigned count = 0;

    for (int t = 0; t < scenario->threads; ++t) {
        for (unsigned i = 0; i < g->n[t] && count < 32; ++i) {
            if (OP_FENCE == g->ev[t][i].op) {
                fence[count++] = (uint16_t) (t * MAX_EVENTS + (int) i);
            }
        }
    }
    for (unsigned x = 0; x < count; ++x) {
        int xt = fence[x] / MAX_EVENTS;
        unsigned xi = fence[x] % MAX_EVENTS;

        for (unsigned y = 0; y < count; ++y) {
            const event_t *fy = event_at(g, fence[y]);

            before[x][y] = x != y && clock_has(fy->vc, xt, xi);
        }
        for (int at = 0; at < scenario->threads; ++at) {
            for (unsigned ai = 0; ai < g->n[at]; ++ai) {
                const event_t *a = &g->ev[at][ai];
                if (!(a->reads || a->writes) || !clock_has(a->vc, xt, xi)) {
                    continue;
                }
                for (unsigned y = 0; y < count; ++y) {
                    const event_t *fy = event_at(g, fence[y]);
                    for (int bt = 0; bt < scenario->threads && !before[x][y]; ++bt) {
                        for (unsigned bi = 0; bi < fy->vc[bt]; ++bi) {
                            const event_t *b = &g->ev[bt][bi];
                            if ((b->reads || b->writes) && b->loc == a->loc && a != b
                                && eco(g, a, (uint16_t) (at * MAX_EVENTS + (int) ai), b,
                                       (uint16_t) (bt * MAX_EVENTS + (int) bi))) {
                                before[x][y] = 1;
                                break;
                            }
                        }
                    }
                }
            }
        }
    }
    for (unsigned k = 0; k < count; ++k) {
        for (unsigned x = 0; x < count; ++x) {
            for (unsigned y = 0; y < count; ++y) {
                before[x][y] |= before[x][k] && before[k][y];
            }
        }
    }
    for (unsigned x = 0; x < count; ++x) {
        if (before[x][x]) {
            return 0;
        }
    }
    return 1;
}

static int is_plain(const event_t *e)
{
    return OP_PLAIN_LOAD == e->op || OP_PLAIN_STORE == e->op;
}

static void check_races(const graph_t *g, int thread, const event_t *e)
{
    for (int t = 0; t < scenario->threads && (e->reads || e->writes); ++t) {
        if (t == thread) {
            continue;
        }
        for (unsigned i = e->vc[t]; i < g->n[t]; ++i) {
            const event_t *other = &g->ev[t][i];
            if (other->loc == e->loc && (other->writes || e->writes)
                && (other->reads || other->writes) && (is_plain(other) || is_plain(e))) {
                char text[200];
                snprintf(text, sizeof(text), "data race on word %u between %d.%u and %d.%u", e->loc,
                         t, i, thread, g->n[thread] - 1);
                report(g, text);
                return;
            }
        }
    }
}

/* ---- adding one event ------------------------------------------------------------------------ */

/** Add the pending operation of `thread` to `g`. `rf` is the write it reads (if it reads), `at` the
 *  place its write takes in coherence order (if it writes). */
static void extend(graph_t *g, int thread, uint16_t rf, unsigned at, int reads, int writes)
{
    const pending_t *p = &g->pending[thread];
    unsigned index = g->n[thread];
    uint16_t id = (uint16_t) (thread * MAX_EVENTS + (int) index);
    event_t *e = &g->ev[thread][index];
    uint8_t *vc = g->vc[thread];

    if (MAX_EVENTS - 1 <= index) {
        die("too many events in one thread");
    }
    memset(e, 0, sizeof(*e));
    e->op = p->op;
    e->order = p->order;
    e->site = p->site;
    e->loc = p->loc;
    e->reads = (uint8_t) reads;
    e->writes = (uint8_t) writes;
    e->rf = rf;
    g->n[thread]++;
    vc[thread] = (uint8_t) (index + 1);
    key_change(g, key_event(id), 1);
    if (reads) {
        e->rval = value_of(g, e->loc, rf);
        key_change(g, key_reads_from(id, rf), 1);
        if (NO_EVENT != rf && !is_plain(e)) {
            /* a compare and swap that fails is a relaxed load */
            int acquire = acquires(p->site, p->order) && (OP_CAS != p->op || writes);
            clock_join(acquire ? vc : g->unacquired[thread], event_at(g, rf)->rel);
        }
    }
    if (OP_FENCE == p->op) {
        clock_join(vc, g->unacquired[thread]);
        memcpy(g->fenced[thread], vc, sizeof(g->fenced[thread]));
        g->fences++;
    }
    memcpy(e->vc, vc, sizeof(e->vc));
    if (writes) {
        unsigned count = g->co_count[e->loc];
        uint16_t *co = g->co[e->loc];

        switch (OP_RMW == p->op ? (int) p->rmw : -1) {
        case SM_RMW_ADD:
            e->wval = e->rval + p->operand;
            break;
        case SM_RMW_OR:
            e->wval = e->rval | p->operand;
            break;
        case SM_RMW_AND:
            e->wval = e->rval & p->operand;
            break;
        default:
            e->wval = p->operand;
        }
        if (!is_plain(e)) {
            memcpy(e->rel, releases(p->site, p->order) ? vc : g->fenced[thread], sizeof(e->rel));
            if (reads && NO_EVENT != rf) {
                clock_join(e->rel, event_at(g, rf)->rel); /* release sequence */
            }
        }
        if (MAX_WRITES <= count) {
            die("too many writes of one word");
        }
        key_change(g, key_coherence(e->loc, co[at - 1], id), 1);
        if (at < count) {
            key_change(g, key_coherence(e->loc, co[at - 1], co[at]), -1);
            key_change(g, key_coherence(e->loc, id, co[at]), 1);
        }
        memmove(co + at + 1, co + at, (count - at) * sizeof(*co));
        co[at] = id;
        g->co_count[e->loc]++;
    }
    check_races(g, thread, e);
}

static void expand(unsigned depth);

static void copy_graph(graph_t *to, const graph_t *from)
{
    memcpy(to, from, offsetof(graph_t, co));
    for (unsigned loc = 0; loc < loc_count; ++loc) {
        memcpy(to->co[loc], from->co[loc], from->co_count[loc] * sizeof(to->co[loc][0]));
    }
    for (int t = 0; t < scenario->threads; ++t) {
        memcpy(to->ev[t], from->ev[t], from->n[t] * sizeof(to->ev[t][0]));
    }
}

static graph_t *graph_at(unsigned depth)
{
    if (depth >= pool_count) {
        pool = realloc(pool, (depth + 16) * sizeof(*pool));
        if (NULL == pool) {
            die("no memory");
        }
        while (pool_count < depth + 16) {
            pool[pool_count] = calloc(1, sizeof(**pool));
            if (NULL == pool[pool_count++]) {
                die("no memory");
            }
        }
    }
    return pool[depth];
}

/** A word that is touched for the first time has its first value only. */
static void prepare_location(graph_t *g, unsigned loc)
{
    if (0 == g->co_count[loc]) {
        g->co_count[loc] = 1;
        g->co[loc][0] = NO_EVENT;
    }
}

static void step(unsigned depth, int thread, uint16_t rf, unsigned at, int reads, int writes)
{
    graph_t *next = graph_at(depth + 1);

    if (result->error) {
        return;
    }
    copy_graph(next, pool[depth]);
    extend(next, thread, rf, at, reads, writes);
    if (result->error || !visit(next->key)) {
        return;
    }
    if (2 <= next->fences && !fences_agree(next)) {
        return;
    }
    result->graphs++;
    run(next, thread);
    if (RUNNING == next->pending[thread].status) {
        for (unsigned d = 0; d <= depth + 1; ++d) {
            prepare_location(pool[d], next->pending[thread].loc);
        }
    }
    if (!result->error) {
        expand(depth + 1);
    }
}

/** Every choice of the pending operation of one thread. */
static void expand_thread(unsigned depth, int thread)
{
    graph_t *g = pool[depth];
    pending_t p = g->pending[thread];
    unsigned count = g->co_count[p.loc];
    unsigned known;

    switch (p.op) {
    case OP_FENCE:
        step(depth, thread, NO_EVENT, 0, 0, 0);
        return;
    case OP_PLAIN_LOAD: /* any other choice is a race, and found as one */
        step(depth, thread, g->co[p.loc][count - 1], 0, 1, 0);
        return;
    case OP_PLAIN_STORE:
        step(depth, thread, NO_EVENT, count, 0, 1);
        return;
    default:
        break;
    }
    known = co_known(g, thread, p.loc);
    if (OP_STORE == p.op) {
        for (unsigned at = known + 1; at <= count; ++at) {
            if (!co_is_rmw(g, p.loc, at)) {
                step(depth, thread, NO_EVENT, at, 0, 1);
            }
        }
        return;
    }
    for (unsigned from = known; from < count; ++from) {
        uint16_t rf = g->co[p.loc][from];
        int writes = OP_RMW == p.op || (OP_CAS == p.op && value_of(g, p.loc, rf) == p.expected);

        if (!writes) {
            step(depth, thread, rf, 0, 1, 0);
        } else if (!co_is_rmw(g, p.loc, from + 1)) {
            step(depth, thread, rf, from + 1, 1, 1);
        }
    }
}

/** Did the last attempt of a blocked thread see the newest value of everything? */
static int sees_newest(const graph_t *g, int thread)
{
    for (unsigned i = g->pending[thread].attempt; i < g->n[thread]; ++i) {
        const event_t *e = &g->ev[thread][i];
        if (e->reads && g->co[e->loc][g->co_count[e->loc] - 1] != e->rf
            && !(e->writes
                 && co_index(g, e->loc, (uint16_t) (thread * MAX_EVENTS + (int) i)) + 1
                        == g->co_count[e->loc])) {
            return 0;
        }
    }
    return 1;
}

static void at_end(graph_t *g)
{
    int blocked = 0;

    for (int t = 0; t < scenario->threads; ++t) {
        if (BLOCKED == g->pending[t].status) {
            blocked = 1;
            if (!sees_newest(g, t)) {
                result->blocked++;
                return;
            }
        }
    }
    if (blocked) {
        report(g, "a thread waits for ever for something that has happened");
        return;
    }
    result->complete++;
    if (NULL != scenario->final) {
        run_graph = g;
        scenario->final();
    }
}

static void expand(unsigned depth)
{
    graph_t *g = pool[depth];
    int running = 0;

    for (int t = 0; t < scenario->threads; ++t) {
        if (RUNNING != g->pending[t].status) {
            continue;
        }
        running = 1;
        /* A plain access commutes with everything that does not race with it. */
        if (OP_PLAIN_LOAD == g->pending[t].op || OP_PLAIN_STORE == g->pending[t].op) {
            expand_thread(depth, t);
            return;
        }
    }
    if (!running) {
        at_end(g);
        return;
    }
    for (int t = 0; t < scenario->threads && !result->error; ++t) {
        if (RUNNING == g->pending[t].status) {
            expand_thread(depth, t);
        }
    }
}

void sm_init(const void *address, uint64_t value)
{
    loc_init[location(address)] = value;
}

uint64_t sm_final(const void *address)
{
    unsigned loc = location(address);

    if (0 == run_graph->co_count[loc]) {
        return loc_init[loc];
    }
    return value_of(run_graph, loc, run_graph->co[loc][run_graph->co_count[loc] - 1]);
}

void sm_explore(const sm_scenario_t *program, sm_mutant_t weakened, int with_trace,
                sm_result_t *result_out)
{
    graph_t *g;

    scenario = program;
    mutant = weakened;
    want_trace = with_trace;
    result = result_out;
    memset(result, 0, sizeof(*result));
    loc_count = 0;
    visited_used = 0;
    free(visited);
    visited = NULL;
    visited_size = 0;
    g = graph_at(0);
    for (unsigned d = 0; d < pool_count; ++d) {
        memset(pool[d], 0, sizeof(*pool[d]));
    }
    if (NULL != scenario->init) {
        scenario->init();
    }
    for (int t = 0; t < scenario->threads; ++t) {
        run(g, t);
        prepare_location(g, g->pending[t].loc);
    }
    result->graphs = 1;
    expand(0);
}

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Progress: take what peers wrote, move what waits, copy, help, and wait sensibly.
 *
 * Layer 1. One thread at a time; another that calls returns at once (it would only make the lines
 * that the first one polls bounce). The order of the steps is the order of urgency: messages first,
 * own copies next, other people's copies only when there is nothing of our own.
 *
 * Which boxes are looked at: those of peers that have written ("active"), every time; of these, the
 * ones that stay silent are parked once there are many, and one parked box is looked at per call.
 * So an idle peer costs nothing and a message from it is found within a few microseconds.
 */
#include "opal_config.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "opal/constants.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"

#include "btl_sm.h"
#include "btl_sm_endpoint.h"
#include "btl_sm_fault.h"

/** Messages taken from one box before the next one gets its turn. */
#define BOX_BUDGET 32

/** More active boxes than this and silent ones are parked ... */
#define PARK_ABOVE 4
/** ... after so many empty polls in a row. */
#define PARK_AFTER 2000

/** After so many idle calls in a row the caller is taken to wait ... */
#define SPIN_AFTER 2
/** ... and, with no more active boxes than this, each call looks at them several times. */
#define SPIN_BOXES 2

/** Bytes of a record that are fetched ahead; what follows the hardware's prefetchers find. */
#define FETCH_MOST 1024

/** Records up to this many bytes are fetched ahead as a whole while waiting for them; longer ones not
 *  at all, because taking lines away from the producer then costs more than it brings (13 % at 4 KiB). */
#define AHEAD_MOST 320

/** The core is given up so many times before the clock is asked how long this takes. */
#define YIELDS_FIRST 30

/** Idle calls before the liveness of peers is considered. Not in a row: who never waits long for some
 *  peers may wait for another that is gone. */
#define IDLE_LIVENESS 4096

/** Calls in a row that deliver messages and leave own copies for the next call. */
#define COPIES_PUT_OFF_MOST 8

/**
 * A sleep in nanoseconds: an eighth of the time waited so far, but at least and at most this. Messages wake
 * the process; the length only decides how late it sees what cannot wake it (other transports, a dead
 * peer), and how much sixty sleepers cost the two ranks that work.
 */
#define SLEEP_PART       8
#define SLEEP_LEAST_NS   200000l
#define SLEEP_MOST_NS    50000000l
#define SLEEP_OTHERS_NS  2000000l /* where messages may come by other transports too */
#define SLEEP_THREADS_NS 200000l  /* with threads: it may be another one that waits */

/** Where ranks outnumber cores: looks before the core is given up, as multiples of spin_looks, ... */
#define WATCH_TIMES 2
/** ... with no more active boxes than this ... */
#define WATCH_BOXES 8
/** ... if enough of the last watches paid; else only one wait in so many is watched, to find out. */
#define WATCH_GOOD  2
#define WATCH_MOST  8
#define WATCH_TRIAL 32

/** Room for `need` bytes of a message in parts. */
static bool room_for_parts(mca_btl_sm_endpoint_t *ep, size_t need)
{
    for (int tries = 0; tries < MCA_BTL_SM_MEMORY_TRIES; ++tries) {
        size_t capacity = 0 == tries ? 2 * need : need;
        unsigned char *grown = realloc(ep->parts, capacity);

        if (NULL != grown) {
            ep->parts = grown;
            ep->parts_capacity = capacity;
            return true;
        }
        (void) usleep(MCA_BTL_SM_MEMORY_PAUSE_US);
    }
    mca_btl_sm_fault_lost(ep, "there is no memory here for its message");
    return false;
}

/** A piece of a message that is longer than a record. Returns false if it makes no sense. */
static bool collect_part(mca_btl_sm_endpoint_t *ep, const unsigned char *payload, size_t len)
{
    /* The longest message in parts is a descriptor of this process's peer, whose limits may differ
     * from ours; 1 GiB only keeps a mad peer from eating our memory. */
    if (len > ((size_t) 1 << 30) - ep->parts_length) {
        return false;
    }
    if (ep->parts_length + len > ep->parts_capacity
        && !room_for_parts(ep, ep->parts_length + len)) {
        return false;
    }
    memcpy(ep->parts + ep->parts_length, payload, len);
    ep->parts_length += len;
    return true;
}

/** Hand a message to the upper layer. Returns false if no layer knows the tag. */
static inline bool deliver(mca_btl_sm_endpoint_t *ep, uint32_t tag, void *bytes, size_t len)
{
    const mca_btl_active_message_callback_t *reg = mca_btl_base_active_message_trigger + tag;
    mca_btl_base_segment_t segment = {.seg_addr = {.pval = bytes}, .seg_len = len};
    mca_btl_base_receive_descriptor_t descriptor = {.endpoint = ep,
                                                    .des_segments = &segment,
                                                    .des_segment_count = 1,
                                                    .tag = (mca_btl_base_tag_t) tag};

    if (OPAL_UNLIKELY(tag >= MCA_BTL_TAG_MAX || NULL == reg->cbfunc)) {
        return false;
    }
    descriptor.cbdata = reg->cbdata;
    reg->cbfunc(&mca_btl_sm.super, &descriptor);
    return true;
}

static bool open_box(mca_btl_sm_endpoint_t *ep, uint64_t ref, uint64_t start, uint16_t seq)
{
    struct btl_sm_segment_hdr *hdr = ep->peer;
    uint64_t lowest = sizeof(*hdr) + (uint64_t) ep->peer_cells * sizeof(struct btl_sm_cell);
    struct btl_sm_cell *cell = (struct btl_sm_cell *) (void *) ((char *) hdr + sizeof(*hdr))
                               + ep->peer_cell;
    uint64_t offset;
    uint32_t size;

    if (!btl_sm_ref_check(ref, lowest, ep->map_size, &offset, &size)) {
        return false;
    }
    btl_sm_fbox_rx_init(&ep->rx, (unsigned char *) hdr + offset, size, &cell->tail, start, seq);
    return true;
}

/** Records other than a whole message. Returns false if the peer must be given up. */
static __opal_attribute_noinline__ bool take_other(mca_btl_sm_endpoint_t *ep, uint64_t rec,
                                                   unsigned char *payload)
{
    size_t len = btl_sm_rec_len(rec);
    struct btl_sm_rec_switch where;
    bool ok;

    switch (btl_sm_rec_kind(rec)) {
    case BTL_SM_REC_SKIP:
        return true;
    case BTL_SM_REC_PART:
        return collect_part(ep, payload, len);
    case BTL_SM_REC_LAST:
        if (!collect_part(ep, payload, len)) {
            return false;
        }
        len = ep->parts_length;
        ep->parts_length = 0;
        return deliver(ep, btl_sm_rec_tag(rec), ep->parts, len);
    case BTL_SM_REC_PULL:
        return mca_btl_sm_stream_pulled(ep, payload, len);
    case BTL_SM_REC_STREAM:
        return mca_btl_sm_stream_piece(ep, payload, len);
    case BTL_SM_REC_PUSH:
        return mca_btl_sm_stream_push(ep, payload, len);
    case BTL_SM_REC_PUSHED:
        return mca_btl_sm_stream_pushed(ep, payload, len);
    case BTL_SM_REC_SWITCH:
        if (sizeof(where) != len) {
            return false;
        }
        memcpy(&where, payload, sizeof(where));
        btl_sm_fbox_release(&ep->rx, rec);
        {
            btl_sm_fbox_rx_t old = ep->rx;

            ok = open_box(ep, where.box, old.consumed, old.seq);
            /* The producer counts space in the new box from here. */
            if (ok) {
                ep->rx.returned = old.consumed;
                btl_sm_store_release(BTL_SM_EDGE_FBOX_SPACE, ep->rx.tail, ep->rx.consumed);
            }
        }
        return ok;
    default:
        return false;
    }
}

/**
 * Start fetching what will be read soon: the other lines of the record, which the upper layer reads
 * after it has matched the first, and in a stream the header word after it.
 */
static inline void fetch_record(mca_btl_sm_endpoint_t *ep, const unsigned char *payload, size_t len,
                                int budget)
{
    const unsigned char *line = payload - BTL_SM_FBOX_HDR;
    size_t need = btl_sm_fbox_need(len);

    if (budget > 1) {
        __builtin_prefetch(line + need);
    }
    /* The next message is likely to be of the same size. */
    ep->rx_ahead = (uint8_t) (need <= AHEAD_MOST ? (need - 1) / BTL_SM_LINE : 0);
    if (need > FETCH_MOST) {
        need = FETCH_MOST;
    }
    for (size_t at = BTL_SM_LINE; at < need; at += BTL_SM_LINE) {
        __builtin_prefetch(line + at);
    }
}

/**
 * Take up to `budget` messages from one box. Returns how many.
 *
 * The header word after a message lies in a line that the producer has just cleared. To look at it
 * is a miss that the answer to the message would have to wait for (100 ns and more), so whoever has
 * waited for this message takes it alone (budget 1); in a stream the next call takes many.
 */
static inline int poll_box(mca_btl_sm_endpoint_t *ep, int budget)
{
    int count = 0;

    do {
        unsigned char *payload;
        uint64_t rec;
        enum btl_sm_fbox_rc rc = btl_sm_fbox_peek(&ep->rx, &rec, &payload);

        if (BTL_SM_FBOX_EMPTY == rc) {
            break;
        }
        ++count;
        if (OPAL_LIKELY(BTL_SM_FBOX_OK == rc)) {
            fetch_record(ep, payload, btl_sm_rec_len(rec), budget);
            if (OPAL_LIKELY(BTL_SM_REC_DATA == btl_sm_rec_kind(rec))) {
                if (OPAL_LIKELY(deliver(ep, btl_sm_rec_tag(rec), payload, btl_sm_rec_len(rec)))) {
                    btl_sm_fbox_release(&ep->rx, rec);
                    continue;
                }
            } else if (take_other(ep, rec, payload)) {
                if (BTL_SM_REC_SWITCH != btl_sm_rec_kind(rec)) {
                    btl_sm_fbox_release(&ep->rx, rec);
                }
                continue;
            }
        }
        if (MCA_BTL_SM_RX_NONE != ep->rx_place) {
            mca_btl_sm_fault_lost(ep, "it wrote an impossible record");
        }
        break;
    } while (count < budget);
    return count;
}

static void place(mca_btl_sm_endpoint_t *ep, uint8_t where)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    mca_btl_sm_endpoint_t **list = NULL;
    uint32_t *count = NULL;

    if (MCA_BTL_SM_RX_ACTIVE == ep->rx_place) {
        list = component->active;
        count = &component->active_count;
    } else if (MCA_BTL_SM_RX_PARKED == ep->rx_place) {
        list = component->parked;
        count = &component->parked_count;
    }
    for (uint32_t i = 0; NULL != list && i < *count; ++i) {
        if (list[i] == ep) {
            list[i] = list[--*count];
            break;
        }
    }
    ep->rx_place = where;
    ep->rx_idle = 0;
    if (MCA_BTL_SM_RX_ACTIVE == where) {
        component->active[component->active_count++] = ep;
    } else if (MCA_BTL_SM_RX_PARKED == where) {
        component->parked[component->parked_count++] = ep;
    }
}

/** @brief A peer rang for the first time: start looking at its box. */
void mca_btl_sm_rx_open(mca_btl_sm_endpoint_t *ep)
{
    struct btl_sm_cell *cell;

    if (MCA_BTL_SM_RX_NONE != ep->rx_place || ep->failed) {
        return;
    }
    cell = (struct btl_sm_cell *) (void *) ((char *) ep->peer + sizeof(*ep->peer)) + ep->peer_cell;
    if (!open_box(ep, btl_sm_load_acquire(BTL_SM_EDGE_CELL, &cell->box), 0, 0)) {
        mca_btl_sm_fault_lost(ep, "it handed out an impossible box");
        return;
    }
    place(ep, MCA_BTL_SM_RX_ACTIVE);
}

/** @brief Stop looking at a peer's box. */
void mca_btl_sm_rx_close(mca_btl_sm_endpoint_t *ep)
{
    if (MCA_BTL_SM_RX_NONE != ep->rx_place) {
        place(ep, MCA_BTL_SM_RX_NONE);
    }
}

/** @brief Is there nothing left to take from a peer's box? */
bool mca_btl_sm_rx_drained(mca_btl_sm_endpoint_t *ep)
{
    return MCA_BTL_SM_RX_NONE == ep->rx_place || btl_sm_fbox_empty(&ep->rx);
}

/** @brief A peer was added: had it rung before we knew it? */
void mca_btl_sm_rx_unknown(mca_btl_sm_endpoint_t *ep)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;

    /* Ring for it again ourselves: whichever thread polls next sorts it out. */
    if (NULL != component->my_segment) {
        btl_sm_doorbell_ring(component->my_segment->door, ep->my_cell);
    }
}

/** Answer the doorbell. Returns events. */
static __opal_attribute_noinline__ int answer(uint32_t word)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    uint64_t bits = btl_sm_doorbell_take(component->my_segment->door, word);
    int events = 0;

    while (0 != bits) {
        uint32_t cell = 64 * word + (uint32_t) __builtin_ctzll(bits);
        mca_btl_sm_endpoint_t *ep;

        bits &= bits - 1;
        if (cell == component->local_count) {
            mca_btl_sm_endpoint_greet();
            continue;
        }
        if (cell >= component->modex.cell_count) {
            continue;
        }
        OPAL_THREAD_LOCK(&component->lock);
        ep = component->by_cell[cell];
        OPAL_THREAD_UNLOCK(&component->lock);
        if (NULL != ep && MCA_BTL_SM_RX_NONE == ep->rx_place) {
            struct btl_sm_cell *theirs;

            if (!mca_btl_sm_endpoint_find_cell(ep)) {
                continue; /* it has added us later than we it; it will ring when it writes */
            }
            theirs = (struct btl_sm_cell *) (void *) ((char *) ep->peer + sizeof(*ep->peer))
                     + ep->peer_cell;
            if (0 == btl_sm_load_acquire(BTL_SM_EDGE_CELL, &theirs->box)) {
                continue; /* rung by ourselves in rx_unknown: nothing written yet */
            }
            mca_btl_sm_rx_open(ep);
            ++events;
        }
    }
    return events;
}

/** @brief Find out whether ranks outnumber the cores that they may run on. */
void mca_btl_sm_count_cpus(void)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    uint32_t cpus = 0, own_cpus = 0;
    uint32_t ranks = 1, sharers = 1;

    for (unsigned i = 0; i < MCA_BTL_SM_CPU_WORDS; ++i) {
        component->cpus_of_all[i] |= component->modex.cpus[i];
        cpus += (uint32_t) __builtin_popcountll(component->cpus_of_all[i]);
        own_cpus += (uint32_t) __builtin_popcountll(component->modex.cpus[i]);
    }
    for (int i = 0; i < opal_pointer_array_get_size(&component->endpoints); ++i) {
        mca_btl_sm_endpoint_t *ep = opal_pointer_array_get_item(&component->endpoints, i);
        bool within = true;

        if (NULL == ep || ep->failed || ep->peer == component->my_segment) {
            continue;
        }
        ++ranks;
        for (unsigned w = 0; w < MCA_BTL_SM_CPU_WORDS; ++w) {
            within = within && 0 == (ep->cpus[w] & ~component->modex.cpus[w]);
        }
        sharers += within;
    }
    component->oversubscribed = cpus > 0 && (ranks > cpus || sharers > own_cpus);
    if (component->oversubscribed && !component->fenced_by_sleepers) {
        component->fenced_by_sleepers = btl_sm_wake_register();
    }
}

/** Is there anything at all to do? For the last look before sleeping. */
static bool anything(void)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    unsigned char *payload;
    uint64_t rec;

    for (uint32_t i = 0; i < component->active_count; ++i) {
        if (BTL_SM_FBOX_EMPTY != btl_sm_fbox_peek(&component->active[i]->rx, &rec, &payload)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < component->parked_count; ++i) {
        if (BTL_SM_FBOX_EMPTY != btl_sm_fbox_peek(&component->parked[i]->rx, &rec, &payload)) {
            place(component->parked[i], MCA_BTL_SM_RX_ACTIVE);
            return true;
        }
    }
    for (uint32_t i = 0; i < component->door_words; ++i) {
        if (0 != btl_sm_load_relaxed(&component->my_segment->door[i])) {
            return true;
        }
    }
    return false;
}

/** Let others run, unless Open MPI does so itself after each progress call in which nothing happened. */
static void give_core(void)
{
    if (!opal_progress_yield_when_idle) {
        sched_yield();
    }
}

/** Nothing happened in this call. */
static __opal_attribute_noinline__ void wait_a_little(void)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    bool own_work = 0 != btl_sm_load_relaxed(&component->pending_count)
                    || 0 != btl_sm_load_relaxed(&component->xfer_count);
    uint64_t now_ns;
    bool fenced;
    long nap, most;

    if (!component->oversubscribed || component->idle < component->idle_spin) {
        if (0 == component->quiet % IDLE_LIVENESS) {
            (void) mca_btl_sm_fault_poll();
        }
        return;
    }
    /* From here on each call may cost a time slice: so many calls as on a quiet machine are minutes. The
     * look at the clock in there is nothing to that. */
    (void) mca_btl_sm_fault_poll();
    if (own_work || component->idle < component->idle_spin + YIELDS_FIRST) {
        /* A peer has to do something that does not wake us (take from a full box, finish a chunk):
         * let it run, but look again soon. */
        give_core();
        return;
    }
    now_ns = mca_btl_sm_now_ns();
    if (component->idle <= component->wait_idle || 0 == component->wait_since_ns) {
        component->wait_since_ns = now_ns; /* something has happened since the last call */
    }
    component->wait_idle = component->idle;
    /* Being woken costs 100 us and more on a virtual machine, as much as a copy of 2 MiB whose end may
     * be what this process waits for. Who waits longer than that leaves the core to others. */
    if (now_ns - component->wait_since_ns < component->idle_yield * 1000) {
        give_core();
        return;
    }
    if (!mca_btl_sm_caller_waits()) {
        component->wait_since_ns = now_ns; /* ask again when as much time has passed */
        give_core();
        return;
    }
    fenced = btl_sm_wake_announce(component->my_segment);
    nap = (long) (now_ns - component->wait_since_ns) / SLEEP_PART;
    most = opal_using_threads()           ? SLEEP_THREADS_NS
           : component->beyond || !fenced ? SLEEP_OTHERS_NS
                                          : SLEEP_MOST_NS;
    nap = nap > most ? most : nap < SLEEP_LEAST_NS ? SLEEP_LEAST_NS : nap;
    if (anything()) {
        btl_sm_wake_cancel(component->my_segment);
        return;
    }
    mca_btl_sm_count(&component->stats.naps, 1);
    btl_sm_wake_sleep(component->my_segment, nap);
}

/** This thread is inside progress; a callback may call it again. */
static __thread bool inside;

/** Take the progress flag. It also keeps a callback that enters progress again from finding a
 *  half-taken box. */
static inline bool enter(mca_btl_sm_component_t *component)
{
    if (!opal_using_threads()) {
        if (0 != btl_sm_load_relaxed(&component->busy)) {
            return false;
        }
        btl_sm_store_relaxed(&component->busy, 1);
        return true;
    }
    while (0 != btl_sm_load_relaxed(&component->busy)
           || 0 != btl_sm_exchange_acquire(BTL_SM_EDGE_PROGRESS, &component->busy, 1)) {
        if (component->serialize_polling || inside) {
            return false;
        }
        btl_sm_pause();
    }
    inside = true;
    return true;
}

static inline void leave(mca_btl_sm_component_t *component)
{
    if (!opal_using_threads()) {
        btl_sm_store_relaxed(&component->busy, 0);
        return;
    }
    inside = false;
    btl_sm_store_release(BTL_SM_EDGE_PROGRESS, &component->busy, 0);
}

/**
 * @brief Keep progress out while the list of boxes changes (a peer goes away).
 *
 * From a callback of progress itself this does nothing: the caller holds the flag already.
 */
bool mca_btl_sm_progress_hold(void)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;

    if (!opal_using_threads() || inside) {
        return false;
    }
    while (0 != btl_sm_exchange_acquire(BTL_SM_EDGE_PROGRESS, &component->busy, 1)) {
        sched_yield();
    }
    return true;
}

/** @brief Let progress in again; `held` is what mca_btl_sm_progress_hold() returned. */
void mca_btl_sm_progress_resume(bool held)
{
    if (held) {
        btl_sm_store_release(BTL_SM_EDGE_PROGRESS, &mca_btl_sm_component.busy, 0);
    }
}

/**
 * Look at the active boxes several times; returns whether there is something.
 *
 * In a waiting loop a message is seen sooner than by going round through everybody else's progress
 * functions. One look is a load that hits the first level.
 */
static inline bool watch(mca_btl_sm_component_t *component, size_t looks)
{
    for (size_t look = 0; look < looks; ++look) {
        for (uint32_t i = 0; i < component->active_count; ++i) {
            const mca_btl_sm_endpoint_t *ep = component->active[i];

            if (!btl_sm_fbox_empty(&ep->rx)) {
                return true;
            }
            btl_sm_fbox_ahead(&ep->rx, ep->rx_ahead);
        }
        /* Each look takes the lines away from the producer, who may be writing them: with the
         * pause 64 to 512 B are 7 to 11 % faster between distant cores. */
        btl_sm_pause();
    }
    return false;
}

/**
 * The first look of a wait where ranks outnumber cores. If the peer runs, on another core, its answer is
 * there in less time than giving up the core takes; if it does not, looking is a waste of time that it
 * could run in. Which of the two it is, the last waits tell.
 */
static __opal_attribute_noinline__ void watch_first(mca_btl_sm_component_t *component)
{
    if (0 == component->active_count || component->active_count > WATCH_BOXES
        || (component->watch_paid < WATCH_GOOD && 0 != ++component->watch_passed % WATCH_TRIAL)) {
        return;
    }
    if (watch(component, WATCH_TIMES * component->spin_looks)) {
        component->watch_paid += component->watch_paid < WATCH_MOST;
    } else {
        component->watch_paid -= component->watch_paid > 0;
    }
}

int mca_btl_sm_component_progress(void)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    int events = 0;
    int budget;

    if (!enter(component)) {
        return 0;
    }
    budget = component->idle > 0 ? 1 : BOX_BUDGET;

    if (component->idle > SPIN_AFTER && component->active_count <= SPIN_BOXES
        && !component->oversubscribed) {
        (void) watch(component, component->spin_looks);
    } else if (component->oversubscribed && 0 == component->idle) {
        watch_first(component);
    }
    for (uint32_t i = 0; i < component->active_count; ++i) {
        mca_btl_sm_endpoint_t *ep = component->active[i];
        int count = poll_box(ep, budget);

        if (count > 0) {
            events += count;
            ep->rx_idle = 0;
        } else if (component->active_count > PARK_ABOVE && ++ep->rx_idle > PARK_AFTER) {
            place(ep, MCA_BTL_SM_RX_PARKED);
        }
    }
    if (component->parked_count > 0) {
        uint32_t at = ++component->parked_next % component->parked_count;
        mca_btl_sm_endpoint_t *ep = component->parked[at];
        int count = poll_box(ep, budget);

        if (count > 0) {
            events += count;
            if (MCA_BTL_SM_RX_PARKED == ep->rx_place) {
                place(ep, MCA_BTL_SM_RX_ACTIVE);
            }
        }
    }
    for (uint32_t i = 0; i < component->door_words; ++i) {
        if (OPAL_UNLIKELY(0 != btl_sm_load_relaxed(&component->my_segment->door[i]))) {
            events += answer(i);
        }
    }
    if (OPAL_UNLIKELY(0 != btl_sm_load_relaxed(&component->pending_count))) {
        events += mca_btl_sm_pending_progress();
    }
    if (0 != btl_sm_load_relaxed(&component->xfer_count)) {
        /* The caller may have waited for what was just delivered: it need not wait for a copy too. */
        if (events > 0 && component->copies_put_off < COPIES_PUT_OFF_MOST) {
            component->copies_put_off++;
        } else {
            component->copies_put_off = 0;
            events += mca_btl_sm_xfer_progress();
        }
    }
    if (0 == events) {
        events = mca_btl_sm_help_progress();
        if (0 == events) {
            component->idle++;
            component->quiet++;
            if (NULL != component->sent_last) {
                if (NULL != component->sent_last->tx.base) {
                    btl_sm_fbox_preclear(&component->sent_last->tx);
                }
                component->sent_last = NULL;
            }
            if (component->oversubscribed || 0 == component->quiet % IDLE_LIVENESS) {
                wait_a_little();
            }
        }
    }
    if (0 != events) {
        component->idle = 0;
        if (0 != component->row) {
            component->last_row = component->row;
            component->row = 0;
        }
    }

    leave(component);
    return events;
}

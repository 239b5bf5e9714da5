/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Endpoints (see btl_sm_endpoint.h).
 *
 * Layer 1. States of an endpoint:
 *
 *   (none) --create--> known --first message out--> sending half open
 *                        |   --doorbell in-------> receiving half open
 *                        +--process ended / bytes impossible--> lost (reported once)
 *   any state --destroy--> (none)
 */
#include "opal_config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "opal/constants.h"
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/util/proc.h"

#include "btl_sm_endpoint.h"
#include "btl_sm_fault.h"
#include "btl_sm_segment.h"

#define NO_CELL UINT32_MAX

/** Questions for a record before another process's is taken for the last word, and the pause
 *  between them in microseconds: 0.2 s in all. */
#define MODEX_TRIES    100
#define MODEX_PAUSE_US 2000

/** How long to wait until a peer of the own job has tried to map our segment, and the pause between
 *  two looks, nanoseconds. It does so in the same phase of MPI_Init, hence soon or never. */
#define ANSWER_WAIT_NS  (10ull * 1000 * 1000 * 1000)
#define ANSWER_PAUSE_NS (50l * 1000)

static struct btl_sm_cell *cell_at(struct btl_sm_segment_hdr *hdr, uint32_t cell)
{
    return (struct btl_sm_cell *) (void *) ((char *) hdr + sizeof(*hdr)) + cell;
}

/** Does the runtime's list of this node's ranks leave out this one? */
static bool not_listed(void)
{
    opal_process_name_t everybody = {.jobid = OPAL_PROC_MY_NAME.jobid, .vpid = OPAL_VPID_WILDCARD};
    bool unlisted;
    char *list = NULL;
    int rc;

    OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, PMIX_LOCAL_PEERS, &everybody, &list, PMIX_STRING);
    unlisted = PMIX_SUCCESS == rc && NULL != list;
    for (char *at = list; unlisted && '\0' != *at; at += ',' == *at ? 1 : 0) {
        unlisted = OPAL_PROC_MY_NAME.vpid != strtoul(at, NULL, 10);
        at += strcspn(at, ",");
    }
    free(list);
    return unlisted;
}

void mca_btl_sm_endpoint_locate(mca_btl_sm_component_t *component)
{
    mca_btl_sm_modex_t *modex = &component->modex;
    uint32_t *node = &modex->node;
    const char *name = opal_process_info.nodename;
    int rc;

    OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, PMIX_NODEID, &OPAL_PROC_MY_NAME, &node, PMIX_UINT32);
    if (PMIX_SUCCESS != rc) {
        modex->node = UINT32_MAX;
    }
    modex->node_name = 2166136261u; /* FNV-1a */
    while (NULL != name && '\0' != *name) {
        modex->node_name = (modex->node_name ^ (unsigned char) *name++) * 16777619u;
    }
    component->unlisted = not_listed();
    if (component->unlisted) {
        mca_btl_sm_tell("the runtime takes this node for another one of its name; no peers here");
    }
}

/**
 * Does a process of another job run on another node? Where one kernel carries several, as namespaces,
 * its memory might be within reach all the same, but perhaps of one side only, since each side knows
 * other records: the side without would wait for ever.
 */
static bool elsewhere(const mca_btl_sm_modex_t *modex)
{
    const mca_btl_sm_modex_t *own = &mca_btl_sm_component.modex;

    /* Jobs of one launcher share the upper half of their numbers, and the numbers of the nodes. */
    if (modex->jobid >> 16 == own->jobid >> 16 && UINT32_MAX != own->node
        && UINT32_MAX != modex->node) {
        return modex->node != own->node;
    }
    return modex->node_name != own->node_name;
}

bool mca_btl_sm_endpoint_known_local(const opal_proc_t *proc)
{
    return OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags) && !mca_btl_sm_component.unlisted;
}

/**
 * Fetch and check the modex of a peer.
 *
 * The PMIx that comes with Open MPI 5.0.7 now and then answers a question about a process of one
 * spawned job with the record of the process that has the same rank in another; some time later the
 * answer is right. `tries`: how often to ask. Returns OPAL_ERR_TEMP_OUT_OF_RESOURCE if that was
 * not often enough.
 */
static int receive_modex(opal_proc_t *proc, int tries, mca_btl_sm_modex_t *modex_out)
{
    enum btl_sm_modex_rc answer = BTL_SM_MODEX_OK;
    void *bytes = NULL;
    size_t size = 0;
    int rc;

    do {
        if (BTL_SM_MODEX_OK != answer) {
            (void) usleep(MODEX_PAUSE_US);
        }
        bytes = NULL;
        if (mca_btl_sm_endpoint_known_local(proc)) {
            OPAL_MODEX_RECV(rc, &mca_btl_sm_component.super.btl_version, &proc->proc_name, &bytes,
                            &size);
        } else {
            /* Nobody has told us where it runs. The node's server knows all that run here; do not
             * wait for anyone else. Whether its segment can be attached shows whether this is its
             * node. */
            OPAL_MODEX_RECV_IMMEDIATE(rc, &mca_btl_sm_component.super.btl_version, &proc->proc_name,
                                      (uint8_t **) &bytes, &size);
        }
        if (OPAL_SUCCESS != rc || NULL == bytes) {
            free(bytes);
            return OPAL_ERR_UNREACH;
        }
        answer = btl_sm_modex_accept(bytes, size, (uint32_t) geteuid(), proc->proc_name.jobid,
                                     proc->proc_name.vpid, modex_out);
        free(bytes);
    } while (BTL_SM_MODEX_STRANGER == answer && --tries > 0);
    if (BTL_SM_MODEX_OK != answer) {
        const bool stranger = BTL_SM_MODEX_STRANGER == answer;

        if (stranger) {
            mca_btl_sm_tell("PMIx mixes rank %u up with another process", proc->proc_name.vpid);
        } else {
            mca_btl_sm_tell("peer %u: not served: it speaks another sm protocol or is another "
                            "user's",
                            proc->proc_name.vpid);
        }
        return stranger ? OPAL_ERR_TEMP_OUT_OF_RESOURCE : OPAL_ERR_UNREACH;
    }
    return OPAL_SUCCESS;
}

void mca_btl_sm_endpoint_agree(size_t count, opal_proc_t **procs)
{
    opal_proc_t *self = opal_proc_local_get(), *first = self;
    mca_btl_sm_modex_t modex;

    for (size_t i = 0; i < count; ++i) {
        if (procs[i]->proc_name.jobid == self->proc_name.jobid
            && procs[i]->proc_name.vpid < first->proc_name.vpid
            && mca_btl_sm_endpoint_known_local(procs[i])) {
            first = procs[i];
        }
    }
    if (first != self && OPAL_SUCCESS == receive_modex(first, 1, &modex)) {
        mca_btl_sm_params_agree(modex.single_copy_ns);
    }
}

/** A name, as visitors' books have it. */
static uint64_t name_word(const opal_process_name_t *name)
{
    return ((uint64_t) name->jobid << 32) | name->vpid;
}

/** Cell of our segment for a peer: fixed for our own job, first free one for others. */
static uint32_t assign_cell(mca_btl_sm_component_t *component, opal_proc_t *proc,
                            const mca_btl_sm_modex_t *modex, mca_btl_sm_endpoint_t *ep)
{
    uint32_t cell = NO_CELL;

    if (proc->proc_name.jobid == OPAL_PROC_MY_NAME.jobid) {
        if (modex->local_rank < component->local_count
            && NULL == component->by_cell[modex->local_rank]) {
            cell = modex->local_rank;
        }
    } else {
        for (uint32_t i = component->local_count + 1; i < component->modex.cell_count; ++i) {
            if (NULL == component->by_cell[i]) {
                /* With its box: what could not be written to must not be added. */
                if (OPAL_SUCCESS == mca_btl_sm_segment_furnish_cells(component, i)
                    && mca_btl_sm_box_promise(ep)) {
                    cell = i;
                }
                break;
            }
        }
    }
    if (NO_CELL != cell) {
        struct btl_sm_cell *own = cell_at(component->my_segment, cell);

        btl_sm_store_relaxed(&own->box, 0);
        btl_sm_store_relaxed(&own->tail, 0);
        btl_sm_store_relaxed(&own->board.generation, 0);
        btl_sm_store_relaxed(&own->board.done, 0);
        btl_sm_store_relaxed(&own->board.failed, 0);
        btl_sm_store_relaxed(&own->board.stop, 0);
        btl_sm_store_release(BTL_SM_EDGE_CELL, &own->peer_nonce, modex->nonce[0]);
    }
    return cell;
}

/**
 * Leave word for a peer, which may have mapped our segment, that we cannot have it: in its cell if it
 * is of the own job, else by its name. It would wait for us for ever otherwise.
 */
static void refuse(mca_btl_sm_component_t *component, const opal_proc_t *proc,
                   const mca_btl_sm_modex_t *modex)
{
    if (proc->proc_name.jobid == OPAL_PROC_MY_NAME.jobid
        && modex->local_rank < component->local_count
        && NULL == component->by_cell[modex->local_rank]) {
        btl_sm_store_release(BTL_SM_EDGE_CELL,
                             &cell_at(component->my_segment, modex->local_rank)->peer_nonce,
                             BTL_SM_PEER_REFUSED);
    } else if (proc->proc_name.jobid != OPAL_PROC_MY_NAME.jobid) {
        btl_sm_store_relaxed(
            &component->my_segment->refused[component->refusals++ % BTL_SM_REFUSALS],
            name_word(&proc->proc_name));
    }
}

bool mca_btl_sm_endpoint_mutual(mca_btl_sm_endpoint_t *ep, bool wait, bool *decided_out)
{
    const struct timespec pause = {.tv_sec = 0, .tv_nsec = ANSWER_PAUSE_NS};
    const uint64_t start = mca_btl_sm_now_ns();
    uint64_t word;

    *decided_out = true;
    if (ep->foreign || NO_CELL == ep->peer_cell) {
        return true;
    }
    for (;;) {
        word = btl_sm_load_acquire(BTL_SM_EDGE_CELL, &cell_at(ep->peer, ep->peer_cell)->peer_nonce);
        if (0 != word) {
            return BTL_SM_PEER_REFUSED != word;
        }
        if (!wait || mca_btl_sm_now_ns() - start > ANSWER_WAIT_NS || mca_btl_sm_fault_gone(ep)) {
            *decided_out = false;
            return true;
        }
        (void) nanosleep(&pause, NULL);
    }
}

/** Tell a peer of another job that we are here. */
static void announce(mca_btl_sm_endpoint_t *ep)
{
    const opal_process_name_t own = OPAL_PROC_MY_NAME;

    if (!ep->announced && btl_sm_visit_enter(ep->peer->visitors, name_word(&own))) {
        ep->announced = true;
        btl_sm_doorbell_ring(ep->peer->door, ep->peer_local);
        btl_sm_fence_sleep();
        btl_sm_wake_peer(ep->peer);
    }
}

/** Has the owner of a segment left word that it cannot have the process of this name? */
static bool refuses(struct btl_sm_segment_hdr *hdr, uint64_t name)
{
    for (uint32_t i = 0; i < BTL_SM_REFUSALS; ++i) {
        if (name == btl_sm_load_relaxed(&hdr->refused[i])) {
            return true;
        }
    }
    return false;
}

bool mca_btl_sm_endpoint_find_cell(mca_btl_sm_endpoint_t *ep)
{
    const opal_process_name_t name = OPAL_PROC_MY_NAME;
    uint64_t own = mca_btl_sm_component.modex.nonce[0];
    uint32_t ready;

    if (NO_CELL != ep->peer_cell) {
        return true;
    }
    /* Cells that are not ready have no memory: looking at them could raise SIGBUS. */
    ready = btl_sm_load_acquire(BTL_SM_EDGE_CELL, &ep->peer->cells_ready);
    for (uint32_t i = ep->peer_local + 1; i < ready && i < ep->peer_cells; ++i) {
        if (own == btl_sm_load_acquire(BTL_SM_EDGE_CELL, &cell_at(ep->peer, i)->peer_nonce)) {
            ep->peer_cell = i;
            return true;
        }
    }
    if (refuses(ep->peer, name_word(&name))) {
        ep->turned_away = true; /* progress finds out, which may give a peer up */
        return false;
    }
    announce(ep);
    return false;
}

/** Which road large messages will take; why the provider refused a peer it tells itself. */
static void tell_road(const mca_btl_sm_endpoint_t *ep)
{
    const char *road = "single copy";

    if (NULL == ep->smsc) {
        road = NULL == mca_smsc ? "streamed through shared memory: no single-copy component "
                                  "(smsc) is in use"
                                : "streamed through shared memory: the single-copy component "
                                  "(smsc) has refused it";
    }
    mca_btl_sm_tell("peer %u (pid %d): large messages: %s", ep->proc->proc_name.vpid, ep->pid,
                    road);
}

/** Where the peer may run, and what follows from that. */
static void note_cpus(mca_btl_sm_endpoint_t *ep, const mca_btl_sm_modex_t *modex)
{
    for (unsigned i = 0; i < MCA_BTL_SM_CPU_WORDS; ++i) {
        ep->cpus[i] = modex->cpus[i];
        mca_btl_sm_component.cpus_of_all[i] |= modex->cpus[i];
    }
    mca_btl_sm_count_cpus();
}

/** Make an endpoint. OPAL_ERR_OUT_OF_RESOURCE: the peer is of this node, and no later attempt will do
 *  better. OPAL_ERR_UNREACH: nothing is known of it. Else see receive_modex(). */
static int create(opal_proc_t *proc, int tries, mca_btl_sm_endpoint_t **ep_out)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    bool self = proc == opal_proc_local_get();
    mca_btl_sm_modex_t modex;
    mca_btl_sm_endpoint_t *ep;
    int rc;

    if (self) {
        modex = component->modex;
    } else {
        rc = receive_modex(proc, tries, &modex);
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
        if (modex.jobid != component->modex.jobid && elsewhere(&modex)) {
            return OPAL_ERR_UNREACH;
        }
    }
    if (0 != posix_memalign((void **) &ep, 128, (sizeof(*ep) + 127) & ~(size_t) 127)) {
        if (!self) {
            refuse(component, proc, &modex);
        }
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    memset(ep, 0, sizeof(*ep));
    OBJ_CONSTRUCT(&ep->lock, opal_mutex_t);
    OBJ_CONSTRUCT(&ep->pending, opal_list_t);
    OBJ_CONSTRUCT(&ep->jobs, opal_list_t);
    OBJ_CONSTRUCT(&ep->pending_link, opal_list_item_t);
    ep->proc = proc;
    ep->pid = modex.pid;
    ep->nonce = modex.nonce[0];
    ep->pidfd = -1;
    ep->helped = 0xff; /* until it shows otherwise */
    ep->my_cell = NO_CELL;
    ep->peer_cell = NO_CELL;

    if (self) {
        /* Messages to ourselves are served by btl/self; this endpoint is for get and put only. */
        ep->peer = component->my_segment;
        ep->index = (uint32_t) opal_pointer_array_add(&component->endpoints, ep);
        *ep_out = ep;
        return OPAL_SUCCESS;
    }

    /* Before attaching: the peer may be waiting for our name at this very moment. */
    if (mca_btl_sm_segment_needs_name(&component->modex, &modex)) {
        mca_btl_sm_segment_publish_name(component);
    }
    rc = mca_btl_sm_segment_attach(&component->modex, &modex, &ep->map, &ep->peer_local);
    if (OPAL_SUCCESS != rc) {
        mca_btl_sm_tell("peer %u (pid %d): not served: no road to its memory, neither by its "
                        "descriptors nor by a name",
                        proc->proc_name.vpid, modex.pid);
        mca_btl_sm_endpoint_destroy(ep);
        refuse(component, proc, &modex);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    ep->peer = ep->map;
    ep->map_size = modex.segment_size;
    ep->peer_cells = modex.cell_count;
    if (proc->proc_name.jobid != OPAL_PROC_MY_NAME.jobid) {
        ep->foreign = true;
        OBJ_RETAIN(proc);
        if (refuses(ep->peer, name_word(&OPAL_PROC_MY_NAME))) {
            mca_btl_sm_endpoint_destroy(ep);
            return OPAL_ERR_UNREACH;
        }
    }

    OPAL_THREAD_LOCK(&component->lock);
    ep->my_cell = assign_cell(component, proc, &modex, ep);
    if (NO_CELL != ep->my_cell) {
        component->by_cell[ep->my_cell] = ep;
        ep->index = (uint32_t) opal_pointer_array_add(&component->endpoints, ep);
    }
    OPAL_THREAD_UNLOCK(&component->lock);
    if (NO_CELL == ep->my_cell) {
        mca_btl_sm_tell("peer %u (pid %d): not served: no memory for its box, or no number left",
                        proc->proc_name.vpid, modex.pid);
        mca_btl_sm_endpoint_destroy(ep);
        refuse(component, proc, &modex);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    if (!ep->foreign && component->modex.local_rank < ep->peer_local) {
        ep->peer_cell = component->modex.local_rank;
    }
    if (NULL != mca_smsc) {
        ep->smsc = MCA_SMSC_CALL(get_endpoint, proc);
    }
    tell_road(ep);
    /* A pid of another namespace would name a stranger. */
    if (modex.pid_ns == component->modex.pid_ns) {
        mca_btl_sm_fault_watch(ep);
    }
    note_cpus(ep, &modex);
    mca_btl_sm_rx_unknown(ep);
    *ep_out = ep;
    return OPAL_SUCCESS;
}

/** The endpoint of a process, NULL if there is none. */
static mca_btl_sm_endpoint_t *find(const opal_proc_t *proc)
{
    opal_pointer_array_t *all = &mca_btl_sm_component.endpoints;

    for (int i = 0; i < opal_pointer_array_get_size(all); ++i) {
        mca_btl_sm_endpoint_t *ep = opal_pointer_array_get_item(all, i);

        /* By name: a pointer may be that of a process that is long gone. A retired endpoint has no
         * process any more. */
        if (NULL != ep && NULL != ep->proc
            && (ep->proc == proc
                || (ep->foreign && ep->proc->proc_name.jobid == proc->proc_name.jobid
                    && ep->proc->proc_name.vpid == proc->proc_name.vpid))) {
            return ep;
        }
    }
    return NULL;
}

int mca_btl_sm_endpoint_admit(opal_proc_t *proc, mca_btl_sm_endpoint_t **ep_out)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    int rc = OPAL_SUCCESS;

    OPAL_THREAD_LOCK(&component->admission);
    *ep_out = find(proc);
    if (NULL == *ep_out) {
        rc = create(proc, MODEX_TRIES, ep_out);
        if (OPAL_SUCCESS != rc) {
            *ep_out = NULL;
            rc = OPAL_ERR_UNREACH;
        }
    }
    OPAL_THREAD_UNLOCK(&component->admission);
    return rc;
}

void mca_btl_sm_endpoint_greet(void)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;

    /* Who holds the lock may be waiting for progress to pause, so this thread must not wait. */
    if (OPAL_THREAD_TRYLOCK(&component->admission)) {
        btl_sm_doorbell_ring(component->my_segment->door, component->modex.cell_count);
        return;
    }
    for (uint32_t i = 0; i < BTL_SM_VISITORS; ++i) {
        uint64_t visitor = btl_sm_visit_take(component->my_segment->visitors, i);
        opal_process_name_t name = {.jobid = (opal_jobid_t) (visitor >> 32),
                                    .vpid = (opal_vpid_t) visitor};
        mca_btl_sm_endpoint_t *ep;
        opal_proc_t *proc;

        /* One that was refused stays so: upper layers have found another road to it. */
        if (0 == visitor || name.jobid == OPAL_PROC_MY_NAME.jobid
            || refuses(component->my_segment, visitor)) {
            continue;
        }
        proc = opal_proc_for_name(name);
        if (NULL != proc && NULL == find(proc)
            && OPAL_ERR_TEMP_OUT_OF_RESOURCE == create(proc, 1, &ep)) {
            /* Waiting here would hold up everybody: leave the name for later. */
            component->revisit = btl_sm_visit_enter(component->my_segment->visitors, visitor);
        }
    }
    OPAL_THREAD_UNLOCK(&component->admission);
}

/** Free the cell, the boxes, the provider's endpoint and the mapping of a peer. */
static void detach(mca_btl_sm_endpoint_t *ep)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;

    if (NO_CELL != ep->my_cell) {
        (void) mca_btl_sm_complete_late();
        mca_btl_sm_pending_drop(ep);
        mca_btl_sm_xfer_fail(ep);
        OPAL_THREAD_LOCK(&ep->lock);
        OPAL_THREAD_LOCK(&component->lock);
        component->by_cell[ep->my_cell] = NULL;
        if (NULL != component->my_segment) {
            btl_sm_store_release(BTL_SM_EDGE_CELL,
                                 &cell_at(component->my_segment, ep->my_cell)->peer_nonce, 0);
        }
        mca_btl_sm_box_give_back(ep);
        if (ep == component->sent_last) {
            component->sent_last = NULL;
        }
        OPAL_THREAD_UNLOCK(&component->lock);
        OPAL_THREAD_UNLOCK(&ep->lock);
        ep->my_cell = NO_CELL;
    }
    if (NULL != ep->smsc) {
        MCA_SMSC_CALL(return_endpoint, ep->smsc);
        ep->smsc = NULL;
    }
    if (NULL != ep->map) {
        (void) munmap(ep->map, ep->map_size);
        ep->map = NULL;
        ep->peer = NULL;
    }
    if (ep->foreign && NULL != ep->proc) {
        OBJ_RELEASE(ep->proc);
        ep->proc = NULL;
    }
    free(ep->parts);
    ep->parts = NULL;
    free(ep->view);
    ep->view = NULL;
}

void mca_btl_sm_endpoint_retire(mca_btl_sm_endpoint_t *ep)
{
    OPAL_THREAD_LOCK(&ep->lock);
    ep->failed = true;
    ep->fast_max = 0;
    OPAL_THREAD_UNLOCK(&ep->lock);
    mca_btl_sm_rx_close(ep);
    mca_btl_sm_fault_unwatch(ep);
    detach(ep);
    mca_btl_sm_count_cpus(); /* ranks may no longer outnumber the cores */
}

void mca_btl_sm_endpoint_destroy(mca_btl_sm_endpoint_t *ep)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    bool held = mca_btl_sm_progress_hold();

    mca_btl_sm_rx_close(ep);
    mca_btl_sm_progress_resume(held);
    mca_btl_sm_fault_unwatch(ep);
    if (ep == opal_pointer_array_get_item(&component->endpoints, (int) ep->index)) {
        (void) opal_pointer_array_set_item(&component->endpoints, (int) ep->index, NULL);
    }
    detach(ep);
    OBJ_DESTRUCT(&ep->pending_link);
    OBJ_DESTRUCT(&ep->jobs);
    OBJ_DESTRUCT(&ep->pending);
    OBJ_DESTRUCT(&ep->lock);
    free(ep);
}

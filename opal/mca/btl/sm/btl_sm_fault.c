/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Loss of peers (see btl_sm_fault.h).
 *
 * Layer 1. All pidfds sit in one epoll set, so that looking costs one system call whatever the
 * number of peers. A pidfd cannot be mistaken for a later process with the same number.
 */
#include "opal_config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "opal/constants.h"
#include "opal/util/output.h"

#include "btl_sm_endpoint.h"
#include "btl_sm_fault.h"

#if !defined(SYS_pidfd_open)
#    define SYS_pidfd_open 434
#endif

#define POLL_INTERVAL_NS (20ull * 1000 * 1000)
#define EVENTS_PER_POLL  16

/** A peer that has ended is reported after this time. A launcher that kills the rest of the job
 *  because of it does so within milliseconds; then one death gives one message, not one per rank. */
#define REPORT_AFTER_NS (1000ull * 1000 * 1000)

void mca_btl_sm_fault_watch(mca_btl_sm_endpoint_t *ep)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = ep}};

    if (0 > component->epoll_fd) {
        component->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (0 > component->epoll_fd) {
            return;
        }
    }
    ep->pidfd = (int) syscall(SYS_pidfd_open, ep->pid, 0);
    if (0 > ep->pidfd) {
        return;
    }
    if (0 != epoll_ctl(component->epoll_fd, EPOLL_CTL_ADD, ep->pidfd, &event)) {
        close(ep->pidfd);
        ep->pidfd = -1;
    }
}

void mca_btl_sm_fault_unwatch(mca_btl_sm_endpoint_t *ep)
{
    if (0 != ep->report_ns) {
        ep->report_ns = 0;
        mca_btl_sm_component.dying--;
    }
    if (ep->ended) {
        ep->ended = false;
        mca_btl_sm_component.ended--;
    }
    if (0 <= ep->pidfd) {
        (void) epoll_ctl(mca_btl_sm_component.epoll_fd, EPOLL_CTL_DEL, ep->pidfd, NULL);
        close(ep->pidfd);
        ep->pidfd = -1;
    }
}

bool mca_btl_sm_fault_gone(mca_btl_sm_endpoint_t *ep)
{
    struct pollfd pfd = {.fd = ep->pidfd, .events = POLLIN};

    return 0 <= ep->pidfd && 1 == poll(&pfd, 1, 0) && 0 != (pfd.revents & POLLIN);
}

void mca_btl_sm_fault_lost(mca_btl_sm_endpoint_t *ep, const char *why)
{
    char text[256];

    if (ep->failed) {
        return;
    }
    OPAL_THREAD_LOCK(&ep->lock);
    ep->failed = true;
    ep->fast_max = 0;
    OPAL_THREAD_UNLOCK(&ep->lock);
    mca_btl_sm_count(&mca_btl_sm_component.stats.lost_peers, 1);
    /* It may have died with our reader's token in its hand. */
    (void) btl_sm_fetch_and_relaxed(&mca_btl_sm_component.my_segment->readers[ep->my_cell / 64],
                                    ~(UINT64_C(1) << (ep->my_cell % 64)));
    mca_btl_sm_rx_close(ep);
    mca_btl_sm_fault_unwatch(ep);
    mca_btl_sm_pending_drop(ep);
    mca_btl_sm_xfer_fail(ep);

    (void) snprintf(text, sizeof(text), "shared memory: rank %u of job %u (pid %d) is lost: %s",
                    ep->proc->proc_name.vpid, ep->proc->proc_name.jobid, ep->pid, why);
    mca_btl_sm_tell("%s", text);
    if (NULL != mca_btl_sm.error_cb) {
        /* The text outlives the call: the upper layer may keep the pointer. */
        mca_btl_sm.error_cb(&mca_btl_sm.super, MCA_BTL_ERROR_FLAGS_NONFATAL, ep->proc,
                            strdup(text));
    }
    if (ep->foreign) {
        ep->ended = true;
        mca_btl_sm_component.ended++;
    }
}

int mca_btl_sm_fault_poll(void)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    struct epoll_event events[EVENTS_PER_POLL];
    struct timespec now;
    uint64_t now_ns;
    int count, lost = 0;

    if (component->revisit) {
        component->revisit = false;
        btl_sm_doorbell_ring(component->my_segment->door, component->local_count);
    }
    if (0 > component->epoll_fd) {
        return 0;
    }
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    now_ns = (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
    if (now_ns < component->liveness_next_ns && 0 == component->dying + component->ended) {
        return 0;
    }
    component->liveness_next_ns = now_ns + POLL_INTERVAL_NS;
    count = epoll_wait(component->epoll_fd, events, EVENTS_PER_POLL, 0);
    for (int i = 0; i < count; ++i) {
        mca_btl_sm_endpoint_t *ep = events[i].data.ptr;

        (void) epoll_ctl(component->epoll_fd, EPOLL_CTL_DEL, ep->pidfd, NULL);
        /* If it said goodbye, what it sent before is still in the box and will be taken. */
        if (BTL_SM_STATE_LEFT != btl_sm_load_acquire(BTL_SM_EDGE_STATE, &ep->peer->state)) {
            ep->report_ns = now_ns + REPORT_AFTER_NS;
            component->dying++;
        } else if (ep->foreign) {
            ep->ended = true;
            component->ended++;
        }
    }
    for (int i = 0; component->dying > 0 && i < opal_pointer_array_get_size(&component->endpoints);
         ++i) {
        mca_btl_sm_endpoint_t *ep = opal_pointer_array_get_item(&component->endpoints, i);

        if (NULL != ep && 0 != ep->report_ns && now_ns >= ep->report_ns) {
            ep->report_ns = 0;
            component->dying--;
            mca_btl_sm_fault_lost(ep, "its process has ended");
            ++lost;
        }
    }
    for (int i = 0; component->ended > 0 && i < opal_pointer_array_get_size(&component->endpoints);
         ++i) {
        mca_btl_sm_endpoint_t *ep = opal_pointer_array_get_item(&component->endpoints, i);

        if (NULL != ep && ep->ended && mca_btl_sm_rx_drained(ep)) {
            mca_btl_sm_endpoint_retire(ep);
        }
    }
    return lost;
}

void mca_btl_sm_tell(const char *format, ...)
{
    const int stream = opal_btl_base_framework.framework_output;
    char text[512];
    va_list values;

    if (0 >= mca_btl_sm_component.verbose && !opal_output_check_verbosity(1, stream)) {
        return;
    }
    va_start(values, format);
    (void) vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    opal_output(0 < stream ? stream : 0, "btl/sm: %s", text);
}

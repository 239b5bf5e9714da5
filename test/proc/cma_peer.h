/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A peer process for the tests of smsc/cma: has an identity and a buffer, does what it is told,
 * and can tell whether its memory was touched.
 *
 * Used by the programs p_cma_*.c. The prober is the test program itself.
 */
#ifndef SMX_TEST_CMA_PEER_H
#define SMX_TEST_CMA_PEER_H

#include "pattern.h"
#include "proc.h"
#include "smsc_cma_probe.h"
#include "tap.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/** Events of the group. */
enum { PEER_READY, PEER_ACT, PEER_ACTED, PEER_CHECK, PEER_CHECKED, PEER_STOP };

/** Where peers keep the memory that is copied; the same in all, so that a stranger has it, too. */
#define PEER_BUFFER ((unsigned char *) (uintptr_t) UINT64_C(0x300000000000))
#define PEER_BYTES  ((size_t) 3 << 20)
#define PEER_SEED   41

/** What a peer publishes in the shared segment. */
typedef struct peer_shared_t {
    smsc_cma_modex_t record;
    int32_t pid;      /**< of the peer, as it sees itself */
    int32_t verdict;  /**< of the last check: bytes that are not as they were */
    uint64_t address; /**< of the buffer, if it is not PEER_BUFFER */
} peer_shared_t;

/** What a peer is to be. All may be NULL. */
typedef struct peer_plan_t {
    bool (*before)(void *argument); /**< before it makes its identity; false: cannot be done here */
    bool (*ready)(peer_shared_t *shared, void *argument); /**< before it says READY */
    void (*act)(peer_shared_t *shared, void *argument);   /**< at PEER_ACT */
    void *argument;
} peer_plan_t;

#define PEER_IMPOSSIBLE 99 /* exit status of a peer that could not become what was planned */

static inline bool peer_buffer_map(void)
{
    if (PEER_BUFFER
        != mmap(PEER_BUFFER, PEER_BYTES, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0)) {
        return false;
    }
    pattern_fill(PEER_BUFFER, PEER_BYTES, PEER_SEED, 0);
    return true;
}

/** Serve until told to stop: act, and check the buffer, once per event. */
static inline void peer_serve(proc_group_t *group, const peer_plan_t *plan)
{
    peer_shared_t *shared = group->segment;
    uint32_t acts = 0, checks = 0;

    while (0 == proc_count(group, PEER_STOP)) {
        if (acts < proc_count(group, PEER_ACT)) {
            ++acts;
            if (NULL != plan->act) {
                plan->act(shared, plan->argument);
            }
            proc_post(group, PEER_ACTED);
        }
        if (checks < proc_count(group, PEER_CHECK)) {
            ++checks;
            shared->verdict = (int32_t) (PEER_BYTES
                                         - pattern_good(PEER_BUFFER, PEER_BYTES, PEER_SEED, 0));
            proc_post(group, PEER_CHECKED);
        }
        usleep(500);
    }
}

static inline int peer_body(proc_group_t *group, int index, void *argument)
{
    const peer_plan_t *plan = argument;
    peer_shared_t *shared = group->segment;
    smsc_cma_identity_t identity;

    (void) index;
    if (NULL != plan->before && !plan->before(plan->argument)) {
        return PEER_IMPOSSIBLE;
    }
    if (!peer_buffer_map() || 0 != smsc_cma_identity_create(&identity)) {
        return 1;
    }
    shared->record = identity.modex;
    shared->pid = getpid();
    shared->address = (uint64_t) (uintptr_t) PEER_BUFFER;
    if (NULL != plan->ready && !plan->ready(shared, plan->argument)) {
        return PEER_IMPOSSIBLE;
    }
    proc_post(group, PEER_READY);
    peer_serve(group, plan);
    smsc_cma_identity_retire(&identity);
    return 0;
}

/** @return false if the peer ended before it was ready; PEER_IMPOSSIBLE is then its exit status */
static inline bool peer_start(proc_group_t *group, peer_plan_t *plan)
{
    if (!proc_start(group, 1, sizeof(peer_shared_t), 50, peer_body, plan)) {
        return false;
    }
    while (0 == proc_count(group, PEER_READY)) {
        if (!proc_running(group, 0)) {
            return false;
        }
        usleep(500);
    }
    return true;
}

/** Have the peer do its act and wait until it is done. */
static inline void peer_act(proc_group_t *group)
{
    proc_post(group, PEER_ACT);
    (void) proc_await(group, PEER_ACTED, proc_count(group, PEER_ACT));
}

/** @return bytes from the first changed one to the end of the peer's buffer; 0: untouched */
static inline int peer_touched(proc_group_t *group)
{
    proc_post(group, PEER_CHECK);
    (void) proc_await(group, PEER_CHECKED, proc_count(group, PEER_CHECK));
    return ((peer_shared_t *) group->segment)->verdict;
}

static inline bool peer_stop(proc_group_t *group)
{
    proc_post(group, PEER_STOP);
    return proc_finish(group);
}

static inline void peer_no_wait(unsigned int attempt)
{
    (void) attempt;
    sched_yield();
}

static inline void *peer_no_map(pid_t pid, const smsc_cma_modex_t *record)
{
    (void) pid;
    (void) record;
    return NULL;
}

/** The real calls; and the same without a life word, so that the nonce has to do. */
static const smsc_cma_probe_sys_t peer_sys_word = {
    .copy = {process_vm_readv, process_vm_writev, peer_no_wait},
    .translate = smsc_cma_identity_translate,
    .map = smsc_cma_probe_map,
};
static const smsc_cma_probe_sys_t peer_sys_nonce = {
    .copy = {process_vm_readv, process_vm_writev, peer_no_wait},
    .translate = smsc_cma_identity_translate,
    .map = peer_no_map,
};

static inline const smsc_cma_probe_sys_t *peer_sys(int proof)
{
    return 0 == proof ? &peer_sys_word : &peer_sys_nonce;
}

static const char *const peer_proof[2] __attribute__((unused)) = {"word", "nonce"};

static inline smsc_cma_result_t peer_copy(const smsc_cma_peer_t *peer,
                                          smsc_cma_direction_t direction, void *local,
                                          const void *remote, size_t len)
{
    smsc_cma_result_t result;

    smsc_cma_copy(&peer_sys_word.copy, &peer->target, direction, local,
                  (uint64_t) (uintptr_t) remote, len, (size_t) 64 << 20, &result);
    return result;
}

#endif /* SMX_TEST_CMA_PEER_H */

/*
 * smsc_test_peer.h: what the two smsc test plugins share: who the peer is, how to reach its
 * memory, counters that a test can read, and failures on demand.
 *
 * Layer: test, plugins only; included once by each plugin's single source file. Never installed.
 * It is no model for a product: the pid is trusted, there is no probe and no retry, because the
 * tests run these plugins between ranks that may read each other, to see that btl/sm keeps the
 * contract of opal/mca/smsc/smsc.h.
 */

#ifndef SMSC_TEST_PEER_H
#define SMSC_TEST_PEER_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "opal/constants.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/mca/smsc/base/base.h"
#include "opal/mca/smsc/smsc.h"
#include "opal/util/proc.h"

/** What each rank publishes about itself. */
typedef struct smsc_test_modex_t {
    uint64_t magic;
    int64_t pid;
    uint64_t table; /**< address of something that peers may read, or 0 */
} smsc_test_modex_t;

#define SMSC_TEST_MAGIC UINT64_C(0x736d736374657374)

/** One counter, shown as an MPI_T performance variable. */
typedef _Atomic unsigned long long smsc_test_counter_t;

static inline void smsc_test_count(smsc_test_counter_t *counter, unsigned long long n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static int smsc_test_read_counter(const struct mca_base_pvar_t *pvar, void *value, void *object)
{
    (void) object;
    *(unsigned long long *) value = atomic_load((smsc_test_counter_t *) pvar->ctx);
    return OPAL_SUCCESS;
}

static inline void smsc_test_register_counter(const mca_base_component_t *component,
                                              const char *name, const char *text,
                                              smsc_test_counter_t *counter)
{
    (void) mca_base_component_pvar_register(component, name, text, OPAL_INFO_LVL_9,
                                            MCA_BASE_PVAR_CLASS_COUNTER,
                                            MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL,
                                            MCA_BASE_VAR_BIND_NO_OBJECT,
                                            MCA_BASE_PVAR_FLAG_READONLY
                                                | MCA_BASE_PVAR_FLAG_CONTINUOUS,
                                            smsc_test_read_counter, NULL, NULL, (void *) counter);
}

/** "Every n-th time": 0 is never. */
typedef struct smsc_test_fault_t {
    unsigned every;
    _Atomic unsigned calls;
} smsc_test_fault_t;

static inline bool smsc_test_fails(smsc_test_fault_t *fault)
{
    return 0 != fault->every && 0 == (atomic_fetch_add(&fault->calls, 1) + 1) % fault->every;
}

static inline void smsc_test_register_unsigned(const mca_base_component_t *component,
                                               const char *name, const char *text, unsigned *value)
{
    (void) mca_base_component_var_register(component, name, text, MCA_BASE_VAR_TYPE_UNSIGNED_INT,
                                           NULL, 0, 0, OPAL_INFO_LVL_9, MCA_BASE_VAR_SCOPE_LOCAL,
                                           value);
}

/**
 * @brief Publish this process; called from query(), before the exchange.
 * @param table an address that peers will read, may be NULL
 */
static inline int smsc_test_publish(const mca_base_component_t *component, const void *table)
{
    smsc_test_modex_t mine = {
        .magic = SMSC_TEST_MAGIC,
        .pid = getpid(),
        .table = (uintptr_t) table,
    };
    int rc = OPAL_SUCCESS;

#ifdef PR_SET_PTRACER
    /* Matters only where the Yama module restricts tracing to descendants; fails elsewhere. */
    (void) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
    OPAL_MODEX_SEND(rc, PMIX_LOCAL, component, &mine, sizeof(mine));
    return rc;
}

/** @brief Fetch what a peer published. */
static inline int smsc_test_look_up(const mca_base_component_t *component, opal_proc_t *proc,
                                    smsc_test_modex_t *peer_out)
{
    void *data = NULL;
    size_t size = 0;
    int rc = OPAL_SUCCESS;

    OPAL_MODEX_RECV_IMMEDIATE(rc, component, &proc->proc_name, &data, &size);
    if (OPAL_SUCCESS != rc || NULL == data) {
        return OPAL_ERR_NOT_FOUND;
    }
    if (sizeof(*peer_out) != size) {
        free(data);
        return OPAL_ERR_NOT_FOUND;
    }
    memcpy(peer_out, data, sizeof(*peer_out));
    free(data);
    return SMSC_TEST_MAGIC == peer_out->magic ? OPAL_SUCCESS : OPAL_ERR_NOT_FOUND;
}

/**
 * @brief Copy all bytes between this process and the peer, in as many calls as it takes.
 * @param write true: into the peer's memory
 */
static inline int smsc_test_transfer(pid_t pid, void *local, void *remote, size_t size, bool write)
{
    size_t done = 0;

    while (done < size) {
        struct iovec mine = {.iov_base = (char *) local + done, .iov_len = size - done};
        struct iovec theirs = {.iov_base = (char *) remote + done, .iov_len = size - done};
        ssize_t n = write ? process_vm_writev(pid, &mine, 1, &theirs, 1, 0)
                          : process_vm_readv(pid, &mine, 1, &theirs, 1, 0);
        if (n > 0) {
            done += (size_t) n;
        } else if (0 == n || EINTR != errno) {
            return OPAL_ERROR;
        }
    }
    return OPAL_SUCCESS;
}

#endif /* SMSC_TEST_PEER_H */

/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Endpoints and copies of smsc/cma: the framework's functions over the engine and the probe.
 *
 * Layer: L1. Called through mca_smsc by btl/sm and others that want single copy.
 * Must never: print unless verbose output was asked for; use an endpoint again that was lost; look
 * at registration data.
 */
#include "opal_config.h"

#include "opal/constants.h"
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/mca/smsc/base/base.h"
#include "opal/mca/smsc/cma/smsc_cma_types.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

/* Tries that only give the processor away; later ones sleep, 1 ms longer each time. */
#define YIELDING_TRIES 3

static void let_time_pass(unsigned int attempt)
{
    if (YIELDING_TRIES >= attempt) {
        sched_yield();
    } else {
        const struct timespec pause = {.tv_nsec = (attempt - YIELDING_TRIES) * 1000000L};

        nanosleep(&pause, NULL);
    }
}

static const smsc_cma_probe_sys_t sys = {
    .copy = {.readv = process_vm_readv, .writev = process_vm_writev, .wait = let_time_pass},
    .translate = smsc_cma_identity_translate,
    .map = smsc_cma_probe_map,
};

static void endpoint_construct(mca_smsc_cma_endpoint_t *endpoint)
{
    endpoint->self = false;
    endpoint->lost = OPAL_SUCCESS;
    endpoint->peer = (smsc_cma_peer_t) {.reason = SMSC_CMA_REASON_NONE};
}

static void endpoint_destruct(mca_smsc_cma_endpoint_t *endpoint)
{
    smsc_cma_probe_release(&endpoint->peer);
}

OBJ_CLASS_INSTANCE(mca_smsc_cma_endpoint_t, opal_object_t, endpoint_construct, endpoint_destruct);

/** One code per cause; README.md has the table for users of the framework. */
static int code_of(smsc_cma_status_t status)
{
    switch (status) {
    case SMSC_CMA_OK:
        return OPAL_SUCCESS;
    case SMSC_CMA_BAD_ADDRESS:
        return OPAL_ERR_VALUE_OUT_OF_BOUNDS;
    case SMSC_CMA_NO_MEMORY:
        return OPAL_ERR_OUT_OF_RESOURCE;
    case SMSC_CMA_BUSY:
        return OPAL_ERR_TEMP_OUT_OF_RESOURCE;
    case SMSC_CMA_INTERRUPTED:
        return OPAL_ERR_INTERRUPTED;
    case SMSC_CMA_STUCK:
        return OPAL_ERR_TIMEOUT;
    case SMSC_CMA_BAD_REQUEST:
        return OPAL_ERR_BAD_PARAM;
    case SMSC_CMA_DENIED:
        return OPAL_ERR_PERM;
    case SMSC_CMA_UNSUPPORTED:
        return OPAL_ERR_NOT_SUPPORTED;
    case SMSC_CMA_INVALID:
        return OPAL_ERR_OPERATION_UNSUPPORTED;
    case SMSC_CMA_GONE:
        return OPAL_ERR_UNREACH;
    default:
        return OPAL_ERR_IN_ERRNO;
    }
}

/** Receive and check what the peer says of itself. */
static smsc_cma_reason_t receive_record(opal_proc_t *peer_proc, smsc_cma_modex_t *record)
{
    void *bytes = NULL;
    size_t size = 0;
    smsc_cma_modex_status_t status;
    int rc;

    OPAL_MODEX_RECV_IMMEDIATE(rc, &mca_smsc_cma_component.super.smsc_version, &peer_proc->proc_name,
                              (uint8_t **) &bytes, &size);
    if (OPAL_SUCCESS != rc || NULL == bytes) {
        free(bytes);
        return SMSC_CMA_REASON_NO_RECORD;
    }
    status = smsc_cma_modex_accept(bytes, size, record);
    free(bytes);
    if (SMSC_CMA_MODEX_OK == status
        && (record->job != peer_proc->proc_name.jobid
            || record->rank != peer_proc->proc_name.vpid)) {
        return SMSC_CMA_REASON_NO_RECORD; /* somebody else's: his memory must not be taken for it */
    }
    return SMSC_CMA_MODEX_OK == status ? SMSC_CMA_REASON_NONE : SMSC_CMA_REASON_RECORD;
}

/** The stream for whoever wants to know, -1 for nobody. A user of the framework may have raised
 *  smsc_base_verbose after the framework was opened without a stream. */
static int listener(void)
{
    const int stream = opal_smsc_base_framework.framework_output;

    if (0 > stream) {
        return MCA_SMSC_CMA_VERBOSE <= opal_smsc_base_framework.framework_verbose ? 0 : -1;
    }
    return opal_output_check_verbosity(MCA_SMSC_CMA_VERBOSE, stream) ? stream : -1;
}

/** Count a refusal; say it if someone wants to know. */
static void refuse(const opal_proc_t *peer_proc, const smsc_cma_peer_t *peer,
                   const smsc_cma_modex_t *record)
{
    const int stream = listener();
    char text[512];

    mca_smsc_cma_count(MCA_SMSC_CMA_REFUSED + (int) peer->reason - 1, 1);
    if (0 <= stream) {
        smsc_cma_probe_explain(peer, record, text, sizeof(text));
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): the constructor has set the pid */
        opal_output(stream, "smsc/cma: no single copy with %s (pid %ld): %s",
                    OPAL_NAME_PRINT(peer_proc->proc_name), (long) peer->target.pid, text);
    }
}

mca_smsc_endpoint_t *mca_smsc_cma_get_endpoint(opal_proc_t *peer_proc)
{
    mca_smsc_cma_endpoint_t *endpoint = OBJ_NEW(mca_smsc_cma_endpoint_t);
    smsc_cma_modex_t record;
    smsc_cma_peer_t *peer;

    if (NULL == endpoint) {
        return NULL;
    }
    endpoint->super.proc = peer_proc;
    if (0 == opal_compare_proc(peer_proc->proc_name, OPAL_PROC_MY_NAME)) {
        endpoint->self = true;
        mca_smsc_cma_count(MCA_SMSC_CMA_ENDPOINTS, 1);
        return &endpoint->super;
    }

    peer = &endpoint->peer;
    smsc_cma_identity_drain(&mca_smsc_cma_component.identity);
    peer->reason = receive_record(peer_proc, &record);
    if (SMSC_CMA_REASON_NONE != peer->reason) {
        refuse(peer_proc, peer, NULL);
    } else if (SMSC_CMA_REASON_NONE
               != smsc_cma_probe_peer(&sys, &mca_smsc_cma_component.identity, &record,
                                      opal_process_info.my_local_rank, peer)) {
        refuse(peer_proc, peer, &record);
    } else {
        mca_smsc_cma_count(MCA_SMSC_CMA_ENDPOINTS, 1);
        if (NULL != peer->target.life) {
            mca_smsc_cma_count(MCA_SMSC_CMA_WATCHED, 1);
        }
        if (record.pid != (uint32_t) peer->target.pid) {
            mca_smsc_cma_count(MCA_SMSC_CMA_TRANSLATED, 1);
        }
        return &endpoint->super;
    }
    OBJ_RELEASE(endpoint);
    return NULL;
}

void mca_smsc_cma_return_endpoint(mca_smsc_endpoint_t *endpoint)
{
    if (NULL != endpoint) {
        mca_smsc_cma_endpoint_t *mine = (mca_smsc_cma_endpoint_t *) endpoint;

        OBJ_RELEASE(mine);
    }
}

/** A copy failed: count, remember if it is for good, leave errno for OPAL_ERR_IN_ERRNO. */
static int fail(mca_smsc_cma_endpoint_t *endpoint, smsc_cma_direction_t direction, size_t size,
                const smsc_cma_result_t *result)
{
    const int rc = code_of(result->status);
    const int stream = listener();
    int32_t unlost = OPAL_SUCCESS;

    mca_smsc_cma_count(MCA_SMSC_CMA_FAILED_COPIES, 1);
    if (smsc_cma_status_is_final(result->status)
        && opal_atomic_compare_exchange_strong_32(&endpoint->lost, &unlost, rc)) {
        mca_smsc_cma_count(MCA_SMSC_CMA_LOST_PEERS, 1);
    }
    if (0 <= stream) {
        opal_output(
            stream, "smsc/cma: copy %s %s (pid %ld) failed after %zu of %zu bytes: %s (errno %d)%s",
            SMSC_CMA_READ == direction ? "from" : "to",
            NULL == endpoint->super.proc ? "?" : OPAL_NAME_PRINT(endpoint->super.proc->proc_name),
            (long) endpoint->peer.target.pid, result->done, size,
            smsc_cma_status_name(result->status), result->error,
            smsc_cma_status_is_final(result->status) ? "; no more single copy with this peer" : "");
    }
    errno = result->error;
    return rc;
}

static inline int copy(mca_smsc_endpoint_t *base, smsc_cma_direction_t direction,
                       void *local_address, void *remote_address, size_t size)
{
    mca_smsc_cma_endpoint_t *endpoint = (mca_smsc_cma_endpoint_t *) base;
    const bool reading = SMSC_CMA_READ == direction;
    smsc_cma_result_t result;

    if (OPAL_UNLIKELY(NULL == endpoint)) {
        return OPAL_ERR_BAD_PARAM;
    }
    if (OPAL_UNLIKELY(endpoint->self)) {
        memmove(reading ? local_address : remote_address, reading ? remote_address : local_address,
                size);
        mca_smsc_cma_count(MCA_SMSC_CMA_SELF_BYTES, size);
        return OPAL_SUCCESS;
    }
    if (OPAL_UNLIKELY(OPAL_SUCCESS != endpoint->lost)) {
        return endpoint->lost;
    }
    smsc_cma_copy(&sys.copy, &endpoint->peer.target, direction, local_address,
                  (uint64_t) (uintptr_t) remote_address, size, mca_smsc_cma_component.copy_limit,
                  &result);
    if (OPAL_UNLIKELY(1 < result.calls)) {
        mca_smsc_cma_count(MCA_SMSC_CMA_EXTRA_CALLS, result.calls - 1);
        mca_smsc_cma_count(MCA_SMSC_CMA_SHORT_COPIES, result.cut);
    }
    if (OPAL_UNLIKELY(SMSC_CMA_OK != result.status)) {
        return fail(endpoint, direction, size, &result);
    }
    mca_smsc_cma_count(reading ? MCA_SMSC_CMA_COPY_FROM_CALLS : MCA_SMSC_CMA_COPY_TO_CALLS, 1);
    mca_smsc_cma_count(reading ? MCA_SMSC_CMA_COPY_FROM_BYTES : MCA_SMSC_CMA_COPY_TO_BYTES, size);
    return OPAL_SUCCESS;
}

int mca_smsc_cma_copy_to(mca_smsc_endpoint_t *endpoint, void *local_address, void *remote_address,
                         size_t size, void *reg_data)
{
    (void) reg_data;
    return copy(endpoint, SMSC_CMA_WRITE, local_address, remote_address, size);
}

int mca_smsc_cma_copy_from(mca_smsc_endpoint_t *endpoint, void *local_address, void *remote_address,
                           size_t size, void *reg_data)
{
    (void) reg_data;
    return copy(endpoint, SMSC_CMA_READ, local_address, remote_address, size);
}

void *mca_smsc_cma_map_peer_region(mca_smsc_endpoint_t *endpoint, uint64_t flags,
                                   void *remote_address, size_t size, void **local_mapping)
{
    (void) endpoint;
    (void) flags;
    (void) remote_address;
    (void) size;
    if (NULL != local_mapping) {
        *local_mapping = NULL;
    }
    return NULL;
}

void mca_smsc_cma_unmap_peer_region(void *ctx)
{
    (void) ctx;
}

void *mca_smsc_cma_register_region(void *local_address, size_t size)
{
    (void) local_address;
    (void) size;
    return NULL;
}

void mca_smsc_cma_deregister_region(void *reg_data)
{
    (void) reg_data;
}

mca_smsc_module_t mca_smsc_cma_module = {
    .features = 0,
    .registration_data_size = 0,
    .get_endpoint = mca_smsc_cma_get_endpoint,
    .return_endpoint = mca_smsc_cma_return_endpoint,
    .copy_to = mca_smsc_cma_copy_to,
    .copy_from = mca_smsc_cma_copy_from,
    .map_peer_region = mca_smsc_cma_map_peer_region,
    .unmap_peer_region = mca_smsc_cma_unmap_peer_region,
    .register_region = mca_smsc_cma_register_region,
    .deregister_region = mca_smsc_cma_deregister_region,
};

/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * smsc/cma as MCA sees it: parameters, performance variables, and the identity that lives from
 * query to close.
 *
 * Layer: L2. Called by the smsc framework.
 * Must never: decide from a sysctl, a capability or a container's traces whether copies will work;
 * that is tried per peer. enable() has no side effect, because newer series also enable
 * the runner-up.
 */
#include "opal_config.h"

#include "opal/constants.h"
#include "opal/mca/base/base.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/mca/smsc/base/base.h"
#include "opal/mca/smsc/cma/smsc_cma_types.h"
#include "opal/util/output.h"

#if defined(SMX_OUT_OF_TREE)
#    include "smx_series.h"
SMX_DECLARE_SERIES(smsc_cma);
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* As the component of Open MPI 5.0 has it: above knem, below xpmem. */
#define DEFAULT_PRIORITY 37

/* Long enough that the price of a call does not show, short enough (some 5 ms) that a signal
 * handler of the application does not wait long: a call in the kernel is not interrupted for it. */
#define DEFAULT_COPY_LIMIT ((size_t) 64 << 20)

static int component_register(void);
static int component_close(void);
static int component_query(void);
static mca_smsc_module_t *component_enable(void);

mca_smsc_cma_component_t mca_smsc_cma_component = {
    .super =
        {
            .smsc_version =
                {
                    MCA_SMSC_DEFAULT_VERSION("cma"),
                    .mca_close_component = component_close,
                    .mca_register_component_params = component_register,
                },
            .priority = DEFAULT_PRIORITY,
            .query = component_query,
            .enable = component_enable,
        },
    .copy_limit = DEFAULT_COPY_LIMIT,
    .identity = {.page_fd = -1, .socket_fd = -1},
};

#if defined(MCA_BASE_COMPONENT_INIT)
MCA_BASE_COMPONENT_INIT(opal, smsc, cma)
#endif

static const struct {
    const char *name;
    const char *help;
} counters[MCA_SMSC_CMA_REFUSED] = {
    [MCA_SMSC_CMA_COPY_FROM_CALLS] = {"copy_from_calls", "Copies out of peers that succeeded"},
    [MCA_SMSC_CMA_COPY_FROM_BYTES] = {"copy_from_bytes", "Bytes copied out of peers"},
    [MCA_SMSC_CMA_COPY_TO_CALLS] = {"copy_to_calls", "Copies into peers that succeeded"},
    [MCA_SMSC_CMA_COPY_TO_BYTES] = {"copy_to_bytes", "Bytes copied into peers"},
    [MCA_SMSC_CMA_SELF_BYTES] = {"self_bytes", "Bytes that a process copied to itself"},
    [MCA_SMSC_CMA_EXTRA_CALLS] = {"extra_calls", "System calls beyond one per copy"},
    [MCA_SMSC_CMA_SHORT_COPIES] = {"short_copies",
                                   "System calls that moved less than they were asked for"},
    [MCA_SMSC_CMA_FAILED_COPIES] = {"failed_copies", "Copies that ended in an error"},
    [MCA_SMSC_CMA_ENDPOINTS] = {"endpoints", "Endpoints made, the one to oneself included"},
    [MCA_SMSC_CMA_WATCHED] = {"watched_endpoints",
                              "Endpoints whose peer is known to be alive without a system call"},
    [MCA_SMSC_CMA_TRANSLATED] = {"translated_endpoints",
                                 "Endpoints to peers of another pid namespace"},
    [MCA_SMSC_CMA_LOST_PEERS] = {"lost_peers", "Endpoints that worked and then failed for good"},
};

/** One process of a node speaks for all; without a launcher there is but one. */
static bool may_speak(void)
{
    const char *local_rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK");

    return NULL == local_rank || 0 == strcmp("0", local_rank);
}

/* MPI_T has no name for size_t. */
_Static_assert(sizeof(size_t) == sizeof(unsigned long), "counters are read as unsigned long");

/* What belongs to a copy counts from when the reader's handle starts; what belongs to an endpoint
 * is a state, because nobody can start a handle before the endpoints are made in MPI_Init. */
static void register_counter(int counter, const char *name, const char *help)
{
    const int class = MCA_SMSC_CMA_ENDPOINTS > counter ? MCA_BASE_PVAR_CLASS_COUNTER
                                                       : MCA_BASE_PVAR_CLASS_LEVEL;

    (void) mca_base_component_pvar_register(&mca_smsc_cma_component.super.smsc_version, name, help,
                                            OPAL_INFO_LVL_4, class, MCA_BASE_VAR_TYPE_UNSIGNED_LONG,
                                            NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
                                            MCA_BASE_PVAR_FLAG_READONLY
                                                | MCA_BASE_PVAR_FLAG_CONTINUOUS,
                                            NULL, NULL, NULL,
                                            (void *) &mca_smsc_cma_component.counter[counter]);
}

static void register_counters(void)
{
    for (int counter = 0; MCA_SMSC_CMA_REFUSED > counter; ++counter) {
        register_counter(counter, counters[counter].name, counters[counter].help);
    }
    for (int reason = SMSC_CMA_REASON_NONE + 1; SMSC_CMA_REASON_COUNT > reason; ++reason) {
        char name[64], help[160];

        snprintf(name, sizeof(name), "refused_%s", smsc_cma_reason_name(reason));
        snprintf(help, sizeof(help), "Peers without single copy because %s",
                 smsc_cma_reason_text(reason));
        register_counter(MCA_SMSC_CMA_REFUSED + reason - 1, name, help);
    }
}

static int component_register(void)
{
    mca_smsc_cma_component_t *self = &mca_smsc_cma_component;
    const mca_base_component_t *version = &self->super.smsc_version;
    char help[256];

#if defined(SMX_OUT_OF_TREE)
    if (!smx_series_accept("smsc/cma")) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
#endif
    snprintf(help, sizeof(help),
             "Priority of the cma component; the highest of those that can run is used, a "
             "negative one never (default: %d)",
             DEFAULT_PRIORITY);
    self->super.priority = DEFAULT_PRIORITY;
    (void) mca_base_component_var_register(version, "priority", help, MCA_BASE_VAR_TYPE_INT, NULL,
                                           0, MCA_BASE_VAR_FLAG_SETTABLE, OPAL_INFO_LVL_3,
                                           MCA_BASE_VAR_SCOPE_ALL_EQ, &self->super.priority);

    snprintf(help, sizeof(help),
             "Most bytes handed to one process_vm_readv or process_vm_writev call, 1 to %zu "
             "(default: %zu bytes)",
             SMSC_CMA_CALL_MAX, DEFAULT_COPY_LIMIT);
    self->copy_limit = DEFAULT_COPY_LIMIT;
    (void) mca_base_component_var_register(version, "copy_limit", help, MCA_BASE_VAR_TYPE_SIZE_T,
                                           NULL, 0, 0, OPAL_INFO_LVL_5, MCA_BASE_VAR_SCOPE_LOCAL,
                                           &self->copy_limit);
    if (1 > self->copy_limit || SMSC_CMA_CALL_MAX < self->copy_limit) {
        if (may_speak()) {
            opal_output(0,
                        "smsc_cma_copy_limit = %zu is not in the range of 1 to %zu bytes; "
                        "the default of %zu is used",
                        self->copy_limit, SMSC_CMA_CALL_MAX, DEFAULT_COPY_LIMIT);
        }
        self->copy_limit = DEFAULT_COPY_LIMIT;
    }

    register_counters();
    return OPAL_SUCCESS;
}

static int component_close(void)
{
    smsc_cma_identity_retire(&mca_smsc_cma_component.identity);
    return OPAL_SUCCESS;
}

static int component_query(void)
{
    mca_smsc_cma_component_t *self = &mca_smsc_cma_component;
    int rc;

    if (0 > self->super.priority) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
    if (!smsc_cma_identity_is_mine(&self->identity)) {
        const int error = smsc_cma_identity_create(&self->identity);

        if (0 != error) {
            opal_output_verbose(MCA_SMSC_CMA_VERBOSE, opal_smsc_base_framework.framework_output,
                                "smsc/cma: not used: no memory for one page (errno %d)", error);
            return OPAL_ERR_OUT_OF_RESOURCE;
        }
    }
#if defined(PR_SET_PTRACER) && defined(PR_SET_PTRACER_ANY)
    /* Where Yama guards attaching (scope 1), a process may let others in. The parent would not do,
     * since each rank may have a wrapper of its own. Without Yama the kernel does not know the
     * request, which is as well. */
    (void) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
    self->identity.modex.job = OPAL_PROC_MY_NAME.jobid;
    self->identity.modex.rank = OPAL_PROC_MY_NAME.vpid;
    /* Of use on this node only, but PMIx keeps what is sent as PMIX_LOCAL from spawned and connected
     * jobs of the same node. */
    OPAL_MODEX_SEND(rc, PMIX_GLOBAL, &self->super.smsc_version, &self->identity.modex,
                    sizeof(self->identity.modex));
    if (OPAL_SUCCESS != rc) {
        opal_output_verbose(MCA_SMSC_CMA_VERBOSE, opal_smsc_base_framework.framework_output,
                            "smsc/cma: not used: its record cannot be sent (PMIx %d)", rc);
        return OPAL_ERR_NOT_AVAILABLE;
    }
    return OPAL_SUCCESS;
}

static mca_smsc_module_t *component_enable(void)
{
    return 0 > mca_smsc_cma_component.super.priority ? NULL : &mca_smsc_cma_module;
}

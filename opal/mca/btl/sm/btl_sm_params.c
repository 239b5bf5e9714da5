/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MCA parameters: one table, one check.
 *
 * Layer 2. Every btl_sm_* name of Open MPI 5.0 is accepted (btl_vader_* reaches us through the
 * alias that the framework keeps). A value outside its range is refused with one line that names
 * the range, and the default is used; nothing else of the user's settings is touched.
 */
#include "opal_config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opal/constants.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"

#include "btl_sm.h"
#include "btl_sm_frag.h"
#include "btl_sm_limits.h"

/* The other defaults are in btl_sm_limits.h. */
#define DEFAULT_COOPERATE_LIMIT (8 * 1024)

/** One unsigned parameter and what it may be. */
struct param {
    const char *name;
    size_t *value;
    size_t fallback; /* default */
    size_t lowest;
    size_t highest;
    int level;
    const char *help;
};

static struct {
    size_t free_list_num, free_list_inc, memcpy_limit, segment_size, max_inline_send;
    size_t fbox_threshold, fbox_max, fbox_size, prefault_threads;
} raw;
static long raw_free_list_max;

static struct param table[] = {
    {"free_list_num", &raw.free_list_num, 8, 0, 1 << 20, OPAL_INFO_LVL_9,
     "Descriptors of each class to allocate at start (count, 0 to 1048576)"},
    {"free_list_inc", &raw.free_list_inc, 64, 1, 1 << 20, OPAL_INFO_LVL_9,
     "Descriptors to allocate when a class runs out (count, 1 to 1048576)"},
    {"memcpy_limit", &raw.memcpy_limit, 524288, 0, SIZE_MAX, OPAL_INFO_LVL_9,
     "Accepted for existing configuration files, without effect: all copies use memcpy (bytes)"},
    {"segment_size", &raw.segment_size, 1 << 24, 65536, (size_t) 1 << 40, OPAL_INFO_LVL_5,
     "Upper bound of the shared memory of one process (bytes, 65536 to 2^40, raised if the ranks "
     "of "
     "the node need more). Used of it: 4 KiB + 896 B and 4 KiB (2 KiB for more than 32 ranks) "
     "per local rank + fbox_size for each of at most fbox_max busy peers. Each peer of another job "
     "(spawned, connected) adds 896 B and a box of 4 (2) KiB"},
    {"max_inline_send", &raw.max_inline_send, 256, 0, SIZE_MAX, OPAL_INFO_LVL_9,
     "Accepted for existing configuration files, without effect: every message that fits goes "
     "straight into the fast box (bytes)"},
    {"fbox_threshold", &raw.fbox_threshold, 16, 0, 1 << 30, OPAL_INFO_LVL_5,
     "Messages to a peer before its fast box is enlarged to fbox_size (count, 0 to 2^30, "
     "0 = large from the start)"},
    {"fbox_max", &raw.fbox_max, 32, 0, 1 << 16, OPAL_INFO_LVL_5,
     "Most enlarged fast boxes of a process (count, 0 to 65536). Unless set, 32, or 8 for more "
     "than "
     "32 local ranks"},
    {"fbox_size", &raw.fbox_size, BTL_SM_FBOX_SIZE, 4096, 64 << 20, OPAL_INFO_LVL_5,
     "Size of an enlarged fast box (bytes, 4096 to 67108864, rounded up to a power of two). "
     "Unless set, 262144 where single copy is slow and 65536 elsewhere, halved for more than 8 and "
     "for more than 16 local ranks, 16384 for more than 32 or more ranks than cores"},
    {"prefault_threads", &raw.prefault_threads, 0, 0, 64, OPAL_INFO_LVL_5,
     "Threads that fault the pages of the shared memory in when it is handed out (count, 0 to 64, "
     "0 = leave the pages to first touch)"},
    {"single_copy_limit", &mca_btl_sm_component.single_copy_limit, BTL_SM_SINGLE_COPY_LIMIT, 0,
     SIZE_MAX, OPAL_INFO_LVL_4,
     "From this length up a get or put uses single copy, below it is streamed through shared "
     "memory "
     "(bytes). Unless set, 4096, or what is not eager where a single copy is slow (above 2.2 us, "
     "measured at start)"},
    {"cooperate_limit", &mca_btl_sm_component.cooperate_limit, DEFAULT_COOPERATE_LIMIT, 0, SIZE_MAX,
     OPAL_INFO_LVL_4,
     "From this length up both processes of a single copy work on it together (bytes, 0 = never)"},
    {"cooperate_chunk", &mca_btl_sm_component.cooperate_chunk, BTL_SM_COOPERATE_CHUNK, 4096,
     (size_t) 1 << 30, OPAL_INFO_LVL_5,
     "Most bytes that one process copies before it looks for messages again; also the largest "
     "piece "
     "that two processes share out (bytes, 4096 to 2^30)"},
    {"max_readers", &mca_btl_sm_component.max_readers, 4, 0, BTL_SM_MAX_CELLS, OPAL_INFO_LVL_6,
     "Most processes that copy from one process at the same time by single copy in chunks (count, "
     "0 "
     "to 2047, 0 = no bound): the kernel's lock on the source's memory map is what they share"},
    {"spin_looks", &mca_btl_sm_component.spin_looks, 20, 0, 1 << 16, OPAL_INFO_LVL_9,
     "Looks at the fast boxes per call of the progress function while the process only waits "
     "(count, "
     "0 to 65536)"},
    {"idle_spin", &mca_btl_sm_component.idle_spin, 20, 0, 1 << 30, OPAL_INFO_LVL_9,
     "With more ranks than cores: empty polls before the processor is given up (count, 0 to 2^30)"},
    {"idle_yield", &mca_btl_sm_component.idle_yield, 400, 0, 1000000, OPAL_INFO_LVL_9,
     "With more ranks than cores: how long a process that waits keeps looking, giving up the "
     "processor in between, before it sleeps until a message wakes it (microseconds, 0 to 10^6)"},
};

/** Only one rank of a node speaks. */
static bool may_speak(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK");

    return NULL == rank || 0 == strcmp("0", rank);
}

static void refuse(const char *name, size_t value, size_t lowest, size_t highest, size_t fallback)
{
    if (may_speak()) {
        opal_output(0,
                    "btl_sm_%s: %zu is outside the allowed range %zu to %zu; the default %zu is "
                    "used instead",
                    name, value, lowest, highest, fallback);
    }
}

static void check(const char *name, size_t *value, size_t fallback, size_t lowest, size_t highest)
{
    const size_t asked = *value;

    if (!btl_sm_limits_bound(value, fallback, lowest, highest)) {
        refuse(name, asked, lowest, highest, fallback);
    }
}

static bool user_set(int index)
{
    mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;

    return 0 <= index && OPAL_SUCCESS == mca_base_var_get_value(index, NULL, &source, NULL)
           && MCA_BASE_VAR_SOURCE_DEFAULT != source;
}

static int index_of_fbox_max, index_of_fbox_size, index_of_single_copy_limit;
static int index_of_cooperate_chunk, index_of_eager_limit;
static int index_of_rndv_eager_limit, index_of_max_send_size;

/** What was registered, within its ranges: where each settling starts from. */
static btl_sm_limits_t asked;

/** Mask of the values that the user has set. */
static unsigned set_by_user(void)
{
    const struct {
        int index;
        unsigned bit;
    } of[] = {
        {index_of_eager_limit, BTL_SM_LIMIT_EAGER},
        {index_of_rndv_eager_limit, BTL_SM_LIMIT_RNDV_EAGER},
        {index_of_max_send_size, BTL_SM_LIMIT_MAX_SEND},
        {index_of_single_copy_limit, BTL_SM_LIMIT_SINGLE_COPY},
        {index_of_cooperate_chunk, BTL_SM_LIMIT_COOPERATE_CHUNK},
        {index_of_fbox_size, BTL_SM_LIMIT_FBOX_SIZE},
        {index_of_fbox_max, BTL_SM_LIMIT_FBOX_MAX},
    };
    unsigned set = 0;

    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); ++i) {
        set |= user_set(of[i].index) ? of[i].bit : 0;
    }
    return set;
}

/** The module's and the component's fields are what Open MPI, our hot path and MPI_T look at. */
static void apply(const btl_sm_limits_t *limits)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    mca_btl_base_module_t *btl = &mca_btl_sm.super;

    btl->btl_eager_limit = limits->eager_limit;
    btl->btl_rndv_eager_limit = limits->rndv_eager_limit;
    btl->btl_max_send_size = limits->max_send_size;
    btl->btl_get_limit = limits->get_limit;
    btl->btl_put_limit = limits->put_limit;
    btl->btl_min_rdma_pipeline_size = limits->min_rdma_pipeline_size;
    component->single_copy_limit = limits->single_copy_limit;
    component->cooperate_chunk = limits->cooperate_chunk;
}

/** Generic limits: ob1 does not survive all values that the generic registration lets through. */
static void check_module(void)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    mca_btl_base_module_t *btl = &mca_btl_sm.super;
    const btl_sm_limits_t registered = {
        .eager_limit = btl->btl_eager_limit,
        .rndv_eager_limit = btl->btl_rndv_eager_limit,
        .max_send_size = btl->btl_max_send_size,
        .get_limit = btl->btl_get_limit,
        .put_limit = btl->btl_put_limit,
        .min_rdma_pipeline_size = btl->btl_min_rdma_pipeline_size,
        .rdma_pipeline_send_length = btl->btl_rdma_pipeline_send_length,
        .single_copy_limit = component->single_copy_limit,
        .cooperate_chunk = component->cooperate_chunk,
        .fbox_size = raw.fbox_size,
        .fbox_max = raw.fbox_max,
    };
    unsigned refused;

    /* ob1 falls over a BTL that can get but not send. */
    if (0 == (btl->btl_flags & MCA_BTL_FLAGS_SEND)) {
        if (may_speak()) {
            opal_output(0,
                        "btl_sm_flags: %u has no \"send\" (%d), without which nothing works; "
                        "that is added",
                        (unsigned) btl->btl_flags, MCA_BTL_FLAGS_SEND);
        }
        btl->btl_flags |= MCA_BTL_FLAGS_SEND;
    }
    asked = registered;
    refused = btl_sm_limits_check(&asked);
    if (0 != (refused & BTL_SM_LIMIT_EAGER)) {
        refuse("eager_limit", registered.eager_limit, BTL_SM_LOWEST_LIMIT, BTL_SM_HIGHEST_LIMIT,
               asked.eager_limit);
    }
    if (0 != (refused & BTL_SM_LIMIT_RNDV_EAGER)) {
        refuse("rndv_eager_limit", registered.rndv_eager_limit, 0, BTL_SM_HIGHEST_LIMIT,
               asked.rndv_eager_limit);
    }
    if (0 != (refused & BTL_SM_LIMIT_MAX_SEND)) {
        refuse("max_send_size", registered.max_send_size, BTL_SM_LOWEST_LIMIT, BTL_SM_HIGHEST_LIMIT,
               asked.max_send_size);
    }
    if (0 != (refused & BTL_SM_LIMIT_GET_PUT) && may_speak()) {
        opal_output(0,
                    "btl_sm_get_limit, btl_sm_put_limit: only %zu (no limit) is allowed; "
                    "that is used instead",
                    SIZE_MAX);
    }
    apply(&asked);
    btl->btl_get_alignment = 1;
    btl->btl_put_alignment = 1;
}

/** Counters that MPI_T shows. */
static void register_counters(void)
{
    static const struct {
        const char *name;
        size_t offset;
        const char *help;
    } counters[] = {
#define COUNTER(field, text) {#field, offsetof(struct mca_btl_sm_stats_t, field), text}
        COUNTER(single_copy_bytes, "Bytes that this process copied by single copy for its own "
                                   "transfers"),
        COUNTER(cooperated_bytes, "Bytes of its own transfers that peers copied"),
        COUNTER(helped_bytes, "Bytes that this process copied for transfers of peers"),
        COUNTER(streamed_bytes, "Bytes of its own transfers that went through shared memory"),
        COUNTER(single_copy_failed, "Single copies that did not work and were streamed instead"),
        COUNTER(waited, "Messages that found no room at once"),
        COUNTER(lost_peers, "Peers whose process ended without saying so"),
        COUNTER(naps, "Sleeps of this process while it waited, where ranks outnumber cores"),
#undef COUNTER
    };

    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); ++i) {
        (void) mca_base_component_pvar_register(
            &mca_btl_sm_component.super.btl_version, counters[i].name, counters[i].help,
            OPAL_INFO_LVL_4, MCA_BASE_PVAR_CLASS_COUNTER, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG,
            NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
            MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, NULL, NULL, NULL,
            (char *) &mca_btl_sm_component.stats + counters[i].offset);
    }
}

/** Parameters that are no count and no size. */
static void register_switches(mca_base_component_t *version)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;

    component->backing_directory = 0 == access("/dev/shm", W_OK)
                                       ? "/dev/shm"
                                       : opal_process_info.job_session_dir;
    (void) mca_base_component_var_register(
        version, "backing_directory",
        "Directory on a local memory file system for the unnamed file that is the shared memory "
        "(path; anonymous memory is used where it has no room)",
        MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_3, MCA_BASE_VAR_SCOPE_READONLY,
        &component->backing_directory);
    component->verbose = 0;
    (void) mca_base_component_var_register(
        version, "verbose",
        "From 1 on: one line per peer about the road that large messages take, and about peers "
        "that are not served or lost; raises smsc_base_verbose to 1, so that a refused single copy "
        "is told with cause and cure (level, default: 0)",
        MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_3, MCA_BASE_VAR_SCOPE_LOCAL,
        &component->verbose);
    component->serialize_polling = true;
    (void) mca_base_component_var_register(
        version, "serialize_polling",
        "One thread polls at a time, others return at once (bool; off makes them wait for their "
        "turn, only to measure what it brings)",
        MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_9, MCA_BASE_VAR_SCOPE_READONLY,
        &component->serialize_polling);
    component->learn_roads = true;
    (void) mca_base_component_var_register(
        version, "learn",
        "Learn from large transfers which road is fastest: single copy by one process, by both, or "
        "shared memory (bool; off: by both from cooperate_limit up)",
        MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_5, MCA_BASE_VAR_SCOPE_READONLY,
        &component->learn_roads);
    component->huge_pages = false;
    (void) mca_base_component_var_register(
        version, "huge_pages",
        "Ask for huge pages for the shared memory; pays with a large fbox_size only, and a process "
        "then uses at least one huge page (bool)",
        MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_5, MCA_BASE_VAR_SCOPE_READONLY,
        &component->huge_pages);
}

int mca_btl_sm_params_register(void)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    mca_base_component_t *version = &component->super.btl_version;
    mca_btl_base_module_t *btl = &mca_btl_sm.super;

    (void) mca_base_var_group_component_register(version, "Shared-memory byte transport");

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); ++i) {
        int index;

        *table[i].value = table[i].fallback;
        index = mca_base_component_var_register(version, table[i].name, table[i].help,
                                                MCA_BASE_VAR_TYPE_SIZE_T, NULL, 0, 0,
                                                (mca_base_var_info_lvl_t) table[i].level,
                                                MCA_BASE_VAR_SCOPE_READONLY, table[i].value);
        if (table[i].value == &raw.fbox_max) {
            index_of_fbox_max = index;
        } else if (table[i].value == &raw.fbox_size) {
            index_of_fbox_size = index;
        } else if (table[i].value == &component->single_copy_limit) {
            index_of_single_copy_limit = index;
        } else if (table[i].value == &component->cooperate_chunk) {
            index_of_cooperate_chunk = index;
        }
        check(table[i].name, table[i].value, table[i].fallback, table[i].lowest, table[i].highest);
    }
    raw_free_list_max = 512;
    (void) mca_base_component_var_register(version, "free_list_max",
                                           "Most descriptors of the eager and of the max class "
                                           "(count, -1 = no bound); control messages "
                                           "are never bounded",
                                           MCA_BASE_VAR_TYPE_LONG, NULL, 0, 0, OPAL_INFO_LVL_9,
                                           MCA_BASE_VAR_SCOPE_READONLY, &raw_free_list_max);
    if (!btl_sm_limits_list_max(raw_free_list_max)) {
        if (may_speak()) {
            opal_output(0,
                        "btl_sm_free_list_max: %ld is outside the allowed range -1, 16 to %d; the "
                        "default 512 is used instead",
                        raw_free_list_max, INT_MAX);
        }
        raw_free_list_max = 512;
    }

    register_switches(version);

    btl->btl_exclusivity = MCA_BTL_EXCLUSIVITY_HIGH;
    btl->btl_eager_limit = BTL_SM_EAGER_LIMIT;
    btl->btl_rndv_eager_limit = BTL_SM_EAGER_LIMIT;
    btl->btl_max_send_size = BTL_SM_MAX_SEND_SIZE;
    btl->btl_min_rdma_pipeline_size = INT_MAX;
    btl->btl_rdma_pipeline_send_length = BTL_SM_EAGER_LIMIT;
    btl->btl_rdma_pipeline_frag_size = BTL_SM_MAX_SEND_SIZE;
    /* Not SEND_INPLACE: without it ob1 hands eager messages of any size to sendi, which copies
     * straight into the box; with it they take the longer way over a descriptor. */
    btl->btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_RDMA;
    btl->btl_get_limit = SIZE_MAX;
    btl->btl_put_limit = SIZE_MAX;
    btl->btl_get_alignment = 1;
    btl->btl_put_alignment = 1;
    btl->btl_bandwidth = 40000; /* Mbit/s; only the order of BTLs follows from it */
    btl->btl_latency = 1;       /* us */
    (void) mca_btl_base_param_register(version, btl);
    index_of_eager_limit = mca_base_var_find("opal", "btl", "sm", "eager_limit");
    index_of_rndv_eager_limit = mca_base_var_find("opal", "btl", "sm", "rndv_eager_limit");
    index_of_max_send_size = mca_base_var_find("opal", "btl", "sm", "max_send_size");
    check_module();
    register_counters();
    return OPAL_SUCCESS;
}

/** Defaults that the user has not set follow from the machine and the number of ranks. */
static void settle_by_cost(uint32_t local_count, uint32_t cost)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    const unsigned set = set_by_user();
    const btl_sm_limits_t limits = btl_sm_limits_settle(&asked, set, local_count,
                                                        sysconf(_SC_NPROCESSORS_ONLN), cost);

    apply(&limits);
    component->slow_single_copy = limits.slow;
    component->strict_limit = 0 != (set & BTL_SM_LIMIT_SINGLE_COPY);
    component->fbox_size = (unsigned) limits.fbox_size;
    component->fbox_max = (unsigned) limits.fbox_max;
    component->alone_chunk = limits.alone_chunk;
    component->largest_frag = limits.largest_frag;
    /* What MPI_T shows. */
    raw.fbox_size = limits.fbox_size;
    raw.fbox_max = limits.fbox_max;
}

/** The single-copy component knows why it refuses a peer; who wants to hear from us wants that. */
static void let_provider_speak(void)
{
    const int index = mca_base_var_find("opal", "smsc", "base", "verbose");
    const int *now = NULL;
    const int level = 1;

    if (0 < mca_btl_sm_component.verbose && 0 <= index
        && OPAL_SUCCESS == mca_base_var_get_value(index, &now, NULL, NULL) && NULL != now
        && level > *now) {
        (void) mca_base_var_set_value(index, &level, sizeof(level), MCA_BASE_VAR_SOURCE_SET, NULL);
    }
}

/** @brief Fix what depends on the number of ranks on this node; before the segment is created.
 *  @return what a single copy costs this process, nanoseconds; 0 if there is none */
uint32_t mca_btl_sm_params_settle(uint32_t local_count)
{
    mca_btl_sm_component_t *component = &mca_btl_sm_component;
    uint32_t cost;

    component->free_list_num = (int) raw.free_list_num;
    component->free_list_inc = (int) raw.free_list_inc;
    component->free_list_max = (int) raw_free_list_max;
    component->segment_size = raw.segment_size;
    component->fbox_threshold = (unsigned) raw.fbox_threshold;
    component->prefault_threads = (unsigned) raw.prefault_threads;
    component->small_box_size = local_count > BTL_SM_MANY_RANKS ? 2048 : 4096;
    let_provider_speak();
    cost = NULL == mca_smsc ? 0 : mca_btl_sm_calibrate_single_copy();
    settle_by_cost(local_count, cost);
    return cost;
}

/** @brief Take the figure of the node's first rank for the own one: all must come to the same limits,
 *  on machines that lie between fast and slow too. Before anything depends on them. */
void mca_btl_sm_params_agree(uint32_t single_copy_ns)
{
    settle_by_cost(mca_btl_sm_component.local_count, single_copy_ns);
}

/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Types of the sm BTL that all its files share, and its two singletons.
 *
 * Layer 2 (the L1 files reach the singletons through the names declared here only). What a field is
 * for and who may touch it when:
 *
 *  - Endpoint, sending half: under ep->lock (a no-op unless MPI runs with threads).
 *  - Endpoint, receiving half: by the thread that holds the progress flag.
 *  - Component lists (transfers, endpoints with pending work, segment memory): under
 *    component->lock, which is taken last and never held over a callback.
 */
#ifndef MCA_BTL_SM_H
#define MCA_BTL_SM_H

#include "opal_config.h"

#include <time.h>

#include "opal/class/opal_free_list.h"
#include "opal/class/opal_list.h"
#include "opal/class/opal_pointer_array.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/base/btl_base_error.h"
#include "opal/mca/btl/btl.h"
#include "opal/mca/smsc/smsc.h"
#include "opal/mca/threads/mutex.h"
#include "opal/util/proc.h"

#include "btl_sm_coop.h"
#include "btl_sm_doorbell.h"
#include "btl_sm_fbox.h"
#include "btl_sm_learn.h"
#include "btl_sm_modex.h"
#include "btl_sm_visit.h"
#include "btl_sm_wake.h"

BEGIN_C_DECLS

/** Messages up to this many bytes (with the upper layer's header) are control messages: a
 *  descriptor for them is never refused. ob1 before 5.0.11 waits for ever otherwise. */
#define MCA_BTL_SM_CONTROL_SIZE 512

struct mca_btl_sm_frag_t;
struct mca_btl_sm_xfer_t;

/** One range that has to go through shared memory instead of a single copy. */
typedef struct mca_btl_sm_range_t {
    uint64_t offset;
    uint64_t length;
} mca_btl_sm_range_t;

/** A range that this process streams to the peer that asked for it. */
typedef struct mca_btl_sm_job_t {
    opal_list_item_t super;
    uint32_t kind;    /* BTL_SM_REC_STREAM (answer to a pull) or BTL_SM_REC_PUSH */
    uint64_t id;      /* the asker's number, returned with each piece */
    uint64_t address; /* in this process */
    uint64_t target;  /* PUSH: address in the peer */
    uint64_t length;
    uint64_t offset; /* bytes streamed */
} mca_btl_sm_job_t;
OBJ_CLASS_DECLARATION(mca_btl_sm_job_t);

/** Everything about one peer. */
struct mca_btl_base_endpoint_t {
    /* --- sending half --- */
    btl_sm_fbox_tx_t tx;
    size_t fast_max; /* largest record that may go straight into tx; 0 = take the slow road */
    struct btl_sm_segment_hdr *peer; /* the peer's segment in this process */
    uint32_t peer_cell;              /* our cell in the peer's segment */
    uint32_t peer_cells;             /* cells of the peer's segment */
    uint32_t peer_local;             /* of these, the ones for its own job */
    uint32_t my_cell;                /* the peer's cell in our segment */
    uint32_t sends;                  /* messages until the box is enlarged */
    bool failed;                     /* the peer is lost: nothing is sent or accepted any more */
    bool pending_listed;             /* on component->pending_endpoints */
    bool foreign;                    /* of another job, spawned or connected */
    bool announced;                  /* written into its visitors' book */
    bool turned_away;                /* a peer of another job that could not add us */
    opal_mutex_t lock;
    opal_list_t pending; /* mca_btl_sm_frag_t that found no room, in order */
    opal_list_t jobs;    /* mca_btl_sm_job_t */

    /* --- receiving half --- */
    btl_sm_fbox_rx_t rx __opal_attribute_aligned__(64);
    uint32_t rx_idle;     /* polls in a row that found nothing */
    uint8_t rx_place;     /* MCA_BTL_SM_RX_* */
    uint8_t rx_ahead;     /* lines to fetch ahead while waiting for a message */
    unsigned char *parts; /* message that arrives in parts */
    size_t parts_length;
    size_t parts_capacity;

    /* --- single copy --- */
    mca_smsc_endpoint_t *smsc;
    uint32_t generation;              /* of the last board posting towards this peer */
    struct mca_btl_sm_xfer_t *posted; /* transfer on the board, or NULL */
    uint32_t helped;          /* recent transfers in which the peer helped, of 8: a bit each */
    uint32_t unhelped;        /* transfers since the last one that was posted */
    uint64_t streams;         /* started towards this peer */
    uint64_t stopped;         /* number in the stop word there, 0 = none yet */
    uint32_t plain_streams;   /* of these, the ones that cannot end early */
    uint32_t pass;            /* last round in which a stream from this peer was looked at */
    uint32_t reading;         /* own transfers that hold the peer's reader token */
    bool smsc_refused;        /* single copy gave up for good with this peer */
    uint32_t smsc_failures;   /* in a row */
    btl_sm_coop_view_t *view; /* what this process helps the peer with */

    /* --- set-up and loss --- */
    opal_proc_t *proc; /* held, if of another job: upper layers let go of it before us */
    struct btl_sm_segment_hdr *map; /* start of the mapping, for detach */
    size_t map_size;
    int pidfd;
    int32_t pid;
    uint64_t report_ns; /* when to report that the process has ended; 0 = it lives */
    bool ended;         /* a process of another job that is gone: to be retired */
    uint64_t nonce;
    uint64_t small_box; /* our boxes for the peer, offsets in our segment, 0 = none */
    uint64_t big_box;
    opal_list_item_t pending_link;
    uint32_t index;                      /* in component->endpoints */
    uint64_t cpus[MCA_BTL_SM_CPU_WORDS]; /* that the peer may run on */
};
typedef struct mca_btl_base_endpoint_t mca_btl_base_endpoint_t;
typedef struct mca_btl_base_endpoint_t mca_btl_sm_endpoint_t;

/** Where an endpoint's receiving half stands. */
enum {
    MCA_BTL_SM_RX_NONE = 0, /* the peer has never written */
    MCA_BTL_SM_RX_ACTIVE,   /* polled every time */
    MCA_BTL_SM_RX_PARKED,   /* one parked box is polled per call */
};

/** One descriptor. Its bytes are private memory: shared memory holds only what is under way. */
typedef struct mca_btl_sm_frag_t {
    mca_btl_base_descriptor_t base;
    mca_btl_base_segment_t segments[2];
    mca_btl_sm_endpoint_t *endpoint;
    opal_free_list_t *home;
    uint32_t kind; /* BTL_SM_REC_* */
    mca_btl_base_tag_t tag;
    size_t sent; /* bytes already in the box, for a message in parts */
} mca_btl_sm_frag_t;
OBJ_CLASS_DECLARATION(mca_btl_sm_frag_t);

/** One get or put under way. */
typedef struct mca_btl_sm_xfer_t {
    opal_free_list_item_t super;
    mca_btl_sm_endpoint_t *endpoint;
    unsigned char *local;
    uint64_t remote;
    uint64_t size;
    uint32_t op; /* BTL_SM_BOARD_* */
    int id;      /* in component->xfers */
    void *local_handle;
    void *remote_handle;
    mca_btl_base_rdma_completion_fn_t cbfunc;
    void *cbcontext;
    void *cbdata;

    uint64_t next;       /* bytes copied alone; the board describes what follows */
    bool together;       /* worth a board */
    uint8_t road;        /* BTL_SM_ROAD_* */
    uint64_t start_ns;   /* != 0: report the time to the memory of roads */
    uint32_t generation; /* != 0: on the board */
    uint32_t own_pages;  /* claimed and settled by this process */
    bool reading;        /* counted among the readers of the peer */
    bool refused_seen;   /* the helper's returned claim is accounted for */

    mca_btl_sm_range_t ranges[4]; /* what must be streamed */
    uint32_t range_count;
    uint32_t range_at;   /* the one under way */
    uint64_t range_done; /* bytes of it */
    bool listed;         /* on component->xfers_active */

    uint64_t number; /* of the stream, running per peer; with id it names the transfer in records */
    bool plain;      /* counts in endpoint->plain_streams */
    bool rescuable;  /* streamed although single copy would do: copy the end if nothing comes */
    uint64_t limit;  /* bytes of the range that are left to the stream */
    uint64_t seen;   /* range_done at the last look */
    uint64_t since_ns; /* when it last changed; 0 = not looked yet */
} mca_btl_sm_xfer_t;
OBJ_CLASS_DECLARATION(mca_btl_sm_xfer_t);

struct mca_btl_sm_t {
    mca_btl_base_module_t super;
    mca_btl_base_module_error_cb_fn_t error_cb;
};
typedef struct mca_btl_sm_t mca_btl_sm_t;
extern mca_btl_sm_t mca_btl_sm;

struct mca_btl_sm_component_t {
    mca_btl_base_component_3_0_0_t super;

    /* --- read by every poll --- */
    struct btl_sm_segment_hdr *my_segment;
    mca_btl_sm_endpoint_t **active; /* endpoints whose box is polled every time */
    uint32_t active_count;
    uint32_t parked_count;
    uint32_t parked_next;
    uint32_t pass;
    uint32_t door_words;             /* words of the doorbells that are in use */
    btl_sm_atomic32_t busy;          /* the progress flag */
    btl_sm_atomic32_t pending_count; /* endpoints on pending_endpoints, one more for sent_late */
    btl_sm_atomic32_t xfer_count;    /* transfers on the list */
    btl_sm_atomic32_t work;  /* messages started but not finished: for threads that only wait */
    uint32_t idle;           /* calls in a row without an event */
    uint32_t quiet;          /* all calls without an event */
    uint32_t row;            /* messages sent since something last arrived */
    uint32_t last_row;       /* the same, of the time before */
    uint32_t copies_put_off; /* calls since own copies were last gone on with */
    mca_btl_sm_endpoint_t *sent_last; /* whose box to prepare when idle; without threads only */
    uint32_t wait_idle;               /* `idle` when the last wait was looked at */
    uint32_t watch_paid;              /* of the last waits, those in which looking on paid */
    uint32_t watch_passed;            /* waits that were not watched */
    uint64_t wait_since_ns;           /* when this wait began */
    bool beyond;                      /* there are processes that other transports serve */
    bool oversubscribed;              /* more local ranks than cores: sleep, do not help */
    bool fenced_by_sleepers;          /* senders here need no fence before they look who sleeps */
    bool demote;                      /* this CPU has cldemote */
    mca_btl_sm_endpoint_t **parked;

    /* --- counters, shown as MPI_T performance variables --- */
    struct mca_btl_sm_stats_t {
        btl_sm_atomic64_t single_copy_bytes;  /* copied by this process for its own transfers */
        btl_sm_atomic64_t cooperated_bytes;   /* of these transfers, copied by the peers */
        btl_sm_atomic64_t helped_bytes;       /* copied by this process for transfers of peers */
        btl_sm_atomic64_t streamed_bytes;     /* of its own transfers, through shared memory */
        btl_sm_atomic64_t single_copy_failed; /* single copies that did not work */
        btl_sm_atomic64_t waited;             /* messages that found no room at once */
        btl_sm_atomic64_t lost_peers;
        btl_sm_atomic64_t naps; /* sleeps while waiting, where ranks outnumber cores */
    } stats;

    /* --- lists --- */
    opal_mutex_t admission; /* one peer at a time is looked up and added; taken before `lock` */
    opal_mutex_t lock;
    opal_list_t pending_endpoints;       /* linked by pending_link */
    opal_list_t sent_late;               /* mca_btl_sm_frag_t that are sent but not completed */
    opal_list_t xfers_active;            /* mca_btl_sm_xfer_t, oldest first */
    opal_pointer_array_t xfers;          /* by id */
    opal_pointer_array_t endpoints;      /* all of them */
    mca_btl_sm_endpoint_t **by_cell;     /* by cell of our segment */
    uint64_t helping[BTL_SM_DOOR_WORDS]; /* cells whose boards may have pages for us to copy */
    uint32_t helping_count;
    opal_free_list_t frags_control;
    opal_free_list_t frags_eager;
    opal_free_list_t frags_max;
    opal_free_list_t xfer_list;

    btl_sm_learn_t learn; /* under lock */

    /* --- segment --- */
    mca_btl_sm_modex_t modex;
    int segment_fd;
    size_t small_next; /* next small box that is promised to a peer of the own job */
    size_t small_end;
    size_t arena_used; /* next byte that was never handed out */
    size_t arena_reserved;
    size_t large_end;        /* what lies behind is for the small boxes of peers of other jobs */
    uint32_t refusals;       /* visitors that could not be added, so far */
    unsigned small_box_size; /* bytes: what every pair has from its first message on */
    uint32_t big_boxes;      /* handed out, bounded by fbox_max */
    struct mca_btl_sm_box_stack_t {
        uint64_t *offset;
        uint32_t count;
        uint32_t capacity;
    } free_boxes[2]; /* given back: small ones, large ones */
    uint64_t cpus_of_all[MCA_BTL_SM_CPU_WORDS];
    uint32_t local_count; /* ranks of our job on this node */
    bool agreed;          /* on the limits, with the other ranks of this node */
    bool unlisted;        /* the runtime's list of this node's ranks is another node's */
    bool named;           /* the segment's file has a name at the moment */
    char *name;

    /* --- loss of peers --- */
    int epoll_fd;
    uint64_t liveness_next_ns;
    uint32_t dying; /* endpoints with report_ns set */
    uint32_t ended; /* endpoints with ended set */
    bool revisit;   /* somebody in the visitors' book could not be added yet */

    /* --- parameters --- */
    int free_list_num;
    int free_list_max;
    int free_list_inc;
    int memcpy_limit;
    unsigned long segment_size;
    unsigned int max_inline_send;
    unsigned int fbox_threshold;
    unsigned int fbox_max;
    unsigned int fbox_size;
    char *backing_directory;
    size_t single_copy_limit;
    size_t cooperate_limit;
    size_t cooperate_chunk;
    size_t alone_chunk;  /* most bytes of one single copy without help, >= cooperate_chunk */
    size_t largest_frag; /* longest message that any peer may expect us to send in one piece */
    size_t max_readers;
    size_t spin_looks;
    bool slow_single_copy; /* a single copy costs more than tens of KiB through shared memory */
    size_t idle_spin;
    size_t idle_yield;
    unsigned int prefault_threads;
    bool serialize_polling;
    bool huge_pages;
    bool learn_roads;
    bool strict_limit; /* single_copy_limit is the user's: nothing shorter is ever copied singly */
    int verbose;
};
typedef struct mca_btl_sm_component_t mca_btl_sm_component_t;
OPAL_DECLSPEC extern mca_btl_sm_component_t mca_btl_sm_component;

/** Count. Plain arithmetic unless threads run; never on the path of a small message. */
static inline void mca_btl_sm_count(btl_sm_atomic64_t *counter, uint64_t add)
{
    if (opal_using_threads()) {
        (void) btl_sm_fetch_add_relaxed(counter, add);
    } else {
        btl_sm_store_relaxed(counter, btl_sm_load_relaxed(counter) + add);
    }
}

/** The monotonic clock in nanoseconds. */
static inline uint64_t mca_btl_sm_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

/* btl_sm_calibrate.c */
uint32_t mca_btl_sm_calibrate_single_copy(void);

/* btl_sm_params.c */
int mca_btl_sm_params_register(void);
uint32_t mca_btl_sm_params_settle(uint32_t local_count);
void mca_btl_sm_params_agree(uint32_t single_copy_ns);

/* btl_sm_progress.c */
int mca_btl_sm_component_progress(void);
void mca_btl_sm_rx_open(mca_btl_sm_endpoint_t *ep);
void mca_btl_sm_rx_close(mca_btl_sm_endpoint_t *ep);
bool mca_btl_sm_rx_drained(mca_btl_sm_endpoint_t *ep);
void mca_btl_sm_rx_unknown(mca_btl_sm_endpoint_t *ep);
void mca_btl_sm_count_cpus(void);
bool mca_btl_sm_progress_hold(void);
void mca_btl_sm_progress_resume(bool held);

/* btl_sm_send.c, btl_sm_sendi.c */
int mca_btl_sm_send(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                    struct mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag);
int mca_btl_sm_sendi(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                     struct opal_convertor_t *convertor, void *header, size_t header_size,
                     size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                     mca_btl_base_descriptor_t **descriptor);
int mca_btl_sm_send_record(mca_btl_sm_endpoint_t *ep, uint32_t kind, const void *bytes, size_t len);
int mca_btl_sm_pending_progress(void);
int mca_btl_sm_complete_late(void);

/** @brief Is the program inside a call that waits (and not in MPI_Test or its like)? Takes microseconds. */
bool mca_btl_sm_caller_waits(void);
void mca_btl_sm_pending_drop(mca_btl_sm_endpoint_t *ep);
void mca_btl_sm_pending_list(mca_btl_sm_endpoint_t *ep);

/* btl_sm_box.c */
bool mca_btl_sm_box_promise(mca_btl_sm_endpoint_t *ep);
bool mca_btl_sm_box_open(mca_btl_sm_endpoint_t *ep);
void mca_btl_sm_box_enlarge(mca_btl_sm_endpoint_t *ep);
void mca_btl_sm_box_give_back(mca_btl_sm_endpoint_t *ep);

/* btl_sm_rdma.c */
int mca_btl_sm_get(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                   void *local_address, uint64_t remote_address,
                   struct mca_btl_base_registration_handle_t *local_handle,
                   struct mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                   int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                   void *cbdata);
int mca_btl_sm_put(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                   void *local_address, uint64_t remote_address,
                   struct mca_btl_base_registration_handle_t *local_handle,
                   struct mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                   int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                   void *cbdata);
int mca_btl_sm_xfer_progress(void);
int mca_btl_sm_help_progress(void);
void mca_btl_sm_xfer_fail(mca_btl_sm_endpoint_t *ep);
void mca_btl_sm_xfer_complete(mca_btl_sm_xfer_t *xfer, int status);

int mca_btl_sm_copy_range(mca_btl_sm_endpoint_t *ep, uint32_t op, void *local, uint64_t remote,
                          size_t len, void *handle);

/* btl_sm_stream.c */
int mca_btl_sm_stream_rescue(mca_btl_sm_xfer_t *xfer);
uint64_t mca_btl_sm_stream_key(const mca_btl_sm_xfer_t *xfer);
void mca_btl_sm_stream_ask(mca_btl_sm_endpoint_t *ep, uint32_t op, uint64_t key, const void *local,
                           uint64_t remote, uint64_t length);
void mca_btl_sm_stream_start(mca_btl_sm_xfer_t *xfer);
bool mca_btl_sm_stream_pulled(mca_btl_sm_endpoint_t *ep, const unsigned char *bytes, size_t len);
bool mca_btl_sm_stream_piece(mca_btl_sm_endpoint_t *ep, const unsigned char *bytes, size_t len);
bool mca_btl_sm_stream_push(mca_btl_sm_endpoint_t *ep, const unsigned char *bytes, size_t len);
bool mca_btl_sm_stream_pushed(mca_btl_sm_endpoint_t *ep, const unsigned char *bytes, size_t len);
int mca_btl_sm_stream_jobs(mca_btl_sm_endpoint_t *ep);

END_C_DECLS

#endif /* MCA_BTL_SM_H */

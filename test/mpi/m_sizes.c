/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * Every way to send and receive, at every size -1/0/+1 around every protocol limit, each byte and
 * the bytes around the buffer checked. Ranks form a ring: each sends to its right neighbour and
 * receives from its left one, so two ranks already have traffic both ways.
 *
 * Options: --max=SIZE largest message, --limits=a,b,c further limits, --only=NAME one section.
 */
#include "mpi_check.h"

#include <unistd.h>

#define TAG    17
#define WINDOW 6

static size_t max_size;
static int right;
static int left;
static chk_buf_t sbuf;
static chk_buf_t rbuf;
static uint64_t seq;

/* The two ends of one exchange: both sides count sequence numbers alike. */
static chk_msg_t out_msg(size_t size)
{
    return (chk_msg_t) {.src = chk_rank, .tag = TAG, .seq = seq, .size = size};
}

static chk_msg_t in_msg(size_t size)
{
    return (chk_msg_t) {.src = left, .tag = TAG, .seq = seq, .size = size};
}

typedef enum { STANDARD, SYNC, READY, BUFFERED } send_mode_t;

static void isend_mode(send_mode_t mode, const void *p, size_t size, MPI_Request *req)
{
    const int n = (int) size;
    switch (mode) {
    case SYNC:
        CHK(MPI_Issend(p, n, MPI_BYTE, right, TAG, MPI_COMM_WORLD, req));
        break;
    case READY:
        CHK(MPI_Irsend(p, n, MPI_BYTE, right, TAG, MPI_COMM_WORLD, req));
        break;
    case BUFFERED:
        CHK(MPI_Ibsend(p, n, MPI_BYTE, right, TAG, MPI_COMM_WORLD, req));
        break;
    default:
        CHK(MPI_Isend(p, n, MPI_BYTE, right, TAG, MPI_COMM_WORLD, req));
        break;
    }
}

static void send_mode(send_mode_t mode, const void *p, size_t size)
{
    const int n = (int) size;
    switch (mode) {
    case SYNC:
        CHK(MPI_Ssend(p, n, MPI_BYTE, right, TAG, MPI_COMM_WORLD));
        break;
    case READY:
        CHK(MPI_Rsend(p, n, MPI_BYTE, right, TAG, MPI_COMM_WORLD));
        break;
    case BUFFERED:
        CHK(MPI_Bsend(p, n, MPI_BYTE, right, TAG, MPI_COMM_WORLD));
        break;
    default:
        CHK(MPI_Send(p, n, MPI_BYTE, right, TAG, MPI_COMM_WORLD));
        break;
    }
}

/* Prepare one exchange with both sides misaligned by their own amount. */
static void prepare(size_t size, size_t cap, size_t soff, size_t roff, unsigned char **s_out,
                    unsigned char **r_out)
{
    const chk_msg_t m = out_msg(size);
    *s_out = sbuf.p + soff;
    *r_out = rbuf.p + roff;
    chk_arm(*s_out, size);
    chk_fill(&m, 0, *s_out, size);
    chk_arm(*r_out, cap);
}

static void check(const unsigned char *s, const unsigned char *r, size_t size, size_t cap,
                  const MPI_Status *st)
{
    const chk_msg_t mine = out_msg(size);
    const chk_msg_t theirs = in_msg(size);
    chk_received(&theirs, r, cap, size);
    if (NULL != st) {
        chk_status(&theirs, st, size);
    }
    /* a transport that lends pages must not write to the source */
    if (!chk_verify(&mine, 0, s, size) || !chk_guards(&mine, s, size)) {
        chk_fail("the send buffer of size %zu to peer %d was changed", size, right);
    }
    seq++;
}

static void round_blocking(send_mode_t mode, size_t size, size_t soff, size_t roff)
{
    unsigned char *s;
    unsigned char *r;
    MPI_Status st;
    prepare(size, size, soff, roff, &s, &r);
    /* Odd ranks receive first; with an odd number of ranks the chain 0, n-1 is broken there too. */
    if (0 == (chk_rank & 1)) {
        send_mode(mode, s, size);
        CHK(MPI_Recv(r, (int) size, MPI_BYTE, left, TAG, MPI_COMM_WORLD, &st));
    } else {
        CHK(MPI_Recv(r, (int) size, MPI_BYTE, left, TAG, MPI_COMM_WORLD, &st));
        send_mode(mode, s, size);
    }
    check(s, r, size, size, &st);
}

static void round_nonblocking(send_mode_t mode, size_t size, bool recv_first, bool bigger)
{
    unsigned char *s;
    unsigned char *r;
    MPI_Request req[2];
    MPI_Status st[2];
    const size_t cap = bigger ? size + 1 + size / 2 : size;
    prepare(size, cap, seq % 67, (seq * 7) % 71, &s, &r);
    if (recv_first) {
        CHK(MPI_Irecv(r, (int) cap, MPI_BYTE, left, TAG, MPI_COMM_WORLD, &req[0]));
        if (READY == mode) {
            CHK(MPI_Barrier(MPI_COMM_WORLD));
        }
        isend_mode(mode, s, size, &req[1]);
    } else {
        isend_mode(mode, s, size, &req[1]);
        if (0 == seq % 4) {
            /* let the message become unexpected for sure */
            CHK(MPI_Barrier(MPI_COMM_WORLD));
        }
        CHK(MPI_Irecv(r, (int) cap, MPI_BYTE, left, TAG, MPI_COMM_WORLD, &req[0]));
    }
    CHK(MPI_Waitall(2, req, st));
    check(s, r, size, cap, &st[0]);
}

/* Detaching waits until everything in the buffer is gone: the next message finds room for sure. */
static void empty_buffer(send_mode_t mode)
{
    void *buf;
    int size;
    if (BUFFERED == mode) {
        CHK(MPI_Buffer_detach(&buf, &size));
        CHK(MPI_Buffer_attach(buf, size));
    }
}

static void section_modes(const size_t *sizes, size_t n)
{
    static const struct {
        send_mode_t mode;
        const char *name;
    } modes[] = {{STANDARD, "Send"}, {SYNC, "Ssend"}, {BUFFERED, "Bsend"}};
    const int attach = (int) (2 * max_size + 4 * MPI_BSEND_OVERHEAD + 4096);
    void *bsend = malloc((size_t) attach);
    int detached;
    CHK(MPI_Buffer_attach(bsend, attach));
    for (size_t k = 0; k < sizeof(modes) / sizeof(modes[0]); k++) {
        for (size_t i = 0; i < n; i++) {
            chk_phase("%s/Recv size %zu", modes[k].name, sizes[i]);
            round_blocking(modes[k].mode, sizes[i], 0, 0);
            empty_buffer(modes[k].mode);
        }
        chk_result("%s and Recv deliver every byte of %zu sizes up to %zu", modes[k].name, n,
                   max_size);
        for (size_t i = 0; i < n; i++) {
            chk_phase("I%s, receive first, size %zu", modes[k].name, sizes[i]);
            round_nonblocking(modes[k].mode, sizes[i], true, false);
            chk_phase("I%s, receive last, size %zu", modes[k].name, sizes[i]);
            round_nonblocking(modes[k].mode, sizes[i], false, false);
            empty_buffer(modes[k].mode);
        }
        chk_result("nonblocking %s delivers, expected and unexpected", modes[k].name);
    }
    for (size_t i = 0; i < n; i++) {
        chk_phase("Irsend size %zu", sizes[i]);
        round_nonblocking(READY, sizes[i], true, false);
    }
    chk_result("Irsend delivers to posted receives");
    CHK(MPI_Buffer_detach(&bsend, &detached));
    free(bsend);
}

static void section_unaligned(const size_t *sizes, size_t n)
{
    static const size_t offs[] = {0, 1, 3, 7, 31, 63, 64, 4095};
    const size_t noffs = sizeof(offs) / sizeof(offs[0]);
    for (size_t i = 0; i < n; i++) {
        const size_t step = sizes[i] > 65536 ? 3 : 1;
        for (size_t k = 0; k < noffs; k += step) {
            chk_phase("unaligned size %zu offsets %zu", sizes[i], offs[k]);
            round_blocking(STANDARD, sizes[i], offs[k], offs[(k + 3) % noffs]);
        }
    }
    chk_result("offsets 0 to 4095 on both sides change nothing");
}

static void section_bigger(const size_t *sizes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        chk_phase("bigger receive buffer, size %zu", sizes[i]);
        round_nonblocking(STANDARD, sizes[i], true, true);
        round_nonblocking(SYNC, sizes[i], false, true);
    }
    chk_result("a larger receive buffer gets the message, the right count and nothing behind it");
}

static void section_sendrecv(const size_t *sizes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char *s;
        unsigned char *r;
        MPI_Status st;
        chk_phase("Sendrecv size %zu", sizes[i]);
        prepare(sizes[i], sizes[i], 5, 9, &s, &r);
        CHK(MPI_Sendrecv(s, (int) sizes[i], MPI_BYTE, right, TAG, r, (int) sizes[i], MPI_BYTE, left,
                         TAG, MPI_COMM_WORLD, &st));
        check(s, r, sizes[i], sizes[i], &st);

        /* both sides with different lengths: left neighbours send what their rank says */
        chk_phase("Sendrecv_replace size %zu", sizes[i]);
        const chk_msg_t mine = out_msg(sizes[i]);
        const chk_msg_t theirs = in_msg(sizes[i]);
        chk_arm(r, sizes[i]);
        chk_fill(&mine, 0, r, sizes[i]);
        CHK(MPI_Sendrecv_replace(r, (int) sizes[i], MPI_BYTE, right, TAG, left, TAG, MPI_COMM_WORLD,
                                 &st));
        chk_received(&theirs, r, sizes[i], sizes[i]);
        chk_status(&theirs, &st, sizes[i]);
        seq++;
    }
    chk_result("Sendrecv and Sendrecv_replace exchange every byte");
}

static void section_persistent(const size_t *sizes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char *s = sbuf.p + 1;
        unsigned char *r = rbuf.p + 2;
        const int count = (int) sizes[i];
        MPI_Request req[2];
        MPI_Status st[2];
        chk_phase("persistent size %zu", sizes[i]);
        CHK(MPI_Recv_init(r, count, MPI_BYTE, left, TAG, MPI_COMM_WORLD, &req[0]));
        if (0 == i % 2) {
            CHK(MPI_Send_init(s, count, MPI_BYTE, right, TAG, MPI_COMM_WORLD, &req[1]));
        } else {
            CHK(MPI_Ssend_init(s, count, MPI_BYTE, right, TAG, MPI_COMM_WORLD, &req[1]));
        }
        for (int round = 0; round < 3; round++) {
            prepare(sizes[i], sizes[i], 1, 2, &s, &r);
            if (1 == round) {
                CHK(MPI_Start(&req[1]));
                CHK(MPI_Start(&req[0]));
            } else {
                CHK(MPI_Startall(2, req));
            }
            CHK(MPI_Waitall(2, req, st));
            check(s, r, sizes[i], sizes[i], &st[0]);
        }
        CHK(MPI_Request_free(&req[0]));
        CHK(MPI_Request_free(&req[1]));
    }
    chk_result("persistent requests deliver at every start");
}

/* A window of different sizes in flight, completed by Waitany, Testany, Waitsome and Testsome. */
static void section_window(const size_t *sizes, size_t n)
{
    enum { WAITANY, TESTANY, WAITSOME, TESTSOME, KINDS };
    const size_t cap = max_size < 300000 ? max_size : 300000;
    const size_t slot = (cap + 2 * CHK_GUARD + 127) / 64 * 64;
    chk_buf_t s = chk_buf_new(WINDOW * slot);
    chk_buf_t r = chk_buf_new(WINDOW * slot);
    for (size_t i = 0; i < n; i++) {
        MPI_Request req[2 * WINDOW];
        chk_msg_t in[WINDOW];
        const int kind = (int) (i % KINDS);
        chk_phase("window from size %zu kind %d", sizes[i], kind);
        for (int w = 0; w < WINDOW; w++) {
            size_t size = sizes[(i + (size_t) w * 3) % n];
            size = size > cap ? cap : size;
            in[w] = in_msg(size);
            const chk_msg_t mine = out_msg(size);
            seq++;
            unsigned char *rp = r.p + (size_t) w * slot + CHK_GUARD;
            unsigned char *sp = s.p + (size_t) w * slot + CHK_GUARD;
            chk_arm(rp, size);
            chk_fill(&mine, 0, sp, size);
            CHK(MPI_Irecv(rp, (int) size, MPI_BYTE, left, TAG, MPI_COMM_WORLD, &req[w]));
            isend_mode(w % 2 ? SYNC : STANDARD, sp, size, &req[WINDOW + w]);
        }
        int left_over = 2 * WINDOW;
        while (left_over > 0) {
            int idx[2 * WINDOW];
            MPI_Status st[2 * WINDOW];
            int done = 0;
            int flag = 0;
            switch (kind) {
            case WAITANY:
                CHK(MPI_Waitany(2 * WINDOW, req, &idx[0], &st[0]));
                done = 1;
                break;
            case TESTANY:
                CHK(MPI_Testany(2 * WINDOW, req, &idx[0], &flag, &st[0]));
                done = flag ? 1 : 0;
                break;
            case WAITSOME:
                CHK(MPI_Waitsome(2 * WINDOW, req, &done, idx, st));
                break;
            default:
                CHK(MPI_Testsome(2 * WINDOW, req, &done, idx, st));
                break;
            }
            for (int d = 0; d < done; d++) {
                if (idx[d] >= 0 && idx[d] < WINDOW) {
                    const chk_msg_t *m = &in[idx[d]];
                    chk_received(m, r.p + (size_t) idx[d] * slot + CHK_GUARD, m->size, m->size);
                    chk_status(m, &st[d], m->size);
                }
            }
            left_over -= done;
        }
    }
    chk_result("windows of mixed sizes complete by Waitany, Testany, Waitsome and Testsome");
    chk_buf_free(&s);
    chk_buf_free(&r);
}

/* Too small a buffer: MPI_ERR_TRUNCATE, no byte behind the buffer, and the next message is right.
 * */
static void section_truncate(const size_t *sizes, size_t n)
{
    uint64_t eager = 0;
    uint64_t whole = 0;
    if (!chk_cvar("btl_sm_eager_limit", &eager)) {
        eager = SIZE_MAX;
    }
    for (size_t i = 0; i < n; i++) {
        const size_t size = sizes[i];
        if (0 == size) {
            continue;
        }
        const size_t caps[3] = {size - 1, size / 2, 0};
        for (int k = 0; k < 3; k++) {
            unsigned char *s;
            unsigned char *r;
            MPI_Request req;
            MPI_Status st;
            const size_t cap = caps[k];
            chk_phase("truncation of %zu to %zu", size, cap);
            prepare(size, cap, 3, 1, &s, &r);
            if (0 == k % 2) {
                CHK(MPI_Irecv(r, (int) cap, MPI_BYTE, left, TAG, MPI_COMM_WORLD, &req));
                CHK(MPI_Barrier(MPI_COMM_WORLD));
            }
            MPI_Request sreq;
            const send_mode_t mode = 0 == i % 2 ? STANDARD : SYNC;
            isend_mode(mode, s, size, &sreq);
            if (0 != k % 2) {
                CHK(MPI_Barrier(MPI_COMM_WORLD));
                CHK(MPI_Irecv(r, (int) cap, MPI_BYTE, left, TAG, MPI_COMM_WORLD, &req));
            }
            const int rc = MPI_Wait(&req, &st);
            int class = MPI_SUCCESS;
            MPI_Error_class(rc, &class);
            if (MPI_ERR_TRUNCATE != class) {
                chk_fail("message from peer %d size %zu into %zu bytes: expected MPI_ERR_TRUNCATE, "
                         "got class %d",
                         left, size, cap, class);
            }
            CHK(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
            const chk_msg_t m = in_msg(size);
            if (size + 128 > eager || SYNC == mode) {
                whole += !chk_guards_quiet(r, cap);
            } else {
                chk_guards(&m, r, cap);
            }
            seq++;
        }
        round_nonblocking(STANDARD, size, true, false);
    }
    chk_result("a message that is too long gives MPI_ERR_TRUNCATE, an eager one overruns nothing");
    /* Open MPI 5.0.x, pml_ob1_recvreq.c, progress_rget: the length of the get is the sender's. What
     * a BTL is asked to get it cannot know to be too much. */
    chk_todo("a rendezvous message that is too long overruns nothing", whole,
             "ob1 gets the whole message into a buffer that is too small");
}

/* MPI_BOTTOM with absolute addresses: a NULL base is an address like any other. */
static void section_bottom(const size_t *sizes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char *s;
        unsigned char *r;
        MPI_Datatype st_type;
        MPI_Datatype rt_type;
        MPI_Aint disp;
        MPI_Status st;
        const int len = (int) sizes[i];
        chk_phase("MPI_BOTTOM size %zu", sizes[i]);
        prepare(sizes[i], sizes[i], 2, 6, &s, &r);
        CHK(MPI_Get_address(s, &disp));
        CHK(MPI_Type_create_hindexed(1, &len, &disp, MPI_BYTE, &st_type));
        CHK(MPI_Get_address(r, &disp));
        CHK(MPI_Type_create_hindexed(1, &len, &disp, MPI_BYTE, &rt_type));
        CHK(MPI_Type_commit(&st_type));
        CHK(MPI_Type_commit(&rt_type));
        CHK(MPI_Sendrecv(MPI_BOTTOM, 1, st_type, right, TAG, MPI_BOTTOM, 1, rt_type, left, TAG,
                         MPI_COMM_WORLD, &st));
        check(s, r, sizes[i], sizes[i], &st);
        CHK(MPI_Type_free(&st_type));
        CHK(MPI_Type_free(&rt_type));
    }
    chk_result("MPI_BOTTOM with absolute addresses works on both sides");
}

/* Source and destination end where the next page is forbidden: a read or write too far faults. */
static void section_edge(const size_t *sizes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        MPI_Status st;
        const chk_msg_t mine = out_msg(sizes[i]);
        const chk_msg_t theirs = in_msg(sizes[i]);
        unsigned char *s = chk_edge_new(sizes[i]);
        unsigned char *r = chk_edge_new(sizes[i]);
        chk_phase("end of page size %zu", sizes[i]);
        chk_fill(&mine, 0, s, sizes[i]);
        CHK(MPI_Sendrecv(s, (int) sizes[i], MPI_BYTE, right, TAG, r, (int) sizes[i], MPI_BYTE, left,
                         TAG, MPI_COMM_WORLD, &st));
        chk_verify(&theirs, 0, r, sizes[i]);
        chk_status(&theirs, &st, sizes[i]);
        seq++;
        chk_edge_free(s, sizes[i]);
        chk_edge_free(r, sizes[i]);
    }
    chk_result("buffers that end at a forbidden page are neither read nor written beyond it");
}

static void section_self(const size_t *sizes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const chk_msg_t m = out_msg(sizes[i]);
        MPI_Request req[2];
        MPI_Status st[2];
        unsigned char *s;
        unsigned char *r;
        chk_phase("to self size %zu", sizes[i]);
        prepare(sizes[i], sizes[i], 1, 3, &s, &r);
        CHK(MPI_Irecv(r, (int) sizes[i], MPI_BYTE, chk_rank, TAG, MPI_COMM_WORLD, &req[0]));
        CHK(MPI_Isend(s, (int) sizes[i], MPI_BYTE, chk_rank, TAG, MPI_COMM_WORLD, &req[1]));
        CHK(MPI_Waitall(2, req, st));
        chk_received(&m, r, sizes[i], sizes[i]);
        chk_status(&m, &st[0], sizes[i]);
        seq++;
    }
    chk_result("messages to oneself arrive");
}

/* Read-only and never touched source memory, and destinations that no page backs yet. */
static void section_fresh(const size_t *sizes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        MPI_Status st;
        const chk_msg_t theirs = in_msg(sizes[i]);
        unsigned char *s = chk_edge_new(sizes[i]);
        unsigned char *r = chk_edge_new(sizes[i]);
        chk_phase("untouched pages size %zu", sizes[i]);
        CHK(MPI_Sendrecv(s, (int) sizes[i], MPI_BYTE, right, TAG, r, (int) sizes[i], MPI_BYTE, left,
                         TAG, MPI_COMM_WORLD, &st));
        for (size_t k = 0; k < sizes[i]; k++) {
            if (0 != r[k]) {
                chk_fail(
                    "message of zeros from peer %d size %zu: offset %zu expected 0x00 got 0x%02x",
                    left, sizes[i], k, r[k]);
                break;
            }
        }
        chk_status(&theirs, &st, sizes[i]);
        seq++;
        chk_edge_free(s, sizes[i]);
        chk_edge_free(r, sizes[i]);
    }
    chk_result("untouched pages are sent as zeros and received into");
}

/* Limits follow from what a rank measures at its start; the ranks of a node must come to the same. */
static void section_limits(const size_t *sizes, size_t n)
{
    static const char *const names[] = {"btl_sm_eager_limit", "btl_sm_rndv_eager_limit",
                                        "btl_sm_max_send_size", "btl_sm_single_copy_limit",
                                        "btl_sm_cooperate_chunk"};
    (void) sizes;
    (void) n;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        uint64_t mine = 0;
        uint64_t least = 0;
        uint64_t most = 0;
        (void) chk_cvar(names[i], &mine);
        CHK(MPI_Allreduce(&mine, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD));
        CHK(MPI_Allreduce(&mine, &most, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD));
        if (least != most) {
            chk_fail("%s is %llu here, %llu to %llu elsewhere", names[i], (unsigned long long) mine,
                     (unsigned long long) least, (unsigned long long) most);
        }
    }
    chk_result("all ranks of a node have the same limits");
}

int main(int argc, char **argv)
{
    typedef void section_fn(const size_t *, size_t);
    static const struct {
        const char *name;
        section_fn *run;
        size_t max_quick; /* sections whose cost grows fast are cut short in quick runs */
    } sections[] = {
        {"limits", section_limits, SIZE_MAX},     {"modes", section_modes, SIZE_MAX},
        {"unaligned", section_unaligned, 262144}, {"bigger", section_bigger, 1048577},
        {"sendrecv", section_sendrecv, SIZE_MAX}, {"persistent", section_persistent, 1048577},
        {"window", section_window, SIZE_MAX},     {"truncate", section_truncate, 1048577},
        {"bottom", section_bottom, 1048577},      {"edge", section_edge, 1048577},
        {"self", section_self, 262145},           {"fresh", section_fresh, 1048577},
    };
    chk_init(argc, argv, MPI_THREAD_SINGLE);
    const char *only = chk_opt("only", NULL);
    size_t n;
    max_size = chk_opt_u64("max", chk_long ? (64u << 20) + 1 : (4u << 20) + 1);
    const size_t *sizes = chk_sizes(max_size, &n);
    right = (chk_rank + 1) % chk_np;
    left = (chk_rank + chk_np - 1) % chk_np;
    /* room for the larger receive buffers of one section and the offsets of another */
    sbuf = chk_buf_new(max_size + 8192);
    rbuf = chk_buf_new(max_size + max_size / 2 + 8192);
    chk_diag("%zu sizes from %zu to %zu", n, sizes[0], sizes[n - 1]);
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        size_t use = n;
        if (NULL != only && 0 != strcmp(only, sections[i].name)) {
            continue;
        }
        while (!chk_long && use > 1 && sizes[use - 1] > sections[i].max_quick) {
            use--;
        }
        sections[i].run(sizes, use);
    }
    chk_buf_free(&sbuf);
    chk_buf_free(&rbuf);
    return chk_done();
}

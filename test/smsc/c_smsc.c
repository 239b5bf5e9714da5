/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * c_smsc [--expect=works|refused]: asks every function behind mca_smsc for what smsc.h promises, in
 * a running MPI job of two or more ranks. Rank 0 uses rank 1; the others only take part in
 * barriers.
 *
 * Started by test/smsc/run under mpirun. Prints TAP on rank 0.
 * --expect=refused: the system calls are filtered; endpoints must be refused and all else stay
 * quiet.
 */
#include "opal_config.h"

#include "opal/constants.h"
#include "opal/mca/smsc/smsc.h"
#include "opal/util/proc.h"
#include "pattern.h"

#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define BYTES ((size_t) 1 << 20)
#define PEER  1

static int rank, results, failures;
static unsigned char *mine, *theirs; /* own buffer; address of the peer's */
static unsigned char *scratch;

static void ok(bool good, const char *name, ...) __attribute__((format(printf, 2, 3)));

static void ok(bool good, const char *name, ...)
{
    va_list values;

    if (0 != rank) {
        return;
    }
    failures += good ? 0 : 1;
    printf("%sok %d - ", good ? "" : "not ", ++results);
    va_start(values, name);
    vprintf(name, values);
    va_end(values);
    printf("\n");
    fflush(stdout);
}

static opal_proc_t *proc_of(int other)
{
    opal_process_name_t name = OPAL_PROC_MY_NAME;

    name.vpid = (opal_vpid_t) other;
    return opal_proc_for_name(name);
}

static void together(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The value of one performance variable now, or -1. */
static long pvar(const char *wanted)
{
    MPI_T_pvar_session session;
    long value = -1;
    int count, level, provided;

    MPI_Query_thread(&level); /* Open MPI 5.0.7 takes this one for MPI's from now on */
    MPI_T_init_thread(level, &provided);
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_get_num(&count);
    for (int i = 0; i < count; ++i) {
        char name[128];
        int name_len = sizeof(name), verbosity, class, bind, readonly, continuous, atomic, n;
        int text_len = 0;
        MPI_Datatype type;
        MPI_T_enum values;
        MPI_T_pvar_handle handle;

        if (MPI_SUCCESS
                != MPI_T_pvar_get_info(i, name, &name_len, &verbosity, &class, &type, &values, NULL,
                                       &text_len, &bind, &readonly, &continuous, &atomic)
            || 0 != strcmp(wanted, name)
            || MPI_SUCCESS != MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &n)) {
            continue;
        }
        unsigned long read = 0;

        if (MPI_SUCCESS == MPI_T_pvar_read(session, handle, &read)) {
            value = (long) read;
        }
        MPI_T_pvar_handle_free(session, &handle);
    }
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    return value;
}

static void test_module(void)
{
    const char *plugins = getenv("SMX_PLUGIN_DIR");
    Dl_info info = {0};
    char *file = NULL, *folder = NULL;

    ok(0 == mca_smsc->features, "no features are claimed");
    ok(NULL != mca_smsc->get_endpoint && NULL != mca_smsc->return_endpoint
           && NULL != mca_smsc->copy_to && NULL != mca_smsc->copy_from
           && NULL != mca_smsc->map_peer_region && NULL != mca_smsc->unmap_peer_region
           && NULL != mca_smsc->register_region && NULL != mca_smsc->deregister_region,
       "every function of the contract is there");
    if (NULL != plugins && 0 != dladdr((void *) (uintptr_t) mca_smsc->copy_from, &info)) {
        file = realpath(info.dli_fname, NULL);
        folder = realpath(plugins, NULL);
    }
    ok(NULL != file && NULL != folder && 0 == strncmp(folder, file, strlen(folder))
           && NULL != strstr(file, "mca_smsc_cma.so"),
       "they are in our file (%s)", NULL != info.dli_fname ? info.dli_fname : "?");
    free(file);
    free(folder);
}

static void test_nothing(void)
{
    void *mapped = mine;

    ok(OPAL_ERR_BAD_PARAM == mca_smsc->copy_from(NULL, scratch, theirs, 8, NULL)
           && OPAL_ERR_BAD_PARAM == mca_smsc->copy_to(NULL, scratch, theirs, 8, NULL),
       "no endpoint: an error, not a crash");
    mca_smsc->return_endpoint(NULL);
    ok(NULL == mca_smsc->map_peer_region(NULL, 0, theirs, 4096, &mapped) && NULL == mapped,
       "mapping is declined");
    mca_smsc->unmap_peer_region(NULL);
    ok(NULL == mca_smsc->register_region(mine, 4096), "there is no registration data");
    mca_smsc->deregister_region(NULL);
}

static void test_self(void)
{
    mca_smsc_endpoint_t *self = mca_smsc->get_endpoint(proc_of(rank));
    unsigned char *a = malloc(3000);
    bool good = NULL != self;

    if (good) {
        pattern_fill(a, 2000, 3, 0);
        good &= OPAL_SUCCESS == mca_smsc->copy_from(self, a + 7, a, 2000, NULL)
                && 2000 == pattern_good(a + 7, 2000, 3, 0);
        good &= OPAL_SUCCESS == mca_smsc->copy_to(self, a + 7, a, 2000, NULL)
                && 2000 == pattern_good(a, 2000, 3, 0);
        mca_smsc->return_endpoint(self);
    }
    ok(good, "to oneself: a move, overlapping or not");
    free(a);
}

static bool both_ways(mca_smsc_endpoint_t *endpoint, size_t at, size_t len)
{
    static int nonsense = 4711;
    bool good;

    memset(scratch, 0, len);
    good = OPAL_SUCCESS == mca_smsc->copy_from(endpoint, scratch, theirs + at, len, &nonsense)
           && len == pattern_good(scratch, len, PEER, at);
    return good
           && OPAL_SUCCESS == mca_smsc->copy_to(endpoint, scratch, theirs + at, len, &nonsense);
}

typedef struct {
    mca_smsc_endpoint_t *endpoint;
    unsigned char *buffer;
    size_t at;
    int bad;
} worker_t;

static void *work(void *argument)
{
    worker_t *worker = argument;

    for (int i = 0; i < 200; ++i) {
        const size_t at = (worker->at + (size_t) i * 977) % (BYTES / 2);
        const size_t len = 1 + (size_t) i * 131;

        worker->bad += OPAL_SUCCESS
                       != mca_smsc->copy_from(worker->endpoint, worker->buffer, theirs + at, len,
                                              NULL);
        worker->bad += len != pattern_good(worker->buffer, len, PEER, at);
        worker->bad += OPAL_SUCCESS
                       != mca_smsc->copy_to(worker->endpoint, worker->buffer, theirs + at, len,
                                            NULL);
    }
    return NULL;
}

static void test_threads(mca_smsc_endpoint_t *endpoint)
{
    pthread_t thread[4];
    worker_t worker[4];
    int bad = 0;

    for (int i = 0; i < 4; ++i) {
        worker[i] = (worker_t) {endpoint, malloc(BYTES / 8), (size_t) i * 50000, 0};
        pthread_create(&thread[i], NULL, work, &worker[i]);
    }
    for (int i = 0; i < 4; ++i) {
        pthread_join(thread[i], NULL);
        bad += worker[i].bad;
        free(worker[i].buffer);
    }
    ok(0 == bad, "four threads on one endpoint, both directions at once");
}

static void test_copies(void)
{
    mca_smsc_endpoint_t *first = mca_smsc->get_endpoint(proc_of(PEER));
    mca_smsc_endpoint_t *second = mca_smsc->get_endpoint(proc_of(PEER));
    const long made = pvar("smsc_cma_endpoints"), watched = pvar("smsc_cma_watched_endpoints");

    ok(NULL != first && NULL != second && first != second, "two endpoints to one peer");
    if (NULL == first || NULL == second) {
        return;
    }
    ok(proc_of(PEER) == first->proc, "an endpoint knows its process");
    ok(2 <= made && 2 <= watched, "performance variables tell of them (%ld, %ld watched)", made,
       watched);
    ok(both_ways(first, 0, BYTES) && both_ways(first, 1, 4097) && both_ways(second, 4095, 2),
       "copies both ways; registration data is not looked at");
    mca_smsc->return_endpoint(first);
    ok(both_ways(second, 77, 70000), "an endpoint outlives another to the same peer");
    ok(OPAL_SUCCESS == mca_smsc->copy_from(second, NULL, NULL, 0, NULL)
           && OPAL_SUCCESS == mca_smsc->copy_to(second, NULL, NULL, 0, NULL),
       "no bytes are copied well");
    ok(OPAL_ERR_VALUE_OUT_OF_BOUNDS == mca_smsc->copy_from(second, scratch, (void *) 64, 64, NULL)
           && OPAL_ERR_VALUE_OUT_OF_BOUNDS
                  == mca_smsc->copy_to(second, scratch, (void *) 64, 64, NULL)
           && OPAL_ERR_VALUE_OUT_OF_BOUNDS
                  == mca_smsc->copy_from(second, (void *) 64, theirs, 64, NULL),
       "memory that is not there: a code of its own, each time");
    ok(OPAL_ERR_BAD_PARAM
           == mca_smsc->copy_from(second, scratch, (void *) (UINTPTR_MAX - 7), 64, NULL),
       "a range that wraps: a code of its own");
    ok(both_ways(second, 5, 5000), "and the endpoint still works");
    test_threads(second);
    mca_smsc->return_endpoint(second);
}

/* The peer forbids it in mid-run and allows it again. */
static void test_permission(void)
{
    mca_smsc_endpoint_t *endpoint = NULL;
    bool allowed = true;

    if (0 == rank) {
        endpoint = mca_smsc->get_endpoint(proc_of(PEER));
    }
    together();
    if (PEER == rank) {
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
    together();
    if (0 == rank && NULL != endpoint) {
        const int rc = mca_smsc->copy_from(endpoint, scratch, theirs, 64, NULL);

        allowed = OPAL_SUCCESS == rc;
        if (allowed) {
            printf("ok %d - permission lost in mid-run # SKIP this user may copy from anybody\n",
                   ++results);
        } else {
            ok(OPAL_ERR_PERM == rc
                   && OPAL_ERR_PERM == mca_smsc->copy_to(endpoint, scratch, theirs, 64, NULL),
               "permission lost in mid-run: a code of its own");
            ok(NULL == mca_smsc->get_endpoint(proc_of(PEER)), "and no new endpoint");
            ok(1 == pvar("smsc_cma_lost_peers") && 1 == pvar("smsc_cma_refused_denied"),
               "both are counted");
        }
    }
    together();
    if (PEER == rank) {
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    }
    together();
    if (0 == rank && NULL != endpoint && !allowed) {
        mca_smsc_endpoint_t *fresh = mca_smsc->get_endpoint(proc_of(PEER));

        ok(OPAL_ERR_PERM == mca_smsc->copy_from(endpoint, scratch, theirs, 64, NULL),
           "what was lost stays lost");
        ok(NULL != fresh && both_ways(fresh, 0, 4096), "a new endpoint is a new trial");
        mca_smsc->return_endpoint(fresh);
    }
    if (NULL != endpoint) {
        mca_smsc->return_endpoint(endpoint);
    }
}

int main(int argc, char **argv)
{
    const bool refused = 1 < argc && 0 == strcmp("--expect=refused", argv[1]);
    int provided, size;
    uint64_t address;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    mine = malloc(BYTES);
    scratch = malloc(BYTES);
    pattern_fill(mine, BYTES, (uint64_t) rank, 0);
    address = (uint64_t) (uintptr_t) mine;
    if (PEER == rank) {
        MPI_Send(&address, sizeof(address), MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    } else if (0 == rank && PEER < size) {
        MPI_Recv(&address, sizeof(address), MPI_BYTE, PEER, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        theirs = (unsigned char *) (uintptr_t) address;
    }
    ok(NULL != mca_smsc && 2 <= size, "single copy is loaded in a job of two or more");
    if (NULL != mca_smsc && 2 <= size) {
        if (0 == rank) {
            test_module();
            test_nothing();
            test_self();
            if (refused) {
                ok(NULL == mca_smsc->get_endpoint(proc_of(PEER)), "a filtered call: no endpoint");
                ok(0 == pvar("smsc_cma_endpoints") - 1 && 0 < pvar("smsc_cma_refused_denied"),
                   "which is counted, by its reason");
            } else {
                test_copies();
            }
        }
        together();
        if (PEER == rank && BYTES != pattern_good(mine, BYTES, PEER, 0)) {
            fprintf(stderr, "rank %d: the memory was changed\n", rank);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        if (!refused) {
            test_permission();
        }
    }
    if (0 == rank) {
        printf("1..%d\n", results);
        fflush(stdout);
    }
    MPI_Bcast(&failures, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    free(mine);
    free(scratch);
    return 0 == failures ? 0 : 1;
}

/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * A transport that is wrong on purpose: a library to preload between the test programs and MPI that
 * does one kind of damage to some messages. The runner uses it to prove that each program notices;
 * a test that passes here is no test.
 *
 * Layer: test, preloaded into MPI programs by test/mpi/run and by nobody else.
 * Environment: SMX_BREAK = flip (one bit of the data), stale (the data of an earlier message of
 * the same size), short (one byte less), overrun (a byte behind the buffer), put (one bit of a
 * Put), fetch (a ticket twice), coll (one bit of a result); SMX_BREAK_EVERY = n, each n-th chance
 * is taken.
 */
#include <mpi.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define STALE_MAX 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool mode_is(const char *name)
{
    const char *mode = getenv("SMX_BREAK");
    return NULL != mode && 0 == strcmp(mode, name);
}

/* Whether this chance is taken; counted per process over all calls. */
static bool now(void)
{
    static unsigned long calls;
    const char *text = getenv("SMX_BREAK_EVERY");
    const unsigned long every = NULL == text ? 29 : strtoul(text, NULL, 0);
    pthread_mutex_lock(&lock);
    const bool yes = 0 == ++calls % (0 == every ? 1 : every);
    pthread_mutex_unlock(&lock);
    return yes;
}

/* What goes out in place of buf. A copy is leaked: nobody tells when the message has left. */
static const void *damaged(const void *buf, int *count, MPI_Datatype type)
{
    static unsigned char old[STALE_MAX];
    static int old_size = -1;
    if (MPI_BYTE != type || *count <= 0) {
        return buf;
    }
    if (mode_is("short") && now()) {
        (*count)--;
    } else if (mode_is("flip") && now()) {
        unsigned char *copy = malloc((size_t) *count);
        memcpy(copy, buf, (size_t) *count);
        copy[*count - 1 - *count / 3] ^= 0x10;
        return copy;
    } else if (mode_is("stale") && *count <= STALE_MAX) {
        pthread_mutex_lock(&lock);
        const bool have = old_size == *count;
        unsigned char *copy = malloc((size_t) *count);
        memcpy(copy, old, (size_t) *count);
        old_size = *count;
        memcpy(old, buf, (size_t) *count);
        pthread_mutex_unlock(&lock);
        if (have && now()) {
            return copy;
        }
        free(copy);
    }
    return buf;
}

static void overrun(void *buf, int count, MPI_Datatype type)
{
    if (MPI_BYTE == type && count > 0 && mode_is("overrun") && now()) {
        ((unsigned char *) buf)[count] ^= 0xff;
    }
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    buf = damaged(buf, &count, type);
    return PMPI_Send(buf, count, type, dest, tag, comm);
}

int MPI_Ssend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    buf = damaged(buf, &count, type);
    return PMPI_Ssend(buf, count, type, dest, tag, comm);
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *req)
{
    buf = damaged(buf, &count, type);
    return PMPI_Isend(buf, count, type, dest, tag, comm, req);
}

int MPI_Issend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request *req)
{
    buf = damaged(buf, &count, type);
    return PMPI_Issend(buf, count, type, dest, tag, comm, req);
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    const int rc = PMPI_Recv(buf, count, type, source, tag, comm, status);
    overrun(buf, count, type);
    return rc;
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *req)
{
    overrun(buf, count, type);
    return PMPI_Irecv(buf, count, type, source, tag, comm, req);
}

int MPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                 void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
                 MPI_Comm comm, MPI_Status *status)
{
    sendbuf = damaged(sendbuf, &sendcount, sendtype);
    const int rc = PMPI_Sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
                                 recvtype, source, recvtag, comm, status);
    overrun(recvbuf, recvcount, recvtype);
    return rc;
}

int MPI_Put(const void *origin, int count, MPI_Datatype type, int target, MPI_Aint disp,
            int target_count, MPI_Datatype target_type, MPI_Win win)
{
    if (MPI_BYTE == type && count > 0 && mode_is("put") && now()) {
        unsigned char *copy = malloc((size_t) count);
        memcpy(copy, origin, (size_t) count);
        copy[count / 2] ^= 1;
        origin = copy;
    }
    return PMPI_Put(origin, count, type, target, disp, target_count, target_type, win);
}

int MPI_Fetch_and_op(const void *origin, void *result, MPI_Datatype type, int target, MPI_Aint disp,
                     MPI_Op op, MPI_Win win)
{
    static const int64_t zero;
    if (mode_is("fetch") && now()) {
        origin = &zero;
    }
    return PMPI_Fetch_and_op(origin, result, type, target, disp, op, win);
}

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
    const int rc = PMPI_Allreduce(sendbuf, recvbuf, count, type, op, comm);
    /* one or two words are how the programs agree on their verdict */
    if (count > 2 && mode_is("coll") && now()) {
        ((unsigned char *) recvbuf)[0] ^= 1;
    }
    return rc;
}

int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    const int rc = PMPI_Bcast(buf, count, type, root, comm);
    if (MPI_BYTE == type && count > 0 && mode_is("coll") && now()) {
        ((unsigned char *) buf)[count - 1] ^= 1;
    }
    return rc;
}

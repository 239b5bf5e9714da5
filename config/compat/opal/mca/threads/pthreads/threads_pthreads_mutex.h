/*
 * threads_pthreads_mutex.h: mutexes and condition variables of OPAL on POSIX threads.
 *
 * Layer: stand-in for a header that Open MPI includes (opal/mca/threads/mutex.h) but does not
 * install; config/compat/README.md says more. Must never define anything that libopen-pal stores
 * differently: the two types are the POSIX ones.
 */

#ifndef OOT_THREADS_PTHREADS_MUTEX_H
#define OOT_THREADS_PTHREADS_MUTEX_H

#include "opal_config.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "opal/class/opal_object.h"
#include "opal/constants.h"
#include "opal/util/output.h"

BEGIN_C_DECLS

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER  PTHREAD_COND_INITIALIZER
#ifdef PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#    define OPAL_THREAD_INTERNAL_RECURSIVE_MUTEX_INITIALIZER PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#endif

/* POSIX says which errors these calls can have: all of them are mistakes of the caller. */
#define OOT_THREADS_MUST(call)       \
    do {                             \
        int oot_threads_rc = (call); \
        assert(0 == oot_threads_rc); \
        (void) oot_threads_rc;       \
    } while (0)

static inline int opal_thread_internal_mutex_init(opal_thread_internal_mutex_t *mutex,
                                                  bool recursive)
{
    pthread_mutexattr_t attributes;
    int rc;

    if (0 != pthread_mutexattr_init(&attributes)) {
        return OPAL_ERR_IN_ERRNO;
    }
    rc = recursive ? pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE) : 0;
    if (0 == rc) {
        rc = pthread_mutex_init(mutex, &attributes);
    }
    pthread_mutexattr_destroy(&attributes);
    return 0 == rc ? OPAL_SUCCESS : OPAL_ERR_IN_ERRNO;
}

static inline void opal_thread_internal_mutex_lock(opal_thread_internal_mutex_t *mutex)
{
    OOT_THREADS_MUST(pthread_mutex_lock(mutex));
}

/* 0: the lock is taken; 1: it is not */
static inline int opal_thread_internal_mutex_trylock(opal_thread_internal_mutex_t *mutex)
{
    return 0 != pthread_mutex_trylock(mutex);
}

static inline void opal_thread_internal_mutex_unlock(opal_thread_internal_mutex_t *mutex)
{
    OOT_THREADS_MUST(pthread_mutex_unlock(mutex));
}

static inline void opal_thread_internal_mutex_destroy(opal_thread_internal_mutex_t *mutex)
{
    OOT_THREADS_MUST(pthread_mutex_destroy(mutex));
}

static inline int opal_thread_internal_cond_init(opal_thread_internal_cond_t *cond)
{
    return 0 == pthread_cond_init(cond, NULL) ? OPAL_SUCCESS : OPAL_ERR_IN_ERRNO;
}

static inline void opal_thread_internal_cond_wait(opal_thread_internal_cond_t *cond,
                                                  opal_thread_internal_mutex_t *mutex)
{
    OOT_THREADS_MUST(pthread_cond_wait(cond, mutex));
}

static inline void opal_thread_internal_cond_broadcast(opal_thread_internal_cond_t *cond)
{
    OOT_THREADS_MUST(pthread_cond_broadcast(cond));
}

static inline void opal_thread_internal_cond_signal(opal_thread_internal_cond_t *cond)
{
    OOT_THREADS_MUST(pthread_cond_signal(cond));
}

static inline void opal_thread_internal_cond_destroy(opal_thread_internal_cond_t *cond)
{
    OOT_THREADS_MUST(pthread_cond_destroy(cond));
}

END_C_DECLS

#endif /* OOT_THREADS_PTHREADS_MUTEX_H */

/*
 * threads_pthreads_threads.h: how a thread of OPAL gives up its turn, on POSIX threads.
 *
 * Layer: stand-in for a header that Open MPI includes (opal/mca/threads/threads.h) but does not
 * install; config/compat/README.md says more.
 */

#ifndef OOT_THREADS_PTHREADS_THREADS_H
#define OOT_THREADS_PTHREADS_THREADS_H

#include "opal_config.h"

#include <pthread.h>
#include <signal.h>

BEGIN_C_DECLS

#define OPAL_THREAD_YIELD_WHEN_IDLE_DEFAULT false

/* set by the threads framework from its parameter for the kind of yield */
typedef void(opal_threads_pthreads_yield_fn_t)(void);
OPAL_DECLSPEC extern opal_threads_pthreads_yield_fn_t *opal_threads_pthreads_yield_fn;

static inline void opal_thread_yield(void)
{
    (*opal_threads_pthreads_yield_fn)();
}

END_C_DECLS

#endif /* OOT_THREADS_PTHREADS_THREADS_H */

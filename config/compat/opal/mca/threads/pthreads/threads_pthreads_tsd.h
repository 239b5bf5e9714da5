/*
 * threads_pthreads_tsd.h: thread-specific data of OPAL on POSIX threads.
 *
 * Layer: stand-in for a header that Open MPI includes (opal/mca/threads/tsd.h) but does not
 * install; config/compat/README.md says more.
 */

#ifndef OOT_THREADS_PTHREADS_TSD_H
#define OOT_THREADS_PTHREADS_TSD_H

#include "opal_config.h"

#include <pthread.h>

#include "opal/constants.h"

BEGIN_C_DECLS

typedef pthread_key_t opal_tsd_key_t;

static inline int opal_tsd_key_delete(opal_tsd_key_t key)
{
    return 0 == pthread_key_delete(key) ? OPAL_SUCCESS : OPAL_ERR_IN_ERRNO;
}

static inline int opal_tsd_set(opal_tsd_key_t key, void *value)
{
    return 0 == pthread_setspecific(key, value) ? OPAL_SUCCESS : OPAL_ERR_IN_ERRNO;
}

static inline int opal_tsd_get(opal_tsd_key_t key, void **value)
{
    *value = pthread_getspecific(key);
    return OPAL_SUCCESS;
}

END_C_DECLS

#endif /* OOT_THREADS_PTHREADS_TSD_H */

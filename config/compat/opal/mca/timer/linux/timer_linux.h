/*
 * timer_linux.h: OPAL's cycle counter on Linux.
 *
 * Layer: stand-in for a header that Open MPI includes (through MCA_timer_IMPLEMENTATION_HEADER)
 * but does not install; config/compat/README.md says more.
 */

#ifndef OOT_TIMER_LINUX_H
#define OOT_TIMER_LINUX_H

#include "opal_config.h"

#include "opal/sys/timer.h"

BEGIN_C_DECLS

OPAL_DECLSPEC extern opal_timer_t (*opal_timer_base_get_cycles)(void);
OPAL_DECLSPEC extern opal_timer_t (*opal_timer_base_get_usec)(void);
OPAL_DECLSPEC extern opal_timer_t opal_timer_base_get_freq(void);

/* all four ask one thing: can the processor's counter be read */
#define OPAL_TIMER_CYCLE_NATIVE    OPAL_HAVE_SYS_TIMER_GET_CYCLES
#define OPAL_TIMER_CYCLE_SUPPORTED OPAL_HAVE_SYS_TIMER_GET_CYCLES
#define OPAL_TIMER_USEC_NATIVE     OPAL_HAVE_SYS_TIMER_GET_CYCLES
#define OPAL_TIMER_USEC_SUPPORTED  OPAL_HAVE_SYS_TIMER_GET_CYCLES

END_C_DECLS

#endif /* OOT_TIMER_LINUX_H */

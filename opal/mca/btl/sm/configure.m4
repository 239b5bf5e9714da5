# -*- shell-script -*-
#
# MCA_opal_btl_sm_CONFIG([action-if-can-compile], [action-if-cant-compile])
# -------------------------------------------------------------------------
# Wants lock-free 64-bit C11 atomics: shared memory between processes stands on them.
AC_DEFUN([MCA_opal_btl_sm_CONFIG], [
    AC_CONFIG_FILES([opal/mca/btl/sm/Makefile])

    btl_sm_happy=yes
    AC_MSG_CHECKING([if btl/sm can use lock-free C11 atomics])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include <stdatomic.h>
#include <stdint.h>
_Static_assert(2 == ATOMIC_LLONG_LOCK_FREE, "64-bit atomics have to be address-free");
static _Atomic uint64_t word;
]], [[return (int) atomic_fetch_add_explicit(&word, 1, memory_order_acq_rel);]])],
                   [AC_MSG_RESULT([yes])],
                   [AC_MSG_RESULT([no])
                    btl_sm_happy=no])
    AC_CHECK_FUNCS([posix_fallocate], [], [btl_sm_happy=no])

    m4_ifdef([OOT_BUILD],
             [btl_sm_OPAL_LIB="$smx_LIBS"],
             [btl_sm_OPAL_LIB='$(top_builddir)/opal/lib$(OPAL_LIB_NAME).la'])
    AC_SUBST([btl_sm_OPAL_LIB])

    AS_IF([test $btl_sm_happy = yes], [$1], [$2])

    m4_ifdef([OOT_BUILD], [],
             [OPAL_SUMMARY_ADD([Transports], [Shared memory/copy in+copy out], [], [$btl_sm_happy])])
])dnl

# -*- shell-script -*-
#
# MCA_opal_smsc_cma_CONFIG([action-if-can-compile], [action-if-cant-compile])
# ---------------------------------------------------------------------------
# Wants process_vm_readv and its counterpart in the C library, prctl, and C11 atomics. Asks whether it can be
# compiled, never whether it works here: that is found out per peer at run time.
AC_DEFUN([MCA_opal_smsc_cma_CONFIG], [
    AC_CONFIG_FILES([opal/mca/smsc/cma/Makefile])

    AC_ARG_WITH([cma],
                [AS_HELP_STRING([--with-cma],
                                [Build Cross Memory Attach support (default: autodetect)])])

    smsc_cma_happy=yes
    AC_CHECK_HEADERS([sys/prctl.h sys/uio.h], [], [smsc_cma_happy=no])
    AC_CHECK_FUNCS([process_vm_readv process_vm_writev], [], [smsc_cma_happy=no])
    AC_MSG_CHECKING([if smsc/cma can use C11 atomics])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include <stdatomic.h>
#include <stdint.h>
static _Atomic uint64_t word;
]], [[return (int) atomic_fetch_add_explicit(&word, 1, memory_order_relaxed);]])],
                   [AC_MSG_RESULT([yes])],
                   [AC_MSG_RESULT([no])
                    smsc_cma_happy=no])

    m4_ifdef([OOT_BUILD],
             [smsc_cma_OPAL_LIB="$smx_LIBS"],
             [smsc_cma_OPAL_LIB='$(top_builddir)/opal/lib$(OPAL_LIB_NAME).la'])
    AC_SUBST([smsc_cma_OPAL_LIB])

    AS_IF([test "$with_cma" = no], [$2],
          [test $smsc_cma_happy = yes], [$1],
          [AS_IF([test "$with_cma" = yes],
                 [AC_MSG_ERROR([--with-cma was given, but this system lacks what smsc/cma needs (see above)])])
           $2])
])dnl

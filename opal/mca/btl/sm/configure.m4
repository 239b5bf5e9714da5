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
    AC_CHECK_FUNC([backtrace], [btl_sm_backtrace=1], [btl_sm_backtrace=0])

    m4_ifdef([OOT_BUILD],
             [btl_sm_OPAL_LIB="$smx_LIBS"],
             [btl_sm_OPAL_LIB='$(top_builddir)/opal/lib$(OPAL_LIB_NAME).la'])

    # The memory node is found and preferred by hwloc: the library that libopen-pal uses, by its path, because
    # what -lhwloc needs may not be installed, nor its headers. Without them the segment lies where it is first used.
    m4_ifdef([OOT_BUILD], [
        AC_MSG_CHECKING([for the hwloc that libopen-pal uses])
        btl_sm_hwloc=`ldd "$OOT_OMPI_OPAL_LIBDIR/libopen-pal.so" 2>/dev/null | sed -n 's/^.*libhwloc\.so@<:@^ @:>@* *=> *\(@<:@^ @:>@*\).*/\1/p' | head -n 1`
        btl_sm_save_CPPFLAGS="$CPPFLAGS"
        btl_sm_save_CFLAGS="$CFLAGS"
        btl_sm_save_LIBS="$LIBS"
        CPPFLAGS="$CPPFLAGS $oot_CPPFLAGS -I$srcdir/config/compat"
        CFLAGS="$CFLAGS $oot_CFLAGS"
        LIBS="$oot_LIBS $btl_sm_hwloc -Wl,-rpath,$OOT_OMPI_OPAL_LIBDIR -Wl,-rpath,$oot_pmix_dir $LIBS"
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include "opal_config.h"
#include "opal/mca/hwloc/hwloc-internal.h"
]], [[return 2 > hwloc_get_nbobjs_by_type(opal_hwloc_topology, HWLOC_OBJ_NUMANODE);]])],
                       [AC_MSG_RESULT([${btl_sm_hwloc:-yes}])
                        btl_sm_CPPFLAGS=-DMCA_BTL_SM_HWLOC=1
                        btl_sm_OPAL_LIB="$btl_sm_OPAL_LIB ${btl_sm_hwloc:+-Wl,$btl_sm_hwloc}"],
                       [AC_MSG_RESULT([not usable])
                        btl_sm_CPPFLAGS=-DMCA_BTL_SM_HWLOC=0])
        CPPFLAGS="$btl_sm_save_CPPFLAGS"
        CFLAGS="$btl_sm_save_CFLAGS"
        LIBS="$btl_sm_save_LIBS"],
        [btl_sm_CPPFLAGS=-DMCA_BTL_SM_HWLOC=1])
    btl_sm_CPPFLAGS="$btl_sm_CPPFLAGS -DMCA_BTL_SM_BACKTRACE=$btl_sm_backtrace"
    AC_SUBST([btl_sm_OPAL_LIB])
    AC_SUBST([btl_sm_CPPFLAGS])

    AS_IF([test $btl_sm_happy = yes], [$1], [$2])

    m4_ifdef([OOT_BUILD], [],
             [OPAL_SUMMARY_ADD([Transports], [Shared memory/copy in+copy out], [], [$btl_sm_happy])])
])dnl

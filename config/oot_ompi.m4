dnl Find the Open MPI that the plugins are made for: its tools, version, headers, library and folders.

# OOT_OMPI_HEADERS_HINT
# How to get the headers: the one line that a user needs when they are missing.
m4_define([OOT_OMPI_HEADERS_HINT],
          [on Debian or Ubuntu: apt-get install libopenmpi-dev; if built from source: configure Open MPI with --with-devel-headers])

# OOT_OMPI
# --------
# With the three macros below that come before it, sets OOT_OMPI_BINDIR, OOT_OMPI_VERSION, OOT_OMPI_SERIES, OOT_OMPI_INCDIR,
# OOT_OMPI_LIBDIR, OOT_OMPI_PKGLIBDIR, oot_CPPFLAGS, oot_CFLAGS, oot_LIBS and MPICC, or ends configure with one line.
AC_DEFUN([OOT_OMPI], [
    OOT_OMPI_CHECK_HEADERS
    OOT_OMPI_CHECK_LIBRARY
    OOT_OMPI_CHECK_ABI
    AC_SUBST([OOT_OMPI_DIR])
    AC_SUBST([OOT_OMPI_BINDIR])
    AC_SUBST([OOT_OMPI_VERSION])
    AC_SUBST([OOT_OMPI_SERIES])
    AC_SUBST([OOT_OMPI_PKGLIBDIR])
])

# The three that need no compiler, to be called first: which Open MPI, its version, its headers.
AC_DEFUN([OOT_OMPI_FIND], [
    AC_ARG_WITH([ompi],
        [AS_HELP_STRING([--with-ompi=DIR],
            [the Open MPI (5.0 to 6.x) to make the plugins for: its prefix, the folder above bin/ompi_info
             (default: the ompi_info on PATH)])])
    AC_ARG_VAR([OMPI_INFO], [the ompi_info to ask instead of the one under --with-ompi])

    AC_MSG_CHECKING([for Open MPI])
    AS_CASE([$with_ompi],
        [no], [AC_MSG_RESULT([refused])
               AC_MSG_ERROR([plugins cannot be built --without-ompi])],
        [''|yes], [OOT_OMPI_DIR=],
        [/*], [OOT_OMPI_DIR="$with_ompi"],
        [OOT_OMPI_DIR=`cd "$with_ompi" 2>/dev/null && pwd`
         AS_IF([test -z "$OOT_OMPI_DIR"], [OOT_OMPI_DIR="$with_ompi"])])
    AS_IF([test -n "$OMPI_INFO"], [],
          [test -n "$OOT_OMPI_DIR"],
          [AS_IF([test ! -d "$OOT_OMPI_DIR"],
                 [AC_MSG_RESULT([no])
                  AC_MSG_ERROR([--with-ompi=$with_ompi: no such folder])])
           OMPI_INFO="$OOT_OMPI_DIR/bin/ompi_info"],
          [OMPI_INFO=`command -v ompi_info 2>/dev/null`
           AS_IF([test -z "$OMPI_INFO"],
                 [AC_MSG_RESULT([no])
                  AC_MSG_ERROR([no ompi_info on PATH; name an Open MPI 5 with --with-ompi=DIR])])])
    AS_IF([test ! -x "$OMPI_INFO"],
          [AC_MSG_RESULT([no])
           AC_MSG_ERROR([$OMPI_INFO is missing or cannot be run: --with-ompi wants the prefix of an installed Open MPI])])
    OOT_OMPI_BINDIR=`dirname "$OMPI_INFO"`
    AS_IF([test -z "$OOT_OMPI_DIR"], [OOT_OMPI_DIR=`cd "$OOT_OMPI_BINDIR/.." && pwd`])
    AC_MSG_RESULT([$OOT_OMPI_DIR])
])

# OOT_OMPI_PATH(variable, kind)
# What ompi_info knows about one of its folders.
AC_DEFUN([OOT_OMPI_PATH], [
    $1=`(unset OMPI_MCA_mca_base_component_path; "$OMPI_INFO" --path $2 --parsable) 2>/dev/null | sed -n 's/^path:$2://p' | head -n 1`
    AS_IF([test -z "$$1"],
          [AC_MSG_ERROR([$OMPI_INFO does not tell its $2; is it an Open MPI 5?])])
])

AC_DEFUN([OOT_OMPI_CHECK_VERSION], [
    AC_MSG_CHECKING([for the version of Open MPI])
    OOT_OMPI_VERSION=`"$OMPI_INFO" --version 2>/dev/null | sed -n 's/^Open MPI v\(@<:@0-9@:>@@<:@^ @:>@*\).*/\1/p' | head -n 1`
    AS_IF([test -z "$OOT_OMPI_VERSION"],
          [AC_MSG_RESULT([unknown])
           AC_MSG_ERROR([$OMPI_INFO does not run or is not Open MPI's ("$OMPI_INFO --version" tells no version)])])
    AC_MSG_RESULT([$OOT_OMPI_VERSION])
    oot_major=`echo "$OOT_OMPI_VERSION" | cut -d. -f1`
    AS_IF([test "$oot_major" -lt 5],
          [AC_MSG_ERROR([Open MPI $OOT_OMPI_VERSION in $OOT_OMPI_DIR is too old: 5.0 or newer is needed])],
          [test "$oot_major" -ge 7],
          [AC_MSG_ERROR([Open MPI $OOT_OMPI_VERSION in $OOT_OMPI_DIR is newer than this source knows: below 7.0 is needed])])
    OOT_OMPI_SERIES=`echo "$OOT_OMPI_VERSION" | sed 's/^\(@<:@0-9@:>@*\.@<:@0-9@:>@*\).*/\1/'`
    OOT_OMPI_PATH([OOT_OMPI_INCDIR], [incdir])
    OOT_OMPI_PATH([OOT_OMPI_LIBDIR], [libdir])
    OOT_OMPI_PATH([OOT_OMPI_PKGLIBDIR], [pkglibdir])
    OOT_OMPI_PATH([OOT_OMPI_PKGDATADIR], [pkgdatadir])
    AS_IF([test -x "$OOT_OMPI_BINDIR/mpicc"], [MPICC="$OOT_OMPI_BINDIR/mpicc"], [MPICC=])
    AC_SUBST([MPICC])
])

# OOT_OMPI_ADD_PACKAGE(header, pkg-config module, folder under the prefix to try)
# Open MPI's headers include those of PMIx and hwloc; an Open MPI with copies of its own has them beside its own.
AC_DEFUN([OOT_OMPI_ADD_PACKAGE], [
    AC_MSG_CHECKING([for $1])
    oot_where=
    oot_save_CPPFLAGS="$CPPFLAGS"
    for oot_try in "" "-I$OOT_OMPI_INCDIR" "-I$OOT_OMPI_DIR/include" \
                   "`$PKG_CONFIG --cflags-only-I $2 2>/dev/null`"; do
        AS_IF([test -z "$oot_where"],
              [CPPFLAGS="$oot_save_CPPFLAGS $oot_CPPFLAGS $oot_try"
               AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#include <$1>]])], [oot_where="found $oot_try"])])
    done
    CPPFLAGS="$oot_save_CPPFLAGS"
    AS_IF([test -z "$oot_where"],
          [AC_MSG_RESULT([no])
           AC_MSG_ERROR([$1 is missing, which the headers of Open MPI $OOT_OMPI_VERSION need; $3])])
    AC_MSG_RESULT([$oot_where])
    oot_try=`echo "$oot_where" | sed 's/^found *//'`
    AS_CASE([" $oot_CPPFLAGS "], [*" $oot_try "*], [], [oot_CPPFLAGS="$oot_CPPFLAGS $oot_try"])
])

AC_DEFUN([OOT_OMPI_FIND_HEADERS], [
    AC_MSG_CHECKING([for the internal headers of Open MPI])
    oot_headers=
    for oot_try in "$OOT_OMPI_INCDIR/openmpi" "$OOT_OMPI_INCDIR"; do
        AS_IF([test -z "$oot_headers" && test -f "$oot_try/opal_config.h" && test -f "$oot_try/opal/mca/mca.h" \
               && test -f "$oot_try/opal/mca/btl/btl.h" && test -f "$oot_try/opal/mca/smsc/smsc.h"],
              [oot_headers="$oot_try"])
    done
    AS_IF([test -z "$oot_headers"],
          [AC_MSG_RESULT([no])
           AC_MSG_ERROR([Open MPI in $OOT_OMPI_DIR has no internal headers (opal_config.h, opal/mca/...); OOT_OMPI_HEADERS_HINT])])
    AC_MSG_RESULT([$oot_headers])
    oot_CPPFLAGS="-I$oot_headers -I$OOT_OMPI_INCDIR"
])

AC_DEFUN([OOT_OMPI_CHECK_HEADERS], [
    AC_CHECK_PROG([PKG_CONFIG], [pkg-config], [pkg-config], [false])
    OOT_OMPI_ADD_PACKAGE([pmix.h], [pmix], [on Debian or Ubuntu: apt-get install libpmix-dev])
    OOT_OMPI_ADD_PACKAGE([hwloc.h], [hwloc], [on Debian or Ubuntu: apt-get install libhwloc-dev])

    # Last in the search: a header of the installation always comes before ours.
    AC_MSG_CHECKING([if the installed headers are complete])
    AS_IF([test -f "$oot_headers/opal/mca/threads/pthreads/threads_pthreads_mutex.h"],
          [AC_MSG_RESULT([yes])],
          [AC_MSG_RESULT([no, the threads and timer ones come from config/compat])])
    # (configure.ac adds the folder behind oot_CPPFLAGS.)

    # The compiler that Open MPI was built with may know a type that this one does not (clang 14 and _Float16): any
    # type of that size will do, since we only need the headers to compile.
    AC_MSG_CHECKING([if $CC knows the types that the headers use])
    oot_save_CPPFLAGS="$CPPFLAGS"
    oot_knows=no
    for oot_try in "" "-D_Float16=__fp16"; do
        AS_IF([test "$oot_knows" = no],
              [CPPFLAGS="$oot_save_CPPFLAGS $oot_CPPFLAGS $oot_try"
               AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include "opal_config.h"]])],
                                 [oot_knows="yes $oot_try"
                                  oot_CPPFLAGS="$oot_CPPFLAGS${oot_try:+ }$oot_try"])])
    done
    CPPFLAGS="$oot_save_CPPFLAGS"
    AC_MSG_RESULT([$oot_knows])
    AS_IF([test "$oot_knows" = no],
          [AC_MSG_ERROR([$CC cannot compile $oot_headers/opal_config.h; use the compiler that Open MPI was built with (see config.log)])])

    AC_MSG_CHECKING([if the headers belong to this Open MPI])
    oot_save_CPPFLAGS="$CPPFLAGS"
    CPPFLAGS="$CPPFLAGS $oot_CPPFLAGS -I$srcdir/config/compat"
    AC_COMPUTE_INT([oot_header_major], [OPAL_MAJOR_VERSION],
                   [[#include "opal_config.h"
#include "opal/version.h"]], [oot_header_major=])
    AC_COMPUTE_INT([oot_header_minor], [OPAL_MINOR_VERSION],
                   [[#include "opal_config.h"
#include "opal/version.h"]], [oot_header_minor=])
    CPPFLAGS="$oot_save_CPPFLAGS"
    AS_IF([test -n "$oot_header_major" && test "$oot_header_major.$oot_header_minor" = "$OOT_OMPI_SERIES"],
          [AC_MSG_RESULT([yes])],
          [AC_MSG_RESULT([no])
           AC_MSG_ERROR([the headers in $oot_headers are of Open MPI ${oot_header_major:-unknown}.$oot_header_minor, but $OMPI_INFO is of $OOT_OMPI_VERSION])])
])

AC_DEFUN([OOT_OMPI_CHECK_LIBRARY], [
    AC_MSG_CHECKING([for libopen-pal])
    oot_LIBS=
    oot_save_LIBS="$LIBS"
    for oot_try in "$OOT_OMPI_LIBDIR" "$OOT_OMPI_LIBDIR/openmpi/lib"; do
        AS_IF([test -z "$oot_LIBS"],
              [LIBS="-L$oot_try -lopen-pal -Wl,-rpath,$oot_try $oot_save_LIBS"
               AC_LINK_IFELSE([AC_LANG_PROGRAM([[extern int mca_base_opened;]], [[return mca_base_opened;]])],
                              [oot_LIBS="-L$oot_try -lopen-pal"
                               OOT_OMPI_OPAL_LIBDIR="$oot_try"])])
    done
    LIBS="$oot_save_LIBS"
    AS_IF([test -z "$oot_LIBS"],
          [AC_MSG_RESULT([no])
           AC_MSG_ERROR([cannot link with libopen-pal of Open MPI in $OOT_OMPI_LIBDIR; OOT_OMPI_HEADERS_HINT])])
    AC_MSG_RESULT([$oot_LIBS])

    # OPAL's macros for the exchange of addresses call PMIx. It has to be the library that libopen-pal uses,
    # which may be there without what -lpmix needs.
    AC_MSG_CHECKING([for the libpmix that libopen-pal uses])
    oot_pmix=`ldd "$OOT_OMPI_OPAL_LIBDIR/libopen-pal.so" 2>/dev/null | sed -n 's/^.*libpmix\.so@<:@^ @:>@* *=> *\(@<:@^ @:>@*\).*/\1/p' | head -n 1`
    AS_CASE([$oot_pmix], [/*], [oot_pmix_dir=`dirname "$oot_pmix"`], [oot_pmix_dir="$OOT_OMPI_LIBDIR"])
    oot_found_pmix=
    for oot_try in "-L$oot_pmix_dir -lpmix" "-L$OOT_OMPI_LIBDIR -lpmix" \
                   "`$PKG_CONFIG --libs pmix 2>/dev/null`" "-Wl,$oot_pmix"; do
        AS_IF([test -z "$oot_found_pmix"],
              [LIBS="$oot_LIBS $oot_try -Wl,-rpath,$OOT_OMPI_OPAL_LIBDIR -Wl,-rpath,$oot_pmix_dir $oot_save_LIBS"
               AC_LINK_IFELSE([AC_LANG_PROGRAM([[extern int PMIx_Initialized(void);]], [[return PMIx_Initialized();]])],
                              [oot_found_pmix="$oot_try"])])
    done
    LIBS="$oot_save_LIBS"
    AS_IF([test -z "$oot_found_pmix"],
          [AC_MSG_RESULT([no])
           AC_MSG_ERROR([cannot link with the libpmix that Open MPI uses (${oot_pmix:-not known}); on Debian or Ubuntu: apt-get install libpmix-dev])])
    AC_MSG_RESULT([$oot_found_pmix])
    oot_LIBS="$oot_LIBS $oot_found_pmix"

    # The headers use 128-bit atomics if Open MPI's own compiler flags allow them; ours have to follow.
    AC_MSG_CHECKING([what the atomics of the headers need])
    oot_found_flag=no
    oot_save_CPPFLAGS="$CPPFLAGS"
    oot_save_CFLAGS="$CFLAGS"
    CPPFLAGS="$CPPFLAGS $oot_CPPFLAGS -I$srcdir/config/compat"
    for oot_try in "" -mcx16 -latomic; do
        AS_IF([test "$oot_found_flag" = no],
              [AS_CASE([$oot_try], [-l*], [LIBS="$oot_LIBS $oot_try $oot_save_LIBS"],
                       [CFLAGS="$oot_save_CFLAGS $oot_try"
                        LIBS="$oot_LIBS $oot_save_LIBS"])
               LIBS="$LIBS -Wl,-rpath,$OOT_OMPI_OPAL_LIBDIR -Wl,-rpath,$oot_pmix_dir"
               AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include "opal_config.h"
#include "opal/sys/atomic.h"
#include "opal/class/opal_lifo.h"
]], [[opal_lifo_t lifo;
      opal_list_item_t item;
      OBJ_CONSTRUCT(&lifo, opal_lifo_t);
      (void) opal_lifo_push_atomic(&lifo, &item);
      return NULL == opal_lifo_pop_atomic(&lifo);]])],
                              [oot_found_flag="$oot_try"])])
    done
    CPPFLAGS="$oot_save_CPPFLAGS"
    CFLAGS="$oot_save_CFLAGS"
    LIBS="$oot_save_LIBS"
    AS_CASE([$oot_found_flag],
            [no], [AC_MSG_RESULT([unknown])
                   AC_MSG_ERROR([the atomics in the headers of Open MPI $OOT_OMPI_VERSION do not compile with $CC; use the compiler that Open MPI was built with (see config.log)])],
            [''], [AC_MSG_RESULT([nothing])],
            [-l*], [AC_MSG_RESULT([$oot_found_flag])
                    oot_LIBS="$oot_LIBS $oot_found_flag"],
            [AC_MSG_RESULT([$oot_found_flag])
             oot_CFLAGS="$oot_found_flag"])
])

# The installed headers include ones that are not installed; ours stand in for them. Open MPI keeps the
# size of each of its classes as data, so a difference in layout is found by asking, not by hoping.
AC_DEFUN([OOT_OMPI_CHECK_ABI], [
    AC_MSG_CHECKING([if the sizes of OPAL classes agree with the headers])
    oot_save_CPPFLAGS="$CPPFLAGS"
    oot_save_LIBS="$LIBS"
    CPPFLAGS="$CPPFLAGS $oot_CPPFLAGS -I$srcdir/config/compat"
    LIBS="$oot_LIBS -Wl,-rpath,$OOT_OMPI_OPAL_LIBDIR -Wl,-rpath,$oot_pmix_dir $LIBS"
    CFLAGS="$CFLAGS $oot_CFLAGS"
    AC_RUN_IFELSE([AC_LANG_PROGRAM([[
#include "opal_config.h"
#include "opal/class/opal_list.h"
#include "opal/class/opal_free_list.h"
#include "opal/mca/btl/btl.h"
#include "opal/mca/smsc/smsc.h"
#include "opal/mca/threads/mutex.h"
#include "opal/mca/threads/threads.h"
#include "opal/mca/threads/tsd.h"
#define SAME(type) ((size_t) OBJ_CLASS(type)->cls_sizeof == sizeof(type))
]], [[return SAME(opal_object_t) && SAME(opal_list_t) && SAME(opal_mutex_t) && SAME(opal_recursive_mutex_t)
             && SAME(opal_thread_t) && SAME(opal_tsd_tracked_key_t) && SAME(opal_free_list_t) ? 0 : 1;]])],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([the headers of Open MPI $OOT_OMPI_VERSION do not compile or do not fit its libopen-pal; see config.log])],
        [AC_MSG_RESULT([not checked, cross-compiling])])
    CPPFLAGS="$oot_save_CPPFLAGS"
    CFLAGS="$oot_save_CFLAGS"
    LIBS="$oot_save_LIBS"
])

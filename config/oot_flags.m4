dnl Compiler and linker flags of the out-of-tree build.

# OOT_TRY_FLAG(variable, flag, [compile|link])
# Add the flag to the variable if the compiler takes it without a warning.
AC_DEFUN([OOT_TRY_FLAG], [
    AC_MSG_CHECKING([if $CC takes $2])
    oot_save_CFLAGS="$CFLAGS"
    CFLAGS="$CFLAGS -Werror $2"
    m4_if([$3], [link],
          [AC_LINK_IFELSE([AC_LANG_PROGRAM()], [oot_takes=yes], [oot_takes=no])],
          [AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [oot_takes=yes], [oot_takes=no])])
    CFLAGS="$oot_save_CFLAGS"
    AC_MSG_RESULT([$oot_takes])
    AS_IF([test $oot_takes = yes], [$1="$$1 $2"])
])

# OOT_C11_ATOMICS(action-if-found, action-if-not-found)
# Lock-free 64-bit atomics from the language: what shared memory between processes stands on.
AC_DEFUN([OOT_C11_ATOMICS], [
    AC_CACHE_CHECK([for lock-free C11 atomics], [oot_cv_c11_atomics],
        [oot_save_CFLAGS="$CFLAGS"
         CFLAGS="$CFLAGS -std=gnu11"
         AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include <stdatomic.h>
#include <stdint.h>
_Static_assert(2 == ATOMIC_LLONG_LOCK_FREE, "64-bit atomics have to be address-free");
static _Atomic uint64_t word;
]], [[uint64_t was = atomic_fetch_add_explicit(&word, 1, memory_order_acq_rel);
      atomic_store_explicit(&word, was, memory_order_release);
      return (int) atomic_load_explicit(&word, memory_order_acquire);]])],
                        [oot_cv_c11_atomics=yes], [oot_cv_c11_atomics=no])
         CFLAGS="$oot_save_CFLAGS"])
    AS_IF([test $oot_cv_c11_atomics = yes], [$1], [$2])
])

# OOT_FLAGS
# ---------
# Sets for the Makefiles: smx_CPPFLAGS, smx_CFLAGS, smx_LDFLAGS (plugins only), smx_LIBS (plugins only), and
# smx_L0_CPPFLAGS for programs that use the files without OPAL headers.
AC_DEFUN([OOT_FLAGS], [
    OOT_C11_ATOMICS([], [AC_MSG_ERROR([$CC has no lock-free C11 atomics (stdatomic.h); gcc 4.9 or clang 3.6 or newer is needed])])

    smx_CFLAGS="-std=gnu11 -Wall -Wextra -fno-strict-aliasing -pthread${oot_CFLAGS:+ }$oot_CFLAGS"
    # Where Open MPI was configured without visibility its OPAL_DECLSPEC is empty and would hide our component, too.
    AC_MSG_CHECKING([if the headers of Open MPI mark what is visible])
    oot_save_CPPFLAGS="$CPPFLAGS"
    CPPFLAGS="$CPPFLAGS $oot_CPPFLAGS -I$srcdir/config/compat"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include "opal_config.h"
#if !OPAL_C_HAVE_VISIBILITY
#error no
#endif]])], [oot_visibility=yes], [oot_visibility=no])
    CPPFLAGS="$oot_save_CPPFLAGS"
    AC_MSG_RESULT([$oot_visibility])
    AS_IF([test $oot_visibility = yes], [OOT_TRY_FLAG([smx_CFLAGS], [-fvisibility=hidden])])
    OOT_TRY_FLAG([smx_CFLAGS], [-fstack-protector-strong])
    OOT_TRY_FLAG([smx_CFLAGS], [-fstack-clash-protection])

    # Function calls inside a plugin must not end in the code of the same name that is linked into libopen-pal,
    # hence -Bsymbolic and the short list of exports.
    smx_LDFLAGS="-Wl,-Bsymbolic -export-symbols-regex '^mca_[[a-z]]+_[[a-z]]+_(component|component_ptr|built_for)\$\$'"
    for oot_flag in relro now noexecstack; do
        oot_flags_link=
        OOT_TRY_FLAG([oot_flags_link], [-Wl,-z,$oot_flag], [link])
        smx_LDFLAGS="$smx_LDFLAGS$oot_flags_link"
    done
    # A sanitizer's runtime comes with the program, so its symbols are open in a plugin.
    AS_IF([test -z "$OOT_SANITIZE"], [smx_LDFLAGS="$smx_LDFLAGS -Wl,-z,defs"])

    smx_hardening=
    AS_IF([test -z "$OOT_SANITIZE"],
          [AC_MSG_CHECKING([if _FORTIFY_SOURCE can be set])
           oot_save_CFLAGS="$CFLAGS"
           CFLAGS="$CFLAGS -Werror -D_FORTIFY_SOURCE=2"
           AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <string.h>
#ifndef __OPTIMIZE__
#error needs optimization
#endif]])],
                             [AC_MSG_RESULT([yes])
                              smx_hardening="-D_FORTIFY_SOURCE=2"],
                             [AC_MSG_RESULT([no, or set already])])
           CFLAGS="$oot_save_CFLAGS"])

    smx_CPPFLAGS="-DSMX_OUT_OF_TREE=1 -DSMX_DSOFIRST_DEFAULT='\"\$(smx_DSOFIRST_DEFAULT)\"' -DSMX_SERIES='\"$OOT_OMPI_SERIES\"' -I\$(top_srcdir) -I\$(top_srcdir)/config $oot_CPPFLAGS -I\$(top_srcdir)/config/compat $smx_hardening"
    smx_L0_CPPFLAGS="-I\$(top_srcdir) $smx_hardening"
    smx_CFLAGS="$smx_CFLAGS $OOT_SANITIZE_FLAGS"
    smx_LDFLAGS="$smx_LDFLAGS $OOT_SANITIZE_FLAGS"
    smx_LIBS="$oot_LIBS"
    AC_SUBST([smx_CPPFLAGS])
    AC_SUBST([smx_L0_CPPFLAGS])
    AC_SUBST([smx_CFLAGS])
    AC_SUBST([smx_LDFLAGS])
    AC_SUBST([smx_LIBS])
])

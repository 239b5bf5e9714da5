dnl --enable-asan, --enable-ubsan, --enable-tsan, --enable-coverage: instrumented builds for the tests.

# OOT_SANITIZERS
# --------------
# Sets OOT_SANITIZE_FLAGS (for the compiler and for the linker) and OOT_SANITIZE (a list of words for the tests).
AC_DEFUN([OOT_SANITIZERS], [
    AC_ARG_ENABLE([asan], [AS_HELP_STRING([--enable-asan], [build with AddressSanitizer])])
    AC_ARG_ENABLE([ubsan], [AS_HELP_STRING([--enable-ubsan],
                                           [build with UndefinedBehaviorSanitizer, errors are fatal])])
    AC_ARG_ENABLE([tsan], [AS_HELP_STRING([--enable-tsan], [build with ThreadSanitizer])])
    AC_ARG_ENABLE([coverage], [AS_HELP_STRING([--enable-coverage], [build for gcov])])

    OOT_SANITIZE=
    OOT_SANITIZE_FLAGS=
    AS_IF([test "$enable_asan" = yes && test "$enable_tsan" = yes],
          [AC_MSG_ERROR([--enable-asan and --enable-tsan exclude each other])])
    AS_IF([test "$enable_asan" = yes],
          [OOT_SANITIZE="$OOT_SANITIZE asan"
           OOT_SANITIZE_FLAGS="$OOT_SANITIZE_FLAGS -fsanitize=address"])
    AS_IF([test "$enable_ubsan" = yes],
          [OOT_SANITIZE="$OOT_SANITIZE ubsan"
           OOT_SANITIZE_FLAGS="$OOT_SANITIZE_FLAGS -fsanitize=undefined -fno-sanitize-recover=all"])
    AS_IF([test "$enable_tsan" = yes],
          [OOT_SANITIZE="$OOT_SANITIZE tsan"
           OOT_SANITIZE_FLAGS="$OOT_SANITIZE_FLAGS -fsanitize=thread"])
    AS_IF([test "$enable_coverage" = yes],
          [OOT_SANITIZE="$OOT_SANITIZE coverage"
           OOT_SANITIZE_FLAGS="$OOT_SANITIZE_FLAGS --coverage"])
    AS_IF([test -n "$OOT_SANITIZE"],
          [OOT_SANITIZE_FLAGS="$OOT_SANITIZE_FLAGS -fno-omit-frame-pointer"
           AC_MSG_CHECKING([if $CC links with$OOT_SANITIZE_FLAGS])
           oot_save_CFLAGS="$CFLAGS"
           CFLAGS="$CFLAGS $OOT_SANITIZE_FLAGS"
           AC_LINK_IFELSE([AC_LANG_PROGRAM()],
                          [AC_MSG_RESULT([yes])],
                          [AC_MSG_RESULT([no])
                           AC_MSG_ERROR([$CC cannot link with$OOT_SANITIZE_FLAGS])])
           CFLAGS="$oot_save_CFLAGS"])
    AC_SUBST([OOT_SANITIZE])
    AC_SUBST([OOT_SANITIZE_FLAGS])
])

# -*- shell-script -*-
#
# MCA_opal_allocator_dsofirst_CONFIG([action-if-can-compile], [action-if-cant-compile])
# -------------------------------------------------------------------------------------
# The component makes plugin files win over linked-in components of the same name. Inside an Open MPI tree
# that holds our smsc/cma and btl/sm there is nothing to win over unless it is asked for as a plugin itself
# (--enable-mca-dso=allocator-dsofirst); linked in, it would only be one more allocator in everybody's list.
AC_DEFUN([MCA_opal_allocator_dsofirst_CONFIG], [
    AC_CONFIG_FILES([opal/mca/allocator/dsofirst/Makefile])

    m4_ifdef([OOT_BUILD],
             [allocator_dsofirst_OPAL_LIB="$smx_LIBS"],
             [allocator_dsofirst_OPAL_LIB='$(top_builddir)/opal/lib$(OPAL_LIB_NAME).la'])
    AC_SUBST([allocator_dsofirst_OPAL_LIB])

    AS_IF([test "$compile_mode" = dso], [$1], [$2])
])dnl

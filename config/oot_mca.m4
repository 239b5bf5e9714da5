dnl Stand-ins for what Open MPI's own configure gives to a component: enough that the configure.m4 and
dnl the Makefile.am of a component are the same text inside and outside an Open MPI source tree.
dnl Included by configure.ac; never by an Open MPI tree.

dnl Components ask m4_ifdef([OOT_BUILD]) where the two kinds of build have to differ.
m4_define([OOT_BUILD], [1])

# OOT_MCA_COMPONENT(project, framework, component)
# ------------------------------------------------
# As MCA_CONFIGURE_M4_CONFIG_COMPONENT of Open MPI: let the component's configure.m4 decide whether it can be
# built, always as a plugin. A component without its main source file (a checkout in the middle of being
# written) is left out with a word instead of breaking the others.
AC_DEFUN([OOT_MCA_COMPONENT], [
    compile_mode=dso
    should_build=0
    MCA_$1_$2_$3_CONFIG([should_build=1], [should_build=0])
    AM_CONDITIONAL([MCA_BUILD_$1_$2_$3_DSO], [test "$compile_mode" = dso])
    OOT_MCA_COMPONENT_DONE([$1], [$2], [$3])
])

# OOT_MCA_COMPONENT_NO_CONFIG(project, framework, component)
# ----------------------------------------------------------
# The same for a component that has a Makefile.am only.
AC_DEFUN([OOT_MCA_COMPONENT_NO_CONFIG], [
    should_build=1
    AC_CONFIG_FILES([$1/mca/$2/$3/Makefile])
    AM_CONDITIONAL([MCA_BUILD_$1_$2_$3_DSO], [true])
    OOT_MCA_COMPONENT_DONE([$1], [$2], [$3])
])

AC_DEFUN([OOT_MCA_COMPONENT_DONE], [
    AC_MSG_CHECKING([if component $2/$3 can be built])
    AS_IF([test ! -f "$srcdir/$1/mca/$2/$3/$2_$3_component.c"],
          [AC_MSG_RESULT([no, its source is not here])],
          [test "$should_build" = 1],
          [AC_MSG_RESULT([yes])
           OOT_MCA_SUBDIRS="$OOT_MCA_SUBDIRS $1/mca/$2/$3"
           OOT_MCA_PLUGINS="$OOT_MCA_PLUGINS mca_$2_$3"
           # what dsofirst is to prefer unless told otherwise: everything that is built beside it
           AS_CASE([$2], [allocator], [],
                   [smx_DSOFIRST_DEFAULT="$2:$3${smx_DSOFIRST_DEFAULT:+,}$smx_DSOFIRST_DEFAULT"])],
          [AC_MSG_RESULT([no])])
    OOT_MCA_DIST_SUBDIRS="$OOT_MCA_DIST_SUBDIRS $1/mca/$2/$3"
])

# OOT_MCA
# -------
# Configure all components that autogen.pl found.
AC_DEFUN([OOT_MCA], [
    OOT_MCA_SUBDIRS=
    OOT_MCA_DIST_SUBDIRS=
    OOT_MCA_PLUGINS=
    smx_DSOFIRST_DEFAULT=
    OOT_MCA_ALL_COMPONENTS
    AC_SUBST([OOT_MCA_SUBDIRS])
    AC_SUBST([OOT_MCA_DIST_SUBDIRS])
    AC_SUBST([OOT_MCA_PLUGINS])
    AC_SUBST([smx_DSOFIRST_DEFAULT])
])

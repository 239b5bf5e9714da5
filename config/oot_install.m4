dnl Where make install puts things. The names opallibdir and opaldatadir are Open MPI's, so that the
dnl Makefile.am of a component is the same in both kinds of build.

# OOT_INSTALL
# -----------
AC_DEFUN([OOT_INSTALL], [
    AC_ARG_WITH([plugin-dir],
        [AS_HELP_STRING([--with-plugin-dir=DIR],
            [where the plugins go (default: the plugin folder of the Open MPI)])])
    AC_ARG_ENABLE([user-install],
        [AS_HELP_STRING([--enable-user-install],
            [install to ~/.openmpi/components, which Open MPI searches too: no root needed])])
    AC_ARG_WITH([profile-dir],
        [AS_HELP_STRING([--with-profile-dir=DIR],
            [where the snippet for login shells goes (default: SYSCONFDIR/profile.d when installing to Open MPI's own
             folder and its ranks do not look there by themselves, else none; "no" for none)])])

    AS_CASE([$with_plugin_dir],
        [''|yes|no], [AS_IF([test "$enable_user_install" = yes],
                            [AS_IF([test -z "$HOME"], [AC_MSG_ERROR([--enable-user-install needs HOME])])
                             opallibdir="$HOME/.openmpi/components"
                             OOT_INSTALL_KIND=user],
                            [opallibdir="$OOT_OMPI_PKGLIBDIR"
                             OOT_INSTALL_KIND=system])],
        [/*], [opallibdir="$with_plugin_dir"
               OOT_INSTALL_KIND=private],
        [AC_MSG_ERROR([--with-plugin-dir=$with_plugin_dir: an absolute path is needed])])
    AS_IF([test $OOT_INSTALL_KIND = private && test "$enable_user_install" = yes],
          [AC_MSG_ERROR([--with-plugin-dir and --enable-user-install exclude each other])])

    # MCA takes each plain file of a plugin folder for a plugin, hence a folder of its own for everything else.
    smxdir="$opallibdir/single-copy"
    opaldatadir="$smxdir"

    OOT_PMIX_PLUGIN_DIR
    test "$sysconfdir" = '${prefix}/etc' && test "$prefix" = NONE && sysconfdir=/etc
    AS_CASE([$with_profile_dir],
        [''|yes], [AS_IF([test $OOT_INSTALL_KIND = system && test "$OOT_RANKS_NEED_PATH" = yes],
                         [smxprofiledir='$(sysconfdir)/profile.d'],
                         [smxprofiledir=])],
        [no], [smxprofiledir=],
        [smxprofiledir="$with_profile_dir"])
    AM_CONDITIONAL([OOT_PROFILE], [test -n "$smxprofiledir"])
    # USER_DEFAULT is MCA's word for ~/.openmpi/components.
    AS_CASE([$OOT_INSTALL_KIND],
        [system], [smx_component_path="$opallibdir:USER_DEFAULT"],
        [user], [smx_component_path="$opallibdir:$OOT_OMPI_PKGLIBDIR"],
        [smx_component_path="$opallibdir:$OOT_OMPI_PKGLIBDIR:USER_DEFAULT"])
    AC_SUBST([smx_component_path])
    AC_SUBST([opallibdir])
    AC_SUBST([opaldatadir])
    AC_SUBST([smxdir])
    AC_SUBST([smxprofiledir])
    AC_SUBST([OOT_INSTALL_KIND])
])

# OOT_PMIX_PLUGIN_DIR
# -------------------
# Where the launcher's PMIx is not Open MPI's own copy, prterun may hand PMIx's plugin folder to each rank as
# OMPI_MCA_mca_base_component_path, so that ranks search neither of Open MPI's folders (seen with Debian 13's
# packages). Naming our folder in that variable helps, but PMIx takes the variable for its own as well unless
# it is told its own folder. One rank is asked, for that is what counts.
# Sets OOT_RANKS_NEED_PATH (yes or no) and OOT_PMIX_PLUGINS.
AC_DEFUN([OOT_PMIX_PLUGIN_DIR], [
    AC_ARG_WITH([pmix-plugin-dir],
        [AS_HELP_STRING([--with-pmix-plugin-dir=DIR], [PMIx's own plugin folder (default: found)])])
    AC_MSG_CHECKING([if ranks search the plugin folders of Open MPI])
    oot_rank=`unset OMPI_MCA_mca_base_component_path PMIX_MCA_mca_base_component_path
              OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
              PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
              timeout 60 "$OOT_OMPI_BINDIR/mpirun" -n 1 sh -c \
              'echo "rank:$OMPI_MCA_mca_base_component_path:pmix:$PMIX_MCA_mca_base_component_path"' 2>/dev/null | grep '^rank:'`
    AS_CASE([$oot_rank],
        [rank::pmix:*], [OOT_RANKS_NEED_PATH=no
                         AC_MSG_RESULT([yes])],
        [rank:*:pmix:*], [OOT_RANKS_NEED_PATH=yes
                          AC_MSG_RESULT([no, the launcher points them elsewhere])],
        [OOT_RANKS_NEED_PATH=yes
         AC_MSG_RESULT([unknown, mpirun does not run here])])

    AC_MSG_CHECKING([for the plugin folder of PMIx])
    OOT_PMIX_PLUGINS=
    AS_CASE([$with_pmix_plugin_dir],
        [''|yes|no],
        [AS_CASE([$oot_rank],
             [rank::pmix:/*], [OOT_PMIX_PLUGINS=`echo "$oot_rank" | sed 's/^rank::pmix://'`],
             [rank:/*:pmix:/*], [OOT_PMIX_PLUGINS=`echo "$oot_rank" | sed 's/^.*:pmix://'`],
             [rank:/*:pmix:], [OOT_PMIX_PLUGINS=`echo "$oot_rank" | sed -e 's/^rank://' -e 's/:pmix:$//'`])
         # Beside the library of PMIx: "pmix" is what PMIx's own build makes of its libdir.
         AS_IF([test -z "$OOT_PMIX_PLUGINS"],
               [oot_pmix=`ldd "$OOT_OMPI_OPAL_LIBDIR/libopen-pal.so" 2>/dev/null | sed -n 's/^.*=> *\(@<:@^ @:>@*libpmix\.so@<:@^ @:>@*\).*/\1/p' | head -n 1`
                AS_IF([test -n "$oot_pmix"],
                      [OOT_PMIX_PLUGINS="`readlink -f "$oot_pmix" | xargs dirname`/pmix"])])],
        [OOT_PMIX_PLUGINS="$with_pmix_plugin_dir"])
    AS_IF([test -n "$OOT_PMIX_PLUGINS"], [AC_MSG_RESULT([$OOT_PMIX_PLUGINS])], [AC_MSG_RESULT([none])])
    AC_SUBST([OOT_PMIX_PLUGINS])
    AC_SUBST([OOT_RANKS_NEED_PATH])
])

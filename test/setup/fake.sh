# shellcheck shell=bash
# fake.sh: what test/setup/run needs so that contrib/setup can be tried in seconds: a made-up Open MPI, its source
# archive and a made-up checkout. They obey contrib/setup's calls and do nothing else.

# fake_install DIR VERSION [headers]: an installed Open MPI of scripts.
fake_install() {
    local dir=$1 version=$2
    mkdir -p "$dir/bin" "$dir/lib/openmpi" "$dir/include/openmpi/opal/mca/smsc"
    cat >"$dir/bin/ompi_info" <<SCRIPT
#!/bin/sh
case "\$*" in
    *--version*) echo "Open MPI v$version" ;;
    *libdir*) case "\$*" in *pkglibdir*) echo "path:pkglibdir:$dir/lib/openmpi" ;; *) echo "path:libdir:$dir/lib" ;; esac ;;
    *incdir*) echo "path:incdir:$dir/include" ;;
esac
SCRIPT
    cat >"$dir/bin/mpicc" <<'SCRIPT'
#!/bin/sh
case "$*" in *showme*) echo "mpicc: Open MPI (fake)"; exit 0 ;; esac
while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
printf '#!/bin/sh\nfor f in "$SMX_PLUGIN_DIR"/mca_*.so; do echo "rank 0: $f"; done\n' >"$out"
chmod +x "$out"
SCRIPT
    cat >"$dir/bin/mpirun" <<'SCRIPT'
#!/bin/sh
case "$1" in --version) echo "mpirun (Open MPI) fake"; exit 0 ;; esac
for last; do :; done
[ -n "$FAKE_NOT_LOADED" ] || { "$last" && "$last"; }
SCRIPT
    chmod +x "$dir/bin/"*
    if [ "${3:-}" = headers ]; then
        touch "$dir/include/openmpi/opal_config.h" "$dir/include/openmpi/opal/mca/smsc/smsc.h"
    fi
}

# fake_source FILE: a source archive whose configure, make and make install behave as FAKE_* in the environment
# say: FAKE_SLOW=seconds per file, FAKE_FAIL=1 (compile error), FAKE_MB=size of the build, FAKE_SLOW_INSTALL.
# Each configure and each compiled file leaves a line in $FAKE_TRACE.
fake_source() {
    local tree
    tree=$(mktemp -d) || return 1
    mkdir -p "$tree/openmpi-5.0.99"
    declare -f fake_install >"$tree/openmpi-5.0.99/fake_install.sh"
    cat >"$tree/openmpi-5.0.99/configure" <<'SCRIPT'
#!/bin/bash
src=$(cd "$(dirname "$0")" && pwd)
for arg; do case $arg in --prefix=*) prefix=${arg#*=} ;; esac; done
[ -z "$FAKE_TRACE" ] || echo configure >>"$FAKE_TRACE"
cat >Makefile <<MAKE
.RECIPEPREFIX = >
.PHONY: all install
FILES = f1 f2 f3 f4
all: \$(FILES:=.o)
%.o:
>@echo "  CC       \$@"
>@sleep \$\${FAKE_SLOW:-0}
>@if [ -n "\$\$FAKE_FAIL" ]; then echo "x.c:1:1: error: planted fault"; exit 1; fi
>@if [ -n "\$\$FAKE_MB" ]; then dd if=/dev/zero of=\$@.tmp bs=1M count=\$\$FAKE_MB; else echo x >\$@.tmp; fi
>@mv \$@.tmp \$@; if [ -n "\$\$FAKE_TRACE" ]; then echo "\$@" >>"\$\$FAKE_TRACE"; fi
install: all
>bash -c '. $src/fake_install.sh; fake_install "\$(DESTDIR)$prefix" 5.0.99 headers'
>sed -i "s|\$(DESTDIR)||g" \$(DESTDIR)$prefix/bin/ompi_info
>@sleep \$\${FAKE_SLOW_INSTALL:-0}
MAKE
SCRIPT
    chmod +x "$tree/openmpi-5.0.99/configure"
    tar -czf "$1" -C "$tree" openmpi-5.0.99
    rm -rf "$tree"
}

# fake_checkout DIR: the real contrib/setup beside a configure that makes one "plugin".
fake_checkout() {
    local dir=$1
    mkdir -p "$dir/contrib"
    cp "$SMX_SOURCE_DIR/contrib/setup" "$SMX_SOURCE_DIR/contrib/loaded.c" "$dir/contrib/"
    cat >"$dir/configure" <<'SCRIPT'
#!/bin/sh
for arg; do case $arg in --with-plugin-dir=*) plugins=${arg#*=} ;; esac; done
[ -z "$FAKE_TRACE" ] || echo plugin-configure >>"$FAKE_TRACE"
cat >Makefile <<MAKE
.RECIPEPREFIX = >
.PHONY: all install
OOT_PMIX_PLUGINS = /fake/pmix
all:
>@if [ -n "\$\$FAKE_PLUGIN_FAIL" ]; then echo "cma.c:7: error: planted plugin fault"; exit 1; fi
install:
>mkdir -p $plugins
>echo plugin >$plugins/mca_smsc_cma.so
>echo plugin >$plugins/mca_btl_sm.so
MAKE
SCRIPT
    chmod +x "$dir/configure"
}

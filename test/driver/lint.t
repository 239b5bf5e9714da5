#!/usr/bin/env bash
#
# lint.t: each check of contrib/lint against a planted fault: it must find it, and must be silent without it.

set -u
TOP=$SMX_SOURCE_DIR
FAKE=$(mktemp -d) || exit 1
trap 'rm -rf "$FAKE"' EXIT
COUNT=0
if ! command -v python3 >/dev/null 2>&1; then
    echo "1..0 # SKIP python3 is not installed"
    exit 0
fi

# A small tree that is without fault.
plant() {
    rm -rf "$FAKE/opal" "$FAKE/test"
    mkdir -p "$FAKE/opal/mca/btl/sm" "$FAKE/opal/mca/smsc/cma" "$FAKE/test/unit"
    cp "$TOP/LICENSE" "$FAKE/"
    printf '/* x. Layer 0. */\n#include <stdint.h>\n#define BTL_SM_EDGE_DATA 1\n' >"$FAKE/opal/mca/btl/sm/btl_sm_atomic.h"
    printf '/* x. Layer 0. */\n#include "btl_sm_atomic.h"\nstatic inline void f(void)\n{\n    btl_sm_store_release(BTL_SM_EDGE_DATA, p, 1);\n    btl_sm_load_acquire(BTL_SM_EDGE_DATA, p);\n}\n' \
        >"$FAKE/opal/mca/btl/sm/btl_sm_ring.h"
    printf '/* x. Layer 2. */\n#include "opal_config.h"\n#include "btl_sm_ring.h"\n#include "opal/mca/smsc/smsc.h"\n' \
        >"$FAKE/opal/mca/btl/sm/btl_sm_component.c"
    printf '/* x. Layer 1. */\n' >"$FAKE/opal/mca/smsc/cma/smsc_cma.h"
    printf '| DATA | f | f |\n' >"$FAKE/opal/mca/btl/sm/README.md"
    printf '#include "btl_sm_ring.h"\n' >"$FAKE/test/unit/t_ring.c"
}

# expect CHECK GOOD NAME [PATTERN]
expect() {
    local check=$1 good=$2 name=$3 pattern=${4:-.} verdict=no
    COUNT=$((COUNT + 1))
    if "$TOP/contrib/lint/$check" "$FAKE" >"$FAKE.out" 2>&1; then
        [ "$good" = clean ] && verdict=yes
    else
        [ "$good" = fault ] && grep -qE -e "$pattern" "$FAKE.out" && verdict=yes
    fi
    if [ $verdict = yes ]; then
        echo "ok $COUNT - $name"
    else
        echo "not ok $COUNT - $name"
        sed 's/^/# /' "$FAKE.out"
    fi
    rm -f "$FAKE.out"
}

B=$FAKE/opal/mca/btl/sm
for check in check_layers.py check_edges.py check_sizes.py check_tokens.sh; do
    plant
    expect $check clean "$check is silent on a tree without fault"
done
plant && echo '#include "opal/util/output.h"' >>"$B/btl_sm_ring.h"
expect check_layers.py fault "a layer-0 header that includes opal is found" "layer 0 includes"
plant && printf '/* x. Layer 2. */\n' >"$B/btl_sm.h" && echo '#include "btl_sm.h"' >>"$B/btl_sm_ring.h"
expect check_layers.py fault "a layer-0 header that includes layer 2 is found" "of layer 2"
plant && printf '/* x. Layer 2. */\n' >"$B/btl_sm.h"
printf '/* x. Layer 1. */\n#include "opal_config.h"\n#include "btl_sm.h"\nint f(mca_btl_sm_component_t *c);\n' >"$B/btl_sm_send.c"
expect check_layers.py clean "layer 1 may see the types of the component's own header"
plant && echo '#include "btl_sm_ring.h"' >>"$B/btl_sm_atomic.h"
expect check_layers.py fault "a circle of headers is found" "includes itself"
plant && echo '#include "opal/mca/smsc/cma/smsc_cma.h"' >>"$B/btl_sm_component.c"
expect check_layers.py fault "btl/sm that knows smsc/cma is found" "another component|instead of smsc.h"
plant && sed -i '/opal_config/d' "$B/btl_sm_component.c"
expect check_layers.py fault "a source without opal_config.h first is found" "first include"
plant && echo '/* no such statement */' >"$B/btl_sm_ring.h"
expect check_layers.py fault "a file that does not say its layer is found" "does not say"
plant && echo '#include "opal/class/opal_list.h"' >>"$FAKE/test/unit/t_ring.c"
expect check_layers.py fault "a unit test that includes Open MPI is found" "includes Open MPI"
plant && sed -i 's/.*load_acquire.*//' "$B/btl_sm_ring.h"
expect check_edges.py fault "an edge that nobody acquires is found" "nobody acquires"
plant && : >"$B/README.md"
expect check_edges.py fault "an edge without a row is found" "no row"
plant && printf '\tint x;\n' >>"$B/btl_sm_ring.h"
expect check_sizes.py fault "a tab is found" "tab"
plant && printf '/* %0120d */\n' 1 >>"$B/btl_sm_ring.h"
expect check_sizes.py fault "a long line is found" "columns"
plant && { echo 'void g(void)'; echo '{'; seq -f '    x(%g);' 110; echo '}'; } >>"$B/btl_sm_ring.h"
expect check_sizes.py fault "a function of 110 lines is found" "110 lines"
plant && echo 'volatile int x;' >>"$B/btl_sm_ring.h"
expect check_tokens.sh fault "volatile is found" "volatile"
plant && echo '/* volatile */' >>"$B/btl_sm_ring.h"
expect check_tokens.sh clean "volatile in a comment is none"
plant && echo 'int y = atomic_load_explicit(p, memory_order_acquire);' >>"$B/btl_sm_ring.h"
expect check_tokens.sh fault "an atomic without a wrapper is found" "wrappers"
plant && printf '/* %s: later */\n' TODO >>"$B/btl_sm_ring.h"
expect check_tokens.sh fault "an open point without a number is found" "issue number"
plant && printf 'see http://%s.%s.org/\n' deb debian >"$FAKE/notes.txt"
expect check_tokens.sh fault "the name of a mirror is found" "mirror"
rm -f "$FAKE/notes.txt"
echo "1..$COUNT"

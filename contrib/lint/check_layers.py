#!/usr/bin/env python3
"""Checks that every source file includes its own layer or below, and nothing else.

Called by contrib/lint/run; prints one line per fault and ends with status 1 if there is any. The table of
layers is contrib/HACKING.md's. A component's file says its layer in its head comment ("Layer 0", "L1"...).
"""

import os
import re
import sys

TOP = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")

COMPONENTS = ("opal/mca/smsc/cma", "opal/mca/btl/sm", "opal/mca/allocator/dsofirst")
# What a layer-1 file may not touch: MCA variables and the exchange of addresses belong to layer 2.
GLUE_HEADERS = ("opal/mca/base/mca_base_var.h", "opal/mca/base/mca_base_pvar.h")
# Test folders on pure code: they may see layer 0, the helpers of test/support, and libc.
PURE_TESTS = ("test/unit", "test/stress", "test/model", "test/fuzz", "test/proc")
MPI_PROGRAMS = ("test/mpi", "contrib/bench/bench_mpi")
GENERATED = ("opal_config.h", "oot_config.h", "smx_series.h")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
LAYER = re.compile(r"\b[Ll]ayer:? *(\d)\b|\bL([012])\b")

faults = []


def fault(path, text):
    faults.append("%s: %s" % (path, text))


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as handle:
        return handle.read()


def sources(folder):
    """The C files below a folder, as paths from the top, sorted."""
    found = []
    for root, dirs, names in os.walk(os.path.join(TOP, folder)):
        dirs[:] = [d for d in dirs if d not in (".libs", ".deps")]
        for name in names:
            if name.endswith((".c", ".h", ".cpp")):
                found.append(os.path.relpath(os.path.join(root, name), TOP))
    return sorted(found)


def layer_of(path):
    head = read(path).split("*/", 1)[0]
    match = LAYER.search(head)
    return int(match.group(1) or match.group(2)) if match else None


def component_of(path):
    return next((c for c in COMPONENTS if path.startswith(c + "/")), None)


def find_own(including, name):
    """The project's file that an #include "name" of a file names, or None."""
    for base in (os.path.dirname(including), "") + COMPONENTS + ("test/support", "test/mpi"):
        path = os.path.normpath(os.path.join(base, name))
        if os.path.isfile(os.path.join(TOP, path)):
            return path
    return None


def includes_of(path):
    return [(quote == '"', name) for quote, name in INCLUDE.findall(read(path))]


def check_component_file(path, layers):
    layer, component = layers[path], component_of(path)
    if layer is None:
        fault(path, "the head comment does not say its layer")
        return
    names = [name for _, name in includes_of(path)]
    if path.endswith(".c") and (not names or names[0] not in ("opal_config.h", "oot_config.h")):
        fault(path, "the first include must be opal_config.h")
    for quoted, name in includes_of(path):
        if name in GENERATED:
            if 0 == layer and path.endswith(".h"):
                fault(path, "a layer-0 header includes %s" % name)
            continue
        if name.startswith(("ompi/", "oshmem/", "test/", "mpi.h")):
            fault(path, "includes %s, which is above opal" % name)
            continue
        own = find_own(path, name) if quoted else None
        if own is not None and component_of(own) is not None:
            if component_of(own) != component:
                fault(path, "includes %s of another component" % own)
            elif 1 == layer and os.path.basename(own) == main_header(component):
                pass  # for its types
            elif layers.get(own) is not None and layers[own] > layer:
                fault(path, "layer %d includes %s of layer %d" % (layer, own, layers[own]))
            continue
        if name.startswith("opal/") or (quoted and own is None):
            if 0 == layer and not name.endswith("model_atomic.h"):
                fault(path, "layer 0 includes %s" % name)
            if 1 == layer and name in GLUE_HEADERS:
                fault(path, "layer 1 includes %s" % name)
            if name.startswith("opal/mca/smsc/") and name != "opal/mca/smsc/smsc.h":
                if component != "opal/mca/smsc/cma":
                    fault(path, "reaches single copy by %s instead of smsc.h" % name)


def main_header(component):
    """The header with the component's and the module's types: btl_sm.h of opal/mca/btl/sm."""
    return "_".join(component.split("/")[-2:]) + ".h"


def check_cycles(layers):
    """Layer-0 headers form a ladder: no header may reach itself."""
    graph = {}
    for path, layer in layers.items():
        own = [find_own(path, n) for q, n in includes_of(path) if q]
        graph[path] = [o for o in own if o in layers and o.endswith(".h")]
    for start in graph:
        todo, seen = list(graph[start]), set()
        while todo:
            path = todo.pop()
            if path == start:
                fault(start, "includes itself by way of others")
                break
            if path not in seen:
                seen.add(path)
                todo.extend(graph[path])


def check_pure_test(path, layers):
    for quoted, name in includes_of(path):
        own = find_own(path, name) if quoted else None
        if own in layers and layers[own] not in (0, None):
            fault(path, "includes %s of layer %d: only layer 0 here" % (own, layers[own]))
        elif name.startswith(("opal/", "ompi/")) and own is None:
            fault(path, "includes Open MPI's %s" % name)


def check_mpi_program(path):
    for quoted, name in includes_of(path):
        own = find_own(path, name) if quoted else None
        if name.startswith(("opal/", "ompi/")) or (own is not None and component_of(own)):
            fault(path, "includes %s: an MPI program sees mpi.h only" % name)


def main():
    layers = {}
    for component in COMPONENTS:
        for path in sources(component):
            layers[path] = layer_of(path)
    for path in layers:
        check_component_file(path, layers)
    check_cycles(layers)
    for folder in PURE_TESTS:
        for path in sources(folder):
            check_pure_test(path, layers)
    for path in sources("test/mpi") + sources("contrib/bench"):
        if path.startswith(MPI_PROGRAMS):
            check_mpi_program(path)
    for line in faults:
        print(line)
    if not layers:
        print("no component source found below %s" % TOP)
        return 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

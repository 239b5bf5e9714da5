#!/usr/bin/env python3
"""Checks the ordering edges: each has a releasing and an acquiring user and a row in its component's README.

Called by contrib/lint/run; prints one line per fault and ends with status 1 if there is any. An edge is a
"#define X_EDGE_NAME number" in a component's *_atomic.h; the wrappers take it as their first argument.
"""

import glob
import os
import re
import sys

TOP = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")

DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+_EDGE_\w+)[ \t]+(\w+)", re.M)
RELEASE, ACQUIRE = ("release", "acq_rel"), ("acquire", "acq_rel")


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def check_component(header):
    folder = os.path.dirname(header)
    edges = dict(DEFINE.findall(open(header, encoding="utf-8").read()))
    faults = []
    if len(set(edges.values())) != len(edges):
        faults.append("%s: two edges have the same number" % os.path.relpath(header, TOP))
    code = ""
    for path in sorted(glob.glob(os.path.join(folder, "*.[ch]"))):
        text = without_comments(open(path, encoding="utf-8").read())
        # The definitions of the edges and wrappers themselves are no uses.
        code += re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)
    readme_path = os.path.join(folder, "README.md")
    readme = open(readme_path, encoding="utf-8").read() if os.path.exists(readme_path) else ""
    rows = [line for line in readme.splitlines() if line.lstrip().startswith("|")]
    for edge in edges:
        users = re.findall(r"\b(\w+)\(\s*" + edge + r"\b", code)
        short = edge.split("_EDGE_", 1)[1]
        if not any(user.endswith(RELEASE) for user in users):
            faults.append("%s: nobody releases it" % edge)
        if not any(user.endswith(ACQUIRE) for user in users):
            faults.append("%s: nobody acquires it" % edge)
        if not any(re.search(r"\b(%s|%s)\b" % (edge, short), row) for row in rows):
            faults.append("%s: no row in %s" % (edge, os.path.relpath(readme_path, TOP)))
    for used in sorted(set(re.findall(r"\b\w+_EDGE_\w+\b", code)) - set(edges)):
        faults.append("%s: used but not defined in %s" % (used, os.path.basename(header)))
    return edges, faults


def main():
    headers = sorted(glob.glob(os.path.join(TOP, "opal", "mca", "*", "*", "*_atomic.h")))
    faults = []
    for header in headers:
        edges, found = check_component(header)
        if not edges:
            found.append("%s: defines no edge" % os.path.relpath(header, TOP))
        faults.extend(found)
    for line in faults:
        print(line)
    if not headers:
        print("no *_atomic.h found below %s" % os.path.join(TOP, "opal"))
        return 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

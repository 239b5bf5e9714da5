#!/usr/bin/env python3
"""Checks measures of the text: columns, tabs, blanks at line ends, last newline, length of functions.

Called by contrib/lint/run; prints one line per fault and ends with status 1 if there is any. A function that
is longer than the limit for a reason says so with "Long:" in the comment above it.
"""

import os
import re
import subprocess
import sys

TOP = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")

# What is aimed at is 100; comments and tables may stand out a little.
COLUMNS = 110
# Lines of one function's body, braces left out: the product, and everything else. Aimed at is a fifth of it.
PRODUCT_LIMIT, OTHER_LIMIT = 100, 220
CODE = (".c", ".h", ".cpp")
TEXT = CODE + (".py", ".sh", ".pl", ".ac", ".m4", ".txt")
TABS_ALLOWED = (".am", ".mk")


def files():
    """Files of the checkout that git knows or would add; all files where there is no git."""
    try:
        out = subprocess.run(
            ["git", "-C", TOP, "ls-files", "-z", "-co", "--exclude-standard"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
        names = [n for n in out.decode().split("\0") if n]
    except (OSError, subprocess.CalledProcessError):
        names = []
        for root, dirs, found in os.walk(TOP):
            dirs[:] = [d for d in dirs if not d.startswith(".")]
            names += [os.path.relpath(os.path.join(root, n), TOP) for n in found]
    return sorted(n for n in names if os.path.isfile(os.path.join(TOP, n)))


def is_script(path):
    if "." in os.path.basename(path):
        return False
    with open(os.path.join(TOP, path), "rb") as handle:
        return handle.read(2) == b"#!"


def check_lines(path, lines, faults):
    for number, line in enumerate(lines, 1):
        where = "%s:%d: " % (path, number)
        if "\t" in line and not path.endswith(TABS_ALLOWED):
            faults.append(where + "tab")
        if line != line.rstrip():
            faults.append(where + "blanks at the end")
        if path.endswith(CODE) and len(line) > COLUMNS:
            faults.append(where + "%d columns" % len(line))


def check_functions(path, lines, faults):
    """A function's body runs from a "{" in column 1 (or at the end of a line that starts in column 1) to the
    "}" in column 1."""
    limit = PRODUCT_LIMIT if path.startswith("opal/") else OTHER_LIMIT
    start = None
    for number, line in enumerate(lines):
        if line == "{" and start is None:
            start = number
        elif line.startswith("}") and start is not None:
            length = number - start - 1
            name_line = next((lines[i] for i in range(start - 1, max(start - 8, -1), -1)
                              if re.match(r"[A-Za-z_]", lines[i])), "")
            above = "\n".join(lines[max(0, start - 40):start])
            comment = above.rsplit("/*", 1)[-1] if "/*" in above else ""
            if length > limit and "Long:" not in comment:
                faults.append("%s:%d: %d lines in one function (limit %d): %s"
                              % (path, start + 1, length, limit, name_line.strip()))
            start = None


def main():
    faults, seen = [], 0
    for path in files():
        if not path.endswith(TEXT + TABS_ALLOWED) and not is_script(path):
            continue
        with open(os.path.join(TOP, path), encoding="utf-8") as handle:
            text = handle.read()
        seen += 1
        lines = text.split("\n")
        if text and not text.endswith("\n"):
            faults.append("%s: no newline at the end" % path)
        check_lines(path, lines, faults)
        if path.endswith(CODE):
            check_functions(path, lines, faults)
    for line in faults:
        print(line)
    if not seen:
        print("no text file found below %s" % TOP)
        return 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

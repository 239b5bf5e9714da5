# SPDX-License-Identifier: BSD-3-Clause
"""The Intel MPI Benchmarks: running an IMB-MPI1 that the user has, reading its tables, and giving
our own nine patterns the same metrics. Called by suites.py."""

import os
import re
import shutil

from engine import ForeignJob
from records import Value

# Our pattern name -> IMB's.
PATTERNS = {"pingpong": "PingPong", "pingping": "PingPing", "sendrecv": "Sendrecv",
            "exchange": "Exchange", "allreduce": "Allreduce", "alltoall": "Alltoall",
            "bcast": "Bcast", "gather": "Gather", "scatter": "Scatter"}


def binary():
    """Path of IMB-MPI1: named by the variable IMB_MPI1, or on PATH, or None."""
    named = os.environ.get("IMB_MPI1")
    return named if named and os.access(named, os.X_OK) else shutil.which("IMB-MPI1")


def parse(text):
    """Tables of IMB's output: {benchmark: [(bytes, time in us, MB/s or None)]}.

    The time is t[usec] where there is one column of it, else t_max, which is what IMB computes
    its bandwidth from.
    """
    tables, name, columns = {}, None, []
    for line in text.splitlines():
        begin = re.match(r"#\s*Benchmarking\s+(\S+)", line)
        words = line.split()
        if begin:
            name, columns = begin.group(1), []
        elif name and words and words[0] == "#bytes":
            columns = words
        elif columns and len(words) == len(columns) and words[0].isdigit():
            row = dict(zip(columns, words))
            time = row.get("t[usec]") or row.get("t_max[usec]")
            if time:
                rate = row.get("Mbytes/sec")
                tables.setdefault(name, []).append(
                    (int(words[0]), float(time), float(rate) if rate else None))
        elif columns and not words:
            columns = []
    return tables


def cell_values(cells):
    """Values of our own patterns in IMB's terms: the slowest rank's time per call."""
    return [Value("imb_t_us", "us", c["t_max_us"], c["size_bytes"],
                  {k: v for k, v in c.items() if k not in ("kind", "size_bytes")}) for c in cells]


class ImbJob(ForeignJob):
    """One IMB benchmark by IMB-MPI1."""

    def __init__(self, path, pattern, np):
        super().__init__("imb", pattern, np, 180.0)
        self.path = path

    def command(self, folder):
        return [self.path, PATTERNS[self.name], "-npmin", str(self.np), "-time", "1"]

    def parse(self, folder, stdout):
        rows = parse(stdout).get(PATTERNS[self.name], [])
        return [Value("imb_t_us", "us", t, size, {"bw_MBps": rate} if rate else {})
                for size, t, rate in rows if t > 0], "" if rows else "no table in IMB's output"

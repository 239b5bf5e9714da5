# SPDX-License-Identifier: BSD-3-Clause
"""The distribution's hpcc: its input file, its output file, the table of the 2010 post.

Called by suites.py. hpcc always runs all of its tests; a small matrix makes the computing ones
short and leaves the ring and ping-pong measurements, which have a fixed length, as they are.
"""

import math
import re
import shutil

from engine import ForeignJob
from records import Value

INPUT = """\
HPLinpack benchmark input file
written by the benchmark driver
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
{n}          Ns
1            # of NBs
{nb}         NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
{p}          Ps
{q}          Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
1200         values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
"""

# Summary line of hpccoutf.txt -> (metric, unit, factor). The post's five columns come first.
METRICS = {
    "NaturallyOrderedRingBandwidth_GBytes": ("nat_ring_bw_MBps", "MBps", 1000.0),
    "RandomlyOrderedRingBandwidth_GBytes": ("rand_ring_bw_MBps", "MBps", 1000.0),
    "MaxPingPongBandwidth_GBytes": ("max_pingpong_bw_MBps", "MBps", 1000.0),
    "AvgPingPongBandwidth_GBytes": ("avg_pingpong_bw_MBps", "MBps", 1000.0),
    "MinPingPongBandwidth_GBytes": ("min_pingpong_bw_MBps", "MBps", 1000.0),
    "AvgPingPongLatency_usec": ("avg_pingpong_lat_us", "us", 1.0),
    "MinPingPongLatency_usec": ("min_pingpong_lat_us", "us", 1.0),
    "NaturallyOrderedRingLatency_usec": ("nat_ring_lat_us", "us", 1.0),
    "RandomlyOrderedRingLatency_usec": ("rand_ring_lat_us", "us", 1.0),
}
# Further figures, of interest as applications.
APPLICATION_METRICS = {
    "HPL_Tflops": ("hpl_GFLOPS", "GFLOPS", 1000.0),
    "PTRANS_GBs": ("ptrans_GBps", "GBps", 1.0),
    "MPIRandomAccess_GUPs": ("random_access_GUPS", "GUPS", 1.0),
    "MPIFFT_Gflops": ("fft_GFLOPS", "GFLOPS", 1.0),
}


def grid(np):
    """The most nearly square P x Q = np with P <= Q."""
    p = math.isqrt(np)
    while np % p:
        p -= 1
    return p, np // p


def input_text(np, n=None, nb=80):
    """hpccinf.txt for np ranks; without n a matrix just large enough for the grid."""
    p, q = grid(np)
    return INPUT.format(n=n or 100 * q, nb=nb, p=p, q=q)


def summary(text):
    """The name=value lines of the summary section of hpccoutf.txt as a dict of strings."""
    begin = text.rfind("Begin of Summary section.")
    end = text.rfind("End of Summary section.")
    if begin < 0 or end < begin:
        return {}
    return dict(re.findall(r"^(\w+)=(\S+)\s*$", text[begin:end], re.M))


def parse(text, metrics=None):
    """(list of Value, problem) from hpccoutf.txt. Failed verification is a problem."""
    found = summary(text)
    if not found:
        return [], "hpccoutf.txt has no summary: the run was not completed"
    if found.get("Success") != "1":
        return [], "hpcc reports no success"
    failed = re.findall(r"(\d+) tests completed and failed residual checks", text)
    if any(int(n) for n in failed):
        return [], "hpcc: a test failed its residual check"
    for name in ("MPIRandomAccess_ErrorsFraction", "MPIRandomAccess_LCG_ErrorsFraction"):
        if float(found.get(name, 0)) > 0.01:  # the benchmark's own tolerance
            return [], f"hpcc: {name} is {found[name]}"
    values = []
    for name, (metric, unit, factor) in (metrics or METRICS).items():
        if name in found and float(found[name]) > 0:
            values.append(Value(metric, unit, float(found[name]) * factor))
    return values, "" if values else "no figures in the summary of hpccoutf.txt"


def binary():
    """Path of the packaged hpcc, or None."""
    return shutil.which("hpcc")


class HpccJob(ForeignJob):
    """One hpcc run."""

    def __init__(self, suite, np, name="hpcc", n=None, nb=80, metrics=None, timeout=180.0):
        super().__init__(suite, name, np, timeout)
        self.n, self.nb, self.metrics = n, nb, metrics

    def setup(self, folder):
        (folder / "hpccinf.txt").write_text(input_text(self.np, self.n, self.nb))

    def command(self, folder):
        return [binary() or "hpcc"]

    def parse(self, folder, stdout):
        path = folder / "hpccoutf.txt"
        if not path.exists():
            return [], "hpcc wrote no hpccoutf.txt"
        return parse(path.read_text(errors="replace"), self.metrics)


# The figures published in 2010 (POWER6, MB/s): ranks -> subject -> (natural ring, random ring,
# largest ping-pong). Only the four-rank row is at hand; ratios, not absolute values, compare.
PUBLISHED_2010 = {
    4: {"base": (1235, 1227, 2028), "cma": (4741, 4666, 7424)},
}

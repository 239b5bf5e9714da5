# SPDX-License-Identifier: BSD-3-Clause
"""The suites: which jobs run with which subjects, how often and for how long.

Called by run. Data, not mechanism: a suite turns a Context into Blocks for engine.Executor.
"""

import os
from dataclasses import dataclass, field

import apps
import hpcc
import imb
import launch
import subjects as subjects_module
from engine import Block, PlainJob, ProgramJob, Side, latency_values, plain_values
from launch import BenchError
from subjects import SUBJECTS, Subject

ALL = ["builtin", "builtin-nocma", "ours", "ours-nosc", "ours-nocoop", "ucx", "mpich",
       "mpich-nocma", "knem", "xpmem"]
ONE_COPY = ["builtin", "builtin-nocma", "ours", "knem"]
# The side of jobs that run no MPI.
FLOOR = Side("floor", Subject("floor", "two processes without MPI"), None, check=False)
CEILING = Side("ceiling", Subject("ceiling", "one copy in shared memory, no MPI"), None,
               check=False)


@dataclass
class Context:
    """What is installed and how much time there is."""
    ompi: launch.Mpi
    mpich: launch.Mpi
    effort: str = "main"            # main, quick or full
    only: list = field(default_factory=list)    # subjects the user named; empty: all
    notes: list = field(default_factory=list)   # lines about what is left out, and how to get it

    @property
    def full(self):
        """Whether this is the long form."""
        return self.effort == "full"

    def note(self, line):
        """Remember a line for the user, once."""
        if line not in self.notes:
            self.notes.append(line)

    def sides(self, names):
        """The sides that can run here; what is missing leaves a note."""
        found = []
        for name in names:
            if self.only and name not in self.only and name != "builtin":
                continue
            subject = SUBJECTS[name]
            why = subjects_module.present(subject, self.ompi, self.mpich)
            if why:
                self.note(why)
            else:
                found.append(Side(name, subject,
                                  self.ompi if subject.flavour == "ompi" else self.mpich))
        return found

    def ours(self):
        """Name of the best that we have here: both components, or the copy engine alone."""
        for name in ("ours", "ours-cma"):
            if not subjects_module.present(SUBJECTS[name], self.ompi, self.mpich):
                return name
        raise BenchError("our plugins are not there: "
                         + subjects_module.present(SUBJECTS["ours-cma"], self.ompi, self.mpich))


def budget(ctx, main=1e9, quick=1e9, full=1e9):
    """Seconds for a block by effort."""
    return {"main": main, "quick": quick, "full": full}[ctx.effort]


def lat_job(suite, name, pattern, ctx, *more, np=2, sizes=None, time_s=None):
    """A job on bench_mpi with the time per size that the effort allows."""
    time_s = time_s or (0.06 if ctx.effort != "quick" else 0.02)
    program = [pattern, "--time", str(time_s), "--rounds", "3", *more]
    if sizes:
        program += ["--sizes", sizes]
    return ProgramJob(suite, name, program, np, timeout=180.0)


def variants(ctx, settings_by_name):
    """Sides that are ours with some parameters set; none where ours is not there."""
    sides = []
    for side in [s for s in ctx.sides(["ours"]) if s.name == "ours"]:
        for name, settings in settings_by_name.items():
            args = list(side.subject.args)
            for key, value in settings.items():
                args += ["--mca", key, value]
            subject = Subject(name, f"ours, {name}", args=args, ours=side.subject.ours)
            sides.append(Side(name, subject, side.mpi))
    return sides


# --------------------------------------------------------------------------------- main

def main_suite(ctx):
    """Built-in against ours: ping-pong and hpcc. What `run` does without options."""
    sides = ctx.sides(["builtin", ctx.ours(), "builtin-nocma"])
    blocks = [Block([lat_job("main", "lat", "lat", ctx, sizes="1-64M", time_s=0.04)], sides,
                    repetitions=20, least=3, seconds=budget(ctx, 60, 60, 240))]
    if hpcc.binary():
        blocks.append(Block([hpcc.HpccJob("main", np) for np in (2, 4)], sides,
                            repetitions=10, least=2, seconds=budget(ctx, 45, 40, 300), retries=0))
    else:
        ctx.note("hpcc: not installed; apt-get install hpcc")
    return blocks


# -------------------------------------------------------------------------------- pt2pt

def pt2pt_suite(ctx):
    """Latency, bandwidth, message rate; same and rotating memory; small and huge pages; floors."""
    every = ctx.sides(ALL)
    few = ctx.sides(["builtin", "ours"])
    # Quick: every second octave, and the variants only for the two that matter most.
    lat = "0,1,8,64,256,1K,4K,16K,64K,256K,1M,4M,16M,64M" if not ctx.full else "0-64M"
    bw = "1,64,1K,8K,64K,1M,8M" if not ctx.full else "1-64M"
    many = "8,1K,64K,1M" if not ctx.full else "1-4M"
    repetitions = 10 if ctx.full else 5
    basic = [lat_job("pt2pt", "lat", "lat", ctx, "--hist", sizes=lat),
             lat_job("pt2pt", "bw", "bw", ctx, sizes=bw),
             lat_job("pt2pt", "bibw", "bibw", ctx, sizes=bw),
             lat_job("pt2pt", "rate", "rate", ctx, sizes="0,8,64,256,1K,4K")]
    more = [lat_job("pt2pt", "lat_rotate", "lat", ctx, "--rotate", "256M", sizes=lat),
            lat_job("pt2pt", "lat_huge", "lat", ctx, "--huge", sizes=lat),
            lat_job("pt2pt", "bw_huge", "bw", ctx, "--huge", sizes=bw),
            lat_job("pt2pt", "manyto1", "manyto1", ctx, np=4, sizes=many),
            lat_job("pt2pt", "1tomany", "1tomany", ctx, np=4, sizes=many)]
    onesided = [lat_job("pt2pt", p, p, ctx, sizes="8" if p == "fop" else many)
                for p in ("put", "get", "fop")]
    # Small messages beside large ones: the tail is what matters.
    beside = ProgramJob("pt2pt", "beside", ["beside", "--rounds", "1"], 2, 180.0,
                        values=lambda cells: latency_values(cells, "p99"))
    floors = []
    for way in ("line", "ring", "cma", "coop", "shm", "shm2"):
        for pages in ((), ("--huge",)):
            if pages and way in ("line", "ring"):
                continue
            program = [way, "--time", "0.06" if ctx.full else "0.02", *pages]
            name = f"floor_{way}" + ("_huge" if pages else "")
            floors.append(PlainJob("pt2pt", name, "bench_floor", program))
    return [
        Block(basic, every, repetitions, 3, budget(ctx, 120, 80, 500), retries=1),
        Block(floors, [FLOOR], 5 if ctx.full else 3, 3, budget(ctx, 30, 30, 60), retries=0),
        Block(more, every if ctx.full else few, repetitions, 3, budget(ctx, 60, 45, 400),
              retries=1),
        Block(onesided, few, repetitions, 3, budget(ctx, 20, 15, 60), retries=0),
        Block([beside], few, repetitions, 3, budget(ctx, 30, 20, 120), retries=0),
    ]


# --------------------------------------------------------------------------------- hpcc

def hpcc_suite(ctx):
    """The 2010 table: rings and ping-pong at 4 to 32 ranks, with the shared-memory ceiling."""
    ranks = (4, 8, 16, 32) if ctx.full else (4, 8)
    ceiling = [PlainJob("hpcc", "hpcc", "bench_ceiling", [str(np)], np, 120.0, plain_values)
               for np in ranks]
    blocks = [Block(ceiling, [CEILING], 5 if ctx.full else 3, 2, budget(ctx, 20, 15, 60),
                    retries=0)]
    if hpcc.binary():
        blocks.append(Block([hpcc.HpccJob("hpcc", np, timeout=300.0) for np in ranks],
                            ctx.sides(ONE_COPY), 10 if ctx.full else 3, 2,
                            budget(ctx, 100, 70, 500), retries=0))
    else:
        ctx.note("hpcc: not installed; apt-get install hpcc")
    return blocks


# ---------------------------------------------------------------------------------- imb

def imb_suite(ctx):
    """Nine patterns with IMB's conventions, by IMB-MPI1 itself where there is one."""
    ranks = (2, 4)
    sizes = "1,64,1K,8K,64K,512K,4M" if not ctx.full else "0-4M"
    path = imb.binary()
    if not path:
        ctx.note("IMB-MPI1: not on PATH and not named by IMB_MPI1; our own equivalents run")
    jobs = []
    for np in ranks:
        for name in imb.PATTERNS:
            if np > 2 and name in ("pingpong", "pingping"):
                continue
            if path:
                jobs.append(imb.ImbJob(path, name, np))
            else:
                program = [name, "--imb", "--rounds", "5" if ctx.full else "3", "--sizes",
                           sizes.replace("0-", "4-") if name == "allreduce" else sizes]
                jobs.append(ProgramJob("imb", name, program, np, 180.0, values=imb.cell_values))
    return [Block(jobs, ctx.sides(ALL if ctx.full else ["builtin", "ours", "ucx"]),
                  10 if ctx.full else 3, 3 if ctx.full else 1, budget(ctx, 90, 80, 500),
                  retries=0)]


# ---------------------------------------------------------------------------- threshold

# One mechanism for every size, against the automatic choice.
MECHANISMS = {
    "copy": {"btl_sm_single_copy_limit": str(1 << 40), "btl_sm_cooperate_limit": "0"},
    "single": {"btl_sm_eager_limit": "256", "btl_sm_single_copy_limit": "0",
               "btl_sm_cooperate_limit": "0"},
    "coop": {"btl_sm_eager_limit": "256", "btl_sm_single_copy_limit": "0",
             "btl_sm_cooperate_limit": "1"},
    "auto": {},
}


def threshold_suite(ctx):
    """Forced copy, single copy, cooperation against the automatic choice, in fine steps."""
    sizes = "256-64M/8" if ctx.full else "256-4M/4"
    job = lat_job("threshold", "lat", "lat", ctx, sizes=sizes,
                  time_s=0.03 if ctx.full else 0.01)
    return [Block([job], variants(ctx, MECHANISMS), 10 if ctx.full else 3, 3,
                  budget(ctx, 120, 60, 500), retries=0)]


# ------------------------------------------------------------------------------- chapel

CHAPEL = ["stream", "stencil", "isx", "indexgather", "indexgather_fine", "ra_onesided",
          "ra_twosided"]
# The steps of the seed (620 -> 730 -> 3875 MB/s per node), as parameters of ours.
STEPS = {
    "plain": {"btl_sm_serialize_polling": "0", "btl_sm_prefault_threads": "0"},
    "prefault": {"btl_sm_serialize_polling": "0", "btl_sm_prefault_threads": "2"},
    "serial": {"btl_sm_serialize_polling": "1", "btl_sm_prefault_threads": "0"},
    "both": {"btl_sm_serialize_polling": "1", "btl_sm_prefault_threads": "2"},
}
# osc/rdma of Open MPI 5.0.7 gives wrong results for MPI_BXOR when it may use its own atomics, with
# any transport; without them it is right.
RIGHT_SUMS = ["--mca", "osc_rdma_acc_use_amo", "0"]


def chapel_suite(ctx):
    """Five patterns with several polling threads: serialised polling and prefaulting on and off."""
    sides = ctx.sides(["builtin"]) + variants(ctx, STEPS)
    threads = max(2, len(os.sched_getaffinity(0)) // 2)
    # Two ranks of several polling threads outnumber the cores of a small machine. A thread that
    # waits must then let the others run, whatever the transport.
    idle = ["--mca", "mpi_yield_when_idle", "1"]
    jobs = []
    for name in CHAPEL:
        program = [name, "--threads", str(threads), "--passes", "10" if ctx.full else "4"]
        jobs.append(ProgramJob("chapel", name, program, 2, 180.0, "bench_chapel",
                               args=idle + (RIGHT_SUMS if name == "ra_onesided" else []),
                               values=plain_values))
    return [Block(jobs, sides, 10 if ctx.full else 3, 3 if ctx.full else 2,
                  budget(ctx, 90, 70, 400), retries=0)]


# --------------------------------------------------------------------------------- smd0

MODES = ["send", "isend", "overlap"]


def smd0_suite(ctx):
    """One producer and 1 to 16 event builders: blocking sends, non-blocking, overlapped requests."""
    builders = (1, 2, 4, 8, 16) if ctx.full else (1, 4)
    sides = ctx.sides(["builtin", "ours"])
    size = ["--file", "64M", "--rounds", "4"] if ctx.full else ["--file", "16M", "--rounds", "2"]
    jobs = [ProgramJob("smd0", mode, [mode, *size], n + 1, 180.0, "bench_smd0",
                       values=plain_values)
            for n in builders for mode in MODES]
    blocks = [Block(jobs, sides, 10 if ctx.full else 3, 3 if ctx.full else 2,
                    budget(ctx, 90, 60, 400), retries=0)]
    if ctx.full:
        huge = ["overlap", "--file", "8M", "--rounds", "1", "--batch", "1024", "--huge-every", "3"]
        blocks.append(Block([ProgramJob("smd0", "huge", huge, 2, 300.0, "bench_smd0",
                                        values=plain_values)], sides, 3, 1,
                            budget(ctx, 60, 60, 120), retries=0))
    return blocks


# --------------------------------------------------------------------------------- apps

def apps_suite(ctx):
    """Programs from packages, run to their own verification: hpcc's, LAMMPS, mpi4py, ScaLAPACK."""
    jobs = []
    if hpcc.binary():
        jobs.append(hpcc.HpccJob("apps", 2, "hpcc", n=2000 if ctx.full else 1000,
                                 metrics=hpcc.APPLICATION_METRICS))
    else:
        ctx.note("hpcc: not installed; apt-get install hpcc")
    if apps.lammps_binary():
        jobs.append(apps.LammpsJob(2, 16 if ctx.full else 10, 200 if ctx.full else 100))
    else:
        ctx.note("LAMMPS: not installed; apt-get install lammps")
    if apps.mpi4py_there():
        jobs.append(apps.RingtestJob(2, 1 << 20, 500))
    else:
        ctx.note("mpi4py: not installed; apt-get install python3-mpi4py")
    if not apps.scalapack_binary():
        ctx.note("ScaLAPACK: not installed; apt-get install scalapack-mpi-test")
    elif not apps.has_fortran(ctx.ompi):
        ctx.note("ScaLAPACK: its BLACS needs an Open MPI with Fortran support, this one has none")
    else:
        jobs.append(apps.ScalapackJob(2, 1000))
    return [Block(jobs, ctx.sides(["builtin", "builtin-nocma", "ours"]), 10 if ctx.full else 3,
                  3 if ctx.full else 2, budget(ctx, 90, 60, 300), retries=0)]


SUITES = {
    "main": main_suite,
    "pt2pt": pt2pt_suite,
    "hpcc": hpcc_suite,
    "imb": imb_suite,
    "threshold": threshold_suite,
    "chapel": chapel_suite,
    "smd0": smd0_suite,
    "apps": apps_suite,
}
# Which subject a suite's ratios refer to.
BASELINES = {"threshold": "auto"}


def baseline_of(suite):
    """The subject that ratios of a suite refer to."""
    return BASELINES.get(suite, "builtin")


def build_all(blocks):
    """Compile what the blocks need, before anything is timed."""
    for block in blocks:
        for job in block.jobs:
            for side in block.sides:
                job.prepare(side.mpi)
    os.sync()

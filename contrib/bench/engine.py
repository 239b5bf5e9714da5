# SPDX-License-Identifier: BSD-3-Clause
"""Interleaved execution: jobs x subjects x repetitions in ABBA order, every run kept.

A job knows how to run once with one side and returns a records.Run; this file knows the order,
the time left, what counts as disturbed, what is repeated and what is given up. Called by
run_ab.py and by run. Never prints.
"""

import json
import os
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import launch
import subjects as subjects_module
from records import Run, Value
from subjects import Subject

# A run in which a rank had less of its core than this, or was moved, is marked disturbed. Fixed
# beforehand, the same for all subjects; only where ranks do not outnumber cores.
LEAST_CPU_SHARE = 0.95
MOST_STEAL_SHARE = 0.01
# A block that has not done its least number of repetitions may take this much longer than planned.
LATE = 1.3


@dataclass
class Side:
    """One side of a comparison: a subject and the MPI that runs it."""
    name: str
    subject: Subject
    mpi: launch.Mpi
    check: bool = True      # hold the subject to what it promises about loaded files

    def environment(self, more=None):
        """Environment of the launcher. Programs that were linked elsewhere find this MPI's
        library through LD_LIBRARY_PATH."""
        env = {**self.mpi.env, **self.subject.env, **(more or {})}
        lib = str(Path(self.mpi.mpirun).resolve().parent.parent / "lib")
        if self.mpi.flavour == "ompi" and lib not in ("/usr/lib", "/lib"):
            env["LD_LIBRARY_PATH"] = f"{lib}:{env.get('LD_LIBRARY_PATH', '')}".rstrip(":")
        return env


def disturbed(cells, np, cores):
    """Why a run counts as disturbed, or ''. The rule is at the top of this file."""
    wall = sum(c["noise"]["wall_s"] for c in cells)
    if np > cores or wall <= 0:
        return ""
    share = sum(c["noise"]["cpu_share"] * c["noise"]["wall_s"] for c in cells) / wall
    moved = sum(max(0, c["noise"]["migrations"]) for c in cells)
    steal = sum(c["noise"]["steal_s"] for c in cells) / wall
    if moved:
        return f"{moved} migrations"
    if share < LEAST_CPU_SHARE:
        return f"a rank had its core for {share:.0%} of the time"
    if steal > MOST_STEAL_SHARE * cores:
        return f"{steal / cores:.1%} stolen by the hypervisor"
    return ""


def parse_records(text):
    """Split a program's output into (context record, list of cells). Other lines are ignored."""
    context, cells = {}, []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue  # a rank died while writing; what came before counts
            if record.get("kind") == "context":
                context = record
            elif record.get("kind") in ("cell", "value"):
                cells.append(record)
    return context, cells


def add_checksums(context):
    """Give each mapped file its checksum, in the context record."""
    paths = {p for group in context.get("files", []) for p in group["paths"]}
    context["sha256"] = {p: subjects_module.sha256(p) for p in sorted(paths)}


def latency_values(cells, stat="p50"):
    """Values of a program's cells: the time per message, everything else beside it."""
    return [Value(f"lat_ns_{stat}", "ns", c[f"lat_ns_{stat}"], c["size_bytes"],
                  {k: v for k, v in c.items() if k not in ("kind", "size_bytes")}) for c in cells]


def plain_values(cells):
    """Values of a program that names its metrics itself (records of kind "value")."""
    return [Value(c["metric"], c["unit"], c["value"], c.get("size_bytes"),
                  {k: v for k, v in c.items()
                   if k not in ("kind", "metric", "unit", "value", "size_bytes")})
            for c in cells if c["kind"] == "value" and c["value"]]


class Job:
    """Something that can be run once with a side. Subclasses implement `once`."""

    def __init__(self, suite, name, np=2, timeout=120.0):
        self.suite, self.name, self.np, self.timeout = suite, name, np, timeout

    def prepare(self, mpi):
        """Build what the job needs; raises BenchError."""

    def once(self, side, run):
        """Run and fill in run.values, run.context, run.problem."""
        raise NotImplementedError

    def run(self, side, repetition):
        """Run once. Never raises for what the ranks do; Run.problem says it."""
        run = Run(self.suite, self.name, side.name, repetition, self.np)
        start = time.monotonic()
        self.once(side, run)
        run.seconds = round(time.monotonic() - start, 3)
        if not run.problem and not run.values:
            run.problem = "no results in the output"
        if side.check and side.mpi and not run.problem:
            files = run.context.get("files")
            problems = subjects_module.check_files(side.subject, files, side.mpi.plugin_dir) \
                if files else ["the ranks did not say which files they had loaded"]
            run.problem = "; ".join(problems)
        add_checksums(run.context)
        return run


class ProgramJob(Job):
    """One of our own MPI programs, which prints JSON records."""

    def __init__(self, suite, name, program, np=2, timeout=120.0, binary="bench_mpi", args=(),
                 values=latency_values):
        super().__init__(suite, name, np, timeout)
        self.program, self.binary, self.args, self.values = program, binary, list(args), values

    def prepare(self, mpi):
        launch.build(mpi, self.binary)

    def once(self, side, run):
        command = launch.mpirun_command(
            side.mpi, self.np, [*side.subject.args, *self.args],
            [launch.build(side.mpi, self.binary), *self.program, "--json"])
        outcome = launch.launch(command, side.environment(), self.timeout)
        run.context, cells = parse_records(outcome.stdout)
        run.problem = outcome.problem()
        wrong = sorted({c.get("size_bytes") for c in cells if c.get("verified") == "wrong"})
        if wrong:
            run.problem = f"wrong bytes at sizes {wrong}"
        run.values = self.values(cells)
        if cells and "noise" in cells[0]:
            run.disturbed = disturbed(cells, self.np, run.context.get("cores", 1))


class PlainJob(Job):
    """One of our programs that know no MPI: bench_floor, bench_ceiling."""

    def __init__(self, suite, name, binary, program, np=2, timeout=120.0, values=latency_values):
        super().__init__(suite, name, np, timeout)
        self.binary, self.program, self.values = binary, program, values

    def prepare(self, mpi):
        launch.build_plain(self.binary)

    def once(self, side, run):
        outcome = launch.launch([launch.build_plain(self.binary), *self.program, "--json"],
                                dict(os.environ), self.timeout)
        run.context, cells = parse_records(outcome.stdout)
        run.problem = outcome.problem()
        run.values = self.values(cells)
        if any(c["verified"] == "wrong" for c in cells):
            run.problem = "wrong bytes"
        if cells and "noise" in cells[0]:
            run.disturbed = disturbed(cells, self.np, run.context.get("cores", 1))


class ForeignJob(Job):
    """A program that is not ours: pinned by bench_pin, its loaded files reported by bench_maps.

    Subclasses give `command(folder)` and `parse(folder, stdout)`.
    """

    def prepare(self, mpi):
        launch.build_plain("bench_pin")
        launch.build_plain("bench_maps")

    def setup(self, folder):
        """Write input files into the scratch folder."""

    def command(self, folder):
        """The program and its arguments."""
        raise NotImplementedError

    def parse(self, folder, stdout):
        """(list of Value, problem) from what the program left."""
        raise NotImplementedError

    def once(self, side, run):
        folder = Path(tempfile.mkdtemp(prefix="sm-bench-"))
        try:
            self.setup(folder)
            program = [launch.build_plain("bench_pin"), "--maps", launch.build_plain("bench_maps"),
                       *self.command(folder)]
            command = launch.mpirun_command(side.mpi, self.np, side.subject.args, program)
            outcome = launch.launch(command, side.environment({"BENCH_MAPS_DIR": str(folder)}),
                                    self.timeout, cwd=folder)
            run.problem = outcome.problem()
            run.context = {"files": read_maps(folder)}
            if not run.problem:
                run.values, run.problem = self.parse(folder, outcome.stdout)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def read_maps(folder):
    """The files written by bench_maps, grouped as in a context record."""
    groups = {}
    for path in sorted(Path(folder).glob("maps.*")):
        groups.setdefault(path.read_text(), []).append(int(path.suffix[1:]))
    return [{"ranks": sorted(ranks), "paths": text.split()} for text, ranks in groups.items()]


# ---------------------------------------------------------------------------- order and time

def order(count, repetition):
    """Order of the sides in one repetition: forwards and backwards in turn, and rotated, so that
    with more than two sides none always follows the same one."""
    sides = list(range(count))
    turn = repetition // 2 % count if count else 0
    sides = sides[turn:] + sides[:turn]
    return sides if repetition % 2 == 0 else sides[::-1]


@dataclass
class Block:
    """Jobs that share their sides and are interleaved with each other."""
    jobs: list
    sides: list
    repetitions: int = 10
    least: int = 3          # repetitions that are done even if time is short
    seconds: float = 1e9    # time after which no further repetition begins; a machine so slow
                            # that `least` takes LATE times as long is not waited for either
    retries: int = 2        # disturbed repetitions that are done again, at most


class Executor:
    """Runs blocks; keeps the state that progress and the final report need.

    With `limit` seconds for all of them, blocks that took longer than planned take it from those that
    follow, in proportion. The first repetition of each is done whatever the time.
    """

    def __init__(self, sink, progress=None, limit=None):
        self.sink, self.progress, self.limit = sink, progress, limit
        self.start = time.monotonic()
        self.ahead = []
        self.runs = []
        self.failures = {}
        self.problems = []
        self.done = 0
        self.total = 0
        self.spent = 0.0

    def plan(self, blocks):
        """Count what is to come, for the progress line."""
        self.ahead += blocks
        self.total += sum(len(b.jobs) * len(b.sides) * b.repetitions for b in blocks)

    def _seconds(self, block):
        """Time for a block: what it asks for, or its share of what is left."""
        planned = sum(b.seconds for b in self.ahead)
        if block in self.ahead:
            self.ahead.remove(block)
        if self.limit is None or planned <= 0:
            return block.seconds
        left = max(0.0, self.limit - (time.monotonic() - self.start))
        return min(block.seconds, left * block.seconds / planned)

    def _one(self, job, side, repetition):
        key = (job.suite, job.name, job.np, side.name)
        self.done += 1
        if self.failures.get(key, 0) >= 2:
            return None
        if self.progress:
            self.progress(self, f"{job.suite}/{job.name} np {job.np} {side.name}")
        run = job.run(side, repetition)
        self.spent += run.seconds
        self.failures[key] = self.failures.get(key, 0) + 1 if run.problem else 0
        if run.problem:
            self.problems.append((job, side, run.problem))
        self.runs.append(run)
        self.sink(run)
        return run

    def _repetition(self, block, repetition, jobs, stop=None):
        """All jobs once with all sides; returns the jobs of which a run was disturbed. After
        `stop` (time.monotonic) no further job begins; the sides of a job stay together."""
        again = []
        for job in jobs:
            if stop is not None and time.monotonic() > stop:
                self.done += len(block.sides)
                continue
            for index in order(len(block.sides), repetition):
                run = self._one(job, block.sides[index], repetition)
                if run and run.disturbed and job not in again:
                    again.append(job)
        return again

    def execute(self, block):
        """Run a block until its repetitions or its time are used up."""
        start = time.monotonic()
        seconds = self._seconds(block)
        again = []
        repetition = 0
        while repetition < block.repetitions:
            if repetition >= block.least and time.monotonic() - start > seconds:
                break
            late = start + LATE * seconds if repetition else None
            again += self._repetition(block, repetition, block.jobs, late)
            repetition += 1
        self.done += (block.repetitions - repetition) * len(block.jobs) * len(block.sides)
        for extra in range(block.retries):
            if not again or time.monotonic() - start > seconds:
                break
            jobs = [j for i, j in enumerate(again) if j not in again[:i]]
            self.total += len(jobs) * len(block.sides)
            again = self._repetition(block, repetition + extra, jobs)

    def left(self):
        """Seconds that the rest will take, from the mean so far."""
        return self.spent / self.done * max(0, self.total - self.done) if self.done else None

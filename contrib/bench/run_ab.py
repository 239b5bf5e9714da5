# SPDX-License-Identifier: BSD-3-Clause
"""Interleaved comparison of two or more ways to run one benchmark.

`compare` is the engine under ab, tune and the suites of run: it starts a fresh mpirun for each
repetition, takes the sides in turn (A B, B A, A B ...) so that a drift of the machine hits both,
and keeps every run, disturbed or not. `main` is the developer's command `ab`.

Layer: above launch.py and subjects.py, below everything that prints tables or draws.
"""

import argparse
import json
import re
import shlex
import sys
import time
from dataclasses import dataclass, field

import launch
import stats
import subjects as subjects_module
from launch import BenchError
from subjects import SUBJECTS, Subject

# A run in which a rank had less of its core than this, or was moved, is marked disturbed. Fixed
# beforehand, the same for all subjects; only where ranks do not outnumber cores.
LEAST_CPU_SHARE = 0.95
MOST_STEAL_SHARE = 0.01


@dataclass
class Side:
    """One side of a comparison: a subject with its own additions."""
    name: str
    subject: Subject
    mpi: launch.Mpi
    check: bool = True      # hold the subject to what it promises about loaded files


@dataclass
class Job:
    """One program to start with all sides."""
    name: str               # what the records call it, e.g. "lat"
    program: list           # pattern and options, without the binary
    np: int = 2
    timeout: float = 120.0
    binary: str = "bench_mpi"


@dataclass
class Run:
    """One launch of one side."""
    side: str
    job: str
    repetition: int
    context: dict = field(default_factory=dict)
    cells: list = field(default_factory=list)
    problem: str = ""
    disturbed: str = ""
    seconds: float = 0.0


def disturbed(cells, np, cores):
    """Why a run counts as disturbed, or ''. The rule is at the top of this file."""
    if np > cores:
        return ""
    wall = sum(c["noise"]["wall_s"] for c in cells)
    if wall <= 0:
        return ""
    share = sum(c["noise"]["cpu_share"] * c["noise"]["wall_s"] for c in cells) / wall
    moved = sum(max(0, c["noise"]["migrations"]) for c in cells)
    steal = max(c["noise"]["steal_s"] / max(c["noise"]["wall_s"], 1e-9) for c in cells) \
        if wall > 0.5 else 0.0
    if moved:
        return f"{moved} migrations"
    if share < LEAST_CPU_SHARE:
        return f"a rank had its core for {share:.0%} of the time"
    if steal > MOST_STEAL_SHARE * cores:
        return f"{steal:.1%} stolen by the hypervisor"
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
            elif record.get("kind") == "cell":
                cells.append(record)
    return context, cells


def run_once(side, job, repetition):
    """Start one side once. Never raises for what the ranks do; Run.problem says it."""
    binary = launch.build(side.mpi, job.binary)
    command = launch.mpirun_command(side.mpi, job.np, side.subject.args,
                                    [binary, *job.program, "--json"])
    outcome = launch.launch(command, {**side.mpi.env, **side.subject.env}, job.timeout)
    run = Run(side.name, job.name, repetition, seconds=outcome.seconds)
    run.context, run.cells = parse_records(outcome.stdout)
    run.problem = outcome.problem()
    if not run.problem and not run.cells:
        run.problem = "no results in the output"
    wrong = [c["size_bytes"] for c in run.cells if c["verified"] == "wrong"]
    if wrong:
        run.problem = f"wrong bytes at sizes {wrong}"
    if side.check and run.context:
        problems = subjects_module.check_files(side.subject, run.context.get("files", []),
                                               side.mpi.plugin_dir)
        if problems:
            run.problem = "; ".join(problems)
    if run.cells:
        run.disturbed = disturbed(run.cells, job.np, run.context.get("cores", 1))
    return run


def order(count, repetition):
    """Order of the sides in one repetition: forwards and backwards in turn, and rotated, so that
    with more than two sides none always follows the same one."""
    sides = list(range(count))
    turn = repetition // 2 % count
    sides = sides[turn:] + sides[:turn]
    return sides if repetition % 2 == 0 else sides[::-1]


def compare(sides, jobs, repetitions, progress=None, sink=None, deadline=None):
    """Run all jobs with all sides, interleaved. Yields nothing; returns the list of Run.

    progress(done, total, text) is called before each launch; sink(run) after each. A side that
    failed twice running is left out of the rest of that job. Past `deadline` (time.monotonic) the
    repetition in hand is completed and no further one is begun.
    """
    runs = []
    total = len(sides) * len(jobs) * repetitions
    done = 0
    failures = {}
    for repetition in range(repetitions):
        if deadline is not None and repetition > 0 and time.monotonic() > deadline:
            break
        for job in jobs:
            for index in order(len(sides), repetition):
                side = sides[index]
                done += 1
                if failures.get((side.name, job.name), 0) >= 2:
                    continue
                if progress:
                    progress(done, total, f"{job.name} {side.name}")
                run = run_once(side, job, repetition)
                key = (side.name, job.name)
                failures[key] = failures.get(key, 0) + 1 if run.problem else 0
                runs.append(run)
                if sink:
                    sink(run)
    return runs


def series(runs, job, side, size, metric, pattern=None):
    """Values of one cell over the repetitions as {repetition: value}; failed runs give none."""
    found = {}
    for run in runs:
        if run.job == job and run.side == side and not run.problem:
            for cell in run.cells:
                if cell["size_bytes"] == size and pattern in (None, cell["pattern"]):
                    found[run.repetition] = cell[metric]
    return found


def paired(runs, job, a, b, size, metric):
    """Two lists of the same length: a's and b's values of the repetitions that both have."""
    x = series(runs, job, a, size, metric)
    y = series(runs, job, b, size, metric)
    both = sorted(set(x) & set(y))
    return [x[r] for r in both], [y[r] for r in both]


def sizes_of(runs, job):
    """All message sizes that any run of a job reported, ascending."""
    return sorted({c["size_bytes"] for r in runs if r.job == job for c in r.cells})


# ------------------------------------------------------------------ the command ab

def parse_side(text, name, ompi, mpich):
    """A side from the text after --a or --b: @subject, NAME=VALUE, launcher arguments."""
    args, env, base = [], {}, None
    for token in shlex.split(text):
        if token.startswith("@"):
            base = SUBJECTS.get(token[1:])
            if base is None:
                raise BenchError(f"unknown subject {token}; there are "
                                 + ", ".join("@" + n for n in SUBJECTS))
        elif re.fullmatch(r"[A-Z][A-Z0-9_]*=.*", token, re.S) and not args:
            key, value = token.split("=", 1)
            env[key] = value
        else:
            args.append(token)
    check = base is not None
    base = base or Subject(name, text)
    if check:
        missing = subjects_module.present(base, ompi, mpich)
        if missing:
            raise BenchError(missing)
    merged = Subject(base.name, text or base.label, base.flavour, merge_mca(base.args, args),
                     {**base.env, **env}, base.ours)
    return Side(name, merged, ompi if base.flavour == "ompi" else mpich, check)


def merge_mca(first, second):
    """Launcher arguments with `--mca NAME VALUE` of the second list replacing the first's."""
    names = {second[i + 1] for i in range(len(second) - 2) if second[i] in ("--mca", "-mca")}
    kept, i = [], 0
    while i < len(first):
        if first[i] in ("--mca", "-mca") and i + 2 < len(first) and first[i + 1] in names:
            i += 3
            continue
        kept.append(first[i])
        i += 1
    return kept + list(second)


def size_text(n):
    """1536 -> '1536', 65536 -> '64K'."""
    for unit, text in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if n and n % unit == 0:
            return f"{n // unit}{text}"
    return str(n)


def us(ns):
    """Nanoseconds as microseconds with four significant digits."""
    value = ns / 1000
    return f"{value:.3f}" if value < 100 else f"{value:.1f}" if value < 10000 else f"{value:.0f}"


def table(runs, job, metric):
    """The lines of one job's result."""
    bandwidth = any("bw_MBps" in c for r in runs if r.job == job for c in r.cells)
    head = f"{'bytes':>9} {'A us':>10} {'B us':>10} {'B/A':>7} {'95% interval':>15} {'A/B':>7}"
    lines = [head + (f" {'A MB/s':>9} {'B MB/s':>9}" if bandwidth else "")]
    for size in sizes_of(runs, job):
        a, b = paired(runs, job, "A", "B", size, metric)
        if not a:
            lines.append(f"{size_text(size):>9} {'-':>10} {'-':>10}")
            continue
        ratio, low, high = stats.paired_ratio(a, b)
        mark = {"faster": " +", "slower": " -"}.get(stats.verdict(ratio, low, high), "  ")
        interval = f"{low:.3f}..{high:.3f}" if low is not None else ""
        ma, mb = stats.median(a), stats.median(b)
        line = f"{size_text(size):>9} {us(ma):>10} {us(mb):>10} {ratio:7.3f} {interval:>15} " \
               f"{1 / ratio:7.3f}{mark}"
        if bandwidth:
            factor = next(c["bw_MBps"] * c["lat_ns_p50"] for r in runs if r.job == job
                          for c in r.cells if c["size_bytes"] == size)
            line += f" {factor / ma:7.0f} {factor / mb:9.0f}"
        lines.append(line.rstrip())
    return lines


def terminal_progress(done, total, text):
    """One line on a terminal, rewritten in place; nothing otherwise."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{done}/{total} {text}")
        sys.stderr.flush()


def main(argv):
    """The command ab. Returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="ab", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Compare two sets of options on the same benchmark, interleaved (ABBA).",
        epilog="A side is a list of launcher arguments; before them NAME=VALUE sets a variable of "
               "the\nenvironment and @NAME starts from a subject:\n  "
               + "\n  ".join(f"@{s.name:<15} {s.label}" for s in SUBJECTS.values())
               + "\nexample: ab --a @builtin --b '@ours --mca btl_sm_eager_limit 8192' "
                 "--prog lat,bw --sizes 1K-64K/2")
    parser.add_argument("--a", default="@builtin", metavar="ARGS", help="default @builtin")
    parser.add_argument("--b", default="@ours", metavar="ARGS", help="default @ours")
    parser.add_argument("--prog", default="lat", help="patterns, comma-separated (default lat)")
    parser.add_argument("--sizes", help="size list, e.g. 8,1K-64M,1-4K/8,4096~1")
    parser.add_argument("--pairs", type=int, default=6, help="pairs of runs (default 6)")
    parser.add_argument("--np", type=int, default=2)
    parser.add_argument("--time", type=float, default=0.06,
                        help="timed seconds per size in one run (default 0.06)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--window", type=int)
    parser.add_argument("--rotate", help="bytes of rotating buffers")
    parser.add_argument("--huge", action="store_true", help="huge pages for the buffers")
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--stat", default="p50",
                        choices=["min", "p10", "p50", "p90", "p99", "mean"],
                        help="what of each run is compared (default p50; p10 on a busy machine)")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds per run")
    parser.add_argument("--ompi", help="Open MPI's prefix (default: what contrib/setup found)")
    parser.add_argument("--json", metavar="FILE", help="keep all runs as JSON lines")
    options = parser.parse_args(argv)
    try:
        env = launch.setup_environment(options.ompi)
        ompi = launch.find_ompi(env)
        wanted = options.a + " " + options.b
        mpich = launch.find_mpich(env) if "@mpich" in wanted else None
        sides = [parse_side(options.a, "A", ompi, mpich), parse_side(options.b, "B", ompi, mpich)]
        extra = ["--time", str(options.time), "--rounds", str(options.rounds)]
        for name in ("sizes", "window", "rotate"):
            if getattr(options, name) is not None:
                extra += [f"--{name}", str(getattr(options, name))]
        extra += ["--huge"] if options.huge else []
        extra += ["--no-verify"] if options.no_verify else []
        jobs = [Job(p, [p, *extra], options.np, options.timeout)
                for p in options.prog.split(",")]
        for side in sides:
            launch.build(side.mpi)
    except BenchError as error:
        print(f"ab: {error}", file=sys.stderr)
        return 2

    runs = []

    def sink(run):
        runs.append(run)
        if run.problem:
            print(f"\nab: {run.side} {run.job} run {run.repetition}: {run.problem}",
                  file=sys.stderr)
        if options.json:
            with open(options.json, "a", encoding="utf-8") as f:
                f.write(json.dumps(vars(run)) + "\n")

    try:
        compare(sides, jobs, options.pairs, terminal_progress, sink)
    except KeyboardInterrupt:
        print("\nab: stopped, what is there:", file=sys.stderr)
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    for side in sides:
        print(f"{side.name}: {side.subject.label}")
    for job in jobs:
        mine = [r for r in runs if r.job == job.name]
        noisy = sum(1 for r in mine if r.disturbed)
        print(f"# {job.name} np {job.np}, {len(mine)} runs ({noisy} disturbed), {options.stat}, "
              "times per message; + B is faster, - slower")
        print("\n".join(table(runs, job.name, f"lat_ns_{options.stat}")))
    return 1 if any(r.problem for r in runs) or not runs else 0

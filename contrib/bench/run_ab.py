# SPDX-License-Identifier: BSD-3-Clause
"""The developer's command `ab`: two sets of options on the same benchmark, interleaved.

Layer: on top of engine.py, which starts a fresh mpirun for each run and takes the sides in turn
(A B, B A, A B ...), so that a drift of the machine hits both. Here are only the options, the
meaning of --a and --b, and the table.
"""

import argparse
import re
import shlex
import sys

import launch
import records
import stats
import subjects as subjects_module
from engine import Block, Executor, ProgramJob, Side, latency_values
from launch import BenchError
from subjects import SUBJECTS, Subject


def subject_of(text):
    """The subject that a side starts from, or None; BenchError for an unknown one."""
    base = None
    for token in shlex.split(text):
        if token.startswith("@"):
            base = SUBJECTS.get(token[1:])
            if base is None:
                raise BenchError(f"unknown subject {token}; there are "
                                 + ", ".join("@" + n for n in SUBJECTS))
    return base


def parse_side(text, name, ompi, mpich):
    """A side from the text after --a or --b: @subject, NAME=VALUE, launcher arguments."""
    args, env, base = [], {}, subject_of(text)
    for token in shlex.split(text):
        if token.startswith("@"):
            continue
        if re.fullmatch(r"[A-Z][A-Z0-9_]*=.*", token, re.S) and not args:
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
    cells = {k: v for k, v in records.cells(runs).items() if k[1] == job and k[4] == metric}
    first = [v for r in runs if r.job == job for v in r.values]
    factor = {v.size_bytes: v.extra["bw_MBps"] * v.extra["lat_ns_p50"] for v in first
              if v.extra.get("bw_MBps")}
    head = f"{'bytes':>9} {'A us':>10} {'B us':>10} {'B/A':>7} {'95% interval':>15} {'A/B':>7}"
    lines = [head + (f"   {'A MB/s':>9} {'B MB/s':>9}" if factor else "")]
    for key in sorted(cells, key=lambda k: k[3]):
        size = key[3]
        a, b, _ = records.pairs(cells[key].get("A", {}), cells[key].get("B", {}), least=10**9)
        if not a:
            lines.append(f"{size_text(size):>9} {'-':>10} {'-':>10}")
            continue
        ratio, low, high = stats.paired_ratio(a, b)
        mark = {"faster": " +", "slower": " -"}.get(stats.verdict(ratio, low, high), "  ")
        interval = f"{low:.3f}..{high:.3f}" if low is not None else ""
        ma, mb = stats.median(a), stats.median(b)
        line = f"{size_text(size):>9} {us(ma):>10} {us(mb):>10} {ratio:7.3f} {interval:>15} " \
               f"{1 / ratio:7.3f}{mark}"
        if size in factor:
            line += f" {factor[size] / ma:9.0f} {factor[size] / mb:9.0f}"
        lines.append(line.rstrip())
    return lines


def terminal_progress(executor, text):
    """One line on a terminal, rewritten in place; nothing otherwise."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{executor.done}/{executor.total} {text}")
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
        for text in (options.a, options.b):  # before anything is built
            subject_of(text)
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
        jobs = [ProgramJob("ab", p, [p, *extra], options.np, options.timeout,
                           values=lambda cells: latency_values(cells, options.stat))
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
            print(f"\nab: {run.subject} {run.job} run {run.repetition}: {run.problem}",
                  file=sys.stderr)
        if options.json:
            with open(options.json, "a", encoding="utf-8") as f:
                f.write(run.line() + "\n")

    executor = Executor(sink, terminal_progress)
    block = Block(jobs, sides, options.pairs, options.pairs, retries=0)
    executor.plan([block])
    try:
        executor.execute(block)
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

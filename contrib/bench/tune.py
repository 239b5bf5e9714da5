# SPDX-License-Identifier: BSD-3-Clause
"""The command `tune`: where do the mechanisms of btl/sm overtake each other on this machine?

Runs the same ping-pong with each mechanism forced, interleaved, finds the crossovers and writes
them as lines for an mca-params.conf. Layer: on engine.py; the executable `tune` only calls main.
"""

import argparse
import datetime
import re
import sys
from pathlib import Path

import launch
import records
import report
import stats
import subjects as subjects_module
from engine import Block, Executor, ProgramJob, Side
from launch import BenchError
from run_ab import terminal_progress
from subjects import SUBJECTS, Subject

EVER, NEVER = str(0), str(1 << 40)
# Smallest value that btl/sm takes for the eager limit.
LEAST_EAGER = 256
# Bytes of ob1's header, which count towards the eager limit.
HEADER = 64
# mechanism -> parameters that force it from LEAST_EAGER bytes up.
FORCED = {
    "eager": {"btl_sm_eager_limit": str(8 << 20), "btl_sm_max_send_size": str(8 << 20),
              "btl_sm_single_copy_limit": NEVER, "btl_sm_cooperate_limit": EVER},
    "stream": {"btl_sm_eager_limit": str(LEAST_EAGER), "btl_sm_single_copy_limit": NEVER,
               "btl_sm_cooperate_limit": EVER},
    "single": {"btl_sm_eager_limit": str(LEAST_EAGER), "btl_sm_single_copy_limit": EVER,
               "btl_sm_cooperate_limit": EVER},
    "coop": {"btl_sm_eager_limit": str(LEAST_EAGER), "btl_sm_single_copy_limit": EVER,
             "btl_sm_cooperate_limit": "1"},
}
# cooperate_limit 0 means never, the other limits 0 mean always.


def sides_for(ompi):
    """One side per mechanism."""
    base = SUBJECTS["ours"]
    missing = subjects_module.present(base, ompi, None)
    if missing:
        raise BenchError(missing)
    sides = []
    for name, settings in FORCED.items():
        args = list(base.args)
        for key, value in settings.items():
            args += ["--mca", key, value]
        sides.append(Side(name, Subject(name, name, args=args, ours=base.ours), ompi))
    return sides


def medians(runs):
    """{mechanism: {size: median ns}}."""
    found = {}
    for key, by_subject in records.cells(runs).items():
        for subject, values in by_subject.items():
            found.setdefault(subject, {})[key[3]] = stats.median([v for v, _ in values.values()])
    return found


def limits(times):
    """Parameter values from the medians: {parameter: (value, why)}.

    A mechanism that never overtakes gets the largest size measured, so that the next one down is
    used throughout; the reason says so.
    """
    sizes = sorted({s for t in times.values() for s in t})
    result = {}
    rendezvous = {s: min(times[m][s] for m in ("stream", "single", "coop")
                         if s in times.get(m, {})) for s in sizes
                  if any(s in times.get(m, {}) for m in ("stream", "single", "coop"))}
    size = stats.crossover(sizes, times.get("eager", {}), rendezvous)
    top = sizes[-1]
    below = max((s for s in sizes if size and s < size), default=LEAST_EAGER)
    result["btl_sm_eager_limit"] = (below + HEADER if size else top + HEADER,
                                    f"rendezvous overtakes eager at {size} bytes" if size else
                                    "rendezvous never overtakes eager")
    size = stats.crossover(sizes, times.get("stream", {}), times.get("single", {}))
    result["btl_sm_single_copy_limit"] = (size or top, "single copy overtakes the stream here"
                                          if size else "single copy never overtakes the stream")
    size = stats.crossover(sizes, times.get("single", {}), times.get("coop", {}))
    result["btl_sm_cooperate_limit"] = (size or 0, "cooperation overtakes single copy here"
                                        if size else "cooperation never overtakes: off")
    return result


def lines_for(result, pairs):
    """The text for mca-params.conf."""
    cpu = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    lines = [f"# btl/sm limits measured by contrib/bench/tune on {datetime.date.today()}",
             f"# {cpu.group(1) if cpu else 'unknown CPU'}, median of {pairs} interleaved runs"]
    for name, (value, why) in result.items():
        lines += [f"# {why}", f"{name} = {value}"]
    return lines


def main(argv):
    """Entry; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="tune", description="Measure where eager, stream, single copy and cooperation overtake "
        "each other on this machine; write the limits as lines for mca-params.conf.")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each mechanism (5)")
    parser.add_argument("--sizes", default="256-4M/2", help="sizes to try (256-4M/2)")
    parser.add_argument("--pattern", default="lat", help="pattern to tune for (lat)")
    parser.add_argument("--time", type=float, default=0.02, help="timed seconds per size (0.02)")
    parser.add_argument("--output", metavar="FILE",
                        help="append the lines to FILE, e.g. ~/.openmpi/mca-params.conf")
    parser.add_argument("--ompi", metavar="DIR", help="Open MPI's prefix")
    options = parser.parse_args(argv)
    runs = []
    try:
        ompi = launch.find_ompi(launch.setup_environment(options.ompi))
        sides = sides_for(ompi)
        job = ProgramJob("tune", options.pattern,
                         [options.pattern, "--sizes", options.sizes, "--time", str(options.time)])
        job.prepare(ompi)
        executor = Executor(runs.append, terminal_progress)
        block = Block([job], sides, options.pairs, options.pairs, retries=0)
        executor.plan([block])
        executor.execute(block)
    except BenchError as error:
        print(f"tune: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ntune: interrupted, nothing is written", file=sys.stderr)
        return 130
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    for problem in sorted({f"{r.subject}: {r.problem}" for r in runs if r.problem}):
        print(f"tune: {problem}", file=sys.stderr)
    times = medians(runs)
    if set(times) != set(FORCED):
        print("tune: not all mechanisms could be measured; nothing is written", file=sys.stderr)
        return 1
    sizes = sorted({s for t in times.values() for s in t})
    body = [[report.size_text(s), *[report.number(times[m][s] / 1000) if s in times[m] else "-"
                                    for m in FORCED]] for s in sizes]
    print(report.text_table(["bytes", *[f"{m} us" for m in FORCED]], body))
    noisy = sum(1 for r in runs if r.disturbed)
    if noisy:
        print(f"{noisy} of {len(runs)} runs were disturbed; repeat on a quiet machine if the "
              "figures do not look smooth")
    lines = lines_for(limits(times), options.pairs)
    print("\n" + "\n".join(lines))
    if options.output:
        with open(Path(options.output).expanduser(), "a", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
        print(f"\nappended to {options.output}")
    return 1 if any(r.problem for r in runs) else 0

# SPDX-License-Identifier: BSD-3-Clause
"""What a measurement is on disk: one JSON line per launch, aggregates as JSON and CSV.

Called by engine.py (writing), by report.py and plot.py (reading) and by run --compare. Every suite
ends in the same record, a list of values, so that statistics, plots and comparison exist once.
The form is fixed by schema.json.
"""

import csv
import json
from dataclasses import asdict, dataclass, field

import stats

SCHEMA = "sm-bench/1"
# How a unit is read: True where a smaller value is the better one.
UNITS = {"ns": True, "us": True, "s": True, "ms": True, "MBps": False, "GBps": False,
         "msgps": False, "GUPS": False, "MHz": False, "GFLOPS": False, "count": True}


@dataclass
class Value:
    """One number that a launch produced."""
    metric: str             # with its unit in the name, e.g. "lat_ns_p50"
    unit: str               # key of UNITS
    value: float
    size_bytes: int = None  # message size, where there is one
    extra: dict = field(default_factory=dict)


@dataclass
class Run:
    """One launch of one subject: the raw record. Nothing is ever taken out of the file."""
    suite: str
    job: str
    subject: str
    repetition: int
    np: int
    values: list = field(default_factory=list)
    context: dict = field(default_factory=dict)
    problem: str = ""       # why it gives no values, "" if it does
    disturbed: str = ""     # why it is marked and repeated
    seconds: float = 0.0

    @property
    def valid(self):
        """Whether statistics may use it without reservation."""
        return not self.problem and not self.disturbed

    def line(self):
        """The run as one JSON line."""
        record = asdict(self)
        record = {"kind": "run", "valid": self.valid, **record}
        return json.dumps(record, separators=(",", ":"))

    @staticmethod
    def parse(record):
        """The inverse of line(), from the decoded object."""
        known = {k: record[k] for k in Run.__dataclass_fields__ if k in record}
        known["values"] = [Value(**v) for v in known.get("values", [])]
        return Run(**known)


def name_of(row):
    """Name of an aggregate in the manner of google/benchmark."""
    size = "" if row["size_bytes"] is None else f"/size:{row['size_bytes']}"
    return f"{row['suite']}/{row['job']}{size}/np:{row['np']}/{row['metric']}/impl:{row['subject']}"


def read(path):
    """(session context, list of Run) of a results.jsonl; a torn last line is left out."""
    session, runs = {}, []
    with open(path, encoding="utf-8") as f:
        for line in f:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            if record.get("kind") == "session":
                session = record
            elif record.get("kind") == "run":
                runs.append(Run.parse(record))
    return session, runs


def cells(runs):
    """Group values: {(suite, job, np, size, metric, unit): {subject: {repetition: (value, valid)}}}
    in the order of first appearance."""
    table = {}
    for run in runs:
        if run.problem:
            continue
        for v in run.values:
            key = (run.suite, run.job, run.np, v.size_bytes, v.metric, v.unit)
            table.setdefault(key, {}).setdefault(run.subject, {})[run.repetition] = \
                (v.value, run.valid)
    return table


def pairs(base, other, least=3):
    """Two lists of values from the repetitions that both have. Undisturbed pairs are used alone if
    there are `least` of them; otherwise all, and the third item says so (True = disturbed)."""
    both = sorted(set(base) & set(other))
    good = [r for r in both if base[r][1] and other[r][1]]
    chosen = good if len(good) >= min(least, len(both)) else both
    return ([base[r][0] for r in chosen], [other[r][0] for r in chosen],
            bool(chosen) and len(good) < len(chosen))


def aggregate(runs, baseline="builtin"):
    """Rows of the summary: per cell and subject median, MAD, interval, and the ratio to baseline.

    The ratio is subject/baseline in the metric's own direction; `verdict` knows which way is
    better. Where the baseline did not run the ratio is None.
    """
    rows = []
    for key, by_subject in cells(runs).items():
        suite, job, np, size, metric, unit = key
        for subject, values in by_subject.items():
            good = [v for v, ok in values.values() if ok]
            used = good if len(good) >= min(3, len(values)) else [v for v, _ in values.values()]
            low, high = stats.bootstrap_median(used)
            row = {"suite": suite, "job": job, "np": np, "size_bytes": size, "metric": metric,
                   "unit": unit, "subject": subject, "n": len(used), "median": stats.median(used),
                   "mad": stats.mad(used), "low": low, "high": high, "baseline": baseline,
                   "ratio": None, "ratio_low": None, "ratio_high": None, "gain": None,
                   "gain_low": None, "gain_high": None, "verdict": "unknown",
                   "disturbed": len(used) > len(good)}
            if baseline in by_subject and subject != baseline:
                a, b, row["disturbed"] = pairs(by_subject[baseline], values)
                row["ratio"], row["ratio_low"], row["ratio_high"] = stats.paired_ratio(a, b)
                row["verdict"] = stats.verdict(row["ratio"], row["ratio_low"], row["ratio_high"],
                                               less_is_better=UNITS[unit])
                add_gain(row)
            row["name"] = name_of(row)
            rows.append(row)
    return rows


def add_gain(row):
    """Turn the ratio round where less is better, so that a gain above 1 is always an improvement."""
    numbers = row["ratio"], row["ratio_low"], row["ratio_high"]
    if UNITS[row["unit"]]:
        ratio, high, low = (1 / x if x else None for x in numbers)
        numbers = ratio, low, high
    row["gain"], row["gain_low"], row["gain_high"] = numbers


COLUMNS = ["name", "suite", "job", "np", "size_bytes", "metric", "unit", "subject", "n", "median",
           "mad", "low", "high", "baseline", "ratio", "ratio_low", "ratio_high", "gain",
           "gain_low", "gain_high", "verdict", "disturbed"]


def write_csv(path, rows):
    """The aggregates, one row each, same names as in JSON."""
    with open(path, "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, COLUMNS)
        writer.writeheader()
        for row in rows:
            writer.writerow({k: "" if row[k] is None else row[k] for k in COLUMNS})


def read_csv(path):
    """The inverse of write_csv."""
    number = {"np": int, "size_bytes": int, "n": int, "median": float, "mad": float, "low": float,
              "high": float, "ratio": float, "ratio_low": float, "ratio_high": float,
              "gain": float, "gain_low": float, "gain_high": float,
              "disturbed": lambda text: text == "True"}
    with open(path, newline="", encoding="utf-8") as f:
        rows = []
        for row in csv.DictReader(f):
            rows.append({k: (None if v == "" and k in number else number.get(k, str)(v))
                         for k, v in row.items()})
        return rows


def write_json(path, session, rows):
    """The aggregates in a form that google/benchmark's tools can read."""
    marks = []
    for row in rows:
        mark = {"name": row["name"], "run_type": "aggregate", "aggregate_name": "median",
                "iterations": row["n"], "real_time": row["median"], "cpu_time": row["median"],
                "time_unit": row["unit"] if row["unit"] in ("ns", "us", "ms", "s") else "ns",
                "valid": not row["disturbed"]}
        marks.append({**mark, **{k: v for k, v in row.items() if k != "name"}})
    context = {k: v for k, v in session.items() if k != "kind"}
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"schema": SCHEMA, "context": context, "benchmarks": marks}, f, indent=1)
        f.write("\n")


def compare(first, second):
    """Compare two result sets of the same subjects: rows with the ratio second/first.

    The sets were measured at different times, so the interval is that of the ratio of two
    independent medians; it holds drift of the machine as well.
    """
    rows = []
    a, b = cells(first), cells(second)
    for key in a:
        for subject in a[key]:
            if key not in b or subject not in b[key]:
                continue
            x = [v for v, _ in a[key][subject].values()]
            y = [v for v, _ in b[key][subject].values()]
            ratio, low, high = stats.unpaired_ratio(x, y)
            suite, job, np, size, metric, unit = key
            row = {"suite": suite, "job": job, "np": np, "size_bytes": size, "metric": metric,
                   "unit": unit, "subject": subject, "n": (len(x), len(y)),
                   "median": (stats.median(x), stats.median(y)), "ratio": ratio,
                   "ratio_low": low, "ratio_high": high,
                   "verdict": stats.verdict(ratio, low, high, less_is_better=UNITS[unit])}
            row["name"] = name_of(row)
            rows.append(row)
    return rows

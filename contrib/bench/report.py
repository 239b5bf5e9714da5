# SPDX-License-Identifier: BSD-3-Clause
"""From records to what is read: tables on the terminal, summary.csv, results.json, PNG plots and
one self-contained report.html. Called by run, also for a run that was interrupted.

Layer: on records.py and plot.py. Never measures, and never leaves a losing cell out.
"""

import html

import hpcc
import plot
import records
import stats
from subjects import SUBJECTS
from suites import MECHANISMS, STEPS, baseline_of

LABELS = {**{name: s.label for name, s in SUBJECTS.items()},
          **{name: f"ours, {name}" for name in (*MECHANISMS, *STEPS)}, "floor": "without MPI",
          "ceiling": "one copy in shared memory"}


def label(subject):
    """What a subject is called in tables and legends."""
    return LABELS.get(subject, subject)


def size_text(n):
    """1536 -> '1536', 65536 -> '64K'."""
    for unit, text in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if n and n % unit == 0:
            return f"{n // unit}{text}"
    return str(n)


def number(value):
    """Four significant digits, no exponent for everyday figures."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    magnitude = abs(value)
    if magnitude >= 1000:
        return f"{value:.0f}"
    return f"{value:.4g}" if magnitude >= 1e-3 else f"{value:.2e}"


def shown(row, value):
    """A value in the unit in which it is shown: times in us."""
    if value is None:
        return "-"
    return number(value / 1000 if row["unit"] == "ns" else value)


def shown_unit(unit):
    """The unit that goes with `shown`."""
    return {"ns": "us", "MBps": "MB/s", "GBps": "GB/s", "msgps": "1/s"}.get(unit, unit)


def grouped(rows):
    """{suite: {(job, np): [row]}} in order of appearance."""
    found = {}
    for row in rows:
        found.setdefault(row["suite"], {}).setdefault((row["job"], row["np"]), []).append(row)
    return found


def subjects_in(rows):
    """Subjects of some rows in the order of the subject list, others after them."""
    present = {r["subject"] for r in rows}
    known = [s for s in LABELS if s in present]
    return known + sorted(present - set(known))


def gain_text(row):
    """'1.42x [1.39..1.46] faster', or '' without a baseline."""
    if row is None or row["gain"] is None:
        return ""
    interval = "" if row["gain_low"] is None else \
        f" [{row['gain_low']:.2f}..{row['gain_high']:.2f}]"
    mark = {"faster": " +", "slower": " -", "same": " ="}.get(row["verdict"], "")
    return f"{row['gain']:.2f}x{interval}{mark}"


def matrix(rows):
    """A job's rows as a table: (head, body). One line per size or metric; per subject the median,
    and for all but the baseline its gain with interval."""
    subjects = [s for s in subjects_in(rows)]
    base = rows[0]["baseline"]
    keys = []
    for r in rows:
        key = (r["size_bytes"], r["metric"], r["unit"])
        if key not in keys:
            keys.append(key)
    if all(k[0] is not None for k in keys):
        keys.sort()
    several = len({k[1] for k in keys}) > 1
    head = ["metric" if several or keys[0][0] is None else "bytes"]
    for s in subjects:
        head.append(label(s) + (f", {shown_unit(keys[0][2])}" if not several else ""))
        if s != base and any(r["subject"] == s and r["gain"] is not None for r in rows):
            head.append("gain")
    body = []
    for size, metric, unit in keys:
        first = metric if size is None else size_text(size)
        if several and size is not None:
            first = f"{metric} {size_text(size)}"
        elif several:
            first = f"{metric.rsplit('_', 1)[0]} ({shown_unit(unit)})"
        line = [first]
        for s in subjects:
            row = next((r for r in rows if r["subject"] == s and r["size_bytes"] == size
                        and r["metric"] == metric), None)
            line.append(shown(row, row["median"]) if row else "-")
            if f"{label(s)}" and s != base and any(r["subject"] == s and r["gain"] is not None
                                                   for r in rows):
                line.append(gain_text(row) + (" ~" if row and row["disturbed"] else ""))
        body.append(line)
    return head, body


def text_table(head, body):
    """Columns aligned for a terminal."""
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, widths)).rstrip()
                     for line in [head, *body])


LEGEND = ("gain: speed relative to the baseline, median of interleaved pairs with its 95 % bootstrap "
          "interval; + faster, - slower, = no difference shown, ~ disturbed pairs included")


def terminal(rows, runs):
    """The whole result as text."""
    lines = []
    for suite, jobs in grouped(rows).items():
        for (job, np), mine in jobs.items():
            n = max(r["n"] for r in mine)
            lines.append(f"\n== {suite}: {job}, {np} ranks, up to {n} runs each "
                         f"(baseline {label(mine[0]['baseline'])})")
            lines.append(text_table(*matrix(mine)))
        extra = suite_text(suite, rows, runs)
        if extra:
            lines.append(extra)
    marked = sum(1 for r in runs if r.disturbed)
    failed = [r for r in runs if r.problem]
    lines.append(f"\n{LEGEND}")
    lines.append(f"{len(runs)} runs, {marked} marked as disturbed, {len(failed)} failed")
    return "\n".join(lines)


# ------------------------------------------------------------------ tables in a seed's own layout

def hpcc_2010(rows):
    """The table of the 2010 post: ring and ping-pong per number of ranks, and ratios to base."""
    columns = [("nat_ring_bw_MBps", "natural ring"), ("rand_ring_bw_MBps", "random ring"),
               ("max_pingpong_bw_MBps", "max ping-pong")]
    names = [("builtin-nocma", "base"), ("builtin", "cma"), ("ours", "ours"),
             ("ours-cma", "our cma"), ("knem", "knem"), ("ceiling", "ceiling")]
    mine = {(r["np"], r["subject"], r["metric"]): r["median"] for r in rows
            if r["job"] == "hpcc"}
    head = ["ranks", "", *[f"{title} MB/s" for _, title in columns],
            *[f"{title}/base" for _, title in columns]]
    body = []
    for np in sorted({k[0] for k in mine}):
        published = hpcc.PUBLISHED_2010.get(np, {})
        for subject, name in names:
            if (np, subject, columns[0][0]) not in mine:
                continue
            line = [str(np), name]
            for metric, _ in columns:
                line.append(number(mine.get((np, subject, metric))))
            for metric, _ in columns:
                base = mine.get((np, "builtin-nocma", metric))
                value = mine.get((np, subject, metric))
                line.append(f"{value / base:.2f}" if base and value else "-")
            body.append(line)
        for name in ("base", "cma"):
            if name in published:
                figures, base = published[name], published["base"]
                body.append([str(np), f"2010 {name} (POWER6)", *map(str, figures),
                             *[f"{v / b:.2f}" for v, b in zip(figures, base)]])
    return head, body


def threshold_findings(rows):
    """Crossovers, dips and the sizes at which the automatic choice is beaten."""
    mine = [r for r in rows if r["suite"] == "threshold"]
    median = {(r["subject"], r["size_bytes"]): r["median"] for r in mine}
    sizes = sorted({r["size_bytes"] for r in mine})
    lines = []
    by_subject = {}
    for (subject, size), value in median.items():
        by_subject.setdefault(subject, {})[size] = value
    for one, other in (("copy", "single"), ("single", "coop")):
        if one in by_subject and other in by_subject:
            size = stats.crossover(sizes, by_subject[one], by_subject[other])
            lines.append(f"{other} overtakes {one} at {size_text(size)} bytes" if size else
                         f"{other} never overtakes {one} for an octave")
    for s in sizes:
        forced = [median[m, s] for m in ("copy", "single", "coop") if (m, s) in median]
        if forced and ("auto", s) in median and min(forced) / median["auto", s] < 0.95:
            lines.append(f"auto reaches {min(forced) / median['auto', s]:.2f} of the best forced "
                         f"mechanism at {size_text(s)} bytes")
    for a, b in zip(sizes, sizes[1:]):
        if ("auto", a) in median and ("auto", b) in median \
                and median["auto", b] < 0.85 * median["auto", a]:
            lines.append(f"dip: auto takes {median['auto', a] / 1000:.2f} us at {size_text(a)} but "
                         f"{median['auto', b] / 1000:.2f} us at {size_text(b)} bytes")
    return lines


def chapel_steps(rows):
    """The gain of each step, as the seed printed its own: 620 -> 730 -> 3875."""
    mine = {}
    for r in rows:
        if r["suite"] == "chapel":
            mine.setdefault((r["job"], r["metric"], r["unit"]), {})[r["subject"]] = r["median"]
    body = []
    for (_, metric, unit), value in mine.items():
        if not {"plain", "prefault", "both"} <= set(value):
            continue
        plain, prefault, both = value["plain"], value["prefault"], value["both"]
        body.append([metric.rsplit("_", 1)[0], shown_unit(unit), number(value.get("builtin")),
                     f"{number(plain)} -> {number(prefault)} -> {number(both)}",
                     f"{prefault / plain:.2f}x", f"{both / prefault:.2f}x",
                     f"{both / value['builtin']:.2f}x" if value.get("builtin") else "-"])
    return ["pattern", "", "Open MPI", "plain -> prefault -> + serialised polling", "prefault",
            "serialised", "ours/Open MPI"], body


def smd0_table(runs):
    """Per number of builders, mode and subject: MHz, total, and each task's ms and occurrences."""
    found = {}
    for run in runs:
        if run.suite == "smd0" and not run.problem:
            cell = found.setdefault((run.np - 1, run.job, run.subject), {})
            for v in run.values:
                cell.setdefault(v.metric, []).append((v.value, v.extra.get("count", 0)))
    tasks = ["GOTCHUNK", "GOTEB", "GOTREPACK", "DONEWITHEB", "GOTSTEPHIST", "GOTSTEP"]
    body = []
    for (builders, mode, subject), cell in sorted(found.items(), key=lambda item: (
            item[0][0], ["send", "isend", "overlap", "huge"].index(item[0][1]), item[0][2])):
        line = [str(builders), mode, label(subject)]
        for metric in ("events_MHz", "total_ms"):
            line.append(number(stats.median([v for v, _ in cell[metric]])) if metric in cell
                        else "-")
        for task in tasks:
            values = cell.get(f"{task}_ms")
            line.append(f"{number(stats.median([v for v, _ in values]))} ({values[0][1]})"
                        if values else "-")
        body.append(line)
    return ["builders", "mode", "", "MHz", "total ms", *[f"{t} ms (n)" for t in tasks]], body


def suite_text(suite, rows, runs):
    """What a suite adds to its tables, as text."""
    mine = [r for r in rows if r["suite"] == suite]
    if suite in ("hpcc", "main") and any(r["job"] == "hpcc" for r in mine):
        return "\nas in the 2010 measurements:\n" + text_table(*hpcc_2010(mine))
    if suite == "threshold":
        return "\n".join(threshold_findings(mine))
    if suite == "chapel":
        return "\neach step's gain:\n" + text_table(*chapel_steps(mine))
    if suite == "smd0":
        return "\nthe producer's tasks:\n" + text_table(*smd0_table(runs))
    return ""


# ------------------------------------------------------------------------------------- plots

def caption(session, rows):
    """What every plot must say about where it comes from."""
    n = max((r["n"] for r in rows), default=0)
    commit = session.get("git_commit", "")[:10] + (" (modified)" if session.get("dirty") else "")
    return f"commit {commit or 'unknown'}, {session.get('host_cpu', 'unknown CPU')}, " \
           f"n <= {n}, bands: 95 % bootstrap intervals of the median"


def draw(rows, runs, session, out):
    """Write all PNG files; returns {suite: [(title, svg)]}."""
    figures = {}
    if not plot.available():
        return figures
    floors = {}
    for r in rows:
        if r["subject"] == "floor":
            floors.setdefault(r["job"], []).append(r)
    for suite, jobs in grouped(rows).items():
        made = figures.setdefault(suite, [])
        for (job, np), mine in jobs.items():
            labels = {s: label(s) for s in subjects_in(mine)}
            text = caption(session, mine)
            stem = out / f"{suite}-{job}-np{np}"
            sized = [r for r in mine if r["size_bytes"]]
            if "floor" in labels:
                continue
            if len({r["size_bytes"] for r in sized}) > 2:
                title = f"{suite}: {job}, {np} ranks"
                beside = [(n, f) for n, f in floors.items() if suite == "pt2pt" and job in
                          ("lat", "lat_huge") and n.endswith("_huge") == (job == "lat_huge")]
                made.append((title, plot.over_size(sized, labels, title,
                                                   stem.with_suffix(".png"), text,
                                                   floors=beside)))
                if sized[0]["unit"] in ("ns", "us") and job not in ("rate",):
                    made.append((title + ", bandwidth",
                                 plot.over_size(sized, labels, title + ", size / time",
                                                out / f"{stem.name}-bw.png", text, "bw", beside)))
                if any(r["gain"] is not None for r in sized):
                    made.append((title + ", ratio",
                                 plot.ratio_over_size(sized, labels, title + ", relative speed",
                                                      out / f"{stem.name}-ratio.png", text)))
            else:
                by_unit = {}
                for r in mine:
                    if r["size_bytes"] is None:
                        by_unit.setdefault(r["unit"], {}).setdefault(r["metric"], {})[
                            r["subject"]] = (r["median"], r["low"], r["high"])
                for unit, metrics in by_unit.items():
                    title = f"{suite}: {job}, {np} ranks ({shown_unit(unit)})"
                    groups = [(m.rsplit("_", 1)[0].replace("_", "\n"), v)
                              for m, v in metrics.items()]
                    made.append((title, plot.bars(groups, labels, title, shown_unit(unit),
                                                  out / f"{stem.name}-{unit}.png", text)))
        curves = histograms(runs, suite)
        if curves:
            title = f"{suite}: latency distribution"
            made.append((title, plot.distribution(curves, title, out / f"{suite}-cdf.png",
                                                  caption(session, rows))))
    return figures


def histograms(runs, suite, sizes=(8, 4096, 1 << 20)):
    """Distribution curves of the baseline and ours at three sizes, summed over undisturbed runs."""
    found = {}
    for run in runs:
        if run.suite != suite or run.problem or run.subject not in ("builtin", "ours", "ours-cma"):
            continue
        for v in run.values:
            if v.size_bytes in sizes and "hist_ps_count" in v.extra:
                buckets = found.setdefault((v.size_bytes, run.subject), {})
                for low, n in v.extra["hist_ps_count"]:
                    buckets[low] = buckets.get(low, 0) + n
    styles = ["-", "--", ":"]
    return [(f"{label(subject)}, {size_text(size)}", subject, styles[sizes.index(size)],
             sorted(map(list, buckets.items())))
            for (size, subject), buckets in sorted(found.items())]


# -------------------------------------------------------------------------------------- HTML

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:1200px;padding:0 16px 48px;
color:#212529;background:#fff}
h1{font-size:1.6em}h2{margin-top:2em;border-bottom:1px solid #dee2e6}h3{margin-bottom:.3em}
.wide{overflow-x:auto}.figures{display:grid;gap:16px;
grid-template-columns:repeat(auto-fill,minmax(min(100%,540px),1fr))}
.figures figure{margin:0;overflow-x:auto}.figures svg{width:100%;min-width:480px;height:auto}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:2px 10px;text-align:right;white-space:nowrap;border-bottom:1px solid #f1f3f5}
th{background:#f8f9fa;position:sticky;top:0}td:first-child,th:first-child{text-align:left}
.faster{color:#2b8a3e}.slower{color:#c92a2a}.warn{background:#fff3bf;padding:8px 12px}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font-size:12px;background:#f8f9fa;padding:8px}
@media(max-width:500px){body{padding:0 8px 32px;font-size:14px}}
"""


def html_table(head, body):
    """A table that scrolls sideways in its own box."""
    lines = ["<div class=wide><table><thead><tr>",
             *[f"<th>{html.escape(h)}</th>" for h in head], "</tr></thead><tbody>"]
    for line in body:
        lines.append("<tr>")
        for cell in line:
            kind = ""
            if cell.rstrip(" ~").endswith(" +"):
                kind = " class=faster"
            elif cell.rstrip(" ~").endswith(" -"):
                kind = " class=slower"
            lines.append(f"<td{kind}>{html.escape(cell)}</td>")
        lines.append("</tr>")
    lines.append("</tbody></table></div>")
    return "".join(lines)


def write_html(path, rows, runs, session, notes, figures, interrupted=False):
    """The report: one file, no network, plots inline."""
    parts = ["<!doctype html><html lang=en><meta charset=utf-8>",
             "<meta name=viewport content='width=device-width,initial-scale=1'>",
             "<title>Benchmark report</title>", f"<style>{STYLE}</style><body>",
             "<h1>MPI between processes of one node</h1>"]
    if interrupted:
        parts.append("<p class=warn>This run was interrupted; what follows is partial.</p>")
    about = [("date", session.get("date")), ("CPU", session.get("host_cpu")),
             ("cores", session.get("cores")), ("kernel", session.get("kernel")),
             ("Open MPI", session.get("ompi_version")), ("commit", session.get("git_commit")),
             ("effort", session.get("effort"))]
    parts.append("<p>" + ", ".join(f"{k}: <b>{html.escape(str(v))}</b>" for k, v in about
                                   if v not in (None, "")) + "</p>")
    failed = [r for r in runs if r.problem]
    if failed:
        parts.append("<div class=warn><b>Failed runs</b><ul>")
        seen = []
        for r in failed:
            text = f"{r.suite}/{r.job} np {r.np}, {label(r.subject)}: {r.problem}"
            if text not in seen:
                seen.append(text)
                parts.append(f"<li>{html.escape(text)}</li>")
        parts.append("</ul></div>")
    if notes:
        parts.append("<p>Not measured:</p><ul>"
                     + "".join(f"<li>{html.escape(n)}</li>" for n in notes) + "</ul>")
    parts.append(f"<p>{html.escape(LEGEND)}.</p>")
    for suite, jobs in grouped(rows).items():
        parts.append(f"<h2>{html.escape(suite)}</h2>")
        extra = suite_html(suite, rows, runs)
        if extra:
            parts.append(extra)
        if figures.get(suite):
            parts.append("<div class=figures>")
            for title, svg in figures[suite]:
                parts.append(f"<figure aria-label='{html.escape(title)}'>{svg}</figure>")
            parts.append("</div>")
        for (job, np), mine in jobs.items():
            parts.append(f"<h3>{html.escape(job)}, {np} ranks</h3>")
            parts.append(html_table(*matrix(mine)))
    parts.append("<h2>What was measured</h2>")
    parts.append("<p>Files that the ranks had mapped, with SHA-256:</p><pre>")
    for path_text, digest in sorted(session.get("files_sha256", {}).items()):
        parts.append(html.escape(f"{digest}  {path_text}\n"))
    parts.append("</pre><p>Command lines:</p><pre>")
    for name, text in session.get("subjects", {}).items():
        parts.append(html.escape(f"{name}: {text}\n"))
    parts.append("</pre></body></html>\n")
    path.write_text("".join(parts), encoding="utf-8")


def suite_html(suite, rows, runs):
    """What a suite adds to its tables, as HTML."""
    mine = [r for r in rows if r["suite"] == suite]
    if suite in ("hpcc", "main") and any(r["job"] == "hpcc" for r in mine):
        return "<h3>As in the 2010 measurements</h3>" + html_table(*hpcc_2010(mine))
    if suite == "threshold":
        return "<ul>" + "".join(f"<li>{html.escape(t)}</li>"
                                for t in threshold_findings(mine)) + "</ul>"
    if suite == "chapel":
        return "<h3>Each step's gain</h3>" + html_table(*chapel_steps(mine))
    if suite == "smd0":
        return "<h3>The producer's tasks</h3>" + html_table(*smd0_table(runs))
    return ""


def rows_of(runs):
    """Aggregates of all suites, each against its own baseline."""
    rows = []
    for suite in dict.fromkeys(r.suite for r in runs):
        rows += records.aggregate([r for r in runs if r.suite == suite], baseline_of(suite))
    return rows


def write(out, runs, session, notes, interrupted=False):
    """Everything in the result folder except results.jsonl, which is written while measuring."""
    rows = rows_of(runs)
    records.write_csv(out / "summary.csv", rows)
    records.write_json(out / "results.json", session, rows)
    figures = draw(rows, runs, session, out)
    write_html(out / "report.html", rows, runs, session, notes, figures, interrupted)
    text = terminal(rows, runs)
    (out / "summary.txt").write_text(text + "\n", encoding="utf-8")
    return rows, text

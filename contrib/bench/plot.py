# SPDX-License-Identifier: BSD-3-Clause
"""Plots from records alone: latency, bandwidth and ratio over size, latency distribution, bars.

Called by report.py. Every figure is made once and written as PNG and as SVG text for the report.
matplotlib comes from the distribution; without it the report has tables only.
"""

import io

try:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    plt = None

COLOURS = {"builtin": "#4c6ef5", "builtin-nocma": "#91a7ff", "ours": "#d9480f",
           "ours-cma": "#e8590c", "ours-nosc": "#ffa94d", "ours-nocoop": "#f08c00",
           "ucx": "#2b8a3e", "mpich": "#862e9c", "mpich-nocma": "#cc5de8", "knem": "#495057",
           "xpmem": "#868e96", "floor": "#000000", "copy": "#1c7ed6", "single": "#2b8a3e",
           "coop": "#d9480f", "auto": "#000000", "ceiling": "#000000"}
FLOOR_STYLES = [(0, (1, 1)), (0, (4, 2)), (0, (4, 1, 1, 1)), (0, (2, 2)), (0, (6, 1)),
                (0, (1, 3))]


def available():
    """Whether figures can be drawn here."""
    return plt is not None


def size_label(n, _=None):
    """Axis label of a size in bytes."""
    n = int(n)
    for unit, text in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if n >= unit:
            return f"{n // unit}{text}"
    return str(n)


def _axes(title, ylabel):
    figure, axes = plt.subplots(figsize=(8, 4.6))
    axes.set_title(title, fontsize=11)
    axes.set_xlabel("message size (bytes)")
    axes.set_ylabel(ylabel)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(plt.FuncFormatter(size_label))
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    return figure, axes


def _finish(figure, axes, caption, path):
    """Write PNG; return the SVG text without its XML head."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, ncol=2, frameon=False)
    figure.text(0.01, 0.005, caption, fontsize=6.5, color="#555555")
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    figure.savefig(path, dpi=130)
    text = io.StringIO()
    with plt.rc_context({"svg.fonttype": "none"}):
        figure.savefig(text, format="svg")
    plt.close(figure)
    svg = text.getvalue()
    return svg[svg.index("<svg"):]


def _curve(axes, rows, label, colour, convert, style="-"):
    """One line with its interval as a band. `convert(row, value)` gives the drawn quantity."""
    rows = sorted((r for r in rows if r["size_bytes"]), key=lambda r: r["size_bytes"])
    if not rows:
        return
    x = [r["size_bytes"] for r in rows]
    axes.plot(x, [convert(r, r["median"]) for r in rows], linestyle=style, color=colour, label=label,
              linewidth=1.4, marker="." if len(rows) < 40 else None, markersize=4)
    if all(r["low"] is not None for r in rows):
        axes.fill_between(x, [convert(r, r["low"]) for r in rows],
                          [convert(r, r["high"]) for r in rows], color=colour, alpha=0.15,
                          linewidth=0)


def over_size(rows, labels, title, path, caption, kind="time", floors=()):
    """Time (log-log) or bandwidth over size for all subjects of one job."""
    figure, axes = _axes(title, "time per message (us)" if kind == "time" else "GB/s")

    def convert(row, value):
        us = value / 1000 if row["unit"] == "ns" else value
        return us if kind == "time" else row["size_bytes"] / us / 1000

    for subject, label in labels.items():
        _curve(axes, [r for r in rows if r["subject"] == subject], label,
               COLOURS.get(subject, "#888888"), convert)
    for i, (name, floor_rows) in enumerate(floors):
        _curve(axes, floor_rows, name, "#000000", convert, FLOOR_STYLES[i % len(FLOOR_STYLES)])
    axes.set_yscale("log" if kind == "time" else "linear")
    if kind != "time":
        axes.set_ylim(bottom=0)
    return _finish(figure, axes, caption, path)


def ratio_over_size(rows, labels, title, path, caption):
    """Speed relative to the baseline over size, with the line at 1 and the intervals."""
    figure, axes = _axes(title, "speed relative to the baseline (1 = same)")
    axes.axhline(1.0, color="#000000", linewidth=1)
    for subject, label in labels.items():
        mine = sorted((r for r in rows if r["subject"] == subject and r["gain"] is not None
                       and r["size_bytes"]), key=lambda r: r["size_bytes"])
        if not mine:
            continue
        x = [r["size_bytes"] for r in mine]
        colour = COLOURS.get(subject, "#888888")
        axes.plot(x, [r["gain"] for r in mine], "-", marker=".", markersize=4, linewidth=1.4,
                  color=colour, label=label)
        if all(r["gain_low"] is not None for r in mine):
            axes.fill_between(x, [r["gain_low"] for r in mine], [r["gain_high"] for r in mine],
                              color=colour, alpha=0.15, linewidth=0)
    axes.set_ylim(bottom=0)
    return _finish(figure, axes, caption, path)


def distribution(curves, title, path, caption):
    """Cumulative share of samples over latency. curves: [(label, subject, style, hist)] where
    hist is the list [[low edge in ps, count], ...] of a cell record."""
    figure, axes = plt.subplots(figsize=(8, 4.6))
    axes.set_title(title, fontsize=11)
    axes.set_xlabel("time per message (us)")
    axes.set_ylabel("share of samples")
    axes.set_xscale("log")
    axes.grid(True, color="#dddddd", linewidth=0.6)
    for label, subject, style, hist in curves:
        total = sum(n for _, n in hist)
        seen, x, y = 0, [], []
        for low, n in hist:
            x.append(max(low, 1) / 1e6)
            y.append(seen / total)
            seen += n
        x.append(x[-1] * 1.06)
        y.append(1.0)
        axes.plot(x, y, linestyle=style, color=COLOURS.get(subject, "#888888"), label=label,
                  linewidth=1.3)
    return _finish(figure, axes, caption, path)


def bars(groups, labels, title, ylabel, path, caption):
    """Grouped bars. groups: [(group name, {subject: (value, low, high)})]."""
    figure, axes = plt.subplots(figsize=(8, 4.6))
    axes.set_title(title, fontsize=11)
    axes.set_ylabel(ylabel)
    subjects = [s for s in labels if any(s in values for _, values in groups)]
    width = 0.8 / max(1, len(subjects))
    for i, subject in enumerate(subjects):
        x, y, below, above = [], [], [], []
        for g, (_, values) in enumerate(groups):
            if subject in values:
                value, low, high = values[subject]
                x.append(g + (i - (len(subjects) - 1) / 2) * width)
                y.append(value)
                below.append(max(0.0, value - low) if low is not None else 0.0)
                above.append(max(0.0, high - value) if high is not None else 0.0)
        axes.bar(x, y, width, label=labels[subject], color=COLOURS.get(subject, "#888888"),
                 yerr=[below, above], error_kw={"linewidth": 0.8})
    axes.set_xticks(range(len(groups)), [name for name, _ in groups], fontsize=8)
    axes.grid(True, axis="y", color="#dddddd", linewidth=0.6)
    return _finish(figure, axes, caption, path)

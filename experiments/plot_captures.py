#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what `snf trace info --json` says about captures.

  plot_captures.py <INFO.json >FIGURE.png

`snf trace info --plot=FIGURE.png` runs it. Four panels: the rate over time,
flowlets per flow by timeout, and the distributions of flow sizes and of the gaps
inside a flow. Each capture is a line.
"""

import io
import itertools
import json
import os
import sys

import matplotlib
from matplotlib import ticker
from matplotlib.figure import Figure

# Names of files are no formulas.
matplotlib.rcParams.update({"text.parse_math": False, "font.size": 9})

DPI = 100
WIDTH = 12.0        # inches
PANELS_HEIGHT = 7.6
TITLE_HEIGHT = 0.5
LEGEND_ROW = 0.22
STEPS = 240         # of the rate, at most

# Of Okabe and Ito: they can be told apart whatever colours one sees.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
STYLES = [{"color": colour, "linestyle": dashes}
          for dashes in ("-", "--", ":", "-.") for colour in COLOURS]

# Captures that differ more than this do not share a linear axis.
FAR_APART = 10


def engineering(unit, kilo="k", places=None):
    """A formatter of numbers with a unit: "15 KB", but 2000 s and 0.1 bit/s."""
    made = ticker.EngFormatter(unit=unit, places=places)
    made.ENG_PREFIXES = {
        exponent: kilo if exponent == 3 else prefix
        for exponent, prefix in made.ENG_PREFIXES.items()
        if exponent == 0 or (exponent < 0) == (unit == "s")}
    return made


def name_of(capture):
    name = os.path.basename(capture["file"])
    # A legend leaves out names that begin with an underscore.
    return " " * name.startswith("_") + "".join(
        c if c.isprintable() else "?" for c in name)


def plural(count, noun):
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def bins_per_step(series):
    return max(1, -(-len(series["bytes"]) // STEPS))


def rate(capture):
    """Times in s and means in bit/s, each in the middle of its step.

    A step at the end of less than half the length is left out if there are
    others.
    """
    series = capture["series"]
    bins, width = series["bytes"], series["bin_ns"]
    count = bins_per_step(series)
    times, rates = [], []
    for begin in range(0, len(bins), count):
        length = min(count * width, capture["duration_ns"] - begin * width)
        if length <= 0 or (begin > 0 and length < count * width / 2):
            continue
        times.append((begin * width + length / 2) / 1e9)
        rates.append(sum(bins[begin:begin + count]) * 8e9 / length)
    return times, rates


def distribution(quantiles, scale=1.0):
    """Values above 0 and the share of all values that are no greater."""
    if quantiles["count"] == 0:
        return [], []
    points = [(value, i / 100)
              for i, value in enumerate(quantiles["percentiles"])]
    points = sorted([*points, (quantiles["p999"], 0.999)],
                    key=lambda point: point[1])
    points = [(value * scale, share) for value, share in points if value > 0]
    return [value for value, _ in points], [share for _, share in points]


def flowlets(capture, limit):
    """Timeouts in s and flowlets per flow, by one limit in bytes."""
    points = [(each["timeout_ns"] / 1e9, each["per_flow"])
              for each in capture["flowlets"]
              if each["bytes"] == limit and each["timeout_ns"] is not None
              and each["per_flow"] is not None]
    return [timeout for timeout, _ in points], [many for _, many in points]


def limits_of(capture):
    """The limits in bytes, in order; None is no limit."""
    return list(dict.fromkeys(each["bytes"] for each in capture["flowlets"]))


def limit_text(limit):
    if limit is None:
        return "no limit"
    return f"at most {engineering('B', 'K')(limit)}"


def draw_lines(axes, lines, marker=None):
    """Draws lines of (name, (xs, ys)); says whether they have any points."""
    drawn = 0
    for (name, (xs, ys)), style in zip(lines, itertools.cycle(STYLES)):
        axes.plot(xs, ys, label=name, linewidth=1.4, markersize=4,
                  marker="o" if len(xs) == 1 else marker, **style)
        drawn += len(xs)
    axes.grid(color="#e0e0e0", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if drawn == 0:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.text(0.5, 0.5, "nothing to show", transform=axes.transAxes,
                  ha="center", va="center")
    return drawn > 0


def label(axes, title, x, y):
    axes.set_title(title, loc="left", fontweight="bold", fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def log_x(axes, formatter):
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(formatter)
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())


def draw_rates(axes, captures):
    """Over the share of each capture's time where their lengths differ much."""
    lines = [(name_of(capture), rate(capture)) for capture in captures]
    durations = [c["duration_ns"] / 1e9 for c in captures if c["duration_ns"]]
    peaks = [max(rates) for _, (_, rates) in lines if any(rates)]
    x, y = "time since the first packet (s)", "rate (bit/s)"
    if len(captures) == 1:
        series = captures[0]["series"]
        step = bins_per_step(series) * series["bin_ns"] / 1e9
        y = f"rate (bit/s), means of {engineering('s')(step)}"
    by_share = durations and max(durations) > FAR_APART * min(durations)
    if by_share:
        x = "share of the time from the first packet to the last"
        lines = [(name, ([t * 1e9 / capture["duration_ns"] for t in times],
                         rates))
                 for capture, (name, (times, rates)) in zip(captures, lines)]
    label(axes, "Rate", x, y)
    if not draw_lines(axes, lines):
        return
    if by_share:
        axes.xaxis.set_major_formatter(ticker.PercentFormatter(1))
    axes.set_xlim(left=0)
    if peaks and max(peaks) > FAR_APART * min(peaks):
        axes.set_yscale("log", nonpositive="mask")
        for line in axes.get_lines():  # a step between two of 0 is no line
            line.set(marker=".", markersize=2)
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(engineering("bit/s"))


def draw_flowlets(axes, captures):
    """Of one capture a line for each limit, of several one for each capture."""
    limits = limits_of(captures[0])
    if len(captures) == 1:
        title = "Flowlets"
        lines = [(limit_text(limit), flowlets(captures[0], limit))
                 for limit in limits]
    else:
        title = f"Flowlets, {limit_text(limits[-1])}"
        lines = [(name_of(c), flowlets(c, limits[-1])) for c in captures]
    label(axes, title, "flowlet timeout", "flowlets per flow")
    if not draw_lines(axes, lines, marker="o"):
        return
    if len(captures) == 1:
        axes.legend(title="bytes of a flowlet", frameon=False)
    log_x(axes, engineering("s"))
    axes.set_ylim(bottom=0)


def draw_distribution(axes, captures, figure, scale, formatter):
    if not draw_lines(axes, [(name_of(c), distribution(c[figure], scale))
                             for c in captures]):
        return
    log_x(axes, formatter)
    axes.yaxis.set_major_formatter(ticker.PercentFormatter(1))
    axes.set_ylim(0, 1.02)


def title_of(captures):
    first = captures[0]
    key = first["flow_key"]
    if len(captures) > 1:
        return f"{len(captures)} captures, flows by {key}"
    return (f"{name_of(first).strip()}: {plural(first['packets'], 'packet')}, "
            f"{plural(first['flows'][key], 'flow')} by {key}")


def legend_names(captures):
    if len(captures) == 1:
        return []
    duration = engineering("s", places=1)
    return [f"{name_of(c)} ({duration(c['duration_ns'] / 1e9)})"
            for c in captures]


def draw(captures):
    """The figure as the bytes of a PNG."""
    names = legend_names(captures)
    # A letter takes some 0.08 inches, a line's sample half an inch.
    columns = max(1, int((WIDTH - 1) / (
        0.6 + 0.08 * max(map(len, names), default=0))))
    head = TITLE_HEIGHT + LEGEND_ROW * -(-len(names) // columns)
    height = PANELS_HEIGHT + head
    figure = Figure(figsize=(WIDTH, height), dpi=DPI)
    figure.text(0.02, 1 - 0.3 / height, title_of(captures), fontsize=13,
                fontweight="bold")
    panels = figure.subplots(2, 2, gridspec_kw={
        "left": 0.095, "right": 0.97, "bottom": 0.6 / height,
        "top": 1 - (head + 0.3) / height, "wspace": 0.24, "hspace": 0.34})
    draw_rates(panels[0][0], captures)
    draw_flowlets(panels[0][1], captures)
    label(panels[1][0], "Flow sizes", "bytes of a flow",
          "flows of so many bytes or fewer")
    draw_distribution(panels[1][0], captures, "flow_bytes", 1.0,
                      engineering("B", "K"))
    label(panels[1][1], "Gaps between a flow's packets", "gap",
          "gaps so long or shorter")
    draw_distribution(panels[1][1], captures, "gap_ns", 1e-9,
                      engineering("s"))
    if names:
        figure.legend(panels[0][0].get_lines(), names, loc="upper left",
                      bbox_to_anchor=(0.02, 1 - (TITLE_HEIGHT - 0.05) / height),
                      ncol=columns, frameon=False, borderaxespad=0)
    png = io.BytesIO()
    figure.savefig(png, format="png")
    return png.getvalue()


if __name__ == "__main__":
    if len(sys.argv) > 1 or sys.stdout.isatty():
        sys.exit(__doc__)
    sys.stdout.buffer.write(draw(json.load(sys.stdin)["captures"]))

# SPDX-License-Identifier: Apache-2.0
"""What the charts of all scenarios share; needs matplotlib."""

import io
import math
import re
import textwrap

import matplotlib
from matplotlib.figure import Figure
from plot_captures import COLOURS, engineering  # noqa: F401, for scenarios

matplotlib.rcParams.update({"svg.hashsalt": "snf", "svg.fonttype": "none",
                            "axes.titlesize": 10, "axes.titleweight": "bold",
                            "axes.titlelocation": "left",
                            "legend.frameon": False})

# One colour and one mark an idea, in all figures.
STYLES = {
    "snf": {"color": COLOURS[0], "marker": "o"},
    "smart_flow": {"color": COLOURS[1], "marker": "s"},
    "vanilla_flow": {"color": COLOURS[2], "marker": "^"},
    "per_packet": {"color": COLOURS[4], "marker": "D"},
    "hash": {"color": COLOURS[3], "marker": "v"},
}
FOOTER_INCHES = 0.45
TOP_INCHES = 0.12


def plain(axes, grid="both"):
    axes.grid(axis=grid, color="#e0e0e0", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def drawn(report, footer: str) -> dict[str, bytes]:
    """The report's figure by the suffix of its file."""
    width, height = report.size
    height += FOOTER_INCHES + TOP_INCHES
    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    figure.get_layout_engine().set(
        rect=(0, FOOTER_INCHES / height, 1,
              1 - (FOOTER_INCHES + TOP_INCHES) / height))
    report.draw(figure)
    figure.text(0.01, 0.06 / height, textwrap.fill(footer, int(width * 16.5)),
                fontsize=6.5, color="#555555", va="bottom")
    keep_layout(figure)
    made = {}
    for suffix, metadata in (("png", {}), ("svg", {"Date": None})):
        data = io.BytesIO()
        figure.savefig(data, format=suffix, metadata=metadata)
        made[suffix] = data.getvalue()
    made["svg"] = settled(made["svg"])
    return made


def keep_layout(figure):
    """Lays the figure out once. The layout's solver repeats but for rounding,
    so places are rounded to a millionth of the figure."""
    figure.draw_without_rendering()
    figure.set_layout_engine(None)
    for part in figure.subfigs:
        part.bbox_relative.set_points(part.bbox_relative.get_points().round(6))
    for axes in figure.axes:
        place = axes.get_position(original=False)
        axes.set_position([round(side, 6) for side in place.bounds], "active")


def settled(svg: bytes) -> bytes:
    """The same picture without the digits that rounding may change. Places have
    three digits after the point, a thousandth of a 72nd of an inch. Areas, which
    matplotlib names after their exact places, are p1, p2 … as they come."""
    names = {}

    def settled_number(found) -> bytes:
        number = b"%.3f" % float(found[0])
        return number if float(number) else b"0"

    def settled_tag(found) -> bytes:
        return re.sub(rb"-?\d+\.\d{4,}(?![\de])|(?<=[\" ,])-0(?=[\" ,])",
                      settled_number, found[0])

    svg = re.sub(rb"<[^>]*>", settled_tag, svg)
    return re.sub(rb"\bp[0-9a-f]{10}\b", lambda found: names.setdefault(
        found[0], b"p%d" % (len(names) + 1)), svg)


def lines(axes, means, key_of, labels, series, column: str, is_ordered=True):
    """A line for each of `series` over `labels`: key_of(label, one) is the
    case. Without an order of the labels, marks that are not joined. Bars show
    the 95 % confidence interval over seeds; a hollow mark is a latency of which
    the packets are left out that were lost."""
    plain(axes)
    for i, one in enumerate(series):
        beside = 0 if is_ordered else 0.15 * (i - (len(series) - 1) / 2)
        keys = [key_of(label, one) for label in labels]
        known = [means.get(key, column) for key in keys]
        # To 0 at most: nothing that is drawn is below.
        halves = [means.half(key, column) for key in keys]
        below = [min(half, value) for half, value in zip(halves, known)]
        axes.errorbar(
            [k + beside for k in range(len(labels))], known, (below, halves),
            color=COLOURS[i % len(COLOURS)], marker="os^Dv<"[i % 6],
            linestyle=("-", "--", ":", "-.")[i % 4] if is_ordered else "none",
            elinewidth=1, capsize=2, label=str(one), clip_on=is_ordered)
        if column.startswith("latency"):  # hollow: not of all packets
            lost = [k for k, key in enumerate(keys) if not means.is_whole(key)]
            axes.plot([k + beside for k in lost], [known[k] for k in lost],
                      color=COLOURS[i % len(COLOURS)], marker="os^Dv<"[i % 6],
                      markerfacecolor="white", linestyle="none",
                      clip_on=is_ordered)
    axes.set_xticks(range(len(labels)), map(str, labels))


def show_unit_of(axis, unit: str):
    """Of the values of an axis."""
    if unit == "share":
        axis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    elif unit in ("s", "bit/s", "B", "packets/s"):
        axis.set_major_formatter(engineering(unit))
        axis.set_minor_formatter(lambda *_: "")


def by_traffic(figure, titles: dict):
    """Pairs of a key of `titles` and a part of the figure with that title, one
    below the other."""
    parts = figure.subfigures(len(titles), 1, squeeze=False)[:, 0]
    for part, title in zip(parts, titles.values()):
        part.suptitle(title, x=0.01, ha="left", fontsize=11)
    return zip(titles, parts)


def panels(figure, means, columns: dict[str, str], key_of, labels, series,
           x_label: str, logarithmic=(), is_ordered=True):
    """A chart of `lines` for each column, whose unit is given."""
    for axes, (column, unit) in zip(figure.subplots(1, len(columns),
                                                    squeeze=False)[0],
                                    columns.items()):
        lines(axes, means, key_of, labels, series, column, is_ordered)
        axes.set_title(column)
        axes.set_xlabel(x_label)
        values = [means.get(key_of(label, one), column)
                  for label in labels for one in series]
        if column in logarithmic and any(value > 0 for value in values):
            axes.set_yscale("log")
            low, high = axes.get_ylim()  # to whole decades, which have labels
            axes.set_ylim(10 ** math.floor(math.log10(low)),
                          10 ** math.ceil(math.log10(high)))
        else:
            axes.set_ylim(0, 1.03 * axes.get_ylim()[1])
        show_unit_of(axes.yaxis, unit)
        axes.legend(fontsize=8)


def boxes(axes, means, key_of, labels, series, x_label: str):
    """As SNF has latency in its figures: whiskers from p1 to p99, a box from p25
    to p75, a line at p50 (grid.PERCENTILES), means over seeds; above a box, †
    says that packets which were lost are left out."""
    plain(axes, "y")
    width = 0.8 / len(series)
    for i, one in enumerate(series):
        shown, lost = [], []
        for k, label in enumerate(labels):
            low, q1, middle, q3, high = (
                means.get(key_of(label, one), f"latency p{share}")
                for share in (1, 25, 50, 75, 99))
            if not math.isnan(high):
                if not means.is_whole(key_of(label, one)):
                    lost.append((k, high))
                shown.append((k, {"whislo": low, "q1": q1, "med": middle,
                                  "q3": q3, "whishi": high}))
        colour = COLOURS[i % len(COLOURS)]
        axes.bxp([box for _, box in shown],
                 [k + width * (i - (len(series) - 1) / 2) for k, _ in shown],
                 0.8 * width, showfliers=False, patch_artist=True,
                 boxprops={"facecolor": colour, "alpha": 0.6,
                           "hatch": ("", "//", "..", "xx")[i % 4]},
                 medianprops={"color": "black"}, manage_ticks=False)
        for k, high in lost:
            axes.annotate("†", (k + width * (i - (len(series) - 1) / 2), high),
                          ha="center", va="bottom")
        axes.fill_between([], [], [], color=colour, alpha=0.6, label=str(one),
                          hatch=("", "//", "..", "xx")[i % 4])
    axes.set_yscale("log")
    show_unit_of(axes.yaxis, "s")
    axes.set_xticks(range(len(labels)), map(str, labels))
    axes.set_xlabel(x_label)
    axes.set_title("latency: p1, p25, p50, p75, p99")
    axes.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 1.0),
                ncols=len(series))

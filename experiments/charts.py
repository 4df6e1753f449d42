# SPDX-License-Identifier: Apache-2.0
"""What the charts of all scenarios share; needs matplotlib."""

import io
import math
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
    made = {}
    for suffix, metadata in (("png", {}), ("svg", {"Date": None})):
        data = io.BytesIO()
        figure.savefig(data, format=suffix, metadata=metadata)
        made[suffix] = data.getvalue()
    return made


def lines(axes, means, key_of, labels, series, column: str, is_ordered=True):
    """A line for each of `series` over `labels`: key_of(label, one) is the
    case. Without an order of the labels, marks that are not joined."""
    plain(axes)
    for i, one in enumerate(series):
        beside = 0 if is_ordered else 0.15 * (i - (len(series) - 1) / 2)
        axes.plot([k + beside for k in range(len(labels))],
                  [means.get(key_of(label, one), column) for label in labels],
                  color=COLOURS[i % len(COLOURS)], marker="os^Dv<"[i % 6],
                  linestyle=("-", "--", ":", "-.")[i % 4] if is_ordered
                  else "none", label=str(one), clip_on=is_ordered)
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

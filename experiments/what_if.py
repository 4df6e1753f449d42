# SPDX-License-Identifier: Apache-2.0
"""`./snf experiment sweep`: which settings suit a capture best.

All combinations of the values that --vary gives are run; of those that keep
what --goal demands, the one with the least of what it names is recommended.
"""

import dataclasses
import json
import math
import re
import shlex

from grid import (DROPPED, HELD_P99, MOVED, PUSHED, UNITS, Axis, Grid,
                  composed, quantile)
from scenario import (Job, Lab, Means, Outcomes, Report, Table, name_of_flag)

MOST_COMBINATIONS = 1000
FIGURES = {"units": UNITS, "p50": quantile(0.5), "p90": quantile(0.9),
           "p99": quantile(0.99), "p999": quantile(0.999), "held": HELD_P99,
           "moved": MOVED, "state": PUSHED, "dropped": DROPPED}
SCALES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "%": 0.01,
          "kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9, "": 1.0}
# What a configuration has a place for, by the flag that is its default.
IN_CONFIG = {"max_units": int, "unit_capacity": json.dumps}
# Flags of snf replay that snf up, and snf run, have no use for: they are of
# captures and of virtual time.
NOT_LIVE = frozenset((
    "at", "chaos", "check", "no_check", "clock", "compare", "decisions", "explain",
    "faults", "hop_delay", "inside", "leases", "local_handover",
    "logger_delay", "loop", "no_preload", "no_recovery", "overload", "preload",
    "recovery", "speed", "state_bandwidth", "state_delay", "units_per_host",
    "usage", "warm_up"))


def axis_of(text: str) -> Axis:
    """Of "alpha=0,0.25"; ValueError if it is none."""
    match = re.fullmatch(r"(?:--)?([a-z][a-z0-9_]*)=(.+)", text)
    values = match[2].split(",") if match else []
    if not all(values) or len(set(values)) != len(values) or not values:
        raise ValueError(f"'{text}': want FLAG=VALUE,VALUE… with different "
                         "values")
    return Axis(match[1], {value: (f"--{match[1]}={value}",)
                           for value in values})


def warm(axis: Axis) -> Axis:
    """With as many units warm as there may be at most."""
    return dataclasses.replace(axis, values={
        value: (*flags, f"--warm_units={value}")
        for value, flags in axis.values.items()})


@dataclasses.dataclass(frozen=True)
class Limit:
    figure: str
    most: float
    text: str


@dataclasses.dataclass(frozen=True)
class Goal:
    """The least of a figure, within limits."""
    figure: str
    limits: tuple[Limit, ...]
    text: str

    def is_met(self, row: dict) -> bool:
        return all(known(row, limit.figure) <= limit.most
                   for limit in self.limits)


def known(row: dict, figure: str) -> float:
    value = row[FIGURES[figure].column.name]
    return math.inf if value is None else value


def figure_of(text: str) -> str:
    if text not in FIGURES:
        raise ValueError(f"'{text}' is no figure; there are "
                         + ", ".join(FIGURES))
    return text


def limit_of(text: str) -> Limit:
    match = re.fullmatch(r"\s*(\w+)\s*<=\s*([0-9.]+)\s*([^\W\d]*|%)\s*", text)
    try:
        return Limit(figure_of(match[1]), float(match[2]) * SCALES[match[3]],
                     text.strip())
    except (TypeError, KeyError) as error:
        raise ValueError(f"'{text}': want as p99<=300us") from error


def goal_of(text: str) -> Goal:
    """Of "units at p99<=300us, dropped<=0"; ValueError if it is none."""
    figure, _, limits = text.partition(" at ")
    return Goal(figure_of(figure.strip()),
                tuple(map(limit_of, limits.split(","))) if limits else (),
                text)


class Sweep:
    """A scenario that the command line describes."""

    SUMMARY = "settings of your choice, and the best of them"
    SOURCE = "your question"

    def __init__(self, axes: list[Axis], goal: Goal):
        """ValueError if there is nothing, or too much, to run."""
        names = [axis.name for axis in axes]
        if not axes or len(set(names)) != len(names):
            raise ValueError("want --vary once or more, each another flag")
        count = math.prod(len(axis.values) for axis in axes)
        if count > MOST_COMBINATIONS:
            raise ValueError(f"{count} combinations; {MOST_COMBINATIONS} is "
                             "the most")
        self.goal = goal
        # All units are warm, unless that is in question.
        if "max_units" in names and "warm_units" not in names:
            axes = [warm(axis) if axis.name == "max_units" else axis
                    for axis in axes]
        self.grid = Grid(tuple(axes), tuple(FIGURES.values()),
                         ("--no_check",) if {"max_units", "warm_units"} &
                         set(names) else ("--warm_units=64", "--no_check"),
                         capture=composed("1s", "200ms"), seeds=(1, 2, 3))
        self.ABOUT = (f"Swept: {', '.join(names)}. The goal: {goal.text}. "
                      "Units are warm at the start. A mean over seeds has to "
                      "keep the limits; the least wins, and of equals the "
                      "first.")

    def jobs(self, lab: Lab) -> list[Job]:
        return self.grid.jobs(lab)

    def ranked(self, lab: Lab, means: Means, rate: str) -> list[dict]:
        """Those that meet the goal come first."""
        rows = [dict(zip(means.names, row)) for row in means.rows
                if row[0] == rate]
        return sorted(rows, key=lambda row: (
            not self.goal.is_met(row), known(row, self.goal.figure)))

    def tell(self, lab: Lab, outcomes: Outcomes) -> Report:
        means = self.grid.means(lab, outcomes)
        columns = self.grid.columns
        best = Table("recommended", f"Recommended for: {self.goal.text}",
                     columns[:1] + columns[1:1 + len(self.grid.axes)]
                     + tuple(figure.column for figure in self.grid.figures))
        files = {}
        for rate in self.grid.traffic(lab):
            name = f"sweep_{rate}.textproto"
            files.update({name: None, f"{name}.flags": None,
                          f"{name}.up.flags": None})
            for row in self.ranked(lab, means, rate)[:1]:
                if self.goal.is_met(row):
                    best.rows.append(tuple(row[column.name]
                                           for column in best.columns))
                    files.update(self.config(lab, rate, row))
        if not best.rows:
            best.title = f"No setting meets: {self.goal.text}"
        made = self.grid.report(
            lab, outcomes, None, "Settings",
            lambda figure, each: self.draw(figure, lab, each),
            size=(9.0, 4.2))
        return dataclasses.replace(made, tables=[best, *made.tables],
                                   files=files)

    def config(self, lab: Lab, rate: str, row: dict) -> dict[str, str]:
        """A configuration, and the flags that it has no place for."""
        chosen = {axis.name: row[axis.name] for axis in self.grid.axes}
        nf = chosen.pop("nf", None) or next(
            (flag.split("=", 1)[1] for flag in lab.flags
             if name_of_flag(flag) == "--nf"), "passthrough")
        about = f"{self.goal.text}; {lab.source} at {rate}"
        lines = ["# " + " ".join(about.split()),
                 "# xargs ./snf replay CAPTURE --config=THIS < THIS.flags",
                 "# xargs ./snf up --port inside=IN --port outside=OUT "
                 "--config=THIS < THIS.up.flags",
                 'chain {', '  name: "swept"', f"  text: {json.dumps(nf)}"]
        flags = [flag for flag in (*self.grid.base, *lab.flags)
                 if name_of_flag(flag) != "--nf"
                 and name_of_flag(flag)[2:] not in chosen]
        for axis in self.grid.axes:
            if axis.name not in chosen:
                continue  # the NF
            value = chosen[axis.name]
            own, *more = axis.values[value]
            if axis.name in IN_CONFIG:
                lines.append(f"  {axis.name}: {IN_CONFIG[axis.name](value)}")
            else:
                flags.append(own)
            flags += more
        name = f"sweep_{rate}.textproto"
        live = [flag for flag in flags
                if name_of_flag(flag).removeprefix("--") not in NOT_LIVE]
        return {name: "\n".join([*lines, "}", ""]),
                f"{name}.flags": shlex.join(flags) + "\n",
                f"{name}.up.flags": shlex.join(live) + "\n"}

    def draw(self, figure, lab: Lab, means: Means):
        """Each setting by what is to be little and by the first limit."""
        from charts import COLOURS, plain, show_unit_of
        axes = figure.subplots()
        plain(axes)
        down = FIGURES[self.goal.figure].column
        limit = self.goal.limits[0] if self.goal.limits else None
        across = FIGURES[limit.figure if limit else "p99"].column
        for i, rate in enumerate(self.grid.traffic(lab)):
            for row in self.ranked(lab, means, rate):
                meets = self.goal.is_met(row)
                if None in (row[across.name], row[down.name]):
                    continue
                axes.scatter(row[across.name], row[down.name],
                             marker="os^Dv"[i % 5], s=40,
                             color=COLOURS[0] if meets else "#999999")
                axes.annotate(", ".join(str(row[axis.name])
                                        for axis in self.grid.axes),
                              (row[across.name], row[down.name]), fontsize=6,
                              xytext=(4, 3), textcoords="offset points")
        if limit:
            axes.axvline(limit.most, color="black", linestyle="--",
                         linewidth=1)
        axes.set_xlabel(across.name)
        axes.set_ylabel(down.name)
        axes.set_title("Each setting; blue meets the goal, grey does not")
        show_unit_of(axes.xaxis, across.unit)
        show_unit_of(axes.yaxis, down.unit)

# SPDX-License-Identifier: Apache-2.0
"""Replays over all combinations of settings: what most scenarios are made of.

A case is (traffic, a label of each axis, …); it is run once a seed.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Callable

from results import cell
from scenario import (OWN_RATE, Column, Findings, Job, Lab, Made, Means,
                      Missing, Outcome, Outcomes, Report, Table, dropped,
                      dropped_by_nf, known_rows, ratio)
from series import latency_quantile


@dataclasses.dataclass(frozen=True)
class Axis:
    """What is swept. A label, as it is in tables, has flags of the replay."""
    name: str
    values: dict[str | float, tuple[str, ...]]
    unit: str = ""  # of labels that are numbers


@dataclasses.dataclass(frozen=True)
class Figure:
    """What is read of a run; None if it has none."""
    column: Column
    read: Callable[[Outcome], float | None]


def quantile(share: float, is_detail: bool = False) -> Figure:
    """Of latency, in s."""
    return Figure(Column(f"latency p{100 * share:g}", "s", is_detail),
                  lambda ran: latency_quantile(ran.folder / "series", share))


P50, P75, P99 = quantile(0.5), quantile(0.75), quantile(0.99)
# What SNF's figures of latency show (charts.boxes).
PERCENTILES = (quantile(0.01, True), quantile(0.25, True), P50, P75, P99)
UNITS = Figure(Column("units"), lambda ran: ran["units_used_mean"])
DROPPED = Figure(Column("dropped", "packets"), dropped)
# Every grid has these two.
LOST = Figure(Column("lost", "share"),
              lambda ran: ratio(dropped(ran), ran["packets_in"]))
BY_NF = Figure(Column("dropped by the NF", "share"),
               lambda ran: ratio(dropped_by_nf(ran), ran["packets_in"]))
MOVED = Figure(Column("flowlets moved", "share"), lambda ran: ratio(
    ran["flowlets_moved"], ran["flowlets_movable"]))
SEAMLESS = Figure(Column("seamless", "share"), lambda ran: ratio(
    ran["flowlets_seamless"], ran["flowlets_moved"]))
# Flowlets that could not go on when they came, as their state was elsewhere.
WAITED = Figure(Column("waited for state", "share"), lambda ran: ratio(
    ran["flowlets_moved"] - ran["flowlets_seamless"],
    ran["flowlets_movable"]))
HELD_P50 = Figure(Column("held p50", "s"),
                  lambda ran: ran["wait_ns.p50"] / 1e9)
HELD_P99 = Figure(Column("held p99", "s"),
                  lambda ran: ran["wait_ns.p99"] / 1e9)
PUSHED = Figure(Column("state pushed", "bit/s"),
                lambda ran: ran["replication_bps"])
CHANCES = Figure(Column("flowlets a flow"),
                 lambda ran: ratio(ran["flowlets"], ran["flows"]))


def composed(whole: str, quick: str):
    """Traffic of a rate, for so long (Lab.composed)."""
    return lambda lab, rate, seed: lab.composed(rate, lab.choose(whole, quick),
                                                seed)


def nf_text(nf: str) -> str:
    """An NF of that name. ids has the rules that are beside this."""
    rules = pathlib.Path(__file__).with_name("ids.rules")
    return f"{nf}:rules={rules}" if nf == "ids" else nf


def nf_flag(nf: str) -> str:
    return f"--nf={nf_text(nf)}"


def rises(before: float, after: float) -> bool:
    """By more than chance would make it."""
    return after > 1.05 * before


def falls(before: float, after: float) -> bool:
    return rises(after, before)


@dataclasses.dataclass(frozen=True)
class Grid:
    axes: tuple[Axis, ...]
    figures: tuple[Figure, ...]
    base: tuple[str, ...]  # flags of all runs
    rates: tuple[str, ...] = ("1Gbps",)  # or names of other traffic
    takes_rates: bool = True  # of the command line
    capture: Callable[[Lab, str, int], Made] = composed("1s", "200ms")
    seeds: tuple[int, ...] = (1, 2, 3)
    keep: Callable[..., bool] = lambda *case: True  # of all combinations

    def traffic(self, lab: Lab) -> tuple[str, ...]:
        return (self.takes_rates and lab.rates) or self.rates

    def cases(self, lab: Lab) -> list[tuple]:
        """Without seeds."""
        labels = [axis.values for axis in self.axes]
        return [case for case in itertools.product(self.traffic(lab), *labels)
                if self.keep(*case)]

    def runs(self, lab: Lab) -> list[tuple]:
        """(case, seed)."""
        return [(case, seed) for case in self.cases(lab)
                for seed in ((1,) if case[0] == OWN_RATE else
                             lab.choose(self.seeds, (1,)))]

    def job(self, lab: Lab, case: tuple, seed: int) -> Job:
        flags = [flag for axis, label in zip(self.axes, case[1:])
                 for flag in axis.values[label]]
        words = [cell(label, axis.unit)
                 for axis, label in zip(self.axes, case[1:])]
        return lab.replay(", ".join([*words, case[0], f"seed {seed}"]),
                          self.capture(lab, case[0], seed), *self.base, *flags,
                          series=True)

    def jobs(self, lab: Lab) -> list[Job]:
        return [self.job(lab, *run) for run in self.runs(lab)]

    @property
    def all_figures(self) -> tuple[Figure, ...]:
        return (*self.figures, LOST, BY_NF)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("traffic"),
                *(Column(axis.name, axis.unit) for axis in self.axes),
                Column("seed", is_detail=True),
                *(figure.column for figure in self.all_figures))

    def rows(self, lab: Lab, outcomes: Outcomes) -> list[tuple]:
        def row(case, seed):
            ran = outcomes[self.job(lab, case, seed)]
            return (*case, seed, *(figure.read(ran)
                                   for figure in self.all_figures))
        return known_rows((row, run) for run in self.runs(lab))

    def means(self, lab: Lab, outcomes: Outcomes) -> Means:
        return Means(self.columns, self.rows(lab, outcomes),
                     1 + len(self.axes))

    def report(self, lab: Lab, outcomes: Outcomes,
               findings: Findings | None, title: str, draw,
               size=(10.0, 4.6), more=()) -> Report:
        """`draw` is called with a figure and the means."""
        means = self.means(lab, outcomes)

        def draw_known(figure):
            if not means.rows:
                raise Missing("no run to draw")
            draw(figure, means)

        return Report(
            tables=[*([findings.table] if findings else []),
                    means.table("", f"{title}, means over seeds"), *more],
            series=[Table("runs", "", self.columns, self.rows(lab, outcomes))],
            draw=draw_known, size=size)

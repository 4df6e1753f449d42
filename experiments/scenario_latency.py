# SPDX-License-Identifier: Apache-2.0
"""Latency of packets by what is placed: flowlets, or flows."""

from grid import DROPPED, P50, P75, P99, UNITS, Axis, Grid, composed
from results import cell
from scenario import (Findings, Job, Lab, Means, Outcomes, Report, holds,
                      verdict)

SUMMARY = "latency of a NAT by flowlets and by flows"
SOURCE = "SNF Fig. 3"
ABOUT = """
Swept: who is placed (flowlets by snf; flows by smart_flow, decided anew every
100 or 50 ms; flows by vanilla_flow, for good), the signal that is taken as a
unit's load, and how many packets may wait at a unit: 1024, or as many as there
are. Units of 1 Gbit/s, all warm at the start. Of each mode the signal counts
that loses least, and then has the lowest p75. SNF finds the 75th percentile
19.6 K times as long by vanilla flows, 4.6 K and 2.9 K times as long by smart
flows.
"""

MODES = {
    "snf": ("--policy=snf",),
    "smart_flow 50 ms": ("--policy=smart_flow", "--reassign_period=50ms"),
    "smart_flow 100 ms": ("--policy=smart_flow", "--reassign_period=100ms"),
    "vanilla_flow": ("--policy=vanilla_flow",),
}
SIGNALS = ("wait", "demand", "drained")
ALL = "all"
QUEUES = {1024: (), ALL: ("--unit_queue=1000000", "--hold_queue=1000000")}
GRID = Grid(
    axes=(Axis("mode", MODES),
          Axis("load signal", {signal: (f"--load_signal={signal}",)
                               for signal in SIGNALS}),
          Axis("queue", QUEUES)),
    figures=(UNITS, P50, P75, P99, DROPPED),
    base=("--nf=nat", "--warm_units=64", "--unit_capacity=1Gbps",
          "--no_check"),
    rates=("2Gbps",), capture=composed("1s", "200ms"))
PAPER = {"vanilla_flow": 19_600, "smart_flow 100 ms": 4_600,
         "smart_flow 50 ms": 2_900}


def jobs(lab: Lab) -> list[Job]:
    return GRID.jobs(lab)


def best(means: Means, rate: str, mode: str, queue) -> dict:
    return min((means[rate, mode, signal, queue] for signal in SIGNALS),
               key=lambda each: (each["dropped"] > 0, each["latency p75"]))


def times_worse(means: Means, rate: str, mode: str, queue):
    theirs = best(means, rate, mode, queue)["latency p75"]
    ours = best(means, rate, "snf", queue)["latency p75"]
    return theirs / ours, (
        f"{theirs / ours:.1f}×: {cell(theirs, 's')} on "
        f"{best(means, rate, mode, queue)['units']:.2f} units against "
        f"{cell(ours, 's')} on "
        f"{best(means, rate, 'snf', queue)['units']:.2f}")


def why_not_as_much(means: Means, rate: str, mode: str):
    """By the drained rate, a mode by flow does not see what waits."""
    blind = means[rate, mode, "drained", ALL]
    ours = best(means, rate, "snf", ALL)["latency p75"]
    return (f"the baseline's best signal counts what waits at a unit, so flows "
            f"go elsewhere in time; with the drained rate as its load, and "
            f"endless queues, its p75 is {cell(blind['latency p75'], 's')} on "
            f"{blind['units']:.2f} units: {blind['latency p75'] / ours:,.0f}×")


def quantile_of_snf(means: Means, rate: str, column: str, paper: float):
    ours = best(means, rate, "snf", 1024)[column]
    return cell(ours, "s"), verdict(ours, paper, "lower")


def why_median(means: Means, rate: str) -> str:
    found = {signal: means[rate, "snf", signal, 1024] for signal in SIGNALS}
    return "by load signal: " + ", ".join(
        f"{signal} {cell(each['latency p50'], 's')} on "
        f"{each['units']:.2f} units"
        for signal, each in found.items()) + (
        "; here a packet's own time at its unit counts, 11.5 µs for 1434 B at "
        "1 Gbit/s, which is more than 5 µs")


def findings(lab: Lab, means: Means) -> Findings:
    found = Findings("What came out, beside what SNF found")
    for rate in GRID.traffic(lab):
        for mode, paper in PAPER.items():
            for queue in QUEUES:
                found.add(
                    f"p75 of {mode} against snf, {rate}, queue {queue}",
                    f"{paper:,}× (Fig. 3)", "worse by orders of magnitude",
                    lambda r=rate, m=mode, q=queue: (
                        times_worse(means, r, m, q)[1],
                        holds(times_worse(means, r, m, q)[0] >= 100)),
                    lambda r=rate, m=mode: why_not_as_much(means, r, m))
        found.add(f"median of snf, {rate}", "5 µs", "5 µs",
                  lambda r=rate: quantile_of_snf(means, r, "latency p50",
                                                 5e-6),
                  lambda r=rate: why_median(means, r))
        found.add(f"p99 of snf, {rate}", "2.8 ms", "2.8 ms or less",
                  lambda r=rate: quantile_of_snf(means, r, "latency p99",
                                                 2.8e-3))
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    means = GRID.means(lab, outcomes)
    return GRID.report(lab, outcomes, findings(lab, means),
                       "Modes, load signals and queues",
                       lambda figure, each: draw(figure, lab, each),
                       size=(10.5, 4.6))


def draw(figure, lab: Lab, means: Means):
    from charts import panels
    rate = GRID.traffic(lab)[0]
    panels(figure, means,
           {"latency p50": "s", "latency p75": "s", "latency p99": "s"},
           lambda mode, signal: (rate, mode, signal, ALL),
           tuple(MODES), SIGNALS, f"{rate}, by load signal, endless queue",
           ("latency p50", "latency p75", "latency p99"))
    for axes in figure.axes:
        axes.set_xticks(range(len(MODES)),
                        [mode.replace(" ", "\n", 1) for mode in MODES],
                        fontsize=7)

# SPDX-License-Identifier: Apache-2.0
"""Latency of packets by what is placed: flowlets, or flows."""

from grid import DROPPED, PERCENTILES, UNITS, Axis, Grid, composed
from results import cell
from scenario import (LIKE_PAPER, Findings, Job, Lab, Means, Outcomes, Report,
                      holds, verdict)

SUMMARY = "latency of a NAT by flowlets and by flows"
SOURCE = "SNF Fig. 3"
ABOUT = """
Swept: the traffic (captures overlaid, and snf trace synth --preset=snf_199k,
with the figures of the trace of SNF's authors), who is placed (flowlets by snf;
flows by smart_flow, decided anew every 100 or 50 ms; flows by vanilla_flow, for
good), and the signal that is taken as a unit's load; drained is the paper's.
Units of 1 Gbit/s, all warm at the start, and endless queues, so that no latency
is hidden by a loss. Of each mode the signal with the lowest p75 counts. SNF
finds the 75th percentile 19.6 K times as long by vanilla flows, 4.6 K and 2.9 K
times as long by smart flows.
"""

MODES = {
    "snf": ("--policy=snf",),
    "smart_flow 50 ms": ("--policy=smart_flow", "--reassign_period=50ms"),
    "smart_flow 100 ms": ("--policy=smart_flow", "--reassign_period=100ms"),
    "vanilla_flow": ("--policy=vanilla_flow",),
}
SIGNALS = ("wait", "demand", "drained")
GRID = Grid(
    axes=(Axis("mode", MODES),
          Axis("load signal", {signal: (f"--load_signal={signal}",)
                               for signal in SIGNALS})),
    figures=(UNITS, *PERCENTILES, DROPPED),
    base=("--nf=nat", "--warm_units=64", "--unit_capacity=1Gbps",
          "--unit_queue=1000000", "--hold_queue=1000000", "--no_check"),
    rates=("2Gbps", "2Gbps" + LIKE_PAPER), capture=composed("1s", "200ms"))
PAPER = {"vanilla_flow": 19_600, "smart_flow 100 ms": 4_600,
         "smart_flow 50 ms": 2_900}


def jobs(lab: Lab) -> list[Job]:
    return GRID.jobs(lab)


def best(means: Means, rate: str, mode: str) -> dict:
    return min((means[rate, mode, signal] for signal in SIGNALS),
               key=lambda each: each["latency p75"])


def times_worse(means: Means, rate: str, mode: str):
    theirs, ours = best(means, rate, mode), best(means, rate, "snf")
    times = theirs["latency p75"] / ours["latency p75"]
    return times, (f"{times:,.1f}×: {cell(theirs['latency p75'], 's')} on "
                   f"{theirs['units']:.2f} units by {theirs['load signal']} "
                   f"against {cell(ours['latency p75'], 's')} on "
                   f"{ours['units']:.2f} by {ours['load signal']}; p99 "
                   f"{cell(theirs['latency p99'], 's')} against "
                   f"{cell(ours['latency p99'], 's')}")


def why_not_as_much(means: Means, rate: str, mode: str) -> str:
    """What a mode by flow owes to signals that see what waits."""
    ours = best(means, rate, "snf")["latency p75"]
    by_signal = ", ".join(
        f"{signal} {cell(means[rate, mode, signal]['latency p75'], 's')} "
        f"against {cell(means[rate, 'snf', signal]['latency p75'], 's')}"
        for signal in SIGNALS)
    blind = means[rate, mode, "drained"]["latency p75"]
    return (f"with wait and demand, which count what waits at a unit, flows go "
            f"elsewhere in time; the paper's load is what was drained. p75 by "
            f"the same signal: {by_signal}. Flows by drained against snf's "
            f"best: {blind / ours:,.0f}×")


def quantile_of_snf(means: Means, rate: str, column: str, paper: float):
    ours = best(means, rate, "snf")[column]
    return cell(ours, "s"), verdict(ours, paper, "lower")


def why_median(means: Means, rate: str) -> str:
    found = {signal: means[rate, "snf", signal] for signal in SIGNALS}
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
            found.add(
                f"p75 of {mode} against snf, {rate}",
                f"{paper:,}× (Fig. 3)", "worse by orders of magnitude",
                lambda r=rate, m=mode: (
                    times_worse(means, r, m)[1],
                    holds(times_worse(means, r, m)[0] >= 100)),
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
                       "Modes and load signals",
                       lambda figure, each: draw(figure, lab, each),
                       size=(9.0, 4.0 * len(GRID.traffic(lab))))


def draw(figure, lab: Lab, means: Means):
    from charts import boxes, by_traffic
    for rate, part in by_traffic(figure, {
            rate: rate for rate in GRID.traffic(lab)}):
        axes = part.subplots()
        boxes(axes, means,
              lambda mode, signal, rate=rate: (rate, mode, signal),
              tuple(MODES), SIGNALS, "by load signal")

# SPDX-License-Identifier: Apache-2.0
"""How often there is a chance to place anew, by the flowlet timeout."""

import dataclasses

from grid import (CHANCES, DROPPED, MOVED, P99, SEAMLESS, UNITS, Axis, Figure,
                  Grid)
from scenario import (LIKE_PAPER, Column, Findings, Job, Lab, Made, Means,
                      Outcomes, Report, ratio, verdict)

SUMMARY = "the flowlet timeout against chances to place anew"
SOURCE = "SNF §9.6"
ABOUT = """
Swept: the flowlet timeout T, on the captures overlaid to 1 Gbit/s and on
traffic with the figures of the paper's trace (199 K connections; snf trace
synth --preset=snf_199k). A NAT on warm units of 1 Gbit/s, flowlets of at most
15 KB. SNF finds 5.18 times (T = 100 µs) and 4.66 times (500 µs) as many chances
as by flow.
"""

PAPER = {"100us": 5.18, "500us": 4.66}
TIMEOUTS = ("50us", "100us", "500us", "1ms", "5ms", "50ms")
COMPOSED, SYNTHETIC = "captures", "like the paper's"


def traffic(lab: Lab, label: str, seed: int) -> Made:
    duration = lab.choose("1s", "300ms")
    if label == COMPOSED:
        return lab.composed("1Gbps", duration, seed)
    return lab.composed("1Gbps" + LIKE_PAPER, duration, seed)


BY_GAP = Figure(Column("of these by a gap", "share"), lambda ran: ratio(
    ran["flowlets_by.gap"], ran["flowlets"]))
BY_BYTES = Figure(Column("by bytes", "share"), lambda ran: ratio(
    ran["flowlets_by.bytes"], ran["flowlets"]))
GRID = Grid(
    axes=(Axis("T", {t: (f"--flowlet_timeout={t}",) for t in TIMEOUTS}),),
    figures=(CHANCES, BY_GAP, BY_BYTES, MOVED, SEAMLESS, UNITS, P99, DROPPED),
    # The hold is the same for all T.
    base=("--nf=nat", "--warm_units=64", "--unit_capacity=1Gbps",
          "--unit_idle_timeout=100ms", "--no_check"),
    rates=(COMPOSED, SYNTHETIC), takes_rates=False, capture=traffic)

# The rate of the paper's traffic is not told: how chances go with it.
BY_RATE = dataclasses.replace(
    GRID, axes=(Axis("T", {t: (f"--flowlet_timeout={t}",) for t in PAPER}),),
    rates=tuple(f"{rate}{LIKE_PAPER}" for rate in ("1Gbps", "5Gbps")),
    capture=lambda lab, rate, seed: lab.composed(
        rate, lab.choose("1s", "300ms"), seed), seeds=(1,))


def jobs(lab: Lab) -> list[Job]:
    return [*GRID.jobs(lab), *BY_RATE.jobs(lab)]


def has_chances(means: Means, label: str, timeout: str):
    ours = means[label, timeout]["flowlets a flow"]
    return f"{ours:.2f}×", verdict(ours, PAPER[timeout], "higher")


def why(means: Means, by_rate: Means, label: str, timeout: str) -> str:
    found = means[label, timeout]
    faster = ", ".join(
        f"{rate} {by_rate[rate, timeout]['flowlets a flow']:.2f}×"
        for rate in BY_RATE.rates)
    return (f"{100 * found['of these by a gap']:.0f} % of flowlets began after "
            f"a gap, {100 * found['by bytes']:.0f} % because the last was "
            f"full: gaps decide, and the paper tells the sizes of its trace, "
            f"but no gaps, so those of this traffic are a guess; by T it is "
            + ", ".join(f"{t} {means[label, t]['flowlets a flow']:.2f}×"
                        for t in TIMEOUTS)
            + "; on the other traffic " + ", ".join(
                f"{means[other, timeout]['flowlets a flow']:.2f}×"
                for other in GRID.rates if other != label)
            + f"; by the rate, which the paper does not tell, {faster}")


def findings(means: Means, by_rate: Means) -> Findings:
    found = Findings("What came out, beside what SNF found")
    for label in GRID.rates:
        for timeout, paper in PAPER.items():
            found.add(f"chances to assign, T = {timeout}, {label}",
                      f"{paper}× (§9.6)", f"{paper}×",
                      lambda k=label, t=timeout: has_chances(means, k, t),
                      lambda k=label, t=timeout: why(means, by_rate, k, t))
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    found = findings(GRID.means(lab, outcomes), BY_RATE.means(lab, outcomes))
    return GRID.report(lab, outcomes, found, "Timeouts",
                       lambda figure, each: draw(figure, each),
                       size=(10.0, 4.0))


def draw(figure, means: Means):
    from charts import panels
    panels(figure, means, {"flowlets a flow": "", "seamless": "share"},
           lambda timeout, label: (label, timeout), TIMEOUTS, GRID.rates,
           "flowlet timeout")

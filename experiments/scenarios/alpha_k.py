# SPDX-License-Identifier: Apache-2.0
"""What replicas and the preference for units that have them do."""

import dataclasses

from grid import (DROPPED, HELD_P99, MOVED, P50, P99, PUSHED, SEAMLESS, UNITS,
                  WAITED, Axis, Figure, Grid, composed, rises)
from results import cell
from scenario import (LIKE_PAPER, Column, Findings, Job, Lab, Means, Outcomes,
                      Report, holds)

SUMMARY = "alpha and the number of replicas against latency and units"
SOURCE = "SNF Fig. 6"
ABOUT = """
Swept: the traffic (captures overlaid, and snf trace synth --preset=snf_199k,
with the figures of the trace of SNF's authors), alpha (0 packs by utilisation
alone, 1 prefers units that have the state most), the number K of replicas, the
load signal (demand, which is nearest to the paper's and which findings are
about, or wait, which is snf's), and whether flowlets end by 15 KB too. At most
15 units of 500 Mbit/s, all warm, a NAT; replicas are drawn as in the paper
(--replica_choice=weighted), and to pull a state takes 120 µs, as reactive mode
has it there. Held is how long a flowlet that moved waited for its state, which
is what alpha and K act on; latency has the queue besides. SNF finds for K = 3
that latency falls from 107 to 6.8 µs as alpha goes from 0 to 0.75, and for
large alpha that it rises from 6.8 to 15.2 µs as K goes from 3 to 9; alpha costs
some units.
"""

ALPHAS, KS = (0, 0.25, 0.5, 0.75, 1), (1, 3, 6, 9)
CUT, UNCUT = "and size", "alone"
STARTS = Figure(Column("starts"),
                lambda ran: ran["starts_cold"] + ran["starts_warm"])
GRID = Grid(
    axes=(Axis("alpha", {alpha: (f"--alpha={alpha}",) for alpha in ALPHAS}),
          Axis("K", {k: (f"--replicas={k}",) for k in KS}),
          Axis("load signal", {signal: (f"--load_signal={signal}",)
                               for signal in ("demand", "wait")}),
          Axis("end by timeout", {CUT: (), UNCUT: ("--flowlet_bytes=1GB",)})),
    figures=(UNITS, P50, P99, MOVED, SEAMLESS, WAITED, HELD_P99, PUSHED,
             DROPPED),
    base=("--nf=nat", "--max_units=15", "--warm_units=15",
          "--unit_capacity=500Mbps", "--replica_choice=weighted",
          "--state_delay=60us", "--no_check"),
    rates=("2Gbps", "2Gbps" + LIKE_PAPER), capture=composed("500ms", "200ms"),
    seeds=(1, 2),
    # The corners that findings are about.
    keep=lambda rate, alpha, k, signal, end: end == CUT or
    (signal == "demand" and alpha in (0, 0.75) and k in (3, 9)))

# Units that are kept for longer, for what alpha costs in units.
KEPT = dataclasses.replace(
    GRID, axes=(Axis("alpha", {alpha: (f"--alpha={alpha}",)
                               for alpha in (0, 0.75)}),
                Axis("kept idle", {time: (f"--unit_idle_timeout={time}",)
                                   for time in ("1ms", "3ms", "100ms")})),
    figures=(UNITS, STARTS), keep=lambda *case: True,
    base=(*GRID.base, "--replicas=3", "--load_signal=demand"))


def jobs(lab: Lab) -> list[Job]:
    return [*GRID.jobs(lab), *KEPT.jobs(lab)]


def halves(before: float, after: float) -> bool:
    return after <= before / 2


def change(means: Means, column: str, unit: str, begin: tuple, end: tuple):
    before, after = means[begin][column], means[end][column]
    return before, after, (f"{cell(before, unit)} → {cell(after, unit)}")


def findings(lab: Lab, means: Means, kept: Means) -> Findings:
    found = Findings("What came out, beside what SNF found")
    for rate in GRID.traffic(lab):
        add_findings(found, means, kept, rate)
    return found


def add_findings(found: Findings, means: Means, kept: Means, rate: str):
    low, high, many = (rate, 0, 3), (rate, 0.75, 3), (rate, 0.75, 9)

    def between(column, unit, begin, end, of=CUT):
        return change(means, column, unit, (*begin, "demand", of),
                      (*end, "demand", of))

    def add(what, source, expected, column, unit, ends, is_so, why):
        def finding():
            before, after, text = between(column, unit, *ends)
            return text, holds(is_so(before, after))
        found.add(f"{what}, {rate}", source, expected, finding, why)

    def cuts():
        return ("what is cut from a burst by 15 KB and moves waits until the "
                "part before it is done, and no state can be pushed ahead of "
                "it: held p99 " + between("held p99", "s", low, high)[2]
                + ", and where flowlets end by timeout alone "
                + between("held p99", "s", low, high, UNCUT)[2]
                + ", seamless "
                + between("seamless", "share", low, high, UNCUT)[2]
                + ". The rest of latency is queues, which alpha does not act "
                "on: p99, where flowlets end by timeout alone, "
                + between("latency p99", "s", low, high, UNCUT)[2])

    def units():
        by_time = []
        for time in KEPT.axes[1].values:
            before, after = kept[rate, 0, time], kept[rate, 0.75, time]
            by_time.append(f"{before['units']:.2f} → {after['units']:.2f} "
                           f"units, {before['starts']:.0f} → "
                           f"{after['starts']:.0f} starts with {time}")
        return ("flowlets stay where their state is (moved "
                + between("flowlets moved", "share", low, high)[2]
                + "), but that is at units that run: to prefer one starts "
                "none, and it is not how long units are kept idle: "
                + ", ".join(by_time))

    def pushed():
        return ("pushes cost bandwidth, not time of units, in this model: "
                + between("state pushed", "bit/s", high, many)[2]
                + "; more replicas find more flowlets seamless: "
                + between("seamless", "share", high, many)[2]
                + "; with flowlets that end by timeout alone "
                + between("seamless", "share", high, many, UNCUT)[2])

    add("latency p99, K = 3, alpha 0 → 0.75", "107 → 6.8 µs",
        "falls to a half or less", "latency p99", "s", (low, high), halves,
        cuts)
    add("flowlets that waited for state, K = 3, alpha 0 → 0.75",
        "state pulls dominate at small alpha", "falls to a half or less",
        "waited for state", "share", (low, high), halves, cuts)
    add("seamless of those moved, K = 3, alpha 0 → 0.75", "more", "rises",
        "seamless", "share", (low, high), rises, cuts)
    add("units, K = 3, alpha 0 → 0.75", "some more", "rises", "units", "units",
        (low, high), rises, units)
    add("latency p99, alpha = 0.75, K 3 → 9", "6.8 → 15.2 µs", "rises",
        "latency p99", "s", (high, many), rises, pushed)


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    means = GRID.means(lab, outcomes)
    found = findings(lab, means, KEPT.means(lab, outcomes))
    return GRID.report(lab, outcomes, found, "Alpha, K and load signals",
                       lambda figure, each: draw(figure, lab, each),
                       size=(13.0, 4.0 * len(GRID.traffic(lab))))


def draw(figure, lab: Lab, means: Means):
    from charts import by_traffic, panels
    for rate, part in by_traffic(figure, {
            rate: f"{rate}, load by demand" for rate in GRID.traffic(lab)}):
        panels(part, means, {"waited for state": "share", "latency p99": "s",
                             "units": "", "seamless": "share"},
               lambda alpha, k, rate=rate: (rate, alpha, int(k[4:]), "demand",
                                            CUT),
               ALPHAS, [f"K = {k}" for k in KS], "alpha")

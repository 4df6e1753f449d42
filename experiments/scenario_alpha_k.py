# SPDX-License-Identifier: Apache-2.0
"""What replicas and the preference for units that have them do."""

from grid import (DROPPED, HELD_P99, MOVED, P50, P99, PUSHED, SEAMLESS, UNITS,
                  Axis, Grid, composed, rises)
from results import cell
from scenario import Findings, Job, Lab, Means, Outcomes, Report, holds

SUMMARY = "alpha and the number of replicas against latency and units"
SOURCE = "SNF Fig. 6"
ABOUT = """
Swept: alpha (0 packs by utilisation alone, 1 prefers units that have the state
most), the number K of replicas, and the load signal: demand, which is nearest
to the paper's, or wait, which is snf's. At most 15 units of 500 Mbit/s, all
warm, a NAT; replicas are drawn as in the paper (--replica_choice=weighted).
Held is how long a flowlet that moved waited for its state, which is what alpha
and K act on; latency has the queue besides. SNF finds for K = 3 that latency
falls from 107 to 6.8 µs as alpha goes from 0 to 0.75, and for large alpha that
it rises from 6.8 to 15.2 µs as K goes from 3 to 9; alpha costs some units.
"""

ALPHAS, KS = (0, 0.25, 0.5, 0.75, 1), (1, 3, 6, 9)
GRID = Grid(
    axes=(Axis("alpha", {alpha: (f"--alpha={alpha}",) for alpha in ALPHAS}),
          Axis("K", {k: (f"--replicas={k}",) for k in KS}),
          Axis("load signal", {signal: (f"--load_signal={signal}",)
                               for signal in ("demand", "wait")})),
    figures=(UNITS, P50, P99, MOVED, SEAMLESS, HELD_P99, PUSHED, DROPPED),
    base=("--nf=nat", "--max_units=15", "--warm_units=15",
          "--unit_capacity=500Mbps", "--replica_choice=weighted",
          "--no_check"),
    rates=("2Gbps",), capture=composed("500ms", "200ms"), seeds=(1, 2))


def jobs(lab: Lab) -> list[Job]:
    return GRID.jobs(lab)


def halves(before: float, after: float) -> bool:
    return after <= before / 2


def change(means: Means, column: str, unit: str, begin: tuple, end: tuple):
    before, after = means[begin][column], means[end][column]
    return before, after, (f"{cell(before, unit)} → {cell(after, unit)}")


def findings(lab: Lab, means: Means) -> Findings:
    found = Findings("What came out, beside what SNF found")
    for rate in GRID.traffic(lab):
        for signal in ("demand", "wait"):
            add_findings(found, means, rate, signal)
    return found


def add_findings(found: Findings, means: Means, rate: str, signal: str):
    low, high = (rate, 0, 3, signal), (rate, 0.75, 3, signal)
    many = (rate, 0.75, 9, signal)

    def add(what, source, expected, column, unit, ends, is_so, why=None):
        def finding():
            before, after, text = change(means, column, unit, *ends)
            return text, holds(is_so(before, after))
        found.add(f"{what}, {rate}, by {signal}", source, expected, finding,
                  why)

    def moved():
        return ("flowlets moved: " + change(
            means, "flowlets moved", "share", low, high)[2] + "; held, of "
            "those that moved: " + change(means, "held p99", "s", low,
                                          high)[2])

    def pushed():
        return ("pushes cost bandwidth, not time of units, in this model: "
                + change(means, "state pushed", "bit/s", high, many)[2]
                + "; more replicas find more flowlets seamless: "
                + change(means, "seamless", "share", high, many)[2])

    add("latency p99, K = 3, alpha 0 → 0.75", "107 → 6.8 µs",
        "falls to a half or less", "latency p99", "s", (low, high), halves,
        moved)
    add("held p99, K = 3, alpha 0 → 0.75", "state pulls dominate at small "
        "alpha", "falls to a half or less", "held p99", "s", (low, high),
        halves, moved)
    add("seamless of those moved, K = 3, alpha 0 → 0.75", "more", "rises",
        "seamless", "share", (low, high), rises, moved)
    add("units, K = 3, alpha 0 → 0.75", "some more", "rises", "units", "units",
        (low, high), rises, moved)
    add("latency p99, alpha = 0.75, K 3 → 9", "6.8 → 15.2 µs", "rises",
        "latency p99", "s", (high, many), rises, pushed)


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    means = GRID.means(lab, outcomes)
    return GRID.report(lab, outcomes, findings(lab, means),
                       "Alpha, K and load signals",
                       lambda figure, each: draw(figure, lab, each),
                       size=(13.0, 4.2))


def draw(figure, lab: Lab, means: Means):
    from charts import panels
    rate = GRID.traffic(lab)[0]
    panels(figure, means, {"held p99": "s", "latency p99": "s",
                           "units": "", "seamless": "share"},
           lambda alpha, k: (rate, alpha, int(k[4:]), "demand"),
           ALPHAS, [f"K = {k}" for k in KS],
           f"alpha, {rate}, load by demand")
    figure.axes[2].set_title("units")

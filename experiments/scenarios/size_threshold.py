# SPDX-License-Identifier: Apache-2.0
"""The size at which a flowlet ends."""

from grid import (CHANCES, DROPPED, HELD_P99, MOVED, P50, P99, UNITS, Axis,
                  Grid, composed, falls, rises)
from results import cell
from scenario import Findings, Job, Lab, Means, Outcomes, Report, holds

SUMMARY = "the size threshold of flowlets against latency and units"
SOURCE = "SNF Fig. 7"
ABOUT = """
Swept: the bytes B after which a flowlet ends, and the load signal: demand,
which is nearest to the paper's, or wait, which is snf's. A NAT on warm units of
1 Gbit/s. SNF finds that larger flowlets lower latency, as state is pulled less
often, and take more units, as they pack worse.
"""

SIZES = {"4 KB": "4KB", "8 KB": "8KB", "15 KB": "15KB", "30 KB": "30KB",
         "60 KB": "60KB", "240 KB": "240KB"}
SIGNALS = ("demand", "wait")
GRID = Grid(
    axes=(Axis("B", {name: (f"--flowlet_bytes={size}",)
                     for name, size in SIZES.items()}),
          Axis("load signal", {signal: (f"--load_signal={signal}",)
                               for signal in SIGNALS})),
    figures=(UNITS, P50, P99, CHANCES, MOVED, HELD_P99, DROPPED),
    base=("--nf=nat", "--warm_units=64", "--unit_capacity=1Gbps",
          "--no_check"),
    rates=("2Gbps",), capture=composed("500ms", "200ms"))


def jobs(lab: Lab) -> list[Job]:
    return GRID.jobs(lab)


def trend(means: Means, rate: str, signal: str, column: str, unit: str):
    """The first and the last, and all in words."""
    values = [means[rate, size, signal][column] for size in SIZES]
    return values, ", ".join(f"{size} {cell(value, unit)}"
                             for size, value in zip(SIZES, values))


def findings(lab: Lab, means: Means) -> Findings:
    found = Findings("What came out, beside what SNF found")
    for rate in GRID.traffic(lab):
        for signal in SIGNALS:
            def finding(column, unit, is_so, r=rate, s=signal):
                values, text = trend(means, r, s, column, unit)
                return text, holds(is_so(values[0], values[-1]))

            def why(r=rate, s=signal):
                if s == "wait":
                    return ("placement by wait holds p99 near its target of "
                            "350 µs, or where flows' own bursts keep it, "
                            "whatever B is; what B changes is units: " + trend(
                                means, r, s, "units", "units")[1])
                return ("flowlets moved: " + trend(
                    means, r, s, "flowlets moved", "share")[1]
                    + "; held p99: " + trend(means, r, s, "held p99", "s")[1]
                    + "; units: " + trend(means, r, s, "units", "units")[1])
            found.add(f"latency p50 by B, {rate}, by {signal}",
                      "falls as B rises (Fig. 7a)", "falls",
                      lambda f=finding: f("latency p50", "s", falls), why)
            found.add(f"latency p99 by B, {rate}, by {signal}",
                      "falls as B rises (Fig. 7a)", "falls",
                      lambda f=finding: f("latency p99", "s", falls), why)
            found.add(f"units by B, {rate}, by {signal}",
                      "rise with B (Fig. 7b)", "rise",
                      lambda f=finding: f("units", "units", rises), why)
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    means = GRID.means(lab, outcomes)
    return GRID.report(lab, outcomes, findings(lab, means),
                       "Size thresholds and load signals",
                       lambda figure, each: draw(figure, lab, each),
                       size=(11.0, 4.0))


def draw(figure, lab: Lab, means: Means):
    from charts import panels
    rate = GRID.traffic(lab)[0]
    panels(figure, means, {"latency p99": "s", "units": "",
                           "flowlets moved": "share"},
           lambda size, signal: (rate, size, signal),
           tuple(SIZES), SIGNALS, f"B, {rate}, by load signal")
    figure.axes[1].set_title("units")

# SPDX-License-Identifier: Apache-2.0
"""Placing each packet against placing flowlets."""

from grid import (CHANCES, DROPPED, HELD_P99, MOVED, P50, P99, UNITS, Axis,
                  Figure, Grid, composed)
from results import cell
from scenario import Column, Findings, Job, Lab, Means, Outcomes, Report, holds

SUMMARY = "placing packets against placing flowlets, warm and cold"
SOURCE = "NFoS Fig. 3"
ABOUT = """
Swept: what is placed (flowlets; single packets on the unit that has room, which
is --policy=per_packet; or each packet on the next unit, --policy=rotate, as a
platform would that starts a function for each) and how units start: all 64
warm, or one warm and others cold, 100 ms each. A NAT on units of 1 Gbit/s.
NFoS finds latencies of seconds and tens of instances per packet, against tens
of ms and a few instances per flowlet, over the input rate. It starts what it
needs, so latencies are compared where units start cold; the tables have both.
"""

POLICIES = ("snf", "per_packet", "rotate")
STARTS = {"warm": ("--warm_units=64",),
          "cold": ("--warm_units=1", "--unit_start_delay=100ms")}
MOST = Figure(Column("most", "units"), lambda ran: ran["units_used_max"])
GRID = Grid(
    axes=(Axis("policy", {policy: (f"--policy={policy}",)
                          for policy in POLICIES}),
          Axis("start", STARTS)),
    figures=(UNITS, MOST, P50, P99, CHANCES, MOVED, HELD_P99, DROPPED),
    base=("--nf=nat", "--unit_capacity=1Gbps", "--no_check"),
    rates=("500Mbps", "1Gbps", "2Gbps"), capture=composed("500ms", "200ms"))


def jobs(lab: Lab) -> list[Job]:
    return GRID.jobs(lab)


def compared(means: Means, rate: str, start: str, column: str, unit: str,
             policy: str, times: float):
    theirs = means[rate, policy, start][column]
    ours = means[rate, "snf", start][column]
    text = f"{policy} {cell(theirs, unit)}, snf {cell(ours, unit)}"
    return text, holds(theirs >= times * ours)


def why(means: Means, rate: str, start: str, policy: str) -> str:
    words = []
    for each in ("snf", policy):
        found = means[rate, each, start]
        words.append(f"{each}: held p99 {cell(found['held p99'], 's')}, at "
                     f"most {cell(found['most'], 'units')} units, mean "
                     f"{found['units']:.2f}, "
                     f"{cell(found['dropped'], 'packets')} dropped")
    return "; ".join(words)


def findings(lab: Lab, means: Means) -> Findings:
    found = Findings("What came out, beside what NFoS found")
    for rate in GRID.traffic(lab):
        for start, column, unit, source, times in (
                ("cold", "latency p99", "s",
                 "seconds per packet, tens of ms per flowlet, means", 10),
                ("cold", "units", "units",
                 "tens of instances per packet, a few per flowlet", 5),
                ("warm", "units", "units",
                 "tens of instances per packet, a few per flowlet", 5)):
            found.add(f"{column} of rotate, {rate}, {start}", source,
                      f"at least {times}× that of flowlets",
                      lambda r=rate, s=start, c=column, u=unit, t=times:
                      compared(means, r, s, c, u, "rotate", t),
                      lambda r=rate, s=start: why(means, r, s, "rotate"))
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    means = GRID.means(lab, outcomes)
    return GRID.report(lab, outcomes, findings(lab, means),
                       "Policies and starts",
                       lambda figure, each: draw(figure, lab, each),
                       size=(10.0, 8.0))


def draw(figure, lab: Lab, means: Means):
    from charts import by_traffic, panels
    for start, part in by_traffic(figure, {
            start: f"Units start {start}" for start in STARTS}):
        panels(part, means, {"latency p99": "s", "units": ""},
               lambda rate, policy, start=start: (rate, policy, start),
               GRID.traffic(lab), POLICIES, "traffic", ("latency p99",))

# SPDX-License-Identifier: Apache-2.0
"""Latency while half of a unit's flows move to a second one."""

from grid import (DROPPED, HELD_P50, HELD_P99, P50, P99, SEAMLESS, UNITS, Axis,
                  Figure, Grid, quantile)
from results import cell
from scenario import (Column, Findings, Job, Lab, Made, Means, Out, Outcomes,
                      Report, holds, ratio, verdict)

SUMMARY = "latency while half of 1,000 flows move to a new unit"
SOURCE = "Serpens Fig. 14"
ABOUT = """
Swept: the load signal with its latency target, and how state gets to the new
unit; and, beside runs in which the load rises, runs in which it stays. A
firewall has 1,000 flows of 1 Mpps on a unit of 1.25 Mpps, and a second unit is
warm. After 100 ms the flows send 1.43 Mpps, which one unit cannot serve, so
that some of them have to move; latency is that of the 30 ms from then on, over
all packets. With demand, flows move as soon as their unit is full; with wait,
only as packets would wait longer than the target. Gaps between packets are
longer than the time-out, so each packet is a flowlet that may move. Serpens
finds 60 to 63 µs while half of the flows move; by SNF 460 to 550 µs, CHC 1.16
to 1.39 ms, S6 1.63 to 1.82 ms and OpenNF 138 to 151 ms.
"""

STEADY, RISING = "1 Mpps", "1 to 1.43 Mpps"
PAPER, PAPER_SNF = 63e-6, 460e-6
SIGNALS = {"demand": ("--load_signal=demand",),
           "wait ≤ 50us": ("--latency_target=50us",),
           "wait ≤ 350us": ()}
STATES = {"proactive": (), "reactive": ("--state=reactive",),
          "external": ("--state=external",)}
FLOWS = 1000
LONGEST = quantile(1.0)
FLOWS_MOVED = Figure(Column("moves a flow"),
                     lambda ran: ratio(ran["flowlets_moved"], FLOWS))


def capture(lab: Lab, traffic: str, seed: int) -> Made:
    then = 1000 if traffic == STEADY else 700
    return Made(Job(f"1,000 flows, {traffic}, seed {seed}", "steady_flows.py",
                    (Out("", "capture.pcap"), f"--flows={FLOWS}", "--gap=1000",
                     f"--then={then}", "--at=100", "--duration=130",
                     "--bytes=200", f"--seed={seed}")), "capture.pcap")


GRID = Grid(
    axes=(Axis("load signal", SIGNALS), Axis("state", STATES)),
    figures=(UNITS, P50, P99, LONGEST, FLOWS_MOVED, SEAMLESS, HELD_P50,
             HELD_P99, DROPPED),
    base=("--nf=firewall", "--unit_packets=1.25Mpps", "--unit_capacity=10Gbps",
          "--warm_units=2", "--max_units=2", "--warm_up=100ms", "--no_check"),
    rates=(STEADY, RISING), takes_rates=False, capture=capture,
    keep=lambda traffic, signal, state:
        state != "external" or signal == "demand")


def jobs(lab: Lab) -> list[Job]:
    return GRID.jobs(lab)


def while_moving(means: Means, signal: str, state: str, paper: float):
    found = means[RISING, signal, state]
    before = means[STEADY, signal, state]
    ours = found["latency p99"]
    return (f"p99 {cell(ours, 's')}, longest "
            f"{cell(found['latency p100'], 's')}; "
            f"{cell(before['latency p99'], 's')} where the load stays; "
            f"{found['moves a flow']:.2f} moves a flow",
            verdict(ours, paper, "lower"))


def why(means: Means, signal: str) -> str:
    found = means[RISING, signal, "proactive"]
    return (f"packets wait in the queue of the unit that is full until it is "
            f"relieved: that is what the target lets them (p50 "
            f"{cell(found['latency p50'], 's')}); the move itself held packets "
            f"for {cell(found['held p99'], 's')} (p99). With demand: "
            f"{cell(means[RISING, 'demand', 'proactive']['latency p99'], 's')}")


def held(means: Means):
    values = [means[RISING, signal, "reactive"]["held p99"]
              for signal in SIGNALS]
    return (", ".join(f"{signal} {cell(value, 's')}"
                      for signal, value in zip(SIGNALS, values)),
            verdict(max(values), PAPER, "lower"))


def store_is_worse(means: Means):
    ours = means[RISING, "demand", "proactive"]["latency p99"]
    store = means[RISING, "demand", "external"]["latency p99"]
    return (f"{cell(store, 's')} by a store, {cell(ours, 's')} pushed ahead; "
            f"{means[RISING, 'demand', 'external']['dropped']:,.0f} packets "
            "dropped by a store", holds(store >= 10 * ours))


def findings(means: Means) -> Findings:
    found = Findings("What came out, beside what Serpens found")
    for signal in SIGNALS:
        found.add(f"latency while flows move, {signal}, state proactive",
                  "60–63 µs (Fig. 14)", "63 µs or less",
                  lambda s=signal: while_moving(means, s, "proactive", PAPER),
                  lambda s=signal: why(means, s))
        found.add(f"the same against Serpens' own figure of SNF, {signal}",
                  "460–550 µs (Fig. 14)", "460 µs or less",
                  lambda s=signal: while_moving(means, s, "proactive",
                                                PAPER_SNF))
    found.add("what a move holds a packet for, p99, state reactive",
              "60–63 µs (Fig. 14)", "63 µs or less", lambda: held(means))
    found.add("state through a store while flows move",
              "CHC 1.16–1.39 ms, S6 1.63–1.82 ms, OpenNF 138–151 ms (Fig. 14)",
              "at least ten times as long", lambda: store_is_worse(means))
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    means = GRID.means(lab, outcomes)
    return GRID.report(lab, outcomes, findings(means),
                       "Load signals and ways of state",
                       lambda figure, each: draw(figure, each),
                       size=(10.0, 4.2))


def draw(figure, means: Means):
    from charts import COLOURS, panels
    panels(figure, means, {"latency p50": "s", "latency p99": "s"},
           lambda signal, state: (RISING, signal, state), tuple(SIGNALS),
           tuple(STATES), "load signal", ("latency p50", "latency p99"),
           is_ordered=False)
    for axes in figure.axes:
        axes.axhline(PAPER, color="black", linestyle="--", linewidth=1)
        axes.axhline(PAPER_SNF, color=COLOURS[4], linestyle=":", linewidth=1)
        axes.set_title(axes.get_title(loc="left")
                       + "; lines: Serpens, and its SNF")

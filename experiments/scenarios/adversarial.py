# SPDX-License-Identifier: Apache-2.0
"""Bursts that an adversary adds, with and without a size threshold."""

from grid import (DROPPED, HELD_P99, MOVED, PERCENTILES, UNITS, Axis, Grid,
                  falls)
from results import cell
from scenario import (LIKE_PAPER, OWN_RATE, Findings, Job, Lab, Made, Means,
                      Out, Outcomes, Report, holds)

SUMMARY = "adversarial bursts, flowlets by timeout alone or by size too"
SOURCE = "SNF Fig. 5"
ABOUT = """
Swept: how many flows have a burst of 20 packets of 1400 B back to back (every
100th, 50th, 10th; snf trace synth makes the traffic, after the captures and
with the figures of the trace of SNF's authors), whether flowlets end by timeout
alone or by 15 KB too, and the load signal: demand, which is nearest to the
paper's, or wait, which is snf's; and whether there are as many units as
placement asks for, or 4 for both, which tells what is due to units. A NAT on
warm units of 1 Gbit/s. SNF finds that the size threshold lowers median and
tail, the more the more bursts there are.
"""

PAPER = {100: ((101e-6, 678e-6), (87e-6, 504e-6)),
         50: ((201e-6, 1.5e-3), (93e-6, 702e-6)),
         10: ((752e-6, 5.2e-3), (102e-6, 756e-6))}
SIGNALS = ("demand", "wait")
# As few as can serve 2 Gbit/s with bursts, so that both have the same.
FREE, SAME = "as needed", "4 for both"
UNITS_UP = {FREE: ("--warm_units=64",),
            SAME: ("--max_units=4", "--warm_units=4",
                   "--unit_idle_timeout=10s")}
TIMEOUT, BOTH = "timeout", "timeout + size"


TRAFFIC = {f"every {n}th{kind}": n for kind in ("", LIKE_PAPER)
           for n in PAPER}


def attacked(lab: Lab, label: str, seed: int) -> Made:
    """The model is all captures, merged; or the paper's figures."""
    captures = lab.composed(OWN_RATE, "", 1)
    model = "--preset=snf_199k" if label.endswith(LIKE_PAPER) else \
        Made(captures.job, captures.file, "--like=")
    return Made(Job(f"bursts in {label}, seed {seed}", "snf", (
        "trace", "synth", model, "--rate=2Gbps",
        f"--duration={lab.choose('500ms', '200ms')}", f"--seed={seed}",
        f"--attack_every={TRAFFIC[label]}", "--snap=96",
        Out("--out=", "capture.pcap"), "--json=-", "--quiet")), "capture.pcap")


GRID = Grid(
    axes=(Axis("flowlets end by", {TIMEOUT: ("--flowlet_bytes=1GB",),
                                   BOTH: ("--flowlet_bytes=15KB",)}),
          Axis("load signal", {signal: (f"--load_signal={signal}",)
                               for signal in SIGNALS}),
          Axis("units allowed", UNITS_UP)),
    figures=(UNITS, *PERCENTILES, MOVED, HELD_P99, DROPPED),
    base=("--nf=nat", "--unit_capacity=1Gbps", "--no_check"),
    rates=tuple(TRAFFIC), takes_rates=False, capture=attacked)


def jobs(lab: Lab) -> list[Job]:
    return GRID.jobs(lab)


def lowers(means: Means, label: str, signal: str, column: str, up=FREE):
    before = means[label, TIMEOUT, signal, up]
    after = means[label, BOTH, signal, up]
    text = (f"{cell(before[column], 's')} → {cell(after[column], 's')}, on "
            f"{before['units']:.2f} → {after['units']:.2f} units")
    return text, holds(falls(before[column], after[column]))


def why_not(means: Means, label: str, column: str) -> str:
    held = [means[label, end, "demand", SAME]["held p99"]
            for end in (TIMEOUT, BOTH)]
    return (f"with as many units, {SAME}, it is "
            f"{lowers(means, label, 'demand', column, SAME)[0]}; what is cut "
            f"from a burst and moves waits until the part before it is done, "
            f"there for {cell(held[0], 's')} → {cell(held[1], 's')} at p99; by "
            f"wait, which sees a queue as it grows, it is "
            f"{lowers(means, label, 'wait', column)[0]}")


def findings(means: Means) -> Findings:
    found = Findings("What came out, beside what SNF found")
    for label, n in TRAFFIC.items():
        for column, i in (("latency p50", 0), ("latency p99", 1)):
            before, after = PAPER[n][0][i], PAPER[n][1][i]
            found.add(f"{column}, bursts in {label}",
                      f"{cell(before, 's')} → {cell(after, 's')}",
                      "falls with the size threshold",
                      lambda c=column, k=label: lowers(means, k, "demand", c),
                      lambda c=column, k=label: why_not(means, k, c))
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    return GRID.report(lab, outcomes, findings(GRID.means(lab, outcomes)),
                       "Bursts, ends of flowlets and load signals",
                       lambda figure, each: draw(figure, each),
                       size=(12.0, 8.0))


def draw(figure, means: Means):
    from charts import boxes, by_traffic, lines
    for kind, part in by_traffic(figure, {
            "": "After the captures", LIKE_PAPER: "Like the paper's"}):
        labels = [label for label in TRAFFIC
                  if label.endswith(LIKE_PAPER) == bool(kind)]
        latency, waiting, units = part.subplots(
            1, 3, width_ratios=(2, 2, 1))
        for axes, signal in ((latency, "demand"), (waiting, "wait")):
            boxes(axes, means,
                  lambda label, end, signal=signal: (label, end, signal, FREE),
                  labels, (TIMEOUT, BOTH), f"bursts in every … flow; load by "
                  f"{signal}")
            axes.set_title("latency")
        waiting.sharey(latency)
        lines(units, means,
              lambda label, end: (label, end, "demand", FREE), labels,
              (TIMEOUT, BOTH), "units")
        units.set_ylim(0, 1.1 * units.get_ylim()[1])
        units.set_title("units, load by demand")
        for axes in part.axes:
            axes.set_xticks(range(len(labels)),
                            [f"{TRAFFIC[label]}th" for label in labels])

# SPDX-License-Identifier: Apache-2.0
"""State pulled when it is missed against state pushed ahead."""

from grid import (DROPPED, HELD_P50, HELD_P99, MOVED, P50, P99, PUSHED,
                  SEAMLESS, UNITS, WAITED, Axis, Grid, composed)
from results import cell
from scenario import (LIKE_PAPER, Findings, Job, Lab, Means, Outcomes, Report,
                      holds, verdict)

SUMMARY = "state pulled when missed against pushed ahead, for five NFs"
SOURCE = "SNF Fig. 4, §9.2"
ABOUT = """
Swept: the traffic (captures overlaid, and snf trace synth --preset=snf_199k,
with the figures of the trace of SNF's authors), the NF, and how state gets to
units: reactive (pulled when a flowlet misses it), proactive as in the paper
(K = 3 replicas drawn by weight), or proactive by snf's own rule (likely: where
and when a move is likely enough). Units of 1 Gbit/s, all warm; to pull a state
takes 120 µs, as reactive mode has it in the paper. The load is demand, which is
nearest to the paper's and which findings are about, or wait, snf's; for a NAT
flowlets also end by timeout alone. SNF finds a p99 of 168 µs with an external
store, 133 µs reactive and 11 µs proactive for a NAT, over all packets and
without the queue, and 90.4 % of moved flowlets seamless over all NFs. Held is
what a flowlet that moved waited for its state.
"""

NFS = ("nat", "firewall", "monitor", "udp_whitelister", "policer")
MODES = {"reactive": ("--replica_choice=none",),
         "proactive, weighted": ("--replica_choice=weighted",),
         "proactive, likely": ("--replica_choice=likely",)}
REACTIVE, WEIGHTED, LIKELY = MODES
SIGNALS = ("demand", "wait")
CUT, UNCUT = "and size", "alone"
GRID = Grid(
    axes=(Axis("NF", {nf: (f"--nf={nf}",) for nf in NFS}),
          Axis("state", MODES),
          Axis("load signal", {signal: (f"--load_signal={signal}",)
                               for signal in SIGNALS}),
          Axis("end by timeout", {CUT: (), UNCUT: ("--flowlet_bytes=1GB",)})),
    figures=(UNITS, P50, P99, MOVED, SEAMLESS, WAITED, HELD_P50, HELD_P99,
             PUSHED, DROPPED),
    base=("--warm_units=64", "--unit_capacity=1Gbps", "--state_delay=60us",
          "--no_check"),
    rates=("2Gbps", "2Gbps" + LIKE_PAPER), capture=composed("500ms", "200ms"),
    keep=lambda rate, nf, mode, signal, end: end == CUT or nf == "nat")


def jobs(lab: Lab) -> list[Job]:
    return GRID.jobs(lab)


def compared(means: Means, rate: str, column: str, unit: str, nf="nat",
             signal="demand", end=CUT) -> tuple[dict, str]:
    values = {mode: means[rate, nf, mode, signal, end][column]
              for mode in MODES}
    return values, ", ".join(f"{mode} {cell(value, unit)}"
                             for mode, value in values.items())


def lowers(means: Means, rate: str, column: str, unit: str):
    values, text = compared(means, rate, column, unit)
    return text, holds(min(values[WEIGHTED], values[LIKELY]) <=
                       values[REACTIVE] / 5)


def is_seamless(means: Means, rate: str, mode: str):
    """On average over the NFs, as the paper's."""
    shares = [means[rate, nf, mode, "demand", CUT]["seamless"] for nf in NFS]
    ours = sum(shares) / len(shares)
    return (f"{cell(ours, 'share')}; " + ", ".join(
        f"{nf} {cell(share, 'share')}" for nf, share in zip(NFS, shares)),
        verdict(ours, 0.904, "higher", 0.05))


def why(means: Means, rate: str) -> str:
    def of(column, unit, **others):
        return compared(means, rate, column, unit, **others)[1]
    return ("it is what is cut from a burst by 15 KB and moves: it waits until "
            "the part before it is done, and no state can be pushed ahead of "
            f"it. With flowlets that end by timeout alone: seamless "
            f"{of('seamless', 'share', end=UNCUT)}; waited for state "
            f"{of('waited for state', 'share', end=UNCUT)}; held p99 "
            f"{of('held p99', 's', end=UNCUT)}. By wait, where flows rather "
            f"stay: waited for state "
            f"{of('waited for state', 'share', signal='wait')}; held p99 "
            f"{of('held p99', 's', signal='wait')}")


def findings(lab: Lab, means: Means) -> Findings:
    found = Findings("What came out, beside what SNF found")
    for rate in GRID.traffic(lab):
        for what, column, unit in (
                ("held, of those that moved, p50", "held p50", "s"),
                ("held, of those that moved, p99", "held p99", "s"),
                ("flowlets that waited for state", "waited for state",
                 "share")):
            found.add(f"{what}, nat, {rate}",
                      "p99 133 µs reactive, 11 µs proactive (Fig. 4)",
                      "proactive at most a fifth",
                      lambda r=rate, c=column, u=unit: lowers(means, r, c, u),
                      lambda r=rate: why(means, r))
        for mode in (WEIGHTED, LIKELY):
            found.add(f"seamless of those moved, {mode}, {rate}",
                      "90.4 % over the NFs (§9.2)", "90 %",
                      lambda r=rate, m=mode: is_seamless(means, r, m),
                      lambda r=rate: why(means, r))
    found.add_not_run("latency p99, external store", "168 µs (Fig. 4)",
                      "the program has no mode in which state is in an "
                      "external store")
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    means = GRID.means(lab, outcomes)
    return GRID.report(lab, outcomes, findings(lab, means),
                       "NFs, ways of state and load signals",
                       lambda figure, each: draw(figure, lab, each),
                       size=(12.0, 4.0 * len(GRID.traffic(lab))))


def draw(figure, lab: Lab, means: Means):
    from charts import by_traffic, panels
    for rate, part in by_traffic(figure, {
            rate: f"{rate}, load by demand" for rate in GRID.traffic(lab)}):
        panels(part, means, {"waited for state": "share", "seamless": "share",
                             "state pushed": "bit/s"},
               lambda nf, mode, rate=rate: (rate, nf, mode, "demand", CUT),
               NFS, tuple(MODES), "", is_ordered=False)
        for axes in part.axes:
            axes.set_xticks(range(len(NFS)),
                            [nf.replace("_", "\n") for nf in NFS], fontsize=7)

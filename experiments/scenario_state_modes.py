# SPDX-License-Identifier: Apache-2.0
"""State pulled when it is missed against state pushed ahead."""

from grid import (DROPPED, HELD_P99, MOVED, P50, P99, PUSHED, SEAMLESS, UNITS,
                  Axis, Grid, composed)
from results import cell
from scenario import (Findings, Job, Lab, Means, Outcomes, Report, holds,
                      verdict)

SUMMARY = "state pulled when missed against pushed ahead, for five NFs"
SOURCE = "SNF Fig. 4, §9.2"
ABOUT = """
Swept: the NF, and how state gets to units: reactive (pulled when a flowlet
misses it), proactive as in the paper (K = 3 replicas drawn by weight), or
proactive by snf's own rule (likely: where and when a move is likely enough).
Units of 1 Gbit/s, all warm; a state takes 20 µs from unit to unit, besides its
bytes. The load is demand, which is nearest to the paper's, or wait, snf's. SNF
finds a p99 of 168 µs with an external store, 133 µs reactive and 11 µs
proactive for a NAT, and 90.4 % of moved flowlets seamless over all NFs. Held is
what a flowlet that moved waited for its state.
"""

NFS = ("nat", "firewall", "monitor", "udp_whitelister", "policer")
MODES = {"reactive": ("--replica_choice=none",),
         "proactive, weighted": ("--replica_choice=weighted",),
         "proactive, likely": ("--replica_choice=likely",)}
REACTIVE, WEIGHTED, LIKELY = MODES
SIGNALS = ("demand", "wait")
GRID = Grid(
    axes=(Axis("NF", {nf: (f"--nf={nf}",) for nf in NFS}),
          Axis("state", MODES),
          Axis("load signal", {signal: (f"--load_signal={signal}",)
                               for signal in SIGNALS})),
    figures=(UNITS, P50, P99, MOVED, SEAMLESS, HELD_P99, PUSHED, DROPPED),
    base=("--warm_units=64", "--unit_capacity=1Gbps", "--no_check"),
    rates=("2Gbps",), capture=composed("500ms", "200ms"))


def jobs(lab: Lab) -> list[Job]:
    return GRID.jobs(lab)


def compared(means: Means, rate: str, nf: str, signal: str, column: str,
             unit: str) -> tuple[dict, str]:
    values = {mode: means[rate, nf, mode, signal][column] for mode in MODES}
    return values, ", ".join(f"{mode} {cell(value, unit)}"
                             for mode, value in values.items())


def lowers(means: Means, rate: str, nf: str, signal: str, column: str):
    values, text = compared(means, rate, nf, signal, column, "s")
    return text, holds(min(values[WEIGHTED], values[LIKELY]) <=
                       values[REACTIVE] / 5)


def is_seamless(means: Means, rate: str, signal: str, mode: str):
    """On average over the NFs, as the paper's."""
    shares = [means[rate, nf, mode, signal]["seamless"] for nf in NFS]
    ours = sum(shares) / len(shares)
    return (f"{cell(ours, 'share')}; " + ", ".join(
        f"{nf} {cell(share, 'share')}" for nf, share in zip(NFS, shares)),
        verdict(ours, 0.904, "higher", 0.05))


def why(means: Means, rate: str, nf: str, signal: str) -> str:
    other = SIGNALS[1 - SIGNALS.index(signal)]
    return ("seamless: " + compared(means, rate, nf, signal, "seamless",
                                    "share")[1] + f"; held p99 by {other}: "
            + compared(means, rate, nf, other, "held p99", "s")[1]
            + "; units: " + compared(means, rate, nf, signal, "units",
                                     "units")[1])


def findings(lab: Lab, means: Means) -> Findings:
    found = Findings("What came out, beside what SNF found")
    for rate in GRID.traffic(lab):
        for signal in SIGNALS:
            for column in ("held p99", "latency p99"):
                found.add(
                    f"{column}, nat, {rate}, by {signal}",
                    "133 µs reactive, 11 µs proactive (Fig. 4)",
                    "proactive at most a fifth",
                    lambda r=rate, s=signal, c=column: lowers(
                        means, r, "nat", s, c),
                    lambda r=rate, s=signal: why(means, r, "nat", s))
            for mode in (WEIGHTED, LIKELY):
                found.add(f"seamless of those moved, {mode}, {rate}, by "
                          f"{signal}", "90.4 % over the NFs (§9.2)", "90 %",
                          lambda r=rate, s=signal, m=mode: is_seamless(
                              means, r, s, m),
                          lambda r=rate, s=signal: why(means, r, "nat", s))
    found.add_not_run("latency p99, external store", "168 µs (Fig. 4)",
                      "the program has no mode in which state is in an "
                      "external store")
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    means = GRID.means(lab, outcomes)
    return GRID.report(lab, outcomes, findings(lab, means),
                       "NFs, ways of state and load signals",
                       lambda figure, each: draw(figure, lab, each),
                       size=(12.0, 4.2))


def draw(figure, lab: Lab, means: Means):
    from charts import panels
    rate = GRID.traffic(lab)[0]
    panels(figure, means, {"held p99": "s", "seamless": "share",
                           "state pushed": "bit/s"},
           lambda nf, mode: (rate, nf, mode, "demand"), NFS, tuple(MODES),
           f"{rate}, load by demand")
    for axes in figure.axes:
        axes.set_xticks(range(len(NFS)), [nf.replace("_", "\n") for nf in NFS],
                        fontsize=7)

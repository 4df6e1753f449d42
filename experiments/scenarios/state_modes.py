# SPDX-License-Identifier: Apache-2.0
"""State read from a store, pulled when it is missed, or pushed ahead."""

from grid import (DROPPED, HELD_P50, HELD_P99, MOVED, PERCENTILES, PUSHED,
                  SEAMLESS, UNITS, WAITED, Axis, Figure, Grid, composed,
                  nf_flag)
from results import cell
from scenario import (LIKE_PAPER, Column, Findings, Job, Lab, Means, Outcome,
                      Outcomes, Report, Table, holds, known_rows, verdict)

SUMMARY = "state in a store, pulled when missed, or pushed ahead, for six NFs"
SOURCE = "SNF Fig. 4, §9.2"
ABOUT = """
Swept: the traffic (captures overlaid, and snf trace synth --preset=snf_199k,
with the figures of the trace of SNF's authors), the NF, and how state gets to
units: external (written into a store when the flow has been idle for T/2, and
read from there when a flowlet misses it: SNF's "optimized external"), reactive
(pulled from the unit before when a flowlet misses it), proactive as in the paper
(K = 3 replicas drawn by weight), or proactive by snf's own rule (likely: where
and when a move is likely enough). Units of 1 Gbit/s, all warm; to pull a state
takes 120 µs, as reactive mode has it in the paper. The load is demand, which is
nearest to the paper's and which findings are about, or wait, snf's; for a NAT
flowlets also end by timeout alone. The store is as far away as a unit; what its
server takes is the model of --store, whose figures snf bench --rows=14 measures.
Beside it, runs in real time on this machine, external with a real Redis. SNF
finds a p99 of 168 µs with an external
store, 133 µs reactive and 11 µs proactive for a NAT, over all packets and
without the queue, and 90.4 % of moved flowlets seamless over all NFs. Held is
what a flowlet that moved waited for its state.
"""

NFS = ("nat", "firewall", "monitor", "udp_whitelister", "policer", "ids")
MODES = {"external": ("--state=external",),
         "reactive": ("--state=reactive",),
         "proactive, weighted": ("--replica_choice=weighted",),
         "proactive, likely": ("--replica_choice=likely",)}
EXTERNAL, REACTIVE, WEIGHTED, LIKELY = MODES
# The median of a packet whose state is there, without the queue.
PAPER_P50 = {EXTERNAL: 0.67e-6, REACTIVE: 0.61e-6, WEIGHTED: 0.44e-6}
PAPER_P99 = {EXTERNAL: 168e-6, REACTIVE: 133e-6, WEIGHTED: 11e-6}
SIGNALS = ("demand", "wait")
CUT, UNCUT = "and size", "alone"
GRID = Grid(
    axes=(Axis("NF", {nf: (nf_flag(nf),) for nf in NFS}),
          Axis("state", MODES),
          Axis("load signal", {signal: (f"--load_signal={signal}",)
                               for signal in SIGNALS}),
          Axis("end by timeout", {CUT: (), UNCUT: ("--flowlet_bytes=1GB",)})),
    figures=(UNITS, *PERCENTILES, MOVED, SEAMLESS, WAITED, HELD_P50, HELD_P99,
             PUSHED, DROPPED),
    base=("--warm_units=64", "--unit_capacity=1Gbps", "--state_delay=60us",
          "--no_check"),
    rates=("2Gbps", "2Gbps" + LIKE_PAPER), capture=composed("500ms", "200ms"),
    keep=lambda rate, nf, mode, signal, end: end == CUT or nf == "nat")


# Of a run in real time, external: from a request to the store's answer.
ROUND_TRIP = tuple(
    Figure(Column(f"round trip {q}", "s"),
           lambda ran, q=q: ran[f"store.round_trip_ns.{q}"] / 1e9
           if "store" in ran.figures else None)
    for q in ("p50", "p99"))
REAL_FIGURES = (MOVED, SEAMLESS, HELD_P50, HELD_P99, *ROUND_TRIP, DROPPED)
REAL_COLUMNS = (Column("state"), *(figure.column for figure in REAL_FIGURES))
REAL_MODES = (EXTERNAL, REACTIVE, LIKELY)


def real_job(lab: Lab, mode: str) -> Job:
    """At the captures' own gaps; two threads, the controller's among them."""
    return lab.replay(
        f"nat, {mode}, real time",
        lab.composed("50Mbps", lab.choose("2s", "500ms"), 1), "--nf=nat",
        *MODES[mode], "--clock=real", "--speed=1x", "--threads=2",
        "--unit_capacity=10Mbps", "--load_signal=demand", is_timed=True)


def bench_job(lab: Lab) -> Job:
    """A NAT in a unit, by the clock on the wall."""
    return Job("snf bench, row 8", "snf",
               ("bench", "--rows=8", *lab.choose((), ("--quick",)), "--json=-"),
               2, is_timed=True)


def jobs(lab: Lab) -> list[Job]:
    return [*GRID.jobs(lab), bench_job(lab), *(real_job(lab, mode) for mode in REAL_MODES)]


def real_rows(lab: Lab, outcomes: Outcomes) -> list[tuple]:
    def row(mode):
        ran: Outcome = outcomes[real_job(lab, mode)]
        return (mode, *(figure.read(ran) for figure in REAL_FIGURES))
    return known_rows((row, (mode,)) for mode in REAL_MODES)


def waits_longest(means: Means, rate: str):
    values, text = compared(means, rate, "held p99", "s")
    return text, holds(values[EXTERNAL] > values[REACTIVE])


def latency(means: Means, rate: str, mode: str):
    ours = means[rate, "nat", mode, "demand", CUT]["latency p99"]
    return cell(ours, "s"), verdict(ours, PAPER_P99[mode], "lower")


def why_latency(means: Means, rate: str, mode: str) -> str:
    found = means[rate, "nat", mode, "demand", CUT]
    return (f"ours counts what a packet waits in its unit's queue as well; p50 "
            f"is {cell(found['latency p50'], 's')}, and flowlets that moved "
            f"were held for {cell(found['held p50'], 's')} (p50) and "
            f"{cell(found['held p99'], 's')} (p99)")


def runs_fast(lab: Lab, outcomes: Outcomes):
    medians = {row["variant"]: row["ours"]["median"] / 1e9
               for row in outcomes[bench_job(lab)]["rows"]}
    worst = max(medians.values())
    return (", ".join(f"{variant}: {cell(median, 's')}"
                      for variant, median in medians.items()),
            verdict(worst, min(PAPER_P50.values()), "lower"))


def median(means: Means, rate: str, mode: str):
    ours = means[rate, "nat", mode, "demand", CUT]["latency p50"]
    return cell(ours, "s"), verdict(ours, PAPER_P50[mode], "lower")


def why_median(lab: Lab, outcomes: Outcomes, means: Means, rate: str) -> str:
    found = {mode: means[rate, "nat", mode, "demand", CUT]["latency p50"]
             for mode in PAPER_P50}
    return ("in virtual time a packet takes its bits at the unit's 1 Gbit/s, "
            "11.5 µs for 1434 B, and waits for those before it, which the "
            "paper's processing time has neither of; what an NF itself takes "
            f"is {runs_fast(lab, outcomes)[0]} (snf bench, row 8). The modes "
            "differ by " + cell(max(found.values()) - min(found.values()), "s")
            + " at p50")


def answers_as_modelled(lab: Lab, outcomes: Outcomes):
    ran = outcomes[real_job(lab, EXTERNAL)]
    ours = ran["store.round_trip_ns.p50"] / 1e9
    model = next(word for word in ran["flags"]["store"].split()
                 if word.startswith("round_trips="))
    median = float(model.split("=")[1].split(",")[1].removesuffix("us")) / 1e6
    return (f"{cell(ours, 's')}, modelled {cell(median, 's')}",
            holds(median / 3 <= ours <= 3 * median))


def why_real(lab: Lab, outcomes: Outcomes) -> str:
    ran = outcomes[real_job(lab, EXTERNAL)]
    return (f"the Redis shares the CPUs of this machine with the "
            f"{ran['real.threads']} threads of the run, which look at its "
            f"answers between packets; snf bench --rows=14 asks an idle one")


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


def findings(lab: Lab, means: Means, outcomes: Outcomes) -> Findings:
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
        found.add(f"held p99, nat, external and reactive, {rate}",
                  "p99 168 µs external, 133 µs reactive (Fig. 4)",
                  "external waits longer",
                  lambda r=rate: waits_longest(means, r))
        for mode, paper in PAPER_P99.items():
            found.add(f"latency p99, nat, {mode}, {rate}",
                      f"{cell(paper, 's')} (Fig. 4)", "as much, or less",
                      lambda r=rate, m=mode: latency(means, r, m),
                      lambda r=rate, m=mode: why_latency(means, r, m))
        for mode, paper in PAPER_P50.items():
            found.add(f"latency p50, nat, {mode}, {rate}",
                      f"{cell(paper, 's')} (Fig. 4)", "as much, or less",
                      lambda r=rate, m=mode: median(means, r, m),
                      lambda r=rate: why_median(lab, outcomes, means, r))
    found.add("a packet of a NAT whose state is at hand, p50",
              "440 ns, proactive (Fig. 4)", "as much, or less",
              lambda: runs_fast(lab, outcomes))
    found.add("round trip of a real Redis, p50", "not told",
              "within a third and three times of the model",
              lambda: answers_as_modelled(lab, outcomes),
              lambda: why_real(lab, outcomes))
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    means = GRID.means(lab, outcomes)
    real = Table("real", "In real time on this machine, with a real Redis",
                 REAL_COLUMNS, real_rows(lab, outcomes))
    return GRID.report(lab, outcomes, findings(lab, means, outcomes),
                       "NFs, ways of state and load signals",
                       lambda figure, each: draw(figure, lab, each),
                       size=(12.0, 7.5 * len(GRID.traffic(lab))), more=(real,))


def draw(figure, lab: Lab, means: Means):
    from charts import boxes, by_traffic, panels
    for rate, part in by_traffic(figure, {
            rate: f"{rate}, load by demand" for rate in GRID.traffic(lab)}):
        def key_of(nf, mode, rate=rate):
            return rate, nf, mode, "demand", CUT

        above, below = part.subfigures(2, 1)
        boxes(above.subplots(), means, key_of, NFS, tuple(MODES), "")
        panels(below, means, {"waited for state": "share", "seamless": "share",
                              "state pushed": "bit/s"},
               key_of, NFS, tuple(MODES), "", is_ordered=False)
        for axes in below.axes:
            axes.set_xticks(range(len(NFS)),
                            [nf.replace("_", "\n") for nf in NFS], fontsize=7)

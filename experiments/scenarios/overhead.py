# SPDX-License-Identifier: Apache-2.0
"""What a decision and replicas cost."""

from grid import (CHANCES, DROPPED, PUSHED, SEAMLESS, Axis, Figure, Grid,
                  composed, nf_flag)
from results import cell
from scenario import (LIKE_PAPER, Column, Findings, Job, Lab, Means, Missing,
                      Outcomes, Report, Table, ratio, verdict)

SUMMARY = "cost of a decision, and bandwidth of replication for six NFs"
SOURCE = "SNF §9.7"
ABOUT = """
Swept: the traffic (captures overlaid to 1 Gbit/s and to 100 Mbit/s, and snf
trace synth --preset=snf_199k, with the figures of the trace of SNF's authors),
the NF, and which units state is pushed to: K = 3 drawn by weight, as in
the paper, or by snf's own rule (likely). Units of 1 Gbit/s, all warm. The cost
of a decision is that of snf bench, row 6, on this machine: medians of CPU time.
SNF finds 1 µs a decision and 2.9 to 4.8 Mbit/s of replication (NAT 3.62, LB
4.13, IDS 3.12, UDP whitelister 2.9, policer 4.8).
"""

# The paper has no firewall, monitor and chain.
PAPER = {"nat": 3.62e6, "udp_whitelister": 2.9e6, "policer": 4.8e6,
         "ids": 3.12e6, "firewall": None, "monitor": None,
         "firewall | monitor | nat": None}
SLOW = "100Mbps"  # tells how it goes with the rate
RULES = {"weighted": ("--replica_choice=weighted",),
         "likely": ("--replica_choice=likely",)}
PUSHES = Figure(Column("pushes a flowlet"), lambda ran: ratio(
    ran["state_pushes"], ran["flowlets"]))
A_SECOND = Figure(Column("flowlets a second"), lambda ran: ratio(
    ran["flowlets"], ran["duration_s"]))
SIZE = Figure(Column("a state", "bytes"), lambda ran: ratio(
    ran["state_pushed_bytes"], ran["state_pushes"]))
OF_TRAFFIC = Figure(Column("of the traffic", "share"), lambda ran: ratio(
    ran["replication_bps"], ran["bit_rate_mean_bps"]))
GRID = Grid(
    axes=(Axis("NF", {nf: (nf_flag(nf),) for nf in PAPER}),
          Axis("pushed to", RULES)),
    figures=(PUSHED, OF_TRAFFIC, A_SECOND, PUSHES, SIZE, SEAMLESS, CHANCES,
             DROPPED),
    base=("--warm_units=64", "--unit_capacity=1Gbps", "--no_check"),
    rates=("1Gbps", SLOW, "1Gbps" + LIKE_PAPER),
    capture=composed("1s", "200ms"))
DECISION_COLUMNS = (Column("what"), Column("units"), Column("time", "s"))


def bench_job(lab: Lab) -> Job:
    return Job("snf bench, row 6", "snf",
               ("bench", "--rows=6", *lab.choose((), ("--quick",)), "--json=-"),
               5, is_timed=True)


def jobs(lab: Lab) -> list[Job]:
    return [bench_job(lab), *GRID.jobs(lab)]


def decisions(lab: Lab, outcomes: Outcomes) -> list[tuple]:
    found = []
    for row in outcomes[bench_job(lab)]["rows"]:
        for units, part in (("10,000", "ours"), ("10", "base")):
            found.append((row["what"], units, row[part]["median"] / 1e9))
        found += [(beside["what"], None, beside["median"] / 1e9)
                  for beside in row["beside"]]
    return found


def decides_fast(lab: Lab, outcomes: Outcomes):
    worst = max(decisions(lab, outcomes), key=lambda row: row[2])
    return (f"{cell(worst[2], 's')} ({worst[0]}, {worst[1]} units)",
            verdict(worst[2], 1e-6, "lower"))


def sends(means: Means, rate: str, nf: str, rule: str):
    ours = means[rate, nf, rule]["state pushed"]
    return cell(ours, "bit/s"), verdict(ours, PAPER[nf], "lower")


def why(means: Means, rate: str, nf: str, rule: str) -> str:
    found = means[rate, nf, rule]
    pushes = found["flowlets a second"] * found["pushes a flowlet"]
    return (f"it is {found['flowlets a second']:,.0f} flowlets/s × "
            f"{found['pushes a flowlet']:.2f} pushes × (40 + "
            f"{found['a state']:.0f}) bytes; at this size the paper's "
            f"{cell(PAPER[nf], 'bit/s')} would be "
            f"{PAPER[nf] / 8 / (40 + found['a state']):,.0f} pushes/s, not "
            f"{pushes:,.0f}: how many flowlets a second its trace had is not "
            f"told{at_less(means, nf, rule)}")


def at_less(means: Means, nf: str, rule: str) -> str:
    try:
        found = means[SLOW, nf, rule]["state pushed"]
    except Missing:  # other rates were asked for
        return ""
    return (f"; of captures at {SLOW}, which need few units, it is "
            f"{cell(found, 'bit/s')}")


def findings(lab: Lab, means: Means, outcomes: Outcomes) -> Findings:
    found = Findings("What came out, beside what SNF found")
    found.add("a decision", "1 µs", "1 µs or less",
              lambda: decides_fast(lab, outcomes))
    for rate in GRID.traffic(lab):
        for nf, paper in PAPER.items():
            for rule in RULES:
                if paper and rate != SLOW:
                    found.add(f"replication, {nf}, {rule}, {rate}",
                              cell(paper, "bit/s"), "as much, or less",
                              lambda r=rate, n=nf, u=rule: sends(means, r, n,
                                                                 u),
                              lambda r=rate, n=nf, u=rule: why(means, r, n, u))
    found.add_not_run("replication, load balancer", cell(4.13e6, "bit/s"),
                      "no packet of the captures is for a virtual address")
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    means = GRID.means(lab, outcomes)
    table = Table("decisions", "A decision, CPU time of this machine",
                  DECISION_COLUMNS)
    if bench_job(lab) in outcomes:
        table.rows = decisions(lab, outcomes)
    return GRID.report(lab, outcomes, findings(lab, means, outcomes),
                       "NFs and where state is pushed",
                       lambda figure, each: draw(figure, lab, each),
                       size=(10.0, 4.0), more=[table])


def draw(figure, lab: Lab, means: Means):
    from charts import panels
    rate = GRID.traffic(lab)[0]
    panels(figure, means, {"state pushed": "bit/s", "pushes a flowlet": ""},
           lambda nf, rule: (rate, nf, rule), tuple(PAPER), tuple(RULES), rate,
           is_ordered=False)
    axes = figure.axes[0]
    axes.plot(range(len(PAPER)), [value or float("nan")
                                  for value in PAPER.values()], "k_",
              markersize=14, label="SNF §9.7")
    axes.legend(fontsize=8)
    for axes in figure.axes:
        axes.set_xticks(range(len(PAPER)),
                        [nf.replace("_", "\n").replace(" | ", "\n| ")
                         for nf in PAPER], fontsize=7)

# SPDX-License-Identifier: Apache-2.0
"""What live traffic gets from SNF, beside the kernel on the same machine."""

from results import cell
from scenario import (Column, Findings, Job, Lab, Missing, Outcomes, Program,
                      Report, Table, holds, in_calm)

SUMMARY = "live traffic beside a bridge and nftables: rates, times, CPU, memory"
# It wants root, and makes network namespaces.
IN_ALL = False
SOURCE = "the kernel's bridge and nftables, in the same run"
ABOUT = """
Measured: two hosts, each a network namespace, and between them in turns the
kernel's bridge, the kernel as a router with the rules and source NAT of
nftables, and SNF: `passthrough`, and the same 18 rules with a NAT, with units
as threads, processes and containers, without and with output loggers. Of each:
TCP in one connection up and down and in 8 up (iperf3), the share of datagrams
lost at two rates (1,400 bytes), the time of a request and its answer alone on
the wire (63 bytes by UDP), connections one after the other with a byte there and back, the
CPU time of the whole machine for a Gbit up, iperf3's included, and what SNF
takes: CPU while no packet comes, and memory. Values are medians of the rounds.
Then connections to a virtual address before three servers: DNAT by nftables,
which hashes the client's end, and `lb`.
"""

KERNEL = ("bridge", "nftables")
SNF = ("plain thread", "chain thread", "chain thread sender",
       "chain thread loggers", "chain process", "chain process loggers", "chain lxc", "chain lxc loggers")
BALANCERS = ("dnat", "lb thread", "lb process", "lb process loggers")
NAMES = {"bridge": "a bridge", "nftables": "nftables",
         "plain thread": "SNF, passthrough, threads",
         "chain thread": "SNF, threads",
         "chain thread sender": "SNF, threads, two that send",
         "chain thread loggers": "SNF, threads and loggers",
         "chain process": "SNF, processes",
         "chain process loggers": "SNF, processes and loggers",
         "chain lxc": "SNF, containers",
         "chain lxc loggers": "SNF, containers and loggers",
         "dnat": "nftables, DNAT", "lb thread": "SNF, lb, threads",
         "lb process": "SNF, lb, processes",
         "lb process loggers": "SNF, lb, processes and loggers"}
COLUMNS = (Column("by"), Column("TCP up", "bit/s"), Column("TCP down", "bit/s"),
           Column("8 TCP up", "bit/s"),
           Column("lost at 200 Mbit/s", "share", is_detail=True),
           Column("lost at 1 Gbit/s", "share", is_detail=True),
           Column("round trip, p50", "s"), Column("round trip, p99", "s"),
           Column("connections a second"),
           Column("CPU time a Gbit", "s"),
           Column("CPU at rest", "share", is_detail=True),
           Column("memory", "bytes", is_detail=True))
KEYS = ("tcp_up", "tcp_down", "tcp_8", "udp_200m", "udp_1g", "round_trip",
        "round_trip_p99", "connections", "cpu_per_gbit", "idle_cpu", "bytes")


def job(lab: Lab) -> Job:
    return Job("live traffic, by each way", "live.py",
               (Program(), "--ways=" + ",".join(KERNEL + SNF + BALANCERS),
                f"--rounds={lab.choose(3, 1)}",
                f"--seconds={lab.choose(2, 1)}"),
               lab.choose(4_500, 700), is_timed=True)


def jobs(lab: Lab) -> list[Job]:
    return [job(lab)]


def found_by(lab: Lab, outcomes: Outcomes) -> dict[str, dict]:
    return {row["way"]: row for row in outcomes[job(lab)]["rows"]
            if not row["why_not"]}


def value_of(lab: Lab, outcomes: Outcomes, way: str, key: str) -> float:
    row = found_by(lab, outcomes).get(way)
    if row is None:
        raise Missing(f"no row of {NAMES[way]}")
    return row[key]


def rows(lab: Lab, outcomes: Outcomes) -> list[tuple]:
    found = found_by(lab, outcomes)
    table = []
    for way in KERNEL + SNF:
        if way not in found:
            continue
        values = [found[way].get(key) for key in KEYS]
        at = KEYS.index("connections")
        values[at] = f"{values[at]:,.0f}"
        table.append((NAMES[way], *values))
    return table


def balancer_rows(lab: Lab, outcomes: Outcomes) -> list[tuple]:
    found = found_by(lab, outcomes)
    return [(NAMES[way], f"{found[way]['connections']:,.0f}")
            for way in BALANCERS if way in found]


def is_share(lab: Lab, outcomes: Outcomes, way: str, key: str, least: float):
    """Of nftables' figure."""
    ours = value_of(lab, outcomes, way, key)
    theirs = value_of(lab, outcomes,
                      "dnat" if way in BALANCERS else "nftables", key)
    return in_calm(outcomes[job(lab)]["waited"], f"{ours / theirs:.2f}×",
                   holds(ours >= least * theirs))


def is_at_most(lab: Lab, outcomes: Outcomes, way: str, key: str, most: float,
               unit: str):
    ours = value_of(lab, outcomes, way, key)
    return in_calm(outcomes[job(lab)]["waited"], cell(ours, unit),
                   holds(ours <= most))


def findings(lab: Lab, outcomes: Outcomes) -> Findings:
    found = Findings("What came out, beside what is aimed at")
    for way, key, least, what in (
            ("chain thread", "tcp_up", 0.6, "TCP up"),
            ("chain lxc loggers", "tcp_up", 0.4, "TCP up"),
            ("chain thread loggers", "connections", 0.5, "connections"),
            ("chain process loggers", "connections", 0.5, "connections"),
            ("lb thread", "connections", 0.5, "connections"),
            ("lb process loggers", "connections", 0.5, "connections")):
        found.add(f"{what}, {NAMES[way]}", "nftables, this run",
                  f"at least {least:g}×",
                  lambda w=way, k=key, n=least:
                  is_share(lab, outcomes, w, k, n))
    found.add("a round trip's p50, SNF, threads", "60 µs", "at most",
              lambda: is_at_most(lab, outcomes, "chain thread", "round_trip",
                                 60e-6, "s"))
    found.add("CPU at rest, SNF, threads", "1 % of a core", "at most",
              lambda: is_at_most(lab, outcomes, "chain thread", "idle_cpu",
                                 0.01, "share"))
    outcome = outcomes.get(job(lab))
    if outcome is None:
        return found
    if outcome["why_not"]:
        found.add_not_run("all ways", "", outcome["why_not"])
    for row in outcome["rows"]:
        if row["why_not"]:
            found.add_not_run(NAMES[row["way"]], "", row["why_not"])
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    return Report(tables=[findings(lab, outcomes).table,
                          Table("", "Ways", COLUMNS, rows(lab, outcomes)),
                          Table("", "Load balancers",
                                (Column("by"), Column("connections a second")),
                                balancer_rows(lab, outcomes))],
                  draw=lambda figure: draw(figure, lab, outcomes),
                  size=(11.0, 4.0))


def draw(figure, lab: Lab, outcomes: Outcomes):
    from charts import COLOURS, plain, show_unit_of
    found = found_by(lab, outcomes)
    if not found:
        raise Missing("no way to draw")
    ways = [way for way in KERNEL + SNF if way in found]
    for axes, key, unit, title in zip(
            figure.subplots(1, 3, sharey=True),
            ("tcp_up", "round_trip", "connections"), ("bit/s", "s", ""),
            ("TCP up", "A round trip, p50", "Connections a second")):
        plain(axes, "x")
        axes.barh(range(len(ways)), [found[way][key] for way in ways],
                  color=[COLOURS[1 if way in KERNEL else 0] for way in ways])
        axes.set_yticks(range(len(ways)),
                        [NAMES[way].replace(", ", ",\n", 1) for way in ways],
                        fontsize=8)
        axes.locator_params(axis="x", nbins=4)
        if unit:
            show_unit_of(axes.xaxis, unit)
        else:
            axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_title(title)
    axes.invert_yaxis()

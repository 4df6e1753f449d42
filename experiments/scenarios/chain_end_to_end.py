# SPDX-License-Identifier: Apache-2.0
"""Firewall, monitor and NAT in a chain: throughput and latency of one unit."""

import statistics

from results import cell
from scenario import (DIFFERS, Column, Findings, Job, Lab, Missing, Outcomes,
                      Program, Report, Table, cpu_of_packet, in_calm,
                      known_cpu_of_packet, known_rows, verdict)

SUMMARY = "firewall, monitor and NAT in one unit: throughput and latency"
SOURCE = "Serpens Fig. 15"
ABOUT = """
Swept: what runs the chain firewall | monitor | nat: snf with one thread for
controller and unit, snf with two, or a plain program without platform (snf nf
run), which has state in the program, what is shared in a Redis, or all of it in
a Redis, with a request for each packet: as Serpens has it of SNF, and of
Fission and SAND. In real time on this machine; packets are in memory before and go
nowhere, so no network card is in it. Throughput is the fastest of some runs at
--speed=max; what one core does follows from CPU time, which other runs on the
machine hardly change. Latency is at 80 %, at half and, but with a Redis, at a
fifth of the throughput, of the run with the least p99. Serpens finds 2.4 Mpps and 83 µs on one instance, 29.6
times as much as Fission, 14.5 times as much as SNF.
"""

NF = "firewall | monitor | nat"
WAYS = {"one thread": "snf, one thread", "two threads": "snf, two threads",
        "local": "plain program", "tables": "plain, shared state in Redis",
        "remote": "plain, all state in Redis"}
SNF_WAYS = ("one thread", "two threads")
PAPER_PPS, PAPER_LATENCY = 2.4e6, 83e-6
MOST_DROPPED = 0.001  # of a run that is in time
COLUMNS = (Column("runs"), Column("throughput", "packets/s"),
           Column("median", "packets/s", is_detail=True),
           Column("CPU time a packet", "s"), Column("load", "share"),
           Column("latency p50", "s"), Column("latency p99", "s"),
           Column("latency p99.9", "s"), Column("lost", "share"))
REMOTE = ("tables", "remote")  # at a fifth, these take a minute


def job(lab: Lab, way: str) -> Job:
    capture = lab.composed("1Gbps", lab.choose("200ms", "50ms"), 1)
    if way in SNF_WAYS:
        words = ("replay", capture, f"--nf={NF}", "--clock=real", "--preload",
                 "--unit_capacity=none", "--max_units=1", "--no_check",
                 "--threads=" + ("1" if way == "one thread" else "2"),
                 "--json=-", "--quiet")
        loops = lab.choose(40, 20)
    else:
        words = ("nf", "run", NF, capture, f"--state={way}")
        loops = lab.choose(40, 20) if way == "local" else 2
    cost = {"tables": 650, "remote": 1600}.get(way, 40)
    return Job(f"{NF}: {WAYS[way]}", "at_load.py",
               (Program(),
                "--share=0.8,0.5" + ("" if way in REMOTE else ",0.2"),
                f"--loop={loops}",
                f"--repetitions={lab.choose(3, 1)}", *words),
               lab.choose(cost, cost / 6), is_timed=True)


def jobs(lab: Lab) -> list[Job]:
    return [job(lab, way) for way in WAYS]


def calmest(load: dict) -> dict:
    """Of the run with the least p99."""
    best = min(range(len(load["p99"])), key=lambda i: load["p99"][i])
    return {name: load[name][best] for name in ("p50", "p99", "p999", "dropped")}


def rows_of(lab: Lab, outcomes: Outcomes, way: str) -> list[tuple]:
    ran = outcomes[job(lab, way)]
    return [(WAYS[way], max(ran["max_pps"]), statistics.median(ran["max_pps"]),
             cpu_of_packet(ran), load["share"], at["p50"], at["p99"],
             at["p999"], at["dropped"])
            for load in ran["loads"] for at in (calmest(load),)]


def rate(lab: Lab, outcomes: Outcomes, way: str) -> float:
    return max(outcomes[job(lab, way)]["max_pps"])


def best_of_snf(lab: Lab, outcomes: Outcomes) -> str:
    return max(SNF_WAYS, key=lambda way: rate(lab, outcomes, way))


def of_a_core(lab: Lab, outcomes: Outcomes, way: str) -> float:
    """Packets a second of CPU time."""
    return 1 / known_cpu_of_packet(outcomes[job(lab, way)])


def waited(lab: Lab, outcomes: Outcomes, *ways: str) -> float:
    return max(outcomes[job(lab, way)]["waited"] for way in ways)


def throughput(lab: Lab, outcomes: Outcomes):
    rates = {way: rate(lab, outcomes, way) for way in SNF_WAYS}
    core = of_a_core(lab, outcomes, "one thread")
    return (f"{core / 1e6:.2f} M packets/s by CPU time of one thread; by the "
            "clock " + ", ".join(f"{WAYS[way]} {pps / 1e6:.2f} M"
                                 for way, pps in rates.items()),
            verdict(core, PAPER_PPS, "higher"))


def why_throughput(lab: Lab, outcomes: Outcomes) -> str:
    plain = of_a_core(lab, outcomes, "local")
    one = of_a_core(lab, outcomes, "one thread")
    return (f"one thread does controller, unit and copies; the same chain in a "
            f"plain program has {plain / 1e6:.2f} M packets/s "
            f"({plain / one:.2f}×), which is what this machine allows")


def is_fast(lab: Lab, outcomes: Outcomes):
    found = []
    for way in SNF_WAYS:
        for load in outcomes[job(lab, way)]["loads"]:
            found.append((way, load["share"], calmest(load)))
    calm = waited(lab, outcomes, *SNF_WAYS)
    in_time = [each for each in found if each[2]["dropped"] <= MOST_DROPPED]
    if not in_time:
        return in_calm(calm, "packets were dropped at each load", DIFFERS)
    way, share, at = min(in_time, key=lambda each: each[2]["p50"])
    return in_calm(
        calm, f"{cell(at['p50'], 's')} (p50), {cell(at['p99'], 's')} (p99), "
        f"{WAYS[way]} at {cell(share, 'share')} of the load",
        verdict(at["p50"], PAPER_LATENCY, "lower"))


def why_latency(lab: Lab, outcomes: Outcomes) -> str:
    load = outcomes[job(lab, "local")]["loads"][0]
    at = calmest(load)
    return (f"a plain program has {cell(at['p50'], 's')} (p50) and "
            f"{cell(at['p99'], 's')} (p99) at 80 % of its own load: "
            "there were fewer CPUs than work, the run's own included")


def times(lab: Lab, outcomes: Outcomes, way: str, paper: float):
    own = best_of_snf(lab, outcomes)
    ours = rate(lab, outcomes, own) / rate(lab, outcomes, way)
    return in_calm(
        waited(lab, outcomes, own, way),
        f"{ours:.1f}× ({rate(lab, outcomes, way) / 1e3:,.0f} k packets/s)",
        verdict(ours, paper, "higher", 0.25), is_ratio=True)


def why_times(lab: Lab, outcomes: Outcomes, way: str) -> str:
    plain = rate(lab, outcomes, "local") / rate(lab, outcomes, way)
    return (f"against the plain program with local state, which differs in "
            f"nothing else, it is {plain:.1f}×; a Redis behind a unix socket "
            "of this machine is near, and Serpens' platforms add proxies and hops "
            "between NFs, which a chain in one program has none of")


def findings(lab: Lab, outcomes: Outcomes) -> Findings:
    found = Findings("What came out, beside what Serpens found")
    found.add("throughput of one instance", "2.4 Mpps (Fig. 15a)",
              "as much, or more", lambda: throughput(lab, outcomes),
              lambda: why_throughput(lab, outcomes))
    found.add("latency of one instance", "83 µs, mean (Fig. 15b)",
              "as long, or shorter", lambda: is_fast(lab, outcomes),
              lambda: why_latency(lab, outcomes))
    for way, name, paper in (("remote", "Fission: all state remote", 29.6),
                             ("tables", "SNF: shared state remote", 14.5)):
        found.add(f"throughput against {name}", f"{paper}× (Fig. 15a)",
                  "as much, or more",
                  lambda w=way, p=paper: times(lab, outcomes, w, p),
                  lambda w=way: why_times(lab, outcomes, w))
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    rows = [row for found in known_rows(
        (rows_of, (lab, outcomes, way)) for way in WAYS) for row in found]
    return Report(tables=[findings(lab, outcomes).table,
                          Table("", "What runs the chain", COLUMNS, rows)],
                  draw=lambda figure: draw(figure, rows), size=(10.0, 4.0))


def draw(figure, rows: list[tuple]):
    from charts import COLOURS, plain, show_unit_of
    if not rows:
        raise Missing("no run to draw")
    rows = [row for row in rows if row[4] == 0.8]
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, at, paper, title, unit in (
            (left, 1, PAPER_PPS, "Packets a second at most",
             "packets/s"),
            (right, 5, PAPER_LATENCY, "Latency p50 at 80 % of that", "s")):
        plain(axes, "x")
        axes.barh(range(len(rows)), [row[at] for row in rows],
                  color=COLOURS[0])
        axes.axvline(paper, color="black", linestyle="--", linewidth=1,
                     label="Serpens")
        axes.set_xscale("log")
        axes.set_title(title)
        show_unit_of(axes.xaxis, unit)
    left.set_yticks(range(len(rows)), [row[0] for row in rows], fontsize=8)
    left.invert_yaxis()
    left.legend(fontsize=8)

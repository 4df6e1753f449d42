# SPDX-License-Identifier: Apache-2.0
"""The same NAT in the platform and as a program of its own."""

import statistics

from results import cell
from scenario import (Column, Findings, Job, Lab, Missing, Outcomes, Program,
                      Report, Table, cpu_of_packet, holds, in_calm,
                      known_cpu_of_packet, known_rows, verdict)

SUMMARY = "a NAT in the platform and as a stand-alone program"
SOURCE = "NFoS Table II, Fig. 4"
ABOUT = """
Swept: the same NAT, as a plain program (snf nf run) or in snf with one and with
two threads, which stand for the tiers of CPUs; and the rate, 100 and 200 Mbit/s
as in the paper, 1 Gbit/s, and as fast as it goes. In real time on this machine;
packets are in memory before and come at the rate. Lost are packets for which
there was no room; latency is of the run with the least p99. NFoS finds, at 100
Mbit/s, 0.001 % lost and 120 µs in the platform, 0.006 % and 36 µs as a program:
three times the latency; at 200 Mbit/s 1.2 to 1.3 % lost in the platform, 0 to
1 % in a program; some 55 to 60 % of a CPU, and 30 MB against 20 MB.
"""

WAYS = {"plain": "plain program", "one": "snf, one thread",
        "two": "snf, two threads"}
SPEEDS = ("100Mbps", "200Mbps", "1Gbps")
PAPER_LOSS = {"100Mbps": 1e-5, "200Mbps": 0.01182}
PAPER_TIMES = {"100Mbps": 3.3, "200Mbps": 2.7}  # of latency
COLUMNS = (Column("NAT"), Column("speed"), Column("packets/s", "packets/s"),
           Column("lost", "share"), Column("latency p50", "s"),
           Column("latency p99", "s"))
COST_COLUMNS = (Column("NAT"), Column("throughput", "packets/s"),
                Column("median", "packets/s", is_detail=True),
                Column("CPU time a packet", "s"), Column("memory", "bytes"))


def job(lab: Lab, way: str) -> Job:
    capture = lab.composed("1Gbps", "50ms", 1)
    if way == "plain":
        words = ("nf", "run", "nat", capture)
    else:
        words = ("replay", capture, "--nf=nat", "--clock=real", "--preload",
                 "--unit_capacity=none", "--max_units=1", "--no_check",
                 f"--threads={1 if way == 'one' else 2}", "--json=-",
                 "--quiet")
    return Job(f"nat: {WAYS[way]}", "at_load.py",
               (Program(), "--share=", "--speeds=" + ",".join(SPEEDS),
                f"--loop={lab.choose(8, 4)}",
                f"--repetitions={lab.choose(3, 2)}", *words),
               lab.choose(200, 70), is_timed=True)


def jobs(lab: Lab) -> list[Job]:
    return [job(lab, way) for way in WAYS]


def at(lab: Lab, outcomes: Outcomes, way: str, speed: str) -> dict:
    """Of the run with the least p99."""
    load = next(load for load in outcomes[job(lab, way)]["loads"]
                if load["speed"] == speed)
    best = min(range(len(load["p99"])), key=lambda i: load["p99"][i])
    return {name: load[name][best] for name in ("p50", "p99", "dropped",
                                                "pps")}


def row(lab: Lab, outcomes: Outcomes, way: str, speed: str) -> tuple:
    found = at(lab, outcomes, way, speed)
    return (WAYS[way], speed, found["pps"], found["dropped"], found["p50"],
            found["p99"])


def cost(lab: Lab, outcomes: Outcomes, way: str) -> tuple:
    ran = outcomes[job(lab, way)]
    return (WAYS[way], max(ran["max_pps"]), statistics.median(ran["max_pps"]),
            cpu_of_packet(ran), statistics.median(ran["memory_bytes"]))


def waited(lab: Lab, outcomes: Outcomes) -> float:
    return max(outcomes[job(lab, way)]["waited"] for way in WAYS)


def loses(lab: Lab, outcomes: Outcomes, speed: str):
    ours = {way: at(lab, outcomes, way, speed)["dropped"] for way in WAYS}
    text = ", ".join(f"{WAYS[way]} {100 * share:.3f} %"
                     for way, share in ours.items())
    return in_calm(waited(lab, outcomes), text,
                   verdict(min(ours["one"], ours["two"]), PAPER_LOSS[speed],
                           "lower"))


def times(lab: Lab, outcomes: Outcomes, speed: str):
    plain = at(lab, outcomes, "plain", speed)["p50"]
    ours = {way: at(lab, outcomes, way, speed)["p50"] for way in WAYS}
    least = min(ours["one"], ours["two"]) / plain
    text = f"{least:.1f}× (p50): " + ", ".join(
        f"{WAYS[way]} {cell(value, 's')}" for way, value in ours.items())
    return in_calm(waited(lab, outcomes), text,
                   verdict(least, PAPER_TIMES[speed], "lower"), is_ratio=True)


def why_times(lab: Lab, outcomes: Outcomes, speed: str) -> str:
    plain = at(lab, outcomes, "plain", speed)["p50"]
    ours = at(lab, outcomes, "one", speed)["p50"]
    return (f"it is {cell(ours - plain, 's')} more, of a packet that the plain "
            f"program has in {cell(plain, 's')}: a controller, a ring to the "
            "unit and one back are in it; NFoS' ratio is of tens of "
            "microseconds through network cards and kernels on both sides")


def is_shorter(lab: Lab, outcomes: Outcomes):
    ours = at(lab, outcomes, "one", "100Mbps")["p50"]
    return in_calm(waited(lab, outcomes), cell(ours, "s"),
                   verdict(ours, 120e-6, "lower"))


def takes_cpu(lab: Lab, outcomes: Outcomes):
    plain, ours = (known_cpu_of_packet(outcomes[job(lab, way)])
                   for way in ("plain", "one"))
    return (f"{ours / plain:.2f}×: {cell(ours, 's')} a packet against "
            f"{cell(plain, 's')}",
            verdict(ours / plain, 0.92, "lower"))


def why_cpu(lab: Lab, outcomes: Outcomes) -> str:
    plain, ours = (known_cpu_of_packet(outcomes[job(lab, way)])
                   for way in ("plain", "one"))
    return (f"flowlets, placement, messages and clocks take "
            f"{cell(ours - plain, 's')} a packet; in NFoS what takes a packet "
            "from the wire, in both alike, weighs more than that: at 100 "
            f"Mbit/s snf has {cell(12_500 * ours, 'share')} of a CPU to do")


def memory(lab: Lab, outcomes: Outcomes):
    plain, ours = (cost(lab, outcomes, way)[4] for way in ("plain", "one"))
    return (f"{(ours - plain) / 1e6:.0f} MB more: {ours / 1e6:.0f} MB against "
            f"{plain / 1e6:.0f} MB, the capture in both",
            holds(ours > plain))


def findings(lab: Lab, outcomes: Outcomes) -> Findings:
    found = Findings("What came out, beside what NFoS found")
    for speed, paper in PAPER_LOSS.items():
        found.add(f"lost packets in the platform, {speed}",
                  f"{100 * paper:.3f} % (Table II)", "as many, or fewer",
                  lambda s=speed: loses(lab, outcomes, s))
        found.add(f"latency in the platform against a program, {speed}",
                  f"{PAPER_TIMES[speed]}× (Table II)", "as much, or less",
                  lambda s=speed: times(lab, outcomes, s),
                  lambda s=speed: why_times(lab, outcomes, s))
    found.add("latency in the platform, 100Mbps", "120 µs (Table II)",
              "as long, or shorter", lambda: is_shorter(lab, outcomes))
    found.add("CPU time in the platform against a program",
              "55 % against 60 % of a CPU, 0.92× (Fig. 4)",
              "as much, or less", lambda: takes_cpu(lab, outcomes),
              lambda: why_cpu(lab, outcomes))
    found.add("memory in the platform against a program",
              "30 MB against 20 MB (Fig. 4)", "more",
              lambda: memory(lab, outcomes))
    found.add_not_run("DHCP, serverless and serverful", "0 % against 11–87 % "
                      "errors at 100 requests/s (Table III)",
                      "snf has no NF that serves DHCP")
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    rows = known_rows((row, (lab, outcomes, way, speed))
                      for way in WAYS for speed in SPEEDS)
    costs = known_rows((cost, (lab, outcomes, way)) for way in WAYS)
    return Report(
        tables=[findings(lab, outcomes).table,
                Table("", "At a rate", COLUMNS, rows),
                Table("costs", "As fast as it goes", COST_COLUMNS, costs)],
        draw=lambda figure: draw(figure, rows, costs), size=(10.0, 4.0))


def draw(figure, rows: list[tuple], costs: list[tuple]):
    from charts import COLOURS, plain, show_unit_of
    if not rows:
        raise Missing("no run to draw")
    left, right = figure.subplots(1, 2)
    plain(left, "y")
    for i, name in enumerate(WAYS.values()):
        mine = [each for each in rows if each[0] == name]
        for at_quantile, look in ((4, "-"), (5, "--")):
            left.plot([SPEEDS.index(each[1]) for each in mine],
                      [each[at_quantile] for each in mine], look,
                      marker="os^"[i], color=COLOURS[i],
                      label=f"{name}, p{50 if at_quantile == 4 else 99}")
    left.set_xticks(range(len(SPEEDS)), SPEEDS)
    left.set_yscale("log")
    left.set_title("Latency")
    show_unit_of(left.yaxis, "s")
    left.legend(fontsize=7, handlelength=3.5)  # long enough to show dashes
    plain(right, "y")
    costs = [each for each in costs if each[3] is not None]
    right.bar(range(len(costs)), [each[3] for each in costs],
              color=COLOURS[:len(costs)])
    right.set_xticks(range(len(costs)), [each[0] for each in costs],
                     fontsize=8)
    right.set_title("CPU time a packet, as fast as it goes")
    show_unit_of(right.yaxis, "s")

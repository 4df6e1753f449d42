# SPDX-License-Identifier: Apache-2.0
"""Many hosts: what a decision costs, and what the loss of a host does."""

from results import cell
from scenario import (Column, Findings, Job, Lab, Made, Missing, Out, Outcomes,
                      Program, Report, Table, holds, in_calm, known_rows,
                      name_of_flag)

SUMMARY = "10,000 units on 100 hosts: what a run costs, and the loss of a host"
SOURCE = "DASH; Serpens §V"
ABOUT = """
Swept: how many hosts of 100 units each there are, all warm, and with them the
traffic: two UDP flows a unit, each with a packet of 200 bytes every 4 ms, give
or take a fifth. Packets are farther apart than the flowlet timeout, so each is
placed anew, by demand, on a unit of 1 Mbit/s. A firewall in virtual time, whose
state is pulled (--state=reactive): a push ahead goes to each of the 100 units of
a host, and pushes take most of the CPU time of such a run. CPU time is that of
the whole run, on one thread: units and network are run by it as well. In a run
of its own, with output loggers on the next host, a host is killed after 20 ms,
with its 100 units and the loggers of the host before it, which the controller
knows 1 ms later (--faults). Of each flow whose last packet was on that host, the
time counts until its next packet has left: from the failure on, or from that
packet's arrival.
"""

UNITS = 100  # of a host
FLOWS_OF_UNIT = 2
GAP_US = 4_000
BYTES = 200
AT_MS, DURATION_MS = 20, 40
DETECTION_S = 1e-3  # the default of --faults in virtual time
FLAGS = ("--nf=firewall(default=allow)", "--unit_capacity=1Mbps",
         "--load_signal=demand",
         "--demand_floor=4ms", "--first_demand=400kbps", "--state=reactive",
         "--unit_idle_timeout=1s", "--max_flows=32768", "--no_check")
COLUMNS = (Column("hosts"), Column("units"), Column("flows"),
           Column("packets"), Column("CPU a packet", "s"),
           Column("CPU a decision", "s"), Column("decisions"),
           Column("units in use"), Column("memory", "bytes"),
           Column("latency p50", "s"), Column("latency p99", "s"))
LOSS_COLUMNS = (Column("hosts"), Column("units lost"),
                Column("loggers lost"), Column("flows of the host"),
                Column("flows silent since"),
                Column("served again p50", "s"),
                Column("served again p99", "s"),
                Column("served again, last", "s"),
                Column("latency before p50", "s"), Column("packets lost"),
                Column("flows moved"), Column("flows given up"),
                Column("packets held at most"))


def hosts(lab: Lab) -> tuple[int, ...]:
    return lab.choose((10, 30, 100), (2, 4))


def capture(count: int) -> Made:
    flows = count * UNITS * FLOWS_OF_UNIT
    return Made(Job(f"{flows:,} flows", "steady_flows.py",
                    (Out("", "capture.pcap"), f"--flows={flows}",
                     f"--gap={GAP_US}", f"--then={GAP_US}",
                     f"--duration={DURATION_MS}", f"--bytes={BYTES}",
                     "--seed=1")), "capture.pcap")


def job(lab: Lab, count: int) -> Job:
    given = {name_of_flag(flag) for flag in lab.flags}
    own = [flag for flag in FLAGS if name_of_flag(flag) not in given]
    return Job(f"{count} hosts", "host_loss.py",
               (Program(), capture(count), f"--hosts={count}",
                f"--units={UNITS}", f"--at={AT_MS}",
                f"--repetitions={lab.choose(3, 1)}", *own, *lab.flags),
               2 * count, is_timed=True)


def jobs(lab: Lab) -> list[Job]:
    return [job(lab, count) for count in hosts(lab)]


def row(lab: Lab, outcomes: Outcomes, count: int) -> tuple:
    ran = outcomes[job(lab, count)]
    return (count, count * UNITS, ran["flows"], ran["packets"],
            ran["cpu_ns"] / 1e9, ran["decision_cpu_ns"] / 1e9,
            ran["decisions"], ran["units"], ran["memory_bytes"],
            ran["latency_ns.p50"] / 1e9, ran["latency_ns.p99"] / 1e9)


def loss_row(lab: Lab, outcomes: Outcomes, count: int) -> tuple:
    lost = outcomes[job(lab, count)]["killed"]
    served = lost["served_s"]
    return (count, lost["kills"], lost["logger_kills"], lost["affected"],
            lost["silent"], served["p50"], served["p99"], served["max"],
            served["p50_before"], lost["packets_lost"], lost["flows_moved"],
            lost["flows_given_up"], lost["held_packets_max"])


def ends(lab: Lab, outcomes: Outcomes, key) -> tuple:
    """Of the fewest and of the most hosts."""
    few, *_, many = (outcomes[job(lab, count)] for count in hosts(lab))
    return key(few), key(many)


def grows(lab: Lab, outcomes: Outcomes):
    few, many = ends(lab, outcomes, lambda ran: ran["cpu_ns"] / 1e9)
    waited = max(ends(lab, outcomes, lambda ran: ran["waited"]))
    return in_calm(waited, f"{cell(few, 's')} a packet, then "
                   f"{cell(many, 's')}: {many / few:.2f} ×",
                   holds(many <= 2 * few), is_ratio=True)


def all_return(lost: dict) -> bool:
    """Whether each flow of the host has had a packet since."""
    return lost["affected"] > 0 and lost["silent"] == 0


def is_served(lab: Lab, outcomes: Outcomes):
    _, lost = ends(lab, outcomes, lambda ran: ran["killed"])
    if not lost["affected"]:
        raise Missing("no flow was on the host")
    served = lost["served_s"]
    return (f"p50 {cell(served['p50'], 's')}, p99 {cell(served['p99'], 's')}, "
            f"last {cell(served['max'], 's')}, of {lost['affected']:,} flows, "
            f"{lost['silent']:,} silent since",
            holds(all_return(lost) and served["p99"] <= 2))


def is_as_fast(lab: Lab, outcomes: Outcomes):
    lost = ends(lab, outcomes, lambda ran: ran["killed"])
    few, many = (each["served_s"]["p99"] for each in lost)
    if not all(each["affected"] for each in lost):
        raise Missing("no flow was on the host")
    return (f"p99 {cell(few, 's')}, then {cell(many, 's')}; "
            f"{lost[0]['silent']:,} flows silent since, then "
            f"{lost[1]['silent']:,}",
            holds(all(map(all_return, lost))
                  and many <= 1.5 * few + DETECTION_S))


def loses_no_flow(lab: Lab, outcomes: Outcomes):
    lost = [outcomes[job(lab, count)]["killed"] for count in hosts(lab)]
    is_sound = all(each["conserved"] and each["violations"] == 0
                   for each in lost)
    return (", ".join(f"{each['flows_given_up']} flows and "
                      f"{each['packets_lost']} packets of "
                      f"{each['packets_in']:,}, {each['silent']:,} flows "
                      "silent since" for each in lost),
            holds(is_sound and all(each["flows_given_up"] == each["silent"] == 0
                                   for each in lost)))


def findings(lab: Lab, outcomes: Outcomes) -> Findings:
    few, *_, many = hosts(lab)
    found = Findings("What came out")
    found.add(f"CPU time of a packet, {few} to {many} hosts", "not told",
              "at most twice as much", lambda: grows(lab, outcomes))
    found.add(f"a host is lost: its flows are served again, {many} hosts",
              "DASH: within 2 s", "p99 within 2 s",
              lambda: is_served(lab, outcomes))
    found.add(f"the same, {few} to {many} hosts", "not told", "as fast",
              lambda: is_as_fast(lab, outcomes))
    found.add("what the loss of a host loses, by hosts", "not told",
              "no flow, and packets in the host alone",
              lambda: loses_no_flow(lab, outcomes))
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    def rows(make):
        return known_rows((make, (lab, outcomes, count))
                          for count in hosts(lab))
    return Report(
        tables=[findings(lab, outcomes).table,
                Table("", f"Hosts of {UNITS} units", COLUMNS, rows(row)),
                Table("loss", "A host is killed", LOSS_COLUMNS,
                      rows(loss_row))],
        draw=lambda figure: draw(figure, rows(row), rows(loss_row)),
        size=(10.0, 3.6))


def draw(figure, runs: list[tuple], losses: list[tuple]):
    from charts import COLOURS, plain, show_unit_of
    if not runs or not losses:
        raise Missing("no run to draw")
    left, right = figure.subplots(1, 2)
    for axes, title, rows, series in (
            (left, "CPU time of a packet", runs, (("", 4),)),
            (right, "Flows of a lost host are served again",
             [row for row in losses if None not in row[5:7]],
             (("p50", 5), ("p99", 6)))):
        plain(axes, "y")
        for i, (label, column) in enumerate(series):
            axes.plot([str(row[0]) for row in rows],
                      [row[column] for row in rows], color=COLOURS[i],
                      marker="os"[i], label=label)
        axes.set_title(title)
        axes.set_xlabel(f"hosts of {UNITS} units")
        axes.set_ylim(bottom=0)
        show_unit_of(axes.yaxis, "s")
    right.legend(fontsize=8)

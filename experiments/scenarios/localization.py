# SPDX-License-Identifier: Apache-2.0
"""State in the program, what is shared in a store, or all of it there."""

import statistics

from grid import nf_text
from results import cell
from scenario import (Column, Findings, Job, Lab, Missing, Outcomes, Program,
                      Report, Table, cpu_of_packet, holds, in_calm, known_rows,
                      verdict)

SUMMARY = "state in the unit against state in a store, for each packet"
SOURCE = "Serpens Fig. 12"
ABOUT = """
Swept: the NF, and where its state is between packets: in the program; what
instances share (tables, pools of ports) in a Redis on the same machine, as
Serpens has it of SNF; or all of it there, as of Fission. The NF runs as a plain
program (snf nf run), so that nothing but the place of state differs, in real
time. What one packet asks of the Redis goes in one request, as in Serpens; or,
beside that, what 32 packets ask. Throughput
is that of the fastest of some runs at --speed=max. Latency is at 8,000 packets/s,
which all of them reach, and beside that at 80 % of each one's own throughput.
Serpens finds local state 35.1, 48.1, 19.5 and 6.4 times as fast as remote state
for firewall, monitor, NAT and IDS, the monitor 24.3 times as fast as with remote
shared state, and a latency 80 to 92 % lower.
"""

NFS = {"firewall": (35.1, 0.804), "monitor": (48.1, 0.918),
       "nat": (19.5, 0.906), "ids": (6.4, None)}  # no latency is told
# By name: where state is, and packets of a request.
STATES = {"local": ("in the program", 1),
          "tables": ("shared state in Redis", 1),
          "remote": ("all state in Redis", 1),
          "tables, 32": ("shared state in Redis, 32 packets together", 32),
          "remote, 32": ("all state in Redis, 32 packets together", 32)}
WITHOUT_TABLES = ("firewall",)  # instances share nothing
MONITOR_TABLES, MONITOR_LATENCY = 24.3, 0.839
COLUMNS = (Column("NF"), Column("state"), Column("throughput", "packets/s"),
           Column("median", "packets/s", is_detail=True),
           Column("CPU time a packet", "s"), Column("latency p50", "s"),
           Column("latency p99", "s"), Column("lost", "share"),
           Column("waited for a CPU", "share"),
           Column("p50 at 80 %", "s"), Column("p99 at 80 %", "s"),
           Column("lost at 80 %", "share"))
SAME_SPEED = "8kpps"  # of all; a Redis on the same machine answers as often


def job(lab: Lab, nf: str, state: str) -> Job:
    capture = lab.composed("1Gbps", lab.choose("200ms", "50ms"), 1)
    name, batch = STATES[state]
    # So that each run takes some tenths of a second, and tables are warm in
    # most of it.
    loops = {"local": lab.choose(50, 20)}.get(state, 2)
    cost = {"tables": 200, "remote": 500}.get(state, 20)
    return Job(f"{nf}, state {name}", "at_load.py",
               (Program(), f"--repetitions={lab.choose(3, 1)}",
                f"--speeds={SAME_SPEED}", "--speeds_loop=1", "nf", "run",
                nf_text(nf), capture, f"--state={state.split(',')[0]}",
                f"--batch={batch}", f"--loop={loops}"),
               lab.choose(cost, cost / 6), is_timed=True)


def jobs(lab: Lab) -> list[Job]:
    return [job(lab, nf, state) for nf in NFS for state in STATES]


def row(lab: Lab, outcomes: Outcomes, nf: str, state: str) -> tuple:
    ran = outcomes[job(lab, nf, state)]
    at_own, at_same = (
        [load[name][min(range(len(load["p99"])), key=load["p99"].__getitem__)]
         for name in ("p50", "p99", "dropped")] for load in ran["loads"])
    return (nf, STATES[state][0], max(ran["max_pps"]),
            statistics.median(ran["max_pps"]), cpu_of_packet(ran), *at_same,
            ran["waited"], *at_own)


class Rows(dict):
    """By NF and state."""

    def __missing__(self, key):
        raise Missing("no run of " + ", ".join(key))


def throughput(rows: Rows, nf: str, state: str, paper: float):
    local, other = rows[nf, "local"][2], rows[nf, state][2]
    ours = local / other
    return in_calm(max(rows[nf, "local"][8], rows[nf, state][8]),
                   f"{ours:.1f}×: {local / 1e6:.2f} against "
                   f"{other / 1e6:.3f} M packets/s",
                   verdict(ours, paper, "higher", 0.25), is_ratio=True)


def why(rows: Rows, nf: str, state: str) -> str:
    local, other = rows[nf, "local"], rows[nf, state]
    return (f"a packet takes {cell(1 / local[2], 's')} with local and "
            f"{cell(1 / other[2], 's')} with remote state here; that the "
            "requests of several packets go together is not told of Serpens. "
            "With 32 packets together: "
            f"{cell(1 / rows[nf, state.split(',')[0] + ', 32'][2], 's')}")


def latency(rows: Rows, nf: str, state: str, paper: float):
    local, other = rows[nf, "local"], rows[nf, state]
    ours = 1 - local[5] / other[5]
    return in_calm(max(local[8], other[8]),
                   f"{100 * ours:.1f} % lower: {cell(local[5], 's')} against "
                   f"{cell(other[5], 's')}",
                   verdict(ours, paper, "higher", 0.1), is_ratio=True)


def why_latency(rows: Rows, nf: str, state: str) -> str:
    local, other = rows[nf, "local"], rows[nf, state]
    return (f"p99 is {cell(local[6], 's')} against {cell(other[6], 's')}; at 80 "
            f"% of its own throughput, p50 is {cell(local[9], 's')} against "
            f"{cell(other[9], 's')}")


def orders(rows: Rows, nf: str):
    states = [state for state in ("local", "tables", "remote")
              if state != "tables" or nf not in WITHOUT_TABLES]
    values = [rows[nf, state][2] for state in states]
    return in_calm(max(rows[nf, state][8] for state in states),
                   " > ".join(f"{value / 1e3:,.0f} k" for value in values)
                   + " packets/s",
                   holds(values == sorted(values, reverse=True)))


def findings(rows: Rows) -> Findings:
    found = Findings("What came out, beside what Serpens found")
    for nf, (times, share) in NFS.items():
        found.add(f"throughput, {nf}, local against remote",
                  f"{times}× (Fig. 12a)", "as much, or more",
                  lambda n=nf, t=times: throughput(rows, n, "remote", t),
                  lambda n=nf: why(rows, n, "remote"))
        if share is not None:
            found.add(f"latency p50, {nf}, local against remote",
                      f"{100 * share:.1f} % lower, mean (Fig. 12b)",
                      "as much, or more",
                      lambda n=nf, s=share: latency(rows, n, "remote", s),
                      lambda n=nf: why_latency(rows, n, "remote"))
        shared = "" if nf in WITHOUT_TABLES else "shared state remote > "
        found.add(f"local > {shared}all remote, {nf}",
                  "in this order (Fig. 12a)", "in this order",
                  lambda n=nf: orders(rows, n),
                  lambda n=nf: why(rows, n, "remote" if n in WITHOUT_TABLES
                                   else "tables"))
        found.add(f"throughput, {nf}, local against remote, 32 packets "
                  "together", f"{times}× (Fig. 12a)", "as much, or more",
                  lambda n=nf, t=times: throughput(rows, n, "remote, 32", t),
                  lambda n=nf: why(rows, n, "remote, 32"))
    found.add("throughput, monitor, local against remote shared state",
              f"{MONITOR_TABLES}× (Fig. 12a)", "as much, or more",
              lambda: throughput(rows, "monitor", "tables", MONITOR_TABLES),
              lambda: why(rows, "monitor", "tables"))
    found.add("latency p50, monitor, local against remote shared state",
              f"{100 * MONITOR_LATENCY:.1f} % lower, mean (Fig. 12b)",
              "as much, or more",
              lambda: latency(rows, "monitor", "tables", MONITOR_LATENCY),
              lambda: why_latency(rows, "monitor", "tables"))
    found.add_not_run("VPN", "7.5× (Fig. 12a)", "no tunnel is given for it")
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    keys = [(nf, state) for nf in NFS for state in STATES]
    rows = Rows()
    for key in keys:
        rows.update({key: each for each in known_rows(
            [(row, (lab, outcomes, *key))])})
    return Report(tables=[findings(rows).table,
                          Table("", "NFs and where their state is", COLUMNS,
                                list(rows.values()))],
                  draw=lambda figure: draw(figure, rows), size=(10.0, 4.6))


def draw(figure, rows: Rows):
    from charts import COLOURS, plain, show_unit_of
    if not rows:
        raise Missing("no run to draw")
    for axes, at, title, unit in zip(
            figure.subplots(1, 2), (2, 5),
            ("Packets a second at most", "Latency p50 at 8,000 packets/s"),
            ("packets/s", "s")):
        plain(axes, "y")
        for i, state in enumerate(STATES):
            shown = [k for k, nf in enumerate(NFS) if (nf, state) in rows]
            axes.bar([k + 0.17 * (i - 2) for k in shown],
                     [rows[list(NFS)[k], state][at] for k in shown], 0.16,
                     color=COLOURS[i], hatch=("", "//", "..", "xx", "\\\\")[i],
                     edgecolor="white", label=STATES[state][0])
        axes.set_xticks(range(len(NFS)), NFS)
        axes.set_yscale("log")
        axes.set_title(title)
        show_unit_of(axes.yaxis, unit)
    top = figure.axes[1].get_ylim()[1]
    figure.axes[1].set_ylim(top=30 * top)  # room for what the bars are
    figure.axes[1].legend(fontsize=7, loc="upper left")

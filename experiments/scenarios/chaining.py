# SPDX-License-Identifier: Apache-2.0
"""Chains of one to eight firewalls within a unit and by proxies, in real time."""

import statistics

from results import cell
from scenario import (NOT_RUN, Column, Findings, Job, Lab, Made, Missing,
                      Outcomes, Report, Table, holds, known_rows, ratio)

SUMMARY = "throughput of chains of 1 to 8 firewalls, by calls and by proxies"
SOURCE = "Serpens Fig. 13"
ABOUT = """
Swept: how many firewalls a chain has. It runs in one unit, by calls, in real
time as fast as this machine can (--clock=real --speed=max), on one unit without
a limit; the capture is read before. Each is run five times, alone; the fastest
counts, which others on the machine disturbed least, with the median beside.

SNF has no chains across units. So what proxies cost is measured with plain
programs (snf nf run --chain=local, global): each firewall is a process of its
own, a further process carries batches of 32 packets from each to the next, by
unix sockets or by TCP on this machine, and all share one CPU. The same plain
program by calls is the base. These proxies do nothing but carry: they neither
schedule nor scale, and are on one machine, so they cost less than those of
SAND and Fission, whose code is not run. Serpens finds its chain in a unit 1.6
to 2.1 times as fast as by a proxy on each server and 2.3 to 2.7 times as fast
as by one for all. Its latencies (Fig. 13b) are not repeated: a paced sender
would want a CPU of its own.
"""

LENGTHS = tuple(range(1, 9))
REPETITIONS = 5
MOST_UNREST = 1.3  # of the fastest run against the median
# Serpens' factors, of which the lower end is expected at least.
PROXIES = {"local": ("by a local proxy (SAND)", "1.6–2.1×", 1.6),
           "global": ("by a global proxy (Fission)", "2.3–2.7×", 2.3)}
PROXY_LENGTHS = (2, 4, 8)
BATCH = 32
PROXY_COLUMNS = (Column("length"), Column("way"),
                 Column("throughput", "packets/s"),
                 Column("median", "packets/s", is_detail=True),
                 Column("CPU time a packet", "s"),
                 Column("calls are faster", "×"))
COLUMNS = (Column("length"), Column("throughput", "packets/s"),
           Column("median", "packets/s", is_detail=True),
           Column("a packet", "s"), Column("dropped", "packets"))


def capture(lab: Lab) -> Made:
    return lab.composed("1Gbps", lab.choose("1s", "200ms"), 1)


def job(lab: Lab, length: int, repetition: int) -> Job:
    # The seed tells repetitions apart: it is that of hashes.
    return lab.replay(
        f"{length} firewalls, {repetition} of {REPETITIONS}", capture(lab),
        "--nf=" + " | ".join(["firewall"] * length), "--clock=real",
        "--speed=max", "--preload", "--unit_capacity=none", "--max_units=1",
        "--no_check", f"--loop={lab.choose(10, 5)}",
        f"--seed={repetition}", is_timed=True)


def plain_job(lab: Lab, length: int, way: str, repetition: int) -> Job:
    return Job(f"{length} firewalls by {way}, {repetition} of {REPETITIONS}",
               "snf", ("nf", "run", " | ".join(["firewall"] * length),
                       capture(lab), f"--chain={way}", f"--batch={BATCH}",
                       # Only tells repetitions apart, by one packet.
                       f"--queue={1024 + repetition}",
                       f"--loop={lab.choose(10, 5)}"), is_timed=True)


def jobs(lab: Lab) -> list[Job]:
    """Ways take turns, so that others on the machine disturb all alike."""
    return [each for i in range(lab.choose(REPETITIONS, 3)) for each in
            ([job(lab, length, i + 1) for length in LENGTHS] +
             [plain_job(lab, length, way, i + 1) for length in PROXY_LENGTHS
              for way in ("calls", *PROXIES)])]


def proxy_row(lab: Lab, outcomes: Outcomes, length: int, way: str) -> tuple:
    def ran(by):
        return [outcomes[plain_job(lab, length, by, i + 1)]
                for i in range(lab.choose(REPETITIONS, 3))]
    if len({each["digest"] for by in (way, "calls") for each in ran(by)}) != 1:
        raise Missing(f"chains by {way} and by calls release other packets")
    rates = [each["packets_per_s"] for each in ran(way)]
    calls = max(each["packets_per_s"] for each in ran("calls"))
    return (length, way, max(rates), statistics.median(rates),
            min(each["cpu_ns_a_packet"] for each in ran(way)) / 1e9,
            ratio(calls, max(rates)))


def proxies_cost(rows: list[tuple], way: str, least: float):
    factors = [row[-1] for row in rows if row[1] == way]
    if len(factors) < len(PROXY_LENGTHS):
        raise Missing("not all lengths were run")
    unrest = max(row[2] / row[3] for row in rows if row[1] in (way, "calls"))
    if unrest > MOST_UNREST:
        return (f"the fastest run is up to {unrest:.2f}× as fast as the "
                "median: this machine was busy; --out=DIR runs them anew",
                NOT_RUN)
    return (f"{min(factors):.1f}–{max(factors):.1f}× less, at lengths "
            f"{PROXY_LENGTHS[0]} to {PROXY_LENGTHS[-1]}",
            holds(min(factors) >= least))


def row(lab: Lab, outcomes: Outcomes, length: int) -> tuple:
    ran = [outcomes[job(lab, length, i + 1)]
           for i in range(lab.choose(REPETITIONS, 3))]
    rates = [each["packets_in"] / each["real.wall_s"] for each in ran]
    return (length, max(rates), statistics.median(rates), 1 / max(rates),
            sum(sum(each["packets_dropped"].values()) for each in ran))


def costs_little(rows: list[tuple]):
    """Not judged if runs of the same differ as if others used the machine."""
    if len(rows) < len(LENGTHS):
        raise Missing("not all lengths were run")
    unrest = max(fastest / median for _, fastest, median, *_ in rows)
    if unrest > MOST_UNREST:
        return (f"the fastest run is up to {unrest:.2f}× as fast as the "
                "median: this machine was busy; --out=DIR runs them anew",
                NOT_RUN)
    a_firewall = (rows[-1][3] - rows[0][3]) / (LENGTHS[-1] - LENGTHS[0])
    return (f"{rows[0][1] / 1e6:.2f} to {rows[-1][1] / 1e6:.2f} M packets/s, "
            f"{ratio(rows[0][1], rows[-1][1]):.2f}× less; each further "
            f"firewall costs {cell(a_firewall, 's')}",
            holds(2 * rows[-1][1] >= rows[0][1]))


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    rows = known_rows((row, (lab, outcomes, length)) for length in LENGTHS)
    found = Findings("What came out, beside what Serpens found")
    found.add("a chain in one unit, length 1 to 8", "throughput falls slowly "
              "with length (Fig. 13a)", "eight at least half as fast as one",
              lambda: costs_little(rows))
    proxied = known_rows((proxy_row, (lab, outcomes, length, way))
                         for length in PROXY_LENGTHS
                         for way in ("calls", *PROXIES))
    for way, (what, paper, least) in PROXIES.items():
        found.add(f"a chain {what}", f"{paper} less throughput (Fig. 13a)",
                  f"at least {least}× less than by calls, of plain programs",
                  lambda way=way, least=least: proxies_cost(proxied, way,
                                                            least))
    return Report(
        tables=[found.table, Table("", "Lengths of a chain", COLUMNS, rows),
                Table("proxies", "Plain programs, by calls and by proxies",
                      PROXY_COLUMNS, proxied)],
        draw=lambda figure: draw(figure, rows), size=(7.0, 4.0))


def draw(figure, rows: list[tuple]):
    from charts import COLOURS, plain
    if not rows:
        raise Missing("no run to draw")
    axes = figure.subplots()
    plain(axes)
    for column, look, name in ((1, "o-", "fastest run"), (2, "s--", "median")):
        axes.plot([each[0] for each in rows],
                  [each[column] / 1e6 for each in rows], look,
                  color=COLOURS[column - 1], label=name)
    axes.legend(fontsize=8)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("firewalls in the chain")
    axes.set_ylabel("million packets a second")
    axes.set_title("One unit")

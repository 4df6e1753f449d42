# SPDX-License-Identifier: Apache-2.0
"""A unit dies: SNF's output logger against checkpoints and a datastore."""

from grid import DROPPED, P50, P99, UNITS, Axis, Figure, Grid, composed
from results import cell
from scenario import (LIKE_PAPER, Column, Findings, Job, Lab, Means, Missing,
                      Outcomes, Report, Table, holds, in_calm, known_rows,
                      name_of_flag, verdict)

SUMMARY = "recovery of a unit: output logger, checkpoints, datastore"
SOURCE = "SNF §9.4"
ABOUT = """
Swept: the traffic, 500 Mbit/s on a NAT unit of 1 Gbit/s, which so is half
busy. The unit is killed with its host after 200 ms, and others take over its
flows from its output logger; from detection on, this is how long recovery took.
Beside that, every 7.3 ms of the run without a failure, how long it would take
with the logger, with a checkpoint every 50 ms and a replay of the input since
(FTMB), and with a datastore and a replay of what is in transit (CHC), each by
the model of snf replay --recovery (platform/report/recovery_meter.h): to move
state takes 60 µs and the time of its bytes at 10 Gbit/s, a logger is 1 µs away,
and the store is the Redis of --store. Then the three are run (snf recovery): a
unit alone has all of the traffic and dies 100 times, and each time another is
made of what each way has kept, and compared with the unit. What code does there
is timed; messages take what they do in the model; a unit of 1 Gbit/s would run
packets again at its pace. In real time, the process of units is killed, and how
long it takes until their flows are moved. On the packet path: what a packet takes
longer than without it. SNF finds 140 µs, 25.7 ms (FTMB) and 3.2 ms (CHC).
"""

WAYS = {"logger": ("SNF's output logger", 140e-6),
        "checkpoint": ("checkpoints and replay (FTMB)", 25.7e-3),
        "datastore": ("datastore and replay (CHC)", 3.2e-3)}
DETECTION = 1e-3  # of --faults in virtual time, in s
REPETITIONS = 3
REAL_COLUMNS = (Column("run"), Column("seen after", "s"),
                Column("flows moved after that", "s"), Column("flows moved"),
                Column("clocks lost"), Column("waited for a CPU", "share"))
DEATHS = 100
RUN_COLUMNS = (Column("traffic"), Column("way"),
               Column("recovery p50", "s"), Column("recovery p99", "s"),
               Column("of it code p50", "s"),
               Column("at the unit's pace p50", "s"), Column("the paper", "s"),
               Column("run again p50", "packets"),
               Column("CPU a packet", "s", True),
               Column("records compared", "records"),
               Column("wrong", "records"), Column("waited for a CPU", "share"))
THOUGHT, KILLED = "none", "unit 0 at 200 ms"


def of(key: str):
    """A time, in s; None if the run has no such figure."""
    part, name = key.split(".", 1)

    def read(ran):
        figures = ran.figures.get(part)
        return None if figures is None else ran[f"{part}.{name}"] / 1e9
    return read


def recovered(ran):
    taken = of("faults.recovery_ns.max")(ran)
    return None if taken is None else taken - DETECTION


RECOVERY = {way: tuple(
    Figure(Column(f"{way} {q}", "s"), of(f"recovery.{way}_{q}_ns"))
    for q in ("p50", "p99")) for way in WAYS}
PATH = {way: tuple(
    Figure(Column(f"path, {way} {q}", "s", True),
           of(f"recovery.{way}_path_{q}_ns"))
    for q in ("p50", "p99")) for way in WAYS}
GRID = Grid(
    axes=(Axis("killed", {THOUGHT: ("--recovery",),
                          KILLED: ("--faults=kill unit 0 at 200ms",)}),),
    figures=(*(figure for way in WAYS for figure in RECOVERY[way]),
             *(figure for way in WAYS for figure in PATH[way]),
             Figure(Column("recovered in", "s"), recovered), UNITS, P50, P99,
             DROPPED),
    base=("--nf=nat", "--loggers=on", "--warm_units=4", "--max_units=4",
          "--unit_capacity=1Gbps", "--state_delay=60us",
          "--load_signal=demand", "--no_check"),
    rates=("500Mbps", "500Mbps" + LIKE_PAPER),
    capture=composed("1s", "300ms"))
WAY_COLUMNS = (Column("traffic"), Column("way"), Column("recovery p50", "s"),
               Column("recovery p99", "s"), Column("the paper", "s"),
               Column("on the packet path p50", "s"),
               Column("on the packet path p99", "s"))


def real_job(lab: Lab, repetition: int) -> Job:
    """The process of some of the units is killed; the seed tells repetitions
    apart."""
    return lab.replay(
        f"a process killed in real time, {repetition} of {REPETITIONS}",
        lab.composed("50Mbps", "500ms", 1), "--nf=nat", "--clock=real",
        "--speed=1x", "--loggers=on", "--threads=3", "--isolation=process",
        "--unit_capacity=none", "--faults=kill unit 0 at 200ms", "--no_check",
        f"--seed={repetition}", is_timed=True)


def run_job(lab: Lab, rate: str) -> Job:
    """The ways are run, on the traffic of the first seed."""
    nf = next((flag for flag in reversed(lab.flags)
               if name_of_flag(flag) == "--nf"), "--nf=nat")
    return Job(f"each way is run, {rate}", "snf",
               ("recovery", GRID.capture(lab, rate, 1), nf,
                f"--deaths={DEATHS}", "--state_delay=60us",
                "--unit_capacity=1Gbps", "--json=-"), is_timed=True)


def jobs(lab: Lab) -> list[Job]:
    return [*GRID.jobs(lab),
            *(run_job(lab, rate) for rate in GRID.traffic(lab)),
            *(real_job(lab, i + 1) for i in range(REPETITIONS))]


def real_row(outcomes: Outcomes, lab: Lab, repetition: int) -> tuple:
    ran = outcomes[real_job(lab, repetition)]
    seen = ran["faults.detection_ns.max"] / 1e9
    return (f"{repetition} of {REPETITIONS}", seen,
            ran["faults.recovery_ns.max"] / 1e9 - seen,
            ran["faults.flows_moved"], ran["faults.clocks_lost"],
            ran["waited"])


def run_row(outcomes: Outcomes, lab: Lab, rate: str, way: str) -> tuple:
    ran = outcomes[run_job(lab, rate)]

    def of_way(key: str):
        return ran[f"ways.{way}.{key}"]
    name, paper = WAYS[way]
    return (rate, name, of_way("recovery_ns.p50") / 1e9,
            of_way("recovery_ns.p99") / 1e9, of_way("executed_ns.p50") / 1e9,
            of_way("at_pace_ns.p50") / 1e9, paper,
            of_way("packets_replayed.p50"), of_way("path_cpu_ns") / 1e9,
            of_way("records"),
            of_way("records_wrong") + of_way("pieces_wrong")
            + of_way("outputs_differ"), ran["waited"])


def are_true(rows: list[tuple], rate: str):
    mine = [row for row in rows if row[0] == rate]
    if not mine:
        raise Missing("no run of the ways")
    wrong = sum(row[10] for row in mine)
    return (f"{wrong:,} of {sum(row[9] for row in mine):,} records differ",
            holds(wrong == 0))


def are_ordered_as_run(rows: list[tuple], rate: str):
    values = [row[2] for way in ("logger", "datastore", "checkpoint")
              for row in rows if row[:2] == (rate, WAYS[way][0])]
    if len(values) < len(WAYS):
        raise Missing("no run of the ways")
    return in_calm(max(row[11] for row in rows if row[0] == rate),
                   " < ".join(cell(value, "s") for value in values),
                   holds(values == sorted(values)))


def took_in_real_time(rows: list[tuple]):
    if not rows:
        raise Missing("no run in which a process was killed")
    best = min(rows, key=lambda row: row[2])
    return in_calm(
        max(row[5] for row in rows),
        ", ".join(cell(row[2], "s") for row in rows) + " after it was seen, "
        "which took " + ", ".join(cell(row[1], "s") for row in rows),
        verdict(best[2], WAYS["logger"][1], "lower"))


def why_real(rows: list[tuple]) -> str:
    return ("units, loggers and the controller are loops that take turns on "
            "the CPUs of this machine, and "
            + ", ".join(cell(row[3], "flows") for row in rows)
            + " flows were to be moved; packets lost between unit and logger: "
            + ", ".join(cell(row[4], "clocks") for row in rows))


def ways(lab: Lab, means: Means) -> list[tuple]:
    def row(rate, way):
        found = means[rate, THOUGHT]
        name, paper = WAYS[way]
        return (rate, name, *(found[figure.column.name]
                              for figure in RECOVERY[way]), paper,
                *(found[figure.column.name] for figure in PATH[way]))
    return known_rows((row, (rate, way)) for rate in GRID.traffic(lab)
                      for way in WAYS)


def takes(means: Means, rate: str, way: str):
    ours = means[rate, THOUGHT][f"{way} p50"]
    return (f"{cell(ours, 's')} (p50), "
            f"{cell(means[rate, THOUGHT][f'{way} p99'], 's')} (p99)",
            verdict(ours, WAYS[way][1], "lower"))


def took(means: Means, rate: str):
    ours = means[rate, KILLED]["recovered in"]
    return cell(ours, "s"), verdict(ours, WAYS["logger"][1], "lower")


def is_ordered(means: Means, rate: str):
    values = [means[rate, THOUGHT][f"{way} p50"]
              for way in ("logger", "datastore", "checkpoint")]
    return (" < ".join(cell(value, "s") for value in values),
            holds(values == sorted(values)))


def why(means: Means, rate: str, way: str) -> str:
    if way == "checkpoint":
        return ("half of 50 ms, half busy, is 12.5 ms of packets to run once "
                "more; the paper's 25.7 ms would be all of the time since the "
                "checkpoint: it replays at the pace at which packets came")
    return ("the models move the records of all flows of the unit at once; "
            "how many flows the paper's unit had is not told")


def findings(lab: Lab, means: Means, real: list[tuple],
             run: list[tuple]) -> Findings:
    found = Findings("What came out, beside what SNF found")
    for rate in GRID.traffic(lab):
        for way, (name, paper) in WAYS.items():
            found.add(f"recovery, {name}, {rate}", f"{cell(paper, 's')} (§9.4)",
                      "as much, or less",
                      lambda r=rate, w=way: takes(means, r, w),
                      lambda r=rate, w=way: why(means, r, w))
        found.add(f"recovery of a unit that is killed, {rate}",
                  "140 µs (§9.4)", "as much, or less",
                  lambda r=rate: took(means, r),
                  lambda: "a flow is moved once the logger has told its "
                          "newest clock, and pulls its state when a packet "
                          "needs it")
        found.add(f"logger < datastore < checkpoint, {rate}",
                  "140 µs < 3.2 ms < 25.7 ms (§9.4)", "in this order",
                  lambda r=rate: is_ordered(means, r))
        found.add(f"the same, run, {rate}",
                  "140 µs < 3.2 ms < 25.7 ms (§9.4)", "in this order",
                  lambda r=rate: are_ordered_as_run(run, r),
                  lambda: "a CPU runs packets again faster than a unit of 1 "
                          "Gbit/s does, and all records are moved before any "
                          "packet goes on, one request each with the "
                          "datastore")
        found.add(f"units that are recovered, {rate}", "correct (§6)",
                  "no record differs", lambda r=rate: are_true(run, r))
    found.add("recovery of units whose process is killed, in real time",
              "140 µs (§9.4)", "as much, or less",
              lambda: took_in_real_time(real), lambda: why_real(real))
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    means = GRID.means(lab, outcomes)
    table = Table("ways", "Ways of recovery, means over seeds", WAY_COLUMNS,
                  ways(lab, means))
    real = known_rows((real_row, (outcomes, lab, i + 1))
                      for i in range(REPETITIONS))
    run = known_rows((run_row, (outcomes, lab, rate, way))
                     for rate in GRID.traffic(lab) for way in WAYS)
    more = (table,
            Table("run", "The three ways, run", RUN_COLUMNS, run),
            Table("real", "A process is killed, in real time", REAL_COLUMNS,
                  real))
    return GRID.report(lab, outcomes, findings(lab, means, real, run), "Runs",
                       lambda figure, each: draw(figure, lab, each, run),
                       size=(10.0, 4.0), more=more)


def draw(figure, lab: Lab, means: Means, run: list[tuple]):
    from charts import show_unit_of
    axes = figure.subplots(1, 1)
    rates = GRID.traffic(lab)
    width = 0.8 / max(len(rates), 1)
    for at, rate in enumerate(rates):
        values = [means.get((rate, THOUGHT), f"{way} p50") for way in WAYS]
        axes.bar([i + at * width for i in range(len(WAYS))], values, width,
                 label=f"modelled, {rate}")
        dots = [(i + at * width, row[2]) for i, (name, _) in
                enumerate(WAYS.values()) for row in run
                if row[:2] == (rate, name)]
        axes.plot([x for x, _ in dots], [y for _, y in dots], "ko",
                  markersize=5, label=None if at else "run")
    axes.plot([i + 0.4 - width / 2 for i in range(len(WAYS))],
              [paper for _, paper in WAYS.values()], "k_", markersize=30,
              label="the paper")
    axes.set_yscale("log")
    axes.set_ylabel("recovery, p50")
    show_unit_of(axes.yaxis, "s")
    axes.set_xticks([i + 0.4 - width / 2 for i in range(len(WAYS))],
                    [name for name, _ in WAYS.values()], fontsize=8)
    axes.legend(fontsize=8)

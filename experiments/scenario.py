# SPDX-License-Identifier: Apache-2.0
"""What an experiment is made of: jobs that are run, and what is told of them.

A scenario is a file scenarios/NAME.py with

  SUMMARY    a line for `./snf experiment list`
  SOURCE     where the question comes from: "SNF Fig. 1, 2"
  ABOUT      what is swept, and what the source found: the head of the tables
  jobs(lab)            the jobs to run, from what the command line says (Lab)
  tell(lab, outcomes)  a Report of tables and charts, from their outcomes
  IN_ALL     False: `./snf experiment all` leaves it out; True by default

`outcomes[job]` is the outcome of a job, and raises Missing if it failed.
"""

import dataclasses
import pathlib
import re
import shlex
import statistics
from collections.abc import Callable, Iterable

BUNDLED = pathlib.Path(__file__).resolve().parent.parent / "traces" / \
    "small.pcap.zst"
MOST_NAMES = 3  # of captures, where there is little room
OWN_RATE = "own"  # the captures as they are, nothing overlaid
# Behind a rate: traffic with the figures of the trace of SNF's authors, by snf
# trace synth, instead of the captures.
LIKE_PAPER = ", like the paper's"


class Missing(Exception):
    """A value is asked for that no job measured, as it failed or was short."""


# --- Jobs ---------------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Job:
    """A command that is run once and whose outcome is kept.

    `program` is "snf", or a script beside this file. An argument is text, a
    path that is read (pathlib.Path), a file of another job (Made), a place in
    the job's own folder (Out), or snf itself (Program). What is printed must be
    a JSON object.
    """
    name: str = dataclasses.field(compare=False)  # "snf, 1 Gbit/s, seed 1"
    program: str
    arguments: tuple
    # Against other jobs, for the time that is left: 1 takes about 0.1 s.
    cost: float = dataclasses.field(default=1.0, compare=False)
    has_figures: bool = True  # False: what is printed is of no use
    is_timed: bool = False  # by the clock on the wall: it is run alone


@dataclasses.dataclass(frozen=True)
class Made:
    """A file that another job writes into its folder."""
    job: Job
    file: str
    flag: str = ""  # that names it: "--like="


@dataclasses.dataclass(frozen=True)
class Out:
    """An argument that names a place in the job's own folder."""
    flag: str  # "--csv="
    file: str


@dataclasses.dataclass(frozen=True)
class Program:
    """An argument: the path of snf, for a script that runs it."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    figures: dict
    folder: pathlib.Path

    def __getitem__(self, key):
        """A figure of the report: "latency_ns.p99" is a key in an object."""
        value = self.figures
        for part in key.split("."):
            value = value[part]
        return value


class Outcomes(dict):
    """Outcomes by job."""

    def __missing__(self, job):
        raise Missing(f"no outcome of {job.name}")


def name_of_flag(argument) -> str:
    """"--seed" of "--seed=1"; "" if it is none."""
    text = argument.flag if isinstance(argument, Out) else argument
    if not isinstance(text, str) or not text.startswith("--"):
        return ""
    return text.split("=", 1)[0]


def needs(job: Job) -> list[Job]:
    """The jobs whose files it reads."""
    return [argument.job for argument in job.arguments
            if isinstance(argument, Made)]


def seeds_of(jobs: Iterable[Job]) -> list[str]:
    """Of these jobs and of those that they need."""
    seeds = set()
    for job in jobs:
        seeds.update(seeds_of(needs(job)))
        seeds.update(argument.split("=")[1] for argument in job.arguments
                     if name_of_flag(argument) == "--seed")
    return sorted(seeds)


def bits_per_second(rate: str) -> float:
    """Of "1Gbps", as snf takes it; ValueError if it is none."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kMGT]?)(?:bps|bit/s)",
                         rate.removesuffix(LIKE_PAPER))
    if not match or float(match[1]) == 0:
        raise ValueError(f"'{rate}' is no rate; want as 1Gbps, or {OWN_RATE}")
    return float(match[1]) * 1000 ** " kMGT".index(match[2] or " ")


@dataclasses.dataclass(frozen=True)
class Lab:
    """What the command line says, and the jobs that scenarios share."""
    quick: bool = False
    traces: tuple[pathlib.Path, ...] = (BUNDLED,)
    rates: tuple[str, ...] = ()  # empty: those of the scenario
    flags: tuple[str, ...] = ()  # go to each replay, and come before its own

    def choose(self, whole, quick):
        return quick if self.quick else whole

    def composed(self, rate: str, duration: str, seed: int) -> Made:
        """The captures overlaid to a rate; or, at OWN_RATE, merged; or what
        is like the paper's."""
        if rate.endswith(LIKE_PAPER):
            return self._like_paper(rate.removesuffix(LIKE_PAPER), duration,
                                    seed)
        if rate == OWN_RATE:
            job = Job(f"{self.source}, as it is", "snf",
                      ("trace", "convert", *self.traces,
                       Out("", "capture.pcap"), "--quiet"), has_figures=False)
        else:
            job = Job(f"{self.source} at {rate} for {duration}, seed {seed}",
                      "snf", ("trace", "compose", *self.traces,
                              f"--rate={rate}", f"--duration={duration}",
                              f"--seed={seed}", Out("--out=", "capture.pcap"),
                              "--snap=96", "--json=-", "--quiet"))
        return Made(job, "capture.pcap")

    @staticmethod
    def _like_paper(rate: str, duration: str, seed: int) -> Made:
        return Made(Job(f"like the paper's trace at {rate} for {duration}, "
                        f"seed {seed}", "snf",
                        ("trace", "synth", "--preset=snf_199k",
                         f"--rate={rate}", f"--duration={duration}",
                         f"--seed={seed}", "--snap=96",
                         Out("--out=", "capture.pcap"), "--json=-",
                         "--quiet")), "capture.pcap")

    @property
    def source(self) -> str:
        names = [trace.name for trace in self.traces]
        if len(names) > MOST_NAMES:
            return f"{len(names)} captures, {names[0]} … {names[-1]}"
        return "+".join(names)

    def replay(self, name: str, capture: Made, *flags: str,
               series: bool = False, is_timed: bool = False) -> Job:
        """A replay; flags of the command line replace the same of `flags`."""
        given = {name_of_flag(flag) for flag in self.flags}
        own = [flag for flag in flags if name_of_flag(flag) not in given]
        if series:
            own.append(Out("--csv=", "series"))
        return Job(name, "snf", ("replay", capture, *own, *self.flags,
                                 "--json=-", "--quiet"), is_timed=is_timed)

    def bounds(self, name: str, capture: Made, capacity: int) -> Job:
        return Job(name, "bounds.py", (capture, f"--capacity={capacity}"), 3)


def extra_flags(text: str) -> tuple[str, ...]:
    """The words of --flags; ValueError tells what is wrong with them."""
    words = tuple(shlex.split(text))
    for word in words:
        if not word.startswith("--"):
            raise ValueError(f"'{word}' is no flag; want --NAME=VALUE")
        if name_of_flag(word) in ("--json", "--csv", "--quiet", "--compare"):
            raise ValueError(f"'{word}': the experiment sets that itself")
    return words


# --- What is told -------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Column:
    name: str
    unit: str = ""  # of numbers: "bit/s", "s", "share", "units"; "": none
    is_detail: bool = False  # left out on a terminal
    # True: half of the 95 % confidence interval of the column before.
    is_interval: bool = False


@dataclasses.dataclass
class Table:
    """A cell is text, a number in the column's unit, or None: not known."""
    name: str   # of its file, behind that of the scenario; "" is the first
    title: str
    columns: tuple[Column, ...]
    rows: list[tuple] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Report:
    tables: list[Table]
    # Draws all charts on a figure of matplotlib.
    draw: Callable | None = None
    size: tuple[float, float] = (10.0, 6.0)  # of the figure in inches
    series: list[Table] = dataclasses.field(default_factory=list)  # CSV alone
    # Other files; None: none of that name is left from an earlier run.
    files: dict[str, str | None] = dataclasses.field(default_factory=dict)


REPRODUCED, BETTER, DIFFERS, FAILED, NOT_RUN = (
    "reproduced", "better", "differs", "a run failed", "not run")


def verdict(ours: float, paper: float, better: str, within: float = 0.1) -> str:
    """`better` is "lower" or "higher"; within a tenth is the same."""
    if abs(ours - paper) <= within * abs(paper):
        return REPRODUCED
    return BETTER if (ours < paper) == (better == "lower") else DIFFERS


def holds(is_so: bool) -> str:
    return REPRODUCED if is_so else DIFFERS


BUSY = 0.2  # of the time in which somebody waits for a CPU


def in_calm(waited: float, text: str, came_out: str, is_ratio: bool = False):
    """A finding of times by the clock on the wall, which are longer where
    there are fewer CPUs than work, the run's own included: one that differs,
    or a ratio of two, is no finding then. `waited` is that of pressure.py."""
    if waited <= BUSY or (came_out != DIFFERS and not is_ratio):
        return text, came_out
    return (f"{text}; but {100 * waited:.0f} % of the time somebody waited for "
            "a CPU: there were fewer CPUs than work, the run's own included; "
            "--out=DIR runs it anew", NOT_RUN)


FINDING_COLUMNS = (Column("what"), Column("the source"), Column("ours"),
                   Column("expected"), Column("verdict"), Column("why"))


class Findings:
    """A table of what was expected and what came, a line each."""

    def __init__(self, title: str):
        self.table = Table("findings", title, FINDING_COLUMNS)

    def add(self, what: str, source: str, expected: str, finding, why=None):
        """finding() returns our value as text and a verdict; or raises
        Missing. why() returns what further runs tell of a difference."""
        try:
            ours, came_out = finding()
            cause = why() if why and came_out == DIFFERS else ""
        except Missing as missing:
            ours, came_out, cause = str(missing), FAILED, ""
        self.table.rows.append((what, source, ours, expected, came_out, cause))

    def add_not_run(self, what: str, source: str, cause: str):
        """What the program cannot do yet is told, not left out."""
        self.table.rows.append((what, source, None, None, NOT_RUN, cause))


# --- Rows of runs -------------------------------------------------------------

def known_rows(rows: Iterable[tuple]) -> list[tuple]:
    """make(*arguments) of each pair of these; none of runs that failed."""
    found = []
    for make, arguments in rows:
        try:
            found.append(make(*arguments))
        except Missing:
            pass
    return found


def ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def cpu_of_packet(outcome: Outcome) -> float | None:
    """The least CPU time of a packet, in s, in an outcome of at_load.py."""
    known = [ns for ns in outcome["cpu_ns"] if ns is not None]
    return min(known) / 1e9 if known else None


def known_cpu_of_packet(outcome: Outcome) -> float:
    cpu_s = cpu_of_packet(outcome)
    if cpu_s is None:
        raise Missing("the runs were too short for the CPU time of a packet")
    return cpu_s


def is_by_nf(reason: str) -> bool:
    """Whether an NF does not let such packets through: for want of a
    translation, too, as of an answer that a capture has before what it answers
    has left a NAT."""
    return reason.startswith("nf:") or reason in ("not_translated",
                                                  "no_mapping")


def dropped(outcome: Outcome) -> int:
    """Packets lost, not those that an NF does not let through."""
    return sum(count for reason, count in outcome["packets_dropped"].items()
               if not is_by_nf(reason))


def dropped_by_nf(outcome: Outcome) -> int:
    return sum(count for reason, count in outcome["packets_dropped"].items()
               if is_by_nf(reason))


# Student's t for a two-sided interval of 95 %, by degrees of freedom from 1 on.
T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def half_interval(values: list[float]) -> float | None:
    """Half of the 95 % confidence interval of the mean; None for one value.

    Values are taken as normally distributed, as far as t does so."""
    if len(values) < 2:
        return None
    t = T_95[min(len(values) - 1, len(T_95)) - 1]
    return t * statistics.stdev(values) / len(values) ** 0.5


MOST_LOST = 0.001  # of packets; above, latencies are those of the others


def over_seeds(rows: list[tuple], seed_at: int, keys: int, of_values,
               of_seeds=None) -> list[tuple]:
    """A row for all rows that have the first `keys` cells in common.

    Its cells are of_values(values), and of_seeds(count) for the seeds; a cell is
    None where one of the values is."""
    groups = {}
    for row in rows:
        groups.setdefault(row[:keys], []).append(row)
    made = []
    for key, group in groups.items():
        cells = list(key)
        for i in range(keys, len(group[0])):
            values = [row[i] for row in group]
            if i == seed_at:
                cells.append(of_seeds and of_seeds(len(group)))
            elif None in values:
                cells.append(None)
            else:
                cells.append(of_values(values))
        made.append(tuple(cells))
    return made


class Means:
    """Means over seeds, with their confidence intervals; each is found by the
    first cells of its row."""

    def __init__(self, columns: tuple[Column, ...], rows: list[tuple],
                 keys: int):
        self.keys = keys
        self.columns = columns
        self.names = [column.name for column in columns]
        seed_at = self.names.index("seed")
        self.rows = over_seeds(rows, seed_at, keys, statistics.fmean, str)
        self.halves = over_seeds(rows, seed_at, keys, half_interval)

    def __getitem__(self, key: tuple) -> dict:
        return self._found(self.rows, key)

    def _found(self, rows: list[tuple], key: tuple) -> dict:
        for row in rows:
            if row[:len(key)] == key:
                return dict(zip(self.names, row))
        raise Missing("no run of " + ", ".join(map(str, key)))

    def get(self, key: tuple, column: str) -> float:
        """NaN, which no chart shows, if it is not known."""
        return self._known(self.rows, key, column)

    def is_whole(self, key: tuple) -> bool:
        """False if latencies are of the packets alone that were not lost."""
        try:
            return (self[key].get("lost") or 0) <= MOST_LOST
        except Missing:
            return True

    def half(self, key: tuple, column: str) -> float:
        """Half of the 95 % confidence interval; NaN for one seed."""
        return self._known(self.halves, key, column)

    def _known(self, rows: list[tuple], key: tuple, column: str) -> float:
        try:
            value = self._found(rows, key)[column]
        except Missing:
            value = None
        return float("nan") if value is None else value

    def table(self, name: str, title: str, chosen=lambda row: True) -> Table:
        """All means; behind each a column of its interval.

        `chosen` is asked for each row of means."""
        is_mean = [i >= self.keys and column.name != "seed"
                   for i, column in enumerate(self.columns)]
        made = Table(name, title, tuple(
            each for column, has_interval in zip(self.columns, is_mean)
            for each in columns_of_mean(column)[:1 + has_interval]))
        for means, halves in zip(self.rows, self.halves):
            if chosen(means):
                made.rows.append(tuple(
                    cell for mean, half, has_interval
                    in zip(means, halves, is_mean)
                    for cell in (mean, half)[:1 + has_interval]))
        return made


def columns_of_mean(column: Column) -> tuple[Column, Column]:
    """Of the mean, and of its interval. That of seeds tells how many there are."""
    if column.name == "seed":
        column = dataclasses.replace(column, name="seeds")
    return column, dataclasses.replace(column, name=f"{column.name} ±",
                                       is_interval=True)

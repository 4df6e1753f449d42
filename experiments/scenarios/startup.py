# SPDX-License-Identifier: Apache-2.0
"""How long one more instance of an NF takes to start, and what it weighs."""

from results import cell
from scenario import (Column, Findings, Job, Lab, Missing, Outcomes, Program,
                      Report, Table, holds, in_calm, known_rows, verdict)

SUMMARY = "start-up time and memory of instances, by how they are started"
SOURCE = "Serpens Fig. 11, Table IV"
ABOUT = """
Swept: how one more firewall is started, and how many there are. A unit more in
a run of snf is what a parked unit is (its tables are there, its code has run);
a process and a container more have such units behind memory that is shared; one
that is parked waits for a unit (--warm_pool), and its time is the median of the
starts that the run's report tells, from the decision until the unit runs. Beside
them, on the same machine in the same run: to start a program, until a packet
went through its firewall and it ended; to fork a process that has written 64
MiB; to load a shared library, as platforms do that load an NF's code. Of units,
what a run with more takes longer than one with the fewest is shared by those
more, so its end is in it; of the others the median counts. Memory is what an
instance more takes, shared pages by their share. Serpens starts by exec in 160
ms, by fork in 16 ms, by loading in 138 µs and by mapping in 34 µs, and has 500
NFs in 210 MB.
"""

# Of each method: what it is called, the paper's time, and what has it; counts.
METHODS = {
    "exec": ("a program (exec)", 160e-3, (1, 16), (1, 8)),
    "fork": ("fork of a process", 16e-3, (1, 100), (1, 16)),
    "load": ("load of a library", 138e-6, (1, 100, 500), (1, 100)),
    "lxc": ("a container more, snf", None, (1, 8, 24), (1, 4)),
    "process": ("a process more, snf", None, (1, 8, 24), (1, 4)),
    "parked_lxc": ("a parked container, snf", 34e-6, (1, 4, 16), (1, 4)),
    "parked": ("a parked process, snf", 34e-6, (1, 4, 16), (1, 4)),
    "thread": ("a unit more, snf", 34e-6, (1, 100, 500), (1, 500))}
MOST_BYTES = 210e6  # of 500 NFs, in the paper
COLUMNS = (Column("started by"), Column("instances"), Column("a start", "s"),
           Column("CPU time", "s"),
           Column("memory of each", "bytes"), Column("Serpens", "s"))


def job(lab: Lab, method: str) -> Job:
    name, _, whole, quick = METHODS[method]
    counts = lab.choose(whole, quick)
    return Job(f"starts: {name}", "startup.py",
               (Program(), lab.composed("50Mbps", "1s", 1),
                f"--method={method}", "--counts=" + ",".join(map(str, counts)),
                f"--repetitions={lab.choose(3, 1)}"), 50, is_timed=True)


def jobs(lab: Lab) -> list[Job]:
    return [job(lab, method) for method in METHODS]


def rows(lab: Lab, outcomes: Outcomes) -> list[tuple]:
    def of(method):
        name, paper, *_ = METHODS[method]
        return [(name, row["count"], row["seconds"],
                 row.get("cpu_seconds") if method == "thread" else None,
                 row["bytes"] or None, paper)
                for row in outcomes[job(lab, method)]["rows"]]
    return [row for found in known_rows((of, (method,)) for method in METHODS)
            for row in found]


def last(lab: Lab, outcomes: Outcomes, method: str) -> dict:
    found = outcomes[job(lab, method)]["rows"]
    if not found:
        raise Missing(f"no row of {METHODS[method][0]}")
    return found[-1]


def waited(lab: Lab, outcomes: Outcomes, *methods: str) -> float:
    return max(outcomes[job(lab, method)]["waited"] for method in methods)


def time_of(lab: Lab, outcomes: Outcomes, method: str) -> float:
    return last(lab, outcomes, method)[
        "cpu_seconds" if method == "thread" else "seconds"]


def starts(lab: Lab, outcomes: Outcomes, method: str):
    ours = time_of(lab, outcomes, method)
    if method == "thread":  # whatever else the machine does
        return cell(ours, "s"), verdict(ours, METHODS[method][1], "lower", 0.25)
    return in_calm(waited(lab, outcomes, method), cell(ours, "s"),
                   verdict(ours, METHODS[method][1], "lower", 0.25))


def is_ordered(lab: Lab, outcomes: Outcomes):
    values = [last(lab, outcomes, method)["seconds"]
              for method in ("exec", "fork", "load")]
    return in_calm(waited(lab, outcomes, "exec", "fork", "load"),
                   " > ".join(cell(value, "s") for value in values),
                   holds(values == sorted(values, reverse=True)))


def beats(lab: Lab, outcomes: Outcomes, method: str, other: str):
    ours = time_of(lab, outcomes, method)
    theirs = time_of(lab, outcomes, other)
    return in_calm(waited(lab, outcomes, method, other),
                   f"{cell(ours, 's')} against {cell(theirs, 's')}",
                   holds(ours < theirs))


def weighs(lab: Lab, outcomes: Outcomes):
    row = last(lab, outcomes, "thread")
    ours = row["bytes"] * 500
    return (f"{ours / 1e6:.0f} MB, {row['bytes'] / 1e3:.0f} KB each; the run "
            f"as a whole {row['whole_bytes'] / 1e6:.0f} MB",
            verdict(ours, MOST_BYTES, "lower"))


def why_fork(lab: Lab, outcomes: Outcomes) -> str:
    found = last(lab, outcomes, "fork")
    return (f"the pages of 64 MiB are what is copied here; Serpens' process "
            f"has those of DPDK. A child had {found['bytes'] / 1e3:,.0f} KB of its "
            "own")


def why_process(lab: Lab, outcomes: Outcomes) -> str:
    memory = last(lab, outcomes, "process")["bytes"]
    return (f"a unit's process is started by exec and links snf, of which "
            f"{memory / 1e6:.1f} MB are its own; one that is parked "
            "(--warm_pool) has that behind it")


def why_unit(lab: Lab, outcomes: Outcomes) -> str:
    found = last(lab, outcomes, "thread")
    return (f"a unit is made, not mapped: {found['page_faults']:.0f} pages are "
            f"touched for the first time, at "
            f"{cell(found['cpu_seconds'] / max(1, found['page_faults']), 's')} "
            "each; a unit that is parked after that needs none of it")


def why_parked(lab: Lab, outcomes: Outcomes) -> str:
    return ("the process is asleep, often on a CPU that is: it is woken by a "
            "system call, and runs once the CPU does, which snf bench "
            "--rows=11 measures where nothing else wants it")


def findings(lab: Lab, outcomes: Outcomes) -> Findings:
    found = Findings("What came out, beside what Serpens found")
    for method, why in (("exec", None), ("fork", why_fork), ("load", None),
                        ("thread", why_unit), ("parked", why_parked)):
        name, paper, *_ = METHODS[method]
        found.add(f"start of {name}", f"{cell(paper, 's')} (Fig. 11a)",
                  "as long, or shorter",
                  lambda m=method: starts(lab, outcomes, m),
                  why and (lambda w=why: w(lab, outcomes)))
    found.add("exec > fork > load", "160 ms > 16 ms > 138 µs (Fig. 11a)",
              "in this order", lambda: is_ordered(lab, outcomes))
    found.add("a unit more against fork", "34 µs against 16 ms (Fig. 11a)",
              "shorter", lambda: beats(lab, outcomes, "thread", "fork"),
              lambda: why_unit(lab, outcomes))
    found.add("a process more against a program of its own",
              "not measured by Serpens", "shorter",
              lambda: beats(lab, outcomes, "process", "exec"),
              lambda: why_process(lab, outcomes))
    for method, paper in (("lxc", "not measured by Serpens"),
                          ("parked_lxc", "34 µs (Fig. 11a)")):
        containers = outcomes.get(job(lab, method))
        if containers is not None and containers["why_not"]:
            found.add_not_run(f"start of {METHODS[method][0]}", paper,
                              containers["why_not"])
    containers = outcomes.get(job(lab, "parked_lxc"))
    if containers is not None and not containers["why_not"]:
        found.add(f"start of {METHODS['parked_lxc'][0]}", "34 µs (Fig. 11a)",
                  "as long, or shorter",
                  lambda: starts(lab, outcomes, "parked_lxc"),
                  lambda: why_parked(lab, outcomes))
    found.add("a parked process against a new one", "34 µs against 160 ms, its "
              "own program (Fig. 11a)", "shorter",
              lambda: beats(lab, outcomes, "parked", "process"))
    found.add("memory of 500 NFs", "210 MB (Fig. 11b)", "as much, or less",
              lambda: weighs(lab, outcomes))
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    table = Table("", "Starts", COLUMNS, rows(lab, outcomes))
    return Report(tables=[findings(lab, outcomes).table, table],
                  draw=lambda figure: draw(figure, lab, outcomes),
                  size=(10.0, 4.0))


def draw(figure, lab: Lab, outcomes: Outcomes):
    from charts import COLOURS, plain, show_unit_of
    found = {}
    for method in METHODS:
        try:
            found[method] = last(lab, outcomes, method)
        except Missing:
            pass
    if not found:
        raise Missing("no method to draw")
    left, right = figure.subplots(1, 2)
    names = [METHODS[method][0].replace(" (", "\n(").replace(", ", ",\n")
             for method in found]
    for axes, key, unit in ((left, "seconds", "s"), (right, "bytes", "B")):
        plain(axes, "x")
        values = [found[method].get("cpu_seconds", 0) if method == "thread"
                  and key == "seconds" else found[method][key]
                  for method in found]
        axes.barh(range(len(found)), values, color=COLOURS[0])
        axes.set_yticks(range(len(found)), names, fontsize=8)
        axes.invert_yaxis()
        axes.set_xscale("log")
        show_unit_of(axes.xaxis, unit)
    papers = [(i, METHODS[method][1]) for i, method in enumerate(found)
              if METHODS[method][1]]
    left.plot([paper for _, paper in papers], [i for i, _ in papers], "k|",
              markersize=16, label="Serpens")
    left.legend(fontsize=8)
    left.set_title("One more start")
    right.set_title("Memory of one more")

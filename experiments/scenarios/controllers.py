# SPDX-License-Identifier: Apache-2.0
"""Controllers that share units by leases against those that do not."""

import dataclasses

from results import cell
from scenario import (Column, Findings, Job, Lab, Means, Missing, Outcomes,
                      Report, Table, holds, known_rows, ratio)

SUMMARY = "ten controllers that lease shares of units, or own their units"
SOURCE = "SNF Fig. 8"
ABOUT = """
Swept: whether controllers share units by leases of a resource manager or have
units of their own; how the load varies; the capacity of a unit; the number of
controllers. The manager, and what keeps a controller's leases, are the real
ones; loads are made of flows with a rate each, without packets (snf simulate).
A controller asks for 10 % more than its load of an epoch of 100 ms, and again
when half of that is used up. Over is what it has leased above its load, by
controller and epoch; units are those of which somebody has a part. SNF finds,
for 10 controllers and 93.5 Gbit/s in all, that over-provisioning is minimal
with leases, and that independent controllers provision more, as each has a unit
that it does not fill.
"""

LEASES = ("independent", "shared")
HEADROOM = 0.1
# How loads vary: fast flows are fewer.
TRAFFIC = {
    "constant": ("--flow_duration=3000s",),
    "many flows": (),
    "few fast flows": ("--flow_rate=pareto(20Mbps, 1.1, 1Gbps)",)}
CAPACITIES = {1e9: "--unit_capacity=1Gbps", 1e10: "--unit_capacity=10Gbps"}
SCALES = {10: ("--controllers=10", "--rate=93.5Gbps"),
          100: ("--controllers=100", "--rate=935Gbps", "--max_units=10000")}
SHORT_EPOCH = "--epoch=20ms"

COLUMNS = (
    Column("controllers"), Column("load varies"), Column("a unit", "bit/s"),
    Column("leases"), Column("seed", is_detail=True),
    Column("load", "bit/s", is_detail=True), Column("leased", "bit/s"),
    Column("units"), Column("units up", is_detail=True),
    Column("utilisation of units", "share"),
    Column("over p1", "bit/s", is_detail=True), Column("over p50", "bit/s"),
    Column("over p99", "bit/s"), Column("short", "share"),
    Column("asks a controller and second", is_detail=True))
KEYS = 4
OVER_COLUMNS = (
    *COLUMNS[:4], Column("controller"),
    *(Column(f"over {name}", "bit/s")
      for name in ("p1", "p25", "p50", "p75", "p99")))


@dataclasses.dataclass(frozen=True)
class Case:
    controllers: int
    traffic: str
    capacity: float
    leases: str


def seeds(lab: Lab) -> tuple[int, ...]:
    return lab.choose((1, 2, 3), (1,))


def cases() -> list[Case]:
    """All with ten controllers; with more, one kind of traffic and of unit."""
    found = [Case(10, traffic, capacity, leases) for traffic in TRAFFIC
             for capacity in CAPACITIES for leases in LEASES]
    return found + [Case(100, "many flows", 1e9, leases) for leases in LEASES]


def duration_s(lab: Lab) -> int:
    return lab.choose(10, 2)


def job(lab: Lab, case: Case, seed: int, *more: str) -> Job:
    name = (f"{case.controllers} controllers, {case.leases}, {case.traffic}, "
            f"units of {case.capacity / 1e9:g} Gbit/s, seed {seed}")
    return Job(" ".join([name, *more]), "snf",
               ("simulate", f"--leases={case.leases}",
                *SCALES[case.controllers], *TRAFFIC[case.traffic],
                CAPACITIES[case.capacity], f"--headroom={HEADROOM}",
                f"--duration={duration_s(lab)}s", f"--seed={seed}", *more,
                "--json=-"))


def other_epoch(lab: Lab, case: Case, seed: int) -> Job:
    return job(lab, case, seed, SHORT_EPOCH)


def jobs(lab: Lab) -> list[Job]:
    found = [job(lab, case, seed) for case in cases() for seed in seeds(lab)]
    return found + [other_epoch(lab, case, seed) for case in cases()
                    if told(case) and case.leases == "shared"
                    for seed in seeds(lab)]


def told(case: Case) -> bool:
    """Those of the paper's size, whose findings are told one by one."""
    return case.controllers == 10 and case.capacity == 1e9


# --- What is told -------------------------------------------------------------

def row(lab: Lab, outcomes: Outcomes, case: Case, seed: int) -> tuple:
    ran = outcomes[job(lab, case, seed)]
    over = ran["over_bps"]
    return (*dataclasses.astuple(case), seed, ran["offered_bps"],
            ran["leased_bps"], ran["units_leased"], ran["units_up"],
            ratio(ran["offered_bps"], ran["units_leased_bps"]), over["p1"],
            over["p50"], over["p99"],
            ratio(ran["short_bps"], ran["offered_bps"]),
            # The warm-up of a second counts, too.
            ran["asks"] / case.controllers / (duration_s(lab) + 1))


def over_rows(lab: Lab, outcomes: Outcomes, case: Case) -> list[tuple]:
    ran = outcomes[job(lab, case, seeds(lab)[0])]
    return [(*dataclasses.astuple(case), number + 1,
             *(each["over_bps"][name]
               for name in ("p1", "p25", "p50", "p75", "p99")))
            for number, each in enumerate(ran["controllers"])]


def both(means: Means, traffic: str, column: str, unit: str):
    values = {leases: means[10, traffic, 1e9, leases][column]
              for leases in LEASES}
    return values, ", ".join(f"{leases} {cell(value, unit)}"
                             for leases, value in values.items())


def is_less(means: Means, traffic: str, column: str, unit: str):
    values, text = both(means, traffic, column, unit)
    return text, holds(values["shared"] < 0.97 * values["independent"])


def is_minimal(means: Means, traffic: str):
    """What is leased above the load is the headroom, and little more."""
    ours = means[10, traffic, 1e9, "shared"]
    over = ours["over p50"] / (ours["load"] / 10)
    return (f"{cell(over, 'share')} of the load in half of the epochs",
            holds(over <= 1.2 * HEADROOM))


def by_epoch(lab: Lab, outcomes: Outcomes, traffic: str) -> str:
    case = Case(10, traffic, 1e9, "shared")
    over = []
    for seed in seeds(lab):
        ran = outcomes[other_epoch(lab, case, seed)]
        over.append(ran["over_bps"]["p50"] / (ran["offered_bps"] / 10))
    mean = sum(over) / len(over)
    return (f"the headroom alone is {cell(HEADROOM, 'share')}; a controller "
            "asks as soon as its load rises, and gives back when the epoch "
            f"ends, so it holds what the highest load needed; with "
            f"{SHORT_EPOCH} it is {cell(mean, 'share')}")


def why_units(means: Means, traffic: str) -> str:
    leased = {leases: means[10, traffic, 1e9, leases]["leased"]
              for leases in LEASES}
    idle = means[10, traffic, 1e9, "shared"]["units"] * 1e9 - leased["shared"]
    return ("ten controllers round up to whole units, half a unit each on "
            "average, which is little beside a hundred; leased: "
            + ", ".join(f"{leases} {cell(value, 'bit/s')}"
                        for leases, value in leased.items())
            + f"; {cell(idle, 'bit/s')} of the shared units nobody has leased")


def large_units(means: Means):
    values = {leases: means[10, "many flows", 1e10, leases]["units"]
              for leases in LEASES}
    text = ", ".join(f"{leases} {cell(value, 'units')}"
                     for leases, value in values.items())
    return text, holds(values["shared"] < 0.9 * values["independent"])


def scales(means: Means):
    asks = {count: means[count, "many flows", 1e9, "shared"][COLUMNS[-1].name]
            for count in SCALES}
    text = ", ".join(f"{value:.1f} with {count} controllers"
                     for count, value in asks.items())
    return text, holds(asks[100] <= 1.1 * asks[10])


def findings(lab: Lab, outcomes: Outcomes, means: Means) -> Findings:
    found = Findings("What came out, beside what SNF found")
    for traffic in TRAFFIC:
        found.add(f"over-provisioning of a controller, median, {traffic}",
                  "less with leases (Fig. 8)", "less",
                  lambda t=traffic: is_less(means, t, "over p50", "bit/s"))
        found.add(f"over-provisioning with leases, {traffic}",
                  "minimal (Fig. 8)", "at most 1.2 × the headroom",
                  lambda t=traffic: is_minimal(means, t),
                  lambda t=traffic: by_epoch(lab, outcomes, t))
        found.add(f"units of 1 Gbit/s in use, {traffic}",
                  "several controllers send to one unit (§9.5)", "fewer",
                  lambda t=traffic: is_less(means, t, "units", "units"),
                  lambda t=traffic: why_units(means, t))
    found.add("units of 10 Gbit/s in use, many flows", "not told",
              "at least a tenth fewer", lambda: large_units(means))
    found.add("asks of a controller in a second, shared", "not told",
              "as many with 100 controllers", lambda: scales(means))
    return found


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    runs = known_rows((lambda case, seed: row(lab, outcomes, case, seed), each)
                      for each in [(case, seed) for case in cases()
                                   for seed in seeds(lab)])
    means = Means(COLUMNS, runs, KEYS)
    over = [each for rows in known_rows(
        (lambda case: over_rows(lab, outcomes, case), (case,))
        for case in cases()) for each in rows]
    return Report(
        tables=[findings(lab, outcomes, means).table,
                means.table("", "Controllers and leases, means over seeds")],
        series=[Table("runs", "", COLUMNS, runs),
                Table("by_controller", "", OVER_COLUMNS, over)],
        draw=lambda figure: draw(figure, over), size=(11.0, 4.2))


def draw(figure, over: list[tuple]):
    """As Fig. 8: what each controller had leased above its load."""
    from charts import COLOURS, engineering, plain
    case = (10, "many flows", 1e9)
    shown = [each for each in over if each[:3] == case]
    if not shown:
        raise Missing("no run to draw")
    for i, (axes, leases) in enumerate(zip(
            figure.subplots(1, 2, sharey=True), LEASES)):
        plain(axes, "y")
        axes.bxp([{"whislo": p1, "q1": p25, "med": p50, "q3": p75,
                   "whishi": p99, "fliers": [], "label": str(number)}
                  for *_, kind, number, p1, p25, p50, p75, p99 in shown
                  if kind == leases],
                 showfliers=False, patch_artist=True,
                 boxprops={"facecolor": COLOURS[i], "alpha": 0.6},
                 medianprops={"color": "black"})
        axes.axhline(0, color="black", linewidth=1)
        axes.set_title(f"{leases}: leased above the load, p1-p25-p50-p75-p99")
        axes.set_xlabel("controller")
        axes.yaxis.set_major_formatter(engineering("bit/s"))

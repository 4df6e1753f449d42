# SPDX-License-Identifier: Apache-2.0
"""Provisioned against demanded bandwidth over time, by flowlets and flows."""

import bisect

from results import cell
from scenario import (OWN_RATE, Column, Findings, Job, Lab, Made, Means,
                      Missing, Outcome, Outcomes, Report, Table, dropped,
                      holds, known_rows, verdict)
from series import (latency_quantile, units_between, units_over_time, up_times,
                    utilisations)

SUMMARY = "provisioned against demanded bandwidth over time"
SOURCE = "SNF Fig. 1, 2"
ABOUT = """
Swept: who is placed (flowlets by snf; flows by smart_flow, decided anew every
100 or 50 ms; flows by vanilla_flow, for good), and what is taken as a unit's
load: the wait there, against the latency that is aimed at, the demand, or what
it drained. Units of 1 Gbit/s, all warm at the start. Demand and units are
counted from the first packet to the last, in epochs of 100 ms. SNF finds that
flowlets follow the demand, while modes by flow provision too much and still
overload units. Modes are compared at the same p99, each by the signal with the
least that is provisioned of those that keep it; if none does, by that with the
lowest p99. The p99 is 400 µs, or a quarter more than where each flow has a unit
of its own, if that is more (flows wait for their own bursts with any policy);
and 1 ms.
"""

CAPACITY = 1_000_000_000
EPOCH_S = 0.1
OVERLOADED = 0.95  # of a unit's capacity in an epoch
LATENCY_LIMIT_S = 400e-6
MODES = {
    "snf": ("--policy=snf",),
    "smart_flow 50 ms": ("--policy=smart_flow", "--reassign_period=50ms"),
    "smart_flow 100 ms": ("--policy=smart_flow", "--reassign_period=100ms"),
    "vanilla_flow": ("--policy=vanilla_flow",),
}
SIGNALS = {"wait": (),
           **{f"wait ≤ {target}": (f"--latency_target={target}",)
              for target in ("500us", "700us", "1ms")},
           "demand": ("--load_signal=demand",),
           "drained": ("--load_signal=drained",)}
LOOSER_LIMIT_S = 1e-3

COLUMNS = (
    Column("traffic"), Column("mode"), Column("load signal"),
    Column("seed", is_detail=True), Column("demand", "bit/s", is_detail=True),
    Column("provisioned", "bit/s"), Column("utilisation", "share"),
    Column("a unit's, p50", "share", is_detail=True),
    Column("epochs over by a unit or more", "share", is_detail=True),
    Column("overloaded", "share"), Column("chances a flow", is_detail=True),
    Column("latency p50", "s", is_detail=True),
    Column("latency p75", "s", is_detail=True),
    Column("latency p99", "s"), Column("dropped", "packets"),
    Column("p99, each flow alone", "s", is_detail=True))


# --- What is run --------------------------------------------------------------

def rates(lab: Lab) -> tuple[str, ...]:
    return lab.rates or lab.choose(("2Gbps",), ("1Gbps",))


def seeds(lab: Lab, rate: str) -> tuple[int, ...]:
    return (1,) if rate == OWN_RATE else lab.choose((1, 2, 3), (1,))


def capture(lab: Lab, rate: str, seed: int) -> Made:
    return lab.composed(rate, lab.choose("2s", "300ms"), seed)


def replay_job(lab: Lab, rate: str, seed: int, mode: str, signal: str) -> Job:
    return lab.replay(f"{mode} by {signal}, {rate}, seed {seed}",
                      capture(lab, rate, seed), "--nf=passthrough",
                      "--warm_units=64", f"--unit_capacity={CAPACITY}bps",
                      *SIGNALS[signal], *MODES[mode], series=True)


def demand_job(lab: Lab, rate: str, seed: int) -> Job:
    return lab.bounds(f"demand, {rate}, seed {seed}",
                      capture(lab, rate, seed), CAPACITY)


def cases(lab: Lab):
    """(rate, seed)."""
    return [(rate, seed) for rate in rates(lab) for seed in seeds(lab, rate)]


def jobs(lab: Lab) -> list[Job]:
    return [job for case in cases(lab) for job in (
        demand_job(lab, *case),
        *(replay_job(lab, *case, mode, signal)
          for mode in MODES for signal in SIGNALS))]


# --- What is read -------------------------------------------------------------

def rates_over_time(demand: Outcome, step_s: float) -> list[float]:
    """The demand in bit/s; a step that the last packet cuts has its own
    length."""
    bins, width_ns = demand["demand_bytes"], demand["step_ns"]
    step_ns = round(step_s * 1e9)
    count = step_ns // width_ns
    found = []
    for begin in range(0, len(bins), count):
        length_ns = min(step_ns, demand["duration_ns"] - begin * width_ns)
        if begin == 0 or 2 * length_ns >= step_ns:
            found.append(8e9 * sum(bins[begin:begin + count]) / length_ns)
    return found


def provisioned_over_time(ran: Outcome, demand: Outcome,
                          step_s: float) -> list[float]:
    times = up_times(ran.folder / "series")
    return [units * CAPACITY for units in units_over_time(
        times, demand["duration_ns"] / 1e9, step_s)]


def quantile(ordered: list[float], share: float) -> float | None:
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def row(lab: Lab, outcomes: Outcomes, rate: str, mode: str, signal: str,
        seed: int) -> tuple:
    ran = outcomes[replay_job(lab, rate, seed, mode, signal)]
    demand = outcomes[demand_job(lab, rate, seed)]
    duration_s = demand["duration_ns"] / 1e9
    units = units_between(up_times(ran.folder / "series"), 0, duration_s)
    spare = [got - asked for got, asked in zip(
        provisioned_over_time(ran, demand, EPOCH_S),
        rates_over_time(demand, EPOCH_S))]
    of_units = utilisations(ran.folder / "series", duration_s, EPOCH_S)
    busy = len(of_units) - bisect.bisect_left(of_units, OVERLOADED)
    chances = ran["flowlets"] / ran["flows"] if mode == "snf" else 1.0
    return (rate, mode, signal, seed, demand["mean_bps"], units * CAPACITY,
            demand["mean_bps"] / units / CAPACITY, quantile(of_units, 0.5),
            sum(each >= CAPACITY for each in spare) / len(spare),
            busy / len(of_units), chances,
            *(latency_quantile(ran.folder / "series", share)
              for share in (0.5, 0.75, 0.99)), dropped(ran),
            demand["alone_p99_ns"] / 1e9)


def limit_of(means: Means, rate: str) -> float:
    """The p99 that can be asked for."""
    return max(LATENCY_LIMIT_S,
               1.25 * means[rate, "snf"]["p99, each flow alone"])


def keeps(found: dict, limit_s: float) -> bool:
    return found["dropped"] == 0 and found["latency p99"] <= limit_s


def best_signal(means: Means, rate: str, mode: str, limit_s: float) -> str:
    def badness(signal):
        found = means[rate, mode, signal]
        if keeps(found, limit_s):
            return False, False, found["provisioned"]
        return True, found["dropped"] > 0, found["latency p99"]

    return min(SIGNALS, key=badness)


def best(means: Means, rate: str, mode: str, limit_s: float) -> dict:
    return means[rate, mode, best_signal(means, rate, mode, limit_s)]


# --- What is found ------------------------------------------------------------

def of_modes(means: Means, rate: str, limit_s: float, column: str, unit: str):
    """Of each mode; what does not keep the limit says so."""
    values, words = {}, []
    for mode in MODES:
        found = best(means, rate, mode, limit_s)
        values[mode] = found[column]
        late = "" if keeps(found, limit_s) else \
            f" (p99 {cell(found['latency p99'], 's')})"
        words.append(f"{mode} {cell(found[column], unit)}{late}")
    return values, ", ".join(words)


def provisions_least(means: Means, rate: str, limit_s: float):
    """Of the modes that keep the limit."""
    values, text = of_modes(means, rate, limit_s, "provisioned", "bit/s")
    found = {mode: best(means, rate, mode, limit_s) for mode in MODES}
    kept = [values[mode] for mode in MODES if keeps(found[mode], limit_s)]
    demand = cell(found["snf"]["demand"], "bit/s")
    return (f"{text}, for {demand}",
            holds(keeps(found["snf"], limit_s) and
                  values["snf"] == min(kept)))


def rarely_overloads(means: Means, rate: str, signal: str):
    """By a signal; of the others, it is in the tables."""
    values = {mode: means[rate, mode, signal]["overloaded"] for mode in MODES}
    text = ", ".join(f"{mode} {cell(value, 'share')}"
                     for mode, value in values.items())
    return text, holds(values["snf"] == min(values.values()) <
                       values["vanilla_flow"] == max(values.values()))


def smart_pays(means: Means, rate: str):
    """By the same signal; drained apart, which overloads units."""
    found = {signal: [means[rate, f"smart_flow {period} ms", signal][
        "provisioned"] for period in (50, 100)]
             for signal in SIGNALS if signal != "drained"}
    return (", ".join(f"{signal} {cell(often, 'bit/s')} and "
                      f"{cell(seldom, 'bit/s')}"
                      for signal, (often, seldom) in found.items()),
            holds(all(often > seldom for often, seldom in found.values())))


def why_not_more(means: Means, rate: str) -> str:
    found = []
    for signal in SIGNALS:
        if signal == "drained":
            continue
        often, seldom = (means[rate, f"smart_flow {period} ms", signal]
                         for period in (50, 100))
        found.append(f"{signal} utilisation "
                     f"{cell(often['utilisation'], 'share')} and "
                     f"{cell(seldom['utilisation'], 'share')}, p99 "
                     f"{cell(often['latency p99'], 's')} and "
                     f"{cell(seldom['latency p99'], 's')}")
    return ("decided more often, flows also leave units sooner that have "
            "become too many, not only those that have become too full: "
            + "; ".join(found))


def packs_units(means: Means, rate: str, limit_s: float):
    """Of the modes that keep the limit."""
    values, text = of_modes(means, rate, limit_s, "a unit's, p50", "share")
    kept = [values[mode] for mode in MODES
            if keeps(best(means, rate, mode, limit_s), limit_s)]
    return text, holds(values["snf"] in kept and values["snf"] == max(kept))


def has_chances(means: Means, rate: str, limit_s: float):
    ours = best(means, rate, "snf", limit_s)["chances a flow"]
    return f"{ours:.2f}×", verdict(ours, 3.36, "higher")


def by_signal(means: Means, rate: str, column: str, unit: str) -> str:
    return "; ".join(f"{mode} " + ", ".join(
        f"{signal} {cell(means[rate, mode, signal][column], unit)} (p99 "
        f"{cell(means[rate, mode, signal]['latency p99'], 's')})"
        for signal in SIGNALS) for mode in MODES)


def findings(lab: Lab, means: Means) -> Findings:
    found = Findings("What came out, beside what SNF found")
    for rate in rates(lab):
        try:
            strict = limit_of(means, rate)
        except Missing:  # which the findings tell
            strict = LATENCY_LIMIT_S
        for limit_s in dict.fromkeys((strict, max(strict, LOOSER_LIMIT_S))):
            for what, source, expected, finding, column, unit in (
                    ("provisioned", "flowlets match the load, flows do not "
                     "(Fig. 1)", "snf provisions least of what keeps p99",
                     provisions_least, "provisioned", "bit/s"),
                    ("a unit's utilisation in an epoch, median",
                     "flowlets pack better (Fig. 2)",
                     "highest by snf of what keeps p99", packs_units,
                     "a unit's, p50", "share")):
                found.add(f"{what}, {rate}, p99 ≤ {cell(limit_s, 's')}",
                          source, expected,
                          lambda f=finding, r=rate, t=limit_s: f(means, r, t),
                          lambda r=rate, c=column, u=unit: "by signal: " +
                          by_signal(means, r, c, u))
        found.add(f"units loaded over 95 % in an epoch, {rate}, load as the "
                  "paper's (drained)",
                  "most by vanilla_flow, rarely by flowlets (Fig. 2)",
                  "the same order",
                  lambda r=rate: rarely_overloads(means, r, "drained"),
                  lambda r=rate: "by signal: " + by_signal(
                      means, r, "overloaded", "share"))
        found.add(f"smart_flow, decided every 50 and every 100 ms, {rate}",
                  "more often provisions more (§9.1)",
                  "50 ms provisions more by each signal",
                  lambda r=rate: smart_pays(means, r),
                  lambda r=rate: why_not_more(means, r))
        found.add(f"chances to assign, against flows, {rate}", "3.36× (§9.1)",
                  "3.36×",
                  lambda r=rate, t=strict: has_chances(means, r, t))
    return found


# --- The figure ---------------------------------------------------------------

def styles() -> dict[str, dict]:
    from charts import COLOURS, STYLES
    return {"snf": {**STYLES["snf"], "linestyle": "-"},
            "smart_flow 50 ms": {"color": COLOURS[3], "linestyle": "--"},
            "smart_flow 100 ms": {**STYLES["smart_flow"], "linestyle": "-."},
            "vanilla_flow": {**STYLES["vanilla_flow"], "linestyle": ":"}}


def draw_over_time(axes, mode: str, signal: str, ran: Outcome,
                   demand: Outcome):
    from charts import engineering, plain
    step_s = 0.01
    plain(axes)
    asked = rates_over_time(demand, step_s)
    got = provisioned_over_time(ran, demand, step_s)[:len(asked)]
    edges = [i * step_s for i in range(len(asked) + 1)]
    axes.stairs(asked, edges, fill=True, color="#bbbbbb", label="demanded")
    axes.stairs(got, edges, baseline=None, color=styles()[mode]["color"],
                linewidth=1.4, label="provisioned")
    axes.set_title(f"{mode}, by {signal}")
    axes.set_xlabel("time (s)")
    axes.set_xlim(0, edges[-1])
    axes.yaxis.set_major_formatter(engineering("bit/s"))
    axes.legend(fontsize=8, loc="lower right", framealpha=0.9, frameon=True,
                edgecolor="none")


def draw_shares(axes, lines: dict[str, list[float]]):
    """The share of samples that are no greater, of each mode."""
    from charts import plain
    plain(axes)
    for mode, values in lines.items():
        style = {key: value for key, value in styles()[mode].items()
                 if key != "marker"}
        shares = [(i + 1) / len(values) for i in range(len(values))]
        axes.step(sorted(values), shares, where="post", label=mode,
                  linewidth=1.6, **style)
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    axes.legend(fontsize=8)


def draw(figure, lab: Lab, outcomes: Outcomes, means: Means):
    """Over time it is one run: the first rate and seed."""
    from charts import engineering
    rate, seed = cases(lab)[0]
    limit_s = max(limit_of(means, rate), LOOSER_LIMIT_S)
    demand = outcomes[demand_job(lab, rate, seed)]
    duration_s = demand["duration_ns"] / 1e9
    grid = figure.add_gridspec(2, 4)
    beside, loads, spare = None, {}, {}
    for i, mode in enumerate(MODES):
        signal = best_signal(means, rate, mode, limit_s)
        ran = outcomes[replay_job(lab, rate, seed, mode, signal)]
        beside = figure.add_subplot(grid[0, i], sharey=beside)
        draw_over_time(beside, mode, signal, ran, demand)
        if i == 0:
            beside.set_ylabel(f"{rate}, seed {seed}: means of 10 ms,\n"
                              f"p99 ≤ {cell(limit_s, 's')} if it can be")
        else:
            beside.tick_params(labelleft=False)
        loads[mode] = utilisations(ran.folder / "series", duration_s, EPOCH_S)
        spare[mode] = [got - asked for got, asked in zip(
            provisioned_over_time(ran, demand, EPOCH_S),
            rates_over_time(demand, EPOCH_S))]
    beside.set_ylim(bottom=0)
    left = figure.add_subplot(grid[1, :2])
    draw_shares(left, loads)
    left.set_title("Utilisation of units")
    left.set_xlabel("utilisation of a unit in an epoch of 100 ms")
    left.set_ylabel("units and epochs")
    left.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    left.set_xlim(0, 1)
    right = figure.add_subplot(grid[1, 2:])
    draw_shares(right, spare)
    right.set_title("Provisioned, less what was demanded")
    right.set_xlabel("in an epoch of 100 ms")
    right.set_ylabel("epochs")
    right.xaxis.set_major_formatter(engineering("bit/s"))


def over_time_table(lab: Lab, outcomes: Outcomes) -> Table:
    table = Table("over_time", "", (
        Column("traffic"), Column("seed"), Column("mode"),
        Column("load signal"), Column("start", "s"),
        Column("demand", "bit/s"), Column("provisioned", "bit/s")))
    for rate, seed in cases(lab):
        for mode in MODES:
            for signal in SIGNALS:
                try:
                    ran = outcomes[replay_job(lab, rate, seed, mode, signal)]
                    demand = outcomes[demand_job(lab, rate, seed)]
                except Missing:
                    continue
                table.rows += [
                    (rate, seed, mode, signal, round(i * 0.01, 2), asked, got)
                    for i, (asked, got) in enumerate(zip(
                        rates_over_time(demand, 0.01),
                        provisioned_over_time(ran, demand, 0.01)))]
    return table


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    runs = known_rows((row, (lab, outcomes, rate, mode, signal, seed))
                      for rate, seed in cases(lab)
                      for mode in MODES for signal in SIGNALS)
    means = Means(COLUMNS, runs, 3)
    return Report(
        tables=[findings(lab, means).table,
                means.table("", "Modes and load signals, means over seeds")],
        series=[Table("runs", "", COLUMNS, runs),
                over_time_table(lab, outcomes)],
        draw=lambda figure: draw(figure, lab, outcomes, means),
        size=(12.5, 7.0))

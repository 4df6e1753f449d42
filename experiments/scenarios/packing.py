# SPDX-License-Identifier: Apache-2.0
"""How many units every policy provisions, beside what would have sufficed."""

from results import cell
from scenario import (BETTER, DIFFERS, LIKE_PAPER, OWN_RATE, REPRODUCED,
                      Column, Findings, Job, Lab, Made, Means, Missing,
                      Outcomes, Report, Table, bits_per_second, dropped, holds,
                      known_rows, ratio)
from series import units_between, up_times

SUMMARY = "every policy beside references that know the future"
SOURCE = "SNF §9.1"
ABOUT = """
Swept: the traffic, the policy, the latency that placement aims at, the capacity
of a unit. Traffic is captures overlaid to a rate, and
traffic with the figures of the trace of SNF's authors (snf trace synth
--preset=snf_199k). All 64 units are warm at the start and nothing is left out
at the beginning; other flags are at their defaults. Units are up from the order
to start them until they are parked; utilisation is the traffic's mean rate over
the mean of what was provisioned from the first packet to the last; above 100 %
it is traffic that waits at its end, or was lost. References are computed from
the capture and know its future (experiments/bounds.py): the demand rounded up
to units every 10 ms; one queue before all units, of which every 10 ms the
fewest are up that keep the p99 of these 10 ms within 400 µs; first fit of
flowlets by the rates that they turn out to have, where a unit ends when it has
none, or is held for 100 ms longer. These are no lower bounds: a policy that
parks units within 10 ms, or spends its latency where that saves units, may
provision less. A bound is the latency that is left where each flow has a unit
of its own: no policy gets below, as a unit serves a flow's packets one by one.
Policies are compared at the same p99: each by its setting with the least that
is provisioned of those that keep it. The p99 is 400 µs, or a quarter more than
that of flows alone, if that is more; 1 ms; 3 ms. SNF finds that flowlets follow
the demand closely, and flows do not.
"""

GBPS = 1_000_000_000
LATENCY_LIMIT_S = 400e-6
POLICIES = ("snf", "smart_flow", "vanilla_flow", "per_packet", "hash")
# What a policy aims at; the first is snf's default.
SETTINGS = {"wait ≤ 350us": (),
            **{f"wait ≤ {target}": (f"--latency_target={target}",)
               for target in ("200us", "500us", "700us", "1ms", "2ms")},
            "demand": ("--load_signal=demand",)}
DEFAULT = next(iter(SETTINGS))
TARGET_S = 350e-6  # that of DEFAULT
SWEPT = POLICIES[:3]
LOOSER_LIMITS_S = (1e-3, 3e-3)
TIMES = 5  # so much faster are traffic and units of a further run
REFERENCES = {"ceil": "reference: rounded up, 10 ms",
              "pooled": "reference: pooled queue, 10 ms",
              "first_fit": "reference: first fit",
              "first_fit_held": "reference: first fit, held",
              "alone": "bound: each flow alone"}
BASE = ("--nf=passthrough", "--warm_units=64")
SMALL_UNIT = 200_000_000

RUN_COLUMNS = (
    Column("traffic"), Column("a unit", "bit/s"), Column("policy"),
    Column("load signal"), Column("seed", is_detail=True),
    Column("demand", "bit/s", is_detail=True),
    Column("provisioned", "bit/s"), Column("mean", "units", is_detail=True),
    Column("utilisation", "share"), Column("latency p50", "s", is_detail=True),
    Column("latency p99", "s"),
    Column("flowlets moved", "share", is_detail=True),
    Column("seamless", "share", is_detail=True), Column("dropped", "packets"))

# --- What is run --------------------------------------------------------------

def rates(lab: Lab) -> tuple[str, ...]:
    """Of captures overlaid; and traffic of another kind."""
    return lab.rates or lab.choose(("1Gbps", "2Gbps", "5Gbps",
                                    "5Gbps" + LIKE_PAPER),
                                   ("1Gbps",))


def seeds(lab: Lab, rate: str) -> tuple[int, ...]:
    return (1,) if rate == OWN_RATE else lab.choose((1, 2, 3), (1,))


def duration(lab: Lab, rate: str) -> str:
    if lab.quick or rate == OWN_RATE:
        return "200ms"
    return "1s" if bits_per_second(rate) <= 2 * GBPS else "500ms"


def capture(lab: Lab, rate: str, seed: int) -> Made:
    return lab.composed(rate, duration(lab, rate), seed)


def capacities(rate: str) -> tuple[int, ...]:
    """Small units are for traffic that does not need too many of them."""
    small = rate == OWN_RATE or bits_per_second(rate) <= GBPS
    return (GBPS, SMALL_UNIT) if small else (GBPS,)


def policy_job(lab: Lab, rate: str, seed: int, policy: str, capacity: int,
               setting: str = DEFAULT) -> Job:
    return lab.replay(
        f"{policy}, {setting}, {rate}, units of {capacity / GBPS:g} Gbit/s, "
        f"seed {seed}", capture(lab, rate, seed), *BASE, f"--policy={policy}",
        f"--unit_capacity={capacity}bps", *SETTINGS[setting], series=True)


def faster(rate: str) -> str | None:
    """The rate of more of the same traffic; None of what is not overlaid."""
    if rate == OWN_RATE or rate.endswith(LIKE_PAPER):
        return None
    return f"{TIMES * bits_per_second(rate) / 1e6:g}Mbps"


def faster_job(lab: Lab, rate: str, capacity: int) -> Job:
    """Asks whether bursts of single flows are what units are provisioned for:
    they are as before, and the units faster."""
    return lab.replay(
        f"snf, {faster(rate)}, units of {TIMES * capacity / GBPS:g} Gbit/s",
        lab.composed(faster(rate), "200ms", 1), *BASE,
        f"--unit_capacity={TIMES * capacity}bps", series=True)


def bounds_job(lab: Lab, rate: str, seed: int, capacity: int) -> Job:
    return lab.bounds(
        f"references, {rate}, units of {capacity / GBPS:g} Gbit/s, seed {seed}",
        capture(lab, rate, seed), capacity)


def cases(lab: Lab):
    """(rate, capacity of a unit, seed)."""
    return [(rate, capacity, seed) for rate in rates(lab)
            for capacity in capacities(rate) for seed in seeds(lab, rate)]


def settings_of(policy: str) -> tuple[str, ...]:
    return tuple(SETTINGS) if policy in SWEPT else (DEFAULT,)


def jobs(lab: Lab) -> list[Job]:
    found = []
    for rate, capacity, seed in cases(lab):
        found.append(bounds_job(lab, rate, seed, capacity))
        found += [policy_job(lab, rate, seed, policy, capacity, setting)
                  for policy in POLICIES for setting in settings_of(policy)]
    found += [faster_job(lab, rate, capacity)
              for rate, capacity in places(lab) if faster(rate)]
    return found


def places(lab: Lab) -> list[tuple[str, int]]:
    """(rate, capacity of a unit)."""
    return list(dict.fromkeys(case[:2] for case in cases(lab)))


# --- What is told -------------------------------------------------------------

class Packing:
    """The figures of the runs of one scenario."""

    def __init__(self, lab: Lab, outcomes: Outcomes):
        self.lab = lab
        self.outcomes = outcomes

    def policy_row(self, rate, capacity, seed, policy, setting) -> tuple:
        bounds = self.outcomes[bounds_job(self.lab, rate, seed, capacity)]
        ran = self.outcomes[policy_job(self.lab, rate, seed, policy, capacity,
                                       setting)]
        units = units_between(up_times(ran.folder / "series"), 0,
                              bounds["duration_ns"] / 1e9)
        return (rate, capacity, policy, setting, seed, bounds["mean_bps"],
                units * capacity, units, bounds["mean_bps"] / units / capacity,
                ran["latency_ns.p50"] / 1e9, ran["latency_ns.p99"] / 1e9,
                ratio(ran["flowlets_moved"], ran["flowlets_movable"]),
                ratio(ran["flowlets_seamless"], ran["flowlets_moved"]),
                dropped(ran))

    def reference_row(self, rate, capacity, seed, bound) -> tuple:
        bounds = self.outcomes[bounds_job(self.lab, rate, seed, capacity)]
        units = bounds["units"].get(bound)
        p50, p99 = (bounds.figures.get(f"{bound}_{quantile}_ns")
                    for quantile in ("p50", "p99"))
        return (rate, capacity, REFERENCES[bound], "", seed, bounds["mean_bps"],
                units and units * capacity, units,
                bounds["utilisation"].get(bound), p50 and p50 / 1e9,
                p99 and p99 / 1e9, None, None, None)

    def runs(self) -> list[tuple]:
        """A row a run; those that failed are left out."""
        return known_rows(
            row for case in cases(self.lab) for row in (
                *((self.policy_row, (*case, policy, setting))
                  for policy in POLICIES for setting in settings_of(policy)),
                *((self.reference_row, (*case, name))
                  for name in REFERENCES)))

    def of_faster_units(self, rate, capacity) -> str:
        """What the run of more traffic on larger units tells."""
        if not faster(rate):
            return ""
        ran = self.outcomes[faster_job(self.lab, rate, capacity)]
        units = units_between(up_times(ran.folder / "series"), 0,
                              ran["duration_s"])
        used = ran["bytes_in"] * 8 / ran["duration_s"] / units / capacity / \
            TIMES
        return (f"; {TIMES} times as many of these flows on units "
                f"{TIMES} times as fast: {cell(used, 'share')} at p99 "
                f"{cell(ran['latency_ns.p99'] / 1e9, 's')}")


# --- What is found ------------------------------------------------------------

def limit_of(means: Means, rate: str, capacity: int) -> float:
    """The p99 that can be asked for."""
    alone = means.get((rate, capacity, REFERENCES["alone"]), "latency p99")
    return max(LATENCY_LIMIT_S, 1.25 * alone if alone == alone else 0)


def packs(means: Means, rate: str, capacity: int):
    """Utilisation at a bounded latency, against first fit by real rates."""
    ours = means[rate, capacity, "snf", DEFAULT]
    fit = means[rate, capacity, REFERENCES["first_fit"]]["utilisation"]
    pooled = means[rate, capacity, REFERENCES["pooled"]]["utilisation"]
    used, p99 = ours["utilisation"], ours["latency p99"]
    text = (f"{cell(used, 'share')} at p99 {cell(p99, 's')}; first fit "
            f"{cell(fit, 'share')}, pooled queue {cell(pooled, 'share')}")
    if p99 > limit_of(means, rate, capacity) or used < 0.9 * fit:
        return text, DIFFERS
    return text, BETTER if used > 1.1 * fit else REPRODUCED


def curve(means: Means, rate: str, capacity: int, column="utilisation",
          unit="share") -> str:
    """What snf's settings come to."""
    found = {setting: means[rate, capacity, "snf", setting]
             for setting in SETTINGS}
    return ", ".join(f"{setting} {cell(each[column], unit)} (p99 "
                     f"{cell(each['latency p99'], 's')})"
                     for setting, each in found.items())


def why_no_more(packing: "Packing", means: Means, rate: str,
                capacity: int) -> str:
    alone = means[rate, capacity, REFERENCES["alone"]]["latency p99"]
    is_by_itself = alone > TARGET_S / 2
    cause = ("flows wait for their own bursts, which no further unit shortens"
             if is_by_itself else
             "it is not their own bursts that flows wait for")
    return (f"{cause}: with a unit each, they have a p99 of "
            f"{cell(alone, 's')}. By setting: {curve(means, rate, capacity)}"
            + packing.of_faster_units(rate, capacity))


def least(means: Means, rate: str, capacity: int, policy: str,
          limit_s: float) -> tuple[float | None, str]:
    """What the best setting that keeps the limit provisions, and in words."""
    found = {setting: means[rate, capacity, policy, setting]
             for setting in SETTINGS}
    best = min(found, key=lambda setting: (
        found[setting]["dropped"] > 0 or
        found[setting]["latency p99"] > limit_s,
        found[setting]["provisioned"]))
    each = found[best]
    p99 = cell(each["latency p99"], "s")
    if each["latency p99"] > limit_s or each["dropped"] > 0:
        lowest = min(each["latency p99"] for each in found.values())
        return None, f"{policy} none (lowest p99 {cell(lowest, 's')})"
    return each["provisioned"], (f"{policy} "
                                 f"{cell(each['provisioned'], 'bit/s')} "
                                 f"({best}: p99 {p99})")


def beats_flows(means: Means, rate: str, capacity: int, limit_s: float):
    """Each by its best setting that keeps the same p99."""
    found = {policy: least(means, rate, capacity, policy, limit_s)
             for policy in SWEPT}
    demand = means[rate, capacity, "snf"]["demand"]
    text = (", ".join(words for _, words in found.values())
            + f"; for {cell(demand, 'bit/s')}")
    kept = [value for value, _ in found.values() if value is not None]
    ours = found["snf"][0]
    return text, holds(ours is not None and ours == min(kept))


def loses_nothing(runs: list[tuple]):
    """By default; at other settings it is in the tables."""
    by_default = [row for row in runs if row[3] == DEFAULT]
    if not any(row[2] == "snf" for row in by_default):
        raise Missing("no run of snf")
    lost = {policy: sum(row[-1] for row in by_default if row[2] == policy)
            for policy in POLICIES}
    text = ", ".join(f"{policy} {count:,}"
                     for policy, count in lost.items() if count)
    return text or "none", holds(lost["snf"] == 0)


def findings(packing: Packing, means: Means, runs: list[tuple]) -> Findings:
    lab = packing.lab
    found = Findings("What came out, beside what SNF found")
    for rate, capacity in places(lab):
        limit_s = limit_of(means, rate, capacity)
        of = f"units of {capacity / GBPS:g} Gbit/s at {rate}"
        found.add(
            f"utilisation of {of}, defaults",
            "matches the demand closely (Fig. 1, 2)",
            f"at least 90 % of first fit's, p99 ≤ {cell(limit_s, 's')}",
            lambda r=rate, c=capacity: packs(means, r, c),
            lambda r=rate, c=capacity: why_no_more(packing, means, r, c))
        for limit in (limit_s, *(looser for looser in LOOSER_LIMITS_S
                                 if looser > limit_s)):
            found.add(
                f"provisioned in {of}, p99 ≤ {cell(limit, 's')}",
                "less than by flows (Fig. 1)", "snf provisions least",
                lambda r=rate, c=capacity, t=limit: beats_flows(means, r, c,
                                                                t),
                lambda r=rate, c=capacity: "of snf by setting: " + curve(
                    means, r, c, "provisioned", "bit/s"))
    found.add("packets dropped", "not told", "none by snf",
              lambda: loses_nothing(runs))
    return found


# --- The figure ---------------------------------------------------------------

SHOWN = POLICIES[:4]  # hash provisions all units at once
REFERENCE_STYLES = {"ceil": ("-", "demand, rounded up every 10 ms"),
                    "pooled": ("--", "pooled queue, p99 ≤ 400 µs"),
                    "first_fit": (":", "first fit, ends when idle")}


def draw_provisioned(axes, lab: Lab, means: Means):
    from charts import STYLES, engineering, plain
    plain(axes, "y")
    wide = 0.8 / len(SHOWN)
    for i, rate in enumerate(rates(lab)):
        for j, policy in enumerate(SHOWN):
            axes.bar(i + (j - len(SHOWN) / 2 + 0.5) * wide,
                     means.get((rate, GBPS, policy, DEFAULT), "provisioned"),
                     wide * 0.9, color=STYLES[policy]["color"],
                     label=policy if i == 0 else None)
        for name, (dashes, label) in REFERENCE_STYLES.items():
            value = means.get((rate, GBPS, REFERENCES[name]), "provisioned")
            axes.plot((i - 0.45, i + 0.45), (value, value), color="black",
                      linestyle=dashes, linewidth=1.3,
                      label=label if i == 0 else None)
    axes.set_xticks(range(len(rates(lab))),
                    [rate.replace(", ", ",\n") for rate in rates(lab)])
    axes.set_ylabel("provisioned, mean until the last packet")
    axes.yaxis.set_major_formatter(engineering("bit/s"))
    axes.set_title("Provisioned by default, units of 1 Gbit/s")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def draw_trade(axes, rate: str, means: Means):
    """Each setting of each policy: what is provisioned, and the p99."""
    from charts import STYLES, engineering, plain
    plain(axes)
    for policy in SWEPT:
        places = [(rate, GBPS, policy, setting) for setting in SETTINGS]
        axes.plot([means.get(place, "latency p99") for place in places],
                  [means.get(place, "provisioned") for place in places],
                  linestyle="none", markersize=5, label=policy,
                  **STYLES[policy])
    axes.axvline(means.get((rate, GBPS, REFERENCES["alone"]), "latency p99"),
                 color="black", linewidth=1, linestyle=":",
                 label="each flow alone")
    axes.axhline(means.get((rate, GBPS, REFERENCES["ceil"]), "provisioned"),
                 color="black", linewidth=1, label="demand, rounded up")
    axes.set_xscale("log")
    axes.set_xlim(1e-4, 2e-2)
    axes.set_ylim(0, 1.1 * max(axes.get_ylim()[1], 1))
    for axis, unit in ((axes.xaxis, "s"), (axes.yaxis, "bit/s")):
        axis.set_major_formatter(engineering(unit))
        axis.set_minor_formatter(lambda *_: "")
    axes.set_xlabel("latency, p99")
    axes.set_title(rate)


def draw(figure, lab: Lab, means: Means):
    grid = figure.add_gridspec(2, len(rates(lab)))
    draw_provisioned(figure.add_subplot(grid[0, :]), lab, means)
    for i, rate in enumerate(rates(lab)):
        axes = figure.add_subplot(grid[1, i])
        draw_trade(axes, rate, means)
        if i == 0:
            axes.set_ylabel("provisioned, a mark for each setting")
        if i == len(rates(lab)) - 1:
            axes.legend(fontsize=8, loc="center left",
                        bbox_to_anchor=(1.0, 0.5))


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    packing = Packing(lab, outcomes)
    runs = packing.runs()
    run_means = Means(RUN_COLUMNS, runs, 4)
    return Report(
        tables=[findings(packing, run_means, runs).table,
                run_means.table(
                    "", "Policies by default, and references, means over seeds",
                    lambda row: row[3] in (DEFAULT, "")),
                run_means.table("settings",
                                "Settings of policies, means over seeds",
                                lambda row: row[2] in SWEPT)],
        series=[Table("runs", "", RUN_COLUMNS, runs)],
        draw=lambda figure: draw(figure, lab, run_means), size=(12.5, 8.0))

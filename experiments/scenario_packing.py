# SPDX-License-Identifier: Apache-2.0
"""How many units every policy provisions, beside what would have sufficed."""

import math
import statistics

from results import cell
from scenario import (BETTER, DIFFERS, OWN_RATE, REPRODUCED, Column, Findings,
                      Job, Lab, Made, Means, Missing, Outcomes, Report, Table,
                      bits_per_second, dropped, holds, known_rows, ratio,
                      verdict, with_seeds)
from series import units_between, up_times

SUMMARY = "every policy beside bounds that know the future"
SOURCE = "SNF §9.1, §9.2"
ABOUT = """
Swept: the rate of the traffic, the policy, the capacity of a unit, how state
gets to units. Units are up from the order to start them until they are parked;
utilisation is the traffic's mean rate over the mean of what was provisioned
from the first packet to the last. All units are warm at the start. The bounds
are computed from the capture and know its future (experiments/bounds.py): the
demand rounded up to units every 10 ms; one queue before all units, of which
every 10 ms the fewest are up that keep p99 within 400 µs; first fit of
flowlets by the rates that they turn out to have, where a unit ends when it has
none, or is held for 100 ms longer.
Utilisation above 100 % is traffic that waits at its end, or was lost. SNF finds
that flowlets follow the demand closely, and flows do not.
"""

GBPS = 1_000_000_000
LATENCY_LIMIT_S = 400e-6
POLICIES = ("snf", "smart_flow", "vanilla_flow", "per_packet", "hash")
BOUNDS = {"ceil": "bound: rounded up",
          "pooled": "bound: pooled queue",
          "first_fit": "bound: first fit",
          "first_fit_held": "bound: first fit, held"}
BASE = ("--nf=passthrough", "--warm_units=64")
RELAXED = "2ms"
SMALL_UNIT = 200_000_000
CHAIN = "firewall | monitor | nat"
NFS = ("nat", CHAIN)
STATE = {"proactive": (), "reactive": ("--replica_choice=none",)}

RUN_COLUMNS = (
    Column("traffic"), Column("a unit", "bit/s"), Column("policy"),
    Column("seed", is_detail=True), Column("demand", "bit/s", is_detail=True),
    Column("provisioned", "bit/s"), Column("mean", "units", is_detail=True),
    Column("utilisation", "share"), Column("latency p50", "s", is_detail=True),
    Column("latency p99", "s"),
    Column("flowlets moved", "share", is_detail=True),
    Column("seamless", "share", is_detail=True), Column("dropped", "packets"))
STATE_COLUMNS = (
    Column("traffic", is_detail=True), Column("NF"), Column("state"),
    Column("seed", is_detail=True), Column("state sent", "bit/s"),
    Column("of the traffic", "share"), Column("pushes", is_detail=True),
    Column("pushes used", "share"), Column("seamless", "share"),
    Column("held p99", "s"), Column("latency p99", "s", is_detail=True),
    Column("dropped", "packets", is_detail=True))


# --- What is run --------------------------------------------------------------

def rates(lab: Lab) -> tuple[str, ...]:
    return lab.rates or lab.choose(("1Gbps", "2Gbps", "5Gbps"), ("1Gbps",))


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


def policy_job(lab: Lab, rate: str, seed: int, policy: str,
               capacity: int) -> Job:
    return lab.replay(
        f"{policy}, {rate}, units of {capacity / GBPS:g} Gbit/s, seed {seed}",
        capture(lab, rate, seed), *BASE, f"--policy={policy}",
        f"--unit_capacity={capacity}bps", series=True)


def relaxed_job(lab: Lab, rate: str, seed: int) -> Job:
    """Asks whether what is provisioned is the price of latency."""
    return lab.replay(
        f"snf, {rate}, latency target {RELAXED}, seed {seed}",
        capture(lab, rate, seed), *BASE, f"--unit_capacity={GBPS}bps",
        f"--latency_target={RELAXED}", series=True)


def bounds_job(lab: Lab, rate: str, seed: int, capacity: int) -> Job:
    return lab.bounds(
        f"bounds, {rate}, units of {capacity / GBPS:g} Gbit/s, seed {seed}",
        capture(lab, rate, seed), capacity)


def state_job(lab: Lab, rate: str, seed: int, nf: str, state: str) -> Job:
    return lab.replay(f"{nf}, {state}, {rate}, seed {seed}",
                      capture(lab, rate, seed), "--warm_units=64",
                      f"--nf={nf}", *STATE[state])


def cases(lab: Lab):
    """(rate, capacity of a unit, seed)."""
    return [(rate, capacity, seed) for rate in rates(lab)
            for capacity in capacities(rate) for seed in seeds(lab, rate)]


def jobs(lab: Lab) -> list[Job]:
    found = []
    for rate, capacity, seed in cases(lab):
        found.append(bounds_job(lab, rate, seed, capacity))
        found += [policy_job(lab, rate, seed, policy, capacity)
                  for policy in POLICIES]
    found += [relaxed_job(lab, rate, seed) for rate in rates(lab)
              for seed in seeds(lab, rate)]
    first = rates(lab)[0]
    found += [state_job(lab, first, seed, nf, state) for nf in NFS
              for state in STATE for seed in seeds(lab, first)]
    return found


# --- What is told -------------------------------------------------------------

class Packing:
    """The figures of the runs of one scenario."""

    def __init__(self, lab: Lab, outcomes: Outcomes):
        self.lab = lab
        self.outcomes = outcomes

    def policy_row(self, rate, capacity, seed, policy) -> tuple:
        bounds = self.outcomes[bounds_job(self.lab, rate, seed, capacity)]
        ran = self.outcomes[policy_job(self.lab, rate, seed, policy, capacity)]
        units = units_between(up_times(ran.folder / "series"), 0,
                              bounds["duration_ns"] / 1e9)
        return (rate, capacity, policy, seed, bounds["mean_bps"],
                units * capacity, units, bounds["mean_bps"] / units / capacity,
                ran["latency_ns.p50"] / 1e9, ran["latency_ns.p99"] / 1e9,
                ratio(ran["flowlets_moved"], ran["flowlets_movable"]),
                ratio(ran["flowlets_seamless"], ran["flowlets_moved"]),
                dropped(ran))

    def bound_row(self, rate, capacity, seed, bound) -> tuple:
        bounds = self.outcomes[bounds_job(self.lab, rate, seed, capacity)]
        units = bounds["units"][bound]
        p99 = bounds["pooled_p99_ns"] / 1e9 if bound == "pooled" else None
        return (rate, capacity, BOUNDS[bound], seed, bounds["mean_bps"],
                units * capacity, units, bounds["utilisation"][bound],
                None, p99, None, None, None)

    def state_row(self, rate, nf, state, seed) -> tuple:
        ran = self.outcomes[state_job(self.lab, rate, seed, nf, state)]
        sent = ran["state_bytes"]
        return (rate, nf, state, seed, sent * 8 / ran["duration_s"],
                sent / ran["bytes_in"], ran["state_pushes"],
                ratio(ran["flowlets_seamless"], ran["state_pushes"]),
                ratio(ran["flowlets_seamless"], ran["flowlets_moved"]),
                ran["wait_ns.p99"] / 1e9, ran["latency_ns.p99"] / 1e9,
                dropped(ran))

    def runs(self) -> list[tuple]:
        """A row a run; those that failed are left out."""
        return known_rows((make, (*case, name)) for case in cases(self.lab)
                          for make, names in ((self.policy_row, POLICIES),
                                              (self.bound_row, BOUNDS))
                          for name in names)

    def state_runs(self) -> list[tuple]:
        rate = rates(self.lab)[0]
        return known_rows((self.state_row, (rate, nf, state, seed))
                          for nf in NFS for state in STATE
                          for seed in seeds(self.lab, rate))


    def relaxed(self, rate) -> str:
        """What the run with another target tells."""
        found = []
        for seed in seeds(self.lab, rate):
            ran = self.outcomes[relaxed_job(self.lab, rate, seed)]
            bounds = self.outcomes[bounds_job(self.lab, rate, seed, GBPS)]
            found.append((GBPS * units_between(
                up_times(ran.folder / "series"), 0,
                bounds["duration_ns"] / 1e9), ran["latency_ns.p99"] / 1e9))
        provisioned, p99 = map(statistics.fmean, zip(*found))
        return (f"with --latency_target={RELAXED} snf provisions "
                f"{cell(provisioned, 'bit/s')} at p99 {cell(p99, 's')}")


# --- What is found ------------------------------------------------------------

def packs(means: Means, rate: str, capacity: int):
    """Utilisation at a bounded latency, against first fit by real rates."""
    ours = means[rate, capacity, "snf"]
    fit = means[rate, capacity, BOUNDS["first_fit"]]["utilisation"]
    pooled = means[rate, capacity, BOUNDS["pooled"]]["utilisation"]
    used, p99 = ours["utilisation"], ours["latency p99"]
    text = (f"{cell(used, 'share')} at p99 {cell(p99, 's')}; first fit "
            f"{cell(fit, 'share')}, pooled queue {cell(pooled, 'share')}")
    if p99 > LATENCY_LIMIT_S or used < 0.9 * fit:
        return text, DIFFERS
    return text, BETTER if used > 1.1 * fit else REPRODUCED


def nearly_empty(means: Means, rate: str, capacity: int) -> str:
    """The latency that is left where units have next to nothing to do."""
    spread = means[rate, capacity, "hash"]
    return (f"flows spread by hash, at a utilisation of "
            f"{cell(spread['utilisation'], 'share')}, have a p99 of "
            f"{cell(spread['latency p99'], 's')}")


def beats_flows(means: Means, rate: str):
    found = {policy: means[rate, GBPS, policy] for policy in POLICIES[:3]}
    provisioned = {policy: each["provisioned"]
                   for policy, each in found.items()}
    text = ", ".join(f"{policy} {cell(each['provisioned'], 'bit/s')} (p99 "
                     f"{cell(each['latency p99'], 's')})"
                     for policy, each in found.items())
    demand = found["snf"]["demand"]
    return (f"{text}, for {cell(demand, 'bit/s')}",
            holds(provisioned["snf"] == min(provisioned.values())))


def replicates(means: Means, rate: str, nf: str):
    ours = means[rate, nf, "proactive"]
    text = (f"{cell(ours['state sent'], 'bit/s')}, "
            f"{cell(ours['of the traffic'], 'share')} of the traffic; "
            f"{cell(ours['pushes used'], 'share')} of pushes used")
    return text, holds(ours["state sent"] <= 4.8e6)


def is_seamless(means: Means, rate: str, nf: str):
    ours = means[rate, nf, "proactive"]["seamless"]
    return cell(ours, "share"), verdict(ours or 0.0, 0.904, "higher", 0.05)


def holds_less(means: Means, rate: str, nf: str):
    held = {state: means[rate, nf, state]["held p99"] for state in STATE}
    text = (f"{cell(held['reactive'], 's')} reactive, "
            f"{cell(held['proactive'], 's')} proactive")
    if held["proactive"] == 0:
        return text, BETTER if held["reactive"] else REPRODUCED
    return text, verdict(held["reactive"] / held["proactive"], 133 / 11,
                         "higher", 0.2)


def loses_nothing(runs: list[tuple]):
    if not any(row[2] == "snf" for row in runs):
        raise Missing("no run of snf")
    lost = {policy: sum(row[-1] for row in runs if row[2] == policy)
            for policy in POLICIES}
    text = ", ".join(f"{policy} {count:,}"
                     for policy, count in lost.items() if count)
    return text or "none", holds(lost["snf"] == 0)


def findings(packing: Packing, means: Means, states: Means,
             runs: list[tuple]) -> Findings:
    lab = packing.lab
    found = Findings("What came out, beside what SNF found")
    for rate, capacity in dict.fromkeys(case[:2] for case in cases(lab)):
        found.add(
            f"utilisation of units of {capacity / GBPS:g} Gbit/s at {rate}",
            "matches the demand closely (Fig. 1, 2)",
            "at least 90 % of first fit's, p99 ≤ 400 µs",
            lambda r=rate, c=capacity: packs(means, r, c),
            lambda r=rate, c=capacity: nearly_empty(means, r, c))
    for rate in rates(lab):
        found.add(f"provisioned at {rate}",
                  "less than by flows (Fig. 1)",
                  "snf provisions least",
                  lambda r=rate: beats_flows(means, r),
                  lambda r=rate: packing.relaxed(r))
    first = rates(lab)[0]
    for nf in NFS:
        found.add(f"state sent, {nf}", "2.9–4.8 Mbit/s, five NFs (§9.7)",
                  "≤ 4.8 Mbit/s", lambda n=nf: replicates(states, first, n))
    for nf in NFS:
        found.add(f"flowlets that moved seamlessly, {nf}",
                  "90.4 % (§9.2)", "90 %",
                  lambda n=nf: is_seamless(states, first, n))
    for nf in NFS:
        found.add(f"held for state, p99, {nf}",
                  "NAT's latency 133 µs reactive, 11 µs proactive (Fig. 4)",
                  "a twelfth", lambda n=nf: holds_less(states, first, n))
    found.add("packets dropped", "not told", "none by snf",
              lambda: loses_nothing(runs))
    return found


# --- The figure ---------------------------------------------------------------

SHOWN = POLICIES[:4]  # hash provisions all units at once
BOUND_STYLES = {"ceil": ("-", "demand, rounded up"),
                "pooled": ("--", "pooled queue, p99 ≤ 400 µs"),
                "first_fit": (":", "first fit, ends when idle")}


def draw_provisioned(axes, lab: Lab, means: Means):
    from charts import STYLES, engineering, plain
    plain(axes, "y")
    wide = 0.8 / len(SHOWN)
    for i, rate in enumerate(rates(lab)):
        for j, policy in enumerate(SHOWN):
            axes.bar(i + (j - len(SHOWN) / 2 + 0.5) * wide,
                     means.get((rate, GBPS, policy), "provisioned"), wide * 0.9,
                     color=STYLES[policy]["color"],
                     label=policy if i == 0 else None)
        for name, (dashes, label) in BOUND_STYLES.items():
            value = means.get((rate, GBPS, BOUNDS[name]), "provisioned")
            axes.plot((i - 0.45, i + 0.45), (value, value), color="black",
                      linestyle=dashes, linewidth=1.3,
                      label=label if i == 0 else None)
    axes.set_xticks(range(len(rates(lab))), rates(lab))
    axes.set_xlabel("traffic")
    axes.set_ylabel("provisioned, mean until the last packet")
    axes.yaxis.set_major_formatter(engineering("bit/s"))
    axes.set_title("Provisioned, units of 1 Gbit/s")
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13),
                ncol=3)


def draw_trade(axes, lab: Lab, runs: list[tuple]):
    from charts import STYLES, engineering, plain
    plain(axes)
    shapes = "os^Dv"
    for row in runs:
        figures = dict(zip([column.name for column in RUN_COLUMNS], row))
        policy = figures["policy"]
        if policy not in SHOWN or figures["a unit"] != GBPS:
            continue
        rate = rates(lab).index(figures["traffic"])
        axes.scatter(figures["utilisation"], figures["latency p99"], s=36,
                     color=STYLES[policy]["color"], alpha=0.8,
                     edgecolors="white", linewidths=0.5,
                     marker=shapes[rate % len(shapes)])
    for i, rate in enumerate(rates(lab)):
        axes.scatter([], [], color="#555555", label=rate,
                     marker=shapes[i % len(shapes)])
    axes.axhline(LATENCY_LIMIT_S, color="black", linewidth=1,
                 linestyle="--", label="p99 of 400 µs")
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(10 ** math.floor(math.log10(low)),
                  10 ** math.ceil(math.log10(high)))
    axes.yaxis.set_major_formatter(engineering("s"))
    axes.yaxis.set_minor_formatter(lambda *_: "")
    axes.set_xlim(0, max(1, axes.get_xlim()[1]))
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    axes.set_xlabel("utilisation")
    axes.set_ylabel("latency, p99")
    axes.set_title("What packing costs: a mark for each run, by colour")
    axes.legend(fontsize=8, loc="upper left")


def tell(lab: Lab, outcomes: Outcomes) -> Report:
    packing = Packing(lab, outcomes)
    runs, states = packing.runs(), packing.state_runs()
    run_means = Means(RUN_COLUMNS, runs, 3)
    state_means = Means(STATE_COLUMNS, states, 3)

    def draw(figure):
        left, right = figure.subplots(1, 2)
        draw_provisioned(left, lab, run_means)
        draw_trade(right, lab, runs)

    return Report(
        tables=[findings(packing, run_means, state_means, runs).table,
                Table("", "Policies and bounds, means over seeds",
                      with_seeds(RUN_COLUMNS), run_means.rows),
                Table("state", "State sent, means over seeds",
                      with_seeds(STATE_COLUMNS), state_means.rows)],
        series=[Table("runs", "", RUN_COLUMNS, runs),
                Table("state_runs", "", STATE_COLUMNS, states)],
        draw=draw, size=(12.5, 5.2))

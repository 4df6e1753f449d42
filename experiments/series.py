# SPDX-License-Identifier: Apache-2.0
"""Units over time, from what `snf replay --csv` writes of single units."""

import bisect
import csv
import pathlib
from typing import NamedTuple


class UpTime(NamedTuple):
    """A time that a unit was up: in s since the first packet."""
    unit: int
    up_s: float
    down_s: float


def up_times(folder: pathlib.Path) -> list[UpTime]:
    with open(folder / "units.csv", encoding="ascii", newline="") as file:
        return [UpTime(int(row["unit"]), float(row["up_s"]),
                       float(row["down_s"])) for row in csv.DictReader(file)]


def units_between(times: list[UpTime], begin_s: float, end_s: float) -> float:
    """Units that were up, on average."""
    up_s = sum(max(0.0, min(time.down_s, end_s) - max(time.up_s, begin_s))
               for time in times)
    return up_s / (end_s - begin_s)


def units_over_time(times: list[UpTime], duration_s: float,
                    step_s: float) -> list[float]:
    """Units that were up on average in each step until the last packet."""
    count = max(1, round(duration_s / step_s))
    return [units_between(times, i * step_s, (i + 1) * step_s)
            for i in range(count)]


def utilisations(folder: pathlib.Path, duration_s: float,
                 step_s: float = 0.1) -> list[float]:
    """Of each unit that was up in a step of 100 ms, what it drained of what it
    could have, while it was up."""
    capacity_s = {}  # (step, unit) -> s of a unit at work
    with open(folder / "unit_series.csv", encoding="ascii",
              newline="") as file:
        for row in csv.DictReader(file):
            # In the middle of the 10 ms: no doubt which step that is in.
            step = int((float(row["start_s"]) + 0.005) / step_s)
            key = step, int(row["unit"])
            capacity_s[key] = capacity_s.get(key, 0.0) + \
                0.01 * float(row["up"]) * float(row["utilisation"])
    up_s = {}
    for time in up_times(folder):
        step = int(time.up_s / step_s)
        while step * step_s < min(time.down_s, duration_s):
            begin = max(time.up_s, step * step_s)
            end = min(time.down_s, duration_s, (step + 1) * step_s)
            key = step, time.unit
            up_s[key] = up_s.get(key, 0.0) + end - begin
            step += 1
    return sorted(capacity_s.get(key, 0.0) / up for key, up in up_s.items()
                  if up > 0)


def latency_quantile(folder: pathlib.Path, share: float) -> float:
    """Of the table of quantiles, in s."""
    text = (folder / "latency.csv").read_text(encoding="ascii")
    rows = [line.split(",") for line in text.splitlines()[1:]]
    at = bisect.bisect_left([float(row[0]) for row in rows], share - 1e-9)
    return int(rows[at][1]) / 1e9

# SPDX-License-Identifier: Apache-2.0
"""What the captures are like that an experiment ran on."""

import dataclasses
import re
from collections.abc import Iterable

from scenario import Column, Job, Made, Missing, Outcome, Outcomes, Table

COLUMNS = (Column("traffic"), Column("packets"), Column("connections"),
           Column("rate", "bit/s"), Column("packet p50", "bytes"),
           Column("flow p50", "bytes"), Column("flows over 10 KB", "share"),
           Column("gap p50", "s"),
           Column("flowlets a flow by timeout alone, T = 100 µs"),
           Column("by timeout alone, T = 500 µs"))
# As far as it is told (SNF §9): the median packet, and how many flows are long.
PUBLISHED = ("the trace of SNF's authors", 6.4e6, 199e3, None, 1434, None, 0.05,
             None, None, None)
LONG_BYTES = 10_000


def captures_of(jobs: Iterable[Job]) -> dict[str, Made]:
    """That these jobs read, by name; of several seeds the first."""
    found = {}
    for job in jobs:
        for argument in job.arguments:
            if isinstance(argument, Made):
                found.update({name: made for name, made in captures_of(
                    [argument.job]).items() if name not in found})
                name = re.sub(r", seed \d+$", "", argument.job.name)
                if argument.file.endswith(".pcap"):
                    found.setdefault(name, dataclasses.replace(argument,
                                                               flag=""))
    return found


def info_job(name: str, made: Made) -> Job:
    return Job(f"statistics of {name}", "snf",
               ("trace", "info", made, "--json=-", "--quiet"), 0.2)


def info_jobs(jobs: Iterable[Job]) -> list[Job]:
    return [info_job(*each) for each in captures_of(jobs).items()]


def row(name: str, ran: Outcome) -> tuple:
    found = ran["captures"][0]
    flow_bytes = found["flow_bytes"]["percentiles"]
    # Flowlets that end by timeout alone.
    by_timeout = {each["timeout_ns"]: each["per_flow"]
                  for each in found["flowlets"] if each["bytes"] is None}
    return (name, found["packets"], found["flows"]["connection"],
            found["rate"]["mean_bps"], found["packet_bytes"]["p50"],
            found["flow_bytes"]["p50"],
            sum(value > LONG_BYTES for value in flow_bytes) / len(flow_bytes),
            found["gap_ns"]["p50"] / 1e9, by_timeout.get(100_000),
            by_timeout.get(500_000))


def table(jobs: Iterable[Job], outcomes: Outcomes) -> Table | None:
    """None if nothing was read, or all of its statistics failed."""
    rows = []
    for name, made in captures_of(jobs).items():
        try:
            rows.append(row(name, outcomes[info_job(name, made)]))
        except Missing:
            pass
    if not rows:
        return None
    return Table("traffic", "The traffic, beside what is published",
                 COLUMNS, [*rows, PUBLISHED])

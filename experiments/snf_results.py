# SPDX-License-Identifier: Apache-2.0
"""Reads what SNF writes, for notebooks: with pandas, or without it.

    import snf_results
    frame = snf_results.frame("results/packing.csv")        # a pandas.DataFrame
    frame.attrs["seeds"]                                    # where it comes from
    rows, origin = snf_results.table("results/packing.csv") # without pandas
    run = snf_results.report("run.json")                    # of --json=run.json

Takes the tables of `./snf experiment`, and those of `./snf replay --csv` as well,
which have no lines that say where they come from. Needs no other file of SNF:
copy it, or put experiments/ into PYTHONPATH.
"""

import csv
import json
import os
import re

UNSET = ""  # of a cell whose value is not known


def value_of(text: str):
    """A number if it is one; None for a cell that is empty."""
    if text == UNSET:
        return None
    if re.fullmatch(r"-?[0-9]+", text):
        return int(text)
    if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?", text):
        return float(text)
    return text


def table(path: str | os.PathLike) -> tuple[list[dict], dict[str, str]]:
    """Rows by the names of columns, and where they come from, by name.

    ValueError, with file and line, if it is not such a table."""
    with open(path, encoding="utf-8", newline="") as file:
        lines = file.read().splitlines(keepends=True)
    origin = {}
    first = 0
    while first < len(lines) and lines[first].startswith("# "):
        name, colon, value = lines[first][2:].strip().partition(": ")
        if not colon:
            raise ValueError(f"{path}:{first + 1}: no '# NAME: VALUE'")
        origin[name] = value
        first += 1
    reader = csv.reader(lines[first:])
    names = next(reader, None)
    if not names or len(set(names)) != len(names):
        raise ValueError(f"{path}:{first + 1}: no names of columns")
    rows = []
    for cells in reader:
        if len(cells) != len(names):
            raise ValueError(f"{path}:{first + reader.line_num}: {len(cells)} "
                             f"cells in {len(names)} columns")
        rows.append(dict(zip(names, map(value_of, cells))))
    return rows, origin


def frame(path: str | os.PathLike):
    """A pandas.DataFrame; its `attrs` say where it comes from."""
    import pandas  # wanted here alone
    rows, origin = table(path)
    made = pandas.DataFrame(rows)
    made.attrs.update(origin)
    return made


def report(path: str | os.PathLike) -> dict:
    """The figures of a run by dotted names: "latency_ns.p99"."""
    with open(path, encoding="utf-8") as file:
        figures = json.load(file)
    if not isinstance(figures, dict):
        raise ValueError(f"{path}: no JSON object")
    flat = {}

    def add(prefix: str, value):
        if isinstance(value, dict):
            for name, each in value.items():
                add(f"{prefix}.{name}" if prefix else name, each)
        else:
            flat[prefix] = value

    add("", figures)
    return flat

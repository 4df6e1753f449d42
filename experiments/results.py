# SPDX-License-Identifier: Apache-2.0
"""Writes what a scenario tells: CSV, Markdown, PNG and SVG.

Each says where its numbers come from: captures, seeds, the version of snf and
the machine. Nothing in them depends on when or how fast they were made.
"""

import csv
import io
import os
import pathlib
import platform
import textwrap

from scenario import MOST_LOST, Column, Missing, Report, Table


def write(path: pathlib.Path, data: bytes | str):
    """A file is there whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data if isinstance(data, bytes) else data.encode())
    partial.rename(path)


# --- Cells --------------------------------------------------------------------

def engineering(value: float, unit: str) -> str:
    """"2.73 Gbit/s", "402 µs"."""
    if value == 0:
        return f"0 {unit}"
    steps = ((1, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")) if unit == "s" \
        else ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""))
    # What rounds up to the next prefix gets it.
    scale, prefix = next((step for step in steps
                          if abs(value) >= step[0] * 0.9995), steps[-1])
    number = value / scale
    digits = 2 if abs(number) < 9.995 else 1 if abs(number) < 99.95 else 0
    return f"{number:.{digits}f} {prefix}{unit}"


def cell(value, unit: str) -> str:
    """As people read it."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit in ("s", "bit/s"):
        return engineering(value, unit)
    if isinstance(value, float) and value != round(value):
        return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{round(value):,}"


def columns_read(table: Table) -> list[Column]:
    """Intervals have no column of their own where people read."""
    return [column for column in table.columns if not column.is_interval]


OF_THE_OTHERS = (f"† More than {100 * MOST_LOST:g} % of the packets were lost: "
                 "the latency is that of the others.")


def is_whole(table: Table, row: tuple) -> bool:
    """False if latencies are of the packets alone that were not lost."""
    return all(column.name != "lost" or (value or 0) <= MOST_LOST
               for value, column in zip(row, table.columns))


def note_on(table: Table) -> str:
    """Below a table; empty if there is none."""
    return "" if all(is_whole(table, row) for row in table.rows) \
        else OF_THE_OTHERS


def cells_read(table: Table, row: tuple) -> list[str]:
    """A cell for each of columns_read(): "351 µs ± 12.0 µs"."""
    texts = []
    mark = "" if is_whole(table, row) else " †"
    for value, column in zip(row, table.columns):
        if column.is_interval:
            if value is not None:
                texts[-1] += f" ± {cell(value, column.unit)}"
        else:
            texts.append(cell(value, column.unit) + (
                mark if column.name.startswith("latency") else ""))
    return texts


def name_with_unit(column: Column, form: str) -> str:
    """A unit that cells name is not named again."""
    if column.unit in ("", "share", "s", "bit/s"):
        return column.name
    return column.name + form.format(column.unit)


def markdown_table(table: Table) -> str:
    lines = [[name_with_unit(column, ", {}")
              for column in columns_read(table)],
             ["---:" if all(isinstance(row[i], (int, float, type(None)))
                            for row in table.rows) else "---"
              for i, column in enumerate(table.columns)
              if not column.is_interval]]
    for row in table.rows:
        lines.append([text.replace("|", "\\|")
                      for text in cells_read(table, row)])
    note = note_on(table)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + (
        f"\n\n{note}\n" if note else "\n")


def text_table(table: Table) -> str:
    """For a terminal: findings as paragraphs, other tables in columns."""
    if any(column.name == "why" for column in table.columns):
        return "\n".join(paragraph(table, row) for row in table.rows)
    shown = [i for i, column in enumerate(table.columns)
             if not column.is_detail and not column.is_interval]
    names = [table.columns[i].name for i in shown]
    rows = [[cell(row[i], table.columns[i].unit) + (
        " †" if table.columns[i].name.startswith("latency") and
        not is_whole(table, row) else "") for i in shown]
            for row in table.rows]
    widths = [max(map(len, cells)) for cells in zip(names, *rows)]
    note = note_on(table)
    return "".join("  ".join(f"{text:{width}}" for text, width in
                             zip(row, widths)).rstrip() + "\n"
                   for row in [names, *rows]) + (f"{note}\n" if note else "")


def paragraph(table: Table, row: tuple) -> str:
    what, source, ours, expected, verdict, why = row
    lines = [f"{verdict.upper()}: {what}"]
    for name, text in (("source", source), ("expected", expected),
                       ("ours", ours), ("why", why)):
        if text:
            lines += textwrap.wrap(f"{name:10}{text}", 78, initial_indent="  ",
                                   subsequent_indent=" " * 12)
    return "\n".join(lines) + "\n"


def csv_table(table: Table, origin: dict[str, str]) -> str:
    """Numbers in full; lines that begin with # say where they come from."""
    def header(column: Column) -> str:
        return f"{column.name} ({column.unit})" if column.unit else column.name

    text = io.StringIO()
    for name, value in origin.items():
        text.write(f"# {name}: {value}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(header, table.columns))
    for row in table.rows:
        writer.writerow("" if value is None else value for value in row)
    return text.getvalue()


# --- A report -----------------------------------------------------------------

def markdown(name: str, scenario, report: Report, origin: dict[str, str],
             figure: str | None) -> str:
    about = textwrap.fill(" ".join(scenario.ABOUT.split()), 80)
    parts = [f"# {name}: {scenario.SUMMARY}\n", f"{about}\n"]
    if figure:
        parts.append(f"![{scenario.SUMMARY}]({figure})\n")
    for table in report.tables:
        parts.append(f"## {table.title}\n\n{markdown_table(table)}")
    parts.append("## Where this comes from\n\n" + "".join(
        f"- {key}: {value}\n" for key, value in origin.items()))
    return "\n".join(parts)


def write_report(folder: pathlib.Path, name: str, scenario, report: Report,
                 origin: dict[str, str], charts) -> list[pathlib.Path]:
    """Returns the files. `charts` is the module of that name, or None."""
    written = []

    def add(file: str, data: bytes | str):
        write(folder / file, data)
        written.append(folder / file)

    for table in [*report.tables, *report.series]:
        file = f"{name}_{table.name}.csv" if table.name else f"{name}.csv"
        add(file, csv_table(table, origin))
    for file, text in report.files.items():
        if text is None:
            (folder / file).unlink(missing_ok=True)
        else:
            add(file, text)
    figure = None
    if charts is not None and report.draw is not None:
        footer = "; ".join(f"{key} {value}" for key, value in origin.items())
        try:
            for suffix, data in charts.drawn(report, footer).items():
                add(f"{name}.{suffix}", data)
            figure = f"{name}.png"
        except Missing:  # which run that is has been told
            pass
    if figure is None:
        for suffix in ("png", "svg"):  # of an earlier run
            (folder / f"{name}.{suffix}").unlink(missing_ok=True)
    add(f"{name}.md", markdown(name, scenario, report, origin, figure))
    return written


# --- Where numbers come from --------------------------------------------------

def machine() -> str:
    model = platform.machine()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = " ".join(line.split(":", 1)[1].split())
                break
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0))
    return (f"{cores} × {model}, {memory:.0f} GiB, "
            f"{platform.system()} {platform.release()}")

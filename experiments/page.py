# SPDX-License-Identifier: Apache-2.0
"""One HTML page of all experiments, with its figures in it."""

import base64
import collections
import html as markup
import pathlib
from typing import NamedTuple

from results import cells_read, columns_read, name_with_unit, note_on
from runner import NOT_RUN as NEEDS_ANOTHER
from scenario import (BETTER, DIFFERS, FAILED, NOT_RUN, REPRODUCED, Column,
                      Report, Table)

# No colour alone says anything: the word is there, too.
MARKS = {REPRODUCED: "ok", BETTER: "ok", DIFFERS: "differs", FAILED: "failed",
         NOT_RUN: "open"}
# What papers measured and no experiment here can yet.
MISSING = Table("", "Not measured yet", (Column("what"), Column("source"),
                                         Column("why")), [
    ("VPN and load balancer", "SNF §9.7, Serpens Fig. 12",
     "no packet of the captures is for a tunnel or a virtual address"),
    ("latency through network cards", "Serpens Fig. 15",
     "packets are in memory before and go nowhere"),
    ("DHCP in the platform and as a program", "NFoS Table III",
     "no load of DHCP clients is made yet"),
    ("chains across units, by a gateway and direct", "DirectFaaS Fig. 9–12",
     "a chain runs within one unit")])
VERDICT_COLUMNS = (Column("experiment"), Column("what"), Column("the source"),
                   Column("ours"), Column("verdict"))
STYLE = """
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:76rem;
padding:0 1rem 3rem;color:#1b1b1b;background:#fff;overflow-wrap:anywhere}
h2{border-top:2px solid #ddd;margin-top:2.5rem;padding-top:1rem}
img{width:100%;min-width:44rem;height:auto}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem;margin:.5rem 0;
overflow-wrap:normal}
th,td{border-bottom:1px solid #ddd;padding:.25rem .6rem;text-align:left;
vertical-align:top}
td.n{text-align:right;white-space:nowrap}
.findings td{min-width:7rem}
.findings td.why{min-width:18rem}
.v{white-space:nowrap;font-weight:600;border-left:.5rem solid;
padding-left:.4rem}
.ok{border-color:#009e73}.differs{border-color:#d55e00}
.tally{font-size:1.1rem}
.failed{border-color:#000}.open{border-color:#999}
code,pre{background:#f3f3f3;padding:.1rem .3rem;white-space:pre-wrap}
footer,.from{color:#555;font-size:.85rem}
@media(max-width:40rem){
.findings,.findings tbody,.findings tr,.findings td{display:block}
.findings td,.findings td.why{border:0;min-width:0;padding:.1rem 0}
.findings tr{border-bottom:1px solid #ddd;padding:.5rem 0}
.findings tr:first-child,.findings td:empty{display:none}
.findings td::before{content:attr(data-name) ": ";color:#555}
}
"""


class Section(NamedTuple):
    """An experiment that was run; its figure is in `folder`."""
    name: str
    scenario: object  # the module
    report: Report
    origin: dict[str, str]
    folder: pathlib.Path


def html(sections: list[Section], failures: list[tuple], command: str) -> str:
    """Needs no other file and no network."""
    escape = markup.escape
    contents = "".join(overview(section) for section in sections)
    failed = "".join(f"<li>{escape(job.name)}: <code>{escape(text)}</code></li>"
                     for job, text in failures
                     if not text.startswith(NEEDS_ANOTHER))
    if failed:
        failed = f"<h2>Runs that failed</h2><ul>{failed}</ul>"
    return (
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
        "<meta name=\"viewport\" content=\"width=device-width, "
        "initial-scale=1\"><title>SNF: experiments</title>"
        f"<style>{STYLE}</style></head><body>\n<h1>What the papers measured, "
        "and what SNF shows</h1>\n<p>Each line of findings has a paper's value "
        "beside ours. What differs is shown, with what further runs tell of "
        "it; nothing is tuned to agree. To repeat all: "
        f"<code>{escape(command)}</code>; one: <code>./snf experiment NAME"
        f"</code>.</p>\n<p class=\"tally\">{tally(sections)}</p>\n"
        f"<p id=\"summary\">{escape(summary(sections))}</p>\n"
        "<div class=\"wide\"><table><tr><th>experiment</th>"
        f"<th>source</th><th>findings</th></tr>{contents}</table></div>\n"
        "<p><a href=\"#verdicts\">All findings in one table</a>; "
        "<a href=\"#missing\">what is not measured yet</a></p>\n"
        f"{failed}{''.join(map(section_html, sections))}"
        "<section id=\"verdicts\"><h2>All findings</h2>"
        f"{table_html(verdict_table(sections))}</section>"
        f"<section id=\"missing\"><h2>{MISSING.title}</h2>"
        f"{table_html(MISSING)}</section></body></html>\n")


def verdicts(report: Report) -> collections.Counter:
    return collections.Counter(
        row[4] for table in report.tables if is_findings(table)
        for row in table.rows)


def tally(sections: list[Section]) -> str:
    """How many findings came out how."""
    counts = sum((verdicts(section.report) for section in sections),
                 collections.Counter())
    return f"{sum(counts.values())} findings: " + ", ".join(
        f"{counts[verdict]} {verdict}" for verdict in MARKS if counts[verdict])


def summary(sections: list[Section]) -> str:
    """What came out, in a paragraph: for those who read no more."""
    by_verdict = {verdict: [] for verdict in MARKS}
    holding = []
    for section in sections:
        counts = verdicts(section.report)
        total = sum(counts.values())
        if 0 < total == counts[REPRODUCED] + counts[BETTER]:
            holding.append(section.name)
        for verdict, found in by_verdict.items():
            if counts[verdict]:
                found.append((section.name, counts[verdict], total))
    differing = sorted(by_verdict[DIFFERS], key=lambda each: -each[1])
    parts = [f"{len(sections)} experiments of four papers ran; "
             f"{tally(sections)}."]
    if holding:
        parts.append("All findings hold in " + ", ".join(holding) + ".")
    if differing:
        parts.append("What differs is in " + ", ".join(
            f"{name} ({of} of {total})" for name, of, total in differing)
            + "; their lines have what further runs tell of it.")
    if by_verdict[FAILED]:
        parts.append("Runs failed in " + ", ".join(
            name for name, *_ in by_verdict[FAILED]) + ".")
    if by_verdict[NOT_RUN]:
        parts.append("Without a verdict, as this machine was busy or the "
                     "program cannot do it: " + ", ".join(
                         f"{of} in {name}"
                         for name, of, _ in by_verdict[NOT_RUN]) + ".")
    return " ".join(parts)


def verdict_table(sections: list[Section]) -> Table:
    """A line for each finding of all experiments."""
    made = Table("", "All findings", VERDICT_COLUMNS)
    for section in sections:
        for table in filter(is_findings, section.report.tables):
            made.rows += [(section.name, what, source, ours, came_out)
                          for what, source, ours, _, came_out, _ in table.rows]
    return made


def is_findings(table: Table) -> bool:
    return any(column.name == "verdict" for column in table.columns)


def overview(section: Section) -> str:
    counts = verdicts(section.report)
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in MARKS
                      if counts[verdict])
    return (f"<tr><td><a href=\"#{section.name}\">{section.name}</a></td><td>"
            f"{markup.escape(section.scenario.SOURCE)}</td><td>{words}</td>"
            "</tr>")


def section_html(section: Section) -> str:
    escape = markup.escape
    origin = "; ".join(f"{key} {value}" for key, value in
                       section.origin.items())
    tables = "".join(f"<h3>{escape(table.title)}</h3>{table_html(table)}"
                     for table in section.report.tables)
    return (f"<section id=\"{section.name}\"><h2>{section.name}: "
            f"{escape(section.scenario.SUMMARY)}</h2>\n<p>"
            f"{escape(' '.join(section.scenario.ABOUT.split()))}</p>\n"
            f"{image(section)}{tables}<p class=\"from\">Source: "
            f"{escape(section.scenario.SOURCE)}. {escape(origin)}. To repeat: "
            f"<code>./snf experiment {section.name}</code></p></section>\n")


def image(section: Section) -> str:
    path = section.folder / f"{section.name}.png"
    if section.report.draw is None or not path.is_file():
        return "<p>There is no figure: matplotlib draws them.</p>"
    data = base64.b64encode(path.read_bytes()).decode()
    return (f"<div class=\"wide\"><img src=\"data:image/png;base64,{data}\" "
            f"alt=\"{markup.escape(section.scenario.SUMMARY)}\"></div>\n")


def table_html(table: Table) -> str:
    columns = columns_read(table)

    def td(value, text, column) -> str:
        text = markup.escape(text)
        if column.name == "verdict":
            text = f"<span class=\"v {MARKS[value]}\">{text}</span>"
        is_number = isinstance(value, (int, float))
        kind = "n" if is_number else "why" if column.name == "why" else ""
        shown = f" class=\"{kind}\"" if kind else ""
        if is_findings(table):  # narrow screens show a cell below the other
            shown += f" data-name=\"{markup.escape(column.name)}\""
        return f"<td{shown}>{text}</td>"

    def tr(row) -> str:
        values = [value for value, column in zip(row, table.columns)
                  if not column.is_interval]
        return "<tr>" + "".join(
            map(td, values, cells_read(table, row), columns)) + "</tr>\n"

    head = "".join(
        f"<th>{markup.escape(name_with_unit(column, ' ({})'))}</th>"
        for column in columns)
    name = " class=\"findings\"" if is_findings(table) else ""
    return (f"<div class=\"wide\"><table{name}><tr>{head}</tr>\n"
            f"{''.join(map(tr, table.rows))}</table></div>\n"
            + (f"<p>{note_on(table)}</p>\n" if note_on(table) else ""))

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs experiments and tells what came out, beside what was published.

`./snf experiment` runs it; scenario.py says what a scenario is.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import importlib
import os
import pathlib
import shlex
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import page
import results
import scenario
import traffic
import what_if
from runner import NOT_RUN, CacheInUse, Progress, Runner, what_of

HERE = pathlib.Path(__file__).resolve().parent
ALL, SWEEP = "all", "sweep"
OK, SOME_FAILED, USAGE, UNAVAILABLE, IO, INTERRUPTED = 0, 1, 2, 69, 74, 130


class Refused(Exception):
    """What the command line asks for cannot be: a line, and the exit code."""

    def __init__(self, line: str, code: int = USAGE):
        super().__init__(line)
        self.code = code


def scenario_names() -> list[str]:
    return sorted(path.stem.replace("_", "-")
                  for path in HERE.glob("scenarios/*.py"))


def load(name: str):
    return importlib.import_module("scenarios." + name.replace("-", "_"))


def list_scenarios() -> str:
    names = scenario_names()
    width = max(map(len, names))
    return "".join(f"{name:{width}}  {load(name).SUMMARY} "
                   f"({load(name).SOURCE})\n" for name in names)


# --- The command line ---------------------------------------------------------

class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(f"{message}; see ./snf experiment --help")


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="./snf experiment", allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs an experiment and writes tables and a figure, with "
        "published results\nbeside ours.",
        epilog=f"Experiments:\n\n{list_scenarios()}\nExit codes: 0 ok, 1 a run "
        "failed, 2 usage, 69 something is not available,\n74 I/O, 130 "
        "interrupted: the same command goes on where it stood.")
    made.add_argument("name", metavar="NAME",
                      help=f"an experiment; {ALL} that make no networks, with "
                      f"a page of the results; {SWEEP}: tries settings of your choice; or "
                      "list: tells which there are")
    made.add_argument("--quick", action="store_true",
                      help="less traffic and one seed: some seconds")
    made.add_argument("--trace", metavar="FILE", action="append", default=[],
                      help="captures whose conversations are overlaid to the "
                      "rates; without it, the one that comes with SNF")
    made.add_argument("--rate", metavar="RATE[,RATE…]", default="",
                      help="rates, as 1Gbps, instead of the experiment's own; "
                      f"{scenario.OWN_RATE}: the captures as they are")
    made.add_argument("--out", metavar="DIR", default="results",
                      help="where results go, and what is kept for the next "
                      "run (default: results)")
    made.add_argument("--jobs", metavar="N", type=int,
                      default=len(os.sched_getaffinity(0)),
                      help="runs at a time (default: as many as CPUs)")
    made.add_argument("--vary", metavar="FLAG=VALUE,VALUE…", action="append",
                      default=[], help=f"of {SWEEP}: a flag of snf replay and "
                      "its values; several times: all combinations")
    made.add_argument("--goal", metavar="FIGURE[ at FIGURE<=VALUE,…]",
                      default="units at p99<=400us, dropped<=0",
                      help=f"of {SWEEP}: what is to be least, within limits, "
                      "of " + ", ".join(what_if.FIGURES) + " (default: units "
                      "at p99<=400us, dropped<=0)")
    made.add_argument("--cache_gb", metavar="N", type=float, default=2.0,
                      help="what is kept for the next run is held to so many "
                      "GB: what was used longest ago goes (default: 2)")
    made.add_argument("--flags", metavar="'--FLAG=VALUE …'", default="",
                      help="further flags for each snf replay; they replace "
                      "the experiment's own")
    made.add_argument("--snf", metavar="FILE", help=argparse.SUPPRESS,
                      default=HERE.parent / "build/release/platform/snf",
                      type=pathlib.Path)
    return made


def lab_of(options: argparse.Namespace) -> scenario.Lab:
    traces = tuple(map(pathlib.Path, options.trace)) or (scenario.BUNDLED,)
    for trace in traces:
        if not trace.is_file():
            raise Refused(f"--trace={trace}: no such file", IO)
    rates = tuple(options.rate.split(",")) if options.rate else ()
    try:
        for rate in rates:
            if rate != scenario.OWN_RATE:
                scenario.bits_per_second(rate)
    except ValueError as error:
        raise Refused(f"--rate={options.rate}: {error}") from error
    try:
        flags = scenario.extra_flags(options.flags)
    except ValueError as error:
        raise Refused(f"--flags={options.flags}: {error}") from error
    if not options.out:
        raise Refused("--out: the value is empty")
    if options.jobs < 1:
        raise Refused(f"--jobs={options.jobs}: want at least 1")
    if not options.cache_gb >= 0:
        raise Refused(f"--cache_gb={options.cache_gb}: want 0 or more")
    return scenario.Lab(options.quick, traces, rates, flags)


def chosen_by(options: argparse.Namespace) -> dict:
    """Scenarios by name."""
    names = scenario_names()
    if options.name == SWEEP:
        try:
            return {SWEEP: what_if.Sweep(list(map(what_if.axis_of,
                                                  options.vary)),
                                         what_if.goal_of(options.goal))}
        except ValueError as error:
            raise Refused(f"sweep: {error}") from error
    if options.vary:
        raise Refused(f"--vary is for {SWEEP}")
    if options.name != ALL and options.name not in names:
        raise Refused(f"no experiment '{options.name}'; there are "
                      f"{', '.join(names)}, {ALL} and {SWEEP}")
    return {name: load(name) for name in names if options.name == name or
            (options.name == ALL and getattr(load(name), "IN_ALL", True))}


# --- Running ------------------------------------------------------------------

def version_of(snf: pathlib.Path) -> str:
    try:
        ran = subprocess.run([snf, "--version"], capture_output=True,
                             text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise Refused(f"{snf}: cannot be run; ./snf build makes it ({error})",
                      UNAVAILABLE) from error
    return ran.stdout.strip().removeprefix("snf ")


def find_charts():
    """The module that draws; None without matplotlib."""
    try:
        import charts
        return charts
    except ImportError as error:
        print(f"No figures, tables only: {error}; Debian's package "
              "python3-matplotlib draws.", file=sys.stderr)
        return None


def origin_of(lab: scenario.Lab, jobs: list[scenario.Job], runner: Runner,
              version: str) -> dict:
    hashes = [runner.hash_of(trace) for trace in lab.traces]
    if len(hashes) > scenario.MOST_NAMES:
        all_of_them = hashlib.sha256("".join(hashes).encode()).hexdigest()
        traces = f"{lab.source} (SHA-256 of their hashes {all_of_them[:12]})"
    else:
        traces = ", ".join(f"{trace.name} (SHA-256 {each[:12]})"
                           for trace, each in zip(lab.traces, hashes))
    return {"source": traces,
            "traffic": "quick" if lab.quick else "whole",
            "seeds": ", ".join(scenario.seeds_of(jobs)) or "of snf alone",
            "flags": " ".join(lab.flags) or "none besides the experiment's",
            "snf": f"{version} (SHA-256 {runner.hash_of(runner.snf)[:12]})",
            "machine": results.machine()}


def run(chosen: dict, lab: scenario.Lab,
        options: argparse.Namespace) -> int:
    """`chosen` has scenarios by name. All runs come first, so that the time
    that is left is that of all."""
    version = version_of(options.snf)
    charts = find_charts()
    out = pathlib.Path(options.out)
    with contextlib.closing(Runner(options.snf, out / "cache", options.jobs,
                                   Progress(sys.stderr))) as runner:
        jobs = {name: each.jobs(lab) for name, each in chosen.items()}
        of_all = [job for each in jobs.values() for job in each]
        outcomes = runner.run([*of_all, *traffic.info_jobs(of_all)])
        if not any(job in outcomes for job in of_all):
            print(f"snf experiment: no run succeeded, so nothing is written in "
                  f"{out}", file=sys.stderr)
            return tell_failures(runner)
        pages = []
        for name, each in jobs.items():
            report = with_traffic(chosen[name].tell(lab, outcomes),
                                  traffic.table(each, outcomes))
            origin = origin_of(lab, each, runner, version)
            written = results.write_report(out, name, chosen[name], report,
                                           origin, charts)
            pages.append(page.Section(name, chosen[name], report, origin,
                                      out))
            tell(report, written)
        if len(chosen) > 1:
            write_all(out, pages, runner.failures, lab)
        runner.prune(round(options.cache_gb * 1e9))
        return tell_failures(runner)


def with_traffic(report: scenario.Report,
                 table: scenario.Table | None) -> scenario.Report:
    if table is None:
        return report
    return dataclasses.replace(report, tables=[*report.tables, table])


def write_all(out: pathlib.Path, pages: list[page.Section],
              failures: list[tuple], lab: scenario.Lab):
    """The page of all, and all verdicts in one table."""
    verdicts = page.verdict_table(pages)
    for name, text in (
            ("index.html", page.html(pages, failures, command_of(lab))),
            ("verdicts.md", f"# {verdicts.title}\n\n{page.tally(pages)}\n\n"
             + results.markdown_table(verdicts)),
            ("verdicts.csv", results.csv_table(verdicts, pages[0].origin))):
        results.write(out / name, text)
    print(f"{page.tally(pages)}\nWritten: {out / 'index.html'}, "
          f"{out / 'verdicts.md'}, {out / 'verdicts.csv'}")


def tell(report: scenario.Report, written: list[pathlib.Path]):
    for table in report.tables:
        print(f"{table.title}\n\n{results.text_table(table)}")
    print("Written: " + ", ".join(map(str, written)))


def tell_failures(runner: Runner) -> int:
    if not runner.failures:
        return OK
    print(f"{len(runner.failures)} runs failed:", file=sys.stderr)
    for job, message in runner.failures:
        if not message.startswith(NOT_RUN):
            print(f"  {job.name}: {message}", file=sys.stderr)
    count = sum(message.startswith(NOT_RUN) for _, message in runner.failures)
    if count:
        print(f"  {count} of these were not run: they need another of them",
              file=sys.stderr)
    return SOME_FAILED


def command_of(lab: scenario.Lab) -> str:
    """That repeats it."""
    words = ["./snf", "experiment", "all"]
    if lab.quick:
        words.append("--quick")
    if lab.traces != (scenario.BUNDLED,):
        words += [f"--trace={trace}" for trace in lab.traces]
    if lab.rates:
        words.append("--rate=" + ",".join(lab.rates))
    if lab.flags:
        words.append("--flags=" + shlex.join(lab.flags))
    return shlex.join(words)


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        options = parser().parse_args(arguments)
        if options.name == "list":
            print(list_scenarios(), end="")
            return OK
        return run(chosen_by(options), lab_of(options), options)
    except Refused as refused:
        print(f"snf experiment: {refused}", file=sys.stderr)
        return refused.code
    except CacheInUse as error:
        print(f"snf experiment: {error}", file=sys.stderr)
        return UNAVAILABLE
    except OSError as error:
        print(f"snf experiment: {what_of(error)}", file=sys.stderr)
        return IO
    except KeyboardInterrupt:
        print("\nInterrupted: what was run is kept, and the same command goes "
              "on from there.", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

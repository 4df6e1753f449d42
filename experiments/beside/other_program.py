# SPDX-License-Identifier: Apache-2.0
"""What measurements of snf beside another project's program have in common: the
program is found or built, both run in turns, and ratios are of rounds."""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence

SKIPPED = 4


class CannotMeasure(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class OtherProgram:
    """A program that is not part of this project."""
    what: str  # "tunnel handler"
    name: str  # as it is looked for, if no flag names it
    flag: str  # --NAME=PROGRAM
    source: str  # the address of its repository
    is_fetched: str  # a file of its source
    built: str  # where its build leaves the program

    @property
    def fetch(self) -> list[str]:
        return ["git", "clone", "--depth=1", self.source, "."]

    def add_flags(self, parser: argparse.ArgumentParser):
        where = parser.add_mutually_exclusive_group()
        where.add_argument(f"--{self.flag}", dest="other")
        where.add_argument("--build", type=pathlib.Path)
        parser.add_argument("--fetch", action="store_true")

    def find(self, options, commands: Iterable[Sequence[str]]) -> pathlib.Path:
        """The program that the flags name; --build makes it by the commands."""
        if options.build:
            return self.build(options.build.resolve(), options.fetch, commands)
        named = options.other or shutil.which(self.name)
        if named is None:
            raise CannotMeasure(
                f"there is no {self.what}: name its program by "
                f"--{self.flag}=PROGRAM, or build it by --build=DIR")
        if not os.access(named, os.X_OK):
            raise CannotMeasure(f"there is no {self.what}: {named} is no "
                                "program")
        return pathlib.Path(named).resolve()

    def build(self, folder: pathlib.Path, fetches: bool,
              commands: Iterable[Sequence[str]]) -> pathlib.Path:
        program = folder / self.built
        if program.exists():
            return program
        if not (folder / self.is_fetched).exists():
            if not fetches:
                raise CannotMeasure(f"there is no {self.what} in {folder}; "
                                    f"--fetch gets it from {self.source}")
            folder.mkdir(parents=True, exist_ok=True)
            commands = [self.fetch, *commands]
        for command in commands:
            subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
        return program


def add_rounds(parser: argparse.ArgumentParser, rounds: int,
               rows: Iterable[str]):
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--rows", default=",".join(rows))


def parsed(parser: argparse.ArgumentParser, words: list[str],
           rows: Iterable[str], counts: Iterable[str]):
    """The options, of which those of `counts` are at least 1."""
    options = parser.parse_args(words)
    options.rows = options.rows.split(",")
    for row in options.rows:
        if row not in rows:
            parser.error(f"--rows: {row}: no row of that name")
    if any(getattr(options, name) < 1 for name in counts):
        parser.error(" and ".join(f"--{name}" for name in counts) +
                     ": at least 1")
    if options.fetch and options.build is None:
        parser.error("--fetch: wants --build=DIR")
    return options


def ratios(values: Sequence[float]) -> dict[str, float]:
    """Of a value of each round."""
    return {"ratio": round(statistics.median(values), 3),
            "ratio_least": round(min(values), 3),
            "ratio_greatest": round(max(values), 3)}


def run_beside(script: str, find: Callable[[], pathlib.Path],
               measure: Callable[[pathlib.Path], dict]) -> int:
    """Prints the rows that measure() makes of the program; returns the exit
    code of the script. Without the program the reason is printed."""
    try:
        program = find()
    except (CannotMeasure, OSError, subprocess.CalledProcessError) as why:
        print(f"skipped: {why}")
        return SKIPPED
    try:
        print(json.dumps({"rows": measure(program)}, indent=2))
    except (CannotMeasure, OSError, subprocess.SubprocessError) as why:
        print(f"{script}: {why}", file=sys.stderr)
        return 1
    return 0

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes manual pages of the help of the program: snf(1), snf-replay(1), …

Usage: man_pages.py PROGRAM FOLDER
"""

import pathlib
import re
import subprocess
import sys


def help_of(program, *command):
    return subprocess.run([program, *command, "--help"], capture_output=True,
                          text=True, check=True).stdout


def commands_of(text):
    """(command, what it does) for each line of a list of commands."""
    found = re.findall(r"^  ([a-z][a-z0-9_]*) +([a-z].*)$", text, re.M)
    return found if "COMMAND" in text else []


def escape(line):
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + line if line[:1] in (".", "'") else line


def page_of(name, summary, text):
    head = f'.TH "{name.upper()}" 1\n.SH NAME\n' \
           f'{escape(name)} \\- {escape(summary)}\n'
    body = "\n".join(escape(line) for line in text.splitlines())
    return f"{head}.SH DESCRIPTION\n.nf\n{body}\n.fi\n"


def write_pages(program, folder, command, summary):
    text = help_of(program, *command)
    name = "-".join(("snf", *command))
    (folder / f"{name}.1").write_text(page_of(name, summary, text))
    for one, what in commands_of(text):
        write_pages(program, folder, (*command, one), what)


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    write_pages(sys.argv[1], target, (),
                "run network functions, scheduled by flowlets")

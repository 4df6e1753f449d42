# SPDX-License-Identifier: Apache-2.0
"""Size: how many files a folder has, how many define a class, and its length.

Tests and fixtures do not count. Long files and long functions are notes, which
do not fail.
"""

import os
import re
from collections.abc import Iterator

from tidy_tree import Finding, Tree, blanked, is_cpp, is_fixture, is_test, \
    line_at

MOST_FILES = 30  # of the product in a folder
# Folders that may have more files, and why a room of its own for some of them
# would not help a reader.
MOST_FILES_OF_LARGER = 35
LARGER = {
    "base/packet": "what a packet's headers say, a header or a text a file: "
                   "nearly every folder includes some of them",
    "nfs/snort": "a rule's options, one family a file, which its parser and "
                 "its evaluator name in turn",
    "platform/daemon": "the parts of one process, each of which its control "
                       "calls reach",
    "platform/drivers/real_time": "one driver, whose faults, intake and exits "
                                  "share its threads",
    "platform/options": "one group of flags a file, all of which the commands "
                        "that run packets have",
    "platform/ports": "one kind of port a file, with the programs that it "
                      "loads into the kernel",
    "platform/process": "what any of the processes may need, each a file or "
                        "two: no two of them belong together",
    "platform/run": "what every driver shares of a run: its events, and who "
                    "watches them",
    "runtime/core": "the parts of one state machine, a unit's, which call each "
                    "other at each packet",
    "runtime/sdk": "what is installed for NFs outside of the tree, under these "
                   "names",
}
# Folders that may have any number of files.
UNLIMITED = {
    "nfs": "NFs do not know each other: the folder is the list of NFs",
}
MOST_FILES_OF_A_CLASS = 2
MOST_LINES_OF_A_CLASS = 700
MEMBER = re.compile(r"^(?:\[\[[\w:]+\]\] )?"
                    r"(?:[A-Za-z_][\w:<>,&*\s\[\]]*?[\s&*])?"
                    r"([A-Z]\w*)(?:<[\w, ]+>)?::(?:[A-Z]\w*::)*"
                    r"(?:~?\w+|operator\S+)\s*\(", re.MULTILINE)
CLASS = re.compile(r"^(?:class|struct) (?:\[\[[\w:]+\]\] |alignas\(\w+\) )*"
                   r"([A-Z]\w*)[^;{()]*\{", re.MULTILINE)


def is_of_product(path: str) -> bool:
    return is_cpp(path) and not is_test(path) and not is_fixture(path)


def most_files(folder: str) -> int | None:
    if folder in UNLIMITED:
        return None
    return MOST_FILES_OF_LARGER if folder in LARGER else MOST_FILES


def check_size(tree: Tree) -> Iterator[Finding]:
    files = {}    # folder -> files of the product
    classes = {}  # (folder, class) -> files that define its members
    for path, text in tree.items():
        if not is_of_product(path):
            continue
        folder = os.path.dirname(path)
        files.setdefault(folder, set()).add(path)
        if path.endswith(".cc"):
            for match in MEMBER.finditer(blanked(text)):
                classes.setdefault((folder, match.group(1)), set()).add(path)
    for folder, paths in files.items():
        most = most_files(folder)
        if most is not None and len(paths) > most:
            yield Finding(f"{folder}/", 1, "folder-size",
                          f"{len(paths)} files, at most {most}")
    for (_, name), paths in classes.items():
        if len(paths) > MOST_FILES_OF_A_CLASS:
            yield Finding(min(paths), 1, "split-class",
                          f"{name} is defined in {len(paths)} files, at most "
                          f"{MOST_FILES_OF_A_CLASS}")


# --- Length of classes --------------------------------------------------------

def lines_from(lines: list[str], first: int, head: int) -> int:
    """Lines of the class or function that begins in line `first`, whose name
    stands in line `head`, as clang-format lays it out: a body ends at a brace
    in the first column."""
    for number in range(head, len(lines)):
        line = lines[number].rstrip()
        if line.endswith("{"):
            for end in range(number + 1, len(lines)):
                if lines[end].startswith("}"):
                    return end - first + 1
        if line.endswith(("}", ";")):  # no body, or one in a line
            return number - first + 1
    return len(lines) - first


def check_class_size(tree: Tree) -> Iterator[Finding]:
    """A class is its body and the members that are defined outside of it, in
    .cc files of its folder."""
    length = {}  # (folder, class) -> lines
    home = {}    # (folder, class) -> where its body is
    for path, text in tree.items():
        if not is_of_product(path):
            continue
        code = blanked(text)
        lines = code.splitlines()
        folder = os.path.dirname(path)
        bodies = [(CLASS, match) for match in CLASS.finditer(code)]
        if path.endswith(".cc"):
            bodies += [(MEMBER, match) for match in MEMBER.finditer(code)]
        for kind, match in bodies:
            key = (folder, match.group(1))
            first = line_at(code, match.start())
            head = line_at(code, match.end() - 1)
            length[key] = length.get(key, 0) + \
                lines_from(lines, first - 1, head - 1)
            if kind is CLASS:
                home[key] = (path, first)
    for key, count in length.items():
        if count > MOST_LINES_OF_A_CLASS:
            path, line = home.get(key, (f"{key[0]}/", 1))
            yield Finding(path, line, "class-size",
                          f"{key[1]} has {count} lines with its members, at "
                          f"most {MOST_LINES_OF_A_CLASS}")


# --- Notes on length ----------------------------------------------------------

def long_functions(code: str) -> Iterator[tuple[int, int]]:
    """(first line, length) of functions above 70 lines, as clang-format lays
    them out: a body ends at a brace under the first column of its head."""
    lines = code.splitlines()
    for indent in ("", "  "):
        start = None
        for number, line in enumerate(lines):
            if line.startswith(indent + "}"):
                if start is not None and number - start >= 70:
                    yield start + 1, number - start + 1
                start = None
            elif re.match(indent + r"[A-Za-z~\[]", line):
                start = number
                if re.match(r"\s*(namespace|class|struct|enum|union|extern|if"
                            r"|for|while|switch|do|else|case|default|public"
                            r"|private|protected|return|constexpr \w+ \w+\[)"
                            r"\b", line):
                    start = None


def notes(tree: Tree) -> Iterator[Finding]:
    for path, text in tree.items():
        if not is_cpp(path):
            continue
        limit = 500
        if path.endswith(".h") or \
                (path.startswith("nfs/") and not is_test(path)):
            limit = 250
        length = text.count("\n")
        if length > limit:
            yield Finding(path, 1, "long-file", f"{length} lines, over {limit}")
        for line, length in long_functions(blanked(text)):
            yield Finding(path, line, "long-function",
                          f"{length} lines, over 70")

# SPDX-License-Identifier: Apache-2.0
"""Size: how many files a folder has, and how many define a class.

Tests and fixtures do not count. Long files and long functions are notes, which
do not fail.
"""

import os
import re
from collections.abc import Iterator

from tidy_tree import Finding, Tree, blanked, is_cpp, is_fixture, is_test

MOST_FILES = 35  # of the product in a folder
MOST_FILES_OF_A_CLASS = 2
# NFs do not know each other: their folder may be as long as the list of NFs.
UNLIMITED = {"nfs"}
MEMBER = re.compile(r"^(?:[A-Za-z_][\w:<>,&*\s\[\]]*?[\s&*])?"
                    r"([A-Z]\w*)(?:<[\w, ]+>)?::(?:[A-Z]\w*::)*"
                    r"(?:~?\w+|operator\S+)\s*\(", re.MULTILINE)


def check_size(tree: Tree) -> Iterator[Finding]:
    files = {}    # folder -> files of the product
    classes = {}  # (folder, class) -> files that define its members
    for path, text in tree.items():
        if not is_cpp(path) or is_test(path) or is_fixture(path):
            continue
        folder = os.path.dirname(path)
        files.setdefault(folder, set()).add(path)
        if path.endswith(".cc"):
            for match in MEMBER.finditer(blanked(text)):
                classes.setdefault((folder, match.group(1)), set()).add(path)
    for folder, paths in files.items():
        if len(paths) > MOST_FILES and folder not in UNLIMITED:
            yield Finding(f"{folder}/", 1, "folder-size",
                          f"{len(paths)} files, at most {MOST_FILES}")
    for (_, name), paths in classes.items():
        if len(paths) > MOST_FILES_OF_A_CLASS:
            yield Finding(min(paths), 1, "split-class",
                          f"{name} is defined in {len(paths)} files, at most "
                          f"{MOST_FILES_OF_A_CLASS}")


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

# SPDX-License-Identifier: Apache-2.0
"""What tidy_test.py looks at: a tree of sources, and what it finds there."""

import os
import re
import subprocess
from typing import NamedTuple

Tree = dict[str, str]


class Finding(NamedTuple):
    path: str
    line: int
    rule: str
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def is_cpp(path: str) -> bool:
    return path.endswith((".h", ".cc"))


def is_test(path: str) -> bool:
    """Tests, and what only tests include: nf_test.h, test_packets.cc."""
    return re.search(r"(^|/)test_\w+\.(h|cc)$|_(test|bench|fuzz)\.(h|cc)$",
                     path) is not None


def is_fixture(path: str) -> bool:
    """What only tests, benchmarks and `snf bench` include."""
    return re.search(r"(^|/)fixture_\w+\.(h|cc)$", path) is not None


def is_script(path: str, text: str) -> bool:
    return path.endswith((".py", ".sh")) or text.startswith("#!")


# A comment or a literal of C++.
TOKEN = re.compile(
    r'R"(?P<d>[^()\\\s]{0,16})\(.*?\)(?P=d)"'
    r'|//[^\n]*|/\*.*?\*/'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+'",
    re.DOTALL)


def blanked(text: str) -> str:
    """C++ without the insides of comments and literals; lines stay."""
    def blank(match):
        found = match.group()
        if found.startswith("/"):
            return re.sub(r"[^\n]", " ", found)
        return '"' + re.sub(r"[^\n]", " ", found[1:-1]) + '"'

    return TOKEN.sub(blank, text)


def comments(text: str) -> str:
    """The insides of comments of C++, and nothing else; lines stay."""
    said, end = [], 0
    for match in TOKEN.finditer(text):
        said.append(re.sub(r"[^\n]", " ", text[end:match.start()]))
        found, end = match.group(), match.end()
        said.append("  " + found[2:] if found.startswith("/")
                    else re.sub(r"[^\n]", " ", found))
    return re.sub(r"(?m)^(\s*)//", r"\1  ", "".join(said))


def line_at(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def read_tree(root: str) -> Tree:
    """Tracked files and new ones; without git, all but build/ and hidden."""
    git = subprocess.run(
        ["git", "-c", f"safe.directory={os.path.realpath(root)}", "-C", root,
         "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, check=False)
    if git.returncode == 0:
        paths = git.stdout.decode().split("\0")[:-1]
    else:
        paths = []
        for folder, folders, files in os.walk(root):
            folders[:] = [f for f in folders
                          if f != "build" and not f.startswith(".")]
            paths += [os.path.relpath(os.path.join(folder, f), root)
                      for f in files]
    tree = {}
    for path in sorted(set(paths)):
        full = os.path.join(root, path)
        if not os.path.isfile(full) or os.path.islink(full):
            continue
        with open(full, "rb") as file:
            data = file.read()
        if b"\0" not in data[:8192]:
            tree[path] = data.decode("utf-8", "replace")
    return tree

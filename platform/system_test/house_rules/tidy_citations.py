# SPDX-License-Identifier: Apache-2.0
"""Citations: the documents that texts name, and what is named in them, exist.

A comment of a source names a document by its path from the root, a document
another one also by the path from its own folder. Behind the three documents
below may stand which of their rules is meant: `proto/protocol.md U9`,
`proto/decisions.md 15, 20`, `platform/commands/bench/budgets.md rows 1 and 2`. In C++ a
rule of the protocol is also cited by its name alone.
"""

import os
import re
from collections.abc import Iterator

from tidy_tree import Finding, Tree, comments, is_cpp, is_script, line_at

PROTOCOL = "proto/protocol.md"
BUDGETS = "platform/commands/bench/budgets.md"
RULED = {PROTOCOL, "proto/decisions.md", BUDGETS}

DOCUMENT = re.compile(r"(?<![\w./-])(?:\.\./|[\w-]+/)*[\w-]+\.md\b")
# Where a document defines a rule: **U1 Text**, **2.6 Text**, ## 4. Text, | 6 |
NAME = re.compile(r"\*\*([ULFI]\d+|\d+(?:\.\d+)?)\b|^#+ (\d+)\.|^\| (\d+) \|",
                  re.MULTILINE)
REFERENCE = r"(?:[ULFI]\d+|\d+(?:\.\d+)?)\b"
LIST = rf"§?{REFERENCE}(?:\s*(?:,|and|to|…)\s*§?{REFERENCE})*"
BEHIND = re.compile(rf"`?,?\s+(?:rows?\s+)?({LIST})")
BARE = re.compile(r"(?<![\w./§-])[ULFI]\d{1,2}\b(?!\.\w)")
ROWS = re.compile(rf"\b[Rr]ows?\s+({LIST})")
ANCHOR = re.compile(r"\]\(([\w./-]*\.md)?#([\w-]+)\)")
UNSOURCED = re.compile(r"\(§\s*[\dIVX][\w.-]*")


def names_in(document: str) -> set[str]:
    return {next(filter(None, m.groups())) for m in NAME.finditer(document)}


def prose(path: str, text: str) -> str:
    """What is written for people in a file, its lines where they were."""
    if path.endswith(".md"):
        return text
    if is_cpp(path) or path.endswith(".proto"):
        return comments(text)
    if is_script(path, text) or path.endswith((".cmake", "CMakeLists.txt")):
        return "\n".join(re.sub(r"^(\s*)#", r"\1 ", line)
                         if line.lstrip().startswith("#") else ""
                         for line in text.split("\n"))
    return ""


def anchors(text: str) -> set[str]:
    """What a link may name in a document: its headings, as web pages have them."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", text, re.M)}


def check_anchors(tree: Tree) -> Iterator[Finding]:
    """A heading that a document links, `(x.md#heading)`, is there."""
    for path, text in tree.items():
        if not path.endswith(".md"):
            continue
        for match in ANCHOR.finditer(text):
            document = path if not match[1] else os.path.normpath(
                os.path.join(os.path.dirname(path), match[1]))
            if document in tree and match[2] not in anchors(tree[document]):
                yield Finding(path, line_at(text, match.start()), "citation",
                              f"{document} has no heading {match[2]}")


def check_citations(tree: Tree) -> Iterator[Finding]:
    names = {path: names_in(tree.get(path, "")) for path in RULED}

    def check(path, line, document, references):
        for reference in re.findall(REFERENCE, references):
            if reference not in names[document]:
                yield Finding(path, line, "citation",
                              f"{document} has no {reference}")

    for path, text in tree.items():
        said = prose(path, text)
        cited = set()
        for match in DOCUMENT.finditer(said):
            line = line_at(said, match.start())
            document = match.group()
            if path.endswith(".md") and document not in tree:
                document = os.path.normpath(
                    os.path.join(os.path.dirname(path), document))
            if document not in tree:
                yield Finding(path, line, "citation", f"no {document}")
            elif document in RULED:
                cited.add(document)
                behind = BEHIND.match(said, match.end())
                if behind:
                    yield from check(path, line, document, behind.group(1))
        if is_cpp(path):
            for match in BARE.finditer(said):
                yield from check(path, line_at(said, match.start()), PROTOCOL,
                                 match.group())
            for match in UNSOURCED.finditer(said):
                yield Finding(path, line_at(said, match.start()), "citation",
                              f"{match.group()}: of which document?")
            if BUDGETS in cited or path.startswith("platform/commands/bench/"):
                for match in ROWS.finditer(said):
                    yield from check(path, line_at(said, match.start()),
                                     BUDGETS, match.group(1))

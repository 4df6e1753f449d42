#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Words: comments and texts that a stranger understands without the code.

  tidy_words.py            prints every riddle, `file:line: rule: text`
  tidy_words.py --freeze   rewrites the limits to what is there now

A comment begins with a verb ("Returns", "Drops") or with a noun of the code
("The logger …"), and a pronoun has its noun in the same sentence. Two things of
that can be checked: the first word of a comment (FIRST_WORD), and turns of
phrase whose noun is missing or which have a plainer word (PHRASE). Comments of
C++ and .proto files count, and apart from them the texts of the product: its
string literals, which become help, errors and reports.

Riddles are counted by folder, those of platform/ by wing, and LIMITS says how
many each may have. A folder above its limit fails; one below it fails too until
the limit is lowered, so that the counts only fall.
"""

import os
import re
import sys
from collections.abc import Iterator

sys.dont_write_bytecode = True  # nothing beside the sources
from tidy_tree import (TOKEN, Finding, Tree, is_cpp, is_fixture, is_test,
                       line_at, read_tree)

LIMITS = "platform/system_test/house_rules/tidy_words.limits"
LISTED = 8  # riddles that a finding names

FIRST_WORD = re.compile(
    r"(?:It|They|That|Those|These|What|Who|Whoever|Of|With|Both|Nobody|Whether"
    r"|Where|Which|So|None|Same)\b")
PHRASE = re.compile(
    r"\b(?:those (?:that|of|who|which)"
    r"|what (?:it|they|was|has|had|is to|came|comes|went|there|those|one)"
    r"|(?:the one|one) (?:that|which|who|before)"
    r"|the one of|that one(?=[,.;:)]| (?:is|was|has|had|of)\b)|of one that"
    r"|nobody|whoever|all that|anew"
    r"|(?:is|are|was|were) there(?= *[,;:.)]| *$)"
    r"|(?:is|are) said|(?:tells?|told) of"
    r"|so (?:many|long|much|few)(?! (?:as|that)\b)"
    r"|(?:goes?|gone|went) on|lets? go|makes? way"
    r"|comes? to (?:its|their|an) end"
    r"|at the most|but (?:those|the one|for))\b",
    re.IGNORECASE)


class Words:
    """A comment or a text: parts of which each stands in a line."""

    def __init__(self, starts_line: bool, glue: str):
        self.starts_line = starts_line  # a comment with no code before it
        self.glue = glue
        self.parts: list[tuple[int, str]] = []  # (line, words)

    def whole(self) -> str:
        return self.glue.join(words for _, words in self.parts)

    def line_of(self, offset: int) -> int:
        for line, words in self.parts:
            offset -= len(words) + len(self.glue)
            if offset < 0:
                break
        return line


def is_comment(found: str) -> bool:
    return found.startswith(("//", "/*"))


def comments_of(text: str) -> Iterator[Words]:
    """Comments; lines below each other at one column are one comment."""
    block, end, column = None, 0, 0  # the last line of the block, its column
    for match in TOKEN.finditer(text):
        if not is_comment(match.group()):
            continue
        start = text.rfind("\n", 0, match.start()) + 1
        line, at = line_at(text, start), match.start() - start
        alone = not text[start:match.start()].strip()
        if block is None or not alone or (line, at) != (end + 1, column):
            if block:
                yield block
            block = Words(alone, " ")
        for end, said in enumerate(match.group().split("\n"), line):
            block.parts.append((end, re.sub(r"^[/*\s]+|[*/\s]+$", "", said)))
        column = at
    if block:
        yield block


def texts_of(text: str) -> Iterator[Words]:
    """String literals; those with nothing but comments between are one text."""
    block, end = None, 0
    for match in TOKEN.finditer(text):
        found = match.group()
        if block and text[end:match.start()].strip():
            yield block
            block = None
        end = match.end()
        if not is_comment(found) and not found.startswith("'"):
            block = block or Words(False, "")
            said = found[found.index('"') + 1:-1].replace("\\n", "  ")
            for line, words in enumerate(said.split("\n"),
                                         line_at(text, match.start())):
                block.parts.append((line, words))
    if block:
        yield block


def riddles_of(path: str, text: str) -> Iterator[Finding]:
    kinds = [("comment-words", comments_of)]
    if is_cpp(path) and not is_test(path) and not is_fixture(path):
        kinds.append(("text-words", texts_of))
    for rule, words_of in kinds:
        for words in words_of(text):
            whole = words.whole()
            first = words.starts_line and FIRST_WORD.match(whole)
            if first:
                yield Finding(path, words.line_of(0), rule,
                              f"begins with '{first.group()}'")
            for match in PHRASE.finditer(whole):
                yield Finding(path, words.line_of(match.start()), rule,
                              f"'{match.group()}'")


def place_of(path: str) -> str:
    """The top-level folder; of platform/, the wing."""
    folders = path.split("/")[:-1]
    return "/".join(folders[:2 if folders[:1] == ["platform"] else 1])


def all_riddles(tree: Tree) -> dict[tuple[str, str], list[Finding]]:
    """By place and rule."""
    found = {}
    for path, text in tree.items():
        if is_cpp(path) or path.endswith(".proto"):
            for riddle in riddles_of(path, text):
                key = (place_of(path), riddle.rule)
                found.setdefault(key, []).append(riddle)
    return found


def limits_of(text: str) -> dict[tuple[str, str], int]:
    """Of lines `PLACE COMMENTS TEXTS`; others begin with #."""
    limits = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            place, in_comments, in_texts = line.split()
            limits[place, "comment-words"] = int(in_comments)
            limits[place, "text-words"] = int(in_texts)
    return limits


def check_riddles(tree: Tree) -> Iterator[Finding]:
    limits = limits_of(tree.get(LIMITS, ""))
    found = all_riddles(tree)
    for place, rule in sorted(limits.keys() | found.keys()):
        riddles = found.get((place, rule), [])
        limit = limits.get((place, rule), 0)
        if len(riddles) > limit:
            files = {}
            for riddle in riddles:
                files.setdefault(riddle.path, []).append(riddle)
            worst = sorted(riddles, key=lambda r: -len(files[r.path]))
            named = ", ".join(f"{r.path}:{r.line} {r.text}"
                              for r in worst[:LISTED])
            yield Finding(f"{place}/", 1, rule,
                          f"{len(riddles)} riddles, at most {limit}: {named}")
        elif len(riddles) < limit:
            yield Finding(LIMITS, 1, "words-limit",
                          f"{place} has {len(riddles)} {rule} of {limit}: "
                          "lower the limit (tidy_words.py --freeze)")


def freeze(tree: Tree) -> str:
    found = all_riddles(tree)
    lines = ["# Riddles of each place, in comments and in texts",
             "# (tidy_words.py): the numbers only fall.", "#"]
    places = sorted({place for place, _ in found})
    wide = max(map(len, places), default=0)
    for place in places:
        counts = [len(found.get((place, rule), []))
                  for rule in ("comment-words", "text-words")]
        lines.append(f"{place:{wide}} {counts[0]:5} {counts[1]:5}")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.normpath(os.path.join(here, "../../.."))
    if arguments not in ([], ["--freeze"]):
        print(__doc__, file=sys.stderr)
        return 2
    tree = read_tree(root)
    if arguments:
        with open(os.path.join(root, LIMITS), "w", encoding="utf-8") as file:
            file.write(freeze(tree))
        return 0
    for _, riddles in sorted(all_riddles(tree).items()):
        print(*riddles, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the guides show of replays is what these print now. A transcript is a
block behind "Of `./snf replay …`:" or "`./snf replay …`, abridged:"; "…" alone
stands for lines that are left out. Replays in virtual time repeat to the last
digit, so each line must be there, in order, but for the time that it took.

Usage: transcripts_test.py PROGRAM SOURCE_DIR
"""

import pathlib
import re
import shlex
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources

PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
GUIDES = sorted([*SOURCE.glob("*.md"), *SOURCE.glob("platform/guides/*.md"),
                 *SOURCE.glob("nfs/*.md")])
TRANSCRIPT = re.compile(
    r"Of\s+`(\./snf\s+replay[^`]*)`(?:, abridged)?:\n\n```\n(.*?)```", re.DOTALL)


def transcripts():
    """(guide, line, words of the command, lines) of each."""
    for guide in GUIDES:
        text = guide.read_text()
        for found in TRANSCRIPT.finditer(text):
            words = shlex.split(" ".join(found[1].split()))[1:]
            if "--clock=real" in words:
                continue
            line = text.count("\n", 0, found.start()) + 1
            yield guide, line, words, found[2].splitlines()


class Transcripts(unittest.TestCase):
    def check(self, words, wanted):
        done = subprocess.run([PROGRAM, *words], capture_output=True, text=True,
                              check=False, cwd=SOURCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        printed = iter([line.rstrip() for line in done.stdout.splitlines()])
        for line in wanted:
            if line.strip() in ("…", "") or line.startswith("Took "):
                continue
            self.assertTrue(any(one == line.rstrip() for one in printed),
                            f"no line {line!r} in its place; it printed\n"
                            f"{done.stdout}")

    def test_transcripts_of_replays_are_true(self):
        found = list(transcripts())
        self.assertGreaterEqual(len(found), 4)
        for guide, line, words, wanted in found:
            with self.subTest(f"{guide.relative_to(SOURCE)}:{line}"):
                self.check(words, wanted)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

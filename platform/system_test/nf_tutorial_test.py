#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nfs/README.md, followed word for word: its NF in a module of its own.

Usage: nf_tutorial_test.py PROGRAM SOURCE_DIR BUILD_DIR [TEST…]
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
SOURCE = pathlib.Path()
BUILD = pathlib.Path()
OK, FAILED, USAGE = 0, 1, 2


def blocks(kind):
    """The blocks of code of a kind, in order."""
    text = (SOURCE / "nfs" / "README.md").read_text()
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M)
    return [block for its, block in found if its == kind]


def commands(program):
    """The arguments of each line that runs `program`."""
    lines = re.findall(rf"^    \./snf {program} (.*)$",
                       (SOURCE / "nfs" / "README.md").read_text(), re.M)
    return [shlex.split(line, comments=True) for line in lines]


def changed(text, diff):
    """`text` with what `diff` shows; a line … stands between its parts."""
    for part in diff.split("…\n"):
        lines = part.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] == "-")
        new = "".join(line[1:] for line in lines if line[0] == "+")
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def says(text, shown):
    """Whether `text` has `shown`, where … is anything and blanks are equal."""
    parts = [re.escape(" ".join(part.split())) for part in shown.split("…")]
    return re.search(".*".join(parts), " ".join(text.split())) is not None


class Tutorial(unittest.TestCase):
    """Each step needs the one before; all are one test."""

    maxDiff = None

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="snf-tutorial-")
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)
        (self.folder / "traces").symlink_to(SOURCE / "traces")
        (self.folder / "cap.pcap").symlink_to(SOURCE / "traces" /
                                              "small.pcap.zst")

    def do(self, *command, code=OK):
        done = subprocess.run([str(word) for word in command],
                              cwd=self.folder, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=600, check=False)
        said = done.stdout.decode() + done.stderr.decode()
        self.assertEqual(done.returncode, code, f"{command}\n{said}")
        return said

    def build(self, source):
        (self.folder / "quota.cc").write_text(source)
        self.do("cmake", "--build", "build", "-j1")

    def replay(self, arguments, code=OK):
        """As in the tree, where quota is the name of the NF."""
        module = [re.sub(r"\bquota\b(?=[:(])", "./build/quota.so", word)
                  for word in arguments]
        return self.do(PROGRAM, "replay", *module, code=code)

    def test_says_what_is_so(self):
        source, test = blocks("cpp")
        broken, labels = blocks("diff")
        failure, refusal = blocks("")
        self.assertEqual(commands("nf"), [["new", "quota"]])
        self.assertEqual(commands("test"), [["quota"]])

        self.do(PROGRAM, "nf", "new", "quota", "--dir", ".")
        (self.folder / "quota_test.cc").write_text(test)
        (self.folder / "quota.cc").write_text(source)
        self.do("cmake", "-G", "Ninja", "-S", ".", "-B", "build",
                f"-DCMAKE_PREFIX_PATH={BUILD}")
        self.build(source)
        said = self.do("build/quota_test")
        self.assertIn("[  PASSED  ] 3 tests.", said)
        replays = commands("replay")
        self.assertEqual(len(replays), 9)
        for arguments in replays[:-1]:
            if "quota:limit=lots" in arguments:
                said = self.replay(arguments, code=USAGE)
                self.assertEqual(said.count("\n"), 1, said)
                self.assertTrue(says(said, refusal), said)
            else:
                self.assertIn("over_quota", self.replay(arguments))
        result = json.loads((self.folder / "result.json").read_text())
        self.assertGreater(result["counters"]["over_bytes"], 0)
        self.assertGreater((self.folder / "out.pcapng").stat().st_size, 10000)

        self.build(changed(source, broken))
        said = self.do("build/quota_test", code=FAILED)
        self.assertIn("3 FAILED TESTS", said)
        self.assertIn('no slot "bytes"; there is none', said)
        # The module's test names the module, and the program that has no NF
        # of that name.
        in_project = failure.replace("./snf ", f"{PROGRAM} ").replace(
            "--nf='quota:", f"--nf='{self.folder}/build/quota.so:")
        self.assertNotEqual(in_project, failure)
        self.assertTrue(says(said, in_project), said)
        command = re.search(r"^to see it: (.*)$", said, re.M).group(1)
        self.assertIn("over_quota", self.do(*shlex.split(command), code=FAILED))

        self.build(changed(source, labels))
        self.assertIn("policer.over_rate", self.replay(replays[-1]))


if __name__ == "__main__":
    PROGRAM, SOURCE, BUILD = (os.path.abspath(sys.argv[1]),
                              pathlib.Path(sys.argv[2]),
                              pathlib.Path(sys.argv[3]))
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])

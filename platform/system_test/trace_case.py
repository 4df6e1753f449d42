# SPDX-License-Identifier: Apache-2.0
"""What tests of `snf trace` share: running it, and Wireshark's tools."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv[1])
SOURCE = pathlib.Path(sys.argv[2]).resolve()
OK, USAGE, BAD_DATA, UNAVAILABLE, IO = 0, 2, 65, 69, 74
needs_tshark = unittest.skipUnless(shutil.which("tshark"), "no tshark here")


def run(*arguments, **options):
    return subprocess.run([PROGRAM, "trace", *map(str, arguments)],
                          stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=300, check=False, **options)


def fields(capture, *names, display_filter=""):
    """What tshark reads: a list of these fields for each packet."""
    command = ["tshark", "-n", "-r", str(capture), "-T", "fields"]
    for name in names:
        command += ["-e", name]
    if display_filter:
        command += ["-Y", display_filter]
    done = subprocess.run(command, capture_output=True, check=True, timeout=300)
    return [line.split("\t") for line in done.stdout.decode().splitlines()]


class Trace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.small = SOURCE / "traces" / "small.pcap.zst"

    def convert(self, *arguments):
        done = run("convert", *arguments)
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        return done.stdout.decode()

    def refused(self, code, words, *arguments, **options):
        """Fails with `code` and one line that has all words; leaves nothing."""
        before = sorted(self.folder.iterdir())
        done = run(*arguments, **options)
        text = done.stderr.decode()
        self.assertEqual(done.returncode, code, text)
        self.assertEqual(text.count("\n"), 1, text)
        for word in words:
            self.assertIn(word, text)
        self.assertEqual(sorted(self.folder.iterdir()), before)
        return done

    def packets_of(self, path):
        done = run("info", path, "--json=-")
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        return json.loads(done.stdout)["captures"][0]["packets"]

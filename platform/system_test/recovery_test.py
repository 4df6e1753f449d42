#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf recovery` as a user meets it.

Usage: recovery_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import json
import sys
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import IO, USAGE, Command, run

CAPTURE = f"{sys.argv[2]}/traces/small.pcap.zst"
WAYS = ["logger", "checkpoint", "datastore"]


class Recovery(Command):
    def recovered(self, *flags):
        ran = run("recovery", CAPTURE, "--timed=1", *flags, "--json=-")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return json.loads(ran.stdout)["ways"]

    def test_tells_of_three_ways_that_make_what_was_there(self):
        ways = self.recovered("--nf=nat", "--deaths=10")
        self.assertEqual(list(ways), WAYS)
        for way in ways.values():
            self.assertEqual(way["deaths"], 10)
            self.assertGreater(way["records"], 0)
            self.assertEqual(way["records_wrong"] + way["pieces_wrong"]
                             + way["outputs_differ"], 0)
        self.assertEqual(ways["logger"]["packets_replayed"]["max"], 0)
        self.assertGreater(ways["checkpoint"]["packets_replayed"]["p50"], 0)

    def test_dies_at_the_same_times_for_a_seed(self):
        def deaths(seed):
            ways = self.recovered("--nf=monitor", "--deaths=5",
                                  f"--seed={seed}")
            return [way["bytes_moved"] for way in ways.values()]
        self.assertEqual(deaths(1), deaths(1))
        self.assertNotEqual(deaths(1), deaths(2))

    def test_refuses_what_cannot_be(self):
        for flags, words in (
                (["--deaths=0"], ["--deaths", '"0"']),
                (["--nf=nonesuch"], ["nonesuch", "there is"]),
                (["--store=operation=soon"], ["--store", "soon"]),
                (["--inside=10.0.0.0/33"], ["--inside", "10.0.0.0/33"])):
            with self.subTest(flags):
                self.refused(USAGE, words, "recovery", CAPTURE, *flags)
        self.refused(IO, ["/nonesuch/x"], "recovery", "/nonesuch/x")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf simulate` as a user meets it.

Usage: leases_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import json
import sys
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import IO, USAGE, Command, run

SHORT = ("--warm_up=200ms", "--duration=500ms")


class Leases(Command):
    def simulated(self, *flags):
        ran = run("simulate", *SHORT, *flags, "--json=-")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        figures = json.loads(ran.stdout)
        del figures["elapsed_s"]
        return figures

    def test_tells_of_all_controllers_and_repeats_itself(self):
        figures = self.simulated("--controllers=7", "--rate=30Gbps")
        self.assertEqual(figures["flags"]["controllers"], "7")
        self.assertEqual(len(figures["controllers"]), 7)
        for key in ("offered_bps", "leased_bps", "short_bps"):
            self.assertAlmostEqual(
                figures[key], sum(each[key] for each in figures["controllers"]),
                delta=1)
        self.assertAlmostEqual(figures["offered_bps"] / 30e9, 1, delta=0.1)
        self.assertEqual(figures["overcommitted"], 0)
        self.assertEqual(figures, self.simulated("--controllers=7",
                                                 "--rate=30Gbps"))
        other = self.simulated("--controllers=7", "--rate=30Gbps", "--seed=2")
        self.assertNotEqual(figures["events"], other["events"])

    def test_writes_text_and_json(self):
        path = self.folder.name + "/figures.json"
        ran = run("simulate", *SHORT, "--rate=1Gbps", "--leases=independent",
                  f"--json={path}")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn(b"10 controllers with units of their own", ran.stdout)
        with open(path, encoding="ascii") as file:
            self.assertEqual(json.load(file)["flags"]["leases"], "independent")
        ran = run("simulate", *SHORT, "--rate=1Gbps", "--quiet")
        self.assertEqual(ran.stdout, b"")

    def test_refuses_what_cannot_be(self):
        for flags, words in (
                (["--controllers=257"], ["--controllers", '"257"', "256"]),
                (["--leases=none"], ["--leases", "shared, independent"]),
                (["--headroom=1.5"], ["--headroom", '"1.5"']),
                (["--flow_rate=fast"], ["--flow_rate", "fast"]),
                (["--flow_duration=pareto(1s)"], ["--flow_duration", "pareto"]),
                (["--epoch=1s", "--term=1s"], ["--term=1s", "two epochs"]),
                (["--epoch=1ms", "--duration=1000s", "--controllers=256"],
                 ["--duration=1000s", "--epoch=1ms", "10000000"]),
                (["--rate=1000Tbps", "--flow_rate=1Mbps"],
                 ["1,000 Tbit/s", "flows"]),
                (["more"], ["more"])):
            with self.subTest(flags):
                self.refused(USAGE, words, "simulate", *flags)
        self.refused(IO, ["/nonesuch/x"], "simulate", *SHORT, "--rate=1Gbps",
                     "--json=/nonesuch/x")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf nf run`: an NF as a plain program.

Usage: nf_run_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE = map(pathlib.Path, sys.argv[1:3])
OK, USAGE, BAD_DATA, IO = 0, 2, 65, 74
CAPTURE = SOURCE / "traces" / "small.pcap.zst"


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)],
                          capture_output=True, text=True, timeout=300,
                          check=False)


class PlainProgram(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def figures(self, *arguments):
        ran = run(*arguments)
        self.assertEqual(ran.returncode, OK, ran.stderr)
        return json.loads(ran.stdout)

    def plain(self, nf, *flags, capture=CAPTURE):
        found = self.figures("nf", "run", nf, capture, *flags)
        self.assertEqual(found["packets_in"], found["packets_released"]
                         + found["packets_consumed"]
                         + found["packets_passed_through"]
                         + sum(found["packets_dropped"].values()))
        return found

    def replayed(self, nf):
        return self.figures("replay", CAPTURE, f"--nf={nf}", "--json=-",
                            "--quiet", "--unit_capacity=10Gbps",
                            "--max_units=1")

    def test_releases_what_the_platform_does(self):
        for nf in ("passthrough", "chronicle", "firewall", "monitor",
                   "udp_whitelister", "policer", "firewall | monitor"):
            with self.subTest(nf):
                plain, replayed = self.plain(nf), self.replayed(nf)
                self.assertEqual(plain["digest"], replayed["digest"])
                for figure in ("flows", "packets_released",
                               "packets_passed_through"):
                    self.assertEqual(plain[figure], replayed[figure])
                self.assertEqual(plain["packets_dropped"], {
                    reason: count for reason, count in
                    replayed["packets_dropped"].items() if count})

    def test_translates_as_the_platform_does(self):
        """But for answers that come before the alias is known there."""
        plain, replayed = self.plain("nat"), self.replayed("nat")

        def early(found):
            return found["packets_dropped"].get("not_translated", 0)

        self.assertLessEqual(early(plain), early(replayed))
        self.assertEqual(plain["packets_released"] + early(plain),
                         replayed["packets_released"] + early(replayed))
        self.assertEqual(plain["packets_dropped"]["nf:not_ipv4"],
                         replayed["packets_dropped"]["nf:not_ipv4"])

    @unittest.skipUnless(shutil.which("redis-server"), "needs redis-server")
    def test_does_the_same_with_state_in_a_store(self):
        for nf in ("chronicle", "firewall | monitor", "nat"):
            local = self.plain(nf)
            self.assertEqual(local["store_requests"], 0)
            for state in ("tables", "remote"):
                for batch in (1, 7, 32):
                    with self.subTest(f"{nf}, {state}, {batch}"):
                        far = self.plain(nf, f"--state={state}",
                                         f"--batch={batch}")
                        for figure in ("digest", "packets_released", "flows",
                                       "packets_dropped"):
                            self.assertEqual(far[figure], local[figure])
                        if state == "remote":
                            self.assertGreaterEqual(
                                far["store_requests"],
                                2 * far["packets_released"] // batch)
            if nf != "chronicle":
                self.assertGreater(self.plain(nf, "--state=tables")[
                    "store_requests"], 0)

    def test_keeps_to_a_speed_and_drops_what_queues_too_long(self):
        calm = self.plain("passthrough", "--speed=20kpps", "--queue=100000")
        self.assertEqual(calm["latency_ns"]["count"], calm["packets_in"])
        self.assertGreaterEqual(calm["wall_s"],
                                0.99 * calm["packets_in"] / 20e3)
        hasty = self.plain("passthrough", "--speed=100Gbps", "--queue=1")
        dropped = hasty["packets_dropped"]["unit_queue_full"]
        self.assertEqual(hasty["latency_ns"]["count"] + dropped,
                         calm["packets_in"])
        self.assertNotIn("latency_ns", self.plain("passthrough"))

    def test_repeats_a_capture(self):
        once, thrice = self.plain("monitor"), self.plain("monitor", "--loop=3")
        self.assertEqual(thrice["packets_in"], 3 * once["packets_in"])
        self.assertEqual(thrice["flows"], once["flows"])

    def test_refuses_what_cannot_be(self):
        empty = self.folder / "empty.pcap"
        broken = self.folder / "broken.pcap"
        broken.write_bytes(b"no capture at all, of no kind")
        run("trace", "convert", CAPTURE, empty, "--begin=1h", "--quiet")
        for code, words, arguments in (
                (USAGE, ["nonesuch"], ["nonesuch", CAPTURE]),
                (USAGE, ["nat", "port"], ["nat:ports=x", CAPTURE]),
                (USAGE, ["FILE"], ["nat"]),
                (USAGE, ["--batch", "0"], ["nat", CAPTURE, "--batch=0"]),
                (USAGE, ["--speed", "fast"], ["nat", CAPTURE, "--speed=fast"]),
                (USAGE, ["--state", "far"], ["nat", CAPTURE, "--state=far"]),
                (IO, ["gone.pcap"], ["nat", self.folder / "gone.pcap"]),
                (BAD_DATA, ["broken.pcap"], ["nat", broken]),
                (BAD_DATA, ["empty.pcap", "no packets"], ["nat", empty])):
            with self.subTest(arguments):
                ran = run("nf", "run", *arguments)
                self.assertEqual(ran.returncode, code, ran.stderr)
                self.assertEqual(ran.stdout, "")
                self.assertEqual(len(ran.stderr.splitlines()), 1, ran.stderr)
                for word in words:
                    self.assertIn(word, ran.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

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

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import BAD_DATA, IO, OK, PROGRAM, SOURCE, USAGE
from command_case import pcap, udp_frame

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

    def replayed(self, nf, capture=CAPTURE):
        return self.figures("replay", capture, f"--nf={nf}", "--json=-",
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

    def test_ends_flows_that_are_silent(self):
        """As the platform does; a timer or an end comes before a packet that
        is as late."""
        capture = self.folder / "gaps.pcap"
        times = [1, 2, 2.5, 40, 41, 400, 400.5, 1000]
        capture.write_bytes(pcap(sorted(
            (time + port / 1e4, udp_frame(port, bytes([port])))
            for port in range(1, 40) for time in times[port % 3:])))
        for nf in ("chronicle", "firewall", "udp_whitelister", "policer",
                   "monitor"):
            with self.subTest(nf):
                plain = self.plain(nf, capture=capture)
                replayed = self.replayed(nf, capture)
                for figure in ("flows", "packets_released", "digest"):
                    self.assertEqual(plain[figure], replayed[figure])
                self.assertGreater(plain["flows"], 39)

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

    def short(self, packets):
        """About so many of the capture, from its beginning."""
        whole = self.figures("replay", CAPTURE, "--json=-", "--quiet")
        end_s = whole["duration_s"] * packets / whole["packets_in"]
        path = self.folder / "short.pcap"
        ran = run("trace", "convert", CAPTURE, path, "--quiet",
                  f"--end={round(1e6 * end_s)}us")
        self.assertEqual(ran.returncode, OK, ran.stderr)
        return path

    def check_far(self, nf, state, batch, local, capture):
        with self.subTest(f"{nf}, {state}, {batch}"):
            far = self.plain(nf, f"--state={state}", f"--batch={batch}",
                             capture=capture)
            for figure in ("digest", "packets_released", "flows",
                           "packets_dropped"):
                self.assertEqual(far[figure], local[figure])
            if state == "remote":
                self.assertGreaterEqual(
                    far["store_requests"],
                    2 * far["packets_released"] // batch)

    @unittest.skipUnless(shutil.which("redis-server"), "needs redis-server")
    def test_does_the_same_with_state_in_a_store(self):
        short = self.short(2000)
        for nf in ("chronicle", "firewall | monitor", "nat"):
            local = self.plain(nf)
            self.assertEqual(local["store_requests"], 0)
            for batch in (1, 7, 32):
                self.check_far(nf, "tables", batch, local, CAPTURE)
                if batch > 1:
                    self.check_far(nf, "remote", batch, local, CAPTURE)
            # Each packet waits for its requests.
            self.check_far(nf, "remote", 1, self.plain(nf, capture=short),
                           short)
            if nf != "chronicle":
                self.assertGreater(self.plain(nf, "--state=tables")[
                    "store_requests"], 0)

    def test_refuses_tables_with_events_in_a_store(self):
        for state in ("tables", "remote"):
            ran = run("nf", "run", "fan_in", CAPTURE, f"--state={state}")
            self.assertEqual(ran.returncode, USAGE, ran.stderr)
            self.assertIn(
                f"--state={state} has no tables with a timer, a trigger or "
                'keys that expire, as "sources" of fan_in is', ran.stderr)

    def test_keeps_to_a_speed_and_drops_what_queues_too_long(self):
        calm = self.plain("passthrough", "--speed=20kpps", "--queue=100000")
        self.assertEqual(calm["latency_ns"]["count"], calm["packets_in"])
        self.assertGreaterEqual(calm["wall_s"],
                                0.99 * calm["packets_in"] / 20e3)
        hasty = self.plain("passthrough", "--speed=100Gbps", "--queue=1")
        dropped = hasty["packets_dropped"]["unit_queue_full"]
        self.assertEqual(hasty["latency_ns"]["count"] + dropped,
                         calm["packets_in"])
        fast = self.plain("passthrough")
        self.assertNotIn("latency_ns", fast)
        for figure in ("cpu_s", "cpu_ns_a_packet"):  # it waits busily
            self.assertIn(figure, fast)
            self.assertNotIn(figure, calm)

    def test_a_chain_by_proxies_releases_what_calls_do(self):
        for nf in ("firewall | firewall", "firewall | monitor | firewall",
                   "chronicle | monitor", "firewall | policer(rate=10Kbps)"):
            calls = self.plain(nf)
            for way in ("local", "global"):
                for batch in (1, 32, 1000):
                    with self.subTest(nf=nf, way=way, batch=batch):
                        found = self.plain(nf, f"--chain={way}",
                                           f"--batch={batch}")
                        for figure in ("digest", "packets_in",
                                       "packets_released", "packets_dropped",
                                       "packets_passed_through"):
                            self.assertEqual(found[figure], calls[figure],
                                             figure)
                        self.assertGreater(found["cpu_s"], 0)

    def test_batches_outlive_the_nf_that_sent_them(self):
        """The last NF is the slowest, so its batches wait in the proxy."""
        nf, loop = "passthrough | passthrough | chronicle", "--loop=12"
        calls = self.plain(nf, loop)
        for way in ("local", "global"):
            for batch in (32, 1000):
                with self.subTest(way=way, batch=batch):
                    found = self.plain(nf, loop, f"--chain={way}",
                                       f"--batch={batch}")
                    for figure in ("digest", "packets_in", "packets_released",
                                   "packets_dropped"):
                        self.assertEqual(found[figure], calls[figure], figure)

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
                (USAGE, ["--chain=local", "two NFs", "firewall"],
                 ["firewall", CAPTURE, "--chain=local"]),
                (USAGE, ["--chain=local", "without braces", "{"],
                 ["firewall | {suspicious: policer} | monitor", CAPTURE,
                  "--chain=local"]),
                (USAGE, ["--chain=global", "--state=local", "remote"],
                 ["firewall | firewall", CAPTURE, "--chain=global",
                  "--state=remote"]),
                (USAGE, ["--chain=global", "--speed=max", "1Gbit"],
                 ["firewall | firewall", CAPTURE, "--chain=global",
                  "--speed=1Gbps"]),
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

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf replay --clock=real` as a user meets it.

Usage: real_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import free_port, pcap, udp_frame, wait_for

PROGRAM = ""
SOURCE = pathlib.Path()
OK, USAGE, IO = 0, 2, 74
CAPTURE = "traces/small.pcap.zst"


def replay(*arguments):
    return subprocess.run([PROGRAM, "replay", *map(str, arguments)],
                          cwd=SOURCE, capture_output=True, text=True,
                          timeout=300, check=False)


def wait_for_packets(port, least):
    """Until the run has taken so many, by --metrics_port."""
    def enough():
        try:
            with urllib.request.urlopen(
                    f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                text = answer.read().decode()
        except urllib.error.URLError:
            return False  # nobody listens yet
        taken = re.search(r"^snf_packets_in_total (\d+)$", text, re.M)
        return taken and int(taken[1]) >= least
    wait_for("packets", enough)


class RealTime(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def report(self, *arguments, capture=CAPTURE):
        path = self.folder / "report.json"
        ran = replay(capture, "--quiet", f"--json={path}", *arguments)
        self.assertEqual(ran.returncode, OK, ran.stderr)
        report = json.loads(path.read_text())
        self.assertTrue(report["sound"])
        self.assertTrue(report["conserved"])
        return report

    def test_releases_what_virtual_time_does(self):
        virtual = self.report("--nf=chronicle")
        for threads in (1, 2, 4):
            real = self.report("--nf=chronicle", "--clock=real", "--speed=max",
                               f"--threads={threads}", "--unit_capacity=none")
            self.assertEqual(real["digest"], virtual["digest"])
            self.assertEqual(real["real"]["threads"], threads)
            self.assertIsNone(real["real"]["late_ns"])

    def test_releases_of_a_nat_what_virtual_time_does_up_to_its_ports(self):
        capture = self.folder / "nat.pcap"
        capture.write_bytes(pcap(
            [(1 + i / 1000, udp_frame(5000 + i % 40)) for i in range(400)]))
        virtual = self.report("--nf=nat:ip=203.0.113.7", capture=capture)
        real = self.report("--nf=nat:ip=203.0.113.7", "--policy=hash",
                           "--clock=real", "--speed=max", "--max_units=8",
                           capture=capture)
        self.assertNotEqual(real["digest"], virtual["digest"])
        self.assertEqual(real["digest_up_to_renaming"],
                         virtual["digest_up_to_renaming"])

    def test_releases_through_output_loggers_what_goes_without(self):
        chain = "firewall | monitor | nat(ip=203.0.113.1)"
        for nf in ("passthrough", "monitor", "chronicle",
                   "nat:ip=203.0.113.1", chain):
            flags = [f"--nf={nf}", "--clock=real", "--speed=max",
                     "--max_units=6", "--policy=rotate",
                     "--unit_capacity=none"]
            without = self.report(*flags, "--threads=2")
            self.assertNotIn("loggers", without)
            if "nat" not in nf:  # which answers find a mapping takes time
                virtual = self.report(f"--nf={nf}")
                self.assertEqual(without["digest"], virtual["digest"])
            for threads in (1, 2, 3):
                with self.subTest(nf, threads=threads):
                    real = self.report(*flags, "--loggers=on",
                                       f"--threads={threads}")
                    self.assertEqual(real["digest_up_to_renaming"],
                                     without["digest_up_to_renaming"])
                    self.assert_logged(real)

    def test_holds_packets_for_loggers_where_units_have_a_capacity(self):
        virtual = self.report("--nf=chronicle")
        real = self.report("--nf=chronicle", "--clock=real", "--speed=max",
                           "--unit_capacity=200Mbps", "--max_units=8",
                           "--loggers=on", "--threads=3")
        self.assertEqual(real["digest"], virtual["digest"])
        self.assertGreater(real["flowlets_moved"], 500)
        self.assert_logged(real)

    def assert_logged(self, report):
        loggers = report["loggers"]
        # An entry for each clock, and each flow's first is whole.
        self.assertGreaterEqual(loggers["whole"] + loggers["partial"],
                                report["packets_released"])
        self.assertGreaterEqual(loggers["entries"],
                                loggers["whole"] + loggers["partial"])
        self.assertGreaterEqual(loggers["whole"], report["flows"])
        self.assertEqual(loggers["sent_again"], 0)

    def test_moves_flows_between_units_that_are_paced(self):
        virtual = self.report("--nf=chronicle")
        real = self.report("--nf=chronicle", "--clock=real", "--speed=max",
                           "--unit_capacity=200Mbps", "--max_units=8")
        self.assertEqual(real["digest"], virtual["digest"])
        self.assertGreater(real["flowlets_moved"], 500)
        self.assertGreater(real["units_used_max"], 1)

    def test_finds_states_where_other_units_show_them(self):
        chain = "firewall | monitor | nat(ip=203.0.113.1)"
        for nf in ("chronicle", chain):
            flags = [f"--nf={nf}", "--clock=real", "--speed=max",
                     "--max_units=6", "--policy=rotate",
                     "--unit_capacity=none"]
            without = self.report(*flags, "--threads=2")
            self.assertNotIn("host_records", without)
            for more in (("--threads=1",), ("--threads=2",), ("--threads=3",),
                         ("--threads=3", "--loggers=on")):
                with self.subTest(nf, more=more):
                    real = self.report(*flags, "--host_state", *more)
                    self.assertEqual(real["digest_up_to_renaming"],
                                     without["digest_up_to_renaming"])
                    records = real["host_records"]
                    self.assertGreater(records["read"], 500)
                    self.assertGreater(records["shown"], 500)
                    self.assertEqual(records["missed"]["malformed"], 0)
                    self.assertEqual(records["missed"]["full"], 0)
                    self.assertEqual(real["state_pushes"], 0)

    def test_runs_a_chain_with_ports_and_shared_tables(self):
        real = self.report("--clock=real", "--speed=max",
                           "--unit_capacity=100Mbps", "--max_units=8",
                           "--nf=firewall | monitor | nat(ip=203.0.113.1)")
        self.assertEqual(real["aliases"]["granted"], 512)
        hosts = real["tables"]["monitor.hosts"]
        self.assertGreater(hosts["updates"], 80_000)
        self.assertEqual(hosts["refused"], 0)

    def test_keeps_to_the_speed_that_is_asked_for(self):
        real = self.report("--clock=real", "--speed=200kpps")
        self.assertGreaterEqual(real["real"]["wall_s"], 45_152 / 200e3)
        self.assertGreater(real["real"]["late_ns"]["p99"], 0)
        self.assertEqual(real["flags"]["speed"], "200kpps")

    def test_reports_no_capacity_of_units_that_have_none(self):
        folder = self.folder / "csv"
        unpaced = (CAPTURE, "--clock=real", "--speed=max",
                   "--unit_capacity=none", "--quiet")
        done = replay(*unpaced, f"--csv={folder}", "--json=-")
        report = json.loads(done.stdout)
        self.assertIs(report["capacity_used"], None)
        self.assertEqual(report["utilisation"], {"p50": None, "p99": None})
        self.assertFalse(report["interrupted"])
        first = (folder / "bandwidth.csv").read_text().splitlines()[1]
        self.assertEqual(first.split(",")[3], "")
        text = replay(*unpaced).stdout
        self.assertIn("each as fast as it can be", text)
        for word in ("Tbit/s", "Utilisation", "provisioned"):
            self.assertNotIn(word, text)

    def test_loops_as_if_the_capture_went_on(self):
        once = self.report("--clock=real", "--speed=max",
                           "--unit_capacity=none")
        thrice = self.report("--clock=real", "--speed=max", "--loop=3",
                             "--unit_capacity=none")
        self.assertEqual(thrice["packets_in"], 3 * once["packets_in"])
        self.assertEqual(thrice["flows"], once["flows"])
        self.assertEqual(thrice["late_packets"], 0)

    def test_reports_what_came_of_it_when_interrupted(self):
        path = self.folder / "report.json"
        released = self.folder / "out.pcap"
        for name in (signal.SIGINT, signal.SIGTERM):
            port = free_port()
            with subprocess.Popen(
                    [PROGRAM, "replay", CAPTURE, "--clock=real",
                     "--speed=10kpps", "--loop=1000", f"--json={path}",
                     f"--out={released}", "--force",
                     f"--metrics_port={port}"],
                    cwd=SOURCE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    text=True) as process:
                wait_for_packets(port, 1_000)
                process.send_signal(name)
                output, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 128 + name, errors)
            self.assertIn("Interrupted", errors)
            self.assertIn("all accounted for", output)
            self.assertIn("Notes\n  - Interrupted: ", output)
            report = json.loads(path.read_text())
            self.assertTrue(report["conserved"])
            self.assertTrue(report["interrupted"])
            self.assertLess(report["packets_in"], 1_000_000)
            self.assertEqual(sorted(self.folder.iterdir()), [released, path])

    def test_ends_at_once_when_interrupted_twice(self):
        released = self.folder / "out.pcap"
        port = free_port()
        with subprocess.Popen(
                [PROGRAM, "replay", CAPTURE, "--clock=real",
                 "--unit_capacity=1kbps", f"--out={released}",
                 f"--metrics_port={port}"],
                cwd=SOURCE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True) as process:
            wait_for_packets(port, 1_000)
            process.send_signal(signal.SIGINT)
            for line in process.stderr:
                if "Interrupted: what was taken" in line:
                    break
            process.send_signal(signal.SIGTERM)
            output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, errors)
        self.assertIn("terminated; no unfinished file is left", errors)
        self.assertEqual(output, "")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_ends_at_once_when_interrupted_before_it_runs(self):
        pipe = self.folder / "pipe.pcap"
        os.mkfifo(pipe)
        with subprocess.Popen(
                [PROGRAM, "replay", str(pipe), "--clock=real"], cwd=SOURCE,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True) as process:
            # Opens once the program reads, and it gets nothing to read.
            with open(pipe, "wb"):
                process.send_signal(signal.SIGINT)
                output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, errors)
        self.assertIn("interrupted; no unfinished file is left", errors)
        self.assertEqual(output, "")

    def test_prints_how_late_packets_were_taken(self):
        ran = replay(CAPTURE, "--clock=real", "--speed=5x", "--threads=2",
                     "--quiet")
        self.assertEqual(ran.returncode, OK, ran.stderr)
        self.assertRegex(ran.stdout, r"Real time +2  threads, ")
        self.assertRegex(ran.stdout, r"p99 of how late packets were taken")

    def assert_refused(self, wanted, *arguments):
        ran = replay(CAPTURE, *arguments)
        self.assertEqual(ran.returncode, USAGE, ran.stderr)
        self.assertEqual(ran.stdout, "")
        self.assertEqual(ran.stderr.count("\n"), 1, ran.stderr)
        self.assertIn(wanted, ran.stderr)

    def test_refuses_flags_of_the_other_clock(self):
        self.assert_refused("--clock=virtual: only real time has that",
                            "--speed=2x")
        self.assert_refused("--loop=2 with --clock=virtual", "--loop=2")
        self.assert_refused("in virtual time a packet would take no time",
                            "--unit_capacity=none")
        self.assert_refused("--clock=real: only virtual time has that",
                            "--clock=real", "--loggers=on",
                            "--logger_delay=1us")
        for flag in ("--chaos=state_loss=0.1", "--hop_delay=2us",
                     "--explain=top", "--compare=hash"):
            self.assert_refused("--clock=real: only virtual time has that",
                                "--clock=real", flag)
        for flag in ("--unit_start_delay=1ms", "--warm_start_delay=1ms"):
            self.assert_refused(
                f"{flag} with --unit_capacity=none: then units are ready at "
                "once", "--clock=real", "--unit_capacity=none", flag)

    def test_refuses_what_cannot_be(self):
        self.assert_refused('"0" is neither auto nor from 1 to 33',
                            "--clock=real", "--threads=0")
        self.assert_refused('"two" is neither auto nor from 1 to 33',
                            "--clock=real", "--threads=two")
        self.assert_refused('"fast" is no speed; want for example 1x',
                            "--clock=real", "--speed=fast")
        self.assert_refused("33 threads cannot be pinned to", "--clock=real",
                            "--threads=33", "--pin")
        self.assert_refused("--loop", "--clock=real", "--loop=0")


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
    SOURCE = pathlib.Path(sys.argv[2]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

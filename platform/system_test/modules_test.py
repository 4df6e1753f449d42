#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Modules of NFs under a daemon whose units are in containers: their code runs
in containers only.

Wants root, and is skipped without.

Usage: modules_test.py PROGRAM SOURCE_DIR MISUSE TRESPASSER [TEST…]
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
# What this takes from another program names its only module, which is third.
MISUSE, TRESPASSER = map(pathlib.Path, sys.argv[3:5])
del sys.argv[4]
import chain_set_test as chain_set
import control_test as control
import run_test as net
from chain_set_test import NF_FAILED
from command_case import OK, USAGE, below, run, stat_of, wait_for
from control_test import processes

LXC = ("--isolation=lxc", "--threads=3", "--loggers=on")


class Modules(chain_set.Chains):
    def setUp(self):
        super().setUp()
        self.mark = self.folder / "mark"
        self.rules = self.folder / "rules.txt"
        self.rules.write_text("one rule\n")
        self.folder.chmod(0o755)
        self.options = f"mark={self.mark},rules={self.rules}"

    def made_in(self):
        """The processes that made an NF and could write a file of the host."""
        if not self.mark.exists():
            return []
        return self.mark.read_text().splitlines()

    def counts(self, report):
        """What the NF counted, over all chains that had it."""
        sums = {}
        for one in [report, *report.get("earlier_chains", [])]:
            for name, value in one.get("counters", {}).items():
                name = name.split(".")[-1]
                sums[name] = sums.get(name, 0) + value
        return sums

    def test_code_of_a_module_runs_in_containers_only(self):
        self.up(*LXC, f"--nf={TRESPASSER}({self.options})")
        old = self.connection()
        self.assertEqual(old.says(), "right")
        # It is deployed again, tried, and set with others and other options.
        self.assertTrue(self.deploy(TRESPASSER)["is_new"])
        self.set(f"firewall | trespasser({self.options}) | monitor")
        new = self.connection()
        self.assertEqual([old.says(), new.says()], ["right", "right"])
        report = self.down()
        self.assertEqual(self.made_in(), [])
        counts = self.counts(report)
        self.assertEqual(counts["may"], 0)
        self.assertGreater(counts["has_rules"], 10)

    def test_a_unit_that_is_killed_loads_it_again(self):
        self.up(*LXC, f"--nf=monitor | {TRESPASSER}({self.options})",
                "--replicas=2")
        pid, = processes()
        connection = self.connection()
        self.assertEqual(connection.says(), "right")
        for _ in range(2):
            units = [p for p in below(pid)
                     if (stat := stat_of(p)) and stat[2] == "snf-unit"]
            for unit in units:
                os.kill(unit, 9)
            wait_for("new units", lambda: [
                p for p in below(pid) if p not in units and
                (stat := stat_of(p)) and stat[2] == "snf-unit"])
            self.assertEqual(connection.says(), "right")
        report = self.down()
        self.assertEqual(self.made_in(), [])
        self.assertEqual(self.counts(report)["may"], 0)

    def test_with_trust_it_runs_with_all_rights(self):
        """So the tests before can fail."""
        self.up(*LXC, "--trust_modules",
                f"--nf={TRESPASSER}({self.options})")
        self.assertEqual(self.connection().says(), "right")
        self.down()
        made = self.made_in()
        self.assertIn("snf:", {line.split()[0] for line in made})
        self.assertTrue(any("reads connects forks" in line for line in made))

    def test_what_a_confined_module_cannot_have_is_refused(self):
        self.rules.chmod(0o600)
        for words, options in (
                (["not every user may read it"], self.options),
                (["flow key of its own", "--trust_modules"], "key=own"),
                (["no option"], "keys=plain"),
                (["/dev/null: is not a regular file"], "rules=/dev/null")):
            with self.subTest(options=options):
                done = chain_set.snf("up", *chain_set.PORTS, *LXC,
                                     f"--nf={TRESPASSER}({options})")
                self.assertEqual(done.returncode, USAGE, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)
        done = chain_set.snf("up", *chain_set.PORTS, "--isolation=process",
                             "--trust_modules", "--nf=monitor")
        self.assertEqual(done.returncode, USAGE, done.stderr)
        self.assertIn("modules are loaded into all processes", done.stderr)
        self.assertEqual(self.made_in(), [])

    def test_a_module_that_fails_is_told(self):
        for words, how in ((["misuse", "boom"], "throw_made"),
                           (["misuse", "warnings", "boom"], "throw_warnings"),
                           (["misuse", "SIGSEGV"], "segv_made"),
                           (["was killed after 10 s"], "deaf_made")):
            with self.subTest(how=how):
                done = chain_set.snf("up", *chain_set.PORTS, *LXC,
                                     f"--nf={MISUSE}(how={how})")
                self.assertIn(done.returncode, (USAGE, NF_FAILED), done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)

    def test_a_packet_on_which_an_nf_failed_is_kept(self):
        self.up(*LXC, f"--nf={MISUSE}(how=throw)")
        # It throws at the third packet of a flow, and so at each after it.
        send = ("import socket\n"
                "link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                "for _ in range(8):\n"
                f"    link.sendto(b'kept', ('{net.SERVER4}', 9))\n")
        subprocess.run(net.inside(net.CLIENT, sys.executable, "-c", send),
                       check=True, timeout=60)
        log = control.FOLDER / f"{control.NAME}.log"
        wait_for("a blocked flow", lambda:
                 "the flow is blocked" in log.read_text())
        kept = control.FOLDER / f"{control.NAME}.failed.pcapng"
        self.assertIn(f"the packet is dropped, and kept in {kept}",
                      log.read_text())
        self.assertEqual(run("trace", "info", kept).returncode, OK)
        said = kept.read_bytes()
        self.assertEqual([said.count(b"boom"), said.count(b"kept")], [3, 3])
        kept.unlink()
        self.down()

    def test_a_copy_of_the_file_runs(self):
        file = self.folder / "trespasser.so"
        shutil.copy(TRESPASSER, file)
        self.up(*LXC)
        self.deploy(file)
        file.write_bytes(b"")
        self.set("trespasser")
        self.assertEqual(self.connection().says(), "right")
        self.down()


if __name__ == "__main__":
    reason = net.why_skipped()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(net.SKIPPED)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    net.remove_remains()
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])

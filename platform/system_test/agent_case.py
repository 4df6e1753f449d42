# SPDX-License-Identifier: Apache-2.0
"""For tests of units on another host: the agent of the host away, and runs at
home that use it."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

from command_case import OK, PROGRAM, SOURCE, below, pcap, stat_of, udp_frame
from host_pair import AWAY, AWAY_ADDRESS, HOME, HOME_ADDRESS, HostPair
from needs import skip_without_namespaces

SMALL = SOURCE / "traces/small.pcap.zst"
PORT = 7000
AGENT = f"{AWAY_ADDRESS}:{PORT}"
FAST = ("--clock=real", "--speed=max", "--unit_capacity=none")
UNITS = ("--isolation=process", "--loggers=on", "--threads=4")


class Hosts(HostPair):
    AWAY = f"away={AGENT}"  # of --host
    UNITS = UNITS
    UNITS_AWAY = 1  # of a run that goes on for long

    def setUp(self):
        super().setUp()
        self.frames = self.file("frames.pcap", pcap(
            [(1 + i / 1000, udp_frame(5000 + i % 40)) for i in range(4000)]))

    def agent(self, *flags, within=(), daemons=HOME_ADDRESS):
        """Starts the agent of the host away, and returns its process. `within`
        are words before the command, as of a namespace; `daemons` is --from."""
        self.errors = open(os.path.join(self.folder.name, "agent.txt"), "a+b")
        self.addCleanup(self.errors.close)
        agent = subprocess.Popen(
            ["ip", "netns", "exec", AWAY, *within, PROGRAM, "host", "serve",
             f"--listen={AGENT}", f"--from={daemons}", *flags],
            stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)
        self.assertIn(f"listens at {AGENT}", agent.stdout.readline())
        self.addCleanup(agent.stdout.close)
        return agent

    def said(self):
        self.errors.seek(0)
        return self.errors.read().decode()

    def replay(self, *flags, capture=None, hosts=1, within=()):
        path = pathlib.Path(self.folder.name) / "report.json"
        path.unlink(missing_ok=True)
        on = (f"--host={self.AWAY},units={hosts}",) if hosts else ()
        done = self.home(*within, PROGRAM, "replay", capture or self.frames,
                         "--quiet", f"--json={path}", *self.UNITS, *on, *flags)
        return done, json.loads(path.read_text()) if path.exists() else None

    def start(self, *flags):
        """A run that goes on for long, with its units."""
        self.path = pathlib.Path(self.folder.name) / "long.json"
        run = subprocess.Popen(
            ["ip", "netns", "exec", HOME, PROGRAM, "replay", self.frames,
             "--clock=real", "--speed=1x", "--loop=1000", *self.UNITS,
             f"--host={self.AWAY},units={self.UNITS_AWAY}",
             f"--json={self.path}", *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.stderr.close)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        return run

    def units_of(self, agent):
        return [p for p in below(agent.pid)
                if (stat := stat_of(p)) and stat[2] == "snf-unit"]

    def end(self, run):
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 128 + signal.SIGINT, said)
        report = json.loads(self.path.read_text())
        self.assertTrue(report["conserved"])
        self.assertEqual(report["violation_messages"], [])
        return report, said


def main():
    skip_without_namespaces()
    del sys.argv[1:3]
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Units of two hosts that are containers, on loopback.

Usage: host_containers_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from agent_case import FAST, SMALL
from command_case import OK, PROGRAM, Command, free_port, run

UNAVAILABLE = 69


class Containers(Command):
    """On loopback: `ip netns exec` hides the control groups."""

    def test_units_of_both_hosts_may_be_containers(self):
        path = os.path.join(self.folder.name, "lxc.json")
        address = f"127.0.0.1:{free_port()}"
        agent = subprocess.Popen(
            [PROGRAM, "host", "serve", f"--listen={address}"],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)
        self.addCleanup(agent.stdout.close)
        self.assertIn("listens at", agent.stdout.readline())
        done = run("replay", SMALL, *FAST, "--isolation=lxc", "--loggers=on",
                   "--threads=4", "--nf=chronicle", "--policy=hash",
                   f"--host=away={address}", "--quiet", f"--json={path}")
        if done.returncode == UNAVAILABLE:
            self.skipTest(done.stderr.decode())
        self.assertEqual(done.returncode, OK, done.stderr)
        report = json.loads(pathlib.Path(path).read_text())
        self.assertTrue(report["conserved"])
        self.assertEqual(report["violation_messages"], [])


if __name__ == "__main__":
    del sys.argv[1:3]
    unittest.main()

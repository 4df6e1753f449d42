#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ports of several receive queues and threads that send, with controllers that
share them (--controllers), and with a guard (--bypass).

Wants root, and is skipped without.

Usage: queues_beside_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import bypass_test as bypass
import run_test as net
import shared_ports_test as shared
from command_case import OK
from control_test import processes, snf

BOTH = ["--port", "inside=lan0,queues=2,send=thread",
        "--port", "outside=wan0,queues=2,send=thread"]


class SharedQueues(shared.SharedPorts):
    def up(self, *words):
        done = shared.snf("up", *BOTH, *words)
        self.assertEqual(done.returncode, OK, done.stderr)
        return done.stdout

    def test_each_controller_has_its_frames_of_all_queues(self):
        self.check_traffic(2)


class GuardedQueues(bypass.Bypass):
    def up(self, *words):
        done = snf("up", *BOTH, self.firewall, *words)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.pid, = processes()
        return done.stdout

    def test_packets_pass_until_the_next_daemon(self):
        before = bypass.gro()
        with self.server():
            for flags in ([], bypass.PROCESSES):
                with self.subTest(flags):
                    self.up(bypass.BYPASS, *flags)
                    self.check_denied()
                    self.kill_and_pass()
                    self.up(bypass.BYPASS, *flags)
                    self.check_denied()
                    self.down()
                    self.check_nothing_left()
        self.assertEqual(bypass.gro(), before)


# Their tests are run by their own files.
for name in [one for one in dir(shared.SharedPorts) if one.startswith("test_")]:
    setattr(SharedQueues, name, None)
for name in [one for one in dir(bypass.Bypass) if one.startswith("test_")]:
    setattr(GuardedQueues, name, None)

if __name__ == "__main__":
    net.main()

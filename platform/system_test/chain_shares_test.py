#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several chains of a daemon, which share CPUs (--pin), or lease their units
(--manager).

Wants root, and is skipped without.

Usage: chain_shares_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import os
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import chain_rules_test as rules
import manager_test as manager
import run_test as net
from chain_rules_test import CHAINS, REST
from command_case import OK, PATIENCE_S, USAGE, wait_for
from control_test import UNAVAILABLE, snf, status
from live_kills_test import UNITS, processes_of
from manager_test import DAEMONS, MANAGER, WHOLE
from run_test import CLIENT, SERVER4, peer

CPUS = sorted(os.sched_getaffinity(0))
# Of two chains without state, one has one UDP port.
TWO = """
chain { name: "voice" text: "monitor" %s }
chain { name: "rest" text: "firewall" }
rule { match: "udp from any to any port 9" chain: "voice" }
default_chain: "rest"
"""


def pinned(pid):
    """The only CPU of each thread that has one."""
    cpus = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            may = os.sched_getaffinity(int(task))
        except ProcessLookupError:
            continue
        cpus += may if len(may) == 1 else []
    return sorted(cpus)


class PinnedChains(rules.ChainRules):
    def check_traffic(self):
        self.assertEqual(peer(CLIENT, "tcp", SERVER4, 20, 1_000), ["20 right"])
        self.assertGreater(self.talk(), 10)
        self.assertTrue(self.pings())

    def test_chains_have_cpus_of_their_own(self):
        """All share the first CPU, where packets come and go."""
        threads = 1 + (len(CPUS) - 1) // 2
        self.up_with(TWO % "", "--pin", f"--threads={threads}")
        with self.server():
            self.check_traffic()
            all_of = pinned(self.pid)
            self.assertIn(CPUS[0], all_of)
            self.assertEqual([cpu for cpu in all_of if cpu != CPUS[0]],
                             CPUS[1:1 + 2 * (threads - 1)])
            self.said("chain", "set", "voice", "firewall | monitor")
            self.check_traffic()
        self.check_sound(self.down())

    def test_too_few_cpus_are_told(self):
        file = self.folder / "site.conf"
        file.write_text(CHAINS + REST)
        threads = 2 + (len(CPUS) - 1) // 3
        done = snf("up", *net.PORTS, f"--config={file}", "--pin",
                   f"--threads={threads}")
        self.assertNotEqual(done.returncode, OK)
        self.assertIn(f"{threads} threads for each of 3 chains cannot be "
                      f"pinned to {len(CPUS)} CPUs: they need "
                      f"{1 + 3 * (threads - 1)}", done.stderr)

    def test_a_process_that_starts_again_has_its_cpu(self):
        if len(CPUS) < 2:
            self.skipTest("wants two CPUs")
        self.up("--nf=monitor", "--pin", "--threads=2", "--loggers=on",
                "--isolation=process")

        def units():
            return set(processes_of(self.pid, UNITS))

        def are_pinned(but):
            found = units()
            return found and not found & but and all(
                os.sched_getaffinity(pid) == {CPUS[1]} for pid in found)
        with self.server():
            self.check_traffic()
            first = units()
            self.assertTrue(are_pinned(set()))
            for pid in first:
                os.kill(pid, signal.SIGKILL)
            wait_for("processes on their CPU", lambda: are_pinned(first))
            self.check_traffic()
        self.assertEqual(self.down()["violation_messages"], [])

    def test_a_newer_chain_has_the_cpus_of_the_older_one(self):
        if len(CPUS) < 2:
            self.skipTest("wants two CPUs")
        self.up("--nf=monitor", "--pin", "--threads=2")
        with self.server():
            self.assertEqual(pinned(self.pid).count(CPUS[1]), 1)
            connection = self.connection()
            self.said("chain", "set", "firewall | monitor")
            self.assertEqual(connection.says(), "right")
            # The connection is still at the older one.
            self.assertEqual(pinned(self.pid).count(CPUS[1]), 2)
            self.assertTrue(self.pings())
            # The thread that was asked for the chain is free.
            self.assertEqual(len(status()["chain"]), 2)
        self.check_sound(self.down())


class LeasedChains(manager.Manager):
    def up_with(self, text, *words):
        file = self.folder / "site.conf"
        file.write_text(text)
        return self.snf("up", f"--manager={MANAGER}", "--port", "inside=lan0",
                        "--port", "outside=wan0", f"--config={file}", *words,
                        name=DAEMONS[0])

    def shares(self):
        """What the chains have of all units, by name."""
        return {member["name"].removeprefix(f"{DAEMONS[0]}."): member["held"]
                for member in self.look()["member"]}

    def test_each_chain_leases_as_its_load_needs(self):
        self.manager()
        self.up_with(TWO % "")
        with self.serving(0):
            self.check_echoes(0)
            self.assertEqual(set(self.shares()), {"voice", "rest"})
            with self.load(0, 2 * WHOLE):
                wait_for("most for one chain",
                         lambda: self.shares()["voice"] > 1.3 * WHOLE)
                self.check_echoes(0)
                self.assertGreater(self.shares()["rest"], 0)
            # Another daemon takes what this one does not need.
            self.up(1)
            with self.load(1, 2 * WHOLE):
                wait_for("most for the other daemon", lambda: (
                    self.held(1) > 1.3 * WHOLE))
                self.check_echoes(0)
        self.snf("down", name=DAEMONS[1])
        self.snf("down", name=DAEMONS[0])
        wait_for("all free", lambda: not self.look()["member"])

    def test_leases_of_chains_outlive_a_manager(self):
        self.manager()
        self.up_with(TWO % "")
        with self.serving(0):
            before = wait_for("leases", lambda: (
                all(self.shares().values()) and self.shares()))
            self.kill(MANAGER)
            self.check_echoes(0)
            self.manager()
            wait_for("leases that are known again", lambda: (
                set(self.shares()) == set(before) and
                all(self.shares().values())))
            self.assertEqual(self.look()["manager_epoch"], 2)
            self.check_echoes(0)

    def test_refuses_units_of_a_chain_of_its_own(self):
        self.manager()
        file = self.folder / "site.conf"
        long = "v" * 64
        for more, flags, why in (
                ("max_units: 2", [], ["chain \"voice\" has max_units",
                                      "the resource manager has the units"]),
                ('unit_capacity: "5Mbps"', [], ["has unit_capacity"]),
                ("", ["--keep=60s", "--isolation=process", "--loggers=on"],
                 ["--keep: with --manager only for one chain"])):
            file.write_text(TWO % more)
            self.refused(USAGE, why, "up", f"--manager={MANAGER}", "--port",
                         "inside=lan0", "--port", "outside=wan0",
                         f"--config={file}", *flags)
        file.write_text((TWO % "").replace("voice", long))
        self.refused(USAGE, [f'chain "{long}"', "at most 64"], "up",
                     f"--manager={MANAGER}", "--port", "inside=lan0", "--port",
                     "outside=wan0", f"--config={file}")
        self.up_with(TWO % "")
        file.write_text((TWO % "").replace("monitor", "passthrough"))
        for command in (["chain", "set", "voice", "passthrough"],
                        ["config", "apply", file]):
            done = subprocess.run(
                net.in_network(net.MIDDLE, net.PROGRAM, *command,
                               f"--name={DAEMONS[0]}"),
                capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
            self.assertIn("chains that lease units stay as they began",
                          done.stderr)


# Their tests are run by their own files.
for name in [one for one in dir(rules.ChainRules) if one.startswith("test_")]:
    setattr(PinnedChains, name, None)
for name in [one for one in dir(manager.Manager) if one.startswith("test_")]:
    setattr(LeasedChains, name, None)

if __name__ == "__main__":
    net.main()

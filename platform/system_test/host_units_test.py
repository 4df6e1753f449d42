#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Units on another host: `snf host serve`, and --host.

    home 10.99.7.1 ── 10.99.7.2 away
    snf replay        snf host serve

Each host is a network namespace. Wants root, and is skipped without.

Usage: host_units_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # nothing beside the sources
from agent_case import AGENT, FAST, SMALL, Hosts, main
from command_case import LASTING_NAT, OK, PROGRAM, below, is_alive, wait_for
from host_pair import AWAY, ip

NAT = "nat(" + LASTING_NAT.removeprefix("nat:") + ")"


class Runs(Hosts):
    def test_units_of_two_hosts_release_what_those_of_one_do(self):
        self.agent()
        for nf, policy in (("chronicle", "rotate"), ("monitor", "rotate"),
                           ("chronicle", "snf")):
            flags = (*FAST, f"--nf={nf}", f"--policy={policy}",
                     "--flow_timeout=1h")
            with self.subTest(nf=nf, policy=policy):
                reports = []
                for hosts in (0, 1):
                    done, report = self.replay(*flags, capture=SMALL,
                                               hosts=hosts)
                    self.assertEqual(done.returncode, OK, done.stderr)
                    self.assertTrue(report["conserved"])
                    self.assertEqual(report["violation_messages"], [])
                    reports.append(report)
                for what in ("digest", "packets_released", "packets_dropped"):
                    self.assertEqual(reports[0][what], reports[1][what], what)
        self.assertEqual(self.said(), "")

    def test_nat_of_two_hosts_names_connections_as_that_of_one(self):
        self.agent()
        reports = []
        for hosts in (0, 1):
            done, report = self.replay(
                *FAST, f"--nf=firewall | {NAT}", "--policy=rotate",
                hosts=hosts)
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertTrue(report["conserved"])
            reports.append(report)
        for what in ("digest_up_to_renaming", "packets_released"):
            self.assertEqual(reports[0][what], reports[1][what], what)

    def test_processes_of_a_warm_pool_come_and_go_there_as_well(self):
        self.agent()
        path = os.path.join(self.folder.name, "pool.json")
        done = self.home(
            PROGRAM, "replay", self.frames, *FAST, "--isolation=process",
            "--loggers=on", "--policy=rotate", "--nf=chronicle",
            "--max_units=4", "--warm_pool=4", f"--host=away={AGENT},units=2",
            "--quiet", f"--json={path}")
        self.assertEqual(done.returncode, OK, done.stderr)
        report = json.loads(pathlib.Path(path).read_text())
        self.assertTrue(report["conserved"])
        self.assertEqual(report["violation_messages"], [])
        self.assertEqual(report["units_used_max"], 4)


class Shown(Hosts):
    """With --host_state, one unit is at home and three are on the host away.
    Flows go around, so states are read in place on the host away alone."""

    UNITS = ("--isolation=process", "--loggers=on", "--threads=6",
             "--max_units=4", "--host_state", "--nf=chronicle",
             "--policy=rotate", "--flow_timeout=1h")
    UNITS_AWAY = 3

    def memories(self, process):
        """Memories for states of which the process has descriptors."""
        folder = pathlib.Path(f"/proc/{process}/fd")
        found = set()
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                if "snf host" in os.readlink(path):
                    found.add(path.stat().st_ino)
        return found

    def rights(self, process):
        """How the process maps memory for states, by its inode."""
        found = {}
        maps = pathlib.Path(f"/proc/{process}/maps").read_text()
        for line in maps.splitlines():
            _, rights, _, _, inode, *name = line.split(maxsplit=5)
            if name and "snf host" in name[0]:
                found.setdefault(int(inode), []).append(rights)
        return found

    def test_flows_that_move_within_the_host_are_read_in_place(self):
        self.agent()
        flags = ("--clock=real", "--speed=1x", "--unit_capacity=none")
        reports = []
        for hosts in (0, 3):
            done, report = self.replay(*flags, hosts=hosts)
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertTrue(report["conserved"])
            self.assertEqual(report["violation_messages"], [])
            reports.append(report)
        for what in ("digest", "packets_released", "packets_dropped"):
            self.assertEqual(reports[0][what], reports[1][what], what)
        states = reports[1]["host_records"]
        self.assertGreater(states["read"], 0)
        # Two of four moves are between the hosts.
        self.assertGreater(states["missed"]["away"], 0)
        self.assertEqual(states["missed"]["malformed"], 0)
        self.assertEqual(reports[0]["host_records"]["missed"]["away"], 0)
        self.assertNotIn("refused", self.said())

    def test_what_a_unit_there_has_shown_outlives_it(self):
        """A flow may be at home as its unit dies: kills until one is not."""
        agent = self.agent()
        for _ in range(5):
            states = self.kill_units(agent, kills=8)["host_records"]
            self.assertGreater(states["read"], 0)
            if states["recovered"] > 0:
                return
        self.fail(f"nothing was recovered: {states}")

    def kill_units(self, agent, kills):
        """Kills units of the agent, one after the other; returns the report."""
        run = self.start()
        wait_for("units", lambda: len(self.units_of(agent)) == 3)
        for _ in range(kills):
            time.sleep(0.5)
            units = self.units_of(agent)
            os.kill(units[-1], signal.SIGKILL)
            wait_for("another", lambda u=units: len(
                found := self.units_of(agent)) == 3 and found != u)
        time.sleep(0.5)
        report, said = self.end(run)
        self.assertIn("was killed by signal 9", said)
        self.assertTrue(report["conserved"])
        for count in ("packets_lost", "flows_given_up"):
            self.assertEqual(report["faults"][count], 0, count)
        return report

    def test_daemons_share_nothing_and_leave_nothing(self):
        agent = self.agent()
        runs = [self.start("--seed=1"), self.start("--seed=2")]
        units = wait_for("units", lambda: (found := self.units_of(agent))
                         and len(found) == 6 and found)
        self.assertEqual(len(self.memories(agent.pid)), 2)
        mapped = {}
        for unit in units:
            self.assertEqual(self.memories(unit), set())
            (inode, rights), = self.rights(unit).items()
            # Its own part for writing, and all for reading.
            self.assertEqual(sorted(rights), ["r--s", "rw-s"])
            mapped[inode] = mapped.get(inode, 0) + 1
        self.assertEqual(sorted(mapped.values()), [3, 3])
        self.assertEqual(self.rights(agent.pid), {})
        runs[0].kill()
        wait_for("end of units", lambda: len(self.units_of(agent)) == 3)
        wait_for("free memory",
                 lambda: len(self.memories(agent.pid)) == 1)
        runs[1].kill()
        wait_for("free memory", lambda: not self.memories(agent.pid))


class Clocks(Hosts):
    """The clocks of the hosts are ten hours apart."""

    LATE = ("unshare", "--time", "--fork", "--kill-child",
            "--monotonic", "36000", "--boottime", "36000")

    def setUp(self):
        super().setUp()
        done = subprocess.run([*self.LATE, "true"], capture_output=True,
                              text=True, timeout=60, check=False)
        if done.returncode != 0:
            self.skipTest(f"no time namespace: {done.stderr.strip()}")

    def releases_the_same(self, of_home=(), of_away=()):
        self.agent(within=of_away)
        flags = (*FAST, "--nf=chronicle", "--policy=rotate",
                 "--flow_timeout=1h")
        reports = []
        for hosts in (0, 1):
            done, report = self.replay(*flags, capture=SMALL, hosts=hosts,
                                       within=of_home)
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertTrue(report["conserved"])
            self.assertEqual(report["violation_messages"], [])
            # A clock that is not corrected makes latencies of ten hours.
            self.assertLess(report["latency_ns"]["max"], 3600e9)
            reports.append(report)
        for what in ("digest", "packets_released", "packets_dropped"):
            self.assertEqual(reports[0][what], reports[1][what], what)

    def test_the_host_away_may_be_hours_ahead(self):
        self.releases_the_same(of_away=self.LATE)

    def test_the_host_away_may_be_hours_behind(self):
        self.releases_the_same(of_home=self.LATE)


class Losses(Hosts):
    NF = "--nf=chronicle"
    SILENT = "is lost: was silent for 1500 ms"

    def kill_all(self, agent):
        """As a host that loses its power."""
        processes = [*below(agent.pid), agent.pid]
        os.kill(agent.pid, signal.SIGKILL)
        wait_for("end of all", lambda: not any(
            is_alive(p) for p in processes if p != agent.pid))
        agent.wait()

    def test_a_host_that_is_killed_loses_no_state_and_comes_back(self):
        agent = self.agent()
        run = self.start("--policy=rotate", self.NF)
        wait_for("units", lambda: self.units_of(agent))
        for _ in range(3):
            time.sleep(1)
            self.kill_all(agent)
            time.sleep(0.5)
            self.assertIsNone(run.poll())
            agent = self.agent()
            wait_for("units", lambda a=agent: self.units_of(a))
        time.sleep(1)
        report, said = self.end(run)
        self.assertIn(f"host away ({AGENT}) is lost", said)
        self.assertGreaterEqual(said.count("is back as process"), 3)
        self.assertEqual(report["packets_dropped"].get("nf_failed", 0), 0)
        self.assertEqual(report["faults"].get("flows_given_up", 0), 0)
        self.assertEqual(report["faults"]["packets_lost"], 0)
        self.assertEqual(report["packets_released"], report["packets_in"])

    def test_units_go_on_without_a_host_whose_link_is_down(self):
        agent = self.agent()
        run = self.start("--policy=rotate", self.NF)
        first = wait_for("units", lambda: self.units_of(agent))
        time.sleep(1)
        ip("-n", AWAY, "link", "set", "eth0", "down")
        self.addCleanup(ip, "-n", AWAY, "link", "set", "eth0", "up")
        # The host away kills units of a daemon that it does not hear.
        wait_for("end of units", lambda: not any(map(is_alive, first)))
        time.sleep(2)
        self.assertIsNone(run.poll())
        ip("-n", AWAY, "link", "set", "eth0", "up")
        wait_for("units", lambda: self.units_of(agent))
        time.sleep(1)
        _, said = self.end(run)
        self.assertRegex(said, self.SILENT)

    def test_a_unit_there_may_be_killed_like_one_here(self):
        agent = self.agent()
        run = self.start("--policy=rotate", self.NF)
        first = wait_for("units", lambda: self.units_of(agent))
        time.sleep(0.5)
        os.kill(first[0], signal.SIGKILL)
        wait_for("another", lambda: (found := self.units_of(agent))
                 and found != first)
        time.sleep(0.5)
        _, said = self.end(run)
        self.assertIn("was killed by signal 9", said)
        self.assertNotIn("is lost", said)

    def test_units_end_with_their_daemon(self):
        agent = self.agent()
        run = self.start(self.NF)
        units = wait_for("units", lambda: self.units_of(agent))
        run.kill()
        wait_for("end of units", lambda: not any(map(is_alive, units)))
        self.assertIsNone(agent.poll())


if __name__ == "__main__":
    main()

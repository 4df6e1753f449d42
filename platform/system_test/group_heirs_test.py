#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Flows that outlive the controller of a group that had them: TCP connections
through a firewall and a NAT go on at its heir, and at the controller once it is
back. The networks are those of group_test.py. Wants root and etcd, and is skipped without.

Usage: group_heirs_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import group_test
import run_test as net
from command_case import OK, PATIENCE_S, wait_for
from etcd_peer import skip_without_etcd
from group_test import COUNT, FAR_SERVER, GATES
from run_test import CLIENT, SERVER, ip

VICTIM, HEIR = 1, 2
CONNECTIONS = 8
EXTERNAL = "10.5.0.1"


class Heirs:
    """The test, of both networks."""

    @contextlib.contextmanager
    def soak(self, some_come):
        """Connections of the host that has the route, none of which may
        break. If some_come is "yes", two of them come and go."""
        process = subprocess.Popen(
            net.inside(CLIENT, sys.executable, net.PEER, "soak", self.server4,
                       CONNECTIONS, 1, some_come),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        try:
            yield
            out, errors = process.communicate("", timeout=PATIENCE_S)
        finally:
            process.kill()
            process.wait()
        self.assertEqual(process.returncode, 0, errors)
        told = json.loads(out)
        self.assertEqual(told["wrong"], 0)
        self.assertGreater(told["echoes"], 0)
        print(f"note: the slowest echo took {told['worst_ms']} ms")

    @contextlib.contextmanager
    def late_soak(self):
        """Connections that begin while the victim is dead."""
        time.sleep(1)  # the heir's heir has what there is
        before = self.states(0, "kept")
        with self.soak("no"):
            wait_for("new flows", lambda: (
                self.states(0, "kept") >= before + CONNECTIONS))
            yield

    def states(self, number, name):
        return self.group(number)["counts"]["states_" + name]

    def lose_machine(self):
        """What else ends with the controller."""

    def kill_victim(self):
        os.kill(self.pid(VICTIM), signal.SIGKILL)
        self.lose_machine()

    def find_machine(self):
        """What has ended with the controller begins again."""

    @contextlib.contextmanager
    def resting(self):
        """A connection that is silent all the time, and goes on at the end."""
        process = subprocess.Popen(
            net.inside(CLIENT, sys.executable, net.PEER, "rest", self.server4),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        try:
            self.assertEqual(process.stdout.readline(), "True\n")
            yield
            out, errors = process.communicate("", timeout=PATIENCE_S)
        finally:
            process.kill()
            process.wait()
        self.assertEqual(out, "True\n", errors)

    def end_victim(self):
        done = self.snf(VICTIM, "down")
        self.assertEqual(done.returncode, OK, done.stderr)

    def kept(self):
        """The flows at the heir, once the victim has sent all that it has."""
        def both():
            counts = self.group(VICTIM)["counts"]
            if counts["states_connected"] and not counts["states_behind"]:
                return (self.states(HEIR, "kept"),)
            return None
        return wait_for("a sweep", both)[0]

    def check_connections_go_on(self, lose, some_come):
        self.up_all()
        self.host = self.owners()[VICTIM][0]
        self.set_source(self.host)
        stay = CONNECTIONS * 3 // 4 if some_come == "yes" else CONNECTIONS
        before = self.kept()  # flows by which the owners were found
        with self.soak(some_come):
            wait_for("states", lambda: (
                self.states(HEIR, "kept") >= before + stay))
            with self.talking() as talk:
                self.all_answered(talk)
                self.check_heir_takes(stay, talk, lose)
        # Of no flow the packets began another one.
        for number in (0, HEIR):
            self.assertEqual(self.states(number, "untaken"), 0)
            self.assertEqual(self.states(number, "malformed"), 0)
        self.assertEqual(self.states(0, "taken"), 0)
        # What came in is accounted for.
        for number in (0, HEIR):
            done = self.snf(number, "down")
            self.assertEqual(done.returncode, OK, done.stderr)

    def check_new_connections(self):
        """Each is another flow; its port may be no older flow's."""
        with self.soak("yes"):
            time.sleep(1)

    def start_victim(self):
        self.find_machine()
        self.up(VICTIM)

    def freeze_victim(self):
        self.frozen = self.pid(VICTIM)
        os.kill(self.frozen, signal.SIGSTOP)
        self.addCleanup(self.thaw_victim)

    def thaw_victim(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.frozen, signal.SIGCONT)

    def check_connections_come_back(self, lose, find):
        """At the controller once it is back, also a silent one. Returns how
        many flows came back, and how many the controller still had."""
        self.up_all()
        self.set_source(self.owners()[VICTIM][0])
        before = self.kept()
        with self.resting(), self.soak("no"), self.talking() as talk:
            self.all_answered(talk)
            wait_for("states", lambda: (
                self.states(HEIR, "kept") > before + CONNECTIONS))
            # Some sweeps later the heir has all, but for what just runs.
            sent = self.states(VICTIM, "sent")
            wait_for("sweeps", lambda: self.states(VICTIM, "sent") > sent + 100)
            lose()
            wait_for("others", lambda: self.agree([0, HEIR]))
            self.all_answered(talk)
            wait_for("flows",
                     lambda: self.states(HEIR, "taken") >= CONNECTIONS)
            with self.late_soak():
                talk.silent("begin")
                find()
                self.await_all()
                self.all_answered(talk)
                returned, had = (self.states(VICTIM, name)
                                 for name in ("returned", "had"))
                self.assertEqual(self.states(HEIR, "given"), returned + had)
                counts = self.status(HEIR)["count"]
                self.assertGreaterEqual(counts["(flows_inherited)"],
                                        CONNECTIONS)
                self.assertEqual(counts["(flows_deleted)"], 0)
                self.assertGreaterEqual(self.states(VICTIM, "away"),
                                        CONNECTIONS)
                self.check_new_connections()
            self.assertGreater(
                self.group(VICTIM)["counts"]["aside"], CONNECTIONS)
            told = talk.end()
        gaps = sorted(one["gap"] for one in told.values())
        print(f"note: hosts had no answer for up to {gaps[-1]} s")
        self.check_nobody_was_served_twice(told)
        for number in range(COUNT):
            for name in ("untaken", "malformed", "ungiven", "unreturned"):
                self.assertEqual(self.states(number, name), 0, (number, name))
            done = self.snf(number, "down")
            self.assertEqual(done.returncode, OK, done.stderr)
        return returned, had

    def check_heir_takes(self, stay, talk, lose):
        self.assertEqual(self.states(HEIR, "taken"), 0)
        lose()
        wait_for("others", lambda: self.agree([0, HEIR]))
        self.all_answered(talk)
        wait_for("flows", lambda: self.states(HEIR, "taken") >= stay)
        time.sleep(3)
        self.check_nobody_was_served_twice(talk.end())


class SharedHeirs(Heirs, group_test.Shared):
    def set_source(self, host):
        ip("-n", CLIENT, "route", "replace", self.server4, "dev", "eth0", "src",
           host)

    # Without SNF_LONG_TESTS the test below does the same first.
    @unittest.skipUnless(os.environ.get("SNF_LONG_TESTS"), "SNF_LONG_TESTS=1")
    def test_connections_go_on_at_the_heir(self):
        # A connection that began in the last sweep is lost with its controller.
        self.check_connections_go_on(self.kill_victim, "no")

    def test_connections_come_back_to_their_controller(self):
        returned, had = self.check_connections_come_back(self.kill_victim,
                                                         self.start_victim)
        self.assertGreater(returned, CONNECTIONS)
        self.assertEqual(had, 0)

    @unittest.skipUnless(os.environ.get("SNF_LONG_TESTS"), "SNF_LONG_TESTS=1")
    def test_connections_come_back_after_a_freeze(self):
        returned, had = self.check_connections_come_back(self.freeze_victim,
                                                         self.thaw_victim)
        self.assertGreater(had, CONNECTIONS)
        self.assertEqual(returned, 0)

    def test_connections_go_on_after_a_planned_end(self):
        self.check_connections_go_on(self.end_victim, "yes")


class OwnPortsHeirs(Heirs, group_test.OwnPorts):
    """States of flows go encrypted from machine to machine."""

    chain = f"--nf=firewall | nat(ip={EXTERNAL})"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, directory)
        cls.tls = f"{directory}/tls"
        done = subprocess.run(
            [net.PROGRAM, "cert", cls.tls, "--role=admin",
             *(f"--host=10.9.0.{number + 1}" for number in range(COUNT))],
            capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def own_flags(self, number):
        return (*super().own_flags(number), f"--group_tls={self.tls}")

    def setUp(self):
        super().setUp()
        ip("-n", SERVER, "route", "add", f"{EXTERNAL}/32", *sum(
            (["nexthop", "via", f"10.2.{number}.1"] for number in range(COUNT)),
            []))

    def set_source(self, host):
        ip("-n", CLIENT, "route", "replace", FAR_SERVER, "src", host, *sum(
            (["nexthop", "via", f"10.1.{number}.1"] for number in range(COUNT)),
            []))

    def lose_machine(self):
        for port in ("lan0", "wan0"):
            ip("-n", GATES[VICTIM], "link", "set", port, "down")

    def find_machine(self):
        for port in ("lan0", "wan0"):
            ip("-n", GATES[VICTIM], "link", "set", port, "up")

    @unittest.skipUnless(os.environ.get("SNF_LONG_TESTS"), "SNF_LONG_TESTS=1")
    def test_connections_come_back_to_their_machine(self):
        returned, had = self.check_connections_come_back(self.kill_victim,
                                                         self.start_victim)
        self.assertGreater(returned, CONNECTIONS)
        self.assertEqual(had, 0)

    def test_connections_go_on_at_the_heirs_machine(self):
        self.check_connections_go_on(self.kill_victim, "no")


if __name__ == "__main__":
    skip_without_etcd()
    net.main()

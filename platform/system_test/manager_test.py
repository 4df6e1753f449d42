#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A resource manager and two daemons that lease their units of it, each between
two hosts of its own.

    client0 eth0 ── lan0 [ daemon 0 ] wan0 ── eth0 server0
    client1 eth0 ── lan1 [ daemon 1 ] wan1 ── eth0 server1
                       resource manager

Wants root, and is skipped without.

Usage: manager_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import run_test as net
from command_case import OK, PATIENCE_S, USAGE, below, is_alive, wait_for
from daemon_case import (FOLDER, SENDER, kill, log_of, pid_of, remove_files_of,
                         send_external_to, soaking)
from run_test import (CLIENT4, EXTERNAL4, MIDDLE, PEER, PROGRAM, SERVER4,
                      in_network, inside, ip, peer)

UNAVAILABLE = 69
NAME = f"t{os.getpid()}"
MANAGER, DAEMONS = NAME, (f"{NAME}-0", f"{NAME}-1")
SIDES = range(2)
WHOLE = 1_024
# So little that SENDER fills both units where a processor is shared by many.
CAPACITY_BPS = 10_000_000
UNITS = ["--units=2", f"--unit_capacity={CAPACITY_BPS // 1_000_000}Mbps"]


def client(side):
    return f"snf-client{'ab'[side]}-{os.getpid()}"


def server(side):
    return f"snf-server{'ab'[side]}-{os.getpid()}"


def remove_network():
    for namespace in (MIDDLE, *map(client, SIDES), *map(server, SIDES)):
        subprocess.run(["ip", "netns", "del", namespace], capture_output=True,
                       check=False)


def make_network():
    ip("netns", "add", MIDDLE)
    for side in SIDES:
        for namespace, port, address in (
                (client(side), f"lan{side}", CLIENT4),
                (server(side), f"wan{side}", SERVER4)):
            ip("netns", "add", namespace)
            ip("-n", namespace, "link", "set", "lo", "up")
            ip("-n", namespace, "link", "add", "eth0", "type", "veth", "peer",
               "name", port, "netns", MIDDLE)
            ip("-n", MIDDLE, "link", "set", port, "addrgenmode", "none", "up")
            ip("-n", namespace, "link", "set", "eth0", "up")
            ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")


def snf(*words, name):
    return subprocess.run(
        in_network(MIDDLE, PROGRAM, words[0], f"--name={name}", *words[1:]),
        capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)


class Manager(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(remove_network)
        self.addCleanup(self.end)
        make_network()

    @staticmethod
    def end():
        for name in (*DAEMONS, MANAGER):
            snf("down", name=name)
        remove_files_of(NAME)

    def snf(self, *words, name=MANAGER):
        done = snf(*words, name=name)
        self.assertEqual(done.returncode, OK, done.stderr)
        return done.stdout

    def refused(self, code, words, *command, name=DAEMONS[0]):
        done = snf(*command, name=name)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def manager(self, *words):
        self.snf("manager", *UNITS, *words)

    def up(self, side, *words, nf="firewall | monitor"):
        return self.snf("up", f"--manager={MANAGER}", "--port",
                        f"inside=lan{side}", "--port", f"outside=wan{side}",
                        f"--nf={nf}", *words, name=DAEMONS[side])

    def look(self):
        """What the manager says, whose sums are right."""
        told = json.loads(self.snf("leases", "--json"))
        for unit in told["unit"]:
            promised = sum(lease["share"] for lease in unit["lease"])
            self.assertLessEqual(promised, WHOLE, told)
            self.assertLessEqual(unit["free"], WHOLE - promised, told)
            self.assertGreaterEqual(unit["free"], 0, told)
        return told

    def all_held(self):
        """What each side has, at one time."""
        members = self.look()["member"]
        return [sum(member["held"] for member in members
                    if member["name"] == name) for name in DAEMONS]

    def held(self, side):
        return self.all_held()[side]

    def status(self, side):
        return json.loads(self.snf("status", "--json", name=DAEMONS[side]))

    @contextlib.contextmanager
    def load(self, side, share):
        """Traffic that needs this share of a unit."""
        process = subprocess.Popen(
            inside(client(side), sys.executable, "-c", SENDER, SERVER4,
                   CAPACITY_BPS * share / WHOLE))
        try:
            yield
        finally:
            process.kill()
            process.wait()

    @contextlib.contextmanager
    def serving(self, side):
        process = subprocess.Popen(
            inside(server(side), sys.executable, PEER, "serve", SERVER4,
                   self.folder), stdout=subprocess.PIPE)
        try:
            self.assertEqual(process.stdout.readline(), b"ready\n")
            yield
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def check_echoes(self, side):
        peer(client(side), "tcp", SERVER4, "4", "10000")

    def kill(self, name):
        kill(pid_of(name))

    def test_capacity_goes_where_the_load_is(self):
        self.manager()
        for side in SIDES:
            self.up(side)
        with self.serving(0), self.serving(1):
            for side in SIDES:
                self.check_echoes(side)
                wait_for("a unit that is up", lambda side=side: [
                    unit for unit in self.status(side)["unit"]
                    if unit["is_up"]])
            with self.load(0, 2 * WHOLE):
                wait_for("most for one", lambda: self.held(0) > 1.5 * WHOLE)
                def is_parted():
                    first, second = self.all_held()
                    return second > 0.7 * WHOLE and first < 1.5 * WHOLE
                with self.load(1, 2 * WHOLE):
                    wait_for("a part for the other", is_parted)
            with self.load(1, 2 * WHOLE):
                wait_for("most for the other",
                         lambda: self.held(1) > 1.5 * WHOLE)
            for side in SIDES:
                self.check_echoes(side)
        self.assertIn("holds", self.snf("leases"))
        for side in SIDES:
            self.snf("down", name=DAEMONS[side])
        wait_for("all free", lambda: not self.look()["member"])
        self.assertIn("2.000 of 2 units free", self.snf("leases"))
        self.snf("down")
        self.assertEqual(list(FOLDER.glob(f"{NAME}*")), [])

    def test_manager_and_daemon_that_are_killed(self):
        self.manager()
        for side in SIDES:
            self.up(side)
        with self.serving(0), self.serving(1), self.load(0, WHOLE):
            wait_for("a share", lambda: self.held(0) > WHOLE / 2)
            self.kill(MANAGER)
            self.refused(UNAVAILABLE, [MANAGER], "leases", name=MANAGER)
            wait_for("a reason", lambda: "no manager leads there" in
                     self.status(0)["manager"]["why"])
            for side in SIDES:
                self.check_echoes(side)
            self.manager()
            wait_for("no reason", lambda: not
                     self.status(0)["manager"]["why"])
            wait_for("leases that are known again", lambda: (
                self.held(0) > WHOLE / 2 and self.held(1) > 0))
            self.assertEqual(self.look()["manager_epoch"], 2)
            self.kill(DAEMONS[1])
            wait_for("its parts free", lambda: not self.held(1))
            self.check_echoes(0)
            # Both at once: the dead one's are not waited for.
            self.up(1)
            wait_for("its share", lambda: self.held(1) > 0)
            self.kill(MANAGER)
            self.kill(DAEMONS[1])
            self.manager()
            wait_for("leases that are known again", lambda: (
                self.held(0) > WHOLE / 2 and not self.look()["is_recovering"]))
            self.assertEqual(self.look()["manager_epoch"], 3)
            self.check_echoes(0)

    def test_a_daemon_that_stands_still_keeps_what_it_has(self):
        self.manager()
        for side in SIDES:
            self.up(side)
        wait_for("its share", lambda: self.held(1) > 0)
        share = self.held(1)
        self.kill(MANAGER)
        os.kill(pid_of(DAEMONS[1]), signal.SIGSTOP)
        self.manager()
        told = wait_for("a manager that waits for it", lambda: (
            told if (told := self.look())["awaited"] == [DAEMONS[1]] else None))
        self.assertTrue(told["is_recovering"])
        os.kill(pid_of(DAEMONS[1]), signal.SIGCONT)
        wait_for("its report", lambda: self.held(1) == share)

    def test_a_daemon_ends_well_to_which_no_packet_came(self):
        self.manager()
        for _ in range(3):
            self.up(0)
            self.assertIn("has ended", self.snf("down", name=DAEMONS[0]))

    def test_units_in_processes_that_are_killed(self):
        self.manager()
        self.up(0, "--isolation=process", "--loggers=on", "--threads=4")
        with self.serving(0):
            self.check_echoes(0)

            def kill():
                """Leases come and go with the load."""
                return any(snf("kill", str(lease["unit"]),
                               name=DAEMONS[0]).returncode == OK
                           for lease in self.look()["unit"])
            wait_for("a unit that runs", kill)
            self.check_echoes(0)
        self.snf("down", name=DAEMONS[0])

    def test_flows_outlive_a_daemon_whose_leases_end(self):
        self.manager()
        send_external_to(client(0), server(0))

        def up():
            self.up(0, "--isolation=process", "--loggers=on", "--threads=3",
                    "--keep=60s", nf=f"firewall | nat(ip={EXTERNAL4})")
        up()
        self.up(1)
        others = below(pid_of(DAEMONS[0]))
        # The other one takes what it can.
        with self.serving(0), self.load(1, 2 * WHOLE), soaking(self, client(0)):
            for life in range(3):
                self.check_echoes(0)
                self.kill(DAEMONS[0])
                wait_for("its parts free", lambda: not self.held(0))
                wait_for("most for the other",
                         lambda: self.held(1) > 1.5 * WHOLE)
                self.assertTrue(all(map(is_alive, others)))
                up()
                log = log_of(DAEMONS[0])
                self.assertEqual(len(re.findall(
                    r"took over [1-9]\d* flows", log)), life + 1)
                wait_for("its share", lambda: self.held(0) > 0)
            self.kill(MANAGER)
            self.kill(DAEMONS[0])
            self.manager()
            up()
            wait_for("its share", lambda: self.held(0) > 0)
            self.check_echoes(0)
        self.snf("down", name=DAEMONS[0])
        self.assertFalse(any(map(is_alive, others)))

    def test_a_daemon_that_leases_is_set(self):
        self.manager()
        self.up(0)
        self.assertRegex(self.snf("set", "alpha=0.5", name=DAEMONS[0]),
                         r"\balpha=0.5\b")
        self.refused(USAGE, ["max_units", "the resource manager"], "set",
                     "max_units=1")
        with self.serving(0):
            self.check_echoes(0)

    def test_refuses_what_cannot_be(self):
        ports = ["--port", "inside=lan0", "--port", "outside=wan0"]
        for code, words, flags in (
                (UNAVAILABLE, [MANAGER, "snf manager"],
                 [f"--manager={MANAGER}"]),
                (USAGE, ["127.0.0.1:7", "this machine"],
                 ["--manager=127.0.0.1:7"]),
                (USAGE, ["a name of its own"], [f"--manager={DAEMONS[0]}"]),
                (USAGE, ["--max_units"],
                 [f"--manager={MANAGER}", "--max_units=3"]),
                (USAGE, ["--upgrade"], [f"--manager={MANAGER}", "--upgrade"])):
            with self.subTest(flags):
                self.refused(code, words, "up", *ports, *flags)
        self.manager()
        self.refused(UNAVAILABLE, ["runs already"], "manager", name=MANAGER)
        self.refused(UNAVAILABLE, ["a resource manager"], "flows", name=MANAGER)
        self.up(0)
        done = subprocess.run(
            [PROGRAM, "chain", "set", f"--name={DAEMONS[0]}", "passthrough"],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
        self.assertIn("--manager", done.stderr)
        # Others units than those that a living daemon was told of.
        self.kill(MANAGER)
        self.refused(UNAVAILABLE, [DAEMONS[0], "2 units"], "manager",
                     "--units=3", UNITS[1], name=MANAGER)


if __name__ == "__main__":
    reason = net.why_skipped()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(net.SKIPPED)
    net.remove_remains()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf up --upgrade` of a member of a group of controllers: another process has
its place and its flows, and no other member sees a gap. The networks are those
of group_test.py. Wants root and etcd, and is skipped without.

Usage: group_upgrade_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import os
import random
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import group_heirs_test as heirs
import run_test as net
from command_case import OK, PATIENCE_S, is_alive, wait_for
from daemon_case import kill
from etcd_peer import skip_without_etcd
from group_heirs_test import CONNECTIONS, HEIR, VICTIM
from group_test import COUNT, NAME
from run_test import CLIENT, SERVER

LONG = bool(os.environ.get("SNF_LONG_TESTS"))


class Upgrades(heirs.Heirs):
    """The test, of both networks."""

    def start_upgrade(self, number, *words):
        return subprocess.Popen(
            net.in_network(self.network_of(number), net.PROGRAM, "up",
                           f"--name={NAME}.{number}", *self.ports_of(number),
                           "--upgrade", *self.flags_of(number, *words)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def upgrade(self, number, *words):
        old = self.pid(number)
        process = self.start_upgrade(number, *words)
        _, errors = process.communicate(timeout=2 * PATIENCE_S)
        self.assertEqual(process.returncode, OK, errors)
        self.assertNotEqual(self.pid(number), old)
        return old

    def check_upgrade(self, number):
        """No other member sees that, and all flows go along."""
        epoch = self.group(number)["epoch"]
        old = self.upgrade(number, "--log_level=debug")
        wait_for("end of the old process", lambda: not is_alive(old))
        group = self.group(number)
        self.assertEqual((group["state"], group["epoch"]), ("active", epoch))
        for name in ("unmoved", "unreturned", "had", "malformed"):
            self.assertEqual(self.states(number, name), 0, name)
        return self.states(number, "moved")

    def kernel_drops(self):
        return sum(int(port.get("kernel_drops", 0))
                   for number in range(COUNT)
                   for port in self.status(number).get("port", []))

    def begin_group(self):
        self.up_all()
        owners = self.owners()
        self.set_source(owners[VICTIM][0])
        return [hosts[0] for hosts in owners.values()]

    def await_copies(self):
        """The heir has copies of all connections of the victim."""
        def are_there():
            counts = self.group(VICTIM)["counts"]
            return (counts["states_connected"] and not counts["states_behind"]
                    and self.states(HEIR, "kept") >= CONNECTIONS)
        wait_for("copies", are_there)

    def lose_no_more(self, told, lost):
        """What came and did not leave is counted."""
        self.check_nobody_was_served_twice(told)
        missing = sum(one["sent"] - one["answered"] for one in told.values())
        print(f"note: {missing} datagrams lost, the longest time without an "
              f"answer was {max(one['gap'] for one in told.values())} s")
        self.assertLessEqual(missing, lost)

    def check_upgrades(self):
        one = self.begin_group()
        with self.soak("no"):
            with self.talking(one) as talk:
                self.all_answered(talk)
                talk.silent("begin")
                for _ in range(2):
                    self.assertGreaterEqual(self.check_upgrade(VICTIM),
                                            CONNECTIONS)
                    self.all_answered(talk)
                self.lose_no_more(talk.end(), self.kernel_drops())
            # Copies go along as well: the member is killed whose copies these
            # are, before it has sent them again.
            self.await_copies()
            self.upgrade(HEIR)
            self.kill_victim()
            wait_for("others", lambda: self.agree([0, HEIR]))
            wait_for("flows",
                     lambda: self.states(HEIR, "taken") >= CONNECTIONS)
            # And so do flows that go on for another member.
            self.assertGreaterEqual(self.check_upgrade(HEIR), CONNECTIONS)
            time.sleep(1)
        for number in (0, HEIR):
            done = self.snf(number, "down")
            self.assertEqual(done.returncode, OK, done.stderr)

    def await_tcp(self):
        """No connection waits to send again. TCP doubles that wait each time: if
        the next outage began before, a connection might meet outages only."""
        def goes_on():
            told = [subprocess.run(net.inside(end, "ss", "-Htni"), text=True,
                                   capture_output=True, check=True).stdout
                    for end in (CLIENT, SERVER)]
            return "cwnd:" in told[0] and "backoff:" not in "".join(told)
        wait_for("connections that go on", goes_on)

    def check_ends_amid(self, end_old):
        """One of both processes is killed amid the hand-over, at any time; then
        either of them has the place, or the heir has its hosts."""
        seed = int(os.environ.get("SNF_TEST_SEED", "") or random.getrandbits(32))
        print(f"note: SNF_TEST_SEED={seed}")
        chance = random.Random(seed)
        self.begin_group()
        outcomes = []
        with self.soak("no"):
            for _ in range(8):
                self.await_tcp()
                self.await_copies()
                old = self.pid(VICTIM)
                process = self.start_upgrade(VICTIM, "--foreground",
                                             "--log=/dev/null")
                time.sleep(chance.uniform(0.02, 0.4))
                if not end_old:
                    process.kill()
                elif is_alive(old):
                    kill(old)
                outcomes.append(self.go_on(old, process))
        print(f"note: {outcomes}")

    def go_on(self, old, process):
        """Starts the victim again if neither process has its place."""
        def settled():
            pid = self.pid(VICTIM)
            if pid == process.pid and process.poll() is None:
                return self.snf(VICTIM, "status").returncode == OK and ("new",)
            if process.poll() is None:
                return None
            return ("old",) if is_alive(old) else ("heir",)
        outcome, = wait_for("an outcome", settled)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        if outcome == "heir":
            wait_for("others", lambda: self.agree([0, HEIR]))
            self.up(VICTIM)
        self.await_all()
        return outcome


class SharedUpgrades(Upgrades, heirs.SharedHeirs):
    def test_connections_go_on_through_upgrades(self):
        self.check_upgrades()

    @unittest.skipUnless(LONG, "SNF_LONG_TESTS=1")
    def test_connections_go_on_if_the_new_process_is_killed(self):
        self.check_ends_amid(end_old=False)

    @unittest.skipUnless(LONG, "SNF_LONG_TESTS=1")
    def test_connections_go_on_if_the_old_process_is_killed(self):
        self.check_ends_amid(end_old=True)

    def test_who_is_of_another_group_is_refused(self):
        soon = "--takeover=1s"
        self.up(0, soon)
        self.await_all([0])
        old = self.pid(0)
        own = f'it is controller 0 of {COUNT} in group "edge"'
        for words, *flags in (
                (own, "--group=other"),
                ("this one is of 4 controllers, and the group has 3",
                 "--controller=0/4"),
                (": this one runs monitor", "--nf=monitor"),
                ("--upgrade: is not for --group with --own_units",
                 "--own_units=1", "--isolation=process", "--loggers=on"),
                ("--within: is not for --group", "--within=5s")):
            self.check_refused(0, words, "--upgrade", soon, *flags,
                               name=f"{NAME}.0")
        # Without a group there is no place to take.
        done = self.snf(0, "up", *self.ports_of(0), "--upgrade",
                        f"--controller=0/{COUNT}", self.chain)
        self.assertNotEqual(done.returncode, OK)
        self.assertIn(own, done.stderr)
        self.assertEqual(self.pid(0), old)
        self.assertEqual(self.group(0)["state"], "active")


class OwnPortsUpgrades(Upgrades, heirs.OwnPortsHeirs):
    @unittest.skipUnless(LONG, "SNF_LONG_TESTS=1")
    def test_connections_go_on_through_upgrades(self):
        self.check_upgrades()


if __name__ == "__main__":
    skip_without_etcd()
    net.main()

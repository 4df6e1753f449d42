#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several resource managers, which elect a leader in etcd, and two daemons: in
the network of manager_test.py, with a server of etcd beside it.

Wants root and etcd, and is skipped without.

Usage: managers_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import json
import os
import signal
import sys
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import manager_test as one
from command_case import OK, USAGE, is_alive, wait_for
from daemon_case import pid_of, remove_files_of
from etcd_peer import Etcd, skip_without_etcd
from manager_test import (DAEMONS, MIDDLE, NAME, SIDES, UNAVAILABLE,
                          UNITS, WHOLE, ip, snf)

MANAGERS = (f"{NAME}-x", f"{NAME}-y")


class Managers(one.Manager):
    def setUp(self):
        super().setUp()
        ip("-n", MIDDLE, "link", "set", "lo", "up")
        self.etcd = Etcd(one.in_network(MIDDLE))
        self.addCleanup(self.etcd.end)
        for name in MANAGERS:
            self.manager(name)
        self.leader = self.wait_for_leader()

    @staticmethod
    def end():
        for name in (*DAEMONS, *MANAGERS):
            try:
                os.kill(pid_of(name), signal.SIGCONT)
            except (OSError, ValueError):
                pass
            snf("down", name=name)
        remove_files_of(NAME)

    def manager(self, name, *words):
        self.snf("manager", f"--etcd={self.etcd.endpoint}", *UNITS, *words,
                 name=name)

    def up(self, side, *words, nf="firewall | monitor"):
        return self.snf("up", f"--manager={','.join(MANAGERS)}", "--port",
                        f"inside=lan{side}", "--port", f"outside=wan{side}",
                        f"--nf={nf}", *words, name=DAEMONS[side])

    def told_by(self, name):
        """What a manager says, whose sums are right; None if it is no leader."""
        done = snf("leases", "--json", name=name)
        if done.returncode != OK:
            return None
        told = json.loads(done.stdout)
        for unit in told["unit"]:
            promised = sum(lease["share"] for lease in unit["lease"])
            self.assertLessEqual(promised, WHOLE, told)
        return told

    def wait_for_leader(self, names=MANAGERS):
        return wait_for("leader", lambda: next(
            (name for name in names if self.told_by(name)), None))

    def look(self):
        return self.told_by(self.leader) or {"member": [], "unit": []}

    def is_taken_over(self, by):
        told = self.told_by(by)
        return told and not told["is_recovering"] and \
            sum(member["is_connected"] for member in told["member"]) == 2 and told

    def take_over(self, stop):
        """Stops the leader; returns what the other one says then."""
        old = self.leader
        new = MANAGERS[1 - MANAGERS.index(old)]
        before = self.look()
        pid = pid_of(old)
        began = time.monotonic()
        os.kill(pid, stop)
        after = wait_for("takeover", lambda: self.is_taken_over(new))
        print(f"{signal.Signals(stop).name}: taken over after "
              f"{time.monotonic() - began:.1f} s")
        self.leader = new
        self.assertGreater(after["manager_epoch"], before["manager_epoch"])
        self.assertEqual({m["name"]: m["controller"] for m in after["member"]},
                         {m["name"]: m["controller"] for m in before["member"]})
        return old, pid

    def test_another_manager_takes_over_from_a_killed_or_frozen_leader(self):
        for side in SIDES:
            self.up(side)
        with self.serving(0), self.serving(1), self.load(0, WHOLE):
            wait_for("a share", lambda: self.held(0) > WHOLE / 2)
            old, pid = self.take_over(signal.SIGKILL)
            wait_for("its end", lambda: not is_alive(pid))
            for side in SIDES:
                self.check_echoes(side)
            wait_for("leases that are known again", lambda: (
                self.held(0) > WHOLE / 2 and self.held(1) > 0))
            self.manager(old)
            old, pid = self.take_over(signal.SIGSTOP)
            wait_for("leases that are known again", lambda: (
                self.held(0) > WHOLE / 2 and self.held(1) > 0))
            epoch = self.look()["manager_epoch"]
            # It does nothing more as a leader, and waits.
            os.kill(pid, signal.SIGCONT)
            for _ in range(20):
                self.assertIsNone(self.told_by(old))
            self.assertEqual(self.look()["manager_epoch"], epoch)
            for side in SIDES:
                self.check_echoes(side)
            # Once more, to the one that was frozen.
            self.take_over(signal.SIGKILL)
            self.assertEqual(self.leader, old)
            self.assertEqual(self.look()["manager_epoch"], epoch + 1)
            for side in SIDES:
                self.check_echoes(side)

    def test_a_manager_that_does_not_lead_says_why(self):
        other = MANAGERS[1 - MANAGERS.index(self.leader)]
        pid = pid_of(other)
        waits = (f'"{other}" (process {pid}) is a resource manager that does '
                 f"not lead: the leader is {self.leader}, process ")
        self.refused(UNAVAILABLE, [waits], "leases", name=other)
        told = self.snf("status", name=other)
        self.assertIn("that does not lead: the leader is", told)
        self.etcd.kill()
        for name in MANAGERS:
            wait_for("its word of etcd", lambda n=name: "no endpoint of etcd "
                     "answers" in self.snf("status", name=n))
            self.refused(UNAVAILABLE, ["does not lead: no endpoint of etcd"],
                         "leases", name=name)
        self.etcd.start()
        self.leader = self.wait_for_leader()
        self.assertNotIn("does not lead", self.snf("status", name=self.leader))

    def test_daemons_that_die_with_the_leader_are_not_waited_for(self):
        for side in SIDES:
            self.up(side)
        wait_for("shares", lambda: all(self.all_held()))
        old, new = self.leader, MANAGERS[1 - MANAGERS.index(self.leader)]
        self.kill(DAEMONS[1])
        self.kill(old)
        self.leader = self.wait_for_leader([new])
        wait_for("the one that lives", lambda: [
            member["name"] for member in self.look()["member"]] == [DAEMONS[0]])
        self.up(1)
        wait_for("a share for a new one", lambda: self.held(1) > 0)

    def test_without_etcd_leases_stay_and_there_is_no_leader(self):
        self.up(0)
        wait_for("a share", lambda: self.held(0) > 0)
        self.etcd.kill()
        wait_for("no leader", lambda: not any(map(self.told_by, MANAGERS)))
        with self.serving(0):
            self.check_echoes(0)
            self.refused(UNAVAILABLE, ["resource manager"], "up",
                         f"--manager={','.join(MANAGERS)}", "--port",
                         "inside=lan1", "--port", "outside=wan1",
                         "--nf=firewall", name=DAEMONS[1])
            self.etcd.start()
            self.leader = self.wait_for_leader()
            wait_for("its share again", lambda: self.held(0) > 0)
            self.check_echoes(0)

    def test_a_leader_that_ends_makes_way_at_once(self):
        self.up(0)
        new = MANAGERS[1 - MANAGERS.index(self.leader)]
        began = time.monotonic()
        self.snf("down", name=self.leader)
        self.leader = self.wait_for_leader([new])
        print(f"down: another leader after {time.monotonic() - began:.1f} s")
        wait_for("its share", lambda: self.held(0) > 0)

    def test_wrong_words_are_refused(self):
        for words in (["--etcd=x"], [f"--etcd={self.etcd.endpoint}",
                                     "--etcd_user=u"]):
            self.refused(USAGE, ["--etcd"], "manager", *words,
                         name=f"{NAME}-z")
        self.refused(USAGE, ["--leader_term", "wants --etcd"], "manager",
                     "--leader_term=2s", name=f"{NAME}-z")
        self.refused(USAGE, ["name of its own"], "up",
                     f"--manager={MANAGERS[0]},{DAEMONS[0]}")


# The tests of one manager stay where they are.
for test in dir(one.Manager):
    if test.startswith("test_"):
        setattr(Managers, test, Managers.__dict__.get(test))


if __name__ == "__main__":
    skip_without_etcd()
    reason = one.net.why_skipped()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(one.net.SKIPPED)
    one.net.remove_remains()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

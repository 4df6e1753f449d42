#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hosts that LXD places and starts: `snf host image`, `launch` and `stop`.

    home: a member of LXD, etcd, snf up      away: a member of LXD

Makes a cluster of LXD of its own. Wants root, etcd and LXD, and is skipped
without, or without SNF_LONG_TESTS=1: whether LXD can run depends on the machine.

Usage: lxd_hosts_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import json
import os
import pathlib
import signal
import sys
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
sys.argv[1:3] = map(os.path.abspath, sys.argv[1:3])
os.chdir("/")  # a folder that containers have, too
from command_case import OK, PROGRAM, SOURCE, USAGE, wait_for
from etcd_hosts_test import EtcdHosts
from etcd_peer import Etcd, skip_without_etcd
from host_pair import AWAY, AWAY_ADDRESS, HOME, HOME_ADDRESS, HostPair
from needs import skip_unless_long, skip_without, skip_without_namespaces

sys.path.insert(0, str(SOURCE / "platform/commands/cluster"))
import lxd_member
from lxd_member import LxdMember
from machine import Failure

UNAVAILABLE = 69
A, B, FOREIGN = (f"{name}{os.getpid()}" for name in ("a", "b", "x"))
FIRST = "10.99.7.11/24"
NAME = f"lxd-hosts-{os.getpid()}"  # of a control group and a folder
FOLDER = pathlib.Path(f"/var/lib/{NAME}")


class Launched(EtcdHosts):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.members = []
        cls.addClassCleanup(cls.end_members)
        for name, space, address in (("one", HOME, HOME_ADDRESS),
                                     ("two", AWAY, AWAY_ADDRESS)):
            lxd_member.bridge_in(space, f"{address}/24")
            cls.members.append(LxdMember(name, space, address, FOLDER / name,
                                         NAME))
        try:
            for member in cls.members:
                member.start()
            for member in cls.members:
                wait_for("LXD", member.answers)
            one, two = cls.members
            one.begin()
            two.begin(one)
        except (Failure, AssertionError) as error:
            raise unittest.SkipTest(
                f"LXD cannot run on this machine: {error}") from error
        one.call("lxc", "profile", "create", "gold")
        one.call("lxc", "profile", "set", "gold", "limits.cpu=1",
                 "limits.memory=256MB")
        one.call("lxc", "cluster", "group", "create", "edge")
        one.call("lxc", "cluster", "group", "assign", "two", "default,edge")
        cls.lxd = one

    @classmethod
    def end_members(cls):
        for member in cls.members:
            member.end()
        lxd_member.remove_group(NAME)
        FOLDER.rmdir()

    def setUp(self):
        HostPair.setUp(self)
        self.inside = ["ip", "netns", "exec", HOME]
        self.etcd = Etcd(self.inside, HOME_ADDRESS)
        self.addCleanup(self.etcd.end)
        self.at = f"--etcd={self.etcd.endpoint}"
        self.ports()
        self.log = pathlib.Path(self.folder.name) / "log.txt"
        self.name = f"lxd-{os.getpid()}"
        self.addCleanup(self.home, PROGRAM, "host", "stop", "--all",
                        f"--lxd={self.lxd.socket}")

    def host(self, action, *words, code=OK):
        """What a command of hosts prints, and its errors."""
        where = [] if action == "list" else [f"--lxd={self.lxd.socket}"]
        done = self.home(PROGRAM, "host", action, *where, *words)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def launch(self, *words, code=OK, term="2s"):
        return self.host("launch", *words, self.at, f"--from={HOME_ADDRESS}",
                         "--units=2", f"--term={term}", code=code)

    def launched(self):
        """The member of each host."""
        return {host["name"]: host["member"] for host in json.loads(
            self.host("launched", "--json"))["host"]}

    def listed(self):
        """The hosts that etcd has."""
        told = json.loads(self.host("list", "--json", self.at))
        return [one["host"]["name"] for one in told.get("host", [])]

    def kill(self, name):
        """As a crash of all that runs on a host."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if words[1:4] == [b"host", b"run", name.encode()]:
                    os.kill(int(process.name), signal.SIGKILL)
                    return
        self.fail(f"host {name} does not run")

    def test_hosts_are_placed_carry_traffic_and_may_end_at_any_time(self):
        both = (A, B, f"--address={FIRST}")
        self.assertIn("image snf: LXD has none",
                      self.launch(*both, code=UNAVAILABLE))
        self.assertIn("image \"snf\" is SNF", self.host("image"))
        self.assertIn("is up to date", self.host("image"))
        # What LXD does not have is named, and nothing is made.
        for flag, words in (("--target=@far", "has no group"),
                            ("--target=three", "has no member"),
                            ("--profile=tin", "profile tin: LXD has none")):
            self.assertIn(words, self.launch(*both, flag, code=UNAVAILABLE))
        self.assertEqual(self.launched(), {})

        # An instance of somebody else stays as it is.
        self.lxd.call("lxc", "init", "snf", FOREIGN)
        before = self.lxd.instances()[FOREIGN]
        for action in (lambda: self.launch(FOREIGN, f"--address={FIRST}",
                                           code=UNAVAILABLE),
                       lambda: self.host("stop", FOREIGN, code=UNAVAILABLE)):
            self.assertIn("is none of SNF's", action())
        # An error of one host leaves the others their turn.
        told = self.host("stop", FOREIGN, A, FOREIGN, code=UNAVAILABLE)
        self.assertEqual(told.count("is none of SNF's"), 2)
        self.assertIn(f"host \"{A}\" does not run", told)
        self.assertIn("does not run", self.host("stop", A))
        self.assertEqual(self.lxd.instances()[FOREIGN], before)

        # Placed by a member's name, and by a group.
        self.launch(A, f"--address={FIRST}", "--target=one",
                    "--profile=default,gold")
        told = self.launch(B, "--address=10.99.7.12/24", "--target=@edge")
        self.assertIn("was launched on member two", told)
        self.assertEqual(self.launched(), {A: "one", B: "two"})
        self.assertEqual(self.listed(), [A, B])
        for one in self.lxd.instances().values():
            if one["name"] != FOREIGN:
                self.assertTrue(one["ephemeral"])
                self.assertEqual(one["config"]["boot.autostart"], "false")

        self.up("--own_units=1")
        wait_for("hosts", lambda: self.hosts() == {A: "joined", B: "joined"})
        with self.traffic():
            self.await_units({"": 1, A: 2, B: 1})
            self.kill(A)
            wait_for("others", lambda: A not in self.serving())
            # LXD removes the container, and starts nothing by itself.
            wait_for("removal", lambda: self.launched() == {B: "two"})
            wait_for("end of the lease", lambda: self.listed() == [B])
        # A second call starts what is missing.
        told = self.launch(A, f"--address={FIRST}", "--target=one")
        self.assertIn("was launched on member one", told)
        told = self.launch(A, f"--address={FIRST}", "--target=one")
        self.assertIn("runs already on member one", told)
        self.assertIn("runs with other profiles", self.launch(
            A, f"--address={FIRST}", "--profile=gold", code=UNAVAILABLE))
        with self.traffic():
            # B has kept the place that it took from A.
            self.await_units({"": 1, A: 1, B: 2})
            self.assertIn("has ended", self.host("stop", A))
            self.assertNotIn(A, self.serving())
        self.assertEqual(self.launched(), {B: "two"})
        self.assertIn("has ended", self.host("stop", "--all"))
        self.assertEqual(self.launched(), {})
        self.assertEqual(self.listed(), [])
        self.assertEqual(self.lxd.instances()[FOREIGN], before)

    def await_units(self, units):
        """Waits until units of these hosts take packets."""
        found = []

        def are_there():
            found.append(self.serving())
            return found[-1] == units
        try:
            wait_for("such units", are_there)
        except AssertionError as error:
            raise AssertionError(f"{units}: {found[-1]}; {self.said()}; " +
                                 self.home(PROGRAM, "status", f"--name={self.name}").stdout) from error

    def test_the_last_words_of_a_host_that_cannot_join_are_told(self):
        # No container reaches an etcd of loopback.
        etcd = Etcd(self.inside)
        self.addCleanup(etcd.end)
        self.at = f"--etcd={etcd.endpoint}"
        self.host("image")
        told = self.launch(A, f"--address={FIRST}", code=UNAVAILABLE)
        self.assertIn("snf host run: snf host join has ended", told)
        wait_for("removal", lambda: self.launched() == {})

    def test_the_end_of_the_term_is_awaited_after_a_crash(self):
        def created():
            told = json.loads(self.etcd.control(
                "get", "--write-out=json", f"/snf/default/hosts/{A}"))
            return [one["create_revision"] for one in told.get("kvs", [])]
        self.host("image")
        self.launch(A, f"--address={FIRST}", term="10s")
        self.kill(A)
        wait_for("removal", lambda: self.launched() == {})
        before = created()
        self.launch(A, f"--address={FIRST}", term="10s")
        self.assertEqual(len(created()), 1)
        self.assertNotEqual(created(), before)

    def test_wrong_flags_are_named(self):
        for words, told in (
                ([A], "--address: is missing"),
                ([A, "--address=10.0.0.1"], "10.0.0.1\" is no IPv4 address"),
                ([A, "--address=10.0.0.1/31"], "8 to 30 bits"),
                ([A, B, "--address=10.0.0.254/24"], "no 2 addresses"),
                ([A, A, f"--address={FIRST}"], "is there twice"),
                (["a_b", f"--address={FIRST}"], "no name of an instance"),
                ([A, B, "--count=2", f"--address={FIRST}"], "one NAME"),
                ([A, "--port=0", f"--address={FIRST}"], "--port"),
                ([A, "--etcd_user=x", f"--address={FIRST}"], "--etcd_user"),
                ([A, "--gateway=x", f"--address={FIRST}"], "x is no IPv4")):
            self.assertIn(told, self.launch(*words, code=USAGE))
        self.assertIn("--from: is missing", self.host(
            "launch", A, f"--address={FIRST}", self.at, code=USAGE))
        self.assertIn("--listen", self.home(
            PROGRAM, "host", "run", A, self.at, "--listen=10.0.0.1:0").stderr)
        self.assertIn("NAME or --all", self.host("stop", code=USAGE))
        self.assertIn("--all", self.host("stop", "--all", A, code=USAGE))
        done = self.home(PROGRAM, "host", "image", "--add=rules.txt")
        self.assertEqual(done.returncode, USAGE, done.stderr)
        self.assertIn("rules.txt", done.stderr)
        done = self.home(PROGRAM, "host", "launched", "--lxd=/nowhere/socket")
        self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
        self.assertIn("no LXD listens at /nowhere/socket", done.stderr)


if __name__ == "__main__":
    skip_without_namespaces()
    skip_without_etcd()
    skip_without(*lxd_member.NEEDED)
    skip_unless_long()
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

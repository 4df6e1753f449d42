#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./snf cluster up --lxd`, `status` and `down`: hosts as containers of LXD.

Wants root, network namespaces, etcd, Redis and LXD, and is skipped without, or
without SNF_LONG_TESTS=1: whether LXD can run depends on the machine.

Usage: lxd_cluster_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import glob
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest
import unittest.mock

sys.dont_write_bytecode = True  # nothing beside the sources
from cluster_case import (DIRECTORY, NAME, UNAVAILABLE, ClusterCase, cluster,
                          processes_of, remains)
from command_case import OK, PROGRAM, SOURCE, USAGE, wait_for
from needs import skip_unless_long, skip_without, skip_without_namespaces

sys.path.insert(0, str(SOURCE / "platform/commands/cluster"))
import lxd_cluster
from lxd_cluster import NAMES, LxdCluster
from machine import Failure

FOLDER = LxdCluster.folder_of(NAME)
# Folders where LXD and LXC keep what is theirs, on a machine that has them.
OTHERS = ("/run/lxc", "/run/lxd", "/run/lock/lxc", "/var/lib/lxd",
          "/var/lib/lxc", "/var/log/lxd", "/var/cache/lxd")
ALL_RUN = dict.fromkeys(NAMES, "joined")


def text_of(path):
    with contextlib.suppress(OSError):
        return path.read_bytes().decode(errors="replace")
    return ""


def traces():
    """What tells of this cluster anywhere on the machine: processes by what
    they were started with and their control groups, mounts in any namespace,
    folders; and what LXD and LXC keep."""
    found = set(remains())
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        for what in ("cmdline", "environ", "cgroup", "mountinfo"):
            if f"snf-cluster-{NAME}" in text_of(folder / what):
                found.add(f"{what} of {text_of(folder / 'comm')}")
    for pattern in (f"/sys/fs/cgroup/**/*{NAME}*", "/sys/fs/cgroup/*/lxc.*",
                    "/sys/fs/cgroup/lxc.*", f"/run/*{NAME}*",
                    f"/run/netns/*{NAME}*", f"/var/lib/*{NAME}*",
                    *(f"{top}/**" for top in OTHERS)):
        found |= set(glob.glob(pattern, recursive=True))
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True,
                           check=True).stdout
    return found | {line.split(":")[1] for line in links.splitlines()}


def kill(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Launches(unittest.TestCase):
    def test_a_launch_is_tried_again_while_a_member_is_not_back(self):
        words = ("LXD says: Missing event connection with target cluster member",
                 "LXD says: No suitable cluster member could be found",
                 "LXD says: no such network")
        with unittest.mock.patch.multiple(
                lxd_cluster, say=lambda text: None, HEARTBEAT_S=0,
                follow=unittest.mock.Mock(side_effect=[
                    *map(Failure, words), None])):
            cluster = LxdCluster("x", PROGRAM)
            for _ in range(2):
                self.assertFalse(cluster.has_launched("--lxd=x"))
            with self.assertRaisesRegex(Failure, "no such network"):
                cluster.has_launched("--lxd=x")
            self.assertTrue(cluster.has_launched("--lxd=x"))


class WithLxd(ClusterCase):
    made = LxdCluster(NAME, PROGRAM)

    def test_hosts_are_containers_which_crash_and_are_launched_again(self):
        before = traces()
        rules = self.file("rules.txt", b"drop nothing\n")
        done = self.up("--lxd", f"--add={rules}")
        for words in ("starts LXD of a, LXD of b, LXD of c\n",
                      "joins c to LXD's cluster",
                      'host "host-3" was launched on member '):
            self.assertIn(words, done.stderr)
        self.assertEqual(self.hosts(), ALL_RUN)
        self.assertEqual(self.get(), "of the server\n")
        # LXD has placed a host on each member.
        done = self.assert_whole()
        for member in "abc":
            self.assertIn(f" member {member} ", done.stdout)
        self.assertNotIn("launch", self.up().stderr)
        # Files of NFs are in the containers; one that comes later is refused.
        self.assertEqual(len(list(FOLDER.glob(
            f"*/lxd/storage-pools/default/containers/*/rootfs{rules}"))), 3)
        done = cluster("up", f"--add={rules}")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("--add: the hosts are here", done.stderr)

        kill(self.made.pids_of("host-2"))
        self.assertEqual(self.get(), "of the server\n")
        self.assert_lacks("host-2")
        done = self.up()
        self.assertIn('host "host-1" runs already', done.stderr)
        self.assertIn('host "host-2" was launched', done.stderr)
        wait_for("all hosts", lambda: self.hosts() == ALL_RUN)

        # LXD's daemon ends: hosts and packets go on.
        kill([self.made.members[-1].daemon()])
        self.assert_lacks("LXD of c")
        self.assertEqual(self.hosts(), ALL_RUN)
        self.assertEqual(self.get(), "of the server\n")
        done = self.up()
        self.assertIn("starts LXD of c\n", done.stderr)
        self.assertNotIn("was launched", done.stderr)
        self.assert_whole()

        # A member loses its power.
        kill(processes_of("b"))
        self.assertEqual(self.get(), "of the server\n")
        self.assert_lacks("etcd of b", "LXD of b")
        done = self.up()
        self.assertEqual(done.stderr.count("was launched"), 1, done.stderr)
        wait_for("all hosts", lambda: self.hosts() == ALL_RUN)
        self.assert_whole()
        self.assertEqual(self.get(), "of the server\n")
        for _ in range(2):
            self.down(before)

    def down(self, before):
        """Removes the cluster: nothing may be here that was not before, once
        the machine has noticed the end of all processes."""
        done = cluster("down")
        self.assertEqual(done.returncode, OK, done.stderr)
        left = []

        def is_as_before():
            left[:] = traces() - before
            return not left
        try:
            wait_for("end of all that was made", is_as_before)
        except AssertionError as error:
            raise AssertionError(f"left: {left}") from error

    def assert_whole(self):
        done = cluster("status")
        self.assertEqual(done.returncode, OK, done.stdout)
        self.assertNotIn("does not run", done.stdout)
        return done

    def assert_lacks(self, *names):
        """Waits until `status` tells that these do not run."""
        def are_told():
            done = cluster("status")
            self.assertIn(done.returncode, (OK, UNAVAILABLE), done.stderr)
            lacking = [line for line in done.stdout.splitlines()
                       if line.endswith("does not run")]
            return done.returncode == UNAVAILABLE and all(
                any(line.startswith(name) for line in lacking)
                for name in names)
        wait_for(f"word that {names} do not run", are_told)

    def test_what_a_crash_has_left_is_removed_and_made_again(self):
        before = traces()
        for what in ("starts LXD", "makes a cluster of LXD", "joins c to",
                     "launches hosts", '"host-2" was launched'):
            with self.subTest(what):
                self.crash(what, "--lxd")
                if what == "joins c to":
                    self.up("--lxd")
                    self.assertEqual(self.get(), "of the server\n")
                self.down(before)
        self.crash("joins b to", "--lxd")
        for what in ("ends all", "removes LXD's"):
            self.crash(what, action="down")
        self.down(before)

    def test_what_a_start_of_the_machine_has_left_is_removed(self):
        before = traces()
        self.crash("joins b to", "--lxd")
        for host in "abc":
            kill(processes_of(host))
        for host in ("switch", "a", "b", "c", "edge", "client", "server"):
            kill(processes_of(host))
            subprocess.run(["ip", "netns", "del", f"snf-{NAME}-{host}"],
                           check=True)
        shutil.rmtree(DIRECTORY)
        self.assertTrue(FOLDER.exists())
        self.down(before)

    def test_what_others_have_made_is_left_alone(self):
        FOLDER.mkdir()
        self.addCleanup(FOLDER.rmdir)
        done = cluster("up", "--lxd")
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn(f"{FOLDER} exists, and snf cluster did not", done.stderr)
        self.assertEqual(cluster("down").returncode, OK)
        self.assertEqual(remains(), [])
        self.assertTrue(FOLDER.exists())

    def test_what_the_machine_lacks_is_named(self):
        folder = pathlib.Path(self.folder.name)
        for program in ("ip", "redis-server", "etcd", "lxc", "newuidmap",
                        "nsenter"):
            (folder / program).symlink_to(shutil.which(program))
        done = cluster("up", "--lxd", env={"PATH": str(folder)})
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("Debian's package lxd; ./snf --yes cluster up --lxd",
                      done.stderr)
        # As unshare does where the kernel has none of that kind.
        (folder / "lxd").symlink_to(shutil.which("lxd"))
        other = folder / "unshare"
        other.write_text("#!/bin/sh\n[ $1 != --user ] || "
                         "{ echo unshare failed: Invalid argument >&2; "
                         "exit 1; }\n")
        other.chmod(0o700)
        done = cluster("up", "--lxd", env={"PATH": f"{folder}"})
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("kernel lacks namespaces of kind user (CONFIG_USER_NS): "
                      "unshare failed: Invalid argument\n", done.stderr)
        self.assertEqual(remains(), [])


if __name__ == "__main__":
    skip_without_namespaces()
    skip_without(*LxdCluster.NEEDED)
    skip_unless_long()
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

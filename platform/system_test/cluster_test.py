#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./snf cluster up`, `status` and `down`: a cluster on this machine.

Wants root, network namespaces, etcd and Redis, and is skipped without.

Usage: cluster_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from cluster_case import (NAME, UNAVAILABLE, ClusterCase, cluster,
                          processes_of, remains)
from command_case import OK, USAGE, wait_for


class Cluster(ClusterCase):
    def test_a_cluster_runs_outlives_a_host_and_is_removed(self):
        done = self.up()
        self.assertIn("ip netns exec", done.stdout)
        self.assertEqual(dict.fromkeys("abc", "joined"), self.hosts())
        self.assertEqual(self.get(), "of the server\n")
        done = cluster("status")
        self.assertEqual(done.returncode, OK, done.stdout)
        self.assertNotIn("does not run", done.stdout)
        # A second call finds nothing to do.
        self.assertNotIn("starts", self.up().stderr)
        for pid in processes_of("b"):
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(self.get(), "of the server\n")
        done = cluster("status")
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("etcd of b", done.stdout)
        self.assertEqual(done.stdout.count("does not run"), 3, done.stdout)
        done = self.up()
        self.assertIn("starts etcd of b\n", done.stderr)
        wait_for("host b", lambda: self.hosts() == dict.fromkeys(
            "abc", "joined"))
        self.assertEqual(self.get(), "of the server\n")
        for _ in range(2):
            self.assertEqual(cluster("down").returncode, OK)
            self.assertEqual(remains(), [])
        self.assertEqual(cluster("status").returncode, UNAVAILABLE)

    def test_what_a_crash_has_left_is_removed_and_made_again(self):
        for what in ("makes", "starts etcd", "starts agent", "starts the"):
            with self.subTest(what):
                self.crash(what)
                if what == "makes":
                    self.up()
                    self.assertEqual(self.get(), "of the server\n")
                self.assertEqual(cluster("down").returncode, OK)
                self.assertEqual(remains(), [])

    def test_names_that_are_taken_or_wrong_are_refused(self):
        done = cluster("--name=a/b", "up")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("--name=a/b", done.stderr)
        done = cluster("up", "--add=/etc/hosts")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("--add: goes with --lxd", done.stderr)
        taken = f"snf-{NAME}-b"
        subprocess.run(["ip", "netns", "add", taken], check=True)
        self.addCleanup(subprocess.run, ["ip", "netns", "del", taken],
                        check=False, capture_output=True)
        done = cluster("up")
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn(taken, done.stderr)
        self.assertEqual(cluster("down").returncode, OK)
        self.assertEqual(len(remains()), 1, "another's namespace stays")

    def test_a_program_that_is_missing_is_named_with_its_package(self):
        folder = pathlib.Path(self.folder.name)
        for program in ("ip", "redis-server"):
            (folder / program).symlink_to(shutil.which(program))
        done = cluster("up", env={"PATH": str(folder)})
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("Debian's package etcd-server", done.stderr)
        self.assertEqual(remains(), [])


if __name__ == "__main__":
    if os.geteuid() != 0 or subprocess.run(
            ["ip", "netns", "list"], capture_output=True,
            check=False).returncode != 0:
        print("skipped: needs root and network namespaces")
        sys.exit(4)
    for needed in ("etcd", "redis-server"):
        if shutil.which(needed) is None:
            print(f"skipped: needs {needed}")
            sys.exit(4)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

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
import unittest.mock

sys.dont_write_bytecode = True  # nothing beside the sources
from cluster_case import (NAME, SCRIPT, UNAVAILABLE, ClusterCase, cluster,
                          processes_of, remains)
from command_case import IO, OK, PROGRAM, SOURCE, USAGE, wait_for
from needs import skip_without, skip_without_namespaces

sys.path.insert(0, str(SOURCE / "platform/commands/cluster"))
import machine
from lxd_cluster import LxdCluster


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

    def test_ctrl_c_ends_up_with_a_word_and_down_removes_the_rest(self):
        with subprocess.Popen(
                [sys.executable, SCRIPT, "--program", PROGRAM,
                 f"--name={NAME}", "up"], stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL, text=True,
                start_new_session=True) as process:
            said = []
            for line in process.stderr:
                said.append(line)
                if "starts the daemon" in line:
                    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        said = "".join(said)
        self.assertEqual(process.returncode, 130, said)
        self.assertIn("left as it is; ./snf cluster down removes it", said)
        self.assertNotIn("Traceback", said)
        self.end_a_daemon_that_is_about_to_start()
        self.assertEqual(remains(), [])
        self.assertEqual(list(pathlib.Path("/run/snf").glob(f"{NAME}*")), [])

    def end_a_daemon_that_is_about_to_start(self):
        """It takes its files once `snf down` has found none, and is ended with
        its host."""
        lock = pathlib.Path(f"/run/snf/{NAME}.lock")
        folder = pathlib.Path(self.folder.name)
        program = folder / "snf"
        program.write_text(
            f"#!/bin/sh\n{PROGRAM} \"$@\"\n"
            f"mkdir {folder}/first 2>&- && install -m 600 /dev/null {lock}\n")
        program.chmod(0o755)
        done = subprocess.run(
            [sys.executable, SCRIPT, "--program", program, f"--name={NAME}",
             "down"], timeout=120, check=False)
        self.assertEqual(done.returncode, OK)
        self.assertTrue((folder / "first").exists())

    def test_a_reader_that_goes_away_gets_no_traceback(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [sys.executable, SCRIPT, "--program", PROGRAM, f"--name={NAME}",
             "status"], stdout=writer, stderr=subprocess.PIPE, text=True,
            timeout=60, check=False)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (IO, ""))

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


    def test_a_snap_of_lxd_is_refused_by_name(self):
        folder = pathlib.Path(self.folder.name)
        for program in LxdCluster.NEEDED:
            (folder / program).touch(0o755)
        # A snap's programs are links to snap's own.
        (folder / "snap").touch(0o755)
        for program in ("lxd", "lxc"):
            (folder / program).unlink()
            (folder / program).symlink_to("snap")
            done = cluster("up", "--lxd", env={"PATH": str(folder)})
            self.assertEqual(done.returncode, UNAVAILABLE)
            self.assertIn(f"{folder}/{program} is of a snap, whose files are "
                          "elsewhere; Debian's package lxd is wanted",
                          done.stderr)
            (folder / program).unlink()
            (folder / program).touch(0o755)
        self.assertEqual(remains(), [])

    def test_processes_are_not_gone_because_ip_fails(self):
        space = f"snf-{NAME}-pids"
        folder = pathlib.Path(self.folder.name)
        subprocess.run(["ip", "netns", "add", space], check=True)
        self.addCleanup(subprocess.run, ["ip", "netns", "del", space],
                        check=True)
        process = subprocess.Popen(["ip", "netns", "exec", space, "sleep", "99"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_for("process", lambda: machine.pids_in(space) == [process.pid])
        (folder / "ip").write_text(
            f"#!/bin/sh\n[ $2 != pids ] || rmdir {folder}/works || exit 1\n"
            f"exec {shutil.which('ip')} \"$@\"\n")
        (folder / "ip").chmod(0o755)
        with unittest.mock.patch.dict(
                os.environ, {"PATH": f"{folder}:{os.environ['PATH']}"}):
            with self.assertRaisesRegex(machine.Failure, "ip netns pids"):
                machine.pids_in(space)
            self.assertEqual(machine.pids_in(f"{space}-no"), [])
            # Fails at first, and then works.
            with unittest.mock.patch.object(
                    machine, "namespaces", lambda: (folder / "works").mkdir() or
                    {space}):
                self.assertEqual(machine.pids_in(space), [process.pid])


if __name__ == "__main__":
    skip_without_namespaces()
    skip_without("etcd", "redis-server")
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

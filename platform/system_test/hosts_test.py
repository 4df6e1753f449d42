#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The hosts of a cluster, which etcd keeps: join, leave, list, run.

Usage: hosts_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import (OK, PATIENCE_S, PROGRAM, USAGE, Command, below,
                          free_port, run, wait_for)
from etcd_peer import Etcd, skip_without_etcd

UNAVAILABLE = 69


class HostCase(Command):
    def setUp(self):
        super().setUp()
        self.etcd = Etcd()
        self.addCleanup(self.etcd.end)
        self.at = f"--etcd={self.etcd.endpoint}"
        self.processes = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
            process.stdout.close()

    def join(self, name, *words):
        process = subprocess.Popen(
            [PROGRAM, "host", "join", name, self.at, "--address=192.0.2.1",
             *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True)
        self.processes.append(process)
        wait_for(f"host {name}", lambda: name in self.hosts() or
                 process.poll() is not None)
        self.assertIsNone(process.poll())
        return process

    def hosts(self):
        done = run("host", "list", self.at, "--json")
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        told = json.loads(done.stdout)
        self.assertEqual(told["cluster"], "default")
        return {host["host"]["name"]: host for host in told["host"]}


class Hosts(HostCase):
    def test_hosts_join_are_listed_and_leave(self):
        first = self.join("a", "--units=4", "--unit_capacity=2Gbps")
        second = self.join("b")
        told = self.hosts()
        self.assertEqual(told["a"]["host"]["units"], 4)
        self.assertEqual(told["a"]["host"]["unit_capacity_bps"], 2_000_000_000)
        self.assertEqual(told["a"]["host"]["pid"], first.pid)
        self.assertEqual(told["a"]["term_s"], 10)
        text = run("host", "list", self.at).stdout.decode().splitlines()
        self.assertEqual(len(text), 3, text)
        for word in ("a ", "192.0.2.1", " 4 ", "2.00 Gbit/s", "s ago"):
            self.assertIn(word, text[1])
        # By a signal, and by another command.
        first.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(PATIENCE_S), OK)
        self.assertEqual(list(self.hosts()), ["b"])
        self.assertEqual(run("host", "leave", "b", self.at).returncode, OK)
        self.assertEqual(second.wait(PATIENCE_S), OK)
        self.assertIn("was removed", second.stdout.read())
        self.assertIn(b"has no hosts", run("host", "list", self.at).stdout)

    def test_a_host_of_the_same_name_or_another_version_is_refused(self):
        first = self.join("a")
        self.refused(UNAVAILABLE, ['"a" is there already', str(first.pid)],
                     "host", "join", "a", self.at, "--address=192.0.2.9")
        key = "/snf/default/hosts/a"
        value = self.etcd.control("get", key, "--print-value-only")
        first.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(PATIENCE_S), OK)
        host = json.loads(value)
        host["version"] = "0.0.9"
        lease = self.etcd.control("lease", "grant", "60").split()[1]
        self.assertIsNotNone(
            self.etcd.control("put", f"--lease={lease}", key, json.dumps(host)))
        self.refused(UNAVAILABLE, ['"b" has version', '"a"', "0.0.9"],
                     "host", "join", "b", self.at, "--address=192.0.2.1")
        self.assertEqual(run("host", "list", self.at).returncode, OK)

    def test_a_killed_or_frozen_host_vanishes_after_its_term(self):
        killed = self.join("killed", "--term=2s")
        frozen = self.join("frozen", "--term=2s")
        began = time.monotonic()
        killed.kill()
        frozen.send_signal(signal.SIGSTOP)
        wait_for("hosts gone", lambda: not self.hosts())
        print(f"hosts gone after {time.monotonic() - began:.1f} s")
        # Its name is another one's when it wakes up.
        self.join("frozen", "--term=60s")
        frozen.send_signal(signal.SIGCONT)
        self.assertEqual(frozen.wait(PATIENCE_S), UNAVAILABLE)
        self.assertIn('"frozen" is there already', frozen.stdout.read())

    def test_a_host_outlives_a_restart_of_etcd(self):
        host = self.join("a", "--term=2s")
        self.etcd.kill()
        time.sleep(3)
        self.etcd.start()
        wait_for("host again", lambda: "a" in self.hosts())
        host.send_signal(signal.SIGTERM)
        self.assertEqual(host.wait(PATIENCE_S), OK)

    def test_wrong_words_are_refused(self):
        for flags, words in (
                (["join", "a", "--address=x"], ["--etcd"]),
                (["join", "a", self.at], ["--address"]),
                (["join", "a/b", self.at, "--address=x"], ["a/b", "no name"]),
                (["join", "a", self.at, "--address=x y"], ["x y"]),
                (["join", "a", self.at, "--address=x", "--term=1s"],
                 ["--term"]),
                (["join", "a", self.at, "--address=x", "--units=0"],
                 ["--units"]),
                (["list", "--etcd=http://a:1"], ["--etcd", "http://a:1"]),
                (["list", self.at, "--cluster=a/b"], ["a/b"]),
                (["list", self.at, "--etcd_user=u"], ["--etcd_password_file"]),
                (["leave", "a b", self.at], ["a b"])):
            with self.subTest(flags):
                self.refused(USAGE, words, "host", *flags)
        self.refused(UNAVAILABLE, ['no host "x"'], "host", "leave", "x",
                     self.at)
        self.refused(74, ["no endpoint of etcd answers", "127.0.0.1:1"],
                     "host", "list", "--etcd=127.0.0.1:1")


class HostThatRuns(HostCase):
    """`snf host run`: the agent and the entry of a host."""

    def begin(self, port):
        process = subprocess.Popen(
            [PROGRAM, "host", "run", "a", self.at, "--term=4s",
             f"--listen=127.0.0.1:{port}"], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        self.processes.append(process)
        return process

    def run_host(self):
        port = free_port()
        process = self.begin(port)
        wait_for("host a", lambda: "a" in self.hosts() or
                 process.poll() is not None)
        self.assertIsNone(process.poll())
        host = self.hosts()["a"]["host"]
        self.assertEqual(host["address"], f"127.0.0.1:{port}")

        def connect():
            try:
                return socket.create_connection(("127.0.0.1", port))
            except OSError:
                return None  # the agent starts beside the entry
        return process, wait_for("the agent", connect)

    @staticmethod
    def child(process, action):
        for pid in below(process.pid):
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            if words.split(b"\0")[2:3] == [action]:
                return pid
        raise AssertionError(f"no {action} below {process.pid}")

    def test_the_agent_outlives_the_entry_while_units_run(self):
        process, connection = self.run_host()
        with connection:
            agent = self.child(process, b"serve")
            session = wait_for("a session", lambda: below(agent))[0]
            os.kill(session, signal.SIGSTOP)  # as units that are drained
            process.send_signal(signal.SIGTERM)
            wait_for("the entry's end", lambda: not self.hosts())
            # The agent waits for 15 s at most.
            with self.assertRaises(subprocess.TimeoutExpired):
                process.wait(1)
            self.assertIn(session, below(agent))
            os.kill(session, signal.SIGKILL)
            self.assertEqual(process.wait(PATIENCE_S), OK)

    def test_both_end_by_a_leave_or_with_one_of_them(self):
        process, connection = self.run_host()
        connection.close()
        self.assertEqual(run("host", "leave", "a", self.at).returncode, OK)
        self.assertEqual(process.wait(PATIENCE_S), OK)
        process, connection = self.run_host()
        connection.close()
        os.kill(self.child(process, b"serve"), signal.SIGKILL)
        self.assertNotEqual(process.wait(PATIENCE_S), OK)
        self.assertIn("snf host serve was ended by signal 9",
                      process.stdout.read())
        self.assertEqual(self.hosts(), {})
        with socket.create_server(("127.0.0.1", 0)) as taken:
            process = self.begin(taken.getsockname()[1])
            self.assertNotEqual(process.wait(PATIENCE_S), OK)
            self.assertIn("snf host serve has ended", process.stdout.read())
        self.assertEqual(self.hosts(), {})
        process = self.join("a")  # its name is another's now
        second = self.begin(free_port())
        self.assertNotEqual(second.wait(PATIENCE_S), OK)
        self.assertIn("snf host join has ended with exit code 69",
                      second.stdout.read())


if __name__ == "__main__":
    skip_without_etcd()
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

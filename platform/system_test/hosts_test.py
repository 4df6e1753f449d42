#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The hosts of a cluster, which etcd keeps: join, leave, list, run, launch.

Usage: hosts_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import http.server
import json
import os
import pathlib
import signal
import socket
import socketserver
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import (IO, OK, PATIENCE_S, PROGRAM, USAGE, Command, below,
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
            [PROGRAM, "host", "join", name, self.at, "--address=192.0.2.1:7000",
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
        for word in ("a ", "192.0.2.1:7000", " 4 ", "2.00 Gbit/s", "s ago"):
            self.assertIn(word, text[1])
        # By a signal, and by another command.
        first.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(PATIENCE_S), OK)
        self.assertEqual(list(self.hosts()), ["b"])
        self.assertEqual(run("host", "leave", "b", self.at).returncode, OK)
        self.assertEqual(second.wait(PATIENCE_S), OK)
        self.assertIn("was removed", second.stdout.read())
        self.assertIn(b"has no hosts", run("host", "list", self.at).stdout)

    def test_changes_of_the_list_are_followed(self):
        first = self.join("a")
        follower = subprocess.Popen(
            [PROGRAM, "host", "list", self.at, "--follow", "--json"],
            stdout=subprocess.PIPE, text=True)
        self.processes.append(follower)
        told = json.loads(follower.stdout.readline())["joined"]
        self.assertEqual((told["name"], told["units"]), ("a", 8))
        self.join("b")
        told = json.loads(follower.stdout.readline())["joined"]
        self.assertEqual((told["name"], told["address"]), ("b", "192.0.2.1:7000"))
        first.send_signal(signal.SIGTERM)
        told = json.loads(follower.stdout.readline())["left"]
        self.assertEqual(told["name"], "a")
        follower.send_signal(signal.SIGINT)
        self.assertEqual(follower.wait(PATIENCE_S), OK)
        text = subprocess.Popen(
            [PROGRAM, "host", "list", self.at, "--follow"],
            stdout=subprocess.PIPE, text=True)
        self.processes.append(text)
        self.assertEqual(text.stdout.readline(), 'host "b" has joined, at '
                         "192.0.2.1:7000, with 8 units of 1.00 Gbit/s\n")
        self.assertEqual(run("host", "leave", "b", self.at).returncode, OK)
        self.assertEqual(text.stdout.readline(), 'host "b" has left\n')
        text.send_signal(signal.SIGTERM)
        self.assertEqual(text.wait(PATIENCE_S), OK)

    def test_a_list_that_cannot_be_followed_ends_with_the_reason(self):
        self.refused(IO, ["127.0.0.1:1"], "host", "list",
                     "--etcd=127.0.0.1:1", "--follow")
        self.join("a")
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [PROGRAM, "host", "list", self.at, "--follow"], stdout=full,
                stderr=subprocess.PIPE, timeout=PATIENCE_S, check=False)
        self.assertNotEqual(done.returncode, OK)
        self.assertIn(b"stdout: No space left", done.stderr)

    def test_a_host_of_the_same_name_or_another_version_is_refused(self):
        first = self.join("a")
        self.refused(UNAVAILABLE, ['"a" is there already', str(first.pid)],
                     "host", "join", "a", self.at, "--address=192.0.2.9:7000")
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
                     "host", "join", "b", self.at, "--address=192.0.2.1:7000")
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

    def test_hosts_that_no_daemon_can_use_are_refused(self):
        for address in ("x", "x y", "192.0.2.1", "192.0.2.1:70000",
                        "192.0.2.1:0", "0.0.0.0:7000", "[::]:7000",
                        "host.example:7000"):
            for flags in (["join", "a", f"--address={address}"],
                          ["run", "a", f"--listen={address}"]):
                with self.subTest(flags):
                    self.refused(USAGE, [f"{flags[2].split('=')[0]}: ", address,
                                         "that others can send to"],
                                 "host", *flags, self.at)
        listen = "--listen=127.0.0.1:0"
        for address in ("10.9.0.400", "10.9.0.4/24", "ctrl.example", "0.0.0.0",
                        "10.9.0.4,", "10.9.0.4:7000"):
            for flags in (["serve", listen],
                          ["run", "a", "--listen=127.0.0.1:7000", self.at],
                          ["launch", "a", "--address=10.9.0.11/24", self.at]):
                with self.subTest(address=address, flags=flags):
                    self.refused(USAGE, ["--from: ", "no IP address"], "host",
                                 *flags, f"--from={address}")
        self.assertEqual(self.hosts(), {})

    def test_wrong_words_are_refused(self):
        address = "--address=192.0.2.1:7000"
        for flags, words in (
                (["join", "a", address], ["--etcd"]),
                (["join", "a", self.at], ["--address"]),
                (["join", "a/b", self.at, address], ["a/b", "no name"]),
                (["join", "a", self.at, address, "--term=1s"], ["--term"]),
                (["join", "a", self.at, address, "--units=0"], ["--units"]),
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

    def begin(self, port, *flags):
        process = subprocess.Popen(
            [PROGRAM, "host", "run", "a", self.at, "--term=4s",
             f"--listen=127.0.0.1:{port}", *flags], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True)
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

        # The agent listens before the host joins.
        return process, socket.create_connection(("127.0.0.1", port))

    @staticmethod
    def child(process, action):
        for pid in below(process.pid):
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            if words.split(b"\0")[2:3] == [action]:
                return pid
        raise AssertionError(f"no {action} below {process.pid}")

    def test_the_agent_outlives_the_entry_while_units_run(self):
        self.check_drain(lambda process: process.send_signal(signal.SIGTERM))

    def test_units_are_drained_after_ctrl_c_as_well(self):
        # A terminal sends it to its group of processes.
        self.check_drain(lambda process: os.killpg(process.pid, signal.SIGINT))

    def check_drain(self, end):
        process, connection = self.run_host()
        with connection:
            agent = self.child(process, b"serve")
            session = wait_for("a session", lambda: below(agent))[0]
            os.kill(session, signal.SIGSTOP)  # as units that are drained
            end(process)
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
        self.assertEqual(self.hosts(), {})

    def test_a_host_whose_agent_does_not_serve_never_joins(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            process = self.begin(taken.getsockname()[1])
            self.assertEqual(process.wait(PATIENCE_S), IO)
            told = process.stdout.read()
        self.assertIn("snf host serve has ended with exit code 74", told)
        self.assertNotIn("has joined", told)
        process = self.begin(free_port(), "--tls=/nowhere")
        self.assertEqual(process.wait(PATIENCE_S), UNAVAILABLE)
        told = process.stdout.read()
        self.assertIn("/nowhere", told)
        self.assertNotIn("has joined", told)

    def test_a_host_whose_name_is_taken_ends_with_the_code_of_join(self):
        self.join("a")
        second = self.begin(free_port())
        self.assertEqual(second.wait(PATIENCE_S), UNAVAILABLE)
        told = second.stdout.read()
        self.assertIn("snf host join has ended with exit code 69", told)
        self.assertLess(told.index("listens at"), told.index("is there"))


class Lxd(socketserver.ThreadingUnixStreamServer):
    """As much of LXD as `snf host launch` needs; start(name, command) begins a
    container's first process, which is returned."""
    daemon_threads = True

    def __init__(self, path, start):
        super().__init__(path, LxdRequest)
        self.start, self.created, self.processes = start, {}, {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def find(self, name):
        if name not in self.created:
            return None
        process = self.processes.get(name)
        if process is not None and process.poll() is not None:
            del self.created[name], self.processes[name]  # ephemeral
            return None
        return {**self.created[name], "location": "none",
                "status": "Running" if process else "Stopped"}

    def begin(self, name):
        lxc = self.created[name]["config"]["raw.lxc"]
        words = lxc.splitlines()[0].removeprefix("lxc.init.cmd = ").split()
        self.processes[name] = self.start(name, words)


class LxdRequest(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, metadata, **more):
        code = 404 if metadata is None else 200
        text = json.dumps({"type": "error" if code == 404 else "sync",
                           "error_code": code, "error": "not found",
                           "metadata": metadata, **more}).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def body(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def do_GET(self):
        kind, name = self.path.split("/")[2:4]
        if kind != "instances":
            self.answer({"target": "f00d", "status": "Success",
                         "properties": {"snf.version": "1"}})
        elif self.path.endswith("/console"):
            self.answer(None)
        else:
            self.answer(self.server.find(name))

    def do_POST(self):
        made = self.body()
        made["config"]["volatile.base_image"] = made["source"]["fingerprint"]
        self.server.created[made["name"]] = made
        self.answer({}, type="async", operation="/1.0/operations/1")

    def do_PUT(self):
        self.body()
        self.server.begin(self.path.split("/")[3])
        self.answer({}, type="async", operation="/1.0/operations/1")


class HostThatIsLaunched(HostCase):
    """`snf host launch`, with the test as LXD."""

    def begin(self, name, words):
        self.listed_before.append(name in self.hosts())
        self.assertEqual(words[1:4], ["host", "run", name])
        address = words[4].removeprefix("--listen=")
        process = subprocess.Popen(
            [PROGRAM, "host", "join", name, self.at, f"--address={address}"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.processes.append(process)
        return process

    def setUp(self):
        super().setUp()
        self.listed_before = []
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.socket = f"{folder.name}/socket"
        self.lxd = Lxd(self.socket, self.begin)
        self.addCleanup(self.lxd.server_close)
        self.addCleanup(self.lxd.shutdown)

    def launch(self, *names, address="10.99.7.11/24"):
        return run("host", "launch", *names, self.at, f"--lxd={self.socket}",
                   f"--address={address}", "--from=10.99.7.1")

    def test_waits_for_the_end_of_the_entry_of_a_host_that_crashed(self):
        crashed = self.join("a", "--term=4s")
        crashed.kill()
        done = self.launch("a", "b")
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        # etcd does not refuse the new hosts.
        self.assertEqual(self.listed_before, [False, False])
        self.assertEqual({name: host["host"]["address"]
                          for name, host in self.hosts().items()},
                         {"a": "10.99.7.11:7000", "b": "10.99.7.12:7000"})
        done = self.launch("a", "b")
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        self.assertIn("host \"b\" runs already", done.stdout.decode())

    def test_a_host_that_lives_elsewhere_keeps_its_name(self):
        self.join("a", "--term=2s")
        done = self.launch("a", "b")
        self.assertEqual(done.returncode, UNAVAILABLE, done.stderr.decode())
        self.assertIn("host \"a\" is listed, at 192.0.2.1:7000, and LXD does not "
                      "run it: snf host leave a removes it",
                      done.stderr.decode())
        self.assertEqual(self.lxd.created.keys(), {"b"})

    def test_addresses_are_those_of_hosts(self):
        for address, told in (("10.99.7.0/24", "the network's own address"),
                              ("10.99.7.128/25", "the network's own address"),
                              ("10.99.7.255/24", "no 1 addresses"),
                              ("10.99.7.254/24", "no 2 addresses")):
            done = self.launch("a", "b", address=address)
            self.assertEqual(done.returncode, USAGE, done.stderr.decode())
            self.assertIn(told, done.stderr.decode())
        self.assertEqual(self.lxd.created, {})


class HostImage(Command):
    """`snf host image --output`."""

    def image(self, name, added):
        return subprocess.run(
            [os.path.abspath(PROGRAM), "host", "image", f"--output={name}",
             f"--add={added}"], cwd=self.folder.name, capture_output=True,
            timeout=PATIENCE_S, check=False)

    def test_added_files_are_where_they_were(self):
        rules = self.file("rules.txt", b"rules")
        # GNU tar takes such a name for another host's file.
        done = self.image("nowhere:image.tar", rules)
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        image = os.path.join(self.folder.name, "nowhere:image.tar")
        with tarfile.open(image) as file:
            self.assertIn("rootfs/usr/bin/snf", file.getnames())
            self.assertEqual(file.extractfile(f"rootfs{rules}").read(),
                             b"rules")

    def test_no_path_leads_out_of_the_image(self):
        rules = self.file("rules.txt", b"rules")
        for added in (f"/tmp/../../../..{rules}", f"/tmp/..{rules}", "/..",
                      "rules.txt"):
            done = self.image("image.tar", added)
            self.assertEqual(done.returncode, USAGE, done.stderr.decode())
            self.assertIn(f"--add: {added}: an absolute path without ..",
                          done.stderr.decode())


if __name__ == "__main__":
    skip_without_etcd()
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

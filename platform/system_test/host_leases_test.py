#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two machines, each with a resource manager and a daemon, which lease the units
of two hosts that have joined.

    client0 eth0 ── lan [ machine 0: daemon, manager ] wan ── eth0 server0
    client1 eth0 ── lan [ machine 1: daemon, manager ] wan ── eth0 server1
                 bridge: etcd, machines 0 and 1, host (agents b and c)

Machines and hosts are network namespaces. Wants root and etcd, and is skipped
without.

Usage: host_leases_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import OK, PATIENCE_S, PROGRAM, USAGE, wait_for
from daemon_case import SENDER, remove_files_of
from etcd_peer import Etcd, skip_without_etcd

NAME = f"hl{os.getpid()}"
NETWORK = "10.99.9"
SIDES = range(2)
WHOLE = 1_024
CAPACITY_BPS = 4_000_000
UNITS = ("--units=6", f"--unit_capacity={CAPACITY_BPS // 1_000_000}Mbps")
MEMBER_TERM_S = 3
AGENTS = {"b": 7000, "c": 7001}
HOST, SERVER = f"{NETWORK}.21", "192.0.2.9"
ECHO = """
import socket, threading
def serve(peer):
    while data := peer.recv(4096):
        peer.sendall(data)
with socket.create_server(("192.0.2.9", 7)) as server:
    print("ready", flush=True)
    while True:
        threading.Thread(target=serve, args=(server.accept()[0],),
                         daemon=True).start()
"""
# One connection, on which words go to and fro until stdin ends: prints how many
# came back, once a second and at the end.
TALK = """
import select, socket, sys, time
with socket.create_connection(("192.0.2.9", 7), timeout=60) as talk:
    n, told = 0, 0.0
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        word = b"%016d" % n
        talk.sendall(word)
        back = b""
        while len(back) < len(word):
            back += talk.recv(len(word) - len(back))
        assert back == word, back
        n += 1
        if time.monotonic() > told + 0.1:
            told = time.monotonic()
            print(n, flush=True)
"""


def network(name):
    return f"snf-{name}-{NAME}"


CORE, HOSTS = network("core"), network("hosts")
MACHINES = [network(f"machine{i}") for i in SIDES]
CLIENTS = [network(f"client{i}") for i in SIDES]
SERVERS = [network(f"server{i}") for i in SIDES]
ALL = (CORE, HOSTS, *MACHINES, *CLIENTS, *SERVERS)


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True,
                          timeout=60)


def inside(namespace, *words):
    return ["ip", "netns", "exec", namespace, *map(str, words)]


def join(namespace, address):
    """Puts the namespace at the bridge."""
    port = namespace.split("-")[1]
    ip("-n", namespace, "link", "add", "eth0", "type", "veth", "peer", "name",
       port, "netns", CORE)
    ip("-n", CORE, "link", "set", port, "master", "bridge", "up")
    ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
    ip("-n", namespace, "link", "set", "eth0", "up")


def make_networks():
    for namespace in ALL:
        ip("netns", "add", namespace)
        ip("-n", namespace, "link", "set", "lo", "up")
    ip("-n", CORE, "link", "add", "bridge", "type", "bridge")
    ip("-n", CORE, "addr", "add", f"{NETWORK}.1/24", "dev", "bridge")
    ip("-n", CORE, "link", "set", "bridge", "up")
    join(HOSTS, HOST)
    for side in SIDES:
        join(MACHINES[side], address_of(side))
        for namespace, port, address in ((CLIENTS[side], "lan", "192.0.2.1"),
                                         (SERVERS[side], "wan", SERVER)):
            ip("-n", namespace, "link", "add", "eth0", "type", "veth", "peer",
               "name", port, "netns", MACHINES[side])
            ip("-n", MACHINES[side], "link", "set", port, "addrgenmode",
               "none", "up")
            ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", namespace, "link", "set", "eth0", "up")


def remove_networks():
    for namespace in ALL:
        pids = ip("netns", "pids", namespace, check=False).stdout.split()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        ip("netns", "del", namespace, check=False)


def address_of(side):
    return f"{NETWORK}.{11 + side}"


def manager_of(side):
    return f"{NAME}-m{side}"


def daemon_of(side):
    return f"{NAME}-d{side}"


class HostLeases(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(remove_files_of, NAME)
        self.addCleanup(remove_networks)
        make_networks()
        self.etcd = Etcd(inside(CORE), f"{NETWORK}.1")
        self.addCleanup(self.etcd.end)
        self.at = f"--etcd={self.etcd.endpoint}"
        self.tls = self.folder / "tls"
        done = subprocess.run(
            [PROGRAM, "cert", self.tls, "--role=admin",
             *(f"--host={address_of(side)}" for side in SIDES)],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, OK, done.stderr)

    # --- Commands. ---

    def snf(self, side, *words, code=OK):
        done = subprocess.run(inside(MACHINES[side], PROGRAM, *words),
                              capture_output=True, text=True,
                              timeout=2 * PATIENCE_S, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def manager(self, side, *words):
        self.snf(side, "manager", f"--name={manager_of(side)}", self.at,
                 "--hosts", f"--listen=tcp:{address_of(side)}:7100",
                 f"--tls={self.tls}", f"--member_term={MEMBER_TERM_S}s",
                 *UNITS, *words)

    def up_words(self, side):
        managers = ",".join(f"tcp:{address_of(s)}:7100" for s in SIDES)
        return ("up", f"--name={daemon_of(side)}", f"--manager={managers}",
                f"--manager_tls={self.tls}", self.at, "--port=inside=lan",
                "--port=outside=wan", "--nf=firewall | monitor",
                "--isolation=process", "--loggers=on")

    def up(self, side):
        self.snf(side, *self.up_words(side))

    def background(self, *words, **options):
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True,
                                   **options)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def host(self, name, units):
        """Starts a host, with its agent, which joins the cluster."""
        host = self.background(
            *inside(HOSTS, PROGRAM, "host", "run", name, self.at,
                    f"--listen={HOST}:{AGENTS[name]}", f"--units={units}",
                    "--from=" + ",".join(map(address_of, SIDES)), "--term=2s"),
            stderr=subprocess.STDOUT)
        wait_for("host", lambda: f'"{name}"' in
                 (self.etcd.control("get", "--prefix", "/snf/") or ""))
        return host

    def lose(self, namespace):
        """As a machine that loses its power."""
        ip("-n", namespace, "link", "set", "eth0", "down")
        for pid in ip("netns", "pids", namespace).stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    # --- What is there. ---

    def told(self):
        """What the leader says, whose sums are right; None without one."""
        for side in SIDES:
            done = subprocess.run(
                inside(MACHINES[side], PROGRAM, "leases", "--json",
                       f"--name={manager_of(side)}"),
                capture_output=True, text=True, timeout=60, check=False)
            if done.returncode != OK:
                continue
            told = json.loads(done.stdout)
            for unit in told["unit"]:
                promised = sum(lease["share"] for lease in unit["lease"])
                self.assertLessEqual(promised, WHOLE, told)
            return told | {"side": side}
        return None

    def held(self, side):
        told = self.told() or {"member": []}
        return sum(member["held"] for member in told["member"]
                   if member["name"] == daemon_of(side))

    def hosts_of(self, side):
        """The hosts whose units the daemon uses."""
        status = json.loads(self.snf(side, "status", "--json",
                                     f"--name={daemon_of(side)}"))
        return {unit.get("host", "") for unit in status["unit"]
                if unit.get("is_up")}

    @contextlib.contextmanager
    def load(self, side, units):
        process = subprocess.Popen(
            inside(CLIENTS[side], sys.executable, "-c", SENDER, SERVER,
                   CAPACITY_BPS * units))
        try:
            yield
        finally:
            process.kill()
            process.wait()

    @contextlib.contextmanager
    def talk(self, side):
        """A connection through a daemon; gives how many words came back."""
        echo = self.background(*inside(SERVERS[side], sys.executable, "-c",
                                       ECHO))
        self.assertEqual(echo.stdout.readline(), "ready\n")
        counts = self.folder / f"talk{side}"
        with counts.open("w") as file, subprocess.Popen(
                inside(CLIENTS[side], sys.executable, "-c", TALK),
                stdin=subprocess.PIPE, stdout=file, text=True) as talk:
            def said():
                self.assertIsNone(talk.poll(), "the connection has broken")
                lines = counts.read_text().split()
                return int(lines[-1]) if lines else 0
            wait_for("a connection", said)
            try:
                yield said
            finally:
                talk.stdin.close()
                talk.wait()
            self.assertEqual(talk.returncode, 0)
        echo.kill()

    def check_goes_on(self, said):
        before = said()
        wait_for("words", lambda: said() > before + 10)

    def start_all(self):
        for side in SIDES:
            self.manager(side)
        self.host("b", 2)
        for side in SIDES:
            self.up(side)

    # --- Tests. ---

    def test_the_other_machine_has_the_units_of_one_that_is_lost(self):
        self.start_all()
        lost = wait_for("leader", self.told)["side"]
        left = 1 - lost
        with self.talk(left) as said, self.load(lost, 1.2):
            wait_for("most for one", lambda: self.held(lost) > 1.1 * WHOLE)
            wait_for("a part for the other", lambda: self.held(left) > 100)
            self.assertEqual(self.hosts_of(lost), {"b"})
            # The machine of the leader, and of the daemon that has most.
            self.lose(MACHINES[lost])
            began = time.monotonic()
            told = wait_for("another leader", lambda: (
                told if (told := self.told()) and told["side"] == left else
                None))
            self.check_goes_on(said)
            with self.load(left, 1.6):
                wait_for("the units of the lost machine",
                         lambda: self.held(left) > 1.4 * WHOLE)
            print(f"the lost machine's units were leased again after "
                  f"{time.monotonic() - began:.1f} s")
            told = wait_for("leader", self.told)
            self.assertEqual([member["name"] for member in told["member"]],
                             [daemon_of(left)])
            self.assertGreater(told["manager_epoch"], 1)
            self.check_goes_on(said)
            # Another host joins, and the first one leaves.
            self.host("c", 2)
            wait_for("units on two hosts",
                     lambda: (self.told() or {}).get("units_placed") == 4)
            self.snf(left, "host", "leave", "b", self.at)
            wait_for("units on c alone", lambda: self.hosts_of(left) == {"c"})
            self.check_goes_on(said)

    def test_wrong_words_are_refused(self):
        self.assertIn("--hosts: wants --etcd", self.snf(
            0, "manager", "--hosts", f"--name={manager_of(0)}", code=USAGE))
        self.assertIn("at most 16", self.snf(
            0, "manager", "--hosts", self.at, "--units=17",
            f"--name={manager_of(0)}", code=USAGE))
        self.assertIn("--tls=DIRECTORY", self.snf(
            0, "manager", "--listen=tcp:127.0.0.1:7100",
            f"--name={manager_of(0)}", code=USAGE))
        up = self.up_words(0)
        self.assertIn("answers", self.snf(0, *up, code=69))
        without = [word for word in up if not word.startswith("--manager_tls")]
        self.assertIn("--manager_tls", self.snf(0, *without, code=USAGE))
        self.manager(0)
        wait_for("leader", self.told)
        # Certificates of another authority.
        other = self.folder / "other"
        done = subprocess.run(
            [PROGRAM, "cert", other, "--role=admin"],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, OK, done.stderr)
        wrong = [word for word in up if not word.startswith("--manager_tls")]
        self.assertIn(
            f"{address_of(0)}:7100: its certificate is not signed by the "
            "authority of --manager_tls",
            self.snf(0, *wrong, f"--manager_tls={other}", code=69))
        without = [word for word in up if not word.startswith("--etcd")]
        self.assertIn("add --etcd", self.snf(0, *without, code=69))
        for flag, words in (("--own_units=2", "all units"),
                            ("--host_wire=geneve", "--host_wire=geneve"),
                            ("--keep=5s", "--keep"),
                            ("--max_units=2", "--max_units")):
            self.assertIn(words, self.snf(0, *up, flag, code=USAGE))


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: wants root")
        sys.exit(4)
    skip_without_etcd()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

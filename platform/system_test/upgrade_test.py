#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf up --upgrade`: a daemon takes the place of another under traffic.

    client eth0 ── lan0 [ snf up, snf up --upgrade ] wan0 ── eth0 server

Wants root, and is skipped without.

Usage: upgrade_test.py PROGRAM SOURCE_DIR MODULE [TEST…]
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True  # nothing beside the sources
import chain_set_test as chains
import run_test as net
from chain_set_test import NAT
from command_case import OK, USAGE, wait_for
from control_test import FOLDER, NAME, UNAVAILABLE, processes, status
from kept_connection import snf
from run_test import CLIENT, PEER, PORTS, SERVER, SERVER4, peer

SHORT = ["--flow_timeout=3s", "--evict_after=2s"]
# A firewall has timeouts of its own.
FIREWALL = "firewall(tcp_timeout=3s,tcp_transitory_timeout=3s)"


class Upgrade(chains.ChainSet):
    ports = PORTS

    def up(self, *words):
        done = snf("up", *self.ports, f"--json={self.folder}/report.json",
                   *words)
        self.assertEqual(done.returncode, OK, done.stderr)

    def upgrade(self, *words):
        """The new process; all others of the program are older ones."""
        before = processes()
        done = snf("up", *self.ports, "--upgrade", *words)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(done.stderr, "")
        new, = processes() - before
        self.assertEqual(status()["pid"], new)
        return new

    @contextlib.contextmanager
    def traffic(self):
        """Connections that come and go, none of which may fail."""
        stop, wrong, rounds = threading.Event(), [], []

        def talk():
            while not stop.is_set() and not wrong:
                try:
                    lines = peer(CLIENT, "tcp", SERVER4, 20, 50_000)
                    (rounds if lines == ["20 right"] else wrong).append(lines)
                    # One datagram after the other, each of which is missed.
                    lines = peer(CLIENT, "udp", SERVER4, *range(1, 500))
                    if len(lines) != 499 or not all("right" in line
                                                    for line in lines):
                        wrong.append(lines)
                except AssertionError as error:
                    wrong.append(str(error))
        thread = threading.Thread(target=talk)
        thread.start()
        try:
            yield rounds
        finally:
            stop.set()
            thread.join()
        self.assertEqual(wrong, [])
        self.assertTrue(rounds)

    def start_peer(self, namespace, *words):
        process = subprocess.Popen(
            net.inside(namespace, sys.executable, PEER, *words),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return process

    def log(self):
        return (FOLDER / f"{NAME}.log").read_text()

    def more(self, rounds, *stay):
        """Connections that stay talk meanwhile: else their flows would end."""
        before = len(rounds)
        wait_for("connections",
                 lambda: all(one.says() == "right" for one in stay) and
                 len(rounds) > before + 1)

    def test_flows_stay_with_the_program_that_they_began_with(self):
        self.up("--nf=monitor", *SHORT)
        old, = processes()
        first = self.connection()
        with self.traffic() as rounds:
            self.more(rounds, first)
            new = self.upgrade(f"--nf={FIREWALL} | monitor", *SHORT,
                               f"--json={self.folder}/new.json")
            second = self.connection()
            for _ in range(5):
                self.assertEqual([first.says(), second.says()],
                                 ["right", "right"])
            self.more(rounds, first, second)
            self.assertEqual(processes(), {old, new})
            self.refused(UNAVAILABLE, ["the previous daemon still has flows"],
                         "up", *PORTS, "--upgrade")
            self.assertIn("  before    the process before the upgrade lives",
                          snf("status").stdout)
            self.assertGreater(status()["count"]["predecessor_flows"], 0)
            self.refused(UNAVAILABLE, ["no flow is selected", "host 192.0.2.77",
                                       "before the upgrade had "],
                         "flows", "--delete", "host 192.0.2.77")
            # The old one ends with its last flow, under traffic.
            first.close()
            wait_for("end of the old one",
                     lambda: second.says() == "right" and processes() == {new})
            self.more(rounds, second)
            self.assertNotIn("predecessor_flows", status()["count"])
        # And the new one gives its place to a third.
        third = self.upgrade("--nf=passthrough", *SHORT)
        self.assertEqual(second.says(), "right")
        self.assertEqual(peer(CLIENT, "tcp", SERVER4, 200, 1_000),
                         ["200 right"])
        second.close()
        wait_for("end of the second", lambda: processes() == {third})
        for name in ("report", "new"):
            report = json.loads((self.folder / f"{name}.json").read_text())
            self.assertEqual(report["violation_messages"], [])
            self.assertTrue(report["conserved"])
            for port in ("inside", "outside"):
                self.assertEqual(report["ports"][port]["kernel_drops"], 0)
        done = snf("down")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(list(FOLDER.glob(f"{NAME}*")), [])

    def test_no_datagram_is_lost_or_there_twice(self):
        self.check_datagrams()

    def test_none_is_that_comes_by_a_tap_interface(self):
        """The inside is one, at which a bridge has the client."""
        ip = net.ip
        ip("-n", net.MIDDLE, "tuntap", "add", "tap0", "mode", "tap")
        ip("-n", net.MIDDLE, "link", "set", "tap0", "txqueuelen", "16384")
        ip("-n", net.MIDDLE, "link", "add", "br0", "type", "bridge",
           "mcast_snooping", "0")
        for port in ("lan0", "tap0"):
            ip("-n", net.MIDDLE, "link", "set", port, "master", "br0")
        ip("-n", net.MIDDLE, "link", "set", "br0", "up")
        self.ports = ["--port", "inside=tap:tap0", "--port", "outside=wan0"]
        self.check_datagrams()

    def check_datagrams(self):
        self.up("--nf=monitor", *SHORT)
        receiver = self.start_peer(SERVER, "receive_numbers", SERVER4)
        self.assertEqual(receiver.stdout.readline(), "ready\n")
        # A bridge forwards once it has seen that a port is there.
        self.assertEqual(peer(CLIENT, "tcp", SERVER4, 1, 1), ["1 right"])
        sender = self.start_peer(CLIENT, "send_numbers", SERVER4)
        for _ in range(2):
            time.sleep(0.5)
            new = self.upgrade("--nf=monitor", *SHORT)
            wait_for("end of the old one", lambda: processes() == {new})
        time.sleep(0.5)
        sent, _ = sender.communicate(timeout=60)
        said, _ = receiver.communicate(input=sent, timeout=60)
        came = json.loads(said)
        self.assertGreater(came["sent"], 2_000)
        self.assertEqual((came["missing"], came["repeated"]), (0, 0), came)
        self.down()

    def test_a_nat_keeps_its_connections_and_gives_no_port_twice(self):
        self.assertEqual(peer(net.MIDDLE, "gro", "lan0", 1), ["1"])
        # So few ports that one would be given twice if both had all.
        nat = NAT.replace(")", ",ports=2048-2559)")
        self.up(f"--nf={nat}")
        old = [self.connection() for _ in range(6)]
        new = self.upgrade(f"--nf=firewall | {nat}")
        second = self.connection()
        self.assertEqual(peer(CLIENT, "tcp", SERVER4, 300, 1_000),
                         ["300 right"])
        for connection in (*old, second):
            self.assertEqual(connection.says(), "right")
        self.assertEqual(len(processes()), 2)
        self.assertEqual(peer(net.MIDDLE, "gro", "lan0"), ["0"])
        done = snf("down")
        self.assertEqual(done.returncode, OK, done.stderr)
        wait_for("end", lambda: not processes())
        self.assertEqual(peer(net.MIDDLE, "gro", "lan0"), ["1"])
        report = json.loads((self.folder / "report.json").read_text())
        self.assertEqual(report["violation_messages"], [])
        self.assertNotIn(new, processes())

    def test_flows_may_be_given_up_and_either_may_be_killed(self):
        self.up(*SHORT)
        old, = processes()
        connection = self.connection()
        # The new one is killed: the old one goes on, and can be asked.
        new = self.upgrade(*SHORT)
        self.assertEqual(connection.says(), "right")
        os.kill(new, signal.SIGKILL)
        wait_for("return of the old one",
                 lambda: snf("status").returncode == OK)
        self.assertEqual(status()["pid"], old)
        self.assertEqual(connection.says(), "right")
        self.assertEqual(self.connection().says(), "right")
        # The old one is killed: the new one goes on.
        new = self.upgrade(*SHORT)
        os.kill(old, signal.SIGKILL)
        wait_for("end", lambda: processes() == {new})
        self.assertEqual(self.connection().says(), "right")
        self.assertEqual(connection.says(), "right")
        # Flows that are given up begin anew, which a passthrough lets pass.
        third = self.upgrade(*SHORT, "--within=0s")
        wait_for("end of the one before", lambda: processes() == {third})
        self.assertEqual(connection.says(), "right")
        # Down, while one before still has flows, ends both.
        self.upgrade(*SHORT)
        done = snf("down")
        self.assertEqual(done.returncode, OK, done.stderr)
        wait_for("end", lambda: not processes())
        self.assertEqual([path for path in FOLDER.glob(f"{NAME}*")
                          if path.suffix != ".log"], [])

    def test_what_cannot_be_is_refused_and_the_old_one_goes_on(self):
        self.refused(UNAVAILABLE, ["no daemon"], "up", *PORTS, "--upgrade")
        self.up()
        old, = processes()
        connection = self.connection()
        for code, words, *command in (
                (UNAVAILABLE, ["its ports are others"], "--port", "outside=wan0",
                 "--port", "inside=lan0", "--upgrade"),
                (UNAVAILABLE, ["xdp:lan0", "only packet sockets"], "--port",
                 "inside=xdp:lan0", "--port", "outside=wan0", "--upgrade"),
                (USAGE, ["--within"], *PORTS, "--within=1s"),
                (USAGE, ["no_such_nf"], *PORTS, "--upgrade",
                 "--nf=no_such_nf")):
            self.refused(code, words, "up", *command)
            self.assertEqual(connection.says(), "right")
        self.assertEqual(status()["pid"], old)
        self.assertEqual(processes(), {old})
        self.down()


# What chain_set_test.py tests itself.
for name in [name for name in dir(chains.ChainSet) if name.startswith("test_")]:
    if name not in vars(Upgrade):
        setattr(Upgrade, name, None)


if __name__ == "__main__":
    net.main("Upgrade", own=3)

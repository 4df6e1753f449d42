#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf run --nf=gwlb` in front of appliances, which are `snf run` as well.

    client eth0 ── lan0 [ gwlb ] wan0 ── switch ── eth0 server       .9
    10.1.0.9          .1       192.0.2.1   ├────── eth0 [ monitor ]  .11
    fd01::9                                └────── eth0 [ monitor ]  .12

The balancer has the address 192.0.2.5. Wants root, and is skipped without.

Usage: gwlb_balancer_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import control_test as control
import run_test as net
from command_case import OK, PATIENCE_S, wait_for
from control_test import FOLDER, NAME, snf
from gwlb_test import in_namespace
from live_kills_test import LOGGERS, PROCESSES, UNITS, Killer
from run_test import CLIENT, MIDDLE, PROGRAM, SERVER, in_network, inside, ip, peer

SWITCH, ONE, TWO = (f"snf-{name}-{os.getpid()}"
                    for name in ("switch", "one", "two"))
CLIENT4, SERVER4, BALANCER = "10.1.0.9", "192.0.2.9", "192.0.2.5"
CLIENT6, SERVER6 = "fd01::9", "fd02::9"
# The switch as a router, and the balancer's address between it and the client.
ROUTER4, BETWEEN = "10.1.0.254", "10.1.0.5"
LAN4, WAN4, LAN6, WAN6 = "10.1.0.1", "192.0.2.1", "fd01::1", "fd02::1"
APPLIANCES = {ONE: "192.0.2.11", TWO: "192.0.2.12"}
PORTS = ["--port", f"inside=lan0,address={LAN4}/24,address={LAN6}/64",
         "--port", f"outside=wan0,address={WAN4}/24,address={WAN6}/64,"
         f"proxy={BALANCER}"]
# 1,500 bytes and the headers in front of them.
OUTER_MTU = 1_568
HEALTH_PORT, ECHO_PORT = 8080, 7
CHECKS = f"check=http,check_port={HEALTH_PORT},check_interval=200ms,fall=2"
GENEVE_PORT = 6081
FIRST_PORT, CONNECTIONS = 40_000, 16


def balancer(*more, among=(ONE, TWO), address=BALANCER):
    appliances = "+".join(APPLIANCES[one] for one in among)
    return (f"gwlb(address={address},appliances={appliances},"
            f"mtu={OUTER_MTU}" + "".join(f",{one}" for one in more) + ")")


def remove_all():
    net.remove_network()
    for namespace in (SWITCH, ONE, TWO):
        subprocess.run(["ip", "netns", "del", namespace], capture_output=True,
                       check=False)


def link(namespace, name, other, other_name, mtu):
    ip("-n", namespace, "link", "add", name, "mtu", str(mtu), "type", "veth",
       "peer", "name", other_name, "mtu", str(mtu), "netns", other)
    for where, one in ((namespace, name), (other, other_name)):
        ip("-n", where, "link", "set", one, "addrgenmode", "none", "up")


def make_network():
    for namespace in (CLIENT, MIDDLE, SERVER, SWITCH, ONE, TWO):
        ip("netns", "add", namespace)
        ip("-n", namespace, "link", "set", "lo", "up")
    link(CLIENT, "eth0", MIDDLE, "lan0", 1_500)
    ip("-n", SWITCH, "link", "add", "br0", "mtu", str(OUTER_MTU), "type",
       "bridge")
    ip("-n", SWITCH, "link", "set", "br0", "up")
    for number, (namespace, name) in enumerate(
            ((MIDDLE, "wan0"), (SERVER, "eth0"), (ONE, "eth0"), (TWO, "eth0"))):
        link(namespace, name, SWITCH, f"port{number}", OUTER_MTU)
        ip("-n", SWITCH, "link", "set", f"port{number}", "master", "br0")
    ip("-n", SERVER, "link", "set", "eth0", "mtu", "1500")
    for namespace, v4, v6, gateway4, gateway6 in (
            (CLIENT, CLIENT4, CLIENT6, LAN4, LAN6),
            (SERVER, SERVER4, SERVER6, WAN4, WAN6)):
        ip("-n", namespace, "addr", "add", f"{v4}/24", "dev", "eth0")
        ip("-n", namespace, "addr", "add", f"{v6}/64", "dev", "eth0", "nodad")
        ip("-n", namespace, "route", "add", "default", "via", gateway4)
        ip("-n", namespace, "-6", "route", "add", "default", "via", gateway6)
    for namespace, address in APPLIANCES.items():
        ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")


class Appliance:
    """An SNF behind the balancer, and a capture of what it got."""

    def __init__(self, namespace, folder):
        self.namespace, self.folder = namespace, folder
        self.json = folder / f"{namespace}.json"
        self.said = folder / f"{namespace}.stderr"
        self.process = None
        self.card = in_namespace(namespace, self.hear)

    @staticmethod
    def hear():
        card = socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                             socket.htons(0x0800))
        card.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
        card.bind(("eth0", 0x0800))
        card.setblocking(False)
        return card

    def start(self):
        with open(self.said, "w") as file:
            self.process = subprocess.Popen(
                in_network(self.namespace, PROGRAM, "run", "--port",
                           f"both=gwlb:eth0,health={HEALTH_PORT}",
                           "--nf=monitor", "--json", self.json),
                stdout=subprocess.DEVNULL, stderr=file)
        wait_for("an appliance", lambda: self.process.poll() is not None or
                 "Running" in self.said.read_text())
        if self.process.poll() is not None:
            raise AssertionError(self.said.read_text())

    def stop(self):
        """Its report."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE_S)
        return json.loads(self.json.read_text())

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def close(self):
        self.kill()
        self.card.close()

    def got(self):
        """Of each flow that came since the last call: its directions, and its
        cookies. A flow is named by its ends."""
        flows = {}
        while True:
            try:
                frame, address = self.card.recvfrom(65_535)
            except BlockingIOError:
                return flows
            outer = frame[14:]
            if address[2] == socket.PACKET_OUTGOING or outer[9] != 17 \
                    or outer[22:24] != struct.pack(">H", GENEVE_PORT):
                continue
            geneve = outer[28:]
            cookie = geneve[36:40]
            inner = geneve[40:]
            if inner[0] >> 4 == 4:
                ends, at = (inner[12:16], inner[16:20]), 20
            else:
                ends, at = (inner[8:24], inner[24:40]), 40
            ends = (ends[0] + inner[at:at + 2], ends[1] + inner[at + 2:at + 4])
            of_flow = flows.setdefault(tuple(sorted(ends)), (set(), set()))
            of_flow[0].add(ends)
            of_flow[1].add(cookie)


class Connections:
    """Connections of the client, by ports that a test names."""

    def __init__(self, first=FIRST_PORT, count=CONNECTIONS):
        self.all = in_namespace(CLIENT, lambda: [
            self.connect(first + i) for i in range(count)])

    @staticmethod
    def connect(port):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        connection.settimeout(PATIENCE_S)
        connection.bind((CLIENT4, port))
        connection.connect((SERVER4, ECHO_PORT))
        return connection

    @staticmethod
    def echoes(connection, patience=PATIENCE_S):
        """True, or why not."""
        data = os.urandom(32)
        connection.settimeout(patience)
        try:
            connection.sendall(struct.pack(">I", len(data)) + data)
            received = b""
            while len(received) < len(data):
                part = connection.recv(len(data) - len(received))
                if not part:
                    return "closed"
                received += part
            return received == data
        except ConnectionResetError:
            return "reset"
        except TimeoutError:
            return "silent"

    def close(self):
        for connection in self.all:
            connection.close()


class GwlbBalancer(net.Run):
    # Tests of its own only.
    locals().update({name: None for name in dir(net.Run)
                     if name.startswith("test_")})

    def setUp(self):
        super().setUp()
        remove_all()
        self.addCleanup(remove_all)
        make_network()
        self.appliances = {}
        for namespace in APPLIANCES:
            self.appliances[namespace] = Appliance(namespace, self.folder)
            self.addCleanup(self.appliances[namespace].close)
            self.appliances[namespace].start()

    def connections(self, *where):
        connections = Connections(*where)
        self.addCleanup(connections.close)
        return connections

    def run_balancer(self, *more):
        return self.running(f"--nf={balancer(*more)}", ports=PORTS)

    def nf_count(self, name):
        return self.report["counters"].get(name, 0)

    def by_appliance(self, connections, expected=(ONE, TWO)):
        """The namespace whose appliance each of the connections goes through."""
        through = self.where(connections)
        self.assertEqual(set(through), set(expected))
        return through

    def where(self, connections):
        for one in self.appliances.values():
            one.got()
        for connection in connections.all:
            self.assertIs(Connections.echoes(connection), True)
        got = {namespace: {end for ends in one.got() for end in ends}
               for namespace, one in self.appliances.items()}
        through = []
        for connection in connections.all:
            address, port = connection.getsockname()
            end = socket.inet_aton(address) + struct.pack(">H", port)
            where = [one for one, ends in got.items() if end in ends]
            self.assertEqual(len(where), 1, (port, where))
            through.append(where[0])
        return through

    def is_spared(self, namespace, connections):
        """An appliance gets nothing while the connections talk."""
        self.appliances[namespace].got()
        for connection in connections.all:
            self.assertIs(Connections.echoes(connection), True)
        return not self.appliances[namespace].got()

    def await_down(self, namespace):
        """New connections go through the others, so that all are answered."""
        end = time.monotonic() + PATIENCE_S
        for first in range(50_000, 60_000, CONNECTIONS):
            if time.monotonic() > end:
                break
            new = in_namespace(CLIENT, lambda: self.try_connect(first))
            if all(new):
                return
        self.fail(f"{namespace} is not down")

    @staticmethod
    def try_connect(first):
        done = []
        for port in range(first, first + CONNECTIONS):
            with socket.socket() as one:
                one.settimeout(0.5)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind((CLIENT4, port))
                done.append(one.connect_ex((SERVER4, ECHO_PORT)) == 0)
        return done

    def check_file(self, address, size=1_000_000):
        data = random.Random(size).randbytes(size)
        (self.folder / "file.bin").write_bytes(data)
        self.assertEqual(peer(CLIENT, "get", address, "file.bin"),
                         [hashlib.sha256(data).hexdigest()])

    def test_brings_each_flow_through_one_appliance_both_ways(self):
        with self.server(SERVER4), self.server(SERVER6), self.run_balancer():
            connections = self.connections()
            for connection in connections.all:
                self.assertIs(Connections.echoes(connection), True)
            for _ in range(4):
                self.check_file(SERVER4)
                self.check_file(SERVER6)
            got = {namespace: one.got()
                   for namespace, one in self.appliances.items()}
            # Also in fragments.
            self.check_udp(CLIENT, SERVER4, [0, 1, 1_472, 4_000])
            self.check_udp(CLIENT, SERVER6, [0, 1, 1_452, 4_000])
            self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 3)), 3)
            self.assertEqual(len(peer(SERVER, "ping", CLIENT4, 3)), 3)
        self.assertEqual(got[ONE].keys() & got[TWO].keys(), set())
        self.assertGreaterEqual(len(got[ONE]) + len(got[TWO]), CONNECTIONS + 8)
        for flows in got.values():
            self.assertGreater(len(flows), 1)
            for directions, cookies in flows.values():
                self.assertEqual((len(directions), len(cookies)), (2, 1))
        reports = [one.stop() for one in self.appliances.values()]
        received = sum(one["ports"]["both"]["received"] for one in reports)
        self.assertEqual(self.nf_count("to_appliances"), received)
        self.assertEqual(self.nf_count("returned"),
                         sum(one["ports"]["both"]["sent"] for one in reports))
        self.assertEqual(self.nf_count("returned"), received)
        for one in reports:
            self.assertEqual(one["ports"]["both"]["refused"], 0)
        self.assertEqual(self.report["ports"]["unrouted"], 0)

    def route_at_the_switch(self):
        """The client's network reaches as far as the switch, which routes."""
        ip("-n", SWITCH, "link", "set", "port0", "nomaster")
        ip("-n", SWITCH, "addr", "add", f"{ROUTER4}/24", "dev", "port0")
        ip("-n", SWITCH, "addr", "add", f"{WAN4}/24", "dev", "br0")
        ip("-n", SWITCH, "neigh", "add", BETWEEN, "lladdr",
           net.address_of_card(CLIENT), "dev", "port0", "nud", "permanent")
        subprocess.run(inside(SWITCH, "sysctl", "-q", "net.ipv4.ip_forward=1"),
                       check=True, timeout=PATIENCE_S)
        ip("-n", CLIENT, "route", "replace", "default", "via", ROUTER4)
        for namespace in APPLIANCES:
            ip("-n", namespace, "route", "add", "default", "via", WAN4)

    def test_stands_between_routers_without_an_address_of_its_own(self):
        self.route_at_the_switch()
        with self.server(SERVER4), self.running(
                f"--nf={balancer(CHECKS, address=BETWEEN)}", ports=net.PORTS):
            connections = self.connections()
            self.by_appliance(connections)
            self.check_file(SERVER4)
            self.assertEqual(len(peer(SERVER, "ping", CLIENT4, 3)), 3)
            self.appliances[TWO].kill()
            self.await_down(TWO)
        self.assertEqual(self.report["ports"]["unrouted"], 0)
        self.assertGreater(self.nf_count("checks_passed"), 0)

    def test_flows_of_a_killed_appliance_go_to_another_if_told_so(self):
        with self.server(SERVER4), self.run_balancer(CHECKS,
                                                  "on_unhealthy=rebalance"):
            connections = self.connections()
            through = self.by_appliance(connections)
            self.appliances[TWO].kill()
            for connection in connections.all:
                self.assertIs(Connections.echoes(connection), True)
            # Back again, it gets new flows.
            self.appliances[TWO].start()
            self.appliances[TWO].got()
            wait_for("new flows", self.gets_new_flows(60_000))
        # More, if the machine lets ONE miss two checks.
        self.assertGreaterEqual(self.nf_count("rebalanced"),
                                through.count(TWO))
        # Checks beside packets of the client leave by the outside, too.
        self.assertEqual(self.report["ports"]["unrouted"], 0)

    def gets_new_flows(self, first):
        ports = iter(range(first, 65_000, CONNECTIONS))

        def gets():
            in_namespace(CLIENT, lambda: self.try_connect(next(ports)))
            return self.appliances[TWO].got()
        return gets

    def test_flows_of_a_killed_appliance_wait_for_it_by_default(self):
        with self.server(SERVER4), self.run_balancer(CHECKS):
            connections = self.connections()
            through = self.by_appliance(connections)
            self.appliances[TWO].kill()
            self.await_down(TWO)
            for connection, namespace in zip(connections.all, through):
                echoes = Connections.echoes(
                    connection, PATIENCE_S if namespace == ONE else 0.2)
                self.assertEqual(echoes, True if namespace == ONE else "silent")
            self.appliances[TWO].start()
            # The first echo is the one that was late.
            for connection, namespace in zip(connections.all, through):
                if namespace == TWO:
                    connection.settimeout(PATIENCE_S)
                    self.assertEqual(len(connection.recv(32)), 32)
                self.assertIs(Connections.echoes(connection), True)
        self.assertEqual(self.nf_count("rebalanced"), 0)

    def test_connections_of_a_killed_appliance_are_reset_if_told_so(self):
        with self.server(SERVER4), self.run_balancer(CHECKS,
                                                  "reset_on_unhealthy=true"):
            connections = self.connections()
            through = self.by_appliance(connections)
            self.appliances[TWO].kill()
            self.await_down(TWO)
            for connection, namespace in zip(connections.all, through):
                self.assertEqual(Connections.echoes(connection),
                                 True if namespace == ONE else "reset")
        self.assertGreaterEqual(self.nf_count("resets"), through.count(TWO))

    # --- As a daemon

    def up(self, nf, *words):
        self.addCleanup(control.Control.end)
        done = snf("up", *PORTS, f"--nf={nf}", *words,
                   f"--json={self.folder}/report.json")
        self.assertEqual(done.returncode, OK, done.stderr)

    def down(self):
        """Each chain's report. Nothing was lost."""
        self.assertEqual(snf("down").returncode, OK)
        report = json.loads((self.folder / "report.json").read_text())
        for chain in [report, *report.get("earlier_chains", [])]:
            self.assertTrue(chain["conserved"])
            self.assertEqual(chain["violations"], 0)
        return report

    def set_chain(self, nf, *words):
        done = subprocess.run(
            in_network(MIDDLE, PROGRAM, "chain", "set", nf, f"--name={NAME}",
                       *words),
            capture_output=True, text=True, timeout=2 * PATIENCE_S,
            check=False)
        self.assertEqual(done.returncode, OK, done.stderr)

    def test_a_deregistered_appliance_keeps_its_flows_until_these_are_moved(
            self):
        self.up(balancer())
        with self.server(SERVER4):
            connections = self.connections()
            through = self.by_appliance(connections)
            self.set_chain(balancer(among=[ONE]))
            self.assertEqual(self.by_appliance(connections), through)
            self.by_appliance(self.connections(41_000), [ONE])
            self.set_chain(balancer(among=[ONE]), "--within=1s")
            wait_for("all at one appliance",
                     lambda: self.is_spared(TWO, connections))
            self.by_appliance(connections, [ONE])
            self.set_chain(balancer())
            self.by_appliance(self.connections(42_000))
        self.down()

    def test_connections_outlive_units_and_loggers(self):
        self.up(balancer(), *PROCESSES)
        pid = min(control.processes())
        with self.server(SERVER4):
            connections = self.connections()
            through = self.by_appliance(connections)

            def killed(killer):
                for connection in connections.all:
                    self.assertIs(Connections.echoes(connection), True)
                return killer.kills[UNITS] >= 1 and killer.kills[LOGGERS] >= 1
            with Killer(pid, FOLDER / f"{NAME}.log",
                        first=(UNITS, LOGGERS)) as killer:
                wait_for("kills", lambda: killed(killer))
            wait_for("rest", killer.all_are_well)
            self.assertEqual(self.by_appliance(connections), through)
        self.down()

    @unittest.skipUnless(shutil.which("iperf3") and shutil.which("curl"),
                         "wants iperf3 and curl")
    def test_iperf3_and_curl_go_through(self):
        server = subprocess.Popen(inside(SERVER, "iperf3", "--server",
                                         "--one-off"),
                                  stdout=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        with self.server(SERVER4), self.run_balancer():
            (self.folder / "page").write_text("a page")
            done = subprocess.run(
                inside(CLIENT, "curl", "--silent", "--max-time", PATIENCE_S,
                       f"http://{SERVER4}/page"),
                capture_output=True, text=True, timeout=2 * PATIENCE_S,
                check=True)
            self.assertEqual(done.stdout, "a page")
            done = subprocess.run(
                inside(CLIENT, "iperf3", "--client", SERVER4, "--time", "1",
                       "--bitrate", "50M", "--parallel", "4", "--json"),
                capture_output=True, text=True, timeout=2 * PATIENCE_S,
                check=False)
            self.assertEqual(done.returncode, 0, done.stdout[-1_000:])
            told = json.loads(done.stdout)["end"]["sum_received"]
            self.assertGreater(told["bytes"], 0)


if __name__ == "__main__":
    net.main()

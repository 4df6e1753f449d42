#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf run` as the router of a router, behind which are hosts, and of hosts at
several ports of a side.

    host eth0 ── eth1 client eth0 ── lan0 [ snf run ] wan0 ── eth0 server
    10.9.0.0/24    .1     10.1.0.9        .1      192.0.2.1       .9
    fd08::/64      ::1    fd01::9         ::1     fd02::1         ::9

Wants root and dnsmasq, and is skipped without.

Usage: routed_behind_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import routed_test as routed
import run_test as net
from command_case import PATIENCE_S, wait_for
from routed_test import (CLIENT4, CLIENT6, INSIDE, LAN6, OUTSIDE, SERVER4,
                         SERVER6)
from run_test import CLIENT, SERVER, inside, ip, peer

HOST = f"snf-behind-{os.getpid()}"
PORTS = ["--port", f"{INSIDE},route=10.9.0.0/24@{CLIENT4},"
         f"route=fd08::/64@{CLIENT6}", "--port", OUTSIDE]
CHAIN = "--nf=firewall | monitor"

# Prints what UDP port 67 sends or gets here, from the IP header on, without TTL
# and the checksum of the header, a line of hexadecimal digits each.
LISTEN = """
import socket
card = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
card.bind(("eth0", 3))
print("ready", flush=True)
while True:
    ip = card.recv(65535)[14:]
    if ip[9:10] == b"\\x11" and b"\\0C" in (ip[20:22], ip[22:24]):
        ip = ip[:int.from_bytes(ip[2:4], "big")]
        print((ip[:8] + ip[9:10] + ip[12:]).hex(), flush=True)
"""

# Prints a line for each router advertisement that comes in here.
HEAR_ROUTERS = """
import socket
card = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x86dd))
card.bind(("eth0", 0x86dd))
print("ready", flush=True)
while True:
    ip = card.recv(65535)[14:]
    if ip[6] == 58 and ip[40] == 134:
        print("advertisement", flush=True)
"""


def setting(namespace, name, value):
    subprocess.run(inside(namespace, "sh", "-c",
                          f"echo {value} > /proc/sys/net/{name}"), check=True)


def has(namespace, interface, start):
    """The global address there that starts so, once it is usable."""
    shown = json.loads(subprocess.run(
        ["ip", "-n", namespace, "-j", "addr", "show", "dev", interface,
         "scope", "global"], capture_output=True, text=True,
        check=True).stdout)
    # Objects without an address stand for those of other scopes.
    return next((one["local"] for link in shown
                 for one in link.get("addr_info", [])
                 if one.get("local", "").startswith(start)
                 and not one.get("tentative")), None)


def default_routes(namespace):
    return json.loads(subprocess.run(
        ["ip", "-n", namespace, "-6", "-j", "route", "show", "default"],
        capture_output=True, text=True, check=True).stdout)


class Behind(routed.Routed):
    def setUp(self):
        if shutil.which("dnsmasq") is None:
            self.skipTest("wants dnsmasq")
        super().setUp()
        self.addCleanup(lambda: subprocess.run(
            ["ip", "netns", "del", HOST], capture_output=True, check=False))
        ip("netns", "add", HOST)
        ip("-n", HOST, "link", "add", "eth0", "type", "veth", "peer", "name",
           "eth1", "netns", CLIENT)
        setting(CLIENT, "ipv4/ip_forward", 1)
        setting(CLIENT, "ipv6/conf/all/forwarding", 1)
        ip("-n", CLIENT, "addr", "add", "10.9.0.1/24", "dev", "eth1")
        ip("-n", CLIENT, "addr", "add", "fd08::1/64", "dev", "eth1", "nodad")
        ip("-n", CLIENT, "link", "set", "eth1", "up")
        ip("-n", HOST, "link", "set", "eth0", "up")

    @contextlib.contextmanager
    def dnsmasq(self, namespace, *words):
        process = subprocess.Popen(
            inside(namespace, "dnsmasq", "--keep-in-foreground", "--port=0",
                   "--conf-file=/dev/null", "--pid-file", "--no-resolv",
                   "--user=root", "--log-dhcp", "--log-facility=-",
                   f"--dhcp-leasefile={self.folder / namespace}", *words),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield
            self.assertIsNone(process.poll(), f"dnsmasq {words} ended")
        finally:
            process.kill()
            process.wait()

    @contextlib.contextmanager
    def listening(self, namespace, script=LISTEN):
        """Yields a function, which returns the lines of the script by then."""
        said = self.folder / f"heard-{namespace}"

        def lines():
            return said.read_text().split()[1:]

        with open(said, "w") as file:
            process = subprocess.Popen(
                inside(namespace, sys.executable, "-c", script), stdout=file)
        try:
            wait_for("listener", lambda: "ready" in said.read_text())
            yield lines
        finally:
            process.kill()
            process.wait()

    def test_a_relay_behind_it_finds_the_server_of_dhcp(self):
        for namespace in (CLIENT, SERVER):  # so that hosts show what they send
            peer(namespace, "finish_checksums", "eth0")
        with self.running(CHAIN, ports=PORTS), \
                self.dnsmasq(CLIENT, f"--dhcp-relay=10.9.0.1,{SERVER4}"), \
                self.dnsmasq(SERVER, "--dhcp-authoritative",
                             "--dhcp-range=10.9.0.50,10.9.0.60,255.255.255.0"), \
                self.listening(CLIENT) as near, \
                self.listening(SERVER) as far:
            wait_for("lease", lambda: self.lease().startswith("10.9.0.5"))
            # Offer and acknowledgement, and what was asked for; nothing differs.
            wait_for("same packets at both ends",
                     lambda: len(far()) >= 4 and set(near()) == set(far()))

    @staticmethod
    def lease():
        done = subprocess.run(
            inside(HOST, sys.executable, net.PEER, "dhcp", "eth0"),
            capture_output=True, text=True, timeout=4 * PATIENCE_S, check=False)
        return done.stdout

    def test_a_router_behind_it_has_hosts_with_addresses_of_its_own(self):
        """The router learns its own way out from SNF's advertisements."""
        ip("-n", CLIENT, "-6", "route", "del", "default")
        setting(CLIENT, "ipv6/conf/eth0/accept_ra", 2)
        ports = [PORTS[0], PORTS[1] + ",ra=on", *PORTS[2:]]
        with self.running(CHAIN, ports=ports), \
                self.dnsmasq(CLIENT, "--enable-ra", "--interface=eth1",
                             "--dhcp-range=fd08::,ra-only,64"):
            wait_for("address of the host", lambda: has(HOST, "eth0", "fd08:"))
            wait_for("way out of the router", lambda: default_routes(CLIENT))
            self.assertTrue(
                default_routes(CLIENT)[0]["gateway"].startswith("fe80:"))
            self.assertEqual(len(peer(HOST, "ping", SERVER6, 3)), 3)
            self.assertEqual(
                len(peer(SERVER, "ping", has(HOST, "eth0", "fd08:"), 3)), 3)
        self.assertGreater(self.router("inside")["advertisements"], 0)
        self.assertEqual(self.router("outside")["advertisements"], 0)
        # As the run has ended, it is no router any more.
        wait_for("end of the way out", lambda: not default_routes(CLIENT))

    def test_hosts_take_addresses_of_its_own_advertisements(self):
        setting(CLIENT, "ipv6/conf/all/forwarding", 0)
        ip("-n", CLIENT, "-6", "route", "del", "default")
        ip("-n", CLIENT, "addr", "del", f"{CLIENT6}/64", "dev", "eth0")
        self.narrow_the_inside(1_400)
        ports = ["--port", f"{INSIDE},ra=on", "--port", OUTSIDE]
        with self.listening(CLIENT, HEAR_ROUTERS) as heard, \
                self.running(CHAIN, ports=ports):
            # After three, none is sent for 200 s that no host has asked for.
            wait_for("advertisements", lambda: len(heard()) >= 3)
            ip("-n", CLIENT, "link", "set", "eth0", "down")
            self.assertIsNone(has(CLIENT, "eth0", "fd01:"))
            ip("-n", CLIENT, "link", "set", "eth0", "up")
            wait_for("address", lambda: has(CLIENT, "eth0", "fd01:"))
            address = has(CLIENT, "eth0", "fd01:")
            self.assertEqual(len(peer(CLIENT, "ping", SERVER6, 3)), 3)
            self.assertEqual(len(peer(SERVER, "ping", address, 3)), 3)
            self.assertEqual(len(peer(CLIENT, "ping", LAN6, 1)), 1)
            self.assertEqual(self.mtu_of(CLIENT), "1400")
        self.assertGreater(self.router("inside")["advertisements"], 3)

    @staticmethod
    def narrow_the_inside(mtu):
        ip("-n", net.MIDDLE, "link", "set", "lan0", "mtu", str(mtu))

    @staticmethod
    def mtu_of(namespace):
        """What IPv6 has learned of the link."""
        return subprocess.run(
            inside(namespace, "cat", "/proc/sys/net/ipv6/conf/eth0/mtu"),
            capture_output=True, text=True, check=True).stdout.strip()

    def test_advertisements_of_a_router_outside_pass_a_wire(self):
        for flag in ("all", "default"):
            setting(CLIENT, f"ipv6/conf/{flag}/forwarding", 0)
        ip("-n", CLIENT, "-6", "route", "flush", "default")
        with self.running("--nf=firewall(default=deny) | monitor | "
                          "nat(ip=10.77.0.100,other=pass)"), \
                self.dnsmasq(SERVER, "--enable-ra", "--interface=eth0",
                             "--dhcp-range=fd02::,ra-only,64"):
            wait_for("address", lambda: has(CLIENT, "eth0", "fd02:"))


class SeveralPorts(routed.Routed):
    """A third host is at a port of its own, on either side."""

    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: subprocess.run(
            ["ip", "netns", "del", HOST], capture_output=True, check=False))
        ip("netns", "add", HOST)
        ip("-n", HOST, "link", "add", "eth0", "type", "veth", "peer", "name",
           "third0", "netns", net.MIDDLE)
        ip("-n", net.MIDDLE, "link", "set", "third0", "addrgenmode", "none",
           "up")
        ip("-n", HOST, "link", "set", "eth0", "up")
        for words in (["addr", "add", "10.2.0.9/24", "dev", "eth0"],
                      ["addr", "add", "fd03::9/64", "dev", "eth0", "nodad"],
                      ["route", "add", "default", "via", "10.2.0.1"],
                      ["-6", "route", "add", "default", "via", "fd03::1"]):
            ip("-n", HOST, *words)

    third = "third0,address=10.2.0.1/24,address=fd03::1/64"

    def test_two_ports_inside(self):
        ports = ["--port", INSIDE, "--port", f"inside={self.third}",
                 "--port", OUTSIDE]
        with self.server(routed.ANY4), self.running(CHAIN, ports=ports):
            for namespace, own4, own6 in ((CLIENT, CLIENT4, CLIENT6),
                                          (HOST, "10.2.0.9", "fd03::9")):
                self.assertEqual(len(peer(namespace, "ping", SERVER4, 2)), 2)
                self.assertEqual(len(peer(namespace, "ping", SERVER6, 2)), 2)
                self.assertEqual(len(peer(SERVER, "ping", own4, 2)), 2)
                self.assertEqual(len(peer(SERVER, "ping", own6, 2)), 2)
                self.check_udp(namespace, SERVER4, [1, 1_472, 4_000])
                # The router's own addresses, at each of its ports.
                for own in (routed.LAN4, routed.WAN4, "10.2.0.1", "fd03::1"):
                    self.assertEqual(len(peer(namespace, "ping", own, 1)), 1)
            self.check_file(SERVER4)
            # Hosts of one side do not reach each other.
            self.assertEqual(routed.probe(CLIENT, "10.2.0.9")[:3],
                             [routed.LAN4, "3", "13"])
            self.assertEqual(routed.probe(HOST, CLIENT6)[1:3], ["1", "1"])
        self.assertEqual(self.router("inside1")["same_side"], 1)
        self.assertEqual(self.router("inside2")["same_side"], 1)
        for side in ("inside1", "inside2", "outside"):
            self.assertGreater(self.router(side)["routed"], 0)
            # Pings to the router's own addresses at the other side.
            self.assertEqual(self.report["ports"][side]["send_drops"],
                             self.router(side)["out_for_router"])

    def test_a_forged_link_address_silences_no_port_beside(self):
        ports = ["--port", INSIDE, "--port", f"inside={self.third}",
                 "--port", OUTSIDE]
        with self.running(CHAIN, ports=ports):
            self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 2)), 2)
            peer(HOST, "send_frame", self.mac("third0") + self.mac("lan0") +
                 "0800" + routed.ipv4("10.2.0.9", SERVER4))
            self.assertEqual(len(peer(HOST, "ping", SERVER4, 2)), 2)
            self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 2)), 2)
        self.assertEqual(self.router("inside2")["own_source"], 1)
        self.assertEqual(self.report["ports"]["filtered"], 0)

    def test_two_ports_outside(self):
        nat = "--nf=firewall | nat(ip=192.0.2.5,other=pass)"
        ports = ["--port", INSIDE, "--port", f"{OUTSIDE},gateway={SERVER4},"
                 "proxy=192.0.2.5", "--port", f"outside={self.third},proxy=192.0.2.5"]
        ip("-n", SERVER, "addr", "add", "198.51.100.7/32", "dev", "lo")
        with self.server(routed.ANY4), self.running(nat, ports=ports):
            # The longest prefix, then the gateway to everything else.
            for address in ("10.2.0.9", SERVER4, "198.51.100.7", "fd03::9",
                            SERVER6):
                self.assertEqual(len(peer(CLIENT, "ping", address, 2)), 2,
                                 address)
            self.check_file(SERVER4)
        self.assertGreaterEqual(self.router("outside2")["routed"], 4)
        self.assertEqual(self.router("outside2")["no_route"], 0)


# The tests of hosts without others behind them are those of routed_test.py.
for inherited in [name for name in dir(routed.Routed)
                  if name.startswith("test_")]:
    setattr(Behind, inherited, None)
    setattr(SeveralPorts, inherited, None)

if __name__ == "__main__":
    net.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several ports a side, VLAN tags, and long frames.

    client  eth0 ── lan0 [         ] wan0 ── eth0 server
    clientb eth0 ── lan1 [ snf run ] wan1 ── eth0 serverb

Wants root, and is skipped without.

Usage: ports_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import hashlib
import os
import random
import re
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import run_test as net
from command_case import PATIENCE_S, wait_for
from run_test import CLIENT, EXTERNAL4, MIDDLE, SERVER, ip, peer

CLIENT_B, SERVER_B = (f"snf-{name}-{os.getpid()}"
                      for name in ("clientb", "serverb"))
CHAIN = f"--nf=firewall | monitor | nat(ip={EXTERNAL4})"
# Of each host: its namespace, SNF's interface, the last byte of its address.
HOSTS = ((CLIENT, "lan0", 2), (SERVER, "wan0", 3),
         (CLIENT_B, "lan1", 4), (SERVER_B, "wan1", 5))
VLAN_CARD = str(net.pathlib.Path(__file__).resolve().with_name("vlan_card.py"))
# By the network's number: an interface, and its tags: of VLAN 100, and of VLAN
# 200 within VLAN 5.
VLANS = {100: ("v100", "81000064"), 200: ("v200", "88a80005810000c8")}
FOUR = ["--port", "inside=lan0", "--port", "inside=lan1",
        "--port", "outside=wan0", "--port", "outside=wan1"]


def address(number, network=77):
    return f"10.{network}.0.{number}"


def sum_in(report, side, what):
    return sum(port[what] for name, port in report["ports"].items()
               if name.startswith(side))


def frame(to, sender, ether_type="88b5"):
    """In hexadecimal: with nothing but these."""
    return to + sender + ether_type + 50 * "5a"


class Ports(net.Run):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.remove_others)
        data = random.Random(1).randbytes(1_000_000)
        (self.folder / "file.bin").write_bytes(data)
        self.hash = hashlib.sha256(data).hexdigest()

    @staticmethod
    def remove_others():
        for namespace in (CLIENT_B, SERVER_B):
            subprocess.run(["ip", "netns", "del", namespace],
                           capture_output=True, check=False)

    @staticmethod
    def add_others():
        for namespace, port, number in HOSTS[2:]:
            ip("netns", "add", namespace)
            ip("-n", namespace, "link", "add", "eth0", "type", "veth", "peer",
               "name", port, "netns", MIDDLE)
            ip("-n", MIDDLE, "link", "set", port, "addrgenmode", "none", "up")
            ip("-n", namespace, "link", "set", "eth0", "addrgenmode", "none",
               "up")
            ip("-n", namespace, "addr", "add", f"{address(number)}/24", "dev",
               "eth0")

    @staticmethod
    def know_the_nat(namespace, client, device="eth0", of=EXTERNAL4):
        """The host sends what is for the NAT's address to a client's card."""
        ip("-n", namespace, "route", "replace", of, "dev", device)
        ip("-n", namespace, "neigh", "replace", of, "lladdr",
           net.address_of_card(client), "dev", device, "nud", "permanent")

    def serving(self, namespace):
        process = subprocess.Popen(
            net.inside(namespace, sys.executable, net.PEER, "serve", "0.0.0.0",
                       self.folder), stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), b"ready\n")

    def check_talk(self, client, to):
        self.assertEqual(len(peer(client, "ping", to, 2)), 2)
        self.assertEqual(peer(client, "get", to, "file.bin"), [self.hash])

    def check_nothing_was_lost(self):
        dropped = {reason: count for reason, count
                   in self.report["packets_dropped"].items() if count}
        # Hosts speak of their IPv6 addresses and multicast groups, too.
        self.assertEqual(set(dropped) - {
            "no_mapping", "nf:nat.not_ipv4", "nf:nat.protocol_not_translated"},
                         set(), dropped)
        for name, port in self.each_port():
            self.assertEqual((port["send_drops"], port["refused"]), (0, 0),
                             name)

    # --- Several ports a side

    def check_all_reach_all(self, nf):
        self.add_others()
        for server in (SERVER, SERVER_B):
            self.serving(server)
        with self.running(nf, ports=FOUR):
            for client in (CLIENT, CLIENT_B):
                for server, _, number in (HOSTS[1], HOSTS[3]):
                    self.know_the_nat(server, client)
                    self.check_talk(client, address(number))
        self.check_nothing_was_lost()
        ports = self.report["ports"]
        self.assertEqual(set(dict(self.each_port())),
                         {"inside1", "inside2", "outside1", "outside2"})
        self.assertEqual(ports["inside2"]["interface"], "lan1")
        # Broadcasts, and what is for whom nobody has seen, leave by both.
        self.assertGreater(ports["copies"], 0)
        # What is for a host leaves by its port alone: 2 files to each client,
        # and what little the others got with them.
        for name in ("inside1", "inside2"):
            self.assertLess(ports[name]["sent"],
                            0.75 * sum_in(self.report, "inside", "sent"))
        self.assertLess(ports["copies"],
                        0.1 * sum_in(self.report, "inside", "sent"))

    def test_hosts_at_all_ports_reach_those_of_the_other_side(self):
        self.check_all_reach_all("--nf=passthrough")

    def test_the_same_through_a_chain_of_functions(self):
        self.check_all_reach_all(CHAIN)

    def received(self, namespace):
        """Starts to wait for a frame; call what it returns for whether one
        came by now."""
        process = subprocess.Popen(
            net.inside(namespace, sys.executable, net.PEER, "receive_frame",
                       "88b5"), stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return lambda: process.poll() is not None

    def test_a_frame_leaves_where_its_receiver_was_seen_and_else_by_all(self):
        self.add_others()
        # Addresses that no host has said anything by yet.
        mac = {host: f"06000000000{number}" for host, _, number in HOSTS}
        with self.running(ports=FOUR):
            came = {host: self.received(host) for host, _, _ in HOSTS}
            # Not seen yet: both of the outside have it, nobody inside.
            peer(CLIENT, "send_frame", frame(mac[SERVER], mac[CLIENT]))
            wait_for("a frame", lambda: came[SERVER]() and came[SERVER_B]())
            # The answer leaves where the first came from, and not to clientb;
            # nor does what clientb's neighbour sends to it.
            peer(SERVER, "send_frame", frame(mac[CLIENT], mac[SERVER]))
            peer(CLIENT, "send_frame", frame(mac[CLIENT_B], mac[CLIENT]))
            wait_for("the answer", came[CLIENT])
            self.assertFalse(came[CLIENT_B]())
            came[SERVER] = self.received(SERVER)
            came[SERVER_B] = self.received(SERVER_B)
            peer(CLIENT_B, "send_frame", frame(mac[SERVER], mac[CLIENT_B]))
            wait_for("a frame", came[SERVER])
            self.assertFalse(came[SERVER_B]())

    def test_a_side_goes_on_with_the_port_that_is_left(self):
        self.add_others()
        self.serving(SERVER)
        self.serving(SERVER_B)
        # A daemon goes on where a run ends.
        name = f"--name=ports-{os.getpid()}"

        def snf(word, *words):
            done = subprocess.run(
                net.in_network(MIDDLE, net.PROGRAM, word, name, *words),
                capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, net.OK, done.stderr)
            return done.stdout
        metrics = net.free_port()
        snf("up", *FOUR, f"--metrics_port={metrics}")

        def ready():
            return peer(MIDDLE, "status", f"http://127.0.0.1:{metrics}/readyz")
        try:
            self.check_talk(CLIENT, address(5))
            wait_for("readiness", lambda: ready() == ["200", "ok"])
            ip("-n", MIDDLE, "link", "set", "wan1", "down")
            ip("-n", MIDDLE, "link", "set", "lan1", "down")
            self.check_talk(CLIENT, address(3))
            # Figures are those of the last half second.
            wait_for("status", lambda: re.search(
                r"\n  outside2  wan1: DOWN for [^;]+; [\d,]+ rec",
                snf("status")))
            status, *why = ready()
            self.assertEqual(status, "503")
            self.assertIn("Port outside2 (wan1) has been down for ",
                          "".join(why))
            ip("-n", MIDDLE, "link", "set", "wan1", "up")
            log = net.pathlib.Path(f"/run/snf/ports-{os.getpid()}.log")
            wait_for("its return",
                     lambda: "wan1 is back" in log.read_text())
            self.check_talk(CLIENT, address(5))
        finally:
            snf("down")

    # --- From the outside

    def test_forwards_and_exemptions_let_the_outside_begin(self):
        inside, outside = address(2), address(3)
        self.serving(CLIENT)
        for option, to in (
                (f"forward=tcp:{EXTERNAL4}:80->{inside}:80", EXTERNAL4),
                (f"exempt={inside}/32->{outside}/32", inside)):
            nf = f"--nf=firewall | nat(ip={EXTERNAL4},{option})"
            with self.subTest(nf=nf), self.running(nf):
                self.know_the_nat(SERVER, CLIENT)
                self.assertEqual(peer(SERVER, "get", to, "file.bin"),
                                 [self.hash])
            self.check_nothing_was_lost()

    def test_hosts_get_addresses_by_dhcp(self):
        nf = f"--nf=dhcp(network=10.77.0.0/24,range={address(100)}-" \
             f"{address(109)},server={address(3)},router={address(3)})"
        with self.running(nf):
            leased, = peer(CLIENT, "dhcp", "eth0")
            self.assertIn(leased, [address(100 + n) for n in range(10)])
            # The same host has the same address.
            self.assertEqual(peer(CLIENT, "dhcp", "eth0"), [leased])
        self.check_nothing_was_lost()
        self.assertEqual(self.report["counters"]["leased"], 1)

    def test_hosts_of_ipv6_reach_those_of_ipv4(self):
        prefix, server = "64:ff9b::/96", f"64:ff9b::{address(3)}"
        for words in (("addr", "add", "fd00::2/64", "nodad"),
                      ("-6", "route", "replace", prefix),
                      ("neigh", "replace", server, "lladdr",
                       net.address_of_card(SERVER), "nud", "permanent")):
            ip("-n", CLIENT, *words, "dev", "eth0")
        self.serving(SERVER)
        with self.running(f"--nf=firewall | nat(ip={EXTERNAL4},"
                          f"nat64={prefix})"):
            self.know_the_nat(SERVER, CLIENT)
            self.check_talk(CLIENT, server)
        self.check_nothing_was_lost()

    # --- VLANs

    def add_card(self, namespace, name, tags, mtu, network, leaves):
        """An interface of the host whose frames have these tags."""
        process = subprocess.Popen(
            net.inside(namespace, sys.executable, VLAN_CARD, name, tags,
                       leaves), stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        number = next(host[2] for host in HOSTS if host[0] == namespace)
        ip("-n", namespace, "link", "set", name, "mtu", str(mtu), "address",
           net.address_of_card(namespace), "addrgenmode", "none", "up")
        ip("-n", namespace, "addr", "add", f"{address(number, network)}/24",
           "dev", name)

    def make_vlans(self, mtu, leaves=1):
        net.remove_network()
        # An interface lets one tag of 802.1Q be beside its MTU, no other.
        net.make_network(mtu + 8)
        for namespace in (CLIENT, SERVER):
            for network, (name, tags) in VLANS.items():
                self.add_card(namespace, name, tags, mtu, network, leaves)
        self.serving(SERVER)

    def check_vlans(self, nf, ports):
        with self.running(nf, ports=ports):
            for network, (name, _) in VLANS.items():
                self.know_the_nat(SERVER, CLIENT, name)
                self.check_talk(CLIENT, address(3, network))
        self.check_nothing_was_lost()

    def test_tags_are_kept_by_packet_sockets(self):
        for mtu, nf in ((1_500, "--nf=passthrough"), (9_000, CHAIN)):
            with self.subTest(mtu=mtu, nf=nf):
                self.make_vlans(mtu)
                self.check_vlans(nf, net.PORTS)
                self.assertGreater(self.report["ports"]["outside"]["split"], 0)

    def test_tags_are_kept_by_af_xdp(self):
        jumbo = 9_000 if net.has_long_xdp() else 1_500
        for mtu, nf in ((1_500, "--nf=passthrough"), (jumbo, CHAIN)):
            with self.subTest(mtu=mtu, nf=nf):
                self.make_vlans(mtu, leaves=0)
                self.begin_xdp()
                self.check_vlans(nf, net.XDP_PORTS)
                self.assertIn("rxvlan off", "".join(self.said))

    def test_tags_are_kept_by_tap_interfaces(self):
        """The inside is a TAP interface, at which a bridge has the client."""
        ports = ["--port", "inside=tap:tap0", "--port", "outside=wan0"]
        for mtu, nf in ((1_500, CHAIN), (9_000, "--nf=passthrough")):
            with self.subTest(mtu=mtu, nf=nf):
                self.make_vlans(mtu)
                ip("-n", MIDDLE, "tuntap", "add", "tap0", "mode", "tap")
                ip("-n", MIDDLE, "link", "set", "tap0", "mtu", str(mtu + 8))
                ip("-n", MIDDLE, "link", "add", "br0", "type", "bridge",
                   "mcast_snooping", "0")
                for port in ("lan0", "tap0"):
                    ip("-n", MIDDLE, "link", "set", port, "master", "br0")
                ip("-n", MIDDLE, "link", "set", "br0", "up")
                self.check_vlans(nf, ports)


# What run_test.py tests itself.
for name in [name for name in dir(net.Run) if name.startswith("test_")]:
    setattr(Ports, name, None)


if __name__ == "__main__":
    net.main("Ports")

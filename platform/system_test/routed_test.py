#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf run` as the router of hosts, each a network namespace of this machine.

    client eth0 ── lan0 [ snf run ] wan0 ── eth0 server
    10.1.0.9          .1           192.0.2.1         .9
    fd01::9          ::1           fd02::1          ::9

Wants root, and is skipped without.

Usage: routed_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import concurrent.futures
import hashlib
import random
import re
import socket
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # nothing beside the sources
import run_test as net
from command_case import PATIENCE_S, USAGE, wait_for
from run_test import CLIENT, MIDDLE, SERVER, ip, peer

CLIENT4, SERVER4, EXTERNAL4 = "10.1.0.9", "192.0.2.9", "192.0.2.5"
CLIENT6, SERVER6 = "fd01::9", "fd02::9"
# A server that has a name looked up would wait for one.
ANY4, ANY6 = "0.0.0.0", "::"
LAN4, WAN4, LAN6, WAN6 = "10.1.0.1", "192.0.2.1", "fd01::1", "fd02::1"
# Of each host: its namespace, SNF's interface, its addresses, its gateways.
HOSTS = ((CLIENT, "lan0", CLIENT4, CLIENT6, LAN4, LAN6),
         (SERVER, "wan0", SERVER4, SERVER6, WAN4, WAN6))
INSIDE = f"inside=lan0,address={LAN4}/24,address={LAN6}/64"
OUTSIDE = f"outside=wan0,address={WAN4}/24,address={WAN6}/64"
PORTS = ["--port", INSIDE, "--port", OUTSIDE]
NAT_PORTS = ["--port", INSIDE, "--port", f"{OUTSIDE},proxy={EXTERNAL4}"]
CHAIN = f"--nf=firewall | monitor | nat(ip={EXTERNAL4},other=pass)"

# Values of IP_MTU_DISCOVER: no DF; DF, whatever the host knows of the path.
DONT, ALWAYS = 0, 3

# Sends a datagram to a port where nothing listens, and prints the first ICMP
# error that comes: its sender, type, code, and the second word.
PROBE = """
import socket, struct, sys, time
to, (ttl, size, do) = sys.argv[1], map(int, sys.argv[2:])
is_v6 = ":" in to
family = socket.AF_INET6 if is_v6 else socket.AF_INET
if is_v6:
    icmp = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    level, hops, discover = 41, 16, 23
else:
    icmp = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    level, hops, discover = 0, 2, 10
icmp.settimeout(5)
with socket.socket(family, socket.SOCK_DGRAM) as probe:
    probe.setsockopt(level, hops, ttl)
    probe.setsockopt(level, discover, do)
    try:
        probe.sendto(bytes(size), (to, 33434))
    except OSError as error:
        print("not sent", error.errno)
        sys.exit()
    end = time.monotonic() + 5
    while time.monotonic() < end:
        data, sender = icmp.recvfrom(65535)
        data = data if is_v6 else data[(data[0] & 15) * 4:]
        if data[0] >= 128 if is_v6 else data[0] in (0, 8):
            continue
        print(sender[0], data[0], data[1], struct.unpack(">I", data[4:8])[0])
        break
"""

CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 7), 4)
except ConnectionRefusedError:
    print("refused")
"""


def probe(namespace, to, ttl=64, size=10, discover=ALWAYS):
    done = subprocess.run(
        net.inside(namespace, sys.executable, "-c", PROBE, to, ttl, size,
                   discover),
        capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{to}: {done.stderr}")
    return done.stdout.split()


class Routed(net.Run):
    def setUp(self):
        super().setUp()
        net.remove_network()
        net.make_network()
        for namespace, _, v4, v6, gateway4, gateway6 in HOSTS:
            ip("-n", namespace, "addr", "flush", "dev", "eth0", "scope",
               "global")
            ip("-n", namespace, "addr", "add", f"{v4}/24", "dev", "eth0")
            ip("-n", namespace, "addr", "add", f"{v6}/64", "dev", "eth0",
               "nodad")
            ip("-n", namespace, "route", "add", "default", "via", gateway4)
            ip("-n", namespace, "-6", "route", "add", "default", "via",
               gateway6)

    def narrow_the_outside(self, mtu):
        ip("-n", MIDDLE, "link", "set", "wan0", "mtu", str(mtu))
        ip("-n", SERVER, "link", "set", "eth0", "mtu", str(mtu))

    def router(self, side):
        return self.report["ports"][side]["router"]

    def check_file(self, address, size=2_000_000):
        data = random.Random(size).randbytes(size)
        (self.folder / "file.bin").write_bytes(data)
        self.assertEqual(peer(CLIENT, "get", address, "file.bin"),
                         [hashlib.sha256(data).hexdigest()])

    def check_merged(self):
        """Frames of several packets of the file stay whole."""
        inside, outside = (self.report["ports"][side]
                           for side in ("inside", "outside"))
        self.assertGreater(outside["merged"], 0)
        self.assertEqual((outside["split"], inside["cut"]), (0, 0))

    def test_routes_ipv4_between_its_networks(self):
        with self.server(ANY4), self.running("--nf=passthrough",
                                                ports=PORTS):
            self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 3)), 3)
            self.assertEqual(len(peer(SERVER, "ping", CLIENT4, 3)), 3)
            self.check_file(SERVER4)
            self.check_udp(CLIENT, SERVER4, [0, 1, 1_472, 4_000])
        self.check_merged()
        # The server learned of the router by the router's question.
        self.assertGreater(self.router("inside")["arp_answered"], 0)
        self.assertGreater(self.router("outside")["arp_learned"], 0)
        for side in ("inside", "outside"):
            self.assertEqual(self.report["ports"][side]["send_drops"], 0)

    def test_routes_ipv6_between_its_networks(self):
        with self.server(ANY6), self.running("--nf=passthrough",
                                                ports=PORTS):
            self.assertEqual(len(peer(CLIENT, "ping", SERVER6, 3)), 3)
            self.assertEqual(len(peer(SERVER, "ping", CLIENT6, 3)), 3)
            self.check_file(SERVER6)
            self.check_udp(CLIENT, SERVER6, [1, 1_452])
        self.check_merged()
        self.assertGreater(self.router("inside")["nd_answered"], 0)
        self.assertGreater(self.router("outside")["nd_learned"], 0)

    def test_is_a_gateway_with_firewall_and_nat(self):
        with self.server(ANY4), self.running(CHAIN, ports=NAT_PORTS):
            # No route leads the server to the inside.
            ip("-n", SERVER, "route", "del", "default")
            self.assertEqual(peer(CLIENT, "who", SERVER4), [EXTERNAL4])
            self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 3)), 3)
            self.check_file(SERVER4)
            self.check_udp(CLIENT, SERVER4, [1, 1_472])
            self.assertEqual(len(peer(CLIENT, "ping", SERVER6, 3)), 3)
            # Its own addresses, from both sides of it.
            for own in (LAN4, LAN6, WAN4):
                self.assertEqual(len(peer(CLIENT, "ping", own, 2)), 2, own)
            for own in (WAN4, WAN6):
                self.assertEqual(len(peer(SERVER, "ping", own, 2)), 2, own)
        self.check_merged()
        self.assertGreater(self.router("outside")["arp_answered"], 0)
        self.assertGreaterEqual(self.router("inside")["echo_answered"], 4)
        self.assertGreaterEqual(self.router("outside")["out_for_router"], 2)

    def test_answers_to_pings_pass_a_firewall_before_a_nat(self):
        """Also if the NAT changes the identifier."""
        chain = ("--nf=firewall(allow=icmp from 10.1.0.0/24,default=deny) | "
                 f"nat(ip={EXTERNAL4})")
        with self.running(chain, ports=NAT_PORTS):
            for identifier in (4_321, 999):
                self.assertEqual(
                    len(peer(CLIENT, "ping", SERVER4, 2, identifier)), 2)
        self.assertEqual(
            self.report["packets_dropped"]["nf:firewall.denied"], 0)

    def test_keeps_packets_of_several_chains_apart(self):
        """What leaves does not overwrite what has come in."""
        file = self.folder / "two.conf"
        file.write_text("""chain { name: "web" text: "monitor" }
chain { name: "rest" text: "monitor" }
rule { match: "ip6" chain: "rest" }
default_chain: "web"
""")
        self.check_sums = lambda: None  # of several chains
        with self.server(ANY6), self.running(
                f"--config={file}", "--isolation=process", ports=PORTS):
            for _ in range(3):
                self.check_file(SERVER6, 10_000_000)
        for side in ("inside", "outside"):
            self.assertEqual(self.report["ports"][side]["send_drops"], 0)
            for count in ("out_malformed", "no_route"):
                self.assertEqual(self.router(side)[count], 0, count)

    def test_tells_where_no_answer_reaches_a_nat(self):
        for external in (WAN4, EXTERNAL4):
            with self.running(f"--nf=nat(ip={external})", ports=PORTS):
                self.assertIn(f"proxy={external}", "".join(self.said))

    def test_what_an_nf_makes_finds_its_way(self):
        rules = self.folder / "rules"
        rules.write_text("reject tcp from any to any port 7\n"
                         "reject udp from any to any port 33434\nallow any\n")
        with self.server(ANY4), self.running(
                f"--nf=firewall:rules={rules}", ports=PORTS):
            for server in (SERVER4, SERVER6):
                begun = time.monotonic()
                said = subprocess.run(
                    net.inside(CLIENT, sys.executable, "-c", CONNECT, server),
                    capture_output=True, text=True, timeout=PATIENCE_S,
                    check=True).stdout
                self.assertEqual(said, "refused\n")
                self.assertLess(time.monotonic() - begun, 3)
            self.assertEqual(probe(CLIENT, SERVER4)[1:3], ["3", "13"])
        self.assertGreaterEqual(self.report["packets_generated"], 3)

    def check_errors(self):
        """Of a client behind the router: traceroute, path MTU, unreachable."""
        hop4, hop6 = probe(CLIENT, SERVER4, ttl=1), probe(CLIENT, SERVER6, ttl=1)
        self.assertEqual(hop4, [LAN4, "11", "0", "0"])
        self.assertEqual(hop6, [LAN6, "3", "0", "0"])
        # The second hop is the host itself.
        self.assertEqual(probe(CLIENT, SERVER4, ttl=2)[:3], [SERVER4, "3", "3"])
        self.assertEqual(probe(CLIENT, SERVER6, ttl=2)[:3], [SERVER6, "1", "4"])
        self.assertEqual(probe(CLIENT, SERVER4, size=1_400),
                         [WAN4, "3", "4", "1300"])
        self.assertEqual(probe(CLIENT, SERVER6, size=1_400),
                         [WAN6, "2", "0", "1300"])
        # No host has these addresses, which is known after three seconds.
        with concurrent.futures.ThreadPoolExecutor() as pool:
            absent4 = pool.submit(probe, CLIENT, "192.0.2.77")
            absent6 = pool.submit(probe, CLIENT, "fd02::77")
        self.assertEqual(absent4.result(), [WAN4, "3", "1", "0"])
        self.assertEqual(absent6.result(), [WAN6, "1", "3", "0"])
        # No route leads there.
        self.assertEqual(probe(CLIENT, "198.51.100.7"), [WAN4, "3", "0", "0"])

    def test_says_why_a_packet_cannot_go_on(self):
        self.narrow_the_outside(1_300)
        with self.server(ANY4), self.running("--nf=passthrough",
                                                ports=PORTS):
            # Without DF, the router cuts a packet into fragments: it arrives
            # whole, at a port where nothing listens.
            self.assertEqual(
                probe(CLIENT, SERVER4, size=1_400, discover=DONT)[:3],
                [SERVER4, "3", "3"])
            self.check_errors()
            self.check_file(SERVER4)
        outside = self.router("outside")
        self.assertEqual(self.router("inside")["ttl_exceeded"], 2)
        self.assertGreaterEqual(outside["too_big"], 2)
        self.assertGreaterEqual(outside["no_neighbour"], 2)
        self.assertEqual(outside["no_route"], 1)
        self.assertEqual(outside["fragmented"], 1)

    def check_routes_of(self, table):
        """A network behind the server, to which the kernel has a route or not."""
        far = "198.51.100.7"
        route = ("198.51.100.0/24", "via", SERVER4, "dev", "wan0", "onlink",
                 "table", table)
        reaches = [far, "3", "3"]  # the host says: port unreachable
        none_leads = [WAN4, "3", "0"]
        ip("-n", SERVER, "addr", "add", f"{far}/32", "dev", "lo")
        ip("-n", MIDDLE, "route", "add", *route)
        # Its gateway is no neighbour of the port.
        ip("-n", MIDDLE, "route", "add", "203.0.113.0/24", "via", "10.9.9.9",
           *route[3:])
        ports = ["--port", INSIDE, "--port", f"{OUTSIDE},routes={table}"]
        with self.running("--nf=passthrough", ports=ports):
            self.assertEqual(probe(CLIENT, far)[:3], reaches)
            ip("-n", MIDDLE, "route", "del", *route)
            wait_for("end of the route",
                     lambda: probe(CLIENT, far)[:3] == none_leads)
            ip("-n", MIDDLE, "route", "add", *route)
            wait_for("route", lambda: probe(CLIENT, far)[:3] == reaches)
        self.assertGreaterEqual(self.router("outside")["routes_taken"], 3)
        self.assertGreaterEqual(self.router("outside")["routes_unused"], 3)
        self.assertEqual(self.router("inside")["routes_taken"], 0)

    def test_takes_routes_of_the_kernel_as_they_come_and_go(self):
        self.check_routes_of("main")

    def test_takes_routes_of_a_table_of_its_own(self):
        self.check_routes_of("100")

    def test_errors_find_their_way_back_through_a_nat(self):
        with self.server(ANY4), self.running(CHAIN, ports=NAT_PORTS):
            self.narrow_the_outside(1_300)
            time.sleep(0.3)  # ten times a second, a port reads its MTU
            self.check_errors()
            self.check_file(SERVER4)

    def test_finds_networks_behind_gateways(self):
        for namespace, name in ((CLIENT, "10.8.0.1/32"), (CLIENT, "fd08::1/128"),
                                (SERVER, "198.51.100.7/32"),
                                (SERVER, "fd09::1/128")):
            ip("-n", namespace, "addr", "add", name, "dev", "lo", "nodad"
               if ":" in name else "noprefixroute")
        mac = self.mac("eth0", CLIENT)
        # The client's link-local address is made of its link address.
        near = (f"fe80::{int(mac[:2], 16) ^ 2:x}{mac[2:4]}:{mac[4:6]}ff:"
                f"fe{mac[6:8]}:{mac[8:]}")
        ports = ["--port", f"{INSIDE},route=10.8.0.0/16@{CLIENT4}"
                 f",route=fd08::/16@{near}",
                 "--port", f"{OUTSIDE},gateway={SERVER4},gateway={SERVER6}"]
        with self.running("--nf=passthrough", ports=ports):
            wait_for("link-local addresses", self.are_checked)
            self.assertEqual(len(peer(CLIENT, "ping", "198.51.100.7", 2)), 2)
            self.assertEqual(len(peer(CLIENT, "ping", "fd09::1", 2)), 2)
            self.assertEqual(len(peer(SERVER, "ping", "10.8.0.1", 2)), 2)
            self.assertEqual(len(peer(SERVER, "ping", "fd08::1", 2)), 2)

    @staticmethod
    def are_checked():
        """Says whether hosts have found their addresses to be unique."""
        return not any(subprocess.run(
            ["ip", "-n", namespace, "addr", "show", "tentative"],
            capture_output=True, text=True, check=True).stdout
            for namespace in (CLIENT, SERVER))

    def test_leaves_alone_what_is_for_others(self):
        group, lan = "ffffffffffff", self.mac("lan0")
        mine = "020000000009"
        frames = {
            "other_mac": "020000000077" + mine + "0800" + "00" * 46,
            "group": group + mine + "0800" + ipv4("10.1.0.9", "10.1.0.255"),
            "vlan_tag": lan + mine + "81000007" + "0800" + "00" * 46,
            "other_type": lan + mine + "88b5" + "00" * 46,
            "malformed": lan + mine + "0800" + "45" + "00" * 45,
            "bad_source": lan + mine + "0800" + ipv4("127.0.0.1", "192.0.2.9"),
            "same_side": lan + mine + "0800" + ipv4("10.1.0.9", "10.1.0.8"),
            "link_local": lan + mine + "0800" + ipv4("10.1.0.9", "169.254.1.1"),
            "arp_malformed": group + mine + "0806" + "0001" + "00" * 40,
        }
        with self.running("--nf=passthrough", ports=PORTS):
            time.sleep(0.5)  # hosts have said that they are there
            for frame in frames.values():
                peer(CLIENT, "send_frame", frame)
            time.sleep(0.3)
        for name in frames:
            self.assertGreaterEqual(self.router("inside")[name], 1, name)
        self.assertEqual(self.report["ports"]["outside"]["sent"], 0)
        inside = self.router("inside")
        self.assertIn("other_mac", self.output)
        self.assertEqual(inside["arp_answered"], 0)

    @staticmethod
    def mac(interface, namespace=MIDDLE):
        done = subprocess.run(
            net.inside(namespace, "cat", f"/sys/class/net/{interface}/address"),
            capture_output=True, text=True, check=True)
        return done.stdout.strip().replace(":", "")

    def test_refuses_what_cannot_be(self):
        for words, *ports in (
                (["want addresses for all"], INSIDE, "outside=wan0"),
                (["is in the networks of two ports"], INSIDE,
                 "outside=wan0,address=10.1.0.7/16"),
                (["only an interface without xdp: and tap:"],
                 "inside=xdp:lan0,address=10.1.0.1/24", OUTSIDE),
                (["wan1 has no address"], INSIDE, OUTSIDE, "outside=wan1"),
                (["gateway 10.2.0.1", "in no network"],
                 "inside=lan0,address=10.1.0.1/24,gateway=10.2.0.1", OUTSIDE)):
            done = subprocess.run(
                net.in_network(MIDDLE, net.PROGRAM, "run", "--nf=passthrough",
                               *(f"--port={port}" for port in ports)),
                capture_output=True, text=True, timeout=PATIENCE_S,
                check=False)
            self.assertEqual(done.returncode, USAGE, done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)
        # The kernel would answer as well.
        ip("-n", MIDDLE, "addr", "add", f"{LAN4}/24", "dev", "lan0")
        done = subprocess.run(
            net.in_network(MIDDLE, net.PROGRAM, "run", *PORTS),
            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, net.UNAVAILABLE, done.stderr)
        self.assertIn(f"the kernel has the address {LAN4} at lan0", done.stderr)

    def test_says_how_the_kernel_makes_no_address_of_a_router(self):
        ports = ["--port", f"{INSIDE},ra=on", "--port", OUTSIDE]
        ip("-n", MIDDLE, "link", "set", "lan0", "addrgenmode", "eui64")
        for state in ("down", "up"):
            ip("-n", MIDDLE, "link", "set", "lan0", state)
        wait_for("the kernel's address", lambda: "fe80" in subprocess.run(
            ["ip", "-n", MIDDLE, "-6", "address", "show", "dev", "lan0"],
            capture_output=True, text=True, check=True).stdout)
        done = subprocess.run(
            net.in_network(MIDDLE, net.PROGRAM, "run", *ports),
            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, net.UNAVAILABLE, done.stderr)
        # Does as it is told.
        told = re.search(r"\((ip link .*); (ip addr .*)\)", done.stderr)
        for words in told.groups():
            ip("-n", MIDDLE, *words.split()[1:])
        with self.running("--nf=passthrough", ports=ports):
            self.assertEqual(len(peer(CLIENT, "ping", SERVER6, 1)), 1)


def ipv4(source, to):
    """The hexadecimal digits of an empty datagram between two addresses."""
    header = bytearray(struct.pack(">BBHHHBBH", 0x45, 0, 28, 1, 0, 64, 17, 0) +
                       socket.inet_aton(source) + socket.inet_aton(to))
    total = sum(struct.unpack(">10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    header[10:12] = struct.pack(">H", ~((total & 0xFFFF) + (total >> 16)) &
                                0xFFFF)
    return (header + struct.pack(">HHHH", 9, 9, 8, 0) + bytes(18)).hex()


# The tests of the network between two hosts are those of run_test.py.
for inherited in [name for name in dir(net.Run) if name.startswith("test_")]:
    setattr(Routed, inherited, None)

if __name__ == "__main__":
    net.main()

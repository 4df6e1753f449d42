#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf run` as a router whose way out follows the kernel's rules (`ip rule`).

    client eth0 ── lan0 [ snf run ] wan0 ── eth0 server
    10.1.0.9          .1           192.0.2.1         .9     198.51.100.7
    10.1.0.200                      wan1 ── eth0 uplink
                                   203.0.113.1       .9     198.51.100.7

Wants root, and is skipped without.

Usage: routed_rules_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import os
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import routed_test as routed
import run_test as net
from command_case import PATIENCE_S, free_port, wait_for
from routed_test import CLIENT4, INSIDE, OUTSIDE, SERVER4
from run_test import CLIENT, MIDDLE, SERVER, inside, ip

UPLINK = f"snf-uplink-{os.getpid()}"
OTHER4, UPLINK4, FAR4, FAR6 = ("10.1.0.200", "203.0.113.9", "198.51.100.7",
                               "fd09::7")
OTHER6, UPLINK6, THIRD4 = "fd01::200", "fd03::9", "10.1.0.77"
SECOND = "outside=wan1,address=203.0.113.1/24,address=fd03::1/64"
PORTS = ["--port", INSIDE, "--port", f"{OUTSIDE},routes=rules",
         "--port", f"{SECOND},routes=rules"]

# Answers each datagram by a name.
ANSWER = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.socket(family, socket.SOCK_DGRAM) as server:
    server.bind((sys.argv[1], 5000))
    print("ready", flush=True)
    while True:
        _, peer = server.recvfrom(100)
        server.sendto(sys.argv[2].encode(), peer)
"""
# Asks from an address; prints the name, or nothing.
ASK = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.socket(family, socket.SOCK_DGRAM) as client:
    client.settimeout(2)
    client.bind((sys.argv[1], 0))
    client.connect((sys.argv[2], 5000))
    client.send(b"who?")
    try:
        print(client.recv(100).decode(), end="")
    except OSError:
        pass
"""


def rule(verb, *words, version="-4"):
    ip("-n", MIDDLE, version, "rule", verb, *words)


class Rules(routed.Routed):
    """Two uplinks, both of which have the far addresses."""

    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: subprocess.run(
            ["ip", "netns", "del", UPLINK], capture_output=True, check=False))
        ip("netns", "add", UPLINK)
        ip("-n", UPLINK, "link", "set", "lo", "up")
        ip("-n", UPLINK, "link", "add", "eth0", "type", "veth", "peer", "name",
           "wan1", "netns", MIDDLE)
        ip("-n", MIDDLE, "link", "set", "wan1", "addrgenmode", "none", "up")
        ip("-n", UPLINK, "link", "set", "eth0", "up")
        ip("-n", UPLINK, "addr", "add", f"{UPLINK4}/24", "dev", "eth0")
        ip("-n", UPLINK, "addr", "add", f"{UPLINK6}/64", "dev", "eth0", "nodad")
        ip("-n", UPLINK, "route", "add", "default", "via", "203.0.113.1")
        ip("-n", UPLINK, "-6", "route", "add", "default", "via", "fd03::1")
        ip("-n", CLIENT, "addr", "add", f"{OTHER4}/24", "dev", "eth0")
        ip("-n", CLIENT, "addr", "add", f"{OTHER6}/64", "dev", "eth0", "nodad")
        for namespace, name in ((SERVER, "server"), (UPLINK, "uplink")):
            ip("-n", namespace, "addr", "add", f"{FAR4}/32", "dev", "lo")
            ip("-n", namespace, "addr", "add", f"{FAR6}/128", "dev", "lo",
               "nodad")
            for address in (FAR4, FAR6):
                self.answer(namespace, address, name)
        for table, gateway4, gateway6, port in (
                ("100", SERVER4, routed.SERVER6, "wan0"),
                ("200", UPLINK4, UPLINK6, "wan1")):
            for version, gateway in (("-4", gateway4), ("-6", gateway6)):
                ip("-n", MIDDLE, version, "route", "add", "default", "via",
                   gateway, "dev", port, "onlink", "table", table)

    def answer(self, namespace, address, name):
        process = subprocess.Popen(
            inside(namespace, sys.executable, "-c", ANSWER, address, name),
            stdout=subprocess.PIPE)

        def end():
            process.kill()
            process.wait()
            process.stdout.close()
        self.addCleanup(end)
        self.assertEqual(process.stdout.readline(), b"ready\n")

    @staticmethod
    def who(source, far=FAR4):
        return subprocess.run(
            inside(CLIENT, sys.executable, "-c", ASK, source, far),
            capture_output=True, text=True, check=True,
            timeout=PATIENCE_S).stdout

    @staticmethod
    def not_followed(port):
        """The counts of the ports outside."""
        page = net.peer(MIDDLE, "fetch", f"http://127.0.0.1:{port}/metrics")
        return [int(line.split()[-1]) for line in page
                if line.startswith("snf_port_router_total") and
                "rules_not_followed" in line and "outside" in line]

    def becomes(self, source, name, far=FAR4):
        wait_for(f"answer of {name}", lambda: self.who(source, far) == name)

    def test_sources_have_uplinks_of_their_own(self):
        rule("add", "from", CLIENT4, "lookup", "100")
        rule("add", "from", OTHER4, "lookup", "200")
        rule("add", "from", routed.CLIENT6, "lookup", "200", version="-6")
        rule("add", "from", OTHER6, "lookup", "100", version="-6")
        ip("-n", CLIENT, "addr", "add", f"{THIRD4}/24", "dev", "eth0")
        ip("-n", CLIENT, "route", "add", "8.8.8.8/32", "via", routed.LAN4,
           "src", THIRD4)
        with self.running("--nf=firewall", ports=PORTS):
            self.becomes(CLIENT4, "server")
            self.becomes(OTHER4, "uplink")
            self.becomes(routed.CLIENT6, "uplink", FAR6)
            self.becomes(OTHER6, "server", FAR6)
            # Neither a rule nor the main table has a route for others.
            self.assertEqual(routed.probe(CLIENT, "8.8.8.8")[:1],
                             [routed.WAN4])
            # Rules and routes change while it runs.
            rule("add", "from", CLIENT4, "to", FAR4, "lookup", "200",
                 "priority", "10")
            self.becomes(CLIENT4, "uplink")
            rule("del", "priority", "10")
            self.becomes(CLIENT4, "server")
            ip("-n", MIDDLE, "route", "replace", "unreachable", "default",
               "table", "200")
            ip("-n", CLIENT, "route", "add", f"{FAR4}/32", "via", routed.LAN4,
               "src", OTHER4)

            def has_no_route():
                try:
                    return routed.probe(CLIENT, FAR4)[:3] == [routed.WAN4, "3",
                                                              "0"]
                except AssertionError:  # no word came
                    return False
            wait_for("word that there is no route", has_no_route)
        self.assertGreaterEqual(self.router("outside1")["routes_taken"], 3)
        self.assertEqual(self.router("outside1")["rules_not_followed"], 0)

    def test_follows_the_port_where_packets_come_in(self):
        rule("add", "iif", "lan0", "lookup", "200")
        rule("add", "iif", "eth9", "lookup", "100", "priority", "5")
        rule("add", "fwmark", "7", "lookup", "100", "priority", "6")
        with self.running("--nf=passthrough", ports=PORTS):
            self.becomes(CLIENT4, "uplink")

    def test_behind_a_nat_sources_are_external_addresses(self):
        rule("add", "from", "192.0.2.5", "lookup", "100")
        rule("add", "from", "203.0.113.5", "lookup", "200")
        ports = [PORTS[0], PORTS[1], "--port",
                 f"{OUTSIDE},routes=rules,proxy=192.0.2.5", "--port",
                 f"{SECOND},routes=rules,proxy=203.0.113.5"]
        nat = f"--nf=nat(ip=192.0.2.5,pool={OTHER4}/32:203.0.113.5)"
        with self.running(nat, ports=ports):
            self.becomes(CLIENT4, "server")
            self.becomes(OTHER4, "uplink")

    def test_names_rules_that_it_does_not_follow(self):
        rule("add", "ipproto", "udp", "lookup", "100", "priority", "77")
        done = subprocess.run(
            net.in_network(MIDDLE, net.PROGRAM, "run", "--nf=passthrough",
                           *PORTS),
            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, net.UNAVAILABLE, done.stderr)
        self.assertIn("routes=rules: ports do not follow rule 77: ipproto",
                      done.stderr)
        rule("del", "priority", "77")
        rule("add", "from", "10.1.0.0/24", "lookup", "200")
        port = free_port()
        with self.running("--nf=passthrough", f"--metrics_port={port}",
                          ports=PORTS):
            self.becomes(CLIENT4, "uplink")
            # The ports keep what they have.
            rule("add", "dport", "5000", "lookup", "100", "priority", "78")
            wait_for("count", lambda: self.not_followed(port) == [1, 1])
            # Other news of the kernel are no change of the rules.
            ip("-n", MIDDLE, "link", "set", "lo", "alias", "news")
            self.assertEqual(self.who(CLIENT4), "uplink")
            rule("add", "from", "10.1.0.0/24", "lookup", "100", "priority", "9")
            wait_for("count", lambda: self.not_followed(port) == [2, 2])
            self.assertEqual(self.who(CLIENT4), "uplink")
            rule("del", "priority", "78")
            self.becomes(CLIENT4, "server")
        self.assertEqual(self.router("outside2")["rules_not_followed"], 2)


for inherited in [name for name in dir(routed.Routed)
                  if name.startswith("test_")]:
    setattr(Rules, inherited, None)

if __name__ == "__main__":
    net.main()

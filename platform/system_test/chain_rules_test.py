#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several chains of live traffic, of which rules choose.

    client eth0 ── lan0 [ snf up, three chains ] wan0 ── eth0 server

Wants root, and is skipped without.

Usage: chain_rules_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import daemon_faults_test
import run_test as net
from command_case import PATIENCE_S, USAGE, wait_for
from control_test import NAME, UNAVAILABLE, flows, status, told
from flows_test import TALK
from live_kills_test import PROCESSES
from run_test import (CLIENT, EXTERNAL4, MIDDLE, PORTS, PROGRAM, SERVER,
                      SERVER4, in_network, inside, ip, peer)

CHAINS = f"""
chain {{ name: "web" text: "firewall | nat(ip={EXTERNAL4})" }}
chain {{ name: "voice" text: "monitor" max_units: 2 }}
chain {{ name: "rest" text: "passthrough" }}
rule {{ match: "tcp from any to any port 7" chain: "web" }}
rule {{ match: "udp from any to {SERVER4}/32 port 7" chain: "voice" }}
rule {{ match: "icmp6" chain: "rest" }}
"""
REST = 'default_chain: "rest"\n'


class ChainRules(daemon_faults_test.DaemonFaults):
    def up_with(self, text, *words):
        file = self.folder / "site.conf"
        file.write_text(text)
        self.up(f"--config={file}", *words)
        ip("-n", SERVER, "neigh", "replace", EXTERNAL4, "lladdr",
           net.address_of_card(CLIENT), "dev", "eth0", "nud", "permanent")

    @staticmethod
    def pings():
        return len(peer(CLIENT, "ping", SERVER4, 2)) == 2

    def talk(self):
        done = subprocess.run(
            inside(CLIENT, sys.executable, "-c", TALK, SERVER4, 3, 0.5),
            capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        return int(done.stdout)

    def check_chains(self, *words):
        self.up_with(CHAINS + REST, *words)
        with self.server():
            self.assertEqual(peer(CLIENT, "tcp", SERVER4, 20, 1_000),
                             ["20 right"])
            self.assertGreater(self.talk(), 10)
            self.assertTrue(self.pings())
            chains = wait_for("figures", lambda: all(
                int(one["packets_in"]) > 1 for one in status()["chain"]) and
                status()["chain"])
            self.assertEqual([(one["number"], one["name"]) for one in chains],
                             [(1, "web"), (2, "voice"), (3, "rest")])
            self.assertIn("voice: ", told("status"))
            for words, chain in ((["udp"], 2), (["icmp"], 3)):
                found = flows(*words)["flow"]
                self.assertEqual({flow["chain"] for flow in found}, {chain})
            # Only this one translates.
            self.assertEqual({flow["chain"] for flow in flows()["flow"]
                              if flow["alias"]}, {1})
            self.assertGreater(flows("--delete", "udp")["flows"], 0)
            self.assertEqual(flows("udp")["flow"], [])
            self.assertEqual(peer(CLIENT, "tcp", SERVER4, 20, 1_000),
                             ["20 right"])
        report = self.down()
        self.check_sound(report)
        ports = report["ports"]
        self.assertEqual((ports["no_chain"], ports["answer_copies"]), (0, 0))
        earlier = report["earlier_chains"]
        self.assertEqual([chain["nf"] for chain in earlier],
                         [f"firewall | nat(ip={EXTERNAL4})", "monitor"])
        for chain in earlier:
            self.assertTrue(chain["conserved"], chain)
            self.assertGreater(chain["packets_in"], 10)

    def test_a_rule_chooses_the_chain_of_a_packet(self):
        self.check_chains()

    def test_the_same_of_processes_with_loggers(self):
        self.check_chains(*PROCESSES)

    def test_packets_without_a_chain_are_dropped_and_counted(self):
        self.up_with(CHAINS)
        with self.server():
            subprocess.run(inside(
                CLIENT, sys.executable, "-c", "import socket\n"
                "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                f"for _ in range(9): s.sendto(b'x', ('{SERVER4}', 9))"),
                check=True, timeout=PATIENCE_S)
            self.assertGreater(self.talk(), 10)
            wait_for("the count", lambda: int(status()["no_chain"]) >= 2)
            self.assertIn("dropped: no_chain", told("status"))
        report = self.down()
        self.check_sound(report)
        self.assertGreaterEqual(report["ports"]["no_chain"], 2)

    def test_says_what_several_chains_cannot_do(self):
        self.up_with(CHAINS + REST)
        words = ["several chains with rules"]
        for command in (["set", "alpha=0.5"], ["drain", "0"], ["units"],
                        ["kill", "0"], ["rules"]):
            self.refused(UNAVAILABLE, words, *command)
        done = subprocess.run(
            in_network(MIDDLE, PROGRAM, "chain", "set", "monitor",
                       f"--name={NAME}"), capture_output=True, text=True,
            check=False, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn(words[0], done.stderr)
        self.assertTrue(self.pings())
        self.check_sound(self.down())

    def test_does_not_come_up_with_what_cannot_be(self):
        file = self.folder / "site.conf"
        nat = f"nat(ip={EXTERNAL4})"
        for text, flags, words in (
                (CHAINS + f'chain {{ name: "more" text: "{nat}" }}\n', [],
                 ['"web"', '"more"', EXTERNAL4]),
                (CHAINS, ["--keep=10s", *PROCESSES], ["--keep", "one chain"]),
                (CHAINS, ["--pin"], ["--pin"])):
            file.write_text(text)
            done = subprocess.run(
                in_network(MIDDLE, PROGRAM, "up", f"--name={NAME}", *PORTS,
                           f"--config={file}", *flags), capture_output=True,
                text=True, check=False, timeout=PATIENCE_S)
            self.assertEqual(done.returncode, USAGE, done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)


# Those of the base are its own.
for name in dir(daemon_faults_test.DaemonFaults):
    if name.startswith("test_") and name not in vars(ChainRules):
        setattr(ChainRules, name, None)

if __name__ == "__main__":
    net.main("ChainRules")

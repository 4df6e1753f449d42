#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf rules`: the hits of a running firewall's rules, over all units.

    client eth0 ── lan0 [ snf up, units, loggers ] wan0 ── eth0 server

Wants root, and is skipped without.

Usage: rules_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import json
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import daemon_faults_test
import run_test as net
from command_case import PATIENCE_S, wait_for
from control_test import NAME, UNAVAILABLE, told
from live_kills_test import PROCESSES, UNITS
from run_test import CLIENT, MIDDLE, PROGRAM, SERVER4, in_network, peer

RULES = """# Of both directions.
allow icmp
deny  udp from any to any port 7
allow tcp from any to any port 7
deny  tcp
"""


class Rules(daemon_faults_test.DaemonFaults):
    def up_with_rules(self, *words, chain="firewall(rules={},counts=10)"):
        self.file = self.folder / "fw.rules"
        self.file.write_text(RULES)
        self.up(*words, "--nf=" + chain.format(self.file))

    @staticmethod
    def rules():
        return {rule["place"].split(":")[-1]: rule
                for rule in json.loads(told("rules", "--json"))["rule"]}

    def hits(self):
        """Of each rule by its line: times and packets."""
        return {line: (rule["times"], rule["packets"])
                for line, rule in self.rules().items()}

    def check_hits(self, *words, kill=False):
        self.up_with_rules(*words)
        with self.server():
            rules = self.rules()
            self.assertEqual(rules["3"]["text"],
                             "deny udp from any to any port 7")
            self.assertEqual((rules["3"]["place"], rules["3"]["nf"]),
                             (f"{self.file}:3", ""))
            self.assertEqual({rules[line]["last"] for line in "345"}, {""})
            self.assertIn("never", told("rules"))
            peer(CLIENT, "ping", SERVER4, 5)
            peer(CLIENT, "udp", SERVER4, 10)  # three times, for want of echoes
            wait_for("hits", lambda: self.hits()["3"] == (1, 3)
                     and self.hits()["2"][1] >= 10)
            rules = self.rules()
            self.assertEqual(rules["3"]["bytes"], 3 * (14 + 20 + 8 + 10))
            self.assertEqual((rules["4"]["packets"], rules["5"]["packets"]),
                             (0, 0))
            self.assertRegex(rules["3"]["last"], r"^20\d\d-.*\+0000$")
            self.assertEqual(rules["4"]["last"], "")
            if kill:
                self.kill_a_unit()
            peer(CLIENT, "tcp", SERVER4, 5, 10_000)
            wait_for("hits", lambda: self.hits()["4"][0] == 5)
            wait_for("bytes",
                     lambda: self.rules()["4"]["bytes"] > 2 * 5 * 10_000)
            self.assertGreater(self.rules()["4"]["last"],
                               self.rules()["3"]["last"])
            self.assertEqual(self.hits()["3"], (1, 3))
        self.check_sound(self.down())

    def kill_a_unit(self):
        before = self.part(UNITS)
        told("kill", "0")
        wait_for("another process",
                 lambda: len(self.part(UNITS)) == len(before)
                 and set(self.part(UNITS)) != set(before))

    @staticmethod
    def set_chain(text):
        subprocess.run(in_network(MIDDLE, PROGRAM, "chain", "set", text,
                                  f"--name={NAME}"), check=True,
                       stdout=subprocess.DEVNULL, timeout=PATIENCE_S)

    def test_hits_are_those_of_all_units(self):
        self.check_hits()

    def test_hits_outlive_units_that_are_killed(self):
        self.check_hits(*PROCESSES, kill=True)

    def test_they_are_told_again_and_again(self):
        self.up_with_rules()
        watch = subprocess.Popen(
            in_network(MIDDLE, PROGRAM, "rules", "--watch", "--json",
                       f"--name={NAME}"),
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(watch.stdout.close)
        self.addCleanup(watch.kill)
        first = json.loads(watch.stdout.readline())
        peer(CLIENT, "ping", SERVER4, 3)
        packets = 0
        while packets == 0:
            packets = json.loads(watch.stdout.readline())["rule"][0]["packets"]
        self.assertEqual(first["rule"][0]["packets"], 0)
        self.down()
        self.assertIsNotNone(watch.wait(timeout=PATIENCE_S))

    def test_the_newest_chain_has_them_and_some_have_none(self):
        self.up_with_rules(chain="firewall(rules={},counts=2) | monitor")
        self.assertEqual([rule["nf"] for rule in json.loads(
            told("rules", "--json"))["rule"]], 3 * ["firewall"])
        self.file.write_text("deny tcp\n")
        self.set_chain(f"firewall(rules={self.file},counts=9)")
        self.assertEqual(set(self.hits()), {"1", "default"})
        self.set_chain(f"firewall(rules={self.file})")
        self.refused(UNAVAILABLE, ["counts rules", "firewall(counts=1000)"],
                     "rules")
        self.down()


# Those of the base are its own.
for name in dir(daemon_faults_test.DaemonFaults):
    if name.startswith("test_") and name not in vars(Rules):
        setattr(Rules, name, None)

if __name__ == "__main__":
    net.main("Rules")

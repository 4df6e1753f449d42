#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several chains of live traffic, of which rules choose.

    client eth0 ── lan0 [ snf up, three chains ] wan0 ── eth0 server

Wants root, and is skipped without.

Usage: chain_rules_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import daemon_faults_test
import run_test as net
from command_case import OK, PATIENCE_S, USAGE, below, is_alive, wait_for
from control_test import (FOLDER, NAME, UNAVAILABLE, flows, processes, status,
                          told)
from flows_test import TALK
from kept_connection import Connected, snf
from live_kills_test import PROCESSES, UNITS, processes_of
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


class ChainRules(Connected, daemon_faults_test.DaemonFaults):
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
        """How many of twelve datagrams are answered."""
        done = subprocess.run(
            inside(CLIENT, sys.executable, "-c", TALK, SERVER4, 3, 20, 12),
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

    def test_chains_keep_states_in_a_store_of_their_own(self):
        """Each is a hash of its own in one Redis, as flows of both chains have
        equal numbers; so has a chain that takes the place of another."""
        if shutil.which("redis-server") is None:
            self.skipTest("wants redis-server")
        path = self.folder / "redis"
        redis = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", path, "--save", ""],
            stdout=subprocess.DEVNULL)
        self.addCleanup(redis.wait)
        self.addCleanup(redis.kill)
        wait_for("the store", path.exists)

        def hashes():
            return subprocess.run(
                ["redis-cli", "-s", path, "keys", "snf:*"], check=True,
                capture_output=True, text=True).stdout.split()
        self.up_with(CHAINS + REST, "--state=external", f"--redis=unix:{path}",
                     "--flowlet_timeout=10ms")
        with self.server():
            def stored():
                self.assertGreater(self.talk(), 10)
                self.assertEqual(peer(CLIENT, "tcp", SERVER4, 20, 1_000),
                                 ["20 right"])
                return len(hashes())
            wait_for("states of two chains", lambda: stored() >= 2)
            self.said("chain", "set", "voice", "firewall | monitor")
            wait_for("states of a third one", lambda: stored() >= 3)
        report = self.down()
        self.check_sound(report)
        self.assertEqual(hashes(), [])

    def test_packets_without_a_chain_are_dropped_and_counted(self):
        drops = self.folder / "drops.pcapng"
        self.up_with(CHAINS, f"--drops={drops}")
        capture = subprocess.Popen(
            in_network(MIDDLE, PROGRAM, "capture", f"--name={NAME}", "--drops",
                       "--count=2", "udp port 9"),
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(capture.stdout.close)
        self.addCleanup(capture.wait)
        self.addCleanup(capture.kill)
        wait_for("the capture", lambda: " begins: " in
                 (FOLDER / f"{NAME}.log").read_text())
        with self.server():
            subprocess.run(inside(
                CLIENT, sys.executable, "-c", "import socket\n"
                "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                f"for _ in range(9): s.sendto(b'x', ('{SERVER4}', 9))"),
                check=True, timeout=PATIENCE_S)
            self.assertGreater(self.talk(), 10)
            wait_for("the count", lambda: int(status()["no_chain"]) >= 2)
            self.assertIn("dropped: no_chain", told("status"))
        self.assertEqual(capture.communicate(timeout=PATIENCE_S)[0].count(
            "dropped=no_chain"), 2)
        report = self.down()
        self.assertGreaterEqual(drops.read_bytes().count(b"dropped=no_chain"),
                                2)
        self.check_sound(report)
        self.assertGreaterEqual(report["ports"]["no_chain"], 2)

    def chains(self):
        return [(one["number"], one["name"], one["nf"])
                for one in status()["chain"]]

    def said(self, *words):
        done = snf(*words)
        self.assertEqual(done.returncode, OK, done.stderr)
        return done.stdout

    def test_a_chain_is_set_beside_the_others(self):
        self.up_with(CHAINS + REST)
        nat = f"nat(ip={EXTERNAL4})"
        with self.server():
            first = self.connection()
            reply = self.set("web", f"firewall | monitor | {nat}")
            self.assertEqual((reply["number"], reply["older_flows"]), (4, 1))
            wait_for("figures", lambda: self.chains()[:2] == [
                (1, "web", f"firewall | {nat}"),
                (4, "web", f"firewall | monitor | {nat}")])
            second = self.connection()
            self.assertEqual([first.says(), second.says()], ["right"] * 2)
            self.assertEqual({flow["chain"] for flow in flows("tcp")["flow"]},
                             {1, 4})
            # Ports that are at the older one are not given twice.
            self.assertEqual(len({flow["alias"] for flow in
                                  flows("tcp")["flow"]}), 2)
            for words, why in (
                    (["monitor"], "name one of web, voice, rest"),
                    (["phone", "monitor"], 'no chain "phone"'),
                    (["voice", nat], EXTERNAL4),
                    (["voice", "no_such_nf"], "no_such_nf")):
                done = snf("chain", "set", *words)
                self.assertEqual(done.returncode, USAGE, done.stderr)
                self.assertIn(why, done.stderr)
            # The address moves to another chain, with its free ports.
            self.set("web", "firewall")
            self.set("voice", nat)
            self.assertGreater(self.talk(), 10)
            self.assertEqual([first.says(), second.says()], ["right"] * 2)
            aliases = [flow["alias"] for flow in flows("")["flow"]
                       if flow["alias"]]
            self.assertEqual(len(set(aliases)), len(aliases))
            self.assertEqual({flow["chain"] for flow in flows("udp")["flow"]
                              if flow["alias"]}, {6})
        self.check_sound(self.down())

    def test_units_settings_and_rules_of_each_chain(self):
        self.up_with(CHAINS.replace("firewall |", "firewall(counts=9) |")
                     + REST, *PROCESSES)
        with self.server():
            self.assertEqual(peer(CLIENT, "tcp", SERVER4, 20, 1_000),
                             ["20 right"])
            self.assertGreater(self.talk(), 10)
            self.assertTrue(self.pings())

            def of(*words):
                return json.loads(told("units", "--json", *words))["unit"]
            wait_for("packets of all", lambda: {
                unit["chain"] for unit in of() if int(unit["packets"]) > 0} ==
                {"web", "voice", "rest"})
            self.assertEqual({unit["chain"] for unit in of("--chain=voice")},
                             {"voice"})
            self.refused(USAGE, ['no chain "x"'], "units", "--chain=x")
            self.assertIn("voice", told("units"))
            for command in ("drain", "kill"):
                self.refused(USAGE, ["name one of web, voice, rest"],
                             command, "0")
                self.refused(USAGE, ['no chain "x"'], command, "0",
                             "--chain=x")
            told("drain", "0", "--chain=voice")
            drained = wait_for("a drained unit", lambda: [
                unit for unit in of() if unit["is_drained"]])
            self.assertEqual([(unit["chain"], unit["id"]) for unit in drained],
                             [("voice", 0)])
            # All chains have the setting, or none.
            told("drain", "0", "--chain=rest")
            self.refused(UNAVAILABLE, ["drained"], "set", "max_units=1")
            told("drain", "0", "--undo", "--chain=rest")
            told("set", "max_units=1", "alpha=0.5")
            self.assertGreater(self.talk(), 10)
            self.assertIn("Killed process", told("kill", "0", "--chain=web"))
            self.assertEqual(peer(CLIENT, "tcp", SERVER4, 20, 1_000),
                             ["20 right"])
            rule = wait_for("hits", lambda: [
                rule for rule in json.loads(told("rules", "--json"))["rule"]
                if int(rule["packets"]) > 0])[0]
            self.assertEqual(rule["chain"], "web")
        report = self.down()
        self.assertEqual(report["violation_messages"], [])

    def test_a_file_changes_chains_and_rules(self):
        self.up_with(CHAINS + REST)
        file = self.folder / "site.conf"
        with self.server():
            first = self.connection()
            file.write_text(CHAINS.replace('"monitor"', '"firewall"').replace(
                'icmp6" chain: "rest"', 'icmp" chain: "voice"') + REST)
            self.assertIn("rules", self.said("config", "apply", file))
            wait_for("figures", lambda: [
                nf for _, name, nf in self.chains()
                if name == "voice"][-1] == "firewall")
            self.assertTrue(self.pings())
            self.assertIn("voice", {
                one["name"] for one in status()["chain"] for flow in
                flows("icmp")["flow"] if flow["chain"] == one["number"]})
            self.assertEqual(first.says(), "right")
            shown = self.said("config", "show")
            self.assertIn('text: "firewall"', shown)
            # Other names, or other sizes, want a restart; nothing changes.
            for before, after, word in (("voice", "phone", "chains"),
                                        ("max_units: 2", "max_units: 3",
                                         "sizes")):
                text = file.read_text()
                file.write_text(text.replace(before, after))
                done = snf("config", "apply", file)
                self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
                self.assertIn(word, done.stderr)
                self.assertIn("wants a restart", done.stderr)
                file.write_text(text)
            self.assertTrue(self.pings())
        self.check_sound(self.down())

    def test_chains_are_set_back_if_one_of_a_file_cannot_be_set(self):
        web, voice, *others = CHAINS.strip().splitlines()
        text = "\n".join([voice, web, *others, REST])
        self.up_with(text)
        file = self.folder / "site.conf"
        nat = f"nat(ip={EXTERNAL4})"
        with self.server():
            stay = [self.connection()]
            for _ in range(3):  # as many as may have flows
                self.set("web", f"firewall | monitor | {nat}")
                stay.append(self.connection())
            file.write_text(text.replace("firewall |", "monitor |").replace(
                '"monitor"', '"firewall"'))
            done = snf("config", "apply", file)
            self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
            self.assertIn("nothing has changed", done.stderr)
            self.assertIn("older chains", done.stderr)
            self.assertIn(", voice: firewall", self.log())
            self.assertRegex(self.log(), r"chain \d+, voice: monitor")
            self.assertNotIn("web: monitor", self.log())
            wait_for("the chain as before", lambda: [
                nf for _, name, nf in self.chains()
                if name == "voice"][-1] == "monitor")
            self.assertEqual({one.says() for one in stay}, {"right"})
        self.check_sound(self.down())

    def launchers(self):
        return {pid for pid in below(self.pid)
                if "unit-process" in pathlib.Path(
                    f"/proc/{pid}/cmdline").read_text()
                and processes_of(pid, UNITS)}

    def test_a_chain_fails_and_restarts_beside_the_others(self):
        self.up_with(CHAINS + REST, *PROCESSES)
        with self.server():
            first = self.connection()
            launchers = sorted(wait_for(
                "launchers", lambda: len(self.launchers()) == 3 and
                self.launchers()))
            # They started in the order of the chains.
            os.kill(launchers[1], signal.SIGKILL)
            wait_for("word of it", lambda: "chain 2 has failed" in self.log())
            for _ in range(20):
                self.assertEqual(first.says(1_000), "right")
            wait_for("its return", lambda: "chain 2 is back" in self.log())
            self.assertGreater(self.talk(), 10)
            self.assertEqual(first.says(), "right")
            self.assertNotIn("chain 1 has failed", self.log())
        report = self.down()
        self.assertEqual(report["violation_messages"], [])
        self.assertTrue(any("Chain 2" in line and "restarted" in line
                            for line in report["warnings"]))

    def test_a_killed_daemon_leaves_all_chains_to_the_next(self):
        words = [*PROCESSES, "--keep=60s"]
        self.up_with(CHAINS + REST, *words)
        with self.server():
            first = self.connection()
            self.set("voice", "firewall")
            self.set("web", f"firewall | monitor | nat(ip={EXTERNAL4})")
            second = self.connection()
            self.assertGreater(self.talk(), 10)
            newest = (5, "web", f"firewall | monitor | nat(ip={EXTERNAL4})")
            wait_for("figures", lambda: newest in self.chains())
            chains = self.chains()
            for _ in range(2):
                self.kill_daemon()
                self.up_with(CHAINS + REST, *words)
                wait_for("figures", lambda: self.chains() == chains)
                self.assertEqual([first.says(), second.says()], ["right"] * 2)
                self.assertGreater(self.talk(), 10)
                self.assertTrue(self.pings())
                third = self.connection()
                aliases = [flow["alias"] for flow in flows("tcp")["flow"]]
                self.assertGreaterEqual(len(aliases), 3)
                self.assertEqual(len(set(aliases)), len(aliases))
                third.close()
            # Without a chain that the notes name, its processes end.
            self.kill_daemon()
            lines = [line for line in (CHAINS + REST).splitlines()
                     if "voice" not in line]
            self.up_with("\n".join(lines), *words)
            self.assertIn('"voice", which is not there any more', self.log())
            self.assertEqual([first.says(), second.says()], ["right"] * 2)
        report = self.down()
        self.assertEqual(report["violation_messages"], [])

    def test_another_daemon_takes_over_all_chains(self):
        self.up_with(CHAINS + REST)
        old = self.pid
        file = self.folder / "next.conf"
        file.write_text(CHAINS.replace('"monitor"', '"firewall"') + REST)
        with self.server():
            first = self.connection()
            done = snf("up", *PORTS, f"--config={file}", "--upgrade",
                       f"--json={self.folder}/next.json")
            self.assertEqual(done.returncode, OK, done.stderr)
            self.pid, = processes() - {old}
            second = self.connection()
            for _ in range(5):
                self.assertEqual([first.says(), second.says()], ["right"] * 2)
            self.assertEqual(len(flows("tcp")["flow"]), 1)
            self.assertGreater(self.talk(), 10)
            self.assertTrue(self.pings())
            # The first daemon still has the connection that it began with.
            self.assertTrue(is_alive(old))
            first.close()
            os.kill(old, signal.SIGTERM)
            wait_for("end of the first", lambda: processes() == {self.pid})
            self.assertEqual(second.says(), "right")
        self.check_sound(json.loads(
            (self.folder / "report.json").read_text()))
        self.assertEqual(snf("down").returncode, OK)
        self.check_sound(json.loads((self.folder / "next.json").read_text()))

    def test_does_not_come_up_with_what_cannot_be(self):
        file = self.folder / "site.conf"
        nat = f"nat(ip={EXTERNAL4})"
        for text, flags, words in (
                (CHAINS + f'chain {{ name: "more" text: "{nat}" }}\n', [],
                 ['"web"', '"more"', EXTERNAL4]),
                (CHAINS, ["--controller=0/2"], ["--controller", "one controller"])):
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

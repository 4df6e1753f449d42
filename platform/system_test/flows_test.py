#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf flows` of a NAT: flows are found by their outside end, and deleted.

    client eth0 ── lan0 [ snf up, units, loggers ] wan0 ── eth0 server

Wants root, and is skipped without.

Usage: flows_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # nothing beside the sources
import daemon_faults_test
import run_test as net
from command_case import OK, PATIENCE_S, USAGE, wait_for
from control_test import NAME, UNAVAILABLE, flows, snf, status, told
from live_kills_test import LOGGERS, PROCESSES, UNITS
from run_test import (CLIENT, CLIENT4, EXTERNAL4, MIDDLE, PROGRAM, SERVER,
                      SERVER4, in_network, inside, ip)

KEY = f"udp {CLIENT4}:5000"
# Datagrams from so many ports, one each millisecond; prints how many echoes
# came.
TALK = """
import select, signal, socket, sys, time
stops = []
signal.signal(signal.SIGTERM, lambda *_: stops.append(True))
ports, seconds = int(sys.argv[2]), float(sys.argv[3])
sockets = []
for port in range(5000, 5000 + ports):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("", port))
    s.connect((sys.argv[1], 7))
    s.setblocking(False)
    sockets.append(s)
echoes, n, end = 0, 0, time.monotonic() + seconds
most = int(sys.argv[4]) if len(sys.argv) > 4 else None
while time.monotonic() < end and (n != most or echoes < most) and not stops:
    if n != most:
        sockets[n % ports].send(b"%d" % n)
        n += 1
    for s in select.select(sockets, [], [], 0.001)[0]:
        echoes += len(s.recv(100)) > 0
print(echoes)
"""


class Flows(daemon_faults_test.DaemonFaults):
    def up_as_nat(self, *words, options=""):
        self.bindings = self.folder / "logs/nat.bindings.log"
        self.up(f"--nf_logs={self.folder}/logs", *words, "--nf=firewall | "
                f"nat(ip={EXTERNAL4},log_bindings=true{options})")
        ip("-n", SERVER, "neigh", "replace", EXTERNAL4, "lladdr",
           net.address_of_card(CLIENT), "dev", "eth0", "nud", "permanent")

    @staticmethod
    def talk(ports, seconds, *most):
        """Datagrams for so long, or until as many as `most` were answered."""
        return subprocess.Popen(
            inside(CLIENT, sys.executable, "-c", TALK, SERVER4, ports, seconds,
                   *most),
            stdout=subprocess.PIPE, text=True)

    def echoes(self, talk):
        said, _ = talk.communicate(timeout=PATIENCE_S)
        self.assertEqual(talk.returncode, 0)
        return int(said)

    def events(self):
        return [line["event"] for line in map(
            json.loads, self.bindings.read_text().splitlines())]

    def check_found_and_deleted(self, *words):
        self.up_as_nat(*words)
        with self.server():
            self.assertGreater(self.echoes(self.talk(1, 0.3)), 10)
            flow, = flows("udp and host", CLIENT4)["flow"]
            alias = flow["alias"]
            self.assertRegex(alias, rf"^udp {EXTERNAL4}:\d+$")
            port = alias.split(":")[1]
            for words in (["host", EXTERNAL4], ["host", EXTERNAL4, "and port",
                                                port], [KEY], [alias]):
                found = flows(*words)["flow"]
                self.assertEqual([(flow["key"], flow["alias"])
                                  for flow in found], [(KEY, alias)], words)
            for words in (["host 10.77.0.101"], [f"udp {EXTERNAL4}:1"],
                          ["host", EXTERNAL4, "and tcp"]):
                self.assertEqual(flows(*words)["flow"], [], words)
            self.assertIn(alias, told("flows", "host", EXTERNAL4))
            self.assertEqual(self.events(), ["created"])

            deleted = flows("--delete", alias)
            self.assertEqual(deleted["flows"], 1)
            self.assertEqual(deleted["flow"][0]["key"], KEY)
            self.assertEqual(flows(KEY)["flow"], [])
            wait_for("its port", lambda: self.events()[1:] == ["released"])
            wait_for("the count", lambda: "1 deleted" in told("status"))
            self.assertIn(f'deleted 1 flow of "{alias}"', self.log())
            self.refused(UNAVAILABLE, ["no flow", KEY], "flows", "--delete", KEY)

            # It begins anew: the clock counts from the start.
            self.assertGreater(self.echoes(self.talk(1, 20, 4)), 2)
            self.assertEqual(self.events(), ["created", "released", "created"])
            again, = flows(KEY)["flow"]
            self.assertLess(again["clock"], deleted["flow"][0]["clock"])
        report = self.down()
        self.check_sound(report)

    def test_a_flow_is_found_by_its_outside_end_and_deleted(self):
        self.check_found_and_deleted()

    def test_the_same_of_processes_with_loggers(self):
        self.check_found_and_deleted(*PROCESSES)

    def test_a_subscriber_of_a_nat_has_the_ports_of_its_block(self):
        for words in ([], PROCESSES):
            self.up_as_nat(*words, options=",port_block=128,"
                                           "subscribers=10.77.0.0/29")
            with self.subTest(words=words), self.server():
                talk = self.talk(100, 2)
                if words:
                    told("kill", "0")
                self.assertGreater(self.echoes(talk), 100)
                ports = [int(flow["alias"].split(":")[1])
                         for flow in flows("--limit=200", "udp")["flow"]]
                self.assertEqual((len(ports), len(set(ports))), (100, 100))
                # 10.77.0.2 is the third of the network.
                self.assertGreaterEqual(min(ports), 1024 + 2 * 128)
                self.assertLess(max(ports), 1024 + 3 * 128)
            self.check_sound(self.down())

    def test_flows_of_older_chains_are_found_and_deleted(self):
        self.up_as_nat()
        with self.server():
            self.assertGreater(self.echoes(self.talk(3, 0.3)), 10)
            for spec in (f"nat(ip={EXTERNAL4})", "monitor"):
                subprocess.run(
                    in_network(MIDDLE, PROGRAM, "chain", "set", spec,
                               f"--name={NAME}"), check=True,
                    capture_output=True, timeout=PATIENCE_S)
            # Old ports stay with chain 1, the fourth is of the newest.
            self.assertGreater(self.echoes(self.talk(4, 0.3)), 10)
            found = flows("udp")
            self.assertEqual(found["flows"], 4)
            self.assertEqual({flow["key"].split(" > ")[0]: flow["chain"]
                              for flow in found["flow"]},
                             {KEY: 1, KEY[:-1] + "1": 1, KEY[:-1] + "2": 1,
                              KEY[:-1] + "3": 3})
            self.assertIn(" chain ", told("flows", "udp"))
            self.assertEqual(flows("--limit=2", "udp")["flows"], 4)

            self.assertEqual(flows("--delete", KEY)["flows"], 1)
            self.assertEqual(flows("udp")["flows"], 3)
            self.assertEqual(flows("--delete", "udp")["flows"], 3)
            told("flows", "--delete", "ip or ip6")  # neighbours'
            # So the older chain ends.
            wait_for("one chain", lambda: [
                one["number"] for one in status()["chain"]] == [3])
        self.down()

    def test_deletions_say_what_they_want(self):
        self.up_as_nat()
        self.refused(USAGE, ["filter or a unit"], "flows", "--delete")
        self.refused(USAGE, ["--watch"], "flows", "--delete", "--watch", "udp")
        self.refused(USAGE, ["nonsense"], "flows", "--delete", "nonsense(")
        self.refused(UNAVAILABLE, ["no flow", "unit 7"], "flows", "--delete",
                     "--unit=7")
        self.down()

    def delete_amid_talk(self, hurt):
        """Deletes flows again and again, and returns how many."""
        talk = self.talk(50, 35)
        talking = time.monotonic() + 30
        wait_for("flows", lambda: flows()["flows"] >= 50)
        deleted = 0
        for number in itertools.count():
            if (number >= 30 and deleted > 200) or time.monotonic() > talking:
                break
            if hurt and number in (10, 20):
                name = UNITS if number == 10 else LOGGERS
                os.kill(self.part(name)[0], signal.SIGKILL)
            done = snf("flows", "--delete", "--json", "udp")
            if done.returncode == OK:
                deleted += json.loads(done.stdout)["flows"]
            else:  # units take over what a killed one had
                self.assertIn("still at another unit", done.stderr)
            time.sleep(0.05)
        talk.terminate()
        self.assertGreater(self.echoes(talk), 100)
        return deleted

    def test_nothing_is_lost_or_kept_where_flows_are_deleted_amid_traffic(self):
        for words in ([], PROCESSES):
            with self.subTest(words=words), self.server():
                self.up_as_nat(*words, "--unit_capacity=200kbps")
                deleted = 0
                for hurt in (bool(words), False, False):
                    if deleted > 200:
                        break  # a slow machine takes more than one talk
                    deleted += self.delete_amid_talk(hurt)
                self.assertGreater(deleted, 200)
                wait_for("the end of all", lambda: "no flow is" in snf(
                    "flows", "--delete", "ip or ip6").stderr)
                wait_for("ports", lambda: self.events().count("created")
                         == self.events().count("released"))
                wait_for("the count", lambda least=deleted: status()[
                    "count"].get("(flows_deleted)", 0) >= least)
                self.bindings.unlink()
                self.check_sound(self.down())


# Those of the base are its own.
for name in dir(daemon_faults_test.DaemonFaults):
    if name.startswith("test_") and name not in vars(Flows):
        setattr(Flows, name, None)

if __name__ == "__main__":
    net.main("Flows")

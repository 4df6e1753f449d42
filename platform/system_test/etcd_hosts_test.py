#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon whose units run on the hosts that etcd keeps: `snf up --etcd`.

    home: snf up, etcd, snf host join …      away: snf host serve, twice

The two agents are hosts of one network namespace, at two ports. Wants root and
etcd, and is skipped without.

Usage: etcd_hosts_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import OK, PROGRAM, USAGE, udp_frame, wait_for
from etcd_peer import Etcd, skip_without_etcd
from host_pair import AWAY, AWAY_ADDRESS, HOME, HOME_ADDRESS, HostPair
from joined_hosts import PORTS, JoinedHosts
from needs import skip_without_namespaces

# Sends frames of 60 flows, 400 a second, until stdin ends: prints how many.
SEND = """
import select, socket, sys, time
frames = [bytes.fromhex(line) for line in sys.argv[1:]]
sent = 0
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as port:
    port.bind(("lanp", 0))
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        for _ in range(8):
            port.send(frames[sent * 7 % len(frames)])
            sent += 1
print(sent)
"""


class EtcdHosts(JoinedHosts, HostPair):
    ETCD = "127.0.0.1"  # its address at home

    def setUp(self):
        super().setUp()
        self.inside = ["ip", "netns", "exec", HOME]
        self.etcd = Etcd(self.inside, self.ETCD)
        self.addCleanup(self.etcd.end)
        self.at = f"--etcd={self.etcd.endpoint}"
        self.ports()
        self.log = pathlib.Path(self.folder.name) / "log.txt"
        self.name = f"etcd-{os.getpid()}"

    def up(self, *flags):
        # A unit of a busy machine starts slowly.
        self.up_at_ports(self.name, self.log, self.at, "--start_buffer=100000",
                         "--unit_queue=100000", *flags)

    def status(self):
        done = self.home(PROGRAM, "status", f"--name={self.name}", "--json")
        self.assertEqual(done.returncode, OK, done.stderr)
        return json.loads(done.stdout)

    def hosts(self):
        """The state of each host."""
        return {host["name"]: host["state"]
                for host in self.status().get("host", [])}

    def serving(self):
        """The hosts whose units take packets now, by their number of units."""
        def packets():
            done = self.home(PROGRAM, "units", f"--name={self.name}", "--json")
            self.assertEqual(done.returncode, OK, done.stderr)
            units = json.loads(done.stdout)
            return {(unit["id"] if "id" in unit else 0, unit.get("host", "")):
                    int(unit.get("packets", 0))
                    for unit in units.get("unit", [])}
        before = packets()
        time.sleep(1)  # in which each unit gets a hundred packets
        after = packets()
        found = {}
        for unit, count in after.items():
            if count > before.get(unit, count):
                found[unit[1]] = found.get(unit[1], 0) + 1
        return found

    def said(self):
        return self.log.read_text()

    @contextlib.contextmanager
    def traffic(self):
        """Frames that go through while the block runs, and all come out."""
        frames = [udp_frame(5000 + i).hex() for i in range(60)]
        with subprocess.Popen(
                [*self.inside, sys.executable, "-c", SEND, *frames],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True) as sender:
            try:
                yield
            finally:
                sent, _ = sender.communicate(timeout=60)

        def counts():
            return {key: int(value)
                    for key, value in self.status()["count"].items()}
        def dropped():
            return {drop["reason"]: int(drop["packets"])
                    for drop in self.status().get("drop", [])
                    if int(drop.get("packets", 0))}
        try:
            wait_for("all packets", lambda: counts()["packets_released"] +
                     counts().get("packets_passed_through", 0) +
                     sum(dropped().values()) >= int(sent))
        except AssertionError:
            self.fail(f"of {sent} packets: {counts()}, {dropped()}; "
                      f"{self.said()}")
        self.assertEqual(dropped(), {}, self.said())
        self.assertEqual(counts().get("faults.packets_lost", 0), 0)


class Membership(EtcdHosts):
    def test_units_are_where_hosts_have_joined_and_leave_without_a_loss(self):
        self.up()
        with self.traffic():
            wait_for("own unit", lambda: self.serving() == {"": 1})
            self.serve("b")
            self.join("b", "--units=2")
            wait_for("units on b", lambda: self.serving() == {"": 1, "b": 2})
            wait_for("b joined", lambda: self.hosts() == {"b": "joined"})
            self.serve("c")
            self.join("c", "--units=3")
            wait_for("a unit on c",
                     lambda: self.serving() == {"": 1, "b": 2, "c": 1})
            text = self.home(PROGRAM, "status", f"--name={self.name}").stdout
            self.assertRegex(text, r"host +b \(10.99.7.2:7000\) joined, for 2 "
                                   r"units at most: 1, 2\n")
            done = self.home(PROGRAM, "host", "leave", "b", self.at)
            self.assertEqual(done.returncode, OK, done.stderr)
            wait_for("units on c", lambda: self.serving() == {"": 1, "c": 3})
            wait_for("b gone", lambda: self.hosts() == {"c": "joined"})
        said = self.said()
        for words in ("host b (10.99.7.2:7000) has joined, for 2 units",
                      "host b (10.99.7.2:7000) has left"):
            self.assertEqual(said.count(words), 1, said)
        self.assertNotIn("is lost", said)

    def test_a_host_whose_lease_has_ended_gets_no_units(self):
        self.serve("b")
        joined = self.join("b", "--units=3", "--term=2s")
        self.up()
        with self.traffic():
            wait_for("units on b", lambda: self.serving() == {"": 1, "b": 3})
            joined.kill()
            wait_for("b gone", lambda: self.hosts() == {})
            wait_for("own unit alone", lambda: self.serving() == {"": 1})

    def test_units_are_elsewhere_while_a_host_does_not_answer(self):
        agent = self.serve("b")
        self.join("b", "--units=3", "--term=60s")
        self.up()
        with self.traffic():
            wait_for("units on b", lambda: self.serving() == {"": 1, "b": 3})
            self.end_all(agent)
            wait_for("silence", lambda: self.hosts() == {"b": "silent"})
            wait_for("own unit alone", lambda: self.serving() == {"": 1})
            self.serve("b")
            wait_for("units on b", lambda: self.serving() == {"": 1, "b": 3})
            wait_for("b joined", lambda: self.hosts() == {"b": "joined"})


class Shown(EtcdHosts):
    def test_units_of_hosts_that_come_and_go_read_states_in_place(self):
        path = pathlib.Path(self.folder.name) / "report.json"
        self.up("--host_state", f"--json={path}")
        with self.traffic():
            for name, units in (("b", 3), ("c", 2)):
                self.serve(name)
                self.join(name, f"--units={units}")
            wait_for("units on b", lambda: self.serving() == {"": 1, "b": 3})
            done = self.home(PROGRAM, "host", "leave", "b", self.at)
            self.assertEqual(done.returncode, OK, done.stderr)
            wait_for("units on c", lambda: self.serving() == {"": 1, "c": 2})
        self.home(PROGRAM, "down", f"--name={self.name}")
        wait_for("report", path.exists)
        records = json.loads(path.read_text())["host_records"]
        self.assertGreater(records["read"], 0, records)
        self.assertEqual(records["missed"]["malformed"], 0, records)


class ByGeneve(EtcdHosts):
    """With --host_wire=geneve."""

    ETCD = HOME_ADDRESS

    def geneve_ports(self):
        """How many channels of units go to the host away."""
        listed = self.home("ss", "-Hun").stdout
        return listed.count(f"{AWAY_ADDRESS}:6081")

    def test_units_run_on_hosts_that_have_joined_with_geneve(self):
        self.up("--host_wire=geneve")
        with self.traffic():
            self.serve("b", "--geneve")
            self.join("b", "--units=2", "--geneve")
            wait_for("units on b", lambda: self.serving() == {"": 1, "b": 2})
            # Five channels a process of units.
            self.assertGreaterEqual(self.geneve_ports(), 10)
            self.serve("c", "--geneve")
            self.join("c", "--units=1", "--geneve")
            wait_for("a unit on c",
                     lambda: self.serving() == {"": 1, "b": 2, "c": 1})
            done = self.home(PROGRAM, "host", "leave", "b", self.at)
            self.assertEqual(done.returncode, OK, done.stderr)
            wait_for("b gone", lambda: self.hosts() == {"c": "joined"})
            wait_for("unit on c", lambda: self.serving() == {"": 1, "c": 1})
        self.assertIn("host b (10.99.7.2:7000) has joined, for 2 units, by "
                      "GENEVE", self.said())
        listed = self.home(PROGRAM, "host", "list", self.at).stdout
        self.assertIn("tcp, geneve", listed)

    def test_hosts_without_geneve_are_refused_by_name(self):
        self.serve("c")
        self.join("c", "--units=1")
        self.serve("b", "--geneve")
        self.join("b", "--units=1", "--geneve")
        self.up("--host_wire=geneve")
        with self.traffic():
            wait_for("unit on b", lambda: self.serving() == {"": 1, "b": 1})
            wait_for("a word", lambda: 'host "c" has joined without --geneve, '
                     "and this daemon has --host_wire=geneve: the host gets no "
                     "units" in self.said())
            self.assertEqual(self.hosts(), {"b": "joined"})

    def test_an_agent_that_does_not_keep_its_entrys_word_is_silent(self):
        self.serve("b")
        self.join("b", "--units=1", "--geneve")
        self.up("--host_wire=geneve")
        with self.traffic():
            wait_for("silence", lambda: self.hosts() == {"b": "silent"})
            wait_for("a word", lambda: "wire=geneve: the agent runs without "
                     "--geneve" in self.said())
            wait_for("own unit", lambda: self.serving() == {"": 1})

    def test_hosts_with_geneve_are_reached_by_tcp_unless_it_is_asked_for(self):
        self.serve("b", "--geneve")
        self.join("b", "--units=1", "--geneve")
        self.up()
        with self.traffic():
            wait_for("unit on b", lambda: self.serving() == {"": 1, "b": 1})
            self.assertEqual(self.geneve_ports(), 0)

    def test_a_host_run_as_one_takes_geneve(self):
        joined = self.background(
            "ip", "netns", "exec", AWAY, PROGRAM, "host", "run", "b",
            self.at, f"--listen={AWAY_ADDRESS}:{PORTS['b']}", f"--from={HOME_ADDRESS}",
            "--units=1", "--geneve")
        self.up("--host_wire=geneve")
        with self.traffic():
            wait_for("unit on b", lambda: self.serving() == {"": 1, "b": 1})
        self.assertIsNone(joined.poll())


CHAINS = """
chain { name: "dns" text: "monitor" }
chain { name: "rest" text: "chronicle" }
rule { match: "udp from any port 5000-5029 to any" chain: "dns" }
default_chain: "rest"
"""


class SeveralChains(EtcdHosts):
    def chains_of(self, host):
        """The chain of each unit there that has packets."""
        units = json.loads(self.home(
            PROGRAM, "units", f"--name={self.name}", "--json").stdout)
        return sorted(unit["chain"] for unit in units.get("unit", [])
                      if unit.get("host") == host and
                      int(unit.get("packets", 0)))

    def test_chains_share_the_units_of_each_host(self):
        config = self.file("site.conf", CHAINS.encode())
        done = self.home(
            PROGRAM, "up", f"--name={self.name}", "--port=inside=lan0",
            "--port=outside=wan0", f"--config={config}", "--policy=rotate",
            "--max_units=4", "--isolation=process", "--loggers=on",
            "--start_buffer=100000", "--unit_queue=100000", f"--log={self.log}",
            self.at)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.addCleanup(self.home, PROGRAM, "down", f"--name={self.name}")
        with self.traffic():
            self.serve("b")
            self.join("b", "--units=3")
            # Of three units one chain has two.
            wait_for("units on b", lambda: self.chains_of("b") in (
                ["dns", "dns", "rest"], ["dns", "rest", "rest"]))
            host, = self.status()["host"]
            self.assertEqual((host["name"], host["state"], host["units"]),
                             ("b", "joined", 3))
            text = self.home(PROGRAM, "status", f"--name={self.name}").stdout
            self.assertRegex(text, r"host +b \(10.99.7.2:7000\) joined, for 3 "
                                   r"units at most: dns 1, ")
            done = self.home(PROGRAM, "host", "leave", "b", self.at)
            self.assertEqual(done.returncode, OK, done.stderr)
            wait_for("b gone", lambda: not self.status().get("host"))


class EtcdAway(EtcdHosts):
    def test_packets_go_on_and_changes_wait_while_etcd_is_away(self):
        self.serve("b")
        self.join("b", "--units=1", "--term=60s")
        self.up()
        with self.traffic():
            wait_for("unit on b", lambda: self.serving() == {"": 1, "b": 1})
            self.etcd.kill()
            wait_for("a word", lambda: "units stay on the hosts" in self.said())
            wait_for("packets", lambda: self.serving() == {"": 1, "b": 1})
            wait_for("its age", lambda: self.status()["etcd"]["away_ns"] > 0)
            text = self.home(PROGRAM, "status", f"--name={self.name}").stdout
            self.assertRegex(text, r"etcd +away for .*no endpoint of etcd "
                                   r"answers.*: units stay on the hosts")
            self.etcd.start()
            wait_for("a word", lambda: "etcd answers again" in self.said())
            wait_for("its word in status",
                     lambda: self.status()["etcd"]["why"] == "")
            self.serve("c")
            self.join("c", "--units=2")
            wait_for("units on c",
                     lambda: self.serving() == {"": 1, "b": 1, "c": 2})
        self.assertEqual(self.said().count("units stay on the hosts"), 1)

    def test_a_daemon_starts_without_etcd_and_takes_hosts_later(self):
        self.etcd.kill()
        self.up()
        with self.traffic():
            wait_for("own unit", lambda: self.serving() == {"": 1})
            wait_for("a word", lambda: "units stay on the hosts" in self.said())
            self.etcd.start()
            self.serve("b")
            self.join("b", "--units=1")
            wait_for("unit on b", lambda: self.serving() == {"": 1, "b": 1})


class Refusals(EtcdHosts):
    def put(self, key, **fields):
        name, key = key, f"/snf/default/hosts/{key}"
        host = {"name": name, "version": "0.0.9", "units": 1,
                "address": f"{AWAY_ADDRESS}:{PORTS['b']}", **fields}
        self.assertIsNotNone(self.etcd.control("put", key, json.dumps(host)))

    def test_hosts_that_cannot_be_used_are_named(self):
        self.serve("b")
        self.join("b", "--units=1")
        own = json.loads(self.etcd.control(
            "get", "/snf/default/hosts/b", "--print-value-only"))["version"]
        self.put("plain", version=own, address="10.99.7.2")
        self.put("every", version=own, address="0.0.0.0:7000")
        self.join("twin", address=f"{AWAY_ADDRESS}:{PORTS['b']}")
        self.put("old")
        self.put("other", name="another")
        self.up()
        with self.traffic():
            wait_for("unit on b", lambda: self.serving() == {"": 1, "b": 1})
            for words in (
                    'host "plain": "10.99.7.2"',
                    'host "every": "0.0.0.0:7000"',
                    "host twin (10.99.7.2:7000) has the address of host b",
                    'host "old" has version 0.0.9, and this daemon',
                    "hosts/other"):
                wait_for(words, lambda w=words: w in self.said())
            wait_for("b joined", lambda: self.hosts() == {"b": "joined"})

    def test_flags_that_cannot_be_together_are_refused_by_name(self):
        ports = ("--port=inside=lan0", "--port=outside=wan0")
        units = ("--isolation=process", "--loggers=on")
        for flags, words in (
                ((*units, "--host=b=10.99.7.2:7000"), ("--etcd", "--host")),
                (("--isolation=thread", "--loggers=on"),
                 ("--etcd", "--isolation=thread")),
                (("--isolation=process",), ("--etcd", "--loggers=off")),
                ((*units, "--threads=4"), ("--etcd", "--threads")),
                ((*units, "--keep=5s"), ("--etcd", "--keep"))):
            with self.subTest(flags=flags):
                self.refused(USAGE, words, "up", *ports, self.at, *flags)
        self.refused(USAGE, ("--own_units", "--etcd"), "up", *ports, *units,
                     "--own_units=2")
        self.refused(USAGE, ("--host_wire", "--etcd"), "up", *ports, *units,
                     "--host_wire=geneve")
        self.refused(USAGE, ("--host_tls", "--host_wire=geneve"), "up", *ports,
                     *units, self.at, "--host_wire=geneve",
                     "--host_tls=/nowhere")
        self.refused(USAGE, ("--geneve", "--tls"), "host", "run", "b", self.at,
                     "--listen=10.99.7.2:7000", "--geneve", "--tls=/nowhere")
        self.refused(USAGE, ("--etcd", "http://a:1"), "up", *ports, *units,
                     "--etcd=http://a:1")


if __name__ == "__main__":
    skip_without_namespaces()
    skip_without_etcd()
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The NF `ids` in `snf replay`, and `snf nf check-rules`, as a user runs them.

Usage: ids_command_test.py PROGRAM SOURCE [TEST…]
"""

import json
import os
import pathlib
import socket
import struct
import sys
import unittest

from command_case import (BAD_DATA, IO, OK, SOURCE, USAGE, Command, pcap,
                          run)

RULES = r"""
ipvar MINE 192.0.2.0/24
alert tcp any any -> $MINE 80 (msg:"evil uri"; flow:established,to_server; \
    content:"/evil"; http_uri; classtype:web-application-attack; sid:1; rev:3;)
alert udp any any -> any 53 (msg:"often"; content:"q"; \
    threshold:type limit, track by_src, count 2, seconds 60; sid:2; rev:1;)
drop udp any any -> any 53 (msg:"never"; content:"kill"; sid:3; rev:1;)
"""
CLIENTS = 12


def ip(source, destination, protocol, body):
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 1, 0, 64,
                         protocol, 0, socket.inet_aton(source),
                         socket.inet_aton(destination))
    return bytes(12) + b"\x08\x00" + header + body


def tcp(source, port, to_server, sequence, flags, payload=b""):
    ports = (port, 80) if to_server else (80, port)
    body = struct.pack(">HHIIBBHHH", *ports, sequence, 1, 0x50, flags, 65535, 0,
                       0) + payload
    server = "192.0.2.9"
    return ip(source, server, 6, body) if to_server else ip(server, source, 6,
                                                            body)


def udp(source, payload):
    body = struct.pack(">HHHH", 5000, 53, 8 + len(payload), 0) + payload
    return ip(source, "192.0.2.53", 17, body)


def packets():
    """Of each client a request, cut at another place, and three queries."""
    found = []
    request = b"GET /evil?x HTTP/1.1\r\nHost: h\r\n\r\n"
    for client in range(CLIENTS):
        source, port, now = f"10.0.0.{client + 1}", 4000 + client, client / 100
        cut = 1 + client * 2
        found += [(now, tcp(source, port, True, 99, 0x02)),
                  (now + .001, tcp(source, port, False, 499, 0x12)),
                  (now + .002, tcp(source, port, True, 100, 0x10)),
                  (now + .003, tcp(source, port, True, 100, 0x18,
                                   request[:cut])),
                  (now + .004, tcp(source, port, True, 100 + cut, 0x18,
                                   request[cut:]))]
        found += [(now + .005 + i / 1000, udp(source, b"q"))
                  for i in range(3)]
    found.append((.5, udp("10.0.0.1", b"kill")))
    return [(1000 + second, frame) for second, frame in sorted(found)]


class Ids(Command):
    def setUp(self):
        super().setUp()
        self.rules = self.file("some.rules", RULES.encode())
        self.capture = self.file("some.pcap", pcap(packets()))
        self.nf = f"ids:cache=off,rules={self.rules}"

    def alerts(self, *arguments, more=""):
        """The alerts that a run writes."""
        eve = os.path.join(self.folder.name, "eve.json")
        report = self.report(self.capture, "--nf", f"{self.nf},eve={eve}{more}",
                             "--force", *arguments)
        with open(eve, encoding="ascii") as file:
            return report, [json.loads(line) for line in file]

    def test_writes_alerts_as_eve(self):
        report, alerts = self.alerts()
        of = {sid: [a for a in alerts if a["alert"]["signature_id"] == sid]
              for sid in (1, 2, 3)}
        self.assertEqual(len(of[1]), CLIENTS)
        # Two of three of each client, by the threshold.
        self.assertEqual(len(of[2]), 2 * CLIENTS)
        self.assertEqual(len(of[3]), 1)
        self.assertEqual(alerts, sorted(alerts, key=lambda a: a["timestamp"]))
        first = of[1][0]
        self.assertEqual(first["timestamp"], "1970-01-01T00:16:40.004000+0000")
        self.assertEqual((first["src_ip"], first["src_port"], first["dest_ip"],
                          first["dest_port"], first["proto"]),
                         ("10.0.0.1", 4000, "192.0.2.9", 80, "TCP"))
        self.assertEqual(first["alert"], {
            "action": "allowed", "gid": 1, "signature_id": 1, "rev": 3,
            "signature": "evil uri", "category": "Web Application Attack",
            "severity": 1})
        self.assertEqual(first["app_proto"], "http")
        self.assertEqual(len({a["flow_id"] for a in of[1]}), CLIENTS)
        self.assertEqual(report["packets_in"], len(packets()))

    def test_writes_the_same_on_many_units(self):
        _, one = self.alerts("--max_units", "1")
        report, many = self.alerts("--max_units", "32", "--policy", "rotate")
        self.assertEqual(many, one)
        self.assertEqual(report["i6_compared"], len(packets()))
        self.assertTrue(report["sound"])

    def logged(self, *arguments, more=""):
        """The alerts of a run, as eve has them and as --nf_logs, as lines."""
        eve = os.path.join(self.folder.name, "eve.json")
        logs = os.path.join(self.folder.name, "logs")
        report = self.report(self.capture, "--nf", f"{self.nf},eve={eve}{more}",
                             "--nf_logs", logs, "--force", *arguments)
        lines = [pathlib.Path(file).read_text(encoding="ascii").splitlines()
                 for file in (eve, f"{logs}/ids.alerts.log")]
        for lost in ("no_room", "no_buffer", "batches_refused", "queue_full",
                     "write_failed"):
            self.assertEqual(report["nf_log"][lost], 0, lost)
        return report, *lines

    def test_logs_the_same_alerts_as_they_leave(self):
        _, eve, log = self.logged()
        self.assertEqual(log, eve)
        for arguments in (("--max_units", "1"),
                          ("--max_units", "32", "--policy", "rotate")):
            with self.subTest(arguments):
                self.assertEqual(sorted(self.logged(*arguments)[2]),
                                 sorted(eve))

    # Packets have other times there.
    def test_logs_the_same_alerts_in_real_time(self):
        def who_and_what(lines):
            alerts = map(json.loads, lines)
            return sorted((a["src_ip"], a["src_port"], a["dest_ip"],
                           a["alert"]["signature_id"]) for a in alerts)
        expected = who_and_what(self.logged()[2])
        for how in ((), ("--loggers=on",), ("--isolation=process",),
                    ("--isolation=process", "--loggers=on")):
            with self.subTest(how):
                log = self.logged("--clock=real", "--speed=max", *how)[2]
                self.assertEqual(who_and_what(log), expected)

    # The records and the shared table are two ways, and each is exact.
    def test_logs_each_alert_once_while_units_die(self):
        kills = lost = 0
        for seed in range(12):
            report, eve, log = self.logged(
                "--max_units", "8", "--policy", "rotate", "--loggers", "on",
                "--seed", str(seed), "--faults",
                "kill any p=0.03; kill any logger p=0.01")
            with self.subTest(seed=seed):
                self.assertEqual(sorted(log), sorted(eve))
                self.assertEqual(len(set(log)), len(log))
                self.assertTrue(report["sound"])
            kills += report.get("faults", {}).get("kills", 0)
            lost += report["packets_dropped"]["unit_failed"]
        self.assertGreater(kills, 10)
        self.assertGreater(lost, 5)

    def events(self, *arguments):
        """The events of a run, sorted, without their times."""
        logs = os.path.join(self.folder.name, "logs")
        report = self.report(
            self.capture, "--nf",
            self.nf + ",max_alerts=0,events=flow+http+anomaly+flowbits",
            "--nf_logs", logs, "--force", *arguments)
        self.assertTrue(report["sound"])
        lines = pathlib.Path(f"{logs}/ids.events.log").read_text(
            encoding="ascii").splitlines()
        for lost in ("no_room", "no_buffer", "batches_refused", "queue_full",
                     "write_failed"):
            self.assertEqual(report["nf_log"][lost], 0, lost)
        return report, sorted(lines)

    def test_logs_events_of_each_type(self):
        _, lines = self.events()
        of = {}
        for event in map(json.loads, lines):
            of.setdefault(event["event_type"], []).append(event)
        # TCP and UDP of each client.
        self.assertEqual(len(of["flow"]), 2 * CLIENTS)
        self.assertEqual(sum(e["flow"]["pkts_toserver"] +
                             e["flow"]["pkts_toclient"] for e in of["flow"]),
                         len(packets()))
        self.assertEqual([e["http"] for e in of["http"]],
                         CLIENTS * [{"hostname": "h", "url": "/evil?x",
                                     "http_method": "GET",
                                     "protocol": "HTTP/1.1"}])
        self.assertNotIn("anomaly", of)

    def test_logs_events_once_while_units_die(self):
        _, one = self.events()
        self.assertEqual(self.events("--max_units", "32", "--policy",
                                     "rotate")[1], one)
        kills = 0
        for seed in range(6):
            report, lines = self.events(
                "--max_units", "8", "--policy", "rotate", "--loggers", "on",
                "--seed", str(seed), "--faults",
                "kill any p=0.03; kill any logger p=0.01")
            with self.subTest(seed=seed):
                self.assertEqual(len(set(lines)), len(lines))
                ends = [(e["src_ip"], e["src_port"], e["tx_id"])
                        for e in map(json.loads, lines)
                        if e["event_type"] == "http"]
                self.assertEqual(len(set(ends)), len(ends))
                if report["packets_dropped"]["unit_failed"] == 0:
                    self.assertEqual(lines, one)
            kills += report.get("faults", {}).get("kills", 0)
        self.assertGreater(kills, 5)

    def test_counts_the_same_while_units_die(self):
        # Shared tables do not go with several controllers.
        nf = self.nf + ",max_alerts=0"
        one = self.report(self.capture, "--nf", nf)
        self.assertEqual(one["counters"]["alerts"], 4 * CLIENTS + 1)
        for arguments in (("--controllers", "3"),
                          ("--loggers", "on", "--faults", "kill any at 60ms")):
            with self.subTest(arguments):
                report = self.report(self.capture, "--nf", nf, *arguments)
                self.assertTrue(report["sound"])
                self.assertEqual(report["digest"], one["digest"])
        # With the alerts of a shared table.
        report = self.report(self.capture, "--nf", self.nf, "--loggers", "on",
                             "--faults", "kill any at 60ms")
        self.assertTrue(report["sound"])
        self.assertEqual(report["digest"], one["digest"])

    def test_drops_by_rule(self):
        report, alerts = self.alerts(more=",action=rule")
        dropped = [a for a in alerts if a["verdict"]["action"] == "drop"]
        self.assertEqual([(a["alert"]["signature_id"], a["alert"]["action"])
                          for a in dropped], [(3, "blocked")])
        self.assertEqual(report["packets_released"], len(packets()) - 1)
        self.assertEqual(report["packets_dropped"]["nf:rule"], 1)

    def test_refuses_rules_with_errors(self):
        bad = self.file("bad.rules", b"\nalert tcp any any -> any any "
                                     b"(content:\"a\"; depth:x; sid:1;)\n")
        self.refused(USAGE, (f"{bad}:2:44: depth:x: want a number",), "replay",
                     self.capture, "--nf", f"ids:cache=off,rules={bad}")

    def test_checks_rules(self):
        mixed = self.file(
            "mixed.rules",
            b'alert tcp any any -> any any (content:"a"; sid:1;)\n'
            b'alert tcp any any -> any any (content:"a"; tag:session,1,packets;'
            b' sid:2;)\n'
            b'alert tcp any any -> any any (asn1:bitstring_overflow; sid:3;)\n'
            b'#alert tcp any any -> any any (content:"b"; sid:4;)\n')
        done = run("nf", "check-rules", mixed, "--json")
        self.assertEqual(done.returncode, OK, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual(told["summary"], {"supported": 1, "partly": 1,
                                           "not": 1, "wrong": 0})
        self.assertEqual([rule["outcome"] for rule in told["rules"]],
                         ["supported", "partly", "not"])
        self.assertEqual(told["rules"][2]["problems"][0],
                         {"line": 3, "column": 31, "option": "asn1",
                          "value": "bitstring_overflow",
                          "reason": "this option is not supported"})
        self.assertEqual([r["rules"] for r in told["reasons"]], [1, 1])
        done = run("nf", "check-rules", mixed, "--commented", "--json")
        self.assertEqual(json.loads(done.stdout)["summary"]["supported"], 2)
        text = run("nf", "check-rules", mixed, "--all").stdout.decode()
        for words in (f"{mixed}:1: 1:1 supported",
                      f"{mixed}:3:31: asn1:bitstring_overflow: this option is "
                      "not supported [1:3 not]", "33.33 %"):
            self.assertIn(words, text)

    def test_tells_wrong_rules_by_its_exit_code(self):
        bad = self.file("bad.rules",
                        b'alert tcp any any -> any any (depth:1; sid:1;)\n')
        done = run("nf", "check-rules", bad)
        self.assertEqual(done.returncode, BAD_DATA)
        self.assertIn(f"{bad}:1:31: depth:1: there is no content before it",
                      done.stdout.decode())
        self.refused(IO, ("none.rules",), "nf", "check-rules",
                     os.path.join(self.folder.name, "none.rules"))
        self.refused(BAD_DATA, ("1:1", "nonsense"), "nf", "check-rules",
                     self.file("other.rules", b"nonsense\n"))
        loop = os.path.join(self.folder.name, "loop.rules")
        self.file("loop.rules", f"include {loop}\n".encode())
        self.refused(BAD_DATA, ("1:1", "includes itself"), "nf", "check-rules",
                     loop)

    def test_uses_its_cache(self):
        cache = os.path.join(self.folder.name, "cache")
        nf = f"ids:cache={cache},rules={self.rules}"
        first = self.report(self.capture, "--nf", nf)
        files = {p.name: p.stat().st_mtime_ns
                 for p in pathlib.Path(cache).iterdir()}
        self.assertTrue(files)
        second = self.report(self.capture, "--nf", nf)
        self.assertEqual(second["digest"], first["digest"])
        self.assertEqual({p.name: p.stat().st_mtime_ns
                          for p in pathlib.Path(cache).iterdir()}, files)

    def test_loads_and_runs_real_rules(self):
        given = os.environ.get("SNF_RULES", str(SOURCE / "../shared/rules"))
        folder = pathlib.Path(given)
        if not folder.is_dir():
            self.skipTest(f"no rules in {folder} (SNF_RULES)")
        files = sorted(map(str, folder.glob("*/*.rules")))
        report = self.report(self.capture, "--nf",
                             "ids:cache=off,bad_rules=skip,rules=" +
                             "+".join(files))
        self.assertEqual(report["packets_in"], len(packets()))

    def test_is_explained(self):
        done = run("nf", "show", "ids")
        self.assertEqual(done.returncode, OK)
        text = done.stdout.decode()
        for word in ("rules", "home_net", "action", "window", "eve",
                     "evaluated"):
            self.assertIn(word, text)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

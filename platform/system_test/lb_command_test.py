#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The NF `lb` in `snf replay`, as a user runs it.

Usage: lb_command_test.py PROGRAM SOURCE [TEST…]
"""

import socket
import struct
import sys
import unittest

from command_case import OK, USAGE, Command, pcap, run

VIRTUAL, SERVERS = "192.0.2.10", ("10.0.0.1", "10.0.0.2", "10.0.0.3")
LB = "lb:virtual=192.0.2.10:80,servers=" + "+".join(
    server + ":8080" for server in SERVERS)
CLIENTS = 200


def udp(source, source_port, destination, destination_port):
    payload = bytes(20)
    header = struct.pack(">HHHH", source_port, destination_port,
                         8 + len(payload), 0)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28 + len(payload), 1, 0, 64, 17,
                     0, socket.inet_aton(source), socket.inet_aton(destination))
    return bytes(12) + b"\x08\x00" + ip + header + payload


def tcp(source, source_port, destination, destination_port, flags, sequence):
    header = struct.pack(">HHIIBBHHH", source_port, destination_port, sequence,
                         0, 0x50, flags, 65535, 0, 0)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40, 1, 0, 64, 6, 0,
                     socket.inet_aton(source), socket.inet_aton(destination))
    return bytes(12) + b"\x08\x00" + ip + header


SYN, ACK = 2, 16


def client(i):
    return f"203.0.113.{1 + i % 250}", 5000 + i


class Lb(Command):
    def setUp(self):
        super().setUp()
        # Each client sends at 1,000 s, and again a second later.
        packets = []
        for second in (1000, 1001):
            for i in range(CLIENTS):
                packets.append((second + i / 1000,
                                udp(*client(i), VIRTUAL, 80)))
        self.capture = self.file("clients.pcap", pcap(packets))

    def destinations(self, *arguments):
        """Where the packets of `--out` went, in order."""
        out = self.file("out.pcap", b"")
        self.report(self.capture, "--out", out, "--force", *arguments)
        found = []
        with open(out, "rb") as file:
            data = file.read()
        at = 24
        while at < len(data):
            length = struct.unpack_from("<I", data, at + 8)[0]
            frame = data[at + 16:at + 16 + length]
            found.append(socket.inet_ntoa(frame[30:34]))
            at += 16 + length
        return found

    def test_sends_each_client_to_one_server(self):
        found = self.destinations("--nf", LB)
        self.assertEqual(len(found), 2 * CLIENTS)
        self.assertEqual(found[:CLIENTS], found[CLIENTS:])
        for server in SERVERS:
            self.assertGreater(found.count(server), CLIENTS // 3)

    def test_is_the_same_on_many_units(self):
        one = self.report(self.capture, "--nf", LB, "--max_units", "1")
        many = self.report(self.capture, "--nf", LB, "--max_units", "32",
                           "--policy", "rotate")
        self.assertEqual(one["digest"], many["digest"])

    def test_encapsulates_alike_in_threads_processes_and_virtual_time(self):
        for forward in ("ipip", "gue"):
            nf = ("lb:virtual=192.0.2.10:80,servers=10.0.0.1:80+10.0.0.2:80,"
                  f"forward={forward},outer=10.9.9.9")
            virtual = self.report(self.capture, "--nf", nf)
            self.assertEqual(virtual["packets_released"], 2 * CLIENTS)
            self.assertEqual(set(self.destinations("--nf", nf)),
                             {"10.0.0.1", "10.0.0.2"})
            for isolation in ("thread", "process"):
                real = self.report(
                    self.capture, "--nf", nf, "--clock=real", "--speed=max",
                    f"--isolation={isolation}", "--threads=2",
                    "--unit_capacity=none")
                self.assertEqual(real["digest"], virtual["digest"], isolation)

    def test_changes_options_at_their_times(self):
        before = self.destinations("--nf", LB)
        after = self.destinations(
            "--nf", LB, "--at", "500ms: lb.servers=10.0.0.1:8080+10.0.0.3:8080")
        self.assertEqual(after[:CLIENTS], before[:CLIENTS])
        self.assertNotIn("10.0.0.2", after[CLIENTS:])
        kept = [i for i in range(CLIENTS) if before[i] != "10.0.0.2"]
        self.assertEqual([after[CLIENTS + i] for i in kept],
                         [before[i] for i in kept])
        # A server that drains keeps what it has.
        self.assertEqual(
            self.destinations("--nf", LB, "--at", "500ms: lb.drain=10.0.0.2"),
            before)

    def test_refuses_changes_that_cannot_be(self):
        for change, words in (
                ("drain=10.0.0.2", ("--at", "TIME: NF.KEY=VALUE")),
                ("soon: lb.drain=10.0.0.2", ("TIME: NF.KEY=VALUE",)),
                ("1s: drain=10.0.0.2", ("TIME: NF.KEY=VALUE",)),
                ("1s: bl.drain=10.0.0.2", ("--at", 'no NF "bl"')),
                ("1s: lb.drain=10.9.9.9", ("--at", "lb", "10.9.9.9")),
                ("1s: lb.table=251", ("--at", "cannot change"))):
            self.refused(USAGE, words, "replay", self.capture, "--nf", LB,
                         "--at", change)
        self.refused(USAGE, ("--at", "--config"), "replay", self.capture,
                     "--config", "none", "--at", "1s: lb.drain=10.0.0.2")
        self.refused(USAGE, ("--at", "--clock"), "replay", self.capture,
                     "--nf", LB, "--clock=real", "--at",
                     "1s: lb.drain=10.0.0.2")

    def test_refuses_flow_keys_beside_its_own(self):
        self.refused(USAGE, ("--flow_key", "what a flow is"), "replay",
                     self.capture, "--nf", LB, "--flow_key", "5tuple")

    def test_runs_with_several_controllers(self):
        one = self.report(self.capture, "--nf", LB)
        three = self.report(self.capture, "--nf", LB, "--controllers", "3")
        self.assertEqual(three["digest"], one["digest"])

    def test_runs_while_units_die(self):
        # A violation would end the command with another code.
        report = self.report(self.capture, "--nf", LB, "--loggers", "on",
                             "--faults", "kill any at 200ms")
        self.assertEqual(report["packets_in"], 2 * CLIENTS)

    def test_connections_outlive_a_flood_that_fills_the_flow_table(self):
        packets = []
        for i in range(20):
            packets += [(1000 + i / 100, tcp(*client(i), VIRTUAL, 80, SYN, 1)),
                        (1001 + i / 100, tcp(*client(i), VIRTUAL, 80, ACK, 2))]
        for i in range(3000):
            source = f"198.51.{i % 100}.{1 + i // 100}"
            packets.append((1002 + i / 1000,
                            tcp(source, 7000, VIRTUAL, 80, SYN, i)))
        for i in range(20):
            packets.append((1006 + i / 100,
                            tcp(*client(i), VIRTUAL, 80, ACK, 3)))
        packets.sort(key=lambda packet: packet[0])
        self.capture = self.file("flood.pcap", pcap(packets))
        flood = self.report(self.capture, "--nf", LB, "--max_flows", "500")
        dropped = flood["packets_dropped"]["flow_table_full"]
        self.assertGreater(dropped, 0)
        found = self.destinations("--nf", LB, "--max_flows", "500")
        self.assertEqual(len(found), 3060 - dropped)
        self.assertEqual(found[-20:], found[0:20])

    def test_checks_servers_in_the_data_path(self):
        check = LB + ",check=tcp,checker=10.9.9.9,check_interval=50ms"
        for units in ("1", "32"):
            report = self.report(self.capture, "--nf", check, "--max_units",
                                 units, "--policy", "rotate")
            counts = report["counters"]
            self.assertGreater(counts["checks"], 10)
            self.assertEqual(counts["checks_passed"], 0)
            # No server answers in a capture: all are down, so all are used.
            self.assertGreater(counts["down_used"], 0)
            self.assertEqual(report["packets_released"],
                             2 * CLIENTS + counts["checks"])
        # Packets read the shared table of servers also while units die.
        report = self.report(self.capture, "--nf", check, "--loggers", "on",
                             "--faults", "kill any at 200ms; kill any at 400ms")
        self.assertGreater(report["faults"]["kills"], 0)
        self.assertGreater(report["counters"]["checks"], 10)
        self.assertEqual(report["violations"], 0)
        self.assertEqual(report["packets_released"] +
                         report["faults"]["packets_lost"],
                         2 * CLIENTS + report["counters"]["checks"])

    def test_is_explained(self):
        done = run("nf", "show", "lb")
        self.assertEqual(done.returncode, OK)
        text = done.stdout.decode()
        for word in ("virtual", "servers", "drain", "server_removed",
                     "A flow is what the NF says."):
            self.assertIn(word, text)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the NF `monitor` and the logs of `nat` (--ipfix) export by IPFIX, as a
collector reads it.

Usage: ipfix_test.py PROGRAM SOURCE_DIR [TEST…]

The decoder here knows RFC 7011 alone, and nothing of the program. Collectors
are sockets of this test on the loopback.
"""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import threading
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import (OK, USAGE, Command, free_port, pcap, run,
                          udp_frame)

# www.iana.org/assignments/ipfix
OCTETS, PACKETS, PROTOCOL, FLAGS, SOURCE_PORT = 1, 2, 4, 6, 7
SOURCE_4, SOURCE_6, ICMP_4, ICMP_6, VLAN = 8, 27, 32, 139, 58
END_REASON, START_MS, END_MS, LINK_OCTETS = 136, 152, 153, 352
# Of RFC 8158, and observationTimeMilliseconds.
NAT_SOURCE, NAT_PORT, NAT_EVENT, TIME_MS = 225, 227, 230, 323
BEGINS, ENDS = 8, 9  # NAT44 BIB create, delete
# IPv6 paths carry 1,280 bytes, and the headers of IPv6 and UDP have 48.
MOST_UDP_BYTES = 1232


class Decoder:
    """Messages in order, as RFC 7011 describes them."""

    def __init__(self):
        self.templates = {}
        self.records = []
        self.unknown = 0  # sets before their template
        self.sequence = []  # (number, records) of each message
        self.exported_s = []

    def message(self, data):
        version, length, exported_s, number, _ = struct.unpack_from(
            ">HHIII", data)
        assert version == 10, version
        assert length == len(data), (length, len(data))
        before = len(self.records)
        self.exported_s.append(exported_s)
        at = 16
        while at < length:
            kind, size = struct.unpack_from(">HH", data, at)
            assert 4 <= size <= length - at, (size, at, length)
            body = data[at + 4:at + size]
            if kind == 2:
                self.template_set(body)
            elif kind in self.templates:
                self.data_set(self.templates[kind], body)
            else:
                self.unknown += 1
            at += size
        self.sequence.append((number, len(self.records) - before))

    def template_set(self, body):
        at = 0
        while at + 4 <= len(body):
            number, fields = struct.unpack_from(">HH", body, at)
            assert number >= 256, number
            at += 4
            template = []
            for _ in range(fields):
                element, size = struct.unpack_from(">HH", body, at)
                at += 4
                if element & 0x8000:
                    (enterprise,) = struct.unpack_from(">I", body, at)
                    at += 4
                    element = (enterprise, element & 0x7FFF)
                template.append((element, size))
            self.templates[number] = template

    def data_set(self, template, body):
        size = sum(size for _, size in template)
        for at in range(0, len(body) - size + 1, size):
            record = {}
            for element, length in template:
                record[element] = int.from_bytes(body[at:at + length], "big")
                at += length
            self.records.append(record)

    def stream(self, data):
        while data:
            length = struct.unpack_from(">HH", data)[1]
            self.message(data[:length])
            data = data[length:]

    def flows(self):
        return [record for record in self.records if START_MS in record]


def decode(data):
    decoder = Decoder()
    decoder.stream(data)
    return decoder


class Collector(threading.Thread):
    """Keeps what comes: datagrams, or all bytes of one connection."""

    def __init__(self, kind):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, kind)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        with contextlib.suppress(OSError):  # for root, beyond the usual limit
            self.socket.setsockopt(socket.SOL_SOCKET, 33, 1 << 22)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(60)
        self.port = self.socket.getsockname()[1]
        self.is_udp = kind == socket.SOCK_DGRAM
        self.got = []
        if not self.is_udp:
            self.socket.listen()
        self.start()

    def run(self):
        if self.is_udp:
            while True:
                data = self.socket.recv(65536)
                if not data:
                    return
                self.got.append(data)
        connection = self.socket.accept()[0]
        with connection:
            while data := connection.recv(65536):
                self.got.append(data)

    def end(self):
        if self.is_udp:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"", ("127.0.0.1", self.port))
        self.join(60)
        self.socket.close()
        return self.got


def ip_frame(protocol, source, destination, payload, vlan=None):
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 1, 0, 64,
                     protocol, 0, bytes(source), bytes(destination)) + payload
    tag = b"" if vlan is None else struct.pack(">HH", 0x8100, vlan)
    # Frames of fewer than 60 bytes are padded, which is no octet of IP.
    return (bytes(12) + tag + b"\x08\x00" + ip).ljust(60, b"\0")


def ip6_frame(protocol, source, destination, payload):
    return bytes(12) + b"\x86\xdd" + struct.pack(
        ">IHBB16s16s", 6 << 28, len(payload), protocol, 64, source,
        destination) + payload


def tcp(source, destination, flags):
    return struct.pack(">HHIIBBHHH", source, destination, 0, 0, 0x50, flags,
                       1000, 0, 0)


A, B, ROUTER = (10, 0, 0, 5), (198, 51, 100, 7), (203, 0, 113, 250)
A6, B6 = b"\x20\x01\x0d\xb8" + bytes(11) + b"\1", b"\xfe\x80" + bytes(14)


class Ipfix(Command):
    def exported(self, packets, more=""):
        """What the file of a replay has."""
        path = os.path.join(self.folder.name, "flows.ipfix")
        self.report(self.file("c.pcap", pcap(packets)), "--nf",
                    f"monitor:ipfix={path}{more}", "--force")
        return decode(pathlib.Path(path).read_bytes())

    def test_tells_type_and_code_of_icmp(self):
        echo = struct.pack(">BBHHH", 8, 0, 0, 7, 1) + b"ping"
        reply = struct.pack(">BBHHH", 0, 0, 0, 7, 1) + b"ping"
        quoted = ip_frame(17, A, B, struct.pack(">HHHH", 5000, 53, 8, 0))[14:42]
        exceeded = struct.pack(">BBHI", 11, 0, 0, 0) + quoted
        echo6 = struct.pack(">BBHHH", 128, 0, 0, 7, 1)
        flows = self.exported([
            (1.0, ip_frame(1, A, B, echo)), (1.1, ip_frame(1, B, A, reply)),
            (1.5, ip_frame(1, ROUTER, A, exceeded)),
            (2.0, ip6_frame(58, A6, B6, echo6))]).flows()
        self.assertEqual(
            [divmod(f[ICMP_4], 256) for f in flows if ICMP_4 in f],
            [(8, 0), (0, 0), (11, 0)])
        self.assertEqual(
            [divmod(f[ICMP_6], 256) for f in flows if ICMP_6 in f],
            [(128, 0)])
        self.assertEqual([f[PROTOCOL] for f in flows], [1, 1, 1, 58])
        self.assertTrue(all(SOURCE_PORT not in f for f in flows))

    def test_counts_what_collectors_count(self):
        flows = self.exported([
            (1.0, ip_frame(6, A, B, tcp(5000, 80, 0x02), vlan=12)),
            (1.1, ip_frame(6, B, A, tcp(80, 5000, 0x12))),
            (1.2, ip_frame(6, A, B, tcp(5000, 80, 0x11), vlan=12)),
            (1.3, ip_frame(6, B, A, tcp(80, 5000, 0x14))),
            (2.0, udp_frame())]).flows()
        self.assertEqual(
            [(f[PACKETS], f[OCTETS], f[LINK_OCTETS], f[FLAGS], f[VLAN],
              f[END_REASON]) for f in flows],
            [(2, 80, 120, 0x13, 12, 3), (2, 80, 120, 0x16, 0, 3),
             (1, 46, 60, 0, 0, 1)])

    def test_gives_a_long_flow_a_record_for_each_active_timeout(self):
        decoder = self.exported([(1 + 200 * i, udp_frame()) for i in range(20)],
                                ",active_timeout=300s")
        flows = decoder.flows()
        self.assertEqual(len(flows), 13)
        self.assertEqual(sum(f[PACKETS] for f in flows), 20)
        for flow in flows:
            self.assertLess(flow[END_MS] - flow[START_MS], 300_000)
        self.assertEqual([f[END_REASON] for f in flows], [2] * 12 + [1])

    def test_tells_no_time_that_goes_back(self):
        decoder = self.exported([
            (2.5, ip_frame(6, A, B, tcp(5000, 80, 0x10))),
            (2.439, ip_frame(6, B, A, tcp(80, 5000, 0x10))),
            (2.51, ip_frame(6, A, B, tcp(5000, 80, 0x10)))])
        self.assertEqual(len(decoder.flows()), 2)
        for flow in decoder.flows():
            self.assertLessEqual(flow[START_MS], flow[END_MS])
            self.assertLessEqual(flow[END_MS], decoder.exported_s[0] * 1000)

    def many(self):
        return [(1 + i / 10_000, udp_frame(1000 + i)) for i in range(3_000)]

    def send_to(self, to):
        return run("replay", self.file("many.pcap", pcap(self.many())),
                   "--nf", f"monitor:ipfix={to}", "--quiet")

    def test_sends_datagrams_that_no_path_cuts_with_templates_again(self):
        collector = Collector(socket.SOCK_DGRAM)
        done = self.send_to(f"udp://127.0.0.1:{collector.port}")
        messages = collector.end()
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        self.assertGreater(len(messages), 100)
        self.assertLessEqual(max(map(len, messages)), MOST_UDP_BYTES)
        whole = Decoder()
        for message in messages:
            whole.message(message)
        self.assertEqual(len(whole.flows()), 3_000)
        self.assertEqual(len(whole.records), 3_000)  # and no hosts
        self.assertEqual(sum(f[OCTETS] for f in whole.flows()), 3_000 * 46)
        self.assertEqual(whole.unknown, 0)
        expected = 0
        for number, records in whole.sequence:
            self.assertEqual(number, expected)
            expected += records
        # Who begins to listen later waits for 16 messages at most.
        late = Decoder()
        for message in messages[17:]:
            late.message(message)
        self.assertLess(late.unknown, 16)
        self.assertGreater(late.unknown, 0)
        self.assertGreater(len(late.records), 2_000)

    def test_sends_the_same_over_a_connection(self):
        collector = Collector(socket.SOCK_STREAM)
        done = self.send_to(f"tcp://127.0.0.1:{collector.port}")
        data = b"".join(collector.end())
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        self.assertEqual(decode(data).flows(), self.exported(self.many()).flows())

    def test_says_which_collector_does_not_answer(self):
        port = free_port()
        done = self.send_to(f"tcp://127.0.0.1:{port}")
        self.assertNotEqual(done.returncode, OK)
        self.assertIn(f"tcp://127.0.0.1:{port}: Connection refused",
                      done.stderr.decode())


class Bindings(Command):
    """The log of bindings of `nat`."""

    NAT = "nat(ip=203.0.113.1,log_bindings=true,udp_timeout=1s)"

    def packets(self):
        """Each end's mapping ends before the last packet."""
        return [(1 + i / 1_000, udp_frame(1000 + i)) for i in range(500)] + [
            (100.0, udp_frame(999))]

    def replay(self, *arguments, nat=NAT):
        return run("replay", self.file("c.pcap", pcap(self.packets())),
                   "--nf", nat, "--quiet", *arguments)

    def compare(self, decoder, logs):
        """Records tell what the lines of the log tell."""
        lines = [json.loads(line) for line in pathlib.Path(
            logs, "nat.bindings.log").read_text().splitlines()]
        self.assertEqual(
            [(BEGINS if line["event"] == "created" else ENDS,
              int.from_bytes(socket.inet_aton(line["inside_ip"]), "big"),
              line["inside_port"],
              int.from_bytes(socket.inet_aton(line["external_ip"]), "big"),
              line["external_port"]) for line in lines],
            [(r[NAT_EVENT], r[SOURCE_4], r[SOURCE_PORT], r[NAT_SOURCE],
              r[NAT_PORT]) for r in decoder.records])
        self.assertEqual({r[PROTOCOL] for r in decoder.records}, {17})
        begun = [r[TIME_MS] for r in decoder.records
                 if r[NAT_EVENT] == BEGINS]
        self.assertEqual(begun, [round(1000 * t) for t, _ in self.packets()])
        ended = [r for r in decoder.records if r[NAT_EVENT] == ENDS]
        self.assertEqual((len(begun), len(ended)), (501, 501))
        for message in range(len(decoder.sequence)):
            number, records = decoder.sequence[message]
            for record in decoder.records[number:number + records]:
                self.assertLessEqual(record[TIME_MS],
                                     decoder.exported_s[message] * 1000)

    def test_are_records_of_a_file_as_they_are_lines(self):
        path, logs = (os.path.join(self.folder.name, name)
                      for name in ("nat.ipfix", "logs"))
        for _ in range(2):  # a replay begins the file anew
            done = self.replay(f"--ipfix={path}", f"--nf_logs={logs}",
                               "--force")
            self.assertEqual(done.returncode, OK, done.stderr.decode())
        decoder = decode(pathlib.Path(path).read_bytes())
        self.compare(decoder, logs)
        self.assertEqual(len(decoder.templates), 1)

    def test_are_datagrams_that_a_collector_understands_from_any_on(self):
        collector = Collector(socket.SOCK_DGRAM)
        logs = os.path.join(self.folder.name, "logs")
        done = self.replay(f"--ipfix=udp://127.0.0.1:{collector.port}",
                           f"--nf_logs={logs}")
        messages = collector.end()
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        self.assertLessEqual(max(map(len, messages)), MOST_UDP_BYTES)
        whole, late = Decoder(), Decoder()
        for message in messages:
            whole.message(message)
        self.compare(whole, logs)
        late.message(messages[-1])
        self.assertEqual((late.unknown, len(late.records) > 0), (0, True))

    def test_need_no_lines(self):
        path = os.path.join(self.folder.name, "nat.ipfix")
        done = self.replay(f"--ipfix={path}")
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        records = decode(pathlib.Path(path).read_bytes()).records
        self.assertEqual(len(records), 1_002)

    @unittest.skipUnless(shutil.which("tshark"), "wants tshark")
    def test_are_read_by_tshark(self):
        path = os.path.join(self.folder.name, "nat.ipfix")
        self.assertEqual(self.replay(f"--ipfix={path}").returncode, OK)
        read = subprocess.run(
            ["tshark", "-r", path, "-V"], capture_output=True, text=True,
            check=True).stdout
        self.assertEqual(read.count("Post NAT Source IPv4 Address: 203.0.113.1"),
                         1_002, read[:4_000])
        self.assertNotIn("Malformed", read)
        for event in (BEGINS, ENDS):
            self.assertEqual(
                sum("Nat Event" in line and f"({event})" in line
                    for line in read.splitlines()), 501, event)

    def test_are_refused_where_nothing_has_them(self):
        for nat, to, why in (
                ("monitor", "a.ipfix", "no network function has a log in that "
                 "form; nat with log_bindings=true has"),
                ("nat", "a.ipfix", "no network function has a log in that "
                 "form; nat with log_bindings=true has"),
                (self.NAT, "tcp://127.0.0.1:4739", "wants a file, or a "
                 "collector over UDP, such as udp://192.0.2.9:4739"),
                (self.NAT, "udp://:4739", "wants a file, or a collector over "
                 "UDP, such as udp://192.0.2.9:4739")):
            done = self.replay(f"--ipfix={to}", nat=nat)
            self.assertEqual(done.returncode, USAGE, (nat, to))
            self.assertIn(f"--ipfix={to}: {why}", done.stderr.decode())
            self.assertFalse(os.path.exists("a.ipfix"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

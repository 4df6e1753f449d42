#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cases of Katran's test fixtures, by `snf replay` with `lb`.

Reads KatranBaseTestFixtures.h of a copy of Katran's repository: SNF_KATRAN, or
../shared/katran beside the source; without one, the test is skipped. Packets
are made anew from what builds them there. What Katran does by its own hash or
connection ids is not compared, but that a connection has one server is; each
other difference is named in DIFFERENCES.

Usage: katran_test.py PROGRAM SOURCE [TEST…]
"""

import ipaddress
import os
import pathlib
import re
import struct
import sys
import unittest

from command_case import SOURCE, Command, pcap

SKIPPED = 4  # as CMakeLists.txt says
KATRAN = pathlib.Path(os.environ.get("SNF_KATRAN",
                                     SOURCE.resolve().parent / "shared/katran"))
FIXTURES = (KATRAN / "katran/lib/testing/fixtures/KatranBaseTestFixtures.h")
OUTER4, OUTER6 = "10.0.13.37", "fc00:2307::1337"
REALS4 = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
REALS6 = ("fc00::1", "fc00::2", "fc00::3")
# As KatranTestProvision.cpp has them; a VIP of any port has that of its packet.
SERVICES = {("10.200.1.1", 80): REALS4, ("10.200.1.2", 42): REALS4,
            ("10.200.1.3", 80): REALS6, ("10.200.1.4", 42): REALS4,
            ("10.200.1.5", 443): REALS4, ("10.200.1.6", 80): REALS4,
            ("fc00:1::1", 80): REALS6}
# By words of a description: what `lb` does instead.
CARRIED, DROPPED = "carries it", "drops it"
DIFFERENCES = {"ICMP echo-request": DROPPED, "w/ options": CARRIED,
               "fragmented packet": CARRIED,
               "not equal to any configured VIP": DROPPED}
NAMES = {"TH_ACK": 0x10, "TH_SYN": 2, "ECHO_REQUEST": 8, "DEST_UNREACH": 3,
         "FRAG_NEEDED": 4, "PACKET_TOO_BIG": 2, "IP_FLAG_MF": 0x2000,
         "IPV6_NH_FRAGMENT": 44}
# First octets of QUIC packets, of version 1 if they are long.
QUIC = {"QUICInitial": b"\xc0", "QUIC0RTT": b"\xd0", "QUICHandshake": b"\xe0",
        "QUICRetry": b"\xf0", "QUICShortHeader": b"\x40"}
TCP, UDP, ICMP, ICMP6 = 6, 17, 1, 58


def calls_of(text):
    """Name and arguments of each call of a builder."""
    text = re.sub(r"//[^\n]*", "", text)
    for match in re.finditer(r'\.(\w+)\(((?:"(?:\\.|[^"\\])*"|\{[^}]*\}|'
                             r'\([^()]*\)|[^()"])*)\)', text):
        yield match[1], re.findall(r'"(?:\\.|[^"\\])*"|\{[^}]*\}|[\w:]+',
                                   match[2])


def number_of(word):
    if word == "ICMPv6Header::ECHO_REQUEST":
        return 128
    name = word.rsplit(":", 1)[-1]
    return NAMES[name] if name in NAMES else int(word, 0)


def bytes_of(word):
    if word.startswith("{"):
        return bytes(int(one, 0) for one in re.findall(r"\w+", word))
    return word.strip('"').encode().decode("unicode_escape").encode("latin-1")


def ip_header(name, words, protocol, length):
    ends = [ipaddress.ip_address(word.strip('"')) for word in words[:2]]
    more = [number_of(word) for word in words[2:]]
    if name == "IPv4":
        ttl, tos, number, flags, ihl = more + [64, 0, 1, 0, 5][len(more):]
        return struct.pack(">BBHHHBBH", 0x40 + ihl, tos, 20 + length, number,
                           flags, ttl, protocol, 0) + b"".join(
                               end.packed for end in ends)
    limit, traffic, label, following = more + [64, 0, 0, 0][len(more):]
    return struct.pack(">IHBB", 6 << 28 | traffic << 20 | label, length,
                       following or protocol, limit) + b"".join(
                           end.packed for end in ends)


def packet_of(text):
    """The Ethernet frame that a builder makes; checksums are 0."""
    data, protocol, kind, found = b"", 59, b"\x08\x06", False
    quic = b""
    for name, words in reversed(list(calls_of(text))):
        if name in ("payload", "data"):
            data = b"" if not words else bytes_of(
                words[1] if words[0] == "std::string" else words[0]) + data
        elif name == "destConnId":
            quic = bytes_of(words[0])
        elif name in QUIC:
            is_long = name != "QUICShortHeader"
            data = QUIC[name] + (
                struct.pack(">IB", 1, len(quic)) + quic + b"\0" if is_long
                else quic) + data
        elif name == "TCP":
            source, to, sequence, ack, window, flags = map(number_of, words)
            data = struct.pack(">HHIIBBHHH", source, to, sequence, ack, 0x50,
                               flags, window, 0, 0) + data
            protocol = TCP
        elif name == "UDP":
            source, to = map(number_of, words)
            data = struct.pack(">HHHH", source, to, 8 + len(data), 0) + data
            protocol = UDP
        elif name in ("ICMP", "ICMPv6"):
            values = [number_of(word) for word in words] + [0, 0, 0, 0]
            data = struct.pack(">BBHI", values[0], values[1], 0,
                               values[3]) + data
            protocol = ICMP if name == "ICMP" else ICMP6
        elif name in ("IPv4", "IPv6"):
            data = ip_header(name, words, protocol, len(data)) + data
            protocol = 4 if name == "IPv4" else 41
            kind = b"\x08\x00" if name == "IPv4" else b"\x86\xdd"
            found = True
    # An ARP request of Ethernet and IPv4.
    return bytes(12) + kind + (data if found else
                               bytes.fromhex("0001080006040001") + bytes(38))


class Fixture:
    def __init__(self, text):
        self.name = "".join(re.findall(
            r'"((?:\\.|[^"\\])*)"', text[:text.index(".expectedReturnValue")]))
        self.verdict = re.search(r'"(XDP_\w+)"', text)[1]
        given, expected = text.split(".expectedOutputPacketBuilder")
        self.packet = packet_of(given.split(".inputPacketBuilder")[1])
        self.outer = next(((name, words) for name, words in calls_of(expected)
                           if name in ("IPv4", "IPv6")), None)
        self.connection = self.connection_of(given)
        # That of the destination, or any, which the packet passes.
        to = next((words[1].strip('"') for name, words in calls_of(given)
                   if name in ("IPv4", "IPv6")), None)
        self.service = next((one for one in SERVICES if one[0] == to),
                            ("10.200.1.1", 80))
        self.is_served = self.connection and self.connection[2] in SERVICES
        self.difference = next((what for words, what in DIFFERENCES.items()
                                if words in self.name), None)

    @staticmethod
    def connection_of(text):
        """Client and VIP, with ports and protocol; of an error, as quoted."""
        calls = list(calls_of(text))
        ends = [words for name, words in calls if name in ("IPv4", "IPv6")]
        ports = [(name, words) for name, words in calls
                 if name in ("TCP", "UDP")]
        if not ends or not ports:
            return None
        (source, to), (kind, words) = (
            [word.strip('"') for word in ends[-1][:2]], ports[-1])
        client, vip = (source, int(words[0])), (to, int(words[1]))
        if client in SERVICES:
            client, vip = vip, client
        return kind, client, vip


def fixtures():
    text = FIXTURES.read_text()
    found = [Fixture(one) for one in text.split("{.description =")[1:]]
    return found


class Katran(Command):
    def replayed(self, service, frames, *options):
        """The packets that left, each as its frame, and the report."""
        (address, port), reals = service, SERVICES[service]
        def end(host, number=""):
            host = f"[{host}]" if ":" in host else host
            return f"{host}:{port}{number}"
        servers = "+".join(
            end(real, f"#{i + 1}" if options else "")
            for i, real in enumerate(reals))
        source = self.file("in.pcap", pcap(
            [(1 + i / 1000, frame) for i, frame in enumerate(frames)]))
        out = self.file("out.pcap", b"")
        report = self.report(
            source, "--out", out, "--force", "--nf", ",".join((
                f"lb:virtual={end(address)}", f"servers={servers}",
                "forward=ipip", f"outer={OUTER4}+{OUTER6}", *options)))
        data = pathlib.Path(out).read_bytes()
        left, at = [], 24
        while at < len(data):
            length, = struct.unpack_from("<I", data, at + 8)
            left.append(data[at + 16:at + 16 + length])
            at += 16 + length
        return left, report

    def check_tunnel(self, fixture, frame):
        """The packet is behind the outer header that Katran gives it; returns
        the server."""
        kind, words = fixture.outer
        inner = fixture.packet[14:]
        self.assertEqual(frame[-len(inner):], inner)
        header = frame[14:-len(inner)]
        traffic = number_of(words[3]) if len(words) > 3 else 0
        protocol = 4 if inner[0] >> 4 == 4 else 41
        if kind == "IPv4":
            self.assertEqual(len(header), 20)
            self.assertEqual((header[1], header[9]), (traffic, protocol))
            return str(ipaddress.ip_address(header[16:20]))
        self.assertEqual(len(header), 40)
        self.assertEqual(struct.unpack(">H", header[:2])[0] >> 4 & 0xff,
                         traffic)
        self.assertEqual(header[6], protocol)
        return str(ipaddress.ip_address(header[24:40]))

    def test_packets_leave_as_katran_sends_them(self):
        servers, compared = {}, 0
        for fixture in fixtures():
            with self.subTest(fixture.name):
                left, report = self.replayed(fixture.service,
                                             [fixture.packet])
                if fixture.difference == DROPPED:
                    self.assertEqual(left, [])
                elif fixture.difference == CARRIED:
                    continue  # nfs/lb.md names tests of that
                elif fixture.verdict == "XDP_DROP":
                    # Too long: the sender is told.
                    self.assertEqual(
                        report["packets_dropped"]["nf:too_long"], 1)
                    self.assertEqual(report["counters"]["too_big"], 1)
                elif fixture.verdict == "XDP_TX" and fixture.is_served:
                    # QUIC servers of Katran's ids are of either version.
                    if fixture.service == ("10.200.1.5", 443):
                        fixture.outer = ("IPv4", fixture.outer[1][:2])
                    server = self.check_tunnel(fixture, left[0])
                    self.assertIn(server, SERVICES[fixture.service])
                    self.assertEqual(
                        servers.setdefault(fixture.connection, server), server)
                else:
                    self.assertEqual(left, [fixture.packet])
                compared += 1
        self.assertGreaterEqual(compared, 30)
        # Data, a ToS, an ICMP error about it, and once more.
        self.assertIn(("TCP", ("192.168.1.1", 31337), ("10.200.1.1", 80)),
                      servers)

    def test_a_quic_client_keeps_its_server_when_its_port_changes(self):
        """The connection id of each short header, in the form of lb's."""
        short = [one for one in fixtures() if "short header w/ conn" in one.name]
        self.assertGreaterEqual(len(short), 3)
        service = ("10.200.1.5", 443)
        for number in (1, 2, 3):
            frames = []
            for fixture in short:
                for port in (31337, 4000, 50_000):
                    frame = bytearray(fixture.packet)
                    frame[34:36] = struct.pack(">H", port)
                    frame[43:46] = struct.pack(">BH", 0, number)
                    frames.append(bytes(frame))
            left, report = self.replayed(service, frames, "quic=2")
            self.assertEqual(
                {str(ipaddress.ip_address(frame[30:34])) for frame in left},
                {REALS4[number - 1]})
            self.assertEqual(len(left), len(frames))
            self.assertGreater(report["counters"]["by_connection_id"], 0)


if __name__ == "__main__":
    if not FIXTURES.exists():
        print(f"skipped: there is no {FIXTURES}; SNF_KATRAN names a copy of "
              "https://github.com/facebookincubator/katran")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

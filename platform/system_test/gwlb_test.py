#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf run` as an appliance behind AWS's Gateway Load Balancer.

    this script, as the balancer ── eth0 ── lan0 [ snf run both=gwlb:lan0 ]

The script sends packets in GENEVE from a network namespace, and compares what
returns byte for byte. Wants root, and is skipped without.

Usage: gwlb_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import ctypes
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import run_test as net
from command_case import PATIENCE_S, USAGE, pcap
from run_test import CLIENT, MIDDLE, UNAVAILABLE, ip

GENEVE_PORT = 6081
HEALTH_PORT = 8080
BALANCER, APPLIANCE = "10.77.0.2", "10.77.0.9"
PORT = ["--port", f"both=gwlb:lan0,health={HEALTH_PORT}"]
CLONE_NEWNET = 0x40000000
ENDPOINT = (0x0108, 1, bytes.fromhex("1122334455667788"))
ATTACHMENT = (0x0108, 2, bytes.fromhex("99aabbccddeeff00"))
HERE, THERE = "192.168.1.5", "203.0.113.80"
HERE6, THERE6 = "2001:db8:1::5", "2001:db8:ffff::80"


def in_namespace(namespace, make):
    """What make() returns: sockets that it opens stay in the namespace."""
    made = []

    def enter():
        with open(f"/run/netns/{namespace}", "rb") as file:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        made.append(make())
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return made[0]


# --- Packets

def checksum(data):
    total = sum(struct.unpack(f">{(len(data) + 1) // 2}H",
                              data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packed(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.inet_pton(family, address)


def ip_packet(source, to, protocol, l4, at=None):
    """With the checksum of layer 4 at this offset."""
    ends = packed(source) + packed(to)
    if at is not None:
        pseudo = b"" if protocol == 1 else ends + struct.pack(
            ">IxxxB", len(l4), protocol)
        l4 = l4[:at] + struct.pack(">H", checksum(pseudo + l4)) + l4[at + 2:]
    if ":" in source:
        return struct.pack(">IHBB", 6 << 28, len(l4), protocol, 64) + ends + l4
    dont_fragment = 0x4000
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(l4), 1, dont_fragment,
                         64, protocol, 0) + ends
    return (header[:10] + struct.pack(">H", checksum(header)) + header[12:]
            + l4)


def udp(source, sport, to, dport, data):
    return ip_packet(source, to, 17, struct.pack(
        ">HHHH", sport, dport, 8 + len(data), 0) + data, at=6)


SYN, ACK = 2, 16
SO_RCVBUFFORCE = 33  # socket(7); not in the module socket


def tcp(source, sport, to, dport, flags, seq=1, ack=0, data=b""):
    return ip_packet(source, to, 6, struct.pack(
        ">HHIIBBHHH", sport, dport, seq, ack, 5 << 4, flags, 1000, 0, 0)
        + data, at=16)


def echo(source, to, kind, data=b"ping"):
    return ip_packet(source, to, 1, struct.pack(">BBHHH", kind, 0, 0, 7, 1)
                     + data, at=2)


def geneve(options, inner, **changes):
    """A header of these options, and the inner packet."""
    listed = b"".join(struct.pack(">HBB", kind, number, len(data) // 4) + data
                      for kind, number, data in options)
    is_ipv6 = inner[:1] and inner[0] >> 4 == 6
    fields = {"first": len(listed) // 4, "flags": 0,
              "type": 0x86DD if is_ipv6 else 0x0800, "network": 0} | changes
    return struct.pack(">BBHI", fields["first"], fields["flags"],
                       fields["type"], fields["network"] << 8) + listed + inner


def cookie(number):
    return (0x0108, 3, struct.pack(">I", number))


def of_flow(number, inner, *more, **changes):
    return geneve([ENDPOINT, ATTACHMENT, cookie(number), *more], inner,
                  **changes)


class Balancer:
    """The other end: sends from any UDP port, and hears what returns."""

    def __init__(self):
        self.raw = in_namespace(CLIENT, lambda: socket.socket(
            socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW))
        # Whoever has the port keeps the kernel from refusing packets to it.
        self.port = in_namespace(CLIENT, self.listen)
        self.card = in_namespace(CLIENT, self.hear)

    @staticmethod
    def listen():
        port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        port.bind((BALANCER, GENEVE_PORT))
        return port

    @staticmethod
    def hear():
        card = socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                             socket.htons(0x0800))
        # A test that sends many packets at once reads them only later.
        card.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 23)
        card.bind(("eth0", 0x0800))
        return card

    def close(self):
        for end in (self.raw, self.port, self.card):
            end.close()

    def send(self, sport, payload, tos=0):
        datagram = struct.pack(">HHHH", sport, GENEVE_PORT, 8 + len(payload),
                               0) + payload
        header = struct.pack(">BBHHHBBH", 0x45, tos, 20 + len(datagram), 1, 0,
                             64, 17, 0) + packed(BALANCER) + packed(APPLIANCE)
        self.raw.sendto(header + datagram, (APPLIANCE, 0))

    def receive(self, patience=PATIENCE_S):
        """The next packet that returns: a dict; None if none comes."""
        end = time.monotonic() + patience
        while True:
            self.card.settimeout(max(end - time.monotonic(), 0.001))
            try:
                frame, address = self.card.recvfrom(65_535)
            except TimeoutError:
                return None
            outer = frame[14:]
            if address[2] == socket.PACKET_OUTGOING or outer[9] != 17 \
                    or outer[22:24] != struct.pack(">H", GENEVE_PORT):
                continue
            length, = struct.unpack(">H", outer[2:4])
            sport, _, udp_length, udp_sum = struct.unpack(">4H", outer[20:28])
            return {"ip": outer[:20], "tos": outer[1], "sum": checksum(outer[:20]),
                    "from": socket.inet_ntoa(outer[12:16]),
                    "to": socket.inet_ntoa(outer[16:20]), "sport": sport,
                    "udp_sum": udp_sum, "payload": outer[28:length],
                    "is_whole": udp_length == length - 20, "frame": frame}


class Gwlb(net.Run):
    def setUp(self):
        super().setUp()
        net.remove_network()
        net.make_network(mtu=9_000)
        ip("-n", MIDDLE, "addr", "add", f"{APPLIANCE}/24", "dev", "lan0")
        self.balancer = Balancer()
        self.addCleanup(self.balancer.close)

    def run_as(self, nf, *more):
        return self.running(f"--nf={nf}", *more, ports=PORT)

    def check_returns(self, sport, payload, tos=0, returns=None):
        """Sends it, and expects it, or `returns`, back."""
        self.balancer.send(sport, payload, tos)
        self.check_next(sport, returns or payload, tos)

    def check_next(self, sport, payload, tos=0):
        got = self.balancer.receive()
        self.assertIsNotNone(got, payload.hex())
        self.assertEqual(got["payload"].hex(), payload.hex())
        self.assertEqual((got["from"], got["to"]), (APPLIANCE, BALANCER))
        self.assertEqual((got["sport"], got["tos"]), (sport, tos))
        # The sum of a right header is 0; UDP has no checksum.
        self.assertEqual((got["sum"], got["udp_sum"]), (0, 0))
        self.assertTrue(got["is_whole"])
        return got

    def check_nothing_returns(self):
        self.assertIsNone(self.balancer.receive(patience=0.5))

    def check_counts(self, received, sent, refused=0, **reasons):
        port = self.report["ports"]["both"]
        told = {}
        for line in self.report["warnings"]:
            count, name = re.fullmatch(r"port both: (\d+) (\w+)", line).groups()
            told[name] = int(count)
        self.assertEqual(told, reasons)
        self.assertEqual((port["received"], port["sent"], port["refused"]),
                         (received, sent, refused))
        self.assertEqual(port["kernel_drops"], 0)

    def test_returns_what_the_firewall_allows_byte_for_byte(self):
        rules = self.folder / "rules"
        rules.write_text("deny tcp from any to any port 23\n"
                         "deny udp from any to any port 53\nallow any\n")
        unknown = (0xFFF0, 5, bytes.fromhex("0123456789abcdef"))
        with self.run_as(f"firewall:rules={rules}"):
            # Both directions of a connection, which have one cookie.
            there = [tcp(HERE, 4000, THERE, 80, SYN),
                     tcp(HERE, 4000, THERE, 80, ACK, 2, 11, b"GET /")]
            back = [tcp(THERE, 80, HERE, 4000, SYN | ACK, 10, 2),
                    tcp(THERE, 80, HERE, 4000, ACK, 11, 7, bytes(1_400))]
            for inner in (there[0], back[0], there[1], back[1]):
                self.check_returns(40_001, of_flow(1, inner))
            # Options that nobody knows, and any order of all.
            inner = udp(HERE, 5000, THERE, 123, b"time?")
            self.check_returns(40_002, of_flow(2, inner, unknown), tos=0xB8)
            self.check_returns(40_002, geneve(
                [unknown, cookie(2), ATTACHMENT, (0x0108, 9, b""), ENDPOINT],
                udp(THERE, 123, HERE, 5000, b"noon"), network=0x123456))
            self.check_returns(40_003, of_flow(3, echo(HERE, THERE, 8)))
            self.check_returns(40_003, of_flow(3, echo(THERE, HERE, 0)))
            self.check_returns(40_004, of_flow(4, udp(
                HERE6, 5001, THERE6, 443, b"\xc0" + bytes(1_200))))
            # The longest packet.
            self.check_returns(40_005, of_flow(5, udp(
                HERE, 5002, THERE, 4500, bytes(8_500 - 28))))
            # Denied: neither comes back, nor the answer to it.
            self.balancer.send(40_006, of_flow(6, tcp(HERE, 9, THERE, 23, SYN)))
            self.balancer.send(40_007, of_flow(7, udp(HERE, 9, THERE, 53, b"")))
            self.check_nothing_returns()
        self.check_counts(received=12, sent=10)
        self.assertEqual(self.report["packets_in"], 12)
        self.assertEqual(self.report["packets_released"], 10)
        self.assertEqual(self.report["flows"], 7)

    def test_keeps_the_outer_header_of_each_packet(self):
        """Many flows at once, in processes of their own; each packet returns
        in its own header, whatever order they come in."""
        rng = random.Random(1)
        sent = {}
        with self.run_as("monitor", "--isolation=process",
                         "--unit_capacity=20Mbps"):
            for number in range(300):
                inner = udp(HERE, 1_000 + number, THERE, 9,
                            struct.pack(">I", number))
                payload = of_flow(rng.randrange(1 << 32), inner)
                sent[payload] = rng.randrange(1_024, 65_536)
                self.balancer.send(sent[payload], payload)
                if number % 50 == 49:
                    time.sleep(0.05)
            for _ in range(300):
                got = self.balancer.receive()
                self.assertIsNotNone(got)
                self.assertEqual(sent.pop(got["payload"]), got["sport"])
        self.assertEqual(sent, {})
        self.check_counts(received=300, sent=300)

    def test_what_an_nf_makes_goes_back_in_its_flows_header(self):
        nf = (f"lb:virtual={THERE}:80,servers=10.0.0.1:80,forward=ipip,"
              "outer=10.0.0.9,mtu=1000")
        header = len(of_flow(1, b""))
        with self.run_as(nf):
            # A packet that an NF lets grow: it is IP in IP now.
            short = of_flow(1, tcp(HERE, 4000, THERE, 80, SYN))
            self.balancer.send(40_001, short)
            got = self.balancer.receive()
            self.assertEqual(got["payload"][:header], short[:header])
            self.assertEqual(got["payload"][header + 9], 4)
            self.assertEqual(got["payload"][header + 20:], short[header:])
            self.assertTrue(got["is_whole"])
            # To one that is too long for that, the NF answers by ICMP.
            long = of_flow(1, tcp(HERE, 4000, THERE, 80, ACK, 2, 2,
                                  bytes(1_200)))
            self.balancer.send(40_001, long)
            got = self.balancer.receive()
            self.assertEqual(got["sport"], 40_001)
            self.assertEqual(got["payload"][:header], long[:header])
            answer = got["payload"][header:]
            self.assertEqual((answer[9], answer[16:20]), (1, packed(HERE)))
            self.assertEqual(tuple(answer[20:22]), (3, 4))  # too big
            self.assertEqual(checksum(answer[20:]), 0)
        self.check_counts(received=2, sent=2)
        self.assertEqual(self.report["packets_generated"], 1)

    def test_refuses_malformed_packets_by_name(self):
        inner = udp(HERE, 5000, THERE, 123, b"time?")
        good = of_flow(1, inner)
        cut = len(good) - len(inner)
        wrong = {
            "truncated": [good[:length] for length in range(8)],
            "options_truncated": [good[:length] for length in range(8, cut)],
            "inner_empty": [good[:cut]],
            "version": [of_flow(1, inner, first=0x48)],
            # Lists that end within an option.
            "option_length": [of_flow(1, inner, first=words)
                              for words in (1, 2, 4, 5, 7)],
            "critical_option": [of_flow(1, inner, (0x0109, 0x81, b""),
                                        flags=0x40)],
            "inner_protocol": [of_flow(1, inner, type=0x6558),
                               of_flow(1, inner, type=0x0806)],
            "control": [of_flow(1, inner, flags=0x80)],
            "aws_option_length": [geneve([ENDPOINT, ATTACHMENT,
                                          (0x0108, 3, bytes(8))], inner)],
            "aws_option_twice": [of_flow(1, inner, cookie(2))],
            "no_endpoint": [geneve([ATTACHMENT, cookie(1)], inner)],
            "no_attachment": [geneve([ENDPOINT, cookie(1)], inner)],
            "no_cookie": [geneve([ENDPOINT, ATTACHMENT], inner)],
            "inner_too_long": [of_flow(1, udp(HERE, 1, THERE, 2,
                                              bytes(8_501 - 28)))],
        }
        with self.run_as("firewall"):
            for payloads in wrong.values():
                for payload in payloads:
                    self.balancer.send(40_000, payload)
            # Those did no harm.
            self.check_returns(40_001, good)
            self.check_nothing_returns()
        counts = {name: len(payloads) for name, payloads in wrong.items()}
        self.check_counts(received=1, sent=1, refused=sum(counts.values()),
                          **counts)
        self.assertIn("port both: 1 no_cookie", self.output)

    def test_an_inner_packet_that_cannot_be_read_is_the_chains(self):
        with self.run_as("firewall"):
            self.balancer.send(40_000, of_flow(1, b"\x45"))
            self.balancer.send(40_000, of_flow(1, b"\x00" * 60, type=0x0800))
            self.check_nothing_returns()
        self.check_counts(received=2, sent=0)

    def health(self):
        """The code of the answer to a health check."""
        def get():
            request = socket.socket()
            request.settimeout(PATIENCE_S)
            return request
        with in_namespace(CLIENT, get) as request:
            request.connect((APPLIANCE, HEALTH_PORT))
            request.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b""
            while more := request.recv(1_000):
                answer += more
        return int(re.match(rb"HTTP/1.1 (\d+) ", answer)[1])

    def test_answers_health_checks_while_it_forwards(self):
        with self.run_as("firewall") as process:
            self.assertEqual(self.health(), 200)
            for _ in range(20):  # connections that say nothing
                with in_namespace(CLIENT, socket.socket) as silent:
                    silent.connect((APPLIANCE, HEALTH_PORT))
            self.assertEqual(self.health(), 200)
            # A process that hangs answers nothing.
            process.send_signal(signal.SIGSTOP)
            with in_namespace(CLIENT, socket.socket) as client:
                client.settimeout(1)
                client.connect((APPLIANCE, HEALTH_PORT))
                client.sendall(b"GET / HTTP/1.1\r\n\r\n")
                self.assertRaises(TimeoutError, client.recv, 100)
            process.send_signal(signal.SIGCONT)
            self.assertEqual(self.health(), 200)
        with in_namespace(CLIENT, socket.socket) as client:
            self.assertRaises(ConnectionRefusedError, client.connect,
                              (APPLIANCE, HEALTH_PORT))

    def test_refuses_what_it_cannot_be(self):
        for code, words, nf, *ports in (
                (USAGE, ["must be the only port"], "firewall",
                 "both=gwlb:lan0", "outside=wan0"),
                (USAGE, ["want both=gwlb:lan0"], "firewall", "inside=gwlb:lan0"),
                (USAGE, ["want ,health=PORT"], "firewall",
                 "both=gwlb:lan0,health=x"),
                (USAGE, ["neither inside nor outside"], "nat(ip=192.0.2.1)",
                 "both=gwlb:lan0"),
                (UNAVAILABLE, ["port both", "nothing0"], "firewall",
                 "both=gwlb:nothing0")):
            done = subprocess.run(
                net.in_network(MIDDLE, net.PROGRAM, "run", f"--nf={nf}",
                               *(f"--port={port}" for port in ports)),
                capture_output=True, text=True, timeout=PATIENCE_S,
                check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)
        with self.run_as("firewall"):
            done = subprocess.run(
                net.in_network(MIDDLE, net.PROGRAM, "run", "--nf=firewall",
                               "--port=both=gwlb:lan0"),
                capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
            self.assertIn("UDP port 6081", done.stderr)

    @unittest.skipUnless(shutil.which("tshark"), "wants tshark")
    def test_tshark_reads_what_returns(self):
        with self.run_as("firewall"):
            sent = of_flow(0xCAFEF00D, udp(HERE, 50_000, THERE, 50_001, b"data"))
            self.balancer.send(40_001, sent)
            frame = self.balancer.receive()["frame"]
        path = self.folder / "returned.pcap"
        path.write_bytes(pcap([(0, frame)]))
        shown = subprocess.run(
            ["tshark", "-r", path, "-V", "-o", "ip.check_checksum:TRUE"],
            capture_output=True, text=True, timeout=4 * PATIENCE_S,
            check=True).stdout
        for words in ("Source Port: 40001", "Destination Port: 6081",
                      "Generic Network Virtualization Encapsulation",
                      "Header Checksum Status: Good", f"Src: {HERE}",
                      "Amazon", "cafef00d"):
            self.assertIn(words.lower(), shown.lower())
        self.assertNotIn("Malformed", shown)


# The tests of the network between two hosts are those of run_test.py.
for inherited in [name for name in dir(net.Run) if name.startswith("test_")]:
    setattr(Gwlb, inherited, None)

if __name__ == "__main__":
    net.main()

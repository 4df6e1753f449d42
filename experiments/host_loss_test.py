#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What host_loss.py makes of packets that have left."""

import io
import pathlib
import struct
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import host_loss

MS = 10**6


def frame(flow: int) -> bytes:
    return bytes(26) + struct.pack(">IIHH", flow, 1, flow, 53) + bytes(4)


def option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + \
        bytes(-len(value) % 4)


def block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + length + body + length


def packet(time: int, data: bytes, comment: bytes) -> bytes:
    return block(6, struct.pack("<5I", 0, time >> 32, time & 0xffffffff,
                                len(data), len(data)) + data
                 + bytes(-len(data) % 4) + option(1, comment) + bytes(4))


class HostLossTest(unittest.TestCase):
    def test_reads_packets_with_comments(self):
        text = block(host_loss.SECTION, bytes(16))
        text += block(1, struct.pack("<HHI", 1, 0, 0) + option(9, b"\x09")
                      + bytes(4))
        text += packet(5 << 32, frame(7),
                       b"unit=12 flowlet=5 clock=51 latency_ns=526268")
        text += packet(9, frame(8), b"dropped=queue_full latency_ns=0")
        self.assertEqual(list(host_loss.packets_of(io.BytesIO(text))),
                         [(5 << 32, frame(7), 12, 526268)])

    def test_times_flows_of_the_lost_host(self):
        begin = 10**18

        def left(at, flow, unit, latency=1_000):
            return begin + at, frame(flow), unit, latency
        found = host_loss.served_again([
            left(1 * MS, 1, 4), left(1 * MS, 2, 5), left(1 * MS, 3, 4),
            left(1 * MS, 4, 9), left(1 * MS, 5, 4), left(2 * MS, 5, 7),
            # Flow 1 came before the failure, flow 2 waits 2 ms after it; flow
            # 3 is silent, 4 was elsewhere, and 5 had moved away.
            left(23 * MS, 1, 1, 4 * MS), left(32 * MS, 2, 8, 2 * MS),
            left(33 * MS, 2, 8), left(40 * MS, 4, 9), left(40 * MS, 5, 7)],
            begin, 20 * MS, 4, 6)
        self.assertEqual(found["affected"], 3)
        self.assertEqual(found["silent"], 1)
        served = found["served_s"]
        self.assertEqual((served["p50"], served["p99"], served["max"]),
                         (0.002, 0.003, 0.003))
        self.assertEqual(served["p50_before"], 1e-6)

    def test_a_host_without_flows_has_no_times(self):
        found = host_loss.served_again([], 0, MS, 0, 1)
        self.assertEqual((found["affected"], found["served_s"]["p99"]),
                         (0, None))

    def test_cuts_a_capture_behind_its_first_packet(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            path = folder / "in.pcap"
            head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
            first = struct.pack("<IIII", 3, 7, 60, 60) + bytes(60)
            path.write_bytes(head + first + first)
            self.assertEqual(
                host_loss.one_packet(path, folder).read_bytes(), head + first)
            self.assertEqual(host_loss.first_time_ns(path), 3 * 10**9 + 7)


if __name__ == "__main__":
    unittest.main()

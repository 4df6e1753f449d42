#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The bounds, on packets that can be counted by hand."""

import argparse
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import bounds
from bounds import Flowlet, Packet

GBPS = 10**9
MS = 10**6
STEP_BYTES = 1_250_000  # 10 ms of a unit of 1 Gbit/s


def udp(source, target, payload=8, source_port=1000, target_port=2000):
    header = struct.pack(">HHHH", source_port, target_port, 8 + payload, 0)
    return ip(source, target, 17, header + bytes(payload))


def ip(source, target, protocol, payload, fragment=0):
    return struct.pack(">BBHHHBBH4B4B", 0x45, 0, 20 + len(payload), 1, fragment,
                       64, protocol, 0, *source, *target) + payload


def ethernet(payload, kind=0x0800, tags=b""):
    return bytes(12) + tags + struct.pack(">H", kind) + payload


def pcap(records, link=1, order="<", magic=0xA1B23C4D):
    data = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link)
    for time_ns, frame in records:
        data += struct.pack(order + "IIII", time_ns // 10**9, time_ns % 10**9,
                            len(frame), len(frame)) + frame
    return data


A, B, C = (10, 0, 0, 1), (10, 0, 0, 2), (10, 0, 0, 3)


class Reading(unittest.TestCase):
    def test_numbers_connections_and_counts_time_from_the_first_packet(self):
        data = pcap([(5 * GBPS, ethernet(udp(A, B))),
                     (5 * GBPS + 7, ethernet(udp(A, C))),
                     (5 * GBPS + 9, ethernet(udp(B, A, source_port=2000,
                                                 target_port=1000)))])
        self.assertEqual(bounds.packets_of(data, "a"),
                         [Packet(0, 50, 0), Packet(7, 50, 1), Packet(9, 50, 0)])

    def test_takes_packets_that_run_backwards_as_simultaneous(self):
        data = pcap([(0, ethernet(udp(A, B))), (9, ethernet(udp(A, B))),
                     (5, ethernet(udp(A, B)))])
        self.assertEqual([p.time_ns for p in bounds.packets_of(data, "a")],
                         [0, 9, 9])

    def test_leaves_out_what_has_no_ip(self):
        data = pcap([(0, ethernet(bytes(28), 0x0806)),
                     (3, ethernet(udp(A, B))), (4, ethernet(udp(A, B)))])
        self.assertEqual([p.time_ns for p in bounds.packets_of(data, "a")],
                         [3, 4])

    def test_reads_tags_raw_ip_other_byte_orders_and_ticks(self):
        tags = struct.pack(">HHHH", 0x88A8, 1, 0x8100, 2)
        frames = [(0, ethernet(udp(A, B), tags=tags)),
                  (2, ethernet(udp(A, B), tags=tags))]
        raw = [(0, udp(A, B)), (2, udp(A, B))]
        for data, length, ticks in ((pcap(frames), 58, 2),
                                    (pcap(raw, link=101), 36, 2),
                                    (pcap(raw, 101, ">"), 36, 2),
                                    (pcap(raw, 101, "<", 0xA1B2C3D4), 36,
                                     2000)):
            self.assertEqual(bounds.packets_of(data, "a"),
                             [Packet(0, length, 0), Packet(ticks, length, 0)])

    def test_knows_connections_of_ipv6_behind_extensions(self):
        def packet(extension):
            body = struct.pack(">HHHH", 1, 2, 8, 0)
            first = 17
            if extension:
                body, first = bytes([17, 0]) + bytes(6) + body, 0
            return struct.pack(">IHBB", 0x60000000, len(body), first, 64) + \
                bytes(range(32)) + body
        data = pcap([(0, ethernet(packet(False), 0x86DD)),
                     (1, ethernet(packet(True), 0x86DD))])
        self.assertEqual([p.flow for p in bounds.packets_of(data, "a")], [0, 0])

    def test_reads_no_ports_of_fragments(self):
        one = ip(A, B, 17, b"abcdefgh", fragment=0x2000)
        other = ip(A, B, 17, b"ijklmnop", fragment=5)
        data = pcap([(0, ethernet(one)), (1, ethernet(other))])
        self.assertEqual([p.flow for p in bounds.packets_of(data, "a")], [0, 0])

    def test_says_what_is_wrong_and_where(self):
        good = pcap([(0, ethernet(udp(A, B))), (1, ethernet(udp(A, B)))])
        for data, words in ((b"\n\r\r\n" + bytes(40), "no plain pcap"),
                            (good[:20], "no plain pcap"),
                            (good[:30], "offset 24: cut within a record"),
                            (good[:-1], "offset 106: cut within a packet"),
                            (pcap([], link=113), "link type 113"),
                            (good[:90], "want two packets"),
                            (pcap([(0, ethernet(udp(A, B)))] * 2),
                             "want two packets")):
            with self.subTest(words), tempfile.NamedTemporaryFile() as file:
                pathlib.Path(file.name).write_bytes(data)
                ran = subprocess.run(
                    [sys.executable, bounds.__file__, file.name],
                    capture_output=True, text=True, check=False)
                self.assertEqual(ran.returncode, 65, ran.stderr)
                self.assertIn(f"{file.name}: {words}", ran.stderr)
                self.assertEqual(ran.stderr.count("\n"), 1)
                self.assertEqual(ran.stdout, "")

    def test_reads_any_bytes_without_breaking(self):
        seed = random.SystemRandom().getrandbits(32)
        rng = random.Random(seed)
        good = pcap([(i, ethernet(udp(A, B))) for i in range(4)])
        for _ in range(2000):
            data = bytearray(good[:rng.randrange(len(good) + 1)])
            for _ in range(rng.randrange(4)):
                if data:
                    data[rng.randrange(len(data))] = rng.randrange(256)
            try:
                bounds.packets_of(bytes(data), "a")
            except bounds.BadCapture:
                pass
            except Exception as error:
                self.fail(f"seed {seed}: {error!r} of {data.hex()}")


class Flowlets(unittest.TestCase):
    def test_are_cut_by_gaps_and_by_bytes(self):
        packets = [Packet(0, 100, 0), Packet(500, 100, 0),   # the gap is T
                   Packet(1001, 100, 0),                     # and now more
                   Packet(1002, 900, 0), Packet(1003, 1, 0),  # 1,000, and over
                   Packet(1003, 100, 1)]
        self.assertEqual(bounds.flowlets_of(packets, 500, 1000),
                         [Flowlet(0, 500, 200), Flowlet(1001, 1002, 1000),
                          Flowlet(1003, 1003, 1), Flowlet(1003, 1003, 100)])


class Ceil(unittest.TestCase):
    def test_rounds_each_step_up(self):
        steps = [STEP_BYTES, STEP_BYTES + 1, 0, 1]  # 1, 2, 0, 1 units
        self.assertEqual(bounds.ceil_of_demand(steps, 40 * MS, GBPS),
                         (1 + 2 + 0 + 1) * 10 * MS)

    def test_a_last_step_has_its_own_length(self):
        # 1.2 units' bytes of 6 ms take 2 units for 6 ms.
        self.assertEqual(
            bounds.ceil_of_demand([1, STEP_BYTES * 12 * 6 // 100], 16 * MS,
                                  GBPS), 10 * MS + 2 * 6 * MS)

    def test_a_short_last_step_is_served_by_the_units_before(self):
        self.assertEqual(
            bounds.ceil_of_demand([2 * STEP_BYTES, STEP_BYTES], 14 * MS, GBPS),
            2 * 14 * MS)


class Pooled(unittest.TestCase):
    LIMIT = 400_000

    def burst(self, count):
        """At once, packets that take 10 µs each; and one at the end."""
        return [Packet(0, 1250, 0)] * count + [Packet(9 * MS, 1250, 0)]

    def test_takes_as_few_as_the_latency_allows(self):
        # 40 packets wait for 10 … 400 µs; the 41st for 410.
        unit_ns, p99 = bounds.pooled_queue(self.burst(40), GBPS, self.LIMIT, 9)
        self.assertEqual((unit_ns, p99), (9 * MS, 400_000))
        # Two units halve what is waited, but not a packet's own 10 µs.
        unit_ns, p99 = bounds.pooled_queue(self.burst(41), GBPS, self.LIMIT, 9)
        self.assertEqual((unit_ns, p99), (2 * 9 * MS, 40 * 5_000 + 10_000))

    def test_lets_one_packet_of_a_hundred_wait(self):
        packets = [Packet(i * 50_000, 1250, 0) for i in range(59)]
        late = [Packet(3 * MS, 125_000, 0)]  # of 1 ms
        behind = [Packet(5 * MS + i * 50_000, 1250, 0) for i in range(40)]
        unit_ns, p99 = bounds.pooled_queue(packets + late + behind, GBPS,
                                           self.LIMIT, 9)
        self.assertEqual((unit_ns, p99), (behind[-1].time_ns, 10_000))

    def test_a_queue_goes_on_into_the_next_step(self):
        # Of 1 ms each; of the first, half is left when the step ends.
        packets = [Packet(0, 1, 0), Packet(10 * MS - MS // 2, 125_000, 0),
                   Packet(10 * MS, 125_000, 0), Packet(19 * MS, 1, 0)]
        self.assertEqual(bounds.pooled_queue(packets, GBPS, 2 * MS, 9),
                         (19 * MS, 3 * MS // 2))
        # Two units halve what is left, but with less patience than a packet
        # takes by itself nothing helps.
        self.assertEqual(bounds.pooled_queue(packets, GBPS, MS + MS // 4, 9),
                         (10 * MS + 2 * 9 * MS, MS + MS // 4))
        self.assertEqual(bounds.pooled_queue(packets, GBPS, MS // 2, 3)[0],
                         3 * 19 * MS)

    def test_gives_units_back(self):
        packets = self.burst(41) + [Packet(15 * MS, 1250, 0),
                                    Packet(20 * MS, 1250, 0)]
        unit_ns, _ = bounds.pooled_queue(packets, GBPS, self.LIMIT, 9)
        self.assertEqual(unit_ns, 2 * 10 * MS + 10 * MS)


class Alone(unittest.TestCase):
    def test_a_flow_waits_for_itself_and_for_no_other(self):
        # Of 10 µs each.
        packets = [Packet(0, 1250, 0), Packet(0, 1250, 1),
                   Packet(4_000, 1250, 0), Packet(50_000, 1250, 0)]
        self.assertEqual(bounds.delays_alone(packets, GBPS),
                         [10_000, 10_000, 16_000, 10_000])

    def test_its_quantiles_are_told(self):
        packets = [Packet(i * MS, 1250 * (i + 1), 0) for i in range(3)]
        found = bounds.bounds_of(packets, All.OPTIONS)
        self.assertEqual((found["alone_p50_ns"], found["alone_p99_ns"]),
                         (20_000, 30_000))

    def test_quantiles_are_the_least_that_so_many_do_not_exceed(self):
        hundred = list(range(100, 0, -1))
        self.assertEqual(bounds.percentile(hundred, 50), 50)
        self.assertEqual(bounds.percentile(hundred, 99), 99)
        self.assertEqual(bounds.percentile(hundred + [1], 99), 99)
        self.assertEqual(bounds.percentile([], 50), 0)


class FirstFit(unittest.TestCase):
    T = 500_000

    def units_ms(self, flowlets, hold_ms=0, duration_ms=100):
        unit_ns = bounds.first_fit(
            [Flowlet(*(int(x) for x in each)) for each in flowlets],
            duration_ms * MS, GBPS, self.T, hold_ms * MS)
        return unit_ns / MS

    def rate(self, share, ms):
        """Bytes of a flowlet that takes so much of a unit for so long."""
        return share * ms * GBPS // 8000

    def test_shares_a_unit_as_long_as_it_has_room(self):
        both = [(0, 10 * MS, self.rate(0.5, 10)),
                (2 * MS, 12 * MS, self.rate(0.5, 10))]
        self.assertEqual(self.units_ms(both), 12)
        both[1] = (2 * MS, 12 * MS, self.rate(0.6, 10))
        self.assertEqual(self.units_ms(both), 10 + 10)

    def test_counts_a_flowlet_for_at_least_the_timeout(self):
        self.assertEqual(self.units_ms([(0, 0, 100)]), 0.5)
        # 0.4 ms of a unit's bytes within no time: 80 % of it for 0.5 ms.
        brief = (0, 0, self.rate(1, 0.4))
        self.assertEqual(self.units_ms([brief, (1, 1, self.rate(0.2, 0.5))]),
                         0.5 + 1 / MS)
        self.assertEqual(self.units_ms([brief, (1, 1, self.rate(0.3, 0.5))]),
                         0.5 + 0.5)

    def test_takes_the_first_unit_with_room(self):
        # The second unit is not kept up by what the first has room for.
        flowlets = [(0, 20 * MS, self.rate(0.7, 20)),
                    (1 * MS, 6 * MS, self.rate(0.7, 5)),
                    (5 * MS, 15 * MS, self.rate(0.2, 10))]
        self.assertEqual(self.units_ms(flowlets), 20 + 5)

    def test_a_unit_ends_when_idle_or_after_its_hold(self):
        flowlets = [(0, 10 * MS, 1000), (14 * MS, 20 * MS, 1000),
                    (60 * MS, 70 * MS, 1000)]
        self.assertEqual(self.units_ms(flowlets), 10 + 6 + 10)
        # With 5 ms, the first pause is bridged.
        self.assertEqual(self.units_ms(flowlets, 5), 25 + 15)
        self.assertEqual(self.units_ms(flowlets, 50), 100)

    def test_counts_nothing_behind_the_last_packet(self):
        self.assertEqual(self.units_ms([(95 * MS, 100 * MS, 1000)], 50), 5)
        self.assertEqual(self.units_ms([(100 * MS, 100 * MS, 1000)]), 0)

    def test_a_flowlet_faster_than_a_unit_has_one_alone(self):
        fast = (0, 10 * MS, self.rate(3, 10))
        self.assertEqual(self.units_ms([fast, (1, 10 * MS, 1000)]),
                         10 + 10 - 1 / MS)


class All(unittest.TestCase):
    OPTIONS = argparse.Namespace(capacity=GBPS, timeout=500_000,
                                 flowlet_bytes=15_000, latency=400_000,
                                 hold=100 * MS, most_units=64)

    def test_utilisation_is_demand_over_units(self):
        # 5 Mbit in 20 ms: 250 Mbit/s.
        packets = [Packet(i * MS, 31_250, 0) for i in range(20)] + [
            Packet(20 * MS, 0, 0)]
        found = bounds.bounds_of(packets, self.OPTIONS)
        self.assertEqual(found["mean_bps"], 250e6)
        self.assertEqual(found["demand_bytes"], [312_500, 312_500, 0])
        self.assertEqual(found["units"]["ceil"], 1)
        self.assertEqual(found["utilisation"]["ceil"], 0.25)
        self.assertEqual(found["units"]["first_fit_held"], 1)
        self.assertEqual(found["units"]["first_fit"], 0.5)
        self.assertEqual(found["utilisation"]["first_fit"], 0.5)


if __name__ == "__main__":
    unittest.main()

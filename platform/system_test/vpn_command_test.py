#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The NF `vpn` in `snf replay`: the numbers of an association stay unique
wherever its state moves, and whatever fails.

Usage: vpn_command_test.py PROGRAM SOURCE [TEST…]
"""

import pathlib
import random
import socket
import struct
import sys
import unittest

from command_case import OK, Command, pcap, run

KEYS = [20 * f"{i:x}{i + 8:x}" for i in range(1, 5)]
A, B = "192.0.2.1", "198.51.100.1"
NEAR, FAR = "10.1.0.0/16", ("10.2.0.0/16", "10.3.0.0/16")
PACKETS = 3_000


def udp(number):
    """To one of the two tunnels; the number is in the payload."""
    payload = struct.pack(">I", number) + bytes(number % 900)
    to = f"10.{2 + number % 2}.0.{number % 200}"
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28 + len(payload), 1, 0, 64, 17,
                     0, socket.inet_aton(f"10.1.0.{number % 100}"),
                     socket.inet_aton(to))
    return bytes(12) + b"\x08\x00" + ip + struct.pack(
        ">HHHH", 5000, 53, 8 + len(payload), 0) + payload


def frames_of(data):
    at = 24
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        yield data[at + 16:at + 16 + length]
        at += 16 + length


class Vpn(Command):
    def setUp(self):
        super().setUp()
        rng = random.Random(3)
        now, packets = 1_000.0, []
        for number in range(PACKETS):
            # Bursts, in which some packets have one time.
            now += rng.choice((0, 0.000_02, 0.000_1, 0.002))
            packets.append((now, udp(number)))
        self.capture = self.file("inside.pcap", pcap(packets))
        self.near = self.tunnels("near", A, B, ((0, 1), (2, 3)), False)
        self.far = self.tunnels("far", B, A, ((1, 0), (3, 2)), True)

    def tunnels(self, name, local, peer, keys, is_far):
        lines = []
        for i, (key_in, key_out) in enumerate(keys):
            spi_in, spi_out = 0x1000 + i, 0x2000 + i
            if is_far:
                spi_in, spi_out = spi_out, spi_in
            ends = (FAR[i], NEAR) if is_far else (NEAR, FAR[i])
            lines.append(
                f"t{i} local={local} peer={peer} spi_in={spi_in} "
                f"spi_out={spi_out} key_in={KEYS[key_in]} "
                f"key_out={KEYS[key_out]} inside={ends[0]} remote={ends[1]}\n")
        return f"vpn:tunnels={self.file(name, ''.join(lines).encode())}"

    def released(self, capture, *arguments):
        out = self.file("out.pcap", b"")
        report = self.report(capture, "--out", out, "--force", *arguments)
        return report, list(frames_of(pathlib.Path(out).read_bytes()))

    def check_numbers(self, frames):
        """By association: no number twice, and no IV twice."""
        found = {}
        for frame in frames:
            spi, number, iv = struct.unpack_from(">IIQ", frame, 34)
            numbers, ivs = found.setdefault(spi, (set(), set()))
            self.assertNotIn(number, numbers)
            self.assertNotIn(iv, ivs)
            numbers.add(number)
            ivs.add(iv)
        self.assertEqual(set(found), {0x2000, 0x2001})
        return found

    def test_gives_each_number_once_wherever_the_state_is(self):
        for arguments in ((), ("--policy=rotate",),
                          ("--policy=rotate", "--chaos",
                           "state_delay=0..2ms state_loss=0.02"),
                          ("--policy=rotate", "--loggers=on"),
                          ("--controllers=3", "--policy=rotate")):
            with self.subTest(arguments=arguments):
                report, frames = self.released(self.capture, "--nf", self.near,
                                               *arguments)
                self.assertEqual(report["packets_released"], PACKETS)
                for numbers, ivs in self.check_numbers(frames).values():
                    self.assertEqual(numbers, set(range(1, PACKETS // 2 + 1)))
                    self.assertEqual(len(ivs), PACKETS // 2)

    def test_gives_no_number_twice_when_units_die(self):
        died = 0
        for seed in range(1, 9):
            with self.subTest(seed=seed):
                report, frames = self.released(
                    self.capture, "--nf", self.near, "--policy=rotate",
                    "--loggers=on", "--faults", "kill any p=0.004",
                    "--seed", seed)
                died += report["faults"]["kills"]
                lost = PACKETS - report["packets_released"]
                for numbers, _ in self.check_numbers(frames).values():
                    # Only what was lost may leave a gap.
                    self.assertGreaterEqual(len(numbers), max(numbers) - lost)
        self.assertGreater(died, 20)

    def test_the_other_end_brings_all_of_it_back(self):
        _, sealed = self.released(self.capture, "--nf", self.near,
                                  "--policy=rotate")
        between = self.file("between.pcap", pcap(
            [(1_000 + i / 10_000, frame) for i, frame in enumerate(sealed)]))
        report, opened = self.released(between, "--nf", self.far,
                                       "--policy=rotate")
        self.assertEqual(report["packets_released"], PACKETS)
        before = frames_of(pathlib.Path(self.capture).read_bytes())
        self.assertEqual(sorted(opened), sorted(before))

    def test_shows_no_key(self):
        for more in ((), ("--json", "-"), ("--explain=top",)):
            done = run("replay", self.capture, "--nf", self.near, *more)
            self.assertEqual(done.returncode, OK, done.stderr.decode())
            for key in KEYS:
                self.assertNotIn(key[:8].encode(), done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

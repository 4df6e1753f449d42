#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The packets and figures of gwlb_tunnel.py, without a network."""

import contextlib
import io
import pathlib
import struct
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True  # nothing beside the sources
import gwlb_tunnel
from other_program import SKIPPED, CannotMeasure


class GwlbTunnelTest(unittest.TestCase):
    def run_script(self, *words):
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), \
                contextlib.redirect_stderr(errors):
            code = gwlb_tunnel.main([str(word) for word in words])
        return code, out.getvalue(), errors.getvalue()

    def test_makes_packets_of_a_balancer(self):
        inner = gwlb_tunnel.inner_packet(9, 100)
        self.assertEqual(len(inner), 100)
        self.assertEqual(gwlb_tunnel.checksum_of(inner[:20]), 0)
        self.assertEqual(struct.unpack(">H", inner[2:4])[0], 100)
        packet = gwlb_tunnel.in_geneve(9, inner)
        self.assertEqual(packet[:4], bytes((8, 0, 8, 0)))
        self.assertEqual(packet[8:12], bytes((1, 8, 1, 2)))
        self.assertEqual(packet[32:40], bytes((1, 8, 3, 1, 0, 0, 0, 10)))
        self.assertEqual(packet[40:], inner)

    def test_each_flow_has_one_port(self):
        for length in (100, 1_400):
            ports = {}
            made = gwlb_tunnel.batches(length)
            self.assertEqual(len(made), gwlb_tunnel.PORTS)
            for port, (data, each, count) in enumerate(made):
                self.assertEqual(len(data), each * count)
                self.assertLessEqual(len(data), 65_507)
                self.assertEqual(each, length + 40)
                for at in range(0, len(data), each):
                    flow = data[at + 36:at + 40]
                    self.assertEqual(ports.setdefault(flow, port), port)
            self.assertEqual(len(ports), gwlb_tunnel.FLOWS)

    def test_a_packet_returns_with_its_options(self):
        sent = gwlb_tunnel.in_geneve(0, gwlb_tunnel.inner_packet(0, 200))
        forwarded = bytearray(sent)
        forwarded[48] -= 1  # the TTL
        forwarded[50:52] = b"ab"  # the checksum
        self.assertTrue(gwlb_tunnel.brings_back(sent, bytes(forwarded)))
        for at in (0, 15, 39, 60, 239):
            other = bytearray(sent)
            other[at] ^= 1
            self.assertFalse(gwlb_tunnel.brings_back(sent, bytes(other)), at)
        self.assertFalse(gwlb_tunnel.brings_back(sent, sent[:-1]))

    def test_figures_are_of_a_core(self):
        sent = {"sent": 2_000_000, "returned": 1_000_000, "seconds": 2.0}
        self.assertEqual(gwlb_tunnel.figures_of(1_000, sent, 1.0), {
            "packets_s": 500_000, "returned": 0.5, "cores": 0.5,
            "packets_s_core": 1_000_000, "gbit_s_core": 8})
        for nothing, cpu in ((sent | {"returned": 0}, 1.0), (sent, 0.0)):
            with self.assertRaises(CannotMeasure):
                gwlb_tunnel.figures_of(1_000, nothing, cpu)

    def test_ratios_are_of_rounds(self):
        def rates(*values):
            return [{"packets_s_core": value} for value in values]
        self.assertEqual(gwlb_tunnel.told(rates(10, 20, 40),
                                          rates(30, 40, 400)), {
            "handler": {"packets_s_core": 20}, "snf": {"packets_s_core": 40},
            "ratio": 3, "ratio_least": 2, "ratio_greatest": 10})

    def test_skips_with_a_word_without_the_handler(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(gwlb_tunnel, "check_machine"):
            for words, why in (
                    (["--handler=/nowhere/x"], "/nowhere/x is no program"),
                    ([f"--build={folder}"], "--fetch gets it from https://")):
                code, out, _ = self.run_script("snf", *words)
                self.assertEqual(code, SKIPPED)
                self.assertTrue(out.startswith("skipped: "), out)
                self.assertIn(why, out)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])

    def test_skips_with_a_word_without_root(self):
        with mock.patch.object(gwlb_tunnel.os, "geteuid", return_value=1):
            code, out, _ = self.run_script("snf")
        self.assertEqual((code, out.split(",")[0]),
                         (SKIPPED, "skipped: needs root"))

    def test_refuses_words_that_mean_nothing(self):
        for words in (["--rows=most"], ["--rounds=0"], ["--fetch"],
                      ["--boost=b"], ["--handler=a", "--build=b"]):
            with self.assertRaises(SystemExit):
                self.run_script("snf", *words)


if __name__ == "__main__":
    unittest.main()

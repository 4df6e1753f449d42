#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checksums of what the NF `nat` lets out, as tshark judges them.

Usage: nat_checksum_test.py PROGRAM [TEST…]

Real captures go through `snf replay --nf nat --out`, on units so small that
flows move. Each packet that comes out is found among those that went in, by all
that a translator leaves alone: no good checksum may have become a bad one, or
one that cannot be verified. Skipped without tshark, and without the captures,
whose folder is ../shared/traces or what SNF_TRACES says.
"""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
CAPTURES = pathlib.Path(os.environ.get("SNF_TRACES", "../shared/traces"))
PROTOCOLS = ("ip", "tcp", "udp", "icmp")
# What stays as it is, whatever the ends of a packet are called.
KEPT = ("frame.len", "vlan.id", "ip.version", "ip.id",
        "ip.ttl", "ip.len", "ip.dsfield", "ip.flags", "ip.frag_offset",
        "ip.proto", "tcp.seq_raw", "tcp.ack_raw", "tcp.flags",
        "tcp.window_size_value", "tcp.payload", "udp.length", "udp.payload",
        "icmp.type", "icmp.code", "icmp.seq", "icmp.mtu")
GOOD, BAD, UNVERIFIED = "1", "0", "2"

# The good checksums that each capture has, at least, without broadcasts,
# multicasts and martians, which are not translated.
CASES = {
    "PcapPlusPlus__DnsPackets.pcap": {"ip": 420, "udp": 420},
    "PcapPlusPlus__example2.pcap": {"tcp": 4250, "udp": 240, "icmp": 100},
    "StratosphereLinuxIPS__test7-malicious.pcap":
        {"ip": 1200, "tcp": 900, "udp": 360, "icmp": 8},
    "debian-ndpi-4.2-pcap__WebattackXSS.pcap": {"ip": 8500, "tcp": 6800},
    # Fragments; none of its checksums is good.
    "debian-ndpi-4.2-pcap__dnscrypt-v1-and-resolver-pings.pcap": {},
    "debian-ndpi-4.2-pcap__skype.pcap": {"tcp": 2500, "udp": 360, "icmp": 8},
    "mercury__emix.pcap": {"ip": 6100, "tcp": 4500, "udp": 700, "icmp": 20},
    "nDPI__gnutella.pcap": {"tcp": 2100, "udp": 1500, "icmp": 8},
}


def judged(capture):
    """Of each packet what is kept, and the verdicts on its checksums."""
    command = ["tshark", "-n", "-r", capture, "-T", "fields",
               "-E", "occurrence=a", "-o", "tcp.desegment_tcp_streams:FALSE"]
    for protocol in ("ip", "tcp", "udp"):
        command += ["-o", f"{protocol}.check_checksum:TRUE"]
    for protocol in PROTOCOLS:
        command += ["-e", f"{protocol}.checksum.status"]
    for field in KEPT:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, check=True, timeout=300)
    for line in done.stdout.decode().split("\n")[:-1]:
        fields = line.split("\t")
        # Of what comes twice, the first is the packet's own.
        yield (tuple(field.split(",")[0] for field in fields[len(PROTOCOLS):]),
               dict(zip(PROTOCOLS, fields[:len(PROTOCOLS)])))


class Verdicts:
    """How many checksums are good and how many not, by packet and in all."""

    def __init__(self, capture):
        self.packets = collections.Counter()
        self.not_good = collections.Counter()
        self.totals = collections.Counter()
        for kept, verdicts in judged(capture):
            self.packets[kept] += 1
            for protocol, all_of_it in verdicts.items():
                for verdict in filter(None, all_of_it.split(",")):
                    self.totals[protocol, verdict] += 1
                    if verdict != GOOD:
                        self.not_good[kept, protocol, verdict] += 1


@unittest.skipUnless(shutil.which("tshark"), "tshark is not installed")
@unittest.skipUnless((CAPTURES / "MANIFEST.tsv").exists(),
                     f"the captures are not in {CAPTURES}; SNF_TRACES names "
                     "their folder")
class NatChecksums(unittest.TestCase):
    def test_are_as_good_as_they_were(self):
        for name, floors in CASES.items():
            with self.subTest(name):
                self.check(CAPTURES / name, floors)

    def check(self, capture, floors):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.pcapng")
            done = subprocess.run(
                [PROGRAM, "replay", capture, "--nf=nat:ip=100.127.255.254",
                 "--unit_capacity=2Mbps", "--out", out, "--json=-", "--quiet"],
                capture_output=True, timeout=300, check=False)
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            report = json.loads(done.stdout)
            before, after = Verdicts(capture), Verdicts(out)
        dropped = sum(report["packets_dropped"].values())
        print(f"{capture.name}: {report['flowlets_moved']} flowlets moved, "
              f"{dropped} packets dropped;",
              ", ".join(f"{protocol} {after.totals[protocol, GOOD]} good, "
                        f"{after.totals[protocol, BAD]} bad, "
                        f"{after.totals[protocol, UNVERIFIED]} not verified"
                        for protocol in PROTOCOLS))
        self.assertEqual(after.packets - before.packets, {})
        self.assertEqual((before.packets - after.packets).total(), dropped)
        # Of packets alike, no more than before are not good.
        self.assertEqual(after.not_good - before.not_good, {})
        self.assertGreater(report["flowlets_moved"], 0)
        for protocol, floor in floors.items():
            self.assertGreaterEqual(after.totals[protocol, GOOD], floor)


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf trace convert` as a user meets it, with tshark as second opinion.

Usage: trace_convert_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import json
import resource
import signal
import struct
import sys
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import pcap, udp_frame
from trace_case import (BAD_DATA, IO, OK, SOURCE, USAGE, Trace, fields,
                        needs_tshark, run)


class Convert(Trace):
    @needs_tshark
    def test_keeps_times_and_lengths_in_every_format(self):
        plain = self.folder / "plain.pcap"
        self.convert(self.small, plain)
        wanted = fields(plain, "frame.time_epoch", "frame.len")
        self.assertEqual(len(wanted), 45153)
        for name in ["a.pcapng", "a.pcap.gz", "a.pcapng.zst"]:
            with self.subTest(name):
                out = self.folder / name
                self.convert(plain, out)
                if name.endswith("zst"):
                    out, packed = self.folder / "b.pcapng", out
                    self.convert(packed, out)
                self.assertEqual(
                    fields(out, "frame.time_epoch", "frame.len"), wanted)

    def test_puts_together_again_what_it_split(self):
        whole = self.folder / "whole.pcap"
        self.convert(self.small, whole)
        for split, files in [("packets:10000", 5), ("time:500ms", 10)]:
            with self.subTest(split):
                said = self.convert(self.small, self.folder / "part.pcap.gz",
                                    "--split", split, "--force")
                self.assertIn(f"in {files} files", said)
                parts = sorted(self.folder.glob("part-*.pcap.gz"))
                self.assertEqual(len(parts), files)
                self.convert(*parts, self.folder / "again.pcap", "--force")
                self.assertEqual((self.folder / "again.pcap").read_bytes(),
                                 whole.read_bytes())
                for part in parts:
                    part.unlink()

    def test_leaves_one_split_alone(self):
        for name in ("part-1.pcap", "part-0009.pcapng", "other-0004.pcap",
                     "part-0003x.pcap"):
            (self.folder / name).write_bytes(b"mine")
        others = sorted(self.folder.iterdir())
        out = self.folder / "part.pcap"
        self.convert(self.small, out, "--split=packets:10000")
        # Some names of the next split are free: none is written.
        (self.folder / "part-0001.pcap").unlink()
        self.refused(USAGE, ["part-0002.pcap", "there already", "--force"],
                     "convert", self.small, out, "--split=packets:50000")
        said = self.convert(self.small, out, "--split=flows:3", "--force")
        self.assertIn("in 3 files; removed 2 files of an older split", said)
        self.assertEqual(
            sorted(self.folder.iterdir()),
            sorted([*others, *(self.folder / f"part-000{i}.pcap"
                               for i in (1, 2, 3))]))

    def test_removes_no_input_as_a_part_of_an_older_split(self):
        mine = self.folder / "part-0007.pcap"
        self.convert(self.small, mine)
        self.refused(USAGE, ["part-0007.pcap", "also an input"], "convert",
                     mine, self.folder / "part.pcap", "--split=flows:3",
                     "--force")
        self.assertEqual(self.packets_of(mine), 45153)

    def test_tells_of_an_empty_capture_and_merges_it(self):
        for name in ("none.pcap", "none.pcapng"):
            with self.subTest(name):
                none = self.folder / name
                self.convert(self.small, none, "--filter=port 9999")
                self.assertEqual(self.packets_of(none), 0)
                said = run("info", none)
                self.assertEqual(said.returncode, OK, said.stderr)
                self.assertRegex(said.stdout, rb"Packets +0  in all")
                done = run("convert", none, self.small,
                           self.folder / "both.pcap", "--force", "--quiet")
                self.assertEqual(done.returncode, OK, done.stderr)
                self.assertIn("contains no packets", done.stderr.decode())
                self.assertEqual(
                    self.packets_of(self.folder / "both.pcap"), 45153)
                self.refused(BAD_DATA, [name, "contains no packets"],
                             "convert", none, self.folder / "again.pcap")

    def test_splits_by_flow_so_that_no_flow_is_in_two_files(self):
        self.convert(self.small, self.folder / "part.pcap", "--split=flows:4")
        flows = packets = 0
        for part in sorted(self.folder.glob("part-*.pcap")):
            one = json.loads(run("info", part, "--json=-").stdout)
            flows += one["captures"][0]["flows"]["connection"]
            packets += one["captures"][0]["packets"]
        self.assertEqual((flows, packets), (573, 45153))

    @needs_tshark
    def test_filters_as_tshark_does(self):
        out = self.folder / "out.pcap"
        self.convert(self.small, out, "--filter=tcp port 80")
        whole = self.folder / "whole.pcap"
        self.convert(self.small, whole)
        self.assertEqual(
            fields(out, "frame.time_epoch"),
            fields(whole, "frame.time_epoch", display_filter="tcp.port==80"))

    @needs_tshark
    def test_changes_framing_and_length_but_not_the_packets(self):
        names = ["ip.src", "ip.id", "tcp.seq_raw", "udp.srcport", "ip.len"]
        raw, back = self.folder / "raw.pcap", self.folder / "back.pcapng"
        self.convert(self.small, raw, "--link=raw", "--filter=ip",
                     "--snap=120")
        self.convert(raw, back, "--link=ethernet")
        for path, link in ((raw, "raw_ip"), (back, "ethernet")):
            one = json.loads(run("info", path, "--json=-").stdout)
            self.assertEqual(list(one["captures"][0]["links"]), [link])
        whole = self.folder / "whole.pcap"
        self.convert(self.small, whole)
        wanted = fields(whole, *names, display_filter="ip")
        self.assertEqual(fields(raw, *names), wanted)
        self.assertEqual(fields(back, *names), wanted)
        self.assertEqual({int(length) <= 120 for (length,) in
                          fields(raw, "frame.cap_len")}, {True})

    def test_takes_a_part_of_the_time(self):
        out = self.folder / "out.pcap"
        self.convert(self.small, out, "--begin=3.2s", "--end=3.8s")
        self.assertEqual(self.packets_of(out), 16594)

    def made(self, *seconds):
        """A capture of one packet at each of these times."""
        path = self.folder / "made.pcap"
        path.write_bytes(
            struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1) +
            b"".join(struct.pack("<IIII", second, 0, 60, 60) + bytes(60)
                     for second in seconds))
        return path

    def test_begins_at_a_time_and_ends_before_one(self):
        out = self.folder / "out.pcap"
        said = self.convert(self.made(5, 6, 7, 8), out, "--begin=1s",
                            "--end=3s")
        self.assertIn("2 of 4 packets; left out: 2 outside of --begin and --end", said)
        data = out.read_bytes()
        self.assertEqual([struct.unpack_from("<I", data, at)[0]
                          for at in range(24, len(data), 76)], [6, 7])

    def test_splits_by_time_and_keeps_stragglers_in_the_open_part(self):
        self.convert(self.made(5, 7, 6, 8), self.folder / "part.pcap",
                     "--split=time:1s")
        parts = sorted(self.folder.glob("part-*.pcap"))
        self.assertEqual([part.name for part in parts],
                         ["part-0001.pcap", "part-0003.pcap",
                          "part-0004.pcap"])
        self.assertEqual([self.packets_of(part) for part in parts], [1, 2, 1])

    def test_says_how_many_packets_a_filter_left_out(self):
        out = self.folder / "out.pcap"
        said = self.convert(self.small, out, "--filter=icmp")
        kept = self.packets_of(out)
        self.assertIn(f"{kept} of 45,153 packets; left out: "
                      f"{45153 - kept:,} did not match the filter", said)

    def test_writes_the_resolution_and_length_that_it_is_told_to(self):
        out = self.folder / "out.pcap"
        for flag, magic in (("ns", 0xa1b23c4d), ("us", 0xa1b2c3d4)):
            self.convert(self.small, out, f"--resolution={flag}", "--snap=60",
                         "--force")
            data = out.read_bytes()
            self.assertEqual(struct.unpack_from("<I", data)[0], magic)
            at, longest = 24, 0
            while at < len(data):
                kept = struct.unpack_from("<I", data, at + 8)[0]
                longest = max(longest, kept)
                at += 16 + kept
            self.assertEqual(longest, 60)

    def test_tells_of_an_input_that_is_damaged(self):
        damaged = self.made(5, 6, 7)
        data = bytearray(damaged.read_bytes())
        struct.pack_into("<I", data, 24 + 76 + 8, 0xffffffff)
        damaged.write_bytes(data)
        self.refused(BAD_DATA, ["made.pcap"], "convert", damaged,
                     self.folder / "out.pcap")

    def test_refuses_and_leaves_nothing(self):
        out = self.folder / "out.pcap"
        there = self.folder / "there.pcap"
        there.write_bytes(b"mine")
        for words, arguments in [
                (["there already", "--force"], [self.small, there]),
                (["--begin=2s"], [self.small, out, "--begin=2s", "--end=1s"]),
                (["--filter", "porrt"], [self.small, out, "--filter=porrt 1"]),
                (["--split", "fish"], [self.small, out, "--split=fish"]),
                (["flows:N"], [self.small, out, "--split=flows:1000"]),
                (["stdout"], [self.small, "-", "--split=time:1s"]),
                (["there.pcap", "also an input"], [there, there, "--force"]),
                (["out.txt", "end in .pcap"],
                 [self.small, self.folder / "out.txt"]),
                (["empty"], [self.small, ""]),
                (["At least 2"], [self.small])]:
            with self.subTest(words[0]):
                self.refused(USAGE, words, "convert", *arguments)
        for flag in ("--json", "--plot"):
            image = self.folder / "there.png"
            image.write_bytes(b"mine")
            self.refused(USAGE, [flag, "also an input"], "info", image,
                         f"{flag}={image}")
            self.assertEqual(image.read_bytes(), b"mine")
            image.unlink()
        self.assertEqual(there.read_bytes(), b"mine")
        self.refused(BAD_DATA, ["neither pcap"], "convert",
                     SOURCE / "README.md", out)
        self.refused(IO, ["nowhere"], "convert", self.small,
                     self.folder / "nowhere" / "x.pcap")

    def test_leaves_nothing_on_a_disk_that_is_full(self):
        def limited():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        self.refused(IO, ["out.pcap", "File too large"], "convert", self.small,
                     self.folder / "out.pcap", preexec_fn=limited)
        self.refused(IO, ["/dev/full", "No space left"], "convert", self.small,
                     "/dev/full")

    def test_replaces_only_when_told_to(self):
        there = self.folder / "there.pcap"
        there.write_bytes(b"mine")
        self.convert(self.small, there, "--force")
        self.assertEqual(self.packets_of(there), 45153)

    def test_makes_an_empty_capture_of_what_leaves_nothing(self):
        out = self.folder / "out.pcap"
        for words, flags in [
                (["no packet", "lasts 4.90 s"], ["--begin=320s"]),
                (["none of 45,153 packets is left",
                  "45,153 did not match the filter"], ["--filter=port 9999"])]:
            for name in ("out.pcap", "out.pcapng.gz"):
                out = self.folder / name
                done = run("convert", self.small, out, "--force", *flags)
                self.assertEqual(done.returncode, OK, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr.decode())
                self.assertIn(b"0 of 45,153 packets", done.stdout)
                self.assertTrue(out.exists())
        self.assertEqual(len((self.folder / "out.pcap").read_bytes()), 24)
        done = run("convert", self.small, self.folder / "part.pcap",
                   "--split=flows:2", "--filter=port 9999")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertIn("no file is made", done.stderr.decode())
        self.assertEqual(list(self.folder.glob("part*")), [])

    def framed(self, name, link, header, order="<"):
        """IPv4 and IPv6 in this framing, and a capture of them."""
        path = self.folder / name
        ip6 = struct.pack(">IHBB", 0x60000000, 8, 17, 64) + bytes(32) + \
            struct.pack(">HHHH", 5000, 53, 8, 0)
        frames = [header(2) + udp_frame()[14:], header(30) + ip6]
        data = struct.pack(order + "IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535,
                           link)
        for frame in frames:
            data += struct.pack(order + "IIII", 5, 0, len(frame), len(frame))
            data += frame
        path.write_bytes(data)
        return path

    def test_filters_the_loopback_of_every_system(self):
        """Of macOS, on hosts of both byte orders."""
        for order in "<>":
            path = self.framed("null.pcap", 0,
                               lambda family: struct.pack(order + "I", family),
                               order)
            for text, kept in (("ip", 1), ("ip6", 1), ("udp port 53", 2)):
                with self.subTest(order + text):
                    said = self.convert(path, self.folder / "out.pcap",
                                        "--force", f"--filter={text}")
                    self.assertIn(f"{kept} of 2 packets", said)

    def test_writes_the_family_of_loopback_in_the_order_of_the_file(self):
        for order in "<>":
            path = self.framed("null.pcap", 0,
                               lambda family: struct.pack(order + "I", family),
                               order)
            out = self.folder / "out.pcap"
            self.convert(path, out, "--force")
            data, at, families = out.read_bytes(), 24, []
            own = "<" if data[:1] in b"\xd4\x4d" else ">"
            while at < len(data):
                families += struct.unpack_from(own + "I", data, at + 16)
                at += 16 + struct.unpack_from(own + "I", data, at + 8)[0]
            self.assertEqual(families, [2, 30])

    def test_keeps_the_number_of_the_link_type(self):
        path = self.folder / "ip4.pcap"
        path.write_bytes(pcap([(1, udp_frame()[14:])], link=228))
        out = self.folder / "out.pcap"
        for flags, link in ([], 228), (["--link=raw"], 101):
            self.convert(path, out, "--force", *flags)
            self.assertEqual(struct.unpack_from("<I", out.read_bytes(), 20)[0],
                             link)

    def test_says_in_the_file_to_how_much_it_cut_packets(self):
        out = self.folder / "out.pcap"
        self.convert(self.small, out, "--snap=96")
        self.assertEqual(struct.unpack_from("<I", out.read_bytes(), 16)[0], 96)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf trace` as a user meets it, with Wireshark's tools as second opinion.

Usage: trace_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import collections
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import pcap, udp_frame

PROGRAM = ""
SOURCE = pathlib.Path()
OK, USAGE, BAD_DATA, UNAVAILABLE, IO = 0, 2, 65, 69, 74
needs_tshark = unittest.skipUnless(shutil.which("tshark"), "no tshark here")


def run(*arguments, **options):
    return subprocess.run([PROGRAM, "trace", *map(str, arguments)],
                          stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=300, check=False, **options)


def fields(capture, *names, display_filter=""):
    """What tshark reads: a list of these fields for each packet."""
    command = ["tshark", "-n", "-r", str(capture), "-T", "fields"]
    for name in names:
        command += ["-e", name]
    if display_filter:
        command += ["-Y", display_filter]
    done = subprocess.run(command, capture_output=True, check=True, timeout=300)
    return [line.split("\t") for line in done.stdout.decode().splitlines()]


class Trace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.small = SOURCE / "traces" / "small.pcap.zst"

    def convert(self, *arguments):
        done = run("convert", *arguments)
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        return done.stdout.decode()

    def refused(self, code, words, *arguments, **options):
        """Fails with `code` and one line that has all words; leaves nothing."""
        before = sorted(self.folder.iterdir())
        done = run(*arguments, **options)
        text = done.stderr.decode()
        self.assertEqual(done.returncode, code, text)
        self.assertEqual(text.count("\n"), 1, text)
        for word in words:
            self.assertIn(word, text)
        self.assertEqual(sorted(self.folder.iterdir()), before)
        return done

    def packets_of(self, path):
        done = run("info", path, "--json=-")
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        return json.loads(done.stdout)["captures"][0]["packets"]


class Info(Trace):
    def test_tells_of_several_captures_in_text_and_json(self):
        done = run("info", self.small, self.small, "--json",
                   self.folder / "i.json", "--flow_key=5tuple",
                   "--timeouts=100us,500us", "--flowlet_bytes=15KB")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(done.stdout.decode().count("45,153  in all"), 2)
        captures = json.loads((self.folder / "i.json").read_text())["captures"]
        for one in captures:
            self.assertEqual([each["flowlets"] for each in one["flowlets"]],
                             [17209, 14607])
            self.assertEqual(one["flows"], {"connection": 573, "5tuple": 1144,
                                            "3tuple": 79})

    def test_takes_every_flow_key(self):
        for key in ("connection", "5tuple", "3tuple"):
            for vlan in ("", ",vlan"):
                done = run("info", self.small, "--json=-",
                           f"--flow_key={key}{vlan}")
                one = json.loads(done.stdout)["captures"][0]
                self.assertEqual(one["flow_key"], key + vlan)
                self.assertEqual(one["flow_bytes"]["count"],
                                 one["flows"][key + vlan])

    @needs_tshark
    def test_counts_what_tshark_counts(self):
        plain = self.folder / "plain.pcapng"
        self.convert(self.small, plain)
        one = json.loads(run("info", plain, "--json=-").stdout)["captures"][0]
        for name, display_filter in [("tcp", "tcp && !icmp && !icmpv6"),
                                     ("ipv6", "ipv6"), ("udp", "udp && !icmp")]:
            with self.subTest(name):
                read = fields(plain, "frame.number",
                              display_filter=display_filter)
                self.assertEqual(one[name], len(read))

    def test_refuses_what_it_cannot_read(self):
        self.refused(BAD_DATA, ["README.md: offset 0: neither pcap"], "info",
                     SOURCE / "README.md")
        self.refused(IO, ["nowhere.pcap"], "info", "nowhere.pcap")
        self.refused(USAGE, ["--timeouts", "fish"], "info", self.small,
                     "--timeouts=fish")
        self.refused(USAGE, ["rising"], "info", self.small,
                     "--timeouts=5ms,1ms")
        self.refused(USAGE, ["stdin"], "info", "-", "-")

    def test_draws_its_figures(self):
        path = self.folder / "figures.png"
        done = run("info", self.small, self.small, "--plot", path)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(done.stdout.decode().count("45,153  in all"), 2)
        self.assertEqual(self.width_of(path), 1200)
        self.assertGreater(len(path.read_bytes()), 50_000)

    def test_draws_captures_of_any_shape(self):
        shapes = {"$x^2_.pcap": pcap([(1, udp_frame())]),
                  "_none.pcap": pcap([(1, b"no IP packet")] * 2),
                  "long.pcap": pcap([(i * 1000, udp_frame(5000 + i % 2))
                                     for i in range(50)])}
        for name, capture in shapes.items():
            (self.folder / name).write_bytes(capture)
        path = self.folder / "figures.png"
        for files in ([[name] for name in shapes] +
                      [list(shapes), [*shapes, self.small] * 5]):
            with self.subTest(files):
                path.unlink(missing_ok=True)
                done = run("info", "--quiet", "--timeouts=1ms,inf", "--plot",
                           path, *(self.folder / name for name in files))
                self.assertEqual(done.returncode, OK, done.stderr.decode())
                self.assertEqual(self.width_of(path), 1200)

    def width_of(self, path):
        image = path.read_bytes()
        self.assertEqual(image[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(image[-8:-4], b"IEND")
        return int.from_bytes(image[16:20], "big")

    def test_draws_from_its_json(self):
        done = run("info", self.small, "--json=-")
        script = SOURCE / "experiments" / "plot_captures.py"
        drawn = subprocess.run([script], input=done.stdout, check=True,
                               capture_output=True).stdout
        path = self.folder / "figures.png"
        run("info", self.small, "--plot", path)
        self.assertEqual(path.read_bytes(), drawn)

    def test_draws_nothing_without_matplotlib(self):
        module = self.folder / "matplotlib"
        module.mkdir()
        (module / "__init__.py").write_text("raise ImportError('not here')\n")
        for environment, words in [
                ({"PYTHONPATH": str(self.folder),
                  "PYTHONDONTWRITEBYTECODE": "1"}, "ImportError: not here"),
                ({"SNF_PYTHON": "/nowhere/python3"},
                 "/nowhere/python3: No such file")]:
            with self.subTest(words):
                done = self.refused(
                    UNAVAILABLE, [words, "python3-matplotlib"], "info",
                    self.small, "--plot", self.folder / "figures.png",
                    "--json", self.folder / "i.json",
                    env={**os.environ, **environment})
                self.assertEqual(done.stdout, b"")

    def test_draws_nothing_where_it_cannot(self):
        self.refused(IO, ["nowhere"], "info", self.small,
                     "--plot", self.folder / "nowhere" / "figures.png")
        for name in ("figures.pdf", "-"):
            self.refused(USAGE, [f"--plot={name}", ".png"], "info", self.small,
                         f"--plot={name}")

    def test_tells_of_a_packet_with_a_time_far_ahead(self):
        plain = self.folder / "plain.pcap"
        self.convert(self.small, plain)
        data = bytearray(plain.read_bytes())
        at = 24
        for _ in range(1000):
            at += 16 + struct.unpack_from("<I", data, at + 8)[0]
        seconds = struct.unpack_from("<I", data, at)[0]
        struct.pack_into("<I", data, at, seconds + 1_000_000)
        plain.write_bytes(data)
        strayed, right = json.loads(
            run("info", plain, self.small, "--json=-").stdout)["captures"]
        self.assertEqual((strayed["strays"], right["strays"]), (1, 0))
        self.assertEqual(strayed["first_stray"], 1001)
        self.assertIn("first packet 1,001", " ".join(strayed["notes"]))
        self.assertEqual(strayed["duration_ns"], right["duration_ns"])
        for one, other in zip(strayed["flowlets"], right["flowlets"]):
            self.assertAlmostEqual(one["flowlets"], other["flowlets"], delta=2)


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
        self.assertIn("2 of 4 packets; left out: 2 outside of the time", said)
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
                      f"{45153 - kept:,} did not pass the filter", said)

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
                (["lasts 4.90 s"], [self.small, out, "--begin=320s"]),
                (["--begin=2s"], [self.small, out, "--begin=2s", "--end=1s"]),
                (["--filter", "porrt"], [self.small, out, "--filter=porrt 1"]),
                (["nothing is left"], [self.small, out, "--filter=port 9999"]),
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


class Interrupted(Trace):
    """By Ctrl-C or SIGTERM, once a file is begun."""

    def check(self, *arguments, stdin=b"", partial=1):
        name = " ".join(("snf", *arguments[:1 + (arguments[0] == "trace")]))
        for number, words in ((signal.SIGINT, "interrupted"),
                              (signal.SIGTERM, "terminated")):
            with self.subTest(words), subprocess.Popen(
                    [PROGRAM, *map(str, arguments)],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    # A shell ignores it for what runs in the background.
                    preexec_fn=lambda: signal.signal(signal.SIGINT,
                                                     signal.SIG_DFL)
                    ) as process:
                try:
                    process.stdin.write(stdin)
                    process.stdin.flush()
                    deadline = time.monotonic() + 60
                    while len(list(self.folder.glob("out*.partial"))) < partial:
                        self.assertLess(time.monotonic(), deadline)
                        self.assertIsNone(process.poll())
                        time.sleep(0.01)
                    process.send_signal(number)
                    self.assertEqual(process.wait(60), 128 + number)
                    self.assertEqual(
                        process.stderr.read().decode(),
                        f"{name}: {words}; no unfinished file is left\n")
                    self.assertEqual(process.stdout.read(), b"")
                finally:
                    process.kill()
                self.assertEqual(list(self.folder.glob("out*.partial")), [])
                self.assertFalse((self.folder / "out.pcap").exists())

    def test_convert_waits_for_no_input(self):
        plain = self.folder / "plain.pcap"
        self.convert(self.small, plain)
        data = plain.read_bytes()[:1_000_000]
        out = self.folder / "out.pcap"
        self.check("trace", "convert", "-", out, stdin=data)
        self.check("trace", "convert", "-", out, "--split=flows:4", stdin=data,
                   partial=4)
        # Parts that are complete stay.
        self.check("trace", "convert", "-", out, "--split=packets:100",
                   "--force", stdin=data)
        first = self.folder / "out-0001.pcap"
        self.assertEqual(self.packets_of(first), 100)

    def test_replay_in_virtual_time_waits_for_none_either(self):
        plain = self.folder / "plain.pcap"
        self.convert(self.small, plain)
        self.check("replay", "-", f"--out={self.folder / 'out.pcap'}",
                   "--quiet", stdin=plain.read_bytes()[:1_000_000])

    def test_compose_and_synth_leave_nothing(self):
        for source in (("compose", self.small), ("synth",)):
            self.check("trace", *source, "--rate=10Gbps", "--duration=100s",
                       "--quiet", f"--out={self.folder / 'out.pcap'}")

    def test_what_is_there_already_stays(self):
        there = self.folder / "out.pcap.zst"
        there.write_bytes(b"mine")
        self.check("trace", "synth", "--rate=10Gbps", "--duration=100s", "--quiet",
                   f"--out={there}", "--force")
        self.assertEqual(there.read_bytes(), b"mine")


@needs_tshark
class Annotated(Trace):
    def replay(self, *flags):
        """The report, and the comments of what was released and dropped."""
        out, drops = self.folder / "out.pcapng", self.folder / "drops.pcapng"
        done = subprocess.run(
            [PROGRAM, "replay", self.small, "--out", out, "--annotate",
             "--drops", drops, "--json=-", *flags],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=300,
            check=False)
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        comments = [[text for (text,) in fields(path, "frame.comment")]
                    for path in (out, drops)]
        return json.loads(done.stdout), *comments

    def check(self, *flags):
        report, out, drops = self.replay(
            "--unit_capacity=50Mbps", "--max_units=4", "--unit_queue=64",
            "--start_buffer=32", *flags)
        route = r"unit=\d+ flowlet=\d+ clock=\d+ latency_ns=\d+"
        routed = [text for text in out if re.fullmatch(route, text)]
        self.assertEqual(len(routed), report["packets_released"])
        self.assertEqual(out.count("passed_through"),
                         report["packets_passed_through"])
        self.assertEqual(len(out), len(routed) + out.count("passed_through"))
        reasons = collections.Counter(text.split()[0] for text in drops)
        self.assertEqual(reasons, {f"dropped={name}": packets for name, packets
                                   in report["packets_dropped"].items()
                                   if packets > 0})
        self.assertGreater(len(drops), 1000)
        latest = max(int(text.split("latency_ns=")[1]) for text in routed)
        self.assertEqual(latest, report["latency_ns"]["max"])

    def test_in_virtual_time_says_of_each_packet_how_it_went(self):
        self.check()

    def test_in_real_time_says_of_each_packet_how_it_went(self):
        self.check("--clock=real", "--speed=10x")

    def test_names_the_reasons_of_nfs_and_the_unit_where_they_dropped(self):
        rules = self.folder / "rules.txt"
        rules.write_text("deny udp from any to any\nallow any from any to any\n")
        report, _, drops = self.replay(f"--nf=firewall:rules={rules}")
        name = next(name for name, packets in report["packets_dropped"].items()
                    if packets > 0)
        self.assertTrue(name.startswith("nf:"), name)
        self.assertEqual(len(drops), report["packets_dropped"][name])
        for text in drops:
            self.assertRegex(
                text, rf"^dropped={name[3:]} unit=\d+ flowlet=\d+ clock=\d+ ")

    def test_tells_of_packets_that_no_chain_takes(self):
        config = self.folder / "chains.conf"
        config.write_text('chain { name: "web" text: "passthrough" }\n'
                          'rule { match: "tcp from any to any" chain: "web" }')
        report, out, drops = self.replay(f"--config={config}")
        self.assertEqual(len(drops), report["packets_without_chain"])
        self.assertEqual(len(out) + len(drops), 45153)
        self.assertEqual({text.split()[0] for text in drops},
                         {"dropped=no_chain"})

    def test_is_refused_where_comments_cannot_stand(self):
        for flags in (["--annotate"], ["--annotate", "--out=x.pcap"],
                      ["--drops=x.pcap"], ["--drops=x.pcapng", "--out=x.pcapng"],
                      ["--drops=./x.pcapng", "--out=x.pcapng"],
                      ["--annotate", "--out=x.pcapng.pcap"],
                      ["--out=x.pcapng", "--json=x.pcapng"],
                      ["--drops=x.pcapng", "--compare=hash"]):
            with self.subTest(flags):
                done = subprocess.run([PROGRAM, "replay", self.small, *flags],
                                      capture_output=True, timeout=300,
                                      check=False)
                self.assertEqual(done.returncode, USAGE)
                self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv[1])
    SOURCE = pathlib.Path(sys.argv[2]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

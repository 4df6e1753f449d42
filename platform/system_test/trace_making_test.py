#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf trace compose` and `synth` as a user meets them.

Usage: trace_making_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import ipaddress
import json
import os
import pathlib
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
SOURCE = pathlib.Path()
OK, USAGE, BAD_DATA, IO = 0, 2, 65, 74
CAPTURE = "traces/small.pcap.zst"
GAPS = {"100us": 100_000, "500us": 500_000, "5000us": 5_000_000}
CAPTURES = pathlib.Path(os.environ.get("SNF_TRACES", "../shared/traces"))


def trace(*arguments, **options):
    return subprocess.run([PROGRAM, "trace", *map(str, arguments)],
                          cwd=SOURCE, capture_output=True, text=True,
                          timeout=300, check=False, **options)


def counted(path, gap_ns):
    """Packets, flows and flowlets by the script that shares no code with us."""
    with path.open("rb") as capture:
        ran = subprocess.run(
            [sys.executable, SOURCE / "traces/record/count_flowlets.py",
             "--key=connection", "-T", str(gap_ns)],
            stdin=capture, capture_output=True, text=True, check=True)
    return [int(line.split("\t")[1]) for line in ran.stdout.splitlines()]


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out.pcap"

    def make(self, *arguments):
        path = self.folder / "figures.json"
        if not any("--out=" in str(each) for each in arguments):
            arguments += (f"--out={self.out}",)
        ran = trace(*arguments, f"--json={path}", "--quiet", "--force")
        self.assertEqual(ran.returncode, OK, ran.stderr)
        return json.loads(path.read_text())

    def check_counts(self, figures, key):
        for name, gap_ns in GAPS.items():
            packets, flows, flowlets = counted(self.out, gap_ns)
            self.assertEqual(packets, figures["packets"])
            told = figures["flowlets_per_flow"][key][name]
            self.assertAlmostEqual(flowlets / flows / told, 1, delta=0.02)

    def refuses(self, code, words, *arguments, **options):
        ran = trace(*arguments, **options)
        self.assertEqual(ran.returncode, code, ran.stderr)
        self.assertEqual(ran.stdout, "")
        self.assertEqual(len(ran.stderr.splitlines()), 1, ran.stderr)
        self.assertIn(words, ran.stderr)
        self.assertEqual(list(self.folder.glob("out*")), [])


class Compose(Case):
    def test_comes_to_the_rate_and_counts_right(self):
        figures = self.make("compose", CAPTURE, "--rate=400Mbps",
                            "--duration=500ms")
        self.assertAlmostEqual(figures["achieved_bps"] / 4e8, 1, delta=0.02)
        self.assertGreater(figures["flows_under_way"], 0)
        self.check_counts(figures, "composed")

    def test_writes_the_same_bytes_for_the_same_seed(self):
        seen = []
        for seed in (7, 7, 8):
            self.make("compose", CAPTURE, "--duration=50ms", f"--seed={seed}")
            seen.append(self.out.read_bytes())
        self.assertEqual(seen[0], seen[1])
        self.assertNotEqual(seen[0], seen[2])

    def test_cuts_packets_where_it_is_told_to(self):
        self.make("compose", CAPTURE, "--duration=50ms", "--snap=96")
        data = self.out.read_bytes()
        at, cut = 24, 0
        while at < len(data):
            kept, size = struct.unpack_from("<II", data, at + 8)
            self.assertEqual(kept, min(size, 96))
            cut += kept < size
            at += 16 + kept
        self.assertGreater(cut, 1000)
        self.assertEqual(struct.unpack_from("<I", data, 16)[0], 96)

    def test_names_the_prefixes_of_its_clients_and_servers(self):
        figures = self.make("compose", CAPTURE, "--duration=10ms")
        clients, servers = (
            [ipaddress.ip_network(each) for each in figures[key]]
            for key in ("client_prefixes", "server_prefixes"))
        ran = trace("compose", CAPTURE, "--duration=10ms", "--force",
                    f"--out={self.out}")
        self.assertIn(f"clients in {clients[0]}", ran.stdout)
        data = self.out.read_bytes()
        at, seen = 24, 0
        while at < len(data):
            kept = struct.unpack_from("<I", data, at + 8)[0]
            frame = data[at + 16:at + 16 + kept]
            at += 16 + kept
            if frame[12:14] != b"\x08\x00" or frame[23] == 1:
                continue  # an ICMP error may be from a router
            ends = [ipaddress.ip_address(frame[place:place + 4])
                    for place in (26, 30)]
            for one, other in ends, reversed(ends):
                seen += (any(one in each for each in clients) and
                         any(other in each for each in servers))
            self.assertTrue(any(each in net for net in clients
                                for each in ends), ends)
        self.assertGreater(seen, 100)

    def test_leaves_out_captures_of_a_link_type_that_is_not_read(self):
        usb = self.folder / "usb.pcap"
        usb.write_bytes(
            struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 220) +
            struct.pack("<IIII", 1, 0, 4, 4) + bytes(4))
        self.refuses(BAD_DATA, "link type is not supported: 220", "compose",
                     usb, f"--out={self.out}")
        ran = trace("compose", usb, CAPTURE, f"--out={self.out}",
                    "--duration=10ms")
        self.assertEqual(ran.returncode, OK, ran.stderr)
        self.assertIn("usb.pcap: offset 0: link type is not supported: 220: "
                      "the capture is left out", ran.stderr)
        self.assertRegex(ran.stdout, r"(?s)1 +capture left out, of a link .*usb.pcap")

    def test_prefers_fat_or_thin_conversations(self):
        sizes = []
        for weight in ("bytes^-0.5", "1", "bytes^0.5"):
            figures = self.make("compose", CAPTURE, "--rate=100Mbps",
                                "--duration=1s", f"--weight={weight}")
            sizes.append(figures["bytes"] / figures["flows"])
        self.assertLess(sizes[0] * 2, sizes[1])
        self.assertLess(sizes[1] * 2, sizes[2])

    def test_keeps_the_flowlets_that_squeezing_melts(self):
        if not CAPTURES.is_dir():
            self.skipTest(f"{CAPTURES} is not here")
        captures = sorted(path for path in CAPTURES.glob("*.pcap*")
                          if not path.name.startswith("composite"))
        figures = self.make("compose", *captures, "--duration=500ms",
                            "--snap=96")
        flowlets = figures["flowlets_per_flow"]
        for gap in GAPS:
            native = flowlets["sources_windowed"][gap]
            composed = flowlets["composed"][gap]
            self.assertAlmostEqual(composed / native, 1, delta=0.15)
            self.assertLess(flowlets["sources_squeezed"][gap],
                            0.5 * flowlets["sources_whole"][gap])
        self.assertAlmostEqual(figures["achieved_bps"] / 1e9, 1, delta=0.02)

    def test_names_what_is_wrong(self):
        out = f"--out={self.out}"
        for code, words, arguments in (
                (USAGE, "--out is missing", [CAPTURE]),
                (USAGE, "--rate", [CAPTURE, out, "--rate=0"]),
                (USAGE, "--duration", [CAPTURE, out, "--duration=0"]),
                (USAGE, "--weight", [CAPTURE, out, "--weight=fat"]),
                (USAGE, "--weight", [CAPTURE, out, "--weight=bytes^9"]),
                (USAGE, "FILE", [out]),
                (USAGE, "less than a single packet",
                 [CAPTURE, out, "--rate=1bps", "--duration=1ns"]),
                (IO, "none.pcap", ["none.pcap", out]),
                (BAD_DATA, "README.md: offset 0", ["README.md", out]),
                (IO, "cannot create", [CAPTURE, "--out=no/folder/out.pcap"]),
                (USAGE, "end in .pcap", [CAPTURE, "--out=out.txt"]),
                (USAGE, "the same file", [CAPTURE, out, f"--json={self.out}"]),
        ):
            with self.subTest(words):
                self.refuses(code, words, "compose", *arguments)

    def test_refuses_captures_without_conversations(self):
        arp = self.folder / "arp.pcap"
        frame = bytes(12) + b"\x08\x06" + bytes(28)
        arp.write_bytes(
            struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) +
            struct.pack("<IIII", 1, 0, len(frame), len(frame)) + frame)
        self.refuses(BAD_DATA, "no conversation of IPv4 or IPv6 among 1 packet",
                     "compose", arp, f"--out={self.out}")

    def test_says_what_is_amiss_in_a_source(self):
        cut = self.folder / "cut.pcap.zst"
        cut.write_bytes((SOURCE / CAPTURE).read_bytes()[:400_000])
        for source in (("compose", cut), ("synth", f"--like={cut}")):
            ran = trace(*source, f"--out={self.out}", "--duration=1ms",
                        "--quiet", "--force")
            self.assertEqual(ran.returncode, OK, ran.stderr)
            self.assertIn("cut short", ran.stderr)
            self.assertIn("cut.pcap", ran.stderr)

    def test_replaces_a_file_only_when_told_to(self):
        self.out.write_text("precious")
        ran = trace("compose", CAPTURE, f"--out={self.out}", "--duration=1ms")
        self.assertEqual(ran.returncode, USAGE)
        self.assertIn("--force replaces it", ran.stderr)
        self.assertEqual(self.out.read_text(), "precious")
        self.make("compose", CAPTURE, "--duration=1ms")
        self.assertNotEqual(self.out.read_bytes(), b"precious")

    def test_leaves_nothing_behind_on_a_full_disk(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        self.refuses(IO, "cannot write", "compose", CAPTURE,
                     f"--out={self.out}", preexec_fn=limit)
        self.refuses(IO, "No space left", "compose", CAPTURE,
                     "--out=/dev/full")


class Synth(Case):
    def like(self, capture, *arguments):
        return self.make("synth", f"--like={capture}", *arguments)

    def check_flowlets(self, figures, key):
        for gap in GAPS:
            model = figures["flowlets_per_flow"][key][gap]
            made = figures["flowlets_per_flow"]["made"][gap]
            self.assertAlmostEqual(made / model, 1, delta=0.15, msg=gap)

    def test_is_like_a_composite(self):
        mix = self.folder / "mix.pcap"
        ran = trace("compose", CAPTURE, f"--out={mix}", "--rate=1Gbps",
                    "--duration=2s", "--snap=96", "--quiet")
        self.assertEqual(ran.returncode, OK, ran.stderr)
        figures = self.like(mix, "--rate=1Gbps", "--duration=1900ms",
                            "--seed=3", "--snap=96")
        self.assertAlmostEqual(figures["achieved_bps"] / 1e9, 1, delta=0.02)
        self.check_flowlets(figures, "model")
        self.check_counts(figures, "made")
        for quantity in figures["quantiles"].values():
            self.assertAlmostEqual(
                quantity["made"]["p50"] / quantity["model"]["p50"], 1,
                delta=0.15)

    def test_is_like_a_composite_of_many_captures(self):
        composites = sorted(CAPTURES.glob("composite*"))
        if not composites:
            self.skipTest(f"{CAPTURES} is not here")
        for resample in ("--resample", "--no_resample"):
            figures = self.like(composites[0], "--rate=2Gbps",
                                "--duration=700ms", "--snap=96", resample)
            self.check_flowlets(figures, "model")
            self.check_flowlets(figures, "model_windowed")

    def test_writes_the_same_bytes_for_the_same_seed(self):
        seen = []
        for seed in (7, 7, 8):
            self.like(CAPTURE, "--duration=50ms", f"--seed={seed}")
            seen.append(self.out.read_bytes())
        self.assertEqual(seen[0], seen[1])
        self.assertNotEqual(seen[0], seen[2])

    def test_has_the_traces_of_the_paper(self):
        for name, flows, packets, median in (("snf_199k", 199e3, 6.4e6, 1434),
                                             ("snf_1.7k", 1.7e3, 3.8e6, 368)):
            figures = self.make("synth", f"--preset={name}", "--snap=96",
                                "--out=/dev/null")
            self.assertAlmostEqual(figures["packets"] / packets, 1, delta=0.01)
            self.assertAlmostEqual(figures["flows"] / flows, 1, delta=0.08)
            sizes = figures["quantiles"]["packet_bytes"]["made"]
            self.assertEqual(sizes["p50"], median)

    def test_the_papers_trace_has_as_many_chances(self):
        """SNF §9.6: 5.18 and 4.66 flowlets a flow, of at most 15 KB."""
        made = self.folder / "paper.pcap"
        self.make("synth", "--preset=snf_199k", "--snap=96", "--rate=1Gbps",
                  "--duration=1s", f"--out={made}")
        for timeout, chances in (("100us", 5.18), ("500us", 4.66)):
            ran = subprocess.run(
                [PROGRAM, "replay", made, "--json=-", "--quiet",
                 f"--flowlet_timeout={timeout}"], cwd=SOURCE, timeout=300,
                capture_output=True, text=True, check=True)
            report = json.loads(ran.stdout)
            self.assertAlmostEqual(report["flowlets"] / report["flows"] /
                                   chances, 1, delta=0.15)

    def test_takes_distributions_and_bursts(self):
        figures = self.make(
            "synth", "--flow_bytes=20KB", "--packet_bytes=50% 66B + 50% 1000B",
            "--gap=10us", "--burst_packets=10", "--pause=3ms",
            "--concurrency=100", "--rate=200Mbps", "--duration=500ms")
        self.assertEqual(figures["quantiles"]["packet_bytes"]["made"]["p10"],
                         66)
        self.assertAlmostEqual(figures["flows_under_way"] / 100, 1, delta=0.4)
        self.check_counts(figures, "made")
        attacked = self.make("synth", "--attack_every=10", "--rate=200Mbps",
                             "--duration=500ms")
        self.assertIn(struct.pack("<II", 1400, 1400), self.out.read_bytes())
        self.check_counts(attacked, "made")

    def test_plants_strings(self):
        strings = self.folder / "strings"
        strings.write_text("SELECT 1\n\n\\x90\\x91\\n\\x00!\n")
        figures = self.make("synth", f"--strings={strings}",
                            "--string_density=0.1", "--duration=100ms")
        data = self.out.read_bytes()
        found = [data.count(b"SELECT 1"), data.count(b"\x90\x91\n\x00!")]
        self.assertEqual(sum(found), figures["packets_with_string"])
        self.assertGreater(min(found), 100)

    def test_names_what_is_wrong(self):
        out = f"--out={self.out}"
        strings = self.folder / "strings"
        strings.write_text("good\n\\q\n")
        for code, words, arguments in (
                (USAGE, "--out is missing", []),
                (USAGE, "--rate", [out, "--rate=0bps"]),
                (USAGE, "--duration", [out, "--duration=0"]),
                (USAGE, "--gap: ", [out, "--gap=fast"]),
                (USAGE, "add up to 90 %",
                 [out, "--packet_bytes=50% 1B + 40% 2B"]),
                (USAGE, "--like and --pause",
                 [out, f"--like={CAPTURE}", "--pause=1ms"]),
                (USAGE, "--string_density", [out, "--string_density=1"]),
                (USAGE, "less than a single packet",
                 [out, "--rate=1bps", "--duration=1ns"]),
                (USAGE, "cannot overlap",
                 [out, "--gap=0", "--pause=0", "--concurrency=5"]),
                (IO, "none.pcap", [out, "--like=none.pcap"]),
                (IO, "none.txt", [out, "--strings=none.txt"]),
                (BAD_DATA, "strings:2: ", [out, f"--strings={strings}"]),
                (BAD_DATA, "README.md: offset 0", [out, "--like=README.md"]),
                (IO, "No space left", ["--out=/dev/full"]),
                (USAGE, "least above 0", [out, "--string_density=0.0000001"]),
        ):
            with self.subTest(words):
                self.refuses(code, words, "synth", *arguments)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
    SOURCE = pathlib.Path(sys.argv[2]).resolve()
    os.chdir(SOURCE)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

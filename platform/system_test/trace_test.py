#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf trace info`, what interrupting leaves, and captures with comments.

Usage: trace_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import collections
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import pcap, udp_frame
from trace_case import (BAD_DATA, IO, OK, PROGRAM, SOURCE, UNAVAILABLE, USAGE,
                        Trace, fields, needs_tshark, run)


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

    def test_counts_packets_out_of_order_as_a_replay_does(self):
        path = self.folder / "late.pcap"
        path.write_bytes(pcap([(second, udp_frame())
                               for second in (1, 1.5, 1.2, 1.3, 1.6, 1.1)]))
        one = json.loads(run("info", path, "--json=-").stdout)["captures"][0]
        self.assertEqual(one["out_of_order"], 3)
        for flags in ([], ["--clock=real", "--speed=max"]):
            done = subprocess.run([PROGRAM, "replay", path, "--json=-", *flags],
                                  capture_output=True, timeout=300, check=False)
            self.assertEqual(json.loads(done.stdout)["late_packets"], 3)

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
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

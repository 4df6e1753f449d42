#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The `snf` command as a user meets it: results, messages and exit codes.

Usage: cli_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import json
import os
import pathlib
import shlex
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
SOURCE = pathlib.Path()
OK, CHECK_FAILED, USAGE, BAD_DATA, IO, PERMISSION = 0, 1, 2, 65, 74, 77


def run(*arguments, stdin=b""):
    return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin,
                          capture_output=True, timeout=300, check=False)


def udp_frame(source_port=5000, payload=b"x" * 18):
    udp = struct.pack(">HHHH", source_port, 53, 8 + len(payload), 0) + payload
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0,
                     bytes([192, 0, 2, 1]), bytes([198, 51, 100, 9]))
    return bytes(12) + b"\x08\x00" + ip + udp


def pcap(packets, link=1, cut=0):
    """A classic pcap of (seconds, frame); the last `cut` bytes left out."""
    data = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)
    for seconds, frame in packets:
        data += struct.pack("<IIII", int(seconds),
                            round(seconds % 1 * 1e6), len(frame), len(frame))
        data += frame
    return data[:len(data) - cut]


def pcapng(ticks, resolution):
    """One packet at `ticks` of an interface with this if_tsresol."""
    def block(kind, body):
        size = 12 + len(body)
        return struct.pack("<II", kind, size) + body + struct.pack("<I", size)
    frame = udp_frame()
    padded = frame + bytes(-len(frame) % 4)
    section = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
    interface = struct.pack("<HHI", 1, 0, 0) + struct.pack(
        "<HHB3xHH", 9, 1, resolution, 0, 0)
    packet = struct.pack("<IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF,
                         len(frame), len(frame)) + padded
    return block(0x0A0D0D0A, section) + block(1, interface) + block(6, packet)


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.good = self.file("good.pcap", pcap(
            [(1 + i / 1000, udp_frame(5000 + i % 3)) for i in range(30)]))

    def file(self, name, data):
        path = os.path.join(self.folder.name, name)
        pathlib.Path(path).write_bytes(data)
        return path

    def refused(self, code, words, *arguments, stdin=b""):
        """The command fails with `code` and one line that has all words."""
        done = run(*arguments, stdin=stdin)
        text = done.stderr.decode()
        self.assertEqual(done.returncode, code, text)
        self.assertEqual(text.count("\n"), 1, text)
        for word in words:
            self.assertIn(word, text)
        self.assertEqual(done.stdout, b"")

    def report(self, *arguments, stdin=b""):
        done = run("replay", *arguments, "--json", "-", "--quiet", stdin=stdin)
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        return json.loads(done.stdout)

    # Bad flags.

    def test_refuses_flags_naming_flag_and_value(self):
        for flag, words in {
                "--flowlet_timeout=0": ['"0"'],
                "--flowlet_timeout=5": ['"5"'],
                "--flowlet_timeout=-1us": ['"-1us"'],
                "--flowlet_timeout=fast": ['"fast"'],
                "--flowlet_bytes=0": ['"0"', "1B"],
                "--flowlet_bytes=2GB": ['"2GB"', "1GB"],
                "--alpha=1.5": ['"1.5"'],
                "--alpha=nan": ['"nan"'],
                "--ewma_delta=-0.1": ['"-0.1"'],
                "--unit_capacity=0bps": ['"0bps"', "1kbit/s"],
                "--unit_capacity=2Tbps": ['"2Tbps"', "1Tbit/s"],
                "--unit_capacity=fast": ['"fast"'],
                "--max_units=0": ['"0"', "65535"],
                "--max_units=65536": ['"65536"', "65535"],
                "--max_flows=0": ['"0"'],
                "--unit_queue=0": ['"0"'],
                "--policy=": ["missing"],
                "--flow_key=7tuple": ['"7tuple"', "connection"],
                "--load_signal=guess": ['"guess"', "drained"],
                "--demand=none": ['"none"', "burst"],
                "--seed=x": ['"x"'],
                "--nf=nonesuch": ['"nonesuch"', "passthrough"],
                "--explain=nonsense": ["nonsense"],
                "--nonesuch=1": ["--nonesuch"],
        }.items():
            with self.subTest(flag):
                self.refused(USAGE, [flag.split("=")[0], *words], "replay",
                             self.good, flag)

    def test_refuses_bad_values_naming_flag_value_and_what_is_right(self):
        whole = "not a whole number from 0"
        for flag, right, values in (
                ("policy", "is none of snf, vanilla_flow, smart_flow, "
                 "per_packet, hash, rotate", ["best", "SNF", "snf,hash"]),
                ("replicas", "out of range: 0 to 16", ["17", "4294967295"]),
                ("replicas", whole, ["-1", "3.0", "many", "4294967296"]),
                ("replica_choice", "is none of weighted, deterministic, none",
                 ["some", "0"]),
                ("push_delay", "out of range: 0ns to 10s",
                 ["11s", "10000000001ns"]),
                ("push_delay", "no unit", ["5"]),
                ("push_delay", "no number with a unit", ["-1us", "soon"]),
                ("reassign_period", "out of range: 1us to 86400s",
                 ["0", "999ns", "86401s"]),
                ("state_delay", "out of range: 0ns to 10s", ["11s"]),
                ("state_delay", "no number with a unit", ["-1us", "us"]),
                ("state_bandwidth", "out of range: 1kbit/s to 1Tbit/s",
                 ["0bps", "999bps", "2Tbps"]),
                ("state_bandwidth", "no number with a unit", ["-1Gbps"]),
                ("state_retry", "out of range: 1us to 1s",
                 ["0", "999ns", "11s"]),
                ("hold_queue", "out of range: 1 to 1048576",
                 ["0", "1048577"]),
                ("hold_queue", whole, ["-1", "all"]),
                ("max_replicas", "out of range: 1 to 16777216",
                 ["0", "16777217"]),
                ("max_replicas", whole, ["-1", "1e6"]),
        ):
            for value in values:
                with self.subTest(flag=flag, value=value):
                    self.refused(USAGE, [f"--{flag}: ", f'"{value}"', right],
                                 "replay", self.good, f"--{flag}={value}")

    def test_refuses_parts_of_a_value_naming_them(self):
        for flag, value, words in (
                ("chaos", " ", ['" "', "state_delay=0..2ms"]),
                ("chaos", "state_los=0.1", ['"state_los"', "state_loss"]),
                ("chaos", "state_loss", ["state_loss", "no value"]),
                ("chaos", "state_loss=1.5", ['state_loss="1.5"', "0 to 0.9"]),
                ("chaos", "state_loss=0.91",
                 ['state_loss="0.91"', "0 to 0.9"]),
                ("chaos", "state_loss=-0.1", ['state_loss="-0.1"']),
                ("chaos", "state_loss=0.000001",
                 ['state_loss="0.000001"', "least"]),
                ("chaos", "state_duplicate=x", ['state_duplicate="x"']),
                ("chaos", "state_duplicate=", ['state_duplicate=""']),
                ("chaos", "state_delay=2ms..1ms",
                 ['state_delay="2ms..1ms"', "begins above its end"]),
                ("chaos", "state_delay=0..2",
                 ['state_delay="0..2"', "no unit"]),
                ("chaos", "state_delay=11s",
                 ['state_delay="11s"', "above 10 s"]),
                ("chaos", "state_loss=0 state_loss=0",
                 ['state_loss="0"', "second"]),
                ("compare", "best", ['"best"', "vanilla_flow"]),
                ("compare", ",", ['""', "vanilla_flow"]),
                ("compare", "hash,", ['""', "vanilla_flow"]),
                ("compare", "hash, snf", ['" snf"', "vanilla_flow"]),
                ("compare", "hash,hash", ['"hash"', "twice"]),
                ("compare", "hash,snf,per_packet,smart_flow,vanilla_flow",
                 ['"hash,snf,per_packet,smart_flow,vanilla_flow"',
                  "more than 4"]),
        ):
            with self.subTest(flag=flag, value=value):
                self.refused(USAGE, [f"--{flag}: ", *words], "replay",
                             self.good, f"--{flag}={value}")

    def test_refuses_flags_that_contradict_each_other(self):
        for flags in (["--flow_timeout=500us"],
                      ["--flowlet_timeout=200ms"],
                      ["--max_units=2", "--warm_units=3"],
                      ["--unit_queue=10", "--start_buffer=11"],
                      ["--max_units=3", "--replicas=3"],
                      ["--replicas=0", "--replica_choice=weighted"],
                      ["--replicas=3", "--replica_choice=none"],
                      ["--push_delay=1ms", "--replicas=0"],
                      ["--max_replicas=9", "--replica_choice=none"],
                      ["--reassign_period=1s"],
                      ["--flowlet_bytes=1KB", "--policy=per_packet"],
                      ["--hold_queue=11", "--unit_queue=10"],
                      ["--compare=snf"],
                      ["--compare=hash", "--out=/nonesuch/out.pcap"],
                      ["--compare=hash", "--csv=/nonesuch"],
                      ["--compare=hash", "--explain=top"],
                      ["--json=-", "--out=-"],
                      ["--out=" + self.good],
                      ["--json=" + self.good],
                      ["--out=x.foo"],
                      ["--out=pcap"],
                      ["--out=x.pcap.xz"],
                      ["--seed=1", "--seed=2"]):
            with self.subTest(flags):
                name = flags[0].split("=")[0]
                self.refused(USAGE, [name], "replay", self.good, *flags)
        self.refused(USAGE, ["top", "stdin"], "replay", "-", "--explain=top")
        self.refused(USAGE, ["worst-wait", "stdin"], "replay", "-",
                     "--explain=worst-wait")
        self.refused(USAGE, ["top:17"], "replay", self.good,
                     "--explain=top:17")
        self.refused(USAGE, ["--compare=hash", "stdin"], "replay", "-",
                     "--compare=hash")
        pipe = os.path.join(self.folder.name, "pipe")
        os.mkfifo(pipe)
        self.refused(USAGE, [pipe, "more than once"], "replay", pipe,
                     "--compare=hash")
        # What contradicts nothing.
        for flags in (["--replicas=0", "--replica_choice=none"],
                      ["--reassign_period=1s", "--compare=smart_flow"],
                      ["--flowlet_bytes=1KB", "--compare=per_packet"],
                      ["--compare=snf,hash"]):
            with self.subTest(flags):
                self.report(self.good, *flags)
        self.refused(USAGE, ["-"], "replay", "-", "-")

    def test_refuses_no_command_and_an_unknown_one(self):
        self.refused(USAGE, ["snf --help"])
        self.refused(USAGE, ["repaly"], "repaly")

    # Bad captures.

    def test_refuses_captures_naming_file_offset_and_reason(self):
        years_3000 = (3000 - 1970) * 31_556_952
        for name, data, words in (
                ("empty.pcap", b"", ["empty"]),
                ("text.pcap", b"this is no capture at all", ["offset 0"]),
                ("header.pcap", pcap([])[:20], ["offset 0"]),
                ("none.pcap", pcap([]), ["offset 24"]),
                ("link.pcap", pcap([(1, udp_frame())], link=147),
                 ["offset", "147"]),
                ("late.pcapng", pcapng(years_3000, 0), ["offset 60", "time"]),
        ):
            with self.subTest(name):
                self.refused(BAD_DATA, [name, *words], "replay",
                             self.file(name, data))

    def test_refuses_files_that_it_cannot_open(self):
        self.refused(IO, ["nonesuch.pcap", "No such file"], "replay",
                     os.path.join(self.folder.name, "nonesuch.pcap"))
        self.refused(IO, [self.folder.name], "replay", self.folder.name)
        self.refused(IO, ["nonesuch"], "replay", self.good, "--quiet",
                     "--json", "/nonesuch/result.json")
        self.refused(IO, ["nonesuch"], "replay", self.good, "--quiet",
                     "--out", "/nonesuch/out.pcap")

    def test_leaves_no_output_behind_a_failure(self):
        broken = self.file("broken.pcap", pcap(
            [(1, udp_frame())]) + struct.pack("<IIII", 2, 0, 1 << 30, 1 << 30))
        out = os.path.join(self.folder.name, "out.pcapng")
        self.refused(BAD_DATA, ["broken.pcap", "offset"], "replay", broken,
                     "--out", out)
        self.assertEqual(
            [n for n in os.listdir(self.folder.name) if "out" in n], [])

    def test_replays_the_rest_of_a_truncated_capture_with_a_warning(self):
        cut = self.file("cut.pcap", pcap(
            [(1, udp_frame()), (2, udp_frame()), (3, udp_frame())], cut=7))
        report = self.report(cut)
        self.assertEqual(report["packets_in"], 2)
        self.assertIn("offset", " ".join(report["warnings"]))

    # Results.

    def test_passes_through_and_counts_packets_that_are_no_ip(self):
        arp = bytes(12) + b"\x08\x06" + bytes(28)
        report = self.report(self.file("arp.pcap", pcap([(1, arp), (2, arp)])))
        self.assertEqual(report["packets_passed_through"], 2)
        self.assertEqual(report["packets_released"], 0)
        self.assertEqual(report["flows"], 0)

    def test_reads_stdin_and_writes_stdout(self):
        data = pathlib.Path(self.good).read_bytes()
        done = run("replay", "-", "--out", "-", "--quiet", stdin=data)
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        again = self.report("-", stdin=done.stdout)
        self.assertEqual(again["packets_in"], 30)
        self.assertEqual(again["digest"], self.report(self.good)["digest"])

    def test_writes_what_it_released(self):
        out = os.path.join(self.folder.name, "out.pcap.gz")
        report = self.report(self.good, "--out", out)
        again = self.report(out)
        self.assertEqual(report["packets_released"], again["packets_in"])
        self.assertEqual(report["digest"], again["digest"])
        self.refused(USAGE, ["out.pcap.gz", "--force"], "replay", self.good,
                     "--out", out)
        self.report(self.good, "--out", out, "--force")

    def test_merges_files_by_time(self):
        early = self.file("a.pcap", pcap([(1, udp_frame()), (5, udp_frame())]))
        late = self.file("b.pcap", pcap([(3, udp_frame(6000))]))
        report = self.report(late, early)
        self.assertEqual(report["packets_in"], 3)
        self.assertEqual(report["late_packets"], 0)
        self.assertEqual(report["duration_s"], 4)

    def test_a_gap_of_years_is_like_one_of_a_second(self):
        def packets(gap):
            return pcap([(100 + gap * i, udp_frame()) for i in range(100)])
        years = self.report(self.file("years.pcap", packets(20_000_000)))
        seconds = self.report(self.file("seconds.pcap", packets(400)))
        for key in ("flows", "flowlets", "decisions", "packets_released"):
            self.assertEqual(years[key], seconds[key], key)
        self.assertLess(years["elapsed_s"], seconds["elapsed_s"] + 1)

    def test_explains_a_flow_by_name_and_the_top_one(self):
        for flow in ("udp 192.0.2.1:5001 > 198.51.100.9:53", "top"):
            done = run("replay", self.good, "--quiet", "--explain", flow)
            self.assertEqual(done.returncode, OK, done.stderr.decode())
            self.assertIn("flowlet 1 ", done.stdout.decode())

    def stories(self, flow, *flags):
        """The report on the bundled capture, with what was explained."""
        done = run("replay", SOURCE / "traces" / "small.pcap.zst", "--quiet",
                   "--json=-", "--explain", flow,
                   *flags)
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        return json.loads(done.stdout)

    def test_explains_the_worst_wait_with_its_flowlet(self):
        report = self.stories("worst-wait", "--unit_capacity=300Mbit/s")
        worst, (story,) = report["wait_worst"], report["explain"]
        self.assertEqual(story["flow"], worst["flow"])
        (flowlet,) = [each for each in story["flowlets_shown"] if
                      each["first_clock"] <= worst["clock"]
                      <= each["last_clock"]]
        # Packets behind its first may be held longer.
        self.assertGreaterEqual(flowlet["longest_hold_ns"], worst["wait_ns"])
        self.assertEqual(flowlet["unit"], worst["unit"])
        self.assertLessEqual(flowlet["pull"]["asked_ns"],
                             flowlet["pull"]["came_ns"])

    def test_explains_several_flows_in_one_run(self):
        top = self.stories("top:3")["explain"]
        self.assertEqual(len(top), 3)
        self.assertEqual([each["bytes"] for each in top],
                         sorted((each["bytes"] for each in top), reverse=True))
        named = self.stories(" ; ".join(each["flow"] for each in top))
        self.assertEqual(named["explain"], top)

    def test_tells_when_packets_of_a_flow_were_dropped(self):
        report = self.stories("top", "--max_units=1", "--unit_queue=16",
                              "--unit_capacity=20Mbps", "--start_buffer=16")
        (story,) = report["explain"]
        drops = story["first_drops"]
        self.assertEqual(len(drops), 12)
        self.assertEqual([each["time_ns"] for each in drops],
                         sorted(each["time_ns"] for each in drops))
        self.assertEqual({each["reason"] for each in drops},
                         set(story["dropped"]))
        self.assertEqual(story["packets"], story["released"] +
                         sum(story["dropped"].values()))

    def test_fails_to_explain_a_flow_that_is_not_there(self):
        flow = "UDP 192.0.2.1:4999 > 198.51.100.9:53"
        done = run("replay", self.good, "--quiet", "--explain", flow)
        self.assertEqual(done.returncode, BAD_DATA)
        self.assertEqual(done.stderr.decode().count("\n"), 1)
        self.assertIn(f'"{flow}" did not come up', done.stderr.decode())
        self.assertIn("What it means", done.stdout.decode())

    def test_explains_a_flow_without_ports_only_where_it_has_none(self):
        flow = "udp 192.0.2.1 > 198.51.100.9"
        self.refused(USAGE, ["--explain", f'"{flow}"', "ports"], "replay",
                     self.good, "--explain", flow)
        done = run("replay", self.good, "--quiet", "--flow_key=3tuple",
                   "--explain", flow)
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        self.assertIn("flowlet 1 ", done.stdout.decode())

    def test_reports_flags_as_the_command_line_takes_them(self):
        flags = self.report(self.good)["flags"]
        for unset in ("out", "csv", "explain", "compare", "chaos",
                      "first_demand"):
            self.assertNotIn(unset, flags)
        self.assertGreater(len(flags), 25)
        real = {"speed", "overload", "threads", "pin", "preload", "loop",
                "watch", "metrics_port"}
        for name, value in flags.items():
            if name not in ("json", "reassign_period"):
                with self.subTest(name):
                    clock = ["--clock=real"] if name in real else []
                    self.report(self.good, *clock, f"--{name}={value}")

    def test_lets_defaults_give_way_to_what_is_given(self):
        def flags(*given):
            return self.report(self.good, *given)["flags"]
        self.assertEqual(flags("--max_units=2")["replicas"], "1")
        self.assertEqual(flags()["push_delay"], "200us")
        later = flags("--state_delay=5ms")
        self.assertEqual(later["push_delay"], "5.18ms")
        self.assertEqual(flags("--state_delay=10s")["push_delay"], "10s")
        given = flags("--state_delay=5ms", "--push_delay=1ms")
        self.assertEqual(given["push_delay"], "1ms")

    def test_says_in_help_every_flag_with_its_default(self):
        text = run("replay", "--help").stdout.decode()
        for flag in ("flowlet_timeout", "flowlet_bytes", "alpha", "replicas",
                     "ewma_delta", "unit_capacity", "max_units", "seed",
                     "unit_idle_timeout", "unit_start_delay", "load_signal",
                     "demand", "policy", "flow_key", "flow_timeout",
                     "max_flows", "hop_delay", "unit_queue", "replica_choice",
                     "push_delay", "reassign_period", "state_delay",
                     "state_bandwidth", "state_retry", "hold_queue",
                     "max_replicas"):
            self.assertRegex(text, rf"--{flag}=\S+  \[\S.*\]\n      \S")
        for flag in ("chaos", "compare"):
            self.assertRegex(text, rf"--{flag}=.+\n      \S")
        for choice in ("snf", "vanilla_flow", "smart_flow", "per_packet",
                       "hash", "rotate", "passthrough", "chronicle",
                       "connection", "3tuple,vlan", "floor", "burst", "drained",
                       "weighted", "deterministic"):
            self.assertRegex(text, rf"\n {{8}}{choice} +[a-z0-9]")
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_compares_policies_side_by_side(self):
        small = SOURCE / "traces" / "small.pcap.zst"
        flags = ["--unit_capacity=300Mbps", "--policy=hash"]
        alone = self.report(small, *flags)
        compared = self.report(small, *flags, "--compare=vanilla_flow,snf")
        self.assertEqual([each["policy"] for each in compared["compare"]],
                         ["hash", "vanilla_flow", "snf"])
        for same in (compared, compared["compare"][0]):
            keys = (set(alone) - {"flags", "elapsed_s"}) & set(same)
            self.assertGreater(len(keys), 10)
            for key in keys:
                self.assertEqual(same[key], alone[key], key)
        snf = self.report(small, "--unit_capacity=300Mbps")
        self.assertEqual(compared["compare"][2]["latency_ns"],
                         snf["latency_ns"])
        # The same packets came out of each.
        self.assertEqual({each["digest"] for each in compared["compare"]},
                         {snf["digest"]})

        file = os.path.join(self.folder.name, "compare.json")
        done = run("replay", small, *flags, "--compare=vanilla_flow,snf",
                   "--quiet", "--json", file)
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        text = done.stdout.decode()
        self.assertRegex(text, r"\n +hash +vanilla_flow +snf\n")
        self.assertRegex(text, r"\nFlows +573 += +=\n")
        self.assertRegex(text, r"\nLatency p50 +\S+ \S+ ")
        self.assertIn("the same under each", text)
        self.assertIn("ran on the fewest units", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        written = json.loads(pathlib.Path(file).read_text())
        self.assertEqual(len(written["compare"]), 3)

    def test_runs_the_same_chaos_for_the_same_seed(self):
        # What chronicle writes tells whether each packet met the right state.
        # Where no packet is dropped, that does not depend on the chaos.
        chaos = "state_delay=0..2ms state_loss=0.1 state_duplicate=0.1"

        def replay(seed, *flags):
            return self.report(
                SOURCE / "traces" / "small.pcap.zst", "--nf=chronicle",
                f"--seed={seed}", "--unit_capacity=300Mbps",
                "--replica_choice=deterministic",  # not of the seed
                "--state_retry=1ms", "--unit_queue=8192", "--hold_queue=8192",
                *flags)
        one, again, other = [replay(s, "--chaos=" + chaos) for s in (1, 1, 2)]
        for key in set(one) - {"elapsed_s"}:
            self.assertEqual(one[key], again[key], key)
        self.assertNotEqual(one["state_messages_lost"],
                            other["state_messages_lost"])
        self.assertEqual(one["flags"]["chaos"], chaos)
        for report in (one, other):
            self.assertGreater(report["state_messages_lost"], 1000)
            self.assertGreater(report["state_messages_duplicated"], 1000)
            self.assertGreater(report["pulls_repeated"], 1000)
        calm = replay(1)
        self.assertEqual(calm["state_messages_lost"], 0)
        for report in (one, other, calm):
            self.assertEqual(sum(report["packets_dropped"].values()), 0)
            self.assertEqual(report["digest"], calm["digest"])

    def test_waits_more_for_state_without_replicas(self):
        small = SOURCE / "traces" / "small.pcap.zst"
        with_replicas = self.report(small, "--unit_capacity=300Mbps")
        without = self.report(small, "--unit_capacity=300Mbps",
                              "--replica_choice=none")
        self.assertEqual(without["state_pushes"], 0)
        self.assertEqual(without["flowlets_seamless"], 0)
        self.assertEqual(without["flags"]["replicas"], "0")
        self.assertGreater(with_replicas["flowlets_seamless"], 100)

    def test_proposes_commands_that_work(self):
        for arguments in ([], [self.good], [self.good, "--unit_queue=1"]):
            text = run("replay", "--quiet", *arguments).stdout.decode()
            proposals = text.split("Three things to try next\n")[1]
            commands = proposals.replace(" \\\n", " ").splitlines()[1::2]
            self.assertEqual(len(commands), 3, proposals)
            for command in commands:
                words = shlex.split(command)
                self.assertEqual(words[0], "./snf")
                self.assertTrue(os.path.exists(words[2]), command)
                words = [os.path.abspath(word) if i == 1 else word
                         for i, word in enumerate(words[1:])]
                with self.subTest(command):
                    done = subprocess.run(
                        [PROGRAM, *words], cwd=self.folder.name,
                        capture_output=True, timeout=300, check=False)
                    self.assertEqual(done.returncode, OK,
                                     done.stderr.decode())

    # The bundled capture.

    def test_replays_the_bundled_capture_without_arguments(self):
        done = run("replay", "--quiet")
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        text = done.stdout.decode()
        self.assertRegex(text, r"Digest +[0-9a-f]{16}")
        loud = run("replay", "--json=-").stderr.decode()
        self.assertIn("small.pcap.zst --unit_capacity=", loud)

    def test_gives_the_same_result_in_every_build_and_on_every_machine(self):
        # Change these only with a change of behaviour that is meant.
        report = self.report(SOURCE / "traces" / "small.pcap.zst",
                             "--unit_capacity=300Mbps")
        self.assertEqual(report["digest"], "1b3ccd4a599f68fc")
        self.assertEqual(
            report["latency_ns"],
            {"p50": 118911, "p90": 1205247, "p99": 1763327,
             "p999": 2177023, "max": 2905027})
        self.assertEqual(
            [report[key] for key in ("decisions", "flowlets_moved",
                                     "flowlets_seamless", "state_pushes",
                                     "overcommitted", "units_used_max")],
            [9271, 2058, 1379, 9359, 11, 5])

    def test_counts_flowlets_as_an_independent_count_does(self):
        capture = SOURCE / "traces" / "small.pcap.zst"
        plain = subprocess.run(["zstd", "-dcq", capture], check=True,
                               capture_output=True).stdout
        counter = SOURCE / "traces" / "record" / "count_flowlets.py"
        for timeout_us in (500, 100):
            counted = subprocess.run(
                [counter, "--key", "5tuple", "--gap-ns",
                 str(timeout_us * 1000)],
                input=plain, check=True, capture_output=True).stdout.decode()
            numbers = dict(line.split("\t") for line in counted.splitlines())
            report = self.report(capture, "--flow_key=5tuple",
                                 f"--flowlet_timeout={timeout_us}us",
                                 "--flow_timeout=inf")
            self.assertEqual(report["packets_in"], int(numbers["packets"]))
            self.assertEqual(report["flows"], int(numbers["flows"]))
            self.assertEqual(report["flowlets"], int(numbers["flowlets"]))


if __name__ == "__main__":
    PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `snf replay` takes and refuses: flags, captures, files.

Usage: cli_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import os
import struct
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import (BAD_DATA, IO, OK, PROGRAM, USAGE, Command, pcap,
                          pcapng, run, udp_frame)

UNAVAILABLE = 69  # as platform/process/exit_code.h says


class Refusals(Command):
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
                "--policy=": ["the value is empty"],
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

    def test_takes_no_word_for_an_empty_value(self):
        """An unset variable of a shell must not have a capture replaced."""
        mine = self.file("mine.pcap", b"mine")
        for flag in ("json", "usage", "out", "drops", "csv", "decisions",
                     "seed", "quiet", "no_check"):
            with self.subTest(flag):
                self.refused(USAGE, [f"--{flag}: the value is empty"],
                             "replay", f"--{flag}=", mine)
                with open(mine, "rb") as file:
                    self.assertEqual(file.read(), b"mine")
        self.refused(USAGE, ["--name: the value is empty"], "status",
                     "--name=", "--json")

    def test_refuses_bad_values_naming_flag_value_and_what_is_right(self):
        whole = "not a whole number from 0"
        for flag, right, values in (
                ("policy", "is none of snf, vanilla_flow, smart_flow, "
                 "per_packet, hash, rotate", ["best", "SNF", "snf,hash"]),
                ("replicas", "out of range: 0 to 16", ["17", "4294967295"]),
                ("replicas", whole, ["-1", "3.0", "many", "4294967296"]),
                ("replica_choice",
                 "is none of likely, weighted, deterministic, none",
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
                ("push_bases", "out of range: 0 to 1048576", ["1048577"]),
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
                      ["--flowlet_timeout=1s", "--flow_timeout=1s"],
                      ["--max_units=2", "--warm_units=3"],
                      ["--unit_queue=10", "--start_buffer=11"],
                      ["--max_units=3", "--replicas=3"],
                      ["--replicas=0", "--replica_choice=weighted"],
                      ["--replicas=3", "--replica_choice=none"],
                      ["--push_delay=1ms", "--replicas=0"],
                      ["--max_replicas=9", "--replica_choice=none"],
                      ["--push_bases=9", "--replicas=0"],
                      ["--reassign_period=1s"],
                      ["--flowlet_bytes=1KB", "--policy=per_packet"],
                      ["--hold_queue=11", "--unit_queue=10"],
                      ["--compare=snf"],
                      ["--compare=hash", "--out=/nonesuch/out.pcap"],
                      ["--compare=hash", "--csv=/nonesuch"],
                      ["--compare=hash", "--explain=top"],
                      ["--compare=hash", "--decisions=/nonesuch/a.csv"],
                      ["--compare=hash", "--usage=/nonesuch/a.jsonl"],
                      ["--usage=a", "--json=a"],
                      ["--usage=-", "--json=-"],
                      ["--decisions=/nonesuch/a.json"],
                      ["--decisions=/nonesuch/a.csv", "--clock=real"],
                      ["--decisions=a.csv", "--json=a.csv"],
                      ["--warm_up=1s", "--clock=real"],
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

    def test_reports_flags_as_the_command_line_takes_them(self):
        flags = self.report(self.good)["flags"]
        for unset in ("out", "csv", "decisions", "explain", "compare", "chaos",
                      "first_demand"):
            self.assertNotIn(unset, flags)
        self.assertGreater(len(flags), 25)
        real = {"speed", "overload", "threads", "pin", "preload", "loop",
                "watch", "metrics_port", "metrics_address", "metrics_tls",
                "isolation",
                "busy_poll", "host_state"}
        for name, value in flags.items():
            if name not in ("json", "logger_delay", "reassign_period",
                            "redis", "store", "leases", "warm_pool"):
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

    def test_releases_the_same_through_output_loggers(self):
        plain = self.report(self.good)
        self.assertNotIn("loggers", plain)
        logged = self.report(self.good, "--loggers=on", "--logger_delay=5us",
                             "--chaos=logger_loss=0.2 logger_duplicate=0.1")
        self.assertEqual(logged["digest"], plain["digest"])
        self.assertEqual(logged["packets_released"],
                         plain["packets_released"])
        loggers = logged["loggers"]
        self.assertGreaterEqual(loggers["entries"],
                                loggers["whole"] + loggers["partial"])
        self.assertGreater(loggers["whole"], 0)

    def test_releases_the_same_in_each_mode_of_state(self):
        flags = ("--policy=rotate", "--max_units=4", "--nf=chronicle")
        plain = self.report(self.good, *flags)
        self.assertNotIn("store", plain)
        for mode in ("proactive", "reactive", "external"):
            with self.subTest(mode):
                ran = self.report(self.good, *flags, f"--state={mode}")
                self.assertEqual(ran["digest"], plain["digest"])
                self.assertEqual("store" in ran, mode == "external")
                self.assertEqual(ran["state_pushes"] == 0, mode == "reactive")
        self.assertGreater(ran["store"]["reads"], 0)
        self.assertGreater(ran["store"]["writes"], 0)
        self.assertGreater(ran["store"]["round_trip_ns"]["p50"], 0)

    def test_thinks_through_that_units_die(self):
        self.assertNotIn("recovery", self.report(self.good))
        recovery = self.report(self.good, "--recovery")["recovery"]
        self.assertGreater(recovery["samples"], 0)
        self.assertGreater(recovery["datastore_p50_ns"],
                           recovery["logger_p50_ns"])

    def test_refuses_flags_of_a_store_without_one(self):
        external = "--state=external"
        for words, flags in [
                (["--store", "external"], ["--store=poll=1ms"]),
                (["--redis", "external"], ["--clock=real", "--redis=a:1"]),
                (["--redis", "real time"], [external, "--redis=a:1"]),
                (['pol"', "round_trips"], [external, "--store=pol=1ms"]),
                (["replica_choice", "proactive"],
                 ["--state=reactive", "--replica_choice=likely"]),
                (["replicas", "proactive"], [external, "--replicas=2"]),
                (["--faults", external],
                 [external, "--loggers=on", "--faults=kill any at 1s"])]:
            self.refused(USAGE, words, "replay", self.good, *flags)

    def test_says_where_no_redis_answers(self):
        redis = "--redis=unix:/nonexistent/socket"
        self.refused(UNAVAILABLE, [redis, "cannot connect"], "replay",
                     self.good, "--clock=real", "--state=external", redis)

    def test_refuses_flags_of_loggers_without_them(self):
        for flag in ("logger_delay=1us", "chaos=logger_loss=0.1"):
            self.refused(USAGE, [flag.split("=")[0], "--loggers"], "replay",
                         self.good, f"--{flag}")

    def test_refuses_faults_that_cannot_be_and_names_what_does_not_exist(self):
        kill = "--faults=kill any at 1s"
        logged = "--loggers=on"
        for words, flags in [
                (["unit 64", "63"], [logged, "--faults=kill unit 64 at 1s"]),
                (["unit 2", "max_units=2"],
                 [logged, "--faults=kill unit 2 p=0.1", "--max_units=2"]),
                (['"kil any at 1s"', "kill unit 3 at 1.2s"],
                 [logged, "--faults=kill any at 2s; kil any at 1s"]),
                (["unit 64", "63"], [logged, "--faults=kill logger 64 at 1s"]),
                (['p="2"'], [logged, "--faults=kill any p=2"]),
                (["loggers=off"], [kill]),
                (["--recovery", "without real failures"],
                 [logged, kill, "--recovery"]),
                (["--isolation", "no threads"],
                 [logged, kill, "--clock=real"]),
                (["no resource manager"],
                 [logged, "--faults=kill resource_manager at 1s"])]:
            self.refused(USAGE, words, "replay", self.good, *flags)

    def test_refuses_what_several_controllers_do_not_have(self):
        several = "--controllers=9"
        for words, flags in [
                (["--leases", "--controllers=1"], ["--leases=independent"]),
                (["--max_units=1", "at most 7"], [several, "--max_units=1"]),
                (["--hop_delay=2ms", "1 ms"], [several, "--hop_delay=2ms"]),
                (["start_failure"], [several, "--chaos=start_failure=0.1"]),
                (["--state=external"], [several, "--state=external"]),
                *((["several controllers"], [several, flag]) for flag in (
                    "--recovery", "--warm_units=1", "--start_timeout=1s",
                    "--warm_start_delay=1ms", "--unit_idle_timeout=1s"))]:
            self.refused(USAGE, words, "replay", self.good, *flags)

    def test_refuses_what_a_store_does_not_go_with(self):
        external = ["--state=external", "--clock=real"]
        for words, flags in [
                (["--isolation=process", "threads"],
                 [*external, "--threads=2", "--isolation=process"]),
                (["--loggers=on", "no loggers"], [*external, "--loggers=on"]),
                (["--faults"], ["--state=external", "--loggers=on",
                                "--faults=kill any at 1s"]),
                (["--redis", "only external"], ["--redis=unix:/x"])]:
            self.refused(USAGE, words, "replay", self.good, *flags)

    def test_says_in_help_every_flag_with_its_default(self):
        text = run("replay", "--help").stdout.decode()
        for flag in ("flowlet_timeout", "flowlet_bytes", "alpha", "replicas",
                     "ewma_delta", "unit_capacity", "max_units", "seed",
                     "unit_idle_timeout", "unit_start_delay", "load_signal",
                     "demand", "policy", "flow_key", "flow_timeout",
                     "max_flows", "hop_delay", "unit_queue", "replica_choice",
                     "push_delay", "reassign_period", "state_delay",
                     "state_bandwidth", "state_retry", "hold_queue",
                     "max_replicas", "push_bases", "loggers", "logger_delay"):
            self.assertRegex(text, rf"--{flag}=\S+  \[\S.*\]\n      \S")
        for flag in ("chaos", "compare"):
            self.assertRegex(text, rf"--{flag}=.+\n      \S")
        for choice in ("snf", "vanilla_flow", "smart_flow", "per_packet",
                       "hash", "rotate", "passthrough", "chronicle",
                       "connection", "3tuple,vlan", "floor", "burst", "drained",
                       "weighted", "deterministic"):
            self.assertRegex(text, rf"\n {{8}}{choice} +[a-z0-9]")
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

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

    def test_tells_that_stdout_is_full(self):
        for arguments in (["replay", self.good, "--quiet"],
                          ["replay", self.good, "--quiet", "--json=-"],
                          ["replay", "--json_schema"], ["replay", "--help"],
                          ["--help"], ["--version"], ["nf", "--help"],
                          ["trace", "info", self.good, "--quiet"],
                          ["nf", "list"], ["nf", "show", "nat"],
                          ["nf", "run", "nat:ip=203.0.113.1", self.good],
                          ["policy", "list", "--json"]):
            with self.subTest(arguments), open("/dev/full", "wb") as full:
                done = subprocess.run([PROGRAM, *arguments], stdout=full,
                                      stderr=subprocess.PIPE, timeout=300,
                                      check=False)
                text = done.stderr.decode()
                self.assertEqual(done.returncode, IO, text)
                self.assertEqual(text.count("\n"), 1, text)
                self.assertRegex(text, "^snf.*No space left on device")

    def test_outlives_a_stderr_that_is_full(self):
        for code, arguments in ((OK, ["replay"]), (USAGE, ["repaly"]),
                                (USAGE, ["replay", "--nonesuch"])):
            with self.subTest(arguments), open("/dev/full", "wb") as full:
                done = subprocess.run([PROGRAM, *arguments], stderr=full,
                                      stdout=subprocess.PIPE, timeout=300,
                                      check=False)
                self.assertEqual(done.returncode, code)
                self.assertEqual(b"Digest" in done.stdout, code == OK)

    def test_writes_no_report_into_a_file_if_stdout_is_closed(self):
        out = os.path.join(self.folder.name, "out.pcap")
        done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", PROGRAM, "replay",
                               self.good, "--quiet", f"--out={out}"],
                              stderr=subprocess.PIPE, timeout=300, check=False)
        self.assertEqual(done.returncode, IO, done.stderr.decode())
        self.assertIn("stdout", done.stderr.decode())
        self.assertEqual(self.report(out)["packets_in"], 30)

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


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The scripts that measure, with a program that only pretends, and what is
made of a machine that is busy."""

import argparse
import contextlib
import io
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True  # nothing beside the sources
import at_load
import live
import pressure
import startup
from scenario import BETTER, BUSY, DIFFERS, NOT_RUN, REPRODUCED, in_calm

HERE = pathlib.Path(__file__).resolve().parent
# Takes 1 ms a packet at --speed=max, and 2 ms more latency at each next run.
PRETENDER = """#!{python}
import json, pathlib, sys, time
log = pathlib.Path({log!r})
with log.open("a") as file:
    print(" ".join(sys.argv[1:]), file=file)
flags = dict(word[2:].split("=") for word in sys.argv[1:]
             if word.startswith("--"))
if flags.get("fail"):
    sys.exit("first line\\nno room for that")
loops = int(flags["loop"])
end = time.process_time() + 0.05 * loops
while time.process_time() < end:
    pass
ran = log.read_text().count("--speed=" + flags["speed"])
latency = {{name: ran * 1000 for name in ("p50", "p90", "p99", "p999")}}
print(json.dumps({{"packets_in": 100 * loops, "packets_per_s": 1000 * ran,
                   "packets_dropped": {{"unit_queue_full": 10 * loops,
                                        "nf:denied": 5}},
                   "latency_ns": latency}}))
"""


class Measuring(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "log"
        self.snf = self.folder / "snf"
        self.snf.write_text(PRETENDER.format(python=sys.executable,
                                             log=str(self.log)))
        self.snf.chmod(0o755)

    def run_script(self, script, *arguments):
        return subprocess.run(
            [sys.executable, HERE / script, *map(str, arguments)],
            capture_output=True, text=True, timeout=300, check=False)

    def test_loads_are_shares_of_the_greatest_rate(self):
        ran = self.run_script("at_load.py", self.snf, "--share=0.5",
                              "--speeds=1Gbps", "--loop=3", "--speeds_loop=1",
                              "--repetitions=2", "replay", "x.pcap")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        found = json.loads(ran.stdout)
        self.assertEqual(found["max_pps"], [1000, 2000])
        self.assertEqual(
            self.log.read_text().splitlines(),
            ["replay x.pcap --loop=3 --speed=max"] * 2
            + ["replay x.pcap --speed=max --loop=1"] * 2
            + ["replay x.pcap --loop=3 --speed=1000pps"] * 2
            + ["replay x.pcap --loop=1 --speed=1Gbps"] * 2)
        for load, speed, share in zip(found["loads"], ("1000pps", "1Gbps"),
                                      (0.5, None), strict=True):
            self.assertEqual((load["speed"], load["share"]), (speed, share))
            self.assertEqual(load["p99"], [1e-6, 2e-6])
            self.assertEqual(load["dropped"], [0.1, 0.1])  # not the NF's
        self.assertEqual(len(found["cpu_ns"]), 2)
        self.assertTrue(all(ns is None or ns > 0 for ns in found["cpu_ns"]))
        self.assertGreater(min(found["memory_bytes"]), 1e6)
        self.assertTrue(0 <= found["waited"] <= 1)

    def test_what_a_process_takes_besides_is_left_out_of_cpu_time(self):
        once = ({"packets_in": 100}, 0.75, 0)
        with mock.patch.object(at_load, "run", return_value=once) as run:
            self.assertEqual(
                at_load.cpu_of_packet(["x"], 3, {"packets_in": 300}, 1.0),
                1e9 * 0.25 / 200)
            run.assert_called_once_with(["x", "--speed=max", "--loop=1"])
            self.assertEqual(
                at_load.cpu_of_packet(["x"], 1, {"packets_in": 100}, 0.5),
                1e9 * 0.5 / 100)
            run.assert_called_once()
            self.assertIsNone(  # no more than the run of one loop took
                at_load.cpu_of_packet(["x"], 3, {"packets_in": 300}, 0.75))

    def test_the_error_of_a_run_is_told(self):
        ran = self.run_script("at_load.py", self.snf, "--fail=1")
        self.assertEqual(ran.returncode, 1)
        self.assertEqual(ran.stdout, "")
        self.assertEqual(ran.stderr, "first line\nno room for that\n")

    def test_forks_and_loads_take_time_and_memory(self):
        for method, program in (("fork", self.snf), ("load", "/bin/bash")):
            with self.subTest(method), \
                    mock.patch.dict("os.environ", {"LC_ALL": "C"}):
                ran = self.run_script("startup.py", program, "x.pcap",
                                      f"--method={method}", "--counts=1,3")
                if method == "load":  # it has no hiredis
                    self.assertEqual(ran.returncode, 1)
                    self.assertIn("not linked with hiredis", ran.stderr)
                    continue
                self.assertEqual(ran.returncode, 0, ran.stderr)
                rows = json.loads(ran.stdout)["rows"]
                self.assertEqual([row["count"] for row in rows], [1, 3])
                for row in rows:
                    self.assertGreater(row["seconds"], 1e-6)
                    self.assertGreater(row["bytes"], 4096)


class Containers(unittest.TestCase):
    def test_are_not_measured_where_they_cannot_be(self):
        for euid, loads, words in ((1000, True, "root"),
                                   (0, False, "not installed")):
            out = io.StringIO()
            error = None if loads else OSError("no such library")
            with mock.patch.object(startup.os, "geteuid", return_value=euid), \
                    mock.patch.object(startup.ctypes, "CDLL",
                                      side_effect=error), \
                    mock.patch.object(sys, "argv", [
                        "startup.py", "/nonesuch", "x.pcap", "--method=lxc",
                        "--counts=1,2"]), contextlib.redirect_stdout(out):
                self.assertEqual(startup.main(), 0)
            found = json.loads(out.getvalue())
            self.assertEqual(found["rows"], [])
            self.assertIn(words, found["why_not"])


class Live(unittest.TestCase):
    def test_tells_why_it_cannot_measure(self):
        for euid, tools, ways, words in (
                (1000, True, "bridge,nftables", "wants root"),
                (0, False, "bridge,nftables", "iperf3, nft not installed"),
                (0, False, "lb thread,dnat", "iperf3, nft not installed"),
                (0, False, "lb thread", "iperf3 not installed")):
            out = io.StringIO()
            with mock.patch.object(live.os, "geteuid", return_value=euid), \
                    mock.patch.object(
                        live.shutil, "which", side_effect=lambda name:
                        name if tools or name not in ("iperf3", "nft") else
                        None), \
                    mock.patch.object(sys, "argv", [
                        "live.py", "/nonesuch", f"--ways={ways}"]), \
                    contextlib.redirect_stdout(out):
                self.assertEqual(live.main(), 0)
            found = json.loads(out.getvalue())
            self.assertEqual(found["rows"], [])
            self.assertIn(words, found["why_not"])

    def test_refuses_what_is_no_way(self):
        for ways in ("", "brigde", "chain", "chain thread lxc", "plain cloud",
                     "bridge,chain process logger", "lb", "dnat thread",
                     "bridge sender", "chain thread sender loggers"):
            with self.subTest(ways), self.assertRaisesRegex(
                    argparse.ArgumentTypeError, "is no way"):
                live.ways_of(ways)
        for text in ("0", "0.5", "-1", "x"):
            with self.subTest(text), self.assertRaisesRegex(
                    argparse.ArgumentTypeError, "whole seconds"):
                live.seconds_of(text)
        for way in ("bridge", "chain lxc loggers", "dnat", "lb thread",
                    "chain thread sender", "chain lxc loggers sender"):
            self.assertEqual(live.ways_of(way), [way])

    def test_measures_connections_alone_of_what_balances(self):
        with mock.patch.multiple(
                live, make_hosts=mock.DEFAULT, remove_hosts=mock.DEFAULT,
                measure=mock.DEFAULT, call=mock.Mock(return_value="7.5"),
                by_dnat=lambda _: contextlib.nullcontext()) as mocks, \
                mock.patch.object(live.subprocess, "Popen") as started:
            started.return_value.stdout.readline.return_value = b"ready\n"
            rows = live.rows_of(argparse.Namespace(
                snf="/nonesuch", ways=["dnat"], rounds=1, seconds=1))
        self.assertEqual(rows, [
            {"way": "dnat", "why_not": "", "connections": 7.5}])
        mocks["measure"].assert_not_called()

    def test_gives_medians_by_way_and_why_one_has_none(self):
        values = iter([3.0, 1.0, 2.0])

        def measure(daemon, seconds):
            return {"tcp_up": next(values)}
        with mock.patch.multiple(
                live, make_hosts=mock.DEFAULT, remove_hosts=mock.DEFAULT,
                measure=measure, by_snf=mock.Mock(
                    side_effect=live.CannotMeasure("no LXC")),
                by_bridge=lambda _: contextlib.nullcontext()) as mocks, \
                mock.patch.object(live.subprocess, "Popen") as started:
            started.return_value.stdout.readline.return_value = b"ready\n"
            rows = live.rows_of(argparse.Namespace(
                snf="/nonesuch", ways=["bridge", "chain lxc"], rounds=3,
                seconds=1))
        self.assertEqual(rows, [
            {"way": "bridge", "why_not": "", "tcp_up": 2.0},
            {"way": "chain lxc", "why_not": "no LXC"}])
        mocks["remove_hosts"].assert_called_once_with()


class Flows(unittest.TestCase):
    def test_send_as_often_as_they_are_told(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "flows.pcap"
            ran = subprocess.run(
                [HERE / "steady_flows.py", path, "--flows=20", "--gap=1000",
                 "--then=500", "--at=100", "--duration=200"],
                capture_output=True, text=True, timeout=60, check=True)
            data = path.read_bytes()
        before, after, ports, last = 0, 0, set(), 0
        at = 24
        while at < len(data):
            seconds, nanos, captured, length = struct.unpack_from("<IIII",
                                                                  data, at)
            self.assertEqual((captured, length), (64, 200))
            time = seconds * 10**9 + nanos
            self.assertGreaterEqual(time, last)
            last = time
            if time < 1.1e9:
                before += 1
            else:
                after += 1
            ports.add(struct.unpack_from(">H", data, at + 16 + 34)[0])
            at += 16 + captured
        self.assertEqual(json.loads(ran.stdout)["packets"], before + after)
        self.assertEqual(len(ports), 20)
        self.assertAlmostEqual(before / 2000, 1, delta=0.05)
        self.assertAlmostEqual(after / 4000, 1, delta=0.05)

    def test_refuse_what_cannot_be(self):
        for flag in ("--gap=0", "--bytes=10", "--flows=70000"):
            ran = subprocess.run([HERE / "steady_flows.py", "/dev/null", flag],
                                 capture_output=True, text=True, timeout=60,
                                 check=False)
            self.assertEqual(ran.returncode, 1)
            self.assertIn("want 1 to 60000 flows", ran.stderr)


class Busy(unittest.TestCase):
    def test_stalls_are_a_share_of_time(self):
        with tempfile.NamedTemporaryFile("w") as file, \
                mock.patch.object(pressure, "STALLS",
                                  pathlib.Path(file.name)), \
                mock.patch.object(pressure.time, "monotonic",
                                  side_effect=[10.0, 14.0]):
            file.write("some avg10=1.00 avg60=1.00 avg300=1.00 total=5000000\n"
                       "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n")
            file.flush()
            stalls = pressure.Stalls()
            file.seek(0)
            file.write("some avg10=1.00 avg60=1.00 avg300=1.00 total=6000000\n")
            file.flush()
            self.assertAlmostEqual(stalls.share(), 0.25)

    def test_are_none_where_the_kernel_does_not_tell(self):
        with mock.patch.object(pressure, "STALLS", pathlib.Path("/nonesuch")):
            self.assertEqual(pressure.Stalls().share(), 0)

    def test_machines_make_no_difference(self):
        for waited, came_out, is_ratio, expected in (
                (0.0, DIFFERS, False, DIFFERS), (BUSY, DIFFERS, True, DIFFERS),
                (0.5, DIFFERS, False, NOT_RUN), (0.5, BETTER, False, BETTER),
                (0.5, REPRODUCED, True, NOT_RUN)):
            text, verdict = in_calm(waited, "3 µs", came_out, is_ratio)
            self.assertEqual(verdict, expected)
            self.assertTrue(text.startswith("3 µs"))
            self.assertEqual("fewer CPUs than work" in text, verdict == NOT_RUN)


if __name__ == "__main__":
    unittest.main()

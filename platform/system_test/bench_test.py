#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf bench` measures every row and tells of it: the form, not the figures.

Usage: bench_test.py PROGRAM SOURCE_DIR
"""

import json
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM, CAPTURE = "", ""
OK, USAGE, IO = 0, 2, 74
# On every machine.
MEASURED = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 17, 18, 19, 20,
            21}
# Redis may be absent; network namespaces want root, and one of row 11's three
# lines does: containers.
PERHAPS = {11, 14, 16}
INVERSE = {11, 14, 15, 16, 20, 21}  # ratios of the base against ours


def run(*arguments):
    if not any(word.startswith("--capture=") for word in arguments):
        arguments = (f"--capture={CAPTURE}", *arguments)
    return subprocess.run([PROGRAM, "bench", *arguments], capture_output=True,
                          text=True, timeout=300, check=False)


class Bench(unittest.TestCase):
    def test_measures_every_row_in_text_and_json(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "bench.json")
            done = run("--quick", "--json", str(path))
            self.assertEqual((done.returncode, done.stderr), (OK, ""))
            report = json.loads(path.read_text())
        self.assertEqual({row["row"] for row in report["rows"]},
                         set(range(1, 22)))
        for row in report["rows"]:
            with self.subTest(row["row"], what=row["what"]):
                self.check_row(row, done.stdout)
        for line in done.stdout.splitlines():
            self.assertLessEqual(len(line), 80, line)
        self.assertIn("--quick", done.stdout)
        machine = report["machine"]
        self.assertGreaterEqual(machine["cpus"], 1)
        self.assertTrue(machine["kernel"])
        self.assertGreaterEqual(machine["load_before"], 0)
        self.assertTrue(any("--quick" in one for one in report["warnings"]))

    def check_row(self, row, text):
        self.assertIn(f"{row['row']:>2}  {row['what']}", text)
        if "not_measured" in row:
            self.assertIn(row["row"], PERHAPS)
            self.assertTrue(row["not_measured"])
            self.assertEqual(row["verdict"], "not measured")
            return
        self.assertIn(row["row"], MEASURED | PERHAPS)
        self.assertIn(row["verdict"],
                      {"met aim", "met must", "missed", "no budget"})
        self.assertEqual(row["verdict"] == "no budget",
                         row["must"] is None and row["aim"] is None)
        if row["row"] != 19:  # a difference
            self.assertGreater(row["measured"]["median"], 0)
        for side in [row["ours"], row["base"], *row["beside"]]:
            self.assertEqual(len(side["samples"]), 2)
            self.assertTrue(all(sample > 0 for sample in side["samples"]))
            self.assertEqual(side["min"], min(side["samples"]))
            self.assertEqual(side["max"], max(side["samples"]))
            self.assertIn(side["what"].split()[0], text)
        if row["unit"] == "ratio":
            pairs = zip(row["ours"]["samples"], row["base"]["samples"])
            ratios = [b / a if row["row"] in INVERSE else a / b for a, b in pairs]
            self.assertAlmostEqual(row["measured"]["min"], min(ratios))

    def test_measures_the_rows_that_are_named(self):
        done = run("--quick", "--rows=7,10", "--repetitions=3", "--json=-")
        self.assertEqual(done.returncode, OK, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual({row["row"] for row in report["rows"]}, {7, 10})
        self.assertEqual(len(report["rows"][0]["ours"]["samples"]), 3)

    def test_tells_what_changed_since_an_earlier_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "old.json")
            flags = ("--quick", "--rows=7", "--repetitions=5")
            done = run(*flags, f"--json={path}")
            self.assertEqual(done.returncode, OK, done.stderr)
            old = json.loads(path.read_text())
            for row in old["rows"]:
                values = row["measured"]["values"]
                self.assertEqual(len(values), 5)
                row["measured"]["values"] = [value / 100 for value in values]
            path.write_text(json.dumps(old))
            done = run(*flags, f"--compare={path}")
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertRegex(done.stdout, r"\nCompared +with ")
            self.assertIn(": worse", done.stdout)
            count = len(old["rows"])
            self.assertIn(f"{count} of {count} rows changed", done.stdout)
            path.write_text("{}")
            self.refused(USAGE, [str(path), "not what"], *flags,
                         f"--compare={path}")

    def test_says_why_the_capture_is_not_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            arp = pathlib.Path(folder, "arp.pcap")
            arp.write_bytes(
                struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1)
                + struct.pack("<IIII", 1, 0, 60, 60)
                + bytes(12) + b"\x08\x06" + bytes(46))
            for path, why in (("/nonesuch", "cannot open"),
                              (arp, "no packet of IPv4 with TCP or UDP")):
                done = run("--quick", "--rows=18", "--json=-",
                           f"--capture={path}")
                self.assertEqual(done.returncode, OK, done.stderr)
                row, = json.loads(done.stdout)["rows"]
                self.assertEqual(row["verdict"], "not measured")
                self.assertIn(str(path), row["not_measured"])
                self.assertIn(why, row["not_measured"])

    def test_measures_rules_of_files_on_a_capture(self):
        with tempfile.TemporaryDirectory() as folder:
            rules = pathlib.Path(folder, "some.rules")
            rules.write_text("".join(
                f'alert ip any any -> any any (content:"word{i}"; sid:{i};)\n'
                for i in range(1, 9)))
            done = run("--quick", "--rows=15", "--json=-", f"--rules={rules}")
            self.assertEqual(done.returncode, OK, done.stderr)
            _, few, many, every = json.loads(done.stdout)["rows"]
            self.assertEqual(every["variant"], "all 8 rules")
            for row in (few, many, every):
                self.assertEqual(row["ours"]["unit"], "Gbit/s")
                self.assertGreater(row["ours"]["median"], 0)
                self.assertIn("8 patterns", row["notes"][0])
            done = run("--quick", "--rows=15", "--json=-", "--rules=/nonesuch")
            self.assertEqual(done.returncode, OK, done.stderr)
            _, row = json.loads(done.stdout)["rows"]
            self.assertIn("/nonesuch", row["not_measured"])

    def refused(self, code, words, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_refuses_what_makes_no_sense(self):
        self.refused(USAGE, ["--rows", '"22"', "21"], "--rows=1,22")
        self.refused(USAGE, ["--rows", '""'], "--rows=1,,2")
        self.refused(USAGE, ["--repetitions", "5", "--quick"],
                     "--repetitions=4")
        self.refused(USAGE, ["--packets"], "--packets=0")

    def test_ends_cleanly_when_interrupted(self):
        with subprocess.Popen([PROGRAM, "bench", "--rows=6", "--quick"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            threads = pathlib.Path(f"/proc/{process.pid}/task")
            while len(list(threads.iterdir())) < 2:
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, said)
        self.assertEqual(said, ("", "snf bench: interrupted; no unfinished "
                                "file is left\n"))

    def test_says_where_it_cannot_write(self):
        self.refused(IO, ["/nonesuch/x"], "--quick", "--rows=10",
                     "--json=/nonesuch/x")


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    CAPTURE = str(pathlib.Path(sys.argv[2], "traces/small.pcap.zst"))
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])

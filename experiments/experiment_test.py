#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`./snf experiment` as a user meets it.

Usage: experiment_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import csv
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE = map(pathlib.Path, sys.argv[1:3])
OK, SOME_FAILED, USAGE, UNAVAILABLE, IO, INTERRUPTED = 0, 1, 2, 69, 74, 130
HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None
CAPTURE = SOURCE / "traces" / "small.pcap.zst"


def experiment(*arguments, snf=PROGRAM, **options):
    return subprocess.run(
        [sys.executable, SOURCE / "experiments/experiment.py", f"--snf={snf}",
         *map(str, arguments)],
        capture_output=True, text=True, timeout=500, check=False, **options)


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file
                                   if not line.startswith("#")))


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"

    @classmethod
    def setUpClass(cls):
        cls.cache = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.cache.cleanup)

    def share_runs(self):
        """What other tests have run is not run again."""
        self.out.mkdir()
        (self.out / "cache").symlink_to(self.cache.name)

    def run_quickly(self, name, *arguments, code=OK, **options):
        ran = experiment(name, "--quick", f"--out={self.out}", *arguments,
                         **options)
        self.assertEqual(ran.returncode, code, ran.stderr)
        return ran

    def refuses(self, code, words, *arguments, **options):
        ran = experiment(*arguments, **options)
        self.assertEqual(ran.returncode, code, ran.stderr)
        self.assertEqual(ran.stdout, "")
        self.assertEqual(len(ran.stderr.splitlines()), 1, ran.stderr)
        for word in words:
            self.assertIn(word, ran.stderr)

    def files(self):
        return {path.name: path.read_bytes() for path in self.out.iterdir()
                if path.is_file()}


class Asking(Case):
    def test_lists_experiments(self):
        ran = experiment("list")
        self.assertEqual(ran.returncode, OK, ran.stderr)
        self.assertEqual([line.split()[0] for line in ran.stdout.splitlines()],
                         sorted(path.stem.removeprefix("scenario_").replace(
                             "_", "-") for path in
                             (SOURCE / "experiments").glob("scenario_*")))
        self.assertIn("provisioning", ran.stdout)
        self.assertIn("SNF Fig. 1, 2", ran.stdout)

    def test_refuses_what_it_does_not_understand(self):
        missing = self.folder / "missing.pcap"
        for code, words, arguments in (
                (USAGE, ["nonesuch", "packing"], ["nonesuch"]),
                (USAGE, ["NAME", "--help"], []),
                (USAGE, ["--nonesuch", "--help"], ["packing", "--nonesuch"]),
                (USAGE, ["--rate=1Gbps,fast", "'fast'"],
                 ["packing", "--rate=1Gbps,fast"]),
                (USAGE, ["--flags=alpha", "'alpha'"],
                 ["packing", "--flags=alpha"]),
                (USAGE, ["--flags=--json=x"], ["packing", "--flags=--json=x"]),
                (USAGE, ["--jobs=0"], ["packing", "--jobs=0"]),
                (USAGE, ["--jobs", "many"], ["packing", "--jobs=many"]),
                (IO, [str(missing)], ["packing", f"--trace={missing}"])):
            with self.subTest(arguments):
                self.refuses(code, words, *arguments)

    def test_refuses_a_folder_that_cannot_be_written(self):
        file = self.folder / "file"
        file.write_text("")
        for out in (file, file / "below"):
            self.refuses(IO, [str(file)], "packing", f"--out={out}")

    def test_says_that_the_program_is_missing(self):
        gone = self.folder / "snf"
        self.refuses(UNAVAILABLE, [str(gone), "./snf build"], "packing",
                     f"--out={self.out}", snf=gone)


class Interrupting(Case):
    def test_keeps_what_was_run(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen(
                [sys.executable, SOURCE / "experiments/experiment.py",
                 f"--snf={PROGRAM}", "packing", "--jobs=1",
                 f"--out={self.out}"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for line in process.stderr:
                if "of 93 runs" in line:
                    break
            process.send_signal(number)
            out, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, INTERRUPTED, errors)
            self.assertEqual(out, "")
            self.assertIn("the same command goes on", errors)
            self.assertEqual(list((self.out / "cache").glob("*.partial")), [])
            self.assertNotEqual(
                list((self.out / "cache").glob("*/figures.json")), [])


class Packing(Case):
    def test_repeats_to_the_last_digit_and_runs_nothing_twice(self):
        self.run_quickly("packing", "--jobs=2")
        first = self.files()
        self.assertIn("packing.md", first)
        again = self.run_quickly("packing")
        self.assertIn("kept from before", again.stderr)
        self.assertEqual(self.files(), first)
        self.out = self.folder / "other"
        self.run_quickly("packing", "--jobs=1")
        self.assertEqual(self.files(), first)
        self.check_figures()

    def check_figures(self):
        rows = {(row["a unit (bit/s)"], row["policy"]): row
                for row in rows_of(self.out / "packing_runs.csv")}
        self.assertEqual(len(rows), 2 * (5 + 4))
        for row in rows.values():
            demand = float(row["demand (bit/s)"])
            self.assertAlmostEqual(demand / 1e9, 1, delta=0.1)
            self.assertAlmostEqual(
                demand / float(row["provisioned (bit/s)"]),
                float(row["utilisation (share)"]), places=9)
        one = {policy: float(row["mean (units)"])
               for (capacity, policy), row in rows.items()
               if capacity == "1000000000"}
        self.assertLess(one["bound: first fit"],
                        one["bound: first fit, held"])
        self.assertLess(one["snf"], one["hash"])
        findings = rows_of(self.out / "packing_findings.csv")
        self.assertEqual(len(findings), 10)
        self.assertEqual({row["verdict"] for row in findings} -
                         {"reproduced", "better", "differs"}, set())
        states = rows_of(self.out / "packing_state.csv")
        self.assertEqual(len(states), 4)
        self.assertEqual({row["seamless (share)"] for row in states
                          if row["state"] == "reactive"}, {"0.0"})

    def test_each_output_says_where_it_comes_from(self):
        self.share_runs()
        self.run_quickly("packing", "--flags=--alpha=0.5")
        for name, data in self.files().items():
            if name.endswith(".svg"):
                continue  # its letters may be drawn
            if name.endswith(".png"):
                self.assertTrue(data.startswith(b"\x89PNG"))
                continue
            text = data.decode()
            for word in ("seeds: 1", "snf: ", "machine: ", "small.pcap.zst",
                         "flags: --alpha=0.5"):
                self.assertIn(word, text, name)

    def test_passes_flags_on_and_tells_of_runs_that_fail(self):
        self.share_runs()
        ran = self.run_quickly("packing", "--flags=--alpha=nonsense",
                               code=SOME_FAILED)
        self.assertIn("exit code 2: snf replay: --alpha: \"nonsense\"",
                      ran.stderr)
        text = (self.out / "packing.md").read_text()
        self.assertIn("a run failed", text)
        rows = rows_of(self.out / "packing_runs.csv")
        self.assertEqual(len(rows), 2 * 4)  # the bounds went on
        self.assertNotIn("| reproduced |", text)

    def test_takes_a_capture_as_it_is(self):
        capture = self.folder / "cut.pcap"
        subprocess.run([PROGRAM, "trace", "convert", CAPTURE, capture,
                        "--begin=1s", "--end=1.3s", "--quiet"], check=True,
                       capture_output=True)
        self.run_quickly("packing", f"--trace={capture}", "--rate=own")
        rows = rows_of(self.out / "packing_runs.csv")
        self.assertEqual({row["traffic"] for row in rows}, {"own"})
        seen = json.loads(subprocess.run(
            [PROGRAM, "replay", capture, "--json=-", "--quiet"], check=True,
            capture_output=True).stdout)
        self.assertAlmostEqual(float(rows[0]["demand (bit/s)"]) /
                               seen["bit_rate_mean_bps"], 1, delta=0.001)

    def test_goes_without_matplotlib(self):
        module = self.folder / "matplotlib"
        module.mkdir()
        (module / "__init__.py").write_text("raise ImportError('not here')")
        self.share_runs()
        ran = self.run_quickly("packing", "--flags=--alpha=0.5", env={
            **os.environ, "PYTHONPATH": str(self.folder)})
        self.assertIn("tables only: not here", ran.stderr)
        self.assertIn("python3-matplotlib", ran.stderr)
        self.assertEqual({name.rsplit(".")[-1] for name in self.files()},
                         {"md", "csv"})
        self.assertNotIn(".png", (self.out / "packing.md").read_text())


class Provisioning(Case):
    def setUp(self):
        super().setUp()
        self.share_runs()

    def test_tells_of_each_mode_and_of_time(self):
        self.run_quickly("provisioning")
        means = rows_of(self.out / "provisioning.csv")
        self.assertEqual(len(means), 4 * 2)
        steps = rows_of(self.out / "provisioning_over_time.csv")
        for mean in means:
            mine = [row for row in steps
                    if row["mode"] == mean["mode"] and
                    row["load signal"] == mean["load signal"]]
            self.assertEqual(len(mine), 30)
            for name in ("demand (bit/s)", "provisioned (bit/s)"):
                over_time = sum(float(row[name]) for row in mine) / 30
                self.assertAlmostEqual(over_time / float(mean[name]), 1,
                                       delta=0.01)
        self.assertEqual(len(rows_of(self.out / "provisioning_findings.csv")),
                         5)

    @unittest.skipUnless(HAS_MATPLOTLIB, "needs matplotlib")
    def test_draws(self):
        self.run_quickly("provisioning")
        first = self.files()
        self.assertTrue(first["provisioning.png"].startswith(b"\x89PNG"))
        self.assertIn(b"vanilla_flow", first["provisioning.svg"])
        self.assertIn(b"(provisioning.png)", first["provisioning.md"])
        (self.out / "provisioning.svg").unlink()
        self.run_quickly("provisioning")
        self.assertEqual(self.files(), first)


class Counting(Case):
    def test_flowlets_and_flows_are_those_of_snf_but_for_icmp(self):
        capture = self.folder / "plain.pcap"
        subprocess.run([PROGRAM, "trace", "convert", CAPTURE, capture,
                        "--quiet"], check=True, capture_output=True)
        found = json.loads(subprocess.run(
            [sys.executable, SOURCE / "experiments/bounds.py", capture],
            check=True, capture_output=True).stdout)
        report = json.loads(subprocess.run(
            [PROGRAM, "replay", capture, "--json=-", "--quiet"], check=True,
            capture_output=True).stdout)
        self.assertEqual(found["packets"], report["packets_released"])
        for name in ("flows", "flowlets"):
            self.assertAlmostEqual(found[name], report[name], delta=2)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

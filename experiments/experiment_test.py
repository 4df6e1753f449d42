#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`./snf experiment` as a user meets it.

Usage: experiment_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import base64
import csv
import html
import html.parser
import importlib.util
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE = map(pathlib.Path, sys.argv[1:3])
OK, SOME_FAILED, USAGE, UNAVAILABLE, IO, INTERRUPTED = 0, 1, 2, 69, 74, 130
HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None
CAPTURE = SOURCE / "traces" / "small.pcap.zst"
CHROMIUM = shutil.which("chromium")
CAN_MAKE_TAPS = os.geteuid() == 0 and os.path.exists("/dev/net/tun")
sys.path.insert(0, str(SOURCE / "experiments"))
sys.dont_write_bytecode = True  # nothing beside the sources
from what_if import NOT_LIVE


def experiment(*arguments, snf=PROGRAM, **options):
    return subprocess.run(
        [sys.executable, SOURCE / "experiments/experiment.py", f"--snf={snf}",
         *map(str, arguments)],
        capture_output=True, text=True, timeout=1000, check=False, **options)


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file
                                   if not line.startswith("#")))


def is_timed(name):
    """Whether a finding may differ because the machine was slow."""
    file = SOURCE / "experiments/scenarios" / f"{name.replace('-', '_')}.py"
    return "is_timed=True" in file.read_text()


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
                         sorted(path.stem.replace("_", "-") for path in
                                (SOURCE / "experiments/scenarios").glob("*.py")))
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
                (USAGE, ["--vary", "sweep"], ["sweep"]),
                (USAGE, ["--vary", "sweep"], ["packing", "--vary=alpha=1"]),
                (USAGE, ["'alpha'"], ["sweep", "--vary=alpha"]),
                (USAGE, ["'speed'", "units"],
                 ["sweep", "--vary=alpha=1", "--goal=speed"]),
                (USAGE, ["--cache_gb=-1"], ["packing", "--cache_gb=-1"]),
                (USAGE, ["--jobs=0"], ["packing", "--jobs=0"]),
                (USAGE, ["--out: the value is empty"], ["packing", "--out="]),
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
                if re.match(r"[1-9]\d* of \d+ runs", line):
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
        rows = rows_of(self.out / "packing_runs.csv")
        settings = {row["load signal"] for row in rows
                    if row["policy"] == "snf"}
        self.assertEqual(len(rows), 2 * (3 * len(settings) + 2 + 5))
        self.assertEqual({row["load signal"] for row in rows} - settings, {""})
        for row in rows:
            if row["policy"] == "bound: each flow alone":
                self.assertGreater(float(row["latency p99 (s)"]), 0)
                continue
            demand = float(row["demand (bit/s)"])
            self.assertAlmostEqual(demand / 1e9, 1, delta=0.1)
            self.assertAlmostEqual(
                demand / float(row["provisioned (bit/s)"]),
                float(row["utilisation (share)"]), places=9)
        means = {(row["a unit (bit/s)"], row["policy"]): row
                 for row in rows_of(self.out / "packing.csv")}
        self.assertEqual(len(means), 2 * (5 + 5))
        one = {policy: float(row["mean (units)"])
               for (capacity, policy), row in means.items()
               if capacity == "1000000000" and row["mean (units)"]}
        self.assertLess(one["reference: first fit"],
                        one["reference: first fit, held"])
        self.assertLess(one["snf"], one["hash"])
        findings = rows_of(self.out / "packing_findings.csv")
        for words, count in (("utilisation", 2), ("dropped", 1)):
            self.assertEqual(len([row for row in findings
                                  if words in row["what"]]), count)
        self.assertGreater(len([row for row in findings
                                if "provisioned" in row["what"]]), 2)
        self.assertEqual({row["verdict"] for row in findings} -
                         {"reproduced", "better", "differs"}, set())

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
        self.assertEqual(len(rows), 2 * 5)  # the references went on
        self.assertNotIn("| reproduced |", text)

    def test_replaces_nothing_if_no_run_succeeds(self):
        self.share_runs()
        kept = self.out / "sweep.md"
        kept.write_text("good")
        ran = self.run_quickly("sweep", "--vary=alfa=1", code=SOME_FAILED)
        self.assertIn(f"no run succeeded, so nothing is written in {self.out}",
                      ran.stderr)
        self.assertIn("not expected: --alfa=1", ran.stderr)
        self.assertEqual(ran.stdout, "")
        self.assertEqual(kept.read_text(), "good")
        self.assertEqual([path.name for path in self.out.iterdir()
                          if path.is_file()], ["sweep.md"])

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
        self.assertEqual(len(means), 4 * 6)
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
        found = rows_of(self.out / "provisioning_findings.csv")
        for words, count in (("provisioned", 2), ("median", 2), ("95 %", 1),
                             ("smart_flow, decided", 1), ("chances", 1)):
            self.assertEqual(len([row for row in found
                                  if words in row["what"]]), count)

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


class Controllers(Case):
    def test_tells_of_each_controller_with_and_without_leases(self):
        self.share_runs()
        self.run_quickly("controllers")
        runs = rows_of(self.out / "controllers_runs.csv")
        self.assertEqual(len(runs), 3 * 2 * 2 + 2)
        for run in runs:
            count = int(run["controllers"])
            load = float(run["load (bit/s)"])
            self.assertAlmostEqual(load / count / 9.35e9, 1, delta=0.1)
            leased = float(run["leased (bit/s)"])
            units = float(run["units"]) * float(run["a unit (bit/s)"])
            self.assertLess(load, leased)
            self.assertLess(leased, units * 1.01)
            if run["leases"] == "independent":
                self.assertAlmostEqual(leased / units, 1, delta=0.01)
        over = rows_of(self.out / "controllers_by_controller.csv")
        self.assertEqual(len(over), 12 * 10 + 2 * 100)
        self.assertEqual(len(rows_of(self.out / "controllers_findings.csv")),
                         3 * 3 + 2)


class Everything(Case):
    def test_makes_a_page_of_all_and_repeats_what_is_not_timed(self):
        self.share_runs()
        ran = self.run_quickly("all", "--jobs=2")
        page = (self.out / "index.html").read_text()
        seen = Page(page)
        names = [line.split()[0] for line in
                 experiment("list").stdout.splitlines()]
        names.remove("live")  # it makes networks
        self.assertEqual(seen.sections, [*names, "verdicts", "missing"])
        self.assertEqual(seen.links, ["#" + name for name in seen.sections])
        self.assertEqual(seen.open, [])
        self.assertEqual(seen.outside, [])
        self.assertNotIn("a run failed", page)
        for name in names:
            self.assertIn(f"./snf experiment {name}", page)
            text = (self.out / f"{name}.md").read_text()
            self.assertEqual(re.findall(r"!\[.*\]\((.*)\)", text),
                             [f"{name}.png"] if HAS_MATPLOTLIB else [])
            if HAS_MATPLOTLIB:
                self.assertNotIn("mathdefault",
                                 (self.out / f"{name}.svg").read_text())
        drawn = names if HAS_MATPLOTLIB else []
        self.assertEqual(
            [image for _, image in seen.images],
            [(self.out / f"{name}.png").read_bytes() for name in drawn])
        self.assertTrue(all(alt for alt, _ in seen.images))
        self.assertIn("REPRODUCED", ran.stdout)
        self.check_verdicts(names, page)
        if CHROMIUM:
            self.check_in_a_browser(page)
        first = self.files()
        again = self.run_quickly("all")
        self.assertIn("kept from before", again.stderr)
        self.assertEqual(self.files(), first)

    def check_in_a_browser(self, page):
        """It is as wide as the screen, and a browser has no complaint."""
        for width in (1280, 400):
            around = self.folder / "around.html"
            around.write_text(
                f"<iframe id=page width={width} height=800 frameborder=0 "
                f"srcdoc=\"{html.escape(page)}\"></iframe><script>\n"
                "page.onload = () => { document.title = page.contentDocument."
                "documentElement.scrollWidth; }</script>")
            shown = subprocess.run(
                [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu",
                 "--enable-logging=stderr", "--window-size=1400,900",
                 "--dump-dom", f"--user-data-dir={self.folder}",
                 around.as_uri()],
                capture_output=True, text=True, timeout=100, check=True)
            found = re.search(r"<title>(\d+)</title>", shown.stdout)
            self.assertLessEqual(int(found[1]), width)
            self.assertGreater(int(found[1]), width - 30)
            self.assertNotIn("CONSOLE", shown.stderr)

    def check_verdicts(self, names, page):
        """All are in one table, and what differs has its cause."""
        all_of_them = rows_of(self.out / "verdicts.csv")
        findings = [{"experiment": name, **row} for name in names
                    for row in rows_of(self.out / f"{name}_findings.csv")]
        self.assertEqual(
            [list(row.values()) for row in all_of_them],
            [[row[key] for key in ("experiment", "what", "the source", "ours",
                                   "verdict")] for row in findings])
        for row in findings:
            if row["verdict"] == "differs" and not is_timed(row["experiment"]):
                self.assertTrue(row["why"], row)
        for text in (page, (self.out / "verdicts.md").read_text()):
            self.assertIn(f"{len(findings)} findings: ", text)
        for name in names:  # those that read captures tell of what kind
            traffic = self.out / f"{name}_traffic.csv"
            self.assertEqual(traffic.exists(), name != "controllers")

    def test_tells_of_runs_that_fail_and_goes_on(self):
        self.share_runs()
        ran = self.run_quickly("all", "--flags=--alpha=nonsense",
                               code=SOME_FAILED)
        self.assertIn("nonsense", ran.stderr)
        self.assertNotIn("Traceback", ran.stderr)
        page = (self.out / "index.html").read_text()
        self.assertIn("Runs that failed", page)
        self.assertIn("nonsense", page)
        self.assertEqual(Page(page).open, [])
        self.assertFalse((self.out / "latency.png").exists())

    def test_tells_that_a_disk_is_full(self):
        """A limit of the size of files is as a disk that is full."""
        ran = experiment("timeout", "--quick", f"--out={self.out}",
                         preexec_fn=lambda: resource.setrlimit(
                             resource.RLIMIT_FSIZE, (100, 100)))
        self.assertEqual(ran.returncode, IO, ran.stderr)
        self.assertEqual(ran.stderr.splitlines()[-1], "snf experiment: "
                         f"{self.out / 'cache'}: File too large")
        self.assertNotIn("Traceback", ran.stderr)
        self.assertEqual(list(self.out.glob("*.csv")), [])


class Page(html.parser.HTMLParser):
    """What is in a page, and which elements were not closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.sections, self.links = [], [], []
        self.outside, self.images = [], []
        self.feed(text)
        self.close()
        self.outside += re.findall(r"(?:https?:|url\(|@import)[^<]*", text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag not in ("meta", "img"):
            self.open.append(tag)
        if tag == "section":
            self.sections.append(attributes["id"])
        elif tag == "a":
            self.links.append(attributes["href"])
        elif tag == "img":
            kind, _, data = attributes["src"].partition(",")
            if kind != "data:image/png;base64":
                self.outside.append(attributes["src"])
            self.images.append((attributes["alt"], base64.b64decode(data)))
        elif tag in ("script", "link", "iframe"):
            self.outside.append(tag)

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()


class Sweeping(Case):
    def test_recommends_a_configuration_that_replay_takes(self):
        ran = self.run_quickly(
            "sweep", "--vary=latency_target=350us,2ms",
            "--vary=unit_capacity=500Mbps,1Gbps",
            "--goal=units at p99<=700us, dropped<=0",
            "--flags=--nf=nat "
            "--chaos='state_delay=0..9us state_duplicate=0.01'")
        self.assertIn("Recommended", ran.stdout)
        rows = rows_of(self.out / "sweep.csv")
        self.assertEqual(len(rows), 4)
        fit = [row for row in rows if float(row["latency p99 (s)"]) <= 7e-4]
        self.assertNotIn(len(fit), (0, 4))  # else this tells nothing
        self.assertNotIn(min(rows, key=lambda row: float(row["units"])), fit)
        best = min(fit, key=lambda row: float(row["units"]))
        chosen = rows_of(self.out / "sweep_recommended.csv")[0]
        for name in ("latency_target", "unit_capacity", "units"):
            self.assertEqual(chosen[name], best[name])
        config = self.out / "sweep_1Gbps.textproto"
        capture = next((self.out / "cache").glob("*/capture.pcap"))
        with open(f"{config}.flags", encoding="utf-8") as flags:
            report = json.loads(subprocess.run(  # as its first lines say
                ["xargs", PROGRAM, "replay", capture, f"--config={config}",
                 "--json=-", "--quiet"], check=True, stdin=flags,
                capture_output=True).stdout)
        self.assertEqual(report["flags"]["chaos"],
                         "state_delay=0..9us state_duplicate=0.01")
        self.assertAlmostEqual(report["units_used_mean"],
                               float(best["units"]), places=6)
        self.assertEqual(report["flags"]["latency_target"],
                         best["latency_target"])

    def test_flags_that_are_not_live_are_those_that_up_does_not_have(self):
        def flags_of(command):
            text = subprocess.run([PROGRAM, command, "--help"], check=True,
                                  capture_output=True, text=True).stdout
            return set(re.findall(r"^  --(\w+)", text, re.M)) | set(
                re.findall(r"^  --\w+, --(\w+)", text, re.M))
        self.assertEqual(flags_of("replay") - flags_of("up"), NOT_LIVE)

    @unittest.skipUnless(CAN_MAKE_TAPS, "needs root and /dev/net/tun")
    def test_recommends_a_configuration_that_up_takes(self):
        self.run_quickly(
            "sweep", "--vary=flowlet_timeout=100us,250us",
            "--vary=max_units=4,8", "--goal=units",
            "--flags=--nf=firewall --chaos='state_delay=0..9us'")
        chosen = rows_of(self.out / "sweep_recommended.csv")[0]
        config = self.out / "sweep_1Gbps.textproto"
        for suffix in ("flags", "up.flags"):  # all of them are warm
            self.assertIn(f"--warm_units={chosen['max_units']}",
                          pathlib.Path(f"{config}.{suffix}").read_text())
        daemon = [f"--name=sweep{os.getpid()}"]
        taps = [word for side in ("inside", "outside") for word in
                ("--port", f"{side}=tap:{side[:3]}{os.getpid()}")]
        with open(f"{config}.up.flags", encoding="utf-8") as flags:
            begun = subprocess.run(  # as its first lines say
                ["xargs", PROGRAM, "up", *daemon, *taps,
                 f"--config={config}"], stdin=flags, capture_output=True,
                text=True, timeout=60, check=False)
        self.assertEqual(begun.returncode, OK, begun.stderr)
        try:
            told = subprocess.run([PROGRAM, "set", *daemon], check=True,
                                  capture_output=True, text=True).stdout
        finally:
            subprocess.run([PROGRAM, "down", *daemon], check=True,
                           capture_output=True, timeout=60)
        settings = dict(line.split("=", 1) for line in told.splitlines())
        for setting in ("flowlet_timeout", "max_units"):
            self.assertEqual(settings[setting], chosen[setting])

    def test_says_that_nothing_meets_a_goal(self):
        self.run_quickly("sweep", "--vary=alpha=0,1", "--goal=units")
        config = self.out / "sweep_1Gbps.textproto"
        self.assertTrue(config.exists())
        ran = self.run_quickly("sweep", "--vary=alpha=0,1",
                               "--goal=units at p99<=1ns")
        self.assertIn("No setting meets", ran.stdout)
        self.assertFalse(config.exists())

    def test_shows_the_error_of_a_wrong_flag(self):
        ran = self.run_quickly("sweep", "--vary=nonesuch=1,2",
                               code=SOME_FAILED)
        self.assertIn("--nonesuch", ran.stderr)


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

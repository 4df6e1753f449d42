#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Running, keeping, failing and resuming, with a program that only pretends."""

import contextlib
import dataclasses
import errno
import io
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import page
import results
import runner
import scenario
from runner import CacheInUse, Progress, Runner
from scenario import (Column, Job, Lab, Made, Means, Missing, Out, Program,
                      Table)

# Writes a line for each call, and does what its arguments say.
PRETENDER = """#!{python}
import json, pathlib, sys, time
with open({calls!r}, "a") as calls:
    calls.write(" ".join(sys.argv[1:2]) + "\\n")
for word in sys.argv[2:]:
    name, _, value = word.partition("=")
    if name == "--write":
        pathlib.Path(value).write_text("made")
    elif name == "--read":
        pathlib.Path(value).read_text()
    elif name == "--fail":
        sys.exit("first line\\nit failed for " + value)
    elif name == "--print":
        sys.exit(print(value))
    elif name == "--wait":
        open(value, "w").write("here")  # until the other end is opened
        time.sleep(600)
print(json.dumps({{"name": sys.argv[1], "elapsed_s": time.time()}}))
"""

# Runs two jobs of which the second waits for ever, as a command would.
INTERRUPTED = """
import pathlib, sys
sys.path.insert(0, {here!r})
sys.dont_write_bytecode = True
import runner, scenario
made = runner.Runner(pathlib.Path({snf!r}), pathlib.Path({cache!r}), 1,
                     runner.Progress(sys.stderr))
made.run([scenario.Job("a", "snf", ("a",)),
          scenario.Job("b", "snf", ("b", "--wait={fifo}"))])
"""


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.calls_file = self.folder / "calls"
        self.snf = self.folder / "snf"
        self.write_program()
        self.said = io.StringIO()

    def write_program(self, more=""):
        self.snf.write_text(PRETENDER.format(
            python=sys.executable, calls=str(self.calls_file)) + more)
        self.snf.chmod(0o755)

    def run_jobs(self, *jobs, at_once=2):
        made = Runner(self.snf, self.folder / "cache", at_once,
                      Progress(self.said))
        with contextlib.closing(made):
            return made.run(jobs), {job.name: text
                                    for job, text in made.failures}

    def calls(self):
        """Calls since the last time, by first argument."""
        text = self.calls_file.read_text() if self.calls_file.exists() else ""
        self.calls_file.unlink(missing_ok=True)
        return sorted(text.split())

    def leftovers(self):
        return list((self.folder / "cache").glob("*.partial"))


def job(name, *arguments, program="snf"):
    return Job(name, program, (name, *arguments))


class Running(Case):
    def test_runs_a_job_once_and_keeps_its_outcome(self):
        first, failures = self.run_jobs(job("a"), job("b"), job("a"))
        self.assertEqual(failures, {})
        self.assertEqual(self.calls(), ["a", "b"])
        again, _ = self.run_jobs(job("a"), job("b"))
        self.assertEqual(self.calls(), [])
        self.assertEqual(again, first)
        self.assertEqual(again[job("a")].figures, {"name": "a"})
        self.assertIn("2 of 2 runs, 2 kept from before", self.said.getvalue())

    def test_runs_again_what_depends_on_something_that_changed(self):
        capture = self.folder / "capture"
        capture.write_text("one")
        reads = Job("reads", "snf", ("reads", capture))
        flagged = job("flagged", "--seed=1")
        self.run_jobs(reads, flagged)
        self.calls()
        capture.write_text("two")
        self.run_jobs(reads, flagged)
        self.assertEqual(self.calls(), ["reads"])
        self.run_jobs(reads, job("flagged", "--seed=2"))
        self.assertEqual(self.calls(), ["flagged"])
        self.write_program("# another version\n")
        self.run_jobs(reads, flagged)
        self.assertEqual(self.calls(), ["flagged", "reads"])

    def test_names_snf_to_scripts_and_what_they_import_counts(self):
        beside = self.folder / "beside.py"
        beside.write_text("VALUE = 1\n")
        script = self.folder / "script.py"
        script.write_text("import json, sys\nfrom beside import VALUE\n"
                          "print(json.dumps({'snf': sys.argv[1], "
                          "'value': VALUE}))\n")
        asks = Job("asks", str(script), (Program(),))
        outcomes, failures = self.run_jobs(asks)
        self.assertEqual(failures, {})
        self.assertEqual(outcomes[asks].figures,
                         {"snf": str(self.snf), "value": 1})
        for change, figure, value in (
                (lambda: beside.write_text("VALUE = 2\n"), "value", 2),
                (lambda: self.write_program("# another version\n"), "snf",
                 str(self.snf))):
            before = outcomes[asks].folder
            change()
            outcomes, failures = self.run_jobs(asks)
            self.assertEqual(failures, {})
            self.assertEqual(outcomes[asks].figures[figure], value)
            self.assertNotEqual(outcomes[asks].folder, before)

    def test_runs_a_job_whose_file_another_reads_before_it(self):
        maker = job("maker", Out("--write=", "file"))
        reader = job("reader", Made(maker, "file"))
        reads = Job("reads", "snf", ("reads", Made(maker, "file")))
        outcomes, failures = self.run_jobs(reads, reader)
        self.assertEqual(failures, {})
        self.assertEqual(self.calls(), ["maker", "reader", "reads"])
        self.assertEqual((outcomes[maker].folder / "file").read_text(), "made")

    def test_what_is_made_by_other_flags_is_another_file(self):
        def reader(seed):
            maker = job("maker", f"--seed={seed}", Out("--write=", "file"))
            return job("reader", Made(maker, "file"))
        self.run_jobs(reader(1))
        self.calls()
        self.run_jobs(reader(2))
        self.assertEqual(self.calls(), ["maker", "reader"])

    def test_goes_on_when_a_job_fails_and_says_why(self):
        fails = job("fails", Out("--write=", "file"), "--fail=want of memory")
        needs = job("needs", Made(fails, "file"))
        outcomes, failures = self.run_jobs(fails, needs, job("good"))
        self.assertEqual(failures, {
            "fails": "exit code 1: first line\nit failed for want of memory",
            "needs": "not run: it needs fails"})
        self.assertEqual(list(outcomes), [job("good")])
        with self.assertRaises(Missing):
            outcomes[needs]
        self.assertIn("failed: fails: exit code 1", self.said.getvalue())
        self.assertEqual(self.leftovers(), [])
        self.calls()
        self.run_jobs(fails, job("good"))  # it is tried again
        self.assertEqual(self.calls(), ["fails"])

    def test_takes_no_nonsense_for_figures(self):
        for text in ("no json", "[1]", ""):
            _, failures = self.run_jobs(job("says", f"--print={text}"))
            self.assertIn("no JSON object", failures["says"])

    def test_tells_of_a_program_and_of_a_file_that_are_not_there(self):
        gone = Job("gone", "snf", (pathlib.Path("/nonesuch/capture"),))
        _, failures = self.run_jobs(gone, job("x", program="nonesuch.py"))
        self.assertIn("/nonesuch/capture: No such file", failures["gone"])
        self.assertIn("nonesuch.py: No such file", failures["x"])

    def test_ends_a_job_that_takes_too_long(self):
        longest, runner.LONGEST_S = runner.LONGEST_S, 0.2
        try:
            fifo = self.folder / "fifo"
            os.mkfifo(fifo)
            _, failures = self.run_jobs(job("slow", f"--wait={fifo}"))
        finally:
            runner.LONGEST_S = longest
        self.assertEqual(failures, {"slow": "took longer than 0.2 s"})
        self.assertEqual(self.leftovers(), [])

    def test_ends_what_a_job_has_started_with_it(self):
        longest, runner.LONGEST_S = runner.LONGEST_S, 0.5
        child = self.folder / "child"
        self.snf.write_text(f"""#!{sys.executable}
import pathlib, subprocess
child = subprocess.Popen(["sleep", "600"])
pathlib.Path({str(child)!r}).write_text(str(child.pid))
child.wait()
""")
        try:
            _, failures = self.run_jobs(job("slow"))
        finally:
            runner.LONGEST_S = longest
        self.assertEqual(failures, {"slow": "took longer than 0.5 s"})
        status = pathlib.Path(f"/proc/{child.read_text()}/stat")
        for _ in range(500):  # until its parent has taken note
            if not status.exists() or ") Z " in status.read_text():
                break
            time.sleep(0.02)
        else:
            self.fail("its child is still there")

    def test_makes_anew_what_is_broken_or_was_left_unfinished(self):
        outcomes, _ = self.run_jobs(job("a"))
        self.calls()
        folder = outcomes[job("a")].folder
        for text in ("", "{}", "[]"):
            (folder / "figures.json").write_text(text)
            again, _ = self.run_jobs(job("a"))
            self.assertEqual(again, outcomes)
            self.assertEqual(self.calls(), ["a"])
        folder.rename(folder.with_suffix(".partial"))
        self.run_jobs(job("a"))
        self.assertEqual(self.calls(), ["a"])
        self.assertEqual(self.leftovers(), [])

    def test_runs_alone_what_is_timed(self):
        """Its end is written before another's begin, and the other way."""
        log = self.folder / "log"
        self.snf.write_text(f"""#!{sys.executable}
import sys, time
with open({str(log)!r}, "a") as log:
    print("begin", sys.argv[1], file=log, flush=True)
    time.sleep(0.05)
    print("end", sys.argv[1], file=log, flush=True)
print("{{}}")
""")
        timed = [Job(name, "snf", (name,), is_timed=True) for name in "tu"]
        needs = Job("n", "snf", ("n", Made(timed[0], "figures.json")))
        _, failures = self.run_jobs(*timed, job("a"), job("b"), needs,
                                    at_once=4)
        self.assertEqual(failures, {})
        running = set()
        for line in log.read_text().splitlines():
            what, name = line.split()
            if what == "end":
                running.remove(name)
                continue
            running.add(name)
            self.assertFalse(len(running) > 1 and running & set("tu"), running)

    def test_forgets_what_was_used_longest_ago(self):
        jobs = [job(name) for name in "abcd"]
        outcomes, _ = self.run_jobs(*jobs)
        for age, each in enumerate(jobs):
            os.utime(outcomes[each].folder, (1000 - age, 1000 - age))
        size = runner.size_of(outcomes[jobs[0]].folder)
        made = Runner(self.snf, self.folder / "cache", 1, Progress(self.said))
        with contextlib.closing(made):
            made.run([job("d")])  # the oldest is used again
            self.assertEqual(made.prune(10 * size), 0)
            self.assertEqual(made.prune(2 * size + size // 2), 2)
            self.assertTrue(outcomes[job("a")].folder.exists())
            self.assertFalse(outcomes[job("b")].folder.exists())
            made.prune(0)
            self.assertTrue(outcomes[job("d")].folder.exists())
            self.assertFalse(outcomes[job("a")].folder.exists())
        self.run_jobs(job("e"))
        for age, name in enumerate("ed"):
            os.utime(self.run_jobs(job(name))[0][job(name)].folder,
                     (1000 - age, 1000 - age))
        self.run_jobs(job("d"))  # what is used again becomes the youngest
        made = Runner(self.snf, self.folder / "cache", 1, Progress(self.said))
        with contextlib.closing(made):
            self.assertEqual(made.prune(size + size // 2), 1)
            self.assertTrue(outcomes[job("d")].folder.exists())

    def test_ends_at_once_when_a_job_finds_no_room(self):
        full = job("full", "--fail=x.pcap: No space left on device")
        with self.assertRaises(OSError) as caught:
            self.run_jobs(full, job("after"), at_once=1)
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        self.assertEqual(caught.exception.filename, str(self.folder / "cache"))
        self.assertEqual(self.calls(), ["full"])
        self.assertEqual(self.leftovers(), [])

    def test_goes_on_when_a_job_may_not_write_elsewhere(self):
        for text in ("Read-only file system", "File too large"):
            with self.subTest(text):
                bad = job("bad", f"--fail=/elsewhere/x.pcap: {text}")
                _, failures = self.run_jobs(bad, job(f"after{len(text)}"))
                self.assertIn(text, failures["bad"])
                self.assertIn(f"after{len(text)}", self.calls())
                own = job("own", f"--fail={self.folder}/cache/x/y: {text}")
                with self.assertRaises(OSError):
                    self.run_jobs(own, at_once=1)

    def test_ends_at_once_when_there_is_no_room(self):
        original = pathlib.Path.mkdir

        def full(path, *arguments, **options):
            if path.suffix == ".partial":
                raise OSError(errno.ENOSPC, "No space left on device", path)
            return original(path, *arguments, **options)
        pathlib.Path.mkdir = full
        try:
            with self.assertRaises(OSError) as caught:
                self.run_jobs(job("a"), job("b"))
        finally:
            pathlib.Path.mkdir = original
        self.assertIn("No space left", runner.what_of(caught.exception))
        self.assertEqual(self.calls(), [])
        self.run_jobs(job("a"))
        self.assertEqual(self.calls(), ["a"])

    def test_a_file_of_another_job_can_be_a_flags_value(self):
        maker = job("maker", Out("--write=", "file"))
        reader = job("reader", Made(maker, "file", "--fail="))
        outcomes, failures = self.run_jobs(maker, reader)
        self.assertIn(f"it failed for {outcomes[maker].folder / 'file'}",
                      failures["reader"])

    def test_refuses_a_cache_that_another_writes_to(self):
        with contextlib.closing(Runner(self.snf, self.folder / "cache", 1,
                                       Progress(self.said))):
            with self.assertRaises(CacheInUse):
                self.run_jobs(job("a"))
        self.run_jobs(job("a"))

    def test_goes_on_where_it_was_interrupted(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        script = INTERRUPTED.format(
            here=str(pathlib.Path(__file__).resolve().parent),
            snf=str(self.snf), cache=str(self.folder / "cache"),
            fifo=str(fifo))
        process = subprocess.Popen([sys.executable, "-c", script],
                                   stderr=subprocess.PIPE, text=True)
        with open(fifo, encoding="ascii") as there:
            there.read(1)  # job b has begun
            self.assertEqual(self.calls(), ["a", "b"])
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            # Job b ends, too: its end of the pipe is closed.
            there.read()
        self.assertIn("KeyboardInterrupt", errors)
        self.assertEqual(self.leftovers(), [])
        outcomes, _ = self.run_jobs(job("a"), job("c"))
        self.assertEqual(self.calls(), ["c"])
        self.assertEqual(len(outcomes), 2)


class TellingProgress(unittest.TestCase):
    def test_counts_what_is_left_by_what_it_costs(self):
        progress = Progress(io.StringIO())
        jobs = [Job(str(cost), "snf", (str(cost),), cost)
                for cost in (1, 3, 4)]
        progress.begin(jobs)
        self.assertIsNone(progress.left_s())
        progress.end(jobs[2], was_kept=True)
        self.assertIsNone(progress.left_s())  # what was kept took no time
        progress.start -= 10
        progress.end(jobs[0], was_kept=False)
        self.assertAlmostEqual(progress.left_s(), 30, delta=3)
        progress.fail(jobs[1], "why")
        self.assertEqual(progress.left_s(), 0)


class TheLab(unittest.TestCase):
    def test_flags_of_the_command_line_replace_those_of_the_scenario(self):
        lab = Lab(flags=scenario.extra_flags("--alpha=1 --nf='nat | nat'"))
        capture = lab.composed("1Gbps", "1s", 1)
        made = lab.replay("x", capture, "--alpha=0", "--seed=2")
        self.assertEqual(made.arguments,
                         ("replay", capture, "--seed=2", "--alpha=1",
                          "--nf=nat | nat", "--json=-", "--quiet"))

    def test_refuses_flags_that_it_needs_itself_and_what_is_none(self):
        for text in ("alpha=1", "--json=x", "--alpha=1 --csv=x", "'--a"):
            with self.assertRaises(ValueError):
                scenario.extra_flags(text)

    def test_names_few_captures(self):
        def source(count):
            return Lab(traces=tuple(pathlib.Path(f"/x/{i}.pcap")
                                    for i in range(count))).source
        self.assertEqual(source(1), "0.pcap")
        self.assertEqual(source(3), "0.pcap+1.pcap+2.pcap")
        self.assertEqual(source(4), "4 captures, 0.pcap … 3.pcap")

    def test_reads_rates(self):
        self.assertEqual(scenario.bits_per_second("1.5Gbps"), 1.5e9)
        self.assertEqual(scenario.bits_per_second("200Mbit/s"), 2e8)
        self.assertEqual(scenario.bits_per_second("7bps"), 7)
        for text in ("", "1", "1G", "Gbps", "0Gbps", "-1Gbps", "1 Gbps"):
            with self.assertRaises(ValueError):
                scenario.bits_per_second(text)

    def test_knows_the_seeds_of_what_it_runs(self):
        lab = Lab()
        self.assertEqual(scenario.seeds_of(
            [lab.replay("x", lab.composed("1Gbps", "1s", seed))
             for seed in (3, 1)]), ["1", "3"])


class Judging(unittest.TestCase):
    def test_within_a_tenth_is_the_same(self):
        for ours, better, expected in (
                (110, "lower", scenario.REPRODUCED),
                (90, "higher", scenario.REPRODUCED),
                (111, "lower", scenario.DIFFERS),
                (111, "higher", scenario.BETTER),
                (89, "lower", scenario.BETTER),
                (89, "higher", scenario.DIFFERS)):
            self.assertEqual(scenario.verdict(ours, 100, better), expected)

    def test_means_are_over_the_seeds_of_the_same_case(self):
        columns = (Column("rate"), Column("seed"), Column("units"),
                   Column("p99"))
        means = Means(columns, [("1", 1, 2.0, 5), ("1", 2, 4.0, None),
                                ("2", 1, 7.0, 1)], 1)
        self.assertEqual(means["1",], {"rate": "1", "seed": "2", "units": 3,
                                       "p99": None})
        self.assertEqual(means.get(("2",), "units"), 7)
        self.assertNotEqual(means.get(("3",), "units"),
                            means.get(("3",), "units"))  # NaN
        with self.assertRaises(Missing):
            means["3",]

    def test_intervals_are_of_95_percent(self):
        for values, half in (
                ([3.0], None), ([3.0, 3.0], 0),
                # Student's t by its tables: 12.706, 4.303 and 2.262.
                ([1.0, 2.0], 12.706 / 2), ([1.0, 2.0, 3.0], 4.303 / 3 ** 0.5),
                ([0.0, 2.0] * 5, 2.262 / 3)):
            found = scenario.half_interval(values)
            if half is None:
                self.assertIsNone(found)
            else:
                self.assertAlmostEqual(found, half, places=6)

    def test_means_have_their_intervals_beside_them(self):
        means = Means((Column("rate"), Column("seed", is_detail=True),
                       Column("p99", "s")),
                      [("1", 1, 1.0), ("1", 2, 2.0), ("2", 1, 7.0),
                       ("3", 1, 1.0), ("3", 2, None)], 1)
        self.assertAlmostEqual(means.half(("1",), "p99"), 6.353)
        for rate in ("2", "3", "4"):
            self.assertTrue(math.isnan(means.half((rate,), "p99")))
        table = means.table("x", "title", lambda row: row[0] != "2")
        self.assertEqual([column.name for column in table.columns],
                         ["rate", "seeds", "p99", "p99 ±"])
        self.assertEqual([row[:3] for row in table.rows],
                         [("1", "2", 1.5), ("3", "2", None)])
        self.assertAlmostEqual(table.rows[0][3], 6.353)
        self.assertIsNone(table.rows[1][3])

    def test_a_latency_of_which_packets_are_lost_is_no_whole_one(self):
        means = Means((Column("rate"), Column("seed"), Column("lost", "share")),
                      [("1", 1, 0.001), ("2", 1, 0.0011), ("3", 1, None)], 1)
        self.assertEqual([means.is_whole((rate,)) for rate in "1234"],
                         [True, False, True, True])

    def test_a_finding_whose_run_failed_says_so(self):
        found = scenario.Findings("title")

        def finding():
            raise Missing("the run")
        found.add("what", "source", "expected", finding)
        self.assertEqual(found.table.rows[0][2:],
                         ("the run", "expected", scenario.FAILED, ""))

    def test_losses_are_not_what_an_nf_does_not_let_through(self):
        outcome = scenario.Outcome({"packets_dropped": {
            "unit_queue_full": 3, "nf:denied": 5, "no_mapping": 7,
            "not_translated": 4}},
            pathlib.Path())
        self.assertEqual(scenario.dropped(outcome), 3)
        self.assertEqual(scenario.dropped_by_nf(outcome), 16)


class Writing(unittest.TestCase):
    def test_cells_are_as_people_read_them(self):
        for value, unit, text in (
                (2.73e9, "bit/s", "2.73 Gbit/s"), (0.000402, "s", "402 µs"),
                (0.00112, "s", "1.12 ms"), (9.999e-4, "s", "1.00 ms"),
                (0, "s", "0 s"), (0.5, "share", "50.0 %"), (None, "s", "–"),
                (2.469, "units", "2.47"), (12345.6, "packets", "12,346"),
                (3.0, "", "3"), ("text", "s", "text"),
                (64.6e9, "bit/s", "64.6 Gbit/s"), (15, "bit/s", "15.0 bit/s")):
            self.assertEqual(results.cell(value, unit), text)

    def test_tables_keep_all_digits_and_say_where_they_come_from(self):
        table = Table("", "title", (Column("NF"), Column("rate", "bit/s")),
                      [("a | b, c", 1 / 3), ("d", None)])
        self.assertEqual(results.csv_table(table, {"seeds": "1"}),
                         '# seeds: 1\nNF,rate (bit/s)\n"a | b, c",'
                         "0.3333333333333333\nd,\n")
        self.assertEqual(results.markdown_table(table),
                         "| NF | rate |\n| --- | ---: |\n"
                         "| a \\| b, c | 0.33 bit/s |\n| d | – |\n")

    def test_people_read_an_interval_beside_its_mean(self):
        p99 = Column("latency p99", "s")
        table = Table("", "title", (
            Column("mode"), p99, dataclasses.replace(
                p99, name="latency p99 ±", is_interval=True),
            Column("lost", "share")),
            [("a", 1e-4, 2e-5, 0.0), ("b", 3e-4, None, 0.5)])
        note = "† More than 0.1 % of the packets were lost: the latency is " \
            "that of the others.\n"
        self.assertEqual(results.markdown_table(table),
                         "| mode | latency p99 | lost |\n"
                         "| --- | ---: | ---: |\n"
                         "| a | 100 µs ± 20.0 µs | 0.0 % |\n"
                         "| b | 300 µs † | 50.0 % |\n\n" + note)
        self.assertEqual(results.text_table(table),
                         "mode  latency p99  lost\na     100 µs       0.0 %\n"
                         "b     300 µs †     50.0 %\n" + note)
        self.assertIn('<td class="n">100 µs ± 20.0 µs</td>',
                      page.table_html(table))
        self.assertEqual(page.table_html(table).count("<td"), 6)
        self.assertEqual(results.csv_table(table, {}).splitlines()[1:],
                         ["a,0.0001,2e-05,0.0", "b,0.0003,,0.5"])

    def test_a_paragraph_says_what_came_out(self):
        def section(name, *verdicts):
            found = scenario.Findings("title")
            for verdict in verdicts:
                found.add("what", "source", "expected",
                          lambda verdict=verdict: ("ours", verdict))
            return page.Section(name, None, scenario.Report([found.table]), {},
                                None)
        text = page.summary([
            section("good", scenario.REPRODUCED, scenario.BETTER),
            section("mixed", scenario.REPRODUCED, scenario.DIFFERS),
            section("bad", scenario.DIFFERS, scenario.DIFFERS,
                    scenario.NOT_RUN), section("none")])
        for part in ("4 experiments", "7 findings: 2 reproduced, 1 better, "
                     "3 differs, 1 not run", "All findings hold in good.",
                     "What differs is in bad (2 of 3), mixed (1 of 2);",
                     "1 in bad."):
            self.assertIn(part, text)
        self.assertNotIn("failed", text)

    def test_a_terminal_is_spared_the_details(self):
        table = Table("", "title", (Column("NF"), Column("x", is_detail=True),
                                    Column("rate", "bit/s")),
                      [("nat", 1, 1e9)])
        self.assertEqual(results.text_table(table),
                         "NF   rate\nnat  1.00 Gbit/s\n")


if __name__ == "__main__":
    unittest.main()

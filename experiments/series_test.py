#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Units over time from hand-made files, and what scenarios judge by."""

import pathlib
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import page
import series
import traffic
from scenario import (BETTER, DIFFERS, NOT_RUN, REPRODUCED, Findings, Job, Made,
                      Means, Missing, Outcome, Outcomes)
from runner import NOT_RUN as NOT_RUN_FOR
from scenarios import chaining, packing, provisioning
from series import UpTime

GBPS = 1e9


class UnitsOverTime(unittest.TestCase):
    TIMES = [UpTime(0, 0.0, 0.3), UpTime(1, 0.05, 0.1), UpTime(1, 0.15, 9.0)]

    def test_are_means_within_the_time_asked_for(self):
        self.assertAlmostEqual(series.units_between(self.TIMES, 0, 0.2),
                               (0.2 + 0.05 + 0.05) / 0.2)
        self.assertAlmostEqual(series.units_between(self.TIMES, 1, 2), 1)
        self.assertEqual(series.units_between(self.TIMES, 10, 11), 0)

    def test_come_step_by_step_until_the_last_packet(self):
        found = series.units_over_time(self.TIMES, 0.299, 0.1)
        for ours, expected in zip(found, (1.5, 1.5, 2.0), strict=True):
            self.assertAlmostEqual(ours, expected)


class Traffic(unittest.TestCase):
    @staticmethod
    def made(name, flag=""):
        return Made(Job(name, "snf", (name,)), "capture.pcap", flag)

    def test_is_told_of_each_kind_once(self):
        one = self.made("x at 1Gbps, seed 1")
        like = Job("like", "snf", (self.made("x, as it is", "--like="),))
        jobs = [Job("a", "snf", ("replay", one)),
                Job("b", "snf", ("replay", self.made("x at 1Gbps, seed 2"))),
                Job("c", "snf", ("replay", Made(like, "made.pcap"))),
                Job("d", "snf", ("read", Made(one.job, "else.csv")))]
        self.assertEqual(traffic.captures_of(jobs), {
            "x at 1Gbps": one, "x, as it is": self.made("x, as it is"),
            "like": Made(like, "made.pcap")})

    def test_has_its_figures_beside_those_published(self):
        jobs = [Job("a", "snf", ("replay", self.made("x, seed 1"))),
                Job("b", "snf", ("replay", self.made("failed")))]
        info, failed = traffic.info_jobs(jobs)
        flowlets = [{"timeout_ns": 100_000, "bytes": None, "per_flow": 5.0},
                    {"timeout_ns": 100_000, "bytes": 15000, "per_flow": 9.0},
                    {"timeout_ns": 500_000, "bytes": None, "per_flow": 4.0}]
        outcomes = Outcomes({info: Outcome({"captures": [{
            "packets": 7, "flows": {"connection": 3},
            "rate": {"mean_bps": 2e9}, "packet_bytes": {"p50": 60},
            "flow_bytes": {"p50": 120, "percentiles": [1, 10_000, 10_001, 9]},
            "gap_ns": {"p50": 4000}, "flowlets": flowlets}]}, None)})
        self.assertEqual(traffic.table(jobs, outcomes).rows, [
            ("x", 7, 3, 2e9, 60, 120, 0.25, 4e-6, 5.0, 4.0),
            traffic.PUBLISHED])
        self.assertIsNone(traffic.table(jobs, Outcomes()))


class APage(unittest.TestCase):
    def test_names_the_runs_that_failed_but_not_those_that_needed_them(self):
        text = page.html([], [(Job("one", "snf", ()), "exit code 1: <no>"),
                              (Job("second", "snf", ()), NOT_RUN_FOR + "one")],
                         "./snf experiment all")
        self.assertIn("<li>one: <code>exit code 1: &lt;no&gt;</code>", text)
        self.assertNotIn("second", text)

    def test_names_the_cells_of_findings_for_narrow_screens(self):
        findings = Findings("found")
        findings.add("it", "5 µs", "less", lambda: ("<4 µs", REPRODUCED))
        text = page.table_html(findings.table)
        self.assertEqual(re.findall(r'data-name="([^"]+)"', text),
                         ["what", "the source", "ours", "expected", "verdict",
                          "why"])
        self.assertIn('data-name="ours">&lt;4 µs</td>', text)
        self.assertIn('<span class="v ok">reproduced</span>', text)
        self.assertIn("attr(data-name)", page.STYLE)


class OfFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_utilisation_is_of_the_time_that_a_unit_was_up(self):
        (self.folder / "units.csv").write_text(
            "unit,up_s,down_s,packets,bytes\n"
            "0,0.050000000,0.250000000,1,1\n1,0.150000000,0.160000000,0,0\n")
        # Unit 0 works at 80 % for 10 ms of the first step, and for half of
        # 10 ms, in which it was up for a half, of the last one.
        (self.folder / "unit_series.csv").write_text(
            "start_s,unit,up,utilisation,packets,p50_s,p99_s\n"
            "0.090000000,0,1.0000,0.8000,1,0.1,0.1\n"
            "0.200000000,0,0.5000,0.5000,0,,\n")
        found = series.utilisations(self.folder, 0.22)
        for ours, expected in zip(found, (0, 0, 0.0025 / 0.02, 0.008 / 0.05),
                                  strict=True):
            self.assertAlmostEqual(ours, expected)

    def test_demand_of_a_last_step_has_its_own_length(self):
        def demand(duration_ns):
            return Outcome({"demand_bytes": [1000, 3000, 2000],
                            "step_ns": 10_000_000,
                            "duration_ns": duration_ns}, self.folder)
        # 32,000 bits in 20 ms, and 16,000 in 10 ms, or half of these 20.
        self.assertEqual(
            provisioning.rates_over_time(demand(30_000_000), 0.02),
            [1.6e6, 1.6e6])
        self.assertEqual(
            provisioning.rates_over_time(demand(29_000_000), 0.02), [1.6e6])

    def test_quantiles_are_those_of_the_report(self):
        (self.folder / "series").mkdir()
        (self.folder / "series" / "latency.csv").write_text(
            "quantile,latency_ns\n0.00000,5\n0.50000,1000\n0.75000,2000\n"
            "0.99000,3000\n")
        self.assertEqual([series.latency_quantile(self.folder / "series", share)
                          for share in (0.5, 0.75, 0.99)], [1e-6, 2e-6, 3e-6])


class Signals(unittest.TestCase):
    def means(self, **modes):
        """Of (provisioned, p99, dropped) by wait, demand and drained; other
        signals are worse."""
        names = [column.name for column in provisioning.COLUMNS]
        rows = []
        for mode, found in modes.items():
            found = dict(zip(("wait", "demand", "drained"), found))
            for signal in provisioning.SIGNALS:
                units, p99, dropped = found.get(signal, (9, 1, 2))
                row = dict.fromkeys(names, 0)
                row.update({"traffic": "1Gbps", "load signal": signal,
                            "mode": mode.replace("_X_", " "),
                            "provisioned": units, "latency p99": p99,
                            "overloaded": dropped, "a unit's, p50": 1 / units, "dropped": dropped,
                            "p99, each flow alone": 1e-4})
                rows.append(tuple(row.values()))
        return Means(provisioning.COLUMNS, rows, 3)

    def best(self, *found):
        return provisioning.best_signal(self.means(snf=found), "1Gbps", "snf",
                                        4e-4)

    def test_the_best_has_the_fewest_units_that_do_not_make_packets_late(self):
        worst = (9, 1, 2)
        self.assertEqual(self.best(worst, (3, 1e-4, 0), (2, 3e-4, 0)),
                         "drained")
        self.assertEqual(self.best(worst, (3, 1e-4, 0), (2, 5e-4, 0)),
                         "demand")
        self.assertEqual(self.best(worst, (3, 6e-4, 0), (9, 5e-4, 0)),
                         "drained")
        self.assertEqual(self.best(worst, (3, 6e-4, 0), (2, 1e-4, 1)),
                         "demand")
        self.assertEqual(self.best((3, 2e-4, 0), (3, 6e-4, 0), (2, 1e-4, 1)),
                         "wait")

    def test_modes_are_compared_at_the_same_latency(self):
        late = {"smart_flow_X_50_X_ms": [(1, 9e-4, 0)],
                "smart_flow_X_100_X_ms": [(1, 9e-4, 0)]}
        for expected, vanilla in ((REPRODUCED, (2, 5e-4, 0)),
                                  (REPRODUCED, (2, 3e-4, 1)),
                                  (REPRODUCED, (4, 3e-4, 0)),
                                  (DIFFERS, (2, 3e-4, 0))):
            means = self.means(snf=[(3, 4e-4, 0)], vanilla_flow=[vanilla],
                               **late)
            for finding in (provisioning.provisions_least,
                            provisioning.packs_units):
                with self.subTest(finding=finding, vanilla=vanilla):
                    text, verdict = finding(means, "1Gbps", 4e-4)
                    self.assertEqual(verdict, expected, text)
        none = self.means(snf=[(1, 9e-4, 0)], vanilla_flow=[(4, 9e-4, 0)],
                          **late)
        self.assertEqual(provisioning.provisions_least(none, "1Gbps",
                                                       4e-4)[1], DIFFERS)

    def test_the_order_of_overloads_is_none_if_nothing_is_overloaded(self):
        others = {f"smart_flow_X_{period}_X_ms": [(3, 1e-4, 1)]
                  for period in (50, 100)}
        for ours, vanilla, expected in ((0, 2, REPRODUCED), (1, 1, DIFFERS),
                                        (2, 2, DIFFERS), (0, 0, DIFFERS)):
            means = self.means(snf=[(3, 1e-4, ours)],
                               vanilla_flow=[(3, 1e-4, vanilla)], **others)
            self.assertEqual(provisioning.rarely_overloads(
                means, "1Gbps", "wait")[1], expected)



def packing_row(policy, **cells):
    row = dict.fromkeys((column.name for column in packing.RUN_COLUMNS), 0)
    row.update({"traffic": "1Gbps", "a unit": GBPS, "policy": policy,
                "load signal": packing.DEFAULT, **cells})
    return tuple(row.values())


def packing_means(rows):
    return Means(packing.RUN_COLUMNS, rows, 4)


class Verdicts(unittest.TestCase):
    def packs(self, used, p99, fit, alone=1e-4):
        references = packing.REFERENCES
        return packing.packs(packing_means([
            packing_row("snf", **{"utilisation": used, "latency p99": p99}),
            packing_row(references["first_fit"], utilisation=fit),
            packing_row(references["pooled"], utilisation=0.5),
            packing_row(references["alone"], **{"latency p99": alone})]),
            "1Gbps", GBPS)[1]

    def test_packing_is_judged_at_a_bounded_latency(self):
        self.assertEqual(self.packs(0.54, 4e-4, 0.6), REPRODUCED)
        self.assertEqual(self.packs(0.53, 4e-4, 0.6), DIFFERS)
        self.assertEqual(self.packs(0.7, 4e-4, 0.6), BETTER)
        self.assertEqual(self.packs(0.7, 4.1e-4, 0.6), DIFFERS)

    def test_no_latency_is_asked_for_that_no_placement_has(self):
        self.assertEqual(self.packs(0.7, 4.9e-4, 0.6, alone=4e-4), BETTER)
        self.assertEqual(self.packs(0.7, 5.1e-4, 0.6, alone=4e-4), DIFFERS)

    def beats(self, limit, **policies):
        """Each has (provisioned, p99, dropped) by default and by demand; other
        settings are worse."""
        rows = []
        for policy, found in policies.items():
            found = dict(zip((packing.DEFAULT, "demand"), found))
            for setting in packing.SETTINGS:
                provisioned, p99, dropped = found.get(setting, (99, 1.0, 0))
                rows.append(packing_row(policy, **{
                    "load signal": setting, "provisioned": provisioned,
                    "latency p99": p99, "dropped": dropped}))
        return packing.beats_flows(packing_means(rows), "1Gbps", GBPS, limit)

    def test_policies_are_compared_at_the_same_latency(self):
        late = [(3, 2e-3, 0), (4, 3e-3, 0)]
        ours = [(5, 4e-4, 0), (3, 9e-4, 0)]
        text, verdict = self.beats(1e-3, snf=ours, smart_flow=late,
                                   vanilla_flow=[(2, 1e-4, 1), (6, 9e-4, 0)])
        self.assertEqual(verdict, REPRODUCED)
        self.assertIn("snf 3.00 bit/s (demand: p99 900 µs)", text)
        self.assertIn("smart_flow none (lowest p99 2.00 ms)", text)
        self.assertIn("vanilla_flow 6.00 bit/s (demand", text)
        for verdict, limit, theirs in ((DIFFERS, 5e-4, [(4, 5e-4, 0)]),
                                       (REPRODUCED, 5e-4, [(6, 5e-4, 0)]),
                                       (DIFFERS, 1e-3, [(2, 1e-3, 0)]),
                                       (DIFFERS, 1e-4, [(9, 1e-4, 0)]),
                                       (DIFFERS, 1e-4, [(9, 1e-3, 0)])):
            with self.subTest(theirs=theirs, limit=limit):
                self.assertEqual(self.beats(
                    limit, snf=ours, smart_flow=late,
                    vanilla_flow=theirs)[1], verdict)

    def test_nothing_was_lost_only_if_something_ran(self):
        def row(policy, dropped, **cells):
            return packing_row(policy, dropped=dropped, **cells)
        with self.assertRaises(Missing):
            packing.loses_nothing([row("hash", 1)])
        self.assertEqual(packing.loses_nothing(
            [row("snf", 0), row("snf", 4, **{"load signal": "demand"}),
             row("hash", 2), row("hash", 3)]), ("hash 5", REPRODUCED))
        self.assertEqual(packing.loses_nothing([row("snf", 2)]),
                         ("snf 2", DIFFERS))


class Chains(unittest.TestCase):
    def verdict(self, first, last, unrest=1.0):
        rows = [(length, rate, rate / unrest, 1 / rate, 0)
                for length, rate in zip(chaining.LENGTHS,
                                        [first] * 7 + [last])]
        return chaining.costs_little(rows)[1]

    def test_are_not_judged_on_a_busy_machine(self):
        self.assertEqual(self.verdict(2e6, 1e6), REPRODUCED)
        self.assertEqual(self.verdict(2.1e6, 1e6), DIFFERS)
        self.assertEqual(self.verdict(2e6, 1e6, 1.2), REPRODUCED)
        self.assertEqual(self.verdict(2e6, 1e6, 1.4), NOT_RUN)
        with self.assertRaises(Missing):
            chaining.costs_little([])


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tables as they are written are read again, and what is none is refused."""

import importlib.util
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import results
import snf_results
from scenario import Column, Means, Table

HAS_PANDAS = importlib.util.find_spec("pandas") is not None


class Reading(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "table.csv"

    def write(self, text):
        self.file.write_text(text, encoding="utf-8")
        return self.file

    def test_a_table_comes_back_with_where_it_comes_from(self):
        means = Means((Column("mode"), Column("seed"), Column("p99", "s")),
                      [("a, \"b\"\nc", 1, 1e-4), ("a, \"b\"\nc", 2, 3e-4),
                       ("d", 1, None)], 1)
        self.write(results.csv_table(means.table("", "title"),
                                     {"seeds": "1, 2", "machine": "2 × x: y"}))
        rows, origin = snf_results.table(self.file)
        self.assertEqual(origin, {"seeds": "1, 2", "machine": "2 × x: y"})
        self.assertEqual(
            [list(row) for row in rows],
            2 * [["mode", "seeds", "p99 (s)", "p99 ± (s)"]])
        self.assertEqual(rows[0]["mode"], "a, \"b\"\nc")
        self.assertEqual(rows[0]["seeds"], 2)
        self.assertAlmostEqual(rows[0]["p99 (s)"], 2e-4)
        # Of two values that are 2e-4 apart: t(1) · s / √2 = 12.706e-4.
        self.assertAlmostEqual(rows[0]["p99 ± (s)"], 12.706e-4, places=9)
        self.assertEqual(rows[1], {"mode": "d", "seeds": 1, "p99 (s)": None,
                                   "p99 ± (s)": None})

    def test_cells_are_numbers_where_they_are(self):
        for text, value in (("3", 3), ("-0.5", -0.5), ("1e-9", 1e-9),
                            ("1Gbps", "1Gbps"), ("", None), ("nat", "nat"),
                            ("nan", "nan"), ("inf", "inf"),
                            ("1_000", "1_000"), ("0x1", "0x1"),
                            ("1.5e+20", 1.5e20)):
            self.assertEqual(snf_results.value_of(text), value)

    def test_what_is_no_table_is_refused_with_its_line(self):
        for text, where in (("", ":1: no names"), ("# seeds: 1\n", ":2: no names"),
                            ("# seeds\na\n", ":1: no '# NAME"),
                            ("a,a\n1,2\n", ":1: no names"),
                            ("# x: 1\na,b\n1,2\n3\n", ":4: 1 cells in 2")):
            with self.assertRaises(ValueError) as raised:
                snf_results.table(self.write(text))
            self.assertIn(f"{self.file}{where}", str(raised.exception))

    def test_a_report_has_dotted_names(self):
        self.write('{"latency_ns": {"p99": 5}, "flags": {"nf": "nat"}, "a": []}')
        self.assertEqual(snf_results.report(self.file),
                         {"latency_ns.p99": 5, "flags.nf": "nat", "a": []})
        with self.assertRaises(ValueError):
            snf_results.report(self.write("[]"))

    @unittest.skipUnless(HAS_PANDAS, "there is no pandas")
    def test_pandas_gets_a_frame(self):
        table = Table("", "title", (Column("rate", "bit/s"),), [(1e9,), (2e9,)])
        self.write(results.csv_table(table, {"seeds": "1"}))
        frame = snf_results.frame(self.file)
        self.assertEqual(frame["rate (bit/s)"].sum(), 3e9)
        self.assertEqual(frame.attrs, {"seeds": "1"})


if __name__ == "__main__":
    unittest.main()

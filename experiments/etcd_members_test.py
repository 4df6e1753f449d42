#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What etcd_members.py makes of what it has seen, without an etcd."""

import contextlib
import io
import sys
import unittest
from unittest import mock

sys.dont_write_bytecode = True  # nothing beside the sources
import etcd_members

METRICS = """\
# TYPE grpc_server_msg_received_total counter
grpc_server_msg_received_total{grpc_method="Range",grpc_service="etcdserverpb.\
KV",grpc_type="unary"} 120
grpc_server_msg_received_total{grpc_method="LeaseKeepAlive",grpc_service="etcd\
serverpb.Lease",grpc_type="bidi_stream"} 1.2e+03
grpc_server_msg_received_total{grpc_method="Watch",grpc_service="etcdserverpb.\
Watch",grpc_type="bidi_stream"} 7
grpc_server_msg_received_total{grpc_method="Snapshot",grpc_service="x",\
grpc_type="unary"} 0
grpc_server_msg_sent_total{grpc_method="Txn",grpc_service="etcdserverpb.KV",\
grpc_type="unary"} 5
"""


class EtcdMembersTest(unittest.TestCase):
    def test_reads_requests_by_method(self):
        self.assertEqual(etcd_members.requests_of(METRICS),
                         {"Range": 120, "LeaseKeepAlive": 1200})
        self.assertEqual(etcd_members.difference(
            {"Range": 120, "Txn": 3, "Compact": 1},
            {"Range": 100, "Compact": 1}), {"Range": 20, "Txn": 3})

    def test_finds_the_busiest_second(self):
        samples = [(0.0, 0), (0.5, 10), (1.0, 20), (1.5, 120), (2.0, 220),
                   (3.0, 230)]
        self.assertEqual(etcd_members.busiest_second(samples), 200)
        # Shorter than a second.
        self.assertEqual(etcd_members.busiest_second([(5.0, 0), (5.5, 30)]), 60)
        self.assertEqual(etcd_members.busiest_second([(5.0, 3)]), 0)

    def test_a_quantile_is_one_of_the_values(self):
        values = [float(value) for value in range(100, 0, -1)]
        for share, value in ((0.5, 50), (0.99, 99), (1, 100), (0.001, 1)):
            self.assertEqual(etcd_members.quantile(values, share), value)
        self.assertEqual(etcd_members.quantile([3.0], 0.99), 3)

    def test_a_spread_is_of_all_changes_and_watchers(self):
        told = [{"a": 1.0, "b": 5.0}, {"a": 1.25, "b": 7.0}]
        self.assertEqual(
            etcd_members.spread(told, ["a", "b"]),
            {"pairs": 4, "p50_ms": 0, "p99_ms": 2000, "max_ms": 2000,
             "within_1s": 0.75})
        self.assertEqual(
            etcd_members.spread(told, ["a"], {"a": 0.5}),
            {"pairs": 2, "p50_ms": 500, "p99_ms": 750, "max_ms": 750,
             "within_1s": 1})

    def test_a_watcher_that_was_not_told_is_an_error(self):
        with self.assertRaisesRegex(etcd_members.CannotMeasure,
                                    "b: 1 of 2 watchers"):
            etcd_members.spread([{"a": 1.0, "b": 2.0}, {"a": 1.0}], ["a", "b"])

    def test_reads_lines_of_the_list(self):
        for line, change in (
                ('{"joined":{"name":"m1","units":8}}', ("joined", "m1")),
                ('{"left":{"name":"m1"}}', ("left", "m1")), ("{}", None)):
            self.assertEqual(etcd_members.change_of(line), change)

    def test_skips_with_a_word_without_etcd(self):
        out = io.StringIO()
        with mock.patch.object(etcd_members.shutil, "which",
                               return_value=None), \
                contextlib.redirect_stdout(out):
            self.assertEqual(etcd_members.main(["snf"]), etcd_members.SKIPPED)
        self.assertEqual(out.getvalue(), "skipped: needs etcd, of the Debian "
                         "package etcd-server\n")

    def test_refuses_words_that_mean_nothing(self):
        for words in ([], ["snf", "--members=0"], ["snf", "--members=x"],
                      ["snf", "--watchers=101"]):
            with self.assertRaises(SystemExit), \
                    contextlib.redirect_stderr(io.StringIO()):
                etcd_members.parse(words)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf replay --controllers` as a user meets it.

Usage: controllers_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import json
import os
import pathlib
import struct
import sys
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import USAGE, Command, pcap, run, udp_frame


class Controllers(Command):
    def setUp(self):
        super().setUp()
        # 600 packets of 50 flows in 60 ms.
        self.many = self.file("many.pcap", pcap(
            [(1 + i / 10_000, udp_frame(5000 + i % 50)) for i in range(600)]))

    def test_releases_what_a_single_one_does(self):
        one = self.report(self.many, "--nf=chronicle")
        self.assertNotIn("leases", one)
        for n in (2, 5):
            for leases in ("shared", "independent"):
                many = self.report(self.many, "--nf=chronicle",
                                   f"--controllers={n}", f"--leases={leases}")
                self.assertEqual(many["packets_released"], 600)
                self.assertEqual(many["digest"], one["digest"])
                self.assertEqual(many["violations"], 0)
                self.assertEqual(many["leases"]["controllers"], n)
                self.assertEqual(many["leases"]["overcommitted"], 0)
                units = many["leases"]["units_up_max"]
                self.assertEqual(units, n if leases == "independent" else 1)

    def test_goes_on_whoever_comes_and_goes(self):
        one = self.report(self.many, "--nf=chronicle")
        many = self.report(
            self.many, "--nf=chronicle", "--controllers=3",
            "--faults=add controller at 20ms; remove controller 1 at 40ms")
        self.assertEqual(many["digest"], one["digest"])
        self.assertEqual(many["violations"], 0)
        self.assertEqual(many["leases"]["joined"], 1)
        self.assertEqual(many["leases"]["left"], 1)
        self.assertGreater(many["leases"]["flows_moved"], 0)

    def test_goes_on_after_a_failure(self):
        report = self.report(
            self.many, "--nf=chronicle", "--controllers=3", "--loggers=on",
            "--faults=kill controller 1 at 30ms; kill controller p=0.001")
        faults = report["controller_faults"]
        self.assertGreater(faults["kills"], 0)
        self.assertEqual(report["violations"], 0)
        self.assertEqual(report["packets_released"] + faults["packets_lost"],
                         600)

    def test_counts_each_packet_in_a_shared_table_once(self):
        def hosts(report):
            return {row["host"]: row for row in report["nf_reports"]
                    ["monitor.Top talkers"]}

        chain = "--nf=firewall | monitor | chronicle"
        one = hosts(self.report(self.many, chain))
        for flags in (
                ["--controllers=1", "--loggers=on", "--faults=kill any p=0"],
                ["--controllers=3"],
                ["--controllers=3", "--loggers=on", "--faults="
                 "add controller at 20ms; remove controller 1 at 40ms"],
                ["--controllers=3", "--clock=real", "--threads=2"],
                ["--controllers=4", "--clock=real", "--speed=max",
                 "--leases=independent"],
                ["--controllers=3", "--clock=real", "--loggers=on",
                 "--threads=1", "--faults=kill resource_manager at 10ms"]):
            with self.subTest(flags=flags):
                report = self.report(self.many, chain, *flags)
                self.assertEqual(hosts(report), one)
                self.assertEqual(report["violations"], 0)
        # The papers' chain.
        def inside(i):
            frame = udp_frame(5000 + i)
            return frame[:26] + bytes([10, 0, 0, 1 + i % 7]) + frame[30:]

        inside_out = self.file("inside.pcap", pcap(
            [(1 + i / 10_000, inside(i % 50)) for i in range(600)]))
        chain = "--nf=firewall | monitor | nat(ip=203.0.113.7)"
        one = hosts(self.report(inside_out, chain))
        self.assertEqual(len(one), 8)
        for flags in (["--controllers=3"],
                      ["--controllers=2", "--clock=real", "--threads=1"],
                      ["--controllers=4", "--clock=real", "--speed=max"]):
            with self.subTest(chain=chain, flags=flags):
                report = self.report(inside_out, chain, *flags)
                self.assertEqual(hosts(report), one)
                self.assertEqual(report["packets_released"], 600)
                self.assertEqual(report["violations"], 0)
        report = self.report(
            self.many, chain, "--controllers=3", "--loggers=on",
            "--faults=kill controller 1 at 30ms; kill controller p=0.001")
        self.assertGreater(report["controller_faults"]["kills"], 0)
        self.assertEqual(
            sum(row["packets_sent"] for row in hosts(report).values()),
            report["packets_released"])

    def test_limits_what_all_controllers_let_pass(self):
        def syn(i):
            tcp = struct.pack(">HHIIBBHHH", 5000 + i, 80, i, 0, 0x50, 2,
                              8192, 0, 0)
            ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40, 1, 0, 64, 6, 0,
                             bytes([203, 0, 113, i % 250]),
                             bytes([10, 0, 0, 1]))
            return bytes(12) + b"\x08\x00" + ip + tcp

        # A SYN every 10 ms, of 200 clients, to one server.
        flood = self.file("flood.pcap", pcap(
            [(1 + i / 100, syn(i)) for i in range(200)]))
        guard = ["--nf=syn_guard:limit=20", "--table_period=1ms",
                 "--flow_timeout=60s"]
        for controllers in (2, 4):
            report = self.report(flood, f"--controllers={controllers}", *guard)
            self.assertEqual(report["violations"], 0)
            released = report["packets_released"]
            self.assertGreaterEqual(released, 20)
            # proto/protocol.md T8: in 3 ms a single SYN comes. A table of
            # each controller would let 20 pass at each of them.
            self.assertLessEqual(released, 20 + 4)
        report = self.report(flood, "--controllers=2", "--clock=real",
                             "--threads=1", *guard)
        self.assertEqual(report["violations"], 0)
        dropped = report["packets_dropped"]
        self.assertEqual(
            report["packets_released"] + sum(dropped.values()), 200)
        self.assertGreaterEqual(report["packets_released"], 20)

    def test_goes_on_without_a_resource_manager(self):
        one = self.report(self.many, "--nf=chronicle")
        many = self.report(
            self.many, "--nf=chronicle", "--controllers=3",
            "--faults=kill resource_manager at 30ms")
        self.assertEqual(many["digest"], one["digest"])
        self.assertEqual(many["violations"], 0)
        self.assertEqual(many["leases"]["managers_failed"], 1)
        self.assertEqual(many["leases"]["managers_recovered"], 1)
        self.assertEqual(many["leases"]["overpromised"], 0)

    def test_shares_units_in_real_time(self):
        one = self.report(self.many, "--nf=chronicle")
        for n in (2, 5):
            many = self.report(self.many, "--nf=chronicle", "--clock=real",
                               "--speed=max", f"--controllers={n}",
                               "--threads=1")
            self.assertEqual(many["digest"], one["digest"])
            self.assertEqual(many["violations"], 0)
            self.assertGreaterEqual(many["leases"]["grants"], n)

    def test_units_show_their_states_to_those_of_their_controller(self):
        one = self.report(self.many, "--nf=chronicle")
        for leases in ("shared", "independent"):
            with self.subTest(leases):
                many = self.report(
                    self.many, "--nf=chronicle", "--clock=real",
                    "--controllers=3", "--threads=2", f"--leases={leases}",
                    "--policy=rotate", "--flowlet_timeout=100us",
                    "--host_state")
                self.assertEqual(many["digest"], one["digest"])
                self.assertEqual(many["violations"], 0)
                self.assertEqual(many["state_pushes"], 0)
                self.assertGreater(many["host_records"]["shown"], 0)

    def test_goes_on_without_a_resource_manager_in_real_time(self):
        one = self.report(self.many, "--nf=chronicle")
        many = self.report(
            self.many, "--nf=chronicle", "--clock=real", "--controllers=3",
            "--threads=1", "--faults=kill resource_manager at 1ms; "
            "kill resource_manager p=0.01")
        self.assertEqual(many["digest"], one["digest"])
        self.assertEqual(many["violations"], 0)
        self.assertGreater(many["leases"]["managers_failed"], 0)
        self.assertEqual(many["leases"]["gone"], 0)

    def test_goes_on_when_controllers_fail_in_real_time(self):
        for leases, more in (("shared", ()), ("independent", ()),
                             ("shared", ("--host_state",))):
            with self.subTest(leases, more=more):
                usage = pathlib.Path(self.folder.name, f"used_{leases}{len(more)}.jsonl")
                many = self.report(
                    self.many, "--nf=chronicle", "--clock=real",
                    "--controllers=3", "--threads=1", f"--leases={leases}",
                    "--loggers=on", "--usage", usage, *more,
                    "--faults=kill controller 1 at 10ms; "
                    "kill controller p=0.01")
                faults = many["controller_faults"]
                self.assertEqual(many["violations"], 0)
                self.assertGreater(faults["kills"], 0)
                dropped = many["packets_dropped"]
                self.assertEqual(dropped["controller_failed"],
                                 faults["packets_lost"])
                self.assertEqual(
                    many["packets_released"] + sum(dropped.values()), 600)
                rows = [json.loads(line)
                        for line in usage.read_text().splitlines()]
                self.assertEqual(sum(row["packets"] for row in rows),
                                 many["packets_released"])

    def test_tells_of_units_as_a_run_of_one_does(self):
        report = self.report(self.many, "--controllers=3",
                             "--unit_capacity=5Mbps")
        self.assertGreater(report["utilisation"]["p99"], 0.5)
        folder = os.path.join(self.folder.name, "figures")
        self.report(self.many, "--controllers=3", "--csv", folder)
        rows = pathlib.Path(folder, "bandwidth.csv").read_text().splitlines()
        self.assertGreater(len(rows), 1)
        text = run("replay", self.many, "--controllers=2").stdout.decode()
        self.assertIn("provisioned bandwidth per 100 ms", text)
        self.assertIn("of the capacity provisioned", text)

    def test_measures_own_units_in_real_time_and_no_shared_ones(self):
        real = (self.many, "--clock=real", "--controllers=2", "--speed=2x",
                "--unit_capacity=5Mbps")
        measured = ("units_used_mean", "capacity_used", "utilisation")
        folder = os.path.join(self.folder.name, "real")

        def rows():
            text = pathlib.Path(folder, "bandwidth.csv").read_text()
            return [line.split(",") for line in text.splitlines()[1:]]
        own = self.report(*real, "--leases=independent", "--csv", folder)
        for key in measured:
            self.assertIsNotNone(own[key])
        self.assertGreater(own["capacity_used"], 0)
        self.assertLessEqual(own["units_used_mean"], own["units_used_max"])
        self.assertGreater(sum(float(row[4]) for row in rows()), 0)
        shared = self.report(*real, "--csv", folder)
        self.assertIsNone(shared["units_used_mean"])
        self.assertIsNone(shared["capacity_used"])
        self.assertEqual(shared["utilisation"], {"p50": None, "p99": None})
        self.assertGreater(sum(int(row[2]) for row in rows()), 0)
        self.assertEqual({tuple(row[3:5]) for row in rows()}, {("", "")})
        text = run("replay", *real).stdout.decode()
        self.assertNotIn("Utilisation", text)
        self.assertNotIn("rovisioned", text)

    def test_releases_in_real_time_what_virtual_time_does(self):
        one = self.report(self.many, "--nf=chronicle")
        for n in (2, 8):
            for flags in (("--speed=max",), ("--speed=4x",),
                          ("--speed=max", "--threads=2"),
                          ("--speed=max", "--unit_capacity=none")):
                with self.subTest(n, flags=flags):
                    many = self.report(
                        self.many, "--nf=chronicle", "--clock=real",
                        f"--controllers={n}", "--leases=independent", *flags)
                    self.assertEqual(many["packets_released"], 600)
                    self.assertEqual(many["digest"], one["digest"])
                    each = many["leases"]["by_controller"]
                    self.assertEqual(sum(c["packets"] for c in each), 600)
                    self.assertEqual(len(each), n)

    def test_translates_in_real_time_by_blocks_of_ports(self):
        hosts = [(1 + i / 10_000, udp_frame(5000 + i % 50)) for i in range(400)]
        file = self.file("hosts.pcap", pcap(hosts))
        nat = "--nf=nat:ip=203.0.113.9"
        one = self.report(file, nat)
        many = self.report(file, nat, "--controllers=8", "--clock=real",
                           "--speed=max", "--leases=independent")
        self.assertEqual(many["packets_released"], 400)
        self.assertEqual(many["leases"]["foreign_aliases"], 0)
        self.assertEqual(many["digest_up_to_renaming"],
                         one["digest_up_to_renaming"])

    def test_tells_of_each_controller(self):
        report = self.report(self.many, "--controllers=3")
        each = report["leases"]["by_controller"]
        self.assertEqual(sum(c["packets"] for c in each), 600)
        self.assertEqual(sum(c["grants"] for c in each),
                         report["leases"]["grants"])
        for one in each:
            self.assertGreater(one["share_max"], 0)

    def test_repeats_itself(self):
        flags = (self.many, "--controllers=3", "--unit_capacity=2Mbps")
        one, again = [self.report(*flags) for _ in range(2)]
        for report in (one, again):
            del report["elapsed_s"]
        self.assertEqual(one, again)

    def test_translates_by_blocks_of_ports(self):
        hosts = [(1 + i / 10_000, udp_frame(5000 + i % 50)) for i in range(400)]
        file = self.file("hosts.pcap", pcap(hosts))
        nat = ("--nf=nat:ip=203.0.113.9", "--controllers=4")
        report = self.report(file, *nat)
        self.assertEqual(report["packets_released"], 400)
        self.assertEqual(report["leases"]["foreign_aliases"], 0)
        self.refused(USAGE, ["--controllers=60", "pieces"], "replay", file,
                     "--nf=nat:ip=203.0.113.9,ports=1024-2047",
                     "--controllers=60", "--quiet")

    def test_tells_what_was_used_by_all(self):
        used = []
        real = ("--clock=real", "--speed=max")
        for n, flags in ((1, ()), (3, ()), (1, real),
                         (3, (*real, "--leases=independent"))):
            usage = pathlib.Path(self.folder.name, f"usage{n}.jsonl")
            self.report(self.many, "--usage", usage, f"--controllers={n}",
                        *flags)
            rows = [json.loads(line) for line in usage.read_text().splitlines()]
            used.append([sum(row[key] for row in rows) for key in
                         ("packets", "bytes", "processing_ns")])
        for one in used:
            self.assertEqual(one, used[0])
        self.assertEqual(used[0][0], 600)

    def test_writes_what_all_released(self):
        out = os.path.join(self.folder.name, "out.pcap")
        report = self.report(self.many, "--controllers=3", "--out", out)
        self.assertEqual(self.report(out)["digest"], report["digest"])

    def test_tells_of_leases(self):
        done = run("replay", self.many, "--controllers=2")
        text = done.stdout.decode()
        self.assertIn("that leased units", text)
        self.assertIn("grants of shares", text)

    def test_refuses_what_cannot_be(self):
        for words, flags in (
                (["--leases", "--controllers"], ["--leases=shared"]),
                (["--controllers", "0"], ["--controllers=0"]),
                (["--controllers", "65"], ["--controllers=65"]),
                (["--leases", "--max_units", "65535"],
                 ["--leases=independent", "--controllers=2",
                  "--max_units=40000"]),
                (["--faults", "--controllers", "several controllers"],
                 ["--faults=kill unit 1 at 1ms", "--controllers=2",
                  "--loggers=on"]),
                (["--faults", "--controllers", "single"],
                 ["--faults=add controller at 1ms"]),
                (["--faults", "--loggers"],
                 ["--faults=kill controller at 1ms", "--controllers=2"]),
                (["--faults", "--controllers", "controller 3", "is 2"],
                 ["--faults=remove controller 3 at 1ms; add controller at 2ms",
                  "--controllers=2"]),
                (["--faults", "--controllers", "64"],
                 ["--faults=add controller at 1ms", "--controllers=64"]),
                (["--compare", "--controllers"],
                 ["--compare=hash", "--controllers=2"]),
                (["--faults", "--leases", "resource manager"],
                 ["--controllers=2", "--clock=real", "--leases=independent",
                  "--faults=kill resource_manager at 1ms"]),
                (["--faults", "--clock", "joins"],
                 ["--controllers=2", "--clock=real",
                  "--faults=add controller at 1ms"]),
                (["--faults", "--controllers", "resource manager"],
                 ["--faults=kill resource_manager at 1ms"]),
                (["--chaos", "--controllers"], ["--chaos=lease_loss=0.1"]),
                (["--faults", "--controllers", "controller 2", "is 1"],
                 ["--controllers=2", "--clock=real", "--loggers=on",
                  "--faults=kill controller 2 at 1ms"]),
                (["--faults", "--loggers"],
                 ["--controllers=2", "--clock=real",
                  "--faults=kill controller 1 at 1ms"]),
                (["--out", "--controllers"],
                 ["--controllers=2", "--clock=real", "--leases=independent",
                  "--out=x.pcap"]),
                (["--controllers=64", "shared tables", "65535", "128000"],
                 ["--controllers=64", "--max_units=2000", "--nf=monitor",
                  "--quiet"]),
                (["--controllers=64", "shared tables", "65535", "128000"],
                 ["--controllers=64", "--max_units=2000", "--nf=syn_guard",
                  "--clock=real", "--quiet"])):
            with self.subTest(flags=flags):
                self.refused(USAGE, words, "replay", self.many, *flags)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

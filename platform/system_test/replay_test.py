#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf replay` in virtual time as a user meets it: what it prints and writes.

Usage: replay_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import csv
import gzip
import json
import os
import pathlib
import shlex
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import (BAD_DATA, OK, PROGRAM, SOURCE, USAGE, Command, pcap,
                          run, udp_frame)


class Replay(Command):
    def test_passes_through_and_counts_packets_that_are_no_ip(self):
        arp = bytes(12) + b"\x08\x06" + bytes(28)
        report = self.report(self.file("arp.pcap", pcap([(1, arp), (2, arp)])))
        self.assertEqual(report["packets_passed_through"], 2)
        self.assertEqual(report["packets_released"], 0)
        self.assertEqual(report["flows"], 0)

    def test_reads_stdin_and_writes_stdout(self):
        data = pathlib.Path(self.good).read_bytes()
        done = run("replay", "-", "--out", "-", "--quiet", stdin=data)
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        again = self.report("-", stdin=done.stdout)
        self.assertEqual(again["packets_in"], 30)
        self.assertEqual(again["digest"], self.report(self.good)["digest"])

    def test_writes_what_it_released(self):
        out = os.path.join(self.folder.name, "out.pcap.gz")
        report = self.report(self.good, "--out", out)
        again = self.report(out)
        self.assertEqual(report["packets_released"], again["packets_in"])
        self.assertEqual(report["digest"], again["digest"])
        self.refused(USAGE, ["out.pcap.gz", "--force"], "replay", self.good,
                     "--out", out)
        self.report(self.good, "--out", out, "--force")

    def test_merges_files_by_time(self):
        early = self.file("a.pcap", pcap([(1, udp_frame()), (5, udp_frame())]))
        late = self.file("b.pcap", pcap([(3, udp_frame(6000))]))
        report = self.report(late, early)
        self.assertEqual(report["packets_in"], 3)
        self.assertEqual(report["late_packets"], 0)
        self.assertEqual(report["duration_s"], 4)

    def test_a_gap_of_years_is_like_one_of_a_second(self):
        def packets(gap):
            return pcap([(100 + gap * i, udp_frame()) for i in range(100)])
        years = self.report(self.file("years.pcap", packets(20_000_000)))
        seconds = self.report(self.file("seconds.pcap", packets(400)))
        for key in ("flows", "flowlets", "decisions", "packets_released"):
            self.assertEqual(years[key], seconds[key], key)
        self.assertLess(years["elapsed_s"], seconds["elapsed_s"] + 1)

    def test_says_how_to_sort_a_capture_whose_times_start_again(self):
        frames = [(1 + i / 100, udp_frame()) for i in range(40)]
        twice = self.file("twice.pcap", pcap(frames + frames))
        report = self.report(twice)
        self.assertEqual(report["late_packets"], 39)
        text = run("replay", twice).stdout.decode()
        self.assertIn("snf trace convert --sort", " ".join(text.split()))
        done = run("trace", "convert", "--sort", twice,
                   os.path.join(self.folder.name, "sorted.pcap"))
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        report = self.report(os.path.join(self.folder.name, "sorted.pcap"))
        self.assertEqual(report["late_packets"], 0)
        self.assertEqual(report["packets_in"], 80)

    def test_takes_a_stray_first_time_for_that_of_the_next_packet(self):
        frames = [(1 + i / 100, udp_frame()) for i in range(40)]
        stray = self.file("stray.pcap", pcap([(86400, udp_frame())] + frames))
        report = self.report(stray)
        self.assertEqual(report["late_packets"], 0)
        self.assertAlmostEqual(report["duration_s"], 0.39)
        text = " ".join(run("replay", stray).stdout.decode().split())
        self.assertIn("1 stray time, first packet 1:", text)

    def test_several_controllers_replay_a_gap_of_years_at_once(self):
        years = self.file("years.pcap", pcap(
            [(1, udp_frame()), (1.001, udp_frame()), (4e9, udp_frame())]))
        for nf in ("passthrough", "nat(ip=198.51.100.7)"):
            report = self.report(years, "--nf", nf, "--controllers=3")
            self.assertEqual(report["packets_released"], 3)

    def test_drops_what_a_barrier_cannot_read_but_for_unreadable_pass(self):
        hidden = bytes(12) + b"\x92\x00\x00\x00" + udp_frame()[12:]
        path = self.file("hidden.pcap", pcap([(1, hidden)]))
        deny = ["--nf", "firewall:default=deny"]
        report = self.report(path, *deny)
        self.assertEqual(report["packets_dropped"]["type_unknown"], 1)
        for flags in ([*deny, "--unreadable=pass"], ["--nf", "monitor"]):
            self.assertEqual(self.report(path, *flags)["packets_passed_through"],
                             1)
        report = self.report(path, "--nf", "monitor", "--unreadable=drop")
        self.assertEqual(report["packets_dropped"]["type_unknown"], 1)

    def test_logs_every_decision(self):
        plain = self.report(self.good)
        table = os.path.join(self.folder.name, "decisions.csv.gz")
        lines = os.path.join(self.folder.name, "decisions.jsonl")
        for path in (table, lines):
            report = self.report(self.good, "--decisions", path)
            self.assertEqual(report["digest"], plain["digest"])
        with gzip.open(table, "rt", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), plain["decisions"])
        self.assertEqual({row["reason"] for row in rows}, {"room"})
        for row, line in zip(rows, pathlib.Path(lines).read_text().splitlines(),
                             strict=True):
            logged = json.loads(line)
            self.assertEqual(logged["flow"], row["flow"])
            self.assertEqual(logged["unit"], int(row["unit"]))

    def test_tells_what_was_used(self):
        usage = pathlib.Path(self.folder.name, "usage.jsonl")
        capture = SOURCE / "traces" / "small.pcap.zst"
        flags = (capture, "--unit_capacity=250Mbps")
        report = self.report(*flags, "--usage", usage)
        self.assertEqual(report["digest"], self.report(*flags)["digest"])
        self.assertGreater(report["flowlets_moved"], 100)
        rows = [json.loads(line) for line in usage.read_text().splitlines()]
        self.assertEqual({row["chain"] for row in rows}, {"passthrough"})
        self.assertEqual([row["epoch"] for row in rows],
                         sorted({row["epoch"] for row in rows}))
        self.assertEqual(sum(report["packets_dropped"].values()), 0)
        self.assertEqual(sum(row["packets"] for row in rows),
                         report["packets_in"] -
                         report["packets_passed_through"])
        # A byte takes 32 ns.
        used = sum(row["bytes"] for row in rows)
        self.assertEqual(sum(row["processing_ns"] for row in rows), 32 * used)
        self.assertLess(used, report["bytes_in"])
        self.assertGreater(used, 0.99 * report["bytes_in"])

    def test_writes_series_of_single_units(self):
        folder = pathlib.Path(self.folder.name, "series")
        capture = SOURCE / "traces" / "small.pcap.zst"
        flags = (capture, "--unit_capacity=300Mbps")
        report = self.report(*flags, "--csv", folder)
        self.assertEqual(report["digest"], self.report(*flags)["digest"])

        def rows(name):
            with open(folder / name, encoding="ascii", newline="") as file:
                return list(csv.DictReader(file))
        times, steps = rows("units.csv"), rows("unit_series.csv")
        self.assertEqual(sum(int(row["packets"]) for row in times),
                         report["packets_released"])
        self.assertEqual(sum(int(row["packets"]) for row in steps),
                         report["packets_released"])
        # The mean is over all of the time: so many units of 300 Mbit/s, of
        # which so much was used, had the capture's rate.
        last = report["duration_s"]
        up = sum(min(float(row["down_s"]), last) - float(row["up_s"])
                 for row in times if float(row["up_s"]) < last)
        self.assertAlmostEqual(up / last, report["units_used_mean"],
                               delta=0.002)
        self.assertAlmostEqual(
            report["units_used_mean"] * report["capacity_used"] * 300e6 /
            report["bit_rate_mean_bps"], 1, delta=0.01)
        # Also of steps in which a unit that was up did nothing.
        self.assertAlmostEqual(
            sum(float(row["up"]) for row in steps) * 0.01,
            sum(float(row["down_s"]) - float(row["up_s"]) for row in times),
            delta=0.01)
        drained = sum(float(row["utilisation"]) * float(row["up"])
                      for row in steps) * 0.01 * 300e6 / 8
        self.assertAlmostEqual(
            drained / sum(int(row["bytes"]) for row in times), 1, delta=0.01)

    def test_leaves_a_warm_up_out_of_latency_and_units(self):
        capture = SOURCE / "traces" / "small.pcap.zst"
        flags = (capture, "--unit_capacity=300Mbps")
        whole = self.report(*flags)
        late = self.report(*flags, "--warm_up=4s")
        self.assertEqual(late["digest"], whole["digest"])
        self.assertEqual(late["packets_released"], whole["packets_released"])
        self.assertEqual(whole["units_used_max"], 5)
        self.assertEqual(late["units_used_max"], 1)
        self.assertLess(late["latency_ns"]["p99"],
                        whole["latency_ns"]["p99"] / 2)
        self.refused(USAGE, ["--warm_up", "5.00 s"], "replay", *flags,
                     "--warm_up=5s", "--quiet")

    def test_explains_a_flow_by_name_and_the_top_one(self):
        for flow in ("udp 192.0.2.1:5001 > 198.51.100.9:53", "top"):
            done = run("replay", self.good, "--quiet", "--explain", flow)
            self.assertEqual(done.returncode, OK, done.stderr.decode())
            self.assertIn("flowlet 1 ", done.stdout.decode())

    def stories(self, flow, *flags):
        """The report on the bundled capture, with what was explained."""
        done = run("replay", SOURCE / "traces" / "small.pcap.zst", "--quiet",
                   "--json=-", "--explain", flow,
                   *flags)
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        return json.loads(done.stdout)

    def test_explains_the_worst_wait_with_its_flowlet(self):
        report = self.stories("worst-wait", "--unit_capacity=300Mbit/s")
        worst, (story,) = report["wait_worst"], report["explain"]
        self.assertEqual(story["flow"], worst["flow"])
        (flowlet,) = [each for each in story["flowlets_shown"] if
                      each["first_clock"] <= worst["clock"]
                      <= each["last_clock"]]
        # Packets behind its first may be held longer.
        self.assertGreaterEqual(flowlet["longest_hold_ns"], worst["wait_ns"])
        self.assertEqual(flowlet["unit"], worst["unit"])
        self.assertLessEqual(flowlet["pull"]["asked_ns"],
                             flowlet["pull"]["came_ns"])

    def test_says_that_nothing_waited(self):
        for flags in [], ["--json=-"]:
            done = run("replay", self.good, "--quiet", "--max_units=1",
                       "--explain=worst-wait", *flags)
            self.assertEqual(done.returncode, OK, done.stderr.decode())
            self.assertIn("--explain=worst-wait: no packet was held",
                          (done.stderr if flags else done.stdout).decode())

    def test_explains_a_flow_of_an_nf_with_two_sides_by_its_inside_end(self):
        for flow in ("udp 192.0.2.1:5001", "udp 192.0.2.1:5001 > 198.51.100.9:53"):
            done = run("replay", self.good, "--quiet", "--nf=nat:ip=203.0.113.7",
                       "--explain", flow)
            self.assertEqual(done.returncode, OK, done.stderr.decode())
            self.assertIn("Flow udp 192.0.2.1:5001\n", done.stdout.decode())

    def test_explains_several_flows_in_one_run(self):
        top = self.stories("top:3")["explain"]
        self.assertEqual(len(top), 3)
        self.assertEqual([each["bytes"] for each in top],
                         sorted((each["bytes"] for each in top), reverse=True))
        named = self.stories(" ; ".join(each["flow"] for each in top))
        self.assertEqual(named["explain"], top)

    def test_tells_when_packets_of_a_flow_were_dropped(self):
        report = self.stories("top", "--max_units=1", "--unit_queue=16",
                              "--unit_capacity=20Mbps", "--start_buffer=16")
        (story,) = report["explain"]
        drops = story["first_drops"]
        self.assertEqual(len(drops), 12)
        self.assertEqual([each["time_ns"] for each in drops],
                         sorted(each["time_ns"] for each in drops))
        self.assertEqual({each["reason"] for each in drops},
                         set(story["dropped"]))
        self.assertEqual(story["packets"], story["released"] +
                         sum(story["dropped"].values()))

    def test_fails_to_explain_a_flow_that_is_not_there(self):
        flow = "UDP 192.0.2.1:4999 > 198.51.100.9:53"
        done = run("replay", self.good, "--quiet", "--explain", flow)
        self.assertEqual(done.returncode, BAD_DATA)
        self.assertEqual(done.stderr.decode().count("\n"), 1)
        self.assertIn(f'"{flow}" did not come up', done.stderr.decode())
        self.assertIn("What it means", done.stdout.decode())

    def test_explains_a_flow_without_ports_only_where_it_has_none(self):
        flow = "udp 192.0.2.1 > 198.51.100.9"
        self.refused(USAGE, ["--explain", f'"{flow}"', "ports"], "replay",
                     self.good, "--explain", flow)
        done = run("replay", self.good, "--quiet", "--flow_key=3tuple",
                   "--explain", flow)
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        self.assertIn("flowlet 1 ", done.stdout.decode())

    def test_compares_policies_side_by_side(self):
        small = SOURCE / "traces" / "small.pcap.zst"
        flags = ["--unit_capacity=300Mbps", "--policy=hash"]
        alone = self.report(small, *flags)
        compared = self.report(small, *flags, "--compare=vanilla_flow,snf")
        self.assertEqual([each["policy"] for each in compared["compare"]],
                         ["hash", "vanilla_flow", "snf"])
        for same in (compared, compared["compare"][0]):
            keys = (set(alone) - {"flags", "elapsed_s"}) & set(same)
            self.assertGreater(len(keys), 10)
            for key in keys:
                self.assertEqual(same[key], alone[key], key)
        snf = self.report(small, "--unit_capacity=300Mbps")
        self.assertEqual(compared["compare"][2]["latency_ns"],
                         snf["latency_ns"])
        # The same packets came out of each.
        self.assertEqual({each["digest"] for each in compared["compare"]},
                         {snf["digest"]})

        file = os.path.join(self.folder.name, "compare.json")
        done = run("replay", small, *flags, "--compare=vanilla_flow,snf",
                   "--quiet", "--json", file)
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        text = done.stdout.decode()
        self.assertRegex(text, r"\n +hash +vanilla_flow +snf\n")
        self.assertRegex(text, r"\nFlows +573 += +=\n")
        self.assertRegex(text, r"\nLatency p50 +\S+ \S+ ")
        self.assertIn("the same under each", text)
        self.assertIn("ran on the fewest units", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        written = json.loads(pathlib.Path(file).read_text())
        self.assertEqual(len(written["compare"]), 3)

    def test_compares_a_nat_up_to_which_ports_it_gave(self):
        # By hash the flows run on other units, which have other ports.
        capture = self.file("nat.pcap", pcap(
            [(1 + i / 1000, udp_frame(5000 + i % 40)) for i in range(400)]))
        compared = self.report(capture, "--nf=nat:ip=203.0.113.7",
                               "--compare=hash")["compare"]
        self.assertEqual([each["packets_released"] for each in compared],
                         [400, 400])
        self.assertNotEqual(compared[0]["digest"], compared[1]["digest"])
        self.assertEqual(compared[0]["digest_up_to_renaming"],
                         compared[1]["digest_up_to_renaming"])
        alone = self.report(capture)
        self.assertEqual(alone["digest"], alone["digest_up_to_renaming"])

    def test_holds_units_to_a_rate_of_packets(self):
        small = SOURCE / "traces" / "small.pcap.zst"
        by_bits, by_both = (
            self.report(small, "--unit_capacity=300Mbps", *flags)
            for flags in ([], ["--unit_packets=20kpps"]))
        self.assertGreater(by_both["units_used_mean"],
                           by_bits["units_used_mean"])
        # A packet takes 100 us, and two hops; the unit is not parked before.
        fast = self.report(self.good, "--unit_packets=10kpps",
                           "--unit_idle_timeout=1s")["latency_ns"]
        self.assertEqual(fast["p50"] // 1000, 102)
        self.assertEqual(by_both["digest"], by_bits["digest"])

    def test_runs_the_same_chaos_for_the_same_seed(self):
        # What chronicle writes tells whether each packet met the right state.
        # Where no packet is dropped, that does not depend on the chaos.
        chaos = "state_delay=0..2ms state_loss=0.1 state_duplicate=0.1"

        def replay(seed, *flags):
            return self.report(
                SOURCE / "traces" / "small.pcap.zst", "--nf=chronicle",
                f"--seed={seed}", "--unit_capacity=300Mbps",
                "--replica_choice=deterministic",  # not of the seed
                "--state_retry=1ms", "--unit_queue=8192", "--hold_queue=8192",
                *flags)
        one, again, other = [replay(s, "--chaos=" + chaos) for s in (1, 1, 2)]
        for key in set(one) - {"elapsed_s"}:
            self.assertEqual(one[key], again[key], key)
        self.assertNotEqual(one["state_messages_lost"],
                            other["state_messages_lost"])
        self.assertEqual(one["flags"]["chaos"], chaos)
        for report in (one, other):
            self.assertGreater(report["state_messages_lost"], 1000)
            self.assertGreater(report["state_messages_duplicated"], 1000)
            self.assertGreater(report["pulls_repeated"], 1000)
        calm = replay(1)
        self.assertEqual(calm["state_messages_lost"], 0)
        for report in (one, other, calm):
            self.assertEqual(sum(report["packets_dropped"].values()), 0)
            self.assertEqual(report["digest"], calm["digest"])

    def test_waits_more_for_state_without_replicas(self):
        small = SOURCE / "traces" / "small.pcap.zst"
        with_replicas = self.report(small, "--unit_capacity=300Mbps")
        without = self.report(small, "--unit_capacity=300Mbps",
                              "--replica_choice=none")
        self.assertEqual(without["state_pushes"], 0)
        self.assertEqual(without["flowlets_seamless"], 0)
        self.assertEqual(without["flags"]["replicas"], "0")
        self.assertGreater(with_replicas["flowlets_seamless"], 100)

    def test_proposes_commands_that_work(self):
        for arguments in ([], [self.good], [self.good, "--unit_queue=1"]):
            text = run("replay", "--quiet", *arguments).stdout.decode()
            proposals = text.split("Three things to try next\n")[1]
            commands = proposals.replace(" \\\n", " ").splitlines()[1::2]
            self.assertEqual(len(commands), 3, proposals)
            for command in commands:
                words = shlex.split(command)
                self.assertEqual(words[0], "./snf")
                self.assertTrue(os.path.exists(words[2]), command)
                words = [os.path.abspath(word) if i == 1 else word
                         for i, word in enumerate(words[1:])]
                with self.subTest(command):
                    done = subprocess.run(
                        [PROGRAM, *words], cwd=self.folder.name,
                        capture_output=True, timeout=300, check=False)
                    self.assertEqual(done.returncode, OK,
                                     done.stderr.decode())

    # The bundled capture.

    def test_replays_the_bundled_capture_without_arguments(self):
        done = run("replay", "--quiet")
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        text = done.stdout.decode()
        self.assertRegex(text, r"Digest +[0-9a-f]{16}")
        loud = run("replay", "--json=-").stderr.decode()
        self.assertIn("small.pcap.zst --unit_capacity=", loud)

    def test_survives_the_same_faults_for_the_same_seed(self):
        faults = "kill unit 1 at 1.2s; kill any p=0.0005"

        def replay(seed, *flags):
            return self.report(
                SOURCE / "traces" / "small.pcap.zst", "--nf=chronicle",
                f"--seed={seed}", "--unit_capacity=300Mbps", "--loggers=on",
                *flags)
        one, again, other = [replay(s, "--faults=" + faults) for s in (1, 1, 2)]
        for key in set(one) - {"elapsed_s"}:
            self.assertEqual(one[key], again[key], key)
        self.assertNotEqual(one["digest"], other["digest"])
        self.assertEqual(one["flags"]["faults"], faults)
        for report in (one, other):
            lost = report["faults"]
            self.assertGreater(lost["kills"], 10)
            self.assertGreater(lost["clocks_lost"], 10)
            self.assertGreater(lost["flows_moved"], 10)
            self.assertEqual(report["packets_dropped"]["unit_failed"],
                             lost["packets_lost"])
            self.assertEqual(sum(report["packets_dropped"].values()),
                             lost["packets_lost"])
            self.assertEqual(report["violations"], 0)
        self.assertNotIn("faults", replay(1))

    def test_survives_loggers_that_die_alone_and_among_units(self):
        def replay(nf, faults, *flags):
            return self.report(
                SOURCE / "traces" / "small.pcap.zst", f"--nf={nf}",
                "--unit_capacity=300Mbps", "--loggers=on",
                "--faults=" + faults, *flags)
        ring = replay("chronicle", "kill process of any logger p=0.005")
        self.assertGreater(ring["faults"]["logger_kills"], 100)
        # One packet a logger at most (proto/protocol.md L3).
        self.assertLessEqual(ring["faults"]["logger_packets_lost"],
                             ring["faults"]["logger_kills"])
        hosts = "kill any logger p=0.002"
        for nf, faults in [("chronicle", hosts), ("nat", hosts),
                           ("passthrough | nat", hosts + "; kill any p=0.0005")]:
            report = replay(nf, faults, "--logger_delay=50us")
            lost = report["faults"]
            self.assertGreater(lost["logger_kills"], 30)
            self.assertGreater(lost["logger_packets_lost"], 0)
            self.assertGreater(lost["records_restored"], 100)
            self.assertEqual(
                report["packets_dropped"].get("unit_failed", 0),
                lost["packets_lost"] + lost["logger_packets_lost"])
            self.assertTrue(report["conserved"])
            self.assertEqual(report["violations"], 0)
        alone = replay("chronicle", "kill logger 0 at 1s", "--max_units=1")
        self.assertEqual(alone["faults"]["logger_kills"], 1)

    def test_recovers_flows_that_move_packet_by_packet_amid_failed_starts(self):
        for flags in [["--policy=per_packet"], ["--chaos=start_failure=0.3"]]:
            report = self.report(
                SOURCE / "traces" / "small.pcap.zst", "--nf=chronicle",
                "--unit_capacity=300Mbps", "--loggers=on",
                "--faults=kill any p=0.0005", *flags)
            self.assertGreater(report["faults"]["kills"], 10)
            self.assertEqual(report["faults"]["flows_given_up"], 0)
            self.assertTrue(report["conserved"])
            self.assertEqual(report["violations"], 0)

    def test_loses_no_packet_to_faults_where_flows_come_and_go_at_once(self):
        # Each flow that begins finds the table full of others' histories.
        report = self.report(
            SOURCE / "traces" / "small.pcap.zst", "--seed=8", "--max_flows=64",
            "--unit_capacity=300Mbps", "--loggers=on",
            "--faults=kill any p=0.002")
        self.assertGreater(report["faults"]["kills"], 50)
        self.assertGreater(report["packets_dropped"]["flow_table_full"], 1_000)
        self.assertTrue(report["conserved"])
        self.assertEqual(report["violations"], 0)

    def test_gives_the_same_result_in_every_build_and_on_every_machine(self):
        # Change these only with a change of behaviour that is meant.
        report = self.report(SOURCE / "traces" / "small.pcap.zst",
                             "--unit_capacity=300Mbps")
        self.assertEqual(report["digest"], "1b3ccd4a599f68fc")
        self.assertEqual(
            report["latency_ns"],
            {"p50": 123135, "p90": 1161215, "p99": 1549311,
             "p999": 2365439, "max": 3075207})
        self.assertEqual(
            [report[key] for key in ("decisions", "flowlets_moved",
                                     "flowlets_seamless", "state_pushes",
                                     "overcommitted", "units_used_max")],
            [9291, 1160, 535, 1792, 1504, 5])

    def test_counts_flowlets_as_an_independent_count_does(self):
        capture = SOURCE / "traces" / "small.pcap.zst"
        plain = subprocess.run(["zstd", "-dcq", capture], check=True,
                               capture_output=True).stdout
        counter = SOURCE / "traces" / "record" / "count_flowlets.py"
        for timeout_us in (500, 100):
            counted = subprocess.run(
                [counter, "--key", "5tuple", "--gap-ns",
                 str(timeout_us * 1000)],
                input=plain, check=True, capture_output=True).stdout.decode()
            numbers = dict(line.split("\t") for line in counted.splitlines())
            report = self.report(capture, "--flow_key=5tuple",
                                 f"--flowlet_timeout={timeout_us}us",
                                 "--flow_timeout=inf")
            self.assertEqual(report["packets_in"], int(numbers["packets"]))
            self.assertEqual(report["flows"], int(numbers["flows"]))
            self.assertEqual(report["flowlets"], int(numbers["flowlets"]))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Units and loggers that are killed in real time: the run goes on, and nothing
is lost or sent twice.

Usage: live_faults_test.py PROGRAM SOURCE_DIR [TEST…]

Each run is under load from its first packet to its last, and processes of units
and loggers are killed at random, by --faults and from outside, though not both
at once, which is outside the promise. What it releases must be,
flow by flow, what a run without failures releases, and its shared tables count
each packet once. Controllers are killed by
--faults, also among units and loggers, which are killed by --faults or from
outside: they take what they had not sent along, and what survived units that
are down, and nothing else. A drill goes on until it has had 8 kills, 50 with
SNF_LONG_TESTS=1 or SNF_DRILL_KILLS=n, and has met each kind of event that it is
about. SNF_TEST_SEED=n begins the random numbers otherwise, which a failure
names.
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import unittest
from collections import Counter

from command_case import LASTING_NAT as NAT
from command_case import OK, PROGRAM, SOURCE, Command, below

SMALL = SOURCE / "traces" / "small.pcap.zst"
KILLS = int(os.environ.get(
    "SNF_DRILL_KILLS", 50 if os.environ.get("SNF_LONG_TESTS") else 8))
MOST_ROUNDS = max(60, 4 * KILLS)
SEED = int(os.environ.get("SNF_TEST_SEED", time.time_ns() % 1_000_000))
THREADS = ("--clock=real", "--speed=max", "--overload=wait", "--loggers=on",
           "--flow_timeout=1h")
REAL = (*THREADS, "--isolation=process")
LONGER = "--loop=5"  # units are killed once they have run for some time
LOGGERS = ("snf-loggers",)
BOTH = ("snf-unit", "snf-loggers")
ALL = "; kill any p=0.0003; kill process of any logger p=0.0005"
# With all hosts in the report.
MONITOR = "firewall | monitor(top=1000)"
# Its packets read a shared table.
GUARDED = f"syn_guard | {MONITOR}"
CHAIN = f"{MONITOR} | {NAT.replace(':', '(', 1)})"
INTERNAL, AT_ONCE = 70, b"units and their loggers failed at once"


def processes_of(pid, names):
    found = []
    for child in below(pid):
        try:
            with open(f"/proc/{child}/comm") as file:
                if file.read().strip() in names:
                    found.append(child)
        except OSError:
            pass
    return found


class AtOnce(Exception):
    """The run has ended, since nobody had what units did that failed."""


class Drill(Command):
    NFS = {"chronicle": "digest", NAT: "digest_up_to_renaming"}
    CHAINS = {CHAIN: "digest_up_to_renaming"}

    def report_of(self, *flags, kill_by=None):
        path = os.path.join(self.folder.name, "report.json")
        if os.path.exists(path):
            os.unlink(path)
        process = subprocess.Popen(
            [PROGRAM, "replay", SMALL, "--quiet", f"--json={path}", *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        stop = threading.Event()
        kills = [0]
        killer = threading.Thread(
            target=lambda: kill_by(process.pid, stop, kills))
        if kill_by:
            killer.start()
        _, said = process.communicate(timeout=300)
        stop.set()
        if kill_by:
            killer.join()
        if process.returncode == INTERNAL and AT_ONCE in said:
            raise AtOnce
        self.assertEqual(process.returncode, OK, said)
        return json.loads(pathlib.Path(path).read_text()), kills[0]

    def check(self, report, want, digest):
        self.assertEqual(report["violation_messages"], [])
        self.assertTrue(report["conserved"])
        self.assertEqual(report["packets_in"], want["packets_in"])
        self.assertEqual(report["packets_dropped"], want["packets_dropped"])
        # A run that ends before the first kill from outside has none.
        faults = Counter(report.get("faults", {}))
        self.assertEqual(faults["packets_lost"], 0)
        self.assertEqual(faults["flows_given_up"], 0)
        self.assertEqual(report["packets_released"], want["packets_released"])
        self.assertEqual(report[digest], want[digest])
        # The tables of the chain, which count packets by host.
        self.assertEqual(report.get("nf_reports"), want.get("nf_reports"))

    def drill(self, nf, kill_with, *flags, victims=("snf-unit",)):
        digest = (self.NFS | self.CHAINS)[nf]
        rng = random.Random(SEED)
        want, _ = self.report_of(*REAL, *flags, f"--nf={nf}", "--threads=3")
        done = rounds = at_once = 0
        totals = Counter()
        events = ["failures", "packets_rerouted"] if "snf-unit" in victims else []
        if "--host_state" in flags:
            events.append("recovered")
        if "snf-loggers" in victims:
            events += ["logger_failures", "records_restored"]
        while (done < KILLS or not all(totals[event] for event in events)) \
                and rounds < MOST_ROUNDS:
            rounds += 1
            threads = rng.choice((2, 4, 5))
            seed = rng.randrange(1 << 30)
            fine = False
            # From outside nobody sees who still needs what a logger has.
            may_be_at_once = victims == BOTH and kill_with == self.from_outside
            with self.subTest(f"SNF_TEST_SEED={SEED}", nf=nf, round=rounds,
                              threads=threads, seed=seed):
                try:
                    report, kills = kill_with(
                        rng, victims, *flags, f"--nf={nf}",
                        f"--threads={threads}", f"--seed={seed}")
                except AtOnce:
                    self.assertTrue(may_be_at_once)
                    at_once += 1
                    continue
                self.check(report, want, digest)
                faults = Counter(report.get("faults", {}))
                records = report.get("host_records", {})
                totals["recovered"] += records.get("recovered", 0)
                done += max(kills, faults["kills"] + faults["logger_kills"])
                for what in ("kills", "failures", "packets_rerouted",
                             "flows_moved", "clocks_lost", "logger_kills",
                             "logger_failures", "records_restored"):
                    totals[what] += faults[what]
                fine = True
            if not fine:
                return
        text = (f"SNF_TEST_SEED={SEED}: {nf}: {done} kills in {rounds} runs, "
                f"{at_once} with units and loggers at once: {dict(totals)}")
        self.assertGreaterEqual(done, KILLS, text)
        for event in events:
            self.assertGreater(totals[event], 0, text)
        print(text)

    def by_flag(self, rng, victims, *flags):
        kills = {"snf-unit": "kill any p=0.0005",
                 "snf-loggers": "kill process of any logger p=0.0005"}
        return self.report_of(*REAL, *flags, "--faults=" + "; ".join(
            kills[victim] for victim in victims))

    def killer(self, rng, victims):
        pauses = random.Random(rng.randrange(1 << 30))

        # One that is killed again and again before it runs ends the run. Where
        # units and loggers are killed, all have to be back before the next,
        # and what they had with others.
        is_both = len(victims) > 1
        longest = 1 if is_both else 0.4

        def kill(pid, stop, kills):
            seen, most = {}, 0
            while not stop.wait(pauses.uniform(0.02, 0.2)):
                now = time.monotonic()
                seen = {p: seen.get(p, now)
                        for p in processes_of(pid, victims)}
                most = max(most, len(seen))
                age = pauses.uniform(longest / 4, longest)
                old = [p for p, since in seen.items() if now - since > age]
                if not old or (is_both and len(old) < most):
                    continue
                try:
                    os.kill(pauses.choice(old), signal.SIGKILL)
                    kills[0] += 1
                except ProcessLookupError:
                    pass
        return kill

    def from_outside(self, rng, victims, *flags):
        return self.report_of(*REAL, *flags,
                              kill_by=self.killer(rng, victims))

    def test_kills_by_flag_lose_nothing_of_a_chronicle(self):
        self.drill("chronicle", self.by_flag)

    def test_kills_by_flag_lose_nothing_of_a_nat(self):
        self.drill(NAT, self.by_flag)

    def test_kills_from_outside_lose_nothing_of_a_chronicle(self):
        self.drill("chronicle", self.from_outside, LONGER)

    def test_kills_from_outside_lose_nothing_of_a_nat(self):
        self.drill(NAT, self.from_outside, LONGER)

    def test_states_that_units_show_outlive_them(self):
        self.drill("chronicle", self.by_flag, LONGER, "--host_state")
        self.drill(NAT, self.from_outside, LONGER, "--host_state")

    def test_kills_of_loggers_by_flag_lose_nothing_of_a_chronicle(self):
        self.drill("chronicle", self.by_flag, victims=LOGGERS)

    def test_kills_of_loggers_by_flag_lose_nothing_of_a_nat(self):
        self.drill(NAT, self.by_flag, victims=LOGGERS)

    def test_kills_of_loggers_from_outside_lose_nothing_of_a_chronicle(self):
        self.drill("chronicle", self.from_outside, LONGER, victims=LOGGERS)

    def test_kills_of_loggers_from_outside_lose_nothing_of_a_nat(self):
        self.drill(NAT, self.from_outside, LONGER, victims=LOGGERS)

    def test_kills_of_both_by_flag_lose_nothing_of_a_chronicle(self):
        self.drill("chronicle", self.by_flag, victims=BOTH)

    def test_kills_of_both_by_flag_lose_nothing_of_a_nat(self):
        self.drill(NAT, self.by_flag, victims=BOTH)

    def test_kills_of_both_from_outside_lose_nothing_of_a_chronicle(self):
        self.drill("chronicle", self.from_outside, LONGER, victims=BOTH)

    def test_kills_of_both_by_flag_lose_nothing_of_a_chain_with_tables(self):
        self.drill(CHAIN, self.by_flag, victims=BOTH)

    def test_kills_from_outside_lose_nothing_of_a_chain_with_tables(self):
        self.drill(CHAIN, self.from_outside, LONGER, victims=LOGGERS)
        self.drill(CHAIN, self.from_outside, LONGER)

    def drill_controllers(self, nf, flags, others="", victims=()):
        rng = random.Random(SEED)
        totals, rounds = Counter(), 0
        kill_by = self.killer(rng, victims) if victims else None
        kills = "kill controller p=0.0003" + others
        slowest = 0
        events = ["flows"]
        if "kill any p" in others:
            events.append("units")
        if "logger" in others or victims:
            events.append("loggers")
        while (totals["kills"] < KILLS or
               (victims and totals["outside"] < KILLS) or
               not all(totals[event] for event in events)) and \
                rounds < MOST_ROUNDS:
            rounds += 1
            threads = rng.choice((2, 3, 5))
            seed = rng.randrange(1 << 30)
            with self.subTest(f"SNF_TEST_SEED={SEED}", nf=nf, round=rounds,
                              threads=threads, seed=seed):
                report, outside = self.report_of(
                    *flags, f"--nf={nf}", f"--threads={threads}",
                    f"--seed={seed}", f"--faults={kills}", kill_by=kill_by)
                self.assertEqual(report["violation_messages"], [])
                self.assertTrue(report["conserved"])
                succession = report["controller_faults"]
                lost = succession["packets_lost"]
                # All that is missing was in the buffers of controllers; an
                # answer to a packet that is lost may find no mapping. A NAT
                # drops IPv6 by itself.
                dropped = dict(report["packets_dropped"])
                self.assertEqual(dropped.pop("controller_failed"), lost)
                dropped.pop("not_translated")
                dropped.pop("nf:not_ipv4", None)
                self.assertEqual(sum(dropped.values()), 0, dropped)
                self.assertEqual(succession["flows_unnamed"], 0)
                if MONITOR in nf:
                    self.check_sums(report)
                if others or victims:
                    faults = report["faults"]
                    self.assertEqual(faults["flows_given_up"], 0)
                    totals["units"] += faults["kills"]
                    totals["loggers"] += faults["logger_failures"]
                    totals["outside"] += outside
                for what in ("kills", "kills_in_vain", "packets_lost", "flows",
                             "tombstones", "packets_waited"):
                    totals[what] += succession[what]
                slowest = max(slowest, succession["recovery_ns"]["max"] or 0)
                continue
            return
        text = (f"SNF_TEST_SEED={SEED}: {nf}: {rounds} runs: {dict(totals)}, "
                f"packets went on after {slowest / 1e6:.1f} ms at most")
        self.assertGreaterEqual(totals["kills"], KILLS, text)
        for event in events:
            self.assertGreater(totals[event], 0, text)
        print(text)

    def check_sums(self, report):
        """Each packet that left counts once, and no other packet."""
        hosts = report["nf_reports"]["monitor.Top talkers"]
        for way in ("packets_sent", "packets_received"):
            self.assertEqual(sum(host[way] for host in hosts),
                             report["packets_released"])

    def test_sums_of_tables_are_exact_whatever_dies(self):
        self.drill_controllers(MONITOR, REAL, ALL)

    def test_so_they_are_beside_threads(self):
        self.drill_controllers(MONITOR, THREADS)

    def test_so_they_are_where_packets_read_a_table(self):
        self.drill_controllers(GUARDED, REAL, ALL)
        self.drill_controllers(GUARDED, THREADS)

    def test_kills_of_controllers_and_units_lose_nothing_else(self):
        self.drill_controllers("chronicle", REAL, "; kill any p=0.0005")

    def test_kills_of_controllers_and_units_of_a_nat_lose_nothing_else(self):
        self.drill_controllers(NAT, REAL, "; kill any p=0.0005")

    def test_kills_of_all_three_lose_nothing_else(self):
        self.drill_controllers("chronicle", REAL, ALL)

    def test_kills_of_all_three_of_a_nat_lose_nothing_else(self):
        self.drill_controllers(NAT, REAL, ALL)

    def test_kills_of_loggers_from_outside_beside_controllers(self):
        for nf in self.NFS:
            self.drill_controllers(nf, (*REAL, LONGER), victims=LOGGERS)

    def test_kills_of_controllers_lose_what_they_had_not_sent(self):
        self.drill_controllers("chronicle", REAL)

    def test_kills_of_controllers_beside_threads_lose_nothing_else(self):
        self.drill_controllers("chronicle", THREADS)

    def test_kills_of_controllers_of_a_nat_lose_nothing_else(self):
        self.drill_controllers(NAT, REAL)

    def test_kills_at_a_pace_disturb_nobody(self):
        capture = os.path.join(self.folder.name, "paced.pcap")
        subprocess.run([PROGRAM, "trace", "compose", SMALL, "--rate=50Mbps",
                        "--duration=500ms", "--seed=1", "--snap=96",
                        f"--out={capture}"],
                       check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=60)
        for seed in range(1, 9):
            with self.subTest(seed=seed):
                path = os.path.join(self.folder.name, "paced.json")
                done = subprocess.run(
                    [PROGRAM, "replay", capture, "--nf=nat", "--quiet",
                     "--clock=real", "--speed=1x", "--loggers=on",
                     "--threads=3", "--isolation=process", f"--seed={seed}",
                     "--unit_capacity=none", f"--json={path}",
                     "--faults=kill unit 0 at 200ms"],
                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                    timeout=60)
                self.assertEqual(done.returncode, OK, done.stderr)
                report = json.loads(pathlib.Path(path).read_text())
                self.assertEqual(report["violation_messages"], [])
                self.assertTrue(report["conserved"])
                self.assertEqual(report["faults"]["packets_lost"], 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

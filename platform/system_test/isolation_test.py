#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf replay --clock=real --isolation=process` and `=lxc`.

Usage: isolation_test.py PROGRAM SOURCE_DIR MISUSE INTRUDER SCANNER ISOLATION
                         [TEST…]
"""

import ctypes
import glob
import json
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import time
import unittest
import urllib.request

sys.dont_write_bytecode = True  # nothing beside the sources
MISUSE, INTRUDER, SCANNER, ISOLATION = sys.argv[3:7]
del sys.argv[3:7]
from command_case import (LASTING_NAT, OK, PROGRAM, SOURCE, USAGE, Command,
                          free_port, is_alive, pcap, run, stat_of, udp_frame,
                          wait_for)

SKIPPED, CHECK_FAILED, NF_FAILED = 4, 1, 3
UNAVAILABLE, INTERNAL, PERMISSION = 69, 70, 77
REAL = ("--clock=real", "--speed=max", "--unit_capacity=none")
SMALL = SOURCE / "traces/small.pcap.zst"


def below(pid):
    """All processes that this one has started, and those of these."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (stat := stat_of(int(entry))):
            parents.setdefault(stat[1], []).append(int(entry))
    found, at = [], [pid]
    while at:
        children = parents.get(at.pop(), [])
        found += children
        at += children
    return found


def units_of(pid, name="snf-unit"):
    return [p for p in below(pid) if (stat := stat_of(p)) and stat[2] == name]


def loggers_of(pid):
    return units_of(pid, "snf-loggers")


def has_packets(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics",
                                    timeout=60) as answer:
            text = answer.read().decode()
    except OSError:
        return False
    return re.search(r"^snf_packets_in_total [1-9]", text, re.M)


def leftovers(launcher):
    """What a launcher that has ended left."""
    name = f"snf-{launcher}"
    return [*glob.glob(f"/run/snf-units/{name}"), *glob.glob("/dev/shm/snf*"),
            *glob.glob(f"/sys/fs/cgroup/**/{name}", recursive=True)]


class Isolation(Command):
    def setUp(self):
        super().setUp()
        self.frames = self.file("frames.pcap", pcap(
            [(1 + i / 1000, udp_frame(5000 + i % 40)) for i in range(4000)]))

    def replay(self, *flags, capture=None, isolation=ISOLATION, pace=REAL,
               quiet=True):
        path = os.path.join(self.folder.name, "report.json")
        if os.path.exists(path):
            os.unlink(path)
        done = run("replay", capture or self.frames, *pace,
                   *(("--quiet",) if quiet else ()),
                   f"--isolation={isolation}", f"--json={path}", *flags)
        report = json.loads(pathlib.Path(path).read_text()) \
            if os.path.exists(path) else None
        return done, report

    def start(self, *flags):
        """A run that goes on for long, once a packet has come, and its units."""
        self.report = os.path.join(self.folder.name, "killed.json")
        port = free_port()
        process = subprocess.Popen(
            [PROGRAM, "replay", self.frames, "--clock=real", "--speed=1x",
             "--loop=1000", "--quiet", f"--isolation={ISOLATION}",
             f"--json={self.report}", f"--metrics_port={port}", *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        units = wait_for("units", lambda: len(
            found := units_of(process.pid)) == 2 and found)
        if "--loggers=on" in flags:
            wait_for("loggers", lambda: loggers_of(process.pid))
        wait_for("packets", lambda: has_packets(port))
        return process, units

    def wait_for_ends(self, processes):
        def have_ended():
            # As init would: a namespace of processes ends when all are waited
            # for.
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                pass
            return not any(map(is_alive, processes))
        try:
            wait_for("end of all", have_ended)
        except AssertionError as error:
            raise AssertionError({p: stat_of(p) for p in processes}) from error

    def launcher_of(self, process):
        return next(p for p in below(process.pid)
                    if stat_of(p)[1] == process.pid)


class Runs(Isolation):
    def captures(self):
        folder = pathlib.Path(os.environ.get("SNF_TRACES",
                                             SOURCE / "../shared/traces"))
        names = ("PcapPlusPlus__tls2.pcap", "PcapPlusPlus__example2.pcap",
                 "debian-ndpi-4.2-pcap__1kxun.pcap",
                 "debian-ndpi-4.2-pcap__WebattackXSS.pcap")
        return [SMALL, *(p for n in names if (p := folder / n).exists())]

    def test_releases_what_threads_and_virtual_time_do(self):
        for capture in self.captures():
            for nf in ("chronicle", "monitor"):
                with self.subTest(capture=capture, nf=nf):
                    digests = set()
                    for how in ("--clock=virtual", "--isolation=thread",
                                f"--isolation={ISOLATION}"):
                        path = os.path.join(self.folder.name, "digest.json")
                        flags = () if "virtual" in how else (
                            *REAL, "--threads=3", "--policy=rotate")
                        done = run("replay", capture, f"--nf={nf}", "--quiet",
                                   "--flow_timeout=1h", f"--json={path}", how,
                                   *flags)
                        self.assertEqual(done.returncode, OK, done.stderr)
                        report = json.loads(pathlib.Path(path).read_text())
                        self.assertTrue(report["conserved"])
                        digests.add(report["digest"])
                    self.assertEqual(len(digests), 1)

    def test_output_loggers_have_what_units_did_before_it_is_released(self):
        for nf in ("chronicle", "nat:ip=203.0.113.9"):
            with self.subTest(nf=nf):
                flags = ("--loggers=on", "--threads=3", "--policy=rotate",
                         f"--nf={nf}")
                done, report = self.replay(*flags)
                self.assertEqual(done.returncode, OK, done.stderr)
                done, threads = self.replay(*flags, isolation="thread")
                self.assertEqual(done.returncode, OK, done.stderr)
                self.assertTrue(report["conserved"])
                for what in ("digest_up_to_renaming", "packets_released"):
                    self.assertEqual(report[what], threads[what], what)
                self.assertGreaterEqual(report["loggers"]["entries"],
                                        report["packets_released"])

    def test_units_find_states_where_others_show_them(self):
        for nf in ("chronicle", "nat:ip=203.0.113.9"):
            flags = ("--policy=rotate", f"--nf={nf}")
            done, without = self.replay(*flags, "--threads=3")
            self.assertEqual(done.returncode, OK, done.stderr)
            for more in (("--threads=3",), ("--threads=4", "--loggers=on"),
                         ("--warm_pool=1", "--max_units=3")):
                with self.subTest(nf=nf, more=more):
                    done, report = self.replay(*flags, "--host_state", *more)
                    self.assertEqual(done.returncode, OK, done.stderr)
                    self.assertTrue(report["conserved"])
                    for what in ("digest_up_to_renaming", "packets_released"):
                        self.assertEqual(report[what], without[what], what)
                    records = report["host_records"]
                    self.assertGreater(records["read"], 100)
                    self.assertEqual(records["missed"]["malformed"], 0)
                    self.assertEqual(report["state_pushes"], 0)

    def test_tells_what_threads_do(self):
        flags = ("--threads=3", "--nf=monitor", "--policy=hash")
        done, threads = self.replay(*flags, isolation="thread")
        self.assertEqual(done.returncode, OK, done.stderr)
        done, report = self.replay(*flags)
        self.assertEqual(done.returncode, OK, done.stderr)
        for what in ("counters", "nf_reports", "digest", "packets_released"):
            self.assertEqual(report.get(what), threads.get(what), what)

    def test_wants_a_process_beside_that_of_the_controller(self):
        done, _ = self.replay("--threads=1")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn(b"--isolation", done.stderr)


class Failures(Isolation):
    def test_an_nf_that_fails_is_named_with_packet_and_flow(self):
        for how, what in (("throw", "threw std::runtime_error: boom"),
                          ("exit", r"called exit\(\)"),
                          ("abort", "was ended by SIGABRT"),
                          ("segv", r"was ended by SIGSEGV at address \S+")):
            with self.subTest(how):
                done, report = self.replay("--threads=2",
                                           f"--nf={MISUSE}:how={how}")
                self.assertRegex(
                    done.stderr.decode(),
                    rf'snf replay: NF "misuse": process_packet {what}; '
                    r"packet \d+, clock 3, flow udp 192\.0\.2\.1:\d+ > "
                    r"198\.51\.100\.9:53\n")
                self.assertEqual(done.returncode, NF_FAILED)
                self.assertTrue(report["conserved"])

    def test_an_nf_that_hangs_is_named(self):
        done, report = self.replay("--threads=2", "--nf_patience=300ms",
                                   f"--nf={INTRUDER}:how=hang")
        self.assertIn(b"did not return within 300 ms", done.stderr)
        self.assertEqual(done.returncode, INTERNAL)
        self.assertTrue(report["conserved"])

    def test_a_unit_that_is_killed_ends_the_run_with_all_packets_told(self):
        seed = int(os.environ.get("SNF_TEST_SEED", time.time_ns() % 1_000_000))
        rng = random.Random(seed)
        for i in range(5):
            with self.subTest(f"SNF_TEST_SEED={seed}", i=i):
                self.ends_with_all_packets_told(
                    rng, signal.SIGKILL, "--threads=3")

    WITH_LOGGERS = ("--threads=4", "--loggers=on", "--nf=chronicle")

    def test_with_loggers_a_unit_may_end_in_any_way(self):
        self.check_any_end(units_of, 2)

    def test_so_may_the_loggers(self):
        self.check_any_end(loggers_of, 1)

    def check_any_end(self, victims, count):
        process, _ = self.start(*self.WITH_LOGGERS)
        for end in (signal.SIGSYS, signal.SIGSEGV, signal.SIGTERM):
            if victims == loggers_of:
                time.sleep(1)  # until units have what the loggers alone had
            # A slow machine may just be replacing one that did not answer.
            before = wait_for("victims", lambda: len(
                found := victims(process.pid)) == count and found)
            os.kill(before[0], end)
            wait_for("another", lambda: len(
                found := victims(process.pid)) == count
                and before[0] not in found)
            self.assertIsNone(process.poll())
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, said)
        report = json.loads(pathlib.Path(self.report).read_text())
        self.assertTrue(report["conserved"])
        self.assertEqual(report["violation_messages"], [])
        self.assertEqual(report["packets_dropped"].get("nf_failed", 0), 0)

    @unittest.skipIf(ISOLATION != "lxc", "only containers have monitors")
    def test_a_monitor_that_is_stopped_is_not_waited_for_without_limit(self):
        process, _ = self.start(*self.WITH_LOGGERS)
        launcher = self.launcher_of(process)
        for _ in range(2):
            before = wait_for("units", lambda: len(
                found := units_of(process.pid)) == 2 and found)
            for monitor in units_of(process.pid, "snf-monitor"):
                os.kill(monitor, signal.SIGSTOP)
            os.kill(before[0], signal.SIGKILL)
            wait_for("another", lambda old=before[0]: len(
                found := units_of(process.pid)) == 2 and old not in found)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, said)
        self.assertEqual(leftovers(launcher), [])

    def test_loggers_that_crash_again_and_again_end_the_run(self):
        process, _ = self.start(*self.WITH_LOGGERS)
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            for victim in loggers_of(process.pid):
                os.kill(victim, signal.SIGSYS)
            time.sleep(0.3)
        _, said = process.communicate(timeout=60)
        self.assertRegex(said, "so did 3 earlier processes of the loggers|"
                         "units and their loggers failed at once")
        self.assertEqual(process.returncode, INTERNAL)
        report = json.loads(pathlib.Path(self.report).read_text())
        self.assertTrue(report["conserved"])

    def test_packets_and_flows_on_which_an_nf_crashes_are_dropped(self):
        flows, packets, crashes = 3, 40, 3
        # Two packets of each flow have left before the third comes, also on a
        # slow machine: a flow that is given up takes along what no logger has.
        pause_s = 4
        capture = self.file("few.pcap", pcap(
            [(1 + i / 100 + (pause_s if i >= 2 * flows else 0),
              udp_frame(5000 + i % flows)) for i in range(flows * packets)]))
        for how in ("segv", "abort", "exit", "throw"):
            with self.subTest(how):
                done, report = self.replay(
                    f"--nf={MISUSE}:how={how}", "--threads=4", "--loggers=on",
                    capture=capture, quiet=False,
                    pace=("--clock=real", "--speed=1x"))
                said = done.stderr.decode()
                self.assertEqual(done.returncode, OK, said)
                self.assertTrue(report["conserved"])
                self.assertEqual(report["violation_messages"], [])
                faults = report["faults"]
                self.assertEqual(faults["nf_failures"], crashes * flows)
                self.assertEqual(faults["flows_blocked"], flows)
                dropped = report["packets_dropped"]
                self.assertEqual(report["packets_released"], 2 * flows)
                self.assertEqual(dropped["nf_failed"],
                                 flows * (packets - 2) -
                                 dropped.get("unit_failed", 0))
                self.assertRegex(said, r'NF "misuse": process_packet .*; packet '
                                 r"\d+, clock 3, flow udp 192\.0\.2\.1:500\d > "
                                 r"198\.51\.100\.9:53; the packet is dropped")
                self.assertEqual(said.count("the flow is blocked"), flows)

    # An NF's timers are no packet's: so its flow alone can end their crashes.
    def test_flows_whose_timers_crash_are_given_up(self):
        capture = self.file("one.pcap", pcap(
            [(1 + i / 100, udp_frame()) for i in range(10)]))
        done, report = self.replay(
            f"--nf={MISUSE}:how=throw_timer", "--threads=4", "--loggers=on",
            capture=capture, quiet=False, pace=("--clock=real", "--speed=1x"))
        said = done.stderr.decode()
        self.assertEqual(done.returncode, OK, said)
        self.assertTrue(report["conserved"])
        self.assertRegex(said, "on_timer threw .*; the flow is blocked")
        self.assertEqual(report["faults"]["flows_given_up"], 1)

    def test_an_nf_that_hangs_loses_the_packet(self):
        capture = self.file("one.pcap", pcap(
            [(1 + i / 100, udp_frame()) for i in range(4)]))
        done, report = self.replay(
            f"--nf={INTRUDER}:how=hang", "--threads=4", "--loggers=on",
            "--nf_patience=300ms", capture=capture, quiet=False,
            pace=("--clock=real", "--speed=1x"))
        said = done.stderr.decode()
        self.assertEqual(done.returncode, OK, said)
        self.assertTrue(report["conserved"])
        self.assertIn("did not return within 300 ms", said)
        self.assertGreater(report["packets_dropped"]["nf_failed"], 0)

    def ends_with_all_packets_told(self, rng, end, *flags, victims=units_of):
        process, units = self.start(*flags)
        time.sleep(rng.uniform(0, 0.5))
        victim = rng.choice(victims(process.pid))
        os.kill(victim, end)
        _, said = process.communicate(timeout=60)
        who = rf"unit loop \d \(process {victim}\)" \
            if victims == units_of else f"process {victim} of loggers"
        self.assertRegex(said, f"{who} was killed by signal {end.value}")
        self.assertEqual(process.returncode, INTERNAL)
        report = json.loads(pathlib.Path(self.report).read_text())
        self.assertTrue(report["conserved"])
        self.assertEqual([p for p in units if stat_of(p)], [])

    def test_nothing_outlives_snf(self):
        for end in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            with self.subTest(end):
                process, _ = self.start("--threads=4", "--loggers=on")
                wait_for("loggers", lambda: len(loggers_of(process.pid)) == 1)
                started = below(process.pid)
                launcher = self.launcher_of(process)
                process.send_signal(end)
                process.communicate(timeout=60)
                self.wait_for_ends(started)
                self.assertEqual(leftovers(launcher), [])
                if end != signal.SIGKILL:
                    self.assertEqual(process.returncode, 128 + end)

    def test_a_launcher_that_is_killed_ends_the_run(self):
        process, units = self.start("--threads=3")
        launcher = self.launcher_of(process)
        os.kill(launcher, signal.SIGKILL)
        _, said = process.communicate(timeout=60)
        self.assertRegex(said, r"the launcher of units \(process \d+\) has "
                         "ended|was killed by signal 9")
        self.assertEqual(process.returncode, INTERNAL)
        self.wait_for_ends(units)
        # The next run removes what only a launcher that lives can.
        done, _ = self.replay()
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(leftovers(launcher), [])


class WarmPool(Isolation):
    """Processes that come and go with the units: runs without --threads."""

    def bursts(self):
        """Two of 200 ms, each of 40 flows; two seconds lie between them."""
        return self.file("bursts.pcap", pcap(
            [(1 + begin + i / 2000, udp_frame(5000 + i % 40))
             for begin in (0, 2.2) for i in range(400)]))

    LOGGERS, SPARES = "--loggers=off", 0
    PACED = ("--clock=real", "--speed=1x", "--unit_capacity=none")
    SHORT = ("--flow_timeout=100ms", "--unit_idle_timeout=20ms",
             "--keep_warm=100ms")

    def starts_of(self, *flags, capture=None, pace=REAL):
        done, report = self.replay(*flags, self.LOGGERS, capture=capture,
                                   pace=pace)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertTrue(report["conserved"])
        self.assertTrue(report["sound"], report["violation_messages"])
        return report, report["real"]["starts"]

    def test_units_start_in_processes_that_are_parked(self):
        # In a loop, so that the last spare one is parked before the end.
        flags = ("--policy=rotate", "--max_units=4", "--nf=chronicle",
                 "--flow_timeout=1h", "--loop=50")
        report, starts = self.starts_of(*flags, "--warm_pool=4")
        self.assertEqual(report["units_used_max"], 4)
        self.assertIsNone(starts["cold_ns"])
        self.assertGreater(starts["parked_ns"]["p50"], 0)
        self.assertGreaterEqual(starts["parked_ns"]["max"],
                                starts["parked_ns"]["p50"])
        self.assertEqual(starts["processes"], 4 + self.SPARES)
        done, threads = self.replay(*flags, isolation="thread")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(report["digest"], threads["digest"])

    def test_a_unit_without_a_parked_process_waits_for_its_own(self):
        flags = ("--policy=rotate", "--max_units=4", "--nf=monitor",
                 "--overload=wait")
        report, starts = self.starts_of(*flags, "--warm_pool=0")
        self.assertGreater(starts["cold_ns"]["p50"], 0)
        self.assertEqual(report["packets_released"], report["packets_in"])
        done, threads = self.replay(*flags, isolation="thread")
        self.assertEqual(done.returncode, OK, done.stderr)
        for what in ("digest", "counters", "nf_reports"):
            self.assertEqual(report.get(what), threads.get(what), what)

    def test_processes_end_with_their_units_and_come_again(self):
        flags = (*self.SHORT, "--overload=wait", "--nf=monitor")
        report, starts = self.starts_of(*flags, "--warm_pool=0",
                                        capture=self.bursts(), pace=self.PACED)
        self.assertEqual(report["packets_released"], 800)
        # All of the first burst did, or the second one would wake them.
        self.assertGreater(starts["ended"], 0)
        self.assertGreater(starts["processes"], starts["most_processes"])
        # What a process that has ended counted is not forgotten.
        self.assertEqual(report["counters"]["bytes"], report["bytes_in"])

    def test_no_process_is_there_while_no_unit_is(self):
        process = subprocess.Popen(
            [PROGRAM, "replay", self.bursts(), *self.PACED, *self.SHORT,
             "--warm_pool=0", "--overload=wait", "--quiet", self.LOGGERS,
             f"--isolation={ISOLATION}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        for are_there in (True, False, True):
            wait_for("units to come or go",
                     lambda a=are_there: bool(units_of(process.pid)) == a)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, OK, said)

    def test_a_parked_process_that_is_killed_is_replaced(self):
        report = os.path.join(self.folder.name, "parked.json")
        process = subprocess.Popen(
            [PROGRAM, "replay", self.frames, "--clock=real", "--speed=1x",
             "--loop=1000", "--quiet", f"--isolation={ISOLATION}",
             "--warm_pool=3", "--max_units=8", self.LOGGERS,
             f"--json={report}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        def settled():
            units = units_of(process.pid)
            time.sleep(0.5)  # none of them is still to become ready
            return len(units) >= 4 and units == units_of(process.pid) and units

        units = wait_for("units that stay", settled)
        os.kill(max(units), signal.SIGKILL)  # the youngest
        wait_for("another", lambda: set(units_of(process.pid)) - set(units))
        process.terminate()
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, said)
        told = json.loads(pathlib.Path(report).read_text())
        self.assertEqual(told["real"]["starts"]["killed"], 1)
        self.assertEqual(told["packets_released"], told["packets_in"])

    def test_nothing_that_is_parked_outlives_snf(self):
        process = subprocess.Popen(
            [PROGRAM, "replay", self.frames, "--clock=real", "--speed=1x",
             "--quiet", self.LOGGERS, f"--isolation={ISOLATION}",
             "--warm_pool=3"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        wait_for("units", lambda: len(units_of(process.pid)) >= 4)
        started, launcher = below(process.pid), self.launcher_of(process)
        process.kill()
        process.wait()
        self.wait_for_ends(started)
        self.assertEqual(leftovers(launcher), [])

    def test_is_refused_where_processes_stay(self):
        for flags, named in ((("--threads=3",), b"--threads"),
                             (("--loggers=on", "--faults=kill controller at "
                               "1s"), b"--faults"),
                             (("--pin",), b"--pin")):
            done, _ = self.replay("--warm_pool=1", *flags)
            self.assertEqual(done.returncode, USAGE)
            self.assertIn(b"--warm_pool", done.stderr)
            self.assertIn(named, done.stderr)


class WarmPoolWithLoggers(WarmPool):
    """The same where the loggers, which are one more process, stay."""
    LOGGERS, SPARES = "--loggers=on", 2  # for those that fail

    def test_processes_are_killed_while_they_come_and_go(self):
        """Also those that are parked, start or end just now."""
        capture = self.file("many_bursts.pcap", pcap(
            [(1 + 0.4 * burst + i / 2000, udp_frame(5000 + i % 40))
             for burst in range(12) for i in range(400)]))
        flags = (*self.PACED, "--flow_timeout=1h", "--unit_idle_timeout=20ms",
                 "--keep_warm=50ms", "--overload=wait", "--nf=chronicle",
                 "--policy=rotate", "--max_units=6")
        report = os.path.join(self.folder.name, "killed.json")
        process = subprocess.Popen(
            [PROGRAM, "replay", capture, *flags, self.LOGGERS, "--quiet",
             "--warm_pool=0", f"--isolation={ISOLATION}", f"--json={report}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        seed = int(os.environ.get("SNF_TEST_SEED", time.time_ns() % 1_000_000))
        rng, kills = random.Random(seed), 0
        while process.poll() is None:
            time.sleep(rng.uniform(0.01, 0.2))
            units = units_of(process.pid)
            if not units:
                continue
            try:
                os.kill(rng.choice(units), signal.SIGKILL)
                kills += 1
            except ProcessLookupError:
                pass
        said = process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.returncode, OK, (seed, said))
        told = json.loads(pathlib.Path(report).read_text())
        self.assertTrue(told["sound"], (seed, told["violation_messages"]))
        self.assertTrue(told["conserved"])
        self.assertEqual(told["packets_released"], told["packets_in"], seed)
        self.assertEqual(told["faults"]["packets_lost"], 0)
        # Processes came and went: which of them for want of use is chance.
        starts = told["real"]["starts"]
        self.assertGreater(starts["processes"], starts["most_processes"])
        self.assertGreater(told["faults"]["failures"], 0)
        self.assertGreater(kills, 5)
        done, quiet = self.replay(*flags[3:], capture=capture,
                                  isolation="thread")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(told["digest"], quiet["digest"], seed)

    def test_units_and_loggers_are_killed_while_processes_come_and_go(self):
        flags = (f"--nf={LASTING_NAT}", "--flow_timeout=1h",
                 "--overload=wait", self.LOGGERS)
        _, want = self.replay(*flags, capture=SMALL, isolation="thread")
        ended = kills = logger_failures = 0
        # Which faults a seed has is chance in real time: so until each was met.
        for seed in range(3, 13):
            if seed > 4 and ended and kills and logger_failures:
                break
            done, told = self.replay(
                *flags, "--warm_pool=1", "--unit_idle_timeout=2ms",
                "--keep_warm=20ms", f"--seed={seed}", "--faults=kill any "
                "p=0.0005; kill process of any logger p=0.0005",
                capture=SMALL, pace=("--clock=real", "--speed=5x"))
            self.assertEqual(done.returncode, OK, (seed, done.stderr))
            self.assertTrue(told["sound"], (seed, told["violation_messages"]))
            for what in ("packets_released", "digest_up_to_renaming"):
                self.assertEqual(told[what], want[what],
                                 (seed, what, told["packets_dropped"]))
            self.assertEqual(told["faults"]["packets_lost"], 0)
            ended += told["real"]["starts"]["ended"]
            kills += told["faults"]["kills"]
            logger_failures += told["faults"]["logger_failures"]
        self.assertGreater(ended, 0)
        self.assertGreater(kills, 0)
        self.assertGreater(logger_failures, 0)


class Intrusions(Isolation):
    TRIES = ("opened", "created", "connected", "forked", "traced", "killed",
             "executed", "mounted", "entered", "looked", "listened",
             "inherited", "called")

    def could(self, isolation):
        done, report = self.replay(f"--nf={INTRUDER}", "--threads=2",
                                   "--max_units=1", isolation=isolation)
        self.assertEqual(done.returncode, OK, done.stderr)
        counts = report["counters"]
        self.assertEqual(counts["tried"], 1)
        return {name for name in self.TRIES if counts[name]}

    def test_a_hostile_unit_can_do_nothing_to_the_host(self):
        if ISOLATION != "lxc":
            self.skipTest("only containers confine")
        self.assertEqual(self.could("lxc"), set())
        # Or the test could not fail.
        self.assertGreaterEqual(
            self.could("process"),
            {"opened", "created", "connected", "forked", "killed", "executed",
             "looked", "listened", "called"})

    def test_a_unit_has_no_more_threads_than_it_may(self):
        if ISOLATION != "lxc":
            self.skipTest("only containers have limits")
        done, report = self.replay(f"--nf={INTRUDER}:how=threads",
                                   "--threads=2", "--max_units=1")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertLess(report["counters"]["threads"], 8)

    def test_what_a_unit_writes_into_shared_memory_harms_its_run_alone(self):
        done, report = self.replay(f"--nf={INTRUDER}:how=spoil", "--threads=3",
                                   "--nf_patience=2s")
        # As the words happen to be: it is told of, or what was spoilt was of
        # no use to anybody. No signal, no crash.
        self.assertIn(done.returncode,
                      (OK, CHECK_FAILED, NF_FAILED, INTERNAL), done.stderr)
        if done.returncode != OK:
            self.assertNotEqual(done.stderr, b"")
        if report is not None:
            self.assertGreater(report["packets_in"], 0)

    def test_what_a_unit_lies_about_its_states_ends_nothing(self):
        if ISOLATION == "lxc":
            self.skipTest("in a container no file tells where its memory is")
        mark = self.file("mark", b"")
        os.unlink(mark)
        done, report = self.replay(
            f"--nf=chronicle | {INTRUDER}(how=lie,mark={mark})",
            "--host_state", "--policy=rotate", "--max_units=3", "--threads=5",
            "--loggers=on", "--max_flows=1024",
            pace=("--clock=real", "--speed=2x"))
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertTrue(os.path.exists(mark), "none was hostile")
        self.assertTrue(report["conserved"])
        self.assertEqual(report["packets_released"], report["packets_in"])
        records = report["host_records"]
        missed = records["missed"]
        self.assertGreater(records["read"], 0)
        # What was spoilt is counted by its kind, and pulled.
        self.assertGreater(missed["torn"] + missed["malformed"], 0, missed)

    # What a hostile unit does, and what is said of it.
    WORDS = {"report": "message", "state": "message", "entry": "log word",
             "itself": "message", "shared": r"\w+", "pull": "message"}

    def hostile(self, how, *flags, mark=None, after=30, pace=REAL):
        if ISOLATION == "lxc":
            self.skipTest("in a container no file tells where its memory is")
        marked = f",mark={mark}" if mark else ""
        nf = f"chronicle | {INTRUDER}(how={how},after={after}{marked})"
        return self.replay(f"--nf={nf}", "--max_units=2", "--policy=hash",
                           *flags, pace=pace, quiet=False)

    def test_a_unit_that_says_a_bad_word_ends_alone(self):
        mark = self.file("mark", b"")
        done, undisturbed = self.hostile("report", "--threads=4",
                                         "--loggers=on", mark=mark)
        self.assertEqual(done.returncode, OK, done.stderr)
        for how, word in self.WORDS.items():
            with self.subTest(how):
                os.unlink(mark)
                done, report = self.hostile(how, "--threads=4", "--loggers=on",
                                            mark=mark)
                said = done.stderr.decode()
                self.assertEqual(done.returncode, OK, said)
                self.assertTrue(os.path.exists(mark), "none was hostile")
                self.assertRegex(
                    said, r"unit loop [01]( \(process \d+\))? is killed: .*"
                    rf"[01] sent a bad word: {word} with ")
                self.assertRegex(said, "unit loop [01] is back as process")
                faults = report["faults"]
                self.assertEqual(faults["processes_hostile"], 1)
                self.assertEqual(faults["packets_lost"], 0)
                self.assertEqual(report["packets_released"], 4000)
                self.assertEqual(report["digest"], undisturbed["digest"])
                self.assertEqual(report["violations"], 0)
                # It has asked for 40 flows, half of them not its own.
                asked = faults["pulls_refused"] if how == "pull" else 0
                self.assertEqual(faults["pulls_refused"], asked)
                self.assertEqual(asked >= 10, how == "pull")
                self.assertEqual(pathlib.Path(mark).read_bytes(), b"")

    def ends_alone_beside_controllers(self, how, killed_for, kill, patience):
        """One unit is hostile while a controller is made; the run goes on."""
        mark = os.path.join(self.folder.name, how)
        done, report = self.hostile(
            how, "--threads=4", "--loggers=on", f"--nf_patience={patience}",
            f"--faults=kill controller p={kill}", mark=mark, after=10)
        said = done.stderr.decode()
        self.assertEqual(done.returncode, OK, said)
        self.assertTrue(os.path.exists(mark), "none was hostile")
        self.assertRegex(
            said, rf"unit loop [01] \(process \d+\) is killed: {killed_for}")
        self.assertRegex(said, "unit loop [01] is back as process")
        self.assertEqual(report["faults"]["processes_hostile"], 1)
        self.assertTrue(report["conserved"])
        self.assertEqual(report["violations"], 0)

    def test_a_bad_word_while_a_controller_is_made_ends_its_unit_alone(self):
        self.ends_alone_beside_controllers(
            "late", ".*[01] sent a bad word: message with ", 0.02, "30s")

    def test_a_unit_that_withholds_its_report_ends_alone(self):
        self.ends_alone_beside_controllers(
            "withhold", "it did not report to the new controller within ",
            0.05, "500ms")

    # A thread of the loggers says it: there must be packets until it has.
    SLOW = ("--clock=real", "--speed=1x", "--unit_capacity=none")

    def test_loggers_that_say_a_bad_word_end_alone(self):
        mark = os.path.join(self.folder.name, "loggers")
        done, report = self.hostile("loggers", "--threads=4", "--loggers=on",
                                    mark=mark, pace=self.SLOW)
        said = done.stderr.decode()
        self.assertEqual(done.returncode, OK, said)
        self.assertTrue(os.path.exists(mark), "none was hostile")
        self.assertRegex(said, r"the loggers \(process \d+\) are killed: the "
                         "logger of the loop of units 0 sent a bad word: "
                         "message with unit ")
        self.assertRegex(said, "loggers are back as process")
        faults = report["faults"]
        self.assertEqual(faults["loggers_hostile"], 1)
        self.assertEqual(faults["processes_hostile"], 0)
        self.assertEqual(report["packets_released"], 4000)
        self.assertEqual(report["violations"], 0)
        _, undisturbed = self.hostile("loggers", "--threads=4",
                                      "--loggers=on", mark=mark)
        self.assertEqual(undisturbed.get("faults", {}), {})
        self.assertEqual(report["digest"], undisturbed["digest"])

    def test_loggers_that_say_bad_words_in_a_row_end_the_run(self):
        done, report = self.hostile("loggers", "--threads=4", "--loggers=on",
                                    "--loop=100", after=1, pace=self.SLOW)
        said = done.stderr.decode()
        self.assertRegex(said, "sent a bad word: .* and so did 3 earlier "
                         "processes of the loggers")
        self.assertEqual(done.returncode, INTERNAL, said)
        self.assertTrue(report["conserved"])

    def test_units_that_say_bad_words_in_a_row_end_the_run(self):
        done, report = self.hostile("report", "--threads=4", "--loggers=on")
        said = done.stderr.decode()
        self.assertRegex(said, "sent a bad word: .* and so did 3 earlier "
                         "processes of unit loop [01]")
        self.assertEqual(done.returncode, INTERNAL, said)
        self.assertTrue(report["conserved"])

    def test_without_loggers_a_bad_word_ends_the_run(self):
        done, report = self.hostile("report", "--threads=3", after=0)
        self.assertRegex(done.stderr.decode(),
                         "sent a bad word: message with ")
        self.assertEqual(done.returncode, INTERNAL, done.stderr)
        self.assertTrue(report["conserved"])

    # Each flow stays with its unit, whose state nobody else gets.
    APART = ("--policy=hash", "--max_units=2", "--flow_timeout=1h",
             "--state=reactive")

    def marked(self, packets=4000, seconds=4):
        """Packets that name their flow, as the scanner wants them."""
        return self.file("marked.pcap", pcap(
            [(1 + i * seconds / packets, udp_frame(
                5000 + i % 40, struct.pack(">I6sH", i, b"s1n2f3", i % 40)))
             for i in range(packets)]))

    def test_a_unit_finds_nothing_of_others_in_the_memory_that_it_shares(self):
        marked = self.marked()
        for flags in (("--threads=3",), ("--threads=4", "--loggers=on")):
            with self.subTest(flags):
                done, report = self.replay(f"--nf={SCANNER}", *self.APART,
                                           *flags, capture=marked)
                self.assertEqual(done.returncode, OK, done.stderr)
                counts = report["counters"]
                self.assertEqual(counts["looked"], 2)
                self.assertGreater(counts["own"], 100)
                self.assertEqual(counts["others"], 0)
        # Or the test could not fail.
        done, report = self.replay(f"--nf={SCANNER}", *self.APART,
                                   "--threads=3", capture=marked,
                                   isolation="thread")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertGreater(report["counters"]["others"], 0)

    def test_a_unit_that_takes_all_memory_is_ended(self):
        if ISOLATION != "lxc":
            self.skipTest("only containers have limits")
        done, report = self.replay(f"--nf={INTRUDER}:how=memory", "--threads=2",
                                   "--nf_patience=60s")
        self.assertRegex(done.stderr.decode(), "unit loop 0 .* was killed by "
                         "signal 9|was ended by SIGABRT")
        self.assertTrue(report["conserved"])

    def test_users_other_than_root_are_told_what_to_do(self):
        if ISOLATION != "lxc":
            self.skipTest("only containers need root")
        copy = self.file("copy.pcap", pathlib.Path(self.frames).read_bytes())
        os.chmod(self.folder.name, 0o755)
        os.chmod(copy, 0o644)
        done = subprocess.run(
            [PROGRAM, "replay", copy, *REAL, "--isolation=lxc"], user=65534,
            group=65534, extra_groups=[], capture_output=True, check=False)
        self.assertEqual(done.returncode, PERMISSION, done.stderr)
        self.assertRegex(done.stderr.decode(),
                         "containers need root; --isolation=process")

    def test_control_groups_that_are_hidden_are_told_of(self):
        if ISOLATION != "lxc":
            self.skipTest("only containers need control groups")
        done = subprocess.run(
            ["unshare", "--mount", "--propagation=private", "sh", "-c",
             'mount -t tmpfs none /sys/fs/cgroup && exec "$0" "$@"',
             PROGRAM, "replay", self.frames, *REAL, "--isolation=lxc"],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
        self.assertIn("/sys/fs/cgroup is empty: containers need control groups",
                      done.stderr)


if __name__ == "__main__":
    # Orphans come to this process, which waits for them.
    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if ISOLATION == "lxc" and os.geteuid() != 0:
        print("containers need root: skipped")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

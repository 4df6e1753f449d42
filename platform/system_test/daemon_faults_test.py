#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `snf up` outlives: processes that are killed or stand still, interfaces
that go and come back, a full disk; and that it leaves nothing, however it ends.

    client eth0 ── lan0 [ snf up, units, loggers ] wan0 ── eth0 server

Wants root, and is skipped without.

Usage: daemon_faults_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True  # nothing beside the sources
import control_test
import run_test as net
from command_case import OK, USAGE, below, is_alive, wait_for
from control_test import (FOLDER, NAME, UNAVAILABLE, is_of_program, processes,
                          told, units)
from daemon_case import send_external_to
from live_kills_test import LOGGERS, PROCESSES, STAY, UNITS, processes_of
from run_test import CLIENT, EXTERNAL4, MIDDLE, PORTS, SERVER4, ip, peer

CHAIN = f"--nf=firewall | monitor | nat(ip={EXTERNAL4})"
WITHOUT_TABLES = f"--nf=firewall | nat(ip={EXTERNAL4})"


def mounts():
    return set(pathlib.Path("/proc/mounts").read_text().splitlines())


class DaemonFaults(control_test.Control):
    def up(self, *words):
        said = super().up(f"--json={self.folder}/report.json", *words)
        self.pid, = processes()
        return said

    def log(self):
        return (FOLDER / f"{NAME}.log").read_text()

    def part(self, name):
        return processes_of(self.pid, name)

    @contextlib.contextmanager
    def traffic(self):
        """Echoes by 20 connections at a time, without end, none of which may
        fail."""
        send_external_to()
        stop, wrong, rounds = threading.Event(), [], []

        def talk():
            while not stop.is_set() and not wrong:
                try:
                    lines = peer(CLIENT, "tcp", SERVER4, 20, 100_000)
                    (rounds if lines == ["20 right"] else wrong).append(lines)
                except (AssertionError, subprocess.SubprocessError) as error:
                    wrong.append(str(error))
        thread = threading.Thread(target=talk)
        with self.server():
            thread.start()
            try:
                yield
            finally:
                stop.set()
                thread.join()
        self.assertEqual(wrong, [])
        self.assertTrue(rounds)

    def check_down(self):
        report = self.down()
        self.check_sound(report)
        self.assertEqual(
            {reason: packets for reason, packets
             in report["packets_dropped"].items()
             if packets and reason not in ("no_mapping", "nf:nat.not_ipv4")}, {})
        return report

    def some_packets_later(self, unit=None):
        def count():
            return sum(u["packets"] for i, u in units().items()
                       if unit is None or i == unit)
        before = count()
        wait_for("packets", lambda: count() > before + 200)

    # --- Processes

    def test_kills_units_and_loggers_when_it_is_told_to(self):
        self.up(*PROCESSES, CHAIN)
        with self.traffic():
            wait_for("unit 0", lambda: units().get(0, {}).get("packets"))
            before = self.part(UNITS)
            said = told("kill", "0")
            pid = int(re.match(r"Killed process (\d+), with units 0\b",
                               said).group(1))
            self.assertIn(pid, before)
            wait_for("another process",
                     lambda: len(self.part(UNITS)) == len(before)
                     and pid not in self.part(UNITS))
            self.some_packets_later()
            before, = self.part(LOGGERS)
            self.assertEqual(told("kill", "loggers"),
                             f"Killed process {before} of the loggers.\n")
            wait_for("other loggers", lambda: self.part(LOGGERS)
                     and before not in self.part(LOGGERS))
            self.some_packets_later()
            wait_for("word of it", lambda: "loggers are back" in self.log())
            self.refused(UNAVAILABLE, ["unit 63 does not run"], "kill", "63")
            self.refused(USAGE, ["no unit 4094"], "kill", "4094")
            self.refused(USAGE, ['"loger"'], "kill", "loger")
            log = self.log()
        self.assertIn(f"process {pid}) was killed by signal 9, with units 0",
                      log)
        faults = self.check_down()["faults"]
        self.assertEqual((faults["kills"], faults["logger_kills"]), (1, 1))
        self.assertEqual(faults["packets_lost"], 0)

    def test_kills_nobody_without_whom_it_could_not_go_on(self):
        for flags in ([], ["--loggers=on"], ["--isolation=process"]):
            self.up(*flags)
            for victim in ("0", "loggers"):
                self.refused(UNAVAILABLE, ["only processes with loggers"],
                             "kill", victim)
            self.down()

    def test_loggers_that_alone_have_something_are_not_killed(self):
        for chain, alone in (
                (WITHOUT_TABLES, "clocks of units that have failed"),
                (CHAIN, "operations on tables of ended units")):
            self.up(*PROCESSES, chain)
            with self.server():
                send_external_to()
                self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 3)), 3)
            # No packet is under way, so nobody looks for who stands still.
            loggers, = self.part(LOGGERS)
            os.kill(loggers, signal.SIGSTOP)
            told("kill", "0")
            refused = ("recovery from the previous kill is still in progress: "
                       f"only loggers have {alone}\n")
            wait_for(alone, lambda: refused in
                     control_test.snf("kill", "loggers").stderr)
            self.assertTrue(is_alive(loggers))
            os.kill(loggers, signal.SIGCONT)
            wait_for("a kill", self.can_kill_loggers)
            wait_for("other loggers", lambda: self.part(LOGGERS)
                     and loggers not in self.part(LOGGERS))
            self.check_down()

    def test_processes_that_stand_still_are_killed_and_replaced(self):
        self.up(*PROCESSES, CHAIN, "--unit_capacity=30Mbps",
                "--unit_start_delay=1ms")
        with self.traffic():
            for name in (UNITS, LOGGERS):
                wait_for("unit 0", lambda: units().get(0, {}).get("packets"))
                self.some_packets_later()
                victim = self.part(name)[0]
                os.kill(victim, signal.SIGSTOP)
                wait_for(f"end of {name}", lambda: not is_of_program(victim))
                self.some_packets_later()
            wait_for("word of it", lambda: "loggers are back" in self.log())
            log = self.log()
        self.assertRegex(log, r"unit loop \d \(process \d+\) made no progress for "
                              r"1.00 s, and is killed")
        self.assertRegex(log, r"the loggers \(process \d+\) made no progress")
        faults = self.check_down()["faults"]
        self.assertEqual(faults["packets_lost"], 0)
        self.assertEqual(faults["logger_failures"], 1)

    def test_a_process_that_stands_still_for_a_moment_is_none(self):
        self.up(*PROCESSES)
        with self.traffic():
            self.some_packets_later()
            before = self.part(UNITS) + self.part(LOGGERS)
            for victim in before:
                os.kill(victim, signal.SIGSTOP)
                os.kill(victim, signal.SIGCONT)
            self.some_packets_later()
            self.assertEqual(self.part(UNITS) + self.part(LOGGERS), before)
        self.check_down()

    def launcher(self):
        found, = [pid for pid in below(self.pid)
                  if "unit-process" in pathlib.Path(
                      f"/proc/{pid}/cmdline").read_text()
                  and processes_of(pid, UNITS)]
        return found

    def test_units_and_the_launcher_may_end_in_any_way(self):
        self.up(*PROCESSES, CHAIN)
        with self.traffic():
            for end in (signal.SIGSEGV, signal.SIGTERM, signal.SIGSYS):
                wait_for("unit 0", lambda: units().get(0, {}).get("packets"))
                before = self.part(UNITS)
                os.kill(before[0], end)
                wait_for("another process", lambda: len(self.part(UNITS)) ==
                         len(before) and before[0] not in self.part(UNITS))
                self.some_packets_later()
            # A launcher that stands still tells of no end.
            launcher = self.launcher()
            os.kill(launcher, signal.SIGSTOP)
            before = self.part(UNITS)
            os.kill(before[0], signal.SIGKILL)
            wait_for("another process", lambda: len(self.part(UNITS)) ==
                     len(before) and before[0] not in self.part(UNITS))
            self.some_packets_later()
            log = self.log()
        self.assertIn(f"the launcher of units (process {launcher}) was stopped "
                      "for 1.00 s, and is continued", log)
        self.assertEqual(self.check_down()["faults"]["packets_lost"], 0)

    def test_all_processes_begin_anew_with_the_launcher(self):
        for flags in ([], ["--keep=60s"]):
            with self.subTest(flags):
                self.up(*PROCESSES, "--nf=firewall", *flags)
                with self.traffic():
                    for _ in range(2):
                        self.some_packets_later()
                        launcher = self.launcher()
                        before = below(launcher)
                        os.kill(launcher, signal.SIGKILL)
                        wait_for("word of it", lambda: self.log().count(
                            "chain 1 is back") == _ + 1)
                        self.assertFalse(any(map(is_alive, before)))
                        self.some_packets_later()
                    self.assertEqual(processes(), {self.pid})
                    if flags:
                        launcher = self.launcher()
                        self.kill_daemon()
                        self.up(*PROCESSES, "--nf=firewall", *flags)
                        self.assertRegex(self.log(), r"took over [1-9]\d* flows")
                        self.some_packets_later()
                        # A restarted chain adopts no processes.
                        self.fail_chain(launcher)
                        self.some_packets_later()
                        self.assertNotIn("did not answer", self.log())
                report = self.down()
                self.assertEqual(report["violation_messages"], [])
                self.assertTrue(report["conserved"])

    def fail_chain(self, launcher):
        """Kills units and loggers at once: no process has their state."""
        def times():
            return self.log().count("chain 1 is back")
        before = times()
        # On a busy machine units may be back before the loggers are killed.
        for _ in range(3):
            for pid in processes_of(launcher, UNITS, LOGGERS):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            end = time.monotonic() + 15
            while times() == before and time.monotonic() < end:
                time.sleep(0.05)
            if times() > before:
                return
        self.fail("the chain has not failed, or is not back")

    def test_units_and_loggers_at_once_are_not_its_end(self):
        self.up(*PROCESSES, "--nf=firewall")
        with self.traffic():
            self.some_packets_later()
            self.fail_chain(self.launcher())
            self.some_packets_later()
            self.assertIn("units and their loggers failed at once", self.log())
        self.assertTrue(self.down()["conserved"])

    # --- Signals

    def test_opens_its_log_again_on_sighup(self):
        log = self.folder / "log"
        self.up("--nf=firewall", f"--log={log}")
        for count, sent in enumerate((signal.SIGHUP, signal.SIGUSR1), 1):
            with self.subTest(sent):
                log.rename(f"{log}.{count}")
                os.kill(self.pid, sent)
                wait_for("its log", lambda: log.exists() and
                         "the log was opened again" in log.read_text())
                told("set", "alpha=0.5")
                self.assertIn("alpha", log.read_text())
                self.assertEqual(processes(), {self.pid})
        self.down()

    def test_ends_well_by_any_signal_and_says_so(self):
        for sent in (signal.SIGQUIT, signal.SIGUSR2, signal.SIGTERM):
            with self.subTest(sent):
                log = self.folder / f"log.{sent.name}"
                self.up(*PROCESSES, f"--log={log}")
                others = below(self.pid)
                os.kill(self.pid, sent)
                wait_for("its end", lambda: not is_alive(self.pid))
                self.assertIn(f"ends by {sent.name}", log.read_text())
                self.assertFalse(any(map(is_alive, others)))
                self.assertEqual(list(FOLDER.glob(f"{NAME}*")), [])

    # --- The daemon itself

    def kill_daemon(self):
        os.kill(self.pid, signal.SIGKILL)
        wait_for("its end", lambda: not is_alive(self.pid))

    def test_flows_outlive_a_daemon_that_is_killed(self):
        flags = [*PROCESSES, WITHOUT_TABLES, "--keep=60s"]
        self.up(*flags)
        with self.traffic():
            wait_for("unit 0", lambda: units().get(0, {}).get("packets"))
            others = self.part(UNITS) + self.part(LOGGERS)
            for _ in range(3):
                self.some_packets_later()
                self.kill_daemon()
                self.up(*flags)  # in time for the connections
                self.assertRegex(self.log(), r"took over \d+ flows and \d+ packets")
                self.some_packets_later()
                self.assertTrue(all(map(is_alive, others)))
        self.check_down()
        self.assertFalse(any(map(is_alive, others)))
        self.assertEqual([path for path in FOLDER.glob(f"{NAME}*")
                          if path.suffix != ".log"], [])

    def test_flows_outlive_a_daemon_whatever_became_of_its_units(self):
        self.check_units_and_daemon_die("process")

    def test_so_do_states_that_units_show(self):
        report = self.check_units_and_daemon_die(
            "process", "--host_state", cases=("just before", "while it waits"))
        self.assertGreater(report["host_records"]["shown"], 0)
        self.assertEqual(report["host_records"]["missed"]["malformed"], 0)

    def test_so_they_do_in_containers(self):
        try:
            ctypes.CDLL("liblxc.so.1")
        except OSError as error:
            self.skipTest(f"wants LXC (Debian's package liblxc1): {error}")
        self.check_units_and_daemon_die("lxc")

    def launcher(self):
        """Outlives the daemon, which must be the first one."""
        launcher, = [pid for pid in below(self.pid)
                     if "unit-process" in pathlib.Path(
                         f"/proc/{pid}/cmdline").read_text()
                     and processes_of(pid, UNITS)]
        return launcher

    # When a unit's process ends: before its daemon, or after it.
    CASES = ("long before", "just before", "while it waits", "after")

    def check_units_and_daemon_die(self, isolation, *more, cases=CASES):
        flags = [f"--isolation={isolation}", *STAY, WITHOUT_TABLES,
                 "--keep=60s", *more]
        self.up(*flags)
        launcher = self.launcher()

        def a_unit():
            return processes_of(launcher, UNITS)[0]

        def kill_until_it_waits(victim):
            """Kills the loop's processes, until the next one has to wait: the
            daemon has seen an end, and has started nothing since. Containers
            start too slowly for that, so there the kills end after a while."""
            others = set(processes_of(launcher, UNITS)) - {victim}
            self.assertEqual(len(others), 1)
            last = time.monotonic()
            end = last + 5
            while time.monotonic() < min(last + 0.3, end):
                for pid in set(processes_of(launcher, UNITS)) - others:
                    last = time.monotonic()
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        with self.traffic():
            wait_for("unit 0", lambda: units().get(0, {}).get("packets"))
            for when in cases:
                with self.subTest(when):
                    self.some_packets_later()
                    victim = a_unit()
                    if when != "after":
                        os.kill(victim, signal.SIGKILL)
                    if when == "while it waits":
                        kill_until_it_waits(victim)
                    if when == "long before":
                        wait_for("another", lambda: "is back as process"
                                 in self.log())
                        self.some_packets_later()
                    self.kill_daemon()
                    if when == "after":
                        os.kill(victim, signal.SIGKILL)
                    self.up(*flags)
                    self.assertRegex(self.log(), r"took over [1-9]\d* flows")
                    self.some_packets_later()
                    wait_for("all of them", lambda: len(processes_of(
                        launcher, UNITS)) == 2)
                    self.assertFalse(is_alive(victim))
                    self.assertTrue(is_alive(launcher))
            # Loggers that were replaced are as good, and can be once more.
            for life in range(2):
                self.some_packets_later()
                wait_for("a kill", lambda: self.can_kill_loggers())
                wait_for("word of it", lambda: "loggers are back"
                         in self.log())
                self.some_packets_later()
                if life == 0:
                    self.kill_daemon()
                    self.up(*flags)
                    self.assertRegex(self.log(),
                                     r"took over [1-9]\d* flows")
        return self.check_down()

    def can_kill_loggers(self):
        return subprocess.run(
            net.in_network(MIDDLE, net.PROGRAM, "kill", f"--name={NAME}",
                           "loggers"), capture_output=True).returncode == OK

    def set_chain(self, chain):
        subprocess.run(net.in_network(MIDDLE, net.PROGRAM, "chain", "set",
                                      f"--name={NAME}", chain),
                       check=True, capture_output=True)

    def test_chains_that_were_set_outlive_a_daemon(self):
        """Flows that have begun stay with their chain, and a NAT's port with
        its flow; those that begin are the newest chain's."""
        flags = [*PROCESSES, WITHOUT_TABLES, "--keep=60s"]
        chains = [f"nat(ip={EXTERNAL4})", f"passthrough | nat(ip={EXTERNAL4})"]
        self.up(*flags)
        others = []

        def flows():
            return {int(number): int(flows.replace(",", "")) for number, flows
                    in re.findall(r"\n  chain (\d+) +([\d,]+) flows",
                                  told("status"))}
        with self.traffic():
            wait_for("unit 0", lambda: units().get(0, {}).get("packets"))
            for number, chain in enumerate(chains, 2):
                self.some_packets_later()
                self.set_chain(chain)
                wait_for("its flows", lambda: flows().get(number))
                before = flows()
                others += below(self.pid)
                self.kill_daemon()
                self.up(*flags)
                self.assertEqual(set(flows()), set(before))
                for older in range(1, number):
                    self.assertEqual(flows()[older], before[older])
                self.assertTrue(flows()[number])
                self.assertIn(chain, told("status"))
                others = [pid for pid in others if is_alive(pid)]
                # Launchers, units and loggers of all chains.
                self.assertGreaterEqual(len(others), 4 * number)
                self.some_packets_later()
        self.check_down()
        self.assertFalse(any(map(is_alive, others)))
        self.assertEqual([path for path in FOLDER.glob(f"{NAME}*")
                          if path.suffix != ".log"], [])

    def test_chains_are_set_and_kept_with_default_flags(self):
        """Units come and go by default, but not where they are kept."""
        flags = ["--isolation=process", "--loggers=on", WITHOUT_TABLES,
                 "--keep=60s"]
        self.up(*flags)
        self.set_chain("passthrough")
        self.kill_daemon()
        self.up(*flags)
        self.assertIn(": passthrough under policy", told("status"))
        self.set_chain("monitor")
        self.down()

    def test_a_file_of_the_nf_that_changed_is_read_anew(self):
        rules = self.folder / "rules.txt"
        rules.write_text("allow any\n")
        flags = [*PROCESSES, f"--nf=firewall(rules={rules},default=deny)",
                 "--keep=60s"]
        self.up(*flags)
        self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 3)), 3)
        self.kill_daemon()
        self.up(*flags)
        self.assertIn("goes on with", told("status"))
        self.kill_daemon()
        rules.write_text("deny  any\n")
        self.up(*flags)
        self.assertRegex(
            self.log(), r"begins anew: launcher: the kept processes have file "
            rf'{rules} \(firewall: rules\) "10 bytes, hash \w+", not "10 bytes')
        self.assertNotIn("--max_units", self.log())
        self.assertNotIn("goes on with", told("status"))
        self.down()

    def kill_loggers_and_a_unit(self, launcher):
        """One after the other: at once is outside of the promise."""
        for name, back in ((LOGGERS, "loggers are back"),
                           (UNITS, "recovered")):
            before = self.log().count(back)
            os.kill(processes_of(launcher, name)[0], signal.SIGKILL)
            wait_for(back, lambda: self.log().count(back) > before)
            time.sleep(0.5)  # until the others have what they need
        wait_for("all units", lambda: self.log().count("was killed") ==
                 self.log().count(" is back") +
                 self.log().count("loggers are back"))

    def test_sums_of_shared_tables_outlive_a_daemon(self):
        flags = [*PROCESSES, CHAIN, "--keep=60s"]
        send_external_to()
        lives, pings, launcher = 4, 20, None
        for life in range(lives):
            self.up(*flags)
            self.assertEqual("goes on with" in told("status"), life > 0)
            # Units and loggers die as well, before and after the pings.
            launcher = launcher or self.launcher()
            self.kill_loggers_and_a_unit(launcher)
            self.assertEqual(len(peer(CLIENT, "ping", SERVER4, pings)), pings)
            if life < lives - 1:
                self.kill_daemon()
        report = self.check_down()
        hosts = {row["host"]: row for row in
                 report["nf_reports"]["monitor.Top talkers"]}
        self.assertEqual((hosts[SERVER4]["packets_sent"],
                          hosts[SERVER4]["packets_received"]),
                         (lives * pings, lives * pings))

    def test_it_is_seen_that_processes_wait_for_a_daemon(self):
        flags = [*PROCESSES, WITHOUT_TABLES, "--keep=60s"]
        self.up(*flags)
        others = below(self.pid)
        self.assertRegex(told("status"), r"\n  keep +60.0 s if it is killed\n")
        told("set", "alpha=0.5")  # --keep is no flag of the run itself
        self.assertEqual(self.leftovers(), {})
        self.kill_daemon()
        self.refused(UNAVAILABLE, [
            f'no daemon "{NAME}" runs; ', "of units and loggers wait 5",
            f" s more for snf up --name={NAME} with the flags of the one"],
            "status")
        self.assertIn(f"units and loggers of process {self.pid}, which was killed",
                      self.leftovers()[f"{FOLDER}/{NAME}.keep"])
        self.assertNotIn("launcher", str(self.leftovers()))
        self.up(*flags)
        self.assertRegex(told("status"), r"\n  keep +60.0 s if it is killed; "
                                         r"goes on with \d+ flows? of one that was\n")
        self.assertEqual(self.leftovers(), {})
        self.assertTrue(all(map(is_alive, others)))
        self.kill_daemon()
        self.assertIn("have ended", told("down"))
        self.assertFalse(any(map(is_alive, others)))
        self.refused(UNAVAILABLE, [f"snf up --name={NAME} starts one"], "down")

    def test_what_waits_for_a_daemon_ends_if_another_one_comes_or_none(self):
        self.up(*PROCESSES, WITHOUT_TABLES, "--keep=60s")
        others = [self.pid, *below(self.pid)]
        self.kill_daemon()
        self.assertTrue(all(map(is_alive, others[1:])))
        self.up(*PROCESSES, "--nf=passthrough", "--keep=500ms")
        self.assertIn("begins anew: ", self.log())
        self.assertFalse(any(map(is_alive, others)))
        others = [self.pid, *below(self.pid)]
        self.kill_daemon()
        wait_for("end", lambda: not any(map(is_alive, others)))
        self.up(*PROCESSES, WITHOUT_TABLES, "--keep=60s")
        others = [self.pid, *below(self.pid)]
        self.kill_daemon()
        self.up("--nf=monitor")  # which does not go on with anything
        self.assertFalse(any(map(is_alive, others)))
        self.down()
        for flags, why in (([], "wants --isolation=process or lxc: threads"),
                           (["--isolation=process"], "wants --loggers=on"),
                           ([*PROCESSES, "--upgrade"], "is not for --upgrade")):
            self.refused(USAGE, [f"--keep: {why}"], "up", *PORTS, "--keep=1s",
                         *flags)

    # --- Interfaces

    def test_an_interface_that_goes_down_or_away_comes_back(self):
        self.silence_ipv6()
        self.up(*PROCESSES, CHAIN)
        send_external_to()

        def make():
            ip("-n", CLIENT, "link", "add", "eth0", "type", "veth", "peer",
               "name", "lan0", "netns", MIDDLE)
            ip("-n", CLIENT, "link", "set", "eth0", "up")
            ip("-n", CLIENT, "addr", "add", f"{net.CLIENT4}/24", "dev", "eth0")
            ip("-n", MIDDLE, "link", "set", "lan0", "up")
            send_external_to()
        for times, (word, lose, bring) in enumerate((
                ("lan0 is down",
                 lambda: ip("-n", MIDDLE, "link", "set", "lan0", "down"),
                 lambda: ip("-n", MIDDLE, "link", "set", "lan0", "up")),
                ("no such interface",
                 lambda: ip("-n", MIDDLE, "link", "del", "lan0"), make)), 1):
            with self.subTest(word):
                self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 3)), 3)
                lose()
                wait_for("word of it", lambda: word in self.log())
                self.assertIn("dropped until it is back", self.log())
                wait_for("status", lambda: re.search(
                    r"inside +lan0: DOWN for \S+ m?s; ", told("status")))
                bring()
                wait_for("its return", lambda: self.log().count(
                    "lan0 is back") == times)
                wait_for("status", lambda: "DOWN" not in told("status"))
                self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 3)), 3)
        with self.traffic():
            self.some_packets_later()
        report = self.check_down()
        ports = report["ports"]
        self.assertEqual(
            sum(ports[p]["received"] for p in ("inside", "outside")),
            report["packets_in"])

    # --- A disk

    def test_goes_on_with_a_full_disk_and_says_so_later(self):
        disk = self.folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk],
                       check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        log = disk / "log"
        self.up(*PROCESSES, CHAIN, f"--log={log}")
        filler = disk / "filler"
        with contextlib.suppress(OSError), open(filler, "wb") as file:
            while True:
                file.write(bytes(4_096))
        with self.traffic():
            wait_for("unit 0", lambda: units().get(0, {}).get("packets"))
            size = log.stat().st_size
            for i in range(1_000):  # more than is left of a page
                told("set", f"alpha=0.{i % 9 + 1}")
                if i > 20 and log.stat().st_size % 4_096 == 0:
                    break
            told("kill", "0")
            self.some_packets_later()
            self.assertLess(log.stat().st_size, size + 8_192)
            filler.unlink()
            told("set", "alpha=0.5")
            self.assertIn("could not be written", log.read_text())
            told("set", "alpha=0.6")
            self.assertEqual(log.read_text().count("could not be written"), 1)
        self.check_down()

    # --- What is left

    @staticmethod
    def system():
        """What of this machine a daemon with containers might change."""
        def names(*patterns):
            return {str(path) for pattern in patterns
                    for path in pathlib.Path("/").glob(pattern)}

        links = subprocess.run(["ip", "-n", MIDDLE, "-o", "link"],
                               capture_output=True, text=True, check=True)
        programs, memory = set(), set()
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            if is_of_program(entry.name):
                programs.add(entry.name)
            with contextlib.suppress(OSError):
                for file in (entry / "fd").iterdir():
                    with contextlib.suppress(OSError):
                        target = os.readlink(file)
                        if "memfd:snf" in target:
                            memory.add((entry.name, target))
        return {
            "processes": programs,
            "memory": memory,
            "containers": names("run/snf-units/*", "var/lib/lxc/snf*",
                                "run/lxc/lock/*snf*"),
            "cgroups": names("sys/fs/cgroup/snf*", "sys/fs/cgroup/*/snf*"),
            "links": set(re.findall(r"^\d+: (\S+?)[@:]", links.stdout, re.M)),
            "files": names("run/snf/*", "dev/shm/snf*",
                           f"{tempfile.gettempdir().lstrip('/')}/snf*"),
            "sockets": {line.split()[-1] for line in pathlib.Path(
                "/proc/net/unix").read_text().splitlines() if "snf" in line},
            "mounts": mounts(),
        }

    def check_same(self, before):
        def same():
            return self.system() == before
        with contextlib.suppress(AssertionError):
            wait_for("the system as it was", same)
        now = self.system()
        for what, things in before.items():
            self.assertEqual(now[what] - things, set(), what)
            self.assertEqual(things - now[what], set(), what)

    def test_leaves_nothing_when_it_ends_and_the_next_nothing_of_a_killed_one(
            self):
        # The first container of all makes folders that stay.
        flags = [*STAY, "--isolation=lxc", CHAIN]
        self.up(*flags)
        self.down()
        (self.folder / "report.json").unlink()
        before = self.system()
        self.up(*flags)
        with self.traffic():
            self.some_packets_later()
            told("kill", "0")
            self.some_packets_later()
        self.assertNotEqual(self.system(), before)
        self.check_down()
        self.check_same(before)
        self.assertEqual(self.leftovers(), {})
        # By SIGKILL: its processes end, and the next one removes the rest. What
        # units kept is lost, so this is without an NF that would miss it.
        flags.remove(CHAIN)
        for _ in range(2):
            self.up(*flags)
            started = [self.pid, *below(self.pid)]
            with self.traffic():
                self.some_packets_later()
                os.kill(self.pid, signal.SIGKILL)
                wait_for("end", lambda: not any(map(is_alive, started)))
                self.up(*flags)  # in time for the connections
                self.some_packets_later()
            self.down()
            for path in FOLDER.glob(f"{NAME}.log"):
                path.unlink()
            self.check_same(before)
        self.assertEqual(self.leftovers(), {})


# What control_test.py tests itself.
for name in [name for name in dir(control_test.Control)
             if name.startswith("test_")]:
    setattr(DaemonFaults, name, None)


if __name__ == "__main__":
    net.main("DaemonFaults")

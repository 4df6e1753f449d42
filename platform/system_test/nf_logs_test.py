#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf up --nf_logs`: each alert of live traffic is a line, once, while processes
of units and loggers are killed, and while files are rotated.

    client eth0 ── lan0 [ snf up, units, loggers ] wan0 ── eth0 server

Wants root, and is skipped without.

Usage: nf_logs_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import collections
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import daemon_faults_test
import run_test as net
from command_case import OK, PATIENCE_S, USAGE, wait_for
from control_test import FOLDER, NAME
from ipfix_test import BEGINS, ENDS, NAT_EVENT, decode
from live_kills_test import LOGGERS, PROCESSES, UNITS, Killer
from run_test import CLIENT, EXTERNAL4, PROGRAM

SYN = 0x02
RULES = "alert tcp any any -> any any (msg:\"begins\"; flags:S; sid:1;)\n"


def syns(capture):
    """How many packets with SYN alone left, by the end that sent them."""
    data = pathlib.Path(capture).read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    found, at = collections.Counter(), 24
    while at < len(data):
        length, = struct.unpack_from(order + "I", data, at + 8)
        frame = data[at + 16:at + 16 + length]
        at += 16 + length
        if frame[12:14] != b"\x08\x00" or frame[23] != 6:
            continue
        tcp = 14 + 4 * (frame[14] & 15)
        if frame[tcp + 13] & 0x3F == SYN:
            found[".".join(map(str, frame[26:30])),
                  struct.unpack_from(">H", frame, tcp)[0]] += 1
    return found


def lines_of(*files):
    text = "".join(file.read_text() for file in files)
    return [json.loads(line) for line in text.splitlines()]


class NfLogs(daemon_faults_test.DaemonFaults):
    def setUp(self):
        super().setUp()
        self.logs = self.folder / "logs"
        self.alerts = self.logs / "ids.alerts.log"
        self.rules = self.folder / "some.rules"
        self.rules.write_text(RULES)
        self.out = self.folder / "out.pcap"
        self.nf = f"--nf=ids(cache=off,max_alerts=0,rules={self.rules})"

    def up_with_logs(self, *words):
        self.up(f"--nf_logs={self.logs}", f"--out={self.out}", "--force", *words)

    def compare(self, report, *files, least=20):
        """Each packet that an alert is about left once, and is a line once."""
        logged = collections.Counter(
            (a["src_ip"], a["src_port"]) for a in lines_of(*files))
        self.assertEqual(logged, syns(self.out))
        self.assertGreaterEqual(sum(logged.values()), least)
        counts = report["nf_log"]
        self.assertEqual(counts["released"], sum(logged.values()))
        for lost in ("no_room", "no_buffer", "batches_refused", "queue_full",
                     "write_failed"):
            self.assertEqual(counts[lost], 0, lost)

    def kill(self, name):
        before = self.part(name)
        os.kill(before[0], signal.SIGKILL)
        wait_for("another process", lambda: len(self.part(name)) == len(before)
                 and before[0] not in self.part(name))

    def test_each_alert_is_logged_once_while_processes_are_killed(self):
        self.up_with_logs(*PROCESSES, self.nf)
        with self.traffic():
            wait_for("a line", self.alerts.read_text)
            with Killer(self.pid, FOLDER / f"{NAME}.log",
                        first=[LOGGERS] + 5 * [UNITS]) as killer:
                wait_for("kills", lambda: not killer.first)
            wait_for("rest", killer.all_are_well)
            self.some_packets_later()
        report = self.down()
        self.check_sound(report)
        self.assertEqual(report["packets_dropped"]["unit_failed"], 0)
        self.compare(report, self.alerts, least=100)

    def test_files_are_opened_again_after_a_rotation(self):
        self.up_with_logs(self.nf)
        rotated = []
        with self.traffic():
            for sent in (signal.SIGUSR1, signal.SIGHUP):
                wait_for("a line", lambda: self.alerts.exists()
                         and self.alerts.read_text())
                rotated.append(self.logs / f"ids.alerts.log.{sent.name}")
                self.alerts.rename(rotated[-1])
                os.kill(self.pid, sent)
            wait_for("a line", lambda: self.alerts.exists()
                     and self.alerts.read_text())
        self.compare(self.check_down(), *rotated, self.alerts)

    def test_bindings_are_ipfix_across_a_rotation(self):
        ipfix = self.folder / "nat.ipfix"
        self.up_with_logs(f"--ipfix={ipfix}",
                          f"--nf=nat(ip={EXTERNAL4},log_bindings=true,"
                          "other=pass)")
        rotated = self.folder / "nat.ipfix.1"
        with self.traffic():
            wait_for("records", lambda: ipfix.stat().st_size > 1_000)
            ipfix.rename(rotated)
            os.kill(self.pid, signal.SIGUSR1)
            wait_for("records", lambda: ipfix.exists()
                     and ipfix.stat().st_size > 1_000)
        self.check_down()
        lines = [("created", "released").index(line["event"])
                 for line in lines_of(self.logs / "nat.bindings.log")]
        records = [r[NAT_EVENT] for file in (rotated, ipfix)
                   for r in decode(file.read_bytes()).records]
        self.assertEqual(records, [(BEGINS, ENDS)[event] for event in lines])

    def test_logs_prints_what_is_written_across_rotations(self):
        self.up_with_logs("--nf=firewall(allow=log tcp,log_rate=1000000) | "
                          f"nat(ip={EXTERNAL4},log_bindings=true)")
        decisions, bindings = files = [
            self.logs / f"{log}.log"
            for log in ("firewall.decisions", "nat.bindings")]
        followed = self.folder / "followed"
        with followed.open("wb") as out:
            follow = subprocess.Popen(
                [PROGRAM, "logs", self.logs, "--follow", "--last=1000000"],
                stdout=out)
        self.addCleanup(follow.wait)
        self.addCleanup(follow.kill)
        with self.traffic():
            for sent in (signal.SIGUSR1, signal.SIGHUP, signal.SIGUSR1):
                for file in (decisions, bindings):
                    wait_for("a line", lambda file=file: file.exists()
                             and len(file.read_text()) > 2_000)
                    # It looks for other files ten times a second.
                    first = file.read_text().splitlines()[0]
                    wait_for("the same line", lambda first=first:
                             first in followed.read_text())
                for file in (decisions, bindings):
                    files.insert(0, file.with_suffix(f".{len(files)}"))
                    file.rename(files[0])
                os.kill(self.pid, sent)
            for file in (decisions, bindings):
                wait_for("a line", lambda file=file: file.exists()
                         and file.read_text())
        self.check_down()
        written = collections.Counter(
            line for file in files for line in file.read_text().splitlines())
        wait_for("all lines", lambda: collections.Counter(
            followed.read_text().splitlines()) == written)
        follow.send_signal(signal.SIGINT)
        self.assertEqual(follow.wait(timeout=PATIENCE_S), OK)
        self.assertGreater(sum(written.values()), 40)

        def logs(*words):
            return subprocess.run([PROGRAM, "logs", self.logs, *words],
                                  capture_output=True, text=True, check=False)
        merged = logs().stdout.splitlines()
        for name, file in (("nat", bindings), ("firewall", decisions)):
            lines = file.read_text().splitlines()
            self.assertEqual([line for line in merged
                              if f'"event_type":"{name}"' in line], lines)
            log = file.name.removesuffix(".log")
            self.assertEqual(logs(log).stdout.splitlines(), lines)
            self.assertEqual(logs("--last=3", log).stdout.splitlines(),
                             lines[-3:])
        for word, words in (("firewall.decisions, nat.bindings", ["no"]),
                            ("--last", ["--last=x"])):
            done = logs(*words)
            self.assertEqual((done.returncode, done.stdout), (USAGE, ""))
            self.assertIn(word, done.stderr)

    def test_a_full_disk_is_told(self):
        self.logs.mkdir()
        self.alerts.symlink_to("/dev/full")
        self.up_with_logs(self.nf)
        with self.traffic():
            wait_for("word of it",
                     lambda: "log records lost: write_failed" in self.log())
        counts = self.check_down()["nf_log"]
        self.assertEqual(counts["write_failed"], counts["released"])

    def test_bindings_of_a_nat_begin_and_end(self):
        self.up_with_logs(
            *PROCESSES, "--nf=firewall | nat(ip=" + EXTERNAL4 +
            ",log_bindings=true,tcp_transitory_timeout=1s,tcp_timeout=3s)")
        file = self.logs / "nat.bindings.log"

        def count(event):
            return sum(line["event"] == event for line in lines_of(file))
        with self.traffic():
            wait_for("the end of a binding", lambda: count("released") > 20)
            self.kill(UNITS)
            self.some_packets_later()
        wait_for("all ends", lambda: count("created") == count("released"))
        self.check_sound(self.down())
        held = set()  # an external end is one binding's at a time
        for line in lines_of(file):
            end = (line["proto"], line["external_ip"], line["external_port"],
                   line["inside_ip"], line["inside_port"])
            (held.add if line["event"] == "created" else held.remove)(end)
            self.assertEqual(len(held), len({one[:3] for one in held}))
            self.assertIn(line["event"], ("created", "released"))
        self.assertEqual(held, set())


# Those of the base are its own.
for name in dir(daemon_faults_test.DaemonFaults):
    if name.startswith("test_") and name not in vars(NfLogs):
        setattr(NfLogs, name, None)

if __name__ == "__main__":
    net.main("NfLogs")

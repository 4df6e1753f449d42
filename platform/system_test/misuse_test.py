#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An NF that does what it must not ends a run with a line that names it.

Usage: misuse_test.py PROGRAM SOURCE_DIR MODULE [TEST…]
"""

import os
import pathlib
import re
import sys
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
MODULE = sys.argv.pop(3)
from command_case import OK, Command, pcap, run, udp_frame

NF_FAILED = 3
CLOCKS = (("--clock=virtual",),
          ("--clock=real", "--speed=max", "--unit_capacity=none",
           "--threads=1"),
          ("--clock=real", "--speed=max", "--unit_capacity=none",
           "--threads=3"))
# The third packet of the first flow, of one that has three.
PLACE = ("; packet 5, clock 3, flow udp 192.0.2.1:5000 > 198.51.100.9:53")
IN_PROCESS_PACKET = {
    "throw": "threw std::runtime_error: boom",
    "throw_int": "threw int",
    "exit": "called exit()",
    "quick_exit": "called exit()",
    "abort": "was ended by SIGABRT",
    "drop": "returned Verdict::drop(7), but drop_reasons() has 2",
    "wait": "returned Verdict::wait, but changed the state",
    "timer": "called set_timer, but has_timer() is false",
    "alias": "called set_alias, but its flow_scope() is kConnection: only "
             "inside endpoints have aliases",
    "emit": "emitted a frame of 199993 bytes: want at most 65599",
    "pool": "named pool 9, but has 1",
}
SIGNALS = ("segv", "stack")
ALWAYS_GUARDED = {
    "behind": "wrote behind the packet, which has 60 bytes",
    "before": "wrote before the packet, which has 60 bytes",
}


def has_sanitizer():
    return b"__asan_init" in pathlib.Path(sys.argv[1]).read_bytes() or \
        b"__tsan_init" in pathlib.Path(sys.argv[1]).read_bytes()


class Misuse(Command):
    def setUp(self):
        super().setUp()
        self.flows = self.file("flows.pcap", pcap(
            [(1 + i / 1000, udp_frame(5000 + i % 2)) for i in range(5)]))

    def replay(self, how, *flags, nf=None):
        done = run("replay", self.flows,
                   "--nf", nf or f"{MODULE}:how={how}", "--quiet", *flags)
        return done, done.stderr.decode()

    def fails(self, line, how, *flags, nf=None):
        out = os.path.join(self.folder.name, "out.pcap")
        done, said = self.replay(how, "--out", out, *flags, nf=nf)
        self.assertRegex(said, rf"^snf replay: NF \"misuse\": {line}\n$")
        self.assertEqual(done.returncode, NF_FAILED, said)
        self.assertEqual(done.stdout, b"")
        left = [p for p in os.listdir(self.folder.name) if "out" in p]
        self.assertEqual(left, [], "unfinished files are left")

    def test_is_named_with_flow_clock_and_packet_by_every_clock(self):
        for how, what in IN_PROCESS_PACKET.items():
            for clock in CLOCKS:
                with self.subTest(how, clock=clock):
                    self.fails(re.escape(f"process_packet {what}{PLACE}"),
                               how, *clock)

    @unittest.skipIf(has_sanitizer(), "signals are the sanitizer's")
    def test_is_named_if_it_crashes(self):
        for how in SIGNALS:
            for clock in CLOCKS:
                with self.subTest(how, clock=clock):
                    self.fails("process_packet was ended by SIGSEGV at address "
                               r"\S+" + re.escape(PLACE), how, *clock)

    @unittest.skipIf(has_sanitizer(), "the heap is the sanitizer's")
    def test_is_named_if_it_breaks_the_heap(self):
        for clock in CLOCKS:
            with self.subTest(clock=clock):
                done, said = self.replay("heap", *clock)
                self.assertEqual(done.returncode, NF_FAILED, said)
                self.assertIn("snf replay: NF \"misuse\": process_packet was "
                              "ended by SIGABRT; packet 5, clock 3", said)
                self.assertTrue(said.endswith("\n"), said)

    def test_is_named_where_it_writes_outside_of_its_packet(self):
        for how, what in ALWAYS_GUARDED.items():
            with self.subTest(how):
                self.fails(re.escape(f"process_packet {what}{PLACE}"), how)

    def test_is_named_among_others_of_a_chain(self):
        for how in ("throw", "exit", "drop", "timer", "alias", "wait"):
            for clock in CLOCKS:
                with self.subTest(how, clock=clock):
                    what = IN_PROCESS_PACKET[how]
                    self.fails(re.escape(f"process_packet {what}{PLACE}"),
                               how, *clock,
                               nf=f"passthrough | {MODULE}(how={how}) | monitor")

    def test_is_named_in_every_hook(self):
        boom = "threw std::runtime_error: boom"
        flow = re.escape("flow udp 192.0.2.1:5000 > 198.51.100.9:53")
        for clock in CLOCKS:
            with self.subTest(clock=clock):
                self.fails(f"on_timer {boom}; clock 4, {flow}", "throw_timer",
                           *clock)
                self.fails(rf"on_end {boom}; clock [234](, flow udp .*)?",
                           "throw_end", *clock)
                self.fails(r"report called exit\(\)", "exit_report", *clock)
        self.fails(f"its constructor {boom}", "throw_made")
        self.fails(f"warnings {boom}", "throw_warnings")

    def test_a_timer_that_sets_itself_for_ever_lets_the_run_end(self):
        for clock in CLOCKS:
            for how in ("rearm",) + (("spin",) if clock == CLOCKS[0] else ()):
                with self.subTest(how, clock=clock):
                    report = self.report(
                        self.flows, "--nf", f"{MODULE}:how={how}",
                        "--flow_timeout=inf", *clock)
                    self.assertEqual(report["timers_left"], 1)
                    report = self.report(
                        self.flows, "--nf", f"{MODULE}:how={how}",
                        "--flow_timeout=1s", *clock)
                    self.assertEqual(report["timers_left"], 0)
        done, _ = self.replay("rearm", "--flow_timeout=inf")
        self.assertEqual(done.returncode, OK)
        self.assertIn("1  timer of the NF still armed at the end",
                      done.stdout.decode())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])

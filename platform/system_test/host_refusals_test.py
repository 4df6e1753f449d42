#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the agent of another host, and --host, refuse.

    home 10.99.7.1 ── 10.99.7.2 away
    snf replay        snf host serve

Each host is a network namespace. Wants root, and is skipped without.

Usage: host_refusals_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import os
import signal
import struct
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
from agent_case import AGENT, FAST, PORT, SMALL, UNITS, Hosts, main
from command_case import OK, USAGE, below, wait_for
from host_pair import AWAY_ADDRESS, HOME, HOME_ADDRESS, OTHER_ADDRESS

HEAD = struct.Struct("<IHHQQ")
MARK = 0x484E4653
# Connects from an address again and again, without a word, until stdin ends:
# keeps the last 400 connections.
STORM = """
import collections, select, socket, sys
held = collections.deque(maxlen=400)
while not select.select([sys.stdin], [], [], 0)[0]:
    one = socket.socket()
    one.settimeout(0.2)
    try:
        one.bind((sys.argv[3], 0))
        one.connect((sys.argv[1], int(sys.argv[2])))
    except OSError:
        continue
    held.append(one)
"""


def frame(kind, number, data=b"", bytes_=None):
    size = len(data) if bytes_ is None else bytes_
    return HEAD.pack(MARK, kind, 0, number, size) + data


class BadInput(Hosts):
    def talk(self, data, source=HOME_ADDRESS):
        """What the agent answers to these bytes, until it closes."""
        script = (
            "import socket, sys\n"
            "s = socket.create_connection(sys.argv[1:3], 20, (sys.argv[3], 0))\n"
            "s.sendall(bytes.fromhex(sys.argv[4]))\n"
            "s.settimeout(20)\n"
            "while True:\n"
            "    try:\n"
            "        part = s.recv(65536)\n"
            "    except ConnectionError:\n"
            "        break\n"
            "    if not part:\n"
            "        break\n"
            "    sys.stdout.buffer.write(part)\n")
        done = subprocess.run(
            ["ip", "netns", "exec", HOME, sys.executable, "-c", script,
             AWAY_ADDRESS, str(PORT), source, data.hex()],
            capture_output=True, timeout=60, check=True)
        return done.stdout.decode(errors="replace")

    def hello(self, version=b"9.9.9", build=1):
        return struct.pack("<IIQ48s", 1, 0, build, version)

    def test_bad_messages_are_refused_by_name_and_the_agent_goes_on(self):
        agent = self.agent()
        for data, why in (
                (frame(0, 0, self.hello()), "both hosts need the same program"),
                (frame(0, 0, b"hello"), "a hello of 5 bytes"),
                (frame(0, 0, bytes_=1 << 40), "a frame with bytes"),
                (frame(0, 7, self.hello()), "a frame with number 0x7"),
                (frame(8, 0), "a frame of kind 8"),
                (frame(77, 0), "a frame with kind 0x4d"),
                (b"GET / HTTP/1.0\r\n\r\n" + bytes(40), "a frame with mark"),
                (b"", "was silent for 2000 ms"),
                (frame(0, 0, self.hello())[:20], "was silent for 2000 ms")):
            with self.subTest(why):
                self.assertIn(why, self.talk(data))
                self.assertIn(why, self.said())
        self.assertIn("snf 9.9.9", self.said())
        self.assertIsNone(agent.poll())
        done, report = self.replay(*FAST, "--nf=chronicle")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertTrue(report["conserved"])

    def test_who_is_no_member_is_refused_by_name(self):
        agent = self.agent()
        self.assertIn("is not named by --from",
                      self.talk(b"", source=OTHER_ADDRESS))
        self.assertIn(f"daemon at {OTHER_ADDRESS}", self.said())
        self.assertIsNone(agent.poll())

    @contextlib.contextmanager
    def storm(self, address):
        with subprocess.Popen(
                ["ip", "netns", "exec", HOME, sys.executable, "-c", STORM,
                 AWAY_ADDRESS, str(PORT), address],
                stdin=subprocess.PIPE) as storm:
            try:
                yield
                storm.communicate(b"", timeout=60)
            finally:
                storm.kill()

    def stop(self, agent, most):
        """Stops processes of the agent until this many stand still: they keep
        their places, however slow the machine is."""
        for pid in set(below(agent.pid)) - self.stopped:
            if len(self.stopped) < most:
                self.signal(pid, signal.SIGSTOP)
                self.stopped.add(pid)

    def go_on(self):
        while self.stopped:
            self.signal(self.stopped.pop(), signal.SIGCONT)

    def signal(self, pid, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def test_a_storm_of_connections_is_refused_counted_and_survived(self):
        agent = self.agent()
        self.stopped = set()
        self.addCleanup(self.go_on)

        def says(words, most):
            self.stop(agent, most)
            return words in self.said()

        with self.storm(HOME_ADDRESS):
            words = "64 daemons' processes run already"
            wait_for(words, lambda: says(words, 64))
        with self.storm(OTHER_ADDRESS):
            words = "is not named by --from"
            wait_for(words, lambda: says(words, 64))
            words = "connections closed without a word: 1, the last one from"
            wait_for(words, lambda: says(words, 10_000))
        self.assertIsNone(agent.poll())
        self.go_on()

        def goes():
            done, report = self.replay(*FAST, "--nf=chronicle")
            return done.returncode == OK and report["conserved"]

        wait_for("a place", goes)

    def test_a_host_that_is_not_there_is_named(self):
        done, _ = self.replay(*FAST)
        self.assertIn(f"host away ({AGENT}): no connection: Connection refused",
                      done.stderr)
        self.assertNotEqual(done.returncode, OK)

    def test_flags_that_cannot_be_together_are_refused_by_name(self):
        host = f"--host=b={AGENT}"
        for flags, words in (
                ((host, "--clock=real"), ("--host", "--isolation")),
                ((host, "--clock=real", "--isolation=process"),
                 ("--host", "--loggers")),
                ((host,), ("--host", "--clock")),
                ((f"--host=b={AGENT},units=3", *UNITS, "--clock=real"),
                 ("leave none",)),
                (("--host=b", "--clock=real"), ("NAME=ADDRESS:PORT",)),
                ((host, host, "--clock=real"), ("two hosts",))):
            with self.subTest(flags=flags):
                self.refused(USAGE, words, "replay", SMALL, *flags)


if __name__ == "__main__":
    main()

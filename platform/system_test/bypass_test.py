#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf up --bypass`: packets pass without a daemon that died, and only then.

    client eth0 ── lan0 [ snf up, its guard ] wan0 ── eth0 server

Wants root, and is skipped without.

Usage: bypass_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import os
import pathlib
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import control_test
import run_test as net
from command_case import OK, USAGE, below, is_alive, wait_for
from control_test import (FOLDER, NAME, UNAVAILABLE, processes, snf, told,
                          what_is_there)
from run_test import CLIENT, MIDDLE, PORTS, SERVER4, inside, ip, peer

PROCESSES = ["--isolation=process", "--loggers=on"]
BYPASS = "--bypass=300ms"
LONG = "--bypass=1h"
FILE = FOLDER / f"{NAME}.bypass"
LOG = FOLDER / f"{NAME}.log"


def guards():
    """Processes of guards of this test's daemons."""
    found = set()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:3] == [b"bypass-process", NAME.encode()]:
            found.add(int(entry.name))
    return found


ECHO = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_RAW,
                   socket.IPPROTO_ICMP) as client:
    client.settimeout(1)
    client.connect((sys.argv[1], 0))
    client.send(bytes.fromhex("0800f7ff00000000"))
    print(client.recv(65_535)[20])
"""


def passes():
    """Whether an echo comes back within a second."""
    done = subprocess.run(
        inside(CLIENT, sys.executable, "-c", ECHO, SERVER4),
        capture_output=True, text=True, check=False)
    return done.stdout == "0\n"


def gro():
    return [peer(MIDDLE, "gro", port) for port in ("lan0", "wan0")]


class Bypass(control_test.Control):
    def setUp(self):
        super().setUp()
        self.rules = self.folder / "rules.txt"
        self.rules.write_text("deny icmp\nallow any\n")
        self.firewall = f"--nf=firewall(rules={self.rules})"
        # As the client of a firewall that drops all else would know it.
        for one, other in ((CLIENT, net.SERVER), (net.SERVER, CLIENT)):
            address = net.CLIENT4 if other == CLIENT else SERVER4
            ip("-n", one, "neigh", "replace", address, "lladdr",
               net.address_of_card(other), "dev", "eth0", "nud", "permanent")
        self.addCleanup(self.end_guards)

    @staticmethod
    def end_guards():
        for pid in guards():
            os.kill(pid, signal.SIGKILL)

    def up(self, *words):
        said = super().up(self.firewall, *words)
        self.pid, = processes()
        return said

    def kill_daemon(self):
        everything = [self.pid] + [pid for pid in below(self.pid)
                                   if pid not in guards()]
        for pid in everything:
            os.kill(pid, signal.SIGKILL)
        wait_for("its end", lambda: not any(map(is_alive, everything)))

    def kill_and_pass(self):
        wait_for("the guard", guards)  # it may just have been started
        self.kill_daemon()
        wait_for("packets", passes)

    def check_denied(self):
        """The daemon's rules hold."""
        self.assertFalse(passes())
        self.assertEqual(peer(CLIENT, "tcp", SERVER4, 3, 100_000), ["3 right"])

    def check_nothing_left(self):
        self.assertEqual(guards(), set())
        self.assertEqual([path for path in FOLDER.glob(f"{NAME}*")
                          if path != LOG], [])
        found, _, unix, promiscuous = what_is_there()
        self.assertEqual((found, unix), (set(), []))
        self.assertEqual(set(promiscuous), {"promiscuity 0"})

    # --- What passes

    def test_nothing_passes_without_it(self):
        with self.server():
            self.up()
            self.check_denied()
            self.assertEqual(guards(), set())
            self.kill_daemon()
            self.assertFalse(passes())
            self.refused(UNAVAILABLE, ["no daemon", "starts one"], "status")

    def test_packets_pass_unprocessed_until_the_next_daemon(self):
        before = gro()
        with self.server():
            for flags in ([], PROCESSES):
                with self.subTest(flags):
                    self.up(BYPASS, *flags)
                    guard, = guards()
                    self.check_denied()
                    self.kill_and_pass()
                    self.assertEqual(guards(), {guard})
                    self.assertNotIn("another process", LOG.read_text())
                    self.assertEqual(
                        peer(CLIENT, "tcp", SERVER4, 3, 1_000_000),
                        ["3 right"])
                    self.refused(UNAVAILABLE,
                                 ["the daemon is gone; packets pass "
                                  "unprocessed since", "from the inside"],
                                 "status")
                    self.assertIn("packets pass unprocessed between lan0 and "
                                  "wan0", LOG.read_text())
                    self.up(BYPASS, *flags)
                    wait_for("end of the guard",
                             lambda: not is_alive(guard))
                    self.assertEqual(len(guards()), 1)
                    self.check_denied()
                    self.assertIn("packets",
                                  told("status"))
                    self.assertRegex(LOG.read_text(),
                                     r"unprocessed no more: [1-9]\d* frames? "
                                     r"came from the inside, [1-9]\d* from the "
                                     r"outside, \d+ dropped")
                    self.down()
                    self.check_nothing_left()
        self.assertEqual(gro(), before)

    def test_nothing_passes_if_the_next_daemon_comes_in_time(self):
        with self.server():
            self.up(LONG)
            self.kill_daemon()
            self.assertFalse(passes())
            self.refused(UNAVAILABLE,
                         ["packets pass unprocessed unless another one comes"],
                         "status")
            self.up(LONG)
            self.check_denied()
            self.assertEqual(len(guards()), 1)
        self.down()
        self.check_nothing_left()

    def test_kept_flows_go_on_with_the_next_daemon(self):
        flags = [*PROCESSES, "--keep=60s", BYPASS]
        with self.server():
            self.up(*flags)
            self.check_denied()
            os.kill(self.pid, signal.SIGKILL)
            wait_for("its end", lambda: not is_alive(self.pid))
            wait_for("packets", passes)
            self.up(*flags)
            self.assertRegex(LOG.read_text(), r"took over \d+ flows")
            self.check_denied()
        self.down()
        self.check_nothing_left()

    def test_a_daemon_that_dies_as_it_starts_leaves_the_link_no_worse(self):
        """It claims the interfaces, but is never ready."""
        with self.server():
            self.up(BYPASS)
            self.kill_and_pass()
            file = self.folder / "no such folder" / "out.pcap"
            done = snf("up", *PORTS, self.firewall, f"--out={file}")
            self.assertNotEqual(done.returncode, OK)
            wait_for("packets", passes)
        told("down")
        self.check_nothing_left()

    def test_interfaces_that_come_back_are_bridged_again(self):
        self.up(BYPASS)
        self.kill_and_pass()
        # A link that goes and comes with no frame, then one amid frames.
        for state in ("down", "up"):
            ip("-n", MIDDLE, "link", "set", "lan0", state)
        wait_for("packets", passes)
        ip("-n", MIDDLE, "link", "set", "wan0", "down")
        wait_for("word of it", lambda: "no packets pass" in LOG.read_text())
        ip("-n", MIDDLE, "link", "set", "wan0", "up")
        wait_for("packets", passes)
        self.assertIn("the interfaces are back", LOG.read_text())
        told("down")

    # --- Its end

    def test_snf_down_ends_the_guard_of_a_daemon_that_is_gone(self):
        before = gro()
        for bypass in (BYPASS, LONG):
            with self.subTest(bypass):
                self.up(bypass)
                if bypass == BYPASS:
                    self.kill_and_pass()
                else:
                    self.kill_daemon()
                    wait_for("its state", lambda: "unless another" in
                             snf("status").stderr)
                self.assertIn("pass unprocessed no more", told("down"))
                self.assertFalse(passes())
                self.check_nothing_left()
                self.assertEqual(gro(), before)
                self.refused(UNAVAILABLE, ["no daemon"], "down")

    def test_a_clean_end_leaves_no_guard(self):
        for end in (None, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            with self.subTest(end):
                self.up(BYPASS)
                self.assertEqual(len(guards()), 1)
                if end is None:
                    self.down()
                else:
                    os.kill(self.pid, end)
                    wait_for("its end", lambda: not is_alive(self.pid))
                self.check_nothing_left()
                self.assertFalse(passes())

    def test_a_guard_that_was_killed_leaves_nothing(self):
        self.up(BYPASS)
        guard, = guards()
        os.kill(guard, signal.SIGKILL)
        self.down()
        self.check_nothing_left()

    def test_an_upgrade_ends_the_guard_of_the_predecessor(self):
        self.up(BYPASS)
        done = snf("up", *PORTS, self.firewall, "--upgrade",
                   "--within=100ms")
        self.assertEqual(done.returncode, OK, done.stderr)
        wait_for("end of the predecessor", lambda: not is_alive(self.pid))
        self.assertEqual(guards(), set())
        self.down()
        self.check_nothing_left()

    # --- What it is not for

    def test_refuses_by_name_what_it_cannot_pass(self):
        inside_, outside = PORTS[1::2]
        for words, flags in (
                (["--controllers"], [*PORTS, "--controllers=2"]),
                (["--upgrade"], [*PORTS, "--upgrade"]),
                (["wants --port"], []),
                (["--port=outside=xdp:wan0"],
                 ["--port", inside_, "--port", "outside=xdp:wan0"]),
                (["--port=outside=tap:tap0"],
                 ["--port", inside_, "--port", "outside=tap:tap0"]),
                (["one inside and one outside"],
                 [*PORTS, "--port", "outside=wan1"]),
                (["--port=both=gwlb:wan0"], ["--port", "both=gwlb:wan0"])):
            with self.subTest(flags):
                self.refused(USAGE, ["--bypass", *words], "up", BYPASS, *flags)
                self.assertEqual(processes() | guards(), set())


# What control_test.py tests itself.
for name in [name for name in dir(control_test.Control)
             if name.startswith("test_")]:
    setattr(Bypass, name, None)


if __name__ == "__main__":
    net.main("Bypass")

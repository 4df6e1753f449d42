#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Daemons with units on another host, and TLS between both.

    home 10.99.7.1 ── 10.99.7.2 away
    snf up            snf host serve

Each host is a network namespace. Wants root, and is skipped without.

Usage: host_live_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # nothing beside the sources
from agent_case import AGENT, FAST, Hosts, main
from command_case import OK, PROGRAM, udp_frame, wait_for
from host_pair import AWAY_ADDRESS, HOME

UNAVAILABLE = 69
SEND = """
import socket, sys
frames = [bytes.fromhex(line) for line in sys.stdin]
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as port:
    port.bind(("lanp", 0))
    for frame in frames:
        port.send(frame)
"""
CHAINS = """
chain { name: "dns" text: "monitor" }
chain { name: "rest" text: "chronicle" }
rule { match: "udp from any port 5000-5049 to any" chain: "dns" }
default_chain: "rest"
"""


class Live(Hosts):
    def send(self):
        """Frames of 100 flows, from port 5000 on."""
        frames = "\n".join(udp_frame(5000 + i).hex() for i in range(100))
        subprocess.run(
            ["ip", "netns", "exec", HOME, sys.executable, "-c", SEND],
            input=frames, text=True, timeout=60, check=True)

    def told(self, command, name):
        done = self.home(PROGRAM, command, f"--name={name}", "--json")
        self.assertEqual(done.returncode, OK, done.stderr)
        return json.loads(done.stdout)

    def packets(self, name):
        """How many packets units on the host away have taken."""
        return sum(int(unit.get("packets", 0))
                   for unit in self.told("units", name)["unit"]
                   if unit.get("host") == "away")

    def released(self, name):
        count = self.told("status", name)["count"]
        return sum(int(count.get(what, 0)) for what in (
            "packets_released", "packets_passed_through"))

    def test_units_there_outlive_a_daemon_that_is_killed(self):
        # No packets but those that are sent.
        done = self.home("sh", "-c", "echo 1 > "
                         "/proc/sys/net/ipv6/conf/default/disable_ipv6")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.ports()
        agent = self.agent()
        # On a busy machine the host may be silent for 1.5 s, and lose them.
        self.assertTrue(any(self.outlive_a_daemon(agent, f"kept{i}")
                            for i in range(4)), "units ended in each run")

    def outlive_a_daemon(self, agent, name):
        """Whether the same processes serve the next daemon. Flows outlive the
        first one in any case."""
        name = f"{name}-{os.getpid()}"
        log = os.path.join(self.folder.name, f"{name}.txt")
        # A unit of a busy machine starts slowly.
        flags = ("--keep=60s", "--threads=4", "--start_buffer=100000",
                 "--unit_queue=100000", f"--host=away={AGENT}")
        self.up_at_ports(name, log, *flags)
        sent = 0

        def go_there():
            nonlocal sent
            self.send()
            sent += 100
            return self.packets(name)

        wait_for("packets of units away", go_there)
        wait_for("all packets", lambda: self.released(name) >= sent)
        units = self.units_of(agent)
        os.kill(self.told("status", name)["pid"], signal.SIGKILL)
        time.sleep(2)  # longer than a host may be silent
        is_same = self.units_of(agent) == units
        self.up_at_ports(name, log, *flags)
        self.assertGreaterEqual(
            int(self.told("status", name)["inherited_flows"]), 100)
        before = self.packets(name)
        wait_for("more packets", lambda: go_there() > before)
        is_same = is_same and self.units_of(agent) == units
        is_same = is_same and "is lost" not in pathlib.Path(log).read_text()
        done = self.home(PROGRAM, "down", f"--name={name}")
        self.assertEqual(done.returncode, OK, done.stderr)
        wait_for("end of units", lambda: not self.units_of(agent))
        return is_same

    def test_several_chains_have_units_there_each(self):
        self.ports()
        agent = self.agent()
        name = f"chains-{os.getpid()}"
        config = self.file("site.conf", CHAINS.encode())
        done = self.home(
            PROGRAM, "up", f"--name={name}", "--port=inside=lan0",
            "--port=outside=wan0", f"--config={config}", "--policy=rotate",
            "--max_units=4", "--isolation=process", "--loggers=on",
            "--warm_pool=4", f"--host=away={AGENT},units=2",
            f"--log={self.folder.name}/log.txt")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.addCleanup(self.home, PROGRAM, "down", f"--name={name}")

        def busy():
            self.send()
            return {(unit.get("chain"), unit["id"])
                    for unit in self.told("units", name)["unit"]
                    if unit.get("host") == "away" and
                    int(unit.get("packets", 0))}

        wait_for("units of both chains", lambda: len(busy()) == 4)
        self.assertEqual(len(self.units_of(agent)), 4)

    def test_units_tells_the_host_of_each_unit_that_has_packets(self):
        self.ports()
        self.agent()
        name = f"hosts-{os.getpid()}"
        log = os.path.join(self.folder.name, "log.txt")
        self.up_at_ports(name, log, "--warm_pool=4",
                         f"--host=away={AGENT},units=2")

        def listed():
            frames = "\n".join(udp_frame(5000 + i).hex() for i in range(100))
            subprocess.run(
                ["ip", "netns", "exec", HOME, sys.executable, "-c", SEND],
                input=frames, text=True, timeout=60, check=True)
            units = json.loads(self.home(PROGRAM, "units", f"--name={name}",
                                         "--json").stdout)["unit"]
            on = [unit.get("host", "") for unit in units
                  if int(unit.get("packets", 0)) > 0]
            return on == ["", "", "away", "away"]

        wait_for("packets of all units", listed)
        text = self.home(PROGRAM, "units", f"--name={name}").stdout
        self.assertEqual(text.count("  on away\n"), 2, text)


class Encrypted(Hosts):
    def certificates(self, role, name=None):
        folder = os.path.join(self.folder.name, name or role)
        done = subprocess.run(
            [PROGRAM, "cert", folder, f"--host={AWAY_ADDRESS}",
             f"--role={role}"], capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, OK, done.stderr)
        return folder

    def test_both_ends_show_certificates(self):
        admin = self.certificates("admin")
        self.agent(f"--tls={admin}")
        done, report = self.replay(*FAST, "--nf=chronicle",
                                   f"--host_tls={admin}")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertTrue(report["conserved"])
        self.assertEqual(report["violation_messages"], [])

    def test_other_ends_are_refused_by_name(self):
        admin, look = self.certificates("admin"), self.certificates("look")
        self.agent(f"--tls={admin}")
        for flags, words in (((), "wants TLS"),
                             ((f"--host_tls={look}",), "certificate"),
                             (("--host_tls=/nowhere",), "/nowhere")):
            with self.subTest(flags=flags):
                done, _ = self.replay(*FAST, *flags)
                self.assertNotEqual(done.returncode, OK)
                self.assertIn(f"host away ({AGENT}): ", done.stderr)
                self.assertIn(words, done.stderr)
        self.assertIn("TLS: ", self.said())

    def test_a_certificate_of_another_role_starts_nothing(self):
        look = self.certificates("look")
        self.agent(f"--tls={look}")
        done, _ = self.replay(*FAST, f"--host_tls={look}")
        self.assertEqual(done.returncode, UNAVAILABLE)
        for told in (self.said(), done.stderr):
            self.assertIn("has the role look, not admin", told)

    def test_a_daemon_that_is_not_named_learns_it_by_tls_as_well(self):
        admin = self.certificates("admin")
        self.agent(f"--tls={admin}", daemons="10.99.6.77")
        done, _ = self.replay(*FAST, f"--host_tls={admin}")
        self.assertEqual(done.returncode, UNAVAILABLE)
        for told in (self.said(), done.stderr):
            self.assertIn("is not named by --from", told)

    def test_an_agent_and_a_daemon_of_which_one_encrypts_say_so(self):
        self.agent()
        done, _ = self.replay(*FAST,
                              f"--host_tls={self.certificates('admin')}")
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("TLS: the other end speaks no TLS", done.stderr)
        self.assertIn("the other end speaks TLS, and this end does not",
                      self.said())

    def replace(self, folder, others):
        for path in pathlib.Path(others).iterdir():
            shutil.copy2(path, folder)

    def test_certificates_may_be_replaced_amid_a_run(self):
        first, second = (self.certificates("admin", name)
                         for name in ("first", "second"))
        of_agent, of_daemon = (
            shutil.copytree(first, os.path.join(self.folder.name, name))
            for name in ("agent", "daemon"))
        agent = self.agent(f"--tls={of_agent}")
        run = self.start("--policy=rotate", "--nf=chronicle",
                         f"--host_tls={of_daemon}")
        units = wait_for("units", lambda: self.units_of(agent))
        # Another authority: a new connection needs both ends' new files.
        self.replace(of_agent, second)
        before = self.said()
        os.kill(units[0], signal.SIGKILL)
        wait_for("a refusal",
                 lambda: "TLS: " in self.said().removeprefix(before))
        self.assertEqual(self.units_of(agent), [])
        self.assertIsNone(run.poll())
        self.replace(of_daemon, second)
        wait_for("units", lambda: self.units_of(agent))
        report, _ = self.end(run)
        self.assertEqual(report["faults"]["packets_lost"], 0)


if __name__ == "__main__":
    main()

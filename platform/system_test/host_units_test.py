#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Units on another host: `snf host serve`, and --host.

    home 10.99.7.1 ── 10.99.7.2 away
    snf replay        snf host serve

Each host is a network namespace. Wants root, and is skipped without.

Usage: host_units_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import (LASTING_NAT, OK, PROGRAM, SOURCE, USAGE, Command,
                          below, free_port, is_alive, pcap, run, stat_of, udp_frame, wait_for)
from host_pair import (AWAY, AWAY_ADDRESS, HOME, HOME_ADDRESS, OTHER_ADDRESS,
                       HostPair, ip)

SMALL = SOURCE / "traces/small.pcap.zst"
UNAVAILABLE = 69
PORT = 7000
AGENT = f"{AWAY_ADDRESS}:{PORT}"
NAT = "nat(" + LASTING_NAT.removeprefix("nat:") + ")"
FAST = ("--clock=real", "--speed=max", "--unit_capacity=none")
UNITS = ("--isolation=process", "--loggers=on", "--threads=4")
HEAD = struct.Struct("<IHHQQ")
MARK = 0x484E4653


def frame(kind, number, data=b"", bytes_=None):
    size = len(data) if bytes_ is None else bytes_
    return HEAD.pack(MARK, kind, 0, number, size) + data


class Hosts(HostPair):
    AWAY = f"away={AGENT}"  # of --host
    UNITS = UNITS
    UNITS_AWAY = 1  # of a run that goes on for long

    def setUp(self):
        super().setUp()
        self.frames = self.file("frames.pcap", pcap(
            [(1 + i / 1000, udp_frame(5000 + i % 40)) for i in range(4000)]))

    def agent(self, *flags, within=()):
        """Starts the agent of the host away, and returns its process. `within`
        are words before the command, as of a namespace."""
        self.errors = open(os.path.join(self.folder.name, "agent.txt"), "a+b")
        self.addCleanup(self.errors.close)
        agent = subprocess.Popen(
            ["ip", "netns", "exec", AWAY, *within, PROGRAM, "host", "serve",
             f"--listen={AGENT}", f"--from={HOME_ADDRESS}", *flags],
            stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)
        self.assertIn(f"listens at {AGENT}", agent.stdout.readline())
        self.addCleanup(agent.stdout.close)
        return agent

    def said(self):
        self.errors.seek(0)
        return self.errors.read().decode()

    def replay(self, *flags, capture=None, hosts=1, within=()):
        path = pathlib.Path(self.folder.name) / "report.json"
        path.unlink(missing_ok=True)
        on = (f"--host={self.AWAY},units={hosts}",) if hosts else ()
        done = self.home(*within, PROGRAM, "replay", capture or self.frames,
                         "--quiet", f"--json={path}", *self.UNITS, *on, *flags)
        return done, json.loads(path.read_text()) if path.exists() else None

    def start(self, *flags):
        """A run that goes on for long, with its units."""
        self.path = pathlib.Path(self.folder.name) / "long.json"
        run = subprocess.Popen(
            ["ip", "netns", "exec", HOME, PROGRAM, "replay", self.frames,
             "--clock=real", "--speed=1x", "--loop=1000", *self.UNITS,
             f"--host={self.AWAY},units={self.UNITS_AWAY}",
             f"--json={self.path}", *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.stderr.close)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        return run

    def units_of(self, agent):
        return [p for p in below(agent.pid)
                if (stat := stat_of(p)) and stat[2] == "snf-unit"]

    def end(self, run):
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
        self.assertEqual(run.returncode, OK, said)
        report = json.loads(self.path.read_text())
        self.assertTrue(report["conserved"])
        self.assertEqual(report["violation_messages"], [])
        return report, said


class Runs(Hosts):
    def test_units_of_two_hosts_release_what_those_of_one_do(self):
        self.agent()
        for nf, policy in (("chronicle", "rotate"), ("monitor", "rotate"),
                           ("chronicle", "snf")):
            flags = (*FAST, f"--nf={nf}", f"--policy={policy}",
                     "--flow_timeout=1h")
            with self.subTest(nf=nf, policy=policy):
                reports = []
                for hosts in (0, 1):
                    done, report = self.replay(*flags, capture=SMALL,
                                               hosts=hosts)
                    self.assertEqual(done.returncode, OK, done.stderr)
                    self.assertTrue(report["conserved"])
                    self.assertEqual(report["violation_messages"], [])
                    reports.append(report)
                for what in ("digest", "packets_released", "packets_dropped"):
                    self.assertEqual(reports[0][what], reports[1][what], what)
        self.assertEqual(self.said(), "")

    def test_nat_of_two_hosts_names_connections_as_that_of_one(self):
        self.agent()
        reports = []
        for hosts in (0, 1):
            done, report = self.replay(
                *FAST, f"--nf=firewall | {NAT}", "--policy=rotate",
                hosts=hosts)
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertTrue(report["conserved"])
            reports.append(report)
        for what in ("digest_up_to_renaming", "packets_released"):
            self.assertEqual(reports[0][what], reports[1][what], what)

    def test_processes_of_a_warm_pool_come_and_go_there_as_well(self):
        self.agent()
        path = os.path.join(self.folder.name, "pool.json")
        done = self.home(
            PROGRAM, "replay", self.frames, *FAST, "--isolation=process",
            "--loggers=on", "--policy=rotate", "--nf=chronicle",
            "--max_units=4", "--warm_pool=4", f"--host=away={AGENT},units=2",
            "--quiet", f"--json={path}")
        self.assertEqual(done.returncode, OK, done.stderr)
        report = json.loads(pathlib.Path(path).read_text())
        self.assertTrue(report["conserved"])
        self.assertEqual(report["violation_messages"], [])
        self.assertEqual(report["units_used_max"], 4)


class Shown(Hosts):
    """With --host_state, one unit is at home and three are on the host away.
    Flows go around, so states are read in place on the host away alone."""

    UNITS = ("--isolation=process", "--loggers=on", "--threads=6",
             "--max_units=4", "--host_state", "--nf=chronicle",
             "--policy=rotate", "--flow_timeout=1h")
    UNITS_AWAY = 3

    def memories(self, process):
        """Memories for states of which the process has descriptors."""
        folder = pathlib.Path(f"/proc/{process}/fd")
        found = set()
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                if "snf host" in os.readlink(path):
                    found.add(path.stat().st_ino)
        return found

    def rights(self, process):
        """How the process maps memory for states, by its inode."""
        found = {}
        maps = pathlib.Path(f"/proc/{process}/maps").read_text()
        for line in maps.splitlines():
            _, rights, _, _, inode, *name = line.split(maxsplit=5)
            if name and "snf host" in name[0]:
                found.setdefault(int(inode), []).append(rights)
        return found

    def test_flows_that_move_within_the_host_are_read_in_place(self):
        self.agent()
        flags = ("--clock=real", "--speed=1x", "--unit_capacity=none")
        reports = []
        for hosts in (0, 3):
            done, report = self.replay(*flags, hosts=hosts)
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertTrue(report["conserved"])
            self.assertEqual(report["violation_messages"], [])
            reports.append(report)
        for what in ("digest", "packets_released", "packets_dropped"):
            self.assertEqual(reports[0][what], reports[1][what], what)
        states = reports[1]["host_records"]
        self.assertGreater(states["read"], 0)
        # Two of four moves are between the hosts.
        self.assertGreater(states["missed"]["away"], 0)
        self.assertEqual(states["missed"]["malformed"], 0)
        self.assertEqual(reports[0]["host_records"]["missed"]["away"], 0)
        self.assertNotIn("refused", self.said())

    def test_what_a_unit_there_has_shown_outlives_it(self):
        """A flow may be at home as its unit dies: kills until one is not."""
        agent = self.agent()
        for _ in range(5):
            states = self.kill_units(agent, kills=8)["host_records"]
            self.assertGreater(states["read"], 0)
            if states["recovered"] > 0:
                return
        self.fail(f"nothing was recovered: {states}")

    def kill_units(self, agent, kills):
        """Kills units of the agent, one after the other; returns the report."""
        run = self.start()
        wait_for("units", lambda: len(self.units_of(agent)) == 3)
        for _ in range(kills):
            time.sleep(0.5)
            units = self.units_of(agent)
            os.kill(units[-1], signal.SIGKILL)
            wait_for("another", lambda u=units: len(
                found := self.units_of(agent)) == 3 and found != u)
        time.sleep(0.5)
        report, said = self.end(run)
        self.assertIn("was killed by signal 9", said)
        self.assertTrue(report["conserved"])
        for count in ("packets_lost", "flows_given_up"):
            self.assertEqual(report["faults"][count], 0, count)
        return report

    def test_daemons_share_nothing_and_leave_nothing(self):
        agent = self.agent()
        runs = [self.start("--seed=1"), self.start("--seed=2")]
        units = wait_for("units", lambda: (found := self.units_of(agent))
                         and len(found) == 6 and found)
        self.assertEqual(len(self.memories(agent.pid)), 2)
        mapped = {}
        for unit in units:
            self.assertEqual(self.memories(unit), set())
            (inode, rights), = self.rights(unit).items()
            # Its own part for writing, and all for reading.
            self.assertEqual(sorted(rights), ["r--s", "rw-s"])
            mapped[inode] = mapped.get(inode, 0) + 1
        self.assertEqual(sorted(mapped.values()), [3, 3])
        self.assertEqual(self.rights(agent.pid), {})
        runs[0].kill()
        wait_for("end of units", lambda: len(self.units_of(agent)) == 3)
        wait_for("free memory",
                 lambda: len(self.memories(agent.pid)) == 1)
        runs[1].kill()
        wait_for("free memory", lambda: not self.memories(agent.pid))


class Clocks(Hosts):
    """The clocks of the hosts are ten hours apart."""

    LATE = ("unshare", "--time", "--fork", "--kill-child",
            "--monotonic", "36000", "--boottime", "36000")

    def setUp(self):
        super().setUp()
        done = subprocess.run([*self.LATE, "true"], capture_output=True,
                              text=True, timeout=60, check=False)
        if done.returncode != 0:
            self.skipTest(f"no time namespace: {done.stderr.strip()}")

    def releases_the_same(self, of_home=(), of_away=()):
        self.agent(within=of_away)
        flags = (*FAST, "--nf=chronicle", "--policy=rotate",
                 "--flow_timeout=1h")
        reports = []
        for hosts in (0, 1):
            done, report = self.replay(*flags, capture=SMALL, hosts=hosts,
                                       within=of_home)
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertTrue(report["conserved"])
            self.assertEqual(report["violation_messages"], [])
            # A clock that is not corrected makes latencies of ten hours.
            self.assertLess(report["latency_ns"]["max"], 3600e9)
            reports.append(report)
        for what in ("digest", "packets_released", "packets_dropped"):
            self.assertEqual(reports[0][what], reports[1][what], what)

    def test_the_host_away_may_be_hours_ahead(self):
        self.releases_the_same(of_away=self.LATE)

    def test_the_host_away_may_be_hours_behind(self):
        self.releases_the_same(of_home=self.LATE)


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
        for flags, words in (((), "the connection"),
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
        self.assertNotEqual(done.returncode, OK)
        self.assertIn("has the role look, not admin", self.said())


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


class Containers(Command):
    """On loopback: `ip netns exec` hides the control groups."""

    def test_units_of_both_hosts_may_be_containers(self):
        path = os.path.join(self.folder.name, "lxc.json")
        address = f"127.0.0.1:{free_port()}"
        agent = subprocess.Popen(
            [PROGRAM, "host", "serve", f"--listen={address}"],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)
        self.addCleanup(agent.stdout.close)
        self.assertIn("listens at", agent.stdout.readline())
        done = run("replay", SMALL, *FAST, "--isolation=lxc", "--loggers=on",
                   "--threads=4", "--nf=chronicle", "--policy=hash",
                   f"--host=away={address}", "--quiet", f"--json={path}")
        if done.returncode == UNAVAILABLE:
            self.skipTest(done.stderr.decode())
        self.assertEqual(done.returncode, OK, done.stderr)
        report = json.loads(pathlib.Path(path).read_text())
        self.assertTrue(report["conserved"])
        self.assertEqual(report["violation_messages"], [])


class Losses(Hosts):
    NF = "--nf=chronicle"
    SILENT = "is lost: was silent for 1500 ms"

    def kill_all(self, agent):
        """As a host that loses its power."""
        processes = [*below(agent.pid), agent.pid]
        os.kill(agent.pid, signal.SIGKILL)
        wait_for("end of all", lambda: not any(
            is_alive(p) for p in processes if p != agent.pid))
        agent.wait()

    def test_a_host_that_is_killed_loses_no_state_and_comes_back(self):
        agent = self.agent()
        run = self.start("--policy=rotate", self.NF)
        wait_for("units", lambda: self.units_of(agent))
        for _ in range(3):
            time.sleep(1)
            self.kill_all(agent)
            time.sleep(0.5)
            self.assertIsNone(run.poll())
            agent = self.agent()
            wait_for("units", lambda a=agent: self.units_of(a))
        time.sleep(1)
        report, said = self.end(run)
        self.assertIn(f"host away ({AGENT}) is lost", said)
        self.assertGreaterEqual(said.count("is back as process"), 3)
        self.assertEqual(report["packets_dropped"].get("nf_failed", 0), 0)
        self.assertEqual(report["faults"].get("flows_given_up", 0), 0)
        self.assertEqual(report["faults"]["packets_lost"], 0)
        self.assertEqual(report["packets_released"], report["packets_in"])

    def test_units_go_on_without_a_host_whose_link_is_down(self):
        agent = self.agent()
        run = self.start("--policy=rotate", self.NF)
        first = wait_for("units", lambda: self.units_of(agent))
        time.sleep(1)
        ip("-n", AWAY, "link", "set", "eth0", "down")
        self.addCleanup(ip, "-n", AWAY, "link", "set", "eth0", "up")
        # The host away kills units of a daemon that it does not hear.
        wait_for("end of units", lambda: not any(map(is_alive, first)))
        time.sleep(2)
        self.assertIsNone(run.poll())
        ip("-n", AWAY, "link", "set", "eth0", "up")
        wait_for("units", lambda: self.units_of(agent))
        time.sleep(1)
        _, said = self.end(run)
        self.assertRegex(said, self.SILENT)

    def test_a_unit_there_may_be_killed_like_one_here(self):
        agent = self.agent()
        run = self.start("--policy=rotate", self.NF)
        first = wait_for("units", lambda: self.units_of(agent))
        time.sleep(0.5)
        os.kill(first[0], signal.SIGKILL)
        wait_for("another", lambda: (found := self.units_of(agent))
                 and found != first)
        time.sleep(0.5)
        _, said = self.end(run)
        self.assertIn("was killed by signal 9", said)
        self.assertNotIn("is lost", said)

    def test_units_end_with_their_daemon(self):
        agent = self.agent()
        run = self.start(self.NF)
        units = wait_for("units", lambda: self.units_of(agent))
        run.kill()
        wait_for("end of units", lambda: not any(map(is_alive, units)))
        self.assertIsNone(agent.poll())


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
    if os.geteuid() != 0 or ip("netns", "list", check=False).returncode != 0:
        print("skipped: needs root and network namespaces")
        sys.exit(4)
    del sys.argv[1:3]
    unittest.main()

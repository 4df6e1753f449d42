#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Units on another host by GENEVE: `snf host serve --geneve`, wire=geneve.

    home 10.99.7.1 ── 10.99.7.2 away
    snf replay        snf host serve

Each host is a network namespace. Wants root, and is skipped without.

Usage: geneve_hosts_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # nothing beside the sources
import host_units_test
from agent_case import AGENT, FAST, SMALL, UNITS, Hosts, main
from command_case import (OK, SOURCE, USAGE, below, is_alive, pcap, udp_frame,
                          wait_for)
from host_pair import AWAY, AWAY_ADDRESS, HOME, HOME_ADDRESS, OTHER_ADDRESS, ip

PORT = 6081
SAME = ("digest", "packets_released", "packets_dropped")
CHRONICLE = (*FAST, "--nf=chronicle", "--policy=rotate", "--flow_timeout=1h")


def drop(name, what="drop"):
    """Lets a host drop UDP that it receives. Returns what is wrong, or ""."""
    rules = ("table inet bad {\n chain in {\n"
             "  type filter hook input priority 0;\n"
             f"  ip protocol udp {what}\n }}\n}}\n")
    try:
        done = subprocess.run(
            ["ip", "netns", "exec", name, "nft", "-f", "-"], input=rules,
            capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        return str(error)
    return done.stderr if done.returncode else ""


def undrop(name):
    subprocess.run(["ip", "netns", "exec", name, "nft", "delete", "table",
                    "inet", "bad"], capture_output=True, timeout=60,
                   check=False)


class Geneve(Hosts):
    AWAY = f"away={AGENT},wire=geneve"

    def agent(self, *flags, **more):
        return super().agent("--geneve", *flags, **more)

    def went_well(self, *flags, capture=SMALL, hosts=1):
        done, report = self.replay(*flags, capture=capture, hosts=hosts)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertTrue(report["conserved"])
        self.assertEqual(report["violation_messages"], [])
        return report

    def block_udp(self):
        for name in (HOME, AWAY):
            self.addCleanup(undrop, name)
            if failed := drop(name):
                self.skipTest(f"nft: {failed.strip()}")


class Runs(Geneve):
    def test_units_release_what_they_release_over_tcp_and_at_home(self):
        self.agent()
        for nf, policy in (("chronicle", "rotate"), ("monitor", "rotate"),
                           ("chronicle", "snf")):
            flags = (*FAST, f"--nf={nf}", f"--policy={policy}",
                     "--flow_timeout=1h")
            with self.subTest(nf=nf, policy=policy):
                home = self.went_well(*flags, hosts=0)
                tcp = self.went_well(*flags, f"--host=away={AGENT}", hosts=0)
                geneve = self.went_well(*flags)
                for what in SAME:
                    self.assertEqual(home[what], tcp[what], what)
                    self.assertEqual(home[what], geneve[what], what)
        self.assertNotIn("refused", self.said())

    def test_packets_are_as_long_as_the_path_takes(self):
        self.agent()
        home = self.went_well(*CHRONICLE, hosts=0)
        for name in (HOME, AWAY):
            self.addCleanup(ip, "-n", name, "link", "set", "eth0", "mtu",
                            "1500")
        for mtu in (1400, 576, 9000):
            # A packet that is too long for the other end vanishes: no ICMP.
            ip("-n", HOME, "link", "set", "eth0", "mtu", str(max(mtu, 1500)))
            ip("-n", AWAY, "link", "set", "eth0", "mtu", str(mtu))
            with self.subTest(mtu=mtu):
                geneve = self.went_well(*CHRONICLE)
                self.assertEqual(home["digest"], geneve["digest"])


WIRE = f"snf-wire-{os.getpid()}"
SEED = 7
# The beginning of programs that forward frames between end0 and end1.
ENDS = """
import select, signal, socket, sys
ends = []
for name in ("end0", "end1"):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    end.setsockopt(263, 15, 1)  # PACKET_VNET_HDR
    end.setsockopt(263, 23, 1)  # PACKET_IGNORE_OUTGOING
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
    end.bind((name, 0))
    ends.append(end)

def is_udp(frame):
    # Behind 10 bytes of offloads and 14 of Ethernet.
    return frame[22:24] == bytes((8, 0)) and frame[33] == 17

def send(to, frame):
    try:
        to.send(frame)
    except OSError:
        pass
"""
FORWARD = ENDS + """
import json, random
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
rng = random.Random(int(sys.argv[1]))
counts = {"udp": 0, "lost": 0, "doubled": 0, "reordered": 0}
held = [[], []]
print("forwards", flush=True)
try:
    while True:
        ready, _, _ = select.select(ends, [], [], 0.002)
        for i, to in enumerate(reversed(ends)):
            if ends[i] not in ready:
                for frame in held[i]:
                    send(to, frame)
                held[i].clear()
                continue
            frame = ends[i].recv(1 << 17)
            if not is_udp(frame):
                send(to, frame)
                continue
            counts["udp"] += 1
            if rng.random() < 0.1:
                counts["lost"] += 1
                continue
            if rng.random() < 0.1:
                counts["reordered"] += 1
                held[i].append(frame)
                continue
            send(to, frame)
            if rng.random() < 0.05:
                counts["doubled"] += 1
                send(to, frame)
            if len(held[i]) > 3 or rng.random() < 0.3:
                rng.shuffle(held[i])
                for late in held[i]:
                    send(to, late)
                held[i].clear()
finally:
    print(json.dumps(counts), flush=True)
"""


DELAY = ENDS + """
import collections, time
longest = 65535
def change(what, _):
    global longest
    longest = 1300 if what == signal.SIGUSR1 else 65535
signal.signal(signal.SIGUSR1, change)
signal.signal(signal.SIGUSR2, change)
late = collections.deque()
print("forwards", flush=True)
while True:
    left = max(late[0][0] - time.monotonic(), 0) if late else None
    for end in select.select(ends, [], [], left)[0]:
        frame = end.recv(1 << 17)
        if is_udp(frame) and int.from_bytes(frame[26:28], "big") > longest:
            continue
        late.append((time.monotonic() + 0.05, ends[end is ends[0]], frame))
    while late and late[0][0] <= time.monotonic():
        _, to, frame = late.popleft()
        send(to, frame)
"""


class Wired(Geneve):
    """A process between the hosts forwards what they send:

        home 10.99.7.1 ── end0 wire end1 ── 10.99.7.2 away
    """

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        ip("netns", "add", WIRE)
        cls.addClassCleanup(ip, "netns", "del", WIRE, check=False)
        ip("-n", HOME, "link", "del", "eth0")
        for name, address, end in ((HOME, HOME_ADDRESS, "end0"),
                                   (AWAY, AWAY_ADDRESS, "end1")):
            ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name",
               end, "netns", WIRE)
            ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", WIRE, "link", "set", end, "up")

    def wire(self, program, *words):
        wire = subprocess.Popen(
            ["ip", "netns", "exec", WIRE, sys.executable, "-c", program,
             *words], stdout=subprocess.PIPE, text=True)
        self.addCleanup(wire.stdout.close)
        self.addCleanup(wire.wait)
        self.addCleanup(wire.kill)
        self.assertEqual(wire.stdout.readline(), "forwards\n")
        return wire


class LongWay(Wired):
    def test_a_path_of_100_ms_that_becomes_shorter_in_silence_is_found(self):
        self.frames = self.file("long.pcap", pcap(
            [(1 + i / 500, udp_frame(5000 + i % 40, payload=bytes(1400)))
             for i in range(2000)]))
        wire = self.wire(DELAY)
        agent = self.agent()
        for _ in range(3):  # under load the host may be lost, whatever it does
            wire.send_signal(signal.SIGUSR2)
            run = self.start("--policy=rotate", "--nf=chronicle")
            units = wait_for("units", lambda: self.units_of(agent))
            time.sleep(1)
            wire.send_signal(signal.SIGUSR1)
            time.sleep(4)
            is_kept = self.units_of(agent) == units
            report, said = self.end(run)
            self.assertEqual(report["packets_released"], report["packets_in"])
            if is_kept:
                break
            wait_for("end of units", lambda: not self.units_of(agent))
        self.assertTrue(is_kept, said)
        self.assertIn("packets to the other host have 1280 bytes at most", said)


class BadWay(Wired):
    """The process loses, doubles and reorders UDP."""

    def test_a_way_that_loses_doubles_and_reorders_changes_nothing(self):
        wire = self.wire(FORWARD, str(SEED))
        self.agent()
        home = self.went_well(*CHRONICLE, hosts=0)
        geneve = self.went_well(*CHRONICLE)
        for what in SAME:
            self.assertEqual(home[what], geneve[what], what)
        wire.terminate()
        counts = json.loads(wire.communicate(timeout=60)[0])
        print(f"seed {SEED}: {counts}")
        told = wait_for("counts", lambda: re.search(
            rf"GENEVE to the daemon at {re.escape(HOME_ADDRESS)}:\d+: datagrams "
            r"sent \d+, found lost (\d+)", self.said()))
        self.assertGreater(int(told[1]), 0)
        for what in ("lost", "doubled", "reordered"):
            self.assertGreater(counts[what], 100, what)


class Clocks(Geneve, host_units_test.Clocks):
    """All that is there over TCP, too."""


class Shown(Geneve, host_units_test.Shown):
    """All that is there over TCP, too."""


class Losses(Geneve, host_units_test.Losses):
    """All that is there over TCP, too."""

    SILENT = "is lost: (was silent|GENEVE packets were not acknowledged) for"


class Refusals(Geneve):
    def long_run(self):
        agent = self.agent()
        run = self.start("--policy=rotate", "--nf=chronicle")
        units = wait_for("units", lambda: self.units_of(agent))
        return agent, run, units

    def test_a_host_whose_udp_is_blocked_is_lost_and_comes_back(self):
        agent, run, first = self.long_run()
        time.sleep(0.5)
        self.block_udp()
        wait_for("end of units", lambda: not any(map(is_alive, first)))
        self.assertIsNone(run.poll())
        for name in (HOME, AWAY):
            undrop(name)
        wait_for("units", lambda: self.units_of(agent))
        time.sleep(0.5)
        report, said = self.end(run)
        self.assertIn("is lost", said)
        self.assertEqual(report["packets_released"], report["packets_in"])

    def test_a_path_that_becomes_shorter_in_silence_is_found(self):
        agent, run, units = self.long_run()
        time.sleep(0.5)
        for name in (HOME, AWAY):
            self.addCleanup(undrop, name)
            if failed := drop(name, "meta length > 1300 drop"):
                self.skipTest(f"nft: {failed.strip()}")
        time.sleep(3)
        self.assertEqual(self.units_of(agent), units)
        report, said = self.end(run)
        self.assertIn("packets to the other host have 1280 bytes at most", said)
        self.assertEqual(report["packets_released"], report["packets_in"])

    def test_an_agent_that_stands_still_does_not_make_the_path_shorter(self):
        agent, run, _ = self.long_run()
        time.sleep(0.5)
        def tell(processes, what):
            for process in processes:
                # On a machine under load the host may be lost meanwhile.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, what)
        for _ in range(3):
            processes = (agent.pid, *below(agent.pid))
            tell(processes, signal.SIGSTOP)
            time.sleep(0.5)
            tell(processes, signal.SIGCONT)
            time.sleep(0.5)
        report, said = self.end(run)
        self.assertNotIn("bytes at most", said + self.said())
        self.assertEqual(report["packets_released"], report["packets_in"])

    def test_who_is_no_member_is_refused_and_counted(self):
        agent, run, units = self.long_run()
        self.assertEqual(len(units), 1)
        # Of no session, so the agent's own socket gets them.
        subprocess.run(
            ["ip", "netns", "exec", HOME, sys.executable, "-c",
             "import socket\n"
             "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
             f"s.bind(('{OTHER_ADDRESS}', 0))\n"
             f"s.sendto(b'x' * 100, ('{AWAY_ADDRESS}', {PORT}))\n"],
            timeout=60, check=True)
        wait_for("refusal", lambda: "UDP datagrams refused: 1, the last one "
                 f"from {OTHER_ADDRESS}:" in self.said())
        # From the ports of the session, as who can forge addresses sends them.
        def ports():
            listed = subprocess.run(
                ["ip", "netns", "exec", HOME, "ss", "-Hun"],
                capture_output=True, text=True, timeout=60, check=True).stdout
            return re.findall(
                rf"{re.escape(HOME_ADDRESS)}:(\d+) +"
                rf"{re.escape(AWAY_ADDRESS)}:{PORT}\b", listed)
        sources = wait_for("ports", ports)
        self.assertEqual(len(set(sources)), 5, sources)
        udp = b"".join(
            struct.pack(">HHHH", int(source), PORT, 8 + 60, 0) + bytes(60)
            for source in sources[:1])
        subprocess.run(
            ["ip", "netns", "exec", HOME, sys.executable, "-c",
             "import socket, sys\n"
             "s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 17)\n"
             f"s.bind(('{HOME_ADDRESS}', 0))\n"
             f"s.sendto(bytes.fromhex(sys.argv[1]), ('{AWAY_ADDRESS}', 0))\n",
             udp.hex()], timeout=60, check=True)
        wait_for("refusal",
                 lambda: "GENEVE packets are refused: header" in self.said())
        self.assertTrue(is_alive(units[0]))
        self.assertIsNone(agent.poll())
        report, _ = self.end(run)
        wait_for("counts", lambda: re.search(
            r"GENEVE to the daemon at .*, refused 1 \(header\)", self.said()))
        self.assertEqual(report["packets_released"], report["packets_in"])


class Decoded(Geneve):
    def test_tshark_decodes_the_packets(self):
        if shutil.which("tshark") is None:
            self.skipTest("tshark is not installed")
        self.agent()
        path = os.path.join(self.folder.name, "wire.pcap")
        capture = subprocess.Popen(
            ["ip", "netns", "exec", HOME, sys.executable, "-c", CAPTURE, path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(capture.wait)
        self.addCleanup(capture.kill)
        self.addCleanup(capture.stdout.close)
        self.assertEqual(capture.stdout.readline(), "captures\n")
        self.went_well(*CHRONICLE, capture=self.frames)
        capture.communicate("", timeout=60)
        done = subprocess.run(
            ["tshark", "-X", f"lua_script:{SOURCE}/proto/snf.lua", "-r", path,
             "-T", "fields", "-E", "separator=;", "-e", "ip.flags.df", "-e",
             "ip.flags.mf", "-e", "ip.len", "-e", "snf.kind", "-e",
             "snf.channel", "-e", "snf.number", "-e", "snf.key", "-e",
             "_ws.expert.message", "-Y", "udp.dstport == 6081 && !icmp"],
            capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split(";") for line in done.stdout.splitlines()]
        self.assertGreater(len(rows), 100, done.stderr)
        kinds = [{int(kind, 0) for kind in row[3].split(",")} for row in rows]
        self.assertEqual(set.union(*kinds), {0x82, 0x83, 0x84})
        for row in rows:
            self.assertIn(row[0], ("1", "True"), row)
            self.assertIn(row[1], ("0", "False"), row)
            self.assertLessEqual(int(row[2]), 1500, row)
            self.assertNotIn("cannot be", row[7], row)
        self.assertEqual(len({row[6] for row in rows}), 1)  # the key
        pieces = {row[4] for row, kind in zip(rows, kinds) if kind == {0x82}}
        self.assertLessEqual({"1", "3", "4"}, pieces)


CAPTURE = """
import select, socket, struct, sys
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
port.bind(("eth0", 0))
print("captures", flush=True)
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 262144, 1))
    while True:
        ready, _, _ = select.select([port, sys.stdin], [], [])
        if port in ready:
            frame = port.recv(262144)
            out.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
        elif not sys.stdin.read(1):
            break
"""


class BadInput(Geneve):
    def test_what_cannot_be_is_refused_by_name(self):
        host = f"--host=b={AGENT},wire=geneve"
        for flags, words in (
                ((f"--host=b={AGENT},wire=ipx", "--clock=real"),
                 ("wire=ipx", "geneve")),
                ((host, "--clock=real", *UNITS, "--host_tls=/nowhere"),
                 ("--host_tls", "wire=geneve encrypts nothing"))):
            with self.subTest(flags=flags):
                self.refused(USAGE, words, "replay", SMALL, *flags)
        self.refused(USAGE, ("--geneve", "--tls"), "host", "serve",
                     "--listen=127.0.0.1:0", "--geneve", "--tls=/nowhere")

    def test_an_agent_without_geneve_refuses_it_by_name(self):
        super(Geneve, self).agent()
        done, _ = self.replay(*FAST)
        self.assertNotEqual(done.returncode, OK)
        self.assertIn("wire=geneve: the agent runs without --geneve",
                      done.stderr)

    def test_a_path_on_which_no_udp_goes_is_named(self):
        self.block_udp()
        self.agent()
        done, _ = self.replay(*FAST)
        self.assertNotEqual(done.returncode, OK)
        self.assertIn(f"host away ({AGENT}): no answer to GENEVE packets (UDP "
                      "port 6081)", done.stderr)


if __name__ == "__main__":
    main()

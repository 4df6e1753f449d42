#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several controllers, each a daemon, at the same ports (`snf up
--controllers`), and hosts of all of them inside.

    client eth0 ── lan0 [ snf up: NAME.0, NAME.1, … ] wan0 ── eth0 server
    with many addresses

Wants root, and is skipped without.

Usage: shared_ports_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # nothing beside the sources
import run_test as net
from command_case import PATIENCE_S, USAGE, below, is_alive, wait_for
from daemon_case import (FOLDER, kill, log_of, pid_of, remove_files_of,
                         send_external_to, soaking)
from run_test import CLIENT, EXTERNAL4, MIDDLE, OK, SERVER, SERVER4, ip, peer

NAME = f"shared-{os.getpid()}"
SERVER6 = "fd77::3"
HOSTS = [f"10.77.0.{number}" for number in range(20, 32)]
HOSTS6 = [f"fd77::{number}" for number in range(20, 32)]
CHAIN = f"--nf=firewall | monitor | nat(ip={EXTERNAL4})"
# What --keep wants, and an NF whose mappings are seen if they are lost.
KEPT = ("--controllers=2", "--keep=60s", "--isolation=process",
        "--loggers=on", "--threads=3", f"--nf=firewall | nat(ip={EXTERNAL4})")
# A datagram to a port that nobody has; what comes of it.
ASK_NOBODY = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
    client.settimeout(20)
    client.connect((sys.argv[1], 9999))
    client.send(b"is anybody there?")
    try:
        client.recv(100)
    except ConnectionRefusedError:
        print("refused")
"""
# A server whose answer comes in two fragments, the second one at the next line.
ANSWER_IN_PARTS = """
import socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, \\
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
    server.bind((sys.argv[1], 5000))
    print("ready", flush=True)
    _, peer = server.recvfrom(100)
    data = bytes(range(200)) * 10
    # Without a checksum, which UDP may be.
    whole = struct.pack(">4H", 5000, peer[1], 8 + len(data), 0) + data
    def send(part, offset, more):
        raw.sendto(struct.pack(
            ">BBHHHBBH4s4s", 0x45, 0, 20 + len(part), 77,
            offset // 8 | more << 13, 64, socket.IPPROTO_UDP, 0,
            socket.inet_aton(sys.argv[1]), socket.inet_aton(peer[0])) + part,
            peer)
    send(whole[:1000], 0, 1)
    print("first", flush=True)
    sys.stdin.readline()
    send(whole[1000:], 1000, 0)
"""
# Who asks for it.
ASK = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
    client.settimeout(60)
    client.connect((sys.argv[1], 5000))
    client.send(b"?")
    print("right" if client.recv(9000) == bytes(range(200)) * 10 else "wrong")
"""
# So an old program's flows have ended soon.
SHORT = ("--flow_timeout=3s", "--evict_after=2s")


def snf(*words, name=NAME):
    return subprocess.run(
        net.in_network(MIDDLE, net.PROGRAM, *words, f"--name={name}"),
        capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)


def status():
    return json.loads(snf("status", "--json").stdout)


def count(reply, key):
    return int(reply.get("count", {}).get(key, 0))


def sent_by(namespace):
    done = subprocess.run(
        net.inside(namespace, "cat", "/sys/class/net/eth0/statistics/tx_packets"),
        capture_output=True, text=True, check=True)
    return int(done.stdout)


class SharedPorts(net.Run):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.end)
        for namespace in (CLIENT, SERVER):
            # So that a frame is a packet, for those who count.
            peer(namespace, "finish_checksums", "eth0")
        for host in HOSTS:
            ip("-n", CLIENT, "addr", "add", f"{host}/24", "dev", "eth0")
        for host in HOSTS6:
            ip("-n", CLIENT, "addr", "add", f"{host}/64", "dev", "eth0",
               "nodad")
        # All of its ICMP errors go to one address, more than one a second.
        subprocess.run(
            net.inside(SERVER, "sh", "-c",
                       "echo 0 > /proc/sys/net/ipv4/icmp_ratelimit"),
            check=True)
        send_external_to()

    @staticmethod
    def end():
        snf("down")
        remove_files_of(NAME)

    def up(self, *words):
        done = snf("up", *net.PORTS, *words)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    @staticmethod
    def be(host, to=SERVER4):
        """The client speaks as this host."""
        ip("-n", CLIENT, "route", "replace", to, "dev", "eth0", "src", host)

    def controller_of(self, host, count_of):
        """Whose packets count when the host speaks."""
        self.be(host)
        before = [count(one, "packets_in") for one in status()["member"]]
        self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 3)), 3)

        def whose():
            now = [count(one, "packets_in") for one in status()["member"]]
            grown = [i for i in range(count_of) if now[i] >= before[i] + 6]
            return grown and str(grown[0])
        return int(wait_for("figures of the host's controller", whose))

    def figures_at_rest(self):
        """What all say once nothing is under way."""
        last = None

        def same():
            nonlocal last
            now = status()
            counts = [one.get("count") for one in now["member"]]
            last, before = counts, last
            return now if counts == before else None

        def looked():
            subprocess.run(["sleep", "0.7"], check=True)  # figures are so old
            return same()
        return wait_for("rest", looked)

    @staticmethod
    def sent_by_hosts():
        return sent_by(CLIENT) + sent_by(SERVER)

    def settled(self):
        """Figures, and how many packets hosts have sent by then."""
        def both():
            sent = self.sent_by_hosts()
            now = self.figures_at_rest()
            return (now, sent) if self.sent_by_hosts() == sent else None
        return wait_for("silence", both)

    def check_each_packet_was_handled_once(self, before, after, sent):
        received = [sum(int(port.get("received", 0)) for port in one["port"])
                    for one in (before, after)]
        self.assertEqual(received[1] - received[0], sent)
        for one in (before, after):
            self.assertEqual(int(one.get("unrouted", 0)), 0)
        for port in after["port"]:
            self.assertEqual(int(port.get("kernel_drops", 0)), 0)
        for member in after["member"]:
            self.assertGreater(count(member, "packets_in"),
                               sent / 10 / len(after["member"]))

    def check_traffic(self, controllers):
        out = self.up(f"--controllers={controllers}", CHAIN)
        self.assertIn(f"is controller {controllers - 1} of {controllers}", out)
        with self.server("0.0.0.0"):
            before, sent = self.settled()
            for host in HOSTS:
                self.be(host)
                self.assertEqual(peer(CLIENT, "who", SERVER4), [EXTERNAL4])
                self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 2)), 2)
                self.assertEqual(peer(CLIENT, "tcp", SERVER4, 20, 20_000),
                                 ["20 right"])
                # Of several fragments each, both ways.
                self.check_udp(CLIENT, SERVER4, [4_000, 9_000])
                done = subprocess.run(
                    net.inside(CLIENT, sys.executable, "-c", ASK_NOBODY,
                               SERVER4),
                    capture_output=True, text=True, check=True)
                self.assertEqual(done.stdout, "refused\n")
            after, now = self.settled()
        self.check_each_packet_was_handled_once(before, after, now - sent)
        # Later fragments came to all, and one had them.
        foreign = sum(int(port.get("foreign", 0)) for port in after["port"])
        self.assertGreaterEqual(foreign, len(HOSTS) * 8 * (controllers - 1))
        self.assertEqual(
            {drop["reason"] for drop in after.get("drop", [])
             if int(drop.get("packets", 0)) > 0}
            - {"no_mapping", "nf:nat.not_ipv4"}, set())

    def test_two_handle_each_packet_once(self):
        self.check_traffic(2)

    def test_three_handle_each_packet_once(self):
        self.check_traffic(3)

    def test_a_capture_has_packets_of_all(self):
        self.up("--controllers=2", CHAIN)
        of = {}
        for host in HOSTS:
            of.setdefault(self.controller_of(host, 2), host)
        self.assertEqual(set(of), {0, 1})
        capture = subprocess.Popen(
            net.in_network(MIDDLE, net.PROGRAM, "capture", f"--name={NAME}",
                           "icmp"), stdout=subprocess.PIPE, text=True)
        self.addCleanup(capture.stdout.close)
        self.addCleanup(capture.wait)
        self.addCleanup(capture.kill)
        wait_for("both captures", lambda: all(
            " begins: " in log_of(f"{NAME}.{i}")
            for i in of))
        for host in of.values():
            self.be(host)
            self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 3)), 3)
        capture.send_signal(signal.SIGINT)
        lines = capture.communicate(timeout=PATIENCE_S)[0].splitlines()
        self.assertEqual(capture.returncode, OK)
        for host in of.values():
            self.assertEqual(sum(f"> {host}" in line for line in lines), 3,
                             lines)
        self.assertEqual(len(lines), 12, lines)

    def test_ipv6_is_shared(self):
        self.up("--controllers=2", "--nf=firewall | monitor")
        with self.server("::"):
            before, sent = self.settled()
            for host in HOSTS6:
                self.be(host, SERVER6)
                self.assertEqual(len(peer(CLIENT, "ping", SERVER6, 2)), 2)
                self.assertEqual(peer(CLIENT, "tcp", SERVER6, 10, 20_000),
                                 ["10 right"])
                self.check_udp(CLIENT, SERVER6, [4_000])
            after, now = self.settled()
        self.check_each_packet_was_handled_once(before, after, now - sent)

    @contextlib.contextmanager
    def talking(self, host):
        """Connections of the host, none of which may break."""
        self.be(host)
        with soaking(self):
            yield

    def test_hosts_of_others_go_on_where_one_is_killed(self):
        self.up("--controllers=2", CHAIN)
        with self.server("0.0.0.0"):
            host = {}
            for one in HOSTS:
                host.setdefault(self.controller_of(one, 2), one)
            self.assertEqual(set(host), {0, 1})
            for victim in (0, 1):
                with self.talking(host[1 - victim]):
                    done = snf("kill", "controller", str(victim))
                    self.assertEqual(done.returncode, OK, done.stderr)
                    self.assertIn(f"controller {victim} of", done.stdout)
                    self.be(host[victim])
                    self.assertEqual(peer(CLIENT, "udp", SERVER4, 10),
                                     3 * ["10 lost"])
                    self.assertIn("does not run", snf("status").stdout)
                    # The same command starts what is missing.
                    out = self.up("--controllers=2", CHAIN)
                    self.assertIn("runs already", out)
                    self.check_udp(CLIENT, SERVER4, [10])
        done = snf("down")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(list(FOLDER.glob(f"{NAME}*")), [])

    @staticmethod
    def log(controller):
        return log_of(f"{NAME}.{controller}")

    def hosts_of_each(self):
        host = {}
        for one in HOSTS:
            host.setdefault(self.controller_of(one, 2), one)
        self.assertEqual(set(host), {0, 1})
        return host

    def test_flows_outlive_a_controller_that_is_killed(self):
        self.up(*KEPT)
        first = [int(one["pid"]) for one in status()["member"]]
        others = [below(pid) for pid in first]
        with self.server("0.0.0.0"):
            host = self.hosts_of_each()
            with self.talking(host[0]), self.talking(host[1]):
                for victim in (0, 1):
                    before = status()["member"]
                    kill(int(before[victim]["pid"]))
                    self.assertIn("wait 5", snf(
                        "flows", name=f"{NAME}.{victim}").stderr)
                    self.assertIn("runs already", self.up(*KEPT))
                    self.assertRegex(self.log(victim),
                                     r"took over [1-9]\d* flows")
                    after = status()["member"]
                    self.assertEqual(after[1 - victim]["pid"],
                                     before[1 - victim]["pid"])
                    self.assertNotIn("goes on", snf(
                        "status", name=f"{NAME}.{1 - victim}").stdout
                        if victim == 0 else "")
                    # Ports of the flows before are not given again.
                    self.be(host[victim])
                    self.assertEqual(peer(CLIENT, "tcp", SERVER4, 50, 1_000),
                                     ["50 right"])
                # Both at once.
                for one in status()["member"]:
                    kill(int(one["pid"]))
                self.up(*KEPT)
                for controller in (0, 1):
                    self.assertEqual(self.log(controller).count("took over"),
                                     2)
            self.assertTrue(all(map(is_alive, sum(others, []))))
        # What waits for the next one does not, once all are to end.
        for one in status()["member"]:
            kill(int(one["pid"]))
        done = snf("down")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(done.stdout.count("have ended"), 2)
        self.assertFalse(any(map(is_alive, sum(others, []))))
        self.assertEqual([path for path in FOLDER.glob(f"{NAME}*")
                          if path.suffix != ".log"], [])

    def start_one(self, controller, *words):
        done = snf("up", *net.PORTS, f"--controller={controller}/2", *words,
                   name=f"{NAME}.{controller}")
        self.assertEqual(done.returncode, OK, done.stderr)

    def told(self, *words, name=NAME):
        done = snf(*words, name=name)
        self.assertEqual(done.returncode, OK, done.stderr)
        return done.stdout

    def check_fails(self, words, *command):
        done = snf(*command)
        self.assertNotEqual(done.returncode, OK, done.stdout)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_settings_of_all_change_or_none(self):
        self.start_one(0, "--max_units=4", "--replicas=1")
        self.start_one(1, "--max_units=2", "--replicas=1")
        both = [f"{NAME}.{controller}" for controller in (0, 1)]

        def values(setting):
            return [dict(line.split("=", 1) for line in self.told(
                "set", name=name).splitlines())[setting] for name in both]
        self.told("set", "alpha=0.5", "log_level=debug")
        self.assertEqual(values("alpha"), ["0.5", "0.5"])
        self.check_fails([f'"{both[1]}"', "max_units=3"], "set", "max_units=3",
                         "alpha=0.25")
        self.assertEqual(values("max_units"), ["4", "2"])
        self.assertEqual(values("alpha"), ["0.5", "0.5"])
        self.check_fails(["max_units is 4 of", "and 2 of"], "set")
        self.told("set", "max_units=2")
        self.assertIn("max_units=2\n", self.told("set"))
        self.check_fails([f'"{both[0]}"', "no setting"], "set", "speed=9")
        kill(pid_of(both[0]))
        self.check_fails([f'"{both[0]}" does not run', f"--name={both[1]}"],
                         "set", "alpha=1")
        self.assertIn("alpha=0.5\n", self.told("set", name=both[1]))

    def test_all_are_given_another_chain(self):
        self.up("--controllers=2", "--nf=firewall | monitor")
        with self.server("0.0.0.0"):
            host = self.hosts_of_each()
            with self.talking(host[0]), self.talking(host[1]):
                out = self.told("chain", "set", "monitor | firewall")
                for controller in (0, 1):
                    self.assertIn(f'"{NAME}.{controller}": Chain 2, ', out)
                self.assertEqual({one["nf"] for one in status()["member"]},
                                 {"monitor | firewall"})
                self.check_fails([f'"{NAME}.0"', "no_such_nf"], "chain", "set",
                                 "no_such_nf")
                for one in host.values():
                    self.be(one)
                    self.assertEqual(peer(CLIENT, "tcp", SERVER4, 20, 1_000),
                                     ["20 right"])

    def test_it_is_said_who_has_the_chain_that_another_cannot_have(self):
        self.start_one(0)
        self.start_one(1, "--keep=60s", "--isolation=process", "--loggers=on",
                       "--threads=2")
        # It cannot note the chain.
        notes = FOLDER / f"{NAME}.1.keep.chains"
        notes.unlink()
        (notes / "in the way").mkdir(parents=True)
        self.addCleanup(notes.rmdir)
        self.addCleanup((notes / "in the way").rmdir)
        self.check_fails([f'"{NAME}.1": ', f'"{NAME}.0" already runs it'],
                         "chain", "set", "monitor")
        self.assertEqual([one["nf"] for one in status()["member"]],
                         ["monitor", "passthrough"])

    def upgrade(self, *words):
        """The processes that others have taken the place of."""
        before = [int(one["pid"]) for one in status()["member"]]
        out = self.up("--upgrade", *words)
        after = [int(one["pid"]) for one in status()["member"]]
        for i, (old, new) in enumerate(zip(before, after, strict=True)):
            self.assertNotEqual(old, new)
            self.assertIn(f"is controller {i} of {len(before)}, as process "
                          f"{new}, in the place of {old}.", out)
        return before

    def start(self, namespace, *words):
        process = subprocess.Popen(
            net.inside(namespace, sys.executable, *words),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_all_are_upgraded_and_no_datagram_is_lost_or_there_twice(self):
        words = ("--controllers=2", "--nf=monitor", *SHORT)
        self.up(*words)
        host = self.hosts_of_each()
        receiver = self.start(SERVER, net.PEER, "receive_numbers", SERVER4)
        self.assertEqual(receiver.stdout.readline(), "ready\n")
        sender = self.start(CLIENT, net.PEER, "send_numbers", SERVER4)

        def meanwhile(condition):
            """Its sockets are those of one host and the other by turns."""
            self.be(host[int(time.monotonic() * 5) % 2])
            return condition()
        for _ in range(2):
            old = self.upgrade(*words)
            wait_for("end of the old ones", lambda: meanwhile(
                lambda: not any(map(is_alive, old))))
        wait_for("packets of both", lambda: meanwhile(lambda: all(
            count(one, "packets_in") > 100 for one in status()["member"])))
        sent, _ = sender.communicate(timeout=60)
        said, _ = receiver.communicate(input=sent, timeout=60)
        came = json.loads(said)
        self.assertGreater(came["sent"], 2_000)
        self.assertEqual((came["missing"], came["repeated"]), (0, 0), came)

    def test_connections_through_a_nat_outlive_an_upgrade_of_all(self):
        words = ("--controllers=2", CHAIN)
        self.up(*words)
        with self.server("0.0.0.0"):
            host = self.hosts_of_each()
            with self.talking(host[0]), self.talking(host[1]):
                old = self.upgrade(*words)
                self.assertTrue(all(map(is_alive, old)))
                for one in host.values():
                    self.be(one)
                    self.assertEqual(peer(CLIENT, "tcp", SERVER4, 50, 1_000),
                                     ["50 right"])
                # One that has flows of before cannot be upgraded again, and
                # which have been is said.
                done = snf("up", *net.PORTS, "--upgrade", *words)
                self.assertNotEqual(done.returncode, OK)
                self.assertIn("still has flows", done.stderr)
                self.assertIn(f'Replaced: none; not replaced: "{NAME}.0", '
                              f'"{NAME}.1"', done.stderr)
            # Who is killed amid it leaves the ports to the other.
            kill(old[0])
            for one in HOSTS:
                self.be(one)
                self.assertEqual(peer(CLIENT, "who", SERVER4), [EXTERNAL4])
                self.check_udp(CLIENT, SERVER4, [4_000])
        done = snf("down")
        self.assertEqual(done.returncode, OK, done.stderr)
        wait_for("end", lambda: not any(map(is_alive, old)))

    def test_fragments_of_a_datagram_come_before_and_after_an_upgrade(self):
        """To the external address, where who has the first has the others."""
        words = ("--controllers=2", f"--nf=nat(ip={EXTERNAL4})")
        self.up(*words)
        with self.server("0.0.0.0"):
            host = self.hosts_of_each()
        for one in host.values():
            self.be(one)
            # As long as it has that flow, the old one reads, but not longer.
            self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 1)), 1)
            old = self.upgrade(*words, "--within=5s")
            server = self.start(SERVER, "-c", ANSWER_IN_PARTS, SERVER4)
            self.assertEqual(server.stdout.readline(), "ready\n")
            asks = self.start(CLIENT, "-c", ASK, SERVER4)
            self.assertEqual(server.stdout.readline(), "first\n")
            self.assertTrue(any(map(is_alive, old)))
            wait_for("end of the old ones", lambda: not any(map(is_alive, old)))
            server.communicate("\n", timeout=PATIENCE_S)
            said, _ = asks.communicate(timeout=PATIENCE_S)
            self.assertEqual(said, "right\n")

    def test_an_upgrade_of_what_is_not_the_same_is_refused(self):
        words = ("--controllers=2", CHAIN)
        self.up(*words)
        before = [one["pid"] for one in status()["member"]]
        for said, name, flags in (
                ("shares its ports otherwise: it is controller 0/2; "
                 f"{EXTERNAL4}; ", NAME,
                 ("--controllers=2", "--nf=firewall | monitor")),
                ("the other is alone", f"{NAME}.0", (CHAIN,)),
                ("runs as one of 2", NAME, ("--controllers=3", CHAIN))):
            done = snf("up", *net.PORTS, "--upgrade", *flags, name=name)
            self.assertNotEqual(done.returncode, OK, done.stdout)
            self.assertIn(said, done.stderr)
        kill(int(before[1]))
        done = snf("up", *net.PORTS, "--upgrade", *words)
        self.assertIn(f'"{NAME}.1" does not run', done.stderr)
        self.assertEqual([one["pid"] for one in status()["member"]],
                         [before[0], 0])

    def test_units_wait_for_the_controller_that_they_had(self):
        """Another one has other ports of the NAT."""
        one = KEPT[1:]
        for controller in ("0/2", "1/2"):
            done = snf("up", *net.PORTS, f"--controller={controller}", *one,
                       name=f"{NAME}.0")
            self.assertEqual(done.returncode, OK, done.stderr)
            if controller == "0/2":
                kill(pid_of(f"{NAME}.0"))
        self.assertIn("begins anew: ", self.log(0))

    def test_they_lease_their_units_of_a_resource_manager(self):
        words = ("--controllers=2", "--units=4", "--unit_capacity=200Mbps",
                 CHAIN)
        self.assertIn("is the resource manager", self.up(*words))
        with self.server("0.0.0.0"):
            def all_talk():
                for host in HOSTS:
                    self.be(host)
                    self.assertEqual(peer(CLIENT, "tcp", SERVER4, 5, 20_000),
                                     ["5 right"])
            all_talk()
            leases = snf("leases").stdout
            for controller in (0, 1):
                self.assertIn(f"{NAME}.{controller}", leases)
            os.kill(pid_of(NAME), signal.SIGKILL)
            all_talk()
            self.assertIn("is the resource manager", self.up(*words))
            all_talk()
        done = snf("down")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(list(FOLDER.glob(f"{NAME}*")), [])

    def test_the_last_one_switches_on_again_what_any_switched_off(self):
        def is_on():
            return [peer(MIDDLE, "gro", interface)[0]
                    for interface in ("lan0", "wan0")]

        def note(interface):
            # Other networks have interfaces of the same names.
            shown = json.loads(subprocess.run(
                ["ip", "-n", MIDDLE, "-j", "link", "show", interface],
                capture_output=True, check=True).stdout)
            mac = shown[0]["address"].replace(":", "")
            return pathlib.Path(f"/run/snf-port-{interface}-{mac}")
        notes = [note(interface) for interface in ("lan0", "wan0")]
        for interface in ("lan0", "wan0"):
            peer(MIDDLE, "gro", interface, "1")
        names = [f"{NAME}.{i}" for i in range(3)]
        self.up("--controllers=3", CHAIN)
        self.assertEqual(is_on(), ["0", "0"])
        self.assertEqual([one.exists() for one in notes], [True, True])
        for name in names[:2]:
            self.assertEqual(snf("down", name=name).returncode, OK)
            self.assertEqual(is_on(), ["0", "0"], name)
        self.assertEqual(snf("down").returncode, OK)
        self.assertEqual(is_on(), ["1", "1"])
        self.up("--controllers=2", CHAIN)
        daemons = [pid_of(name) for name in names[:2]]
        for daemon in daemons:
            os.kill(daemon, signal.SIGKILL)
        wait_for("their end", lambda: not any(map(is_alive, daemons)))
        self.assertEqual(is_on(), ["0", "0"])
        # They find it off already.
        self.up("--controllers=2", CHAIN)
        self.assertEqual(snf("down").returncode, OK)
        self.assertEqual(is_on(), ["1", "1"])
        self.assertEqual([one.exists() for one in notes], [False, False])

    def check_is_refused(self, words, *flags):
        done = snf("up", *flags)
        self.assertEqual(done.returncode, USAGE, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_refuses_what_cannot_be_shared(self):
        self.check_is_refused(["--controller=0/2", "xdp:lan0"],
                              "--controller=0/2", *net.XDP_PORTS)
        self.check_is_refused(["--controller=0/2", "need at least 64 pieces"],
                              "--controller=0/2", *net.PORTS,
                              "--nf=nat(ip=10.77.0.100,ports=1024-1080)")
        self.check_is_refused(["--controllers", "--port"], "--controllers=2")
        self.check_is_refused(["--controllers with --log"], "--controllers=2",
                              *net.PORTS, "--log=/dev/null")
        chains = self.folder / "chains.conf"
        chains.write_text('chain { name: "a" text: "monitor" }\n'
                          'chain { name: "b" text: "passthrough" }\n'
                          'default_chain: "b"\n')
        self.check_is_refused(["--controllers with --config=",
                               "several chains have one controller each"],
                              "--controllers=2", *net.PORTS,
                              f"--config={chains}")
        self.check_is_refused(["--units with --upgrade"], "--controllers=2",
                              *net.PORTS, "--units=2", "--upgrade")
        self.check_is_refused(["--units with --keep"], *KEPT, "--units=2",
                              *net.PORTS)
        self.assertEqual(list(FOLDER.glob(f"{NAME}*")), [])

    def test_one_that_runs_is_of_as_many(self):
        self.up("--controllers=2")
        done = snf("up", *net.PORTS, "--controllers=3")
        self.assertNotEqual(done.returncode, OK)
        self.assertIn("runs as one of 2", done.stderr)
        done = subprocess.run(
            [net.PROGRAM, "chain", "set", CHAIN.removeprefix("--nf="),
             f"--name={NAME}.1"], capture_output=True, text=True, check=False)
        self.assertIn("other external addresses", done.stderr)


# What run_test.py tests itself.
for test in [name for name in dir(net.Run) if name.startswith("test_")]:
    setattr(SharedPorts, test, None)


if __name__ == "__main__":
    net.main("SharedPorts")

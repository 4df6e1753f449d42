#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Groups of controllers, whose table is in etcd (`snf up --group`).

    client eth0 ── lan0 [ snf up: NAME.0, NAME.1, NAME.2 ] wan0 ── eth0 server

    client lan0 ── lan0 [ snf up: NAME.0 ] wan0 ── wan0 server
    client lan1 ── lan0 [ snf up: NAME.1 ] wan0 ── wan1 server
           …           eth0 ── br0 (etcd) ── eth0

In the second network client and server are routers that send any packet to any
of the gateways. Wants root and etcd, and is skipped without.

Usage: group_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import run_test as net
from command_case import PATIENCE_S, USAGE, wait_for
from daemon_case import (kill, log_of, pid_of, remove_files_of,
                         send_external_to, soaking)
from etcd_peer import Etcd, skip_without_etcd
from run_test import CLIENT, EXTERNAL4, MIDDLE, OK, SERVER, SERVER4, ip, peer

NAME = f"group-{os.getpid()}"
HOSTS = [f"10.77.0.{number}" for number in range(20, 44)]
PEER = str(pathlib.Path(__file__).resolve().with_name("group_peer.py"))
COUNT = 3
# Long enough for a machine with other tests: a live member that is late for it
# is taken out. A frozen one is out after twice as long.
SILENCE_S = 3
OUT_S = 2 * SILENCE_S + 2
# What takes about SILENCE_S takes longer on a machine that is busy.
TAKEOVER_S = 20
# Datagrams of hosts that stay where they are may be lost on such a machine.
MOST_LOST = 0.1
GATES = [f"snf-gate{i}-{os.getpid()}" for i in range(COUNT)]
FAR_SERVER, FAR_HOSTS = "10.4.0.1", [f"10.3.0.{i}" for i in range(20, 44)]


def in_etcds_network(*words):
    return net.in_network(MIDDLE, *words)


class Talk:
    """Hosts that talk to the server all the time (group_peer.py)."""

    def __init__(self, server, hosts):
        self.process = subprocess.Popen(
            net.inside(CLIENT, sys.executable, PEER, server, *hosts),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def silent(self, word="look"):
        """How long each host has had no answer; "begin": gaps count from now
        on."""
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        out, _ = self.process.communicate("", timeout=PATIENCE_S)
        return json.loads(out)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Group(unittest.TestCase):
    """What both networks have."""

    def begin(self, etcd_address):
        self.etcd = Etcd(in_etcds_network(), etcd_address)
        self.addCleanup(self.etcd.end)

    @staticmethod
    def end():
        remove_files_of(NAME)

    def snf(self, number, *words):
        return subprocess.run(
            net.in_network(self.network_of(number), net.PROGRAM, *words,
                           f"--name={NAME}.{number}"),
            capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)

    def flags_of(self, number, *words):
        given = {word.split("=")[0] for word in words}
        usual = (f"--controller={number}/{COUNT}", "--group=edge", self.chain,
                 f"--takeover={SILENCE_S}s",
                 f"--etcd={self.etcd.endpoint}", *self.own_flags(number))
        return [*words, *(flag for flag in usual
                          if flag.split("=")[0] not in given)]

    def up(self, number, *words):
        done = self.snf(number, "up", *self.ports_of(number),
                        *self.flags_of(number, *words))
        self.assertEqual(done.returncode, OK, done.stderr)
        self.addCleanup(self.snf, number, "down")

    def up_all(self, *words):
        for number in range(COUNT):
            self.up(number, *words)
        self.await_all()

    def status(self, number):
        done = self.snf(number, "status", "--json")
        self.assertEqual(done.returncode, OK, done.stderr)
        return json.loads(done.stdout)

    def group(self, number):
        group = self.status(number).get("group", {})
        group["live"] = {one.get("number", 0) for one in group.get("member", [])}
        group["counts"] = {one["name"]: int(one.get("count", 0))
                           for one in group.get("count", [])}
        return group

    def agree(self, numbers):
        groups = [self.group(number) for number in numbers]
        return all(one["state"] == "active" and one["live"] == set(numbers)
                   and one["epoch"] == groups[0]["epoch"] for one in groups)

    def await_all(self, numbers=range(COUNT)):
        wait_for("group", lambda: self.agree(list(numbers)))

    def pid(self, number):
        return pid_of(f"{NAME}.{number}")

    def log(self, number):
        return log_of(f"{NAME}.{number}")

    def count(self, number):
        return int(self.status(number)["count"].get("packets_in", 0))

    @contextlib.contextmanager
    def talking(self, hosts=None):
        talk = Talk(self.server4, hosts or self.hosts)
        try:
            yield talk
        finally:
            talk.kill()

    def owners(self):
        """The hosts of each controller, by what each had of each."""
        owners = {number: [] for number in range(COUNT)}
        for host in self.hosts:
            before = [self.count(number) for number in range(COUNT)]
            with self.talking([host]) as talk:
                time.sleep(0.7)
                self.assertGreater(talk.end()[host]["answered"], 0)

            def whose():
                grown = [number for number in range(COUNT)
                         if self.count(number) > before[number] + 20]
                return grown and (grown[0],)
            owners[wait_for("figures", whose)[0]].append(host)
            if min(map(len, owners.values())) > 0:
                break
        self.assertGreater(min(map(len, owners.values())), 0, owners)
        return owners

    def check_nobody_was_served_twice(self, told):
        for host, one in told.items():
            self.assertEqual(one["repeated"], 0, (host, one))
            self.assertGreater(one["answered"], 0, (host, one))

    def all_answered(self, talk):
        wait_for("answers", lambda: max(talk.silent().values()) < 0.5)


class Shared(Group):
    """The controllers share the ports of one machine."""

    chain = f"--nf=firewall | monitor | nat(ip={EXTERNAL4})"
    hosts, server4 = HOSTS, SERVER4

    def setUp(self):
        self.addCleanup(net.remove_network)
        net.remove_network()
        net.make_network()
        self.addCleanup(self.end)
        for host in HOSTS:
            ip("-n", CLIENT, "addr", "add", f"{host}/24", "dev", "eth0")
        send_external_to()
        self.begin("127.0.0.1")
        serving = net.serving("/", "0.0.0.0")
        serving.__enter__()
        self.addCleanup(serving.__exit__, None, None, None)

    @staticmethod
    def network_of(_):
        return MIDDLE

    @staticmethod
    def ports_of(_):
        return net.PORTS

    @staticmethod
    def own_flags(_):
        return ()

    @contextlib.contextmanager
    def connections(self, host):
        """Connections of the host, none of which may break."""
        ip("-n", CLIENT, "route", "replace", SERVER4, "dev", "eth0", "src", host)
        with soaking(self):
            yield

    def test_hosts_of_one_that_is_killed_are_the_others(self):
        self.up_all()
        owners = self.owners()
        one = [hosts[0] for hosts in owners.values()]
        with self.connections(one[0]), self.talking(one) as talk:
            self.all_answered(talk)
            talk.silent("begin")
            epoch = int(self.group(0)["epoch"])
            os.kill(self.pid(1), signal.SIGKILL)
            began = time.monotonic()
            wait_for("others", lambda: self.agree([0, 2]))
            self.all_answered(talk)
            self.assertLess(time.monotonic() - began, PATIENCE_S)
            self.assertGreater(int(self.group(0)["epoch"]), epoch)
            told = talk.end()
        print(f"note: hosts of who was killed had no answer for "
              f"{told[one[1]]['gap']} s")
        self.check_nobody_was_served_twice(told)
        self.assertLess(told[one[1]]["gap"], TAKEOVER_S)
        for number in (0, 2):
            self.assertGreater(
                told[one[number]]["answered"],
                (1 - MOST_LOST) * told[one[number]]["sent"], told)
        self.assertIn("controller 1 (", self.log(0) + self.log(2))
        self.assertIn(" is out of the table: others have its hosts",
                      self.log(0) + self.log(2))
        self.assertIn("without 1", self.snf(0, "status").stdout)
        # It comes back, and so do its hosts.
        with self.talking(one) as talk:
            self.all_answered(talk)
            talk.silent("begin")
            self.up(1)
            self.await_all()
            before = self.count(1)
            wait_for("its hosts", lambda: self.count(1) > before + 20)
            self.all_answered(talk)
            told = talk.end()
        self.check_nobody_was_served_twice(told)
        print(f"note: hosts that came back had no answer for "
              f"{told[one[1]]['gap']} s")

    def test_one_that_was_frozen_handles_nothing_until_it_has_joined_again(self):
        self.up_all()
        owners = self.owners()
        one = [hosts[0] for hosts in owners.values()]
        victim = self.pid(2)
        with self.talking(one) as talk:
            self.all_answered(talk)
            for time_s in (0.1, OUT_S, 0.8 * SILENCE_S, 1.1 * SILENCE_S):
                os.kill(victim, signal.SIGSTOP)
                try:
                    time.sleep(time_s)
                finally:
                    os.kill(victim, signal.SIGCONT)
                self.await_all()
                self.all_answered(talk)
            self.check_nobody_was_served_twice(talk.end())
        self.assertIn("this controller is out of the table", self.log(2))
        # What waited for it while it stood still.
        self.assertGreater(self.group(2)["counts"]["out"], 0)

    def test_one_that_is_started_again_soon_has_its_hosts_with_their_flows(self):
        kept = ("--takeover=20s", "--keep=60s", "--isolation=process",
                "--loggers=on", "--threads=3")
        self.up_all(*kept)
        one = [hosts[0] for hosts in self.owners().values()]
        with self.connections(one[1]), self.talking(one) as talk:
            self.all_answered(talk)
            talk.silent("begin")
            epoch = int(self.group(0)["epoch"])
            kill(self.pid(1))
            self.up(1, *kept)
            self.await_all()
            self.all_answered(talk)
            told = talk.end()
        self.assertGreater(int(self.group(0)["epoch"]), epoch)
        print(f"note: hosts of who was started again had no answer for "
              f"{told[one[1]]['gap']} s")
        self.check_nobody_was_served_twice(told)
        self.assertRegex(self.log(1), r"took over [1-9]\d* flows")

    def test_random_deaths_and_pauses_serve_nobody_twice(self):
        seed = int(os.environ.get("SNF_TEST_SEED", "") or random.getrandbits(32))
        print(f"note: SNF_TEST_SEED={seed}")
        chance = random.Random(seed)
        self.up_all()
        one = [hosts[0] for hosts in self.owners().values()]
        with self.talking(one) as talk:
            end = time.monotonic() + 30
            while time.monotonic() < end:
                self.harm(chance)
                time.sleep(chance.uniform(0, 1))
            self.await_all()
            self.all_answered(talk)
            self.check_nobody_was_served_twice(talk.end())

    def harm(self, chance):
        """Kills or freezes a controller, or etcd, and has it go on."""
        number, time_s = chance.randrange(COUNT), chance.uniform(0, OUT_S)
        pid = self.pid(number)
        what = chance.choice(("kill", "stop", "stop", "etcd"))
        if what == "etcd":
            self.etcd.kill()
            time.sleep(time_s)
            self.etcd.start()
        elif what == "stop":
            os.kill(pid, signal.SIGSTOP)
            try:
                time.sleep(time_s)
            finally:
                os.kill(pid, signal.SIGCONT)
        else:
            kill(pid)
            time.sleep(time_s)
            # etcd may have been away for it.
            self.up(number)

    def test_the_table_stays_while_etcd_is_away(self):
        self.up_all()
        one = [hosts[0] for hosts in self.owners().values()]
        with self.talking(one) as talk:
            self.all_answered(talk)
            epoch = self.group(0)["epoch"]
            self.etcd.kill()
            end = time.monotonic() + 5
            while time.monotonic() < end:
                self.assertLess(max(talk.silent().values()), TAKEOVER_S)
                self.assertEqual(self.group(0)["epoch"], epoch)
                time.sleep(0.2)
            status = self.status(0)
            self.assertEqual(status["group"]["state"], "active")
            self.assertGreater(status["etcd"]["away_ns"], 1e9)
            self.assertRegex(self.snf(0, "status").stdout,
                             r"etcd +away for .*: the table of the group stays "
                             r"as it is\n")
            self.etcd.start()
            wait_for("notice", lambda: "etcd answers again" in self.log(0))
            wait_for("no word", lambda: not self.status(0)["etcd"]["why"])
            self.await_all()
            self.all_answered(talk)
            told = talk.end()
        self.check_nobody_was_served_twice(told)
        self.assertIn("its table stays as it is", self.log(0))
        # It is lost and has to be made again.
        self.etcd.control("del", "--prefix", "/snf/")
        with self.talking(one) as talk:
            wait_for("epoch",
                     lambda: int(self.group(0)["epoch"]) > int(epoch))
            self.await_all()
            self.all_answered(talk)
            self.check_nobody_was_served_twice(talk.end())

    def test_who_leaves_gives_its_hosts_away(self):
        self.up_all()
        one = [hosts[0] for hosts in self.owners().values()]
        with self.talking(one) as talk:
            self.all_answered(talk)
            talk.silent("begin")
            self.assertEqual(self.snf(0, "down").returncode, OK)
            self.await_all([1, 2])
            self.all_answered(talk)
            told = talk.end()
        self.check_nobody_was_served_twice(told)
        print(f"note: hosts of who left had no answer for "
              f"{told[one[0]]['gap']} s")

    def check_refused(self, number, words, *flags, name=None):
        name = name or f"{NAME}-x"
        done = subprocess.run(
            net.in_network(self.network_of(number), net.PROGRAM, "up",
                           f"--name={name}", *self.ports_of(number),
                           *self.flags_of(number, *flags)),
            capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
        self.assertNotEqual(done.returncode, OK, done.stdout)
        self.assertIn(words, done.stderr)

    def test_who_cannot_join_is_told_why(self):
        self.up(0)
        self.await_all([0])
        there = f'group "edge": controller 0 ("{NAME}.0 on '
        self.check_refused(0, there)
        self.check_refused(0, '") is a member already')
        self.check_refused(1, "this one is of 4 controllers, and the group has "
                           "3", "--controller=1/4")
        self.check_refused(1, there, "--nf=monitor")
        self.check_refused(1, f"nat(ip={EXTERNAL4}); {EXTERNAL4}; 1024 to ",
                           "--nf=monitor")
        self.check_refused(1, "this one has --group_address, and the members "
                           "have none", "--group_address=127.0.0.1:6083")
        self.check_files_of_tls()
        hosts = ("--own_units=1", "--isolation=process", "--loggers=on")
        for words, *flags in (
                ("--group: wants --controller", "--controller=0/1"),
                ("--own_units: is not for --isolation=thread", "--own_units=1"),
                ("--host_wire: is not for --loggers=off", "--host_wire=tcp",
                 "--isolation=process"),
                ("--own_units: is not for --keep", *hosts, "--keep=5s"),
                ("--own_units: is not for --threads", *hosts, "--threads=4"),
                ("--own_units: is not for --host,", *hosts,
                 "--host=b=10.99.7.2:7000"),
                ("--group_address: UDP port 6081 is that of --host_wire=geneve",
                 *hosts, "--host_wire=geneve",
                 "--group_address=127.0.0.1:6081"),
                ("--upgrade: is not for --group with --own_units", *hosts,
                 "--upgrade"),
                ("--within: is not for --group", "--within=5s", "--upgrade"),
                ('--group: "a/b" is no name of a group', "--group=a/b"),
                ("--group_address: \"lo\" is no ADDRESS:PORT",
                 "--group_address=lo"),
                ("--group_tls: wants --group_address", "--group_tls=/nowhere"),
                ("--group_tls: /nowhere/ca.crt", "--group_tls=/nowhere",
                 "--group_address=127.0.0.1:6083"),
                ("--takeover", "--takeover=1ms"),
                ("no endpoint of etcd answers", "--etcd=127.0.0.1:1")):
            self.check_refused(1, words, *flags)
        done = subprocess.run(
            [net.PROGRAM, "up", "--controller=0/2", "--group=edge", *net.PORTS],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("--group: wants --etcd", done.stderr)
        # The same code if another process has said so.
        done = subprocess.run(
            [net.PROGRAM, "up", "--controllers=2", "--group=edge",
             f"--name=codes{os.getpid()}", *net.PORTS],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, USAGE, done.stderr)
        for words in ("--group: wants --etcd", "has not started"):
            self.assertIn(words, done.stderr)
        done = subprocess.run(
            [net.PROGRAM, "up", "--controller=0/2", "--group_tls=/nowhere",
             *net.PORTS], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("--group_tls: wants --group", done.stderr)
        self.assertEqual(self.group(0)["live"], {0})


    def check_files_of_tls(self):
        """The files of both ends are looked at before it joins."""
        with tempfile.TemporaryDirectory() as folder:
            tls = pathlib.Path(folder) / "tls"
            subprocess.run([net.PROGRAM, "cert", tls, "--role=admin"],
                           check=True, capture_output=True)
            for end in ("server", "client"):
                key = tls / f"{end}.key"
                key.chmod(0o644)
                self.check_refused(1, f"--group_tls: {key}: ",
                                   f"--group_tls={tls}",
                                   "--group_address=127.0.0.1:6083")
                key.chmod(0o600)
                certificate = tls / f"{end}.crt"
                away = certificate.rename(f"{certificate}.away")
                self.check_refused(1, f"--group_tls: {certificate}: ",
                                   f"--group_tls={tls}",
                                   "--group_address=127.0.0.1:6083")
                away.rename(certificate)


class OwnPorts(Group):
    """Each controller has a machine of its own."""

    chain = "--nf=firewall | monitor"
    hosts, server4 = FAR_HOSTS, FAR_SERVER

    def setUp(self):
        self.addCleanup(self.remove)
        self.remove()
        for name in (CLIENT, MIDDLE, SERVER, *GATES):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            self.sysctl(name, "conf.all.rp_filter=0", "conf.default.rp_filter=0",
                        "conf.all.ignore_routes_with_linkdown=1",
                        "conf.default.ignore_routes_with_linkdown=1",
                        "fib_multipath_hash_policy=1")
        ip("-n", MIDDLE, "link", "add", "br0", "type", "bridge")
        ip("-n", MIDDLE, "addr", "add", "10.9.0.100/24", "dev", "br0")
        ip("-n", MIDDLE, "link", "set", "br0", "up")
        for number in range(COUNT):
            self.add_gate(number)
        for name, far, net_of in ((CLIENT, FAR_SERVER + "/32", "10.1"),
                                  (SERVER, "10.3.0.0/24", "10.2")):
            hops = []
            for number in range(COUNT):
                hops += ["nexthop", "via", f"{net_of}.{number}.1"]
            ip("-n", name, "route", "add", far, *hops)
        for host in FAR_HOSTS:
            ip("-n", CLIENT, "addr", "add", f"{host}/32", "dev", "lo")
        ip("-n", SERVER, "addr", "add", f"{FAR_SERVER}/32", "dev", "lo")
        self.addCleanup(self.end)
        self.begin("10.9.0.100")
        serving = net.serving("/", FAR_SERVER)
        serving.__enter__()
        self.addCleanup(serving.__exit__, None, None, None)

    @staticmethod
    def remove():
        for name in (CLIENT, MIDDLE, SERVER, *GATES):
            subprocess.run(["ip", "netns", "del", name], capture_output=True,
                           check=False)

    @staticmethod
    def sysctl(name, *settings):
        for setting in settings:
            key, value = setting.split("=")
            path = "/proc/sys/net/ipv4/" + key.replace(".", "/")
            subprocess.run(net.inside(name, "sh", "-c",
                                      f"echo {value} > {path}"), check=True)

    @staticmethod
    def add_gate(number):
        gate = GATES[number]
        for port, end, address in (("lan0", CLIENT, f"10.1.{number}.9/24"),
                                   ("wan0", SERVER, f"10.2.{number}.9/24")):
            far = port[:3] + str(number)
            ip("-n", end, "link", "add", far, "type", "veth", "peer", "name",
               port, "netns", gate)
            ip("-n", gate, "link", "set", port, "addrgenmode", "none", "up")
            ip("-n", end, "link", "set", far, "up")
            ip("-n", end, "addr", "add", address, "dev", far)
        ip("-n", MIDDLE, "link", "add", f"gate{number}", "type", "veth", "peer",
           "name", "eth0", "netns", gate)
        ip("-n", MIDDLE, "link", "set", f"gate{number}", "master", "br0", "up")
        ip("-n", gate, "addr", "add", f"10.9.0.{number + 1}/24", "dev", "eth0")
        ip("-n", gate, "link", "set", "eth0", "up")

    @staticmethod
    def network_of(number):
        return GATES[number]

    @staticmethod
    def ports_of(number):
        return [
            f"--port=inside=lan0,address=10.1.{number}.1/24,"
            f"route=10.3.0.0/24@10.1.{number}.9",
            f"--port=outside=wan0,address=10.2.{number}.1/24,"
            f"route=10.4.0.0/24@10.2.{number}.9"]

    @staticmethod
    def own_flags(number):
        return (f"--group_address=10.9.0.{number + 1}:6083",)

    def sum_of(self, name, numbers=range(COUNT)):
        return sum(self.group(number)["counts"][name] for number in numbers)

    def test_frames_go_to_the_machine_whose_hosts_they_are(self):
        self.up_all()
        with self.talking() as talk:
            time.sleep(3)
            told = talk.end()
        self.check_nobody_was_served_twice(told)
        # Each had some of each.
        for number in range(COUNT):
            counts = self.group(number)["counts"]
            self.assertGreater(counts["forwarded"], 0, counts)
            self.assertGreater(counts["taken"], 0, counts)
        # All that was sent on is accounted for.
        sent_on = ("forwarded", "cut")
        came = ("taken", "not_own", "no_port", "stranger", "link_dropped",
                "link_overflow")
        try:
            wait_for("all that was forwarded", lambda:
                     sum(map(self.sum_of, sent_on)) ==
                     sum(map(self.sum_of, came)))
        except AssertionError as error:
            raise AssertionError([self.group(number)["counts"]
                                  for number in range(COUNT)]) from error
        self.assertGreater(self.sum_of("taken"),
                           (1 - MOST_LOST) * self.sum_of("forwarded"))
        # Packets as long as the ports take, longer ones between machines.
        for host in FAR_HOSTS[:6]:
            ip("-n", CLIENT, "route", "replace", FAR_SERVER, "src", host, *sum(
                (["nexthop", "via", f"10.1.{number}.1"]
                 for number in range(COUNT)), []))
            self.assertEqual(peer(CLIENT, "tcp", FAR_SERVER, 10, 200_000),
                             ["10 right"])
            lines = peer(CLIENT, "udp", FAR_SERVER, 1_472, 4_000)
            self.assertIn("1472 right", lines)
            self.assertIn("4000 right", lines)
        # Who is no member is refused.
        subprocess.run(in_etcds_network(
            sys.executable, "-c",
            "import socket; s = socket.socket(socket.AF_INET, "
            "socket.SOCK_DGRAM); s.sendto(b'x' * 100, ('10.9.0.1', 6083))"),
            check=True)
        wait_for("refusal", lambda: self.sum_of("malformed", [0]) == 1)
        for number in range(COUNT):
            self.assertEqual(self.snf(number, "down").returncode, OK)

    def test_hosts_of_a_machine_that_is_killed_are_the_others(self):
        self.up_all()
        with self.talking() as talk:
            self.all_answered(talk)
            talk.silent("begin")
            os.kill(self.pid(1), signal.SIGKILL)
            # As where the machine has lost its power.
            for port in ("lan0", "wan0"):
                ip("-n", GATES[1], "link", "set", port, "down")
            wait_for("others", lambda: self.agree([0, 2]))
            self.all_answered(talk)
            told = talk.end()
        gaps = sorted(one["gap"] for one in told.values())
        print(f"note: hosts had no answer for {gaps[0]} to {gaps[-1]} s")
        self.check_nobody_was_served_twice(told)
        self.assertLess(gaps[-1], TAKEOVER_S)
        for port in ("lan0", "wan0"):
            ip("-n", GATES[1], "link", "set", port, "up")
        for name, far, net_of in ((CLIENT, FAR_SERVER + "/32", "10.1"),
                                  (SERVER, "10.3.0.0/24", "10.2")):
            ip("-n", name, "route", "replace", far, *sum(
                (["nexthop", "via", f"{net_of}.{number}.1"]
                 for number in range(COUNT)), []))
        with self.talking() as talk:
            self.up(1)
            self.await_all()
            self.all_answered(talk)
            self.check_nobody_was_served_twice(talk.end())

    def test_who_alone_cannot_reach_etcd_is_told_by_the_others(self):
        self.up_all()
        with self.talking() as talk:
            self.all_answered(talk)
            ip("-n", GATES[2], "route", "add", "blackhole", "10.9.0.100/32")
            wait_for("others", lambda: self.agree([0, 1]))
            wait_for("word of it",
                     lambda: self.group(2)["state"] == "waiting")
            ip("-n", GATES[2], "route", "del", "blackhole", "10.9.0.100/32")
            self.await_all()
            self.all_answered(talk)
            told = talk.end()
        for host, one in told.items():
            self.assertGreater(one["answered"], 0, (host, one))

    def test_a_frozen_machine_is_out_until_it_has_joined_again(self):
        self.up_all()
        victim = self.pid(2)
        with self.talking() as talk:
            self.all_answered(talk)
            os.kill(victim, signal.SIGSTOP)
            try:
                time.sleep(OUT_S)
            finally:
                os.kill(victim, signal.SIGCONT)
            self.await_all()
            self.all_answered(talk)
            self.check_nobody_was_served_twice(talk.end())
        self.assertIn("this controller is out of the table", self.log(2))


if __name__ == "__main__":
    skip_without_etcd()
    net.main()

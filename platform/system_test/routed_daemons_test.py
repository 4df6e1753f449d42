#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Daemons that are the router of hosts together: one that takes the place of
another (`snf up --upgrade`), and several controllers (`snf up --controllers`).

    client eth0 ── lan0 [ snf up ] wan0 ── eth0 server
    10.1.0.9          .1         192.0.2.1         .9
    by SLAAC         ::1           fd02::1        ::9

Wants root, and is skipped without.

Usage: routed_daemons_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import collections
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # nothing beside the sources
import routed_test as routed
import run_test as net
from command_case import OK, PATIENCE_S, USAGE, is_alive, wait_for
from daemon_case import FOLDER, remove_files_of
from routed_behind_test import default_routes, has, setting
from routed_test import (CLIENT4, CLIENT6, EXTERNAL4, INSIDE, LAN4, LAN6,
                         OUTSIDE, SERVER4, SERVER6, WAN4, WAN6, probe)
from run_test import CLIENT, MIDDLE, SERVER, inside, ip, peer

NAME = f"routed-{os.getpid()}"
PEER = str(pathlib.Path(__file__).resolve().with_name("router_peer.py"))
PORTS = ["--port", f"{INSIDE},ra=on", "--port", f"{OUTSIDE},proxy={EXTERNAL4}"]
# Flows end soon after their last packet, and with them the old program.
SHORT = "tcp_transitory_timeout=1s"
CHAIN = (f"--nf=firewall({SHORT}) | nat(ip={EXTERNAL4},other=pass,{SHORT},"
         "udp_timeout=1s,icmp_timeout=1s)", "--flow_timeout=1s")
LATE4, LATE6, NOBODY4 = "192.0.2.10", "fd02::10", "192.0.2.77"
HOSTS4 = [f"10.1.0.{number}" for number in range(20, 24)]
HOSTS6 = [f"fd01::{number}" for number in range(20, 26)]


def snf(*words):
    return subprocess.run(
        net.in_network(MIDDLE, net.PROGRAM, *words, f"--name={NAME}"),
        capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)


def status():
    return json.loads(snf("status", "--json").stdout)


class Daemons(routed.Routed):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.end)
        for namespace, address4, address6 in ((CLIENT, None, None),
                                              (SERVER, LATE4, LATE6)):
            peer(namespace, "finish_checksums", "eth0")
            if address4:
                ip("-n", namespace, "addr", "add", f"{address4}/24", "dev",
                   "eth0")
                ip("-n", namespace, "addr", "add", f"{address6}/64", "dev",
                   "eth0", "nodad")
        # The client learns of its router and its own address by SNF.
        ip("-n", CLIENT, "-6", "route", "del", "default")
        ip("-n", CLIENT, "addr", "del", f"{CLIENT6}/64", "dev", "eth0")
        for namespace in (CLIENT, SERVER):
            wait_for("link-local addresses", self.are_checked)

    @staticmethod
    def end():
        snf("down")
        remove_files_of(NAME)

    def up(self, *words):
        done = snf("up", *PORTS, *words)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(done.stderr, "")

    def start(self, namespace, script, *words):
        process = subprocess.Popen(
            inside(namespace, sys.executable, script, *words),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def told_by(self, process, said=""):
        out, _ = process.communicate(said, timeout=2 * PATIENCE_S)
        return json.loads(out)

    def talk(self, address):
        process = self.start(CLIENT, PEER, "talk_on", address)
        self.assertEqual(process.stdout.readline(), "connected\n")
        return process

    @staticmethod
    def send_to(namespace, address):
        subprocess.run(inside(namespace, "bash", "-c",
                              f"echo >/dev/udp/{address}/9"), check=True)

    @contextlib.contextmanager
    def hearing(self, namespace, interface):
        """Yields a function, which returns how often each line was said."""
        said = self.folder / f"heard-{namespace}"
        with open(said, "w") as file:
            process = subprocess.Popen(
                inside(namespace, sys.executable, PEER, "hear_router",
                       self.mac(interface)), stdout=file)
        try:
            wait_for("listener", lambda: "ready" in said.read_text())
            yield lambda: collections.Counter(said.read_text().splitlines()[1:])
        finally:
            process.kill()
            process.wait()

    def has_ipv6(self):
        wait_for("address of the client", lambda: has(CLIENT, "eth0", "fd01:"))
        wait_for("its way out", lambda: default_routes(CLIENT))
        return has(CLIENT, "eth0", "fd01:")


    def check_numbers(self, sender, receiver):
        sent, _ = sender.communicate(timeout=2 * PATIENCE_S)
        came = self.told_by(receiver, sent)
        self.assertGreater(came["sent"], 2_000)
        self.assertEqual((came["missing"], came["repeated"]), (0, 0), came)


class Upgrade(Daemons):
    def upgrade(self, *words):
        """The ids of the old and of the new process."""
        old = status()["pid"]
        self.up("--upgrade", *CHAIN, *words)
        new = status()["pid"]
        self.assertNotEqual(old, new)
        return old, new

    def check_pings(self, pings):
        for address, told in self.told_by(pings).items():
            self.assertGreater(told["sent"], 300)
            self.assertEqual((told["missing"], told["repeated"]), (0, 0),
                             (address, told))

    def check_what_both_do(self, near, far):
        """While two processes have the ports."""
        # A neighbour that neither knows, and an error of the new one.
        for late in (LATE4, LATE6):
            self.assertEqual(len(peer(CLIENT, "ping", late, 2)), 2)
        self.assertEqual(probe(CLIENT, "198.51.100.7"), [WAN4, "3", "0", "0"])
        # Own addresses, and errors: once.
        before = near()
        self.assertEqual(probe(CLIENT, SERVER4, ttl=1), [LAN4, "11", "0", "0"])
        self.assertEqual(probe(CLIENT, SERVER6, ttl=1), [LAN6, "3", "0", "0"])
        for own in (LAN4, LAN6, WAN4):
            self.assertEqual(len(peer(CLIENT, "ping", own, 1)), 1)
        # Hosts that ask are answered once.
        for namespace in (CLIENT, SERVER):
            ip("-n", namespace, "neigh", "flush", "dev", "eth0")
        self.assertEqual(len(peer(SERVER, "ping", WAN4, 1)), 1)
        self.assertEqual(len(peer(SERVER, "ping", WAN6, 1)), 1)
        self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 1)), 1)
        time.sleep(0.3)
        self.assertEqual(near()["exceeded"] - before["exceeded"], 2)
        for heard, owns in ((near, (LAN4, LAN6)),
                            (far, (WAN4, WAN6, EXTERNAL4))):
            for own in owns:
                self.assertEqual(heard()[f"answer {own} one"],
                                 heard()[f"asked {own}"], heard())
        self.assertGreater(near()[f"answer {LAN4} one"], 0)

    def check_what_was_heard(self, near, far, client6):
        # Known neighbours were asked for once, before the upgrade.
        for heard, host in ((near, CLIENT4), (near, client6), (far, SERVER4),
                            (far, SERVER6), (far, LATE4), (far, LATE6)):
            self.assertLessEqual(heard()[f"ask {host} all"], 1,
                                 (host, heard()))
        self.assertEqual(near()["advertise 0"], 0)

    def test_nothing_is_lost_and_no_neighbour_is_asked_for_anew(self):
        self.up(*CHAIN, f"--json={self.folder}/old.json")
        with self.hearing(CLIENT, "lan0") as near, \
                self.hearing(SERVER, "wan0") as far, \
                self.server(routed.ANY4):
            client6 = self.has_ipv6()
            with net.serving(self.folder, SERVER6):
                self.check_traffic(near, far, client6)
            self.check_what_was_heard(near, far, client6)
            done = snf("down")
            self.assertEqual(done.returncode, OK, done.stderr)
            # The third process takes leave for all.
            wait_for("leave", lambda: near()["advertise 0"] == 1)
        for name in ("old", "new", "newest"):
            report = json.loads((self.folder / f"{name}.json").read_text())
            self.assertEqual(report["violation_messages"], [], name)
            self.assertTrue(report["conserved"], name)
        self.assertEqual(list(FOLDER.glob(f"{NAME}*")), [])

    def test_neither_a_flap_nor_a_silent_death_ends_it(self):
        self.up(*CHAIN)
        with self.server(routed.ANY4):
            talk = self.talk(SERVER4)
            old, new = self.upgrade()
            log = FOLDER / f"{NAME}.log"
            for state, said in (("down", "until it is back"),
                                ("up", "wan0 is back")):
                ip("-n", MIDDLE, "link", "set", "wan0", state)
                wait_for(said, lambda: said in log.read_text())
                if state == "down":
                    self.send_to(CLIENT, LATE4)
            # By the new one, which the old one has to tell of this neighbour.
            self.check_talk(self.talk(LATE4), least=0)
            with self.hearing(SERVER, "wan0") as far:
                self.send_to(CLIENT, NOBODY4)
                wait_for("questions of the new one, which go on",
                         lambda: far()[f"ask {NOBODY4} all"] == 3)
            os.kill(new, signal.SIGKILL)
            wait_for("return of the old one",
                     lambda: snf("status").returncode == OK)
            # No frame is the new one's. The old one's flows end.
            self.check_talk(talk)
            time.sleep(2.5)
            self.assertTrue(is_alive(old))
            self.assertEqual(status()["pid"], old)
            self.assertEqual(len(peer(CLIENT, "ping", LATE4, 1)), 1)

    def check_traffic(self, near, far, client6):
        for address in (SERVER4, SERVER6):
            self.assertEqual(len(peer(CLIENT, "ping", address, 1)), 1)
        # One connection of IPv6 comes from outside. All go on for long.
        first = [self.talk(SERVER4), self.talk(SERVER6)]
        receivers = [self.start(SERVER, net.PEER, "receive_numbers", address)
                     for address in (SERVER4, SERVER6)]
        for receiver in receivers:
            self.assertEqual(receiver.stdout.readline(), "ready\n")
        senders = [self.start(CLIENT, net.PEER, "send_numbers", address)
                   for address in (SERVER4, SERVER6)]
        pings = [self.start(CLIENT, PEER, "ping_on", SERVER4, SERVER6)]
        old, new = self.upgrade(f"--json={self.folder}/new.json")
        pings.append(self.start(CLIENT, PEER, "ping_on", SERVER4, SERVER6))
        second = [self.talk(SERVER4), self.talk(SERVER6)]
        self.check_what_both_do(near, far)
        self.assertTrue(is_alive(old))
        for talk in first:
            self.check_talk(talk)
        wait_for("end of the old one", lambda: not is_alive(old))
        # Once more: it has taken a place itself.
        _, newest = self.upgrade(f"--json={self.folder}/newest.json")
        for talk in second:
            self.check_talk(talk)
        wait_for("end of the one before", lambda: not is_alive(new))
        for sender, receiver in zip(senders, receivers):
            self.check_numbers(sender, receiver)
        for ping in pings:
            self.check_pings(ping)
        self.assertEqual(status()["pid"], newest)

    def check_talk(self, talk, least=30):
        told = self.told_by(talk)
        self.assertFalse(told["broke"], told)
        self.assertGreaterEqual(told["right"], least)


class Controllers(Daemons):
    chain = f"--nf=firewall | nat(ip={EXTERNAL4},other=pass)"

    def setUp(self):
        super().setUp()
        for host in HOSTS4:
            ip("-n", CLIENT, "addr", "add", f"{host}/24", "dev", "eth0")
        for host in HOSTS6:
            ip("-n", CLIENT, "addr", "add", f"{host}/64", "dev", "eth0",
               "nodad")

    @staticmethod
    def be(host, *others):
        """The client speaks to these as this host, and asks for them anew."""
        for other in others:
            way = {SERVER4: ["via", LAN4], SERVER6: ["via", LAN6]}
            ip("-n", CLIENT, "route", "replace", other, *way.get(other, []),
               "dev", "eth0", "src", host)
        ip("-n", CLIENT, "neigh", "flush", "dev", "eth0")

    def test_a_group_has_such_ports_only_at_several_machines(self):
        done = snf("up", *PORTS, self.chain, "--controller=0/2", "--group=edge",
                   "--etcd=127.0.0.1:1")
        self.assertEqual(done.returncode, USAGE, done.stderr)
        self.assertIn("--group: with --port inside=lan0,address=", done.stderr)

    def check_host(self, host, server, own, far_own):
        self.be(host, server, own)
        self.assertEqual(len(peer(CLIENT, "ping", server, 2)), 2)
        self.assertEqual(peer(CLIENT, "tcp", server, 5, 20_000), ["5 right"])
        self.assertEqual(probe(CLIENT, server, ttl=1)[0], own)
        for address in (own, far_own):
            self.assertEqual(len(peer(CLIENT, "ping", address, 1)), 1)

    def check_answers(self, heard, owns):
        time.sleep(0.3)
        for own in owns:
            self.assertGreaterEqual(heard()[f"asked {own}"], 3, own)
            self.assertEqual(heard()[f"answer {own} one"],
                             heard()[f"asked {own}"], heard())

    def check_once(self, near, hosts, *owns):
        """Errors, and answers to pings of its own addresses."""
        time.sleep(0.3)
        self.assertEqual(near()["exceeded"], hosts)
        for own in owns:
            self.assertEqual(near()[f"echoed {own}"], hosts, own)

    @contextlib.contextmanager
    def two(self, chain):
        self.up("--controllers=2", chain)
        with self.hearing(CLIENT, "lan0") as near, \
                self.hearing(SERVER, "wan0") as far:
            yield near, far
            for member in status()["member"]:
                self.assertGreater(int(member["count"]["packets_in"]), 100)
            done = snf("down")
            self.assertEqual(done.returncode, OK, done.stderr)
            wait_for("leave", lambda: near()["advertise 0"] == 1)

    def test_two_are_one_router(self):
        with self.server(routed.ANY4), self.two(self.chain) as (near, far):
            for host in HOSTS4:
                self.check_host(host, SERVER4, LAN4, WAN4)
                self.assertEqual(peer(CLIENT, "who", SERVER4), [EXTERNAL4])
            self.check_once(near, len(HOSTS4), LAN4, WAN4)
            for _ in range(3):
                ip("-n", SERVER, "neigh", "flush", "dev", "eth0")
                self.assertEqual(len(peer(SERVER, "ping", WAN4, 1)), 1)
                self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 1)), 1)
            self.check_answers(near, [LAN4])
            self.check_answers(far, [WAN4, EXTERNAL4])

    def is_answered(self, namespace, heard, own):
        """Whether a question for the address is answered once; it may be that
        of a controller that is gone."""
        before = heard()
        ip("-n", namespace, "neigh", "flush", "dev", "eth0")
        self.send_to(namespace, own)
        time.sleep(0.2)
        asked, answered = (heard()[words] - before[words] for words in
                           (f"asked {own}", f"answer {own} one"))
        return asked == answered > 0

    def test_one_answers_for_another_that_is_gone(self):
        with self.hearing(CLIENT, "lan0") as near, \
                self.hearing(SERVER, "wan0") as far:
            for victim in ("0", "1"):
                self.up("--controllers=2", self.chain)
                pids = {str(one.get("controller", 0)): int(one["pid"])
                        for one in status()["member"]}
                os.kill(pids[victim], signal.SIGKILL)
                for host in HOSTS4[:3]:
                    self.be(host, LAN4)
                    wait_for(f"answers to {host} without {victim}",
                             lambda: self.is_answered(CLIENT, near, LAN4))
                for own in (WAN4, EXTERNAL4):
                    wait_for(f"answers about {own} without {victim}",
                             lambda: self.is_answered(SERVER, far, own))
            self.up("--controllers=2", self.chain)
            one = subprocess.run(
                net.in_network(MIDDLE, net.PROGRAM, "down", f"--name={NAME}.0"),
                capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(one.returncode, OK, one.stderr)
            self.assertEqual(near()["advertise 0"], 0)
            self.assertEqual(snf("down").returncode, OK)
            wait_for("leave", lambda: near()["advertise 0"] == 1)

    def test_two_are_replaced_without_a_lost_packet(self):
        self.up("--controllers=2", *CHAIN)
        old = [int(member["pid"]) for member in status()["member"]]
        self.be(HOSTS4[0], SERVER4)
        self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 1)), 1)
        receiver = self.start(SERVER, net.PEER, "receive_numbers", SERVER4)
        self.assertEqual(receiver.stdout.readline(), "ready\n")
        sender = self.start(CLIENT, net.PEER, "send_numbers", SERVER4)
        self.up("--controllers=2", "--upgrade", *CHAIN)
        wait_for("ends of the old ones",
                 lambda: not any(is_alive(pid) for pid in old))
        self.check_numbers(sender, receiver)

    def test_two_are_one_router_of_ipv6(self):
        with self.server(routed.ANY6), \
                self.two("--nf=firewall | monitor") as (near, far):
            self.has_ipv6()
            for host in HOSTS6:
                self.check_host(host, SERVER6, LAN6, WAN6)
                # What the outside begins.
                self.assertEqual(len(peer(SERVER, "ping", host, 2)), 2)
            self.check_once(near, len(HOSTS6), LAN6, WAN6)
            for _ in range(3):
                ip("-n", SERVER, "neigh", "flush", "dev", "eth0")
                self.assertEqual(len(peer(SERVER, "ping", WAN6, 1)), 1)
            self.check_answers(near, [LAN6])
            self.check_answers(far, [WAN6])


# The tests of hosts of a single process are those of routed_test.py.
for inherited in [name for name in dir(routed.Routed)
                  if name.startswith("test_")]:
    setattr(Daemons, inherited, None)

if __name__ == "__main__":
    net.main()

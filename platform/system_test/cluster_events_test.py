#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random events on the cluster of `./snf cluster up`, under live traffic.

Units, loggers, all processes of a host at once, links and members of etcd fail,
or a host is evacuated, one event after the other, each once the last one's loss
is made up for: two at once may be outside of the promise (proto/protocol.md,
section 6). TCP connections go through `firewall | monitor | nat` meanwhile: none
may break, and each packet is accounted for at the end. Datagrams of 24 flows,
each every 25 ms, tell how long flows were interrupted: a table by kind of event
is printed at the end.

6 events of seed 1, or 200 of any seed with SNF_LONG_TESTS=1, or
SNF_TEST_EVENTS=n. SNF_TEST_SEED=n chooses the seed, which a failure names. With
SNF_TEST_LXD=1 the cluster is that of `./snf cluster up --lxd`, whose members may
lose their power, too. Wants root, network namespaces, etcd, Redis and nftables,
and is skipped without.

Usage: cluster_events_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import OK, PROGRAM, SOURCE, wait_for
from needs import skip, skip_without_namespaces

sys.path.insert(0, str(SOURCE / "platform/commands/cluster"))
from host_cluster import ETCD, HOSTS, Cluster
from lxd_cluster import LxdCluster
from machine import kill_all, pids_in

IS_LONG = bool(os.environ.get("SNF_LONG_TESTS"))
SEED = int(os.environ.get("SNF_TEST_SEED") or
           (time.time_ns() % 1_000_000 if IS_LONG else 1))
EVENTS = int(os.environ.get("SNF_TEST_EVENTS") or
             (200 if IS_LONG else 6))
HAS_LXD = bool(os.environ.get("SNF_TEST_LXD"))
MADE = LxdCluster if HAS_LXD else Cluster
PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                    "network_peer.py")
ECHO = "10.77.0.4"  # the server's second address
CONNECTIONS = FLOWS = 24
# Loggers may have something alone until units have taken each flow.
REST_S, REST_OF_LOGGERS_S = 0.5, 3
MISSING = [name for name in (*MADE.NEEDED, "etcdctl", "nft")
           if shutil.which(name) is None]


def call(*words, inside=None, check=True):
    if inside:
        words = ("ip", "netns", "exec", inside, *words)
    done = subprocess.run([str(word) for word in words], capture_output=True,
                          text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL)
    if check and done.returncode != 0:
        raise AssertionError(f"{words}: {done.stderr}")
    return done.stdout


def named(pids, *names):
    """Those of these processes that have such a name."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/comm") as file:
                if file.read().strip() in names:
                    found.append(pid)
    return found


def running(pids, word):
    """Those of these processes with this word in their command line."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if b"\0" + word + b"\0" in file.read():
                    found.append(pid)
    return found


def kill(pid, number=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def by_kind(events, told):
    """Lines of a table: of each kind of event how often it came, and of the
    flows that it interrupted the longest gaps between answers. An event goes on
    until the next one begins."""
    kinds = {}
    for (kind, began), (_, end) in zip(events, [*events[1:], ("", 1e18)]):
        longest = {}
        for flow, from_s, to_s in told["gaps"]:
            if to_s > began and from_s < end:
                longest[flow] = max(longest.get(flow, 0), to_s - from_s)
        row = kinds.setdefault(kind, {"events": 0, "gaps": [], "lost": 0})
        row["events"] += 1
        row["gaps"] += longest.values()
        row["lost"] += sum(began <= sent < end for sent in told["lost"])
    yield "kind              events  flows  p50 ms  p99 ms  datagrams lost"
    for kind, row in sorted(kinds.items()):
        gaps = sorted(1_000 * gap for gap in row["gaps"])
        p50, p99 = (f"{gaps[max(0, -(-len(gaps) * share // 100) - 1)]:7.0f}"
                    if gaps else "      –" for share in (50, 99))
        yield (f"{kind:<17} {row['events']:>6} {len(gaps):>6} {p50} {p99} "
               f"{row['lost']:>15}")


class Tables(unittest.TestCase):
    def test_a_gap_counts_for_the_event_that_made_it(self):
        events = [("unit", 10), ("host", 20), ("unit", 30)]
        told = {"gaps": [[0, 11, 12], [0, 13, 13.5], [1, 21, 22], [1, 29, 31]],
                "lost": [9, 10, 25, 35, 36]}
        self.assertEqual(list(by_kind(events, told))[1:], [
            "host                   1      1    2000    2000               1",
            "unit                   2      2    1000    2000               3"])


class Events(unittest.TestCase):
    def setUp(self):
        self.rng = random.Random(SEED)
        self.cluster = MADE(f"t{os.getpid() % 100_000}", PROGRAM,
                            policy="rotate")
        self.addCleanup(self.end_all)
        self.up()
        self.spaces = self.cluster.spaces
        self.edge = self.spaces["edge"]
        self.log = self.cluster.directory / "daemon.log"
        self.done = {}

    def up(self):
        """Starts what is missing."""
        with contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()):
            self.cluster.up()

    def end_all(self):
        with contextlib.redirect_stderr(io.StringIO()):
            self.cluster.down()
        for process in self.cluster.started:
            process.wait()

    # --- Whether all is well. ---

    def status(self):
        return json.loads(call(PROGRAM, "status", "--json",
                               f"--name={self.cluster.name}"))

    def has_recovered(self):
        text = self.log.read_text()
        ended = [match.end() for match in re.finditer(
            r"unit loop .* (was killed|ended|has ended|cannot be started|is lost)",
            text)]
        loggers = len(re.findall(r"of loggers (was killed|ended)", text))
        return (not ended or text.rfind("recovered") > ended[-1]) and (
            text.count("loggers are back") == loggers)

    def all_are_well(self):
        told = self.status()
        states = [host["state"] for host in told.get("host", [])]
        return (states == ["joined"] * 3 and self.has_recovered() and
                self.leader_of_etcd() is not None)

    def wait_for(self, what, condition):
        try:
            return wait_for(f"{what}, with SNF_TEST_SEED={SEED}", condition)
        except AssertionError:
            print(f"hosts: {self.status().get('host')}; recovered: "
                  f"{self.has_recovered()}; leader of etcd: "
                  f"{self.leader_of_etcd()}")
            for log in sorted(self.cluster.directory.glob("*.log")):
                print(f"{log.name}:", log.read_text()[-4_000:])
            raise

    def leader_of_etcd(self):
        """Its host; None if not all members have the same one."""
        told = json.loads(call(
            "env", "ETCDCTL_API=3", "etcdctl", "-w", "json",
            f"--endpoints={ETCD}", "endpoint", "status",
            inside=self.edge, check=False) or "[]")
        leaders = {one["Status"].get("leader") for one in told}
        if len(told) != len(HOSTS) or len(leaders) != 1:
            return None
        of_leader = [one["Endpoint"].split(":")[0] for one in told
                     if one["Status"]["header"]["member_id"] in leaders]
        return next((host for host, address in HOSTS.items()
                     if address in of_leader), None)

    # --- Events. ---

    def member(self):
        """One that has a member of etcd."""
        return self.rng.choice(sorted(HOSTS))

    def host(self):
        """One that has units."""
        return self.rng.choice(self.cluster.hosts())

    def on_a_unit(self):
        pids = [pid for host in self.cluster.hosts()
                for pid in self.cluster.pids_of(host)] + pids_in(self.edge)
        kill(self.rng.choice(sorted(named(pids, "snf-unit"))))

    def on_loggers(self):
        """By SIGKILL of the daemon, which refuses it while loggers have alone
        what a failed unit had: two failures at once are not promised."""
        self.wait_for("loggers that may be killed", lambda: subprocess.run(
            [PROGRAM, "kill", "loggers", f"--name={self.cluster.name}"],
            capture_output=True, timeout=60, check=False).returncode == OK)
        self.wait_for("loggers", self.has_recovered)
        time.sleep(REST_OF_LOGGERS_S)

    def on_a_host(self):
        """A member of LXD fails with the containers there."""
        kill_all(self.spaces[self.member()])
        self.up()

    def on_a_container(self):
        host = self.host()
        for pid in self.cluster.pids_of(host):
            kill(pid)
        self.await_end(host, b"serve")
        self.up()

    def await_end(self, host, word):
        """Waits until a host has no units and no process with this word; a
        container ends as a whole."""
        def has_ended():
            pids = self.cluster.pids_of(host)
            return not (pids if HAS_LXD else named(pids, "snf-unit") or
                        running(pids, word))
        wait_for(f"the end of units of {host} and of {word}", has_ended)

    def on_evacuation(self):
        """A host that leaves is drained first: nothing is lost."""
        host = self.host()
        before = self.lost()
        call(PROGRAM, "host", "leave", host, f"--etcd={ETCD}",
             inside=self.edge)
        self.await_end(host, b"join")
        self.assertEqual(self.lost(), before)
        self.up()

    def lost(self):
        return int(self.status()["count"].get("faults.packets_lost", 0))

    def on_an_agent(self):
        host = self.host()
        for pid in running(self.cluster.pids_of(host), b"serve"):
            kill(pid)
        self.await_end(host, b"serve")
        self.up()

    def on_a_link(self):
        host = self.member()
        switch = self.spaces["switch"]
        call("ip", "-n", switch, "link", "set", f"to-{host}", "down")
        time.sleep(self.rng.uniform(0, 3))
        call("ip", "-n", switch, "link", "set", f"to-{host}", "up")

    @contextlib.contextmanager
    def filtered(self, hook, rule):
        """A host with one more rule of nftables, for its containers, too."""
        space = self.spaces[self.member()]
        call("nft", "add table netdev test; add chain netdev test one { type "
             f"filter hook {hook} device eth0 priority 0; }}; add rule netdev "
             f"test one {rule} drop", inside=space)
        try:
            yield
        finally:
            call("nft", "delete table netdev test", inside=space)

    def on_one_way(self):
        with self.filtered(self.rng.choice(("ingress", "egress")), ""):
            time.sleep(self.rng.uniform(0, 3))

    def on_loss(self):
        with self.filtered("ingress", "numgen random mod 100 < 10"):
            time.sleep(self.rng.uniform(0, 3))

    def on_delay(self):
        """Where the kernel has netem."""
        space = self.spaces[self.member()]
        call("tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay",
             "50ms", inside=space)
        time.sleep(self.rng.uniform(0, 3))
        call("tc", "qdisc", "del", "dev", "eth0", "root", inside=space)

    def on_etcd(self):
        self.end_etcd(self.member())
        time.sleep(self.rng.uniform(0, 2))
        self.up()

    def end_etcd(self, host):
        space = self.spaces[host]
        pid, = named(pids_in(space), "etcd")
        kill(pid)
        wait_for("the end of etcd",
                 lambda: pid not in named(pids_in(space), "etcd"))

    def on_frozen_etcd(self):
        pid, = named(pids_in(self.spaces[self.member()]), "etcd")
        kill(pid, signal.SIGSTOP)
        time.sleep(self.rng.uniform(0, 3))
        kill(pid, signal.SIGCONT)

    def on_leader_of_etcd(self):
        self.end_etcd(self.wait_for("leader of etcd", self.leader_of_etcd))
        self.up()

    def has_netem(self):
        space = self.spaces["switch"]
        done = subprocess.run(
            ["ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", "lo",
             "root", "netem", "delay", "1ms"], capture_output=True, timeout=60,
            check=False)
        return done.returncode == 0

    def events(self):
        events = [self.on_a_unit, self.on_a_unit, self.on_loggers,
                  self.on_a_host, self.on_evacuation, self.on_an_agent,
                  self.on_a_link,
                  self.on_one_way, self.on_loss, self.on_etcd,
                  self.on_frozen_etcd, self.on_leader_of_etcd]
        if HAS_LXD:
            events.append(self.on_a_container)
        if self.has_netem():
            events.append(self.on_delay)
        else:
            print("no netem in this kernel: no delays")
        # Each of them comes first, if there is room, and then any.
        order = self.rng.sample(events, len(events))
        while len(order) < EVENTS:
            order.append(self.rng.choice(events))
        return order[:EVENTS]

    # --- Traffic. ---

    @contextlib.contextmanager
    def echoes(self):
        server = self.spaces["server"]
        call("ip", "-n", server, "addr", "add", f"{ECHO}/24", "dev", "eth0")
        with subprocess.Popen(
                ["ip", "netns", "exec", server, sys.executable, PEER, "serve",
                 ECHO, str(self.cluster.directory / "web")],
                stdout=subprocess.PIPE) as echo:
            self.assertEqual(echo.stdout.readline(), b"ready\n")
            with subprocess.Popen(
                    ["ip", "netns", "exec", self.spaces["client"],
                     sys.executable, PEER, "soak", ECHO, str(CONNECTIONS),
                     str(SEED)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True) as talker:
                try:
                    yield talker
                    out, errors = talker.communicate(timeout=120)
                finally:
                    talker.kill()
                    echo.kill()
                self.assertEqual(talker.returncode, OK, errors)
                self.told = json.loads(out)

    @contextlib.contextmanager
    def probes(self):
        with subprocess.Popen(
                ["ip", "netns", "exec", self.spaces["client"], sys.executable,
                 PEER, "probe", ECHO, str(FLOWS)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True) as prober:
            try:
                yield
                out, _ = prober.communicate(timeout=60)
            finally:
                prober.kill()
            self.assertEqual(prober.returncode, OK)
            self.probed = json.loads(out)

    def test_no_connection_breaks_whatever_fails(self):
        print(f"SNF_TEST_SEED={SEED}: {EVENTS} events", flush=True)
        began_at = []
        with self.echoes() as talker, self.probes():
            wait_for("units on all hosts", lambda: self.status()["unit"])
            for number, event in enumerate(self.events()):
                what = event.__name__.removeprefix("on_")
                self.wait_for(f"rest before event {number}, {what}",
                              self.all_are_well)
                time.sleep(REST_S)
                self.assertIsNone(talker.poll(), f"before event {number}")
                began = time.monotonic()
                began_at.append((what, began))
                event()
                self.done[what] = self.done.get(what, 0) + 1
                print(f"event {number}: {what}, "
                      f"{time.monotonic() - began:.1f} s", flush=True)
            self.wait_for("rest before the end", self.all_are_well)
        status = self.status()
        counts = {key: int(value) for key, value in status["count"].items()}
        away = sum(int(unit.get("packets", 0)) for unit in status["unit"]
                   if unit.get("host"))
        for line in by_kind(began_at, self.probed):
            print(line)
        print(f"datagrams: {self.probed['sent']} sent, "
              f"{self.probed['answered']} answered")
        told = f"SNF_TEST_SEED={SEED}: {self.done}: {self.told}: {counts}"
        self.assertEqual(self.probed["silent"], [], told)
        self.assertGreater(self.probed["answered"], 0, told)
        self.assertEqual(self.told["wrong"], 0, told)
        self.assertGreater(self.told["echoes"], 0, told)
        self.assertGreater(away, 0, told)
        for what in ("faults.packets_lost", "faults.flows_given_up"):
            self.assertEqual(counts.get(what, 0), 0, told)
        call(PROGRAM, "down", f"--name={self.cluster.name}")
        self.assertIn("all accounted for", self.log.read_text(), told)
        print(f"{self.done}: {self.told}; {away} packets by other hosts")


if __name__ == "__main__":
    skip_without_namespaces()
    if MISSING:
        skip("needs " + ", ".join(MISSING))
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Connections through `lb` outlive what happens to servers, units and loggers.

    client eth0 ── lan0 [ snf up, units, loggers ] wan0 ── eth0 three servers

Each server is an nginx, and a UDP server that gives out connection ids as QUIC
does. Clients talk without end, and tests count the connections that broke.

Wants root, and is skipped without. Without nginx or curl, tests that want them
are skipped. SNF_TEST_SEED=n begins the random numbers, which a failure names.

Usage: lb_connections_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import control_test as control
import run_test as net
from command_case import OK, PATIENCE_S, free_port, wait_for
from control_test import FOLDER, NAME, processes
from live_kills_test import LOGGERS, PROCESSES, SEED, UNITS, Killer
from run_test import CLIENT, MIDDLE, PROGRAM, SERVER, in_network, inside, ip
from traffic_test import listens, wants

PEER = str(pathlib.Path(__file__).resolve().with_name("lb_peer.py"))
VIRTUAL, CHECKER = "10.77.0.50", "10.77.0.51"
SERVERS = ("10.77.0.61", "10.77.0.62", "10.77.0.63")
TCP_CLIENTS = UDP_CLIENTS = 12
FAR, FAR_ROUTER, FAR_MTU = "10.78.0.2", "10.78.0.1", 1400
FAR_HOST = f"snf-far-{os.getpid()}"
# What comes too fast while others take over finds a full queue, or too many
# packets that wait for the state of their flow.
MAY_DROP = {"unit_queue_full", "hold_overflow"}


def lb(*options, servers=SERVERS):
    ends = "+".join(f"{server}:8080#{1 + SERVERS.index(server)}"
                    for server in servers)
    return (f"lb(virtual={VIRTUAL}:80,protocol=both,quic=1,servers={ends}" +
            "".join(f",{option}" for option in options) + ")")


STAY_OPEN = """import socket, sys, time
connection = socket.create_connection((sys.argv[1], 80))
print("open", flush=True)
time.sleep(600)"""


class Clients:
    """What lb_peer.py calls talk."""

    def __init__(self):
        self.process = subprocess.Popen(
            inside(CLIENT, sys.executable, PEER, "talk", VIRTUAL, TCP_CLIENTS,
                   UDP_CLIENTS),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def told(self, word="tell"):
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def of_all(told):
    return told["tcp"] + told["udp"]


class LbConnections(control.Control):
    # Tests of its own only.
    locals().update({name: None for name in dir(control.Control)
                     if name.startswith("test_")})

    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o755)
        self.servers = {}
        self.addCleanup(self.kill_all)
        # As routers would bring packets there.
        ip("-n", CLIENT, "neigh", "add", VIRTUAL, "lladdr",
           net.address_of_card(SERVER), "dev", "eth0", "nud", "permanent")
        ip("-n", SERVER, "neigh", "add", CHECKER, "lladdr",
           net.address_of_card(CLIENT), "dev", "eth0", "nud", "permanent")
        self.data = random.Random(7).randbytes(3_000_000)
        (self.folder / "file").write_bytes(self.data)
        for server in SERVERS:
            ip("-n", SERVER, "addr", "add", f"{server}/24", "dev", "eth0")
            self.serve(server)

    # --- Servers

    def serve(self, server):
        """An nginx that tells its address, and a UDP server."""
        folder = self.folder / server
        folder.mkdir(exist_ok=True)
        config = folder / "nginx.conf"
        temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in (
            "client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config.write_text(
            f"user root; daemon off; pid {folder}/pid;\n"
            f"error_log {folder}/error.log;\n"
            "events { worker_connections 1024; }\n"
            "http { access_log off; keepalive_requests 1000000;\n"
            f"  keepalive_timeout 1h; {temporary}\n"
            f"  server {{ listen {server}:8080 backlog=1024;\n"
            f"    root {self.folder}; add_header X-Server {server};\n"
            f"    location /who {{ return 200 {server}; }} }} }}\n")
        self.servers[server] = [
            subprocess.Popen(
                inside(SERVER, *words), stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, start_new_session=True)
            for words in (["nginx", "-c", config, "-p", folder],
                          [sys.executable, PEER, "udp_server", server,
                           1 + SERVERS.index(server)])]
        self.assertEqual(self.servers[server][1].stdout.readline(), b"ready\n")
        wait_for("nginx", lambda: listens(SERVER, server, 8080))

    def kill(self, server):
        for process in self.servers.pop(server):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()

    def kill_all(self):
        for server in list(self.servers):
            self.kill(server)

    # --- Clients

    def clients(self):
        """Returns clients all of which talk, at all servers."""
        clients = Clients()
        self.addCleanup(clients.close)
        told = self.later(clients)
        for kind in ("tcp", "udp"):
            self.assertEqual({server for one in told[kind]
                              for server in one["servers"]}, set(SERVERS))
        return clients

    @staticmethod
    def later(clients, word="tell", answers=3):
        """Returns what clients tell after so many more answers to each that is
        not broken."""
        before = of_all(clients.told(word))

        def all_talk():
            told = clients.told()
            return all(now["broken"] or
                       now["answers"] >= then["answers"] + answers
                       for then, now in zip(before, of_all(told))) and told
        return wait_for("answers", all_talk)

    def ask(self, connections=40):
        """Returns where new connections come to, in order."""
        done = subprocess.run(
            inside(CLIENT, sys.executable, PEER, "ask", VIRTUAL, connections),
            capture_output=True, text=True, check=True,
            timeout=4 * PATIENCE_S)
        return done.stdout.splitlines()

    @staticmethod
    def states():
        """What the daemon tells of each server."""
        return {(one["object"].split()[0], one["object"].split()[1][:-5]): one
                for one in control.status()["nf_object"]}

    def check_broken(self, told, kind, expected):
        """Exactly these clients are broken: by number."""
        broken = {i: (one["servers"], one["broken"])
                  for i, one in enumerate(told[kind]) if one["broken"]}
        self.assertEqual(set(broken), set(expected),
                         f"SNF_TEST_SEED={SEED}: {kind}: {broken}")

    @contextlib.contextmanager
    def downloads(self, count=4):
        """Slow downloads by curl meanwhile, all of which come whole."""
        processes_of_curl = [
            subprocess.Popen(
                inside(CLIENT, "curl", "-sS", "--limit-rate", "600k",
                       f"http://{VIRTUAL}/file"),
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(count)]
        try:
            yield
            for process in processes_of_curl:
                data, said = process.communicate(timeout=2 * PATIENCE_S)
                self.assertEqual(process.returncode, OK, said)
                self.assertEqual(hashlib.sha256(data).hexdigest(),
                                 hashlib.sha256(self.data).hexdigest())
        finally:
            for process in processes_of_curl:
                process.kill()
                process.communicate()

    # --- The daemon

    def up(self, *words):
        super().up(f"--json={self.folder}/report.json", *words)
        self.pid, = processes()

    @contextlib.contextmanager
    def killing(self, units=2, loggers=1):
        """Units and loggers are killed meanwhile, at least so often."""
        with Killer(self.pid, FOLDER / f"{NAME}.log",
                    names=(UNITS, UNITS, LOGGERS),
                    rng=random.Random(SEED)) as killer:
            yield killer
            wait_for("kills", lambda: killer.kills[UNITS] >= units and
                     killer.kills[LOGGERS] >= loggers)
        wait_for("rest", killer.all_are_well)
        print(f"SNF_TEST_SEED={SEED}: kills {killer.kills}", flush=True)

    def set_chain(self, spec):
        done = subprocess.run(
            in_network(MIDDLE, PROGRAM, "chain", "set", spec,
                       f"--name={NAME}"),
            capture_output=True, text=True, timeout=2 * PATIENCE_S,
            check=False)
        self.assertEqual(done.returncode, OK, done.stderr)

    def check_down(self):
        """Returns the report of the last chain. Nothing was lost, and nothing
        was dropped for another reason."""
        report = self.down()
        for chain in [report, *report.get("earlier_chains", [])]:
            self.check_sound(chain)
        dropped = {reason: count for reason, count
                   in report["packets_dropped"].items() if count}
        self.assertEqual(set(dropped) - MAY_DROP, set(), dropped)
        faults = report.get("faults", {})  # of a chain that had any
        for what in ("packets_lost", "flows_given_up"):
            self.assertEqual(faults.get(what, 0), 0, faults)
        return report

    # --- What is promised

    @wants("nginx")
    @wants("curl")
    def test_drain_removal_and_kills_break_no_connection(self):
        drained = SERVERS[0]
        self.up(*PROCESSES, f"--nf={lb()}")
        clients = self.clients()
        before = clients.told()
        with self.killing(), self.downloads():
            self.set_chain(lb(f"drain={drained}"))
            self.assertEqual(set(self.ask()), set(SERVERS[1:]))
            # Figures may be half a second old.
            wait_for("a server that drains", lambda: {
                server: one["state"]
                for (_, server), one in self.states().items()} == {
                    drained: "draining", SERVERS[1]: "up", SERVERS[2]: "up"})
            # A QUIC client that goes on from another port is a new flow, and
            # its connection id names the server all the same.
            told = self.later(clients, "move")
            self.assertEqual([one["servers"] for one in of_all(told)],
                             [one["servers"] for one in of_all(before)])
        # What is under way stays with the chain of its first packet.
        self.set_chain(lb(servers=SERVERS[1:]))
        self.assertEqual(set(self.ask()), set(SERVERS[1:]))
        told = self.later(clients)
        self.assertEqual([one["servers"] for one in of_all(told)],
                         [one["servers"] for one in of_all(before)])
        for kind in ("tcp", "udp"):
            self.check_broken(told, kind, ())
        self.check_down()

    @wants("nginx")
    def test_a_server_that_dies_breaks_its_own_tcp_connections_alone(self):
        dead = SERVERS[1]
        self.metrics = free_port()
        self.up(*PROCESSES, f"--metrics_port={self.metrics}", "--nf=" + lb(
            "check=tcp", f"checker={CHECKER}", "check_interval=200ms"))
        clients = self.clients()
        before = clients.told()
        its = {kind: [i for i, one in enumerate(before[kind])
                      if one["servers"] == [dead]] for kind in before}
        with self.killing():
            self.kill(dead)
            wait_for("other servers for UDP", lambda: all(
                one["servers"][-1] != dead for one in clients.told()["udp"]))
            wait_for("other servers for TCP",
                     lambda: set(self.ask(20)) == set(SERVERS) - {dead})
            self.check_dead(dead)
            told = self.later(clients)
        self.check_broken(told, "tcp", its["tcp"])
        self.check_broken(told, "udp", ())
        for kind in before:
            for i, (then, now) in enumerate(zip(before[kind], told[kind])):
                if i in its[kind]:
                    self.assertEqual(now["servers"][0], dead)
                else:
                    self.assertEqual(now["servers"], then["servers"])
        self.serve(dead)
        wait_for("all servers", lambda: set(self.ask(20)) == set(SERVERS))
        wait_for("word of it", lambda: {
            one["state"] for one in self.states().values()} == {"up"})
        told = self.later(clients)
        self.check_broken(told, "tcp", its["tcp"])
        self.check_broken(told, "udp", ())
        report = self.check_down()
        self.assertEqual(report["counters"]["down_used"], 0)

    @wants("nginx")
    def test_answers_to_checks_reach_older_chains(self):
        dead = SERVERS[1]
        checks = ["check=tcp", f"checker={CHECKER}", "check_interval=200ms"]
        logs = self.folder / "logs"
        self.up(f"--nf_logs={logs}", f"--nf={lb(*checks)}")
        clients = self.clients()
        before = clients.told()
        # A chain that checks the same, with a connection that stays open, and
        # one that knows of no checks.
        self.set_chain(lb(*checks, "rise=3"))
        other = subprocess.Popen(
            inside(CLIENT, sys.executable, "-c", STAY_OPEN, VIRTUAL),
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(other.communicate)
        self.addCleanup(other.kill)
        self.assertEqual(other.stdout.readline(), "open\n")
        self.set_chain("monitor")
        self.later(clients, answers=30)
        self.kill(dead)
        # Their chain knows that this one is down, and no other.
        wait_for("other servers for UDP", lambda: all(
            one["servers"][-1] != dead for one in clients.told()["udp"]))
        told = self.later(clients)
        self.check_broken(told, "udp", ())
        for then, now in zip(before["udp"], told["udp"]):
            if then["servers"] != [dead]:
                self.assertEqual(now["servers"], then["servers"])
        down = [line for line in
                (logs / "lb.health.log").read_text().splitlines()
                if line.endswith("is down")]
        self.assertEqual({line.split()[-3] for line in down}, {f"{dead}:8080"})
        wait_for("copies", lambda: int(control.status()["answer_copies"]) > 9)
        report = self.check_down()
        self.assertGreater(report["ports"]["answer_copies"], 9)

    def check_dead(self, dead):
        """Status and metrics name the server, since when it is down, and why."""
        def found():
            return {server for (_, server), one in self.states().items()
                    if one["state"] == "down"} == {dead}
        wait_for("word of it", found)
        for protocol in ("tcp", "udp"):
            state = self.states()[protocol, dead]
            self.assertEqual((state["nf"], state["why"]),
                             ("lb", "checks fail: reset"))
            self.assertGreaterEqual(int(state["age_ns"]), 0)
            self.assertLess(int(state["age_ns"]), 60 * 10**9)
        self.assertRegex(control.told("status"), rf"lb +tcp {dead}:8080 down "
                         r"for [^:]+: checks fail: reset\n")
        page = "\n".join(net.peer(
            MIDDLE, "fetch", f"http://127.0.0.1:{self.metrics}/metrics"))
        for line in (
                f'snf_nf_object_state{{nf="lb",object="tcp {dead}:8080",'
                'state="down"} 1',
                f'snf_nf_object_state_seconds{{nf="lb",object="tcp {dead}:8080"'
                '} '):
            self.assertIn(line, page)

    # --- Packets too big

    def make_far_host(self):
        """A host behind the client's, which routes: the link there has a
        smaller MTU, which the far host's segments do not tell."""
        self.addCleanup(subprocess.run, ["ip", "netns", "del", FAR_HOST],
                        capture_output=True, check=False)
        ip("netns", "add", FAR_HOST)
        ip("-n", FAR_HOST, "link", "add", "eth0", "type", "veth", "peer",
           "name", "far0", "netns", CLIENT)
        ip("-n", FAR_HOST, "addr", "add", f"{FAR}/24", "dev", "eth0")
        ip("-n", CLIENT, "addr", "add", f"{FAR_ROUTER}/24", "dev", "far0")
        ip("-n", FAR_HOST, "link", "set", "eth0", "up")
        ip("-n", CLIENT, "link", "set", "far0", "mtu", str(FAR_MTU), "up")
        ip("-n", FAR_HOST, "route", "add", "default", "via", FAR_ROUTER)
        ip("-n", SERVER, "route", "add", f"{FAR}/32", "via", net.CLIENT4)
        subprocess.run(inside(CLIENT, "sysctl", "-q", "-w",
                              "net.ipv4.ip_forward=1"), check=True)

    @wants("nginx")
    @wants("curl")
    def test_too_big_for_a_clients_link_finds_the_server(self):
        self.make_far_host()
        self.up(*PROCESSES, f"--nf={lb()}")
        for _ in range(6):
            got = subprocess.run(
                inside(FAR_HOST, "curl", "-sS", "-D", "-", "--max-time",
                       PATIENCE_S, f"http://{VIRTUAL}/file"),
                capture_output=True, check=False, timeout=2 * PATIENCE_S)
            self.assertEqual(got.returncode, OK, got.stderr)
            header, data = got.stdout.split(b"\r\n\r\n", 1)
            self.assertEqual(hashlib.sha256(data).hexdigest(),
                             hashlib.sha256(self.data).hexdigest())
            server = re.search(rb"X-Server: (\S+)", header).group(1).decode()
            # The server's host has heard of it.
            route = subprocess.run(
                inside(SERVER, "ip", "route", "get", FAR, "from", server),
                capture_output=True, text=True, check=True).stdout
            self.assertIn(f"mtu {FAR_MTU}", route)
        report = self.check_down()
        self.assertGreater(report["counters"]["icmp_errors"], 0)


if __name__ == "__main__":
    net.main("LbConnections")

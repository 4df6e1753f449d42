#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Live traffic through `lb` to servers that die and live again.

    client eth0 ── lan0 [ snf run ] wan0 ── eth0 server, with three addresses

Wants root, and is skipped without.

Usage: lb_live_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import run_test as net
from command_case import wait_for
from run_test import CLIENT, SERVER, inside, ip

VIRTUAL, CHECKER = "10.77.0.50", "10.77.0.51"
SERVERS = ("10.77.0.61", "10.77.0.62", "10.77.0.63")
INTERVAL_S, FALL, RISE = 0.2, 3, 2
LB = (f"lb(virtual={VIRTUAL}:80,protocol=tcp,checker={CHECKER},"
      f"check_interval=200ms,fall={FALL},rise={RISE},check=%s,servers=" +
      "+".join(f"{server}:8080" for server in SERVERS) + ")")
# An HTTP server that answers any request by its address, and its status.
SERVE = """
import http.server, socketserver, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = sys.argv[1].encode()
        self.send_response(int(sys.argv[2]))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
with Server((sys.argv[1], 8080), Handler) as server:
    print("ready", flush=True)
    server.serve_forever()
"""
# Asks the virtual address again and again, one line an answer.
ASK = """
import http.client, sys, time
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    try:
        one = http.client.HTTPConnection(sys.argv[1], 80, timeout=0.5)
        one.request("GET", "/")
        print(one.getresponse().read().decode(), flush=True)
    except OSError as error:
        print("no:", error, flush=True)
    finally:
        one.close()
    time.sleep(0.005)
"""


class LbLive(net.Run):
    # Tests of its own only.
    locals().update({name: None for name in dir(net.Run)
                     if name.startswith("test_")})

    def setUp(self):
        super().setUp()
        self.servers = {}
        self.addCleanup(self.kill_all)
        # As routers would bring packets there.
        ip("-n", CLIENT, "neigh", "add", VIRTUAL, "lladdr",
           net.address_of_card(SERVER), "dev", "eth0", "nud", "permanent")
        ip("-n", SERVER, "neigh", "add", CHECKER, "lladdr",
           net.address_of_card(CLIENT), "dev", "eth0", "nud", "permanent")
        for server in SERVERS:
            ip("-n", SERVER, "addr", "add", f"{server}/24", "dev", "eth0")
            self.serve(server)

    def serve(self, server, code=200):
        process = subprocess.Popen(
            inside(SERVER, sys.executable, "-c", SERVE, server, str(code)),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.servers[server] = process
        self.assertEqual(process.stdout.readline(), b"ready\n")

    def kill(self, server):
        process = self.servers.pop(server)
        process.kill()
        process.wait()
        process.stdout.close()

    def kill_all(self):
        for server in list(self.servers):
            self.kill(server)

    def answers(self, seconds):
        """Who has answered, in order."""
        done = subprocess.run(
            inside(CLIENT, sys.executable, "-c", ASK, VIRTUAL, str(seconds)),
            capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.splitlines()

    def settled(self, expected):
        """Asks until only these have answered for a while."""
        wait_for(f"answers of {expected}",
                 lambda: set(self.answers(0.3)) == set(expected))

    def run_of(self, check, *flags):
        return self.running(f"--nf={LB % check}",
                            f"--nf_logs={self.folder}/logs", *flags)

    def check_deaths(self, *flags):
        with self.run_of("tcp", *flags):
            self.settled(SERVERS)
            # Its port is closed: resets come.
            self.kill(SERVERS[0])
            self.settled(SERVERS[1:])
            # Its host is gone: nothing comes.
            ip("-n", SERVER, "addr", "del", f"{SERVERS[1]}/24", "dev", "eth0")
            self.settled(SERVERS[2:])
            for _ in range(3):
                self.assertEqual(set(self.answers(0.3)), {SERVERS[2]})
            ip("-n", SERVER, "addr", "add", f"{SERVERS[1]}/24", "dev", "eth0")
            self.serve(SERVERS[0])
            self.settled(SERVERS)
        counters = self.report["counters"]
        self.assertGreater(counters["checks"], 20)
        self.assertGreater(counters["checks_passed"], 10)
        self.assertGreater(counters["checks_refused"], 1)
        self.assertEqual(counters["down_used"], 0)

    def test_a_server_that_dies_gets_no_connections_until_it_lives(self):
        self.check_deaths()

    def test_units_in_processes_agree(self):
        self.check_deaths("--isolation=process", "--max_units=4")

    def test_a_server_that_answers_500_is_down(self):
        with self.run_of("http"):
            self.settled(SERVERS)
            self.kill(SERVERS[2])
            self.serve(SERVERS[2], 500)
            self.settled(SERVERS[:2])
            self.kill(SERVERS[2])
            self.serve(SERVERS[2])
            self.settled(SERVERS)
        lines = (self.folder / "logs" / "lb.health.log").read_text()
        self.assertIn(f"{SERVERS[2]}:8080 is down", lines)
        self.assertIn(f"{SERVERS[2]}:8080 is up", lines)

    def test_a_server_that_flaps_does_not_change_its_state(self):
        with self.run_of("tcp"):
            self.settled(SERVERS)
            for _ in range(4):
                self.kill(SERVERS[0])
                time.sleep(INTERVAL_S / 2)
                self.serve(SERVERS[0])
                self.answers((RISE + 1) * INTERVAL_S)
        log = self.folder / "logs" / "lb.health.log"
        self.assertFalse(log.exists() and log.read_text())


# Sends a datagram in two fragments, the second one first.
SEND_REVERSED = """
import socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
    data = bytes(range(200)) * 10
    whole = struct.pack(">4H", 5000, 80, 8 + len(data), 0) + data
    def send(part, offset, more):
        raw.sendto(struct.pack(
            ">BBHHHBBH4s4s", 0x45, 0, 20 + len(part), 77,
            offset // 8 | more << 13, 64, socket.IPPROTO_UDP, 0,
            socket.inet_aton(sys.argv[1]), socket.inet_aton(sys.argv[2])) + part,
            (sys.argv[2], 0))
    send(whole[1000:], 1000, 0)
    send(whole[:1000], 0, 1)
"""
RECEIVE = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
    server.settimeout(30)
    server.bind((sys.argv[1], 8080))
    print("ready", flush=True)
    print("right" if server.recv(9000) == bytes(range(200)) * 10 else "wrong",
          flush=True)
"""


class LbFragments(net.Run):
    locals().update({name: None for name in dir(net.Run)
                     if name.startswith("test_")})

    def test_reversed_fragments_reach_the_server(self):
        ip("-n", CLIENT, "neigh", "add", VIRTUAL, "lladdr",
           net.address_of_card(SERVER), "dev", "eth0", "nud", "permanent")
        ip("-n", SERVER, "addr", "add", f"{SERVERS[0]}/24", "dev", "eth0")
        with subprocess.Popen(
                inside(SERVER, sys.executable, "-c", RECEIVE, SERVERS[0]),
                stdout=subprocess.PIPE, text=True) as server:
            self.addCleanup(server.kill)
            self.assertEqual(server.stdout.readline(), "ready\n")
            with self.running(
                    f"--nf=lb(virtual={VIRTUAL}:80,servers={SERVERS[0]}:8080)"):
                subprocess.run(
                    inside(CLIENT, sys.executable, "-c", SEND_REVERSED,
                           net.CLIENT4, VIRTUAL), check=True, timeout=60)
                self.assertEqual(server.stdout.readline(), "right\n")


if __name__ == "__main__":
    net.main()

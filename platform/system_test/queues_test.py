#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf run` whose ports have several receive queues each (queues=4), and
threads that send (send=thread).

    client eth0 ── lan0 [ snf run ] wan0 ── eth0 server

Wants root, and is skipped without.

Usage: queues_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import json
import pathlib
import re
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import run_test as net
from command_case import PATIENCE_S, USAGE, wait_for
from run_test import CLIENT, MIDDLE, SERVER, SERVER4, inside, ip, peer

QUEUES = 4
PORTS = ["--port", f"inside=lan0,queues={QUEUES}",
         "--port", f"outside=wan0,queues={QUEUES}"]
SENDERS = ["--port", "inside=lan0,send=thread",
           "--port", "outside=wan0,send=thread"]
BOTH = ["--port", f"inside=lan0,queues={QUEUES},send=thread",
        "--port", f"outside=wan0,queues={QUEUES},send=thread"]
NAT = f"--nf=firewall | monitor | nat(ip={net.EXTERNAL4})"

# Sends the numbers from 0 on to port 9, by so many sockets in turn, then prints
# how many of them there were. Pauses keep the queue of a veth short, which drops
# what is more than 1,000 packets, and does not say so.
SEND = """
import socket, struct, sys, time
to, flows, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
           for _ in range(flows)]
for one in sockets:
    one.connect((to, 9))
sent = 0
for number in range(count):
    for one in sockets:
        one.send(struct.pack(">I", number) + bytes(60))
        sent += 1
        if sent % 200 == 0:
            time.sleep(0.002)
print(sent)
"""

# Prints how many numbers came to port 9 until none came for a second, how many
# of these came behind a later one of their sender, and from how many senders.
RECEIVE = """
import json, socket, struct
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
server.bind(("", 9))
print("ready", flush=True)
last, came, late = {}, 0, 0
server.settimeout(30)
while True:
    try:
        data, sender = server.recvfrom(100)
    except TimeoutError:
        break
    server.settimeout(1)
    number, = struct.unpack(">I", data[:4])
    late += number <= last.get(sender, -1)
    last[sender] = max(number, last.get(sender, -1))
    came += 1
print(json.dumps({"came": came, "late": late, "senders": len(last)}))
"""


class Queues(net.Run):
    def receiver(self):
        """Begins one; nobody answers ARP while the run is stopped."""
        ip("-n", CLIENT, "neigh", "add", SERVER4, "lladdr",
           net.address_of_card(SERVER), "dev", "eth0", "nud", "permanent")
        process = subprocess.Popen(
            inside(SERVER, sys.executable, "-c", RECEIVE),
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    @staticmethod
    def send(flows, count):
        done = subprocess.run(
            inside(CLIENT, sys.executable, "-c", SEND, SERVER4, flows, count),
            capture_output=True, text=True, timeout=4 * PATIENCE_S, check=True)
        return int(done.stdout)

    def full_queues(self):
        """The frames that the kernel dropped, by the inside port's queue."""
        return {int(queue): int(count) for count, queue in re.findall(
            r"port inside: (\d+) queue_(\d+)_full",
            "\n".join(self.report["warnings"]))}

    @staticmethod
    def sockets_at(interface):
        """How many sockets receive all kinds of frames there."""
        index = json.loads(subprocess.run(
            ["ip", "-n", MIDDLE, "-j", "link", "show", interface],
            capture_output=True, text=True, check=True).stdout)[0]["ifindex"]
        lines = subprocess.run(inside(MIDDLE, "cat", "/proc/net/packet"),
                               capture_output=True, text=True,
                               check=True).stdout.splitlines()[1:]
        every, at = "0003", [line.split()[3:5] for line in lines]
        return at.count([every, str(index)])

    @staticmethod
    def senders(process):
        """The status files of threads that send for a port."""
        threads = pathlib.Path(f"/proc/{process.pid}/task").iterdir()
        return [thread / "status" for thread in threads
                if (thread / "comm").read_text() == "snf-send\n"]

    def rests(self, process):
        """How often threads that send have slept; all do so again. Not 0."""
        def all_asleep():
            texts = [file.read_text() for file in self.senders(process)]
            if not all("State:\tS" in text for text in texts):
                return None
            return 1 + sum(
                int(count) for text in texts for count in
                re.findall(r"\nvoluntary_ctxt_switches:\s+(\d+)", text))
        return wait_for("threads that sleep", all_asleep)

    def route_to_the_nat(self):
        ip("-n", SERVER, "neigh", "add", net.EXTERNAL4, "lladdr",
           net.address_of_card(CLIENT), "dev", "eth0", "nud", "permanent")

    def check_traffic(self, ports, queues, senders=0):
        self.route_to_the_nat()
        with self.server(), self.running(NAT, ports=ports) as process:
            for interface in ("lan0", "wan0"):
                self.assertEqual(self.sockets_at(interface), queues)
            self.assertEqual(len(self.senders(process)), senders)
            self.check_downloads(SERVER4)
            self.check_udp(CLIENT, SERVER4, [0, 1, 1_472, 4_000])
            self.assertEqual(peer(CLIENT, "tcp", SERVER4, 50, 20_000),
                             ["50 right"])
        inside_port, outside = (self.report["ports"][side]
                                for side in ("inside", "outside"))
        # Frames of several packets stay whole, and none comes in twice, nor
        # what the machine itself sends.
        self.assertGreater(outside["merged"], 0)
        self.assertEqual((outside["split"], inside_port["cut"]), (0, 0))
        for port in (inside_port, outside):
            self.assertEqual((port["refused"], port["kernel_drops"]), (0, 0))
            self.assertEqual(port["send_drops"], 0)
        self.assertEqual(self.report["ports"]["filtered"], 0)

    def test_carries_traffic_both_ways(self):
        self.check_traffic(PORTS, QUEUES)

    def test_carries_traffic_by_threads_that_send(self):
        self.check_traffic(SENDERS, queues=1, senders=2)

    def test_carries_traffic_by_both(self):
        self.check_traffic(BOTH, QUEUES, senders=2)

    def test_what_waits_for_threads_at_the_end_leaves_and_is_counted(self):
        receiver = self.receiver()
        with self.running("--nf=monitor", ports=SENDERS, end=None) as process:
            process.send_signal(signal.SIGSTOP)
            sent = self.send(flows=15, count=200)
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGCONT)
        told = json.loads(receiver.communicate(timeout=4 * PATIENCE_S)[0])
        self.assertEqual(told["came"], sent)
        self.assertGreaterEqual(self.report["ports"]["outside"]["sent"], sent)

    def test_flows_keep_their_order_through_threads(self):
        self.check_order(BOTH)

    def test_each_flow_keeps_its_order(self):
        self.check_order(PORTS)

    def check_order(self, ports):
        receiver = self.receiver()
        with self.running("--nf=monitor", ports=ports) as process:
            rests = self.rests(process)
            process.send_signal(signal.SIGSTOP)  # frames wait in all queues
            # No multiple of the queues: no flow has one by its turn.
            sent = self.send(flows=15, count=200)
            process.send_signal(signal.SIGCONT)
            told = json.loads(receiver.communicate(timeout=4 * PATIENCE_S)[0])
            # Batches go to the threads, if there are any.
            has_sent_by_threads = self.rests(process) > rests
        self.assertEqual(has_sent_by_threads, ports == BOTH)
        self.assertEqual(told, {"came": sent, "late": 0, "senders": 15})
        self.assertEqual(self.full_queues(), {})

    def test_a_flood_of_one_flow_fills_one_queue_alone(self):
        receiver = self.receiver()
        with self.running("--nf=monitor", ports=PORTS) as process:
            process.send_signal(signal.SIGSTOP)
            flood = self.send(flows=1, count=20_000)
            others = self.send(flows=40, count=5)
            process.send_signal(signal.SIGCONT)
            told = json.loads(receiver.communicate(timeout=4 * PATIENCE_S)[0])
        full, inside_port = self.full_queues(), self.report["ports"]["inside"]
        self.assertEqual(len(full), 1)
        self.assertEqual(sum(full.values()), inside_port["kernel_drops"])
        # ARP and the like are frames as well.
        self.assertGreaterEqual(
            inside_port["received"] + inside_port["kernel_drops"],
            flood + others)
        self.assertGreater(told["came"], 0)
        # Flows of the other queues lost nothing.
        self.assertGreater(told["senders"], 1 + 40 // QUEUES)

    def test_refuses_what_cannot_be(self):
        for word, port in (
                ("want ,queues=N, from 1 to 16", "inside=lan0,queues=17"),
                ("a socket for each receive queue", "inside=xdp:lan0,queues=2")):
            done = subprocess.run(
                net.in_network(MIDDLE, net.PROGRAM, "run", f"--port={port}",
                               "--port=outside=wan0"),
                capture_output=True, text=True, timeout=PATIENCE_S,
                check=False)
            self.assertEqual(done.returncode, USAGE, done.stderr)
            self.assertIn(word, done.stderr)


# The tests of one queue are those of run_test.py.
for inherited in [name for name in dir(net.Run) if name.startswith("test_")]:
    setattr(Queues, inherited, None)

if __name__ == "__main__":
    net.main()

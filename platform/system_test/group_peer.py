#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hosts that talk all the time, for tests of groups of controllers.

Each host sends a numbered datagram to an echo every 20 ms, from a new port each
second, until stdin ends. A line on stdin is answered by how long ago each host
had its last answer; after "begin", gaps count from then on. At the end comes
what each had, as JSON.

Usage: group_peer.py SERVER HOST…
"""

import contextlib
import json
import select
import socket
import struct
import sys
import time

PERIOD_S, FLOW_S, LATE_S = 0.02, 1, 3


class Host:
    def __init__(self, address, server):
        self.address, self.server = address, server
        self.flows = []  # (since, socket)
        self.sent, self.answers = 0, {}
        self.heard = time.monotonic()
        self.gap = 0  # the longest time without an answer

    def open(self, now):
        flow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        flow.setblocking(False)
        flow.bind((self.address, 0))
        flow.connect((self.server, 7))
        self.flows.append((now, flow))

    def turn(self, now):
        if not self.flows or now - self.flows[-1][0] > FLOW_S:
            self.open(now)
        while now - self.flows[0][0] > FLOW_S + LATE_S:
            self.flows.pop(0)[1].close()
        with contextlib.suppress(OSError):
            self.flows[-1][1].send(struct.pack(">Q", self.sent))
        self.sent += 1
        for _, flow in self.flows:
            self.receive(flow)
        self.gap = max(self.gap, now - self.heard)

    def receive(self, flow):
        while True:
            try:
                number, = struct.unpack(">Q", flow.recv(100))
            except OSError:
                return
            self.answers[number] = self.answers.get(number, 0) + 1
            self.heard = time.monotonic()

    def told(self):
        return {"sent": self.sent, "answered": len(self.answers),
                "repeated": sum(self.answers.values()) - len(self.answers),
                "gap": round(self.gap, 3)}


def main(server, *addresses):
    hosts = [Host(address, server) for address in addresses]
    print("ready", flush=True)
    begins = time.monotonic()
    while True:
        now = time.monotonic()
        # Who is late does not catch up by a burst.
        begins = max(begins, now - PERIOD_S) + PERIOD_S
        for host in hosts:
            host.turn(now)
        wait = max(0, begins - time.monotonic())
        if not select.select([sys.stdin], [], [], wait)[0]:
            continue
        line = sys.stdin.readline()
        if not line:
            break
        now = time.monotonic()
        print(json.dumps({host.address: now - host.heard for host in hosts}),
              flush=True)
        for host in hosts if line == "begin\n" else []:
            host.gap = 0
    end = time.monotonic() + 1
    while time.monotonic() < end:
        for host in hosts:
            for _, flow in host.flows:
                host.receive(flow)
        time.sleep(PERIOD_S)
    print(json.dumps({host.address: host.told() for host in hosts}))


if __name__ == "__main__":
    main(*sys.argv[1:])

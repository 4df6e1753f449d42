# SPDX-License-Identifier: Apache-2.0
"""Hosts of a router, in network namespaces: they talk all the time, and hear
what it says of itself.

Usage: router_peer.py WORD [ARGUMENT…]
"""

import concurrent.futures
import contextlib
import json
import os
import socket
import struct
import sys
import threading
import time

sys.dont_write_bytecode = True  # nothing beside the sources
from network_peer import PATIENCE_S, of_family, receive, sum_of


def end_of_stdin():
    """An event that is set once stdin has ended."""
    ends = threading.Event()

    def listen():
        sys.stdin.read()
        ends.set()
    threading.Thread(target=listen, daemon=True).start()
    return ends


def ping_on(*addresses):
    """An echo request to each address each 10 ms, of another identifier after
    each 50, until stdin ends: prints for each how many were sent, were not
    answered, were answered twice, and the longest time without an answer."""
    ends = end_of_stdin()

    def ping_one(address):
        is_v6 = ":" in address
        kind, answer = (128, 129) if is_v6 else (8, 0)
        answers, sent, longest, last = {}, 0, 0, time.monotonic()
        own = os.urandom(52)  # others may ping as well
        with socket.socket(of_family(address), socket.SOCK_RAW,
                           socket.IPPROTO_ICMPV6 if is_v6
                           else socket.IPPROTO_ICMP) as client:
            client.connect((address, 0))
            client.settimeout(0.01)
            until = None
            while until is None or (len(answers) < sent
                                    and time.monotonic() < until):
                if ends.is_set():
                    until = until or time.monotonic() + 5
                else:
                    asked = struct.pack(">HHI", os.getpid() + sent // 50 & 0xFFFF,
                                        sent & 0xFFFF, sent) + own
                    checksum = 0 if is_v6 else sum_of(
                        struct.pack(">BBH", kind, 0, 0) + asked)
                    client.send(struct.pack(">BBH", kind, 0, checksum) + asked)
                    sent += 1
                next_time = time.monotonic() + 0.01
                while time.monotonic() < next_time:
                    with contextlib.suppress(TimeoutError):
                        data = client.recv(65_535)
                        data = data if is_v6 else data[(data[0] & 15) * 4:]
                        if data[0] != answer or data[12:] != own:
                            continue
                        number, = struct.unpack(">I", data[8:12])
                        answers[number] = answers.get(number, 0) + 1
                        now = time.monotonic()
                        longest, last = max(longest, now - last), now
        return {"sent": sent, "missing": sent - len(answers),
                "repeated": sum(answers.values()) - len(answers),
                "longest_ms": round(1000 * longest)}
    with concurrent.futures.ThreadPoolExecutor(len(addresses)) as pool:
        print(json.dumps(dict(zip(addresses, pool.map(ping_one, addresses)))))


def talk_on(address):
    """A connection by which both ends send each 10 ms, until stdin ends: prints
    how many echoes were right, and the longest time without one."""
    ends = end_of_stdin()
    with socket.create_connection((address, 7), PATIENCE_S) as server:
        print("connected", flush=True)
        right, longest, last = 0, 0, time.monotonic()
        while not ends.wait(0.01):
            data = os.urandom(100)
            server.sendall(struct.pack(">I", len(data)) + data)
            if receive(server, len(data)) != data:
                break
            right += 1
            now = time.monotonic()
            longest, last = max(longest, now - last), now
    print(json.dumps({"right": right, "longest_ms": round(1000 * longest),
                      "broke": not ends.is_set()}))


def hear_router(mac):
    """What a router with this link address and this host say to each other, a
    line each until killed: "ask 10.1.0.9 all", "answer 10.1.0.1 one", "asked
    10.1.0.1", "advertise 1800", "exceeded", "echoed 10.1.0.1"."""
    outgoing, router = 4, bytes.fromhex(mac)
    names = {134: "advertise", 135: "ask", 136: "answer"}
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                       socket.htons(3)) as card:
        card.bind(("eth0", 3))
        print("ready", flush=True)
        while True:
            frame, beside = card.recvfrom(65_535)
            is_own = beside[2] == outgoing
            if not is_own and frame[6:12] != router:
                continue
            whom = "all" if frame[0] & 1 else "one"
            words = None
            if frame[12:14] == b"\x08\x06":
                kind = ("ask", "answer")[frame[21] - 1]
                named = frame[28:32] if kind == "answer" else frame[38:42]
                words = [kind, socket.inet_ntoa(named), whom]
            elif frame[12:14] == b"\x86\xdd" and frame[20] == 58:
                if frame[54] == 3:
                    words = ["exceeded"]
                elif frame[54] == 129:
                    words = ["echoed", socket.inet_ntop(socket.AF_INET6,
                                                        frame[22:38])]
                elif frame[54] == 134:
                    words = ["advertise", int.from_bytes(frame[60:62], "big")]
                elif frame[54] in names:
                    words = [names[frame[54]],
                             socket.inet_ntop(socket.AF_INET6, frame[62:78]),
                             whom]
            elif frame[12:14] == b"\x08\x00" and frame[23] == 1:
                kind = frame[14 + (frame[14] & 15) * 4]
                if kind == 11:
                    words = ["exceeded"]
                elif kind == 0:
                    words = ["echoed", socket.inet_ntoa(frame[26:30])]
            if words and is_own:
                words = ["asked", words[1]] if words[0] == "ask" else None
            if words:
                print(*words, flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

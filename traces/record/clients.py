#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The clients of record.sh that are no programs of their own.

    clients.py START SEED

From the moment START (milliseconds of the Unix epoch) on: sixteen IPv4 and four
IPv6 hosts look names up and fetch from HTTP servers, over short and over kept
connections, hold voice calls over UDP, and send bursts over UDP. The rate of
new connections follows PHASES. The seed fixes what is asked for and when; the
kernel's timing is its own.
"""
import asyncio
import random
import struct
import sys
import time

CLIENTS = [f"192.0.2.{n}" for n in range(10, 26)]
CLIENTS6 = [f"2001:db8:1::{n}" for n in range(10, 14)]
NAMES = {
    "www.example.net": "198.51.100.10",
    "static.example.net": "198.51.100.11",
    "api.example.net": "198.51.100.12",
}
WEB6 = "2001:db8:2::10"
DNS = ("203.0.113.53", 53)
UDP_SERVER = "198.51.100.10"

# Seconds after START, and new HTTP connections a second until then.
PHASES = [(1.0, 25), (3.2, 130), (3.6, 160), (5.0, 20)]
END = PHASES[-1][0]


class Clock:
    def __init__(self, start):
        self.start = start

    def now(self):
        return time.time() - self.start

    async def until(self, when):
        await asyncio.sleep(max(0.0, when - self.now()))


class Reply(asyncio.DatagramProtocol):
    def __init__(self):
        self.done = asyncio.get_running_loop().create_future()

    def datagram_received(self, data, addr):
        if not self.done.done():
            self.done.set_result(data)

    def error_received(self, exc):
        pass  # a port unreachable is part of the recording


async def open_udp(client, server, protocol=Reply):
    loop = asyncio.get_running_loop()
    return await loop.create_datagram_endpoint(
        protocol, local_addr=(client, 0), remote_addr=server
    )


async def look_up(rng, client, name):
    labels = b"".join(
        bytes([len(label)]) + label.encode() for label in name.split(".")
    )
    head = struct.pack(">HHHHHH", rng.randrange(65536), 0x0100, 1, 0, 0, 0)
    transport, reply = await open_udp(client, DNS)
    transport.sendto(head + labels + b"\0" + struct.pack(">HH", 1, 1))
    try:
        await asyncio.wait_for(reply.done, 1)
    finally:
        transport.close()


def size_of(rng):
    """Most objects are small, a few are large; never above 120 kB."""
    return min(120_000, int(rng.paretovariate(1.1) * 900))


async def fetch(rng, reader, writer, host, last):
    keep = "close" if last else "keep-alive"
    if rng.random() < 0.1:
        body = b"field=value&" * rng.randrange(10, 400)
        request = f"POST / HTTP/1.1\r\nHost: {host}\r\nConnection: {keep}\r\n"
        request += f"Content-Length: {len(body)}\r\n\r\n"
    else:
        body = b""
        request = f"GET /{size_of(rng)} HTTP/1.1\r\nHost: {host}\r\n"
        request += f"Connection: {keep}\r\n\r\n"
    writer.write(request.encode() + body)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.startswith(b"Content-Length")
    )
    await reader.readexactly(length)


async def browse(rng):
    if rng.random() < 0.15:
        client, host, server = rng.choice(CLIENTS6), "v6.example.net", WEB6
    else:
        client = rng.choice(CLIENTS)
        host, server = rng.choice(list(NAMES.items()))
        if rng.random() < 0.5:
            await look_up(rng, client, host)
    reader, writer = await asyncio.open_connection(
        server, 80, local_addr=(client, 0)
    )
    requests = rng.randrange(4, 12) if rng.random() < 0.15 else 1
    for left in reversed(range(requests)):
        await fetch(rng, reader, writer, host, left == 0)
        if left > 0:
            await asyncio.sleep(rng.expovariate(10))
    writer.close()
    await writer.wait_closed()


async def web(clock, rng):
    tasks, when, phase = [], 0.0, 0
    while phase < len(PHASES):
        until, per_second = PHASES[phase]
        when += rng.expovariate(per_second)
        if when >= until:
            when, phase = until, phase + 1
            continue
        await clock.until(when)
        own = random.Random(rng.random())
        tasks.append(asyncio.create_task(browse(own)))
    await asyncio.gather(*tasks)


async def call(clock, client, begin):
    """A voice call: 172 bytes each 20 ms, and as much back."""
    transport, _ = await open_udp(client, (UDP_SERVER, 7000))
    count = int((END - begin) / 0.020)
    for n in range(count):
        await clock.until(begin + n * 0.020)
        transport.sendto(struct.pack(">BBHII", 128, 0, n, n * 160, 1) +
                         b"\xd5" * 160)
    transport.close()


async def bursts(clock, client, begin, end):
    """On and off: 60 ms of four 1,200-byte datagrams a millisecond."""
    transport, _ = await open_udp(client, (UDP_SERVER, 7001))
    while begin < end:
        for n in range(60):
            await clock.until(begin + n * 0.001)
            for _ in range(4):
                transport.sendto(bytes(1200))
        begin += 0.240
    transport.close()


async def knock(clock, client, when):
    """A datagram to a port where nobody listens."""
    transport, _ = await open_udp(client, (UDP_SERVER, 9))
    await clock.until(when)
    transport.sendto(b"anyone there?")
    await asyncio.sleep(0.1)
    transport.close()


async def run(start_ms, seed):
    clock, rng = Clock(start_ms / 1000), random.Random(seed)
    calls = [call(clock, CLIENTS[n], 0.1 + 0.17 * n) for n in range(4)]
    await clock.until(0)
    await asyncio.gather(
        web(clock, rng),
        *calls,
        call(clock, CLIENTS[4], 1.0),
        bursts(clock, CLIENTS[5], 1.1, 3.4),
        bursts(clock, CLIENTS[6], 1.3, 2.6),
        knock(clock, CLIENTS[7], 0.5),
    )


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]), int(sys.argv[2])))

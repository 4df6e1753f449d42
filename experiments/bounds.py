#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How few units would serve a capture, if the future were known.

  bounds.py CAPTURE [--capacity=BITS_PER_S] [--timeout=NS] [--flowlet_bytes=N]
                    [--latency=NS] [--hold=NS] [--most_units=N]

Reads a plain pcap of Ethernet or raw IP and prints JSON. Each reference says
how many units are up on average from the first packet to the last, and which
share of their capacity the traffic uses. No reference is a lower bound: a
policy that parks units within 10 ms, or lets packets wait, may provision less.

  ceil             every 10 ms as many units as the bytes of these 10 ms fill,
                   rounded up: nothing waits, nothing is left over
  pooled           one queue before all units; every 10 ms the fewest of which
                   99 of 100 packets leave within --latency
  first_fit        flowlets in order, each on the first unit that has room for
                   the rate that it turns out to have (over at least --timeout);
                   a unit ends when it has no flowlet
  first_fit_held   the same, but a unit is held for --hold longer

alone_p50_ns and alone_p99_ns are latencies where each flow has a unit of its
own. A unit serves a flow's packets one by one, so no placement has lower ones:
these are bounds.

All is counted in integers, so the same capture gives the same digits. Only
packets with an IP header count, by their lengths on the wire. Flows are
connections as snf's, but all ICMP between two hosts is one, as are all
fragments of a protocol.
"""

import argparse
import heapq
import json
import struct
import sys
from typing import Iterator, NamedTuple

STEP_NS = 10_000_000
ETHERNET, RAW_IP = 1, {12, 101, 228, 229}
TAGS = {0x8100, 0x88A8, 0x9100}
WITH_PORTS = {6, 17, 132}
EXTENSIONS = {0, 43, 60}  # of IPv6: hop by hop, routing, destination
FRAGMENT = 44
# By the first four bytes: the byte order, and ns in a tick.
MAGICS = {b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000),
          b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1)}


class BadCapture(Exception):
    """Says what is wrong with a capture, and where."""


class Packet(NamedTuple):
    time_ns: int  # since the capture's first
    length: int   # on the wire
    flow: int     # connections are numbered as they come


class Flowlet(NamedTuple):
    first_ns: int
    last_ns: int
    length: int  # bytes of its packets


# --- Packets of a capture -----------------------------------------------------

def ports_of(data: bytes, protocol: int, at: int) -> tuple[bytes, bytes]:
    if protocol in WITH_PORTS:
        return data[at:at + 2], data[at + 2:at + 4]
    return b"", b""


def connection_of(data: bytes, at: int) -> tuple | None:
    """What all packets between the same two ends share; None without IP."""
    if len(data) < at + 20:
        return None
    version = data[at] >> 4
    if version == 4:
        protocol, ends = data[at + 9], (data[at + 12:at + 16],
                                        data[at + 16:at + 20])
        is_fragment = (data[at + 6] & 0x3F) | data[at + 7]
        ports = (b"", b"") if is_fragment else ports_of(
            data, protocol, at + 4 * (data[at] & 0xF))
    elif version == 6 and len(data) >= at + 40:
        protocol, ends = data[at + 6], (data[at + 8:at + 24],
                                        data[at + 24:at + 40])
        at += 40
        while protocol in EXTENSIONS and at + 2 <= len(data):
            protocol, at = data[at], at + 8 * (data[at + 1] + 1)
        if protocol == FRAGMENT and at < len(data):
            protocol, ports = data[at], (b"", b"")
        else:
            ports = ports_of(data, protocol, at)
    else:
        return None
    return (protocol, *sorted(zip(ends, ports)))


def ip_offset(data: bytes, link: int) -> int:
    """Where the IP header begins; behind the end if there is none."""
    if link != ETHERNET:
        return 0
    at = 12
    while len(data) >= at + 2:
        kind = int.from_bytes(data[at:at + 2], "big")
        if kind in TAGS:
            at += 4
        else:
            return at + 2 if kind in (0x0800, 0x86DD) else len(data)
    return len(data)


def records(data: bytes, name: str) -> Iterator[tuple[int, int, int, bytes]]:
    """(link type, time in ns, length on the wire, bytes) of a pcap."""
    if data[:4] not in MAGICS or len(data) < 24:
        raise BadCapture(f"{name}: no plain pcap; snf trace convert makes one")
    order, tick = MAGICS[data[:4]]
    link = struct.unpack_from(order + "I", data, 20)[0] & 0xFFFF
    if link != ETHERNET and link not in RAW_IP:
        raise BadCapture(f"{name}: link type {link}: want Ethernet or raw IP; "
                         "snf trace convert --link=ethernet makes that")
    header = struct.Struct(order + "IIII")
    at = 24
    while at < len(data):
        if at + 16 > len(data):
            raise BadCapture(f"{name}: offset {at}: cut within a record")
        seconds, ticks, kept, length = header.unpack_from(data, at)
        at += 16
        if at + kept > len(data):
            raise BadCapture(f"{name}: offset {at}: cut within a packet")
        yield link, seconds * 10**9 + ticks * tick, length, data[at:at + kept]
        at += kept


def packets_of(data: bytes, name: str) -> list[Packet]:
    """A packet before its predecessor is taken as simultaneous."""
    flows, packets = {}, []
    start = now = None
    for link, time_ns, length, frame in records(data, name):
        if start is None:
            start = now = time_ns
        key = connection_of(frame, ip_offset(frame, link))
        if key is None:
            continue
        now = max(now, time_ns)
        packets.append(Packet(now - start, length,
                              flows.setdefault(key, len(flows))))
    if len(packets) < 2 or packets[-1].time_ns == 0:
        raise BadCapture(f"{name}: want two packets with IP at different times")
    return packets


def flowlets_of(packets: list[Packet], timeout_ns: int,
                limit: int) -> list[Flowlet]:
    """By SNF's rule: a gap of more than the timeout, or too many bytes."""
    made, current = [], {}
    for time_ns, length, flow in packets:
        i = current.get(flow)
        if i is None or time_ns - made[i].last_ns > timeout_ns or \
                made[i].length + length > limit:
            current[flow] = len(made)
            made.append(Flowlet(time_ns, time_ns, length))
        else:
            made[i] = Flowlet(made[i].first_ns, time_ns,
                              made[i].length + length)
    return made


def demand_of(packets: list[Packet]) -> list[int]:
    """Bytes in each step of 10 ms from the first packet."""
    steps = [0] * (packets[-1].time_ns // STEP_NS + 1)
    for packet in packets:
        steps[packet.time_ns // STEP_NS] += packet.length
    return steps


# --- References, in unit·ns ---------------------------------------------------

def ceil_of_demand(steps: list[int], duration_ns: int, capacity: int) -> int:
    """A last step of less than a half is served by the units before it."""
    unit_ns = before = 0
    for i, length in enumerate(steps):
        width = min(STEP_NS, duration_ns - i * STEP_NS)
        if 2 * width >= STEP_NS or i == 0:
            before = -(-length * 8 * 10**9 // (capacity * max(width, 1)))
        unit_ns += before * width
    return unit_ns


def serve(packets: list[Packet], units: int, capacity: int, backlog: float,
          since_ns: int) -> tuple[list[int], float]:
    """Delays in ns of packets behind `backlog` bytes, and what is left of them
    when the last has come."""
    per_ns = units * capacity / 8e9
    alone = 8e9 / capacity
    delays = []
    for time_ns, length, _ in packets:
        backlog = max(0.0, backlog - (time_ns - since_ns) * per_ns)
        since_ns = time_ns
        delays.append(int(backlog / per_ns + length * alone))
        backlog += length
    return delays, backlog


def percentile(delays: list[int], percent: int) -> int:
    """The least that so many of 100 do not exceed; 0 of none."""
    if not delays:
        return 0
    return sorted(delays)[-(-len(delays) * percent // 100) - 1]


def p99(delays: list[int]) -> int:
    return percentile(delays, 99)


def delays_alone(packets: list[Packet], capacity: int) -> list[int]:
    """In ns, where each flow has a unit of its own."""
    free_ns, delays = {}, []
    for time_ns, length, flow in packets:
        end_ns = max(time_ns, free_ns.get(flow, 0)) + \
            length * 8 * 10**9 // capacity
        free_ns[flow] = end_ns
        delays.append(end_ns - time_ns)
    return delays


def pooled_queue(packets: list[Packet], capacity: int, latency_ns: int,
                 most_units: int) -> tuple[int, int]:
    """Unit·ns, and the p99 of all delays."""
    duration_ns = packets[-1].time_ns
    backlog, units, unit_ns, at = 0.0, 1, 0, 0
    everyone = []
    for begin in range(0, duration_ns + 1, STEP_NS):
        end = at
        while end < len(packets) and packets[end].time_ns < begin + STEP_NS:
            end += 1
        part, at = packets[at:end], end

        def served(count, part=part, backlog=backlog, begin=begin):
            return serve(part, count, capacity, backlog, begin)

        delays, left = served(units)
        while p99(delays) > latency_ns and units < most_units:
            units += 1
            delays, left = served(units)
        while units > 1:
            fewer = served(units - 1)
            if p99(fewer[0]) > latency_ns:
                break
            units -= 1
            delays, left = fewer
        everyone += delays
        since = part[-1].time_ns if part else begin
        backlog = max(0.0, left - (begin + STEP_NS - since) * units *
                      capacity / 8e9)
        unit_ns += units * min(STEP_NS, duration_ns - begin)
    return unit_ns, p99(everyone)


class Unit:
    """A unit of first_fit: what it serves, and since when it is up."""

    def __init__(self):
        self.flowlets = self.load_bps = self.unit_ns = 0
        self.up_ns = None
        self.idle_ns = 0

    def end(self, hold_ns, last_ns):
        if self.up_ns is not None:
            until = min(self.idle_ns + hold_ns, last_ns)
            self.unit_ns += max(0, until - self.up_ns)
        self.up_ns = None


def first_fit(flowlets: list[Flowlet], duration_ns: int, capacity: int,
              timeout_ns: int, hold_ns: int) -> int:
    units, ends = [], []

    def release(now_ns):
        while ends and ends[0][0] <= now_ns:
            end_ns, k, rate = heapq.heappop(ends)
            units[k].load_bps -= rate
            units[k].flowlets -= 1
            if units[k].flowlets == 0:
                units[k].idle_ns = end_ns

    for first_ns, last_ns, length in flowlets:
        release(first_ns)
        lasts = max(last_ns - first_ns, timeout_ns)
        rate = length * 8 * 10**9 // lasts
        k = next((k for k, unit in enumerate(units) if unit.flowlets == 0 or
                  unit.load_bps + rate <= capacity), len(units))
        if k == len(units):
            units.append(Unit())
        unit = units[k]
        if unit.up_ns is not None and unit.flowlets == 0 and \
                first_ns - unit.idle_ns > hold_ns:
            unit.end(hold_ns, duration_ns)
        if unit.up_ns is None:
            unit.up_ns = first_ns
        unit.flowlets += 1
        unit.load_bps += rate
        heapq.heappush(ends, (first_ns + lasts, k, rate))
    release(duration_ns + timeout_ns)
    for unit in units:
        unit.end(hold_ns, duration_ns)
    return sum(unit.unit_ns for unit in units)


# --- All of them --------------------------------------------------------------

def bounds_of(packets: list[Packet], options: argparse.Namespace) -> dict:
    duration_ns = packets[-1].time_ns
    length = sum(packet.length for packet in packets)
    capacity = options.capacity
    flowlets = flowlets_of(packets, options.timeout, options.flowlet_bytes)
    steps = demand_of(packets)
    pooled, pooled_p99 = pooled_queue(packets, capacity, options.latency,
                                      options.most_units)
    alone = delays_alone(packets, capacity)
    unit_ns = {
        "ceil": ceil_of_demand(steps, duration_ns, capacity),
        "pooled": pooled,
        "first_fit": first_fit(flowlets, duration_ns, capacity,
                               options.timeout, 0),
        "first_fit_held": first_fit(flowlets, duration_ns, capacity,
                                    options.timeout, options.hold)}
    return {
        "packets": len(packets), "bytes": length, "duration_ns": duration_ns,
        "flows": 1 + max(packet.flow for packet in packets),
        "flowlets": len(flowlets),
        "mean_bps": length * 8e9 / duration_ns,
        "step_ns": STEP_NS, "demand_bytes": steps,
        "pooled_p99_ns": pooled_p99,
        "alone_p50_ns": percentile(alone, 50), "alone_p99_ns": p99(alone),
        "units": {name: each / duration_ns for name, each in unit_ns.items()},
        "utilisation": {name: length * 8e9 / (capacity * each)
                        for name, each in unit_ns.items() if each}}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("capture")
    for name, default in (("capacity", 10**9), ("timeout", 500_000),
                          ("flowlet_bytes", 15_000), ("latency", 400_000),
                          ("hold", 100_000_000), ("most_units", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    if min(options.capacity, options.timeout, options.most_units) < 1:
        parser.error("--capacity, --timeout and --most_units are at least 1")
    try:
        with open(options.capture, "rb") as file:
            packets = packets_of(file.read(), options.capture)
    except OSError as error:
        print(f"bounds.py: {options.capture}: {error.strerror}",
              file=sys.stderr)
        return 74
    except BadCapture as error:
        print(f"bounds.py: {error}", file=sys.stderr)
        return 65
    json.dump(bounds_of(packets, options), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())

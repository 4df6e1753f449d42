#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts packets, flows and flowlets of a capture, independently of SNF.

Reads an uncompressed pcap or pcapng from standard input:

    zstd -dc traces/small.pcap.zst | traces/record/count_flowlets.py

Written from the definition and not from SNF's code, so that the two can be
held against each other:

  * A flow is the packets with one key. `5tuple` is source and destination
    address, protocol, source and destination port: one direction.
    `connection` puts both directions together. The ports are 0 for ICMP and
    for fragments other than the first.
  * Packets are taken in the order of their timestamps, those that are equal
    in the order of the file, in integer nanoseconds.
  * A flow's packet begins a new flowlet when it is the flow's first, when it
    comes more than T after the flow's previous packet, or when it would bring
    the flowlet's bytes (original lengths, link header included) above B.
  * Packets that are not IP count as packets and belong to no flow.
"""
import argparse
import struct
import sys

ETHERNET, NULL, LOOP, SLL, SLL2 = 1, 0, 108, 113, 276
RAW = (12, 14, 101, 228, 229)
VLAN_TAGS = (0x8100, 0x88A8, 0x9100)
PPPOE_SESSION = 0x8864
PPP_TO_ETHERTYPE = {b"\x00\x21": 0x0800, b"\x00\x57": 0x86DD}
WITH_PORTS = (6, 17)  # TCP, UDP


def pcap_records(data, order, ns_per_tick):
    """Yields (ns, link type, original length, bytes)."""
    link = struct.unpack_from(order + "I", data, 20)[0] & 0x0FFFFFFF
    at = 24
    while at + 16 <= len(data):
        sec, tick, kept, size = struct.unpack_from(order + "IIII", data, at)
        at += 16
        ns = sec * 10**9 + tick * ns_per_tick
        yield ns, link, size, data[at : at + kept]
        at += kept


def interface_of(block, order):
    """(link type, divisor of a tick in a second, offset in seconds)."""
    link = struct.unpack_from(order + "H", block, 0)[0]
    per_second, offset, at = 10**6, 0, 8
    while at + 4 <= len(block):
        code, size = struct.unpack_from(order + "HH", block, at)
        value = block[at + 4 : at + 4 + size]
        if code == 0:
            break
        if code == 9:
            base = 2 if value[0] & 0x80 else 10
            per_second = base ** (value[0] & 0x7F)
        elif code == 14:
            offset = struct.unpack(order + "q", value)[0]
        at += 4 + (size + 3) // 4 * 4
    return link, per_second, offset


def pcapng_records(data):
    """Yields (ns, link type, original length, bytes)."""
    at, order, interfaces = 0, "<", []
    while at + 12 <= len(data):
        if data[at : at + 4] == b"\n\r\r\n":
            little = data[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a"
            order = "<" if little else ">"
            interfaces = []
        kind, size = struct.unpack_from(order + "II", data, at)
        if size < 12:
            sys.exit(f"block of {size} bytes at offset {at}")
        block = data[at + 8 : at + size - 4]
        at += size
        if kind == 1:
            interfaces.append(interface_of(block, order))
        elif kind in (2, 6):  # the obsolete and the enhanced packet block
            number, high, low, kept, size = struct.unpack_from(
                order + ("HxxIIII" if kind == 2 else "IIIII"), block, 0
            )
            link, per_second, offset = interfaces[number]
            ticks = high << 32 | low
            ns = ticks * 10**9 // per_second + offset * 10**9
            yield ns, link, size, block[20 : 20 + kept]
        elif kind == 3:
            sys.exit("a simple packet block has no time")


def records(data):
    magics = {
        b"\xd4\xc3\xb2\xa1": ("<", 1000),
        b"\xa1\xb2\xc3\xd4": (">", 1000),
        b"\x4d\x3c\xb2\xa1": ("<", 1),
        b"\xa1\xb2\x3c\x4d": (">", 1),
    }
    if data[:4] in magics:
        return pcap_records(data, *magics[data[:4]])
    if data[:4] == b"\n\r\r\n":
        return pcapng_records(data)
    return sys.exit("standard input is neither pcap nor pcapng")


def ip_of(link, frame):
    """The bytes from the IP header on, or None when there is none."""
    if link in RAW:
        return frame
    if link in (NULL, LOOP):
        return frame[4:]
    type_at, header = {ETHERNET: (12, 14), SLL: (14, 16), SLL2: (0, 20)}[link]
    if len(frame) < header:
        return None
    kind = int.from_bytes(frame[type_at : type_at + 2], "big")
    while kind in VLAN_TAGS and len(frame) >= header + 4:
        kind = int.from_bytes(frame[header + 2 : header + 4], "big")
        header += 4
    if kind == PPPOE_SESSION:
        kind = PPP_TO_ETHERTYPE.get(frame[header + 6 : header + 8])
        header += 8
    return frame[header:] if kind in (0x0800, 0x86DD) else None


def ports_of(protocol, payload):
    if protocol in WITH_PORTS and len(payload) >= 4:
        return struct.unpack_from(">HH", payload, 0)
    return 0, 0


def tuple_of(ip):
    """(source, destination, protocol, source port, destination port)."""
    if len(ip) >= 20 and ip[0] >> 4 == 4:
        source, destination, protocol = ip[12:16], ip[16:20], ip[9]
        first = struct.unpack_from(">H", ip, 6)[0] & 0x1FFF == 0
        payload = ip[(ip[0] & 15) * 4 :] if first else b""
        return source, destination, protocol, *ports_of(protocol, payload)
    if len(ip) < 40 or ip[0] >> 4 != 6:
        return None
    source, destination, protocol = ip[8:24], ip[24:40], ip[6]
    payload = ip[40:]
    # Extension headers: hop-by-hop, routing, fragment, AH, destination.
    while protocol in (0, 43, 44, 51, 60) and len(payload) >= 8:
        length = payload[1] * 8 + 8
        if protocol == 44:
            length = 8
            if struct.unpack_from(">H", payload, 2)[0] >> 3 != 0:
                return source, destination, payload[0], 0, 0
        elif protocol == 51:
            length = payload[1] * 4 + 8
        protocol, payload = payload[0], payload[length:]
    return source, destination, protocol, *ports_of(protocol, payload)


def both_directions(key):
    source, destination, protocol, from_port, to_port = key
    ends = sorted([(source, from_port), (destination, to_port)])
    return protocol, *ends


def count(data, key_name, gap_ns, limit):
    packets = sorted(records(data), key=lambda packet: packet[0])
    open_flowlets = {}  # key: (time of its last packet, its bytes)
    flowlets = 0
    for ns, link, size, frame in packets:
        ip = ip_of(link, frame)
        key = tuple_of(ip) if ip is not None else None
        if key is None:
            continue
        if key_name == "connection":
            key = both_directions(key)
        last, total = open_flowlets.get(key, (None, 0))
        if last is None or ns - last > gap_ns or total + size > limit:
            flowlets += 1
            total = 0
        open_flowlets[key] = (ns, total + size)
    return len(packets), len(open_flowlets), flowlets


def main():
    options = argparse.ArgumentParser(
        description="Counts packets, flows and flowlets of a pcap or pcapng "
        "on standard input."
    )
    options.add_argument("--key", choices=("5tuple", "connection"),
                         default="5tuple")
    options.add_argument("-T", "--gap-ns", type=int, default=500_000,
                         help="T in nanoseconds (default: 500000)")
    options.add_argument("-B", "--limit-bytes", type=int, default=15_000,
                         help="B in bytes (default: 15000)")
    given = options.parse_args()
    numbers = count(sys.stdin.buffer.read(), given.key, given.gap_ns,
                    given.limit_bytes)
    for name, number in zip(("packets", "flows", "flowlets"), numbers):
        print(f"{name}\t{number}")


if __name__ == "__main__":
    main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a capture of many equal UDP flows, whose rate may rise at one moment.

Usage: steady_flows.py FILE [--flows=N] [--gap=US] [--then=US] [--at=MS]
                       [--duration=MS] [--bytes=N] [--seed=N]

Each flow sends a packet of N bytes (64 of them are captured) every --gap
microseconds, give or take a fifth; from --at milliseconds on every --then
microseconds. The flows begin at random within one gap. Prints a JSON object
with the number of packets.
"""

import argparse
import json
import random
import struct
import sys

CAPTURED = 64
BEGIN_NS = 1_000_000_000
NANOSECONDS = 0xA1B23C4D  # the magic of captures with such times


def frame(flow: int, length: int) -> bytes:
    udp = struct.pack(">HHHH", 1024 + flow, 53, length - 34, 0)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, length - 14, 1, 0, 64, 17, 0,
                     bytes((10, 0, flow >> 8 & 255, flow & 255)),
                     bytes((192, 0, 2, 9)))
    made = bytes(12) + b"\x08\x00" + ip + udp
    return made + bytes(CAPTURED - len(made))


def times_of(options, rng) -> list[tuple[int, int]]:
    """(time in ns, flow), in order of time."""
    end, step = options.duration * 1e6, options.at * 1e6
    found = []
    for flow in range(options.flows):
        now = rng.uniform(0, options.gap * 1e3)
        while now < end:
            found.append((BEGIN_NS + int(now), flow))
            gap = options.gap if now < step else options.then
            now += gap * 1e3 * rng.uniform(0.8, 1.2)
    return sorted(found)


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("file")
    for name, value in (("flows", 1000), ("gap", 1000), ("then", 700),
                        ("at", 100), ("duration", 130), ("bytes", 200),
                        ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    if options.bytes < CAPTURED or options.flows > 60_000 or \
            min(options.flows, options.gap, options.then) < 1:
        sys.exit(f"want 1 to 60000 flows, gaps of 1 us or more, and packets of "
                 f"{CAPTURED} bytes or more")
    frames = [frame(flow, options.bytes) for flow in range(options.flows)]
    times = times_of(options, random.Random(options.seed))
    with open(options.file, "wb") as file:
        file.write(struct.pack("<IHHiIII", NANOSECONDS, 2, 4, 0, 0, 65535, 1))
        for time, flow in times:
            file.write(struct.pack("<IIII", time // 10**9, time % 10**9,
                                   CAPTURED, options.bytes) + frames[flow])
    print(json.dumps({"packets": len(times)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

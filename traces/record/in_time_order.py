#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies a little-endian pcap from input to output, sorted by time.

The kernel stamps a packet that comes in before it waits in a queue, and one
that goes out when it goes, so a capture of both is slightly out of order.
"""
import struct
import sys


def main():
    data = sys.stdin.buffer.read()
    records, at = [], 24
    while at < len(data):
        sec, tick, kept = struct.unpack_from("<III", data, at)
        end = at + 16 + kept
        records.append((sec, tick, data[at:end]))
        at = end
    records.sort(key=lambda record: record[:2])
    sys.stdout.buffer.write(data[:24])
    for _, _, record in records:
        sys.stdout.buffer.write(record)


if __name__ == "__main__":
    main()

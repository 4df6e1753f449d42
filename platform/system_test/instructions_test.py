#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No packet takes more instructions than it did: three runs, by callgrind.

Instructions do not depend on what else the machine does. Limits stand in
platform/commands/bench/instructions.json; --update writes what is measured.

Usage: instructions_test.py PROGRAM SOURCE_DIR [--update]
"""

import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
LIMITS = SOURCE / "platform/commands/bench/instructions.json"
# Functions of the C library differ from processor to processor.
TOLERANCE = 0.05
RULES = ";".join(f"tcp from 172.16.{i}.0/24 to any port {1000 + i}"
                 for i in range(19))
CHAIN = (f"firewall(default=deny,deny={RULES},allow=any) | monitor | "
         "nat(ip=203.0.113.1)")
RUNS = {"passthrough": ["--nf=passthrough"],
        "chain": [f"--nf={CHAIN}"],
        "chain with loggers": [f"--nf={CHAIN}", "--loggers=on"]}
SKIPPED = 4


def instructions(folder, capture, arguments):
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
         PROGRAM, "replay", "--no_check", "--quiet", *arguments, capture],
        cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        sys.exit(f"callgrind of {arguments} failed:\n{done.stderr[-2000:]}")
    return int(found[1])


def packets_of(capture):
    """How many a little-endian capture has, and where the second begins."""
    count, at, second = 0, 24, 0
    while at < len(capture):
        at += 16 + struct.unpack_from("<I", capture, at + 8)[0]
        count += 1
        second = second or at
    return count, second


def main():
    if shutil.which("valgrind") is None:
        print("skipped: there is no valgrind")
        return SKIPPED
    limits = json.loads(LIMITS.read_text())
    measured, failed = {}, False
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        capture = subprocess.run(
            ["zstd", "-dc", SOURCE / "traces/small.pcap.zst"],
            stdout=subprocess.PIPE, check=True).stdout
        count, second = packets_of(capture)
        (folder / "all.pcap").write_bytes(capture)
        # What starting takes is the same for one packet.
        (folder / "one.pcap").write_bytes(capture[:second])
        for name, arguments in RUNS.items():
            took = (instructions(folder, "all.pcap", arguments)
                    - instructions(folder, "one.pcap", arguments))
            measured[name] = round(took / (count - 1))
            ratio = measured[name] / limits.get(name, measured[name])
            print(f"{name}: {measured[name]} instructions a packet, "
                  f"{ratio - 1:+.1%} of {limits.get(name)}")
            failed |= ratio > 1 + TOLERANCE
            if ratio < 1 - TOLERANCE:
                print(f"  fewer than {LIMITS.name} says: lower it by --update")
    if "--update" in sys.argv[3:]:
        LIMITS.write_text(json.dumps(measured, indent=2) + "\n")
    elif failed:
        print(f"more than {TOLERANCE:.0%} above {LIMITS}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures FastClick beside snf: the same chain on the same packets, in turns.

Usage: fastclick.py SNF CAPTURE [--click=PROGRAM | --build=DIR [--fetch]]
                    [--rounds=N] [--loops=N] [--rows=WORD[,WORD…]]

CAPTURE is an Ethernet capture without compression, such as that of
zstd -d traces/small.pcap.zst. The chain is a firewall of 19 rules that let
everything through, counters of each flow and each host, and a NAT. Rows:

  few        60 bytes, 1,000 flows; flowlets end because they are full
  many       the same with 10,000 flows
  flowlets   10,000 flows with the default timeout: most packets begin a flowlet
  capture    CAPTURE in a loop
  loggers    the same; snf has output loggers, on the same thread

Both read a file into memory and go through it --loops times. A packet's time is
CPU time of the whole process, of a long run less a short one, so that starting
and reading the file do not count. FastClick's IPRewriter takes each direction
for a flow of its own; snf turns what comes back into what the NAT's far side
would send, which is part of its time.

FastClick is not part of this project. It is built by these commands, in DIR or,
with --build=DIR, by this script; with --fetch it gets the source as well:

{commands}

Prints JSON: "rows" have the medians in ns and their ratio, which is greater
than 1 if snf is faster, with the least and the greatest of the rounds. Without
a FastClick it prints "skipped" with the reason, and ends with 4.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # nothing beside the sources
from other_program import (CannotMeasure, OtherProgram, add_rounds, parsed,
                           ratios, run_beside)

FASTCLICK = OtherProgram(
    what="FastClick", name="click", flag="click",
    source="https://github.com/tbarbette/fastclick",
    is_fetched="configure", built="userlevel/click")
BUILD = [
    ["./configure", "--enable-userlevel", "--disable-linuxmodule",
     "--disable-dpdk", "--enable-batch", "--enable-flow", "--enable-research",
     "--enable-intel-cpu", "--disable-app", "--disable-aqm", "--disable-test",
     "--disable-icmp", "--disable-dynamic-linking", "--disable-verbose-batch",
     "CFLAGS=-O3 -march=native", "CXXFLAGS=-O3 -march=native -std=gnu++14"],
    ["nice", "make", "-j2", "-C", "userlevel", "click"],
]
PATIENCE_S = 600
RULES = [(f"172.16.{i}.0/24", 1000 + i) for i in range(19)]
OUTSIDE = "203.0.113.1"
FRAME_BYTES = 60
MADE_PACKETS = 50_000
# So long that no flowlet ends for a gap.
RUNNING = "--flowlet_timeout=10s"
# Of each row the flows, 0 for the capture, and what snf is told besides.
ROWS = {"few": (1_000, [RUNNING]), "many": (10_000, [RUNNING]),
        "flowlets": (10_000, []), "capture": (0, []),
        "loggers": (0, ["--loggers=on"])}
CLICK = """
FromDump({capture}, STOP false)
-> replay :: ReplayUnqueue(STOP {loops}, BURST 32)
-> taken :: Counter
-> ip :: Classifier(12/0800, -)
-> Strip(14)
-> CheckIPHeader(CHECKSUM false)
-> IPFilter({rules})
-> FlowIPManagerHMP(CAPACITY 65536, RESERVE 64)
-> FlowCounter
-> AggregateIP(ip src) -> AggregateCounter
-> AggregateIP(ip dst) -> AggregateCounter
-> nat :: IPRewriter(pattern {outside} 1024-65535 - - 0 1)
-> Unstrip(14)
-> sent :: Counter -> Discard;
ip[1] -> Discard;
nat[1] -> Discard;
DriverManager(wait_stop, print taken.count, print sent.count, stop);
"""


def shell(words: list[str]) -> str:
    return " ".join(f"'{word}'" if " " in word else word for word in words)


def click_configuration(capture: pathlib.Path, loops: int) -> str:
    rules = [f"deny tcp && src net {network} && dst port {port}"
             for network, port in RULES]
    return CLICK.format(capture=capture, loops=loops, outside=OUTSIDE,
                        rules=", ".join([*rules, "allow all"]))


def snf_chain() -> str:
    rules = ";".join(f"tcp from {network} to any port {port}"
                     for network, port in RULES)
    return (f"firewall(default=deny,deny={rules},allow=any) | monitor | "
            f"nat(ip={OUTSIDE})")


def checksum_of(header: bytes) -> int:
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total > 0xffff:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def made_frame(flow: int) -> bytes:
    """UDP from the inside, each flow with a host and a port of its own."""
    payload = FRAME_BYTES - 14 - 20 - 8
    source = (10 << 24) + 1 + flow
    target = (198 << 24) + (51 << 16) + (100 << 8) + 1 + flow % 250
    udp = struct.pack(">4H", 1_024 + flow, 53, 8 + payload, 0) + bytes(payload)
    header = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0,
                         source, target)
    header = (header[:10] + struct.pack(">H", checksum_of(header))
              + header[12:])
    return bytes(range(12)) + struct.pack(">H", 0x0800) + header + udp


def make_capture(path: pathlib.Path, flows: int):
    """Each flow as often as the others, in an order without a pattern."""
    order = [i % flows for i in range(MADE_PACKETS)]
    random.Random(1).shuffle(order)
    frames = [made_frame(flow) for flow in range(flows)]
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for i, flow in enumerate(order):
            frame = frames[flow]
            file.write(struct.pack("<IIII", 1, i, len(frame), len(frame)))
            file.write(frame)


def run(command: list) -> tuple[str, float]:
    """Returns what it printed and the CPU time that it took, in s."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        words = [str(word) for word in command]
        started = subprocess.Popen(words, stdout=out, stderr=errors)
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        if started.returncode != 0:
            why = errors.read().decode(errors="replace").strip()
            raise CannotMeasure(f"{words[0]} ended with {started.returncode}: "
                                f"{why[-1000:]}")
        return (out.read().decode(errors="replace"),
                used.ru_utime + used.ru_stime)


class Click:
    def __init__(self, program: pathlib.Path, folder: pathlib.Path):
        self.program, self.folder = program, folder

    def run(self, capture: pathlib.Path, loops: int, _flags: list[str]):
        """Returns packets in, packets out, and CPU time."""
        configuration = self.folder / "chain.click"
        configuration.write_text(click_configuration(capture, loops))
        printed, cpu_s = run([self.program, configuration])
        counts = [int(word) for word in printed.split() if word.isdigit()]
        if len(counts) < 2:
            raise CannotMeasure(f"{self.program} printed no counts: {printed}")
        return counts[-2], counts[-1], cpu_s


class Snf:
    def __init__(self, program: pathlib.Path):
        self.program = program

    def run(self, capture: pathlib.Path, loops: int, flags: list[str]):
        printed, cpu_s = run(
            [self.program, "replay", capture, f"--nf={snf_chain()}",
             "--clock=real", "--threads=1", "--speed=max",
             "--unit_capacity=none", f"--loop={loops}", "--no_check",
             "--quiet", "--json=-", *flags])
        report = json.loads(printed)
        return report["packets_in"], report["packets_released"], cpu_s


def packet_ns(way, capture: pathlib.Path, loops: int, flags: list[str]):
    """CPU time of a packet, and the share of the packets that came out."""
    few_in, _, few_s = way.run(capture, 1, flags)
    all_in, all_out, all_s = way.run(capture, 1 + loops, flags)
    if all_in != few_in * (1 + loops) or all_in == few_in:
        raise CannotMeasure(f"{way.program} took {all_in} packets, not "
                            f"{1 + loops} times {few_in}")
    return 1e9 * (all_s - few_s) / (all_in - few_in), all_out / all_in


def measure(click, snf, capture: pathlib.Path, flags: list[str], rounds: int,
            loops: int) -> dict:
    theirs, ours = [], []
    for _ in range(rounds):
        their_ns, their_share = packet_ns(click, capture, loops, flags)
        our_ns, our_share = packet_ns(snf, capture, loops, flags)
        theirs.append(their_ns)
        ours.append(our_ns)
    return {"fastclick_ns": round(statistics.median(theirs), 1),
            "snf_ns": round(statistics.median(ours), 1),
            **ratios([their / our
                      for their, our in zip(theirs, ours, strict=True)]),
            "fastclick_released": round(their_share, 4),
            "snf_released": round(our_share, 4)}


def measured_rows(program: pathlib.Path, options) -> dict:
    rows = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        click, snf = Click(program, folder), Snf(options.snf)
        for row in options.rows:
            flows, flags = ROWS[row]
            capture = options.capture.resolve()
            if flows > 0:
                capture = folder / f"{flows}.pcap"
                make_capture(capture, flows)
            try:
                rows[row] = measure(click, snf, capture, flags,
                                    options.rounds, options.loops)
            except CannotMeasure as why:
                raise CannotMeasure(f"{row}: {why}") from why
    return rows


def parse(words: list[str]):
    commands = "\n".join("  " + shell(command)
                         for command in [FASTCLICK.fetch, *BUILD])
    parser = argparse.ArgumentParser(
        usage=__doc__.format(commands=commands).split("Usage: ")[1],
        allow_abbrev=False)
    parser.add_argument("snf", type=pathlib.Path)
    parser.add_argument("capture", type=pathlib.Path)
    FASTCLICK.add_flags(parser)
    add_rounds(parser, 7, ROWS)
    parser.add_argument("--loops", type=int, default=20)
    return parsed(parser, words, ROWS, ("rounds", "loops"))


def main(words: list[str]) -> int:
    options = parse(words)
    return run_beside("fastclick.py", lambda: FASTCLICK.find(options, BUILD),
                      lambda program: measured_rows(program, options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the loss of a host in virtual time, and what more hosts cost.

Usage: host_loss.py SNF CAPTURE --hosts=N --units=N [--kill=HOST] [--at=MS]
                    [--repetitions=N] WORD…

Replays the capture on N hosts of N units each, with the flags WORD… of snf
replay: --repetitions times as it is, and once while a host is killed after --at
milliseconds. Prints a JSON object:

  cpu_ns       the least CPU time of a packet, and "decision_cpu_ns" of one of
               the policy's choices: of the run as a whole, less a run of one
               packet
  memory_bytes the most memory of a run
  waited       the share of the time in which somebody waited for a CPU
  packets, decisions, units, flows
               of the run without a failure; "units" were up at one time
  killed       figures of the run with the failure (snf replay --json), and
    affected   flows whose last packet before the failure ran on the host
    silent     of these, flows without a packet from then on
    served_s   of the other ones, the time until the flow was served again:
               from the failure, or the arrival of the flow's next packet if
               that came later, until a packet left ("p50", "p99", "max"; a
               second list, "p50_before" …, has the latency of the same flows'
               last packets before)
"""

import argparse
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator

sys.dont_write_bytecode = True  # nothing beside the sources
from pressure import Stalls

ENHANCED_PACKET, COMMENT, RESOLUTION = 6, 1, 9
INTERFACE, SECTION = 1, 0x0A0D0D0A
TOLD = re.compile(rb"unit=(\d+) flowlet=\d+ clock=\d+ latency_ns=(\d+)")
FIGURES = ("packets_in", "packets_released", "packets_dropped",
           "held_packets_max", "flowlets_moved", "violations", "conserved")


# --- Packets as they left.

def options_of(body: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(body):
        code, length = struct.unpack_from("<HH", body, at)
        if code == 0:
            return
        yield code, body[at + 4:at + 4 + length]
        at += 4 + (length + 3) // 4 * 4


def packets_of(file) -> Iterator[tuple[int, bytes, int, int]]:
    """(time in ns, frame, unit, latency in ns) of a pcapng that snf has
    annotated, in its order."""
    tick_ns = 1_000
    while head := file.read(8):
        kind, length = struct.unpack("<II", head)
        body = file.read(length - 8)[:-4]
        if kind == INTERFACE:
            for code, value in options_of(body[8:]):
                if code == RESOLUTION and value[0] < 128:
                    tick_ns = 10 ** (9 - value[0])
        if kind != ENHANCED_PACKET:
            continue
        _, high, low, captured, _ = struct.unpack_from("<5I", body)
        for code, value in options_of(body[20 + (captured + 3) // 4 * 4:]):
            found = TOLD.fullmatch(value) if code == COMMENT else None
            if found:
                yield (((high << 32) + low) * tick_ns, body[20:20 + captured],
                       int(found[1]), int(found[2]))


def flow_of(frame: bytes) -> bytes:
    """Both ends of a packet of IPv4 with ports."""
    return frame[26:38]


def quantiles(values: list[int], suffix: str = "") -> dict[str, float | None]:
    """In s, of values in ns; None if there are none."""
    ordered = sorted(values)

    def of(share):
        if not ordered:
            return None
        return ordered[max(0, -int(-share * len(ordered) // 1) - 1)] / 1e9
    return {f"p50{suffix}": of(0.5), f"p99{suffix}": of(0.99),
            f"max{suffix}": of(1)}


def served_again(packets, begin_ns: int, at_ns: int, first: int,
                 end: int) -> dict:
    """Of flows that a host served, whose units are `first` to below `end`, and
    that failed at_ns after begin_ns. The packets are those that left."""
    at = begin_ns + at_ns
    last = {}  # of each flow before the failure: (left, unit, latency)
    again = {}  # of each flow, when its first packet after the failure left
    for time, frame, unit, latency in packets:
        flow = flow_of(frame)
        if time < at:
            if flow not in last or last[flow][0] <= time:
                last[flow] = (time, unit, latency)
            continue
        waited = time - max(at, time - latency)
        if flow not in again or time < again[flow][0]:
            again[flow] = (time, waited)
    affected = [flow for flow, (_, unit, _) in last.items()
                if first <= unit < end]
    served = [again[flow][1] for flow in affected if flow in again]
    return {"affected": len(affected),
            "silent": len(affected) - len(served),
            "served_s": {**quantiles(served),
                         **quantiles([last[flow][2] for flow in affected],
                                     "_before")}}


# --- Runs.

def run(command: list[str]) -> tuple[dict, float, int]:
    """Figures, CPU time in s and the most memory in bytes."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=errors)
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            sys.exit(errors.read().decode(errors="replace").strip() or
                     f"exit code {process.returncode}")
    return (json.loads(out), usage.ru_utime + usage.ru_stime,
            1024 * usage.ru_maxrss)


def first_time_ns(path: pathlib.Path) -> int:
    """Of a pcap of either resolution."""
    with path.open("rb") as file:
        magic, = struct.unpack("<I", file.read(4))
        file.seek(24)
        seconds, part = struct.unpack("<II", file.read(8))
    return seconds * 10**9 + part * (1 if magic == 0xA1B23C4D else 1_000)


def one_packet(capture: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """A capture of its first packet."""
    with capture.open("rb") as file:
        head = file.read(40)
        head += file.read(struct.unpack_from("<I", head, 32)[0])
    made = folder / "one.pcap"
    made.write_bytes(head)
    return made


def measured(options, words: list[str]) -> dict:
    units = options.hosts * options.units
    flags = ["--quiet", "--json=-", f"--units_per_host={options.units}",
             f"--max_units={units}", f"--warm_units={units}", *words]
    stalls = Stalls()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        _, cpu_once, _ = run([options.snf, "replay",
                              str(one_packet(options.capture, folder)),
                              *flags])
        ran = [run([options.snf, "replay", str(options.capture), *flags])
               for _ in range(options.repetitions)]
        figures = ran[0][0]
        cpu_s = min(each[1] for each in ran) - cpu_once
        found = {"cpu_ns": 1e9 * cpu_s / figures["packets_in"],
                 "decision_cpu_ns":
                     1e9 * cpu_s / max(1, figures["decisions"]),
                 "memory_bytes": max(each[2] for each in ran),
                 "packets": figures["packets_in"],
                 "decisions": figures["decisions"],
                 "units": figures["units_used_max"],
                 "flows": figures["flows"],
                 "latency_ns": figures["latency_ns"],
                 "waited": stalls.share()}
        out = folder / "out.pcapng"
        killed, _, _ = run([
            options.snf, "replay", str(options.capture), *flags,
            "--loggers=on", f"--out={out}", "--annotate",
            f"--faults=kill host {options.kill} at {options.at}ms"])
        with out.open("rb") as file:
            again = served_again(
                packets_of(file), first_time_ns(options.capture),
                options.at * 10**6, options.kill * options.units,
                (options.kill + 1) * options.units)
    return {**found, "killed": {
        **{key: killed[key] for key in FIGURES},
        **{key.replace(".", "_"): value
           for key, value in killed["faults"].items()}, **again}}


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("snf")
    parser.add_argument("capture", type=pathlib.Path)
    for name, value in (("hosts", 10), ("units", 100), ("kill", 1), ("at", 20),
                        ("repetitions", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options, words = parser.parse_known_args()
    if not 0 <= options.kill < options.hosts or options.repetitions < 1:
        parser.error("--kill: a host, from 0; --repetitions: at least 1")
    print(json.dumps(measured(options, words)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Finds how fast a run in real time can go, and then its latency below that.

Usage: at_load.py SNF [--share=S,…] [--speeds=SPEED,…] [--loop=N]
                  [--speeds_loop=N] [--repetitions=N] WORD…

WORD… is a command of snf that takes --speed and --loop and prints JSON: snf
replay --clock=real, or snf nf run. It is run at --speed=max, and at each of the
shares S of the greatest rate, in packets a second, that this reached, and at
each SPEED, with --speeds_loop there; each N times. Prints a JSON object:

  waited        the share of the time in which somebody waited for a CPU: there
                were fewer CPUs than work, the run's own included
  max_pps       the rate of each run at --speed=max
  cpu_ns        CPU time that each took for a packet; what a run of one loop
                takes is left out, if there are more
  memory_bytes  the most memory of each
  loads         for each share and speed: "speed", "share", and of each run the
                packets a second ("pps"), the quantiles of latency in s, and the
                share of packets that were dropped for want of time
"""

import argparse
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
from pressure import Stalls

QUANTILES = ("p50", "p90", "p99", "p999")
# Drops that tell of too much load.
OVERLOAD = ("unit_queue_full", "start_buffer_full", "hold_overflow",
            "buffer_pool_empty")


def run(command: list[str]) -> tuple[dict, float, int]:
    """Figures, CPU time in s and the most memory in bytes."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out = process.stdout.read()
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(errors.decode(errors="replace").strip() or
                 f"exit code {process.returncode}")
    return (json.loads(out), usage.ru_utime + usage.ru_stime,
            1024 * usage.ru_maxrss)


def rate_of(figures: dict) -> float:
    """Packets a second."""
    if "packets_per_s" in figures:
        return figures["packets_per_s"]
    return figures["packets_in"] / figures["real"]["wall_s"]


def dropped_share(figures: dict) -> float:
    return sum(figures["packets_dropped"].get(reason, 0)
               for reason in OVERLOAD) / figures["packets_in"]


def cpu_of_packet(command: list[str], loops: int, figures: dict,
                  cpu_s: float) -> float | None:
    """In ns, without what comes before and behind the run.

    None if the loops took no more CPU time than a run of one loop."""
    if loops == 1:
        return 1e9 * cpu_s / figures["packets_in"]
    once, cpu_once_s, _ = run([*command, "--speed=max", "--loop=1"])
    if cpu_s <= cpu_once_s:
        return None
    return 1e9 * (cpu_s - cpu_once_s) / (
        figures["packets_in"] - once["packets_in"])


def measured(command: list[str], options) -> dict:
    stalls = Stalls()
    looped = [*command, f"--loop={options.loop}"]
    ran = [run([*looped, "--speed=max"]) for _ in range(options.repetitions)]
    most = max(rate_of(figures) for figures, _, _ in ran)
    loads = [(f"{max(1, round(float(share) * most))}pps", float(share),
              options.loop) for share in words_of(options.share)]
    loads += [(speed, None, options.speeds_loop or options.loop)
              for speed in words_of(options.speeds)]
    found = {"max_pps": [rate_of(figures) for figures, _, _ in ran],
             "cpu_ns": [cpu_of_packet(command, options.loop, figures, cpu_s)
                        for figures, cpu_s, _ in ran],
             "memory_bytes": [memory for _, _, memory in ran], "loads": []}
    for speed, share, loops in loads:
        at_load = [run([*command, f"--loop={loops}", f"--speed={speed}"])[0]
                   for _ in range(options.repetitions)]
        found["loads"].append({
            "speed": speed, "share": share,
            "pps": [rate_of(figures) for figures in at_load],
            "dropped": [dropped_share(figures) for figures in at_load],
            **{name: [figures["latency_ns"][name] / 1e9
                      for figures in at_load] for name in QUANTILES}})
    return {"waited": stalls.share(), **found}


def words_of(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("snf")
    parser.add_argument("--share", default="0.8")
    parser.add_argument("--speeds", default="")
    parser.add_argument("--loop", type=int, default=1)
    parser.add_argument("--speeds_loop", type=int)
    parser.add_argument("--repetitions", type=int, default=3)
    options, words = parser.parse_known_args()
    print(json.dumps(measured([options.snf, *words], options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what it costs to move flows between units of another host.

Usage: host_states.py SNF [--units=N] [--repetitions=N]

Makes two network namespaces with a link between them, so it wants root. One unit
is at home, and N are away (--host). Each flowlet goes to the next unit
(--policy=rotate), so all moves but two of N + 1 are within the host away. 40 flows
have a packet each 20 ms, for 2 s. Prints a row of medians for each way that state
takes, which take turns:

  pulled   through the daemon's host, when it is needed (--replicas=0)
  pushed   through the daemon's host, ahead (the default)
  in place as their units show them on their host (--host_state --replicas=0)
  both     the same, and pushed to units of the other host (--host_state)

The wait is that of a flowlet that moved, for its state; 0 where the state was
there. The bytes are those of states that went through the daemon's host. The NF is
a chain with a NAT.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from wire import (AWAY, AWAY_ADDRESS, HOME_ADDRESS, PORT, inside, make_link,
                  remove_link, replay)

NF = "firewall | monitor | nat(ip=203.0.113.1)"
FLOWS, GAP_US = 40, 20_000
STEADY = pathlib.Path(__file__).with_name("steady_flows.py")
WAYS = {"pulled": ("--replicas=0",), "pushed": (),
        "in place": ("--host_state", "--replicas=0"),
        "both": ("--host_state",)}


def run(options, *flags):
    with tempfile.TemporaryDirectory() as folder:
        capture = pathlib.Path(folder) / "flows.pcap"
        subprocess.run([sys.executable, STEADY, capture, f"--flows={FLOWS}",
                        f"--gap={GAP_US}", f"--then={GAP_US}",
                        "--duration=2000"],
                       check=True, capture_output=True, timeout=60)
        return replay(
            options.snf, capture, f"--threads={options.units + 3}",
            f"--max_units={options.units + 1}", f"--nf={NF}", "--speed=1x",
            "--unit_capacity=none",
            f"--host=away={AWAY_ADDRESS}:{PORT},units={options.units}", *flags)


def row(report):
    moved = report["flowlets_moved"]
    wait = report["wait_ns"]
    records = report.get("host_records", {"read": 0})
    return {"moved": moved,
            "seamless_percent": 100 * report["flowlets_seamless"] / max(moved, 1),
            "wait_p50_us": wait["p50"] / 1e3,
            "wait_p99_us": wait["p99"] / 1e3,
            "latency_p50_us": report["latency_ns"]["p50"] / 1e3,
            "latency_p99_us": report["latency_ns"]["p99"] / 1e3,
            "read_percent": 100 * records["read"] / max(moved, 1),
            "state_kbytes": report["state_bytes"] / 1e3}


def measure(options):
    rows = {way: [] for way in WAYS}
    for turn in range(options.repetitions):
        for way in list(WAYS)[turn % 4:] + list(WAYS)[:turn % 4]:
            rows[way].append(row(run(options, *WAYS[way])))
    for way, found in rows.items():
        print(json.dumps({"state": way} | {
            key: round(statistics.median(each[key] for each in found), 1)
            for key in found[0]}), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("snf")
    parser.add_argument("--units", type=int, default=5)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    try:
        make_link(0)
        agent = inside(AWAY, options.snf, "host", "serve",
                       f"--listen={AWAY_ADDRESS}:{PORT}",
                       f"--from={HOME_ADDRESS}")
        try:
            agent.stdout.readline()
            measure(options)
        finally:
            agent.kill()
            agent.communicate()
    finally:
        remove_link()
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the wires to units on another host: TCP, and GENEVE over UDP.

Usage: wire.py SNF CAPTURE [--loss=PERCENT[,PERCENT…]] [--repetitions=N]
               [--policy=hash]

Makes two network namespaces with a link between them, so it wants root. For each
loss, of all packets at both ends of the link (nft), prints rows of medians:

  udp      a bare UDP echo, one datagram of 100 bytes at a time
  tcp      a replay with one unit here and two there (--host)
  geneve   the same with wire=geneve

The latency is that of the capture at a fifth of its speed (--speed=0.2x), and the
throughput that of --speed=max with units of any speed, in packets a second.
Flows stay where they are; with --policy=rotate each packet takes its flow to
another unit, mostly on another host, so that states are pulled all the time.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HOME, AWAY = (f"snf-wire-{name}-{os.getpid()}" for name in ("home", "away"))
HOME_ADDRESS, AWAY_ADDRESS, PORT = "10.99.8.1", "10.99.8.2", 7000
ECHO_PORT, ECHOES, ECHO_BYTES = 7001, 5_000, 100
ECHO = f"""
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("{AWAY_ADDRESS}", {ECHO_PORT}))
print("ready", flush=True)
while True:
    data, peer = s.recvfrom(2048)
    s.sendto(data, peer)
"""
ASK = f"""
import json, socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("{AWAY_ADDRESS}", {ECHO_PORT}))
s.settimeout(0.2)
took = []
for i in range({ECHOES}):
    began = time.perf_counter_ns()
    s.send(bytes({ECHO_BYTES}))
    try:
        s.recv(2048)
        took.append(time.perf_counter_ns() - began)
    except TimeoutError:
        pass
took.sort()
print(json.dumps([took[len(took) // 2], took[len(took) * 99 // 100]]))
"""


def ip(*words):
    return subprocess.run(["ip", *map(str, words)], check=True,
                          capture_output=True, text=True, timeout=300)


def inside(name, *words):
    return subprocess.Popen(["ip", "netns", "exec", name, *map(str, words)],
                            stdout=subprocess.PIPE, text=True)


def make_link(loss):
    for name in (HOME, AWAY):
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
    ip("-n", HOME, "link", "add", "eth0", "type", "veth", "peer", "eth0",
       "netns", AWAY)
    for name, address in ((HOME, HOME_ADDRESS), (AWAY, AWAY_ADDRESS)):
        ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        if loss > 0:
            ip("netns", "exec", name, "nft", "add table inet bad; "
               "add chain inet bad in { type filter hook input priority 0; }; "
               "add rule inet bad in iif != lo numgen random mod 1000 < "
               f"{round(loss * 10)} drop")


def remove_link():
    for name in (HOME, AWAY):
        subprocess.run(["ip", "netns", "del", name], check=False,
                       capture_output=True, timeout=60)


def echo():
    server = inside(AWAY, sys.executable, "-c", ECHO)
    try:
        server.stdout.readline()
        done = inside(HOME, sys.executable, "-c", ASK)
        try:
            p50, p99 = json.loads(done.communicate(timeout=600)[0])
        finally:
            done.kill()
            done.communicate()
        return {"p50_us": p50 / 1e3, "p99_us": p99 / 1e3}
    finally:
        server.kill()
        server.communicate()


def replay(snf, capture, *flags):
    """The report of a replay at home, and how long it took."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "report.json"
        began = time.monotonic()
        done = inside(HOME, snf, "replay", capture, "--quiet", "--clock=real",
                      "--isolation=process", "--loggers=on",
                      f"--json={path}", *flags)
        try:
            done.communicate(timeout=300)
        finally:
            done.kill()
            done.communicate()
        if done.returncode != 0:
            sys.exit(f"the replay with {' '.join(flags)} has failed")
        report = json.loads(path.read_text())
        report["took_s"] = time.monotonic() - began
        return report


def over(options, wire):
    flags = (options.snf, options.capture, "--threads=5", "--nf=monitor",
             f"--policy={options.policy}",
             f"--host=away={AWAY_ADDRESS}:{PORT},units=2,wire={wire}")
    slow = replay(*flags, "--speed=0.2x")["latency_ns"]
    fast = replay(*flags, "--speed=max", "--unit_capacity=none", "--loop=4")
    return {"p50_us": slow["p50"] / 1e3, "p99_us": slow["p99"] / 1e3,
            "packets_s": fast["packets_in"] / fast["took_s"]}


def measure(options, loss):
    try:
        make_link(loss)
        agent = inside(AWAY, options.snf, "host", "serve",
                       f"--listen={AWAY_ADDRESS}:{PORT}",
                       f"--from={HOME_ADDRESS}", "--geneve")
        try:
            return medians(options, agent)
        finally:
            agent.kill()
            agent.communicate()
    finally:
        remove_link()


def medians(options, agent):
    agent.stdout.readline()
    rows = {"udp": [], "tcp": [], "geneve": []}
    for _ in range(options.repetitions):
        rows["udp"].append(echo())
        for wire in ("tcp", "geneve"):
            rows[wire].append(over(options, wire))
    return {name: {key: round(statistics.median(r[key] for r in found))
                   for key in found[0]} for name, found in rows.items()}


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("snf")
    parser.add_argument("capture")
    parser.add_argument("--loss", default="0,1")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--policy", default="hash")
    options = parser.parse_args()
    for loss in map(float, options.loss.split(",")):
        for name, row in measure(options, loss).items():
            print(json.dumps({"loss_percent": loss, "wire": name} | row),
                  flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what it costs that a packet comes to another member of a group.

Usage: group_forward.py SNF [--rounds=N] [--seconds=S] [--nf=CHAIN]

Two gateways with ports of their own are between a client and a server, each in
a network namespace that this script makes and removes:

    client ── lan0 [ gate 0 ] wan0 ── server      both gates: one group,
       └───── lan0 [ gate 1 ] wan0 ──────┘        --group_address, one link

Rows, as JSON, of medians over the rounds, which take the rows in turns:

  router       gate 0 is the kernel, which routes
  alone        gate 0 is in no group, so frames of several packets stay whole
  owner        packets come to gate 0, whose host it is
  forwarded    packets come to gate 0, but the host is gate 1's: so each goes
               over the link, in both directions

with TCP to the server and back in bit/s, round trips of ping, and the CPU time
of the whole machine for each Gbit to the server. Wants root, iperf3 and etcd;
exits with 4 and a word if one of them is missing.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # nothing beside the sources
import live
from live import CannotMeasure, busy_s, call, inside, ip, seconds_of
from pressure import Stalls

CLIENT, SERVER, LINK, *GATES = (f"snf-{name}-{os.getpid()}" for name in (
    "client", "server", "link", "gate0", "gate1"))
HOSTS = [f"10.3.0.{number}" for number in range(2, 34)]
SERVER4, ETCD4, ETCD_PORT, ROUTER4 = "10.4.0.2", "10.9.0.100", 2379, "10.3.0.1"
FAILED, MISSING = 1, 4
PATIENCE_S, LINK_MTU, PINGS = 20, 1_600, 200
STATUS_S = 1.5  # status counts what happened up to this long before


# --- The network --------------------------------------------------------------

def set_kernel(namespace: str, key: str, value: int):
    call(*inside(namespace, "sh", "-c",
                 f"echo {value} > /proc/sys/net/{key.replace('.', '/')}"))


def add_gate(number: int):
    gate = GATES[number]
    for port, end, net in (("lan0", CLIENT, "10.1"), ("wan0", SERVER, "10.2")):
        far = f"{port[:3]}{number}"
        ip("-n", end, "link", "add", far, "type", "veth", "peer", "name", port,
           "netns", gate)
        ip("-n", gate, "link", "set", port, "up")
        ip("-n", end, "link", "set", far, "up")
        ip("-n", end, "addr", "add", f"{net}.{number}.9/24", "dev", far)
    ip("-n", LINK, "link", "add", f"gate{number}", "mtu", LINK_MTU, "type",
       "veth", "peer", "name", "eth0", "mtu", LINK_MTU, "netns", gate)
    ip("-n", LINK, "link", "set", f"gate{number}", "master", "br0", "up")
    ip("-n", gate, "addr", "add", f"10.9.0.{number + 1}/24", "dev", "eth0")
    ip("-n", gate, "link", "set", "eth0", "up")


def make_network():
    for name in (CLIENT, SERVER, LINK, *GATES):
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
        for which in ("all", "default"):
            set_kernel(name, f"ipv4.conf.{which}.rp_filter", 0)
            set_kernel(name, f"ipv6.conf.{which}.disable_ipv6", 1)
    ip("-n", LINK, "link", "add", "br0", "mtu", LINK_MTU, "type", "bridge")
    ip("-n", LINK, "addr", "add", f"{ETCD4}/24", "dev", "br0")
    ip("-n", LINK, "link", "set", "br0", "up")
    for number in range(len(GATES)):
        add_gate(number)
    for host in (*HOSTS, ROUTER4):
        ip("-n", CLIENT, "addr", "add", f"{host}/32", "dev", "lo")
    ip("-n", SERVER, "addr", "add", f"{SERVER4}/32", "dev", "lo")
    ip("-n", CLIENT, "route", "add", f"{SERVER4}/32", "via", "10.1.0.1")
    ip("-n", SERVER, "route", "add", "10.3.0.0/24", "via", "10.2.0.1")


def remove_network():
    for name in (CLIENT, SERVER, LINK, *GATES):
        subprocess.run(["ip", "netns", "del", name], capture_output=True,
                       check=False)


@contextlib.contextmanager
def running(namespace: str, *words):
    started = subprocess.Popen(inside(namespace, *words),
                               stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        started.kill()
        started.wait()


@contextlib.contextmanager
def by_router():
    """The kernel has the addresses of gate 0."""
    gate = GATES[0]
    hops = (("lan0", "10.1.0.1/24", "10.3.0.0/24", "10.1.0.9"),
            ("wan0", "10.2.0.1/24", f"{SERVER4}/32", "10.2.0.9"))
    set_kernel(gate, "ipv4.ip_forward", 1)
    try:
        for port, own, far, hop in hops:
            ip("-n", gate, "addr", "add", own, "dev", port)
            ip("-n", gate, "route", "add", far, "via", hop)
        yield
    finally:
        for port, *_ in hops:
            ip("-n", gate, "addr", "flush", "dev", port)
        set_kernel(gate, "ipv4.ip_forward", 0)
        for end in (CLIENT, SERVER):  # the next gateway has other cards
            ip("-n", end, "neigh", "flush", "all")


# --- The group ----------------------------------------------------------------

def name_of(number: int) -> str:
    return f"forward-{os.getpid()}-{number}"


def group_words(number: int) -> list[str]:
    return [f"--controller={number}/{len(GATES)}", "--group=forward",
            f"--etcd={ETCD4}:{ETCD_PORT}",
            f"--group_address=10.9.0.{number + 1}:6083"]


def gate_words(options, number: int, *more: str) -> list[str]:
    return [options.snf, "up", f"--name={name_of(number)}",
            f"--nf={options.nf}",
            f"--port=inside=lan0,address=10.1.{number}.1/24,"
            f"route=10.3.0.0/24@10.1.{number}.9",
            f"--port=outside=wan0,address=10.2.{number}.1/24,"
            f"route={SERVER4}/32@10.2.{number}.9",
            "--unit_capacity=none", *more]


def forwarded_by(options, number: int) -> int:
    told = json.loads(call(options.snf, "status", "--json",
                           f"--name={name_of(number)}"))
    return next(int(one.get("count", 0)) for one in told["group"]["count"]
                if one["name"] == "forwarded")


def reaches(host: str) -> bool:
    return subprocess.run(
        inside(CLIENT, "ping", "-c", "1", "-W", "1", "-I", host, SERVER4),
        capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def by_gate(options, number: int, *more: str):
    call(*inside(GATES[number], *gate_words(options, number, *more)))
    try:
        yield
    finally:
        subprocess.run([options.snf, "down", f"--name={name_of(number)}"],
                       capture_output=True, check=False, timeout=60)


def wait_for(what: str, condition):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise CannotMeasure(f"no {what} within {PATIENCE_S} s")
        time.sleep(0.1)


def hosts_by_row(options) -> dict[str, str]:
    """A host of gate 0 and one of gate 1."""
    found = {}
    time.sleep(STATUS_S)
    for host in HOSTS:
        before = forwarded_by(options, 0)
        if not reaches(host):
            raise CannotMeasure(f"{host} has no answer")
        time.sleep(STATUS_S)
        is_forwarded = forwarded_by(options, 0) > before
        found.setdefault("forwarded" if is_forwarded else "owner", host)
        if len(found) == 2:
            return found
    raise CannotMeasure(f"of {len(HOSTS)} hosts all are of one gate")


# --- Figures ------------------------------------------------------------------

def iperf(host: str, seconds: int, *words) -> dict:
    return live.iperf(seconds, "-B", host, *words, client=CLIENT,
                      server=SERVER4)["sum_received"]


def round_trip(host: str) -> dict:
    text = call(*inside(CLIENT, "ping", "-q", "-c", PINGS, "-i", "0.005", "-I",
                        host, SERVER4))
    mean, = re.findall(r"rtt .* = [\d.]+/([\d.]+)/", text)
    return {"round_trip_us": float(mean) * 1e3}


def measure(host: str, seconds: int) -> dict:
    row = round_trip(host)
    before = busy_s()
    there = iperf(host, seconds)
    row["cpu_s_per_gbit"] = (busy_s() - before) / (there["bytes"] * 8 / 1e9)
    row["tcp_bit_s"] = there["bits_per_second"]
    row["tcp_back_bit_s"] = iperf(host, seconds, "-R")["bits_per_second"]
    return row


def one_round(options) -> dict[str, dict]:
    rows = {}
    with by_router():
        rows["router"] = measure(HOSTS[0], options.seconds)
    with by_gate(options, 0):
        wait_for("answer through a gate", lambda: reaches(HOSTS[0]))
        rows["alone"] = measure(HOSTS[0], options.seconds)
    with contextlib.ExitStack() as stack:
        for number in range(len(GATES)):
            stack.enter_context(by_gate(options, number,
                                        *group_words(number)))
        wait_for("answer through the group",
                 lambda: all(map(reaches, HOSTS[:4])))
        for row, host in sorted(hosts_by_row(options).items(), reverse=True):
            rows[row] = measure(host, options.seconds)
    return rows


def rows_of(options, folder: pathlib.Path) -> list[dict]:
    rounds = []
    make_network()
    try:
        with (running(SERVER, "iperf3", "-s"),
              running(LINK, "etcd", f"--data-dir={folder}",
                      f"--listen-client-urls=http://{ETCD4}:{ETCD_PORT}",
                      f"--advertise-client-urls=http://{ETCD4}:{ETCD_PORT}",
                      "--log-level=error")):
            for _ in range(options.rounds):
                rounds.append(one_round(options))
    finally:
        remove_network()
    return [{"row": row} | {key: statistics.median(one[row][key]
                                                   for one in rounds)
                            for key in rounds[0][row]} for row in rounds[0]]


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("snf")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=seconds_of, default=3)
    parser.add_argument("--nf", default="firewall | monitor")
    options = parser.parse_args()
    missing = [name for name in ("iperf3", "etcd", "ping", "nsenter")
               if shutil.which(name) is None]
    if os.geteuid() != 0 or missing:
        print("wants root" if not missing else f"wants {', '.join(missing)}",
              file=sys.stderr)
        return MISSING
    stalls = Stalls()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as folder:
        try:
            rows = rows_of(options, pathlib.Path(folder))
        except CannotMeasure as error:
            print(error, file=sys.stderr)
            return FAILED
    for row in rows:
        print(json.dumps(row))
    print(json.dumps({"waited": stalls.share()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

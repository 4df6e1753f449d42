#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures live traffic between two hosts by several ways, in turns.

Usage: live.py SNF --ways=WAY[,WAY…] [--rounds=N] [--seconds=S]

Both hosts are network namespaces that this script makes and removes, and a
third one is between them. Ways:

  bridge       the kernel's bridge
  nftables     the kernel routes, with the rules and source NAT of nftables
  CHAIN ISOLATION [loggers] [sender]
               SNF: "plain" is passthrough, "chain" the same rules and NAT; then
               thread, process or lxc: "chain process loggers". With a sender,
               each port has a thread that sends
  dnat         the kernel routes, and nftables gives connections to a virtual
               address to three servers by a hash of the client's end
  lb ISOLATION [loggers]
               SNF with `lb` before the same servers. Of these two ways,
               connections to the virtual address alone are measured

Wants root, iperf3 and, for nftables and dnat, nft. Prints a JSON object: "rows" have the
medians over the rounds, by way; "waited" is the share of the time in which
somebody waited for a CPU; "why_not" says why there are no rows.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True  # nothing beside the sources
from pressure import Stalls

CLIENT, MIDDLE, SERVER = (f"snf-{name}-{os.getpid()}"
                          for name in ("live", "way", "far"))
CLIENT4, GATEWAY4, ROUTED4 = "10.77.0.2", "10.78.0.1", "10.78.0.2"
SERVER4, EXTERNAL4 = "10.77.0.3", "10.77.0.100"
VIRTUAL4 = "10.77.0.50"
SERVERS4 = ("10.77.0.61", "10.77.0.62", "10.77.0.63")
ECHO, TCP = 7, 9  # ports of the server beside iperf3's
BLOCKED = 16  # networks that the rules deny
PATIENCE_S = 20
ASKED = 400  # round trips


class CannotMeasure(Exception):
    pass


def call(*words, **options) -> str:
    ran = subprocess.run(list(map(str, words)), capture_output=True, text=True,
                         check=False, timeout=120, **options)
    if ran.returncode != 0:
        raise CannotMeasure(f"{' '.join(map(str, words))}: "
                            f"{(ran.stderr or ran.stdout).strip()}")
    return ran.stdout


def ip(*words) -> str:
    return call("ip", *words)


def inside(namespace: str, *words) -> list[str]:
    return ["nsenter", f"--net=/run/netns/{namespace}", *map(str, words)]


# --- The hosts ----------------------------------------------------------------

def make_hosts():
    for namespace in (CLIENT, MIDDLE, SERVER):
        ip("netns", "add", namespace)
        ip("-n", namespace, "link", "set", "lo", "up")
        call(*inside(namespace, "sh", "-c", "echo 1 > "
                     "/proc/sys/net/ipv6/conf/default/disable_ipv6"))
    for namespace, port in ((CLIENT, "lan0"), (SERVER, "wan0")):
        ip("-n", namespace, "link", "add", "eth0", "type", "veth", "peer",
           "name", port, "netns", MIDDLE)
        ip("-n", MIDDLE, "link", "set", port, "up")
        ip("-n", namespace, "link", "set", "eth0", "up")
    ip("-n", SERVER, "addr", "add", f"{SERVER4}/24", "dev", "eth0")
    for server in SERVERS4:
        ip("-n", SERVER, "addr", "add", f"{server}/24", "dev", "eth0")
    ip("-n", CLIENT, "addr", "add", f"{CLIENT4}/24", "dev", "eth0")
    answer_for_external()


def card_of(namespace: str) -> str:
    return json.loads(ip("-n", namespace, "-j", "link", "show", "eth0"))[0][
        "address"]


def answer_for_external():
    """The server sends packets for the NAT's address to the client's card."""
    ip("-n", SERVER, "neigh", "replace", EXTERNAL4, "lladdr", card_of(CLIENT),
       "dev", "eth0", "nud", "permanent")


def remove_hosts():
    for namespace in (CLIENT, MIDDLE, SERVER):
        subprocess.run(["ip", "netns", "del", namespace], capture_output=True,
                       check=False)


def blocked() -> list[str]:
    return [f"198.51.{number}.0/24" for number in range(BLOCKED)]


@contextlib.contextmanager
def by_bridge(_):
    ip("-n", MIDDLE, "link", "add", "br0", "type", "bridge", "mcast_snooping",
       "0")
    try:
        for port in ("lan0", "wan0"):
            ip("-n", MIDDLE, "link", "set", port, "master", "br0")
        ip("-n", MIDDLE, "link", "set", "br0", "up")
        yield None
    finally:
        ip("-n", MIDDLE, "link", "del", "br0")


RULES = """
table ip way {{
  chain forward {{
    type filter hook forward priority 0; policy accept;
    ct state established,related counter accept
    {denied}
    tcp dport 23 counter drop
    udp dport 1900 counter drop
  }}
  chain out {{
    type nat hook postrouting priority 100;
    oifname "wan0" snat to {external}
  }}
}}
"""


BALANCE = """
table ip way {{
  chain in {{
    type nat hook prerouting priority -100;
    ip daddr {virtual} dnat to jhash ip saddr . tcp sport mod {count} map {{
      {servers} }}
  }}
}}
"""


def by_nftables(_):
    denied = "\n    ".join(f"ip daddr {net} counter drop" for net in blocked())
    return by_router(RULES.format(denied=denied, external=EXTERNAL4))


def by_dnat(_):
    servers = ", ".join(f"{i} : {server}" for i, server in enumerate(SERVERS4))
    return by_router(BALANCE.format(virtual=VIRTUAL4, count=len(SERVERS4),
                                    servers=servers))


@contextlib.contextmanager
def by_router(rules: str):
    """The client is in a network of its own, so the kernel routes."""
    ip("-n", CLIENT, "addr", "flush", "dev", "eth0")
    try:
        ip("-n", CLIENT, "addr", "add", f"{ROUTED4}/24", "dev", "eth0")
        ip("-n", CLIENT, "route", "add", "default", "via", GATEWAY4)
        ip("-n", MIDDLE, "addr", "add", f"{GATEWAY4}/24", "dev", "lan0")
        ip("-n", MIDDLE, "addr", "add", f"{EXTERNAL4}/24", "dev", "wan0")
        ip("-n", SERVER, "neigh", "del", EXTERNAL4, "dev", "eth0")
        call(*inside(MIDDLE, "sh", "-c",
                     "echo 1 > /proc/sys/net/ipv4/ip_forward"))
        ip("-n", SERVER, "route", "replace", f"{ROUTED4}/32", "via", EXTERNAL4)
        call(*inside(MIDDLE, "nft", "-f", "-"), input=rules)
        yield None
    finally:
        subprocess.run(inside(MIDDLE, "nft", "flush", "ruleset"),
                       capture_output=True, check=False)
        for namespace, port in ((MIDDLE, "lan0"), (MIDDLE, "wan0"),
                                (CLIENT, "eth0")):
            ip("-n", namespace, "addr", "flush", "dev", port)
        ip("-n", CLIENT, "addr", "add", f"{CLIENT4}/24", "dev", "eth0")
        answer_for_external()


@contextlib.contextmanager
def by_snf(words: list[str], snf: str, folder: pathlib.Path):
    """Yields the daemon's process."""
    chain, isolation, *more = words
    rules = folder / "rules"
    rules.write_text("".join(f"deny any to {net}\n" for net in blocked()) +
                     "deny tcp to any port 23\ndeny udp to any port 1900\n")
    ends = "+".join(f"{server}:{TCP}" for server in SERVERS4)
    nf = {"plain": "passthrough",
          "chain": f"firewall(rules={rules}) | nat(ip={EXTERNAL4},host_ports=0)",
          "lb": f"lb(virtual={VIRTUAL4}:{TCP},protocol=tcp,servers={ends})"
          }[chain]
    if chain == "lb":  # as a router would send it there
        ip("-n", CLIENT, "neigh", "replace", VIRTUAL4, "lladdr",
           card_of(SERVER), "dev", "eth0", "nud", "permanent")
    loggers = ["--loggers=on"] if "loggers" in more else []
    sender = ",send=thread" if "sender" in more else ""
    started = subprocess.Popen(
        inside(MIDDLE, snf, "run", f"--port=inside=lan0{sender}",
               f"--port=outside=wan0{sender}", f"--nf={nf}", f"--isolation={isolation}", *loggers,
               "--unit_capacity=none", "--quiet"),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not reaches():
            if started.poll() is not None:
                raise CannotMeasure(started.stderr.read().strip())
            if time.monotonic() > deadline:
                raise CannotMeasure(f"{' '.join(words)}: no packet went through "
                                    f"within {PATIENCE_S} s")
        yield started.pid
    finally:
        started.send_signal(signal.SIGTERM)
        try:
            started.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            started.kill()
            started.communicate()


def reaches() -> bool:
    """Whether the server answers now."""
    return subprocess.run(
        inside(CLIENT, sys.executable, __file__, "--ask", SERVER4, "1"),
        capture_output=True, check=False).returncode == 0


# --- Peers --------------------------------------------------------------------

def serve():
    """Echoes datagrams, and takes connections, until it is killed."""
    echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    echo.bind(("", ECHO))
    listener = socket.create_server(("", TCP), backlog=1_024)

    def take():
        while True:
            connection, _ = listener.accept()
            with contextlib.suppress(OSError), connection:
                connection.sendall(connection.recv(1))
    threading.Thread(target=take, daemon=True).start()
    print("ready", flush=True)
    while True:
        data, peer = echo.recvfrom(2_048)
        echo.sendto(data, peer)


def ask(address: str, count: int) -> int:
    """Prints round trips in s; fails if none is answered in time."""
    asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asker.settimeout(0.5)
    asker.connect((address, ECHO))
    times = []
    for number in range(count):
        begin = time.perf_counter()
        try:
            asker.send(b"%063d" % number)
            while asker.recv(2_048) != b"%063d" % number:
                pass
        except OSError:
            continue
        times.append(time.perf_counter() - begin)
        time.sleep(0.001)  # each packet alone
    print(json.dumps(times))
    return 0 if times else 1


def connect(address: str, seconds: int):
    """Prints how many connections, a byte there and back by each, it made in a
    second. It resets them: a connection that waits for its end at the server
    would refuse a later one of the same port, as a NAT gives ports again."""
    count, begin = 0, time.monotonic()
    while (took := time.monotonic() - begin) < seconds:
        with socket.socket() as one:
            one.settimeout(2)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                           struct.pack("ii", 1, 0))
            one.connect((address, TCP))
            one.sendall(b"x")
            one.recv(1)
        count += 1
    print(json.dumps(count / took))


# --- Figures ------------------------------------------------------------------

def busy_s() -> float:
    """CPU time of the whole machine, but for what is idle or stolen."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    ticks = list(map(int, fields))
    return (sum(ticks[:3]) + sum(ticks[5:7])) / os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    found = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += tree(int(child))
    return found


def cpu_of(pid: int) -> float:
    total = 0
    for one in tree(pid):
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{one}/stat").read_text()
            total += sum(map(int, fields.rsplit(")", 1)[1].split()[11:13]))
    return total / os.sysconf("SC_CLK_TCK")


def bytes_of(pid: int) -> int:
    total = 0
    for one in tree(pid):
        with contextlib.suppress(OSError):
            for line in pathlib.Path(
                    f"/proc/{one}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += 1024 * int(line.split()[1])
    return total


def iperf(seconds: int, *words, client=CLIENT, server=SERVER4) -> dict:
    # The server may still be busy with the run before, or end it.
    for _ in range(25):
        told = json.loads(call(*inside(client, "iperf3", "-c", server, "-t",
                                       seconds, "-J", *words)))
        if not re.search("busy|reset", told.get("error", "")):
            break
        time.sleep(0.2)
    if "error" in told or not told["end"].get("streams"):
        raise CannotMeasure(f"iperf3 {' '.join(words)}: {told.get('error')}")
    return told["end"]


def connections(address: str, seconds: int) -> float:
    return json.loads(call(*inside(
        CLIENT, sys.executable, __file__, "--connect", address, seconds)))


def balances(way: str) -> bool:
    return way.split()[0] in ("dnat", "lb")


def measure(daemon: int | None, seconds: int) -> dict:
    row = {}
    if daemon is not None:
        time.sleep(0.5)  # what came before is over
        before = cpu_of(daemon)
        time.sleep(seconds)
        row["idle_cpu"] = (cpu_of(daemon) - before) / seconds
    before = busy_s()
    up = iperf(seconds)["sum_received"]
    row["cpu_per_gbit"] = (busy_s() - before) / (up["bytes"] * 8 / 1e9)
    row["tcp_up"] = up["bits_per_second"]
    row["tcp_down"] = iperf(seconds, "-R")["sum_received"]["bits_per_second"]
    row["tcp_8"] = iperf(seconds, "-P", "8")["sum_received"]["bits_per_second"]
    for name, rate in (("udp_200m", "200M"), ("udp_1g", "1G")):
        end = iperf(seconds, "-u", "-b", rate, "-l", "1400")
        row[name] = end["sum"]["lost_percent"] / 100
    times = sorted(json.loads(call(*inside(
        CLIENT, sys.executable, __file__, "--ask", SERVER4, ASKED))))
    row["round_trip"] = times[len(times) // 2]
    row["round_trip_p99"] = times[len(times) * 99 // 100]
    row["connections"] = connections(SERVER4, seconds)
    if daemon is not None:
        row["bytes"] = bytes_of(daemon)
    return row


def rows_of(options) -> list[dict]:
    rounds = {way: [] for way in options.ways}
    why = {}
    with tempfile.TemporaryDirectory() as folder:
        servers = []
        make_hosts()
        try:
            servers.append(subprocess.Popen(
                inside(SERVER, "iperf3", "-s"), stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL))
            servers.append(subprocess.Popen(
                inside(SERVER, sys.executable, __file__, "--serve"),
                stdout=subprocess.PIPE))
            if servers[1].stdout.readline() != b"ready\n":
                raise CannotMeasure("the far host did not begin")
            for _ in range(options.rounds):
                for way in options.ways:
                    if way in why:
                        continue
                    words = way.split()
                    kernel = {"bridge": by_bridge, "nftables": by_nftables,
                              "dnat": by_dnat}
                    try:
                        context = (
                            kernel[way](words) if way in kernel else
                            by_snf(words, options.snf, pathlib.Path(folder)))
                        with context as daemon:
                            rounds[way].append(
                                {"connections": connections(
                                    VIRTUAL4, options.seconds)}
                                if balances(way) else
                                measure(daemon, options.seconds))
                    except (CannotMeasure, subprocess.TimeoutExpired) as error:
                        why[way] = str(error)
        finally:
            for server in servers:
                server.kill()
                server.wait()
            remove_hosts()
    rows = []
    for way, measured in rounds.items():
        row = {"way": way, "why_not": why.get(way, "")}
        for name in measured[0] if measured else ():
            row[name] = statistics.median(one[name] for one in measured)
        rows.append(row)
    return rows


def ways_of(text: str) -> list[str]:
    """Of "bridge,chain thread"; an error names what is no way."""
    ways = text.split(",")
    for way in ways:
        chain, *more = way.split() or [""]
        is_snf = (chain in ("plain", "chain", "lb") and
                  more[:1] in (["thread"], ["process"], ["lxc"]) and
                  more[1:] in ([], ["loggers"], ["sender"],
                               ["loggers", "sender"]))
        if way not in ("bridge", "nftables", "dnat") and not is_snf:
            raise argparse.ArgumentTypeError(f"'{way}' is no way")
    return ways


def seconds_of(text: str) -> int:
    """Whole seconds, from 1 on: iperf3 takes 0 for no end."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}': want whole seconds")
    return int(text)


def why_not(options) -> str:
    if os.geteuid() != 0:
        return "wants root: it makes network namespaces"
    wanted = ["ip", "nsenter", "iperf3"]
    wanted += ["nft"] if {"nftables", "dnat"} & set(options.ways) else []
    missing = [name for name in wanted if shutil.which(name) is None]
    return f"{', '.join(missing)} not installed" if missing else ""


def main() -> int:
    if sys.argv[1:2] == ["--serve"]:
        return serve()
    if sys.argv[1:2] == ["--ask"]:
        return ask(sys.argv[2], int(sys.argv[3]))
    if sys.argv[1:2] == ["--connect"]:
        return connect(sys.argv[2], int(sys.argv[3])) or 0
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("snf")
    parser.add_argument("--ways", type=ways_of, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=seconds_of, default=2)
    options = parser.parse_args()
    why = why_not(options)
    stalls = Stalls()
    # An interrupt removes the namespaces as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        rows = [] if why else rows_of(options)
    except CannotMeasure as error:
        rows, why = [], str(error)
    print(json.dumps({"rows": rows, "why_not": why, "waited": stalls.share()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

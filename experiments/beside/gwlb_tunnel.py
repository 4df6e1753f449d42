#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures snf behind a Gateway Load Balancer beside AWS's own tunnel handler:
the same packets, in turns.

Usage: gwlb_tunnel.py SNF [--handler=PROGRAM | --build=DIR [--fetch]
                      [--boost=DIR]] [--rounds=N] [--seconds=N]
                      [--rows=WORD[,WORD…]] [--nf=NF]

Makes two network namespaces with a link between them, so it wants root: in one
this script is the balancer, which sends packets in GENEVE from 8 ports, of 64
flows, and counts what returns; in the other one runs, in turns,

  handler  gwlbtun with one thread for UDP and one for each tunnel: GENEVE to an
           interface, the kernel's forwarding to the second interface, GENEVE
  snf      snf run --port both=gwlb:eth0 --threads=1, with NF, or passthrough

and both are first asked to bring a packet back with its options. Rows:

  small        inner packets of 100 bytes, as fast as the balancer sends
  large        the same, of 1,400 bytes
  small_paced  inner packets of 100 bytes, 20,000 a second
  large_paced  the same, of 1,400 bytes

CPU time is that of the process, with all that the kernel does in its name: its
system calls, the forwarding, and the balancer's end of the link for what
returns. What the kernel does in the balancer's name, up to the appliance's
socket or interface, is not in it.

The tunnel handler is not part of this project. It is built by these commands,
in DIR, or with --build=DIR by this script; with --fetch it gets the source as
well. Boost's headers have to be of version 1.83 or later: --boost names their
folder, in place of the system's.

{commands}

Prints JSON: "rows" have medians over the rounds of packets that returned a
second ("packets_s"), CPU cores in use ("cores"), and packets and Gbit/s of
inner packets a core; "ratio" is that of packets a core, greater than 1 if snf
needs less CPU time, with the least and the greatest of the rounds. Without the
handler it prints "skipped" with the reason, and ends with 4.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # nothing beside the sources
from other_program import (CannotMeasure, OtherProgram, add_rounds, parsed,
                           ratios, run_beside)

HANDLER = OtherProgram(
    what="tunnel handler", name="gwlbtun", flag="handler",
    source="https://github.com/aws-samples/"
           "aws-gateway-load-balancer-tunnel-handler",
    is_fetched="GeneveHandler.cpp", built="gwlbtun")
FILES = ("main", "UDPPacketReceiver", "GenevePacket", "TunInterface", "utils",
         "PacketHeaderV4", "PacketHeaderV6", "GeneveHandler",
         "FlowCacheHealthCheck", "Logger")
PATIENCE_S = 30
QUIET_S = 0.3
BALANCER, APPLIANCE = "10.77.6.2", "10.77.6.9"
GENEVE_PORT = 6081
INSIDE, OUTSIDE = 0x0A01_0000, 0xC633_0000  # 10.1.0.0/16, 198.51.0.0/16
FLOWS, PORTS, FIRST_PORT = 64, 8, 50_000
MOST_SEGMENTS, MOST_BYTES = 60, 60_000  # of one call, by the kernel's limits
SOL_UDP, UDP_SEGMENT, SO_ATTACH_FILTER = 17, 103, 26
TICKS = os.sysconf("SC_CLK_TCK")
# Of each row the bytes of inner packets, and packets a second; 0: all.
ROWS = {"small": (100, 0), "large": (1_400, 0), "small_paced": (100, 20_000),
        "large_paced": (1_400, 20_000)}
HOOK = """#!/bin/sh
[ "$1" = CREATE ] && ip route replace 198.51.0.0/16 dev "$3"
"""


def build_command(boost: pathlib.Path | None) -> list[str]:
    return ["g++", "-std=c++17", "-Ofast", *([f"-I{boost}"] if boost else []),
            *(f"{name}.cpp" for name in FILES), "-o", "gwlbtun", "-pthread"]


# --- Packets.

def checksum_of(header: bytes) -> int:
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total > 0xffff:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def inner_packet(flow: int, length: int) -> bytes:
    """UDP of IPv4, without UDP's checksum."""
    header = struct.pack(">BBHHHBBHII", 0x45, 0, length, 0, 0, 64, 17, 0,
                         INSIDE + 1 + flow, OUTSIDE + 1 + flow % 250)
    header = header[:10] + struct.pack(">H", checksum_of(header)) + header[12:]
    return header + struct.pack(">4H", 1_024 + flow, 53, length - 20, 0) + \
        bytes(length - 28)


def in_geneve(flow: int, inner: bytes) -> bytes:
    """With the three options of a Gateway Load Balancer."""
    options = b"".join(
        struct.pack(">HBB", 0x0108, kind, len(data) // 4) + data
        for kind, data in ((1, bytes.fromhex("1122334455667788")),
                           (2, bytes.fromhex("99aabbccddeeff00")),
                           (3, struct.pack(">I", 1 + flow))))
    return struct.pack(">BBHI", len(options) // 4, 0, 0x0800, 0) + options + \
        inner


def batches(length: int) -> list[tuple[bytes, int, int]]:
    """For each port in turn what one call sends, the bytes and the count of its
    datagrams. A flow has one port."""
    each = len(in_geneve(0, inner_packet(0, length)))
    count = min(MOST_SEGMENTS, MOST_BYTES // each)
    made = []
    for port in range(PORTS):
        flows = [flow for flow in range(FLOWS) if flow % PORTS == port]
        made.append((b"".join(
            in_geneve(flows[i % len(flows)],
                      inner_packet(flows[i % len(flows)], length))
            for i in range(count)), each, count))
    return made


def brings_back(sent: bytes, received: bytes) -> bool:
    """Whether it is the packet, whose TTL may be less by one."""
    inner = len(sent) - struct.unpack(">H", sent[42:44])[0]
    return (len(sent) == len(received)
            and sent[:inner + 8] == received[:inner + 8]
            and sent[inner + 12:] == received[inner + 12:])


# --- The balancer's end, in a process in its namespace.

def sender(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((BALANCER, port))
    made.connect((APPLIANCE, GENEVE_PORT))
    return made


def sink(drops: bool) -> socket.socket:
    """A socket for what returns; one that drops all of it."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((BALANCER, GENEVE_PORT))
    if drops:
        import ctypes
        nothing = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))
        made.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack(
            "HxxxxxxP", 1, ctypes.addressof(nothing)))
    return made


def received_packets() -> int:
    for line in pathlib.Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.strip().partition(":")
        if name == "eth0":
            return int(counts.split()[1])
    raise CannotMeasure("the balancer has no eth0")


def probe() -> dict:
    """Sends a packet until it returns."""
    out, back = sender(FIRST_PORT), sink(drops=False)
    back.settimeout(0.1)
    sent = in_geneve(0, inner_packet(0, 200))
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            out.send(sent)
            if brings_back(sent, back.recv(2_048)):
                return {"is_up": True}
        except (TimeoutError, ConnectionRefusedError):
            pass
    return {"is_up": False}


def send(length: int, rate: int, seconds: float) -> dict:
    """Returns how many packets were sent and returned, and the time."""
    hears = sink(drops=True)
    outs = []
    for port, (data, each, count) in enumerate(batches(length)):
        out = sender(FIRST_PORT + port)
        out.setsockopt(SOL_UDP, UDP_SEGMENT, each)
        outs.append((out, data, count))
    sent, i = 0, 0
    before = received_packets()
    began = time.monotonic()
    while (now := time.monotonic()) < began + seconds:
        if rate and sent > (now - began) * rate:
            time.sleep(0.0005)
            continue
        out, data, count = outs[i % PORTS]
        i += 1
        try:
            out.send(data)
        except ConnectionRefusedError:
            continue
        sent += count
    took, returned = await_quiet(began, before)
    hears.close()
    return {"sent": sent, "returned": returned, "seconds": took}


def await_quiet(began: float, before: int) -> tuple[float, int]:
    """Waits for what is on its way; the time until its end, and the count."""
    last_s, last = time.monotonic(), received_packets()
    end = last_s + PATIENCE_S
    while last_s + QUIET_S > time.monotonic() < end:
        time.sleep(0.02)
        if (count := received_packets()) > last:
            last_s, last = time.monotonic(), count
    return last_s - began, last - before


# --- Namespaces and appliances.

def ip(*words, check=True):
    done = subprocess.run(["ip", *map(str, words)], capture_output=True,
                          text=True, timeout=60, check=False)
    if check and done.returncode != 0:
        raise CannotMeasure(f"ip {' '.join(map(str, words))}: "
                            f"{done.stderr.strip()}")


class Link:
    def __init__(self):
        self.names = [f"snf-tun-{name}-{os.getpid()}" for name in ("b", "a")]

    @property
    def balancer(self) -> str:
        return self.names[0]

    @property
    def appliance(self) -> str:
        return self.names[1]

    def __enter__(self):
        for name in self.names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", self.balancer, "link", "add", "eth0", "mtu", 9_000, "type",
           "veth", "peer", "eth0", "mtu", 9_000, "netns", self.appliance)
        for name, address in zip(self.names, (BALANCER, APPLIANCE)):
            ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
        # The kernel cuts a call's datagrams before the link, as a card does.
        ip("-n", self.balancer, "link", "set", "eth0", "gso_max_segs", 1)
        for key in ("net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0",
                    "net.ipv4.conf.default.rp_filter=0"):
            subprocess.run(["ip", "netns", "exec", self.appliance, "sysctl",
                            "-qw", key], check=True, timeout=60)
        return self

    def __exit__(self, *_):
        for name in self.names:
            ip("netns", "del", name, check=False)

    def start(self, log, *words) -> subprocess.Popen:
        return subprocess.Popen(
            ["ip", "netns", "exec", self.appliance, *map(str, words)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def as_balancer(self, **call) -> dict:
        done = subprocess.run(
            ["ip", "netns", "exec", self.balancer, sys.executable, __file__,
             "--balancer", json.dumps(call)], capture_output=True, text=True,
            timeout=600, check=False)
        if done.returncode != 0:
            raise CannotMeasure(f"the balancer: {done.stderr.strip()[-500:]}")
        return json.loads(done.stdout)


def cpu_s(pid: int) -> float:
    """Of the process, all of its threads in it."""
    text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    fields = text[text.rindex(")") + 2:].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def figures_of(length: int, sent: dict, cpu: float) -> dict:
    returned = sent["returned"]
    if returned == 0 or cpu <= 0:
        raise CannotMeasure(f"{returned} of {sent['sent']} packets returned, "
                            f"in {cpu} s of CPU time")
    return {"packets_s": returned / sent["seconds"],
            "returned": returned / sent["sent"],
            "cores": cpu / sent["seconds"],
            "packets_s_core": returned / cpu,
            "gbit_s_core": returned * length * 8 / cpu / 1e9}


def run(link: Link, command: list, folder: pathlib.Path, rows: list[str],
        seconds: float) -> dict:
    """The figures of each row, of one process."""
    path = folder / "log"
    with path.open("wb") as log:
        process = link.start(log, *command)
        try:
            if not link.as_balancer(call="probe")["is_up"]:
                raise CannotMeasure(
                    f"{command[0]} brings no packet back: "
                    f"{path.read_text(errors='replace').strip()[-500:]}")
            found = {}
            for row in rows:
                length, rate = ROWS[row]
                before = cpu_s(process.pid)
                sent = link.as_balancer(call="send", length=length, rate=rate,
                                        seconds=seconds)
                found[row] = figures_of(length, sent,
                                        cpu_s(process.pid) - before)
            return found
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def medians(rounds: list[dict]) -> dict:
    return {key: round(statistics.median(each[key] for each in rounds), 4)
            for key in rounds[0]}


def told(theirs: list[dict], ours: list[dict]) -> dict:
    """Of a row, from the figures of each round."""
    return {"handler": medians(theirs), "snf": medians(ours),
            **ratios([our["packets_s_core"] / their["packets_s_core"]
                      for their, our in zip(theirs, ours, strict=True)])}


def measure(options, handler: pathlib.Path) -> dict:
    theirs, ours = [], []
    with tempfile.TemporaryDirectory() as name, Link() as link:
        folder = pathlib.Path(name)
        hook = folder / "hook"
        hook.write_text(HOOK)
        hook.chmod(0o755)
        for _ in range(options.rounds):
            theirs.append(run(link, [
                handler, "--udpthreads", 1, "--tunthreads", 1, "-p", 8_080,
                "-c", hook], folder, options.rows, options.seconds))
            ours.append(run(link, [
                options.snf, "run", "--port", "both=gwlb:eth0",
                f"--nf={options.nf}", "--threads=1"], folder, options.rows,
                options.seconds))
    return {row: told([each[row] for each in theirs],
                      [each[row] for each in ours]) for row in options.rows}


# --- The handler, and the command line.

def check_machine():
    if os.geteuid() != 0 or shutil.which("ip") is None:
        raise CannotMeasure("needs root, and ip of the package iproute2")


def found_handler(options) -> pathlib.Path:
    check_machine()
    boost = options.boost.resolve() if options.boost else None
    return HANDLER.find(options, [build_command(boost)])


def parse(words: list[str]):
    commands = "\n".join("  " + " ".join(command) for command in
                         (HANDLER.fetch, build_command(None)))
    parser = argparse.ArgumentParser(
        usage=__doc__.format(commands=commands).split("Usage: ")[1],
        allow_abbrev=False)
    parser.add_argument("snf", type=pathlib.Path)
    HANDLER.add_flags(parser)
    parser.add_argument("--boost", type=pathlib.Path)
    add_rounds(parser, 5, ROWS)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--nf", default="passthrough")
    options = parsed(parser, words, ROWS, ("rounds", "seconds"))
    if options.boost and options.build is None:
        parser.error("--boost: wants --build=DIR")
    options.snf = options.snf.resolve()
    return options


def main(words: list[str]) -> int:
    options = parse(words)
    return run_beside("gwlb_tunnel.py", lambda: found_handler(options),
                      lambda handler: measure(options, handler))


def balancer(call: dict) -> dict:
    return probe() if call.pop("call") == "probe" else send(**call)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if sys.argv[1:2] == ["--balancer"]:
        print(json.dumps(balancer(json.loads(sys.argv[2]))))
        sys.exit(0)
    sys.exit(main(sys.argv[1:]))

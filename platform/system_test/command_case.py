# SPDX-License-Identifier: Apache-2.0
"""What tests of the `snf` command share: running it, and captures by hand."""

import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

OK, USAGE, BAD_DATA, IO = 0, 2, 65, 74
PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
PATIENCE_S = 60
# None of whose mappings ends while a run goes on, however long that takes.
LASTING_NAT = ("nat:ip=203.0.113.9,icmp_timeout=1h,udp_timeout=1h,"
               "tcp_transitory_timeout=1h")
# A shell starts what runs in its background with SIGINT ignored, and so would
# these tests the programs that they end by it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def run(*arguments, stdin=b""):
    return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin,
                          capture_output=True, timeout=300, check=False)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def wait_for(what, condition):
    """What condition() returns, once it is true."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"no {what} within {PATIENCE_S} s")


def stat_of(pid):
    """The state, parent and name of a process; None if it is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    name = text[text.index("(") + 1:text.rindex(")")]
    state, parent = text[text.rindex(")") + 2:].split()[:2]
    return state, int(parent), name


def is_alive(pid):
    """Whether it has not let go of its files and locks yet: a zombie has, once
    its other threads have ended."""
    stat = stat_of(pid)
    if stat is None or stat[0] != "Z":
        return stat is not None
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def below(pid):
    """The processes that a process and those below it have started."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in task.read_text().split():
                found += [int(child), *below(int(child))]
        except OSError:
            pass  # it has ended
    return found


def udp_frame(source_port=5000, payload=b"x" * 18):
    udp = struct.pack(">HHHH", source_port, 53, 8 + len(payload), 0) + payload
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0,
                     bytes([192, 0, 2, 1]), bytes([198, 51, 100, 9]))
    return bytes(12) + b"\x08\x00" + ip + udp


def pcap(packets, link=1, cut=0):
    """A classic pcap of (seconds, frame); the last `cut` bytes left out."""
    data = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)
    for seconds, frame in packets:
        data += struct.pack("<IIII", int(seconds),
                            round(seconds % 1 * 1e6), len(frame), len(frame))
        data += frame
    return data[:len(data) - cut]


def pcapng(ticks, resolution):
    """One packet at `ticks` of an interface with this if_tsresol."""
    def block(kind, body):
        size = 12 + len(body)
        return struct.pack("<II", kind, size) + body + struct.pack("<I", size)
    frame = udp_frame()
    padded = frame + bytes(-len(frame) % 4)
    section = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
    interface = struct.pack("<HHI", 1, 0, 0) + struct.pack(
        "<HHB3xHH", 9, 1, resolution, 0, 0)
    packet = struct.pack("<IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF,
                         len(frame), len(frame)) + padded
    return block(0x0A0D0D0A, section) + block(1, interface) + block(6, packet)


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.good = self.file("good.pcap", pcap(
            [(1 + i / 1000, udp_frame(5000 + i % 3)) for i in range(30)]))

    def file(self, name, data):
        path = os.path.join(self.folder.name, name)
        pathlib.Path(path).write_bytes(data)
        return path

    def refused(self, code, words, *arguments, stdin=b""):
        """The command fails with `code` and one line that has all words."""
        done = run(*arguments, stdin=stdin)
        text = done.stderr.decode()
        self.assertEqual(done.returncode, code, text)
        self.assertEqual(text.count("\n"), 1, text)
        for word in words:
            self.assertIn(word, text)
        self.assertEqual(done.stdout, b"")

    def report(self, *arguments, stdin=b""):
        done = run("replay", *arguments, "--json", "-", "--quiet", stdin=stdin)
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        return json.loads(done.stdout)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures packets of a running daemon, and finds flows by a filter.

usage: capture_test.py SNF ROOT
"""

import json
import pathlib
import re
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import control_test
import run_test as net
from command_case import OK, USAGE, wait_for
from control_test import NAME, flows, told
from run_test import (CLIENT, CLIENT4, EXTERNAL4, MIDDLE, SERVER, SERVER4, ip,
                      peer)

NAT = f"--nf=nat(ip={EXTERNAL4})"


class Capture(control_test.Control):
    def up_nat(self):
        self.up(NAT)
        ip("-n", SERVER, "neigh", "replace", EXTERNAL4, "lladdr",
           net.address_of_card(CLIENT), "dev", "eth0", "nud", "permanent")

    def begin(self, *words):
        """Starts the command, and waits until the daemon captures."""
        log = pathlib.Path(control_test.FOLDER / f"{NAME}.log")
        before = log.read_text().count(" begins: ")
        started = subprocess.Popen(
            net.in_network(MIDDLE, net.PROGRAM, "capture", f"--name={NAME}",
                           *words),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(started.kill)
        wait_for("the capture",
                 lambda: log.read_text().count(" begins: ") > before)
        return started

    def ended(self, started, stop=signal.SIGINT):
        if stop is not None:
            started.send_signal(stop)
        out, errors = started.communicate(timeout=30)
        self.assertEqual(started.returncode, OK, errors)
        return out, errors

    def packets(self, file):
        info = json.loads(subprocess.run(
            [net.PROGRAM, "trace", "info", "--json=-", str(file)],
            capture_output=True, check=True).stdout)
        return info["captures"][0]["packets"]

    def test_finds_a_host_behind_a_nat_in_both_directions(self):
        self.up_nat()
        file = self.folder / "of_host.pcapng"
        started = self.begin(f"host {CLIENT4} and tcp", f"--out={file}")
        lines = self.begin("udp or icmp")
        with self.server():
            self.assertEqual(peer(CLIENT, "tcp", SERVER4, 3, 1_000),
                             ["3 right"])
        _, errors = self.ended(started)
        said = re.search(r"capture: ([\d,]+) packets that left, 0 that", errors)
        self.assertTrue(said, errors)
        left = int(said[1].replace(",", ""))
        self.assertEqual(self.packets(file), left)
        self.assertGreater(left, 3 * 8)
        data = file.read_bytes()
        # Both directions: to the outside as translated, and back.
        outside = bytes(map(int, EXTERNAL4.split(".")))
        inside = bytes(map(int, CLIENT4.split(".")))
        server = bytes(map(int, SERVER4.split(".")))
        self.assertIn(outside + server, data)
        self.assertIn(server + inside, data)
        self.assertRegex(data, rb"unit=\d+ flowlet=\d+ clock=\d+ latency_ns=\d+")
        out, _ = self.ended(lines)
        self.assertNotIn("tcp", out)

    def test_tells_why_packets_are_dropped(self):
        rules = self.folder / "rules"
        rules.write_text("deny udp to any port 7\nallow any\n")
        self.up(f"--nf=firewall(rules={rules})")
        started = self.begin("--drops", "--count=2", "udp port 7")
        subprocess.run(net.inside(CLIENT, "python3", "-c", f"""
import socket
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(5):
    sender.sendto(b"x", ("{SERVER4}", 7))
"""), check=True)
        out, errors = self.ended(started, stop=None)
        self.assertEqual(out.count("\n"), 2, out)
        self.assertRegex(out, rf"^[\d:]+\.\d{{6}} udp {re.escape(CLIENT4)}:\d+ > "
                              rf"{re.escape(SERVER4)}:7, \d+ bytes: dropped=")
        self.assertIn("0 packets that left, 2 that were dropped", errors)

    def test_ends_in_time_and_with_the_daemon(self):
        self.up()
        started = self.begin("--for=300ms")
        self.ended(started, stop=None)
        file = self.folder / "kept.pcap"
        started = self.begin(f"--out={file}", "--snap=64")
        with self.server():
            peer(CLIENT, "tcp", SERVER4, 1, 1_000)
        self.down()
        _, errors = self.ended(started, stop=None)
        self.assertIn("ends early", errors)
        self.assertTrue(file.exists())

    def test_refuses_what_is_no_filter(self):
        self.up()
        for command in ("capture", "flows"):
            self.refused(USAGE, ["banana"], command, "banana")

    def test_lists_flows_by_a_filter(self):
        self.up_nat()
        with self.server():
            self.assertEqual(peer(CLIENT, "tcp", SERVER4, 3, 1_000),
                             ["3 right"])
        everything = flows("--limit=10000")
        # A NAT's flow has the inside end alone for its key.
        found = flows("--limit=10000", f"src host {CLIENT4} and tcp")
        self.assertEqual(found["flows"], 3)
        self.assertLess(len(found["flow"]), len(everything["flow"]) + 1)
        for flow in found["flow"]:
            self.assertIn(f"{CLIENT4}:", flow["key"])
        self.assertEqual(flows("udp port 7")["flows"], 0)
        self.assertIn("tcp", told("flows", "tcp"))


# What control_test.py tests itself.
for name in [name for name in dir(control_test.Control)
             if name.startswith("test_")]:
    setattr(Capture, name, None)


if __name__ == "__main__":
    net.main("Capture")

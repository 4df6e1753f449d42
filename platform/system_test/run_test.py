#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf run` between two hosts, each a network namespace of this machine.

    client eth0 ── lan0 [ snf run ] wan0 ── eth0 server

Wants root, and is skipped without.

Usage: run_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import (OK, PATIENCE_S, USAGE, free_port, pcap, udp_frame,
                          wait_for)

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
PEER = str(pathlib.Path(__file__).resolve().with_name("network_peer.py"))
UNAVAILABLE, IO, PERMISSION = 69, 74, 77
SKIPPED = 4  # as CMakeLists.txt says
PORTS = ["--port", "inside=lan0", "--port", "outside=wan0"]
XDP_PORTS = ["--port", "inside=xdp:lan0", "--port", "outside=xdp:wan0"]
AF_XDP = 44
CLIENT4, SERVER4, EXTERNAL4 = "10.77.0.2", "10.77.0.3", "10.77.0.100"
CLIENT6, SERVER6 = "fd77::2", "fd77::3"
CLIENT, MIDDLE, SERVER = (f"snf-{name}-{os.getpid()}"
                          for name in ("client", "middle", "server"))


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def inside(namespace, *words):
    return ["ip", "netns", "exec", namespace, *map(str, words)]


def in_network(namespace, *words):
    """As inside, but for what makes containers: it sees the machine's own
    control groups."""
    return ["nsenter", f"--net=/run/netns/{namespace}", *map(str, words)]


def peer(namespace, *words):
    """What a script of network_peer.py prints in a namespace."""
    done = subprocess.run(inside(namespace, sys.executable, PEER, *words),
                          capture_output=True, text=True, timeout=4 * PATIENCE_S,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stderr}")
    return done.stdout.splitlines()


def why_skipped():
    if os.geteuid() != 0:
        return "wants root: it makes network namespaces"
    try:
        ip("netns", "add", MIDDLE)
        ip("netns", "del", MIDDLE)
    except OSError as error:
        return f"wants network namespaces: {error}"
    return ""


def remove_network():
    """Interfaces go with their namespaces."""
    for namespace in (CLIENT, MIDDLE, SERVER):
        subprocess.run(["ip", "netns", "del", namespace],
                       capture_output=True, check=False)


def remove_remains():
    """Networks of tests that were killed."""
    namespaces = subprocess.run(["ip", "netns", "list"], capture_output=True,
                                text=True, check=False).stdout
    for name, pid in re.findall(r"^(snf-[a-z]+-(\d+))\b", namespaces, re.M):
        if not os.path.exists(f"/proc/{pid}"):
            subprocess.run(["ip", "netns", "del", name], check=False)


def has_long_xdp():
    """Says whether this kernel's AF_XDP has frames of several pieces."""
    return tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 6)


def make_network(mtu=1500):
    for namespace in (CLIENT, MIDDLE, SERVER):
        ip("netns", "add", namespace)
        ip("-n", namespace, "link", "set", "lo", "up")
    for namespace, port, v4, v6 in ((CLIENT, "lan0", CLIENT4, CLIENT6),
                                    (SERVER, "wan0", SERVER4, SERVER6)):
        ip("-n", namespace, "link", "add", "eth0", "mtu", str(mtu), "type",
           "veth", "peer", "name", port, "mtu", str(mtu), "netns", MIDDLE)
        ip("-n", MIDDLE, "link", "set", port, "addrgenmode", "none", "up")
        ip("-n", namespace, "link", "set", "eth0", "up")
        ip("-n", namespace, "addr", "add", f"{v4}/24", "dev", "eth0")
        ip("-n", namespace, "addr", "add", f"{v6}/64", "dev", "eth0", "nodad")


def address_of_card(namespace):
    done = subprocess.run(inside(namespace, "cat",
                                 "/sys/class/net/eth0/address"),
                          capture_output=True, text=True, check=True)
    return done.stdout.strip()


@contextlib.contextmanager
def serving(folder, address):
    """A server's host gives out the files of the folder."""
    process = subprocess.Popen(
        inside(SERVER, sys.executable, PEER, "serve", address, folder),
        stdout=subprocess.PIPE)
    try:
        if process.stdout.readline() != b"ready\n":
            raise AssertionError("the server did not begin")
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(remove_network)
        make_network()

    @contextlib.contextmanager
    def running(self, *arguments, ports=PORTS, end=signal.SIGINT, code=OK,
                by=()):
        """A run, which is ended by a signal; then self.report is there."""
        said = self.folder / "stderr"
        with open(said, "w") as file:
            process = subprocess.Popen(
                in_network(MIDDLE, *by, PROGRAM, "run", *ports, *arguments,
                           "--json", self.folder / "report.json"),
                stdout=subprocess.PIPE, stderr=file, text=True)

        def has_begun():
            return process.poll() is not None or "Running" in said.read_text()
        try:
            wait_for("beginning", has_begun)
            self.said = said.read_text().splitlines(keepends=True)
            self.assertIsNone(process.poll(), "it ended: " + said.read_text())
            yield process
            if end is not None:
                process.send_signal(end)
            self.output, _ = process.communicate(timeout=PATIENCE_S)
        except BaseException:
            print(said.read_text()[-2_000:], file=sys.stderr)  # it may say why
            raise
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            self.errors = said.read_text()
        self.assertEqual(process.returncode, code, self.errors)
        self.assertIn("all accounted for", self.output)
        self.report = json.loads((self.folder / "report.json").read_text())
        self.check_sums()

    def check_sums(self):
        report, ports = self.report, self.report["ports"]
        received = sum(port["received"] for _, port in self.each_port())
        left = ports["unrouted"] - ports["copies"]
        left += report.get("aliases", {}).get("packets_hairpinned", 0)
        left += sum(port["sent"] + port["send_drops"] - port["cut"]
                    for _, port in self.each_port())
        self.assertEqual(received, report["packets_in"] + ports["filtered"])
        self.assertEqual(left, report["packets_released"] +
                         report["packets_passed_through"])
        self.assertEqual(report["violations"], 0)

    def each_port(self):
        return [(name, port) for name, port in self.report["ports"].items()
                if isinstance(port, dict)]

    def server(self, address=SERVER4):
        return serving(self.folder, address)

    def check_downloads(self, address):
        sizes = [1, 1_000, 100_000, 20_000_000]
        hashes = []
        for size in sizes:
            data = random.Random(size).randbytes(size)
            (self.folder / f"{size}.bin").write_bytes(data)
            hashes.append(hashlib.sha256(data).hexdigest())
        self.assertEqual(
            peer(CLIENT, "get", address, *[f"{n}.bin" for n in sizes]), hashes)

    def check_udp(self, namespace, address, lengths):
        lines = peer(namespace, "udp", address, *lengths)
        for length in lengths:
            self.assertIn(f"{length} right", lines)

    # --- What passes

    def test_passes_pings_files_and_datagrams_of_ipv4(self):
        with self.server(), self.running("--no_gso"):
            self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 5)), 5)
            self.check_downloads(SERVER4)
            self.check_udp(CLIENT, SERVER4, [0, 1, 17, 1_472, 4_000])
        ports = self.report["ports"]
        # The hosts leave segments to a card that is none.
        self.assertGreater(ports["outside"]["split"], 0)
        self.assertEqual(ports["outside"]["merged"], 0)
        self.assertEqual(ports["outside"]["refused"], 0)
        self.assertGreater(ports["inside"]["sent"], 20_000_000 / 1_460)
        self.assertGreater(self.report["flows"], 5)
        self.assertGreater(self.report["packets_passed_through"], 0)  # ARP

    def test_passes_pings_files_and_datagrams_of_ipv6(self):
        with self.server(SERVER6), self.running():
            self.assertEqual(len(peer(CLIENT, "ping", SERVER6, 5)), 5)
            self.check_downloads(SERVER6)
            self.check_udp(CLIENT, SERVER6, [1, 17, 1_452])
        outside = self.report["ports"]["outside"]
        self.assertGreater(outside["merged"], 0)
        self.assertEqual((outside["split"], outside["cut"]), (0, 0))
        # One packet for a frame of several.
        self.assertLess(outside["received"], 20_000_000 / 1_440)

    def test_passes_200_connections_at_one_time_by_several_units(self):
        with self.server(), self.running("--unit_capacity=20Mbps",
                                         "--unit_start_delay=1ms"):
            self.assertEqual(peer(CLIENT, "tcp", SERVER4, 200, 20_000),
                             ["200 right"])
        self.assertGreaterEqual(self.report["flows"], 200)
        self.assertGreater(self.report["units_used_max"], 1)

    def test_what_the_outside_begins_comes_in(self):
        with self.running():
            lines = peer(SERVER, "ping", CLIENT4, 3)
        self.assertEqual(len(lines), 3)

    def test_keeps_vlan_tags(self):
        # The kernel takes the outer tag out of the frame at each interface.
        macs = "020000000002" "020000000001"
        payload = "88b5" + 50 * "5a"
        for tag in ("8100e007", "88a80005"):
            receiver = subprocess.Popen(
                inside(SERVER, sys.executable, PEER, "receive_frame",
                       payload[:4]), stdout=subprocess.PIPE, text=True)
            self.addCleanup(receiver.kill)
            self.assertEqual(receiver.stdout.readline(), "ready\n")
            with self.running():
                peer(CLIENT, "send_frame", macs + tag + payload)
                received, _ = receiver.communicate(timeout=PATIENCE_S)
            self.assertEqual(received.split(), [tag, macs + payload])

    def test_passes_frames_as_long_as_the_mtu_and_counts_longer_ones(self):
        remove_network()
        make_network(mtu=9_000)
        with self.server(), self.running():
            self.check_downloads(SERVER4)
            self.check_udp(CLIENT, SERVER4, [8_972])
        remove_network()
        make_network(mtu=9_000)
        ip("-n", MIDDLE, "link", "set", "wan0", "mtu", "1500")
        with self.server(), self.running():
            lines = peer(CLIENT, "udp", SERVER4, 1_000, 5_000)
        self.assertEqual(lines, ["1000 right"] + 3 * ["5000 lost"])
        outside = self.report["ports"]["outside"]
        self.assertEqual((outside["send_drops"], outside["too_long"]), (3, 3))
        self.assertIn("MTU of 9000", "".join(self.said))

    def test_hears_what_is_for_others_only_while_it_runs(self):
        def link():
            return subprocess.run(
                ["ip", "-n", MIDDLE, "-d", "link", "show", "wan0"],
                capture_output=True, text=True, check=True).stdout
        self.assertIn("promiscuity 0", link())
        with self.running():
            self.assertIn("promiscuity 1", link())
        self.assertIn("promiscuity 0", link())

    def test_lets_no_card_merge_packets_while_it_runs(self):
        self.assertEqual(peer(MIDDLE, "gro", "lan0", 1), ["1"])
        with self.server(), self.running():
            self.assertIn("inside (lan0): gro off while this runs\n", self.said)
            self.assertEqual(peer(MIDDLE, "gro", "lan0"), ["0"])
            self.check_downloads(SERVER4)
        self.assertEqual(peer(MIDDLE, "gro", "lan0"), ["1"])

    def test_leaves_gro_on_if_it_could_not_be_switched_on_again(self):
        """The next process would not know that it was on."""
        read_only = ("unshare", "--mount", "sh", "-c",
                     'mount -t tmpfs -o ro none /run && exec "$@"', "sh")
        self.assertEqual(peer(MIDDLE, "gro", "lan0", 1), ["1"])
        with self.server(), self.running(by=read_only):
            self.assertNotIn("gro off", "".join(self.said))
            self.assertEqual(peer(MIDDLE, "gro", "lan0"), ["1"])
            self.check_downloads(SERVER4)
        self.assertEqual(peer(MIDDLE, "gro", "lan0"), ["1"])

    def test_has_a_tap_interface_as_a_port(self):
        ports = ["--port", "inside=tap:tap0", "--port", "outside=wan0"]
        with self.server(), self.running(ports=ports):
            ip("-n", MIDDLE, "addr", "add", f"{CLIENT4}/24", "dev", "tap0")
            self.assertEqual(len(peer(MIDDLE, "ping", SERVER4, 3)), 3)
            self.assertEqual(peer(MIDDLE, "tcp", SERVER4, 3, 1_000_000),
                             ["3 right"])
        # Frames of several packets go whole through both kinds of ports.
        for name in ("inside", "outside"):
            port = self.report["ports"][name]
            self.assertGreater(port["received"], 100)
            self.assertGreater(port["merged"], 0)
            self.assertEqual((port["cut"], port["split"]), (0, 0))

    def test_cuts_what_a_tap_interface_has_merged_for_some_nfs(self):
        ports = ["--port", "inside=tap:tap0", "--port", "outside=wan0"]
        with self.server(), self.running("--no_gso", ports=ports):
            ip("-n", MIDDLE, "addr", "add", f"{CLIENT4}/24", "dev", "tap0")
            self.assertEqual(peer(MIDDLE, "tcp", SERVER4, 3, 1_000_000),
                             ["3 right"])
            self.check_udp(MIDDLE, SERVER4, [0, 1, 17, 1_472, 4_000])
        for name in ("inside", "outside"):
            port = self.report["ports"][name]
            self.assertGreater(port["split"], 0)
            self.assertEqual((port["merged"], port["refused"]), (0, 0))

    def test_takes_a_tap_interface_of_others_and_leaves_it_plain(self):
        """It had headers of another size, and outlives the run."""
        peer(MIDDLE, "tap", "tap0")
        ports = ["--port", "inside=tap:tap0", "--port", "outside=wan0"]
        with self.server(), self.running(ports=ports):
            ip("-n", MIDDLE, "addr", "add", f"{CLIENT4}/24", "dev", "tap0")
            self.assertEqual(peer(MIDDLE, "leaves_checksums", "tap0"), ["1"])
            self.assertEqual(peer(MIDDLE, "tcp", SERVER4, 3, 1_000_000),
                             ["3 right"])
        self.assertGreater(self.report["ports"]["inside"]["merged"], 0)
        self.assertEqual(self.report["ports"]["inside"]["refused"], 0)
        self.assertEqual(peer(MIDDLE, "leaves_checksums", "tap0"), ["0"])

    def program_of(self, interface):
        """Words about an XDP program that is attached to it."""
        shown = subprocess.run(["ip", "-n", MIDDLE, "link", "show", interface],
                               capture_output=True, text=True, check=True)
        return re.findall(r"\bprog/xdp\b", shown.stdout)

    def begin_xdp(self):
        try:
            socket.socket(AF_XDP, socket.SOCK_RAW).close()
        except OSError as error:
            self.skipTest(f"this kernel has no AF_XDP: {error}")
        # No kernel tells an AF_XDP socket what is left to a card.
        for namespace in (CLIENT, SERVER):
            self.assertEqual(peer(namespace, "finish_checksums", "eth0"),
                             ["0", "0", "0"])

    def test_carries_traffic_by_af_xdp(self):
        self.begin_xdp()
        ip("-n", SERVER, "neigh", "add", EXTERNAL4, "lladdr",
           address_of_card(CLIENT), "dev", "eth0", "nud", "permanent")
        with self.server(), self.running(
                f"--nf=firewall | monitor | nat(ip={EXTERNAL4})",
                ports=XDP_PORTS):
            self.assertTrue(self.program_of("lan0"))
            self.assertTrue(self.program_of("wan0"))
            self.check_downloads(SERVER4)
            self.check_udp(CLIENT, SERVER4, [1, 17, 1_472])
        self.assertIn("XDP program", "".join(self.said))
        ports = self.report["ports"]
        for port in ("inside", "outside"):
            self.assertEqual(ports[port]["refused"], 0)
            self.assertEqual(ports[port]["send_drops"], 0)
        self.assertGreater(ports["inside"]["sent"], 20_000_000 / 1_460)
        self.assertFalse(self.program_of("lan0") + self.program_of("wan0"))

    def test_leaves_no_xdp_program_when_it_is_killed(self):
        self.begin_xdp()
        process = subprocess.Popen(inside(MIDDLE, PROGRAM, "run", *XDP_PORTS),
                                   stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            wait_for("program", lambda: self.program_of("lan0"))
        finally:
            process.kill()
            process.wait()
        wait_for("end of the program", lambda: not self.program_of("lan0"))
        # Nor does it keep another from what it had.
        with self.running(ports=XDP_PORTS):
            self.assertTrue(self.program_of("lan0"))

    def test_passes_jumbo_frames_by_af_xdp(self):
        remove_network()
        make_network(mtu=9_000)
        self.begin_xdp()
        if not has_long_xdp():
            done = subprocess.run(inside(MIDDLE, PROGRAM, "run", *XDP_PORTS),
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
            self.assertIn("lan0 has an MTU of 9000, and AF_XDP supports at "
                          "most 3818", done.stderr)
            return
        with self.server(), self.running(ports=XDP_PORTS):
            self.check_downloads(SERVER4)
            # As long as a piece of the kernel's memory, and about that.
            self.check_udp(CLIENT, SERVER4, [1, 3_798, 3_799, 4_054, 4_055,
                                             8_150, 8_151, 8_972])
        for port in ("inside", "outside"):
            self.assertEqual(self.report["ports"][port]["refused"], 0)
            self.assertEqual(self.report["ports"][port]["send_drops"], 0)
        # Most of the downloads' frames are long.
        self.assertLess(self.report["ports"]["inside"]["sent"], 10_000)

    def test_has_a_capture_as_a_port(self):
        capture = self.folder / "in.pcap"
        capture.write_bytes(pcap([(1 + i / 100, udp_frame(5000 + i % 3))
                                  for i in range(30)]))
        wire = self.folder / "out.pcap"
        ports = ["--port", f"inside=file:{capture}", "--port", "outside=wan0"]

        def sent():
            shown = subprocess.run(
                ["ip", "-n", MIDDLE, "-j", "-s", "link", "show", "wan0"],
                capture_output=True, check=True).stdout
            return json.loads(shown)[0]["stats64"]["tx"]["packets"]
        before = sent()
        with self.running("--out", wire, ports=ports):
            wait_for("frames", lambda: sent() >= before + 30)
        self.assertEqual(self.report["ports"]["inside"]["received"], 30)
        self.assertGreaterEqual(self.report["ports"]["outside"]["sent"], 30)
        self.assertNotIn("MTU", "".join(self.said))

    # --- Through network functions

    def test_what_hosts_of_one_side_say_to_each_other_stays_there(self):
        send = (
            "import socket\n"
            "link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n"
            "link.bind(('eth0', 0))\n"
            "a, b, c = (bytes([2, 0, 0, 0, 0, n]) for n in (1, 2, 3))\n"
            "for to, of in ((c, a), (a, b), (a, b), (c, b), (b, a)):\n"
            "    link.send(to + of + bytes([8, 0]) + bytes(46))\n")
        with self.running("--nf=passthrough"):
            subprocess.run(inside(CLIENT, sys.executable, "-c", send),
                           check=True, timeout=PATIENCE_S)
            time.sleep(0.2)
        # What is for c, whom nobody has seen, goes out.
        self.assertEqual(self.report["ports"]["filtered"], 3)
        self.assertGreaterEqual(self.report["ports"]["outside"]["sent"], 2)

    def test_nat_hides_the_inside(self):
        # As a router would send it there.
        ip("-n", SERVER, "neigh", "add", EXTERNAL4, "lladdr",
           address_of_card(CLIENT), "dev", "eth0", "nud", "permanent")
        with self.server(), self.running(f"--nf=nat(ip={EXTERNAL4})"):
            self.assertEqual(peer(CLIENT, "who", SERVER4), [EXTERNAL4])
            self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 3)), 3)
            self.check_downloads(SERVER4)
            self.check_udp(CLIENT, SERVER4, [1, 17, 1_472])
            self.assertEqual(peer(CLIENT, "tcp", SERVER4, 200, 20_000),
                             ["200 right"])
        self.assertGreaterEqual(self.report["aliases"]["granted"], 200)
        # Frames of several packets count once.
        self.assertGreater(self.report["aliases"]["packets_found"], 1_000)

    def test_nat_brings_back_what_goes_to_a_neighbour(self):
        for namespace, other in ((SERVER, CLIENT), (CLIENT, SERVER)):
            ip("-n", namespace, "neigh", "add", EXTERNAL4, "lladdr",
               address_of_card(other), "dev", "eth0", "nud", "permanent")
        with self.server(), self.running(f"--nf=nat(ip={EXTERNAL4})"):
            self.assertEqual(peer(CLIENT, "hairpin", SERVER4),
                             [f"to a neighbour from {EXTERNAL4}"])
        self.assertEqual(self.report["aliases"]["packets_hairpinned"], 1)

    def test_nat_keeps_out_what_nobody_inside_asked_for(self):
        with self.server(), self.running(f"--nf=nat(ip={EXTERNAL4})"):
            lines = peer(SERVER, "udp", CLIENT4, 10)
        self.assertEqual(lines, 3 * ["10 lost"])
        self.assertGreaterEqual(self.report["packets_dropped"]["no_mapping"], 3)

    def test_chain_of_firewall_and_nat(self):
        ip("-n", SERVER, "neigh", "add", EXTERNAL4, "lladdr",
           address_of_card(CLIENT), "dev", "eth0", "nud", "permanent")
        rules = self.folder / "fw.txt"
        rules.write_text("deny tcp from any to any port 7\nallow any\n")
        nf = f"--nf=firewall(rules={rules}) | nat(ip={EXTERNAL4})"
        with self.server(), self.running(nf):
            self.check_downloads(SERVER4)
            self.assertEqual(peer(CLIENT, "refused", SERVER4), ["refused"])
        dropped = self.report["packets_dropped"]
        self.assertGreater(sum(count for reason, count in dropped.items()
                               if reason.startswith("nf:firewall")), 0)

    # --- How it ends, and what it tells

    def test_ends_without_a_packet(self):
        for namespace in (CLIENT, SERVER):
            ip("-n", namespace, "link", "set", "eth0", "down")
        with self.running():
            pass
        self.assertEqual(self.report["packets_in"], 0)

    def test_ends_in_the_midst_of_traffic_with_all_accounted_for(self):
        with self.server(), self.running(end=signal.SIGTERM):
            talk = subprocess.Popen(
                inside(CLIENT, sys.executable, PEER, "tcp", SERVER4, 20,
                       50_000_000), stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
            self.addCleanup(talk.wait)
            self.addCleanup(talk.kill)
            def sent():
                done = subprocess.run(
                    inside(CLIENT, "cat",
                           "/sys/class/net/eth0/statistics/tx_packets"),
                    capture_output=True, check=True)
                return int(done.stdout) > 1_000
            wait_for("traffic", sent)
        self.assertGreater(self.report["packets_in"], 1_000)

    def test_ends_when_an_interface_is_gone(self):
        with self.running(end=None, code=IO):
            peer(CLIENT, "ping", SERVER4, 1)
            ip("-n", MIDDLE, "link", "del", "wan0")
        self.assertIn("snf run: port outside: wan0: there is no such interface",
                      self.errors)

    def test_ends_when_an_interface_goes_down(self):
        with self.running(end=None, code=IO):
            ip("-n", MIDDLE, "link", "set", "lan0", "down")
        self.assertIn("snf run: port inside: lan0 is down", self.errors)

    def test_ends_when_a_tap_interface_is_gone(self):
        ports = ["--port", "inside=tap:tap0", "--port", "outside=wan0"]
        with self.running(ports=ports, end=None, code=IO):
            ip("-n", MIDDLE, "link", "del", "tap0")
        self.assertIn("port inside: tap0: there is no such interface",
                      self.errors)

    def test_tells_prometheus_of_its_ports(self):
        port = free_port()
        with self.running(f"--metrics_port={port}"):
            peer(CLIENT, "ping", SERVER4, 5)
            def text():
                page = "\n".join(peer(MIDDLE, "fetch",
                                      f"http://127.0.0.1:{port}/metrics"))
                wanted = 'snf_port_received_packets_total{port="inside"} '
                counts = [line.removeprefix(wanted)
                          for line in page.splitlines()
                          if line.startswith(wanted)]
                return page if counts and int(counts[0]) >= 5 else None
            page = wait_for("packets", text)
        for name in ("split_frames", "refused_frames", "kernel_dropped_frames",
                     "sent_packets", "send_dropped_packets"):
            self.assertIn(f'snf_port_{name}_total{{port="outside"}}', page)

    def test_writes_what_it_sent_and_dropped(self):
        out, drops = self.folder / "out.pcapng", self.folder / "drops.pcapng"
        with self.running(f"--out={out}", f"--drops={drops}", "--annotate"):
            peer(CLIENT, "ping", SERVER4, 5)
        done = subprocess.run([PROGRAM, "trace", "info", out, "--json=-"],
                              capture_output=True, check=True)
        ports = self.report["ports"]
        self.assertEqual(json.loads(done.stdout)["captures"][0]["packets"],
                         ports["inside"]["sent"] + ports["outside"]["sent"])

    # --- What is refused

    def check_refused(self, code, words, *ports, before=()):
        done = subprocess.run(
            inside(MIDDLE, *before, PROGRAM, "run",
                   *(word for port in ports for word in ("--port", port))),
            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_refuses_ports_that_are_wrong(self):
        for words, *ports in (
                (["no inside"],),
                (["no outside"], "inside=lan0"),
                (["lan0 is given twice"], "inside=lan0", "outside=wan0",
                 "inside=xdp:lan0"),
                (["lan0 cannot be both"], "inside=lan0", "outside=lan0"),
                (["17 are given, at most 16"], "outside=wan0",
                 *(f"inside=lan{i}" for i in range(16))),
                (["--port", '"pcap" is not a kind'], "inside=pcap:lan0",
                 "outside=wan0"),
                (["--port", '"left" is neither'], "left=lan0",
                 "outside=wan0")):
            self.check_refused(USAGE, words, *ports)

    def test_refuses_interfaces_that_it_cannot_have(self):
        self.check_refused(UNAVAILABLE, ["port outside", "nothing0", "no such"],
                           "inside=lan0", "outside=nothing0")
        self.check_refused(UNAVAILABLE, ["port inside", "lo", "not an Ethernet"],
                           "inside=lo", "outside=wan0")
        ip("-n", MIDDLE, "link", "set", "wan0", "down")
        self.check_refused(UNAVAILABLE,
                           ["port outside", "wan0 is down", "link set wan0 up"],
                           "inside=lan0", "outside=wan0")

    def test_refuses_interfaces_whose_frames_another_run_forwards(self):
        with self.running():
            self.check_refused(UNAVAILABLE, [
                "port inside", "lan0: another run of SNF forwards its frames"],
                "inside=lan0", "outside=wan0")
            self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 3)), 3)

    def test_says_what_it_wants_of_who_is_not_root(self):
        self.check_refused(PERMISSION, ["port inside", "root or CAP_NET_RAW"],
                           "inside=lan0", "outside=wan0",
                           before=["setpriv", "--bounding-set=-all"])


def main(case=None, own=2):
    """Runs the tests of `case`, or all, of the script that was started; the
    first `own` of its arguments are not those of unittest."""
    reason = why_skipped()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    remove_remains()
    unittest.main("__main__", argv=[sys.argv[0], *sys.argv[1 + own:]],
                  defaultTest=case)


if __name__ == "__main__":
    main()

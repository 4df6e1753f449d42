#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of everyday use through `snf run`, between two network namespaces.

    client eth0 ── lan0 [ snf run ] wan0 ── eth0 server

Wants root, and is skipped without. A test whose program is absent is skipped.

Usage: traffic_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import run_test as net
from command_case import PATIENCE_S, wait_for
from run_test import (CLIENT, CLIENT4, EXTERNAL4, SERVER, SERVER4, SERVER6,
                      inside, ip, peer)


def wants(program):
    return unittest.skipUnless(shutil.which(program), f"wants {program}")


def told_by(namespace, *words):
    done = subprocess.run(inside(namespace, *words), capture_output=True,
                          text=True, timeout=3 * PATIENCE_S, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def background(namespace, *words):
    """A program that runs meanwhile, by a process group of its own."""
    process = subprocess.Popen(inside(namespace, *words),
                               stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def listens(namespace, address, port):
    """Whether a connection comes about within the server's own host."""
    code = (f"import socket; socket.create_connection(('{address}', {port}), 1)"
            ".close()")
    return subprocess.run(inside(namespace, sys.executable, "-c", code),
                          capture_output=True, check=False).returncode == 0


class Traffic(net.Run):
    """Through a firewall, a monitor and a NAT, unless a test says otherwise."""

    # The reasons for which packets may be dropped: no router passes these.
    may_drop = frozenset({"no_mapping", "nf:nat.not_ipv4"})

    def setUp(self):
        super().setUp()
        # As a router would send it there.
        ip("-n", SERVER, "neigh", "add", EXTERNAL4, "lladdr",
           net.address_of_card(CLIENT), "dev", "eth0", "nud", "permanent")
        os.chmod(self.folder, 0o755)

    def chain(self, *flags):
        return self.running(
            f"--nf=firewall | monitor | nat(ip={EXTERNAL4})", *flags)

    def check_every_packet_left(self):
        """Nothing was dropped but what may be."""
        dropped = {reason: count for reason, count
                   in self.report["packets_dropped"].items() if count}
        self.assertEqual(set(dropped) - self.may_drop, set(), dropped)
        for port in ("inside", "outside"):
            self.assertEqual(self.report["ports"][port]["send_drops"], 0)

    # --- iperf3

    def iperf3(self, *words):
        """What a client tells; a server may be busy with the end of the last."""
        for _ in range(5):
            report = json.loads(told_by(
                CLIENT, "iperf3", "-t", "2", "-J", *words))
            if "error" not in report:
                return report
            time.sleep(0.5)
        raise AssertionError(report["error"])

    @wants("iperf3")
    def test_iperf3_sends_both_ways(self):
        with background(SERVER, "iperf3", "-s", "-B", SERVER4), self.chain():
            wait_for("iperf3", lambda: listens(SERVER, SERVER4, 5201))
            for way in ([], ["-R"], ["-P", "4"], ["-u", "-b", "20M"]):
                report = self.iperf3("-c", SERVER4, *way)
                end = report["end"]
                if "-u" in way:
                    self.assertGreater(end["sum"]["packets"], 1_000)
                    self.assertLess(end["sum"]["lost_percent"], 50)
                else:
                    self.assertGreater(end["sum_received"]["bytes"], 10**6)
        self.assertGreater(self.report["packets_in"], 5_000)

    @wants("iperf3")
    def test_iperf3_sends_both_ways_by_ipv6(self):
        with background(SERVER, "iperf3", "-s", "-B", SERVER6), self.running():
            wait_for("iperf3", lambda: listens(SERVER, SERVER6, 5201))
            for way in ([], ["-R"]):
                report = self.iperf3("-6", "-c", SERVER6, *way)
                self.assertGreater(report["end"]["sum_received"]["bytes"],
                                   10**6)

    # --- DNS

    @wants("dig")
    @wants("dnsmasq")
    def test_dig_asks_by_udp_and_tcp(self):
        names = {f"host{i}.example": f"192.0.2.{i}" for i in range(1, 31)}
        words = [f"--address=/{name}/{address}"
                 for name, address in names.items()]
        with background(SERVER, "dnsmasq", "-k", "-p", "53", "--no-resolv",
                        "--no-hosts", "--conf-file=/dev/null", "--user=root",
                        "--pid-file", f"--listen-address={SERVER4}",
                        *words), self.chain():
            wait_for("dnsmasq", lambda: listens(SERVER, SERVER4, 53))
            for way in ("+notcp", "+tcp"):
                asked = [word for name in names for word in (name, "A")]
                said = told_by(CLIENT, "dig", f"@{SERVER4}", "+short", way,
                               *asked)
                self.assertEqual(said.split(), list(names.values()))
        self.check_every_packet_left()

    # --- HTTP

    @contextlib.contextmanager
    def nginx(self, address):
        """nginx gives out the files of the folder."""
        host = f"[{address}]" if ":" in address else address
        config = self.folder / "nginx.conf"
        config.write_text(
            f"user root; daemon off; pid {self.folder}/nginx.pid;\n"
            f"error_log {self.folder}/error.log;\n"
            "events { worker_connections 4096; }\n"
            "http { access_log off; keepalive_requests 100000;\n"
            f"  client_body_temp_path {self.folder}/a;\n"
            f"  proxy_temp_path {self.folder}/b;\n"
            f"  fastcgi_temp_path {self.folder}/c;\n"
            f"  uwsgi_temp_path {self.folder}/d;\n"
            f"  scgi_temp_path {self.folder}/e;\n"
            f"  server {{ listen {host}:80 backlog=4096;"
            f" root {self.folder}; dav_methods PUT;"
            " client_max_body_size 1g; } }\n")
        with background(SERVER, "nginx", "-c", config, "-p", self.folder):
            wait_for("nginx", lambda: listens(SERVER, address, 80))
            yield host

    def files(self, *sizes):
        """Their SHA-256 by name."""
        sums = {}
        for size in sizes:
            data = random.Random(size).randbytes(size)
            (self.folder / f"{size}.bin").write_bytes(data)
            sums[f"{size}.bin"] = hashlib.sha256(data).hexdigest()
        return sums

    def check_curl(self, host, sums):
        for name, right in sums.items():
            got = subprocess.run(
                inside(CLIENT, "curl", "-sS", "--globoff",
                       f"http://{host}/{name}"),
                capture_output=True, timeout=3 * PATIENCE_S, check=False)
            self.assertEqual(got.returncode, 0, got.stderr)
            self.assertEqual(hashlib.sha256(got.stdout).hexdigest(), right,
                             name)

    @wants("nginx")
    @wants("curl")
    def test_curl_gets_files_of_1_kb_to_100_mb(self):
        sums = self.files(1_000, 10_000, 100_000, 1_000_000, 100_000_000)
        with self.nginx(SERVER4) as host, self.chain():
            self.check_curl(host, sums)
        self.assertGreater(self.report["ports"]["outside"]["merged"], 0)

    @wants("nginx")
    @wants("curl")
    def test_curl_gets_files_by_ipv6(self):
        sums = self.files(1_000, 1_000_000, 20_000_000)
        with self.nginx(SERVER6) as host, self.running(
                "--nf=firewall | monitor"):
            self.check_curl(host, sums)
        self.check_every_packet_left()

    @wants("nginx")
    @wants("curl")
    def test_curl_sends_a_file(self):
        sent = self.folder / "sent.bin"
        sent.write_bytes(random.Random(7).randbytes(20_000_000))
        with self.nginx(SERVER4) as host, self.chain():
            said = told_by(CLIENT, "curl", "-sS", "-o", "/dev/null", "-w",
                           "%{http_code}", "-T", sent,
                           f"http://{host}/came.bin")
        self.assertEqual(said, "201")
        self.assertEqual((self.folder / "came.bin").read_bytes(),
                         sent.read_bytes())

    # --- Many at a time

    def test_1000_connections_at_one_time(self):
        with self.server(), self.chain("--unit_capacity=50Mbps",
                                       "--unit_start_delay=1ms"):
            self.assertEqual(peer(CLIENT, "tcp", SERVER4, 1_000, 5_000),
                             ["1000 right"])
        self.assertGreaterEqual(self.report["aliases"]["granted"], 1_000)
        self.check_every_packet_left()

    # --- Fragments

    def test_fragments_both_ways_through_the_chain(self):
        lengths = [1_473, 4_000, 20_000, 60_000]
        with self.server(), self.chain():
            self.check_udp(CLIENT, SERVER4, lengths)
        self.check_every_packet_left()
        self.assertGreater(self.report["packets_in"], 2 * 60_000 / 1_480)

    def test_fragments_of_ipv6(self):
        with self.server(SERVER6), self.running("--nf=firewall | monitor"):
            self.check_udp(CLIENT, SERVER6, [1_453, 4_000, 20_000])
        self.check_every_packet_left()

    # --- ssh

    @wants("sshd")
    @wants("ssh")
    def test_an_ssh_session(self):
        key, host_key = self.folder / "id", self.folder / "host"
        for path in (key, host_key):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "",
                            "-f", path], check=True)
        os.chmod(self.folder, 0o700)
        config = self.folder / "sshd_config"
        config.write_text(
            f"ListenAddress {SERVER4}\nHostKey {host_key}\nPidFile none\n"
            f"AuthorizedKeysFile {key}.pub\nStrictModes no\nUsePAM no\n"
            "PermitRootLogin yes\nPasswordAuthentication no\n")
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        with background(SERVER, shutil.which("sshd"), "-D", "-e", "-f",
                        config), self.chain():
            wait_for("sshd", lambda: listens(SERVER, SERVER4, 22))
            said = told_by(
                CLIENT, "ssh", "-F", "none", "-i", key, "-o",
                "StrictHostKeyChecking=no", "-o",
                f"UserKnownHostsFile={self.folder}/known", "-o",
                "BatchMode=yes", f"root@{SERVER4}",
                "echo $SSH_CONNECTION; seq 100000 | sha256sum")
        right = hashlib.sha256(
            "".join(f"{i}\n" for i in range(1, 100_001)).encode()).hexdigest()
        self.assertIn(EXTERNAL4, said)
        self.assertNotIn(CLIENT4, said)
        self.assertIn(right, said)
        self.check_every_packet_left()


# What run_test.py tests itself.
for name in [name for name in dir(net.Run) if name.startswith("test_")]:
    setattr(Traffic, name, None)


if __name__ == "__main__":
    net.main("Traffic")

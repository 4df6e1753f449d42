#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The NF vpn between live interfaces: the other end of its tunnel is the
server's kernel, and for kernels without ESP a script, vpn_peer.py.

    client  eth0 ── lan0 [ snf run ] wan0 ── eth0 server
    10.1.0.5             10.77.0.1 ══ ESP ══ 10.77.0.3   10.2.0.9

Wants root, and is skipped without.

Usage: vpn_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import hashlib
import os
import random
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import run_test as net
from run_test import CLIENT, MIDDLE, SERVER, ip, peer

LOCAL, NEAR, FAR = "10.77.0.1", "10.1.0.5", "10.2.0.9"
SPI_IN, SPI_OUT = "0x1000", "0x2000"  # as SNF has them
KEY_IN, KEY_OUT = 36 * "c1", 20 * "5d"  # of AES-256 and AES-128, with salts
VPN_PEER = str(net.pathlib.Path(__file__).resolve().with_name("vpn_peer.py"))


class Vpn(net.Run):
    def setUp(self):
        super().setUp()
        data = random.Random(2).randbytes(5_000_000)
        (self.folder / "file.bin").write_bytes(data)
        self.hash = hashlib.sha256(data).hexdigest()
        ip("-n", CLIENT, "addr", "add", f"{NEAR}/32", "dev", "eth0")
        ip("-n", CLIENT, "route", "add", "10.2.0.0/16", "dev", "eth0", "src",
           NEAR)
        self.knows(CLIENT, FAR, SERVER)
        self.knows(SERVER, LOCAL, CLIENT)

    @staticmethod
    def knows(host, address, other):
        ip("-n", host, "neigh", "replace", address, "lladdr",
           net.address_of_card(other), "dev", "eth0", "nud", "permanent")

    def nf(self, more=""):
        file = self.folder / "tunnels"
        file.write_text(
            f"far local={LOCAL} peer={net.SERVER4} spi_in={SPI_IN} "
            f"spi_out={SPI_OUT} key_in={KEY_IN} key_out={KEY_OUT} "
            f"inside=10.1.0.0/16 remote=10.2.0.0/16 {more}\n")
        file.chmod(0o600)
        return f"--nf=vpn:tunnels={file},other=pass"

    def check_talk(self):
        """Pings and bytes both ways, of which none are seen in plain text."""
        self.assertEqual(len(peer(CLIENT, "ping", FAR, 5)), 5)
        self.assertEqual(peer(CLIENT, "get", FAR, "file.bin"), [self.hash])
        self.assertEqual(peer(CLIENT, "tcp", FAR, 4, 1_000_000), ["4 right"])

    def check_report(self, kinds=()):
        counters = self.report["counters"]
        self.assertGreater(counters["in far"], 6_000)
        self.assertGreater(counters["out far"], 4_000)
        dropped = {reason for reason, count
                   in self.report["packets_dropped"].items() if count}
        # The client's first long packets, until it knows the tunnel's MTU.
        self.assertEqual(dropped - {"nf:too_big"}, set(kinds))
        self.assertNotIn(KEY_IN[:8], self.output + self.errors)
        report = (self.folder / "report.json").read_text()
        self.assertNotIn(KEY_IN[:8], report)
        self.assertNotIn(KEY_OUT[:8], report)

    # --- The kernel

    def kernel_has_esp(self):
        """Adds the associations to the server's kernel."""
        ends = ((net.SERVER4, LOCAL, SPI_IN, KEY_IN, "out",
                 "10.2.0.0/16", "10.1.0.0/16"),
                (LOCAL, net.SERVER4, SPI_OUT, KEY_OUT, "in",
                 "10.1.0.0/16", "10.2.0.0/16"))
        try:
            for source, to, spi, key, way, inner, inner_to in ends:
                ip("-n", SERVER, "xfrm", "state", "add", "src", source, "dst",
                   to, "proto", "esp", "spi", spi, "mode", "tunnel",
                   "replay-window", "128", "aead", "rfc4106(gcm(aes))",
                   "0x" + key, "128")
                ip("-n", SERVER, "xfrm", "policy", "add", "src",
                   inner, "dst", inner_to, "dir", way, "tmpl", "src", source, "dst", to, "proto", "esp", "mode", "tunnel")
        except OSError as error:
            self.skipTest(f"this kernel has no ESP with AES-GCM: {error}")

    def test_talks_to_a_kernel(self):
        self.kernel_has_esp()
        ip("-n", SERVER, "addr", "add", f"{FAR}/32", "dev", "lo")
        ip("-n", SERVER, "route", "add", "10.1.0.0/16", "via", LOCAL, "src",
           FAR)
        with net.serving(self.folder, FAR), self.running(self.nf()):
            self.check_talk()
        self.check_report()

    # --- The script

    @contextlib.contextmanager
    def script(self, *words, spi_in=SPI_IN, key_in=KEY_IN):
        process = subprocess.Popen(
            net.inside(SERVER, sys.executable, VPN_PEER, "tun0", LOCAL,
                       SPI_OUT, KEY_OUT, spi_in, key_in, *words),
            stdout=subprocess.PIPE)
        try:
            self.assertEqual(process.stdout.readline(), b"ready\n")
            self.give_way_through_script()
            yield
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    @staticmethod
    def give_way_through_script():
        ip("-n", SERVER, "link", "set", "tun0", "addrgenmode", "none", "up")
        ip("-n", SERVER, "addr", "add", f"{FAR}/32", "dev", "tun0")
        # The client may send long segments, to learn that they are too long.
        ip("-n", SERVER, "route", "add", "10.1.0.0/16", "dev", "tun0", "mtu",
           "1400", "advmss", "1460", "src", FAR)

    def talk_to_script(self, more="", twice=1 << 40, port=(), mtu=1_446):
        with self.script(twice, *port), net.serving(self.folder, FAR), \
                self.running(self.nf(more)):
            self.check_talk()
            self.check_client_knows(mtu)

    def test_talks_to_another_program(self):
        self.talk_to_script()
        self.check_report()
        self.assertGreater(self.report["counters"]["too_big"], 0)

    def test_talks_through_udp(self):
        self.talk_to_script("udp=4500", port=(4_500,), mtu=1_438)
        self.check_report()

    def test_takes_nothing_twice(self):
        self.talk_to_script(twice=10)
        self.check_report(["nf:replayed"])
        self.assertGreater(self.report["packets_dropped"]["nf:replayed"], 500)

    def test_ports_with_addresses_route_what_comes_by_the_tunnel(self):
        ip("-n", CLIENT, "-4", "addr", "flush", "dev", "eth0")
        ip("-n", CLIENT, "addr", "add", f"{NEAR}/24", "dev", "eth0")
        ip("-n", CLIENT, "route", "add", "default", "via", "10.1.0.1")
        ip("-n", SERVER, "neigh", "del", LOCAL, "dev", "eth0")
        ports = ["--port", "inside=lan0,address=10.1.0.1/24", "--port",
                 f"outside=wan0,address=10.77.0.9/24,proxy={LOCAL}"]
        with self.script(1 << 40), net.serving(self.folder, FAR), \
                self.running(self.nf(), ports=ports):
            self.check_talk()
            self.check_client_knows(1_446)
        self.check_report()

    def check_client_knows(self, mtu):
        """The answer to what was too long reached the client."""
        route = subprocess.run(
            net.inside(CLIENT, "ip", "route", "get", FAR), text=True,
            capture_output=True, check=True).stdout
        self.assertIn(f"mtu {mtu}", route)

    def test_new_keys_take_the_place_of_old_ones(self):
        name = f"--name=vpn-{os.getpid()}"

        def snf(word, *words):
            done = subprocess.run(
                net.in_network(MIDDLE, net.PROGRAM, *word.split(), name,
                               *words), capture_output=True, text=True,
                timeout=net.PATIENCE_S, check=False)
            self.assertEqual(done.returncode, net.OK, done.stderr)
        snf("up", *net.PORTS, self.nf())
        try:
            with self.script(1 << 40):
                self.assertEqual(len(peer(CLIENT, "ping", FAR, 3)), 3)
            new = self.folder / "new"
            new.write_text((self.folder / "tunnels").read_text()
                           .replace(SPI_IN, "0x1001")
                           .replace(KEY_IN, 36 * "c2"))
            snf("chain set", f"vpn:tunnels={new},other=pass", "--within=100ms")
            with self.script(1 << 40, spi_in="0x1001", key_in=36 * "c2"):
                # The number to the peer begins again, and its script has no
                # window.
                net.wait_for("a ping", lambda: len(
                    peer(CLIENT, "ping", FAR, 1)) == 1)
        finally:
            snf("down")


# The tests of run_test.py run there.
for inherited in [name for name in dir(net.Run) if name.startswith("test_")]:
    setattr(Vpn, inherited, None)

if __name__ == "__main__":
    net.main("Vpn")

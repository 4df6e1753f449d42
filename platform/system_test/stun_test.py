#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What clients of others say of the NAT, asking a STUN server outside of it:
coturn's natdiscovery (RFC 5780) and stun-client's (RFC 3489). nfs/nat.md says
what they are to find.

    client eth0 ── lan0 [ snf run ] wan0 ── eth0 server, with two addresses

Wants root, coturn and stun-client, and is skipped without.

Usage: stun_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import run_test as net
from command_case import PATIENCE_S, wait_for
from run_test import CLIENT, SERVER, SERVER4, EXTERNAL4, inside, ip

OTHER4 = "10.77.0.4"
PROGRAMS = ("turnserver", "turnutils_natdiscovery", "stun")
# What natdiscovery calls each option of filtering=.
FILTERINGS = {"endpoint_independent": "Endpoint Independent",
              "address_dependent": "Address Dependent",
              "address_and_port_dependent": "Address and Port Dependent"}
# What stun-client calls them, with its test of hairpinning, by a socket that has
# not been sent to.
KINDS = {"endpoint_independent": "Independent Mapping, Independent Filter",
         "address_dependent": "Independent Mapping, Address Dependent Filter",
         "address_and_port_dependent":
             "Independent Mapping, Port Dependent Filter"}


def why_absent():
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"wants coturn and stun-client: no {', '.join(absent)}" if absent \
        else ""


class Stun(net.Run):
    def setUp(self):
        if why := why_absent():
            self.skipTest(why)
        super().setUp()
        ip("-n", SERVER, "addr", "add", f"{OTHER4}/24", "dev", "eth0")
        # As routers would send it there, from both sides.
        for namespace, other in ((SERVER, CLIENT), (CLIENT, SERVER)):
            ip("-n", namespace, "neigh", "add", EXTERNAL4, "lladdr",
               net.address_of_card(other), "dev", "eth0", "nud", "permanent")
        self.begin_server()

    def begin_server(self):
        server = subprocess.Popen(
            inside(SERVER, "turnserver", "-n", "-S", "-L", SERVER4, "-L",
                   OTHER4, "--no-tls", "--no-dtls", "--no-cli", "--pidfile",
                   self.folder / "pid", "--db", self.folder / "db",
                   "--log-file", "stdout", "--simple-log"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def end():
            server.kill()
            server.wait()
        self.addCleanup(end)

        def listens():
            sockets = subprocess.run(inside(SERVER, "ss", "-lun"),
                                     capture_output=True, text=True,
                                     check=True).stdout
            return all(f"{address}:{port}" in sockets
                       for address in (SERVER4, OTHER4)
                       for port in (3478, 3479))
        wait_for("STUN server", listens)

    def asked(self, *words):
        """What natdiscovery says."""
        done = subprocess.run(
            inside(CLIENT, "turnutils_natdiscovery", *words, SERVER4),
            capture_output=True, text=True, timeout=2 * PATIENCE_S,
            check=False)
        return done.stdout

    def check(self, filtering):
        nat = (f"--nf=firewall | monitor | "
               f"nat(ip={EXTERNAL4},filtering={filtering})")
        with self.running(nat):
            said = self.asked("-m", "-f")
            self.assertEqual(
                re.findall(r"^NAT with (.*)!", said, re.M),
                ["Endpoint Independent Mapping",
                 f"{FILTERINGS[filtering]} Filtering"], said)
            # Each time it was seen with the NAT's address.
            seen = set(re.findall(r"reflexive addr: ([\d.]+):", said))
            self.assertEqual(seen, {EXTERNAL4})
            old = subprocess.run(inside(CLIENT, "stun", SERVER4),
                                 capture_output=True, text=True,
                                 timeout=2 * PATIENCE_S, check=False).stdout
            self.assertIn(KINDS[filtering], old)
            if filtering == "endpoint_independent":
                self.assertIn("will hairpin", old)

    def test_filtering_is_endpoint_independent(self):
        self.check("endpoint_independent")

    def test_filtering_depends_on_the_address(self):
        self.check("address_dependent")

    def test_filtering_depends_on_address_and_port(self):
        self.check("address_and_port_dependent")

    def test_hairpins(self):
        with self.running(f"--nf=nat(ip={EXTERNAL4})"):
            self.assertIn("successful hairpinning", self.asked("-H"))


# The tests of the network between two hosts are those of run_test.py.
for inherited in [name for name in dir(net.Run) if name.startswith("test_")]:
    setattr(Stun, inherited, None)

if __name__ == "__main__":
    net.main()

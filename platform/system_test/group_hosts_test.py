#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A group of controllers whose units run on hosts that have joined.

    client eth0 ── lan0 [ snf up: NAME.0, NAME.1 ] wan0 ── eth0 server
                             eth0 ── eth0 [ hosts b and c ]

Each controller has a part of each host's units. Wants root and etcd, and is
skipped without, and without SNF_LONG_TESTS=1.

Usage: group_hosts_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import json
import os
import pathlib
import signal
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import group_test
import run_test as net
from command_case import OK, PROGRAM, wait_for
from daemon_case import soaking
from etcd_peer import skip_without_etcd
from group_test import NAME
from host_pair import AWAY, AWAY_ADDRESS, HOME_ADDRESS
from joined_hosts import JoinedHosts
from run_test import CLIENT, EXTERNAL4, MIDDLE, ip

is_long = unittest.skipUnless(os.environ.get("SNF_LONG_TESTS"), "takes long")
STAY = 8  # connections of soaking. One that began in the last sweep is lost
BOTH = {0, 1}
WANT_HOSTS = ("--own_units=1", "--isolation=process", "--loggers=on",
              "--policy=rotate", "--max_units=3", "--start_buffer=100000",
              "--unit_queue=100000")


class GroupHosts(JoinedHosts, group_test.Shared):
    chain = f"--nf=firewall | nat(ip={EXTERNAL4})"

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.inside = net.in_network(MIDDLE)
        self.at = f"--etcd={self.etcd.endpoint}"
        ip("netns", "add", AWAY)
        self.addCleanup(ip, "netns", "del", AWAY)
        ip("-n", MIDDLE, "link", "add", "eth0", "type", "veth", "peer", "eth0",
           "netns", AWAY)
        for name, address in ((MIDDLE, HOME_ADDRESS), (AWAY, AWAY_ADDRESS)):
            ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")

    def report_of(self, number):
        return self.folder / f"{number}.json"

    def up_both(self, *flags):
        for number in BOTH:
            self.up(number, f"--controller={number}/2",
                    f"--json={self.report_of(number)}", *flags)
        self.await_all(BOTH)

    def hosts_of(self, number):
        """The state of each host, and how many of its units are this one's."""
        return {host["name"]: (host["state"], host["units"])
                for host in self.status(number).get("host", [])}

    def packets(self, number):
        """How many packets left units on each host; "": the own one."""
        units = json.loads(self.snf(number, "units", "--json").stdout)
        packets = {}
        for unit in units.get("unit", []):
            host = unit.get("host", "")
            packets[host] = packets.get(host, 0) + int(unit.get("packets", 0))
        return packets

    def await_packets(self, number, hosts):
        """Waits until units on these hosts have run more packets than now."""
        before = self.packets(number)
        try:
            wait_for(f"packets on {hosts}", lambda: all(
                self.packets(number).get(host, 0) > before.get(host, 0) + 20
                for host in hosts))
        except AssertionError as error:
            status = self.snf(number, "status").stdout
            self.fail(f"{error}: {before}, {self.packets(number)}; {status}; "
                      f"{self.log(number)[-2_000:]}")

    def owner(self):
        """The controller that has the client's packets."""
        before = {number: self.count(number) for number in BOTH}
        return wait_for("packets", lambda: [
            number for number in BOTH
            if self.count(number) > before[number] + 100])[0]

    def states(self, number, name):
        return self.group(number)["counts"]["states_" + name]

    def await_copies(self, victim, heir):
        """The heir has all connections, as of less than some rounds ago."""
        wait_for("states", lambda: self.states(heir, "kept") >= STAY)
        sent = self.states(victim, "sent")
        wait_for("newer states", lambda: self.states(victim, "sent") >
                 sent + 4 * STAY)

    def begin_group(self, wire, *flags):
        """Both hosts join, and both controllers have units on each."""
        agents = {}
        for host in ("b", "c"):
            agents[host] = self.serve(host, *wire)
            self.join(host, "--units=2", "--term=60s", *wire)
        self.up_both(*WANT_HOSTS, *flags)
        for number in BOTH:
            wait_for("hosts", lambda n=number: self.hosts_of(n) ==
                     {"b": ("joined", 1), "c": ("joined", 1)})
        return agents

    def find_victim(self):
        """The controller that has the connections, and its heir."""
        victim = self.owner()
        self.await_packets(victim, ("", "b", "c"))
        self.await_copies(victim, 1 - victim)
        return victim, 1 - victim

    def await_taken(self, heir):
        wait_for("heir", lambda: self.agree([heir]))
        wait_for("flows", lambda: self.states(heir, "taken") >= STAY)

    def check_connections_go_on(self, wire, *flags):
        agents = self.begin_group(wire, *flags)
        with soaking(self, some_come="no"):
            victim, heir = self.find_victim()
            os.kill(self.pid(victim), signal.SIGKILL)
            self.await_taken(heir)
            self.await_packets(heir, ("b", "c"))
            self.end_all(agents["b"])
            wait_for("silence", lambda: self.hosts_of(heir)["b"][0] == "silent")
            self.await_packets(heir, ("", "c"))
        self.check_report(heir)

    def check_report(self, number):
        self.assertEqual(self.states(number, "untaken"), 0)
        done = self.snf(number, "down")
        self.assertEqual(done.returncode, OK, done.stderr)
        path = self.report_of(number)
        wait_for("report", path.exists)
        report = json.loads(path.read_text())
        self.assertTrue(report["conserved"])
        self.assertEqual(report["violation_messages"], [])
        # The units of the host that was lost.
        self.assertGreater(report["faults"]["failures"], 0)
        return report["faults"]

    @is_long
    def test_connections_go_on_at_the_heirs_units(self):
        self.check_connections_go_on(())

    @is_long
    def test_connections_go_on_at_the_heirs_units_by_geneve(self):
        self.check_connections_go_on(("--geneve",), "--host_wire=geneve")

    @is_long
    def test_connections_go_on_if_a_host_dies_with_the_controller(self):
        agents = self.begin_group(())
        with soaking(self, some_come="no"):
            victim, heir = self.find_victim()
            os.kill(self.pid(victim), signal.SIGKILL)
            # The heir begins to take flows before it misses the host.
            time.sleep(group_test.SILENCE_S - 0.7)
            self.end_all(agents["b"])
            self.await_taken(heir)
            wait_for("silence", lambda: self.hosts_of(heir)["b"][0] == "silent")
            self.await_packets(heir, ("", "c"))
            returned = self.states(heir, "returned")
        given_up = self.check_report(heir)["flows_given_up"]
        print(f"note: {returned} of {given_up} flows that were given up were "
              "taken once more")


if __name__ == "__main__":
    skip_without_etcd()
    net.main()

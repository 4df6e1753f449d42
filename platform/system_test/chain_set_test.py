#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf chain set` and `snf nf deploy` while connections go through a daemon.

Wants root, and is skipped without.

Usage: chain_set_test.py PROGRAM SOURCE_DIR MODULE [TEST…]
"""

import contextlib
import json
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import control_test as control
import live_kills_test as live_kills
import run_test as net
from command_case import OK, PATIENCE_S, USAGE, below, run, wait_for
from control_test import FOLDER, NAME, UNAVAILABLE, processes, status
from kept_connection import Connected, snf
from run_test import (CLIENT, EXTERNAL4, MIDDLE, PORTS, PROGRAM, SERVER,
                      SERVER4, in_network, ip, peer)

MODULE = pathlib.Path(sys.argv[3])
NF_FAILED = 3
NAT = f"nat(ip={EXTERNAL4})"


class Chains(Connected, unittest.TestCase):
    """A daemon between a client and a server."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(net.remove_network)
        self.addCleanup(control.Control.end)
        net.make_network()
        control.Control.silence_ipv6()
        # To the server, the NAT's address is the client's card.
        ip("-n", SERVER, "neigh", "add", EXTERNAL4, "lladdr",
           net.address_of_card(CLIENT), "dev", "eth0", "nud", "permanent")
        self.server = contextlib.ExitStack()
        self.server.enter_context(net.serving(self.folder, SERVER4))
        self.addCleanup(self.server.close)

    def up(self, *words):
        done = snf("up", *PORTS, f"--json={self.folder}/report.json", *words)
        self.assertEqual(done.returncode, OK, done.stderr)

    def deploy(self, file, *words):
        done = snf("nf", "deploy", file, *words, "--json")
        self.assertEqual(done.returncode, OK, done.stderr)
        return json.loads(done.stdout)

    def refused(self, code, words, *command):
        done = snf(*command)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    @staticmethod
    def chains():
        return {chain["number"]: chain for chain in status()["chain"]}

    def down(self):
        """The report; nothing is left."""
        done = snf("down")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(list(FOLDER.glob(f"{NAME}*")), [])
        report = json.loads((self.folder / "report.json").read_text())
        self.assertTrue(report["conserved"])
        self.assertEqual(report["violations"], 0)
        for chain in report.get("earlier_chains", []):
            self.assertTrue(chain["conserved"], chain)
            self.assertEqual(chain["violations"], 0)
        return report


class ChainSet(Chains):
    # --- What is promised

    def check_hand_over(self, *flags):
        self.up(f"--nf={NAT}", *flags)
        old = self.connection()
        self.assertEqual(old.says(), "right")
        reply = self.set(f"firewall | {NAT}")
        self.assertEqual((reply["number"], reply["is_new"],
                          reply["older_flows"]), (2, True, 1))
        # The connection stays with its chain, a new one goes to the other; and
        # many more, none of which gets the old one's port.
        new = self.connection()
        before = wait_for("figures", lambda: len(self.chains()) == 2 and
                          self.chains()[2]["flows"] == 1 and self.chains())
        for _ in range(10):
            self.assertEqual(old.says(), "right")
        self.assertEqual(peer(CLIENT, "tcp", SERVER4, 200, 1_000),
                         ["200 right"])
        self.assertEqual(new.says(), "right")
        # Figures may be half a second old.
        after = wait_for("figures", lambda: self.chains()[1]["packets_in"] >=
                         before[1]["packets_in"] + 20 and
                         self.chains()[2]["packets_in"] >
                         before[2]["packets_in"] + 1_000 and self.chains())
        self.assertEqual(after[1]["flows"], 1)
        self.assertEqual(status()["nf"], after[2]["nf"])
        self.assertIn("firewall", after[2]["nf"])
        # A third: both others go on.
        self.set(f"monitor | {NAT}")
        self.assertEqual([old.says(), new.says()], ["right", "right"])
        third = self.connection()
        # Those before are given up: what is left is the third's.
        self.set(f"monitor | {NAT}", "--within=0s")
        wait_for("one chain", lambda: set(self.chains()) == {4})
        fourth = self.connection()
        self.assertEqual(fourth.says(), "right")
        self.assertEqual(peer(CLIENT, "tcp", SERVER4, 50, 1_000),
                         ["50 right"])
        # Ports that the first chains had are the newest one's: all are there.
        third.close()
        return self.down()

    def test_flows_stay_with_their_chain_and_new_ones_take_the_next(self):
        report = self.check_hand_over()
        self.assertEqual([chain["number"]
                          for chain in report["earlier_chains"]], [1, 2, 3])

    def test_the_same_with_units_in_processes(self):
        before = len(processes())
        self.check_hand_over("--isolation=process")
        wait_for("end", lambda: len(processes()) == before)

    def test_chains_with_loggers_in_containers_outlive_kills(self):
        seed = random.randrange(1 << 30)
        print(f"seed {seed}")
        self.up(f"--nf={NAT}", "--isolation=lxc", *live_kills.STAY)
        pid, = processes()
        connections = [self.connection()]
        self.set(f"firewall | {NAT}")
        connections.append(self.connection())
        self.deploy(MODULE)
        self.set(f"misuse | {NAT}")
        connections.append(self.connection())
        # Any process of any chain, one after the other.
        with live_kills.Killer(pid, FOLDER / f"{NAME}.log",
                               rng=random.Random(seed)) as killer:
            def enough():
                for connection in connections:
                    self.assertEqual(connection.says(), "right")
                return (killer.kills[live_kills.UNITS] >= 4 and
                        killer.kills[live_kills.LOGGERS] >= 1)
            wait_for("kills", enough)
        print(killer.kills)
        wait_for("all of them", killer.all_are_well)
        # Another chain after that, and the end of all before.
        self.set("monitor", "--within=0s")
        self.assertEqual(self.connection().says(), "right")
        wait_for("one chain", lambda: set(self.chains()) == {4})
        report = self.down()
        self.assertEqual([chain["nf"] for chain in report["earlier_chains"]],
                         [NAT, f"firewall | {NAT}", f"misuse | {NAT}"])
        wait_for("end", lambda: not below(pid))

    def test_a_chain_ends_with_its_last_flow(self):
        self.up("--flow_timeout=2s", "--evict_after=1s")
        connection = self.connection()
        self.assertEqual(connection.says(), "right")
        self.set("firewall | monitor")
        self.assertEqual(set(self.chains()), {1, 2})
        wait_for("end of chain 1", lambda: set(self.chains()) == {2})
        # It was idle for longer than flows are kept: so it is a new one.
        self.assertEqual(connection.says(), "right")
        self.assertEqual(self.chains()[2]["nf"], "firewall | monitor")
        report = self.down()
        self.assertEqual(report["earlier_chains"][0]["nf"], "passthrough")

    def test_no_connection_breaks_while_chains_come_and_go(self):
        seed = random.randrange(1 << 30)
        print(f"seed {seed}")
        rng = random.Random(seed)
        self.up("--unit_capacity=100Mbps", "--unit_start_delay=1ms")
        log = FOLDER / f"{NAME}.log"
        connections = [self.connection() for _ in range(8)]
        chains = ["passthrough", "firewall | monitor", "monitor", "firewall"]
        for number in range(2, 12):
            # At most three older ones at a time: each third ends those before.
            flags = ["--within=0s"] if number % 3 == 0 else []
            self.assertEqual(self.set(rng.choice(chains), *flags)["number"],
                             number)
            for connection in rng.sample(connections, 4):
                self.assertEqual(connection.says(), "right")
            connections.append(self.connection())
            if rng.random() < 0.5:
                connections.pop(rng.randrange(len(connections))).close()
        for connection in connections:
            self.assertEqual(connection.says(), "right")
        ends = re.findall(r"chain \d+ .* has ended, .* took ([\d.]+) ms",
                          log.read_text())
        self.assertGreaterEqual(len(ends), 6)
        print(f"ends took {sorted(map(float, ends))} ms")
        report = self.down()
        dropped = {reason: packets for reason, packets
                   in report["packets_dropped"].items() if packets}
        self.assertEqual(dropped, {})
        ports = report["ports"]
        self.assertEqual(
            sum(ports[port]["kernel_drops"] for port in ("inside", "outside")),
            0)

    def test_a_named_chain_of_a_file(self):
        file = self.folder / "site.txt"
        file.write_text(
            'nf { name: "fw" type: "firewall" }\n'
            'chain { name: "office" text: "fw" unit_capacity: "50Mbps" }\n')
        self.up(f"--config={file}")
        self.refused(USAGE, ['no chain "lab"'], "chain", "set", "lab", "fw")
        reply = self.set("office", "fw | monitor")
        self.assertEqual(reply["nf"], "firewall | monitor")
        self.assertEqual(status()["unit_capacity_bps"], 50_000_000)
        self.assertEqual(self.connection().says(), "right")
        # What the file says now is not in force until a daemon takes it.
        file.write_text("chain {")
        self.assertEqual(self.set("office", "fw")["nf"], "firewall")
        self.assertEqual(status()["unit_capacity_bps"], 50_000_000)
        self.down()

    # --- What is refused

    def test_what_cannot_be_is_refused_and_the_old_chain_goes_on(self):
        self.up("--nf=monitor")
        connection = self.connection()
        other = self.folder / "other.so"
        (self.folder / "text.so").write_text("none")
        for words, *command in (
                (["no_such_nf"], "chain", "set", "no_such_nf"),
                (["character 11"], "chain", "set", "firewall |"),
                (["ip"], "chain", "set", "nat(ip=nonsense)"),
                (['no chain "office"'], "chain", "set", "office", "monitor"),
                (["one argument too many"], "chain", "set", "a", "b", "c"),
                (["none.so", "No such file"], "nf", "deploy",
                 str(self.folder / "none.so")),
                (["text.so", "ELF"], "nf", "deploy",
                 str(self.folder / "text.so"))):
            self.refused(USAGE, words, *command)
            self.assertEqual(connection.says(1_000), "right")
        # NFs of a module that fails when it is made.
        self.deploy(MODULE)
        for words, how in ((["misuse", "boom"], "throw_made"),
                           (["misuse", "SIGSEGV"], "segv_made")):
            self.refused(USAGE, words, "chain", "set", f"misuse(how={how})")
            self.assertEqual(connection.says(1_000), "right")
        self.check_other_abi(other)
        self.assertEqual(set(self.chains()), {1})
        self.assertEqual(status()["nf"], "monitor")
        self.down()

    def test_does_not_come_up_with_what_cannot_be(self):
        (self.folder / "text.so").write_text("none")
        for code, words, nf in (
                (USAGE, ["none.so", "No such file"], self.folder / "none.so"),
                (USAGE, ["text.so", "ELF"], self.folder / "text.so"),
                (NF_FAILED, ["misuse", "boom"], f"{MODULE}(how=throw_made)"),
                (NF_FAILED, ["misuse", "SIGSEGV"], f"{MODULE}(how=segv_made)")):
            self.refused(code, words, "up", *PORTS, f"--nf={nf}")
            self.assertEqual(list(FOLDER.glob(f"{NAME}*")), [])

    def check_other_abi(self, other):
        """A module that says that another compiler made it (nf_abi.h)."""
        data = bytearray(MODULE.read_bytes())
        at = data.index(b"SNF-ABI\0" + struct.pack("<I", 1)) + 16
        self.assertEqual(data[at:at + 4], b"gcc ")
        data[at:at + 3] = b"gdc"
        other.write_bytes(data)
        self.refused(USAGE, ["other.so", "gdc"], "nf", "deploy", str(other))

    def test_no_more_than_so_many_chains_at_a_time(self):
        self.up()
        connections = [self.connection()]
        for _ in range(3):
            self.set("monitor")
            connections.append(self.connection())
        self.refused(UNAVAILABLE, ["3 older chains", "--within"], "chain",
                     "set", "monitor")
        for connection in connections:
            self.assertEqual(connection.says(), "right")
        self.down()

    # --- Modules

    def test_a_module_that_does_not_come_back_leaves_control(self):
        """Its NF ignores all signals that can be ignored, and never is made."""
        self.up("--nf=monitor")
        self.deploy(MODULE)
        stuck = "misuse(how=deaf_made)"
        self.refused(USAGE, ["was killed after 10 s"], "chain", "set", stuck)
        self.set("passthrough")
        # The daemon ends while one more is tried, and does not wait for it.
        with subprocess.Popen(
                in_network(MIDDLE, PROGRAM, "chain", "set", stuck,
                           f"--name={NAME}"), stderr=subprocess.PIPE,
                text=True) as sets:
            time.sleep(1)  # its trial takes ten
            begin = time.monotonic()
            self.down()
            self.assertLess(time.monotonic() - begin, 8)
            sets.communicate(timeout=PATIENCE_S)
            self.assertNotEqual(sets.returncode, OK)

    def test_a_module_that_prints_cannot_fill_the_log(self):
        """2.2 MB on stderr, of lines in the daemon's name."""
        for isolation in ("process", "lxc"):
            with self.subTest(isolation=isolation):
                self.up(f"--isolation={isolation}", "--threads=2",
                        f"--nf={MODULE}(how=print)")
                connection = self.connection()
                self.assertEqual(connection.says(), "right")
                log = FOLDER / f"{NAME}.log"
                lines = wait_for("lines", lambda: [
                    line for line in log.read_text().splitlines()
                    if "trusted" in line])
                for line in lines:
                    self.assertRegex(line, r"Z warning: unit loop 0 \(process "
                                     r"\d+\) printed: info: set trusted=yes")
                time.sleep(0.5)
                self.assertLess(log.stat().st_size, 10_000)
                self.assertEqual(connection.says(), "right")
                self.down()

    def test_deploys_a_module_and_then_a_newer_one(self):
        file = self.folder / "misuse.so"
        shutil.copy(MODULE, file)
        self.up("--isolation=process")
        old = self.connection()
        reply = self.deploy(file)
        self.assertEqual((reply["is_new"], reply["module_nf"]),
                         (False, "misuse"))
        self.assertEqual(self.set("misuse | monitor")["number"], 2)
        first = self.connection()
        # The file may change: what runs is a copy. Then it is deployed again.
        file.write_bytes(b"")
        self.assertEqual([old.says(), first.says()], ["right", "right"])
        shutil.copy(MODULE, file)
        reply = self.deploy(file)
        self.assertEqual((reply["is_new"], reply["number"], reply["nf"]),
                         (True, 3, "misuse | monitor"))
        second = self.connection()
        for connection in (old, first, second):
            self.assertEqual(connection.says(), "right")
        # A daemon of what is shown would load the file that was deployed.
        shown = self.folder / "shown.conf"
        shown.write_text(snf("config", "show").stdout)
        self.assertIn(f'text: "{file} | monitor"', shown.read_text())
        for words in (("check", shown), ("show", f"--config={shown}")):
            done = run("config", *words)  # no daemon is asked
            self.assertEqual(done.returncode, OK, done.stderr)
        self.assertIn(f'text: "{file} | monitor"', done.stdout.decode())
        self.assertEqual(
            {number: chain["flows"] for number, chain
             in wait_for("figures", lambda: self.chains()[3]["flows"] and
                         self.chains()).items()}, {1: 1, 2: 1, 3: 1})
        self.down()


if __name__ == "__main__":
    reason = net.why_skipped()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(net.SKIPPED)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    net.remove_remains()
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])

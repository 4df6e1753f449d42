#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Live traffic for long: units with a capacity that come and go with the load,
and are killed, as are the loggers; no connection breaks, and no process grows.

    client eth0 ── lan0 [ snf up, units, loggers ] wan0 ── eth0 server

Wants root, and is skipped without. SNF_SOAK_SECONDS=n lets it go on for so long
rather than 15 s; SNF_TEST_SEED=n begins the random numbers otherwise.

Usage: live_soak_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # nothing beside the sources
import control_test
import run_test as net
from command_case import below
from control_test import FOLDER, NAME, processes
from live_kills_test import UNITS, Killer
from run_test import CLIENT, EXTERNAL4, PEER, SERVER, SERVER4, inside, ip

SEED = int(os.environ.get("SNF_TEST_SEED", time.time_ns() % 1_000_000))
SECONDS = float(os.environ.get("SNF_SOAK_SECONDS", 15))
# Nobody is killed in the last third, so that units live for some time, too.
KILLS_S = SECONDS * 2 / 3
# Within so long a process has touched the memory that it works with. What it
# takes beyond that is growth; of it, tables that hash have pages left that no
# flow has met, and a sample of what units did is kept each 100 ms.
WARM_UP_S = SECONDS / 3
MOST_GROWTH_KB = 6_000
MOST_GROWTH_OF_OTHERS_KB = 2_000
# A new connection is a flow each way at most, which meets a page in each of
# three hashed tables of a unit. Those of a process have no more than so much.
PAGES_OF_CONNECTION_KB = 2 * 3 * 4
HASHED_TABLES_KB = 30_000


def private_kb(pid):
    """Memory that is the process's own; None if it has ended."""
    try:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return None
    sizes = dict(line.split(":") for line in text.splitlines()[1:])
    return sum(int(sizes[key].split()[0])
               for key in ("Private_Clean", "Private_Dirty"))


def descriptors(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None


class DaemonKiller(Killer):
    """Leaves loggers to the daemon, which knows whether they can be spared."""

    REST_OF_LOGGERS_S = 0

    def __init__(self, pid, said, **options):
        super().__init__(pid, said, **options)
        self.refused = 0

    def kill(self, name, pid):
        if name == UNITS:
            return super().kill(name, pid)
        done = control_test.snf("kill", "loggers")
        self.refused += done.returncode != 0
        return done.returncode == 0


class Soak(control_test.Control):
    def setUp(self):
        super().setUp()
        ip("-n", SERVER, "neigh", "replace", EXTERNAL4, "lladdr",
           net.address_of_card(CLIENT), "dev", "eth0", "nud", "permanent")

    @staticmethod
    def talk():
        """A peer that talks at changing rates by long connections and short
        ones, until its stdin is closed."""
        return subprocess.Popen(
            inside(CLIENT, sys.executable, PEER, "soak", SERVER4, 20, SEED),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)

    def sample(self, pid, samples):
        """Memory of the daemon, the launcher, units and loggers, by process."""
        self.last_sample = time.monotonic()
        for each in [pid, *below(pid)]:
            size = private_kb(each)
            if size is not None:
                samples[each].append(
                    (self.last_sample, size, descriptors(each)))

    def test_carries_traffic_for_long_while_processes_die(self):
        self.up("--isolation=process", "--loggers=on", "--threads=4",
                f"--nf=firewall | monitor | nat(ip={EXTERNAL4})",
                "--unit_capacity=20Mbps", "--unit_start_delay=1ms",
                "--max_units=6", f"--json={self.folder}/report.json")
        pid, = processes()
        samples = collections.defaultdict(list)
        with self.server():
            talker = self.talk()
            self.addCleanup(talker.kill)
            begin = time.monotonic()
            log = FOLDER / f"{NAME}.log"

            def go_on(seconds):
                while (time.monotonic() - begin < seconds
                       and talker.poll() is None):
                    self.sample(pid, samples)
                    time.sleep(0.25)
            with DaemonKiller(pid, log, rng=random.Random(SEED)) as killer:
                go_on(KILLS_S)
            go_on(SECONDS)
            tail = log.read_text()[-2_000:]
            said, wrong = talker.communicate(input="", timeout=120)
        self.assertEqual(talker.returncode, 0, wrong + tail)
        talked = json.loads(said)
        daemon = samples.pop(pid)
        report = self.down()
        print(f"SNF_TEST_SEED={SEED}: {time.monotonic() - begin:.0f} s, kills "
              f"{killer.kills}, {killer.refused} refused, {talked}; faults {report['faults']}; daemon "
              f"{daemon[0][1]} … {daemon[-1][1]} KB", flush=True)
        self.check_sound(report)
        self.check_memory(daemon, samples, begin, talked["short"])
        self.check_amounts(report, killer.kills, talked)

    def check_memory(self, daemon, samples, begin, connections):
        warm = [s for s in daemon if s[0] - begin > WARM_UP_S]
        for line in warm[::max(1, len(warm) // 12)]:
            print(f"  {line[0] - begin:6.0f} s {line[1]:>8} KB, {line[2]} "
                  "descriptors", flush=True)
        self.assertLess(warm[-1][1] - warm[0][1], MOST_GROWTH_KB)
        self.assertLessEqual(warm[-1][2], max(s[2] for s in warm[:10]))
        most = max(s[1] for of in samples.values() for s in of)
        # Those that live on, once they have run for some time.
        since = begin + KILLS_S + (SECONDS - KILLS_S) / 3
        lived = [of for of in samples.values()
                 if of[0][0] < since and of[-1][0] == self.last_sample]
        self.assertGreaterEqual(len(lived), 3)
        grown = [of[-1][1] - next(s[1] for s in of if s[0] >= since)
                 for of in lived]
        print(f"  others {most} KB at most; at the end grown by {grown} KB",
              flush=True)
        pages = connections * PAGES_OF_CONNECTION_KB
        self.assertLess(max(grown), MOST_GROWTH_OF_OTHERS_KB +
                        min(pages, HASHED_TABLES_KB))

    def check_amounts(self, report, kills, talked):
        self.assertEqual(talked["wrong"], 0)
        self.assertGreater(talked["echoes"], SECONDS * 5)
        self.assertGreaterEqual(talked["short"], SECONDS / 2)
        self.assertGreaterEqual(sum(kills.values()), SECONDS / 12)
        faults = report["faults"]
        for what in ("packets_lost", "flows_given_up"):
            self.assertEqual(faults[what], 0, what)
        # No clock of a packet: null packets that move flows die with units.
        self.assertEqual(faults["clocks_lost"], faults["null_packets_lost"])
        dropped = {reason: n for reason, n
                   in report["packets_dropped"].items() if n}
        print(f"  dropped {dropped}", flush=True)
        # A queue that is full is the load's own affair, as are too many packets
        # that wait for the state of their flow.
        self.assertEqual(set(dropped) - {
            "no_mapping", "nf:nat.not_ipv4", "unit_queue_full",
            "hold_overflow"}, set())


# What control_test.py tests itself.
for name in [name for name in dir(control_test.Control)
             if name.startswith("test_")]:
    setattr(Soak, name, None)


if __name__ == "__main__":
    net.main("Soak")

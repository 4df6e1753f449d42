#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Units and loggers that are killed under live traffic: nobody at the two ends
notices.

    client eth0 ── lan0 [ snf run, units, loggers ] wan0 ── eth0 server

While programs of everyday use talk, SIGKILL ends processes of units and of the
loggers, one after the other: each once all are there again, since a unit and
its logger at once are outside of the promise (proto/protocol.md, section 6).

Wants root, and is skipped without. SNF_TEST_SEED=n begins the random numbers
otherwise, which a failure names.

Usage: live_kills_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import os
import random
import re
import signal
import sys
import threading
import time

sys.dont_write_bytecode = True  # nothing beside the sources
import run_test as net
import traffic_test
from command_case import below, wait_for
from run_test import CLIENT, EXTERNAL4, SERVER, SERVER4, inside, peer
from traffic_test import background, listens, wants

SEED = int(os.environ.get("SNF_TEST_SEED", time.time_ns() % 1_000_000))
UNITS, LOGGERS = "snf-unit", "snf-loggers"
CHAIN = f"firewall | monitor(top=1000) | nat(ip={EXTERNAL4})"
STAY = ["--loggers=on", "--threads=4"]
PROCESSES = ["--isolation=process", *STAY]


def processes_of(pid, *names):
    found = []
    for child in below(pid):
        with contextlib.suppress(OSError):
            with open(f"/proc/{child}/comm") as file:
                if file.read().strip() in names:
                    found.append(child)
    return found


class Killer:
    """Kills processes below one, until it is told to stop: each once all others
    are there and have what they need, as the log in `said` tells."""

    # So long after that the next one goes. Loggers may have something alone for
    # longer: until units have taken each flow, which a busy machine lets wait.
    REST_S, REST_OF_LOGGERS_S = 0.5, 3

    def __init__(self, pid, said, names=(UNITS, UNITS, LOGGERS), rng=None,
                 first=()):
        self.pid, self.said, self.names = pid, said, names
        self.first = list(first)  # these are killed before any of `names`
        self.rng = rng or random.Random(SEED)
        self.kills = {UNITS: 0, LOGGERS: 0}
        self.stops = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def all_are_well(self):
        """As many are back, and have been taken over, as were killed."""
        text = self.said.read_text()
        def count(word):
            return len(re.findall(word, text))
        return (count("unit loop .* was killed") == self.kills[UNITS] ==
                count("unit loop .* is back") and
                count("of loggers was killed") == self.kills[LOGGERS] ==
                count("loggers are back") and
                (not self.kills[UNITS] or
                 text.rfind("was killed by signal 9, with units") <
                 text.rfind("recovered")))

    def kill(self, name, pid):
        """Returns whether it was there to be killed."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return True
        return False

    def run(self):
        while not self.stops.wait(self.rng.uniform(0.02, 0.5)):
            if not self.all_are_well() or self.stops.wait(self.REST_S):
                continue
            name = self.first[0] if self.first else self.rng.choice(self.names)
            if (name == LOGGERS and self.kills[UNITS] and
                    self.stops.wait(self.REST_OF_LOGGERS_S)):
                continue
            among = processes_of(self.pid, name)
            if not among:
                return  # it has ended
            if self.kill(name, self.rng.choice(among)):
                self.kills[name] += 1
                del self.first[:1]

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stops.set()
        self.thread.join()


class Kills(traffic_test.Traffic):
    """What traffic_test.py sends, while units and loggers die."""

    LEAST = 3  # kills a test
    VICTIMS = {"names": (UNITS, UNITS, LOGGERS)}

    # A frame of several packets counts as these in monitor's table, and once
    # elsewhere.
    GSO = ["--no_gso"]

    def chain(self, *flags):
        return self.killing(f"--nf={CHAIN}", *self.GSO, *flags,
                            victims=self.VICTIMS)

    @contextlib.contextmanager
    def killing(self, *flags, victims=VICTIMS, kills=LEAST,
                isolation="process"):
        """A run whose processes are killed until it is to end, but at least
        so often."""
        # What comes too fast while others take over finds a full queue, or too
        # many packets that wait for the state of their flow.
        self.may_drop |= {"unit_queue_full", "hold_overflow"}
        with self.running(f"--isolation={isolation}", *STAY,
                          *flags) as process:
            said = self.folder / "stderr"
            with Killer(process.pid, said, **victims) as killer:
                yield process
                wait_for("kills", lambda: sum(killer.kills.values()) >= kills)
            wait_for("rest", killer.all_are_well)
        self.check_kills(killer)

    def check_kills(self, killer):
        faults = self.report["faults"]
        told = f"SNF_TEST_SEED={SEED}: {killer.kills}: {faults}"
        self.assertEqual(faults["logger_failures"], killer.kills[LOGGERS],
                         told)
        if killer.kills[UNITS]:
            self.assertGreater(faults["failures"], 0, told)
        for what in ("packets_lost", "flows_given_up"):
            self.assertEqual(faults[what], 0, told)
        self.assertEqual(faults["clocks_lost"], faults["null_packets_lost"],
                         told)
        dropped = {reason: count for reason, count
                   in self.report["packets_dropped"].items() if count}
        self.assertEqual(set(dropped) - self.may_drop, set(), dropped)
        hosts = self.report.get("nf_reports", {}).get("monitor.Top talkers")
        if hosts is not None:
            # The monitor's table counts each packet once that came past it.
            past = self.report["packets_released"] + sum(
                count for reason, count in dropped.items()
                if reason.startswith("nf:nat."))
            told_of = sum(host["packets_sent"] for host in hosts)
            if not any(port["merged"] for _, port in self.each_port()):
                self.assertEqual(told_of, past, told)
            else:
                self.assertGreaterEqual(told_of, past, told)
        print(f"SNF_TEST_SEED={SEED}: kills {killer.kills}, units failed "
              f"{faults['failures']}, packets that survived "
              f"{faults['packets_rerouted']}, flows moved "
              f"{faults['flows_moved']}, records restored "
              f"{faults['records_restored']}", flush=True)

    def test_curl_gets_files_of_1_kb_to_100_mb(self):
        self.GSO = []
        super().test_curl_gets_files_of_1_kb_to_100_mb()

    def test_1000_connections_at_one_time(self):
        # Some of so many are silent longer than the killer waits: once a unit
        # has ended, the loggers may have them alone.
        self.VICTIMS = {"first": (LOGGERS,), "names": (UNITS,)}
        super().test_1000_connections_at_one_time()

    @wants("nginx")
    def test_a_chain_in_containers_goes_on(self):
        sums = self.files(100_000, 5_000_000)
        with self.nginx(SERVER4) as host, self.killing(
                f"--nf={CHAIN}", isolation="lxc"):
            self.check_curl(host, sums)

    @wants("nginx")
    def test_loggers_in_threads_take_live_traffic(self):
        sums = self.files(100_000, 5_000_000)
        for threads in (1, 2, 3):
            with self.subTest(threads=threads), self.nginx(
                    SERVER4) as host, self.running(
                        f"--nf={CHAIN}", "--loggers=on",
                        f"--threads={threads}"):
                self.check_curl(host, sums)
            self.check_every_packet_left()
            # Frames of several packets have one entry.
            self.assertGreater(self.report["loggers"]["entries"], 100)

    @wants("iperf3")
    def test_iperf3_through_passthrough(self):
        with background(SERVER, "iperf3", "-s", "-B", SERVER4), self.killing(
                victims={"names": (UNITS,)}):
            wait_for("iperf3", lambda: listens(SERVER, SERVER4, 5201))
            for way in ([], ["-R"]):
                end = self.iperf3("-c", SERVER4, *way)["end"]
                self.assertGreater(end["sum_received"]["bytes"], 10**6)


# What the others cover.
for name in [name for name in dir(traffic_test.Traffic)
             if name.startswith("test_") and name not in Kills.__dict__]:
    if name not in ("test_iperf3_sends_both_ways",
                    "test_curl_gets_files_of_1_kb_to_100_mb",
                    "test_1000_connections_at_one_time",
                    "test_an_ssh_session"):
        setattr(Kills, name, None)


if __name__ == "__main__":
    net.main("Kills")

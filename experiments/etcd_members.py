#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures etcd as the list of many hosts: requests a second, and how fast
changes of the list are everywhere.

Usage: etcd_members.py SNF [--members=N] [--watchers=N] [--rest=SECONDS]
                           [--changes=N]

Starts a server of etcd on loopback, with its data in a folder that is removed,
N members (snf host join) and N watchers (snf host list --follow), all on this
machine. Prints a JSON object:

  joins    all members are started at once: requests to etcd, in all, of each
           join and in the busiest second, and the spread of the list's changes
  rest     the members only send heartbeats (their term is 10 s)
  changes  this script sets keys of N more hosts, as fast as etcd answers, and
           deletes these: the spread counts from before each call
  leaves   all members are ended at once (SIGTERM)
  waited   share of the time in which somebody waited for a CPU

A spread is of all pairs of a change and a watcher: the time until the watcher
has printed the change. Of joins and leaves it counts from the first watcher
that has printed the change; "within_1s" is the share of the pairs within 1 s.
Where there is no etcd, the script prints "skipped" and ends with 4.
"""

import argparse
import base64
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True  # nothing beside the sources
from pressure import Stalls

SKIPPED = 4
PATIENCE_S = 120
SAMPLE_S = 0.25
WITHIN_S = 1.0
PREFIX = "/snf/default/hosts/"
RECEIVED = re.compile(r'^grpc_server_msg_received_total\{.*'
                      r'grpc_method="(\w+)".*\} (\S+)$', re.MULTILINE)
# The server's own, or of watches, which are as many as the watchers.
NOT_ASKED = ("Watch", "Status", "Check")


class CannotMeasure(Exception):
    pass


# --- What is made of what was seen. ---

def requests_of(metrics: str) -> dict[str, int]:
    """Requests since the server's start, by method, of etcd's /metrics."""
    return {method: int(float(count))
            for method, count in RECEIVED.findall(metrics)
            if method not in NOT_ASKED and float(count) > 0}


def difference(after: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    found = {method: count - before.get(method, 0)
             for method, count in after.items()}
    return {method: count for method, count in found.items() if count > 0}


def busiest_second(samples: list[tuple[float, int]]) -> float:
    """The greatest rate over a second or more, of (time, requests so far);
    that of all samples if they are shorter."""
    most = 0.0
    first = 0
    for at, count in samples:
        while first + 1 < len(samples) and samples[first + 1][0] <= at - 1:
            first += 1
        began, before = samples[first]
        if at - began >= 1:
            most = max(most, (count - before) / (at - began))
    if most == 0 and len(samples) > 1 and samples[-1][0] > samples[0][0]:
        most = ((samples[-1][1] - samples[0][1])
                / (samples[-1][0] - samples[0][0]))
    return round(most, 1)


def quantile(values: list[float], share: float) -> float:
    """The least value that this share of the values is at most."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def spread(told: list[dict], changes, began: dict | None = None) -> dict:
    """Of each watcher, when it told each change; and when the changes began,
    if that is known."""
    delays = []
    for change in changes:
        times = [at[change] for at in told if change in at]
        if len(times) < len(told):
            raise CannotMeasure(f"{change}: {len(times)} of {len(told)} "
                                "watchers have told it")
        first = min(times) if began is None else began[change]
        delays += [at - first for at in times]
    return {"pairs": len(delays),
            "p50_ms": round(1e3 * quantile(delays, 0.5), 2),
            "p99_ms": round(1e3 * quantile(delays, 0.99), 2),
            "max_ms": round(1e3 * max(delays), 2),
            "within_1s": sum(d <= WITHIN_S for d in delays) / len(delays)}


def change_of(line: str) -> tuple[str, str] | None:
    """("joined", "m1") of a line of snf host list --follow --json."""
    told = json.loads(line)
    for kind in ("joined", "left"):
        if kind in told:
            return kind, told[kind]["name"]
    return None


# --- Etcd, watchers and members. ---

def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def wait_for(what: str, condition, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise CannotMeasure(f"no {what} within {seconds} s")
        time.sleep(0.02)


class Etcd:
    def __init__(self, folder: str):
        self.port = free_port()
        own = f"http://127.0.0.1:{self.port}"
        peer = f"http://127.0.0.1:{free_port()}"
        self.process = subprocess.Popen(
            ["etcd", "--name=m", f"--data-dir={folder}/etcd",
             f"--listen-client-urls={own}", f"--advertise-client-urls={own}",
             f"--listen-peer-urls={peer}",
             f"--initial-advertise-peer-urls={peer}",
             f"--initial-cluster=m={peer}", "--logger=zap",
             "--log-level=error"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.calls = None

    def ask(self, method: str, path: str, body=None) -> str:
        if self.calls is None:
            self.calls = http.client.HTTPConnection("127.0.0.1", self.port,
                                                    timeout=10)
        self.calls.request(method, path,
                           None if body is None else json.dumps(body))
        answer = self.calls.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise CannotMeasure(f"etcd: {path}: {answer.status} {text}")
        return text

    def is_up(self) -> bool:
        try:
            return "true" in self.ask("GET", "/health")
        except (OSError, http.client.HTTPException, CannotMeasure):
            self.calls = None
            return False

    def requests(self) -> dict[str, int]:
        return requests_of(self.ask("GET", "/metrics"))

    def set(self, name: str):
        value = json.dumps({"name": name, "address": "192.0.2.2",
                            "version": "0", "units": 1})
        self.ask("POST", "/v3/kv/put", {
            "key": base64.b64encode((PREFIX + name).encode()).decode(),
            "value": base64.b64encode(value.encode()).decode()})

    def delete(self, name: str):
        self.ask("POST", "/v3/kv/deleterange", {
            "key": base64.b64encode((PREFIX + name).encode()).decode()})


class Watcher:
    """Notes when it has told each change."""

    def __init__(self, snf: str, at: str):
        self.told: dict[tuple[str, str], float] = {}
        self.process = subprocess.Popen(
            [snf, "host", "list", at, "--follow", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            change = change_of(line)
            if change is not None:
                self.told[change] = time.monotonic()


class Cluster:
    def __init__(self, options, folder: str):
        self.options = options
        self.etcd = Etcd(folder)
        self.at = f"--etcd=127.0.0.1:{self.etcd.port}"
        self.watchers: list[Watcher] = []
        self.members: list[subprocess.Popen] = []

    def end(self):
        started = [*self.members, *(w.process for w in self.watchers),
                   self.etcd.process]
        for process in started:
            if process.poll() is None:
                process.kill()
        for process in started:
            process.wait()

    def join(self, name: str):
        self.members.append(subprocess.Popen(
            [self.options.snf, "host", "join", name, self.at,
             "--address=192.0.2.1"], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL))

    def start(self):
        wait_for("etcd", self.etcd.is_up)
        self.watchers = [Watcher(self.options.snf, self.at)
                         for _ in range(self.options.watchers)]
        self.etcd.set("probe")
        self.wait([("joined", "probe")])
        self.etcd.delete("probe")
        self.wait([("left", "probe")])

    def wait(self, changes, note=lambda: None):
        def is_told():
            note()
            for process in (*self.members,
                            *(watcher.process for watcher in self.watchers)):
                if process.poll() not in (None, 0):
                    raise CannotMeasure(f"{process.args} ended with "
                                        f"{process.returncode}")
            return all(change in watcher.told for change in changes
                       for watcher in self.watchers)
        wait_for("changes at all watchers", is_told)

    def storm(self, begin, changes) -> dict:
        """Does `begin`, and measures until all watchers have told."""
        samples, next_s = [], 0.0
        before = self.etcd.requests()
        began = time.monotonic()

        def note():
            nonlocal next_s
            if time.monotonic() < next_s:
                return
            next_s = time.monotonic() + SAMPLE_S
            asked = difference(self.etcd.requests(), before)
            samples.append((time.monotonic(), sum(asked.values())))
        note()
        begin()
        self.wait(changes, note)
        took = time.monotonic() - began
        next_s = 0.0
        note()
        asked = difference(self.etcd.requests(), before)
        return {"seconds": round(took, 2), "requests": asked,
                "requests_of_each": round(sum(asked.values()) / len(changes),
                                          2),
                "requests_s_most": busiest_second(samples),
                "spread": spread([w.told for w in self.watchers], changes)}

    def join_all(self) -> dict:
        names = [f"m{i}" for i in range(self.options.members)]
        return self.storm(lambda: [self.join(name) for name in names],
                          [("joined", name) for name in names])

    def leave_all(self) -> dict:
        names = [f"m{i}" for i in range(self.options.members)]
        return self.storm(
            lambda: [process.send_signal(signal.SIGTERM)
                     for process in self.members],
            [("left", name) for name in names])

    def rest(self) -> dict:
        time.sleep(1)  # the last join's own requests are over
        before = self.etcd.requests()
        began = time.monotonic()
        time.sleep(self.options.rest)
        asked = difference(self.etcd.requests(), before)
        took = time.monotonic() - began
        return {"seconds": round(took, 2), "requests": asked,
                "requests_s": round(sum(asked.values()) / took, 1)}

    def change_all(self) -> dict:
        names = [f"c{i}" for i in range(self.options.changes)]
        began = {}
        first = time.monotonic()
        for kind, call in (("joined", self.etcd.set),
                           ("left", self.etcd.delete)):
            for name in names:
                began[kind, name] = time.monotonic()
                call(name)
        took = time.monotonic() - first
        self.wait(list(began))
        return {"changes_s": round(len(began) / took, 1),
                "spread": spread([w.told for w in self.watchers], list(began),
                                 began)}

    def measure(self) -> dict:
        stalls = Stalls()
        self.start()
        found = {"members": self.options.members,
                 "watchers": self.options.watchers, "joins": self.join_all(),
                 "rest": self.rest(), "changes": self.change_all(),
                 "leaves": self.leave_all()}
        return {**found, "waited": round(stalls.share(), 3)}


def parse(words: list[str]):
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1],
                                     allow_abbrev=False)
    parser.add_argument("snf", type=pathlib.Path)
    for name, value, most in (("members", 100, 1000), ("watchers", 10, 100),
                              ("rest", 20, 600), ("changes", 100, 10_000)):
        parser.add_argument(f"--{name}", type=int, default=value,
                            choices=range(1, most + 1), metavar="N")
    options = parser.parse_args(words)
    options.snf = str(options.snf.resolve())
    return options


def main(words: list[str]) -> int:
    options = parse(words)
    if shutil.which("etcd") is None:
        print("skipped: needs etcd, of the Debian package etcd-server")
        return SKIPPED
    if not os.access(options.snf, os.X_OK):
        print(f"etcd_members.py: {options.snf} is no program", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(options, folder)
        try:
            print(json.dumps(cluster.measure(), indent=2))
        except (CannotMeasure, OSError, http.client.HTTPException) as why:
            print(f"etcd_members.py: {why}", file=sys.stderr)
            return 1
        finally:
            cluster.end()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main(sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0
"""For tests of hosts that join a cluster in etcd: agents in the namespace AWAY
of host_pair.py, which are hosts at ports of their own, and their entries."""

import contextlib
import os
import signal
import subprocess

from command_case import PROGRAM, below, stat_of, wait_for
from host_pair import AWAY, AWAY_ADDRESS, HOME_ADDRESS

PORTS = {"b": 7000, "c": 7001}


class JoinedHosts:
    """Of a unittest.TestCase that has `inside`, words before commands at home,
    and `at`, the flag that names etcd."""

    def background(self, *words):
        """Runs a command until the test ends, in the namespace of these."""
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def serve(self, name, *flags):
        agent = self.background(
            "ip", "netns", "exec", AWAY, PROGRAM, "host", "serve",
            f"--listen={AWAY_ADDRESS}:{PORTS[name]}", f"--from={HOME_ADDRESS}",
            *flags)
        self.assertIn("listens at", agent.stdout.readline())
        return agent

    def join(self, name, *flags, address=None):
        address = address or f"{AWAY_ADDRESS}:{PORTS[name]}"
        joined = self.background(
            *self.inside, PROGRAM, "host", "join", name, self.at,
            f"--address={address}", *flags)
        self.assertIn("has joined", joined.stdout.readline())
        return joined

    def end_all(self, agent):
        """As a host that loses its power."""
        processes = [*below(agent.pid), agent.pid]
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        agent.wait()
        wait_for("end", lambda: not any(
            (stat := stat_of(p)) and stat[0] != "Z" for p in processes))

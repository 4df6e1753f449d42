# SPDX-License-Identifier: Apache-2.0
"""Clusters of `./snf cluster`, which tests make, look at and remove."""

import json
import os
import pathlib
import subprocess
import sys

from command_case import OK, PROGRAM, SOURCE, Command

SCRIPT = SOURCE / "platform/commands/cluster/cluster.py"
UNAVAILABLE = 69
NAME = f"u{os.getpid() % 100_000}"
DIRECTORY = pathlib.Path(f"/run/snf-cluster-{NAME}")


def cluster(*words, env=None):
    return subprocess.run(
        [sys.executable, SCRIPT, "--program", PROGRAM, f"--name={NAME}",
         *words], capture_output=True, text=True, timeout=300, check=False,
        env=env, stdin=subprocess.DEVNULL)


def remains():
    """What a cluster of this name has left: namespaces, and its directory."""
    spaces = subprocess.run(["ip", "netns", "list"], capture_output=True,
                            text=True, check=True).stdout
    return [line for line in spaces.splitlines() if f"snf-{NAME}-" in line] + (
        [str(DIRECTORY)] if DIRECTORY.exists() else [])


def processes_of(host):
    return [int(pid) for pid in subprocess.run(
        ["ip", "netns", "pids", f"snf-{NAME}-{host}"], capture_output=True,
        text=True, check=True).stdout.split()]


class ClusterCase(Command):
    def setUp(self):
        super().setUp()
        self.addCleanup(cluster, "down")

    def up(self, *flags):
        done = cluster("up", *flags)
        self.assertEqual(done.returncode, OK, done.stderr)
        return done

    def hosts(self):
        done = subprocess.run(
            [PROGRAM, "status", f"--name={NAME}", "--json"],
            capture_output=True, text=True, timeout=60, check=True)
        return {host["name"]: host["state"]
                for host in json.loads(done.stdout).get("host", [])}

    def get(self):
        """The page of the server's host, as the client's host gets it."""
        done = subprocess.run(
            ["ip", "netns", "exec", f"snf-{NAME}-client", sys.executable, "-c",
             "import urllib.request; print(urllib.request.urlopen("
             "'http://10.77.0.3/', timeout=30).read().decode(), end='')"],
            capture_output=True, text=True, timeout=60, check=False)
        return done.stdout or done.stderr

    def crash(self, what, *flags, action="up"):
        """Kills `up`, or another command, once it says this."""
        with subprocess.Popen(
                [sys.executable, SCRIPT, "--program", PROGRAM,
                 f"--name={NAME}", action, *flags], stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL, text=True) as process:
            said = []
            for line in process.stderr:
                said.append(line)
                if what in line:
                    break
            process.kill()
        self.assertIn(what, "".join(said))

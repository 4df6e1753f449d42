# SPDX-License-Identifier: Apache-2.0
"""A TCP connection that stays while a daemon changes, and commands of SNF
beside it."""

import json
import subprocess
import sys

from command_case import OK, PATIENCE_S
from control_test import NAME
from run_test import CLIENT, MIDDLE, PROGRAM, SERVER4, in_network, inside

# A connection that stays: echoes as many bytes as it is told.
TALK = """
import os, socket, sys
def connect():
    for _ in range(20):
        try:
            return socket.create_connection((sys.argv[1], 7), timeout=60)
        except OSError as error:  # as where no answer of ARP came in time
            print(error, file=sys.stderr)
with connect() as peer:
    print("right", flush=True)
    for line in sys.stdin:
        sent, got = os.urandom(int(line)), b""
        peer.sendall(len(sent).to_bytes(4, "big") + sent)
        while len(got) < len(sent):
            part = peer.recv(65536)
            if not part:
                break
            got += part
        print("right" if got == sent else "wrong", flush=True)
"""


def snf(*words):
    return subprocess.run(in_network(MIDDLE, PROGRAM, *words, f"--name={NAME}"),
                          capture_output=True, text=True,
                          timeout=2 * PATIENCE_S, check=False)


class Connection:
    def __init__(self):
        self.process = subprocess.Popen(
            inside(CLIENT, sys.executable, "-c", TALK, SERVER4),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "right\n":
            self.close()
            raise AssertionError("no connection")

    def says(self, size=20_000):
        """What an echo of so many bytes is."""
        self.process.stdin.write(f"{size}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Connected:
    """For tests: connections through a daemon, whose chains are set."""

    def connection(self):
        connection = Connection()
        self.addCleanup(connection.close)
        return connection

    def set(self, *words):
        done = snf("chain", "set", *words, "--json")
        self.assertEqual(done.returncode, OK, done.stderr)
        return json.loads(done.stdout)

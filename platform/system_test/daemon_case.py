# SPDX-License-Identifier: Apache-2.0
"""For tests of several daemons: their files, their ends, and connections
through them."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys

import run_test as net
from command_case import PATIENCE_S, is_alive, wait_for
from run_test import CLIENT, EXTERNAL4, SERVER, SERVER4

FOLDER = pathlib.Path("/run/snf")
# Sends datagrams of 1,000 bytes to a port where nobody listens, at a rate.
SENDER = """
import socket, sys, time
gap = 8_000 / float(sys.argv[2])
sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(16)]
due, n = time.monotonic(), 0
while True:
    now = time.monotonic()
    due = max(due, now - 0.1)
    while due < now:
        try:
            sockets[n % 16].sendto(bytes(958), (sys.argv[1], 9))
        except OSError:
            pass
        due, n = due + gap, n + 1
    time.sleep(0.002)
"""


def pid_of(name):
    return int((FOLDER / f"{name}.lock").read_text())


def log_of(name):
    return (FOLDER / f"{name}.log").read_text()


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    wait_for("its end", lambda: not is_alive(pid))


def remove_files_of(name):
    for path in FOLDER.glob(f"{name}*"):
        path.unlink()


def send_external_to(client=CLIENT, server=SERVER):
    """The server sends to the NAT's address as a router would."""
    net.ip("-n", server, "neigh", "replace", EXTERNAL4, "lladdr",
           net.address_of_card(client), "dev", "eth0", "nud", "permanent")


@contextlib.contextmanager
def soaking(case, namespace=CLIENT, some_come="yes"):
    """Connections from a namespace to its server, none of which may break. If
    some_come is "yes", two of the eight come and go."""
    process = subprocess.Popen(
        net.inside(namespace, sys.executable, net.PEER, "soak", SERVER4, 8, 1,
                   some_come),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)
    try:
        yield
        out, errors = process.communicate("", timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    case.assertEqual(process.returncode, 0, errors)
    told = json.loads(out)
    case.assertGreater(told["echoes"], 0)
    case.assertEqual(told["wrong"], 0)

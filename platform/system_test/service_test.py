#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf up` with what the package's systemd unit leaves it: paths that it may
write, and capabilities. systemd itself is not needed.

    client eth0 ── lan0 [ snf up ] wan0 ── eth0 server

Wants root, and is skipped without.

Usage: service_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import configparser
import os
import pathlib
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import control_test
import run_test as net
from command_case import OK, SOURCE, is_alive, wait_for
from control_test import FOLDER, NAME, UNAVAILABLE, processes, snf, told
from run_test import CLIENT, MIDDLE, PORTS, SERVER4, peer

ROOTS = {"RuntimeDirectory": "/run", "LogsDirectory": "/var/log",
         "StateDirectory": "/var/lib", "CacheDirectory": "/var/cache"}
# Makes all mounts read-only, as ProtectSystem=strict does, but for the paths
# before "--", and runs the rest.
CONFINE = """
set -e
mount --make-rprivate /
writable=
while [ "$1" != -- ]; do
  mkdir -p "$1"
  mount --bind "$1" "$1"
  writable="$writable $1"
  shift
done
shift
cut -d' ' -f5 /proc/self/mountinfo | while read -r mount; do
  case "$mount" in /dev|/dev/*|/proc|/proc/*|/sys|/sys/*) continue;; esac
  for path in $writable; do
    case "$mount" in "$path"|"$path"/*) continue 2;; esac
  done
  mount -o remount,bind,ro "$mount"
done
exec "$@"
"""


def service():
    """The section of the unit file, a list of values for each key."""
    class Values(dict):
        def __setitem__(self, key, value):
            if isinstance(value, list):
                value = [*self.get(key, []), *value]
            super().__setitem__(key, value)
    unit = configparser.RawConfigParser(strict=False, dict_type=Values,
                                        empty_lines_in_values=False)
    unit.optionxform = str
    unit.read(SOURCE / "platform" / "package" / "snf@.service")
    return {key: value.split() for key, value in unit["Service"].items()}


def confined():
    keys = service()
    paths = [*keys.get("ReadWritePaths", []), "/tmp"]
    for key, root in ROOTS.items():
        paths += [f"{root}/{name}" for name in keys.get(key, [])]
    capabilities = ",".join(
        "+" + name.removeprefix("CAP_").lower()
        for name in keys["CapabilityBoundingSet"])
    return ("unshare", "--mount", "sh", "-c", CONFINE, "sh", *paths, "--",
            "setpriv", f"--bounding-set=-all,{capabilities}",
            "--inh-caps=-all", "--no-new-privs")


class Service(control_test.Control):
    def up(self, *words):
        done = snf("up", *PORTS, *words, before=confined())
        self.assertEqual(done.returncode, OK, done.stderr)

    def gro(self):
        return [int(*peer(MIDDLE, "gro", port)) for port in ("lan0", "wan0")]

    def test_runs_units_in_processes_that_outlive_it(self):
        flags = ["--isolation=process", "--loggers=on", "--keep=60s",
                 "--nf=firewall | monitor"]
        self.up(*flags)
        self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 3)), 3)
        pid, = processes()
        os.kill(pid, signal.SIGKILL)
        wait_for("end", lambda: not is_alive(pid))
        self.up(*flags)
        self.assertIn("goes on with", told("status"))
        self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 3)), 3)
        self.down()

    def test_gives_offloads_back(self):
        for port in ("lan0", "wan0"):
            peer(MIDDLE, "gro", port, 1)
        self.up()
        self.assertEqual(self.gro(), [0, 0])
        self.down()
        self.assertEqual(self.gro(), [1, 1])

    def test_opens_its_log_again_as_it_is_told(self):
        keys = service()
        self.assertEqual(keys["ExecReload"], ["/bin/kill", "-HUP", "$MAINPID"])
        folder = pathlib.Path(ROOTS["LogsDirectory"], *keys["LogsDirectory"])
        log = folder / f"{NAME}.log"
        self.addCleanup(log.unlink, missing_ok=True)
        self.up(f"--log={log}")
        log.unlink()
        pid, = processes()
        os.kill(pid, signal.SIGHUP)
        wait_for("log", lambda: log.exists() and
                 "the log was opened again" in log.read_text())
        self.down()

    def test_an_interface_that_comes_late_is_no_end(self):
        """The code of the exit is none that keeps systemd from another try."""
        done = snf("up", "--port=inside=lan0", "--port=outside=late0",
                   before=confined())
        self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
        never = service()["RestartPreventExitStatus"]
        self.assertNotIn(str(UNAVAILABLE), never)
        done = snf("up", *PORTS, "--alpha=2", before=confined())
        self.assertIn(str(done.returncode), never)

    def test_writes_nowhere_else(self):
        done = snf("up", *PORTS, f"--log=/var/lib/{NAME}.log",
                   before=confined())
        self.assertIn("Read-only file system", done.stderr)
        self.assertEqual(list(FOLDER.glob(f"{NAME}*")), [])


# What control_test.py tests itself.
for test in [name for name in dir(control_test.Control)
             if name.startswith("test_")]:
    setattr(Service, test, None)


if __name__ == "__main__":
    net.main("Service")

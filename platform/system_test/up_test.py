#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf up` without ports: one command to a working system, of which nothing is
left in the end.

Wants root, and is skipped without.

Usage: up_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import run_test as net
from command_case import OK, PATIENCE_S, USAGE, below, is_alive, wait_for
from run_test import PROGRAM, inside, ip, peer

UNAVAILABLE, PERMISSION = 69, 77
NAME = f"t{os.getpid()}"
CLIENT, SERVER = f"snf-{NAME}-client", f"snf-{NAME}-server"
INSIDE, OUTSIDE = f"{NAME}-lan", f"{NAME}-wan"
SERVER4, SERVER6 = "10.77.0.3", "fd77::3"
FOLDER = pathlib.Path("/run/snf")


def snf(*words, before=(), name=NAME, env=None):
    return subprocess.run(
        [*before, PROGRAM, words[0], f"--name={name}", *words[1:]],
        capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False,
        env=env)


def daemon():
    """The process that holds the lock; 0 for none."""
    done = snf("status", "--json")
    return json.loads(done.stdout)["pid"] if done.returncode == OK else 0


def lines_of(*words):
    return subprocess.run(words, capture_output=True, text=True,
                          check=True).stdout.splitlines()


class System:
    """What of this machine a daemon might leave. Others use it meanwhile: what
    is not of this test's name or processes is left out."""

    def __init__(self):
        self.own = {NAME}

    def adopt(self, pid):
        """The process and those below it are this test's."""
        found = {pid, *below(pid)}
        self.own |= {f"snf-{one}" for one in found}
        return found

    def look(self):
        seen = [
            *(f"link {line.split()[0]}" for line in lines_of("ip", "-br",
                                                              "link")),
            *(f"netns {line}" for line in lines_of("ip", "netns", "list")),
            *(f"mount {line}" for line in
              pathlib.Path("/proc/self/mounts").read_text().splitlines()),
            *(f"socket {line}" for line in
              pathlib.Path("/proc/net/unix").read_text().splitlines()),
            *(str(path) for folder in (FOLDER, pathlib.Path("/run/snf-units"),
                                       pathlib.Path("/dev/shm"))
              if folder.exists() for path in folder.iterdir()),
            *(path for path, _, _ in os.walk("/sys/fs/cgroup")
              if "/snf-" in path)]
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit():
                    words = (entry / "cmdline").read_bytes().decode(
                        errors="replace").replace("\0", " ")
                    seen.append(f"process snf-{entry.name} {words}")
        return sorted(
            line for line in seen
            if str(os.getpid()) not in line.split()[:2]
            and any(re.search(rf"(?<![\w]){own}(?!\d)", line)
                    for own in self.own)
            and "up_test.py" not in line)


class Up(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(self.end)
        self.system = System()
        self.before = self.system.look()
        self.processes = set()

    @staticmethod
    def end():
        snf("down", "--patience=20s")
        for path in FOLDER.glob(f"{NAME}*"):
            path.unlink()
        for namespace in (CLIENT, SERVER):
            subprocess.run(["ip", "netns", "del", namespace],
                           capture_output=True, check=False)
        for link in (INSIDE, OUTSIDE):
            subprocess.run(["ip", "link", "del", link], capture_output=True,
                           check=False)

    def up(self, *words):
        done = snf("up", *words)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(done.stderr, "")
        self.processes = self.system.adopt(daemon())
        return done.stdout

    def refused(self, code, words, *command, **more):
        done = snf(*command, **more)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def down(self):
        self.processes |= self.system.adopt(daemon())
        done = snf("down")
        self.assertEqual(done.returncode, OK, done.stderr)

    def kill(self):
        """The daemon, and waits for the end of all that was below it."""
        pid = daemon()
        pids = self.system.adopt(pid)
        self.assertGreater(pid, 1)
        os.kill(pid, signal.SIGKILL)
        wait_for("end", lambda: not any(map(is_alive, pids)))

    @staticmethod
    def lives(pid):
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/{pid}/exe") == PROGRAM
        return False

    def check_nothing_is_left(self):
        wait_for("end of all", lambda: self.system.look() == self.before)

    @contextlib.contextmanager
    def server(self):
        process = subprocess.Popen(
            inside(SERVER, sys.executable, net.PEER, "serve", SERVER4,
                   self.folder), stdout=subprocess.PIPE)
        try:
            self.assertEqual(process.stdout.readline(), b"ready\n")
            yield
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def check_it_works(self):
        self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 3)), 3)
        with self.server():
            self.assertEqual(peer(CLIENT, "tcp", SERVER4, 20, 50_000),
                             ["20 right"])

    # --- Up and down

    def test_one_command_is_a_working_system_and_leaves_nothing(self):
        said = self.up()
        self.assertIn(f"inside={INSIDE}, outside={OUTSIDE}", said)
        self.assertIn(f"ip netns exec {CLIENT} ping {SERVER4}", said)
        self.assertIn(f"snf down --name={NAME}", said)
        self.assertIn("with units in containers", said)
        self.check_it_works()
        # What was said can be done as it stands.
        command = re.search(r"^  (ip netns .*)$", said, re.M).group(1)
        if subprocess.run(["which", "ping"], capture_output=True,
                          check=False).returncode == 0:
            done = subprocess.run([*command.split(), "-c", "2"],
                                  capture_output=True, text=True, check=False)
            self.assertIn("2 received", done.stdout)
        # Units are nowhere near the host: the warm pool is in containers.
        own = os.stat("/proc/self/ns/net").st_ino
        self.assertTrue(any(
            os.stat(f"/proc/{pid}/ns/net").st_ino != own
            for pid in self.processes if self.lives(pid)))
        self.assertNotEqual(self.system.look(), self.before)
        self.down()
        self.check_nothing_is_left()
        # And once more, by what systemd sends.
        self.up("--nf=firewall | monitor", "--isolation=thread")
        self.check_it_works()
        os.kill(daemon(), signal.SIGTERM)
        self.check_nothing_is_left()

    def test_settings_are_those_of_any_daemon(self):
        self.up()
        done = snf("set", "alpha=0.5")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.down()

    def test_what_a_killed_one_left_is_found_and_removed(self):
        self.up()
        self.check_it_works()
        self.assertEqual(self.leftovers(), {})
        self.kill()
        self.assertTrue({f"/sys/class/net/{INSIDE}", f"/run/netns/{CLIENT}",
                         f"{FOLDER}/{NAME}.net"} <= set(self.leftovers()))
        self.assertIn(f"snf down --name={NAME}",
                      self.leftovers()[f"/run/netns/{CLIENT}"])
        # By the next one of the name, which works as the first did.
        self.up()
        self.check_it_works()
        self.assertEqual(self.leftovers(), {})
        self.kill()
        # By snf down, though there is no daemon.
        self.refused(UNAVAILABLE, ["no daemon"], "down")
        (FOLDER / f"{NAME}.log").unlink()
        self.assertEqual(self.leftovers(), {})
        # Containers are removed by the next that is made.
        self.up()
        self.down()
        self.check_nothing_is_left()

    def leftovers(self):
        """What ./snf doctor finds of this test's daemons."""
        done = subprocess.run(
            [pathlib.Path(sys.argv[2]) / "third_party/doctor.sh", "--json"],
            capture_output=True, text=True, check=False)
        return {finding["name"]: finding["detail"]
                for finding in json.loads(done.stdout)["findings"]
                if finding["section"] == "leftovers"
                and NAME in finding["name"]}

    # --- What is refused

    def test_a_second_one_is_refused(self):
        self.up()
        self.refused(UNAVAILABLE, ["runs already", "snf down"], "up")
        self.check_it_works()
        self.down()
        self.check_nothing_is_left()

    def test_names_of_others_are_left_alone(self):
        ip("netns", "add", CLIENT)
        self.refused(UNAVAILABLE, [CLIENT, "snf did not make", "--name"], "up")
        self.assertIn(CLIENT, "\n".join(lines_of("ip", "netns", "list")))
        ip("netns", "del", CLIENT)
        ip("link", "add", OUTSIDE, "type", "veth", "peer", "name", INSIDE)
        self.refused(UNAVAILABLE, ["interface", INSIDE, "snf did not make"],
                     "up")
        ip("link", "del", OUTSIDE)  # it is still there
        self.refused(USAGE, ["--name=abcdefghijkl", "11 characters"], "up",
                     name="abcdefghijkl")
        self.check_nothing_is_left()

    def test_says_what_it_wants(self):
        os.chmod(self.folder, 0o777)
        mine = {**os.environ, "XDG_RUNTIME_DIR": str(self.folder)}
        self.refused(PERMISSION, ["root", "--port inside=file:"], "up",
                     before=["setpriv", "--reuid=65534", "--clear-groups"],
                     env=mine)
        self.refused(PERMISSION, ["root"], "up",
                     before=["setpriv", "--bounding-set=-all"])
        self.refused(UNAVAILABLE, ["iproute2"], "up",
                     env={**os.environ, "PATH": "/nowhere"})
        self.check_nothing_is_left()

    def test_without_lxc_units_are_in_processes(self):
        (self.folder / "liblxc.so.1").write_bytes(b"none")
        without = {**os.environ, "LD_LIBRARY_PATH": str(self.folder)}
        done = snf("up", env=without)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertIn("Its units are in processes: LXC is missing",
                      done.stdout)
        self.check_it_works()
        self.down()
        self.refused(UNAVAILABLE, ["LXC is missing"], "up",
                     "--isolation=lxc", env=without)
        self.check_nothing_is_left()


if __name__ == "__main__":
    reason = net.why_skipped()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(net.SKIPPED)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

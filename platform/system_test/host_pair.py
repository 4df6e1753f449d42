# SPDX-License-Identifier: Apache-2.0
"""Two hosts, each a network namespace:

    home 10.99.7.1 ── 10.99.7.2 away
"""

import os
import subprocess

from command_case import OK, PROGRAM, Command

HOME, AWAY = (f"snf-{name}-{os.getpid()}" for name in ("home", "away"))
HOME_ADDRESS, AWAY_ADDRESS, OTHER_ADDRESS = (
    "10.99.7.1", "10.99.7.2", "10.99.7.3")


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True,
                          timeout=60)


class HostPair(Command):
    @classmethod
    def setUpClass(cls):
        for name in (HOME, AWAY):
            ip("netns", "add", name)
            cls.addClassCleanup(ip, "netns", "del", name, check=False)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", HOME, "link", "add", "eth0", "type", "veth", "peer", "eth0",
           "netns", AWAY)
        ip("-n", HOME, "address", "add", f"{HOME_ADDRESS}/24", "dev", "eth0")
        ip("-n", HOME, "address", "add", f"{OTHER_ADDRESS}/24", "dev", "eth0")
        ip("-n", AWAY, "address", "add", f"{AWAY_ADDRESS}/24", "dev", "eth0")
        for name in (HOME, AWAY):
            ip("-n", name, "link", "set", "eth0", "up")

    def home(self, *words):
        return subprocess.run(
            ["ip", "netns", "exec", HOME, *map(str, words)],
            capture_output=True, text=True, timeout=300, check=False)

    def ports(self):
        """Adds the links lan0 – lanp and wan0 – wanp at home."""
        for name in ("lan", "wan"):
            ip("-n", HOME, "link", "add", f"{name}0", "type", "veth", "peer",
               f"{name}p")
            self.addCleanup(ip, "-n", HOME, "link", "del", f"{name}0",
                            check=False)
            for end in (f"{name}0", f"{name}p"):
                ip("-n", HOME, "link", "set", end, "up")

    def up_at_ports(self, name, log, *flags):
        """Starts a daemon between lan0 and wan0, with four units."""
        done = self.home(
            PROGRAM, "up", f"--name={name}", "--port=inside=lan0",
            "--port=outside=wan0", "--nf=monitor", "--policy=rotate",
            "--max_units=4", "--isolation=process", "--loggers=on",
            f"--log={log}", *flags)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.addCleanup(self.home, PROGRAM, "down", f"--name={name}")

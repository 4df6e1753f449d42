# SPDX-License-Identifier: Apache-2.0
"""A cluster of LXD of a test's own: a member in each of some namespaces.

A member has a folder, and a namespace of processes, which end with the member:
its containers, too. The machine's own LXD, if there is one, is left alone.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from command_case import wait_for

PORT = 8443
# Control groups stay visible beside the namespace's own interfaces.
SCRIPT = """
set -e
mount --make-rprivate /
mkdir -p "$LXD_DIR/groups"
mount --rbind /sys/fs/cgroup "$LXD_DIR/groups"
mount -t sysfs sysfs /sys
mount --rbind "$LXD_DIR/groups" /sys/fs/cgroup
mount -t proc proc /proc
exec lxd --group root --logfile="$LXD_DIR/log"
"""
PRESEED = """
config: {core.https_address: "ADDRESS:PORT"}
storage_pools: [{name: default, driver: dir}]
profiles:
- name: default
  devices:
    root: {path: /, pool: default, type: disk}
    eth0: {type: nic, nictype: bridged, parent: br0, name: eth0}
- name: gold
  config: {limits.cpu: "1", limits.memory: 256MB}
cluster: {server_name: NAME, enabled: true}
"""
JOIN = """
cluster:
  enabled: true
  server_name: NAME
  server_address: "ADDRESS:PORT"
  cluster_token: TOKEN
  member_config:
  - {entity: storage-pool, name: default, key: source, value: ""}
"""


def skip_without_lxd():
    """Ends the script as skipped where there is no LXD."""
    for program in ("lxd", "lxc", "newuidmap"):
        if shutil.which(program) is None:
            print(f"skipped: needs {program}, of the Debian package lxd")
            sys.exit(4)


class Lxd:
    """One member."""

    def __init__(self, name, namespace, address):
        self.name, self.namespace, self.address = name, namespace, address
        self.folder = tempfile.TemporaryDirectory(
            ignore_cleanup_errors=True)
        self.directory = pathlib.Path(self.folder.name) / "lxd"
        self.directory.mkdir()
        self.directory.parent.chmod(0o711)  # users of containers pass
        self.env = {"LXD_DIR": str(self.directory), "HOME": self.folder.name,
                    "LXD_CONF": self.folder.name, "PATH": os.environ["PATH"]}
        self.socket = self.directory / "unix.socket"
        self.output = pathlib.Path(self.folder.name) / "output"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{namespace}", "unshare",
                 "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
                 SCRIPT], env=self.env, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output)

    def answers(self):
        """True once LXD answers; raises what it said if it has ended."""
        if self.process.poll() is not None:
            words = self.output.read_text(errors="replace").strip()
            raise RuntimeError(f"lxd has ended: {words[-300:]}")
        return self.socket.exists() and self.call(
            "lxc", "query", "/1.0", check=False).returncode == 0

    def call(self, *words, text="", check=True):
        done = subprocess.run(
            ["nsenter", f"--net=/run/netns/{self.namespace}", *words],
            env=self.env, input=text, capture_output=True, text=True,
            timeout=120, check=False)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
        return done

    def begin(self, other=None):
        """Makes a cluster, or joins that of another member."""
        text = PRESEED
        if other is not None:
            token = other.call("lxc", "cluster", "add", self.name)
            text = JOIN.replace("TOKEN", token.stdout.strip().split()[-1])
        self.call("lxd", "init", "--preseed", text=text.replace(
            "ADDRESS", self.address).replace("PORT", str(PORT)).replace(
                "NAME", self.name))

    def instances(self):
        return {one["name"]: one for one in json.loads(
            self.call("lxc", "query", "/1.0/instances?recursion=1").stdout)}

    def end(self):
        """Ends LXD and its containers."""
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


def remove_groups(names):
    """Removes the control groups of containers whose members have ended."""
    for name in names:
        for group in pathlib.Path("/sys/fs/cgroup").glob(f"*/lxc.*.{name}"):
            wait_for(f"the end of {group}", lambda g=group: remove(g))


def remove(group):
    """True once a control group's last process has ended, and it is gone."""
    for folder, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
    return not group.exists()

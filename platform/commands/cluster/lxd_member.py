# SPDX-License-Identifier: Apache-2.0
"""A cluster of LXD in network namespaces of this machine: a member in each.

A member has a namespace of processes, whose first process only waits: all others
end with it, containers among them. LXD's daemon is one of the others, so it may
end and be started again beside its containers. The first process also has what
the member mounts, and the member's control groups have those of its containers.
The machine's own LXD, if there is one, is left alone.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess

from machine import PATIENCE_S, Failure, call, pids_in, wait_for

NEEDED = {"lxd": "lxd", "lxc": "lxd-client", "newuidmap": "uidmap",
          "nsenter": "util-linux"}
PORT = 8443
START_PATIENCE_S = 120  # of LXD, on a machine that has others to run
GROUPS = pathlib.Path("/sys/fs/cgroup")
BRIDGE = "br0"
# Containers of `snf host launch` need these of the kernel, by such options.
NAMESPACES = {"user": "CONFIG_USER_NS", "pid": "CONFIG_PID_NS",
              "mount": "CONFIG_NAMESPACES", "net": "CONFIG_NET_NS",
              "uts": "CONFIG_UTS_NS", "ipc": "CONFIG_IPC_NS",
              "cgroup": "CONFIG_CGROUPS"}
CONTROLLERS = {"cpu": "CONFIG_CGROUP_SCHED", "memory": "CONFIG_MEMCG",
               "pids": "CONFIG_CGROUP_PIDS"}
# Control groups stay visible beside the namespace's own interfaces. LXC's
# files in /run, such as locks, are the member's own.
PLACE = """
set -e
for group in "$@"; do echo 0 >"$group/cgroup.procs"; done
mount --make-rprivate /
mount --rbind /sys/fs/cgroup "$LXD_DIR/groups"
mount -t sysfs sysfs /sys
mount --rbind "$LXD_DIR/groups" /sys/fs/cgroup
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
echo ready
exec >/dev/null 2>&1
sleep infinity
"""
DAEMON = """
for group in "$@"; do echo 0 >"$group/cgroup.procs"; done
exec lxd --group root --logfile="$LXD_DIR/log"
"""
PRESEED = """
config: {core.https_address: "ADDRESS:PORT"}
storage_pools: [{name: default, driver: dir}]
profiles:
- name: default
  devices:
    root: {path: /, pool: default, type: disk}
    eth0: {type: nic, nictype: bridged, parent: BRIDGE, name: eth0}
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


def programs_of_snap():
    """Names LXD's programs that are of a snap: links to snap's own."""
    for program in ("lxd", "lxc"):
        found = shutil.which(program)
        if found is not None and pathlib.Path(found).resolve().name == "snap":
            yield found


def missing_features():
    """Names each feature that the kernel lacks, with its option."""
    for kind, option in NAMESPACES.items():
        done = subprocess.run(["unshare", f"--{kind}", "true"],
                              capture_output=True, text=True, check=False,
                              timeout=PATIENCE_S)
        if done.returncode != 0:
            yield (f"namespaces of kind {kind} ({option}): "
                   f"{done.stderr.strip()}")
    here = controllers()
    for name, option in CONTROLLERS.items():
        if name not in here:
            yield (f"control groups' controller {name} ({option}), mounted "
                   f"below {GROUPS}")
    if not pathlib.Path("/proc/sys/kernel/seccomp/actions_avail").exists():
        yield "filters of system calls (CONFIG_SECCOMP_FILTER)"


def hierarchies():
    """The folders of control groups: one of version 2, else a controller each."""
    if (GROUPS / "cgroup.procs").exists():
        return [GROUPS]
    return sorted(folder for folder in GROUPS.glob("*")
                  if not folder.is_symlink()
                  and (folder / "cgroup.procs").exists())


def controllers():
    with contextlib.suppress(OSError):
        return set((GROUPS / "cgroup.controllers").read_text().split())
    return {name for top in hierarchies() for name in top.name.split(",")}


def make_group(name):
    """Makes a control group wherever there are some; returns the folders."""
    made = []
    for top in hierarchies():
        folder = top
        for part in pathlib.Path(name).parts:
            if folder != top:
                hand_down(folder)
            folder = folder / part
            folder.mkdir(exist_ok=True)
            for what in ("cpuset.cpus", "cpuset.mems"):
                # Version 1: a group takes no process before it has these.
                if (folder / what).exists() and top != GROUPS:
                    of_parent = (folder.parent / what).read_text()
                    (folder / what).write_text(of_parent)
        made.append(folder)
    return made


def hand_down(group):
    """Version 2: gives a group's children the controllers that it was given."""
    with contextlib.suppress(FileNotFoundError):
        given = (group / "cgroup.controllers").read_text().split()
        if given:
            (group / "cgroup.subtree_control").write_text(
                " ".join(f"+{name}" for name in given))


def remove_group(name):
    """Ends all processes of a control group, and removes it wherever it is."""
    for top in hierarchies():
        wait_for(f"the end of control group {top / name}",
                 lambda group=top / name: has_ended(group))


def pids_of(group):
    """The processes of a control group; none if there is no such group."""
    with contextlib.suppress(OSError):
        text = (pathlib.Path(group) / "cgroup.procs").read_text()
        # A process that ends is listed as 0, which means others to kill().
        return [int(pid) for pid in text.split() if pid != "0"]
    return []


def has_ended(group):
    """True once a control group's last process has ended, and it is gone."""
    for folder, _, _ in os.walk(group, topdown=False):
        for pid in pids_of(folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.rmdir(folder)
    return not group.exists()


def bridge_in(space, address):
    """Puts a namespace's interface eth0, and later its containers', into a
    bridge, which gets the address."""
    call("ip", "-n", space, "link", "add", BRIDGE, "type", "bridge")
    call("ip", "-n", space, "addr", "flush", "dev", "eth0")
    call("ip", "-n", space, "link", "set", "eth0", "master", BRIDGE, "up")
    call("ip", "-n", space, "addr", "add", address, "dev", BRIDGE)
    call("ip", "-n", space, "link", "set", BRIDGE, "up")


class LxdMember:
    """One member. The caller names its folder, which the member makes, and a
    control group, below which the member makes its own."""

    def __init__(self, name, space, address, folder, group):
        self.name, self.space, self.address = name, space, address
        self.folder = pathlib.Path(folder)
        self.directory = self.folder / "lxd"
        self.socket = self.directory / "unix.socket"
        self.output = self.folder / "output"
        self.started = []  # they outlive this object
        # LXC makes the groups of containers beside that of the first process,
        # since version 2 wants no process in the group above both.
        self.group = f"{group}/{name}"
        self.own_group = f"{self.group}/init.scope"
        self.env = {"LXD_DIR": str(self.directory), "HOME": str(self.folder),
                    "LXD_CONF": str(self.folder), "PATH": os.environ["PATH"],
                    # Nothing of the containers stays in the kernel.
                    "LXD_SECURITY_APPARMOR": "false"}

    # --- Processes. ---

    def first_process(self):
        """The first process of the member's namespace; None if none runs."""
        for pid in pids_in(self.space):
            with contextlib.suppress(OSError, StopIteration):
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                inner = next(line.split()[1:] for line in status.splitlines()
                             if line.startswith("NSpid:"))
                if len(inner) > 1 and inner[-1] == "1":
                    return pid
        return None

    def is_running(self):
        """Whether LXD's daemon runs here."""
        return self.daemon() is not None

    def daemon(self):
        wanted = f"--logfile={self.directory}/log".encode()
        for pid in pids_in(self.space):
            with contextlib.suppress(OSError):
                text = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                words = text.rstrip(b"\0").split(b"\0")
                if os.path.basename(words[0]) == b"lxd" and words[-1] == wanted:
                    return pid
        return None

    def start(self):
        """Starts what is missing of the member; `answers` tells when it is
        up. The processes outlive this one."""
        for folder in (self.folder, self.directory, self.directory / "groups"):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o711)  # users of containers pass
        is_new = self.first_process() is None
        if is_new:  # LXC renames groups if those of a crash are there
            remove_group(self.group)
        groups = make_group(self.own_group)
        if is_new:
            self.start_place(groups)
        if self.is_running():
            return
        with self.output.open("ab") as output:
            self.started.append(subprocess.Popen(
                ["nsenter", f"--target={self.first_process()}", "--net",
                 "--mount", "--pid", "sh", "-c", DAEMON, "sh", *groups],
                env=self.env, stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, start_new_session=True))

    def start_place(self, groups):
        with self.output.open("wb") as output:
            place = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{self.space}", "unshare",
                 "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
                 PLACE, "sh", *groups], env=self.env,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True)
        self.started.append(place)

        def is_ready():
            if place.poll() is not None:
                raise Failure(f"the place of LXD {self.name}: {self.said()}")
            return "ready" in self.said()
        wait_for(f"the place of LXD {self.name}", is_ready)

    def said(self):
        return self.output.read_text(errors="replace").strip()[-300:]

    def answers(self):
        """True once LXD answers; raises what it said if it has ended. LXD is
        not in its namespace all the while it starts: it tries new ones."""
        if self.started and self.started[-1].poll() is not None:
            raise Failure(f"LXD of {self.name} has ended: {self.said()}")
        return self.socket.exists() and self.query("/1.0") is not None

    def end(self):
        """Ends LXD and its containers; the namespace stays."""
        first = self.first_process()
        if first is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(first, signal.SIGKILL)
            wait_for(f"the end of LXD {self.name}",
                     lambda: self.first_process() != first)
        remove_group(self.group)
        for process in self.started:
            process.wait()
        if self.folder.exists():
            shutil.rmtree(self.folder)

    # --- LXD's cluster. ---

    def call(self, *words, **how):
        how = {"patience_s": START_PATIENCE_S, **how}
        return call(*words, inside=self.space, env=self.env, **how)

    def query(self, path):
        """LXD's answer; None if there is none."""
        with contextlib.suppress(Failure, ValueError):
            return json.loads(self.call("lxc", "query", path))
        return None

    def begin(self, other=None):
        """Makes a cluster, or joins that of another member."""
        text = PRESEED
        if other is not None:
            token = other.call("lxc", "cluster", "add", self.name)
            text = JOIN.replace("TOKEN", token.strip().split()[-1])
        self.call("lxd", "init", "--preseed", text=text.replace(
            "ADDRESS", self.address).replace("PORT", str(PORT)).replace(
                "NAME", self.name).replace("BRIDGE", BRIDGE))

    def are_online(self):
        """Whether the cluster's members reach each other."""
        members = self.query("/1.0/cluster/members?recursion=1")
        return members is not None and all(
            member["status"] == "Online" for member in members)

    def instances(self):
        return {one["name"]: one for one in json.loads(
            self.call("lxc", "query", "/1.0/instances?recursion=1"))}

# SPDX-License-Identifier: Apache-2.0
"""The cluster of host_cluster.py, whose hosts are containers of LXD:

    a 10.88.0.1      b 10.88.0.2      c 10.88.0.3      each: etcd, LXD
          │                │                │
      bridge br0       bridge br0       bridge br0     each in its namespace
          │                │                │
    host-1 …0.11     host-2 …0.12     host-3 …0.13     each: snf host run

LXD's members are one cluster, which places the hosts. Beside the namespaces,
`down` removes a folder of /var/lib, and a control group that has those of all
containers: both have the cluster's name.
"""

import glob
import json
import pathlib
import shutil
import time

import lxd_member
from host_cluster import AGENT_PORT, EDGE_ADDRESS, ETCD, HOSTS, Cluster
from lxd_member import LxdMember
from machine import USAGE, Failure, call, follow, say, wait_for

NAMES = tuple(f"host-{number + 1}" for number in range(len(HOSTS)))
FIRST_ADDRESS = "10.88.0.11/24"
HEARTBEAT_S = 10  # of LXD's members
# LXD says so while a member that was away is not back for the others.
NOT_YET = ("Missing event connection", "No suitable cluster member")
MARK = "made-by-snf-cluster"


class LxdCluster(Cluster):
    FLAG = " --lxd"
    NEEDED = {**Cluster.NEEDED, **lxd_member.NEEDED}
    WAVES = (("etcd", "redis", "web", "iperf3"),)

    def __init__(self, name, *words, **flags):
        super().__init__(name, *words, **flags)
        self.folder = self.folder_of(name)
        self.group = f"snf-cluster-{name}"
        self.members = [LxdMember(host, self.spaces[host], address,
                                  self.folder / host, self.group)
                        for host, address in HOSTS.items()]

    @staticmethod
    def folder_of(name):
        return pathlib.Path(f"/var/lib/snf-cluster-{name}")

    @staticmethod
    def has_left_files(name):
        """Whether a cluster of that name has left files: the machine started
        anew, and forgot the rest."""
        return (LxdCluster.folder_of(name) / MARK).exists()

    def of_hosts(self):
        return {}  # LXD's

    def folder_of_daemon(self):
        return "/"

    # --- up ---

    def check_machine(self):
        super().check_machine()
        for program in lxd_member.programs_of_snap():
            raise Failure(f"{program} is of a snap, whose files are elsewhere; "
                          "Debian's package lxd is wanted")
        if self.added and (self.directory / "image").exists():
            raise Failure("--add: the hosts are here, and have their files; "
                          "./snf cluster down removes them", USAGE)
        missing = list(lxd_member.missing_features())
        if missing:
            raise Failure("LXD's containers cannot run here; the kernel lacks "
                          + "; ".join(missing))

    def note(self):
        if self.has_left_files(self.name):
            self.remove_rest()
        for taken in (self.folder, *(top / self.group for top in
                                     lxd_member.hierarchies())):
            if taken.exists():
                raise Failure(f"{taken} exists, and snf cluster did not make "
                              "it; --name=NAME makes others")
        super().note()
        self.folder.mkdir()
        (self.folder / MARK).touch()

    def connect(self, host, address):
        super().connect(host, address)
        if host in HOSTS:
            lxd_member.bridge_in(self.spaces[host], f"{address}/24")

    def start_hosts(self):
        is_made = self.directory / "lxd"
        if not is_made.exists():
            self.folder.mkdir(exist_ok=True)
            (self.folder / MARK).touch()
            for member in self.members:  # a crash may have left it half made
                member.end()
        missing = [one for one in self.members if not one.is_running()]
        if missing:
            self.start_lxd(missing)
        first, *others = self.members
        if not is_made.exists():
            say(f"makes a cluster of LXD, of {first.name} alone")
            first.begin()
            for other in others:
                say(f"joins {other.name} to LXD's cluster")
                other.begin(first)
            is_made.touch()
        if missing:
            say("waits until LXD's members reach each other")
            wait_for("LXD's cluster", first.are_online,
                     lxd_member.START_PATIENCE_S)
        self.launch()

    def start_lxd(self, members):
        say("starts " + ", ".join(f"LXD of {one.name}" for one in members))
        for member in members:
            member.start()
        self.started += [one for member in members for one in member.started]
        for member in members:
            wait_for(f"LXD of {member.name}", member.answers,
                     lxd_member.START_PATIENCE_S)

    def launch(self):
        """Makes the hosts, or those that are missing. The image stays the same:
        it has the daemon's program."""
        wait_for("LXD's word of containers that have ended", lambda: all(
            self.pids_of(name) for name, _ in self.launched()))
        if set(NAMES) == {name for name, _ in self.launched()}:
            return
        lxd = f"--lxd={self.members[0].socket}"
        has_image = self.directory / "image"
        if not has_image.exists():
            say("makes the image of the hosts")
            call(self.program, "host", "image", lxd,
                 *([f"--add={self.added}"] if self.added else []),
                 patience_s=lxd_member.START_PATIENCE_S)
            has_image.touch()
        say("launches hosts, which LXD places")
        wait_for("LXD's members", lambda: self.has_launched(lxd),
                 lxd_member.START_PATIENCE_S)

    def has_launched(self, lxd):
        """False if a member that was away is not back for the others."""
        try:
            follow(self.program, "host", "launch", "host",
                   f"--count={len(NAMES)}", f"--address={FIRST_ADDRESS}",
                   f"--port={AGENT_PORT}", f"--from={EDGE_ADDRESS}",
                   f"--units={self.units}", "--term=3s", f"--etcd={ETCD}", lxd,
                   inside=self.spaces["edge"],
                   patience_s=lxd_member.START_PATIENCE_S)
            return True
        except Failure as failure:
            if not any(words in str(failure) for words in NOT_YET):
                raise
            say(f"tries again after {HEARTBEAT_S} s, when LXD's members have "
                "called each other")
            time.sleep(HEARTBEAT_S)
            return False

    def launched(self):
        """The hosts that run in containers, each with its member."""
        running = [one for one in self.members if one.is_running()]
        if not running:
            return []
        told = json.loads(call(self.program, "host", "launched", "--json",
                               f"--lxd={running[0].socket}"))
        return [(one["name"], one["member"]) for one in told["host"]
                if one["state"] == "Running"]

    def hosts(self):
        return NAMES

    def pids_of(self, host):
        return next(filter(None, map(lxd_member.pids_of,
                                     self.groups_of(host))), [])

    def groups_of(self, host):
        """The control groups of a host. LXC adds a number to a group's name if a
        crash has left one of that name."""
        for top in lxd_member.hierarchies():
            for end in ("", "-[0-9]*"):
                yield from glob.glob(
                    f"{top}/{self.group}/*/lxc.payload.{host}{end}")

    def what_hosts_are(self):
        return ("a, b and c with etcd and LXD each;\n"
                f"{NAMES[0]} to {NAMES[-1]}, containers that LXD has placed on "
                "them")

    def what_to_kill(self):
        top = next((top for top in lxd_member.hierarchies()
                    if top.name in ("pids", "cgroup")))
        return (f"""\
  LXD_DIR={self.members[0].directory} lxc list
  cat {top}/{self.group}/*/lxc.payload.{NAMES[1]}*/cgroup.procs |
    grep -vx 0 | head -1 | xargs kill -9    # {NAMES[1]} crashes
  ip netns pids {self.spaces['b']} | xargs kill -9
                                    # member b loses its power""")

    # --- down ---

    def down(self):
        if not self.is_here() and self.has_left_files(self.name):
            self.remove_rest()
            return
        super().down()

    def remove_rest(self):
        say("removes LXD's files and control groups")
        lxd_member.remove_group(self.group)
        if self.folder.exists():
            shutil.rmtree(self.folder)

    # --- status ---

    def tell_of_hosts(self):
        is_whole = True
        for member in self.members:
            runs = member.is_running()
            is_whole = is_whole and runs
            self.tell_of(f"LXD of {member.name}", member.space, runs)
        try:
            places = dict(self.launched())
        except Failure as failure:
            print(f"LXD does not tell which hosts run: {failure}")
            return False
        for name in NAMES:
            self.tell_of(name, f"member {places[name]}" if name in places
                         else "", name in places)
        return is_whole and len(places) == len(NAMES)

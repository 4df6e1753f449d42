# SPDX-License-Identifier: Apache-2.0
"""Hosts of a cluster, as network namespaces of this machine.

          a 10.88.0.1   b 10.88.0.2   c 10.88.0.3     each: etcd, the agent of
                └─────────────┼─────────────┘         units, snf host join
                         bridge (switch)
                              │
    client 10.77.0.2 ──── edge 10.88.0.10 ──── 10.77.0.3 server
                     snf up, the units' daemon
                     redis-server

Everything is in namespaces that this script makes, and in a directory of /run,
whose state.json names them before they are made: `down` removes them also after
a crash, and nothing else. `up` starts what is missing, and leaves the rest.
"""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

from machine import (OK, UNAVAILABLE, USAGE, Failure, call, kill_all,
                     namespaces, pids_in, say, wait_for)

HOSTS = {"a": "10.88.0.1", "b": "10.88.0.2", "c": "10.88.0.3"}
EDGE_ADDRESS = "10.88.0.10"
ENDS = {"client": ("10.77.0.2", "lan0"), "server": ("10.77.0.3", "wan0")}
EXTERNAL = "10.77.0.100"
WANTED = {"iperf3": "iperf3", "curl": "curl", "ping": "iputils-ping"}
AGENT_PORT, ETCD_PORT, PEER_PORT, REDIS_PORT = 7000, 2379, 2380, 6379
ETCD = ",".join(f"{address}:{ETCD_PORT}" for address in HOSTS.values())
DEFAULT_NF = f"firewall | monitor | nat(ip={EXTERNAL})"


class Cluster:
    FLAG = ""  # of `./snf cluster up`
    NEEDED = {"ip": "iproute2", "etcd": "etcd-server",
              "redis-server": "redis-server"}
    # Kinds of processes, each of which needs those before it.
    WAVES = (("etcd", "redis"), ("agent", "web", "iperf3"), ("entry",))

    def __init__(self, name, program, nf=DEFAULT_NF, units=2, policy="snf",
                 added=""):
        if not re.fullmatch(r"[a-z][a-z0-9]{0,15}", name):
            raise Failure(f"--name={name}: want at most 16 letters and digits, "
                          "a letter first", USAGE)
        self.name, self.program, self.nf, self.units = name, program, nf, units
        if added and not self.FLAG:
            raise Failure("--add: goes with --lxd; other hosts read the files "
                          "of this machine", USAGE)
        self.policy, self.added = policy, added
        self.started = []  # they outlive this object
        self.directory = self.directory_of(name)
        self.record = self.directory / "state.json"
        self.spaces = {what: f"snf-{name}-{what}" for what in
                       ("switch", *HOSTS, "edge", *ENDS)}

    # --- What is there. ---

    @staticmethod
    def flag_of(name):
        """By which flag the cluster of that name was made; None: none is here.
        """
        with contextlib.suppress(OSError):
            text = Cluster.directory_of(name).joinpath("state.json").read_text()
            return json.loads(text).get("flag", "")
        return None

    @staticmethod
    def directory_of(name):
        return pathlib.Path(f"/run/snf-cluster-{name}")

    def is_here(self):
        return self.record.exists()

    def processes(self):
        """Of each process that a cluster has: its namespace, and its line."""
        return {**self.of_etcd(), **self.of_hosts(), **self.of_others()}

    def of_etcd(self):
        wanted = {}
        initial = ",".join(f"{host}=http://{address}:{PEER_PORT}"
                           for host, address in HOSTS.items())
        for host, address in HOSTS.items():
            own = f"http://{address}"
            wanted[f"etcd of {host}"] = (self.spaces[host], [
                "etcd", f"--name={host}", f"--data-dir={self.directory}/{host}",
                f"--listen-client-urls={own}:{ETCD_PORT}",
                f"--advertise-client-urls={own}:{ETCD_PORT}",
                f"--listen-peer-urls={own}:{PEER_PORT}",
                f"--initial-advertise-peer-urls={own}:{PEER_PORT}",
                f"--initial-cluster={initial}", "--logger=zap",
                "--log-level=error"])
        return wanted

    def of_hosts(self):
        wanted = {}
        for host, address in HOSTS.items():
            wanted[f"agent of {host}"] = (self.spaces[host], [
                self.program, "host", "serve",
                f"--listen={address}:{AGENT_PORT}", f"--from={EDGE_ADDRESS}"])
            wanted[f"entry of {host}"] = (self.spaces[host], [
                self.program, "host", "join", host, f"--etcd={ETCD}",
                f"--address={address}:{AGENT_PORT}", f"--units={self.units}",
                "--term=3s"])
        return wanted

    def of_others(self):
        wanted = {}
        wanted["redis"] = (self.spaces["edge"], [
            "redis-server", "--bind", EDGE_ADDRESS, "--port", str(REDIS_PORT),
            "--save", "", "--appendonly", "no", "--protected-mode", "no"])
        address = ENDS["server"][0]
        wanted["web server"] = (self.spaces["server"], [
            sys.executable, "-m", "http.server", "80", "--bind", address,
            "--directory", str(self.directory / "web")])
        if shutil.which("iperf3"):
            wanted["iperf3 server"] = (self.spaces["server"],
                                       ["iperf3", "-s", "-B", address])
        return wanted

    def hosts(self):
        """The hosts of units."""
        return tuple(HOSTS)

    def pids_of(self, host):
        """The processes of a host of units."""
        return pids_in(self.spaces[host])

    def is_running(self, pids, line):
        """Whether one of these processes has that command line."""
        for pid in pids:
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                if words.rstrip(b"\0").split(b"\0")[-1] == (
                        str(line[-1]).encode()) and (
                            pathlib.Path(line[0]).name.encode() in words):
                    return True
                # Redis writes its own.
                if words.startswith(b"redis-server") and (
                        line[0] == "redis-server"):
                    return True
        return False

    def daemon_answers(self):
        with contextlib.suppress(Failure):
            call(self.program, "status", f"--name={self.name}")
            return True
        return False

    # --- up ---

    def up(self):
        self.check_machine()
        began = time.monotonic()
        if not self.is_here():
            self.note()
        try:
            self.make_network()
            for wave in self.WAVES:
                self.start_all(wave)
            self.start_hosts()
            self.start_daemon()
        except (Failure, KeyboardInterrupt, OSError):
            say(f"left as it is; ./snf cluster down removes it, and logs are "
                f"in {self.directory}")
            raise
        self.tell(time.monotonic() - began)

    def check_machine(self):
        """Fails, with what to do about it, if something is missing."""
        for program, package in self.NEEDED.items():
            if shutil.which(program) is None:
                raise Failure(f"the program {program} is missing: Debian's "
                              f"package {package}; ./snf --yes cluster up"
                              f"{self.FLAG} installs it")

    def note(self):
        """Names all that will be made, unless others have made it."""
        taken = namespaces() & set(self.spaces.values())
        if taken:
            raise Failure(f"the network namespace {min(taken)} exists, and snf "
                          "cluster did not make it; --name=NAME makes others")
        (self.directory / "web").mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        (self.directory / "web" / "index.html").write_text("of the server\n")
        text = json.dumps({"name": self.name, "nf": self.nf,
                           "units": self.units, "flag": self.FLAG,
                           "namespaces": list(self.spaces.values())})
        new = self.record.with_suffix(".new")
        new.write_text(text + "\n")
        new.rename(self.record)

    def make_network(self):
        here = namespaces()
        is_made = self.directory / "network"
        if is_made.exists() and set(self.spaces.values()) <= here:
            return
        say(f"makes {len(self.spaces)} network namespaces, and a bridge")
        is_made.unlink(missing_ok=True)
        # A crash may have left them half made.
        for space in sorted(set(self.spaces.values()) & here):
            self.remove_namespace(space)
        for space in self.spaces.values():
            call("ip", "netns", "add", space)
            call("ip", "-n", space, "link", "set", "lo", "up")
        switch = self.spaces["switch"]
        call("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
        call("ip", "-n", switch, "link", "set", "bridge", "up")
        for host, address in (*HOSTS.items(), ("edge", EDGE_ADDRESS)):
            self.connect(host, address)
        for end, (address, port) in ENDS.items():
            space = self.spaces[end]
            call("ip", "-n", space, "link", "add", "eth0", "type", "veth",
                 "peer", "name", port, "netns", self.spaces["edge"])
            call("ip", "-n", self.spaces["edge"], "link", "set", port,
                 "addrgenmode", "none", "up")
            call("ip", "-n", space, "addr", "add", f"{address}/24", "dev",
                 "eth0")
            call("ip", "-n", space, "link", "set", "eth0", "up")
        # The address of nat has no host that answers ARP.
        card = call("cat", "/sys/class/net/eth0/address",
                    inside=self.spaces["client"]).strip()
        call("ip", "-n", self.spaces["server"], "neigh", "replace", EXTERNAL,
             "lladdr", card, "dev", "eth0", "nud", "permanent")
        is_made.touch()

    def connect(self, host, address):
        """Gives a namespace an interface at the bridge."""
        space, switch = self.spaces[host], self.spaces["switch"]
        call("ip", "-n", space, "link", "add", "eth0", "type", "veth",
             "peer", "name", f"to-{host}", "netns", switch)
        call("ip", "-n", switch, "link", "set", f"to-{host}", "master",
             "bridge", "up")
        call("ip", "-n", space, "addr", "add", f"{address}/24", "dev",
             "eth0")
        call("ip", "-n", space, "link", "set", "eth0", "up")

    def start_hosts(self):
        """Starts hosts that are none of the processes."""

    def start_all(self, kinds):
        wanted = {what: of for what, of in self.processes().items()
                  if what.split()[0] in kinds}
        pids = {space: pids_in(space) for space, _ in wanted.values()}
        missing = {what: of for what, of in wanted.items()
                   if not self.is_running(pids[of[0]], of[1])}
        if not missing:
            return
        for what in missing:
            if what.startswith("entry of "):
                self.await_end_of_entry(what.removeprefix("entry of "))
        say("starts " + ", ".join(missing))
        started = {}
        for what, (space, line) in missing.items():
            log = self.directory / (what.replace(" ", "-") + ".log")
            with open(log, "wb") as file:
                started[what] = (log, subprocess.Popen(
                    ["ip", "netns", "exec", space, *map(str, line)],
                    stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                    cwd=self.directory, start_new_session=True))
        self.started += [process for _, process in started.values()]
        for what, (log, process) in started.items():
            wait_for(what, lambda w=what, p=process, l=log: self.serves(
                w, p, l))

    def await_end_of_entry(self, host):
        """A host that was killed may join once its entry in etcd has ended."""
        def has_ended():
            told = json.loads(call(self.program, "host", "list", "--json",
                                   f"--etcd={ETCD}",
                                   inside=self.spaces["edge"]))
            return all(one["host"]["name"] != host
                       for one in told.get("host", []))
        wait_for(f"the end of the entry of {host}", has_ended)

    def serves(self, what, process, log):
        if process.poll() is not None:
            words = log.read_text(errors="replace").strip().splitlines()
            raise Failure(f"{what} has ended: {words[-1] if words else log}")
        kind, _, host = what.partition(" of ")
        if kind == "entry":
            return "has joined" in log.read_text()
        ports = {"etcd": (HOSTS.get(host), ETCD_PORT),
                 "agent": (HOSTS.get(host), AGENT_PORT),
                 "redis": (EDGE_ADDRESS, REDIS_PORT),
                 "web server": (ENDS["server"][0], 80),
                 "iperf3 server": (ENDS["server"][0], 5201)}
        address, port = ports[kind]
        return re.search(rf"^LISTEN.*{re.escape(address)}:{port}\s",
                         call("ss", "-Hltn",
                              inside=self.processes()[what][0]), re.M)

    def folder_of_daemon(self):
        """Where the daemon is started: hosts have to have that folder, too."""
        return None  # the caller's

    def start_daemon(self):
        if self.daemon_answers():
            return
        say("starts the daemon")
        call(self.program, "up", f"--name={self.name}", "--port=inside=lan0",
             "--port=outside=wan0", f"--nf={self.nf}", "--isolation=process",
             "--loggers=on", f"--max_units={3 * self.units + 1}",
             f"--policy={self.policy}", f"--etcd={ETCD}",
             f"--log={self.directory}/daemon.log",
             inside=self.spaces["edge"], cwd=self.folder_of_daemon())

        def has_hosts():
            told = json.loads(call(self.program, "status", "--json",
                                   f"--name={self.name}"))
            return len(told.get("host", [])) == len(HOSTS)
        wait_for("the daemon's hosts", has_hosts)

    def tell(self, seconds):
        client, b = self.spaces["client"], self.spaces["b"]
        server = ENDS["server"][0]
        script = "./snf cluster" + ("" if self.name == "cluster"
                                    else f" --name={self.name}")
        print(f"""\
Cluster "{self.name}" is up after {seconds:.1f} s: {self.what_hosts_are()};
edge with the daemon, which runs {self.nf}, and Redis.

  ip netns exec {client} ping -c 3 {server}
  ip netns exec {client} iperf3 -c {server}
  ip netns exec {client} curl http://{server}/
  ./snf status --name={self.name}; ./snf units --name={self.name}
  ip netns exec {b} ./snf host list --etcd={ETCD}
{self.what_to_kill()}
  {script} up                       # starts what is missing
  {script} down                     # removes all""")
        for program, package in WANTED.items():
            if shutil.which(program) is None:
                print(f"{program} is missing: Debian's package {package}.")

    def what_hosts_are(self):
        return "hosts a, b and c with etcd and an agent each"

    def what_to_kill(self):
        return (f"  ip netns pids {self.spaces['b']} | xargs kill -9"
                "      # host b loses its power")

    # --- down ---

    def down(self):
        if not self.is_here():
            say(f"there is no cluster \"{self.name}\"")
            return
        say("ends the daemon")
        self.end_daemon()
        made = json.loads(self.record.read_text())["namespaces"]
        say(f"ends all processes of {len(made)} network namespaces, and "
            "removes them")
        here = namespaces()
        for space in made:
            if space in here:
                self.remove_namespace(space)
        self.remove_rest()
        # A daemon that was about to start has left files, and no process.
        self.end_daemon()
        shutil.rmtree(self.directory)

    def end_daemon(self):
        with contextlib.suppress(Failure):
            call(self.program, "down", f"--name={self.name}", check=False)

    def remove_rest(self):
        """Removes what is neither in a namespace nor in the directory."""

    @staticmethod
    def remove_namespace(space):
        kill_all(space)
        call("ip", "netns", "del", space)

    # --- status ---

    def status(self):
        if not self.is_here():
            print(f"There is no cluster \"{self.name}\".")
            return UNAVAILABLE
        here = namespaces()
        is_whole = True
        pids = {space: pids_in(space) if space in here else []
                for space in self.spaces.values()}
        for what, (space, line) in self.processes().items():
            runs = self.is_running(pids[space], line)
            is_whole = is_whole and runs
            self.tell_of(what, space, runs)
        is_whole = self.tell_of_hosts() and is_whole
        if not self.daemon_answers():
            print("daemon         does not run")
            return UNAVAILABLE
        print(call(self.program, "status", f"--name={self.name}"), end="")
        return OK if is_whole else UNAVAILABLE

    @staticmethod
    def tell_of(what, where, runs):
        print(f"{what:<14} {where:<24} {'runs' if runs else 'does not run'}")

    def tell_of_hosts(self):
        """Whether all hosts run that are none of the processes."""
        return True

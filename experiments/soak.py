#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Lets a gateway run for long, under traffic, reloads, crashes and kills.

    client eth0 ── lan0 [ snf up, units, loggers ] wan0 ── eth0 server

Usage: soak.py SNF [--minutes=60] [--reload=10] [--crash=30] [--kill=7]
               [--chain_each=0] [--connections=20] [--seed=N] [--keep=DIR]

TCP connections through `firewall | monitor | soak_crash | nat` are opened and
closed all the time, short and long ones, and each byte that comes back is
compared. Meanwhile, each so many seconds:

  reload   the daemon takes its file again, with another setting, and each
           time of --chain_each (0: never) with another chain: the older one
           ends with its flows
  crash    a packet comes on which the NF soak_crash aborts (a flow of its own)
  kill     a process of units, or of loggers if they can be spared, is killed

Memory of the daemon and of all processes below it is sampled each second. At
the end come the amounts, the memory in tenths of the time, and a verdict:

  - no connection broke, and no echo was wrong
  - each reload was taken
  - no more packets were dropped as nf_failed than crashed the NF
  - packets in are packets out, passed, dropped or lost with a name
  - memory is flat: once a fifth of the time is over, its least in the second
    half of the rest is at most 6 MB above that in the first, and of the others
    30 MB, which hashed tables may still touch. The least is that of one chain

Exits with 1 if one of these does not hold, with 4 if something is missing that
it wants: root, network namespaces, a compiler. --keep=DIR has the daemon's log,
report and memory samples afterwards. Flags of time may be 0: never.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

CLIENT, MIDDLE, SERVER = (f"snf-{name}-{os.getpid()}"
                          for name in ("soak", "way", "far"))
NAME = f"soak-{os.getpid()}"
CLIENT4, SERVER4, EXTERNAL4 = "10.77.0.2", "10.77.0.3", "10.77.0.100"
ECHO, CRASH = 7, 6666  # ports of the server
FAILED, MISSING = 1, 4
# A unit and the loggers that have its state at once are outside of what is
# promised: so long after one of them, the other one is left alone.
REST_S = 3
MOST_GROWTH_KB = {"daemon": 6_000, "others": 30_000}

NF = """// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdlib>

#include "runtime/sdk/nf.h"

namespace snf {
namespace {

// Aborts on a UDP packet to port 6666, and forwards all others.
class SoakCrash final : public NetworkFunction {
 public:
  Verdict process_packet(Packet& packet, FlowState&) override {
    const ParsedPacket& headers = packet.headers();
    const auto bytes = packet.bytes();
    const size_t port = headers.l4_offset + size_t{2};
    if (headers.l4_protocol == IpProtocol::kUdp && port + 1 < bytes.size() &&
        bytes[port] == std::byte{6666 / 256} &&
        bytes[port + 1] == std::byte{6666 % 256}) {
      std::abort();
    }
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(SoakCrash, "soak_crash", "aborts on UDP to port 6666");

}  // namespace
}  // namespace snf
"""


class Missing(Exception):
    pass


def call(*words, **options):
    done = subprocess.run(list(map(str, words)), capture_output=True,
                          text=True, check=False, timeout=900, **options)
    if done.returncode != 0:
        raise Missing(f"{' '.join(map(str, words))}: "
                      f"{(done.stderr or done.stdout).strip()[-2_000:]}")
    return done.stdout


def inside(namespace, *words):
    return ["nsenter", f"--net=/run/netns/{namespace}", *map(str, words)]


# --- The two ends -------------------------------------------------------------

def read_all(peer, count):
    got = b""
    while len(got) < count:
        part = peer.recv(min(65_536, count - len(got)))
        if not part:
            raise ConnectionError("closed early")
        got += part
    return got


def serve():
    """Echoes: 4 bytes of length, then so many."""
    def echo(peer):
        with peer, contextlib.suppress(OSError):
            while True:
                peer.sendall(read_all(
                    peer, int.from_bytes(read_all(peer, 4), "big")))
    listener = socket.create_server((SERVER4, ECHO), backlog=256)
    print("ready", flush=True)
    while True:
        threading.Thread(target=echo, args=(listener.accept()[0],),
                         daemon=True).start()


class Talker:
    """Opens connections and closes them until stdin is closed."""

    def __init__(self, seed):
        self.counts = collections.Counter()
        self.why = []
        self.slowest_s = 0.0
        self.lock = threading.Lock()
        self.stops = threading.Event()
        self.seed = seed

    def count(self, **what):
        with self.lock:
            self.counts.update(what)

    def connection(self, rng):
        is_long = rng.random() < 0.2
        ends = time.monotonic() + (rng.uniform(10, 60) if is_long
                                   else rng.uniform(0, 2))
        with socket.create_connection((SERVER4, ECHO), timeout=60) as peer:
            self.count(opened=1)
            while True:
                sent = rng.randbytes(rng.choice((1, 100, 1_000, 50_000)))
                begin = time.monotonic()
                peer.sendall(len(sent).to_bytes(4, "big") + sent)
                got = read_all(peer, len(sent))
                with self.lock:
                    self.slowest_s = max(self.slowest_s,
                                         time.monotonic() - begin)
                self.count(echoes=1, wrong=int(got != sent))
                if time.monotonic() > ends or self.stops.is_set():
                    break
                self.stops.wait(rng.uniform(0.05, 1 if is_long else 0.3))
        self.count(closed=1)

    def talk(self, number):
        rng = random.Random(f"{self.seed} {number}")
        while not self.stops.is_set():
            try:
                self.connection(rng)
            except OSError as error:
                self.count(broken=1)
                with self.lock:
                    self.why.append(f"{time.strftime('%T')} {error!r}")

    def run(self, connections):
        threads = [threading.Thread(target=self.talk, args=(i,))
                   for i in range(connections)]
        for thread in threads:
            thread.start()
        print("ready", flush=True)
        sys.stdin.read()
        self.stops.set()
        for thread in threads:
            thread.join()
        print(json.dumps({**self.counts, "slowest_s": self.slowest_s,
                          "why": self.why[:10]}))


# --- The gateway --------------------------------------------------------------

def make_hosts():
    if os.geteuid() != 0:
        raise Missing("wants root: it makes network namespaces")
    for namespace in (CLIENT, MIDDLE, SERVER):
        call("ip", "netns", "add", namespace)
        call("ip", "-n", namespace, "link", "set", "lo", "up")
    for namespace, port, address in ((CLIENT, "lan0", CLIENT4),
                                     (SERVER, "wan0", SERVER4)):
        call("ip", "-n", namespace, "link", "add", "eth0", "type", "veth",
             "peer", "name", port, "netns", MIDDLE)
        call("ip", "-n", MIDDLE, "link", "set", port, "addrgenmode", "none",
             "up")
        call("ip", "-n", namespace, "link", "set", "eth0", "up")
        call("ip", "-n", namespace, "addr", "add", f"{address}/24", "dev",
             "eth0")
    # /sys is of the network namespace that mounted it.
    card = json.loads(call("ip", "-n", CLIENT, "-j", "link", "show",
                           "eth0"))[0]["address"]
    call("ip", "-n", SERVER, "neigh", "replace", EXTERNAL4, "lladdr", card,
         "dev", "eth0", "nud", "permanent")


def remove_hosts():
    for namespace in (CLIENT, MIDDLE, SERVER):
        subprocess.run(["ip", "netns", "del", namespace], capture_output=True,
                       check=False)


def build_nf(snf, folder):
    """The module of the NF that crashes."""
    build = pathlib.Path(snf).resolve().parent.parent
    call(snf, "nf", "new", "--force", "soak_crash", cwd=folder)
    project = folder / "soak_crash"
    (project / "soak_crash.cc").write_text(NF)
    lists = (project / "CMakeLists.txt").read_text().splitlines()
    (project / "CMakeLists.txt").write_text(
        "\n".join(line for line in lists if "_test" not in line) + "\n")
    call("cmake", "-G", "Ninja", "-S", project, "-B", project / "build",
         f"-DCMAKE_PREFIX_PATH={build}")
    call("cmake", "--build", project / "build")
    return project / "build" / "soak_crash.so"


def private_kb(pid):
    """Memory that is the process's own; None if it has ended."""
    try:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return None
    sizes = dict(line.split(":") for line in text.splitlines()[1:])
    return sum(int(sizes[key].split()[0])
               for key in ("Private_Clean", "Private_Dirty"))


def below(pid):
    """Processes that a process has started, and those that they have."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *below(child)]
    return found


def named(pid, name):
    found = []
    for child in below(pid):
        with contextlib.suppress(OSError):
            if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == name:
                found.append(child)
    return found


class Gateway:
    def __init__(self, snf, folder, module, rng, chain_each):
        self.snf, self.folder, self.module, self.rng = snf, folder, module, rng
        self.chain_each = chain_each
        self.config = folder / "soak.conf"
        self.log = folder / "daemon.log"
        self.report = folder / "report.json"
        self.reloads = self.crashes = self.refused = 0
        self.kills = collections.Counter()
        self.wrong = []  # what should not have been
        self.samples = []  # (seconds, KB of the daemon, KB of the others)
        self.rested = 0.0  # when units and loggers had rested last
        self.pid = None

    def command(self, *words):
        return subprocess.run(
            inside(MIDDLE, self.snf, *words, f"--name={NAME}"),
            capture_output=True, text=True, timeout=120, check=False)

    def write_config(self):
        """Another file each time: a setting, and now and then the chain."""
        # Flows end soon after their connections, and older chains with them.
        soon = "tcp_transitory_timeout=10s"
        top = 10
        if self.chain_each > 0:
            top += self.reloads // self.chain_each % 2
        chain = (f"firewall({soon}) | monitor(top={top})"
                 f" | {self.module} | nat(ip={EXTERNAL4},{soon},udp_timeout=10s)")
        self.config.write_text(f"""
port: "inside=lan0"
port: "outside=wan0"
chain {{
  name: "edge"
  text: "{chain}"
}}
setting {{ name: "flow_timeout" value: "15s" }}
setting {{ name: "flowlet_timeout" value: "{200 + self.reloads % 6 * 10}us" }}
""")

    def up(self):
        self.write_config()
        done = self.command(
            "up", f"--config={self.config}", "--isolation=process",
            "--loggers=on", "--threads=4", f"--log={self.log}",
            f"--json={self.report}")
        if done.returncode != 0:
            raise Missing(f"snf up: {done.stderr.strip()}")
        self.pid = int(re.search(r"as process (\d+)", done.stdout)[1])

    def reload(self):
        self.reloads += 1
        self.write_config()
        done = self.command("config", "apply", self.config)
        if done.returncode != 0:
            self.wrong.append(f"reload {self.reloads}: {done.stderr.strip()}")

    def crash(self):
        """One packet of a flow of its own."""
        self.crashes += 1
        call(*inside(CLIENT, sys.executable, "-c", "import socket\n"
                     "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                     f"s.sendto(b'x', ('{SERVER4}', {CRASH}))"))
        self.rested = time.monotonic()

    def kill(self):
        if self.rng.random() < 0.3:
            done = self.command("kill", "loggers")
            self.kills["loggers"] += done.returncode == 0
            self.refused += done.returncode != 0
        else:
            among = named(self.pid, "snf-unit")
            with contextlib.suppress(ProcessLookupError, IndexError):
                os.kill(self.rng.choice(among), signal.SIGKILL)
                self.kills["units"] += 1
        self.rested = time.monotonic()

    def sample(self, seconds):
        daemon = private_kb(self.pid)
        if daemon is None:
            self.wrong.append("the daemon has ended")
            return False
        others = sum(private_kb(each) or 0 for each in below(self.pid))
        self.samples.append((seconds, daemon, others))
        return True

    def down(self):
        done = self.command("down")
        if done.returncode != 0:
            self.wrong.append(f"snf down: {done.stderr.strip()}")
        return json.loads(self.report.read_text())


def go_on(gateway, talker, options):
    """Reloads, crashes and kills until the time is over."""
    begin = time.monotonic()
    due = {what: begin + period for what, period in (
        (gateway.reload, options.reload), (gateway.crash, options.crash),
        (gateway.kill, options.kill)) if period > 0}
    periods = {gateway.reload: options.reload, gateway.crash: options.crash,
               gateway.kill: options.kill}
    told = 0
    while (now := time.monotonic()) < begin + options.minutes * 60:
        if talker.poll() is not None:
            gateway.wrong.append("the client has ended")
            return
        if not gateway.sample(now - begin):
            return
        for what, at in due.items():
            rests = what != gateway.reload and now < gateway.rested + REST_S
            if now < at or rests:
                continue
            what()
            due[what] = max(at + periods[what], now)
        if now - begin >= told + 60:
            told += 60
            print(f"  {told // 60} min: {gateway.reloads} reloads, "
                  f"{gateway.crashes} crashes, kills {dict(gateway.kills)}, "
                  f"daemon {gateway.samples[-1][1]:,} KB, others "
                  f"{gateway.samples[-1][2]:,} KB", flush=True)
        time.sleep(1)


def memory(gateway):
    """Tells the memory in tenths, and returns what grew too much."""
    wrong = []
    samples = gateway.samples
    if len(samples) < 10:
        return ["too few samples of memory"]
    for i in range(10):
        part = samples[i * len(samples) // 10:(i + 1) * len(samples) // 10]
        print(f"  {part[0][0]:6.0f} s: daemon "
              f"{statistics.median(s[1] for s in part):>9,.0f} KB, others "
              f"{statistics.median(s[2] for s in part):>9,.0f} KB")
    rest = samples[len(samples) // 5:]
    half = len(rest) // 2
    for column, who in ((1, "daemon"), (2, "others")):
        before, after = (min(s[column] for s in part)
                         for part in (rest[:half], rest[half:]))
        print(f"  {who}: at least {before:,} KB, then {after:,} KB: "
              f"{after - before:+,}, at most {MOST_GROWTH_KB[who]:,}")
        if after - before > MOST_GROWTH_KB[who]:
            wrong.append(f"memory of {who} grew by {after - before:,} KB")
    return wrong


def verdict(gateway, talked, report):
    wrong = list(gateway.wrong)
    for what in ("broken", "wrong"):
        if talked.get(what, 0) > 0:
            wrong.append(f"{talked[what]} {what}: {talked['why']}")
    if talked.get("closed", 0) == 0:
        wrong.append("no connection went through")
    dropped = {reason: n for reason, n in report["packets_dropped"].items()
               if n}
    print(f"  dropped {dropped}; faults "
          f"{ {what: n for what, n in report['faults'].items() if n} }")
    if dropped.get("nf_failed", 0) > gateway.crashes:
        wrong.append(f"{dropped['nf_failed']} packets crashed the NF, of "
                     f"{gateway.crashes} that were to")
    if not report["conserved"]:
        wrong.append("packets do not add up")
    return wrong + memory(gateway)


def soak(options, folder):
    rng = random.Random(options.seed)
    print(f"soak.py: {options.minutes:g} min, --seed={options.seed}; building "
          "the NF that crashes", flush=True)
    gateway = Gateway(options.snf, folder, build_nf(options.snf, folder), rng,
                      options.chain_each)
    make_hosts()
    ends = []
    try:
        gateway.up()
        for namespace, words in ((SERVER, ["serve"]), (CLIENT, [
                "talk", options.connections, options.seed])):
            ends.append(subprocess.Popen(
                inside(namespace, sys.executable, __file__, "--role", *words),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            if ends[-1].stdout.readline() != "ready\n":
                raise Missing(f"{words[0]}: it did not begin")
        go_on(gateway, ends[1], options)
        said, _ = ends[1].communicate(input="", timeout=300)
        talked = json.loads(said)
        report = gateway.down()
    finally:
        for end in ends:
            end.kill()
            end.wait()
        gateway.command("down")
        remove_hosts()
    print(f"soak.py: {talked}; {gateway.reloads} reloads, {gateway.crashes} "
          f"crashes, kills {dict(gateway.kills)}, {gateway.refused} refused")
    wrong = verdict(gateway, talked, report)
    (folder / "memory.json").write_text(json.dumps(gateway.samples))
    for what in wrong:
        print(f"soak.py: WRONG: {what}")
    log = gateway.log.read_text()
    if wrong and "begin anew" in log:
        print("soak.py: of the log: " + "\n  ".join(
            re.findall(r".*begin anew.*", log)[:5]))
    print("soak.py: " + ("failed" if wrong else "nothing broke, memory is "
                         "flat"))
    return FAILED if wrong else 0


def main():
    if sys.argv[1:2] == ["--role"]:
        if sys.argv[2] == "serve":
            return serve()
        return Talker(sys.argv[4]).run(int(sys.argv[3]))
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    flags.add_argument("snf")
    flags.add_argument("--minutes", type=float, default=60)
    for what, seconds in (("reload", 10), ("crash", 30), ("kill", 7)):
        flags.add_argument(f"--{what}", type=float, default=seconds)
    flags.add_argument("--chain_each", type=int, default=0)
    flags.add_argument("--connections", type=int, default=20)
    flags.add_argument("--seed", type=int,
                       default=time.time_ns() % 1_000_000)
    flags.add_argument("--keep", type=pathlib.Path)
    options = flags.parse_args()
    options.snf = str(pathlib.Path(options.snf).resolve())
    try:
        if options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
            return soak(options, options.keep.resolve())
        with tempfile.TemporaryDirectory() as folder:
            return soak(options, pathlib.Path(folder))
    except Missing as why:
        print(f"soak.py: {why}", file=sys.stderr)
        return MISSING


if __name__ == "__main__":
    sys.exit(main())

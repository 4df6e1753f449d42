#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf up` between two hosts, and the commands that look at it and steer it.

    client eth0 ── lan0 [ snf up ] wan0 ── eth0 server

Wants root, and is skipped without.

Usage: control_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import run_test as net
from command_case import OK, PATIENCE_S, USAGE, below, is_alive, wait_for
from run_test import (CLIENT, EXTERNAL4, MIDDLE, PORTS, PROGRAM, SERVER,
                      SERVER4, in_network, inside, ip, peer)

UNAVAILABLE, PERMISSION, INTERRUPTED = 69, 77, 143
NAME = f"test-{os.getpid()}"
FOLDER = pathlib.Path("/run/snf")
SOCKET = FOLDER / f"{NAME}.sock"
GONE = "snf-4194399"  # by the id of a process that cannot be


def snf(*words, name=NAME, before=()):
    return subprocess.run(
        in_network(MIDDLE, *before, PROGRAM, words[0], f"--name={name}",
                   *words[1:]),
        capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)


def told(*words):
    """What a command prints."""
    done = snf(*words)
    if done.returncode != OK:
        raise AssertionError(f"{words}: {done.stderr}")
    return done.stdout


def status():
    return json.loads(told("status", "--json"))


def status_at_rest():
    """Half a second after the last packet all figures are the last ones."""
    def same():
        first = status()
        time.sleep(0.7)
        second = status()
        return second if first["count"] == second["count"] else None
    return wait_for("rest", same)


def units():
    return {unit["id"]: unit
            for unit in json.loads(told("units", "--json"))["unit"]}


def flows(*words):
    return json.loads(told("flows", "--json", *words))


def settings():
    return dict(line.split("=", 1) for line in told("set").splitlines())


def is_of_program(pid):
    """Whether the process is there and has not ended."""
    try:
        return os.readlink(f"/proc/{pid}/exe") == PROGRAM
    except OSError:
        return False


def processes():
    """Those of the program."""
    found = set()
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and is_of_program(entry.name):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if f"--name={NAME}".encode() in words:
                    found.add(int(entry.name))
    return found


def what_is_there():
    """What a daemon might leave behind."""
    links = subprocess.run(["ip", "-n", MIDDLE, "-d", "link"],
                           capture_output=True, text=True, check=True).stdout
    files = [str(path) for path in FOLDER.glob(f"{NAME}*")]
    unix = [line for line in pathlib.Path("/proc/net/unix").read_text()
            .splitlines() if NAME in line]
    return processes(), files, unix, re.findall(r"promiscuity \d+", links)


class Control(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(net.remove_network)
        self.addCleanup(self.end)
        net.make_network()

    @staticmethod
    def end():
        """Kills what a test left, and removes its files."""
        for pid in processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for("end", lambda: not processes())
        snf("down")
        for path in FOLDER.glob(f"{NAME}*"):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def up(self, *words):
        done = snf("up", *PORTS, *words)
        self.assertEqual(done.returncode, OK, done.stderr)
        return done.stdout

    def down(self):
        report = self.folder / "report.json"
        done = snf("down")
        self.assertEqual(done.returncode, OK, done.stderr)
        return json.loads(report.read_text()) if report.exists() else None

    def refused(self, code, words, *command, before=()):
        done = snf(*command, before=before)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def server(self):
        return net.serving(self.folder, SERVER4)

    def check_sound(self, report):
        self.assertTrue(report["conserved"])
        self.assertEqual(report["violations"], 0, report.get("violation_messages"))

    # --- Up and down

    def test_comes_up_carries_packets_and_leaves_nothing(self):
        before = what_is_there()
        said = self.up(f"--json={self.folder}/report.json")
        self.assertIn(f'"{NAME}" runs passthrough between inside=lan0, '
                      "outside=wan0", said)
        self.assertIn(f"snf down --name={NAME} ends it", said)
        self.assertEqual(len(processes()), 1)
        self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 5)), 5)
        report = self.down()
        self.check_sound(report)
        self.assertGreaterEqual(report["packets_in"], 10)
        self.assertEqual(what_is_there(), before)
        self.refused(UNAVAILABLE, ["no daemon", NAME], "down")

    def test_drains_at_sigterm(self):
        self.up(f"--json={self.folder}/report.json")
        peer(CLIENT, "ping", SERVER4, 3)
        pid, = processes()
        os.kill(pid, signal.SIGTERM)
        wait_for("end", lambda: not processes())
        report = json.loads((self.folder / "report.json").read_text())
        self.check_sound(report)
        self.assertEqual(list(FOLDER.glob(f"{NAME}*")), [])

    def test_a_second_one_of_the_name_is_refused(self):
        self.up()
        self.refused(UNAVAILABLE, ["runs already", "snf down"], "up", *PORTS)
        self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 2)), 2)
        self.down()

    def test_what_a_killed_one_left_is_no_hindrance(self):
        self.up()
        pid, = processes()
        os.kill(pid, signal.SIGKILL)
        wait_for("end", lambda: not processes())
        self.assertTrue(SOCKET.exists())
        wait_for("end", lambda: "no daemon" in snf("status").stderr)
        self.refused(UNAVAILABLE, ["no daemon"], "units")
        self.up()
        self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 2)), 2)
        self.down()
        self.assertEqual(list(FOLDER.glob(f"{NAME}*")), [])

    def leftovers(self):
        """What ./snf doctor finds of this test's runs, with what it says."""
        done = subprocess.run(
            [pathlib.Path(sys.argv[2]) / "third_party/doctor.sh", "--json"],
            capture_output=True, text=True, check=False)
        return {finding["name"]: finding["detail"]
                for finding in json.loads(done.stdout)["findings"]
                if finding["section"] == "leftovers"
                and (NAME in finding["name"] or GONE in finding["name"])}

    def test_doctor_finds_what_killed_ones_left_and_nothing_else(self):
        self.assertEqual(self.leftovers(), {})
        self.up()
        self.assertEqual(self.leftovers(), {})
        pid, = processes()
        os.kill(pid, signal.SIGKILL)
        wait_for("end", lambda: not processes())
        left = self.leftovers()
        self.assertEqual(set(left), {f"{FOLDER}/{NAME}.{kind}"
                                     for kind in ("lock", "sock", "log")})
        self.assertEqual(left[str(SOCKET)],
                         f"left by process {pid}, which has ended; "
                         f"snf down --name={NAME} removes it")
        snf("down")
        log = FOLDER / f"{NAME}.log"
        self.assertEqual(self.leftovers(), {
            str(log): "left by a process that has ended; it may say why"})
        log.unlink()
        self.assertEqual(self.leftovers(), {})
        # As of containers: of a launcher that lives, and of one that does not.
        folders = [pathlib.Path("/run/snf-units") / GONE,
                   *(path / GONE for path in
                     pathlib.Path("/sys/fs/cgroup").glob("cpu"))]
        for folder in folders:
            folder.mkdir(parents=True)
            self.addCleanup(folder.rmdir)
        self.assertEqual(set(self.leftovers()), set(map(str, folders)))

    def test_runs_units_in_processes_in_the_background(self):
        def own():
            """The daemon, its launcher and units."""
            pid, = processes()
            return {pid, *below(pid)}

        def have_ended(pids):
            return not any(map(is_alive, pids))
        flags = ["--isolation=process", "--threads=2"]
        self.up(*flags, f"--json={self.folder}/report.json")
        # None of them has the terminal: else the command would not have
        # returned.
        first = own()
        self.assertGreaterEqual(len(first), 3)
        log = f"{FOLDER}/{NAME}.log"
        for pid in first:
            # The daemon puts the lines of its processes into its log.
            self.assertRegex(
                os.readlink(f"/proc/{pid}/fd/2"),
                f"^{log}$" if pid in processes() else r"^socket:\[\d+\]$")
            self.assertEqual(os.readlink(f"/proc/{pid}/fd/0"), "/dev/null")
        self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 5)), 5)
        with self.server():
            self.assertEqual(peer(CLIENT, "tcp", SERVER4, 20, 50_000),
                             ["20 right"])
        first |= own()
        self.check_sound(self.down())
        wait_for("end", lambda: have_ended(first))
        # A daemon that is killed leaves none of them.
        self.up(*flags)
        pid, = processes()
        second = own()
        self.assertGreaterEqual(len(second), 3)
        os.kill(pid, signal.SIGKILL)
        wait_for("end", lambda: have_ended(second))

    def test_says_why_units_in_processes_do_not_come_up(self):
        self.refused(UNAVAILABLE, ["nothing0"], "up", "--port",
                     "inside=lan0", "--port", "outside=nothing0",
                     "--isolation=process", "--threads=2")
        self.assertEqual(list(FOLDER.glob(f"{NAME}*")), [])

    def test_says_so_if_a_daemon_does_not_answer(self):
        self.up()
        pid, = processes()
        os.kill(pid, signal.SIGSTOP)
        asked = [subprocess.Popen(
            in_network(MIDDLE, PROGRAM, words[0], f"--name={NAME}", *words[1:]),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for words in (["status"], ["units"], ["flows"], ["top"], ["set"],
                          ["drain", "0"], ["kill", "0"], ["flows", "--watch"])]
        for process in asked:
            self.addCleanup(process.kill)
        for process in asked:
            output, errors = process.communicate(timeout=PATIENCE_S)
            self.assertEqual((process.returncode, output), (UNAVAILABLE, ""))
            self.assertEqual(errors.count("\n"), 1, errors)
            self.assertIn("not answered in time", errors)
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(status()["name"], NAME)
        self.down()

    def test_one_that_does_not_end_is_killed(self):
        self.up()
        pid, = processes()
        os.kill(pid, signal.SIGSTOP)
        done = snf("down", "--patience=100ms")
        self.assertEqual(done.returncode, 70, done.stderr)
        self.assertIn("did not end in time, and was killed", done.stderr)
        self.assertEqual(processes(), set())
        self.assertFalse(SOCKET.exists())

    def test_stays_in_the_foreground_and_tells_systemd(self):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(listener.close)
        listener.settimeout(PATIENCE_S)
        listener.bind(str(self.folder / "notify"))
        process = subprocess.Popen(
            inside(MIDDLE, "env", f"NOTIFY_SOCKET={self.folder}/notify",
                   PROGRAM, "up", f"--name={NAME}", *PORTS, "--foreground",
                   "--log_json"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        self.assertEqual(listener.recv(100).decode(),
                         f"MAINPID={process.pid}\nREADY=1")
        self.assertEqual(status()["pid"], process.pid)
        self.down()
        self.assertEqual(listener.recv(100), b"STOPPING=1")
        output, errors = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, OK, errors)
        self.assertIn("all accounted for", output)
        lines = [json.loads(line) for line in errors.splitlines()]
        self.assertIn("asked to end", [line["text"] for line in lines])
        self.assertEqual({line["pid"] for line in lines}, {process.pid})

    def test_says_why_it_does_not_come_up(self):
        for code, words, *command in (
                (UNAVAILABLE, ["nothing0", "no such"], "--port",
                 "inside=lan0", "--port", "outside=nothing0"),
                (USAGE, ["no outside"], "--port", "inside=lan0"),
                (USAGE, ["--nf", "no_such_nf"], *PORTS, "--nf=no_such_nf"),
                (USAGE, ["--alpha", "2"], *PORTS, "--alpha=2"),
                (USAGE, ["--watch", "--foreground"], *PORTS, "--watch"),
                (74, ["/nowhere/log"], *PORTS, "--log=/nowhere/log")):
            self.refused(code, words, "up", *command)
        self.refused(PERMISSION, ["root or CAP_NET_RAW"], "up", *PORTS,
                     before=["setpriv", "--bounding-set=-all"])
        done = snf("up", *PORTS, name="../x")
        self.assertEqual(done.returncode, USAGE, done.stderr)
        self.assertEqual(processes(), set())
        self.assertEqual(list(FOLDER.glob(f"{NAME}*")), [])

    def test_takes_its_chain_from_a_file(self):
        file = self.folder / "site.txt"
        file.write_text('nf { name: "fw" type: "firewall" }\n'
                        'chain { name: "all" text: "fw | monitor" '
                        'max_units: 2 unit_capacity: "50Mbps" }\n')
        self.up(f"--config={file}")
        told_status = status()
        self.assertEqual(told_status["nf"], "firewall | monitor")
        self.assertEqual(told_status["unit_capacity_bps"], 50_000_000)
        self.assertEqual(json.loads(told("units", "--json"))["usable_units"],
                         2)
        self.refused(USAGE, ["max_units", "config"], "set", "max_units=1")
        self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 2)), 2)
        self.down()
        file.write_text(file.read_text() +
                        'chain { name: "other" text: "passthrough" }\n'
                        'default_chain: "all"\n')
        self.up(f"--config={file}")
        self.assertEqual([one["name"] for one in status()["chain"]],
                         ["all", "other"])
        self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 2)), 2)
        self.down()
        file.write_text("chain {")
        self.refused(65, ["site.txt:1:"], "up", *PORTS, f"--config={file}")

    # --- What is told

    @staticmethod
    def silence_ipv6():
        """Else hosts look for routers now and then."""
        for namespace in (CLIENT, SERVER):
            subprocess.run(inside(
                namespace, "sh", "-c",
                "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6"),
                check=True)

    def test_tells_true_figures(self):
        self.silence_ipv6()
        self.up("--unit_capacity=20Mbps", "--unit_start_delay=1ms")
        with self.server():
            self.assertEqual(peer(CLIENT, "tcp", SERVER4, 50, 20_000),
                             ["50 right"])
        told_status = status_at_rest()
        count = told_status["count"]
        self.assertEqual(told_status["name"], NAME)
        self.assertEqual(told_status["nf"], "passthrough")
        self.assertGreaterEqual(count["flows"], 50)
        self.assertEqual(
            sum(port["received"] for port in told_status["port"]),
            count["packets_in"])
        self.assertEqual(
            sum(port["sent"] + port["send_drops"] - port["cut"]
                for port in told_status["port"]),
            count["packets_released"] + count["packets_passed_through"])
        by_unit = units()
        self.assertEqual(
            {unit["id"]: unit["packets"] for unit in told_status["unit"]},
            {unit["id"]: unit["packets"] for unit in by_unit.values()})
        told_flows = flows("--limit=10000")
        self.assertEqual(told_flows["flows"], count["flows"])
        self.assertEqual(len(told_flows["flow"]), told_flows["flows"])
        # Of a flow whose state is at a unit, that unit has it.
        for unit in by_unit.values():
            own = flows("--limit=10000", f"--unit={unit['id']}")
            self.assertEqual(own["flows"], unit["flows"])
        # Clocks count packets, and those that SNF made for a flow.
        self.assertGreaterEqual(
            sum(flow["clock"] for flow in told_flows["flow"]),
            count["packets_in"] - count["packets_passed_through"]
            - sum(drop["packets"] for drop in told_status["drop"]))
        idle = [flow["idle_ns"] for flow in told_flows["flow"]]
        self.assertEqual(idle, sorted(idle))
        latest = flows("--limit=3")
        self.assertEqual([flow["key"] for flow in latest["flow"]],
                         [flow["key"] for flow in told_flows["flow"][:3]])
        self.assertTrue(any(f"{SERVER4}:7" in flow["key"]
                            for flow in told_flows["flow"]))
        self.assertIn("tcp", told("flows"))
        self.assertIn(f"{NAME}: passthrough under policy snf", told("status"))
        self.assertRegex(told("units"), r"\n +0  (warm|active|stopped)")
        self.down()

    def test_top_shows_it_until_it_ends(self):
        self.up()
        process = subprocess.Popen(
            inside(MIDDLE, PROGRAM, "top", f"--name={NAME}"),
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        peer(CLIENT, "ping", SERVER4, 2)
        self.assertIn("packets in", process.stdout.readline())
        self.down()
        output, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, OK, output)

    def test_watches_until_it_ends(self):
        self.up()
        for words in (["status", "--json"], ["units"], ["flows", "--json"]):
            process = subprocess.Popen(
                inside(MIDDLE, PROGRAM, words[0], f"--name={NAME}", "--watch",
                       *words[1:]), stdout=subprocess.PIPE, text=True)
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            first, second = (process.stdout.readline() for _ in range(2))
            self.assertTrue(second)
            if "--json" in words:
                self.assertEqual(set(json.loads(first)),
                                 set(json.loads(second)))
            if words[0] == "status":
                watcher = process
        self.down()
        watcher.wait(timeout=PATIENCE_S)
        self.assertEqual(watcher.returncode, OK)

    # --- What is changed

    def test_settings_change_what_it_does(self):
        log = self.folder / "log"
        self.up(f"--log={log}", "--flowlet_timeout=10ms",
                "--unit_idle_timeout=50ms")
        at_first = settings()
        self.assertEqual(at_first["flowlet_timeout"], "10ms")
        self.assertEqual(at_first["log_level"], "info")
        self.silence_ipv6()
        with self.server():
            peer(CLIENT, "udp", SERVER4, *range(1, 20))
            told("set", "flowlet_bytes=1", "alpha=0.5", "log_level=debug")
            changed = settings()
            self.assertEqual(changed["flowlet_bytes"], "1")
            self.assertEqual(changed["alpha"], "0.5")
            before = status_at_rest()
            peer(CLIENT, "udp", SERVER4, *range(1, 20))
            after = status_at_rest()
        # Each packet is a flowlet of its own now.
        count = {name: after["count"][name] - before["count"][name]
                 for name in ("flowlets", "packets_in",
                              "packets_passed_through")}
        self.assertEqual(count["flowlets"], count["packets_in"]
                         - count["packets_passed_through"])
        self.down()
        text = log.read_text()
        self.assertIn("info: set flowlet_bytes=1\n", text)
        self.assertIn("debug: unit 0 ", text)

    def test_refuses_settings_whole(self):
        self.up("--max_units=4", "--flow_timeout=10s")
        at_first = settings()
        for words, *values in (
                (["alpha", "2"], "evict_after=5s", "alpha=2"),
                (["nonsense", "snf set"], "evict_after=5s", "nonsense=1"),
                (["unit_capacity cannot change"], "evict_after=5s",
                 "unit_capacity=1Gbps"),
                (["max_units=5", "started with 4"], "evict_after=5s",
                 "max_units=5"),
                (["flow_timeout", "flowlet_timeout"], "evict_after=5s",
                 "flow_timeout=100us"),
                (["log_level=loud"], "evict_after=5s", "log_level=loud"),
                (["not NAME=VALUE"], "evict_after"),
                (["given twice"], "evict_after=5s", "evict_after=6s")):
            self.refused(USAGE, words, "set", *values)
            self.assertEqual(settings(), at_first)
        self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 2)), 2)
        self.down()

    def busy(self, seconds_at_most=60):
        """Echoes that go on until the event is set; then what is not right."""
        stop = threading.Event()
        wrong = []
        def talk():
            end = time.monotonic() + seconds_at_most
            while not stop.is_set() and time.monotonic() < end:
                lines = peer(CLIENT, "tcp", SERVER4, 20, 100_000)
                if lines != ["20 right"]:
                    wrong.append(lines)
        thread = threading.Thread(target=talk)
        thread.start()
        return stop, thread, wrong

    def test_a_drained_unit_loses_its_flows_and_no_packet(self):
        self.up("--unit_capacity=50Mbps", "--unit_start_delay=1ms",
                "--max_units=4", f"--nf=nat(ip={EXTERNAL4})",
                f"--json={self.folder}/report.json")
        ip("-n", SERVER, "neigh", "add", EXTERNAL4, "lladdr",
           net.address_of_card(CLIENT), "dev", "eth0", "nud", "permanent")
        with self.server():
            stop, thread, wrong = self.busy()
            try:
                wait_for("flows", lambda: units().get(0, {}).get("flows", 0))
                self.assertIn("Unit 0 gets no more flowlets", told("drain", "0"))
                wait_for("end of unit 0",
                         lambda: units()[0]["state"] == "stopped")
                gone = units()[0]
                self.assertTrue(gone["is_drained"])
                self.assertEqual(gone["flows"], 0)
                told("set", "max_units=2")
                self.refused(UNAVAILABLE, ["without unit 1"], "drain", "1")
                self.refused(USAGE, ["no unit 4"], "drain", "4")
                packets = units()[1]["packets"]
                wait_for("packets",
                         lambda: units()[1]["packets"] > packets + 100)
                self.assertEqual(units()[0]["packets"], gone["packets"])
                told("drain", "0", "--undo")
                self.assertFalse(units()[0]["is_drained"])
                told("drain", "1")
                wait_for("use of unit 0",
                         lambda: units()[0]["packets"] > gone["packets"])
            finally:
                stop.set()
                thread.join()
        self.assertEqual(wrong, [])
        report = self.down()
        self.check_sound(report)
        self.assertEqual(
            {reason: packets for reason, packets
             in report["packets_dropped"].items()
             if packets and reason not in ("no_mapping", "nf:not_ipv4")}, {})


if __name__ == "__main__":
    reason = net.why_skipped()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(net.SKIPPED)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    net.remove_remains()
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `snf replay --clock=real` shows while it runs: --watch, --metrics_port.

Usage: live_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import fcntl
import http.client
import json
import os
import pathlib
import pty
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import PATIENCE_S, free_port, wait_for

PROGRAM = ""
SOURCE = pathlib.Path()
USAGE, IO = 2, 74
CAPTURE = "traces/small.pcap.zst"
# Some minutes of 10,000 packets a second.
LONG = ["--speed=10kpps", "--loop=100"]


def samples(text):
    """Samples of Prometheus' text format, by name and labels."""
    values = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            values[name] = float(value)
    return values


def sum_of(values, family):
    return sum(value for name, value in values.items()
               if re.fullmatch(family + r"(\{.*\})?", name))


class Live(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.json = pathlib.Path(folder.name) / "report.json"

    @contextlib.contextmanager
    def running(self, *arguments, stderr=subprocess.PIPE, environment=None):
        """A run, which is interrupted at the end."""
        process = subprocess.Popen(
            [PROGRAM, "replay", CAPTURE, "--clock=real", f"--json={self.json}",
             *arguments], cwd=SOURCE, stdout=subprocess.PIPE, stderr=stderr,
            text=True, env={**os.environ, **(environment or {})})
        try:
            yield process
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
            process.wait()
        self.assertEqual(process.returncode, 128 + signal.SIGINT, errors)
        self.assertIn("all accounted for", output)
        self.errors = errors

    @staticmethod
    def ask(port, path="/metrics", method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", port,
                                                timeout=PATIENCE_S)
        connection.request(method, path)
        answer = connection.getresponse()
        return answer, answer.read().decode()

    def scrape(self, port):
        """The figures; None while nobody listens."""
        try:
            answer, text = self.ask(port)
        except ConnectionRefusedError:
            return None
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.getheader("Content-Type"),
                         "text/plain; version=0.0.4; charset=utf-8")
        return samples(text)

    def packets_from(self, port, least, units=0):
        """The figures once there were so many packets, at a time at which
        so many units are up: in a pause there may be none."""
        def enough():
            values = self.scrape(port)
            ready = values and (values["snf_packets_in_total"] >= least and
                                values["snf_units_up"] >= units)
            return values if ready else None
        return wait_for("packets", enough)

    # --metrics_port

    def test_serves_figures_that_grow_and_add_up(self):
        port = free_port()
        with self.running(*LONG, "--quiet", "--unit_capacity=100Mbps",
                          "--nf=nat(ip=203.0.113.1)",
                          f"--metrics_port={port}"):
            first = self.packets_from(port, 1)
            seen = self.packets_from(port, first["snf_packets_in_total"] + 1)
            for name, value in first.items():
                if name.endswith("_total") or "_total{" in name:
                    self.assertGreaterEqual(seen[name], value, name)
            last = self.packets_from(port, 10_000, units=1)
        begun = sum(last[f"snf_packets_{what}_total"]
                    for what in ("in", "generated", "hairpinned"))
        ended = sum(last[f"snf_packets_{what}_total"]
                    for what in ("released", "passed_through", "consumed"))
        ended += sum_of(last, "snf_packets_dropped_total")
        self.assertEqual(begun, ended + last["snf_packets_under_way"])
        self.assertGreater(last["snf_packets_released_total"], 0)
        self.assertEqual(last["snf_units_up"], sum_of(last, "snf_unit_up"))
        self.assertGreater(sum_of(last, "snf_unit_packets_total"), 0)
        self.assertEqual(last["snf_packet_latency_seconds_count"],
                         last["snf_packets_released_total"]
                         - last["snf_packets_generated_total"])
        self.assertEqual(last["snf_schedule_error_seconds_count"],
                         last["snf_packets_in_total"])
        self.assertLessEqual(
            sum_of(last, "snf_flowlets_handed_over_total"),
            last["snf_flowlets_moved_total"])
        report = json.loads(self.json.read_text())
        self.assertTrue(report["conserved"])
        self.assertGreaterEqual(report["packets_in"],
                                last["snf_packets_in_total"])
        self.assertGreaterEqual(report["flowlets"],
                                last["snf_flowlets_total"])

    def test_answers_for_metrics_by_get_alone(self):
        port = free_port()
        with self.running(*LONG, "--quiet", f"--metrics_port={port}"):
            self.packets_from(port, 1)
            for path in ("/", "/metrics/", "/metricsx", "/%2e", "*"):
                self.assertEqual(self.ask(port, path)[0].status, 404, path)
            for method in ("POST", "HEAD", "PUT", "DELETE", "BREW"):
                answer, _ = self.ask(port, method=method)
                self.assertEqual(answer.status, 405, method)
                self.assertEqual(answer.getheader("Allow"), "GET")
            self.assertEqual(self.ask(port, "/metrics?x=1")[0].status, 200)

    def test_bounds_what_a_client_may_take(self):
        port = free_port()
        with self.running(*LONG, "--quiet", f"--metrics_port={port}"):
            self.packets_from(port, 1)

            def rest(client):
                with contextlib.suppress(ConnectionResetError):
                    return client.recv(1000)
                return b""
            # No HTTP, too long a request: closed, with no more than an error.
            for request, answer in (
                    (b"\0\1\2\r\n\r\n", b""),
                    (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n",
                     b"HTTP/1.1 414 URI Too Long\r\n")):
                with socket.create_connection(("127.0.0.1", port)) as client:
                    client.settimeout(PATIENCE_S)
                    with contextlib.suppress(OSError):
                        client.sendall(request)
                    got = rest(client)
                    self.assertEqual(got[:len(answer) or None], answer)
                    self.assertEqual(rest(client) if got else b"", b"")
            # More clients than are served at a time, who say nothing: they are
            # closed after a while, and another one gets its answer.
            silent = [socket.create_connection(("127.0.0.1", port))
                      for _ in range(12)]
            self.assertIsNotNone(self.scrape(port))
            for client in silent[:8]:
                client.settimeout(PATIENCE_S)
                self.assertEqual(rest(client), b"")
            for client in silent:
                client.close()

    def test_is_on_this_machine_alone(self):
        port = free_port()
        with self.running(*LONG, "--quiet", f"--metrics_port={port}"):
            self.packets_from(port, 1)
            listening = [line.split()[1] for line in
                         pathlib.Path("/proc/net/tcp").read_text().splitlines()
                         if line.split()[3] == "0A"]
            self.assertIn(f"0100007F:{port:04X}", listening)
            self.assertNotIn(f"00000000:{port:04X}", listening)

    def test_serves_by_https_on_any_address_and_tells_of_health(self):
        port = free_port()
        with tempfile.TemporaryDirectory() as certificates:
            subprocess.run([PROGRAM, "cert", certificates, "--host=localhost"],
                           check=True, capture_output=True)
            trusted = ssl.create_default_context(
                cafile=f"{certificates}/ca.crt")
            with self.running(*LONG, "--quiet", f"--metrics_port={port}",
                              "--metrics_address=0.0.0.0",
                              f"--metrics_tls={certificates}"):
                def page(path):
                    connection = http.client.HTTPSConnection(
                        "localhost", port, timeout=10, context=trusted)
                    try:
                        connection.request("GET", path)
                        answer = connection.getresponse()
                        return answer.status, answer.read().decode()
                    except ConnectionRefusedError:
                        return None
                    finally:
                        connection.close()
                self.assertEqual(
                    wait_for("readiness", lambda: page("/readyz") == (200, "ok\n")),
                    True)
                self.assertEqual(page("/healthz"), (200, "ok\n"))
                self.assertIn("snf_packets_in_total", page("/metrics")[1])
                with self.assertRaises(ssl.SSLError):
                    ssl.create_default_context().wrap_socket(
                        socket.create_connection(("127.0.0.1", port)),
                        server_hostname="localhost")

    def test_refuses_a_port_that_is_taken_before_any_packet(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            self.refused(IO, ["--metrics_port", f"127.0.0.1:{port}",
                              "Address already in use"], "--clock=real",
                         f"--metrics_port={port}")

    def refused(self, code, words, *arguments):
        ran = subprocess.run(
            [PROGRAM, "replay", CAPTURE, f"--json={self.json}", *arguments],
            cwd=SOURCE, capture_output=True, text=True, timeout=PATIENCE_S,
            check=False)
        self.assertEqual(ran.returncode, code, ran.stderr)
        self.assertEqual(ran.stdout, "")
        self.assertEqual(ran.stderr.count("\n"), 1, ran.stderr)
        for word in words:
            self.assertIn(word, ran.stderr)
        self.assertFalse(self.json.exists())

    def test_refuses_what_contradicts_it(self):
        self.refused(USAGE, ["--watch", "only real time has that"], "--watch")
        self.refused(USAGE, ["--metrics_port", "only real time has that"],
                     "--metrics_port=9100")
        self.refused(USAGE, ["--watch", "--quiet"], "--clock=real", "--watch",
                     "--quiet")
        self.refused(USAGE, ["--metrics_port", "65536"], "--clock=real",
                     "--metrics_port=65536")
        for flag in ("--metrics_address=0.0.0.0", "--metrics_tls=."):
            self.refused(USAGE, [flag.split("=")[0], "only real time"], flag)
            self.refused(USAGE, [f"{flag.split('=')[0]} needs --metrics_port"],
                         "--clock=real", flag)
        self.refused(USAGE, ['--metrics_address: "all" is no address'],
                     "--clock=real",
                     "--metrics_port=9100", "--metrics_address=all")

    # --watch

    def test_writes_a_line_every_two_seconds_to_a_log(self):
        with self.running(*LONG, "--watch") as process:
            lines = []
            while len(lines) < 2:
                line = process.stderr.readline()
                self.assertTrue(line)
                if "packets in" in line:
                    lines.append(line)
        for line in lines:
            self.assertRegex(line, r"^[0-9.]+ s, \d+ %: [0-9,]+ packets in, ")
            self.assertNotIn("\033", line)
        self.assertEqual([float(line.split()[0]) // 2 for line in lines],
                         [1, 2], lines)
        self.assertIn("Interrupted", self.errors)

    def screen(self, columns, rows, enough, **environment):
        """What a run writes to a terminal until `enough` of it, and from then
        on to its end after an interrupt."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, columns, 0, 0))
        pieces = []

        def read():
            with contextlib.suppress(OSError):  # when all have closed it
                while pieces.append(os.read(master, 100_000)) is None:
                    pass

        def text():
            return b"".join(pieces).decode(errors="ignore")
        reader = threading.Thread(target=read)
        reader.start()
        with self.running(*LONG, "--watch", "--unit_capacity=20Mbps",
                          stderr=slave,
                          environment={"TERM": "xterm", "LC_ALL": "C.UTF-8",
                                       **environment}):
            wait_for("screen", lambda: enough(text()))
            before = len(text())
        os.close(slave)
        reader.join()
        os.close(master)
        return text()[:before], text()[before:]

    def test_draws_a_screen_and_leaves_the_terminal_clean(self):
        text, end = self.screen(90, 40, lambda t: t.count("Packets in") >= 3)
        self.assertIn("small.pcap.zst: passthrough under policy snf", text)
        self.assertIn("\033[1m", text)
        self.assertRegex(text, r"at 10kpps, \d %")
        self.assertRegex(text, r"\n +0 [█▏▎▍▌▋▊▉·]+ +\d+ % +[0-9.]+ .?bit/s")
        # Nothing that would have to be undone.
        for escape in re.findall(r"\033\[[^A-Za-z]*[A-Za-z]", text + end):
            self.assertRegex(escape, r"^\033\[(\d+A|K|J|0m|1m|1;31m)$")
        # At the end all is wiped, then other things are said.
        wiped = re.search(r"\r\033\[\d+A\033\[J", end)
        self.assertIsNotNone(wiped)
        self.assertIn("Interrupted", end[wiped.end():])
        self.assertNotIn("Packets in", end[wiped.end():])

    def test_keeps_to_a_small_terminal_without_colours_or_utf8(self):
        text, _ = self.screen(44, 12, lambda t: t.count("Packets in") >= 3,
                              NO_COLOR="1", LC_ALL="C")
        self.assertNotIn("\033[1m", text)
        self.assertTrue(text.isascii(), text)
        for frame in text.split("\033[J")[:-1]:
            lines = re.sub(r"\033\[\d*[AK]", "", frame).split("\n")[:-1]
            self.assertLess(len(lines), 12)
            # On a slow machine lines of progress come before, one over another.
            shown = [part for line in lines for part in line.split("\r")]
            self.assertLess(max(map(len, shown), default=0), 44, shown)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
    SOURCE = pathlib.Path(sys.argv[2]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

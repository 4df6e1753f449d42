#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may ask a daemon of `snf up`, and what those can do who mean it ill.

    client eth0 ── lan0 [ snf up ] wan0 ── eth0 server

Wants root, and is skipped without.

Usage: control_access_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import control_peer
import control_test
import run_test as net
from command_case import OK, PATIENCE_S, USAGE, wait_for
from control_test import (FOLDER, NAME, PERMISSION, SOCKET, UNAVAILABLE,
                          processes, status, told)
from run_test import CLIENT, MIDDLE, PORTS, PROGRAM, SERVER4, inside, peer

SERVICE = "/snf.proto.Control/"
# Says what an answer begins with.
WITHOUT_TLS = """
import control_peer, socket, sys
with socket.create_connection(("127.0.0.1", 7001)) as client:
    client.settimeout(30)
    client.sendall(control_peer.PREFACE +
                   control_peer.frame(control_peer.SETTINGS, 0, 0))
    try:
        sys.stdout.buffer.write(client.recv(9))
    except ConnectionResetError:
        pass
"""
INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 3, 8, 12, 13


class Access(control_test.Control):
    # --- Over TCP

    def certificates(self, name, *flags):
        directory = self.folder / name
        done = subprocess.run([PROGRAM, "cert", directory, *flags],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertIn("client.*", done.stdout)
        return directory

    def test_is_asked_over_tcp_by_whoever_shows_a_certificate(self):
        tls = self.certificates("tls", "--role=admin")
        address = "tcp:127.0.0.1:7001"

        def remote(word, *flags, directory=tls):
            return subprocess.run(
                inside(MIDDLE, PROGRAM, word, f"--control={address}",
                       f"--tls={directory}", *flags), capture_output=True,
                text=True, timeout=PATIENCE_S, check=False)
        self.up(f"--control={address}", f"--tls={tls}")
        asked = remote("status", "--json")
        self.assertEqual(asked.returncode, OK, asked.stderr)
        self.assertEqual(json.loads(asked.stdout)["name"], NAME)
        self.assertEqual(status()["name"], NAME)  # here as before
        for word in ("units", "flows", "set"):
            self.assertEqual(remote(word).returncode, OK)
        # Who has no certificate of it, or none at all, is told so in a line.
        other = self.certificates("other")
        mixed = self.certificates("mixed")
        (mixed / "ca.crt").write_bytes((tls / "ca.crt").read_bytes())
        (other / "client.key").chmod(0o644)
        for code, words, directory in (
                (UNAVAILABLE, ["mixed/client.crt", "not signed by"], mixed),
                (PERMISSION, ["client.key", "chmod 600"], other),
                (UNAVAILABLE, ["ca.crt", "snf cert"], self.folder / "none")):
            asked = remote("status", directory=directory)
            self.assertEqual(asked.returncode, code, asked.stderr)
            self.assertEqual(asked.stderr.count("\n"), 1, asked.stderr)
            for word in words:
                self.assertIn(word, asked.stderr)
        (other / "client.key").chmod(0o600)
        asked = remote("status", directory=other)
        self.assertIn("not signed by the authority of --tls", asked.stderr)
        self.assertEqual(asked.returncode, UNAVAILABLE)
        # Nobody answers without TLS: as HTTP/2 has it, SETTINGS would come.
        plain = subprocess.run(
            inside(MIDDLE, sys.executable, "-c", WITHOUT_TLS),
            cwd=pathlib.Path(__file__).parent, capture_output=True,
            timeout=PATIENCE_S, check=False)
        self.assertEqual(plain.returncode, OK, plain.stderr)
        self.assertNotEqual(plain.stdout[3:4], bytes([control_peer.SETTINGS]))
        # Half of what says which daemon is not the one here.
        self.refused(USAGE, ["--name and --control"], "down", f"--tls={tls}")
        asked = subprocess.run(
            inside(MIDDLE, PROGRAM, "down", f"--tls={tls}"),
            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(asked.returncode, USAGE, asked.stderr)
        self.assertEqual(status()["name"], NAME)
        ended = remote("down")
        self.assertEqual(ended.returncode, OK, ended.stderr)
        wait_for("end", lambda: not processes())
        asked = remote("status")
        self.assertIn('"127.0.0.1:7001" cannot be asked: Connection refused',
                      asked.stderr)

    def test_a_certificate_may_do_what_its_role_says(self):
        secret = self.folder / "secret"
        secret.write_text("hidden words\n")
        written = self.folder / "written"
        for role, allowed in (("look", 1), ("steer", 2), ("admin", 3)):
            tls = self.certificates(role, f"--role={role}")
            address = "tcp:127.0.0.1:7001"
            self.up(f"--control={address}", f"--tls={tls}")

            def remote(*words, tls=tls):
                return subprocess.run(
                    inside(MIDDLE, PROGRAM, *words, f"--control={address}",
                           f"--tls={tls}"), capture_output=True, text=True,
                    timeout=PATIENCE_S, check=False)
            calls = ((1, ["set"]), (2, ["set", "alpha=0.5"]),
                     (3, ["chain", "set", "monitor"]), (3, ["down"]))
            # The daemon's files are nobody's who is elsewhere.
            for words in (["chain", "set", f"firewall(rules={secret})"],
                          ["chain", "set", f"monitor(ipfix={written})"],
                          ["nf", "deploy", str(secret)]):
                asked = remote(*words)
                self.assertEqual(asked.returncode, PERMISSION, asked.stderr)
                self.assertIn("over TCP" if role == "admin" else "wants admin",
                              asked.stderr)
                self.assertNotIn("hidden", asked.stderr)
            self.assertFalse(written.exists())
            for least, words in calls:
                asked = remote(*words)
                self.assertEqual(asked.returncode,
                                 OK if least <= allowed else PERMISSION,
                                 (role, words, asked.stderr))
            if allowed < 3:
                told("down")  # this user, here, may
            wait_for("end", lambda: not processes())

    def test_refuses_tcp_without_certificates(self):
        tls = self.certificates("tls")
        done = subprocess.run([PROGRAM, "cert", tls], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("exists: use another directory", done.stderr)
        for code, words, *flags in (
                (USAGE, ["--tls"], "--control=tcp:127.0.0.1:7001"),
                (USAGE, ["--control"], f"--tls={tls}"),
                (USAGE, ["127.0.0.1", "HOST:PORT"], "--control=127.0.0.1",
                 f"--tls={tls}"),
                (UNAVAILABLE, ["nowhere/ca.crt"], "--tls=/nowhere",
                 "--control=tcp:127.0.0.1:7001")):
            self.refused(code, words, "up", *PORTS, *flags)
        self.refused(USAGE, ["--name and --control"], "status", f"--tls={tls}",
                     "--control=tcp:127.0.0.1:7001")
        taken = subprocess.Popen(
            inside(MIDDLE, sys.executable, "-c",
                   "import socket, time\n"
                   "s = socket.create_server(('127.0.0.1', 7001))\n"
                   "print(flush=True); time.sleep(1000)"),
            stdout=subprocess.PIPE)
        self.addCleanup(taken.stdout.close)
        self.addCleanup(taken.wait)
        self.addCleanup(taken.kill)
        taken.stdout.readline()
        self.refused(74, ["127.0.0.1:7001", "cannot listen"], "up", *PORTS,
                     "--control=tcp:127.0.0.1:7001", f"--tls={tls}")
        self.assertEqual(processes(), set())
        self.assertEqual(list(FOLDER.glob(f"{NAME}*")), [])

    # --- Who means it ill

    def test_nothing_malformed_too_large_or_too_much_disturbs_it(self):
        self.up()
        path = str(SOCKET)
        ask = control_peer.ask
        message = control_peer.message
        self.assertEqual(ask(path, SERVICE + "Down2", message(b""))[0],
                         UNIMPLEMENTED)
        # A field that is longer than the message; one of another type.
        for body in (b"\x0a\x7f", b"\xff" * 20, b"\x08"):
            self.assertIn(ask(path, SERVICE + "Flows", message(body))[0],
                          (INTERNAL, INVALID_ARGUMENT))
        # A message that says it has 1 MB.
        self.assertIn(
            ask(path, SERVICE + "Status", b"\0\0\x10\0\0" + b"x" * 1_000)[0],
            (INTERNAL, RESOURCE_EXHAUSTED))
        self.assertEqual(ask(path, SERVICE + "Flows",
                             message(b"\x08\xff\xff\x7f"))[0],
                         INVALID_ARGUMENT)
        self.check_malformed_chains(path)
        for junk in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(100_000), b"\0"):
            with control_peer.connect(path) as client:
                with contextlib.suppress(OSError):
                    client.sendall(junk)
        self.flood(path)
        health = ask(path, "/grpc.health.v1.Health/Check", message(b""))
        self.assertEqual(health, (0, b"\x08\x01"))  # it serves
        self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 3)), 3)
        self.assertEqual(status()["name"], NAME)
        self.down()

    def check_malformed_chains(self, path):
        def field(number, text):
            return (bytes([number << 3 | 2]) + control_peer.varint(len(text)) +
                    text)
        text, module = (lambda t: field(1, t)), (lambda t: field(2, t))
        for body, *codes in (
                (b"", INVALID_ARGUMENT),
                (b"\x0a\x7f", INTERNAL),
                (b"\x0a\xff\xff\xff\xff\x0f", INTERNAL),
                (b"\x20" + b"\xff" * 20, INTERNAL),
                (text(b"monitor") + module(b"/a.so"), INVALID_ARGUMENT),
                (text(b"monitor") + b"\x20" + 9 * b"\xff" + b"\x01",
                 INVALID_ARGUMENT),
                (text(b"\xff\xfe"), INTERNAL, INVALID_ARGUMENT),
                (text(b"moni\0tor"), INVALID_ARGUMENT),
                (text(b"--config=/etc/passwd"), INVALID_ARGUMENT),
                (text(b"nat(" * 10_000), INVALID_ARGUMENT),
                (text(b"monitor |" * 5_000), INVALID_ARGUMENT),
                (text(b"x" * 70_000), INTERNAL, RESOURCE_EXHAUSTED),
                (module(b"\0"), INVALID_ARGUMENT),
                (module(b"/dev/zero"), INVALID_ARGUMENT),
                (module(b"/" + b"x" * 10_000), INVALID_ARGUMENT),
                (field(3, b"lab") + text(b"monitor"), INVALID_ARGUMENT)):
            status_code, _ = control_peer.ask(path, SERVICE + "Chain",
                                              control_peer.message(body))
            self.assertIn(status_code, codes, body[:50])
        self.assertEqual([chain["number"] for chain in status()["chain"]], [1])
        self.assertEqual(status()["nf"], "passthrough")

    def flood(self, path):
        """2,000 calls by 20 connections that read no answer."""
        rng = random.Random(1)
        clients = [control_peer.connect(path) for _ in range(20)]
        for client in clients:
            calls = control_peer.PREFACE + control_peer.frame(
                control_peer.SETTINGS, 0, 0)
            for number in range(100):
                method = rng.choice(("Flows", "Units", "Status", "Set"))
                calls += control_peer.call(SERVICE + method, 2 * number + 1,
                                           control_peer.message(b""))
            with contextlib.suppress(OSError):
                client.sendall(calls)
        self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 3)), 3)
        for client in clients:
            client.close()


# What control_test.py tests itself.
for name in [name for name in dir(control_test.Control)
             if name.startswith("test_")]:
    setattr(Access, name, None)


if __name__ == "__main__":
    net.main("Access", own=2)

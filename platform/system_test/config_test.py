#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon that runs as a file says: `snf up --config`, `snf config` and SIGHUP.

Wants root, and is skipped without.

Usage: config_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import os
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
import control_test
import run_test as net
from command_case import BAD_DATA, IO, OK, PATIENCE_S, USAGE, is_alive, wait_for
from control_test import FOLDER, NAME, UNAVAILABLE, processes, settings, status
from run_test import CLIENT, MIDDLE, PROGRAM, SERVER4, in_network, peer

EDGE = """port: "inside=lan0"
port: "outside=wan0"
chain { name: "office" text: "monitor" }
setting { name: "max_units" value: "8" }
setting { name: "alpha" value: "0.25" }
setting { name: "log_level" value: "debug" }
"""
KEPT = """setting { name: "isolation" value: "process" }
setting { name: "loggers" value: "on" }
setting { name: "keep" value: "60s" }
"""


def snf(*words):
    return subprocess.run(in_network(MIDDLE, PROGRAM, *words, f"--name={NAME}"),
                          capture_output=True, text=True,
                          timeout=2 * PATIENCE_S, check=False)


class Config(control_test.Control):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "edge.conf"
        self.file.write_text(EDGE)

    def up(self, *words):
        done = snf("up", f"--config={self.file}", *words)
        self.assertEqual(done.returncode, OK, done.stderr)
        return done

    def change(self, before, after):
        text = self.file.read_text()
        self.assertIn(before, text)
        self.file.write_text(text.replace(before, after))

    def told(self, *words):
        done = snf("config", *words)
        self.assertEqual(done.returncode, OK, done.stderr)
        return done.stdout

    def refused(self, code, words, *command):
        done = snf(*command)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def log(self):
        return (FOLDER / f"{NAME}.log").read_text()

    def hangup(self, line, times=1):
        """Sends SIGHUP, and waits for the line in the log."""
        pid, = processes()
        os.kill(pid, signal.SIGHUP)
        wait_for(line, lambda: self.log().count(line) >= times)

    def pings(self):
        self.assertEqual(len(peer(CLIENT, "ping", SERVER4, 2)), 2)

    def test_runs_as_the_file_says_but_for_the_command_line(self):
        done = self.up("--alpha=0.5")
        self.assertIn("snf up: --alpha=0.5 instead of \"0.25\" at "
                      f"{self.file}:5:25\n", done.stderr)
        self.assertIn("runs monitor between inside=lan0, outside=wan0",
                      done.stdout)
        now = settings()
        self.assertEqual((now["alpha"], now["max_units"], now["log_level"]),
                         ("0.5", "8", "debug"))
        self.pings()
        shown = self.told("show")
        self.assertIn('setting { name: "alpha" value: "0.5" }\n', shown)
        self.assertIn('\n# setting { name: "keep" value: "0ns" }\n', shown)
        self.down()
        # What is shown starts the same daemon.
        self.file.write_text(shown)
        self.up()
        self.assertEqual(settings(), now)
        self.assertEqual(self.told("diff", self.file), "Nothing differs.\n")
        self.down()

    def test_takes_a_file_whole_while_packets_go_through(self):
        self.up()
        self.pings()
        self.assertEqual(self.told("diff", self.file), "Nothing differs.\n")
        self.change("0.25", "0.75")
        self.change('"monitor"', '"firewall | monitor"')
        self.change('value: "8"', 'value: "4"')
        lines = {"max_units: 8 -> 4", "alpha: 0.25 -> 0.75",
                 "chain: monitor -> firewall | monitor"}
        self.assertEqual(set(self.told("diff", self.file).splitlines()), lines)
        self.assertEqual(settings()["alpha"], "0.25")
        said = self.told("apply", self.file).splitlines()
        self.assertEqual(set(said[:-1]), lines)
        now = settings()
        self.assertEqual((now["alpha"], now["max_units"]), ("0.75", "4"))
        self.assertEqual(status()["nf"], "firewall | monitor")
        self.pings()
        # A setting that is no longer there has its default again.
        self.change('setting { name: "alpha" value: "0.75" }\n', "")
        done = snf("set", "flowlet_timeout=300us")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(set(self.told("diff", self.file).splitlines()),
                         {"alpha: 0.75 -> 1",
                          "flowlet_timeout: 300us -> 500us"})
        self.hangup(f"took {self.file}: 2 changes")
        self.assertEqual(settings()["alpha"], "1")
        self.assertEqual(settings()["flowlet_timeout"], "500us")
        self.hangup(f"took {self.file}: nothing in it has changed")
        self.pings()
        self.down()

    def with_rules(self):
        """A file whose firewall reads rules and a set from files."""
        self.rules = self.folder / "fw.txt"
        self.bad = self.folder / "bad.txt"
        # The second rule is never reached.
        self.rules.write_text("deny udp from $bad\ndeny udp from $bad\n")
        self.bad.write_text("192.0.2.9\n")
        self.change('"monitor"', f'"firewall(rules={self.rules},'
                                 f'set=bad:@{self.bad})"')

    def gets_through(self):
        """Whether datagrams of a new flow do: no server has the port, and its
        host says so."""
        try:
            lines = peer(CLIENT, "udp", SERVER4, 100)
        except AssertionError as error:
            self.assertIn("ConnectionRefusedError", str(error))
            return True
        self.assertEqual(lines, ["100 lost"] * 3)
        return False

    def test_takes_rules_and_sets_that_were_edited(self):
        self.with_rules()
        self.up()
        self.assertEqual(self.told("diff", self.file), "Nothing differs.\n")
        self.assertTrue(self.gets_through())
        # In the set, of which the text of the chain says nothing.
        self.bad.write_text(f"{net.CLIENT4}\n")
        line = rf"file {self.bad} \(firewall: set\) of the chain: 10 bytes, " \
               r"hash \w+ -> 10 bytes, hash \w+\n"
        self.assertRegex(self.told("diff", self.file), f"^{line}$")
        self.assertTrue(self.gets_through())
        self.assertRegex(self.told("apply", self.file), f"^{line}\"{NAME}\" ")
        self.assertFalse(self.gets_through())
        self.assertEqual(self.told("diff", self.file), "Nothing differs.\n")
        # In the rules, by SIGHUP.
        self.rules.write_text("deny udp from 192.0.2.9\n")
        self.hangup(f"took {self.file}: 1 change\n", 2)  # after apply
        self.assertTrue(self.gets_through())
        self.hangup(f"took {self.file}: nothing in it has changed")
        # What is wrong is not taken.
        self.rules.write_text("allow everybody\n")
        self.refused(BAD_DATA, ["fw.txt:1: "], "config", "apply", self.file)
        self.assertTrue(self.gets_through())
        self.down()

    def test_logs_a_warning_once_for_each_chain_that_is_made(self):
        self.with_rules()
        done = self.up()
        self.assertEqual(done.stderr.count("snf: warning: firewall: "), 1)
        line, = [line for line in done.stderr.splitlines()
                 if "snf: warning: " in line]
        warning = line.removeprefix("snf: warning: ")
        before = self.log()
        self.told("diff", self.file)
        self.told("apply", self.file)
        self.assertEqual(snf("set", "alpha=0.5").returncode, OK)
        self.assertEqual(self.log().removeprefix(before).count(warning), 0)
        # Of a chain that is made, with time and level.
        self.bad.write_text("192.0.2.10\n")
        done = snf("config", "apply", self.file)
        self.assertEqual((done.returncode, done.stderr), (OK, ""))
        lines = [line for line in self.log().removeprefix(before).splitlines()
                 if warning in line]
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], r"^\d{4}-\d\d-\d\d.* warning\b")
        self.down()

    def test_changes_nothing_if_anything_cannot_change(self):
        self.up()
        before = settings()
        self.change("0.25", "0.75")
        self.change("outside=wan0", "outside=wan1")
        self.change('value: "8"', 'value: "16"')
        self.file.write_text(self.file.read_text() +
                             'setting { name: "isolation" value: "process" }\n')
        said = self.told("diff", self.file)
        self.assertIn("alpha: 0.25 -> 0.75\n", said)
        for word in ("port: inside=lan0, outside=wan0 -> inside=lan0, "
                     "outside=wan1  (wants a restart",
                     "max_units: 8 -> 16  (wants a restart: it was started "
                     "with 8",
                     "isolation: thread -> process  (wants a restart"):
            self.assertIn(word, said)
        self.refused(UNAVAILABLE,
                     ["nothing has changed", "port", "isolation", "max_units"],
                     "config", "apply", self.file)
        self.hangup("SIGHUP: ")
        self.assertIn("nothing has changed", self.log())
        self.assertEqual(settings(), before)
        self.pings()
        self.down()

    def test_refuses_a_file_that_is_wrong(self):
        self.up()
        before = settings()
        for wrong, code, words in (
                (EDGE.replace("0.25", "2"), BAD_DATA, ["edge.conf:5:25: alpha"]),
                (EDGE + "tier {}", BAD_DATA, ["edge.conf:7:", "tier"]),
                (EDGE.replace("monitor", "mon"), BAD_DATA,
                 ["edge.conf:3:1: ", '"mon"']),
                (EDGE + 'rule { match: "tcp" chain: "x" }', BAD_DATA,
                 ["edge.conf:7:1: ", 'no chain "x"']),
                ("", BAD_DATA, ["edge.conf: there is no chain"])):
            with self.subTest(words=words):
                self.file.write_text(wrong)
                self.refused(code, words, "config", "apply", self.file)
        os.mkfifo(self.folder / "pipe")
        for name, code, words in (
                ("none", IO, ["none: No such file"]),
                ("pipe", BAD_DATA, ["pipe: is no regular file"]),
                ("", BAD_DATA, ["is no regular file"])):
            self.refused(code, words, "config", "apply", self.folder / name)
        self.file.unlink()
        self.hangup("SIGHUP: ")
        self.assertEqual(settings(), before)
        self.assertEqual(status()["nf"], "monitor")
        self.pings()
        self.down()

    def test_sets_back_what_it_set_where_there_are_too_many_chains(self):
        self.up()
        self.pings()  # as each of the following: a flow that stays
        for chain in ("firewall", "monitor", "firewall | monitor"):
            done = snf("chain", "set", chain)
            self.assertEqual(done.returncode, OK, done.stderr)
            self.pings()
        self.change("0.25", "0.75")
        self.refused(UNAVAILABLE, ["nothing has changed", "3 older chains"],
                     "config", "apply", self.file)
        self.assertEqual(settings()["alpha"], "0.25")
        self.assertEqual(status()["nf"], "firewall | monitor")
        self.assertIn("set alpha=0.75\n", self.log())
        self.pings()
        self.down()

    def test_goes_on_after_a_kill_as_the_file_says_now(self):
        self.file.write_text(EDGE + KEPT)
        self.up()
        self.pings()
        self.change("0.25", "0.75")
        self.change('"monitor"', '"firewall | monitor"')
        self.told("apply", self.file)
        self.pings()
        pid, = processes()
        os.kill(pid, signal.SIGKILL)
        wait_for("end", lambda: not is_alive(pid))
        self.up()
        self.assertIn("goes on with", snf("status").stdout)
        self.assertEqual(settings()["alpha"], "0.75")
        self.assertEqual(status()["nf"], "firewall | monitor")
        self.assertEqual(self.told("diff", self.file), "Nothing differs.\n")
        self.pings()
        self.down()

    def test_saves_what_it_sets(self):
        self.file.write_text("# Of the office.\n" + EDGE)
        self.up()
        done = snf("set", "alpha=0.5", "flow_timeout=60s", "--save")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(
            self.file.read_text(), "# Of the office.\n" +
            EDGE.replace("0.25", "0.5") +
            'setting { name: "flow_timeout" value: "60s" }\n')
        self.assertEqual(self.told("diff", self.file), "Nothing differs.\n")
        text = self.file.read_text()
        self.refused(USAGE, ["alpha"], "set", "alpha=2", "--save")
        self.assertEqual(self.file.read_text(), text)
        self.file.unlink()
        self.refused(IO, ["has taken the values", "No such file"], "set",
                     "alpha=0.75", "--save")
        self.down()

    def test_takes_one_file_at_a_time(self):
        self.up()
        self.change('"monitor"', '"firewall | monitor"')
        words = in_network(MIDDLE, PROGRAM, "config", "apply", self.file,
                           f"--name={NAME}")
        asked = [subprocess.Popen(words, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
                 for _ in range(4)]
        ends = [(process.communicate(timeout=PATIENCE_S)[1],
                 process.returncode) for process in asked]
        codes = [code for _, code in ends]
        self.assertIn(OK, codes)
        self.assertIn(UNAVAILABLE, codes, ends)
        for said, code in ends:
            if code != OK:
                self.assertIn("another change is under way", said)
        self.assertEqual(status()["nf"], "firewall | monitor")
        self.pings()
        self.down()


# What control_test.py tests itself.
for test in [name for name in dir(control_test.Control)
             if name.startswith("test_")]:
    setattr(Config, test, None)


if __name__ == "__main__":
    net.main("Config")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf config check` and `show` of files, without a daemon and without root.

Usage: config_check_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import BAD_DATA, IO, OK, run

EDGE = """port: "inside=lan0"
port: "outside=wan0"
nf { name: "door" type: "nat" options { key: "ip" value: "192.0.2.1" } }
chain { name: "office" text: "monitor | door" unit_capacity: "50Mbps" }
setting { name: "flowlet_timeout" value: "200us" }
setting { name: "keep" value: "10s" }
setting { name: "isolation" value: "process" }
setting { name: "loggers" value: "on" }
"""


class ConfigCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def config(self, text, name="edge.conf"):
        file = self.folder / name
        file.write_text(text)
        return file

    def wrong(self, file, *lines, code=BAD_DATA):
        """Checks that the command tells these lines, and that `snf run` refuses
        the file as well."""
        done = run("config", "check", file)
        said = done.stderr.decode()
        self.assertEqual(done.returncode, code, said)
        self.assertEqual(done.stdout, b"")
        told = said.splitlines()
        self.assertEqual(len(told), len(lines), said)
        for line, words in zip(told, lines, strict=True):
            self.assertTrue(line.startswith("snf config check: "), line)
            for word in words:
                self.assertIn(word, line)
        done = run("run", "--port=inside=lan0", "--port=outside=wan0",
                   f"--config={file}")
        self.assertEqual(done.returncode, code, done.stderr)

    def test_says_that_nothing_is_wrong(self):
        done = run("config", "check", self.config(EDGE))
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertIn(b"nothing is wrong; monitor | nat(ip=192.0.2.1) between "
                      b"inside=lan0, outside=wan0", done.stdout)

    def notes(self, text):
        """What is told of a file in which nothing is wrong."""
        done = run("config", "check", self.config(text))
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertIn(b"nothing is wrong", done.stdout)
        return done.stderr.decode()

    def test_notes_what_is_missing_on_this_machine(self):
        said = self.notes(EDGE.replace("lan0", "snf-none0").replace(
            "wan0", "tap:snf-none1"))
        self.assertIn("config check: on this machine: port inside: snf-none0: "
                      "there is no such interface", said)
        self.assertEqual(said.count("\n"), 1, said)
        said = self.notes(EDGE.replace("lan0", "tap:snf-none0").replace(
            "outside=wan0", f"outside=file:{self.folder}/none.pcap"))
        self.assertIn("none.pcap: there is no such file", said)
        # Interfaces that the daemon makes itself.
        self.assertEqual(
            self.notes('chain { name: "a" text: "monitor" }'), "")

    def test_notes_addresses_of_a_nat_that_no_port_answers_for(self):
        for external, proxy, words in (
                ("192.0.2.2", "", "192.0.2.2 is its own address"),
                ("192.0.2.6", ",proxy=192.0.2.5", "proxy=192.0.2.6"),
                ("192.0.2.6", ",proxy=192.0.2.6", None),
                ("198.51.100.6", "", None)):
            ports = ('port: "inside=lan0,address=10.1.0.1/24"\n'
                     f'port: "outside=wan0,address=192.0.2.2/24{proxy}"\n')
            said = self.notes(
                f'{ports}chain {{ name: "a" text: "nat(ip={external})" }}')
            with self.subTest(external=external, proxy=proxy):
                if words is None:
                    self.assertNotIn("NAT", said)
                else:
                    self.assertIn(f"edge.conf: port outside: {external}", said)
                    self.assertIn(words, said)

    def test_names_the_whole_path_of_a_file_that_is_missing(self):
        done = run("config", "check", self.config(
            'chain { name: "a" text: "firewall(rules=no-such.txt)" }'))
        self.assertEqual(done.returncode, BAD_DATA)
        self.assertIn(f"{pathlib.Path.cwd()}/no-such.txt: No such file",
                      done.stderr.decode())

    def test_tells_all_that_is_wrong(self):
        text = EDGE + """setting { name: "alpha" value: "2" }
setting { name: "alhpa" value: "0.5" }
setting { name: "keep" value: "20s" }
setting { name: "name" value: "edge" }
port: "outside=lan/0"
rule { match: "tcp" chain: "nowhere" }
rule { match: "tpc" chain: "office" }
default_chain: "gone"
"""
        self.wrong(self.config(text),
                   ("edge.conf:13:1: port: ", '"lan/0"'),
                   ("edge.conf:9:25: alpha: ", '"2"'),
                   ("edge.conf:10:25: ", "no setting", '"alhpa"'),
                   ("edge.conf:11:24: keep is there twice", "edge.conf:6:24"),
                   ("edge.conf:12:24: name is for the command line",),
                   ("edge.conf:14:1: ", 'no chain "nowhere"'),
                   ("edge.conf:15:1: ", "tpc"),
                   ("edge.conf:16:1: ", "default_chain", '"gone"'))

    def test_tells_what_does_not_go_together(self):
        for line, words in (
                ('setting { name: "flow_timeout" value: "100us" }',
                 ("edge.conf:9:32: --flow_timeout=100us with "
                  "--flowlet_timeout=200us",)),
                ('setting { name: "max_units" value: "4" }',
                 ("edge.conf: ", "several chains")),
                ('port: "inside=lan0"',
                 ("edge.conf:9:1: --port: lan0 is given twice",)),
                ('port: "outside=lan0"',
                 ("edge.conf:9:1: --port: lan0 cannot be both",))):
            text = EDGE + line + "\n"
            if "max_units" in line:
                text += 'chain { name: "other" text: "nat" }\n'
            with self.subTest(line=line):
                done = run("config", "check", self.config(text))
                self.assertEqual(done.returncode, BAD_DATA, done.stderr)
                self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr.decode())

    def test_tells_rules_that_no_packet_reaches(self):
        text = """port: "inside=lan0" port: "outside=wan0"
chain { name: "office" text: "monitor" }
chain { name: "other" text: "passthrough" }
rule { match: "tcp from 10.0.0.0/8 to any" chain: "office" }
rule { match: "udp" chain: "office" }
  rule { match: "tcp from 10.1.0.0/16 to any port 80" chain: "other" }
"""
        done = run("config", "check", self.config(text))
        self.assertEqual(done.returncode, OK, done.stderr)
        said = [line for line in done.stderr.decode().splitlines()
                if "on this machine" not in line]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertRegex(said[0],
                         r"edge.conf:6:3: no packet comes to this rule: that "
                         r"at \S+edge.conf:4:1 matches all of them")
        self.assertIn(b"chains office, other between", done.stdout)
        shown = run("config", "show", f"--config={self.config(text)}")
        self.assertEqual(shown.returncode, OK, shown.stderr)
        for line in (b'rule { match: "udp from any to any" chain: "office" }',
                     b'chain {\n  name: "other"\n'):
            self.assertIn(line, shown.stdout)

    def test_refuses_what_is_no_configuration(self):
        self.wrong(self.config(""), ("edge.conf: there is no chain",))
        self.wrong(self.config(EDGE + "tier { }\n"), ("edge.conf:9:6: ", "tier"))
        self.wrong(self.config("chain {"), ("edge.conf:1:8: ",))
        self.wrong(self.config('{"chain": [{"nam": 1}]}'),
                   ("edge.conf: ", "nam"))
        self.wrong(self.folder, ("Is a directory",), code=69)
        self.wrong(self.folder / "none", ("No such file",), code=IO)
        large = self.folder / "large"
        with open(large, "wb") as file:
            file.truncate(100_000_000)
        self.wrong(large, ("large: has more than 16777216 bytes",))

    def test_shows_a_file_that_gives_the_same(self):
        done = run("config", "show", f"--config={self.config(EDGE)}")
        self.assertEqual(done.returncode, OK, done.stderr)
        shown = done.stdout.decode()
        for line in ('port: "inside=lan0"',
                     '  text: "monitor | nat(ip=192.0.2.1)"',
                     '  unit_capacity: "50Mbit/s"',
                     'setting { name: "flowlet_timeout" value: "200us" }',
                     'setting { name: "keep" value: "10s" }',
                     "# By default, or as the chain says:",
                     '# setting { name: "max_units" value: "64" }'):
            self.assertIn(line, shown.splitlines())
        again = run("config", "show",
                    f"--config={self.config(shown, 'again.conf')}")
        self.assertEqual(again.returncode, OK, again.stderr)
        self.assertEqual(again.stdout.decode().split("\n", 1)[1],
                         shown.split("\n", 1)[1])

    def test_replay_takes_the_chain_alone(self):
        file = self.config(EDGE.replace("monitor | door", "passthrough"))
        done = run("replay", f"--config={file}", "--json=-", "--quiet")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertIn(b"edge.conf: its ports and settings are of live traffic",
                      done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

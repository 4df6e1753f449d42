#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Alerts of the NF `ids` on real captures, against a second opinion.

Real rules, commented ones too, are read by snort_rules.py, packets and streams
by tshark; snort_finder.py says which flow each rule matches. `ids` must say
the same of every rule and flow. Skipped without tshark, and without the
captures and rules that SNF_TRACES and SNF_RULES, or ../shared, name.

Usage: ids_alerts_test.py PROGRAM SOURCE [TEST…]
"""

import collections
import json
import os
import pathlib
import re
import shutil
import sys
import unittest

from command_case import OK, SOURCE, Command, run
from snort_finder import Finder
from snort_rules import Rule, Sets, Unread

CAPTURES = ("PcapPlusPlus__650HttpResponses", "PcapPlusPlus__DnsPackets",
            "debian-ndpi-4.2-pcap__1kxun", "debian-ndpi-4.2-pcap__WebattackRCE",
            "debian-ndpi-4.2-pcap__skype", "debian-ndpi-4.2-pcap__synscan",
            "mercury__emix", "nDPI__gnutella", "trex-core__jumbo")
VARIABLES = {"HTTP_PORTS": "[80,3128,8000,8080:8082,8180,8888]",
             "FILE_DATA_PORTS": "[$HTTP_PORTS,110,143]",
             "SHELLCODE_PORTS": "!80", "ORACLE_PORTS": "1024:",
             "SSH_PORTS": "22", "FTP_PORTS": "[21,2100,3535]",
             "SIP_PORTS": "[5060,5061,5600]"}
ADDRESSES = {name: "any" for name in (
    "HOME_NET", "EXTERNAL_NET", "HTTP_SERVERS", "SMTP_SERVERS", "SQL_SERVERS",
    "DNS_SERVERS", "TELNET_SERVERS", "SIP_SERVERS", "AIM_SERVERS")}
# The finder knows no bounds.
LARGEST = "window=8192,reorder=16384,max_body=1048576"


def folder(variable, name):
    given = os.environ.get(variable, str(SOURCE / "../shared" / name))
    return pathlib.Path(given)


@unittest.skipUnless(shutil.which("tshark"), "tshark is not installed")
class IdsAlerts(Command):
    def setUp(self):
        super().setUp()
        self.traces = folder("SNF_TRACES", "traces")
        rules = folder("SNF_RULES", "rules")
        for path in (self.traces, rules):
            if not path.is_dir():
                self.skipTest(f"no folder {path} (SNF_TRACES, SNF_RULES)")
        self.rules = {}
        self.unread = collections.Counter()
        lines = []
        sets = Sets(VARIABLES | ADDRESSES)
        for path in sorted(rules.glob("*/*.rules")):
            for line in path.read_text("latin-1").splitlines():
                line = line.lstrip("# \t")
                if not re.match(r"(alert|drop) \w+ \S+ \S+ (->|<>)", line):
                    continue
                try:
                    rule = Rule(line, sets)
                except Unread as why:
                    self.unread[str(why)] += 1
                    continue
                if self.rules.setdefault(rule.id, rule) is rule:
                    # Thresholds would keep alerts back.
                    lines.append(re.sub(r"threshold:[^;]*;", "", line))
        values = ([f"ipvar {pair[0]} {pair[1]}" for pair in ADDRESSES.items()] +
                  [f"portvar {pair[0]} {pair[1]}"
                   for pair in VARIABLES.items()])
        self.rule_file = self.file("real.rules", "\n".join(
            values + lines).encode("latin-1"))

    def told(self, capture):
        """What `ids` says: (rule, source, port, destination, port)."""
        eve = os.path.join(self.folder.name, "eve.json")
        done = run("replay", capture, "--force", "--quiet", "--nf",
                   f"ids:bad_rules=skip,{LARGEST},"
                   f"cache={self.folder.name}/cache,"
                   f"rules={self.rule_file},eve={eve}")
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        with open(eve, encoding="ascii") as file:
            alerts = [json.loads(line) for line in file]
        return {((one["alert"]["gid"], one["alert"]["signature_id"]),
                 one["src_ip"], one.get("src_port", 0), one["dest_ip"],
                 one.get("dest_port", 0)) for one in alerts}

    def test_agrees_with_a_second_opinion(self):
        self.assertGreater(len(self.rules), 23_000, self.unread)
        finder = Finder(list(self.rules.values()))
        all_found, kinds = 0, collections.Counter()
        for name in CAPTURES:
            capture = self.traces / f"{name}.pcap"
            if not capture.exists():
                self.skipTest(f"no capture {capture} (SNF_TRACES)")
            with self.subTest(name):
                must, may = finder.alerts(capture)
                told = self.told(capture)
                self.assertEqual(sorted(must - told), [], "not told by ids")
                self.assertEqual(sorted(told - must - may), [],
                                 "told by ids alone")
            all_found += len(must)
            kinds.update(kind for rule in {one[0] for one in must}
                         for kind in self.kinds(self.rules[rule]))
        print(f"{len(self.rules)} rules, {all_found} alerts; rules that alert: "
              f"{dict(kinds)}", file=sys.stderr)
        self.assertGreater(all_found, 11_000)
        self.assertGreater(kinds["all"], 250)
        self.assertGreater(kinds["http_uri"], 70)
        self.assertGreater(kinds["Expression"], 15)

    @staticmethod
    def kinds(rule):
        yield "all"
        yield from rule.buffers
        yield from {type(test).__name__ for test in rule.tests}


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

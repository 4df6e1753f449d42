#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real captures have the digests that they had: what is released does not
change unseen, and is the same by one unit, by two at which flows take turns,
and by two controllers.

The captures are no part of the project: they are in ../shared/traces, or where
SNF_TRACES says; the test is skipped without. A capture that is replaced, or a
change that is meant, wants new lines in DIGESTS, which a failure prints.

Usage: capture_digests_test.py PROGRAM SOURCE_DIR [TEST…]
"""

import json
import os
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
from command_case import OK, SOURCE, run

FOLDER = pathlib.Path(os.environ.get("SNF_TRACES",
                                     SOURCE.parent / "shared" / "traces"))
SKIPPED = 4
# Nothing is dropped, and each packet has a digest of those before it.
FLAGS = ("--nf=chronicle", "--unit_capacity=100Gbps", "--hold_queue=1000000",
         "--unit_queue=1000000", "--start_buffer=1000000")
WAYS = (("--max_units=1",), ("--max_units=2", "--policy=rotate"),
        ("--controllers=2",))
DIGESTS = {
    "PcapPlusPlus__650HttpResponses.pcap": "b2164cd7e03722d7",
    "PcapPlusPlus__DnsPackets.pcap": "cbe14e8dac88a944",
    "PcapPlusPlus__example2.pcap": "bbe0cf1cc12313ea",
    "PcapPlusPlus__tls2.pcap": "9313c4c2e5a94045",
    "StratosphereLinuxIPS__test7-malicious.pcap": "99ae216e87018e3f",
    "composite_A_1g_1s_snap96.pcap.gz": "5db3f8823696e392",
    "debian-ndpi-4.2-pcap__1kxun.pcap": "a776998d054a120a",
    "debian-ndpi-4.2-pcap__WebattackRCE.pcap": "d14a17ddd76679f4",
    "debian-ndpi-4.2-pcap__WebattackXSS.pcap": "27beec52ac87dd11",
    "debian-ndpi-4.2-pcap__coap_mqtt.pcap": "a48af18582f88a3a",
    "debian-ndpi-4.2-pcap__dns_doh.pcap": "ea6ae9b9f4d6f46c",
    "debian-ndpi-4.2-pcap__dnscrypt-v1-and-resolver-pings.pcap": "5a09443f3cbbfb4f",
    "debian-ndpi-4.2-pcap__ftp.pcap": "b620d47bdf110556",
    "debian-ndpi-4.2-pcap__instagram.pcap": "b8be053579ffec13",
    "debian-ndpi-4.2-pcap__netflix.pcap": "3fec8a836c70bde9",
    "debian-ndpi-4.2-pcap__skype.pcap": "8af4985f95f343ac",
    "debian-ndpi-4.2-pcap__synscan.pcap": "f7aed71116e23ca7",
    "debian-ndpi-4.2-pcap__tor.pcap": "7dacbb79723267e2",
    "debian-ndpi-4.2-pcap__wa_video.pcap": "e255b4cf96184278",
    "debian-ndpi-4.2-pcap__wireguard.pcap": "29ec5c98c38bc132",
    "mercury__capture2.pcap": "520cfcef674027b4",
    "mercury__emix.pcap": "a2504ca27b34ff86",
    "nDPI__gnutella.pcap": "491cfaf7cbef062f",
    "pcap_analysis__test.pcap": "5b17fc1107254ace",
    "trex-core__190_packet.pcap": "d9b0084af31b59c6",
    "trex-core__Oracle.pcap": "254021e4fa3a1f72",
    "trex-core__Voice_calls_rtp_only.pcap": "25935d83efca7e97",
    "trex-core__asa_exploit.pcap": "0590998f363ee78f",
    "trex-core__citrix.pcap": "b73ee13e478fe4cb",
    "trex-core__delay_10_rtp_250k_short.pcap": "07a4ee6384809103",
    "trex-core__dns.pcap": "e11bb0c92b576d40",
    "trex-core__exchange.pcap": "3c00baa8e541d0aa",
    "trex-core__http_browsing.pcap": "a879baa03d3484e2",
    "trex-core__http_get.pcap": "dea5bab04f2fd542",
    "trex-core__http_post.pcap": "f22314ce8d522542",
    "trex-core__https.pcap": "3cc9d605e474bc70",
    "trex-core__ipv6.pcap": "a6f9de6494a0e837",
    "trex-core__jumbo.pcap": "dd0f0005657c0e4e",
    "trex-core__mail_pop.pcap": "dc2cfb71cc141747",
    "trex-core__rtp_250k_rtp_only_1.pcap": "42f8aa7b01f3714f",
    "trex-core__rtsp_short.pcap": "3856193710337ee5",
    "trex-core__smtp.pcap": "9d2929a454b56237",
    "trex-core__udp_10_pkts.pcap": "cc10317aec7a0938",
    "trex-core__udp_1518B.pcap": "66fe6c6ade75974b",
    "trex-core__udp_594B.pcap": "e66a8c38783c1ea3",
    "trex-core__udp_64B.pcap": "52f717a5befc4b49",
    "trex-core__wrong_ip.pcap": "6555854036a0e0c0",
    "try-bro__http.pcap": "dba143e0849647fa",
    "try-bro__ssh.pcap": "ca4ce8110d3487e6",
    "try-bro__sumstat.pcap": "e71a5e83da055be9",
    "zeek__dhcp_flood.pcap": "27ceb4f2710974cd",
    "zeek__echo-connections.pcap.gz": "635a50afa140cf76",
    "zeek__smb2.pcap": "4aef1567758ad574",
}


class CaptureDigests(unittest.TestCase):
    def replay(self, capture, way):
        done = run("replay", FOLDER / capture, *FLAGS, *way, "--quiet",
                   "--json=-")
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        report = json.loads(done.stdout)
        self.assertEqual(sum(report["packets_dropped"].values()), 0)
        return report

    def test_are_what_they_were_by_units_and_controllers(self):
        moved, digests = 0, {}
        for capture in sorted(DIGESTS):
            with self.subTest(capture=capture):
                found = set()
                for way in WAYS:
                    report = self.replay(capture, way)
                    found.add(report["digest"])
                    moved += report["flowlets_moved"]
                self.assertEqual(len(found), 1, found)
                digests[capture], = found
        changed = "".join(
            f'    "{capture}": "{digest}",\n'
            for capture, digest in digests.items()
            if digest != DIGESTS[capture])
        self.assertEqual(changed, "", "other digests, as lines of DIGESTS")
        self.assertGreater(moved, 100_000)

    def test_are_there_for_all_captures(self):
        captures = {path.name for path in FOLDER.iterdir()
                    if ".pcap" in path.name}
        self.assertEqual(captures, set(DIGESTS))


if __name__ == "__main__":
    if not (FOLDER / "MANIFEST.tsv").exists():
        print(f"skipped: no MANIFEST.tsv in {FOLDER}: the real captures are "
              "not here; name their folder with SNF_TRACES")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""FastClick beside snf, with programs that only pretend to be either."""

import contextlib
import io
import json
import pathlib
import struct
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import fastclick
from other_program import SKIPPED

# Both take 10 packets a loop; a loop takes {per_loop} s of CPU time.
CLICK = """#!{python}
import pathlib, re, sys, time
text = pathlib.Path(sys.argv[1]).read_text()
loops = int(re.search("STOP ([0-9]+), BURST", text)[1])
end = time.process_time() + {per_loop} * loops
while time.process_time() < end:
    pass
print({taken} * loops)
print(9 * loops)
"""
SNF = """#!{python}
import json, pathlib, sys, time
pathlib.Path({log!r}).open("a").write(" ".join(sys.argv[1:]) + "\\n")
if {fails}:
    sys.exit("no room")
loops = int([w for w in sys.argv if w.startswith("--loop=")][0][7:])
end = time.process_time() + {per_loop} * loops
while time.process_time() < end:
    pass
print(json.dumps({{"packets_in": 10 * loops, "packets_released": 10 * loops}}))
"""


class FastClickTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "log"

    def make(self, name, text, **values) -> pathlib.Path:
        program = self.folder / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(text.format(python=sys.executable,
                                       log=str(self.log), **values))
        program.chmod(0o755)
        return program

    def run_script(self, *words):
        out, errors = io.StringIO(), io.StringIO()
        with (contextlib.redirect_stdout(out),
              contextlib.redirect_stderr(errors)):
            code = fastclick.main([str(word) for word in words])
        return code, out.getvalue(), errors.getvalue()

    def test_prints_medians_and_their_ratio(self):
        snf = self.make("snf", SNF, per_loop=0.02, fails=False)
        # A build that is there is taken as it is.
        self.make("built/userlevel/click", CLICK, per_loop=0.06, taken=10)
        code, out, errors = self.run_script(
            snf, "c.pcap", f"--build={self.folder / 'built'}", "--rounds=2",
            "--loops=3", "--rows=capture,loggers")
        self.assertEqual((code, errors), (0, ""))
        rows = json.loads(out)["rows"]
        self.assertEqual(list(rows), ["capture", "loggers"])
        for row in rows.values():
            self.assertGreater(row["ratio"], 1.8)
            self.assertLess(row["ratio"], 4.5)
            self.assertGreater(row["fastclick_ns"], 4e6)
            self.assertEqual(row["fastclick_released"], 0.9)
            self.assertEqual(row["snf_released"], 1)
        commands = self.log.read_text().splitlines()
        self.assertEqual(len(commands), 8)  # two of each row and round
        self.assertEqual(sum("--loggers=on" in words for words in commands), 4)

    def test_skips_with_a_word_without_fastclick(self):
        for words, why in (
                (["--click=/nowhere/click"], "/nowhere/click is no program"),
                ([f"--build={self.folder}"], "--fetch gets it from https://")):
            code, out, _ = self.run_script("snf", "c.pcap", *words)
            self.assertEqual(code, SKIPPED)
            self.assertTrue(out.startswith("skipped: "), out)
            self.assertIn(why, out)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_fails_where_a_run_fails(self):
        click = self.make("click", CLICK, per_loop=0, taken=10)
        snf = self.make("snf", SNF, per_loop=0, fails=True)
        code, out, errors = self.run_script(
            snf, "c.pcap", f"--click={click}", "--rows=capture")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("capture: ", errors)
        self.assertIn("ended with 1: no room", errors)

    def test_fails_where_a_loop_is_left_out(self):
        text = CLICK.replace("{taken} * loops", "10 * min(loops, 2)")
        click = self.make("click", text, per_loop=0)
        snf = self.make("snf", SNF, per_loop=0, fails=False)
        code, _, errors = self.run_script(
            snf, "c.pcap", f"--click={click}", "--rows=capture", "--loops=4")
        self.assertEqual(code, 1)
        self.assertIn("took 20 packets, not 5 times 10", errors)

    def test_refuses_words_that_mean_nothing(self):
        for words in (["--rows=most"], ["--rounds=0"], ["--fetch"],
                      ["--click=a", "--build=b"]):
            with self.assertRaises(SystemExit):
                self.run_script("snf", "c.pcap", *words)

    def test_both_have_the_same_rules(self):
        text = fastclick.click_configuration(pathlib.Path("a.pcap"), 7)
        self.assertIn("STOP 7, BURST", text)
        for network, port in fastclick.RULES:
            self.assertIn(f"src net {network} && dst port {port}", text)
            self.assertIn(f"from {network} to any port {port}",
                          fastclick.snf_chain())
        self.assertEqual(len(fastclick.RULES), 19)

    def test_makes_packets_of_60_bytes(self):
        path = self.folder / "made.pcap"
        fastclick.make_capture(path, 1_000)
        data = path.read_bytes()
        self.assertEqual(len(data), 24 + fastclick.MADE_PACKETS * (16 + 60))
        frames = [data[at + 16:at + 76] for at in range(24, len(data), 76)]
        self.assertEqual(len(set(frames)), 1_000)
        for frame in set(frames):
            self.assertEqual(fastclick.checksum_of(frame[14:34]), 0)
            self.assertEqual(struct.unpack(">H", frame[16:18])[0], 46)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`snf nf` and NFs as modules, as an author meets them.

Usage: nf_command_test.py PROGRAM SOURCE_DIR BUILD_DIR [TEST…]
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
SOURCE = pathlib.Path()
BUILD = pathlib.Path()
OK, USAGE = 0, 2


def run(*arguments, folder=None):
    return subprocess.run([PROGRAM, *map(str, arguments)], cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=300, check=False)


def modules():
    return sorted((BUILD / "nfs" / "modules").glob("*.so"))


class Author(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def text(self, *arguments, folder=None):
        done = run(*arguments, folder=folder)
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        self.assertEqual(done.stderr, b"")
        return done.stdout.decode()

    def refused(self, words, *arguments, folder=None, code=USAGE):
        """The command fails with one line that has all words."""
        done = run(*arguments, folder=folder)
        text = done.stderr.decode()
        self.assertEqual(done.returncode, code, text)
        self.assertEqual(text.count("\n"), 1, text)
        for word in words:
            self.assertIn(word, text)
        self.assertEqual(done.stdout, b"")

    def replay(self, nf, *flags):
        done = run("replay", SOURCE / "traces" / "small.pcap.zst",
                   "--unit_capacity=300Mbps", f"--nf={nf}", "--quiet",
                   "--json=-", *flags)
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        return json.loads(done.stdout)

    # list and show.

    def test_lists_nfs(self):
        text = self.text("nf", "list")
        self.assertRegex(text, r"\n  passthrough +forwards every packet")
        listed = json.loads(self.text("nf", "list", "--json"))
        names = [nf["name"] for nf in listed]
        self.assertEqual(names, sorted(names))
        self.assertIn("nat", names)
        for nf in listed:
            self.assertIn(nf["summary"].split()[0], text)

    def test_shows_each_nf(self):
        for nf in json.loads(self.text("nf", "list", "--json")):
            with self.subTest(nf["name"]):
                text = self.text("nf", "show", nf["name"])
                shown = json.loads(self.text("nf", "show", nf["name"],
                                             "--json"))
                self.assertTrue(text.startswith(nf["name"] + ": "))
                self.assertIn(shown["state"]["schema_hash"], text)
                for option in shown["options"]:
                    self.assertIn(f"\n  {option['key']}=", text)
                    self.assertNotEqual(option["help"], "")
                for line in text.splitlines():
                    if " {" not in line:
                        self.assertLessEqual(len(line), 80)

    def test_shows_what_the_nat_takes_and_keeps(self):
        text = self.text("nf", "show", "nat")
        self.assertIn("A flow is all connections of one inside address", text)
        self.assertRegex(text, r"\n  peers=WHOLE NUMBER, 1 to \d+  \[16\]\n")
        self.assertRegex(text, r"\n  mapping +\d+ bytes\n")
        self.assertRegex(text, r"\n  peers +up to \d+ bytes\n")
        shown = json.loads(self.text("nf", "show", "nat", "--json"))
        self.assertEqual(shown["flow_scope"], "inside_endpoint")
        self.assertIn({"name": "tcp 192.0.2.1 1024-65535", "first": 1024,
                       "last": 65535}, shown["pools"])

    def test_refuses_what_is_no_command_or_nf(self):
        self.refused(["snf nf:", "--help"], "nf")
        self.refused(["snf nf:"], "nf", "nonesuch")
        self.refused(["snf nf show:"], "nf", "show")
        self.refused(["snf nf show:", '"nonesuch"', "snf nf list"], "nf",
                     "show", "nonesuch")
        for command in ([], ["list"], ["show"], ["new"]):
            text = self.text("nf", *command, "--help")
            self.assertTrue(text.startswith("Usage: snf nf"), text)
            self.assertLessEqual(max(map(len, text.splitlines())), 80)

    # Modules.

    def test_runs_each_nf_as_a_module_as_if_it_were_linked(self):
        self.assertIn("nat.so", [module.name for module in modules()])
        for module in modules():
            with self.subTest(module.name):
                self.assertEqual(self.text("nf", "show", module),
                                 self.text("nf", "show", module.stem))
        for nf, options in (("nat", ":peers=8"), ("chronicle", "")):
            module = BUILD / "nfs" / "modules" / (nf + ".so")
            linked = self.replay(nf + options)
            loaded = self.replay(str(module) + options)
            for key in ("digest", "packets_released", "state_bytes"):
                self.assertEqual(linked[key], loaded[key])

    def test_refuses_files_that_are_no_module(self):
        text = self.folder / "text.so"
        text.write_text("this is no library")
        module = modules()[0]
        cut = self.folder / "cut.so"
        cut.write_bytes(module.read_bytes()[:5000])
        old = self.folder / "old.so"
        data = module.read_bytes()
        at = data.index(b"SNF headers ")
        old.write_bytes(data[:at + 12] + b"0000" + data[at + 16:])
        for file, words in ((text, ["not an ELF file"]), (cut, ["cut off"]),
                            (old, ['was built for "', "SNF headers 0000",
                                   "rebuild it"]),
                            (PROGRAM, ["cannot be loaded"]),
                            ("./nonesuch.so", ["No such file"])):
            with self.subTest(file):
                self.refused(["snf nf show:", str(file), *words], "nf",
                             "show", file)
                self.refused(["snf replay: --nf:", str(file), *words],
                             "replay", "--quiet", "--nf", file)

    # new.

    def test_refuses_names_that_an_nf_cannot_have(self):
        for name, words in (
                ("My", ["my_nf"]), ("1st", ["my_nf"]), ("a__b", ["my_nf"]),
                ("a_", ["my_nf"]), ("../x", ["my_nf"]), ("", []),
                ("x" * 41, ["40"]), ("my_test", ["tests"]),
                ("test_my", ["tests"]), ("test", ["something else"]),
                ("nat", ["there is one"])):
            with self.subTest(name):
                self.refused(["snf nf new:", f'"{name}"', *words], "nf",
                             "new", name, folder=self.folder)
        self.assertEqual(os.listdir(self.folder), [])

    def test_overwrites_nothing_unless_forced(self):
        self.text("nf", "new", "my", "--dir=here", folder=self.folder)
        file = self.folder / "here" / "my.cc"
        begun = file.read_text()
        file.write_text("mine")
        os.remove(self.folder / "here" / "CMakeLists.txt")
        self.refused(["here/my.cc", "--force"], "nf", "new", "my",
                     "--dir=here", folder=self.folder)
        self.assertEqual(file.read_text(), "mine")
        self.assertFalse((self.folder / "here" / "CMakeLists.txt").exists())
        self.text("nf", "new", "my", "--dir=here", "--force",
                  folder=self.folder)
        self.assertEqual(file.read_text(), begun)
        self.assertLessEqual(begun.count("\n"), 50)
        (self.folder / "file").write_text("")
        self.refused(["file", "cannot write"], "nf", "new", "my",
                     "--dir=file", folder=self.folder, code=74)

    def test_begins_an_nf_that_builds_passes_its_test_and_runs(self):
        text = self.text("nf", "new", "first_few", folder=self.folder)
        wrote, told = text.split("\n\n")
        self.assertEqual(wrote.split("\n"), [
            "first_few/first_few.cc", "first_few/first_few_test.cc",
            "first_few/CMakeLists.txt"])
        commands = told.splitlines()[1:]
        self.assertEqual(len(commands), 5)
        # The first builds a part of SNF, as this test's own build has done;
        # the last may run the program of another build.
        self.assertIn("--target snf_nf_test", commands[0])
        for command in commands[1:4]:
            done = subprocess.run(command, shell=True, cwd=self.folder,
                                  stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=600,
                                  check=False)
            said = done.stdout.decode() + done.stderr.decode()
            self.assertEqual(done.returncode, OK, command + "\n" + said)
        self.assertIn("100% tests passed", said)
        self.assertIn("out of 2", said)
        words = commands[4].split()
        self.assertEqual(words[1:3], ["replay", "--nf"])
        self.assertEqual(words[3], "first_few/build/first_few.so:limit=10")
        shown = self.text("nf", "show", words[3].split(":")[0],
                          folder=self.folder)
        self.assertRegex(shown, r"\n  limit=WHOLE NUMBER, 1 to 1000000000  "
                                r"\[1000\]\n")
        self.assertRegex(shown, r"\nDrop reasons:\n  over_limit\n")
        self.assertRegex(shown, r"\n  bytes  bytes forwarded\n")
        self.assertRegex(shown, r"\n  packets  8 bytes\n")
        report = self.replay(self.folder / words[3])
        dropped = report["packets_dropped"]["nf:over_limit"]
        self.assertGreater(dropped, 1000)
        self.assertEqual(report["packets_in"],
                         report["packets_released"] + dropped +
                         report["packets_passed_through"])
        self.assertGreater(report["counters"]["bytes"], 1000)

    # Placement policies.

    def test_lists_policies(self):
        listed = json.loads(self.text("policy", "list", "--json"))
        self.assertEqual([one["name"] for one in listed],
                         ["snf", "vanilla_flow", "smart_flow", "per_packet",
                          "hash", "rotate"])
        for one, line in zip(listed, self.text("policy", "list").splitlines(),
                             strict=True):
            self.assertEqual(line.split(maxsplit=1),
                             [one["name"], one["help"]])

    def test_refuses_what_is_no_policy(self):
        self.refused(["snf policy new:", '"hash"', "there is one"], "policy",
                     "new", "hash", folder=self.folder)
        self.refused(["--policy", '"best"', "./mine.so"], "replay",
                     "--policy=best")
        self.refused(["--policy", "./absent.so", "No such file"], "replay",
                     "--policy=./absent.so")
        # An NF's module has no policy.
        self.refused(["--compare", "nat.so", "registers no policy"], "replay",
                     f"--compare={BUILD}/nfs/modules/nat.so")

    def test_begins_a_policy_that_builds_and_is_compared(self):
        text = self.text("policy", "new", "my_fit", folder=self.folder)
        wrote, told = text.split("\n\n")
        self.assertEqual(wrote.split("\n"),
                         ["my_fit/my_fit.cc", "my_fit/CMakeLists.txt"])
        commands = told.splitlines()[1:]
        self.assertEqual(len(commands), 3)
        for command in commands[:2]:
            done = subprocess.run(command, shell=True, cwd=self.folder,
                                  stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=600,
                                  check=False)
            said = done.stdout.decode() + done.stderr.decode()
            self.assertEqual(done.returncode, OK, command + "\n" + said)
        words = commands[2].split()
        self.assertEqual(words[1:], ["replay",
                                     "--policy=my_fit/build/my_fit.so",
                                     "--compare=snf"])
        module = self.folder / "my_fit" / "build" / "my_fit.so"
        report = self.replay("monitor", f"--policy={module}", "--compare=snf")
        mine, theirs = report["compare"]
        self.assertEqual([mine["policy"], theirs["policy"]], ["my_fit", "snf"])
        # Another placement, and the same packets.
        self.assertEqual(mine["digest"], theirs["digest"])
        self.assertNotEqual(mine["units_used_mean"], theirs["units_used_mean"])
        self.assertEqual(
            [self.replay("monitor", f"--policy={module}")[key]
             for key in ("digest", "policy")], [mine["digest"], "my_fit"])

    def test_begins_an_nf_in_the_tree(self):
        folder = SOURCE / "nfs"
        before = set(os.listdir(folder))
        self.refused(["nfs/nat", "part of the other"], "nf", "new",
                     "nat_other", folder=SOURCE)
        self.assertEqual(set(os.listdir(folder)), before)


if __name__ == "__main__":
    PROGRAM, SOURCE, BUILD = (os.path.abspath(sys.argv[1]),
                              pathlib.Path(sys.argv[2]),
                              pathlib.Path(sys.argv[3]))
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])

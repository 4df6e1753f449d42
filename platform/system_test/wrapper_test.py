#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the script ./snf asks of a machine, on one whose tools only note that.

Usage: wrapper_test.py SOURCE_DIR
"""

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1))

# Each stands for a tool; $SAID is the file that they write to.
TOOLS = {
    "dpkg-query": 'shift 3; for p; do echo "asked $p" >>"$SAID"; '
                  'echo "$p installed"; done',
    "cmake": 'mkdir -p "$SOURCE_HERE/build/release"; '
             'touch "$SOURCE_HERE/build/release/build.ninja"',
    "ninja": 'case "$3 $4" in "-n snf") cat "$SOURCE_HERE/state"; exit ;; esac; '
             'echo "ninja $3 base=$CCACHE_BASEDIR nohash=$CCACHE_NOHASHDIR" '
             '>>"$SAID"',
    "clang-format-14": "true",
}

CTEST = """cat <<END
    Start 1: first
    Start 2: second
1/3 Test #1: first ............   Passed    1.00 sec
    Start 3: third
2/3 Test #2: second ...........***Failed    1.00 sec
why

AssertionError: 2 != 3
3/3 Test #3: third ............   Passed    1.00 sec

66% tests passed, 1 tests failed out of 3

Total Test time (real) = 2.00 sec
END
"""


class Wrapper(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name).resolve() / "tree"
        (self.tree / "third_party").mkdir(parents=True)
        (self.tree / "nfs").mkdir()
        for name in ("snf", "third_party/packages.sh",
                     "third_party/packages.txt", "CMakePresets.json"):
            shutil.copy(SOURCE / name, self.tree / name)
        (self.tree / "nfs/mine_test.cc").touch()
        test = self.tree / "build/release/nfs/nf_mine_test"
        test.parent.mkdir(parents=True)
        self.script(test, "true")
        self.tools = self.tree.parent / "tools"
        self.tools.mkdir()
        for name, text in TOOLS.items():
            self.script(self.tools / name, text)

    @staticmethod
    def script(path, text):
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def run_script(self, *arguments, **environment):
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith("CCACHE_")}
        return subprocess.run(
            [self.tree / "snf", *arguments], capture_output=True, check=False,
            timeout=60, stdin=subprocess.DEVNULL, text=True,
            env={**kept, "PATH": f"{self.tools}:{os.environ['PATH']}",
                 "SAID": str(self.tree.parent / "said"),
                 "SOURCE_HERE": str(self.tree), **environment})

    def said(self, *arguments, **environment):
        said = self.tree.parent / "said"
        said.write_text("", encoding="utf-8")
        result = self.run_script(*arguments, **environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return said.read_text(encoding="utf-8").split("\n")

    def test_tests_that_fail_are_told_of_once_more_at_the_end(self):
        output = self.tree / "build/release/Testing/Temporary/LastTest.log"
        output.parent.mkdir(parents=True)
        output.write_text(
            "[==========] 40 tests from 3 test suites ran. (5 ms total)\n"
            "[  PASSED  ] 38 tests.\n[  SKIPPED ] 2 tests.\n"
            "[==========] 1 test from 1 test suite ran. (0 ms total)\n"
            "Ran 7 tests in 1.000s\n\nOK (skipped=1)\n", encoding="utf-8")
        for code, ended in (
                (0, ""),
                (8, "\n== second failed; it ended with\n"
                    "  why\n  AssertionError: 2 != 3\n")):
            self.script(self.tools / "ctest", CTEST + f"exit {code}")
            result = self.run_script("test")
            self.assertEqual(result.returncode, 1 if code else 0,
                             result.stderr)
            self.assertTrue(result.stdout.endswith(
                "Total Test time (real) = 2.00 sec\n" + ended +
                "\nrelease: 66% tests passed, 1 tests failed out of 3, "
                "0 skipped; 48 cases ran, 3 of them skipped; 2.00 sec\n"),
                result.stdout)

    def test_a_test_of_live_processes_that_failed_runs_once_more(self):
        for failed, again, code in ((["flaky"], 0, 0), (["flaky"], 1, 1),
                                    (["flaky", "unit"], 0, 1)):
            with self.subTest((failed, again)):
                told = "".join(f"\t2 - {name} (Failed)\n" for name in failed)
                self.script(self.tools / "ctest", f"""case "$*" in
*-L*) echo '  Test #2: flaky'; echo '  Test #3: other'; exit ;;
*-R*) echo "again $*" >>"$SAID"; exit {again} ;;
esac
cat <<END
1/3 Test #1: absent ............***Skipped   0.10 sec

60% tests passed

The following tests did not run:
	1 - absent (Skipped)

The following tests FAILED:
{told}END
exit 8""")
                done = self.run_script("test", "--retry")
                self.assertEqual(done.returncode, code, done.stdout)
                self.assertEqual("FLAKY: passed when run again: flaky"
                                 in done.stdout, code == 0)
        said = (self.tree.parent / "said").read_text(encoding="utf-8")
        self.assertEqual(
            [line for line in said.splitlines() if "again" in line],
            ["again --preset release -j 1 -R ^(flaky)$"] * 2)

    def test_the_test_of_one_nf_needs_no_more_than_its_build(self):
        said = self.said("test", "mine")
        self.assertIn("asked libgtest-dev", said)
        for package in ("redis-server", "shellcheck", "clang-format",
                        "tshark", "python3-matplotlib"):
            self.assertNotIn(f"asked {package}", said)

    def test_setup_takes_what_all_tests_need(self):
        said = self.said("setup")
        for package in ("g++", "libgtest-dev", "redis-server", "shellcheck",
                        "clang-format", "python3-matplotlib"):
            self.assertIn(f"asked {package}", said)

    def test_setup_leaves_servers_out_unless_they_are_asked_for(self):
        for words, environment, has in (
                (["setup"], {"CI": ""}, False), (["setup", "--all"], {}, True),
                (["setup"], {"CI": "true"}, True),
                (["setup", "--all"], {"CI": "true"}, True)):
            shutil.rmtree(self.tree / "build", ignore_errors=True)
            said = self.said(*words, **environment)
            for package in ("nginx-light", "openssh-server"):
                self.assertEqual(f"asked {package}" in said, has, words)

    def test_a_first_replay_does_not_wait_for_other_commands(self):
        platform = self.tree / "build/release/platform"
        platform.mkdir(parents=True)
        for name in ("snf-replay", "snf"):
            self.script(platform / name, f'echo "{name} $*" >>"$SAID"')
        self.assertIn("ninja snf ", "\n".join(self.said("trace", "info")))
        (platform / "snf").unlink()
        said = self.said("replay", "a.pcap")
        self.assertIn("snf-replay replay a.pcap", said)
        self.assertIn("ninja snf_replay_program ", "\n".join(said))
        self.script(platform / "snf", 'echo "snf $*" >>"$SAID"')
        said = self.said("replay", "a.pcap")
        self.assertIn("snf replay a.pcap", said)
        self.assertNotIn("snf_replay_program", "\n".join(said))

    def test_a_program_that_is_up_to_date_does_not_wait_for_a_build(self):
        build = self.tree / "build/release"
        (build / "platform").mkdir(parents=True)
        self.script(build / "platform/snf", 'echo "snf $*" >>"$SAID"')
        (build / ".source").write_text(f"{self.tree}\n", encoding="utf-8")
        (self.tree / "state").write_text("ninja: no work to do.\n")
        with open(build / ".lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            said = self.said("trace", "info")
            self.assertIn("snf trace info", said)
            self.assertEqual([one for one in said if "ninja " in one], [])
            (self.tree / "state").write_text("[1/9] Building\n")
            self.script(self.tools / "flock",
                        'echo "flock $*" >>"$SAID"; [ "$1" != -n ]')
            self.assertIn("flock -w 1800 8", self.said("trace", "info"))

    def test_a_profiled_program_is_built_trained_and_built_again(self):
        build = self.tree / "build/profiled"
        self.script(self.tools / "cmake", f"""mkdir -p {build}/platform
touch {build}/build.ninja
case $1 in -DSNF_PROFILE=*)
  echo "cmake $1" >>"$SAID"
  printf '%s\\n' "SNF_PROFILE:STRING=${{1#*=}}" \\
    CMAKE_HOME_DIRECTORY:INTERNAL={self.tree} >{build}/CMakeCache.txt ;;
esac""")
        self.script(self.tools / "ninja", f"""
case "$3" in -n) echo 'ninja: no work to do.'; exit ;; esac
echo "ninja $3" >>"$SAID"
printf '#!/bin/sh\necho "runs $1" >>"$SAID"\n' >{build}/platform/snf
chmod +x {build}/platform/snf""")
        whole = (["cmake -DSNF_PROFILE=count", "ninja snf"]
                 + ["runs replay"] * 5
                 + ["cmake -DSNF_PROFILE=use", "ninja snf"])

        def steps():
            return [line for line in self.said("build", "profiled")
                    if line and not line.startswith("asked ")]

        (build / "runtime").mkdir(parents=True)
        old_counts = build / "runtime/unit.gcda"
        old_counts.touch()
        self.assertEqual(steps(), whole)
        self.assertFalse(old_counts.exists())
        self.assertEqual(steps(), [])
        # A build was interrupted between training and the second step.
        cache = build / "CMakeCache.txt"
        cache.write_text(cache.read_text(encoding="utf-8").replace(
            "=use", "=count"), encoding="utf-8")
        self.assertEqual(steps(), whole)

    def test_experiments_are_listed_without_what_runs_them(self):
        python = self.tools / "python"
        self.script(python, 'shift; echo "experiment $*" >>"$SAID"')
        for words in (["list"], ["--help"]):
            self.assertEqual(
                self.said("experiment", *words, SNF_PYTHON=str(python)),
                [f"experiment {words[0]}", ""])
        said = self.said("experiment", "packing", SNF_PYTHON=str(python))
        self.assertIn("asked python3-matplotlib", said)
        self.assertIn("experiment packing", said)

    def test_a_clone_finds_what_another_compiled(self):
        self.assertIn(f"ninja nf_mine_test base={self.tree} nohash=1",
                      self.said("test", "mine"))
        self.assertIn("ninja nf_mine_test base=/elsewhere nohash=1",
                      self.said("test", "mine", CCACHE_BASEDIR="/elsewhere"))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages: made, installed into an empty root, used, removed.

Usage: package_test.py SOURCE_DIR BUILD_DIR [TEST…]
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
SKIPPED = 4  # as CMakeLists.txt says
PATIENCE_S = 300


def run(*words, **how):
    done = subprocess.run([str(word) for word in words], capture_output=True,
                          text=True, timeout=PATIENCE_S, check=False, **how)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


def files_in(root):
    return {str(path.relative_to(root)) for path in root.rglob("*")
            if not path.is_dir() and "var/lib/dpkg" not in str(path)}


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        run("cpack", "-B", cls.folder / "made", cwd=BUILD)
        cls.file, = (cls.folder / "made").glob("snf_*.deb")
        cls.dev_file, = (cls.folder / "made").glob("snf-dev_*.deb")
        cls.root = cls.folder / "root"
        cls.dev_root = cls.folder / "dev_root"  # with both
        run("dpkg-deb", "-x", cls.file, cls.root)
        run("dpkg-deb", "-x", cls.file, cls.dev_root)
        run("dpkg-deb", "-x", cls.dev_file, cls.dev_root)
        cls.program = cls.root / "usr/bin/snf"
        # The page of a command is named after it: snf-trace-info.
        cls.commands = cls.commands_of()

    @classmethod
    def commands_of(cls, *command):
        found = []
        text = run(cls.program, *command, "--help")
        if "COMMAND" in text:
            for one in re.findall(r"^  ([a-z]+) +[a-z].*$", text, re.M):
                found.append((*command, one))
                found += cls.commands_of(*command, one)
        return found

    def test_names_what_it_needs(self):
        text = run("dpkg-deb", "-f", self.file)
        self.assertIn("Package: snf\n", text)
        for library in ("libc6", "libgrpc++1", "libprotobuf32", "libspdlog"):
            self.assertIn(library, text)
        text = run("dpkg-deb", "-f", self.dev_file)
        self.assertIn("Package: snf-dev\n", text)
        version = re.search("^Version: (.*)$", text, re.M).group(1)
        self.assertIn(f"Depends: snf (= {version}), libabsl-dev", text)

    def test_has_a_program_that_runs_where_it_is(self):
        self.assertRegex(run(self.program, "--version"), r"^snf \d+\.\d+\.\d+$")
        self.assertIn("firewall", run(self.program, "nf", "list",
                                      cwd=self.folder))

    def test_has_alert_rules_of_metrics_that_there_are(self):
        rules = self.root / "usr/share/doc/snf/examples/snf.rules.yml"
        text = rules.read_text(encoding="utf-8")
        page = (SOURCE / "platform/guides/metrics.md").read_text(
            encoding="utf-8")
        used = set(re.findall(r"\bsnf_\w+", text))
        self.assertGreater(len(used), 5)
        for name in used:
            self.assertIn(f"`{name}`", page)
        self.assertEqual(text.count("- alert: "), text.count("  expr: "))
        self.assertEqual(text.count("- alert: "), text.count("summary: "))
        if shutil.which("promtool"):
            run("promtool", "check", "rules", rules)

    def test_has_a_page_of_each_command(self):
        self.assertIn(("trace", "info"), self.commands)
        self.assertIn(("up",), self.commands)
        pages = self.root / "usr/share/man/man1"
        self.assertEqual(
            {page.name for page in pages.iterdir()},
            {"-".join(("snf", *command)) + ".1"
             for command in [(), *self.commands]})
        page = (pages / "snf-drain.1").read_text()
        self.assertIn("snf\\-drain \\- move all flows away", page)
        self.assertIn("\\-\\-undo", page)
        if shutil.which("man"):
            self.assertIn("--undo", run("man", "-l", "-P", "cat",
                                        pages / "snf-drain.1",
                                        env={**os.environ, "MANWIDTH": "200"}))

    def test_completes_commands_and_flags(self):
        script = self.root / "usr/share/bash-completion/completions/snf"
        def words(*line):
            quoted = " ".join(f"'{word}'" for word in line)
            return run("bash", "-c", f"source {script}; COMP_WORDS=({quoted});"
                       f"COMP_CWORD={len(line) - 1}; _snf;"
                       "printf '%s\\n' \"${COMPREPLY[@]}\"").split()
        snf = str(self.program)
        self.assertEqual(words(snf, "dr"), ["drain"])
        self.assertEqual(words(snf, "trace", "inf"), ["info"])
        self.assertEqual(words(snf, "drain", "--un"), ["--undo"])
        self.assertIn("--flowlet_timeout", words(snf, "up", "--flow"))

    def test_has_a_service_that_systemd_can_read(self):
        unit = self.root / "usr/lib/systemd/system/snf@.service"
        text = unit.read_text()
        self.assertIn("Type=notify\n", text)
        # Or nothing would be left that the next daemon could go on with.
        self.assertIn("\nKillMode=process\n", text)
        words = re.search(r"^ExecStart=(\S+) (.*)$", text, re.M)
        self.assertTrue((self.root / words.group(1)[1:]).exists())
        flags = run(self.program, "up", "--help")
        for flag in re.findall(r"--[a-z]+", words.group(2)):
            self.assertIn(f"  {flag}", flags)
        if shutil.which("systemd-analyze"):
            done = subprocess.run(
                ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
                 f"--root={self.root}", "snf@edge.service"],
                capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            for line in done.stderr.splitlines():
                # The root has the package alone.
                if "Command /bin/kill is not executable" not in line:
                    self.assertNotIn("snf@", line)

    def test_has_an_example_of_a_configuration(self):
        file = self.root / "usr/share/doc/snf/examples/edge.conf"
        self.assertIn("nothing is wrong; firewall | monitor between "
                      "inside=lan0, outside=wan0",
                      run(self.program, "config", "check", file))

    def test_is_installed_and_removed(self):
        root = self.folder / "installed"
        (root / "var/lib/dpkg").mkdir(parents=True)
        for name in ("updates", "info"):
            (root / "var/lib/dpkg" / name).mkdir()
        (root / "var/lib/dpkg/status").touch()
        dpkg = ["dpkg", f"--root={root}", "--force-depends",
                "--force-not-root", "--log=/dev/null"]
        run(*dpkg, "-i", self.file)
        self.assertEqual(files_in(root), files_in(self.root))
        run(*dpkg, "-i", self.dev_file)
        self.assertEqual(files_in(root), files_in(self.dev_root))
        run(*dpkg, "-P", "snf-dev", "snf")
        self.assertEqual(files_in(root), set())

    def test_builds_the_tutorials_nf_without_the_source_tree(self):
        project = self.folder / "quota"
        program = self.dev_root / "usr/bin/snf"
        said = run(program, "nf", "new", "quota", f"--dir={project}")
        self.assertIn(f"cmake -G Ninja -S {project} -B {project}/build\n", said)
        self.assertNotIn(str(BUILD), said)
        blocks = re.findall(r"^```cpp\n(.*?)^```$",
                            (SOURCE / "nfs" / "README.md").read_text(),
                            re.S | re.M)
        for name, block in zip(("quota.cc", "quota_test.cc"), blocks):
            (project / name).write_text(block)
        (project / "traces").symlink_to(SOURCE / "traces")
        build = project / "build"
        configure = ("cmake", "-G", "Ninja", "-S", project, "-B", build,
                     f"-DCMAKE_PREFIX_PATH={self.dev_root}/usr")
        run(*configure)
        self.assertNotIn(str(SOURCE), (build / "build.ninja").read_text())
        run("cmake", "--build", build, "-j1")
        self.assertIn("bytes that a connection may transfer",
                      run(program, "nf", "show", "./quota.so", cwd=build))
        run(program, "replay", SOURCE / "traces" / "small.pcap.zst",
            "--nf=./quota.so:limit=100KB", cwd=build)
        self.assertIn("[  PASSED  ] 3 tests.",
                      run(build / "quota_test", cwd=project))
        # Only with the version that it is for.
        lists = project / "CMakeLists.txt"
        lists.write_text(lists.read_text().replace(
            "find_package(snf ", "find_package(snf 0.0.1 "))
        with self.assertRaisesRegex(AssertionError, "compatible"):
            run(*configure)


if __name__ == "__main__":
    missing = [tool for tool in ("cpack", "dpkg", "dpkg-shlibdeps")
               if not shutil.which(tool)]
    if missing:
        print(f"skipped: wants {', '.join(missing)}")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

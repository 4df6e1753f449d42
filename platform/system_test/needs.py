# SPDX-License-Identifier: Apache-2.0
"""Ends a script of tests as skipped where the machine lacks what they need."""

import os
import shutil
import subprocess
import sys

SKIPPED = 4


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def skip_without_namespaces():
    if os.geteuid() != 0 or subprocess.run(
            ["ip", "netns", "list"], capture_output=True,
            check=False).returncode != 0:
        skip("needs root and network namespaces")


def skip_without(*programs):
    for needed in programs:
        if shutil.which(needed) is None:
            skip(f"needs {needed}")


def skip_unless_long():
    if not os.environ.get("SNF_LONG_TESTS"):
        skip("runs with SNF_LONG_TESTS=1")

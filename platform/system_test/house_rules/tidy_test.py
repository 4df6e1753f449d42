#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the sources to the house rules that no compiler checks.

  tidy_test.py [ROOT]       one line a finding, `file:line: rule: text`
  tidy_test.py --selftest   shows on small bad files that every rule fires

Exit code 0 when nothing was found, 1 when something was, 2 for usage. Lines
that begin with `note:` (long files, long functions) do not fail.

A rule is a function of the whole tree (path -> text), so the self-test can feed
trees that were never on a disk. C++ is not parsed: rules match regular
expressions on text whose comments and strings are blanked, so a rule can be
fooled on purpose, but hardly by accident.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator

sys.dont_write_bytecode = True  # nothing beside the sources
from tidy_citations import check_anchors, check_citations
from tidy_size import check_class_size, check_size, notes
from tidy_tree import (Finding, Tree, blanked, is_cpp, is_fixture, is_script,
                       is_test, line_at, read_tree)
from tidy_words import check_riddles

# --- The house: which folder may include which --------------------------------

# A row names a folder and which others it may include. Rows go from the ground
# to the roof: a folder may include only what stands in a row above its own, so
# no circle can be written down. The same holds for whole top-level folders
# (TOP) and for the wings of platform/ (WINGS).
BASE = {"base", "base/packet", "base/answers", "base/rules", "base/messages",
        "base/ipfix", "base/tunnels"}
TEXT = BASE | {"base/text"}
TRACES = TEXT | {"traces", "traces/synthesis"}
RUNTIME_CORES = {"runtime/core", "runtime/shell", "runtime/leases",
                 "runtime/logger", "runtime/tables", "runtime/store"}
CONTROLLER_CORES = {"controller/units", "controller/recovery",
                    "controller/core", "controller/leases",
                    "controller/hand_over", "controller/rebuild"}
# The core of the controller, with the rooms under it.
CONTROLLER = {"controller/units", "controller/recovery", "controller/core"}
CORES = RUNTIME_CORES | CONTROLLER_CORES | {"resource_manager/core"}
RUN = TRACES | CORES | {"runtime/sdk", "runtime/ring", "platform/run",
                        "platform/run/figures"}
CHECK = RUN | {"platform/check"}
DRIVERS = {"platform/drivers/cluster", "platform/drivers/virtual_network",
           "platform/drivers/virtual_time", "platform/drivers/virtual_cluster",
           "platform/drivers/loops",
           "platform/drivers/real_time", "platform/drivers/real_cluster"}
REPORT = {"platform/report", "platform/report/explain", "platform/report/watch"}
# What commands may include: all but each other.
COMMAND = CHECK | DRIVERS | REPORT | {
    "nfs/snort", "runtime/live", "runtime/live/loggers", "runtime/wire", "runtime/redis", "controller/live",
    "platform/hosts", "platform/modules", "resource_manager/etcd",
    "resource_manager/launch", "resource_manager/live", "resource_manager/lxd",
    "proto", "platform/process", "platform/service", "platform/ports", "platform/ports/interface",
    "platform/bypass", "platform/options", "platform/outcome", "platform/control",
    "platform/daemon", "platform/daemon/chains", "platform/daemon/group"}
COMMANDS = {f"platform/commands/{name}": COMMAND for name in (
    "bench", "config", "control", "host", "manager", "nf", "recovery", "replay", "simulate",
    "trace", "up")}
# A folder may always include itself, and its tests gtest and benchmark.
MAY_INCLUDE = {
    "base": set(),
    "base/packet": {"base"},
    "base/answers": {"base", "base/packet"},
    "base/rules": {"base", "base/packet"},
    "base/messages": {"base", "base/packet"},
    "base/ipfix": {"base", "base/packet", "base/messages"},
    "base/tunnels": {"base", "base/packet", "base/answers"},
    "base/text": {"base"},
    "traces": {"base", "base/packet"},
    "traces/synthesis": {"base", "base/packet", "traces"},
    "proto": BASE,
    "runtime/ring": BASE,
    "runtime/sdk": BASE,
    "runtime/sdk/stream": BASE | {"runtime/sdk"},
    "runtime/leases": BASE,
    "runtime/store": BASE,
    "runtime/logger": BASE | {"runtime/sdk"},
    "runtime/tables": BASE | {"runtime/sdk", "runtime/logger"},
    "runtime/redis": BASE | {"runtime/ring", "runtime/store"},
    "runtime/core": BASE | {"runtime/sdk", "runtime/ring", "runtime/logger"},
    "runtime/shell": BASE | {"runtime/sdk", "runtime/ring", "runtime/logger",
                             "runtime/core"},
    "runtime/wire": BASE | {"runtime/sdk", "runtime/ring", "runtime/tables"},
    "runtime/live": BASE | RUNTIME_CORES | {"runtime/sdk", "runtime/ring",
                                            "runtime/wire"},
    "runtime/live/loggers": BASE | RUNTIME_CORES | {
        "runtime/sdk", "runtime/ring", "runtime/wire"},
    "runtime/mirror": BASE | {"runtime/sdk", "runtime/ring", "runtime/logger",
                              "runtime/tables", "runtime/wire"},
    "nfs/esp": {"base", "base/packet"},
    "nfs/snort": {"base", "base/packet"},
    "nfs": BASE | {"runtime/sdk", "runtime/sdk/stream", "nfs/esp",
                   "nfs/snort"},
    "controller/sdk": BASE | {"runtime/sdk"},
    "controller/units": BASE,
    "controller/recovery": BASE | {"controller/units"},
    "controller/core": BASE | {"controller/units", "controller/recovery"},
    "controller/policies": BASE | CONTROLLER | {"runtime/sdk",
                                                "controller/sdk"},
    "controller/leases": BASE,
    "controller/hand_over": BASE | CONTROLLER,
    "controller/rebuild": BASE | CONTROLLER,
    "controller/live": BASE | CONTROLLER | {"controller/hand_over",
                                            "controller/rebuild",
                                            "runtime/ring", "runtime/tables",
                                            "runtime/wire"},
    "resource_manager/core": TEXT,
    "resource_manager/etcd": TEXT | {"resource_manager/core", "runtime/ring",
                                     "proto"},
    "resource_manager/launch": BASE,
    "resource_manager/lxd": TEXT,
    "resource_manager/live": TEXT | {"resource_manager/core",
                                     "resource_manager/etcd", "runtime/leases",
                                     "runtime/ring", "proto"},
    "platform/process": TRACES | {"runtime/sdk", "runtime/ring"},
    "platform/service": TRACES | {"platform/process",
                                  # launchers that wait for a daemon
                                  "resource_manager/launch"},
    "platform/hosts": TEXT | {"runtime/mirror", "runtime/ring",
                              "resource_manager/etcd", "proto",
                              "platform/process", "platform/service"},
    "platform/modules": BASE | {
        "base/text", "runtime/sdk", "runtime/live", "runtime/core",
        "platform/process", "resource_manager/launch", "proto"},
    "platform/run": RUN - {"platform/run/figures"},
    "platform/run/figures": RUN,
    "platform/check": RUN,
    "platform/drivers/cluster": RUN,
    "platform/drivers/virtual_network": RUN,
    "platform/drivers/virtual_time": CHECK | {
        "platform/drivers/virtual_network"},
    "platform/drivers/virtual_cluster": CHECK | {
        "platform/drivers/cluster", "platform/drivers/virtual_network",
        "platform/drivers/virtual_time"},
    "platform/drivers/loops": RUN | {
        "runtime/live", "runtime/live/loggers", "runtime/mirror",
        "runtime/wire", "controller/live",
        "resource_manager/launch", "platform/hosts", "platform/modules",
        "platform/process", "platform/service"},
    "platform/drivers/hosts": RUN | {"controller/live", "platform/hosts"},
    "platform/drivers/real_time": RUN | {
        "platform/drivers/hosts",
        "runtime/live", "runtime/live/loggers", "runtime/wire", "runtime/redis",
        "controller/live", "resource_manager/launch", "platform/hosts",
        "platform/modules", "platform/process", "platform/drivers/loops",
        "proto"},
    "platform/drivers/real_cluster": RUN | {
        "platform/drivers/cluster", "platform/drivers/loops",
        "platform/drivers/real_time", "platform/process"},
    "platform/ports/frames": RUN,
    "platform/ports/gwlb": RUN,
    "platform/ports/interface": RUN,
    "platform/ports/router": RUN | {"platform/ports/interface"},
    "platform/ports/sockets": RUN | {"platform/ports/frames",
                                     "platform/ports/interface"},
    "platform/ports": RUN | {"platform/ports/frames",
                             "platform/ports/gwlb",
                             "platform/ports/interface",
                             "platform/ports/router",
                             "platform/ports/sockets"},
    "platform/bypass": RUN | {"platform/ports", "platform/ports/interface",
                              "platform/process", "platform/service"},
    "platform/report/explain": RUN,
    "platform/report": RUN | {"platform/report/explain"},  # stories as JSON
    "platform/report/watch": RUN | {"platform/process"},
    "platform/options": RUN | {
        "controller/policies", "platform/process", "platform/hosts",
        "platform/modules",
        "platform/drivers/cluster", "platform/drivers/real_time", "platform/ports", "platform/report",
        "platform/report/explain", "proto"},
    "platform/outcome": RUN | {"platform/options", "platform/process",
                               "platform/report", "platform/report/explain"},
    "platform/control": RUN | {"platform/bypass", "platform/drivers/real_time", "platform/process",
                               "platform/service", "resource_manager/etcd",
                               "proto"},
    "platform/daemon/chains": RUN | {"platform/drivers/real_time",
                                     "platform/outcome"},
    "platform/daemon/group": RUN | {
        "controller/hand_over", "platform/drivers/real_time",
        "platform/hosts", "platform/ports", "platform/ports/frames",
        "platform/ports/interface", "platform/service", "resource_manager/etcd",
        "runtime/wire",
        "proto"},
    "platform/daemon": RUN | {
        "platform/bypass", "platform/control", "platform/daemon/chains",
        "platform/daemon/group", "platform/drivers/cluster",
        "platform/drivers/loops", "platform/drivers/real_cluster", "platform/drivers/real_time",
        "platform/hosts",
        "platform/modules", "platform/options", "platform/outcome",
        "platform/ports", "platform/process", "platform/report/watch",
        "platform/service",
        "resource_manager/launch", "resource_manager/live", "runtime/live",
        "proto"},
    **COMMANDS,
    "platform/system_test": COMMAND | {"platform/ports/frames"},
    "platform/system_test/house_rules": set(),
    "platform": COMMAND | set(COMMANDS) | {"nfs"},
    "experiments": COMMAND,
}
# From the ground to the roof. Tests may reach further (TESTS_MAY_INCLUDE).
TOP = ["base", "traces", "proto", "runtime", "nfs", "controller",
       "resource_manager", "platform", "experiments"]
WINGS = ["process", "service", "hosts", "modules", "run", "check", "drivers", "ports", "bypass",
         "report", "options", "outcome", "control", "daemon", "commands",
         "system_test"]
# Tests of the drivers, and of what watches runs, make whole runs.
WHOLE_RUN = CHECK | DRIVERS | {"platform/system_test"}
TESTS_MAY_INCLUDE = {
    "runtime/core": {"runtime/shell"},
    "nfs": {"runtime/core", "runtime/ring"},
    "controller/live": {"runtime/core"},
    "platform/modules": {"traces"},
    "platform/check": WHOLE_RUN,
    "platform/drivers/virtual_network": WHOLE_RUN,
    "platform/drivers/virtual_time": WHOLE_RUN,
    "platform/drivers/virtual_cluster": WHOLE_RUN,
    "platform/drivers/real_time": WHOLE_RUN,
    "platform/drivers/real_cluster": WHOLE_RUN,
    "platform/report/explain": WHOLE_RUN,
    "platform/control": REPORT,
    "platform/daemon/chains": WHOLE_RUN,
    "platform/daemon/group": WHOLE_RUN,
    "platform/options": WHOLE_RUN,
    "platform/commands/replay": WHOLE_RUN,
    "platform/commands/recovery": WHOLE_RUN,
    "platform/commands/trace": WHOLE_RUN,
}

# Pure folders: no clock, thread, socket, file or log, and no library but abseil
# and the standard one. runtime/ring is pure but for memory shared by threads
# and processes.
PURE = CORES | BASE | {"runtime/sdk", "nfs"}
RING = "runtime/ring"

# The few places that a rule does not hold for.
EXEMPT = {
    ("runtime/ring/real_clock.h", "clock"),  # what it is for
    ("base/check.h", "log"),  # prints the condition, then aborts
    ("base/packet/ip_address_text.cc", "library"),  # libc's text form of addresses
    ("base/large_pages.cc", "library"),  # what libc asks the kernel
    # Draws secret seeds, on which no result depends.
    ("base/keyed_hash.cc", "library"),
    ("base/keyed_hash.cc", "random"),
    ("base/text_file.cc", "file"),  # set-up reads what the user names
    # Notes for each thread what it calls: nothing is shared.
    ("runtime/sdk/nf_call.h", "thread"),
    ("runtime/sdk/nf_call.cc", "thread"),
    # Writes in the order in which a process does that may be killed.
    ("runtime/tables/kept_home.cc", "thread"),
    # Loads NFs from files, whose form <elf.h> says.
    ("runtime/sdk/nf_module.cc", "file"),
    ("runtime/sdk/nf_module_file.cc", "file"),
    ("runtime/sdk/nf_module_file.cc", "library"),
}


def folder_of(path: str) -> str | None:
    """The longest known folder that `path` lies in."""
    matches = [f for f in MAY_INCLUDE if path.startswith(f + "/")]
    return max(matches, key=len, default=None)


def wing_of(folder: str) -> str:
    """Of platform/report/watch, "report"; of platform itself, ""."""
    return (folder.split("/") + [""])[1]


def check_order(table: dict[str, set[str]]) -> Iterator[str]:
    """Yields what would let the table express a circle, or an arrow up."""
    rows = list(table)
    for folder, others in table.items():
        top = folder.split("/")[0]
        for other in sorted(others - {folder}):
            other_top = other.split("/")[0]
            if other not in rows:
                yield f"{folder} may include {other}, which has no row"
            elif rows.index(other) > rows.index(folder):
                yield f"{folder} may include {other} of a later row"
            elif TOP.index(other_top) > TOP.index(top):
                yield f"{folder} may include {other}: {top} is below it"
            elif top == other_top == "platform" and folder != "platform" and \
                    WINGS.index(wing_of(other)) > WINGS.index(wing_of(folder)):
                yield f"{folder} may include {other} of a wing above it"


# --- Includes and links -------------------------------------------------------

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TEST_LIBRARIES = ("gtest/", "gmock/", "benchmark/")


def includes(text: str) -> Iterator[tuple[int, str, str]]:
    code = blanked(text).splitlines()
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match and code[number - 1].lstrip().startswith("#"):
            yield number, match.group(1), match.group(2)


def check_includes(tree: Tree) -> Iterator[Finding]:
    for path, text in tree.items():
        if not is_cpp(path):
            continue
        folder = folder_of(path)
        if folder is None:
            yield Finding(path, 1, "folder",
                          "C++ outside of the folders in MAY_INCLUDE")
            continue
        allowed = MAY_INCLUDE[folder] | {folder}
        if is_test(path):
            allowed = allowed | TESTS_MAY_INCLUDE.get(folder, set())
        for line, bracket, name in includes(text):
            target = folder_of(name)
            if target is not None and bracket == '"':
                if target not in allowed:
                    yield Finding(path, line, "include",
                                  f"{folder} may not include {target}")
                elif is_test(name) and not is_test(path):
                    yield Finding(path, line, "include",
                                  f"{name} is for tests")
                elif is_fixture(name) and folder != "platform/commands/bench" and \
                        not (is_test(path) or is_fixture(path)):
                    yield Finding(path, line, "fixture",
                                  f"{name} is for tests and benchmarks")
                continue
            if bracket == '"' and "/" not in name:
                yield Finding(path, line, "include",
                              f'"{name}": give the path from the root')
                continue
            if is_test(path) and name.startswith(TEST_LIBRARIES):
                continue
            if folder in PURE and not is_test(path):
                if "/" in name or name.endswith(".h"):
                    if not name.startswith("absl/"):
                        yield Finding(path, line, "library",
                                      f"{folder} may not include {name}")
            elif folder == RING and "/" in name:
                if not name.startswith(("absl/", "sys/", "linux/")):
                    yield Finding(path, line, "library",
                                  f"{folder} may not include {name}")


COMMAND = re.compile(r"^\s*(\w+)\s*\(([^()]*)\)", re.MULTILINE)


def cmake_commands(text: str) -> Iterator[tuple[int, str, list[str]]]:
    text = re.sub(r"#[^\n]*", lambda m: " " * len(m.group()), text)
    for match in COMMAND.finditer(text):
        yield (line_at(text, match.start(1)), match.group(1),
               match.group(2).split())


def check_links(tree: Tree) -> Iterator[Finding]:
    """DEPS stay inside the table, and cover what the sources include."""
    home = {}  # target -> folder
    files = [p for p in tree if p.endswith("/CMakeLists.txt")]
    for path in files:
        for _, command, words in cmake_commands(tree[path]):
            if command in ("snf_library", "add_library") and words:
                home[words[0]] = os.path.dirname(path)
    links = {}  # folder -> folders that it links
    declared = {}  # folder -> where
    for path in files:
        folder = os.path.dirname(path)
        if folder not in MAY_INCLUDE:
            continue
        for line, command, words in cmake_commands(tree[path]):
            if re.search(r"test|bench", command):
                continue
            if command == "snf_library":
                declared.setdefault(folder, (path, line))
            for word in words:
                target = home.get(word, folder)
                if target == folder:
                    continue
                links.setdefault(folder, set()).add(target)
                if target not in MAY_INCLUDE[folder]:
                    yield Finding(path, line, "link",
                                  f"{folder} may not link {word} of {target}")
    for folder, (path, line) in declared.items():
        reached, todo = set(), [folder]
        while todo:
            for target in links.get(todo.pop(), ()):
                if target not in reached:
                    reached.add(target)
                    todo.append(target)
        wanted = set()
        for source, text in tree.items():
            if folder_of(source) == folder and is_cpp(source):
                if not is_test(source):
                    wanted |= {folder_of(n) for _, b, n in includes(text)
                               if b == '"'}
        for target in sorted(wanted - reached - {folder, None}):
            if target in MAY_INCLUDE[folder] and target in home.values():
                yield Finding(path, line, "link",
                              f"{folder} includes {target}: add it to DEPS")


# --- What a core must not do --------------------------------------------------

# Not a member, not a name of ours.
CALL = r"(?<![\w.>:])(?:std::|::)?"
THREADS = (r"std::(?:jthread|thread|this_thread|(?:\w+_)?mutex|lock_guard"
           r"|unique_lock|scoped_lock|shared_lock|condition_variable\w*"
           r"|call_once|once_flag|async|promise|future|latch|barrier)\b"
           r"|\bpthread_\w+|\babsl::(?:Mutex|CondVar|Notification)\w*"
           r"|\bthread_local\b"
           r"|#\s*include <(?:thread|mutex|shared_mutex|condition_variable"
           r"|future|latch|barrier|semaphore)>")
NOT_PURE = {
    "clock": (
        r"\b(?:system|steady|high_resolution|utc|tai)_clock\b"
        r"|\bclock_gettime\b|\bgettimeofday\b|\btimespec_get\b|\b_*rdtscp?\b"
        r"|\babsl::(?:Now|GetCurrentTimeNanos)\b|" + CALL +
        r"time\s*\(\s*(?:nullptr|NULL|0|&\w+)\s*\)|" + CALL +
        r"clock\s*\(\s*\)\s*[^\s{c]"),
    "random": (
        CALL + r"s?rand\s*\(|\brandom_device\b|\bmt19937(?:_64)?\b"
        r"|\bdefault_random_engine\b|\babsl::(?:Insecure)?BitGen\b"
        r"|\bgetrandom\b|\bstd::\w+_distribution\b|\bstd::shuffle\b"),
    "thread": THREADS,
    "socket": (
        CALL + r"(?:socket|socketpair|sendto|recvfrom|sendmsg|recvmsg"
        r"|setsockopt|epoll_\w+)\s*\("
        r"|(?<![\w>])::(?:bind|listen|accept|connect|send|recv|poll)\s*\("),
    "file": (
        r"\bf(?:re)?open\s*\(|\bstd::[io]?fstream\b|\bFILE\b"
        r"|\bstd::filesystem\b|(?<![\w>])::(?:open|read|write|close)\s*\(|"
        + CALL + r"open\s*\([^)]*\bO_\w+|" + CALL + r"getenv\s*\("
        r"|#\s*include <(?:fstream|filesystem)>"),
    "log": (
        CALL + r"(?:v?f?printf|dprintf|f?puts|putchar|perror|syslog)\s*\("
        r"|\bstd::(?:cout|cerr|clog)\b|\bspdlog\b|\babsl::F?PrintF\b"
        r"|#\s*include <iostream>"),
}
SLEEP = (r"\bsleep_(?:for|until)\b|\babsl::SleepFor\b|" + CALL +
         r"(?:u|nano|clock_nano)?sleep\s*\(")
FLOAT = (r"\b(?:float|double)\b|(?<![\w.'])\d[\d']*\.\d*(?![\w.])"
         r"|(?<![\w.'])\d[\d']*(?:\.\d+)?[eE][+-]?\d+|(?<![\w.)\]])\.\d")


def rules_for(path: str) -> dict[str, str]:
    folder = folder_of(path)
    if is_test(path):
        return {"sleep": SLEEP}
    if folder in PURE:
        rules = NOT_PURE | {"sleep": SLEEP}
        if folder not in BASE:
            rules["thread"] = THREADS + r"|\bstd::atomic\w*"
        if folder in CORES:
            rules["float"] = FLOAT
        return rules
    if folder == RING:
        return {k: v for k, v in NOT_PURE.items()
                if k not in ("file", "thread")} | {"sleep": SLEEP}
    return {}


def check_calls(tree: Tree) -> Iterator[Finding]:
    for path, text in tree.items():
        if not is_cpp(path):
            continue
        code = blanked(text)
        for rule, pattern in rules_for(path).items():
            seen = set()
            for match in re.finditer(pattern, code):
                line = line_at(code, match.start())
                if line not in seen:
                    seen.add(line)
                    found = " ".join(match.group().split())
                    yield Finding(path, line, rule,
                                  f"{folder_of(path)} has '{found}'")


HASH_TABLE = re.compile(r"\b(?:flat_hash_|node_hash_|unordered_(?:multi)?)"
                        r"(?:map|set)\s*<")


def hash_tables(code: str) -> set[str]:
    """Names declared as hash tables."""
    names = set()
    for match in HASH_TABLE.finditer(code):
        depth, end = 1, match.end()
        while end < len(code) and depth:
            depth += {"<": 1, ">": -1}.get(code[end], 0)
            end += 1
        name = re.match(r"\s*[&*]?\s*(\w+)", code[end:])
        if name:
            names.add(name.group(1))
    return names


def check_hash_order(tree: Tree) -> Iterator[Finding]:
    """abseil's order differs between runs, so a core never iterates one."""
    for path, text in tree.items():
        if not is_cpp(path) or folder_of(path) not in PURE or is_test(path):
            continue
        code = blanked(text)
        header = blanked(tree.get(path[:-3] + ".h", "")) \
            if path.endswith(".cc") else ""
        for name in sorted(hash_tables(code) | hash_tables(header)):
            loop = (r"\bfor\s*\([^;{}]*:\s*\*?(?:[\w()]+(?:\.|->))*" +
                    name + r"\s*\)|(?<![\w.>])" + name +
                    r"(?:\.|->)c?begin\s*\(")
            for match in re.finditer(loop, code):
                yield Finding(path, line_at(code, match.start()), "hash-order",
                              f"iterates the hash table {name}")


# --- Form ---------------------------------------------------------------------

SPDX = "SPDX-License-Identifier: Apache-2.0"
TEXT = (".h", ".cc", ".py", ".sh", ".cmake", ".txt", ".md", ".json", ".proto",
        ".yml", ".yaml", ".toml")


def check_license(tree: Tree) -> Iterator[Finding]:
    for path, text in tree.items():
        mark = None
        if path.endswith((".h", ".cc", ".proto")):
            mark = "// "
        elif path.endswith((".cmake", "CMakeLists.txt")) or \
                is_script(path, text):
            mark = "# "
        if mark is None:
            continue
        lines = text.splitlines()
        first = 1 if lines and lines[0].startswith("#!") else 0
        if len(lines) <= first or lines[first] != mark + SPDX:
            yield Finding(path, first + 1, "license", f"want '{mark}{SPDX}'")


def check_guards(tree: Tree) -> Iterator[Finding]:
    for path, text in tree.items():
        if not path.endswith(".h"):
            continue
        guard = "SNF_" + re.sub(r"\W", "_", path).upper() + "_"
        if "#pragma once" in blanked(text):
            yield Finding(path, 1, "guard", f"use #ifndef {guard}")
        elif not (f"\n#ifndef {guard}\n#define {guard}\n" in text and
                  text.rstrip().endswith(f"#endif  // {guard}")):
            yield Finding(path, 1, "guard", f"want the include guard {guard}")


# The words are put together here so that this file obeys them.
MARKERS = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")
MACHINE_PATH = re.compile(r"(?<![\w./}$-])/(?:work|home|root|Users)"
                          r"(?:/|(?![\w-]))")
BANNED = {
    "using-namespace": r"\busing\s+namespace\b",
    "define-keyword": r"#\s*define\s+(?:private|protected|class)\b",
}


def check_words(tree: Tree) -> Iterator[Finding]:
    for path, text in tree.items():
        if is_cpp(path):
            code = blanked(text)
            for rule, pattern in BANNED.items():
                for match in re.finditer(pattern, code):
                    yield Finding(path, line_at(code, match.start()), rule,
                                  match.group())
        if not (path.endswith(TEXT) or is_script(path, text)):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            match = MARKERS.search(line)
            if match:
                yield Finding(path, number, "marker", match.group())
            match = MACHINE_PATH.search(line)
            if match:
                yield Finding(path, number, "machine-path",
                              f"a path of one machine: {line.strip()[:60]}")
            if line != line.rstrip():
                yield Finding(path, number, "trailing-space",
                              "blanks at the end of the line")
            if is_cpp(path) and len(line) > 80 and "://" not in line and \
                    not line.startswith("#include"):
                yield Finding(path, number, "columns",
                              f"{len(line)} columns, at most 80")


def check_names(tree: Tree) -> Iterator[Finding]:
    code = (".h", ".cc", ".py", ".sh", ".cmake", ".proto")
    for path in tree:
        if path.endswith(code):
            if not re.fullmatch(r"[a-z0-9_/]+\.[a-z]+", path):
                yield Finding(path, 1, "file-name", "want snake_case")
        for word in re.split(r"[/_.-]", path):
            if re.fullmatch(r"utils?|helpers?|common|misc", word):
                yield Finding(path, 1, "file-name",
                              f"'{word}' says nothing: name what it does")


NAMED_TEST = re.compile(r"`([A-Z]\w+)\.([A-Z]\w+)`")
TEST = re.compile(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.MULTILINE)


def check_named_tests(tree: Tree) -> Iterator[Finding]:
    """A test that a text names, as `Suite.Name`, is there."""
    tests = {match.groups() for path, text in tree.items()
             if is_cpp(path) and is_test(path)
             for match in TEST.finditer(text)}
    for path, text in tree.items():
        if path.endswith(".md"):
            for match in NAMED_TEST.finditer(text):
                if match.groups() not in tests:
                    yield Finding(path, line_at(text, match.start()),
                                  "named-test", f"no test {match.group()}")


# --- Running ------------------------------------------------------------------

CHECKS: list[Callable[[Tree], Iterator[Finding]]] = [
    check_includes, check_links, check_calls, check_hash_order, check_license,
    check_guards, check_words, check_names, check_named_tests,
    check_citations, check_anchors, check_size, check_class_size,
    check_riddles,
]


def check(tree: Tree) -> list[Finding]:
    found = [f for rule in CHECKS for f in rule(tree)]
    return sorted(set(f for f in found if (f.path, f.rule) not in EXEMPT))


def main(arguments: list[str]) -> int:
    if arguments == ["--selftest"]:
        import tidy_selftest  # beside this file
        return tidy_selftest.run()
    if len(arguments) > 1 or any(a.startswith("-") for a in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    here = os.path.dirname(os.path.abspath(__file__))
    root = arguments[0] if arguments else os.path.join(here, "../../..")
    for wrong in check_order(MAY_INCLUDE):
        print(f"MAY_INCLUDE: {wrong}")
        return 1
    tree = read_tree(root)
    sources = sum(is_cpp(path) for path in tree)
    if sources == 0:
        print(f"{root}: no C++ file found: nothing was checked")
        return 1
    for note in sorted(notes(tree)):
        print(f"note: {note}")
    findings = check(tree)
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings in {len(tree)} files, "
          f"{sources} of them C++")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

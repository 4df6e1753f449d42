#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that every rule of tidy_test.py fires, and on what it must not.

Run by `tidy_test.py --selftest`. Each case is a small tree; the bad ones name
the one rule that must be found, and it must be the only one.
"""

import os
import subprocess
import sys
import tempfile

import tidy_citations
import tidy_size
import tidy_test
import tidy_words

LICENSE = "// " + tidy_test.SPDX + "\n"


def source(*lines: str) -> str:
    return LICENSE + "\n".join(lines) + "\n"


def header(path: str, *lines: str) -> str:
    guard = "SNF_" + path.replace("/", "_").replace(".", "_").upper() + "_"
    return source(f"#ifndef {guard}", f"#define {guard}", *lines,
                  f"#endif  // {guard}")


def cmake(*lines: str) -> str:
    return "# " + tidy_test.SPDX + "\n" + "\n".join(lines) + "\n"


def at(path: str, *lines: str) -> tidy_test.Tree:
    """A tree of one file that is right but for `lines`."""
    make = header(path, *lines) if path.endswith(".h") else source(*lines)
    return {path: make}


def law(*lines: str) -> tidy_test.Tree:
    """Documents with a few rules, and a header that cites them."""
    return at("base/x.h", *lines) | {
        "proto/protocol.md": "## 2. Words\n- **2.6** load\n## 4. Units\n"
                             "- **U1 Order** (*built*)\n- **U2** **L3**\n",
        "proto/decisions.md": "**5. Service.** See U7.\n\n**15. Scope**\n",
        "platform/commands/bench/budgets.md": "| row | must |\n| 6 | 2 |\n| 17 | 3 |\n",
    }


def files_in(folder: str, count: int, name: str = "x") -> tidy_test.Tree:
    return {path: text for i in range(count)
            for path, text in at(f"{folder}/{name}{i}.cc").items()}


def parts_of(name: str, count: int) -> tidy_test.Tree:
    """A class of which each file has a member."""
    return {path: text for i in range(count) for path, text in
            at(f"runtime/core/x{i}.cc", f"int {name}::F{i}(int n) {{",
               "  return n;", "}").items()}


def class_of(name: str, body: int, member: int, folder: str = "runtime/core",
             attribute: str = "") -> tidy_test.Tree:
    """A class whose body and whose only member have so many lines."""
    guts = ["  int a;"] * (body - 2)
    return at(f"{folder}/x.h", f"class {name} {{", *guts, "};") | \
        at(f"{folder}/x.cc", f"{attribute}void {name}::F(int n,",
           "    int m) {", *["  ++n;"] * (member - 3), "}",
           "void G(int n) {", *["  ++n;"] * 400, "}")


def limit(*lines: str) -> tidy_test.Tree:
    return {tidy_words.LIMITS: "# comment\n#\n" + "\n".join(lines) + "\n"}


CORE = "controller/core/x.cc"
# Three riddles, of which a text has one.
RIDDLES = at("platform/ports/x.h", "// What it was. Nothing more.",
             'const char* s = "no port "  // of the host', '"that goes "',
             '"on";')

# rule, tree: exactly this rule must be found.
BAD = [
    ("folder", at("elsewhere/x.cc")),
    ("include", at("base/x.cc", '#include "traces/pcap.h"')),
    ("include", at("base/x.h", '  #  include "runtime/sdk/nf.h"')),
    ("include", at(CORE, '#include "runtime/core/unit.h"')),
    ("include", at("runtime/core/x.cc", '#include "nfs/nat.h"')),
    ("include", at("runtime/core/x_test.cc", '#include "platform/run/run.h"')),
    ("include", at("runtime/sdk/x.h", '#include "runtime/ring/ring.h"')),
    ("include", at("runtime/ring/x.h", '#include "runtime/sdk/nf.h"')),
    ("include", at("nfs/x.cc", '#include "runtime/core/unit.h"')),
    ("include", at("traces/x.cc", '#include "controller/core/options.h"')),
    ("include", at("resource_manager/core/x.cc",
                   '#include "controller/core/options.h"')),
    ("include", at("platform/run/x.cc", '#include "controller/live/main.h"')),
    ("include", at("base/text/x.cc", '#include "platform/run/run.h"')),
    ("include", at("platform/run/x.h", '#include "platform/check/checker.h"')),
    ("include", at("platform/commands/trace/x.h", '#include "platform/commands/nf/nf.h"')),
    ("include", at("base/packet/x.h", '#include "base/rules/rule_table.h"')),
    ("include", at("platform/x.cc", '#include "experiments/figure.h"')),
    ("include", at("base/x.cc", '#include "ids.h"')),
    ("include", at("traces/x.cc", '#include "base/packet/test_packets.h"')),
    ("include", at("nfs/x.cc", '#include "runtime/sdk/nf_test.h"')),
    ("library", at("base/x.cc", "#include <zlib.h>")),
    ("library", at("base/x.cc", "#include <sys/mman.h>")),
    ("library", at(CORE, '#include "fmt/format.h"')),
    ("library", at(CORE, '#include "gtest/gtest.h"')),
    ("library", at("runtime/ring/x.cc", "#include <boost/asio.hpp>")),
    ("link", {
        "base/CMakeLists.txt": cmake("snf_library(snf_base DEPS snf_traces)"),
        "traces/CMakeLists.txt": cmake("snf_library(snf_traces)")}),
    ("link", {
        "controller/core/CMakeLists.txt": cmake(
            "snf_library(snf_controller_core", "  DEPS snf_base)  # ok",
            "target_link_libraries(snf_controller_core PUBLIC snf_unit)"),
        "runtime/core/CMakeLists.txt": cmake("snf_library(snf_unit)"),
        "base/CMakeLists.txt": cmake("snf_library(snf_base)")}),
    ("link", {  # included, but not linked
        "base/CMakeLists.txt": cmake("snf_library(snf_base)"),
        "traces/CMakeLists.txt": cmake("snf_library(snf_traces)"),
        "traces/x.cc": source('#include "base/ids.h"')}),
    ("clock", at(CORE, "auto t = std::chrono::steady_clock::now();")),
    ("clock", at("base/x.cc", "clock_gettime(CLOCK_REALTIME, &ts);")),
    ("clock", at("nfs/x.cc", "auto t = absl::Now();")),
    ("clock", at("runtime/core/x.cc", "long t = std::time(nullptr);")),
    ("clock", at("runtime/ring/x.cc", "gettimeofday(&tv, nullptr);")),
    ("random", at("base/x.cc", "int n = rand();")),
    ("random", at(CORE, "std::random_device seed;")),
    ("random", at("nfs/x.cc", "std::mt19937_64 engine;")),
    ("random", at(CORE, "std::uniform_int_distribution<int> d(0, 9);")),
    ("random", at(CORE, "absl::BitGen gen;")),
    ("thread", at(CORE, "std::mutex mutex_;")),
    ("thread", at(CORE, "#include <thread>")),
    ("thread", at("runtime/core/x.cc", "std::atomic<int> n;")),
    ("thread", at("base/x.cc", "thread_local int n;")),
    ("socket", at(CORE, "int s = socket(AF_INET, SOCK_DGRAM, 0);")),
    ("socket", at("runtime/core/x.cc", "::bind(s, &address, n);")),
    ("file", at("nfs/x.cc", 'std::ifstream in("rules");')),
    ("file", at("base/x.cc", 'auto* f = std::fopen("x", "r");')),
    ("file", at(CORE, "int fd = open(name, O_RDONLY);")),
    ("file", at(CORE, 'const char* v = std::getenv("V");')),
    ("log", at(CORE, 'std::printf("x");')),
    ("log", at("nfs/x.cc", "std::cerr << 1;")),
    ("log", at("base/x.cc", "#include <iostream>")),
    ("log", at("runtime/core/x.cc", "spdlog::info(1);")),
    ("sleep", at("base/x.cc", "usleep(3);")),
    ("sleep", at("traces/x_test.cc", "std::this_thread::sleep_for(ms);")),
    ("sleep", at("platform/x_test.cc", "sleep(1);")),
    ("float", at(CORE, "double score = 0;")),
    ("float", at("runtime/core/x.h", "float Score();")),
    ("float", at("resource_manager/core/x.cc", "auto share = 0.9;")),
    ("float", at(CORE, "const auto rate = 1e9;")),
    ("hash-order", at(CORE,
                      "absl::flat_hash_map<int, std::vector<int>> flows_;",
                      "void F() {", "  for (const auto& [k, v] : flows_) {}",
                      "}")),
    ("hash-order", {**at("nfs/x.h", "std::unordered_set<int> seen_;"),
                    **at("nfs/x.cc", "for (int i : this->seen_) Use(i);")}),
    ("hash-order", at("base/x.cc", "absl::node_hash_set<int> ids;",
                      "auto first = ids.begin();")),
    ("license", {"base/x.cc": "int x;\n"}),
    ("license", {"base/x.cc": "\n" + LICENSE}),
    ("license", {"platform/run.sh": "#!/bin/sh\necho\n"}),
    ("license", {"start": "#!/usr/bin/env bash\n\n# late\n"}),
    ("license", {"base/CMakeLists.txt": "snf_library(snf_base)\n"}),
    ("guard", {"base/x.h": source("int x;")}),
    ("guard", {"base/x.h": source("#pragma once")}),
    ("guard", {"base/x.h": header("base/y.h")}),
    ("using-namespace", at("traces/x.cc", "using namespace std;")),
    ("define-keyword", at("nfs/x_test.cc", "#define private public")),
    ("marker", at("platform/x.cc", "// TO" "DO: more")),
    ("marker", {"README.md": "FIX" "ME\n"}),
    ("machine-path", {"README.md": "cd /ho" "me/someone/snf\n"}),
    ("machine-path", at("platform/x.cc", 'Open("/wo' 'rk/traces");')),
    ("trailing-space", at("platform/x.cc", "int x; ")),
    ("trailing-space", {"README.md": "text\t\n"}),
    ("columns", at("platform/x.cc", "// " + "x" * 78)),
    ("file-name", {"traces/pcapReader.cc": source()}),
    ("file-name", {"traces/trace-info.py": cmake()}),
    ("file-name", {"base/string_util.cc": source()}),
    ("file-name", {"nfs/common/nat.cc": source()}),
    ("named-test", {**at("nfs/x_test.cc", "TEST(Nat, MapsUdp) {}"),
                    "nfs/x.md": "| 1 | `Nat.MapsUdp`, `Nat.MapsTcp` |\n"}),
    ("citation", at("base/x.h", "// See nowhere.md.")),
    ("citation", {**at("base/x.h", "// See x.md."), "base/x.md": "x\n"}),
    ("citation", at("base/x.h", "// See protocol.md U1.")),
    ("citation", {"base/x.md": "See [the law](../proto/law.md).\n"}),
    ("citation", {"base/x.sh": f"# {tidy_test.SPDX}\n# base/README.md\n"}),
    ("citation", {"base/x.md": "## The law\n[it](#the-laws)\n"}),
    ("citation", {"base/x.md": "# X\n", "y.md": "[x](base/x.md#y)\n"}),
    ("citation", law("// Never twice (proto/protocol.md U3).")),
    ("citation", law("// Ordered, by proto/protocol.md U1", "// and U4.")),
    ("citation", law("// Counted (proto/protocol.md §5).")),
    ("citation", law("// Load (proto/protocol.md 2.7).")),
    ("citation", law("// See proto/decisions.md 15, 20.")),
    ("citation", law("// See proto/decisions.md U1.")),
    ("citation", {**law(), "base/x.md": "As `proto/decisions.md` 16 says\n"}),
    ("citation", law("// platform/commands/bench/budgets.md rows 6 and 8.")),
    ("citation", law("// platform/commands/bench/budgets.md row 6", "// and (row 9)")),
    ("citation", {**law(), **at("platform/commands/bench/x.cc", "// Rows 6 to 9")}),
    ("citation", law("int n;  // the copy is gone (U9)")),
    ("citation", law("/* F1 */ int n;")),
    ("citation", law("// The mean over a window (§8).")),
    ("folder-size", files_in("traces", 31)),
    ("folder-size", files_in("base/packet", 36)),
    ("split-class", parts_of("Reader", 3)),
    ("class-size", class_of("Reader", 350, 351)),
    ("class-size", class_of("Reader", 2, 699)),
    ("class-size", class_of("Reader", 350, 351, "nfs")),
    ("class-size", class_of("Reader", 350, 351, "nfs",
                            "[[gnu::always_inline]] inline ")),
    ("class-size", class_of("Reader", 350, 340) | at(
        "runtime/core/y.cc", "Reader::Reader(int n)", "    : a_(n) {}",
        "Row Reader::Next::Take(int n) {", *["  ++n;"] * 7, "}")),
    ("comment-words", at("base/x.h", "int a;", "// It is full.")),
    ("comment-words", at("base/x.h", "/* Of a unit. */")),
    ("comment-words", at("base/x_test.cc", "int n;  // those that failed")),
    ("comment-words", {"proto/x.proto": source("// Names what it asks.")}),
    ("comment-words", at("base/x.h", "// Returns the names of those",
                         "// that have failed.")),
    ("text-words", at("nfs/x.cc", 'Fail("no flow for what it names");')),
    ("text-words", at("nfs/x.cc", 'Fail("nobo"', '     "dy asks");')),
    ("text-words", RIDDLES | limit("platform/ports 2 0")),
    ("comment-words", RIDDLES | limit("platform/ports 0 1")),
    ("words-limit", RIDDLES | limit("platform/ports 3 1")),
    ("words-limit", RIDDLES | limit("platform/ports 2 1", "base 1 0")),
    ("fixture", at("traces/x.cc", '#include "base/packet/fixture_flows.h"')),
    ("fixture", at("platform/run/x.h", '#include "traces/fixture_a.h"')),
]

# Trees in which nothing may be found.
GOOD = [
    at("base/x.h", "#include <cstdint>", '#include "absl/base/macros.h"',
       '#include "base/ids.h"', "// A clock: steady_clock, 0.5, rand()"),
    at("base/x.cc", "std::atomic<int> n;", "double mean = 0.5;"),
    at(CORE, 'const char* s = "std::cout 1.5 // rand() ";', "auto n = 1'000;",
       "int f() { return packet.time() + model.rand(3) + a.open(O_x); }",
       "void accept(Packet p);", "/* std::mutex", "   time(nullptr) */",
       "auto hex = 0x1e5 + 0xff'ffff;"),
    at(CORE, "absl::flat_hash_map<int, int> flows_;",
       "auto it = flows_.find(3); if (it == flows_.end()) {}",
       "for (int id : sorted_ids_) flows_.erase(id);"),
    at("runtime/ring/x.cc", "#include <sys/mman.h>", "#include <unistd.h>",
       "std::atomic<int> n;", "close(fd);"),
    at("traces/x.cc", "#include <zlib.h>", 'std::fopen("x", "r");'),
    at("platform/x.cc", '#include "CLI/CLI.hpp"', '#include "nfs/nat.h"',
       '#include "controller/core/options.h"', "std::cout << 1.5;"),
    at("base/packet/test_packets.cc", '#include "base/packet/test_packets.h"',
       "#include <arpa/inet.h>"),
    at("experiments/x.cc", '#include "platform/run/run.h"'),
    at("nfs/x_test.cc", '#include "gtest/gtest.h"',
       '#include "runtime/core/unit.h"', "std::mt19937 not_a_core;"),
    at("base/x_bench.cc", '#include "benchmark/benchmark.h"',
       "std::chrono::steady_clock::now();"),
    at("controller/live/x.cc", "#include <boost/asio.hpp>",
       '#include "controller/core/options.h"', "std::mutex m;"),
    at("platform/x.cc", 'auto s = R"(TO DO "quoted)";',
       "// https://example.org/" + "x" * 80),
    {"base/check.h": header("base/check.h", "std::fprintf(stderr, s);")},
    {"base/CMakeLists.txt": cmake("snf_library(snf_base DEPS absl::base)"),
     "runtime/sdk/CMakeLists.txt": cmake("snf_library(snf_sdk DEPS snf_base)"),
     "runtime/core/CMakeLists.txt": cmake(
         "snf_library(snf_runtime_core DEPS snf_sdk)",
         "snf_test(unit_test SOURCES unit_test.cc DEPS snf_traces)"),
     "traces/CMakeLists.txt": cmake("snf_library(snf_traces)"),
     "runtime/core/unit.cc": source('#include "base/ids.h"',
                                    '#include "runtime/sdk/nf.h"')},
    {"platform/run.sh": "#!/bin/sh\n# " + tidy_test.SPDX + "\ncd build/work\n"},
    {**at("nfs/x_test.cc", "TEST_F(Nat,", "       MapsUdp) {}"),
     "nfs/x.md": "`Nat.MapsUdp`, as all that are named `Nat.`; `x.cc`\n"},
    {"README.md": "A workload under experiments/home/ or $HOME/work\n"},
    {"base/x.md": "## One's `own`, twice\n[it](#ones-own-twice)\n",
     "y.md": "[x](base/x.md#ones-own-twice)\n"},
    law("// U1 and U2 (proto/protocol.md U1, proto/decisions.md 5,",
        "// 15) hold; the load is that of proto/protocol.md 2.6, by the words",
        "// of proto/protocol.md §2. As in", "// proto/decisions.md",
        "// 15. It has 9 lives (RFC 791 §3.2), and U+00B5 is no rule.",
        'auto s = "nowhere.md U9"; U9 u; int L7 = 0xF2;',
        "// platform/commands/bench/budgets.md rows 6 and 17; 9 rows."),
    {**law(), "base/README.md": "See ../proto/protocol.md or x.md\n",
     "base/x.md": "[law](../proto/decisions.md), base/README.md, U9\n",
     "base/y.py": f"# {tidy_test.SPDX}\n# base/x.md\nopen('nowhere.md')\n"},
    files_in("traces", 30) | files_in("traces", 9, "test_x") |
    files_in("traces", 9, "fixture_x") | files_in("nfs", 60) |
    files_in("base/packet", 35),
    class_of("Reader", 350, 350),
    class_of("Reader", 350, 349) | class_of("Reader", 300, 300, "runtime/sdk") |
    at("runtime/core/test_reader.cc", "void Reader::G(int n) {",
       *["  ++n;"] * 400, "}") |
    at("runtime/core/y.cc", "Reader::Reader() {}", "void H(int n) {",
       "  ++n;", "}"),
    parts_of("Reader", 2) | at("runtime/core/x9_test.cc",
                               "int Reader::F9(int n) {", "}"),
    parts_of("Reader", 2) | at("runtime/core/x9.cc", "int G() {",
                               "  return Reader::F1(2);", "}"),
    at("traces/x_bench.cc", '#include "base/packet/fixture_flows.h"'),
    at("base/fixture_x.h", '#include "base/fixture_y.h"'),
    at("base/x.h", "// Returns the unit. It is full, as those are.",
       "int n;  // of the unit", "        // It is full",
       "int F(int what, int nobody);  // As far as I know",
       "// Itself. Thatch, or So-and-so: 'x' stays"),
    at("base/x_test.cc", 'Expect("nobody goes on");'),
    RIDDLES | limit("platform/ports 2 1"),
    at("platform/commands/bench/x.cc", '#include "base/packet/fixture_flows.h"'),
]

LONG_FUNCTION = source("void F(int a,", "       int b) {",
                       *["  ++n;"] * 70, "}", "void G() {", "}")
LONG_METHOD = source("class C {", "  void F() {", *["    ++n;"] * 70, "  }",
                     "};")
SHORT = source("namespace snf {", *["void F() {", "  ++n;", "}"] * 30, "}")

NOTES = [
    ("long-file", {"platform/x.cc": source(*["int x;"] * 500)}),
    ("long-file", {"nfs/nat.cc": source(*["int x;"] * 250)}),
    ("long-function", {"platform/x.cc": LONG_FUNCTION}),
    ("long-function", {"platform/x.cc": LONG_METHOD}),
    (None, {"platform/x.cc": SHORT}),
]


def exit_code(tree: tidy_test.Tree) -> int:
    """Of the script itself, on a tree that is written to a disk."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in tree.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)),
                        exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        script = os.path.join(os.path.dirname(__file__), "tidy_test.py")
        return subprocess.run([sys.executable, script, root],
                              stdout=subprocess.DEVNULL,
                              check=False).returncode


def run() -> int:
    failures = []
    for rule, tree in BAD:
        found = {f.rule for f in tidy_test.check(tree)}
        if found != {rule}:
            failures.append(f"want {rule}, found {sorted(found)}: {tree}")
    for tree in GOOD:
        for finding in tidy_test.check(tree):
            failures.append(f"want nothing, found {finding}: {tree}")
    for rule, tree in NOTES:
        found = {f.rule for f in tidy_size.notes(tree)}
        if found != ({rule} if rule else set()):
            failures.append(f"want note {rule}, found {sorted(found)}")
    lines = {f.line for f in tidy_test.check(
        at(CORE, "/* two", "lines */", "double x;"))}
    if lines != {4}:
        failures.append(f"want line 4, found {lines}")
    for row, why in (({"base": {"traces"}}, "later row"),
                     ({"runtime/ring": set(), "base": {"runtime/ring"}},
                      "base is below it"),
                     ({"platform/daemon": set(),
                       "platform/run": {"platform/daemon"}}, "wing above"),
                     ({"base": {"base/none"}}, "no row")):
        if why == "later row":
            row = row | {"traces": set()}
        found = list(tidy_test.check_order(row))
        if len(found) != 1 or why not in found[0]:
            failures.append(f"want {why}, found {found}")
    # The limit that a folder has is the limit that its finding names.
    for folder, most in (("traces", 30), ("base/packet", 35)):
        found = [f.text for f in tidy_size.check_size(files_in(folder, 40))]
        if found != [f"40 files, at most {most}"]:
            failures.append(f"want at most {most} in {folder}, found {found}")
    frozen = tidy_words.freeze(RIDDLES)
    if not frozen.endswith("\nplatform/ports     2     1\n"):
        failures.append(f"froze {frozen}")
    for name, tree, want in (("bad", BAD[1][1], 1), ("good", GOOD[0], 0),
                             ("empty", {}, 1)):
        got = exit_code(tree)
        if got != want:
            failures.append(f"{name} tree: exit code {got}, want {want}")
    # No rule without a case: the rules are those that the source names.
    text = ""
    for module in (tidy_test, tidy_citations, tidy_size, tidy_words):
        with open(module.__file__, encoding="utf-8") as file:
            text += file.read()
    rules = set(tidy_test.NOT_PURE) | set(tidy_test.BANNED) | {"sleep", "float"}
    for rule in ("folder", "include", "library", "link", "hash-order",
                 "license", "guard", "marker", "machine-path",
                 "trailing-space", "columns", "file-name", "named-test",
                 "citation", "folder-size", "split-class", "class-size",
                 "fixture",
                 "comment-words", "text-words", "words-limit"):
        rules.add(rule)
        if f'"{rule}"' not in text:
            failures.append(f"no rule {rule}")
    for rule in sorted(rules - {rule for rule, _ in BAD}):
        failures.append(f"no case for the rule {rule}")
    for failure in failures:
        print(failure)
    print(f"{len(BAD) + len(GOOD) + len(NOTES)} cases of {len(rules)} rules, "
          f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(run())

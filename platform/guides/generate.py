#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the pages of reference of the code: flags.md, metrics.md, rpcs.md.

Usage: generate.py PROGRAM [--check]

Flags are read from the help of PROGRAM, metrics from what its runs serve and, of
clusters, from the code; calls are read from proto/*.proto. With --check nothing is written: exit code 1 tells that a
page differs from what the code says.
"""

import dataclasses
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
CAPTURE = ROOT / "traces" / "small.pcap.zst"
METRICS_CODE = ROOT / "platform/report/watch/metrics_text.cc"
HEAD = ("<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
        "<!-- Made by platform/guides/generate.py: edit what it reads. -->\n")
PATIENCE_S = 60

# --- Flags --------------------------------------------------------------------


@dataclasses.dataclass
class Flag:
    names: str
    default: str
    help: list[str]  # its lines, without their common indentation
    section: str
    commands: list[str] = dataclasses.field(default_factory=list)


def help_of(program, *command):
    return subprocess.run([program, *command, "--help"], capture_output=True,
                          text=True, check=True).stdout


def commands_of(program, *command):
    """(command, its help) for each command that has no commands of its own."""
    text = help_of(program, *command)
    if "COMMAND" not in text:
        return [(" ".join(command), text)]
    found = re.findall(r"^  ([a-z][a-z0-9_]*) +[a-z].*$", text, re.M)
    return [one for name in found for one in commands_of(program, *command, name)]


def flags_in(text):
    section = ""
    flags = []
    for line in text.splitlines():
        if re.match(r"[A-Z].*:$", line):
            section = line[:-1]
        elif match := re.match(r"  (--.+?)(?:  \[(.*)\])?$", line):
            flags.append(Flag(match[1], match[2] or "", [], section))
        elif flags and line.startswith("      "):
            flags[-1].help.append(line[6:])
    return flags


def flag_text(flag):
    """The flag as an item of a list; choices stand below it as they are."""
    lines = list(flag.help)
    first_choice = next((i for i, line in enumerate(lines)
                         if line.startswith("  ")), len(lines))
    said = [f"default `{flag.default}`"] if flag.default else []
    if flag.commands[1:]:
        said.append("also of " + ", ".join(f"`{c}`" for c in flag.commands[1:]))
    note = f" ({'; '.join(said)})" if said else ""
    text = " ".join(lines[:first_choice])
    item = f"- `{flag.names}`{note}: {escaped(text)}\n"
    if first_choice < len(lines):
        item += "\n  ```\n"
        item += "".join(f"  {line[2:]}".rstrip() + "\n"
                        for line in lines[first_choice:])
        item += "  ```\n"
    return item


def escaped(text):
    return re.sub(r"([|<>*_`])", r"\\\1", text)


def flags_page(program):
    flags = {}  # by what is said of them: a flag of several commands is told once
    page = HEAD + ("# Flags\n\nEvery flag of every command, told once: at the first "
                   "command that has it.\n`snf COMMAND --help` has the same text.\n")
    commands = commands_of(program)
    own = {command: [] for command, _ in commands}
    shared = {command: {} for command, _ in commands}
    for command, text in commands:
        for flag in flags_in(text):
            key = (flag.names, flag.default, tuple(flag.help))
            known = flags.setdefault(key, flag)
            known.commands.append(command)
            if known is flag:
                own[command].append(flag)
            else:
                shared[command].setdefault(known.commands[0], []).append(flag)
    for command, _ in commands:
        page += f"\n## snf {command}\n"
        section = ""
        for flag in own[command]:
            if flag.section != section:
                section = flag.section
                page += f"\n{section}:\n\n"
            page += flag_text(flag)
        for other, those in shared[command].items():
            names = ", ".join(f"`{flag.names.split(',')[0].split('=')[0]}`"
                              for flag in those)
            page += f"\nAs of `snf {other}`: {names}.\n"
        if not own[command] and not shared[command]:
            page += "\nNo flags.\n"
    return page


# --- Metrics ------------------------------------------------------------------


def runs(outside):
    """Runs that together serve every metric that a run without a cluster has,
    and what each is made for."""
    return (
        ("snf_schedule_error_seconds",
         ("replay", CAPTURE, "--clock=real", "--unit_capacity=100Mbps")),
        ("snf_port_received_packets_total",
         ("run", f"--port=inside=file:{CAPTURE}",
          f"--port=outside=file:{outside}", "--unit_capacity=100Mbps",
          "--nf=lb(virtual=192.0.2.10:80,servers=10.0.0.1:80,"
          "drain@1s=10.0.0.1)")))


def served(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics",
                                    timeout=PATIENCE_S) as answer:
            return answer.read().decode()
    except urllib.error.URLError:
        return ""  # not yet


def scrape(program, metric, arguments):
    """What a run serves once it has packets, and the metric with a value."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    run = subprocess.Popen([program, *arguments, f"--metrics_port={port}"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and run.poll() is None:
            text = served(port)
            if f"\n{metric}" in text and "\nsnf_unit_packets_total{" in text:
                return text
            time.sleep(0.05)
    finally:
        run.kill()
        _, said = run.communicate()
    raise RuntimeError(f"{arguments} served no {metric}: {said.decode()}")


def metrics_in(code):
    """(name, type, help, labels) of each metric that the code names: so none is
    left out that has a group, hosts or addresses of ports."""
    named = re.compile(r'to\.(Counter|Gauge|Summary|Seconds|Begin)\(\s*'
                       r'"(snf_\w+)",(.*?)\);\n', re.S)
    found = list(named.finditer(code))
    for i, match in enumerate(found):
        call, name, rest = match.groups()
        kind = re.search(r"Type::k(\w+)", rest)
        kind = kind[1] if kind else "Gauge" if call == "Seconds" else call
        said = re.search(r'((?:"[^"]*"\s*)+)$', rest)
        said = "".join(re.findall(r'"([^"]*)"', said[1])) if said else ""
        end = found[i + 1].start() if i + 1 < len(found) else len(code)
        begin = code.rindex("\nvoid ", 0, match.start()) if i else 0
        labels = (labels_of(code[begin:match.start()], code[match.end():end])
                  if call in ("Counter", "Begin") else [])
        yield name, kind.lower(), said, labels


def labels_of(before, behind):
    """The labels of a metric, whose samples are added behind it or, if there are
    none, by the last function before it."""
    sample = r"\bSample(?:Seconds)?\(([^;]*);"
    words = re.findall(sample, behind)[:1] or re.findall(sample, before)[-1:]
    if not words:
        return []
    if words[0].startswith("labels("):  # as the function there says
        words = [before[before.rindex("labels ="):]]
    if match := re.match(r'\s*"(\w+)",', words[0]):
        return [match[1]]
    return re.findall(r'\{"(\w+)",', words[0])


def metrics_page(program):
    helps, types, labels = {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        outside = pathlib.Path(folder) / "outside.pcap.zst"
        shutil.copy(CAPTURE, outside)
        texts = [scrape(program, *run) for run in runs(outside)]
    for line in "".join(texts).splitlines():
        if match := re.match(r"# (HELP|TYPE) (\S+) (.*)", line):
            (helps if match[1] == "HELP" else types)[match[2]] = match[3]
        elif match := re.match(r"(\w+)\{(.*)\} ", line):
            labels[match[1]] = re.findall(r'(?:^|,)(\w+)="', match[2])
    for name, kind, said, of_code in metrics_in(METRICS_CODE.read_text()):
        if name not in helps:
            helps[name], types[name], labels[name] = said, kind, of_code
    page = HEAD + (
        "# Metrics\n\nWith `--metrics_port=PORT` a run in real time serves these at "
        "`http://127.0.0.1:PORT/metrics`,\nin Prometheus' text format. Those of ports "
        "are of live traffic, `snf_schedule_error_seconds` is\nof captures, and "
        "`snf_group_…`, `snf_host_…`, `snf_etcd_up` and `snf_manager_up` are of "
        "daemons that\nuse [a cluster](cluster.md), `snf_chain_…` of several "
        "chains with rules. "
        "[What to alert on](day2.md#what-to-alert-on).\n\n"
        "| metric | type | label | what |\n|---|---|---|---|\n")
    for name in sorted(helps):
        label = ", ".join(f"`{one}`" for one in labels.get(name, []))
        page += f"| `{name}` | {types[name]} | {label} | {helps[name]} |\n"
    return page


# --- Calls --------------------------------------------------------------------


def statements(text):
    """(comment before, statement, comment behind) of a .proto file, in order."""
    before = []
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("//"):
            before.append(line[2:].removeprefix(" "))
            continue
        code, _, behind = line.partition("//")
        if code.strip():
            yield before, code.strip(), behind.strip()
        before = []


def paragraph(lines):
    """Lines that are indented are shown as they are."""
    text = ""
    for line in lines:
        if line.startswith("  "):
            text = text.rstrip("\n") + "\n- `" + re.sub(
                r"^ +(\S+) +", r"\1`: ", line) + "\n"
        else:
            text += line + "\n"
    return text


def calls_of(path):
    page = f"\n## {path.relative_to(ROOT)}\n"
    scopes = []
    in_table = False
    for before, code, behind in statements(path.read_text()):
        said = " ".join([*before, behind]).strip().replace("|", "\\|")
        if match := re.match(r"(service|message|oneof|enum) (\w+) \{ *(.*)$", code):
            kind, name, rest = match.groups()
            if kind == "service":
                page += f"\n{paragraph(before)}\n| call | asks | answers | what |\n"
                page += "|---|---|---|---|\n"
            elif kind == "message":
                full = ".".join([s for k, s in scopes if k == "message"] + [name])
                page += f"\n### {full}\n\n"
                page += paragraph(before) + "\n" if before else ""
                in_table = False
            if not rest.endswith("}"):
                scopes.append((kind, name))
                continue
            code = rest[:-1].strip()
            if not code:
                page += "Has no fields.\n"
                continue
            page += field_rows(code, said="", in_table=False)
        elif code == "}":
            scopes.pop()
        elif match := re.match(r"rpc (\w+)\((.*)\) returns \((.*)\);", code):
            name, asks, answers = match.groups()
            page += f"| `{name}` | `{asks}` | `{answers}` | {said} |\n"
        elif scopes and not code.startswith("reserved"):
            page += field_rows(code, said, in_table,
                               one_of=scopes[-1][0] == "oneof")
            in_table = True
    return page


def field_rows(code, said, in_table, one_of=False):
    match = re.match(r"(.+) (\w+) = (\d+);$", code)
    if not match:
        raise ValueError(f"no field: {code}")
    kind, name, number = match.groups()
    head = "" if in_table else "| field | | type | what |\n|---|---:|---|---|\n"
    if one_of:
        said = f"one of these. {said}".strip()
    return f"{head}| `{name}` | {number} | `{kind}` | {said} |\n"


def calls_page():
    page = HEAD + ("# Calls\n\nWhat a daemon serves ([control](control.md#the-control-api)), "
                   "and a resource manager\n([leases](control.md#several-daemons-that-share-a-"
                   "machine)): gRPC, package `snf.proto`.\n")
    for name in ("control", "leases"):
        page += calls_of(ROOT / "proto" / f"{name}.proto")
    return page


def main(arguments):
    if len(arguments) not in (1, 2) or arguments[1:] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    program = arguments[0]
    pages = {"flags.md": flags_page(program), "metrics.md": metrics_page(program),
             "rpcs.md": calls_page()}
    code = 0
    for name, text in pages.items():
        path = FOLDER / name
        if arguments[1:]:
            if not path.exists() or path.read_text() != text:
                print(f"{path.relative_to(ROOT)} is not what the code says: "
                      f"platform/guides/generate.py {program}", file=sys.stderr)
                code = 1
        else:
            path.write_text(text)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

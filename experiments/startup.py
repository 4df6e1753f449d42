#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what it takes to start one more instance of an NF, by a method.

Usage: startup.py SNF CAPTURE --method=METHOD --counts=N[,N…]
                  [--repetitions=N]

CAPTURE is of a second or so. Methods, each measured where it stands for what
platforms do:

  exec      a program is started that runs an NF, until a packet went through it
            and it has ended (snf nf run)
  fork      a process that has written 64 MiB forks, until the child runs
  load      a shared library, a copy each, is loaded and linked (dlopen)
  thread    a unit more in a run of snf, warm
  process   a process more for units (--isolation=process)
  lxc       a container more for units (--isolation=lxc)
  parked, parked_lxc
            a unit that takes a process, or a container, that is parked
            (--warm_pool), as the run's report tells

Prints a JSON object: "waited" is the share of the time in which somebody waited
for a CPU; "rows" have, for each count, the time in s that an instance took to
start, and the bytes of memory of each; "why_not" says why there are none. Of
units, what a run of more takes longer than one of the least count is shared by
the units more; the CPU time of a start and its page faults are told as well,
which other runs on the machine hardly change.
"""

import argparse
import ctypes
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # nothing beside the sources
from pressure import Stalls

HEAP_BYTES = 64 << 20
PERIOD_S = 0.02  # in which memory is looked at


def memory_of(pid: int, field: str = "Pss") -> int:
    """In bytes; 0 if the process is gone or is not ours to look at."""
    try:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


def call(command: list[str]) -> bytes:
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                         check=False)
    if ran.returncode != 0:
        sys.exit(ran.stderr.decode(errors="replace").strip() or
                 f"exit code {ran.returncode}")
    return ran.stdout


# --- Baselines ----------------------------------------------------------------

def by_exec(options) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        short = pathlib.Path(folder) / "short.pcap"
        call([options.snf, "trace", "convert", options.capture, short,
              "--end=1ms", "--quiet"])
        rows = []
        for count in options.counts:
            times, memory = [], []
            for _ in range(count):
                begin = time.perf_counter()
                out = call([options.snf, "nf", "run", "firewall", short])
                times.append(time.perf_counter() - begin)
                memory.append(json.loads(out)["memory_bytes"])
            rows.append({"count": count, "seconds": statistics.median(times),
                         "bytes": statistics.median(memory)})
        return rows


def by_fork(options) -> list[dict]:
    heap = bytearray(HEAP_BYTES)
    heap[::4096] = b"x" * len(heap[::4096])
    rows = []
    for count in options.counts:
        times, children = [], []
        for _ in range(count):
            read, write = os.pipe()
            begin = time.perf_counter()
            child = os.fork()
            if child == 0:
                os.write(write, b"x")
                time.sleep(600)
                os._exit(0)
            os.read(read, 1)
            times.append(time.perf_counter() - begin)
            children.append(child)
            os.close(read)
            os.close(write)
        memory = [memory_of(child, "Private_Dirty") for child in children]
        for child in children:
            os.kill(child, 9)
            os.waitpid(child, 0)
        rows.append({"count": count, "seconds": statistics.median(times),
                     "bytes": statistics.median(memory)})
    return rows


def a_library(snf: str) -> pathlib.Path:
    """One that snf is linked with, about as large as a module with an NF."""
    linked = call(["ldd", snf]).decode()
    found = re.search(r"=> (\S*/libhiredis\S*)", linked)
    if not found:
        sys.exit(f"{snf}: is not linked with hiredis, which was to be loaded")
    return pathlib.Path(found[1])


def by_load(options) -> list[dict]:
    library = a_library(options.snf)
    rows = []
    for count in options.counts:
        with tempfile.TemporaryDirectory() as folder:
            copies = [pathlib.Path(folder) / f"{i}.so" for i in range(count)]
            for copy in copies:
                shutil.copy(library, copy)
            before, times = memory_of(os.getpid()), []
            for copy in copies:
                begin = time.perf_counter()
                ctypes.CDLL(str(copy), mode=os.RTLD_NOW)
                times.append(time.perf_counter() - begin)
            rows.append({"count": count, "seconds": statistics.median(times),
                         "bytes": (memory_of(os.getpid()) - before) / count})
    return rows


# --- Units of snf -------------------------------------------------------------

def children_of(pid: int) -> list[int]:
    """Its children and theirs."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in task.read_text().split():
                found += [int(child), *children_of(int(child))]
        except OSError:
            pass
    return found


def flags_of(method: str, count: int) -> list[str]:
    if method == "thread":
        return [f"--warm_units={count}", f"--max_units={count}", "--threads=1"]
    if method.startswith("parked"):
        isolation = "lxc" if method.endswith("lxc") else "process"
        return [f"--isolation={isolation}", f"--max_units={count}",
                f"--warm_pool={count}", "--policy=rotate"]
    return [f"--threads={count + 1}", f"--isolation={method}"]


def run_units(options, count: int, *flags: str) -> dict:
    """What a run with so many takes; its memory is the most that is seen."""
    most = 0
    with tempfile.TemporaryFile() as errors:
        begin = time.perf_counter()
        process = subprocess.Popen(
            [options.snf, "replay", options.capture, "--nf=firewall",
             "--clock=real", "--speed=1x", "--unit_capacity=none",
             "--no_check", "--quiet", *flags_of(options.method, count), *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=errors)
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            most = max(most, sum(map(memory_of, [process.pid, *children_of(
                process.pid)])))
            time.sleep(PERIOD_S)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            sys.exit(errors.read().decode(errors="replace").strip() or
                     f"exit code {process.returncode}")
    return {"seconds": time.perf_counter() - begin, "bytes": most,
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "page_faults": usage.ru_minflt}


def why_no_containers() -> str:
    """As ./snf doctor finds it."""
    if os.geteuid() != 0:
        return "containers of LXC want root"
    try:
        ctypes.CDLL("liblxc.so.1")
    except OSError:
        return "LXC is not installed (liblxc1)"
    return ""


def by_units(options) -> list[dict]:
    found = {}
    for count in options.counts:
        ran = [run_units(options, count) for _ in range(options.repetitions)]
        found[count] = {name: min(each[name] for each in ran)
                        for name in ran[0]}
        found[count]["bytes"] = statistics.median(each["bytes"]
                                                  for each in ran)
    least = min(found)
    return [{"count": count, "whole_bytes": whole["bytes"],
             **{name: max(0, value - found[least][name]) / (count - least)
                for name, value in whole.items()}}
            for count, whole in found.items() if count > least]


def by_pool(options) -> list[dict]:
    """The median of starts, of those that found a process; each of its
    processes but the first is the memory of one more."""
    rows, least = [], None
    for count in options.counts:
        times, memory = [], []
        for _ in range(options.repetitions):
            with tempfile.TemporaryDirectory() as folder:
                report = pathlib.Path(folder) / "report.json"
                memory.append(run_units(options, count,
                                        f"--json={report}")["bytes"])
                starts = json.loads(report.read_text())["real"]["starts"]
            if starts["parked_ns"] is not None:
                times.append(starts["parked_ns"]["p50"] / 1e9)
        whole = statistics.median(memory)
        if least is None:
            least = count, whole
        elif times:
            rows.append({"count": count, "seconds": statistics.median(times),
                         "bytes": max(0, whole - least[1]) / (count - least[0]),
                         "whole_bytes": whole})
    return rows


METHODS = {"exec": by_exec, "fork": by_fork, "load": by_load,
           "thread": by_units, "process": by_units, "lxc": by_units,
           "parked": by_pool, "parked_lxc": by_pool}


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("snf")
    parser.add_argument("capture")
    parser.add_argument("--method", choices=METHODS, required=True)
    parser.add_argument("--counts", required=True,
                        type=lambda text: list(map(int, text.split(","))))
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    stalls = Stalls()
    why_not = why_no_containers() if options.method.endswith("lxc") else ""
    rows = [] if why_not else METHODS[options.method](options)
    print(json.dumps({"waited": stalls.share(), "rows": rows,
                      "why_not": why_not}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

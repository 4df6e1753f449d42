# SPDX-License-Identifier: Apache-2.0
"""Runs jobs, as many at a time as there are cores, and keeps their outcomes.

The outcome of a job is a folder, named by a hash of all that it depends on: the
program's bytes, the arguments, the bytes of files that are read, and the jobs
whose files are. It gets its name when it is complete. So a run that was
interrupted goes on where it stood, and nothing is run twice.
"""

import concurrent.futures
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterable

from pressure import Stalls
from scenario import Job, Made, Out, Outcome, Outcomes, Program, needs

LONGEST_S = 1800  # of a job
LINE_PERIOD_S = 2  # of progress where there is no screen
FULL = (errno.ENOSPC, errno.EDQUOT)  # of whichever file a job names
NO_ROOM = (*FULL, errno.EFBIG, errno.EROFS)  # of the cache
NOT_RUN = "not run: it needs "
NOT_REPEATABLE = ("elapsed_s",)  # figures of a report that are not kept


class CacheInUse(Exception):
    """Another experiment keeps its outcomes in the same folder."""


class Failed(Exception):
    """A job that did not do what it should, in a few words."""


class Runner:
    """Owner-thread only; jobs run in processes that threads wait for."""

    def __init__(self, snf: pathlib.Path, cache: pathlib.Path, at_once: int,
                 progress):
        self.snf = snf
        self.cache = cache
        self.at_once = at_once
        self.progress = progress
        self.failures: list[tuple[Job, str]] = []
        self._hashes: dict[pathlib.Path, str] = {}
        self._keys: dict[Job, str] = {}
        self._running: set[subprocess.Popen] = set()
        self._lock = threading.Lock()
        self._is_over = False
        self._used: set[str] = set()  # names of folders
        cache.mkdir(parents=True, exist_ok=True)
        self._cache_lock = open(cache / "lock", "w", encoding="ascii")
        try:
            fcntl.flock(self._cache_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._cache_lock.close()
            raise CacheInUse(f"{cache}: another experiment is writing there") \
                from None

    def close(self):
        self._cache_lock.close()

    def run(self, jobs: Iterable[Job]) -> Outcomes:
        """Runs the jobs and those whose files they read. Jobs that fail are in
        `failures`, and so are those that need them."""
        waiting = list(self._with_what_they_need(jobs))
        outcomes, failed, running = Outcomes(), set(), {}
        self.progress.begin(waiting)
        pool = concurrent.futures.ThreadPoolExecutor(self.at_once)
        try:
            while waiting or running:
                for job in self._ready(waiting, outcomes, failed,
                                       running.values()):
                    running[pool.submit(self._outcome, job, outcomes)] = job
                if not running:
                    continue  # all that was left needs what failed
                done, _ = concurrent.futures.wait(
                    running,
                    return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    job = running.pop(future)
                    try:
                        outcomes[job], was_kept = future.result()
                        self.progress.end(job, was_kept)
                    except Failed as error:
                        failed.add(job)
                        self._fail(job, str(error))
        except BaseException:
            self._stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return outcomes

    def prune(self, most_bytes: int) -> int:
        """Removes outcomes, the ones that were used longest ago first, until
        so many bytes are left; those of this runner's jobs stay. Returns how
        many were removed."""
        kept = sorted((folder.stat().st_mtime_ns, folder, size_of(folder))
                      for folder in self.cache.iterdir() if folder.is_dir())
        length = sum(size for _, _, size in kept)
        removed = 0
        for _, folder, size in kept:
            if length > most_bytes and folder.name not in self._used:
                shutil.rmtree(folder, ignore_errors=True)
                length -= size
                removed += 1
        return removed

    def _with_what_they_need(self, jobs: Iterable[Job]) -> dict[Job, None]:
        found = {}
        for job in jobs:
            found.update(self._with_what_they_need(needs(job)))
            found[job] = None
        return found

    def _ready(self, waiting: list[Job], outcomes: Outcomes,
               failed: set[Job], running: Collection[Job]) -> list[Job]:
        """Takes those out of `waiting` that can be run. What is timed is run
        when all else has ended, one at a time."""
        ready, timed = [], []
        for job in list(waiting):
            missing = [need for need in needs(job) if need not in outcomes]
            if not missing and job.is_timed:
                timed.append(job)
            elif not missing:
                ready.append(job)
                waiting.remove(job)
            elif failed.intersection(missing):
                failed.add(job)
                waiting.remove(job)
                self._fail(job, NOT_RUN + missing[0].name)
        if timed and not ready and not running:
            ready.append(timed[0])
            waiting.remove(timed[0])
        return ready

    def _fail(self, job: Job, message: str):
        self.failures.append((job, message))
        self.progress.fail(job, message)

    # --- One job --------------------------------------------------------------

    def _outcome(self, job: Job, outcomes: Outcomes) -> tuple[Outcome, bool]:
        try:
            folder = self.cache / self.key_of(job)
            kept = read_outcome(folder)
            self._used.add(folder.name)
            if kept is not None:
                os.utime(folder)  # for prune()
                return kept, True
            return self._make(job, folder, outcomes), False
        except OSError as error:
            if error.errno in NO_ROOM:
                raise  # no other job would fare better
            raise Failed(what_of(error)) from error

    def _make(self, job: Job, folder: pathlib.Path,
              outcomes: Outcomes) -> Outcome:
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        partial.mkdir()
        stdout = partial / "stdout"
        try:
            command = self._command(job, partial, outcomes)
            stalls = Stalls()
            code = self._call(command, partial)
            if code != 0:
                errors = (partial / "stderr").read_text(errors="replace")
                self._check_room(code, errors)
                raise Failed(f"exit code {code}: {last_lines(errors)}")
            figures = figures_of(stdout) if job.has_figures else {}
            if job.is_timed:
                figures.setdefault("waited", stalls.share())
            stdout.unlink()
            (partial / "figures.json").write_text(
                json.dumps({"job": job.name, "command": command[1:],
                            "figures": figures}, indent=1))
            partial.rename(folder)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        return Outcome(figures, folder)

    def _check_room(self, code: int, errors: str):
        """Where there is none left, no other job would fare better. A file
        elsewhere that cannot be written is of its job alone."""
        lines = errors.splitlines()
        for number in NO_ROOM:
            if any(os.strerror(number) in line and
                   (number in FULL or str(self.cache) in line)
                   for line in lines) or (
                       number == errno.EFBIG and code == -signal.SIGXFSZ):
                raise OSError(number, os.strerror(number), str(self.cache))

    def _command(self, job: Job, folder: pathlib.Path,
                 outcomes: Outcomes) -> list[str]:
        def text(argument):
            if isinstance(argument, Made):
                folder_of = outcomes[argument.job].folder
                return f"{argument.flag}{folder_of / argument.file}"
            if isinstance(argument, Out):
                return f"{argument.flag}{folder / argument.file}"
            if isinstance(argument, Program):
                return str(self.snf)
            return str(argument)

        program = self._program(job)
        head = [sys.executable] if program.suffix == ".py" else []
        return [*head, str(program), *map(text, job.arguments)]

    def _call(self, command: list[str], folder: pathlib.Path) -> int:
        with open(folder / "stdout", "wb") as out, \
                open(folder / "stderr", "wb") as errors:
            with self._lock:
                if self._is_over:
                    raise Failed("interrupted")
                # In a session of its own: an interrupt is ours to pass on.
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=out,
                    stderr=errors, start_new_session=True)
                self._running.add(process)
            try:
                return process.wait(LONGEST_S)
            except subprocess.TimeoutExpired:
                end_with_children(process, signal.SIGKILL)
                process.wait()
                raise Failed(f"took longer than {LONGEST_S} s") from None
            finally:
                with self._lock:
                    self._running.discard(process)

    def _stop(self):
        with self._lock:
            self._is_over = True
            for process in self._running:
                end_with_children(process, signal.SIGTERM)

    # --- What an outcome depends on -------------------------------------------

    def _program(self, job: Job) -> pathlib.Path:
        if job.program == "snf":
            return self.snf
        return pathlib.Path(__file__).resolve().parent / job.program

    def key_of(self, job: Job) -> str:
        if job not in self._keys:
            parts = [self.hash_of(file)
                     for file in sources_of(self._program(job))]
            for argument in job.arguments:
                if isinstance(argument, pathlib.Path):
                    parts.append(["file", self.hash_of(argument)])
                elif isinstance(argument, Made):
                    parts.append(["made", self.key_of(argument.job),
                                  argument.file, argument.flag])
                elif isinstance(argument, Out):
                    parts.append(["out", argument.flag, argument.file])
                elif isinstance(argument, Program):
                    parts.append(["snf", self.hash_of(self.snf)])
                else:
                    parts.append(argument)
            self._keys[job] = hashlib.sha256(
                json.dumps(parts).encode()).hexdigest()[:32]
        return self._keys[job]

    def hash_of(self, path: pathlib.Path) -> str:
        if path not in self._hashes:
            with open(path, "rb") as file:
                self._hashes[path] = hashlib.file_digest(
                    file, "sha256").hexdigest()
        return self._hashes[path]


IMPORT = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)


def sources_of(program: pathlib.Path) -> list[pathlib.Path]:
    """A program; and of a script also what it imports of the files beside it,
    and so on."""
    found, left = [], [program]
    while left:
        path = left.pop()
        found.append(path)
        if path.suffix != ".py":
            continue
        for name in IMPORT.findall(path.read_text(encoding="utf-8")):
            beside = path.with_name(f"{name}.py")
            if beside.is_file() and beside not in [*found, *left]:
                left.append(beside)
    return found


def end_with_children(process: subprocess.Popen, number: int):
    """It is the first of its session, and has not been waited for."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def size_of(folder: pathlib.Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*")
               if path.is_file())


def what_of(error: OSError) -> str:
    """Names the file where it is known."""
    if error.filename is None:
        return str(error.strerror)
    return f"{error.filename}: {error.strerror}"


def read_outcome(folder: pathlib.Path) -> Outcome | None:
    """None if it is not there, or is not what this program wrote."""
    try:
        kept = json.loads((folder / "figures.json").read_text())
        return Outcome(kept["figures"], folder)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def figures_of(stdout: pathlib.Path) -> dict:
    try:
        figures = json.loads(stdout.read_text())
    except ValueError as error:
        raise Failed(f"what it printed is no JSON object: {error}") from error
    if not isinstance(figures, dict):
        raise Failed("what it printed is no JSON object")
    for name in NOT_REPEATABLE:
        figures.pop(name, None)
    return figures


def last_lines(text: str, count: int = 4) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-count:]) or "it said nothing"


class Progress:
    """Tells on a stream how far jobs are and how long the rest will take."""

    def __init__(self, stream):
        self.stream = stream
        self.is_screen = stream.isatty()
        self.count = self.ended = self.kept = 0
        self.cost = self.cost_ended = 0.0
        self.start = self.said = 0.0

    def begin(self, jobs: list[Job]):
        self.start = time.monotonic()
        self.count = len(jobs)
        self.cost = sum(job.cost for job in jobs)

    def end(self, job: Job, was_kept: bool):
        self.ended += 1
        if was_kept:
            self.kept += 1
            self.cost -= job.cost
            if self.ended < self.count:
                return
        else:
            self.cost_ended += job.cost
        now = time.monotonic()
        if self.is_screen or self.ended == self.count or \
                now - self.said >= LINE_PERIOD_S:
            self.said = now
            self._say(job.name)

    def fail(self, job: Job, message: str):
        self.ended += 1
        self.cost_ended += job.cost
        self._clear()
        print(f"failed: {job.name}: {message}", file=self.stream, flush=True)

    def left_s(self) -> float | None:
        if self.cost_ended == 0:
            return None
        took = time.monotonic() - self.start
        return took * (self.cost - self.cost_ended) / self.cost_ended

    def _say(self, name: str):
        kept = f", {self.kept} kept from before" if self.kept else ""
        line = f"{self.ended} of {self.count} runs{kept}"
        left = self.left_s()
        if self.ended < self.count:
            if left is not None:
                line += f"; about {left:.0f} s left"
            line += f": {name}"
        self._clear()
        is_last = self.ended == self.count
        end = "" if self.is_screen and not is_last else "\n"
        print(line[:79] if self.is_screen else line, end=end,
              file=self.stream, flush=True)

    def _clear(self):
        if self.is_screen:
            print("\r\x1b[K", end="", file=self.stream)

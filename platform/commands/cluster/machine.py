# SPDX-License-Identifier: Apache-2.0
"""Programs, processes and network namespaces of this machine, for `./snf
cluster`."""

import contextlib
import os
import signal
import subprocess
import sys
import time

OK, USAGE, UNAVAILABLE, IO, PERMISSION, INTERRUPTED = 0, 2, 69, 74, 77, 130
PATIENCE_S = 30


class Failure(Exception):
    """Ends the command with a line and an exit code."""

    def __init__(self, text, code=UNAVAILABLE):
        super().__init__(text)
        self.code = code


def say(text):
    """Goes on if nobody reads: `down` has to come to its end."""
    with contextlib.suppress(BrokenPipeError):
        print(f"snf cluster: {text}", file=sys.stderr, flush=True)


def call(*words, check=True, inside=None, patience_s=PATIENCE_S, text="",
         **how):
    """What a program prints; a failure names it. `text` is its stdin, and `how`
    is more for subprocess.run."""
    if inside is not None:
        words = ("ip", "netns", "exec", inside, *words)
    try:
        done = subprocess.run([str(word) for word in words], input=text,
                              capture_output=True, text=True, check=False,
                              timeout=patience_s, **how)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{' '.join(map(str, words))}: no end within "
                      f"{patience_s} s") from error
    except OSError as error:
        raise Failure(f"{words[0]}: {error.strerror}") from error
    if check and done.returncode != 0:
        why = (done.stderr or done.stdout).strip() or done.returncode
        raise Failure(f"{' '.join(map(str, words))}: {why}")
    return done.stdout


def follow(*words, inside, patience_s):
    """Runs a program in a namespace, and says each line when it is printed; a
    failure has all of them."""
    lines = []
    with subprocess.Popen(
            ["ip", "netns", "exec", inside, "timeout", str(patience_s),
             *map(str, words)], stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for line in process.stdout:
            lines.append(line.strip())
            say(lines[-1])
    if process.returncode != 0:
        raise Failure("; ".join(lines) or f"{words[0]} says nothing")


def wait_for(what, condition, patience_s=PATIENCE_S):
    end = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > end:
            raise Failure(f"{what}: nothing within {patience_s} s")
        time.sleep(0.05)


def pids_in(namespace):
    """The processes of a namespace; none if there is no such namespace. `ip`
    may fail once, as when a process that it looks at ends."""
    for is_last in (False, True):
        try:
            return [int(pid) for pid in
                    call("ip", "netns", "pids", namespace).split()]
        except Failure:
            if namespace not in namespaces():
                return []
            if is_last:
                raise
    return []


def kill_all(namespace):
    """Ends all processes of a namespace, also new ones, with SIGKILL."""
    def is_empty():
        pids = pids_in(namespace)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not pids
    wait_for(f"the end of the processes of {namespace}", is_empty)


def namespaces():
    return {line.split()[0] for line in
            call("ip", "netns", "list").splitlines() if line}

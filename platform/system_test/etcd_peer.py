# SPDX-License-Identifier: Apache-2.0
"""A server of etcd on loopback, for tests of what the cluster keeps there."""

import os
import shutil
import signal
import subprocess
import tempfile

from command_case import free_port, wait_for
from needs import skip


def skip_without_etcd():
    """Ends the script as skipped where there is no etcd."""
    for program in ("etcd", "etcdctl"):
        if shutil.which(program) is None:
            skip(f"needs {program}, of the Debian packages etcd-server and "
                 "etcd-client")


class Etcd:
    def __init__(self, inside=(), address="127.0.0.1"):
        """`inside` are words before each command, as of a namespace."""
        self.inside = list(inside)
        self.folder = tempfile.TemporaryDirectory()
        self.endpoint = f"{address}:{free_port()}"
        self.peer = f"http://127.0.0.1:{free_port()}"
        self.process = None
        self.start()

    def start(self):
        own = f"http://{self.endpoint}"
        self.process = subprocess.Popen(
            [*self.inside, "etcd", "--name=m", f"--data-dir={self.folder.name}/m",
             f"--listen-client-urls={own}", f"--advertise-client-urls={own}",
             f"--listen-peer-urls={self.peer}",
             f"--initial-advertise-peer-urls={self.peer}",
             f"--initial-cluster=m={self.peer}", "--logger=zap",
             "--log-level=error", "--heartbeat-interval=50",
             "--election-timeout=500"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("etcd", lambda: self.control("endpoint", "health") is not None)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        self.kill()
        self.folder.cleanup()

    def control(self, *words):
        """What etcdctl prints; None if it fails."""
        done = subprocess.run(
            [*self.inside, "etcdctl", f"--endpoints={self.endpoint}", *words],
            env={"ETCDCTL_API": "3", "PATH": os.environ["PATH"]},
            capture_output=True, text=True, timeout=60, check=False)
        return done.stdout if done.returncode == 0 else None

# SPDX-License-Identifier: Apache-2.0
"""Whether there are fewer CPUs than work, that of what is measured included."""

import pathlib
import re
import time

STALLS = pathlib.Path("/proc/pressure/cpu")


def stalled_s() -> float | None:
    """Time, since the machine started, in which somebody waited for a CPU;
    None where the kernel does not tell."""
    try:
        found = re.search(r"^some .*total=(\d+)$", STALLS.read_text(),
                          re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) / 1e6 if found else None


class Stalls:
    """Tells the share of the time since it was made in which somebody waited
    for a CPU, 0 where that is not known."""

    def __init__(self):
        self.stalled_s, self.begin = stalled_s(), time.monotonic()

    def share(self) -> float:
        now = stalled_s()
        took = time.monotonic() - self.begin
        if now is None or self.stalled_s is None or took <= 0:
            return 0.0
        return min(1.0, (now - self.stalled_s) / took)

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The verdict of soak.py, of runs that were not."""

import collections
import contextlib
import io
import socket
import sys
import threading
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources
import soak


class Ran:
    """A gateway after its time."""

    def __init__(self, samples, crashes=2, wrong=()):
        self.samples, self.crashes, self.wrong = samples, crashes, list(wrong)


def flat(daemon_kb=0, others_kb=0):
    """Memory that grows by so much from the first sample to the last."""
    return [(i, 200_000 + daemon_kb * i // 99, 400_000 + others_kb * i // 99)
            for i in range(100)]


def report(conserved=True, **dropped):
    return {"conserved": conserved, "packets_dropped": dropped, "faults": {}}


WELL = {"opened": 9, "closed": 9, "echoes": 99, "why": []}


class Verdict(unittest.TestCase):
    def says(self, gateway, talked=WELL, of=None):
        with contextlib.redirect_stdout(io.StringIO()):
            return soak.verdict(gateway, talked, of or report())

    def test_nothing_is_wrong_with_a_run_that_went_well(self):
        self.assertEqual(self.says(Ran(flat())), [])
        # An older chain beside the newest one comes and goes.
        two = [(at, daemon * (2 if at % 50 > 25 else 1), others)
               for at, daemon, others in flat()]
        self.assertEqual(self.says(Ran(two)), [])
        # Tables of units that hash still touch pages.
        self.assertEqual(self.says(Ran(flat(others_kb=30_000)),
                                   of=report(nf_failed=2)), [])

    def test_memory_that_grows_is_wrong(self):
        self.assertEqual(self.says(Ran(flat(daemon_kb=20_000))),
                         ["memory of daemon grew by 8,081 KB"])
        self.assertIn("memory of others",
                      self.says(Ran(flat(others_kb=90_000)))[0])
        self.assertEqual(self.says(Ran(flat()[:9])),
                         ["too few samples of memory"])

    def test_what_broke_is_named(self):
        for talked, word in ((dict(WELL, broken=1, why=["reset"]), "reset"),
                             (dict(WELL, wrong=1), "1 wrong"),
                             (dict(WELL, closed=0), "no connection")):
            wrong = self.says(Ran(flat()), talked)
            self.assertEqual(len(wrong), 1)
            self.assertIn(word, wrong[0])

    def test_what_the_gateway_did_wrong_is_named(self):
        for gateway, of, word in (
                (Ran(flat(), wrong=["reload 3: no"]), None, "reload 3: no"),
                (Ran(flat()), report(nf_failed=3), "3 packets crashed"),
                (Ran(flat()), report(conserved=False), "do not add up")):
            wrong = self.says(gateway, of=of)
            self.assertEqual(len(wrong), 1)
            self.assertIn(word, wrong[0])


class Talk(unittest.TestCase):
    def test_an_echo_that_is_cut_or_changed_is_told(self):
        """Of a peer that first closes, then answers wrongly."""
        listener = socket.create_server(("127.0.0.1", 0))
        answers = collections.deque([b"", b"?" * 50_000])

        def answer():
            while answers:
                peer, _ = listener.accept()
                with peer:
                    soak.read_all(peer, int.from_bytes(
                        soak.read_all(peer, 4), "big"))
                    peer.sendall(answers.popleft())
        server = threading.Thread(target=answer)
        server.start()
        soak.SERVER4, soak.ECHO = listener.getsockname()
        talker = soak.Talker(seed=1)
        talker.stops.set()  # one echo a connection
        rng = soak.random.Random(1)
        with self.assertRaises(OSError):
            talker.connection(rng)
        with contextlib.suppress(OSError):
            talker.connection(rng)
        server.join()
        listener.close()
        self.assertEqual(talker.counts["wrong"], 1)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A figure is the same file, to the last byte, at each run."""

import random
import sys
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True  # nothing beside the sources
try:
    import charts
    from matplotlib.layout_engine import ConstrainedLayoutEngine
except ImportError:
    charts = None


@unittest.skipUnless(charts, "python3-matplotlib is missing")
class Drawn(unittest.TestCase):
    def test_is_the_same_for_a_layout_that_differs_by_rounding(self):
        def draw(figure):
            above, below = figure.subfigures(2, 1)
            above.suptitle("above", x=0.01, ha="left")
            below.subplots().pcolor([[1, 2]])
            for i, axes in enumerate(above.subplots(1, 3)):
                axes.plot([1, 2, 3], [0.1 * i, 1.25, 3e5])
                axes.annotate("0.1234567", (2, 2))

        def rounded_otherwise(engine, figure):
            laid_out(engine, figure)
            for part in figure.subfigs:
                part.bbox_relative.set_points(
                    part.bbox_relative.get_points() + noise())
            for axes in figure.axes:
                box = axes.get_position(original=False)
                axes._set_position(box.translated(noise(), noise()),
                                   which="active")

        def noise():
            return chance.choice((-1e-8, 1e-8))

        chance = random.Random(1)
        laid_out = ConstrainedLayoutEngine.execute
        report = types.SimpleNamespace(size=(7, 4), draw=draw)
        first = charts.drawn(report, "of a test")
        self.assertIn(b">0.1234567<", first["svg"])
        self.assertIn(b'"p3"', first["svg"])
        with mock.patch.object(ConstrainedLayoutEngine, "execute",
                               rounded_otherwise):
            for _ in range(5):
                self.assertEqual(charts.drawn(report, "of a test"), first)


@unittest.skipUnless(charts, "python3-matplotlib is missing")
class Settled(unittest.TestCase):
    def test_leaves_texts_alone_and_rounds_places(self):
        self.assertEqual(
            charts.settled(b'<a id="pabcdef0123" x="56.056918" y="-1.0015" z="-0"/>'
                           b'<b clip="url(#pabcdef0123)">0.056918</b>'
                           b'<c id="p0123456789" d="M 1.23 4.5678e-05 -0.00001"/>'),
            b'<a id="p1" x="56.057" y="-1.002" z="0"/>'
            b'<b clip="url(#p1)">0.056918</b>'
            b'<c id="p2" d="M 1.23 4.5678e-05 0"/>')


if __name__ == "__main__":
    unittest.main()

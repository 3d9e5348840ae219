"""What came of one cut."""

from __future__ import annotations

from typing import NamedTuple

from tests.power.judges import Violation


class Verdict(NamedTuple):
    """``name``: filesystem, shape, kind, seed and number of the cut. ``judged_s``: how long the start and the judges
    took. ``evidence``: where the image and the broker's log were kept, if that was asked for."""

    name: str
    judged_s: float
    violations: list[Violation]

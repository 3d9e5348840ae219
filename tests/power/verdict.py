"""The result of one cut."""

from __future__ import annotations

from typing import NamedTuple

from tests.power.judges import NOT_PROMISED, Violation


class Verdict(NamedTuple):
    """``name``: filesystem, shape, kind, seed and number of the cut. ``judged_s``: the duration of the start and of the
    judges.
    """

    name: str
    judged_s: float
    violations: list[Violation]

    @property
    def is_bad(self) -> bool:
        """Whether a promise is violated."""
        return any(violation.judge not in NOT_PROMISED for violation in self.violations)

"""Who held what from when to when, as a recording has it."""

from typing import NamedTuple


class LaneGroup(NamedTuple):
    """The lanes of one kind whose names differ only in the partition; ``stem`` is what they begin with, ``flights-``
    say, or ``board: flights-``. ``to_ms`` None: one of them lasts."""

    kind: str
    stem: str
    lane_count: int
    from_ms: int
    to_ms: int | None


class Move(NamedTuple):
    """From ``from_ms`` on ``holder`` has the lane, before ``previous`` had it: "" is nobody, None nobody ever.

    ``to_ms`` None: it lasts. The kinds are those of ``holds.Hold``.
    """

    kind: str
    lane: str
    holder: str
    previous: str | None
    from_ms: int
    to_ms: int | None

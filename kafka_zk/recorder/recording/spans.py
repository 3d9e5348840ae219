"""The spans of a recording: the holder of each lane over time."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kafka_zk.recorder.recording.holds import Hold
from kafka_zk.registry.znodes.consumers import consumer_of

_LAST = "\U0010ffff"
_BY_PARTITION = "'leader', 'owner', 'assigned'"
_STEM = "rtrim(lane, '0123456789')"
MOST_MEMBERS = 200
_MEMBER_OF: dict[str, Callable[[str, str], str]] = {
    "member": lambda lane, holder: lane.partition(": ")[2],
    "owner": lambda lane, holder: consumer_of(holder),
    "assigned": lambda lane, holder: holder,
}
_MEMBERS_IN = "'member', 'owner', 'assigned'"
SCHEMA = """
create table if not exists spans (
    id integer primary key, kind text, lane text, holder text, note text, from_ms integer, to_ms integer
);
create index if not exists by_lane on spans (kind, lane);
create index if not exists by_begin on spans (from_ms);
"""


class Span(NamedTuple):
    """``holder`` holds the lane from ``from_ms`` to ``to_ms``; ``to_ms`` is None while the span is open."""

    kind: str
    lane: str
    holder: str
    note: str
    from_ms: int
    to_ms: int | None


class LaneGroup(NamedTuple):
    """Lanes of one kind whose names differ only in the partition. ``stem`` is their prefix, such as ``flights-`` or
    ``board: flights-``. ``to_ms``: None if one of the lanes has an open span.
    """

    kind: str
    stem: str
    lane_count: int
    from_ms: int
    to_ms: int | None


class Move(NamedTuple):
    """The lane passed from ``previous`` to ``holder`` at ``from_ms``. "" means no holder. ``previous``: None if the
    lane has no earlier span.

    ``to_ms``: the end of the span that began then; None while it is open. ``kind``: as in ``holds.Hold``.
    """

    kind: str
    lane: str
    holder: str
    previous: str | None
    from_ms: int
    to_ms: int | None


class Spans:
    """Raises: sqlite3.Error."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._members: dict[str, None] = {}
        for row in database.execute(f"select kind, lane, holder from spans where kind in ({_MEMBERS_IN}) order by id"):
            self._meet(*row)

    @property
    def members(self) -> list[str]:
        """The first MOST_MEMBERS members of groups, in the order of their first appearance."""
        return list(self._members)

    def _meet(self, kind: str, lane: str, holder: str) -> None:
        if kind in _MEMBER_OF and holder and len(self._members) < MOST_MEMBERS:
            self._members.setdefault(_MEMBER_OF[kind](lane, holder))

    def add(self, time_ms: int, hold: Hold) -> None:
        """End the lane's current span and begin this one, unless they are equal."""
        kind, lane, holder, note = hold
        self._meet(kind, lane, holder)
        last = self._database.execute(
            "select id, holder, note, to_ms from spans where kind = ? and lane = ? order by id desc limit 1",
            (kind, lane),
        ).fetchone()
        if last is not None and last[1:] == (holder, note, None):
            return
        if last is not None and last[3] is None:
            self._database.execute("update spans set to_ms = ? where id = ?", (time_ms, last[0]))
        values = (kind, lane, holder, note, time_ms)
        self._database.execute("insert into spans (kind, lane, holder, note, from_ms) values (?, ?, ?, ?, ?)", values)

    def end(self, kinds: Iterable[str], time_ms: int) -> None:
        """End the current spans of these kinds, because their source no longer exists."""
        with self._database:
            for kind in kinds:
                self._database.execute("update spans set to_ms = max(from_ms, ?) where kind = ? and to_ms is null",
                                       (time_ms, kind))  # fmt: skip

    def forget_before(self, time_ms: int) -> None:
        """Drop the spans that ended before a moment, and lanes that have had no holder since: those of members, and
        those of a group's partitions if no partition of the topic has had a holder since. The caller commits.
        """
        self._database.execute("delete from spans where to_ms < ?", (time_ms,))
        self._database.execute(
            "delete from spans where to_ms is null and holder = '' and from_ms < ? and (kind = 'member' or kind in "
            f"({_MEMBERS_IN}) and (kind, {_STEM}) not in (select kind, {_STEM} from spans where holder != ''))",
            (time_ms,),
        )

    def assigned(self, stem: str) -> dict[str, str]:
        """Lane -> current holder; the lanes of a broker-coordinated group begin with ``stem``."""
        rows = self._database.execute(
            "select lane, holder from spans where kind = 'assigned' and lane between ? and ? and to_ms is null "
            "and holder != ''",
            (stem, f"{stem}{_LAST}"),
        )
        return {lane: holder for lane, holder in rows if ": " not in lane.removeprefix(stem)}

    def assigned_groups(self) -> set[str]:
        """The broker-coordinated groups that have had a partition."""
        rows = self._database.execute("select distinct lane from spans where kind = 'assigned' and holder != ''")
        return {lane.rpartition(": ")[0] for (lane,) in rows}

    def holders(self, kind: str, limit: int) -> dict[str, str]:
        rows = self._database.execute(
            "select lane, holder from spans where kind = ? and to_ms is null and holder != '' limit ?", (kind, limit)
        )
        return dict(rows.fetchall())

    def groups(self, from_ms: int, to_ms: int, limit: int) -> list[LaneGroup]:
        """The lanes of partitions that had a holder in this interval, by topic."""
        rows = self._database.execute(
            f"select kind, {_STEM} as stem, count(distinct lane), min(from_ms), "
            "case when max(to_ms is null) then null else max(to_ms) end from spans "
            f"where kind in ({_BY_PARTITION}) and from_ms <= ? and (to_ms is null or to_ms >= ?) "
            "group by kind, stem having max(holder) != '' order by min(id) limit ?",
            (to_ms, from_ms, limit),
        )
        return [LaneGroup(*row) for row in rows]

    def of_group(self, group: LaneGroup, from_ms: int, to_ms: int, limit: int, *, unheld: bool = False) -> list[Span]:
        """The spans that overlap this interval. ``unheld``: only spans without a holder."""
        return self._spans(
            f"kind = ? and lane between ? and ? and {_STEM} = ?{' and holder = ' + repr('') if unheld else ''}",
            (group.kind, group.stem, f"{group.stem}{_LAST}", group.stem), from_ms, to_ms, limit,
        )  # fmt: skip

    def single(self, from_ms: int, to_ms: int, limit: int) -> list[Span]:
        return self._spans(
            "kind in ('controller', 'broker', 'member', 'server', 'ensemble')", (), from_ms, to_ms, limit
        )

    def at(self, kinds: Iterable[str], time_ms: int, limit: int) -> list[Span]:
        """The spans of these kinds at a moment, the latest of each lane."""
        kinds = tuple(kinds)
        found = self._spans(f"kind in ({', '.join('?' * len(kinds))})", kinds, time_ms, time_ms, limit)
        return list({(each.kind, each.lane): each for each in found}.values())

    def _spans(self, condition: str, values: tuple[str, ...], from_ms: int, to_ms: int, limit: int) -> list[Span]:
        rows = self._database.execute(
            f"select kind, lane, holder, note, from_ms, to_ms from spans where {condition} "
            "and from_ms <= ? and (to_ms is null or to_ms >= ?) order by kind, lane, from_ms limit ?",
            (*values, to_ms, from_ms, limit),
        )
        return [Span(*row) for row in rows]

    def moves(self, from_ms: int, to_ms: int, limit: int) -> list[Move]:
        """The latest ``limit`` moves of this interval, sorted by time."""
        rows = self._database.execute(
            "select kind, lane, holder, (select holder from spans as p where p.kind = s.kind and p.lane = s.lane "
            "and p.id < s.id order by p.id desc limit 1), from_ms, to_ms from spans as s "
            "where from_ms between ? and ? order by from_ms desc, id desc limit ?",
            (from_ms, to_ms, limit),
        ).fetchall()
        return [Move(*row) for row in reversed(rows)]

    def rows(self, from_ms: int, to_ms: int) -> Iterator[Any]:
        """The table rows of all spans that overlap this interval."""
        return self._database.execute(
            "select * from spans where from_ms <= ? and (to_ms is null or to_ms >= ?)", (to_ms, from_ms)
        )

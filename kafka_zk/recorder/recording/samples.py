"""High watermarks and committed offsets over time, in a recording's database.

Names of series: ``end flights-0`` (high watermark), ``committed board: flights-0``, a topic's sums ``ends flights`` and
``lag board: flights``, ``heard 0x1f`` (whether a session is silent), ``sampled`` (finished rounds of questions) and
``turns`` (turns needed to ask about all partitions). A value is valid until the next one. None: unknown, or the
session has ended.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import NamedTuple

SCHEMA = """
create table if not exists samples (
    series text, time_ms integer, value integer, primary key (series, time_ms)
) without rowid;
"""
MOST_SAMPLES = 500_000
"""About 25 MB; the oldest samples are dropped."""
_FORGOTTEN_SHARE = 8
_COUNTED_EVERY = 1_000


class Sample(NamedTuple):
    """``value`` is valid from ``time_ms`` on."""

    time_ms: int
    value: int | None


class Since(NamedTuple):
    """``is_exact``: False if it may have been so before the first sample."""

    time_ms: int
    is_exact: bool


class Samples:
    """The samples of one recording, for its thread. Raises sqlite3.Error."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._there = bool(database.execute("select 1 from sqlite_master where name = 'samples'").fetchone())
        self._last: dict[str, int | None] = {}  # current value of some series; the database has the others
        self._added = 0

    def add(self, time_ms: int, values: Mapping[str, int | None], *, for_good: bool = False) -> int:
        """Store changed values and return their number.

        Args:
            values: None ends a series until its next value.
            for_good: ended series will probably not return; forget them in memory.
        """
        new = {series: value for series, value in values.items() if self._lasting(series, time_ms) != value}
        with self._database:
            rows = [(series, time_ms, value) for series, value in new.items()]
            self._database.executemany("insert or replace into samples values (?, ?, ?)", rows)
        self._last.update(values)
        if for_good:
            for series in [series for series, value in values.items() if value is None]:
                del self._last[series]
        self._added += len(new)
        if self._added >= _COUNTED_EVERY:
            self._added = 0
            self._forget_oldest()
        return len(new)

    def end(self, beginning: str, time_ms: int) -> None:
        """End these series, because their source no longer exists."""
        self.add(time_ms, dict.fromkeys(self.at(time_ms, [beginning])), for_good=True)

    def at(self, time_ms: int, beginnings: Iterable[str], limit: int = MOST_SAMPLES) -> dict[str, int]:
        """The values at a moment, for the series with these prefixes; at most ``limit`` per prefix."""
        found: dict[str, int] = {}
        for beginning in beginnings if self._there else ():
            rows = self._database.execute(  # with max(), SQLite takes the value from the same row
                "select series, value from (select series, value, max(time_ms) from samples "
                "where series between ? and ? and time_ms <= ? group by series) where value is not null limit ?",
                (beginning, f"{beginning}\U0010ffff", time_ms, limit),
            )
            found.update(rows.fetchall())
        return found

    def values(self, time_ms: int, names: Iterable[str]) -> dict[str, int]:
        """The values of exactly these series at a moment; those without a value are left out."""
        found = ((name, self.last(name, time_ms)) for name in names)
        return {name: each.value for name, each in found if each is not None and each.value is not None}

    def between(self, series: str, from_ms: int, to_ms: int, limit: int) -> list[Sample]:
        """The value at ``from_ms`` and later ones, reduced to at most ``limit``."""
        if not self._there:
            return []
        first = self._before(series, from_ms)
        width_ms = max(1, (to_ms - from_ms) // limit)
        rows = self._database.execute(
            "select max(time_ms), value from samples where series = ? and time_ms > ? and time_ms <= ? "
            "group by (time_ms - ?) / ? order by 1",
            (series, from_ms, to_ms, from_ms, width_ms),
        )
        return [*([first] if first else ()), *(Sample(*row) for row in rows)]

    def latest(self, series: str, from_ms: int, to_ms: int, limit: int) -> list[Sample]:
        """The last samples of an interval, in order; none is left out between them."""
        if not self._there:
            return []
        rows = self._database.execute(
            "select time_ms, value from samples where series = ? and time_ms between ? and ? "
            "order by time_ms desc limit ?",
            (series, from_ms, to_ms, limit),
        )
        return [Sample(*row) for row in rows][::-1]

    def names(self, beginning: str, limit: int) -> list[str]:
        if not self._there:
            return []
        rows = self._database.execute(
            "select distinct series from samples where series between ? and ? limit ?",
            (beginning, f"{beginning}\U0010ffff", limit),
        )
        return [name for (name,) in rows]

    def rows(self, from_ms: int, to_ms: int) -> list[tuple[str, int, int | None]]:
        """All samples of an interval, and the values at its beginning."""
        if not self._there:
            return []
        names = self._database.execute("select distinct series from samples").fetchall()
        begin = [(name, *sample) for (name,) in names if (sample := self._before(name, from_ms))]
        return begin + self._database.execute(
            "select series, time_ms, value from samples where time_ms > ? and time_ms <= ?", (from_ms, to_ms)
        ).fetchall()

    def forget_before(self, time_ms: int) -> None:
        """Drop the samples before a moment, except the values that are valid then. The caller commits."""
        self._database.execute(
            "delete from samples where time_ms < ? and (value is null or exists (select 1 from samples as later "
            "where later.series = samples.series and later.time_ms > samples.time_ms and later.time_ms <= ?))",
            (time_ms, time_ms),
        )

    def _lasting(self, series: str, time_ms: int) -> int | None:
        if series in self._last:
            return self._last[series]
        before = self._before(series, time_ms)
        return None if before is None else before.value

    def last(self, series: str, time_ms: int) -> Sample | None:
        """The series' last sample at or before a moment; None if there is none."""
        return self._before(series, time_ms) if self._there else None

    def within_since(self, series: str, time_ms: int, low: int, high: int) -> Since | None:
        """Since when a series has been in ``low`` to ``high`` at every moment at which it is known, up to ``time_ms``.

        None if its last known value is outside, or it has none.
        """
        if not self._there:
            return None
        outside = self._database.execute(
            "select time_ms from samples where series = ? and time_ms <= ? and value not between ? and ? "
            "order by time_ms desc limit 1",
            (series, time_ms, low, high),
        ).fetchone()
        first = self._database.execute(
            "select time_ms from samples where series = ? and time_ms <= ? and time_ms > ? and value is not null "
            "order by time_ms limit 1",
            (series, time_ms, outside[0] if outside else -1),
        ).fetchone()
        return None if first is None else Since(first[0], outside is not None)

    def _before(self, series: str, time_ms: int) -> Sample | None:
        row = self._database.execute(
            "select time_ms, value from samples where series = ? and time_ms <= ? order by time_ms desc limit 1",
            (series, time_ms),
        ).fetchone()
        return None if row is None else Sample(*row)

    def _forget_oldest(self) -> None:
        (count,) = self._database.execute("select count(*) from samples").fetchone()
        if count > MOST_SAMPLES:
            with self._database:
                self._database.execute(
                    "delete from samples where time_ms < "
                    "(select time_ms from samples order by time_ms limit 1 offset ?)",
                    (count - MOST_SAMPLES + MOST_SAMPLES // _FORGOTTEN_SHARE,),
                )
            self._last.clear()  # current values that were dropped are stored again

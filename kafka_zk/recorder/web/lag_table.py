"""How far groups are behind at one moment, and how old each number is. The only I/O is that of ``Samples``.

A sample is stored when a value changes, so the samples also tell since when a group has not committed, and when the log
end passed the group's offset: at about that time the first record was written that the group has not committed.
"""

from typing import NamedTuple

from kafka_zk.base.integers import NATURAL_INT32, decimal_integer
from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.samples import Samples

MOST_SERIES = 2_000
"""Maximum number of partitions of groups that are compared."""
MOST_NAMES = 100_000
"""Maximum number of partitions of groups in which the filter searches."""
MOST_ROWS = 200
"""Maximum number of rows; those with the largest lag are kept."""
UNKNOWN_SHOWN_MS = 600_000
"""Time for which a partition is listed although its offset has become unknown: its group may be deleted."""
_COMMITTED = "committed "
_LARGEST = (1 << 63) - 1


class Row(NamedTuple):
    """A partition of a group. None: unknown.

    ``unknown_ms``: how long the offset (or, if that is known, the log end) has been unknown. ``unchanged_ms``: how long
    the group has not committed another offset. ``behind_ms``: age of the first record that the group has not committed.
    ``..._is_exact``: False if it may be longer, because the recording does not go back further.
    """

    group: str
    partition: str
    committed: int | None
    end: int | None
    lag: int | None = None
    unknown_ms: int | None = None
    unchanged_ms: int | None = None
    unchanged_is_exact: bool = True
    behind_ms: int | None = None
    behind_is_exact: bool = True


def lag_table(samples: Samples, time_ms: int, name: str) -> Document:
    """The partitions with ``name`` in them or in their group. ``count``: their number, of which MOST_ROWS are sent.
    ``is_whole``: False if there are more than MOST_SERIES, so that some were not compared.
    """
    named = [series for series in samples.names(_COMMITTED, MOST_NAMES) if name in series]
    found = [_row(samples, time_ms, series) for series in named[:MOST_SERIES]]
    rows = [row for row in found if row is not None]
    largest = sorted(rows, key=lambda row: (row.unknown_ms is None, -(row.lag or 0)))[:MOST_ROWS]
    aged = [_aged(samples, time_ms, row) for row in largest]
    return {
        "count": len(rows),
        "is_whole": len(named) <= MOST_SERIES,
        "rows": [row._asdict() for row in sorted(aged, key=_by_name)],
    }


def _by_name(row: Row) -> tuple[str, str, int]:
    topic, _, number = row.partition.rpartition("-")
    return row.group, topic, decimal_integer(number, NATURAL_INT32) or 0


def _row(samples: Samples, time_ms: int, series: str) -> Row | None:
    """None if the series was not known at that time, or no longer."""
    group, _, partition = series.removeprefix(_COMMITTED).rpartition(": ")
    committed, end = samples.last(series, time_ms), samples.last(f"end {partition}", time_ms)
    if committed is None:
        return None
    if committed.value is None:
        age_ms = time_ms - committed.time_ms
        return Row(group, partition, None, None, unknown_ms=age_ms) if age_ms <= UNKNOWN_SHOWN_MS else None
    if end is None or end.value is None:
        since_ms = time_ms - end.time_ms if end is not None else None
        return Row(group, partition, committed.value, None, unknown_ms=since_ms)
    return Row(group, partition, committed.value, end.value, max(0, end.value - committed.value))


def _aged(samples: Samples, time_ms: int, row: Row) -> Row:
    if row.committed is None:
        return row
    series, committed = f"{_COMMITTED}{row.group}: {row.partition}", row.committed
    if (unchanged := samples.within_since(series, time_ms, committed, committed)) is not None:
        row = row._replace(unchanged_ms=time_ms - unchanged.time_ms, unchanged_is_exact=unchanged.is_exact)
    behind = samples.within_since(f"end {row.partition}", time_ms, committed + 1, _LARGEST) if row.lag else None
    if behind is not None:
        row = row._replace(behind_ms=time_ms - behind.time_ms, behind_is_exact=behind.is_exact)
    return row

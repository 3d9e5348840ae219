"""Draws, as text, which member delivers each partition at each time. Pure.

    t-0  aaaaaaaaaaaaaaaaaaaaaaaa
    t-1  aaaaaa·bbbbbbbbbb·dddddd
         0 s       10 s
         a anna  b ben  d dora  · silent  ' for a moment

Each column is an interval. A dot means that the partition was silent for half of it or more, an apostrophe for a part
of it. A letter names the last member that delivered it.
"""

import string
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from kafka_zk.base.types import TopicPartition
from kafka_zk.recorder.timeline.deliveries import Change
from kafka_zk.recorder.timeline.names import short_name

SILENT, BRIEFLY = "·", "'"
_ROWS = 40
_TICK = 10  # columns between two times on the axis
_LETTERS = string.ascii_letters + string.digits


def letters(names: Iterable[str]) -> dict[str, str]:
    """A character for each name, taken from the name if possible; ``?`` if none is left."""
    taken: dict[str, str] = {}
    for name in names:
        wanted = [each for character in name for each in (character.lower(), character.upper())]
        free = (each for each in (*wanted, *_LETTERS) if each in _LETTERS and each not in taken.values())
        taken[name] = next(free, "?")
    return taken


def picture(
    group_id: str, history: Mapping[TopicPartition, Sequence[Change]], from_ms: int, to_ms: int, width: int
) -> Iterator[str]:
    shown = dict(sorted(history.items())[:_ROWS])
    label_width = max((len(str(tp)) for tp in shown), default=0)
    columns = width - label_width - 2
    if not shown or columns < _TICK or to_ms <= from_ms:
        return
    edges = [from_ms + (to_ms - from_ms) * column // columns for column in range(columns + 1)]
    members = sorted({change.member for changes in shown.values() for change in changes if change.member is not None})
    letter_of = dict(zip(members, letters(short_name(group_id, each) for each in members).values(), strict=True))
    for tp, changes in shown.items():
        yield f"{tp!s:<{label_width}}  {_row(list(changes), edges, letter_of)}".rstrip()
    if len(history) > len(shown):
        yield f"{'':<{label_width}}  … and {len(history) - len(shown)} more partitions"
    yield f"{'':<{label_width}}  {_axis(columns, to_ms - from_ms)}"
    legend = [f"{letter} {short_name(group_id, member)}" for member, letter in letter_of.items()]
    yield from _folded([*legend, f"{SILENT} silent", f"{BRIEFLY} for a moment"], label_width + 2, width)


def began_ms(history: Mapping[TopicPartition, Sequence[Change]]) -> int | None:
    return min((changes[0].time_ms for changes in history.values() if changes), default=None)


def _row(changes: list[Change], edges: Sequence[int], letter_of: Mapping[str, str]) -> str:
    times = [change.time_ms for change in changes]
    cells = []
    for start, end in pairwise(edges):
        first = bisect_right(times, start) - 1  # the change in force when the column begins
        within = changes[max(first, 0) : bisect_right(times, end - 1)]
        if not within:
            cells.append(" ")
        elif silent_ms := _silent_ms(within, start, end):
            cells.append(SILENT if 2 * silent_ms >= end - start else BRIEFLY)
        else:
            cells.append(letter_of[within[-1].member or ""])
    return "".join(cells)


def _silent_ms(changes: Sequence[Change], start: int, end: int) -> int:
    """The ms without a delivery between two times; ``changes``: those in force. A silence has at least 1 ms."""
    found = 0
    for change, next_ms in zip(changes, [*(each.time_ms for each in changes[1:]), end], strict=True):
        if change.member is None:
            found += max(1, next_ms - max(change.time_ms, start))
    return found


def _axis(columns: int, duration_ms: int) -> str:
    digits = 0 if duration_ms >= 20_000 else 1 if duration_ms >= 2_000 else 2
    ticks = range(0, columns - _TICK + 1, _TICK)
    return "".join(f"{f'{duration_ms * tick / columns / 1000:.{digits}f} s':<{_TICK}}" for tick in ticks).rstrip()


def _folded(parts: Sequence[str], indent: int, width: int) -> Iterator[str]:
    line = ""
    for part in parts:
        if line and indent + len(line) + 2 + len(part) > width:
            yield " " * indent + line
            line = ""
        line += f"  {part}" if line else part
    yield " " * indent + line

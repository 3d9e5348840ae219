"""Tables that fit a width. Pure.

Words are never broken. A table that is too wide is narrowed in this order: headers are split at their hyphens, columns
with equal values move above the table, long cells are shortened in the middle, and columns at the right are omitted and
listed.
"""

from collections.abc import Sequence
from typing import NamedTuple

GAP = "  "
SHORTEST = 12
"""Minimum width of a shortened cell."""
ELLIPSIS = "…"


class Layout(NamedTuple):
    """``above``: values that all rows share. ``left_out``: columns that do not fit."""

    above: list[str]
    header: list[str]
    rows: list[str]
    left_out: list[str]


def plain(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns under one header line, without a width limit."""
    table = [[column.upper() for column in columns], *cells]
    return _aligned(table, _widths(table, len(columns)))


def fitted(columns: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> Layout:
    """The table in lines of at most ``width`` characters."""
    names = [column.upper() for column in columns]
    shown = list(range(len(names)))
    if _size(names, cells, shown, stacked=False) <= width:
        return _layout(names, cells, shown, width, stacked=False)
    common = []
    while (alike := _alike(cells, shown)) and _size(names, cells, shown, stacked=True) > width:
        common.append(alike[0])
        shown.remove(alike[0])
    dropped: list[str] = []
    while len(shown) > 1 and _least(names, cells, shown) > width:
        dropped.insert(0, names[shown.pop()])
    above = [shortened(f"{names[n]} {cells[0][n]}", width) for n in sorted(common)]
    layout = _layout(names, cells, shown, width, stacked=True)
    return layout._replace(above=above, left_out=dropped)


def _alike(cells: Sequence[Sequence[str]], shown: Sequence[int]) -> list[int]:
    if len(cells) < 2 or len(shown) < 2:
        return []
    found = [n for n in shown if len({row[n] for row in cells}) == 1 and not cells[0][n].isdigit()]
    return sorted(found, key=lambda n: -len(cells[0][n]))


def shortened(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    head = width // 2
    return text[:head] + ELLIPSIS + text[len(text) - (width - head - 1) :]


def _layout(
    names: Sequence[str], cells: Sequence[Sequence[str]], shown: Sequence[int], width: int, *, stacked: bool
) -> Layout:
    headers = [_parts(names[n]) if stacked else [names[n]] for n in shown]
    rows = [[row[n] for n in shown] for row in cells]
    height = max(len(parts) for parts in headers)
    headers = [[""] * (height - len(parts)) + parts for parts in headers]
    lines = [[parts[k] for parts in headers] for k in range(height)]
    least = [max(map(len, parts)) for parts in headers]
    widths = _narrowed(_widths([*lines, *rows], len(shown)), least, width - len(GAP) * (len(shown) - 1))
    cut = [[shortened(text, size) for text, size in zip(row, widths, strict=True)] for row in [*lines, *rows]]
    aligned = _aligned(cut, widths)
    return Layout([], aligned[:height], aligned[height:], [])


def _narrowed(widths: list[int], least: Sequence[int], room: int) -> list[int]:
    while sum(widths) > room:
        spare = [size - max(SHORTEST, lower) for size, lower in zip(widths, least, strict=True)]
        widest = max(range(len(widths)), key=lambda n: (spare[n] > 0, widths[n]))
        if spare[widest] <= 0:
            return [min(size, room) for size in widths] if len(widths) == 1 else widths
        widths[widest] -= 1
    return widths


def _parts(name: str) -> list[str]:
    """Split ``CURRENT-OFFSET`` into ``CURRENT-`` above ``OFFSET``."""
    at = max(name.rfind("-"), name.rfind("_")) + 1
    return [piece for piece in (name[:at], name[at:]) if piece]


def _size(names: Sequence[str], cells: Sequence[Sequence[str]], shown: Sequence[int], *, stacked: bool) -> int:
    widths = [
        max([max(map(len, _parts(names[n]))) if stacked else len(names[n]), *(len(row[n]) for row in cells)])
        for n in shown
    ]
    return sum(widths) + len(GAP) * (len(shown) - 1)


def _least(names: Sequence[str], cells: Sequence[Sequence[str]], shown: Sequence[int]) -> int:
    short = [[text[:SHORTEST] for text in row] for row in cells]
    return _size(names, short, shown, stacked=True)


def _widths(table: Sequence[Sequence[str]], count: int) -> list[int]:
    return [max((len(line[n]) for line in table), default=0) for n in range(count)]


def _aligned(table: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    return [GAP.join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in table]

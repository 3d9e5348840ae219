"""The herd effect as an SVG: requests and notifications of one join over the size of the group, both axes logarithmic.

The SVG is written by hand, so that a plot needs no library. One panel for each count of partitions, one line for each
kind of group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from tests.bench.rebalance.herd import Herd

_PANEL_WIDTH, _PANEL_HEIGHT, _MARGIN, _LEGEND_HEIGHT = 300, 260, 56, 26
#: The dashes distinguish the lines without colour, too.
_LINES = (
    ("#b2182b", ""),
    ("#2166ac", "6 3"),
    ("#1b7837", "2 2"),
    ("#762a83", "8 2 2 2"),
    ("#8c510a", "1 3"),
    ("#333333", "4 4"),
)

Point = tuple[float, float]


def herd_svg(found: Sequence[Herd], titles: Mapping[str, str]) -> str:
    """The whole picture, without joins that did not settle. Args: titles: method -> its text in the legend."""
    herds = [herd for herd in found if herd.settled]
    partitions = sorted({herd.partitions for herd in herds})
    methods = [method for method in titles if any(herd.method == method for herd in herds)]
    largest = max((herd.requests + herd.notifications for herd in herds), default=0)
    width = len(partitions) * (_PANEL_WIDTH + _MARGIN) + _MARGIN
    height = _PANEL_HEIGHT + 2 * _MARGIN + _LEGEND_HEIGHT * len(methods)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for index, count in enumerate(partitions):
        left = _MARGIN + index * (_PANEL_WIDTH + _MARGIN)
        panel = _Panel(left, _MARGIN, [herd for herd in herds if herd.partitions == count], largest)
        parts += panel.drawn(f"{count:,} partitions", methods)
    for index, method in enumerate(methods):
        top = _PANEL_HEIGHT + 2 * _MARGIN + index * _LEGEND_HEIGHT
        colour, dashes = _LINES[index % len(_LINES)]
        parts.append(_polyline([(_MARGIN, top), (_MARGIN + 40, top)], colour, dashes))
        parts.append(_label(_MARGIN + 50, top + 4, titles[method]))
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Panel:
    """One pair of axes."""

    def __init__(self, left: float, top: float, herds: Sequence[Herd], largest: int) -> None:
        self._left, self._top = left, top
        self._herds = herds
        self._members = sorted({herd.members for herd in herds})
        self._decades = range(1, math.ceil(math.log10(max(largest, 100))) + 1)

    def drawn(self, title: str, methods: Sequence[str]) -> list[str]:
        parts = [_label(self._left, self._top - 12, title, bold=True)]
        for decade in self._decades:
            y = self._y(10**decade)
            grid = [(self._left, y), (self._left + _PANEL_WIDTH, y)]
            parts += [_polyline(grid, "#ddd", ""), _label(self._left - 6, y + 4, f"{10**decade:,}", end=True)]
        for count in self._members:
            parts.append(_label(self._x(count), self._top + _PANEL_HEIGHT + 18, str(count), middle=True))
        axis = "members after the join; requests to ZooKeeper + notifications"
        parts.append(_label(self._left, self._top + _PANEL_HEIGHT + 36, axis))
        for index, method in enumerate(methods):
            colour, dashes = _LINES[index % len(_LINES)]
            points = [
                (self._x(herd.members), self._y(herd.requests + herd.notifications))
                for herd in sorted(self._herds, key=lambda each: each.members)
                if herd.method == method
            ]
            parts.append(_polyline(points, colour, dashes))
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        return parts

    def _x(self, members: int) -> float:
        first, last = math.log10(self._members[0]), math.log10(self._members[-1])
        share = (math.log10(members) - first) / (last - first) if last > first else 0.5
        return self._left + 10 + share * (_PANEL_WIDTH - 20)

    def _y(self, count: int) -> float:
        first, last = self._decades[0], self._decades[-1]
        share = (math.log10(max(count, 10**first)) - first) / (last - first)
        return self._top + _PANEL_HEIGHT * (1 - share)


def _polyline(points: Sequence[Point], colour: str, dashes: str) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"{dashed}/>'


def _label(x: float, y: float, text: str, *, bold: bool = False, end: bool = False, middle: bool = False) -> str:
    anchor = "end" if end else "middle" if middle else "start"
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'

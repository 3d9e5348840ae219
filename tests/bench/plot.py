"""`python -m tests.bench.plot BENCH.json PLOT.svg`: throughput and CPU of each row, ours / Kafka, as bars around 1."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import click

_ROW_HEIGHT, _BAR_HEIGHT = 34, 12
_LABEL_WIDTH, _PLOT_WIDTH, _MARGIN = 260, 440, 40
_HEAD_HEIGHT = 64
_SHOWN = (("throughput", "#2a6f97"), ("broker CPU", "#d08c3c"))


class Bar(NamedTuple):
    """A row's ratio for one figure, and the smallest and largest ratio of its pairs."""

    figure: str
    ratio: float
    low: float
    high: float


def rows_of(result: Mapping[str, Any]) -> list[tuple[str, list[Bar]]]:
    """Title and bars of each row that has ratios; `result` is the output of `report.as_json`."""
    rows = []
    for row in result["workloads"].values():
        bars = []
        for figure in row["figures"]:
            if figure["ratio"] is not None and figure["name"] in dict(_SHOWN):
                low, high = figure["ratio_range"] or (figure["ratio"], figure["ratio"])
                bars.append(Bar(figure["name"], figure["ratio"], low, high))
        if bars and row["kind"] == "throughput":
            rows.append((row["title"], bars))
    return rows


def svg(rows: Sequence[tuple[str, list[Bar]]], caption: str) -> str:
    """The picture. The scale starts at 0 and ends above the largest ratio; the line at 1 means equal to Kafka."""
    top = max([1.5, *(bar.ratio for _, bars in rows for bar in bars)]) * 1.1

    def x(ratio: float) -> float:
        return round(_LABEL_WIDTH + _PLOT_WIDTH * min(ratio, top) / top, 1)

    height = _HEAD_HEIGHT + _ROW_HEIGHT * len(rows) + _MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LABEL_WIDTH + _PLOT_WIDTH + 2 * _MARGIN}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="20" font-size="14">{escape(caption)}</text>',
    ]
    for number, (figure, colour) in enumerate(_SHOWN):
        left = 10 + 150 * number
        out.append(f'<rect x="{left}" y="32" width="12" height="12" fill="{colour}"/>')
        better = "more is better" if figure == "throughput" else "less is better"
        out.append(f'<text x="{left + 17}" y="43">{figure} ({better})</text>')
    for number, (title, bars) in enumerate(rows):
        y = _HEAD_HEIGHT + _ROW_HEIGHT * number
        out.append(f'<text x="{_LABEL_WIDTH - 8}" y="{y + 18}" text-anchor="end">{escape(title)}</text>')
        for bar in bars:
            place = [figure for figure, _ in _SHOWN].index(bar.figure)
            out += _bar(bar, _SHOWN[place][1], x, y + 3 + (_BAR_HEIGHT + 1) * place)
    bottom = _HEAD_HEIGHT + _ROW_HEIGHT * len(rows)
    out.append(f'<line x1="{x(1)}" y1="{_HEAD_HEIGHT}" x2="{x(1)}" y2="{bottom}" stroke="black" stroke-dasharray="3"/>')
    out.append(f'<text x="{x(1)}" y="{bottom + 16}" text-anchor="middle">1 = Apache Kafka</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def _bar(bar: Bar, colour: str, x: Any, y: float) -> list[str]:
    """The bar, a thin line over the range of the pairs, and the number."""
    middle = y + _BAR_HEIGHT / 2
    width = round(x(bar.ratio) - _LABEL_WIDTH, 1)
    return [
        f'<rect x="{_LABEL_WIDTH}" y="{y}" width="{width}" height="{_BAR_HEIGHT}" fill="{colour}"/>',
        f'<line x1="{x(bar.low)}" y1="{middle}" x2="{x(bar.high)}" y2="{middle}" stroke="black"/>',
        f'<text x="{x(max(bar.ratio, bar.high)) + 5}" y="{y + 10}" font-size="11">{bar.ratio:.2f}</text>',
    ]


def write(path: Path, result: Mapping[str, Any]) -> None:
    """Draw the result of a run."""
    caption = f"kafka-zk / Apache Kafka {result['kafka_version']}, both on cores {result['broker_cores'] or 'any'}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(svg(rows_of(result), caption))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("json_path", metavar="BENCH.json", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("svg_path", metavar="PLOT.svg", type=click.Path(path_type=Path, dir_okay=False))
def main(json_path: Path, svg_path: Path) -> None:
    """Draw the output of `python -m tests.bench --json`."""
    write(svg_path, json.loads(json_path.read_text()))


if __name__ == "__main__":
    main()

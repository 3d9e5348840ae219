"""Two charts as SVG: a heat map and a line."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

CELL, LEFT, TOP = 26, 60, 50
WIDTH, HEIGHT = 900, 260


def heat_map(
    path: Path, title: str, rows: Sequence[str], columns: Sequence[str], cells: Mapping[tuple[str, str], float]
) -> None:
    """Draw a heat map: white is 0 or less, the deepest red is the largest value. A cell without a value stays empty."""
    top = max([1.0, *cells.values()])
    shapes = []
    for x, column in enumerate(columns):
        shapes.append(_text(LEFT + x * CELL + 4, TOP - 6, column))
    for y, row in enumerate(rows):
        shapes.append(_text(10, TOP + y * CELL + 17, row))
        for x, column in enumerate(columns):
            if (value := cells.get((row, column))) is not None:
                light = round(255 * (1 - max(0.0, value) / top))
                shapes.append(
                    f'<rect x="{LEFT + x * CELL}" y="{TOP + y * CELL}" width="{CELL - 1}" height="{CELL - 1}" '
                    f'fill="rgb(255,{light},{light})"><title>{escape(f"{row} {column}: {value:.1f}")}</title></rect>'
                )
    _write(path, title, LEFT + len(columns) * CELL + 20, TOP + len(rows) * CELL + 20, shapes)


def line(path: Path, title: str, points: Sequence[tuple[str, float]]) -> None:
    """Draw the values in order, from 0 up, with the first and last labels below."""
    top = max([1.0, *(value for _, value in points)])
    step, scale = (WIDTH - 2 * LEFT) / max(1, len(points) - 1), (HEIGHT - 2 * TOP) / top
    corners = [f"{LEFT + x * step:.1f},{HEIGHT - TOP - value * scale:.1f}" for x, (_, value) in enumerate(points)]
    shapes = [
        f'<line x1="{LEFT}" y1="{HEIGHT - TOP}" x2="{WIDTH - LEFT}" y2="{HEIGHT - TOP}" stroke="#888"/>',
        f'<polyline points="{" ".join(corners)}" fill="none" stroke="#2a6f97" stroke-width="1.5"/>',
        _text(10, TOP + 4, f"{top:,.0f}"),
    ]
    if points:
        for x, (label, _) in ((LEFT, points[0]), (WIDTH - LEFT - 40, points[-1])):
            shapes.append(_text(x, HEIGHT - TOP + 18, label))
    _write(path, title, WIDTH, HEIGHT, shapes)


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x}" y="{y}">{escape(text)}</text>'


def _write(path: Path, title: str, width: int, height: int, shapes: Sequence[str]) -> None:
    size = f'width="{width}" height="{height}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="20" font-size="15">{escape(title)}</text>',
    ]
    path.write_text("\n".join([*head, *shapes, "</svg>\n"]))

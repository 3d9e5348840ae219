"""The results of a comparison, as tables and as plots against the number of partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from rich.table import Table

from tests.bench.compare.judged import Samples, Verdict, median
from tests.bench.compare.systems import KRAFT, NAMES, ON_ZOOKEEPER, OURS

TITLES = {ON_ZOOKEEPER: "Kafka 3.9.1, ZooKeeper", KRAFT: "Kafka 4.3.0, KRaft", OURS: "kafka-zk"}


class Row(NamedTuple):
    figure: str
    title: str
    unit: str


ROWS = (
    Row("start_s", "start of 3 brokers until all list all", "s"),
    Row("create_s", "creation until usable", "s"),
    Row("create_cpu_s", "CPU for that", "s"),
    Row("metadata_ms", "Metadata of all partitions", "ms"),
    Row("kill_s", "controller and leader killed until all led", "s"),
    Row("kill_beyond_s", "… until all led, beyond the session's end", "s"),
    Row("kill_gap_s", "… longest gap with acks=all", "s"),
    Row("kill_return_s", "the killed broker starts until in sync", "s"),
    Row("kill_return_gap_s", "… longest gap with acks=all", "s"),
    Row("supervised_s", "killed under a supervisor until all led", "s"),
    Row("supervised_gap_s", "… longest gap with acks=all", "s"),
    Row("stop_exit_s", "clean stop of a leader of many until its exit", "s"),
    Row("stop_gap_s", "… longest gap with acks=all", "s"),
    Row("rolling_gap_s", "rolling restart: longest gap", "s"),
    Row("rolling_stop_gap_s", "… while a broker stops", "s"),
    Row("rolling_start_gap_s", "… from its end until it is in sync again", "s"),
    Row("rolling_s", "… all of it", "s"),
    Row("empty_memory_mb", "memory of all processes, no partitions", "MB"),
    Row("memory_mb", "memory of all processes", "MB"),
    Row("idle_cpu_percent", "CPU of all processes, idle", "% of a core"),
)
COUNTED = tuple(
    Row(f"{change}_{what}", f"{title}: {counted}", "")
    for change, title in (("create", "creation"), ("kill", "a death"), ("stop", "a clean stop"))
    for what, counted in (
        ("writes", "transactions or batches written"),
        ("changes", "znodes or records in them"),
        ("requests", "requests at ZooKeeper"),
        ("bytes", "bytes of KRaft's log"),
        ("sent", "control requests to living brokers"),
    )
)
ASKED = (Row("stop_metadata", "a clean stop: Metadata requests", ""),)
"""With brokers that name new leaders (KIP-951), a client sends fewer of these."""

_ZNODES, _ELECTED = "znodes, and a copy in the controller", "a broker, elected by a znode"
_SENT = "LeaderAndIsr, UpdateMetadata"
WHERE = (
    ("where state lives", _ZNODES, "a log, replicated by Raft", _ZNODES),
    ("who decides", _ELECTED, "the leader of the log", _ELECTED),
    ("who is dead", "whose session ran out", "who sent no heartbeats", "whose session ran out or was closed"),
    ("what brokers are sent", _SENT, "nothing: they fetch the log", _SENT),
)
PLOTTED = ("start_s", "create_s", "kill_beyond_s", "supervised_gap_s", "stop_exit_s", "stop_gap_s", "memory_mb")
_COLOURS = {ON_ZOOKEEPER: "#d08c3c", KRAFT: "#7a5195", OURS: "#2a6f97"}
_WIDTH, _HEIGHT, _LEFT, _BELOW, _ABOVE = 420, 240, 60, 40, 50


def tables(samples: Samples, verdicts: Sequence[Verdict]) -> list[Table]:
    """Tables for each size, then the writes of each change, the place of the state, and the targets."""
    sizes = sorted({partitions for by_size in samples.values() for partitions in by_size})
    return [
        *(_figures(samples, size, ROWS, f"{size:,} partitions, RF 3: medians") for size in sizes),
        *(_figures(samples, size, COUNTED, f"{size:,} partitions: what is written for a change") for size in sizes),
        *(_figures(samples, size, ASKED, f"{size:,} partitions: what a producer asks") for size in sizes),
        _where(),
        _judged(verdicts),
    ]


def _figures(samples: Samples, partitions: int, rows: Sequence[Row], title: str) -> Table:
    made = Table(title=title)
    made.add_column("")
    for column in (*(TITLES[name] for name in NAMES), "ours / ZooKeeper", "ours / KRaft"):
        made.add_column(column, justify="right")
    for row in rows:
        found = {name: median(samples, name, partitions, row.figure) for name in NAMES}
        if any(value is not None for value in found.values()):
            name = f"{row.title}, {row.unit}" if row.unit else row.title
            made.add_row(name, *(number(found[name]) for name in NAMES), *(
                ratio(found[OURS], found[other]) for other in (ON_ZOOKEEPER, KRAFT)))  # fmt: skip
    return made


def number(value: float | None) -> str:
    """Three digits, or all digits of a large number."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ratio(ours: float | None, other: float | None) -> str:
    return f"{ours / other:.2f}" if ours is not None and other else "–"


def _where() -> Table:
    made = Table(title="what differs")
    for column in ("", *(TITLES[name] for name in NAMES)):
        made.add_column(column)
    for row in WHERE:
        made.add_row(*row)
    return made


def _judged(verdicts: Sequence[Verdict]) -> Table:
    made = Table(title="targets")
    for column in ("target", "partitions", "wanted", "found", ""):
        made.add_column(column)
    for each in verdicts:
        made.add_row(
            each.target.title, f"{each.partitions:,}", each.target.wanted, number(each.found), each.text
        )  # fmt: skip
    return made


def svg(samples: Samples, caption: str) -> str:
    """One plot for each figure of ``PLOTTED``, against the number of partitions (logarithmic)."""
    rows = [row for row in _with_full_titles() if row.figure in PLOTTED]
    columns = 2
    width = columns * (_WIDTH + _LEFT + 30)
    height = (len(rows) + 1) // columns * (_HEIGHT + _BELOW + _ABOVE) + 50
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="20" font-size="14">{escape(caption)}</text>',
    ]
    for index, name in enumerate(NAMES):
        out.append(f'<rect x="{10 + 190 * index}" y="30" width="12" height="12" fill="{_COLOURS[name]}"/>')
        out.append(f'<text x="{27 + 190 * index}" y="41">{escape(TITLES[name])}</text>')
    for index, row in enumerate(rows):
        left = _LEFT + index % columns * (_WIDTH + _LEFT + 30)
        top = 50 + _ABOVE + index // columns * (_HEIGHT + _BELOW + _ABOVE)
        out += _plot(row, _lines(samples, row.figure), left, top)
    return "\n".join([*out, "</svg>"]) + "\n"


def _with_full_titles() -> Iterator[Row]:
    """``ROWS`` with complete titles: a title that begins with … gets the one above it in front."""
    above = ""
    for row in ROWS:
        if not row.title.startswith("… "):
            above = row.title.partition(" until ")[0]
            yield row
        else:
            yield row._replace(title=f"{above}: {row.title.removeprefix('… ')}")


def _lines(samples: Samples, figure: str) -> dict[str, list[tuple[int, float]]]:
    lines: dict[str, list[tuple[int, float]]] = {}
    for name, by_size in samples.items():
        found = [(size, median(samples, name, size, figure)) for size in sorted(by_size)]
        lines[name] = [(size, value) for size, value in found if value is not None]
    return lines


def _plot(row: Row, lines: Mapping[str, Sequence[tuple[int, float]]], left: int, top: int) -> list[str]:
    """Axes from 0, the sizes at equal distances, a line and its points for each system."""
    sizes = sorted({size for line in lines.values() for size, _ in line})
    highest = max([value for line in lines.values() for _, value in line], default=0.0) or 1.0

    def x(size: int) -> float:
        return round(left + _WIDTH * (sizes.index(size) + 0.5) / len(sizes), 1)

    def y(value: float) -> float:
        return round(top + _HEIGHT * (1 - value / (1.1 * highest)), 1)

    bottom = top + _HEIGHT
    out = [
        f'<text x="{left}" y="{top - 8}" font-size="13">{escape(row.title)}, {escape(row.unit)}</text>',
        f'<path d="M{left},{top}V{bottom}H{left + _WIDTH}" fill="none" stroke="black"/>',
        f'<text x="{left - 5}" y="{y(highest) + 4}" text-anchor="end">{number(highest)}</text>',
        f'<text x="{left - 5}" y="{bottom + 4}" text-anchor="end">0</text>',
    ]
    out += [f'<text x="{x(size)}" y="{bottom + 18}" text-anchor="middle">{size:,}</text>' for size in sizes]
    for name, line in lines.items():
        points = " ".join(f"{x(size)},{y(value)}" for size, value in line)
        out.append(f'<polyline points="{points}" fill="none" stroke="{_COLOURS[name]}" stroke-width="2"/>')
        out += [f'<circle cx="{x(size)}" cy="{y(value)}" r="4" fill="{_COLOURS[name]}"/>' for size, value in line]
    return out

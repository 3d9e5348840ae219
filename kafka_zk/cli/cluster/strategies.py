"""``kafka-zk replay --strategies``: one change of a group's members under each assignment strategy."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from kafka_zk.cli.terminal.output import print_json, say

if TYPE_CHECKING:
    from kafka_zk.sim.strategies.measured import Measured
    from kafka_zk.sim.strategies.told import Row

CHANGES = ("join", "leave", "die", "slow")
_COLUMN_MS = 250
_UNREAD, _SILENT, _BUSY = "·", "!", "*"
_LEVELS = " ▁▂▃▄▅▆▇█"
_COLORS = {"a": "blue", "b": "yellow", "c": "green", _UNREAD: "red", _SILENT: "red"}
_LABEL_WIDTH = 10
_COLUMNS = 78


def compare(name: str, as_json: bool) -> None:
    """Play the change and show it; each strategy takes about a second."""
    from twisted.logger import globalLogBeginner

    from kafka_zk.sim.strategies.comparison import rows
    from kafka_zk.sim.strategies.play import CHANGES as PLAYED
    from kafka_zk.sim.strategies.told import conclusion, document, frame, kind, sentence

    globalLogBeginner.beginLoggingTo([], discardBuffer=True, redirectStandardIO=False)
    change = PLAYED[name]
    if as_json:
        print_json({**frame(), **document(change, list(rows(change)))})
        return
    click.secho(f"{change.title}, at 0 s", bold=True)
    say(frame()["said"])
    say(f"a, b, c: anna, ben or cara reads the partition; {_UNREAD} no member does. {_SILENT} a member is silent: it")
    say(f"receives nothing although records wait. {_BUSY} it is busy with one record.")
    found = []
    for row in rows(change):
        click.echo()
        click.secho(f"{row.strategy.name}, {kind(row.strategy)} ({row.strategy.assignor})", bold=True)
        click.echo(textwrap.fill(row.strategy.how, _COLUMNS))
        for line in _picture(row):
            click.echo(line)
        click.echo(textwrap.fill(sentence(row), _COLUMNS))
        found.append(row)
    click.echo()
    click.secho(textwrap.fill(f"Conclusion: {conclusion(found)}", _COLUMNS), bold=True)


def _picture(row: "Row") -> Iterator[str]:
    """Partitions, members and waiting records as lines; a character stands for _COLUMN_MS."""
    from kafka_zk.sim.strategies.play import AFTER_MS, BEFORE_MS, PARTITION_COUNT

    cost, times = row.cost, range(-BEFORE_MS, AFTER_MS, _COLUMN_MS)
    mark = BEFORE_MS // _COLUMN_MS
    yield f"{'':<{_LABEL_WIDTH}}{'':<{mark}}|0 s{f'{AFTER_MS // 1000} s|':>{len(times) - mark - 4}}"
    for partition in range(PARTITION_COUNT):
        yield _line(f"{partition:>3}", "".join(_reader(cost, partition, time_ms) for time_ms in times))
    for lane in cost.lanes:
        spans = [(_BUSY, lane.busy), (_SILENT, lane.silences), (lane.member[0], [(lane.from_ms, lane.to_ms)])]
        yield _line(lane.member, "".join(_state(spans, time_ms) for time_ms in times))
    most = max(1, *cost.waiting)
    levels = "".join(_LEVELS[round(_waiting(cost, time_ms) / most * (len(_LEVELS) - 1))] for time_ms in times)
    yield f"{'waiting':<{_LABEL_WIDTH}}{levels} up to {max(cost.waiting)}"


def _reader(cost: "Measured", partition: int, time_ms: int) -> str:
    """The initial of the member that reads the partition in this column; _UNREAD if no member reads it for part of the
    column."""
    shares = {"": 0}
    for each in cost.owned:
        if each.partition == partition:
            shares[each.member] = shares.get(each.member, 0) + _overlap_ms(each.from_ms, each.to_ms, time_ms)
    longest = max(shares, key=lambda member: shares[member])
    return longest[0] if sum(shares.values()) == _COLUMN_MS and longest else _UNREAD


def _state(spans: Sequence[tuple[str, Sequence[tuple[int, int]]]], time_ms: int) -> str:
    for letter, times in spans:
        if any(_overlap_ms(from_ms, to_ms, time_ms) for from_ms, to_ms in times):
            return letter
    return " "


def _overlap_ms(from_ms: int, to_ms: int, time_ms: int) -> int:
    return max(0, min(to_ms, time_ms + _COLUMN_MS) - max(from_ms, time_ms))


def _waiting(cost: "Measured", time_ms: int) -> int:
    from kafka_zk.sim.strategies.measured import COUNT_EVERY_MS
    from kafka_zk.sim.strategies.play import BEFORE_MS

    return cost.waiting[(time_ms + BEFORE_MS) // COUNT_EVERY_MS]


def _line(label: str, cells: str) -> str:
    colored = "".join(click.style(cell, fg=_COLORS[cell]) if cell in _COLORS else cell for cell in cells)
    return f"{label:<{_LABEL_WIDTH}}{colored}"

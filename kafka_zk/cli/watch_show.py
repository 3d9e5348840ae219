"""The output of ``kafka-zk watch``: lines for a pipe, a live screen for a terminal, JSON for programs."""

import json
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

import click

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.groups.group_lag import LagMeter
from kafka_zk.recorder.timeline.lines import RebalanceLines, StepLines
from kafka_zk.recorder.timeline.members_now import MemberNow, MembersNow
from kafka_zk.recorder.timeline.names import listed, short_name
from kafka_zk.recorder.timeline.picture import began_ms, picture
from kafka_zk.recorder.timeline.timeline import Timeline, document

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH_IN_A_PIPE = 100
_UNDER_THE_TEXT = " " * 10  # indentation of continued lines, after the time of day
_PICTURED_MS = 60_000  # time span of the live screen's picture
_DRAWN_EVERY_MS = 500
_SCREEN_SHARE = 0.6  # share of the terminal's height


class Show(Protocol):
    def tell(self, now_ms: int) -> None:
        """Show events that are due."""

    def close(self) -> None:
        """Show the remaining events."""


class JsonLines:
    """Every event and rebalance as a JSON object on a line."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def tell(self, now_ms: int | None) -> None:
        for told in self._timeline.due(now_ms):
            click.echo(json.dumps(document(told)))
        sys.stdout.flush()

    def close(self) -> None:
        self.tell(None)


class TextLines:
    def __init__(self, group: str, timeline: Timeline, *, verbose: bool) -> None:
        self._group = group
        self._timeline = timeline
        self._lines = (StepLines if verbose else RebalanceLines)(group, timeline)

    def tell(self, now_ms: int | None) -> None:
        for line in self._lines.lines(now_ms):
            click.echo(line)
        sys.stdout.flush()

    def close(self) -> None:
        self.tell(None)
        for line in whole_picture(self._group, self._timeline, shutil.get_terminal_size((WIDTH_IN_A_PIPE, 24)).columns):
            click.echo(line)
        sys.stdout.flush()


class LiveScreen:
    """Lines scroll above the members, their partitions and a picture of the last minute."""

    def __init__(self, group: str, timeline: Timeline, lag: LagMeter, *, verbose: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        self._group = group
        self._timeline = timeline
        self._lag = lag
        self._lines = (StepLines if verbose else RebalanceLines)(group, timeline)
        self._members = MembersNow(group, timeline.rebalances)
        timeline.listeners.append(self._members.add)
        self._console = Console(highlight=False, markup=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._drawn_ms = 0
        self._live.start()

    def tell(self, now_ms: int) -> None:
        self._print(self._lines.lines(now_ms))
        self._lag.poll(self._timeline.rebalances.deliveries.by)
        if now_ms >= self._drawn_ms + _DRAWN_EVERY_MS:
            self._drawn_ms = now_ms
            self._live.update(self._screen(now_ms), refresh=True)

    def close(self) -> None:
        self._lag.close()
        self._live.stop()
        self._print(self._lines.lines())
        self._print(whole_picture(self._group, self._timeline, self._console.width))

    def _print(self, lines: Iterator[str]) -> None:
        for line in lines:
            for part in textwrap.wrap(
                line, self._console.width, subsequent_indent=_UNDER_THE_TEXT, drop_whitespace=False
            ):
                self._console.print(part.rstrip(), soft_wrap=True)

    def _screen(self, now_ms: int) -> "RenderableType":
        from rich.console import Group
        from rich.rule import Rule
        from rich.text import Text

        history = self._timeline.rebalances.deliveries.history
        rows = int(self._console.height * _SCREEN_SHARE) - len(self._timeline.rebalances.members)
        pictured = dict(sorted(history.items())[: max(0, rows)])
        from_ms = max(now_ms - _PICTURED_MS, began_ms(history) or now_ms)
        lines = picture(self._group, pictured, from_ms, now_ms, self._console.width)
        return Group(
            Rule(f"group {self._group}", style="dim"),
            members_table(self._group, self._members.rows(), self._lag.lag, now_ms),
            *(Text(line, no_wrap=True, overflow="ellipsis") for line in lines),
        )


def members_table(
    group: str, rows: list[MemberNow], lag: Mapping[TopicPartition, int], now_ms: int
) -> "RenderableType":
    """A row per member; long cells end in an ellipsis."""
    from rich.table import Table

    if not rows:
        return "this group has no members yet"
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("MEMBER", no_wrap=True, overflow="ellipsis")
    table.add_column("PARTITIONS", no_wrap=True, overflow="ellipsis", ratio=2)
    table.add_column("LAG", no_wrap=True, justify="right")
    table.add_column("LAST EVENT", no_wrap=True, overflow="ellipsis", ratio=3)
    for row in rows:
        known = [lag[tp] for tp in row.partitions if tp in lag]
        last = f"{(now_ms - row.last.time_ms) // 1000} s ago: {row.last.sentence}" if row.last else ""
        cells = (short_name(group, row.member), listed(row.partitions), f"{sum(known):,}" if known else "-", last)
        table.add_row(*cells)
    return table


def whole_picture(group: str, timeline: Timeline, width: int) -> Iterator[str]:
    history = timeline.rebalances.deliveries.history
    first_ms = began_ms(history)
    if first_ms is not None:
        yield ""
        yield from picture(group, history, first_ms, int(time.time() * 1000), width)

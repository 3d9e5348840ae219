"""Output of commands: tables for people, JSON for programs, notes on stderr."""

import contextlib
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import click

from kafka_zk.cli.terminal import table
from kafka_zk.cli.terminal.waiting import stderr_columns, told, wrapped


def print_json(value: Any) -> None:
    told()
    click.echo(json.dumps(value, ensure_ascii=False, default=str))
    sys.stdout.flush()


_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)


@contextlib.contextmanager
def collected_notes() -> Iterator[list[str]]:
    """In the block, notes of this thread are added to the list instead of being printed."""
    notes: list[str] = []
    token = _collected.set(notes)
    try:
        yield notes
    finally:
        _collected.reset(token)


def note(text: str) -> None:
    if (collected := _collected.get()) is not None:
        collected.append(text)
        return
    told()
    for line in wrapped(text, stderr_columns()):
        click.echo(line, err=True)


def say(line: str, joint: str = "") -> None:
    """Print and flush a line of the result. On a terminal it is wrapped, with ``joint`` after each part but the last.
    """
    told()
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    parts = wrapped(line, columns and columns - len(joint))
    for part in parts[:-1]:
        click.echo(part + joint)
    click.echo(parts[-1])
    sys.stdout.flush()


def print_table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print aligned plain columns in a pipe; on a terminal, fit the table to its width, with bold headers."""
    told()
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    if not sys.stdout.isatty():
        for line in table.plain(columns, cells):
            click.echo(line)
        return
    layout = table.fitted(columns, cells, shutil.get_terminal_size().columns)
    for line in layout.above:
        click.echo(line)
    for line in layout.header:
        click.secho(line, bold=True)
    for line in layout.rows:
        click.echo(line)
    if layout.left_out:
        note(f"Columns that do not fit: {', '.join(layout.left_out)}. A pipe, --json or a wider terminal shows all.")


def print_rows(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(list(rows))
    else:
        print_table(columns, rows)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    if isinstance(value, Mapping):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return str(value)

"""``kafka-zk dump-log``: the contents of the files of a log directory."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import json_option

KNOWN_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
CHECKPOINT_SUFFIX = "-checkpoint"


@click.command("dump-log", short_help="Show the contents of segment and index files.")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--files", help="Comma-separated files, as for Kafka's tool.")
@click.option("--deep-iteration", "records", is_flag=True, help="Also every record of each batch.")
@click.option("--print-data-log", "data", is_flag=True, help="Also keys and values; implies --deep-iteration.")
@click.option("--verify", is_flag=True, help="Check CRCs, offsets and indexes; exit code 1 if anything is wrong.")
@json_option
def command(paths: tuple[Path, ...], files: str | None, records: bool, data: bool, verify: bool, as_json: bool) -> None:
    """Show segments (every field of each batch header), indexes, producer snapshots and checkpoints.

    PATHS are files, or folders whose files are all shown. Fields have the names of kafka.tools.DumpLogSegments.

    \b
    kafka-zk dump-log ./cluster/broker-0/data/t-0
    kafka-zk dump-log --verify --json 00000000000000000000.log
    """
    from kafka_zk.storage.manager.dump import dump_file

    given = [*paths, *(Path(name) for name in (files or "").split(",") if name)]
    if not given:
        raise click.UsageError("give at least one file or folder")
    problem_count = 0
    opened = False
    for path in _files(given):
        try:
            rows = dump_file(path, records=records or data, verify=verify)
            for text, is_problem in _rendered(path, rows, data, as_json, opened):
                problem_count += is_problem
                click.echo(text, nl=not as_json)
        except ValueError as error:
            raise CommandFailed(str(error)) from None
        opened = True
    if as_json:
        click.echo("]" if opened else "[]")
    if verify and problem_count:
        raise CommandFailed(f"{problem_count} problem{'s' if problem_count > 1 else ''} found")


def _files(given: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in given:
        if path.is_dir():
            inside = [each for each in sorted(path.rglob("*")) if each.is_file() and _known(each.name)]
            if not inside:
                raise CommandFailed(f"{path} has no segment, index or checkpoint files")
            found += inside
        else:
            found.append(path)
    return found


def _known(name: str) -> bool:
    return name.endswith((*KNOWN_SUFFIXES, CHECKPOINT_SUFFIX))


def _rendered(
    path: Path, rows: Iterator[Mapping[str, Any]], data: bool, as_json: bool, opened: bool
) -> Iterator[tuple[str, bool]]:
    """Yield (text, whether it reports a problem)."""
    if as_json:
        yield ("," if opened else "[") + f'{{"file": {json.dumps(str(path))}, "rows": [', False
        separator = ""
        for row in rows:
            yield separator + json.dumps(_shown(row, data), ensure_ascii=False), "problem" in row
            separator = ","
        yield "]}", False
        return
    yield f"Dumping {path}", False
    for row in rows:
        prefix = "| " if "keySize" in row else ""
        text = " ".join(f"{key}: {_text(value)}" for key, value in _shown(row, data).items() if value is not None)
        yield prefix + (click.style(text, fg="red") if "problem" in row else text), "problem" in row


def _shown(row: Mapping[str, Any], data: bool) -> dict[str, Any]:
    hidden = () if data else ("key", "payload", "headers")
    return {key: _plain(value) for key, value in row.items() if key not in hidden}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        text = bytes(value).decode(errors="replace")
        return text if "\ufffd" not in text else f"0x{bytes(value).hex()}"
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ",".join(_text(item) for item in value) + "]"
    return str(value)

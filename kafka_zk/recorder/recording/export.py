"""Exports a part of a recording."""

import json
from collections.abc import Iterator
from pathlib import Path

from kafka_zk.recorder.recording.entries import COLUMNS, FIRST, SHOWN
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.recording.znode_history import put_checkpoint

ROWS_AT_ONCE = 1_000
_SELECT = f"select {SHOWN} from entries where seq"
_INSERT = f"insert into entries ({COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def export(recording: Recording, path: Path, first: int, last: int) -> Iterator[None]:
    """Write a new file with the entries from ``first`` to ``last``, the znodes before ``first``, and earlier entries
    that complete the state then.

    It yields after each part of bounded size; the recording may grow until the next one.

    Raises: OSError, also if the recording drops its entry ``first`` during the export, in this process or another one;
        sqlite3.Error.
    """
    begin, end = recording.entries.entry(first), recording.entries.entry(last)
    part = Recording(path)
    try:
        with part.database as target:
            put_checkpoint(target, first - 1, recording.znodes.after(first - 1))
            older = (json.dumps(sorted(recording.in_force(first - 1))),)
            rows = recording.database.execute(f"{_SELECT} in (select value from json_each(?))", older)
            target.executemany(_INSERT, rows)
            target.execute("insert into meta values (?, ?)", (FIRST, str(first)))
            for at in range(first, last + 1, ROWS_AT_ONCE):
                until = min(last, at + ROWS_AT_ONCE - 1)
                rows = recording.database.execute(f"{_SELECT} between ? and ?", (at, until))
                target.executemany(_INSERT, rows)
                yield
                _check(recording, first)
            if begin is not None and end is not None:
                spans = recording.spans.rows(begin.time_ms, end.time_ms)
                target.executemany("insert into spans values (?, ?, ?, ?, ?, ?, ?)", spans)
                samples = recording.samples.rows(begin.time_ms, end.time_ms)
                target.executemany("insert into samples values (?, ?, ?)", samples)
            target.executemany("insert or replace into meta values (?, ?)", recording.notes().items())
            _check(recording, first)
    finally:
        part.close()


def _check(recording: Recording, first: int) -> None:
    if recording.entries.first > first:
        raise OSError("its beginning was dropped meanwhile; save a later part")

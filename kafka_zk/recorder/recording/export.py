"""Exports a part of a recording."""

from pathlib import Path

from kafka_zk.recorder.recording.entries import COLUMNS, SHOWN
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.recording.znode_history import put_checkpoint


def export(recording: Recording, path: Path, first: int, last: int) -> None:
    """Write a new file with the entries from ``first`` to ``last``, and the znodes before ``first``.

    Raises: OSError, sqlite3.Error.
    """
    begin, end = recording.entries.entry(first), recording.entries.entry(last)
    znodes = recording.znodes.after(first - 1)
    part = Recording(path)
    try:
        with part.database as target:
            put_checkpoint(target, first - 1, znodes)
            rows = recording.database.execute(
                f"select {SHOWN} from entries where seq between ? and ?", (first, last)
            )
            target.executemany(f"insert into entries ({COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            if begin is not None and end is not None:
                spans = recording.spans.rows(begin.time_ms, end.time_ms)
                target.executemany("insert into spans values (?, ?, ?, ?, ?, ?, ?)", spans)
                samples = recording.samples.rows(begin.time_ms, end.time_ms)
                target.executemany("insert into samples values (?, ?, ?)", samples)
            target.executemany("insert or replace into meta values (?, ?)", recording.notes().items())
    finally:
        part.close()

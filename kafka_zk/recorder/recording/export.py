"""Exports a part of a recording."""

from collections.abc import Iterator
from pathlib import Path

from kafka_zk.recorder.recording.entries import COLUMNS, SHOWN
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.recording.znode_history import put_checkpoint

ROWS_AT_ONCE = 1_000


def export(recording: Recording, path: Path, first: int, last: int) -> Iterator[None]:
    """Write a new file with the entries from ``first`` to ``last``, and the znodes before ``first``.

    It yields after each part of bounded size; the recording may grow until the next one.

    Raises: OSError, also if the recording drops its entry ``first`` during the export; sqlite3.Error.
    """
    begin, end = recording.entries.entry(first), recording.entries.entry(last)
    part = Recording(path)
    try:
        with part.database as target:
            put_checkpoint(target, first - 1, recording.znodes.after(first - 1))
            for at in range(first, last + 1, ROWS_AT_ONCE):
                rows = recording.database.execute(
                    f"select {SHOWN} from entries where seq between ? and ?", (at, min(last, at + ROWS_AT_ONCE - 1))
                )  # fmt: skip
                target.executemany(f"insert into entries ({COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
                yield
                if recording.entries.first > first:
                    raise OSError("its beginning was dropped from memory meanwhile; save a later part")
            if begin is not None and end is not None:
                spans = recording.spans.rows(begin.time_ms, end.time_ms)
                target.executemany("insert into spans values (?, ?, ?, ?, ?, ?, ?)", spans)
                samples = recording.samples.rows(begin.time_ms, end.time_ms)
                target.executemany("insert into samples values (?, ?, ?)", samples)
            target.executemany("insert or replace into meta values (?, ?)", recording.notes().items())
    finally:
        part.close()

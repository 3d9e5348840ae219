"""The SQLite database of a recording, in a file or in memory."""

import sqlite3
import struct
from contextlib import closing
from os import SEEK_END
from pathlib import Path

from kafka_zk.recorder.recording import documents, entries, samples, spans, znode_history
from kafka_zk.recorder.recording.errors import NoRecording

VERSION = 1
_MAGIC = b"SQLite format 3\0"
_HEADER = struct.Struct(">16sH6xII60xI")
_OPCODES_BETWEEN_SIGNALS = 1_000_000
"""SQLite operations between two checks for signals; without them, Ctrl-C would wait for the end of a query."""
_LONGEST_WAIT_MS = 1_000
"""Maximum time that a write waits for another process that reads. The reactor is blocked during this time."""
_META = "meta"
_SCHEMA = "".join((
    f"create table if not exists {_META} (key text primary key, value text);",
    entries.SCHEMA, znode_history.SCHEMA, spans.SCHEMA, samples.SCHEMA,
))  # fmt: skip


def open_database(path: Path | None, *, read_only: bool) -> sqlite3.Connection:
    """A missing recording is created, unless ``read_only``. Raises NoRecording."""
    if read_only and path is not None and not path.is_file():
        raise NoRecording(f"{path} does not exist")
    if read_only and path is not None:
        _undo_interrupted_write(path)
    name = ":memory:" if path is None else f"{path.absolute().as_uri()}?mode=ro" if read_only else str(path)
    try:
        database = sqlite3.connect(name, uri=read_only)
        database.create_function("without_secrets", 2, documents.without_secrets, deterministic=True)
    except sqlite3.Error as error:
        raise NoRecording(f"{path} cannot be opened: {error}") from error
    foreign: set[str] = set()
    try:
        if read_only and path is not None:
            _check_whole(path)
            database.execute("pragma trusted_schema = off")  # the file may come from anywhere
            database.set_progress_handler(lambda: 0, _OPCODES_BETWEEN_SIGNALS)
            foreign = _foreign_tables(database)
            if _META in foreign:
                raise _not_ours(path, foreign)
        if not read_only:
            database.executescript(_SCHEMA)
            database.execute("insert or ignore into meta values ('version', ?)", (str(VERSION),))
            database.commit()
            database.execute("pragma synchronous = off")
            database.execute(f"pragma busy_timeout = {_LONGEST_WAIT_MS}")
        (version,) = database.execute("select value from meta where key = 'version'").fetchone() or ("?",)
    except NoRecording:
        database.close()
        raise
    except sqlite3.DatabaseError as error:
        database.close()
        raise NoRecording(f"{path} is not a recording: {error}") from error
    if version != str(VERSION):
        database.close()
        raise NoRecording(f"{path} is a recording of version {version}; this program reads version {VERSION}")
    if foreign:
        database.close()
        raise _not_ours(path, foreign)
    return database


def _undo_interrupted_write(path: Path) -> None:
    """Apply the journal of a killed recorder, for which SQLite needs write access. Raises NoRecording."""
    if not path.with_name(f"{path.name}-journal").is_file():
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as database:
            database.execute("select name from sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise NoRecording(
            f"{path} cannot be opened: its recorder is writing, or was killed and left {path.name}-journal, which must "
            f"be applied where the file may be written ({error})"
        ) from error


def _foreign_tables(database: sqlite3.Connection) -> set[str]:
    """The names of tables, views, indexes and triggers that this version does not create. Someone else made them: for
    example, a view in the place of a table may be a recursive query that never ends."""
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(_SCHEMA)
        known = _tables(empty)
    return {name for _, name, _ in _tables(database) - known}


def _not_ours(path: Path | None, foreign: set[str]) -> NoRecording:
    return NoRecording(f"{path} has tables that a recording does not have: {', '.join(sorted(foreign))}")


def _tables(database: sqlite3.Connection) -> set[tuple[str, str, str | None]]:
    """Type, name and SQL of each table, index, view and trigger."""
    return set(database.execute("select type, name, sql from sqlite_master"))


def _check_whole(path: Path) -> None:
    """Raises NoRecording if the file is cut off: such a copy may open, and fail later.

    Source: https://sqlite.org/fileformat2.html, "The Database Header": page size, change counter, number of pages.
    """
    with path.open("rb") as file:
        header = file.read(_HEADER.size)
        size_bytes = file.seek(0, SEEK_END)
    if len(header) < _HEADER.size or not header.startswith(_MAGIC):
        return  # opening it reports what is wrong
    page_bytes, changes, page_count, changes_then = _HEADER.unpack(header)[1:]
    expected_bytes = (65_536 if page_bytes == 1 else page_bytes) * page_count
    if changes == changes_then and size_bytes < expected_bytes:
        raise NoRecording(f"{path} is cut off: it has {size_bytes} of {expected_bytes} bytes; copy it again")


def used_bytes(database: sqlite3.Connection) -> int:
    sizes = [database.execute(f"pragma {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count")]
    return int(sizes[0] * (sizes[1] - sizes[2]))

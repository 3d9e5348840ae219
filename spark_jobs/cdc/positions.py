"""The position of a change in its database, read from a Debezium record.

    connector         position               source
    postgresql        (lsn,)                 ``lsn``; null in incremental snapshots, whose ``sequence[1]`` has it
    mariadb, mysql    (file, pos, row)       the number at the end of ``file``, ``pos``, ``row``

``ts_ms`` is never a position, because all events of one transaction share it. Source: recordings of Debezium 3.5.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from kafka_zk.spark_jobs.cdc.changes import Position
from kafka_zk.spark_jobs.errors import ChangeRefused

_POSTGRESQL = "postgresql"
_BINLOG = ("mariadb", "mysql")
_FILE_NUMBER = re.compile(r"\.(\d+)$", re.ASCII)


def of_source(source: Mapping[str, Any]) -> Position:
    """``source``: the envelope's field ``source``. Raises ChangeRefused."""
    connector = source.get("connector")
    if connector == _POSTGRESQL:
        return _lsn(source.get("lsn"), source.get("sequence"))
    if connector in _BINLOG:
        return _binlog(source.get("file"), source.get("pos"), source.get("row"))
    raise ChangeRefused(
        f"changes of the connector {connector} have no known order; only those of {_POSTGRESQL}, "
        f"{' and '.join(_BINLOG)} have one"
    )


def of_unwrapped(row: Mapping[str, Any]) -> Position:
    """The position in the fields that ``add.fields`` added; ``()`` without them. Raises ChangeRefused."""
    found = {name.removeprefix("__").removeprefix("source_"): value for name, value in row.items() if name[:2] == "__"}
    if "lsn" in found:
        return _lsn(found["lsn"], found.get("sequence"))
    if "file" in found and "pos" in found:
        return _binlog(found["file"], found["pos"], found.get("row"))
    return ()


def _lsn(lsn: Any, sequence: Any) -> Position:
    if _is_count(lsn):
        return (lsn,)
    try:
        return (int(json.loads(sequence)[1]),)
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise ChangeRefused(
            "a change of PostgreSQL has neither an lsn nor a sequence: set "
            "add.fields=op,lsn,source.sequence in the connector's transform"
        ) from error


def _binlog(file: Any, pos: Any, row: Any) -> Position:
    number = _FILE_NUMBER.search(file) if isinstance(file, str) else None
    if number is None or not _is_count(pos) or not (row is None or _is_count(row)):
        raise ChangeRefused(f"a change has no position in a binlog: file {file!r}, pos {pos!r}, row {row!r}")
    return (int(number[1]), pos, row or 0)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0

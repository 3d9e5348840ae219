"""The values that the reader of any table format returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kafka_zk.spark_jobs.audit.data_files import Columns, DataFile


class ColumnChoice(NamedTuple):
    """The columns that the user named; None for a column that must be recognized by its name."""

    topic: str | None = None
    partition: str | None = None
    offset: str | None = None


class Removed(NamedTuple):
    """``commit`` removed ``file`` from the table."""

    file: DataFile
    commit: str


@dataclass(frozen=True, slots=True)
class History:
    """The part of its history that a table still has. ``added``: the commits that added files, by path."""

    added: Mapping[str, str] = field(default_factory=dict)
    removed: Sequence[Removed] = ()


class Table(Protocol):
    """``name``: the table's name in SQL, empty if it has none. ``file_columns``: ``columns`` as the files name them.
    ``field_ids``: the columns' ids by TOPIC, PARTITION and OFFSET; they take precedence over names. ``not_checked``:
    sentences about features that the audit does not understand.
    """

    format: str
    name: str
    columns: Columns
    file_columns: Columns
    field_ids: Mapping[str, int]
    files: Sequence[DataFile]
    not_checked: Sequence[str]

    def history(self) -> History:
        """The table's history, which needs further reads. Raises AuditFailed, OSError."""
        ...

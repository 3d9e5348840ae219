"""What a reader of a table format returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kafka_zk.spark_jobs.audit.data_files import Columns, DataFile


class ColumnChoice(NamedTuple):
    """The columns that the user named; None: to be recognized by their names."""

    topic: str | None = None
    partition: str | None = None
    offset: str | None = None


class Removed(NamedTuple):
    """``commit`` removed ``file`` from the table."""

    file: DataFile
    commit: str


@dataclass(frozen=True, slots=True)
class History:
    """As far as the table still knows it. ``added``: the commits that added files, by path."""

    added: Mapping[str, str] = field(default_factory=dict)
    removed: Sequence[Removed] = ()


class Table(Protocol):
    """``name``: in SQL, empty without SQL. ``file_columns``: ``columns`` as the files name them. ``not_checked``:
    sentences about what is not understood.
    """

    format: str
    name: str
    columns: Columns
    file_columns: Columns
    files: Sequence[DataFile]
    not_checked: Sequence[str]

    def history(self) -> History:
        """Reads more than ``files`` needed. Raises AuditFailed, OSError."""
        ...

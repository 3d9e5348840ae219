"""Finds the offsets in the files of a table: from statistics, or from rows where the statistics disagree or overlap."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.audit import file_rows, offset_runs
from kafka_zk.spark_jobs.audit.data_files import DataFile, dense_run
from kafka_zk.spark_jobs.audit.file_rows import FileRows, FileUnreadable
from kafka_zk.spark_jobs.audit.offset_runs import Judged, Offsets
from kafka_zk.spark_jobs.audit.stored_files import StoredFiles
from kafka_zk.spark_jobs.audit.table import Table
from kafka_zk.spark_jobs.errors import AuditFailed

ForEach = Callable[[Callable[[int], FileRows], Sequence[int]], Iterable[FileRows]]
"""Like ``map``: returns the results in order, but may read several files in parallel."""
_MOST_RUNS = 10_000_000
"""Maximum number of runs; they take about 1 GB of memory."""


class TableRows:
    """``files``: the table's files that exist, each once; a file's number is its index. ``topic``: only rows of this
    topic count, or all rows if the table has no topic column; empty: all topics. ``read_all``: no statistics are
    trusted. ``unreadable``: damaged files by number, with the reason.

    Raises AuditFailed, OSError.
    """

    def __init__(
        self, stored: StoredFiles, table: Table, files: Sequence[DataFile], topic: str, read_all: bool,
        for_each: ForEach,
    ) -> None:  # fmt: skip
        self._stored = stored
        self._for_each = for_each
        self._columns = table.file_columns
        self._ids = table.field_ids
        self.files = files
        self._topic = topic
        self._only_topic = topic if table.columns.topic is None else None
        self.found: dict[int, FileRows] = {}
        self.read: set[int] = set()
        self.unreadable: dict[int, str] = {}
        self._read(list(self._not_dense()) if not read_all else range(len(files)), read_all)
        self.judged = self._judge()
        overlapping = {number for each in self.judged.values() for pair in each.overlaps for number in pair[2:]}
        if unread := sorted(overlapping - self.read):
            self._read(unread, True)
            self.judged = self._judge()

    @property
    def without_place(self) -> int:
        return sum(each.without_place for each in self.found.values())

    @property
    def row_count(self) -> int:
        return sum(each.row_count for each in self.found.values())

    @property
    def by_bounds_count(self) -> int:
        """Number of files with offsets that are known only from statistics."""
        return sum(not all(piece.is_read for piece in each.pieces) for each in self.found.values())

    def row_count_of(self, number: int) -> int:
        return self.found[number].row_count

    def _not_dense(self) -> Iterator[int]:
        for number, file in enumerate(self.files):
            run = dense_run(file.row_count, file.bounds, file.fixed, self._only_topic)
            if run is None or file.row_count is None:
                yield number
            else:
                self.found[number] = FileRows([file_rows.of_run(*run)], file.row_count, 0)

    def _read(self, numbers: Sequence[int], read_all: bool) -> None:
        def one(number: int) -> FileRows:
            file = self.files[number]
            try:
                return file_rows.read(self._stored, file, self._columns, self._ids, self._only_topic, read_all)
            except FileUnreadable as error:
                self.unreadable[number] = str(error)
                return FileRows([], 0, 0)

        run_count = 0
        for number, found in zip(numbers, self._for_each(one, numbers), strict=True):
            self.found[number] = found
            run_count += sum(piece.firsts.size for piece in found.pieces)
            if found.row_count and all(piece.is_read for piece in found.pieces):
                self.read.add(number)
            if run_count > _MOST_RUNS:
                raise AuditFailed(
                    f"the files have more than {_MOST_RUNS:,} runs of offsets, too many to hold in memory: they have "
                    "gaps everywhere, or their rows were clustered by another column (--topic audits one topic)"
                )

    def _judge(self) -> Mapping[TopicPartition, Judged]:
        pieces: dict[TopicPartition, list[tuple[int, Offsets, Offsets]]] = {}
        for number, found in sorted(self.found.items()):
            for each in found.pieces:
                if not self._topic or each.tp.topic == self._topic:
                    pieces.setdefault(each.tp, []).append((number, each.firsts, each.lasts))
        return {tp: offset_runs.judge(offset_runs.joined(pieces[tp])) for tp in sorted(pieces)}

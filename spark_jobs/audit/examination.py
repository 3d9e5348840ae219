"""``kafka-zk lake audit``: finds gaps, duplicates and faulty files of one table, and compares it with the topic if the
topic is known.

Only append-only tables can be judged, because a row that was merged or deleted looks like a gap.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.audit import iceberg_table, repairs
from kafka_zk.spark_jobs.audit.data_files import DataFile, dense_run
from kafka_zk.spark_jobs.audit.delta_table import LOG, DeltaTable
from kafka_zk.spark_jobs.audit.findings import Finding, Kind, PartitionRow, Report
from kafka_zk.spark_jobs.audit.iceberg_table import IcebergTable
from kafka_zk.spark_jobs.audit.offset_runs import Gaps, Judged, Offsets, Overlap
from kafka_zk.spark_jobs.audit.parquet_folder import ParquetFolder
from kafka_zk.spark_jobs.audit.stored_files import StoredFiles
from kafka_zk.spark_jobs.audit.table import ColumnChoice, History, Removed, Table
from kafka_zk.spark_jobs.audit.table_rows import ForEach, TableRows
from kafka_zk.spark_jobs.errors import AuditFailed

if TYPE_CHECKING:
    from kafka_zk.spark_jobs.audit.topic_log import LogBounds, TopicLog

_MOST_DESCRIBED = 1_000
"""Findings of one kind that a report describes."""


class AuditRequest(NamedTuple):
    """``topic``: empty for all topics in the table. ``from_earliest``: the table should begin where the topic does.
    ``read_all``: read the offsets of every file.
    """

    address: str
    choice: ColumnChoice = ColumnChoice()
    topic: str = ""
    from_earliest: bool = False
    read_all: bool = False


def examine(request: AuditRequest, log: "TopicLog | None", for_each: ForEach = map) -> Report:
    """``for_each``: the function that reads files. Raises AuditFailed, FetchFailed, AuthenticationError, OSError."""
    stored = StoredFiles(request.address)
    table = opened(stored, request)
    if table.columns.topic is None and not request.topic:
        raise AuditFailed("no column is known to hold the topic: give --topic-column, or the topic itself with --topic")
    return _Examination(request, stored, table, log, for_each).report()


def opened(stored: StoredFiles, request: AuditRequest) -> Table:
    """Open the Delta table, Iceberg table or folder of Parquet files that is found there. Delta is tried first, because
    a Delta table may also have Iceberg metadata (UniForm), which lag behind the Delta log. Raises AuditFailed, OSError.
    """
    with _understood(request.address):
        if any(True for _ in stored.listed(f"{stored.root}/{LOG}")):
            place = request.address.partition("?")[0] if "://" in request.address else stored.root
            return DeltaTable(stored, request.choice, place)
        if (path := iceberg_table.metadata_file(stored)) is not None:
            return IcebergTable(stored, path, request.choice)
        return ParquetFolder(stored, request.choice)


@contextmanager
def _understood(address: str) -> Iterator[None]:
    """Raise AuditFailed for malformed metadata, in which values are missing or have the wrong type."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AuditFailed(f"the metadata of {address} are not understood: {type(error).__name__} {error}") from error


class _Gone:
    """Files of one partition that are no longer in the table, with their offsets where statistics give them."""

    def __init__(self, removed: Sequence[Removed], tp: TopicPartition, only_topic: str | None) -> None:
        self._removed: list[Removed] = []
        runs = []
        for each in removed:
            run = dense_run(each.file.row_count, each.file.bounds, each.file.fixed, only_topic)
            if run is not None and run.tp == tp:
                self._removed.append(each)
                runs.append((run.first, run.last))
        self._firsts, self._lasts = np.array(runs, np.int64).reshape(-1, 2).T

    def holding(self, first: int, last: int) -> list[Removed]:
        """The removed files that had any of these offsets."""
        found = np.flatnonzero((self._firsts <= last) & (first <= self._lasts))
        return [self._removed[at] for at in found]


class _Examination:
    def __init__(
        self, request: AuditRequest, stored: StoredFiles, table: Table, log: "TopicLog | None", for_each: ForEach
    ) -> None:  # fmt: skip
        self._asked = request
        self._table = table
        self._only_topic = request.topic if table.columns.topic is None else None
        self._log = log
        self._servers = repairs.SERVERS if log is None else log.bootstrap_servers
        self._not_checked = list(table.not_checked)
        self._findings: list[Finding] = []
        self._counts: Counter[Kind] = Counter()
        self._lost: list[Removed] = []
        self._absent_topics: frozenset[str] = frozenset()
        there = self._intact(stored)
        self._rows = TableRows(stored, table, there, request.topic, request.read_all, for_each)
        for number, reason in sorted(self._rows.unreadable.items()):
            self._damaged(there[number], f"cannot be read: {reason}")
        self._history = History()
        if self._counts or any(each.overlaps or each.gaps.firsts.size for each in self._rows.judged.values()):
            with _understood(request.address):
                self._history = table.history()

    def report(self) -> Report:
        judged = self._rows.judged
        bounds = self._bounds()
        partitions = []
        for tp, each in judged.items():
            self._overlaps(each.overlaps, tp)
            missing = self._gaps(tp, each, bounds.get(tp))
            known = bounds.get(tp)
            partitions.append(
                PartitionRow(
                    *tp, each.first, each.last, each.rows, each.rows - each.distinct, missing,
                    known and known.start, known and known.end,
                )
            )
        self._absent(bounds)
        if not judged:
            of = f" of topic {self._asked.topic}" if self._asked.topic else ""
            self._not_checked.append(f"the table has no rows{of}")
        if nulls := self._rows.without_place:
            self._add(Finding(Kind.NO_PLACE, f"{nulls:,} rows lack topic, partition or offset", count=nulls))
        kinds = list(Kind)
        findings = sorted(self._findings, key=lambda each: kinds.index(each.kind))
        left_out = {kind: count - _MOST_DESCRIBED for kind, count in self._counts.items() if count > _MOST_DESCRIBED}
        return Report(
            self._table.format, len(self._table.files), len(self._rows.read), self._rows.by_bounds_count,
            self._rows.row_count, partitions, findings, left_out, self._not_checked,
        )  # fmt: skip

    def _add(self, finding: Finding) -> None:
        self._counts[finding.kind] += 1
        if self._counts[finding.kind] <= _MOST_DESCRIBED:
            self._findings.append(finding)

    def _bounds(self) -> "Mapping[TopicPartition, LogBounds]":
        """The log bounds of the topics that exist; empty without a cluster."""
        if self._log is None:
            return {}
        topics = sorted({tp.topic for tp in self._rows.judged} | ({self._asked.topic} - {""}))
        found = self._log.bounds(topics)
        absent = [topic for topic in topics if topic not in {tp.topic for tp in found}]
        if self._asked.topic in absent:
            raise AuditFailed(f"topic {self._asked.topic} does not exist at {self._servers}")
        self._not_checked += [
            f"topic {topic} does not exist at {self._servers}, so gaps of its own look like lost records"
            for topic in absent
        ]
        self._absent_topics = frozenset(absent)
        return found

    # --- files

    def _intact(self, stored: StoredFiles) -> list[DataFile]:
        """The files that exist, each once; missing and repeated files become findings."""
        found: dict[str, DataFile] = {}
        for file in self._table.files:
            if file.path in found:
                self._twice(found[file.path], file)
            else:
                found[file.path] = file
        files = list(found.values())
        sizes = stored.sizes([file.path for file in files])
        intact = []
        for file, size in zip(files, sizes, strict=True):
            if size is None or file.size_bytes not in (None, size):
                is_other = "does not exist" if size is None else f"has {size:,} bytes, not {file.size_bytes:,}"
                self._damaged(file, is_other)
            else:
                intact.append(file)
        return intact

    def _twice(self, first: DataFile, again: DataFile) -> None:
        run = dense_run(first.row_count, first.bounds, first.fixed, self._only_topic)
        repair = repairs.keep_once(self._table.name, self._table.columns, *run) if run else ()
        tp, low, high = run or (None, None, None)
        commits = _known(first.commit, again.commit)
        said = f"{first.path} is listed more than once, so readers get each of its rows more than once"
        self._add(Finding(Kind.TWICE, said, tp, low, high, again.row_count, (first.path,), commits, repair))

    def _damaged(self, file: DataFile, said: str) -> None:
        run = dense_run(file.row_count, file.bounds, file.fixed, self._only_topic)
        tp, low, high = run or (None, None, None)
        repair = ("bring the file back from a copy, or remove it from the table and read its records again",)
        commits = _known(file.commit)
        self._lost.append(Removed(file, file.commit))
        self._add(
            Finding(Kind.FILE, f"{file.path} {said}", tp, low, high, file.row_count, (file.path,), commits, repair)
        )

    # --- duplicates

    def _overlaps(self, overlaps: Sequence[Overlap], tp: TopicPartition) -> None:
        room = max(0, _MOST_DESCRIBED - self._counts[Kind.DUPLICATE])
        self._counts[Kind.DUPLICATE] += len(overlaps[room:])
        for each in overlaps[:room]:
            files = [self._rows.files[number] for number in dict.fromkeys((each.other, each.file))]
            where = f"twice in {files[0].path}" if len(files) == 1 else f"in {files[0].path} and in {files[1].path}"
            self._add(
                Finding(
                    Kind.DUPLICATE, f"{_offsets(each.first, each.last)} of {tp} are {where}", tp, each.first, each.last,
                    each.last - each.first + 1, tuple(file.path for file in files),
                    _known(*(self._commit(file) for file in files)), self._once(tp, each),
                )
            )

    def _once(self, tp: TopicPartition, each: Overlap) -> tuple[str, ...]:
        if self._table.name:
            return repairs.keep_once(self._table.name, self._table.columns, tp, each.first, each.last)
        path = self._rows.files[each.file].path
        if each.file == each.other:
            return (f"rewrite {path} with each offset once",)
        if each.last - each.first + 1 == self._rows.row_count_of(each.file):
            return (f"remove {path}: all of its rows are also in {self._rows.files[each.other].path}",)
        return repairs.without_copies(path, self._table.columns, tp, each.first, each.last)

    def _commit(self, file: DataFile) -> str:
        return file.commit or self._history.added.get(file.path, "")

    # --- gaps

    def _gaps(self, tp: TopicPartition, judged: Judged, bounds: "LogBounds | None") -> int:
        """Returns the number of offsets that are missing."""
        gaps = judged.gaps
        if self._log is None:
            self._told(tp, gaps, (gaps.firsts, gaps.lasts), "are in no file")
            return int((gaps.lasts - gaps.firsts + 1).sum())
        if bounds is None:
            if tp.topic not in self._absent_topics:
                said = f"the table has offsets of {tp}, but the topic has no such partition: it was recreated"
                self._add(Finding(Kind.AHEAD, said, tp, judged.first, judged.last))
            return 0
        if judged.last >= bounds.end:
            self._ahead(tp, judged, bounds.end)
        firsts, lasts = gaps.firsts, gaps.lasts
        self._unknowable(tp, gaps, bounds)
        within = (lasts >= bounds.start) & (firsts < bounds.readable_end)
        request = (np.maximum(firsts[within], bounds.start), np.minimum(lasts[within], bounds.readable_end - 1))
        missing = self._log.missing(tp, request, judged.covered)
        if self._asked.from_earliest and judged.first > bounds.start:
            self._before(tp, judged, bounds)
        self._told(tp, gaps, missing, "are records of the topic, and in no file")
        return int((missing[1] - missing[0] + 1).sum())

    def _told(self, tp: TopicPartition, gaps: Gaps, missing: tuple[Offsets, Offsets], what: str) -> None:
        at = np.searchsorted(gaps.firsts, missing[0], side="right") - 1
        room = max(0, _MOST_DESCRIBED - self._counts[Kind.GAP])
        self._counts[Kind.GAP] += at.size
        gone = _Gone(self._lost, tp, self._only_topic), _Gone(self._history.removed, tp, self._only_topic)
        for first, last, index in zip(*(each[:room].tolist() for each in (*missing, at)), strict=True):
            beside = [self._rows.files[int(of[index])] for of in (gaps.before, gaps.after)]
            lost, by_commits = (each.holding(first, last) for each in gone)
            removed = lost or by_commits
            said = f"{_offsets(first, last)} of {tp} {what}"
            if lost:
                said += f"; {lost[0].file.path}, which is missing or damaged, had some of them"
            elif removed:
                said += f"; {removed[-1].commit} removed {removed[-1].file.path}, which had some of them"
            commits = _known(*(each.commit for each in removed)) or _known(*map(self._commit, beside))
            files = tuple(each.file.path for each in removed) or tuple(dict.fromkeys(each.path for each in beside))
            repair = repairs.fetch_again(tp, first, last, self._servers)
            self._findings.append(
                Finding(Kind.GAP, said, tp, first, last, last - first + 1, files, commits, repair)
            )

    def _unknowable(self, tp: TopicPartition, gaps: Gaps, bounds: "LogBounds") -> None:
        gone = _clipped(gaps, 0, bounds.start - 1)
        if gone:
            self._not_checked.append(
                f"{gone:,} offsets that {tp} lacks are no longer in the topic, which begins at {bounds.start}: whether "
                "they had records is not known"
            )
        if open_count := _clipped(gaps, bounds.readable_end, bounds.end - 1):
            self._not_checked.append(
                f"{open_count:,} offsets that {tp} lacks are from {bounds.readable_end} on, where a transaction is open"
            )

    def _ahead(self, tp: TopicPartition, judged: Judged, end: int) -> None:
        last = judged.last
        said = f"the table has offsets of {tp} up to {last}, but the topic ends at {end}: it was recreated or truncated"
        self._add(Finding(Kind.AHEAD, said, tp, max(end, judged.first), last))

    def _before(self, tp: TopicPartition, judged: Judged, bounds: "LogBounds") -> None:
        assert self._log is not None
        until = min(judged.first, bounds.readable_end)
        request = np.array([bounds.start], np.int64), np.array([until - 1], np.int64)
        firsts, lasts = self._log.missing(tp, request, judged.covered)
        if firsts.size:
            first, last, count = int(firsts[0]), int(lasts[-1]), int((lasts - firsts + 1).sum())
            said = f"{count:,} records of {tp}, {_offsets(first, last)}, are before the first row"
            repair = repairs.fetch_again(tp, first, last, self._servers)
            self._add(Finding(Kind.BEFORE, said, tp, first, last, count, repair=repair))

    def _absent(self, bounds: "Mapping[TopicPartition, LogBounds]") -> None:
        if self._log is None or not self._asked.from_earliest:
            return
        for tp, each in bounds.items():
            if tp not in self._rows.judged and self._log.has_records(tp, each.start, each.readable_end):
                said = f"the table has no row of {tp}, which has records from offset {each.start} on"
                repair = repairs.fetch_again(tp, each.start, each.readable_end - 1, self._servers)
                self._add(Finding(Kind.ABSENT, said, tp, each.start, each.readable_end - 1, repair=repair))


def _known(*commits: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for each in commits if each))


def _offsets(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def _clipped(gaps: Gaps, low: int, high: int) -> int:
    """The number of offsets from ``low`` to ``high`` that are in the gaps."""
    return int(np.maximum(np.minimum(gaps.lasts, high) - np.maximum(gaps.firsts, low) + 1, 0).sum())


def exit_code(report: Report) -> int:
    """0: clean. 1: findings. 2: no finding, but something was not checked."""
    return 1 if report.findings else 2 if report.not_checked else 0

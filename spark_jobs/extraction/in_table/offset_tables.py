"""Delta tables that store the offsets of their extraction (``table_offsets.py``). Runs in the driver.

A commit checks, in its Delta transaction, that the offsets are still those from which its ranges were planned. Delta
refuses the commit if a concurrent one moves any of these offsets. So a run that was paused cannot add records a second
time, however late it resumes.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.errors import ExtractionFailed, ForeignCommit
from kafka_zk.spark_jobs.extraction import partitioning, session_settings
from kafka_zk.spark_jobs.extraction.direct import delta_actions, delta_commit
from kafka_zk.spark_jobs.extraction.direct.staged_files import StagedFile
from kafka_zk.spark_jobs.extraction.in_table.table_offsets import (
    TableOffsets,
    TopicIds,
    application,
    check_no_other_offsets,
    check_unmoved,
    table_offsets,
)
from kafka_zk.spark_jobs.extraction.manifest import Manifest
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.table_lake import RECORDS, DeltaTables, delta_columns, note_of

_FORGETS = "delta.setTransactionRetentionDuration"
_CONCURRENT = "DELTA_CONCURRENT_TRANSACTION"


class OffsetTables(DeltaTables):
    """``ids``: the ids of the extraction's topics. A commit expects the offsets that the last call of ``offsets``
    returned."""

    def __init__(self, spark: Any, group: str, ids: TopicIds) -> None:
        super().__init__(spark)
        self._group = group
        self._ids = ids
        self._expected: Mapping[TopicPartition, int] = {}

    def offsets(self, target: str, tps: Collection[TopicPartition]) -> TableOffsets:
        """The group's offsets in the table; empty if there is no table. Raises ExtractionFailed."""
        versions = self._read(target)
        found = table_offsets(versions, self._group, tps, self._ids)
        check_no_other_offsets(versions, found, self._group)
        self._expected = found.offsets
        return found

    def _read(self, target: str) -> dict[str, int]:
        """``_versions`` of the table as it is now; empty if there is no table."""
        if not self._is_table(target):
            return {}
        return _versions(self._spark, delta_commit.DeltaCommit(self._spark, target).begun())

    def _offsets_now(self, target: str, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return table_offsets(self._read(target), self._group, tps, self._ids).offsets

    def check(self, manifest: Manifest) -> None:
        """Raises ForeignCommit if another commit has moved one of the offsets."""
        check_unmoved(self._expected, self._offsets_now(manifest.target, self._expected), self._group)

    def commit_of(self, manifest: Manifest) -> str | None:
        """RECORDS if the table's offsets are at the ends of the ranges, or beyond."""
        ends = {each.tp: each.until_offset for each in manifest.ranges}
        found = self._offsets_now(manifest.target, ends)
        return RECORDS if all(found[tp] >= end for tp, end in ends.items()) else None

    def append(self, frame: Any, manifest: Manifest, what: str, extraction: Extraction) -> None:
        """Raises ForeignCommit, ExtractionFailed, Delta's errors."""
        written = frame.schema
        frame = partitioning.with_columns(frame, extraction.partition_by)
        self._make(manifest.target, frame.limit(0), extraction)
        with session_settings.parquet_times_in_micros(self._spark), _conflicts_told(self._group):
            delta_commit.DeltaCommit(self._spark, manifest.target).write(
                frame, delta_columns(written, extraction), self._transactions(manifest),
                json.dumps(note_of(manifest, what)),
            )  # fmt: skip

    def add(self, files: Sequence[StagedFile], written: Any, manifest: Manifest, extraction: Extraction) -> None:
        """Raises ForeignCommit, ExtractionFailed, Delta's errors."""
        with _conflicts_told(self._group):
            super().add(files, written, manifest, extraction)

    def _transactions(self, manifest: Manifest) -> delta_commit.Transactions:
        return Moves(
            self._spark, self._group, self._ids, self._expected,
            {each.tp: each.until_offset for each in manifest.ranges},
        )  # fmt: skip


class Moves(NamedTuple):
    """The application transactions that set the offsets to ``ends``, if all offsets in ``expected`` are unchanged.

    ``expected`` also has the partitions without new records. They are checked too, because any run of the same group
    and topics that commits removes the staged files of this run.
    """

    spark: Any
    group: str
    ids: TopicIds
    expected: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]

    def check(self, change: Any) -> None:
        """Also raises ExtractionFailed for a table that forgets offsets."""
        for tp in self.expected:
            change.txnVersion(application(self.group, tp, self.ids))
        check_unmoved(self.expected, self._found(change), self.group)

    def are_committed(self, change: Any) -> bool:
        """True if these moves may have been committed, that is, if their offsets have moved. Another run may have moved
        them, or a later run may have moved them beyond ``ends``."""
        found = self._found(change)
        return all(found[tp] != self.expected[tp] for tp in self.ends)

    def actions(self, now_ms: int) -> list[str]:
        return [
            delta_actions.transaction(application(self.group, tp, self.ids), end, now_ms)
            for tp, end in sorted(self.ends.items())
        ]

    def _found(self, change: Any) -> dict[TopicPartition, int]:
        return table_offsets(_versions(self.spark, change), self.group, self.expected, self.ids).offsets


def _versions(spark: Any, change: Any) -> dict[str, int]:
    """Application id -> version, for all application transactions of the table; for those of extractions, the version
    is a partition's offset. Raises ExtractionFailed if the table forgets them."""
    if _FORGETS in json.loads(change.metadata().json())["metaData"].get("configuration", {}):
        raise ExtractionFailed(
            f"the table's setting {_FORGETS} forgets the offsets, and records would be extracted twice: "
            "unset it (ALTER TABLE ... UNSET TBLPROPERTIES), or give --zookeeper"
        )
    found = change.snapshot().transactions()
    return dict(spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(found))


@contextmanager
def _conflicts_told(group: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        if _CONCURRENT not in str(error):
            raise
        raise ForeignCommit(f"another extraction of group {group} has moved the table's offsets meanwhile") from error

"""``kafka-zk lake audit --key``: compares the last event of each key with the key's row in a merged table.

    last events (``events.py``, ``last_events.py``), joined with rows (``table_frames.py``), judged (``verdicts.py``)

The group's offsets are read first, then the table's version, then the ends of the topic's partitions. So the table has
everything that the group has committed, and the topic has every event that is in the table.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.audit import repairs
from kafka_zk.spark_jobs.audit.findings import Finding, Kind
from kafka_zk.spark_jobs.audit.keyed import last_events
from kafka_zk.spark_jobs.audit.keyed.events import ReadEvents
from kafka_zk.spark_jobs.audit.keyed.key_report import NO_FAULT, KeyPartition, KeyReport
from kafka_zk.spark_jobs.audit.keyed.last_events import COMPARED, NOT_COMPARED
from kafka_zk.spark_jobs.audit.keyed.table_frames import TableFrame, opened
from kafka_zk.spark_jobs.audit.keyed.verdicts import MAY_BE_BEHIND, Outcome, Truncate
from kafka_zk.spark_jobs.cdc.changes import DEBEZIUM
from kafka_zk.spark_jobs.cdc.given_types import given_types
from kafka_zk.spark_jobs.errors import AuditFailed
from kafka_zk.spark_jobs.values.schema_registry import registry_at
from kafka_zk.spark_jobs.values.value_decoder import avro_as_written

if TYPE_CHECKING:
    from kafka_zk.spark_jobs.audit.topic_log import LogBounds, TopicLog

Committed = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]
"""A group's committed offsets; -1 or absent where nothing is committed."""
_MOST_DESCRIBED = 1_000
"""Findings of one kind that a report describes."""
_KINDS = {
    Outcome.MISSING: Kind.MISSING,
    Outcome.OUTDATED: Kind.OUTDATED,
    Outcome.ALTERED: Kind.ALTERED,
    Outcome.REMAINS: Kind.REMAINS,
    Outcome.AHEAD: Kind.NEWER,
    Outcome.SHIFTED: Kind.SHIFTED,
}
_SAID = {
    Kind.MISSING: "the row is missing",
    Kind.OUTDATED: "the row does not show this event",
    Kind.ALTERED: "the row names this event, but not its values",
    Kind.REMAINS: "the row remains",
    Kind.NEWER: "the row shows an event that the topic no longer has: the topic was truncated or recreated",
    Kind.SHIFTED: "one transaction moved a row away from the key and another to it; whether it has a row is unknown",
    Kind.BEHIND: "the table shows nothing from here on: the consumer is behind, or the event is lost",
}


class KeyRequest(NamedTuple):
    """``schema``: as for ``extract --schema``; None if the topic encodes values with the table's own types.
    ``schema_registry``: its address, if records are Avro; None for JSON.
    """

    address: str
    topic: str
    key: tuple[str, ...]
    mode: str = DEBEZIUM
    schema: str | None = None
    kafka: Mapping[str, str] = {}
    schema_registry: str | None = None


def audit_keys(spark: Any, asked: KeyRequest, log: "TopicLog", committed: Committed | None = None) -> KeyReport:
    """``committed``: the offsets of the group that fills the table. Without them, only the rows show how far the
    consumer has got.

    Raises AuditFailed, FetchFailed, AuthenticationError, RegistryFailed, WronglyAsked, and what Spark raises.
    """
    types = None if asked.schema is None else list(given_types(asked.schema))
    tps = list(log.bounds([asked.topic]))
    if not tps:
        raise AuditFailed(f"topic {asked.topic} does not exist at {log.bootstrap_servers}")
    consumed = {tp.partition: offset - 1 for tp, offset in (committed(tps) if committed else {}).items()}
    table = TableFrame(*opened(spark, asked.address), asked.key, types)
    bounds = {tp.partition: each for tp, each in log.bounds([asked.topic]).items()}
    records = _records(spark, asked, log.bootstrap_servers, bounds)
    return compare(records, table, bounds, asked, log.bootstrap_servers, consumed)


def _records(spark: Any, asked: KeyRequest, servers: str, bounds: "Mapping[int, LogBounds]") -> Any:
    """Committed records, up to the ends that ``bounds`` knows."""
    options = {
        **{f"kafka.{name}": value for name, value in asked.kafka.items()},
        "kafka.bootstrap.servers": servers,
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps({asked.topic: sorted(bounds)}),
        "startingOffsets": "earliest",
        "endingOffsets": json.dumps({asked.topic: {str(each): bounds[each].readable_end for each in bounds}}),
        "includeHeaders": "true",
        "failOnDataLoss": "false",
    }
    return spark.read.format("kafka_zk").options(**options).load()


def compare(
    records: Any, table: TableFrame, bounds: "Mapping[int, LogBounds]", asked: KeyRequest, servers: str,
    consumed: Mapping[int, int],
) -> KeyReport:  # fmt: skip
    """``records``: the topic's records, as the data source returns them. ``bounds``: by partition. ``consumed``: by
    partition, the last offset that the group has consumed, where known.
    """
    avro = None if asked.schema_registry is None else avro_as_written(registry_at(asked.schema_registry), asked.topic)
    read = ReadEvents(asked.mode, asked.schema, asked.key, table.compared, avro)
    found = _Comparison(table, bounds, asked, servers)
    with _kept(last_events.last_events(records, read)) as last:
        truncate, refused_count, reason = last_events.keyless(last)
        found.refused(refused_count, reason)
        with _kept(last_events.verdicts(last, table, truncate)) as verdicts:
            found.verdicts(verdicts, consumed)
        with _kept(last_events.rows_without_events(last, table)) as rows:
            found.rows_without_events(rows, truncate)
    found.duplicates()
    return found.report()


@contextmanager
def _kept(frame: Any) -> Iterator[Any]:
    """The frame, cached on disk because several queries use it."""
    from pyspark import StorageLevel

    kept = frame.persist(StorageLevel.DISK_ONLY)
    try:
        yield kept
    finally:
        kept.unpersist()


class _Comparison:
    def __init__(
        self, table: TableFrame, bounds: "Mapping[int, LogBounds]", asked: KeyRequest, servers: str
    ) -> None:  # fmt: skip
        self._table = table
        self._bounds = bounds
        self._asked = asked
        self._servers = servers
        self._findings: list[Finding] = []
        self._counts: dict[Kind, int] = {}
        self._partitions: list[KeyPartition] = []
        self._shown: Mapping[int, int] = {}
        self._not_checked = [f"column {name}: its values are nested" for name in table.nested]

    def report(self) -> KeyReport:
        kinds = list(Kind)
        findings = sorted(self._findings, key=lambda each: kinds.index(each.kind))
        table = self._table
        return KeyReport(
            table.format, table.key, table.has_ranks, table.compared, self._partitions, findings,
            dict(sorted(self._counts.items(), key=lambda each: kinds.index(each[0]))), self._not_checked,
        )  # fmt: skip

    def refused(self, count: int, reason: str) -> None:
        if count:
            self._not_checked.append(f"{count:,} records are not change events of a row, for example: {reason}")

    # --- keys with events

    def verdicts(self, frame: Any, consumed: Mapping[int, int]) -> None:
        """``frame`` has the columns of VERDICTS_DDL."""
        by_partition = frame.where("partition IS NOT NULL").groupBy("partition").agg({"evidence": "max"}).collect()
        shown = {row["partition"]: row["max(evidence)"] for row in by_partition}
        shown = {number: -1 if offset is None else offset for number, offset in shown.items()}
        shown = {number: max(shown.get(number, -1), consumed.get(number, -1)) for number in self._bounds}
        self._shown = shown
        classified = frame.selectExpr("*", f"{_class_sql(shown)} AS class")
        counts: dict[str, dict[int, int]] = {}
        for row in classified.groupBy("class", "partition").sum("keys").collect():
            counts.setdefault(row["class"], {})[row["partition"]] = row["sum(keys)"]
        for kind in _SAID:
            if count := sum(counts.get(kind.name, {}).values()):
                rows = classified.where(f"class = '{kind.name}'").orderBy("partition", "offset", "key")
                self._counts[kind] = count
                self._findings += (self._finding(kind, row) for row in rows.take(_MOST_DESCRIBED))
        self._by_partition(counts, shown)
        if unordered := sum(counts.get(Outcome.UNORDERED.value, {}).values()):
            self._not_checked.append(
                f"{unordered:,} keys have events in several partitions and without positions, so their order is unknown"
            )
        unlike = frame.where(f"outcome = '{NOT_COMPARED}'").groupBy("said").sum("keys").orderBy("said").collect()
        self._not_checked += [
            f"{row['sum(keys)']:,} values were not compared ({row['said']}): give their types with --schema"
            for row in unlike
        ]
        compared = frame.where(f"outcome = '{COMPARED}'").select("said").distinct().collect()
        self._never_compared({row.said for row in compared})

    def _never_compared(self, compared: Collection[str]) -> None:
        """Report columns that were never compared. Names are case-sensitive, so a table might seem right only because
        no name matched."""
        if compared:
            absent = [name for name in self._table.compared if name not in compared]
            self._not_checked += [
                f"column {name} was never compared: no last event of a row has a value for it" for name in absent
            ]

    def _by_partition(self, counts: Mapping[str, Mapping[int, int]], shown: Mapping[int, int]) -> None:
        for number, bounds in sorted(self._bounds.items()):
            by_class = {name: of.get(number, 0) for name, of in counts.items() if name not in (NOT_COMPARED, COMPARED)}
            keys, agree = sum(by_class.values()), by_class.get(Outcome.AGREES.value, 0)
            no_fault = (Outcome.AGREES.value, Outcome.UNORDERED.value, *(kind.name for kind in NO_FAULT))
            problems = sum(count for name, count in by_class.items() if name not in no_fault)
            self._partitions.append(
                KeyPartition(
                    self._asked.topic, number, keys, agree, by_class.get(Kind.BEHIND.name, 0), problems, shown[number],
                    bounds.start, bounds.end,
                )
            )  # fmt: skip

    def _finding(self, kind: Kind, row: Any) -> Finding:
        tp = TopicPartition(self._asked.topic, row.partition)
        repair: tuple[str, ...] = ()
        if kind in (Kind.MISSING, Kind.OUTDATED, Kind.ALTERED):
            repair = repairs.fetch_again(tp, row.offset, row.offset, self._servers)
        elif kind is Kind.REMAINS:
            repair = repairs.delete_key(self._table.name, row.key)
        told = f"{row.key}, offset {row.offset} of {tp}: {_SAID[kind]}"
        said = f"{told} ({row.said})" if row.said else told
        return Finding(kind, said, tp, row.offset, row.offset, 1, repair=repair, key=row.key)

    # --- rows

    def rows_without_events(self, frame: Any, truncate: Truncate | None) -> None:
        """Find rows whose key has no event. While the topic's log still has its beginning, every key with a row has an
        event, even after compaction."""
        if truncate is not None:
            is_older = f"size(row_rank) = {len(truncate.rank)} AND row_rank <= {_array_sql(truncate.rank)}"
            tp = TopicPartition(self._asked.topic, truncate.partition)
            older = frame.where(is_older)
            kind = Kind.BEHIND if truncate.offset > self._shown[truncate.partition] else Kind.REMAINS
            said = f"offset {truncate.offset} of {tp}, a truncate: {_SAID[kind]}"
            self._rows(kind, older, said, (tp, truncate.offset))
            frame = frame.where(f"NOT coalesce({is_older}, false)")
        begun = [number for number, each in self._bounds.items() if each.start]
        if not begun:
            self._rows(Kind.EXTRA, frame, f"no record of topic {self._asked.topic} has its key")
        else:
            self._not_checked.append(
                f"the topic no longer has the events before offset {self._bounds[begun[0]].start} of partition "
                f"{begun[0]}: {frame.count():,} rows have no event, and keys without a row may have had a row"
            )

    def _rows(
        self, kind: Kind, frame: Any, said: str, place: tuple[TopicPartition, int] | None = None
    ) -> None:  # fmt: skip
        count = frame.count()
        if not count:
            return
        self._counts[kind] = self._counts.get(kind, 0) + count
        tp, offset = place or (None, None)
        for row in frame.selectExpr("to_json(key_columns) AS key").orderBy("key").take(_MOST_DESCRIBED):
            repair = () if kind is Kind.BEHIND else repairs.delete_key(self._table.name, row.key)
            told = f"{row.key}: {said}"
            self._findings.append(Finding(kind, told, tp, offset, offset, 1, repair=repair, key=row.key))

    def duplicates(self) -> None:
        frame = self._table.duplicates()
        if count := frame.count():
            self._counts[Kind.DUPLICATE] = count
            for row in frame.orderBy("key").take(_MOST_DESCRIBED):
                repair = (*repairs.delete_key(self._table.name, row.key), "then merge its last event again")
                said = f"{row.key} has {row['count']:,} rows"
                self._findings.append(
                    Finding(Kind.DUPLICATE, said, count=row["count"], repair=repair, key=row.key)
                )  # fmt: skip


def _class_sql(shown: Mapping[int, int]) -> str:
    """For a row of VERDICTS_DDL: the name of its Kind, or the Outcome's value if it is not a finding."""
    consumed = f"element_at(map({', '.join(f'{number}, {offset}L' for number, offset in shown.items())}), partition)"
    may_be_behind = ", ".join(f"'{each.value}'" for each in MAY_BE_BEHIND)
    names = " ".join(f"WHEN '{outcome.value}' THEN '{kind.name}'" for outcome, kind in _KINDS.items())
    return (
        f"CASE WHEN outcome IN ({may_be_behind}) AND offset > {consumed} THEN '{Kind.BEHIND.name}' "
        f"ELSE CASE outcome {names} ELSE outcome END END"
    )


def _array_sql(rank: Any) -> str:
    return f"array({', '.join(f'{part}L' for part in rank)})"

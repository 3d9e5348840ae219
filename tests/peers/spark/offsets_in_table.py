"""Extractions without ZooKeeper, with the offsets in their Delta table. Runs with the PySpark version for which Delta
has jars."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.errors import BrokerError
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.spark_jobs.errors import SourceError
from kafka_zk.spark_jobs.extraction import job
from kafka_zk.spark_jobs.extraction.in_table import run as in_table
from kafka_zk.spark_jobs.extraction.in_table.offset_tables import Moves
from kafka_zk.spark_jobs.extraction.lakes_by_format import Lakes
from kafka_zk.spark_jobs.extraction.manifest import STAGING_FOLDER
from kafka_zk.spark_jobs.extraction.planning import Extraction
from tests.integration.processes import wait_for

TOPIC, GROUP = "in-table", "in-table-lake"
FOR_SPARKS_WRITER = "offset >= 0"
FORGETS = "delta.setTransactionRetentionDuration"


class Observer:
    """``target``: a table that does not exist yet. Each entry has the table's content, and the report of a run."""

    def __init__(self, spark: Any, bootstrap: str, target: str) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._target = target
        self._asked = Extraction(
            bootstrap_servers=bootstrap, group=GROUP, topics=(TOPIC,), target=target, format="delta", decode="string",
            partition_by=("partition",),
        )  # fmt: skip
        self._of_sparks_writer = replace(self._asked, where=FOR_SPARKS_WRITER)

    def begin(self) -> dict[str, Any]:
        spark, asked = self._spark, self._asked
        told: dict[str, Any] = {}
        with self._admin() as admin:
            admin.create_topic(TOPIC, 2, 1)
            _write(self._bootstrap)
            told["planned"] = job.plan(asked, spark=spark).lag_before
            told["first"] = self._after()
            _write(self._bootstrap)
            told["slept while it committed"] = _slept(spark, self._of_sparks_writer, asked, Moves, "actions")
            told["mirrored"] = _offsets(admin)
        return told

    def go_on(self) -> dict[str, Any]:
        """Continue after ``begin``."""
        spark, target, asked = self._spark, self._target, self._asked
        told: dict[str, Any] = {"again": self._after()}
        with self._admin() as admin:
            _write(self._bootstrap)
            (left,) = _leave_attempt(asked, target)
            told["by Spark's writer"] = self._after(self._of_sparks_writer)
            told["left by a dead run"] = left.exists()
            _write(self._bootstrap)
            told["slept before it committed"] = _slept(spark, asked, asked, Lakes, "publish")
            admin.groups.delete_groups([GROUP])
            told["after expired offsets"] = [*self._after(), _offsets(admin)]
            _forget_log(spark, target)
            told["after the log's clean-up"] = self._after()
            _write(self._bootstrap)
            told["with another column"] = self._after(replace(asked, select="*, 1 AS more"))
            spark.sql(f"ALTER TABLE delta.`{target}` SET TBLPROPERTIES ('{FORGETS}' = 'interval 1 days')")
            told["in a table that forgets"] = self._after()
            spark.sql(f"ALTER TABLE delta.`{target}` UNSET TBLPROPERTIES ('{FORGETS}')")
            told["in one that does not"] = self._after()
            _recreate(admin)
            _write(self._bootstrap)
            told["of a recreated topic"] = self._after()
            told["from its beginning"] = self._after(replace(asked, fail_on_data_loss=False))
        return told

    def _after(self, extraction: Extraction | None = None) -> list[Any]:
        said = _said(self._spark, extraction or self._asked)
        return [_count(self._spark, self._target), said]

    def _admin(self) -> BlockingAdmin:
        return BlockingAdmin(None, bootstrap_servers=self._bootstrap)


def _said(spark: Any, extraction: Extraction) -> Any:
    try:
        report = job.extract(spark, extraction)
        return [report.records, report.writer]
    except SourceError as error:
        return f"{type(error).__name__}: {error}"


def _count(spark: Any, target: str) -> list[int]:
    """The numbers of rows and of distinct rows."""
    rows = spark.read.format("delta").load(target)
    return [rows.count(), rows.select("timestamp", "partition", "offset").distinct().count()]


def _write(bootstrap: str) -> None:
    with BlockingProducer(None, bootstrap_servers=bootstrap) as producer:
        for number in range(20):
            producer.send(TOPIC, str(number).encode(), partition=number % 2)
        producer.flush()


def _recreate(admin: BlockingAdmin) -> None:
    def is_made() -> bool:
        try:
            admin.create_topic(TOPIC, 2, 1)
        except BrokerError:
            return False  # the old topic is still being deleted
        return True

    admin.delete_topics([TOPIC])
    wait_for(is_made, "the topic is there again")


def _slept(spark: Any, sleeper: Extraction, other: Extraction, owner: type, method: str) -> list[Any]:
    """Let another run extract everything before the sleeper's first call of the method."""
    original = getattr(owner, method)

    def sleep(*given: Any) -> Any:
        awake.stop()
        said.append(_said(spark, other))
        return original(*given)

    said: list[Any] = []
    awake = mock.patch.object(owner, method, sleep)
    awake.start()
    said.append(_said(spark, sleeper))
    return [_count(spark, other.target), *said]


def _offsets(admin: BlockingAdmin) -> list[int]:
    found = admin.groups.stable_offsets(GROUP, [TopicPartition(TOPIC, number) for number in range(2)])
    return [found[tp] for tp in sorted(found)]


def _leave_attempt(asked: Extraction, target: str) -> list[Path]:
    """Leave the remains of a run that is killed while it stages."""
    left = Path(target) / STAGING_FOLDER / f"range=x-{in_table.attempts_of(asked)}dead.attempts"
    left.mkdir(parents=True)
    (left / "part").touch()
    return [left]


def _forget_log(spark: Any, target: str) -> None:
    """Delete the commits before a checkpoint, as Delta's clean-up does."""
    delta_log = spark._jvm.org.apache.spark.sql.delta.DeltaLog
    delta_log.forTable(spark._jsparkSession, target).checkpoint()
    for commit in sorted((Path(target) / "_delta_log").glob("0*.json"))[:-1]:
        commit.unlink()
    delta_log.clearCache()

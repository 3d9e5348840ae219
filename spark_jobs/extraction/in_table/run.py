"""Extracts new records exactly once without ZooKeeper; the target table stores the offsets.

    PLAN      read the table's offsets, the only state
    STAGE     write the records to a staging folder of this attempt
    PUBLISH   one commit of the table adds the records and moves the offsets, if they are where the plan began
    MIRROR    commit the offsets for the broker group, for tools that show lags; nothing reads them here

A run that is killed before PUBLISH leaves a staging folder, which the next run that publishes removes. If two runs are
concurrent, one publishes and the other fails.
"""

import hashlib
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from kafka_zk.base.clock import wall_ms
from kafka_zk.base.randomness import SYSTEM_RANDOM, random_uuid
from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.group_admin import CommittedOffset
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.spark_jobs.errors import DataLoss, ExtractionFailed, ForeignCommit
from kafka_zk.spark_jobs.extraction import manifest as manifests
from kafka_zk.spark_jobs.extraction.direct.staged_files import REFUSALS
from kafka_zk.spark_jobs.extraction.in_table.offset_tables import OffsetTables
from kafka_zk.spark_jobs.extraction.in_table.table_offsets import NO_OFFSET
from kafka_zk.spark_jobs.extraction.lakes_by_format import Lakes
from kafka_zk.spark_jobs.extraction.planning import Extraction, Planning, Report
from kafka_zk.spark_jobs.extraction.progress import Progress, silent
from kafka_zk.spark_jobs.extraction.staging import stage
from kafka_zk.spark_jobs.source import planner
from kafka_zk.spark_jobs.source.cluster_client import ClusterClient
from kafka_zk.spark_jobs.source.options import security_of
from kafka_zk.spark_jobs.waiting import Note


def plan(spark: Any, extraction: Extraction, note: Note) -> Report:
    """Plan what a run would extract now. Nothing is written."""
    with closing(_brokers(extraction, note)) as brokers:
        planning = TableRun(spark, extraction, brokers, silent, note).planning()
        return planning.report(planning.new_ranges())


def run(spark: Any, extraction: Extraction, progress: Progress, note: Note) -> Report:
    """Raises WronglyAsked, ForeignCommit, Undecodable, ExtractionFailed, DataLoss, FetchFailed, and Spark's errors."""
    with closing(_brokers(extraction, note)) as brokers:
        return TableRun(spark, extraction, brokers, progress, note).run()


def _brokers(extraction: Extraction, note: Note) -> ClusterClient:
    assert extraction.bootstrap_servers is not None, "else ZooKeeper has the offsets"
    return ClusterClient(planner.client_settings(extraction.kafka, extraction.bootstrap_servers), note)


class TableRun:
    def __init__(
        self, spark: Any, extraction: Extraction, brokers: ClusterClient, progress: Progress, note: Note
    ) -> None:  # fmt: skip
        self._extraction = extraction
        self._brokers = brokers
        self._note = note
        self._tps = planner.tps(extraction.topics, brokers)
        ids = {topic: each.hex for topic, each in brokers.topic_ids(extraction.topics).items()}
        self._tables = OffsetTables(spark, extraction.progress_group, ids)
        self._lake = Lakes(spark, extraction, progress, self._tables)
        self._target = self._lake.qualified(extraction.target)
        self._lake.check()

    def planning(self) -> Planning:
        """Raises DataLoss, ExtractionFailed."""
        found = self._tables.offsets(self._target, self._tps)
        for tp, offset in sorted(found.outdated.items()):
            told = (
                f"topic {tp.topic} was deleted and recreated since group {self._extraction.progress_group} was at "
                f"offset {offset} of {tp}"
            )
            if self._extraction.fail_on_data_loss:
                raise DataLoss(f"{told} (--no-fail-on-data-loss continues at its beginning)")
            self._note(f"{told}; the extraction continues at the topic's beginning")
        planning = Planning(self._extraction, self._brokers, found.offsets)
        if (doubt := planning.beginnings_in_doubt()) is not None:
            self._note(doubt)
        return planning

    def run(self) -> Report:
        planning = self.planning()
        ranges = planning.new_ranges()
        if not ranges:
            self._mirror(planning.offsets)
            return planning.report([])
        attempts = attempts_of(self._extraction)
        manifest = manifests.planned(
            ranges, self._target, self._extraction.format, f"{attempts}{random_uuid(SYSTEM_RANDOM).hex[:12]}", wall_ms()
        )
        older = self._lake.attempts(self._target, attempts)
        try:
            staged = stage(self._lake, manifest, self._extraction, self._servers, self._note)
            self._lake.publish(manifest)
        except ForeignCommit:
            raise
        except (*REFUSALS, ExtractionFailed):
            self._tables.check(manifest)  # raises ForeignCommit if a faster run has removed the staging folder
            raise
        finally:
            self._lake.discard(manifest)
        for each in older:  # can no longer commit, because their offsets have moved
            self._lake.discard(each)
        self._mirror({**planning.offsets, **{each.tp: each.until_offset for each in ranges}})
        return planning.report(ranges, staged, (self._lake.published(manifest),))

    def _mirror(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the offsets for the broker group. A failure does not matter, because the next run mirrors again."""
        from kafka_zk.clients.admin.blocking_admin import BlockingAdmin

        known = {tp: CommittedOffset(offset) for tp, offset in offsets.items() if offset != NO_OFFSET}
        if self._extraction.is_backfill or not known:
            return
        try:
            security = security_of(self._extraction.kafka)
            with BlockingAdmin(bootstrap_servers=self._servers, security=security) as admin:
                admin.groups.commit(self._extraction.group, known)
        except KafkaError as error:
            self._note(
                f"the brokers did not store the new offsets of group {self._extraction.group}, "
                f"so lag tools show old offsets: {error}"
            )

    @property
    def _servers(self) -> str:
        return self._brokers.settings.bootstrap_servers


def attempts_of(extraction: Extraction) -> str:
    """The prefix of the names of all attempts for the same group and topics."""
    asked = "/".join((extraction.progress_group, *sorted(extraction.topics)))
    return hashlib.sha256(asked.encode()).hexdigest()[:8]

"""Plans and carries out the repairs of ``tier check --repair``.

The segments that the metadata know are deleted as brokers delete them: the record DELETE_SEGMENT_STARTED, the objects,
and the record DELETE_SEGMENT_FINISHED.
"""

import time
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Self

from kafka_zk.cli.terminal.command_config import secured
from kafka_zk.cli.tier.gathering import TierReader
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.protocol.remote_log_metadata import encode_remote_log_record
from kafka_zk.storage.tiered.metadata_partition import METADATA_TOPIC
from kafka_zk.storage.tiered.object_store import ObjectStoreError, WritableStore
from kafka_zk.storage.tiered.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from kafka_zk.storage.tiered.segment_tasks import SegmentDeletion, TaskEffect, TaskEvent, WriteMetadata
from kafka_zk.storage.tiered.tier_check import Examined, TierFacts
from kafka_zk.storage.tiered.tier_repair import Kept, RepairStep, candidates, refusal

_NO_BROKER = -1
"""The broker id in the records that the repair writes; brokers do not use it."""
_MOST_FAILURES = 3
"""Failures one after the other, after which the remaining steps are not tried."""


class RepairPlan(NamedTuple):
    """``kept``: the findings that are not repaired, with the reason."""

    steps: list[RepairStep]
    kept: list[Kept]


class StepResult(NamedTuple):
    """``problem``: None if the step was carried out."""

    step: RepairStep
    problem: str | None


class _StepFailed(Exception):
    """The message says why the step was not carried out, or not to its end."""


def plan_repair(reader: TierReader, facts: TierFacts, examined: Examined) -> RepairPlan:
    """Changes nothing. Raises: KafkaError, ObjectStoreError, CommandFailed."""
    steps, kept = candidates(facts, examined)
    planned = []
    for kind, step in steps:
        reason = refusal(step, reader.look_closely(step, facts.older_than_ms))
        if reason is None:
            planned.append(step)
        else:
            kept.append(Kept(kind, step.tp.topic, step.tp.partition, reason, step.segment_id))
    return RepairPlan(planned, kept)


class TierRepair:
    """A context manager that carries out steps. ``older_than_ms``: as in the check."""

    def __init__(self, bootstrap: str, reader: TierReader, store: WritableStore, older_than_ms: int) -> None:
        self._reader = reader
        self._store = store
        self._older_than_ms = older_than_ms
        self._bootstrap = bootstrap

    def __enter__(self) -> Self:
        self._producer = BlockingProducer(bootstrap_servers=self._bootstrap, **secured())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.close()

    def carry_out(self, steps: list[RepairStep]) -> Iterator[StepResult]:
        """Carry out each step; the facts are read and checked again before it. A failed step does not stop the others,
        unless several fail one after the other."""
        failure_count = 0
        for step in steps:
            if failure_count == _MOST_FAILURES:
                yield StepResult(step, f"not tried, because {_MOST_FAILURES} steps before it failed")
                continue
            try:
                self._carry_out(step)
            except (_StepFailed, KafkaError, ObjectStoreError) as error:
                failure_count += 1
                yield StepResult(step, str(error))
            else:
                failure_count = 0
                yield StepResult(step, None)

    def _carry_out(self, step: RepairStep) -> None:
        """Raises: _StepFailed, KafkaError, ObjectStoreError."""
        reason = refusal(step, self._reader.look_closely(step, self._older_than_ms))
        if reason is not None:
            raise _StepFailed(reason)
        if step.segment is None:
            self._delete_objects(step)
            return
        deletion = SegmentDeletion(step.segment)
        effect = deletion.step(TaskEvent.BEGUN, _now_ms())
        while effect is not None:
            effect = deletion.step(self._do(effect, step), _now_ms())

    def _do(self, effect: TaskEffect, step: RepairStep) -> TaskEvent:
        """Raises: _StepFailed, KafkaError, ObjectStoreError."""
        if isinstance(effect, WriteMetadata):
            self._write(effect.record, step)
            return TaskEvent.WRITTEN
        self._delete_objects(step)
        return TaskEvent.REMOVED

    def _write(self, record: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate, step: RepairStep) -> None:
        """Write a record and read it back. Raises _StepFailed if the copy was finished since the facts were read."""
        partition = self._reader.metadata_partition_of(step.tp)
        value = encode_remote_log_record(record, _NO_BROKER)
        self._producer.send(METADATA_TOPIC, value, partition=partition).result()
        news = self._reader.refresh()
        if record not in news:
            raise _StepFailed(f"its record {record.state.name} cannot be read back")
        finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        if any(
            isinstance(each, RemoteLogSegmentMetadataUpdate)
            and each.segment_id == record.segment_id
            and each.state is finished
            for each in news
        ):
            raise _StepFailed("its copy was finished at this moment; the objects are kept")

    def _delete_objects(self, step: RepairStep) -> None:
        """Raises: ObjectStoreError."""
        for key in step.keys:
            self._store.delete(key)


def _now_ms() -> int:
    return round(time.time() * 1000)

"""Group members that use Python clients. Each logs its assignments, its records and its commits, and leaves at the end
of its input.

`python -m tests.peers.clients.python_members CLIENT BOOTSTRAP GROUP TOPIC NAME LOG ASSIGNOR SESSION_TIMEOUT_MS`. A
record is logged before its offset is committed, so the log of a killed member contains all records that it has
committed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import aiokafka
import aiokafka.abc
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from aiokafka.protocol.commit import OffsetFetchRequest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.structs import OffsetAndMetadata, TopicPartition

_POLL_S = 0.1
_MAX_RECORDS = 200
_REBALANCE_TIMEOUT_MS = 20_000
_METADATA_MAX_AGE_MS = 2000
"""A broker that has just started may not know its topics yet. A group leader that knows no topics assigns nothing, and
some clients repeat their metadata request only after this time.
"""
_ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
_AIO_ASSIGNORS = {"range": AioRange, "roundrobin": AioRoundRobin}

_log = logging.getLogger("member")


class Options(NamedTuple):
    """The arguments of the member."""

    bootstrap: str
    group: str
    topic: str
    name: str
    log: str
    assignor: str
    session_timeout_ms: int

    @property
    def heartbeat_ms(self) -> int:
        return self.session_timeout_ms // 6


class Journal:
    """Lines of JSON. A line is in the file when the method returns, even if the process is then killed."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, event: str, **fields: Any) -> None:
        line = json.dumps({"event": event, "at_ms": int(time.time() * 1000), **fields})
        os.write(self._file, line.encode() + b"\n")

    def handed(self, offsets: Mapping[int, list[int]]) -> None:
        """Log the offsets of records by partition."""
        for partition, found in offsets.items():
            self.write("handed", partition=partition, offsets=found)


def _next_offsets(handed: Mapping[int, list[int]]) -> dict[int, int]:
    return {partition: offsets[-1] + 1 for partition, offsets in handed.items()}


def confluent(options: Options, journal: Journal, leaving: threading.Event) -> None:
    """confluent-kafka."""
    mine: set[int] = set()

    def assigned(consumer: confluent_kafka.Consumer, tps: list[confluent_kafka.TopicPartition]) -> None:
        mine.update(tp.partition for tp in tps)
        journal.write("assigned", member=consumer.memberid(), partitions=[tp.partition for tp in tps])

    def revoked(_: confluent_kafka.Consumer, tps: list[confluent_kafka.TopicPartition]) -> None:
        mine.difference_update(tp.partition for tp in tps)
        journal.write("revoked", partitions=[tp.partition for tp in tps])

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            "client.id": options.name,
            "session.timeout.ms": options.session_timeout_ms,
            "heartbeat.interval.ms": options.heartbeat_ms,
            "max.poll.interval.ms": _REBALANCE_TIMEOUT_MS,
            "partition.assignment.strategy": options.assignor,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 200,
            "topic.metadata.refresh.interval.ms": _METADATA_MAX_AGE_MS,
        }
    )
    consumer.subscribe([options.topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while not leaving.is_set():
        handed: dict[int, list[int]] = {}
        for message in consumer.consume(_MAX_RECORDS, _POLL_S):
            partition, offset = message.partition(), message.offset()
            if message.error() or partition is None or offset is None:
                _log.warning("%s", message.error())
            else:
                handed.setdefault(partition, []).append(offset)
        journal.handed(handed)
        # If a rebalance within consume() took a partition away, this member must not commit its offsets.
        offsets = {partition: offset for partition, offset in _next_offsets(handed).items() if partition in mine}
        if offsets:
            try:
                consumer.commit(
                    offsets=[confluent_kafka.TopicPartition(options.topic, *each) for each in offsets.items()],
                    asynchronous=False,
                )
                journal.write("committed", offsets=offsets)
            except confluent_kafka.KafkaException as error:
                _log.warning("commit: %s", error)
    consumer.close()


class _Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, journal: Journal, consumer: kafka.KafkaConsumer) -> None:
        self._journal, self._consumer = journal, consumer

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        group = self._consumer.group_metadata()
        self._journal.write(
            "assigned", member=group.member_id, generation=group.generation_id, partitions=[tp[1] for tp in assigned]
        )

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self._journal.write("revoked", partitions=[tp[1] for tp in revoked])


def kafka_python(options: Options, journal: Journal, leaving: threading.Event) -> None:
    """kafka-python."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        client_id=options.name,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=options.heartbeat_ms,
        max_poll_interval_ms=_REBALANCE_TIMEOUT_MS,
        partition_assignment_strategy=[_ASSIGNORS[options.assignor]],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=200,
        metadata_max_age_ms=_METADATA_MAX_AGE_MS,
    )
    consumer.subscribe([options.topic], listener=_Listener(journal, consumer))
    while not leaving.is_set():
        polled = consumer.poll(timeout_ms=int(_POLL_S * 1000), max_records=_MAX_RECORDS)
        handed = {tp.partition: [record.offset for record in records] for tp, records in polled.items()}
        journal.handed(handed)
        offsets = _next_offsets(handed)
        if offsets:
            tps = {TopicPartition(options.topic, each): OffsetAndMetadata(at, "", -1) for each, at in offsets.items()}
            try:
                consumer.commit(tps)
                journal.write("committed", offsets=offsets)
            except kafka.errors.KafkaError as error:
                _log.warning("commit: %s", error)
    consumer.close(autocommit=False)


class _AioListener(aiokafka.abc.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, journal: Journal, consumer: aiokafka.AIOKafkaConsumer) -> None:
        self._journal, self._consumer = journal, consumer
        self.rebalances = 0

    async def on_partitions_assigned(self, assigned: list[aiokafka.TopicPartition]) -> None:
        coordinator = self._consumer._coordinator  # aiokafka has no public attribute for either
        self._journal.write(
            "assigned",
            member=coordinator.member_id,
            generation=coordinator.generation,
            partitions=[tp.partition for tp in assigned],
        )

    async def on_partitions_revoked(self, revoked: list[aiokafka.TopicPartition]) -> None:
        self.rebalances += 1
        self._journal.write("revoked", partitions=[tp.partition for tp in revoked])


def _heed_errors_of_a_whole_offset_fetch() -> None:
    """aiokafka 0.14 checks only the errors of partitions. While a coordinator loads its groups, the response has one
    error and no partitions. aiokafka would conclude that there are no offsets and start over, even on Apache Kafka.
    """
    send = GroupCoordinator._send_req

    async def send_and_check(coordinator: GroupCoordinator, request: Any) -> Any:
        response = await send(coordinator, request)
        if isinstance(request, OffsetFetchRequest) and response.error_code:
            error = aiokafka.errors.for_code(response.error_code)
            if error is aiokafka.errors.NotCoordinatorForGroupError:
                coordinator.coordinator_dead()
            raise error()
        return response

    GroupCoordinator._send_req = send_and_check


def aio(options: Options, journal: Journal, leaving: threading.Event) -> None:
    """aiokafka."""
    _heed_errors_of_a_whole_offset_fetch()
    asyncio.run(_aio(options, journal, leaving))


async def _aio(options: Options, journal: Journal, leaving: threading.Event) -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        client_id=options.name,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=options.heartbeat_ms,
        max_poll_interval_ms=_REBALANCE_TIMEOUT_MS,
        rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
        partition_assignment_strategy=[_AIO_ASSIGNORS[options.assignor]],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=200,
        metadata_max_age_ms=_METADATA_MAX_AGE_MS,
    )
    listener = _AioListener(journal, consumer)
    consumer.subscribe([options.topic], listener=listener)
    while True:
        try:
            await consumer.start()
            break
        except aiokafka.errors.KafkaConnectionError as error:  # the broker is down at the moment
            _log.warning("connect: %s", error)
            await asyncio.sleep(_POLL_S)
    while not leaving.is_set():
        rebalances = listener.rebalances
        fetched = await consumer.getmany(timeout_ms=int(_POLL_S * 1000), max_records=_MAX_RECORDS)
        handed = {tp.partition: [record.offset for record in records] for tp, records in fetched.items()}
        journal.handed(handed)
        offsets = _next_offsets(handed)
        if offsets and rebalances == listener.rebalances:
            try:
                tps = {aiokafka.TopicPartition(options.topic, each): at for each, at in offsets.items()}
                await consumer.commit(tps)
                journal.write("committed", offsets=offsets)
            except (aiokafka.errors.KafkaError, aiokafka.errors.IllegalStateError) as error:
                _log.warning("commit: %s", error)
    await consumer.stop()


CLIENTS = {"confluent-kafka": confluent, "kafka-python": kafka_python, "aiokafka": aio}


def main(client: str, *arguments: str) -> None:
    """Be a member until the input ends."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    *texts, timeout_ms = arguments
    options = Options._make([*texts, int(timeout_ms)])
    journal, leaving = Journal(options.log), threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        leaving.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    CLIENTS[client](options, journal, leaving)
    journal.write("left")


if __name__ == "__main__":
    main(*sys.argv[1:])

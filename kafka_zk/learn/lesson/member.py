"""A member of a lesson's group: a consumer in this process that reads continuously and keeps its records."""

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import NamedTuple, cast

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import ClientClosed
from kafka_zk.clients.connection.reactor_thread import ReactorThread
from kafka_zk.clients.connection.waiting import run
from kafka_zk.clients.consumer.consumer import Consumer
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.clients.consumer.zookeeper_consumer import ZookeeperConsumer
from kafka_zk.learn.lesson.gate import Gate, GatedClient
from kafka_zk.recorder.timeline.trace_file import Traced
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.kazoo_twisted import KazooTwistedClient

COMMIT_INTERVAL_MS = 250  # Kafka's default was a minute: a killed member's last minute would be delivered twice


class Got(NamedTuple):
    """A delivered record, and its time in wall-clock seconds."""

    partition: int
    offset: int
    got_s: float


class LessonMember(ABC):
    """Call its methods on the lesson's thread. ``got`` and ``events`` only grow."""

    consumer: ZookeeperConsumer | Consumer

    def __init__(self, thread: ReactorThread, gate: Gate, name: str) -> None:
        self.name = name
        self.got: list[Got] = []
        self.events: list[Traced] = []
        """The events that the member reported, in the lesson's time."""
        self.alive = True
        self._thread = thread
        self._gate = gate

    @property
    def owned(self) -> list[TopicPartition]:
        return self.consumer.assignment() if self.alive else []

    def join(self) -> None:
        """Join the group and begin to read. Raises RegistryError, KafkaError."""

        async def join() -> None:
            await self.consumer.start()
            run(self._read(self.consumer.batches()))

        self._thread.call(join)

    @abstractmethod
    def kill(self) -> None:
        """End the member as a crash would."""

    def close(self) -> None:
        self.alive = False
        self._thread.call(self.consumer.close)

    async def _read(self, batches: AsyncIterator[list[ConsumerRecord]]) -> None:
        try:
            async for records in batches:
                now_s = time.time()
                self.got.extend(Got(record.partition, record.offset, now_s) for record in records)
        except ClientClosed:
            return

    def _happened(self, event: Event, request_count: int | None) -> None:
        self._gate.observe(event)
        in_lesson = replace(event, time_ms=self._gate.clock.lesson_ms(event.time_ms))
        self.events.append(Traced(in_lesson, request_count))


class ZookeeperMember(LessonMember):
    """A member whose watches pass the gate."""

    consumer: ZookeeperConsumer

    def __init__(
        self, thread: ReactorThread, gate: Gate, zookeeper: str, group: str, name: str, topic: str, strategy: str
    ) -> None:
        super().__init__(thread, gate, name)
        self._zookeeper = zookeeper
        self._client: KazooTwistedClient | None = None
        self.consumer = ZookeeperConsumer(
            thread.reactor,
            open_client=self._open,
            observe=self._observe,
            group_id=group,
            consumer_id=name,
            zookeeper_connect=zookeeper,
            partition_assignment_strategy=strategy,
            auto_offset_reset="smallest",
            auto_commit_interval_ms=COMMIT_INTERVAL_MS,
            fetch_wait_max_ms=20,
        )
        self.consumer.subscribe([topic])

    def kill(self) -> None:
        """End the session without releasing anything, as after a crash."""

        async def end_session() -> None:
            assert self._client is not None, "it has joined"
            await self._client.close()

        self.alive = False
        self._thread.call(end_session)

    async def _open(self) -> RegistryClient:
        timeout_ms = self.consumer.config.zookeeper_session_timeout_ms
        self._client = KazooTwistedClient(self._thread.reactor, self._zookeeper, timeout_ms)
        await self._client.start()
        return cast(RegistryClient, GatedClient(self._client, self.name, self._gate, self._thread.reactor))

    def _observe(self, event: Event) -> None:
        self._happened(event, None if self._client is None else self._client.request_count)

"""The simulated clients: producers of numbered records, members of both kinds of groups, and an admin client.

Each client has its own process, with which it is killed and paused, and records its observations in the history.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable
from random import Random
from typing import Any

from twisted.internet.defer import ensureDeferred, succeed
from twisted.python.failure import Failure

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.admin import Admin
from kafka_zk.clients.connection.errors import ClientClosed, KafkaError, NoBrokersAvailable
from kafka_zk.clients.connection.waiting import sleep
from kafka_zk.clients.consumer.consumer import Consumer
from kafka_zk.clients.consumer.errors import CommitRefused
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.clients.consumer.zookeeper_consumer import ZookeeperConsumer
from kafka_zk.clients.producer.future import RecordMetadata
from kafka_zk.clients.producer.producer import Producer
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.client.watches import DataWatcher
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.sim.machine.process import Process
from kafka_zk.sim.world.history import (
    Acked,
    Began,
    Committed,
    Ended,
    HandedOut,
    History,
    Lifted,
    Refused,
    Sent,
    Stored,
)
from kafka_zk.sim.world.world import SESSION_TIMEOUT_MS, World
from kafka_zk.sim.zookeeper.client import SimClient

GROUP = "g"
BROKER_GROUP = "broker-group"
SEND_EVERY_S = (0.02, 0.2)
KEYS = 5


def key_of(value: str, keys: int = KEYS) -> str:
    """The key of a record, derived from its number, so that producers share keys."""
    number = value.rpartition(":")[2]
    return f"key-{int(number) % keys}" if number.isdecimal() else value


class SimProducer:
    """Sends numbered records to random partitions until it is closed or killed, idempotently and with acks=all.

    ``every_s``: minimum and maximum time between two records. ``key_of``: the key for a value. ``acknowledged``: called
    for each record when the producer receives its acknowledgement.
    """

    def __init__(
        self,
        world: World,
        name: str,
        partitions: Callable[[], list[TopicPartition]],
        history: History,
        every_s: tuple[float, float] = SEND_EVERY_S,
        key_of: Callable[[str], str] = key_of,
    ) -> None:
        self.name = name
        self._every_s = every_s
        self._key_of = key_of
        self._world = world
        self._partitions = partitions
        self._history = history
        self._random = Random(f"{world.seed} {name} choices")
        self._number = 0
        self.waiting = 0
        self.is_stopping = False
        self.acknowledged: Callable[[Acked], None] = lambda fact: None
        self.process = world.process(name)
        self._make()
        self.process.callLater(self._random.uniform(*self._every_s), self._send)

    def _make(self, **options: Any) -> None:
        self._producer = Producer(
            self.process,
            connect=self._world.connect_from(self.process),
            clock=self.process,
            bootstrap_servers=self._world.bootstrap,
            linger_ms=5,
            delivery_timeout_ms=30_000,
            request_timeout_ms=5_000,
            max_block_ms=20_000,
            **options,
        )

    def _send(self) -> None:
        if self.is_stopping:
            return
        partitions = self._partitions()
        if partitions:
            self.send(self._random.choice(partitions))
        self.process.callLater(self._random.uniform(*self._every_s), self._send)

    def send(self, tp: TopicPartition, value: str | None = None) -> None:
        """Send a record. ``value``: if None, the next number."""
        self._number += 1
        value = value or f"{self.name}:{self._number}"
        self.waiting += 1
        self._history.add(Sent(self._world.now_ms, self.name, tp, value))
        producer = self._producer
        sent = producer.send(tp.topic, value.encode(), key=self._key_of(value).encode(), partition=tp.partition)

        def acked(metadata: RecordMetadata) -> None:
            self.waiting -= 1
            fact = Acked(self._world.now_ms, self.name, tp, value, metadata.offset)
            self._history.add(fact)
            self.acknowledged(fact)

        def failed(failure: Failure) -> None:
            self.waiting -= 1
            failure.trap(KafkaError, ClientClosed)
            self._history.add(Refused(self._world.now_ms, self.name, tp, value, failure.getErrorMessage()))
            if producer.intake.refusal is not None and producer is self._producer and not self.is_stopping:
                self._make()  # after a fatal error, a program would create a new producer, too

        sent.addCallbacks(acked, failed).addErrback(self._world.failed)

    def close(self) -> Any:
        """Deliver the pending records, and close the producer."""
        self.is_stopping = True
        return ensureDeferred(self._producer.close())

    def kill(self) -> None:
        self.is_stopping = True
        self.process.kill()
        self._world.network.killed(self.process)


class SimTransactionalProducer(SimProducer):
    """Sends records only in transactions. Its ``transactional.id`` is its name."""

    def __init__(self, world: World, name: str, history: History) -> None:
        super().__init__(world, name, list, history)
        self.is_in_transaction = False
        self._is_initialized = False

    def _make(self, **options: Any) -> None:
        super()._make(transactional_id=self.name, **options)

    async def begin(self) -> None:
        """Raises the errors of ``Producer.init_transactions`` and ``Producer.begin_transaction``."""
        if not self._is_initialized:
            await self._producer.init_transactions()
            self._is_initialized = True
        self._producer.begin_transaction()
        self.is_in_transaction = True
        self._history.add(Began(self._world.now_ms, self.name))

    async def end(self, *, is_committed: bool) -> None:
        """Raises the errors of ``Producer.commit_transaction`` or ``Producer.abort_transaction``."""
        producer = self._producer
        await (producer.commit_transaction() if is_committed else producer.abort_transaction())
        self.is_in_transaction = False
        self._history.add(Ended(self._world.now_ms, self.name, is_committed))


class SimGroupMember(ABC):
    """A member of a group in its own process. Processing records takes a random time."""

    client: SimClient | None = None
    """None for members that do not use ZooKeeper."""
    consumer: ZookeeperConsumer | Consumer

    def __init__(self, world: World, name: str, history: History) -> None:
        self.name = name
        self._world = world
        self._history = history
        self._random = Random(f"{world.seed} {name} choices")
        self.process: Process = world.process(name)
        self.is_over = False

    def _join(self, topic: str) -> None:
        self.consumer.subscribe([topic])
        self.process.callLater(0, self._begin)

    def _begin(self) -> None:
        ensureDeferred(self._read()).addErrback(self._world.failed)

    @abstractmethod
    async def _read(self) -> None:
        """Poll records until the consumer is closed."""

    def close(self) -> Any:
        return ensureDeferred(self.consumer.close())

    def pause(self) -> None:
        self.process.pause()
        if self.client is not None:
            self.client.pause()

    def resume(self) -> None:
        self.process.resume()
        if self.client is not None and self.process.is_alive:  # unless resuming ended the process
            self.client.resume()

    def kill(self) -> None:
        self.is_over = True
        self.process.kill()
        if self.client is not None:
            self.client.pause()
        self._world.network.killed(self.process)


class SimMember(SimGroupMember):
    """``number``: number of earlier processes with this name, so that each has a different consumer id. ``options``: of
    the consumer.
    """

    client: SimClient
    consumer: ZookeeperConsumer

    def __init__(
        self, world: World, name: str, topic: str, history: History, number: int = 1, **options: Any
    ) -> None:
        super().__init__(world, name, history)
        self.client = world.zookeeper.client(name, session_timeout_ms=SESSION_TIMEOUT_MS)
        self.consumer = ZookeeperConsumer(
            self.process,
            observe=self._observed,
            open_client=lambda: succeed(self.client),
            connect=world.connect_from(self.process),
            clock=self.process,
            random=Random(f"{world.seed} {name}"),
            group_id=GROUP,
            consumer_id=name if number == 1 else f"{name}-{number}",
            zookeeper_connect="simulated:2181",
            auto_offset_reset="earliest",
            auto_commit_interval_ms=500,
            client_id=name,
            **options,
        )
        self._join(topic)

    async def _read(self) -> None:
        try:
            while True:
                for record in await self.consumer.poll(500):
                    value = record.value.decode()
                    actor = self.consumer.consumer_id
                    self._history.add(HandedOut(self._world.now_ms, actor, record.tp, record.offset, value))
                await sleep(self.process, self._random.choice((0, 0, 0.01, 0.2)))
        except ClientClosed:
            self.is_over = True
        except RegistryError as error:  # the consumer is no longer a member; a program would end, too
            self._world.note(f"{self.name} ends: {error}")
            self.kill()

    def _observed(self, event: Event) -> None:
        self._history.add(Lifted(self._world.now_ms, self.name, event))


class SimBrokerMember(SimGroupMember):
    """Commits automatically, and sometimes explicitly. ``options``: the consumer's options."""

    consumer: Consumer

    def __init__(
        self, world: World, name: str, topic: str, history: History, assignor: str, **options: Any
    ) -> None:
        super().__init__(world, name, history)
        process = self.process
        self.consumer = Consumer(
            process,
            connect=world.connect_from(process),
            lease_clock_ms=lambda: process.seconds() * 1000,
            group_id=BROKER_GROUP,
            client_id=name,
            bootstrap_servers=world.bootstrap,
            partition_assignment_strategy=assignor,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=1_500,
            max_poll_interval_ms=10_000,
            request_timeout_ms=5_000,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=500,
            **options,
        )
        self._join(topic)

    async def _read(self) -> None:
        try:
            while True:
                try:
                    records = await self.consumer.poll(500)
                except NoBrokersAvailable:
                    await sleep(self.process, 0.5)
                    continue
                self._note(records)
                if records and self._random.random() < 0.1:
                    await self._commit({record.tp: record.offset + 1 for record in records})
                await sleep(self.process, self._random.choice((0, 0, 0.01, 0.2)))
        except ClientClosed:
            self.is_over = True

    def _note(self, records: list[ConsumerRecord]) -> None:
        for record in records:
            assert record.value is not None
            self._history.add(
                HandedOut(
                    self._world.now_ms, self.actor, record.tp, record.offset, record.value.decode(), self.generation
                )
            )

    async def _commit(self, offsets: dict[TopicPartition, int]) -> None:
        refused: Container[TopicPartition] = ()
        try:
            await self.consumer.commit(offsets)
        except CommitRefused as refusal:
            refused = refusal.reasons
        for tp, offset in offsets.items():
            if tp not in refused:
                self._history.add(Committed(self._world.now_ms, self.name, tp, offset))

    @property
    def actor(self) -> str:
        return self.consumer.group_metadata().member_id

    @property
    def generation(self) -> int:
        return self.consumer.group_metadata().generation_id


def watch_offsets(world: World, tool: SimClient, partitions: Iterable[TopicPartition], history: History) -> None:
    """Record the ZooKeeper group's commits as facts."""

    def stored(tp: TopicPartition, data: bytes | None) -> None:
        if data is not None:
            history.add(Stored(world.now_ms, tp, int(data)))

    for tp in partitions:
        path = znodes.offset_path(GROUP, *tp)
        DataWatcher(tool, path, lambda data, stat, tp=tp: stored(tp, data))  # type: ignore[misc]


def make_admin(world: World, process: Process, **options: Any) -> Admin:
    return Admin(process, connect=world.connect_from(process), bootstrap_servers=world.bootstrap, **options)

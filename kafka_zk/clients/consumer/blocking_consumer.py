"""The consumers for threads."""

import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

from kafka_zk.base.clock import monotonic_s
from kafka_zk.base.events import Observe, ignore
from kafka_zk.base.threads import ReactorThreads
from kafka_zk.clients.connection.blocking import BlockingClient, blocking, on_reactor
from kafka_zk.clients.connection.errors import ClientClosed, KafkaError
from kafka_zk.clients.connection.reactor_thread import ReactorThread, reactor_thread
from kafka_zk.clients.consumer.consumer import Consumer
from kafka_zk.clients.consumer.consumer_config import ConsumerConfig
from kafka_zk.clients.consumer.group_consumer import GroupConsumer
from kafka_zk.clients.consumer.rebalance_listener import RebalanceListener
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.clients.consumer.stream import Stream
from kafka_zk.clients.consumer.zookeeper_config import ZookeeperConsumerConfig
from kafka_zk.clients.consumer.zookeeper_consumer import ZookeeperConsumer

M = TypeVar("M", bound=GroupConsumer[Any, Any], covariant=True)


class OtherThread:
    """A user outside the reactor thread. The user's listener is called in a thread of the reactor's pool."""

    def __init__(self, reactor: Any) -> None:
        self._run = ReactorThreads(reactor)
        self.call_reactor = reactor.callFromThread

    def call(self, method: Callable[..., Any], *arguments: Any) -> Awaitable[None]:
        return self._run(lambda: method(*arguments))


class BlockingStream:
    """The records of one stream, one by one, for one thread. Requesting a record marks the previous one as processed.

    The iterator ends when the consumer is closed, or after ``consumer.timeout.ms`` without a record.
    Raises: the errors of ``Stream.poll``.
    """

    def __init__(self, thread: ReactorThread, stream: Stream, timeout_ms: int | None) -> None:
        self._thread = thread
        self._stream = stream
        self._timeout_ms = timeout_ms
        self._next = stream.handout.next

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        while True:
            record = self._next()
            if record is not None:
                return record
            try:
                if not self._thread.call(self._stream.wait, self._timeout_ms):
                    raise StopIteration
            except ClientClosed:
                raise StopIteration from None

    def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """Like ``Stream.poll``; delivers the records to this thread."""
        handout = self._stream.handout
        handout.done()
        deadline_s = monotonic_s() + timeout_ms / 1000
        left_ms = timeout_ms
        while self._thread.call(self._stream.wait, left_ms):
            if records := handout.remaining():
                return records
            left_ms = max(0, int((deadline_s - monotonic_s()) * 1000))  # all records have been revoked
        return []


class _BlockingMember(BlockingClient[M]):
    """``config``, ``consumer_id``: those of the consumer on the reactor thread."""

    def __init__(self, make: Callable[..., M], config: Any, **options: Any) -> None:
        thread = reactor_thread()
        consumer = make(thread.reactor, config, user_thread=OtherThread(thread.reactor), **options)
        super().__init__(thread, consumer)
        self.config = consumer.config
        self.consumer_id = consumer.consumer_id
        self._timeout_ms = None if self.config.consumer_timeout_ms < 0 else self.config.consumer_timeout_ms
        self._joining = threading.Lock()
        self._streams: list[BlockingStream] = []

    # --- joining ---

    def start(self) -> None:
        """Join the group, unless this consumer has joined. Reading also joins the group."""
        with self._joining:
            if not self._streams:
                self._thread.call(self._client.start)
                streams = self._client.streams
                self._streams = [BlockingStream(self._thread, each, self._timeout_ms) for each in streams]

    @property
    def streams(self) -> list[BlockingStream]:
        """One iterator per subscribed stream, each for one thread. Joins the group."""
        self.start()
        return list(self._streams)

    # --- reading ---

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self._only_stream()

    def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """The next records, at most ``max.poll.records``; an empty list if none arrive within ``timeout_ms``."""
        return self._only_stream().poll(timeout_ms)

    commit = blocking(GroupConsumer[Any, Any].commit)
    assignment = on_reactor(GroupConsumer[Any, Any].assignment)
    position = on_reactor(GroupConsumer[Any, Any].position)
    high_watermark = on_reactor(GroupConsumer[Any, Any].high_watermark)
    seek = on_reactor(GroupConsumer[Any, Any].seek)
    pause = on_reactor(GroupConsumer[Any, Any].pause)
    resume = on_reactor(GroupConsumer[Any, Any].resume)

    # --- leaving ---

    def close(self) -> None:
        """Leave the group: commit processed records and release all partitions. The iterators of all threads end.

        The records delivered last to this thread count as processed after ``commit``, and when the ``with`` block ends
        without an exception. Other threads get time to request more records: ``rebalance.backoff.ms`` in a ZooKeeper
        group, else at most 30 s. A second close does nothing.
        """
        for stream in self._client.streams:
            if stream.handout.held_by_this_thread():
                stream.awaited = False
        self._thread.call(self._client.leave)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            for stream in self._client.streams:
                if stream.handout.held_by_this_thread():
                    stream.handout.done()
        self.close()

    # --- internals ---

    def _only_stream(self) -> BlockingStream:
        self.start()
        if len(self._streams) > 1:
            raise KafkaError("a consumer with several streams must be read through its streams")
        return self._streams[0]


class BlockingZookeeperConsumer(_BlockingMember[ZookeeperConsumer]):
    """One member of a ZooKeeper group, for threads. Methods behave like those of ``ZookeeperConsumer``.

    ::

        with BlockingZookeeperConsumer(["orders"], group_id="g", zookeeper_connect="h:2181/kafka") as consumer:
            for record in consumer:
                ...

    Args:
        topics: to subscribe to now; without it, call ``subscribe``.
        listener: its methods are called in a thread of the reactor's pool and may use the consumer.
    Raises: ConfigError naming the key and the allowed values; KafkaError on the reactor thread.
    """

    config: ZookeeperConsumerConfig

    def __init__(
        self,
        topics: Iterable[str] = (),
        config: ZookeeperConsumerConfig | None = None,
        *,
        listener: RebalanceListener | None = None,
        observe: Observe = ignore,
        **options: Any,
    ) -> None:
        super().__init__(ZookeeperConsumer, config, listener=listener, observe=observe, **options)
        if topics:
            self.subscribe(topics)

    subscribe = on_reactor(ZookeeperConsumer.subscribe)


class BlockingConsumer(_BlockingMember[Consumer]):
    """One member of a broker-coordinated group, for threads. Methods behave like those of ``Consumer``.

    ::

        with BlockingConsumer(["orders"], group_id="g", bootstrap_servers="h:9092") as consumer:
            for record in consumer:
                ...

    Args:
        topics: to subscribe to now; without it, call ``subscribe``.
        listener: its methods are called in a thread of the reactor's pool and may use the consumer.
    Raises: ConfigError naming the key and the allowed values; KafkaError on the reactor thread.
    """

    config: ConsumerConfig

    def __init__(
        self,
        topics: Iterable[str] = (),
        config: ConsumerConfig | None = None,
        *,
        listener: RebalanceListener | None = None,
        **options: Any,
    ) -> None:
        super().__init__(Consumer, config, listener=listener, **options)
        if topics:
            self.subscribe(topics)

    subscribe = on_reactor(Consumer.subscribe)
    group_metadata = on_reactor(Consumer.group_metadata)

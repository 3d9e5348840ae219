"""The consumers for plain threads: ``ZookeeperConsumer`` and ``Consumer`` run in the process's reactor thread, with
iterators."""

import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from kafka_zk.base.clock import monotonic_s
from kafka_zk.base.events import Observe, ignore
from kafka_zk.base.threads import ReactorThreads
from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import ClientClosed, KafkaError
from kafka_zk.clients.connection.group_coordinator import ConsumerGroupMetadata
from kafka_zk.clients.connection.reactor_thread import ReactorThread, reactor_thread
from kafka_zk.clients.consumer.consumer import Consumer
from kafka_zk.clients.consumer.consumer_config import ConsumerConfig
from kafka_zk.clients.consumer.rebalance_listener import RebalanceListener
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.clients.consumer.starts import Start
from kafka_zk.clients.consumer.stream import Stream
from kafka_zk.clients.consumer.zookeeper_config import ZookeeperConsumerConfig
from kafka_zk.clients.consumer.zookeeper_consumer import ZookeeperConsumer

P = ParamSpec("P")
T = TypeVar("T")


class OtherThread:
    """A user in a thread of their own; their listener is called in one of the reactor's pool."""

    def __init__(self, reactor: Any) -> None:
        self._run = ReactorThreads(reactor)
        self.call_reactor = reactor.callFromThread

    def call(self, method: Callable[..., Any], *arguments: Any) -> Awaitable[None]:
        return self._run(lambda: method(*arguments))


class BlockingStream:
    """The records of one stream, one by one, for one thread; ends when the consumer is closed, or (with
    ``consumer.timeout.ms``) when no record came for that long. Requesting a record marks the one before as processed.

    Raises: what ``Stream.poll`` raises.
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
        """As ``Stream.poll``; the records are delivered to this thread."""
        handout = self._stream.handout
        handout.done()
        deadline_s = monotonic_s() + timeout_ms / 1000
        left_ms = timeout_ms
        while self._thread.call(self._stream.wait, left_ms):
            if records := handout.rest():
                return records
            left_ms = max(0, int((deadline_s - monotonic_s()) * 1000))  # they were taken away meanwhile
        return []


class _BlockingMember:
    """What the consumers of both kinds of groups have in common; promises are those of ``member``'s methods.

    Attributes:
        config, consumer_id: those of ``member``.
    """

    def __init__(self, thread: ReactorThread, member: ZookeeperConsumer | Consumer, timeout_ms: int) -> None:
        self._thread = thread
        self._member = member
        self._timeout_ms = None if timeout_ms < 0 else timeout_ms
        self.consumer_id = member.consumer_id
        self._joining = threading.Lock()
        self._streams: list[BlockingStream] = []

    # --- joining ---

    def start(self) -> None:
        """Join the group, if it has not yet; reading does so as well."""
        with self._joining:
            if not self._streams:
                self._thread.call(self._member.start)
                streams = self._member.streams
                self._streams = [BlockingStream(self._thread, each, self._timeout_ms) for each in streams]

    @property
    def streams(self) -> list[BlockingStream]:
        """An iterator for each of the streams that were subscribed with, for as many threads. Joins the group."""
        self.start()
        return list(self._streams)

    # --- reading ---

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self._only_stream()

    def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """Return the next records, at most ``max.poll.records``; an empty list when none came in ``timeout_ms``."""
        return self._only_stream().poll(timeout_ms)

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Write the next offsets to consume: those given, or those after all delivered records."""
        self._thread.call(self._member.commit, offsets)

    def assignment(self) -> list[TopicPartition]:
        """The partitions that this consumer owns now, sorted."""
        return self._on_reactor(self._member.assignment)

    def position(self, tp: TopicPartition) -> int | None:
        """The offset of the next record of an owned partition; None while its start is looked up."""
        return self._on_reactor(self._member.position, tp)

    def high_watermark(self, tp: TopicPartition) -> int:
        """The high watermark in the last response, -1 before the first one."""
        return self._on_reactor(self._member.high_watermark, tp)

    def seek(self, tp: TopicPartition, start: Start) -> None:
        """Continue at another offset of an owned partition; the next commit writes the new position."""
        self._on_reactor(self._member.seek, tp, start)

    def pause(self, *partitions: TopicPartition) -> None:
        """Deliver no more records of these owned partitions until ``resume``, or until they are reassigned."""
        self._on_reactor(self._member.pause, *partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Resume paused partitions."""
        self._on_reactor(self._member.resume, *partitions)

    # --- leaving ---

    def close(self) -> None:
        """Leave the group: commit what was processed, release all partitions; the iterators of all threads end.

        The last records delivered to this thread do not count as processed, unless ``commit`` was called; leaving the
        ``with`` block without an exception says that it is. Other threads are given time to come back for more
        (``rebalance.backoff.ms`` in a group of ZooKeeper, else 30 s at most). A second close does nothing.
        """
        for stream in self._member.streams:
            if stream.handout.held_by_this_thread():
                stream.awaited = False
        self._thread.call(self._member.leave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            for stream in self._member.streams:
                if stream.handout.held_by_this_thread():
                    stream.handout.done()
        self.close()

    # --- inside ---

    def _only_stream(self) -> BlockingStream:
        self.start()
        if len(self._streams) > 1:
            raise KafkaError("a consumer with several streams is read stream by stream")
        return self._streams[0]

    def _on_reactor(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        async def call() -> T:
            return function(*args, **kwargs)

        return self._thread.call(call)


class BlockingZookeeperConsumer(_BlockingMember):
    """One member of a group, for threads; its methods promise and raise the same as those of ``ZookeeperConsumer``.

    ::

        with BlockingZookeeperConsumer(["orders"], group_id="g", zookeeper_connect="h:2181/kafka") as consumer:
            for record in consumer:
                ...

    Args:
        topics: subscribed to at once; leave it out to call ``subscribe``.
        listener: its methods are called in a thread of their own, where the consumer may be used.
    Raises: ConfigError naming the key and what is allowed; KafkaError in the thread that the reactor runs in.
    """

    def __init__(
        self,
        topics: Iterable[str] = (),
        config: ZookeeperConsumerConfig | None = None,
        *,
        listener: RebalanceListener | None = None,
        observe: Observe = ignore,
        **options: Any,
    ) -> None:
        thread = reactor_thread()
        self._consumer = ZookeeperConsumer(
            thread.reactor,
            config,
            listener=listener,
            observe=observe,
            user_thread=OtherThread(thread.reactor),
            **options,
        )
        self.config = self._consumer.config
        super().__init__(thread, self._consumer, self.config.consumer_timeout_ms)
        if topics:
            self.subscribe(topics)

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        white_list: str | None = None,
        black_list: str | None = None,
        streams: int = 1,
    ) -> None:
        """Subscribe, once: to topics, or all whose names (do not) match a Java regular expression."""
        self._consumer.subscribe(topics, white_list=white_list, black_list=black_list, streams=streams)


class BlockingConsumer(_BlockingMember):
    """One member of a group of the broker, for threads; its methods promise and raise what ``Consumer``'s do.

    ::

        with BlockingConsumer(["orders"], group_id="g", bootstrap_servers="h:9092") as consumer:
            for record in consumer:
                ...

    Args:
        topics: subscribed to at once; leave it out to call ``subscribe``.
        listener: its methods are called in a thread of their own, where the consumer may be used.
    Raises: ConfigError naming the key and what is allowed; KafkaError in the thread that the reactor runs in.
    """

    def __init__(
        self,
        topics: Iterable[str] = (),
        config: ConsumerConfig | None = None,
        *,
        listener: RebalanceListener | None = None,
        **options: Any,
    ) -> None:
        thread = reactor_thread()
        user = OtherThread(thread.reactor)
        self._consumer = Consumer(thread.reactor, config, listener=listener, user_thread=user, **options)
        self.config = self._consumer.config
        super().__init__(thread, self._consumer, self.config.consumer_timeout_ms)
        if topics:
            self.subscribe(topics)

    def subscribe(
        self, topics: Iterable[str] = (), *, white_list: str | None = None, black_list: str | None = None
    ) -> None:
        """Subscribe, once: to topics, or all whose names (do not) match a Java regular expression."""
        self._consumer.subscribe(topics, white_list=white_list, black_list=black_list)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """See ``Consumer.group_metadata``."""
        return self._on_reactor(self._consumer.group_metadata)

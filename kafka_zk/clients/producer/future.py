"""Futures of records. A future holds only an index and its batch, which has the outcome, so a million futures need
little memory."""

import threading
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_zk.clients.connection.errors import KafkaTimeoutError

if TYPE_CHECKING:
    from kafka_zk.clients.producer.batch import ProducerBatch


class RecordMetadata(NamedTuple):
    """Where a record was written. ``offset``: -1 with acks=0, and for a duplicate whose offset the broker no longer
    knows.

    ``timestamp_ms``: the record's own, or the broker's if the topic has ``message.timestamp.type=LogAppendTime``.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class RecordFuture:
    """The outcome of one record. Awaitable on the reactor thread; ``result()`` blocks on any other thread.

    ``batch``, ``index``: the record's place; all records of a batch share its outcome.
    """

    __slots__ = ("batch", "index", "timestamp_ms")

    def __init__(self, batch: "ProducerBatch", index: int, timestamp_ms: int) -> None:
        self.batch = batch
        self.index = index
        self.timestamp_ms = timestamp_ms

    def done(self) -> bool:
        """True if the outcome is known."""
        return self.batch.done

    def value(self) -> RecordMetadata:
        """The metadata of a record that is done.

        Raises: KafkaError with the reason if it was not written.
        """
        batch, index = self.batch.locate(self.index)
        assert batch.done, "asked for the outcome of a record that has none yet"
        if batch.error is not None:
            raise batch.error_of(index)
        topic, partition = batch.tp
        timestamp_ms = self.timestamp_ms if batch.log_append_time_ms < 0 else batch.log_append_time_ms
        offset = batch.base_offset + index if batch.base_offset >= 0 else -1
        return RecordMetadata(topic, partition, offset, timestamp_ms)

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait for the outcome. Do not call this on the reactor thread, which would wait for itself.

        Raises: KafkaError with the reason if it was not written; KafkaTimeoutError after ``timeout_s``.
        """
        if not self.batch.done:
            finished = threading.Event()
            self.batch.add_listener(finished.set)
            if not finished.wait(timeout_s):
                raise KafkaTimeoutError(f"the record's outcome was not known after {timeout_s} s")
        return self.value()

    def add_done_callback(self, function: Callable[["RecordFuture"], Any]) -> None:
        """Call ``function(self)`` on the reactor thread when done; if done already, now on this thread. Its exceptions
        are logged.
        """
        self.batch.add_listener(partial(_call, function, self))

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        # A local import, because the pure modules around this one do not need Twisted.
        from twisted.internet.defer import Deferred

        if not self.batch.done:
            waiting: Deferred[None] = Deferred()
            self.batch.add_listener(lambda: waiting.callback(None))
            yield from waiting.__await__()
        return self.value()


def _call(function: Callable[[RecordFuture], Any], future: RecordFuture) -> None:
    try:
        function(future)
    except Exception:
        from twisted.logger import Logger

        Logger().failure("a callback of a record of {tp} failed", tp=future.batch.tp)

"""Records that wait for metadata, their partition or buffer memory, each for at most ``max.block.ms``.

The records of a topic wait in one queue, so that none overtakes another. Records for a partition that does not exist
yet wait separately, since it may never exist; once it does, they join the topic's queue in the order of the calls. A
waiting record uses no ``buffer.memory`` and belongs to no batch.

Source: KafkaProducer.java@3.9 (waitOnMetadata, which blocks the sending thread).
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

from twisted.internet.defer import Deferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaTimeoutError
from kafka_zk.clients.connection.waiting import Reactor, Signal, run, sleep
from kafka_zk.clients.producer.future import RecordMetadata
from kafka_zk.clients.producer.intake import Missing
from kafka_zk.clients.producer.producer_record import ProducerRecord

_FOR_EVER = float("inf")


class _Waiting(NamedTuple):
    """``number``: the number of the ``send`` call, which gives the order of the records."""

    number: int
    record: ProducerRecord
    deadline_s: float
    result: "Deferred[RecordMetadata]"


_Queue = deque[_Waiting]


class WaitingRecords:
    """The waiting records of one producer; on the reactor thread.

    Args:
        take: offers a record; returns a Deferred if it was accepted or rejected.
        wait_for: waits until a record may be offered again; raises KafkaTimeoutError after the given seconds.
        on_failed: called with the error before the records whose wait timed out fail with it.
    """

    def __init__(
        self,
        reactor: Reactor,
        max_block_ms: int,
        take: "Callable[[str, ProducerRecord], Deferred[RecordMetadata] | Missing]",
        wait_for: Callable[[Missing, str, int | None, float], Awaitable[None]],
        on_failed: Callable[[Exception], None],
    ) -> None:
        self._reactor = reactor
        self._max_block_s = max_block_ms / 1000
        self._take = take
        self._wait_for = wait_for
        self._on_failed = on_failed
        self._topics: dict[str, _Queue] = {}
        self._partitions: dict[TopicPartition, _Queue] = {}
        self._searches: dict[TopicPartition, Deferred[None]] = {}
        self._count = 0
        self._moved = Signal(reactor)

    def is_empty(self) -> bool:
        return not any(self._queues())

    def has_queue(self, topic: str) -> bool:
        """True if a record for an existing partition must wait behind others."""
        return topic in self._topics

    def add(self, topic: str, record: ProducerRecord) -> "Deferred[RecordMetadata]":
        """Fails with the error of ``wait_for`` or ``take``."""
        self._count += 1
        result: Deferred[RecordMetadata] = Deferred()
        waiting = _Waiting(self._count, record, self._reactor.seconds() + self._max_block_s, result)
        self._queue_for(topic, record.partition).append(waiting)
        return result

    async def until_gone(self) -> None:
        """Wait until each current record is accepted or has failed."""
        last = self._count
        while any(queue and queue[0].number <= last for queue in self._queues()):
            await self._moved.wait()

    def fail_all(self, error: Exception) -> None:
        """Fail all waiting records with ``error``, without calling ``on_failed``."""
        waiting = [each for queue in self._queues() for each in _pop_until(queue, _FOR_EVER)]
        for search in list(self._searches.values()):
            search.cancel()  # the search wakes up, finds its queue empty and ends
        _fail(waiting, error)
        self._moved.fire()

    def _queues(self) -> Iterator[_Queue]:
        yield from self._topics.values()
        yield from self._partitions.values()

    def _queue_for(self, topic: str, partition: int | None) -> _Queue:
        queue = self._topics.get(topic)
        if queue is None and partition is not None and (topic, partition) in self._partitions:
            queue = self._partitions[TopicPartition(topic, partition)]
        return self._topic_queue(topic) if queue is None else queue

    # --- the queue of a topic ---

    def _topic_queue(self, topic: str) -> _Queue:
        if topic not in self._topics:
            self._topics[topic] = deque()
            run(self._serve(topic))
        return self._topics[topic]

    async def _serve(self, topic: str) -> None:
        await sleep(self._reactor, 0)
        queue = self._topics[topic]
        while queue:
            first = queue.popleft()
            taken = self._take(topic, first.record)
            if isinstance(taken, Deferred):
                taken.chainDeferred(first.result)
            elif taken is Missing.PARTITION:
                self._set_apart(topic, first)
            else:
                queue.appendleft(first)
                await self._waited(taken, topic, queue)
        del self._topics[topic]
        self._moved.fire()

    async def _waited(self, missing: Missing, topic: str, queue: _Queue) -> bool:
        self._moved.fire()
        first = queue[0]
        error: Exception
        try:
            left_s = first.deadline_s - self._reactor.seconds()
            await self._wait_for(missing, topic, first.record.partition, left_s)
            return True
        except KafkaTimeoutError as timeout:
            error, until_s = timeout, max(first.deadline_s, self._reactor.seconds())
        except Exception as refusal:
            error, until_s = refusal, _FOR_EVER
        failed = _pop_until(queue, until_s)
        if failed:
            self._on_failed(error)
        _fail(failed, error)
        return False

    # --- partitions that do not exist ---

    def _set_apart(self, topic: str, waiting: _Waiting) -> None:
        assert waiting.record.partition is not None, "only a partition that was asked for can be missing"
        tp = TopicPartition(topic, waiting.record.partition)
        if tp in self._partitions:
            self._partitions[tp].append(waiting)
        else:
            self._partitions[tp] = deque([waiting])
            self._searches[tp] = run(self._search(tp))

    async def _search(self, tp: TopicPartition) -> None:
        queue = self._partitions[tp]
        while queue and not await self._waited(Missing.PARTITION, tp.topic, queue):
            pass
        del self._partitions[tp], self._searches[tp]
        if queue:
            all_of_topic = self._topic_queue(tp.topic)
            in_order = sorted((*queue, *all_of_topic))
            all_of_topic.clear()
            all_of_topic.extend(in_order)
        self._moved.fire()


def _pop_until(queue: _Queue, deadline_s: float) -> list[_Waiting]:
    popped = []
    while queue and queue[0].deadline_s <= deadline_s:
        popped.append(queue.popleft())
    return popped


def _fail(waiting: list[_Waiting], error: Exception) -> None:
    for each in waiting:
        each.result.errback(error)

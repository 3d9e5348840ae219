"""One stream of a group's consumer (Kafka: a consumer thread). Each partition belongs to one stream.

When the user requests more, the earlier records count as processed.
"""

from collections.abc import AsyncIterator, Callable

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.waiting import Reactor, Signal
from kafka_zk.clients.consumer.errors import RecordDeserializationError
from kafka_zk.clients.consumer.fetch_state import FetchState
from kafka_zk.clients.consumer.fetcher import Fetcher
from kafka_zk.clients.consumer.handout import Handout
from kafka_zk.clients.consumer.membership import Membership
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.clients.serdes import Deserializer

_LEASE_RECHECK_S = 0.05
_LONG_MS = 3_600_000


class Stream:
    """Delivers the records of ``partitions``; on the reactor thread.

    Args:
        asked: called when the user requests more records, if the release of a partition is waiting for that request.
    """

    def __init__(
        self,
        reactor: Reactor,
        number: int,
        fetcher: Fetcher,
        state: FetchState,
        deserializers: tuple[Deserializer | None, Deserializer | None],
        membership: Membership,
        asked: Callable[[], None],
    ) -> None:
        self.number = number
        self.partitions: set[TopicPartition] = set()
        self.awaited = True
        """True if the release of a partition waits for the user of this stream."""
        self.waiting_count = 0
        """Number of the user's calls that wait for records."""
        self.handout = Handout(membership.may_act, asked)
        self._reactor = reactor
        self._arrived: Signal = fetcher.arrived
        self._pump = fetcher.pump
        self._state = state
        self._deserializers = deserializers
        self._membership = membership

    async def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """The next records, at most ``max.poll.records``; an empty list if none arrive within ``timeout_ms``.

        Marks the records of the previous call as processed.
        Raises: ClientClosed; BrokerError and NoOffsetForPartition of a partition that cannot be read, until a ``seek``;
        RecordDeserializationError; RegistryError if this consumer cannot join the group.
        """
        self.handout.done()
        deadline_s = self._reactor.seconds() + timeout_ms / 1000
        while True:
            self._membership.check()
            self._load()
            if records := self.handout.remaining():
                self._pump()
                return records
            if self._reactor.seconds() >= deadline_s:
                return []
            await self._wait_until(deadline_s)

    async def batches(self) -> AsyncIterator[list[ConsumerRecord]]:
        """Yield lists of records endlessly. Raises what ``poll`` raises."""
        while True:
            if records := await self.poll(_LONG_MS):
                yield records

    async def wait(self, timeout_ms: int | None) -> bool:
        """Wait until ``handout.next`` has a record; False after the timeout. Raises what ``poll`` raises."""
        deadline_s = self._reactor.seconds() + (_LONG_MS if timeout_ms is None else timeout_ms) / 1000
        while True:
            self._membership.check()
            self._load()
            if self.handout.has_waiting and self._membership.may_act():
                self._pump()
                return True
            if self._reactor.seconds() >= deadline_s and timeout_ms is not None:
                return False
            await self._wait_until(deadline_s)

    def _load(self) -> None:
        while not self.handout.has_waiting and self._state.has_records_of(self.partitions):
            if not self._membership.may_act():
                return
            self.handout.load(self._deserialized(self._state.take(self.partitions)))

    async def _wait_until(self, deadline_s: float) -> None:
        if self.handout.has_waiting or self._state.has_records_of(self.partitions):
            # Records must not be delivered now, but the lease may be renewed at any moment.
            self._membership.report_if_ended()
            deadline_s = min(deadline_s, self._reactor.seconds() + _LEASE_RECHECK_S)
        self.waiting_count += 1
        try:
            await self._arrived.wait_until(deadline_s)
        finally:
            self.waiting_count -= 1

    def _deserialized(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        key_deserializer, value_deserializer = self._deserializers
        if key_deserializer is None and value_deserializer is None:
            return records
        done: list[ConsumerRecord] = []
        failed: set[TopicPartition] = set()
        for record in records:
            topic, partition, offset, timestamp_ms, key, value, headers, epoch, appended = record
            if failed and record.tp in failed:
                continue
            try:
                if key_deserializer is not None:
                    key = key_deserializer.deserialize(topic, key, headers)
                if value_deserializer is not None:
                    value = value_deserializer.deserialize(topic, value, headers)
            except Exception as error:
                # An exception of the deserializer is raised in the user's own call.
                tp = record.tp
                failed.add(tp)
                self._state.fail(tp, offset, RecordDeserializationError(tp, offset, error))
                continue
            done.append(ConsumerRecord(topic, partition, offset, timestamp_ms, key, value, headers, epoch, appended))
        return done

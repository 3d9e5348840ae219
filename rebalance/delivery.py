"""What a consumer does for its group driver: prepare, start, stop and drop the delivery of partitions.

All calls come on the reactor thread and return at once. Ownership is also a lease: before each hand-out of a record the
consumer asks ``Lease.may_act``, and tells ``Lease.held_back`` of records that wait for it.
"""

from collections.abc import Awaitable, Mapping
from typing import NamedTuple, Protocol

from kafka_zk.base.types import TopicPartition


class Start(NamedTuple):
    """``thread``: number of this member's stream; ``offset``: the next one to consume, -1 when none was committed."""

    thread: int
    offset: int


class Delivery(Protocol):
    """Implemented by ``ZookeeperConsumer`` and by the fakes of the simulator."""

    def prepare(self, partitions: frozenset[TopicPartition]) -> None:
        """These are claimed now, and may be started soon, or never: get ready meanwhile. Nothing is owned yet."""

    def start(self, starts: Mapping[TopicPartition, Start]) -> None:
        """These are owned now: hand out their records.

        An offset of -1 is resolved by ``auto.offset.reset`` and committed with ``GroupDriver.commit`` at once.
        May come while suspended: then nothing is handed out before ``resume``.
        """

    def stop(self, partitions: frozenset[TopicPartition]) -> Awaitable[Mapping[TopicPartition, int | None]]:
        """From this call on no record of them is handed out.

        Resolves when the user is done with the records in hand, at most ``rebalance.backoff.ms`` after the call. The
        result is the next offset to commit for each (None: nothing to commit). They are still owned until then: a
        ``drop`` of some may come in between, whose offsets do not count any more.
        """

    def drop(self, partitions: frozenset[TopicPartition]) -> None:
        """Ownership is gone: no hand-out and no commit any more, from this call on; forget what was buffered."""

    def suspend(self) -> None:
        """The connection is in doubt: hand out nothing until ``resume``; what is owned stays so."""

    def resume(self) -> None:
        """The session survived; what was dropped meanwhile was told by ``drop`` before."""

    def failed(self, error: Exception) -> None:
        """The member cannot go on (its id was taken over, ZooKeeper forbids something); all was dropped before.

        Close the client; nothing more is called.
        """

"""A group driver's interface to the consumer that delivers records.

All calls come on the reactor thread and return immediately. Before it delivers a record, the consumer also calls
``Lease.may_act``; while records wait for the lease, it calls ``Lease.report_if_ended``.
"""

from collections.abc import Awaitable, Mapping
from typing import NamedTuple, Protocol

from kafka_zk.base.types import TopicPartition


class Start(NamedTuple):
    """``thread``: number of the stream. ``offset``: -1 if none is committed."""

    thread: int
    offset: int


class Delivery(Protocol):
    """Implemented by ``ZookeeperConsumer`` and by the simulator's fakes."""

    def prepare(self, partitions: frozenset[TopicPartition]) -> None:
        """Prepare for these partitions, which are being claimed; they are not owned yet and may never be started."""

    def start(self, starts: Mapping[TopicPartition, Start]) -> None:
        """Deliver records of these partitions, which are owned now.

        An offset of -1 is resolved by ``auto.offset.reset`` and immediately committed with ``GroupDriver.commit``.
        While suspended, nothing is delivered before ``resume``.
        """

    def stop(self, partitions: frozenset[TopicPartition]) -> Awaitable[Mapping[TopicPartition, int | None]]:
        """Stop delivering records of these partitions immediately.

        Resolves when the user has finished the delivered records, at most ``rebalance.backoff.ms`` after the call, with
        the next offset to commit for each partition (None: nothing to commit). The partitions are owned until then,
        unless ``drop`` is called; the driver ignores offsets of dropped partitions.
        """

    def drop(self, partitions: frozenset[TopicPartition]) -> None:
        """Ownership is lost: stop delivery and commits immediately and discard buffered records."""

    def suspend(self) -> None:
        """Deliver nothing until ``resume``, because the session is in doubt. Ownership does not change."""

    def resume(self) -> None:
        """Resume delivery, because the session survived. Lost partitions were dropped before this call."""

    def failed(self, error: Exception) -> None:
        """Close the client, because the member failed (its id was taken over, or ZooKeeper denied access). All
        partitions were dropped before this call; no further call follows.
        """

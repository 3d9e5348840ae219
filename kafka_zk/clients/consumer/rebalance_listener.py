"""Callbacks for changes of a consumer's partitions, named as in Kafka's old consumer."""

from collections.abc import Awaitable, Collection, Mapping

from kafka_zk.base.types import TopicPartition


class RebalanceListener:
    """Override the methods you need. Blocking consumers call them in a separate thread, Twisted consumers on the
    reactor thread.

    Exceptions are logged and have no other effect. Source: ConsumerRebalanceListener.java@0.10.2.
    """

    def before_releasing_partitions(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Delivery of ``partitions`` has stopped, but they are still owned: the last chance to ``commit``.

        They are released when this method has returned (and its awaitable is done), at most ``rebalance.backoff.ms``
        after the call (in a broker-coordinated group, ``max.poll.interval.ms``). Not called for partitions lost with
        the session, whose offsets can no longer be committed.
        """
        return None

    def before_starting_fetchers(
        self, consumer_id: str, partitions: Mapping[TopicPartition, int]
    ) -> Awaitable[None] | None:
        """``partitions`` (partition -> number of its stream) are now owned. Delivery starts when this method has
        returned.

        Unlike in Kafka, ``partitions`` are those of this consumer, not of the whole group.
        """
        return None

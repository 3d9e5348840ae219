"""Callbacks around a change of a consumer's partitions; the names are those of Kafka's old consumer."""

from collections.abc import Awaitable, Collection, Mapping

from kafka_zk.base.types import TopicPartition


class RebalanceListener:
    """Override the methods you need. A consumer for threads calls these in a thread of their own, Twisted's on the
    reactor's.

    An exception is logged and changes nothing. Source: ConsumerRebalanceListener.java@0.10.2.
    """

    def before_releasing_partitions(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """No more records of ``partitions`` are delivered, but they are still owned: the last chance to ``commit``.

        They are released when this has returned (and the awaitable it returned is done), at most
        ``rebalance.backoff.ms`` after the call. Not called for partitions that were lost with the session: they cannot
        be committed any more.
        """
        return None

    def before_starting_fetchers(
        self, consumer_id: str, partitions: Mapping[TopicPartition, int]
    ) -> Awaitable[None] | None:
        """``partitions`` (to the number of their stream) are owned now; their records are delivered after this has
        returned.

        Unlike Kafka's, this names the partitions of this consumer, not those of the whole group.
        """
        return None

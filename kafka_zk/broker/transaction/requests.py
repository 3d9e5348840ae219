"""Results and effects of a transactional id."""

from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.coordinator.replies import Reply
from kafka_zk.broker.transaction.metadata import TransactionMetadata
from kafka_zk.protocol.errors import ErrorCode

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


class ProducerIdAndEpoch(NamedTuple):
    """A producer id and its epoch; both -1 if there is no producer id."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class Result(NamedTuple):
    """``producer``: the result of a successful InitProducerId."""

    error: ErrorCode
    producer: ProducerIdAndEpoch = ProducerIdAndEpoch()


class Answer(NamedTuple):
    """Send the response; ``reply`` is None if there was no request."""

    reply: Reply | None
    result: Result


class Append(NamedTuple):
    """Append this state with acks=all, then call ``appended``. ``is_retry``: pause first, because the last attempt
    failed."""

    metadata: TransactionMetadata
    is_retry: bool = False


class SendMarkers(NamedTuple):
    """Write a marker to each partition; call ``markers_written`` with those that have it."""

    producer: ProducerIdAndEpoch
    commit: bool
    tps: frozenset[TopicPartition]


class WriteTombstone(NamedTuple):
    """Write a tombstone; call ``removal_failed`` if that fails."""


Effect = Answer | Append | SendMarkers | WriteTombstone

"""What the core of a transactional id is asked, and what it wants done."""

from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.coordinator.replies import Reply
from kafka_zk.broker.transaction.metadata import TransactionMetadata
from kafka_zk.protocol.errors import ErrorCode

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


class ProducerIdAndEpoch(NamedTuple):
    """The identity of a producer."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class Result(NamedTuple):
    """What a request is answered; ``producer`` only to InitProducerId."""

    error: ErrorCode
    producer: ProducerIdAndEpoch = ProducerIdAndEpoch()


class Answer(NamedTuple):
    """Answer a request; ``reply`` is None where none was made."""

    reply: Reply | None
    result: Result


class Append(NamedTuple):
    """Write this to the log with acks=all and call ``appended``; ``is_retry``: after a pause, it has failed before."""

    metadata: TransactionMetadata
    is_retry: bool = False


class SendMarkers(NamedTuple):
    """Write the end of the transaction into each partition and call ``markers_written`` as they are."""

    producer: ProducerIdAndEpoch
    commit: bool
    tps: frozenset[TopicPartition]


class WriteTombstone(NamedTuple):
    """Remove the id from the log and call ``removed``."""


Effect = Answer | Append | SendMarkers | WriteTombstone

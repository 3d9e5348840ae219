"""The errors that only consumers of a group raise."""

from collections.abc import Mapping

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaError


class CommitRefused(KafkaError):
    """Offsets were not written because this consumer does not, or may not, own their partitions.

    ``reasons``: the reason for each partition that was not committed.
    """

    def __init__(self, reasons: Mapping[TopicPartition, str]) -> None:
        first = min(reasons)
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        super().__init__(f"the offset of {first} was not committed: {reasons[first]}{more}")
        self.reasons = dict(reasons)


class RecordDeserializationError(KafkaError):
    """The deserializer rejects a record's key or value; ``seek`` beyond the record to continue."""

    def __init__(self, tp: TopicPartition, offset: int, cause: Exception) -> None:
        super().__init__(f"the record at offset {offset} of {tp} cannot be deserialized: {cause}")
        self.tp = tp
        self.offset = offset


class NoOffsetForPartition(KafkaError):
    """A partition has no committed offset and ``auto.offset.reset`` chooses no start; ``seek`` to one."""

    def __init__(self, tp: TopicPartition) -> None:
        super().__init__(
            f"no offset is committed for {tp}, and auto.offset.reset=none: seek to one, or set earliest or latest"
        )
        self.tp = tp

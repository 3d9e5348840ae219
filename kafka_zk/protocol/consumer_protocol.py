"""What consumers say to each other through a group of the broker: of it, the assignment of a member.

The broker keeps these bytes and does not read them. Source: ConsumerProtocolAssignment.json@3.9.
"""

import struct

from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.primitives import MALFORMED, Buffer, read_count, read_name
from kafka_zk.storage.types import TopicPartition

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of groups whose members are consumers; others, Kafka Connect's for one, assign other things."""

_VERSION_BYTES = struct.calcsize(">h")
_PARTITION = struct.Struct(">i")


def read_assignment(assignment: Buffer) -> list[TopicPartition]:
    """The partitions that a member was assigned, sorted; none of no bytes. Raises: ProtocolError."""
    if not assignment:
        return []
    found = []
    try:
        topic_count, position = read_count(assignment, _VERSION_BYTES, False)
        for _ in range(topic_count):
            topic, position = read_name(assignment, position, False)
            partition_count, position = read_count(assignment, position, False)
            for _ in range(partition_count):
                (partition,) = _PARTITION.unpack_from(assignment, position)
                position += _PARTITION.size
                found.append(TopicPartition(topic, partition))
    except MALFORMED as error:
        raise ProtocolError(f"a malformed assignment of a consumer: {error}") from error
    return sorted(found)

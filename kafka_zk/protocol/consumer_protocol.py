"""The messages between the consumers of a group, which brokers only forward.

A member sends its *subscription* when it joins; the leader sends an *assignment* to each member. As Kafka requires,
newer versions are read as the newest known one, because new versions only add fields at the end.

Source: ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json, CooperativeStickyAssignor.java@3.9.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from kafka_zk.base.types import TopicPartition, partitions_by_topic
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.primitives import MALFORMED, Buffer, length, read_count, read_length, read_name, string

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of consumer groups. Other groups, such as Kafka Connect's, do not assign partitions."""
NO_GENERATION = -1

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_SUBSCRIPTION_VERSION = 3
_OWNED_SINCE = 1
_GENERATION_SINCE = 2
_ASSIGNMENT_VERSION = 0
"""All versions so far use the format of this version."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's topics, and its partitions in generation ``generation_id`` (NO_GENERATION: unknown)."""

    topics: tuple[str, ...]
    owned: frozenset[TopicPartition] = frozenset()
    generation_id: int = NO_GENERATION


def write_subscription(subscription: Subscription) -> bytes:
    """The user data repeat the generation for Java clients before 3.4."""
    return b"".join(
        (
            _INT16.pack(_SUBSCRIPTION_VERSION),
            length(len(subscription.topics), False),
            *(string(topic, False) for topic in subscription.topics),
            length(_INT32.size, False),
            _INT32.pack(subscription.generation_id),
            *_partitions(subscription.owned),
            _INT32.pack(subscription.generation_id),
            string(None, False),  # no rack
        )
    )


def read_subscription(data: Buffer) -> Subscription:
    """Raises ProtocolError if the bytes are not a valid subscription."""
    try:
        (version,) = _INT16.unpack_from(data, 0)
        count, position = read_count(data, _INT16.size, False)
        topics = []
        for _ in range(count):
            topic, position = read_name(data, position, False)
            topics.append(topic)
        size_bytes, position = read_length(data, position, False)
        user_data = data[position : position + max(size_bytes, 0)]
        position += max(size_bytes, 0)
        owned: frozenset[TopicPartition] = frozenset()
        generation_id = NO_GENERATION
        if version >= _OWNED_SINCE:
            owned, position = _read_partitions(data, position)
        if version >= _GENERATION_SINCE:
            (generation_id,) = _INT32.unpack_from(data, position)
        elif len(user_data) == _INT32.size:
            (generation_id,) = _INT32.unpack(user_data)
    except MALFORMED as error:
        raise ProtocolError(f"a malformed subscription of a consumer: {error}") from error
    return Subscription(tuple(topics), owned, generation_id)


def write_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    return b"".join((_INT16.pack(_ASSIGNMENT_VERSION), *_partitions(partitions), length(-1, False)))


def read_assignment(data: Buffer) -> list[TopicPartition]:
    """The assigned partitions, sorted. Raises ProtocolError.

    Empty data, which a coordinator sends to members without an assignment, means none.
    """
    if not data:
        return []
    try:
        return sorted(_read_partitions(data, _INT16.size)[0])
    except MALFORMED as error:
        raise ProtocolError(f"a malformed assignment of a consumer: {error}") from error


def _partitions(partitions: Iterable[TopicPartition]) -> Iterable[bytes]:
    by_topic = partitions_by_topic(sorted(partitions))
    yield length(len(by_topic), False)
    for topic, numbers in by_topic.items():
        yield string(topic, False)
        yield struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)


def _read_partitions(data: Buffer, position: int) -> tuple[frozenset[TopicPartition], int]:
    count, position = read_count(data, position, False)
    found = []
    for _ in range(count):
        topic, position = read_name(data, position, False)
        partitions, position = read_count(data, position, False)
        for number in struct.unpack_from(f">{partitions}i", data, position):
            if number < 0:
                raise ProtocolError(f"a partition number of {topic} is negative: {number}")
            found.append(TopicPartition(topic, number))
        position += _INT32.size * partitions
    return frozenset(found), position

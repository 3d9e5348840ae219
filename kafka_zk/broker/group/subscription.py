"""The topics in the metadata of joining consumers. A broker reads nothing else in this metadata.

Source: ConsumerProtocolSubscription.json@3.9, GroupMetadata.computeSubscribedTopics@3.9.
"""

import struct
from collections.abc import Iterable

from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.primitives import MALFORMED, read_count, read_name

_VERSION_BYTES = struct.calcsize(">h")

MAX_TOPICS = 100_000
"""Maximum number of subscribed topics that are read, summed over all members of a group."""


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Topics of all members; None if a member's metadata is invalid, or if there are more than MAX_TOPICS."""
    topics: set[str] = set()
    left = MAX_TOPICS
    try:
        for subscription in metadata:
            count, position = read_count(subscription, _VERSION_BYTES, False)
            left -= count
            if left < 0:
                return None
            for _ in range(count):
                topic, position = read_name(subscription, position, False)
                topics.add(topic)
    except (ProtocolError, *MALFORMED):
        return None
    return frozenset(topics)

"""Maps a partition to the partition of ``__remote_log_metadata`` that has the records about it.

Source: RemoteLogMetadataTopicPartitioner.java, TopicIdPartition.java@3.9.
"""

import struct
from uuid import UUID

from kafka_zk.base.murmur2 import murmur2

METADATA_TOPIC = "__remote_log_metadata"


def metadata_partition(topic_id: UUID, partition: int, count: int) -> int:
    """``count``: the number of partitions of ``__remote_log_metadata``."""
    high, low = struct.unpack(">QQ", topic_id.bytes)
    hashed = 1
    for part in (low ^ low >> 32, high ^ high >> 32, partition):
        hashed = (31 * hashed + (part & 0xFFFFFFFF)) & 0xFFFFFFFF
    return (murmur2(struct.pack(">I", hashed)) & 0x7FFFFFFF) % count

"""``/consumers/<group>/kafka-zk/topics/<topic>``: since which topic of that name the group reads it. Ours, not Kafka's.

    {"version":1,"czxid":"4294967338"}

``czxid`` is that of the topic's znode when a member of ours claimed a partition of it for the first time. The znode is
persistent and written once. See ``registry/group_topics.py`` for what follows from it.
"""

from kafka_zk.base.integers import INT64
from kafka_zk.registry.znodes import json_codec
from kafka_zk.registry.znodes.consumers import group_path


def group_topic_path(group: str, topic: str) -> str:
    return f"{group_path(group)}/kafka-zk/topics/{topic}"


def encode(czxid: int) -> bytes:
    return json_codec.encode({"version": 1, "czxid": str(czxid)})


def decode(path: str, data: bytes | None) -> int:
    """Raises InvalidZnode."""
    document = json_codec.decode_object(path, data)
    json_codec.version(path, document)
    return json_codec.integer(path, document, "czxid", within=INT64)

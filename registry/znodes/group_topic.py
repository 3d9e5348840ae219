"""``/consumers/<group>/kafka-zk/topics/<topic>``: the first topic of that name that the group read. Not in Kafka.

    {"version":1,"czxid":"4294967338"}

``czxid``: the czxid of the topic's znode when a kafka-zk member first claimed a partition of the topic. The znode is
persistent and written once. See ``registry/group_topics.py``.
"""

from kafka_zk.base.integers import INT64
from kafka_zk.registry.znodes import json_codec
from kafka_zk.registry.znodes.consumers import group_path


def group_topic_path(group: str, topic: str) -> str:
    return f"{group_path(group)}/kafka-zk/topics/{topic}"


def encode(czxid: int) -> bytes:
    return json_codec.encode({"version": 1, "czxid": str(czxid)})


def decode(path: str, data: bytes | None) -> int:
    """The czxid. Raises InvalidZnode."""
    document = json_codec.decode_object(path, data)
    json_codec.version(path, document)
    return json_codec.integer(path, document, "czxid", within=INT64)

"""``/admin/*``: requests to the controller, written by tools and brokers.

/admin/delete_topics/<topic>          empty; one znode for each topic to delete (0.8.1)
/admin/reassign_partitions            {"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[0,1]}]}
/admin/preferred_replica_election     {"version":1,"partitions":[{"topic":"t","partition":1}]}
"""

from collections.abc import Iterable, Mapping

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.znodes import json_codec

DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def encode_reassignment(replicas: Mapping[TopicPartition, list[int]]) -> bytes:
    return json_codec.encode(
        {
            "version": 1,
            "partitions": [
                {"topic": tp.topic, "partition": tp.partition, "replicas": replicas[tp]} for tp in sorted(replicas)
            ],
        }
    )


def decode_reassignment(data: bytes | None) -> dict[TopicPartition, list[int]]:
    """New replicas by partition. Raises InvalidZnode."""
    path = REASSIGN_PARTITIONS
    return {
        TopicPartition(
            json_codec.text(path, entry, "topic"),
            json_codec.integer(path, entry, "partition", within=json_codec.PARTITIONS),
        ): json_codec.broker_ids(path, "replicas", entry.get("replicas"))
        for entry in json_codec.object_list(path, json_codec.decode_object(path, data), "partitions")
    }


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """The JSON list of partitions in preferred replica elections and ISR change notifications."""
    listed = [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(partitions)]
    return json_codec.encode({"version": 1, "partitions": listed})


def decode_partitions(path: str, data: bytes | None) -> set[TopicPartition]:
    """The partitions in such a list. Raises InvalidZnode."""
    return {
        TopicPartition(
            json_codec.text(path, entry, "topic"),
            json_codec.integer(path, entry, "partition", within=json_codec.PARTITIONS),
        )
        for entry in json_codec.object_list(path, json_codec.decode_object(path, data), "partitions")
    }

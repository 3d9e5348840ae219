"""``/brokers/topics/<topic>`` (assignment) and ``…/partitions/<partition>/state`` (leader and ISR).

Assignment:

    v1  0.8   version, partitions {"0": [1, 2]} (first replica = preferred leader); all old tools write this
    v2  2.4   + adding_replicas, removing_replicas (same shape, only partitions that move)
    v3  2.8   + topic_id (22 characters, url-safe base64); omitted while it is not known

State, always version 1: controller_epoch, leader (-1 = none), leader_epoch, isr; ``leader_recovery_state`` only while
it is not 0 (3.2). The state znode's own ZooKeeper version is the partition epoch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from registry.errors import InvalidZnode
from registry.znodes import json_codec

TOPICS = "/brokers/topics"

Replicas = dict[int, list[int]]  # partition -> broker ids, the preferred leader first


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """Who replicates what. ``adding``/``removing`` hold only the partitions that are being reassigned."""

    partitions: Replicas
    topic_id: str | None = None
    adding: Replicas = field(default_factory=dict)
    removing: Replicas = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The last decision about a partition; ``zk_version`` is the znode's version (-1 when not read from one)."""

    leader: int
    isr: list[int]
    leader_epoch: int
    controller_epoch: int
    leader_recovery_state: int = 0
    zk_version: int = -1


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def encode_assignment(assignment: TopicAssignment) -> bytes:
    """Version 3; without ``topic_id`` when it is None."""
    document: dict[str, Any] = {
        "version": 3,
        "partitions": _encode_replicas(assignment.partitions),
        "adding_replicas": _encode_replicas(assignment.adding),
        "removing_replicas": _encode_replicas(assignment.removing),
    }
    if assignment.topic_id is not None:
        document["topic_id"] = assignment.topic_id
    return json_codec.encode(document)


def decode_assignment(topic: str, data: bytes | None) -> TopicAssignment:
    """Any historic version; partitions come sorted. Raises InvalidZnode."""
    path = topic_path(topic)
    document = json_codec.decode_object(path, data)
    if "partitions" not in document:
        raise InvalidZnode(f"{path}: 'partitions' is missing")
    return TopicAssignment(
        _decode_replicas(path, document, "partitions"),
        json_codec.optional_text(path, document, "topic_id"),
        _decode_replicas(path, document, "adding_replicas"),
        _decode_replicas(path, document, "removing_replicas"),
    )


def encode_state(state: PartitionState) -> bytes:
    document: dict[str, Any] = {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": state.isr,
    }
    if state.leader_recovery_state:
        document["leader_recovery_state"] = state.leader_recovery_state
    return json_codec.encode(document)


def decode_state(topic: str, partition: int, data: bytes | None, zk_version: int = -1) -> PartitionState:
    """Raises InvalidZnode."""
    path = state_path(topic, partition)
    document = json_codec.decode_object(path, data)
    return PartitionState(
        json_codec.integer(path, document, "leader"),
        json_codec.integer_list(path, "isr", document.get("isr")),
        json_codec.integer(path, document, "leader_epoch"),
        json_codec.integer(path, document, "controller_epoch"),
        json_codec.integer(path, document, "leader_recovery_state", 0),
        zk_version,
    )


def _encode_replicas(replicas: Mapping[int, list[int]]) -> dict[str, list[int]]:
    return {str(partition): replicas[partition] for partition in sorted(replicas)}


def _decode_replicas(path: str, document: Mapping[str, Any], key: str) -> Replicas:
    listed = document.get(key, {})
    if not isinstance(listed, dict):
        raise InvalidZnode(f"{path}: {key!r} must be an object")
    replicas: Replicas = {}
    for partition, broker_ids in listed.items():
        if not (partition.isascii() and partition.isdigit()):
            raise InvalidZnode(f"{path}: {partition!r} is not a partition number")
        replicas[int(partition)] = json_codec.integer_list(path, key, broker_ids)
    return dict(sorted(replicas.items()))

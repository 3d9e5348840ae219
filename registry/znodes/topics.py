"""``/brokers/topics/<topic>`` (assignment) and ``…/partitions/<partition>/state`` (leader and ISR).

Assignment:

    v1  0.8   version, partitions {"0": [1, 2]} (first replica = preferred leader); all old tools write this
    v2  2.4   + adding_replicas, removing_replicas (same shape, only partitions that move)
    v3  2.8   + topic_id (22 characters, url-safe base64); omitted while it is not known

State, always version 1: controller_epoch, leader (-1 = none), leader_epoch, isr; ``leader_recovery_state`` unless 0
(3.2). The znode's version is the partition epoch.
"""

import base64
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_zk.base.integers import INT8
from kafka_zk.base.steps import run_to_end
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import json_codec

TOPICS = "/brokers/topics"

_ENTRIES_A_STEP = 100
_STEP_COST = 20 * _ENTRIES_A_STEP  # approximate bytes of JSON per step

_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_NO_ID = bytes(16)

Replicas = dict[int, list[int]]  # by partition, preferred leader first
Moving = tuple[Sequence[int], Sequence[int], Sequence[int]]  # replicas, added ones, removed ones


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """``adding`` and ``removing``: by partition, the replicas that its reassignment adds and removes; empty without a
    reassignment. ``topic_id``: None if the topic has no id.

    ``faults``: sentences about entries that could not be parsed.
    """

    partitions: Replicas
    topic_id: str | None = None
    adding: Replicas = field(default_factory=dict)
    removing: Replicas = field(default_factory=dict)
    faults: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class LeaderIsrAndControllerEpoch:
    """The last leader and ISR decision about a partition.

    ``zk_version``: the znode's version. ``zxid``: the zxid of its last write. Both are -1 if unknown.
    """

    leader: int
    isr: list[int]
    leader_epoch: int
    controller_epoch: int
    leader_recovery_state: int = 0
    zk_version: int = -1
    zxid: int = field(default=-1, compare=False)


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def encode_assignment(assignment: TopicAssignment) -> bytes:
    """Encode the assignment as version 3; without ``topic_id`` if it is None."""
    document: dict[str, Any] = {
        "version": 3,
        "partitions": _encode_replicas(assignment.partitions),
        "adding_replicas": _encode_replicas(assignment.adding),
        "removing_replicas": _encode_replicas(assignment.removing),
    }
    if assignment.topic_id is not None:
        document["topic_id"] = assignment.topic_id
    return json_codec.encode(document)


def with_topic_id(topic: str, data: bytes | None, topic_id: str) -> bytes:
    """Add a missing topic id, as version 3.

    Entries that cannot be parsed stay, for an operator to repair. Raises InvalidZnode.
    """
    document = json_codec.decode_object(topic_path(topic), data)
    added = {"version": 3, "topic_id": topic_id}
    return json_codec.encode({"adding_replicas": {}, "removing_replicas": {}, **document, **added})


def with_replicas(topic: str, data: bytes | None, changed: Mapping[int, Moving]) -> bytes:
    """Change some partitions, as version 3, and nothing else.

    Raises InvalidZnode.
    """
    path = topic_path(topic)
    document = json_codec.decode_object(path, data)
    parts = {}
    for position, key in enumerate(("partitions", "adding_replicas", "removing_replicas")):
        present = document.get(key, {})
        if not isinstance(present, dict):
            raise InvalidZnode(f"{path}: {key!r} must be an object")
        parts[key] = {**present, **{str(partition): list(moving[position]) for partition, moving in changed.items()}}
    for key in ("adding_replicas", "removing_replicas"):
        parts[key] = {partition: brokers for partition, brokers in parts[key].items() if brokers}
    return json_codec.encode({**document, "version": 3, **parts})


def decode_assignment(topic: str, data: bytes | None) -> TopicAssignment:
    """Decode any historic version, with sorted partitions.

    Entries that cannot be parsed are in ``faults`` instead. Raises InvalidZnode, also without 'partitions'.
    """
    return run_to_end(decode_assignment_in_steps(topic, data))


def decode_assignment_in_steps(topic: str, data: bytes | None) -> Generator[int, None, TopicAssignment]:
    """Like ``decode_assignment``, in steps that yield their cost (see ``kafka_zk.base.turns``)."""
    path = topic_path(topic)
    document = json_codec.decode_object(path, data)
    if not isinstance(document.get("partitions"), dict):
        raise InvalidZnode(f"{path}: 'partitions' must be an object")
    faults: list[str] = []
    return TopicAssignment(
        (yield from _decode_replicas(path, document, "partitions", faults)),
        _decode_topic_id(path, document, faults),
        (yield from _decode_replicas(path, document, "adding_replicas", faults)),
        (yield from _decode_replicas(path, document, "removing_replicas", faults)),
        tuple(faults),
    )


def encode_state(state: LeaderIsrAndControllerEpoch) -> bytes:
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


def decode_state(
    topic: str, partition: int, data: bytes | None, zk_version: int = -1, zxid: int = -1
) -> LeaderIsrAndControllerEpoch:
    """Raises InvalidZnode."""
    path = state_path(topic, partition)
    document = json_codec.decode_object(path, data)
    return LeaderIsrAndControllerEpoch(
        json_codec.integer(path, document, "leader"),
        json_codec.broker_ids(path, "isr", document.get("isr")),
        json_codec.integer(path, document, "leader_epoch"),
        json_codec.integer(path, document, "controller_epoch"),
        json_codec.integer(path, document, "leader_recovery_state", 0, INT8),
        zk_version,
        zxid,
    )


def _encode_replicas(replicas: Mapping[int, list[int]]) -> dict[str, list[int]]:
    return {str(partition): replicas[partition] for partition in sorted(replicas)}


def _decode_replicas(
    path: str, document: Mapping[str, Any], key: str, faults: list[str]
) -> Generator[int, None, Replicas]:
    listed = document.get(key, {})
    if not isinstance(listed, dict):
        faults.append(f"{path}: {key!r} must be an object")
        return {}
    replicas: Replicas = {}
    for position, (partition, broker_ids) in enumerate(listed.items(), 1):
        if position % _ENTRIES_A_STEP == 0:
            yield _STEP_COST
        number = json_codec.number_of(partition, json_codec.PARTITIONS)
        if number is None:
            faults.append(f"{path}: {json_codec.shown(partition)} in {key!r} is not a partition number")
            continue
        try:
            replicas[number] = json_codec.broker_ids(path, partition, broker_ids)
        except InvalidZnode as error:
            faults.append(str(error))
    return dict(sorted(replicas.items()))


def _decode_topic_id(path: str, document: Mapping[str, Any], faults: list[str]) -> str | None:
    """The topic id in Kafka's format; None if it is missing or invalid."""
    text = document.get("topic_id")
    if text is None:
        return None
    if isinstance(text, str) and _TOPIC_ID.fullmatch(text):
        raw = base64.urlsafe_b64decode(text + "==")
        if raw != _NO_ID:
            return base64.urlsafe_b64encode(raw).decode().rstrip("=")
    faults.append(f"{path}: {json_codec.shown(text)} is not a topic id")
    return None

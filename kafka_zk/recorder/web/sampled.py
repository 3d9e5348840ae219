"""Chooses the partitions and groups to sample from those in the recording."""

from kafka_zk.base.integers import NATURAL_INT32, NATURAL_INT64, decimal_integer
from kafka_zk.base.types import TopicPartition
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.cluster_view import is_internal
from kafka_zk.recorder.web.sampler import MOST_GROUPS, Wanted
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import brokers as broker_znodes

_MOST_LOOKED_AT = 200_000
"""Maximum number of examined lanes, including those of Kafka's own topics, which are skipped."""


def to_ask(recording: Recording, protocol: str = "PLAINTEXT") -> Wanted:
    """All partitions of topics that are not internal, and the brokers with a ``protocol`` listener."""
    leaders: dict[TopicPartition, str] = {}
    for lane, leader in recording.spans.holders("leader", _MOST_LOOKED_AT).items():
        tp = _tp(lane)
        if tp is not None and not is_internal(tp.topic):
            leaders[tp] = leader
    groups = sorted({lane.rpartition(": ")[0] for lane in recording.spans.holders("assigned", _MOST_LOOKED_AT)})
    return Wanted(_addresses(recording, protocol), leaders, _in_zookeeper(recording), tuple(groups[:MOST_GROUPS]))


def _addresses(recording: Recording, protocol: str) -> tuple[str, ...]:
    found = []
    for lane in sorted(recording.spans.holders("broker", _MOST_LOOKED_AT)):
        number = lane.rpartition(" ")[2]
        znode = recording.znodes.now(f"/brokers/ids/{number}")
        if znode is None:
            continue
        try:
            endpoints = broker_znodes.decode(int(number), znode.data).endpoints
        except InvalidZnode:
            continue
        found += [f"{each.host}:{each.port}" for each in endpoints if each.protocol == protocol][:1]
    return tuple(found)


def _in_zookeeper(recording: Recording) -> dict[tuple[str, TopicPartition], int]:
    found = {}
    for lane in recording.spans.holders("owner", _MOST_LOOKED_AT):
        group, _, name = lane.rpartition(": ")
        tp = _tp(name)
        path = "" if tp is None else f"/consumers/{group}/offsets/{tp.topic}/{tp.partition}"
        znode = recording.znodes.now(path)
        text = "" if znode is None else (znode.data or b"").decode(errors="replace")
        if tp is not None and (offset := decimal_integer(text, NATURAL_INT64)) is not None:
            found[group, tp] = offset
    return found


def _tp(text: str) -> TopicPartition | None:
    topic, _, name = text.rpartition("-")
    number = decimal_integer(name, NATURAL_INT32)
    return TopicPartition(topic, number) if topic and number is not None else None

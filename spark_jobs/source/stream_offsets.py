"""A stream's offsets in Spark's checkpoint: the position in each partition, and the id of its topic.

    {"flights": {"0": 23, "1": 25}, "topic ids": {"flights": "id:8f3c…"}}

Topic names have no spaces, so "topic ids" is not a topic. An id is the topic id, or the czxid of the topic's znode if
brokers have no topic ids (before 2.8); without ZooKeeper such an id is unknown. Checkpoints of earlier versions have no
ids and still work. Pure.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.source.offset_specs import format_offsets, offsets_of

_IDS = "topic ids"


class StreamOffsets(NamedTuple):
    """``offsets``: the next offset of each partition. ``ids``: topic -> its id, as far as it is known."""

    offsets: dict[TopicPartition, int]
    ids: dict[str, str]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "StreamOffsets":
        """The inverse of ``document``."""
        topics = {name: each for name, each in document.items() if name != _IDS}
        return cls(offsets_of(topics), dict(document.get(_IDS, {})))

    def document(self) -> dict[str, Any]:
        topics = {tp.topic for tp in self.offsets}
        ids = {name: self.ids[name] for name in sorted(self.ids) if name in topics}
        return {**format_offsets(self.offsets), **({_IDS: ids} if ids else {})}

    def recreated(self, ids: Mapping[str, str]) -> set[str]:
        """The topics whose ids differ. Ids of different kinds, as after an upgrade of the brokers, are not compared."""
        return {name for name, each in self.ids.items() if name in ids and _are_two(each, ids[name])}


def _are_two(before: str, now: str) -> bool:
    return before != now and before.partition(":")[0] == now.partition(":")[0]

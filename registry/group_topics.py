"""Detects a group's stored offsets of an earlier topic of the same name.

When a topic is deleted, Kafka keeps its offsets in ZooKeeper. In a recreated topic, these offsets would skip records.
Zxids, which grow with every write, reveal such offsets. An offset belongs to an earlier topic if both hold:

    the group has read an earlier topic   the first czxid that it stored is below the current topic's
    the offset is older than the topic    its mzxid, from its last write, is below the topic's czxid

Without a stored czxid, offsets are trusted: only Kafka's consumers have read the topic, or the offsets were imported
before the topic was created.
"""

from collections.abc import Awaitable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from twisted.logger import Logger

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.client import RegistryClient, ZnodeStat
from kafka_zk.registry.client.errors import InvalidZnode, NodeExists, RegistryError
from kafka_zk.registry.client.pipeline import ensure_paths, found, outcomes
from kafka_zk.registry.znodes import group_topic as znodes
from kafka_zk.registry.znodes.consumers import offset_path
from kafka_zk.registry.znodes.topics import topic_path

_log = Logger()

_NONE_IS_EARLIER = 2**63


class GroupTopic(NamedTuple):
    """A topic as a group sees it: the czxid of its znode (0: no such topic), and the czxid of the first topic of this
    name that the group read."""

    czxid: int = 0
    first_czxid: int | None = None  # None: unknown

    def outdates(self, offset: ZnodeStat) -> bool:
        """True if the offset belongs to an earlier topic."""
        return self.first_czxid is not None and self.first_czxid < self.czxid and offset.mzxid < self.czxid


class TopicsRead:
    """Reads several topics and interprets the results."""

    def __init__(self, registry: "GroupTopicRegistry", topics: Collection[str]) -> None:
        self._registry = registry
        self._topics = list(topics)
        self._first_read = [topic for topic in topics if topic not in registry.first]

    def reads(self) -> list[Awaitable[Any]]:
        """Requests to send with others, and await through ``pipeline.found``."""
        return [self._registry.present(topic) for topic in self._topics] + [
            self._registry.stored(topic) for topic in self._first_read
        ]

    def seen(self, answers: Collection[Any]) -> dict[str, GroupTopic]:
        """The topics, from the results of ``reads``."""
        listed = list(answers)
        for topic, answer in zip(self._first_read, listed[len(self._topics) :], strict=True):
            if answer is not None:
                self._registry.first[topic] = self._registry.decode(topic, answer[0])
        return {
            topic: GroupTopic(0 if stat is None else stat.czxid, self._registry.first.get(topic))
            for topic, stat in zip(self._topics, listed, strict=False)
        }


class GroupTopicRegistry:
    """One group's topics. ``first``: topic -> stored czxid, for topics read so far. A stored czxid never changes."""

    def __init__(self, client: RegistryClient, group: str) -> None:
        self._client = client
        self._group = group
        self.first: dict[str, int] = {}

    def begin_read(self, topics: Collection[str]) -> "TopicsRead":
        """Begin to read topics. Several reads may be in progress."""
        return TopicsRead(self, topics)

    async def remember(self, topics: Mapping[str, GroupTopic]) -> None:
        """Store czxids of topics that the group reads for the first time."""
        fresh = {topic: each.czxid for topic, each in topics.items() if each.first_czxid is None and each.czxid}
        if not fresh:
            return
        await ensure_paths(self._client, [self._path(next(iter(fresh))).rpartition("/")[0]])
        created = await outcomes(
            self._client.create(self._path(topic), znodes.encode(czxid)) for topic, czxid in fresh.items()
        )
        for (topic, czxid), outcome in zip(fresh.items(), created, strict=True):
            if not isinstance(outcome, RegistryError):
                self.first[topic] = czxid
            elif not isinstance(outcome, NodeExists):  # otherwise, another member wrote it; the next read finds it
                raise outcome

    def present(self, topic: str) -> Awaitable[ZnodeStat | None]:
        """The stat of the topic's own znode; None if absent."""
        return self._client.exists(topic_path(topic))

    def stored(self, topic: str) -> Awaitable[Any]:
        """Read the group's znode for the topic."""
        return self._client.get(self._path(topic))

    def _path(self, topic: str) -> str:
        return znodes.group_topic_path(self._group, topic)

    def decode(self, topic: str, data: bytes | None) -> int:
        """The group's czxid; if the content is invalid, a number with which no offset counts as outdated."""
        try:
            return znodes.decode(self._path(topic), data)
        except InvalidZnode as error:
            _log.warn("offsets are used although they may belong to an earlier topic: {error}", error=error)
            return _NONE_IS_EARLIER


async def outdated(client: RegistryClient, group: str, tps: Iterable[TopicPartition]) -> set[TopicPartition]:
    """The partitions whose stored offset belongs to an earlier topic of the same name."""
    listed = list(tps)
    reading = GroupTopicRegistry(client, group).begin_read(sorted({tp.topic for tp in listed}))
    reads = reading.reads()
    answers = await found([*reads, *(client.exists(offset_path(group, *tp)) for tp in listed)])
    seen = reading.seen(answers[: len(reads)])
    offsets = zip(listed, answers[len(reads) :], strict=True)
    return {tp for tp, stat in offsets if isinstance(stat, ZnodeStat) and seen[tp.topic].outdates(stat)}

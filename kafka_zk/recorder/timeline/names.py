"""Names of members, paths and partitions, for sentences. Pure."""

import re
from collections.abc import Iterable, Mapping

from kafka_zk.base.types import TopicPartition, partitions_by_topic
from kafka_zk.registry.znodes.consumers import consumer_of

_GENERATED_ID = re.compile(r".*-[0-9]{13}-([0-9a-f]{8})")


class Names:
    def member(self, consumer_id: str) -> str:
        return consumer_id

    def path(self, path: str) -> str:
        return path

    def thread(self, thread_id: str) -> str:
        """The owner in an owner znode: the member's name and the thread's number."""
        member = consumer_of(thread_id)
        return self.member(member) + thread_id.removeprefix(member)

    def members(self, consumer_ids: Iterable[str]) -> str:
        """``anna, ben``, or ``no members``."""
        return ", ".join(map(self.member, consumer_ids)) or "no members"


class GroupNames(Names):
    """Names of one group's members and paths, without their common prefix."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._root = f"/consumers/{group_id}/"

    def member(self, consumer_id: str) -> str:
        return short_name(self._group_id, consumer_id)

    def path(self, path: str) -> str:
        return path.removeprefix(self._root)


def short_name(group_id: str, consumer_id: str) -> str:
    """The random end of a generated id, or what follows the group's name."""
    generated = _GENERATED_ID.fullmatch(consumer_id)
    return generated[1] if generated else consumer_id.removeprefix(f"{group_id}_")


def listed(partitions: Iterable[TopicPartition]) -> str:
    """Partitions by topic, such as ``t-0,1,4 u-2``, or ``nothing``."""
    by_topic = partitions_by_topic(sorted(partitions))
    return " ".join(f"{topic}-{','.join(map(str, numbers))}" for topic, numbers in by_topic.items()) or "nothing"


def listed_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Partitions by offset, such as ``t-0,1 at 5, t-2 at 7``; -1 is "without an offset"."""
    by_offset: dict[int, list[TopicPartition]] = {}
    for tp, offset in sorted(offsets.items()):
        by_offset.setdefault(offset, []).append(tp)
    return ", ".join(
        f"{listed(tps)} {f'at {offset}' if offset >= 0 else 'without an offset'}" for offset, tps in by_offset.items()
    ) or "nothing"


def counted(count: int, noun: str) -> str:
    """``1 partition``, ``1,200 partitions``."""
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"


def duration(ms: int) -> str:
    """``850 ms``, ``40 s``, ``12 min``."""
    return f"{ms} ms" if ms < 10_000 else f"{ms / 1000:.0f} s" if ms < 600_000 else f"{ms / 60_000:.0f} min"

"""Names of members, paths and partitions, for sentences. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence

from kafka_zk.base.types import TopicPartition, partitions_by_topic
from kafka_zk.registry.znodes.consumers import consumer_of

_MOST_NUMBERS = 12
"""Maximum number of partitions, or of offsets, that are listed one by one."""
_MOST_RANGES = 6
_MOST_TOPICS = 12
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
    """The random end of a generated id, or the part after the group's name."""
    generated = _GENERATED_ID.fullmatch(consumer_id)
    return generated[1] if generated else consumer_id.removeprefix(f"{group_id}_")


def listed(partitions: Iterable[TopicPartition]) -> str:
    """Partitions by topic, such as ``t-0,1,4 u-2``, or ``nothing``. Many are summarised: ``t-0…1999``."""
    topics = list(partitions_by_topic(sorted(partitions)).items())
    shown = " ".join(f"{topic}-{_numbers(numbers)}" for topic, numbers in topics[:_MOST_TOPICS])
    more = len(topics) - _MOST_TOPICS
    return f"{shown} and {counted(more, 'more topic')}" if more > 0 else shown or "nothing"


def _numbers(numbers: Sequence[int]) -> str:
    """``0,1,4``; many as ranges: ``0…99,200,205 and 1,795 more``."""
    if len(numbers) <= _MOST_NUMBERS:
        return ",".join(map(str, numbers))
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        begins = not ranges or number != ranges[-1][1] + 1
        ranges[len(ranges) if begins else -1 :] = [(number if begins else ranges[-1][0], number)]
    shown = ranges[:_MOST_RANGES]
    more = len(numbers) - sum(last - first + 1 for first, last in shown)
    told = ",".join(f"{first}" if first == last else f"{first}…{last}" for first, last in shown)
    return f"{told} and {more:,} more" if more else told


def listed_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Partitions by offset, such as ``t-0,1 at 5, t-2 at 7``; -1 is "without an offset". Many are summarised."""
    by_offset: dict[int, list[TopicPartition]] = {}
    for tp, offset in sorted(offsets.items()):
        by_offset.setdefault(offset, []).append(tp)
    told = [
        f"{listed(tps)} {f'at {offset}' if offset >= 0 else 'without an offset'}" for offset, tps in by_offset.items()
    ]
    if len(told) > _MOST_NUMBERS:
        rest = sum(map(len, list(by_offset.values())[_MOST_RANGES:]))
        told = [*told[:_MOST_RANGES], f"and {counted(rest, 'more partition')}"]
    return ", ".join(told) or "nothing"


def counted(count: int, noun: str) -> str:
    """``1 partition``, ``1,200 partitions``."""
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"


def duration(ms: int) -> str:
    """``850 ms``, ``40 s``, ``12 min``."""
    return f"{ms} ms" if ms < 10_000 else f"{ms / 1000:.0f} s" if ms < 600_000 else f"{ms / 60_000:.0f} min"

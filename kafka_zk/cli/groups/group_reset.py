"""Kafka's kafka-consumer-groups --reset-offsets, for both kinds of groups.

Source: ConsumerGroupCommand.prepareOffsetsToReset, checkOffsetsRange@3.9.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafka_zk.base.integers import NATURAL_INT32, decimal_integer
from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.output import note

if TYPE_CHECKING:
    from kafka_zk.clients.admin.blocking_admin import BlockingAdmin

Offsets = Mapping[TopicPartition, int]

_NO_SUCH = "no such topic, or no such partition of it"


class Target(NamedTuple):
    """The new offsets; exactly one field is set. ``current``: the committed offset or, if nothing is committed, the log
    end."""

    earliest: bool = False
    latest: bool = False
    current: bool = False
    time_ms: int | None = None
    shift_by: int | None = None
    offset: int | None = None
    planned: Offsets | None = None

    def given(self) -> int:
        return sum(each is not None and each is not False for each in self)


def chosen_partitions(
    admin: "BlockingAdmin", topics: Sequence[str], current: Offsets, planned: Offsets | None = None
) -> list[TopicPartition]:
    """The partitions of ``topics``. Without topics: those in ``planned``; without a plan: those with an offset.

    Raises: CommandFailed, KafkaError.
    """
    from kafka_zk.cli.terminal.brokers import check_topics

    meant = current if planned is None else planned
    names = {text.partition(":")[0] for text in topics} or {tp.topic for tp in meant}
    if topics or planned is not None:
        check_topics(admin, sorted(names))
    described = admin.describe_topics(sorted(names.intersection(admin.list_topics())))
    known = {name: [each.partition for each in topic.partitions] for name, topic in described.items()}
    if topics:
        return parse_topics(topics, known)
    if planned is not None:
        return parse_topics((f"{tp.topic}:{tp.partition}" for tp in planned), known)
    return sorted(tp for tp in current if tp.partition in known.get(tp.topic, ()))


def parse_topics(
    wanted: Iterable[str], partitions_of: Mapping[str, Iterable[int]], lacking: str = _NO_SUCH
) -> list[TopicPartition]:
    """Parse ``topic`` or ``topic:0,1`` into sorted partitions.

    Raises: CommandFailed with ``lacking`` if a partition does not exist.
    """
    chosen: set[TopicPartition] = set()
    for text in wanted:
        topic, colon, numbers = text.partition(":")
        known = set(partitions_of.get(topic, ()))
        listed = {decimal_integer(number, NATURAL_INT32) for number in numbers.split(",")} if colon else known
        if not listed or not known.issuperset(listed) or (colon and len(listed) != len(numbers.split(","))):
            raise CommandFailed(f"{text}: {lacking}")
        chosen |= {TopicPartition(topic, number) for number in known.intersection(listed)}
    return sorted(chosen)


def new_offsets(
    admin: "BlockingAdmin", partitions: list[TopicPartition], current: Offsets, target: Target
) -> dict[TopicPartition, int]:
    """The new offsets, clamped to each partition's log. Raises CommandFailed, KafkaError."""
    from kafka_zk.clients.connection.list_offsets import EARLIEST, LATEST

    def listed(spec: int) -> dict[TopicPartition, int]:
        """The offsets in the order of ``partitions``; brokers respond in any order."""
        found = admin.list_offsets(dict.fromkeys(partitions, spec))
        return {tp: found[tp].offset for tp in partitions}

    earliest, latest = listed(EARLIEST), listed(LATEST)
    if target.earliest:
        return earliest
    if target.latest:
        return latest
    if target.time_ms is not None:
        return {tp: latest[tp] if offset < 0 else offset for tp, offset in listed(target.time_ms).items()}
    return {tp: _within(tp, _wished(tp, current, latest[tp], target), earliest[tp], latest[tp]) for tp in partitions}


def _wished(tp: TopicPartition, current: Offsets, latest: int, target: Target) -> int:
    if target.offset is not None:
        return target.offset
    if target.planned is not None:
        return target.planned[tp]
    if target.current:
        return current.get(tp, latest)
    assert target.shift_by is not None
    if tp not in current:
        raise CommandFailed(f"the offset of {tp} cannot be shifted: the group has no committed offset")
    return current[tp] + target.shift_by


def _within(tp: TopicPartition, wished: int, earliest: int, latest: int) -> int:
    if not earliest <= wished <= latest:
        note(f"{tp}: offset {wished} is out of range, {earliest} to {latest}; the nearer end is used.")
    return max(earliest, min(wished, latest))

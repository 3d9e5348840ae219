"""Groups in ZooKeeper that move their offsets to the brokers: the Scala consumers of 0.8.2.2 and 0.10.2.2, and ours, on
our brokers and on Kafka's.

They use OffsetCommit 1 and 2, OffsetFetch 1 and FindCoordinator 0 (ConsumerMetadataRequest).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tests.peers.groups.mixed_group import CONSUMED_S, KINDS, Member, MixedGroup
from tests.peers.processes import wait_until
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

_PARTITIONS = 4
_IN_ZOOKEEPER: dict[str, str] = {}
_IN_BOTH = {"offsets.storage": "kafka", "dual.commit.enabled": "true"}
_IN_KAFKA = {"offsets.storage": "kafka", "dual.commit.enabled": "false"}

Offsets = dict[int, int]


@pytest.fixture
def group(target: Target, tmp_path: Path) -> Iterator[MixedGroup]:
    name = f"moving{uuid.uuid4().hex[:8]}"
    target.create_topic(name, partitions=_PARTITIONS)
    made = MixedGroup(target, name, name, _PARTITIONS, tmp_path / name)
    yield made
    made.close()


@pytest.fixture
def in_kafka(target: Target, group: MixedGroup) -> Iterator[Callable[[], Offsets]]:
    """The offsets at the group's coordinator, as librdkafka sees them."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": target.bootstrap, "group.id": group.name, "log_level": 3}
    )
    wanted = [confluent_kafka.TopicPartition(group.topic, number) for number in range(_PARTITIONS)]

    def offsets() -> Offsets:
        return {each.partition: each.offset for each in consumer.committed(wanted, timeout=30) if each.offset >= 0}

    yield offsets
    consumer.close()


def _one_reads(group: MixedGroup, kind: str, config: dict[str, str]) -> tuple[Offsets, Offsets]:
    """Write records, and let a single member consume them and leave. Returns its first and its last position."""
    group.config = config
    member = group.join(kind)
    wait_until(lambda: len(_partitions(member)) == _PARTITIONS, CONSUMED_S, "records of all partitions")
    group.wait_consumed()
    group.leave(member)
    begun: Offsets = {}
    for partition, offset in member.consumed():
        begun.setdefault(partition, offset)
    group.write()
    return begun, {partition: offset + 1 for partition, offset in member.consumed()}


def _partitions(member: Member) -> set[int]:
    return {position.partition for position in member.consumed()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_moves_its_offsets_to_the_broker(
    group: MixedGroup, in_kafka: Callable[[], Offsets], kind: str
) -> None:
    """The offsets are in ZooKeeper first, then on both sides, then only at the broker: each member begins where the
    last one stopped.
    """
    _, first = _one_reads(group, kind, _IN_ZOOKEEPER)
    assert (group.offsets(), in_kafka()) == (first, {})
    begun, second = _one_reads(group, kind, _IN_BOTH)
    assert begun == first
    assert (group.offsets(), in_kafka()) == (second, second)
    begun, third = _one_reads(group, kind, _IN_KAFKA)
    assert begun == second
    assert (group.offsets(), in_kafka()) == (second, third)
    begun, fourth = _one_reads(group, kind, _IN_BOTH)
    assert begun == third, "the member did not begin at the larger offset"
    assert (group.offsets(), in_kafka()) == (fourth, fourth)


def test_all_three_share_a_group_that_commits_to_both_sides(
    group: MixedGroup, in_kafka: Callable[[], Offsets]
) -> None:
    """Members come and go while they commit to both sides; at the end, both sides have the end offsets of all
    partitions."""
    group.config = _IN_BOTH
    for kind in KINDS:
        group.join(kind)
    group.settle()
    group.leave(group.live[0])
    group.settle()
    group.kill(group.live[0])
    group.settle()
    group.wait_consumed()
    ends = {partition: group.target.end_offset(group.topic, partition) for partition in range(_PARTITIONS)}
    wait_until(lambda: group.offsets() == ends == in_kafka(), CONSUMED_S, "both sides to have everything")

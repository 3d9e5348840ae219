"""Our consumer and Kafka's Scala consumers of 0.8.2.2 and 0.10.2.2 in one group, on our brokers and on Kafka's.

The Scala consumers have no fencing, so a mixed group can only promise at-least-once. `--rounds 30` makes the long test
that long; `--seed` changes the joins and leaves.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.peers import java
from tests.peers.groups.mixed_group import CONSUMED_S, KINDS, OURS, Member, MixedGroup
from tests.peers.jars import LEGACY_VERSIONS, MAGIC_1_VERSION
from tests.peers.processes import wait_until
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

_PARTITIONS = 8
_ROUNDS_LEAST = 6
_MEMBERS_MOST = 5

MakeGroup = Callable[..., MixedGroup]


@pytest.fixture
def make_group(target: Target, tmp_path: Path) -> Iterator[MakeGroup]:
    """`make_group(partitions=…, ours="…")`: a new group, with a new topic of the same name."""
    groups: list[MixedGroup] = []

    def make(partitions: int = _PARTITIONS, **options: str) -> MixedGroup:
        name = f"mixed{uuid.uuid4().hex[:8]}"
        target.create_topic(name, partitions=partitions)
        groups.append(MixedGroup(target, name, name, partitions, tmp_path / name, **options))
        return groups[-1]

    yield make
    for group in groups:
        group.close()


def test_members_come_and_go_and_no_message_is_lost(make_group: MakeGroup, pytestconfig: pytest.Config) -> None:
    """After each join, leave and kill, all members agree on the owners, by Kafka's own rule."""
    rng = random.Random(pytestconfig.getoption("seed"))
    group = make_group()
    for kind in KINDS:
        group.join(kind)
    group.settle()
    for _ in range(max(_ROUNDS_LEAST, pytestconfig.getoption("rounds"))):
        actions = ["join"] * (len(group.live) < _MEMBERS_MOST) + ["leave", "kill"] * (len(group.live) > 1)
        action = rng.choice(actions)
        if action == "join":
            group.join(rng.choice(KINDS))
        elif action == "leave":
            group.leave(rng.choice(group.live))
        else:
            group.kill(rng.choice(group.live))
        group.settle()
    group.wait_consumed()


@pytest.mark.parametrize("ours", ["roundrobin,range", "cooperative,roundrobin"])
def test_beside_a_scala_member_that_runs_range_ours_do_too_whatever_they_list(make_group: MakeGroup, ours: str) -> None:
    """With any other strategy, some partitions would have no owner."""
    group = make_group(ours=ours)
    first = group.join(OURS)
    group.join(OURS)
    group.settle()
    group.join(MAGIC_1_VERSION)
    group.settle()
    group.leave(first)
    group.settle()
    group.wait_consumed()


@pytest.mark.parametrize("version", LEGACY_VERSIONS)
@pytest.mark.parametrize("ours_first", [True, False])
def test_the_offsets_of_one_side_are_resumed_by_the_other(
    make_group: MakeGroup, version: str, ours_first: bool
) -> None:
    """After a clean leave, the next member begins exactly where the first one stopped."""
    group = make_group()
    first = group.join(OURS if ours_first else version)
    wait_until(lambda: _partitions(first) == set(range(_PARTITIONS)), CONSUMED_S, "records of all partitions")
    group.wait_consumed()
    group.leave(first)
    stored = group.offsets()
    assert stored == {partition: offset + 1 for partition, offset in first.consumed()}
    group.write()
    second = group.join(version if ours_first else OURS)
    wait_until(lambda: _partitions(second) == set(range(_PARTITIONS)), CONSUMED_S, "records of all partitions")
    group.wait_consumed()
    begun: dict[int, int] = {}
    for partition, offset in second.consumed():
        begun.setdefault(partition, offset)
    assert begun == stored


def _partitions(member: Member) -> set[int]:
    return {position.partition for position in member.consumed()}


def test_the_tools_of_0_10_read_our_group(target: Target, make_group: MakeGroup) -> None:
    """The tools are ConsumerOffsetChecker, ConsumerGroupCommand and VerifyConsumerRebalance; each runs to its end."""
    group = make_group(partitions=3)
    members = [group.join(OURS), group.join(OURS)]
    group.settle()
    group.wait_consumed()
    ends = {partition: offset + 1 for member in members for partition, offset in member.consumed()}
    wait_until(lambda: group.offsets() == ends, CONSUMED_S, "everything to be committed")
    owners = group.owners()

    def tool(main_class: str, *arguments: str) -> list[list[str]]:
        ran = java.run_tool(MAGIC_1_VERSION, main_class, [*arguments, "--group", group.name])
        return [line.split() for line in ran.text.splitlines() if line]

    checked = tool("kafka.tools.ConsumerOffsetChecker", "--zookeeper", target.zookeeper)
    assert checked[1:] == [
        [group.name, group.topic, str(partition), str(end), str(end), "0", owners[partition]]
        for partition, end in sorted(ends.items())
    ]
    described = tool("kafka.admin.ConsumerGroupCommand", "--zookeeper", target.zookeeper, "--describe")
    assert sorted(described[1:]) == sorted(
        [group.topic, str(partition), str(end), str(end), "0", owners[partition].rpartition("-")[0]]
        for partition, end in ends.items()
    )
    verified = tool("kafka.tools.VerifyConsumerRebalance", "--zookeeper.connect", target.zookeeper)
    assert ["Rebalance", "operation", "successful", "!"] in verified

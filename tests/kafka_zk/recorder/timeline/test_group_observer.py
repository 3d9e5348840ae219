"""The events of a group's observer, whatever its znodes contain."""

from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.recorder.timeline.events import OwnersSeen
from kafka_zk.recorder.timeline.group_observer import GroupObserver
from kafka_zk.registry.znodes import consumers as znodes
from tests.rebalance.old_consumer import GROUP
from tests.rebalance.world import Group


def test_an_owner_of_what_is_no_partition_hides_no_other_owner() -> None:
    group = Group({"t": 2})
    group.join_all("a")
    for name in ("²", "9" * 5000, "x"):
        group.scheduler.run(group.tool.create(f"{znodes.owners_path(GROUP, 't')}/{name}", b"x-0"))
    seen: list[Any] = []
    observer = GroupObserver(group.tool, GROUP, seen.append)
    group.settle()
    observer.close()
    owners = [event for event in seen if isinstance(event, OwnersSeen)]
    assert {tp for event in owners for tp in event.offsets} == {TopicPartition("t", 0), TopicPartition("t", 1)}

"""Groups as a whole: listing them, detecting dead ones, and deleting them."""

import pytest

from kafka_zk.registry.client.client import Create, RegistryClient
from kafka_zk.registry.client.errors import GroupNotEmpty, NoNode
from kafka_zk.registry.consumers import ConsumerRegistry
from kafka_zk.registry.group_assignments import ABSENT, GroupAssignmentRegistry
from kafka_zk.registry.group_topics import GroupTopic, GroupTopicRegistry
from kafka_zk.registry.groups import check_empty, delete_group, delete_group_offsets, delete_group_topic, groups
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.owners import OwnerRegistry
from kafka_zk.registry.znodes.consumers import ConsumerRegistration, group_path
from kafka_zk.registry.znodes.group_assignment import GroupAssignment
from tests.registry.group_lab import GROUP, GroupLab, claims, create_znode, tp
from tests.registry.world import World


def join(lab: GroupLab, client: RegistryClient) -> None:
    lab.run(ConsumerRegistry(client, GROUP, lab.clock).register("a", ConsumerRegistration({"t": 1})))
    lab.run(OwnerRegistry(client, GROUP).claim(claims("a", 0)))
    assignment = GroupAssignment(1, "sticky", "a", {tp(0): "a-0"})
    lab.run(GroupAssignmentRegistry(client, GROUP).write(assignment, ABSENT))


async def children(client: RegistryClient, path: str) -> list[str]:
    return (await client.children(path))[0]


def test_a_group_lives_as_long_as_it_has_members(lab: GroupLab) -> None:
    """Complaint 23: dead groups can be identified and deleted."""
    member, tool = lab.clients[0], lab.clients[1]
    assert lab.run(groups(tool)) == {}
    join(lab, member)
    lab.run(OffsetRegistry(tool, "imported").store({tp(0): 1}))
    assert lab.run(groups(tool)) == {GROUP: 1, "imported": 0}
    with pytest.raises(GroupNotEmpty, match=r"group g has 1 live members \(a\); stop them first"):
        lab.run(delete_group(tool, GROUP))
    lab.expire(member)
    assert lab.run(groups(tool)) == {GROUP: 0, "imported": 0}
    lab.run(delete_group(tool, GROUP))
    lab.run(delete_group(tool, "imported"))
    assert lab.run(groups(tool)) == {}
    with pytest.raises(NoNode, match="there is no group g"):
        lab.run(delete_group(tool, GROUP))


def test_one_topic_of_a_dead_group_can_go(lab: GroupLab) -> None:
    client = lab.clients[0]
    lab.run(OffsetRegistry(client, GROUP).store({tp(0): 1, tp(1): 1, tp(0, "u"): 2}))
    lab.run(GroupTopicRegistry(client, GROUP).remember({"t": GroupTopic(7), "u": GroupTopic(8)}))
    lab.run(delete_group_topic(client, GROUP, "t"))
    assert lab.run(OffsetRegistry(client, GROUP).partitions()) == [tp(0, "u")]
    assert lab.run(children(client, f"{group_path(GROUP)}/kafka-zk/topics")) == ["u"]
    lab.run(check_empty(client, GROUP))


def test_some_offsets_of_a_dead_group_can_go(lab: GroupLab) -> None:
    """Offsets that do not exist are ignored."""
    client = lab.clients[0]
    lab.run(OffsetRegistry(client, GROUP).store({tp(0): 1, tp(1): 1}))
    lab.run(delete_group_offsets(client, GROUP, [tp(0), tp(7)]))
    assert lab.run(OffsetRegistry(client, GROUP).partitions()) == [tp(1)]
    join(lab, client)
    with pytest.raises(GroupNotEmpty):
        lab.run(delete_group_offsets(client, GROUP, [tp(1)]))


@pytest.mark.parametrize("name", ["", "g/offsets", ".", ".."])
def test_a_name_that_is_a_path_to_something_else_removes_nothing(lab: GroupLab, name: str) -> None:
    """As a path, '' would mean the parent of all groups, and g/offsets a part of one group."""
    client, registry = lab.clients[0], OffsetRegistry(lab.clients[0], GROUP)
    lab.run(registry.store({tp(0): 1}))
    with pytest.raises(NoNode):
        lab.run(delete_group(client, name))
    for topic in (name, "t/0"):
        with pytest.raises(NoNode):
            lab.run(delete_group_topic(client, GROUP, topic))
    assert lab.run(registry.partitions()) == [tp(0)]


def test_a_group_that_no_consumer_could_join_is_listed_and_removed(lab: GroupLab) -> None:
    """Brokers store offsets of groups with any valid znode name."""
    odd = "my group: größe"
    lab.run(OffsetRegistry(lab.clients[0], odd).store({tp(0): 1}))
    assert lab.run(groups(lab.clients[0])) == {odd: 0}
    lab.run(delete_group(lab.clients[0], odd))
    assert lab.run(groups(lab.clients[0])) == {}


def test_two_claims_of_a_member_may_be_under_way_at_a_time() -> None:
    """The first claim stores facts about the topic while the reads of the second one are in flight. The second must
    handle both."""
    world = World()
    other, client = world.clients
    world.scheduler.run(create_znode(other, Create("/brokers/topics/t", b"{}")))
    world.scheduler.run(OwnerRegistry(other, GROUP).claim(claims("a", 0)))
    registry = OwnerRegistry(client, GROUP)
    outcomes = [world.scheduler.start(registry.claim(claims("b", partition))) for partition in (1, 2)]
    claimed = [world.scheduler.run(outcome) for outcome in outcomes]
    assert [list(each) for each in claimed] == [[tp(1)], [tp(2)]]

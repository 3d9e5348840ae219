"""The leader's assignment: conditional writes, lost responses, watches."""

import pytest

from kafka_zk.registry.client.client import Create, RegistryClient
from kafka_zk.registry.client.errors import BadVersion
from kafka_zk.registry.group_assignments import ABSENT, GroupAssignmentRegistry
from kafka_zk.registry.znodes.group_assignment import GroupAssignment, assignment_path
from tests.registry.group_lab import GROUP, GroupLab, create_znode, delete_znode, tp
from tests.registry.world import World


def assignments(client: RegistryClient) -> GroupAssignmentRegistry:
    return GroupAssignmentRegistry(client, GROUP)


def generation(number: int) -> GroupAssignment:
    return GroupAssignment(number, "sticky", "a", {tp(0): "a-0"}, {"b": 45_000})


def test_only_who_read_the_present_one_writes_the_next(lab: GroupLab) -> None:
    first, second = assignments(lab.clients[0]), assignments(lab.clients[1])
    assert lab.run(first.read()) == (None, ABSENT)
    assert lab.run(first.write(generation(1), ABSENT)) == 0
    with pytest.raises(BadVersion):
        lab.run(second.write(generation(1), ABSENT))
    assert lab.run(second.read()) == (generation(1), 0)
    assert lab.run(second.write(generation(2), 0)) == 1
    with pytest.raises(BadVersion):
        lab.run(first.write(generation(2), 0))
    lab.run(delete_znode(lab.clients[0], assignment_path(GROUP)))
    with pytest.raises(BadVersion):
        lab.run(first.write(generation(3), 1))


def test_watching_reports_each_generation(lab: GroupLab) -> None:
    seen: list[tuple[GroupAssignment | None, int]] = []
    watching = assignments(lab.clients[1]).watch(lambda assignment, version: seen.append((assignment, version)))
    lab.run_until(lambda: seen == [(None, ABSENT)])
    lab.run(assignments(lab.clients[0]).write(generation(1), ABSENT))
    lab.run_until(lambda: seen[-1] == (generation(1), 0))
    lab.run(assignments(lab.clients[0]).write(generation(2), 0))
    lab.run_until(lambda: seen[-1] == (generation(2), 1))
    watching.close()


def test_what_nobody_understands_can_be_replaced(lab: GroupLab) -> None:
    lab.run(create_znode(lab.clients[0], Create(assignment_path(GROUP), b"?")))
    assert lab.run(assignments(lab.clients[0]).read()) == (None, 0)
    assert lab.run(assignments(lab.clients[0]).write(generation(1), 0)) == 1


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("version", [ABSENT, 0])
def test_a_write_whose_answer_is_lost_is_found_out(version: int, applied: bool) -> None:
    world = World(1)
    client = world.clients[0]
    if version == 0:
        world.scheduler.run(assignments(client).write(generation(1), ABSENT))
    client.lose_request(applied=applied)
    assert world.scheduler.run(assignments(client).write(generation(2), version)) == version + 1
    assert world.scheduler.run(assignments(client).read()) == (generation(2), version + 1)

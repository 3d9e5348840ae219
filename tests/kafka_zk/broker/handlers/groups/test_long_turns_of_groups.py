"""Operations on many groups, or on one with many offsets, are divided into turns; see ``test_long_turns``."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.offset_manager import Committer
from kafka_zk.broker.group.records import OffsetAndMetadata
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.broker.conftest import Harness
from tests.kafka_zk.broker.handlers.test_long_turns import LONGEST_TURN_S, WorkClock, answer

pytestmark = pytest.mark.slow

OFFSETS = 20_000
GROUPS = 5_000
WEEK_S = 7 * 24 * 3600


@pytest.fixture
def broker(harness: Callable[..., Harness]) -> Iterator[Harness]:
    made = harness()
    made.lead("__consumer_offsets")
    clock = WorkClock()
    coordinator = made.services.coordinator
    made.services.clock = made.clock = coordinator._clock = coordinator.offsets._clock = clock
    coordinator._manager._clock = clock
    yield made


def many_offsets(broker: Harness) -> WorkClock:
    manager = broker.services.coordinator._manager
    wall_ms = broker.clock.wall_ms()
    offsets = {TopicPartition("t", number): OffsetAndMetadata(number, -1, "", wall_ms) for number in range(OFFSETS)}
    manager.get_or_create("g").group.offsets.load(offsets)
    return measured(broker)


def many_groups(broker: Harness) -> WorkClock:
    manager = broker.services.coordinator._manager
    committed = OffsetAndMetadata(1, -1, "", broker.clock.wall_ms())
    for number in range(GROUPS):
        manager.get_or_create(f"g{number}").group.offsets.load({TopicPartition("t", 0): committed})
    return measured(broker)


def measured(broker: Harness) -> WorkClock:
    clock = broker.clock
    assert isinstance(clock, WorkClock)
    clock.longest_s = 0.0
    return clock


def turn_until_done(clock: WorkClock, work: Callable[[], Any]) -> None:
    """Run work that other code starts, and everything that follows from it."""
    clock.turn(work)
    while any(call.getTime() <= clock.seconds() for call in clock.getDelayedCalls()):
        clock.advance(0)


def test_a_group_with_many_offsets_is_deleted_in_turns(broker: Harness) -> None:
    """No commit succeeds during the deletion, because the group's tombstones would remove it."""
    clock = many_offsets(broker)
    coordinator = broker.services.coordinator
    request = codec.request(ApiKey.DELETE_GROUPS)
    codes: list[ErrorCode] = []

    def commit() -> None:
        offset = {TopicPartition("t", 0): OffsetAndMetadata(7, -1, "", clock.wall_ms())}
        committing = ensureDeferred(coordinator.offsets.commit("g", Committer(), offset))
        committing.addCallback(lambda answered: codes.extend(answered.values()))

    clock.callLater(0, commit)
    answer(broker, ApiKey.DELETE_GROUPS, 2, request(groups_names=["g"]))
    assert clock.longest_s < LONGEST_TURN_S
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert coordinator._manager.groups == {}
    assert coordinator.describe("g").state == "Dead"


def test_many_offsets_expire_in_turns(broker: Harness) -> None:
    clock = many_offsets(broker)
    clock.advance(WEEK_S + 1)
    turn_until_done(clock, lambda: ensureDeferred(broker.services.coordinator.offsets.remove_expired()))
    assert clock.longest_s < LONGEST_TURN_S
    assert broker.services.coordinator._manager.groups == {}


def test_many_groups_are_given_away_in_turns(broker: Harness) -> None:
    """From the first turn on, the broker no longer answers for any of the groups."""
    clock = many_groups(broker)
    coordinator = broker.services.coordinator
    clock.turn(coordinator._manager._unload, 0)
    assert coordinator.describe("g1").error is ErrorCode.NOT_COORDINATOR
    turn_until_done(clock, lambda: None)
    assert coordinator._manager.groups == {}
    assert clock.longest_s < LONGEST_TURN_S


def test_many_groups_are_loaded_in_turns(broker: Harness) -> None:
    clock = measured(broker)
    coordinator = broker.services.coordinator
    offset = {TopicPartition("t", 0): OffsetAndMetadata(7, -1, "", clock.wall_ms())}
    for number in range(GROUPS):
        ensureDeferred(coordinator.offsets.commit(f"g{number}", Committer(), offset))
    turn_until_done(clock, lambda: None)
    coordinator._manager._unload(0)
    turn_until_done(clock, lambda: None)
    assert coordinator._manager.groups == {}
    clock.longest_s = 0.0
    partition = broker.services.replicas.partition(TopicPartition("__consumer_offsets", 0))
    turn_until_done(clock, lambda: coordinator.role_changed(partition))
    assert len(coordinator._manager.groups) == GROUPS
    assert clock.longest_s < LONGEST_TURN_S


def test_many_groups_are_listed_in_turns(broker: Harness) -> None:
    clock = many_groups(broker)
    request = codec.request(ApiKey.LIST_GROUPS)
    answer(broker, ApiKey.LIST_GROUPS, 4, request(states_filter=["stable"], types_filter=[]))
    assert clock.longest_s < LONGEST_TURN_S


def test_many_members_leave_in_turns(broker: Harness) -> None:
    """The request is carried out even if its client disconnects."""
    clock = many_groups(broker)
    request = codec.request(ApiKey.LEAVE_GROUP)
    leaving = [request.MemberIdentity(member_id=f"m{number}", reason="r") for number in range(9_000)]
    answer(broker, ApiKey.LEAVE_GROUP, 5, request(group_id="g1", members=leaving))
    assert clock.longest_s < LONGEST_TURN_S

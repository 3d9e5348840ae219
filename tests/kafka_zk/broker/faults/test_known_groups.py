"""A group's coordinator says whether the group exists, at this broker or at another one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.faults.errors import InvalidFault
from kafka_zk.broker.faults.known_groups import may_exist
from kafka_zk.broker.group.offset_manager import Committer
from kafka_zk.broker.group.partitions import OFFSETS_TOPIC
from kafka_zk.broker.group.records import OffsetAndMetadata
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.broker.conftest import Harness, build_harness
from tests.kafka_zk.broker.faults.conftest import Installed, done

OTHER = 1


class Coordinator:
    """Another broker. ``answers``: the error codes and states that it sends in turn; without one, it does not
    respond."""

    def __init__(self, *answers: tuple[ErrorCode, str]) -> None:
        self.answers = list(answers)
        self.is_connected = False

    async def connect(self, broker_id: int) -> Any:
        assert broker_id == OTHER
        self.is_connected = True
        return self

    async def request(self, api_key: int, groups: list[str]) -> Any:
        assert groups == ["orders"]
        if not self.answers:
            await Deferred[None]()
        error, state = self.answers.pop(0)
        return SimpleNamespace(groups=[SimpleNamespace(error_code=error, group_state=state)])

    def disconnect(self) -> None:
        self.is_connected = False


@pytest.fixture
def broker(tmp_path: Path) -> Harness:
    return build_harness(tmp_path, offsets_topic_num_partitions="1")


def asked(broker: Harness, coordinator: Coordinator) -> list[bool]:
    """Ask for 10 s about a group that the other broker coordinates."""
    broker.lead(OFFSETS_TOPIC, leader=OTHER, isr=[0, OTHER], replicas=[0, OTHER])
    results: list[bool] = []
    asking = ensureDeferred(may_exist(broker.services, cast(Any, coordinator.connect), "orders"))
    asking.addCallback(results.append)
    for _ in range(100):
        broker.clock.advance(0.1)
    assert not coordinator.is_connected
    return results


@pytest.mark.parametrize(("state", "exists"), [("Stable", True), ("Empty", True), ("Dead", False)])
def test_another_coordinator_is_asked(broker: Harness, state: str, exists: bool) -> None:
    assert asked(broker, Coordinator((ErrorCode.NONE, state))) == [exists]


def test_a_coordinator_that_loads_its_groups_is_asked_again(broker: Harness) -> None:
    loading = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "")
    assert asked(broker, Coordinator(loading, loading, (ErrorCode.NONE, "Dead"))) == [False]


def test_a_group_whose_coordinator_does_not_respond_may_exist(broker: Harness) -> None:
    assert asked(broker, Coordinator()) == [True]


def test_a_group_may_exist_if_this_broker_may_not_describe_it(broker: Harness) -> None:
    assert asked(broker, Coordinator((ErrorCode.GROUP_AUTHORIZATION_FAILED, ""))) == [True]


def test_the_coordinator_of_a_misspelt_group_does_not_move(broker: Harness) -> None:
    """This broker is the controller and the coordinator. A group that exists gets as far as the move, for which there
    is no other broker."""
    broker.lead(OFFSETS_TOPIC)
    committed = {TopicPartition("t", 0): OffsetAndMetadata(7, -1, "", 0)}
    done(broker.services.coordinator.offsets.commit("orders", Committer(), committed))
    cast(Any, broker.services.controller).is_active = True
    installed = Installed(broker)
    with pytest.raises(InvalidFault, match="group 'ordesr' does not exist: let a consumer join it first"):
        installed.begin(fault="coordinator_moves", group="ordesr")
    with pytest.raises(InvalidFault, match="the cluster has one broker"):
        installed.begin(fault="coordinator_moves", group="orders")
    assert not installed.faults.open

"""Requests go to each group's coordinator, wherever it moves, for a bounded time; refusals keep Kafka's code."""

import struct
from collections.abc import Coroutine
from typing import Any

import pytest
from twisted.internet.task import Clock

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.admin import Admin
from kafka_zk.clients.admin.group_admin import CommittedOffset, MemberDescription
from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.errors import BrokerError, KafkaTimeoutError
from kafka_zk.clients.connection.waiting import run
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.clients.connection.fake_cluster import finish
from tests.kafka_zk.clients.connection.fake_groups import FakeGroup, FakeGroups

TIMEOUT_MS = 2_000
CONFIG = ClientConfig(bootstrap_servers="b0:9092,b1:9092", default_api_timeout_ms=TIMEOUT_MS)
ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
PASSING = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class World:
    """An admin client and the brokers it asks."""

    def __init__(self, is_old: bool = False) -> None:
        self.clock = Clock()
        self.brokers = FakeGroups(self.clock, {"t": [0, 1]}, is_old=is_old)
        self.brokers.groups["g"] = FakeGroup(coordinator=1, offsets={TWO: 7, ONE: 5})
        self.brokers.groups["h"] = FakeGroup()
        self.admin = Admin(self.clock, CONFIG, connect=self.brokers.connect)

    def result(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return finish(self.clock, run(coroutine))


@pytest.fixture(params=[False, True], ids=["newest", "oldest"])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


def assignment(*partitions: int) -> bytes:
    return struct.pack(f">hih1si{len(partitions)}ii", 0, 1, 1, b"t", len(partitions), *partitions, -1)


def test_groups_of_all_brokers_are_listed_and_described(world: World) -> None:
    """Each group is described by its own coordinator; an unknown group is Dead."""
    world.brokers.groups["g"] = FakeGroup(1, "Stable", {"m": assignment(1, 0), "odd": b"?"}, {ONE: 5})
    assert list(world.result(world.admin.groups.list_groups())) == ["g", "h"]
    described = world.result(world.admin.groups.describe_groups(["h", "g", "nobody"]))
    assert {name: each.state for name, each in described.items()} == {"h": "Empty", "g": "Stable", "nobody": "Dead"}
    assert described["g"].members == (
        MemberDescription("m", None, "c", "/1.2.3.4", (ONE, TWO)),
        MemberDescription("odd", None, "c", "/1.2.3.4", ()),
    )
    assert world.clock.seconds() < CONFIG.retry_backoff_ms / 1000  # no request was repeated


def test_offsets_are_read_written_and_forgotten(world: World) -> None:
    groups = world.admin.groups
    assert world.result(groups.committed("g")) == {ONE: CommittedOffset(5), TWO: CommittedOffset(7)}
    assert world.result(groups.committed("nobody")) == {}
    world.brokers.groups["h"].offsets = {ONE: 1}
    world.brokers.groups["i"] = FakeGroup()
    by_group = {"i": {}, "h": {ONE: CommittedOffset(1)}, "g": {ONE: CommittedOffset(5), TWO: CommittedOffset(7)}}
    assert world.result(groups.committed_by(["i", "h", "g"])) == by_group
    assert world.clock.seconds() < CONFIG.retry_backoff_ms / 1000  # no request was repeated
    del world.brokers.groups["i"]
    world.result(groups.commit("g", {ONE: CommittedOffset(6)}))
    world.result(groups.delete_offsets("g", [TWO]))
    assert world.brokers.groups["g"].offsets == {ONE: 6}
    world.result(groups.delete_groups(["g", "h"]))
    assert world.brokers.groups == {}
    with pytest.raises(BrokerError, match="deleting group g: GROUP_ID_NOT_FOUND"):
        world.result(groups.delete_groups(["g"]))


def test_listing_asks_for_no_coordinator(world: World) -> None:
    """Finding a coordinator would create the offsets topic."""
    world.result(world.admin.groups.list_groups())
    assert ApiKey.FIND_COORDINATOR not in {api_key for _, api_key in world.brokers.seen}


@pytest.mark.parametrize("code", PASSING, ids=lambda code: code.name)
@pytest.mark.parametrize(
    "api_key",
    [
        ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT,
        ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE, ApiKey.LIST_GROUPS,
    ],
    ids=lambda key: key.name,
)  # fmt: skip
def test_a_coordinator_that_is_not_ready_is_asked_again(api_key: ApiKey, code: ErrorCode) -> None:
    world = World()
    groups = world.admin.groups
    world.brokers.errors = [(api_key, code)] * 2
    calls: dict[ApiKey, Coroutine[Any, Any, Any]] = {
        ApiKey.DESCRIBE_GROUPS: groups.describe_groups(["g", "h"]),
        ApiKey.OFFSET_FETCH: groups.committed("g"),
        ApiKey.OFFSET_COMMIT: groups.commit("g", {ONE: CommittedOffset(6)}),
        ApiKey.OFFSET_DELETE: groups.delete_offsets("g", [ONE]),
        ApiKey.DELETE_GROUPS: groups.delete_groups(["h"]),
        ApiKey.LIST_GROUPS: groups.list_groups(),
    }
    for each, call in calls.items():
        if api_key in (ApiKey.FIND_COORDINATOR, each):
            world.result(call)
        else:
            call.close()
    assert world.brokers.errors == []


@pytest.mark.parametrize("api_key", [ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_FETCH], ids=lambda key: key.name)
def test_it_is_asked_for_a_bounded_time(api_key: ApiKey) -> None:
    """The error names the group and the last cause."""
    world = World()
    world.brokers.errors = [(api_key, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)] * 1_000
    with pytest.raises(KafkaTimeoutError, match=r"of group g .*2000 ms; last: .*LOAD_IN_PROGRESS"):
        world.result(world.admin.groups.committed("g"))
    assert world.clock.seconds() <= TIMEOUT_MS / 1000


def test_a_cluster_whose_brokers_are_not_known_yet_is_asked_again() -> None:
    """Right after its start, the coordinator does not know its groups for a moment."""
    world = World()
    brokers, world.brokers.node_ids = world.brokers.node_ids, []
    connect = world.brokers.connect

    async def connects(reactor: Clock, host: str, *rest: Any, **options: Any) -> Any:
        world.brokers.node_ids = brokers
        connection = await connect(reactor, host, *rest, **options)
        world.brokers.node_ids = []
        return connection

    world.admin = Admin(world.clock, CONFIG, connect=connects)
    world.clock.callLater(0.5, setattr, world.brokers, "node_ids", brokers)
    assert list(world.result(world.admin.groups.list_groups())) == ["g", "h"]
    assert 0.5 <= world.clock.seconds() < 1


def test_what_waiting_does_not_cure_is_told_at_once() -> None:
    world = World()
    world.brokers.errors = [(ApiKey.FIND_COORDINATOR, ErrorCode.GROUP_AUTHORIZATION_FAILED)]
    with pytest.raises(BrokerError, match="the coordinator of group g: GROUP_AUTHORIZATION_FAILED"):
        world.result(world.admin.groups.committed("g"))
    world.brokers.errors = [(ApiKey.OFFSET_FETCH, ErrorCode.GROUP_AUTHORIZATION_FAILED)]
    with pytest.raises(BrokerError, match="offsets of group g: GROUP_AUTHORIZATION_FAILED"):
        world.result(world.admin.groups.committed("g"))
    assert world.clock.seconds() < 1


def test_a_group_whose_coordinator_dies_is_found_at_the_next_one() -> None:
    """Only groups without a response are requested again."""
    world = World()
    world.result(world.admin.groups.describe_groups(["g", "h"]))
    world.brokers.stop(1)
    world.brokers.groups["g"].coordinator = 0
    world.brokers.seen.clear()
    assert list(world.result(world.admin.groups.describe_groups(["g", "h"]))) == ["g", "h"]
    world.brokers.groups["h"].coordinator = 1  # the broker is down, so no coordinator can respond
    with pytest.raises(KafkaTimeoutError, match="coordinator of group h "):
        world.result(world.admin.groups.describe_groups(["g", "h"]))


def test_offsets_of_a_group_with_members_are_left_alone() -> None:
    """The coordinator treats the client as a member that it does not know."""
    world = World()
    world.brokers.groups["g"].members["m"] = b""
    with pytest.raises(BrokerError) as raised:
        world.result(world.admin.groups.commit("g", {ONE: CommittedOffset(6)}))
    assert raised.value.code is ErrorCode.NON_EMPTY_GROUP

"""Invalid content in a znode of a group or topic does not stop any member from reading the group's other topics."""

import json

import pytest

from kafka_zk.registry.client.client import Create
from kafka_zk.registry.client.pipeline import create_with_parents
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.registry.znodes.brokers import BROKER_IDS
from kafka_zk.registry.znodes.consumers import WHITE_LIST
from kafka_zk.registry.znodes.group_assignment import assignment_path
from kafka_zk.registry.znodes.topics import TopicAssignment, encode_assignment, topic_path
from tests.rebalance.old_consumer import GROUP
from tests.rebalance.world import Group


def put(group: Group, path: str, data: bytes) -> None:
    """Write a znode without checks, as an administrator might."""
    if group.zookeeper.tree.exists(path) is None:
        group.scheduler.run(create_with_parents(group.tool, Create(path, data)))
    else:
        group.scheduler.run(group.tool.set(path, data))


def registration(subscription: dict[str, int], pattern: str = "static") -> bytes:
    return json.dumps({"version": 1, "subscription": subscription, "pattern": pattern, "timestamp": "1"}).encode()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_topic_that_cannot_be_understood_keeps_no_other_from_a_group_with_a_filter(strategy: str) -> None:
    group = Group({"t": 4})
    put(group, topic_path("broken"), b"garbage")
    group.join_all("ab", [strategy], subscription={".*": 1}, pattern=WHITE_LIST)
    group.produce(10)
    group.until_consumed()
    data = encode_assignment(TopicAssignment({0: [0]}))
    group.scheduler.run(group.tool.set(topic_path("broken"), data))
    group._know("broken", range(1))
    group.produce(10)
    group.until_consumed()
    assert group.is_served() and not group.violations()


def test_a_topic_that_cannot_be_understood_any_more_is_read_on() -> None:
    group = Group({"t": 4, "u": 2})
    members = group.join_all("ab")
    owned = [member.owned for member in members]
    good, _ = group.zookeeper.tree.get(topic_path("u"))
    put(group, topic_path("u"), b"garbage")
    group.settle(5000)
    assert [member.owned for member in members] == owned
    put(group, topic_path("u"), good or b"")
    group.settle(5000)
    assert [member.owned for member in members] == owned and not group.violations(all_delivered=False)


@pytest.mark.parametrize("name", ["", "..", "a//b", "a/", "\0", "\ud800"])
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_member_with_an_impossible_topic_keeps_no_other_topic_from_the_group(strategy: str, name: str) -> None:
    group = Group({"t": 4})
    put(group, znodes.id_path(GROUP, "strange"), registration({name: 1}))
    group.join_all("ab", [strategy])
    group.produce(10)
    group.until_consumed()
    assert group.is_served() and not group.violations()


@pytest.mark.parametrize("count", [2**31 - 1, 10**6])
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_member_with_billions_of_streams_freezes_nobody(strategy: str, count: int) -> None:
    group = Group({"t": 4})
    put(group, znodes.id_path(GROUP, "strange"), registration({"other": count}))
    group.join_all("ab", [strategy])
    group.produce(10)
    group.until_consumed()
    assert group.is_served() and not group.violations()


@pytest.mark.parametrize(
    "change",
    [
        {"threads": [f"{GROUP}_a-x"]},
        {"threads": [f"{GROUP}_a--1"]},
        {"threads": [f"{GROUP}_a-{'9' * 5000}"]},
        {"threads": ["x"], "static": {"x": "60000"}},
        {"threads": ["x-y"], "static": {"x": "60000"}},
        {"threads": [f"x-{10**9}"], "static": {"x": "60000"}},
        {"partitions": {"": [0]}},
        {"partitions": {"..": [0]}, "threads": [f"{GROUP}_a-0"]},
        {"generation": 2**63 - 1},
    ],
)
def test_an_assignment_that_makes_no_sense_is_replaced(change: dict[str, object]) -> None:
    group = Group({"t": 4})
    (first,) = group.join_all("a")
    stands = json.loads(group.zookeeper.tree.get(assignment_path(GROUP))[0] or b"")
    group.scheduler.run(group.tool.set(assignment_path(GROUP), json.dumps({**stands, **change}).encode()))
    group.settle(5000)
    group.join_all("b")
    group.settle(5000)
    group.produce(10)
    group.until_consumed()
    assert first.failure is None
    assert group.is_served() and not group.violations()


@pytest.mark.parametrize("name", ["9" * 5000, "3000000000", "x", "-1"])
def test_a_broker_of_an_impossible_id_stops_no_group(name: str) -> None:
    group = Group({"t": 4})
    put(group, f"{BROKER_IDS}/{name}", b"{}")
    group.join_all("ab", ["range"])
    group.produce(10)
    group.until_consumed()
    assert group.is_served() and not group.violations()

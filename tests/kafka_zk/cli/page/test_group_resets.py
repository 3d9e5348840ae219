"""A reset stores exactly the plan that was shown, or nothing."""

from typing import Any, cast

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.groups.group_kinds import GroupKind
from kafka_zk.cli.page.connection import PageConnection
from kafka_zk.cli.page.group_resets import GroupResets
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.clients.connection.errors import BrokerError
from kafka_zk.clients.connection.list_offsets import EARLIEST, LATEST, ListedOffset
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.recorder.web.operations import PerhapsDone
from tests.kafka_zk.cli.page.pages import Access, Opened

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LOGS = {EARLIEST: {T0: 10, T1: 0}, LATEST: {T0: 100, T1: 50}, 7: {T0: 20, T1: -1}}


class Group(Access):
    """The group g, which has committed in both partitions of t."""

    kind = GroupKind.BROKER

    def __init__(self) -> None:
        self.committed = {T0: 12, T1: 3}
        self.live = False
        self.refused: TopicPartition | None = None

    def the_one(self, group: str) -> "Group":
        if group != "g":
            raise CommandFailed(f"there is no group {group} at the brokers")
        return self

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        return dict(self.committed)

    def refuse_live(self, group: str) -> None:
        if self.live:
            raise CommandFailed("NON_EMPTY_GROUP: the broker group g has 1 live members (m); stop them first")

    def store(self, group: str, offsets: dict[TopicPartition, int]) -> None:
        if self.refused is not None:
            self.committed |= {tp: offset for tp, offset in offsets.items() if tp != self.refused}
            raise BrokerError(f"storing the offset of {self.refused}", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        self.committed |= offsets

    def describe_topics(self, names: Any) -> dict[str, Any]:
        return {name: _topic() for name in names}

    def list_offsets(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        return {tp: ListedOffset(LOGS[spec][tp], -1, -1) for tp, spec in wanted.items()}


class _Partition:
    def __init__(self, partition: int) -> None:
        self.partition = partition


class _Topic:
    partitions = (_Partition(0), _Partition(1))


def _topic() -> Any:
    return _Topic()


def resets(group: Group) -> GroupResets:
    return GroupResets(cast(PageConnection, Opened(group)))


def asking(**given: Any) -> dict[str, Any]:
    return {"action": "plan-reset", "group": "g", "type": "broker", "to": "earliest", **given}


def test_the_plan_changes_nothing_and_is_carried_out_as_it_was_shown() -> None:
    group = Group()
    acts = resets(group)
    told = acts.plan(asking())
    assert told.event() is None and group.committed == {T0: 12, T1: 3}
    assert told.answer["rows"] == [
        {"topic": "t", "partition": 0, "current": 12, "new": 10}, {"topic": "t", "partition": 1, "current": 3, "new": 0}
    ]  # fmt: skip
    assert told.answer["principal"] == "User:broker"
    done = acts.carry_out({"action": "reset-offsets", "plan": told.answer["plan"]})
    assert group.committed == {T0: 10, T1: 0} and done.answer["count"] == 2
    assert (done.action, done.target, done.principal) == ("reset-offsets", "group g", "User:broker")
    with pytest.raises(CommandFailed, match="carried out already"):
        acts.carry_out({"action": "reset-offsets", "plan": told.answer["plan"]})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"to": "latest"}, {T0: 100, T1: 50}),
        ({"to": "time", "value": 7}, {T0: 20, T1: 50}),
        ({"to": "shift", "value": -2}, {T0: 10, T1: 1}),
        ({"to": "offset", "value": 30, "topics": ["t:1"]}, {T0: 12, T1: 30}),
        ({"to": "current", "topics": ["t"], "type": ""}, {T0: 12, T1: 3}),
    ],
)
def test_it_goes_where_the_commands_options_go(given: dict[str, Any], expected: dict[TopicPartition, int]) -> None:
    group = Group()
    acts = resets(group)
    acts.carry_out({"plan": acts.plan(asking(**given)).answer["plan"]})
    assert group.committed == expected


def test_a_group_with_members_is_refused_when_it_is_planned_and_when_it_is_carried_out() -> None:
    group = Group()
    acts = resets(group)
    plan = acts.plan(asking()).answer["plan"]
    group.live = True
    with pytest.raises(CommandFailed, match="NON_EMPTY_GROUP"):
        acts.plan(asking())
    with pytest.raises(CommandFailed, match="NON_EMPTY_GROUP"):
        acts.carry_out({"plan": plan})
    assert group.committed == {T0: 12, T1: 3}


def test_a_group_that_has_committed_since_the_plan_is_not_reset() -> None:
    group = Group()
    acts = resets(group)
    plan = acts.plan(asking(topics=["t:0"])).answer["plan"]
    group.committed[T1] = 40
    other = acts.plan(asking(topics=["t:1"])).answer["plan"]
    group.committed[T1] = 41
    with pytest.raises(CommandFailed, match="have changed since the plan: make it again"):
        acts.carry_out({"plan": other})
    acts.carry_out({"plan": plan})
    assert group.committed == {T0: 10, T1: 41}, "the other partition is not part of the plan"


def test_a_reset_of_which_brokers_refuse_a_part_is_recorded_and_one_that_they_refuse_whole_is_not() -> None:
    group = Group()
    acts = resets(group)
    group.refused = T1
    with pytest.raises(PerhapsDone, match="other offsets of the plan may have been reset") as failed:
        acts.carry_out({"plan": acts.plan(asking()).answer["plan"]})
    assert group.committed == {T0: 10, T1: 3}
    assert (failed.value.done.action, failed.value.done.target) == ("reset-offsets", "group g")
    with pytest.raises(BrokerError):
        acts.carry_out({"plan": acts.plan(asking(topics=["t:1"])).answer["plan"]})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"to": "nowhere"}, "choose where to"),
        ({"to": "offset"}, "choose where to"),
        ({"to": "offset", "value": -1}, "choose where to"),
        ({"to": "time", "value": "1"}, "choose where to"),
        ({"to": "time", "value": 2**63}, "choose where to"),
        ({"to": "shift", "value": -(2**70)}, "choose where to"),
        ({"type": "other"}, "the type of a group is broker or zookeeper, not 'other'"),
        ({"topics": "t"}, "topics must be a list"),
        ({"topics": ["t:9"]}, "no such topic, or no such partition"),
        ({"group": "h"}, "there is no group h"),
    ],
)
def test_what_cannot_be_planned_is_a_sentence(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(CommandFailed, match=reason):
        resets(Group()).plan(asking(**given))


def test_a_group_without_offsets_has_nothing_to_reset() -> None:
    group = Group()
    group.committed = {}
    with pytest.raises(CommandFailed, match="there is nothing to reset"):
        resets(group).plan(asking())

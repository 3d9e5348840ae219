"""What the controller logs, and how often: each failure once, however many brokers or partitions it affects."""

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_zk.base.events import SILENT
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.context import Replica
from kafka_zk.broker.controller.control_requests import Answer
from kafka_zk.broker.controller.effects import FailedChange
from kafka_zk.broker.controller.events import ChangesRefused
from kafka_zk.broker.controller.reporter import NAMED_COUNT, UNREACHABLE_COUNT, ControllerReporter, shortened
from kafka_zk.broker.controller.states import PartitionEvent, ReplicaEvent
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.broker.controller.world import Cluster

REQUEST: Any = SimpleNamespace(api_key=ApiKey.UPDATE_METADATA)
TP = TopicPartition("t", 0)


@pytest.fixture
def reporter() -> ControllerReporter:
    return ControllerReporter(SILENT)


def lost(reporter: ControllerReporter, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        reporter.not_sent(broker_id, REQUEST, ConnectionError())


def reached(reporter: ControllerReporter, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        reporter.answered(broker_id, REQUEST, Answer(ErrorCode.NONE, {}))


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return found


def test_an_unreachable_broker_is_logged_once(reporter: ControllerReporter, caplog: pytest.LogCaptureFixture) -> None:
    lost(reporter, 1, 1)
    assert len(lines(caplog)) == 1
    reached(reporter, 1)
    lost(reporter, 1)
    assert len(lines(caplog)) == 1, "the broker was reachable in between"


def test_many_unreachable_brokers_share_a_line(reporter: ControllerReporter, caplog: pytest.LogCaptureFixture) -> None:
    lost(reporter, *range(UNREACHABLE_COUNT))
    assert len(lines(caplog)) == UNREACHABLE_COUNT
    lost(reporter, *range(UNREACHABLE_COUNT, 3 * UNREACHABLE_COUNT))
    (line,) = lines(caplog)
    assert f"more than {UNREACHABLE_COUNT} brokers" in line


def test_that_line_comes_again_after_half_are_reachable(
    reporter: ControllerReporter, caplog: pytest.LogCaptureFixture
) -> None:
    half = UNREACHABLE_COUNT // 2
    lost(reporter, *range(UNREACHABLE_COUNT + 1))
    reached(reporter, *range(half, UNREACHABLE_COUNT))
    lines(caplog)
    lost(reporter, *range(half, UNREACHABLE_COUNT))
    assert not [line for line in lines(caplog) if "more than" in line], "more than half were still unreachable"
    reached(reporter, *range(half, UNREACHABLE_COUNT + 1))
    lost(reporter, *range(half, UNREACHABLE_COUNT + 1))
    assert len([line for line in lines(caplog) if "more than" in line]) == 1


def test_a_refused_change_is_logged_once_for_each_reason(
    reporter: ControllerReporter, caplog: pytest.LogCaptureFixture
) -> None:
    for reason in ("no replica is alive", "no replica is alive", "its epoch is the last"):
        reporter.refused([FailedChange(TP, reason)], "OnlinePartition")
        reporter.log_refused()
    assert [line.rpartition("because ")[2] for line in lines(caplog)] == [
        "no replica is alive",
        "its epoch is the last",
    ]


def test_a_line_does_not_give_one_reason_for_all(
    reporter: ControllerReporter, caplog: pytest.LogCaptureFixture
) -> None:
    """One event refuses changes in several steps, for different reasons."""
    others = [FailedChange(TopicPartition("u", number), "its state znode is invalid") for number in range(2)]
    for refused in ([FailedChange(TP, "no replica is alive")], others):
        reporter.refused(refused, "OnlinePartition")
    reporter.log_refused()
    (line,) = lines(caplog)
    assert line.endswith("t-0, u-0, u-1, because no replica is alive; 2 of them for other reasons")


def test_a_change_of_state_that_is_not_legal_is_reported(cluster: Cluster) -> None:
    """An exception would end the controller's term."""
    cluster.create("t", {0: [0]})
    cluster.settle()
    changes = cluster.controller._active._changes  # type: ignore[union-attr]
    cluster.scheduler.run(changes.move_partitions([TP], PartitionEvent.DELETE))
    cluster.scheduler.run(changes.move_replicas_and_send([Replica(TP, 0)], ReplicaEvent.FORGET))
    (active,) = cluster.active
    assert [change for event in active.named(ChangesRefused) for change in event.refused] == [
        FailedChange(TP, "OnlinePartition -> NonExistentPartition is not legal"),
        FailedChange(TP, "replica 0: OnlineReplica -> NonExistentReplica"),
    ]


def test_a_line_names_a_few_and_counts_the_rest() -> None:
    assert shortened([]) == "none"
    assert shortened(range(NAMED_COUNT)) == "0, 1, 2, 3, 4"
    assert shortened(range(NAMED_COUNT + 2)) == "0, 1, 2, 3, 4 and 2 more"

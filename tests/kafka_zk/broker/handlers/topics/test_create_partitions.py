"""CreatePartitions: Kafka's validation, assignment, waiting for the controller."""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.client.errors import SessionLost
from kafka_zk.registry.znodes.topics import TopicAssignment
from tests.kafka_zk.broker.conftest import Harness

Make = Callable[..., Harness]


def grow(*names: str, count: int = 3, assignments: list[list[int]] | None = None, **fields: Any) -> Any:
    request = codec.request(ApiKey.CREATE_PARTITIONS)
    topic = request.CreatePartitionsTopic
    given = None
    if assignments is not None:
        given = [topic.CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
    topics = [topic(name=name, count=count, assignments=given) for name in names]
    return request(**{"topics": topics, "timeout_ms": 0, "validate_only": False, **fields})


def result(broker: Harness, request: Any) -> Any:
    return broker.ask(ApiKey.CREATE_PARTITIONS, 3, request).results[0]


def with_topic(harness: Make) -> Harness:
    broker = harness()
    broker.lead("t")
    broker.topics.assigned["t"] = TopicAssignment({0: [0]}, "id")
    return broker


def test_the_answer_waits_until_every_partition_has_a_leader(harness: Make) -> None:
    """The assignment is written, then the controller's UpdateMetadata completes the request."""
    broker = with_topic(harness)
    answers: list[Any] = []
    broker.start(ApiKey.CREATE_PARTITIONS, 3, grow("t", timeout_ms=1000)).addCallback(answers.append)
    assert broker.topics.assigned["t"].partitions == {0: [0], 1: [0], 2: [0]}
    assert not answers
    broker.lead("t", partitions=3)
    assert answers[0].results[0].error_code == 0


def test_who_does_not_wait_is_told_that_it_timed_out(harness: Make) -> None:
    """The partitions are still created, as in Kafka."""
    broker = with_topic(harness)
    assert result(broker, grow("t")).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert len(broker.topics.assigned["t"].partitions) == 3


def test_validate_only_writes_nothing(harness: Make) -> None:
    """A dry run succeeds immediately."""
    broker = with_topic(harness)
    assert result(broker, grow("t", validate_only=True, timeout_ms=1000)).error_code == 0
    assert len(broker.topics.assigned["t"].partitions) == 1


@pytest.mark.parametrize("validate_only", [True, False])
def test_a_topic_with_an_entry_that_cannot_be_understood_gets_no_partitions(
    harness: Make, validate_only: bool
) -> None:
    """The entry may be that of a partition with records."""
    broker = with_topic(harness)
    broker.topics.assigned["t"] = TopicAssignment({0: [0]}, "id", faults=("/brokers/topics/t: '1' is garbage",))
    answer = result(broker, grow("t", validate_only=validate_only))
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "/brokers/topics/t: '1' is garbage" in answer.error_message


@pytest.mark.parametrize(
    ("request_", "code", "text"),
    [
        (grow("u"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'u' does not exist."),
        (grow("t", "t"), ErrorCode.INVALID_REQUEST, "Duplicate topic in request."),
        (grow("t", count=1), ErrorCode.INVALID_PARTITIONS, "Topic already has 1 partitions."),
        (grow("t", count=0), ErrorCode.INVALID_PARTITIONS, "which is higher than the requested 0"),
        (grow("t", assignments=[[0]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "by 2 but 1 assignments provided"),
        (grow("t", assignments=[[0], [7]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Unknown broker(s)"),
        (grow("t", assignments=[[0], []]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "replication factor of 0"),
        (grow("t", assignments=[[0], [0, 0]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Duplicate brokers"),
    ],
)
def test_what_cannot_be_added_gets_kafkas_error(harness: Make, request_: Any, code: ErrorCode, text: str) -> None:
    """A refused request writes nothing."""
    broker = with_topic(harness)
    answer = result(broker, request_)
    assert answer.error_code == code
    assert text in answer.error_message
    assert len(broker.topics.assigned["t"].partitions) == 1


def test_a_topic_that_is_being_deleted_or_moved_stays_as_it_is(harness: Make) -> None:
    """The controller's own changes take precedence."""
    broker = with_topic(harness)
    broker.topics.assigned["m"] = TopicAssignment({0: [0]}, "id", adding={0: [1]})
    assert result(broker, grow("m")).error_code == ErrorCode.REASSIGNMENT_IN_PROGRESS
    broker.topics.ordered_deletions.append("t")
    assert result(broker, grow("t")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_only_the_controller_adds(harness: Make) -> None:
    """The other brokers respond with NOT_CONTROLLER, so the client looks for the controller."""
    broker = with_topic(harness)
    broker.services.controller.is_active = False  # type: ignore[misc]
    assert result(broker, grow("t")).error_code == ErrorCode.NOT_CONTROLLER


def test_the_partitions_of_a_request_are_bounded_together(harness: Make) -> None:
    """All topics of a request together may have as many new partitions as one topic; existing partitions do not
    count.
    """
    broker = harness()
    for name in ("a", "b", "c"):
        broker.lead(name)
        broker.topics.assigned[name] = TopicAssignment({number: [0] for number in range(1000)}, "id")
    answer = broker.ask(ApiKey.CREATE_PARTITIONS, 3, grow("a", "b", "c", count=26_000, validate_only=True))
    assert [topic.error_code for topic in answer.results] == [0, 0, ErrorCode.INVALID_PARTITIONS]
    assert "for all topics of a request together" in answer.results[2].error_message


@pytest.mark.parametrize("fails", ["deletions", "assignments", "add_partitions"])
def test_the_controllers_broker_whose_session_ends_says_so(
    harness: Make, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """The error is NOT_CONTROLLER, so clients ask the next controller."""

    async def refuse(*_: Any) -> None:
        raise SessionLost("/admin/delete_topics")

    broker = with_topic(harness)
    monkeypatch.setattr(broker.topics, fails, refuse)
    answer = broker.ask(ApiKey.CREATE_PARTITIONS, 3, grow("t"))
    assert [(each.name, each.error_code) for each in answer.results] == [("t", ErrorCode.NOT_CONTROLLER)]

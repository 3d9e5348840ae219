"""CreateTopics, DeleteTopics, Metadata: validation, codes, waiting for the controller."""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.client.errors import NoAuth, RegistryError, SessionLost
from tests.kafka_zk.broker.conftest import Harness, update_metadata

Make = Callable[..., Harness]


def create(
    *names: str,
    partitions: int = 1,
    replicas: int = 1,
    configs: dict[str, str | None] | None = None,
    assignment: dict[int, list[int]] | None = None,
    **fields: Any,
) -> Any:
    request = codec.request(ApiKey.CREATE_TOPICS)
    topic = request.CreatableTopic
    topics = [
        topic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=[
                topic.CreatableReplicaAssignment(partition_index=partition, broker_ids=brokers)
                for partition, brokers in (assignment or {}).items()
            ],
            configs=[topic.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        for name in names
    ]
    return request(**{"topics": topics, "timeout_ms": 0, "validate_only": False, **fields})


def result(harness: Harness, request: Any, version: int = 7) -> Any:
    return harness.ask(ApiKey.CREATE_TOPICS, version, request).topics[0]


def test_a_topic_is_written_with_its_assignment_and_config(harness: Make) -> None:
    """The request does not wait for the controller, so the response has the topic id and REQUEST_TIMED_OUT, as in
    Kafka.
    """
    broker = harness()
    broker.lead("other")
    answer = result(broker, create("t", partitions=3, configs={"retention.ms": "5"}))
    assignment, topic_id, configs = broker.topics.created["t"]
    assert assignment == {0: [0], 1: [0], 2: [0]}
    assert configs == {"retention.ms": "5"}
    assert uuids.to_text(answer.topic_id) == topic_id
    assert (answer.num_partitions, answer.replication_factor, answer.configs) == (-1, -1, [])
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT


def test_the_answer_waits_until_every_partition_has_a_leader(harness: Make) -> None:
    """UpdateMetadata from the controller completes the request; the response has the counts and every config."""
    broker = harness()
    broker.lead("other")
    answers: list[Any] = []
    request = create("t", timeout_ms=1000, configs={"retention.ms": "5"})
    broker.start(ApiKey.CREATE_TOPICS, 7, request).addCallback(answers.append)
    assert not answers
    broker.lead("t")
    (answer,) = answers[0].topics
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 1, 1)
    assert {config.name: config.value for config in answer.configs}["retention.ms"] == "5"


def test_topics_of_one_request_do_not_collide(harness: Make) -> None:
    """The first topic is created, so the second collides; with validate_only none is created, so both are valid."""
    broker = harness()
    broker.lead("other")
    answer = broker.ask(ApiKey.CREATE_TOPICS, 7, create("a.b_c", "a_b.c", validate_only=True))
    assert [each.error_code for each in answer.topics] == [0, 0]
    answer = broker.ask(ApiKey.CREATE_TOPICS, 7, create("a.b_c", "a_b.c", "a-b.c"))
    assert [each.error_code for each in answer.topics] == [
        ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT,
    ]  # fmt: skip
    assert answer.topics[1].error_message == "Topic 'a_b.c' collides with existing topics: a.b_c"
    assert set(broker.topics.created) == {"a.b_c", "a-b.c"}


def test_topics_that_one_metadata_request_creates_do_not_collide(harness: Make) -> None:
    broker = harness()
    broker.lead("other")
    request = codec.request(ApiKey.METADATA)
    wanted = [request.MetadataRequestTopic(name=name) for name in ("a.b", "a_b")]
    answer = broker.ask(ApiKey.METADATA, 9, request(topics=wanted, allow_auto_topic_creation=True))
    codes = [each.error_code for each in answer.topics]
    assert codes == [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert set(broker.topics.created) == {"a.b"}


def test_a_topic_named_twice_has_two_results(harness: Make) -> None:
    """Kafka's clients expect a result for each entry."""
    broker = harness()
    broker.lead("other")
    answer = broker.ask(ApiKey.CREATE_TOPICS, 7, create("twice", "once", "twice"))
    assert [each.name for each in answer.topics] == ["twice", "once", "twice"]
    twice = [each for each in answer.topics if each.name == "twice"]
    assert {(each.error_code, each.error_message) for each in twice} == {
        (ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
    }
    assert set(broker.topics.created) == {"once"}


def test_the_metadata_topic_of_kraft_cannot_be_created(harness: Make) -> None:
    broker = harness()
    broker.lead("other")
    answer = result(broker, create("__cluster_metadata"))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message == "Creation of internal topic __cluster_metadata is prohibited."
    assert not broker.topics.created


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_internal_topics_are_marked(harness: Make, name: str) -> None:
    broker = harness()
    broker.lead(name)
    request = codec.request(ApiKey.METADATA)
    answer = broker.ask(ApiKey.METADATA, 9, request(topics=None, allow_auto_topic_creation=False))
    assert [each.is_internal for each in answer.topics] == [True]


def test_defaults_come_from_the_broker(harness: Make) -> None:
    """-1 partitions and replicas (KIP-464); older versions refuse them."""
    broker = harness(num_partitions="4")
    broker.lead("other")
    assert result(broker, create("t", partitions=-1, replicas=-1, validate_only=True)).num_partitions == 4
    assert result(broker, create("u", partitions=-1, replicas=-1), 3).error_code == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (create("other"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (create("a.b"), ErrorCode.INVALID_TOPIC_EXCEPTION),  # collides with a_b
        (create("sp ace"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (create(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (create(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (create("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (create("t", "t"), ErrorCode.INVALID_REQUEST),
        (create("t", partitions=0), ErrorCode.INVALID_PARTITIONS),
        (create("t", replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (create("t", replicas=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (create("t", configs={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
        (create("t", configs={"no.such.key": "1"}), ErrorCode.INVALID_CONFIG),
        (create("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (create("t", configs={"cleanup.policy": "shred"}), ErrorCode.INVALID_CONFIG),
        (create("t", assignment={0: [0]}), ErrorCode.INVALID_REQUEST),
        (create("t", partitions=-1, replicas=-1, assignment={1: [0]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (create("t", partitions=-1, replicas=-1, assignment={0: [7]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_cannot_be_created_gets_kafkas_code(harness: Make, request_: Any, code: ErrorCode) -> None:
    """A refused request writes nothing."""
    broker = harness()
    broker.lead("other")
    broker.lead("a_b")
    assert result(broker, request_).error_code == code
    assert broker.topics.created == {}


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
@pytest.mark.parametrize("name", ["t", "__consumer_offsets"])
def test_topics_may_be_compacted(harness: Make, name: str, policy: str) -> None:
    broker = harness()
    broker.lead("other")
    broker.ask(ApiKey.CREATE_TOPICS, 7, create(name, configs={"cleanup.policy": policy}))
    assert list(broker.topics.created) == [name]


def test_only_the_controller_creates(harness: Make) -> None:
    """The other brokers respond with NOT_CONTROLLER, so the client looks for the controller."""
    broker = harness()
    broker.lead("other")
    broker.services.controller.is_active = False  # type: ignore[misc]
    assert result(broker, create("t")).error_code == ErrorCode.NOT_CONTROLLER


def test_a_broker_that_knows_nobody_yet_lets_the_client_ask_again(harness: Make) -> None:
    """A broker that has just started, or has just been elected, responds with a retriable code instead of an invalid
    replication factor.
    """
    broker = harness()
    assert result(broker, create("t")).error_code == ErrorCode.NOT_CONTROLLER
    asked = broker.ask(ApiKey.METADATA, 9, metadata("new"))
    assert asked.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert broker.topics.created == {}


def test_a_broker_that_knows_nobody_yet_says_of_no_topic_that_it_does_not_exist(harness: Make) -> None:
    """librdkafka fails everything that waits for an unknown topic; a broker that has just started cannot know which
    exist.
    """
    broker = harness(auto_create_topics_enable="false")
    asked = broker.ask(ApiKey.METADATA, 9, metadata("t", "bad name", create_missing=False))
    codes = [topic.error_code for topic in asked.topics]
    assert codes == [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.INVALID_TOPIC_EXCEPTION]
    broker.lead("other")
    asked = broker.ask(ApiKey.METADATA, 9, metadata("t", create_missing=False))
    assert asked.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_validate_only_writes_nothing(harness: Make) -> None:
    """A dry run gets the same response as the real request."""
    broker = harness()
    broker.lead("other")
    assert result(broker, create("t", validate_only=True)).error_code == 0
    assert broker.topics.created == {}


def metadata(*names: str | None, create_missing: bool = True) -> Any:
    request = codec.request(ApiKey.METADATA)
    topics = [request.MetadataRequestTopic(topic_id=uuids.ZERO, name=name) for name in names]
    return request(topics=topics if names else None, allow_auto_topic_creation=create_missing)


def test_metadata_lists_all_topics_with_leaders(harness: Make) -> None:
    """A null list of topics means all topics; brokers have their address on the client's listener."""
    broker = harness()
    broker.lead("b", partitions=2)
    broker.lead("a")
    answer = broker.ask(ApiKey.METADATA, 12, metadata())
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("a", 1), ("b", 2)]
    assert [(node.node_id, node.host, node.port) for node in answer.brokers] == [(0, "localhost", 9092)]
    assert answer.topics[0].partitions[0].leader_id == 0
    assert (answer.cluster_id, answer.controller_id) == ("cluster", 0)


@pytest.mark.parametrize("version", range(13))
def test_every_version_of_metadata_is_answered(harness: Make, version: int) -> None:
    """The versions range from 0 (Kafka 0.8) to that of Kafka 3.9."""
    broker = harness()
    broker.lead("t")
    answer = broker.ask(ApiKey.METADATA, version, metadata("t"))
    assert (answer.topics[0].name, answer.topics[0].error_code) == ("t", 0)


def test_an_unknown_topic_is_created_where_that_is_allowed(harness: Make) -> None:
    """The response makes the client retry; an invalid name is never created; the transactions topic has its own
    configuration.
    """
    broker = harness()
    broker.lead("other")
    asked = broker.ask(ApiKey.METADATA, 9, metadata("new", "bad name", "__transaction_state"))
    assert [topic.error_code for topic in asked.topics] == [
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.LEADER_NOT_AVAILABLE,
    ]
    assert list(broker.topics.created) == ["new", "__transaction_state"]


@pytest.mark.parametrize(("broker_allows", "client_allows"), [("true", False), ("false", True)])
def test_no_topic_is_created_against_anybodys_will(harness: Make, broker_allows: str, client_allows: bool) -> None:
    """allow_auto_topic_creation and auto.create.topics.enable must both say yes."""
    broker = harness(auto_create_topics_enable=broker_allows)
    broker.lead("other")
    asked = broker.ask(ApiKey.METADATA, 9, metadata("new", create_missing=client_allows))
    assert asked.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.topics.created == {}


def test_a_partition_without_a_live_leader_says_so(harness: Make) -> None:
    """The response has LEADER_NOT_AVAILABLE and leader -1."""
    broker = harness()
    fields = {"controller_epoch": 1, "leader": 7, "leader_epoch": 0, "isr": [7], "replicas": [7]}
    broker.ask(ApiKey.UPDATE_METADATA, 8, update_metadata("t", uuids.random_topic_id(), 1, fields))
    partition = broker.ask(ApiKey.METADATA, 9, metadata("t")).topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


def delete(*names: str, timeout_ms: int = 0) -> Any:
    return codec.request(ApiKey.DELETE_TOPICS)(topic_names=list(names), timeout_ms=timeout_ms)


def test_deletion_is_ordered_and_awaited(harness: Make) -> None:
    """The response comes when the controller announces the deletion."""
    broker = harness()
    broker.lead("t")
    answers: list[Any] = []
    broker.start(ApiKey.DELETE_TOPICS, 5, delete("t", timeout_ms=1000)).addCallback(answers.append)
    assert broker.topics.ordered_deletions == ["t"]
    assert not answers
    fields = {"controller_epoch": 1, "leader": -2, "leader_epoch": 0, "isr": [], "replicas": [0]}
    broker.ask(ApiKey.UPDATE_METADATA, 8, update_metadata("t", uuids.ZERO, 1, fields))
    assert answers[0].responses[0].error_code == 0


def test_what_cannot_be_deleted_gets_kafkas_code(harness: Make) -> None:
    """Unknown topics, and every topic if deletion is disabled."""
    broker = harness()
    broker.lead("t")
    assert broker.ask(ApiKey.DELETE_TOPICS, 5, delete("u")).responses[0].error_code == 3
    assert broker.topics.ordered_deletions == []


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
def test_where_nothing_may_be_deleted_old_clients_get_a_code_that_they_know(
    harness: Make, version: int, code: ErrorCode
) -> None:
    """TOPIC_DELETION_DISABLED exists since version 3."""
    broker = harness(delete_topic_enable="false")
    broker.lead("t")
    assert broker.ask(ApiKey.DELETE_TOPICS, version, delete("t")).responses[0].error_code == code


def test_a_topic_deleted_by_id_is_answered_by_id(harness: Make) -> None:
    """The client expects the id, even if the topic is gone before the response is written."""
    broker = harness()
    topic_id = broker.lead("t")

    async def delete_at_once(name: str) -> None:
        gone = {"controller_epoch": 1, "leader": -2, "leader_epoch": 0, "isr": [], "replicas": []}
        broker.ask(ApiKey.UPDATE_METADATA, 8, update_metadata(name, topic_id, 1, gone))

    broker.topics.request_deletion = delete_at_once  # type: ignore[method-assign]
    request = codec.request(ApiKey.DELETE_TOPICS)
    wanted = request(topics=[request.DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=1000)
    answered = broker.ask(ApiKey.DELETE_TOPICS, 6, wanted).responses[0]
    assert (answered.name, answered.topic_id, answered.error_code) == ("t", topic_id, 0)


def test_a_name_and_an_id_together_delete_nothing(harness: Make) -> None:
    """The name may be that of a newer topic; Kafka refuses the whole request."""
    broker = harness()
    broker.lead("t")
    broker.lead("u")
    request = codec.request(ApiKey.DELETE_TOPICS)
    both = request.DeleteTopicState(name="t", topic_id=uuids.random_topic_id())
    one = request.DeleteTopicState(name="u", topic_id=uuids.ZERO)
    answer = broker.ask(ApiKey.DELETE_TOPICS, 6, request(topics=[both, one], timeout_ms=0))
    assert [result.error_code for result in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2
    assert broker.topics.ordered_deletions == []


def test_the_partitions_of_a_request_are_bounded_together(harness: Make) -> None:
    """All topics of a request share the limit of one topic: topics that fit are planned, the others get
    INVALID_PARTITIONS.
    """
    broker = harness()
    broker.lead("other")
    request = create("a", "b", "c", partitions=20_000, validate_only=True)
    request.topics.append(create("d", partitions=10_000).topics[0])
    answer = broker.ask(ApiKey.CREATE_TOPICS, 4, request)
    codes = {topic.name: topic.error_code for topic in answer.topics}
    assert codes == {"a": 0, "b": 0, "c": ErrorCode.INVALID_PARTITIONS, "d": 0} | {
        topic.name: ErrorCode.REQUEST_TIMED_OUT for topic in answer.topics if topic.error_code == 7
    }
    assert "for all topics of a request together" in answer.topics[2].error_message


def test_the_controllers_broker_whose_session_ends_says_so(harness: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is NOT_CONTROLLER, so clients ask the next controller; other errors of ZooKeeper do not suggest a
    retry.
    """
    broker = harness()
    broker.lead("t")
    for error, code in (SessionLost("/brokers/topics/u"), 41), (NoAuth("/brokers/topics/u"), -1):

        async def refuse(*_: Any, error: RegistryError = error) -> None:
            raise error

        monkeypatch.setattr(broker.topics, "create_topic", refuse)
        monkeypatch.setattr(broker.topics, "request_deletion", refuse)
        assert result(broker, create("u")).error_code == code
        assert broker.ask(ApiKey.DELETE_TOPICS, 5, delete("t")).responses[0].error_code == code

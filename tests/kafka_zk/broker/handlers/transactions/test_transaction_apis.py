"""The transaction APIs on the wire: every version, and Kafka's error codes."""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.partitions import OFFSETS_TOPIC
from kafka_zk.broker.transaction.state_topic import TRANSACTION_STATE_TOPIC
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.broker.conftest import Harness
from tests.kafka_zk.broker.handlers.groups.group_requests import Forbids

Make = Callable[..., Harness]

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NONE, FENCED, OLD_EPOCH = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS

AddRequest = codec.request(ApiKey.ADD_PARTITIONS_TO_TXN)
Topic = AddRequest.AddPartitionsToTxnTopic


@pytest.fixture
def broker(harness: Make) -> Harness:
    """The broker leads two partitions of t, and coordinates all transactional ids and groups."""
    made = harness(**{"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"})
    for topic, partitions in (("t", 2), (TRANSACTION_STATE_TOPIC, 1), (OFFSETS_TOPIC, 1)):
        made.lead(topic, partitions)
    made.clock.advance(1)
    return made


def versions(api: ApiKey) -> range:
    lowest, highest = BROKER_VERSIONS[api]
    return range(lowest, highest + 1)


def init(broker: Harness, version: int = 5, transactional_id: str | None = "x", **fields: Any) -> tuple[int, int, int]:
    fields = {"transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1, **fields}
    request = codec.request(ApiKey.INIT_PRODUCER_ID)(transactional_id=transactional_id, **fields)
    answer = broker.ask(ApiKey.INIT_PRODUCER_ID, version, request)
    return answer.error_code, answer.producer_id, answer.producer_epoch


def add(
    broker: Harness, producer: tuple[int, int], *tps: TopicPartition, version: int = 3, who: str = "x"
) -> list[int]:
    topics = [Topic(name=topic, partitions=[partition]) for topic, partition in tps]
    if version < 4:
        request = AddRequest(
            v3_and_below_transactional_id=who,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=topics,
        )
        answer = broker.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)
        return codes_of(answer.results_by_topic_v3_and_below)
    return batch(broker, version, (who, producer, False, topics))[0]


def batch(broker: Harness, version: int, *asked: tuple[str, tuple[int, int], bool, list[Any]]) -> list[list[int]]:
    request = AddRequest(
        transactions=[
            AddRequest.AddPartitionsToTxnTransaction(
                transactional_id=who,
                producer_id=producer[0],
                producer_epoch=producer[1],
                verify_only=verify_only,
                topics=topics,
            )
            for who, producer, verify_only, topics in asked
        ]
    )
    answer = broker.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)
    assert answer.error_code == 0
    return [codes_of(each.topic_results) for each in answer.results_by_transaction]


def codes_of(topics: list[Any]) -> list[int]:
    return [partition.partition_error_code for topic in topics for partition in topic.results_by_partition]


def end(broker: Harness, producer: tuple[int, int], *, commit: bool = True, version: int = 4, who: str = "x") -> int:
    request = codec.request(ApiKey.END_TXN)(
        transactional_id=who, producer_id=producer[0], producer_epoch=producer[1], committed=commit
    )
    return int(broker.ask(ApiKey.END_TXN, version, request).error_code)


def add_offsets(broker: Harness, producer: tuple[int, int], version: int = 4) -> int:
    request = codec.request(ApiKey.ADD_OFFSETS_TO_TXN)(
        transactional_id="x", producer_id=producer[0], producer_epoch=producer[1], group_id="g"
    )
    return int(broker.ask(ApiKey.ADD_OFFSETS_TO_TXN, version, request).error_code)


def describe(broker: Harness, who: str = "x") -> Any:
    request = codec.request(ApiKey.DESCRIBE_TRANSACTIONS)(transactional_ids=[who])
    (state,) = broker.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, request).transaction_states
    return state


def listed(broker: Harness, version: int = 1, **filters: Any) -> Any:
    fields = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1, **filters}
    request = codec.request(ApiKey.LIST_TRANSACTIONS)(**fields)
    return broker.ask(ApiKey.LIST_TRANSACTIONS, version, request)


def begun(broker: Harness, *tps: TopicPartition) -> tuple[int, int]:
    """A producer with an open transaction."""
    _, *producer = init(broker)
    assert set(add(broker, (producer[0], producer[1]), *tps)) <= {NONE}
    return producer[0], producer[1]


# -- a transaction ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("step", range(6))
def test_every_version_ends_a_transaction(broker: Harness, step: int, commit: bool) -> None:
    def version(api: ApiKey, highest: int | None = None) -> int:
        offered = versions(api)
        return min(step, offered[-1] if highest is None else highest)

    code, *who = init(broker, version(ApiKey.INIT_PRODUCER_ID))
    producer = who[0], who[1]
    assert (code, producer) == (NONE, (5000, 0))
    assert add(broker, producer, T0, T1, version=version(ApiKey.ADD_PARTITIONS_TO_TXN)) == [NONE, NONE]
    assert add_offsets(broker, producer, version(ApiKey.ADD_OFFSETS_TO_TXN)) == NONE
    assert end(broker, producer, commit=commit, version=version(ApiKey.END_TXN)) == NONE
    (marker,) = broker.markers.written
    assert marker == (5000, 0, 0, commit, [TopicPartition(OFFSETS_TOPIC, 0), T0, T1])
    assert describe(broker).transaction_state == ("CompleteCommit" if commit else "CompleteAbort")
    assert end(broker, producer, commit=commit) == NONE
    assert end(broker, producer, commit=not commit) == ErrorCode.INVALID_TXN_STATE


def test_an_idempotent_producer_needs_no_coordinator(harness: Make) -> None:
    assert init(harness(), transactional_id=None) == (NONE, 5000, 0)


def test_the_next_producer_of_an_id_has_the_next_epoch(broker: Harness) -> None:
    assert [init(broker) for _ in range(2)] == [(NONE, 5000, 0), (NONE, 5000, 1)]
    assert init(broker, transactional_id="y") == (NONE, 5001, 0)


def test_a_new_producer_aborts_the_open_transaction_of_the_old_one(broker: Harness) -> None:
    """The new producer waits; the old epoch is fenced, with the error code of its version."""
    producer = begun(broker, T0)
    assert init(broker) == (CONCURRENT, -1, -1)
    assert broker.markers.written == [(5000, 1, 0, False, [T0])]
    assert [end(broker, producer, version=version) for version in versions(ApiKey.END_TXN)] == [
        OLD_EPOCH, OLD_EPOCH, FENCED, FENCED, FENCED,
    ]  # fmt: skip
    assert add(broker, producer, T1, version=1) == [OLD_EPOCH]
    assert add(broker, producer, T1, version=2) == [FENCED]
    assert [add_offsets(broker, producer, version) for version in (1, 2)] == [OLD_EPOCH, FENCED]
    assert [init(broker, version, producer_id=5000, producer_epoch=0)[0] for version in (3, 4)] == [OLD_EPOCH, FENCED]
    assert init(broker) == (NONE, 5000, 2)


def test_a_producer_may_go_on_with_the_next_epoch(broker: Harness) -> None:
    """KIP-360. The producer may repeat the request if it lost the response."""
    init(broker)
    assert [init(broker, producer_id=5000, producer_epoch=0) for _ in range(2)] == [(NONE, 5000, 1)] * 2
    assert init(broker, producer_id=5000, producer_epoch=1) == (NONE, 5000, 2)
    assert init(broker, producer_id=5000, producer_epoch=0)[0] == FENCED


def test_while_markers_are_under_way_everybody_waits(broker: Harness) -> None:
    broker.markers.codes[T0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    producer = begun(broker, T0, T1)
    assert end(broker, producer) == NONE
    assert end(broker, producer) == end(broker, producer, commit=False) == CONCURRENT
    assert add(broker, producer, T0) == [CONCURRENT]
    assert init(broker)[0] == CONCURRENT
    state = describe(broker)
    assert (state.transaction_state, [(each.topic, each.partitions) for each in state.topics]) == (
        "PrepareCommit", [("t", [0])],
    )  # fmt: skip
    broker.markers.codes.clear()
    broker.clock.advance(1)
    assert describe(broker).transaction_state == "CompleteCommit"
    assert [marker.tps for marker in broker.markers.written] == [[T0, T1], [T0]]


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_requests_that_cannot_be(broker: Harness) -> None:
    assert init(broker) == (NONE, 5000, 0)
    producer = 5000, 0
    assert init(broker, transactional_id="")[0] == ErrorCode.INVALID_REQUEST
    assert init(broker, producer_id=5000)[0] == ErrorCode.INVALID_REQUEST
    assert [init(broker, transaction_timeout_ms=ms)[0] for ms in (0, -1, 900_001)] == [
        ErrorCode.INVALID_TRANSACTION_TIMEOUT
    ] * 3
    assert add(broker, producer, T0, who="") == [ErrorCode.INVALID_REQUEST]
    assert end(broker, producer, who="") == ErrorCode.INVALID_REQUEST
    assert end(broker, producer) == ErrorCode.INVALID_TXN_STATE
    assert end(broker, producer, who="unknown") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert end(broker, (4, 0)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    gone = TopicPartition("t", 7)
    assert add(broker, producer, T0, gone) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]  # fmt: skip
    assert describe(broker, "unknown").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert describe(broker, "").error_code == ErrorCode.INVALID_REQUEST


def test_another_broker_coordinates(broker: Harness) -> None:
    broker.lead(TRANSACTION_STATE_TOPIC, 1, leader=1, leader_epoch=1, isr=[0, 1], replicas=[0, 1])
    assert init(broker)[0] == ErrorCode.NOT_COORDINATOR
    assert add(broker, (5000, 0), T0) == [ErrorCode.NOT_COORDINATOR]
    assert describe(broker).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("forbidden", ["TransactionalId", "Group", "Topic"])
def test_who_may_not_is_told(broker: Harness, forbidden: str) -> None:
    producer = begun(broker, T0)
    broker.services.authorizer = Forbids(forbidden)
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if forbidden == "TransactionalId":
        assert init(broker)[0] == add_offsets(broker, producer) == end(broker, producer) == refused
        assert add(broker, producer, T0) == [refused]
        assert describe(broker).error_code == refused
        assert listed(broker).transaction_states == []
    elif forbidden == "Group":
        assert add_offsets(broker, producer) == ErrorCode.GROUP_AUTHORIZATION_FAILED
    else:
        assert add(broker, producer, T0) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        assert describe(broker).topics == []


# -- between brokers --------------------------------------------------------------------------------------------------


def test_brokers_ask_whether_a_producer_may_write(broker: Harness) -> None:
    """A request has several transactions; a partition outside the transaction has another error code before version 5.
    """
    producer = begun(broker, T0)
    topics = [Topic(name="t", partitions=[0, 1])]
    asked = [("x", producer, True, topics), ("x", (5000, 7), True, topics), ("y", producer, True, topics)]
    for version, missing in ((4, ErrorCode.INVALID_TXN_STATE), (5, ErrorCode.TRANSACTION_ABORTABLE)):
        assert batch(broker, version, *asked) == [
            [NONE, missing], [FENCED] * 2, [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2,
        ]  # fmt: skip
    assert add(broker, producer, T1, version=5) == [NONE]
    assert batch(broker, 5, asked[0]) == [[NONE, NONE]]


def test_only_brokers_may_ask_that(broker: Harness) -> None:
    broker.services.authorizer = Forbids("Cluster")
    answer = broker.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 5, AddRequest(transactions=[]))
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


# -- administration ---------------------------------------------------------------------------------------------------


def test_transactions_are_listed_by_state_producer_and_duration(broker: Harness) -> None:
    begun(broker, T0)
    init(broker, transactional_id="y")

    def ids(**filters: Any) -> list[str]:
        answer = listed(broker, **filters)
        assert answer.error_code == 0
        return sorted(each.transactional_id for each in answer.transaction_states)

    assert ids() == ["x", "y"]
    assert ids(state_filters=["Ongoing"]) == ids(producer_id_filters=[5000]) == ["x"]
    assert ids(state_filters=["Dead"]) == []
    assert listed(broker, state_filters=["Ongoing", "odd"]).unknown_state_filters == ["odd"]
    assert ids(duration_filter=60_000) == ["y"]  # in Kafka, too, a transaction that never began has lasted since 1970
    assert ids(version=0) == ["x", "y"]


def test_a_transaction_is_described(broker: Harness) -> None:
    begun(broker, T1, T0)
    state = describe(broker)
    assert (state.error_code, state.transaction_state, state.transaction_timeout_ms) == (NONE, "Ongoing", 60_000)
    assert (state.producer_id, state.producer_epoch, state.transactional_id) == (5000, 0, "x")
    assert [(each.topic, each.partitions) for each in state.topics] == [("t", [0, 1])]
    assert state.transaction_start_time_ms > 0


def test_the_coordinator_is_found_and_its_topic_made(harness: Make) -> None:
    """The topic is uncompressed and compacted and has the keys of ``transaction.state.log``; with one broker it has one
    replica.
    """
    broker = harness()
    broker.lead("t")

    def find() -> tuple[int, int]:
        request = codec.request(ApiKey.FIND_COORDINATOR)(key_type=1, coordinator_keys=["x"])
        (found,) = broker.ask(ApiKey.FIND_COORDINATOR, 6, request).coordinators
        return found.error_code, found.node_id

    assert find() == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assignment, _, properties = broker.topics.created[TRANSACTION_STATE_TOPIC]
    assert len(assignment) == 50
    assert properties == {
        "cleanup.policy": "compact", "compression.type": "uncompressed", "min.insync.replicas": "1",
        "segment.bytes": "104857600", "unclean.leader.election.enable": "false",
    }  # fmt: skip
    broker.lead(TRANSACTION_STATE_TOPIC, 50)
    assert find() == (NONE, 0)


@pytest.mark.parametrize("topic", [TRANSACTION_STATE_TOPIC, OFFSETS_TOPIC])
def test_clients_add_no_internal_topics(broker: Harness, topic: str) -> None:
    """A client's marker among a coordinator's records would keep Kafka's coordinators from loading them."""
    _, producer_id, epoch = init(broker)
    codes = add(broker, (producer_id, epoch), TopicPartition(topic, 0), TopicPartition("t", 0))
    assert codes == [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OPERATION_NOT_ATTEMPTED]
    assert add_offsets(broker, (producer_id, epoch)) == ErrorCode.NONE

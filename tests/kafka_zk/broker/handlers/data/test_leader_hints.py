"""KIP-951: an error that redirects a client names the leader and its address on the client's listener.

Apache Kafka 3.9.1's responses in the same situations: tests/peers/test_leader_hints.py.
"""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.broker.metadata.cache import AliveBroker, BrokerEndPoint, PartitionInfo
from kafka_zk.protocol import uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.broker.conftest import CONTEXT, Harness, batch
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import fetch, fetched, produce

_TOPIC_NAMES = 12  # the last version of Fetch that has names
_INTERNAL = CONTEXT._replace(listener_name="INTERNAL")
_LISTENER_OF_NONE = CONTEXT._replace(listener_name="OTHER")


@pytest.fixture
def broker(harness: Callable[..., Harness]) -> Harness:
    """Broker 0 follows broker 1 in ``t`` in leader epoch 5; broker 1 has two listeners."""
    made = harness()
    made.lead("t", leader=1, leader_epoch=5, isr=[0, 1], replicas=[0, 1])
    endpoints = {"PLAINTEXT": BrokerEndPoint("one.example", 9093), "INTERNAL": BrokerEndPoint("10.0.0.1", 9094)}
    made.services.metadata.brokers[1] = AliveBroker(1, endpoints, "r1")
    return made


def _ask(broker: Harness, api_key: ApiKey, version: int, request: Any, context: Any = CONTEXT) -> Any:
    answers: list[Any] = []
    broker.start(api_key, version, request, context).addCallback(answers.append)
    (answer,) = answers
    return answer


def _produce(broker: Harness, version: int, context: Any = CONTEXT, topic: str = "t") -> tuple[Any, Any]:
    answer = _ask(broker, ApiKey.PRODUCE, version, produce(batch(b"x"), topic=topic), context)
    return answer.responses[0].partition_responses[0], answer.node_endpoints


def _fetch(broker: Harness, version: int, topic: str = "t", epoch: int = -1) -> tuple[Any, Any]:
    request = fetch(0, topic=topic, epoch=epoch)
    if version > _TOPIC_NAMES:
        request.topics[0].topic_id = broker.services.metadata.topic_ids[topic]
    answer = _ask(broker, ApiKey.FETCH, version, request)
    return fetched(answer), answer.node_endpoints


def _leader(result: Any) -> tuple[int, int] | None:
    """The leader's id and epoch in a result; None if it names no leader."""
    leader = result.current_leader
    return None if leader is None or leader.leader_id == -1 else (leader.leader_id, leader.leader_epoch)


def _addresses(endpoints: Any) -> list[tuple[int, str, int, str | None]]:
    return [(each.node_id, each.host, each.port, each.rack) for each in endpoints or ()]


def _hosted_elsewhere(broker: Harness, topic: str) -> None:
    """Make broker 1 the leader of a topic that this broker has no replica of."""
    topic_id = uuids.random_topic_id()
    metadata = broker.services.metadata
    metadata.topics[topic] = {0: PartitionInfo(1, 1, 8, [1], 0, [1], [])}
    metadata.topic_ids[topic], metadata.topic_names[topic_id] = topic_id, topic


@pytest.mark.parametrize("version", [10, 11])
def test_produce_names_the_leader_on_the_listener_of_the_request(broker: Harness, version: int) -> None:
    for context, address in ((CONTEXT, ("one.example", 9093)), (_INTERNAL, ("10.0.0.1", 9094))):
        result, endpoints = _produce(broker, version, context)
        assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert _leader(result) == (1, 5)
        assert _addresses(endpoints) == [(1, *address, "r1")]


def test_older_versions_of_produce_do_not_name_it(broker: Harness) -> None:
    result, endpoints = _produce(broker, 9)
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (_leader(result), _addresses(endpoints)) == (None, [])


def test_a_leader_without_that_listener_or_not_alive_has_no_address(broker: Harness) -> None:
    """The client then requests metadata."""
    for context in (_LISTENER_OF_NONE, CONTEXT):
        result, endpoints = _produce(broker, 11, context)
        assert _leader(result) == (1, 5)
        assert bool(_addresses(endpoints)) is (context is CONTEXT)
    del broker.services.metadata.brokers[1]
    result, endpoints = _produce(broker, 11)
    assert (_leader(result), _addresses(endpoints)) == ((1, 5), [])


@pytest.mark.parametrize("version", [16, 17])
def test_without_a_replica_here_the_metadata_cache_names_the_leader(broker: Harness, version: int) -> None:
    _hosted_elsewhere(broker, "far")
    for result, endpoints in (_produce(broker, 11, topic="far"), _fetch(broker, version, "far")):
        assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (_leader(result), _addresses(endpoints)) == ((1, 8), [(1, "one.example", 9093, "r1")])
    result, endpoints = _fetch(broker, 15, "far")
    assert (_leader(result), _addresses(endpoints)) == (None, [])


def test_a_fenced_fetch_learns_the_new_epoch(broker: Harness) -> None:
    """A fetch with a newer epoch than this broker's gets no hint, because the newer epoch may be right."""
    result, endpoints = _fetch(broker, 16, epoch=4)
    assert result.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (_leader(result), _addresses(endpoints)) == ((1, 5), [(1, "one.example", 9093, "r1")])
    result, endpoints = _fetch(broker, 16, epoch=6)
    assert result.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (_leader(result), _addresses(endpoints)) == (None, [])


@pytest.mark.parametrize("min_bytes", [1, 1000])
def test_a_fetch_that_waits_learns_it_too(harness: Callable[..., Harness], min_bytes: int) -> None:
    broker = harness()
    topic_id = broker.lead("t", leader_epoch=5)
    request = fetch(0, max_wait_ms=500, min_bytes=min_bytes, epoch=5)
    request.topics[0].topic_id = topic_id
    answers: list[Any] = []
    broker.start(ApiKey.FETCH, 17, request).addCallback(answers.append)
    assert not answers
    broker.lead_again("t", topic_id, leader_epoch=6)
    broker.clock.advance(0.5)
    result = fetched(answers[0])
    assert result.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (_leader(result), _addresses(answers[0].node_endpoints)) == ((0, 6), [(0, "localhost", 9092, None)])


def test_each_leader_is_named_once_and_a_success_names_none(broker: Harness) -> None:
    _hosted_elsewhere(broker, "far")
    broker.lead("mine", leader=0, leader_epoch=2)
    endpoints = {"PLAINTEXT": BrokerEndPoint("one.example", 9093)}
    broker.services.metadata.brokers[1] = AliveBroker(1, endpoints, None)
    request = produce(batch(b"x"))
    for topic in ("far", "mine"):
        request.topic_data += produce(batch(b"x"), topic=topic).topic_data
    answer = _ask(broker, ApiKey.PRODUCE, 11, request)
    leaders = [_leader(each.partition_responses[0]) for each in answer.responses]
    assert leaders == [(1, 5), (1, 8), None]
    assert _addresses(answer.node_endpoints) == [(1, "one.example", 9093, None)]

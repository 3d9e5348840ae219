"""Filters find the topics and groups in every request that names them, and faults do not hit brokers."""

from typing import Any

import pytest

from kafka_zk.broker.faults.request_names import is_of_broker, names_in
from kafka_zk.broker.metadata.cache import AliveBroker
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, write_fetch_request
from kafka_zk.protocol.request import RequestHeader
from tests.kafka_zk.broker.conftest import Harness


def names(broker: Harness, api_key: ApiKey, version: int, **fields: Any) -> tuple[set[str], set[str]]:
    body = memoryview(bytes(codec.encode_body(codec.request(api_key)(**fields), api_key, version)))
    return found(broker, api_key, version, body)


def found(broker: Harness, api_key: ApiKey, version: int, body: memoryview) -> tuple[set[str], set[str]]:
    header = RequestHeader(api_key, version, 7, "app")
    named = names_in(broker.services, header, body, codec.decode_request(api_key, version, body))
    assert named.client_id == "app"
    return set(named.topics), set(named.groups)


def test_a_commit_names_its_topics_and_its_group(broker: Harness) -> None:
    topic = codec.request(ApiKey.OFFSET_COMMIT).OffsetCommitRequestTopic
    fields = {"group_id": "g", "topics": [topic(name="a", partitions=[]), topic(name="b", partitions=[])]}
    assert names(broker, ApiKey.OFFSET_COMMIT, 8, **fields) == ({"a", "b"}, {"g"})


@pytest.mark.parametrize("fields", [{"key": "g", "key_type": 0}, {"key": "transaction", "key_type": 1}])
def test_only_a_groups_coordinator_is_searched_for_a_group(broker: Harness, fields: dict[str, Any]) -> None:
    wanted = {"g"} if fields["key_type"] == 0 else set()
    assert names(broker, ApiKey.FIND_COORDINATOR, 3, **fields) == (set(), wanted)


def test_the_names_of_protocols_are_not_topics(broker: Harness) -> None:
    protocol = codec.request(ApiKey.JOIN_GROUP).JoinGroupRequestProtocol(name="range", metadata=b"")
    fields = {"group_id": "g", "session_timeout_ms": 1, "member_id": "", "protocol_type": "c", "protocols": [protocol]}
    assert names(broker, ApiKey.JOIN_GROUP, 5, **fields) == (set(), {"g"})


def fetch(session_id: int, session_epoch: int, topics: list[FetchTopic]) -> FetchRequest:
    return FetchRequest(0, 0, topics, session_id=session_id, session_epoch=session_epoch)


def test_a_fetch_names_the_topics_of_its_session(broker: Harness) -> None:
    topic_id = broker.lead("orders").bytes
    wanted = [FetchTopic(None, topic_id, [FetchPartition(0, 0, 1000)])]
    session = broker.services.fetch_sessions.open(fetch(0, 0, wanted), True, 0).session
    assert session is not None
    body = memoryview(bytes(write_fetch_request(17, fetch(session.session_id, 1, []))))
    assert found(broker, ApiKey.FETCH, 17, body) == ({"orders"}, set())
    assert session.next_epoch == 1  # looking for names does not advance the session


@pytest.mark.parametrize(
    ("replica_id", "client_id", "is_broker"),
    [(1, "app", True), (-1, "1", True), (-1, "2", False), (-1, "1" * 5000, False)],
)
def test_requests_of_brokers_are_recognised(broker: Harness, replica_id: int, client_id: str, is_broker: bool) -> None:
    broker.services.metadata.brokers[1] = AliveBroker(1, {}, None)
    request = codec.request(ApiKey.LIST_OFFSETS)(replica_id=replica_id, topics=[])
    header = RequestHeader(ApiKey.LIST_OFFSETS, 1, 7, client_id)
    assert is_of_broker(broker.services, header, request) is is_broker

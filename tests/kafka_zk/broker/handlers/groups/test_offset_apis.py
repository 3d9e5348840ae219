"""OffsetCommit and OffsetFetch: ZooKeeper's offsets, and those of the coordinator."""

from collections.abc import Iterator

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.client.errors import NoAuth
from tests.kafka_zk.broker.conftest import FakeOffsets, Harness, update_metadata
from tests.kafka_zk.broker.handlers.groups.group_requests import NONE, UNKNOWN, Forbids, broker, commit, fetch, found

__all__ = ["broker"]  # a fixture


@pytest.fixture
def no_zookeeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(FakeOffsets, "failure", NoAuth("/consumers"))
    yield


def test_version_0_stores_in_zookeeper_and_reads_from_there(broker: Harness) -> None:
    """The broker drops commit metadata, as Kafka does. An offset that is not stored looks the same as a partition that
    does not exist.
    """
    assert commit(broker, 0, {("t", 0): 7, ("t", 5): 1, ("x", 0): 1}) == [NONE, UNKNOWN, UNKNOWN]
    assert FakeOffsets.stored["g"] == {TopicPartition("t", 0): 7}
    answer = fetch(broker, 0, ("t", 0), ("t", 1), ("x", 0))
    assert found(answer) == [(7, "", NONE), (-1, "", UNKNOWN), (-1, "", UNKNOWN)]


def test_long_metadata_are_refused(broker: Harness) -> None:
    assert commit(broker, 0, {("t", 0): 7}, metadata="123456") == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert commit(broker, 0, {("t", 0): 7}, metadata=None) == [NONE]


@pytest.mark.parametrize("group", ["", "a/b", "..", "a\n"])
def test_a_group_that_can_have_no_znodes_is_invalid(broker: Harness, group: str) -> None:
    assert commit(broker, 0, {("t", 0): 7}, group=group) == [ErrorCode.INVALID_GROUP_ID]
    assert found(fetch(broker, 0, ("t", 0), group=group)) == [(-1, "", ErrorCode.INVALID_GROUP_ID)]


def test_a_group_that_no_consumer_could_join_is_stored_as_kafka_stores_it(broker: Harness) -> None:
    assert commit(broker, 0, {("t", 0): 7}, group="my group") == [NONE]
    assert found(fetch(broker, 0, ("t", 0), group="my group")) == [(7, "", NONE)]


def test_an_offset_that_an_acl_hides_is_an_error_of_its_partition_only(
    broker: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert commit(broker, 0, {("t", 0): 7, ("t", 1): 8}) == [NONE, NONE]
    monkeypatch.setattr(FakeOffsets, "hidden", frozenset({TopicPartition("t", 0)}))
    FakeOffsets.stored["g"].pop(TopicPartition("t", 0))
    assert found(fetch(broker, 0, ("t", 0), ("t", 1))) == [(-1, "", ErrorCode.UNKNOWN_SERVER_ERROR), (8, "", NONE)]


@pytest.mark.usefixtures("no_zookeeper")
def test_zookeepers_refusal_is_an_error_of_the_partition(broker: Harness) -> None:
    assert commit(broker, 0, {("t", 0): 7, ("x", 0): 7}) == [ErrorCode.UNKNOWN_SERVER_ERROR, UNKNOWN]
    assert found(fetch(broker, 0, ("t", 0))) == [(-1, "", ErrorCode.UNKNOWN_SERVER_ERROR)]


@pytest.mark.parametrize("version", [1, 2, 5, 9])
def test_later_versions_commit_to_the_coordinator(broker: Harness, version: int) -> None:
    broker.lead("__consumer_offsets", 3)
    assert commit(broker, version, {("t", 0): 7, ("x", 0): 1}) == [NONE, UNKNOWN]
    assert not FakeOffsets.stored.get("g")
    assert found(fetch(broker, version, ("t", 0), ("t", 1))) == [(7, "m", NONE), (-1, "", NONE)]
    if version >= 2:
        assert found(fetch(broker, version)) == [(7, "m", NONE)]


def test_how_long_an_offset_is_kept_is_said_by_old_versions(broker: Harness) -> None:
    broker.lead("__consumer_offsets")
    assert commit(broker, 2, {("t", 0): 7}, retention_ms=2**63 - 1) == [NONE]
    assert commit(broker, 2, {("t", 1): 8}, retention_ms=0) == [NONE]
    ensureDeferred(broker.services.coordinator.offsets.remove_expired())
    assert found(fetch(broker, 2)) == [(7, "m", NONE)]


@pytest.mark.parametrize("version", [1, 2, 7, 8, 9])
def test_what_the_coordinator_has_not_is_nothing_without_an_error(broker: Harness, version: int) -> None:
    """Old tools look into ZooKeeper only if the response is -1 and ""."""
    broker.lead("__consumer_offsets")
    commit(broker, 0, {("t", 0): 7})
    answer = fetch(broker, version, ("t", 0), ("x", 3))
    assert found(answer) == [(-1, "", NONE), (-1, "", NONE)]
    if version >= 2:
        assert answer.error_code == NONE
        assert found(fetch(broker, version)) == []


@pytest.mark.parametrize("version", [1, 2, 8])
def test_a_broker_that_is_not_the_coordinator_says_so(broker: Harness, version: int) -> None:
    assert commit(broker, version, {("t", 0): 7}) == [ErrorCode.NOT_COORDINATOR]
    answer = fetch(broker, version, ("t", 0))
    if version >= 2:
        assert (found(answer), answer.error_code) == ([], ErrorCode.NOT_COORDINATOR)
    else:
        assert found(answer) == [(-1, "", ErrorCode.NOT_COORDINATOR)]


def test_offsets_of_deleted_partitions_are_forgotten(broker: Harness) -> None:
    broker.lead("__consumer_offsets")
    commit(broker, 9, {("t", 0): 7, ("t", 1): 8})
    fields = {"controller_epoch": 1, "leader": -2, "leader_epoch": 0, "isr": [0], "replicas": [0]}
    topic_id = broker.services.metadata.topic_ids["t"]
    broker.ask(ApiKey.UPDATE_METADATA, 8, update_metadata("t", topic_id, 1, fields))
    assert found(fetch(broker, 9)) == [(8, "m", NONE)]


@pytest.mark.parametrize("version", [0, 1, 2, 8])
def test_a_forbidden_group_is_told_where_the_version_has_room(broker: Harness, version: int) -> None:
    broker.services.authorizer = Forbids("Group")
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert commit(broker, version, {("t", 0): 7}) == [refused]
    answer = fetch(broker, version, ("t", 0))
    if version >= 2:
        assert (found(answer), answer.error_code) == ([], refused)
    else:
        assert found(answer) == [(-1, "", refused)]


@pytest.mark.parametrize("version", [0, 1, 8])
def test_a_forbidden_topic_is_an_error_of_its_partitions(broker: Harness, version: int) -> None:
    broker.lead("__consumer_offsets")
    broker.services.authorizer = Forbids("Topic")
    assert commit(broker, version, {("t", 0): 7}) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert found(fetch(broker, version, ("t", 0))) == [(-1, "", ErrorCode.TOPIC_AUTHORIZATION_FAILED)]

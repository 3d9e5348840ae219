"""Foreign clients create and delete topics: the refusals, and Kafka's errors for them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.peers.clients.java_clients import JavaDriver
from tests.peers.targets import Target

pytestmark = pytest.mark.peers


def _create(driver: JavaDriver, target: Target, topic: str, **shape: Any) -> str:
    """The exception of Admin.createTopics ("" after a success)."""
    request = {"partitions": 1, "replication_factor": 1, "configs": {}, **shape}
    error: str = driver.ask("create", target.bootstrap, topic=topic, **request).get("error", "")
    return error


@pytest.mark.parametrize(
    ("shape", "exception"),
    [
        ({"partitions": 0}, "InvalidPartitionsException"),
        ({"partitions": -7}, "InvalidPartitionsException"),
        ({"replication_factor": 0}, "InvalidReplicationFactorException"),
        ({"replication_factor": 9}, "InvalidReplicationFactorException"),
        ({"configs": {"segment.bytes": "few"}}, "InvalidConfigurationException"),
        ({"configs": {"no.such.key": "1"}}, "InvalidConfigurationException"),
        ({"configs": {"retention.ms": "-5"}}, "InvalidConfigurationException"),
    ],
)
def test_bad_topic_is_refused_with_kafkas_error(
    target: Target, java_driver: JavaDriver, shape: dict[str, Any], exception: str
) -> None:
    """Apache Kafka and ours cause the same exception class."""
    error = _create(java_driver, target, f"bad-{uuid.uuid4().hex[:8]}", **shape)
    assert error.partition(":")[0] == exception


@pytest.mark.parametrize("name", ["", "..", "a/b", "x" * 250])
def test_bad_name_is_refused(target: Target, java_driver: JavaDriver, name: str) -> None:
    """InvalidTopicException for names that Kafka does not allow."""
    assert _create(java_driver, target, name).partition(":")[0] == "InvalidTopicException"


def test_second_creation_is_refused(target: Target, java_driver: JavaDriver) -> None:
    """TopicExistsException, and UnknownTopicOrPartitionException when it is deleted twice."""
    topic = f"twice-{uuid.uuid4().hex[:8]}"
    assert _create(java_driver, target, topic) == ""
    assert _create(java_driver, target, topic).startswith("TopicExistsException")
    assert java_driver.ask("delete", target.bootstrap, topic=topic) == {}
    error = java_driver.ask("delete", target.bootstrap, topic=topic).get("error", "")
    assert error.startswith("UnknownTopicOrPartitionException")

"""CreateTopics, and Metadata requests that create topics: names that collide or are reserved, topics named twice,
versions of the message format. Our broker responds as Apache Kafka 3.9.1 does."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from tests.message_dicts import as_dict
from tests.peers import targets, wire_probe

pytestmark = pytest.mark.peers

_TIMEOUT_MS = 10_000


def _create(
    *names: str, configs: Sequence[tuple[str, str]] = (), timeout_ms: int = _TIMEOUT_MS, validate_only: bool = False
) -> Any:
    request = codec.request(ApiKey.CREATE_TOPICS)
    topic = request.CreatableTopic
    entries = [topic.CreatableTopicConfig(name=name, value=value) for name, value in configs]
    topics = [
        topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=entries) for name in names
    ]
    return request(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)


def _of_format(name: str, version: str) -> Any:
    return _create(name, configs=[("message.format.version", version)])


_CREATIONS = {
    "one of another": _create("a.b_c"),
    "one that collides with it": _create("a_b.c"),
    "two that would collide": _create("valid.b", "valid_b", validate_only=True),
    "one named twice": _create("twice", "once", "twice"),
    "the metadata of KRaft": _create("__cluster_metadata"),
    "the metadata of KRaft twice": _create("__cluster_metadata", "__cluster_metadata"),
    "without waiting": _create("impatient", timeout_ms=0),
    "format 9.9": _of_format("format-9.9", "9.9"),
    "format 4.0": _of_format("format-4.0", "4.0"),
    "format 3.9-IV1": _of_format("format-3.9-IV1", "3.9-IV1"),
    "format 0.8": _of_format("format-0.8", "0.8"),
    "format 0.11.0.3": _of_format("format-0.11.0.3", "0.11.0.3"),
    "format 3.9.1": _of_format("format-3.9.1", "3.9.1"),
}


@pytest.fixture(scope="module")
def ports(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """The only broker of each target."""
    clusters = []
    try:
        for name in targets.NAMES:
            folder = tmp_path_factory.mktemp(name)
            clusters.append(targets.start(name, peer_zookeeper, folder, chroot=f"create-{name}"))
        yield {cluster.name: cluster.ports[0] for cluster in clusters}
    finally:
        for cluster in clusters:
            cluster.stop()


def _results(port: int, version: int, message: Any) -> list[dict[str, Any]]:
    """The results in the order of their names, because Kafka's order is that of a hash table, and without the ids,
    which are random.
    """
    answer = wire_probe.ask(port, ApiKey.CREATE_TOPICS, version, message)
    none = uuid.UUID(int=0)
    results = [
        {
            **as_dict(each),
            "topic_id": each.topic_id != none,
            "configs": sorted(sorted(as_dict(config).items()) for config in each.configs),
        }
        for each in answer.topics
    ]
    return sorted(results, key=lambda each: str(each["name"]))


def test_creations_end_as_with_apache_kafka(ports: dict[str, int]) -> None:
    """The creations run one after the other on both brokers."""
    for what, message in _CREATIONS.items():
        ours, theirs = (_results(ports[name], 7, message) for name in targets.NAMES)
        assert ours == theirs, what


def test_of_two_that_collide_in_one_request_one_is_created(ports: dict[str, int]) -> None:
    """Kafka's choice depends on a hash table; ours is the first topic."""
    for name in targets.NAMES:
        results = _results(ports[name], 7, _create("x.y_z", "x_y.z"))
        assert sorted(each["error_code"] for each in results) == [0, 17], name


def test_of_two_that_one_metadata_request_would_create_one_is(ports: dict[str, int]) -> None:
    request = codec.request(ApiKey.METADATA)
    topics = [request.MetadataRequestTopic(name=name) for name in ("auto.b", "auto_b")]
    for name in targets.NAMES:
        message = request(topics=topics, allow_auto_topic_creation=True)
        answer = wire_probe.ask(ports[name], ApiKey.METADATA, 9, message)
        assert sorted(each.error_code for each in answer.topics) == [5, 17], name

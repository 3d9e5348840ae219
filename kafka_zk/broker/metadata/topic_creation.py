"""Validates a topic and writes it to ZooKeeper, where the controller sees it.

Source: ZkAdminManager.createTopics, AdminZkClient.scala, Topic.java@3.9.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

from kafka_zk.broker.config import values as config_values
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.config.values import BadValue
from kafka_zk.broker.metadata import replica_assignment
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.protocol import topic_names, uuids
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.client.errors import NodeExists
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.storage.files.log_config import LogConfig

MAX_PARTITIONS = 50_000
"""Maximum number of partitions that fits in a topic's znode (1 MB in ZooKeeper). Assigning more would block the
broker."""


class NewTopic(NamedTuple):
    """A validated topic that can be written."""

    name: str
    topic_id: str
    replicas: dict[int, list[int]]
    properties: dict[str, str]
    config: LogConfig

    @property
    def replication_factor(self) -> int:
        return len(self.replicas[0])


def check_count(partition_count: int) -> None:
    """Raise ApiError(INVALID_PARTITIONS) for more than MAX_PARTITIONS."""
    if partition_count > MAX_PARTITIONS:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS, f"Number of partitions must be at most {MAX_PARTITIONS}: {partition_count}."
        )


def check_sum(partition_count: int, others_count: int) -> None:
    """Raise ApiError(INVALID_PARTITIONS) if a request's topics together have more than MAX_PARTITIONS."""
    if partition_count + others_count > MAX_PARTITIONS:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"Number of partitions must be at most {MAX_PARTITIONS} for all topics of a request together:"
            f" {partition_count} after {others_count} others.",
        )


def check_collision(name: str, existing: Mapping[str, object]) -> None:
    """Raise ApiError if this topic exists, or another whose name differs only in ``.`` and ``_`` (equal metric
    names)."""
    if name in existing:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if "." in name or "_" in name:
        key = collision_key(name)
        for other in existing:
            if collision_key(other) == key:
                raise ApiError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topics: {other}"
                )


def check_collision_in_request(name: str, planned: Mapping[str, str]) -> None:
    """Like ``check_collision``, for topics of one request; ``planned``: names by ``collision_key``."""
    other = planned.get(collision_key(name))
    if other is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topics: {other}")


def collision_key(name: str) -> str:
    """Equal for two names that differ only in ``.`` and ``_``."""
    return name.replace(".", "_")


def check_properties(topic: str, properties: Mapping[str, str | None], defaults: LogConfig) -> LogConfig:
    """The topic's configuration with these properties. Raises ApiError(INVALID_CONFIG)."""
    empty = [key for key, value in properties.items() if value is None]
    if empty:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(empty)}")
    try:
        return config_values.check_topic(
            {key: value for key, value in properties.items() if value is not None},
            defaults,
        )
    except BadValue as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None


def _replicas(
    partition_count: int, replication_factor: int, config: KafkaConfig, metadata: MetadataCache, random: Random
) -> dict[int, list[int]]:
    partition_count = config.num_partitions if partition_count == -1 else partition_count
    replication_factor = config.default_replication_factor if replication_factor == -1 else replication_factor
    if partition_count <= 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    check_count(partition_count)
    if replication_factor <= 0:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    brokers = sorted(metadata.brokers)
    if replication_factor > len(brokers):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {len(brokers)}.",
        )
    start = random.randrange(len(brokers))
    try:
        return replica_assignment.assign_by_racks(
            metadata.racks, partition_count, replication_factor, start, random.randrange(len(brokers))
        )
    except replica_assignment.MissingRacks as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None


def _check_assignment(replicas: Mapping[int, Sequence[int]], metadata: MetadataCache) -> None:
    def refuse(problem: str) -> None:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)

    if sorted(replicas) != list(range(len(replicas))):
        refuse("partitions should be a consecutive 0-based integer sequence")
    for partition, brokers in replicas.items():
        if not brokers or len(set(brokers)) != len(brokers) or len(brokers) != len(replicas[0]):
            refuse(f"partition {partition}: brokers {list(brokers)} are empty, repeated or fewer than for partition 0")
        unknown = [broker for broker in brokers if not metadata.is_alive(broker)]
        if unknown:
            refuse(f"partition {partition}: brokers {unknown} are not alive")


def plan(
    name: str,
    partition_count: int,
    replication_factor: int,
    assignments: Mapping[int, Sequence[int]],
    properties: Mapping[str, str | None],
    config: KafkaConfig,
    metadata: MetadataCache,
    random: Random,
) -> NewTopic:
    """Validate a new topic. A count of -1 means the broker's default. Raises ApiError."""
    topic_names.check_name(name)
    check_collision(name, metadata.topics)
    if assignments:
        if partition_count != -1 or replication_factor != -1:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at the "
                "same time.",
            )
        _check_assignment(assignments, metadata)
        replicas = {partition: list(brokers) for partition, brokers in sorted(assignments.items())}
    else:
        replicas = _replicas(partition_count, replication_factor, config, metadata, random)
    log_config = check_properties(name, properties, config.topic_defaults)
    texts = {key: value for key, value in properties.items() if value is not None}
    return NewTopic(name, uuids.to_text(uuids.random_topic_id(random)), replicas, texts, log_config)


async def create(topic: NewTopic, topics: TopicRegistry) -> None:
    """Write the topic's znodes. Raises ApiError(TOPIC_ALREADY_EXISTS)."""
    try:
        await topics.create_topic(topic.name, topic.replicas, topic.topic_id, topic.properties)
    except NodeExists:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.") from None

"""Topics through a broker, or directly in ZooKeeper as with Kafka's tools before 3.0."""

import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.terminal.access import open_access
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.nearest import missing
from kafka_zk.clients.connection.errors import BrokerError, KafkaError
from kafka_zk.protocol.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from kafka_zk.clients.admin.admin import Reassignment

Assignment = Mapping[int, Sequence[int]]


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """``adding`` and ``removing``: replicas that change while the partition moves."""

    partition: int
    leader: int
    replicas: list[int]
    isr: list[int]
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """``configs``: those set for the topic; None if the broker does not return them."""

    name: str
    topic_id: str | None
    partitions: list[PartitionDescription]
    configs: dict[str, str] | None

    @property
    def replication_factor(self) -> int:
        """Number of replicas of the first partition, without those being added."""
        return len(self.partitions[0].replicas) - len(self.partitions[0].adding) if self.partitions else 0


class WantedTopic(NamedTuple):
    """A topic to create. None means the broker's default or, for ``assignment``, that no replicas are given."""

    name: str
    partitions: int | None
    replication_factor: int | None
    assignment: Assignment | None
    configs: Mapping[str, str]


class TopicExists(CommandFailed):
    """A topic of that name already exists."""


class TopicAccess(Protocol):
    """``create`` raises TopicExists."""

    def names(self) -> list[str]: ...

    def create(self, wanted: WantedTopic) -> None: ...

    def describe(self, names: Sequence[str]) -> list[TopicDescription]: ...

    def delete(self, names: Sequence[str]) -> None: ...


def topic_access(bootstrap: str, zookeeper: str | None) -> AbstractContextManager[TopicAccess]:
    """Raises the errors of ``open_access``."""
    return open_access(bootstrap, zookeeper, _BrokerTopics, _ZooKeeperTopics)


class _BrokerTopics:
    def __init__(self, admin: Any) -> None:
        self._admin = admin

    def names(self) -> list[str]:
        names: list[str] = self._admin.list_topics()
        return names

    def create(self, wanted: WantedTopic) -> None:
        from kafka_zk.clients.admin.admin import BROKER_DEFAULT, NewTopic

        counts = (wanted.partitions, wanted.replication_factor)
        partitions, replicas = [BROKER_DEFAULT if count is None else count for count in counts]
        topic = NewTopic(wanted.name, partitions, replicas, wanted.configs, wanted.assignment)
        try:
            self._admin.create_topics([topic])
        except BrokerError as error:
            if error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                raise TopicExists(str(error)) from None
            raise

    def describe(self, names: Sequence[str]) -> list[TopicDescription]:
        from kafka_zk.cli.terminal.brokers import check_topics
        from kafka_zk.protocol import uuids

        check_topics(self._admin, names)

        found = self._admin.describe_topics(names)
        configs = self._set_configs(list(found))
        # Replicas of a moving partition are out of sync at first.
        may_move = any(len(each.isr) < len(each.replicas) for topic in found.values() for each in topic.partitions)
        moving = self._reassignments() if may_move else {}

        def described(topic: str, found: Any) -> PartitionDescription:
            move = moving.get(TopicPartition(topic, found.partition))
            lists = [list(each) for each in ((move.adding, move.removing) if move else ((), ()))]
            return PartitionDescription(found.partition, found.leader, list(found.replicas), list(found.isr), *lists)

        return [
            TopicDescription(
                name,
                uuids.to_text(topic.topic_id) if topic.topic_id != uuids.ZERO else None,
                [described(name, each) for each in topic.partitions],
                configs.get(name),
            )
            for name, topic in found.items()
        ]

    def _reassignments(self) -> "Mapping[TopicPartition, Reassignment]":
        """The result is empty without a controller, or if brokers lack ListPartitionReassignments."""

        cluster = self._admin.describe_cluster()
        if cluster.controller_id not in cluster.nodes:
            return {}
        try:
            moving: Mapping[TopicPartition, Reassignment] = self._admin.list_reassignments()
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                return {}
            raise
        return moving

    def _set_configs(self, names: list[str]) -> dict[str, dict[str, str]]:
        if not names:
            return {}
        try:
            entries = self._admin.describe_topic_configs(names)
        except BrokerError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                return {}
            raise
        return {
            name: {e.name: e.value for e in entries[name] if e.source == "DYNAMIC_TOPIC_CONFIG" and e.value is not None}
            for name in names
        }

    def delete(self, names: Sequence[str]) -> None:
        from kafka_zk.cli.terminal.brokers import check_topics

        check_topics(self._admin, names)
        self._admin.delete_topics(names)


class _ZooKeeperTopics:
    def __init__(self, client: Any) -> None:
        from kafka_zk.registry.config import ConfigRegistry
        from kafka_zk.registry.topics import TopicRegistry

        self._client = client
        self._topics = TopicRegistry(client)
        self._configs = ConfigRegistry(client)

    def names(self) -> list[str]:
        from kafka_zk.registry.client.kazoo_blocking import run_blocking

        return run_blocking(self._topics.names())

    def create(self, wanted: WantedTopic) -> None:
        from kafka_zk.broker.metadata import topic_creation
        from kafka_zk.protocol import topic_names, uuids
        from kafka_zk.registry.client.errors import NodeExists
        from kafka_zk.registry.client.kazoo_blocking import run_blocking
        from kafka_zk.storage.files.log_config import LogConfig

        name, partitions, replication_factor, assignment, configs = wanted
        try:
            topic_names.check_name(name)
            topic_creation.check_collision(name, dict.fromkeys(self.names()))
            topic_creation.check_properties(name, dict(configs), LogConfig())
        except ApiError as error:
            raise CommandFailed(str(error)) from None
        replicas = {p: list(ids) for p, ids in (assignment or self._assign(partitions, replication_factor)).items()}
        topic_id = uuids.to_text(uuids.random_topic_id())
        try:
            run_blocking(self._topics.create_topic(name, replicas, topic_id, configs))
        except NodeExists:
            raise TopicExists(f"topic {name} already exists") from None

    def _assign(self, partitions: int | None, replication_factor: int | None) -> Assignment:
        from kafka_zk.broker.metadata import replica_assignment
        from kafka_zk.registry.brokers import BrokerRegistry
        from kafka_zk.registry.client.kazoo_blocking import run_blocking

        if partitions is None or replication_factor is None:
            raise CommandFailed(
                "give --partitions and --replication-factor: with --zookeeper the brokers' defaults are unknown"
            )
        live = run_blocking(BrokerRegistry(self._client).live())
        racks = {broker_id: info.rack or None for broker_id, (info, _) in live.items()}
        if replication_factor > len(racks):
            raise CommandFailed(f"replication factor {replication_factor} is above the {len(racks)} live brokers")
        start, shift = random.randrange(len(racks)), random.randrange(len(racks))
        try:
            return replica_assignment.assign_by_racks(racks, partitions, replication_factor, start, shift)
        except replica_assignment.MissingRacks as error:
            raise CommandFailed(str(error)) from None

    def describe(self, names: Sequence[str]) -> list[TopicDescription]:
        from kafka_zk.registry.client.kazoo_blocking import run_blocking

        assignments = run_blocking(self._topics.assignments(names))
        for name in names:
            if name not in assignments:
                raise CommandFailed(missing("topic", name, self.names()))
        states = run_blocking(
            self._topics.states(TopicPartition(name, p) for name in names for p in assignments[name].partitions)
        )
        configs = run_blocking(self._configs.entities("topics", list(names)))
        described = []
        for name in sorted(names):
            partitions = []
            for partition, replicas in sorted(assignments[name].partitions.items()):
                state = states.get(TopicPartition(name, partition))  # None until the controller has processed the topic
                leader, isr = (state.leader, list(state.isr)) if state else (-1, [])
                lists = [
                    list(moves.get(partition, ())) for moves in (assignments[name].adding, assignments[name].removing)
                ]
                partitions.append(PartitionDescription(partition, leader, list(replicas), isr, *lists))
            described.append(TopicDescription(name, assignments[name].topic_id, partitions, configs[name]))
        return described

    def delete(self, names: Sequence[str]) -> None:
        from kafka_zk.registry.client.kazoo_blocking import run_blocking

        existing = set(self.names())
        for name in names:
            if name not in existing:
                raise CommandFailed(missing("topic", name, existing))
            run_blocking(self._topics.request_deletion(name))

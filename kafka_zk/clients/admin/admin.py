"""Administration of a cluster; ``blocking_admin`` is the version for threads.

Changes to the cluster go to the controller. If it has moved, the client fetches metadata and asks the new controller.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from twisted.internet.error import ConnectError, ConnectionClosed

from kafka_zk.base.types import TopicPartition, partitions_by_topic
from kafka_zk.clients.admin.acl_admin import AclAdmin
from kafka_zk.clients.admin.group_admin import GroupAdmin
from kafka_zk.clients.admin.scram_admin import ScramAdmin
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.errors import (
    BrokerError,
    KafkaError,
    KafkaTimeoutError,
    broker_error,
    error_in,
    raise_error_in,
)
from kafka_zk.clients.connection.leader_epochs import LeaderEpochs, leader_epochs
from kafka_zk.clients.connection.list_offsets import ListedOffset, list_offsets, try_offsets
from kafka_zk.clients.connection.metadata import NO_TOPIC_ID, ClusterMetadata, TopicMetadata
from kafka_zk.clients.connection.waiting import Reactor, sleep
from kafka_zk.network.client import Connect, connect
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
BROKER_DEFAULT = -1
"""For ``partitions`` and ``replication_factor``: the broker's num.partitions and default.replication.factor."""

_CONFIG_SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
}
_CreateTopics = codec.request(ApiKey.CREATE_TOPICS)
_DeleteTopics = codec.request(ApiKey.DELETE_TOPICS)
_CreatePartitions = codec.request(ApiKey.CREATE_PARTITIONS)
_DescribeConfigs = codec.request(ApiKey.DESCRIBE_CONFIGS)
_AlterQuotas = codec.request(ApiKey.ALTER_CLIENT_QUOTAS)
_DescribeQuotas = codec.request(ApiKey.DESCRIBE_CLIENT_QUOTAS)
_AlterConfigs = codec.request(ApiKey.INCREMENTAL_ALTER_CONFIGS)
_DescribeLogDirs = codec.request(ApiKey.DESCRIBE_LOG_DIRS)
_ElectLeaders = codec.request(ApiKey.ELECT_LEADERS)
_AlterReassignments = codec.request(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
_ListReassignments = codec.request(ApiKey.LIST_PARTITION_REASSIGNMENTS)
_SET, _DELETE = 0, 1  # AlterConfigOp.OpType


@dataclass(frozen=True)
class NewTopic:
    """A topic to create: counts, or an ``assignment`` of replicas (broker ids) for each partition."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)
    assignment: Mapping[int, Sequence[int]] | None = None


class CreatedTopic(NamedTuple):
    """A created topic. Counts are -1 and the id is zero from brokers that are too old to return them."""

    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int


class ConfigEntry(NamedTuple):
    """One configuration value. ``source``: its origin, by Kafka's name."""

    name: str
    value: str | None
    source: str
    is_default: bool
    is_read_only: bool
    is_sensitive: bool


class Reassignment(NamedTuple):
    """A partition that is being moved: all its replicas (new ones first), and those being added and removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class Admin:
    """Administration of a cluster, on the reactor thread.

    ``Admin(reactor, bootstrap_servers="h:9092")`` takes Kafka's keys with ``_`` for ``.``, or a ClientConfig.
    Every method may raise NoBrokersAvailable ("cannot reach any of …"), and BrokerError with Kafka's code.
    ``groups`` administers broker-coordinated groups, ``acls`` ACLs, ``scram`` SCRAM users.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: ClientConfig | None = None,
        *,
        connect: Connect = connect,
        **options: Any,
    ) -> None:
        self._reactor = reactor
        self.config = ClientConfig.given(config, options)
        self._cluster = Cluster(reactor, self.config, track_all_topics=True, prefer_controller=True, connect=connect)
        self.groups = GroupAdmin(reactor, self._cluster, self.config)
        self.acls = AclAdmin(self._cluster)
        self.scram = ScramAdmin(self._cluster, self._ask_controller)

    # --- topics ---

    async def list_topics(self) -> list[str]:
        """The names of all topics, sorted."""
        return sorted((await self._cluster.refresh()).topics)

    async def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicMetadata]:
        """Partitions, leaders, replicas and ISR of these topics (None: all), sorted by name.

        Raises: BrokerError UNKNOWN_TOPIC_OR_PARTITION for a name that does not exist.
        """
        topics = (await self._cluster.refresh()).topics
        found = {}
        for name in sorted(topics if names is None else names):
            topic = topics.get(name)
            code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) if topic is None else topic.error_code
            if topic is None or code != ErrorCode.NONE:
                raise broker_error(code, f"topic {name}")
            found[name] = topic
        return found

    async def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> list[CreatedTopic]:
        """Create topics; returns when the controller has done so (their leaders take a moment longer).

        Raises: BrokerError for the first failure (TOPIC_ALREADY_EXISTS, INVALID_REPLICATION_FACTOR …), with the
        broker's message; the other topics were created.
        """
        message = _CreateTopics(
            topics=[_creatable(topic) for topic in topics],
            timeout_ms=self.config.request_timeout_ms,
            validate_only=validate_only,
        )
        response = await self._ask_controller(
            ApiKey.CREATE_TOPICS, message, lambda answer: [each.error_code for each in answer.topics]
        )
        for each in response.topics:
            raise_error_in(each, f"creating topic {each.name}")
        return [
            CreatedTopic(each.name, each.topic_id or NO_TOPIC_ID, each.num_partitions, each.replication_factor)
            for each in response.topics
        ]

    async def create_topic(
        self,
        name: str,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
    ) -> CreatedTopic:
        """Create one topic; see ``create_topics``."""
        (created,) = await self.create_topics([NewTopic(name, partitions, replication_factor, configs or {})])
        return created

    async def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics; returns when the controller has marked them. Brokers stop serving them soon after.

        Raises: BrokerError for the first failure; the other topics are deleted.
        """
        state = _DeleteTopics.DeleteTopicState
        message = _DeleteTopics(
            topics=[state(name=name, topic_id=NO_TOPIC_ID) for name in names],
            topic_names=list(names),
            timeout_ms=self.config.request_timeout_ms,
        )
        response = await self._ask_controller(
            ApiKey.DELETE_TOPICS, message, lambda answer: [each.error_code for each in answer.responses]
        )
        for each in response.responses:
            raise_error_in(each, f"deleting topic {each.name}")

    async def create_partitions(self, name: str, total_count: int) -> None:
        """Increase a topic's partitions to ``total_count``. Raises: BrokerError."""
        topic = _CreatePartitions.CreatePartitionsTopic(name=name, count=total_count, assignments=None)
        message = _CreatePartitions(topics=[topic], timeout_ms=self.config.request_timeout_ms)
        response = await self._ask_controller(
            ApiKey.CREATE_PARTITIONS, message, lambda answer: [each.error_code for each in answer.results]
        )
        for each in response.results:
            raise_error_in(each, f"adding partitions to {each.name}")

    # --- replicas ---

    async def elect_leaders(
        self, tps: Sequence[TopicPartition] | None, *, unclean: bool = False
    ) -> dict[TopicPartition, BrokerError | None]:
        """Elect preferred leaders, or with ``unclean`` any live replica if the whole ISR is gone.

        Args:
            tps: None for all; the result then omits partitions that need no election.
        Returns: None for each elected leader, else the error. Raises: BrokerError, KafkaTimeoutError.
        """
        topics = None
        if tps is not None:
            topics = [_ElectLeaders.TopicPartitions(topic=t, partitions=p) for t, p in partitions_by_topic(tps).items()]
        message = _ElectLeaders(
            election_type=int(unclean), topic_partitions=topics, timeout_ms=self.config.request_timeout_ms
        )
        response = await self._ask_controller(ApiKey.ELECT_LEADERS, message, _election_codes)
        if response.error_code:
            raise broker_error(response.error_code, "electing leaders")
        return {
            TopicPartition(topic.topic, each.partition_id): error_in(each, "electing a leader")
            for topic in response.replica_election_results
            for each in topic.partition_result
        }

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, BrokerError | None]:
        """Move partitions to other replicas, or cancel a move (target None).

        Returns: None for each move that has begun, else the error. Raises: BrokerError, KafkaTimeoutError.
        """
        topic = _AlterReassignments.ReassignableTopic
        topics = [
            topic(
                name=name,
                partitions=[
                    topic.ReassignablePartition(partition_index=each, replicas=_replicas(targets, name, each))
                    for each in partitions
                ],
            )
            for name, partitions in partitions_by_topic(targets).items()
        ]
        message = _AlterReassignments(topics=topics, timeout_ms=self.config.request_timeout_ms)
        response = await self._ask_controller(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS, message, lambda answer: [answer.error_code]
        )
        raise_error_in(response, "reassigning")
        return {
            TopicPartition(found.name, each.partition_index): error_in(each, "reassigning")
            for found in response.responses
            for each in found.partitions
        }

    async def list_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """The partitions that are being moved, sorted. Raises: BrokerError, KafkaTimeoutError."""
        message = _ListReassignments(timeout_ms=self.config.request_timeout_ms)
        response = await self._ask_controller(
            ApiKey.LIST_PARTITION_REASSIGNMENTS, message, lambda answer: [answer.error_code]
        )
        raise_error_in(response, "listing reassignments")
        found = {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in response.topics
            for each in topic.partitions
        }
        return dict(sorted(found.items()))

    # --- configurations ---

    async def describe_topic_configs(self, names: Sequence[str]) -> dict[str, list[ConfigEntry]]:
        """All configuration values of topics, sorted by key. Raises: BrokerError for a topic that does not exist."""
        return await self._describe_configs(None, TOPIC_RESOURCE, names)

    async def try_describe_topic_configs(self, names: Sequence[str]) -> dict[str, list[ConfigEntry] | BrokerError]:
        """Like ``describe_topic_configs``, but a topic's error is returned as its result."""
        return await self._try_describe_configs(None, TOPIC_RESOURCE, names)

    async def describe_broker_configs(self, broker_id: int) -> list[ConfigEntry]:
        """All configuration values of a broker, from the broker itself, sorted by key."""
        return (await self._describe_configs(broker_id, BROKER_RESOURCE, [str(broker_id)]))[str(broker_id)]

    async def _describe_configs(
        self, broker_id: int | None, resource_type: int, names: Sequence[str]
    ) -> dict[str, list[ConfigEntry]]:
        found = {}
        for name, entries in (await self._try_describe_configs(broker_id, resource_type, names)).items():
            if isinstance(entries, BrokerError):
                raise entries
            found[name] = entries
        return found

    async def _try_describe_configs(
        self, broker_id: int | None, resource_type: int, names: Sequence[str]
    ) -> dict[str, list[ConfigEntry] | BrokerError]:
        resource = _DescribeConfigs.DescribeConfigsResource
        message = _DescribeConfigs(
            resources=[
                resource(resource_type=resource_type, resource_name=name, configuration_keys=None) for name in names
            ]
        )
        response = await self._ask_broker(broker_id, ApiKey.DESCRIBE_CONFIGS, message)
        return {
            each.resource_name: error_in(each, f"configuration of {each.resource_name}")
            or sorted(_config_entry(entry) for entry in each.configs)
            for each in response.results
        }

    async def alter_topic_config(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Set some keys of a topic; None resets a key to its default. Raises: BrokerError."""
        await self._alter_config(None, TOPIC_RESOURCE, name, changes)

    async def alter_broker_config(self, broker_id: int, changes: Mapping[str, str | None]) -> None:
        """Set some keys of a broker, through itself; None resets a key to its default. Raises: BrokerError."""
        await self._alter_config(broker_id, BROKER_RESOURCE, str(broker_id), changes)

    async def _alter_config(
        self, broker_id: int | None, resource_type: int, name: str, changes: Mapping[str, str | None]
    ) -> None:
        resource = _AlterConfigs.AlterConfigsResource
        entries = [
            resource.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
            for key, value in changes.items()
        ]
        altered = resource(resource_type=resource_type, resource_name=name, configs=entries)
        message = _AlterConfigs(resources=[altered])
        response = await self._ask_broker(broker_id, ApiKey.INCREMENTAL_ALTER_CONFIGS, message)
        for each in response.responses:
            raise_error_in(each, f"configuration of {name}")

    async def log_sizes(self, broker_id: int, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Sizes in bytes of a broker's replicas; the result omits replicas that do not exist. Raises: BrokerError."""
        topic = _DescribeLogDirs.DescribableLogDirTopic
        message = _DescribeLogDirs(
            topics=[topic(topic=name, partitions=some) for name, some in partitions_by_topic(tps).items()]
        )
        response = await self._ask_broker(broker_id, ApiKey.DESCRIBE_LOG_DIRS, message)
        if response.error_code:
            raise broker_error(response.error_code, f"log directories of broker {broker_id}")
        return {
            TopicPartition(found.name, partition.partition_index): partition.partition_size
            for directory in response.results
            for found in directory.topics
            for partition in found.partitions
            if not partition.is_future_key
        }

    # --- offsets and cluster ---

    async def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        """One offset per partition: list_offsets.EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL, or the first at
        or after a timestamp in ms.

        Raises: BrokerError, KafkaTimeoutError after default.api.timeout.ms.
        """
        return await list_offsets(
            self._reactor, self._cluster, wanted, self.config.default_api_timeout_ms, self.config.retry_backoff_ms
        )

    async def try_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        """Like ``list_offsets``, but each leader is asked once, and an error is returned as the result of its
        partitions.

        Args: ``read_committed``: LATEST is the last stable offset instead of the high watermark.
        """
        return await try_offsets(self._cluster, wanted, read_committed=read_committed)

    async def leader_epochs(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, LeaderEpochs]:
        """The leader epochs of each partition's log, back to the one that has the given offset; see ``LeaderEpochs``.
        """
        return await leader_epochs(self._cluster, wanted)

    # --- quotas ---

    async def describe_client_quotas(self) -> list[tuple[dict[str, str | None], dict[str, float]]]:
        """All entities with quotas: names by type (user, client-id, ip; None is the default), and values by key.
        Raises: BrokerError."""
        message = _DescribeQuotas()
        response = await self._ask_broker(None, ApiKey.DESCRIBE_CLIENT_QUOTAS, message)
        raise_error_in(response, "quotas")
        return [
            (
                {each.entity_type: each.entity_name for each in entry.entity},
                {each.key: each.value for each in entry.values},
            )
            for entry in response.entries
        ]

    async def alter_client_quotas(self, entity: Mapping[str, str | None], changes: Mapping[str, float | None]) -> None:
        """Set some quotas of one entity; None removes a quota. Raises: BrokerError."""
        entry = _AlterQuotas.EntryData
        wanted = entry(
            entity=[entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
            ops=[
                entry.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                for key, value in changes.items()
            ],
        )
        message = _AlterQuotas(entries=[wanted])
        response = await self._ask_broker(None, ApiKey.ALTER_CLIENT_QUOTAS, message)
        for each in response.entries:
            raise_error_in(each, "quotas")

    async def describe_cluster(self) -> ClusterMetadata:
        """The cluster's current id, controller, live brokers and topics."""
        return await self._cluster.refresh()

    async def close(self) -> None:
        """Close all connections."""
        await self._cluster.close()

    # --- internals ---

    async def _ask_broker(self, broker_id: int | None, api_key: ApiKey, message: Any) -> Any:
        if not self._cluster.metadata.nodes:
            await self._cluster.refresh()
        if broker_id is None:
            return await self._cluster.request_any(api_key, message)
        return await self._cluster.request(broker_id, api_key, message)

    async def _ask_controller(self, api_key: ApiKey, message: Any, codes_of: Callable[[Any], Sequence[int]]) -> Any:
        deadline_s = self._reactor.seconds() + self.config.default_api_timeout_ms / 1000
        while True:
            error: KafkaError
            try:
                controller_id = (await self._cluster.refresh()).controller_id
                await self._reach(controller_id)
                response = await self._cluster.request(controller_id, api_key, message)
            except BrokerError as caught:
                error = caught  # there is no live controller
            else:
                if ErrorCode.NOT_CONTROLLER not in codes_of(response):
                    return response
                error = broker_error(ErrorCode.NOT_CONTROLLER, f"asking broker {controller_id}")
            pause_s = self.config.retry_backoff_ms / 1000
            may_pass = error.retriable or error.code == ErrorCode.BROKER_NOT_AVAILABLE  # a new controller may register
            if not may_pass or self._reactor.seconds() + pause_s >= deadline_s:
                raise KafkaTimeoutError(
                    f"no controller responded within {self.config.default_api_timeout_ms} ms: {error}", error.code
                )
            await sleep(self._reactor, pause_s)

    async def _reach(self, controller_id: int) -> None:
        try:
            await self._cluster.connection(controller_id)
        except (ConnectError, ConnectionClosed, OSError) as unreached:
            doing = f"connecting to broker {controller_id}"
            raise broker_error(ErrorCode.BROKER_NOT_AVAILABLE, doing, str(unreached)) from unreached


def _replicas(
    targets: Mapping[TopicPartition, Sequence[int] | None], topic: str, partition: int
) -> list[int] | None:
    target = targets[TopicPartition(topic, partition)]
    return None if target is None else list(target)


def _election_codes(response: Any) -> list[int]:
    return [each.error_code for topic in response.replica_election_results for each in topic.partition_result]


def _creatable(topic: NewTopic) -> Any:
    creatable = _CreateTopics.CreatableTopic
    placed = topic.assignment or {}
    return creatable(
        name=topic.name,
        num_partitions=BROKER_DEFAULT if placed else topic.partitions,
        replication_factor=BROKER_DEFAULT if placed else topic.replication_factor,
        assignments=[
            creatable.CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
            for partition, brokers in sorted(placed.items())
        ],
        configs=[creatable.CreatableTopicConfig(name=key, value=value) for key, value in sorted(topic.configs.items())],
    )


def _config_entry(entry: Any) -> ConfigEntry:
    source = _CONFIG_SOURCES.get(entry.config_source, "UNKNOWN")
    is_default = source == "DEFAULT_CONFIG" or bool(entry.is_default)
    return ConfigEntry(entry.name, entry.value, source, is_default, bool(entry.read_only), bool(entry.is_sensitive))

"""Blocking requests of executors and the driver for leaders and offsets.

Metadata is fetched when a leader is unknown or wrong. Requests are retried for ``patience_ms``, because brokers restart
and leaders move.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from kafka_zk.base.clock import monotonic_s, sleep
from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.config import parse_bootstrap_servers
from kafka_zk.clients.connection.errors import ConfigError
from kafka_zk.clients.connection.metadata import NO_TOPIC_ID, ClusterMetadata
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode, ProtocolError
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity
from kafka_zk.spark_jobs.errors import FetchFailed, OptionError
from kafka_zk.spark_jobs.source.broker_connection import BrokerConnection
from kafka_zk.spark_jobs.waiting import Note, Wait

EARLIEST = -2
LATEST = -1
NO_OFFSET = -1
"""The result for a timestamp after the newest record."""
BROKEN = (OSError, ProtocolError)
"""Errors after which a connection is unusable, but another one may work."""

_MetadataRequest = codec.request(ApiKey.METADATA)
_ListRequest = codec.request(ApiKey.LIST_OFFSETS)
_ListTopic = _ListRequest.ListOffsetsTopic
_ListPartition = _ListTopic.ListOffsetsPartition


class ClientSettings(NamedTuple):
    """Settings that executors receive. ``patience_ms``: maximum time without progress."""

    bootstrap_servers: str
    client_id: str = "kafka-zk-spark"
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    receive_buffer_bytes: int = -1
    read_committed: bool = True
    patience_ms: int = 120_000
    security: ClientSecurity = NO_SECURITY


class ClusterClient:
    """``note``: receives the cause of a long wait.

    Raises: FetchFailed after ``patience_ms``; AuthenticationError immediately; OptionError.
    """

    def __init__(self, settings: ClientSettings, note: Note | None = None) -> None:
        self.settings = settings
        self._note = note
        self._metadata = ClusterMetadata()
        self._connections: dict[tuple[str, int], BrokerConnection] = {}
        try:
            self._bootstrap = parse_bootstrap_servers(settings.bootstrap_servers, settings.security.protocol)
        except ConfigError as error:
            raise OptionError(f"kafka.{error}") from error

    def __enter__(self) -> "ClusterClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def leader(self, tp: TopicPartition) -> BrokerConnection | None:
        """A connection to the partition's leader; None if no leader is known. Raises OSError, ProtocolError."""
        leader_id = self._metadata.leader_id(tp)
        if leader_id is None:
            return None
        node = self._metadata.nodes[leader_id]
        return self._connection(node.host, node.port)

    def leader_epoch(self, tp: TopicPartition) -> int:
        return self._metadata.leader_epoch(tp)

    def forget(self, connection: BrokerConnection) -> None:
        connection.close()
        self._connections = {key: each for key, each in self._connections.items() if each is not connection}

    def refresh(self, topics: Iterable[str] | None) -> None:
        """Fetch metadata of ``topics`` (None: all) from any broker that responds. Raises FetchFailed."""
        asked = None if topics is None else sorted(set(topics))
        message = _MetadataRequest(
            topics=None if asked is None else [_MetadataRequest.MetadataRequestTopic(name=name) for name in asked],
            allow_auto_topic_creation=False,
        )
        causes = []
        known = [(node.host, node.port) for node in self._metadata.nodes.values()]
        for host, port in dict.fromkeys([*known, *self._bootstrap]):
            try:
                answer = self._connection(host, port).request(ApiKey.METADATA, message)
            except BROKEN as error:
                self._drop(host, port)
                causes.append(f"{host}:{port}: {error}")
                continue
            self._metadata = self._metadata.updated(answer, asked)
            return
        raise FetchFailed(f"no broker responds: {'; '.join(causes)}")

    def partition_counts(self, topics: Iterable[str] | None = None) -> dict[str, int]:
        """Partition counts of the requested topics that exist, or of all topics that are not internal.

        Waits for new topics whose partitions have no leader yet.
        """
        wanted = None if topics is None else sorted(set(topics))

        def look() -> dict[str, int] | str:
            self.refresh(wanted)
            found = {}
            for name, topic in self._metadata.topics.items():
                if topic.is_internal if wanted is None else name not in wanted:  # earlier requests had other topics
                    continue
                if topic.error_code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
                    if not topic.partitions:
                        return f"topic {name} has no partitions yet"
                    if headless := [each.partition for each in topic.partitions if each.leader < 0]:
                        return f"partition {TopicPartition(name, headless[0])} has no leader"
                    found[name] = len(topic.partitions)
                elif topic.error_code not in (
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                ):
                    return f"topic {name}: {ErrorCode.of(topic.error_code).name}"
            return found

        return self._until_done(look)

    def topic_names(self) -> list[str]:
        """The names of all topics that are not internal. Raises FetchFailed."""
        self.refresh(None)
        return sorted(name for name, topic in self._metadata.topics.items() if not topic.is_internal)

    def topic_ids(self, topics: Iterable[str]) -> dict[str, UUID]:
        """Current ids of the topics that exist and have one (since 2.8). Raises FetchFailed."""
        wanted = sorted(set(topics))
        if wanted:
            self.refresh(wanted)
        known = {name: self._metadata.topics[name].topic_id for name in wanted if name in self._metadata.topics}
        return {name: each for name, each in known.items() if each != NO_TOPIC_ID}

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Look up EARLIEST, LATEST (the readable end), or the first offset at or after a timestamp in ms (NO_OFFSET if
        there is none).
        """
        return self._offsets(wanted, self.settings.read_committed)

    def log_ends(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end of each log, including records of open transactions, which LATEST may exclude."""
        return self.log_offsets(dict.fromkeys(tps, LATEST))

    def log_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return self._offsets(wanted, False)

    def _offsets(self, wanted: Mapping[TopicPartition, int], read_committed: bool) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}

        def ask() -> dict[TopicPartition, int] | str:
            missing = [tp for tp in wanted if tp not in found]
            if any(self._metadata.leader_id(tp) is None for tp in missing):
                self.refresh({tp.topic for tp in missing})
            cause: str | None = None
            by_leader: dict[int | None, list[TopicPartition]] = {}
            for tp in missing:
                by_leader.setdefault(self._metadata.leader_id(tp), []).append(tp)
            for leader_id, partitions in by_leader.items():
                if leader_id is not None:
                    cause = self._list(partitions, wanted, read_committed, found) or cause
            if len(found) == len(wanted):
                return found
            self.refresh({tp.topic for tp in wanted})
            first = min(tp for tp in wanted if tp not in found)
            return f"partition {first} has no leader" if cause is None else f"offsets of {first}: {cause}"

        return self._until_done(ask)

    def _list(
        self,
        partitions: list[TopicPartition],
        wanted: Mapping[TopicPartition, int],
        read_committed: bool,
        found: dict[TopicPartition, int],
    ) -> str | None:
        topics: dict[str, list[object]] = {}
        for tp in partitions:
            topics.setdefault(tp.topic, []).append(
                _ListPartition(
                    partition_index=tp.partition,
                    current_leader_epoch=self._metadata.leader_epoch(tp),
                    timestamp=wanted[tp],
                )
            )
        message = _ListRequest(
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=[_ListTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        connection = None
        try:
            connection = self.leader(partitions[0])
            assert connection is not None
            answer = connection.request(ApiKey.LIST_OFFSETS, message)
        except BROKEN as error:
            if connection is not None:
                self.forget(connection)
            return str(error)
        cause = None
        for topic in answer.topics:
            for each in topic.partitions:
                tp = TopicPartition(topic.name, each.partition_index)
                if each.error_code == ErrorCode.NONE:
                    found[tp] = each.offset
                    continue
                code = ErrorCode.of(each.error_code)
                if not code.retriable and code not in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH):
                    raise FetchFailed(f"offsets of {tp}: {code.name}")
                cause = code.name
        return cause

    def _until_done(self, attempt: Callable[[], dict[Any, int] | str]) -> dict[Any, int]:
        deadline_s = monotonic_s() + self.settings.patience_ms / 1000
        with Wait(self._note, self.settings.patience_ms, f"no response from {self.settings.bootstrap_servers}") as wait:
            while True:
                outcome: dict[Any, int] | str
                try:
                    outcome = attempt()
                except FetchFailed as error:
                    outcome = str(error)
                if not isinstance(outcome, str):
                    return outcome
                if monotonic_s() >= deadline_s:
                    raise FetchFailed(f"{outcome}, for {self.settings.patience_ms} ms")
                wait.because(outcome)
                self.pause()

    def pause(self) -> None:
        sleep(self.settings.retry_backoff_ms / 1000)

    def _connection(self, host: str, port: int) -> BrokerConnection:
        key = (host, port)
        if key not in self._connections:
            settings = self.settings
            self._connections[key] = BrokerConnection(
                host,
                port,
                client_id=settings.client_id,
                timeout_ms=settings.request_timeout_ms,
                receive_buffer_bytes=settings.receive_buffer_bytes,
                security=settings.security,
            )
        return self._connections[key]

    def _drop(self, host: str, port: int) -> None:
        connection = self._connections.pop((host, port), None)
        if connection is not None:
            connection.close()

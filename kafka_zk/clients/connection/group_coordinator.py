"""The coordinator of a client's group, and the offsets that it stores. On the reactor thread.
Source: AbstractCoordinator.java, OffsetFetcher and commit handlers of ConsumerCoordinator@3.9.
"""

import math
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, NamedTuple

from kafka_zk.base.types import TopicPartition, partitions_by_topic
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.coordinators import COORDINATOR_GONE, GROUP
from kafka_zk.clients.connection.errors import BrokerError, ClientClosed, KafkaError, broker_error
from kafka_zk.clients.connection.key_coordinator import PURPOSE, KeyCoordinator
from kafka_zk.clients.connection.waiting import Reactor, Signal
from kafka_zk.network.client import KafkaConnection
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode

NO_OFFSET = -1

_LEAVING = "leaving a group"
_WITHHELD = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""The coordinator delays these responses until all members have joined, and handles nothing else on the connection."""
_COMMIT_MIN, _COMMIT_MAX = 1, 9  # version 0 commits to ZooKeeper; from 10 on, topics have ids
_FETCH_MIN, _FETCH_MAX = 1, 7  # from version 8 on, a request has several groups

_OffsetCommit = codec.request(ApiKey.OFFSET_COMMIT)
_CommitTopic = _OffsetCommit.OffsetCommitRequestTopic
_CommitPartition = _CommitTopic.OffsetCommitRequestPartition
_OffsetFetch = codec.request(ApiKey.OFFSET_FETCH)
_FetchTopic = _OffsetFetch.OffsetFetchRequestTopic


class Committer(NamedTuple):
    """The membership for commits of offsets; by default none, for consumers that assign their own partitions."""

    member_id: str = ""
    generation_id: int = -1
    group_instance_id: str | None = None


class ConsumerGroupMetadata(NamedTuple):
    """The membership under which a transaction commits a group's offsets. Default: none, which requires that the group
    has no members. Source: ConsumerGroupMetadata.java@3.9.
    """

    group_id: str
    member_id: str = ""
    generation_id: int = -1
    group_instance_id: str | None = None


_NOBODY = Committer()


class GroupCoordinator(KeyCoordinator):
    """Every method first finds the coordinator, if it is unknown."""

    def __init__(self, reactor: Reactor, config: ClientConfig, cluster: Cluster, group_id: str) -> None:
        super().__init__(reactor, config, cluster, group_id, GROUP)
        self._withheld_count = 0
        self._answered = Signal(reactor)
        self._closed = False

    def close(self) -> None:
        self._closed = True

    async def find(self) -> tuple[str, int]:
        """Waits until there is a coordinator.

        Raises: BrokerError for a permanent error (GROUP_AUTHORIZATION_FAILED …); ClientClosed.
        """

        async def attempt(causes: list[KafkaError]) -> None:
            found = await self._coordinators.find([self._key], causes)
            if self._address is None and self._key in found:
                node = found[self._key]
                self._address = node.host, node.port

        await self._until(lambda: self._address is not None, attempt)
        assert self._address is not None
        return self._address

    async def ask(
        self, api_key: ApiKey, message: Any, lowest: int = 0, highest: int = 99, timeout_ms: int | None = None
    ) -> Any:
        """Send a request and return the response, whatever its error code.

        While the coordinator delays its response to JoinGroup or SyncGroup, other requests wait here: sent on the same
        connection, they would time out and close it. LeaveGroup uses a separate connection.
        Raises: BrokerError NETWORK_EXCEPTION without a response, UNSUPPORTED_VERSION; errors of ``find``.
        """
        if api_key not in _WITHHELD:
            return await super().ask(api_key, message, lowest, highest, timeout_ms)
        self._withheld_count += 1
        try:
            return await super().ask(api_key, message, lowest, highest, timeout_ms)
        finally:
            self._withheld_count -= 1
            self._answered.fire()

    async def _connection(self, host: str, port: int, api_key: ApiKey) -> KafkaConnection:
        """Return a connection on which the response does not wait for other members."""
        while True:
            is_leaving = bool(self._withheld_count) and api_key is ApiKey.LEAVE_GROUP
            connection = await self._cluster.connection_to(host, port, _LEAVING if is_leaving else PURPOSE)
            if is_leaving or not self._withheld_count or api_key in _WITHHELD:
                return connection
            await self._answered.wait()

    async def commit(
        self, offsets: Mapping[TopicPartition, int], committer: Committer = _NOBODY
    ) -> dict[TopicPartition, ErrorCode]:
        """Returns each partition's code, NETWORK_EXCEPTION for a lost connection. Raises other errors of ``ask``."""
        topics: dict[str, list[Any]] = {}
        for tp, offset in offsets.items():
            partition = _CommitPartition(
                partition_index=tp.partition, committed_offset=offset, committed_leader_epoch=-1,
                commit_timestamp=-1, committed_metadata="",
            )  # fmt: skip
            topics.setdefault(tp.topic, []).append(partition)
        message = _OffsetCommit(
            group_id=self._key,
            generation_id_or_member_epoch=committer.generation_id,
            member_id=committer.member_id,
            group_instance_id=committer.group_instance_id,
            topics=[_CommitTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        )
        try:
            response = await self.ask(ApiKey.OFFSET_COMMIT, message, _COMMIT_MIN, _COMMIT_MAX)
        except BrokerError as error:
            if error.code is not ErrorCode.NETWORK_EXCEPTION:
                raise
            return dict.fromkeys(offsets, ErrorCode.NETWORK_EXCEPTION)
        codes = dict.fromkeys(offsets, ErrorCode.UNKNOWN_SERVER_ERROR)
        for topic in response.topics:
            for each in topic.partitions:
                codes[TopicPartition(topic.name, each.partition_index)] = ErrorCode.of(each.error_code)
        if not COORDINATOR_GONE.isdisjoint(codes.values()):
            self.forget()
        return codes

    async def committed(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The committed offset of each partition, NO_OFFSET where nothing is committed. Retries until the coordinator
        responds.

        Raises: BrokerError for a permanent error; ClientClosed.
        """
        topics = partitions_by_topic(sorted(tps))
        message = _OffsetFetch(
            group_id=self._key,
            topics=[_FetchTopic(name=name, partition_indexes=numbers) for name, numbers in topics.items()],
            require_stable=True,
        )
        found: dict[TopicPartition, int] = {}

        async def attempt(causes: list[KafkaError]) -> None:
            try:
                response = await self.ask(ApiKey.OFFSET_FETCH, message, _FETCH_MIN, _FETCH_MAX)
                found.update(self._offsets(response, tps))
            except BrokerError as error:
                causes.append(error)

        await self._until(lambda: found.keys() >= set(tps), attempt)
        return found

    def _offsets(self, response: Any, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = dict.fromkeys(tps, NO_OFFSET)
        codes = {response.error_code or 0}
        for topic in response.topics:
            for each in topic.partitions:
                codes.add(each.error_code)
                found[TopicPartition(topic.name, each.partition_index)] = each.committed_offset
        if not COORDINATOR_GONE.isdisjoint(codes):
            self.forget()
        for code in sorted(codes - {0}):
            raise broker_error(code, f"the committed offsets of group {self._key}")
        return found

    async def _until(self, is_done: Callable[[], bool], attempt: Callable[[list[KafkaError]], Awaitable[None]]) -> None:
        async def attempt_if_open(causes: list[KafkaError]) -> None:
            if self._closed:
                raise ClientClosed("the client was closed")
            await attempt(causes)

        await self._coordinators.until(is_done, attempt_if_open, lambda: f"group {self._key}", math.inf)

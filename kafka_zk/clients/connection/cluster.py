"""A client's view of a cluster.

The client fetches metadata again after an error that suggests a change (``request_update``), after
``metadata.max.age.ms``, and for an unknown topic. At most one fetch is in flight.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.connections import Connections
from kafka_zk.clients.connection.errors import (
    AuthenticationError,
    BrokerError,
    ClientClosed,
    KafkaTimeoutError,
    NoBrokersAvailable,
    authentication_error,
    broker_error,
)
from kafka_zk.clients.connection.metadata import ClusterMetadata, Node, TopicMetadata
from kafka_zk.clients.connection.waiting import Reactor, Signal, run, sleep
from kafka_zk.network.client import Connect, KafkaConnection, connect
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.leader_hint import CurrentLeader, NodeEndpoint
from kafka_zk.security.errors import AuthenticationFailed

_log = Logger()
_MetadataRequest = codec.request(ApiKey.METADATA)

Address = tuple[str, int]
FindBrokers = Callable[[], Awaitable[Iterable[Address]]]


class Cluster:
    """One client's connections and metadata, on the reactor thread. Any thread may read ``metadata``.

    Args:
        track_all_topics: keep metadata of every topic, not only of added ones.
        prefer_controller: fetch metadata from the controller if it is known, because it learns of changes first.
        allow_auto_topic_creation: let the broker create unknown topics.
        find_brokers: returns addresses to try if no known broker responds, instead of the bootstrap servers.
        connect: creates a connection; tests replace it.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: ClientConfig,
        *,
        track_all_topics: bool = False,
        prefer_controller: bool = False,
        allow_auto_topic_creation: bool = False,
        find_brokers: FindBrokers | None = None,
        connect: Connect = connect,
    ) -> None:
        self._reactor = reactor
        self._config = config
        self._connections = Connections(reactor, config, connect)
        self._track_all = track_all_topics
        self._prefer_controller = prefer_controller
        self._allow_creation = allow_auto_topic_creation
        self._find_brokers = find_brokers or self._bootstrap
        self._topics: dict[str, None] = {}
        self._refreshing = False
        self._waiting: list[Deferred[ClusterMetadata]] = []  # callers that wait for the next fetch
        self._last_fetch_s = float("-inf")
        self._turn = 0
        self._update_pending = False
        self._age_timer: Any = None
        self._closed = False
        self._updated = Signal(reactor)
        self.metadata = ClusterMetadata()
        self.on_update: list[Callable[[], None]] = []  # called after every fetch of metadata

    # --- metadata ---

    def add_topics(self, names: Iterable[str]) -> None:
        for name in names:
            self._topics.setdefault(name)

    async def refresh(self) -> ClusterMetadata:
        """Fetch metadata, or share a fetch that begins after this call.

        Raises: NoBrokersAvailable naming every tried address; AuthenticationError.
        """
        if self._refreshing:
            waiting: Deferred[ClusterMetadata] = Deferred()
            self._waiting.append(waiting)
            return await waiting
        self._refreshing = True
        try:
            await self._fetch()
        finally:
            self._refreshing = False
            if self._waiting:
                crowd, self._waiting = self._waiting, []
                run(self._refresh_for(crowd))
        return self.metadata

    async def _refresh_for(self, crowd: "list[Deferred[ClusterMetadata]]") -> None:
        try:
            metadata = await self.refresh()
        except Exception as error:
            for waiting in crowd:
                waiting.errback(error)
        else:
            for waiting in crowd:
                waiting.callback(metadata)

    def request_update(self) -> None:
        """Fetch metadata in the background, because it seems outdated, and retry until a fetch succeeds."""
        if not self._update_pending and not self._closed:
            self._update_pending = True
            run(self._update_in_background())

    async def _update_in_background(self) -> None:
        while not self._closed:
            # Without a pause, wait for the next reactor turn, so that simultaneous requests share a fetch.
            await sleep(
                self._reactor, self._last_fetch_s + self._config.retry_backoff_ms / 1000 - self._reactor.seconds()
            )
            self._update_pending = False  # a call from now on needs another fetch
            try:
                await self.refresh()
                return
            except AuthenticationError as error:  # a retry would fail, so callers that wait get the reason
                _log.error("metadata could not be fetched: {error}", error=error)
                return
            except Exception as error:
                if self._is_closed():
                    return
                _log.warn("metadata could not be fetched and will be retried: {error}", error=error)
                self._update_pending = True

    def learn_leaders(
        self, leaders: Mapping[TopicPartition, CurrentLeader], endpoints: Iterable[NodeEndpoint]
    ) -> set[TopicPartition]:
        """Apply the leaders in a Produce or Fetch response (KIP-951). Returns the partitions with a new leader: their
        requests can go there without fetching metadata.
        """
        self.metadata, moved = self.metadata.with_leaders(leaders, endpoints)
        return moved

    async def topic(self, name: str, timeout_ms: int) -> TopicMetadata:
        """Wait for the topic to exist.

        Raises: KafkaTimeoutError after ``timeout_ms``; BrokerError immediately for an invalid or forbidden name.
        """
        deadline_s = self._reactor.seconds() + timeout_ms / 1000
        self._topics.setdefault(name)
        cause: str = "no answer"
        while True:
            found = self.metadata.topic(name)
            if found is not None:
                return found
            try:
                await self.refresh()
                known = self.metadata.topics.get(name)
                code = known.error_code if known is not None else int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                if code != ErrorCode.NONE:
                    error = broker_error(code, f"topic {name}")
                    if not error.retriable:
                        raise error
                    cause = str(error)
            except NoBrokersAvailable as error:
                cause = str(error)
            if self.metadata.topic(name) is None:
                left_s = deadline_s - self._reactor.seconds()
                if left_s <= 0:
                    raise KafkaTimeoutError(f"topic {name} not in the metadata after {timeout_ms} ms; last: {cause}")
                await sleep(self._reactor, min(self._config.retry_backoff_ms / 1000, left_s))

    async def until_partition(self, tp: TopicPartition, timeout_ms: int) -> bool:
        """Wait until the topic has the partition; False after ``timeout_ms``.

        Fetches metadata immediately, then with growing pauses up to ``retry.backoff.max.ms``. Also True if the topic
        itself is unknown; ``topic`` waits for topics. Raises: ClientClosed.
        """
        deadline_s = self._reactor.seconds() + timeout_ms / 1000
        pause_s = self._config.retry_backoff_ms / 1000
        while self.metadata.lacks(tp):
            if self._closed:
                raise ClientClosed("the client was closed")
            self.request_update()
            if not await self._updated.wait_until(deadline_s):
                return False
            ask_s = min(self._reactor.seconds() + pause_s, deadline_s)
            while self.metadata.lacks(tp) and await self._updated.wait_until(ask_s):
                pass  # another fetch ended; the next one is due later
            pause_s = min(2 * pause_s, max(pause_s, self._config.retry_backoff_max_ms / 1000))
        return True

    async def _fetch(self) -> None:
        asked = None if self._track_all else tuple(self._topics)
        self._last_fetch_s = self._reactor.seconds()
        # A broker that has just started knows no brokers, not even itself, until the controller's first request.
        response = await self.request_any(
            ApiKey.METADATA, self._metadata_request(asked), usable=lambda answer: bool(answer.brokers)
        )
        self.metadata = self.metadata.updated(response, asked)
        self._schedule_by_age()
        self._updated.fire()
        for listener in self.on_update:
            listener()

    def _metadata_request(self, asked: tuple[str, ...] | None) -> Any:
        topics = None if asked is None else [_MetadataRequest.MetadataRequestTopic(name=name) for name in asked]
        return _MetadataRequest(topics=topics, allow_auto_topic_creation=self._allow_creation)

    def _schedule_by_age(self) -> None:
        if self._age_timer is not None and self._age_timer.active():
            self._age_timer.cancel()
        if self._config.metadata_max_age_ms and not self._closed:
            self._age_timer = self._reactor.callLater(self._config.metadata_max_age_ms / 1000, self.request_update)

    # --- connections ---

    def ready_connection(self, node_id: int, purpose: str) -> KafkaConnection | None:
        node = self.metadata.nodes.get(node_id)
        return None if node is None else self._connections.ready(node.host, node.port, purpose)

    async def connection(self, node_id: int, purpose: str = "") -> KafkaConnection:
        """The connection, opened if needed.

        Raises: BrokerError BROKER_NOT_AVAILABLE for an id that is not in the metadata; errors of the connection.
        """
        node = self.metadata.nodes.get(node_id)
        if node is None:
            raise broker_error(ErrorCode.BROKER_NOT_AVAILABLE, f"connecting to broker {node_id}")
        return await self._connections.get(node.host, node.port, purpose)

    async def connection_to(self, host: str, port: int, purpose: str) -> KafkaConnection:
        """The address need not be in the metadata."""
        return await self._connections.get(host, port, purpose)

    async def request(self, node_id: int, api_key: ApiKey, message: Any, purpose: str = "") -> Any:
        return await _request(await self.connection(node_id, purpose), api_key, message)

    async def request_any(
        self, api_key: ApiKey, message: Any, usable: Callable[[Any], bool] = lambda answer: True
    ) -> Any:
        """Send a request to the known brokers in turn, then to the bootstrap addresses.

        Returns: the first usable response, or the last one.
        Raises: NoBrokersAvailable without a response; AuthenticationError of the first broker that rejects the client;
            BrokerError UNSUPPORTED_VERSION; ClientClosed.
        """
        causes: dict[Address, str] = {}
        answers: list[Any] = []
        for find in (self._known_brokers, self._find_brokers):
            for address in await find():
                if address in causes:
                    continue
                try:
                    connection = await self._connections.get(*address, "")
                    answers.append(await _request(connection, api_key, message))
                    if usable(answers[-1]):
                        return answers[-1]
                    causes[address] = "no usable response"
                except (AuthenticationError, BrokerError, ClientClosed, CancelledError):
                    raise
                except Exception as error:
                    causes[address] = str(error) or type(error).__name__
        if answers:
            return answers[-1]
        if not causes:
            raise NoBrokersAvailable("no broker is available")
        tried = ", ".join(f"{host}:{port}" for host, port in causes)
        raise NoBrokersAvailable(f"cannot reach any of {tried}: {next(reversed(causes.values()))}")

    async def _bootstrap(self) -> Iterable[Address]:
        return self._config.bootstrap_addresses

    async def _known_brokers(self) -> Iterable[Address]:
        by_id = self.metadata.nodes
        if self._prefer_controller and self.metadata.controller_id in by_id:
            first = by_id[self.metadata.controller_id]
            others = [node for node_id, node in sorted(by_id.items()) if node != first]
            return dict.fromkeys((node.host, node.port) for node in (first, *others))
        nodes: list[Node] = [by_id[node_id] for node_id in sorted(by_id)]
        self._turn += 1
        start = self._turn % len(nodes) if nodes else 0
        known = dict.fromkeys((node.host, node.port) for node in nodes[start:] + nodes[:start])
        return sorted(known, key=lambda address: self._connections.ready(address[0], address[1], "") is None)

    def _is_closed(self) -> bool:
        return self._closed

    async def close(self) -> None:
        """Waiting calls fail with ClientClosed or the error of a closed connection."""
        self._closed = True
        if self._age_timer is not None and self._age_timer.active():
            self._age_timer.cancel()
        self._updated.fire()
        self._connections.close()


async def _request(connection: KafkaConnection, api_key: ApiKey, message: Any) -> Any:
    try:
        return await connection.request(api_key, message)
    except ApiError as error:
        raise broker_error(error.code, f"asking {api_key.name}", error.message) from error
    except AuthenticationFailed as error:  # re-authentication failed
        raise authentication_error(error, "the broker") from error

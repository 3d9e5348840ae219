"""Runs all stand-ins of a rehearsal: a listener on 127.0.0.1 for the controller's orders, and their requests to it."""

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

from twisted.internet.error import ConnectError, ConnectionClosed

from kafka_zk.base.randomness import SYSTEM_RANDOM, random_uuid
from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.connections import Connections
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.connection.waiting import Reactor, now_ms, run
from kafka_zk.migration.rehearsal.loopback import LOOPBACK
from kafka_zk.migration.rehearsal.orders import ORDERS, VERSIONS, response_to
from kafka_zk.migration.rehearsal.stand_in import (
    Beat,
    Beaten,
    Effect,
    Event,
    Register,
    Registered,
    StandIn,
    Started,
    State,
    Stopping,
    TimePassed,
    Unanswered,
)
from kafka_zk.network.client import Connect, connect
from kafka_zk.network.connection_quotas import ConnectionQuotas
from kafka_zk.network.connection_settings import ConnectionSettings
from kafka_zk.network.in_flight import Response
from kafka_zk.network.listener import Listener, ListenerSettings
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode, ProtocolError
from kafka_zk.protocol.request import RequestContext, RequestHeader

LISTENER = "PLAINTEXT"
_TICK_S = 0.05
_TIMEOUT_MS = 5_000
_PLAINTEXT = 0
_REGISTRATION_VERSION, _HEARTBEAT_VERSION = 4, 1
UNREACHED = (ConnectError, ConnectionClosed, OSError, ProtocolError, ApiError, KafkaError)
"""Errors of a request to the controller."""


class StandIns:
    """All methods run on the reactor thread. One listener serves all stand-ins.

    Args:
        level: the level of ``metadata.version``, the only one that a broker in migration mode supports.
        controller_ports: the ports of all controllers. Only the leader accepts requests; it is found by trying.
    """

    def __init__(
        self,
        reactor: Reactor,
        broker_ids: Iterable[int],
        cluster_id: str,
        level: int,
        controller_ports: Iterable[int],
        connect: Connect = connect,
    ) -> None:
        self._reactor = reactor
        self._cluster_id = cluster_id
        self._level = level
        self._controller_ports = deque(controller_ports)
        """The first port is the leader's, or the next to try."""
        self._brokers = {broker_id: StandIn(broker_id) for broker_id in sorted(broker_ids)}
        self._log_dirs = {broker_id: random_uuid(SYSTEM_RANDOM) for broker_id in self._brokers}
        config = ClientConfig(
            bootstrap_servers=f"{LOOPBACK}:{self._controller_ports[0]}", request_timeout_ms=_TIMEOUT_MS,
            socket_connection_setup_timeout_ms=_TIMEOUT_MS, reconnect_backoff_max_ms=200,
        )  # fmt: skip
        self._connections = Connections(reactor, config, connect)
        self._listener = Listener(
            reactor, ListenerSettings(LOOPBACK, 0),
            ConnectionSettings(reactor, LISTENER, self._order, versions=VERSIONS), ConnectionQuotas(),
        )  # fmt: skip
        self._timer: Any = None
        self.orders: Counter[str] = Counter()
        """The controller's orders so far, by API."""

    @property
    def port(self) -> int:
        return self._listener.port

    async def open(self) -> None:
        """Raises: CannotListenError."""
        self._listener.bind()
        self._listener.start_accepting()
        self._tick()

    async def close(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        self._connections.close()
        await self._listener.stop(0)

    async def start(self, broker_id: int, is_migrating: bool) -> None:
        self._step(self._brokers[broker_id], Started(is_migrating, random_uuid(SYSTEM_RANDOM)))

    async def stop(self, broker_id: int) -> None:
        """Begin to stop a stand-in; it is stopped when the controller has fenced it."""
        self._step(self._brokers[broker_id], Stopping())

    async def ask(self, api_key: ApiKey, message: Any) -> Any:
        """A controller's response to another request. Raises: UNREACHED."""
        connection = await self._connections.get(LOOPBACK, self._controller_ports[0], "")
        return await connection.request(api_key, message)

    async def try_another_controller(self) -> None:
        self._is_not_leader(self._controller_ports[0])

    def _is_not_leader(self, port: int) -> None:
        if port == self._controller_ports[0]:
            self._controller_ports.rotate(-1)

    async def states(self) -> dict[int, tuple[State, str]]:
        """Each stand-in's state, and why its last request was refused."""
        return {broker_id: (broker.state, broker.error) for broker_id, broker in self._brokers.items()}

    async def heartbeats(self) -> dict[int, int]:
        return {broker_id: broker.heartbeats for broker_id, broker in self._brokers.items()}

    def _tick(self) -> None:
        self._timer = self._reactor.callLater(_TICK_S, self._tick)
        for broker in self._brokers.values():
            self._step(broker, TimePassed())

    def _step(self, broker: StandIn, event: Event) -> None:
        for effect in broker.step(event, now_ms(self._reactor)):
            run(self._send(broker, effect))

    async def _send(self, broker: StandIn, effect: Effect) -> None:
        port = self._controller_ports[0]
        try:
            connection = await self._connections.get(LOOPBACK, port, "")
            event: Registered | Beaten | Unanswered
            if isinstance(effect, Register):
                answer = await connection.request(
                    ApiKey.BROKER_REGISTRATION, self._registration(effect), version=_REGISTRATION_VERSION
                )
                event = Registered(answer.error_code, answer.broker_epoch)
            else:
                answer = await connection.request(
                    ApiKey.BROKER_HEARTBEAT, _heartbeat(effect), version=_HEARTBEAT_VERSION
                )
                event = Beaten(answer.error_code, answer.is_fenced)
        except UNREACHED:
            event = Unanswered()
        if isinstance(event, Unanswered) or event.error == ErrorCode.NOT_CONTROLLER:
            self._is_not_leader(port)
        if self._timer is not None:
            self._step(broker, event)

    def _registration(self, effect: Register) -> Any:
        request = codec.request(ApiKey.BROKER_REGISTRATION)
        return request(
            broker_id=effect.broker_id,
            cluster_id=self._cluster_id,
            incarnation_id=effect.incarnation,
            listeners=[request.Listener(name=LISTENER, host=LOOPBACK, port=self.port, security_protocol=_PLAINTEXT)],
            features=[
                request.Feature(
                    name="metadata.version", min_supported_version=self._level, max_supported_version=self._level
                )
            ],
            rack=None,
            is_migrating_zk_broker=effect.is_migrating,
            log_dirs=[self._log_dirs[effect.broker_id]],
        )

    async def _order(self, context: RequestContext, header: RequestHeader, body: memoryview) -> Response:
        if header.api_key in ORDERS:
            self.orders[ApiKey(header.api_key).name] += 1
        return [response_to(header)]


def _heartbeat(effect: Beat) -> Any:
    return codec.request(ApiKey.BROKER_HEARTBEAT)(
        broker_id=effect.broker_id,
        broker_epoch=effect.epoch,
        current_metadata_offset=effect.metadata_offset,
        want_fence=effect.wants_fence,
    )

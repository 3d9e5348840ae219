"""A running broker's listeners, which follow its configuration (KIP-226).

A change is tried before it is stored, so that the client's request fails if an address or key is unusable. To apply it,
the broker closes removed listeners' ports, binds moved and new ones, registers again, and closes removed listeners'
connections.
Later failures, for example a port that was taken, are logged and retried (``listener_retry``).

Source: DynamicListenerConfig in DynamicBrokerConfig.scala, SocketServer.addListeners@3.9.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from kafka_zk.broker.config.dynamic_listeners import fixed_keys
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.config.kafka_config import Listener as WantedListener
from kafka_zk.broker.process.advertised_host import advertised_host
from kafka_zk.broker.process.listener_retry import (
    Event,
    Followed,
    FollowIn,
    Interrupted,
    ListenerRetry,
    Stopped,
)
from kafka_zk.broker.process.listeners import NewListener, is_between_brokers, max_connections
from kafka_zk.broker.process.machine import Machine
from kafka_zk.broker.process.parts import BrokerParts
from kafka_zk.broker.process.tokens import ListenerTokenKeys
from kafka_zk.network.listener import Listener
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.client.errors import InvalidZnode, NoAuth, RegistryError
from kafka_zk.registry.znodes.brokers import EndPoint
from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.listener_security import ListenerSecurity, listener_security

_log = Logger()


class LiveListeners:
    """The listeners of a broker with these parts.

    Args:
        new_listener: creates an unbound listener.
        load_users: called before a broker gets its first listener with SCRAM. Raises: RegistryError.
        token_keys: OAuth providers' keys, already fetched for the configured listeners.
        follow_again: calls ``follow`` after a failure. Raises: RegistryError.
    """

    def __init__(
        self,
        machine: Machine,
        parts: BrokerParts,
        new_listener: NewListener,
        load_users: Callable[[], Awaitable[None]],
        token_keys: ListenerTokenKeys,
        follow_again: Callable[[], Awaitable[None]],
    ) -> None:
        self._machine = machine
        self._parts = parts
        self._new_listener = new_listener
        self._load_users = load_users
        self._by_name: dict[str, Listener] = {}
        self._protocols: dict[str, str] = {}
        self._fixed_keys: dict[str, dict[str, str]] = {}  # listener -> fixed keys at its creation
        self._token_keys = token_keys
        self._follow_again = follow_again
        self._retry = ListenerRetry()
        self._retrying: Any = None  # timer of the next attempt
        self._problems: dict[str, str] = {}  # listener -> last logged problem
        self._changing = DeferredLock()
        self._is_stopped = False

    # -- start and stop -----------------------------------------------------------------------------------------------

    def bind(self) -> None:
        """Bind all configured listeners. Raises: CannotListenError."""
        config = self._parts.services.config
        for wanted in config.listener_list:
            self._add(config, wanted, self._parts.security.listeners[wanted.name])
        if self._parts.tls is not None:
            self._parts.tls.warn()

    def start_accepting(self) -> None:
        for listener in self._by_name.values():
            listener.start_accepting()

    async def stop(self) -> None:
        self._is_stopped = True
        self._run(Stopped())
        for listener in self:
            await listener.stop()

    # -- what is bound ------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Listener]:
        """The listeners that are bound now."""
        return iter(list(self._by_name.values()))

    def endpoints(self) -> tuple[EndPoint, ...]:
        """Advertised addresses of the bound listeners, with their actual ports. A listener that could not move has its
        old address, unless ``advertised.listeners`` has another."""
        config = self._parts.services.config
        wanted = {listener.name: (listener.host, listener.port) for listener in config.listener_list}
        found = []
        for name, _, host, port in config.advertised_listener_list:
            listener = self._by_name.get(name)
            if listener is None or not listener.is_bound:
                continue
            if (host, port) == wanted.get(name):
                host, port = listener.address
            found.append(EndPoint(name, self._protocols[name], advertised_host(host), port or listener.port))
        return tuple(found)

    # -- changes ------------------------------------------------------------------------------------------------------

    def check(self, config: KafkaConfig) -> None:
        """Check whether the listeners can change to ``config``. Raises: ApiError."""
        going = self._going(config)
        if self._parts.tls is not None:
            self._parts.tls.check(config, going)
        added = [wanted for wanted in config.listener_list if wanted.name not in self._by_name.keys() - going]
        try:
            for wanted in added:
                _usable_security(config, wanted)
        except InvalidSecurity as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
        moved = self._moved(config)
        gone = _ports(self._by_name[name] for name in going)
        left = gone | _ports(listener for listener, _ in moved)
        of_moved = [(wanted, gone | _ports([listener])) for listener, wanted in moved]
        self._try_to_bind([*of_moved, *((wanted, left) for wanted in added)], config.socket_listen_backlog_size)

    async def follow(self, register: Callable[[], Awaitable[None]]) -> None:
        """Apply the configuration, unless the broker is stopping. ``register``: registers changed endpoints.

        Raises: RegistryError; the next call completes the change.
        """
        async with self._changing:
            if self._is_stopped:
                return
            config = self._parts.services.config
            gone = await self._close_ports_of(self._going(config))
            try:
                if self._parts.tls is not None:
                    self._parts.tls.follow(config)
                await self._move_and_add(config)
                await register()
                followed = Followed(self._lacking(config))
            except Exception:  # not GeneratorExit, which ends a simulated process
                await self._end_change(Interrupted(), gone)
                raise
            await self._end_change(followed, gone)

    async def _end_change(self, outcome: Followed | Interrupted, gone: Iterable[Listener]) -> None:
        self._run(outcome)
        for listener in gone:
            await listener.stop()

    def _lacking(self, config: KafkaConfig) -> frozenset[str]:
        """Listeners that are not bound to their configured address."""
        moved = {wanted.name for _, wanted in self._moved(config)}
        lacking = frozenset(moved | (config.listener_names - self._by_name.keys()))
        self._problems = {name: problem for name, problem in self._problems.items() if name in lacking}
        return lacking

    def _run(self, event: Event) -> None:
        effect = self._retry.step(Stopped() if self._is_stopped else event)
        if self._retrying is not None and self._retrying.active():
            self._retrying.cancel()
        if isinstance(effect, FollowIn):
            self._retrying = self._machine.clock.callLater(effect.wait_ms / 1000, self._try_again)

    def _try_again(self) -> None:
        ensureDeferred(self._tried_again())

    async def _tried_again(self) -> None:
        try:
            await self._follow_again()
        except RegistryError as error:
            _log.warn("the listeners cannot be changed yet: {error}", error=str(error))

    def _going(self, config: KafkaConfig) -> set[str]:
        """Listeners to remove, including those that one change removes and adds again. Inter-broker listeners are only
        moved."""
        return {
            name
            for name in self._by_name
            if name not in config.listener_names
            or (name not in config.broker_listeners and self._is_another(config, name))
        }

    def _is_another(self, config: KafkaConfig, name: str) -> bool:
        is_secured_alike = config.listener_protocols[name] == self._protocols[name]
        return not is_secured_alike or fixed_keys(config, name) != self._fixed_keys[name]

    async def _close_ports_of(self, names: Iterable[str]) -> list[Listener]:
        closed = []
        for name in sorted(names):
            listener = self._by_name.pop(name)
            closed.append(listener)
            del self._protocols[name], self._fixed_keys[name]
            if self._parts.tls is not None:
                self._parts.tls.remove(name)
            self._forget(name)
            await listener.stop_accepting()
            _log.info("{name}: the listener is removed", name=name)
        return closed

    def _forget(self, name: str) -> None:
        self._token_keys.forget(name)
        self._parts.services.client_quotas.detach(name)

    async def _move_and_add(self, config: KafkaConfig) -> None:
        await self._move(config)
        for wanted in config.listener_list:
            if wanted.name not in self._by_name:
                await self._try_to_add(config, wanted)
        for name, listener in self._by_name.items():
            listener.serve_brokers_only(only=is_between_brokers(config, name))
            listener.limit(max_connections(config, name))

    async def _move(self, config: KafkaConfig) -> None:
        for listener, wanted in self._moved(config):
            try:
                await listener.move(wanted.host, wanted.port)
            except CannotListenError as error:
                stays = "stays where it is" if listener.is_bound else "is closed, as its old address is taken, too"
                self._report(wanted.name, f"the listener {stays}: {_cannot_bind(wanted, error)}")
            else:
                _log.info("{name}: the listener moved to another address", name=wanted.name)

    def _moved(self, config: KafkaConfig) -> list[tuple[Listener, WantedListener]]:
        """Listeners whose address changes, or that have lost their address, with their new settings."""
        going = self._going(config)
        return [
            (listener, wanted)
            for wanted in config.listener_list
            if (listener := self._by_name.get(wanted.name)) is not None
            and wanted.name not in going
            and (listener.address != (wanted.host, wanted.port) or not listener.is_bound)
        ]

    async def _try_to_add(self, config: KafkaConfig, wanted: WantedListener) -> None:
        try:
            security = _usable_security(config, wanted)
            await self._load_what_logins_need(wanted.name, security)
            if self._is_stopped:
                self._forget(wanted.name)
                return
            self._add(config, wanted, security)
        except (InvalidSecurity, InvalidZnode, NoAuth, CannotListenError) as error:
            self._forget(wanted.name)
            problem = _cannot_bind(wanted, error) if isinstance(error, CannotListenError) else str(error)
            self._report(wanted.name, f"the listener {wanted.name} is not added: {problem}")
        else:
            self._by_name[wanted.name].start_accepting()
            _log.info("{name}: the listener is added", name=wanted.name)

    def _report(self, name: str, problem: str) -> None:
        """Log a problem, but not again after each attempt."""
        if self._problems.get(name) != problem:
            _log.error("{problem}; the broker tries again", problem=problem)
        self._problems[name] = problem

    async def _load_what_logins_need(self, name: str, security: ListenerSecurity) -> None:
        if security.needs_credentials:
            await self._load_users()
        await self._token_keys.fetch(name, security)

    def _add(self, config: KafkaConfig, wanted: WantedListener, security: ListenerSecurity) -> None:
        listener = self._new_listener(wanted, security)
        listener.bind()
        self._by_name[wanted.name], self._protocols[wanted.name] = listener, wanted.security_protocol
        self._fixed_keys[wanted.name] = fixed_keys(config, wanted.name)
        if security.tls is not None:
            self._parts.watch_tls().add(listener, wanted.security_protocol, security.tls)

    def _try_to_bind(self, addresses: list[tuple[WantedListener, set[int]]], backlog: int) -> None:
        """Bind all addresses briefly. If a listener will release the port, try a free port of the same host
        instead."""
        tried = list[Any]()
        factory: Any = Factory()
        try:
            for wanted, free in addresses:
                number = 0 if wanted.port in free else wanted.port
                port: Any = self._machine.open_port(number, factory, backlog, wanted.host, self._machine.reactor)
                try:
                    port.startListening()
                except CannotListenError as error:
                    raise ApiError(ErrorCode.INVALID_REQUEST, _cannot_bind(wanted, error)) from None
                tried.append(port)
        finally:
            for port in tried:
                port.stopListening()


def _usable_security(config: KafkaConfig, wanted: WantedListener) -> ListenerSecurity:
    """The settings of a listener, with readable keys and certificates."""
    security = listener_security(config.properties, wanted.name, wanted.security_protocol)
    if security.tls is not None:
        from kafka_zk.security.tls import server_context  # imported here, because it loads OpenSSL

        server_context(security.tls.settings, security.tls.client_auth)
    return security


def _ports(listeners: Iterable[Listener]) -> set[int]:
    return {listener.port for listener in listeners if listener.is_bound}


def _cannot_bind(wanted: WantedListener, error: CannotListenError) -> str:
    reason = getattr(error.socketError, "strerror", None) or error.socketError
    return f"Socket server failed to bind to {wanted.host}:{wanted.port}: {reason}."


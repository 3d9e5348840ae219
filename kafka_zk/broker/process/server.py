"""A broker's process: reactor, signals, exit code."""

import gc
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from twisted.internet.defer import ensureDeferred
from twisted.internet.error import CannotListenError
from twisted.logger import Logger, LogLevel

from kafka_zk.base.events import Observe, ignore
from kafka_zk.base.operating_system.limits import raise_descriptor_limit
from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig
from kafka_zk.broker.faults.stepped_clock import SteppedClock
from kafka_zk.broker.metrics.request_stats import RequestStats
from kafka_zk.broker.metrics.watchdog import Watchdog
from kafka_zk.broker.process.broker import Broker
from kafka_zk.broker.process.machine import Machine
from kafka_zk.broker.process.opening_logs import StartAbandoned
from kafka_zk.broker.process.parts import BrokerParts
from kafka_zk.broker.process.signals import ending_signals
from kafka_zk.native.loading import NativeUnusable, implementation
from kafka_zk.network.reactor import install
from kafka_zk.registry import cluster_id
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import ConnectionLoss, RegistryError, SessionLost
from kafka_zk.registry.client.kazoo_twisted import KazooTwistedClient
from kafka_zk.registry.client.session_pipe import SessionPipe
from kafka_zk.registry.znodes.cluster_id import CLUSTER_ID
from kafka_zk.storage.files.errors import StorageError
from kafka_zk.storage.files.helper_process import Helper

_log = Logger()

SWITCH_INTERVAL_S = 0.0001
"""Maximum time in s until a busy thread (kazoo's or the pool's) yields the GIL to the reactor."""

GC_THRESHOLDS = (10_000, 20, 20)
"""With Python's default (700, 10, 10), a broker that receives 5,000 partitions runs full collections of 60 ms;
reference counting frees nearly all garbage."""


class FaultsAddress(NamedTuple):
    """The address of the broker's JSON API for faults, and its token."""

    host: str
    port: int
    token: str


def run_broker(
    config: KafkaConfig,
    metrics_port: int | None = None,
    metrics_host: str | None = None,
    observe: Observe = ignore,
    faults: FaultsAddress | None = None,
) -> int:
    """Run a broker until a signal (``signals``) or a fatal error ends it. Returns the exit code, 0 after a clean stop.

    ``metrics_port``: for Prometheus; None: no metrics. ``metrics_host``: default: the first listener's. ``faults``: see
    ``broker.faults.control_channel``; None: off.
    """
    raise_descriptor_limit()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    host = config.listener_list[0].host if metrics_host is None else metrics_host
    process = _Process(install(), config, None if metrics_port is None else (host, metrics_port), observe, faults)
    gc.set_threshold(*GC_THRESHOLDS)
    gc.freeze()  # the garbage collector need not examine imported modules, which stay
    process.run()
    return process.exit_code


def helper_holding(
    pipe: SessionPipe | None, memory_limit_bytes: int, niceness: int, locks: Sequence[int] = ()
) -> Helper:
    """A helper that inherits the pipe, so that the supervisor does not consider the process dead while the helper
    lives."""
    return Helper(memory_limit_bytes, niceness, locks if pipe is None else (*locks, pipe.descriptor))


class _Process:
    def __init__(
        self,
        reactor: Any,
        config: KafkaConfig,
        metrics_address: tuple[str, int] | None,
        observe: Observe,
        faults_address: FaultsAddress | None = None,
    ) -> None:
        self._faults_address = faults_address
        self._observe = observe
        self._metrics_address = metrics_address
        self._reactor = reactor
        self._watchdog = Watchdog(reactor)
        self._config = config
        self._broker: Broker | None = None
        self._stopping = False
        self._session_pipe = SessionPipe.inherited()
        self.exit_code = 0

    def run(self) -> None:
        asking_to_end = ending_signals()
        for number in asking_to_end:
            signal.signal(number, lambda *_: self._reactor.callFromThread(self._stop))
        self._reactor.callWhenRunning(self._watchdog.start)
        self._reactor.callWhenRunning(lambda: ensureDeferred(self._start()))
        self._reactor.run(installSignalHandlers=False)
        for number in asking_to_end:
            signal.signal(number, signal.SIG_IGN)  # later signals must not change the exit code
        self._watchdog.stop()

    async def _start(self) -> None:
        config = self._config
        try:
            _log_implementation()
            client = KazooTwistedClient(
                self._reactor,
                config.zookeeper_connect,
                config.zookeeper_session_timeout_ms,
                connection_timeout_ms=config.connection_timeout_ms,
                security=config.zookeeper_security,
            )
            if self._session_pipe is not None:
                self._session_pipe.follow(client)
            await client.start()
            stats = None if self._metrics_address is None else RequestStats()
            machine = replace(Machine.of(self._reactor), start_helper=partial(helper_holding, self._session_pipe))
            if self._faults_address is not None:
                machine = replace(machine, clock=SteppedClock(self._reactor))
            take_faults = partial(self._take_faults, machine, client)
            self._broker = Broker(machine, config, client, self._fatal, stats, self._observe, take_faults)
            await self._broker.start()
            client.recognise(CLUSTER_ID, partial(cluster_id.mismatch, self._broker.services.cluster_id))
            if stats is not None and self._metrics_address is not None:
                from kafka_zk.broker.metrics import endpoint

                host, port = self._metrics_address
                endpoint.listen(self._reactor, self._broker.parts, client, stats, port, host, self._watchdog)
                _log.info("metrics are served", host=host or "all interfaces", port=port)
        except (InvalidBrokerConfig, NativeUnusable, RegistryError, StorageError, OSError, CannotListenError) as error:
            if not self._stopping:  # otherwise the stop caused the error
                self._fatal(_sentence(error))
        except StartAbandoned:
            pass  # ``_stop_broker`` ends the process
        except Exception:
            _log.failure("the broker cannot start", level=LogLevel.error)
            self._fatal("the broker cannot start because of a bug; see the traceback above")

    def _take_faults(self, machine: Machine, client: RegistryClient, parts: BrokerParts) -> None:
        """Serve the JSON API for faults. Called before the broker registers, so that every registered broker accepts
        faults."""
        address = self._faults_address
        if address is None:
            return
        from kafka_zk.broker.faults import control_channel
        from kafka_zk.broker.faults.faults import Faults, Seams
        from kafka_zk.broker.faults.interceptor import connect_interceptor

        assert isinstance(machine.clock, SteppedClock)
        connect = partial(connect_interceptor, self._reactor, address.token)
        seams = Seams(
            parts.services,
            parts.dispatcher,
            client,
            machine.clock,
            machine.run_in_thread,
            connect,
            parts.peers.connect_to_broker,
        )
        faults = Faults(seams)
        control_channel.listen(self._reactor, faults, *address)
        _log.warn("faults can be injected at {host}:{port}", host=address.host, port=address.port)

    def _fatal(self, reason: str) -> None:
        """Stop the broker and exit with code 1."""
        _log.error("{reason}", reason=reason)
        self.exit_code = 1
        self._stop()

    def _stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            ensureDeferred(self._stop_broker())

    async def _stop_broker(self) -> None:
        try:
            if self._broker is not None:
                await self._broker.stop()
        except Exception:
            _log.failure("the shutdown was not clean", level=LogLevel.error)
            self.exit_code = 1
        finally:
            _log_native_calls()
            self._reactor.stop()


def _log_native_calls() -> None:
    native = implementation().native
    if native is not None and any(native.handled().values()):
        _log.info("the native module completed calls", **native.handled())


def _log_implementation() -> None:
    found = implementation()
    if found.problem:
        _log.warn("{problem}", problem=found.problem)
    _log.info("this broker runs as {implementation}", implementation=str(found))


def _sentence(error: Exception) -> str:
    """The error as a sentence, although ConnectionLoss and SessionLost only name a path."""
    if isinstance(error, ConnectionLoss | SessionLost):
        return f"the session with ZooKeeper ended while the broker was starting ({error})"
    return str(error)

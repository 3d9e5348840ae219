"""A whole broker in this process that hostile clients send bytes to, and the outcome of each frame.

Everything is real except ZooKeeper (in memory) and the reactor, which the test turns by hand: so the processor time of
one frame is measured exactly, whatever else the machine does. The broker has two listeners. Brokers trust their
controller, so its requests are refused on the listener for strangers, as with an authorizer in Kafka, and a separate
test sends them on the other one.
"""

import fcntl
import gc
import os
import socket
import struct
import termios
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple, cast

from twisted.internet.defer import ensureDeferred
from twisted.logger import ILogObserver, formatEvent, globalLogPublisher

from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.metrics.request_stats import RequestStats
from kafka_zk.broker.process.broker import Broker
from kafka_zk.broker.process.machine import Machine
from kafka_zk.broker.security.authorizer import Authorizer, Operation, Resource
from kafka_zk.network.client import KafkaConnection, connect
from kafka_zk.network.supervised_connection import SupervisedConnection
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import RequestContext
from kafka_zk.sim.zookeeper.zookeeper import SimZooKeeper
from tests.kafka_zk.network.harness import LocalReactor

STRANGERS = "PLAINTEXT"
BROKERS = "BROKERS"
_ABRUPT = struct.pack("ii", 1, 0)


class Outcome(NamedTuple):
    """The outcome of one frame.

    ``end``: "answered", "closed" (by the broker), "silent" (handled without a response), "waiting" (a response will
    come) or "incomplete" (the broker waits for the rest of the frame).
    """

    end: str
    turn_ms: float  # the longest turn of the reactor, in processor time
    lines: list[str]  # the broker's log from warnings on
    failures: list[str]  # unexpected errors: tracebacks


class _OnlyBrokersCommand(Authorizer):
    """Strangers may do everything except what requires a controller or a broker."""

    def authorize(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        return operation is not Operation.CLUSTER_ACTION or context.listener_name == BROKERS


class LogLines:
    """The broker's log: warnings and above, and failures."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.failures: list[str] = []

    def observe(self, event: Any) -> None:
        failure = event.get("log_failure")
        if failure is not None:
            self.failures.append(failure.getTraceback())
        elif event["log_level"].name in ("warn", "error", "critical"):
            self.lines.append(formatEvent(event))

    def start(self) -> None:
        globalLogPublisher.addObserver(cast(ILogObserver, self.observe))

    def stop(self) -> None:
        globalLogPublisher.removeObserver(cast(ILogObserver, self.observe))

    def take(self) -> tuple[list[str], list[str]]:
        taken = self.lines, self.failures
        self.lines, self.failures = [], []
        return taken


class Target:
    """A broker that serves the topics in ``topics`` (two partitions each)."""

    def __init__(
        self, folder: Path, topics: tuple[str, ...], stats: RequestStats | None = None, **properties: str
    ) -> None:
        self.stats = stats
        self.reactor = LocalReactor()
        self.log = LogLines()
        self.fatal: list[str] = []
        self.reactor.getThreadPool().start()
        zookeeper = SimZooKeeper(self.reactor, delay_ms=(0.0, 0.1))  # type: ignore[arg-type]
        config, _ = KafkaConfig.from_properties(
            {
                "zookeeper.connect": "in-memory:1",
                "broker.id": "0",
                "log.dirs": str(folder),
                "listeners": f"{STRANGERS}://127.0.0.1:0,{BROKERS}://127.0.0.1:0",
                "listener.security.protocol.map": f"{STRANGERS}:PLAINTEXT,{BROKERS}:PLAINTEXT",
                "inter.broker.listener.name": BROKERS,
                "num.partitions": "2",
                **{key.replace("_", "."): value for key, value in properties.items()},
            }
        )
        self.broker = Broker(Machine.of(self.reactor), config, zookeeper.client("broker"), self.fatal.append, stats)
        self.log.start()
        self.run(self.broker.start())
        self.broker.services.authorizer = _OnlyBrokersCommand()
        self._listeners = {listener.name: listener for listener in self.broker._bound}
        self.neighbour: KafkaConnection = self.run(
            connect(self.reactor, "127.0.0.1", self.port(STRANGERS), "neighbour")
        )
        for topic in topics:
            self._create(topic)
        self.log.take()

    def run(self, work: Any) -> Any:
        """Run turns until the coroutine or Deferred has a result."""
        return self.reactor.result_of(work)

    def port(self, listener: str) -> int:
        return self._listeners[listener].port

    def connections(self, listener: str = STRANGERS) -> list[SupervisedConnection]:
        return self._listeners[listener].connections

    def _create(self, topic: str) -> None:
        wanted = codec.request(ApiKey.METADATA).MetadataRequestTopic(name=topic)

        def answered() -> bool:
            answer = self.run(
                self.neighbour.request(ApiKey.METADATA, version=8, topics=[wanted], allow_auto_topic_creation=True)
            )
            return bool(answer.topics[0].error_code == 0)

        self.reactor.until(answered)

    # -- one frame ----------------------------------------------------------------------------------------------------

    def send(self, data: bytes, listener: str = STRANGERS) -> Outcome:
        """Send ``data`` over a new connection, observe the outcome, and disconnect."""
        before = set(self.connections(listener))
        peer = socket.create_connection(("127.0.0.1", self.port(listener)))
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABRUPT)
        try:
            self.reactor.until(lambda: set(self.connections(listener)) - before)
            connection = (set(self.connections(listener)) - before).pop()
            end, turn_ms = self._watch(peer, connection, data)
        finally:
            peer.close()
        self.reactor.until(lambda: connection not in self.connections(listener))
        lines, failures = self.log.take()
        return Outcome(end, turn_ms, lines, failures)

    def _watch(self, peer: socket.socket, connection: SupervisedConnection, data: bytes) -> tuple[str, float]:
        """Run turns until all of ``data`` was read and handled, or the connection is closed."""
        peer.setblocking(False)
        transport: Any = connection.transport
        received, sent, quiet, longest_s = 0, 0, 0, 0.0
        deadline = time.monotonic() + 30
        while quiet < 3:
            assert time.monotonic() < deadline, "the broker never becomes idle"
            if sent < len(data):
                try:
                    sent += peer.send(data[sent:])
                except BlockingIOError:
                    pass
                except (BrokenPipeError, ConnectionResetError):
                    return "closed", longest_s * 1000
            start = time.thread_time()
            self.reactor.turn(0)
            longest_s = max(longest_s, time.thread_time() - start)
            try:
                chunk = peer.recv(1 << 20)
                if not chunk:
                    return "closed", longest_s * 1000
                received += len(chunk)
                quiet = 0
            except BlockingIOError:
                idle = sent == len(data) and (connection.is_busy or not _unread(transport))
                quiet = quiet + 1 if idle else 0
            except ConnectionResetError:
                return "closed", longest_s * 1000
        if connection.is_busy:
            return "waiting", longest_s * 1000
        if received:
            return "answered", longest_s * 1000
        return "incomplete" if connection._decoder.missing is not None else "silent", longest_s * 1000

    # -- afterwards ---------------------------------------------------------------------------------------------------

    def alive(self) -> dict[str, int]:
        """The counts that must not grow: live objects by kind, open descriptors, waiting requests."""
        for _ in range(100):  # requests that wait for ZooKeeper get its response
            self.reactor.turn()
        gc.collect()
        kinds = Counter(type(thing).__name__ for thing in gc.get_objects())
        watched = ("BrokerConnection", "_ListenerConnection", "FrameServer", "Deferred", "coroutine", "DelayedCall")
        services = self.broker.services
        return {
            **{name: kinds[name] for name in watched},
            "descriptors": len(os.listdir("/proc/self/fd")),
            "waiting fetches": services.fetch_purgatory.count,
            "waiting for metadata": services.metadata_purgatory.count,
        }

    def close(self) -> None:
        self.neighbour.disconnect()
        self.reactor.result_of(ensureDeferred(self.broker.stop()))
        self.log.stop()
        self.reactor.getThreadPool().stop()
        self.reactor.close()


def _unread(transport: Any) -> int:
    """Unread bytes in the broker's socket."""
    if not transport.connected:
        return 0
    buffer = bytearray(4)
    fcntl.ioctl(transport.fileno(), termios.FIONREAD, buffer)
    count: int = struct.unpack("i", buffer)[0]
    return count

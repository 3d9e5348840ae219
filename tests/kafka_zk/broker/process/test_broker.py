"""The broker when one of its parts fails."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred, ensureDeferred, succeed
from twisted.internet.task import Clock

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.process.broker import Broker
from kafka_zk.broker.process.machine import Machine
from kafka_zk.broker.process.opening_logs import StartAbandoned
from kafka_zk.broker.process.peers import Peers
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.znodes.brokers import BrokerInfo, EndPoint
from kafka_zk.registry.znodes.isr import LOG_DIR_EVENTS
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity
from tests.registry.world import World

R = TypeVar("R")


def make_broker(clock: Any, client: Any, folder: Path, **properties: str) -> Any:
    """``properties`` are configuration keys, ``_`` for ``.``."""
    keys = {key.replace("_", "."): value for key, value in properties.items()}
    config, _ = KafkaConfig.from_properties(
        {"zookeeper.connect": "none:1", "broker.id": "3", "log.dirs": str(folder), **keys}
    )
    broker: Any = Broker(Machine.of(clock), config, client, pytest.fail)
    broker.broker_id = 3
    return broker


def test_a_shutdown_that_fails_still_ends_the_session(tmp_path: Path) -> None:
    """If the session stayed open, the broker would count as alive until the session expires."""
    closed: list[bool] = []

    class Client:
        def close(self) -> "Deferred[None]":
            closed.append(True)
            return succeed(None)

    class Logs:
        def shutdown_steps(self, *_: Any) -> None:
            raise OSError("the disk is gone")

    broker = make_broker(Clock(), Client(), tmp_path)
    broker._logs = Logs()
    failures: list[Any] = []
    ensureDeferred(broker.stop()).addErrback(failures.append)
    assert closed == [True]
    assert failures[0].check(OSError)


def test_the_reactor_has_its_turns_while_a_slow_disk_syncs(tmp_path: Path) -> None:
    """All fsyncs of one step start in threads at the same time; the next step and the end of the session wait for them.
    """
    clock, told = Clock(), list[str]()
    syncing: list[Deferred[Any]] = []

    class Client:
        def close(self) -> "Deferred[None]":
            told.append("closed")
            return succeed(None)

    class Logs:
        def shutdown_steps(self, *_: Any) -> Any:
            yield [lambda: None, lambda: None]
            told.append("synced")
            yield []

    broker = make_broker(clock, Client(), tmp_path)

    def run_in_thread(work: Callable[[], R]) -> Deferred[R]:
        syncing.append(Deferred())
        return syncing[-1]

    broker._machine = replace(broker._machine, run_in_thread=run_in_thread)
    broker._logs = Logs()
    ended: Deferred[None] = ensureDeferred(broker.stop())
    clock.advance(10)
    assert len(syncing) == 2 and not told
    for each in syncing:
        each.callback(None)
    clock.pump([0, 0, 0])
    assert told == ["synced", "closed"] and ended.called


def test_a_broker_that_stops_follows_what_clients_may_do_until_they_are_gone(tmp_path: Path) -> None:
    """A fetcher's last request and the closing of connections take seconds, in which clients still receive responses.
    """
    last_request, farewell = Deferred[None](), Deferred[None]()
    told: list[str] = []

    class Part:
        def __init__(self, name: str, waits_for: "Deferred[None] | None" = None) -> None:
            self._name, self._waits_for = name, waits_for

        async def stop(self) -> None:
            told.append(self._name)
            if self._waits_for is not None:
                await self._waits_for

        def close(self) -> "Deferred[None]":
            told.append(self._name)
            return succeed(None)

    broker = make_broker(Clock(), Part("session"), tmp_path)
    broker._listeners = Part("listeners", farewell)
    broker._live_config = SimpleNamespace(follow_only_clients=lambda: told.append("topics"))
    broker._config_changes = Part("users")
    broker._parts = SimpleNamespace(
        close=Part("fetchers", last_request).stop, close_security=Part("ACLs").close
    )
    stopped = ensureDeferred(broker.stop())
    assert told == ["topics", "fetchers"]
    last_request.callback(None)
    assert told == ["topics", "fetchers", "listeners"]
    farewell.callback(None)
    assert told == ["topics", "fetchers", "listeners", "ACLs", "users", "session"] and stopped.called


def test_the_controller_is_told_of_a_failed_log_directory(tmp_path: Path) -> None:
    """The notification succeeds even if the connection breaks in the middle of it. Without it, clients would be
    directed to this broker for partitions that it does not serve.
    """
    world = World()
    failing, controller = world.clients
    lost: list[TopicPartition] = []
    broker = make_broker(world.clock, failing, tmp_path)
    broker._logs = SimpleNamespace(live_directories=[tmp_path])
    broker._parts = SimpleNamespace(
        services=SimpleNamespace(replicas=SimpleNamespace(directory_failed=lost.extend))
    )
    broker._directory_failed(tmp_path / "gone", OSError("the disk is gone"), [TopicPartition("t", 0)])
    failing.disconnect()
    world.scheduler.run_for(1000)
    assert lost == [TopicPartition("t", 0)]
    names, _ = world.scheduler.run(controller.children(LOG_DIR_EVENTS))
    assert names


@pytest.mark.parametrize("after", range(0, 24, 2))
@pytest.mark.parametrize("applied", [False, True])
def test_a_start_waits_for_a_connection_that_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, applied: bool
) -> None:
    """The connection may break at any of the first requests, for example because ZooKeeper restarts at the same time.
    """
    world = World(1)
    client = world.clients[0]
    client.lose_request(after, applied=applied)
    broker = make_broker(world.clock, client, tmp_path)

    async def open_logs(*_: object) -> None:
        raise StartAbandoned

    monkeypatch.setattr(broker, "_open", open_logs)
    with pytest.raises(StartAbandoned):
        world.scheduler.run(broker.start())
    assert broker.broker_id == 3


def test_wrong_security_is_told_before_the_logs_are_opened(tmp_path: Path) -> None:
    """Recovery may take an hour before the start would be refused; the refused start locks no log directory either."""
    world = World(1)
    keys = {"ssl.keystore.location": str(tmp_path / "none.pem")}
    broker = make_broker(world.clock, world.clients[0], tmp_path / "logs", listeners="SSL://:0", **keys,
                         security_inter_broker_protocol="SSL")  # fmt: skip
    with pytest.raises(InvalidBrokerConfig, match=r"ssl\.keystore\.location"):
        world.scheduler.run(broker.start())
    assert not (tmp_path / "logs").exists()


def test_controller_socket_timeout_ms_is_for_answers_too() -> None:
    """As in Kafka, requests to a broker that hangs fail after the configured time."""
    config, _ = KafkaConfig.from_properties({"zookeeper.connect": "none:1", "controller.socket.timeout.ms": "5000"})
    given: list[dict[str, Any]] = []

    def connect(*_: Any, **options: Any) -> Deferred[None]:
        given.append(options)
        return succeed(None)

    machine: Any = SimpleNamespace(reactor=None, connect=connect)
    peers = Peers(machine, config, 3, MetadataCache(), {"PLAINTEXT": NO_SECURITY})
    ensureDeferred(peers.connect_as_controller(BrokerInfo.of(4, (EndPoint("PLAINTEXT", "PLAINTEXT", "there", 9092),))))
    assert [(options["timeout_s"], options["request_timeout_s"]) for options in given] == [(5.0, 5.0)]


def test_a_controller_connects_to_the_listener_of_brokers_only() -> None:
    """On any other listener, another process could hold the port and receive the broker's password."""
    config, _ = KafkaConfig.from_properties({"zookeeper.connect": "none:1"})

    def connect(*_: Any, **options: Any) -> None:
        pytest.fail("the broker has no such listener")

    machine: Any = SimpleNamespace(reactor=None, connect=connect)
    peers = Peers(machine, config, 3, MetadataCache(), {"PLAINTEXT": NO_SECURITY})
    info = BrokerInfo.of(4, (EndPoint("OUTSIDE", "PLAINTEXT", "there", 9092),))
    failures: list[Any] = []
    ensureDeferred(peers.connect_as_controller(info)).addErrback(failures.append)
    assert failures[0].check(ApiError) and failures[0].value.code == ErrorCode.BROKER_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("listeners", "port", "security"),
    [(("INSIDE", "CONTROL"), 9094, "SSL"), (("CONTROL", "INSIDE"), 9094, "SSL"), (("INSIDE",), 9093, "PLAINTEXT")],
)
def test_a_controller_connects_to_the_control_plane_listener(
    listeners: tuple[str, ...], port: int, security: str
) -> None:
    """A broker without this listener is reached at the inter-broker listener, so that brokers can get it one by one."""
    config, _ = KafkaConfig.from_properties({
        "zookeeper.connect": "none:1", "listeners": "INSIDE://:9093,CONTROL://:9094",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,CONTROL:SSL",
        "inter.broker.listener.name": "INSIDE", "control.plane.listener.name": "control",
    })  # fmt: skip
    given: list[tuple[str, int, str]] = []

    def connect(_reactor: Any, host: str, port: int, **options: Any) -> Deferred[None]:
        given.append((host, port, options["security"].protocol))
        return succeed(None)

    machine: Any = SimpleNamespace(reactor=None, connect=connect)
    of_listeners = {"INSIDE": NO_SECURITY, "CONTROL": ClientSecurity("SSL")}
    peers = Peers(machine, config, 3, MetadataCache(), of_listeners)
    ports = {"INSIDE": 9093, "CONTROL": 9094}
    ends = [EndPoint(name, config.listener_protocols[name], "there", ports[name]) for name in listeners]
    ensureDeferred(peers.connect_as_controller(BrokerInfo.of(4, tuple(ends))))
    assert given == [("there", port, security)]

"""The brokers of a rehearsal: stand-ins without data, or real brokers with the cluster's own settings."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from kafka_zk.base.clock import wall_ms
from kafka_zk.embedded.java import Java
from kafka_zk.embedded.kafka_jars import KafkaJars
from kafka_zk.embedded.ports import free_port
from kafka_zk.migration.mode import Mode
from kafka_zk.migration.rehearsal.broker_log import BrokerLog
from kafka_zk.migration.rehearsal.broker_settings import Place, Settings, listeners, of_broker
from kafka_zk.migration.rehearsal.kafka_process import KafkaProcess
from kafka_zk.migration.rehearsal.loopback import LOOPBACK
from kafka_zk.migration.rehearsal.stand_in import State
from kafka_zk.migration.rehearsal.stand_ins import LISTENER, StandIns
from kafka_zk.registry.client.errors import NodeExists, NoNode
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.znodes import brokers
from kafka_zk.registry.znodes.brokers import BrokerInfo, EndPoint

Call = Callable[..., Any]
"""Runs a function on the reactor thread."""


class Fleet(Protocol):
    """``are_real``: the brokers can return to ZooKeeper mode."""

    are_real: bool

    def start(self, broker_id: int, mode: Mode) -> None:
        """Start a broker that has left, or was never started. Raises: ProcessFailed."""

    def has_started(self, broker_id: int) -> bool: ...

    def is_active(self, broker_id: int) -> bool:
        """True when the KRaft controller has unfenced it."""

    def leave(self, broker_id: int, to: Mode) -> None:
        """Stop the broker, which will start again in the mode ``to``."""

    def has_left(self, broker_id: int) -> bool: ...

    def heartbeats(self) -> Mapping[int, int]:
        """How many heartbeats of each stand-in the controller has confirmed; empty for real brokers."""

    def refusals(self) -> tuple[str, ...]:
        """Sentences about brokers that the controller refused, or that log errors."""

    def ended(self) -> str:
        """The brokers that have ended but should run, as a sentence; empty if none has ended."""


class StandInFleet:
    """``stand_ins`` must be open."""

    are_real = False

    def __init__(self, stand_ins: StandIns, call: Call, client: KazooBlockingClient) -> None:
        self._stand_ins, self._call, self._client = stand_ins, call, client

    def start(self, broker_id: int, mode: Mode) -> None:
        if mode is Mode.KRAFT:
            with suppress(NoNode):
                run_blocking(self._client.delete(brokers.broker_path(broker_id)))
        else:
            self._register(broker_id)
        if mode is not Mode.ZOOKEEPER:
            self._call(self._stand_ins.start, broker_id, mode is Mode.MIGRATION)

    def _register(self, broker_id: int) -> None:
        endpoint = EndPoint(LISTENER, "PLAINTEXT", LOOPBACK, self._stand_ins.port)
        data = brokers.encode(BrokerInfo.of(broker_id, (endpoint,), timestamp_ms=wall_ms()))
        for parent in ("/brokers", brokers.BROKER_IDS):
            with suppress(NodeExists):
                run_blocking(self._client.create(parent))
        with suppress(NodeExists):
            run_blocking(self._client.create(brokers.broker_path(broker_id), data, ephemeral=True))

    def has_started(self, broker_id: int) -> bool:
        return True

    def is_active(self, broker_id: int) -> bool:
        return self._state(broker_id) is State.ACTIVE

    def leave(self, broker_id: int, to: Mode) -> None:
        self._call(self._stand_ins.stop, broker_id)

    def has_left(self, broker_id: int) -> bool:
        return self._state(broker_id) is State.STOPPED

    def _state(self, broker_id: int) -> State:
        state: State = self._call(self._stand_ins.states)[broker_id][0]
        return state

    def heartbeats(self) -> Mapping[int, int]:
        found: dict[int, int] = self._call(self._stand_ins.heartbeats)
        return found

    def refusals(self) -> tuple[str, ...]:
        found = self._call(self._stand_ins.states)
        return tuple(f"broker {broker_id} was refused: {error}" for broker_id, (_, error) in found.items() if error)

    def ended(self) -> str:
        return ""


class RealFleet:
    """Processes with the settings of the cluster's brokers, and with empty log directories.

    Args:
        settings: each broker's settings.
        secrets: strings that are hidden in the logs.
    """

    are_real = True

    def __init__(
        self, folder: Path, settings: Mapping[int, Settings], java: Java, jars: KafkaJars, quorum: Settings,
        secrets: Sequence[str],
    ) -> None:  # fmt: skip
        self._settings, self._quorum, self._secrets = settings, quorum, secrets
        self._nodes = {
            broker_id: KafkaProcess(f"broker {broker_id}", folder / f"broker-{broker_id}", java, jars)
            for broker_id in settings
        }
        self._ports = {
            broker_id: {name: free_port() for name in listeners(each)} for broker_id, each in settings.items()
        }
        self._logs = {broker_id: BrokerLog(secrets) for broker_id in settings}
        self._modes: dict[int, Mode] = {}
        self._zookeeper = ""
        self._is_registered: Callable[[int], bool] = lambda broker_id: False

    def connect(self, zookeeper: str, is_registered: Callable[[int], bool]) -> None:
        """``is_registered``: whether a broker is in ``/brokers/ids``."""
        self._zookeeper, self._is_registered = zookeeper, is_registered

    def start(self, broker_id: int, mode: Mode) -> None:
        node = self._nodes[broker_id]
        place = Place(node.folder, self._ports[broker_id], self._zookeeper, self._quorum)
        self._logs[broker_id] = BrokerLog(self._secrets)
        self._modes[broker_id] = mode
        node.start_process(of_broker(broker_id, self._settings[broker_id], mode, place))

    def _log(self, broker_id: int) -> BrokerLog:
        self._logs[broker_id].read(self._nodes[broker_id].new_lines())
        return self._logs[broker_id]

    def has_started(self, broker_id: int) -> bool:
        return self._log(broker_id).is_started

    def is_active(self, broker_id: int) -> bool:
        log = self._log(broker_id)
        return log.is_started and log.is_unfenced and self._nodes[broker_id].is_running

    def leave(self, broker_id: int, to: Mode) -> None:
        """The controllers are stopped before a broker leaves migration mode for ZooKeeper mode. The broker would try to
        reach them for five minutes, so it is killed."""
        if self._modes.pop(broker_id, None) is Mode.MIGRATION and to is Mode.ZOOKEEPER:
            self._nodes[broker_id].kill()
        else:
            self._nodes[broker_id].terminate()

    def has_left(self, broker_id: int) -> bool:
        if self._nodes[broker_id].is_running or self._is_registered(broker_id):
            return False
        self._nodes[broker_id].skip_lines()
        return True

    def heartbeats(self) -> Mapping[int, int]:
        return {}

    def refusals(self) -> tuple[str, ...]:
        found = []
        for broker_id in self._nodes:
            log = self._log(broker_id)
            if log.refusal:
                found.append(f"the controller refuses to register broker {broker_id}: {log.refusal}")
            found += [f"broker {broker_id} logs: {error}" for error in log.errors]
        return tuple(found)

    def ended(self) -> str:
        return "; ".join(
            self._nodes[broker_id].describe_end() for broker_id in self._modes
            if not self._nodes[broker_id].is_running
        )  # fmt: skip

    def kill(self) -> None:
        for node in self._nodes.values():
            node.kill()

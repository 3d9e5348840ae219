"""A broker that starts while ZooKeeper briefly fails: the connection breaks, or the session ends, at any one of its
requests.

Either it ends up registered in its current session and is the controller of its cluster, or the start is refused and
leaves nothing behind. Real sockets and logs, ZooKeeper in memory.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.process.broker import Broker
from kafka_zk.broker.process.machine import Machine
from kafka_zk.broker.process.server import _sentence
from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.sim.zookeeper.zookeeper import SimZooKeeper
from tests.kafka_zk.network.harness import LocalReactor

pytestmark = pytest.mark.slow

FAULTS = ("lost before it is carried out", "lost after it was carried out", "session ended")


class Start:
    """One start of a broker in an empty cluster, until it is the controller."""

    def __init__(self, reactor: LocalReactor, folder: Path) -> None:
        self.reactor = reactor
        self.zookeeper = SimZooKeeper(reactor, delay_ms=(0.0, 0.1))  # type: ignore[arg-type]
        self.client = self.zookeeper.client("broker")
        self.fatal: list[str] = []
        keys = {"zookeeper.connect": "in-memory:1", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(folder)}
        config, _ = KafkaConfig.from_properties(keys)
        self.broker = Broker(Machine.of(reactor), config, self.client, self.fatal.append)

    def fail_at(self, number: int, fault: str) -> None:
        self.client.lose_request(number, applied=fault != FAULTS[0])
        if fault == FAULTS[2]:
            self.client.add_session_listener(
                lambda state: self.zookeeper.expire(self.client) if state is SessionState.SUSPENDED else None
            )

    def run(self) -> RegistryError | None:
        """Start the broker; returns the reason if the start was refused."""
        try:
            self.reactor.result_of(self.broker.start())
        except RegistryError as error:
            return error
        self.reactor.until(self.is_whole)
        return None

    def is_whole(self) -> bool:
        """Whether it is registered in its current session, is the controller, and has received its own metadata."""
        alive = self.broker.services.metadata.brokers
        return (
            self.owner() == self.client.session_id
            and self.broker.parts.controller.is_active
            and self.broker.broker_id in alive
        )

    def owner(self) -> int | None:
        """The session that owns the registration; None without a registration."""
        try:
            _, stat = self.zookeeper.tree.get(f"/brokers/ids/{self.broker.broker_id}")
        except RegistryError:
            return None
        return int(stat.ephemeral_owner)

    def stop(self) -> None:
        self.reactor.result_of(ensureDeferred(self.broker.stop()))


@pytest.fixture
def reactor() -> Iterator[LocalReactor]:
    made = LocalReactor()
    made.getThreadPool().start()
    yield made
    made.getThreadPool().stop()
    made.close()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_start_is_whole_or_refused(reactor: LocalReactor, tmp_path: Path, fault: str) -> None:
    undisturbed = Start(reactor, tmp_path / "undisturbed")
    assert undisturbed.run() is None
    request_count = sum(undisturbed.client.counts.values())
    undisturbed.stop()
    assert request_count > 30
    outcomes: dict[bool, int] = {True: 0, False: 0}
    for number in range(request_count):
        start = Start(reactor, tmp_path / "disturbed")
        start.fail_at(number, fault)
        refusal = start.run()
        outcomes[refusal is None] += 1
        assert start.fatal == [], f"request {number}"
        assert refusal is None or "ended while the broker was starting" in _sentence(refusal)
        start.stop()
        assert start.owner() is None
        shutil.rmtree(tmp_path / "disturbed", ignore_errors=True)
    assert outcomes[True] > 0
    if fault != FAULTS[2]:
        assert outcomes[False] == 0, "a broken connection does not end the start"

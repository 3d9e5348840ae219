"""The shared environment of the registry tests: a scheduler, an in-memory ZooKeeper with Kafka's parents, and
clients."""

from twisted.internet.task import Clock

from kafka_zk.registry.paths import ensure_persistent_paths
from kafka_zk.registry.znodes.brokers import BrokerInfo, EndPoint
from kafka_zk.sim.machine.scheduler import Scheduler
from kafka_zk.sim.zookeeper.client import SimClient
from kafka_zk.sim.zookeeper.zookeeper import SimZooKeeper


class World:
    """``clients`` are named a, b, c … and have session timeouts of 6 s."""

    def __init__(
        self,
        client_count: int = 2,
        seed: int = 0,
        loss_probability: float = 0.0,
        delay_ms: tuple[float, float] = (0.1, 2.0),
    ) -> None:
        self.scheduler = Scheduler(seed)
        self.zookeeper = SimZooKeeper(self.scheduler.clock, seed, delay_ms=delay_ms)
        self.clients: list[SimClient] = [self.zookeeper.client(name) for name in "abcdefgh"[:client_count]]
        self.scheduler.run(ensure_persistent_paths(self.clients[0]))
        self.zookeeper.loss_probability = loss_probability

    @property
    def clock(self) -> Clock:
        return self.scheduler.clock


def broker_info(broker_id: int, port: int = 9092) -> BrokerInfo:
    return BrokerInfo.of(broker_id, (EndPoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port),), timestamp_ms=1)

"""A machine with a ZooKeeper and a broker, both with their data on its disk."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.cluster import wait_ready
from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.embedded.ports import free_ports
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from tests.power import evidence, servers
from tests.power.disks import Image, Machine, Pool
from tests.power.topics import broker_properties

BROKER_ID = 0


class Host:
    """``flushes``: see ``broker_properties``; ``rng`` chooses how often the broker writes its checkpoints."""

    def __init__(self, pool: Pool, name: str, filesystem: str, kind: str, rng: random.Random, *, flushes: bool) -> None:
        self.machine = Machine(pool, name, filesystem)
        self._folder = pool.folder / f"broker-of-{name}"
        self._kind = kind
        self._random = rng
        self._flushes = flushes
        self._port, self._zookeeper_port = free_ports(2)

    @property
    def log_dirs(self) -> list[Path]:
        """The log directories, one on each volume."""
        return [volume / "logs" for volume in self.machine.volumes]

    @property
    def zookeeper_connect(self) -> str:
        return f"127.0.0.1:{self._zookeeper_port}"

    @contextmanager
    def running(self, image: Image | None = None) -> Iterator[BrokerProcess]:
        """Within the block, the disk is mounted, and ZooKeeper and the broker run; then they are killed. ``image``: the
        content of the disk in an earlier life. The evidence about an exception of the block is added to it as a
        note. Raises: NotServing, DiskError.
        """
        with ExitStack() as ending:
            ending.callback(self.machine.unmount)
            self.machine.mount(image)
            shutil.rmtree(self._folder, ignore_errors=True)
            zookeeper = servers.zookeeper(self.machine.volumes[0] / "zookeeper", self._zookeeper_port)
            broker = self._broker()
            ending.callback(zookeeper.kill_if_started)
            ending.callback(broker.kill)
            try:
                self._start(zookeeper, broker)
            except EmbeddedError as error:
                raise servers.NotServing(f"{error} {servers.last_exception(broker)}") from error
            try:
                yield broker
            except Exception as error:
                error.add_note(evidence.of([broker], zookeeper))
                raise

    def _broker(self) -> BrokerProcess:
        interval_ms = self._random.choice((500, 2_000, 60_000))
        properties = broker_properties(1, flushes=self._flushes, checkpoint_interval_ms=interval_ms)
        return servers.broker(
            self._kind, self._folder, BROKER_ID, self._port, self.log_dirs, self.zookeeper_connect, properties
        )

    def _start(self, zookeeper: EmbeddedZooKeeper, broker: BrokerProcess) -> None:
        """Start both servers. Our broker starts beside ZooKeeper and waits until its previous registration is gone.
        Kafka's broker would exit because of that registration, so it starts afterwards.
        """
        before_ms = time.time() * 1000
        if self._kind == servers.OURS:
            broker.start()
        zookeeper.start()
        servers.forget_dead(zookeeper.connect_string, [BROKER_ID], before_ms)
        if self._kind == servers.KAFKA:
            broker.start()
        wait_ready([broker])

"""Three brokers, each in a rack of its own, which tell their metrics."""

import re
import urllib.request
from pathlib import Path

from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.ports import LOCALHOST, free_ports
from kafka_zk.testing.cluster import Cluster

RACKS = ("a", "b", "c")


class RackCluster(Cluster):
    """Broker n lies in rack n of ``RACKS``, broker 3 in the first one again."""

    def __init__(self, data: Path, properties: dict[str, str]) -> None:
        self._metrics_ports: dict[int, int] = {}
        super().__init__(len(RACKS), properties=properties, data=data)

    def metric(self, broker_id: int, name: str) -> float:
        """A broker's value of a metric without labels."""
        with urllib.request.urlopen(f"http://{LOCALHOST}:{self._metrics_ports[broker_id]}/metrics", timeout=10) as told:
            text = told.read().decode()
        found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    def _new_broker(self, folder: Path, broker_id: int, port: int) -> BrokerProcess:
        properties = {**self._properties, "broker.rack": RACKS[broker_id % len(RACKS)]}
        broker = BrokerProcess(folder, broker_id, port, self.zookeeper_connect, properties)
        [self._metrics_ports[broker_id]] = free_ports(1)
        broker.process.command += ["--metrics-port", str(self._metrics_ports[broker_id])]
        return broker

"""Three brokers, each in a rack of its own, which serve their metrics."""

import re
import urllib.request
from pathlib import Path

from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.ports import LOCALHOST, free_ports
from kafka_zk.testing.cluster import Cluster
from tests.integration.processes import wait_for

RACKS = ("a", "b", "c")


class RackCluster(Cluster):
    """Broker n is in rack n of ``RACKS``, and broker 3 in the first one."""

    def __init__(self, data: Path, properties: dict[str, str]) -> None:
        self._metrics_ports: dict[int, int] = {}
        self._texts: dict[int, str] = {}
        super().__init__(len(RACKS), properties=properties, data=data)

    def metric(self, broker_id: int, name: str) -> float:
        """A broker's current value of a metric without labels, which the broker collects once a second."""
        text = wait_for(lambda: self._collected_anew(broker_id), f"metrics of broker {broker_id}")
        found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    def _collected_anew(self, broker_id: int) -> str | None:
        """Returns all metrics, or None if they equal the previous ones: a new collection always shows more CPU time."""
        with urllib.request.urlopen(f"http://{LOCALHOST}:{self._metrics_ports[broker_id]}/metrics", timeout=10) as told:
            text: str = told.read().decode()
        before, self._texts[broker_id] = self._texts.get(broker_id), text
        return None if text == before else text

    def _new_broker(self, folder: Path, broker_id: int, port: int) -> BrokerProcess:
        properties = {**self._properties, "broker.rack": RACKS[broker_id % len(RACKS)]}
        broker = BrokerProcess(folder, broker_id, port, self.zookeeper_connect, properties)
        [self._metrics_ports[broker_id]] = free_ports(1)
        broker.process.command += ["--metrics-port", str(self._metrics_ports[broker_id])]
        return broker

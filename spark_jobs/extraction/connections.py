"""An extraction's connections to brokers and to ZooKeeper, with one session for the whole run."""

from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.source import planner
from kafka_zk.spark_jobs.source.cluster_client import ClusterClient
from kafka_zk.spark_jobs.source.driver import registered_brokers
from kafka_zk.spark_jobs.source.options import security_of
from kafka_zk.spark_jobs.waiting import Note, Wait


class Connections:
    """``note``: receives the reason for a long wait. Raises RegistryError, OptionError, FetchFailed."""

    brokers: ClusterClient

    def __init__(self, extraction: Extraction, note: Note) -> None:
        self._extraction = extraction
        self._note = note
        self.zookeeper = KazooBlockingClient(extraction.zookeeper, extraction.session_timeout_ms)

    def __enter__(self) -> "Connections":
        asked = self._extraction
        with Wait(self._note, asked.session_timeout_ms, f"no response from the ZooKeeper {asked.zookeeper}"):
            self.zookeeper.start()
        try:
            servers = registered_brokers(self.zookeeper, asked.zookeeper, security_of(asked.kafka).protocol)
            self.brokers = ClusterClient(planner.client_settings(asked.kafka, servers), self._note)
        except BaseException:
            self.zookeeper.close()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        self.brokers.close()
        self.zookeeper.close()

    @property
    def bootstrap_servers(self) -> str:
        return self.brokers.settings.bootstrap_servers

    def partitions(self) -> list[TopicPartition]:
        """All partitions of the topics. Raises OptionError if a topic does not exist."""
        return planner.tps(self._extraction.topics, self.brokers)

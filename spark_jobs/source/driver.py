"""The data source in Spark's driver.

Only this module of the data source uses ZooKeeper; executors never import it.
"""

from collections.abc import Iterable, Mapping

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.config import format_bootstrap_servers
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.pipeline import results
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.znodes.consumers import group_id_fault
from kafka_zk.registry.znodes.topics import topic_path
from kafka_zk.spark_jobs.errors import OptionError
from kafka_zk.spark_jobs.source import planner
from kafka_zk.spark_jobs.source.cluster_client import ClusterClient
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.source.options import SourceOptions, security_of


class Driver:
    """The connections of one plan; a context manager. Raises OptionError, FetchFailed, DataLoss, RegistryError."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._zookeeper: KazooBlockingClient | None = None
        if options.zookeeper and options.group_id and (fault := group_id_fault(options.group_id)) is not None:
            raise OptionError(f"group.id: {fault}")
        if options.zookeeper and (options.bootstrap_servers is None or options.group_id):
            self._connect(options.zookeeper)
        client = planner.client_settings(
            options.kafka, options.bootstrap_servers or self._registered_brokers(), client_id=options.client_id,
            retry_interval_ms=options.retry_interval_ms, patience_ms=options.poll_timeout_ms,
        )  # fmt: skip
        self.fetch_settings = planner.fetch_settings(options, client)
        self.brokers = ClusterClient(client)

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.brokers.close()
        if self._zookeeper is not None:
            self._zookeeper.close()

    def _connect(self, connect_string: str) -> KazooBlockingClient:
        if self._zookeeper is None:
            self._zookeeper = KazooBlockingClient(connect_string)
            self._zookeeper.start()
        return self._zookeeper

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Topic ids as in ``stream_offsets.py``; topics whose id is unknown are left out."""
        wanted = set(topics)
        found = {name: f"id:{each.hex}" for name, each in self.brokers.topic_ids(wanted).items()}
        without = sorted(wanted - found.keys())
        if not without or self._options.zookeeper is None:
            return found
        client = self._connect(self._options.zookeeper)
        stats = run_blocking(results(client.exists(topic_path(name)) for name in without))
        return found | {
            name: f"czxid:{stat.czxid}" for name, stat in zip(without, stats, strict=True) if stat is not None
        }

    def partitions(self) -> list[TopicPartition]:
        return planner.partitions(self._options, self.brokers)

    def starting_offsets(self) -> dict[TopicPartition, int]:
        return planner.starting_offsets(self._options, self.brokers, self.committed, self.partitions())

    def plan(self) -> list[OffsetRange]:
        return planner.plan(self._options, self.brokers, self.committed)

    def tasks(self, ranges: list[OffsetRange]) -> list[tuple[OffsetRange, ...]]:
        return planner.tasks(self._options, ranges)

    def committed(self, wanted: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The group's offsets in ZooKeeper; partitions without an offset are omitted."""
        stored = run_blocking(self._group_offsets().fetch(wanted))
        return {tp: each.offset for tp, each in stored.items() if each.offset >= 0}

    def mirror(self, offsets: Mapping[TopicPartition, int]) -> None:
        run_blocking(self._group_offsets().store(offsets))

    def _group_offsets(self) -> OffsetRegistry:
        assert self._zookeeper is not None and self._options.group_id is not None, "checked with the options"
        return OffsetRegistry(self._zookeeper, self._options.group_id)

    def _registered_brokers(self) -> str:
        assert self._zookeeper is not None and self._options.zookeeper is not None, "checked with the options"
        return registered_brokers(self._zookeeper, self._options.zookeeper, security_of(self._options.kafka).protocol)


def find_brokers(connect_string: str, protocol: str) -> str:
    """The addresses of the brokers registered in a ZooKeeper. Raises OptionError, RegistryError."""
    with KazooBlockingClient(connect_string) as client:
        return registered_brokers(client, connect_string, protocol)


def registered_brokers(client: KazooBlockingClient, connect_string: str, protocol: str) -> str:
    """The addresses of the live brokers' listeners with this security protocol. Raises OptionError if there is none."""
    live = run_blocking(BrokerRegistry(client).live())
    addresses = [address for info, _ in live.values() if (address := info.address(protocol)) is not None]
    if not addresses and not live:
        raise OptionError(f"no broker is registered in the ZooKeeper {connect_string}")
    if not addresses:
        others = sorted({each.protocol for info, _ in live.values() for each in info.endpoints})
        raise OptionError(
            f"the brokers in the ZooKeeper {connect_string} have no listener for {protocol}, only for "
            f"{', '.join(others)}: set security.protocol and its keys (extract: --command-config)"
        )
    return format_bootstrap_servers(addresses)

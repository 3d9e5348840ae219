"""A broker's remote storage: its plugin, threads, metadata and periodic work."""

from collections.abc import Awaitable, Callable

from kafka_zk.base.threads import DaemonThreads
from kafka_zk.broker.config.remote_storage import RemoteStorageConfig
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.process.foundation import Foundation
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.tiered.auxiliary_state_builder import AuxiliaryStateBuilder
from kafka_zk.broker.tiered.metadata_client import MetadataClient, MetadataConnection
from kafka_zk.broker.tiered.metadata_topic import RemoteLogMetadataTopic
from kafka_zk.broker.tiered.remote_log_manager import RemoteLogManager, StoragePlugin
from kafka_zk.broker.tiered.remote_log_metadata_manager import RemoteLogMetadataManager
from kafka_zk.broker.tiered.remote_reads import RemoteReads
from kafka_zk.broker.tiered.storage_calls import StorageCalls
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.storage.tiered.remote_segment_reader import RemoteIndexCache, RemoteSegmentReader
from kafka_zk.storage.tiered.segment_storage import LocalSegmentStorage

_POLL_INTERVAL_MS = 1000
_MOST_TASKS_WAITING = 10_000
"""Of copies and deletions: there is one for each partition."""


class RemoteStorage:
    """``connect``: to a broker. ``reads``: what handlers use. ``state``: what followers use."""

    def __init__(
        self,
        base: Foundation,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        topics: TopicRegistry,
        connect: Callable[[int], Awaitable[MetadataConnection]],
    ) -> None:
        config, clock, random = base.config, base.machine.clock, base.machine.random
        self._base = base
        self._client = MetadataClient(metadata, connect)
        self._metadata = RemoteLogMetadataManager(base.broker_id, clock, self._client)
        storage = LocalSegmentStorage(RemoteStorageConfig.of(config).folder)
        most = config.remote_log_manager_thread_pool_size
        plugin = StoragePlugin(
            storage,
            self._calls("copier", config.remote_log_manager_copier_thread_pool_size, most, _MOST_TASKS_WAITING),
            self._calls("expiration", config.remote_log_manager_expiration_thread_pool_size, most, _MOST_TASKS_WAITING),
        )
        topic = RemoteLogMetadataTopic(config, metadata, topics, random)
        self._manager = RemoteLogManager(clock, replicas, self._metadata, plugin, topic.create, random)
        most_reads = config.remote_log_reader_max_pending_tasks
        reads = self._calls("reader", config.remote_log_reader_threads, most, most_reads)
        self.reads = RemoteReads(self._metadata, RemoteSegmentReader(storage, RemoteIndexCache(storage)), reads)
        self.state = AuxiliaryStateBuilder(self._metadata, storage, reads)

    def _calls(self, name: str, configured: int, default: int, most_waiting: int) -> StorageCalls:
        count = configured if configured > 0 else default
        machine = self._base.machine
        return StorageCalls(machine.clock, DaemonThreads(machine.reactor, name, count), count, most_waiting)

    @property
    def periodic_work(self) -> list[tuple[int, Callable[[], object]]]:
        """The periodic tasks, as (interval in ms, task)."""
        return [
            (self._base.config.remote_log_manager_task_interval_ms, self._manager.run_tasks),
            (_POLL_INTERVAL_MS, self._metadata.poll),
        ]

    def close(self) -> None:
        self._client.close()

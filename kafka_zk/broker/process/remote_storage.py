"""A broker's remote storage: its plugin, threads, metadata and periodic work."""

from collections.abc import Awaitable, Callable

from kafka_zk.base.rate import QuotaWindow
from kafka_zk.broker.config.aiven_storage import ROOT, AivenStorageConfig, FileSystemBackend
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.config.remote_storage import LocalTieredStorageConfig, RemoteStorageConfig
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.process.foundation import Foundation
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.tiered.auxiliary_state_builder import AuxiliaryStateBuilder
from kafka_zk.broker.tiered.deleted_partitions import DeletedPartitions
from kafka_zk.broker.tiered.metadata_client import MetadataClient, MetadataConnection
from kafka_zk.broker.tiered.metadata_topic import RemoteLogMetadataTopic
from kafka_zk.broker.tiered.remote_log_manager import RemoteLogManager, StoragePlugin
from kafka_zk.broker.tiered.remote_log_metadata_manager import RemoteLogMetadataManager
from kafka_zk.broker.tiered.remote_reads import RemoteReads
from kafka_zk.broker.tiered.rlm_quota_manager import RLMQuotaManager
from kafka_zk.broker.tiered.storage_calls import StorageCalls
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.storage.files import files
from kafka_zk.storage.tiered.aiven_layout import AivenLayout
from kafka_zk.storage.tiered.aiven_segment_storage import AivenSegmentStorage
from kafka_zk.storage.tiered.bucket_store import BucketStore, S3Bucket
from kafka_zk.storage.tiered.object_store import FolderStore, ObjectStoreError, WritableStore
from kafka_zk.storage.tiered.remote_segment_reader import RemoteIndexCache, RemoteSegmentReader
from kafka_zk.storage.tiered.segment_encryption import read_key_ring
from kafka_zk.storage.tiered.segment_storage import LocalSegmentStorage, SegmentStorage

_POLL_INTERVAL_MS = 1000
_MOST_TASKS_WAITING = 10_000
"""Maximum number of waiting copies, and of waiting deletions; each partition has at most one."""


class RemoteStorage:
    """``present``: returns the configuration with its dynamic part. ``connect``: connects to a broker.

    Attributes:
        reads: used by handlers.
        state: used by followers.
        deleted: notes the partitions of deleted topics.
        manager, plugin, reader_calls: shown by metrics.
    """

    def __init__(
        self,
        base: Foundation,
        present: Callable[[], KafkaConfig],
        replicas: ReplicaManager,
        metadata: MetadataCache,
        topics: TopicRegistry,
        connect: Callable[[int], Awaitable[MetadataConnection]],
    ) -> None:
        config, clock, random = base.config, base.machine.clock, base.machine.random
        self._base = base
        self._client = MetadataClient(metadata, connect)
        self._metadata = RemoteLogMetadataManager(base.broker_id, clock, self._client)
        storage = _segment_storage(RemoteStorageConfig.of(config), base.broker_id)
        most = config.remote_log_manager_thread_pool_size
        self.plugin = StoragePlugin(
            storage,
            self._calls("copier", config.remote_log_manager_copier_thread_pool_size, most, _MOST_TASKS_WAITING),
            self._calls("expiration", config.remote_log_manager_expiration_thread_pool_size, most, _MOST_TASKS_WAITING),
            self._copy_quota(present),
        )
        topic = RemoteLogMetadataTopic(config, metadata, topics, random)
        self.deleted = DeletedPartitions(base.logs, topics, base.machine.run_in_thread)
        self.manager = RemoteLogManager(
            clock, replicas, self._metadata, self.plugin, topic.create, self.deleted, random
        )
        most_reads = config.remote_log_reader_max_pending_tasks
        self.reader_calls = reads = self._calls("reader", config.remote_log_reader_threads, most, most_reads)
        cache = RemoteIndexCache(storage, lambda: present().remote_log_index_file_cache_total_size_bytes)
        reader, quota = RemoteSegmentReader(storage, cache), self._fetch_quota(present)
        self.reads = RemoteReads(clock, self._metadata, reader, reads, quota)
        self.state = AuxiliaryStateBuilder(self._metadata, storage, reads)

    def _calls(self, name: str, configured: int, default: int, most_waiting: int) -> StorageCalls:
        count = configured if configured > 0 else default
        machine = self._base.machine
        return StorageCalls(machine.clock, machine.daemon_threads(name, count), count, most_waiting)

    def _copy_quota(self, present: Callable[[], KafkaConfig]) -> RLMQuotaManager:
        config = self._base.config
        window = QuotaWindow(
            config.remote_log_manager_copy_quota_window_num,
            config.remote_log_manager_copy_quota_window_size_seconds * 1000,
        )
        clock = self._base.machine.clock
        return RLMQuotaManager(clock, lambda: present().remote_log_manager_copy_max_bytes_per_second, window)

    def _fetch_quota(self, present: Callable[[], KafkaConfig]) -> RLMQuotaManager:
        config = self._base.config
        window = QuotaWindow(
            config.remote_log_manager_fetch_quota_window_num,
            config.remote_log_manager_fetch_quota_window_size_seconds * 1000,
        )
        clock = self._base.machine.clock
        return RLMQuotaManager(clock, lambda: present().remote_log_manager_fetch_max_bytes_per_second, window)

    @property
    def periodic_work(self) -> list[tuple[int, Callable[[], object]]]:
        """The periodic tasks, as (interval in ms, task)."""
        return [
            (self._base.config.remote_log_manager_task_interval_ms, self.manager.run_tasks),
            (_POLL_INTERVAL_MS, self._metadata.poll),
        ]

    def close(self) -> None:
        self._client.close()


def _segment_storage(config: RemoteStorageConfig, broker_id: int) -> SegmentStorage:
    """Raises: ObjectStoreError."""
    match config.storage:
        case LocalTieredStorageConfig(folder):
            return LocalSegmentStorage(folder)
        case AivenStorageConfig(backend, key_prefix, chunks, encryption):
            keys = None if encryption is None else read_key_ring(encryption.key_pairs, encryption.active)
            return AivenSegmentStorage(_store(backend), AivenLayout(key_prefix), chunks, broker_id, keys)


def _store(backend: FileSystemBackend | S3Bucket) -> WritableStore:
    """Raises: ObjectStoreError."""
    if isinstance(backend, S3Bucket):
        return BucketStore.open_s3(backend)
    if not files.is_directory(backend.root):
        raise ObjectStoreError(f"{ROOT}={backend.root}: not a folder; create or mount it")
    return FolderStore(backend.root)

"""Reads the facts that ``tier check`` compares: brokers, ``__remote_log_metadata``, and the bucket."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self
from uuid import UUID

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.terminal.brokers import ANSWER_MS, check_topics
from kafka_zk.cli.terminal.command_config import secured
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.waiting import shortened_list, waiting
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.connection.list_offsets import EARLIEST, EARLIEST_LOCAL
from kafka_zk.clients.connection.metadata import TopicMetadata
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.remote_log_metadata import decode_remote_log_record
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.tiered.layout import id_text
from kafka_zk.storage.tiered.metadata_partition import METADATA_TOPIC, metadata_partition
from kafka_zk.storage.tiered.object_store import NoSuchObject
from kafka_zk.storage.tiered.remote_log_metadata import RemoteLogMetadata
from kafka_zk.storage.tiered.segment_manifest import (
    MAX_MANIFEST_BYTES,
    InvalidManifest,
    SegmentManifest,
    parse_manifest,
)
from kafka_zk.storage.tiered.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from kafka_zk.storage.tiered.storage_address import TieredStorage
from kafka_zk.storage.tiered.tier_check import LogFacts, TierFacts, TopicFacts

_MOST_OBJECTS = 2_000_000
"""Their keys take about 600 MB of memory."""
_CONFIGS_AT_ONCE = 200
_MANIFESTS_AT_ONCE = 8
_ENABLE = "remote.storage.enable"


class TierReader:
    """A context manager. ``wanted``: names of topics, none for all. The metadata are read once, later looks continue.

    Raises: CommandFailed, KafkaError, ObjectStoreError.
    """

    def __init__(self, bootstrap: str, storage: TieredStorage, wanted: Sequence[str]) -> None:
        self._storage = storage
        self._wanted = wanted
        self._where = shortened_list(bootstrap)
        self._metadata = RemoteLogMetadata()
        self._unreadable_count = 0
        self._admin = BlockingAdmin(bootstrap_servers=bootstrap, **secured())
        self._reader = BlockingReader(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **secured())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.close()
        self._admin.close()

    def look(self, older_than_ms: int) -> TierFacts:
        """What brokers change between the requests may look wrong; another look does not repeat that."""
        with waiting(f"the brokers at {self._where}", ANSWER_MS / 1000):
            check_topics(self._admin, self._wanted)
            topics = self._admin.describe_cluster().topics
            only = frozenset(topics[name].topic_id for name in self._wanted) if self._wanted else None
            if METADATA_TOPIC not in topics:
                raise CommandFailed(
                    f"the brokers do not show {METADATA_TOPIC}: tiered storage is off, or you may not describe it"
                )
            self._read_metadata(topics, only)
            tps = [tp for tp in self._metadata.partitions if only is None or tp.topic_id in only]
            named = self._topics(topics, tps)
            logs = self._logs([tp for tp in tps if tp.topic_id in named])
        objects = self._objects(named, only)
        return TierFacts(
            round(time.time() * 1000), older_than_ms, named, logs, self._metadata, self._storage.layout, objects,
            self._manifests(tps, objects), only, self._unreadable_count,
        )  # fmt: skip

    def _read_metadata(self, topics: Mapping[str, TopicMetadata], only: frozenset[UUID] | None) -> None:
        count = len(topics[METADATA_TOPIC].partitions)
        numbers = set(range(count))
        if only is not None:
            numbers = {
                metadata_partition(topic.topic_id, each.partition, count)
                for topic in topics.values()
                if topic.topic_id in only
                for each in topic.partitions
            }
        partitions = [TopicPartition(METADATA_TOPIC, number) for number in sorted(numbers)]
        if not self._reader.assignment():
            self._reader.assign(dict.fromkeys(partitions, "earliest"))
        ends = self._reader.end_offsets(partitions)
        for records in self._reader.batches(until=ends):
            for record in records:
                try:
                    self._metadata.apply(decode_remote_log_record(record.value))
                except ProtocolError:
                    self._unreadable_count += 1

    def _topics(self, topics: Mapping[str, TopicMetadata], tps: Sequence[TopicIdPartition]) -> dict[UUID, TopicFacts]:
        wanted = {tp.topic_id for tp in tps}
        names = sorted(name for name, topic in topics.items() if topic.topic_id in wanted)
        found = {}
        for start in range(0, len(names), _CONFIGS_AT_ONCE):
            for name, entries in self._admin.describe_topic_configs(names[start : start + _CONFIGS_AT_ONCE]).items():
                is_tiered = any(entry.name == _ENABLE and entry.value == "true" for entry in entries)
                found[topics[name].topic_id] = TopicFacts(name, is_tiered)
        return found

    def _logs(self, tps: Sequence[TopicIdPartition]) -> dict[TopicIdPartition, LogFacts | str]:
        plain = {tp: TopicPartition(tp.topic, tp.partition) for tp in tps}
        if not plain:
            return {}
        try:
            starts = self._admin.list_offsets(dict.fromkeys(plain.values(), EARLIEST))
            local_starts = self._admin.list_offsets(dict.fromkeys(plain.values(), EARLIEST_LOCAL))
            epochs = self._admin.leader_epochs({tp: each.offset for tp, each in starts.items()})
        except KafkaError as error:
            return dict.fromkeys(tps, str(error))
        return {
            tp: problem or LogFacts(starts[each].offset, local_starts[each].offset, entries)
            for tp, each in plain.items()
            for entries, problem in [epochs[each]]
        }

    def _objects(self, named: Mapping[UUID, TopicFacts], only: frozenset[UUID] | None) -> dict[str, int]:
        layout, objects = self._storage.layout, {}
        prefixes = [layout.prefix]
        if only is not None:
            prefixes = [f"{layout.prefix}{topic.name}-" for topic in named.values()]
        for prefix in prefixes:
            for key, size_bytes in self._storage.store.list(prefix):
                objects[key] = size_bytes
                if len(objects) > _MOST_OBJECTS:
                    raise CommandFailed(f"more than {_MOST_OBJECTS} objects: check some topics at a time with --topic")
        return objects

    def _manifests(
        self, tps: Sequence[TopicIdPartition], objects: Mapping[str, int]
    ) -> dict[UUID, SegmentManifest | str]:
        segments = [
            (segment, key)
            for tp in tps
            for segment in self._metadata.partitions[tp].segments.values()
            if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
            and (key := self._storage.layout.manifest_key(segment)) in objects
        ]
        with ThreadPoolExecutor(_MANIFESTS_AT_ONCE) as pool:
            found = pool.map(self._manifest, segments)
            return {segment.segment_id.id: each for (segment, _), each in zip(segments, found, strict=True)}

    def _manifest(self, of: tuple[RemoteLogSegmentMetadata, str | None]) -> SegmentManifest | str:
        segment, key = of
        assert key is not None
        try:
            manifest = parse_manifest(self._storage.store.get(key, MAX_MANIFEST_BYTES))
        except (InvalidManifest, CorruptRecord, NoSuchObject) as error:
            return str(error)
        expected = id_text(segment.segment_id.id)
        return manifest if manifest.segment_id == expected else f"it is of segment {manifest.segment_id:.30}"

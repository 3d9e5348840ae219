"""Reads the facts that ``tier check`` compares and repairs: brokers, ``__remote_log_metadata``, and the bucket."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self
from uuid import UUID

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.terminal.brokers import ANSWER_MS, check_topics
from kafka_zk.cli.terminal.command_config import secured
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.nearest import missing
from kafka_zk.cli.terminal.waiting import shortened_list, waiting
from kafka_zk.clients.admin.admin import ConfigEntry
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.errors import BrokerError
from kafka_zk.clients.connection.list_offsets import EARLIEST, EARLIEST_LOCAL, ListedOffset
from kafka_zk.clients.connection.metadata import TopicMetadata
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.remote_log_metadata import decode_remote_log_record
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.tiered.chunk_index import InvalidManifest
from kafka_zk.storage.tiered.metadata_partition import METADATA_TOPIC, metadata_partition
from kafka_zk.storage.tiered.object_store import NoSuchObject, ObjectTooLarge
from kafka_zk.storage.tiered.remote_log_metadata import RemoteLogMetadata, RemoteLogRecord, RemotePartitionLog
from kafka_zk.storage.tiered.segment_manifest import MAX_MANIFEST_BYTES, ManifestSizes, parse_manifest
from kafka_zk.storage.tiered.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from kafka_zk.storage.tiered.storage_address import TieredStorage
from kafka_zk.storage.tiered.tier_check import LogFacts, TierFacts, TopicFacts
from kafka_zk.storage.tiered.tier_repair import LEAST_AGE_MS, RepairStep, StepFacts
from kafka_zk.storage.tiered.uuid_text import id_text

_MOST_OBJECTS = 2_000_000
"""Maximum number of objects in a bucket. Their keys take about 600 MB of memory."""
_CONFIGS_AT_ONCE = 200
_MANIFESTS_AT_ONCE = 8
_ENABLE = "remote.storage.enable"


class TierReader:
    """A context manager. ``wanted``: names of topics; empty for all. Each look reads the metadata on from the last one.

    Raises: CommandFailed, KafkaError, ObjectStoreError.
    """

    def __init__(self, bootstrap: str, storage: TieredStorage, wanted: Sequence[str]) -> None:
        self._storage = storage
        self._wanted = wanted
        self._where = shortened_list(bootstrap)
        self._metadata = RemoteLogMetadata()
        self._metadata_partition_count = 0
        self._newer: list[RemoteLogRecord] = []  # read after the objects of the last look
        self._unreadable: Counter[int] = Counter()
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
        """Read all facts. A change between two requests may look like a problem, but not twice: look again."""
        asked = f"the brokers at {self._where}"
        with waiting(asked, ANSWER_MS / 1000):
            topics = self._cluster_topics()
            only = frozenset(topics[name].topic_id for name in self._wanted) if self._wanted else None
            self._assign(topics, only)
            self.refresh()
            tps = [tp for tp in self._metadata.partitions if only is None or tp.topic_id in only]
            named = self._topics(topics, tps)
            logs = self._logs([tp for tp in tps if tp.topic_id in named])
        objects = self._objects(topics, only)
        with waiting(asked, ANSWER_MS / 1000):
            self._newer = list(self._records())  # brokers write the first record of a segment before its objects
        return TierFacts(
            round(time.time() * 1000), older_than_ms, named, logs, self._metadata, self._storage.layout, objects,
            self._manifests(tps, objects), only, dict(self._unreadable), self._metadata_partition_count,
            [each for each in self._newer if isinstance(each, RemoteLogSegmentMetadata)],
        )  # fmt: skip

    def refresh(self) -> list[RemoteLogRecord]:
        """Read the metadata to its present end; returns the records that are new since the last call or look."""
        news = [*self._newer, *self._records()]
        self._newer = []
        for record in news:
            self._metadata.apply(record)
        return news

    def look_closely(self, step: RepairStep, older_than_ms: int) -> StepFacts:
        """Read the facts that decide on one step, after a ``look``."""
        tp = step.tp
        with waiting(f"the brokers at {self._where}", ANSWER_MS / 1000):
            cluster = self._admin.describe_cluster()
            self.refresh()
            topic = self._topics(cluster.topics, [tp]).get(tp.topic_id)
            log = self._logs([tp])[tp]
        objects = list(self._storage.store.list(step.stem))
        return StepFacts(
            round(time.time() * 1000), max(older_than_ms, LEAST_AGE_MS), _is_tiered_topic(topic, tp),
            log, self._metadata.partitions.get(tp, RemotePartitionLog()),
            bool(self._unreadable) and self.metadata_partition_of(tp) in self._unreadable,
            frozenset(cluster.nodes), objects,
        )  # fmt: skip

    def metadata_partition_of(self, tp: TopicIdPartition) -> int:
        """The partition of ``__remote_log_metadata`` with the records of ``tp``."""
        return metadata_partition(tp.topic_id, tp.partition, self._metadata_partition_count)

    def _cluster_topics(self) -> Mapping[str, TopicMetadata]:
        """Raises CommandFailed if a wanted topic or the metadata topic does not exist."""
        check_topics(self._admin, self._wanted)
        topics = self._admin.describe_cluster().topics
        for name in self._wanted:
            if name not in topics:
                raise CommandFailed(missing("topic", name, topics))
        if METADATA_TOPIC not in topics:
            raise CommandFailed(
                f"the brokers do not show {METADATA_TOPIC}: tiered storage is off, or you may not describe it"
            )
        return topics

    def _assign(self, topics: Mapping[str, TopicMetadata], only: frozenset[UUID] | None) -> None:
        """Assign the partitions of the metadata topic at the first look; later looks keep them."""
        if self._reader.assignment():
            return
        self._metadata_partition_count = count = len(topics[METADATA_TOPIC].partitions)
        numbers = set(range(count))
        if only is not None:
            numbers = {
                metadata_partition(topic.topic_id, each.partition, count)
                for topic in topics.values()
                if topic.topic_id in only
                for each in topic.partitions
            }
        partitions = [TopicPartition(METADATA_TOPIC, number) for number in sorted(numbers)]
        self._reader.assign(dict.fromkeys(partitions, "earliest"))

    def _records(self) -> Iterator[RemoteLogRecord]:
        """The records that were written to the assigned partitions since the last call."""
        ends = self._reader.end_offsets(self._reader.assignment())
        for records in self._reader.batches(until=ends):
            for record in records:
                try:
                    decoded = decode_remote_log_record(record.value)
                except ProtocolError:
                    self._unreadable[record.partition] += 1
                    continue
                yield decoded

    def _topics(self, topics: Mapping[str, TopicMetadata], tps: Sequence[TopicIdPartition]) -> dict[UUID, TopicFacts]:
        wanted = {tp.topic_id for tp in tps}
        names = sorted(name for name, topic in topics.items() if topic.topic_id in wanted)
        found = {}
        for start in range(0, len(names), _CONFIGS_AT_ONCE):
            part = names[start : start + _CONFIGS_AT_ONCE]
            answers = self._admin.try_describe_topic_configs(part)
            for name in part:
                is_tiered = _is_tiered(answers.get(name, "the broker does not say"))
                found[topics[name].topic_id] = TopicFacts(name, is_tiered)
        return found

    def _logs(self, tps: Sequence[TopicIdPartition]) -> dict[TopicIdPartition, LogFacts | str]:
        plain = {tp: TopicPartition(tp.topic, tp.partition) for tp in tps}
        if not plain:
            return {}
        starts = self._admin.try_offsets(dict.fromkeys(plain.values(), EARLIEST))
        local_starts = self._admin.try_offsets(dict.fromkeys(plain.values(), EARLIEST_LOCAL))
        epochs = self._admin.leader_epochs(
            {tp: each.offset for tp, each in starts.items() if isinstance(each, ListedOffset)}
        )
        logs: dict[TopicIdPartition, LogFacts | str] = {}
        for tp, each in plain.items():
            start, local_start = starts[each], local_starts[each]
            if isinstance(start, ListedOffset) and isinstance(local_start, ListedOffset):
                entries, problem = epochs[each]
                logs[tp] = problem or LogFacts(start.offset, local_start.offset, entries)
            else:
                logs[tp] = str(local_start if isinstance(start, ListedOffset) else start)
        return logs

    def _objects(self, topics: Mapping[str, TopicMetadata], only: frozenset[UUID] | None) -> dict[str, int]:
        layout, objects = self._storage.layout, {}
        prefixes = [layout.prefix]
        if only is not None:
            prefixes = [
                layout.topic_prefix(name, each.topic_id) for name, each in topics.items() if each.topic_id in only
            ]
        for prefix in prefixes:
            for each in self._storage.store.list(prefix):
                objects[each.key] = each.size_bytes
                if len(objects) > _MOST_OBJECTS:
                    raise CommandFailed(f"more than {_MOST_OBJECTS} objects: check some topics at a time with --topic")
        return objects

    def _manifests(
        self, tps: Sequence[TopicIdPartition], objects: Mapping[str, int]
    ) -> dict[UUID, ManifestSizes | str]:
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

    def _manifest(self, of: tuple[RemoteLogSegmentMetadata, str | None]) -> ManifestSizes | str:
        segment, key = of
        assert key is not None
        try:
            manifest = parse_manifest(self._storage.store.get(key, MAX_MANIFEST_BYTES)).sizes
        except (InvalidManifest, CorruptRecord, NoSuchObject, ObjectTooLarge) as error:
            return str(error)
        expected = id_text(segment.segment_id.id)
        return manifest if manifest.segment_id == expected else f"it belongs to segment {manifest.segment_id:.30}"


def _is_tiered_topic(topic: TopicFacts | None, tp: TopicIdPartition) -> bool | str:
    """``topic``: the one with the id of ``tp``. With a wrong ``--storage``, a part of ``key.prefix`` seems to belong to
    the topic's name; offsets and metadata of that name are another topic's."""
    if topic is None:
        return "the cluster does not have the topic, or does not show it to you"
    if topic.name != tp.topic:
        return f"the topic with its id is {topic.name}, so --storage may lack a part of key.prefix"
    return topic.is_tiered


def _is_tiered(answer: list[ConfigEntry] | BrokerError | str) -> bool | str:
    if not isinstance(answer, list):
        return str(answer)
    return any(entry.name == _ENABLE and entry.value == "true" for entry in answer)

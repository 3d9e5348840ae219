"""The facts that ``tier check`` reads from brokers and a bucket, which may change or refuse some requests."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.main import run
from kafka_zk.cli.tier.gathering import TierReader
from kafka_zk.clients.admin.admin import ConfigEntry
from kafka_zk.clients.connection.errors import KafkaError, broker_error
from kafka_zk.clients.connection.leader_epochs import LeaderEpochs
from kafka_zk.clients.connection.list_offsets import EARLIEST, ListedOffset
from kafka_zk.clients.connection.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.tiered.aiven_layout import AivenLayout
from kafka_zk.storage.tiered.layout import Layout
from kafka_zk.storage.tiered.local_tiered_storage import LocalTieredStorageLayout
from kafka_zk.storage.tiered.metadata_partition import METADATA_TOPIC, metadata_partition
from kafka_zk.storage.tiered.object_store import FolderStore, StoredObject
from kafka_zk.storage.tiered.remote_log_metadata import RemoteLogRecord
from kafka_zk.storage.tiered.segment_manifest import MAX_MANIFEST_BYTES
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from kafka_zk.storage.tiered.storage_address import TieredStorage
from kafka_zk.storage.tiered.tier_check import Kind, LogFacts, TierFacts, examine
from tests.storage.tiered.segments import FINISHED, T, segment, update

T1 = T._replace(partition=1)
OTHER = TopicIdPartition(UUID(int=0xDEF), "other", 0)
FIRST = segment(1, 0, 9)
SECOND = segment(2, 0, 9, tp=T1)
FOREIGN = segment(3, 0, 9, tp=OTHER)


def finished(*segments: RemoteLogSegmentMetadata) -> list[RemoteLogRecord]:
    return [record for each in segments for record in (each, update(each, FINISHED))]


class Cluster:
    """Stands for BlockingAdmin and BlockingReader: topics ``t`` with two partitions, and ``other`` with one.

    Each reading of the metadata returns the next of ``records``. ``refused``: topics whose configuration may not be
    read. ``leaderless``: partitions without a leader.
    """

    def __init__(self, *records: Sequence[Any]) -> None:
        self.records = list(records)
        self.refused: set[str] = set()
        self.leaderless: set[TopicPartition] = set()
        self.names = ["t", "other", METADATA_TOPIC]
        self._assigned: list[TopicPartition] = []

    def close(self) -> None: ...

    def list_topics(self) -> list[str]:
        return self.names

    def describe_cluster(self) -> ClusterMetadata:
        ids = {"t": (T.topic_id, 2), "other": (OTHER.topic_id, 1), METADATA_TOPIC: (UUID(int=9), 50)}
        topics = {}
        for name in self.names:
            topic_id, count = ids[name]
            partitions = tuple(PartitionMetadata(number, 1, 0, (1,), (1,), (), 0) for number in range(count))
            topics[name] = TopicMetadata(name, topic_id, False, 0, partitions, tuple(range(count)))
        return ClusterMetadata("c", 1, {}, topics)

    def try_describe_topic_configs(self, names: Sequence[str]) -> dict[str, list[ConfigEntry] | KafkaError]:
        entry = ConfigEntry("remote.storage.enable", "true", "DYNAMIC_TOPIC_CONFIG", False, False, False)
        error = broker_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "configuration")
        return {name: error if name in self.refused else [entry] for name in names}

    def try_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset | KafkaError]:
        error = broker_error(ErrorCode.LEADER_NOT_AVAILABLE, "offsets")
        return {
            tp: error if tp in self.leaderless else ListedOffset(0 if spec == EARLIEST else 10, -1, 0)
            for tp, spec in wanted.items()
        }

    def leader_epochs(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, LeaderEpochs]:
        return dict.fromkeys(wanted, LeaderEpochs(((0, 0),)))

    def assign(self, starts: Mapping[TopicPartition, str]) -> None:
        self._assigned = list(starts)

    def assignment(self) -> list[TopicPartition]:
        return self._assigned

    def end_offsets(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, 1)

    def batches(self, until: Mapping[TopicPartition, int]) -> Iterator[list[ConsumerRecord]]:
        assert set(until) == set(self._assigned)
        if self.records:
            yield [ConsumerRecord(METADATA_TOPIC, 7, 0, 0, None, each, (), 0, False) for each in self.records.pop(0)]


class Store(FolderStore):
    """A store that records the prefixes that are listed."""

    def __init__(self, root: Path, layout: Layout, *segments: RemoteLogSegmentMetadata) -> None:
        super().__init__(str(root))
        self.listed: list[str] = []
        for of in segments:
            for each in layout.objects(of, None):
                path = root / each.key
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(bytes(each.size_bytes or 1))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        self.listed.append(prefix)
        return super().list(prefix)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns ``count`` looks at a cluster and a store."""

    def command(cluster: Cluster, store: Store, layout: Layout, *wanted: str, count: int = 1) -> list[TierFacts]:
        join(monkeypatch, cluster)
        with TierReader("b1:9092", TieredStorage(store, layout), wanted) as reader:
            return [reader.look(0) for _ in range(count)]

    return command


def join(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    monkeypatch.setattr("kafka_zk.cli.tier.gathering.BlockingAdmin", lambda **_: cluster)
    monkeypatch.setattr("kafka_zk.cli.tier.gathering.BlockingReader", lambda **_: cluster)


LOCAL = LocalTieredStorageLayout()


def test_segment_that_appears_in_the_bucket_first_is_no_orphan(looks: Any, tmp_path: Path) -> None:
    """The segment's copy began after the metadata were read, and before the objects were listed. The next look examines
    it.
    """
    cluster = Cluster(finished(FIRST), finished(SECOND))
    first, second = looks(cluster, Store(tmp_path, LOCAL, FIRST, SECOND), LOCAL, count=2)
    assert list(first.begun_since) == [SECOND]
    assert list(second.metadata.partitions) == [T, T1] and second.begun_since == []


def test_object_that_is_listed_before_its_copy_is_finished_is_not_missing(looks: Any, tmp_path: Path) -> None:
    """Metadata that are newer than the objects may only explain orphans."""
    cluster = Cluster([], finished(FIRST))
    [facts] = looks(cluster, Store(tmp_path, LOCAL), LOCAL)
    assert examine(facts).findings == []


def test_records_that_are_not_understood_are_counted_by_partition(looks: Any, tmp_path: Path) -> None:
    [facts] = looks(Cluster([b"x", *finished(FIRST)], [b"\x01\x63\x00"]), Store(tmp_path, LOCAL, FIRST), LOCAL)
    assert (facts.unreadable, facts.metadata_partition_count) == ({7: 2}, 50)


def test_partition_without_leader_spoils_no_other(looks: Any, tmp_path: Path) -> None:
    cluster = Cluster(finished(FIRST, SECOND))
    cluster.leaderless.add(TopicPartition("t", 1))
    [facts] = looks(cluster, Store(tmp_path, LOCAL, FIRST, SECOND), LOCAL)
    assert facts.logs == {T: LogFacts(0, 10, ((0, 0),)), T1: "offsets: LEADER_NOT_AVAILABLE"}


def test_topic_whose_configuration_is_refused_spoils_no_other(looks: Any, tmp_path: Path) -> None:
    cluster = Cluster(finished(FIRST, FOREIGN))
    cluster.refused.add("other")
    [facts] = looks(cluster, Store(tmp_path, LOCAL), LOCAL)
    assert facts.topics[T.topic_id].is_tiered is True
    assert facts.topics[OTHER.topic_id].is_tiered == "configuration: TOPIC_AUTHORIZATION_FAILED"


def test_what_is_refused_is_not_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2, and both reasons are reported."""
    cluster = Cluster(finished(FIRST, SECOND, FOREIGN))
    cluster.leaderless.add(TopicPartition("t", 1))
    cluster.refused.add("other")
    Store(tmp_path, LOCAL, FIRST, SECOND, FOREIGN)
    join(monkeypatch, cluster)
    code = run(["tier", "check", "--storage", str(tmp_path)])
    shown = capsys.readouterr().out.splitlines()
    assert code == 2
    assert shown[:2] == [
        "not checked: gaps of t-1: offsets: LEADER_NOT_AVAILABLE",
        "not checked: whether other is tiered: configuration: TOPIC_AUTHORIZATION_FAILED",
    ]


def test_manifest_that_is_too_large_is_a_finding_of_its_segment(looks: Any, tmp_path: Path) -> None:
    layout = AivenLayout("")
    store = Store(tmp_path, layout, FIRST)
    key = layout.manifest_key(FIRST)
    assert key is not None
    with (tmp_path / key).open("wb") as file:
        file.truncate(MAX_MANIFEST_BYTES + 1)
    [found] = examine(looks(Cluster(finished(FIRST)), store, layout)[0]).findings
    assert (found.kind, found.keys) == (Kind.SIZE, (key,))
    assert found.said.endswith(f"has more than {MAX_MANIFEST_BYTES} bytes")


@pytest.mark.parametrize("layout", [LOCAL, AivenLayout("")])
def test_topic_without_metadata_has_orphans(looks: Any, tmp_path: Path, layout: Layout) -> None:
    """The topic's metadata records were lost, but the cluster still has the topic."""
    [facts] = looks(Cluster(), Store(tmp_path, layout, FIRST, FOREIGN), layout, "t")
    assert [(each.kind, each.topic) for each in examine(facts).findings] == [(Kind.ORPHAN, "t")]


def test_only_the_part_of_the_wanted_topics_is_read(looks: Any, tmp_path: Path) -> None:
    """Other topics are read neither from the bucket nor from the metadata."""
    layout = AivenLayout("p-")
    store = Store(tmp_path, layout, FIRST, FOREIGN)
    cluster = Cluster(finished(FIRST, FOREIGN))
    [facts] = looks(cluster, store, layout, "t")
    assert store.listed == ["p-t-AAAAAAAAAAAAAAAAAAAKvA/"]
    assert len(facts.objects) == 3
    numbers = sorted(metadata_partition(T.topic_id, partition, 50) for partition in (0, 1))
    assert cluster.assignment() == [TopicPartition(METADATA_TOPIC, number) for number in numbers]


def test_topic_that_is_deleted_between_two_requests_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster()
    monkeypatch.setattr(cluster, "list_topics", lambda: ["t"])
    cluster.names = [METADATA_TOPIC]
    join(monkeypatch, cluster)
    assert run(["tier", "check", "--storage", str(tmp_path), "--topic", "t"]) == 1
    shown = capsys.readouterr().err
    assert "topic t" in shown and "Traceback" not in shown


def test_partitions_that_are_added_between_two_looks_are_not_waited_for(looks: Any, tmp_path: Path) -> None:
    """The metadata of the new partitions may be in a metadata partition that is not read."""
    cluster = Cluster(finished(FIRST))
    described = cluster.describe_cluster()
    small = described.topics["t"]._replace(partitions=described.topics["t"].partitions[:1])
    answers = [replace(described, topics={**described.topics, "t": small}), described]
    cluster.describe_cluster = lambda: answers.pop(0)  # type: ignore[method-assign]
    _, second = looks(cluster, Store(tmp_path, LOCAL, FIRST), LOCAL, "t", count=2)
    assert examine(second).findings == []

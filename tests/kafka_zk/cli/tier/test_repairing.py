"""``tier check --repair``: the plan, its execution, and what fails, without brokers."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.main import run
from kafka_zk.clients.connection.errors import KafkaTimeoutError
from kafka_zk.clients.connection.list_offsets import ListedOffset
from kafka_zk.clients.connection.metadata import ClusterMetadata, Node
from kafka_zk.protocol.remote_log_metadata import decode_remote_log_record
from kafka_zk.storage.tiered.aiven_layout import AivenLayout
from kafka_zk.storage.tiered.metadata_partition import METADATA_TOPIC, metadata_partition
from kafka_zk.storage.tiered.object_store import FolderStore, ObjectStoreError
from kafka_zk.storage.tiered.remote_log_metadata import RemoteLogRecord
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate
from kafka_zk.storage.tiered.uuid_text import id_text
from tests.kafka_zk.cli.tier.test_gathering import FIRST, LOCAL, Cluster, Store, finished, join
from tests.storage.tiered.segments import DELETED, DELETING, FINISHED, T, segment, update

GONE_BROKER, LIVE_BROKER = 7, 1
ORPHAN = segment(5, 0, 9)
COPY = replace(segment(6, 10, 19), broker_id=GONE_BROKER)
DELETION = segment(7, 0, 4)


class Producer:
    """Stands for BlockingProducer: what it sends can be read at once. ``before_write``: records of other clients that
    come first.
    """

    def __init__(self, cluster: "LiveCluster") -> None:
        self.sent: list[RemoteLogSegmentMetadataUpdate] = []
        self.before_write: list[RemoteLogRecord] = []
        self.is_lost = False
        self._cluster = cluster

    def __call__(self, **_: object) -> "Producer":
        return self

    def close(self) -> None: ...

    def result(self) -> None: ...

    def send(self, topic: str, value: bytes, partition: int) -> "Producer":
        assert (topic, partition) == (METADATA_TOPIC, metadata_partition(T.topic_id, 0, 50))
        record = decode_remote_log_record(value)
        assert isinstance(record, RemoteLogSegmentMetadataUpdate)
        self.sent.append(record)
        written = [*self.before_write, *([] if self.is_lost else [record])]
        self._cluster.records.append(written)
        self.before_write = []
        return self

    @property
    def states(self) -> list[tuple[int, object]]:
        return [(each.segment_id.id.int, each.state) for each in self.sent]


class LiveCluster(Cluster):
    """A cluster of broker 1."""

    def describe_cluster(self) -> ClusterMetadata:
        return replace(super().describe_cluster(), nodes={LIVE_BROKER: Node(LIVE_BROKER, "b1", 9092)})


class PrefixedCluster(LiveCluster):
    """A cluster that also has the topic ``dr-t``, whose records are all local."""

    def describe_cluster(self) -> ClusterMetadata:
        found = super().describe_cluster()
        other = found.topics["other"]._replace(name="dr-t", topic_id=UUID(int=0xD))
        return replace(found, topics={**found.topics, "dr-t": other})

    def try_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, Any]:
        local = {tp: ListedOffset(0, -1, 0) for tp in wanted if tp.topic == "dr-t"}
        return {**super().try_offsets(wanted), **local}


class Tier:
    """A finished segment of offsets 0 to 9, which are only remote, an orphan, and a copy and a deletion without end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        Store(folder, LOCAL, FIRST, ORPHAN, COPY, DELETION)
        for path in folder.rglob("*"):
            os.utime(path, (0, 0))
        begun = [COPY, *finished(DELETION), update(DELETION, DELETING)]
        self.records = [*begun, *finished(FIRST)]
        self.cluster = LiveCluster(self.records)
        self.producer = Producer(self.cluster)

    def has(self, of: RemoteLogSegmentMetadata) -> bool:
        found = {(self.folder / each.key).exists() for each in LOCAL.objects(of, None)}
        assert len(found) == 1
        return found.pop()

    @property
    def left(self) -> list[RemoteLogSegmentMetadata]:
        return [each for each in (FIRST, ORPHAN, COPY, DELETION) if self.has(each)]


@pytest.fixture
def tier(tmp_path: Path) -> Tier:
    return Tier(tmp_path)


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run the command; returns its exit code and output."""

    def command(tier: Tier, *options: str) -> tuple[int, str]:
        join(monkeypatch, tier.cluster)
        monkeypatch.setattr("kafka_zk.cli.tier.repairing.BlockingProducer", tier.producer)
        code = run(["tier", "check", "--storage", str(tier.folder), *options])
        shown = capsys.readouterr()
        assert code in (0, 1, 2), shown.err
        return code, shown.out

    return command


ALL = [FIRST, ORPHAN, COPY, DELETION]


def test_the_plan_changes_nothing(tier: Tier, check: Any) -> None:
    code, shown = check(tier, "--repair")
    assert code == 1
    lines = [line.split()[:2] for line in shown.splitlines()]
    assert lines.count(["delete", "orphans"]) == lines.count(["delete", "unfinished"]) == 1
    assert lines.count(["end", "deletion"]) == 1
    assert "plan: 3 steps, 315 bytes; 0 not repaired" in shown
    assert tier.left == ALL and not tier.producer.sent


def test_the_plan_is_carried_out_and_nothing_is_wrong_any_more(tier: Tier, check: Any) -> None:
    """Segments that the metadata know are deleted as brokers delete them; the record of a deletion that was begun is
    not written again.
    """
    code, shown = check(tier, "--repair", "--execute")
    assert code == 0, shown
    assert shown.count(": done") == 3
    assert tier.left == [FIRST]
    assert sorted(tier.producer.states) == [(6, DELETING), (6, DELETED), (7, DELETED)]
    tier.cluster.records = [[*tier.records, *tier.producer.sent]]
    tier.cluster.assign({})
    assert check(tier)[0] == 0


def test_a_part_of_the_prefix_is_not_taken_for_the_name_of_another_topic(
    tier: Tier, tmp_path: Path, check: Any
) -> None:
    """The brokers' ``key.prefix`` is ``dr-``, but the address is that of the whole folder. The objects of ``t`` then
    seem to be orphans of ``dr-t``, which has no gap.
    """
    tier.folder, tier.cluster = tmp_path / "aiven", PrefixedCluster(finished(FIRST))
    layout = AivenLayout("dr-")
    Store(tier.folder, layout, FIRST)
    for path in tier.folder.rglob("*"):
        os.utime(path, (0, 0))
    code, shown = check(tier, "--repair", "--execute")
    assert code == 1
    assert "the topic with its id is t, so --storage may lack a part of key.prefix" in shown
    assert all((tier.folder / each.key).exists() for each in layout.objects(FIRST, None))


def test_json_has_the_plan_and_the_results(tier: Tier, check: Any) -> None:
    planned = json.loads(check(tier, "--repair", "--json")[1])["repair"]
    assert planned["isExecuted"] is False and planned["notRepaired"] == []
    assert {each["action"] for each in planned["steps"]} == {"DELETE_ORPHAN", "DELETE_COPY", "END_DELETION"}
    assert all(each["topicId"] == id_text(T.topic_id) and len(each["keys"]) == 6 for each in planned["steps"])
    assert not any("isDone" in each for each in planned["steps"])


def test_json_names_what_was_done(tier: Tier, check: Any) -> None:
    code, shown = check(tier, "--repair", "--execute", "--json")
    done = json.loads(shown)["repair"]
    assert code == 0 and done["isExecuted"] is True
    assert [(each["isDone"], each["problem"]) for each in done["steps"]] == 3 * [(True, None)]


def test_what_is_young_is_not_planned(tier: Tier, check: Any) -> None:
    """The age of an orphan is that of its objects. ``--older-than`` cannot lower the least age."""
    path = tier.folder / LOCAL.objects(ORPHAN, None)[0].key
    os.utime(path)
    code, shown = check(tier, "--repair", "--execute", "--older-than", "PT0S")
    assert code == 1
    assert "not repaired: orphan t-0 segment" in shown and "less than 120 minutes ago" in shown
    assert tier.left == [FIRST, ORPHAN]


def test_a_copy_of_a_live_broker_is_kept(tmp_path: Path, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.COPY", replace(COPY, broker_id=LIVE_BROKER))
    tier = Tier(tmp_path)
    code, shown = check(tier, "--repair", "--execute")
    assert code == 1
    assert f"broker {LIVE_BROKER}, which began the copy, is alive" in shown
    assert tier.left == [FIRST, COPY]


def test_a_copy_that_is_finished_while_it_is_deleted_keeps_its_objects(tier: Tier, check: Any) -> None:
    """Its broker was only disconnected from ZooKeeper, and is back."""
    tier.producer.before_write = [update(COPY, FINISHED)]
    code, shown = check(tier, "--repair", "--execute")
    assert code == 1
    assert "FAILED: its copy was finished at this moment; the objects are kept" in shown
    assert tier.left == [FIRST, COPY]


def test_a_record_that_cannot_be_read_back_deletes_no_object(tier: Tier, check: Any) -> None:
    tier.producer.is_lost = True
    code, shown = check(tier, "--repair", "--execute")
    assert code == 1
    assert "its record DELETE_SEGMENT_STARTED cannot be read back" in shown
    assert tier.left == [FIRST, COPY]


def test_what_changes_between_the_plan_and_the_step_is_kept(
    tier: Tier, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each step, the facts are read again: here, the objects were replaced."""
    looks: list[str] = []
    listed = FolderStore.list

    def replaced(self: FolderStore, prefix: str) -> Iterable[Any]:
        looks.append(prefix)
        for each in listed(self, prefix):
            yield each._replace(size_bytes=0) if looks.count(prefix) == 2 and "." in prefix else each

    monkeypatch.setattr(FolderStore, "list", replaced)
    code, shown = check(tier, "--repair", "--execute")
    assert code == 1
    assert shown.count("FAILED: the objects have changed since the check") == 3
    assert tier.left == ALL and not tier.producer.sent


def test_a_failed_step_is_named_and_the_others_are_done(
    tier: Tier, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = FolderStore.delete

    def refuse(self: FolderStore, key: str) -> None:
        if id_text(ORPHAN.segment_id.id) in key:
            raise ObjectStoreError(f"{key}: the server refused")
        delete(self, key)

    monkeypatch.setattr(FolderStore, "delete", refuse)
    code, shown = check(tier, "--repair", "--execute")
    assert code == 1
    assert shown.count(": done") == 2 and shown.count("FAILED") == 1 and "the server refused" in shown
    assert tier.left == [FIRST, ORPHAN]


def test_after_three_failures_the_rest_is_not_tried(
    tmp_path: Path, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request to a store that is unavailable may take 90 s."""
    orphans = [segment(number, 0, 9) for number in range(50, 54)]
    Store(tmp_path, LOCAL, *orphans)
    tier = Tier(tmp_path)
    tried: list[str] = []

    def fail(self: FolderStore, key: str) -> None:
        tried.append(key)
        raise ObjectStoreError(f"{key}: away")

    monkeypatch.setattr(FolderStore, "delete", fail)
    code, shown = check(tier, "--repair", "--execute")
    assert code == 1 and len(tried) == 3
    assert shown.count("not tried, because 3 steps before it failed") == 4


def test_metadata_that_cannot_be_written_fail_the_step(tier: Tier, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise KafkaTimeoutError("no answer")

    monkeypatch.setattr(tier.producer, "result", fail)
    code, shown = check(tier, "--repair", "--execute")
    assert code == 1 and "FAILED: no answer" in shown
    assert COPY in tier.left and ORPHAN not in tier.left


def test_execute_needs_repair(tier: Tier, check: Any) -> None:
    assert check(tier, "--execute")[0] == 2
    assert tier.left == ALL

"""The judges of tiers find planted violations, and accept what is allowed."""

from dataclasses import replace
from pathlib import Path

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.sim.machine import object_store
from kafka_zk.storage.tiered.local_tiered_storage import LocalTieredStorageLayout
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentState
from tests.sim.tiers import tier_judges
from tests.storage.tiered.segments import segment

TP = TopicPartition("kept", 0)
FINISHED = replace(segment(1, 42, 51), state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
DELETING = replace(FINISHED, state=RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
ID = FINISHED.segment_id.id
TOPIC_ID = FINISHED.segment_id.tp.topic_id
PATH = f"{object_store.BUCKET}/{LocalTieredStorageLayout().stem(FINISHED)}.log"


def test_readers_get_each_offset_once_and_in_order() -> None:
    assert not tier_judges.consecutive(0, TP, 3, [3, 4, 5])
    assert not tier_judges.consecutive(0, TP, 3, [])
    for offsets in ([4, 5], [3, 3], [3, 5], [3, 4, 3]):
        assert len(tier_judges.consecutive(0, TP, 3, offsets)) == 1


def test_objects_of_readable_segments_are_not_removed() -> None:
    assert tier_judges.removed(0, PATH, [{ID: FINISHED}, {}])
    assert not tier_judges.removed(0, PATH, [{ID: FINISHED}, {ID: DELETING}])
    assert not tier_judges.removed(0, PATH, [{}, {}])


def test_finished_segments_are_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tier_judges, "BUCKET", str(tmp_path))
    assert len(tier_judges.complete(0, [FINISHED], set())) == 5
    for each in LocalTieredStorageLayout().objects(FINISHED, None):
        path = tmp_path / each.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert not tier_judges.complete(0, [FINISHED], set())
    path.parent.rename(tmp_path / "elsewhere")
    removed = {f"{tmp_path}/{each.key}" for each in LocalTieredStorageLayout().objects(FINISHED, None)}
    assert not tier_judges.complete(0, [FINISHED], removed)


def test_retention_keeps_what_it_must() -> None:
    assert not tier_judges.log_start(0, TP, 0, 10, None)
    assert tier_judges.log_start(0, TP, 1, 10, None)
    assert not tier_judges.log_start(0, TP, 100, 200, 6_000)
    assert tier_judges.log_start(0, TP, 195, 196, 10_000)


def test_nothing_is_left_in_the_bucket() -> None:
    assert not tier_judges.orphans({ID: FINISHED}, [PATH], {TOPIC_ID})
    assert tier_judges.orphans({}, [PATH], {TOPIC_ID}) == [f"{PATH} is an orphan"]
    (fault,) = tier_judges.orphans({ID: DELETING}, [PATH], {TOPIC_ID})
    assert "stays in DELETE_SEGMENT_STARTED" in fault
    assert tier_judges.orphans({ID: FINISHED}, [PATH], set()) == [f"{PATH} stays, and its topic is deleted"]


def test_a_topic_without_retention_keeps_its_objects_until_it_is_deleted() -> None:
    assert tier_judges.finished({ID: FINISHED}) == {ID}
    assert not tier_judges.finished({ID: DELETING})
    assert tier_judges.kept(0, PATH, {ID}, {TOPIC_ID})
    assert not tier_judges.kept(0, PATH, {ID}, set())
    assert not tier_judges.kept(0, PATH, set(), {TOPIC_ID})

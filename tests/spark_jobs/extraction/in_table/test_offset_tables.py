"""What a commit that moves a table's offsets expects of the table, without Spark."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.errors import ForeignCommit
from kafka_zk.spark_jobs.extraction.in_table.offset_tables import Moves
from kafka_zk.spark_jobs.extraction.in_table.table_offsets import application

FIRST, SECOND = TopicPartition("flights", 0), TopicPartition("flights", 1)
JAVAAPI = SimpleNamespace(CollectionConverters=SimpleNamespace(asJava=lambda versions: versions))
SPARK = SimpleNamespace(_jvm=SimpleNamespace(scala=SimpleNamespace(jdk=SimpleNamespace(javaapi=JAVAAPI))))


class Change:
    """A Delta transaction on a table with these offsets. ``read``: the applications whose concurrent changes are
    conflicts.
    """

    def __init__(self, offsets: dict[TopicPartition, int]) -> None:
        self._versions = {application("lake", tp, {}): offset for tp, offset in offsets.items()}
        self.read: set[str] = set()

    def txnVersion(self, name: str) -> int:
        self.read.add(name)
        return self._versions.get(name, -1)

    def metadata(self) -> Any:
        return SimpleNamespace(json=lambda: json.dumps({"metaData": {}}))

    def snapshot(self) -> Any:
        return SimpleNamespace(transactions=lambda: self._versions)


def moves(ends: dict[TopicPartition, int]) -> Moves:
    return Moves(SPARK, "lake", {}, {FIRST: 7, SECOND: 3}, ends)


def test_a_commit_conflicts_with_one_that_moves_any_offset_of_its_plan() -> None:
    """The other run has removed the staged files of this one, even if it moved other partitions."""
    change = Change({FIRST: 7, SECOND: 3})
    moves({FIRST: 9}).check(change)
    assert change.read == {application("lake", tp, {}) for tp in (FIRST, SECOND)}
    with pytest.raises(ForeignCommit, match="offset of flights-1 to 5"):
        moves({FIRST: 9}).check(Change({FIRST: 7, SECOND: 5}))


@pytest.mark.parametrize(
    ("found", "may_be_committed"),
    [({FIRST: 7, SECOND: 3}, False), ({FIRST: 9, SECOND: 3}, True), ({FIRST: 12, SECOND: 3}, True)],
    ids=["before", "at the end", "beyond it"],
)
def test_files_of_a_failed_commit_stay_once_its_offsets_have_moved(
    found: dict[TopicPartition, int], may_be_committed: bool
) -> None:
    """The commit may have failed after it was written, and a later run may have added more since."""
    assert moves({FIRST: 9}).are_committed(Change(found)) is may_be_committed


def test_a_commit_that_sets_an_offset_back_is_not_taken_as_committed() -> None:
    """This state arises with --no-fail-on-data-loss, after a topic was recreated on brokers without topic ids."""
    assert not moves({FIRST: 2}).are_committed(Change({FIRST: 7, SECOND: 3}))

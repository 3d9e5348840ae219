"""Which application versions of a Delta table are a group's offsets."""

from __future__ import annotations

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.errors import ExtractionFailed, ForeignCommit
from kafka_zk.spark_jobs.extraction.in_table.table_offsets import (
    NO_OFFSET,
    TableOffsets,
    application,
    check_no_other_offsets,
    check_unmoved,
    table_offsets,
)
from kafka_zk.spark_jobs.extraction.manifest import APPLICATION_PREFIX

FIRST, SECOND = TopicPartition("flights", 0), TopicPartition("flights", 1)


def test_offsets_are_read_as_they_are_written() -> None:
    versions = {application("lake", FIRST, {"flights": "1f"}): 7, application("lake", SECOND, {"flights": "1f"}): 0}
    found = table_offsets(versions, "lake", [FIRST, SECOND], {"flights": "1f"})
    assert (found.offsets, found.outdated) == ({FIRST: 7, SECOND: 0}, {})


def test_other_applications_groups_and_partitions_do_not_count() -> None:
    versions = {
        "stream-7": 3,
        "kafka-zk-9f3c": 4,
        application("lake.backfill", FIRST, {}): 5,
        application("la", FIRST, {}): 5,
        application("lake", SECOND, {}): 6,
    }
    assert table_offsets(versions, "lake", [FIRST], {}).offsets == {FIRST: NO_OFFSET}


def test_offsets_of_an_earlier_topic_of_the_name_are_outdated() -> None:
    versions = {application("lake", FIRST, {"flights": "1f"}): 7}
    found = table_offsets(versions, "lake", [FIRST], {"flights": "2e"})
    assert (found.offsets, found.outdated) == ({FIRST: NO_OFFSET}, {FIRST: 7})


def test_the_offsets_of_the_topic_that_is_there_count_beside_outdated_ones() -> None:
    versions = {
        application("lake", FIRST, {"flights": "1f"}): 7,
        application("lake", FIRST, {"flights": "2e"}): 2,
    }
    found = table_offsets(versions, "lake", [FIRST], {"flights": "2e"})
    assert (found.offsets, found.outdated) == ({FIRST: 2}, {})


def test_offsets_from_before_the_cluster_had_topic_ids_stay() -> None:
    versions = {application("lake", FIRST, {}): 7}
    assert table_offsets(versions, "lake", [FIRST], {"flights": "1f"}).offsets == {FIRST: 7}
    versions[application("lake", FIRST, {"flights": "1f"})] = 9
    assert table_offsets(versions, "lake", [FIRST], {"flights": "1f"}).offsets == {FIRST: 9}


def test_a_table_of_extractions_with_zookeeper_is_refused_at_the_first_run_only() -> None:
    """The table may contain the topic's records already."""
    versions = {f"{APPLICATION_PREFIX}9f3c": 4}
    none = {FIRST: NO_OFFSET, SECOND: NO_OFFSET}
    with pytest.raises(ExtractionFailed, match="has records of extractions with --zookeeper"):
        check_no_other_offsets(versions, TableOffsets(none, {}), "lake")
    check_no_other_offsets(versions, TableOffsets({**none, FIRST: 7}, {}), "lake")
    check_no_other_offsets(versions, TableOffsets(none, {FIRST: 7}), "lake")
    check_no_other_offsets({"stream-7": 3, application("other", FIRST, {}): 4}, TableOffsets(none, {}), "lake")


def test_an_offset_that_another_commit_has_moved_is_refused() -> None:
    check_unmoved({FIRST: 7, SECOND: NO_OFFSET}, {FIRST: 7, SECOND: NO_OFFSET}, "lake")
    with pytest.raises(ForeignCommit, match="group lake has moved the table's offset of flights-1 to 4"):
        check_unmoved({FIRST: 7, SECOND: NO_OFFSET}, {FIRST: 7, SECOND: 4}, "lake")

"""The descriptions of range folders, and the faults found by comparing them."""

import json

import pytest

from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction import inventory as inventories
from kafka_zk.spark_jobs.extraction.inventory import Inventory, is_data
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange


def folder(*ranges: tuple[int, int], replaces: tuple[str, ...] = ()) -> Inventory:
    """A folder with the range of partition 0 in the first pair, and that of partition 1 in the second."""
    pieces = tuple(OffsetRange("t", number, start, end) for number, (start, end) in enumerate(ranges))
    return Inventory("g", pieces, 5, "parquet", {"a=1/part-0": 7}, replaces, 3)


def test_round_trip() -> None:
    written = folder((0, 3), (4, 2**62), replaces=("x",))
    assert inventories.decode("w", json.dumps(written.as_document()).encode()) == written


def test_older_descriptions_name_no_version_of_the_schema() -> None:
    document = folder((0, 3)).as_document()
    assert document.pop("schemaVersion") == 3
    assert inventories.decode("w", json.dumps(document).encode()).schema_version == 0


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"group":"g","ranges":[["t"]]}'])
def test_what_is_none_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(ExtractionFailed, match="/p does not describe a range folder"):
        inventories.decode("/p", data)


def test_hidden_files_hold_no_records() -> None:
    assert is_data("part-0.parquet") and is_data("a=_/part-0")
    assert not is_data("_SUCCESS") and not is_data("a=1/.part-0.crc")


def test_every_offset_once_is_no_fault() -> None:
    assert inventories.faults({"a": folder((5, 9), (0, 4)), "b": folder((9, 12)), "c": folder((12, 13), (4, 5))}) == []


@pytest.mark.parametrize(
    ("start", "end", "overlap"),
    [
        (5, 12, None),  # the folder x, which had these offsets, is replaced
        (1, 4, (OffsetRange("t", 0, 2, 4), "a")),
        (13, 20, (OffsetRange("t", 0, 14, 15), "b")),
    ],
)
def test_a_range_overlaps_a_folder_that_no_other_replaces(
    start: int, end: int, overlap: tuple[OffsetRange, str] | None
) -> None:
    found = {"a": folder((2, 5), replaces=("x",)), "x": folder((2, 12)), "b": folder((14, 15), (0, 99))}
    assert inventories.first_overlap(found, [OffsetRange("t", 0, start, end), OffsetRange("u", 1, 0, 9)]) == overlap


def test_gaps_and_overlaps_are_named() -> None:
    told = inventories.faults({"a": folder((0, 9)), "b": folder((3, 5)), "c": folder((8, 12)), "d": folder((14, 15))})
    assert told == [
        "offsets 3 to 4 of t-0 are in a and in b",
        "offsets 8 to 8 of t-0 are in a and in c",
        "offsets 12 to 13 of t-0 are in no folder",
    ]


def test_a_folder_that_is_replaced_does_not_count() -> None:
    found = {"a": folder((0, 3)), "b": folder((3, 5)), "ab": folder((0, 5), replaces=("a", "b"))}
    assert list(inventories.current(found)) == ["ab"]


def test_what_a_killed_task_still_writes_is_no_data() -> None:
    assert inventories.is_data("part-0") and inventories.is_data("_day=1/part-0") and inventories.is_data("a=_/part-0")
    assert not inventories.is_data("_temporary/0/_temporary/attempt_1/part-0")
    assert not inventories.is_data("_SUCCESS") and not inventories.is_data("a=1/.part-0.crc")

"""Which offsets are read for the newest value, with a log of one value per offset."""

from itertools import pairwise
from typing import Any, cast

import pyarrow as pa
import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.extraction.database import newest_value as module
from kafka_zk.spark_jobs.extraction.database.newest_value import Found, newest_value
from kafka_zk.spark_jobs.source.cluster_client import EARLIEST

_SCHEMA = pa.schema([("value", pa.binary()), ("timestamp", pa.timestamp("us", "UTC"))])


class Log:
    """``partitions``: a timestamp and a value of each offset, or None for an offset without a readable record."""

    settings = None

    def __init__(self, *partitions: list[tuple[int, bytes | None] | None], start: int = 0, hidden: int = 0) -> None:
        self.partitions = partitions
        self.start = start
        self.hidden = hidden
        self.read: list[tuple[int, int, int]] = []

    def offsets(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """``hidden``: records of an open transaction."""
        ends = {tp: len(self.partitions[tp.partition]) - self.hidden for tp in wanted}
        return {tp: self.start if spec == EARLIEST else ends[tp] for tp, spec in wanted.items()}

    def log_ends(self, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: len(self.partitions[tp.partition]) for tp in tps}

    def fetch(self, wanted: Any, settings: Any, brokers: Any) -> Any:
        self.read.append((wanted.partition, wanted.from_offset, wanted.until_offset))
        found = self.partitions[wanted.partition][wanted.from_offset : wanted.until_offset]
        for each in filter(None, found):
            yield pa.RecordBatch.from_pylist([{"timestamp": each[0], "value": each[1]}], schema=_SCHEMA)


def found_in(log: Log, monkeypatch: pytest.MonkeyPatch) -> Found:
    tps = [TopicPartition("t", number) for number in range(len(log.partitions))]
    monkeypatch.setattr("kafka_zk.spark_jobs.source.planner.tps", lambda topics, brokers: tps)
    monkeypatch.setattr(module, "RangeFetcher", log.fetch)
    monkeypatch.setattr(module, "FetchSettings", lambda *_, **__: None)
    return newest_value("t", cast("Any", log))


def test_the_newest_of_all_partitions_is_found_behind_tombstones_and_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log([(5, b"old"), *[(9, None)] * 200], [(7, b"new"), *[None] * 30], [])
    assert found_in(log, monkeypatch) == Found(b"new", {0: 201, 1: 31, 2: 0}, True)
    for number in (0, 1):
        read = [each[1:] for each in reversed(log.read) if each[0] == number]
        assert read[0][0] == 0 and all(one[1] == other[0] for one, other in pairwise(read))


def test_a_partition_whose_last_records_are_older_is_not_read_to_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log([(5, None)] * 100_000, [(9, b"new")])
    assert found_in(log, monkeypatch).value == b"new"
    assert sum(until - start for _, start, until in log.read) < 200


def test_a_topic_is_empty_only_if_no_open_transaction_has_records(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not found_in(Log([]), monkeypatch).had_records
    hidden = found_in(Log([(1, b"x")], hidden=1), monkeypatch)
    assert hidden == Found(None, {0: 0}, True)
    removed = found_in(Log([None] * 5, start=5), monkeypatch)
    assert removed.value is None and removed.had_records

"""Fetching a range from a scripted cluster: leaders move, connections break, and gaps are distinguished from losses."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import FetchedPartition, FetchedTopic, FetchResponse
from kafka_zk.protocol.fetch_request import FetchRequest
from kafka_zk.spark_jobs.errors import DataLoss, FetchFailed
from kafka_zk.spark_jobs.source import range_fetcher
from kafka_zk.spark_jobs.source.cluster_client import EARLIEST, ClientSettings
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.source.range_fetcher import fetch
from kafka_zk.spark_jobs.source.range_settings import FetchSettings
from kafka_zk.storage.records.record_batch import RecordBatchBuilder


def one_record(offset: int) -> bytes:
    builder = RecordBatchBuilder()
    builder.append(1, None, b"%d" % offset)
    return builder.build(base_offset=offset)


class Broker:
    """Responds to fetches from a log {offset: batch}, after the responses and failures in ``script``."""

    def __init__(self, cluster: "ScriptedCluster") -> None:
        self._cluster = cluster
        self._asked: list[FetchRequest] = []

    def send_fetch(self, request: FetchRequest) -> None:
        self._asked.append(request)

    def receive_fetch(self) -> FetchResponse:
        request = self._asked.pop(0)
        fetched = request.topics[0].partitions[0]
        self._cluster.fetched_at.append(fetched.fetch_offset)
        if self._cluster.script:
            answer = self._cluster.script.pop(0)(fetched.fetch_offset)
        else:
            answer = self._cluster.answer(fetched.fetch_offset)
        return FetchResponse([FetchedTopic("t", None, [answer])])


class ScriptedCluster:
    def __init__(self, offsets: Iterable[int], start: int, end: int) -> None:
        self.log = {offset: one_record(offset) for offset in offsets}
        self.start, self.end = start, end
        self.script: list[Callable[[int], FetchedPartition]] = []
        self.fetched_at: list[int] = []
        self.refreshes = 0
        self.broker: Broker | None = Broker(self)

    def answer(self, offset: int) -> FetchedPartition:
        if not self.start <= offset <= self.end:
            return FetchedPartition(0, int(ErrorCode.OFFSET_OUT_OF_RANGE))
        found = sorted(each for each in self.log if each >= offset)[:2]
        return FetchedPartition(0, 0, self.end, self.end, self.start, b"".join(self.log[each] for each in found))

    # what fetch uses of ClusterClient

    def leader(self, tp: TopicPartition) -> Broker | None:
        return self.broker

    def leader_epoch(self, tp: TopicPartition) -> int:
        return 7

    def forget(self, broker: Broker) -> None:
        self.broker = None

    def refresh(self, topics: Iterable[str] | None) -> None:
        self.refreshes += 1
        self.broker = Broker(self)

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {tp: self.start if spec == EARLIEST else self.end for tp, spec in wanted.items()}

    def log_ends(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, self.end)

    def pause(self) -> None:
        pass

    def close(self) -> None:
        pass


def breaks(offset: int) -> FetchedPartition:
    raise ConnectionError("cut")


def error(code: ErrorCode) -> Callable[[int], FetchedPartition]:
    return lambda offset: FetchedPartition(0, int(code))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def run(
        cluster: ScriptedCluster, first: int, until: int, *, fail: bool = True, patience_ms: int = 60_000
    ) -> list[int]:
        monkeypatch.setattr(range_fetcher, "ClusterClient", lambda settings: cluster)
        settings = FetchSettings(ClientSettings("h:1", patience_ms=patience_ms), fail_on_data_loss=fail)
        batches = fetch([OffsetRange("t", 0, first, until)], settings)
        return [offset for batch in batches for offset in batch.column("offset").to_pylist()]

    yield run


def test_a_range_is_read_fetch_by_fetch_and_no_further(read: Any) -> None:
    cluster = ScriptedCluster(range(10), 0, 10)
    assert read(cluster, 2, 7) == [2, 3, 4, 5, 6]
    assert cluster.fetched_at == [2, 4, 6]


def test_ranges_that_share_a_task_are_read_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_fetcher, "ClusterClient", lambda settings: ScriptedCluster(range(9), 0, 9))
    ranges = [OffsetRange("t", number, first, until) for number, first, until in ((0, 0, 2), (1, 5, 5), (2, 7, 9))]
    batches = list(fetch(ranges, FetchSettings(ClientSettings("h:1"))))
    found = [(row["partition"], row["offset"]) for batch in batches for row in batch.to_pylist()]
    assert found == [(0, 0), (0, 1), (2, 7), (2, 8)]


@pytest.mark.parametrize(
    "trouble",
    [
        breaks,
        error(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        error(ErrorCode.FENCED_LEADER_EPOCH),
        error(ErrorCode.LEADER_NOT_AVAILABLE),
        error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_leader_that_moves_is_followed_without_losing_the_place(read: Any, trouble: Any) -> None:
    cluster = ScriptedCluster(range(8), 0, 8)
    cluster.script = [cluster.answer, trouble, trouble]
    assert read(cluster, 0, 8) == list(range(8))
    assert cluster.refreshes == 3


def test_a_gap_of_compaction_is_no_loss(read: Any) -> None:
    assert read(ScriptedCluster([1, 5, 6], 0, 10), 0, 9) == [1, 5, 6]


def test_a_gap_up_to_the_end_of_the_range_ends_it(read: Any) -> None:
    assert read(ScriptedCluster([1], 0, 10), 0, 10) == [1]
    assert read(ScriptedCluster([], 0, 10), 3, 10) == []


def test_retention_is_loss_and_names_what_is_gone(read: Any) -> None:
    cluster = ScriptedCluster(range(5, 10), 5, 10)
    with pytest.raises(DataLoss, match=r"offsets 2 to 4 of t-0 are missing: the log starts at offset 5"):
        read(cluster, 2, 9)
    assert read(cluster, 2, 9, fail=False) == [5, 6, 7, 8]


def test_retention_in_the_middle_of_a_read_is_loss_too(read: Any) -> None:
    cluster = ScriptedCluster(range(10), 0, 10)

    def then_retention(offset: int) -> FetchedPartition:
        answer = cluster.answer(offset)
        cluster.start = 6
        return answer

    cluster.script = [then_retention]
    with pytest.raises(DataLoss, match="offsets 2 to 5"):
        read(cluster, 0, 10)


def test_deleted_records_at_the_beginning_of_a_batch_stay_deleted(read: Any) -> None:
    """DeleteRecords moves the log's start into a batch; a fetch still returns the whole batch."""
    builder = RecordBatchBuilder()
    for number in range(10):
        builder.append(1, None, b"%d" % number)
    cluster = ScriptedCluster([], 4, 10)
    cluster.log = {9: builder.build(base_offset=0)}
    assert read(cluster, 0, 10, fail=False) == [4, 5, 6, 7, 8, 9]


def test_a_log_that_ends_before_the_range_is_loss(read: Any) -> None:
    cluster = ScriptedCluster(range(3), 0, 3)
    with pytest.raises(DataLoss, match="the log ends at offset 3"):
        read(cluster, 5, 9)
    assert read(cluster, 5, 9, fail=False) == []


def test_a_leader_that_had_not_caught_up_is_asked_again(read: Any) -> None:
    cluster = ScriptedCluster(range(4), 0, 4)
    cluster.script = [error(ErrorCode.OFFSET_OUT_OF_RANGE)]
    assert read(cluster, 0, 4) == [0, 1, 2, 3]


def test_what_waiting_does_not_cure_is_told_at_once(read: Any) -> None:
    cluster = ScriptedCluster(range(4), 0, 4)
    cluster.script = [error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    with pytest.raises(FetchFailed, match="TOPIC_AUTHORIZATION_FAILED"):
        read(cluster, 0, 4)


def test_patience_ends_with_the_last_cause(read: Any) -> None:
    cluster = ScriptedCluster([], 0, 3)
    with pytest.raises(FetchFailed, match="the log ends at offset 3, for 1 ms"):
        read(cluster, 3, 9, patience_ms=1)


def test_a_damaged_batch_is_one_sentence(read: Any) -> None:
    cluster = ScriptedCluster(range(2), 0, 2)
    damaged = bytearray(cluster.log[1])
    damaged[-1] ^= 1
    cluster.log[1] = bytes(damaged)
    with pytest.raises(FetchFailed, match="t-0: batch at offset 1: CRC"):
        read(cluster, 0, 2)


def test_brokers_without_transactions_end_at_the_high_watermark(read: Any) -> None:
    """Before Fetch version 4, responses contain no last stable offset."""
    cluster = ScriptedCluster([0, 1, 2], 0, 5)
    cluster.script.append(lambda offset: FetchedPartition(0, 0, 5, -1, -1, b""))
    assert read(cluster, 3, 5) == []

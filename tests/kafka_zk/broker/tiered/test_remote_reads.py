"""What clients receive of records that are only in remote storage."""

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.broker.handlers.data import remote_fetch
from kafka_zk.broker.handlers.data.remote_searches import SEARCH_TIMEOUT_S
from kafka_zk.broker.tiered import remote_reads
from kafka_zk.protocol import uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.log.tiered_log import apply_local_retention
from kafka_zk.storage.records.end_transaction_marker import marker_batch
from kafka_zk.storage.records.record_batch import LOG_OVERHEAD, PLACE, iter_batches
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import fetch, fetched
from tests.kafka_zk.broker.handlers.test_other_apis import list_offsets
from tests.kafka_zk.broker.tiered.tiered_broker import T, TieredBroker
from tests.storage.helpers import T0, batch
from tests.storage.tiered.segments import DELETED, DELETING, update


@pytest.fixture
def broker(tmp_path: Path) -> TieredBroker:
    return with_remote_records(tmp_path)


def with_remote_records(folder: Path) -> TieredBroker:
    """Offsets 0 to 5 are only in remote storage, in three segments; 6 is local."""
    broker = TieredBroker(folder)
    broker.fill(7)
    broker.run()
    assert (broker.log.log_start_offset, broker.log.local_log_start_offset) == (0, 6)
    return broker


def ask(broker: TieredBroker, offset: int, version: int = 12, **fields: Any) -> Any:
    request = fetch(offset)
    for key, value in fields.items():
        setattr(request, key, value)
    return fetched(broker.harness.ask(ApiKey.FETCH, version, request))


def offsets(result: Any) -> list[int]:
    assert result.error_code == 0
    return [
        each for _, header in iter_batches(result.records) for each in range(header.base_offset, header.next_offset)
    ]


def listed(broker: TieredBroker, timestamp: int, version: int = 9) -> tuple[int, int]:
    result = broker.harness.ask(ApiKey.LIST_OFFSETS, version, list_offsets(timestamp)).topics[0].partitions[0]
    return result.error_code, result.offset


def test_a_consumer_reads_everything_from_the_beginning(broker: TieredBroker) -> None:
    """It receives one segment at a time, then the local records."""
    offset, seen = 0, []
    while offset < 7:
        found = offsets(ask(broker, offset))
        seen.append(found)
        offset = found[-1] + 1
    assert seen == [[0, 1], [2, 3], [4, 5], [6]]


def test_a_read_begins_at_the_batch_of_its_offset(broker: TieredBroker) -> None:
    result = ask(broker, 3)
    assert offsets(result) == [3]
    assert (result.high_watermark, result.log_start_offset) == (7, 0)


def test_a_small_limit_returns_one_batch(broker: TieredBroker) -> None:
    assert offsets(ask(broker, 0, max_bytes=1)) == [0]


def test_damaged_remote_records_are_not_returned(broker: TieredBroker) -> None:
    path = next(broker.remote_folder.rglob(f"{2:020d}*.log"))
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    assert ask(broker, 2).error_code == ErrorCode.CORRUPT_MESSAGE


def test_a_follower_is_told_that_the_records_moved(broker: TieredBroker) -> None:
    broker.harness.lead_again("t", broker.topic_id, leader_epoch=1, isr=[0, 1], replicas=[0, 1])
    assert ask(broker, 2, replica_id=1).error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
    assert ask(broker, 6, replica_id=1).error_code == 0


def test_an_offset_before_the_log_is_out_of_range(broker: TieredBroker) -> None:
    broker.log.increment_log_start_offset(3)
    assert ask(broker, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_offset_that_no_segment_has_is_out_of_range(broker: TieredBroker) -> None:
    """The error is returned only if the metadata are complete."""
    segment = next(each for each in broker.remote.segments.values() if each.start_offset == 2)
    broker.remote.apply(update(segment, DELETING))
    assert ask(broker, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_broker_that_just_started_reads_the_metadata_first(broker: TieredBroker) -> None:
    broker.start()
    broker.metadata.assign([broker.tp])
    assert offsets(ask(broker, 2)) == [2, 3]


def pending(broker: TieredBroker, offset: int, max_wait_ms: int = 500) -> list[Any]:
    answer: list[Any] = []
    asked: Deferred[Any] = broker.harness.start(ApiKey.FETCH, 12, fetch(offset, max_wait_ms=max_wait_ms))
    asked.addCallback(fetched).addCallback(answer.append)
    return answer


def test_objects_that_are_missing_are_no_end_of_the_log(
    broker: TieredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """A store may lie; the consumer waits and asks again. The log says it once for each outage."""
    path = next(broker.remote_folder.rglob(f"{2:020d}*.log"))
    aside = broker.remote_folder / "aside"
    for outages in (1, 2):
        path.rename(aside)
        for _ in range(2):
            answer = pending(broker, 2)
            assert not answer
            broker.harness.clock.advance(0.5)
            assert [(each.error_code, each.records) for each in answer] == [(0, b"")]
        aside.rename(path)
        assert offsets(ask(broker, 2)) == [2, 3]
        told = warnings(caplog)
        assert len(told) == outages
        assert all("t-0 cannot be read" in each and "does not exist" in each for each in told)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def empty_handed(broker: TieredBroker, offset: int, **fields: Any) -> None:
    """A consumer fetches, and gets nothing yet."""
    request = fetch(offset, max_wait_ms=500)
    for key, value in fields.items():
        setattr(request, key, value)
    answer: list[Any] = []
    broker.harness.start(ApiKey.FETCH, 12, request).addCallback(fetched).addCallback(answer.append)
    broker.harness.clock.advance(0.5)
    assert [(each.error_code, each.records) for each in answer] == [(0, b"")]


def test_a_lost_segment_is_logged_once_while_others_are_read(
    broker: TieredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Other consumers of the partition keep reading other segments. When retention has deleted the lost segment, the
    next lost segment is a new outage."""
    for offset in (2, 4):
        next(broker.remote_folder.rglob(f"{offset:020d}*.log")).unlink()
    for _ in range(3):
        empty_handed(broker, 2)
        empty_handed(broker, 4)
        assert offsets(ask(broker, 0)) == [0, 1]
    assert len(warnings(caplog)) == 1
    lost = next(each for each in broker.remote.segments.values() if each.start_offset == 2)
    for state in (DELETING, DELETED):
        broker.remote.apply(update(lost, state))
    empty_handed(broker, 4)
    assert len(warnings(caplog)) == 2


def test_aborted_transactions_that_cannot_be_read_are_logged_once(
    broker: TieredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """The records can still be read, but not by consumers with read_committed."""
    stem = next(broker.remote_folder.rglob(f"{2:020d}*.log")).with_suffix("")
    stem.with_suffix(".txnindex").mkdir()
    for _ in range(3):
        empty_handed(broker, 2, isolation_level=1)
    assert len(warnings(caplog)) == 1


def test_reads_above_the_limit_of_a_response_come_later(broker: TieredBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_fetch, "READS_AT_ONCE", 0)
    answer = pending(broker, 2)
    broker.harness.clock.advance(0.5)
    assert [(each.error_code, each.records, each.high_watermark) for each in answer] == [(0, b"", 7)]


def test_reads_above_their_quota_come_later(broker: TieredBroker) -> None:
    """As in Kafka, the response is empty and has no error, and local records are not throttled."""
    broker.fetch_bytes_per_second = 10
    assert offsets(ask(broker, 2)) == [2, 3]
    answer = pending(broker, 4)
    assert not answer  # the client would ask again at once
    broker.harness.clock.advance(0.5)
    assert [(each.error_code, each.records, each.high_watermark) for each in answer] == [(0, b"", 7)]
    assert offsets(ask(broker, 6)) == [6]
    broker.clock.advance(30)
    assert offsets(ask(broker, 4)) == [4, 5]


def test_a_large_request_gets_a_bounded_part(broker: TieredBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_reads, "_MOST_BYTES", 10)
    assert offsets(ask(broker, 0)) == [0]


def test_offsets_of_a_tiered_log(broker: TieredBroker) -> None:
    """Earliest, latest, earliest local (KIP-405) and latest tiered (KIP-1005)."""
    assert [listed(broker, each) for each in (-2, -1, -4, -5)] == [(0, 0), (0, 7), (0, 6), (0, 5)]
    assert listed(broker, -4, 7) == listed(broker, -5, 8) == (ErrorCode.UNSUPPORTED_VERSION, -1)


def test_a_broker_that_just_started_knows_the_latest_tiered_offset(broker: TieredBroker) -> None:
    """The broker reads the metadata before its first round of tasks."""
    broker.start()
    assert listed(broker, -5) == (0, 5)


def test_the_latest_tiered_offset_is_not_known_without_the_metadata(broker: TieredBroker) -> None:
    """All partitions of a request wait at the same time, and clients retry after the error. A broker that has already
    read the metadata returns the offset that it knows."""
    broker.connection.fault = ConnectionError("refused")
    assert listed(broker, -5) == (0, 5)
    broker.harness.configs.topics["wide"] = broker.harness.configs.topics["t"]
    broker.harness.lead("wide", 20)
    broker.start()
    request = list_offsets(-5)
    request.topics += (list_offsets(-5, partition=each).topics[0] for each in range(20))
    for each in request.topics[1:]:
        each.name = "wide"
    codes: list[int] = []
    asked: Deferred[Any] = broker.harness.start(ApiKey.LIST_OFFSETS, 9, request)
    asked.addCallback(
        lambda found: codes.extend(each.error_code for topic in found.topics for each in topic.partitions)
    )
    broker.harness.clock.advance(SEARCH_TIMEOUT_S)
    assert codes == [ErrorCode.REQUEST_TIMED_OUT] * 21
    assert not broker.clock.getDelayedCalls()


def test_clients_retry_until_the_topic_has_an_id(broker: TieredBroker) -> None:
    """A controller sends the ids of topics in LeaderAndIsr 5 or later; an older request has none."""
    broker.replicas.partitions[T].topic_id = uuids.ZERO
    assert listed(broker, -5) == listed(broker, T0) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    empty_handed(broker, 2)


def test_nothing_is_tiered_before_there_are_metadata(tmp_path: Path) -> None:
    broker = TieredBroker(tmp_path, has_metadata_topic=False)
    broker.fill(7)
    assert listed(broker, -5) == (0, -1)


@pytest.mark.parametrize(("after_ms", "offset"), [(-5, 0), (0, 0), (1, 1), (3, 3), (5, 5), (6, 6), (7, -1)])
def test_a_timestamp_is_searched_remotely_first(broker: TieredBroker, after_ms: int, offset: int) -> None:
    assert listed(broker, T0 + after_ms) == (0, offset)


def test_a_search_that_fails_is_retried_by_the_client(broker: TieredBroker) -> None:
    for each in broker.remote_folder.rglob("*.timeindex"):
        each.unlink()
    assert listed(broker, T0 + 3) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)


def test_aborted_transactions_are_found_in_later_segments(tmp_path: Path) -> None:
    """The marker of a transaction that begins in one remote segment may be in the next one."""
    broker = TieredBroker(tmp_path)
    sent: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    for number in range(3):
        data = batch(value=b"x" * 40, base_sequence=number, **sent)
        broker.log.append_own_batch(data, leader_epoch=0, now_ms=T0)
    marker = marker_batch(7, 0, 0, is_commit=False, timestamp_ms=T0)
    broker.log.append_own_batch(marker, leader_epoch=0, now_ms=T0)
    broker.fill(5)
    broker.run()
    assert broker.log.local_log_start_offset > 4
    result = ask(broker, 0, isolation_level=1)
    assert offsets(result) == [0, 1]
    assert [(each.producer_id, each.first_offset) for each in result.aborted_transactions] == [(7, 0)]
    assert ask(broker, 0).aborted_transactions is None


def test_records_of_a_lost_lineage_are_not_returned(broker: TieredBroker) -> None:
    """The end of a remote segment may be of an epoch that this leader lacks."""
    broker.log.leader_epochs.replace([(0, 0), (1, 3)])
    assert offsets(ask(broker, 2)) == [2]


def test_the_index_of_a_segment_is_read_once(broker: TieredBroker) -> None:
    for each in (0, 0, 1):
        ask(broker, each)
    for path in broker.remote_folder.rglob("*.index"):
        path.unlink()
    assert offsets(ask(broker, 0)) == [0, 1]


def test_the_cache_of_indexes_keeps_its_limit(broker: TieredBroker) -> None:
    """A lower limit applies from the next index on: the older index is dropped, and read again when it is needed."""
    ask(broker, 0)
    broker.index_cache_bytes = 1
    ask(broker, 2)
    for path in broker.remote_folder.rglob("*.index"):
        path.unlink()
    assert offsets(ask(broker, 2)) == [2, 3]
    answer = pending(broker, 0)
    broker.harness.clock.advance(0.5)
    assert [each.records for each in answer] == [b""]


def test_records_that_compaction_removed_are_skipped(tmp_path: Path) -> None:
    """The topic was compacted before it was tiered: a segment may end without its last offsets."""
    broker = TieredBroker(tmp_path)
    for offset in (1, 3, 6):
        append_compacted(broker, offset)
        broker.log.extend_to(offset // 3 * 3 + 3, T0)
    broker.fill(1)
    broker.run()
    assert (broker.objects(), broker.log.local_log_start_offset) == ([0, 3, 6], 9)
    assert [offsets(ask(broker, each)) for each in (0, 2, 4, 7)] == [[1], [3], [6], [9]]


def append_compacted(broker: TieredBroker, offset: int) -> None:
    data = batch(value=b"x" * 40, timestamp_ms=T0 + offset)
    PLACE.pack_into(data, 0, offset, len(data) - LOG_OVERHEAD, 0)
    broker.log.append_as_follower(bytes(data), now_ms=T0)


def open_transaction(broker: TieredBroker) -> None:
    data = batch(value=b"x" * 40, base_sequence=0, producer_id=7, producer_epoch=0, transactional=True)
    broker.log.append_own_batch(data, leader_epoch=0, now_ms=T0)


def test_an_abort_is_found_although_its_segment_is_deleted_here_meanwhile(tmp_path: Path) -> None:
    """The segment's transaction index was local when the read began, and is remote when the read ends."""
    broker = TieredBroker(tmp_path, local_retention_bytes="400", local_retention_ms="-1")
    open_transaction(broker)
    broker.fill(2)
    marker = marker_batch(7, 0, 0, is_commit=False, timestamp_ms=T0)
    broker.log.append_own_batch(marker, leader_epoch=0, now_ms=T0)
    broker.fill(2)
    broker.run()
    broker.run()
    assert broker.log.local_log_start_offset == 2
    reads = broker.harness.services.remote_reads
    assert reads is not None
    answer: list[Any] = []
    broker.threads.holds = True
    request = fetch(0)
    request.isolation_level = 1
    asked: Deferred[Any] = broker.harness.start(ApiKey.FETCH, 12, request)
    asked.addCallback(fetched).addCallback(answer.append)
    assert apply_local_retention(broker.log, broker.remote, T0) == 0
    keys = {**broker.harness.configs.topics["t"], "local.retention.bytes": "0"}
    for _ in broker.replicas.update_topic_configs({"t": keys}):
        pass
    assert apply_local_retention(broker.log, broker.remote, T0) > 0
    assert broker.log.local_log_start_offset > 3
    broker.threads.holds = False
    broker.threads.release()
    assert [(each.producer_id, each.first_offset) for each in answer[0].aborted_transactions] == [(7, 0)]


def test_an_object_that_was_cut_ends_a_search(broker: TieredBroker) -> None:
    path = next(broker.remote_folder.rglob(f"{2:020d}*.log"))
    path.write_bytes(path.read_bytes()[:-10])
    assert listed(broker, T0 + 3) == (ErrorCode.CORRUPT_MESSAGE, -1)


def test_segments_deleted_here_during_a_search_are_not_skipped(tmp_path: Path) -> None:
    """The segments were local while the remote ones were searched, so the error makes the client retry."""
    broker = TieredBroker(tmp_path, local_retention_bytes="400", local_retention_ms="-1")
    broker.fill(7)
    broker.run()
    before = broker.log.local_log_start_offset
    answer: list[Any] = []
    broker.threads.holds = True
    asked: Deferred[Any] = broker.harness.start(ApiKey.LIST_OFFSETS, 9, list_offsets(T0 + before))
    asked.addCallback(lambda found: answer.append(found.topics[0].partitions[0]))
    keys = {**broker.harness.configs.topics["t"], "local.retention.bytes": "0"}
    for _ in broker.replicas.update_topic_configs({"t": keys}):
        pass
    assert apply_local_retention(broker.log, broker.remote, T0) > 0
    broker.threads.holds = False
    broker.threads.release()
    assert [(each.error_code, each.offset) for each in answer] == [(ErrorCode.OFFSET_NOT_AVAILABLE, -1)]
    assert listed(broker, T0 + before) == (0, before)

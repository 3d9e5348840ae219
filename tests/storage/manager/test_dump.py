"""dump-log prints every file of a log directory as rows, with separate rows for damage."""

from pathlib import Path

import pytest

from kafka_zk.storage.cleaner.cleaner import CleanerConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.dump import Row, dump_file
from kafka_zk.storage.records.legacy_message_set import encode_message
from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from kafka_zk.storage.segments.transaction_index import AbortedTransaction, encode_transaction_index
from tests.storage.done_here import clean_here
from tests.storage.helpers import T0, append, batch, new_log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    made = new_log(tmp_path, segment_bytes=3000, index_interval_bytes=200)
    for number in range(40):
        data = batch(
            2, timestamp_ms=T0 + number, value=b"x" * 30, key=b"k", producer_id=7, producer_epoch=1,
            base_sequence=2 * number, compression="gzip" if number % 2 else "none", headers=[("h", b"1")],
        )  # fmt: skip
        append(made, data, leader_epoch=number // 20)
    made.close()
    return made


def problems(path: Path | str, **options: bool) -> list[Row]:
    return [row for row in dump_file(path, **options) if "problem" in row]


def test_every_header_field_of_every_batch(log: Log) -> None:
    """Fields have the names of Kafka's tool; position and size are added."""
    rows = [row for segment in log.segments for row in dump_file(segment.path)]
    assert len(rows) == 40
    assert rows[21] | {"crc": 0, "size": 0, "position": 0} == {
        "baseOffset": 42, "lastOffset": 43, "count": 2, "baseSequence": 42, "lastSequence": 43, "producerId": 7,
        "producerEpoch": 1, "partitionLeaderEpoch": 1, "isTransactional": False, "isControl": False,
        "deleteHorizonMs": None, "position": 0, "timestampType": "CreateTime", "baseTimestamp": T0 + 21,
        "maxTimestamp": T0 + 21, "size": 0, "magic": 2, "compresscodec": "gzip", "attributes": 1, "crc": 0,
        "isvalid": True,
    }  # fmt: skip
    first = [row for row in dump_file(log.segments[0].path)]
    assert [row["position"] for row in first[1:]] == [before["position"] + before["size"] for before in first[:-1]]


def test_records_on_demand(log: Log) -> None:
    """The rows of a batch's two records follow the batch's row."""
    rows = list(dump_file(log.segments[0].path, records=True))
    assert [row["offset"] for row in rows[1:3]] == [0, 1]
    assert rows[2]["sequence"] == 1 and rows[2]["headerKeys"] == ["h"] and rows[2]["payload"] == b"x" * 30


def test_sound_indexes_verify_and_damaged_ones_do_not(log: Log) -> None:
    """Each entry is compared with the log."""
    for segment in log.segments:
        for path in (segment.offset_index.path, segment.time_index.path):
            assert problems(path, verify=True) == []
            assert list(dump_file(path))
    index = Path(log.segments[0].offset_index.path)
    good = index.read_bytes()
    index.write_bytes(good[:7] + bytes([good[7] + 1]) + good[8:])
    assert len(problems(index, verify=True)) == 1
    index.write_bytes(good + bytes([0x7F, 0, 0, 0, 0x7F, 0, 0, 0]))
    assert "has ended" in problems(index, verify=True)[0]["problem"]
    times = Path(log.segments[0].time_index.path)
    good = times.read_bytes()
    times.write_bytes(good[:7] + bytes([good[7] ^ 1]) + good[8:])
    assert problems(times, verify=True)


def test_damage_in_a_log_is_named_with_its_position(log: Log) -> None:
    """After a bad CRC, the dump continues. A bad header ends it, and the remaining bytes are counted."""
    path = Path(log.segments[0].path)
    rows = list(dump_file(path))
    data = bytearray(path.read_bytes())
    data[rows[2]["position"] + 80] ^= 1
    path.write_bytes(data)
    (found,) = problems(path)
    assert found["position"] == rows[2]["position"]
    assert [row["isvalid"] for row in dump_file(path) if "isvalid" in row].count(False) == 1
    data[rows[4]["position"] + 16] = 9
    path.write_bytes(data)
    end = problems(path)[-1]
    assert end["position"] == rows[4]["position"]
    assert end["trailingBytes"] == len(data) - rows[4]["position"]
    path.write_bytes(data[: rows[1]["position"] + 5])
    assert problems(path)[0]["trailingBytes"] == 5


def test_snapshots_checkpoints_and_transaction_indexes(log: Log, tmp_path: Path) -> None:
    """There is one row per entry."""
    (row,) = dump_file(log.directory / "00000000000000000080.snapshot")
    assert (row["producerId"], row["firstSequence"], row["lastSequence"], row["lastOffset"]) == (7, 78, 79, 79)
    assert list(dump_file(log.directory / "leader-epoch-checkpoint")) == [
        {"leaderEpoch": 0, "startOffset": 0},
        {"leaderEpoch": 1, "startOffset": 40},
    ]
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    checkpoint.write_text("0\n1\nevents 0 12\n")
    assert list(dump_file(checkpoint)) == [{"topic": "events", "partition": 0, "offset": 12}]
    aborted = tmp_path / "00000000000000000000.txnindex"
    aborted.write_bytes(encode_transaction_index([AbortedTransaction(0, 7, 1, 5, 6)]))
    assert [row["lastOffset"] for row in dump_file(aborted)] == [5]
    for name in ("00000000000000000001.snapshot", "x-checkpoint"):
        (tmp_path / name).write_bytes(b"garbage")
        assert problems(tmp_path / name)


def test_old_message_sets_are_shown_too(tmp_path: Path) -> None:
    """The log is from before Kafka 0.11."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(
        encode_message(3, 0, 0, -1, None, b"v")
        + encode_message(4, 1, 0, T0, None, b"v")
        + encode_message(5, 0, 0, -1, None, None)
    )
    assert [(row["lastOffset"], row["magic"]) for row in dump_file(path)] == [(3, 0), (4, 1), (5, 0)]


def test_other_files_are_refused(tmp_path: Path) -> None:
    """The type of a file is never guessed."""
    for name in ("meta.properties", "00000000000000000000.what"):
        with pytest.raises(ValueError):
            list(dump_file(tmp_path / name))


def test_tombstones_and_delete_horizons_of_a_compacted_log(tmp_path: Path) -> None:
    """The delete horizon replaces the base timestamp, which is then not shown."""
    log = new_log(tmp_path, cleanup_policy=("compact",), delete_retention_ms=1000)
    builder = RecordBatchBuilder()
    builder.append(T0, b"gone", None)
    builder.append(T0, b"kept", b"v")
    append(log, bytearray(builder.build()))
    log.roll(T0)
    append(log, batch(1, key=b"k"))
    log.flush()
    clean_here(log, CleanerConfig(), T0 + 50)
    head, gone, kept = dump_file(log.segments[0].path, records=True)
    log.close()
    assert (head["deleteHorizonMs"], head["baseTimestamp"], head["maxTimestamp"]) == (T0 + 1050, None, T0)
    assert (gone["isTombstone"], gone["valueSize"], gone["timestamp"]) == (True, -1, T0)
    assert (kept["isTombstone"], kept["valueSize"]) == (None, 1)

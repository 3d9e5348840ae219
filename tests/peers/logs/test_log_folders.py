"""One log folder goes back and forth between kafka-zk and Apache Kafka 3.9.1, stopped cleanly and killed.

The next broker serves all earlier records unchanged, knows the idempotent producers and keeps the topic ids. Then it
writes further records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka.admin
import pytest

from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from tests.peers import wire_probe
from tests.peers.clients.base import Read, Write
from tests.peers.clients.librdkafka import ConfluentConsumer, ConfluentProducer
from tests.peers.logs.handover import HOLDERS, LATELY_MS, holder, output_of
from tests.peers.records import Record, anything, differences
from tests.peers.targets import KAFKA_ZK, Target

pytestmark = pytest.mark.peers

_TOPIC = "handed-over"
_SHORTENED = "shortened"
_UNWRITTEN = "unwritten"
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_PRODUCER_ID = 424_242
_DELETED_BEFORE = 100
_KAFKA_INDEX_SIZE_BYTES = 10 * 1024 * 1024


@dataclass
class Holding:
    """The state when the holder took over, the records that it got, and the state at its end."""

    holder: str
    at_start: Served | None
    batch_again: tuple[int, int]
    at_end: Served
    sent: list[Record]
    batch_offset: int
    output: str = ""
    files_left: dict[str, int] = field(default_factory=dict)
    recovery_points: str = ""


@dataclass
class Served:
    """The clients' view of the topics."""

    records: list[Record]
    producers: set[tuple[int, int, int, int]]
    ends: tuple[int, int]
    shortened: tuple[int, int]
    unwritten: tuple[int, int]
    by_time: int
    topic_id: str


def _records() -> list[Record]:
    """The usual data set, with most timestamps from the last hour."""
    records = anything()
    oldest_ms = sorted(record.timestamp_ms or 0 for record in records)[1]
    return [
        record._replace(timestamp_ms=(record.timestamp_ms or 0) - oldest_ms + LATELY_MS)
        if (record.timestamp_ms or 0) >= oldest_ms
        else record
        for record in records
    ]


def _batch(base_sequence: int, number: int) -> bytes:
    """Three records of an idempotent producer, with its sequence numbers in the batch."""
    builder = RecordBatchBuilder(producer_id=_PRODUCER_ID, producer_epoch=3, base_sequence=base_sequence)
    for each in range(3):
        builder.append(LATELY_MS + number, b"raw", b"%d of %d" % (each, number))
    return bytes(builder.build())


def _served(target: Target) -> Served:
    start, end = _watermarks(target, _TOPIC)
    records = ConfluentConsumer().read(Read(target.bootstrap, _TOPIC, 0, start, end - start))
    return Served(
        records=records,
        producers=wire_probe.producers(target.ports[0], _TOPIC, 0),
        ends=(start, end),
        shortened=_watermarks(target, _SHORTENED),
        unwritten=_watermarks(target, _UNWRITTEN),
        by_time=_offset_at(target, LATELY_MS + 500_000),
        topic_id=_topic_id(target),
    )


def _watermarks(target: Target, topic: str) -> tuple[int, int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": target.bootstrap, "group.id": "never-joined"})
    try:
        low, high = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), timeout=30)
        return low, high
    finally:
        consumer.close()


def _offset_at(target: Target, timestamp_ms: int) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": target.bootstrap, "group.id": "never-joined"})
    try:
        asked = confluent_kafka.TopicPartition(_TOPIC, 0, timestamp_ms)
        offset: int = consumer.offsets_for_times([asked], timeout=30)[0].offset
        return offset
    finally:
        consumer.close()


def _topic_id(target: Target) -> str:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": target.bootstrap})
    topics = confluent_kafka.TopicCollection([_TOPIC])
    return str(admin.describe_topics(topics)[_TOPIC].result(30).topic_id)


def _create(target: Target) -> None:
    """Three topics; the beginning of one is deleted, and one stays empty."""
    target.create_topic(_UNWRITTEN)
    target.create_topic(_TOPIC, config={"segment.bytes": "400000", "index.interval.bytes": "1024"})
    target.create_topic(_SHORTENED, config={"segment.bytes": "1000000"})
    plain = [Record(b"k", b"%d" % number, timestamp_ms=1_700_000_000_000 + number) for number in range(300)]
    ConfluentProducer().write(Write(target.bootstrap, _SHORTENED, 0, "none", plain))
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": target.bootstrap})
    before = confluent_kafka.TopicPartition(_SHORTENED, 0, _DELETED_BEFORE)
    for future in admin.delete_records([before]).values():
        future.result(30)


def _hold(target: Target, number: int, before: Served | None) -> Holding:
    """Read the state, send the last holder's idempotent batch again, write with every codec, read the state again."""
    port = target.ports[0]
    at_start = _served(target) if before else None
    again = wire_probe.produce(port, _TOPIC, 0, _batch(3 * (number - 1), number - 1)) if number else (0, 0)
    sent = []
    for compression in _CODECS:
        records = _records()
        ConfluentProducer().write(Write(target.bootstrap, _TOPIC, 0, compression, records))
        sent += records
    error, offset = wire_probe.produce(port, _TOPIC, 0, _batch(3 * number, number))
    assert error == 0
    return Holding(target.name, at_start, again, _served(target), sent, offset)


def _leads(target: Target) -> bool:
    """True if clients find the leader of both topics."""
    try:
        return all(_watermarks(target, topic)[1] > 0 for topic in (_TOPIC, _SHORTENED))
    except confluent_kafka.KafkaException:
        return False


@pytest.fixture(scope="module")
def holdings(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Holding]]:
    """All holdings, one after another; run once."""
    folder: Path = tmp_path_factory.mktemp("log-folders")
    done: list[Holding] = []
    for number in range(len(HOLDERS)):
        with holder(number, peer_zookeeper, folder, _leads) as target:
            if not number:
                _create(target)
            done.append(_hold(target, number, done[-1].at_end if done else None))
        done[-1].output = output_of(number, folder).read_text(errors="replace")
        log_dir = target.partition_dir(_TOPIC, 0).parent
        done[-1].recovery_points = (log_dir / "recovery-point-offset-checkpoint").read_text()
        done[-1].files_left = {path.name: path.stat().st_size for path in target.partition_dir(_TOPIC, 0).iterdir()}
    yield done


_TAKEN_OVER = pytest.mark.parametrize(
    "number",
    range(1, len(HOLDERS)),
    ids=[
        f"{number}-{name}-after-{HOLDERS[number - 1][0]}-{HOLDERS[number - 1][1]}"
        for number, (name, _) in enumerate(HOLDERS)
        if number
    ],
)


def _handover(holdings: list[Holding], number: int) -> tuple[Served, Served]:
    """The state at the last holder's end, and the state at the next holder's start."""
    taken = holdings[number].at_start
    assert taken is not None
    return holdings[number - 1].at_end, taken


@_TAKEN_OVER
def test_every_record_is_served_as_before(holdings: list[Holding], number: int) -> None:
    """Keys, values, headers, timestamps and offsets are equal, over all segments and codecs."""
    before, after = _handover(holdings, number)
    assert differences(before.records, after.records) == ""
    assert after.ends == before.ends


def test_every_holder_served_what_was_sent(holdings: list[Holding]) -> None:
    """A comparison with the previous holder would prove little if both lost the same records."""
    sent: list[Record] = []
    for number, holding in enumerate(holdings):
        sent += holding.sent
        assert holding.batch_offset == len(sent)
        sent += [
            Record(b"raw", b"%d of %d" % (each, number), timestamp_ms=LATELY_MS + number) for each in range(3)
        ]
        expected = [record._replace(offset=offset) for offset, record in enumerate(sent)]
        assert differences(expected, holding.at_end.records) == ""


@_TAKEN_OVER
def test_idempotent_producers_are_known(holdings: list[Holding], number: int) -> None:
    """DescribeProducers returns the same, whether the state came from a snapshot or from the segments."""
    before, after = _handover(holdings, number)
    assert len(before.producers) >= 6
    assert after.producers == before.producers


@_TAKEN_OVER
def test_batch_sent_again_is_not_appended_again(holdings: list[Holding], number: int) -> None:
    """A producer that did not get the last holder's response gets the old offset from the next one."""
    assert holdings[number].batch_again == (0, holdings[number - 1].batch_offset)


@_TAKEN_OVER
def test_deleted_records_stay_deleted(holdings: list[Holding], number: int) -> None:
    """The log start offset is the one that DeleteRecords set."""
    _, after = _handover(holdings, number)
    assert after.shortened == (_DELETED_BEFORE, 300)


@_TAKEN_OVER
def test_a_partition_without_records_is_taken_over(holdings: list[Holding], number: int) -> None:
    """Our broker leaves a folder without segments; after a clean stop, the topic's id is in it."""
    _, after = _handover(holdings, number)
    assert after.unwritten == (0, 0)


@_TAKEN_OVER
def test_lookup_by_time_and_topic_id_are_the_same(holdings: list[Holding], number: int) -> None:
    """The other broker's time indexes are used or rebuilt; partition.metadata agrees with ZooKeeper."""
    before, after = _handover(holdings, number)
    assert (after.by_time, after.topic_id) == (before.by_time, before.topic_id)


def test_there_was_something_to_recover(holdings: list[Holding]) -> None:
    """There are several segments, and the killed Apache Kafka broker left indexes padded with zeros."""
    for holding in holdings:
        assert sum(name.endswith(".log") for name in holding.files_left) >= 3
    assert _KAFKA_INDEX_SIZE_BYTES in holdings[1].files_left.values()


def test_apache_kafka_believes_our_clean_shutdown(holdings: list[Holding]) -> None:
    """Kafka skips recovery after our broker stopped cleanly, and recovers after ours was killed."""
    assert "since clean shutdown file was found" in holdings[1].output
    assert "since clean shutdown file was found" not in holdings[3].output


def test_only_a_broker_of_ours_that_was_killed_vouches_for_what_lies_beyond_the_recovery_points(
    holdings: list[Holding],
) -> None:
    """Apache Kafka reads the row that vouches for them, and drops it (decision 0018)."""
    vouching = [number for number, each in enumerate(holdings) if "__kafka_zk_contiguous 0 0" in each.recovery_points]
    assert vouching == [number for number, each in enumerate(HOLDERS) if each == (KAFKA_ZK, "killed")]

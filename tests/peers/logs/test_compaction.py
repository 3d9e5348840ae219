"""Kafka 3.9.1's log cleaner and ours on copies of the same folders: the remaining batches are compared, and each broker
starts on folders that the other one has cleaned, or was killed while cleaning.

The folders are made from seeds: ``--seed`` is the first one, ``--rounds`` their number, six at least.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import pytest
from click.testing import CliRunner
from kazoo.client import KazooClient

from kafka_zk.cli import compact
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.storage.cleaner.cleaner import CleanedSegment
from kafka_zk.storage.cleaner.log_to_clean import Cleaning, examine
from kafka_zk.storage.records.record_batch import CONTROL_FLAG
from kafka_zk.storage.segments.segment_swap import begin_swap
from tests.peers import targets
from tests.peers.clients.base import Read
from tests.peers.clients.librdkafka import ConfluentConsumer
from tests.peers.logs import dump_log
from tests.peers.logs.compaction_brokers import is_clean, log_dir_of, start_on
from tests.peers.logs.compaction_folders import (
    CLEANER,
    Folder,
    SeenBatch,
    clean,
    copied,
    make_big_folder,
    make_folder,
    open_log,
    survivors,
)
from tests.peers.processes import wait_until
from tests.peers.records import Record, differences
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK, Target

pytestmark = pytest.mark.peers

_FOLDERS_LEAST = 6
_CLEANED_WITHIN_S = 120
_OVERRIDES = {
    "log.retention.ms": "-1",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": str(CLEANER.dedupe_buffer_bytes),
    "log.message.timestamp.after.max.ms": str(2**63 - 1),
}


class Judged(NamedTuple):
    """One folder, and its copies cleaned by each cleaner."""

    made: Folder
    ours: Folder
    kafkas: Folder
    began_ms: int

    def left(self, folder: Folder) -> list[SeenBatch]:
        """The remaining batches. Batches that were written or cleaned before ``began_ms`` have earlier horizons."""
        return survivors(folder.path, self.began_ms + int(folder.config["delete.retention.ms"]))


def _read(target: Target, folder: Folder, expected: Sequence[Record]) -> list[Record]:
    """The expected number of records, read by a consumer from the beginning."""
    wait_until(lambda: _leads(target, folder.tp.topic), 60, "a leader")
    read = ConfluentConsumer().read(Read(target.bootstrap, folder.tp.topic, 0, 0, len(expected)))
    return [record._replace(timestamp_ms=None) for record in read]


def _leads(target: Target, topic: str) -> bool:
    try:
        return target.end_offset(topic, 0) > 0
    except confluent_kafka.KafkaException:
        return False


def _records(left: Sequence[SeenBatch]) -> list[Record]:
    """The records as consumers see them. Their times have been compared in the files."""
    return [
        Record(each.key, each.value, each.headers, None, each.offset)
        for batch in left
        for each in batch.records
        if not batch.attributes & CONTROL_FLAG
    ]


def _values(records: Sequence[Record]) -> list[Record]:
    """The records without tombstones: tombstones of an interrupted cleaning have its time, and the next cleaning may
    remove them.
    """
    return [record for record in records if record.value is not None]


def _interrupted(folder: Folder, *, swapping: bool) -> None:
    """Stop a cleaning by ours after its first segment, which leaves ``.cleaned`` files, or ``.swap`` files that
    count.
    """
    now_ms = int(time.time() * 1000)
    log = open_log(folder, now_ms)
    cleaning = Cleaning(examine(log, now_ms), CLEANER, now_ms)

    def end(segment: CleanedSegment) -> None:
        if swapping:
            begin_swap(str(folder.path), segment.base_offset)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        cleaning.work.run(end)
    log.close()
    assert list(folder.path.glob("*.log.swap" if swapping else "*.log.cleaned"))


@pytest.fixture(scope="module")
def judged(
    peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[list[Judged]]:
    """The folders, cleaned by ours and by a broker of Kafka's that cleans them all."""
    root = tmp_path_factory.mktemp("compaction")
    first: int = pytestconfig.getoption("seed")
    count = max(_FOLDERS_LEAST, pytestconfig.getoption("rounds"))
    made = [make_folder(seed, root / "made") for seed in range(first, first + count)]
    began_ms = int(time.time() * 1000)
    kafka_dir = log_dir_of(root / "kafka")
    kafka_dir.mkdir(parents=True)
    kafkas = [copied(each, kafka_dir) for each in made]
    ours = [copied(each, root / "ours") for each in made]
    for each in ours:
        assert clean(each, int(time.time() * 1000)) == each.active_offset
    target = start_on(APACHE_KAFKA, peer_zookeeper, root / "kafka", "compaction-judge", kafkas, _OVERRIDES)
    try:
        wait_until(lambda: is_clean(kafka_dir, kafkas), _CLEANED_WITHIN_S, "Kafka's cleaner has cleaned all folders")
    finally:
        target.stop()
    yield [Judged(*each, began_ms) for each in zip(made, ours, kafkas, strict=True)]


def _before_last(judgement: Judged, folder: Folder) -> list[SeenBatch]:
    end_offset = judgement.made.active_offset
    return [each for each in judgement.left(folder) if each.records or each.last_offset + 1 != end_offset]


def test_the_same_is_left(judged: list[Judged]) -> None:
    """Segments, batches and records are equal, with headers, times, codecs, producers, horizons and magic.

    The exception is the last batch that was cleaned: ours keeps it without records, as Kafka does from 4.0 on.
    """
    for each in judged:
        found = differences(_before_last(each, each.kafkas), _before_last(each, each.ours))
        assert found == "", f"--seed {each.made.tp.topic.removeprefix('compacted-')}: {found}"


def test_the_folders_have_what_matters(judged: list[Judged]) -> None:
    """The comparison would prove little for folders in which the cleaners remove or retain nothing."""
    before = [batch for each in judged for batch in each.left(each.made)]
    after = [batch for each in judged for batch in each.left(each.kafkas)]
    assert len(_records(after)) < 0.8 * len(_records(before))
    assert {batch.magic for batch in after} == {0, 1, 2}
    assert any(batch.horizon == "new" for batch in after)
    markers = [batch for batch in after if batch.attributes & CONTROL_FLAG]
    assert any(batch.horizon for batch in markers) and not all(batch.horizon for batch in markers)
    assert any(not batch.records for batch in after), "no batch was kept for its producer's sequence"


def test_dump_log_segments_reads_what_ours_left(judged: list[Judged]) -> None:
    """The tool reads whole batches and every record, and the indexes fit. Its only message is that offsets have gaps.
    """
    for each in judged[:3]:
        dumped = dump_log.dump(dump_log.files(each.ours.path))
        assert dumped.invalid_batches == 0
        assert "Mismatches" not in dumped.complaints and "not found" not in dumped.complaints
        left = each.left(each.ours)
        assert dumped.record_offsets == [record.offset for batch in left for record in batch.records]


def test_kafka_starts_on_what_ours_cleaned(judged: list[Judged], peer_zookeeper: str, tmp_path: Path) -> None:
    """In some folders, our interrupted cleaner left ``.cleaned`` or ``.swap`` files."""
    log_dir = log_dir_of(tmp_path)
    log_dir.mkdir(parents=True)
    cleaned, others = judged[: len(judged) // 2], judged[len(judged) // 2 :]
    whole = [copied(each.ours, log_dir)._replace(cleaned_offset=each.ours.active_offset) for each in cleaned]
    cut = [copied(each.made, log_dir) for each in others]
    for number, folder in enumerate(cut):
        _interrupted(folder, swapping=number % 2 == 0)
    target = start_on(APACHE_KAFKA, peer_zookeeper, tmp_path, "compaction-of-ours", [*whole, *cut], _OVERRIDES)
    try:
        wait_until(lambda: is_clean(log_dir, [*whole, *cut]), _CLEANED_WITHIN_S, "Kafka's cleaner goes on")
        for judgement, folder in zip(judged, [*whole, *cut], strict=True):
            left = _records(judgement.left(folder))
            assert differences(left, _read(target, folder, left)) == "", folder.tp
            expected = _records(judgement.left(judgement.kafkas))
            assert differences(_values(expected), _values(left)) == "", folder.tp
    finally:
        target.stop()
    assert not list(log_dir.glob("*/*.cleaned"))


def test_ours_starts_on_what_kafka_cleaned(judged: list[Judged], peer_zookeeper: str, tmp_path: Path) -> None:
    """The log directory is as Kafka's clean stop left it, with its checkpoint of clean offsets: nothing is cleaned
    twice.
    """
    log_dir = log_dir_of(tmp_path)
    of_another_cluster = shutil.ignore_patterns("meta.properties", "partition.metadata")
    shutil.copytree(judged[0].kafkas.path.parent, log_dir, ignore=of_another_cluster)
    held = [each.kafkas._replace(path=log_dir / each.kafkas.path.name) for each in judged]
    target = start_on(KAFKA_ZK, peer_zookeeper, tmp_path, "compaction-of-kafkas", held, _OVERRIDES)
    try:
        for judgement, folder in zip(judged, held, strict=True):
            expected = _records(judgement.left(judgement.kafkas))
            assert differences(expected, _read(target, folder, expected)) == "", folder.tp
    finally:
        assert target.stop() == []


def test_ours_goes_on_where_kafka_was_killed_while_it_cleaned(peer_zookeeper: str, tmp_path: Path) -> None:
    """Every key's last value is there after our broker has cleaned the rest."""
    log_dir = log_dir_of(tmp_path)
    folder = make_big_folder(log_dir)
    slowly = {**_OVERRIDES, "log.cleaner.io.max.bytes.per.second": "1000000"}
    target = start_on(APACHE_KAFKA, peer_zookeeper, tmp_path, "compaction-killed", [folder], slowly)
    try:
        wait_until(lambda: bool(list(folder.path.glob("*.cleaned"))), _CLEANED_WITHIN_S, "Kafka cleans")
    finally:
        target.brokers[0].kill()
    assert list(folder.path.glob("*.log.cleaned"))
    wait_until(lambda: _is_gone(f"{peer_zookeeper}/compaction-killed"), 60, "Kafka's session ends")
    target = targets.start(
        KAFKA_ZK, peer_zookeeper, tmp_path, overrides=_OVERRIDES, chroot="compaction-killed", timeout_s=120
    )
    try:
        wait_until(lambda: is_clean(log_dir, [folder]), _CLEANED_WITHIN_S, "ours cleans the rest")
        left = _records(survivors(folder.path, 0))
        assert {record.key: record.value for record in left} == folder.last_values
        assert differences(left, _read(target, folder, left)) == ""
    finally:
        assert target.stop() == []


def test_the_command_has_kafka_clean_a_log_that_is_not_dirty_enough(peer_zookeeper: str, tmp_path: Path) -> None:
    """``kafka-zk compact`` needs only features of a Kafka broker, and restores the topic's config afterwards."""
    made = make_big_folder(log_dir_of(tmp_path))
    folder = made._replace(config={**made.config, "min.cleanable.dirty.ratio": "1.0"})
    target = start_on(APACHE_KAFKA, peer_zookeeper, tmp_path, "compaction-now", [folder], _OVERRIDES)
    try:
        wait_until(lambda: _leads(target, folder.tp.topic), 60, "a leader")
        options = ["--topic", folder.tp.topic, "--bootstrap-server", target.bootstrap, "--json"]
        done = CliRunner().invoke(compact.command, options, catch_exceptions=False)
        (row,) = json.loads(done.stdout)
        assert row["after_bytes"] < 0.5 * row["before_bytes"]
        with BlockingAdmin(bootstrap_servers=target.bootstrap) as admin:
            entries = admin.describe_topic_configs([folder.tp.topic])[folder.tp.topic]
        assert {entry.name: entry.value for entry in entries}["min.cleanable.dirty.ratio"] == "1.0"
    finally:
        target.stop()


def _is_gone(zookeeper: str) -> bool:
    client = KazooClient(zookeeper)
    client.start()
    try:
        return not client.get_children("/brokers/ids")
    finally:
        client.stop()
        client.close()

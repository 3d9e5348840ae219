"""A log with transactions goes back and forth between kafka-zk and Apache Kafka 3.9.1, stopped cleanly and killed.

Both write the same history, whose content transaction_model.py predicts. The broker that has the folder must serve this
content, and DumpLogSegments must read the same transaction indexes and snapshots as ours.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kafka_zk.storage.manager.dump import dump_file
from kafka_zk.storage.records.record_batch import RecordBatchBuilder, iter_batches
from kafka_zk.storage.segments.transaction_index import AbortedTransaction, decode_transaction_index
from tests.peers import jars, java, wire_probe
from tests.peers.logs.handover import HOLDERS, LATELY_MS, holder
from tests.peers.targets import Target
from tests.storage.transaction_model import (
    Known,
    Written,
    aborted_index,
    committed_of,
    committed_offsets,
    known_producers,
    transactions,
)

pytestmark = pytest.mark.peers

_TOPIC = "transfers"
_TRANSACTIONAL_ID = "transferring"
_PRODUCERS = (7_001, 7_002, 7_003)
_STEPS = 60
_VERIFICATION = "transaction.partition.verification.enable"


@dataclass
class Served:
    """The view of clients: the offsets of committed records, all aborted transactions in responses to consumers, the
    last stable offset, and the producers.
    """

    committed: list[int]
    aborted: set[tuple[int, int]]
    stable_offset: int
    producers: dict[int, tuple[int, int, int, int]]


@dataclass
class Holding:
    """``history`` is everything written until its end."""

    at_start: Served | None
    at_end: Served
    history: list[Written]
    index: list[AbortedTransaction]
    folder: Path


def _served(target: Target) -> Served:
    port = target.ports[0]
    position, committed, aborted = 0, list[int](), set[tuple[int, int]]()
    while True:
        found = wire_probe.fetch_committed(port, _TOPIC, position)
        assert found.error_code == 0 and found.aborted_transactions is not None
        told = [AbortedTransaction(0, each.producer_id, each.first_offset, 0, 0) for each in found.aborted_transactions]
        assert isinstance(found.records, bytes | bytearray | memoryview | None)
        records = bytes(found.records or b"")
        if not records:
            return Served(committed, aborted, found.last_stable_offset, wire_probe.open_transactions(port, _TOPIC))
        aborted |= {(each.producer_id, each.first_offset) for each in told}
        committed += [offset for offset in committed_of(records, told) if offset >= position]
        position = [header for _, header in iter_batches(records)][-1].next_offset


def _write(target: Target, history: list[Written], rng: random.Random) -> None:
    for _ in range(_STEPS):
        end = history[-1].end if history else 0
        producer = rng.choice((-1, *_PRODUCERS))
        known = known_producers(history).get(producer, Known(0, -1, -1, -1, -1))
        if producer >= 0 and rng.random() < 0.35:
            _mark(target, history, Written(end, 1, producer, known.epoch, -1, True, rng.random() < 0.5, 3))
            continue
        is_transactional = producer >= 0 and (known.first_offset >= 0 or rng.random() < 0.8)
        sequence = known.last_sequence + 1 if producer >= 0 else -1
        epoch = known.epoch if producer >= 0 else -1
        count = rng.randint(1, 3)
        builder = RecordBatchBuilder("none", producer, epoch, sequence, transactional=is_transactional)
        for number in range(count):
            builder.append(LATELY_MS, b"k", b"%d" % (end + number))
        sent = wire_probe.produce(
            target.ports[0], _TOPIC, 0, builder.build(), version=7,
            transactional_id=_TRANSACTIONAL_ID if is_transactional else None,
        )  # fmt: skip
        assert sent == (0, end)
        history.append(Written(end, count, producer, epoch, sequence, is_transactional))


def _mark(target: Target, history: list[Written], marker: Written) -> None:
    assert marker.commit is not None
    error = wire_probe.write_marker(
        target.ports[0], _TOPIC, marker.producer_id, marker.epoch,
        commit=marker.commit, coordinator_epoch=marker.coordinator_epoch,
    )  # fmt: skip
    assert error == 0
    history.append(marker)


def _index(folder: Path) -> list[AbortedTransaction]:
    paths = sorted(folder.glob("*.txnindex"))
    return [entry for path in paths for entry in decode_transaction_index(path.read_bytes())]


def _leads(target: Target) -> bool:
    return wire_probe.fetch_committed(target.ports[0], _TOPIC, 0).error_code == 0


@pytest.fixture(scope="module")
def holdings(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Holding]]:
    """All holdings, one after another; run once."""
    folder: Path = tmp_path_factory.mktemp("transaction-folders")
    rng = random.Random(21)
    history: list[Written] = []
    done: list[Holding] = []
    for number in range(len(HOLDERS)):
        with holder(number, peer_zookeeper, folder, _leads, {_VERIFICATION: "false"}) as target:
            if not number:
                target.create_topic(_TOPIC, config={"segment.bytes": "1500", "index.interval.bytes": "100"})
            at_start = _served(target) if number else None
            _write(target, history, rng)
            at_end = _served(target)
        found = target.partition_dir(_TOPIC, 0)
        done.append(Holding(at_start, at_end, list(history), _index(found), found))
    yield done


_EACH = pytest.mark.parametrize("number", range(len(HOLDERS)), ids=[f"{name}-{how}" for name, how in HOLDERS])


def _expected(history: list[Written]) -> Served:
    end = history[-1].end
    found = transactions(history)
    stable = min((each.first_offset for each in found if each.marker is None), default=end)
    aborted = {
        (each.producer_id, each.first_offset)
        for each in found
        if each.marker is not None and not each.marker.commit and each.first_offset < stable
    }
    producers = {
        name: (known.epoch, known.last_sequence, known.coordinator_epoch, known.first_offset)
        for name, known in known_producers(history).items()
    }
    return Served([offset for offset in committed_offsets(history) if offset < stable], aborted, stable, producers)


@_EACH
def test_each_holder_serves_what_was_written(holdings: list[Holding], number: int) -> None:
    assert holdings[number].at_end == _expected(holdings[number].history)


@pytest.mark.parametrize("number", range(1, len(HOLDERS)))
def test_the_next_holder_serves_the_same(holdings: list[Holding], number: int) -> None:
    """The next holder serves the same after a clean stop and after a kill."""
    assert holdings[number].at_start == holdings[number - 1].at_end


@_EACH
def test_each_holder_writes_the_same_index(holdings: list[Holding], number: int) -> None:
    assert holdings[number].index == aborted_index(holdings[number].history)


def test_there_was_something_to_get_wrong(holdings: list[Holding]) -> None:
    """Several segments have aborted transactions, and some transactions stayed open while the holder changed."""
    last = holdings[-1]
    assert len([path for path in last.folder.glob("*.txnindex") if path.stat().st_size]) >= 3
    open_at_ends = [
        each for holding in holdings for each in transactions(holding.history) if each.marker is None
    ]
    assert len(open_at_ends) >= 3


def test_dump_log_segments_reads_indexes_and_snapshots_as_ours_does(holdings: list[Holding]) -> None:
    folder = holdings[-1].folder
    paths = [path for suffix in ("txnindex", "snapshot") for path in sorted(folder.glob(f"*.{suffix}"))]
    names = ",".join(map(str, paths))
    run = java.run_tool(jars.ORACLE_VERSION, "kafka.tools.DumpLogSegments", ["--files", names])
    assert run.stderr == ""
    theirs = [
        tuple(int(each) for each in re.findall(r"(?:version|\w+Id|\w+Epoch|\w+Offset|\w+Sequence): (-?\d+)", line))
        for line in run.text.splitlines()
        if line.startswith(("version:", "producerId:"))
    ]
    ours = []
    for path in paths:
        for row in dump_file(path):
            keys: tuple[str, ...] = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
            if path.suffix == ".snapshot":
                keys = ("producerId", "producerEpoch", "coordinatorEpoch")
                if row["lastOffset"] >= 0:
                    keys += ("firstSequence", "lastSequence", "lastOffset")
            ours.append(tuple(row[key] for key in keys))
    assert ours == theirs and len(ours) > 10


def test_dump_log_segments_reads_our_markers(holdings: list[Holding]) -> None:
    folder = holdings[-1].folder
    paths = sorted(folder.glob("*.log"))
    run = java.run_tool(
        jars.ORACLE_VERSION, "kafka.tools.DumpLogSegments",
        ["--deep-iteration", "--files", ",".join(map(str, paths))],
    )  # fmt: skip
    assert run.stderr == ""
    theirs = re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", run.text)
    ours = [
        (row["endTxnMarker"], str(row["coordinatorEpoch"]))
        for path in paths
        for row in dump_file(path, records=True)
        if row.get("endTxnMarker") is not None
    ]
    assert ours == theirs == [
        ("COMMIT" if each.commit else "ABORT", "3") for each in holdings[-1].history if each.commit is not None
    ]

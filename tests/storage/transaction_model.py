"""Random histories of a log with transactions, and a simple model of the expected state.

The model keeps every batch in a list. The list alone determines the visible records, the aborted transactions and the
state of each producer.
"""

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import NamedTuple

from kafka_zk.base.types import FetchIsolation
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.producer_snapshot import ProducerEntry, decode_snapshot
from kafka_zk.storage.records.end_transaction_marker import marker_batch
from kafka_zk.storage.records.log_validator import validate_batch
from kafka_zk.storage.records.record_batch import iter_batches
from kafka_zk.storage.records.record_decoder import decode_records
from kafka_zk.storage.segments.transaction_index import ENTRY_SIZE, AbortedTransaction, decode_transaction_index
from tests.storage.helpers import T0, batch, new_log, present, reopen

PRODUCERS = range(1, 5)
PLAIN = -1


class Written(NamedTuple):
    """A batch of the log. ``commit``: None for a batch with records, otherwise whether its marker commits."""

    offset: int
    record_count: int
    producer_id: int
    epoch: int
    sequence: int
    is_transactional: bool
    commit: bool | None = None
    coordinator_epoch: int = -1

    @property
    def end(self) -> int:
        return self.offset + self.record_count


class Transaction(NamedTuple):
    """``marker`` is None while it is open."""

    producer_id: int
    first_offset: int
    marker: Written | None
    batches: tuple[Written, ...]


class Known(NamedTuple):
    """The log's state of a producer."""

    epoch: int
    last_sequence: int
    last_offset: int
    coordinator_epoch: int
    first_offset: int  # first offset of its open transaction, -1 if there is none


def transactions(history: list[Written]) -> list[Transaction]:
    """Transactions in the order of their first offsets."""
    found: list[Transaction] = []
    open_: dict[int, list[Written]] = {}
    for each in history:
        if each.commit is not None:
            batches = open_.pop(each.producer_id, None)
            if batches:
                found.append(Transaction(each.producer_id, batches[0].offset, each, tuple(batches)))
        elif each.is_transactional:
            open_.setdefault(each.producer_id, []).append(each)
    found += [Transaction(name, batches[0].offset, None, tuple(batches)) for name, batches in open_.items()]
    return sorted(found, key=lambda each: each.first_offset)


def aborted_index(history: list[Written]) -> list[AbortedTransaction]:
    """The expected entries of the transaction indexes, in the order of the markers."""
    entries = []
    for each in transactions(history):
        if each.marker is None or each.marker.commit:
            continue
        marker = each.marker.offset
        still_open = [
            other.first_offset
            for other in transactions(history)
            if other.first_offset < marker and (other.marker is None or other.marker.offset > marker)
        ]
        entries.append(
            AbortedTransaction(0, each.producer_id, each.first_offset, marker, min(still_open, default=marker + 1))
        )
    return sorted(entries, key=lambda entry: entry.last_offset)


def known_producers(history: list[Written]) -> dict[int, Known]:
    known: dict[int, Known] = {}
    for each in history:
        if each.producer_id == PLAIN:
            continue
        before = known.get(each.producer_id, Known(each.epoch, -1, -1, -1, -1))
        if before.epoch != each.epoch:
            before = before._replace(epoch=each.epoch, last_sequence=-1, last_offset=-1)
        if each.commit is not None:
            before = before._replace(coordinator_epoch=each.coordinator_epoch, first_offset=-1)
        else:
            before = before._replace(last_sequence=each.sequence + each.record_count - 1, last_offset=each.end - 1)
            if each.is_transactional and before.first_offset < 0:
                before = before._replace(first_offset=each.offset)
        known[each.producer_id] = before
    return known


def producers_of(log: Log) -> dict[int, Known]:
    """The actual producer state of a log."""
    return _as_known(log.producers.producers.values())


def _as_known(entries: Iterable[ProducerEntry]) -> dict[int, Known]:
    return {
        entry.producer_id: Known(
            entry.producer_epoch, entry.last_sequence, entry.last_offset, entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
        for entry in entries
    }  # fmt: skip


def committed_offsets(history: list[Written]) -> list[int]:
    """Offsets of records that are in no transaction, or in one that was committed."""
    decided = {
        each: None if transaction.marker is None else transaction.marker.commit
        for transaction in transactions(history)
        for each in transaction.batches
    }
    return [
        offset
        for each in history
        if each.commit is None and decided.get(each, True)
        for offset in range(each.offset, each.end)
    ]


class TransactionHistory:
    """A log, and the batches written to it. ``is_exact``: the log has not been reloaded since its start moved; a reload
    may lose state from records before the start."""

    def __init__(self, path: Path, rng: Random) -> None:
        self.rng = rng
        self.log = new_log(path, segment_bytes=rng.choice((400, 900, 5000)), file_delete_delay_ms=0)
        self.log.update_high_watermark(0)
        self.history: list[Written] = []
        self.is_exact = True
        self.was_read_anew = False

    @property
    def end(self) -> int:
        return self.history[-1].end if self.history else 0

    # -- what happens ---------------------------------------------------------------------------------------------

    def append(self) -> None:
        rng = self.rng
        producer = rng.choice((PLAIN, *PRODUCERS))
        count = rng.randint(1, 3)
        known = self._known().get(producer, Known(0, -1, -1, -1, -1))
        is_transactional = producer != PLAIN and (known.first_offset >= 0 or rng.random() < 0.8)
        sequence = known.last_sequence + 1 if producer != PLAIN else -1
        epoch = known.epoch if producer != PLAIN else -1
        data = batch(
            count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=is_transactional
        )
        self._write(data, Written(self.end, count, producer, epoch, sequence, is_transactional))

    def mark(self) -> None:
        """Append a marker, also without an open transaction; sometimes with the next epoch, which fences the
        producer."""
        rng = self.rng
        producer = rng.choice(PRODUCERS)
        known = self._known().get(producer, Known(0, -1, -1, -1, -1))
        commit = rng.random() < 0.5
        epoch = known.epoch + (0 if commit else rng.randint(0, 1))
        coordinator_epoch = max(0, known.coordinator_epoch) + rng.randint(0, 1)
        data = marker_batch(producer, epoch, coordinator_epoch, is_commit=commit, timestamp_ms=T0)
        self._write(data, Written(self.end, 1, producer, epoch, -1, True, commit, coordinator_epoch))

    def _known(self) -> dict[int, Known]:
        return known_producers(self.history) if self.is_exact else producers_of(self.log)

    def _write(self, data: bytearray, written: Written) -> None:
        if self.rng.random() < 0.5:
            self.log.append_as_leader(
                data, validate_batch(data), leader_epoch=0, now_ms=T0, from_client=written.commit is None
            )
        else:
            data[:8] = written.offset.to_bytes(8, "big")
            data[12:16] = bytes(4)
            self.log.append_as_follower(bytes(data), now_ms=T0)
        self.history.append(written)

    def commit_more(self) -> None:
        ends = [each.end for each in self.history if each.end > self.log.high_watermark]
        if ends:
            self.log.update_high_watermark(self.rng.choice(ends))

    def flush(self) -> None:
        self.log.flush(self.rng.choice([self.end, *(each.end for each in self.history)]))

    def truncate(self) -> None:
        """Truncate to an offset that is not below the high watermark."""
        self.log.truncate_to(self.rng.randint(self.log.high_watermark, self.end), T0)
        self._lost_from(self.log.log_end_offset)

    def delete(self) -> None:
        """Run DeleteRecords, and retention of whole segments."""
        self.log.increment_log_start_offset(self.rng.randint(self.log.log_start_offset, self.log.high_watermark))
        self.log.delete_old_segments(T0)

    def restart(self) -> None:
        mark = self.log.high_watermark
        self.log.flush()
        self.log.close()
        self._damage(".snapshot", 0)
        self._damage(".txnindex", 0)
        self._reopen(clean=True, recovery_point=self.end, mark=mark)

    def crash(self) -> None:
        """Simulate a power loss: any part of the unflushed data may be lost."""
        log, rng = self.log, self.rng
        ends = [0, *(each.end for each in self.history if each.end <= log.recovery_point)]
        recovery_point = rng.choice((log.recovery_point, rng.choice(ends)))  # the checkpoint may be older
        mark = log.high_watermark
        first_lost = next((each.offset for each in self.history if each.end > log.recovery_point), self.end)
        if rng.random() < 0.5:
            active = log.segments.active
            span = active.find(max(first_lost, log.recovery_point, log.log_start_offset))
            if span is not None and span.base_offset >= log.log_start_offset:
                with open(active.path, "r+b") as file:
                    file.truncate(rng.randint(span.position, active.size_bytes))
        if rng.random() < 0.5:
            self._lose_transactions(log.recovery_point)
        self._damage(".snapshot", 0)
        log.segments.close_files()
        self._reopen(clean=False, recovery_point=recovery_point, mark=mark)

    def _lose_transactions(self, recovery_point: int) -> None:
        """Simulate a power loss that removed entries that were not durable, or restored some that a truncation had
        removed."""
        for path in self.log.directory.glob("*.txnindex"):
            entries = decode_transaction_index(path.read_bytes())
            durable = len([entry for entry in entries if entry.last_offset < recovery_point])
            kept = self.rng.randint(durable, len(entries))
            path.write_bytes(path.read_bytes()[: kept * ENTRY_SIZE + self.rng.choice((0, 0, 5))])

    def _damage(self, suffix: str, least: int) -> None:
        for path in self.log.directory.glob(f"*{suffix}"):
            if self.rng.random() < 0.1 and path.stat().st_size > least:
                with open(path, "ab") as file:
                    file.write(b"damaged")

    def _reopen(self, *, clean: bool, recovery_point: int, mark: int) -> None:
        start = self.log.log_start_offset
        self.log, _ = reopen(self.log, clean=clean, recovery_point=recovery_point, log_start_offset=start)
        self._lost_from(self.log.log_end_offset)
        self.log.update_high_watermark(min(mark, self.end))

    def _lost_from(self, end: int) -> None:
        self.history = [each for each in self.history if each.offset < end]
        assert self.end == end or not self.history
        self.was_read_anew = True
        self.is_exact = self.is_exact and self.log.log_start_offset == 0

    # -- what must be so ------------------------------------------------------------------------------------------

    def check(self) -> None:
        self._check_stable_offset()
        self._check_readers()
        if self.is_exact:
            assert producers_of(self.log) == known_producers(self.history)
            start = self.log.segments[0].base_offset
            expected = [entry for entry in aborted_index(self.history) if entry.last_offset >= start]
            assert self._index_entries() == expected
            self._check_snapshots()

    def _check_snapshots(self) -> None:
        """Check that each snapshot equals the state of the log up to its offset."""
        for path in self.log.directory.glob("*.snapshot"):
            if path.read_bytes().endswith(b"damaged"):
                continue
            known = known_producers([each for each in self.history if each.offset < int(path.stem)])
            found = _as_known(decode_snapshot(path.read_bytes()))
            assert found == known, path

    def _index_entries(self) -> list[AbortedTransaction]:
        """The entries in the files of the log's segments."""
        return [
            entry
            for segment in self.log.segments
            if Path(segment.transaction_index.path).exists()
            for entry in decode_transaction_index(Path(segment.transaction_index.path).read_bytes())
        ]

    def _check_stable_offset(self) -> None:
        mark, start = self.log.high_watermark, self.log.log_start_offset
        found = transactions(self.history)
        undecided = [each.first_offset for each in found if each.marker is None]
        unreplicated = [each.first_offset for each in found if each.marker and each.marker.offset >= mark]
        least = max(start, min((*undecided, *unreplicated, mark)))
        most = max(start, min((*undecided, mark)))
        stable = self.log.last_stable_offset
        if not self.is_exact:
            gone = [each for each in found if each.first_offset < start and each.marker is None]
            kept = [each.offset for t in gone for each in t.batches if each.end > start]
            others = [each.first_offset for each in found if each.marker is None and each not in gone]
            most = max(start, min((*kept, *others, mark)))
        assert least <= stable <= most, (least, stable, most)
        assert stable == least or self.was_read_anew

    def _check_readers(self) -> None:
        """Check that a consumer of committed records, with the algorithm of the Java client, gets exactly the expected
        records.
        """
        log = self.log
        position = begin = self.rng.randint(log.log_start_offset, max(log.log_start_offset, log.last_stable_offset))
        end = log.last_stable_offset
        seen: list[int] = []
        while position < end:
            read = log.read(position, self.rng.choice((1, 200, 2000)), isolation=FetchIsolation.TXN_COMMITTED)
            assert read.slice is not None
            aborted = log.aborted_transactions(position, read.next_offset)
            seen += [offset for offset in committed_of(read.slice.read(), aborted) if offset >= position]
            position = read.next_offset
        assert position == end or begin > end
        wanted = [offset for offset in committed_offsets(self.history) if begin <= offset < end]
        assert seen == wanted


def committed_of(data: bytes, aborted: list[AbortedTransaction]) -> list[int]:
    """The records of a fetch that a consumer returns. Source: CompletedFetch.nextFetchedRecord@3.9."""
    left = sorted(aborted, key=lambda entry: entry.first_offset)
    skipped: set[int] = set()
    found = []
    for at, header in iter_batches(data):
        while left and left[0].first_offset <= header.last_offset:
            skipped.add(left.pop(0).producer_id)
        if header.is_control:
            marker = next(iter(decode_records(data, at)), None)  # a batch that compaction has emptied has no records
            if marker is not None and present(marker.key)[3] == 0:
                skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            found += [record.offset for record in decode_records(data, at)]
    return found


def run_history(path: Path, seed: int, steps: int = 60) -> TransactionHistory:
    """Random operations on a log, with all checks after each step."""
    rng = Random(seed)
    path.mkdir(exist_ok=True)
    made = TransactionHistory(path, rng)
    common = [made.append] * 8 + [made.mark] * 6 + [made.commit_more] * 3 + [made.flush] * 2
    rare = [made.truncate, made.restart, made.crash, made.crash] + ([made.delete] if rng.random() < 0.5 else [])
    for _ in range(rng.randint(1, steps)):
        rng.choice(common + rare)()
        made.check()
    return made

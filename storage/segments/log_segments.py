"""The segments of one log: lookup, reads, rolling, truncation, flushes, deletion and renames.

``log.Log`` decides which offsets are valid and when work is due. The end of each read is remembered, so that the
consumer's next fetch, which begins there, needs no index lookup.
Source: LogSegments.java, LocalLog.scala@3.9. Tests: tests/storage/log/test_log_files.py, tests/storage/log/test_log.py.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import NamedTuple, overload

from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.storage.files.errors import OffsetMovedToTieredStorage
from kafka_zk.storage.files.file_pool import FilePool
from kafka_zk.storage.files.filenames import SNAPSHOT_SUFFIX, SWAP_SUFFIX, offset_file
from kafka_zk.storage.files.files import remove_file, rename, sync_file, sync_path
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.segments.file_slice import FileSlice
from kafka_zk.storage.segments.segment import NEVER_MS, Segment, open_segment
from kafka_zk.storage.segments.segment_swap import begin_swap, end_swap
from kafka_zk.storage.segments.set_aside import set_aside
from kafka_zk.storage.segments.timestamp_search import Search, SearchWork, search_segment
from kafka_zk.storage.segments.transaction_index import AbortedTransaction

_REMEMBERED_POSITIONS = 16


class LogRead(NamedTuple):
    """``next_offset``: where the next read continues. ``too_big``: the first batch exceeds the limit, and none is
    returned."""

    slice: FileSlice | None
    next_offset: int
    too_big: bool


class PendingRemoval(NamedTuple):
    """A segment renamed to ``.deleted``, whose files may be removed from ``due_ms`` on."""

    due_ms: int
    segment: Segment


class SegmentsFlush:
    """A flush of segments, which are pinned so that another thread can sync them.

    It syncs the indexes of closed segments, which recovery does not check again, and transaction indexes, which
    recovery trusts up to the recovery point. Other indexes of the active segment are only written.
    """

    __slots__ = ("_descriptors", "_paths", "_pinned", "_synced", "is_done")

    def __init__(self, segments: Sequence[Segment], paths: Sequence[str]) -> None:
        """``paths``: synced after the segments. Raises: OSError; then none is pinned."""
        self.is_done = False
        self._paths: list[str] = []
        self._pinned: list[Segment] = []
        self._synced: list[Callable[[], None]] = []
        try:
            for segment in segments:
                segment.pin()
                self._pinned.append(segment)
                segment.write_out_indexes()
                if not segment.is_active:
                    self._paths += [segment.offset_index.path, segment.time_index.path]
                transactions_path, synced = segment.prepare_transactions_sync()
                self._synced.append(synced)
                if transactions_path is not None:
                    self._paths += [transactions_path, segment.directory]
        except OSError:
            self.release()
            raise
        self._descriptors = [segment.fileno() for segment in segments]
        self._paths += paths

    def run(self) -> None:
        """Sync, on any thread. Raises: OSError."""
        for descriptor in self._descriptors:
            sync_file(descriptor)
        for path in self._paths:
            with suppress(FileNotFoundError):  # retention or a topic deletion removed it
                sync_path(path)
        self.is_done = True

    def release(self) -> None:
        """Unpin the segments, after ``run`` or its failure."""
        for synced in self._synced if self.is_done else ():
            synced()
        for segment in self._pinned:
            segment.unpin()
        self._pinned.clear()


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


class LogSegments:
    """The segments in a partition's directory, ascending and never empty. ``active`` is the last segment."""

    __slots__ = (
        "_positions", "_random", "_replacing", "_segments", "_with_aborted", "active", "directory", "pending_removals",
        "pool",
    )  # fmt: skip

    def __init__(self, directory: str, pool: FilePool, segments: list[Segment], random: Random = SYSTEM_RANDOM) -> None:
        self.directory = directory
        self.pool = pool
        self._random = random
        self.pending_removals: list[PendingRemoval] = []
        self._segments = segments
        self._positions: dict[int, tuple[Segment, int]] = {}  # offset -> (segment, position) of its batch
        self._with_aborted: list[Segment] | None = None  # None: unknown
        self._replacing: Iterator[Callable[[], None]] | None = None
        self._activate_last()

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @overload
    def __getitem__(self, slot: int) -> Segment: ...

    @overload
    def __getitem__(self, slot: slice) -> list[Segment]: ...

    def __getitem__(self, slot: int | slice) -> Segment | list[Segment]:
        return self._segments[slot]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    def slot_of(self, offset: int) -> int:
        """Index of the segment for ``offset``; 0 if the offset is before all segments."""
        return max(bisect_right(self._segments, offset, key=_base_offset) - 1, 0)

    def _following(self, segment: Segment) -> Segment | None:
        slot = bisect_right(self._segments, segment.base_offset, key=_base_offset)
        return self._segments[slot] if slot < len(self._segments) else None

    def _activate_last(self) -> None:
        self.active = self._segments[-1]
        self.active.is_active = True
        self.active.young_until_ms = NEVER_MS  # the configuration may have changed since it was last active
        self._forget_places()

    def _forget_places(self) -> None:
        self._positions.clear()
        self._with_aborted = None

    # -- begin, cut, delete -------------------------------------------------------------------------------------

    def begin(self, base_offset: int, config: LogConfig, now_ms: int) -> None:
        """Add an empty active segment, without closing the previous one as ``roll`` does."""
        self._segments.append(
            open_segment(self.directory, base_offset, config, self.pool, now_ms, size_bytes=None, random=self._random)
        )
        self._activate_last()

    def roll(self, base_offset: int, config: LogConfig, now_ms: int) -> None:
        if self.active.is_unmade:
            self.active.fileno()  # this creates the files, whose names preserve the next offset
        self.active.write_out_indexes(final=True)
        self.active.is_active = False
        self.begin(base_offset, config, now_ms)

    def end_before(self, offset: int) -> int:
        """The end of the last batch before ``offset``; the base offset of the segment if there is none. Compaction can
        leave a gap between the two."""
        segment = self._segments[self.slot_of(offset)]
        end_offset = segment.base_offset
        for span in segment.spans(segment.position_for(offset - 1)):
            if span.last_offset >= offset:
                break
            end_offset = span.last_offset + 1
        return end_offset

    def truncate_to(self, offset: int, due_ms: int, *, keeps: bool = False) -> tuple[int, str | None]:
        """Durably drop all batches that contain or follow ``offset``. Returns the new log end offset and, if ``keeps``,
        the folder to which the dropped records were moved (``set_aside``).

        ``offset`` must not be before the first segment. Dropped segments are removed at ``due_ms``.
        """
        self.settle()
        behind = [segment for segment in self._segments if segment.base_offset > offset]
        last = self._segments[-len(behind) - 1]
        span = last.find(offset)
        kept_as = None
        if keeps:
            kept_as = set_aside(self.directory, offset, behind, None if span is None else (last, span.position))
            del self._segments[len(self._segments) - len(behind) :]
        else:
            self.drop(behind, due_ms)
        if behind:
            sync_path(self.directory)  # dropped segments must not reappear beside new ones
        if span is not None:
            last.truncate_to_position(span.position)
            sync_file(last.fileno())  # once another segment follows, recovery does not read this end again
        self._activate_last()
        return offset if span is None else min(offset, span.base_offset), kept_as  # compaction leaves gaps

    def replace_all(self, base_offset: int, config: LogConfig, now_ms: int) -> None:
        """Durably drop all segments and begin an empty one."""
        self.settle()
        self.drop(list(self._segments), now_ms + config.file_delete_delay_ms)
        self.begin(base_offset, config, now_ms)
        sync_path(self.directory)

    def drop(self, dropped: Sequence[Segment], due_ms: int) -> None:
        """Remove segments and rename their files; ``take_due`` returns them from ``due_ms`` on."""
        for segment in dropped:
            self._segments.remove(segment)
            segment.is_active = False
            segment.mark_deleted()
            remove_file(f"{self.directory}/{offset_file(segment.base_offset, SNAPSHOT_SUFFIX)}")
            self.pending_removals.append(PendingRemoval(due_ms, segment))
        self._forget_places()

    def replace_steps(
        self, replaced: Sequence[Segment], size_bytes: int, config: LogConfig, now_ms: int
    ) -> Iterator[Callable[[], None]]:
        """Durably replace adjacent segments by a cleaned one of ``size_bytes``.

        Each step yields an fsync to run, on any thread, before the next step. Between steps, the log can be read and
        written; operations that change segments finish the steps first (``settle``). The old files are removed after
        ``file.delete.delay.ms``. Raises: OSError; a restart finds either the old or the new files.
        """
        self.settle()
        replacing = self._replacing = self._replace(list(replaced), size_bytes, config, now_ms)
        return (sync for sync in replacing)  # if the caller stops, ``settle`` can still finish the replacement

    def _replace(
        self, replaced: list[Segment], size_bytes: int, config: LogConfig, now_ms: int
    ) -> Iterator[Callable[[], None]]:
        directory, base_offset = self.directory, replaced[0].base_offset
        begin_swap(directory, base_offset)
        yield partial(sync_path, directory)
        for segment in replaced:
            segment.mark_deleted()
            self.pending_removals.append(PendingRemoval(now_ms + config.file_delete_delay_ms, segment))
        cleaned = open_segment(directory, base_offset, config, self.pool, now_ms, size_bytes=size_bytes)
        cleaned.take_suffix(SWAP_SUFFIX)
        slot = self._segments.index(replaced[0])
        self._segments[slot : slot + len(replaced)] = [cleaned]
        self._forget_places()
        for segment in replaced[1:]:
            remove_file(f"{directory}/{offset_file(segment.base_offset, SNAPSHOT_SUFFIX)}")
        yield partial(sync_path, directory)
        end_swap(directory, base_offset)
        cleaned.take_suffix("")
        self._forget_places()
        yield partial(sync_path, directory)
        self._replacing = None

    def settle(self) -> None:
        """Finish a replacement that waits for an fsync. Raises: OSError; the next call then tries again."""
        replacing = self._replacing
        if replacing is not None:
            sync_path(self.directory)  # the last requested fsync may still be running, or have failed
            for sync in replacing:
                sync()
            self._replacing = None

    def take_due(self, now_ms: int) -> list[Callable[[], None]]:
        """Functions for any thread that delete the files of segments whose delay is over. Slices stay readable."""
        due = [removal for removal in self.pending_removals if removal.due_ms <= now_ms]
        self.pending_removals = [removal for removal in self.pending_removals if removal.due_ms > now_ms]
        return [removal.segment.prepare_removal() for removal in due]

    # -- read ---------------------------------------------------------------------------------------------------

    def read(self, fetch_offset: int, max_bytes: int, upper: int, end_offset: int, min_one_batch: bool) -> LogRead:
        """See ``Log.read``; ``fetch_offset < upper <= end_offset``, the log end offset."""
        segments = self._segments
        if fetch_offset < segments[0].base_offset:
            raise OffsetMovedToTieredStorage(f"{self.directory}: offset {fetch_offset} is before the local segments")
        known = self._positions.get(fetch_offset)
        if known is not None and known[1] < known[0].size_bytes:
            segment, start = known
            is_last = segment is segments[-1]
            next_base = end_offset if is_last else segments[self.slot_of(segment.base_offset) + 1].base_offset
        else:
            slot = self.slot_of(fetch_offset)
            while True:
                segment = segments[slot]
                span = segment.find(fetch_offset)
                slot += 1
                if span is not None or slot == len(segments):
                    break
            if span is None:
                return LogRead(None, fetch_offset, False)
            start = span.position
            next_base = end_offset if slot == len(segments) else segments[slot].base_offset
        return self._slice(segment, start, fetch_offset, max_bytes, upper, next_base, min_one_batch)

    def _slice(
        self,
        segment: Segment,
        start: int,
        fetch_offset: int,
        max_bytes: int,
        upper: int,
        next_base: int,
        min_one_batch: bool,
    ) -> LogRead:
        """Cut the slice at the segment's end, at ``upper``, or after the last batch that fits."""
        end = segment.size_bytes
        next_offset = next_base
        if upper < next_base:
            next_offset = upper
            known = self._positions.get(upper)  # an in-sync follower has read up to the high watermark
            if known is not None and known[0] is segment:
                end = known[1]
            elif (span := segment.find(upper)) is not None:
                end, next_offset = span.position, span.base_offset
        if end <= start:
            return LogRead(None, fetch_offset, False)
        if end - start > max_bytes:
            boundary, offset, first_size = segment.boundary(start, start + max_bytes)
            if boundary > start:
                end, next_offset = boundary, offset
            elif not min_one_batch:
                return LogRead(None, fetch_offset, True)
            elif start + first_size < end:
                end = start + first_size
                next_offset = segment.header_at(end).base_offset
        positions = self._positions
        if len(positions) >= _REMEMBERED_POSITIONS:
            del positions[next(iter(positions))]
        positions[next_offset] = (segment, end)
        return LogRead(FileSlice(segment, start, end - start), next_offset, False)

    def is_behind(self, found: FileSlice, upper: int) -> bool:
        """True if more batches before ``upper`` follow the slice. Raises: OSError, CorruptRecord."""
        segment, end = found.segment, found.position + found.size_bytes
        if end < segment.size_bytes:
            return segment.header_at(end).last_offset < upper
        slot = self.slot_of(segment.base_offset) + 1
        return slot < len(self._segments) and self._segments[slot].base_offset < upper

    def offset_for_timestamp(self, timestamp_ms: int, start_offset: int) -> Search:
        """Find the first record at or after ``start_offset`` with a timestamp of at least ``timestamp_ms``.

        Segments may be added and deleted while the search is suspended.
        """
        segment: Segment | None = self._segments[self.slot_of(start_offset)]
        while segment is not None:
            if segment.max_timestamp_ms >= timestamp_ms:
                position = segment.position_for_timestamp(timestamp_ms, start_offset)
                work = SearchWork(position, segment.size_bytes, timestamp_ms, start_offset)
                found = yield from search_segment(segment, work)
                if found is not None:
                    return found
            yield None
            segment = self._following(segment)
        return None

    def max_timestamp_offset(self) -> Search:
        """Find the first record with the largest timestamp; without timestamps the first record, as in Kafka."""
        newest: Segment | None = None
        segment: Segment | None = self._segments[0]
        while segment is not None:
            if newest is None or segment.max_timestamp_ms > newest.max_timestamp_ms:
                newest = segment
            yield None
            segment = self._following(segment)
        if newest is not None and newest not in self._segments:  # retention deleted the segment between two steps
            return (yield from self.max_timestamp_offset())
        if newest is None or not newest.size_bytes:  # no records, possibly no files
            return None
        span = newest.find(newest.max_timestamp_offset)
        if span is None:
            return None
        largest_ms = newest.header_at(span.position).max_timestamp
        return (
            yield from search_segment(newest, SearchWork(span.position, span.position + span.size_bytes, largest_ms, 0))
        )

    # -- aborted transactions -----------------------------------------------------------------------------------

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Add an aborted transaction whose marker was appended."""
        self.active.transaction_index.append(aborted)
        self._with_aborted = None

    def replace_aborted(self, start_offset: int, aborted: Iterable[AbortedTransaction]) -> None:
        """Replace the entries of markers at or after ``start_offset`` by ``aborted``, ascending."""
        first = self.slot_of(start_offset)
        of_segment: dict[int, list[AbortedTransaction]] = {slot: [] for slot in range(first, len(self._segments))}
        for entry in aborted:
            of_segment[self.slot_of(entry.last_offset)].append(entry)
        for slot, entries in of_segment.items():
            if entries or self._segments[slot].has_transaction_index:
                self._segments[slot].transaction_index.replace(start_offset, entries)
        self._with_aborted = None

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions with records in ``[start_offset, end_offset)``, even if their markers are in later
        segments.

        Source: LocalLog.collectAbortedTransactions@3.9.
        """
        indexed = self._with_aborted
        if indexed is None:
            indexed = self._with_aborted = [each for each in self._segments if each.transaction_index.entries]
        found: list[AbortedTransaction] = []
        first = bisect_right(indexed, start_offset, key=_base_offset) - 1
        for segment in indexed[max(first, 0) :]:
            entries, is_complete = segment.transaction_index.collect(start_offset, end_offset)
            found += entries
            if is_complete:
                break
        return found

    # -- durability, closing, names -----------------------------------------------------------------------------

    def prepare_flush(self, recovery_point: int, up_to: int, replaced_files: Iterable[str] = ()) -> SegmentsFlush:
        """Prepare a flush from ``recovery_point`` to ``up_to``, which also syncs ``replaced_files`` and the
        directory."""
        segments = [each for each in self._segments[self.slot_of(recovery_point) :] if each.base_offset < up_to]
        paths = list(replaced_files)
        if paths or (segments and recovery_point <= segments[-1].base_offset):
            paths.append(self.directory)
        if not recovery_point:
            paths.append(os.path.dirname(self.directory))
        return SegmentsFlush(segments, paths)

    def close(self, sync: Callable[[str], None]) -> None:
        """Write the indexes and close the files; ``sync`` makes a path durable, now or later."""
        self.settle()
        for segment in self._segments:
            segment.close(sync)

    def close_files(self) -> None:
        """Close files without writing, except those pinned by slices. This is for a deleted log or a failed
        directory."""
        for segment in (*self._segments, *(removal.segment for removal in self.pending_removals)):
            segment.release_file()

    def rename_to_delete(self, directory: str) -> None:
        """Rename the partition's directory for deletion. Slices stay readable."""
        self.move_to(directory)
        for segment in self._segments:
            segment.abandon()

    def move_to(self, directory: str) -> None:
        self.settle()
        rename(self.directory, directory)
        self.directory = directory
        for segment in self._segments:
            segment.move_to(directory)
        for removal in self.pending_removals:
            removal.segment.move_to(directory)

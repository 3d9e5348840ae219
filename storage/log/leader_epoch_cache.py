"""Each leader epoch's start offset. Followers use these offsets to find where their log diverges.

Epochs and offsets are kept in memory and in ``leader-epoch-checkpoint``. The first append of an epoch writes the file.
Unlike in Kafka, the file becomes durable only when records are flushed (``prepare_sync``), and a power loss may leave
it empty. Recovery then reads the epochs from the batches. A tiered log's older batches are only in remote storage, so
its file is synced with each write.
Source: KIP-101, LeaderEpochFileCache.java@3.9.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

from kafka_zk.storage.files.checkpoints import MAX_INT, MAX_OFFSET, format_checkpoint, parse_checkpoint, parse_number
from kafka_zk.storage.files.errors import CorruptCheckpoint
from kafka_zk.storage.files.files import read_file, write_atomically

NO_EPOCH = -1
NO_OFFSET = -1
_STALE = -2  # value of written_epoch while the file is not up to date


class LeaderEpochCache:
    """Epochs and their start offsets, both strictly ascending.

    ``written_epoch``: the newest epoch if the file is up to date; call ``assign`` before appending in another epoch.
    ``syncs_each_write``: False by default.
    """

    __slots__ = ("_epochs", "_path", "_starts", "_synced_count", "_write_count", "syncs_each_write", "written_epoch")

    def __init__(self, path: str) -> None:
        self.written_epoch = NO_EPOCH
        self.syncs_each_write = False
        self._write_count = self._synced_count = 0
        self._path = path
        self._epochs: list[int] = []
        self._starts: list[int] = []

    def load(self) -> None:
        """Read the file, if it exists.

        Raises: CorruptCheckpoint; the cache is then empty, to be rebuilt from batches.
        """
        path = self._path
        data = read_file(path)
        if data is None:
            return
        rows = [
            (parse_number(epoch, MAX_INT, path), parse_number(start, MAX_OFFSET, path))
            for epoch, start in parse_checkpoint(data, 2, path)
        ]
        for before, after in pairwise(rows):
            if after[0] <= before[0] or after[1] <= before[1]:
                raise CorruptCheckpoint(f"{path}: epoch {after[0]} at {after[1]} follows {before[0]} at {before[1]}")
        for epoch, start in rows:
            self._add(epoch, start)
        self.written_epoch = self.latest_epoch

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(Epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest_epoch(self) -> int:
        """The newest epoch; -1 if there is none."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def begin(self, epoch: int, start_offset: int) -> None:
        """Add ``epoch``, which begins at ``start_offset``, the log end offset. Older and known epochs are ignored."""
        if epoch >= 0 and self._add(epoch, start_offset):
            self.written_epoch = _STALE

    def assign(self, epoch: int, start_offset: int) -> None:
        """Like ``begin``, but also write the file if needed. Call this before appending a record."""
        self.begin(epoch, start_offset)
        if self.written_epoch == _STALE:
            self._write()

    def _add(self, epoch: int, start_offset: int) -> bool:
        if self._epochs and epoch <= self._epochs[-1]:
            return False
        while self._starts and self._starts[-1] >= start_offset:  # drops epochs without records
            self._starts.pop()
            self._epochs.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(Largest known epoch <= ``epoch``, offset after its last record); (-1, -1) if unknown."""
        if epoch < 0 or not self._epochs:
            return NO_EPOCH, NO_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        slot = bisect_right(self._epochs, epoch)
        if slot == len(self._epochs):
            return NO_EPOCH, NO_OFFSET
        return self._epochs[slot - 1] if slot else epoch, self._starts[slot]

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch that wrote ``offset``; -1 if unknown."""
        slot = bisect_right(self._starts, offset)
        return self._epochs[slot - 1] if slot else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop epochs that begin at or after ``end_offset``, the new log end."""
        while self._starts and self._starts[-1] >= end_offset:
            self._starts.pop()
            self._epochs.pop()
            self.written_epoch = _STALE

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop epochs that end before ``start_offset``. The epoch that contains this offset now begins there."""
        slot = bisect_right(self._starts, start_offset)
        if slot and (slot > 1 or self._starts[0] != start_offset):
            del self._starts[: slot - 1], self._epochs[: slot - 1]
            self._starts[0] = start_offset
            self._write()

    def replace(self, entries: Sequence[tuple[int, int]]) -> None:
        """Durably replace all epochs by ``entries``: (epoch, start offset), oldest first, strictly ascending."""
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self._write(durable=True)

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self._write()

    def move_to(self, path: str) -> None:
        self._path = path

    def prepare_sync(self) -> tuple[str | None, Callable[[], None]]:
        """(Path to fsync, done): the file that must be fsynced, with its directory, before records count as durable,
        and a function to call afterwards. None if the file is durable already."""
        count = self._write_count
        path = self._path if self._synced_count < count else None

        def done() -> None:
            self._synced_count = max(self._synced_count, count)

        return path, done

    def _write(self, *, durable: bool = False) -> None:
        durable = durable or self.syncs_each_write
        write_atomically(self._path, format_checkpoint(self.entries), durable=durable)
        self.written_epoch = self.latest_epoch
        self._write_count += 1
        if durable:
            self._synced_count = self._write_count

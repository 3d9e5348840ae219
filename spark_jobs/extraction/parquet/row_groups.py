"""Collects batches until they fill a row group of their folder's file. Pure.

Memory is bounded, whatever the number of folders. When all folders together have collected too much, the fullest
folders get smaller row groups.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

ROW_GROUP_BYTES = 64 * 1024 * 1024
"""The size of a row group's Arrow data, before it is encoded."""
MOST_BYTES = 128 * 1024 * 1024
_BATCH_BYTES = 4096
"""Memory that a batch takes in addition to its data."""


class RowGroup(NamedTuple):
    folder: str
    batches: list[pa.RecordBatch]


class RowGroups:
    def __init__(self, row_group_bytes: int = ROW_GROUP_BYTES, most_bytes: int = MOST_BYTES) -> None:
        self._row_group_bytes = row_group_bytes
        self._most_bytes = most_bytes
        self._batches: dict[str, list[pa.RecordBatch]] = {}
        self._bytes: dict[str, int] = {}
        self._total_bytes = 0

    def add(self, folder: str, batch: pa.RecordBatch) -> Iterator[RowGroup]:
        """The row groups that are complete now."""
        if not batch.num_rows:
            return
        size = batch.nbytes + _BATCH_BYTES
        self._batches.setdefault(folder, []).append(batch)
        self._bytes[folder] = self._bytes.get(folder, 0) + size
        self._total_bytes += size
        if self._bytes[folder] >= self._row_group_bytes:
            yield self._take(folder)
        if self._total_bytes > self._most_bytes:
            yield from self._relief()

    def finish(self) -> Iterator[RowGroup]:
        """The row groups that are left, in the order of the folders."""
        for folder in sorted(self._batches):
            yield self._take(folder)

    def _relief(self) -> Iterator[RowGroup]:
        """Row groups of the fullest folders, until half of the memory is free."""
        for folder in sorted(self._bytes, key=self._bytes.__getitem__, reverse=True):
            if self._total_bytes <= self._most_bytes // 2:
                return
            yield self._take(folder)

    def _take(self, folder: str) -> RowGroup:
        self._total_bytes -= self._bytes.pop(folder)
        return RowGroup(folder, self._batches.pop(folder))

"""Records of a live cluster as squares: a batch is the records between two samples of a high watermark. Pure.

The recorder knows offsets, not records. A square is red only if offsets prove a fault: a high watermark or a committed
offset that decreased.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from kafka_zk.recorder.recording.samples import Sample
from kafka_zk.recorder.web.records import GROUP, REPLICA, WENT_BACK, PartitionRecords, Row, Square

MOST_BATCHES = 12
"""Number of batches shown for a partition, the newest ones; older ones are only counted."""


class Batch(NamedTuple):
    """Offsets ``first`` to ``end`` - 1. ``is_gone``: the high watermark went back to ``first``."""

    first: int
    end: int
    is_gone: bool = False


def batches_of(name: str, ends: Sequence[Sample], committed: Mapping[str, Sequence[Sample]]) -> PartitionRecords | None:
    """The partition's squares; None if the high watermark is unknown.

    Args:
        ends: samples of the partition's high watermark, in order; an unknown value is left out of the picture.
        committed: samples of its committed offset, by group.
    """
    known = _known(ends)
    if not known:
        return None
    all_batches = list(_batches(known))
    shown = all_batches[-MOST_BATCHES:]
    older_count = shown[0].first if shown else known[-1]
    rows = [Row(REPLICA, "high watermark", str(known[-1]), older_count, 0, tuple(map(_square, shown)))]
    rows += [_group(group, _known(each), shown, older_count) for group, each in sorted(committed.items())]
    return PartitionRecords(name, tuple(str(each.first) for each in shown), tuple(rows))


def _known(samples: Iterable[Sample]) -> list[int]:
    return [each.value for each in samples if each.value is not None]


def _batches(ends: Sequence[int]) -> Iterator[Batch]:
    for before, now in pairwise(ends):
        if now > before:
            yield Batch(before, now)
        elif now < before:
            yield Batch(now, before, is_gone=True)


def _square(batch: Batch) -> Square:
    count, offsets = batch.end - batch.first, f"offsets {batch.first} to {batch.end - 1}"
    if batch.is_gone:
        back = f"the high watermark went back from {batch.end} to {batch.first}"
        return Square(f"-{count}", "gone", f"{back}: {offsets} are gone, or are other records now", WENT_BACK)
    return Square(f"+{count}", "passed", f"{count} records: {offsets}")


def _group(group: str, commits: Sequence[int], shown: Sequence[Batch], older_count: int) -> Row:
    if not commits:
        return Row(GROUP, f"group {group}", "no offset", 0, 0, (None,) * len(shown))
    now, before = commits[-1], max(commits)
    note = f"committed {now}" + (f", before {before}" if before > now else "")
    squares = tuple(None if each.is_gone else _committed(each, now, before) for each in shown)
    return Row(GROUP, f"group {group}", note, min(now, older_count), 0, squares)


def _committed(batch: Batch, now: int, before: int) -> Square | None:
    if now >= batch.end:
        return Square("", "committed", "committed")
    if before > max(now, batch.first):
        said = f"the committed offset went back from {before} to {now}: the group may read these records again"
        return Square("", "back", said, WENT_BACK)
    count = now - batch.first
    return Square(str(count), "read", f"the first {count} are committed") if count > 0 else None

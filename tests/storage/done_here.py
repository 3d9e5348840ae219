"""Runs work synchronously that a broker does in steps or in other threads: cleaning, searching, converting."""

from kafka_zk.base.types import TimestampOffset
from kafka_zk.storage.cleaner.cleaner import CleanedSegment, CleanerConfig
from kafka_zk.storage.cleaner.log_to_clean import Cleaning, examine
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.conversion import down_convert_batch
from kafka_zk.storage.records.record_batch import MAX_UNCOMPRESSED_BYTES, Buffer, iter_batches
from kafka_zk.storage.segments.timestamp_search import Result, Search


def swap_here(cleaning: Cleaning, cleaned: CleanedSegment, now_ms: int) -> bool:
    """Carry out ``Cleaning.swap_steps``; returns whether the cleaning was still wanted."""
    for sync in cleaning.swap_steps(cleaned, now_ms):
        sync()
    return not cleaning.is_aborted


def clean_here(log: Log, config: CleanerConfig, now_ms: int) -> Cleaning | None:
    """Clean a log synchronously, whatever its dirty ratio; None if there is nothing to clean.

    Raises: as ``CleanWork.run``, OSError.
    """
    to_clean = examine(log, now_ms)
    if not to_clean.has_work:
        return None
    cleaning = Cleaning(to_clean, config, now_ms)

    def swap(cleaned: CleanedSegment) -> None:
        swap_here(cleaning, cleaned, now_ms)

    end_offset = None
    try:
        end_offset = cleaning.work.run(swap).end_offset
    finally:
        cleaning.finish(end_offset)
    return cleaning


def search_here(search: Search) -> TimestampOffset | None:
    """Run a whole search synchronously."""
    result: Result = None
    try:
        while True:
            wanted = search.send(result)
            result = None if wanted is None else wanted[1].run_on(wanted[0].fileno())
    except StopIteration as stop:
        found: TimestampOffset | None = stop.value
        return found


def down_convert(batches: Buffer, magic: int, *, first_offset: int = 0) -> bytes:
    """The records of whole magic-2 batches as message sets of magic 0 or 1; arguments as in ``down_convert_batch``."""
    view = memoryview(batches)
    return b"".join(
        down_convert_batch(
            view[position : position + header.size_bytes],
            header,
            magic,
            first_offset=first_offset,
            max_uncompressed_bytes=MAX_UNCOMPRESSED_BYTES,
        )
        for position, header in iter_batches(batches)
    )

"""What a log knows of its producers and of aborted transactions, read anew: after a start and after a truncation.

The newest snapshot that still holds is loaded, and what follows it is replayed. A replay meets the markers, so the
transaction indexes of that part of the log are brought into line with it, too.
Source: UnifiedLog.rebuildProducerState, LogSegment.updateProducerState@3.9. Tests: tests/storage/test_transactions.py.
"""

from kafka_zk.storage.log_segments import LogSegments
from kafka_zk.storage.producer_state import ProducerState
from kafka_zk.storage.recovery_work import ReplayWork, Steps


def reload_producers(
    producers: ProducerState,
    segments: LogSegments,
    log_start_offset: int,
    log_end_offset: int,
    rebuild_from: int | None = None,
) -> Steps[None]:
    """The replay may be done elsewhere. ``rebuild_from``: the transaction indexes cannot be relied on from there on."""
    start_offset = producers.load_snapshot(segments.directory, log_start_offset, log_end_offset, rebuild_from)
    if start_offset >= log_end_offset:
        if rebuild_from is not None:
            segments.replace_aborted(log_end_offset, ())
        return
    following = segments[segments.slot_of(start_offset) :]
    replayed = yield ReplayWork(
        segments.directory,
        tuple((segment.base_offset, segment.size_bytes) for segment in following),
        start_offset,
        log_end_offset,
        list(producers.producers.values()),
        sum(segment.size_bytes for segment in following),
    )
    if replayed is None:
        replayed = producers.replay(following, start_offset, log_end_offset)
    else:
        producers.take(replayed)
    segments.replace_aborted(start_offset, replayed.aborted)

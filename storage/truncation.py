"""Cutting a log at an offset: segments, indexes, epochs, producer state. Tests: tests/storage/test_local_log.py."""

from typing import TYPE_CHECKING

from kafka_zk.storage import producer_state
from kafka_zk.storage.errors import OffsetOutOfRange
from kafka_zk.storage.files import remove_file, sync_file, sync_path
from kafka_zk.storage.recovery_work import ReplayWork, Steps, run_here

if TYPE_CHECKING:
    from kafka_zk.storage.local_log import LocalLog


def truncate_to(log: "LocalLog", offset: int, now_ms: int) -> bool:
    """See ``LocalLog.truncate_to``."""
    _refuse_negative(log, offset)
    if offset >= log.log_end_offset:
        # A leader that wrote nothing has its epoch begin at the log's end, where the next leader's may begin instead.
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        return False
    if offset < log.segments[0].base_offset:
        truncate_fully(log, offset, now_ms)
        return True
    behind = [segment for segment in log.segments if segment.base_offset > offset]
    log.drop_segments(behind, now_ms)
    if behind:
        sync_path(str(log.directory))  # they must not come back beside what is written in their place
    last = log.segments[-1]
    span = last.find(offset)
    end_offset = offset
    if span is not None:
        end_offset = span.base_offset
        last.truncate_to_position(span.position)
        sync_file(last.fileno())  # once another segment follows, no recovery looks at this end again
    finish(log, end_offset)
    return True


def truncate_fully(log: "LocalLog", offset: int, now_ms: int) -> None:
    """See ``LocalLog.truncate_fully_and_start_at``."""
    _refuse_negative(log, offset)
    log.drop_segments(list(log.segments), now_ms)
    log.begin_segment(offset, now_ms)
    sync_path(str(log.directory))
    log.log_start_offset = offset
    log.leader_epochs.clear()
    finish(log, offset)


def _refuse_negative(log: "LocalLog", offset: int) -> None:
    if offset < 0:
        raise OffsetOutOfRange(f"{log.topic_partition} cannot be truncated to offset {offset}")


def finish(log: "LocalLog", end_offset: int) -> None:
    """Bring everything that hangs on the log end offset back to ``end_offset``."""
    log.truncation_count += 1
    log.log_end_offset = end_offset
    log.recovery_point = min(log.recovery_point, end_offset)
    log.log_start_offset = min(log.log_start_offset, end_offset)
    log.leader_epochs.truncate_from_end(end_offset)
    log.activate_last_segment()
    reload_producers(log)


def reload_producers(log: "LocalLog") -> None:
    """Read the newest snapshot that still holds and replay what follows it."""
    run_here(reload_producers_steps(log))


def reload_producers_steps(log: "LocalLog") -> Steps[None]:
    """As ``reload_producers``; the replay may be done elsewhere."""
    directory = str(log.directory)
    offsets = producer_state.snapshot_offsets(directory)
    for offset in offsets:
        if offset > log.log_end_offset:
            remove_file(producer_state.snapshot_path(directory, offset))
    state = log.producers
    state.clear()
    loaded = producer_state.load_latest_snapshot(
        directory, log.log_start_offset, log.log_end_offset, offsets, log.observe
    )
    start_offset = log.log_start_offset
    if loaded is not None:
        state.load(*loaded)
        start_offset = loaded[1]
    if start_offset >= log.log_end_offset:
        return
    segments = log.segments[log.reader.slot_of(start_offset) :]
    files = tuple((segment.base_offset, segment.size_bytes) for segment in segments)
    size_bytes = sum(segment.size_bytes for segment in segments)
    known = list(state.producers.values())
    producers = yield ReplayWork(directory, files, start_offset, log.log_end_offset, known, size_bytes)
    if producers is None:
        producer_state.replay(state, segments, start_offset, log.log_end_offset)
    else:
        state.load(producers, state.snapshot_offset)

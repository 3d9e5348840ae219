"""Checks all batches of a closed segment on a thread, without blocking other threads for long.

Batches are checked in Python, which holds the interpreter's lock: 0.3 s for 1 GiB in batches of 16 KB, 1.7 s in batches
of 1 KB. So the thread pauses after each portion. Portions are read, not mapped, because a check that waits for a mapped
page would hold the lock for as long as the read takes.
"""

from kafka_zk.base.clock import sleep
from kafka_zk.storage.files import files
from kafka_zk.storage.files.checkpoints import MAX_INT
from kafka_zk.storage.records.record_batch import HEADER_SIZE, LOG_OVERHEAD
from kafka_zk.storage.segments.recovery import judge_batch, scan_segment

PORTION_BYTES = 1 << 20
MAX_PORTION_BYTES = 64 << 20
PAUSE_S = 0.005


def first_damage(path: str, size_bytes: int, base_offset: int) -> tuple[int, str] | None:
    """(Position, reason) of the first batch that is not sound in the first ``size_bytes``; None if all are.

    Raises: OSError.
    """
    with files.opened(path) as descriptor:
        position, next_offset, wanted = 0, base_offset, PORTION_BYTES
        while position < size_bytes:
            if wanted > MAX_PORTION_BYTES:
                return _damage_of_mapped(path, size_bytes, base_offset)
            portion = memoryview(files.pread(descriptor, min(wanted, size_bytes - position), position))
            is_last = position + len(portion) >= size_bytes or len(portion) < wanted
            checked, wanted = 0, PORTION_BYTES
            while checked < len(portion):
                batch = judge_batch(portion, checked, next_offset, base_offset, 0)
                if isinstance(batch, str):
                    needed = _batch_bytes(portion, checked)
                    if is_last or needed <= len(portion) - checked:
                        return position + checked, batch
                    wanted = max(wanted, needed)
                    break  # the next portion begins here
                next_offset, checked = batch[1] + 1, batch[4]
            if not portion:
                return position, f"the segment ends at {position} of {size_bytes} bytes"
            position += checked
            if position < size_bytes:
                sleep(PAUSE_S)
    return None


def _damage_of_mapped(path: str, size_bytes: int, base_offset: int) -> tuple[int, str] | None:
    """Like ``first_damage``, for batches that would take too much memory."""
    scan = scan_segment(path, "", "", base_offset, base_offset, MAX_INT)
    return None if scan.valid_bytes >= size_bytes else (scan.valid_bytes, str(scan.reason))


def _batch_bytes(portion: memoryview, position: int) -> int:
    """The size of the batch at ``position``; the header's size if the portion does not contain the whole header."""
    if len(portion) - position < HEADER_SIZE:
        return HEADER_SIZE
    return LOG_OVERHEAD + int.from_bytes(portion[position + 8 : position + 12], "big")

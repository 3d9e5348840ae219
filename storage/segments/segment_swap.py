"""Putting a cleaned segment in the place of those that it was made of; a crash anywhere leaves one or the others.

The names tell how far it has come. A ``.log.cleaned`` counts for nothing. Once it is a ``.log.swap``, it counts: it is
whole and durable, and what it replaces goes, first to ``.deleted``; then it gets its own name. Between these steps the
directory must be made durable, so that a power loss finds them in this order, too (``LogSegments.replace_steps``).

The rules are Kafka's, since a Kafka broker may start on the folder next, and ours on its. They hold for its splitting
of a segment, too, where several ``.swap`` files take the place of one: those at or after the lowest ``.cleaned`` one
are incomplete.

Source: LocalLog.replaceSegments, LogLoader.load@3.9. Tests: tests/storage/segments/test_segment_swap.py.
"""

from collections.abc import Sequence
from contextlib import suppress

from kafka_zk.storage.files import files
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.files.filenames import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file,
    parse_offset_file,
)
from kafka_zk.storage.files.files import remove_file, sync_path
from kafka_zk.storage.files.findings import Observe, discard, ignore
from kafka_zk.storage.segments.offset_index import OffsetIndex
from kafka_zk.storage.segments.recovery import scan_segment
from kafka_zk.storage.segments.segment_scan import iter_spans

INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
_TEMPORARY_SUFFIX = ".tmp"


def begin_swap(directory: str, base_offset: int) -> None:
    """Let ``.cleaned`` files, whose contents are durable, count: the log last, since it decides. Raises: OSError."""
    for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
        path = f"{directory}/{offset_file(base_offset, suffix)}"
        if files.exists(path + CLEANED_SUFFIX):
            files.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)


def end_swap(directory: str, base_offset: int) -> None:
    """Give ``.swap`` files their own names; what they replace has other names by now. Raises: OSError."""
    for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
        path = f"{directory}/{offset_file(base_offset, suffix)}"
        if files.exists(path + SWAP_SUFFIX):
            files.rename(path + SWAP_SUFFIX, path)


def remove_cleaned(directory: str) -> None:
    """Remove what a cleaning left that was given up."""
    for name, is_directory in files.list_directory(directory):
        if not is_directory and name.endswith(CLEANED_SUFFIX):
            remove_file(f"{directory}/{name}")


# -- after a crash ----------------------------------------------------------------------------------------------------


def finish_interrupted(directory: str, names: Sequence[str], observe: Observe = ignore) -> list[str]:
    """Complete what counts already and remove the rest; returns the names of the files that remain.

    Called before anything of the log is read. Raises: OSError.
    """
    if any(name.endswith(_LOG_SWAP) and not _is_sound(directory, name) for name in names):
        names = _take_back(directory, names, observe)
    names = _remove_temporary(directory, names)
    swapped = [found[0] for name in names if (found := parse_offset_file(name)) and found[1] == _LOG_SWAP]
    if swapped:
        names = _remove_replaced(directory, names, min(swapped), max(_end_offset(directory, each) for each in swapped))
        sync_path(directory)
    present = set(names)
    was_swapping = False
    # Logs go first, as in ``end_swap``: an index without its log is one of a log that has its name already.
    for name in sorted(names, key=lambda name: not name.endswith(_LOG_SWAP)):
        if not name.endswith(SWAP_SUFFIX):
            continue
        was_swapping = True
        path, target = f"{directory}/{name}", name.removesuffix(SWAP_SUFFIX)
        present.discard(name)
        if target in present and not name.endswith(_LOG_SWAP):  # the index of a log that did not become a .swap
            remove_file(path)
        else:
            files.rename(path, f"{directory}/{target}")
            present.add(target)
    if was_swapping:
        sync_path(directory)
    return sorted(present)


_LOG_SWAP = LOG_SUFFIX + SWAP_SUFFIX


def _is_sound(directory: str, name: str) -> bool:
    """Whether every batch of a ``.log.swap`` file is whole: what it replaces is removed on its word."""
    found = parse_offset_file(name)
    return found is not None and scan_segment(f"{directory}/{name}", "", "", found[0], 0, 0).reason is None


def _take_back(directory: str, names: Sequence[str], observe: Observe) -> list[str]:
    """Put damaged ``.swap`` files out of the way and give what they replace its own names again."""
    present = set(names)
    for name in names:
        own = name.removesuffix(DELETED_SUFFIX)
        if name.endswith(_LOG_SWAP) and not _is_sound(directory, name):
            observe(discard(f"{directory}/{name}", "it holds a broken batch", "the segments that it was made of stay"))
            present.discard(name)
        elif own != name and own not in present:
            files.rename(f"{directory}/{name}", f"{directory}/{own}")
            present = (present - {name}) | {own}
    sync_path(directory)
    return sorted(present)


def _remove_temporary(directory: str, names: Sequence[str]) -> list[str]:
    """Remove ``.deleted`` and ``.cleaned`` files, and ``.swap`` files at or after the lowest ``.cleaned`` one.

    The ``.swap`` files go first: without the ``.cleaned`` one they would count after another crash.
    """
    cleaned = [found[0] for name in names if name.endswith(CLEANED_SUFFIX) and (found := parse_offset_file(name))]
    lowest = min(cleaned, default=None)
    incomplete = [
        name
        for name in names
        if lowest is not None
        and name.endswith(SWAP_SUFFIX)
        and (found := parse_offset_file(name))
        and found[0] >= lowest
    ]
    temporary = [name for name in names if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, _TEMPORARY_SUFFIX))]
    for name in incomplete:
        remove_file(f"{directory}/{name}")
    if incomplete:
        sync_path(directory)
    for name in temporary:
        remove_file(f"{directory}/{name}")
    gone = {*incomplete, *temporary}
    return [name for name in names if name not in gone]


def _remove_replaced(directory: str, names: Sequence[str], start_offset: int, end_offset: int) -> list[str]:
    """Remove the segments from ``start_offset`` to before ``end_offset`` that ``.swap`` files replace."""
    remaining = []
    for name in names:
        found = parse_offset_file(name)
        if found and not name.endswith(SWAP_SUFFIX) and (
            start_offset <= found[0] < end_offset or (found[0] == start_offset and found[1] in INDEX_SUFFIXES)
        ):
            remove_file(f"{directory}/{name}")
        else:
            remaining.append(name)
    return remaining


def _end_offset(directory: str, base_offset: int) -> int:
    """The offset after the last batch of a ``.log.swap`` file; the base offset of an empty one."""
    path = f"{directory}/{offset_file(base_offset, _LOG_SWAP)}"
    size_bytes = files.size_bytes(path)
    index = OffsetIndex(f"{directory}/{offset_file(base_offset, OFFSET_INDEX_SUFFIX + SWAP_SUFFIX)}", base_offset)
    end_offset = base_offset
    with files.opened(path) as descriptor:
        for position in (index.last_entry[1], 0):
            with suppress(CorruptRecord):
                for span in iter_spans(descriptor, position, size_bytes):
                    end_offset = span.last_offset + 1
                return end_offset
    return end_offset

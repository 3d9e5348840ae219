"""Replaces segments by a cleaned segment. After a crash, either the old segments or the new one are valid.

File names record the progress. A ``.log.cleaned`` file is ignored; when complete and durable, it becomes ``.log.swap``,
which is valid. Then the old segments become ``.deleted``, and the new one gets its final name. The directory is synced
between these steps, so that a power loss preserves their order (``LogSegments.replace_steps``).

These rules are Kafka's, because a Java broker may open the same directory. They allow for segments that Kafka splits
into several ``.swap`` files: those at or after the lowest ``.cleaned`` file are incomplete.
Source: LocalLog.replaceSegments, LogLoader.load@3.9.
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
    """Rename durable ``.cleaned`` files to ``.swap``, the log last: that makes the swap valid. Raises: OSError."""
    for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
        path = f"{directory}/{offset_file(base_offset, suffix)}"
        if files.exists(path + CLEANED_SUFFIX):
            files.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)


def end_swap(directory: str, base_offset: int) -> None:
    """Give ``.swap`` files their final names, after the replaced ones were renamed. Raises: OSError."""
    for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
        path = f"{directory}/{offset_file(base_offset, suffix)}"
        if files.exists(path + SWAP_SUFFIX):
            files.rename(path + SWAP_SUFFIX, path)


def remove_cleaned(directory: str) -> None:
    """Remove the files of an abandoned cleaning."""
    for name, is_directory in files.list_directory(directory):
        if not is_directory and name.endswith(CLEANED_SUFFIX):
            remove_file(f"{directory}/{name}")


# -- after a crash ----------------------------------------------------------------------------------------------------


def finish_interrupted(directory: str, names: Sequence[str], observe: Observe = ignore) -> list[str]:
    """Complete valid swaps, and remove other temporary files. Returns the remaining names.

    Call this before reading a file of the log. Raises: OSError.
    """
    if any(name.endswith(_LOG_SWAP) and not _is_sound(directory, name) for name in names):
        names = _take_back(directory, names, observe)
    names = _remove_temporary(directory, names)
    swapped = [found[0] for name in names if (found := parse_offset_file(name)) and found[1] == _LOG_SWAP]
    if swapped:
        names = _remove_replaced(directory, names, [(each, _end_offset(directory, each)) for each in swapped])
        sync_path(directory)
    present = set(names)
    was_swapping = False
    # Logs first, as in ``end_swap``: if an index's log is not a .swap file, that log already has its final name.
    for name in sorted(names, key=lambda name: not name.endswith(_LOG_SWAP)):
        if not name.endswith(SWAP_SUFFIX):
            continue
        was_swapping = True
        path, target = f"{directory}/{name}", name.removesuffix(SWAP_SUFFIX)
        present.discard(name)
        if target in present and not name.endswith(_LOG_SWAP):  # the log of this index did not become a .swap file
            remove_file(path)
        else:
            files.rename(path, f"{directory}/{target}")
            present.add(target)
    if was_swapping:
        sync_path(directory)
    return sorted(present)


_LOG_SWAP = LOG_SUFFIX + SWAP_SUFFIX


def _is_sound(directory: str, name: str) -> bool:
    """True if every batch of a ``.log.swap`` file is valid, so that the segments that it replaces can be removed."""
    found = parse_offset_file(name)
    return found is not None and scan_segment(f"{directory}/{name}", "", "", found[0], 0, 0).reason is None


def _take_back(directory: str, names: Sequence[str], observe: Observe) -> list[str]:
    """Rename damaged ``.swap`` files, and restore the segments that they replace."""
    present = set(names)
    for name in names:
        own = name.removesuffix(DELETED_SUFFIX)
        if name.endswith(_LOG_SWAP) and not _is_sound(directory, name):
            reason = "it contains an invalid batch"
            observe(discard(f"{directory}/{name}", reason, "the segments that it would replace are kept"))
            present.discard(name)
        elif own != name and own not in present:
            files.rename(f"{directory}/{name}", f"{directory}/{own}")
            present = (present - {name}) | {own}
    sync_path(directory)
    return sorted(present)


def _remove_temporary(directory: str, names: Sequence[str]) -> list[str]:
    """Remove ``.deleted`` and ``.cleaned`` files, and ``.swap`` files at or after the lowest ``.cleaned`` one.

    ``.swap`` files are removed first, because without the ``.cleaned`` file they would seem valid after another crash.
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


def _remove_replaced(directory: str, names: Sequence[str], swapped: Sequence[tuple[int, int]]) -> list[str]:
    """Remove the segments that ``.swap`` files replace.

    ``swapped``: (start offset, end offset) of each ``.log.swap`` file. Unlike in Kafka, segments between two of them
    stay, because the files may belong to different cleanings.
    """
    remaining = []
    for name in names:
        found = parse_offset_file(name)
        if (
            found
            and not name.endswith(SWAP_SUFFIX)
            and any(
                start <= found[0] < end or (found[0] == start and found[1] in INDEX_SUFFIXES) for start, end in swapped
            )
        ):
            remove_file(f"{directory}/{name}")
        else:
            remaining.append(name)
    return remaining


def _end_offset(directory: str, base_offset: int) -> int:
    """The offset after the last batch of a ``.log.swap`` file; the base offset if it is empty."""
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

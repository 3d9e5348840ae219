"""The judges of compaction can fail: each case removes one safeguard from the source, and a test must then fail."""

import inspect
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from kafka_zk.native.loading import Implementation
from kafka_zk.storage.cleaner import cleaned_transactions, cleaner, log_to_clean, offset_map, record_filter
from kafka_zk.storage.segments import log_segments, segment_swap
from tests.changed_source import compiled
from tests.storage.cleaner import test_log_to_clean, test_record_filter
from tests.storage.cleaner.test_cleaner_model import run_history
from tests.storage.test_compaction_crash import crash_everywhere

pytestmark = pytest.mark.slow

SEEDS = 40


def model(path: Path, seed: int) -> None:
    run_history(path, seed)


def kills(path: Path, seed: int) -> None:
    crash_everywhere(path, seed, power=False)


def power_losses(path: Path, seed: int) -> None:
    crash_everywhere(path, seed, power=True)


def truncations(path: Path, seed: int) -> None:
    path.mkdir()
    test_log_to_clean.test_a_truncation_voids_it(path, seed % 10)


def cuts(path: Path, seed: int) -> None:
    path.mkdir()
    test_log_to_clean.test_a_log_that_is_cut_amid_a_swap_stays_cut(path, seed % 3, 7)


def retention(path: Path, seed: int) -> None:
    path.mkdir()
    test_log_to_clean.test_segments_that_retention_took_void_it(path)


def round_ends(path: Path, seed: int) -> None:
    test_record_filter.test_a_batch_that_must_stay_stays_without_records({"round_end_offset": 103})


def high_watermarks(path: Path, seed: int) -> None:
    path.mkdir()
    test_log_to_clean.test_nothing_is_cleaned_that_is_not_committed(path, 7, 6)


SAFEGUARDS: dict[str, tuple[ModuleType, str, str, Callable[[Path, int], None]]] = {
    "a batch counts as seen only when all its keys are in the map": (
        cleaner, "                if not self._note_keys(span, batch, offsets, loops):",
        "                offsets.latest_offset = max(offsets.latest_offset, span.last_offset)\n"
        "                if not self._note_keys(span, batch, offsets, loops):",
        model,
    ),
    "two keys with the same slot are two keys": (
        offset_map, "if content and (words[entry] != low or words[entry + 1] != high):", "if False:", model,
    ),
    "the last record of a key is kept": (
        offset_map, "place = content - 1 - first_offset", "place = offset - first_offset", model,
    ),
    "what was clean goes for a later record of its key": (
        record_filter, "0 <= last_offset_of(key) > offset", "False", model,
    ),
    "a tombstone gets its time": (
        record_filter, "keeps_tombstones = not header.has_delete_horizon or retention.now_ms < header.base_timestamp",
        "keeps_tombstones = False", model,
    ),
    "timestamps survive a delete horizon": (
        record_filter, "encode_varint(as_long(timestamp_delta + by_ms))", "encode_varint(timestamp_delta)", model,
    ),
    "the last batch of a producer is kept": (
        record_filter, "return header.last_offset == last.data_offset", "return False", model,
    ),
    "the last batch of a cleaning is kept": (
        record_filter, "header.next_offset == retention.round_end_offset", "False", round_ends,
    ),
    "a batch keeps its last offset": (
        record_filter, "last_offset_delta=header.last_offset_delta,\n    )\n    return rebuilt",
        "last_offset_delta=None,\n    )\n    return rebuilt", model,
    ),
    "a cleaned segment is durable before it counts": (
        cleaner, "files.sync_file(self._descriptor)", "pass", power_losses,
    ),
    "it counts, durably, before what it replaces goes": (
        log_segments,
        "        begin_swap(directory, base_offset)\n        yield partial(sync_path, directory)",
        "        begin_swap(directory, base_offset)\n        yield lambda: None", power_losses,
    ),
    "what it replaces has gone, durably, before it gets its name": (
        log_segments, "        yield partial(sync_path, directory)\n        end_swap(directory, base_offset)",
        "        yield lambda: None\n        end_swap(directory, base_offset)", power_losses,
    ),
    "what waits for its fsyncs is ended before the log is cut": (
        log_segments,
        "        self.settle()\n        behind = [", "        behind = [", cuts,
    ),
    "a start removes what a cleaned segment replaces": (
        segment_swap,
        "        names = _remove_replaced(directory, names, [(each, _end_offset(directory, each))"
        " for each in swapped])\n",
        "", kills,
    ),
    "a truncation voids a cleaning": (
        log_to_clean, "and log.truncation_count == self._truncation_count", "", truncations,
    ),
    "segments that have gone void a cleaning": (
        log_to_clean, "return segments if is_same else None", "return segments", retention,
    ),
    "aborted records replace nothing": (
        cleaner, "if self._ends.is_aborted(header):", "if False:", model,
    ),
    "aborted records go": (
        record_filter, "if retention.transactions.is_aborted(header):",
        "if retention.transactions.is_aborted(header) and False:", model,
    ),
    "committed records go by key": (
        record_filter, "if retention.transactions.is_aborted(header):",
        "if retention.transactions.is_aborted(header) or header.is_transactional:", model,
    ),
    "each transaction has its own end": (
        cleaned_transactions, "if ahead and ahead[0].offset <= header.base_offset:", "if False:", model,
    ),
    "a marker stays while something of its transaction is there": (
        cleaned_transactions, "return first_offset is not None", "return False", model,
    ),
    "a marker gets its time": (
        record_filter, "header.has_delete_horizon and header.base_timestamp <= retention.now_ms", "True", model,
    ),
    "what is not committed is not cleaned": (
        log_to_clean, "log.last_stable_offset, ", "", high_watermarks,
    ),
}  # fmt: skip


def functions(module: ModuleType) -> dict[str, FunctionType]:
    """Name -> function, for all functions and methods of a module."""
    found = {}
    for name, thing in vars(module).items():
        if isinstance(thing, FunctionType):
            found[name] = thing
        elif inspect.isclass(thing) and thing.__module__ == module.__name__:
            members = {key: value for key, value in vars(thing).items() if isinstance(value, FunctionType | property)}
            for key, value in members.items():
                function = value.fget if isinstance(value, property) else value
                if isinstance(function, FunctionType):
                    found[f"{name}.{key}"] = function
    return found


def without(safeguard: str, patch: pytest.MonkeyPatch) -> None:
    """Remove the safeguard: compile the changed source, and replace the code of the changed functions."""
    module, text, replacement, _ = SAFEGUARDS[safeguard]
    source = inspect.getsource(module)
    assert source.count(text) == 1, f"the source has no single {text!r}"
    others = functions(compiled(module, source.replace(text, replacement)))
    for name, function in functions(module).items():
        if name in others and function.__module__ == module.__name__:
            patch.setattr(function, "__code__", others[name].__code__)


@pytest.mark.parametrize("safeguard", SAFEGUARDS)
def test_a_missing_safeguard_is_found(safeguard: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(safeguard, monkeypatch)
    monkeypatch.setattr(cleaner, "implementation", lambda: Implementation(None))  # C code has no source to change here
    judge = SAFEGUARDS[safeguard][3]
    for seed in range(SEEDS):
        try:
            judge(tmp_path / str(seed), seed)
        except Exception:
            return
    pytest.fail(f"{SEEDS} seeds found nothing")

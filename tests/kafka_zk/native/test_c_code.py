"""A short fuzz run of the C code with sanitizers, which covers nearly all of it, and calls that leak nothing."""

import gc
import itertools
import resource
from pathlib import Path

import pytest

from kafka_zk.native.loading import Native
from kafka_zk.protocol.produce import (
    PartitionData,
    PartitionResult,
    ProduceRequest,
    TopicData,
    write_produce_request,
)
from kafka_zk.storage.cleaner.offset_map import ENTRY_SIZE
from kafka_zk.storage.records.record_batch import encode_record
from tests.fuzz_native.campaign import can_build, covered_percent, fuzz

CALLS = 20_000
WARM_UP_CALLS = 2_000
LEAK_BYTES_AT_MOST = 500_000
"""Far less than one object per call."""


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.slow
@pytest.mark.skipif(not can_build(), reason="no C compiler")
def test_damaged_records_do_no_harm(tmp_path: Path) -> None:
    runs, accepted = fuzz(tmp_path, 2, seed=0)
    assert runs > accepted > 1000
    covered = covered_percent(tmp_path, seed=0)
    checked = {"compaction.c", "plain_commit.c", "produce.c", "record_check.c", "records.h", "siphash.h", "wire.h"}
    assert set(covered) == checked
    assert min(covered.values()) >= 95


@pytest.mark.slow
def test_calls_and_refusals_leak_nothing(native: Native) -> None:
    good = b"".join(encode_record(0, delta, b"%d" % delta, b"x" * 500) for delta in range(20))
    topics = [TopicData("t", [PartitionData(0, good)])]
    body = b"".join(bytes(part) for part in write_produce_request(9, ProduceRequest("id", 1, 1, topics)))
    results = [("t", [PartitionResult(0)])]
    secret, table, replaced = bytes(16), bytearray(ENTRY_SIZE * 101), bytearray(8)

    def call(data: bytes, key: bytes) -> None:
        cut = len(body) - len(key) % 16  # for a secret of the right length
        native.read_produce(9, memoryview(body)[:cut])
        native.write_produce(9, 7, results if len(key) == 16 else [*results, data], 0)
        native.digest(key, b"key")
        native.check_records(data, 0, 20, 0)
        native.note_keys(data, 0, 20, 0, 19, 0, key, table, 0, 100, 0, replaced)
        native.choose(data, 0, 20, 0, 5, True, key, table, 0, replaced)

    given = itertools.cycle(((good, secret), (good[:-1], secret), (good, secret[1:]), ("text", secret)))

    def calls(count: int) -> int:
        refused = 0
        for data, key in itertools.islice(given, count):
            try:
                call(data, key)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                refused += 1
        gc.collect()
        return refused

    calls(WARM_UP_CALLS)
    before = resident_bytes()
    assert calls(CALLS) == CALLS * 3 // 4
    assert resident_bytes() - before < LEAK_BYTES_AT_MOST

"""The compiled loops of a cleaning do what the interpreted ones do, on good batches and on bad ones."""

import hashlib
import random
from functools import partial
from pathlib import Path

import pytest

from kafka_zk.base.machine_code import MachineCode
from kafka_zk.storage.cleaner import cleaner, cleaner_kernel
from kafka_zk.storage.cleaner.cleaner import load_kernel
from kafka_zk.storage.cleaner.cleaner_kernel import CleanerKernel, digest, load_loops
from kafka_zk.storage.cleaner.offset_map import OffsetMap
from kafka_zk.storage.cleaner.record_filter import Chosen, choose, places
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.records.record_batch import HEADER_SIZE, BatchHeader, RecordBatchBuilder, read_header
from tests.storage.cleaner.test_cleaner_model import run_history
from tests.storage.compacted import check
from tests.storage.helpers import T0

pytest.importorskip("numba")


@pytest.fixture(scope="module")
def loops() -> MachineCode:
    found = load_loops(compiles=True)
    assert found is not None
    return found


def random_records(rng: random.Random) -> tuple[bytes, BatchHeader]:
    builder = RecordBatchBuilder()
    for _ in range(rng.randint(1, 40)):
        key = None if rng.random() < 0.1 else rng.randbytes(rng.choice((0, 1, 3, 20, 55, 56, 63, 64, 65, 200)))
        key = rng.choice((key, b"a", b"b", b"c"))
        value = rng.choice((None, b"", b"x" * 70, rng.randbytes(200)))
        builder.append(T0 + rng.randint(-(10**9), 10**9), key, value, [("h", None)] if rng.random() < 0.2 else ())
    batch = builder.build(base_offset=rng.choice((0, 1000, 1 << 40)))
    return batch[HEADER_SIZE:], read_header(batch)


def note_here(offsets: OffsetMap, records: bytes, header: BatchHeader, start_offset: int) -> bool:
    return all(
        offsets.put(key, header.base_offset + delta)
        for _, _, _, delta, key, _ in places(records, 0, header.record_count)
        if key is not None and header.base_offset + delta >= start_offset
    )


def test_digests_are_md5s(loops: MachineCode) -> None:
    rng = random.Random(0)
    for size in (*range(140), 1000, 65_536):
        data = rng.randbytes(3 + size + 5)
        assert digest(loops, data, 3, size) == hashlib.md5(data[3 : 3 + size]).digest()


@pytest.mark.parametrize("seed", range(40))
def test_the_map_and_the_choice_are_the_same(seed: int, loops: MachineCode) -> None:
    rng = random.Random(seed)
    memory_bytes = 24 * rng.choice((12, 40, 1000))
    offsets = rng.choice((None, range(100), range(1000, 2000)))
    here, compiled = OffsetMap(memory_bytes, 0.9, offsets), OffsetMap(memory_bytes, 0.9, offsets)
    kernel = CleanerKernel(compiled, loops)
    for _ in range(20):
        records, header = random_records(rng)
        before = rng.choice((0, HEADER_SIZE))
        data = bytes(before) + records
        start_offset = header.base_offset + rng.choice((-1, 0, 5))
        assert kernel.note_keys(data, before, header, start_offset) == note_here(here, records, header, start_offset)
        assert here.size == compiled.size and here.table[:] == compiled.table[:]
        assert here.replaced == compiled.replaced
        latest = header.base_offset + rng.choice((-1, 3, 100))
        keeps_tombstones = rng.random() < 0.5
        found: Chosen = kernel.choose(data, before, header, latest, keeps_tombstones)
        assert found == choose(here.get, records, 0, header, latest, keeps_tombstones, here.replaced)
    kernel.close()
    compiled.close()


@pytest.mark.parametrize("seed", range(200))
def test_damaged_records_are_refused_or_read_alike(seed: int, loops: MachineCode) -> None:
    """Whatever the bytes are; nothing outside of them is touched."""
    rng = random.Random(seed)
    records, header = random_records(rng)
    damaged = bytearray(records)
    for _ in range(rng.randint(1, 4)):
        damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    data = bytes(damaged[: rng.choice((len(damaged), rng.randrange(len(damaged))))])
    offsets = OffsetMap(24 * 1000)
    kernel = CleanerKernel(offsets, loops)

    def outcome(chooser: object) -> Chosen | None:
        try:
            return chooser(data, 0, header, 1 << 50, True)  # type: ignore[operator, no-any-return]
        except CorruptRecord:
            return None

    found, expected = outcome(kernel.choose), outcome(partial(choose, offsets.get))
    assert found == expected
    kernel.close()


@pytest.mark.parametrize("seed", range(1000, 1030))
def test_histories_come_to_the_same_end(
    tmp_path: Path, seed: int, loops: MachineCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaner, "KERNEL_BYTES", 0)
    check(run_history(tmp_path, seed))


def test_little_work_is_done_without_it(loops: MachineCode) -> None:
    offsets = OffsetMap(4096)
    assert load_kernel(offsets, cleaner.KERNEL_BYTES - 1) is None
    kernel = load_kernel(offsets, cleaner.KERNEL_BYTES)
    assert kernel is not None
    kernel.close()
    offsets.close()


def test_only_much_work_has_it_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load(*, compiles: bool) -> None:
        asked.append(compiles)

    monkeypatch.setattr(cleaner, "load_loops", load)
    for size_bytes in (cleaner.KERNEL_BYTES - 1, cleaner.KERNEL_BYTES, cleaner.COMPILE_BYTES):
        assert load_kernel(OffsetMap(4096), size_bytes) is None
    assert asked == [False, False, True]


def test_what_was_not_there_is_found_later(loops: MachineCode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker whose first cleaning was small is not left without the loops that a larger one compiled."""
    code: dict[bool, MachineCode | None] = {False: None, True: loops}

    def machine_code(*_: object, compiles: bool) -> MachineCode | None:
        return code[compiles]

    monkeypatch.setattr(cleaner_kernel, "machine_code", machine_code)
    monkeypatch.setattr(cleaner_kernel, "_loaded", [])
    cleaner_kernel._compiled.cache_clear()
    assert load_loops(compiles=False) is None
    assert load_loops(compiles=True) is loops
    assert load_loops(compiles=False) is loops
    monkeypatch.setattr(cleaner_kernel, "_loaded", [])
    code[False] = loops
    assert load_loops(compiles=False) is loops

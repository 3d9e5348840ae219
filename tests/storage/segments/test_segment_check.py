"""A closed segment is checked in portions, whatever the sizes of its batches."""

from pathlib import Path

import pytest

from kafka_zk.storage.segments import segment_check
from kafka_zk.storage.segments.segment_check import first_damage
from tests.storage.helpers import batch


@pytest.fixture(autouse=True)
def portions(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Use portions of 200 bytes. Returns the pauses, which take no time."""
    pauses: list[float] = []
    monkeypatch.setattr(segment_check, "PORTION_BYTES", 200)
    monkeypatch.setattr(segment_check, "sleep", pauses.append)
    return pauses


def batches(*sizes: int) -> bytes:
    """One record of each size; the base offsets count up from 10."""
    data = b""
    for offset, size in enumerate(sizes, 10):
        one = bytearray(batch(value=b"x" * size))
        one[:8] = offset.to_bytes(8, "big")
        data += one
    return data


SIZES = (1, 1, 60, 500, 1, 130, 2000, 1, 1, 1, 1)


def test_sound_batches_are_found_sound(tmp_path: Path, portions: list[float]) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(batches(*SIZES))
    assert first_damage(str(path), path.stat().st_size, 10) is None
    assert 4 < len(portions) < 20


@pytest.mark.parametrize("max_portion", [64 << 20, 1000])
def test_each_damaged_batch_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_portion: int) -> None:
    """Some batches are too large for memory, and some have a wrong length."""
    monkeypatch.setattr(segment_check, "MAX_PORTION_BYTES", max_portion)
    data = batches(*SIZES)
    path = tmp_path / "0.log"
    position = 0
    for count, _ in enumerate(SIZES):
        following = len(batches(*SIZES[: count + 1]))
        for place in (position + 8, position + 16, position + 61, following - 1):
            damaged = bytearray(data)
            damaged[place] ^= 0x11
            path.write_bytes(damaged)
            found = first_damage(str(path), len(data), 10)
            assert found is not None and found[0] == position, (count, place)
        position = following


@pytest.mark.parametrize("missing", [1, 70, 100])
def test_a_segment_that_is_cut_is_damaged(tmp_path: Path, missing: int) -> None:
    data = batches(*SIZES)
    path = tmp_path / "0.log"
    path.write_bytes(data[:-missing])
    found = first_damage(str(path), len(data), 10)
    assert found is not None and found[0] >= len(batches(*SIZES[:-2]))


def test_offsets_that_go_back_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(batches(1, 1) + batches(1))
    assert first_damage(str(path), path.stat().st_size, 10) == (
        len(batches(1, 1)), "offset 10 where at least 12 was expected"
    )  # fmt: skip


def test_what_follows_the_size_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(batches(1, 1) + b"rest")
    assert first_damage(str(path), len(batches(1, 1)), 10) is None

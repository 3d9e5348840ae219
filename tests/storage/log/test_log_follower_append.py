"""Appends of a follower: it checks the leader's bytes and writes them unchanged."""

from pathlib import Path

import pytest

from kafka_zk.storage.files.errors import CorruptRecord, InvalidRecord
from kafka_zk.storage.log.log import Log
from tests.storage.helpers import T0, append, batch, new_log, present, read_offsets


def copied(tmp_path: Path) -> tuple[Log, bytes, Log]:
    """A leader's log, its bytes, and an empty follower."""
    leader = new_log(tmp_path / "leader")
    for number in range(4):
        append(leader, batch(3, producer_id=1, producer_epoch=0, base_sequence=3 * number), leader_epoch=number)
    return leader, present(leader.read(0, 1 << 20).slice).read(), new_log(tmp_path / "follower", segment_bytes=250)


def test_a_copy_is_byte_for_byte_the_leaders_and_knows_its_epochs_and_producers(tmp_path: Path) -> None:
    """The copy is equal across rolls, and for any division of the bytes into fetches."""
    leader, data, follower = copied(tmp_path)
    first = follower.append_as_follower(data[: len(data) // 2 + 7], now_ms=T0)
    assert first.first_offset == 0
    rest = present(leader.read(follower.log_end_offset, 1 << 20).slice).read()
    assert follower.append_as_follower(memoryview(rest), now_ms=T0).last_offset == 11
    assert b"".join(segment.read(0, segment.size_bytes) for segment in follower.segments) == data
    assert follower.leader_epochs.entries == leader.leader_epochs.entries
    assert follower.producers.producers[1].batches == leader.producers.producers[1].batches
    assert read_offsets(follower) == list(range(12))


def test_nothing_is_written_of_a_fetch_with_damage(tmp_path: Path) -> None:
    """CRC and order are checked before the first byte goes to disk."""
    _, data, follower = copied(tmp_path)
    damaged = bytearray(data)
    damaged[-1] ^= 1
    with pytest.raises(CorruptRecord):
        follower.append_as_follower(bytes(damaged), now_ms=T0)
    assert follower.log_end_offset == 0
    follower.append_as_follower(data, now_ms=T0)
    with pytest.raises(InvalidRecord):
        follower.append_as_follower(data, now_ms=T0)
    assert follower.log_end_offset == 12


def test_a_partial_batch_alone_changes_nothing(tmp_path: Path) -> None:
    """The result shows that nothing was appended."""
    _, data, follower = copied(tmp_path)
    assert follower.append_as_follower(data[:50], now_ms=T0)[:2] == (-1, -1)


def test_gaps_that_compaction_left_are_kept(tmp_path: Path) -> None:
    """A follower of a compacted log has the leader's offsets."""
    _, _, follower = copied(tmp_path)
    data = batch(2)
    data[:8] = (50).to_bytes(8, "big")
    assert follower.append_as_follower(bytes(data), now_ms=T0)[:2] == (50, 51)
    assert read_offsets(follower) == [50, 51]

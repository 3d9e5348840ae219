"""The arithmetic of the rebalance bench."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.rebalance import deliveries
from tests.bench.rebalance.deliveries import Delivery

_MS = 1_000_000


def _steady(member: str, start_ms: int, end_ms: int, offset: int = 0) -> list[Delivery]:
    """One record every 10 ms."""
    return [Delivery(at * _MS, member, offset + index) for index, at in enumerate(range(start_ms, end_ms, 10))]


def test_a_partition_that_moved_is_silent_until_the_new_owner_delivers() -> None:
    """The change is visible at 1,000, and the partition is delivered again at 1,300 after a silence of 310; the other
    partition is not affected.
    """
    found = deliveries.change(
        {0: _steady("a", 0, 1000) + _steady("b", 1300, 2000, 100), 1: _steady("a", 0, 2000)},
        begun_ns=995 * _MS, visible_ns=1000 * _MS, end_ns=1900 * _MS,
    )  # fmt: skip
    assert found.moved == {0}
    assert found.stayed == {1}
    assert found.settled_ms == pytest.approx(300)
    assert found.silence_ms == {0: pytest.approx(310), 1: pytest.approx(10)}
    assert found.stayed_ratio == pytest.approx(1)
    assert found.repeated == 0


def test_a_partition_that_moved_has_moved_once_the_new_owner_delivers() -> None:
    """A longer silence later has another cause."""
    moved = [*_steady("a", 0, 1000), *_steady("b", 1050, 1500, 100), *_steady("b", 1700, 2000, 150)]
    found = deliveries.change({0: moved}, begun_ns=995 * _MS, visible_ns=1000 * _MS, end_ns=1900 * _MS)
    assert found.settled_ms == pytest.approx(50)
    assert found.silence_ms == {0: pytest.approx(60)}


def test_a_partition_that_stayed_but_stopped_counts_until_it_resumes() -> None:
    """In an eager rebalance, the owner is the same, yet no record came for 200 ms, and two records came twice."""
    found = deliveries.change(
        {0: _steady("a", 0, 1050) + _steady("a", 1240, 2000, 103)},
        begun_ns=1000 * _MS, visible_ns=1000 * _MS, end_ns=1900 * _MS,
    )  # fmt: skip
    assert found.moved == frozenset()
    assert found.settled_ms == pytest.approx(240)
    assert found.longest_silence_ms(found.stayed) == pytest.approx(200)
    assert found.stayed_ratio == pytest.approx(20)
    assert found.repeated == 2


def test_a_partition_that_nobody_delivers_again_is_not_settled() -> None:
    """The partition must not look like one that was never silent."""
    with pytest.raises(deliveries.NotSettled):
        deliveries.change({0: _steady("a", 0, 1000)}, 1000 * _MS, 1000 * _MS, 2000 * _MS)


def test_a_member_that_returns_has_not_moved_its_partitions() -> None:
    """Nor do its partitions count as having stayed: the silence during the member's absence is reported separately."""
    found = deliveries.change(
        {0: _steady("a", 0, 1000) + _steady("a", 1500, 2000, 100), 1: _steady("b", 0, 2000)},
        begun_ns=1000 * _MS, visible_ns=1000 * _MS, end_ns=1900 * _MS, restarted="a",
    )  # fmt: skip
    assert (found.moved, found.returned, found.stayed) == (frozenset(), frozenset({0}), frozenset({1}))
    assert found.settled_ms == pytest.approx(500)
    assert found.longest_silence_ms(found.stayed) == pytest.approx(10)


def test_settled_asks_every_partition_and_every_member() -> None:
    """A group is not settled if it has a partition without records, a zombie, a member without deliveries, or two
    members that take turns.
    """
    both = {0: _steady("a", 0, 100), 1: _steady("b", 0, 100)}
    assert deliveries.settled(both, 2, 50 * _MS, {"a", "b"})
    assert not deliveries.settled(both, 3, 50 * _MS, {"a", "b"})
    assert not deliveries.settled(both, 2, 50 * _MS, {"a"})
    assert not deliveries.settled(both, 2, 50 * _MS, {"a", "b", "c"})
    assert not deliveries.settled(both, 2, 100 * _MS, {"a", "b"})
    handed_over = both | {0: _steady("a", 0, 60) + _steady("b", 60, 100)}
    assert not deliveries.settled(handed_over, 2, 50 * _MS, {"a", "b"})


def test_a_line_cut_short_is_read_when_it_is_whole(tmp_path: Path) -> None:
    """The reader reads files while members write them."""
    reader = deliveries.RecordReader(tmp_path)
    (tmp_path / "a").write_bytes(b"30 0 2\n10 0 1\n40 1")
    (tmp_path / "b").write_bytes(b"20 0 7\n")
    assert reader.read() == {0: [(10, "a", 1), (20, "b", 7), (30, "a", 2)]}
    with (tmp_path / "a").open("ab") as file:
        file.write(b" 5\n")
    assert reader.read()[1] == [(40, "a", 5)]
    reader.forget(25)
    assert reader.read() == {0: [(30, "a", 2)], 1: [(40, "a", 5)]}

"""Recently used values are kept, up to a bound."""

import pytest

from kafka_zk.base.recent import Recent


def test_what_is_used_is_kept_and_the_rest_goes() -> None:
    kept: Recent[str, int] = Recent(100, keep_ms=1_000)
    kept.put("used", 1, 0)
    kept.put("idle", 2, 0)
    for now_ms in range(0, 5_000, 500):
        assert kept.find("used", now_ms) == 1
    assert kept.find("idle", 5_000) is None
    kept.put("new", 3, 5_000)
    assert len(kept) == 2


def test_a_flood_leaves_those_that_are_used() -> None:
    kept: Recent[str, int] = Recent(100, keep_ms=10**9)
    kept.put("used", 1, 0)
    for number in range(100_000):
        kept.put(f"flood {number}", number, 0)
        if number % 50 == 0:
            assert kept.find("used", 0) == 1
        assert len(kept) <= 200 and len(kept._dropped) <= 100


def test_the_younger_ones_are_always_the_same_object() -> None:
    """Callers keep a reference to this dictionary for fast lookups."""
    kept: Recent[str, int] = Recent(1, keep_ms=1_000)
    young = kept.young
    for number in range(10):
        kept.put(str(number), number, 0)
    kept.clear()
    assert kept.young is young and not kept.items()


def test_a_look_finds_what_is_not_among_the_younger_ones() -> None:
    kept: Recent[str, int] = Recent(1, keep_ms=1_000)
    with pytest.raises(KeyError):
        kept.young["one"]
    kept.young.find = len
    kept.put("one", 1, 0)
    assert (kept.young["one"], kept.young["three"], len(kept)) == (1, 5, 1)

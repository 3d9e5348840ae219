"""Which recently used values the cache keeps."""

from kafka_zk.storage.tiered.recent_values import RecentValues

KIB = 1024


def test_the_value_that_was_not_used_for_longest_is_forgotten_first() -> None:
    recent: RecentValues[str, int] = RecentValues(lambda: 5 * KIB)
    for number, key in enumerate("abc"):
        recent.keep(key, number, KIB)
    assert recent.get("a") == 0
    recent.keep("d", 3, KIB)
    assert [recent.get(key) for key in "abcd"] == [0, None, 2, 3]


def test_one_value_is_kept_even_if_it_is_too_large() -> None:
    recent: RecentValues[str, int] = RecentValues(lambda: KIB)
    recent.keep("a", 1, 10)
    recent.keep("b", 2, 10 * KIB)
    assert (recent.get("a"), recent.get("b")) == (None, 2)


def test_the_limit_may_change_and_values_do_not() -> None:
    limit = 10 * KIB
    recent: RecentValues[str, int] = RecentValues(lambda: limit)
    for key in "abc":
        recent.keep(key, 1, KIB)
    recent.keep("a", 2, KIB)
    assert recent.get("a") == 1
    limit = 2 * KIB
    recent.keep("c", 3, KIB)
    assert [recent.get(key) for key in "abc"] == [1, None, None]

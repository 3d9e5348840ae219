"""White and black lists; tests/peers/groups/test_assignors.py compares the whole list of expressions with Java's."""

from __future__ import annotations

import random
import warnings

import pytest

from kafka_zk.rebalance.topic_filter import InvalidTopicFilter, java_pattern, normalized, topic_filter
from kafka_zk.registry.znodes.consumers import BLACK_LIST, WHITE_LIST
from tests.rebalance.java_regexes import REGEXES, TOPIC_NAMES, random_regex


@pytest.mark.parametrize(
    ("written", "registered"),
    [
        ("t1, t2", "t1|t2"),
        ("  'a.*'\n", "a.*"),
        ("\"'t'\"", "t"),
        ("it's", "it's"),
        ("a\tb", "a\tb"),
    ],
)
def test_normalized_is_what_kafka_registers(written: str, registered: str) -> None:
    """Spaces are removed everywhere; quotes and other whitespace only at both ends."""
    assert normalized(written) == registered
    assert normalized(registered) == registered


def test_the_whole_name_must_match() -> None:
    """``t1`` does not match as a prefix."""
    allowed = topic_filter(WHITE_LIST, "t1|t")
    assert [name for name in ("t", "t1", "t10", "at") if allowed(name)] == ["t", "t1"]


def test_a_black_list_is_the_rest() -> None:
    """The internal topic is excluded, unless the configuration includes internal topics."""
    blocked, listed = (topic_filter(pattern, "[ab].*") for pattern in (BLACK_LIST, WHITE_LIST))
    names = [name for name in TOPIC_NAMES if name != "__consumer_offsets"]
    assert all(blocked(name) != listed(name) for name in names)
    assert not blocked("__consumer_offsets")
    assert topic_filter(BLACK_LIST, "a", exclude_internal_topics=False)("__consumer_offsets")


@pytest.mark.parametrize(
    ("regex", "matched"),
    [
        (r"\p{Lower}\p{Digit}", {"t1", "t2"}),
        (r"\Qa.b\E", {"a.b"}),
        (r"(?i)T1\z", {"t1", "T1"}),
        (r"(?<n>.)-y-\k<n>", {"x-y-x"}),
        (r"a++b", {"ab", "aab"}),
        (r"[]ab]+", {"a", "aa", "ab", "abab", "aab", "a]b"}),
        (r"\P{Alpha}", {"1", "-", "_", "."}),
    ],
)
def test_java_is_translated(regex: str, matched: set[str]) -> None:
    """Each of these expressions has another syntax or another meaning in Python."""
    assert {name for name in TOPIC_NAMES if java_pattern(regex).fullmatch(name)} == matched


@pytest.mark.parametrize(
    "regex", ["[a-z&&[^b]]", "[a[b]]", r"\G", r"\p{L}", "(?x)a", "a(?i)b", r"\01", "a{,2}", "(", "\\"]
)
def test_an_untranslatable_expression_is_refused(regex: str) -> None:
    """The error message contains the expression. No expression gets another meaning."""
    with pytest.raises(InvalidTopicFilter) as refused:
        java_pattern(regex)
    assert repr(regex) in str(refused.value)


def test_any_text_is_accepted_or_refused() -> None:
    """Any text in a registration is accepted or raises InvalidTopicFilter, without a warning."""
    rng = random.Random(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for regex in [*REGEXES, *(random_regex(rng) for _ in range(3000))]:
            try:
                java_pattern(regex)
            except InvalidTopicFilter:
                continue

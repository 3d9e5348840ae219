"""``roundrobin``: the same assignments as Kafka's, and Java's hash."""

from __future__ import annotations

import pytest
from hypothesis import given

from kafka_zk.rebalance.assignment import group_snapshot
from kafka_zk.rebalance.roundrobin import RoundRobinAssignor, java_string_hash
from tests.rebalance.golden import GOLDEN
from tests.rebalance.groups import Group, equal_members, groups, loads


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_tables(name: str) -> None:
    """The tables are those of Kafka 0.10.2.2 (compared in tests/peers/groups/test_assignors.py, where possible with
    0.8.2.2).
    """
    assert RoundRobinAssignor().assign(GOLDEN[name].snapshot) == GOLDEN[name].assignment("roundrobin")


@pytest.mark.parametrize(
    ("text", "hashed"),
    [("", 0), ("a", 97), ("[t1,0]", -1581082495), ("[t2,0]", -1581052704), ("polygenelubricants", -(2**31))],
)
def test_hash_is_javas(text: str, hashed: int) -> None:
    """The hash is a signed 32-bit number; the two values in brackets were observed in a real group."""
    assert java_string_hash(text) == hashed


def test_equal_hashes_are_sorted_by_name() -> None:
    """[Aa,0] and [BB,0] have equal hashes; Kafka's order then depends on its hash table."""
    assert java_string_hash("[Aa,0]") == java_string_hash("[BB,0]")
    snapshot = group_snapshot(equal_members(2, ["BB", "Aa"]), {"BB": [0], "Aa": [0]})
    assert {str(partition): thread for partition, thread in RoundRobinAssignor().assign(snapshot).items()} == {
        "Aa-0": "m000-0",
        "BB-0": "m001-0",
    }


@given(groups(equal=True))
def test_balanced_over_all_topics_of_equal_members(group: Group) -> None:
    """Kafka documents this property of its assignor."""
    counts = loads(group.snapshot, RoundRobinAssignor().assign(group.snapshot)).values()
    assert max(counts) - min(counts) <= 1
